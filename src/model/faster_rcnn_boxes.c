/* Faster R-CNN, second stage: the head over region features, and detections from what it says. */
#include "model/faster_rcnn.h"
#include "ops/math.h"

/* ----------------------------------------------------------------------------------------------------------------- head */
od_status od_frcnn_predict_boxes(od_frcnn *f, od_value features) {
  od_graph *g = f->m->graph;
  const ObjectDetection__Protos__MaskRCNNBoxPredictor *c = f->c->second_stage_box_predictor->mask_rcnn_box_predictor;
  bool drop = c->use_dropout && f->spec->training;
  int64_t q = c->share_box_across_classes ? 1 : f->c->num_classes;
  od_style s;
  OD_TRY(od_style_from_config(&s, c->fc_hyperparams, f->spec->training));
  s.activation = OD_ACT_NONE;
  od_scope_push(g, "SecondStageBoxPredictor");
  od_value mean = od_reduce_mean(g, features, OD_AXES(1, 2), false);
  /* each head drops for itself, as in the original */
  od_value for_boxes = drop ? od_dropout(g, mean, c->dropout_keep_probability) : mean;
  od_value codes = od_layer_dense(g, &s, "BoxEncodingPredictor", for_boxes, q * 4);
  od_value for_classes = drop ? od_dropout(g, mean, c->dropout_keep_probability) : mean;
  f->logits = od_layer_dense(g, &s, "ClassPredictor", for_classes, f->c->num_classes + 1);
  od_scope_pop(g);
  f->encodings = od_reshape(g, codes, (od_ints){3, (int64_t[]){0, q, 4}});
  f->shared_box = c->share_box_across_classes;
  return od_graph_check(g);
}

/* ----------------------------------------------------------------------------------------------------------- detections */
/* Boxes [B,...,4] relative to the picture without padding, in 0..1. */
static od_value normalized(od_frcnn *f, od_value boxes) {
  static const float unit[4] = {0, 0, 1, 1};
  od_graph *g = f->m->graph;
  return od_clip_boxes(g, od_change_coordinate_frame(g, boxes, f->clip), od_const(g, OD_F32, OD_SHAPE(4), unit));
}

static void name_proposals(od_frcnn *f) {
  od_graph *g = f->m->graph;
  od_named_list *l = &f->m->detections;
  od_named_add(g, l, "detection_boxes", f->boxes_normalized);
  od_named_add(g, l, "detection_scores", od_out(f->proposals, 1));
  od_named_add(g, l, "detection_multiclass_scores", od_out(f->proposals, 5));
  od_named_add(g, l, "num_detections", od_out(f->proposals, 3));
  od_named_add(g, l, "raw_detection_boxes", od_boxes_to_normalized(g, f->raw_proposals, f->m->preprocessed));
  od_named_add(g, l, "raw_detection_scores", f->objectness);
}

/* The box [B,P,4] of the class with the highest logit. Selected, not multiplied by 0: decoded boxes may be infinite. */
static od_value best_box(od_frcnn *f, od_value boxes, od_value logits) {
  od_graph *g = f->m->graph;
  if (od_dim(boxes, 2) == 1) return od_squeeze(g, boxes, OD_AXES(2));
  od_value objects = od_slice(g, logits, OD_AXES(0, 0, 1), OD_AXES(-1, -1, -1));
  od_value hot = od_one_hot(g, od_argmax(g, objects, 2), f->c->num_classes, 1, 0);
  od_value own = od_select(g, od_expand_dims(g, hot, OD_AXES(3)), boxes, od_zeros_like(g, boxes));
  return od_reduce_sum(g, own, OD_AXES(2), false);
}

od_status od_frcnn_detections(od_frcnn *f) {
  od_graph *g = f->m->graph;
  const od_pb_post *post = OD_SET(f->c->second_stage_post_processing, PostProcessing);
  od_named_list *l = &f->m->detections;
  int64_t p = f->max_proposals, k = f->c->num_classes;
  od_coder_params coder = f->coder;
  od_nms_params nms;
  if (f->c->number_of_stages == 1) {
    name_proposals(f);
    return od_graph_check(g);
  }
  OD_TRY(od_nms_from_config(&nms, post->batch_non_max_suppression));
  nms.change_coordinate_frame = true;
  coder.per_class = true;
  od_scope_push(g, "SecondStagePostprocessor");
  od_value codes = od_reshape(g, f->encodings, (od_ints){4, (int64_t[]){-1, p, od_dim(f->encodings, 1), 4}});
  od_value logits = od_reshape(g, f->logits, (od_ints){3, (int64_t[]){-1, p, k + 1}});
  od_value boxes = od_decode_boxes(g, codes, f->boxes, &coder);
  od_value all_scores = od_convert_scores(g, post, logits);
  od_value scores = od_slice(g, all_scores, OD_AXES(0, 0, 1), OD_AXES(-1, -1, -1));
  od_value d = od_nms_op(g, boxes, scores, f->clip, f->num_proposals, all_scores, &nms);
  static const char *const names[] = {"detection_boxes", "detection_scores", "detection_classes", "num_detections"};
  for (int i = 0; i < 4; i++) od_named_add(g, l, names[i], od_out(d, i));
  od_named_add(g, l, "detection_anchor_indices", od_cast(g, od_out(d, 4), OD_I32));
  od_named_add(g, l, "detection_multiclass_scores", od_out(d, 5));
  od_named_add(g, l, "raw_detection_boxes", normalized(f, best_box(f, boxes, logits)));
  od_named_add(g, l, "raw_detection_scores", all_scores);
  od_scope_pop(g);
  return od_graph_check(g);
}
