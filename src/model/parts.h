/* Parts that the builders of meta architectures share: config messages turned into op parameters, and pieces of graph. */
#ifndef OD_MODEL_PARTS_H
#define OD_MODEL_PARTS_H

#include "model/layers.h"
#include "model/model.h"
#include "ops/detect.h"
#include "ops/loss.h"

/* Most channels that a config may ask for. */
enum { OD_DEPTH_MAX = 1 << 16 };

/* Appends to a list; the name is copied into the graph. */
void od_named_add(od_graph *g, od_named_list *l, const char *name, od_value v);

/* --- config messages as op parameters; failures name the field --- */
OD_MUST_CHECK od_status od_coder_from_config(od_coder_params *out, const ObjectDetection__Protos__BoxCoder *c);
OD_MUST_CHECK od_status od_match_from_config(od_match_params *out, const ObjectDetection__Protos__Matcher *m,
                                             const ObjectDetection__Protos__RegionSimilarityCalculator *s);
OD_MUST_CHECK od_status od_nms_from_config(od_nms_params *out, const od_pb_nms *n);
OD_MUST_CHECK od_status od_classification_from_config(od_classification_loss_params *out, const ObjectDetection__Protos__ClassificationLoss *l);
OD_MUST_CHECK od_status od_localization_from_config(od_localization_loss_params *out, const ObjectDetection__Protos__LocalizationLoss *l);
OD_MUST_CHECK od_status od_miner_from_config(od_miner_params *out, const ObjectDetection__Protos__HardExampleMiner *m, float cls_weight, float loc_weight);
OD_MUST_CHECK od_status od_resize_params_from_config(od_resize_image_params *out, od_arena *arena, const od_pb_resizer *r);

/* Anchors of a generator over these feature maps; per_location[i]: anchors a cell of map i. */
OD_MUST_CHECK od_status od_anchors_per_location(int64_t *per_location, int n_maps, od_arena *arena, const od_pb_anchors *a);
od_value od_anchors_build(od_graph *g, const od_pb_anchors *a, const od_value *maps, int n, od_value image);
/* The same for Faster R-CNN: grid_anchor_generator over its one map, in pixels. */
OD_MUST_CHECK od_status od_grid_anchors_per_cell(int64_t *per_cell, const od_pb_anchors *a);
od_value od_grid_anchors_build(od_graph *g, const od_pb_anchors *a, od_value map);

/* Scores from logits: division by logit_scale, then identity, sigmoid or softmax, then the calibration where there is one. */
od_value od_convert_scores(od_graph *g, const od_pb_post *p, od_value logits);
/* Calibration of the config: by temperature (of logits), or by curves (of scores [...,K]: one for all, or one a column). before:
 * logits are wanted. What does not apply passes through; failures stick. */
od_value od_calibrate(od_graph *g, const ObjectDetection__Protos__CalibrationConfig *c, bool before, od_value x);

/* The SSD predictor over all maps: [B,A,code] and [B,A,K+1] (K without background class). */
void od_ssd_predict(od_graph *g, const od_pb_box_predictor *p, const od_value *maps, int n, const int64_t *per_location,
                    int64_t class_slots, bool training, od_value *encodings, od_value *logits);

/* Targets of the anchors and Loss/localization_loss, Loss/classification_loss; class_slots: columns of the logits [B,A,D]. */
OD_MUST_CHECK od_status od_ssd_losses(od_model *m, const od_pb_ssd *c, const od_model_spec *spec, int64_t class_slots, od_value encodings,
                                      od_value logits);

OD_MUST_CHECK od_status od_ssd_build(od_model *m, const od_pb_ssd *c, const od_model_spec *spec);
OD_MUST_CHECK od_status od_faster_rcnn_build(od_model *m, const od_pb_faster_rcnn *c, const od_model_spec *spec);

#endif
