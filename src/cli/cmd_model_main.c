/* objdet model_main: the original's model_main.py. Trains and evaluates in one process; with --checkpoint_dir only evaluates. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/command.h"
#include "cli/common.h"
#include "cli/servo.h"
#include "eval/best.h"
#include "eval/job.h"
#include "io/checkpoint_state.h"
#include "io/path.h"
#include "train/config_check.h"

static const double give_up_after = 180; /* seconds without a new checkpoint, as the original's continuous evaluation */

typedef struct {
  const od_args *a;
  const od_reporter *r;
  const od_pipeline *p;
  const char *model_dir;
  char *eval_dir; /* model_dir/eval_<name> */
  od_eval_job *job;
  int64_t evaluated; /* step of the last evaluation; -1: none yet */
} session;

static uint64_t train_steps(const session *s) {
  int64_t n = od_arg_int(s->a, "num_train_steps");
  return n > 0 ? (uint64_t)n : OD_SET(s->p->config->train_config, TrainConfig)->num_steps;
}

/* Evaluation of one reader into model_dir/<folder>. */
static od_status open_job(session *s, const od_pb_reader *reader, const char *folder, int64_t one_of) {
  if (one_of < 1) return od_fail(OD_EUSAGE, "sample_1_of_n flags want 1 or more, not %lld", (long long)one_of);
  OD_TRY(od_path_join(&s->eval_dir, s->model_dir, folder));
  od_eval_job_options o = {.pipeline = s->p, .reader = reader, .eval_dir = s->eval_dir, .style = OD_EVAL_MODEL_MAIN, .sample_1_of_n = (uint64_t)one_of,
                           .reporter = s->r};
  OD_TRY(od_read_engine_flags(&o.engine, s->a));
  OD_TRY(od_read_on_bad(&o.on_bad, s->a));
  return od_eval_job_new(&s->job, &o);
}

static od_status evaluate(session *s, const char *prefix, bool *stop) {
  int64_t step;
  size_t n;
  char *folder;
  od_info(s->r, "evaluating %s", prefix);
  OD_TRY(od_eval_job_run(s->job, prefix, &step));
  s->evaluated = step;
  const od_metric *metrics = od_eval_job_metrics(s->job, &n);
  const char *metric = od_arg_text(s->a, "best_checkpoint_metric");
  OD_TRY(od_path_join(&folder, s->model_dir, "best"));
  od_best_options best = {.metric = metric, .folder = folder, .keep = metric != NULL, .patience = od_arg_int32(s->a, "early_stop_after"), .reporter = s->r};
  od_status st = od_best_note(&best, prefix, step, metrics, n, stop);
  od_free(folder);
  return st;
}

/* ------------------------------------------------------------------------------------------------- train and evaluate */
static od_status after_save(void *ctx, const char *prefix, uint64_t step, bool *stop) {
  session *s = ctx;
  if (step == 0 || od_stop_signal()) return OD_OK; /* nothing learnt yet; or somebody waits for us to end */
  return evaluate(s, prefix, stop);
}

/* Behind the last step: its evaluation, unless it was made while training (a run that was stopped there has none), and the export
 * for serving. */
static od_status finish(session *s) {
  char *prefix;
  bool stop = false;
  OD_TRY(od_checkpoint_latest(&prefix, s->model_dir));
  od_status st = od_checkpoint_step(prefix) == s->evaluated ? OD_OK : evaluate(s, prefix, &stop);
  if (st == OD_OK) st = od_servo_export(s->p, s->model_dir, prefix, s->r);
  od_free(prefix);
  return st;
}

static od_status train(session *s) {
  const od_pb_pipeline *c = s->p->config;
  const od_pb_reader *reader = c->n_eval_input_reader ? c->eval_input_reader[0] : NULL;
  char folder[256];
  snprintf(folder, sizeof folder, "eval_%s", reader && reader->name && *reader->name ? reader->name : "0");
  od_train_options o = {.pipeline = s->p, .train_dir = s->model_dir, .program = OD_PROGRAM_MODEL_MAIN, .num_steps = train_steps(s), .max_to_keep = 5, .board_graph = od_write_board_graph,
                        .reporter = s->r, .after_save = after_save, .ctx = s};
  OD_TRY(od_read_train_flags(&o, s->a));
  OD_TRY(open_job(s, reader, folder, od_arg_int(s->a, "sample_1_of_n_eval_examples")));
  OD_TRY(od_train(&o));
  return finish(s);
}

/* ---------------------------------------------------------------------------------------------------- evaluation alone */
/* Every new checkpoint, until training's last step was evaluated or nothing new came for three minutes. */
static od_status evaluate_as_they_come(session *s, const char *dir) {
  char *last = NULL;
  bool stop = false;
  od_status st = OD_OK;
  double waited_since = od_now();
  uint64_t total = train_steps(s);
  while (st == OD_OK && !stop) {
    char *prefix = NULL;
    st = od_checkpoint_latest(&prefix, dir);
    if (st == OD_ENOENT) st = OD_OK;
    if (prefix && (!last || strcmp(prefix, last) != 0)) {
      st = evaluate(s, prefix, &stop);
      od_free(last);
      last = prefix;
      waited_since = od_now();
      if (total && od_checkpoint_step(prefix) >= (int64_t)total) break;
      continue;
    }
    od_free(prefix);
    if (od_now() - waited_since > give_up_after) {
      if (!last) st = od_fail(OD_ENOENT, "no checkpoint appeared in %s within %g seconds", dir, give_up_after);
      else od_info(s->r, "no new checkpoint for %g seconds: ending", give_up_after);
      break;
    }
    if (st == OD_OK) st = od_stop_check();
    usleep(500000);
  }
  od_free(last);
  return st;
}

static od_status evaluate_only(session *s, const char *dir) {
  const od_pb_pipeline *c = s->p->config;
  bool training_data = od_arg_bool(s->a, "eval_training_data"), once = od_arg_bool(s->a, "run_once"), stop = false;
  const od_pb_reader *reader = training_data ? c->train_input_reader : c->n_eval_input_reader ? c->eval_input_reader[0] : NULL;
  const char *name = once ? "eval" : training_data ? "eval_training_data" : "eval_validation_data";
  if (!training_data) OD_TRY(od_config_require(s->p, OD_FOR_EVAL, true, s->r));
  OD_TRY(open_job(s, reader, name, od_arg_int(s->a, training_data ? "sample_1_of_n_eval_on_train_examples" : "sample_1_of_n_eval_examples")));
  if (!once) return evaluate_as_they_come(s, dir);
  char *prefix = NULL;
  OD_TRY(od_checkpoint_latest(&prefix, dir));
  od_status st = evaluate(s, prefix, &stop);
  od_free(prefix);
  return st;
}

static od_status run(const od_args *a, const od_reporter *r) {
  od_pipeline p;
  OD_TRY(od_arg_required(a, "model_dir"));
  if (od_arg_given(a, "hparams_overrides"))
    return od_fail(OD_EUNSUPPORTED, "--hparams_overrides is not supported; --set path.in.config=value does the same");
  OD_TRY(od_refuse_cluster(a));
  OD_TRY(od_load_pipeline(&p, a));
  session s = {.a = a, .r = r, .p = &p, .model_dir = od_arg_text(a, "model_dir"), .evaluated = -1};
  const char *dir = od_arg_text(a, "checkpoint_dir");
  od_status st = dir && *dir ? evaluate_only(&s, dir) : train(&s);
  od_eval_job_free(s.job);
  od_free(s.eval_dir);
  od_pipeline_free(&p);
  return st;
}

static const od_flag flags[] = {
    {"model_dir", OD_FLAG_TEXT, NULL, "folder for checkpoints and summaries; evaluations lie in model_dir/eval_<name>"},
    {"pipeline_config_path", OD_FLAG_TEXT, NULL, "the pipeline.config"},
    {"num_train_steps", OD_FLAG_INT, "0", "steps; 0: train_config.num_steps"},
    {"eval_training_data", OD_FLAG_BOOL, "false", "with --checkpoint_dir: evaluate on the training records"},
    {"sample_1_of_n_eval_examples", OD_FLAG_INT, "1", "evaluate on one of n records"},
    {"sample_1_of_n_eval_on_train_examples", OD_FLAG_INT, "5", "the same for --eval_training_data"},
    {"checkpoint_dir", OD_FLAG_TEXT, NULL, "only evaluate the checkpoints of this folder"},
    {"run_once", OD_FLAG_BOOL, "false", "with --checkpoint_dir: only its newest checkpoint"},
    {"max_eval_retries", OD_FLAG_INT, "0", "as the original's; has no effect: a damaged record is named, see --on_bad_record"},
    {"hparams_overrides", OD_FLAG_TEXT, NULL, "refused: use --set"},
    {"best_checkpoint_metric", OD_FLAG_TEXT, NULL, "keep a copy of the checkpoint in which this figure was best, in model_dir/best"},
    {"early_stop_after", OD_FLAG_INT, "0", "end after so many evaluations that brought nothing better"},
    OD_TRAIN_FLAGS,
    OD_COMMON_FLAGS,
    {0},
};

const od_command od_cmd_model_main = {"model_main", "trains and evaluates in one process (the original's model_main)", NULL, flags, run};
