/* Sums: reduce_sum, reduce_mean, sum_like where what is summed is one run of dimensions; l2_loss, l1_loss, norms and clipping.
 * Parts are fixed by size and threads and added in order. */
#include <math.h>
#include <string.h>

#include "engine/cpu/cpu.h"
#include "ops/math.h"
#include "ops/optim.h"

enum { GRAIN = 32768 };

/* ------------------------------------------------------------------------------------ [outer, n, inner] -> [outer, inner] */
typedef struct {
  int64_t outer, n, inner;
  int chunks;
  bool mean, split_n; /* split_n: outer == 1, parts of n are summed by themselves */
} sum_self;

/* Finds the one run of summed dimensions; sizes of 1 belong to either side. */
static bool one_run(sum_self *s, const od_shape *x, const bool *summed) {
  int state = 0; /* 0 before, 1 within, 2 behind the run */
  s->outer = s->n = s->inner = 1;
  for (int i = 0; i < x->rank; i++) {
    if (x->dim[i] == 1) continue;
    if (summed[i]) {
      if (state == 2) return false;
      state = 1;
      s->n *= x->dim[i];
    } else {
      if (state == 1) state = 2;
      if (state == 0) s->outer *= x->dim[i];
      else s->inner *= x->dim[i];
    }
  }
  return true;
}

static bool match_sum(od_cpu_draft *d) {
  const od_node *n = d->node;
  const od_shape *x = &od_cpu_in_type(d, 0)->shape;
  bool summed[OD_MAX_RANK] = {false};
  if (od_cpu_in_type(d, 0)->dtype != OD_F32) return od_cpu_refuse(d, "not float32");
  if (od_shape_size(x) == 0) return od_cpu_refuse(d, "nothing to sum");
  if (od_cpu_is(n, "sum_like")) {
    const od_shape *like = &od_cpu_in_type(d, 1)->shape;
    for (int i = 0; i < x->rank; i++) {
      int k = i - (x->rank - like->rank);
      summed[i] = k < 0 || (like->dim[k] == 1 && x->dim[i] != 1);
    }
  } else {
    const od_reduce_params *p = n->params;
    for (int i = 0; i < x->rank; i++) summed[i] = p->axes.n == 0;
    for (int i = 0; i < p->axes.n; i++) summed[p->axes.v[i] < 0 ? p->axes.v[i] + x->rank : p->axes.v[i]] = true;
  }
  sum_self *s = od_cpu_alloc(d, sizeof *s);
  if (!s) return false;
  if (!one_run(s, x, summed)) return od_cpu_refuse(d, "more than one run of dimensions is summed");
  s->mean = od_cpu_is(n, "reduce_mean");
  s->split_n = s->outer == 1;
  const int64_t work = s->outer * s->n * s->inner, units = s->split_n ? s->n : s->outer;
  s->chunks = od_cpu_chunks(d->cpu, units, 1 + GRAIN / (work / units + 1));
  d->scratch = sizeof(double) * (size_t)(s->inner * s->chunks) + sizeof(float) * (size_t)(s->inner * s->chunks);
  od_cpu_take(d, n->in[0], OD_F32);
  od_cpu_give(d, (od_value){(od_node *)(uintptr_t)n, 0}, OD_F32, -1);
  d->note = s;
  return true;
}

static od_status create(void **out, od_cpu_draft *d) {
  *out = d->note;
  d->label = d->cpu->simd->name;
  return OD_OK;
}

typedef struct {
  const sum_self *s;
  const od_cpu_call *c;
} sum_job;

/* Sums rows [begin, end) of one block into acc [inner]; part [inner] is a float row for short stretches. */
static void sum_block(const sum_job *j, const float *x, int64_t rows, double *acc, float *part) {
  const od_cpu_simd *simd = j->c->cpu->simd;
  const int64_t inner = j->s->inner;
  memset(acc, 0, sizeof *acc * (size_t)inner);
  if (inner == 1) {
    *acc = simd->sum(x, rows);
    return;
  }
  for (int64_t r = 0; r < rows; r += 64) {
    const int64_t m = rows - r < 64 ? rows - r : 64;
    memset(part, 0, sizeof *part * (size_t)inner);
    simd->add_rows(part, x + r * inner, m, inner);
    for (int64_t k = 0; k < inner; k++) acc[k] += (double)part[k];
  }
}

static void sum_part(const void *args, int chunk, int64_t begin, int64_t end) {
  const sum_job *j = args;
  const sum_self *s = j->s;
  double *acc = (double *)(void *)j->c->scratch + s->inner * chunk;
  float *part = (float *)(void *)((double *)(void *)j->c->scratch + s->inner * s->chunks) + s->inner * chunk;
  const float *x = j->c->in[0];
  float *y = j->c->out[0];
  if (s->split_n) {
    sum_block(j, x + begin * s->inner, end - begin, acc, part);
    return;
  }
  for (int64_t o = begin; o < end; o++) {
    sum_block(j, x + o * s->n * s->inner, s->n, acc, part);
    for (int64_t k = 0; k < s->inner; k++) y[o * s->inner + k] = (float)(s->mean ? acc[k] / (double)s->n : acc[k]);
  }
}

static od_status run_sum(void *self_, const od_cpu_call *c) {
  const sum_self *s = self_;
  od_cpu_for(s->chunks, s->split_n ? s->n : s->outer, sum_part, &(sum_job){s, c});
  if (!s->split_n) return OD_OK;
  const double *acc = (const double *)(const void *)c->scratch;
  float *y = c->out[0];
  for (int64_t k = 0; k < s->inner; k++) {
    double sum = 0;
    for (int t = 0; t < s->chunks; t++) sum += acc[t * s->inner + k];
    y[k] = (float)(s->mean ? sum / (double)s->n : sum);
  }
  return OD_OK;
}

const od_cpu_kernel od_cpu_reduce_sum = {.name = "sum", .ops = (const char *const[]){"reduce_sum", "reduce_mean", "sum_like", NULL},
                                         .match = match_sum, .create = create, .run = run_sum};

/* -------------------------------------------------------------------------------------------- losses, norms, clipping */
typedef enum { L2, L1, NORM, CLIP, CLIP_GLOBAL } form;

typedef struct {
  form form;
  float clip;
  int n_in;
  int64_t size[]; /* by input */
} norm_self;

static bool match_norm(od_cpu_draft *d) {
  static const char *const names[] = {"l2_loss", "l1_loss", "global_norm", "clip_by_norm", "clip_by_global_norm"};
  const od_node *n = d->node;
  norm_self *s = od_cpu_alloc(d, sizeof *s + sizeof *s->size * (size_t)n->n_in);
  if (!s) return false;
  int k = 0;
  while (!od_cpu_is(n, names[k])) k++;
  s->form = (form)k;
  s->n_in = n->n_in;
  s->clip = s->form >= CLIP ? ((const od_clip_params *)n->params)->clip : 0;
  for (int i = 0; i < n->n_in; i++) {
    s->size[i] = od_cpu_size(d, n->in[i]);
    od_cpu_take(d, n->in[i], OD_F32);
  }
  d->scratch = sizeof(double) * (size_t)d->cpu->threads;
  od_cpu_give(d, (od_value){(od_node *)(uintptr_t)n, 0}, OD_F32, s->form >= CLIP ? 0 : -1);
  d->note = s;
  return true;
}

typedef struct {
  const od_cpu_call *c;
  const float *x;
  double (*sum)(const float *x, int64_t n);
  float *y, factor[2];
} norm_job;

static void norm_part(const void *args, int chunk, int64_t begin, int64_t end) {
  const norm_job *j = args;
  ((double *)(void *)j->c->scratch)[chunk] = j->sum(j->x + begin, end - begin);
}

static double total(const od_cpu_call *c, const float *x, int64_t n, double (*sum)(const float *, int64_t)) {
  const int chunks = od_cpu_chunks(c->cpu, n, GRAIN);
  od_cpu_for(chunks, n, norm_part, &(norm_job){.c = c, .x = x, .sum = sum});
  double all = 0;
  for (int t = 0; t < chunks; t++) all += ((const double *)(const void *)c->scratch)[t];
  return all;
}

static void scale_part(const void *args, int chunk, int64_t begin, int64_t end) {
  (void)chunk;
  const norm_job *j = args;
  j->c->cpu->simd->scale(j->y + begin, j->x + begin, NULL, NULL, end - begin, j->factor);
}

static od_status run_norm(void *self_, const od_cpu_call *c) {
  const norm_self *s = self_;
  const od_cpu_simd *simd = c->cpu->simd;
  float factor = 1;
  double sum = 0;
  switch (s->form) {
    case L2: *(float *)c->out[0] = (float)(total(c, c->in[0], s->size[0], simd->sum_squares) / 2); return OD_OK;
    case L1: *(float *)c->out[0] = (float)total(c, c->in[0], s->size[0], simd->sum_abs); return OD_OK;
    case NORM:
      for (int i = 0; i < s->n_in; i++) sum += total(c, c->in[i], s->size[i], simd->sum_squares);
      *(float *)c->out[0] = (float)sqrt(sum);
      return OD_OK;
    case CLIP: {
      const float norm = sqrtf((float)total(c, c->in[0], s->size[0], simd->sum_squares));
      factor = s->clip / (norm > s->clip || norm != norm ? norm : s->clip); /* NaN spreads and is found */
      break;
    }
    case CLIP_GLOBAL: {
      const float norm = *(const float *)c->in[1], a = 1 / norm, b = 1 / s->clip;
      factor = s->clip * (a < b || a != a ? a : b) + (norm - norm); /* NaN unless the norm is finite */
      break;
    }
  }
  od_cpu_for(od_cpu_chunks(c->cpu, s->size[0], GRAIN), s->size[0], scale_part,
             &(norm_job){.c = c, .x = c->in[0], .y = c->out[0], .factor = {factor, 0}});
  return OD_OK;
}

const od_cpu_kernel od_cpu_norm = {.name = "norm",
                                   .ops = (const char *const[]){"l2_loss", "l1_loss", "global_norm", "clip_by_norm", "clip_by_global_norm", NULL},
                                   .match = match_norm, .create = create, .run = run_norm};
