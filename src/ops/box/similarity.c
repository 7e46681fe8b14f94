/* Overlaps of boxes; see similarity.h. */
#include "ops/box/similarity.h"

#include <math.h>

float od_box_area(const float *box) { return (box[2] - box[0]) * (box[3] - box[1]); }

float od_box_intersection(const float *a, const float *b) {
  float h = fmaxf(0, fminf(a[2], b[2]) - fmaxf(a[0], b[0]));
  float w = fmaxf(0, fminf(a[3], b[3]) - fmaxf(a[1], b[1]));
  return h * w;
}

float od_box_iou(const float *a, const float *b) {
  float both = od_box_intersection(a, b);
  if (both == 0) return 0;
  return both / (od_box_area(a) + od_box_area(b) - both);
}

float od_box_ioa(const float *a, const float *b) { return od_box_intersection(a, b) / od_box_area(b); }

void od_box_intersection_matrix(float *out, const float *a, int64_t n, const float *b, int64_t m) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < m; j++) out[i * m + j] = od_box_intersection(a + 4 * i, b + 4 * j);
}

void od_box_iou_matrix(float *out, const float *a, int64_t n, const float *b, int64_t m) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < m; j++) out[i * m + j] = od_box_iou(a + 4 * i, b + 4 * j);
}

void od_box_ioa_matrix(float *out, const float *a, int64_t n, const float *b, int64_t m) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < m; j++) out[i * m + j] = od_box_ioa(a + 4 * i, b + 4 * j);
}

static float dot(const float *a, const float *b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3]; }

void od_box_neg_sq_dist_matrix(float *out, const float *a, int64_t n, const float *b, int64_t m) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < m; j++) {
      const float *p = a + 4 * i, *q = b + 4 * j;
      out[i * m + j] = -(dot(p, p) + dot(q, q) - 2.0f * dot(p, q));
    }
}

void od_box_thresholded_iou_matrix(float *out, const float *a, const float *scores, int64_t n, const float *b,
                                   int64_t m, float threshold) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < m; j++) out[i * m + j] = od_box_iou(a + 4 * i, b + 4 * j) > threshold ? scores[i] : 0;
}
