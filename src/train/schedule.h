/* Learning-rate schedules of the config (odapi 7.2): the rate of a step as a plain function of the step.
 *
 * float32 arithmetic in the original's order of operations (learning_schedules.py under TensorFlow): what it prepares in
 * Python is double here too. */
#ifndef OD_TRAIN_SCHEDULE_H
#define OD_TRAIN_SCHEDULE_H

#include <stdint.h>

#include "base/report.h"
#include "io/proto/pipeline.pb-c.h"

typedef enum { OD_SCHEDULE_CONSTANT, OD_SCHEDULE_EXPONENTIAL, OD_SCHEDULE_MANUAL, OD_SCHEDULE_COSINE } od_schedule_kind;

/* From step on, this rate. */
typedef struct {
  int64_t step;
  float rate;
} od_schedule_entry;

/* base is the constant rate, initial_learning_rate or learning_rate_base. Fields that a kind does not name are ignored. */
typedef struct {
  od_schedule_kind kind;
  float base;
  /* exponential: base * factor^((step - burnin_steps) / decay_steps), burnin_rate (0: base) before, at least min_rate */
  int64_t decay_steps, burnin_steps;
  float decay_factor, burnin_rate, min_rate;
  bool staircase; /* whole exponents only */
  /* manual: the rate of the last entry at or before the step; warmup rises linearly from base to the first entry */
  od_schedule_entry *entries; /* owned; od_schedule_free */
  size_t n_entries;
  bool warmup;
  /* cosine: linear from warmup_rate, base for hold_steps, then half a cosine down to 0 at total_steps, 0 beyond */
  int64_t total_steps, warmup_steps, hold_steps;
  float warmup_rate;
} od_schedule;

/* The rate of the update that is made while global_step is step (0: the first). */
float od_schedule_rate(const od_schedule *s, int64_t step);

/* Refuses what the original refuses, in its words (OD_EINVAL): entries that do not rise, total_steps below warmup_steps, a
 * base rate below the warmup rate, an empty schedule; and what gives no number: decay_steps 0. An entry at step 0, which
 * configs of 2017 have and the newer original refuses, becomes the initial rate with a warning to r (may be NULL). */
OD_MUST_CHECK od_status od_schedule_check(od_schedule *s, const od_reporter *r);

/* Fills s from the config and checks it. OD_EINVAL when no kind is set. The caller frees with od_schedule_free. */
OD_MUST_CHECK od_status od_schedule_from_config(od_schedule *s, const ObjectDetection__Protos__LearningRate *config,
                                                const od_reporter *r);
/* The same from the optimizer that holds it. */
OD_MUST_CHECK od_status od_schedule_from_optimizer(od_schedule *s, const ObjectDetection__Protos__Optimizer *config,
                                                   const od_reporter *r);
void od_schedule_free(od_schedule *s);

#endif
