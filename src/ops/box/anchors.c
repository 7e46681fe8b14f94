/* Anchor boxes; see anchors.h. */
#include "ops/box/anchors.h"

#include <math.h>

void od_anchor_grid_tile(float *boxes, const od_anchor_grid *g, int64_t grid_h, int64_t grid_w) {
  for (int64_t y = 0; y < grid_h; y++)
    for (int64_t x = 0; x < grid_w; x++) {
      float cy = (float)y * g->stride[0] + g->offset[0], cx = (float)x * g->stride[1] + g->offset[1];
      for (int k = 0; k < g->n; k++, boxes += 4) {
        boxes[0] = g->scale[0] * (cy - 0.5f * g->height[k]);
        boxes[1] = g->scale[1] * (cx - 0.5f * g->width[k]);
        boxes[2] = g->scale[0] * (cy + 0.5f * g->height[k]);
        boxes[3] = g->scale[1] * (cx + 0.5f * g->width[k]);
      }
    }
}

static od_status check_count(int64_t n) {
  if (n >= 1 && n <= OD_ANCHORS_MAX) return OD_OK;
  return od_fail(OD_EINVAL, "%lld anchors at one place, 1 to %d expected", (long long)n, OD_ANCHORS_MAX);
}

/* scale / sqrt(ratio) * base and scale * sqrt(ratio) * base, in float32 as tile_anchors. */
static void add_shape(od_anchor_grid *g, double scale, double ratio, float base_h, float base_w) {
  float s = (float)scale, root = sqrtf((float)ratio);
  g->height[g->n] = s / root * base_h;
  g->width[g->n++] = s * root * base_w;
}

static void place(od_anchor_grid *g, const float stride[2], const float offset[2]) {
  for (int i = 0; i < 2; i++) {
    g->stride[i] = stride[i];
    g->offset[i] = offset[i];
    g->scale[i] = 1;
  }
}

static void normalise(od_anchor_grid *g, const int64_t image[2]) {
  for (int i = 0; i < 2; i++) g->scale[i] = 1.0f / (float)image[i];
}

od_status od_anchors_grid(od_anchor_grid *out, const double *scales, int n_scales, const double *ratios, int n_ratios,
                          const float base[2], const float stride[2], const float offset[2]) {
  OD_TRY(check_count((int64_t)n_scales * n_ratios));
  out->n = 0;
  for (int r = 0; r < n_ratios; r++)
    for (int s = 0; s < n_scales; s++) add_shape(out, scales[s], ratios[r], base[0], base[1]);
  place(out, stride, offset);
  return OD_OK;
}

/* ---------------------------------------------------------------------------------------------------------------- ssd */
static double ssd_scale(const od_ssd_anchors *o, int layer) {
  if (layer == o->num_layers) return 1.0;
  if (o->scales) return o->scales[layer];
  return o->min_scale + (o->max_scale - o->min_scale) * layer / (o->num_layers - 1);
}

int od_anchors_ssd_count(const od_ssd_anchors *o, int layer) {
  if (layer == 0 && o->reduce_boxes_in_lowest_layer) return 3;
  return o->n_ratios + (o->interpolated_scale_aspect_ratio > 0);
}

od_status od_anchors_ssd(od_anchor_grid *out, const od_ssd_anchors *o, int layer, const int64_t grid[2],
                         const int64_t image[2]) {
  if (layer < 0 || layer >= o->num_layers) return od_fail(OD_EINVAL, "layer %d of %d", layer, o->num_layers);
  if (o->num_layers < 2 && !o->scales)
    return od_fail(OD_EINVAL, "num_layers: 1 needs scales of its own (ssd_anchor_generator)");
  OD_TRY(check_count(od_anchors_ssd_count(o, layer)));
  float im[2] = {(float)image[0], (float)image[1]};
  float least = fminf(im[0], im[1]);
  float base_h = least / im[0] * o->base[0], base_w = least / im[1] * o->base[1];
  double scale = ssd_scale(o, layer), next = ssd_scale(o, layer + 1);
  out->n = 0;
  if (layer == 0 && o->reduce_boxes_in_lowest_layer) {
    add_shape(out, 0.1, 1.0, base_h, base_w);
    add_shape(out, scale, 2.0, base_h, base_w);
    add_shape(out, scale, 0.5, base_h, base_w);
  } else {
    for (int r = 0; r < o->n_ratios; r++) add_shape(out, scale, o->ratios[r], base_h, base_w);
    if (o->interpolated_scale_aspect_ratio > 0)
      add_shape(out, sqrt(scale * next), o->interpolated_scale_aspect_ratio, base_h, base_w);
  }
  float stride[2], offset[2];
  for (int i = 0; i < 2; i++) {
    stride[i] = o->strides ? o->strides[layer][i] / im[i] : 1.0f / (float)grid[i];
    offset[i] = o->offsets ? o->offsets[layer][i] / im[i] : 0.5f * stride[i];
  }
  place(out, stride, offset);
  return OD_OK;
}

/* --------------------------------------------------------------------------------------------------------- multiscale */
od_status od_anchors_multiscale(od_anchor_grid *out, int level, double anchor_scale, const double *ratios, int n_ratios,
                                int scales_per_octave, bool normalize, bool dynamic, const int64_t image[2]) {
  if (level < 0 || level > 30) return od_fail(OD_EINVAL, "level %d, 0 to 30 expected", level);
  OD_TRY(check_count((int64_t)n_ratios * scales_per_octave));
  int64_t step = (int64_t)1 << level;
  float base = (float)((double)step * anchor_scale), stride[2] = {(float)step, (float)step}, offset[2];
  double scales[OD_ANCHORS_MAX];
  for (int s = 0; s < scales_per_octave; s++) scales[s] = pow(2, (double)s / scales_per_octave);
  for (int i = 0; i < 2; i++) offset[i] = dynamic || image[i] % step == 0 || image[i] == 1 ? (float)step / 2 : 0;
  const float base2[2] = {base, base};
  OD_TRY(od_anchors_grid(out, scales, scales_per_octave, ratios, n_ratios, base2, stride, offset));
  if (normalize) normalise(out, image);
  return OD_OK;
}

od_status od_anchors_flexible(od_anchor_grid *out, const double *sizes, const double *ratios, int n,
                              const float stride[2], const float offset[2], bool normalize, const int64_t image[2]) {
  OD_TRY(check_count(n));
  out->n = 0;
  for (int i = 0; i < n; i++) add_shape(out, sizes[i], ratios[i], 1, 1);
  place(out, stride, offset);
  if (normalize) normalise(out, image);
  return OD_OK;
}
