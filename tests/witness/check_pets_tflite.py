"""check_pets_tflite.py [BUILD]: a real pets detector through our program.

The shared data hold an 8-bit SSD MobileNet v1 0.75 for the 37 pets (detect.tflite, batch norm folded into the weights). Its
weights are put into a checkpoint (gamma = sqrt(variance + epsilon), so that our batch norm does nothing but add the bias), and
`objdet detect` looks at the ten real pets of pets_examples.record: at least nine must get their own class as the best one, with an
IoU above 0.5. Needs TensorFlow (its TFLite reader); skipped aloud without the shared data.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

import numpy as np
import tensorflow as tf

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHARED = os.environ.get("OBJDET_SHARED", os.path.join(ROOT, "..", "shared"))
BUILD = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build")
FOLDER = os.path.join(SHARED, "data", "pets_ssd_mobilenet_v1_075_quant")
RECORD = os.path.join(SHARED, "data", "tf_models_testdata", "research", "object_detection", "test_data", "pets_examples.record")
EPSILON = 0.001


def tensors():
    """name -> float array, scales and zero points applied."""
    reader = tf.lite.Interpreter(os.path.join(FOLDER, "detect.tflite"))
    reader.allocate_tensors()
    out = {}
    for d in reader.get_tensor_details():
        q = d["quantization_parameters"]
        if not re.search(r"FakeQuantWithMinMaxVars$|_bias$", d["name"]):
            continue
        value = reader.get_tensor(d["index"]).astype(np.float64)
        out[d["name"]] = ((value - q["zero_points"][0]) * q["scales"][0]).astype(np.float32)
    return out


def variables(lite):
    """Names of the checkpoint -> values."""
    out = {}
    for name, w in lite.items():
        if name.endswith("_bias"):
            continue
        scope = name[:-len("/weights_quant/FakeQuantWithMinMaxVars")]
        ours = scope.replace("FeatureExtractor/MobilenetV1/MobilenetV1/", "FeatureExtractor/MobilenetV1/")
        depthwise = scope.endswith("_depthwise")
        weights = np.transpose(w, (1, 2, 3, 0))  # [out,h,w,in] -> [h,w,in,out]; depthwise [1,h,w,c] -> [h,w,c,1]
        if scope.startswith("BoxPredictor"):
            out[ours + "/weights"], out[ours + "/biases"] = weights, lite[scope + "/Conv2D_bias"]
            continue
        bias = lite[scope + ("/depthwise_Fold_bias" if depthwise else "/Conv2D_Fold_bias")]
        out[ours + ("/depthwise_weights" if depthwise else "/weights")] = weights
        out[ours + "/BatchNorm/gamma"] = np.full_like(bias, np.sqrt(1 + EPSILON))
        out[ours + "/BatchNorm/beta"] = bias
        out[ours + "/BatchNorm/moving_mean"] = np.zeros_like(bias)
        out[ours + "/BatchNorm/moving_variance"] = np.ones_like(bias)
    return out


def write_checkpoint(prefix, values):
    names = sorted(values)
    tf.raw_ops.SaveV2(prefix=tf.constant(prefix + "_part"), tensor_names=tf.constant(names), shape_and_slices=tf.constant([""] * len(names)),
                      tensors=[tf.constant(values[n]) for n in names])
    tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=tf.constant([prefix + "_part"]), destination_prefix=tf.constant(prefix))


def overlap(a, b):
    h, w = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    both = max(h, 0) * max(w, 0)
    return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both)


def main():
    if not os.path.exists(RECORD):
        print("SKIPPED: needs the shared data")
        return 0
    right, ious = 0, []
    with tempfile.TemporaryDirectory() as tmp:
        write_checkpoint(os.path.join(tmp, "pets.ckpt"), variables(tensors()))
        with open(os.path.join(FOLDER, "ssd_mobilenet_v1_0.75_depth_quantized_300x300_pets_sync.config")) as f:
            text = re.sub(r"graph_rewriter \{(?:[^{}]|\{[^{}]*\})*\}", "", f.read())
        with open(os.path.join(tmp, "pipeline.config"), "w") as f:
            f.write(text)
        truth = []
        for i, record in enumerate(tf.data.TFRecordDataset(RECORD)):
            feature = tf.train.Example.FromString(record.numpy()).features.feature
            path = os.path.join(tmp, "pet-%d.jpg" % i)
            with open(path, "wb") as f:
                f.write(feature["image/encoded"].bytes_list.value[0])
            box = [feature["image/object/bbox/" + k].float_list.value[0] for k in ("ymin", "xmin", "ymax", "xmax")]
            truth.append((path, feature["image/object/class/label"].int64_list.value[0], box))
        out = subprocess.run([os.path.join(BUILD, "objdet"), "detect", "--checkpoint=" + os.path.join(tmp, "pets.ckpt"),
                              "--pipeline_config_path=" + os.path.join(tmp, "pipeline.config"),
                              "--label_map_path=" + os.path.join(FOLDER, "pet_label_map.pbtxt"),
                              "--output_directory=" + os.path.join(tmp, "out"), "--json"] + [t[0] for t in truth],
                             check=True, stdout=subprocess.PIPE).stdout
        found = {d["image"]: d["detections"] for d in map(json.loads, out.decode().splitlines())}
        for path, label, box in truth:
            best = found[path][0]
            ious.append(overlap(best["box"], box))
            right += best["class"] == label and ious[-1] > 0.5
    print("right class and IoU > 0.5: %d of %d, mean IoU %.3f" % (right, len(truth), sum(ious) / len(ious)))
    print("[%s] pets_tflite" % ("       OK " if right >= 9 else "  FAILED  "))
    return 0 if right >= 9 else 1


if __name__ == "__main__":
    sys.exit(main())
