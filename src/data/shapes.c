/* Where the shapes of a picture stand: drawn by chance, taken back when they would hide one another too much. */
#include "data/shapes.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "data/shapes_scene.h"

static const char *const names[OD_SHAPE_CLASSES] = {"disc", "square", "triangle", "star", "cross", "ring"};

const char *od_shape_name(int id) {
  OD_ASSERT(id >= 1 && id <= OD_SHAPE_CLASSES);
  return names[id - 1];
}

/* ------------------------------------------------------------------------------------------------------------ forms */
/* (u, v) lies in the triangle or star whose points stand on the unit circle. The plane is folded into one sector between a
 * point and the neighbouring inner corner; there the outline is one straight line. */
static bool in_points(float u, float v, int points, float inner) {
  float sector = (float)M_PI / (float)points, r = sqrtf(u * u + v * v);
  float a = atan2f(u, -v); /* 0: upwards */
  a = fabsf(a - 2 * sector * roundf(a / (2 * sector)));
  float x = r * cosf(a), y = r * sinf(a), cx = inner * cosf(sector), cy = inner * sinf(sector);
  return (x - 1) * cy - y * (cx - 1) <= 0; /* the origin's side of the line from (1, 0) to the inner corner */
}

static bool in_form(int id, float u, float v) {
  float r2 = u * u + v * v;
  switch (id) {
  case 1: return r2 <= 1;
  case 2: return fabsf(u) <= 0.8f && fabsf(v) <= 0.8f;
  case 3: return in_points(u, v, 3, 0.5f); /* inner radius 1/2 makes the sides straight */
  case 4: return in_points(u, v, 5, 0.45f);
  case 5: return (fabsf(u) <= 0.3f && fabsf(v) <= 0.95f) || (fabsf(v) <= 0.3f && fabsf(u) <= 0.95f);
  default: return r2 <= 1 && r2 >= 0.55f * 0.55f;
  }
}

bool od_shape_holds(const od_scene_shape *s, float y, float x, float *v, float *u) {
  float dy = y - s->cy, dx = x - s->cx;
  if (fabsf(dy) > s->reach || fabsf(dx) > s->reach) return false;
  *u = (dx * s->cosine + dy * s->sine) / s->rx;
  *v = (dy * s->cosine - dx * s->sine) / s->ry;
  return in_form(s->id, *u, *v);
}

/* ------------------------------------------------------------------------------------------------------------ chance */
typedef struct {
  od_key key;
  uint64_t i;
} dice;

static float between(dice *d, float low, float high) { return low + (high - low) * od_rng_f32(d->key, d->i++); }
static int below(dice *d, int n) { return (int)od_rng_below(d->key, d->i++, (uint64_t)n); }

/* Any hue, from pale to strong, from dark to light. */
static od_ink draw_ink(dice *d) {
  float h = between(d, 0, 6), s = between(d, 0.15f, 0.95f), v = between(d, 0.2f, 0.98f), c[3];
  for (int i = 0; i < 3; i++) {
    float k = fmodf((float)(5 - 2 * i) + h, 6), t = fminf(k, 4 - k);
    c[i] = v - v * s * fmaxf(0, fminf(t, 1));
  }
  return (od_ink){c[0], c[1], c[2]};
}

static float ink_distance(od_ink a, od_ink b) {
  return sqrtf((a.r - b.r) * (a.r - b.r) + (a.g - b.g) * (a.g - b.g) + (a.b - b.b) * (a.b - b.b));
}

/* An ink at least so far from both others; after 64 throws what came last, so that it always ends. */
static od_ink draw_ink_apart(dice *d, od_ink a, od_ink b, float apart) {
  od_ink ink = draw_ink(d);
  for (int i = 0; i < 64 && (ink_distance(ink, a) < apart || ink_distance(ink, b) < apart); i++) ink = draw_ink(d);
  return ink;
}

static void draw_texture(od_texture *t, dice *d, int kinds, float smallest, float largest) {
  t->kind = below(d, kinds);
  float angle = between(d, 0, (float)M_PI);
  t->cosine = cosf(angle);
  t->sine = sinf(angle);
  t->period = between(d, smallest, largest);
  t->phase[0] = between(d, 0, 64);
  t->phase[1] = between(d, 0, 64);
  t->key = od_key_mix(d->key, d->i++);
}

static void draw_ground(od_scene *s, dice *d) {
  draw_texture(&s->ground, d, 6, 12, 60);
  s->ground.first = draw_ink(d);
  /* The two colours of the ground are neighbours, so that shapes stand out from both. */
  od_ink far = draw_ink(d), near = s->ground.first;
  float share = between(d, 0.15f, 0.5f);
  s->ground.other =
      (od_ink){near.r + share * (far.r - near.r), near.g + share * (far.g - near.g), near.b + share * (far.b - near.b)};
  s->light[0] = between(d, -0.15f, 0.15f);
  s->light[1] = between(d, -0.15f, 0.15f);
  s->grain = between(d, 0.005f, 0.035f);
}

static void draw_shape(od_scene_shape *out, const od_scene *s, dice *d, int id) {
  float side = (float)(s->height < s->width ? s->height : s->width), angle = between(d, 0, 2 * (float)M_PI);
  float r = side * 0.5f * between(d, 0.14f, 0.62f), stretch = between(d, 0.88f, 1.14f);
  out->id = id;
  out->ry = r * stretch;
  out->rx = r / stretch;
  out->reach = fmaxf(out->ry, out->rx) * 1.14f; /* the corners of the square: 0.8 * sqrt(2) */
  out->cosine = cosf(angle);
  out->sine = sinf(angle);
  out->light[0] = between(d, -0.2f, 0.2f);
  out->light[1] = between(d, -0.2f, 0.2f);
  draw_texture(&out->texture, d, 5, fmaxf(5, r * 0.25f), fmaxf(8, r * 0.8f));
  out->texture.first = draw_ink_apart(d, s->ground.first, s->ground.other, 0.35f);
  out->texture.other = draw_ink_apart(d, s->ground.first, out->texture.first, 0.3f);
}

/* --------------------------------------------------------------------------------------------------------- placement */
typedef struct {
  uint8_t *owner, *trial; /* [height, width]: 0 the ground, else 1 + the shape on top at the pixel's centre */
  int area[OD_SHAPES_MAX];
} layout;

static void measure(od_shape_truth *t, int *visible, const uint8_t *owner, const od_scene *s, int n) {
  for (int k = 0; k < n; k++) {
    t[k] = (od_shape_truth){.id = s->shapes[k].id, .xmin = s->width, .ymin = s->height};
    visible[k] = 0;
  }
  for (int y = 0; y < s->height; y++)
    for (int x = 0; x < s->width; x++) {
      int k = owner[(size_t)y * (size_t)s->width + (size_t)x] - 1;
      if (k < 0) continue;
      visible[k]++;
      if (x < t[k].xmin) t[k].xmin = x;
      if (y < t[k].ymin) t[k].ymin = y;
      if (x + 1 > t[k].xmax) t[k].xmax = x + 1;
      if (y + 1 > t[k].ymax) t[k].ymax = y + 1;
    }
}

static bool share_fits(int from, int to, int side) {
  float share = (float)(to - from) / (float)side;
  return share >= 0.1f && share <= 0.6f;
}

/* Lays the scene's last shape on top. False when it leaves the picture, its box or one that it hides becomes too small or too
 * large, or less than 60 % of a shape stays visible. */
static bool place(od_shape_truth *truth, layout *l, const od_scene *s, int last) {
  const od_scene_shape *shape = &s->shapes[last];
  size_t size = (size_t)s->height * (size_t)s->width;
  int visible[OD_SHAPES_MAX];
  float v, u;
  memcpy(l->trial, l->owner, size);
  l->area[last] = 0;
  int y0 = (int)floorf(shape->cy - shape->reach), y1 = (int)ceilf(shape->cy + shape->reach);
  int x0 = (int)floorf(shape->cx - shape->reach), x1 = (int)ceilf(shape->cx + shape->reach);
  for (int y = y0; y < y1; y++)
    for (int x = x0; x < x1; x++) {
      if (!od_shape_holds(shape, (float)y + 0.5f, (float)x + 0.5f, &v, &u)) continue;
      if (y < 1 || x < 1 || y >= s->height - 1 || x >= s->width - 1) return false;
      l->trial[(size_t)y * (size_t)s->width + (size_t)x] = (uint8_t)(last + 1);
      l->area[last]++;
    }
  measure(truth, visible, l->trial, s, last + 1);
  for (int k = 0; k <= last; k++) {
    if (!share_fits(truth[k].xmin, truth[k].xmax, s->width) || !share_fits(truth[k].ymin, truth[k].ymax, s->height))
      return false;
    if ((float)visible[k] < 0.6f * (float)l->area[k]) return false;
    truth[k].occluded = visible[k] < l->area[k];
  }
  memcpy(l->owner, l->trial, size);
  return true;
}

/* Throws until every shape has a place. One that finds none in 25 throws is drawn anew, so that sizes stay evenly spread and a
 * crowded picture gets smaller ones; after 200 throws it is left out (the first always finds its place). */
static void compose(od_scene *s, od_shape_truth *truth, layout *l, dice *d) {
  od_shape_truth trial[OD_SHAPES_MAX];
  int wanted = 1 + below(d, OD_SHAPES_MAX);
  draw_ground(s, d);
  for (int n = 0; n < wanted; n++) {
    int id = 1 + below(d, OD_SHAPE_CLASSES); /* once: a form that fits in more easily must not become more frequent */
    for (int tries = 0; tries < 200; tries++) {
      od_scene_shape *shape = &s->shapes[s->count];
      if (tries % 25 == 0) draw_shape(shape, s, d, id);
      shape->cy = between(d, 0, (float)s->height);
      shape->cx = between(d, 0, (float)s->width);
      if (!place(trial, l, s, s->count)) continue;
      s->count++;
      memcpy(truth, trial, (size_t)s->count * sizeof *truth);
      break;
    }
  }
}

od_status od_shapes_draw(od_image *out, od_shape_truth truth[OD_SHAPES_MAX], int *count, uint64_t seed,
                         uint64_t number) {
  od_key key = od_key_mix(od_key_name(od_key_mix(0, seed), "shapes"), number);
  dice d = {key, 0};
  od_scene s = {.height = 192 + below(&d, 65), .width = 192 + below(&d, 65), .key = key};
  layout l = {0};
  size_t size = (size_t)s.height * (size_t)s.width;
  OD_TRY(od_image_new(out, s.height, s.width, 3));
  od_status st = od_new(&l.owner, size, 1);
  if (st == OD_OK) st = od_new(&l.trial, size, 1);
  if (st == OD_OK) {
    compose(&s, truth, &l, &d);
    *count = s.count;
    od_scene_paint(out->data, &s);
  } else {
    od_image_free(out);
  }
  od_free(l.owner);
  od_free(l.trial);
  return st;
}
