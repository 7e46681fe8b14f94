/* The convolutional box predictor of SSD: a box head and a class head on each feature map, scopes BoxPredictor_<i>. */
#include <stdio.h>

#include "model/parts.h"
#include "model/ssd_extractor.h"
#include "ops/math.h"

typedef struct {
  od_graph *g;
  const od_pb_conv_predictor *c;
  const od_style *style;
  bool training;
} head;

/* One head: k x k convolution, or depthwise k x k (with the style's norm and activation) and 1x1. */
static od_value conv_head(const head *h, const char *name, od_value x, int64_t channels, float bias_init) {
  char depthwise[96];
  od_layer last = {.channels = channels,
                   .kernel_h = h->c->kernel_size,
                   .kernel_w = h->c->kernel_size,
                   .linear = true,
                   .bias_init = bias_init};
  if (h->c->use_depthwise) {
    snprintf(depthwise, sizeof depthwise, "%s_depthwise", name);
    x = od_layer_depthwise(h->g, h->style, depthwise, x,
                           &(od_layer){.kernel_h = last.kernel_h, .kernel_w = last.kernel_w});
    last.kernel_h = last.kernel_w = 1;
    last.bias_init = 0; /* the original forgets the class bias here */
  }
  return od_layer_conv(h->g, h->style, name, x, &last);
}

static od_value clip(od_graph *g, const ObjectDetection__Protos__ConvolutionalBoxPredictor__BoxEncodingsClipRange *r,
                     od_value x) {
  if (!r) return x;
  return od_minimum(g, od_maximum(g, x, od_const_f32(g, r->min)), od_const_f32(g, r->max));
}

static void predict_map(const head *h, od_value x, int64_t anchors, int64_t class_slots, od_value *encodings,
                        od_value *logits) {
  const od_pb_conv_predictor *c = h->c;
  int64_t depth = od_dim(x, -1) < c->max_depth ? od_dim(x, -1) : c->max_depth;
  if (depth < c->min_depth) depth = c->min_depth;
  for (int i = 0; i < c->num_layers_before_predictor && depth > 0; i++) {
    char name[64];
    snprintf(name, sizeof name, "Conv2d_%d_1x1_%lld", i, (long long)depth);
    x = od_layer_conv(h->g, h->style, name, x, &(od_layer){.channels = depth, .kernel_h = 1, .kernel_w = 1});
  }
  od_value box = conv_head(h, "BoxEncodingPredictor", x, anchors * c->box_code_size, 0);
  box = clip(h->g, c->box_encodings_clip_range, box);
  *encodings = od_reshape(h->g, box, (od_ints){3, (int64_t[]){0, -1, c->box_code_size}});
  od_value y = c->use_dropout && h->training ? od_dropout(h->g, x, c->dropout_keep_probability) : x;
  y = conv_head(h, "ClassPredictor", y, anchors * class_slots, c->class_prediction_bias_init);
  if (c->apply_sigmoid_to_scores) y = od_sigmoid(h->g, y);
  *logits = od_reshape(h->g, y, (od_ints){3, (int64_t[]){0, -1, class_slots}});
}

static od_status check(const od_pb_conv_predictor *c) {
  const struct {
    const char *name;
    int32_t value, least, most;
  } fields[] = {{"kernel_size", c->kernel_size, 1, 64},
                {"box_code_size", c->box_code_size, 1, OD_DEPTH_MAX},
                {"num_layers_before_predictor", c->num_layers_before_predictor, 0, 64},
                {"min_depth", c->min_depth, 0, OD_DEPTH_MAX},
                {"max_depth", c->max_depth, 0, OD_DEPTH_MAX}};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    if (fields[i].value < fields[i].least || fields[i].value > fields[i].most)
      return od_fail(OD_EINVAL, "convolutional_box_predictor.%s is %d, allowed are %d to %d", fields[i].name,
                     fields[i].value, fields[i].least, fields[i].most);
  if (c->use_dropout && !(c->dropout_keep_probability > 0 && c->dropout_keep_probability <= 1))
    return od_fail(OD_EINVAL,
                   "convolutional_box_predictor.dropout_keep_probability is %g, more than 0 and at most 1 is wanted",
                   (double)c->dropout_keep_probability);
  if (c->use_depthwise && c->kernel_size == 1)
    return od_fail(OD_EINVAL, "convolutional_box_predictor: use_depthwise wants a kernel_size above 1");
  return OD_OK;
}

void od_ssd_predict(od_graph *g, const od_pb_box_predictor *p, const od_value *maps, int n, const int64_t *per_location,
                    int64_t class_slots, bool training, od_value *encodings, od_value *logits) {
  od_style style;
  if (!p || p->box_predictor_oneof_case !=
                OBJECT_DETECTION__PROTOS__BOX_PREDICTOR__BOX_PREDICTOR_ONEOF_CONVOLUTIONAL_BOX_PREDICTOR) {
    od_graph_fail(g, od_fail(OD_EUNSUPPORTED, "box_predictor: SSD is built with convolutional_box_predictor; "
                                              "weight_shared_convolutional_box_predictor is not supported yet"));
    return;
  }
  const od_pb_conv_predictor *c = p->convolutional_box_predictor;
  od_status st = check(c);
  if (st == OD_OK) st = od_style_from_config(&style, c->conv_hyperparams, training);
  if (st != OD_OK) {
    od_graph_fail(g, st);
    return;
  }
  head h = {g, c, &style, training};
  od_value boxes[OD_MAPS_MAX], classes[OD_MAPS_MAX];
  OD_ASSERT(n >= 1 && n <= OD_MAPS_MAX);
  for (int i = 0; i < n; i++) {
    char scope[32];
    snprintf(scope, sizeof scope, "BoxPredictor_%d", i);
    if (n > 1) od_scope_push(g, scope);
    predict_map(&h, maps[i], per_location[i], class_slots, &boxes[i], &classes[i]);
    if (n > 1) od_scope_pop(g);
  }
  *encodings = n > 1 ? od_concat(g, boxes, n, 1) : boxes[0];
  *logits = n > 1 ? od_concat(g, classes, n, 1) : classes[0];
}
