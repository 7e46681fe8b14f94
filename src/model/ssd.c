/* SSD (Liu et al., SSD: Single Shot MultiBox Detector, 2016) as the original's SSDMetaArch: preprocessing, feature maps,
 * predictor, anchors; then detections, or targets and losses. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "model/parts.h"
#include "model/ssd_extractor.h"
#include "ops/math.h"

static const od_ssd_extractor_kind *const extractors[] = {&od_ssd_mobilenet_v1, &od_ssd_mobilenet_v2};
/* Beyond what any network has; what is larger is a slip that would ask for all the machine's memory. */
enum { CLASSES_MAX = 1 << 20, MULTIPLIER_MAX = 64, PAD_MULTIPLE_MAX = 4096 };
enum { N_EXTRACTORS = sizeof extractors / sizeof *extractors };

static od_status find_extractor(const od_ssd_extractor_kind **out, const char *type) {
  od_str known = OD_STR_INIT;
  for (int i = 0; i < N_EXTRACTORS; i++) {
    *out = extractors[i];
    if (type && strcmp(extractors[i]->type, type) == 0) {
      od_str_free(&known);
      return OD_OK;
    }
    od_str_addf(&known, "%s%s", i ? ", " : "", extractors[i]->type);
  }
  od_status st = od_fail(OD_EUNSUPPORTED, "model.ssd.feature_extractor.type '%s' is not supported; there are: %s", type ? type : "",
                         od_str_text(&known));
  od_str_free(&known);
  return st;
}

/* Refuses what the config asks for and this program does not do: nothing is skipped silently. */
static od_status refuse(const od_pb_ssd *c) {
  if (c->mask_head_config) return od_fail(OD_EUNSUPPORTED, "model.ssd.mask_head_config is not supported");
  if (c->add_background_class && c->explicit_background_class)
    return od_fail(OD_EINVAL, "model.ssd: add_background_class and explicit_background_class exclude each other");
  if (c->num_classes < 1 || c->num_classes > CLASSES_MAX)
    return od_fail(OD_EINVAL, "model.ssd.num_classes is %d, allowed are 1 to %d", c->num_classes, CLASSES_MAX);
  const od_pb_ssd_extractor *e = c->feature_extractor;
  if (!e) return od_fail(OD_EINVAL, "model.ssd.feature_extractor is not set");
  if (e->num_layers < 1 || e->num_layers > 6)
    return od_fail(OD_EINVAL, "feature_extractor.num_layers is %d, allowed are 1 to 6", e->num_layers);
  if (!(e->depth_multiplier > 0 && e->depth_multiplier <= MULTIPLIER_MAX))
    return od_fail(OD_EINVAL, "feature_extractor.depth_multiplier is %g, more than 0 and at most %d is wanted", (double)e->depth_multiplier, MULTIPLIER_MAX);
  if (e->min_depth < 0 || e->min_depth > OD_DEPTH_MAX)
    return od_fail(OD_EINVAL, "feature_extractor.min_depth is %d, allowed are 0 to %d", e->min_depth, OD_DEPTH_MAX);
  if (e->pad_to_multiple < 1 || e->pad_to_multiple > PAD_MULTIPLE_MAX)
    return od_fail(OD_EINVAL, "feature_extractor.pad_to_multiple is %d, allowed are 1 to %d", e->pad_to_multiple, PAD_MULTIPLE_MAX);
  if (e->replace_preprocessor_with_placeholder)
    return od_fail(OD_EINVAL, "feature_extractor.replace_preprocessor_with_placeholder is not for MobileNet (the original fails on it, too)");
  return OD_OK;
}

/* What the predictor gives must be what the coder reads. */
static od_status check_code_size(const od_pb_ssd *c) {
  od_coder_params coder;
  const ObjectDetection__Protos__BoxPredictor *p = c->box_predictor;
  OD_TRY(od_coder_from_config(&coder, c->box_coder));
  int64_t wants = coder.kind == OD_CODER_SQUARE ? 3 : coder.kind == OD_CODER_KEYPOINT ? 4 + 2 * coder.keypoints : 4;
  if (p && p->box_predictor_oneof_case == OBJECT_DETECTION__PROTOS__BOX_PREDICTOR__BOX_PREDICTOR_ONEOF_CONVOLUTIONAL_BOX_PREDICTOR &&
      p->convolutional_box_predictor->box_code_size != wants)
    return od_fail(OD_EINVAL, "convolutional_box_predictor.box_code_size is %d, the box_coder writes %lld numbers a box",
                   p->convolutional_box_predictor->box_code_size, (long long)wants);
  return OD_OK;
}

static od_status features(od_model *m, const od_pb_ssd *c, bool training, od_value *maps, int *n) {
  od_graph *g = m->graph;
  const od_ssd_extractor_kind *kind;
  od_extractor_args a = {.config = c->feature_extractor};
  OD_TRY(find_extractor(&kind, a.config->type));
  OD_TRY(od_style_from_config(&a.extra, a.config->conv_hyperparams, training));
  if (a.config->override_base_feature_extractor_hyperparams) {
    a.base = a.extra;
  } else {
    kind->own_style(&a.base);
    a.base.bn_training = training && !c->freeze_batchnorm;
  }
  od_value x = m->preprocessed;
  if (a.config->pad_to_multiple > 1) {
    od_resize_image_params pad = {.kind = OD_RESIZE_PAD_TO_MULTIPLE, .multiple = a.config->pad_to_multiple};
    x = od_resize_image(g, x, &pad);
  }
  od_scope_push(g, "FeatureExtractor");
  kind->build(g, &a, x, maps, n);
  od_scope_pop(g);
  return od_graph_check(g);
}

static void preprocess(od_model *m, const od_pb_ssd *c, const od_model_spec *spec) {
  od_graph *g = m->graph;
  m->images = spec->images;
  m->true_shapes = spec->true_shapes;
  if (spec->resize) { /* the original normalises first and resizes then: padding is 0 of the normalised picture */
    od_resize_image_params r;
    od_status st = od_resize_params_from_config(&r, od_graph_arena(g), c->image_resizer);
    if (st != OD_OK) {
      od_graph_fail(g, st);
      return;
    }
    od_scope_push(g, "Preprocessor");
    od_value resized = od_resize_image(g, od_scale(g, spec->images, (float)(2.0 / 255.0), -1), &r);
    od_scope_pop(g);
    m->preprocessed = resized;
    m->true_shapes = od_out(resized, 1);
  } else {
    od_scope_push(g, "Preprocessor");
    m->preprocessed = od_scale(g, spec->images, (float)(2.0 / 255.0), -1);
    od_scope_pop(g);
  }
}

/* ---------------------------------------------------------------------------------------------------------- detections */
static od_status detections(od_model *m, const od_pb_ssd *c, od_value encodings, od_value logits) {
  od_graph *g = m->graph;
  const od_pb_post *post = OD_SET(c->post_processing, PostProcessing);
  od_nms_params nms;
  od_coder_params coder;
  OD_TRY(od_nms_from_config(&nms, post->batch_non_max_suppression));
  OD_TRY(od_coder_from_config(&coder, c->box_coder));
  od_scope_push(g, "Postprocessor");
  od_value boxes = od_decode_boxes(g, encodings, m->anchors, &coder);
  od_value all_scores = od_convert_scores(g, post, logits), scores = all_scores;
  if (c->add_background_class || c->explicit_background_class)
    scores = od_slice(g, scores, (od_ints){3, (int64_t[]){0, 0, 1}}, (od_ints){3, (int64_t[]){-1, -1, -1}});
  od_value window = od_clip_window(g, m->true_shapes, m->preprocessed, true);
  od_value d = od_nms_op(g, od_expand_dims(g, boxes, OD_AXES(2)), scores, window, OD_NONE, all_scores, &nms);
  static const char *const names[] = {"detection_boxes", "detection_scores", "detection_classes", "num_detections",
                                      "detection_anchor_indices", "detection_multiclass_scores"};
  for (int i = 0; i < 6; i++) od_named_add(g, &m->detections, names[i], od_out(d, i));
  od_named_add(g, &m->detections, "raw_detection_boxes", boxes);
  od_named_add(g, &m->detections, "raw_detection_scores", all_scores);
  od_scope_pop(g);
  return od_graph_check(g);
}

od_status od_ssd_build(od_model *m, const od_pb_ssd *c, const od_model_spec *spec) {
  od_graph *g = m->graph;
  od_value maps[OD_MAPS_MAX], encodings = OD_NONE, logits = OD_NONE;
  int64_t per_location[OD_MAPS_MAX];
  int n = 0;
  OD_TRY(refuse(c));
  m->num_classes = c->num_classes;
  m->batch_norm_in_place = c->inplace_batchnorm_update;
  int64_t class_slots = c->num_classes + (c->add_background_class ? 1 : 0);
  preprocess(m, c, spec);
  OD_TRY(features(m, c, spec->training, maps, &n));
  OD_TRY(od_anchors_per_location(per_location, n, od_graph_arena(g), c->anchor_generator));
  m->anchors = od_anchors_build(g, c->anchor_generator, maps, n, m->preprocessed);
  od_ssd_predict(g, c->box_predictor, maps, n, per_location, class_slots, spec->training, &encodings, &logits);
  OD_TRY(od_graph_check(g));
  OD_TRY(check_code_size(c));
  od_named_add(g, &m->predictions, "preprocessed_inputs", m->preprocessed);
  od_named_add(g, &m->predictions, "box_encodings", encodings);
  od_named_add(g, &m->predictions, "class_predictions_with_background", logits);
  for (int i = 0; i < n; i++) {
    char name[32];
    snprintf(name, sizeof name, "feature_maps/%d", i);
    od_named_add(g, &m->predictions, name, maps[i]);
  }
  if (od_has(spec->groundtruth.boxes)) OD_TRY(od_ssd_losses(m, c, spec, class_slots, encodings, logits));
  if (!spec->training) OD_TRY(detections(m, c, encodings, logits));
  return od_graph_check(g);
}
