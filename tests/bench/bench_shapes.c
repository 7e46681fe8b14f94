/* bench_shapes CONFIG SIZES [--inference] [--bf16] [--steps=N] [--block=N] [--memory=N] [--alone] [--set=a.b=v ...]: what pictures of
 * ever new sizes cost.
 *
 * SIZES holds "height width" of real photographs, a line each. They go through the config's resizer and are rescaled by a
 * seeded factor of 0.75 to 1 a side, so that no two are alike. The steps: a block of N unseen shapes, plans made ahead for the four that
 * come next as in training (N plans in the time of N steps), then the same shapes again; ratio of the two, summed and as the median of the
 * blocks.
 * --alone: without plans made ahead. --memory: no times, but that many unseen shapes; resident memory along the way. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/report.h"
#include "engine/ahead.h"
#include "image/resizer.h"
#include "train/rehearsal.h"

#define OK(expr)                                                                                                       \
  do {                                                                                                                 \
    if ((expr) != OD_OK) die(od_message());                                                                            \
  } while (0)

static void die(const char *what) {
  fprintf(stderr, "bench_shapes: %s\n", what);
  exit(1);
}

enum { SIZES_MAX = 4096, SETS_MAX = 16, AHEAD = 4, BLOCK_MAX = 12, SIDE_MAX = 2048 };

typedef struct {
  int h, w;
} size;

typedef struct {
  od_rehearsal r;
  od_resizer resizer;
  od_ahead *ahead; /* NULL: --alone */
  size photo[SIZES_MAX];
  int n_photos;
  uint64_t drawn;
  bool seen[SIDE_MAX][SIDE_MAX];
} bench;

static void read_sizes(bench *b, const char *path) {
  FILE *f = fopen(path, "r");
  if (!f) die("the file of sizes cannot be read");
  while (b->n_photos < SIZES_MAX && fscanf(f, "%d %d", &b->photo[b->n_photos].h, &b->photo[b->n_photos].w) == 2)
    b->n_photos++;
  fclose(f);
  if (!b->n_photos) die("no sizes");
}

/* The next shape that was never there. */
static size unseen(bench *b) {
  const od_key key = od_key_name(1, "shapes");
  for (;;) {
    const uint64_t i = b->drawn++;
    const size p = b->photo[i % (uint64_t)b->n_photos];
    od_resizer_size to;
    OK(od_resizer_target(&to, &b->resizer, p.h, p.w));
    const size s = {(int)((0.75 + 0.25 * od_rng_f64(key, 2 * i)) * to.height),
                    (int)((0.75 + 0.25 * od_rng_f64(key, 2 * i + 1)) * to.width)};
    if (s.h < 32 || s.w < 32 || s.h >= SIDE_MAX || s.w >= SIDE_MAX || b->seen[s.h][s.w]) {
      if (i > 10000000) die("there are not so many shapes");
      continue;
    }
    b->seen[s.h][s.w] = true;
    return s;
  }
}

/* Has plans made for shapes that come soon. */
static void ask(bench *b, const size *s, int n) {
  od_shape shapes[OD_REHEARSAL_FEEDS];
  memcpy(shapes, b->r.shapes, sizeof shapes);
  for (int k = 0; b->ahead && k < n; k++) {
    shapes[0].dim[1] = s[k].h;
    shapes[0].dim[2] = s[k].w;
    od_ahead_ask(b->ahead, shapes);
  }
}

/* One step with s[0]; s[1..AHEAD] come next. */
static void step(bench *b, const size *s) {
  od_rehearsal *r = &b->r;
  ask(b, s + 1, AHEAD);
  r->feeds[0].shape.dim[1] = s->h; /* the memory is that of the largest */
  r->feeds[0].shape.dim[2] = s->w;
  int32_t *true_shape = r->feeds[1].data;
  true_shape[0] = s->h;
  true_shape[1] = s->w;
  OK(od_rehearsal_step(r, NULL));
}

/* Seconds of n steps, and of the plans for the AHEAD shapes behind them. */
static double run(bench *b, const size *s, int n) {
  const double t = od_now();
  for (int i = 0; i < n; i++) step(b, s + i);
  if (b->ahead) od_ahead_wait(b->ahead);
  return od_now() - t;
}

/* The shapes that were next come first, with n unseen ones behind them. */
static void move_on(bench *b, size *s, int n) {
  memmove(s, s + n, AHEAD * sizeof *s);
  for (int i = 0; i < n; i++) s[AHEAD + i] = unseen(b);
}

static double resident(void) {
  long all, rss = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  if (!f || fscanf(f, "%ld %ld", &all, &rss) != 2) die("/proc/self/statm");
  fclose(f);
  return (double)rss * (double)sysconf(_SC_PAGESIZE) / 1e6;
}

static int by_value(const void *a, const void *b) {
  return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static void compare(bench *b, int steps, int block, const char *what) {
  double new_all = 0, old_all = 0, ratio[1000];
  int n = 0;
  size s[BLOCK_MAX + AHEAD];
  for (int i = 0; i < AHEAD; i++) s[block + i] = unseen(b);
  ask(b, s + block, AHEAD);
  if (b->ahead) od_ahead_wait(b->ahead);
  for (int done = 0; done + block <= steps && n < 1000; done += block) {
    move_on(b, s, block);
    const double new = run(b, s, block), old = run(b, s, block);
    new_all += new;
    old_all += old;
    ratio[n++] = new / old;
  }
  qsort(ratio, (size_t)n, sizeof *ratio, by_value);
  printf("%s: %d unseen shapes %.2f s, the same again %.2f s (%.1f ms a step): ratio %.3f, median of %d blocks %.3f\n",
         what, n * block, new_all, old_all, 1e3 * old_all / (n * block), new_all / old_all, n, ratio[n / 2]);
}

static void memory(bench *b, int n, const char *what) {
  double early = 0;
  size s[AHEAD + 1];
  for (int i = 0; i < AHEAD; i++) s[i + 1] = unseen(b);
  for (int i = 0; i < n; i++) {
    move_on(b, s, 1);
    step(b, s);
    if (i + 1 == 200) early = resident();
    if ((i + 1) % 200 == 0)
      printf("%s: %d shapes, resident %.1f MB, own blocks %.1f MB\n", what, i + 1, resident(),
             (double)od_mem_used() / 1e6);
  }
  if (early > 0) printf("%s: resident memory after %d shapes / after 200: %.4f\n", what, n, resident() / early);
}

int main(int argc, char **argv) {
  static bench b;
  od_pipeline pipeline;
  const char *sets[SETS_MAX];
  size_t n_sets = 0;
  bool inference = false, bf16 = false, alone = false;
  int steps = 200, block = BLOCK_MAX, n_memory = 0;
  setvbuf(stdout, NULL, _IOLBF, 0); /* seen while it runs */
  if (argc < 3) die("CONFIG and SIZES are wanted");
  for (int i = 3; i < argc; i++) {
    const char *a = argv[i];
    if (strcmp(a, "--inference") == 0)
      inference = true;
    else if (strcmp(a, "--bf16") == 0)
      bf16 = true;
    else if (strcmp(a, "--alone") == 0)
      alone = true;
    else if (strncmp(a, "--steps=", 8) == 0)
      steps = (int)strtol(a + 8, NULL, 10);
    else if (strncmp(a, "--block=", 8) == 0)
      block = (int)strtol(a + 8, NULL, 10);
    else if (strncmp(a, "--memory=", 9) == 0)
      n_memory = (int)strtol(a + 9, NULL, 10);
    else if (strncmp(a, "--set=", 6) == 0 && n_sets < SETS_MAX)
      sets[n_sets++] = a + 6;
    else
      die("an unknown option");
  }
  if (block < 1 || block > BLOCK_MAX) die("--block is 1 to 12");
  if (n_memory) steps = 0; /* memory is that of as many plans as training keeps, times want all of a block kept */
  OK(od_pipeline_load(&pipeline, argv[1], sets, n_sets));
  const od_rehearsal_spec spec = {.config = pipeline.config,
                                  .inference = inference,
                                  .batch = 1,
                                  .engine = {.name = "cpu", .precision = bf16 ? OD_MIXED_BF16 : OD_FP32,
                                             .plan_cache = n_memory ? 0 : 2 * BLOCK_MAX + AHEAD}};
  OK(od_resizer_from_config(&b.resizer, od_model_resizer(pipeline.config->model)));
  read_sizes(&b, argv[2]);
  OK(od_rehearsal_new(&b.r, &spec));
  char what[64];
  snprintf(what, sizeof what, "%s %s%s", inference ? "inference" : "training", bf16 ? "bf16" : "fp32",
           alone ? ", no plans ahead" : "");
  if (bf16 && od_engine_get_options(b.r.engine)->precision != OD_MIXED_BF16) {
    printf("%s: the processor has no bfloat16\n", what);
    return 0;
  }
  OK(od_rehearsal_step(&b.r, NULL)); /* the largest: the buffer has its size */
  if (!alone) OK(od_ahead_new(&b.ahead, b.r.program, b.r.n_feeds));
  if (steps) compare(&b, steps, block, what);
  if (n_memory) memory(&b, n_memory, what);
  od_ahead_free(b.ahead);
  od_rehearsal_free(&b.r);
  od_pipeline_free(&pipeline);
  return 0;
}
