# The whole thread on a data set drawn for it, every program by the name that the original's pages use: records, training, evaluation,
# export, detection from the checkpoint and from the exported graph, which must agree. Nothing is learned in so few steps; that
# learning works is for longer runs to show.
. "$(dirname "$0")/../cli/tiny.sh"
tiny_begin

trains() {
  "$objdet" object_detection/legacy/train.py --logtostderr --pipeline_config_path=tiny.config --train_dir=train --threads=1 \
    --set train_config.num_steps=6 && [ -s train/model.ckpt-6.index ] && [ -s train/model.ckpt-6.meta ] && ls train/events.out.tfevents.*
}

evaluates() {
  "$objdet" object_detection/legacy/eval.py --logtostderr --run_once --pipeline_config_path=tiny.config --checkpoint_dir=train \
    --eval_dir=eval --threads=1 && ls eval/events.out.tfevents.* && grep -q '"global_step": 6' eval/metrics.json
}

exports() {
  "$objdet" object_detection/export_inference_graph.py --input_type image_tensor --pipeline_config_path tiny.config \
    --trained_checkpoint_prefix train/model.ckpt-6 --output_directory exported &&
    for f in frozen_inference_graph.pb saved_model/saved_model.pb model.ckpt.index model.ckpt.meta checkpoint pipeline.config; do
      [ -s exported/$f ] || { echo "$f is missing"; return 1; }
    done
}

# Picture by picture: as many detections, and the best one in the same place within a thousandth.
same_detections() {
  [ "$(wc -l <"$1")" -eq "$(wc -l <"$2")" ] && [ -s "$1" ] || return 1
  sed 's/.*"detections":\[{"box":\[\([^]]*\)\],"class":\([0-9]*\).*"score":\([0-9.e-]*\)}.*/\1,\2/' "$1" >a
  sed 's/.*"detections":\[{"box":\[\([^]]*\)\],"class":\([0-9]*\).*"score":\([0-9.e-]*\)}.*/\1,\2/' "$2" >b
  paste -d, a b | awk -F, 'NF != 10 { bad = 1 } { for (i = 1; i <= 5; i++) { d = $i - $(i + 5); if (d > 1e-3 || d < -1e-3) bad = 1 } } END { exit bad }' ||
    { paste a b; return 1; }
}

detects() {
  "$objdet" draw_shapes --output_dir=look --count=3 --held_out_count=0 --seed=9 &&
    "$objdet" detect --checkpoint=train/model.ckpt-6 --pipeline_config_path=tiny.config --output_directory=by_checkpoint --threads=1 look/images &&
    "$objdet" detect --graph=exported --label_map_path=map.pbtxt --output_directory=by_graph look/images &&
    "$objdet" detect --saved_model=exported/saved_model --label_map_path=map.pbtxt --output_directory=by_saved_model look/images &&
    ls by_graph/train_00001.jpg && same_detections by_graph/detections.jsonl by_checkpoint/detections.jsonl &&
    same_detections by_graph/detections.jsonl by_saved_model/detections.jsonl
}

inspects() {
  "$objdet" inspect train.record --json >record.json && "$objdet" inspect train/model.ckpt-6 >names &&
    grep -q 'FeatureExtractor/MobilenetV1/Conv2d_0/weights' names && "$objdet" inspect exported/frozen_inference_graph.pb | grep -q image_tensor
}

check trains trains
check evaluates evaluates
check exports exports
check detects detects
check inspects inspects
finish
