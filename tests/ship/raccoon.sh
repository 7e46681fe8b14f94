#!/bin/sh
# Real photographs through the whole thread: the raccoons of the shared data, with the settings of ../shared/witness/raccoon.md.
#   tests/ship/raccoon.sh OUT [STEPS [SEED]]     BUILD=build, 1500 steps, seed 1
# Leaves in OUT records, train/ (curves), eval/ (metrics), exported/, detections/. What the figures should be:
# tests/witness/check_raccoon.py.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
shared=${OBJDET_SHARED:-$root/../shared}
objdet=$root/${BUILD:-build}/objdet
out=${1:?usage: raccoon.sh OUT [STEPS [SEED]]} steps=${2:-1500} seed=${3:-1}
data=$shared/data/raccoon
[ -d "$data" ] || { echo "SKIPPED: needs shared data data/raccoon"; exit 77; }
mkdir -p "$out"
cd "$out"
run() {
  printf '$ %s\n' "$*"
  "$@"
}

printf "item {\n  id: 1\n  name: 'raccoon'\n}\n" >map.pbtxt
for part in train test; do
  # the file's name is its first column; sorted, as in the original's run
  tail -n +2 "$data/data/${part}_labels.csv" | cut -d, -f1 | sort -u >$part.txt
  run "$objdet" create_pascal_tf_record --data_dir="$data" --examples=$part.txt --label_map_path=map.pbtxt --output_path=$part.record
done
run "$objdet" check --record=train.record --label_map_path=map.pbtxt || [ $? -eq 1 ] # findings are for reading, not for stopping
run "$objdet" import --graph="$shared/data/mobilenet_v1_025_128/frozen_graph.pb" --output=mnv1/model.ckpt
cp "$shared/data/raccoon_original/export/pipeline.config" pipeline.config # its paths are relative and name the files made here
run "$objdet" train --pipeline_config_path=pipeline.config --train_dir=train --seed="$seed" \
  --save_summary_steps=1 --set train_config.num_steps="$steps"
run "$objdet" eval --run_once --pipeline_config_path=pipeline.config --checkpoint_dir=train --eval_dir=eval
run "$objdet" export_inference_graph --input_type=image_tensor --pipeline_config_path=pipeline.config \
  --trained_checkpoint_prefix="train/model.ckpt-$steps" --output_directory=exported
# shellcheck disable=SC2046
run "$objdet" detect --graph=exported --label_map_path=map.pbtxt --output_directory=detections $(sed "s,^,$data/images/," test.txt | head -n 8)
