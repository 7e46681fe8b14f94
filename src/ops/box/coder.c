/* Box coders; see coder.h. */
#include "ops/box/coder.h"

#include <math.h>

static const float epsilon = 1e-8f;

typedef struct {
  float y, x, h, w; /* centre and size */
} centred;

static centred centre(const float *b) {
  float w = b[3] - b[1], h = b[2] - b[0];
  return (centred){b[0] + h / 2.0f, b[1] + w / 2.0f, h, w};
}

static void corners(float *out, float y, float x, float h, float w) {
  out[0] = y - h / 2.0f;
  out[1] = x - w / 2.0f;
  out[2] = y + h / 2.0f;
  out[3] = x + w / 2.0f;
}

od_box_coder od_box_coder_default(void) { return (od_box_coder){OD_CODER_FASTER_RCNN, {10, 10, 5, 5}, 0, 0}; }

int od_box_code_size(const od_box_coder *c) {
  switch (c->kind) {
  case OD_CODER_SQUARE: return 3;
  case OD_CODER_KEYPOINT: return 4 + 2 * c->num_keypoints;
  case OD_CODER_MEAN_STDDEV:
  case OD_CODER_FASTER_RCNN: break;
  }
  return 4;
}

static void encode_corners(float *code, const od_box_coder *c, const float *box, const float *points,
                           const float *anchor) {
  centred a = centre(anchor), b = centre(box);
  a.h += epsilon;
  a.w += epsilon;
  b.h += epsilon;
  b.w += epsilon;
  code[0] = (b.y - a.y) / a.h * c->scale[0];
  code[1] = (b.x - a.x) / a.w * c->scale[1];
  code[2] = logf(b.h / a.h) * c->scale[2];
  code[3] = logf(b.w / a.w) * c->scale[3];
  if (c->kind != OD_CODER_KEYPOINT) return;
  for (int k = 0; k < c->num_keypoints; k++) {
    code[4 + 2 * k] = (points[2 * k] - a.y) / a.h * c->scale[0];
    code[5 + 2 * k] = (points[2 * k + 1] - a.x) / a.w * c->scale[1];
  }
}

static void decode_corners(float *box, float *points, const od_box_coder *c, const float *code, const float *anchor) {
  centred a = centre(anchor);
  float h = expf(code[2] / c->scale[2]) * a.h, w = expf(code[3] / c->scale[3]) * a.w;
  corners(box, code[0] / c->scale[0] * a.h + a.y, code[1] / c->scale[1] * a.w + a.x, h, w);
  if (c->kind != OD_CODER_KEYPOINT || !points) return;
  for (int k = 0; k < c->num_keypoints; k++) {
    points[2 * k] = code[4 + 2 * k] / c->scale[0] * a.h + a.y;
    points[2 * k + 1] = code[5 + 2 * k] / c->scale[1] * a.w + a.x;
  }
}

static void encode_square(float *code, const od_box_coder *c, const float *box, const float *anchor) {
  centred a = centre(anchor), b = centre(box);
  float la = sqrtf(a.h * a.w) + epsilon, l = sqrtf(b.h * b.w) + epsilon;
  code[0] = (b.y - a.y) / la * c->scale[0];
  code[1] = (b.x - a.x) / la * c->scale[1];
  code[2] = logf(l / la) * c->scale[2];
}

static void decode_square(float *box, const od_box_coder *c, const float *code, const float *anchor) {
  centred a = centre(anchor);
  float la = sqrtf(a.h * a.w), l = expf(code[2] / c->scale[2]) * la;
  corners(box, code[0] / c->scale[0] * la + a.y, code[1] / c->scale[1] * la + a.x, l, l);
}

void od_box_encode(float *codes, const od_box_coder *c, const float *boxes, const float *keypoints,
                   const float *anchors, int64_t n) {
  int size = od_box_code_size(c);
  for (int64_t i = 0; i < n; i++, codes += size, boxes += 4, anchors += 4) {
    switch (c->kind) {
    case OD_CODER_SQUARE: encode_square(codes, c, boxes, anchors); break;
    case OD_CODER_MEAN_STDDEV:
      for (int k = 0; k < 4; k++) codes[k] = (boxes[k] - anchors[k]) / c->stddev;
      break;
    case OD_CODER_FASTER_RCNN:
    case OD_CODER_KEYPOINT:
      encode_corners(codes, c, boxes, keypoints ? keypoints + i * 2 * c->num_keypoints : NULL, anchors);
      break;
    }
  }
}

void od_box_decode(float *boxes, float *keypoints, const od_box_coder *c, const float *codes, const float *anchors,
                   int64_t n) {
  int size = od_box_code_size(c);
  for (int64_t i = 0; i < n; i++, codes += size, boxes += 4, anchors += 4) {
    switch (c->kind) {
    case OD_CODER_SQUARE: decode_square(boxes, c, codes, anchors); break;
    case OD_CODER_MEAN_STDDEV:
      for (int k = 0; k < 4; k++) boxes[k] = codes[k] * c->stddev + anchors[k];
      break;
    case OD_CODER_FASTER_RCNN:
    case OD_CODER_KEYPOINT:
      decode_corners(boxes, keypoints ? keypoints + i * 2 * c->num_keypoints : NULL, c, codes, anchors);
      break;
    }
  }
}
