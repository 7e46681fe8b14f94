/* autoaugment_image: learned policies (Zoph et al. 2019, "Learning Data Augmentation Strategies for Object Detection"). A
 * policy is a list of sub-policies; one is drawn for a picture, its operations are each done with their probability. Levels
 * go from 0 to 10. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "data/augment_steps.h"
#include "data/policy_ops.h"

typedef enum {
  AUTOCONTRAST,
  EQUALIZE,
  POSTERIZE,
  SOLARIZE,
  SOLARIZE_ADD,
  COLOR,
  CONTRAST,
  BRIGHTNESS,
  SHARPNESS,
  CUTOUT,
  BBOX_CUTOUT,
  ROTATE_BBOX,
  TRANSLATE_X_BBOX,
  TRANSLATE_Y_BBOX,
  SHEAR_X_BBOX,
  SHEAR_Y_BBOX,
  /* on the contents of boxes alone, at a third of the probability for each */
  SHEAR_X_ONLY,
  SHEAR_Y_ONLY,
  TRANSLATE_Y_ONLY,
  FLIP_ONLY,
  EQUALIZE_ONLY,
  CUTOUT_ONLY
} operation;

typedef struct {
  operation op;
  float probability;
  int level;
} act;

typedef struct {
  act acts[3]; /* probability below 0: none */
} sub_policy;

#define NONE                                                                                                           \
  { AUTOCONTRAST, -1, 0 }

static const sub_policy v1[] = {
    /* the first five are v0 */
    {{{TRANSLATE_X_BBOX, 0.6f, 4}, {EQUALIZE, 0.8f, 10}, NONE}},
    {{{TRANSLATE_Y_ONLY, 0.2f, 2}, {CUTOUT, 0.8f, 8}, NONE}},
    {{{SHARPNESS, 0.0f, 8}, {SHEAR_X_BBOX, 0.4f, 0}, NONE}},
    {{{SHEAR_Y_BBOX, 1.0f, 2}, {TRANSLATE_Y_ONLY, 0.6f, 6}, NONE}},
    {{{ROTATE_BBOX, 0.6f, 10}, {COLOR, 1.0f, 6}, NONE}},
    {{{COLOR, 0.0f, 0}, {SHEAR_X_ONLY, 0.8f, 4}, NONE}},
    {{{SHEAR_Y_ONLY, 0.8f, 2}, {FLIP_ONLY, 0.0f, 10}, NONE}},
    {{{EQUALIZE, 0.6f, 10}, {TRANSLATE_X_BBOX, 0.2f, 2}, NONE}},
    {{{COLOR, 1.0f, 10}, {TRANSLATE_Y_ONLY, 0.4f, 6}, NONE}},
    {{{ROTATE_BBOX, 0.8f, 10}, {CONTRAST, 0.0f, 10}, NONE}},
    {{{CUTOUT, 0.2f, 2}, {BRIGHTNESS, 0.8f, 10}, NONE}},
    {{{COLOR, 1.0f, 6}, {EQUALIZE, 1.0f, 2}, NONE}},
    {{{CUTOUT_ONLY, 0.4f, 6}, {TRANSLATE_Y_ONLY, 0.8f, 2}, NONE}},
    {{{COLOR, 0.2f, 8}, {ROTATE_BBOX, 0.8f, 10}, NONE}},
    {{{SHARPNESS, 0.4f, 4}, {TRANSLATE_Y_ONLY, 0.0f, 4}, NONE}},
    {{{SHARPNESS, 1.0f, 4}, {SOLARIZE_ADD, 0.4f, 4}, NONE}},
    {{{ROTATE_BBOX, 1.0f, 8}, {SHARPNESS, 0.2f, 8}, NONE}},
    {{{SHEAR_Y_BBOX, 0.6f, 10}, {EQUALIZE_ONLY, 0.6f, 8}, NONE}},
    {{{SHEAR_X_BBOX, 0.2f, 6}, {TRANSLATE_Y_ONLY, 0.2f, 10}, NONE}},
    {{{SOLARIZE_ADD, 0.6f, 8}, {BRIGHTNESS, 0.8f, 10}, NONE}}};
static const sub_policy v2[] = {{{{COLOR, 0.0f, 6}, {CUTOUT, 0.6f, 8}, {SHARPNESS, 0.4f, 8}}},
                                {{{ROTATE_BBOX, 0.4f, 8}, {SHARPNESS, 0.4f, 2}, {ROTATE_BBOX, 0.8f, 10}}},
                                {{{TRANSLATE_Y_BBOX, 1.0f, 8}, {AUTOCONTRAST, 0.8f, 2}, NONE}},
                                {{{AUTOCONTRAST, 0.4f, 6}, {SHEAR_X_BBOX, 0.8f, 8}, {BRIGHTNESS, 0.0f, 10}}},
                                {{{SOLARIZE_ADD, 0.2f, 6}, {CONTRAST, 0.0f, 10}, {AUTOCONTRAST, 0.6f, 0}}},
                                {{{CUTOUT, 0.2f, 0}, {SOLARIZE, 0.8f, 8}, {COLOR, 1.0f, 4}}},
                                {{{TRANSLATE_Y_BBOX, 0.0f, 4}, {EQUALIZE, 0.6f, 8}, {SOLARIZE, 0.0f, 10}}},
                                {{{TRANSLATE_Y_BBOX, 0.2f, 2}, {SHEAR_Y_BBOX, 0.8f, 8}, {ROTATE_BBOX, 0.8f, 8}}},
                                {{{CUTOUT, 0.8f, 8}, {BRIGHTNESS, 0.8f, 8}, {CUTOUT, 0.2f, 2}}},
                                {{{COLOR, 0.8f, 4}, {TRANSLATE_Y_BBOX, 1.0f, 6}, {ROTATE_BBOX, 0.6f, 6}}},
                                {{{ROTATE_BBOX, 0.6f, 10}, {BBOX_CUTOUT, 1.0f, 4}, {CUTOUT, 0.2f, 8}}},
                                {{{ROTATE_BBOX, 0.0f, 0}, {EQUALIZE, 0.6f, 6}, {SHEAR_Y_BBOX, 0.6f, 8}}},
                                {{{BRIGHTNESS, 0.8f, 8}, {AUTOCONTRAST, 0.4f, 2}, {BRIGHTNESS, 0.2f, 2}}},
                                {{{TRANSLATE_Y_BBOX, 0.4f, 8}, {SOLARIZE, 0.4f, 6}, {SOLARIZE_ADD, 0.2f, 10}}},
                                {{{CONTRAST, 1.0f, 10}, {SOLARIZE_ADD, 0.2f, 8}, {EQUALIZE, 0.2f, 4}}}};
static const sub_policy v3[] = {{{{POSTERIZE, 0.8f, 2}, {TRANSLATE_X_BBOX, 1.0f, 8}, NONE}},
                                {{{BBOX_CUTOUT, 0.2f, 10}, {SHARPNESS, 1.0f, 8}, NONE}},
                                {{{ROTATE_BBOX, 0.6f, 8}, {ROTATE_BBOX, 0.8f, 10}, NONE}},
                                {{{EQUALIZE, 0.8f, 10}, {AUTOCONTRAST, 0.2f, 10}, NONE}},
                                {{{SOLARIZE_ADD, 0.2f, 2}, {TRANSLATE_Y_BBOX, 0.2f, 8}, NONE}},
                                {{{SHARPNESS, 0.0f, 2}, {COLOR, 0.4f, 8}, NONE}},
                                {{{EQUALIZE, 1.0f, 8}, {TRANSLATE_Y_BBOX, 1.0f, 8}, NONE}},
                                {{{POSTERIZE, 0.6f, 2}, {ROTATE_BBOX, 0.0f, 10}, NONE}},
                                {{{AUTOCONTRAST, 0.6f, 0}, {ROTATE_BBOX, 1.0f, 6}, NONE}},
                                {{{EQUALIZE, 0.0f, 4}, {CUTOUT, 0.8f, 10}, NONE}},
                                {{{BRIGHTNESS, 1.0f, 2}, {TRANSLATE_Y_BBOX, 1.0f, 6}, NONE}},
                                {{{CONTRAST, 0.0f, 2}, {SHEAR_Y_BBOX, 0.8f, 0}, NONE}},
                                {{{AUTOCONTRAST, 0.8f, 10}, {CONTRAST, 0.2f, 10}, NONE}},
                                {{{ROTATE_BBOX, 1.0f, 10}, {CUTOUT, 1.0f, 10}, NONE}},
                                {{{SOLARIZE_ADD, 0.8f, 6}, {EQUALIZE, 0.8f, 8}, NONE}}};
static const sub_policy test_policy[] = {{{{TRANSLATE_X_BBOX, 1.0f, 4}, {EQUALIZE, 1.0f, 10}, NONE}}};

static const struct {
  const char *name;
  const sub_policy *list;
  uint64_t count;
} policies[] = {{"v0", v1, 5}, {"v1", v1, 20}, {"v2", v2, 15}, {"v3", v3, 15}, {"test", test_policy, 1}};
enum { POLICIES = sizeof policies / sizeof *policies };

/* ------------------------------------------------------------------------------------------------------------- boxes */
/* Clipped to the picture; a side that became nothing gets a twentieth of it. */
static void store_box(float *b, float ymin, float xmin, float ymax, float xmax) {
  const float v[4] = {ymin, xmin, ymax, xmax};
  for (int k = 0; k < 4; k++) b[k] = fminf(fmaxf(v[k], 0.0f), 1.0f);
  for (int k = 0; k < 2; k++)
    if (b[k + 2] - b[k] == 0) {
      b[k + 2] = fmaxf(b[k + 2], 0.05f);
      b[k] = fminf(b[k], 0.95f);
    }
}

static float min4(const int *v) {
  return (float)(int)fminf(fminf((float)v[0], (float)v[1]), fminf((float)v[2], (float)v[3]));
}
static float max4(const int *v) {
  return (float)(int)fmaxf(fmaxf((float)v[0], (float)v[1]), fmaxf((float)v[2], (float)v[3]));
}

/* The box round the turned corners, in whole pixels from the middle. */
static void rotate_box(float *b, int h, int w, float degrees) {
  float a = degrees * 3.14159265358979f / 180.0f, c = cosf(a), s = sinf(a);
  int y[2] = {-(int)((float)h * (b[0] - 0.5f)), -(int)((float)h * (b[2] - 0.5f))};
  int x[2] = {(int)((float)w * (b[1] - 0.5f)), (int)((float)w * (b[3] - 0.5f))}, ny[4], nx[4];
  for (int k = 0; k < 4; k++) {
    float fy = (float)y[k / 2], fx = (float)x[k % 2];
    ny[k] = (int)(c * fy + s * fx);
    nx[k] = (int)(-s * fy + c * fx);
  }
  store_box(b, -(max4(ny) / (float)h - 0.5f), min4(nx) / (float)w + 0.5f, -(min4(ny) / (float)h - 0.5f),
            max4(nx) / (float)w + 0.5f);
}

static void shear_box(float *b, int h, int w, float level, bool horizontal) {
  int y[2] = {(int)((float)h * b[0]), (int)((float)h * b[2])}, x[2] = {(int)((float)w * b[1]), (int)((float)w * b[3])},
      ny[4], nx[4];
  for (int k = 0; k < 4; k++) {
    float fy = (float)y[k / 2], fx = (float)x[k % 2];
    ny[k] = (int)(horizontal ? fy : fy - level * fx);
    nx[k] = (int)(horizontal ? fx - level * fy : fx);
  }
  store_box(b, min4(ny) / (float)h, min4(nx) / (float)w, max4(ny) / (float)h, max4(nx) / (float)w);
}

static void shift_box(float *b, int h, int w, int pixels, bool horizontal) {
  int v[4] = {(int)((float)h * b[0]), (int)((float)w * b[1]), (int)((float)h * b[2]), (int)((float)w * b[3])};
  int k = horizontal ? 1 : 0, size = horizontal ? w : h;
  v[k] = v[k] - pixels > 0 ? v[k] - pixels : 0;
  v[k + 2] = v[k + 2] - pixels < size ? v[k + 2] - pixels : size;
  store_box(b, (float)v[0] / (float)h, (float)v[1] / (float)w, (float)v[2] / (float)h, (float)v[3] / (float)w);
}

/* Pixels of a box; false when nothing of it lies in the picture. */
static bool region_of(od_region *r, const float *b, const od_image *im) {
  float h = (float)im->height, w = (float)im->width;
  *r = (od_region){(int)(h * b[0]), (int)(w * b[1]), (int)(h * b[2]), (int)(w * b[3])};
  if (r->y1 > im->height - 1) r->y1 = im->height - 1;
  if (r->x1 > im->width - 1) r->x1 = im->width - 1;
  return r->y0 >= 0 && r->x0 >= 0 && r->y1 >= r->y0 && r->x1 >= r->x0;
}

/* --------------------------------------------------------------------------------------------------------- operations */
static float enhance(int level) { return (float)level / 10 * 1.8f + 0.1f; }

/* Draw 0 of an operation's key decides about it, draw 1 about its direction; boxes use 8, 9, ... */
static float negated(float v, od_key key) { return od_rng_f32(key, 1) >= 0.5f ? v : -v; }

static od_status whole_picture(od_image *im, od_truth *t, const act *a, od_key key) {
  float share = (float)a->level / 10;
  od_region all = od_region_all(im);
  od_key place = od_key_name(key, "place");
  int i;
  od_region r;
  switch (a->op) {
  case AUTOCONTRAST: od_policy_autocontrast(im); return OD_OK;
  case EQUALIZE: od_policy_equalize(im, all); return OD_OK;
  case POSTERIZE: od_policy_posterize(im, (int)(share * 4)); return OD_OK;
  case SOLARIZE: od_policy_solarize(im, all, (int)(share * 256)); return OD_OK;
  case SOLARIZE_ADD: od_policy_solarize_add(im, (int)(share * 110)); return OD_OK;
  case COLOR: od_policy_colour(im, enhance(a->level)); return OD_OK;
  case CONTRAST: od_policy_contrast(im, enhance(a->level)); return OD_OK;
  case BRIGHTNESS: od_policy_brightness(im, enhance(a->level)); return OD_OK;
  case SHARPNESS: return od_policy_sharpness(im, enhance(a->level));
  case CUTOUT: od_policy_cutout(im, all, (int)(share * 100), place); return OD_OK;
  default: break;
  }
  /* BBOX_CUTOUT: a centre in one of the boxes, a rectangle of its shape, up to 3/4 of it. */
  if (t->count == 0) return OD_OK;
  i = (int)od_rng_below(place, 2, (uint64_t)t->count);
  if (!region_of(&r, t->boxes + 4 * i, im)) return OD_OK;
  int py = (int)(share * 0.75f * (float)(r.y1 - r.y0 + 1) / 2),
      px = (int)(share * 0.75f * (float)(r.x1 - r.x0 + 1) / 2);
  int cy = r.y0 + (int)od_rng_below(place, 0, (uint64_t)(r.y1 - r.y0 + 1)),
      cx = r.x0 + (int)od_rng_below(place, 1, (uint64_t)(r.x1 - r.x0 + 1));
  for (int y = cy - py; y < cy + py; y++)
    for (int x = cx - px; x < cx + px; x++)
      if (y >= 0 && x >= 0 && y < im->height && x < im->width)
        memset(im->data + ((size_t)y * (size_t)im->width + (size_t)x) * 3, 128, 3);
  return OD_OK;
}

static od_status with_boxes(od_image *im, od_truth *t, const act *a, od_key key) {
  float share = (float)a->level / 10, m[6] = {1, 0, 0, 0, 1, 0};
  bool horizontal = a->op == SHEAR_X_BBOX || a->op == TRANSLATE_X_BBOX;
  float amount = negated(a->op == ROTATE_BBOX                             ? share * 30
                         : a->op == SHEAR_X_BBOX || a->op == SHEAR_Y_BBOX ? share * 0.3f
                                                                          : share * 250,
                         key);
  for (int i = 0; i < t->count; i++) {
    float *b = t->boxes + 4 * i;
    if (a->op == ROTATE_BBOX)
      rotate_box(b, im->height, im->width, amount);
    else if (a->op == SHEAR_X_BBOX || a->op == SHEAR_Y_BBOX)
      shear_box(b, im->height, im->width, amount, horizontal);
    else
      shift_box(b, im->height, im->width, (int)amount, horizontal);
  }
  if (a->op == ROTATE_BBOX)
    od_policy_rotation(m, amount, im->height, im->width);
  else if (a->op == SHEAR_X_BBOX || a->op == SHEAR_Y_BBOX)
    m[horizontal ? 1 : 3] = amount;
  else
    m[horizontal ? 2 : 5] = amount;
  return od_policy_transform(im, od_region_all(im), m);
}

/* Contents of boxes one after the other in a drawn order, each with a third of the probability. */
static od_status only_boxes(od_image *im, const od_truth *t, const act *a, od_key key) {
  float share = (float)a->level / 10;
  uint64_t *order = NULL;
  od_status st = OD_OK;
  OD_TRY(od_new(&order, (size_t)t->count + 1, sizeof *order));
  od_rng_permutation(order, (uint64_t)t->count, od_key_name(key, "order"));
  for (int i = 0; i < t->count && st == OD_OK; i++) {
    od_region r;
    float m[6] = {1, 0, 0, 0, 1, 0};
    if (!(floorf(od_rng_f32(key, 8 + (uint64_t)i) + a->probability / 3) >= 1)) continue;
    if (!region_of(&r, t->boxes + 4 * order[i], im)) continue;
    switch (a->op) {
    case FLIP_ONLY: od_policy_flip(im, r); break;
    case EQUALIZE_ONLY: od_policy_equalize(im, r); break;
    case CUTOUT_ONLY: od_policy_cutout(im, r, (int)(share * 50), od_key_mix(key, (uint64_t)i)); break;
    default:
      m[a->op == SHEAR_X_ONLY   ? 1
        : a->op == SHEAR_Y_ONLY ? 3
                                : 5] = negated(a->op == TRANSLATE_Y_ONLY ? share * 120 : share * 0.3f, key);
      st = od_policy_transform(im, r, m);
    }
  }
  od_free(order);
  return st;
}

static od_status apply(od_image *im, od_truth *t, const act *a, od_key key) {
  if (a->op >= SHEAR_X_ONLY) return only_boxes(im, t, a, key);
  if (!(floorf(od_rng_f32(key, 0) + a->probability) >= 1)) return OD_OK;
  return a->op >= ROTATE_BBOX ? with_boxes(im, t, a, key) : whole_picture(im, t, a, key);
}

/* --------------------------------------------------------------------------------------------------------------- step */
typedef ObjectDetection__Protos__AutoAugmentImage auto_augment;

static int find_policy(const char *name) {
  for (int i = 0; i < POLICIES; i++)
    if (strcmp(policies[i].name, name) == 0) return i;
  return -1;
}

static od_status policy_check(const void *message) {
  const auto_augment *m = message;
  if (find_policy(m->policy_name) >= 0) return OD_OK;
  return od_fail(OD_EINVAL, "policy_name is '%s'; v0, v1, v2, v3 or test is expected", m->policy_name);
}

static od_status policy_run(od_picture *s, const void *message, od_key key) {
  const auto_augment *m = message;
  int which = find_policy(m->policy_name);
  if (s->truth.masks || s->truth.keypoints)
    return od_fail(OD_EUNSUPPORTED, "masks and keypoints are not carried along, in the original neither");
  if (s->image.channels != 3) return od_fail(OD_EINVAL, "the picture has %d channels, 3 are needed", s->image.channels);
  od_image im;
  size_t n = (size_t)s->image.height * (size_t)s->image.width * 3;
  OD_TRY(od_image_new(&im, s->image.height, s->image.width, 3));
  for (size_t i = 0; i < n; i++) im.data[i] = (uint8_t)fminf(fmaxf(s->image.data[i], 0.0f), 255.0f);
  const sub_policy *sub = &policies[which].list[od_rng_below(key, 0, policies[which].count)];
  od_status st = OD_OK;
  for (uint64_t i = 0; i < 3 && st == OD_OK; i++)
    if (sub->acts[i].probability >= 0) st = apply(&im, &s->truth, &sub->acts[i], od_key_mix(key, i + 1));
  if (st == OD_OK)
    for (size_t i = 0; i < n; i++) s->image.data[i] = im.data[i];
  od_image_free(&im);
  return st;
}

const od_step od_steps_policy[] = {
    {OBJECT_DETECTION__PROTOS__PREPROCESSING_STEP__PREPROCESSING_STEP_AUTOAUGMENT_IMAGE, policy_run, policy_check},
    {0, NULL, NULL}};
