/* An evaluation: one pass over the evaluation records with one checkpoint. Metrics, losses, drawn pictures, event file,
 * metrics.json. */
#ifndef OD_EVAL_JOB_H
#define OD_EVAL_JOB_H

#include "base/report.h"
#include "data/pipeline.h"
#include "eval/detector.h"
#include "eval/evaluator.h"

/* The two programs' ways: names of pictures and losses in the event file, default metric. */
typedef enum { OD_EVAL_LEGACY, OD_EVAL_MODEL_MAIN } od_eval_style;

typedef struct {
  const od_pipeline *pipeline;
  const od_pb_reader *reader; /* whose records: an eval_input_reader, or the train_input_reader */
  const char *eval_dir;       /* event file, metrics.json, pictures; made when missing */
  od_eval_style style;
  uint64_t sample_1_of_n;     /* 0, 1: all */
  od_engine_options engine;
  od_on_bad on_bad;
  const od_reporter *reporter;
} od_eval_job_options;

typedef struct od_eval_job od_eval_job;

/* Prepares detector, categories and metrics; complains about the config before a checkpoint is waited for. */
OD_MUST_CHECK od_status od_eval_job_new(od_eval_job **out, const od_eval_job_options *o);
void od_eval_job_free(od_eval_job *j);

/* Evaluates one checkpoint and writes everything. *step (may be NULL): its global_step. */
OD_MUST_CHECK od_status od_eval_job_run(od_eval_job *j, const char *checkpoint, int64_t *step);

/* Figures of the last run: metrics, then mean losses under the tags of the event file. Borrowed until the next run. */
const od_metric *od_eval_job_metrics(const od_eval_job *j, size_t *n);
/* Seconds a picture took in the last run, all in all. */
double od_eval_job_seconds_per_picture(const od_eval_job *j);

#endif
