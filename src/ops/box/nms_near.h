/* The selections of a hard non-maximum suppression, found by place: a candidate is compared only with selected boxes that lie
 * near enough to overlap it by more than the threshold. Same verdict as comparing with all of them; the hard example miner
 * (IoU above 0.99 of 2000 anchors, nearly all of them selected) is 60 times faster so.
 *
 * Two boxes whose IoU is above t have lines in common of at least t times the taller one's height. So their upper edges lie at
 * most (1-t)/t of either height apart, and likewise their left edges. Selected boxes hang in buckets by their upper edge.
 * Differences, products and the quotient of floats are each exact to 2^-24, so a margin of 1e-5 covers rounding. */
#ifndef OD_OPS_BOX_NMS_NEAR_H
#define OD_OPS_BOX_NMS_NEAR_H

#include <stdint.h>

#include "ops/box/work.h"

typedef struct od_near od_near;

/* For boxes [n, 4] (stride floats from box to box) of which at most max_selected will be added. It lies in the work. Boxes
 * that are not finite, tiny or huge make it compare with all. */
od_near *od_near_new(const float *boxes, int64_t stride, int64_t n, int64_t max_selected, float iou_threshold,
                     od_work *work);
size_t od_near_work(int64_t max_selected);
/* Some added box overlaps this one by more than the threshold (od_nms_iou). */
bool od_near_overlaps(const od_near *near, const float *box);
void od_near_add(od_near *near, const float *box);

#endif
