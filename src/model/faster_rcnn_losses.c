/* Losses of Faster R-CNN, both stages; odapi 5.1. */
#include "model/faster_rcnn.h"
#include "ops/math.h"

/* weight * mean over the pictures of sum(losses [B,N]) / normalizer [B]. */
static od_value mean_loss(od_graph *g, float weight, od_value losses, od_value normalizer) {
  od_value sums = od_reduce_sum(g, losses, OD_AXES(1), false);
  return od_scale(g, od_reduce_mean(g, od_div(g, sums, normalizer), OD_ALL_AXES, false), weight, 0);
}

/* -------------------------------------------------------------------------------------------------------------- stage 1 */
static od_value rpn_targets(od_frcnn *f) {
  static const float none = 0;
  od_graph *g = f->m->graph;
  const od_groundtruth *gt = &f->spec->groundtruth;
  od_match_params match = {.similarity = OD_SIMILARITY_IOU, .matched_threshold = 0.7f, .unmatched_threshold = 0.3f,
                           .negatives_lower_than_unmatched = true, .force_match_for_each_row = true};
  od_assign_params assign = {.coder = f->coder, .unmatched = {1, &none}, .negative_class_weight = 1};
  od_value classes = od_expand_dims(g, od_ones_like(g, gt->weights), OD_AXES(2)); /* one class: object */
  f->m->match = od_match_anchors(g, f->m->anchors, f->gt_boxes, gt->weights, gt->count, OD_NONE, f->valid, &match);
  return od_assign_targets_op(g, f->m->match, f->m->anchors, f->gt_boxes, classes, gt->weights, OD_NONE, &assign);
}

static void rpn_losses(od_frcnn *f) {
  od_graph *g = f->m->graph;
  const od_pb_faster_rcnn *c = f->c;
  od_sample_params p = {c->first_stage_minibatch_size, c->first_stage_positive_balance_fraction};
  od_localization_loss_params smooth = {.kind = OD_LOC_SMOOTH_L1, .delta = 1};
  od_classification_loss_params softmax = {.kind = OD_CLS_SOFTMAX, .logit_scale = 1};
  od_value t = rpn_targets(f);
  od_value labels = od_squeeze(g, od_out(t, 0), OD_AXES(2)), weights = od_squeeze(g, od_out(t, 1), OD_AXES(2));
  od_value sampled = od_sample_balanced_op(g, weights, labels, &p);
  od_value normalizer = od_maximum(g, od_reduce_sum(g, sampled, OD_AXES(1), false), od_const_f32(g, 1));
  od_value loc = od_localization_loss(g, f->rpn_encodings, od_out(t, 2), od_mul(g, sampled, od_out(t, 3)), &smooth);
  od_value target = od_one_hot(g, od_cast(g, labels, OD_I32), 2, 1, 0);
  od_value cls = od_classification_loss(g, f->rpn_logits, target, od_expand_dims(g, sampled, OD_AXES(2)), &softmax);
  od_named_add(g, &f->m->losses, "Loss/RPNLoss/localization_loss", mean_loss(g, c->first_stage_localization_loss_weight, loc, normalizer));
  od_named_add(g, &f->m->losses, "Loss/RPNLoss/objectness_loss", mean_loss(g, c->first_stage_objectness_loss_weight, cls, normalizer));
}

/* -------------------------------------------------------------------------------------------------------------- stage 2 */
/* Codes [B,P,4] that are compared with the targets: those of the target's class, zeros for background. */
static od_value codes_of_target(od_frcnn *f, od_value class_targets) {
  od_graph *g = f->m->graph;
  int64_t q = od_dim(f->encodings, 1), p = f->max_proposals;
  od_value codes = od_reshape(g, f->encodings, (od_ints){4, (int64_t[]){-1, p, q, 4}});
  if (f->shared_box) return od_squeeze(g, codes, OD_AXES(2));
  od_value hot = od_one_hot(g, od_argmax(g, class_targets, 2), f->c->num_classes + 1, 1, 0);
  od_value object = od_slice(g, hot, OD_AXES(0, 0, 1), OD_AXES(-1, -1, -1));
  od_value own = od_select(g, od_expand_dims(g, object, OD_AXES(3)), codes, od_zeros_like(g, codes));
  return od_reduce_sum(g, own, OD_AXES(2), false);
}

/* [B,P]: what the miner keeps. Padding ranks last; the original looks at the first picture of a batch alone, and so do we. */
static od_status mined(od_frcnn *f, od_value real, od_value loc, od_value cls, od_value *mask) {
  od_graph *g = f->m->graph;
  od_miner_params p;
  OD_TRY(od_miner_from_config(&p, f->c->hard_example_miner, f->c->second_stage_classification_loss_weight,
                              f->c->second_stage_localization_loss_weight));
  p.max_negatives_per_positive = 0; /* the original gives the miner no match here */
  od_value last = od_const_f32(g, -1e30f);
  od_value kept = od_hard_example_miner_op(g, od_select(g, real, loc, last), od_select(g, real, cls, last), f->boxes, OD_NONE, &p);
  od_value picture = od_reshape_like(g, od_cast(g, od_box_image(g, f->boxes), OD_F32), real);
  *mask = od_mul(g, od_mul(g, kept, real), od_equal(g, picture, od_const_f32(g, 0)));
  return od_graph_check(g);
}

static od_status classification(od_classification_loss_params *out, const od_pb_faster_rcnn *c) {
  const ObjectDetection__Protos__ClassificationLoss *l = c->second_stage_classification_loss;
  *out = (od_classification_loss_params){.kind = OD_CLS_SOFTMAX, .logit_scale = 1};
  if (!l || l->classification_loss_case == OBJECT_DETECTION__PROTOS__CLASSIFICATION_LOSS__CLASSIFICATION_LOSS__NOT_SET) return OD_OK;
  OD_TRY(od_fail_context(od_classification_from_config(out, l), "model.faster_rcnn.second_stage_classification_loss"));
  if (out->kind == OD_CLS_BOOTSTRAPPED_HARD || out->kind == OD_CLS_BOOTSTRAPPED_SOFT || out->kind == OD_CLS_PENALTY_REDUCED)
    return od_fail(OD_EINVAL, "model.faster_rcnn.second_stage_classification_loss: %s is not for Faster R-CNN "
                              "(the original takes weighted_softmax instead, without a word)",
                   out->kind == OD_CLS_PENALTY_REDUCED ? "penalty_reduced_logistic_focal_loss" : "bootstrapped_sigmoid");
  return OD_OK;
}

static od_status box_losses(od_frcnn *f) {
  od_graph *g = f->m->graph;
  const od_pb_faster_rcnn *c = f->c;
  od_localization_loss_params smooth = {.kind = OD_LOC_SMOOTH_L1, .delta = 1};
  od_classification_loss_params params;
  OD_TRY(classification(&params, c));
  od_value t = od_frcnn_detector_targets(f, f->boxes);
  od_value real = od_valid_rows(g, f->num_proposals, f->boxes);
  od_value number = od_maximum(g, od_cast(g, f->num_proposals, OD_F32), od_const_f32(g, 1));
  od_value logits = od_reshape(g, f->logits, (od_ints){3, (int64_t[]){-1, f->max_proposals, c->num_classes + 1}});
  od_value loc = od_localization_loss(g, codes_of_target(f, od_out(t, 0)), od_out(t, 2), od_out(t, 3), &smooth);
  od_value cls = od_classification_loss(g, logits, od_out(t, 0), od_out(t, 1), &params);
  if (od_type_of(cls).shape.rank == 3) cls = od_reduce_sum(g, cls, OD_AXES(2), false);
  od_value mask = real;
  if (c->hard_example_miner) OD_TRY(mined(f, real, loc, cls, &mask));
  od_named_add(g, &f->m->losses, "Loss/BoxClassifierLoss/localization_loss",
               mean_loss(g, c->second_stage_localization_loss_weight, od_mul(g, loc, mask), number));
  od_named_add(g, &f->m->losses, "Loss/BoxClassifierLoss/classification_loss",
               mean_loss(g, c->second_stage_classification_loss_weight, od_mul(g, cls, mask), number));
  return od_graph_check(g);
}

od_status od_frcnn_losses(od_frcnn *f) {
  rpn_losses(f);
  if (f->c->number_of_stages > 1) OD_TRY(box_losses(f));
  return od_graph_check(f->m->graph);
}
