/* Non-maximum suppression: TensorFlow's NonMaxSuppression kernels (V3, and V5 with soft scores) and the original's
 * per-class, class-agnostic and batched forms around them (odapi 5.4). Order of ties: the lower index first. */
#ifndef OD_OPS_BOX_NMS_H
#define OD_OPS_BOX_NMS_H

#include <stdint.h>

#include "ops/box/work.h"

/* IoU as the kernels compute it: corners put in order first, 0 when either box has no area. */
float od_nms_iou(const float *a, const float *b);

/* Greedy suppression over boxes [n, 4] (stride box_stride floats from box to box, >= 4) with scores [n] (stride
 * score_stride). Candidates have score > score_threshold (give -INFINITY for all). Writes at most max_output indices into
 * selected, best first, and *count. soft_sigma > 0: scores of overlapping boxes decay by exp(-iou^2 / (2 sigma)) instead,
 * whatever iou_threshold says; selected_scores [max_output] takes the decayed ones. selected_scores may be NULL. */
OD_MUST_CHECK od_status od_nms(int32_t *selected, float *selected_scores, int64_t *count, const float *boxes,
                               int64_t box_stride, const float *scores, int64_t score_stride, int64_t n,
                               int64_t max_output, float iou_threshold, float score_threshold, float soft_sigma,
                               od_work work);
size_t od_nms_work(int64_t n, int64_t max_output);

typedef struct {
  float score_threshold, iou_threshold;
  int64_t max_per_class; /* max_detections_per_class */
  int64_t max_total;     /* max_total_detections; 0 = no limit (multiclass only) */
  float soft_sigma;      /* 0: hard */
  bool class_agnostic;   /* one NMS over the best class of each box */
  bool change_frame;     /* results relative to the clip window; needs one */
  bool static_shapes;    /* use_static_shapes: unused places keep score -1 and are not removed */
} od_nms_options;

/* Results of one image; arrays hold od_nms_capacity entries. What lies beyond num is as said there. */
typedef struct {
  float *boxes;    /* [cap, 4] */
  float *scores;   /* [cap] */
  float *classes;  /* [cap] from 0 */
  int32_t *anchor; /* [cap] index of the input box, or NULL when not wanted */
  int64_t num;     /* valid ones */
  int64_t rows;    /* rows written: num, or more with static_shapes */
} od_nms_result;

/* Rows that a result must hold. */
int64_t od_nms_capacity(const od_nms_options *o, int64_t n, int64_t classes);

/* multiclass_non_max_suppression or class_agnostic_non_max_suppression of one image: boxes [n, q, 4] with q = 1 (shared)
 * or the number of classes, scores [n, classes], clip_window [4] or NULL. */
OD_MUST_CHECK od_status od_nms_image(od_nms_result *out, const od_nms_options *o, const float *boxes, int64_t q,
                                     const float *scores, int64_t n, int64_t classes, const float *clip_window,
                                     od_work work);
size_t od_nms_image_work(const od_nms_options *o, int64_t n, int64_t classes); /* of a batch too */

/* batch_multiclass_non_max_suppression: boxes [b, n, q, 4], scores [b, n, classes], clip_windows [b, 4] or NULL (then the
 * extent of all boxes of the batch clips, as in the original), num_valid [b] or NULL. out_* [b, max_total, ...], rows
 * beyond the valid ones are zero (with static_shapes: as the original leaves them); anchor may be NULL. max_total > 0. */
OD_MUST_CHECK od_status od_nms_batch(float *out_boxes, float *out_scores, float *out_classes, int32_t *out_anchor,
                                     int32_t *out_num, const od_nms_options *o, const float *boxes, int64_t q,
                                     const float *scores, int64_t b, int64_t n, int64_t classes,
                                     const float *clip_windows, const int32_t *num_valid, od_work work);

#endif
