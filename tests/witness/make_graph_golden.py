#!/usr/bin/env python3
"""make_graph_golden.py OUT.json: what TensorFlow gives for shared/data/mobilenet_v1_025_128/frozen_graph.pb on a picture made by
formula: value i is ((i * 2654435761) mod 2^32) / 2^31 - 1 as float32. Made with TensorFlow 2.15.1, no seed needed."""
import json
import os
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = ""
import numpy as np
import tensorflow.compat.v1 as tf

root = os.environ.get("OBJDET_SHARED", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "shared"))
n = 128 * 128 * 3
image = ((np.arange(n, dtype=np.uint64) * 2654435761 % 2**32).astype(np.float64) / 2**31 - 1).astype(np.float32).reshape(1, 128, 128, 3)
gd = tf.GraphDef()
gd.ParseFromString(open(os.path.join(root, "data/mobilenet_v1_025_128/frozen_graph.pb"), "rb").read())
fetches = ["MobilenetV1/Logits/SpatialSqueeze:0", "MobilenetV1/Predictions/Reshape_1:0"]
with tf.Graph().as_default(), tf.Session() as s:
    tf.import_graph_def(gd, name="")
    logits, predictions = s.run(fetches, {"input:0": image})
json.dump({"tensorflow": tf.__version__, "logits": ["%.9g" % v for v in logits[0]], "best": int(predictions[0].argmax()),
           "best_score": float(predictions[0].max())}, open(sys.argv[1], "w"), indent=0)
