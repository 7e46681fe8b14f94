#!/usr/bin/env python3
"""TensorFlow loads and runs what objdet exports, and gives the engine's detections.

    OBJDET_EXPORT_DIR=DIR build/tests/export/test_export && tests/witness/check_export.py DIR

DIR holds, for each kind of input, an export directory, and as .npy the pictures and what the engine gave for them. TensorFlow runs
the frozen graph (as TensorFlow 1.x programs do), the SavedModel through both loaders, imports model.ckpt.meta and restores, and
reads inference_graph.pbtxt. Written against TensorFlow 2.15."""
import io
import os
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf
from google.protobuf import text_format

KINDS = ["image_tensor", "encoded_image_string_tensor", "tf_example"]
failures = 0


def expect(what, ok, detail=""):
    global failures
    failures += not ok
    print("%-4s %s %s" % ("ok" if ok else "FAIL", what, detail), flush=True)


def feed_for(kind, pictures):
    if kind == "image_tensor":
        return pictures
    out = []
    for p in pictures:
        png = tf2.io.encode_png(p).numpy() if tf2.executing_eagerly() else None
        if kind == "tf_example":
            feature = {"image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=[png]))}
            png = tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()
        out.append(png)
    return out


def compare(what, want, got):
    worst, same = 0.0, True
    for name, w in want.items():
        g = np.asarray(got[name])
        same &= g.shape == w.shape and g.dtype == w.dtype
        if same:
            rms = float(np.sqrt(np.mean(w.astype(np.float64) ** 2))) or 1.0
            worst = max(worst, float(np.abs(g - w).max()) / rms)
    expect(what, same and worst <= 1e-4, "(largest difference %.2g of the root mean square)" % worst)


def main(folder):
    names = [f[:-4] for f in sorted(os.listdir(folder)) if f.endswith(".npy") and f != "pictures.npy"]
    want = {n: np.load(os.path.join(folder, n + ".npy")) for n in names}
    pictures = np.load(os.path.join(folder, "pictures.npy"))
    for kind in KINDS:
        d = os.path.join(folder, kind)
        feed = feed_for(kind, pictures)
        graph = tf.Graph()
        with graph.as_default():
            gd = tf.GraphDef()
            gd.ParseFromString(open(os.path.join(d, "frozen_inference_graph.pb"), "rb").read())
            tf.import_graph_def(gd, name="")
            with tf.Session() as s:
                got = dict(zip(names, s.run([n + ":0" for n in names], {kind + ":0": feed})))
        compare("%s: frozen graph" % kind, want, got)
        p = graph.get_tensor_by_name(kind + ":0")
        shape = [None, None, None, 3] if kind == "image_tensor" else [None]
        expect("%s: placeholder" % kind, p.shape.as_list() == shape, "%s %s" % (p.dtype.name, p.shape))
        with tf.Graph().as_default(), tf.Session() as s:
            meta = tf.saved_model.loader.load(s, ["serve"], os.path.join(d, "saved_model"))
            sig = meta.signature_def["serving_default"]
            outs = {k: v.name for k, v in sig.outputs.items()}
            expect("%s: signature" % kind, sorted(outs) == names and list(sig.inputs) == ["inputs"] and
                   sig.method_name == "tensorflow/serving/predict", str(sorted(outs)))
            got = dict(zip(names, s.run([outs[n] for n in names], {sig.inputs["inputs"].name: feed})))
        compare("%s: SavedModel, TensorFlow 1 loader" % kind, want, got)
        loaded = tf2.saved_model.load(os.path.join(d, "saved_model"))
        got = loaded.signatures["serving_default"](inputs=tf2.constant(feed))
        compare("%s: SavedModel, TensorFlow 2 loader" % kind, want, {k: v.numpy() for k, v in got.items()})
        with tf.Graph().as_default(), tf.Session() as s:
            saver = tf.train.import_meta_graph(os.path.join(d, "model.ckpt.meta"))
            saver.restore(s, tf.train.latest_checkpoint(d))
            step = s.run("global_step:0")
            count = len(tf.global_variables())
        expect("%s: checkpoint" % kind, step == 1234 and count > 50, "%d variables, step %d" % (count, step))
        text = tf.GraphDef()
        text_format.Parse(io.open(os.path.join(d, "inference_graph.pbtxt")).read(), text)
        with tf.Graph().as_default():
            tf.import_graph_def(text, name="")
            reader = tf.train.load_checkpoint(os.path.join(d, "model.ckpt"))
            variables = {n.name: n for n in text.node if n.op == "VariableV2"}
            shapes = reader.get_variable_to_shape_map()
            fits = all(tf.TensorShape(n.attr["shape"].shape).as_list() == shapes.get(k) for k, n in variables.items())
        expect("%s: inference_graph.pbtxt" % kind, fits and len(variables) > 50, "%d variables" % len(variables))
    print("%d failed" % failures)
    return failures > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
