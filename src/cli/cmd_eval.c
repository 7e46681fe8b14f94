/* objdet eval: the original's eval.py (legacy/eval.py). Watches a training folder and evaluates each new checkpoint. */
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/command.h"
#include "cli/common.h"
#include "eval/best.h"
#include "eval/job.h"
#include "io/bundle.h"
#include "io/checkpoint_state.h"
#include "io/path.h"
#include "train/config_check.h"

/* Sleeps in short pieces, so that a signal is heard at once. */
static od_status nap(double seconds) {
  for (double end = od_now() + seconds; od_now() < end;) {
    OD_TRY(od_stop_check());
    usleep(200000);
  }
  return OD_OK;
}

typedef struct {
  const od_args *a;
  const od_reporter *r;
  od_eval_job *job;
  const char *checkpoint_dir;
  char *only; /* one checkpoint was named instead of a folder: its prefix */
  char *last; /* checkpoint evaluated last */
  bool told, stop;
} watch;

/* The newest checkpoint when it is not the last one again; *prefix NULL: nothing new. */
static od_status look(watch *w, char **prefix) {
  *prefix = NULL;
  od_status st = od_checkpoint_latest(prefix, w->checkpoint_dir);
  if (st == OD_ENOENT) {
    if (!w->told && !od_arg_bool(w->a, "run_once")) od_info(w->r, "no checkpoint in %s yet, waiting for one", w->checkpoint_dir);
    w->told = true;
    return OD_OK;
  }
  OD_TRY(st);
  if (w->last && strcmp(w->last, *prefix) == 0) {
    od_free(*prefix);
    *prefix = NULL;
  }
  return OD_OK;
}

static od_status evaluate(watch *w, const char *prefix) {
  int64_t step;
  size_t n;
  od_info(w->r, "evaluating %s", prefix);
  OD_TRY(od_eval_job_run(w->job, prefix, &step));
  const od_metric *metrics = od_eval_job_metrics(w->job, &n);
  const char *metric = od_arg_text(w->a, "best_checkpoint_metric");
  int patience = od_arg_int32(w->a, "early_stop_after");
  if (od_arg_bool(w->a, "run_once") && !metric && patience <= 0) return OD_OK;
  char *folder;
  OD_TRY(od_path_join(&folder, od_arg_text(w->a, "eval_dir"), "best"));
  od_best_options best = {
      .metric = metric, .folder = folder, .keep = metric != NULL, .patience = patience, .reporter = w->r};
  od_status st = od_best_note(&best, prefix, step, metrics, n, &w->stop);
  od_free(folder);
  return st;
}

/* --checkpoint_dir names a folder, which may come later, or one checkpoint in any of its forms. */
static od_status find_only(watch *w) {
  od_bundle *b;
  if (!od_path_is_file(w->checkpoint_dir) &&
      (od_path_exists(w->checkpoint_dir) || !od_checkpoint_exists(w->checkpoint_dir)))
    return OD_OK;
  OD_TRY(od_bundle_open(&b, w->checkpoint_dir));
  w->only = od_strdup(od_bundle_prefix(b));
  od_bundle_free(b);
  return w->only ? OD_OK : OD_ENOMEM;
}

/* A training that goes on removes its oldest checkpoints, perhaps the one that was just found. */
static od_status forgive_removed(const watch *w, const char *prefix, od_status st) {
  if (st != OD_ENOENT || od_arg_bool(w->a, "run_once") || od_checkpoint_exists(prefix)) return st;
  od_warn(w->r, "%s was removed before it could be read; waiting for the next one", prefix);
  return OD_OK;
}

static od_status watch_all(watch *w, const od_pb_eval *c) {
  bool once = od_arg_bool(w->a, "run_once");
  for (uint32_t polls = 1;; polls++) {
    double start = od_now();
    char *prefix;
    OD_TRY(look(w, &prefix));
    if (prefix) {
      od_status st = forgive_removed(w, prefix, evaluate(w, prefix));
      od_free(w->last);
      w->last = prefix;
      OD_TRY(st);
    } else if (once) {
      return od_fail(OD_ENOENT, "%s holds no checkpoint", w->checkpoint_dir);
    }
    if (once || w->stop || (c->max_evals && polls >= c->max_evals))
      return OD_OK; /* rounds of waiting count, as in the original */
    OD_TRY(nap((double)c->eval_interval_secs - (od_now() - start)));
  }
}

/* Chooses the reader and hands everything to the job. */
static od_status run_eval(const od_args *a, const od_reporter *r, const od_pipeline *p) {
  const od_pb_pipeline *c = p->config;
  od_eval_job_options o = {
      .pipeline = p, .eval_dir = od_arg_text(a, "eval_dir"), .style = OD_EVAL_LEGACY, .reporter = r};
  OD_TRY(od_read_engine_flags(&o.engine, a));
  OD_TRY(od_read_on_bad(&o.on_bad, a));
  o.reader = od_arg_bool(a, "eval_training_data") ? c->train_input_reader
             : c->n_eval_input_reader             ? c->eval_input_reader[0]
                                                  : NULL;
  watch w = {.a = a, .r = r, .checkpoint_dir = od_arg_text(a, "checkpoint_dir")};
  od_status st = od_arg_bool(a, "eval_training_data") ? od_fields_check(p, OD_FOR_EVAL, r)
                                                      : od_config_require(p, OD_FOR_EVAL, true, r);
  if (st == OD_OK) st = find_only(&w);
  if (st == OD_OK) st = od_eval_job_new(&w.job, &o);
  if (st == OD_OK) st = od_save_config(p, o.eval_dir);
  if (st == OD_OK) st = w.only ? evaluate(&w, w.only) : watch_all(&w, OD_SET(c->eval_config, EvalConfig));
  od_eval_job_free(w.job);
  od_free(w.only);
  od_free(w.last);
  return st;
}

static od_status run(const od_args *a, const od_reporter *r) {
  od_pipeline p;
  OD_TRY(od_arg_required(a, "checkpoint_dir"));
  OD_TRY(od_arg_required(a, "eval_dir"));
  OD_TRY(od_load_pipeline(&p, a));
  od_status st = run_eval(a, r, &p);
  od_pipeline_free(&p);
  return st;
}

static const od_flag flags[] = {
    {"checkpoint_dir", OD_FLAG_TEXT, NULL,
     "folder to watch for checkpoints (the training folder), or one checkpoint: evaluated once"},
    {"eval_dir", OD_FLAG_TEXT, NULL, "folder for the event file, metrics.json and pictures"},
    {"pipeline_config_path", OD_FLAG_TEXT, NULL, "the pipeline.config"},
    {"eval_config_path", OD_FLAG_TEXT, NULL, "an EvalConfig file, instead of the pipeline's"},
    {"input_config_path", OD_FLAG_TEXT, NULL, "an InputReader file, instead of the pipeline's"},
    {"model_config_path", OD_FLAG_TEXT, NULL, "a DetectionModel file, instead of the pipeline's"},
    {"eval_training_data", OD_FLAG_BOOL, "false", "evaluate on the training records"},
    {"run_once", OD_FLAG_BOOL, "false", "evaluate the newest checkpoint and end"},
    {"best_checkpoint_metric", OD_FLAG_TEXT, NULL,
     "keep a copy of the checkpoint in which this figure was best, in eval_dir/best"},
    {"early_stop_after", OD_FLAG_INT, "0", "end after so many evaluations that brought nothing better"},
    {"on_bad_record", OD_FLAG_TEXT, "stop", "a damaged record or picture: stop, or skip and count"},
    OD_COMMON_FLAGS,
    {0},
};

const od_command od_cmd_eval = {"eval", "evaluates checkpoints as they appear (the original's legacy evaluator)", NULL,
                                flags, run};
