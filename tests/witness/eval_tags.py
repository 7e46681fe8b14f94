"""eval_tags.py: what the original's model_main writes when it evaluates: tags of the event file and the figures behind them, for the
small model of tests/golden/train with weights by formula at step 7. Runs on the witness (../shared/witness: README.md there says how);
writes tests/golden/eval/model_main.json. COCO metrics in one batch size of 1, learning rate of step 7, regularisation included.
"""
import glob
import json
import os
import sys
import tempfile

import tensorflow.compat.v1 as tf
from google.protobuf import text_format

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
sys.path.insert(0, os.path.join(os.environ.get("OBJDET_SHARED", os.path.join(ROOT, "../shared")), "witness"))
import weights
from object_detection import model_lib
from object_detection.builders import model_builder
from object_detection.protos import pipeline_pb2

STEP = 7
EVAL = """eval_config { num_visualizations: 2 metrics_set: "coco_detection_metrics" use_moving_averages: false }
eval_input_reader { label_map_path: "tests/golden/train/map.pbtxt" shuffle: false num_epochs: 1
  tf_record_input_reader { input_path: "tests/golden/train/pictures.record" } }
"""


def write_checkpoint(config, folder):
    with tf.Graph().as_default(), tf.Session() as sess:
        model = model_builder.build(config.model, is_training=False)
        images, shapes = model.preprocess(tf.zeros([1, 96, 96, 3]))
        model.predict(images, shapes)
        variables = tf.global_variables()
        step = tf.train.get_or_create_global_step()
        for v in variables:
            v.load(weights.weight(v.op.name, v.shape.as_list(), False), sess)
        step.load(STEP, sess)
        return tf.train.Saver(variables + [step]).save(sess, os.path.join(folder, "model.ckpt"), global_step=STEP)


def main():
    os.chdir(ROOT)
    with open("tests/golden/train/tiny.config") as f:
        text = f.read() + EVAL
    config = pipeline_pb2.TrainEvalPipelineConfig()
    text_format.Merge(text, config)
    with tempfile.TemporaryDirectory() as folder:
        prefix = write_checkpoint(config, folder)
        path = os.path.join(folder, "pipeline.config")
        with open(path, "w") as f:
            f.write(text)
        made = model_lib.create_estimator_and_inputs(run_config=tf.estimator.RunConfig(model_dir=folder), pipeline_config_path=path,
                                                     train_steps=None, sample_1_of_n_eval_examples=1)
        made["estimator"].evaluate(made["eval_input_fns"][0], steps=None, checkpoint_path=prefix, name="0")
        scalars, others = {}, []
        for event in tf.train.summary_iterator(glob.glob(os.path.join(folder, "eval_0", "events.out*"))[0]):
            for v in event.summary.value:
                assert event.step == STEP
                if v.WhichOneof("value") == "simple_value":
                    scalars[v.tag] = float("%.9g" % v.simple_value)
                else:
                    others.append([v.tag, v.WhichOneof("value")])
    out = {"meta": {"tensorflow": tf.__version__, "step": STEP, "script": "tests/witness/eval_tags.py"}, "eval": EVAL, "scalars": scalars, "others": others}
    with open("tests/golden/eval/model_main.json", "w") as f:
        json.dump(out, f, indent=1, sort_keys=True)
        f.write("\n")


if __name__ == "__main__":
    main()
