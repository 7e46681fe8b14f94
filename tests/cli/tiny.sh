# A detector small enough for tests: 24 drawn pictures, SSD MobileNet v1 at depth 0.25 on 96 x 96, 4 pictures a step, with all
# that a resumed run could get wrong: shuffling, random crops, dropout, moving averages. Sourced by the tests beside it.
#
#   tiny_begin         makes $work (removed at exit) with train.record, test.record, map.pbtxt, tiny.config
#   check NAME CMD...  runs a check (a function, in a subshell): one OK or FAILED line, what it printed when it failed
#   fails RC TEXT CMD  the command exits with RC, and its last error holds TEXT
#   finish             exit code of the script
root=$(cd "$(dirname "$0")/../.." && pwd)
case ${BUILD:=build} in
  /*) objdet=$BUILD/objdet ;;
  *) objdet=$root/$BUILD/objdet ;;
esac
failed_checks=0

tiny_begin() {
  work=$(mktemp -d "${TMPDIR:-/tmp}/objdet-test-XXXXXX") || exit 1
  trap 'rm -rf "$work"' EXIT
  trap 'exit 1' INT TERM
  cd "$work" || exit 1
  {
    "$objdet" draw_shapes --output_dir=shapes --count=24 --held_out_count=6 &&
      "$objdet" create_pascal_tf_record --data_dir=shapes --label_map_path=shapes/label_map.pbtxt --examples=shapes/train.txt \
        --output_path=train.record &&
      "$objdet" create_pascal_tf_record --data_dir=shapes --label_map_path=shapes/label_map.pbtxt --examples=shapes/held_out.txt \
        --output_path=test.record && mv shapes/label_map.pbtxt map.pbtxt
  } >log 2>&1 || {
    cat log
    echo "[  FAILED  ] tiny_begin"
    exit 1
  }
  rm -rf shapes
  tiny_config >tiny.config
}

check() {
  echo "[ RUN      ] $1"
  (
    name=$1
    shift
    "$@"
  ) >check.log 2>&1
  if [ $? -eq 0 ]; then
    echo "[       OK ] $1"
  else
    tail -n 40 check.log
    echo "[  FAILED  ] $1"
    failed_checks=$((failed_checks + 1))
  fi
}

finish() { [ "$failed_checks" -eq 0 ]; }

fails() {
  fails_rc=$1 fails_text=$2
  shift 2
  "$@" >out.log 2>err.log
  got=$?
  if [ $got -ne "$fails_rc" ]; then
    echo "exit $got, expected $fails_rc: $*"
    tail -n 5 out.log err.log
    return 1
  fi
  grep '^objdet: ' err.log >last.log
  [ "$(wc -l <last.log)" -eq 1 ] || {
    echo "one error line expected:"
    cat err.log
    return 1
  }
  grep -q -e "$fails_text" err.log || {
    echo "'$fails_text' is not in:"
    cat err.log
    return 1
  }
}

# objdet train on the tiny config: tiny_train DIR STEPS [flags]; tiny_exec the same in place of this shell, so that `tiny_exec ... &`
# leaves the program's own number in $!.
tiny_train() { (tiny_exec "$@"); }
tiny_exec() {
  train_dir=$1 num_steps=$2
  shift 2
  exec "$objdet" train --pipeline_config_path=tiny.config --train_dir="$train_dir" --set train_config.num_steps="$num_steps" --threads=1 --seed=7 "$@"
}

# sha256 of a checkpoint's tensors and table: ckpt_sum DIR STEP
ckpt_sum() { cat "$1/model.ckpt-$2.index" "$1/model.ckpt-$2.data-00000-of-00001" | sha256sum | cut -d' ' -f1; }

# Equal, and of something that exists: same_ckpt DIR_A DIR_B STEP
same_ckpt() {
  for d in "$1" "$2"; do
    [ -s "$d/model.ckpt-$3.index" ] && [ -s "$d/model.ckpt-$3.data-00000-of-00001" ] || {
      echo "$d/model.ckpt-$3 is missing"
      ls "$d"
      return 1
    }
  done
  a=$(ckpt_sum "$1" "$3") b=$(ckpt_sum "$2" "$3")
  [ "$a" = "$b" ] || {
    echo "model.ckpt-$3: $1 has $a, $2 has $b"
    return 1
  }
}

hyperparams() {
  cat <<'END'
conv_hyperparams {
  regularizer { l2_regularizer { weight: 0.00004 } }
  initializer { truncated_normal_initializer { mean: 0.0 stddev: 0.03 } }
  activation: RELU_6
  batch_norm { decay: 0.9 center: true scale: true epsilon: 0.001 train: true }
}
END
}

# Ten real pets: $record, $map and $data, the folder of both; without the shared data the script ends here, aloud.
real_pets() {
  shared=${OBJDET_SHARED:-$root/../shared}
  data=$shared/data/tf_models_testdata/research/object_detection
  record=$data/test_data/pets_examples.record map=$data/data/pet_label_map.pbtxt
  [ -r "$record" ] && [ -r "$map" ] || {
    echo "SKIPPED: needs shared data ${record#"$shared"/}"
    exit 0
  }
}

# The sections of a config that name the records; for every tiny_config.
tiny_readers() {
  cat <<END
train_input_reader {
  label_map_path: "$work/map.pbtxt"
  tf_record_input_reader { input_path: "$work/train.record" }
}
eval_config { num_examples: 6 num_visualizations: 1 }
eval_input_reader {
  label_map_path: "$work/map.pbtxt"
  shuffle: false
  num_readers: 1
  tf_record_input_reader { input_path: "$work/test.record" }
}
END
}

tiny_config() {
  cat <<END
model {
  ssd {
    num_classes: 6
    image_resizer { fixed_shape_resizer { height: 96 width: 96 } }
    feature_extractor {
      type: "ssd_mobilenet_v1" depth_multiplier: 0.25 min_depth: 8
      override_base_feature_extractor_hyperparams: true
      $(hyperparams)
    }
    box_coder { faster_rcnn_box_coder { y_scale: 10.0 x_scale: 10.0 height_scale: 5.0 width_scale: 5.0 } }
    matcher {
      argmax_matcher {
        matched_threshold: 0.5 unmatched_threshold: 0.5 ignore_thresholds: false
        negatives_lower_than_unmatched: true force_match_for_each_row: true
      }
    }
    similarity_calculator { iou_similarity {} }
    box_predictor {
      convolutional_box_predictor {
        $(hyperparams)
        min_depth: 0 max_depth: 0 num_layers_before_predictor: 0
        use_dropout: true dropout_keep_probability: 0.8 kernel_size: 1 box_code_size: 4 apply_sigmoid_to_scores: false
      }
    }
    anchor_generator {
      ssd_anchor_generator { num_layers: 6 min_scale: 0.2 max_scale: 0.95 aspect_ratios: [1.0, 2.0, 0.5, 3.0, 0.3333] }
    }
    post_processing {
      batch_non_max_suppression { score_threshold: 1e-8 iou_threshold: 0.6 max_detections_per_class: 100 max_total_detections: 100 }
      score_converter: SIGMOID
    }
    normalize_loss_by_num_matches: true
    loss {
      localization_loss { weighted_smooth_l1 {} }
      classification_loss { weighted_sigmoid {} }
      hard_example_miner {
        num_hard_examples: 3000 iou_threshold: 0.99 loss_type: CLASSIFICATION max_negatives_per_positive: 3 min_negatives_per_image: 3
      }
      classification_weight: 1.0 localization_weight: 1.0
    }
  }
}
train_config {
  batch_size: 4
  num_steps: 20
  data_augmentation_options { random_horizontal_flip {} }
  data_augmentation_options { random_adjust_brightness {} }
  data_augmentation_options { ssd_random_crop {} }
  optimizer {
    rms_prop_optimizer {
      learning_rate { exponential_decay_learning_rate { initial_learning_rate: 0.002 decay_steps: 5 decay_factor: 0.95 } }
      momentum_optimizer_value: 0.9 decay: 0.9 epsilon: 1.0
    }
  }
}
$(tiny_readers)
END
}
