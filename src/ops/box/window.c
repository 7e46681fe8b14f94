/* Boxes against a window; see window.h. */
#include "ops/box/window.h"

/* First the upper bound, then the lower; NaN stays NaN, as in TensorFlow's Minimum and Maximum. */
static float clamp(float x, float low, float high) {
  const float below = x > high ? high : x;
  return below < low ? low : below;
}

void od_box_clip(float *out, const float *boxes, int64_t n, const float *window) {
  for (int64_t i = 0; i < 4 * n; i++) {
    int axis = (int)(i & 1);
    out[i] = clamp(boxes[i], window[axis], window[axis + 2]);
  }
}

bool od_box_inside(const float *box, const float *window) {
  return !(box[0] < window[0] || box[1] < window[1] || box[2] > window[2] || box[3] > window[3]);
}

bool od_box_touches(const float *box, const float *window) {
  return !(box[0] >= window[2] || box[1] >= window[3] || box[2] <= window[0] || box[3] <= window[1]);
}

void od_box_scale(float *out, const float *boxes, int64_t n, float y_scale, float x_scale) {
  for (int64_t i = 0; i < 4 * n; i++) out[i] = (i & 1 ? x_scale : y_scale) * boxes[i];
}

void od_box_change_frame(float *out, const float *boxes, int64_t n, const float *window) {
  float y_scale = 1.0f / (window[2] - window[0]), x_scale = 1.0f / (window[3] - window[1]);
  for (int64_t i = 0; i < 4 * n; i++) {
    int axis = (int)(i & 1);
    out[i] = (axis ? x_scale : y_scale) * (boxes[i] - window[axis]);
  }
}
