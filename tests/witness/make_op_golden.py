"""Makes tests/golden/ops/*.json: results of TensorFlow's own kernels for the ops where details could differ (padding of even
sizes, ties, statistics, order of operations in optimizers). Run it with a Python that has TensorFlow:
    python tests/witness/make_op_golden.py tests/golden/ops
Each case names one of our ops with its parameters, inputs and outputs; tests/engine/test_op_golden.c runs them."""
import json
import os
import sys

import numpy as np

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"  # the plain kernels
import tensorflow as tf  # noqa: E402

SEED = 6
rng = np.random.RandomState(SEED)
groups = {}


def tensor(x):
    if x is None:
        return None
    x = np.asarray(x)
    data = [float("%.9g" % v) for v in x.ravel()] if x.dtype == np.float32 else [int(v) for v in x.ravel()]
    return {"dtype": x.dtype.name, "shape": list(x.shape), "data": data}


def case(group, op, name, params, inputs, outputs, tolerance=2e-6):
    groups.setdefault(group, []).append({
        "op": op, "name": name, "params": params, "inputs": [tensor(i) for i in inputs],
        "outputs": [tensor(o) for o in outputs], "tolerance": tolerance})


def draw(*shape, lo=-1.0, hi=1.0):
    """Few digits, so that the text is exact and short."""
    return np.round(rng.uniform(lo, hi, shape), 3).astype(np.float32)


def few(*shape):
    """Small whole numbers: many ties."""
    return rng.randint(0, 3, shape).astype(np.float32)


def conv_params(stride, dilation, padding, pads=(0, 0, 0, 0)):
    return dict(stride_h=stride[0], stride_w=stride[1], dilation_h=dilation, dilation_w=dilation, padding=padding,
                pad_top=pads[0], pad_bottom=pads[1], pad_left=pads[2], pad_right=pads[3])


CONVS = [
    ("same, even size, stride 2", (8, 6), (3, 3), (2, 2), 1, "SAME", None),
    ("same, odd size, stride 2", (7, 5), (3, 3), (2, 2), 1, "SAME", None),
    ("same, even kernel", (6, 5), (2, 4), (1, 1), 1, "SAME", None),
    ("same, even kernel, stride 2", (6, 7), (4, 2), (2, 2), 1, "SAME", None),
    ("same, kernel smaller than stride", (7, 8), (1, 1), (2, 3), 1, "SAME", None),
    ("same, one pixel", (1, 1), (3, 3), (2, 2), 1, "SAME", None),
    ("same, dilation 2", (7, 6), (3, 3), (1, 1), 2, "SAME", None),
    ("valid, stride 2", (8, 7), (3, 2), (2, 2), 1, "VALID", None),
    ("valid, dilation 2", (7, 8), (3, 3), (1, 1), 2, "VALID", None),
    ("padded beforehand, stride 2", (8, 7), (3, 3), (2, 2), 1, "EXPLICIT", (1, 1, 1, 1)),
    ("padded unevenly, stride 2", (8, 7), (3, 3), (2, 2), 1, "EXPLICIT", (0, 2, 1, 0)),
]


def convolutions():
    for name, size, kernel, stride, dilation, padding, pads in CONVS:
        for depthwise in (False, True):
            if depthwise and (stride[0] != stride[1]):
                continue  # TensorFlow wants square strides there
            x = draw(2, *size, 3)
            w = draw(*kernel, 3, 2 if depthwise else 4)
            xv, wv = tf.constant(x), tf.constant(w)
            with tf.GradientTape(persistent=True) as tape:
                tape.watch([xv, wv])
                xp, mode = xv, padding
                if padding == "EXPLICIT":
                    xp, mode = tf.pad(xv, [[0, 0], pads[:2], pads[2:], [0, 0]]), "VALID"
                if depthwise:
                    y = tf.nn.depthwise_conv2d(xp, wv, [1, *stride, 1], mode, dilations=[dilation] * 2)
                else:
                    y = tf.nn.conv2d(xp, wv, [1, *stride, 1], mode, dilations=[dilation] * 2)
                dy = draw(*y.shape)
                loss = tf.reduce_sum(y * dy)
            p = conv_params(stride, dilation, padding, pads or (0, 0, 0, 0))
            op = "depthwise_conv2d" if depthwise else "conv2d"
            case("convolution", op, name, p, [x, w], [y.numpy()])
            if dilation > 1 and not depthwise:
                continue  # TensorFlow has no such gradient on a CPU
            case("convolution", op + "_grad_input", name, p, [dy, w, x], [tape.gradient(loss, xv).numpy()])
            case("convolution", op + "_grad_filter", name, p, [x, dy, w], [tape.gradient(loss, wv).numpy()])


def pooling():
    for name, size, window, stride, padding, ties in [
            ("2x2", (6, 4), 2, 2, "SAME", False), ("2x2, odd size", (7, 5), 2, 2, "SAME", False),
            ("3x3 stride 2, ties", (8, 7), 3, 2, "SAME", True), ("3x3 stride 1, ties", (5, 6), 3, 1, "SAME", True),
            ("3x3 stride 2, valid, ties", (8, 7), 3, 2, "VALID", True), ("1x1 stride 2", (5, 6), 1, 2, "SAME", False)]:
        x = few(2, *size, 3) if ties else draw(2, *size, 3)
        p = dict(window_h=window, window_w=window, stride_h=stride, stride_w=stride, padding=padding)
        for op, f in (("max_pool", tf.nn.max_pool2d), ("avg_pool", tf.nn.avg_pool2d)):
            xv = tf.constant(x)
            with tf.GradientTape() as tape:
                tape.watch(xv)
                y = f(xv, window, stride, padding)
                dy = draw(*y.shape)
                loss = tf.reduce_sum(y * dy)
            case("pooling", op, name, p, [x], [y.numpy()])
            case("pooling", op + "_grad", name, p, [dy, x, y.numpy()] if op == "max_pool" else [dy, x],
                 [tape.gradient(loss, xv).numpy()])


def batch_norm():
    for name, shape, epsilon in [("feature map", (2, 3, 4, 5), 1e-3), ("one pixel", (1, 1, 1, 3), 1e-3),
                                 ("small epsilon", (3, 4, 2, 3), 1e-5), ("two values", (2, 1, 1, 3), 1e-3)]:
        x, gamma, beta = draw(*shape, lo=-2, hi=3), draw(shape[-1], lo=.5, hi=1.5), draw(shape[-1])
        dy = draw(*shape)
        p = dict(epsilon=epsilon)
        y, mean, moving, saved_mean, saved, reserve = tf.raw_ops.FusedBatchNormV3(
            x=x, scale=gamma, offset=beta, mean=np.zeros(0, np.float32), variance=np.zeros(0, np.float32), epsilon=epsilon,
            is_training=True)
        variance = np.var(x.astype(np.float64), axis=(0, 1, 2)).astype(np.float32)
        case("batch_norm", "batch_norm_train", name, p, [x, gamma, beta], [y.numpy(), mean.numpy(), variance, moving.numpy()], 1e-5)
        dx, dgamma, dbeta, _, _ = tf.raw_ops.FusedBatchNormGradV3(
            y_backprop=dy, x=x, scale=gamma, reserve_space_1=saved_mean, reserve_space_2=saved, reserve_space_3=reserve,
            epsilon=epsilon, is_training=True)
        case("batch_norm", "batch_norm_train_grad", name, p, [dy, x, gamma, mean.numpy(), variance],
             [dx.numpy(), dgamma.numpy(), dbeta.numpy()], 1e-5)
        m, v = draw(shape[-1]), draw(shape[-1], lo=.3, hi=2)
        y, *_ = tf.raw_ops.FusedBatchNormV3(x=x, scale=gamma, offset=beta, mean=m, variance=v, epsilon=epsilon, is_training=False)
        case("batch_norm", "batch_norm", name, p, [x, gamma, beta, m, v], [y.numpy()], 1e-5)
        dx, dgamma, dbeta, _, _ = tf.raw_ops.FusedBatchNormGradV3(
            y_backprop=dy, x=x, scale=gamma, reserve_space_1=m, reserve_space_2=v, reserve_space_3=reserve, epsilon=epsilon,
            is_training=False)
        case("batch_norm", "batch_norm_grad", name, p, [dy, x, gamma, m, v], [dx.numpy(), dgamma.numpy(), dbeta.numpy()], 1e-5)


def optimizers():
    shape, lr = (3, 5), np.float32(0.03)
    raw = tf.raw_ops
    for name, nesterov in (("momentum", False), ("Nesterov", True)):
        v, a, g = draw(*shape), draw(*shape), draw(*shape)
        var, acc = tf.Variable(v), tf.Variable(a)
        raw.ResourceApplyMomentum(var=var.handle, accum=acc.handle, lr=lr, grad=g, momentum=np.float32(0.9), use_nesterov=nesterov)
        case("optimizers", "momentum", name, dict(momentum=0.9, use_nesterov=nesterov), [v, a, g, lr], [var.numpy(), acc.numpy()], 1e-6)
    for name, decay, momentum, epsilon in (("usual", .9, .9, 1.0), ("small epsilon", .95, 0.0, 1e-10)):
        v, s, m, g = draw(*shape), draw(*shape, lo=.1, hi=1), draw(*shape), draw(*shape)
        var, ms, mom = tf.Variable(v), tf.Variable(s), tf.Variable(m)
        raw.ResourceApplyRMSProp(var=var.handle, ms=ms.handle, mom=mom.handle, lr=lr, rho=np.float32(decay),
                                 momentum=np.float32(momentum), epsilon=np.float32(epsilon), grad=g)
        case("optimizers", "rmsprop", name, dict(decay=decay, momentum=momentum, epsilon=epsilon), [v, s, m, g, lr],
             [var.numpy(), ms.numpy(), mom.numpy()], 1e-6)
    v, m, s, g = draw(*shape), draw(*shape), draw(*shape, lo=.1, hi=1), draw(*shape)
    var, mv, sv = tf.Variable(v), tf.Variable(m), tf.Variable(s)
    b1, b2 = np.float32(0.81), np.float32(0.998)
    raw.ResourceApplyAdam(var=var.handle, m=mv.handle, v=sv.handle, beta1_power=b1, beta2_power=b2, lr=lr, beta1=np.float32(0.9),
                          beta2=np.float32(0.999), epsilon=np.float32(1e-8), grad=g)
    case("optimizers", "adam", "third step", dict(beta1=.9, beta2=.999, epsilon=1e-8), [v, m, s, g, lr, b1, b2],
         [var.numpy(), mv.numpy(), sv.numpy()], 1e-6)
    for name, clip in (("longer", 1.0), ("shorter", 10.0)):
        g = draw(4, 6)
        case("optimizers", "clip_by_norm", name, dict(clip=clip), [g], [tf.clip_by_norm(g, clip).numpy()], 1e-6)
        a, b = draw(3, 4), draw(7)
        clipped, norm = tf.clip_by_global_norm([a, b], clip)
        case("optimizers", "global_norm", name, {}, [a, b], [norm.numpy()], 1e-6)
        case("optimizers", "clip_by_global_norm", name, dict(clip=clip), [a, norm.numpy()], [clipped[0].numpy()], 1e-6)
    case("optimizers", "clip_by_norm", "zeros", dict(clip=1.0), [np.zeros(4, np.float32)],
         [tf.clip_by_norm(np.zeros(4, np.float32), 1.0).numpy()], 0)
    shadow, value = draw(3, 4), draw(3, 4)
    decay = tf.constant(0.35)
    case("optimizers", "moving_average", "decay is a tensor", dict(rate=0), [shadow, value, decay.numpy()],
         [(shadow - (shadow - value) * (1.0 - decay)).numpy()], 1e-6)
    rate = tf.convert_to_tensor(1.0 - 0.9997)
    case("optimizers", "moving_average", "decay is a number", dict(rate=float(rate.numpy())), [shadow, value, None],
         [(shadow - (shadow - value) * rate).numpy()], 1e-6)


def elementwise():
    a, b, d = few(4, 5), few(4, 5), draw(4, 5)
    av, bv = tf.constant(a), tf.constant(b)
    for op, f in (("maximum", tf.maximum), ("minimum", tf.minimum)):
        with tf.GradientTape() as tape:
            tape.watch([av, bv])
            y = f(av, bv)
            loss = tf.reduce_sum(y * d)
        case("elementwise", op, "ties", {}, [a, b], [y.numpy()], 0)
        case("elementwise", op + "_grad", "ties", {}, [d, a, b], [g.numpy() for g in tape.gradient(loss, [av, bv])], 0)
    for op, f in (("reduce_max", tf.reduce_max), ("reduce_min", tf.reduce_min), ("reduce_mean", tf.reduce_mean),
                  ("reduce_sum", tf.reduce_sum)):
        x = few(3, 4, 2)
        xv = tf.constant(x)
        with tf.GradientTape() as tape:
            tape.watch(xv)
            y = f(xv, axis=[0, -2])
            dy = draw(*y.shape)
            loss = tf.reduce_sum(y * dy)
        p = dict(axes=[0, -2], keep_dims=False)
        case("elementwise", op, "ties", p, [x], [y.numpy()], 1e-6)
        case("elementwise", op + "_grad", "ties", p, [dy, x] + ([y.numpy()] if op[-3:] in ("max", "min") else []),
             [tape.gradient(loss, xv).numpy()], 1e-6)
    case("elementwise", "reduce_max", "of nothing", dict(axes=[1], keep_dims=False), [np.zeros((2, 0), np.int32)],
         [tf.reduce_max(np.zeros((2, 0), np.int32), axis=1).numpy()], 0)
    for op, f in (("relu", tf.nn.relu), ("relu6", tf.nn.relu6), ("elu", tf.nn.elu), ("sigmoid", tf.sigmoid), ("tanh", tf.tanh)):
        x = np.array([-9, -1, -.5, -1e-3, 0, 1e-3, .5, 1, 5.999, 6, 6.001, 20], np.float32)
        xv, dy = tf.constant(x), draw(12)
        with tf.GradientTape() as tape:
            tape.watch(xv)
            y = f(xv)
            loss = tf.reduce_sum(y * dy)
        case("elementwise", op, "kinks", {}, [x], [y.numpy()], 1e-6)
        case("elementwise", op + "_grad", "kinks", {}, [dy, y.numpy()], [tape.gradient(loss, xv).numpy()], 2e-6)
    for op, f in (("softmax", tf.nn.softmax), ("log_softmax", tf.nn.log_softmax)):
        x = draw(3, 7, lo=-5, hi=5)
        xv, dy = tf.constant(x), draw(3, 7)
        with tf.GradientTape() as tape:
            tape.watch(xv)
            y = f(xv)
            loss = tf.reduce_sum(y * dy)
        case("elementwise", op, "scores", {}, [x], [y.numpy()], 2e-6)
        case("elementwise", op + "_grad", "scores", {}, [dy, y.numpy()], [tape.gradient(loss, xv).numpy()], 4e-6)
    x = np.array([-2.7, -1.5, -.5, 0, .5, .999, 1.5, 2.7, 250.9], np.float32)
    case("elementwise", "cast", "truncation", dict(dtype="int32"), [x], [tf.cast(x, tf.int32).numpy()], 0)
    case("elementwise", "floor", "both signs", {}, [x], [tf.floor(x).numpy()], 0)
    case("elementwise", "sign", "both signs", {}, [x], [tf.sign(x).numpy()], 0)
    case("elementwise", "pow", "square", dict(exponent=2.0), [x], [tf.pow(x, 2.0).numpy()], 1e-6)
    indices = np.array([[0, 3, -1], [4, 2, 5]], np.int32)
    case("elementwise", "one_hot", "some outside", dict(depth=5, on=1.0, off=0.0), [indices], [tf.one_hot(indices, 5).numpy()], 0)
    case("elementwise", "argmax", "ties", dict(axis=1), [few(4, 6)], [None], 0)
    groups["elementwise"][-1]["outputs"] = [tensor(tf.argmax(
        np.array(groups["elementwise"][-1]["inputs"][0]["data"], np.float32).reshape(4, 6), 1, output_type=tf.int32).numpy())]
    x, idx = draw(5, 3), np.array([4, 0, 4, 2], np.int32)
    xv, dy = tf.constant(x), draw(4, 3)
    with tf.GradientTape() as tape:
        tape.watch(xv)
        y = tf.gather(xv, idx)
        loss = tf.reduce_sum(y * dy)
    case("elementwise", "gather", "a row twice", {}, [x, idx], [y.numpy()], 0)
    case("elementwise", "gather_grad", "a row twice", {}, [dy, idx, x], [tf.convert_to_tensor(tape.gradient(loss, xv)).numpy()], 1e-6)
    x = draw(2, 3, 2)
    case("elementwise", "pad", "value", dict(amounts=[0, 1, 2, 0, 1, 1], value=.5), [x],
         [tf.pad(x, [[0, 1], [2, 0], [1, 1]], constant_values=.5).numpy()], 0)
    case("elementwise", "tile", "two axes", dict(multiples=[1, 2, 3]), [x], [tf.tile(x, [1, 2, 3]).numpy()], 0)
    case("elementwise", "transpose", "axes", dict(perm=[2, 0, 1]), [x], [tf.transpose(x, [2, 0, 1]).numpy()], 0)
    case("elementwise", "slice", "to the end", dict(begin=[0, 1, 0], size=[2, -1, 1]), [x], [tf.slice(x, [0, 1, 0], [2, -1, 1]).numpy()], 0)
    case("elementwise", "concat", "axis -2", dict(axis=-2), [x, x[:, :1]], [tf.concat([x, x[:, :1]], -2).numpy()], 0)
    case("elementwise", "l2_loss", "all", {}, [x], [tf.nn.l2_loss(x).numpy()], 1e-6)
    a, b = draw(3, 4), draw(5, 4)
    case("elementwise", "matmul", "b transposed", dict(transpose_a=False, transpose_b=True), [a, b],
         [tf.matmul(a, b, transpose_b=True).numpy()], 2e-6)


def main():
    out = sys.argv[1]
    os.makedirs(out, exist_ok=True)
    for f in (convolutions, pooling, batch_norm, optimizers, elementwise):
        f()
    for group, cases in groups.items():
        with open(os.path.join(out, group + ".json"), "w") as f:
            f.write('{"made_by": "tests/witness/make_op_golden.py", "tensorflow": "%s", "seed": %d,\n"cases": [\n' % (tf.__version__, SEED))
            f.write(",\n".join(json.dumps(c, separators=(",", ":")) for c in cases))
            f.write("\n]}\n")
        print(group, len(cases))


main()
