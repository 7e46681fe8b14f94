"""Asks TensorFlow and TensorBoard to read what objdet writes: records, checkpoints, .meta, event files.

Run from the repository root after the tests are built: python tests/witness/check_io.py [build]
Made with TensorFlow 2.15.1. Exit code 1 and one line for each thing that is wrong.
"""
import filecmp
import glob
import os
import subprocess
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
passed, failed = 0, 0


def check(what, ok):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print("FAILED:", what)


def records(d):
    options = {"plain": None, "gzip": "GZIP", "zlib": "ZLIB"}
    for form, compression in options.items():
        rows = list(tf1.io.tf_record_iterator(os.path.join(d, form + ".record"),
                                              tf1.io.TFRecordOptions(compression or "")))
        check(form + ": 100 records", len(rows) == 100)
        good = True
        for i, row in enumerate(rows):
            f = tf.train.Example.FromString(row).features.feature
            good &= list(f["ids"].int64_list.value) == [i, -i] and list(f["box"].float_list.value) == [i / 8, i / 8]
            good &= list(f["names"].bytes_list.value) == [b"picture %d" % i, b"\xff\0"]
            good &= f["none"].WhichOneof("kind") == "float_list" and len(f) == 4
            p = tf.io.parse_single_example(row, {"ids": tf.io.FixedLenFeature([2], tf.int64),
                                                 "box": tf.io.VarLenFeature(tf.float32)}) if i < 3 else None
            good &= p is None or (p["ids"].numpy().tolist() == [i, -i] and p["box"].values.numpy().tolist() == [i / 8] * 2)
        check(form + ": values", good)


def expected(i, shape):
    return (i + np.arange(np.prod(shape), dtype=np.float32)).reshape(shape)


def checkpoint(d):
    prefix = os.path.join(d, "model.ckpt-4711")
    check("latest_checkpoint", tf.train.latest_checkpoint(d) == prefix)
    reader = tf.train.load_checkpoint(d)
    shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    check("3000 variables", len(shapes) == 3000)
    check("global_step", reader.get_tensor("global_step") == 4711)
    order = {}
    with tf.Graph().as_default():
        saver = tf1.train.import_meta_graph(prefix + ".meta")
        names = [v.op.name for v in tf1.global_variables()]
        check(".meta: variables", len(names) == 3000 and names[0] == "global_step")
        check(".meta: trainable", len(tf1.trainable_variables()) == 1500)
        check(".meta: global step", tf1.train.get_global_step() is not None)
        check(".meta: no devices", not any(n.device for n in tf1.get_default_graph().as_graph_def().node))
        with tf1.Session() as session:
            saver.restore(session, prefix)
            values = session.run(tf1.global_variables())
            # What their saver writes for the same values must be our bytes.
            again = saver.save(session, os.path.join(d, "again"), write_meta_graph=False, write_state=False)
            session.run(tf1.global_variables_initializer())
            check(".meta: initialisers", session.run(tf1.train.get_global_step()) == 0)
    good = all(values[i].shape == tuple(shapes[n]) and np.array_equal(values[i], expected(i, values[i].shape))
               for i, n in enumerate(names) if i > 4)
    check("restored values", good and values[0] == 4711)
    check("dtypes", [dtypes[n] for n in names[:5]] == [tf.int64, tf.bfloat16, tf.bool, tf.float64, tf.int32])
    for end in [".index", ".data-00000-of-00001"]:
        check("their saver's bytes: " + end, filecmp.cmp(prefix + end, again + end, shallow=False))
    state = tf.train.get_checkpoint_state(d)
    check("checkpoint file", list(state.all_model_checkpoint_paths) == [prefix])


def original(d):
    """A checkpoint that the original wrote, restored through our .meta."""
    prefix = os.path.join(os.environ.get("OBJDET_SHARED", "../shared"), "data/raccoon_original/train/model.ckpt-1500")
    if not os.path.exists(prefix + ".index"):
        print("SKIPPED: needs shared data", prefix)
        return
    reader = tf.train.load_checkpoint(prefix)
    with tf.Graph().as_default():
        saver = tf1.train.import_meta_graph(os.path.join(d, "copy.ckpt.meta"))
        variables = tf1.global_variables()
        with tf1.Session() as session:
            saver.restore(session, prefix)
            values = session.run(variables)
    names = [v.op.name for v in variables]
    check("the original's checkpoint: names", sorted(names) == sorted(reader.get_variable_to_shape_map()))
    check("the original's checkpoint: values", all(np.array_equal(v, reader.get_tensor(n)) for n, v in zip(names, values)))


def events(d):
    (path,) = glob.glob(os.path.join(d, "events", "events.out.tfevents.*"))
    rows = list(tf1.train.summary_iterator(path))
    check("events", len(rows) == 5 and rows[0].file_version == "brain.Event:2")
    check("session log", rows[1].session_log.status == 1 and rows[1].step == 5)
    from tensorboard.backend.event_processing import event_accumulator
    acc = event_accumulator.EventAccumulator(os.path.join(d, "events"), size_guidance={"scalars": 0, "images": 0, "histograms": 0})
    acc.Reload()
    tags = acc.Tags()
    check("TensorBoard: tags", "Losses/TotalLoss" in tags["scalars"] and "ModelVars/w" in tags["histograms"] and
          "picture" in tags["images"])
    check("TensorBoard: scalars", [(s.step, s.value) for s in acc.Scalars("Losses/TotalLoss")] == [(5, 2.5), (6, 3.0), (7, 3.5)])
    h = acc.Histograms("ModelVars/w")[0].histogram_value
    check("TensorBoard: histogram", (h.min, h.max, h.num, h.sum) == (-1, 100, 4, 99.5))
    image = rows[2].summary.value[2].image
    decoded = tf.io.decode_png(image.encoded_image_string)
    check("image", decoded.shape == (1, 1, 1) and (image.height, image.width, image.colorspace) == (1, 1, 1))
    bare = rows[2].summary.value[3].image
    check("bare image", bare.encoded_image_string and bare.height == 0)


build = sys.argv[1] if len(sys.argv) > 1 else "build"
with tempfile.TemporaryDirectory() as d:
    subprocess.run([os.path.join(build, "tests/io/test_emit")], env=dict(os.environ, OBJDET_EMIT=d), check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    records(d)
    checkpoint(d)
    original(d)
    events(d)
print("check_io under TensorFlow %s: %d passed, %d failed" % (tf.__version__, passed, failed))
sys.exit(failed > 0)
