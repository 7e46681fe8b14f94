#!/bin/sh
# Faster R-CNN through its whole life in small: ten steps are five and five bit for bit, whatever the shapes; kill -9 at drawn moments,
# some inside a save; check, evaluation, export, detection. OBJDET_FRCNN_KILLS says how often it is killed (2), OBJDET_KILL_SEED draws other
# moments; OBJDET_FRCNN_ALL=1 resumes in all four ways, not in two. A checkpoint has 290 MB: they are kept in memory where that is large enough.
free_shm=$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 {print $4}')
[ -z "$TMPDIR" ] && [ "${free_shm:-0}" -gt 6000000 ] && [ -w /dev/shm ] && TMPDIR=/dev/shm && export TMPDIR
. "$(dirname "$0")/tiny.sh"
. "$(dirname "$0")/kill.sh"
. "$(dirname "$0")/frcnn.sh"
tiny_begin
kills=${OBJDET_FRCNN_KILLS:-2}
seed=${OBJDET_KILL_SEED:-1}

# Trains 10 steps at once, and 5 and 5: resumed [flags]
resumed() {
  rm -rf whole half
  tiny_train whole 10 "$@" && tiny_train half 5 "$@" && tiny_train half 10 "$@" >second.log 2>&1 || return 1
  grep -q 'resuming at step 5 from .*: exactly' second.log && same_ckpt whole half 10
}
one_picture() { resumed; }
bfloat16() { resumed --precision=bf16; }
# Pictures of different shapes in one batch: our extension, the original refuses it.
two_pictures() { resumed --set train_config.batch_size=2 --set "$crops"; }
two_pictures_bfloat16() { resumed --precision=bf16 --set train_config.batch_size=2; }
crops=train_config.data_augmentation_options[1].random_crop_image.min_area=0.3

# Nothing that is kept of it is needed later: memory is short.
killed_many_times() {
  rm -rf whole half
  killed_and_resumed "$kills" 2500 0 1000 && rm -rf killed
}

# From the first command to the last with what was trained above.
life() {
  config="--pipeline_config_path=tiny.config"
  "$objdet" check $config && "$objdet" eval $config --checkpoint_dir=long --eval_dir=eval --run_once --threads=1 >log 2>&1 || {
    cat log
    return 1
  }
  for tag in PascalBoxes_Precision/mAP@0.5IOU Losses/Loss/RPNLoss/objectness_loss Losses/Loss/BoxClassifierLoss/classification_loss; do
    grep -q "\"$tag\"" eval/metrics.json || {
      echo "no $tag in metrics.json"
      return 1
    }
  done
  "$objdet" export_inference_graph $config --input_type=image_tensor --trained_checkpoint_prefix="long/model.ckpt-$(sed -n 's/^model_checkpoint_path: ".*-\(.*\)"/\1/p' long/checkpoint)" \
    --output_directory=exported >log 2>&1 && grep -q '^checked' log || {
    cat log
    return 1
  }
  "$objdet" draw_shapes --output_dir=one --count=1 --held_out_count=1 >/dev/null 2>&1
  "$objdet" detect --graph=exported --label_map_path=map.pbtxt --output_directory=found --json one/images/train_00001.jpg >found.json 2>log && [ -s found.json ] || {
    cat log
    return 1
  }
}

check ten_steps_are_five_and_five one_picture
check two_pictures_of_different_shapes_in_bfloat16 two_pictures_bfloat16
if [ "${OBJDET_FRCNN_ALL:-0}" = 1 ]; then
  check bfloat16 bfloat16
  check two_pictures_of_different_shapes two_pictures
fi
check "killed_${kills}_times" killed_many_times
check from_first_command_to_last life
finish
