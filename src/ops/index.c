/* gather, one_hot, cast: rows by index, indices as vectors, one type as another. */
#include <string.h>

#include "ops/common.h"
#include "ops/math.h"
#include "ops/table.h"

/* -------------------------------------------------------------------------------------------------------------- gather */
od_value od_gather(od_graph *g, od_value x, od_value indices) {
  return od_graph_add(g, &od_op_gather, (od_value[]){x, indices}, 2, NULL);
}

/* Shape of the rows that these indices take from x. */
static od_status gathered(od_shape *out, const od_shape *x, const od_shape *indices) {
  if (x->rank < 1) return od_fail(OD_EINVAL, "a scalar has no rows");
  int rank = indices->rank + x->rank - 1;
  if (rank > OD_MAX_RANK) return od_fail(OD_EINVAL, "the result has %d dimensions, at most %d", rank, OD_MAX_RANK);
  *out = (od_shape){rank, {0}};
  for (int i = 0; i < indices->rank; i++) out->dim[i] = indices->dim[i];
  for (int i = 1; i < x->rank; i++) out->dim[indices->rank + i - 1] = x->dim[i];
  return OD_OK;
}

static od_status infer_gather(const od_infer *c) {
  OD_TRY(od_want(c, 1, OD_I32, -1));
  c->out[0].dtype = c->in[0].dtype;
  return gathered(&c->out[0].shape, &c->in[0].shape, &c->in[1].shape);
}

static od_status check_index(int32_t i, int64_t rows, int64_t at) {
  if (i >= 0 && i < rows) return OD_OK;
  return od_fail(OD_EDATA, "index %d at place %lld: there are %lld rows", i, (long long)at, (long long)rows);
}

static od_status gather_ref(const od_call *c) {
  const od_shape *x = &c->in[0].shape;
  size_t row = (size_t)od_dims(x, 1, x->rank) * od_dtype_size(c->in[0].dtype);
  const int32_t *index = c->in[1].data;
  for (int64_t i = 0, n = od_tensor_size(&c->in[1]); i < n; i++) {
    OD_TRY(check_index(index[i], x->dim[0], i));
    if (row) memcpy((char *)c->out[0].data + (size_t)i * row, (const char *)c->in[0].data + (size_t)index[i] * row, row);
  }
  return OD_OK;
}

static od_status gather_back(od_grad *c) {
  c->din[0] = od_graph_add(c->graph, &od_op_gather_grad, (od_value[]){c->dout[0], c->node->in[1], c->node->in[0]}, 3, NULL);
  return OD_OK;
}

static od_status gather_tf(od_tf *t, const od_node *n) {
  od_tf_out(t, 0, od_tf_add(t, "GatherV2", NULL, OD_TF_INPUTS(od_tf_in(t, 0), od_tf_in(t, 1), od_tf_const_i32(t, "axis", 0))));
  od_tf_attr_type(t, "Tparams", od_type_of(n->in[0]).dtype);
  od_tf_attr_type(t, "Tindices", OD_I32);
  od_tf_attr_type(t, "Taxis", OD_I32);
  return OD_OK;
}

static const od_sample gather_samples[] = {
    {.name = "boxes", .n_in = 2, .in = {OD_F32_IN(-1, 1, 19, 4), OD_I32_IN(0, 18, 3, 7)}},
    {.name = "integers", .n_in = 2, .in = {OD_I32_IN(1, 99, 9), OD_I32_IN(0, 8, 30)}},
    {.name = "one row", .n_in = 2, .in = {OD_F32_IN(-1, 1, 9, 3, 5), {OD_I32, {0, {0}}, 4, 4, false}}},
    {.name = "empty", .n_in = 2, .in = {OD_F32_IN(-1, 1, 9, 3), OD_I32_IN(0, 8, 0)}, .few = true},
};

const od_op od_op_gather = {
    .name = "gather", .help = "rows of x by index", .min_in = 2, .max_in = 2, .n_out = 1, .infer = infer_gather, .ref = gather_ref,
    .grad = gather_back, .write_tf = gather_tf, OD_SAMPLES(gather_samples), .tolerance = 0,
};

static od_status infer_gather_grad(const od_infer *c) {
  od_shape y;
  OD_TRY(od_want(c, 0, OD_F32, -1));
  OD_TRY(od_want(c, 1, OD_I32, -1));
  OD_TRY(gathered(&y, &c->in[2].shape, &c->in[1].shape));
  OD_TRY(od_merge_shape(c, &y, &y, &c->in[0].shape));
  c->out[0] = (od_type){OD_F32, c->in[2].shape};
  return OD_OK;
}

static size_t gather_grad_scratch(const od_infer *c) { return sizeof(double) * (size_t)od_shape_size(&c->out[0].shape); }

static od_status gather_grad_ref(const od_call *c) {
  const od_shape *x = &c->out[0].shape;
  int64_t row = od_dims(x, 1, x->rank), size = od_shape_size(x);
  const int32_t *index = c->in[1].data;
  const float *dy = c->in[0].data;
  double *acc = c->scratch;
  memset(acc, 0, sizeof *acc * (size_t)size);
  for (int64_t i = 0, n = od_tensor_size(&c->in[1]); i < n; i++) {
    OD_TRY(check_index(index[i], x->dim[0], i));
    for (int64_t k = 0; k < row; k++) acc[index[i] * row + k] += *dy++;
  }
  for (int64_t i = 0; i < size; i++) ((float *)c->out[0].data)[i] = (float)acc[i];
  return OD_OK;
}

static const od_sample gather_grad_samples[] = {
    {.name = "rows named twice", .n_in = 3, .in = {OD_F32_IN(-1, 1, 30, 4), OD_I32_IN(0, 8, 30), OD_F32_IN(-1, 1, 9, 4)}},
    {.name = "empty", .n_in = 3, .in = {OD_F32_IN(-1, 1, 0, 4), OD_I32_IN(0, 8, 0), OD_F32_IN(-1, 1, 9, 4)}, .few = true},
};

const od_op od_op_gather_grad = {
    .name = "gather_grad", .help = "(dy, indices, x's shape) -> dx, sums of rows", .min_in = 3, .max_in = 3, .n_out = 1,
    .infer = infer_gather_grad, .ref = gather_grad_ref, .scratch = gather_grad_scratch, .no_grad = OD_NO_SECOND,
    .no_tf = OD_NO_TF_TRAINING, OD_SAMPLES(gather_grad_samples), .tolerance = 1e-6,
};

/* ------------------------------------------------------------------------------------------------------------- one_hot */
static const od_param one_hot_params[] = {OD_PARAM_IN(od_one_hot_params, depth, OD_P_INT, "length of the vectors", 0, 1e9),
                                          OD_PARAM(od_one_hot_params, on, OD_P_FLOAT, "at the index"),
                                          OD_PARAM(od_one_hot_params, off, OD_P_FLOAT, "elsewhere"), {0}};

od_value od_one_hot(od_graph *g, od_value indices, int64_t depth, float on, float off) {
  return od_graph_add(g, &od_op_one_hot, &indices, 1, &(od_one_hot_params){depth, on, off});
}

static od_status infer_one_hot(const od_infer *c) {
  OD_TRY(od_want(c, 0, OD_I32, -1));
  od_shape s = c->in[0].shape;
  if (s.rank >= OD_MAX_RANK) return od_fail(OD_EINVAL, "indices of %d dimensions", s.rank);
  s.dim[s.rank++] = ((const od_one_hot_params *)c->params)->depth;
  c->out[0] = (od_type){OD_F32, s};
  return OD_OK;
}

static od_status one_hot_ref(const od_call *c) {
  const od_one_hot_params *p = c->params;
  const int32_t *index = c->in[0].data;
  float *to = c->out[0].data;
  for (int64_t i = 0, n = od_tensor_size(&c->in[0]); i < n; i++)
    for (int64_t k = 0; k < p->depth; k++) *to++ = index[i] == k ? p->on : p->off;
  return OD_OK;
}

static od_status one_hot_tf(od_tf *t, const od_node *n) {
  const od_one_hot_params *p = n->params;
  const char *depth = od_tf_const_i32(t, "depth", (int32_t)p->depth), *on = od_tf_const_f32(t, "on_value", p->on);
  od_tf_out(t, 0, od_tf_op(t, "OneHot", NULL, OD_F32, OD_TF_INPUTS(od_tf_in(t, 0), depth, on, od_tf_const_f32(t, "off_value", p->off))));
  od_tf_attr_type(t, "TI", OD_I32);
  od_tf_attr_int(t, "axis", -1);
  return OD_OK;
}

static const od_one_hot_params classes = {7, 1, 0}, smooth = {5, 0.9f, 0.025f};
static const od_sample one_hot_samples[] = {
    {.name = "classes, some outside", .params = &classes, .n_in = 1, .in = {OD_I32_IN(-1, 7, 3, 9)}},
    {.name = "smoothed", .params = &smooth, .n_in = 1, .in = {OD_I32_IN(0, 4, 9)}},
    {.name = "empty", .params = &smooth, .n_in = 1, .in = {OD_I32_IN(0, 4, 0)}, .few = true},
};

const od_op od_op_one_hot = {
    .name = "one_hot", .help = "indices as vectors", .params = one_hot_params, .params_size = sizeof(od_one_hot_params), .min_in = 1,
    .max_in = 1, .n_out = 1, .infer = infer_one_hot, .ref = one_hot_ref, .grad = od_grad_nothing, .write_tf = one_hot_tf,
    OD_SAMPLES(one_hot_samples), .tolerance = 0,
};

/* ---------------------------------------------------------------------------------------------------------------- cast */
static const od_param cast_params[] = {OD_PARAM(od_cast_params, dtype, OD_P_DTYPE, "type of the result"), {0}};

od_value od_cast(od_graph *g, od_value x, od_dtype dtype) {
  return od_graph_add(g, &od_op_cast, &x, 1, &(od_cast_params){dtype});
}

static bool castable(od_dtype t) { return t == OD_F32 || t == OD_BF16 || t == OD_U8 || t == OD_I32 || t == OD_I64; }

static od_status infer_cast(const od_infer *c) {
  od_dtype to = ((const od_cast_params *)c->params)->dtype, from = c->in[0].dtype;
  if (!castable(from) || !castable(to)) return od_fail(OD_EINVAL, "cast from %s to %s", od_dtype_name(from), od_dtype_name(to));
  c->out[0] = (od_type){to, c->in[0].shape};
  return OD_OK;
}

/* Numbers outside the integer's range (and NaN) have no defined result in TensorFlow; here they saturate, NaN is 0. */
static int64_t to_integer(double v, int64_t lo, int64_t hi) {
  if (v != v) return 0;
  return v <= (double)lo ? lo : v >= (double)hi ? hi : (int64_t)v;
}

static double read(const od_tensor *t, int64_t i) {
  switch (t->dtype) {
    case OD_F32: return (double)((const float *)t->data)[i];
    case OD_BF16: return (double)od_bf16_to_f32(((const uint16_t *)t->data)[i]);
    case OD_U8: return (double)((const uint8_t *)t->data)[i];
    case OD_I32: return (double)((const int32_t *)t->data)[i];
    default: return (double)((const int64_t *)t->data)[i];
  }
}

static od_status cast_ref(const od_call *c) {
  const od_tensor *x = &c->in[0], *y = &c->out[0];
  if (x->dtype == y->dtype) return od_ref_copy(c);
  for (int64_t i = 0, n = od_tensor_size(x); i < n; i++) {
    double v = read(x, i);
    switch (y->dtype) {
      case OD_F32: ((float *)y->data)[i] = (float)v; break;
      case OD_BF16: ((uint16_t *)y->data)[i] = od_f32_to_bf16((float)v); break;
      case OD_U8: ((uint8_t *)y->data)[i] = (uint8_t)to_integer(v, 0, UINT8_MAX); break;
      case OD_I32: ((int32_t *)y->data)[i] = (int32_t)to_integer(v, INT32_MIN, INT32_MAX); break;
      default: ((int64_t *)y->data)[i] = to_integer(v, INT64_MIN, INT64_MAX); break;
    }
  }
  return OD_OK;
}

static od_status cast_back(od_grad *c) {
  od_dtype to = ((const od_cast_params *)c->node->params)->dtype;
  /* autodiff asks only for inputs that are floats; through an integer nothing flows */
  if (to == OD_F32 || to == OD_BF16) c->din[0] = od_cast(c->graph, c->dout[0], od_type_of(c->node->in[0]).dtype);
  return OD_OK;
}

static od_status cast_tf(od_tf *t, const od_node *n) {
  od_tf_out(t, 0, od_tf_cast(t, NULL, od_tf_in(t, 0), od_type_of(n->in[0]).dtype, ((const od_cast_params *)n->params)->dtype));
  return OD_OK;
}

static const od_cast_params to_f32 = {OD_F32}, to_i32 = {OD_I32}, to_i64 = {OD_I64}, to_bf16 = {OD_BF16}, to_u8 = {OD_U8};
#define BYTES(...) {OD_U8, {(int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), {__VA_ARGS__}}, 0, 255, false}
static const od_sample cast_samples[] = {
    {.name = "picture to float", .params = &to_f32, .n_in = 1, .in = {BYTES(1, 5, 7, 3)}},
    {.name = "int32 to float", .params = &to_f32, .n_in = 1, .in = {OD_I32_IN(-99, 99, 19)}},
    {.name = "float to int32", .params = &to_i32, .n_in = 1, .in = {OD_F32_IN(-9, 9, 33)}},
    {.name = "float to int64", .params = &to_i64, .n_in = 1, .in = {OD_F32_IN(-9, 9, 33)}},
    {.name = "float to uint8", .params = &to_u8, .n_in = 1, .in = {OD_F32_IN(0, 255, 33)}},
    {.name = "float to bfloat16", .params = &to_bf16, .n_in = 1, .in = {OD_F32_IN(-9, 9, 33)}, .no_grad = true}, /* too coarse for differences */
    {.name = "float to float", .params = &to_f32, .n_in = 1, .in = {OD_F32_IN(-9, 9, 33)}},
    {.name = "empty", .params = &to_f32, .n_in = 1, .in = {OD_I32_IN(-9, 9, 0)}, .few = true},
};

const od_op od_op_cast = {
    .name = "cast", .help = "x as another type", .params = cast_params, .params_size = sizeof(od_cast_params), .min_in = 1,
    .max_in = 1, .n_out = 1, .infer = infer_cast, .ref = cast_ref, .grad = cast_back, .write_tf = cast_tf,
    OD_SAMPLES(cast_samples), .tolerance = 0,
};
