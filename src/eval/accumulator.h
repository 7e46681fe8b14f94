/* What a metric is to the evaluator: private to src/eval. */
#ifndef OD_EVAL_ACCUMULATOR_H
#define OD_EVAL_ACCUMULATOR_H

#include "eval/evaluator.h"

/* One image with both sides. det->n is 0 when nothing was found or detections never came. */
typedef struct {
  uint32_t ordinal;     /* arrival of its key */
  bool has_groundtruth; /* false: gt is empty because nobody gave it */
  const od_eval_groundtruth *gt;
  const od_eval_detections *det;
} od_eval_image;

/* Where a metric puts its results. */
typedef struct {
  od_eval *ev;
  const uint32_t *rank; /* [images] place of an image among the keys sorted by bytes, by ordinal */
  int threads;
} od_eval_sink;

typedef struct od_accumulator od_accumulator;
typedef struct {
  od_status (*add)(od_accumulator *a, const od_eval_image *image);
  od_status (*finish)(od_accumulator *a, const od_eval_sink *sink);
  void (*free)(od_accumulator *a);
} od_accumulator_kind;
struct od_accumulator {
  const od_accumulator_kind *kind;
  bool masks;             /* reads masks of both sides */
  bool needs_groundtruth; /* detections of an image without groundtruth are an error */
};

/* Settings of one member of the Pascal family. */
typedef struct {
  const char *prefix;
  double iou_threshold, recall_lower, recall_upper, group_of_weight;
  bool weighted, use_difficult, use_group_of, verified_only, skip_unlabeled, eleven_point, corloc, ties_by_age, masks;
  const od_eval_category *categories; /* live as long as the evaluator */
  size_t n_categories;
  const od_reporter *reporter;
} od_pascal_options;

OD_MUST_CHECK od_status od_pascal_new(od_accumulator **out, const od_pascal_options *o);
OD_MUST_CHECK od_status od_coco_new(od_accumulator **out, const od_eval_options *o, bool masks);
OD_MUST_CHECK od_status od_confusion_new(od_accumulator **out, const od_eval_options *o);
const uint64_t *od_confusion_counts(const od_accumulator *a, size_t *k_plus_one);
OD_MUST_CHECK od_status od_calibration_new(od_accumulator **out, const od_eval_options *o);

/* Adds a figure; the tag is formatted. */
OD_MUST_CHECK od_status od_eval_emit(const od_eval_sink *sink, double value, const char *tag, ...) OD_PRINTF(3, 4);
/* Adds a curve; arrays are copied. */
OD_MUST_CHECK od_status od_eval_emit_curve(const od_eval_sink *sink, const od_eval_curve *curve);

/* Index of a category id in the list, -1 when absent. */
int od_eval_category_index(const od_eval_category *categories, size_t n, int id);
/* True when id is among the image's verified classes. */
bool od_eval_is_verified(const od_eval_groundtruth *gt, int id);
/* A double as Python prints it (shortest text that reads back, always with a point). text holds at least 32 bytes. */
const char *od_eval_python_float(char *text, double value);

#endif
