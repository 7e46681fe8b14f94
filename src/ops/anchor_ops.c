/* Anchor ops: ssd_anchors, grid_anchors, multiscale_anchors, flexible_anchors. All four make a grid of boxes for each
 * feature map (ops/box/anchors.h has the arithmetic); of their inputs only height and width count, so nothing flows back.
 * In TensorFlow graphs the grids are made of Shape and Range nodes and hold for every image size. */
#include <math.h>

#include "ops/box/anchors.h"
#include "ops/detect.h"
#include "ops/detect_shape.h"
#include "ops/detect_tf.h"
#include "ops/table.h"

/* What the four have in common: how many maps there are (the last input may be the image), and each map's grid. */
typedef struct {
  bool has_image;
  int (*count)(const void *params, int layer);
  od_status (*check)(const void *params, int n_maps);
  od_status (*fill)(od_anchor_grid *g, const void *params, int layer, const int64_t grid[2], const int64_t image[2]);
} family;

static od_value add(od_graph *g, const od_op *op, const od_value *maps, int n, od_value image, const void *params) {
  enum { MANY = 32 };
  od_value in[MANY];
  if (n < 1 || n >= MANY)
    return od_graph_fail(g, od_fail(OD_EINVAL, "anchors for %d feature maps, 1 to %d expected", n, MANY - 1));
  for (int i = 0; i < n; i++) in[i] = maps[i];
  in[n] = image;
  return od_graph_add(g, op, in, n + 1, params);
}

static od_status infer_family(const od_infer *c, const family *f) {
  int maps = c->n_in - f->has_image;
  OD_TRY(f->check(c->params, maps));
  int64_t total = 0;
  for (int i = 0; i < c->n_in; i++) {
    OD_TRY(od_want(c, i, c->in[i].dtype, 4));
    if (i == maps) break;
    int n = f->count(c->params, i);
    if (n < 1 || n > OD_ANCHORS_MAX)
      return od_fail(OD_EINVAL, "%d anchors at a place of map %d, 1 to %d expected", n, i, OD_ANCHORS_MAX);
    int64_t h = c->in[i].shape.dim[1], w = c->in[i].shape.dim[2];
    total = total < 0 || h < 0 || w < 0 ? -1 : total + h * w * n;
  }
  c->out[0] = (od_type){OD_F32, {2, {total, 4}}};
  return OD_OK;
}

static od_status ref_family(const od_call *c, const family *f) {
  float *out = c->out[0].data;
  int maps = c->n_in - f->has_image;
  const int64_t one[2] = {1, 1}, *image = f->has_image ? c->in[maps].shape.dim + 1 : one;
  for (int i = 0; i < maps; i++) {
    od_anchor_grid g;
    const int64_t *grid = c->in[i].shape.dim + 1;
    OD_TRY(f->fill(&g, c->params, i, grid, image));
    od_anchor_grid_tile(out, &g, grid[0], grid[1]);
    out += grid[0] * grid[1] * g.n * 4;
  }
  return OD_OK;
}

/* The pairs of a layer in a flattened list. */
static int offset_of(od_ints per_layer, int layer) {
  int64_t at = 0;
  for (int i = 0; i < layer; i++) at += per_layer.v[i];
  return (int)at;
}

static od_status check_layers(od_ints per_layer, int n_maps, int scales, int ratios, int strides, int offsets) {
  if (per_layer.n != n_maps) return od_fail(OD_EINVAL, "anchors of %d layers for %d feature maps", per_layer.n, n_maps);
  int all = offset_of(per_layer, per_layer.n);
  if (scales != all || ratios != all)
    return od_fail(OD_EINVAL, "%d scales and %d aspect ratios for %d anchors", scales, ratios, all);
  if ((strides && strides != 2 * n_maps) || (offsets && offsets != 2 * n_maps))
    return od_fail(OD_EINVAL, "%d strides and %d offsets for %d layers, expected two a layer", strides, offsets,
                   n_maps);
  return OD_OK;
}

/* ------------------------------------------------------------------------------------------------------- TensorFlow side */
/* One map's boxes [h * w * k, 4]: centre -+ half a size, then scaled, as od_anchor_grid_tile. sizes: tensors [k]; stride,
 * offset: float scalars; scale: float scalars or NULL. */
typedef struct {
  const char *grid[2]; /* int32 scalars */
  const char *size[2], *stride[2], *offset[2], *scale[2];
} tf_grid;

static const char *tile_tf(od_tf *t, const tf_grid *g) {
  const char *half = od_tf_const_f32(t, "half", 0.5f), *side[4], *one = od_tf_const_i32(t, "one", 1);
  for (int axis = 0; axis < 2; axis++) {
    const char *at = od_tf_cast(t, "places", od_tf_range(t, "range", g->grid[axis]), OD_I32, OD_F32);
    at = od_tf_two(t, "Add", "centers", od_tf_two(t, "Mul", "strided", at, g->stride[axis]), g->offset[axis]);
    at = axis ? OD_TF_RESHAPE(t, "columns", at, OD_F32, 1, -1, 1) : OD_TF_RESHAPE(t, "rows", at, OD_F32, -1, 1, 1);
    const char *extent = od_tf_two(t, "Mul", "half_size", half, g->size[axis]);
    for (int end = 0; end < 2; end++) {
      const char *x = od_tf_two(t, end ? "Add" : "Sub", end ? "max" : "min", at, extent);
      if (g->scale[axis]) x = od_tf_two(t, "Mul", "scaled", g->scale[axis], x);
      const char *times[3] = {axis ? g->grid[0] : one, axis ? one : g->grid[1], one};
      side[axis + 2 * end] = od_tf_tile(t, "tiled", x, od_tf_stack(t, "times", times, 3), OD_F32);
    }
  }
  return OD_TF_RESHAPE(t, "boxes", od_tf_stack_axis(t, "corners", side, 4, 3, OD_F32), OD_F32, -1, 4);
}

static void grid_of(od_tf *t, tf_grid *g, const od_node *n, int i) {
  const char *shape = od_tf_shape_of(t, "map", od_tf_in(t, i), od_type_of(n->in[i]).dtype);
  for (int k = 0; k < 2; k++) g->grid[k] = od_tf_element(t, "side", shape, 1 + k);
}

/* Height and width of the image, int32 scalars. */
static void image_of(od_tf *t, const char *size[2], const od_node *n) {
  int i = n->n_in - 1;
  const char *shape = od_tf_shape_of(t, "image", od_tf_in(t, i), od_type_of(n->in[i]).dtype);
  for (int k = 0; k < 2; k++) size[k] = od_tf_element(t, "side", shape, 1 + k);
}

/* Sizes, strides and offsets that do not depend on the image, as constants. */
static void constants_tf(od_tf *t, tf_grid *g, const od_anchor_grid *a) {
  g->size[0] = od_tf_const_f32s(t, "heights", a->height, a->n);
  g->size[1] = od_tf_const_f32s(t, "widths", a->width, a->n);
  for (int k = 0; k < 2; k++) {
    g->stride[k] = od_tf_const_f32(t, "stride", a->stride[k]);
    g->offset[k] = od_tf_const_f32(t, "offset", a->offset[k]);
  }
}

static od_status finish_tf(od_tf *t, const char *const *boxes, int n) {
  od_tf_out(t, 0, od_tf_concat(t, NULL, boxes, n, 0, OD_F32));
  return OD_OK;
}

enum { MAPS = 32 };

/* ------------------------------------------------------------------------------------------------------------------ ssd */
od_value od_ssd_anchors_op(od_graph *g, const od_value *maps, int n, od_value image, const od_ssd_anchors_params *p) {
  return add(g, &od_op_ssd_anchors, maps, n, image, p);
}

od_status od_ssd_anchor_pairs(od_ssd_anchors_params *out, od_arena *arena, const od_ssd_anchor_spec *s) {
  static const float usual[] = {1.0f, 2.0f, 3.0f, 1.0f / 2, 1.0f / 3};
  od_floats ratios = s->aspect_ratios.n ? s->aspect_ratios : (od_floats){5, usual};
  if (s->n_layers < 1 || (!s->scales.n && s->n_layers < 2))
    return od_fail(OD_EINVAL, "ssd_anchor_generator: num_layers is %d; with scales at least 1, else at least 2",
                   s->n_layers);
  if (s->scales.n && s->scales.n != s->n_layers)
    return od_fail(OD_EINVAL, "ssd_anchor_generator: %d scales for %d layers", s->scales.n, s->n_layers);
  size_t most = (size_t)s->n_layers * ((size_t)ratios.n + 4);
  int64_t *count = od_arena_alloc(arena, sizeof *count * (size_t)s->n_layers);
  float *scale = od_arena_alloc(arena, sizeof *scale * most), *ratio = od_arena_alloc(arena, sizeof *ratio * most);
  double *spaced = od_arena_alloc(arena, sizeof *spaced * ((size_t)s->n_layers + 1));
  if (!count || !scale || !ratio || !spaced) return OD_ENOMEM;
  double low = (double)s->min_scale, high = (double)s->max_scale;
  for (int i = 0; i < s->n_layers; i++)
    spaced[i] = s->scales.n ? (double)s->scales.v[i] : low + (high - low) * i / (s->n_layers - 1);
  spaced[s->n_layers] = 1;
  int n = 0;
  for (int layer = 0; layer < s->n_layers; layer++) {
    int first = n;
    if (layer == 0 && s->reduce_boxes_in_lowest_layer) {
      scale[n] = 0.1f, ratio[n++] = 1;
      scale[n] = (float)spaced[0], ratio[n++] = 2;
      scale[n] = (float)spaced[0], ratio[n++] = 0.5f;
    } else {
      for (int r = 0; r < ratios.n; r++) scale[n] = (float)spaced[layer], ratio[n++] = ratios.v[r];
      if (s->interpolated_scale_aspect_ratio > 0)
        scale[n] = (float)sqrt(spaced[layer] * spaced[layer + 1]), ratio[n++] = s->interpolated_scale_aspect_ratio;
    }
    count[layer] = n - first;
  }
  out->per_layer = (od_ints){s->n_layers, count};
  out->scales = (od_floats){n, scale};
  out->aspect_ratios = (od_floats){n, ratio};
  return OD_OK;
}

static const od_param ssd_params[] = {
    OD_PARAM_IN(od_ssd_anchors_params, per_layer, OD_P_INTS, "anchors at a place, a layer each", 1, OD_ANCHORS_MAX),
    OD_PARAM(od_ssd_anchors_params, scales, OD_P_FLOATS, "scales, layer after layer"),
    OD_PARAM(od_ssd_anchors_params, aspect_ratios, OD_P_FLOATS, "their aspect ratios, width / height"),
    OD_PARAM(od_ssd_anchors_params, base_height, OD_P_FLOAT, "height of scale 1, in shorter sides"),
    OD_PARAM(od_ssd_anchors_params, base_width, OD_P_FLOAT, "width of scale 1, in shorter sides"),
    OD_PARAM(od_ssd_anchors_params, strides, OD_P_FLOATS, "y, x a layer, pixels; none: 1 / grid"),
    OD_PARAM(od_ssd_anchors_params, offsets, OD_P_FLOATS, "y, x a layer, pixels; none: half a stride"),
    {0}};

static int ssd_count(const void *params, int layer) {
  const od_ssd_anchors_params *p = params;
  return (int)p->per_layer.v[layer];
}

static od_status ssd_check(const void *params, int n_maps) {
  const od_ssd_anchors_params *p = params;
  return check_layers(p->per_layer, n_maps, p->scales.n, p->aspect_ratios.n, p->strides.n, p->offsets.n);
}

/* Heights and widths of a layer before they are multiplied with the base. */
static void ssd_shapes(od_anchor_grid *g, const od_ssd_anchors_params *p, int layer) {
  int at = offset_of(p->per_layer, layer);
  g->n = ssd_count(p, layer);
  for (int i = 0; i < g->n; i++) {
    float root = sqrtf(p->aspect_ratios.v[at + i]);
    g->height[i] = p->scales.v[at + i] / root;
    g->width[i] = p->scales.v[at + i] * root;
  }
}

static od_status ssd_fill(od_anchor_grid *g, const void *params, int layer, const int64_t grid[2],
                          const int64_t image[2]) {
  const od_ssd_anchors_params *p = params;
  float side[2] = {(float)image[0], (float)image[1]}, least = fminf(side[0], side[1]);
  float base_height = least / side[0] * p->base_height, base_width = least / side[1] * p->base_width;
  ssd_shapes(g, p, layer);
  for (int i = 0; i < g->n; i++) {
    g->height[i] *= base_height;
    g->width[i] *= base_width;
  }
  for (int k = 0; k < 2; k++) {
    g->stride[k] = p->strides.n ? p->strides.v[2 * layer + k] / side[k] : 1.0f / (float)grid[k];
    g->offset[k] = p->offsets.n ? p->offsets.v[2 * layer + k] / side[k] : 0.5f * g->stride[k];
    g->scale[k] = 1;
  }
  return OD_OK;
}

static const family ssd = {true, ssd_count, ssd_check, ssd_fill};
static od_status ssd_infer(const od_infer *c) { return infer_family(c, &ssd); }
static od_status ssd_ref(const od_call *c) { return ref_family(c, &ssd); }

static od_status ssd_tf(od_tf *t, const od_node *n) {
  const od_ssd_anchors_params *p = n->params;
  const char *boxes[MAPS], *size[2], *side[2], *base[2];
  const char *one = od_tf_const_f32(t, "one", 1), *half = od_tf_const_f32(t, "half", 0.5f);
  image_of(t, size, n);
  for (int k = 0; k < 2; k++) side[k] = od_tf_cast(t, "pixels", size[k], OD_I32, OD_F32);
  const char *least = od_tf_two(t, "Minimum", "shorter", side[0], side[1]);
  for (int k = 0; k < 2; k++)
    base[k] = od_tf_two(t, "Mul", "base", od_tf_two(t, "RealDiv", "shrink", least, side[k]),
                        od_tf_const_f32(t, "base_size", k ? p->base_width : p->base_height));
  for (int i = 0; i < n->n_in - 1; i++) {
    tf_grid g = {.grid = {NULL}};
    od_anchor_grid a = {.n = 0};
    ssd_shapes(&a, p, i);
    grid_of(t, &g, n, i);
    for (int k = 0; k < 2; k++) {
      g.size[k] = od_tf_two(t, "Mul", "sizes", od_tf_const_f32s(t, "shapes", k ? a.width : a.height, a.n), base[k]);
      g.stride[k] =
          p->strides.n
              ? od_tf_two(t, "RealDiv", "stride", od_tf_const_f32(t, "stride_pixels", p->strides.v[2 * i + k]), side[k])
              : od_tf_two(t, "RealDiv", "stride", one, od_tf_cast(t, "places", g.grid[k], OD_I32, OD_F32));
      g.offset[k] = p->offsets.n ? od_tf_two(t, "RealDiv", "offset",
                                             od_tf_const_f32(t, "offset_pixels", p->offsets.v[2 * i + k]), side[k])
                                 : od_tf_two(t, "Mul", "offset", half, g.stride[k]);
    }
    boxes[i] = tile_tf(t, &g);
  }
  return finish_tf(t, boxes, n->n_in - 1);
}

#define FLOATS(...)                                                                                                    \
  {                                                                                                                    \
    (int)(sizeof((float[]){__VA_ARGS__}) / sizeof(float)), (const float[]) { __VA_ARGS__ }                             \
  }
#define MAP(...) OD_F32_IN(0, 1, __VA_ARGS__)
static const od_sample ssd_samples[] = {
    {.name = "two layers",
     .n_in = 3,
     .in = {MAP(2, 5, 4, 2), MAP(2, 3, 2, 2), MAP(2, 80, 64, 3)},
     .params =
         &(const od_ssd_anchors_params){
             OD_INTS(3, 2), FLOATS(0.1f, 0.2f, 0.2f, 0.6f, 0.8f), FLOATS(1, 2, 0.5f, 3, 1), 1, 1, {0}, {0}}},
    {.name = "strides and offsets",
     .n_in = 3,
     .in = {MAP(1, 4, 4, 1), MAP(1, 2, 2, 1), MAP(1, 60, 64, 3)},
     .params = &(const od_ssd_anchors_params){OD_INTS(1, 1), FLOATS(0.2f, 0.6f), FLOATS(1, 3), 0.5f, 0.75f,
                                              FLOATS(16, 16, 32, 32), FLOATS(8, 8, 16, 16)}},
};

#define ANCHOR_OP(name_, help_, infer_, ref_, tf_, most)                                                               \
  .name = #name_, .help = help_, .min_in = 1, .max_in = most, .n_out = 1, .infer = infer_, .ref = ref_,                \
  .grad = od_grad_nothing, .write_tf = tf_, .tolerance = 1e-6

const od_op od_op_ssd_anchors = {
    ANCHOR_OP(ssd_anchors, "normalised anchors for SSD's feature maps (and the image, last)", ssd_infer, ssd_ref,
              ssd_tf, MAPS),
    .params = ssd_params,
    .params_size = sizeof(od_ssd_anchors_params),
    OD_SAMPLES(ssd_samples),
};

/* ----------------------------------------------------------------------------------------------------------------- grid */
od_value od_grid_anchors_op(od_graph *g, od_value map, const od_grid_anchors_params *p) {
  return od_graph_add(g, &od_op_grid_anchors, &map, 1, p);
}

static const od_param grid_params[] = {
    OD_PARAM(od_grid_anchors_params, scales, OD_P_FLOATS, "scales"),
    OD_PARAM(od_grid_anchors_params, aspect_ratios, OD_P_FLOATS, "aspect ratios, width / height"),
    OD_PARAM(od_grid_anchors_params, base_height, OD_P_FLOAT, "height of scale 1 in pixels"),
    OD_PARAM(od_grid_anchors_params, base_width, OD_P_FLOAT, "width of scale 1 in pixels"),
    OD_PARAM(od_grid_anchors_params, height_stride, OD_P_FLOAT, "pixels from place to place"),
    OD_PARAM(od_grid_anchors_params, width_stride, OD_P_FLOAT, "pixels from place to place"),
    OD_PARAM(od_grid_anchors_params, height_offset, OD_P_FLOAT, "pixel of the first centre"),
    OD_PARAM(od_grid_anchors_params, width_offset, OD_P_FLOAT, "pixel of the first centre"),
    {0}};

/* Config numbers as the doubles that they are in the original. */
static int doubles(double *out, od_floats v, int at, int n) {
  int i = 0;
  for (; i < n && i < OD_ANCHORS_MAX; i++) out[i] = (double)v.v[at + i];
  return i;
}

static int grid_count(const void *params, int layer) {
  const od_grid_anchors_params *p = params;
  (void)layer;
  return p->scales.n * p->aspect_ratios.n;
}

static od_status grid_check(const void *params, int n_maps) {
  (void)params;
  return n_maps == 1 ? OD_OK : od_fail(OD_EINVAL, "grid anchors are for one feature map, not %d", n_maps);
}

static od_status grid_fill(od_anchor_grid *g, const void *params, int layer, const int64_t grid[2],
                           const int64_t image[2]) {
  const od_grid_anchors_params *p = params;
  (void)layer, (void)grid, (void)image;
  double scales[OD_ANCHORS_MAX], ratios[OD_ANCHORS_MAX];
  int n = doubles(scales, p->scales, 0, p->scales.n), m = doubles(ratios, p->aspect_ratios, 0, p->aspect_ratios.n);
  const float base[2] = {p->base_height, p->base_width}, stride[2] = {p->height_stride, p->width_stride};
  return od_anchors_grid(g, scales, n, ratios, m, base, stride, (const float[2]){p->height_offset, p->width_offset});
}

static const family grid = {false, grid_count, grid_check, grid_fill};
static od_status grid_infer(const od_infer *c) { return infer_family(c, &grid); }
static od_status grid_ref(const od_call *c) { return ref_family(c, &grid); }

static od_status grid_tf(od_tf *t, const od_node *n) {
  od_anchor_grid a;
  tf_grid g = {.grid = {NULL}};
  OD_TRY(grid_fill(&a, n->params, 0, NULL, NULL));
  grid_of(t, &g, n, 0);
  constants_tf(t, &g, &a);
  const char *boxes = tile_tf(t, &g);
  return finish_tf(t, &boxes, 1);
}

static const od_sample grid_samples[] = {
    {.name = "two scales, three ratios",
     .n_in = 1,
     .in = {MAP(1, 3, 5, 8)},
     .params = &(const od_grid_anchors_params){FLOATS(0.25f, 1), FLOATS(0.5f, 1, 2), 256, 256, 16, 16, 0, 0}},
    {.name = "offsets",
     .n_in = 1,
     .in = {MAP(1, 4, 2, 8)},
     .params = &(const od_grid_anchors_params){FLOATS(0.5f), FLOATS(1, 3), 64, 48, 8, 12, 4, 3}},
};

const od_op od_op_grid_anchors = {
    ANCHOR_OP(grid_anchors, "anchors of one feature map in pixels", grid_infer, grid_ref, grid_tf, 1),
    .params = grid_params,
    .params_size = sizeof(od_grid_anchors_params),
    OD_SAMPLES(grid_samples),
};

/* ----------------------------------------------------------------------------------------------------------- multiscale */
od_value od_multiscale_anchors_op(od_graph *g, const od_value *maps, int n, od_value image,
                                  const od_multiscale_anchors_params *p) {
  return add(g, &od_op_multiscale_anchors, maps, n, image, p);
}

static const od_param multiscale_params[] = {
    OD_PARAM_IN(od_multiscale_anchors_params, min_level, OD_P_INT, "level of the first map", 0, 30),
    OD_PARAM_IN(od_multiscale_anchors_params, max_level, OD_P_INT, "level of the last map", 0, 30),
    OD_PARAM(od_multiscale_anchors_params, anchor_scale, OD_P_FLOAT, "size of scale 1 in strides"),
    OD_PARAM(od_multiscale_anchors_params, aspect_ratios, OD_P_FLOATS, "aspect ratios, width / height"),
    OD_PARAM_IN(od_multiscale_anchors_params, scales_per_octave, OD_P_INT, "scales from one level to the next", 1,
                OD_ANCHORS_MAX),
    OD_PARAM(od_multiscale_anchors_params, normalize, OD_P_BOOL, "relative to the image instead of in pixels"),
    OD_PARAM(od_multiscale_anchors_params, size_known, OD_P_BOOL, "the original knows the image's size while building"),
    {0}};

static int multiscale_count(const void *params, int layer) {
  const od_multiscale_anchors_params *p = params;
  (void)layer;
  return p->aspect_ratios.n * (int)p->scales_per_octave;
}

static od_status multiscale_check(const void *params, int n_maps) {
  const od_multiscale_anchors_params *p = params;
  int64_t levels = p->max_level - p->min_level + 1;
  return levels == n_maps ? OD_OK
                          : od_fail(OD_EINVAL, "anchors of %lld levels for %d feature maps", (long long)levels, n_maps);
}

static od_status multiscale_fill(od_anchor_grid *g, const void *params, int layer, const int64_t places[2],
                                 const int64_t image[2]) {
  const od_multiscale_anchors_params *p = params;
  (void)places;
  double ratios[OD_ANCHORS_MAX];
  int n = doubles(ratios, p->aspect_ratios, 0, p->aspect_ratios.n);
  return od_anchors_multiscale(g, (int)p->min_level + layer, (double)p->anchor_scale, ratios, n,
                               (int)p->scales_per_octave, p->normalize, !p->size_known, image);
}

static const family multiscale = {true, multiscale_count, multiscale_check, multiscale_fill};
static od_status multiscale_infer(const od_infer *c) { return infer_family(c, &multiscale); }
static od_status multiscale_ref(const od_call *c) { return ref_family(c, &multiscale); }

/* 1 / pixels of each side. */
static void normalise_tf(od_tf *t, const char *scale[2], const char *const size[2]) {
  for (int k = 0; k < 2; k++)
    scale[k] = od_tf_two(t, "RealDiv", "scale", od_tf_const_f32(t, "one", 1),
                         od_tf_cast(t, "pixels", size[k], OD_I32, OD_F32));
}

/* Half a stride where the side is a multiple of the stride (or 1), else 0. */
static const char *half_if_divides(od_tf *t, const char *side, int64_t stride) {
  const char *rest =
      od_tf_op(t, "FloorMod", "rest", OD_I32, OD_TF_INPUTS(side, od_tf_const_i32(t, "stride", (int32_t)stride)));
  const char *divides = od_tf_op(t, "Equal", "divides", OD_I32, OD_TF_INPUTS(rest, od_tf_const_i32(t, "zero", 0)));
  const char *is_one = od_tf_op(t, "Equal", "is_one", OD_I32, OD_TF_INPUTS(side, od_tf_const_i32(t, "one", 1)));
  const char *either = od_tf_add(t, "LogicalOr", "shifted", OD_TF_INPUTS(divides, is_one));
  const char *half = od_tf_const_f32(t, "half", (float)stride / 2), *none = od_tf_const_f32(t, "none", 0);
  return od_tf_op(t, "Select", "offset", OD_F32, OD_TF_INPUTS(either, half, none));
}

static od_status multiscale_tf(od_tf *t, const od_node *n) {
  const od_multiscale_anchors_params *p = n->params;
  const char *boxes[MAPS], *size[2], *scale[2] = {NULL, NULL};
  image_of(t, size, n);
  if (p->normalize) normalise_tf(t, scale, size);
  for (int i = 0; i < n->n_in - 1; i++) {
    od_anchor_grid a;
    tf_grid g = {.grid = {NULL}};
    OD_TRY(multiscale_fill(&a, p, i, NULL, (const int64_t[2]){1, 1}));
    grid_of(t, &g, n, i);
    constants_tf(t, &g, &a);
    for (int k = 0; k < 2; k++) {
      g.scale[k] = scale[k];
      if (p->size_known) g.offset[k] = half_if_divides(t, size[k], (int64_t)1 << (p->min_level + i));
    }
    boxes[i] = tile_tf(t, &g);
  }
  return finish_tf(t, boxes, n->n_in - 1);
}

static const od_sample multiscale_samples[] = {
    {.name = "three levels",
     .n_in = 4,
     .in = {MAP(1, 8, 6, 1), MAP(1, 4, 3, 1), MAP(1, 2, 2, 1), MAP(1, 64, 48, 3)},
     .params = &(const od_multiscale_anchors_params){3, 5, 4, FLOATS(1, 2, 0.5f), 2, true, true}},
    {.name = "pixels, size not known",
     .n_in = 2,
     .in = {MAP(1, 5, 3, 1), MAP(1, 37, 24, 3)},
     .params = &(const od_multiscale_anchors_params){3, 3, 3, FLOATS(1), 3, false, false}},
};

const od_op od_op_multiscale_anchors = {
    ANCHOR_OP(multiscale_anchors, "anchors of pyramid levels (and the image, last)", multiscale_infer, multiscale_ref,
              multiscale_tf, MAPS),
    .params = multiscale_params,
    .params_size = sizeof(od_multiscale_anchors_params),
    OD_SAMPLES(multiscale_samples),
};

/* ------------------------------------------------------------------------------------------------------------- flexible */
od_value od_flexible_anchors_op(od_graph *g, const od_value *maps, int n, od_value image,
                                const od_flexible_anchors_params *p) {
  return add(g, &od_op_flexible_anchors, maps, n, image, p);
}

static const od_param flexible_params[] = {
    OD_PARAM_IN(od_flexible_anchors_params, per_layer, OD_P_INTS, "anchors at a place, a layer each", 1,
                OD_ANCHORS_MAX),
    OD_PARAM(od_flexible_anchors_params, sizes, OD_P_FLOATS, "sizes in pixels, layer after layer"),
    OD_PARAM(od_flexible_anchors_params, aspect_ratios, OD_P_FLOATS, "their aspect ratios, width / height"),
    OD_PARAM(od_flexible_anchors_params, strides, OD_P_FLOATS, "y, x a layer, pixels"),
    OD_PARAM(od_flexible_anchors_params, offsets, OD_P_FLOATS, "y, x a layer, pixels"),
    OD_PARAM(od_flexible_anchors_params, normalize, OD_P_BOOL, "relative to the image instead of in pixels"),
    {0}};

static int flexible_count(const void *params, int layer) {
  const od_flexible_anchors_params *p = params;
  return (int)p->per_layer.v[layer];
}

static od_status flexible_check(const void *params, int n_maps) {
  const od_flexible_anchors_params *p = params;
  if (!p->strides.n || !p->offsets.n) return od_fail(OD_EINVAL, "flexible anchors need strides and offsets");
  return check_layers(p->per_layer, n_maps, p->sizes.n, p->aspect_ratios.n, p->strides.n, p->offsets.n);
}

static od_status flexible_fill(od_anchor_grid *g, const void *params, int layer, const int64_t places[2],
                               const int64_t image[2]) {
  const od_flexible_anchors_params *p = params;
  (void)places;
  double sizes[OD_ANCHORS_MAX], ratios[OD_ANCHORS_MAX];
  int at = offset_of(p->per_layer, layer), n = doubles(sizes, p->sizes, at, flexible_count(p, layer));
  doubles(ratios, p->aspect_ratios, at, n);
  return od_anchors_flexible(g, sizes, ratios, n, p->strides.v + 2 * layer, p->offsets.v + 2 * layer, p->normalize,
                             image);
}

static const family flexible = {true, flexible_count, flexible_check, flexible_fill};
static od_status flexible_infer(const od_infer *c) { return infer_family(c, &flexible); }
static od_status flexible_ref(const od_call *c) { return ref_family(c, &flexible); }

static od_status flexible_tf(od_tf *t, const od_node *n) {
  const od_flexible_anchors_params *p = n->params;
  const char *boxes[MAPS], *size[2], *scale[2] = {NULL, NULL};
  image_of(t, size, n);
  if (p->normalize) normalise_tf(t, scale, size);
  for (int i = 0; i < n->n_in - 1; i++) {
    od_anchor_grid a;
    tf_grid g = {.grid = {NULL}};
    OD_TRY(flexible_fill(&a, p, i, NULL, (const int64_t[2]){1, 1}));
    grid_of(t, &g, n, i);
    constants_tf(t, &g, &a);
    for (int k = 0; k < 2; k++) g.scale[k] = scale[k];
    boxes[i] = tile_tf(t, &g);
  }
  return finish_tf(t, boxes, n->n_in - 1);
}

static const od_sample flexible_samples[] = {
    {.name = "two layers",
     .n_in = 3,
     .in = {MAP(1, 4, 5, 1), MAP(1, 2, 2, 1), MAP(1, 64, 80, 3)},
     .params = &(const od_flexible_anchors_params){OD_INTS(2, 1), FLOATS(32, 48, 64), FLOATS(1, 2, 0.5f),
                                                   FLOATS(16, 16, 32, 32), FLOATS(8, 8, 16, 16), true}},
};

const od_op od_op_flexible_anchors = {
    ANCHOR_OP(flexible_anchors, "anchors of grids spelled out (and the image, last)", flexible_infer, flexible_ref,
              flexible_tf, MAPS),
    .params = flexible_params,
    .params_size = sizeof(od_flexible_anchors_params),
    OD_SAMPLES(flexible_samples),
};
