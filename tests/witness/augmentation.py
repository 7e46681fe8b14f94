"""Makes tests/golden/data/augmentation.json: distributions of the original's random preprocessing steps.

Run in the repository: OD_WITNESS=1 PYTHONPATH=../shared/witness/original python tests/witness/augmentation.py
TensorFlow 2.15, graph seed 1, 10000 draws a step (2000 of slow ones). Facts of a draw: height, width, mean, standard deviation,
share of zeros, first value, number of boxes, first box (ymin xmin ymax xmax; -1 without), sum of the labels.
tf.contrib's rotate, translate and transform, which autoaugment needs, are written here over TensorFlow's own op.
Arguments: [draws [words]]: only steps that begin so are made anew, the others stay as they are in the file.
"""
import json
import os
import sys

os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from object_detection.builders import preprocessor_builder
from object_detection.core import preprocessor
from object_detection.protos import preprocessor_pb2
from object_detection.utils import autoaugment_utils


class ContribImage:
    @staticmethod
    def transform(image, t):
        t = tf.reshape(tf.stack([tf.cast(v, tf.float32) for v in t]), [1, 8])
        return tf.raw_ops.ImageProjectiveTransformV3(images=image[None], transforms=t, output_shape=tf.shape(image)[:2], fill_value=0.0,
                                                     interpolation='NEAREST', fill_mode='CONSTANT')[0]

    @staticmethod
    def translate(image, by):
        return ContribImage.transform(image, [1., 0., -by[0], 0., 1., -by[1], 0., 0.])

    @staticmethod
    def rotate(image, angle):
        h, w = [tf.cast(v, tf.float32) - 1 for v in (tf.shape(image)[0], tf.shape(image)[1])]
        c, s = tf.cos(angle), tf.sin(angle)
        return ContribImage.transform(image, [c, -s, (w - (c * w - s * h)) / 2, s, c, (h - (s * w + c * h)) / 2, 0., 0.])


class ContribTraining:
    class HParams:
        def __init__(self, **values):
            self.__dict__.update(values)


autoaugment_utils.contrib_image = ContribImage
autoaugment_utils.contrib_training = ContribTraining

STEPS = [
    'random_horizontal_flip {}', 'random_vertical_flip { probability: 0.3 }', 'random_rotation90 {}', 'random_pixel_value_scale {}',
    'random_image_scale {}', 'random_rgb_to_gray { probability: 0.4 }', 'random_adjust_brightness {}', 'random_adjust_contrast {}',
    'random_adjust_hue {}', 'random_adjust_saturation {}', 'random_distort_color {}', 'random_distort_color { color_ordering: 1 }',
    'random_jitter_boxes {}', 'random_jitter_boxes { jitter_mode: EXPAND }', 'random_jitter_boxes { jitter_mode: SHRINK_SYMMETRIC }',
    'random_jitter_boxes { ratio: 0.3 jitter_mode: EXPAND_SYMMETRIC_XY }', 'random_crop_image {}',
    'random_crop_image { min_object_covered: 0.2 min_aspect_ratio: 0.5 max_aspect_ratio: 2 overlap_thresh: 0.1 random_coef: 0.2 }',
    'random_pad_image {}', 'random_pad_image { min_image_height: 50 min_image_width: 70 max_image_height: 90 max_image_width: 75 pad_color: [1, 2, 3] }',
    'random_absolute_pad_image { max_height_padding: 20 max_width_padding: 11 }', 'random_crop_pad_image {}',
    'random_crop_pad_image { min_object_covered: 0.1 min_padded_size_ratio: [1, 1] max_padded_size_ratio: [1.5, 2.5] pad_color: [0, 0, 0] }',
    'random_crop_to_aspect_ratio {}', 'random_crop_to_aspect_ratio { aspect_ratio: 2 overlap_thresh: 0.5 }', 'random_black_patches {}',
    'random_resize_method { target_height: 20 target_width: 30 }', 'ssd_random_crop {}',
    'ssd_random_crop { operations { min_object_covered: 0 min_aspect_ratio: 0.875 max_aspect_ratio: 1.125 min_area: 0.3 max_area: 1 '
    'overlap_thresh: 0.1 random_coef: 0.25 } operations { min_object_covered: 0.5 min_aspect_ratio: 0.5 max_aspect_ratio: 2 min_area: 0.1 '
    'max_area: 1 overlap_thresh: 0.5 random_coef: 0 clip_boxes: false } }',
    'ssd_random_crop_pad {}', 'ssd_random_crop_fixed_aspect_ratio {}', 'ssd_random_crop_fixed_aspect_ratio { aspect_ratio: 1.5 }',
    'ssd_random_crop_pad_fixed_aspect_ratio {}', 'random_self_concat_image { concat_vertical_probability: 0.3 concat_horizontal_probability: 0.4 }',
    'drop_label_probabilistically { label: 1 drop_probability: 0.3 }', 'random_jpeg_quality { min_jpeg_quality: 10 max_jpeg_quality: 60 random_coef: 0.3 }',
    'random_downscale_to_target_pixels { min_target_pixels: 500 max_target_pixels: 2600 random_coef: 0.2 }',
    'random_patch_gaussian { min_patch_size: 5 max_patch_size: 30 max_gaussian_stddev: 0.5 random_coef: 0.1 }',
    'random_square_crop_by_scale { max_border: 16 }', 'random_scale_crop_and_pad_to_square { output_size: 48 }', 'adjust_gamma { gamma: 1.5 gain: 0.9 }',
] + ['autoaugment_image { policy_name: "%s" }' % v for v in ('v0', 'v1', 'v2', 'v3', 'test')]


def scene():
    y, x, c = np.mgrid[0:40, 0:60, 0:3]
    image = ((y * 5 + x * 3 + c * 70 + (y // 7) * (x // 9) * 11) % 256).astype(np.float32)
    boxes = np.array([[0.1, 0.15, 0.6, 0.5], [0.3, 0.4, 0.9, 0.95], [0.7, 0.05, 0.8, 0.2]], np.float32)
    return image, boxes


def facts(image, boxes, labels):
    first = boxes[0] if len(boxes) else [-1] * 4
    return [image.shape[0], image.shape[1], image.mean(dtype=np.float64), image.std(dtype=np.float64), (image == 0).mean(),
            image.flat[0], len(boxes), *[float(v) for v in first], int(labels.sum())]


def draws(text, n):
    step = text_format.Parse(text, preprocessor_pb2.PreprocessingStep())
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        image, boxes = scene()
        d = {'image': tf.placeholder_with_default(image[None], [1, None, None, 3]),
             'groundtruth_boxes': tf.placeholder_with_default(boxes, [None, 4]),
             'groundtruth_classes': tf.constant([1, 2, 3], tf.int64), 'groundtruth_weights': tf.ones([3])}
        out = preprocessor.preprocess(d, [preprocessor_builder.build(step)],
                                      func_arg_map=preprocessor.get_default_func_arg_map(include_label_weights=True))
        fetch = [out['image'][0], out['groundtruth_boxes'], out['groundtruth_classes']]
        with tf.Session(config=tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)) as s:
            call = s.make_callable(fetch)
            return np.array([facts(*call()) for _ in range(n)])


cases = []
n = int(sys.argv[1]) if len(sys.argv) > 1 else 10000
kept = {}
if len(sys.argv) > 2:
    with open('tests/golden/data/augmentation.json') as f:
        kept = {c['step']: c for c in json.load(f)['cases'] if not c['step'].startswith(sys.argv[2])}
for text in STEPS:
    if text in kept:
        cases.append(kept[text])
        continue
    f = draws(text, n)
    deciles = []
    for k in range(f.shape[1]):
        limits = sorted(set(float('%.7g' % np.quantile(f[:, k], q, method='lower')) for q in (0.1, 0.3, 0.5, 0.7, 0.9)))
        deciles.append([[v, float('%.5g' % (f[:, k] <= v + 1e-4 * (1 + abs(v)) * 0).mean())] for v in limits])
    cases.append({'step': text, 'draws': n, 'mean': [float('%.7g' % v) for v in f.mean(0)], 'std': [float('%.6g' % v) for v in f.std(0)],
                  'deciles': deciles})
    print(text, flush=True)
with open('tests/golden/data/augmentation.json', 'w') as out:
    out.write('{"made_by": "tests/witness/augmentation.py, seed 1, TensorFlow 2.15", "cases": [\n')
    out.write(',\n'.join(json.dumps(c) for c in cases))
    out.write('\n]}\n')
