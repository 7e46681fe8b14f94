/* Overlaps of boxes, in float32 and in the order of operations of the original's box_list_ops, so that ties stay ties.
 * A box is [ymin, xmin, ymax, xmax] in any unit. Plain functions, no graph, no memory. */
#ifndef OD_OPS_BOX_SIMILARITY_H
#define OD_OPS_BOX_SIMILARITY_H

#include <stdint.h>

/* (ymax - ymin) * (xmax - xmin); negative when corners are swapped in one direction. */
float od_box_area(const float *box);
float od_box_intersection(const float *a, const float *b);
/* Intersection over union; 0 when they do not meet, also for two boxes without area. */
float od_box_iou(const float *a, const float *b);
/* Intersection over the area of b; NaN when b has no area. */
float od_box_ioa(const float *a, const float *b);

/* Matrices [n, m] of a [n, 4] against b [m, 4]. */
void od_box_intersection_matrix(float *out, const float *a, int64_t n, const float *b, int64_t m);
void od_box_iou_matrix(float *out, const float *a, int64_t n, const float *b, int64_t m);
void od_box_ioa_matrix(float *out, const float *a, int64_t n, const float *b, int64_t m);
/* Minus the squared distance of the four corners, by norms and an inner product as the original has it. */
void od_box_neg_sq_dist_matrix(float *out, const float *a, int64_t n, const float *b, int64_t m);
/* scores[i] [n] where IoU > threshold, else 0. */
void od_box_thresholded_iou_matrix(float *out, const float *a, const float *scores, int64_t n, const float *b,
                                   int64_t m, float threshold);

#endif
