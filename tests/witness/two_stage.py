"""two_stage.py CONFIG OUT.json [HxW,HxW...]: figures of the original for a small Faster R-CNN, and for a batch of pictures of
different shapes (which the original takes when the resizer pads them to one). Runs on the witness (../shared/witness: README.md
there says how); the format is that of its golden.py. 24 proposals.
"""
import os
import sys

import numpy as np
import tensorflow.compat.v1 as tf

sys.path.insert(0, os.path.join(os.environ.get("OBJDET_SHARED", os.path.join(os.path.dirname(__file__), "../../../shared")), "witness"))
import golden
import weights


def main():
    config_path, out_path = sys.argv[1:3]
    sizes = [tuple(map(int, s.split("x"))) for s in sys.argv[3].split(",")] if len(sys.argv) > 3 else [(golden.H, golden.W)]

    def inputs(model, batch):
        raws = [tf.placeholder(tf.float32, [1, h, w, 3]) for h, w in sizes]
        pairs = [model.preprocess(raw) for raw in raws]
        feed = {raw: weights.image(i, h, w)[None].astype(np.float32) for i, (raw, (h, w)) in enumerate(zip(raws, sizes))}
        return tf.concat([p[0] for p in pairs], 0), tf.concat([p[1] for p in pairs], 0), feed

    golden.inputs = inputs
    batch = len(sizes)
    config = golden.read_config(config_path)
    out = {"meta": {"format": 1, "config": os.path.basename(config_path), "model": "faster_rcnn", "tensorflow": tf.__version__,
                    "threads": int(os.environ.get("OD_THREADS", "2")), "batch": batch, "raw_image": [list(s) + [3] for s in sizes]}}
    variables, seen = golden.inference(config, batch, out)
    trained, trainable = golden.training(config, batch, out, 24, seen)
    listing = sorted({(v.op.name, tuple(v.shape.as_list())) for v in list(variables) + list(trained)})
    out["parameters"] = {"variables": len(listing), "values": int(sum(np.prod(s, dtype=np.int64) for _, s in listing)),
                         "trainable_variables": len(trainable),
                         "trainable_values": int(sum(np.prod(s, dtype=np.int64) for n, s in listing if n in trainable))}
    out["variables"] = {n: {"shape": list(s), "trainable": n in trainable} for n, s in listing}
    golden.write(out_path, out)


if __name__ == "__main__":
    main()
