"""mask_metrics.py OUT.json [--seed N]: small images with masks and the original's mask metrics over them.

Runs on the original (PyPI's tf_object_detection_api 0.1 under TensorFlow 2.15 with numpy 1.26 and pycocotools 2.0.11, on a
processor with AVX-512: ties in scores depend on it). Masks are run lengths, column by column, beginning with zeros.
"""
import argparse
import json

import numpy as np
from object_detection.metrics import coco_evaluation
from object_detection.utils import object_detection_evaluation as ode

H, W = 40, 50
CATEGORIES = [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}, {"id": 3, "name": "unseen"}]


def ellipse(box):
    y, x = np.mgrid[0:H, 0:W] + 0.5
    cy, cx, ry, rx = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2, (box[2] - box[0]) / 2, (box[3] - box[1]) / 2
    return (((y - cy) / ry) ** 2 + ((x - cx) / rx) ** 2 <= 1).astype(np.uint8)


def runs(mask):
    flat, counts, value, n = mask.T.reshape(-1), [], 0, 0
    for v in flat:
        if v != value:
            counts.append(n)
            value, n = v, 0
        n += 1
    return counts + [n]


def images(rng):
    out = []
    for i in range(7):
        n = [3, 4, 0, 5, 2, 6, 3][i]
        a = rng.uniform(0, [H * 0.6, W * 0.6], (n, 2))
        gt = np.round(np.concatenate([a, np.minimum(a + rng.uniform(6, 22, (n, 2)), [H, W])], 1)).astype(np.float32)
        classes, det, det_classes = rng.randint(1, 3, n), [], []
        for b, c in zip(gt, classes):
            for _ in range(rng.randint(0, 4)):
                det.append(b + np.round(rng.uniform(-2, 2, 4)))
                det_classes.append(c if rng.uniform() < 0.85 else 3 - c)
        det += [np.array([5, 5, 20, 25.0]), np.array([1, 30, 30, 45.0])]
        det, det_classes = np.array(det, np.float32), np.array(det_classes + [1, 2])
        det[:, 2:] = np.maximum(det[:, 2:], det[:, :2] + 3)
        masks = np.array([ellipse(b) for b in gt], np.uint8).reshape(-1, H, W)
        if n > 3:
            masks[1] = 0  # a box without a mask
        m = len(det)
        scores = np.round(rng.uniform(0.05, 0.99, m), 2).astype(np.float32)
        scores[1] = scores[0]
        out.append({"id": "im%d" % i, "boxes": gt, "masks": masks, "classes": classes, "difficult": rng.uniform(size=n) < 0.2,
                    "crowd": rng.uniform(size=n) < 0.2, "group_of": rng.uniform(size=n) < 0.25, "det_boxes": det,
                    "det_masks": np.array([ellipse(b) for b in det], np.uint8), "det_classes": det_classes, "det_scores": scores})
    return out


def evaluate(evaluator, ims, flags):
    for im in ims:
        truth = {"groundtruth_boxes": im["boxes"], "groundtruth_classes": im["classes"], "groundtruth_instance_masks": im["masks"]}
        truth.update({k: im[v] for k, v in flags.items()})
        if "groundtruth_group_of" in flags:
            truth["groundtruth_image_classes"] = np.array([1, 2])
        evaluator.add_single_ground_truth_image_info(im["id"], truth)
    for im in ims:
        evaluator.add_single_detected_image_info(im["id"], {
            "detection_boxes": im["det_boxes"], "detection_scores": im["det_scores"], "detection_classes": im["det_classes"],
            "detection_masks": im["det_masks"]})
    return {k: float("%.9g" % v) if np.isfinite(v) else "nan" for k, v in evaluator.evaluate().items()}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("out")
    ap.add_argument("--seed", type=int, default=2)
    args = ap.parse_args()
    ims = images(np.random.RandomState(args.seed))
    hard, group, crowd = {"groundtruth_difficult": "difficult"}, {"groundtruth_group_of": "group_of"}, {"groundtruth_is_crowd": "crowd"}
    cases = [{"metrics": name, "outputs": evaluate(make(CATEGORIES), ims, flags)} for name, make, flags in (
        ("coco_mask_metrics", coco_evaluation.CocoMaskEvaluator, crowd),
        ("pascal_voc_instance_segmentation_metrics", ode.PascalInstanceSegmentationEvaluator, hard),
        ("weighted_pascal_voc_instance_segmentation_metrics", ode.WeightedPascalInstanceSegmentationEvaluator, hard),
        ("oid_challenge_segmentation_metrics", ode.OpenImagesInstanceSegmentationChallengeEvaluator, group))]
    plain = []
    for im in ims:
        d = {k: (v.tolist() if isinstance(v, np.ndarray) else v) for k, v in im.items() if "masks" not in k}
        d["masks"], d["det_masks"] = [runs(m) for m in im["masks"]], [runs(m) for m in im["det_masks"]]
        plain.append(d)
    with open(args.out, "w") as f:
        json.dump({"seed": args.seed, "height": H, "width": W, "categories": CATEGORIES, "images": plain, "cases": cases}, f)
        f.write("\n")


main()
