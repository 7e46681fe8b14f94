/* The best checkpoint: which evaluation was the best so far, a copy of its checkpoint, and when to stop. */
#ifndef OD_EVAL_BEST_H
#define OD_EVAL_BEST_H

#include "base/report.h"
#include "eval/evaluator.h"

typedef struct {
  const char *metric; /* tag; NULL: the first figure whose tag holds "mAP" */
  const char *folder; /* takes best.json and, with keep, the checkpoint's files */
  bool keep;          /* a copy of the best checkpoint, and of no other, lies in the folder */
  int patience;       /* evaluations without a better value until it is time to stop; <= 0: never */
  const od_reporter *reporter;
} od_best_options;

/* Notes one evaluation. *stop is set when the last `patience` evaluations brought nothing better. Without keep and patience it
 * only says so after five. State is best.json in the folder, so that restarts go on. OD_EINVAL when there is no such tag. Losses
 * (tags that hold "loss", in any case) are better when smaller. */
OD_MUST_CHECK od_status od_best_note(const od_best_options *o, const char *checkpoint, int64_t step, const od_metric *metrics, size_t n, bool *stop);

#endif
