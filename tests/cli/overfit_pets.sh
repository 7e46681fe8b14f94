#!/bin/sh
# Faster R-CNN learns ten real pets by heart: ResNet-50 with trained batch norm, small pictures, from weights by formula, until
# every pet is found with its class and IoU > 0.5 (Pascal mAP@0.5 of 1.0 over the very pictures). Takes minutes, so it is no part
# of `make test`: BUILD=build tests/cli/overfit_pets.sh [STEPS] [DIR]. The drawn pictures stay in DIR for the eye.
. "$(dirname "$0")/tiny.sh"
real_pets
steps=${1:-1500} # fewer, and the averages of batch norm (decay 0.997) are not there yet
work=${2:-$(mktemp -d "${TMPDIR:-/tmp}/objdet-overfit-XXXXXX")}
mkdir -p "$work" && cd "$work" || exit 1

cat >pets.config <<END
model {
  faster_rcnn {
    num_classes: 37
    image_resizer { keep_aspect_ratio_resizer { min_dimension: 96 max_dimension: 96 pad_to_max_dimension: true } }
    feature_extractor { type: "faster_rcnn_resnet50" batch_norm_trainable: true }
    first_stage_anchor_generator { grid_anchor_generator { height: 64 width: 64 scales: [0.5, 1.0, 1.5] aspect_ratios: [0.5, 1.0, 2.0] } }
    first_stage_box_predictor_conv_hyperparams { initializer { truncated_normal_initializer { stddev: 0.01 } } }
    first_stage_max_proposals: 24
    first_stage_localization_loss_weight: 2.0
    clip_anchors_to_image: true
    initial_crop_size: 6
    maxpool_kernel_size: 2
    maxpool_stride: 2
    second_stage_box_predictor {
      mask_rcnn_box_predictor { fc_hyperparams { op: FC initializer { variance_scaling_initializer { factor: 1.0 uniform: true mode: FAN_AVG } } } }
    }
    second_stage_batch_size: 8
    second_stage_post_processing {
      batch_non_max_suppression { score_threshold: 0.0 iou_threshold: 0.6 max_detections_per_class: 10 max_total_detections: 20 }
      score_converter: SOFTMAX
    }
    second_stage_localization_loss_weight: 2.0
  }
}
train_config {
  batch_size: 2
  num_steps: $steps
  fine_tune_checkpoint: "$work/formula"
  fine_tune_checkpoint_type: "detection"
  gradient_clipping_by_norm: 10.0
  optimizer {
    momentum_optimizer { learning_rate { cosine_decay_learning_rate { learning_rate_base: 0.01 total_steps: $steps warmup_learning_rate: 0.001 warmup_steps: 50 } } momentum_optimizer_value: 0.9 }
    use_moving_average: false
  }
}
train_input_reader { label_map_path: "$map" tf_record_input_reader { input_path: "$record" } }
eval_config { num_examples: 10 num_visualizations: 10 visualization_export_dir: "$work/pictures" metrics_set: "pascal_voc_detection_metrics" }
eval_input_reader { label_map_path: "$map" shuffle: false tf_record_input_reader { input_path: "$record" } }
END
[ -e formula.index ] || "$objdet-golden" pets.config --checkpoint="$work/formula" || exit 1
"$objdet" train --pipeline_config_path=pets.config --train_dir=run --seed=1 --threads="${THREADS:-0}" --save_interval_steps=250 || exit 1
"$objdet" eval --pipeline_config_path=pets.config --checkpoint_dir=run --eval_dir=eval --run_once || exit 1
found=$(sed -n 's/.*"PascalBoxes_Precision\/mAP@0.5IOU": *\([0-9.]*\).*/\1/p' eval/metrics.json)
echo "mAP@0.5 over the ten pets: $found; pictures in $work/pictures"
[ "$found" = 1 ] || [ "$found" = 1.0 ] || [ "$found" = 1.000000 ]
