#!/bin/sh
# The ten shipped Faster R-CNN configs from the first command to the last, on ten real pets with small pictures: check, two steps of training, evaluation,
# export, detection with the exported graph. Takes minutes and gigabytes, so it is no part of `make test` (test_frcnn.sh walks the same way with a
# small model): BUILD=build tests/cli/samples_faster_rcnn.sh [NAME...]
. "$(dirname "$0")/tiny.sh"
real_pets
work=$(mktemp -d "${TMPDIR:-/tmp}/objdet-samples-XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
cd "$work" || exit 1

# objdet COMMAND with the config, its paths set, pictures of 123x164, few proposals, as many classes as there are pets. Weights
# are made by formula: a network whose batch norm is frozen gives no numbers from random ones.
small() {
  command=$1
  shift
  "$objdet" "$command" --pipeline_config_path="$config" --set model.faster_rcnn.num_classes=37 \
    --set model.faster_rcnn.image_resizer.keep_aspect_ratio_resizer.min_dimension=123 --set model.faster_rcnn.image_resizer.keep_aspect_ratio_resizer.max_dimension=164 \
    --set model.faster_rcnn.first_stage_max_proposals=20 --set model.faster_rcnn.second_stage_batch_size=16 \
    --set train_config.fine_tune_checkpoint="$work/formula" --set train_config.fine_tune_checkpoint_type=detection --set train_input_reader.label_map_path="$map" --set train_input_reader.tf_record_input_reader.input_path="$record" \
    --set "eval_input_reader[0].label_map_path=$map" --set "eval_input_reader[0].tf_record_input_reader.input_path=$record" "$@" >"$command.log" 2>&1 || {
    echo "$command:"
    tail -n 20 "$command.log"
    return 1
  }
}
life() {
  config=$1
  rm -rf run eval exported found formula.*
  "$objdet-golden" "$config" --checkpoint="$work/formula" || return 1
  small check && small train --train_dir=run --set train_config.num_steps=2 --save_interval_steps=1000 && small eval --checkpoint_dir=run --eval_dir=eval --run_once || return 1
  [ -s eval/metrics.json ] || return 1
  small export_inference_graph --input_type=image_tensor --trained_checkpoint_prefix=run/model.ckpt-2 --output_directory=exported && grep '^checked' export_inference_graph.log || return 1
  "$objdet" detect --graph=exported --label_map_path="$map" --output_directory=found --json "$data"/test_images/image1.jpg >found.json 2>detect.log && [ -s found.json ] || {
    tail -n 20 detect.log
    return 1
  }
}
[ $# -gt 0 ] || set -- $(cd "$root/samples/configs" && ls faster_rcnn_*.config | sed "s,.config$,,")
for c; do check "$c" life "$root/samples/configs/$c.config"; done
finish
