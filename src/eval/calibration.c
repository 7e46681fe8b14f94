/* Expected calibration error (Guo et al. 2017) as calibration_evaluation.py counts it: 20 equal bins of scores; a
 * detection is right when the groundtruth that it overlaps most (IoU >= .5, the first of equals, shared with others) has
 * its class. Sums are double where the original's are float32. */
#include "eval/accumulator.h"

#include <math.h>

#include "base/mem.h"
#include "ops/box/similarity.h"

enum { BINS = 20 };

typedef struct {
  od_accumulator base;
  double iou_threshold;
  double count[BINS], right[BINS], score[BINS];
} calibration;

static od_status calibration_add(od_accumulator *base, const od_eval_image *im) {
  calibration *c = (calibration *)base;
  for (size_t i = 0; i < im->det->n; i++) {
    float score = im->det->scores[i];
    if (!(score >= 0 && score <= 1))
      return od_fail(OD_EINVAL, "calibration: score %g, between 0 and 1 expected", (double)score);
    float best = -1;
    int32_t cls = 0;
    for (size_t g = 0; g < im->gt->n; g++) {
      float v = od_box_iou(im->gt->boxes + 4 * g, im->det->boxes + 4 * i);
      if (v > best) best = v, cls = im->gt->classes[g];
    }
    bool right = best >= (float)c->iou_threshold && cls == im->det->classes[i];
    int bin = (int)floorf(score * (float)BINS);
    if (bin >= BINS) bin = BINS - 1;
    c->count[bin]++;
    c->right[bin] += right;
    c->score[bin] += (double)score;
  }
  return OD_OK;
}

static od_status calibration_finish(od_accumulator *base, const od_eval_sink *sink) {
  calibration *c = (calibration *)base;
  double total = 0, error = 0;
  for (int b = 0; b < BINS; b++) total += c->count[b];
  for (int b = 0; b < BINS; b++)
    if (c->count[b] > 0) error += fabs(c->right[b] - c->score[b]) / total;
  return od_eval_emit(sink, error, "CalibrationError/ExpectedCalibrationError");
}

static void calibration_free(od_accumulator *base) { od_free(base); }

static const od_accumulator_kind kind = {calibration_add, calibration_finish, calibration_free};

od_status od_calibration_new(od_accumulator **out, const od_eval_options *o) {
  calibration *c = od_calloc(1, sizeof *c);
  if (!c) return OD_ENOMEM;
  c->base.kind = &kind;
  c->iou_threshold = o->iou_threshold;
  *out = &c->base;
  return OD_OK;
}
