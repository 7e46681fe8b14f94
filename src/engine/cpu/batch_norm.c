/* Batch norm in both forms, bias, and their gradients, over rows of channels; the activation behind (forward) or in front
 * (backward) is done in the same pass.
 *
 * Statistics: sums of x - shift and (x - shift)^2, shift being the mean of a few rows, so that nothing cancels when the mean is
 * far from zero. Float over short blocks of rows, double from block to block, parts fixed by the number of threads. Backward the
 * activation's mask is computed again from x instead of read from y: less memory traffic. */
#include <math.h>
#include <string.h>

#include "engine/cpu/cpu.h"
#include "ops/nn.h"

enum { BLOCK = 128, SAMPLES = 16 };

typedef enum { BIAS, FROZEN, TRAIN, GRAD_FROZEN, GRAD_TRAIN, GRAD_BIAS, GRAD_FOLD } form;

typedef struct {
  form form;
  int64_t rows, c;
  float lo, hi, epsilon;
  int bf16, chunks;
  int x, dy, gamma, beta, mean, variance, db; /* operands, -1: absent */
} self;

static void no_activation(self *s) {
  s->lo = -INFINITY;
  s->hi = INFINITY;
}

static bool limits(self *s, const od_node *n) {
  bool relu = od_cpu_is(n, "relu") || od_cpu_is(n, "relu_grad"), relu6 = od_cpu_is(n, "relu6") || od_cpu_is(n, "relu6_grad");
  if (!relu && !relu6) return false;
  s->lo = 0;
  s->hi = relu6 ? 6 : INFINITY;
  return true;
}

static int opt(od_cpu_draft *d, od_value v) { return od_has(v) ? od_cpu_take(d, v, OD_F32) : -1; }

static self *prepare(od_cpu_draft *d, form f, od_value x) {
  self *s = od_cpu_alloc(d, sizeof *s);
  if (!s) return NULL;
  const od_shape *shape = &od_cpu_type(d, x)->shape;
  if (od_shape_size(shape) == 0) {
    od_cpu_refuse(d, "nothing to compute");
    return NULL;
  }
  *s = (self){.form = f, .x = -1, .dy = -1, .gamma = -1, .beta = -1, .mean = -1, .variance = -1, .db = -1};
  s->c = shape->dim[shape->rank - 1];
  s->rows = od_shape_size(shape) / s->c;
  s->bf16 = od_cpu_wants_bf16(d);
  s->chunks = od_cpu_chunks(d->cpu, s->rows, 1 + 16384 / s->c);
  no_activation(s);
  d->note = s;
  /* a chunk sums in 2c doubles and 2c floats; shared: shift, a, b, k1, k0 */
  d->scratch = (size_t)s->c * ((size_t)s->chunks * (2 * sizeof(double) + 2 * sizeof(float)) + 5 * sizeof(float)) + OD_ALIGN;
  return s;
}

static od_dtype kind(const self *s) { return s->bf16 ? OD_BF16 : OD_F32; }

/* --------------------------------------------------------------------------------------------------------------- match */
static bool match_forward(od_cpu_draft *d) {
  const od_node *n = d->node;
  od_value y = {(od_node *)(uintptr_t)n, 0};
  form f = od_cpu_is(n, "bias_add") ? BIAS : od_cpu_is(n, "batch_norm") ? FROZEN : TRAIN;
  self *s = prepare(d, f, n->in[0]);
  if (!s) return false;
  if (f == BIAS && od_cpu_stored(d, n->in[0]) != OD_BF16) s->bf16 = 0; /* predictions need not be rounded for it */
  s->x = od_cpu_take(d, n->in[0], kind(s));
  if (f == BIAS) {
    s->beta = od_cpu_take(d, n->in[1], OD_F32);
  } else {
    s->gamma = opt(d, n->in[1]);
    s->beta = opt(d, n->in[2]);
    s->epsilon = ((const od_batch_norm_params *)n->params)->epsilon;
  }
  if (f == FROZEN) {
    s->mean = opt(d, n->in[3]);
    s->variance = opt(d, n->in[4]);
  }
  const od_node *next = od_cpu_next(d, y);
  if (next && limits(s, next)) od_cpu_absorb(d, next);
  od_value last = d->n_absorbed ? (od_value){(od_node *)(uintptr_t)next, 0} : y;
  od_cpu_give(d, last, kind(s), s->x);
  for (int k = 1; f == TRAIN && k < 4; k++) od_cpu_give(d, od_out(y, k), OD_F32, -1);
  return true;
}

static void take_gradient(od_cpu_draft *d, self *s, const od_node *n, od_value dy) {
  s->dy = od_cpu_take(d, dy, kind(s));
  s->x = od_cpu_take(d, n->in[1], kind(s));
  s->gamma = opt(d, n->in[2]);
  s->mean = opt(d, n->in[3]);
  s->variance = opt(d, n->in[4]);
  s->epsilon = ((const od_batch_norm_params *)n->params)->epsilon;
  od_value dx = {(od_node *)(uintptr_t)n, 0};
  od_cpu_give(d, dx, kind(s), s->dy);
  od_cpu_give(d, od_out(dx, 1), OD_F32, -1);
  od_cpu_give(d, od_out(dx, 2), OD_F32, -1);
}

static bool match_gradient(od_cpu_draft *d) {
  const od_node *n = d->node;
  self *s = prepare(d, od_cpu_is(n, "batch_norm_grad") ? GRAD_FROZEN : GRAD_TRAIN, n->in[1]);
  if (!s) return false;
  take_gradient(d, s, n, n->in[0]);
  return true;
}

/* fold_batch_norm_grad: the same sums and the same scaling, over the filter instead of a map. */
static bool match_fold_gradient(od_cpu_draft *d) {
  const od_node *n = d->node;
  od_value dw = {(od_node *)(uintptr_t)n, 0};
  self *s = prepare(d, GRAD_FOLD, n->in[1]);
  if (!s) return false;
  s->bf16 = 0;
  s->dy = od_cpu_take(d, n->in[0], OD_F32);
  s->x = od_cpu_take(d, n->in[1], OD_F32);
  s->gamma = opt(d, n->in[2]);
  s->mean = opt(d, n->in[3]);
  s->variance = opt(d, n->in[4]);
  s->db = opt(d, n->in[5]);
  s->epsilon = ((const od_batch_norm_params *)n->params)->epsilon;
  od_cpu_give(d, dw, OD_F32, s->dy);
  od_cpu_give(d, od_out(dw, 1), OD_F32, -1);
  return true;
}

/* relu_grad or relu6_grad whose only reader is the gradient of the batch norm in front of that activation. */
static bool match_activation(od_cpu_draft *d) {
  const od_node *n = d->node, *next = od_cpu_next(d, (od_value){(od_node *)(uintptr_t)n, 0});
  if (!next || !(od_cpu_is(next, "batch_norm_grad") || od_cpu_is(next, "batch_norm_train_grad")) || next->in[0].node != n)
    return od_cpu_refuse(d, "the reader is not a batch norm's gradient alone");
  const od_node *act = n->in[1].node, *norm = act->n_in ? act->in[0].node : NULL;
  bool train = od_cpu_is(next, "batch_norm_train_grad");
  if (!norm || !(od_cpu_is(act, "relu") || od_cpu_is(act, "relu6")) || !od_cpu_is(norm, train ? "batch_norm_train" : "batch_norm") ||
      !od_same(norm->in[0], next->in[1]) || !od_same(norm->in[1], next->in[2]))
    return od_cpu_refuse(d, "the activation does not follow that batch norm");
  for (int k = 1; k < 5; k++)
    if (!od_cpu_ready(d, next->in[k])) return od_cpu_refuse(d, "an input of the batch norm's gradient comes later");
  self *s = prepare(d, train ? GRAD_TRAIN : GRAD_FROZEN, next->in[1]);
  if (!s) return false;
  limits(s, n);
  od_cpu_absorb(d, next);
  take_gradient(d, s, next, n->in[0]);
  s->beta = opt(d, norm->in[2]);
  return true;
}

static bool match_bias_gradient(od_cpu_draft *d) {
  const od_node *n = d->node;
  self *s = prepare(d, GRAD_BIAS, n->in[0]);
  if (!s) return false;
  s->bf16 = od_cpu_stored(d, n->in[0]) == OD_BF16;
  s->dy = od_cpu_take_any(d, n->in[0]);
  od_cpu_give(d, (od_value){(od_node *)(uintptr_t)n, 0}, OD_F32, -1);
  return true;
}

static od_status create(void **out, od_cpu_draft *d) {
  *out = d->note;
  d->label = d->cpu->simd->name;
  /* the profile names such a step by its first op, the activation's gradient: its time is batch norm's */
  if (d->n_absorbed && (od_cpu_is(d->node, "relu_grad") || od_cpu_is(d->node, "relu6_grad"))) {
    d->label = od_arena_printf(d->plan->arena, "with batch_norm_grad, %s", d->cpu->simd->name);
    if (!d->label) return OD_ENOMEM;
  }
  return OD_OK;
}

/* ----------------------------------------------------------------------------------------------------------------- run */
typedef struct {
  const self *s;
  const od_cpu_call *c;
  double *sums; /* [chunks][2][c] */
  float *part;  /* [chunks][2][c] */
  float *shift, *a, *b, *k1, *k0;
  od_simd_rows rows;
  od_simd_row_fn fn;
} job;

static job start(const self *s, const od_cpu_call *c) {
  job j = {.s = s, .c = c, .sums = (double *)(void *)c->scratch};
  j.part = (float *)(void *)(j.sums + 2 * s->c * s->chunks);
  j.shift = j.part + 2 * s->c * s->chunks;
  j.a = j.shift + s->c;
  j.b = j.a + s->c;
  j.k1 = j.b + s->c;
  j.k0 = j.k1 + s->c;
  j.rows = (od_simd_rows){.x = s->x >= 0 ? c->in[s->x] : NULL, .dy = s->dy >= 0 ? c->in[s->dy] : NULL, .y = c->out[0], .c = s->c, .lo = s->lo,
                          .hi = s->hi, .shift = j.shift, .a = j.a, .b = j.b, .k1 = j.k1, .k0 = j.k0};
  return j;
}

static const float *operand(const job *j, int k) { return k >= 0 ? j->c->in[k] : NULL; }

static void sum_part(const void *args, int chunk, int64_t begin, int64_t end) {
  const job *j = args;
  const int64_t c = j->s->c;
  double *sums = j->sums + 2 * c * chunk;
  od_simd_rows rows = j->rows;
  rows.s1 = j->part + 2 * c * chunk;
  rows.s2 = rows.s1 + c;
  memset(sums, 0, sizeof *sums * (size_t)(2 * c));
  for (int64_t r = begin; r < end; r += BLOCK) {
    memset(rows.s1, 0, sizeof *rows.s1 * (size_t)(2 * c));
    j->fn(&rows, r, r + BLOCK < end ? r + BLOCK : end);
    for (int64_t k = 0; k < 2 * c; k++) sums[k] += (double)rows.s1[k];
  }
}

/* Sums of all parts into the first. */
static void sum_rows(job *j, od_simd_row_fn fn) {
  j->fn = fn;
  od_cpu_for(j->s->chunks, j->s->rows, sum_part, j);
  const int64_t n = 2 * j->s->c;
  for (int t = 1; t < j->s->chunks; t++)
    for (int64_t k = 0; k < n; k++) j->sums[k] += j->sums[n * t + k];
}

static void apply_part(const void *args, int chunk, int64_t begin, int64_t end) {
  (void)chunk;
  const job *j = args;
  j->fn(&j->rows, begin, end);
}

static void apply(job *j, od_simd_row_fn fn) {
  j->fn = fn;
  od_cpu_for(j->s->chunks, j->s->rows, apply_part, j);
}

/* The mean of some rows, spread over all. */
static void guess_mean(const job *j) {
  const self *s = j->s;
  const int64_t n = s->rows < SAMPLES ? s->rows : SAMPLES;
  memset(j->shift, 0, sizeof *j->shift * (size_t)s->c);
  for (int64_t k = 0; k < n; k++) {
    const int64_t at = s->rows * k / n * s->c;
    for (int64_t i = 0; i < s->c; i++)
      j->shift[i] += s->bf16 ? od_bf16_to_f32(((const uint16_t *)j->rows.x)[at + i]) : ((const float *)j->rows.x)[at + i];
  }
  for (int64_t i = 0; i < s->c; i++) {
    j->shift[i] /= (float)n;
    if (!isfinite(j->shift[i])) j->shift[i] = 0; /* what is not finite shall be found in the sums */
  }
}

/* a = gamma * r, b = beta - mean * a. */
static void affine(const job *j, int64_t i, double mean, double variance) {
  const float *gamma = operand(j, j->s->gamma), *beta = operand(j, j->s->beta);
  const double a = (gamma ? gamma[i] : 1.0) / sqrt(variance + (double)j->s->epsilon);
  j->a[i] = (float)a;
  j->b[i] = (float)((beta ? beta[i] : 0.0) - mean * a);
}

static od_status run_forward(void *self_, const od_cpu_call *c) {
  const self *s = self_;
  const od_cpu_simd *simd = c->cpu->simd;
  job j = start(s, c);
  if (s->form == TRAIN) {
    float *mean = c->out[1], *variance = c->out[2], *moving = c->out[3];
    const double n = (double)s->rows;
    guess_mean(&j);
    sum_rows(&j, simd->bn_sums[s->bf16]);
    for (int64_t i = 0; i < s->c; i++) {
      double m = j.sums[i] / n, v = j.sums[s->c + i] / n - m * m;
      if (v < 0) v = 0; /* rounding; NaN stays */
      m += (double)j.shift[i];
      mean[i] = (float)m;
      variance[i] = (float)v;
      moving[i] = (float)(v * (n / (n > 1 ? n - 1 : 1)));
      affine(&j, i, m, v);
    }
  } else if (s->form == FROZEN) {
    for (int64_t i = 0; i < s->c; i++) affine(&j, i, (double)operand(&j, s->mean)[i], (double)operand(&j, s->variance)[i]);
  } else {
    for (int64_t i = 0; i < s->c; i++) {
      j.a[i] = 1;
      j.b[i] = operand(&j, s->beta)[i];
    }
  }
  apply(&j, simd->bn_apply[s->bf16]);
  return OD_OK;
}

static od_status run_gradient(void *self_, const od_cpu_call *c) {
  const self *s = self_;
  const od_cpu_simd *simd = c->cpu->simd;
  job j = start(s, c);
  const float *mean = operand(&j, s->mean), *variance = operand(&j, s->variance);
  float *dgamma = c->out[1], *dbeta = c->out[2];
  const double n = (double)s->rows;
  for (int64_t i = 0; i < s->c; i++) {
    affine(&j, i, (double)mean[i], (double)variance[i]);
    j.shift[i] = mean[i];
  }
  sum_rows(&j, simd->bn_grad_sums[s->bf16]);
  for (int64_t i = 0; i < s->c; i++) {
    const double r = 1 / sqrt((double)variance[i] + (double)s->epsilon), sum = j.sums[i], sum_xhat = j.sums[s->c + i] * r;
    dgamma[i] = (float)sum_xhat;
    dbeta[i] = (float)sum;
    const double k1 = s->form == GRAD_TRAIN ? -(double)j.a[i] * r * sum_xhat / n : 0;
    j.k1[i] = (float)k1;
    j.k0[i] = s->form == GRAD_TRAIN ? (float)(-(double)j.a[i] * sum / n - k1 * (double)mean[i]) : 0;
  }
  apply(&j, simd->bn_grad_apply[s->bf16]);
  return OD_OK;
}

static od_status run_fold_gradient(void *self_, const od_cpu_call *c) {
  const self *s = self_;
  const od_cpu_simd *simd = c->cpu->simd;
  job j = start(s, c);
  const float *mean = operand(&j, s->mean), *variance = operand(&j, s->variance), *db = operand(&j, s->db);
  float *dgamma = c->out[1];
  for (int64_t i = 0; i < s->c; i++) {
    affine(&j, i, 0, (double)variance[i]);
    j.shift[i] = j.k1[i] = j.k0[i] = 0;
  }
  sum_rows(&j, simd->bn_grad_sums[0]);
  for (int64_t i = 0; i < s->c; i++) {
    const double r = 1 / sqrt((double)variance[i] + (double)s->epsilon);
    dgamma[i] = (float)((j.sums[s->c + i] - (double)mean[i] * (double)db[i]) * r);
  }
  apply(&j, simd->bn_grad_apply[0]);
  return OD_OK;
}

static od_status run_bias_gradient(void *self_, const od_cpu_call *c) {
  const self *s = self_;
  job j = start(s, c);
  float *out = c->out[0];
  sum_rows(&j, c->cpu->simd->row_sums[s->bf16]);
  for (int64_t i = 0; i < s->c; i++) out[i] = (float)j.sums[i];
  return OD_OK;
}

const od_cpu_kernel od_cpu_batch_norm = {.name = "batch_norm",
                                         .ops = (const char *const[]){"batch_norm", "batch_norm_train", "bias_add", NULL},
                                         .match = match_forward, .create = create, .run = run_forward};
const od_cpu_kernel od_cpu_batch_norm_grad = {.name = "batch_norm_grad",
                                              .ops = (const char *const[]){"batch_norm_grad", "batch_norm_train_grad", NULL},
                                              .match = match_gradient, .create = create, .run = run_gradient};
const od_cpu_kernel od_cpu_activation_batch_norm_grad = {.name = "activation_batch_norm_grad",
                                                         .ops = (const char *const[]){"relu_grad", "relu6_grad", NULL},
                                                         .match = match_activation, .create = create, .run = run_gradient};
const od_cpu_kernel od_cpu_bias_grad = {.name = "bias_grad", .ops = (const char *const[]){"bias_add_grad", NULL},
                                        .match = match_bias_gradient, .create = create, .run = run_bias_gradient};
const od_cpu_kernel od_cpu_fold_batch_norm_grad = {.name = "fold_batch_norm_grad", .ops = (const char *const[]){"fold_batch_norm_grad", NULL},
                                                   .match = match_fold_gradient, .create = create, .run = run_fold_gradient};
