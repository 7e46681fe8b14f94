/* Which anchors take part in a loss: the balanced sampler and the hard example miner. */
#ifndef OD_OPS_BOX_SAMPLER_H
#define OD_OPS_BOX_SAMPLER_H

#include <stdint.h>

#include "base/rng.h"
#include "ops/box/work.h"

/* BalancedPositiveNegativeSampler: of the n entries whose indicator is set, at most int(fraction * size) positives and
 * then as many negatives as fill size, drawn without repetition; chosen [n] gets 1 or 0. size < 0: all positives, and
 * int(float32((1 - fraction) / fraction * positives)) negatives. Draws depend on key alone. Returns how many were chosen
 * in *n_chosen (may be NULL). */
OD_MUST_CHECK od_status od_sample_balanced(uint8_t *chosen, int64_t *n_chosen, const uint8_t *indicator,
                                           const uint8_t *positive, int64_t n, int64_t size, double fraction,
                                           od_key key, od_work work);
size_t od_sample_work(int64_t n);

typedef enum { OD_MINE_BOTH, OD_MINE_CLASSIFICATION, OD_MINE_LOCALIZATION } od_mine_loss;

typedef struct {
  int64_t num_hard_examples; /* <= 0: all boxes */
  float iou_threshold;
  od_mine_loss loss;
  float class_weight, location_weight; /* OD_MINE_BOTH only */
  float max_negatives_per_positive;    /* <= 0: no limit */
  int32_t min_negatives;               /* of an image */
} od_miner;

/* HardExampleMiner for one image: NMS of the boxes [n, 4] by loss, then positives of the selection and its first
 * max(min_negatives, int(ratio * positives)) negatives. selected [n] takes indices, worst loss first, *count how many.
 * match [n] (>= 0 positive, -1 negative, -2 neither) or NULL. *positives, *negatives (may be NULL) are counted only where
 * the ratio applies, else -1. The mined loss is the sum over selected. */
OD_MUST_CHECK od_status od_mine_hard_examples(int32_t *selected, int64_t *count, int64_t *positives, int64_t *negatives,
                                              const od_miner *m, const float *location_loss, const float *class_loss,
                                              const float *boxes, const int32_t *match, int64_t n,
                                              od_work work);
size_t od_mine_work(const od_miner *m, int64_t n);

#endif
