/* The training loop; see trainer.h. */
#include "train/trainer.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "io/checkpoint_state.h"
#include "io/file.h"
#include "io/path.h"
#include "train/restore.h"
#include "train/saver.h"
#include "train/session.h"
#include "train/summary.h"

enum { LINE_EVERY_STEPS = 100, SCALARS_EVERY_STEPS = 10 };
static const double line_every_seconds = 10, histograms_every_seconds = 120;

typedef struct {
  od_session session;
  od_saver *saver;
  od_summaries *summaries;
  od_progress progress;
  uint64_t num_steps, saved_at;
  bool ever_saved, stop; /* stop: the caller's after_save asked for it */
  double last_save, last_line, last_histograms, last_scalars, step_seconds;
  uint64_t scalars_at;
} run_state;

/* ------------------------------------------------------------------------------------------------------- where to begin */
static od_status resume(run_state *run, const char *prefix) {
  od_session *s = &run->session;
  const od_reporter *r = s->o->reporter;
  od_sidecar c;
  OD_TRY(od_restore_all(s->state, prefix));
  const od_tensor *step = od_state_tensor(s->state, "global_step");
  s->step = (uint64_t)*(const int64_t *)step->data;
  od_status st = od_sidecar_read(&c, prefix);
  if (st == OD_ENOENT) {
    s->start = s->step * (uint64_t)s->size.pictures * (uint64_t)s->size.turns;
    od_info(r, "resuming at step %llu from %s, which has no sidecar (another program wrote it): position in the data and seed are not those of that run",
            (unsigned long long)s->step, prefix);
    return OD_OK;
  }
  OD_TRY(st);
  if (s->o->seed != 0 && s->o->seed != c.seed)
    od_warn(r, "--seed=%llu is not used: this run goes on with the seed %llu it began with", (unsigned long long)s->o->seed, (unsigned long long)c.seed);
  s->seed = c.seed;
  s->start = c.position;
  if (s->engine_options.threads <= 0) s->engine_options.threads = c.threads;
  bool same = s->engine_options.threads == c.threads && strcmp(c.engine, s->engine_options.name ? s->engine_options.name : "cpu") == 0;
  od_info(r, "resuming at step %llu from %s: %s", (unsigned long long)s->step, prefix,
          same ? "exactly" : "same to rounding, not bits (other threads or engine)");
  return OD_OK;
}

static od_status begin(run_state *run) {
  od_session *s = &run->session;
  const od_pb_train *c = s->config;
  od_state_init(s->state, s->seed);
  if (c->fine_tune_checkpoint && c->fine_tune_checkpoint[0]) {
    od_fine_tune_mode mode;
    if (strstr(c->fine_tune_checkpoint, "PATH_TO_BE_CONFIGURED"))
      return od_fail(OD_EINVAL, "train_config.fine_tune_checkpoint still is '%s': put the path of a checkpoint there, or remove the field to train from scratch",
                     c->fine_tune_checkpoint);
    OD_TRY(od_fine_tune_mode_read(&mode, c));
    OD_TRY(od_fail_context(od_fine_tune(s->state, &s->model, c->fine_tune_checkpoint, mode, s->o->reporter), "train_config.fine_tune_checkpoint"));
  }
  od_start_averages(s->state);
  return OD_OK;
}

static od_status copy_config(const od_train_options *o) {
  od_str path = OD_STR_INIT;
  od_str_addf(&path, "%s/pipeline.config", o->train_dir);
  od_status st = od_str_check(&path);
  if (st == OD_OK) st = od_textproto_save(od_str_text(&path), o->pipeline->config);
  od_str_free(&path);
  return st;
}

static od_status open_run(run_state *run, const od_train_options *o) {
  od_session *s = &run->session;
  char *prefix = NULL;
  OD_TRY(od_session_build(s, o));
  s->engine_options = o->engine;
  run->num_steps = o->num_steps ? o->num_steps : s->config->num_steps;
  OD_TRY(od_path_make_dirs(o->train_dir));
  od_status st = od_checkpoint_latest(&prefix, o->train_dir);
  if (st == OD_OK) st = resume(run, prefix);
  else if (st == OD_ENOENT) st = begin(run);
  if (st == OD_OK) run->ever_saved = prefix != NULL;
  run->saved_at = s->step;
  od_free(prefix);
  OD_TRY(st);
  OD_TRY(od_session_start(s));
  s->engine_options = *od_engine_get_options(s->engine); /* what was really taken goes into the sidecar */
  OD_TRY(od_saver_new(&run->saver, o->train_dir, o->max_to_keep, (double)s->config->keep_checkpoint_every_n_hours));
  if (o->program == OD_PROGRAM_LEGACY) OD_TRY(copy_config(o));
  return od_summaries_open(&run->summaries, s);
}

/* ------------------------------------------------------------------------------------------------------------- saving */
static od_status save(run_state *run) {
  od_session *s = &run->session;
  const char *prefix;
  od_sidecar c = {.seed = s->seed, .position = od_input_position(s->input), .fingerprint = od_input_fingerprint(s->input),
                  .threads = s->engine_options.threads};
  snprintf(c.precision, sizeof c.precision, "%s", s->engine_options.precision == OD_MIXED_BF16 ? "bf16" : "fp32");
  snprintf(c.engine, sizeof c.engine, "%s", s->engine_options.name);
  OD_TRY(od_saver_save(run->saver, &prefix, s->state, s->step, &c));
  run->saved_at = s->step;
  run->ever_saved = true;
  run->last_save = od_now();
  od_info(s->o->reporter, "saved %s", prefix);
  return s->o->after_save ? s->o->after_save(s->o->ctx, prefix, s->step, &run->stop) : OD_OK;
}

static bool save_is_due(const run_state *run) {
  const od_train_options *o = run->session.o;
  if (o->save_interval_steps && run->session.step % o->save_interval_steps == 0) return true;
  return o->save_interval_secs > 0 && od_now() - run->last_save >= o->save_interval_secs;
}

/* --------------------------------------------------------------------------------------------------------------- loop */
static od_status report(run_state *run) {
  od_session *s = &run->session;
  double now = od_now();
  od_progress_step(&run->progress, s->step);
  bool first = run->progress.first + 1 == s->step, last = run->num_steps && s->step >= run->num_steps;
  if (first || last || s->step % LINE_EVERY_STEPS == 0 || now - run->last_line >= line_every_seconds) {
    od_info(s->o->reporter, "global step %llu: loss = %.4f (%.3f sec/step)", (unsigned long long)s->step, (double)s->values[s->total], run->step_seconds);
    run->last_line = now;
  }
  if (first || last || s->step % SCALARS_EVERY_STEPS == 0) {
    double rate = run->last_scalars > 0 && now > run->last_scalars ? (double)(s->step - run->scalars_at) / (now - run->last_scalars) : 0;
    OD_TRY(od_summaries_scalars(run->summaries, s, rate));
    run->last_scalars = now;
    run->scalars_at = s->step;
  }
  if (now - run->last_histograms >= histograms_every_seconds || last) {
    OD_TRY(od_summaries_histograms(run->summaries, s));
    run->last_histograms = now;
  }
  return OD_OK;
}

static od_status loop(run_state *run) {
  od_session *s = &run->session;
  if (!run->ever_saved) OD_TRY(save(run)); /* step 0, as the original does */
  run->last_save = run->last_line = run->last_histograms = od_now();
  od_progress_start(&run->progress, s->o->reporter, "step", s->step, run->num_steps);
  while (!run->stop && (!run->num_steps || s->step < run->num_steps)) {
    if (od_stop_signal()) break;
    double t = od_now();
    od_status st = od_session_step(s);
    if (st == OD_ENUMERIC) return od_session_diagnose(s);
    if (st == OD_END) {
      od_info(s->o->reporter, "the input ended (num_epochs)");
      break;
    }
    OD_TRY(st);
    run->step_seconds = od_now() - t;
    OD_TRY(report(run));
    if (save_is_due(run)) OD_TRY(save(run));
  }
  od_progress_end(&run->progress);
  if (run->saved_at != s->step) OD_TRY(save(run));
  uint64_t skipped = od_input_skipped(s->input);
  if (skipped) od_warn(s->o->reporter, "%llu records were skipped because they are damaged", (unsigned long long)skipped);
  return od_stop_check();
}

od_status od_train(const od_train_options *o) {
  run_state *run;
  OD_TRY(od_new(&run, 1, sizeof *run));
  od_status st = open_run(run, o);
  if (st == OD_OK) st = loop(run);
  char message[OD_MESSAGE_MAX];
  snprintf(message, sizeof message, "%s", od_message()); /* closing must not replace what happened */
  od_status closing = od_summaries_close(run->summaries);
  od_saver_free(run->saver);
  od_session_close(&run->session);
  od_free(run);
  if (st != OD_OK) return od_fail_take(st, message);
  return closing;
}
