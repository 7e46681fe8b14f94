/* Which groundtruth an anchor belongs to, and the targets that follow: the original's ArgMaxMatcher,
 * GreedyBipartiteMatcher and TargetAssigner, with its order of ties. */
#ifndef OD_OPS_BOX_MATCHER_H
#define OD_OPS_BOX_MATCHER_H

#include <stdint.h>

#include "base/status.h"
#include "ops/box/coder.h"
#include "ops/box/work.h"

/* What stands in a match besides the index of a groundtruth row. */
enum { OD_UNMATCHED = -1, OD_IGNORED = -2 };

typedef struct {
  bool bipartite;           /* the greedy bipartite matcher; the rest does not count then */
  bool no_threshold;        /* every anchor takes its best row (ignore_thresholds) */
  float matched, unmatched; /* >= matched: positive; < unmatched: background; between: ignored */
  bool negatives_between;   /* !negatives_lower_than_unmatched: background between, ignored below */
  bool force_match;         /* every valid row gets its best anchor, whatever the value */
} od_matcher;

/* match [m_anchors] from similarity [n_rows, m_anchors] (rows = groundtruth). valid_rows [n_rows] or NULL = all; rows that
 * are not valid still attract by threshold (as in the original) but are not forced. Best row of an anchor: the lowest of
 * equals; best anchor of a row: the lowest; several rows forcing one anchor: the lowest row. Without rows all are
 * OD_UNMATCHED. OD_EINVAL: thresholds that contradict. */
OD_MUST_CHECK od_status od_match(int32_t *match, const od_matcher *m, const float *similarity,
                                 const uint8_t *valid_rows, int64_t n_rows, int64_t m_anchors, od_work work);
/* Of od_match and od_match_boxes. */
size_t od_match_work(const od_matcher *m, int64_t n_rows, int64_t m_anchors);

typedef enum {
  OD_SIMILARITY_IOU,
  OD_SIMILARITY_IOA,
  OD_SIMILARITY_NEG_SQ_DIST,
  OD_SIMILARITY_THRESHOLDED_IOU
} od_similarity;

typedef struct {
  od_similarity similarity;
  float similarity_threshold; /* thresholded IoU only; its scores are 1 - labels[:, 0], as in the original */
  od_matcher matcher;
  od_box_coder coder;
  float negative_class_weight; /* 1 */
} od_assigner;

/* As od_match, the similarity of boxes [n, 4] (rows) and anchors [m, 4] computed inside; never holds the matrix whole
 * unless it must (bipartite). labels [n, k] are read for thresholded IoU only. Same result to the bit. */
OD_MUST_CHECK od_status od_match_boxes(int32_t *match, const od_assigner *a, const float *boxes, const float *labels,
                                       int64_t n_labels, const uint8_t *valid_rows, int64_t n, const float *anchors,
                                       int64_t m, od_work work);

/* Targets of one image, any of them NULL when not wanted:
 * class_targets [m, k], class_weights [m], box_targets [m, code_size], box_weights [m], match [m].
 * labels [n, k] (background first), unmatched_label [k], weights [n] or NULL = 1; a row of weight 0 is not forced. Takes memory of
 * its own. */
typedef struct {
  float *class_targets, *class_weights, *box_targets, *box_weights;
  int32_t *match;
} od_targets;

OD_MUST_CHECK od_status od_assign_targets(od_targets *out, const od_assigner *a, const float *anchors, int64_t m,
                                          const float *boxes, const float *keypoints, const float *labels,
                                          const float *weights, int64_t n, const float *unmatched_label, int64_t k);

#endif
