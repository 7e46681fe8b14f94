/* Painting a scene of shapes: patterns, light, grain. Sums are in float and in a fixed order, so that a picture has the same
 * bytes wherever it is drawn with the same mathematical library. */
#include <math.h>

#include "data/shapes_scene.h"

static od_ink mix(od_ink a, od_ink b, float t) {
  return (od_ink){a.r + t * (b.r - a.r), a.g + t * (b.g - a.g), a.b + t * (b.b - a.b)};
}
static float smooth(float t) { return t * t * (3 - 2 * t); }

/* Random value 0..1 of a lattice point. */
static float lattice(od_key key, int y, int x) { return od_rng_f32(key, ((uint64_t)(uint32_t)y << 32) | (uint32_t)x); }

/* Value noise, 0..1, one lattice cell a unit. */
static float noise(od_key key, float y, float x) {
  float fy = floorf(y), fx = floorf(x), ty = smooth(y - fy), tx = smooth(x - fx);
  int iy = (int)fy, ix = (int)fx;
  float top = lattice(key, iy, ix) * (1 - tx) + lattice(key, iy, ix + 1) * tx;
  float bottom = lattice(key, iy + 1, ix) * (1 - tx) + lattice(key, iy + 1, ix + 1) * tx;
  return top * (1 - ty) + bottom * ty;
}

static float clouds(const od_texture *t, float y, float x) {
  float s = 1 / t->period;
  return 0.6f * noise(t->key, y * s, x * s) + 0.27f * noise(t->key + 1, 2.1f * y * s, 2.1f * x * s) +
         0.13f * noise(t->key + 2, 4.3f * y * s, 4.3f * x * s);
}

/* 0..1, a soft edge between two halves of a period. */
static float wave(float position) {
  float p = position - floorf(position), edge = fminf(fabsf(p - 0.5f), fminf(p, 1 - p));
  float soft = fminf(edge * 8, 1) * 0.5f;
  return p < 0.5f ? 0.5f + soft : 0.5f - soft;
}

/* Along and across the texture's direction, in periods. */
static void turned(const od_texture *t, float y, float x, float *along, float *across) {
  *along = (x * t->cosine + y * t->sine + t->phase[0]) / t->period;
  *across = (y * t->cosine - x * t->sine + t->phase[1]) / t->period;
}

/* Colour of a shape's surface; y, x in pixels from the picture's corner, v, u in its own axes. */
static od_ink surface(const od_texture *t, float y, float x, float v, float u) {
  float a, b, da, db;
  turned(t, y, x, &a, &b);
  switch (t->kind) {
  case 0: return mix(t->first, t->other, 0.35f * (0.5f + 0.5f * (u * 0.8f + v * 0.6f))); /* plain, a gradient */
  case 1: return mix(t->first, t->other, wave(a));                                       /* stripes */
  case 2:
    da = a - floorf(a) - 0.5f, db = b - floorf(b) - 0.5f;
    return da * da + db * db < 0.08f ? t->other : t->first;                                              /* dots */
  case 3: return ((int)floorf(a) + (int)floorf(b)) & 1 ? t->first : t->other;                            /* checks */
  default: return mix(t->first, t->other, smooth(fmaxf(0, fminf(1, (clouds(t, y, x) - 0.35f) * 3.3f)))); /* blotches */
  }
}

/* Colour of the ground. */
static od_ink ground(const od_texture *t, float y, float x, int height) {
  float a, b, c;
  switch (t->kind) {
  case 0: return mix(t->first, t->other, clouds(t, y, x));                                /* clouds */
  case 1: turned(t, y, x, &a, &b); return mix(t->first, t->other, 0.5f + 0.5f * sinf(a)); /* slow waves */
  case 2: turned(t, y, x, &a, &b); return mix(t->first, t->other, 0.7f * wave(a) + 0.3f * clouds(t, y, x)); /* planks */
  case 3: /* bricks: every other row half a brick on */
    a = (y + t->phase[0]) / (0.5f * t->period), b = (x + t->phase[1]) / t->period + 0.5f * (float)((int)floorf(a) & 1);
    c = fminf(fminf(a - floorf(a), 1 - a + floorf(a)) * 0.5f, fminf(b - floorf(b), 1 - b + floorf(b)));
    if (c < 0.04f) return t->other;
    return mix(t->first, t->other, 0.35f * lattice(t->key, (int)floorf(a), (int)floorf(b)));
  case 4: /* land under a sky */
    c = (float)height * (0.35f + 0.01f * t->phase[0] * 0.4f) + 10 * noise(t->key, 0, x / t->period);
    if (y < c) return mix(t->first, (od_ink){1, 1, 1}, 0.35f * y / c);
    return mix(t->other, t->first, 0.6f * clouds(t, 2 * y, x));
  default: /* gravel */ return mix(t->first, t->other, 0.5f * noise(t->key, y / 3, x / 3) + 0.5f * clouds(t, y, x));
  }
}

static od_ink shine(od_ink i, float gain) { return (od_ink){i.r * gain, i.g * gain, i.b * gain}; }

static od_ink sample(const od_scene *s, float y, float x) {
  float v, u;
  for (int k = s->count - 1; k >= 0; k--) {
    const od_scene_shape *shape = &s->shapes[k];
    if (!od_shape_holds(shape, y, x, &v, &u)) continue;
    return shine(surface(&shape->texture, y, x, v, u), 1 + shape->light[0] * v + shape->light[1] * u);
  }
  od_ink i = ground(&s->ground, y, x, s->height);
  for (int k = 0; k < s->count; k++) { /* a soft shadow to the lower right of what lies on the ground */
    const od_scene_shape *shape = &s->shapes[k];
    float shift = 0.06f * shape->reach;
    if (od_shape_holds(shape, y - shift, x - shift, &v, &u)) return shine(i, 0.75f);
  }
  return i;
}

static uint8_t byte_of(float value) { return (uint8_t)(fmaxf(0, fminf(1, value)) * 255 + 0.5f); }

void od_scene_paint(uint8_t *out, const od_scene *s) {
  enum { S = 2 };
  od_key grain = od_key_name(s->key, "grain");
  for (int y = 0; y < s->height; y++)
    for (int x = 0; x < s->width; x++) {
      od_ink sum = {0, 0, 0};
      for (int k = 0; k < S * S; k++) {
        od_ink i = sample(s, (float)y + ((float)(k / S) + 0.5f) / S, (float)x + ((float)(k % S) + 0.5f) / S);
        sum = (od_ink){sum.r + i.r, sum.g + i.g, sum.b + i.b};
      }
      float gain =
          1 + s->light[0] * (2 * (float)y / (float)s->height - 1) + s->light[1] * (2 * (float)x / (float)s->width - 1);
      sum = shine(sum, gain / (S * S));
      size_t at = (size_t)y * (size_t)s->width + (size_t)x;
      float shake = s->grain * (od_rng_f32(grain, 2 * at) + od_rng_f32(grain, 2 * at + 1) - 1) * 2;
      out[3 * at] = byte_of(sum.r + shake);
      out[3 * at + 1] = byte_of(sum.g + shake);
      out[3 * at + 2] = byte_of(sum.b + shake);
    }
}
