/* Flips, quarter turns, resizing steps, and the box geometry that crops and pads share. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "data/augment_steps.h"

void od_change_frame(od_truth *t, od_window w) {
  float sy = 1.0f / (w.ymax - w.ymin), sx = 1.0f / (w.xmax - w.xmin);
  for (int i = 0; i < t->count; i++) {
    float *b = t->boxes + 4 * i;
    b[0] = (b[0] - w.ymin) * sy;
    b[1] = (b[1] - w.xmin) * sx;
    b[2] = (b[2] - w.ymin) * sy;
    b[3] = (b[3] - w.xmin) * sx;
  }
  if (!t->keypoints) return;
  for (int i = 0; i < t->count * t->keypoints_per_box; i++) {
    t->keypoints[2 * i] = (t->keypoints[2 * i] - w.ymin) * sy;
    t->keypoints[2 * i + 1] = (t->keypoints[2 * i + 1] - w.xmin) * sx;
  }
}

void od_clip_truth(od_truth *t) {
  for (int i = 0; i < 4 * t->count; i++) t->boxes[i] = fminf(fmaxf(t->boxes[i], 0.0f), 1.0f);
  if (!t->keypoints) return;
  for (int i = 0; i < t->count * t->keypoints_per_box; i++) {
    float y = t->keypoints[2 * i], x = t->keypoints[2 * i + 1];
    if (y >= 0 && y <= 1 && x >= 0 && x <= 1) continue;
    t->keypoints[2 * i] = t->keypoints[2 * i + 1] = NAN;
    t->visible[i] = 0;
  }
}

float od_covered_share(const float *b, od_window w) {
  float h = fmaxf(0.0f, fminf(b[2], w.ymax) - fmaxf(b[0], w.ymin));
  float v = fmaxf(0.0f, fminf(b[3], w.xmax) - fmaxf(b[1], w.xmin));
  return h * v / ((b[2] - b[0]) * (b[3] - b[1]));
}

static od_status cut_image(od_fimage *im, int y0, int x0, int height, int width, const float *fill) {
  od_fimage out;
  OD_TRY(od_fimage_new(&out, height, width, im->channels));
  int c = im->channels, from = x0 < 0 ? -x0 : 0, to = im->width - x0 < width ? im->width - x0 : width;
  for (int y = 0; y < height; y++) {
    float *o = out.data + (size_t)y * (size_t)width * (size_t)c;
    bool inside = y + y0 >= 0 && y + y0 < im->height && from < to;
    for (int x = 0; x < width; x++)
      if (!inside || x < from || x >= to)
        for (int k = 0; k < c; k++) o[x * c + k] = fill[k];
    if (inside)
      memcpy(o + from * c, im->data + ((size_t)(y + y0) * (size_t)im->width + (size_t)(x0 + from)) * (size_t)c,
             (size_t)(to - from) * (size_t)c * sizeof *o);
  }
  od_fimage_free(im);
  *im = out;
  return OD_OK;
}

static od_status cut_masks(od_truth *t, int y0, int x0, int height, int width) {
  uint8_t *out = NULL;
  size_t plane = (size_t)height * (size_t)width, old = (size_t)t->mask_height * (size_t)t->mask_width;
  OD_TRY(od_new(&out, (size_t)(t->count ? t->count : 1), plane));
  int from = x0 < 0 ? -x0 : 0, to = t->mask_width - x0 < width ? t->mask_width - x0 : width;
  for (int i = 0; i < t->count; i++)
    for (int y = 0; y < height; y++)
      if (y + y0 >= 0 && y + y0 < t->mask_height && from < to)
        memcpy(out + (size_t)i * plane + (size_t)y * (size_t)width + (size_t)from,
               t->masks + (size_t)i * old + (size_t)(y + y0) * (size_t)t->mask_width + (size_t)(x0 + from),
               (size_t)(to - from));
  od_free(t->masks);
  t->masks = out;
  t->mask_height = height;
  t->mask_width = width;
  return OD_OK;
}

od_status od_cut(od_picture *s, int y, int x, int height, int width, const float *fill) {
  OD_TRY(cut_image(&s->image, y, x, height, width, fill));
  return s->truth.masks ? cut_masks(&s->truth, y, x, height, width) : OD_OK;
}

static od_status resize_masks(od_truth *t, int height, int width, od_corners corners) {
  uint8_t *out = NULL;
  size_t plane = (size_t)height * (size_t)width, old = (size_t)t->mask_height * (size_t)t->mask_width;
  OD_TRY(od_new(&out, (size_t)(t->count ? t->count : 1), plane));
  for (int i = 0; i < t->count; i++)
    od_resize_nearest_u8(out + (size_t)i * plane, height, width, (size_t)width, t->masks + (size_t)i * old,
                         t->mask_height, t->mask_width, corners);
  od_free(t->masks);
  t->masks = out;
  t->mask_height = height;
  t->mask_width = width;
  return OD_OK;
}

od_status od_resize_sample(od_picture *s, int height, int width, od_resize_method method, od_corners corners) {
  od_fimage out;
  OD_TRY(od_fimage_new(&out, height, width, s->image.channels));
  od_status st = od_resize(out.data, height, width, (size_t)width * (size_t)out.channels, s->image.data, OD_F32,
                           s->image.height, s->image.width, out.channels, method, corners);
  if (st != OD_OK) {
    od_fimage_free(&out);
    return st;
  }
  od_fimage_free(&s->image);
  s->image = out;
  return s->truth.masks ? resize_masks(&s->truth, height, width, corners) : OD_OK;
}

/* ----------------------------------------------------------------------------------------------------- flips, turns */
static void swap_bytes(void *a, void *b, size_t n, uint8_t *spare) {
  memcpy(spare, a, n);
  memcpy(a, b, n);
  memcpy(b, spare, n);
}

static void mirror_rows(void *data, size_t rows, size_t row) {
  uint8_t *d = data, spare[64];
  for (size_t i = 0; i < rows / 2; i++)
    for (size_t k = 0; k < row; k += sizeof spare)
      swap_bytes(d + i * row + k, d + (rows - 1 - i) * row + k, row - k < sizeof spare ? row - k : sizeof spare, spare);
}

/* Left to right: rows of `width` pixels of `pixel` bytes. */
static void mirror_columns(void *data, size_t rows, size_t width, size_t pixel) {
  for (size_t y = 0; y < rows; y++) mirror_rows((uint8_t *)data + y * width * pixel, width, pixel);
}

/* The same for RGB floats, which is what is done to every second picture. */
static void mirror_rgb(float *data, size_t rows, size_t width) {
  for (size_t y = 0; y < rows; y++, data += 3 * width)
    for (float *a = data, *b = data + 3 * (width - 1); a < b; a += 3, b -= 3) {
      float t0 = a[0], t1 = a[1], t2 = a[2];
      a[0] = b[0];
      a[1] = b[1];
      a[2] = b[2];
      b[0] = t0;
      b[1] = t1;
      b[2] = t2;
    }
}

/* Keypoint i of each box takes the place of keypoint permutation[i]. */
static od_status permute_keypoints(od_truth *t, const int32_t *permutation, size_t n) {
  if (!t->keypoints) return OD_OK;
  if (n != (size_t)t->keypoints_per_box)
    return od_fail(OD_EINVAL, "the keypoint permutation has %zu entries, pictures have %d keypoints a box", n,
                   t->keypoints_per_box);
  float *p = NULL;
  OD_TRY(od_new(&p, n, 3 * sizeof *p));
  for (int b = 0; b < t->count; b++) {
    float *k = t->keypoints + (size_t)b * n * 2;
    uint8_t *v = t->visible + (size_t)b * n;
    for (size_t i = 0; i < n; i++) {
      p[3 * i] = k[2 * permutation[i]];
      p[3 * i + 1] = k[2 * permutation[i] + 1];
      p[3 * i + 2] = v[permutation[i]];
    }
    for (size_t i = 0; i < n; i++) {
      k[2 * i] = p[3 * i];
      k[2 * i + 1] = p[3 * i + 1];
      v[i] = p[3 * i + 2] != 0;
    }
  }
  od_free(p);
  return OD_OK;
}

static od_status check_permutation(const int32_t *p, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (p[i] < 0 || (size_t)p[i] >= n)
      return od_fail(OD_EINVAL, "the keypoint permutation has %zu entries and names keypoint %d", n, p[i]);
  return OD_OK;
}

typedef ObjectDetection__Protos__RandomHorizontalFlip horizontal;
typedef ObjectDetection__Protos__RandomVerticalFlip vertical;
typedef ObjectDetection__Protos__RandomRotation90 turn;

static od_status horizontal_check(const void *message) {
  const horizontal *m = message;
  return check_permutation(m->keypoint_flip_permutation, m->n_keypoint_flip_permutation);
}

static od_status horizontal_run(od_picture *s, const void *message, od_key key) {
  const horizontal *m = message;
  if (!(od_rng_f32(key, 0) < m->probability)) return OD_OK;
  od_truth *t = &s->truth;
  size_t height = (size_t)s->image.height, width = (size_t)s->image.width, channels = (size_t)s->image.channels;
  if (channels == 3)
    mirror_rgb(s->image.data, height, width);
  else
    mirror_columns(s->image.data, height, width, channels * sizeof(float));
  if (t->masks) mirror_columns(t->masks, (size_t)t->count * (size_t)t->mask_height, (size_t)t->mask_width, 1);
  for (int i = 0; i < t->count; i++) {
    float *b = t->boxes + 4 * i, xmin = b[1];
    b[1] = 1.0f - b[3];
    b[3] = 1.0f - xmin;
  }
  OD_TRY(permute_keypoints(t, m->keypoint_flip_permutation, m->n_keypoint_flip_permutation));
  for (int i = 0; t->keypoints && i < t->count * t->keypoints_per_box; i++)
    t->keypoints[2 * i + 1] = 1.0f - t->keypoints[2 * i + 1];
  return OD_OK;
}

static od_status vertical_check(const void *message) {
  const vertical *m = message;
  return check_permutation(m->keypoint_flip_permutation, m->n_keypoint_flip_permutation);
}

static od_status vertical_run(od_picture *s, const void *message, od_key key) {
  const vertical *m = message;
  if (!(od_rng_f32(key, 0) < m->probability)) return OD_OK;
  od_truth *t = &s->truth;
  mirror_rows(s->image.data, (size_t)s->image.height,
              (size_t)s->image.width * (size_t)s->image.channels * sizeof(float));
  for (int i = 0; t->masks && i < t->count; i++)
    mirror_rows(t->masks + (size_t)i * (size_t)t->mask_height * (size_t)t->mask_width, (size_t)t->mask_height,
                (size_t)t->mask_width);
  for (int i = 0; i < t->count; i++) {
    float *b = t->boxes + 4 * i, ymin = b[0];
    b[0] = 1.0f - b[2];
    b[2] = 1.0f - ymin;
  }
  OD_TRY(permute_keypoints(t, m->keypoint_flip_permutation, m->n_keypoint_flip_permutation));
  for (int i = 0; t->keypoints && i < t->count * t->keypoints_per_box; i++)
    t->keypoints[2 * i] = 1.0f - t->keypoints[2 * i];
  return OD_OK;
}

static od_status turn_check(const void *message) {
  const turn *m = message;
  return check_permutation(m->keypoint_rot_permutation, m->n_keypoint_rot_permutation);
}

/* Counter-clockwise: pixel (y, x) goes to (width - 1 - x, y). */
static od_status turn_plane(void **data, size_t planes, int height, int width, size_t pixel) {
  uint8_t *out = NULL, *in = *data;
  size_t plane = (size_t)height * (size_t)width;
  OD_TRY(od_new(&out, planes ? planes * plane : 1, pixel));
  for (size_t p = 0; p < planes; p++)
    for (size_t y = 0; y < (size_t)height; y++)
      for (size_t x = 0; x < (size_t)width; x++)
        memcpy(out + (p * plane + ((size_t)width - 1 - x) * (size_t)height + y) * pixel,
               in + (p * plane + y * (size_t)width + x) * pixel, pixel);
  od_free(in);
  *data = out;
  return OD_OK;
}

static od_status turn_run(od_picture *s, const void *message, od_key key) {
  const turn *m = message;
  if (!(od_rng_f32(key, 0) < m->probability)) return OD_OK;
  od_truth *t = &s->truth;
  void *pixels = s->image.data, *masks = t->masks;
  OD_TRY(turn_plane(&pixels, 1, s->image.height, s->image.width, (size_t)s->image.channels * sizeof(float)));
  s->image.data = pixels;
  int h = s->image.height;
  s->image.height = s->image.width;
  s->image.width = h;
  if (masks) {
    OD_TRY(turn_plane(&masks, (size_t)t->count, t->mask_height, t->mask_width, 1));
    t->masks = masks;
    t->mask_height = s->image.height;
    t->mask_width = s->image.width;
  }
  for (int i = 0; i < t->count; i++) {
    float *b = t->boxes + 4 * i;
    float turned[4] = {1.0f - b[3], b[0], 1.0f - b[1], b[2]};
    memcpy(b, turned, sizeof turned);
  }
  if (m->n_keypoint_rot_permutation > 0)
    OD_TRY(permute_keypoints(t, m->keypoint_rot_permutation, m->n_keypoint_rot_permutation));
  for (int i = 0; t->keypoints && i < t->count * t->keypoints_per_box; i++) {
    float y = t->keypoints[2 * i], x = t->keypoints[2 * i + 1];
    t->keypoints[2 * i] = 1.0f - x;
    t->keypoints[2 * i + 1] = y;
  }
  return OD_OK;
}

/* ----------------------------------------------------------------------------------------------------------- resizing */
typedef ObjectDetection__Protos__RandomImageScale image_scale;
typedef ObjectDetection__Protos__ResizeImage resize_message;
typedef ObjectDetection__Protos__RandomResizeMethod resize_method;

static od_status image_scale_check(const void *message) {
  const image_scale *m = message;
  if (m->min_scale_ratio > 0 && m->min_scale_ratio <= m->max_scale_ratio) return OD_OK;
  return od_fail(OD_EINVAL, "min_scale_ratio %g, max_scale_ratio %g; 0 < min <= max is needed",
                 (double)m->min_scale_ratio, (double)m->max_scale_ratio);
}

static od_status image_scale_run(od_picture *s, const void *message, od_key key) {
  const image_scale *m = message;
  float f = od_draw_range(key, 0, m->min_scale_ratio, m->max_scale_ratio);
  int h = (int)((float)s->image.height * f), w = (int)((float)s->image.width * f);
  return od_resize_sample(s, h > 0 ? h : 1, w > 0 ? w : 1, OD_RESIZE_BILINEAR, OD_CORNERS_ALIGN);
}

static od_status resize_check(const void *message) {
  const resize_message *m = message;
  if (m->new_height > 0 && m->new_width > 0) return OD_OK;
  return od_fail(OD_EINVAL, "new_height %d, new_width %d; both must be positive", m->new_height, m->new_width);
}

static od_status resize_run(od_picture *s, const void *message, od_key key) {
  (void)key;
  const resize_message *m = message;
  static const od_resize_method methods[] = {
      [1] = OD_RESIZE_AREA, OD_RESIZE_BICUBIC, OD_RESIZE_BILINEAR, OD_RESIZE_NEAREST};
  return od_resize_sample(s, m->new_height, m->new_width, methods[m->method], OD_CORNERS_LEGACY);
}

static od_status method_check(const void *message) {
  const resize_method *m = message;
  if (m->target_height > 0 && m->target_width > 0) return OD_OK;
  return od_fail(OD_EINVAL, "target_height %d, target_width %d; both must be positive", m->target_height,
                 m->target_width);
}

static od_status method_run(od_picture *s, const void *message, od_key key) {
  const resize_method *m = message;
  return od_resize_sample(s, m->target_height, m->target_width, (od_resize_method)od_rng_below(key, 0, 4),
                          OD_CORNERS_LEGACY);
}

#define STEP(upper) OBJECT_DETECTION__PROTOS__PREPROCESSING_STEP__PREPROCESSING_STEP_##upper

const od_step od_steps_geometry[] = {{STEP(RANDOM_HORIZONTAL_FLIP), horizontal_run, horizontal_check},
                                     {STEP(RANDOM_VERTICAL_FLIP), vertical_run, vertical_check},
                                     {STEP(RANDOM_ROTATION90), turn_run, turn_check},
                                     {STEP(RANDOM_IMAGE_SCALE), image_scale_run, image_scale_check},
                                     {STEP(RESIZE_IMAGE), resize_run, resize_check},
                                     {STEP(RANDOM_RESIZE_METHOD), method_run, method_check},
                                     {0, NULL, NULL}};
