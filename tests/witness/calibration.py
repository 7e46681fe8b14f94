"""calibration.py METRICS.json OUT.json: the original's expected calibration error over the images of components/metrics.json.

Runs on the original (PyPI's tf_object_detection_api 0.1 under TensorFlow 2.15). An image without groundtruth is left out.
"""
import json
import sys

import numpy as np
import tensorflow.compat.v1 as tf
from object_detection.metrics import calibration_evaluation

data = json.load(open(sys.argv[1]))["cases"][0]["inputs"]
evaluator = calibration_evaluation.CalibrationDetectionEvaluator(data["categories"], iou_threshold=0.5)
with tf.Graph().as_default(), tf.Session() as sess:
    keys = {"key": tf.placeholder(tf.string, []), "groundtruth_boxes": tf.placeholder(tf.float32, [None, 4]),
            "groundtruth_classes": tf.placeholder(tf.int64, [None]), "detection_boxes": tf.placeholder(tf.float32, [None, 4]),
            "detection_scores": tf.placeholder(tf.float32, [None]), "detection_classes": tf.placeholder(tf.int64, [None])}
    (value, update), = evaluator.get_estimator_eval_metric_ops(keys).values()
    sess.run(tf.local_variables_initializer())
    for im in data["images"]:
        if im["classes"]:
            sess.run(update, {keys["key"]: im["id"], keys["groundtruth_boxes"]: np.array(im["boxes"], np.float32),
                              keys["groundtruth_classes"]: im["classes"], keys["detection_boxes"]: np.array(im["det_boxes"], np.float32),
                              keys["detection_scores"]: im["det_scores"], keys["detection_classes"]: im["det_classes"]})
    with open(sys.argv[2], "w") as f:
        json.dump({"CalibrationError/ExpectedCalibrationError": float("%.9g" % sess.run(value))}, f)
        f.write("\n")
