"""One row of `make bench` for the original: the median seconds of its training step or of one inference, in the columns of bench_speed.

  OD_WITNESS=1 PYTHONPATH=<witness>/original V/bin/python tests/witness/bench_original.py CONFIG HEIGHT WIDTH [--batch N] [--inference] [--rounds N]

Made-up pictures of that size, fed, and eight boxes each; what the legacy trainer runs in a step: losses, gradients, their clipping, the
optimizer, batch norm's updates. The first step is counted from the start of this program, as ours is.
"""
import time
began = time.time()
import argparse
import os
import resource
import statistics
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow.compat.v1 as tf
import tf_slim as slim
from google.protobuf import text_format
from object_detection.builders import model_builder, optimizer_builder
from object_detection.protos import pipeline_pb2

BOXES = 8


def training(config, images, feed):
    """The train op and a loss; adds the boxes to feed."""
    tc, rng = config.train_config, np.random.RandomState(2)
    classes = (config.model.ssd if config.model.HasField("ssd") else config.model.faster_rcnn).num_classes
    step = tf.train.get_or_create_global_step()
    model = model_builder.build(config.model, is_training=True)
    boxes, labels = [], []
    for _ in range(images.shape[0]):
        boxes.append(tf.placeholder(tf.float32, [None, 4]))
        labels.append(tf.placeholder(tf.float32, [None, classes]))
        corner, size = rng.uniform(0, 0.6, (BOXES, 2)), rng.uniform(0.1, 0.4, (BOXES, 2))
        feed[boxes[-1]] = np.concatenate([corner, corner + size], 1)
        feed[labels[-1]] = np.eye(classes)[rng.randint(0, classes, BOXES)]
    model.provide_groundtruth(boxes, labels)
    processed, shapes = model.preprocess(images)
    losses = model.loss(model.predict(processed, shapes), shapes)
    total = tf.add_n(list(losses.values()) + tf.losses.get_regularization_losses())
    optimizer, _ = optimizer_builder.build(tc.optimizer)
    pairs = [(g, v) for g, v in optimizer.compute_gradients(total, tf.trainable_variables()) if g is not None]
    if tc.gradient_clipping_by_norm > 0:
        pairs = slim.learning.clip_gradient_norms(pairs, tc.gradient_clipping_by_norm)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS) + [optimizer.apply_gradients(pairs, global_step=step)]):
        return [tf.identity(total)]


def inference(config, images):
    model = model_builder.build(config.model, is_training=False)
    processed, shapes = model.preprocess(images)
    return list(model.postprocess(model.predict(processed, shapes), shapes).values())


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("config")
    p.add_argument("height", type=int)
    p.add_argument("width", type=int)
    p.add_argument("--batch", type=int, default=1)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--inference", action="store_true")
    a = p.parse_args()
    config = pipeline_pb2.TrainEvalPipelineConfig()
    with open(a.config) as f:
        text_format.Merge(f.read(), config)
    threads = len(os.sched_getaffinity(0))
    tf.disable_eager_execution()
    images = tf.placeholder(tf.float32, [a.batch, a.height, a.width, 3])
    feed = {images: np.random.RandomState(1).uniform(0, 255, images.shape.as_list()).astype(np.float32)}
    fetches = inference(config, images) if a.inference else training(config, images, feed)
    settings = tf.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads)
    with tf.Session(config=settings) as sess:
        sess.run([tf.global_variables_initializer(), tf.tables_initializer()])
        sess.run(fetches, feed)
        first = time.time() - began
        seconds = []
        for _ in range(a.rounds):
            t = time.time()
            sess.run(fetches, feed)
            seconds.append(time.time() - t)
    step = statistics.median(seconds)
    print("%-10s %-5s %4d %9.1f %9s %9s %6s %7s %9s %6s %7.1f %7.0f %7.2f  (the original)" % (
        "inference" if a.inference else "train", "fp32", a.batch, 1e3 * step, "", "", "", "", "", "", a.batch / step,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, first))


if __name__ == "__main__":
    main()
