/* The extra feature maps of SSD: each from the one before by a 1x1 and a 3x3/2 convolution (Liu et al., SSD, 2016, 2.1). */
#include <stdio.h>

#include "model/ssd_extractor.h"

int64_t od_scaled_depth(const od_pb_ssd_extractor *c, int64_t depth) {
  int64_t scaled = (int64_t)((double)depth * (double)c->depth_multiplier); /* Python's int() of a double product */
  return scaled > c->min_depth ? scaled : c->min_depth;
}

static od_value next_map(od_graph *g, const od_extractor_args *a, const char *base, int i, od_value x, int64_t depth) {
  char name[160], depthwise[192];
  bool explicit_padding = a->config->use_explicit_padding;
  int64_t half = od_scaled_depth(a->config, depth / 2), full = od_scaled_depth(a->config, depth);
  snprintf(name, sizeof name, "%s_1_Conv2d_%d_1x1_%lld", base, i, (long long)half);
  x = od_layer_conv(g, &a->extra, name, x, &(od_layer){.channels = half, .kernel_h = 1, .kernel_w = 1});
  snprintf(name, sizeof name, "%s_2_Conv2d_%d_3x3_s2_%lld", base, i, (long long)full);
  od_layer down = {.channels = full, .kernel_h = 3, .kernel_w = 3, .stride = 2, .explicit_padding = explicit_padding};
  if (!a->config->use_depthwise) return od_layer_conv(g, &a->extra, name, x, &down);
  snprintf(depthwise, sizeof depthwise, "%s_depthwise", name);
  x = od_layer_depthwise(g, &a->extra, depthwise, x, &down);
  return od_layer_conv(g, &a->extra, name, x, &(od_layer){.channels = full, .kernel_h = 1, .kernel_w = 1});
}

void od_extra_maps(od_graph *g, const od_extractor_args *a, const char *base, od_value *maps, int n_from, int n, const int64_t *depths) {
  for (int i = n_from; i < n; i++) maps[i] = next_map(g, a, base, i, maps[i - 1], depths[i]);
}
