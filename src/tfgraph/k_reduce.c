/* Reductions over axes, arg-max, softmax, running sums. Sums of floats are taken in double in the order of the elements: closer
 * to the exact sum than any order of float additions, and free of threads. */
#include <math.h>
#include <string.h>

#include "tfgraph/kernel.h"

enum { SUM, MEAN, MAX, MIN, PROD, ALL, ANY };

typedef struct {
  double f;
  int64_t i;
} accumulator;

static void start(accumulator *a, int op, od_dtype dtype) {
  a->f = op == PROD ? 1 : op == MAX ? -(double)INFINITY : op == MIN ? (double)INFINITY : 0;
  a->i = op == PROD || op == ALL ? 1 : op == MAX ? INT64_MIN : op == MIN ? INT64_MAX : 0;
  if (dtype == OD_I32 && op == MAX) a->i = INT32_MIN;
  if (dtype == OD_I32 && op == MIN) a->i = INT32_MAX;
}

static void add_float(accumulator *a, int op, double v) {
  if (op == SUM || op == MEAN)
    a->f += v;
  else if (op == PROD)
    a->f *= v;
  else if (op == MAX)
    a->f = v > a->f || v != v ? v : a->f;
  else
    a->f = v < a->f || v != v ? v : a->f;
}

static void add_int(accumulator *a, int op, int64_t v) {
  if (op == SUM || op == MEAN)
    a->i = (int64_t)((uint64_t)a->i + (uint64_t)v);
  else if (op == PROD)
    a->i = (int64_t)((uint64_t)a->i * (uint64_t)v);
  else if (op == MAX)
    a->i = v > a->i ? v : a->i;
  else if (op == MIN)
    a->i = v < a->i ? v : a->i;
  else if (op == ALL)
    a->i = a->i && v;
  else
    a->i = a->i || v;
}

static od_status finish(tg_call *c, int op, int64_t i, const accumulator *a, int64_t count) {
  void *o = c->out[0].t.data;
  switch (c->out[0].t.dtype) {
  case OD_F32: ((float *)o)[i] = (float)(op == MEAN ? a->f / (double)count : a->f); return OD_OK;
  case OD_F64: ((double *)o)[i] = op == MEAN ? a->f / (double)count : a->f; return OD_OK;
  case OD_BOOL: ((uint8_t *)o)[i] = a->i != 0; return OD_OK;
  default: break;
  }
  if (op == MEAN && count == 0) return tg_fail(c, "the mean of no integers");
  int64_t v = op == MEAN ? a->i / count : a->i;
  if (c->out[0].t.dtype == OD_I32)
    ((int32_t *)o)[i] = (int32_t)v;
  else
    ((int64_t *)o)[i] = v;
  return OD_OK;
}

static od_status reduce_run(tg_call *c) {
  const od_tensor *x = tg_in(c, 0);
  int op = c->kernel->arg, n, rank = x->shape.rank;
  int64_t axes[OD_MAX_RANK], kept[OD_MAX_RANK], over[OD_MAX_RANK], own[OD_MAX_RANK];
  bool gone[OD_MAX_RANK] = {false}, keep = tg_attr_bool(c->node, "keep_dims", false);
  od_dtype t = x->dtype;
  if (t != OD_F32 && t != OD_F64 && t != OD_I32 && t != OD_I64 && t != OD_BOOL) return tg_unsupported(c, t);
  if ((t == OD_BOOL) != (op == ALL || op == ANY)) return tg_unsupported(c, t);
  OD_TRY(tg_ints(c, 1, axes, OD_MAX_RANK, &n));
  for (int i = 0; i < n; i++) {
    OD_TRY(tg_axis(c, &axes[i], rank));
    if (gone[axes[i]]) return tg_fail(c, "axis %lld twice", (long long)axes[i]);
    gone[axes[i]] = true;
  }
  od_shape s = {0};
  int n_kept = 0, n_over = 0;
  int64_t count = 1, results = 1;
  for (int i = 0; i < rank; i++) {
    if (!gone[i])
      s.dim[s.rank++] = x->shape.dim[i];
    else if (keep)
      s.dim[s.rank++] = 1;
    if (gone[i])
      over[n_over++] = i, count *= x->shape.dim[i];
    else
      kept[n_kept++] = i, results *= x->shape.dim[i];
  }
  OD_TRY(tg_new_out(c, 0, t, &s));
  tg_strides(&x->shape, own);
  for (int64_t r = 0; r < results; r++) {
    int64_t base = 0, rest = r;
    for (int k = n_kept - 1; k >= 0; k--) {
      base += rest % x->shape.dim[kept[k]] * own[kept[k]];
      rest /= x->shape.dim[kept[k]];
    }
    accumulator a;
    start(&a, op, t);
    for (int64_t e = 0; e < count; e++) {
      int64_t at = base;
      rest = e;
      for (int k = n_over - 1; k >= 0; k--) {
        at += rest % x->shape.dim[over[k]] * own[over[k]];
        rest /= x->shape.dim[over[k]];
      }
      if (t == OD_F32)
        add_float(&a, op, (double)((const float *)x->data)[at]);
      else if (t == OD_F64)
        add_float(&a, op, ((const double *)x->data)[at]);
      else if (t == OD_I32)
        add_int(&a, op, ((const int32_t *)x->data)[at]);
      else if (t == OD_I64)
        add_int(&a, op, ((const int64_t *)x->data)[at]);
      else
        add_int(&a, op, ((const uint8_t *)x->data)[at] != 0);
    }
    OD_TRY(finish(c, op, r, &a, count));
  }
  return OD_OK;
}

static double number(const od_tensor *t, int64_t i) {
  if (t->dtype == OD_F32) return (double)((const float *)t->data)[i];
  if (t->dtype == OD_F64) return ((const double *)t->data)[i];
  return t->dtype == OD_I32 ? ((const int32_t *)t->data)[i] : (double)((const int64_t *)t->data)[i];
}

/* The first of equals wins. */
static od_status arg_run(tg_call *c) {
  const od_tensor *x = tg_in(c, 0);
  int64_t axis, outer, n, inner;
  bool least = c->kernel->arg == MIN;
  if (x->dtype != OD_F32 && x->dtype != OD_F64 && x->dtype != OD_I32 && x->dtype != OD_I64)
    return tg_unsupported(c, x->dtype);
  OD_TRY(tg_int(c, 1, &axis));
  OD_TRY(tg_axis(c, &axis, x->shape.rank));
  tg_split_at(&x->shape, (int)axis, &outer, &n, &inner);
  if (n == 0) return tg_fail(c, "of an empty dimension");
  od_shape s = {0};
  for (int i = 0; i < x->shape.rank; i++)
    if (i != axis) s.dim[s.rank++] = x->shape.dim[i];
  OD_TRY(tg_new_out(c, 0, tg_out_type(c, 0), &s));
  for (int64_t i = 0; i < outer * inner; i++) {
    int64_t base = i / inner * n * inner + i % inner, best = 0;
    for (int64_t k = 1; k < n; k++) {
      double v = number(x, base + k * inner), b = number(x, base + best * inner);
      if (least ? v < b : v > b) best = k;
    }
    if (c->out[0].t.dtype == OD_I64)
      ((int64_t *)c->out[0].t.data)[i] = best;
    else
      ((int32_t *)c->out[0].t.data)[i] = (int32_t)best;
  }
  return OD_OK;
}

static od_status softmax_run(tg_call *c) {
  const od_tensor *x = tg_in(c, 0);
  if (x->dtype != OD_F32) return tg_unsupported(c, x->dtype);
  if (x->shape.rank < 1) return tg_fail(c, "of a scalar");
  int64_t n = x->shape.dim[x->shape.rank - 1], rows = n ? od_tensor_size(x) / n : 0;
  OD_TRY(tg_new_out(c, 0, OD_F32, &x->shape));
#pragma omp parallel for if (rows > 1000)
  for (int64_t r = 0; r < rows; r++) {
    const float *in = (const float *)x->data + r * n;
    float *o = (float *)c->out[0].t.data + r * n, top = in[0];
    double sum = 0;
    for (int64_t i = 1; i < n; i++) top = in[i] > top ? in[i] : top;
    for (int64_t i = 0; i < n; i++) sum += (double)(o[i] = expf(in[i] - top));
    float factor = (float)(1 / sum);
    for (int64_t i = 0; i < n; i++) o[i] = c->kernel->arg ? in[i] - top - (float)log(sum) : o[i] * factor;
  }
  return OD_OK;
}

static od_status cumsum_run(tg_call *c) {
  const od_tensor *x = tg_in(c, 0);
  int64_t axis, outer, n, inner;
  bool exclusive = tg_attr_bool(c->node, "exclusive", false), reverse = tg_attr_bool(c->node, "reverse", false);
  OD_TRY(tg_int(c, 1, &axis));
  OD_TRY(tg_axis(c, &axis, x->shape.rank));
  tg_split_at(&x->shape, (int)axis, &outer, &n, &inner);
  if (x->dtype != OD_F32 && x->dtype != OD_I32 && x->dtype != OD_I64) return tg_unsupported(c, x->dtype);
  OD_TRY(tg_new_out(c, 0, x->dtype, &x->shape));
  for (int64_t i = 0; i < outer * inner; i++) {
    float f = 0;
    int64_t sum = 0;
    for (int64_t k = 0; k < n; k++) {
      int64_t at = i / inner * n * inner + (reverse ? n - 1 - k : k) * inner + i % inner;
      void *o = c->out[0].t.data;
      if (x->dtype == OD_F32) {
        float before = f;
        f += ((const float *)x->data)[at];
        ((float *)o)[at] = exclusive ? before : f;
        continue;
      }
      int64_t before = sum, v = x->dtype == OD_I32 ? ((const int32_t *)x->data)[at] : ((const int64_t *)x->data)[at];
      sum = (int64_t)((uint64_t)sum + (uint64_t)v);
      if (x->dtype == OD_I32)
        ((int32_t *)o)[at] = (int32_t)(exclusive ? before : sum);
      else
        ((int64_t *)o)[at] = exclusive ? before : sum;
    }
  }
  return OD_OK;
}

#define REDUCE(name, op)                                                                                               \
  { name, "T,Tidx->T", "T Tidx=int32 keep_dims?", reduce_run, op }

const tg_kernel tg_kernels_reduce[] = {
    {"All", "bool,Tidx->bool", "Tidx=int32 keep_dims?", reduce_run, ALL},
    {"Any", "bool,Tidx->bool", "Tidx=int32 keep_dims?", reduce_run, ANY},
    {"ArgMax", "T,Tidx->output_type", "T Tidx=int32 output_type=int64", arg_run, MAX},
    {"ArgMin", "T,Tidx->output_type", "T Tidx=int32 output_type=int64", arg_run, MIN},
    {"Cumsum", "T,Tidx->T", "T Tidx=int32 exclusive? reverse?", cumsum_run, 0},
    {"LogSoftmax", "T->T", "T", softmax_run, 1},
    REDUCE("Max", MAX),
    REDUCE("Mean", MEAN),
    REDUCE("Min", MIN),
    REDUCE("Prod", PROD),
    REDUCE("Sum", SUM),
    {"Softmax", "T->T", "T", softmax_run, 0},
    {0},
};
