/* How well a model's anchors cover the boxes of its records: what `check` says about boxes that training hardly sees. */
#ifndef OD_TRAIN_COVERAGE_H
#define OD_TRAIN_COVERAGE_H

#include "base/report.h"
#include "data/label_map.h"
#include "model/model.h"

enum { OD_COVERAGE_EXAMPLES = 5 };

typedef struct {
  char origin[512]; /* "train.record: record 12 (cat.jpg), box 3" */
  float box[4];     /* ymin xmin ymax xmax, of the picture */
  float best;       /* largest IoU with any anchor */
} od_uncovered;

typedef struct {
  float threshold;                            /* matched_threshold of the matcher */
  bool forced;                                /* the matcher gives such boxes their best anchor all the same */
  uint64_t boxes;                             /* looked at */
  uint64_t below;                             /* best IoU below the threshold */
  uint64_t histogram[10];                     /* of best IoUs, by tenths */
  od_uncovered example[OD_COVERAGE_EXAMPLES]; /* the worst ones, the worst first */
  int examples;
} od_coverage;

/* Measures the records that the patterns match, as they are without augmentation; damaged records are left out. labels may be
 * NULL. Models whose matcher has no threshold, or that have no anchors of one list, give boxes 0. */
OD_MUST_CHECK od_status od_coverage_measure(od_coverage *out, const od_pb_model *model, const char *const *patterns,
                                            size_t n, const od_label_map *labels, const od_reporter *r);

#endif
