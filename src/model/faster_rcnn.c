/* Faster R-CNN (Ren et al., 2015) as the original's FasterRCNNMetaArch: a network that proposes regions, and a second one that
 * looks at each. This file: what is refused, preprocessing, features, and the order of things. */
#include "model/faster_rcnn.h"

#include <string.h>

#include "base/str.h"
#include "model/resnet_v1.h"
#include "ops/math.h"

static const struct {
  const char *type;
  const od_resnet_v1 *net;
} extractors[] = {{"faster_rcnn_resnet50", &od_resnet_v1_50},
                  {"faster_rcnn_resnet101", &od_resnet_v1_101},
                  {"faster_rcnn_resnet152", &od_resnet_v1_152}};
enum { N_EXTRACTORS = sizeof extractors / sizeof *extractors };

static od_status find_extractor(const od_resnet_v1 **out, const char *type) {
  od_str known = OD_STR_INIT;
  for (int i = 0; i < N_EXTRACTORS; i++) {
    *out = extractors[i].net;
    if (type && strcmp(extractors[i].type, type) == 0) {
      od_str_free(&known);
      return OD_OK;
    }
    od_str_addf(&known, "%s%s", i ? ", " : "", extractors[i].type);
  }
  od_status st = od_fail(OD_EUNSUPPORTED, "model.faster_rcnn.feature_extractor.type '%s' is not supported; there are: %s",
                         type ? type : "", od_str_text(&known));
  od_str_free(&known);
  return st;
}

/* ------------------------------------------------------------------------------------------------------------- refusals */
static od_status refuse_predictor(const od_pb_faster_rcnn *c) {
  const od_pb_box_predictor *p = c->second_stage_box_predictor;
  if (c->number_of_stages == 1) return OD_OK; /* never built */
  switch (p ? p->box_predictor_oneof_case : OBJECT_DETECTION__PROTOS__BOX_PREDICTOR__BOX_PREDICTOR_ONEOF__NOT_SET) {
    case OBJECT_DETECTION__PROTOS__BOX_PREDICTOR__BOX_PREDICTOR_ONEOF_MASK_RCNN_BOX_PREDICTOR: break;
    case OBJECT_DETECTION__PROTOS__BOX_PREDICTOR__BOX_PREDICTOR_ONEOF_RFCN_BOX_PREDICTOR:
      return od_fail(OD_EUNSUPPORTED, "model.faster_rcnn.second_stage_box_predictor: rfcn_box_predictor (R-FCN) is not supported yet");
    default:
      return od_fail(OD_EINVAL, "model.faster_rcnn.second_stage_box_predictor: mask_rcnn_box_predictor is wanted (it serves without masks too)");
  }
  const ObjectDetection__Protos__MaskRCNNBoxPredictor *b = p->mask_rcnn_box_predictor;
  if (b->predict_instance_masks || b->predict_keypoints)
    return od_fail(OD_EUNSUPPORTED, "mask_rcnn_box_predictor: predict_instance_masks (Mask R-CNN) and predict_keypoints are not supported yet");
  if (b->box_code_size != 4)
    return od_fail(OD_EINVAL, "mask_rcnn_box_predictor.box_code_size is %d; the box coder of Faster R-CNN has 4 numbers", b->box_code_size);
  return OD_OK;
}

static od_status refuse_sizes(const od_pb_faster_rcnn *c, bool training) {
  if (c->num_classes < 1) return od_fail(OD_EINVAL, "model.faster_rcnn.num_classes is %d, at least 1 is wanted", c->num_classes);
  if (c->first_stage_nms_iou_threshold < 0 || c->first_stage_nms_iou_threshold > 1)
    return od_fail(OD_EINVAL, "model.faster_rcnn.first_stage_nms_iou_threshold %g is not in 0..1", (double)c->first_stage_nms_iou_threshold);
  if (c->first_stage_max_proposals < 1)
    return od_fail(OD_EINVAL, "model.faster_rcnn.first_stage_max_proposals is %d, at least 1 is wanted", c->first_stage_max_proposals);
  if (training && c->second_stage_batch_size > c->first_stage_max_proposals)
    return od_fail(OD_EINVAL, "model.faster_rcnn.second_stage_batch_size %d is more than first_stage_max_proposals %d",
                   c->second_stage_batch_size, c->first_stage_max_proposals);
  if (c->number_of_stages > 1 && (c->initial_crop_size < 1 || c->maxpool_kernel_size < 1 || c->maxpool_stride < 1))
    return od_fail(OD_EINVAL, "model.faster_rcnn: initial_crop_size %d, maxpool_kernel_size %d and maxpool_stride %d must be set, 1 or more",
                   c->initial_crop_size, c->maxpool_kernel_size, c->maxpool_stride);
  if (c->number_of_stages > 1 && c->maxpool_kernel_size > c->initial_crop_size)
    return od_fail(OD_EINVAL, "model.faster_rcnn.maxpool_kernel_size %d is more than initial_crop_size %d", c->maxpool_kernel_size, c->initial_crop_size);
  return OD_OK;
}

/* Refuses what the config asks for and this program does not do: nothing is skipped silently. Flags that give the same numbers
 * by other TensorFlow kernels are taken as they are: use_matmul_crop_and_resize, use_matmul_gather_in_matcher, resize_masks. */
static od_status refuse(const od_pb_faster_rcnn *c, bool training) {
  if (c->number_of_stages == 3) return od_fail(OD_EUNSUPPORTED, "model.faster_rcnn.number_of_stages 3 (Mask R-CNN) is not supported yet");
  if (c->number_of_stages < 1 || c->number_of_stages > 3)
    return od_fail(OD_EINVAL, "model.faster_rcnn.number_of_stages is %d, allowed are 1 and 2", c->number_of_stages);
  if (c->context_config) return od_fail(OD_EUNSUPPORTED, "model.faster_rcnn.context_config (Context R-CNN) is not supported yet");
  const od_pb_faster_rcnn_extractor *e = c->feature_extractor;
  if (!e) return od_fail(OD_EINVAL, "model.faster_rcnn.feature_extractor is not set");
  if (e->fpn || e->conv_hyperparams || e->override_base_feature_extractor_hyperparams)
    return od_fail(OD_EUNSUPPORTED, "model.faster_rcnn.feature_extractor: fpn, conv_hyperparams and override_base_feature_extractor_hyperparams "
                                    "belong to TF2 models and are not supported");
  if (e->first_stage_features_stride != 8 && e->first_stage_features_stride != 16)
    return od_fail(OD_EINVAL, "feature_extractor.first_stage_features_stride is %d, 8 or 16 is wanted", e->first_stage_features_stride);
  if (c->inplace_batchnorm_update)
    return od_fail(OD_EINVAL, "model.faster_rcnn.inplace_batchnorm_update does not go with Faster R-CNN (the original refuses it too)");
  if (c->use_combined_nms_in_first_stage)
    return od_fail(OD_EUNSUPPORTED, "model.faster_rcnn.use_combined_nms_in_first_stage is not supported");
  if (c->use_static_shapes && (training || c->use_static_shapes_for_eval))
    return od_fail(OD_EUNSUPPORTED, "model.faster_rcnn.use_static_shapes (the form for TPUs, which pads samples with copies) is not supported; "
                                    "without it the model is the same");
  if (c->output_final_box_features || c->output_final_box_rpn_features)
    return od_fail(OD_EUNSUPPORTED, "model.faster_rcnn: output_final_box_features and output_final_box_rpn_features are not supported yet");
  OD_TRY(refuse_sizes(c, training));
  return refuse_predictor(c);
}

/* ------------------------------------------------------------------------------------------------------------- features */
/* Resizing (and padding with zeros) comes first, the means are taken off then; so padding is not 0 for the network. Pictures
 * made grey have one channel and keep their values, as in the original. */
static void preprocess(od_model *m, const od_pb_faster_rcnn *c, const od_model_spec *spec) {
  static const float means[3] = {123.68f, 116.779f, 103.939f};
  od_graph *g = m->graph;
  od_value x = spec->images;
  od_scope_push(g, "Preprocessor");
  m->true_shapes = spec->true_shapes;
  if (spec->resize) {
    od_resize_image_params r;
    od_status st = od_resize_params_from_config(&r, od_graph_arena(g), c->image_resizer);
    if (st != OD_OK) od_graph_fail(g, st);
    else x = od_resize_image(g, x, &r);
    m->true_shapes = od_out(x, 1);
  }
  m->images = x;
  m->preprocessed = od_dim(x, -1) == 3 ? od_sub(g, x, od_const(g, OD_F32, OD_SHAPE(3), means)) : x;
  od_scope_pop(g);
}

static void prepare_windows(od_frcnn *f) {
  static const float unit[4] = {0, 0, 1, 1};
  od_graph *g = f->m->graph;
  od_value whole = od_boxes_to_absolute(g, od_const(g, OD_F32, OD_SHAPE(1, 4), unit), f->m->preprocessed);
  f->window = od_reshape(g, whole, OD_AXES(4));
  f->clip = od_clip_window(g, f->m->true_shapes, f->m->preprocessed, false);
}

static void prepare_groundtruth(od_frcnn *f) {
  const od_groundtruth *gt = &f->spec->groundtruth;
  od_graph *g = f->m->graph;
  if (!od_has(gt->boxes)) return;
  f->gt_boxes = od_boxes_to_absolute(g, gt->boxes, f->m->preprocessed);
  f->gt_classes = od_pad(g, gt->classes, OD_AXES(0, 0, 0, 0, 1, 0), 0);
}

/* Regions of the map, pooled, through block 4: [B*P,h,w,2048]. */
static od_value region_features(od_frcnn *f, const od_resnet_v1 *net, const od_style *style) {
  od_graph *g = f->m->graph;
  const od_pb_faster_rcnn *c = f->c;
  od_value flat = od_reshape(g, f->boxes_normalized, OD_AXES(-1, 4));
  od_value crops = od_crop_and_resize(g, f->map, flat, od_box_image(g, f->boxes_normalized),
                                      &(od_crop_params){.crop_height = c->initial_crop_size, .crop_width = c->initial_crop_size});
  od_value pooled = od_max_pool(g, crops, &(od_pool_params){c->maxpool_kernel_size, c->maxpool_kernel_size, c->maxpool_stride,
                                                            c->maxpool_stride, OD_PAD_VALID});
  od_scope_push(g, "SecondStageFeatureExtractor");
  od_value y = od_resnet_v1_last_block(g, net, style, pooled);
  od_scope_pop(g);
  return y;
}

static void name_first_stage(od_frcnn *f, od_value rpn_features) {
  od_graph *g = f->m->graph;
  od_named_list *p = &f->m->predictions;
  od_named_add(g, p, "rpn_box_predictor_features/0", rpn_features);
  od_named_add(g, p, "rpn_features_to_crop/0", f->map);
  od_named_add(g, p, "feature_maps/0", f->map);
}

static od_status second_stage(od_frcnn *f, const od_resnet_v1 *net, const od_style *style) {
  od_graph *g = f->m->graph;
  od_named_list *p = &f->m->predictions;
  od_value features = region_features(f, net, style);
  OD_TRY(od_frcnn_predict_boxes(f, features));
  od_named_add(g, p, "refined_box_encodings", f->encodings);
  od_named_add(g, p, "class_predictions_with_background", f->logits);
  od_named_add(g, p, "proposal_boxes", f->boxes);
  od_named_add(g, p, "box_classifier_features", features);
  od_named_add(g, p, "proposal_boxes_normalized", f->boxes_normalized);
  od_named_add(g, p, "final_anchors", f->boxes_normalized);
  od_named_add(g, p, "num_proposals", f->num_proposals);
  return od_graph_check(g);
}

od_status od_faster_rcnn_build(od_model *m, const od_pb_faster_rcnn *c, const od_model_spec *spec) {
  od_graph *g = m->graph;
  od_value blocks[OD_RESNET_BLOCKS];
  const od_resnet_v1 *net;
  OD_TRY(refuse(c, spec->training));
  OD_TRY(find_extractor(&net, c->feature_extractor->type));
  m->num_classes = c->num_classes;
  if (spec->training && !od_has(spec->groundtruth.boxes))
    return od_fail(OD_EINVAL, "Faster R-CNN is built for training with groundtruth: its second stage learns from a sample of proposals");
  bool sampled = spec->training && !c->hard_example_miner;
  od_frcnn f = {.m = m, .c = c, .spec = spec, .max_proposals = sampled ? c->second_stage_batch_size : c->first_stage_max_proposals,
                .coder = {.kind = OD_CODER_FASTER_RCNN, .y = 10, .x = 10, .height = 5, .width = 5}};
  od_style style = od_resnet_v1_style(spec->training, c->feature_extractor->batch_norm_trainable, 0);
  preprocess(m, c, spec);
  prepare_windows(&f);
  prepare_groundtruth(&f);
  od_scope_push(g, "FirstStageFeatureExtractor");
  /* block 4 is built too: its variables belong to the checkpoint, nothing else looks at it */
  od_resnet_v1_build(g, net, &style, m->preprocessed, c->feature_extractor->first_stage_features_stride, blocks);
  od_scope_pop(g);
  f.map = blocks[2];
  OD_TRY(od_frcnn_predict_rpn(&f));
  name_first_stage(&f, f.rpn_features);
  bool two = c->number_of_stages == 2;
  if (two || !spec->training) OD_TRY(od_frcnn_propose(&f));
  if (two) OD_TRY(second_stage(&f, net, &style));
  if (od_has(spec->groundtruth.boxes)) OD_TRY(od_frcnn_losses(&f));
  if (!spec->training) OD_TRY(od_frcnn_detections(&f));
  return od_graph_check(g);
}
