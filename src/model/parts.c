/* Config messages as op parameters; see parts.h. */
#include "model/parts.h"

#include <string.h>

#include "ops/math.h"

void od_named_add(od_graph *g, od_named_list *l, const char *name, od_value v) {
  OD_ASSERT(l->n < OD_NAMED_MAX);
  const char *copy = od_arena_strdup(od_graph_arena(g), name);
  if (!copy) od_graph_fail(g, OD_ENOMEM);
  else if (od_has(v)) l->item[l->n++] = (od_named){copy, v};
}

od_value od_named_get(const od_named_list *l, const char *name) {
  for (int i = 0; i < l->n; i++)
    if (strcmp(l->item[i].name, name) == 0) return l->item[i].value;
  return OD_NONE;
}

#define BOX_CODER(x) OBJECT_DETECTION__PROTOS__BOX_CODER__BOX_CODER_ONEOF_##x
od_status od_coder_from_config(od_coder_params *out, const ObjectDetection__Protos__BoxCoder *c) {
  *out = (od_coder_params){.kind = OD_CODER_FASTER_RCNN, .y = 1, .x = 1, .height = 1, .width = 1};
  switch (c ? c->box_coder_oneof_case : BOX_CODER(_NOT_SET)) {
    case BOX_CODER(FASTER_RCNN_BOX_CODER):
      out->y = c->faster_rcnn_box_coder->y_scale;
      out->x = c->faster_rcnn_box_coder->x_scale;
      out->height = c->faster_rcnn_box_coder->height_scale;
      out->width = c->faster_rcnn_box_coder->width_scale;
      return OD_OK;
    case BOX_CODER(KEYPOINT_BOX_CODER):
      out->kind = OD_CODER_KEYPOINT;
      out->y = c->keypoint_box_coder->y_scale;
      out->x = c->keypoint_box_coder->x_scale;
      out->height = c->keypoint_box_coder->height_scale;
      out->width = c->keypoint_box_coder->width_scale;
      out->keypoints = c->keypoint_box_coder->num_keypoints;
      return OD_OK;
    case BOX_CODER(SQUARE_BOX_CODER):
      out->kind = OD_CODER_SQUARE;
      out->y = c->square_box_coder->y_scale;
      out->x = c->square_box_coder->x_scale;
      out->height = c->square_box_coder->length_scale;
      return OD_OK;
    case BOX_CODER(MEAN_STDDEV_BOX_CODER):
      out->kind = OD_CODER_MEAN_STDDEV;
      out->y = c->mean_stddev_box_coder->stddev;
      return OD_OK;
    default: return od_fail(OD_EINVAL, "box_coder: no coder is set; there are faster_rcnn_box_coder, keypoint_box_coder, "
                                       "square_box_coder and mean_stddev_box_coder");
  }
}

#define SIMILARITY(x) OBJECT_DETECTION__PROTOS__REGION_SIMILARITY_CALCULATOR__REGION_SIMILARITY_##x
static od_status similarity(od_match_params *out, const ObjectDetection__Protos__RegionSimilarityCalculator *s) {
  switch (s ? s->region_similarity_case : SIMILARITY(_NOT_SET)) {
    case SIMILARITY(IOU_SIMILARITY): out->similarity = OD_SIMILARITY_IOU; return OD_OK;
    case SIMILARITY(IOA_SIMILARITY): out->similarity = OD_SIMILARITY_IOA; return OD_OK;
    case SIMILARITY(NEG_SQ_DIST_SIMILARITY): out->similarity = OD_SIMILARITY_NEG_SQ_DIST; return OD_OK;
    case SIMILARITY(THRESHOLDED_IOU_SIMILARITY):
      out->similarity = OD_SIMILARITY_THRESHOLDED_IOU;
      out->iou_threshold = s->thresholded_iou_similarity->iou_threshold;
      return OD_OK;
    default: return od_fail(OD_EINVAL, "similarity_calculator: none is set; there are iou_similarity, ioa_similarity, "
                                       "neg_sq_dist_similarity and thresholded_iou_similarity");
  }
}

#define MATCHER(x) OBJECT_DETECTION__PROTOS__MATCHER__MATCHER_ONEOF_##x
od_status od_match_from_config(od_match_params *out, const ObjectDetection__Protos__Matcher *m,
                               const ObjectDetection__Protos__RegionSimilarityCalculator *s) {
  *out = (od_match_params){0};
  OD_TRY(similarity(out, s));
  switch (m ? m->matcher_oneof_case : MATCHER(_NOT_SET)) {
    case MATCHER(ARGMAX_MATCHER):
      out->ignore_thresholds = m->argmax_matcher->ignore_thresholds;
      out->matched_threshold = m->argmax_matcher->matched_threshold;
      out->unmatched_threshold = m->argmax_matcher->unmatched_threshold;
      out->negatives_lower_than_unmatched = m->argmax_matcher->negatives_lower_than_unmatched;
      out->force_match_for_each_row = m->argmax_matcher->force_match_for_each_row;
      if (!out->ignore_thresholds && out->matched_threshold < out->unmatched_threshold)
        return od_fail(OD_EINVAL, "matcher: matched_threshold %g is below unmatched_threshold %g", (double)out->matched_threshold,
                       (double)out->unmatched_threshold);
      return OD_OK;
    case MATCHER(BIPARTITE_MATCHER): out->bipartite = true; return OD_OK;
    default: return od_fail(OD_EINVAL, "matcher: none is set; there are argmax_matcher and bipartite_matcher");
  }
}

od_status od_nms_from_config(od_nms_params *out, const od_pb_nms *n) {
  n = OD_SET(n, BatchNonMaxSuppression);
  if (n->iou_threshold < 0 || n->iou_threshold > 1)
    return od_fail(OD_EINVAL, "batch_non_max_suppression: iou_threshold %g is not in 0..1", (double)n->iou_threshold);
  if (n->max_detections_per_class > n->max_total_detections)
    return od_fail(OD_EINVAL, "batch_non_max_suppression: max_detections_per_class %d is more than max_total_detections %d",
                   n->max_detections_per_class, n->max_total_detections);
  if (n->soft_nms_sigma < 0)
    return od_fail(OD_EINVAL, "batch_non_max_suppression: soft_nms_sigma %g is negative", (double)n->soft_nms_sigma);
  if (n->use_combined_nms || (n->use_partitioned_nms && n->use_static_shapes))
    return od_fail(OD_EUNSUPPORTED, "batch_non_max_suppression: use_combined_nms, and use_partitioned_nms with use_static_shapes, are not supported");
  if (n->use_class_agnostic_nms && n->max_classes_per_detection != 1)
    return od_fail(OD_EUNSUPPORTED, "batch_non_max_suppression: max_classes_per_detection %d is not supported, 1 is (in the original, too)",
                   n->max_classes_per_detection);
  *out = (od_nms_params){.score_threshold = n->score_threshold, .iou_threshold = n->iou_threshold,
                         .max_per_class = n->max_detections_per_class, .max_total = n->max_total_detections,
                         .change_coordinate_frame = n->change_coordinate_frame, .class_agnostic = n->use_class_agnostic_nms,
                         .soft_nms_sigma = n->use_hard_nms ? 0 : n->soft_nms_sigma, .static_shapes = n->use_static_shapes};
  return OD_OK;
}

#define CLASSIFICATION(x) OBJECT_DETECTION__PROTOS__CLASSIFICATION_LOSS__CLASSIFICATION_LOSS_##x
od_status od_classification_from_config(od_classification_loss_params *out, const ObjectDetection__Protos__ClassificationLoss *l) {
  *out = (od_classification_loss_params){.logit_scale = 1};
  switch (l ? l->classification_loss_case : CLASSIFICATION(_NOT_SET)) {
    case CLASSIFICATION(WEIGHTED_SIGMOID): out->kind = OD_CLS_SIGMOID; return OD_OK;
    case CLASSIFICATION(WEIGHTED_SIGMOID_FOCAL):
      out->kind = OD_CLS_SIGMOID_FOCAL;
      out->gamma = l->weighted_sigmoid_focal->gamma;
      out->has_alpha = l->weighted_sigmoid_focal->has_alpha;
      out->alpha = l->weighted_sigmoid_focal->alpha;
      return OD_OK;
    case CLASSIFICATION(WEIGHTED_SOFTMAX):
      out->kind = OD_CLS_SOFTMAX;
      out->logit_scale = l->weighted_softmax->logit_scale;
      return OD_OK;
    case CLASSIFICATION(WEIGHTED_LOGITS_SOFTMAX):
      out->kind = OD_CLS_SOFTMAX_AGAINST_LOGITS;
      out->logit_scale = l->weighted_logits_softmax->logit_scale;
      return OD_OK;
    case CLASSIFICATION(BOOTSTRAPPED_SIGMOID):
      out->kind = l->bootstrapped_sigmoid->hard_bootstrap ? OD_CLS_BOOTSTRAPPED_HARD : OD_CLS_BOOTSTRAPPED_SOFT;
      out->alpha = l->bootstrapped_sigmoid->alpha;
      return OD_OK;
    case CLASSIFICATION(PENALTY_REDUCED_LOGISTIC_FOCAL_LOSS):
      out->kind = OD_CLS_PENALTY_REDUCED;
      out->alpha = l->penalty_reduced_logistic_focal_loss->alpha;
      out->gamma = l->penalty_reduced_logistic_focal_loss->beta;
      return OD_OK;
    case CLASSIFICATION(_NOT_SET): return od_fail(OD_EINVAL, "loss.classification_loss: none is set");
    default: return od_fail(OD_EINVAL, "loss.classification_loss: weighted_dice_classification_loss is for SSD");
  }
}

#define LOCALIZATION(x) OBJECT_DETECTION__PROTOS__LOCALIZATION_LOSS__LOCALIZATION_LOSS_##x
od_status od_localization_from_config(od_localization_loss_params *out, const ObjectDetection__Protos__LocalizationLoss *l) {
  *out = (od_localization_loss_params){.delta = 1};
  switch (l ? l->localization_loss_case : LOCALIZATION(_NOT_SET)) {
    case LOCALIZATION(WEIGHTED_L2): out->kind = OD_LOC_L2; return OD_OK;
    case LOCALIZATION(WEIGHTED_SMOOTH_L1):
      out->kind = OD_LOC_SMOOTH_L1;
      out->delta = l->weighted_smooth_l1->delta;
      return OD_OK;
    case LOCALIZATION(WEIGHTED_IOU): out->kind = OD_LOC_IOU; return OD_OK;
    case LOCALIZATION(L1_LOCALIZATION_LOSS): out->kind = OD_LOC_L1; return OD_OK;
    case LOCALIZATION(WEIGHTED_GIOU): out->kind = OD_LOC_GIOU; return OD_OK;
    default: return od_fail(OD_EINVAL, "loss.localization_loss: none is set");
  }
}

od_status od_miner_from_config(od_miner_params *out, const ObjectDetection__Protos__HardExampleMiner *m, float cls_weight,
                               float loc_weight) {
  *out = (od_miner_params){.num_hard_examples = m->num_hard_examples, .iou_threshold = m->iou_threshold,
                           .loss_type = (int)m->loss_type, .classification_weight = cls_weight, .localization_weight = loc_weight,
                           .max_negatives_per_positive = (float)m->max_negatives_per_positive,
                           .min_negatives_per_image = m->min_negatives_per_image};
  return OD_OK;
}

/* ResizeType of the schema: bilinear, nearest, bicubic, area. */
static int method_of(int type) {
  static const int methods[] = {OD_RESIZE_BILINEAR, OD_RESIZE_NEAREST, OD_RESIZE_BICUBIC, OD_RESIZE_AREA};
  return methods[type];
}

#define RESIZER(x) OBJECT_DETECTION__PROTOS__IMAGE_RESIZER__IMAGE_RESIZER_ONEOF_##x
od_status od_resize_params_from_config(od_resize_image_params *out, od_arena *arena, const od_pb_resizer *r) {
  *out = (od_resize_image_params){0};
  switch (r ? r->image_resizer_oneof_case : RESIZER(_NOT_SET)) {
    case RESIZER(FIXED_SHAPE_RESIZER):
      out->kind = OD_RESIZE_FIXED_SHAPE;
      out->height = r->fixed_shape_resizer->height;
      out->width = r->fixed_shape_resizer->width;
      out->method = method_of((int)r->fixed_shape_resizer->resize_method);
      out->convert_to_grayscale = r->fixed_shape_resizer->convert_to_grayscale;
      return OD_OK;
    case RESIZER(KEEP_ASPECT_RATIO_RESIZER): {
      const ObjectDetection__Protos__KeepAspectRatioResizer *k = r->keep_aspect_ratio_resizer;
      if (k->min_dimension > k->max_dimension)
        return od_fail(OD_EINVAL, "keep_aspect_ratio_resizer: min_dimension %d is more than max_dimension %d", k->min_dimension, k->max_dimension);
      out->kind = OD_RESIZE_KEEP_ASPECT_RATIO;
      out->min_dimension = k->min_dimension;
      out->max_dimension = k->max_dimension;
      out->pad_to_max_dimension = k->pad_to_max_dimension;
      out->method = method_of((int)k->resize_method);
      out->convert_to_grayscale = k->convert_to_grayscale;
      float *pad = od_arena_alloc(arena, sizeof *pad * (k->n_per_channel_pad_value + 1));
      if (!pad) return OD_ENOMEM;
      for (size_t i = 0; i < k->n_per_channel_pad_value; i++) pad[i] = k->per_channel_pad_value[i];
      out->pad_value = (od_floats){(int)k->n_per_channel_pad_value, pad};
      return OD_OK;
    }
    case RESIZER(IDENTITY_RESIZER): out->kind = OD_RESIZE_IDENTITY; return OD_OK;
    case RESIZER(PAD_TO_MULTIPLE_RESIZER):
      out->kind = OD_RESIZE_PAD_TO_MULTIPLE;
      out->multiple = r->pad_to_multiple_resizer->multiple;
      out->convert_to_grayscale = r->pad_to_multiple_resizer->convert_to_grayscale;
      return OD_OK;
    case RESIZER(CONDITIONAL_SHAPE_RESIZER): {
      const ObjectDetection__Protos__ConditionalShapeResizer *k = r->conditional_shape_resizer;
      if (k->condition == OBJECT_DETECTION__PROTOS__CONDITIONAL_SHAPE_RESIZER__RESIZE_CONDITION__INVALID)
        return od_fail(OD_EINVAL, "conditional_shape_resizer: condition must be GREATER or SMALLER");
      bool greater = k->condition == OBJECT_DETECTION__PROTOS__CONDITIONAL_SHAPE_RESIZER__RESIZE_CONDITION__GREATER;
      out->kind = greater ? OD_RESIZE_SHRINK : OD_RESIZE_ENLARGE;
      out->min_dimension = k->size_threshold;
      out->method = method_of((int)k->resize_method);
      out->convert_to_grayscale = k->convert_to_grayscale;
      return OD_OK;
    }
    default: return od_fail(OD_EINVAL, "image_resizer: none is set");
  }
}

od_value od_convert_scores(od_graph *g, const od_pb_post *p, od_value logits) {
  p = OD_SET(p, PostProcessing);
  if (!(p->logit_scale > 0 || p->logit_scale < 0)) return od_graph_fail(g, od_fail(OD_EINVAL, "post_processing.logit_scale is %g: scores would be divided by it", (double)p->logit_scale));
  logits = od_calibrate(g, p->calibration_config, true, logits);
  if (p->logit_scale != 1) logits = od_div(g, logits, od_const_f32(g, p->logit_scale));
  od_value scores = logits;
  if (p->score_converter == OBJECT_DETECTION__PROTOS__POST_PROCESSING__SCORE_CONVERTER__SIGMOID) scores = od_sigmoid(g, logits);
  if (p->score_converter == OBJECT_DETECTION__PROTOS__POST_PROCESSING__SCORE_CONVERTER__SOFTMAX) scores = od_softmax(g, logits);
  return od_calibrate(g, p->calibration_config, false, scores);
}
