"""The original and TensorFlow read what `objdet train` writes, go on with it, and the other way round.

  OD_WITNESS=1 PYTHONPATH=<witness>/original V/bin/python tests/witness/check_training.py BUILD

For each optimizer: the legacy trainer's own checkpoint of the same config has the same variables, shapes and types as ours; our
.meta is imported and restored; TensorBoard's reader finds the original's tags in our event file; the original trains on from our
folder (RMSProp), and we train on from the original's. With shared data: from the original's raccoon run, too. TensorFlow 2.15.1, one step of
each. Exit code 1 and one line for each thing that is wrong.
"""
import glob
import os
import re
import subprocess
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import numpy as np
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import object_detection

tf1 = tf.compat.v1
ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
SHARED = os.environ.get("OBJDET_SHARED", os.path.join(ROOT, "..", "shared"))
OPTIMIZERS = {
    "rms_prop": "rms_prop_optimizer { learning_rate { exponential_decay_learning_rate { initial_learning_rate: 0.004 } } momentum_optimizer_value: 0.9 decay: 0.9 epsilon: 1.0 }",
    "momentum": "momentum_optimizer { learning_rate { constant_learning_rate { learning_rate: 0.01 } } momentum_optimizer_value: 0.9 }",
    "adam": "adam_optimizer { learning_rate { constant_learning_rate { learning_rate: 0.0005 } } }",
}
# Fill levels of queues that we do not have.
NOT_OURS = {"batch/fraction_of_150_full", "queue/prefetch_queue/fraction_of_5_full"}
passed, failed = 0, 0


def check(what, ok, more=""):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print("FAILED:", what, more)


def run(name, command, **kwargs):
    r = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, **kwargs)
    log = r.stdout + r.stderr
    check(name, r.returncode == 0, log[-1500:])
    return log


def ours(folder, config, steps, *flags):
    return run("objdet train " + folder, [os.path.join(ROOT, sys.argv[1], "objdet"), "train", "--pipeline_config_path=" + config, "--train_dir=" + folder,
                                          "--set", "train_config.num_steps=%d" % steps, "--threads=1", "--seed=3", *flags])


def theirs(folder, config):
    trainer = os.path.join(os.path.dirname(object_detection.__file__), "legacy", "train.py")
    return run("legacy/train.py " + folder, [sys.executable, trainer, "--logtostderr", "--pipeline_config_path=" + config, "--train_dir=" + folder],
               env=dict(os.environ, OD_WITNESS="1"))


def losses(log):
    return [float(x) for x in re.findall(r"global step \d+: loss = ([-\d.naif]+)", log)]


def listing(folder):
    r = tf.train.load_checkpoint(folder)
    types = r.get_variable_to_dtype_map()
    return {n: (tuple(s), types[n].name) for n, s in r.get_variable_to_shape_map().items()}


def write_config(path, optimizer, steps):
    with open(os.path.join(ROOT, "tests", "golden", "train", "tiny.config")) as f:
        text = f.read()
    text = re.sub(r"train_config \{.*?\n\}", "train_config { batch_size: 4 num_steps: %d gradient_clipping_by_norm: 2.0 optimizer { %s } }" % (steps, optimizer),
                  text, flags=re.S)
    text = text.replace('"tests/', '"' + ROOT + "/tests/")
    with open(path, "w") as f:
        f.write(text)


def meta_graph(name, prefix, want):
    """Our .meta is a graph with a saver that fills it."""
    with tf.Graph().as_default(), tf1.Session() as s:
        saver = tf1.train.import_meta_graph(prefix + ".meta")
        saver.restore(s, prefix)
        variables = {v.op.name: v for v in tf1.global_variables()}
        check(name + ": variables of .meta", set(variables) == set(want))
        reader = tf.train.load_checkpoint(prefix)
        some = sorted(variables)[::40] + ["global_step"]
        check(name + ": values through .meta", all(np.array_equal(s.run(variables[n]), reader.get_tensor(n)) for n in some))
        # what the saver of that graph writes is a checkpoint of the same tensors
        again = saver.save(s, prefix + "-again", write_state=False)
        check(name + ": saved again", listing(again) == want)


def tags(folder):
    a = EventAccumulator(folder, size_guidance={"scalars": 0, "histograms": 1, "images": 1}).Reload()
    return a, {k: set(v) if isinstance(v, list) else v for k, v in a.Tags().items()}


def event_file(name, our_folder, their_folder):
    a, our_tags = tags(our_folder)
    _, their_tags = tags(their_folder)
    missing = their_tags["scalars"] - our_tags["scalars"] - NOT_OURS
    # the original writes its step counter only where its two minutes fall
    check(name + ": scalars of the original", not missing, sorted(missing))
    added = our_tags["scalars"] - their_tags["scalars"]
    check(name + ": no other scalars", added <= {"global_step/sec"}, sorted(added))
    check(name + ": a graph for TensorBoard", our_tags["graph"])
    missing = their_tags["histograms"] ^ our_tags["histograms"]
    check(name + ": histograms of the original", not missing, sorted(missing)[:5])
    steps = [e.step for e in a.Scalars("Losses/TotalLoss")]
    check(name + ": steps rise", steps == sorted(set(steps)) and steps[-1] == 4, steps)
    total = a.Scalars("Losses/TotalLoss")[0].value
    parts = sum(a.Scalars("Losses/" + k)[0].value for k in ("Loss/localization_loss", "Loss/classification_loss", "regularization_loss"))
    check(name + ": the total is the sum", abs(total - parts) < 1e-4 * total, (total, parts))


def optimizer(name, text, folder):
    config = os.path.join(folder, name + ".config")
    a, b = os.path.join(folder, name + "-ours"), os.path.join(folder, name + "-theirs")
    write_config(config, text, 4)
    our_losses = losses(ours(a, config, 4))
    their_losses = losses(theirs(b, config))
    want = listing(b)
    check(name + ": the same variables", listing(a) == want, sorted(set(listing(a).items()) ^ set(want.items()))[:6])
    meta_graph(name, os.path.join(a, "model.ckpt-4"), want)
    event_file(name, a, b)
    # each goes on where the other stopped, from a loss that fits; the original's start takes half a minute: once is enough
    write_config(config, text, 8)
    if name == "rms_prop":
        their_turn(name, a, config, want, our_losses)
    log = ours(b, config, int(tf.train.load_checkpoint(b).get_tensor("global_step")) + 4)
    check(name + ": we go on at the original's step", "no sidecar" in log and losses(log), log[-300:])
    check(name + ": our losses go on from its", np.isfinite(losses(log)).all() and losses(log)[0] < 2 * their_losses[0], (their_losses, losses(log)))


def their_turn(name, a, config, want, our_losses):
    log = theirs(a, config)
    steps = [int(x) for x in re.findall(r"global step (\d+): loss", log)]
    check(name + ": the original goes on at our step", steps and steps[0] == 5, steps)
    check(name + ": and ends at its", listing(a) == want and tf.train.load_checkpoint(a).get_tensor("global_step") >= 8)
    check(name + ": its losses go on from ours", np.isfinite(losses(log)).all() and losses(log)[0] < 2 * our_losses[0], (our_losses, losses(log)))


def raccoon(folder):
    """The end of the original's run on the raccoons (mean loss of its last hundred steps 3.42): we go on from there."""
    source = os.path.join(SHARED, "data", "raccoon_original")
    if not os.path.exists(os.path.join(source, "train", "checkpoint")):
        print("SKIPPED: needs shared data data/raccoon_original")
        return
    train = os.path.join(folder, "raccoon")
    os.makedirs(train)
    for f in glob.glob(os.path.join(source, "train", "*")):
        with open(f, "rb") as i, open(os.path.join(train, os.path.basename(f)), "wb") as o:
            o.write(i.read())
    log = ours(train, os.path.join(source, "export", "pipeline.config"), 1520,
               "--set", "train_input_reader.label_map_path=" + os.path.join(source, "label_map.pbtxt"),
               "--set", "train_input_reader.tf_record_input_reader.input_path=" + os.path.join(source, "train.record"))
    values = losses(log)
    check("raccoon: at its step", "resuming at step 1500" in log, log[-400:])
    check("raccoon: losses as there", values and max(values) < 6, values)


def main():
    with tempfile.TemporaryDirectory() as folder:
        for name, text in OPTIMIZERS.items():
            optimizer(name, text, folder)
        raccoon(folder)
    print("%d passed, %d failed" % (passed, failed))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
