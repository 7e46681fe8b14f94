/* Sampling of anchors; see sampler.h. */
#include "ops/box/sampler.h"

#include <math.h>

#include "ops/box/nms.h"

/* Sets chosen for `take` of the entries with indicator set and positive == want; returns how many. list is scratch. */
static int64_t draw(uint8_t *chosen, uint64_t *list, const uint8_t *indicator, const uint8_t *positive, bool want,
                    int64_t n, int64_t take, od_key key) {
  int64_t m = 0;
  for (int64_t i = 0; i < n; i++)
    if (indicator[i] && (positive[i] != 0) == want) list[m++] = (uint64_t)i;
  if (take > m) take = m;
  /* the first `take` places of a Fisher-Yates shuffle */
  for (int64_t i = 0; i < take; i++) {
    uint64_t j = (uint64_t)i + od_rng_below(key, (uint64_t)i, (uint64_t)(m - i));
    uint64_t swap = list[i];
    list[i] = list[j];
    list[j] = swap;
    chosen[list[i]] = 1;
  }
  return take > 0 ? take : 0;
}

size_t od_sample_work(int64_t n) { return od_work_bytes(n, sizeof(uint64_t)); }

od_status od_sample_balanced(uint8_t *chosen, int64_t *n_chosen, const uint8_t *indicator, const uint8_t *positive,
                             int64_t n, int64_t size, double fraction, od_key key, od_work work) {
  if (!(fraction >= 0 && fraction <= 1))
    return od_fail(OD_EINVAL, "positive_fraction %g, between 0 and 1 expected", fraction);
  uint64_t *list = od_work_take(&work, n, sizeof *list);
  for (int64_t i = 0; i < n; i++) chosen[i] = 0;
  int64_t most = size < 0 ? n : (int64_t)(fraction * (double)size);
  int64_t taken = draw(chosen, list, indicator, positive, true, n, most, od_key_name(key, "positives"));
  int64_t rest = size - taken;
  if (size < 0) rest = fraction > 0 ? (int64_t)((float)((1 - fraction) / fraction) * (float)taken) : n;
  taken += draw(chosen, list, indicator, positive, false, n, rest, od_key_name(key, "negatives"));
  if (n_chosen) *n_chosen = taken;
  return OD_OK;
}

static float loss_of(const od_miner *m, float location, float cls) {
  if (m->loss == OD_MINE_LOCALIZATION) return location;
  return m->loss == OD_MINE_CLASSIFICATION ? cls : cls * m->class_weight + location * m->location_weight;
}

/* Keeps positives and the first negatives of the selection. */
static int64_t thin(int32_t *selected, int64_t count, const od_miner *m, const int32_t *match, int64_t *positives,
                    int64_t *negatives) {
  int64_t pos = 0, neg = 0, kept = 0;
  for (int64_t i = 0; i < count; i++) pos += match[selected[i]] >= 0;
  int64_t most = (int32_t)(m->max_negatives_per_positive * (float)pos);
  if (most < m->min_negatives) most = m->min_negatives;
  for (int64_t i = 0; i < count; i++) {
    int32_t how = match[selected[i]];
    neg += how == -1;
    /* as the original: an ignored anchor (-2) passes too while the negatives before it are within the limit */
    if (how >= 0 || neg <= most) selected[kept++] = selected[i];
  }
  if (positives) *positives = pos;
  if (negatives) *negatives = kept - pos;
  return kept;
}

static int64_t most_examples(const od_miner *m, int64_t n) { return m->num_hard_examples > 0 ? m->num_hard_examples : n; }

size_t od_mine_work(const od_miner *m, int64_t n) {
  return od_work_bytes(n, sizeof(float)) + od_nms_work(n, most_examples(m, n));
}

od_status od_mine_hard_examples(int32_t *selected, int64_t *count, int64_t *positives, int64_t *negatives,
                                const od_miner *m, const float *location_loss, const float *class_loss,
                                const float *boxes, const int32_t *match, int64_t n, od_work work) {
  float *loss = od_work_take(&work, n, sizeof *loss);
  if (positives) *positives = -1;
  if (negatives) *negatives = -1;
  for (int64_t i = 0; i < n; i++) loss[i] = loss_of(m, location_loss[i], class_loss[i]);
  OD_TRY(od_nms(selected, NULL, count, boxes, 4, loss, 1, n, most_examples(m, n), m->iou_threshold, -INFINITY, 0, work));
  if (match && m->max_negatives_per_positive > 0) *count = thin(selected, *count, m, match, positives, negatives);
  return OD_OK;
}
