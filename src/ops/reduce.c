/* reduce_sum, reduce_mean, reduce_max, reduce_min over axes, and argmax over one. Sums run in double in row-major order of x.
 * The gradient of a maximum is shared evenly among ties, as TensorFlow's. */
#include <math.h>
#include <string.h>

#include "ops/common.h"
#include "ops/math.h"
#include "ops/table.h"

static const od_param params[] = {
    OD_PARAM(od_reduce_params, axes, OD_P_INTS, "axes summed over; none: all"),
    OD_PARAM(od_reduce_params, keep_dims, OD_P_BOOL, "keep them with size 1"), {0}};

static od_value build(od_graph *g, const od_op *op, od_value x, od_ints axes, bool keep) {
  return od_graph_add(g, op, &x, 1, &(od_reduce_params){axes, keep});
}
od_value od_reduce_sum(od_graph *g, od_value x, od_ints axes, bool keep) { return build(g, &od_op_reduce_sum, x, axes, keep); }
od_value od_reduce_mean(od_graph *g, od_value x, od_ints axes, bool keep) { return build(g, &od_op_reduce_mean, x, axes, keep); }
od_value od_reduce_max(od_graph *g, od_value x, od_ints axes, bool keep) { return build(g, &od_op_reduce_max, x, axes, keep); }
od_value od_reduce_min(od_graph *g, od_value x, od_ints axes, bool keep) { return build(g, &od_op_reduce_min, x, axes, keep); }

/* The reduced shape of x, with or without the ones. */
static od_status reduced(const od_infer *c, od_shape *out, const od_shape *x) {
  const od_reduce_params *p = c->params;
  bool mark[OD_MAX_RANK];
  OD_TRY(od_axes_mask(c, mark, p->axes, x->rank));
  od_shape s = {0, {0}};
  for (int i = 0; i < x->rank; i++) {
    if (!mark[i]) s.dim[s.rank++] = x->dim[i];
    else if (p->keep_dims) s.dim[s.rank++] = 1;
  }
  *out = s;
  return OD_OK;
}

static od_status infer(const od_infer *c) {
  od_dtype t = c->in[0].dtype;
  if (t != OD_F32 && t != OD_I32) return od_fail(OD_EINVAL, "input 0 is %s, it must be float32 or int32", od_dtype_name(t));
  c->out[0].dtype = t;
  return reduced(c, &c->out[0].shape, &c->in[0].shape);
}
static od_status infer_mean(const od_infer *c) {
  OD_TRY(od_want(c, 0, OD_F32, -1));
  return infer(c);
}

/* Strides that take a position in x to its place in the reduced tensor. */
static void place(int64_t *stride, const od_reduce_params *p, const od_shape *x) {
  bool mark[OD_MAX_RANK];
  for (int i = 0; i < x->rank; i++) mark[i] = p->axes.n == 0;
  for (int i = 0; i < p->axes.n; i++) mark[od_axis_at(p->axes.v[i], x->rank)] = true;
  int64_t step = 1;
  for (int i = x->rank - 1; i >= 0; i--) {
    stride[i] = mark[i] ? 0 : step;
    if (!mark[i]) step *= x->dim[i];
  }
}

/* Walks x; off[0] is the place in the reduced tensor. */
static void walk(od_walk *w, const od_reduce_params *p, const od_shape *x) {
  int64_t stride[OD_MAX_RANK];
  od_walk_start(w, x);
  place(stride, p, x);
  od_walk_strides(w, 0, stride);
}

static size_t scratch(const od_infer *c) { return sizeof(double) * (size_t)od_shape_size(&c->out[0].shape); }

/* int32 values are exact in double, and a sum is what it should be as long as the result fits. */
static double read(const od_tensor *t, int64_t i) {
  return t->dtype == OD_I32 ? (double)((const int32_t *)t->data)[i] : (double)((const float *)t->data)[i];
}
static void store(const od_tensor *t, const double *acc) {
  for (int64_t i = 0, n = od_tensor_size(t); i < n; i++) {
    if (t->dtype == OD_I32) ((int32_t *)t->data)[i] = (int32_t)acc[i];
    else ((float *)t->data)[i] = (float)acc[i];
  }
}

typedef enum { SUM, MEAN, MAX, MIN } kind;

static od_status reduce(const od_call *c, kind k) {
  double *acc = c->scratch;
  int64_t n = od_tensor_size(&c->in[0]), m = od_tensor_size(&c->out[0]), i = 0;
  /* of nothing: what TensorFlow gives (lowest number, largest number) */
  double first = k == MAX ? -INFINITY : k == MIN ? INFINITY : 0;
  if (c->out[0].dtype == OD_I32 && k >= MAX) first = k == MAX ? INT32_MIN : INT32_MAX;
  for (int64_t o = 0; o < m; o++) acc[o] = first;
  od_walk w;
  walk(&w, c->params, &c->in[0].shape);
  OD_WALK(w) {
    double x = read(&c->in[0], i++), *a = &acc[w.off[0]];
    if (k <= MEAN) *a += x;
    else if (k == MAX ? x > *a || x != x : x < *a || x != x) *a = x;
  }
  if (k == MEAN) {
    double count = m > 0 && n > 0 ? (double)(n / m) : 0;
    for (int64_t o = 0; o < m; o++) acc[o] /= count; /* 0/0 where there was nothing */
  }
  store(&c->out[0], acc);
  return OD_OK;
}
static od_status sum_ref(const od_call *c) { return reduce(c, SUM); }
static od_status mean_ref(const od_call *c) { return reduce(c, MEAN); }
static od_status max_ref(const od_call *c) { return reduce(c, MAX); }
static od_status min_ref(const od_call *c) { return reduce(c, MIN); }

static od_status back(od_grad *c, const od_op *op, bool with_y) {
  c->din[0] = od_graph_add(c->graph, op, (od_value[]){c->dout[0], c->node->in[0], with_y ? od_self(c, 0) : OD_NONE},
                           with_y ? 3 : 2, c->node->params);
  return OD_OK;
}
static od_status sum_back(od_grad *c) { return back(c, &od_op_reduce_sum_grad, false); }
static od_status mean_back(od_grad *c) { return back(c, &od_op_reduce_mean_grad, false); }
static od_status max_back(od_grad *c) { return back(c, &od_op_reduce_max_grad, true); }
static od_status min_back(od_grad *c) { return back(c, &od_op_reduce_min_grad, true); }

static od_status write(od_tf *t, const od_node *n, const char *op) {
  const od_reduce_params *p = n->params;
  od_type x = od_type_of(n->in[0]);
  int64_t all[OD_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
  od_ints axes = p->axes.n ? p->axes : (od_ints){x.shape.rank, all};
  od_tf_out(t, 0, od_tf_op(t, op, NULL, x.dtype, OD_TF_INPUTS(od_tf_in(t, 0), od_tf_ints(t, "reduction_indices", axes))));
  od_tf_attr_type(t, "Tidx", OD_I32);
  od_tf_attr_bool(t, "keep_dims", p->keep_dims);
  return OD_OK;
}
static od_status sum_tf(od_tf *t, const od_node *n) { return write(t, n, "Sum"); }
static od_status mean_tf(od_tf *t, const od_node *n) { return write(t, n, "Mean"); }
static od_status max_tf(od_tf *t, const od_node *n) { return write(t, n, "Max"); }
static od_status min_tf(od_tf *t, const od_node *n) { return write(t, n, "Min"); }

static const od_reduce_params all = {{0, NULL}, false}, all_kept = {{0, NULL}, true}, pixels = {OD_INTS(1, 2), true},
                              last = {OD_INTS(-1), false}, mixed = {OD_INTS(0, -2), false};
#define COMMON_SAMPLES                                                                                                \
  {.name = "all", .params = &all, .n_in = 1, .in = {OD_F32_IN(-1, 2, 3, 5, 7)}},                                      \
  {.name = "all, kept", .params = &all_kept, .n_in = 1, .in = {OD_F32_IN(-1, 2, 3, 5, 7)}},                           \
  {.name = "pixels", .params = &pixels, .n_in = 1, .in = {OD_F32_IN(-1, 2, 2, 5, 7, 19)}},                            \
  {.name = "last", .params = &last, .n_in = 1, .in = {OD_F32_IN(-1, 2, 6, 33)}},                                      \
  {.name = "first and last but one", .params = &mixed, .n_in = 1, .in = {OD_F32_IN(-1, 2, 3, 4, 5, 6)}}
static const od_sample mean_samples[] = {
    COMMON_SAMPLES, {.name = "empty result", .params = &last, .n_in = 1, .in = {OD_F32_IN(-1, 2, 0, 3)}, .few = true}};
static const od_sample sum_samples[] = {
    COMMON_SAMPLES,
    {.name = "integers", .params = &last, .n_in = 1, .in = {OD_I32_IN(-9, 19, 6, 33)}},
    {.name = "of nothing", .params = &last, .n_in = 1, .in = {OD_F32_IN(-1, 2, 3, 0)}, .few = true}};
static const od_sample max_samples[] = {
    COMMON_SAMPLES,
    {.name = "integers", .params = &last, .n_in = 1, .in = {OD_I32_IN(-9, 19, 6, 33)}},
    {.name = "ties", .params = &last, .n_in = 1, .in = {OD_F32_IN(1, 1, 3, 4)}, .no_grad = true}};

#define REDUCE(help_, part, list_, tol, infer_)                                                                \
  const od_op od_op_reduce_##part = {                                                                                 \
      .name = "reduce_" #part, .help = help_, .params = params, .params_size = sizeof(od_reduce_params), .min_in = 1, \
      .max_in = 1, .n_out = 1, .infer = infer_, .ref = part##_ref, .scratch = scratch, .grad = part##_back,           \
      .write_tf = part##_tf, OD_SAMPLES(list_), .tolerance = tol,                                                     \
  }
REDUCE("sum over axes", sum, sum_samples, 1e-5, infer);
REDUCE("mean over axes", mean, mean_samples, 1e-5, infer_mean);
REDUCE("largest over axes", max, max_samples, 0, infer);
REDUCE("smallest over axes", min, max_samples, 0, infer);

/* ----------------------------------------------------------------------------------------------------------- gradients */
static od_status infer_grad(const od_infer *c) {
  for (int i = 0; i < c->n_in; i++) OD_TRY(od_want(c, i, OD_F32, -1));
  od_shape y;
  OD_TRY(reduced(c, &y, &c->in[1].shape));
  OD_TRY(od_merge_shape(c, &y, &y, &c->in[0].shape));
  c->out[0] = c->in[1];
  return OD_OK;
}

/* dx = dy / divisor, spread. */
static od_status spread(const od_call *c, double divisor) {
  const float *dy = c->in[0].data;
  float *dx = c->out[0].data;
  od_walk w;
  walk(&w, c->params, &c->in[1].shape);
  OD_WALK(w) *dx++ = (float)(dy[w.off[0]] / divisor);
  return OD_OK;
}
static od_status sum_grad_ref(const od_call *c) { return spread(c, 1); }
static od_status mean_grad_ref(const od_call *c) {
  int64_t m = od_tensor_size(&c->in[0]);
  return spread(c, m > 0 ? (double)(od_tensor_size(&c->in[1]) / m) : 1);
}

static size_t ties_scratch(const od_infer *c) { return sizeof(double) * (size_t)od_shape_size(&c->in[0].shape); }

static od_status ties_ref(const od_call *c) {
  const float *dy = c->in[0].data, *x = c->in[1].data, *y = c->in[2].data;
  float *dx = c->out[0].data;
  double *ties = c->scratch;
  memset(ties, 0, sizeof *ties * (size_t)od_tensor_size(&c->in[0]));
  od_walk w;
  int64_t i = 0;
  walk(&w, c->params, &c->in[1].shape);
  OD_WALK(w) ties[w.off[0]] += x[i++] == y[w.off[0]];
  i = 0;
  walk(&w, c->params, &c->in[1].shape);
  OD_WALK(w) {
    dx[i] = x[i] == y[w.off[0]] ? (float)(dy[w.off[0]] / ties[w.off[0]]) : 0;
    i++;
  }
  return OD_OK;
}

static const od_sample spread_samples[] = {
    {.name = "all", .params = &all, .n_in = 2, .in = {OD_F32_SCALAR_IN(1, 2), OD_F32_IN(0, 1, 3, 5)}},
    {.name = "pixels", .params = &pixels, .n_in = 2, .in = {OD_F32_IN(-1, 2, 2, 1, 1, 19), OD_F32_IN(0, 1, 2, 5, 7, 19)}},
    {.name = "first and last but one", .params = &mixed, .n_in = 2, .in = {OD_F32_IN(-1, 2, 4, 6), OD_F32_IN(-1, 2, 3, 4, 5, 6)}},
    {.name = "empty", .params = &last, .n_in = 2, .in = {OD_F32_IN(-1, 2, 0), OD_F32_IN(-1, 2, 0, 3)}, .few = true},
};
/* all values equal: every one is the maximum */
static const od_sample ties_samples[] = {
    {.name = "ties", .params = &last, .n_in = 3, .in = {OD_F32_IN(-1, 2, 3), OD_F32_IN(1, 1, 3, 4), OD_F32_IN(1, 1, 3)}},
    {.name = "all", .params = &all, .n_in = 3, .in = {OD_F32_SCALAR_IN(1, 2), OD_F32_IN(2, 2, 3, 5), OD_F32_SCALAR_IN(2, 2)}},
};
#define GRAD(part, n, ref_, list_, scratch_, help_)                                                                   \
  const od_op od_op_reduce_##part##_grad = {                                                                          \
      .name = "reduce_" #part "_grad", .help = help_, .params = params, .params_size = sizeof(od_reduce_params),      \
      .min_in = n, .max_in = n, .n_out = 1, .infer = infer_grad, .ref = ref_, .scratch = scratch_,                    \
      .no_grad = OD_NO_SECOND, .no_tf = OD_NO_TF_TRAINING, OD_SAMPLES(list_), .tolerance = 1e-6,                      \
  }
GRAD(sum, 2, sum_grad_ref, spread_samples, NULL, "(dy, x's shape) -> dx");
GRAD(mean, 2, mean_grad_ref, spread_samples, NULL, "(dy, x's shape) -> dx");
GRAD(max, 3, ties_ref, ties_samples, ties_scratch, "(dy, x, y) -> dx, shared among ties");
GRAD(min, 3, ties_ref, ties_samples, ties_scratch, "(dy, x, y) -> dx, shared among ties");

/* -------------------------------------------------------------------------------------------------------------- argmax */
static const od_param axis_params[] = {OD_PARAM(od_axis_params, axis, OD_P_INT, "axis"), {0}};

od_value od_argmax(od_graph *g, od_value x, int64_t axis) {
  return od_graph_add(g, &od_op_argmax, &x, 1, &(od_axis_params){axis});
}

static od_status infer_argmax(const od_infer *c) {
  int axis;
  OD_TRY(od_want(c, 0, OD_F32, -1));
  const od_shape *x = &c->in[0].shape;
  OD_TRY(od_axis(c, &axis, ((const od_axis_params *)c->params)->axis, x->rank));
  if (x->dim[axis] == 0) return od_fail(OD_EINVAL, "the maximum of nothing: axis %d has size 0", axis);
  c->out[0] = (od_type){OD_I32, {0, {0}}};
  for (int i = 0; i < x->rank; i++)
    if (i != axis) c->out[0].shape.dim[c->out[0].shape.rank++] = x->dim[i];
  return OD_OK;
}

static od_status argmax_ref(const od_call *c) {
  const od_shape *s = &c->in[0].shape;
  int axis = od_axis_at(((const od_axis_params *)c->params)->axis, s->rank);
  int64_t outer = od_dims(s, 0, axis), n = s->dim[axis], inner = od_dims(s, axis + 1, s->rank);
  const float *x = c->in[0].data;
  int32_t *to = c->out[0].data;
  for (int64_t o = 0; o < outer; o++)
    for (int64_t i = 0; i < inner; i++) {
      int64_t best = 0;
      for (int64_t k = 1; k < n; k++)
        if (x[(o * n + k) * inner + i] > x[(o * n + best) * inner + i]) best = k;
      *to++ = (int32_t)best;
    }
  return OD_OK;
}

static od_status argmax_tf(od_tf *t, const od_node *n) {
  const char *axis = od_tf_const_i32(t, "dimension", (int32_t)((const od_axis_params *)n->params)->axis);
  od_tf_out(t, 0, od_tf_op(t, "ArgMax", NULL, OD_F32, OD_TF_INPUTS(od_tf_in(t, 0), axis)));
  od_tf_attr_type(t, "Tidx", OD_I32);
  od_tf_attr_type(t, "output_type", OD_I32);
  return OD_OK;
}

static const od_axis_params axis_last = {-1}, axis1 = {1};
static const od_sample argmax_samples[] = {
    {.name = "last", .params = &axis_last, .n_in = 1, .in = {OD_F32_IN(-1, 1, 5, 7, 19)}},
    {.name = "middle", .params = &axis1, .n_in = 1, .in = {OD_F32_IN(-1, 1, 5, 7, 3)}},
    {.name = "ties: the first", .params = &axis_last, .n_in = 1, .in = {OD_F32_IN(1, 1, 5, 7)}, .few = true},
    {.name = "empty", .params = &axis_last, .n_in = 1, .in = {OD_F32_IN(1, 1, 0, 7)}, .few = true},
};

const od_op od_op_argmax = {
    .name = "argmax", .help = "index of the first maximum along an axis", .params = axis_params,
    .params_size = sizeof(od_axis_params), .min_in = 1, .max_in = 1, .n_out = 1, .infer = infer_argmax, .ref = argmax_ref,
    .grad = od_grad_nothing, .write_tf = argmax_tf, OD_SAMPLES(argmax_samples), .tolerance = 0,
};
