/* Padding steps, and those that crop and then pad. */
#include <math.h>

#include "data/augment_steps.h"

typedef struct {
  int min_height, min_width, max_height, max_width; /* 0: the picture's, and twice the picture's */
  const float *colour;                              /* NULL: mean colour of the picture */
} pad_rule;

static void mean_colour(float *out, const od_fimage *im) {
  size_t n = (size_t)im->height * (size_t)im->width, c = (size_t)im->channels;
  double sum[4] = {0};
  for (size_t i = 0; i < n * c; i++) sum[i % c] += (double)im->data[i];
  for (size_t k = 0; k < c; k++) out[k] = (float)(sum[k] / (double)n);
}

static int larger(int a, int b) { return a > b ? a : b; }

/* A target size in [min, max), max itself only when there is nothing to choose. */
static int draw_size(int size, int min, int max, od_key key, uint64_t i) {
  max = larger(max ? max : 2 * size, size);
  min = larger(min ? min : size, size);
  return max > min ? min + (int)od_rng_below(key, i, (uint64_t)(max - min)) : max;
}

static od_status pad_random(od_picture *s, const pad_rule *r, od_key key) {
  int h = s->image.height, w = s->image.width;
  int height = draw_size(h, r->min_height, r->max_height, key, 0),
      width = draw_size(w, r->min_width, r->max_width, key, 1);
  int y = height > h ? (int)od_rng_below(key, 2, (uint64_t)(height - h)) : 0;
  int x = width > w ? (int)od_rng_below(key, 3, (uint64_t)(width - w)) : 0;
  float mean[4];
  if (!r->colour) mean_colour(mean, &s->image);
  od_change_frame(&s->truth, (od_window){-(float)y / (float)h, -(float)x / (float)w, (float)(height - y) / (float)h,
                                         (float)(width - x) / (float)w});
  return od_cut(s, -y, -x, height, width, r->colour ? r->colour : mean);
}

static od_status check_colour(size_t n) {
  if (n == 0 || n == 3) return OD_OK;
  return od_fail(OD_EINVAL, "pad_color is given %zu times, 3 (red, green, blue) are needed", n);
}

/* -------------------------------------------------------------------------------------------------- padding alone */
typedef ObjectDetection__Protos__RandomPadImage pad_image;
typedef ObjectDetection__Protos__RandomAbsolutePadImage absolute_pad;

static od_status pad_image_check(const void *message) {
  const pad_image *m = message;
  if (m->has_min_image_height != m->has_min_image_width || m->has_max_image_height != m->has_max_image_width)
    return od_fail(OD_EINVAL, "height and width of min_image and max_image are set both or not at all");
  return check_colour(m->n_pad_color);
}

static od_status pad_image_run(od_picture *s, const void *message, od_key key) {
  const pad_image *m = message;
  pad_rule r = {m->min_image_height, m->min_image_width, m->max_image_height, m->max_image_width,
                m->n_pad_color ? m->pad_color : NULL};
  return pad_random(s, &r, key);
}

static od_status absolute_check(const void *message) {
  return check_colour(((const absolute_pad *)message)->n_pad_color);
}

static od_status absolute_run(od_picture *s, const void *message, od_key key) {
  const absolute_pad *m = message;
  int h = s->image.height, w = s->image.width, more_h = m->max_height_padding ? m->max_height_padding : 1,
      more_w = m->max_width_padding ? m->max_width_padding : 1;
  pad_rule r = {h, w, h + more_h, w + more_w, m->n_pad_color ? m->pad_color : NULL};
  return pad_random(s, &r, key);
}

/* ---------------------------------------------------------------------------------------------------- crop, then pad */
typedef ObjectDetection__Protos__RandomCropPadImage crop_pad;
typedef ObjectDetection__Protos__SSDRandomCropPad ssd_pad;
typedef ObjectDetection__Protos__SSDRandomCropPadOperation ssd_pad_op;
typedef ObjectDetection__Protos__SSDRandomCropPadFixedAspectRatio ssd_pad_fixed;

static const float one[2] = {1, 1}, two[2] = {2, 2};

/* Sizes to pad to are ratios of the picture before the crop. */
static od_status crop_and_pad(od_picture *s, const od_crop_rule *rule, const float *min_ratio, const float *max_ratio,
                              const float *colour, od_key key) {
  float h = (float)s->image.height, w = (float)s->image.width;
  pad_rule r = {(int)(h * min_ratio[0]), (int)(w * min_ratio[1]), (int)(h * max_ratio[0]), (int)(w * max_ratio[1]),
                colour};
  OD_TRY(od_crop_random(s, rule, key));
  return pad_random(s, &r, od_key_name(key, "pad"));
}

static od_status check_ratio(size_t n, const char *name, bool needed) {
  if (n == 2 || (n == 0 && !needed)) return OD_OK;
  return od_fail(OD_EINVAL, "%s is given %zu times, 2 (height, width) are needed", name, n);
}

static od_status crop_pad_check(const void *message) {
  const crop_pad *m = message;
  od_crop_rule r = OD_CROP_RULE(m);
  OD_TRY(od_check_crop_rule(&r, "crop"));
  OD_TRY(check_ratio(m->n_min_padded_size_ratio, "min_padded_size_ratio", false));
  OD_TRY(check_ratio(m->n_max_padded_size_ratio, "max_padded_size_ratio", false));
  return check_colour(m->n_pad_color);
}

static od_status crop_pad_run(od_picture *s, const void *message, od_key key) {
  const crop_pad *m = message;
  od_crop_rule r = OD_CROP_RULE(m);
  return crop_and_pad(s, &r, m->n_min_padded_size_ratio ? m->min_padded_size_ratio : one,
                      m->n_max_padded_size_ratio ? m->max_padded_size_ratio : two, m->n_pad_color ? m->pad_color : NULL,
                      key);
}

static od_status ssd_pad_check(const void *message) {
  const ssd_pad *m = message;
  for (size_t i = 0; i < m->n_operations; i++) {
    od_crop_rule r = OD_CROP_RULE(m->operations[i]);
    OD_TRY(od_check_crop_rule(&r, "operation"));
    OD_TRY(check_ratio(m->operations[i]->n_min_padded_size_ratio, "min_padded_size_ratio", true));
    OD_TRY(check_ratio(m->operations[i]->n_max_padded_size_ratio, "max_padded_size_ratio", true));
  }
  return OD_OK;
}

static od_status ssd_pad_run(od_picture *s, const void *message, od_key key) {
  static const float steps[6] = {0.1f, 0.3f, 0.5f, 0.7f, 0.9f, 1.0f};
  const ssd_pad *m = message;
  size_t i = (size_t)od_rng_below(od_key_name(key, "choice"), 0, m->n_operations ? m->n_operations : 6);
  if (m->n_operations == 0) {
    od_crop_rule r = {steps[i], 0.5f, 2.0f, 0.1f, 1.0f, steps[i], 0.15f, true};
    return crop_and_pad(s, &r, one, two, NULL, key);
  }
  const ssd_pad_op *o = m->operations[i];
  od_crop_rule r = OD_CROP_RULE(o);
  const float colour[3] = {o->pad_color_r, o->pad_color_g, o->pad_color_b};
  return crop_and_pad(s, &r, o->min_padded_size_ratio, o->max_padded_size_ratio, colour, key);
}

/* Black at the bottom or the right until the shape is right, and a random factor more. */
static od_status pad_to_aspect(od_picture *s, float aspect, const float *min_ratio, const float *max_ratio,
                               od_key key) {
  float h = (float)s->image.height, w = (float)s->image.width, have = w / h;
  float th = have <= aspect ? h : w / aspect, tw = have >= aspect ? w : h * aspect;
  float max_scale = fminf(fmaxf(max_ratio[0] * h, th) / th, fmaxf(max_ratio[1] * w, tw) / tw);
  float min_scale = fminf(max_scale, fmaxf(fmaxf(min_ratio[0] * h, th) / th, fmaxf(min_ratio[1] * w, tw) / tw));
  float scale = od_draw_range(key, 0, min_scale, max_scale);
  th = rintf(scale * th);
  tw = rintf(scale * tw);
  /* Rounding must not cut a line off the picture. */
  if (th < h) th = h;
  if (tw < w) tw = w;
  static const float black[4] = {0};
  od_change_frame(&s->truth, (od_window){0, 0, th / h, tw / w});
  return od_cut(s, 0, 0, (int)th, (int)tw, black);
}

static od_status ssd_pad_fixed_check(const void *message) {
  const ssd_pad_fixed *m = message;
  if (!(m->aspect_ratio > 0)) return od_fail(OD_EINVAL, "aspect_ratio %g must be positive", (double)m->aspect_ratio);
  for (size_t i = 0; i < m->n_operations; i++) {
    od_crop_rule r = OD_CROP_RULE(m->operations[i]);
    OD_TRY(od_check_crop_rule(&r, "operation"));
  }
  OD_TRY(check_ratio(m->n_min_padded_size_ratio, "min_padded_size_ratio", false));
  return check_ratio(m->n_max_padded_size_ratio, "max_padded_size_ratio", false);
}

static od_status ssd_pad_fixed_run(od_picture *s, const void *message, od_key key) {
  const ssd_pad_fixed *m = message;
  if (m->n_operations == 0) {
    OD_TRY(od_crop_ssd(s, NULL, 0, key));
  } else {
    size_t i = (size_t)od_rng_below(od_key_name(key, "choice"), 0, m->n_operations);
    od_crop_rule r = OD_CROP_RULE(m->operations[i]);
    OD_TRY(od_crop_random(s, &r, key));
  }
  return pad_to_aspect(s, m->aspect_ratio, m->n_min_padded_size_ratio ? m->min_padded_size_ratio : one,
                       m->n_max_padded_size_ratio ? m->max_padded_size_ratio : two, od_key_name(key, "pad"));
}

#define STEP(upper) OBJECT_DETECTION__PROTOS__PREPROCESSING_STEP__PREPROCESSING_STEP_##upper

const od_step od_steps_pad[] = {{STEP(RANDOM_PAD_IMAGE), pad_image_run, pad_image_check},
                                {STEP(RANDOM_ABSOLUTE_PAD_IMAGE), absolute_run, absolute_check},
                                {STEP(RANDOM_CROP_PAD_IMAGE), crop_pad_run, crop_pad_check},
                                {STEP(SSD_RANDOM_CROP_PAD), ssd_pad_run, ssd_pad_check},
                                {STEP(SSD_RANDOM_CROP_PAD_FIXED_ASPECT_RATIO), ssd_pad_fixed_run, ssd_pad_fixed_check},
                                {0, NULL, NULL}};
