#!/bin/sh
# model_main: training and evaluation in turns, files where the original puts them; evaluation alone; the best checkpoint; stopping.
. "$(dirname "$0")/tiny.sh"
tiny_begin
main() { # DIR [flags]
  model_dir=$1
  shift
  "$objdet" model_main --pipeline_config_path=tiny.config --model_dir="$model_dir" --threads=1 --seed=7 "$@"
}
need() {
  for f; do [ -s "$f" ] || {
    echo "$f is missing"
    ls -R .
    return 1
  }; done
}
tag_is() { # FILE TAG: metrics.json has a finite value there
  grep -q "\"$2\": -\{0,1\}[0-9]" "$1" || {
    echo "no $2 in"
    cat "$1"
    return 1
  }
}

in_turns() {
  main run --num_train_steps=6 --save_interval_steps=3 >log 2>&1 || {
    cat log
    return 1
  }
  need run/checkpoint run/model.ckpt-0.index run/model.ckpt-3.index run/model.ckpt-6.meta run/eval_0/metrics.json run/export/Servo/*/saved_model.pb || return 1
  [ ! -e run/pipeline.config ] && ls run/events.out.tfevents.* run/eval_0/events.out.tfevents.* >/dev/null || return 1
  tag_is run/eval_0/metrics.json 'DetectionBoxes_Precision/mAP' && grep -q '"global_step": 6' run/eval_0/metrics.json || return 1
  [ "$(wc -l <run/eval_0/metrics.jsonl)" -eq 2 ] || { # after steps 3 and 6, not at 0
    cat run/eval_0/metrics.jsonl
    return 1
  }
  "$objdet" inspect run/events.out* --json >events.json && for tag in Loss/total_loss Loss/localization_loss learning_rate loss global_norm/gradient_norm \
    Loss/HardExampleMiner/NumPositives TargetAssignment/Loss/TargetAssignment/AvgNumGroundtruthBoxesMatchedPerImage; do
    grep -q "\"$tag\"" events.json || {
      echo "no $tag in the event file"
      return 1
    }
  done
  "$objdet" inspect run/eval_0/events.out* | grep -q 'Detections_Left_Groundtruth_Right/0/0'
}
# The exported model sees what the trained one sees.
servo() {
  "$objdet" draw_shapes --output_dir=one --count=1 --held_out_count=1 >/dev/null 2>&1
  "$objdet" detect --saved_model="$(dirname run/export/Servo/*/saved_model.pb)" --label_map_path=map.pbtxt --output_directory=found --json one/images/train_00001.jpg >found.json 2>log || {
    cat log
    return 1
  }
  "$objdet" detect --checkpoint=run/model.ckpt-6 --pipeline_config_path=tiny.config --label_map_path=map.pbtxt --output_directory=found --json one/images/train_00001.jpg >trained.json 2>log || return 1
  [ -s found.json ] && [ "$(grep -o '"score"' found.json | wc -l)" -eq "$(grep -o '"score"' trained.json | wc -l)" ]
}
same_as_at_once() {
  main half --num_train_steps=3 >log 2>&1 && main half --num_train_steps=6 >log 2>&1 && grep -q 'step 3 .*: exactly' log && same_ckpt run half 6
}
# A run that was done already is evaluated and exported, not trained.
again() {
  rm -rf run/export run/eval_0
  before=$(ckpt_sum run 6)
  main run --num_train_steps=6 >log 2>&1 && need run/export/Servo/*/saved_model.pb run/eval_0/metrics.json && [ "$before" = "$(ckpt_sum run 6)" ]
}
evaluation_alone() {
  main alone --checkpoint_dir=run --run_once --sample_1_of_n_eval_examples=2 >log 2>&1 && need alone/eval/metrics.json && grep -q 'step 6, 3 pictures' log || {
    cat log
    return 1
  }
  main alone --checkpoint_dir=run --num_train_steps=6 --eval_training_data --sample_1_of_n_eval_on_train_examples=8 >log 2>&1 &&
    need alone/eval_eval_training_data/metrics.json 2>/dev/null || need alone/eval_training_data/metrics.json
}
names() {
  sed 's,^eval_input_reader {,eval_input_reader { name: "held_out",' tiny.config >named.config
  "$objdet" model_main --pipeline_config_path=named.config --model_dir=named --num_train_steps=1 --threads=1 >log 2>&1 && need named/eval_held_out/metrics.json
}
best() {
  main best --num_train_steps=4 --save_interval_steps=1 --best_checkpoint_metric=Loss/localization_loss >log 2>&1 && need best/best/best.json best/best/model.ckpt-*.index ||
    return 1
  fails 1 'DetectionBoxes_Precision/mAP' main best --num_train_steps=5 --best_checkpoint_metric=no/such
}
# Nothing gets better when nothing is learnt.
early() {
  main early --num_train_steps=100 --save_interval_steps=1 --early_stop_after=2 --set "train_config.optimizer.rms_prop_optimizer.learning_rate.exponential_decay_learning_rate.initial_learning_rate=0" \
    --set train_config.optimizer.use_moving_average=false --best_checkpoint_metric=DetectionBoxes_Recall/AR@100 >log 2>&1 || {
    cat log
    return 1
  }
  step=$(sed -n 's/^model_checkpoint_path: ".*-\(.*\)"/\1/p' early/checkpoint)
  [ "$step" -lt 100 ] || return 1
  main safe --num_train_steps=8 --save_interval_steps=1 --set "train_config.optimizer.rms_prop_optimizer.learning_rate.exponential_decay_learning_rate.initial_learning_rate=0" >log 2>&1 &&
    grep -q 'safe to stop' log || {
    cat log
    return 1
  }
}
# model_main leaves frozen variables and those not chosen without slots.
chosen_variables() {
  main chosen --num_train_steps=1 --set 'train_config.update_trainable_variables=["BoxPredictor"]' --set 'train_config.freeze_variables=[".*_0/"]' >log 2>&1 || {
    cat log
    return 1
  }
  "$objdet" inspect chosen/model.ckpt-1 >list && grep -q 'BoxPredictor_1/.*/RMSProp' list && ! grep -q 'FeatureExtractor.*RMSProp' list && ! grep -q 'BoxPredictor_0.*RMSProp' list
}
clipped() {
  main clipped --num_train_steps=1 --set train_config.gradient_clipping_by_norm=0.5 >log 2>&1 && "$objdet" inspect clipped/events.out* --json >events.json &&
    grep -q 'global_norm/clipped_gradient_norm' events.json
}
stopped_in_evaluation() {
  "$objdet" model_main --pipeline_config_path=tiny.config --model_dir=stop --threads=1 --seed=7 --num_train_steps=6 --save_interval_steps=3 >stop.log 2>&1 &
  pid=$!
  n=0
  while ! grep -q '^evaluating stop' stop.log && [ $n -lt 400 ]; do
    sleep 0.02
    n=$((n + 1))
  done
  kill -TERM $pid
  wait $pid
  rc=$?
  [ $rc -eq 143 ] || [ $rc -eq 0 ] || { # 0: it was done before the signal came
    echo "ended with $rc"
    cat stop.log
    return 1
  }
  main stop --num_train_steps=6 --save_interval_steps=3 >log 2>&1 && same_ckpt run stop 6
}
check trains_and_evaluates_in_turns in_turns
check servo_export servo
check resumed_exactly same_as_at_once
check done_already again
check evaluation_alone evaluation_alone
check evaluation_set_with_a_name names
check best_checkpoint best
check stops_early_and_says_when_it_is_safe early
check chosen_variables chosen_variables
check clips_by_global_norm clipped
check stopped_in_an_evaluation stopped_in_evaluation
finish
