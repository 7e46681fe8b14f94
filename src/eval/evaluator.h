/* The evaluator: one pass over images feeds every metric that was asked for; the end gives tags and values.
 *
 * Metrics are accumulators: an image is matched as soon as its groundtruth and its detections are both there, and from
 * then on only 12 to 32 bytes a detection remain (score, verdict), no boxes. What is exact must keep one record a
 * detection; nothing else grows but the image keys.
 *
 * Tags, values and orders of ties are those of the original (object_detection_evaluation.py, per_image_evaluation.py,
 * metrics.py, coco_evaluation.py over pycocotools). The Pascal and Open Images families sort with an unstable sort there,
 * so equal scores give values that depend on numpy's version and on the processor: eval/order.h says what we take. */
#ifndef OD_EVAL_EVALUATOR_H
#define OD_EVAL_EVALUATOR_H

#include <stdint.h>

#include "base/report.h"
#include "base/status.h"
#include "eval/mask.h"

typedef struct {
  int id;           /* >= 1, as in the label map */
  const char *name; /* UTF-8 */
} od_eval_category;

/* A name for several categories: COCO adds means over them, by their names, separated by commas. A category without
 * groundtruth goes into the mean with its -1, as in the original. */
typedef struct {
  const char *name, *members;
} od_eval_super_category;

/* Names of metrics_set that we know, the 2017 names and the aliases included; NULL-terminated. */
extern const char *const od_eval_metric_names[];

typedef struct {
  const char *const *metrics; /* names of metrics_set; the caller chooses the default for an empty list */
  size_t n_metrics;
  const od_eval_category *categories; /* copied */
  size_t n_categories;
  double iou_threshold;      /* of the Pascal and Open Images families; 0.5 in the original's programs */
  double group_of_weight;    /* of Open Images; negative: each metric's own (V2: 0, challenge: 1) */
  double recall_lower_bound; /* of precision_at_recall_detection_metrics */
  double recall_upper_bound;
  bool eleven_point; /* AP as VOC 2007 (mean of 11 precisions); the original has only all-point */
  bool
      ties_by_age; /* Pascal and Open Images: equal scores in the order given, not as the original's numpy leaves them */
  bool corloc;     /* CorLoc tags too, which the original's programs never ask for */
  bool include_metrics_per_category;              /* COCO: PerformanceByCategory/mAP/<name> */
  bool all_metrics_per_category;                  /* COCO: all twelve by category; needs the one above */
  const od_eval_super_category *super_categories; /* with include_metrics_per_category; live until od_eval_finish */
  size_t n_super_categories;
  bool skip_predictions_for_unlabeled_class; /* COCO and precision at recall: see od_eval_groundtruth.image_classes */
  bool confusion;                            /* collect the confusion matrix */
  double confusion_min_score;                /* detections below this are left out of it */
  bool calibration;                          /* collect CalibrationError/ExpectedCalibrationError */
  int threads;                               /* for od_eval_finish; <= 0: all processors */
  const od_reporter *reporter;               /* hears of repeated images and classes without groundtruth; may be NULL */
} od_eval_options;

/* The original's defaults: thresholds 0.5, recall 0 to 1, weights the metrics' own, everything else off. */
od_eval_options od_eval_defaults(void);

/* What is known of one image. Arrays have n entries; a NULL flag array means "none". */
typedef struct {
  size_t n;
  const float *boxes;       /* [n, 4] ymin xmin ymax xmax, pixels of the original image */
  const int32_t *classes;   /* [n] category ids, from 1 */
  const uint8_t *difficult; /* Pascal families: neither missed nor found counts */
  const uint8_t *group_of;  /* Open Images: the box stands for a group */
  const uint8_t *is_crowd;  /* COCO: a region to ignore */
  const float *area;        /* COCO: area in pixels where > 0, else height * width */
  const int32_t
      *image_classes; /* category ids verified for the whole image (Open Images challenge, skip_predictions...) */
  size_t n_image_classes;
  const od_mask *masks; /* [n] of the size of the image; mask metrics need them, the others ignore them */
} od_eval_groundtruth;

typedef struct {
  size_t n;
  const float *boxes;     /* [n, 4] as above */
  const float *scores;    /* [n] */
  const int32_t *classes; /* [n] category ids, from 1 */
  const od_mask *masks;   /* [n] as above */
} od_eval_detections;

typedef struct od_eval od_eval;

/* Makes an evaluator. OD_EINVAL for a metric that nobody knows (with a guess) or ids below 1, OD_EUNSUPPORTED for a
 * metric of the original that is not written yet. The caller frees with od_eval_free. */
OD_MUST_CHECK od_status od_eval_new(od_eval **out, const od_eval_options *options);
void od_eval_free(od_eval *ev);

/* Adds what is true of an image. An image added twice is ignored with a warning, as in the original. Copies. One thread. */
OD_MUST_CHECK od_status od_eval_add_groundtruth(od_eval *ev, const char *image_key, const od_eval_groundtruth *gt);

/* Adds what was found in it, after its groundtruth. Without groundtruth the Pascal families count all as false, COCO
 * refuses with OD_EINVAL. A second time is ignored with a warning. */
OD_MUST_CHECK od_status od_eval_add_detections(od_eval *ev, const char *image_key, const od_eval_detections *det);

typedef struct {
  const char *tag; /* the evaluator's */
  double value;    /* NaN: the class has no groundtruth (Pascal families); -1: the same in COCO */
} od_metric;

/* Precision over recall of one class for one metric, best scores first. */
typedef struct {
  const char *metric; /* prefix of its tags: "PascalBoxes", "DetectionBoxes" (COCO: 101 points at IoU .5) */
  const char *name;   /* of the category */
  int class_id;
  size_t n;
  const double *recall, *precision;
  const float *score; /* the score at which the point is reached; 0 beyond the last detection */
} od_eval_curve;

/* Computes everything; afterwards nothing may be added. Images whose detections never came count as empty ones. */
OD_MUST_CHECK od_status od_eval_finish(od_eval *ev);

/* After od_eval_finish; borrowed, in the original's order metric by metric. */
size_t od_eval_metric_count(const od_eval *ev);
const od_metric *od_eval_metrics(const od_eval *ev);
/* The value of a tag; NaN when the tag is absent. */
double od_eval_value(const od_eval *ev, const char *tag);
bool od_eval_has(const od_eval *ev, const char *tag);

/* Curves of classes with groundtruth. */
size_t od_eval_curve_count(const od_eval *ev);
const od_eval_curve *od_eval_curve_at(const od_eval *ev, size_t i);

/* Confusion matrix [k+1, k+1], rows = groundtruth, columns = detections, both in the order of the categories given, the
 * last row and column = nothing there. A detection takes the free box it overlaps most (IoU >= iou_threshold), best
 * scores first, whatever the class; difficult, crowd and group-of boxes swallow theirs uncounted. NULL unless asked for. */
const uint64_t *od_eval_confusion(const od_eval *ev, size_t *k_plus_one);

/* Images with groundtruth so far. */
size_t od_eval_image_count(const od_eval *ev);

#endif
