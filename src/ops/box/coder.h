/* Box coders: a box relative to an anchor and back (Faster R-CNN, square, mean/stddev, keypoint), float32 and in the
 * original's order of operations. exp and log are the C library's: they differ from TensorFlow's in the last bit. */
#ifndef OD_OPS_BOX_CODER_H
#define OD_OPS_BOX_CODER_H

#include <stdint.h>

#include "base/status.h"

typedef enum { OD_CODER_FASTER_RCNN, OD_CODER_SQUARE, OD_CODER_MEAN_STDDEV, OD_CODER_KEYPOINT } od_coder_kind;

typedef struct {
  od_coder_kind kind;
  float scale[4];    /* y, x, height, width (square: y, x, length); 1 where the config has none */
  float stddev;      /* mean/stddev only */
  int num_keypoints; /* keypoint only */
} od_box_coder;

/* The coder of every shipped Faster R-CNN and SSD config: 10, 10, 5, 5. */
od_box_coder od_box_coder_default(void);

/* Floats a code has: 4, 3 (square), 4 + 2 * num_keypoints. */
int od_box_code_size(const od_box_coder *c);

/* codes [n, code_size] of boxes [n, 4] against anchors [n, 4]; keypoints [n, num_keypoints, 2] y, x or NULL. Sizes get
 * 1e-8 added, so a box without height gives a large negative code, not -inf. */
void od_box_encode(float *codes, const od_box_coder *c, const float *boxes, const float *keypoints,
                   const float *anchors, int64_t n);

/* boxes [n, 4] (and keypoints, where not NULL) of codes against anchors. No epsilon and no clamp, as in the original: a
 * large code overflows to infinity. */
void od_box_decode(float *boxes, float *keypoints, const od_box_coder *c, const float *codes, const float *anchors,
                   int64_t n);

#endif
