/* objdet profile: where the time of a training step (or of one inference) goes, by op and kernel, on made-up pictures and boxes.
 * Two measurements: whole steps without a clock inside them, and then steps with every kernel timed, whose shares are shown. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/common.h"
#include "train/rehearsal.h"

/* Steps of the plan that share op and kernel. */
typedef struct {
  const char *op, *kernel;
  double seconds, flops;
  int steps;
  bool fallback;
} line;

typedef struct {
  size_t bytes; /* activations and scratch of the plan */
  double first; /* seconds from the config to the end of the first step */
  double step;  /* median */
  double all, kernels, norm,
      fallback; /* seconds of the timed steps: all, convolutions and products, batch norm, left to ref */
  size_t n_steps, n_fallbacks;
  uint64_t allocations; /* a step, in the measured ones */
  line *lines;          /* owned; slowest first */
  size_t n_lines;
} report;

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}
static int slower_first(const void *a, const void *b) {
  const line *x = a, *y = b;
  return x->seconds == y->seconds ? strcmp(x->op, y->op) : x->seconds < y->seconds ? 1 : -1;
}

static void add_step(report *r, const od_profile_step *s) {
  size_t k = 0;
  while (k < r->n_lines && (strcmp(r->lines[k].op, s->op) != 0 || strcmp(r->lines[k].kernel, s->kernel) != 0)) k++;
  if (k == r->n_lines) r->lines[r->n_lines++] = (line){.op = s->op, .kernel = s->kernel, .fallback = s->fallback};
  r->lines[k].seconds += s->seconds;
  r->lines[k].flops += s->flops;
  r->lines[k].steps++;
  r->all += s->seconds;
  if (s->flops > 0) r->kernels += s->seconds;
  if (strstr(s->op, "batch_norm") || strstr(s->kernel, "batch_norm")) r->norm += s->seconds;
  if (s->fallback) r->fallback += s->seconds;
}

static od_status measure(report *out, od_rehearsal *h, int64_t steps, double began) {
  double *times;
  OD_TRY(od_program_memory(&out->bytes, h->program, h->shapes));
  OD_TRY(od_rehearsal_step(h, NULL));
  out->first = od_now() - began;
  OD_TRY(od_rehearsal_step(h, NULL)); /* the second finds what the first left in the caches */
  OD_TRY(od_new(&times, (size_t)steps, sizeof *times));
  const uint64_t before = od_mem_count();
  od_status st = OD_OK;
  for (int64_t i = 0; i < steps && st == OD_OK; i++) {
    const double t = od_now();
    st = od_stop_check();
    if (st == OD_OK) st = od_rehearsal_step(h, NULL);
    times[i] = od_now() - t;
  }
  out->allocations = (od_mem_count() - before) / (uint64_t)steps;
  qsort(times, (size_t)steps, sizeof *times, by_value);
  out->step = times[steps / 2];
  od_free(times);
  od_program_profile(h->program, true);
  for (int64_t i = 0; i < steps && st == OD_OK; i++) st = od_rehearsal_step(h, NULL);
  if (st != OD_OK) return st;
  const od_profile_step *s = od_program_profile_steps(h->program, &out->n_steps);
  out->n_fallbacks = od_program_fallbacks(h->program);
  OD_TRY(od_new(&out->lines, out->n_steps + 1, sizeof *out->lines));
  for (size_t i = 0; i < out->n_steps; i++) add_step(out, &s[i]);
  qsort(out->lines, out->n_lines, sizeof *out->lines, slower_first);
  return OD_OK;
}

/* -------------------------------------------------------------------------------------------------------------- output */
static double rate(const line *l) { return l->seconds > 0 ? l->flops / l->seconds * 1e-9 : 0; }
static double share(double part, double all) { return all > 0 ? part / all : 0; }

static void print(const report *r, const od_rehearsal *h, bool inference, int64_t rows) {
  const od_engine_options *o = od_engine_get_options(h->engine);
  printf("%s, %lld x %lldx%lld, engine %s, %s, %d threads\n", inference ? "inference" : "training step",
         (long long)h->batch, (long long)h->height, (long long)h->width, o->name,
         o->precision == OD_MIXED_BF16 ? "bf16" : "fp32", o->threads);
  printf("first step after %.2f s; a step %.2f ms (median), %.1f images/s; plan %.0f MB, process at most %.0f MB\n\n",
         r->first, r->step * 1e3, (double)h->batch / r->step, (double)r->bytes / 1e6, (double)od_mem_peak() / 1e6);
  printf("%10s %7s %6s %9s  %-28s %s\n", "ms", "share", "steps", "GFLOP/s", "op", "kernel");
  for (size_t k = 0; k < r->n_lines && k < (size_t)rows; k++) {
    const line *l = &r->lines[k];
    printf("%10.3f %6.1f%% %6d ", l->seconds * 1e3, 100 * share(l->seconds, r->all), l->steps);
    if (l->flops > 0)
      printf("%9.1f", rate(l));
    else
      printf("%9s", "");
    printf("  %-28s %s%s\n", l->op, l->kernel, l->fallback ? " (fallback)" : "");
  }
  if (r->n_lines > (size_t)rows)
    printf("%10s and %zu lines more; --rows=N shows them\n", "", r->n_lines - (size_t)rows);
  printf("\n%zu steps, %.2f ms; convolutions and products %.2f ms (%.1f %%; the whole is %.2f times as much), batch "
         "norm %.2f ms "
         "(%.1f %%)\n",
         r->n_steps, r->all * 1e3, r->kernels * 1e3, 100 * share(r->kernels, r->all), share(r->all, r->kernels),
         r->norm * 1e3, 100 * share(r->norm, r->all));
  printf("%zu steps were left to the reference: %.2f ms; allocations a step: %llu\n", r->n_fallbacks, r->fallback * 1e3,
         (unsigned long long)r->allocations);
}

static od_status print_json(const report *r, const od_rehearsal *h, bool inference) {
  const od_engine_options *o = od_engine_get_options(h->engine);
  json_t *lines = json_array(), *all;
  for (size_t k = 0; lines && k < r->n_lines; k++) {
    const line *l = &r->lines[k];
    json_array_append_new(lines, json_pack("{s:s,s:s,s:i,s:f,s:f,s:f,s:b}", "op", l->op, "kernel", l->kernel, "steps",
                                           l->steps, "seconds", l->seconds, "flops", l->flops, "share",
                                           share(l->seconds, r->all), "fallback", l->fallback));
  }
  all = json_pack("{s:b,s:[I,I,I],s:s,s:s,s:i,s:I,s:I,s:f,s:f,s:f,s:f,s:f,s:I,s:I,s:I,s:o}", "inference", inference,
                  "input", (json_int_t)h->batch, (json_int_t)h->height, (json_int_t)h->width, "engine", o->name,
                  "precision", o->precision == OD_MIXED_BF16 ? "bf16" : "fp32", "threads", o->threads, "plan_bytes",
                  (json_int_t)r->bytes, "peak_bytes", (json_int_t)od_mem_peak(), "first_step_seconds", r->first,
                  "step_seconds", r->step, "timed_seconds", r->all, "kernel_seconds", r->kernels, "batch_norm_seconds",
                  r->norm, "steps", (json_int_t)r->n_steps, "fallbacks", (json_int_t)r->n_fallbacks, "allocations",
                  (json_int_t)r->allocations, "lines", lines);
  if (!all) return od_fail(OD_ENOMEM, "the profile as JSON");
  const int failed = json_dumpf(all, stdout, JSON_INDENT(1));
  json_decref(all);
  return failed || putchar('\n') == EOF ? od_fail(OD_EIO, "stdout cannot be written") : OD_OK;
}

/* ------------------------------------------------------------------------------------------------------------- command */
static od_status read_size(od_rehearsal_spec *s, const char *text) {
  if (!text) return OD_OK;
  char *end = NULL;
  const long h = strtol(text, &end, 10);
  const long w = end != text && *end == 'x' ? strtol(end + 1, &end, 10) : 0;
  enum { LIMIT = 16384 };
  if (*end || h < 1 || w < 1 || h > LIMIT || w > LIMIT)
    return od_fail(OD_EUSAGE, "--size wants HEIGHTxWIDTH, each 1 to %d, not '%s'", LIMIT, text);
  s->height = h;
  s->width = w;
  return OD_OK;
}

static od_status run(const od_args *a, const od_reporter *unused) {
  (void)unused;
  const double began = od_now();
  const int64_t steps = od_arg_int(a, "steps"), rows = od_arg_int(a, "rows"), batch = od_arg_int(a, "batch_size");
  od_pipeline pipeline = {0};
  od_rehearsal h = {0};
  report r = {0};
  od_rehearsal_spec spec = {.inference = od_arg_bool(a, "inference"), .kind = OD_PROGRAM_LEGACY, .batch = batch};
  od_status st;
  if (steps < 1 || steps > 1000000)
    return od_fail(OD_EUSAGE, "--steps is %lld, 1 to 1000000 are wanted", (long long)steps);
  if (rows < 0) return od_fail(OD_EUSAGE, "--rows is %lld, 0 or more is wanted", (long long)rows);
  if (batch < 0 || batch > 65536)
    return od_fail(OD_EUSAGE, "--batch_size is %lld, 0 to 65536 are wanted", (long long)batch);
  OD_TRY(read_size(&spec, od_arg_text(a, "size")));
  OD_TRY(od_read_engine_flags(&spec.engine, a));
  OD_GO(st, od_load_pipeline(&pipeline, a));
  spec.config = pipeline.config;
  OD_GO(st, od_rehearsal_new(&h, &spec));
  OD_GO(st, measure(&r, &h, steps, began));
  if (od_arg_bool(a, "json"))
    st = print_json(&r, &h, spec.inference);
  else
    print(&r, &h, spec.inference, rows);
  if (st == OD_OK && fflush(stdout) != 0) st = od_fail(OD_EIO, "stdout cannot be written");
done:
  od_free(r.lines);
  od_rehearsal_free(&h);
  od_pipeline_free(&pipeline);
  return st;
}

static const od_flag flags[] = {
    {"pipeline_config_path", OD_FLAG_TEXT, NULL, "the config whose model is run; its records are not opened"},
    {"inference", OD_FLAG_BOOL, "false", "detections of one batch instead of a training step"},
    {"batch_size", OD_FLAG_INT, "0", "pictures at a time; 0: the config's, 1 for inference"},
    {"size", OD_FLAG_TEXT, NULL, "HEIGHTxWIDTH of the resized pictures; without it the config's"},
    {"steps", OD_FLAG_INT, "5", "steps to measure, and as many again with every kernel timed"},
    {"rows", OD_FLAG_INT, "40", "lines of the table"},
    {"json", OD_FLAG_BOOL, "false", "one JSON object instead of text"},
    OD_COMMON_FLAGS,
    {0},
};

const od_command od_cmd_profile = {"profile", "shows where the time of a training step or of inference goes", NULL,
                                   flags, run};
