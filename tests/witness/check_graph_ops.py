#!/usr/bin/env python3
"""Single nodes in objdet's interpreter and in TensorFlow: values on random inputs (seed 7), one small graph a case.

    tests/witness/check_graph_ops.py [--lib build/libobjdet.so]

Exit 1 when one differs by more than 1e-5 of its largest value. Written against TensorFlow 2.15 in its v1 mode."""
import argparse
import os
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.ops import gen_array_ops, gen_image_ops, gen_math_ops, gen_nn_ops

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import graphlib

R = np.random.RandomState(7)
FEEDS = {}


def P(*shape, low=-2.0, high=2.0, dtype=np.float32):
    v = R.uniform(low, high, shape)
    v = v.astype(dtype) if dtype == np.float32 else np.floor(v).astype(dtype)
    p = tf.placeholder(dtype, [None] * len(shape), name="p")
    FEEDS[p.name] = v
    return p


def I(*shape, low=-5, high=6, dtype=np.int32):
    return P(*shape, low=low, high=high, dtype=dtype)


def boxes(n):
    a = R.uniform(0, 1, (n, 2))
    v = np.concatenate([a, a + R.uniform(-0.05, 0.5, (n, 2))], 1).astype(np.float32)
    p = tf.placeholder(np.float32, [None, 4], name="boxes")
    FEEDS[p.name] = v
    return p


def ties(n):
    p = tf.placeholder(np.float32, [None], name="scores")
    FEEDS[p.name] = (R.randint(0, 8, n) / 8).astype(np.float32)
    return p


CASES = {
    "broadcast": lambda: P(3, 1, 4) * P(5, 1) + P(4),
    "int arithmetic": lambda: [tf.floordiv(I(9), I(9, low=1)), tf.floormod(I(9), I(9, low=1)), tf.truncatediv(I(9), I(9, low=1, high=4)),
                               tf.floordiv(I(9), -I(9, low=1))],
    "float arithmetic": lambda: [tf.floordiv(P(9), P(9)), tf.floormod(P(9), P(9)), tf.pow(tf.abs(P(9)), P(9)), tf.squared_difference(P(9), P(9))],
    "compare": lambda: [tf.cast(f(I(20), I(20)), tf.int32) for f in (tf.less, tf.less_equal, tf.greater, tf.greater_equal, tf.equal, tf.not_equal)],
    "unary": lambda: [f(P(50)) for f in (tf.exp, tf.sigmoid, tf.tanh, tf.nn.relu, tf.nn.relu6, tf.nn.elu, tf.nn.softplus, tf.floor, tf.ceil,
                                          tf.round, tf.square, tf.abs, tf.sign, tf.negative, tf.sin, tf.cos, tf.nn.leaky_relu)],
    "unary of positives": lambda: [f(P(50, low=0.01)) for f in (tf.log, tf.log1p, tf.sqrt, tf.rsqrt, tf.reciprocal)],
    "round half": lambda: tf.round(tf.cast(I(30, low=-9, high=9), tf.float32) / 2),
    "cast": lambda: [tf.cast(P(30, low=-100, high=100), t) for t in (tf.int32, tf.int64, tf.float64, tf.bool)] + [tf.cast(P(30, low=0, high=255), tf.uint8)],
    "select rows": lambda: gen_math_ops.select(I(4, low=0, high=2) > 0, P(4, 3), P(4, 3)),
    "select v2": lambda: tf.where_v2(I(4, 1, low=0, high=2) > 0, P(3), P(4, 3)),
    "strided slice": lambda: [P(5, 6, 7)[1:4:2, ::-1, 3], P(5, 6)[..., -2:], P(5, 6)[tf.newaxis, -1], P(4, 5, 6)[..., 1], P(7)[5:1:-2], P(7)[9:], P(7)[-20:3]],
    "slice": lambda: tf.slice(P(5, 6), [1, 2], [3, -1]),
    "gather": lambda: [tf.gather(P(5, 4, 3), I(2, 3, low=0, high=4), axis=1), tf.gather(P(5, 4), I(7, low=0, high=5)),
                       gen_array_ops.gather_v2(P(3, 5, 2), I(3, 4, low=0, high=5), 1, batch_dims=1)],
    "gather nd": lambda: [tf.gather_nd(P(5, 4, 3), I(6, 2, low=0, high=4)), tf.gather_nd(P(5), I(6, 1, low=0, high=5))],
    "where": lambda: [tf.where(I(4, 5, low=0, high=2) > 0), tf.where(I(7, low=0, high=2) > 5)],
    "top k": lambda: list(tf.nn.top_k(ties(30), 12)) + list(tf.nn.top_k(P(3, 9), 4)),
    "concat": lambda: [tf.concat([P(2, 3), P(2, 1), P(2, 0)], 1), tf.concat([P(2, 3), P(1, 3)], -2), tf.stack([P(2, 3), P(2, 3)], 2)],
    "split": lambda: tf.split(P(4, 6), 3, 1) + tf.split(P(7, 2), [1, 4, 2]) + tf.unstack(P(3, 4), 4, 1) + tf.split(P(7, 2), [1, -1, 2], num=3),
    "tile": lambda: [tf.tile(P(2, 3), [2, 3]), tf.tile(P(2, 3), [0, 1]), tf.broadcast_to(P(3, 1), [2, 3, 4])],
    "transpose": lambda: [tf.transpose(P(2, 3, 4), [2, 0, 1]), tf.transpose(P(3, 4))],
    "pad": lambda: [tf.pad(P(2, 3), [[1, 2], [0, 3]]), tf.pad(P(2, 3), [[1, 0], [2, 1]], constant_values=3.5), tf.pad(P(3, 4), [[2, 1], [1, 3]], "REFLECT"),
                    tf.pad(P(3, 4), [[2, 1], [1, 3]], "SYMMETRIC")],
    "shapes": lambda: [tf.shape(P(2, 0, 3)), tf.size(P(4, 3)), tf.rank(P(4, 3)), tf.squeeze(P(1, 3, 1)), tf.squeeze(P(1, 3, 1), [0]),
                       tf.expand_dims(P(3, 2), -1), tf.reshape(P(4, 3), [2, -1])],
    "fill and range": lambda: [tf.fill([2, 3], 4.5), tf.range(2, 11, 3), tf.range(9, 2, -2), tf.range(0.0, 1.0, 0.3), tf.zeros_like(P(3)), tf.ones_like(I(3))],
    "reverse": lambda: [tf.reverse(P(3, 4), [1]), tf.reverse(P(3, 4), [0, -1])],
    "one hot": lambda: [tf.one_hot(I(5, low=-1, high=4), 4), tf.one_hot(I(2, 3, low=0, high=4), 4, 2.0, -1.0, axis=1)],
    "space to batch": lambda: [tf.space_to_batch_nd(P(2, 5, 7, 3), [2, 3], [[0, 1], [1, 1]]), tf.batch_to_space_nd(P(12, 3, 3, 2), [2, 3], [[0, 1], [1, 1]])],
    "reduce": lambda: [f(P(3, 4, 5), a, keepdims=k) for f in (tf.reduce_sum, tf.reduce_mean, tf.reduce_max, tf.reduce_min, tf.reduce_prod)
                       for a, k in (([0, 2], False), (1, True), ([0, 1, 2], False), ([], False))],
    "reduce bool": lambda: [tf.reduce_all(I(3, 4, low=0, high=2) > 0, 1), tf.reduce_any(I(3, 4, low=0, high=2) > 0, 0), tf.reduce_sum(I(3, 4), 0)],
    "arg": lambda: [tf.argmax(I(4, 9, low=0, high=3), 1), tf.argmin(P(4, 9), 0, output_type=tf.int32)],
    "softmax": lambda: [tf.nn.softmax(P(3, 7)), tf.nn.log_softmax(P(3, 7))],
    "cumsum": lambda: [tf.cumsum(P(3, 4), 1), tf.cumsum(I(3, 4), 0, exclusive=True), tf.cumsum(P(3, 4), 1, reverse=True)],
    "matmul": lambda: [tf.matmul(P(3, 4), P(4, 5)), tf.matmul(P(4, 3), P(5, 4), True, True), tf.matmul(P(2, 3, 4), P(2, 4, 5)), tf.matmul(P(2, 1, 3, 4), P(5, 5, 4), transpose_b=True)],
    "conv": lambda: [tf.nn.conv2d(P(2, 9, 8, 3), P(k, l, 3, 5), [1, s, t, 1], p, dilations=[1, d, d, 1]) for k, l, s, t, p, d in
                     ((3, 3, 1, 1, "SAME", 1), (3, 3, 2, 2, "SAME", 1), (1, 1, 2, 2, "VALID", 1), (5, 3, 2, 1, "VALID", 1), (3, 3, 1, 1, "SAME", 2), (7, 7, 2, 2, "SAME", 1))] +
                    [tf.nn.conv2d(P(1, 6, 6, 2), P(3, 3, 2, 4), 2, [[0, 0], [1, 0], [2, 1], [0, 0]])],
    "depthwise": lambda: [tf.nn.depthwise_conv2d(P(2, 9, 8, 3), P(3, 3, 3, m), [1, s, s, 1], p) for m, s, p in ((1, 1, "SAME"), (1, 2, "SAME"), (2, 1, "VALID"))],
    "pool": lambda: [f(P(2, 9, 8, 3), [1, k, k, 1], [1, s, s, 1], p) for f in (tf.nn.max_pool, tf.nn.avg_pool) for k, s, p in ((2, 2, "SAME"), (3, 2, "VALID"), (3, 1, "SAME"))],
    "batch norm": lambda: [tf.nn.fused_batch_norm(P(2, 3, 4, 5), P(5), P(5), P(5), P(5, low=0.1), is_training=False)[0]] +
                          list(tf.nn.fused_batch_norm(P(2, 3, 4, 5), P(5), P(5), is_training=True)[:3]),
    "resize": lambda: [f(P(2, 5, 7, 3), [h, w], align_corners=a, half_pixel_centers=c) for f in (gen_image_ops.resize_bilinear, gen_image_ops.resize_nearest_neighbor)
                       for h, w in ((9, 4), (3, 11), (1, 1)) for a, c in ((False, False), (True, False), (False, True))],
    "crop and resize": lambda: [tf.image.crop_and_resize(P(2, 9, 8, 3), boxes(6), I(6, low=0, high=2), s, m, 0.5) for s in ([4, 5], [1, 1]) for m in ("bilinear", "nearest")],
    "nms": lambda: [gen_image_ops.non_max_suppression_v2(boxes(40), ties(40), 12, 0.4), gen_image_ops.non_max_suppression_v3(boxes(40), ties(40), 30, 0.3, 0.2)] +
                   list(gen_image_ops.non_max_suppression_v4(boxes(40), ties(40), 25, 0.3, 0.1, pad_to_max_output_size=True)) +
                   list(gen_image_ops.non_max_suppression_v5(boxes(40), ties(40), 25, 0.5, 0.1, 0.5)) +
                   list(gen_image_ops.non_max_suppression_v5(boxes(40), ties(40), 25, 1.0, 0.05, 0.3)) + [gen_image_ops.non_max_suppression(boxes(30), ties(30), 9, 0.5)],
    "while": lambda: tf.while_loop(lambda i, v: i < 5, lambda i, v: (i + 1, v * 2 + tf.cast(i, tf.float32)), [0, P(3)])[1],
    "map in map": lambda: tf.map_fn(lambda r: tf.map_fn(lambda v: v * v + tf.reduce_sum(r), r), P(3, 4)),
    "scan": lambda: tf.scan(lambda a, v: a + v, P(5, 2)),
    "cond in loop": lambda: tf.map_fn(lambda v: tf.cond(v > 0, lambda: v * 2, lambda: v - 1), P(9)),
}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--lib")
    args = p.parse_args()
    lib = graphlib.library(args.lib)
    tf.disable_v2_behavior()
    tf.disable_control_flow_v2()
    failures = 0
    for name, make in CASES.items():
        FEEDS.clear()
        graph = tf.Graph()
        with graph.as_default(), tf.Session() as s:
            out = make()
            out = list(out) if isinstance(out, (list, tuple)) else [out]
            names = [tf.identity(o).name for o in out]
            want = s.run(names, FEEDS)
        try:
            g = graphlib.Graph(lib, graph.as_graph_def().SerializeToString())
            got = g.run(names, FEEDS)
            g.close()
        except graphlib.GraphError as e:
            failures += 1
            print("FAIL %s: %s" % (name, e))
            continue
        for i, (a, b) in enumerate(zip(want, got)):
            a = np.asarray(a)
            scale = float(np.abs(a[np.isfinite(a)]).max()) if a.dtype.kind == "f" and np.isfinite(a).any() else 1.0
            same = a.shape == b.shape and a.dtype == b.dtype and np.allclose(a, b, rtol=0, atol=1e-5 * scale if a.dtype.kind == "f" else 0, equal_nan=True)
            if not same:
                failures += 1
                print("FAIL %s, output %d (%s):\n  TensorFlow %s %s %s\n  ours       %s %s %s" % (name, i, out[i].op.type, a.dtype, a.shape, a.reshape(-1)[:12], b.dtype, b.shape, b.reshape(-1)[:12]))
    print("%d cases, %d failures" % (len(CASES), failures))
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
