#!/usr/bin/env python3
"""TensorFlow loads and runs what objdet exports, and gives the engine's detections.

    OBJDET_EXPORT_DIR=DIR build/tests/export/test_export && tests/witness/check_export.py DIR

DIR holds, for each kind of input, an export directory, and as .npy the pictures and what the engine gave for them. TensorFlow runs
the frozen graph (as TensorFlow 1.x programs do), the SavedModel through both loaders, imports model.ckpt.meta and restores, and
reads inference_graph.pbtxt. A Faster R-CNN in DIR/two_stage runs at five sizes. --two-stage: only that, for a TensorFlow
without the old loaders. Written against TensorFlow 2.15."""
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


def unlike(want, got):
    """The largest differences of a picture's outputs: (raw tensors over their root mean square, rows of them beyond 1e-3, scores over
    the best score, boxes, detections without a partner, detections). A partner has the class, a score within 1 % of the best and is
    found at any rank. Rows beyond the limit are counted, not measured: a region whose edge is the picture's own falls in or out
    of the picture by the last bit of a coordinate."""
    raw, off = 0.0, 0
    for name, w in want.items():
        if name.startswith("raw_"):
            rms = np.sqrt(np.mean(w.astype(np.float64) ** 2)) or 1
            rows = np.abs(np.asarray(got[name]) - w).reshape(-1, w.shape[-1]).max(1) / rms
            off = max(off, int((~(rows <= 1e-3)).sum()))
            raw = max(raw, float(rows[rows <= 1e-3].max(initial=0)))
    n = int(want["num_detections"][0])
    ws, wb, wc = (want["detection_" + k][0][:n] for k in ("scores", "boxes", "classes"))
    gs, gb, gc = (np.asarray(got["detection_" + k])[0] for k in ("scores", "boxes", "classes"))
    best = float(ws.max()) if n else 1.0
    score, box, missing = 0.0, 0.0, int(np.asarray(got["num_detections"])[0] != n)
    for i in range(n):
        near = [(float(np.abs(gb[k] - wb[i]).max()), float(abs(gs[k] - ws[i])) / best) for k in range(len(gs))
                if gc[k] == wc[i] and abs(gs[k] - ws[i]) <= 0.01 * best]
        if not near or min(near)[0] > 1e-2:
            missing += 1
        else:
            box, score = max(box, min(near)[0]), max(score, min(near)[1])
    return raw, off, score, box, missing, n


def expect_like(what, want, got, edges):
    raw, off, score, box, missing, n = unlike(want, got)
    same = all(np.asarray(got[k]).shape == w.shape for k, w in want.items())
    # a region of five classes may move five detections, and one that they suppressed
    expect(what, same and n > 5 and off <= edges and missing <= 6 * off,
           "(%d detections, %d without partner; %d rows off, the others within %.1e, scores %.1e, boxes %.1e)" % (n, missing, off, raw, score, box))


def check_two_stage(folder):
    sizes = []
    for k in range(5):
        d = os.path.join(folder, str(k))
        sizes.append({f[:-4]: np.load(os.path.join(d, f)) for f in sorted(os.listdir(d))})
    pictures = [s.pop("pictures") for s in sizes]
    regions = [s.pop("regions") for s in sizes]
    names = sorted(sizes[0])

    def both(what, s, tensors, picture):
        """Every size with the regions of its own, of which a few may be off, and with the engine's, where none may."""
        cut = [o.inputs[1].name for o in s.graph.get_operations() if o.type == "CropAndResize"][0]
        for want, p, feed, given in zip(sizes, pictures, feeds, regions):
            for edges, more in (6, {}), (0, {cut: given}):
                got = dict(zip(names, s.run(tensors, {picture: feed, **more})))
                expect_like("%s, %dx%d%s" % (what, *p.shape[1:3], ", regions given" if more else ""), want, got, edges)

    for kind in KINDS[:2]:
        d = os.path.join(folder, kind)
        feeds = [feed_for(kind, p) for p in pictures]
        with tf.Graph().as_default():
            gd = tf.GraphDef()
            gd.ParseFromString(open(os.path.join(d, "frozen_inference_graph.pb"), "rb").read())
            tf.import_graph_def(gd, name="")
            with tf.Session() as s:
                both("two stages, %s, frozen graph" % kind, s, [n + ":0" for n in names], kind + ":0")
        with tf.Graph().as_default(), tf.Session() as s:
            sig = tf.saved_model.loader.load(s, ["serve"], os.path.join(d, "saved_model")).signature_def["serving_default"]
            both("two stages, %s, SavedModel" % kind, s, [sig.outputs[n].name for n in names], sig.inputs["inputs"].name)
        signature = tf2.saved_model.load(os.path.join(d, "saved_model")).signatures["serving_default"]
        for want, p, feed in zip(sizes, pictures, feeds):
            got = {k: v.numpy() for k, v in signature(inputs=tf2.constant(feed)).items()}
            expect_like("two stages, %s, SavedModel called, %dx%d" % (kind, *p.shape[1:3]), want, got, 6)


def main(folder, only_two_stage):
    check_two_stage(os.path.join(folder, "two_stage"))
    if only_two_stage:
        print("TensorFlow %s: %d failed" % (tf2.__version__, failures))
        return failures > 0
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
    sys.exit(main(sys.argv[1], "--two-stage" in sys.argv[2:]))
