#!/bin/sh
# What a training run refuses, and what it leaves behind when it fails: one clear error, and every checkpoint as it was.
. "$(dirname "$0")/tiny.sh"
tiny_begin

edited() { sed "$1" tiny.config >"$2"; }
train_with() { # CONFIG DIR [flags]
  config=$1 dir=$2
  shift 2
  "$objdet" train --pipeline_config_path="$config" --train_dir="$dir" --threads=1 --seed=7 "$@"
}

# ------------------------------------------------------------------------------------------------------------- refusals
# Refused before the folder is made.
refused() { # TEXT SED-SCRIPT [flags]
  text=$1
  edited "$2" bad.config
  shift 2
  fails 1 "$text" train_with bad.config none "$@" && [ ! -e none ]
}
left_over_paths() {
  refused 'bad.config:[0-9]*: train_input_reader.input_path still is .*PATH_TO_BE_CONFIGURED' "s,$work/train.record,PATH_TO_BE_CONFIGURED/train.record," &&
    refused 'train_input_reader.label_map_path still is' "0,/map.pbtxt/s,$work/map,PATH_TO_BE_CONFIGURED/map," &&
    refused 'fine_tune_checkpoint still is' 's,batch_size: 4,batch_size: 4 fine_tune_checkpoint: "PATH_TO_BE_CONFIGURED/model.ckpt",' &&
    edited 's,test.record,PATH_TO_BE_CONFIGURED/x,' eval.config && train_with eval.config paths --set train_config.num_steps=1
}
label_map() {
  refused 'ids up to 6 (ring), model num_classes is 5' 's,num_classes: 6,num_classes: 5,' &&
    refused 'nowhere.pbtxt' '0,/map.pbtxt/s,map.pbtxt,nowhere.pbtxt,' || return 1
  edited 's,num_classes: 6,num_classes: 8,' eight.config
  train_with eight.config eight --set train_config.num_steps=1 2>log && grep -q 'names 6 of the model.s 8 classes' log
}
records() { refused 'train_input_reader: .*nowhere.record: no such file' "s,$work/train.record,$work/nowhere.record,"; }
missing_parts() {
  refused 'no train_input_reader' '/^train_input_reader/,/^}/d' && refused 'optimizer' '/^  optimizer/,/^  }/d' &&
    refused 'batch_size' 's,batch_size: 4,batch_size: 0,' && refused 'freeze_variables' 's,batch_size: 4,batch_size: 4 freeze_variables: ".*",' &&
    refused 'no regular expression' 's,batch_size: 4,batch_size: 4 freeze_variables: "(",' &&
    refused 'cannot be divided' 's,batch_size: 4,batch_size: 4 sync_replicas: true replicas_to_aggregate: 3,' &&
    refused 'num_clones' 's,x,x,' --num_clones=2
}
memory() { refused 'this run needs about .* GB .* this machine has .* GB: lower train_config.batch_size ([0-9]* pictures' 's,batch_size: 4,batch_size: 300000,'; }
other_architecture() { refused 'ssd_inception_v2' 's,ssd_mobilenet_v1,ssd_inception_v2,'; }
check left_over_paths left_over_paths
check label_map_that_does_not_fit label_map
check records_that_are_not_there records
check sections_and_values missing_parts
check more_memory_than_there_is memory
check architecture other_architecture

# ----------------------------------------------------------------------------------------------------------- not finite
finite() { "$objdet" eval --checkpoint_dir="$1" --eval_dir=eval-finite --pipeline_config_path=tiny.config --run_once --threads=1 >eval.log 2>&1 || {
  tail -n 3 eval.log
  return 1
}; }
rate_of() { echo "train_config.optimizer.rms_prop_optimizer.learning_rate.exponential_decay_learning_rate.initial_learning_rate=$1"; }
too_large_rate() {
  train_with tiny.config wild --set train_config.num_steps=2 >log 2>&1 || return 1
  before=$(ckpt_sum wild 2)
  fails 1 'step [0-9]*: the loss is not finite' train_with tiny.config wild --set train_config.num_steps=100 --set "$(rate_of 1e18)" || return 1
  for text in 'first layer with such a value: ' 'Loss/localization_loss = ' 'picture .*train.record: record [0-9]* (train_[0-9]*.jpg), [0-9]* box' 'nonfinite-[0-9]*.index'; do
    grep -q "$text" err.log || {
      echo "no '$text' in:"
      cat err.log
      return 1
    }
  done
  batch=$(sed -n 's/.*the batch lies in \(.*\.index\) and.*/\1/p' err.log)
  "$objdet" inspect "$batch" >inspect.log && grep -q images inspect.log && grep -q boxes inspect.log || return 1
  [ "$before" = "$(ckpt_sum wild 2)" ] && grep -q 'model_checkpoint_path: "model.ckpt-2"' wild/checkpoint && finite wild
}
# Every step is saved: the weights are caught before they reach a checkpoint.
never_saved() {
  fails 1 'no checkpoint is written\|the loss is not finite' train_with tiny.config overflow --save_interval_steps=1 --set train_config.num_steps=100 --set "$(rate_of 1e38)" &&
    finite overflow
}
check not_finite_is_named too_large_rate
check not_finite_is_never_saved never_saved

# ------------------------------------------------------------------------------------------------------------ full disk
# No file may grow beyond a limit: the same to us as a disk that is full in the midst of a save.
full_disk() {
  train_with tiny.config full --set train_config.num_steps=3 >log 2>&1 || return 1
  before=$(ckpt_sum full 3) state=$(cat full/checkpoint)
  size=$(wc -c <full/model.ckpt-3.data-00000-of-00001)
  limited() (
    ulimit -f $((size / 2 / 512)) && train_with tiny.config full --set train_config.num_steps=6
  )
  fails 1 'model.ckpt-6.*\(File too large\|No space\)' limited || return 1
  [ "$before" = "$(ckpt_sum full 3)" ] && [ "$state" = "$(cat full/checkpoint)" ] || return 1
  for f in full/model.ckpt-6* full/.*; do [ -f "$f" ] && echo "$f was left" && return 1; done
  train_with tiny.config full --set train_config.num_steps=6 >log 2>&1 && train_with tiny.config whole --set train_config.num_steps=6 >log 2>&1 &&
    same_ckpt whole full 6
}
check full_disk full_disk

# ------------------------------------------------------------------------------------------------------------- resuming
# What the flags leave open stays as it was; what is no longer the same is said.
keeps_precision() {
  train_with tiny.config keep --set train_config.num_steps=2 --precision=bf16 >log 2>&1 &&
    "$objdet" train --pipeline_config_path=tiny.config --train_dir=keep --set train_config.num_steps=4 >log 2>&1 && grep -q ': exactly' log &&
    train_with tiny.config keepwhole --set train_config.num_steps=4 --precision=bf16 >/dev/null 2>&1 && same_ckpt keepwhole keep 4
}
says_what_differs() {
  train_with tiny.config differs --set train_config.num_steps=1 >log 2>&1 || return 1
  train_with tiny.config differs --set train_config.num_steps=2 --threads=2 >log 2>&1 && grep -q 'not bits (another number of threads)' log || return 1
  train_with tiny.config differs --set train_config.num_steps=3 --precision=bf16 >log 2>&1 && grep -q 'in bf16, while it was trained in fp32' log || return 1
  edited "s,train.record,test.record," other.config
  train_with other.config differs --set train_config.num_steps=4 --precision=bf16 >log 2>&1 && grep -q 'other records' log || return 1
  rm differs/*.objdet
  train_with tiny.config differs --set train_config.num_steps=5 >log 2>&1 && grep -q 'resuming at step 4 .*no sidecar' log || return 1
}
another_config() {
  edited 's,depth_multiplier: 0.25,depth_multiplier: 0.5,' half.config
  fails 1 'variables do not fit' train_with half.config differs --set train_config.num_steps=9
}
check resumed_runs_keep_their_precision keeps_precision
check resumed_runs_say_what_differs says_what_differs
check resumed_with_another_config another_config
finish
