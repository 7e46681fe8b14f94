/* Random crops: TensorFlow's sample_distorted_bounding_box and what the original builds of it. */
#include <math.h>

#include "base/mem.h"
#include "data/augment_steps.h"

typedef struct {
  int y, x, height, width;
} crop;

/* ------------------------------------------------------------------------------------- sample_distorted_bounding_box */
/* One attempt at a crop of this shape; false when rounding leaves no room. Draws: u[0] height, u[1] y, u[2] x. */
static bool propose(crop *c, int height, int width, float min_area_share, float max_area_share, float aspect,
                    od_key key, uint64_t at) {
  if (max_area_share <= 0 || aspect <= 0 || min_area_share > max_area_share) return false;
  float min_area = min_area_share * (float)width * (float)height,
        max_area = max_area_share * (float)width * (float)height;
  int low = (int)lrintf(sqrtf(min_area / aspect)), high = (int)lrintf(sqrtf(max_area / aspect));
  if (lrintf((float)high * aspect) > width) {
    /* the tallest crop whose rounded width fits */
    high = (int)((width + 0.5 - 0.0000001) / (double)aspect);
    if (lrintf((float)high * aspect) > width) high--;
  }
  if (high > height) high = height;
  int h = low < high ? low + (int)od_rng_below(key, at, (uint64_t)(high - low + 1)) : high;
  int w = (int)lrintf((float)h * aspect);
  float area = (float)w * (float)h;
  if (area < min_area) { /* rounding may miss the limits by a line: one more, or one less */
    h++;
    w = (int)lrintf((float)h * aspect);
    area = (float)w * (float)h;
  }
  if (area > max_area) {
    h--;
    w = (int)lrintf((float)h * aspect);
    area = (float)w * (float)h;
  }
  if (area < min_area || area > max_area || w > width || h > height || w <= 0 || h <= 0) return false;
  /* The last possible offset is never drawn: TensorFlow's range excludes it. */
  *c = (crop){h < height ? (int)od_rng_below(key, at + 1, (uint64_t)(height - h)) : 0,
              w < width ? (int)od_rng_below(key, at + 2, (uint64_t)(width - w)) : 0, h, w};
  return true;
}

static int overlap_1d(int a0, int a1, int b0, int b1) {
  int low = a0 > b0 ? a0 : b0, high = a1 < b1 ? a1 : b1;
  return high > low ? high - low : 0;
}

/* Some box, in whole pixels and of at least one, is covered enough. Without boxes the whole picture counts as one. */
static bool covers(const crop *c, const od_truth *t, int height, int width, float min_covered) {
  for (int i = 0; i < (t->count > 0 ? t->count : 1); i++) {
    float whole[4] = {0, 0, 1, 1}, b[4];
    for (int k = 0; k < 4; k++) b[k] = t->count > 0 ? fminf(fmaxf(t->boxes[4 * i + k], 0.0f), 1.0f) : whole[k];
    int y0 = (int)(b[0] * (float)height), x0 = (int)(b[1] * (float)width), y1 = (int)(b[2] * (float)height),
        x1 = (int)(b[3] * (float)width);
    float area = (float)(y1 - y0) * (float)(x1 - x0);
    if (y1 <= y0 || x1 <= x0 || area < 1) continue;
    float inside = (float)overlap_1d(y0, y1, c->y, c->y + c->height) * (float)overlap_1d(x0, x1, c->x, c->x + c->width);
    if (inside / area >= min_covered) return true;
  }
  return false;
}

static crop sample_crop(const od_picture *s, const od_crop_rule *r, od_key key) {
  int h = s->image.height, w = s->image.width;
  for (uint64_t attempt = 0; attempt < 100; attempt++) {
    crop c;
    float aspect = od_draw_range(key, 4 * attempt, r->min_aspect, r->max_aspect);
    if (propose(&c, h, w, r->min_area, r->max_area, aspect, key, 4 * attempt + 1) &&
        covers(&c, &s->truth, h, w, r->min_object_covered))
      return c;
  }
  return (crop){0, 0, h, w};
}

/* ------------------------------------------------------------------------------------------------------------- crops */
static bool completely_outside(const float *b, od_window w) {
  return b[0] >= w.ymax || b[1] >= w.xmax || b[2] <= w.ymin || b[3] <= w.xmin;
}

/* Cuts to c; drops boxes of which less than `overlap` stays, and, if prune, those completely outside. */
static od_status cut_to(od_picture *s, const crop *c, float overlap, bool prune, bool clip) {
  od_truth *t = &s->truth;
  float h = (float)s->image.height, w = (float)s->image.width;
  od_window win = {(float)c->y / h, (float)c->x / w, (float)(c->y + c->height) / h, (float)(c->x + c->width) / w};
  bool *keep = NULL;
  OD_TRY(od_new(&keep, (size_t)t->count + 1, sizeof *keep));
  for (int i = 0; i < t->count; i++) {
    const float *b = t->boxes + 4 * i;
    keep[i] = !(prune && completely_outside(b, win)) && od_covered_share(b, win) >= overlap;
  }
  od_truth_keep(t, keep);
  od_change_frame(t, win);
  if (clip) od_clip_truth(t);
  /* The aspect crop of the original loses boxes of which clipping leaves no area; its other crops keep them. */
  for (int i = 0; i < t->count; i++) {
    const float *b = t->boxes + 4 * i;
    keep[i] = prune || !clip || (b[2] - b[0]) * (b[3] - b[1]) > 0;
  }
  od_truth_keep(t, keep);
  od_free(keep);
  static const float nothing[4] = {0};
  return od_cut(s, c->y, c->x, c->height, c->width, nothing);
}

od_status od_crop_random(od_picture *s, const od_crop_rule *r, od_key key) {
  if (r->random_coef > 0 && !(od_rng_f32(od_key_name(key, "keep"), 0) > r->random_coef)) return OD_OK;
  crop c = sample_crop(s, r, key);
  return cut_to(s, &c, r->overlap, true, r->clip);
}

od_status od_crop_ssd(od_picture *s, const od_crop_rule *rules, size_t n, od_key key) {
  static const float steps[7] = {0.0f, 0.1f, 0.3f, 0.5f, 0.7f, 0.9f, 1.0f};
  size_t i = (size_t)od_rng_below(od_key_name(key, "choice"), 0, n ? n : 7);
  if (n > 0) return od_crop_random(s, &rules[i], key);
  od_crop_rule r = {steps[i], 0.5f, 2.0f, 0.1f, 1.0f, steps[i], 0.15f, true};
  return od_crop_random(s, &r, key);
}

od_status od_crop_to_aspect(od_picture *s, float aspect, float overlap, bool clip, od_key key) {
  float h = (float)s->image.height, w = (float)s->image.width, have = w / h;
  crop c = {0, 0, s->image.height, s->image.width};
  if (have > aspect) {
    c.width = (int)rintf(h * aspect);
    if (c.width < 1) c.width = 1;
    c.x = (int)od_rng_below(key, 0, (uint64_t)(s->image.width - c.width + 1));
  } else if (have < aspect) {
    c.height = (int)rintf(w / aspect);
    if (c.height < 1) c.height = 1;
    c.y = (int)od_rng_below(key, 0, (uint64_t)(s->image.height - c.height + 1));
  }
  return cut_to(s, &c, overlap, false, clip);
}

od_status od_check_crop_rule(const od_crop_rule *r, const char *what) {
  if (r->min_object_covered >= 0 && r->min_aspect > 0 && r->max_aspect >= r->min_aspect && r->min_area > 0 &&
      r->max_area >= r->min_area && r->max_area <= 1)
    return OD_OK;
  return od_fail(OD_EINVAL,
                 "%s: min_object_covered %g, aspect ratio %g to %g, area %g to %g; needed: 0 <= min_object_covered, "
                 "0 < min <= max, area at most 1",
                 what, (double)r->min_object_covered, (double)r->min_aspect, (double)r->max_aspect, (double)r->min_area,
                 (double)r->max_area);
}

/* ------------------------------------------------------------------------------------------------------------- steps */
typedef ObjectDetection__Protos__RandomCropImage crop_image;
typedef ObjectDetection__Protos__SSDRandomCrop ssd_crop;
typedef ObjectDetection__Protos__RandomCropToAspectRatio to_aspect;
typedef ObjectDetection__Protos__SSDRandomCropFixedAspectRatio ssd_fixed;

static od_status crop_image_check(const void *message) {
  od_crop_rule r = OD_CROP_RULE((const crop_image *)message);
  return od_check_crop_rule(&r, "random_crop_image");
}

static od_status crop_image_run(od_picture *s, const void *message, od_key key) {
  od_crop_rule r = OD_CROP_RULE((const crop_image *)message);
  return od_crop_random(s, &r, key);
}

static od_status ssd_crop_check(const void *message) {
  const ssd_crop *m = message;
  for (size_t i = 0; i < m->n_operations; i++) {
    od_crop_rule r = OD_CROP_RULE(m->operations[i]);
    OD_TRY(od_fail_context(od_check_crop_rule(&r, "ssd_random_crop"), "operation %zu", i + 1));
  }
  return OD_OK;
}

/* As the draws of the operations' list: only the chosen one is needed. */
static od_status ssd_crop_run(od_picture *s, const void *message, od_key key) {
  const ssd_crop *m = message;
  if (m->n_operations == 0) return od_crop_ssd(s, NULL, 0, key);
  size_t i = (size_t)od_rng_below(od_key_name(key, "choice"), 0, m->n_operations);
  od_crop_rule r = OD_CROP_RULE(m->operations[i]);
  return od_crop_random(s, &r, key);
}

static od_status aspect_check(const void *message) {
  const to_aspect *m = message;
  if (m->aspect_ratio > 0) return OD_OK;
  return od_fail(OD_EINVAL, "aspect_ratio %g must be positive", (double)m->aspect_ratio);
}

static od_status aspect_run(od_picture *s, const void *message, od_key key) {
  const to_aspect *m = message;
  return od_crop_to_aspect(s, m->aspect_ratio, m->overlap_thresh, m->clip_boxes, key);
}

static od_status ssd_fixed_check(const void *message) {
  const ssd_fixed *m = message;
  if (!(m->aspect_ratio > 0)) return od_fail(OD_EINVAL, "aspect_ratio %g must be positive", (double)m->aspect_ratio);
  return OD_OK;
}

static od_status ssd_fixed_run(od_picture *s, const void *message, od_key key) {
  const ssd_fixed *m = message;
  static const float steps[7] = {0.0f, 0.1f, 0.3f, 0.5f, 0.7f, 0.9f, 1.0f};
  size_t i = (size_t)od_rng_below(od_key_name(key, "choice"), 0, m->n_operations ? m->n_operations : 7);
  /* Without operations the original ignores aspect_ratio and takes 1; so do we. */
  float aspect = m->n_operations ? m->aspect_ratio : 1.0f;
  od_crop_rule r = {steps[i % 7], aspect, aspect, 0.1f, 1.0f, steps[i % 7], 0.15f, true};
  if (m->n_operations > 0) {
    const ObjectDetection__Protos__SSDRandomCropFixedAspectRatioOperation *o = m->operations[i];
    r = (od_crop_rule){o->min_object_covered, aspect,         aspect,       o->min_area, o->max_area,
                       o->overlap_thresh,     o->random_coef, o->clip_boxes};
  }
  OD_TRY(od_crop_random(s, &r, key));
  return od_crop_to_aspect(s, aspect, 0.3f, true, od_key_name(key, "aspect"));
}

#define STEP(upper) OBJECT_DETECTION__PROTOS__PREPROCESSING_STEP__PREPROCESSING_STEP_##upper

const od_step od_steps_crop[] = {{STEP(RANDOM_CROP_IMAGE), crop_image_run, crop_image_check},
                                 {STEP(SSD_RANDOM_CROP), ssd_crop_run, ssd_crop_check},
                                 {STEP(RANDOM_CROP_TO_ASPECT_RATIO), aspect_run, aspect_check},
                                 {STEP(SSD_RANDOM_CROP_FIXED_ASPECT_RATIO), ssd_fixed_run, ssd_fixed_check},
                                 {0, NULL, NULL}};
