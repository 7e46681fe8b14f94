"""detect_ops.py OUT.json: figures of the original that the shared components lack, for tests/ops/test_detect_golden.c: batched
NMS of 60 boxes (windows, counts, boxes of each class, class-agnostic, soft), generalised IoU with its gradient, anchors of an
image whose size the graph does not know, matching by thresholded IoU. Seed 11; the original is tf_object_detection_api 0.1
under TensorFlow 2.15. Numbers are float32 with 9 digits."""
import json
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
from object_detection.anchor_generators import multiscale_grid_anchor_generator as multiscale
from object_detection.core import box_list, losses, post_processing, region_similarity_calculator as similarity
from object_detection.matchers import argmax_matcher

rng = np.random.RandomState(11)


def numbers(x):
    x = np.asarray(x)
    if x.dtype.kind in "iu":
        return x.tolist()
    return np.vectorize(lambda v: float("%.9g" % v), otypes=[float])(x).tolist()


def boxes(*shape, lo=-0.1, hi=1.1):
    b = rng.uniform(lo, hi, shape + (4,)).astype(np.float32)
    return np.concatenate([np.minimum(b[..., :2], b[..., 2:]), np.maximum(b[..., :2], b[..., 2:])], -1).round(4).astype(np.float32)


cases = []


def case(op, params, inputs, build):
    with tf.Graph().as_default(), tf.Session() as session:
        out = session.run(build({k: tf.constant(v) for k, v in inputs.items()}))
    cases.append({"op": op, "params": params, "inputs": {k: numbers(v) for k, v in inputs.items()},
                  "outputs": {k: numbers(v) for k, v in out.items()}})


def nms(params, q, windows=False, valid=False):
    scores = rng.uniform(0, 1, (2, 60, 4)).round(2).astype(np.float32)  # two digits: ties
    inputs = {"boxes": boxes(2, 60, q), "scores": scores}
    if windows:
        inputs["windows"] = np.array([[0.1, 0.2, 0.9, 1.0], [0, 0, 0.7, 0.6]], np.float32)
    if valid:
        inputs["num_valid"] = np.array([60, 33], np.int32)

    def build(t):
        index = tf.tile(tf.range(60, dtype=tf.float32)[None], [2, 1])
        b, s, c, _, more, n = post_processing.batch_multiclass_non_max_suppression(
            t["boxes"], t["scores"], clip_window=t.get("windows"), num_valid_boxes=t.get("num_valid"),
            additional_fields={"index": index, "scores_of_all": t["scores"]}, **params)
        return {"boxes": b, "scores": s, "classes": c, "num": n, "index": more["index"], "extra": more["scores_of_all"]}
    case("batch_nms", params, inputs, build)


nms(dict(score_thresh=0.3, iou_thresh=0.4, max_size_per_class=6, max_total_size=20), 1)
nms(dict(score_thresh=0.1, iou_thresh=0.6, max_size_per_class=30, max_total_size=50, change_coordinate_frame=True), 1, True, True)
nms(dict(score_thresh=0.2, iou_thresh=0.5, max_size_per_class=10, max_total_size=30), 4, True)
nms(dict(score_thresh=0.2, iou_thresh=0.5, max_size_per_class=10, max_total_size=12, use_class_agnostic_nms=True), 1, True)
nms(dict(score_thresh=0.1, iou_thresh=1.0, max_size_per_class=8, max_total_size=16, soft_nms_sigma=0.5), 1, False, True)


def giou(t):
    loss = losses.WeightedGIOULocalizationLoss()(t["prediction"], t["target"], weights=t["weights"])
    return {"loss": loss, "gradient": tf.gradients(tf.reduce_sum(loss), t["prediction"])[0]}


p = boxes(2, 12, lo=0, hi=1)
t = boxes(2, 12, lo=0, hi=1)
t[0, :4] = p[0, :4]  # ties of every side
p[1, 0] = [0.3, 0.3, 0.3, 0.3]
case("giou", {}, {"prediction": p, "target": t, "weights": rng.uniform(0.2, 1, (2, 12)).round(2).astype(np.float32)}, giou)

for level, grid, image in ((3, (5, 3), (37, 24)), (5, (2, 3), (64, 96))):
    q = dict(min_level=level, max_level=level, anchor_scale=4.0, aspect_ratios=[1.0, 2.0, 0.5], scales_per_octave=2)
    case("multiscale_anchors_unknown_size", dict(q, grids=[grid], image=image), {}, lambda _: {"anchors_0": multiscale.MultiscaleGridAnchorGenerator(
        **q).generate([grid], im_height=tf.constant(image[0]), im_width=tf.constant(image[1]))[0].get()})


def match(t):
    gt = box_list.BoxList(t["boxes"])
    gt.add_field("scores", 1 - t["labels"][:, 0])
    m = similarity.ThresholdedIouSimilarity(0.3).compare(gt, box_list.BoxList(t["anchors"]))
    matcher = argmax_matcher.ArgMaxMatcher(0.8, 0.4, force_match_for_each_row=True)
    return {"match": matcher.match(m, valid_rows=t["weights"] > 0).match_results}


case("thresholded_match", dict(iou_threshold=0.3, matched=0.8, unmatched=0.4, force=True),
     {"anchors": boxes(40, lo=0, hi=1), "boxes": boxes(6, lo=0, hi=1), "weights": np.array([1, 1, 0, 1, 0.5, 1], np.float32),
      "labels": np.array([[0, 1], [0.5, 0.5], [0, 1], [0.3, 0.7], [1, 0], [0, 1]], np.float32)}, match)

with open(sys.argv[1], "w") as f:
    json.dump({"group": "detect_ops", "seed": 11, "tensorflow": tf.__version__, "cases": cases}, f, separators=(",", ":"))
    f.write("\n")
