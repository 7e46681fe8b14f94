"""Makes tests/golden/io: small checkpoints of every form, written by TensorFlow itself (2.15.1, no random numbers).

Run: python tests/witness/make_io_golden.py tests/golden/io
The values are formulas that tests/io/test_bundle.c repeats.
"""
import os
import sys

import numpy as np
import tensorflow as tf

out = sys.argv[1]
os.makedirs(out, exist_ok=True)


def ramp(shape, dtype):
    n = int(np.prod(shape))
    i = np.arange(n)
    if dtype == tf.bool:
        return tf.constant((i % 3 == 0).reshape(shape))
    v = (i % 100) * 0.25 - 1 if dtype.is_floating else i % 100
    return tf.cast(tf.constant(v.reshape(shape), tf.float64), dtype)


def plain():
    t = {"global_step": tf.constant(123456789012, tf.int64)}
    for d in ["float32", "bfloat16", "uint8", "int32", "int64", "bool", "float64", "int8", "float16"]:
        t["dtypes/" + d] = ramp([3, 5], tf.as_dtype(d))
    t["dtypes/string"] = tf.constant(["", "raccoon", "x" * 300, "a\0b"])
    t["empty"] = ramp([0, 3], tf.float32)
    t["shape/one"] = ramp([1], tf.float32)
    t["shape/deep"] = ramp([2, 1, 3, 1, 2], tf.float32)
    for i in range(40):
        t["FeatureExtractor/layer_%03d/weights" % i] = ramp([2, i + 1], tf.float32)
    return t


def save(name, tensors):
    names = sorted(tensors)
    tf.raw_ops.SaveV2(prefix=os.path.join(out, name), tensor_names=names, shape_and_slices=[""] * len(names),
                      tensors=[tensors[n] for n in names])


save("plain.ckpt", plain())

# Three shards, as a saver with sharded=True leaves them.
parts = []
for i in range(3):
    p = os.path.join(out, "part%d" % i)
    tf.raw_ops.SaveV2(prefix=p, tensor_names=["s%d/a" % i, "s%d/b" % i], shape_and_slices=["", ""],
                      tensors=[ramp([4], tf.float32) + i, ramp([2, 2], tf.int32)])
    parts.append(p)
tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=parts, destination_prefix=os.path.join(out, "sharded.ckpt"),
                              delete_old_dirs=False)

# A variable cut into slices, along the first and along the second dimension.
whole = ramp([7, 6], tf.float32)
tf.raw_ops.SaveV2(prefix=os.path.join(out, "sliced.ckpt"), tensor_names=["rows", "rows", "columns", "columns", "next"],
                  shape_and_slices=["7 6 0,3:0,6", "7 6 3,4:0,6", "7 6 -:0,2", "7 6 -:2,4", ""],
                  tensors=[whole[:3], whole[3:], whole[:, :2], whole[:, 2:], whole])

# The old single file, whole and sliced; its blocks are packed with snappy.
names = ["v1/float", "v1/int64", "v1/int32", "v1/uint8", "v1/double", "v1/bool", "v1/big", "v1/rows", "v1/rows"]
tf.raw_ops.SaveSlices(filename=os.path.join(out, "v1.ckpt"), tensor_names=names,
                      shapes_and_slices=[""] * 7 + ["7 6 0,3:0,6", "7 6 3,4:0,6"],
                      data=[ramp([3, 5], tf.float32), ramp([4], tf.int64) - 2, ramp([4], tf.int32) - 2, ramp([4], tf.uint8),
                            ramp([4], tf.float64), ramp([4], tf.bool), ramp([100, 30], tf.float32), whole[:3], whole[3:]])
# Packed records: 20 of growing length.
for form in ["GZIP", "ZLIB"]:
    with tf.io.TFRecordWriter(os.path.join(out, form.lower() + ".record"), form) as w:
        for i in range(20):
            w.write(bytes((i * 31 + k * 7) % 256 for k in range(i * 37 % 900)))

# An event file: fixed times, every kind of value. The histogram comes from TensorFlow's own op.
from tensorflow.core.util import event_pb2
from tensorflow.core.framework import summary_pb2


def histogram(tag, values):
    return summary_pb2.Summary.FromString(tf.raw_ops.HistogramSummary(tag=tag, values=tf.constant(values, tf.float32)).numpy())


ramp_values = [(i % 37 - 18) * 0.125 * 10.0 ** (i % 11 - 5) for i in range(500)]
summary = summary_pb2.Summary()
summary.value.add(tag="Losses/TotalLoss", simple_value=3.25)
summary.value.extend(histogram("ModelVars/conv/weights", ramp_values).value)
summary.value.extend(histogram("ModelVars/zeros", [0.0] * 5).value)
summary.value.extend(histogram("ModelVars/none", []).value)
summary.value.extend(histogram("ModelVars/far", [-3e38, 3e38, 1e-30, -1e-30, 5.0]).value)
summary.value.add(tag="image", image=summary_pb2.Summary.Image(height=2, width=3, colorspace=3, encoded_image_string=b"PNG!"))
summary.value.add(tag="image-0", image=summary_pb2.Summary.Image(encoded_image_string=b"PNG?"))
log = event_pb2.SessionLog
events = [event_pb2.Event(wall_time=1600000000.5, file_version="brain.Event:2"),
          event_pb2.Event(wall_time=1600000001.0, step=100, session_log=log(status=log.START)),
          event_pb2.Event(wall_time=1600000002.0, graph_def=b"GRAPH"),
          event_pb2.Event(wall_time=1600000003.25, step=101, summary=summary),
          event_pb2.Event(wall_time=1600000004.0, step=102, session_log=log(status=log.CHECKPOINT, checkpoint_path="m-102"))]
with tf.io.TFRecordWriter(os.path.join(out, "events.golden")) as w:
    for e in events:
        w.write(e.SerializeToString(deterministic=True))

for p in parts:  # what the shards were merged from
    for end in [".index", ".data-00000-of-00001"]:
        if os.path.exists(p + end):
            os.remove(p + end)
print("made by TensorFlow", tf.__version__, sorted(os.listdir(out)))
