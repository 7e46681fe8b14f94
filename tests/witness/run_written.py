"""run_written.py PREFIX: runs PREFIX.pb, a GraphDef that objdet wrote, in TensorFlow on the feeds of PREFIX.json and compares
with the results there (objdet's references): shape, and values within 1e-6 of the largest of the tensor. Exit 1 when they
differ. PREFIX.json: [{"feeds": {tensor: {dtype, shape, data}}, "fetches": {tensor: {...}}}]. TensorFlow 1.x or 2.x."""
import json
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1 if hasattr(tf, "compat") and hasattr(tf.compat, "v1") else tf


def array(x):
    return np.array(x["data"], dtype=x["dtype"]).reshape(x["shape"])


def full(name):
    return name if ":" in name else name + ":0"


def main(prefix):
    graph_def = tf1.GraphDef()
    with open(prefix + ".pb", "rb") as f:
        graph_def.ParseFromString(f.read())
    with open(prefix + ".json") as f:
        runs = json.load(f)
    with tf1.Graph().as_default(), tf1.Session() as session:
        tf1.import_graph_def(graph_def, name="")
        bad = 0
        for i, run in enumerate(runs):
            names = list(run["fetches"])
            got = session.run([full(n) for n in names], {full(n): array(v) for n, v in run["feeds"].items()})
            for name, value in zip(names, got):
                want = array(run["fetches"][name])
                if value.shape != want.shape:
                    print("run %d: %s is %s, expected %s" % (i, name, value.shape, want.shape))
                    bad += 1
                    continue
                if not want.size:
                    continue
                error = np.abs(value.astype(np.float64) - want)
                limit = run.get("tolerance", 1e-6) * max(1.0, float(np.abs(want).max()))
                if not error.max() <= limit:
                    k = int(error.argmax())
                    print("run %d: %s[%d] is %.9g, expected %.9g" % (i, name, k, value.ravel()[k], want.ravel()[k]))
                    bad += 1
    print("%s: %d nodes, TensorFlow %s, %d runs, %d differences" % (os.path.basename(prefix), len(graph_def.node), tf.__version__, len(runs), bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
