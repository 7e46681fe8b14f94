/* Steps that change pixel values only. Those of TensorFlow's tf.image work on 0..1 there and on x/255 here, in the same
 * order: divide, adjust, multiply, clip to 0..255. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "data/augment_steps.h"
#include "image/decode.h"
#include "image/encode.h"

static size_t pixels_of(const od_fimage *im) { return (size_t)im->height * (size_t)im->width; }
static size_t values_of(const od_fimage *im) { return pixels_of(im) * (size_t)im->channels; }
static float clip255(float v) { return fminf(fmaxf(v, 0.0f), 255.0f); }

static od_status need_rgb(const od_picture *s) {
  if (s->image.channels == 3) return OD_OK;
  return od_fail(OD_EINVAL, "the picture has %d channels after the steps before this one, 3 are needed",
                 s->image.channels);
}

void od_adjust_brightness(od_fimage *im, float delta) {
  size_t n = values_of(im);
  for (size_t i = 0; i < n; i++) im->data[i] = clip255((im->data[i] / 255.0f + delta) * 255.0f);
}

/* Around the mean of each channel. */
static void contrast(od_fimage *im, float factor) {
  size_t n = values_of(im), c = (size_t)im->channels;
  double sum[4] = {0};
  float mean[4];
  for (size_t i = 0; i < n; i++) sum[i % c] += (double)(im->data[i] / 255.0f);
  for (size_t k = 0; k < c; k++) mean[k] = (float)(sum[k] / (double)pixels_of(im));
  for (size_t i = 0; i < n; i++) {
    float m = mean[i % c];
    im->data[i] = clip255(((im->data[i] / 255.0f - m) * factor + m) * 255.0f);
  }
}

/* Hue in sixths of the circle, as TensorFlow's AdjustHue: which channel is largest, middle, smallest, and where the middle
 * one stands between the others. */
static const int8_t order_of[6][3] = {{0, 1, 2}, {1, 0, 2}, {1, 2, 0},
                                      {2, 1, 0}, {2, 0, 1}, {0, 2, 1}}; /* max mid min */

static int sector_of(float r, float g, float b) {
  if (r < g) return b < r ? 1 : b > g ? 3 : 2;
  return b < g ? 0 : b > r ? 4 : 5;
}

static void hue_pixel(float *p, float turn) {
  float v[3] = {p[0] / 255.0f, p[1] / 255.0f, p[2] / 255.0f};
  int sector = sector_of(v[0], v[1], v[2]);
  float max = v[order_of[sector][0]], mid = v[order_of[sector][1]], min = v[order_of[sector][2]], h = 0;
  if (max != min) {
    float ratio = (mid - min) / (max - min);
    h = (float)sector + (sector & 1 ? 1 - ratio : ratio);
  }
  h += turn * 6;
  while (h < 0) h += 6;
  while (h >= 6) h -= 6;
  sector = (int)h;
  float ratio = h - (float)sector;
  if (sector & 1) ratio = 1 - ratio;
  v[order_of[sector][0]] = max;
  v[order_of[sector][1]] = min + ratio * (max - min);
  v[order_of[sector][2]] = min;
  for (int k = 0; k < 3; k++) p[k] = clip255(v[k] * 255.0f);
}

void od_adjust_hue(od_fimage *im, float turn) {
  size_t n = pixels_of(im);
  for (size_t i = 0; i < n; i++) hue_pixel(im->data + 3 * i, turn);
}

static void saturation_pixel(float *p, float factor) {
  float r = p[0] / 255.0f, g = p[1] / 255.0f, b = p[2] / 255.0f;
  float v = fmaxf(r, fmaxf(g, b)), range = v - fminf(r, fminf(g, b)), s = v > 0 ? range / v : 0, h = 0;
  if (range > 0) {
    float norm = 1.0f / (6.0f * range);
    h = r == v ? norm * (g - b) : g == v ? norm * (b - r) + 2.0f / 6.0f : norm * (r - g) + 4.0f / 6.0f;
    if (h < 0) h += 1;
  }
  s = fminf(1.0f, fmaxf(0.0f, s * factor));
  float c = s * v, m = v - c, dh = h * 6, part = dh;
  while (part >= 2) part -= 2;
  float x = c * (1 - fabsf(part - 1));
  static const int8_t where[6][3] = {{2, 1, 0}, {1, 2, 0}, {0, 2, 1}, {0, 1, 2}, {1, 0, 2}, {2, 0, 1}}; /* 2: c, 1: x */
  const float parts[3] = {0, x, c};
  int sector = (int)dh;
  for (int k = 0; k < 3; k++) p[k] = clip255((sector < 6 ? parts[where[sector][k]] + m : m) * 255.0f);
}

static void saturation(od_fimage *im, float factor) {
  size_t n = pixels_of(im);
  for (size_t i = 0; i < n; i++) saturation_pixel(im->data + 3 * i, factor);
}

/* ------------------------------------------------------------------------------------------------------- tf.image steps */
typedef ObjectDetection__Protos__RandomAdjustBrightness adjust_brightness;
typedef ObjectDetection__Protos__RandomAdjustContrast adjust_contrast;
typedef ObjectDetection__Protos__RandomAdjustHue adjust_hue;
typedef ObjectDetection__Protos__RandomAdjustSaturation adjust_saturation;
typedef ObjectDetection__Protos__RandomDistortColor distort;
typedef ObjectDetection__Protos__AdjustGamma gamma_message;

static od_status brightness_run(od_picture *s, const void *message, od_key key) {
  float d = ((const adjust_brightness *)message)->max_delta;
  od_adjust_brightness(&s->image, od_draw_range(key, 0, -d, d));
  return OD_OK;
}

static od_status contrast_run(od_picture *s, const void *message, od_key key) {
  const adjust_contrast *m = message;
  contrast(&s->image, od_draw_range(key, 0, m->min_delta, m->max_delta));
  return OD_OK;
}

static od_status hue_run(od_picture *s, const void *message, od_key key) {
  float d = ((const adjust_hue *)message)->max_delta;
  OD_TRY(need_rgb(s));
  od_adjust_hue(&s->image, od_draw_range(key, 0, -d, d));
  return OD_OK;
}

static od_status saturation_run(od_picture *s, const void *message, od_key key) {
  const adjust_saturation *m = message;
  OD_TRY(need_rgb(s));
  saturation(&s->image, od_draw_range(key, 0, m->min_delta, m->max_delta));
  return OD_OK;
}

static od_status distort_check(const void *message) {
  int ordering = ((const distort *)message)->color_ordering;
  if (ordering == 0 || ordering == 1) return OD_OK;
  return od_fail(OD_EINVAL, "color_ordering is %d; 0 or 1 is expected", ordering);
}

static od_status distort_run(od_picture *s, const void *message, od_key key) {
  OD_TRY(need_rgb(s));
  float turn = od_draw_range(key, 2, -0.2f, 0.2f), c = od_draw_range(key, 3, 0.5f, 1.5f);
  od_adjust_brightness(&s->image, od_draw_range(key, 0, -32.0f / 255.0f, 32.0f / 255.0f));
  if (((const distort *)message)->color_ordering == 1) contrast(&s->image, c);
  saturation(&s->image, od_draw_range(key, 1, 0.5f, 1.5f));
  od_adjust_hue(&s->image, turn);
  if (((const distort *)message)->color_ordering == 0) contrast(&s->image, c);
  return OD_OK;
}

static od_status gamma_check(const void *message) {
  float g = ((const gamma_message *)message)->gamma;
  if (g >= 0) return OD_OK;
  return od_fail(OD_EINVAL, "gamma is %g; it must not be negative", (double)g);
}

static od_status gamma_run(od_picture *s, const void *message, od_key key) {
  const gamma_message *m = message;
  (void)key;
  size_t n = values_of(&s->image);
  for (size_t i = 0; i < n; i++)
    s->image.data[i] = clip255(m->gain * powf(s->image.data[i] / 255.0f, m->gamma) * 255.0f);
  return OD_OK;
}

/* ---------------------------------------------------------------------------------------------------------- the others */
typedef ObjectDetection__Protos__NormalizeImage normalize;
typedef ObjectDetection__Protos__SubtractChannelMean subtract_mean;
typedef ObjectDetection__Protos__RandomPixelValueScale pixel_scale;
typedef ObjectDetection__Protos__RandomRGBtoGray random_grey;
typedef ObjectDetection__Protos__RandomBlackPatches patches;
typedef ObjectDetection__Protos__RandomJpegQuality jpeg_quality;
typedef ObjectDetection__Protos__RandomPatchGaussian patch_noise;
typedef ObjectDetection__Protos__RandomDownscaleToTargetPixels downscale;

static od_status normalize_check(const void *message) {
  const normalize *m = message;
  if (m->original_maxval != m->original_minval) return OD_OK;
  return od_fail(OD_EINVAL, "original_minval and original_maxval are both %g", (double)m->original_minval);
}

static od_status normalize_run(od_picture *s, const void *message, od_key key) {
  const normalize *m = message;
  (void)key;
  float factor = (float)(((double)m->target_maxval - (double)m->target_minval) /
                         ((double)m->original_maxval - (double)m->original_minval));
  size_t n = values_of(&s->image);
  for (size_t i = 0; i < n; i++) s->image.data[i] = (s->image.data[i] - m->original_minval) * factor + m->target_minval;
  return OD_OK;
}

static od_status subtract_run(od_picture *s, const void *message, od_key key) {
  const subtract_mean *m = message;
  (void)key;
  if (m->n_means != (size_t)s->image.channels)
    return od_fail(OD_EINVAL, "%zu means for %d channels", m->n_means, s->image.channels);
  size_t n = values_of(&s->image);
  for (size_t i = 0; i < n; i++) s->image.data[i] -= m->means[i % m->n_means];
  return OD_OK;
}

static od_status pixel_scale_run(od_picture *s, const void *message, od_key key) {
  const pixel_scale *m = message;
  size_t n = values_of(&s->image);
  for (size_t i = 0; i < n; i++)
    s->image.data[i] = clip255(s->image.data[i] * od_draw_range(key, i, m->minval, m->maxval));
  return OD_OK;
}

static float grey_of(const float *p) { return p[0] * 0.2989f + p[1] * 0.5870f + p[2] * 0.1140f; }

static od_status random_grey_run(od_picture *s, const void *message, od_key key) {
  OD_TRY(need_rgb(s));
  if (od_rng_f32(key, 0) > ((const random_grey *)message)->probability) return OD_OK;
  size_t n = pixels_of(&s->image);
  for (size_t i = 0; i < n; i++) {
    float *p = s->image.data + 3 * i;
    p[0] = p[1] = p[2] = grey_of(p);
  }
  return OD_OK;
}

/* Leaves one channel; a network that takes three refuses the picture. */
static od_status grey_run(od_picture *s, const void *message, od_key key) {
  (void)message;
  (void)key;
  OD_TRY(need_rgb(s));
  size_t n = pixels_of(&s->image);
  for (size_t i = 0; i < n; i++) s->image.data[i] = grey_of(s->image.data + 3 * i);
  s->image.channels = 1;
  return OD_OK;
}

static od_status patches_run(od_picture *s, const void *message, od_key key) {
  const patches *m = message;
  od_fimage *im = &s->image;
  int side = im->height < im->width ? im->height : im->width, size = (int)((float)side * m->size_to_image_ratio);
  for (int k = 0; k < m->max_black_patches; k++) {
    uint64_t at = 3 * (uint64_t)k;
    if (od_rng_f32(key, at) > m->probability) continue;
    int y0 = (int)(od_draw_range(key, at + 1, 0, 1 - m->size_to_image_ratio) * (float)im->height);
    int x0 = (int)(od_draw_range(key, at + 2, 0, 1 - m->size_to_image_ratio) * (float)im->width);
    for (int y = y0; y < y0 + size && y < im->height; y++) {
      int n = x0 + size < im->width ? size : im->width - x0;
      memset(im->data + ((size_t)y * (size_t)im->width + (size_t)x0) * (size_t)im->channels, 0,
             (size_t)n * (size_t)im->channels * sizeof(float));
    }
  }
  return OD_OK;
}

static od_status range_check(int min, int max, const char *name) {
  if (min <= max) return OD_OK;
  return od_fail(OD_EINVAL, "min_%s %d is larger than max_%s %d", name, min, name, max);
}

/* Uniform integer in [min, max), min when they are equal. */
static int draw_int(od_key key, uint64_t i, int min, int max) {
  return max > min ? min + (int)od_rng_below(key, i, (uint64_t)(max - min)) : min;
}

static od_status jpeg_check(const void *message) {
  const jpeg_quality *m = message;
  return range_check(m->min_jpeg_quality, m->max_jpeg_quality, "jpeg_quality");
}

static od_status jpeg_run(od_picture *s, const void *message, od_key key) {
  const jpeg_quality *m = message;
  if (!(od_rng_f32(key, 0) >= m->random_coef)) return OD_OK;
  OD_TRY(need_rgb(s));
  od_image u8 = {0}, back = {0};
  od_str jpeg = OD_STR_INIT;
  od_status st = OD_OK;
  size_t n = values_of(&s->image);
  OD_GO(st, od_image_new(&u8, s->image.height, s->image.width, 3));
  for (size_t i = 0; i < n; i++) u8.data[i] = (uint8_t)clip255(s->image.data[i]);
  OD_GO(st, od_jpeg_encode(&jpeg, &u8, draw_int(key, 1, m->min_jpeg_quality, m->max_jpeg_quality)));
  OD_GO(st, od_image_decode(&back, jpeg.data, jpeg.len, 3));
  for (size_t i = 0; i < n; i++) s->image.data[i] = back.data[i];
done:
  od_image_free(&u8);
  od_image_free(&back);
  od_str_free(&jpeg);
  return st;
}

static od_status downscale_check(const void *message) {
  const downscale *m = message;
  if (m->min_target_pixels <= 0)
    return od_fail(OD_EINVAL, "min_target_pixels %d must be positive", m->min_target_pixels);
  return range_check(m->min_target_pixels, m->max_target_pixels, "target_pixels");
}

static od_status downscale_run(od_picture *s, const void *message, od_key key) {
  const downscale *m = message;
  /* Not set, the original's function uses 800000, not the schema's default of 500000. */
  int max = m->has_max_target_pixels ? m->max_target_pixels : 800000, h = s->image.height, w = s->image.width;
  int target = draw_int(key, 1, m->min_target_pixels, max);
  if (!(od_rng_f32(key, 0) >= m->random_coef) || (int64_t)h * w <= target) return OD_OK;
  float scale = sqrtf((float)target / (float)(h * w));
  int th = (int)(scale * (float)h), tw = (int)(scale * (float)w);
  return od_resize_sample(s, th > 0 ? th : 1, tw > 0 ? tw : 1, OD_RESIZE_BILINEAR, OD_CORNERS_LEGACY);
}

static od_status noise_check(const void *message) {
  const patch_noise *m = message;
  if (m->min_patch_size < 1) return od_fail(OD_EINVAL, "min_patch_size %d; at least 1 is needed", m->min_patch_size);
  return range_check(m->min_patch_size, m->max_patch_size, "patch_size");
}

static od_status noise_run(od_picture *s, const void *message, od_key key) {
  const patch_noise *m = message;
  od_fimage *im = &s->image;
  if (!(od_rng_f32(key, 0) >= m->random_coef)) return OD_OK;
  int size = draw_int(key, 1, m->min_patch_size, m->max_patch_size);
  float dev = od_draw_range(key, 2, m->min_gaussian_stddev, m->max_gaussian_stddev);
  int cy = draw_int(key, 3, 0, im->height), cx = draw_int(key, 4, 0, im->width), up = size - size / 2;
  od_key noise = od_key_name(key, "noise");
  for (int y = cy - size / 2; y < cy + up && y < im->height; y++)
    for (int x = cx - size / 2; x < cx + up && x < im->width; x++)
      for (int c = 0; c < im->channels && y >= 0 && x >= 0; c++) {
        size_t i = ((size_t)y * (size_t)im->width + (size_t)x) * (size_t)im->channels + (size_t)c;
        im->data[i] = clip255((im->data[i] / 255.0f + dev * (float)od_rng_normal(noise, i)) * 255.0f);
      }
  return OD_OK;
}

#define STEP(upper) OBJECT_DETECTION__PROTOS__PREPROCESSING_STEP__PREPROCESSING_STEP_##upper

const od_step od_steps_colour[] = {{STEP(NORMALIZE_IMAGE), normalize_run, normalize_check},
                                   {STEP(SUBTRACT_CHANNEL_MEAN), subtract_run, NULL},
                                   {STEP(RANDOM_PIXEL_VALUE_SCALE), pixel_scale_run, NULL},
                                   {STEP(RANDOM_RGB_TO_GRAY), random_grey_run, NULL},
                                   {STEP(RGB_TO_GRAY), grey_run, NULL},
                                   {STEP(RANDOM_ADJUST_BRIGHTNESS), brightness_run, NULL},
                                   {STEP(RANDOM_ADJUST_CONTRAST), contrast_run, NULL},
                                   {STEP(RANDOM_ADJUST_HUE), hue_run, NULL},
                                   {STEP(RANDOM_ADJUST_SATURATION), saturation_run, NULL},
                                   {STEP(RANDOM_DISTORT_COLOR), distort_run, distort_check},
                                   {STEP(ADJUST_GAMMA), gamma_run, gamma_check},
                                   {STEP(RANDOM_BLACK_PATCHES), patches_run, NULL},
                                   {STEP(RANDOM_JPEG_QUALITY), jpeg_run, jpeg_check},
                                   {STEP(RANDOM_DOWNSCALE_TO_TARGET_PIXELS), downscale_run, downscale_check},
                                   {STEP(RANDOM_PATCH_GAUSSIAN), noise_run, noise_check},
                                   {0, NULL, NULL}};
