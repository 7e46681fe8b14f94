#!/usr/bin/env python3
"""The original's exported Faster R-CNN in objdet's interpreter: its exporter writes a small ResNet-50 detector with the weights of the
formula (witness README), TensorFlow and the interpreter run the frozen graph on pictures of five sizes.

    OD_WITNESS=1 PYTHONPATH=../shared/witness/original python tests/witness/check_original_graph.py [--lib build/libobjdet.so] [--keep DIR]

Raw tensors within 1e-3 of their root mean square, detections at any rank within 1 % of the best score. Regions whose edge is the
picture's fall in or out by the last bit of a coordinate: six of 24 may differ when each side cuts out its own, none when the
interpreter is fed with TensorFlow's. Written against TensorFlow 2.15 and the PyPI package tf_object_detection_api 0.1."""
import argparse
import os
import sys
import tempfile

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow.compat.v1 as tf

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here)
sys.path.insert(0, os.path.join(os.environ.get("OBJDET_SHARED", os.path.join(here, "../../../shared")), "witness"))
import check_export
import graphlib
import weights

CONFIG = os.path.join(here, "../../samples/configs/faster_rcnn_resnet50_pets.config")
SIZES = [(96, 128), (120, 90), (61, 200), (240, 320), (101, 99)]


def export(folder):
    from google.protobuf import text_format
    from object_detection import exporter
    from object_detection.builders import model_builder
    from object_detection.protos import pipeline_pb2
    config = pipeline_pb2.TrainEvalPipelineConfig()
    text_format.Merge(open(CONFIG).read(), config)
    model = config.model.faster_rcnn
    model.num_classes = 5
    model.image_resizer.keep_aspect_ratio_resizer.min_dimension = 96
    model.image_resizer.keep_aspect_ratio_resizer.max_dimension = 128
    model.first_stage_max_proposals = 24
    prefix = os.path.join(folder, "model.ckpt")
    with tf.Graph().as_default(), tf.Session() as s:
        detector = model_builder.build(config.model, is_training=False)
        images, shapes = detector.preprocess(tf.placeholder(tf.float32, [1, 96, 128, 3]))
        detector.postprocess(detector.predict(images, shapes), shapes)
        tf.train.get_or_create_global_step()
        variables = tf.global_variables()
        s.run([v.initializer for v in variables], {v.initializer.inputs[1]: weights.weight(v.op.name, v.shape.as_list(), False)
                                                   for v in variables if v.op.name != "global_step"})
        tf.train.Saver(variables).save(s, prefix, write_meta_graph=False)
    with tf.Graph().as_default():
        exporter.export_inference_graph("image_tensor", config, prefix, os.path.join(folder, "export"))
    return os.path.join(folder, "export", "frozen_inference_graph.pb")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--lib", default=os.path.join(here, "../../build/libobjdet.so"))
    p.add_argument("--keep", help="folder that takes the export; used again when it is there")
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as tmp:
        folder = args.keep or tmp
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "export", "frozen_inference_graph.pb")
        if not os.path.exists(path):
            path = export(folder)
        ours = graphlib.Graph(graphlib.library(args.lib), path)
        ours.check()
        with tf.Graph().as_default(), tf.Session() as s:
            gd = tf.GraphDef()
            gd.ParseFromString(open(path, "rb").read())
            tf.import_graph_def(gd, name="")
            names = sorted(n.name for n in gd.node if n.op == "Identity" and "/" not in n.name and
                           n.name.startswith(("detection_", "raw_detection_", "num_detections")))
            crop = [n for n in gd.node if n.op == "CropAndResize"][0]
            regions = crop.input[1] if ":" in crop.input[1] else crop.input[1] + ":0"
            fetches = [n + ":0" for n in names]
            for i, (h, w) in enumerate(SIZES):
                picture = weights.image(i, h, w)[None].astype(np.uint8)
                *want, cut = s.run(fetches + [regions], {"image_tensor:0": picture})
                for edges, feed in (6, {}), (0, {regions: cut}):
                    got = ours.run(fetches, {"image_tensor:0": picture, **feed})
                    check_export.expect_like("the original's graph at %dx%d%s" % (h, w, ", regions given" if feed else ""),
                                             dict(zip(names, want)), dict(zip(names, got)), edges)
        ours.close()
    return check_export.failures > 0


if __name__ == "__main__":
    sys.exit(main())
