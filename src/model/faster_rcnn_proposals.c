/* Faster R-CNN, first stage: anchors, the proposal network, suppression, and which proposals the second stage learns from. */
#include "model/faster_rcnn.h"
#include "ops/math.h"

/* ------------------------------------------------------------------------------------------------------------- anchors */
/* Inference: every anchor, clipped to the picture. Training: those that leave it take no part; the original throws them away,
 * here a mask keeps them out of matching, sampling and suppression, so that nothing has a size known at run time only. */
static od_status anchors(od_frcnn *f) {
  od_model *m = f->m;
  od_value all = od_grid_anchors_build(m->graph, f->c->first_stage_anchor_generator, f->map);
  bool mask = f->spec->training && !f->c->clip_anchors_to_image;
  m->anchors = mask ? all : od_clip_boxes(m->graph, all, f->window);
  if (mask) f->valid = od_boxes_inside(m->graph, all, f->window);
  return od_graph_check(m->graph);
}

static od_value head(od_graph *g, const od_style *s, const char *name, od_value x, int64_t per_cell, int64_t numbers) {
  od_value y = od_layer_conv(g, s, name, x, &(od_layer){.channels = per_cell * numbers, .kernel_h = 1, .kernel_w = 1, .linear = true});
  return od_reshape(g, y, (od_ints){3, (int64_t[]){0, -1, numbers}});
}

od_status od_frcnn_predict_rpn(od_frcnn *f) {
  od_graph *g = f->m->graph;
  const od_pb_faster_rcnn *c = f->c;
  int64_t per_cell;
  od_style s;
  OD_TRY(od_style_from_config(&s, c->first_stage_box_predictor_conv_hyperparams, f->spec->training));
  OD_TRY(od_grid_anchors_per_cell(&per_cell, c->first_stage_anchor_generator));
  s.activation = OD_ACT_RELU6; /* whatever the config says */
  int64_t k = c->first_stage_box_predictor_kernel_size;
  f->rpn_features = od_layer_conv(g, &s, "Conv", f->map, &(od_layer){.channels = c->first_stage_box_predictor_depth, .kernel_h = k,
                                                                    .kernel_w = k, .dilation = c->first_stage_atrous_rate});
  od_scope_push(g, "FirstStageBoxPredictor");
  f->rpn_encodings = head(g, &s, "BoxEncodingPredictor", f->rpn_features, per_cell, 4);
  f->rpn_logits = head(g, &s, "ClassPredictor", f->rpn_features, per_cell, 2);
  od_scope_pop(g);
  od_named_add(g, &f->m->predictions, "rpn_box_encodings", f->rpn_encodings);
  od_named_add(g, &f->m->predictions, "rpn_objectness_predictions_with_background", f->rpn_logits);
  return anchors(f);
}

/* ------------------------------------------------------------------------------------------------------------ proposals */
od_value od_frcnn_detector_targets(od_frcnn *f, od_value boxes) {
  od_graph *g = f->m->graph;
  const od_groundtruth *gt = &f->spec->groundtruth;
  int64_t slots = f->c->num_classes + 1;
  od_match_params match = {.similarity = OD_SIMILARITY_IOU, .matched_threshold = 0.5f, .unmatched_threshold = 0.5f,
                           .negatives_lower_than_unmatched = true};
  float *unmatched = od_arena_alloc(od_graph_arena(g), sizeof *unmatched * (size_t)slots);
  if (!unmatched) return od_graph_fail(g, OD_ENOMEM);
  for (int64_t i = 0; i < slots; i++) unmatched[i] = i == 0;
  od_assign_params assign = {.coder = f->coder, .unmatched = {(int)slots, unmatched}, .negative_class_weight = 1};
  od_value matched = od_match_anchors(g, boxes, f->gt_boxes, gt->weights, gt->count, OD_NONE, OD_NONE, &match);
  return od_assign_targets_op(g, matched, boxes, f->gt_boxes, f->gt_classes, gt->weights, OD_NONE, &assign);
}

/* A balanced sample of the proposals, in their order, padded with zeros. */
static void sample(od_frcnn *f) {
  od_graph *g = f->m->graph;
  od_sample_params p = {f->c->second_stage_batch_size, f->c->second_stage_balance_fraction};
  od_value t = od_frcnn_detector_targets(f, f->boxes);
  od_value weights = od_reduce_mean(g, od_out(t, 1), OD_AXES(2), false);
  od_value positive = od_greater(g, od_cast(g, od_argmax(g, od_out(t, 0), 2), OD_F32), od_const_f32(g, 0));
  od_value may = od_mul(g, od_valid_rows(g, f->num_proposals, f->boxes), od_greater(g, weights, od_const_f32(g, 0)));
  od_value chosen = od_compact_rows(g, od_sample_balanced_op(g, may, positive, &p), f->boxes, f->max_proposals);
  f->boxes = chosen;
  f->num_proposals = od_out(chosen, 1);
}

od_status od_frcnn_propose(od_frcnn *f) {
  od_graph *g = f->m->graph;
  const od_pb_faster_rcnn *c = f->c;
  od_nms_params nms = {.score_threshold = c->first_stage_nms_score_threshold, .iou_threshold = c->first_stage_nms_iou_threshold,
                       .max_per_class = c->first_stage_max_proposals, .max_total = c->first_stage_max_proposals};
  od_scope_push(g, "FirstStagePostprocessor");
  f->raw_proposals = od_decode_boxes(g, f->rpn_encodings, f->m->anchors, &f->coder);
  f->objectness = od_softmax(g, f->rpn_logits);
  od_value scores = od_slice(g, f->objectness, OD_AXES(0, 0, 1), OD_AXES(-1, -1, 1));
  if (od_has(f->valid)) /* below any threshold: never a candidate */
    scores = od_select(g, od_expand_dims(g, f->valid, OD_AXES(1)), scores, od_const_f32(g, -1e30f));
  bool one = c->number_of_stages == 1;
  f->proposals = od_nms_op(g, od_expand_dims(g, f->raw_proposals, OD_AXES(2)), scores, f->clip, OD_NONE, one ? f->objectness : OD_NONE, &nms);
  f->boxes = f->spec->training ? od_stop_gradient(g, f->proposals) : f->proposals;
  f->num_proposals = od_cast(g, od_out(f->proposals, 3), OD_I32);
  if (f->spec->training && !c->hard_example_miner) sample(f);
  f->boxes_normalized = od_boxes_to_normalized(g, f->boxes, f->m->preprocessed);
  /* the original goes to normalised boxes and back; the rounding counts */
  f->boxes = od_boxes_to_absolute(g, f->boxes_normalized, f->m->preprocessed);
  od_scope_pop(g);
  return od_graph_check(g);
}
