/* As the original computes them, rounding included: blends are cut, not rounded, to whole numbers. */
#include "data/policy_ops.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

static size_t values_of(const od_image *im) { return (size_t)im->height * (size_t)im->width * 3; }
static uint8_t *pixel(od_image *im, int y, int x) { return im->data + ((size_t)y * (size_t)im->width + (size_t)x) * 3; }
static uint8_t clip(float v) { return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v); }

/* a + factor * (b - a); factors 0 and 1 give a and b themselves. */
static uint8_t blend(uint8_t a, uint8_t b, float factor) {
  if (factor == 0) return a;
  if (factor == 1) return b;
  return clip((float)a + factor * ((float)b - (float)a));
}

/* Grey as tf.image.rgb_to_grayscale makes it of 8 bits: through floats of 0..1, with half a step to round. */
static uint8_t grey_of(const uint8_t *p) {
  const float s = 1.0f / 255.0f;
  float g = (float)p[0] * s * 0.2989f + (float)p[1] * s * 0.5870f + (float)p[2] * s * 0.1140f;
  return clip(g * 255.5f);
}

void od_policy_autocontrast(od_image *im) {
  size_t n = values_of(im);
  for (size_t c = 0; c < 3; c++) {
    float lo = 255, hi = 0;
    for (size_t i = c; i < n; i += 3) {
      lo = fminf(lo, im->data[i]);
      hi = fmaxf(hi, im->data[i]);
    }
    if (!(hi > lo)) continue;
    float scale = 255.0f / (hi - lo), offset = -lo * scale;
    for (size_t i = c; i < n; i += 3) im->data[i] = clip((float)im->data[i] * scale + offset);
  }
}

void od_policy_equalize(od_image *im, od_region r) {
  for (int c = 0; c < 3; c++) {
    int64_t count[256] = {0}, sum = 0, total = 0, last = 0;
    for (int y = r.y0; y <= r.y1; y++)
      for (int x = r.x0; x <= r.x1; x++) count[pixel(im, y, x)[c]]++;
    for (int i = 0; i < 256; i++) {
      total += count[i];
      if (count[i]) last = count[i];
    }
    int64_t step = (total - last) / 255;
    if (step == 0) continue;
    uint8_t to[256];
    for (int i = 0; i < 256; i++) {
      int64_t v = i ? (sum + step / 2) / step : 0; /* of the levels below */
      to[i] = (uint8_t)(v > 255 ? 255 : v);
      sum += count[i];
    }
    for (int y = r.y0; y <= r.y1; y++)
      for (int x = r.x0; x <= r.x1; x++) pixel(im, y, x)[c] = to[pixel(im, y, x)[c]];
  }
}

void od_policy_posterize(od_image *im, int bits) {
  size_t n = values_of(im);
  int shift = bits < 1 ? 7 : 8 - bits; /* TensorFlow shifts 8 bits by 7 at most */
  for (size_t i = 0; i < n; i++) im->data[i] = (uint8_t)(im->data[i] >> shift << shift);
}

void od_policy_solarize(od_image *im, od_region r, int threshold) {
  for (int y = r.y0; y <= r.y1; y++)
    for (int x = r.x0; x <= r.x1; x++)
      for (int c = 0; c < 3; c++) {
        uint8_t *p = pixel(im, y, x) + c;
        if (*p >= threshold) *p = (uint8_t)(255 - *p);
      }
}

void od_policy_solarize_add(od_image *im, int addition) {
  size_t n = values_of(im);
  for (size_t i = 0; i < n; i++)
    if (im->data[i] < 128) im->data[i] = clip((float)(im->data[i] + addition));
}

void od_policy_colour(od_image *im, float factor) {
  size_t n = values_of(im);
  for (size_t i = 0; i < n; i += 3) {
    uint8_t g = grey_of(im->data + i);
    for (size_t c = 0; c < 3; c++) im->data[i + c] = blend(g, im->data[i + c], factor);
  }
}

/* Towards one grey: the number of pixels over 256 (not their mean; that is how the original has it), cut at 255. */
void od_policy_contrast(od_image *im, float factor) {
  size_t n = values_of(im);
  uint8_t g = clip((float)(n / 3) / 256.0f);
  for (size_t i = 0; i < n; i++) im->data[i] = blend(g, im->data[i], factor);
}

void od_policy_brightness(od_image *im, float factor) {
  size_t n = values_of(im);
  for (size_t i = 0; i < n; i++) im->data[i] = blend(0, im->data[i], factor);
}

/* Against a smoothed picture (3 x 3, middle 5, sum 13); the border stays. */
od_status od_policy_sharpness(od_image *im, float factor) {
  od_image out;
  OD_TRY(od_image_new(&out, im->height, im->width, 3));
  memcpy(out.data, im->data, values_of(im));
  for (int y = 1; y + 1 < im->height; y++)
    for (int x = 1; x + 1 < im->width; x++)
      for (int c = 0; c < 3; c++) {
        float sum = 0;
        for (int k = 0; k < 9; k++)
          sum += (float)pixel(im, y + k / 3 - 1, x + k % 3 - 1)[c] * ((k == 4 ? 5.0f : 1.0f) / 13.0f);
        pixel(&out, y, x)[c] = blend(clip(sum), pixel(im, y, x)[c], factor);
      }
  od_image_free(im);
  *im = out;
  return OD_OK;
}

void od_policy_cutout(od_image *im, od_region r, int size, od_key key) {
  int cy = r.y0 + (int)od_rng_below(key, 0, (uint64_t)(r.y1 - r.y0 + 1));
  int cx = r.x0 + (int)od_rng_below(key, 1, (uint64_t)(r.x1 - r.x0 + 1));
  for (int y = cy - size; y < cy + size; y++)
    for (int x = cx - size; x < cx + size; x++)
      if (y >= r.y0 && y <= r.y1 && x >= r.x0 && x <= r.x1) memset(pixel(im, y, x), 128, 3);
}

void od_policy_flip(od_image *im, od_region r) {
  for (int y = r.y0; y <= r.y1; y++)
    for (int a = r.x0, b = r.x1; a < b; a++, b--) {
      uint8_t *p = pixel(im, y, a), *q = pixel(im, y, b), t[3];
      memcpy(t, p, 3);
      memcpy(p, q, 3);
      memcpy(q, t, 3);
    }
}

od_status od_policy_transform(od_image *im, od_region r, const float m[6]) {
  int h = r.y1 - r.y0 + 1, w = r.x1 - r.x0 + 1;
  uint8_t *copy = NULL;
  OD_TRY(od_new(&copy, (size_t)h * (size_t)w, 3));
  for (int y = 0; y < h; y++) memcpy(copy + (size_t)y * (size_t)w * 3, pixel(im, r.y0 + y, r.x0), (size_t)w * 3);
  for (int y = 0; y < h; y++)
    for (int x = 0; x < w; x++) {
      float fx = roundf(m[0] * (float)x + m[1] * (float)y + m[2]),
            fy = roundf(m[3] * (float)x + m[4] * (float)y + m[5]);
      uint8_t *o = pixel(im, r.y0 + y, r.x0 + x);
      if (fx >= 0 && fx < (float)w && fy >= 0 && fy < (float)h)
        memcpy(o, copy + ((size_t)fy * (size_t)w + (size_t)fx) * 3, 3);
      else
        memset(o, 128, 3);
    }
  od_free(copy);
  return OD_OK;
}

void od_policy_rotation(float m[6], float degrees, int height, int width) {
  float a = degrees * 3.14159265358979f / 180.0f, c = cosf(a), s = sinf(a), w = (float)(width - 1),
        h = (float)(height - 1);
  m[0] = c;
  m[1] = -s;
  m[2] = (w - (c * w - s * h)) / 2;
  m[3] = s;
  m[4] = c;
  m[5] = (h - (s * w + c * h)) / 2;
}
