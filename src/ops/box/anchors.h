/* Anchor boxes: grid (Faster R-CNN), SSD, multiscale (FPN) and flexible grids, as the original's anchor_generators.
 *
 * Every generator reduces to grids: od_anchor_grid_* fills one description a feature map, od_anchor_grid_tile writes its
 * boxes. Order in a map: y, x, anchor. Scales and ratios are prepared in double (Python floats in the original: give what
 * the config's float32 fields hold, as double), tiling is float32. */
#ifndef OD_OPS_BOX_ANCHORS_H
#define OD_OPS_BOX_ANCHORS_H

#include <stdint.h>

#include "base/status.h"

enum { OD_ANCHORS_MAX = 64 }; /* shapes at one place of a map */

/* One feature map's anchors. Heights and widths are those of a cell's shapes, already times the base size. */
typedef struct {
  int n; /* shapes at a place */
  float height[OD_ANCHORS_MAX], width[OD_ANCHORS_MAX];
  float stride[2], offset[2]; /* y, x */
  float scale[2];             /* y, x: what boxes are multiplied with at last; 1, or 1 / size */
} od_anchor_grid;

/* Writes grid_h * grid_w * g->n boxes [.., 4]. */
void od_anchor_grid_tile(float *boxes, const od_anchor_grid *g, int64_t grid_h, int64_t grid_w);

/* GridAnchorGenerator: ratio outer, scale inner. base, stride, offset: y, x in pixels. OD_EINVAL: too many or none. */
OD_MUST_CHECK od_status od_anchors_grid(od_anchor_grid *out, const double *scales, int n_scales, const double *ratios,
                                        int n_ratios, const float base[2], const float stride[2],
                                        const float offset[2]);

typedef struct {
  int num_layers;
  double min_scale, max_scale;
  const double *scales; /* [num_layers], or NULL: spread from min_scale to max_scale */
  const double *ratios;
  int n_ratios;
  double interpolated_scale_aspect_ratio; /* 0: no additional anchor */
  float base[2];                          /* base_anchor_height, base_anchor_width; 1, 1 */
  const float (*strides)[2];              /* [num_layers] pixels y, x; NULL: 1 / grid */
  const float (*offsets)[2];              /* [num_layers] pixels y, x; NULL: half a stride */
  bool reduce_boxes_in_lowest_layer;
} od_ssd_anchors;

/* create_ssd_anchors and its generator for one layer, normalised coordinates. grid: of this layer; image: of the image
 * that the network sees, both y, x. */
OD_MUST_CHECK od_status od_anchors_ssd(od_anchor_grid *out, const od_ssd_anchors *o, int layer, const int64_t grid[2],
                                       const int64_t image[2]);
/* Anchors at a place of a layer. */
int od_anchors_ssd_count(const od_ssd_anchors *o, int layer);

/* MultiscaleGridAnchorGenerator for one level. Offset half a stride where the image's side is a multiple of the stride
 * (or always, when dynamic: the original's graph with unknown sizes), else 0. */
OD_MUST_CHECK od_status od_anchors_multiscale(od_anchor_grid *out, int level, double anchor_scale, const double *ratios,
                                              int n_ratios, int scales_per_octave, bool normalize, bool dynamic,
                                              const int64_t image[2]);

/* FlexibleGridAnchorGenerator for one map: shape i has base size sizes[i] and ratio ratios[i]. */
OD_MUST_CHECK od_status od_anchors_flexible(od_anchor_grid *out, const double *sizes, const double *ratios, int n,
                                            const float stride[2], const float offset[2], bool normalize,
                                            const int64_t image[2]);

#endif
