/* MobileNet v2 (Sandler et al., 2018) as slim builds it, with the extra maps of SSD: FeatureExtractor/MobilenetV2/...
 * Feature maps: the expansion of block 13 (the original's layer_15/expansion_output) and the last 1x1 (layer_19). */
#include <stdio.h>

#include "model/ssd_extractor.h"
#include "ops/math.h"

static void own_style(od_style *s) {
  *s = (od_style){.activation = OD_ACT_RELU6, .batch_norm = true, .bn_decay = 0.9997f, .bn_epsilon = 0.001f, .bn_center = true,
                  .bn_scale = true, .regularizer = OD_REG_L2, .weight_decay = 0.00004f, .regularize_depthwise = false,
                  .init = OD_WINIT_TRUNCATED_NORMAL, .stddev = 0.09f};
}

/* Nearest multiple of d, at least `least`, never more than 10 % below v. */
static int64_t divisible(double v, int64_t d, int64_t least) {
  int64_t n = (int64_t)(v + (double)d / 2) / d * d;
  if (n < least) n = least;
  return (double)n < 0.9 * v ? n + d : n;
}

/* blocks 0..16: stride, output channels; the expansion is 6 but for block 0 */
static const struct {
  int stride, channels;
} blocks[17] = {{1, 16}, {2, 24}, {1, 24}, {2, 32}, {1, 32}, {1, 32}, {2, 64},  {1, 64}, {1, 64},
                {1, 64}, {1, 96}, {1, 96}, {1, 96}, {2, 160}, {1, 160}, {1, 160}, {1, 320}};

/* One inverted residual; *expanded gets the output of the expansion. */
static od_value inverted_residual(od_graph *g, const od_extractor_args *a, od_value x, int i, int64_t channels, od_value *expanded) {
  int64_t in = od_dim(x, -1), inner = i == 0 ? in : divisible((double)in * 6, 8, 8);
  od_style linear = a->base;
  linear.activation = OD_ACT_NONE;
  od_value y = x;
  if (inner > in) {
    y = od_layer_conv(g, &a->base, "expand", y, &(od_layer){.channels = inner, .kernel_h = 1, .kernel_w = 1});
    *expanded = y;
  }
  od_layer depthwise = {.kernel_h = 3, .kernel_w = 3, .stride = blocks[i].stride, .explicit_padding = a->config->use_explicit_padding};
  y = od_layer_depthwise(g, &a->base, "depthwise", y, &depthwise);
  y = od_layer_conv(g, &linear, "project", y, &(od_layer){.channels = channels, .kernel_h = 1, .kernel_w = 1});
  return blocks[i].stride == 1 && in == channels ? od_add(g, y, x) : y;
}

static void build(od_graph *g, const od_extractor_args *a, od_value x, od_value *maps, int *n) {
  static const int64_t depths[6] = {-1, -1, 512, 256, 256, 128};
  double multiplier = (double)a->config->depth_multiplier;
  int64_t least = a->config->min_depth;
  char name[64];
  od_scope_push(g, "MobilenetV2");
  od_layer first = {.channels = divisible(32 * multiplier, 8, least), .kernel_h = 3, .kernel_w = 3, .stride = 2,
                    .explicit_padding = a->config->use_explicit_padding};
  x = od_layer_conv(g, &a->base, "Conv", x, &first);
  for (int i = 0; i < 17; i++) {
    od_value expanded = OD_NONE;
    snprintf(name, sizeof name, i ? "expanded_conv_%d" : "expanded_conv", i);
    od_scope_push(g, name);
    x = inverted_residual(g, a, x, i, divisible(blocks[i].channels * multiplier, 8, least), &expanded);
    od_scope_pop(g);
    if (i == 13) maps[0] = expanded;
  }
  maps[1] = od_layer_conv(g, &a->base, "Conv_1", x, &(od_layer){.channels = divisible(1280 * multiplier, 8, least), .kernel_h = 1, .kernel_w = 1});
  *n = a->config->num_layers;
  od_extra_maps(g, a, "layer_19", maps, 2, *n, depths);
  od_scope_pop(g);
}

const od_ssd_extractor_kind od_ssd_mobilenet_v2 = {"ssd_mobilenet_v2", own_style, build};
