#!/bin/sh
# N steps are N/2 and N/2 steps, bit for bit; whatever was random, averaged or remembered.
. "$(dirname "$0")/tiny.sh"
tiny_begin

# Trains 10 steps at once, and 5 and 5: resumed NAME [flags]
resumed() {
  tag=$1
  shift
  tiny_train "whole-$tag" 10 "$@" && tiny_train "half-$tag" 5 "$@" && tiny_train "half-$tag" 10 "$@" >second.log 2>&1 || return 1
  grep -q 'resuming at step 5 from .*: exactly' second.log || {
    cat second.log
    return 1
  }
  same_ckpt "whole-$tag" "half-$tag" 10
}

adam='train_config.optimizer.adam_optimizer.learning_rate.constant_learning_rate.learning_rate=0.001'
momentum='train_config.optimizer.momentum_optimizer.learning_rate.cosine_decay_learning_rate.total_steps=10'

rmsprop_fp32() { resumed rmsprop; }
rmsprop_bf16() { resumed bf16 --precision=bf16; }
momentum_fp32() { resumed momentum --set "$momentum" --set train_config.optimizer.momentum_optimizer.learning_rate.cosine_decay_learning_rate.warmup_steps=3; }
adam_fp32() { resumed adam --set "$adam"; }
two_threads() { resumed threads --threads=2; }
several_turns() { resumed sync --set train_config.sync_replicas=true --set train_config.replicas_to_aggregate=2; }
different_runs_differ() { tiny_train other 10 --seed=8 && ! same_ckpt whole-rmsprop other 10; }
# The first and the last step, and every third.
losses_every_third_step() {
  tiny_train curve 7 --save_summary_steps=3 && "$objdet" inspect curve/events.out.tfevents.* >curve.txt || return 1
  grep 'Losses/TotalLoss .*count=4  *first_step=1  *last_step=7' curve.txt >/dev/null && fails 2 'save_summary_steps' tiny_train curve 8 --save_summary_steps=0
}
check rmsprop_with_averages_and_dropout rmsprop_fp32
check bfloat16 rmsprop_bf16
check momentum momentum_fp32
check adam adam_fp32
check two_threads two_threads
check several_turns_a_step several_turns
check losses_every_third_step losses_every_third_step
check another_seed_is_another_run different_runs_differ
finish
