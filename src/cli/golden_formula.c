/* Weights, pictures and boxes by formula; see golden_formula.h. */
#include "cli/golden_formula.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

/* Stream position i: od_rng_u64 is this very generator. */
static uint32_t bits24(uint64_t seed, uint64_t i) { return (uint32_t)(od_rng_u64(seed, i) >> 40); }

static float unit(uint64_t seed, uint64_t i) { return (float)((int32_t)bits24(seed, i) - (1 << 23)) * 0x1p-23f; }

static bool has(const char *name, const char *part) { return strstr(name, part) != NULL; }

static bool quiet_head(const char *name) {
  return has(name, "StageBoxPredictor/BoxEncodingPredictor/") || has(name, "StageBoxPredictor/ClassPredictor/") ||
         has(name, "WeightSharedConvolutionalBoxPredictor/BoxPredictor/") ||
         has(name, "WeightSharedConvolutionalBoxPredictor/ClassPredictor/");
}

/* Scale of a weight: sqrt(6 / fan_in), smaller for pictures in 0..255 and for heads. */
static float weight_scale(const char *name, const char *last, const od_shape *s) {
  double fan_in = 1;
  for (int i = 0; i < s->rank - 1; i++) fan_in *= (double)s->dim[i];
  if (strcmp(last, "depthwise_weights") == 0 || strcmp(last, "depthwise_kernel") == 0) fan_in = (double)(s->dim[0] * s->dim[1]);
  float scale = (float)sqrt(6.0 / fan_in);
  if (has(name, "resnet_v1") && s->rank == 4 && s->dim[2] == 3) scale *= 1.0f / 64;
  if (quiet_head(name)) scale *= 0.25f;
  return scale;
}

static void rule(float *offset, float *scale, const char *name, const od_shape *s, bool trained) {
  const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
  bool gamma = strcmp(last, "gamma") == 0;
  bool residual_end = has(name, "/project/BatchNorm") || has(name, "/cell_") || (has(name, "/FusedConv") && has(name, "/Conv_1/BatchNorm"));
  *offset = 0;
  *scale = 1.0f / 8;
  if (trained && gamma) *offset = 0.5f, *scale = 1.0f / 16;
  else if (trained && strcmp(last, "beta") == 0) *offset = 1;
  else if (gamma && has(name, "/conv3/BatchNorm") && has(name, "resnet_v1")) *offset = 1.0f / 8, *scale = 1.0f / 64;
  else if (gamma && residual_end) *offset = 0.5f, *scale = 1.0f / 16;
  else if (gamma) *offset = 1;
  else if (strcmp(last, "moving_variance") == 0) *offset = 1, *scale = 0.5f;
  else if (s->rank >= 2) *scale = weight_scale(name, last, s);
}

void od_formula_weight(od_tensor *t, const char *name, bool trained) {
  float offset, scale, *x = t->data;
  uint64_t seed = od_hash_text(name);
  rule(&offset, &scale, name, &t->shape, trained);
  for (int64_t i = 0, n = od_tensor_size(t); i < n; i++) x[i] = offset + scale * unit(seed, (uint64_t)i);
}

void od_formula_image(float *out, int number, int height, int width) {
  char name[64];
  snprintf(name, sizeof name, "image/%d/coarse", number);
  uint64_t coarse = od_hash_text(name);
  snprintf(name, sizeof name, "image/%d/fine", number);
  uint64_t fine = od_hash_text(name);
  int blocks = (width + 39) / 40;
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++)
      for (int c = 0; c < 3; c++) {
        uint32_t f = bits24(fine, (uint64_t)((y * width + x) * 3 + c)) >> 16;
        uint32_t k = bits24(coarse, (uint64_t)(((y / 40) * blocks + x / 40) * 3 + c)) >> 16;
        out[(y * width + x) * 3 + c] = (float)((3 * k + f) >> 2);
      }
}

void od_formula_groundtruth(float *boxes, int *classes, int number, int num_classes) {
  static const float all[2][12] = {{0.08f, 0.12f, 0.92f, 0.76f, 0.30f, 0.50f, 0.72f, 0.82f, 0.55f, 0.10f, 0.76f, 0.26f},
                                   {0.06f, 0.20f, 0.90f, 0.84f, 0.20f, 0.10f, 0.62f, 0.42f, 0.60f, 0.70f, 0.81f, 0.86f}};
  memcpy(boxes, all[number % 2], sizeof all[0]);
  for (int k = 0; k < 3; k++) classes[k] = (5 * k + 2) % num_classes;
}

static double overlap(const double *a, const double *b) {
  double h = fmin(a[2], b[2]) - fmax(a[0], b[0]), w = fmin(a[3], b[3]) - fmax(a[1], b[1]), both = fmax(h, 0) * fmax(w, 0);
  return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both);
}

void od_formula_groundtruth_seen(float *boxes, const float *proposals, int64_t n) {
  double kept[2][4];
  int found = 0;
  for (int64_t i = 0; i < n && found < 2; i++) {
    double p[4];
    bool good = true;
    for (int k = 0; k < 4; k++) {
      p[k] = rint((double)proposals[4 * i + k] * 100) / 100;
      good = good && p[k] > 0.01 && p[k] < 0.99;
    }
    good = good && p[2] - p[0] > 0.08 && p[3] - p[1] > 0.08;
    for (int k = 0; k < found; k++) good = good && overlap(p, kept[k]) < 0.3;
    if (!good) continue;
    for (int k = 0; k < 4; k++) boxes[4 * (1 + found) + k] = (float)p[k];
    memcpy(kept[found++], p, sizeof p);
  }
}
