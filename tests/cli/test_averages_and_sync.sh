#!/bin/sh
# Moving averages are used exactly where the config says so; and the shipped configs for synchronous replicas, on one machine.
. "$(dirname "$0")/tiny.sh"
tiny_begin

# Figures of an evaluation: figures DIR NAME [flags]
figures() {
  dir=$1 name=$2
  shift 2
  "$objdet" eval --pipeline_config_path=tiny.config --checkpoint_dir="$dir" --eval_dir="$name" --run_once --threads=1 "$@" >eval.log 2>&1 || {
    cat eval.log
    return 1
  }
  sed 's/"seconds.*//' "$name/metrics.json"
}
averages=eval_config.use_moving_averages
used_when_asked_for() {
  tiny_train slow 6 >log 2>&1 || return 1 # decay 0.9999: the averages are far behind
  figures slow plain --set $averages=false >plain.json && figures slow averaged --set $averages=true >averaged.json && figures slow default >default.json || return 1
  cmp -s plain.json averaged.json && echo "averages were not used" && return 1
  cmp plain.json default.json
}
equal_when_equal() {
  tiny_train follow 3 --set train_config.optimizer.moving_average_decay=0 >log 2>&1 && figures follow a --set $averages=false >a.json &&
    figures follow b --set $averages=true >b.json && cmp a.json b.json
}
missing_ones_are_named() {
  tiny_train none 2 --set train_config.optimizer.use_moving_average=false >log 2>&1 && "$objdet" inspect none/model.ckpt-2 >list && ! grep -q ExponentialMovingAverage list &&
    fails 1 'ExponentialMovingAverage' "$objdet" eval --pipeline_config_path=tiny.config --checkpoint_dir=none --eval_dir=c --run_once --set $averages=true &&
    figures none d >/dev/null
}
check averages_when_asked_for used_when_asked_for
check averages_that_follow_at_once equal_when_equal
check averages_that_are_missing missing_ones_are_named

# The config asks for 2048 pictures of 8 replicas: here 24, legacy 3 at a time in 8 turns, model_main all at once.
coco14() { # CONFIG COMMAND FLAGS...
  config=$root/samples/configs/$1
  shift
  "$objdet" "$@" --pipeline_config_path="$config" --seed=7 --threads=2 --set train_config.batch_size=24 --set train_config.num_steps=1 --set train_config.fine_tune_checkpoint= \
    --set train_input_reader.label_map_path= --set train_input_reader.tf_record_input_reader.input_path="$work/train.record" \
    --set eval_input_reader.label_map_path="$root/data/mscoco_label_map.pbtxt" --set eval_input_reader.tf_record_input_reader.input_path="$work/test.record" >log 2>&1 || {
    cat log
    return 1
  }
}
sync_legacy() {
  coco14 ssd_mobilenet_v1_300x300_coco14_sync.config train --train_dir=sync && grep -q '^memory: about' log && grep -q '"position": "24"' sync/model.ckpt-1.objdet &&
    "$objdet" inspect sync/model.ckpt-1 >list && grep -q 'Momentum' list
}
sync_075() { coco14 ssd_mobilenet_v1_0.75_depth_300x300_coco14_sync.config model_main --model_dir=sync75 --num_train_steps=1 && grep -q '"position": "24"' sync75/model.ckpt-1.objdet; }
check coco14_sync_legacy_8_times_3 sync_legacy
check coco14_sync_model_main_24_at_once sync_075
finish
