/* bench_step CONFIG [--batch=N] [--size=HxW] [--steps=N] [--threads=N] [--bf16] [--infer] [--engine=NAME] [--rows=N]: time of a
 * training step (or of inference) on made-up pictures and boxes, step by step of the plan; the convolutions' and products' own
 * time beside the total: what the house around the kernels costs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/report.h"
#include "base/rng.h"
#include "engine/program.h"
#include "model/pipeline.h"
#include "train/train_graph.h"

static const char *flag(int argc, char **argv, const char *name, const char *otherwise) {
  const size_t n = strlen(name);
  for (int i = 2; i < argc; i++)
    if (strncmp(argv[i], name, n) == 0) return argv[i][n] == '=' ? argv[i] + n + 1 : "1";
  return otherwise;
}

static void must(od_status st) {
  if (st == OD_OK) return;
  fprintf(stderr, "%s\n%s", od_message(), od_trail());
  exit(1);
}

static od_tensor made(od_dtype dtype, od_shape shape, double lo, double hi, uint64_t key) {
  od_tensor t;
  must(od_tensor_new(&t, dtype, &shape));
  for (int64_t i = 0, n = od_tensor_size(&t); i < n; i++) {
    const double v = lo + (hi - lo) * od_rng_f64(key, (uint64_t)i);
    if (dtype == OD_F32) ((float *)t.data)[i] = (float)v;
    else ((int32_t *)t.data)[i] = (int32_t)v;
  }
  return t;
}

typedef struct {
  const char *key;
  double seconds, flops;
  int n;
} line;

static int slower_first(const void *a, const void *b) { return ((const line *)a)->seconds < ((const line *)b)->seconds ? 1 : -1; }

static void add_line(line *lines, int *n, const char *key, const od_profile_step *s) {
  int k = 0;
  while (k < *n && strcmp(lines[k].key, key) != 0) k++;
  if (k == *n) lines[(*n)++] = (line){strdup(key), 0, 0, 0};
  lines[k].seconds += s->seconds;
  lines[k].flops += s->flops;
  lines[k].n++;
}

static void report(const od_program *p, int rows) {
  size_t n;
  const od_profile_step *s = od_program_profile_steps(p, &n);
  line *lines = calloc(n + 1, sizeof *lines);
  int n_lines = 0;
  double total = 0, kernels = 0, fallback = 0;
  for (size_t i = 0; i < n; i++) {
    char key[256];
    snprintf(key, sizeof key, "%-28s %.80s", s[i].op, s[i].kernel);
    add_line(lines, &n_lines, key, &s[i]);
    total += s[i].seconds;
    if (s[i].flops > 0) kernels += s[i].seconds;
    if (s[i].fallback) fallback += s[i].seconds;
  }
  qsort(lines, (size_t)n_lines, sizeof *lines, slower_first);
  for (int k = 0; k < n_lines && k < rows; k++)
    printf("%8.3f ms %4dx %7.1f GF/s  %s\n", lines[k].seconds * 1e3, lines[k].n, lines[k].flops / lines[k].seconds * 1e-9, lines[k].key);
  printf("steps %zu, total %.2f ms, convolutions and products %.2f ms, ratio %.3f, reference functions %.2f ms in %zu steps\n", n, total * 1e3,
         kernels * 1e3, total / kernels, fallback * 1e3, od_program_fallbacks(p));
  for (int k = 0; k < n_lines; k++) free((void *)(uintptr_t)lines[k].key);
  free(lines);
}

int main(int argc, char **argv) {
  od_pipeline pipeline;
  od_graph *g;
  od_state *state;
  od_engine *e;
  od_program *p;
  od_model model;
  od_train_graph train;
  if (argc < 2) return 2;
  const bool infer = flag(argc, argv, "--infer", NULL) != NULL;
  const int batch = atoi(flag(argc, argv, "--batch", infer ? "1" : "24")), steps = atoi(flag(argc, argv, "--steps", "5"));
  int h = 300, w = 300;
  sscanf(flag(argc, argv, "--size", "300x300"), "%dx%d", &h, &w);
  must(od_pipeline_load(&pipeline, argv[1], NULL, 0));
  must(od_graph_new(&g));
  const int64_t k = od_model_num_classes(pipeline.config->model);
  const int boxes = 8;
  od_model_spec spec = {.training = !infer, .images = od_input(g, "images", OD_F32, OD_SHAPE(-1, -1, -1, 3)),
                        .true_shapes = od_input(g, "true_shapes", OD_I32, OD_SHAPE(-1, 3))};
  od_tensor feeds[8] = {made(OD_F32, OD_SHAPE(batch, h, w, 3), 0, 255, 1), made(OD_I32, OD_SHAPE(batch, 3), h, h, 1)};
  for (int i = 0; i < batch; i++) ((int32_t *)feeds[1].data)[3 * i + 1] = w, ((int32_t *)feeds[1].data)[3 * i + 2] = 3;
  od_value values[8] = {spec.images, spec.true_shapes}, fetches[64];
  int n_feeds = 2, n_fetches = 0;
  if (!infer) {
    spec.groundtruth = (od_groundtruth){od_input(g, "boxes", OD_F32, OD_SHAPE(-1, -1, 4)), od_input(g, "classes", OD_F32, OD_SHAPE(-1, -1, k)),
                                        od_input(g, "weights", OD_F32, OD_SHAPE(-1, -1)), od_input(g, "count", OD_I32, OD_SHAPE(-1))};
    feeds[2] = made(OD_F32, OD_SHAPE(batch, boxes, 4), 0, 0.5, 2);
    feeds[3] = made(OD_F32, OD_SHAPE(batch, boxes, k), 0, 0, 3);
    feeds[4] = made(OD_F32, OD_SHAPE(batch, boxes), 1, 1, 4);
    feeds[5] = made(OD_I32, OD_SHAPE(batch), 2, 6, 5);
    for (int i = 0; i < batch * boxes; i++) {
      float *b = (float *)feeds[2].data + 4 * i;
      b[2] = b[0] + 0.1f + b[2] * 0.8f;
      b[3] = b[1] + 0.1f + b[3] * 0.8f;
      ((float *)feeds[3].data)[(int64_t)i * k + i % k] = 1;
    }
    memcpy(values + 2, (od_value[]){spec.groundtruth.boxes, spec.groundtruth.classes, spec.groundtruth.weights, spec.groundtruth.count},
           4 * sizeof *values);
    n_feeds = 6;
  }
  must(od_model_build(&model, g, pipeline.config->model, &spec));
  if (!infer) {
    must(od_train_graph_build(&train, &model, pipeline.config->train_config, OD_PROGRAM_LEGACY));
    values[n_feeds] = train.learning_rate;
    feeds[n_feeds] = made(OD_F32, OD_SCALAR, 1e-4, 1e-4, 1);
    n_feeds++;
    fetches[n_fetches++] = train.total_loss;
  } else {
    for (int i = 0; i < model.detections.n; i++) fetches[n_fetches++] = model.detections.item[i].value;
  }
  must(od_graph_check(g));
  must(od_state_new(&state, g));
  od_state_init(state, 1);
  must(od_engine_new(&e, &(od_engine_options){.name = flag(argc, argv, "--engine", "cpu"), .threads = atoi(flag(argc, argv, "--threads", "0")),
                                              .precision = flag(argc, argv, "--bf16", NULL) ? OD_MIXED_BF16 : OD_FP32}));
  must(od_program_new(&p, e, &(od_program_spec){.graph = g, .state = state, .feeds = values, .n_feeds = n_feeds, .fetches = fetches,
                                                .n_fetches = n_fetches, .update_groups = od_train_update_groups,
                                                .n_update_groups = infer ? 0 : OD_N_TRAIN_UPDATE_GROUPS}));
  od_tensor got[64];
  double t = od_now();
  size_t bytes;
  od_shape shapes[8];
  for (int i = 0; i < n_feeds; i++) shapes[i] = feeds[i].shape;
  must(od_program_memory(&bytes, p, shapes));
  printf("plan made in %.0f ms, %.0f MB\n", (od_now() - t) * 1e3, (double)bytes / 1e6);
  for (int i = 0; i < 2; i++) {
    must(od_program_run(p, feeds, got));
    if (!infer) printf("loss %.6f\n", (double)*(float *)got[0].data);
  }
  double best = 1e9;
  const uint64_t allocations = od_mem_count();
  for (int i = 0; i < steps; i++) {
    t = od_now();
    must(od_program_run(p, feeds, got));
    t = od_now() - t;
    if (t < best) best = t;
    if (!infer) printf("loss %.6f in %.1f ms\n", (double)*(float *)got[0].data, t * 1e3);
  }
  printf("best %.2f ms, allocations %llu\n", best * 1e3, (unsigned long long)(od_mem_count() - allocations));
  od_program_profile(p, true);
  for (int i = 0; i < steps; i++) must(od_program_run(p, feeds, got));
  report(p, atoi(flag(argc, argv, "--rows", "40")));
  return 0;
}
