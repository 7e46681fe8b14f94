/* Sizes and padding by the config's image resizer. */
#include "image/resizer.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

typedef ObjectDetection__Protos__ImageResizer message;

static od_status keep_aspect(od_resizer *out, const ObjectDetection__Protos__KeepAspectRatioResizer *m) {
  out->kind = OD_RESIZER_KEEP_ASPECT;
  out->min_dimension = m->min_dimension;
  out->max_dimension = m->max_dimension;
  out->method = (od_resize_method)m->resize_method;
  out->pad_to_max = m->pad_to_max_dimension;
  out->grayscale = m->convert_to_grayscale;
  if (m->min_dimension > m->max_dimension || m->min_dimension <= 0)
    return od_fail(OD_EINVAL,
                   "keep_aspect_ratio_resizer: min_dimension %d, max_dimension %d; 0 < min_dimension <= max_dimension "
                   "is needed",
                   m->min_dimension, m->max_dimension);
  if (m->n_per_channel_pad_value != 0 && m->n_per_channel_pad_value != 3)
    return od_fail(OD_EINVAL, "keep_aspect_ratio_resizer: per_channel_pad_value is given %zu times, 3 are needed",
                   m->n_per_channel_pad_value);
  for (size_t i = 0; i < m->n_per_channel_pad_value; i++) out->pad_value[i] = m->per_channel_pad_value[i];
  return OD_OK;
}

static od_status conditional(od_resizer *out, const ObjectDetection__Protos__ConditionalShapeResizer *m) {
  switch (m->condition) {
  case OBJECT_DETECTION__PROTOS__CONDITIONAL_SHAPE_RESIZER__RESIZE_CONDITION__GREATER:
    out->kind = OD_RESIZER_SHRINK;
    break;
  case OBJECT_DETECTION__PROTOS__CONDITIONAL_SHAPE_RESIZER__RESIZE_CONDITION__SMALLER:
    out->kind = OD_RESIZER_ENLARGE;
    break;
  default: return od_fail(OD_EINVAL, "conditional_shape_resizer: condition must be GREATER or SMALLER");
  }
  out->min_dimension = m->size_threshold;
  out->method = (od_resize_method)m->resize_method;
  out->grayscale = m->convert_to_grayscale;
  if (m->size_threshold <= 0)
    return od_fail(OD_EINVAL, "conditional_shape_resizer: size_threshold %d must be positive", m->size_threshold);
  return OD_OK;
}

od_status od_resizer_from_config(od_resizer *out, const message *m) {
  memset(out, 0, sizeof *out);
  switch (m->image_resizer_oneof_case) {
  case OBJECT_DETECTION__PROTOS__IMAGE_RESIZER__IMAGE_RESIZER_ONEOF_KEEP_ASPECT_RATIO_RESIZER:
    return keep_aspect(out, m->keep_aspect_ratio_resizer);
  case OBJECT_DETECTION__PROTOS__IMAGE_RESIZER__IMAGE_RESIZER_ONEOF_FIXED_SHAPE_RESIZER:
    out->kind = OD_RESIZER_FIXED;
    out->height = m->fixed_shape_resizer->height;
    out->width = m->fixed_shape_resizer->width;
    out->method = (od_resize_method)m->fixed_shape_resizer->resize_method;
    out->grayscale = m->fixed_shape_resizer->convert_to_grayscale;
    if (out->height <= 0 || out->width <= 0)
      return od_fail(OD_EINVAL, "fixed_shape_resizer: height %d, width %d; both must be positive", out->height,
                     out->width);
    return OD_OK;
  case OBJECT_DETECTION__PROTOS__IMAGE_RESIZER__IMAGE_RESIZER_ONEOF_IDENTITY_RESIZER:
    out->kind = OD_RESIZER_IDENTITY;
    return OD_OK;
  case OBJECT_DETECTION__PROTOS__IMAGE_RESIZER__IMAGE_RESIZER_ONEOF_CONDITIONAL_SHAPE_RESIZER:
    return conditional(out, m->conditional_shape_resizer);
  case OBJECT_DETECTION__PROTOS__IMAGE_RESIZER__IMAGE_RESIZER_ONEOF_PAD_TO_MULTIPLE_RESIZER:
    out->kind = OD_RESIZER_PAD_TO_MULTIPLE;
    out->multiple = m->pad_to_multiple_resizer->multiple;
    out->grayscale = m->pad_to_multiple_resizer->convert_to_grayscale;
    if (out->multiple <= 0)
      return od_fail(OD_EINVAL, "pad_to_multiple_resizer: multiple %d must be positive", out->multiple);
    return OD_OK;
  default:
    return od_fail(OD_EINVAL, "image_resizer names no resizer; keep_aspect_ratio_resizer, fixed_shape_resizer, "
                              "identity_resizer, conditional_shape_resizer or pad_to_multiple_resizer is needed");
  }
}

/* Shorter side to min unless the longer one passes max: the larger of the factors that stay inside a box of min x max,
 * turned as the picture is. */
static void keep_aspect_size(od_resizer_size *s, const od_resizer *r, int h, int w) {
  float box_h = (float)(h < w ? r->min_dimension : r->max_dimension);
  float box_w = (float)(h < w ? r->max_dimension : r->min_dimension);
  float fh = box_h / (float)h, fw = box_w / (float)w, f = fh < fw ? fh : fw;
  s->height = (int)rintf(f * (float)h);
  s->width = (int)rintf(f * (float)w);
  s->out_height = r->pad_to_max ? r->max_dimension : s->height;
  s->out_width = r->pad_to_max ? r->max_dimension : s->width;
}

static void conditional_size(od_resizer_size *s, const od_resizer *r, int h, int w) {
  int side = r->kind == OD_RESIZER_SHRINK ? (h > w ? h : w) : (h < w ? h : w);
  int limit = r->min_dimension;
  int target = r->kind == OD_RESIZER_SHRINK ? (side < limit ? side : limit) : (side > limit ? side : limit);
  float ratio = (float)target / (float)side;
  s->out_height = s->height = (int)((float)h * ratio); /* truncated, as the original */
  s->out_width = s->width = (int)((float)w * ratio);
}

bool od_resizer_varies(const od_resizer *r) {
  return r->kind != OD_RESIZER_FIXED && !(r->kind == OD_RESIZER_KEEP_ASPECT && r->pad_to_max);
}

od_status od_resizer_target(od_resizer_size *s, const od_resizer *r, int h, int w) {
  if (h <= 0 || w <= 0) return od_fail(OD_EDATA, "a picture of %d x %d pixels cannot be resized", w, h);
  *s = (od_resizer_size){h, w, h, w};
  switch (r->kind) {
  case OD_RESIZER_IDENTITY: break;
  case OD_RESIZER_FIXED: *s = (od_resizer_size){r->height, r->width, r->height, r->width}; break;
  case OD_RESIZER_KEEP_ASPECT: keep_aspect_size(s, r, h, w); break;
  case OD_RESIZER_SHRINK:
  case OD_RESIZER_ENLARGE: conditional_size(s, r, h, w); break;
  case OD_RESIZER_PAD_TO_MULTIPLE:
    s->out_height = (h + r->multiple - 1) / r->multiple * r->multiple;
    s->out_width = (w + r->multiple - 1) / r->multiple * r->multiple;
    break;
  }
  if (s->height < 1 || s->width < 1)
    return od_fail(OD_EDATA,
                   "a picture of %d x %d pixels (width x height) is so narrow that the resizer leaves nothing of it "
                   "(%d x %d): crop it or leave it out",
                   w, h, s->width, s->height);
  return OD_OK;
}

static od_corners corners_of(const od_resizer *r) {
  /* The conditional resizers of the original align corners, the others do not. */
  return r->kind == OD_RESIZER_SHRINK || r->kind == OD_RESIZER_ENLARGE ? OD_CORNERS_ALIGN : OD_CORNERS_LEGACY;
}

static void pad(od_fimage *im, const od_resizer_size *s, const float *value) {
  size_t c = (size_t)im->channels;
  for (int y = 0; y < im->height; y++) {
    float *line = im->data + (size_t)y * (size_t)im->width * c;
    for (int x = y < s->height ? s->width : 0; x < im->width; x++)
      for (size_t k = 0; k < c; k++) line[(size_t)x * c + k] = value[k];
  }
}

/* In place: one channel after the other in the same memory. */
static void to_grey(od_fimage *im) {
  size_t n = (size_t)im->height * (size_t)im->width;
  for (size_t i = 0; i < n; i++) {
    const float *p = im->data + 3 * i;
    im->data[i] = p[0] * 0.2989f + p[1] * 0.5870f + p[2] * 0.1140f;
  }
  im->channels = 1;
}

od_status od_resizer_apply(od_fimage *out, od_resizer_size *size, const od_resizer *r, const void *in, od_dtype dtype,
                           int height, int width) {
  od_resizer_size s;
  memset(out, 0, sizeof *out);
  OD_TRY(od_resizer_target(&s, r, height, width));
  if (size) *size = s;
  OD_TRY(od_fimage_new(out, s.out_height, s.out_width, 3));
  od_resize_method method = s.height == height && s.width == width ? OD_RESIZE_NEAREST : r->method; /* a copy */
  od_status st = od_resize(out->data, s.height, s.width, (size_t)s.out_width * 3, in, dtype, height, width, 3, method,
                           corners_of(r));
  if (st != OD_OK) {
    od_fimage_free(out);
    return st;
  }
  pad(out, &s, r->pad_value);
  if (r->grayscale) to_grey(out);
  return OD_OK;
}

od_status od_resizer_apply_masks(uint8_t **out, const od_resizer *r, const uint8_t *masks, int n, int height,
                                 int width) {
  od_resizer_size s;
  *out = NULL;
  OD_TRY(od_resizer_target(&s, r, height, width));
  size_t rows = (size_t)n * (size_t)s.out_height;
  OD_TRY(od_new(out, rows ? rows : 1, (size_t)s.out_width)); /* zeroed: the padding */
  for (int i = 0; i < n; i++)
    od_resize_nearest_u8(*out + (size_t)i * (size_t)s.out_height * (size_t)s.out_width, s.height, s.width,
                         (size_t)s.out_width, masks + (size_t)i * (size_t)height * (size_t)width, height, width,
                         corners_of(r));
  return OD_OK;
}
