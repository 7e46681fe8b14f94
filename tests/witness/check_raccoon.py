#!/usr/bin/env python3
"""check_raccoon.py OUT...: training on the raccoons (tests/ship/raccoon.sh) beside the original's four runs.

Reads the event files with TensorFlow and compares the mean total loss of each hundred steps, averaged over the folders given, with
the mean of the original's runs (../shared/witness/raccoon.md): within 4 % for three whole runs. A single run is as far from the mean as
the original's own single runs (3.7 %): for fewer runs, and those that are not whole, the limit is 10 %. Whole runs must reach AP@0.5 0.48 on the average. Made for TensorFlow 2.15."""
import glob
import json
import os
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow.compat.v1 as tf

WANTED = [8.234, 6.405, 5.660, 5.226, 4.838, 4.563, 4.283, 4.107, 3.954, 3.801, 3.692, 3.601, 3.538, 3.444, 3.420]


def losses(folder):
    found = {}
    for path in sorted(glob.glob(os.path.join(folder, "train", "events.out.tfevents.*"))):
        for event in tf.train.summary_iterator(path):
            for value in event.summary.value:
                if value.tag == "Losses/TotalLoss":
                    found[event.step] = value.simple_value
    return found


def main(folders):
    runs = [losses(f) for f in folders]
    last = min(max(r) for r in runs)
    limit = 0.04 if len(runs) >= 3 and last >= 1500 else 0.10
    bad = False
    for k in range(last // 100):
        means = []
        for r in runs:
            window = [v for s, v in r.items() if 100 * k < s <= 100 * k + 100]
            means.append(sum(window) / len(window))
        ours = sum(means) / len(means)
        off = ours / WANTED[k] - 1
        wrong = not abs(off) <= limit
        bad = bad or wrong
        print("%s steps %d-%d: ours %.3f, the original's %.3f (%+.1f %%)" % ("FAIL" if wrong else "ok  ", 100 * k + 1, 100 * k + 100, ours, WANTED[k], 100 * off))
    if last < 100:
        print("FAIL fewer than 100 steps in", folders)
        return True
    if last >= 1500:
        aps = []
        for f in folders:
            with open(os.path.join(f, "eval", "metrics.json")) as file:
                aps.append(json.load(file)["metrics"]["DetectionBoxes_Precision/mAP@.50IOU"])
        mean = sum(aps) / len(aps)
        print("%s AP@0.5 %.3f (%s); the original's 0.527, at least 0.48" % ("ok  " if mean >= 0.48 else "FAIL", mean, ", ".join("%.3f" % a for a in aps)))
        bad = bad or not mean >= 0.48
    return bad


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
