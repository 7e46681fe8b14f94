# A Faster R-CNN small enough for tests, for the scripts that source tiny.sh: ResNet-50 on drawn pictures, crops of which every one has
# its own shape, with what a resumed run could get wrong: samples of anchors and proposals, dropout, momentum. Its checkpoints are big.
tiny_config() {
  cat <<END
model {
  faster_rcnn {
    num_classes: 6
    image_resizer { keep_aspect_ratio_resizer { min_dimension: 64 max_dimension: 96 } }
    feature_extractor { type: "faster_rcnn_resnet50" }
    first_stage_anchor_generator { grid_anchor_generator { height: 48 width: 48 scales: [0.5, 1.0] aspect_ratios: [0.5, 1.0, 2.0] } }
    first_stage_box_predictor_conv_hyperparams { initializer { truncated_normal_initializer { stddev: 0.01 } } }
    first_stage_minibatch_size: 32
    first_stage_max_proposals: 16
    first_stage_localization_loss_weight: 2.0
    initial_crop_size: 6
    maxpool_kernel_size: 2
    maxpool_stride: 2
    second_stage_box_predictor {
      mask_rcnn_box_predictor {
        use_dropout: true dropout_keep_probability: 0.8
        fc_hyperparams { op: FC regularizer { l2_regularizer { weight: 0.0001 } } initializer { variance_scaling_initializer { factor: 1.0 uniform: true mode: FAN_AVG } } }
      }
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
  batch_size: 1
  num_steps: 20
  gradient_clipping_by_norm: 10.0
  data_augmentation_options { random_horizontal_flip {} }
  data_augmentation_options { random_crop_image { min_area: 0.4 } }
  optimizer {
    momentum_optimizer {
      learning_rate { manual_step_learning_rate { initial_learning_rate: 0.0003 schedule { step: 7 learning_rate: 0.00003 } } }
      momentum_optimizer_value: 0.9
    }
    use_moving_average: false
  }
}
$(tiny_readers)
END
}
