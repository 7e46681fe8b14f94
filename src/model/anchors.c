/* Anchor generators of the config as graph ops. */
#include "model/parts.h"

#define GENERATOR(x) OBJECT_DETECTION__PROTOS__ANCHOR_GENERATOR__ANCHOR_GENERATOR_ONEOF_##x

static od_floats pairs_of(od_arena *arena, size_t n, const int32_t *y, size_t n_x, const int32_t *x) {
  if (n == 0) return (od_floats){0};
  float *v = od_arena_alloc(arena, sizeof *v * 2 * n);
  for (size_t i = 0; v && i < n; i++) {
    v[2 * i] = (float)y[i];
    v[2 * i + 1] = i < n_x ? (float)x[i] : (float)y[i];
  }
  return (od_floats){v ? (int)(2 * n) : 0, v};
}

static od_status ssd_params(od_ssd_anchors_params *out, od_arena *arena, const ObjectDetection__Protos__SsdAnchorGenerator *a) {
  if (a->n_height_stride != a->n_width_stride || a->n_height_offset != a->n_width_offset)
    return od_fail(OD_EINVAL, "ssd_anchor_generator: height and width strides (offsets) must be as many");
  od_ssd_anchor_spec spec = {.n_layers = a->num_layers, .min_scale = a->min_scale, .max_scale = a->max_scale,
                             .scales = {(int)a->n_scales, a->scales},
                             .aspect_ratios = {(int)a->n_aspect_ratios, a->aspect_ratios},
                             .reduce_boxes_in_lowest_layer = a->reduce_boxes_in_lowest_layer,
                             .interpolated_scale_aspect_ratio = a->interpolated_scale_aspect_ratio};
  OD_TRY(od_ssd_anchor_pairs(out, arena, &spec));
  out->base_height = a->base_anchor_height;
  out->base_width = a->base_anchor_width;
  out->strides = pairs_of(arena, a->n_height_stride, a->height_stride, a->n_width_stride, a->width_stride);
  out->offsets = pairs_of(arena, a->n_height_offset, a->height_offset, a->n_width_offset, a->width_offset);
  return OD_OK;
}

static od_multiscale_anchors_params multiscale_params(const ObjectDetection__Protos__MultiscaleAnchorGenerator *a) {
  return (od_multiscale_anchors_params){.min_level = a->min_level, .max_level = a->max_level, .anchor_scale = a->anchor_scale,
                                        .aspect_ratios = {(int)a->n_aspect_ratios, a->aspect_ratios},
                                        .scales_per_octave = a->scales_per_octave, .normalize = a->normalize_coordinates,
                                        .size_known = true};
}

static od_status flexible_params(od_flexible_anchors_params *out, od_arena *arena, const ObjectDetection__Protos__FlexibleGridAnchorGenerator *a) {
  size_t n = a->n_anchor_grid, all = 0;
  for (size_t i = 0; i < n; i++) {
    const ObjectDetection__Protos__AnchorGrid *grid = a->anchor_grid[i];
    if (grid->n_base_sizes == 0 || grid->n_base_sizes != grid->n_aspect_ratios)
      return od_fail(OD_EINVAL, "flexible_grid_anchor_generator: anchor_grid[%zu] has %zu base_sizes and %zu aspect_ratios, as many of both are wanted", i,
                     grid->n_base_sizes, grid->n_aspect_ratios);
    if (grid->height_stride == 0 || grid->width_stride == 0)
      return od_fail(OD_EINVAL, "flexible_grid_anchor_generator: anchor_grid[%zu]: height_stride and width_stride must be 1 or more", i);
    all += grid->n_base_sizes;
  }
  int64_t *per_layer = od_arena_alloc(arena, sizeof *per_layer * (n + 1));
  float *sizes = od_arena_alloc(arena, sizeof *sizes * (all + 1)), *ratios = od_arena_alloc(arena, sizeof *ratios * (all + 1));
  float *strides = od_arena_alloc(arena, sizeof *strides * 2 * (n + 1)), *offsets = od_arena_alloc(arena, sizeof *offsets * 2 * (n + 1));
  if (!per_layer || !sizes || !ratios || !strides || !offsets) return OD_ENOMEM;
  all = 0;
  for (size_t i = 0; i < n; i++) {
    const ObjectDetection__Protos__AnchorGrid *grid = a->anchor_grid[i];
    per_layer[i] = (int64_t)grid->n_base_sizes;
    for (size_t k = 0; k < grid->n_base_sizes; k++, all++) {
      sizes[all] = grid->base_sizes[k];
      ratios[all] = grid->aspect_ratios[k];
    }
    strides[2 * i] = (float)grid->height_stride;
    strides[2 * i + 1] = (float)grid->width_stride;
    offsets[2 * i] = (float)grid->height_offset;
    offsets[2 * i + 1] = (float)grid->width_offset;
  }
  *out = (od_flexible_anchors_params){{(int)n, per_layer}, {(int)all, sizes}, {(int)all, ratios}, {(int)(2 * n), strides}, {(int)(2 * n), offsets},
                                      a->normalize_coordinates};
  return OD_OK;
}

static od_status unsupported(const od_pb_anchors *a) {
  if (!a || a->anchor_generator_oneof_case == GENERATOR(_NOT_SET))
    return od_fail(OD_EINVAL, "anchor_generator: none is set");
  return od_fail(OD_EUNSUPPORTED, "anchor_generator: SSD takes ssd_anchor_generator, multiscale_anchor_generator and flexible_grid_anchor_generator; "
                                  "grid_anchor_generator belongs to Faster R-CNN");
}

od_status od_anchors_per_location(int64_t *per_location, int n_maps, od_arena *arena, const od_pb_anchors *a) {
  switch (a ? a->anchor_generator_oneof_case : GENERATOR(_NOT_SET)) {
    case GENERATOR(SSD_ANCHOR_GENERATOR): {
      od_ssd_anchors_params p = {0};
      OD_TRY(ssd_params(&p, arena, a->ssd_anchor_generator));
      if (p.per_layer.n != n_maps)
        return od_fail(OD_EINVAL, "ssd_anchor_generator: num_layers is %d, the feature extractor makes %d maps", p.per_layer.n, n_maps);
      for (int i = 0; i < n_maps; i++) per_location[i] = p.per_layer.v[i];
      return OD_OK;
    }
    case GENERATOR(MULTISCALE_ANCHOR_GENERATOR):
      for (int i = 0; i < n_maps; i++)
        per_location[i] = (int64_t)a->multiscale_anchor_generator->n_aspect_ratios * a->multiscale_anchor_generator->scales_per_octave;
      return OD_OK;
    case GENERATOR(FLEXIBLE_GRID_ANCHOR_GENERATOR): {
      od_flexible_anchors_params p;
      OD_TRY(flexible_params(&p, arena, a->flexible_grid_anchor_generator));
      if (p.per_layer.n != n_maps)
        return od_fail(OD_EINVAL, "flexible_grid_anchor_generator: there are %d of anchor_grid, the feature extractor makes %d maps", p.per_layer.n, n_maps);
      for (int i = 0; i < n_maps; i++) per_location[i] = p.per_layer.v[i];
      return OD_OK;
    }
    default: return unsupported(a);
  }
}

od_value od_anchors_build(od_graph *g, const od_pb_anchors *a, const od_value *maps, int n, od_value image) {
  switch (a ? a->anchor_generator_oneof_case : GENERATOR(_NOT_SET)) {
    case GENERATOR(SSD_ANCHOR_GENERATOR): {
      od_ssd_anchors_params p = {0};
      od_status st = ssd_params(&p, od_graph_arena(g), a->ssd_anchor_generator);
      return st == OD_OK ? od_ssd_anchors_op(g, maps, n, image, &p) : od_graph_fail(g, st);
    }
    case GENERATOR(MULTISCALE_ANCHOR_GENERATOR): {
      od_multiscale_anchors_params p = multiscale_params(a->multiscale_anchor_generator);
      return od_multiscale_anchors_op(g, maps, n, image, &p);
    }
    case GENERATOR(FLEXIBLE_GRID_ANCHOR_GENERATOR): {
      od_flexible_anchors_params p;
      od_status st = flexible_params(&p, od_graph_arena(g), a->flexible_grid_anchor_generator);
      return st == OD_OK ? od_flexible_anchors_op(g, maps, n, image, &p) : od_graph_fail(g, st);
    }
    default: return od_graph_fail(g, unsupported(a));
  }
}

od_status od_grid_anchors_per_cell(int64_t *per_cell, const od_pb_anchors *a) {
  if (!a || a->anchor_generator_oneof_case == GENERATOR(_NOT_SET))
    return od_fail(OD_EINVAL, "first_stage_anchor_generator: none is set");
  if (a->anchor_generator_oneof_case != GENERATOR(GRID_ANCHOR_GENERATOR))
    return od_fail(OD_EUNSUPPORTED, "first_stage_anchor_generator: Faster R-CNN takes grid_anchor_generator");
  const ObjectDetection__Protos__GridAnchorGenerator *c = a->grid_anchor_generator;
  if (c->n_scales == 0 || c->n_aspect_ratios == 0)
    return od_fail(OD_EINVAL, "grid_anchor_generator: %zu scales and %zu aspect_ratios make no anchor", c->n_scales, c->n_aspect_ratios);
  *per_cell = (int64_t)(c->n_scales * c->n_aspect_ratios);
  return OD_OK;
}

od_value od_grid_anchors_build(od_graph *g, const od_pb_anchors *a, od_value map) {
  int64_t per_cell;
  od_status st = od_grid_anchors_per_cell(&per_cell, a);
  if (st != OD_OK) return od_graph_fail(g, st);
  const ObjectDetection__Protos__GridAnchorGenerator *c = a->grid_anchor_generator;
  od_grid_anchors_params p = {.scales = {(int)c->n_scales, c->scales}, .aspect_ratios = {(int)c->n_aspect_ratios, c->aspect_ratios},
                              .base_height = (float)c->height, .base_width = (float)c->width,
                              .height_stride = (float)c->height_stride, .width_stride = (float)c->width_stride,
                              .height_offset = (float)c->height_offset, .width_offset = (float)c->width_offset};
  return od_grid_anchors_op(g, map, &p);
}
