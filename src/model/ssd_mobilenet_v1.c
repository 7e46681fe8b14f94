/* MobileNet v1 (Howard et al., 2017) as slim builds it, with the extra maps of SSD: FeatureExtractor/MobilenetV1/... */
#include <stdio.h>

#include "model/ssd_extractor.h"

static void own_style(od_style *s) {
  *s = (od_style){.activation = OD_ACT_RELU6, .batch_norm = true, .bn_decay = 0.9997f, .bn_epsilon = 0.001f, .bn_center = true,
                  .bn_scale = true, .regularizer = OD_REG_L2, .weight_decay = 0.00004f, .regularize_depthwise = true,
                  .init = OD_WINIT_TRUNCATED_NORMAL, .stddev = 0.09f};
}

/* layers 1..13: stride of the depthwise part, channels of the pointwise part */
static const struct {
  int stride, channels;
} blocks[13] = {{1, 64}, {2, 128}, {1, 128}, {2, 256}, {1, 256}, {2, 512}, {1, 512},
                {1, 512}, {1, 512}, {1, 512}, {1, 512}, {2, 1024}, {1, 1024}};

static void build(od_graph *g, const od_extractor_args *a, od_value x, od_value *maps, int *n) {
  static const int64_t depths[6] = {-1, -1, 512, 256, 256, 128};
  bool explicit_padding = a->config->use_explicit_padding;
  char name[64];
  od_scope_push(g, "MobilenetV1");
  od_layer first = {.channels = od_scaled_depth(a->config, 32), .kernel_h = 3, .kernel_w = 3, .stride = 2,
                    .explicit_padding = explicit_padding};
  x = od_layer_conv(g, &a->base, "Conv2d_0", x, &first);
  for (int i = 1; i <= 13; i++) {
    od_layer depthwise = {.kernel_h = 3, .kernel_w = 3, .stride = blocks[i - 1].stride, .explicit_padding = explicit_padding};
    snprintf(name, sizeof name, "Conv2d_%d_depthwise", i);
    x = od_layer_depthwise(g, &a->base, name, x, &depthwise);
    od_layer pointwise = {.channels = od_scaled_depth(a->config, blocks[i - 1].channels), .kernel_h = 1, .kernel_w = 1};
    snprintf(name, sizeof name, "Conv2d_%d_pointwise", i);
    x = od_layer_conv(g, &a->base, name, x, &pointwise);
    if (i == 11) maps[0] = x;
  }
  maps[1] = x;
  *n = a->config->num_layers;
  od_extra_maps(g, a, "Conv2d_13_pointwise", maps, 2, *n, depths);
  od_scope_pop(g);
}

const od_ssd_extractor_kind od_ssd_mobilenet_v1 = {"ssd_mobilenet_v1", own_style, build};
