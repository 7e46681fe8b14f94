/* add_n, sum_like, broadcast_like, l2_loss, l1_loss, ones_like, zeros_like: sums over inputs, sums that undo broadcasting, and
 * the constants that autodiff starts from. */
#include <math.h>
#include <string.h>

#include "ops/common.h"
#include "ops/math.h"
#include "ops/table.h"

/* --------------------------------------------------------------------------------------------------------------- add_n */
od_value od_add_n(od_graph *g, const od_value *x, int n) { return od_graph_add(g, &od_op_add_n, x, n, NULL); }

static od_status add_n_ref(const od_call *c) {
  float *to = c->out[0].data;
  for (int64_t i = 0, n = od_tensor_size(&c->out[0]); i < n; i++) {
    double sum = 0;
    for (int k = 0; k < c->n_in; k++) sum += ((const float *)c->in[k].data)[i];
    to[i] = (float)sum;
  }
  return OD_OK;
}

static od_status add_n_back(od_grad *c) {
  for (int i = 0; i < c->node->n_in; i++) c->din[i] = c->dout[0];
  return OD_OK;
}

/* A chain of Add, which every reader of graphs knows. */
static od_status add_n_tf(od_tf *t, const od_node *n) {
  const char *sum = od_tf_in(t, 0);
  if (n->n_in == 1) sum = od_tf_op(t, "Identity", NULL, OD_F32, OD_TF_INPUTS(sum));
  for (int i = 1; i < n->n_in; i++)
    sum = od_tf_op(t, "Add", i < n->n_in - 1 ? "add" : NULL, OD_F32, OD_TF_INPUTS(sum, od_tf_in(t, i)));
  od_tf_out(t, 0, sum);
  return OD_OK;
}

static const od_sample add_n_samples[] = {
    {.name = "three", .n_in = 3, .in = {OD_F32_IN(-1, 1, 5, 19), OD_F32_IN(-1, 1, 5, 19), OD_F32_IN(-1, 1, 5, 19)}},
    {.name = "one scalar", .n_in = 1, .in = {OD_F32_SCALAR_IN(1, 2)}},
    {.name = "empty", .n_in = 2, .in = {OD_F32_IN(-1, 1, 0), OD_F32_IN(-1, 1, 0)}, .few = true},
};

const od_op od_op_add_n = {
    .name = "add_n", .help = "sum of the inputs", .min_in = 1, .max_in = -1, .n_out = 1, .alias = {1},
    .infer = od_infer_float_alike, .ref = add_n_ref, .grad = add_n_back, .write_tf = add_n_tf, OD_SAMPLES(add_n_samples),
    .tolerance = 1e-6,
};

/* ------------------------------------------------------------------------------------------------------------ sum_like */
od_value od_sum_like(od_graph *g, od_value a, od_value like) {
  return od_graph_add(g, &od_op_sum_like, (od_value[]){a, like}, 2, NULL);
}

/* Does `small` broadcast to `big`, as far as both are known? */
static od_status check_spread(const od_shape *big, const od_shape *small) {
  char a[OD_SHAPE_TEXT], b[OD_SHAPE_TEXT];
  bool fits = small->rank <= big->rank;
  for (int i = 0; fits && i < small->rank; i++) {
    int64_t s = small->dim[i], l = big->dim[big->rank - small->rank + i];
    fits = s < 0 || l < 0 || s == 1 || s == l;
  }
  return fits ? OD_OK : od_fail(OD_EINVAL, "shape %s does not spread to %s", od_shape_text(a, small), od_shape_text(b, big));
}

static od_status infer_sum_like(const od_infer *c) {
  OD_TRY(od_want(c, 0, OD_F32, -1));
  OD_TRY(check_spread(&c->in[0].shape, &c->in[1].shape));
  c->out[0] = (od_type){OD_F32, c->in[1].shape};
  return OD_OK;
}

static size_t sum_like_scratch(const od_infer *c) { return sizeof(double) * (size_t)od_shape_size(&c->out[0].shape); }

static od_status sum_like_ref(const od_call *c) {
  const float *from = c->in[0].data;
  double *acc = c->scratch;
  int64_t n = od_tensor_size(&c->out[0]);
  memset(acc, 0, sizeof *acc * (size_t)n);
  od_walk w;
  od_walk_start(&w, &c->in[0].shape);
  od_walk_with(&w, 0, &c->out[0].shape);
  OD_WALK(w) acc[w.off[0]] += *from++;
  for (int64_t i = 0; i < n; i++) ((float *)c->out[0].data)[i] = (float)acc[i];
  return OD_OK;
}

static od_status sum_like_back(od_grad *c) {
  c->din[0] = od_broadcast_like(c->graph, c->dout[0], c->node->in[0]);
  return OD_OK;
}

static const od_sample sum_like_samples[] = {
    {.name = "to channels", .n_in = 2, .in = {OD_F32_IN(-1, 1, 2, 5, 7, 19), OD_F32_IN(-1, 1, 19)}},
    {.name = "inner dimension", .n_in = 2, .in = {OD_F32_IN(-1, 1, 3, 5, 7), OD_F32_IN(-1, 1, 3, 1, 7)}},
    {.name = "same shape", .n_in = 2, .in = {OD_F32_IN(-1, 1, 3, 5), OD_F32_IN(-1, 1, 3, 5)}},
    {.name = "to a scalar", .n_in = 2, .in = {OD_F32_IN(-1, 2, 33), OD_F32_SCALAR_IN(0, 1)}},
    {.name = "nothing to sum", .n_in = 2, .in = {OD_F32_IN(-1, 2, 0, 3), OD_F32_IN(0, 1, 3)}, .few = true},
};

const od_op od_op_sum_like = {
    .name = "sum_like", .help = "(a, like): a summed to the shape of like", .min_in = 2, .max_in = 2, .n_out = 1,
    .infer = infer_sum_like, .ref = sum_like_ref, .scratch = sum_like_scratch, .grad = sum_like_back,
    .no_tf = OD_NO_TF_TRAINING, OD_SAMPLES(sum_like_samples), .tolerance = 1e-5,
};

/* ------------------------------------------------------------------------------------------------------ broadcast_like */
od_value od_broadcast_like(od_graph *g, od_value a, od_value like) {
  return od_graph_add(g, &od_op_broadcast_like, (od_value[]){a, like}, 2, NULL);
}

static od_status infer_broadcast_like(const od_infer *c) {
  OD_TRY(check_spread(&c->in[1].shape, &c->in[0].shape));
  c->out[0] = (od_type){c->in[0].dtype, c->in[1].shape};
  return OD_OK;
}

static od_status broadcast_like_ref(const od_call *c) {
  const char *from = c->in[0].data;
  char *to = c->out[0].data;
  size_t size = od_dtype_size(c->out[0].dtype);
  od_walk w;
  od_walk_start(&w, &c->out[0].shape);
  od_walk_with(&w, 0, &c->in[0].shape);
  OD_WALK(w) {
    memcpy(to, from + (size_t)w.off[0] * size, size);
    to += size;
  }
  return OD_OK;
}

static od_status broadcast_like_back(od_grad *c) {
  c->din[0] = od_unbroadcast(c->graph, c->dout[0], c->node->in[0]);
  return OD_OK;
}

/* a times ones: BroadcastTo is younger than many programs that read these graphs. */
static od_status broadcast_like_tf(od_tf *t, const od_node *n) {
  od_dtype a = od_type_of(n->in[0]).dtype, like = od_type_of(n->in[1]).dtype;
  if (a != OD_F32 && a != OD_I32 && a != OD_I64)
    return od_fail(OD_EUNSUPPORTED, "%s: broadcast_like of %s is not written to TensorFlow graphs", n->name, od_dtype_name(a));
  const char *ones = od_tf_op(t, "OnesLike", "ones", like, OD_TF_INPUTS(od_tf_in(t, 1)));
  if (like != a) ones = od_tf_cast(t, "cast", ones, like, a);
  od_tf_out(t, 0, od_tf_op(t, "Mul", NULL, a, OD_TF_INPUTS(od_tf_in(t, 0), ones)));
  return OD_OK;
}

static const od_sample broadcast_samples[] = {
    {.name = "from channels", .n_in = 2, .in = {OD_F32_IN(-1, 1, 19), OD_F32_IN(-1, 1, 2, 5, 7, 19)}},
    {.name = "inner dimension", .n_in = 2, .in = {OD_F32_IN(-1, 1, 3, 1, 7), OD_F32_IN(-1, 1, 3, 5, 7)}},
    {.name = "integers from a scalar", .n_in = 2, .in = {{OD_I32, {0, {0}}, 1, 9, false}, OD_F32_IN(-1, 1, 4, 4)}},
    {.name = "empty", .n_in = 2, .in = {OD_F32_IN(-1, 1, 3), OD_F32_IN(-1, 1, 0, 3)}, .few = true},
};

const od_op od_op_broadcast_like = {
    .name = "broadcast_like", .help = "(a, like): a spread to the shape of like", .min_in = 2, .max_in = 2, .n_out = 1,
    .infer = infer_broadcast_like, .ref = broadcast_like_ref, .grad = broadcast_like_back, .write_tf = broadcast_like_tf,
    OD_SAMPLES(broadcast_samples), .tolerance = 0,
};

/* ---------------------------------------------------------------------------------------------------- l2_loss, l1_loss */
od_value od_l2_loss(od_graph *g, od_value x) { return od_graph_add(g, &od_op_l2_loss, &x, 1, NULL); }
od_value od_l1_loss(od_graph *g, od_value x) { return od_graph_add(g, &od_op_l1_loss, &x, 1, NULL); }

static od_status infer_scalar(const od_infer *c) {
  OD_TRY(od_want(c, 0, OD_F32, -1));
  c->out[0] = (od_type){OD_F32, OD_SCALAR};
  return OD_OK;
}

static od_status l2_ref(const od_call *c) {
  const float *x = c->in[0].data;
  double sum = 0;
  for (int64_t i = 0, n = od_tensor_size(&c->in[0]); i < n; i++) sum += (double)x[i] * x[i];
  *(float *)c->out[0].data = (float)(sum / 2);
  return OD_OK;
}

static od_status l1_ref(const od_call *c) {
  const float *x = c->in[0].data;
  double sum = 0;
  for (int64_t i = 0, n = od_tensor_size(&c->in[0]); i < n; i++) sum += fabs(x[i]);
  *(float *)c->out[0].data = (float)sum;
  return OD_OK;
}

static od_status l2_back(od_grad *c) {
  c->din[0] = od_mul(c->graph, c->node->in[0], c->dout[0]);
  return OD_OK;
}

static od_status l1_back(od_grad *c) {
  c->din[0] = od_mul(c->graph, od_sign(c->graph, c->node->in[0]), c->dout[0]);
  return OD_OK;
}

static const od_sample loss_samples[] = {
    {.name = "filter", .n_in = 1, .in = {OD_F32_IN(-1, 1, 3, 3, 19, 24)}},
    {.name = "scalar", .n_in = 1, .in = {OD_F32_SCALAR_IN(1, 2)}},
    {.name = "empty", .n_in = 1, .in = {OD_F32_IN(-1, 1, 0)}, .few = true},
};
#define LOSS(name_, help_, part)                                                                                      \
  const od_op od_op_##name_ = {                                                                                       \
      .name = #name_, .help = help_, .min_in = 1, .max_in = 1, .n_out = 1, .infer = infer_scalar, .ref = part##_ref,  \
      .grad = part##_back, .no_tf = OD_NO_TF_TRAINING, OD_SAMPLES(loss_samples), .tolerance = 1e-6,                       \
  }
LOSS(l2_loss, "sum of squares / 2", l2);
LOSS(l1_loss, "sum of absolute values", l1);

/* ------------------------------------------------------------------------------------------------------ ones and zeros */
od_value od_ones_like(od_graph *g, od_value x) { return od_graph_add(g, &od_op_ones_like, &x, 1, NULL); }
od_value od_zeros_like(od_graph *g, od_value x) { return od_graph_add(g, &od_op_zeros_like, &x, 1, NULL); }

static od_status zeros_ref(const od_call *c) {
  size_t n = od_tensor_bytes(&c->out[0]);
  if (n) memset(c->out[0].data, 0, n);
  return OD_OK;
}

static od_status ones_ref(const od_call *c) {
  int64_t n = od_tensor_size(&c->out[0]);
  void *to = c->out[0].data;
  switch (c->out[0].dtype) {
    case OD_F32: for (int64_t i = 0; i < n; i++) ((float *)to)[i] = 1; break;
    case OD_I32: for (int64_t i = 0; i < n; i++) ((int32_t *)to)[i] = 1; break;
    case OD_I64: for (int64_t i = 0; i < n; i++) ((int64_t *)to)[i] = 1; break;
    case OD_U8: for (int64_t i = 0; i < n; i++) ((uint8_t *)to)[i] = 1; break;
    default: return od_fail(OD_EUNSUPPORTED, "ones_like of %s", od_dtype_name(c->out[0].dtype));
  }
  return OD_OK;
}

static od_status ones_tf(od_tf *t, const od_node *n) { return od_tf_same(t, n, "OnesLike"); }
static od_status zeros_tf(od_tf *t, const od_node *n) { return od_tf_same(t, n, "ZerosLike"); }

static const od_sample ones_samples[] = {
    {.name = "floats", .n_in = 1, .in = {OD_F32_IN(-1, 1, 3, 7)}},
    {.name = "integers", .n_in = 1, .in = {OD_I32_IN(-5, 5, 4)}},
    {.name = "empty", .n_in = 1, .in = {OD_F32_IN(-1, 1, 0, 3)}, .few = true},
};
static const od_sample zeros_samples[] = {
    {.name = "floats", .n_in = 1, .in = {OD_F32_IN(-1, 1, 3, 7)}, .few = true},
    {.name = "integers", .n_in = 1, .in = {OD_I32_IN(-5, 5, 4)}, .few = true},
};
#define LIKE(name_, help_, part)                                                                                      \
  const od_op od_op_##name_ = {                                                                                       \
      .name = #name_, .help = help_, .min_in = 1, .max_in = 1, .n_out = 1, .infer = od_infer_same, .ref = part##_ref, \
      .grad = od_grad_nothing, .write_tf = part##_tf, OD_SAMPLES(part##_samples), .tolerance = 0,                     \
  }
LIKE(ones_like, "ones of x's type and shape", ones);
LIKE(zeros_like, "zeros of x's type and shape", zeros);
