#!/bin/sh
# Fields of the config whose effect only a whole run shows; the others are in tests/eval/test_field_effects.c.
. "$(dirname "$0")/tiny.sh"
tiny_begin

evaluate() { "$objdet" eval --pipeline_config_path=tiny.config --checkpoint_dir=run --threads=1 "$@"; }
steps_of() { ls "$1" | sed -n 's/^model.ckpt-\([0-9]*\).index$/\1/p' | sort -n | tr '\n' ' '; }

num_steps() {
  "$objdet" train --pipeline_config_path=tiny.config --train_dir=run --threads=1 --set train_config.num_steps=3 && [ "$(steps_of run)" = "0 3 " ]
}

# Five newest ones stay; with the field more, which are of another second than the run's beginning.
keep_checkpoint_every_n_hours() {
  hours=train_config.keep_checkpoint_every_n_hours=0.0001
  tiny_train few 2 --save_interval_steps=1 && cp -r few many && sleep 2 && tiny_train few 9 --save_interval_steps=1 &&
    tiny_train many 9 --save_interval_steps=1 --set $hours || return 1
  steps_of few
  steps_of many
  [ "$(steps_of few)" = "5 6 7 8 9 " ] && [ "$(steps_of many | wc -w)" -gt 5 ]
}

fine_tune_checkpoint() {
  tiny_train tuned 0 --set train_config.fine_tune_checkpoint="$work/run/model.ckpt-3" --set train_config.fine_tune_checkpoint_type=detection \
    --set train_config.num_steps=1 >log 2>&1 && tiny_train fresh 1 || return 1
  grep 'variables restored' log && ! same_ckpt tuned fresh 1
}

eval_input_reader() {
  evaluate --run_once --eval_dir=eval-a && evaluate --run_once --eval_dir=eval-b --set "eval_input_reader[0].sample_1_of_n_examples=3" || return 1
  ! cmp eval-a/metrics.json eval-b/metrics.json
}

batch_size() { # of eval_config: losses are means over batches
  evaluate --run_once --eval_dir=eval-c --set eval_config.batch_size=3 && ! cmp eval-a/metrics.json eval-c/metrics.json
}

use_moving_averages() { evaluate --run_once --eval_dir=eval-d --set eval_config.use_moving_averages=true && ! cmp eval-a/metrics.json eval-d/metrics.json; }

max_evals() {
  start=$(date +%s)
  evaluate --eval_dir=eval-e --set eval_config.max_evals=2 --set eval_config.eval_interval_secs=1 || return 1
  [ $(($(date +%s) - start)) -lt 60 ] # and not the 300 seconds of eval_interval_secs' default
}

name() { # of an eval_input_reader
  "$objdet" model_main --pipeline_config_path=tiny.config --model_dir=main --threads=1 --num_train_steps=1 \
    --set "eval_input_reader[0].name=held_out" && [ -s main/eval_held_out/metrics.json ]
}

check num_steps num_steps
check keep_checkpoint_every_n_hours keep_checkpoint_every_n_hours
check fine_tune_checkpoint fine_tune_checkpoint
check eval_input_reader eval_input_reader
check eval_config_batch_size batch_size
check use_moving_averages use_moving_averages
check max_evals_and_eval_interval_secs max_evals
check name_of_the_reader name
finish
