/* Learning-rate schedules; see schedule.h. */
#include "train/schedule.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

static float exponential(const od_schedule *s, int64_t step) {
  float rate;
  if (step < s->burnin_steps) {
    rate = s->burnin_rate == 0 ? s->base : s->burnin_rate;
  } else {
    float p = (float)(step - s->burnin_steps) / (float)s->decay_steps;
    rate = s->base * powf(s->decay_factor, s->staircase ? floorf(p) : p);
  }
  return fmaxf(rate, s->min_rate); /* bounds the burn-in too */
}

static float manual(const od_schedule *s, int64_t step) {
  if (s->n_entries == 0) return s->base;
  const od_schedule_entry *first = &s->entries[0];
  if (s->warmup && step < first->step) {
    double slope = ((double)first->rate - (double)s->base) / (double)first->step;
    return (float)((double)s->base + slope * (double)step);
  }
  float rate = s->base;
  for (size_t i = 0; i < s->n_entries && s->entries[i].step <= step; i++) rate = s->entries[i].rate;
  return rate;
}

static float cosine(const od_schedule *s, int64_t step) {
  if (step > s->total_steps) return 0;
  if (s->warmup_steps > 0 && step < s->warmup_steps) {
    float slope = (float)(((double)s->base - (double)s->warmup_rate) / (double)s->warmup_steps);
    return slope * (float)step + s->warmup_rate;
  }
  /* without hold the original computes the cosine at the end of warmup too, where it is 1 */
  int64_t from = s->warmup_steps + s->hold_steps;
  if ((s->hold_steps > 0 && step <= from) || from == s->total_steps) return s->base;
  float done = (float)M_PI * ((float)step - (float)s->warmup_steps - (float)s->hold_steps);
  return (float)(0.5 * (double)s->base) * (1.0f + cosf(done / (float)(s->total_steps - from)));
}

float od_schedule_rate(const od_schedule *s, int64_t step) {
  switch (s->kind) {
  case OD_SCHEDULE_EXPONENTIAL: return exponential(s, step);
  case OD_SCHEDULE_MANUAL: return manual(s, step);
  case OD_SCHEDULE_COSINE: return cosine(s, step);
  case OD_SCHEDULE_CONSTANT: break;
  }
  return s->base;
}

/* --------------------------------------------------------------------------------------------------------------- check */
static od_status check_manual(od_schedule *s, const od_reporter *r) {
  if (s->n_entries == 0) return od_fail(OD_EINVAL, "manual_step_learning_rate: Empty learning rate schedule.");
  for (size_t i = 0; i < s->n_entries; i++) {
    int64_t before = i ? s->entries[i - 1].step : -1;
    if (s->entries[i].step < 0)
      return od_fail(OD_EINVAL, "manual_step_learning_rate: a schedule entry at step %lld",
                     (long long)s->entries[i].step);
    if (s->entries[i].step <= before)
      return od_fail(
          OD_EINVAL,
          "manual_step_learning_rate: Entries in boundaries must be strictly increasing: step %lld stands after "
          "step %lld",
          (long long)s->entries[i].step, (long long)before);
  }
  if (s->entries[0].step > 0) return OD_OK;
  od_warn(r, "manual_step_learning_rate: the entry at step 0 replaces initial_learning_rate (%g by %g)",
          (double)s->base, (double)s->entries[0].rate);
  s->base = s->entries[0].rate;
  memmove(s->entries, s->entries + 1, --s->n_entries * sizeof *s->entries);
  return OD_OK;
}

static od_status check_cosine(const od_schedule *s) {
  if (s->total_steps < s->warmup_steps)
    return od_fail(OD_EINVAL,
                   "cosine_decay_learning_rate: total_steps must be larger or equal to warmup_steps: %lld and %lld",
                   (long long)s->total_steps, (long long)s->warmup_steps);
  if (s->warmup_steps > 0 && s->base < s->warmup_rate)
    return od_fail(
        OD_EINVAL,
        "cosine_decay_learning_rate: learning_rate_base must be larger or equal to warmup_learning_rate: %g and %g",
        (double)s->base, (double)s->warmup_rate);
  /* the original would raise the rate again after the hold: half a cosine of negative length */
  if (s->total_steps < s->warmup_steps + s->hold_steps)
    return od_fail(
        OD_EINVAL,
        "cosine_decay_learning_rate: total_steps %lld ends before warmup_steps %lld and hold_base_rate_steps %lld",
        (long long)s->total_steps, (long long)s->warmup_steps, (long long)s->hold_steps);
  return OD_OK;
}

od_status od_schedule_check(od_schedule *s, const od_reporter *r) {
  if (s->kind == OD_SCHEDULE_MANUAL) return check_manual(s, r);
  if (s->kind == OD_SCHEDULE_COSINE) return check_cosine(s);
  if (s->kind == OD_SCHEDULE_EXPONENTIAL && s->decay_steps <= 0)
    return od_fail(OD_EINVAL, "exponential_decay_learning_rate: decay_steps %lld, above 0 expected",
                   (long long)s->decay_steps);
  return OD_OK;
}

/* -------------------------------------------------------------------------------------------------------------- config */
static void fill_exponential(od_schedule *s, const ObjectDetection__Protos__ExponentialDecayLearningRate *c) {
  s->kind = OD_SCHEDULE_EXPONENTIAL;
  s->base = c->initial_learning_rate;
  s->decay_steps = c->decay_steps;
  s->decay_factor = c->decay_factor;
  s->staircase = c->staircase;
  s->burnin_rate = c->burnin_learning_rate;
  s->burnin_steps = c->burnin_steps;
  s->min_rate = c->min_learning_rate;
}

static od_status fill_manual(od_schedule *s, const ObjectDetection__Protos__ManualStepLearningRate *c) {
  s->kind = OD_SCHEDULE_MANUAL;
  s->base = c->initial_learning_rate;
  s->warmup = c->warmup;
  OD_TRY(od_new(&s->entries, c->n_schedule ? c->n_schedule : 1, sizeof *s->entries));
  for (size_t i = 0; i < c->n_schedule; i++)
    s->entries[i] = (od_schedule_entry){c->schedule[i]->step, c->schedule[i]->learning_rate};
  s->n_entries = c->n_schedule;
  return OD_OK;
}

static void fill_cosine(od_schedule *s, const ObjectDetection__Protos__CosineDecayLearningRate *c) {
  s->kind = OD_SCHEDULE_COSINE;
  s->base = c->learning_rate_base;
  s->total_steps = c->total_steps;
  s->warmup_rate = c->warmup_learning_rate;
  s->warmup_steps = c->warmup_steps;
  s->hold_steps = c->hold_base_rate_steps;
}

static od_status fill(od_schedule *s, const ObjectDetection__Protos__LearningRate *config) {
  switch (config ? config->learning_rate_case : OBJECT_DETECTION__PROTOS__LEARNING_RATE__LEARNING_RATE__NOT_SET) {
  case OBJECT_DETECTION__PROTOS__LEARNING_RATE__LEARNING_RATE_CONSTANT_LEARNING_RATE:
    s->base = config->constant_learning_rate->learning_rate;
    return OD_OK;
  case OBJECT_DETECTION__PROTOS__LEARNING_RATE__LEARNING_RATE_EXPONENTIAL_DECAY_LEARNING_RATE:
    fill_exponential(s, config->exponential_decay_learning_rate);
    return OD_OK;
  case OBJECT_DETECTION__PROTOS__LEARNING_RATE__LEARNING_RATE_MANUAL_STEP_LEARNING_RATE:
    return fill_manual(s, config->manual_step_learning_rate);
  case OBJECT_DETECTION__PROTOS__LEARNING_RATE__LEARNING_RATE_COSINE_DECAY_LEARNING_RATE:
    fill_cosine(s, config->cosine_decay_learning_rate);
    return OD_OK;
  default: break;
  }
  return od_fail(OD_EINVAL,
                 "optimizer: learning_rate is not set; one of constant_learning_rate, "
                 "exponential_decay_learning_rate, manual_step_learning_rate, cosine_decay_learning_rate expected");
}

od_status od_schedule_from_config(od_schedule *s, const ObjectDetection__Protos__LearningRate *config,
                                  const od_reporter *r) {
  *s = (od_schedule){0};
  od_status st = OD_OK;
  OD_GO(st, fill(s, config));
  OD_GO(st, od_schedule_check(s, r));
done:
  if (st != OD_OK) od_schedule_free(s);
  return st;
}

od_status od_schedule_from_optimizer(od_schedule *s, const ObjectDetection__Protos__Optimizer *config,
                                     const od_reporter *r) {
  *s = (od_schedule){0};
  switch (config ? config->optimizer_case : OBJECT_DETECTION__PROTOS__OPTIMIZER__OPTIMIZER__NOT_SET) {
  case OBJECT_DETECTION__PROTOS__OPTIMIZER__OPTIMIZER_RMS_PROP_OPTIMIZER:
    return od_schedule_from_config(s, config->rms_prop_optimizer->learning_rate, r);
  case OBJECT_DETECTION__PROTOS__OPTIMIZER__OPTIMIZER_MOMENTUM_OPTIMIZER:
    return od_schedule_from_config(s, config->momentum_optimizer->learning_rate, r);
  case OBJECT_DETECTION__PROTOS__OPTIMIZER__OPTIMIZER_ADAM_OPTIMIZER:
    return od_schedule_from_config(s, config->adam_optimizer->learning_rate, r);
  default: break;
  }
  return od_fail(OD_EINVAL, "train_config: no optimizer is set; one of rms_prop_optimizer, momentum_optimizer, "
                            "adam_optimizer expected");
}

void od_schedule_free(od_schedule *s) {
  od_free(s->entries);
  s->entries = NULL;
  s->n_entries = 0;
}
