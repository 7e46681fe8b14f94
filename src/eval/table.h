/* Figures for people and for programs: a text table, metrics.json and metrics.jsonl. */
#ifndef OD_EVAL_TABLE_H
#define OD_EVAL_TABLE_H

#include <stdint.h>

#include "base/str.h"
#include "eval/evaluator.h"

/* Appends a table of n figures: a block a family (what stands before the first '_' or '/' of the tags), classes at its end, four
 * digits; "-" where there is no groundtruth (NaN, or -1 in COCO). */
OD_MUST_CHECK od_status od_eval_table(od_str *out, const od_metric *metrics, size_t n);

/* Appends the confusion matrix: rows = groundtruth, columns = detections, both by number of the category in the list that
 * follows. OD_EINVAL when it was not collected. */
OD_MUST_CHECK od_status od_eval_confusion_table(od_str *out, const od_eval *ev);

/* Writes eval_dir/metrics.json, {"global_step": N, "metrics": {tag: value}} with tags sorted, and puts the same object as
 * one line into eval_dir/metrics.jsonl, where it replaces a line of the same step. NaN becomes null. Both files change
 * whole or not at all; the folder is made when it is missing. OD_EDATA when a line of metrics.jsonl is no such object. */
OD_MUST_CHECK od_status od_eval_write_json(const char *eval_dir, int64_t global_step, const od_metric *metrics,
                                           size_t n);

#endif
