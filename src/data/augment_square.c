/* The square crops of CenterNet and EfficientDet. */
#include <math.h>

#include "base/mem.h"
#include "data/augment_steps.h"

typedef ObjectDetection__Protos__RandomSquareCropByScale by_scale;
typedef ObjectDetection__Protos__RandomScaleCropAndPadToSquare to_square;

/* Frame changed to w, boxes completely outside dropped, the rest clipped. */
static od_status reframe(od_truth *t, od_window w) {
  bool *keep = NULL;
  OD_TRY(od_new(&keep, (size_t)t->count + 1, sizeof *keep));
  od_change_frame(t, w);
  for (int i = 0; i < t->count; i++) {
    const float *b = t->boxes + 4 * i;
    keep[i] = !(b[0] >= 1 || b[1] >= 1 || b[2] <= 0 || b[3] <= 0);
  }
  od_truth_keep(t, keep);
  od_free(keep);
  od_clip_truth(t);
  return OD_OK;
}

/* Margin in which no centre may lie: halved until twice of it fits into the side. */
static int border_of(int border, int size) {
  float i = ceilf(logf(2.0f * (float)border / (float)size) / logf(2.0f));
  float divisor = fminf(fmaxf(powf(2.0f, i), 1.0f), (float)border);
  return border / (int)divisor;
}

static od_status by_scale_check(const void *message) {
  const by_scale *m = message;
  if (m->max_border >= 1 && m->num_scales >= 1 && m->scale_min > 0 && m->scale_max >= m->scale_min) return OD_OK;
  return od_fail(OD_EINVAL,
                 "max_border %d, num_scales %d, scale_min %g, scale_max %g; the first two must be at least 1, scales "
                 "positive and in order",
                 m->max_border, m->num_scales, (double)m->scale_min, (double)m->scale_max);
}

static int at_least(int v, int low) { return v < low ? low : v; }
static int at_most(int v, int high) { return v > high ? high : v; }

static od_status by_scale_run(od_picture *s, const void *message, od_key key) {
  const by_scale *m = message;
  static const float black[4] = {0};
  int h = s->image.height, w = s->image.width, n = m->num_scales, i = (int)od_rng_below(key, 0, (uint64_t)n);
  float scale = n > 1 ? m->scale_min + (m->scale_max - m->scale_min) * (float)i / (float)(n - 1) : m->scale_min;
  int size = at_least((int)(scale * (float)(h > w ? h : w)), 1), half = size / 2;
  int by = border_of(m->max_border, h), bx = border_of(m->max_border, w);
  int cy = by + (int)od_rng_below(key, 1, (uint64_t)at_least(h - 2 * by + 1, 1));
  int cx = bx + (int)od_rng_below(key, 2, (uint64_t)at_least(w - 2 * bx + 1, 1));
  int top = cy - half, left = cx - half;
  /* The part inside the picture; its last line and column are never taken, as in the original. */
  int y0 = at_least(top, 0), x0 = at_least(left, 0), y1 = at_most(cy + half, h - 1), x1 = at_most(cx + half, w - 1);
  if (y1 <= y0 || x1 <= x0)
    return od_fail(OD_EDATA, "a picture of %d x %d pixels (width x height) is too small for this crop", w, h);
  OD_TRY(od_cut(s, y0, x0, y1 - y0, x1 - x0, black));
  OD_TRY(od_cut(s, top - y0, left - x0, size, size, black));
  return reframe(&s->truth, (od_window){(float)top / (float)h, (float)left / (float)w, (float)(top + size) / (float)h,
                                        (float)(left + size) / (float)w});
}

static od_status to_square_check(const void *message) {
  const to_square *m = message;
  if (m->output_size >= 1 && m->scale_min > 0 && m->scale_max >= m->scale_min) return OD_OK;
  return od_fail(OD_EINVAL, "output_size %d, scale_min %g, scale_max %g; all must be positive and in order",
                 m->output_size, (double)m->scale_min, (double)m->scale_max);
}

static od_status to_square_run(od_picture *s, const void *message, od_key key) {
  const to_square *m = message;
  static const float black[4] = {0};
  int out = m->output_size;
  float h = (float)s->image.height, w = (float)s->image.width, side = h > w ? h : w;
  float scale = od_draw_range(key, 0, m->scale_min, m->scale_max) * (float)out;
  int sh = at_least((int)(scale * (h / side)), 1), sw = at_least((int)(scale * (w / side)), 1);
  int y = (int)((float)at_least(sh - out, 0) * od_rng_f32(key, 1)),
      x = (int)((float)at_least(sw - out, 0) * od_rng_f32(key, 2));
  OD_TRY(od_resize_sample(s, sh, sw, OD_RESIZE_BILINEAR, OD_CORNERS_LEGACY));
  OD_TRY(od_cut(s, y, x, out, out, black));
  return reframe(&s->truth, (od_window){(float)y / (float)sh, (float)x / (float)sw, (float)(y + out) / (float)sh,
                                        (float)(x + out) / (float)sw});
}

#define STEP(upper) OBJECT_DETECTION__PROTOS__PREPROCESSING_STEP__PREPROCESSING_STEP_##upper

const od_step od_steps_square[] = {{STEP(RANDOM_SQUARE_CROP_BY_SCALE), by_scale_run, by_scale_check},
                                   {STEP(RANDOM_SCALE_CROP_AND_PAD_TO_SQUARE), to_square_run, to_square_check},
                                   {0, NULL, NULL}};
