#!/bin/sh
# The command line as people type it: every form of a flag, the original's names, exit codes; eval, detect and export through
# all their inputs; stops by signal; streams that are closed.
. "$(dirname "$0")/tiny.sh"
tiny_begin
{
  tiny_train train 2 && "$objdet" draw_shapes --output_dir=shapes --count=4 --held_out_count=1 --seed=9 && mkdir pictures &&
    mv shapes/images/train_*.jpg pictures/ && rm -rf shapes
} >log 2>&1 || {
  cat log
  echo "[  FAILED  ] preparation"
  exit 1
}
config="--pipeline_config_path=tiny.config"
odd=$root/tests/golden/image/odd

# --------------------------------------------------------------------------------------------------------------- flags
prints() { # TEXT CMD...: exit 0, and stdout holds TEXT
  text=$1
  shift
  "$@" >out.log 2>err.log || {
    echo "exit $?: $*"
    cat err.log
    return 1
  }
  grep -q -e "$text" out.log || {
    echo "'$text' is not printed by: $*"
    head out.log
    return 1
  }
}
flag_forms() {
  for f in --pipeline_config_path=tiny.config -pipeline_config_path=tiny.config "--pipeline_config_path tiny.config" "-pipeline_config_path tiny.config"; do
    prints 'num_classes: 6' "$objdet" config $f || return 1
    prints 'num_classes: 3' "$objdet" config --set model.ssd.num_classes=3 $f || return 1
  done
  prints 'num_classes: 6' "$objdet" config --pipeline_config_path=nowhere.config $config # the last one counts
  prints 'num_classes: 6' "$objdet" config --logtostderr -alsologtostderr --nologtostderr --stderrthreshold=info --v=1 -v 2 --verbosity -1 $config
}
switches() {
  for f in --run_once --run_once=true -run_once --run_once=1 --run_once=Yes "--norun_once --run_once"; do
    fails 1 'no_such_folder' "$objdet" eval $config --checkpoint_dir=no_such_folder --eval_dir=nothing $f || return 1
  done
  fails 2 'run_once wants true or false' "$objdet" eval $config --checkpoint_dir=train --eval_dir=nothing --run_once=maybe &&
    fails 2 'as in --flag=True' "$objdet" eval $config --checkpoint_dir=train --eval_dir=nothing --run_once True
}
usage_errors() {
  fails 2 'no command .evel.; did you mean eval' "$objdet" evel &&
    fails 2 'no flag --pipeline_config_pat; did you mean --pipeline_config_path' "$objdet" config --pipeline_config_pat=x &&
    fails 2 'no flag --nopipeline_config_path' "$objdet" config --nopipeline_config_path && fails 2 'wants a value' "$objdet" config --pipeline_config_path &&
    fails 2 'config needs --pipeline_config_path' "$objdet" config && fails 2 'threads wants a whole number' "$objdet" eval --threads=two &&
    fails 2 'takes flags only, not .x.' "$objdet" config $config x && fails 2 'path.in.config=value' "$objdet" config $config --set model &&
    fails 2 'precision is fp32, bf16 or auto' "$objdet" eval $config --checkpoint_dir=train --eval_dir=nothing --run_once --precision=half &&
    fails 1 'compute threads; at most' "$objdet" eval $config --checkpoint_dir=train --eval_dir=nothing --run_once --threads=99999999999 &&
    fails 1 "no engine named 'gpu'" "$objdet" eval $config --checkpoint_dir=train --eval_dir=nothing --run_once --engine=gpu &&
    fails 1 'tiny.confi: ' "$objdet" config --pipeline_config_path=tiny.confi || return 1
  "$objdet" >out.log 2>&1
  [ $? -eq 2 ] && grep -q '^usage: objdet COMMAND' out.log
}
help() {
  prints '^usage: objdet COMMAND' "$objdet" -h && prints 'export_inference_graph' "$objdet" help && prints '^objdet [0-9]' "$objdet" --version || return 1
  for c in $("$objdet" -h | sed -n 's/^  \([a-z_0-9]*\) .*/\1/p'); do
    for h in -h --help --helpfull; do prints "^usage: objdet $c" "$objdet" "$c" $h || return 1; done
  done
}
check forms_of_flags flag_forms
check switches switches
check usage_errors usage_errors
check help_of_every_command help

# Names of every age of the original; what `alias python=objdet` makes of its lines.
original_names() {
  for name in object_detection/train.py object_detection/legacy/train.py ./legacy/train.py train.py "-m object_detection.train" "-m object_detection.legacy.train" "-u train.py"; do
    prints '^usage: objdet train' "$objdet" $name -h || return 1
  done
  for name in model_main export_inference_graph eval; do
    prints "^usage: objdet $name" "$objdet" -m "object_detection.$name" -h && prints "^usage: objdet $name" "$objdet" "object_detection/$name.py" -h || return 1
  done
  for set in pascal pet kitti coco; do
    prints "^usage: objdet create_${set}_tf_record" "$objdet" object_detection/create_${set}_tf_record.py -h &&
      prints "^usage: objdet create_${set}_tf_record" "$objdet" object_detection/dataset_tools/create_${set}_tf_record.py -h || return 1
  done
  ln -s "$objdet" python && prints '^usage: objdet train' ./python object_detection/legacy/train.py --help &&
    fails 2 'no command .object_detection/legacy/trian.py.; did you mean train' ./python object_detection/legacy/trian.py
}
check names_of_the_original original_names

# ---------------------------------------------------------------------------------------------------------------- eval
no_leftovers() { # no temporary files below
  find "$@" -name '.*' -type f | grep . && return 1
  return 0
}
evaluated() { # FLAG-VALUE DIR [flags]
  ckpt=$1 dir=$2
  shift 2
  "$objdet" eval $config --checkpoint_dir="$ckpt" --eval_dir="$dir" --threads=2 "$@" >eval.log 2>&1 || {
    cat eval.log
    return 1
  }
  [ -s "$dir/metrics.json" ] && [ -s "$dir/pipeline.config" ] && [ -s "$dir/pictures/image-0.png" ] && ls "$dir"/events.out.tfevents.* >/dev/null && no_leftovers "$dir"
}
eval_forms() { # a folder, and one checkpoint in any form: evaluated once, without --run_once
  evaluated train eval0 --run_once || return 1
  sed 's/"seconds.*//' eval0/metrics.json >want.json
  for ckpt in train/model.ckpt-2 train/model.ckpt-2.index train/model.ckpt-2.data-00000-of-00001 "$work/train/model.ckpt-2"; do
    rm -rf eval1
    evaluated "$ckpt" eval1 && sed 's/"seconds.*//' eval1/metrics.json | cmp - want.json || return 1
  done
}
eval_config_options() {
  evaluated train eval2 --run_once --set eval_config.metrics_set=coco_detection_metrics --set eval_config.include_metrics_per_category=true &&
    grep -q 'DetectionBoxes_Precision/mAP"' eval2/metrics.json && grep -q 'PerformanceByCategory/mAP/disc' eval2/metrics.json
}
eval_refuses() {
  fails 1 'metrics_set' "$objdet" eval $config --checkpoint_dir=train --eval_dir=refused --run_once --set eval_config.metrics_set=coco_detection_metric &&
    fails 1 'tiny.config' "$objdet" eval $config --checkpoint_dir=tiny.config --eval_dir=refused && [ ! -e refused/metrics.json ] && mkdir -p empty &&
    fails 1 'empty' "$objdet" eval $config --checkpoint_dir=empty --eval_dir=refused --run_once &&
    fails 1 'no figure .mAP@0.5.' "$objdet" eval $config --checkpoint_dir=train --eval_dir=refused --run_once --best_checkpoint_metric=mAP@0.5
}
best_of() {
  evaluated train eval3 --run_once --best_checkpoint_metric=Losses/Loss/localization_loss && [ -s eval3/best/model.ckpt-2.index ] && [ -s eval3/best/best.json ] &&
    "$objdet" inspect eval3/best >/dev/null && evaluated eval3/best eval4 --run_once
}
check eval_of_a_folder_or_one_checkpoint eval_forms
check eval_options_of_the_config eval_config_options
check eval_refusals eval_refuses
check best_checkpoint best_of

# -------------------------------------------------------------------------------------------------------------- export
exported() { # DIR [flags]
  dir=$1
  shift
  "$objdet" export_inference_graph $config --trained_checkpoint_prefix=train/model.ckpt-2 --output_directory="$dir" --threads=2 "$@" >export.log 2>&1 || {
    cat export.log
    return 1
  }
  for f in frozen_inference_graph.pb saved_model/saved_model.pb model.ckpt.index model.ckpt.data-00000-of-00001 checkpoint pipeline.config; do
    [ -s "$dir/$f" ] || {
      echo "$dir/$f is missing"
      return 1
    }
  done
  grep -q '^checked on a made picture' export.log && no_leftovers "$dir"
}
export_types() {
  exported output_inference_graph.pb && exported strings --input_type=encoded_image_string_tensor && exported examples --input_type tf_example
}
export_shapes() {
  exported fixed --input_shape=1,96,128,3 && grep -q 'picture of 96x128' export.log && exported half --input_shape=1,None,120,3 && grep -q 'picture of 240x120' export.log &&
    exported two --input_shape=2,-1,-1,3
}
export_override() {
  exported fewer --config_override='model { ssd { post_processing { batch_non_max_suppression { max_total_detections: 7 max_detections_per_class: 7 } } } }' &&
    grep -q 'max_total_detections: 7' fewer/pipeline.config && exported dotted --set model.ssd.post_processing.batch_non_max_suppression.max_total_detections=120 &&
    grep -q 'max_total_detections: 120' dotted/pipeline.config
}
export_refuses() {
  e="export_inference_graph $config --trained_checkpoint_prefix=train/model.ckpt-2 --output_directory=none"
  for shape in 1,300 300,300,3,1 1,0,0,3 1,a,b,3 1,2,3,4,5 1,99999999999,5,3; do fails 2 'input_shape wants four numbers' "$objdet" $e --input_shape=$shape || return 1; done
  fails 2 'image_tensr' "$objdet" $e --input_type=image_tensr && fails 1 'config_override' "$objdet" $e --config_override='model {' &&
    fails 1 'model.ckpt-3' "$objdet" export_inference_graph $config --trained_checkpoint_prefix=train/model.ckpt-3 --output_directory=none &&
    fails 1 'the checkpoint has' "$objdet" $e --set model.ssd.num_classes=9 && [ ! -e none ]
}
check export_all_input_types export_types
check export_input_shapes export_shapes
check export_config_override export_override
check export_refusals export_refuses

# -------------------------------------------------------------------------------------------------------------- detect
detected() { # DIR COUNT [flags and pictures]
  dir=$1 count=$2
  shift 2
  "$objdet" detect --label_map_path=map.pbtxt --output_directory="$dir" --threads=2 "$@" >detect.out 2>detect.log || {
    cat detect.log
    return 1
  }
  [ "$(wc -l <"$dir/detections.jsonl")" -eq "$count" ] && [ "$(ls "$dir" | grep -c 'jpg$')" -eq "$count" ] && no_leftovers "$dir" || {
    ls -a "$dir"
    return 1
  }
}
# class and score of the first detection in each picture, score to two digits
best_found() { sed 's/.*"detections":\[{[^}]*"class":\([0-9]*\)[^}]*"score":0\.\([0-9][0-9]\).*"image":"\([^"]*\)".*/\1 \2 \3/' "$1/detections.jsonl" | cut -c1-80; }
detect_models() { # folder, prefix, frozen graphs of any name and kind, SavedModel: the same boxes
  detected d0 4 --checkpoint=train $config pictures && detected d1 4 --checkpoint=train/model.ckpt-2.index $config pictures/*.jpg && cmp d0/detections.jsonl d1/detections.jsonl || return 1
  best_found d0 >want
  grep -q '^[1-6] [0-9][0-9] pictures/train_0000' want || {
    cat want
    return 1
  }
  for graph in --graph=output_inference_graph.pb --graph=output_inference_graph.pb/frozen_inference_graph.pb --saved_model=output_inference_graph.pb/saved_model --graph=strings --graph=examples; do
    rm -rf d2
    detected d2 4 $graph pictures && best_found d2 | cmp - want || return 1
  done
}
detect_json() {
  detected d3 4 --checkpoint=train $config --json pictures && cmp detect.out d3/detections.jsonl && rm -rf d3 && detected d3 4 --checkpoint=train $config --min_score_json=0.99999 pictures &&
    grep -q '"detections":\[\]' d3/detections.jsonl
}
detect_odd_pictures() { # 16 bits, CMYK, palettes, grey: all of them are pictures
  mkdir -p odds && for f in "$odd"/*; do case $f in *.jpg | *.jpeg | *.png | *.bmp | *.gif) cp "$f" odds/ ;; esac; done
  n=$(ls odds | wc -l)
  [ "$n" -gt 0 ] || {
    echo "no odd pictures in $odd"
    return 1
  }
  rm -rf d4
  detected d4 "$n" --checkpoint=train $config odds
}
detect_same_names() { # from two folders, and odd names
  mkdir -p one two && cp pictures/train_00001.jpg one/a.jpg && cp pictures/train_00002.jpg two/a.jpg && cp pictures/train_00003.jpg two/A.JPG && cp pictures/train_00003.jpg "two/with space.jpg" &&
    cp pictures/train_00003.jpg "two/$(printf 'caf\351').jpg" && echo text >two/notes.txt && detected d5 5 --checkpoint=train $config one two && [ -s d5/a_1.jpg ] && grep -q 'caf?' d5/detections.jsonl
}
detect_bad_pictures() { # named, the others are looked at, exit 1 with the count
  mkdir -p mixed && cp pictures/train_00001.jpg mixed/good.jpg && head -c 300 pictures/train_00001.jpg >mixed/cut.jpg && : >mixed/empty.png && echo hello >mixed/text.jpg
  fails 1 '^objdet: 4 of what was named could not be looked at' "$objdet" detect --checkpoint=train $config --output_directory=d6 mixed nowhere.jpg || return 1
  for f in mixed/cut.jpg mixed/empty.png mixed/text.jpg nowhere.jpg; do
    grep -q "^warning: .*$f" err.log || {
      echo "$f is not named"
      cat err.log
      return 1
    }
  done
  [ "$(wc -l <d6/detections.jsonl)" -eq 1 ] && [ "$(ls d6)" = "$(printf 'detections.jsonl\ngood.jpg')" ]
}
detect_refuses() {
  mkdir -p empty && d="$objdet detect --output_directory=none"
  fails 1 'there is no picture' $d --checkpoint=train $config empty && grep -q 'warning: empty holds no pictures' err.log && fails 2 'wants pictures' $d --checkpoint=train $config &&
    fails 2 'one of --checkpoint' $d pictures && fails 2 'one of --checkpoint' $d --checkpoint=train --graph=strings $config pictures && fails 2 'pipeline_config_path' $d --checkpoint=train pictures &&
    fails 1 'nowhere' $d --graph=nowhere pictures && fails 1 'tiny.config' $d --graph=tiny.config pictures && fails 2 'output_directory' "$objdet" detect --graph=strings pictures &&
    fails 1 'map.pbtx' $d --graph=strings --label_map_path=map.pbtx pictures && [ ! -e none ] &&
    fails 2 'pictures holds the pictures themselves' "$objdet" detect --checkpoint=train $config --output_directory=pictures pictures/train_00001.jpg && [ "$(ls pictures | wc -l)" -eq 4 ]
}
check detect_checkpoints_and_graphs detect_models
check detect_json detect_json
check detect_odd_pictures detect_odd_pictures
check detect_same_names detect_same_names
check detect_bad_pictures detect_bad_pictures
check detect_refusals detect_refuses

# ------------------------------------------------------------------------------------- import, preview, inspect, config
import_weights() {
  "$objdet" import --graph=output_inference_graph.pb --output=weights/model.ckpt >import.log 2>&1 || {
    cat import.log
    return 1
  }
  detected d7 4 --checkpoint=weights/model.ckpt $config pictures && best_found d7 >got && best_found d0 >want && diff want got &&
    fails 1 'nowhere.pb' "$objdet" import --graph=nowhere.pb --output=none/x && fails 2 'needs --output' "$objdet" import --graph=strings && [ ! -e none ]
}
preview_sheet() {
  "$objdet" preview $config --output=sheet.png --rows=2 --columns=3 --cell=64 >preview.log 2>&1 && [ -s sheet.png ] && cp sheet.png first.png &&
    "$objdet" preview $config --output=sheet.png --rows=2 --columns=3 --cell=64 >preview.log 2>&1 && cmp sheet.png first.png &&
    fails 2 'rows and --columns are 1 to 40' "$objdet" preview $config --rows=4294967297
}
inspect_json() { # every kind of file: an object, or an error
  for f in train.record train/model.ckpt-2 train strings/frozen_inference_graph.pb strings/saved_model map.pbtxt tiny.config train/events*; do
    "$objdet" inspect "$f" >text.log && "$objdet" inspect --json "$f" >json.log && head -c 1 json.log | grep -q '{' && [ -s text.log ] || {
      echo "$f"
      return 1
    }
  done
  fails 1 'nowhere' "$objdet" inspect nowhere && fails 2 'one file' "$objdet" inspect
}
config_round_trip() { "$objdet" config $config >one.config && "$objdet" config --pipeline_config_path=one.config | cmp - one.config; }
check import_of_a_graph import_weights
check preview_is_the_same_twice preview_sheet
check inspect_every_kind inspect_json
check config_prints_what_it_reads config_round_trip

# ------------------------------------------------------------------------------------------------- signals and streams
wait_for() { # FILE
  for i in $(seq 300); do
    [ -e "$1" ] && return 0
    sleep 0.1
  done
  echo "$1 did not come"
  return 1
}
stopped_by() { # SIGNAL CODE PID
  kill -"$1" "$3"
  wait "$3"
  code=$?
  [ $code -eq "$2" ] || {
    echo "exit $code, expected $2"
    return 1
  }
}
stop_eval() { # while it waits for a checkpoint, and at work
  "$objdet" eval $config --checkpoint_dir=never --eval_dir=stopped >stop.log 2>&1 &
  pid=$!
  wait_for stopped/pipeline.config && stopped_by TERM 143 $pid || return 1
  "$objdet" eval $config --checkpoint_dir=train --eval_dir=stopped2 --set eval_config.eval_interval_secs=1000 >stop.log 2>&1 &
  pid=$!
  wait_for stopped2/metrics.json && stopped_by INT 130 $pid && no_leftovers stopped2 && [ ! -e stopped/metrics.json ]
}
stop_detect() { # many pictures; those looked at stay, each line is whole
  mkdir -p many && for i in $(seq 400); do ln "pictures/train_0000$((i % 4 + 1)).jpg" "many/$i.jpg"; done
  "$objdet" detect --checkpoint=train $config --threads=1 --output_directory=d8 many >stop.log 2>&1 &
  pid=$!
  wait_for d8/1.jpg && stopped_by TERM 143 $pid && grep -q '^objdet: stopped after [0-9]* of 400 pictures' stop.log && no_leftovers d8 || {
    cat stop.log
    return 1
  }
  n=$(wc -l <d8/detections.jsonl)
  [ "$n" -gt 0 ] && [ "$n" -lt 400 ] && [ "$n" -eq "$(ls d8 | grep -c 'jpg$')" ] && [ "$(grep -c '^{.*}$' d8/detections.jsonl)" -eq "$n" ]
}
closed_stdout() {
  for c in "--version" "-h" "config -h" "config $config" "inspect train.record" "ops"; do
    "$objdet" $c >&- 2>err.log
    [ $? -eq 1 ] && grep -q '^objdet: stdout cannot be written' err.log || {
      echo "$c"
      cat err.log
      return 1
    }
  done
  "$objdet" $c >/dev/full 2>err.log
  [ $? -eq 1 ] && grep -q '^objdet: stdout cannot be written' err.log || return 1
  # files that are opened must not become stdout
  "$objdet" detect --checkpoint=train $config --output_directory=d9 --json pictures >&- 2>err.log
  [ $? -eq 1 ] && grep -q 'stdout cannot be written' err.log || return 1
  "$objdet" detect --checkpoint=train $config --output_directory=d10 pictures >&- 2>&- <&- && cmp d10/detections.jsonl d0/detections.jsonl && cmp d10/train_00001.jpg d0/train_00001.jpg
}
check stopped_eval stop_eval
check stopped_detect stop_detect
check closed_streams closed_stdout
finish
