#!/usr/bin/env python3
"""Is the check at export worth its name? Seeded alterations of an exported graph - attributes, edges, constants, over all
types of nodes - run in TensorFlow and in objdet's interpreter. Each that moves TensorFlow's output beyond the limits of
od_export_compare must be caught: the interpreter refuses the file, or its output is beyond them too.

Alterations are made until --count of them ran in TensorFlow (which refuses many for their types or shapes).

    OBJDET_EXPORT_DIR=DIR build/tests/export/test_export && tests/witness/check_mutations.py DIR [--count 200] [--seed 1]
        [--lib build/libobjdet.so] [--verbose]

Exit 1 when one got through, when the interpreter died, or when it gave an output that TensorFlow does not give (a wrong output is
wrong even where the check would have caught it). Written against TensorFlow 2.15."""
import argparse
import collections
import json
import os
import random
import subprocess
import sys
import tempfile

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import graphlib

SECONDS = 60


# ------------------------------------------------------------------------------------------------------------ workers
def serve_ours(folder, names, lib):
    lib = graphlib.library(lib)
    pictures = np.load(os.path.join(folder, "pictures.npy"))

    def run(path):
        g = graphlib.Graph(lib, path)
        try:
            g.check()
            return g.run([n + ":0" for n in names], {"image_tensor:0": pictures})
        finally:
            g.close()
    return run


def serve_tensorflow(folder, names):
    import tensorflow.compat.v1 as tf
    pictures = np.load(os.path.join(folder, "pictures.npy"))

    def run(path):
        with tf.Graph().as_default(), tf.Session() as s:
            gd = tf.GraphDef()
            gd.ParseFromString(open(path, "rb").read())
            tf.import_graph_def(gd, name="")
            return s.run([n + ":0" for n in names], {"image_tensor:0": pictures}, options=tf.RunOptions(timeout_in_ms=SECONDS * 500))
    return run


def serve(which, folder, names, lib):
    run = serve_ours(folder, names, lib) if which == "ours" else serve_tensorflow(folder, names)
    print("ready", flush=True)
    for line in sys.stdin:
        path, out = json.loads(line)
        try:
            np.savez(out, **dict(zip(names, [np.asarray(v) for v in run(path)])))
            print("done", flush=True)
        except Exception as e:
            print(json.dumps("%s: %s" % (type(e).__name__, str(e).split("\n")[0][:300])), flush=True)


class Worker:
    """A process that runs graphs; started again when it died or did not answer."""

    def __init__(self, which, args):
        self.command = [sys.executable, os.path.abspath(__file__), args.folder, "--lib", args.lib, "--serve", which]
        self.which, self.process, self.deaths = which, None, 0

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        while self.process.stdout.readline().strip() not in ("ready", ""):
            pass

    def run(self, path, names):
        """(outputs, None), or (None, why there are none)."""
        import threading
        if not self.process:
            self.start()
        out = path + "." + self.which + ".npz"
        watch = threading.Timer(SECONDS, self.process.kill)
        watch.start()
        try:
            self.process.stdin.write(json.dumps([path, out]) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline().strip()
        except BrokenPipeError:
            answer = ""
        late = not watch.is_alive()
        watch.cancel()
        if not answer:
            self.process.wait()
            self.process = None
            if not late:
                self.deaths += 1
            return None, "no answer in %d s" % SECONDS if late else "DIED"
        if answer != "done":
            return None, json.loads(answer)
        with np.load(out) as z:
            return {n: z[n] for n in names}, None


# -------------------------------------------------------------------------------------------------------- alterations
def alter_attr(node, gd, rng):
    names = [k for k in sorted(node.attr) if not (node.op == "Const" and k == "value") and not k.startswith("_")]
    if not names:
        return None
    k = rng.choice(names)
    a = node.attr[k]
    kind = a.WhichOneof("value")
    if kind == "b":
        a.b = not a.b
    elif kind == "i":
        a.i += rng.choice([-1, 1, 2, 16])
    elif kind == "f":
        a.f = rng.choice([a.f * 2 + 0.1, a.f * 0.5, -a.f, a.f + 1])
    elif kind == "type":
        if rng.random() < 0.7:
            return None
        a.type = rng.choice([t for t in (1, 3, 4, 9, 10) if t != a.type])
    elif kind == "s":
        other = {b"SAME": b"VALID", b"VALID": b"SAME", b"NHWC": b"NCHW", b"bilinear": b"nearest"}.get(a.s)
        a.s = other if other and rng.random() < 0.8 else a.s + b"X"
    elif kind == "list" and len(a.list.i):
        n = rng.randrange(len(a.list.i))
        a.list.i[n] += rng.choice([-1, 1, 2])
    elif kind == "list" and len(a.list.type):
        a.list.type[rng.randrange(len(a.list.type))] = 3
    elif kind == "shape" and len(a.shape.dim):
        a.shape.dim[rng.randrange(len(a.shape.dim))].size += rng.choice([2, 3, 50])
    elif kind == "shape":
        a.shape.unknown_rank = not a.shape.unknown_rank
    else:
        del node.attr[k]
    return "attribute %s (%s)" % (k, kind)


def alter_edge(node, gd, rng):
    data = [i for i, n in enumerate(node.input) if not n.startswith("^")]
    if not data:
        return None
    i = rng.choice(data)
    how = rng.random()
    if how < 0.3 and len(data) > 1:
        j = rng.choice([k for k in data if k != i])
        node.input[i], node.input[j] = node.input[j], node.input[i]
        return "inputs %d and %d swapped" % (i, j)
    if how < 0.34:
        old = node.input[i]
        del node.input[i]
        return "input %s dropped" % old
    # another tensor of the same type and rank, made before this node, of the same part of the graph where there is one
    old = node.input[i]
    like = TYPES.get(full(old))
    here = ORDER[node.name]
    others = [t for t, v in TYPES.items() if v == like and full(old) != t and ORDER[t.split(":")[0]] < here]
    part = node.name.rsplit("/", 1)[0] + "/"
    near = [t for t in others if t.startswith(part)]
    if not others:
        return None
    node.input[i] = rng.choice(near if near and how < 0.85 else others[-60:])
    return "input %s replaced by %s" % (old, node.input[i])


TYPES, ORDER = {}, {}


def full(name):
    return name if ":" in name else name + ":0"


def learn(gd):
    """Type and rank of every tensor, order of the nodes."""
    import tensorflow.compat.v1 as tf
    with tf.Graph().as_default() as g:
        tf.import_graph_def(gd, name="")
        for op in g.get_operations():
            for t in op.outputs:
                TYPES[t.name] = (t.dtype.name, t.shape.rank)
    for i, n in enumerate(gd.node):
        ORDER[n.name] = i


def alter_const(node, gd, rng):
    import tensorflow.compat.v1 as tf
    v = tf.make_ndarray(node.attr["value"].tensor).copy()
    if v.dtype == object or v.size == 0:
        return None
    flat = v.reshape(-1)
    how = rng.choice(["one", "one", "all", "all", "roll", "zero", "shape"])
    if how == "one":
        n = rng.randrange(flat.size)
        flat[n] = flat[n] + 1 if v.dtype.kind == "i" else ~flat[n] if v.dtype.kind == "b" else flat[n] * 2 + 0.25
    elif how == "all":
        flat[...] = flat + 1 if v.dtype.kind == "i" else flat if v.dtype.kind == "b" else flat * 1.25
    elif how == "roll":
        flat[...] = np.roll(flat, 1)
    elif how == "zero":
        flat[...] = 0
    else:
        v = v.reshape(v.shape + (1,))
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(v))
    return "constant %s %s: %s" % (v.dtype, list(v.shape), how)


def alterations(gd, seed):
    """Altered graphs without end: op types in turn, then a node, then what is done to it."""
    import tensorflow.compat.v1 as tf
    by_op = collections.defaultdict(list)
    for i, n in enumerate(gd.node):
        by_op[n.op].append(i)
    ops = sorted(by_op)
    turn = 0
    while True:
        rng = random.Random("%d/%d" % (seed, turn))
        op = ops[turn % len(ops)] if turn % 4 else "Const"
        turn += 1
        m = tf.GraphDef()
        m.CopyFrom(gd)
        node = m.node[rng.choice(by_op[op])]
        kinds = [alter_const, alter_const, alter_const, alter_attr] if op == "Const" else [alter_attr, alter_edge]
        what = rng.choice(kinds)(node, m, rng)
        if what and m.SerializeToString(deterministic=True) != gd.SerializeToString(deterministic=True):
            yield node.op, node.name, what, m


# --------------------------------------------------------------------------------------------------------------- main
def same_outputs(a, b):
    """Equal shapes, and values that differ by rounding: for outputs that are no detections any more."""
    return all(a[n].shape == b[n].shape and np.allclose(a[n], b[n], rtol=1e-3, atol=1e-4, equal_nan=True) for n in a)


def judge(lib, names, want, tf_out, tf_error, our_out, our_error):
    """(verdict, remark); verdicts: caught, MISSED, equal, refused by both, not refused, false alarm, DIED, WRONG."""
    ours = our_error or graphlib.differs(lib, names, our_out, want)
    if our_error == "DIED":
        return "DIED", ""
    if tf_out is None:
        return ("refused by both", "") if our_error else ("differs where TensorFlow refuses", "") if ours else ("not refused", tf_error)
    theirs = graphlib.differs(lib, names, tf_out, want)
    if our_out is not None:
        wrong = graphlib.differs(lib, names, our_out, tf_out)
        # NaN: TensorFlow's activations swallow it or not, as its back ends happen to do
        finite = all(np.isfinite(v).all() for v in list(tf_out.values()) + list(our_out.values()))
        if wrong and finite and not same_outputs(our_out, tf_out):
            return "WRONG", wrong
    if theirs:
        return ("caught", "") if ours else ("MISSED", theirs)
    return ("false alarm", ours) if ours else ("equal", "")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("folder")
    p.add_argument("--count", type=int, default=200)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--lib", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "build", "libobjdet.so"))
    p.add_argument("--serve")
    p.add_argument("--verbose", action="store_true")
    args = p.parse_args()
    names = [f[:-4] for f in sorted(os.listdir(args.folder)) if f.endswith(".npy") and f != "pictures.npy"]
    if args.serve:
        return serve(args.serve, args.folder, names, args.lib)
    import tensorflow.compat.v1 as tf
    want = {n: np.load(os.path.join(args.folder, n + ".npy")) for n in names}
    lib = graphlib.library(args.lib)
    gd = tf.GraphDef()
    gd.ParseFromString(open(os.path.join(args.folder, "image_tensor", "frozen_inference_graph.pb"), "rb").read())
    workers = [Worker("tensorflow", args), Worker("ours", args)]
    verdicts = collections.Counter()
    ops = set()
    ran = 0
    learn(gd)
    with tempfile.TemporaryDirectory() as tmp:
        for i, (op, name, what, m) in enumerate(alterations(gd, args.seed)):
            if ran == args.count or i == 10 * args.count:
                break
            path = os.path.join(tmp, "graph.pb")
            with open(path, "wb") as f:
                f.write(m.SerializeToString(deterministic=True))
            results = [w.run(path, names) for w in workers]
            verdict, remark = judge(lib, names, want, *results[0], *results[1])
            verdicts[verdict] += 1
            ran += results[0][0] is not None
            ops.add(op)
            if args.verbose or verdict not in ("caught", "equal", "refused by both", "differs where TensorFlow refuses"):
                print("%d %s: %s %s, %s: %s\n      tensorflow: %s\n      ours: %s" % (i, verdict, op, name, what, remark, results[0][1], results[1][1]), flush=True)
    for w in workers:
        if w.process:
            w.process.kill()
    print("%d alterations that TensorFlow runs, of %d over %d of %d op types: %s" % (ran, sum(verdicts.values()), len(ops), len(set(n.op for n in gd.node)), dict(verdicts)))
    return 1 if verdicts["MISSED"] + verdicts["DIED"] + verdicts["WRONG"] else 0


if __name__ == "__main__":
    sys.exit(main())
