/* equal, not_equal, greater, greater_equal, less, less_equal: float 1 where it holds, else 0, with numpy's broadcasting; and
 * select(cond, a, b). Comparisons pass no gradient; select passes it to the chosen side. In TensorFlow graphs comparisons are
 * bool and cast. */
#include <string.h>

#include "ops/common.h"
#include "ops/math.h"
#include "ops/table.h"

static od_status infer(const od_infer *c) {
  od_dtype t = c->in[0].dtype;
  if (t != OD_F32 && t != OD_I32 && t != OD_I64)
    return od_fail(OD_EINVAL, "input 0 is %s, it must be float32, int32 or int64", od_dtype_name(t));
  OD_TRY(od_want(c, 1, t, -1));
  c->out[0].dtype = OD_F32;
  return od_infer_broadcast(c, &c->out[0].shape, 2);
}

static void walk(od_walk *w, const od_call *c) {
  od_walk_start(w, &c->out[0].shape);
  for (int i = 0; i < c->n_in; i++) od_walk_with(w, i, &c->in[i].shape);
}

static const od_sample samples[] = {
    {.name = "floats", .n_in = 2, .in = {OD_F32_IN(-1, 1, 3, 5, 17), OD_F32_IN(-1, 1, 17)}},
    {.name = "integers with ties", .n_in = 2, .in = {OD_I32_IN(0, 2, 50), OD_I32_IN(0, 2, 50)}},
    {.name = "spread", .n_in = 2, .in = {OD_I32_IN(0, 2, 7, 1), OD_I32_IN(0, 2, 1, 9)}},
    {.name = "empty", .n_in = 2, .in = {OD_F32_IN(-1, 1, 0, 3), OD_F32_IN(-1, 1, 3)}, .few = true},
};

static od_status write(od_tf *t, const od_node *n, const char *op) {
  const char *b = od_tf_op(t, op, "compare", od_type_of(n->in[0]).dtype, OD_TF_INPUTS(od_tf_in(t, 0), od_tf_in(t, 1)));
  od_tf_out(t, 0, od_tf_cast(t, NULL, b, OD_BOOL, OD_F32));
  return OD_OK;
}

#define LOOP(T, operator)                                                                                             \
  {                                                                                                                   \
    const T *a = c->in[0].data, *b = c->in[1].data;                                                                   \
    OD_WALK(w) *to++ = a[w.off[0]] operator b[w.off[1]] ? 1 : 0;                                                      \
    return OD_OK;                                                                                                     \
  }
#define COMPARE(name_, TfName, operator, list_)                                                                       \
  od_value od_##name_(od_graph *g, od_value a, od_value b) {                                                          \
    return od_graph_add(g, &od_op_##name_, (od_value[]){a, b}, 2, NULL);                                              \
  }                                                                                                                   \
  static od_status name_##_ref(const od_call *c) {                                                                    \
    float *to = c->out[0].data;                                                                                       \
    od_walk w;                                                                                                        \
    walk(&w, c);                                                                                                      \
    if (c->in[0].dtype == OD_I32) LOOP(int32_t, operator)                                                             \
    if (c->in[0].dtype == OD_I64) LOOP(int64_t, operator)                                                             \
    LOOP(float, operator)                                                                                             \
  }                                                                                                                   \
  static od_status name_##_tf(od_tf *t, const od_node *n) { return write(t, n, TfName); }                             \
  const od_op od_op_##name_ = {                                                                                       \
      .name = #name_, .help = "1 where a " #operator " b, else 0", .min_in = 2, .max_in = 2, .n_out = 1,              \
      .infer = infer, .ref = name_##_ref, .grad = od_grad_nothing, .write_tf = name_##_tf, OD_SAMPLES(list_),         \
      .tolerance = 0,                                                                                                 \
  }

/* random floats are never equal */
static const od_sample equal_samples[] = {
    {.name = "equal floats", .n_in = 2, .in = {OD_F32_IN(1, 1, 5, 17), OD_F32_IN(1, 1, 17)}, .no_grad = true},
    {.name = "integers with ties", .n_in = 2, .in = {OD_I32_IN(0, 2, 50), OD_I32_IN(0, 2, 50)}},
    {.name = "spread", .n_in = 2, .in = {OD_I32_IN(0, 2, 7, 1), OD_I32_IN(0, 2, 1, 9)}},
};

COMPARE(equal, "Equal", ==, equal_samples);
COMPARE(not_equal, "NotEqual", !=, samples);
COMPARE(greater, "Greater", >, samples);
COMPARE(greater_equal, "GreaterEqual", >=, samples);
COMPARE(less, "Less", <, samples);
COMPARE(less_equal, "LessEqual", <=, samples);

/* -------------------------------------------------------------------------------------------------------------- select */
od_value od_select(od_graph *g, od_value cond, od_value a, od_value b) {
  return od_graph_add(g, &od_op_select, (od_value[]){cond, a, b}, 3, NULL);
}

static od_status infer_select(const od_infer *c) {
  od_dtype t = c->in[0].dtype;
  if (t != OD_F32 && t != OD_U8) return od_fail(OD_EINVAL, "the condition is %s, it must be float32 or uint8", od_dtype_name(t));
  OD_TRY(od_want(c, 2, c->in[1].dtype, -1));
  c->out[0].dtype = c->in[1].dtype;
  return od_infer_broadcast(c, &c->out[0].shape, 3);
}

static od_status select_ref(const od_call *c) {
  const float *f = c->in[0].data;
  const uint8_t *u = c->in[0].data;
  const char *a = c->in[1].data, *b = c->in[2].data;
  char *to = c->out[0].data;
  size_t size = od_dtype_size(c->out[0].dtype);
  od_walk w;
  walk(&w, c);
  OD_WALK(w) {
    bool yes = c->in[0].dtype == OD_U8 ? u[w.off[0]] != 0 : f[w.off[0]] != 0;
    memcpy(to, yes ? a + (size_t)w.off[1] * size : b + (size_t)w.off[2] * size, size);
    to += size;
  }
  return OD_OK;
}

static od_status select_back(od_grad *c) {
  od_value cond = c->node->in[0], d = c->dout[0], zero = od_zeros_like(c->graph, d);
  if (c->need[1]) c->din[1] = od_unbroadcast(c->graph, od_select(c->graph, cond, d, zero), c->node->in[1]);
  if (c->need[2]) c->din[2] = od_unbroadcast(c->graph, od_select(c->graph, cond, zero, d), c->node->in[2]);
  return OD_OK;
}

/* Select where nothing broadcasts (every TensorFlow has it), else SelectV2. */
static od_status select_tf(od_tf *t, const od_node *n) {
  od_type cond = od_type_of(n->in[0]), a = od_type_of(n->in[1]), b = od_type_of(n->in[2]);
  bool same = od_shape_equal(&cond.shape, &a.shape) && od_shape_equal(&a.shape, &b.shape);
  const char *yes = od_tf_cast(t, "condition", od_tf_in(t, 0), cond.dtype, OD_BOOL);
  od_tf_out(t, 0, od_tf_op(t, same ? "Select" : "SelectV2", NULL, a.dtype, OD_TF_INPUTS(yes, od_tf_in(t, 1), od_tf_in(t, 2))));
  return OD_OK;
}

#define MASK(...) {OD_U8, {(int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), {__VA_ARGS__}}, 0, 1, false}
static const od_sample select_samples[] = {
    {.name = "same shape", .n_in = 3, .in = {MASK(4, 9, 3), OD_F32_IN(-1, 1, 4, 9, 3), OD_F32_IN(-1, 1, 4, 9, 3)}},
    {.name = "spread", .n_in = 3, .in = {MASK(4, 9, 1), OD_F32_IN(-1, 1, 4, 9, 3), OD_F32_SCALAR_IN(7, 8)}},
    {.name = "float condition", .n_in = 3, .in = {OD_F32_IN(-1, 1, 33), OD_F32_IN(-1, 1, 33), OD_F32_IN(-1, 1, 33)}},
    {.name = "integers", .n_in = 3, .in = {MASK(33), OD_I32_IN(1, 9, 33), OD_I32_IN(-9, -1, 33)}},
    {.name = "empty", .n_in = 3, .in = {MASK(0), OD_I32_IN(1, 9, 0), OD_I32_IN(-9, -1, 0)}, .few = true},
};

const od_op od_op_select = {
    .name = "select", .help = "cond ? a : b", .min_in = 3, .max_in = 3, .n_out = 1, .infer = infer_select, .ref = select_ref,
    .grad = select_back, .write_tf = select_tf, OD_SAMPLES(select_samples), .tolerance = 0,
};
