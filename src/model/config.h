/* Short names for the messages of pipeline.config that model code reads, and their defaults.
 *
 * protobuf-c gives NULL for a message that the file does not set; OD_SET(message, Type) puts one with all defaults in its
 * place, so that code reads fields without asking. */
#ifndef OD_MODEL_CONFIG_H
#define OD_MODEL_CONFIG_H

#include "io/proto/pipeline.pb-c.h"

typedef ObjectDetection__Protos__TrainEvalPipelineConfig od_pb_pipeline;
typedef ObjectDetection__Protos__DetectionModel od_pb_model;
typedef ObjectDetection__Protos__Ssd od_pb_ssd;
typedef ObjectDetection__Protos__SsdFeatureExtractor od_pb_ssd_extractor;
typedef ObjectDetection__Protos__FasterRcnn od_pb_faster_rcnn;
typedef ObjectDetection__Protos__FasterRcnnFeatureExtractor od_pb_faster_rcnn_extractor;
typedef ObjectDetection__Protos__Hyperparams od_pb_hyperparams;
typedef ObjectDetection__Protos__BoxPredictor od_pb_box_predictor;
typedef ObjectDetection__Protos__ConvolutionalBoxPredictor od_pb_conv_predictor;
typedef ObjectDetection__Protos__AnchorGenerator od_pb_anchors;
typedef ObjectDetection__Protos__PostProcessing od_pb_post;
typedef ObjectDetection__Protos__BatchNonMaxSuppression od_pb_nms;
typedef ObjectDetection__Protos__Loss od_pb_loss;
typedef ObjectDetection__Protos__ImageResizer od_pb_resizer;
typedef ObjectDetection__Protos__TrainConfig od_pb_train;
typedef ObjectDetection__Protos__EvalConfig od_pb_eval;
typedef ObjectDetection__Protos__InputReader od_pb_reader;

/* Camel-case name and upper-case name of the messages that may be absent. */
#define OD_DEFAULTED_LIST(X)                                                                                          \
  X(BatchNonMaxSuppression, BATCH_NON_MAX_SUPPRESSION)                                                                \
  X(EvalConfig, EVAL_CONFIG)                                                                                          \
  X(Hyperparams, HYPERPARAMS)                                                                                         \
  X(InputReader, INPUT_READER)                                                                                        \
  X(Loss, LOSS)                                                                                                       \
  X(Optimizer, OPTIMIZER)                                                                                             \
  X(PostProcessing, POST_PROCESSING)                                                                                  \
  X(TrainConfig, TRAIN_CONFIG)

#define X(Camel, UPPER) const ObjectDetection__Protos__##Camel *od_set_##Camel(const ObjectDetection__Protos__##Camel *m);
OD_DEFAULTED_LIST(X)
#undef X

/* The message, or one with nothing but defaults. */
#define OD_SET(message, Camel) od_set_##Camel(message)

#endif
