/* Matching and target assignment; see matcher.h. */
#include "ops/box/matcher.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ops/box/similarity.h"

static od_status check(const od_matcher *m) {
  if (m->bipartite || m->no_threshold) return OD_OK;
  if (m->unmatched > m->matched)
    return od_fail(OD_EINVAL, "unmatched_threshold %g is above matched_threshold %g", (double)m->unmatched,
                   (double)m->matched);
  if (m->negatives_between && m->unmatched == m->matched)
    return od_fail(OD_EINVAL, "negatives lie between the thresholds, but both are %g (negatives_lower_than_unmatched)",
                   (double)m->matched);
  return OD_OK;
}

/* What an anchor with this best row and value becomes. */
static int32_t verdict(const od_matcher *m, int64_t row, float value) {
  if (m->no_threshold) return (int32_t)row;
  if (m->unmatched > value) return m->negatives_between ? OD_IGNORED : OD_UNMATCHED;
  if (value >= m->unmatched && m->matched > value) return m->negatives_between ? OD_UNMATCHED : OD_IGNORED;
  return (int32_t)row;
}

static void all_unmatched(int32_t *match, int64_t m) {
  for (int64_t j = 0; j < m; j++) match[j] = OD_UNMATCHED;
}

/* ----------------------------------------------------------------------------------------------------------- bipartite */
typedef struct {
  float distance;
  int64_t flat;
} pair;

static int by_distance(const void *pa, const void *pb) {
  const pair *a = pa, *b = pb;
  if (a->distance != b->distance) return a->distance < b->distance ? -1 : 1;
  return a->flat < b->flat ? -1 : a->flat > b->flat;
}

/* Greedily the most similar pair of a valid row and an anchor that are both free, until rows or anchors run out. Valid
 * rows are moved to the front first and the results keep that numbering, as in the original. */
static od_status match_bipartite(int32_t *match, const float *similarity, const uint8_t *valid, int64_t n, int64_t m,
                                 od_work work) {
  all_unmatched(match, m);
  size_t cells;
  if (!od_mul_ok(&cells, (size_t)n, (size_t)m))
    return od_fail(OD_EINVAL, "%lld rows and %lld anchors", (long long)n, (long long)m);
  int64_t *order = od_work_take(&work, n, sizeof *order);
  pair *pairs = od_work_take(&work, (int64_t)cells, sizeof *pairs);
  uint8_t *row_taken = od_work_take(&work, n, 1);
  memset(row_taken, 0, (size_t)n);
  int64_t front = 0, left = 0;
  for (int pass = 0; pass < 2; pass++)
    for (int64_t i = 0; i < n; i++)
      if ((valid ? valid[i] != 0 : true) == (pass == 0)) order[front++] = i;
  for (int64_t i = 0; i < n; i++) left += valid ? valid[i] != 0 : 1;
  if (left > m) left = m;
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < m; j++) pairs[i * m + j] = (pair){-similarity[order[i] * m + j], i * m + j};
  qsort(pairs, cells, sizeof *pairs, by_distance);
  for (size_t p = 0; p < cells && left > 0; p++) {
    int64_t row = pairs[p].flat / m, column = pairs[p].flat % m;
    if (row_taken[row] || match[column] >= 0) continue;
    row_taken[row] = 1;
    match[column] = (int32_t)row;
    left--;
  }
  return OD_OK;
}

/* -------------------------------------------------------------------------------------------------------------- argmax */
/* Runs over the rows once: best row of every anchor, and the best anchor of every row, which is forced at the end. row()
 * gives the similarities of row i [m]. */
typedef const float *(*row_fn)(void *ctx, int64_t i);

static void match_argmax(int32_t *match, const od_matcher *rule, row_fn row, void *ctx, const uint8_t *valid, int64_t n,
                         int64_t m, od_work work) {
  float *best = od_work_take(&work, m, sizeof *best);
  int64_t *forced = od_work_take(&work, n, sizeof *forced);
  for (int64_t i = 0; i < n; i++) {
    const float *s = row(ctx, i);
    int64_t top = 0;
    for (int64_t j = 0; j < m; j++) {
      if (i == 0 || s[j] > best[j]) {
        best[j] = s[j];
        match[j] = (int32_t)i;
      }
      if (s[j] > s[top]) top = j;
    }
    forced[i] = top;
  }
  for (int64_t j = 0; j < m; j++) match[j] = verdict(rule, match[j], best[j]);
  for (int64_t i = n; rule->force_match && m > 0 && i-- > 0;) /* downwards, so that the lowest row has the last word */
    if (!valid || valid[i]) match[forced[i]] = (int32_t)i;
}

size_t od_match_work(const od_matcher *m, int64_t n_rows, int64_t m_anchors) {
  if (!m->bipartite)
    return 2 * od_work_bytes(m_anchors, sizeof(float)) + od_work_bytes(n_rows, sizeof(int64_t));
  size_t cells; /* refused when it runs, if it is no number */
  if (!od_mul_ok(&cells, (size_t)n_rows, (size_t)m_anchors) || cells > SIZE_MAX / 4 / sizeof(pair)) return 0;
  return od_work_bytes((int64_t)cells, sizeof(float)) + od_work_bytes((int64_t)cells, sizeof(pair)) +
         od_work_bytes(n_rows, sizeof(int64_t)) + od_work_bytes(n_rows, 1);
}

typedef struct {
  const float *matrix;
  int64_t m;
} stored;

static const float *stored_row(void *ctx, int64_t i) {
  const stored *s = ctx;
  return s->matrix + i * s->m;
}

od_status od_match(int32_t *match, const od_matcher *m, const float *similarity, const uint8_t *valid_rows,
                   int64_t n_rows, int64_t m_anchors, od_work work) {
  OD_TRY(check(m));
  if (n_rows == 0 || m_anchors == 0) {
    all_unmatched(match, m_anchors);
    return OD_OK;
  }
  if (m->bipartite) return match_bipartite(match, similarity, valid_rows, n_rows, m_anchors, work);
  stored s = {similarity, m_anchors};
  match_argmax(match, m, stored_row, &s, valid_rows, n_rows, m_anchors, work);
  return OD_OK;
}

/* --------------------------------------------------------------------------------------------------------------- boxes */
typedef struct {
  const od_assigner *a;
  const float *boxes, *labels, *anchors;
  int64_t k, m;
  float *row;
} computed;

static void similarity_row(float *out, const computed *c, int64_t i) {
  const float *box = c->boxes + 4 * i;
  switch (c->a->similarity) {
  case OD_SIMILARITY_IOU: od_box_iou_matrix(out, box, 1, c->anchors, c->m); break;
  case OD_SIMILARITY_IOA: od_box_ioa_matrix(out, box, 1, c->anchors, c->m); break;
  case OD_SIMILARITY_NEG_SQ_DIST: od_box_neg_sq_dist_matrix(out, box, 1, c->anchors, c->m); break;
  case OD_SIMILARITY_THRESHOLDED_IOU: {
    float score = c->labels ? 1.0f - c->labels[i * c->k] : 0.0f;
    od_box_thresholded_iou_matrix(out, box, &score, 1, c->anchors, c->m, c->a->similarity_threshold);
    break;
  }
  }
}

static const float *computed_row(void *ctx, int64_t i) {
  computed *c = ctx;
  similarity_row(c->row, c, i);
  return c->row;
}

od_status od_match_boxes(int32_t *match, const od_assigner *a, const float *boxes, const float *labels,
                         int64_t n_labels, const uint8_t *valid_rows, int64_t n, const float *anchors, int64_t m,
                         od_work work) {
  OD_TRY(check(&a->matcher));
  if (n == 0 || m == 0) {
    all_unmatched(match, m);
    return OD_OK;
  }
  computed c = {a, boxes, labels, anchors, n_labels, m, NULL};
  size_t cells;
  if (!od_mul_ok(&cells, a->matcher.bipartite ? (size_t)n : 1, (size_t)m))
    return od_fail(OD_EINVAL, "%lld boxes and %lld anchors", (long long)n, (long long)m);
  c.row = od_work_take(&work, (int64_t)cells, sizeof *c.row);
  if (!a->matcher.bipartite) {
    match_argmax(match, &a->matcher, computed_row, &c, valid_rows, n, m, work);
    return OD_OK;
  }
  for (int64_t i = 0; i < n; i++) similarity_row(c.row + i * m, &c, i);
  return match_bipartite(match, c.row, valid_rows, n, m, work);
}

/* ------------------------------------------------------------------------------------------------------------- targets */
static void fill_targets(od_targets *out, const od_assigner *a, const int32_t *match, const float *anchors, int64_t m,
                         const float *boxes, const float *keypoints, const float *labels, const float *weights,
                         const float *unmatched_label, int64_t k) {
  int size = od_box_code_size(&a->coder);
  for (int64_t j = 0; j < m; j++) {
    int32_t row = match[j];
    float weight = row >= 0 ? (weights ? weights[row] : 1) : 0;
    if (out->box_weights) out->box_weights[j] = weight;
    if (out->class_weights) out->class_weights[j] = row == OD_UNMATCHED ? a->negative_class_weight : weight;
    if (out->class_targets)
      memcpy(out->class_targets + j * k, row >= 0 ? labels + row * k : unmatched_label, (size_t)k * sizeof(float));
    if (!out->box_targets) continue;
    float *code = out->box_targets + j * size;
    if (row >= 0)
      od_box_encode(code, &a->coder, boxes + 4 * row, keypoints ? keypoints + row * 2 * a->coder.num_keypoints : NULL,
                    anchors + 4 * j, 1);
    else
      memset(code, 0, (size_t)size * sizeof *code);
  }
}

od_status od_assign_targets(od_targets *out, const od_assigner *a, const float *anchors, int64_t m, const float *boxes,
                            const float *keypoints, const float *labels, const float *weights, int64_t n,
                            const float *unmatched_label, int64_t k) {
  if (a->coder.kind == OD_CODER_KEYPOINT && out->box_targets && !keypoints && n > 0)
    return od_fail(OD_EINVAL, "the keypoint box coder needs groundtruth keypoints");
  if (out->class_targets && (!unmatched_label || (n > 0 && !labels)))
    return od_fail(OD_EINVAL, "class targets need labels and the label of background");
  uint8_t *valid = NULL;
  int32_t *match = out->match;
  od_work work = {NULL, od_match_work(&a->matcher, n, m)};
  od_status st = OD_OK;
  OD_GO(st, od_new(&work.at, work.left, 1));
  OD_GO(st, od_new(&valid, n ? (size_t)n : 1, 1));
  if (!match) OD_GO(st, od_new(&match, m ? (size_t)m : 1, sizeof *match));
  for (int64_t i = 0; i < n; i++) valid[i] = weights ? weights[i] > 0 : 1;
  OD_GO(st, od_match_boxes(match, a, boxes, labels, k, valid, n, anchors, m, work));
  fill_targets(out, a, match, anchors, m, boxes, keypoints, labels, weights, unmatched_label, k);
done:
  if (match != out->match) od_free(match);
  od_free(valid);
  od_free(work.at);
  return st;
}
