/* transpose, concat, slice, pad, tile: data moved about, any type, bit for bit; with the ops that are their gradients. */
#include <string.h>

#include "ops/common.h"
#include "ops/math.h"
#include "ops/table.h"

/* ----------------------------------------------------------------------------------------------------------- transpose */
static const od_param transpose_params[] = {
    OD_PARAM_IN(od_transpose_params, perm, OD_P_INTS, "dimension of x for each of the result", 0, OD_MAX_RANK - 1), {0}};

od_value od_transpose(od_graph *g, od_value x, od_ints perm) {
  return od_graph_add(g, &od_op_transpose, &x, 1, &(od_transpose_params){perm});
}

static od_status infer_transpose(const od_infer *c) {
  od_ints perm = ((const od_transpose_params *)c->params)->perm;
  const od_shape *x = &c->in[0].shape;
  if (perm.n != x->rank) return od_fail(OD_EINVAL, "%d dimensions are permuted, the input has %d", perm.n, x->rank);
  bool mark[OD_MAX_RANK];
  if (perm.n) OD_TRY(od_axes_mask(c, mark, perm, x->rank));
  c->out[0] = (od_type){c->in[0].dtype, {x->rank, {0}}};
  for (int i = 0; i < perm.n; i++) c->out[0].shape.dim[i] = x->dim[perm.v[i]];
  return OD_OK;
}

/* Copies element by element: `to` in order, `from` by strides and a start. */
static void gather_strided(char *to, const char *from, const od_shape *shape, const int64_t *stride, int64_t start, size_t size) {
  od_walk w;
  od_walk_start(&w, shape);
  od_walk_strides(&w, 0, stride);
  OD_WALK(w) {
    memcpy(to, from + (size_t)(start + w.off[0]) * size, size);
    to += size;
  }
}

static od_status transpose_ref(const od_call *c) {
  od_ints perm = ((const od_transpose_params *)c->params)->perm;
  int64_t of_x[OD_MAX_RANK], stride[OD_MAX_RANK];
  od_strides(of_x, &c->in[0].shape);
  for (int i = 0; i < perm.n; i++) stride[i] = of_x[perm.v[i]];
  gather_strided(c->out[0].data, c->in[0].data, &c->out[0].shape, stride, 0, od_dtype_size(c->in[0].dtype));
  return OD_OK;
}

static od_status transpose_back(od_grad *c) {
  od_ints perm = ((const od_transpose_params *)c->node->params)->perm;
  int64_t inverse[OD_MAX_RANK];
  for (int i = 0; i < perm.n; i++) inverse[perm.v[i]] = i;
  c->din[0] = od_transpose(c->graph, c->dout[0], (od_ints){perm.n, inverse});
  return OD_OK;
}

static od_status transpose_tf(od_tf *t, const od_node *n) {
  const char *perm = od_tf_ints(t, "perm", ((const od_transpose_params *)n->params)->perm);
  od_tf_out(t, 0, od_tf_op(t, "Transpose", NULL, od_type_of(n->in[0]).dtype, OD_TF_INPUTS(od_tf_in(t, 0), perm)));
  od_tf_attr_type(t, "Tperm", OD_I32);
  return OD_OK;
}

static const od_transpose_params to_nchw = {OD_INTS(0, 3, 1, 2)}, swap = {OD_INTS(1, 0)};
static const od_sample transpose_samples[] = {
    {.name = "NHWC to NCHW", .params = &to_nchw, .n_in = 1, .in = {OD_F32_IN(-1, 1, 2, 5, 7, 19)}},
    {.name = "integers", .params = &swap, .n_in = 1, .in = {OD_I32_IN(1, 99, 9, 5)}},
    {.name = "empty", .params = &swap, .n_in = 1, .in = {OD_F32_IN(-1, 1, 0, 5)}, .few = true},
};

const od_op od_op_transpose = {
    .name = "transpose", .help = "dimensions in another order", .params = transpose_params,
    .params_size = sizeof(od_transpose_params), .min_in = 1, .max_in = 1, .n_out = 1, .infer = infer_transpose,
    .ref = transpose_ref, .grad = transpose_back, .write_tf = transpose_tf, OD_SAMPLES(transpose_samples), .tolerance = 0,
};

/* -------------------------------------------------------------------------------------------------------------- concat */
static const od_param axis_params[] = {OD_PARAM(od_axis_params, axis, OD_P_INT, "axis"), {0}};

od_value od_concat(od_graph *g, const od_value *x, int n, int64_t axis) {
  return od_graph_add(g, &od_op_concat, x, n, &(od_axis_params){axis});
}

static od_status infer_concat(const od_infer *c) {
  int axis;
  od_type out = c->in[0];
  OD_TRY(od_axis(c, &axis, ((const od_axis_params *)c->params)->axis, out.shape.rank));
  int64_t sum = out.shape.dim[axis];
  for (int i = 1; i < c->n_in; i++) {
    OD_TRY(od_want(c, i, out.dtype, out.shape.rank));
    int64_t size = c->in[i].shape.dim[axis];
    od_shape other = c->in[i].shape;
    sum = sum < 0 || size < 0 ? -1 : sum + size;
    other.dim[axis] = out.shape.dim[axis] = -1;
    OD_TRY(od_fail_context(od_merge_shape(c, &out.shape, &out.shape, &other), "input %d, beside axis %d", i, axis));
  }
  out.shape.dim[axis] = sum;
  c->out[0] = out;
  return OD_OK;
}

static od_status concat_ref(const od_call *c) {
  const od_shape *s = &c->out[0].shape;
  int axis = od_axis_at(((const od_axis_params *)c->params)->axis, s->rank);
  size_t inner = (size_t)od_dims(s, axis + 1, s->rank) * od_dtype_size(c->out[0].dtype);
  char *to = c->out[0].data;
  for (int64_t o = 0, outer = od_dims(s, 0, axis); o < outer; o++)
    for (int i = 0; i < c->n_in; i++) {
      size_t piece = (size_t)c->in[i].shape.dim[axis] * inner;
      if (piece) memcpy(to, (const char *)c->in[i].data + (size_t)o * piece, piece);
      to += piece;
    }
  return OD_OK;
}

static od_status concat_back(od_grad *c) {
  int n = c->node->n_in;
  od_value *in;
  OD_TRY(od_new(&in, (size_t)n + 1, sizeof *in));
  in[0] = c->dout[0];
  for (int i = 0; i < n; i++) {
    in[i + 1] = c->node->in[i];
    if (c->need[i]) c->din[i] = od_graph_add(c->graph, &od_op_concat_grad, in, i + 2, c->node->params);
  }
  od_free(in);
  return OD_OK;
}

static od_status concat_tf(od_tf *t, const od_node *n) {
  int rank = od_type_of(n->in[0]).shape.rank;
  const char **in;
  OD_TRY(od_new(&in, (size_t)n->n_in + 2, sizeof *in));
  for (int i = 0; i < n->n_in; i++) in[i] = od_tf_in(t, i);
  in[n->n_in] = od_tf_const_i32(t, "axis", od_axis_at(((const od_axis_params *)n->params)->axis, rank));
  od_dtype type = od_type_of(n->in[0]).dtype;
  /* ConcatV2 wants two inputs or more */
  if (n->n_in == 1) {
    od_tf_out(t, 0, od_tf_op(t, "Identity", NULL, type, OD_TF_INPUTS(in[0])));
  } else {
    od_tf_out(t, 0, od_tf_op(t, "ConcatV2", NULL, type, in));
    od_tf_attr_int(t, "N", n->n_in);
    od_tf_attr_type(t, "Tidx", OD_I32);
  }
  od_free(in);
  return OD_OK;
}

static const od_axis_params axis1 = {1}, axis_last = {-1}, axis0 = {0};
static const od_sample concat_samples[] = {
    {.name = "anchors of feature maps", .params = &axis1, .n_in = 3,
     .in = {OD_F32_IN(-1, 1, 2, 75, 4), OD_F32_IN(-1, 1, 2, 24, 4), OD_F32_IN(-1, 1, 2, 6, 4)}},
    {.name = "channels", .params = &axis_last, .n_in = 2, .in = {OD_F32_IN(-1, 1, 2, 3, 5, 16), OD_F32_IN(-1, 1, 2, 3, 5, 19)}},
    {.name = "one input", .params = &axis0, .n_in = 1, .in = {OD_F32_IN(-1, 1, 3, 5)}},
    {.name = "integers, one of them empty", .params = &axis0, .n_in = 2, .in = {OD_I32_IN(1, 9, 0, 5), OD_I32_IN(1, 9, 2, 5)}},
    {.name = "empty", .params = &axis0, .n_in = 2, .in = {OD_F32_IN(1, 9, 0, 5), OD_F32_IN(1, 9, 0, 5)}, .few = true},
};

const od_op od_op_concat = {
    .name = "concat", .help = "inputs one after the other along an axis", .params = axis_params, .params_size = sizeof(od_axis_params),
    .min_in = 1, .max_in = -1, .n_out = 1, .flags = OD_OP_BF16, .infer = infer_concat, .ref = concat_ref, .grad = concat_back,
    .write_tf = concat_tf, OD_SAMPLES(concat_samples), .tolerance = 0,
};

/* concat_grad: (d, x0, ..., xk) -> the part of d that came from xk. */
static od_status infer_concat_grad(const od_infer *c) {
  int axis;
  OD_TRY(od_axis(c, &axis, ((const od_axis_params *)c->params)->axis, c->in[0].shape.rank));
  int64_t sum = 0;
  for (int i = 1; i < c->n_in; i++) {
    OD_TRY(od_want(c, i, c->in[i].dtype, c->in[0].shape.rank));
    int64_t size = c->in[i].shape.dim[axis];
    sum = sum < 0 || size < 0 ? -1 : sum + size;
  }
  int64_t whole = c->in[0].shape.dim[axis];
  if (whole >= 0 && sum > whole)
    return od_fail(OD_EINVAL, "parts of size %lld along axis %d of size %lld", (long long)sum, axis, (long long)whole);
  c->out[0] = (od_type){c->in[0].dtype, c->in[c->n_in - 1].shape};
  return OD_OK;
}

static od_status concat_grad_ref(const od_call *c) {
  const od_shape *s = &c->in[0].shape;
  int axis = od_axis_at(((const od_axis_params *)c->params)->axis, s->rank);
  int64_t stride[OD_MAX_RANK], before = 0;
  for (int i = 1; i < c->n_in - 1; i++) before += c->in[i].shape.dim[axis];
  od_strides(stride, s);
  gather_strided(c->out[0].data, c->in[0].data, &c->out[0].shape, stride, before * stride[axis], od_dtype_size(c->out[0].dtype));
  return OD_OK;
}

static const od_sample concat_grad_samples[] = {
    {.name = "second of three", .params = &axis1, .n_in = 3,
     .in = {OD_F32_IN(-1, 1, 2, 105, 4), OD_F32_IN(-1, 1, 2, 75, 4), OD_F32_IN(-1, 1, 2, 24, 4)}},
    {.name = "first", .params = &axis_last, .n_in = 2, .in = {OD_F32_IN(-1, 1, 2, 3, 35), OD_F32_IN(-1, 1, 2, 3, 16)}},
    {.name = "empty", .params = &axis0, .n_in = 2, .in = {OD_F32_IN(-1, 1, 5, 2), OD_F32_IN(-1, 1, 0, 2)}, .few = true},
};

const od_op od_op_concat_grad = {
    .name = "concat_grad", .help = "(d, x0, ..., xk): the part of d that came from xk", .params = axis_params,
    .params_size = sizeof(od_axis_params), .min_in = 2, .max_in = -1, .n_out = 1, .flags = OD_OP_BF16, .infer = infer_concat_grad,
    .ref = concat_grad_ref, .no_grad = OD_NO_SECOND, .no_tf = OD_NO_TF_TRAINING, OD_SAMPLES(concat_grad_samples), .tolerance = 0,
};

/* --------------------------------------------------------------------------------------------------------------- slice */
static const od_param slice_params[] = {
    OD_PARAM_IN(od_slice_params, begin, OD_P_INTS, "first element along each axis", 0, 1e12),
    OD_PARAM_IN(od_slice_params, size, OD_P_INTS, "how many; -1: to the end", -1, 1e12), {0}};

od_value od_slice(od_graph *g, od_value x, od_ints begin, od_ints size) {
  return od_graph_add(g, &od_op_slice, &x, 1, &(od_slice_params){begin, size});
}

static od_status slice_shape(const od_infer *c, od_shape *out, const od_shape *x) {
  const od_slice_params *p = c->params;
  char text[OD_SHAPE_TEXT];
  if (p->begin.n != x->rank || p->size.n != x->rank)
    return od_fail(OD_EINVAL, "%d begins and %d sizes for %d dimensions", p->begin.n, p->size.n, x->rank);
  *out = (od_shape){x->rank, {0}};
  for (int i = 0; i < x->rank; i++) {
    int64_t begin = p->begin.v[i], size = p->size.v[i];
    if (x->dim[i] >= 0 && begin + (size < 0 ? 0 : size) > x->dim[i])
      return od_fail(OD_EINVAL, "axis %d: %lld elements from %lld do not lie in %s", i, (long long)size, (long long)begin,
                     od_shape_text(text, x));
    out->dim[i] = size >= 0 ? size : x->dim[i] < 0 ? -1 : x->dim[i] - begin;
  }
  return OD_OK;
}

static od_status infer_slice(const od_infer *c) {
  c->out[0].dtype = c->in[0].dtype;
  return slice_shape(c, &c->out[0].shape, &c->in[0].shape);
}

static od_status slice_ref(const od_call *c) {
  const od_slice_params *p = c->params;
  int64_t stride[OD_MAX_RANK], start = 0;
  od_strides(stride, &c->in[0].shape);
  for (int i = 0; i < p->begin.n; i++) start += p->begin.v[i] * stride[i];
  gather_strided(c->out[0].data, c->in[0].data, &c->out[0].shape, stride, start, od_dtype_size(c->out[0].dtype));
  return OD_OK;
}

static od_status slice_back(od_grad *c) {
  c->din[0] = od_graph_add(c->graph, &od_op_slice_grad, (od_value[]){c->dout[0], c->node->in[0]}, 2, c->node->params);
  return OD_OK;
}

static od_status slice_tf(od_tf *t, const od_node *n) {
  const od_slice_params *p = n->params;
  od_tf_out(t, 0, od_tf_op(t, "Slice", NULL, od_type_of(n->in[0]).dtype,
                           OD_TF_INPUTS(od_tf_in(t, 0), od_tf_ints(t, "begin", p->begin), od_tf_ints(t, "size", p->size))));
  od_tf_attr_type(t, "Index", OD_I32);
  return OD_OK;
}

static const od_slice_params without_background = {OD_INTS(0, 0, 1), OD_INTS(-1, -1, -1)},
                             middle = {OD_INTS(1, 2), OD_INTS(2, 3)};
static const od_sample slice_samples[] = {
    {.name = "without the background", .params = &without_background, .n_in = 1, .in = {OD_F32_IN(-1, 1, 2, 9, 7)}},
    {.name = "middle", .params = &middle, .n_in = 1, .in = {OD_I32_IN(1, 9, 4, 7)}},
    {.name = "floats, middle", .params = &middle, .n_in = 1, .in = {OD_F32_IN(1, 9, 3, 5)}},
    {.name = "empty", .params = &without_background, .n_in = 1, .in = {OD_F32_IN(-1, 1, 2, 9, 1)}, .few = true},
};

const od_op od_op_slice = {
    .name = "slice", .help = "a block of x", .params = slice_params, .params_size = sizeof(od_slice_params), .min_in = 1, .max_in = 1,
    .n_out = 1, .infer = infer_slice, .ref = slice_ref, .grad = slice_back, .write_tf = slice_tf, OD_SAMPLES(slice_samples),
    .tolerance = 0,
};

static od_status infer_slice_grad(const od_infer *c) {
  od_shape y;
  OD_TRY(slice_shape(c, &y, &c->in[1].shape));
  OD_TRY(od_merge_shape(c, &y, &y, &c->in[0].shape));
  c->out[0] = (od_type){c->in[0].dtype, c->in[1].shape};
  return OD_OK;
}

static od_status slice_grad_ref(const od_call *c) {
  const od_slice_params *p = c->params;
  int64_t stride[OD_MAX_RANK], start = 0;
  size_t size = od_dtype_size(c->out[0].dtype), bytes = od_tensor_bytes(&c->out[0]);
  const char *from = c->in[0].data;
  char *to = c->out[0].data;
  if (bytes) memset(to, 0, bytes);
  od_strides(stride, &c->out[0].shape);
  for (int i = 0; i < p->begin.n; i++) start += p->begin.v[i] * stride[i];
  od_walk w;
  od_walk_start(&w, &c->in[0].shape);
  od_walk_strides(&w, 0, stride);
  OD_WALK(w) {
    memcpy(to + (size_t)(start + w.off[0]) * size, from, size);
    from += size;
  }
  return OD_OK;
}

static const od_sample slice_grad_samples[] = {
    {.name = "without the background", .params = &without_background, .n_in = 2,
     .in = {OD_F32_IN(-1, 1, 2, 9, 6), OD_F32_IN(-1, 1, 2, 9, 7)}},
    {.name = "middle", .params = &middle, .n_in = 2, .in = {OD_F32_IN(1, 9, 2, 3), OD_F32_IN(1, 9, 4, 7)}},
};

const od_op od_op_slice_grad = {
    .name = "slice_grad", .help = "(dy, x's shape) -> dy in zeros", .params = slice_params, .params_size = sizeof(od_slice_params),
    .min_in = 2, .max_in = 2, .n_out = 1, .infer = infer_slice_grad, .ref = slice_grad_ref, .no_grad = OD_NO_SECOND,
    .no_tf = OD_NO_TF_TRAINING, OD_SAMPLES(slice_grad_samples), .tolerance = 0,
};

/* ----------------------------------------------------------------------------------------------------------------- pad */
static const od_param pad_params[] = {
    OD_PARAM_IN(od_pad_params, amounts, OD_P_INTS, "before and after, pairs; negative: cut away", -1e9, 1e9),
    OD_PARAM(od_pad_params, value, OD_P_FLOAT, "what is put there"), {0}};

od_value od_pad(od_graph *g, od_value x, od_ints amounts, float value) {
  return od_graph_add(g, &od_op_pad, &x, 1, &(od_pad_params){amounts, value});
}

static od_status infer_pad(const od_infer *c) {
  od_ints a = ((const od_pad_params *)c->params)->amounts;
  od_type out = c->in[0];
  if (out.dtype != OD_F32 && out.dtype != OD_I32) return od_fail(OD_EINVAL, "pad of %s", od_dtype_name(out.dtype));
  if (a.n != 2 * out.shape.rank) return od_fail(OD_EINVAL, "%d amounts for %d dimensions", a.n, out.shape.rank);
  for (int i = 0; i < out.shape.rank; i++) {
    if (out.shape.dim[i] < 0) continue;
    out.shape.dim[i] += a.v[2 * i] + a.v[2 * i + 1];
    if (out.shape.dim[i] < 0) return od_fail(OD_EINVAL, "axis %d: more is cut away than is there", i);
  }
  c->out[0] = out;
  return OD_OK;
}

static od_status pad_ref(const od_call *c) {
  const od_pad_params *p = c->params;
  int rank = c->in[0].shape.rank;
  int64_t stride[OD_MAX_RANK], i = 0;
  od_strides(stride, &c->in[0].shape);
  bool integer = c->out[0].dtype == OD_I32;
  od_walk w;
  od_walk_start(&w, &c->out[0].shape);
  OD_WALK(w) {
    int64_t at = 0;
    bool inside = true;
    for (int d = 0; d < rank; d++) {
      int64_t k = w.at[d] - p->amounts.v[2 * d];
      inside = inside && k >= 0 && k < c->in[0].shape.dim[d];
      at += k * stride[d];
    }
    if (integer) ((int32_t *)c->out[0].data)[i++] = inside ? ((const int32_t *)c->in[0].data)[at] : (int32_t)p->value;
    else ((float *)c->out[0].data)[i++] = inside ? ((const float *)c->in[0].data)[at] : p->value;
  }
  return OD_OK;
}

static od_status pad_back(od_grad *c) {
  od_ints a = ((const od_pad_params *)c->node->params)->amounts;
  int64_t back[2 * OD_MAX_RANK];
  for (int i = 0; i < a.n; i++) back[i] = -a.v[i];
  c->din[0] = od_pad(c->graph, c->dout[0], (od_ints){a.n, back}, 0);
  return OD_OK;
}

static od_status pad_tf(od_tf *t, const od_node *n) {
  const od_pad_params *p = n->params;
  od_type x = od_type_of(n->in[0]);
  int32_t amounts[2 * OD_MAX_RANK];
  for (int i = 0; i < p->amounts.n; i++) {
    amounts[i] = (int32_t)p->amounts.v[i];
    if (amounts[i] < 0) return od_fail(OD_EUNSUPPORTED, "%s: negative padding is not written to TensorFlow graphs", n->name);
  }
  od_tensor v = {OD_I32, OD_SHAPE(x.shape.rank, 2), amounts};
  const char *paddings = od_tf_const(t, "paddings", &v), *y;
  if (p->value == 0) {
    y = od_tf_op(t, "Pad", NULL, x.dtype, OD_TF_INPUTS(od_tf_in(t, 0), paddings));
  } else {
    int32_t as_int = (int32_t)p->value;
    od_tensor value = {x.dtype, OD_SCALAR, x.dtype == OD_I32 ? (void *)&as_int : (void *)(uintptr_t)&p->value};
    y = od_tf_op(t, "PadV2", NULL, x.dtype, OD_TF_INPUTS(od_tf_in(t, 0), paddings, od_tf_const(t, "value", &value)));
  }
  od_tf_attr_type(t, "Tpaddings", OD_I32);
  od_tf_out(t, 0, y);
  return OD_OK;
}

static const od_pad_params frame = {OD_INTS(0, 0, 3, 3, 1, 2, 0, 0), 0}, ones = {OD_INTS(2, 0), 1},
                           cut = {OD_INTS(-1, -2, 1, -1), 0};
static const od_sample pad_samples[] = {
    {.name = "frame", .params = &frame, .n_in = 1, .in = {OD_F32_IN(-1, 1, 2, 5, 7, 19)}},
    {.name = "ones in front", .params = &ones, .n_in = 1, .in = {OD_I32_IN(2, 9, 6)}},
    {.name = "cut", .params = &cut, .n_in = 1, .in = {OD_F32_IN(-1, 1, 9, 5)}},
    {.name = "around nothing", .params = &frame, .n_in = 1, .in = {OD_F32_IN(-1, 1, 2, 0, 7, 3)}, .few = true},
};

const od_op od_op_pad = {
    .name = "pad", .help = "a constant put around, or cut away", .params = pad_params, .params_size = sizeof(od_pad_params),
    .min_in = 1, .max_in = 1, .n_out = 1, .flags = OD_OP_BF16, .infer = infer_pad, .ref = pad_ref, .grad = pad_back,
    .write_tf = pad_tf, OD_SAMPLES(pad_samples), .tolerance = 0,
};

/* ---------------------------------------------------------------------------------------------------------------- tile */
static const od_param tile_params[] = {OD_PARAM_IN(od_tile_params, multiples, OD_P_INTS, "how often along each axis", 0, 1e9), {0}};

od_value od_tile(od_graph *g, od_value x, od_ints multiples) {
  return od_graph_add(g, &od_op_tile, &x, 1, &(od_tile_params){multiples});
}

static od_status tile_shape(const od_infer *c, od_shape *out, const od_shape *x) {
  od_ints m = ((const od_tile_params *)c->params)->multiples;
  if (m.n != x->rank) return od_fail(OD_EINVAL, "%d multiples for %d dimensions", m.n, x->rank);
  *out = *x;
  for (int i = 0; i < x->rank; i++)
    if (x->dim[i] >= 0) out->dim[i] *= m.v[i];
  return OD_OK;
}

static od_status infer_tile(const od_infer *c) {
  c->out[0].dtype = c->in[0].dtype;
  return tile_shape(c, &c->out[0].shape, &c->in[0].shape);
}

/* Element of x behind position `at` of the tiled tensor. */
static int64_t tile_source(const od_walk *w, const od_shape *x, const int64_t *stride) {
  int64_t from = 0;
  for (int d = 0; d < x->rank; d++) from += w->at[d] % x->dim[d] * stride[d];
  return from;
}

static od_status tile_ref(const od_call *c) {
  int64_t stride[OD_MAX_RANK];
  size_t size = od_dtype_size(c->out[0].dtype);
  char *to = c->out[0].data;
  od_strides(stride, &c->in[0].shape);
  od_walk w;
  od_walk_start(&w, &c->out[0].shape);
  OD_WALK(w) {
    memcpy(to, (const char *)c->in[0].data + (size_t)tile_source(&w, &c->in[0].shape, stride) * size, size);
    to += size;
  }
  return OD_OK;
}

static od_status tile_back(od_grad *c) {
  c->din[0] = od_graph_add(c->graph, &od_op_tile_grad, (od_value[]){c->dout[0], c->node->in[0]}, 2, c->node->params);
  return OD_OK;
}

static od_status tile_tf(od_tf *t, const od_node *n) {
  const char *m = od_tf_ints(t, "multiples", ((const od_tile_params *)n->params)->multiples);
  od_tf_out(t, 0, od_tf_op(t, "Tile", NULL, od_type_of(n->in[0]).dtype, OD_TF_INPUTS(od_tf_in(t, 0), m)));
  od_tf_attr_type(t, "Tmultiples", OD_I32);
  return OD_OK;
}

static const od_tile_params twice = {OD_INTS(1, 2, 3)}, never = {OD_INTS(0)};
static const od_sample tile_samples[] = {
    {.name = "two axes", .params = &twice, .n_in = 1, .in = {OD_F32_IN(-1, 1, 2, 3, 5)}},
    {.name = "integers", .params = &twice, .n_in = 1, .in = {OD_I32_IN(1, 9, 2, 3, 5)}},
    {.name = "empty", .params = &never, .n_in = 1, .in = {OD_F32_IN(-1, 1, 5)}, .few = true},
};

const od_op od_op_tile = {
    .name = "tile", .help = "x repeated along its axes", .params = tile_params, .params_size = sizeof(od_tile_params), .min_in = 1,
    .max_in = 1, .n_out = 1, .infer = infer_tile, .ref = tile_ref, .grad = tile_back, .write_tf = tile_tf,
    OD_SAMPLES(tile_samples), .tolerance = 0,
};

static od_status infer_tile_grad(const od_infer *c) {
  od_shape y;
  OD_TRY(od_want(c, 0, OD_F32, -1));
  OD_TRY(tile_shape(c, &y, &c->in[1].shape));
  OD_TRY(od_merge_shape(c, &y, &y, &c->in[0].shape));
  c->out[0] = (od_type){OD_F32, c->in[1].shape};
  return OD_OK;
}

static size_t tile_grad_scratch(const od_infer *c) { return sizeof(double) * (size_t)od_shape_size(&c->out[0].shape); }

static od_status tile_grad_ref(const od_call *c) {
  int64_t stride[OD_MAX_RANK], n = od_tensor_size(&c->out[0]);
  const float *dy = c->in[0].data;
  double *acc = c->scratch;
  memset(acc, 0, sizeof *acc * (size_t)n);
  od_strides(stride, &c->out[0].shape);
  od_walk w;
  od_walk_start(&w, &c->in[0].shape);
  OD_WALK(w) acc[tile_source(&w, &c->out[0].shape, stride)] += *dy++;
  for (int64_t i = 0; i < n; i++) ((float *)c->out[0].data)[i] = (float)acc[i];
  return OD_OK;
}

static const od_sample tile_grad_samples[] = {
    {.name = "two axes", .params = &twice, .n_in = 2, .in = {OD_F32_IN(-1, 1, 2, 6, 15), OD_F32_IN(-1, 1, 2, 3, 5)}},
    {.name = "empty", .params = &never, .n_in = 2, .in = {OD_F32_IN(-1, 1, 0), OD_F32_IN(-1, 1, 5)}, .few = true},
};

const od_op od_op_tile_grad = {
    .name = "tile_grad", .help = "(dy, x's shape) -> dx, sums over the copies", .params = tile_params,
    .params_size = sizeof(od_tile_params), .min_in = 2, .max_in = 2, .n_out = 1, .infer = infer_tile_grad, .ref = tile_grad_ref,
    .scratch = tile_grad_scratch, .no_grad = OD_NO_SECOND, .no_tf = OD_NO_TF_TRAINING, OD_SAMPLES(tile_grad_samples),
    .tolerance = 1e-6,
};
