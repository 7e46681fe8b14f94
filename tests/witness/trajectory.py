"""Golden training trajectories: 20 steps of the original's models and optimizers on fixed batches, losses of every step.

  OD_WITNESS=1 PYTHONPATH=<witness>/original:<witness> V/bin/python tests/witness/trajectory.py [RUN...]

Writes tests/golden/train/: pictures.record (12 drawn PNGs of 96 x 96), map.pbtxt, tiny.config and trajectory.json; for a Faster R-CNN
grained.record (the same with noise), two_stage.config and two_stage.json. Weights come from the formulas of weights.py (SSD: rules for trained batch norm), pictures in file
order, 4 a step (Faster R-CNN: 2), nothing random: samples are so large that they take all there is. One and two
threads of TensorFlow give the spread that rounding makes ("noise"). With sync_replicas a step is several turns over a part of its
pictures each, whose processed gradients' mean is applied, as SyncReplicasOptimizer does with one worker. Names of runs: only
these are made again. Checked by tests/cli/test_trajectory.c.
"""
import json
import os
import sys

import numpy as np
import tensorflow.compat.v1 as tf
import tf_slim as slim

import weights
from google.protobuf import text_format
from object_detection.builders import model_builder, optimizer_builder
from object_detection.protos import pipeline_pb2
from object_detection.utils import variables_helper

SEED, PICTURES, SIDE, STEPS = 1, 12, 96, 20
ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
FOLDER = os.path.join(ROOT, "tests", "golden", "train")

HYPER = """conv_hyperparams {
  regularizer { l2_regularizer { weight: 0.00004 } }
  initializer { truncated_normal_initializer { stddev: 0.03 } }
  activation: RELU_6
  batch_norm { decay: 0.9 center: true scale: true epsilon: 0.001 train: true }
}"""
CONFIG = """# A small SSD for the golden trajectories; made by tests/witness/trajectory.py.
model { ssd {
  num_classes: 2
  image_resizer { fixed_shape_resizer { height: 96 width: 96 } }
  feature_extractor { type: "ssd_mobilenet_v1" depth_multiplier: 0.25 min_depth: 8
    override_base_feature_extractor_hyperparams: true %s }
  box_coder { faster_rcnn_box_coder { y_scale: 10.0 x_scale: 10.0 height_scale: 5.0 width_scale: 5.0 } }
  matcher { argmax_matcher { matched_threshold: 0.5 unmatched_threshold: 0.5 ignore_thresholds: false
    negatives_lower_than_unmatched: true force_match_for_each_row: true } }
  similarity_calculator { iou_similarity {} }
  box_predictor { convolutional_box_predictor { %s
    min_depth: 0 max_depth: 0 num_layers_before_predictor: 0 use_dropout: false kernel_size: 1 box_code_size: 4 } }
  anchor_generator { ssd_anchor_generator { num_layers: 6 min_scale: 0.2 max_scale: 0.95
    aspect_ratios: [1.0, 2.0, 0.5, 3.0, 0.3333] } }
  post_processing { batch_non_max_suppression { score_threshold: 1e-8 iou_threshold: 0.6 } score_converter: SIGMOID }
  normalize_loss_by_num_matches: true
  loss { localization_loss { weighted_smooth_l1 {} } classification_loss { weighted_sigmoid {} }
    hard_example_miner { num_hard_examples: 3000 iou_threshold: 0.99 loss_type: CLASSIFICATION
      max_negatives_per_positive: 3 min_negatives_per_image: 0 }
    classification_weight: 1.0 localization_weight: 1.0 }
} }
train_config {
  batch_size: 4
  gradient_clipping_by_norm: 2.0
  OPTIMIZER
}
train_input_reader {
  label_map_path: "tests/golden/train/map.pbtxt"
  shuffle: false
  tf_record_input_reader { input_path: "tests/golden/train/pictures.record" }
}
""" % (HYPER, HYPER)

TWO_STAGE = """# A small Faster R-CNN for the golden trajectories; made by tests/witness/trajectory.py.
model { faster_rcnn {
  num_classes: 2
  image_resizer { fixed_shape_resizer { height: 96 width: 96 } }
  feature_extractor { type: "faster_rcnn_resnet50" }
  first_stage_anchor_generator { grid_anchor_generator { height: 32 width: 32 scales: [0.5, 1.0, 1.5] aspect_ratios: [0.5, 1.0, 2.0] } }
  first_stage_box_predictor_conv_hyperparams { regularizer { l2_regularizer { weight: 0.0001 } } initializer { truncated_normal_initializer { stddev: 0.01 } } }
  first_stage_minibatch_size: 1048576
  first_stage_max_proposals: 12
  first_stage_localization_loss_weight: 2.0
  initial_crop_size: 6 maxpool_kernel_size: 2 maxpool_stride: 2
  second_stage_box_predictor { mask_rcnn_box_predictor { fc_hyperparams { op: FC
    regularizer { l2_regularizer { weight: 0.0001 } } initializer { variance_scaling_initializer { factor: 1.0 uniform: true mode: FAN_AVG } } } } }
  second_stage_batch_size: 12
  second_stage_balance_fraction: 1.0
  second_stage_post_processing { batch_non_max_suppression { score_threshold: 0.0 iou_threshold: 0.6 } score_converter: SOFTMAX }
  second_stage_localization_loss_weight: 2.0
} }
train_config {
  batch_size: 2
  gradient_clipping_by_norm: 10.0
  OPTIMIZER
}
train_input_reader {
  label_map_path: "tests/golden/train/map.pbtxt"
  shuffle: false
  tf_record_input_reader { input_path: "tests/golden/train/grained.record" }
}
"""

RMSPROP = """optimizer { rms_prop_optimizer {
    learning_rate { exponential_decay_learning_rate { initial_learning_rate: 0.004 decay_steps: 5 decay_factor: 0.9 } }
    momentum_optimizer_value: 0.9 decay: 0.9 epsilon: 1.0 } }"""
MOMENTUM = """optimizer { momentum_optimizer {
    learning_rate { cosine_decay_learning_rate { learning_rate_base: 0.02 total_steps: 20 warmup_learning_rate: 0.005 warmup_steps: 5 } }
    momentum_optimizer_value: 0.9 } use_moving_average: false }"""
ADAM = """optimizer { adam_optimizer { learning_rate { manual_step_learning_rate { initial_learning_rate: 0.0005
    schedule { step: 10 learning_rate: 0.0002 } } } } }"""
SMALL_MOMENTUM = """optimizer { momentum_optimizer {
    learning_rate { manual_step_learning_rate { initial_learning_rate: 0.0001 schedule { step: 10 learning_rate: 0.00003 } } }
    momentum_optimizer_value: 0.9 } use_moving_average: false }"""
# name, program, optimizer, further fields of train_config
VARIANTS = [("rmsprop", "legacy", RMSPROP, "bias_grad_multiplier: 2.0"), ("momentum", "model_main", MOMENTUM, ""),
            ("adam", "legacy", ADAM, 'freeze_variables: "FeatureExtractor/MobilenetV1/Conv2d_0"'),
            ("sync", "legacy", RMSPROP, "sync_replicas: true replicas_to_aggregate: 2")]
TWO_STAGE_VARIANTS = [("two_stage", "legacy", SMALL_MOMENTUM, "bias_grad_multiplier: 2.0"), ("two_stage_main", "model_main", SMALL_MOMENTUM, "")]


def draw(grain):
    """Rectangles of two kinds on slopes of colour: PNG, so that no decoder has a say. grain: that much noise on all of it, so that no
    two places of a picture score alike (proposals of equal score may come in any order)."""
    rng = np.random.RandomState(SEED)
    examples = []
    for n in range(PICTURES):
        y, x = np.mgrid[0:SIDE, 0:SIDE]
        image = np.stack([(y * rng.randint(0, 2) + x * rng.randint(0, 2) + rng.randint(0, 60)) % 256 for _ in range(3)], -1).astype(np.uint8)
        boxes, labels = [], []
        for _ in range(rng.randint(1, 4)):
            h, w = rng.randint(16, 60, 2)
            top, left = rng.randint(0, SIDE - h), rng.randint(0, SIDE - w)
            label = rng.randint(1, 3)
            colour = rng.randint(0, 256, 3)
            image[top:top + h, left:left + w] = colour
            if label == 2:
                image[top + 4:top + h - 4, left + 4:left + w - 4] = 255 - colour
            boxes.append((top / SIDE, left / SIDE, (top + h) / SIDE, (left + w) / SIDE))
            labels.append(int(label))
        if grain:
            image = np.clip(image.astype(np.int32) + rng.randint(-grain, grain, image.shape), 0, 255).astype(np.uint8)
        examples.append((image, boxes, labels))
    return examples


def write_record(name, examples):
    def floats(v):
        return tf.train.Feature(float_list=tf.train.FloatList(value=v))

    def texts(v):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=v))

    def ints(v):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=v))
    with tf.io.TFRecordWriter(os.path.join(FOLDER, name)) as w:
        for n, (image, boxes, labels) in enumerate(examples):
            with tf.Graph().as_default(), tf.Session() as s:
                png = s.run(tf.io.encode_png(image, compression=9))
            names = [b"full", b"hollow"]
            w.write(tf.train.Example(features=tf.train.Features(feature={
                "image/encoded": texts([png]), "image/format": texts([b"png"]), "image/height": ints([SIDE]), "image/width": ints([SIDE]),
                "image/source_id": texts([b"%d" % n]), "image/filename": texts([b"%d.png" % n]),
                "image/object/bbox/ymin": floats([b[0] for b in boxes]), "image/object/bbox/xmin": floats([b[1] for b in boxes]),
                "image/object/bbox/ymax": floats([b[2] for b in boxes]), "image/object/bbox/xmax": floats([b[3] for b in boxes]),
                "image/object/class/label": ints(labels), "image/object/class/text": texts([names[k - 1] for k in labels])})).SerializeToString())


def write_configs():
    with open(os.path.join(FOLDER, "map.pbtxt"), "w") as f:
        f.write("item { id: 1 name: 'full' }\nitem { id: 2 name: 'hollow' }\n")
    with open(os.path.join(FOLDER, "tiny.config"), "w") as f:
        f.write(CONFIG.replace("OPTIMIZER", RMSPROP))
    with open(os.path.join(FOLDER, "two_stage.config"), "w") as f:
        f.write(TWO_STAGE.replace("OPTIMIZER", SMALL_MOMENTUM))


def run(examples, template, program, optimizer, more, threads):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    text_format.Merge(template.replace("OPTIMIZER", optimizer + "\n  " + more), config)
    tc = config.train_config
    turns = tc.replicas_to_aggregate if tc.sync_replicas else 1
    batch = tc.batch_size
    part = batch // turns
    ssd = config.model.HasField("ssd")
    rows = []
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        model = model_builder.build(config.model, is_training=True)
        images = tf.placeholder(tf.float32, [part, SIDE, SIDE, 3])
        boxes = [tf.placeholder(tf.float32, [None, 4]) for _ in range(part)]
        classes = [tf.placeholder(tf.float32, [None, 2]) for _ in range(part)]
        model.provide_groundtruth(boxes, classes)
        processed, shapes = model.preprocess(images)
        losses = model.loss(model.predict(processed, shapes), shapes)
        regularization = tf.add_n(tf.losses.get_regularization_losses())
        total = tf.add_n(list(losses.values())) + regularization
        opt, rates = optimizer_builder.build(tc.optimizer)
        pairs = [(g, v) for g, v in opt.compute_gradients(total, tf.trainable_variables()) if g is not None]
        if program == "legacy":
            if tc.bias_grad_multiplier:
                pairs = variables_helper.multiply_gradients_matching_regex(pairs, [".*/biases"], multiplier=tc.bias_grad_multiplier)
            if tc.freeze_variables:
                pairs = variables_helper.freeze_gradients_matching_regex(pairs, list(tc.freeze_variables))
            pairs = slim.learning.clip_gradient_norms(pairs, tc.gradient_clipping_by_norm)
            norm = tf.constant(0.0)
        else:
            clipped, norm = tf.clip_by_global_norm([g for g, _ in pairs], tc.gradient_clipping_by_norm)
            pairs = list(zip(clipped, [v for _, v in pairs]))
        means = [tf.placeholder(tf.float32, v.shape) for _, v in pairs]
        updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        apply = opt.apply_gradients([(m, v) for m, (_, v) in zip(means, pairs)], global_step=step)
        model_vars = slim.get_model_variables()
        settings = tf.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=1)
        with tf.Session(config=settings) as sess:
            sess.run(tf.global_variables_initializer())
            sess.run(tf.tables_initializer())
            for v in model_vars:
                v.load(weights.weight(v.op.name, v.shape.as_list(), ssd), sess)
            for v in tf.global_variables():  # averages begin at the variables' values
                if v.op.name.endswith("/ExponentialMovingAverage"):
                    owner = [m for m in model_vars if m.op.name + "/ExponentialMovingAverage" == v.op.name][0]
                    v.load(sess.run(owner), sess)
            for s in range(STEPS):
                sums, row = None, {}
                for turn in range(turns):
                    picked = [examples[(s * batch + turn * part + i) % PICTURES] for i in range(part)]
                    feed = {images: np.stack([p[0] for p in picked]).astype(np.float32)}
                    for i, (_, b, k) in enumerate(picked):
                        feed[boxes[i]] = np.array(b, np.float32)
                        feed[classes[i]] = np.eye(2, dtype=np.float32)[np.array(k) - 1]
                    l, r, t, n, rate, g, _ = sess.run([losses, regularization, total, norm, list(rates), [g for g, _ in pairs], updates], feed)
                    parts = dict(l, regularization=r, total=t, norm=n)
                    row = {k: row.get(k, 0.0) + float(v) / turns for k, v in parts.items()}
                    sums = g if sums is None else [a + b for a, b in zip(sums, g)]
                sess.run(apply, {m: g / turns for m, g in zip(means, sums)})
                rows.append(dict(row, rate=float(rate[0])))
            final = {v.op.name: sess.run(v) for v in tf.global_variables()}
    return rows, final


def follow(path, examples, template, variants, chosen):
    runs = {}
    if os.path.exists(path):
        with open(path) as f:
            runs = {r["name"]: r for r in json.load(f)["runs"]}
    for name, program, optimizer, more in variants:
        if chosen and name not in chosen:
            continue
        rows, final = run(examples, template, program, optimizer, more, 1)
        other, final2 = run(examples, template, program, optimizer, more, 2)
        noise = [abs(a["total"] - b["total"]) / abs(a["total"]) for a, b in zip(rows, other)]
        picked = sorted(final)[::17]
        runs[name] = {"name": name, "program": program, "optimizer": optimizer + "\n" + more, "noise": float("%.2g" % max(noise)), "steps": rows,
                      "variables": len(final), "final": {n: float(np.sqrt(np.sum(np.square(final[n].astype(np.float64))))) for n in picked}}
        print(name, [round(r["total"], 5) for r in rows], "noise", noise)
    out = {"meta": {"tensorflow": tf.__version__, "seed": SEED, "script": "tests/witness/trajectory.py"},
           "runs": [runs[v[0]] for v in variants if v[0] in runs]}
    with open(path, "w") as f:
        json.dump(out, f, indent=1)
        f.write("\n")


def main():
    os.makedirs(FOLDER, exist_ok=True)
    plain, grained = draw(0), draw(24)
    write_record("pictures.record", plain)
    write_record("grained.record", grained)
    write_configs()
    follow(os.path.join(FOLDER, "trajectory.json"), plain, CONFIG, VARIANTS, sys.argv[1:])
    follow(os.path.join(FOLDER, "two_stage.json"), grained, TWO_STAGE, TWO_STAGE_VARIANTS, sys.argv[1:])


if __name__ == "__main__":
    main()
