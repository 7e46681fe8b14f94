/* add, sub, mul, div, maximum, minimum with numpy's broadcasting. Arithmetic is of the type itself, one rounding an element.
 * Gradients are graph nodes, summed down to each input's shape (od_unbroadcast):
 * mul d*b, d*a; div d/b and -d*y/b; maximum and minimum give all of d to a where a wins or ties, else to b, as TensorFlow. */
#include "ops/common.h"
#include "ops/math.h"
#include "ops/table.h"

static od_status infer_number(const od_infer *c) {
  od_dtype t = c->in[0].dtype;
  if (t != OD_F32 && t != OD_I32 && t != OD_I64)
    return od_fail(OD_EINVAL, "input 0 is %s, it must be float32, int32 or int64", od_dtype_name(t));
  OD_TRY(od_want(c, 1, t, -1));
  c->out[0].dtype = t;
  return od_infer_broadcast(c, &c->out[0].shape, 2);
}

static od_status infer_div(const od_infer *c) {
  OD_TRY(od_want(c, 0, OD_F32, -1));
  return infer_number(c);
}

static void walk(od_walk *w, const od_call *c) {
  od_walk_start(w, &c->out[0].shape);
  od_walk_with(w, 0, &c->in[0].shape);
  od_walk_with(w, 1, &c->in[1].shape);
}

#define LOOP(T, expr)                                                                                                 \
  {                                                                                                                   \
    const T *pa = c->in[0].data, *pb = c->in[1].data;                                                                 \
    T *to = c->out[0].data;                                                                                           \
    OD_WALK(w) {                                                                                                      \
      T a = pa[w.off[0]], b = pb[w.off[1]];                                                                           \
      *to++ = (T)(expr);                                                                                              \
    }                                                                                                                 \
    return OD_OK;                                                                                                     \
  }

/* Builder, reference, writer and table of one op. */
#define BINARY(name_, TfName, help_, expr, infer_, list_)                                                            \
  od_value od_##name_(od_graph *g, od_value a, od_value b) {                                                          \
    return od_graph_add(g, &od_op_##name_, (od_value[]){a, b}, 2, NULL);                                              \
  }                                                                                                                   \
  static od_status name_##_ref(const od_call *c) {                                                                    \
    od_walk w;                                                                                                        \
    walk(&w, c);                                                                                                      \
    if (c->out[0].dtype == OD_I32) LOOP(int32_t, expr)                                                                \
    if (c->out[0].dtype == OD_I64) LOOP(int64_t, expr)                                                                \
    LOOP(float, expr)                                                                                                 \
  }                                                                                                                   \
  static od_status name_##_tf(od_tf *t, const od_node *n) { return od_tf_same(t, n, TfName); }                        \
  const od_op od_op_##name_ = {                                                                                       \
      .name = #name_, .help = help_, .min_in = 2, .max_in = 2, .n_out = 1, .flags = OD_OP_BF16, .infer = infer_,      \
      .ref = name_##_ref, .grad = name_##_back, .write_tf = name_##_tf, OD_SAMPLES(list_), .tolerance = 0,           \
  }

static const od_sample samples[] = {
    {.name = "same shape", .n_in = 2, .in = {OD_F32_IN(-2, 2, 2, 5, 7, 24), OD_F32_IN(-2, 2, 2, 5, 7, 24)}},
    {.name = "a channel each", .n_in = 2, .in = {OD_F32_IN(-2, 2, 2, 5, 7, 19), OD_F32_IN(-2, 2, 19)}},
    {.name = "both spread", .n_in = 2, .in = {OD_F32_IN(-2, 2, 3, 1, 5), OD_F32_IN(-2, 2, 4, 1)}},
    {.name = "scalar first", .n_in = 2, .in = {OD_F32_SCALAR_IN(1, 2), OD_F32_IN(-2, 2, 33)}},
    {.name = "scalars", .n_in = 2, .in = {OD_F32_SCALAR_IN(1, 2), OD_F32_SCALAR_IN(-2, -1)}},
    {.name = "integers", .n_in = 2, .in = {OD_I32_IN(-9, 9, 4, 7), OD_I32_IN(-9, 9, 7)}},
    {.name = "int64 scalars, as the step has them", .n_in = 2, .in = {{OD_I64, {0, {0}}, 5e9, 6e9, false}, {OD_I64, {0, {0}}, 1, 1, false}}},
    {.name = "empty", .n_in = 2, .in = {OD_F32_IN(-1, 1, 0, 3), OD_F32_IN(-1, 1, 1, 3)}, .few = true},
};
static const od_sample div_samples[] = {
    {.name = "same shape", .n_in = 2, .in = {OD_F32_IN(-2, 2, 2, 5, 7, 24), OD_F32_IN(0.5, 2, 2, 5, 7, 24)}},
    {.name = "both spread", .n_in = 2, .in = {OD_F32_IN(-2, 2, 3, 1, 5), OD_F32_IN(-2, -0.5, 4, 1)}},
    {.name = "by a scalar", .n_in = 2, .in = {OD_F32_IN(-2, 2, 33), OD_F32_SCALAR_IN(3, 4)}},
    {.name = "empty", .n_in = 2, .in = {OD_F32_IN(-1, 1, 0, 3), OD_F32_IN(-1, 1, 3)}, .few = true},
};

/* Sets the gradients, summed down to the inputs' shapes. */
static void give(od_grad *c, od_value da, od_value db) {
  if (c->need[0]) c->din[0] = od_unbroadcast(c->graph, da, c->node->in[0]);
  if (c->need[1]) c->din[1] = od_unbroadcast(c->graph, db, c->node->in[1]);
}

static od_status add_back(od_grad *c) {
  give(c, c->dout[0], c->dout[0]);
  return OD_OK;
}

static od_status sub_back(od_grad *c) {
  give(c, c->dout[0], c->need[1] ? od_neg(c->graph, c->dout[0]) : OD_NONE);
  return OD_OK;
}

static od_status mul_back(od_grad *c) {
  od_value a = c->node->in[0], b = c->node->in[1], d = c->dout[0];
  give(c, c->need[0] ? od_mul(c->graph, d, b) : OD_NONE, c->need[1] ? od_mul(c->graph, d, a) : OD_NONE);
  return OD_OK;
}

static od_status div_back(od_grad *c) {
  od_value b = c->node->in[1], d = od_div(c->graph, c->dout[0], b);
  give(c, d, c->need[1] ? od_neg(c->graph, od_mul(c->graph, d, od_self(c, 0))) : OD_NONE);
  return OD_OK;
}

static od_status choose_back(od_grad *c, const od_op *op) {
  od_value v = od_graph_add(c->graph, op, (od_value[]){c->dout[0], c->node->in[0], c->node->in[1]}, 3, NULL);
  give(c, v, od_out(v, 1));
  return OD_OK;
}
static od_status maximum_back(od_grad *c) { return choose_back(c, &od_op_maximum_grad); }
static od_status minimum_back(od_grad *c) { return choose_back(c, &od_op_minimum_grad); }

BINARY(add, "Add", "a + b", a + b, infer_number, samples);
BINARY(sub, "Sub", "a - b", a - b, infer_number, samples);
BINARY(mul, "Mul", "a * b", a *b, infer_number, samples);
BINARY(maximum, "Maximum", "the larger of a and b", a > b || a != a ? a : b, infer_number, samples);
BINARY(minimum, "Minimum", "the smaller of a and b", a < b || a != a ? a : b, infer_number, samples);

/* div is float only: its loop has no integer cases, where 0 would trap. */
od_value od_div(od_graph *g, od_value a, od_value b) { return od_graph_add(g, &od_op_div, (od_value[]){a, b}, 2, NULL); }
static od_status div_ref(const od_call *c) {
  od_walk w;
  walk(&w, c);
  LOOP(float, a / b)
}
static od_status div_tf(od_tf *t, const od_node *n) { return od_tf_same(t, n, "RealDiv"); }
const od_op od_op_div = {
    .name = "div", .help = "a / b", .min_in = 2, .max_in = 2, .n_out = 1, .flags = OD_OP_BF16, .infer = infer_div, .ref = div_ref,
    .grad = div_back, .write_tf = div_tf, OD_SAMPLES(div_samples), .tolerance = 1e-6,
};

/* -------------------------------------------------------------------------------------- gradient of maximum, minimum */
/* (d, a, b) -> da, db in the shape of d; a and b broadcast to it. */
static od_status infer_choose(const od_infer *c) {
  for (int i = 0; i < 3; i++) OD_TRY(od_want(c, i, OD_F32, -1));
  c->out[0] = c->out[1] = c->in[0];
  return OD_OK;
}

static od_status choose(const od_call *c, bool larger) {
  const float *d = c->in[0].data, *pa = c->in[1].data, *pb = c->in[2].data;
  float *da = c->out[0].data, *db = c->out[1].data;
  od_walk w;
  od_walk_start(&w, &c->out[0].shape);
  od_walk_with(&w, 0, &c->in[1].shape);
  od_walk_with(&w, 1, &c->in[2].shape);
  OD_WALK(w) {
    float a = pa[w.off[0]], b = pb[w.off[1]];
    bool to_a = larger ? a >= b : a <= b;
    *da++ = to_a ? *d : 0;
    *db++ = to_a ? 0 : *d;
    d++;
  }
  return OD_OK;
}
static od_status maximum_grad_ref(const od_call *c) { return choose(c, true); }
static od_status minimum_grad_ref(const od_call *c) { return choose(c, false); }

static const od_sample choose_samples[] = {
    {.name = "same shape", .n_in = 3, .in = {OD_F32_IN(-2, 2, 3, 5, 17), OD_F32_IN(-2, 2, 3, 5, 17), OD_F32_IN(-2, 2, 3, 5, 17)}},
    {.name = "spread", .n_in = 3, .in = {OD_F32_IN(-2, 2, 3, 5, 17), OD_F32_IN(-2, 2, 5, 1), OD_F32_SCALAR_IN(-0.1, 0.1)}},
    {.name = "ties", .n_in = 3, .in = {OD_F32_IN(-2, 2, 9), OD_F32_IN(1, 1, 9), OD_F32_IN(1, 1, 9)}},
};
#define CHOOSE(name_, help_)                                                                                          \
  const od_op od_op_##name_ = {                                                                                       \
      .name = #name_, .help = help_, .min_in = 3, .max_in = 3, .n_out = 2, .infer = infer_choose, .ref = name_##_ref, \
      .no_grad = OD_NO_SECOND, .no_tf = OD_NO_TF_TRAINING, OD_SAMPLES(choose_samples), .tolerance = 0,                \
  }
CHOOSE(maximum_grad, "(d, a, b) -> d where a >= b, else 0; and the rest");
CHOOSE(minimum_grad, "(d, a, b) -> d where a <= b, else 0; and the rest");
