/* resize_image: the config's image resizer (image/resizer.h) on a batch whose pictures have one size, and the size each has
 * before padding. Pictures are data, so nothing flows back. */
#include <string.h>

#include "base/mem.h"
#include "image/resizer.h"
#include "ops/detect.h"
#include "ops/detect_tf.h"
#include "ops/table.h"

static const char *const kinds[] = {"identity", "fixed_shape", "keep_aspect_ratio", "pad_to_multiple", "shrink",
                                    "enlarge",  NULL};
static const char *const methods[] = {"bilinear", "nearest", "bicubic", "area", NULL};
_Static_assert(OD_RESIZE_BILINEAR == 0 && OD_RESIZE_NEAREST == 1 && OD_RESIZE_BICUBIC == 2 && OD_RESIZE_AREA == 3,
               "names in the order of od_resize_method");
static const od_param params[] = {
    OD_PARAM_ENUM(od_resize_image_params, kind, "which resizer", kinds),
    OD_PARAM_ENUM(od_resize_image_params, method, "how pixels are made", methods),
    OD_PARAM_IN(od_resize_image_params, height, OD_P_INT, "fixed_shape", 0, 1 << 20),
    OD_PARAM_IN(od_resize_image_params, width, OD_P_INT, "fixed_shape", 0, 1 << 20),
    OD_PARAM_IN(od_resize_image_params, min_dimension, OD_P_INT, "keep_aspect_ratio; shrink, enlarge: the threshold", 0,
                1 << 20),
    OD_PARAM_IN(od_resize_image_params, max_dimension, OD_P_INT, "keep_aspect_ratio", 0, 1 << 20),
    OD_PARAM(od_resize_image_params, pad_to_max_dimension, OD_P_BOOL, "keep_aspect_ratio: fill up to a square"),
    OD_PARAM(od_resize_image_params, pad_value, OD_P_FLOATS, "of the filling, one a channel; none: 0"),
    OD_PARAM_IN(od_resize_image_params, multiple, OD_P_INT, "pad_to_multiple", 0, 1 << 20),
    OD_PARAM(od_resize_image_params, convert_to_grayscale, OD_P_BOOL, "one channel afterwards"),
    {0}};

od_value od_resize_image(od_graph *g, od_value images, const od_resize_image_params *p) {
  return od_graph_add(g, &od_op_resize_image, &images, 1, p);
}

static od_resizer resizer_of(const od_resize_image_params *p) {
  static const od_resizer_kind kind[] = {OD_RESIZER_IDENTITY,        OD_RESIZER_FIXED,  OD_RESIZER_KEEP_ASPECT,
                                         OD_RESIZER_PAD_TO_MULTIPLE, OD_RESIZER_SHRINK, OD_RESIZER_ENLARGE};
  return (od_resizer){.kind = kind[p->kind],
                      .height = (int)p->height,
                      .width = (int)p->width,
                      .min_dimension = (int)p->min_dimension,
                      .max_dimension = (int)p->max_dimension,
                      .multiple = (int)p->multiple,
                      .method = (od_resize_method)p->method,
                      .pad_to_max = p->pad_to_max_dimension};
}

static bool aligned(const od_resize_image_params *p) {
  return p->kind == OD_RESIZE_SHRINK || p->kind == OD_RESIZE_ENLARGE;
}

static od_status check(const od_resize_image_params *p, int64_t channels) {
  bool ok = true;
  if (p->kind == OD_RESIZE_FIXED_SHAPE) ok = p->height > 0 && p->width > 0;
  if (p->kind == OD_RESIZE_KEEP_ASPECT_RATIO) ok = p->min_dimension > 0 && p->max_dimension >= p->min_dimension;
  if (aligned(p)) ok = p->min_dimension > 0;
  if (p->kind == OD_RESIZE_PAD_TO_MULTIPLE) ok = p->multiple > 0;
  if (!ok) return od_fail(OD_EINVAL, "the sizes of resizer %s are not positive (or min above max)", kinds[p->kind]);
  if (p->convert_to_grayscale && channels >= 0 && channels != 3)
    return od_fail(OD_EINVAL, "grey is made of 3 channels, there are %lld", (long long)channels);
  if (p->pad_value.n && channels >= 0 && p->pad_value.n != channels)
    return od_fail(OD_EINVAL, "%d pad values for %lld channels", p->pad_value.n, (long long)channels);
  return OD_OK;
}

static od_status infer(const od_infer *c) {
  const od_resize_image_params *p = c->params;
  OD_TRY(od_want(c, 0, OD_F32, 4));
  const int64_t *in = c->in[0].shape.dim;
  OD_TRY(check(p, in[3]));
  int64_t h = -1, w = -1;
  od_resizer r = resizer_of(p);
  od_resizer_size s;
  if (in[1] >= 0 && in[2] >= 0) {
    OD_TRY(od_resizer_target(&s, &r, (int)in[1], (int)in[2]));
    h = s.out_height, w = s.out_width;
  } else if (p->kind == OD_RESIZE_FIXED_SHAPE) {
    h = p->height, w = p->width;
  } else if (p->kind == OD_RESIZE_KEEP_ASPECT_RATIO && p->pad_to_max_dimension) {
    h = w = p->max_dimension;
  }
  c->out[0] = (od_type){OD_F32, {4, {in[0], h, w, p->convert_to_grayscale ? 1 : in[3]}}};
  c->out[1] = (od_type){OD_I32, {2, {in[0], 3}}};
  return OD_OK;
}

static void fill(float *out, const od_resizer_size *s, const od_resize_image_params *p, int64_t channels) {
  for (int y = 0; y < s->out_height; y++) {
    float *line = out + (int64_t)y * s->out_width * channels;
    for (int64_t x = (y < s->height ? s->width : 0) * channels; x < s->out_width * channels; x++)
      line[x] = p->pad_value.n ? p->pad_value.v[x % channels] : 0;
  }
}

/* Three channels at in to one at out, which may be the same place. */
static void to_grey(float *out, const float *in, int64_t pixels) {
  for (int64_t i = 0; i < pixels; i++, in += 3) out[i] = in[0] * 0.2989f + in[1] * 0.5870f + in[2] * 0.1140f;
}

static size_t scratch(const od_infer *c) {
  const od_resize_image_params *p = c->params;
  const int64_t *d = c->out[0].shape.dim;
  return p->convert_to_grayscale ? (size_t)(d[1] * d[2]) * 3 * sizeof(float) : 0;
}

static od_status ref(const od_call *c) {
  const od_resize_image_params *p = c->params;
  od_resizer r = resizer_of(p);
  const int64_t *d = c->in[0].shape.dim;
  od_resizer_size s;
  if (d[0] == 0) return OD_OK;
  OD_TRY(od_resizer_target(&s, &r, (int)d[1], (int)d[2]));
  const float *in = c->in[0].data;
  float *out = c->out[0].data;
  int32_t *shape = c->out[1].data;
  int64_t pixels = (int64_t)s.out_height * s.out_width, channels = d[3];
  bool same = s.height == d[1] && s.width == d[2]; /* a copy */
  for (int64_t i = 0; i < d[0];
       i++, in += d[1] * d[2] * channels, out += pixels * (p->convert_to_grayscale ? 1 : channels), shape += 3) {
    float *to = p->convert_to_grayscale ? c->scratch : out;
    OD_TRY(od_resize(to, s.height, s.width, (size_t)s.out_width * (size_t)channels, in, OD_F32, (int)d[1], (int)d[2],
                     (int)channels, same ? OD_RESIZE_NEAREST : r.method,
                     aligned(p) ? OD_CORNERS_ALIGN : OD_CORNERS_LEGACY));
    fill(to, &s, p, channels);
    if (p->convert_to_grayscale) to_grey(out, to, pixels);
    shape[0] = s.height;
    shape[1] = s.width;
    shape[2] = (int32_t)c->out[0].shape.dim[3];
  }
  return OD_OK;
}

/* ----------------------------------------------------------------------------------------------------------- TensorFlow */
static const char *i32(od_tf *t, const char *op, const char *suffix, const char *a, const char *b) {
  return od_tf_op(t, op, suffix, OD_I32, OD_TF_INPUTS(a, b));
}

/* New height and width (int32 scalars) of a picture of this size, in the original's float arithmetic. */
static void target_tf(od_tf *t, const od_resize_image_params *p, const char *const in[2], const char *out[2]) {
  const char *side[2];
  for (int k = 0; k < 2; k++) side[k] = od_tf_cast(t, "pixels", in[k], OD_I32, OD_F32);
  if (p->kind == OD_RESIZE_KEEP_ASPECT_RATIO) {
    const char *wide = i32(t, "Less", "is_wide", in[0], in[1]), *factor[2];
    const char *low = od_tf_const_f32(t, "min_dimension", (float)p->min_dimension),
               *high = od_tf_const_f32(t, "max_dimension", (float)p->max_dimension);
    for (int k = 0; k < 2; k++) {
      const char *room = od_tf_op(t, "Select", "room", OD_F32, OD_TF_INPUTS(wide, k ? high : low, k ? low : high));
      factor[k] = od_tf_two(t, "RealDiv", "factor", room, side[k]);
    }
    const char *f = od_tf_two(t, "Minimum", "scale", factor[0], factor[1]);
    for (int k = 0; k < 2; k++) {
      const char *x = od_tf_op(t, "Round", "rounded", OD_F32, OD_TF_INPUTS(od_tf_two(t, "Mul", "scaled", f, side[k])));
      out[k] = od_tf_cast(t, "size", x, OD_F32, OD_I32);
    }
    return;
  }
  bool shrink = p->kind == OD_RESIZE_SHRINK;
  const char *limit = od_tf_const_i32(t, "threshold", (int32_t)p->min_dimension);
  const char *which = i32(t, shrink ? "Maximum" : "Minimum", "side", in[0], in[1]);
  const char *goal = i32(t, shrink ? "Minimum" : "Maximum", "goal", which, limit);
  const char *ratio = od_tf_two(t, "RealDiv", "ratio", od_tf_cast(t, "goal", goal, OD_I32, OD_F32),
                                od_tf_cast(t, "side", which, OD_I32, OD_F32));
  for (int k = 0; k < 2; k++)
    out[k] = od_tf_cast(t, "size", od_tf_two(t, "Mul", "scaled", side[k], ratio), OD_F32, OD_I32);
}

static const char *resize_tf(od_tf *t, const od_resize_image_params *p, const char *images, const char *const size[2]) {
  static const char *const ops[] = {"ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic", "ResizeArea"};
  const char *x =
      od_tf_op(t, ops[p->method], "resized", OD_F32, OD_TF_INPUTS(images, od_tf_stack(t, "sizes", size, 2)));
  od_tf_attr_bool(t, "align_corners",
                  aligned(p)); /* half_pixel_centers stays false: early TensorFlow 1 does not know it */
  return x;
}

/* Filled at the bottom and right from `size` to `full`. */
static const char *pad_tf(od_tf *t, const od_resize_image_params *p, const char *x, const char *const size[2],
                          const char *const full[2]) {
  const char *zero = od_tf_const_i32(t, "zero", 0);
  const char *more[2] = {i32(t, "Sub", "more", full[0], size[0]), i32(t, "Sub", "more", full[1], size[1])};
  const char *amounts[8] = {zero, zero, zero, more[0], zero, more[1], zero, zero};
  const char *pads = OD_TF_RESHAPE(t, "paddings", od_tf_stack(t, "amounts", amounts, 8), OD_I32, 4, 2);
  enum { CHANNELS = 64 };
  const char *part[CHANNELS];
  bool some = false;
  for (int k = 0; k < p->pad_value.n; k++) some = some || p->pad_value.v[k] != 0;
  if (!some || p->pad_value.n > CHANNELS) {
    const char *padded = od_tf_op(t, "Pad", "padded", OD_F32, OD_TF_INPUTS(x, pads));
    od_tf_attr_type(t, "Tpaddings", OD_I32);
    return padded;
  }
  for (int k = 0; k < p->pad_value.n; k++) {
    const char *channel = od_tf_column(t, "channel", x, 4, k, OD_F32),
               *value = od_tf_const_f32(t, "value", p->pad_value.v[k]);
    part[k] = od_tf_op(t, "PadV2", "padded", OD_F32, OD_TF_INPUTS(channel, pads, value));
    od_tf_attr_type(t, "Tpaddings", OD_I32);
  }
  return od_tf_concat(t, "channels", part, p->pad_value.n, 3, OD_F32);
}

static const char *grey_tf(od_tf *t, const char *x) {
  static const float weight[3] = {0.2989f, 0.5870f, 0.1140f};
  const char *sum = NULL;
  for (int k = 0; k < 3; k++) {
    const char *v = od_tf_two(t, "Mul", "weighted", od_tf_column(t, "channel", x, 4, k, OD_F32),
                              od_tf_const_f32(t, "weight", weight[k]));
    sum = sum ? od_tf_two(t, "Add", "grey", sum, v) : v;
  }
  return sum;
}

static od_status write_tf(od_tf *t, const od_node *n) {
  const od_resize_image_params *p = n->params;
  OD_TRY(check(p, od_dim(n->in[0], 3)));
  const char *shape = od_tf_shape_of(t, "shape", od_tf_in(t, 0), OD_F32), *in[2], *size[2], *full[2],
             *x = od_tf_in(t, 0);
  for (int k = 0; k < 2; k++) size[k] = full[k] = in[k] = od_tf_element(t, "side", shape, 1 + k);
  if (p->kind == OD_RESIZE_FIXED_SHAPE) {
    size[0] = od_tf_const_i32(t, "height", (int32_t)p->height);
    size[1] = od_tf_const_i32(t, "width", (int32_t)p->width);
  } else if (p->kind == OD_RESIZE_PAD_TO_MULTIPLE) {
    const char *m = od_tf_const_i32(t, "multiple", (int32_t)p->multiple),
               *up = od_tf_const_i32(t, "up", (int32_t)p->multiple - 1);
    for (int k = 0; k < 2; k++)
      full[k] = i32(t, "Mul", "full", i32(t, "FloorDiv", "multiples", i32(t, "Add", "more", in[k], up), m), m);
  } else if (p->kind != OD_RESIZE_IDENTITY) {
    target_tf(t, p, in, size);
  }
  bool pads = p->kind == OD_RESIZE_PAD_TO_MULTIPLE,
       squares = p->kind == OD_RESIZE_KEEP_ASPECT_RATIO && p->pad_to_max_dimension;
  if (!pads && p->kind != OD_RESIZE_IDENTITY) x = resize_tf(t, p, x, size);
  if (squares) full[0] = full[1] = od_tf_const_i32(t, "square", (int32_t)p->max_dimension);
  if (pads || squares) x = pad_tf(t, p, x, size, full);
  if (p->convert_to_grayscale) x = grey_tf(t, x);
  od_tf_out(t, 0, od_tf_op(t, "Identity", NULL, OD_F32, OD_TF_INPUTS(x)));
  const char *true_shape[3] = {size[0], size[1],
                               p->convert_to_grayscale ? od_tf_const_i32(t, "one", 1)
                                                       : od_tf_element(t, "channels", shape, 3)};
  const char *row = od_tf_expand(t, "row", od_tf_stack(t, "true_shape", true_shape, 3), 0, OD_I32);
  const char *times[2] = {od_tf_element(t, "batch", shape, 0), od_tf_const_i32(t, "one", 1)};
  od_tf_out(t, 1, od_tf_tile(t, "true_shapes", row, od_tf_stack(t, "times", times, 2), OD_I32));
  return OD_OK;
}

#define PICTURES OD_F32_IN(0, 255, 2, 9, 14, 3)
static const od_sample samples[] = {
    {.name = "fixed shape",
     .params = &(const od_resize_image_params){.kind = OD_RESIZE_FIXED_SHAPE, .height = 12, .width = 7},
     .n_in = 1,
     .in = {PICTURES}},
    {.name = "shape kept, padded",
     .n_in = 1,
     .in = {PICTURES},
     .params = &(const od_resize_image_params){.kind = OD_RESIZE_KEEP_ASPECT_RATIO,
                                               .min_dimension = 12,
                                               .max_dimension = 16,
                                               .pad_to_max_dimension = true,
                                               .pad_value = {3, (const float[]){1, 2, 3}}}},
    {.name = "shape kept, grey",
     .n_in = 1,
     .in = {PICTURES},
     .params = &(const od_resize_image_params){.kind = OD_RESIZE_KEEP_ASPECT_RATIO,
                                               .min_dimension = 6,
                                               .max_dimension = 16,
                                               .convert_to_grayscale = true}},
    {.name = "padded to a multiple",
     .params = &(const od_resize_image_params){.kind = OD_RESIZE_PAD_TO_MULTIPLE, .multiple = 8},
     .n_in = 1,
     .in = {PICTURES}},
    {.name = "as it is",
     .params = &(const od_resize_image_params){.kind = OD_RESIZE_IDENTITY},
     .n_in = 1,
     .in = {PICTURES}},
    {.name = "shrunk",
     .params = &(const od_resize_image_params){.kind = OD_RESIZE_SHRINK, .min_dimension = 10},
     .n_in = 1,
     .in = {PICTURES}},
};

const od_op od_op_resize_image = {
    .name = "resize_image",
    .help = "the config's image resizer, and the sizes before padding",
    .params = params,
    .params_size = sizeof(od_resize_image_params),
    .min_in = 1,
    .max_in = 1,
    .n_out = 2,
    .infer = infer,
    .ref = ref,
    .scratch = scratch,
    .no_grad = "pictures are data",
    .write_tf = write_tf,
    OD_SAMPLES(samples),
    .tolerance = 1e-6,
};
