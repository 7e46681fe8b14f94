/* The training loop; see trainer.h. */
#include "train/trainer.h"

#include <stdio.h>
#include <string.h>

#include "base/parallel.h"
#include "base/str.h"
#include "base/version.h"
#include "io/checkpoint_state.h"
#include "io/file.h"
#include "io/path.h"
#include "train/restore.h"
#include "train/saver.h"
#include "train/session.h"
#include "train/summary.h"

enum { LINE_EVERY_STEPS = 100, SCALARS_EVERY_STEPS = 10 /* unless another number was asked for */ };
static const double line_every_seconds = 10, histograms_every_seconds = 120;

typedef struct {
  od_session session;
  od_saver *saver;
  od_summaries *summaries;
  od_progress progress;
  uint64_t num_steps, saved_at;
  od_sidecar before;            /* of the checkpoint that is resumed */
  bool exact, ever_saved, stop; /* exact: it has one; stop: the caller's after_save asked for it */
  double last_save, last_line, last_histograms, last_scalars, step_seconds;
  uint64_t scalars_at;
} run_state;

/* ------------------------------------------------------------------------------------------------------- where to begin */
/* The processor's model, as far as the system tells it. */
static void processor_name(char *out, size_t size) {
  char *text = NULL;
  size_t n;
  snprintf(out, size, "unknown");
  if (od_file_read_all(&text, &n, "/proc/cpuinfo", 1 << 24) != OD_OK) return;
  const char *at = strstr(text, "model name"), *colon = at ? strchr(at, ':') : NULL;
  if (colon) snprintf(out, size, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
  od_free(text);
}

/* What this run is made with, to be saved with its checkpoints. The session must have been started. */
static void describe(od_sidecar *out, const od_session *s) {
  *out = (od_sidecar){.seed = s->seed, .position = od_input_position(s->input), .fingerprint = od_input_fingerprint(s->input),
                      .threads = s->engine_options.threads};
  snprintf(out->precision, sizeof out->precision, "%s", s->engine_options.precision == OD_MIXED_BF16 ? "bf16" : "fp32");
  snprintf(out->engine, sizeof out->engine, "%s", s->engine_options.name);
  snprintf(out->version, sizeof out->version, "%s", OD_VERSION);
  processor_name(out->processor, sizeof out->processor);
}

/* What the flags leave open is taken from the run that is resumed. */
static void take_over(od_session *s, const od_sidecar *c) {
  od_engine_options *e = &s->engine_options;
  if (s->o->seed != 0 && s->o->seed != c->seed)
    od_warn(s->o->reporter, "--seed=%llu is not used: this run goes on with the seed %llu it began with", (unsigned long long)s->o->seed,
            (unsigned long long)c->seed);
  s->seed = c->seed;
  s->start = c->position;
  if (!e->name && strcmp(c->engine, "ref") == 0) e->name = "ref";
  if (!s->o->precision_given) e->precision = strcmp(c->precision, "bf16") == 0 ? OD_MIXED_BF16 : OD_FP32;
  if (e->threads <= 0 && c->threads <= od_cpu_count()) e->threads = c->threads; /* fewer processors than then: all of them */
}

static od_status resume(run_state *run, const char *prefix) {
  od_session *s = &run->session;
  OD_TRY(od_restore_all(s->state, prefix));
  s->step = (uint64_t)*(const int64_t *)od_state_tensor(s->state, "global_step")->data;
  s->start = s->step * (uint64_t)s->size.pictures * (uint64_t)s->size.turns;
  od_status st = od_sidecar_read(&run->before, prefix);
  run->exact = st == OD_OK;
  if (st == OD_ENOENT) return OD_OK;
  if (st == OD_OK) take_over(s, &run->before);
  return st;
}

/* Says what the resumed run has in common with the one before. */
static void tell_resumed(const run_state *run, const char *prefix) {
  const od_session *s = &run->session;
  const od_sidecar *b = &run->before;
  const char *differs = NULL;
  od_sidecar now;
  unsigned long long step = (unsigned long long)s->step;
  if (!run->exact) {
    od_info(s->o->reporter, "resuming at step %llu from %s, which has no sidecar (another program wrote it): seed and position in the data are not those of that run",
            step, prefix);
    return;
  }
  describe(&now, s);
  if (strcmp(now.version, b->version) != 0) differs = "another version";
  if (strcmp(now.processor, b->processor) != 0) differs = "another processor";
  if (now.threads != b->threads) differs = "another number of threads";
  if (strcmp(now.engine, b->engine) != 0) differs = "another engine";
  if (strcmp(now.precision, b->precision) != 0)
    od_warn(s->o->reporter, "resuming at step %llu from %s in %s, while it was trained in %s until now", step, prefix, now.precision, b->precision);
  else if (now.fingerprint != b->fingerprint)
    od_warn(s->o->reporter, "resuming at step %llu from %s with other records than it was trained on until now", step, prefix);
  else if (differs)
    od_info(s->o->reporter, "resuming at step %llu from %s: same to rounding, not bits (%s)", step, prefix, differs);
  else
    od_info(s->o->reporter, "resuming at step %llu from %s: exactly", step, prefix);
}

static od_status begin(run_state *run) {
  od_session *s = &run->session;
  const od_pb_train *c = s->config;
  od_state_init(s->state, s->seed);
  if (c->fine_tune_checkpoint && c->fine_tune_checkpoint[0]) {
    od_fine_tune_mode mode;
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

/* The detector's graph for TensorBoard. */
static od_status write_graph(run_state *run) {
  const od_train_options *o = run->session.o;
  od_str graph = OD_STR_INIT;
  if (!o->board_graph) return OD_OK;
  od_status st = o->board_graph(&graph, o->pipeline, o->train_dir);
  if (st == OD_OK) {
    st = od_summaries_graph(run->summaries, &graph);
  } else {
    od_info(o->reporter, "no graph for TensorBoard: %s", od_message());
    st = OD_OK;
  }
  od_str_free(&graph);
  return st;
}

/* prefix: the checkpoint to go on from; NULL: none. The folder is made only when the config has proved sound. */
static od_status prepare(run_state *run, const char *prefix) {
  od_session *s = &run->session;
  const od_train_options *o = s->o;
  OD_TRY(prefix ? resume(run, prefix) : begin(run));
  OD_TRY(od_session_start(s));
  s->engine_options = *od_engine_get_options(s->engine); /* what was really taken goes into the sidecar */
  if (prefix) tell_resumed(run, prefix);
  run->ever_saved = prefix != NULL;
  run->saved_at = s->step;
  OD_TRY(od_saver_new(&run->saver, o->train_dir, o->max_to_keep, (double)s->config->keep_checkpoint_every_n_hours));
  if (o->program == OD_PROGRAM_LEGACY) OD_TRY(copy_config(o));
  OD_TRY(od_summaries_open(&run->summaries, s));
  return prefix ? OD_OK : write_graph(run);
}

static od_status open_run(run_state *run, const od_train_options *o) {
  char *prefix = NULL;
  od_status st = od_checkpoint_latest(&prefix, o->train_dir);
  if (st == OD_ENOENT) st = OD_OK;
  if (st == OD_OK) st = od_train_check(o, prefix != NULL);
  if (st == OD_OK) st = od_session_build(&run->session, o);
  if (st == OD_OK) {
    run->num_steps = o->num_steps ? o->num_steps : run->session.config->num_steps;
    st = prepare(run, prefix);
  }
  od_free(prefix);
  return st;
}

/* ------------------------------------------------------------------------------------------------------------- saving */
static od_status save(run_state *run) {
  od_session *s = &run->session;
  const char *prefix;
  od_sidecar c;
  OD_TRY(od_session_check_state(s));
  describe(&c, s);
  OD_TRY(od_saver_save(run->saver, &prefix, s->state, s->step, &c));
  run->saved_at = s->step;
  run->ever_saved = true;
  run->last_save = od_now();
  od_info(s->o->reporter, "saved %s", prefix);
  OD_TRY(od_summaries_saved(run->summaries, s, prefix));
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
  const uint64_t scalars_every = s->o->save_summary_steps ? s->o->save_summary_steps : SCALARS_EVERY_STEPS;
  od_progress_step(&run->progress, s->step);
  bool first = run->progress.first + 1 == s->step, last = run->num_steps && s->step >= run->num_steps;
  if (first || last || s->step % LINE_EVERY_STEPS == 0 || now - run->last_line >= line_every_seconds) {
    od_info(s->o->reporter, "global step %llu: loss = %.4f (%.3f sec/step)", (unsigned long long)s->step, (double)s->values[s->total], run->step_seconds);
    run->last_line = now;
  }
  if (first || last || s->step % scalars_every == 0) {
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
  if (skipped) od_warn(s->o->reporter, "%llu damaged records were skipped", (unsigned long long)skipped);
  bool done = run->num_steps && s->step >= run->num_steps;
  return done ? OD_OK : od_stop_check(); /* a signal during the last save stops nothing */
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
