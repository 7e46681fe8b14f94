/* reshape, reshape_like, expand_dims, squeeze, stop_gradient: the same numbers under another shape or name. All are views:
 * engines may give out input 0's memory; the reference copies. */
#include "ops/common.h"
#include "ops/math.h"
#include "ops/table.h"

/* ------------------------------------------------------------------------------------------------------------- reshape */
static const od_param reshape_params[] = {
    OD_PARAM_IN(od_reshape_params, dims, OD_P_INTS, "sizes; 0: as in the input, -1: what remains", -1, 1e12), {0}};

od_value od_reshape(od_graph *g, od_value x, od_ints dims) {
  return od_graph_add(g, &od_op_reshape, &x, 1, &(od_reshape_params){dims});
}

/* Product of the known dimensions; *unknown counts the others. */
static int64_t known_size(const od_shape *s, int *unknown) {
  int64_t n = 1;
  *unknown = 0;
  for (int i = 0; i < s->rank; i++) {
    if (s->dim[i] < 0) (*unknown)++;
    else n *= s->dim[i];
  }
  return n;
}

/* Dimensions of x that are unknown and not copied at their place: what the -1 must take up. */
static od_status infer_rest(const od_infer *c, od_shape *out, int at) {
  const od_shape *x = &c->in[0].shape;
  const od_reshape_params *p = c->params;
  int64_t have = 1, taken = 1;
  bool unknown = false;
  for (int i = 0; i < x->rank; i++) {
    bool copied = i < p->dims.n && p->dims.v[i] == 0;
    if (copied) continue; /* stands on both sides */
    if (x->dim[i] < 0) unknown = true;
    else have *= x->dim[i];
  }
  for (int i = 0; i < p->dims.n; i++)
    if (p->dims.v[i] > 0) taken *= p->dims.v[i];
  if (unknown) return OD_OK;
  if (taken == 0 || have % taken) return od_fail(OD_EINVAL, "%lld elements are not a multiple of %lld", (long long)have, (long long)taken);
  out->dim[at] = have / taken;
  return OD_OK;
}

static od_status infer_reshape(const od_infer *c) {
  const od_shape *x = &c->in[0].shape;
  const od_reshape_params *p = c->params;
  char text[OD_SHAPE_TEXT];
  if (p->dims.n > OD_MAX_RANK) return od_fail(OD_EINVAL, "%d dimensions, at most %d", p->dims.n, OD_MAX_RANK);
  od_shape s = {p->dims.n, {0}};
  int rest = -1;
  for (int i = 0; i < p->dims.n; i++) {
    s.dim[i] = p->dims.v[i];
    if (p->dims.v[i] == 0) {
      if (i >= x->rank) return od_fail(OD_EINVAL, "dimension %d is to be copied from %s", i, od_shape_text(text, x));
      s.dim[i] = x->dim[i];
    } else if (p->dims.v[i] == -1) {
      if (rest >= 0) return od_fail(OD_EINVAL, "-1 stands at %d and %d", rest, i);
      rest = i;
    }
  }
  if (rest >= 0) OD_TRY(od_fail_context(infer_rest(c, &s, rest), "input %s", od_shape_text(text, x)));
  int ux, us;
  int64_t nx = known_size(x, &ux), ns = known_size(&s, &us);
  if (!ux && !us && nx != ns)
    return od_fail(OD_EINVAL, "%s has %lld elements, the new shape has %lld", od_shape_text(text, x), (long long)nx, (long long)ns);
  c->out[0] = (od_type){c->in[0].dtype, s};
  return OD_OK;
}

static od_status reshape_back(od_grad *c) {
  c->din[0] = od_reshape_like(c->graph, c->dout[0], c->node->in[0]);
  return OD_OK;
}

/* Known sizes are constants; a copied unknown one comes from the Shape of the input. */
static od_status reshape_tf(od_tf *t, const od_node *n) {
  const od_reshape_params *p = n->params;
  od_type x = od_type_of(n->in[0]);
  int32_t dims[OD_MAX_RANK];
  bool all_known = true;
  for (int i = 0; i < p->dims.n; i++) {
    dims[i] = (int32_t)(p->dims.v[i] ? p->dims.v[i] : x.shape.dim[i]);
    if (p->dims.v[i] == 0 && x.shape.dim[i] < 0) all_known = false;
  }
  const char *shape;
  if (all_known) {
    shape = od_tf_const_i32s(t, "shape", dims, p->dims.n);
  } else {
    const char *of = od_tf_shape_of(t, "Shape", od_tf_in(t, 0), x.dtype), *size[OD_MAX_RANK];
    for (int i = 0; i < p->dims.n; i++) {
      bool copied = p->dims.v[i] == 0 && x.shape.dim[i] < 0;
      size[i] = copied ? od_tf_element(t, "strided_slice", of, i) : od_tf_const_i32(t, "size", dims[i]);
    }
    shape = od_tf_stack(t, "shape", size, p->dims.n);
  }
  od_tf_out(t, 0, od_tf_op(t, "Reshape", NULL, x.dtype, OD_TF_INPUTS(od_tf_in(t, 0), shape)));
  od_tf_attr_type(t, "Tshape", OD_I32);
  return OD_OK;
}

static const od_reshape_params flat = {OD_INTS(-1)}, boxes = {OD_INTS(0, -1, 1, 4)}, fixed = {OD_INTS(6, 35)},
                               scalar = {{0, NULL}}, nothing = {OD_INTS(0, 12)};
static const od_sample reshape_samples[] = {
    {.name = "flat", .params = &flat, .n_in = 1, .in = {OD_F32_IN(-1, 1, 2, 5, 7)}},
    {.name = "box predictions", .params = &boxes, .n_in = 1, .in = {OD_F32_IN(-1, 1, 2, 5, 7, 24)}},
    {.name = "all sizes given", .params = &fixed, .n_in = 1, .in = {OD_F32_IN(-1, 1, 2, 15, 7)}},
    {.name = "to a scalar", .params = &scalar, .n_in = 1, .in = {OD_I32_IN(1, 9, 1, 1)}},
    {.name = "empty", .params = &nothing, .n_in = 1, .in = {OD_F32_IN(-1, 1, 0, 3, 4)}, .few = true},
};

const od_op od_op_reshape = {
    .name = "reshape", .help = "x under another shape", .params = reshape_params, .params_size = sizeof(od_reshape_params),
    .min_in = 1, .max_in = 1, .n_out = 1, .flags = OD_OP_VIEW, .alias = {1}, .infer = infer_reshape, .ref = od_ref_copy,
    .grad = reshape_back, .write_tf = reshape_tf, OD_SAMPLES(reshape_samples), .tolerance = 0,
};

/* -------------------------------------------------------------------------------------------------------- reshape_like */
od_value od_reshape_like(od_graph *g, od_value x, od_value like) {
  return od_graph_add(g, &od_op_reshape_like, (od_value[]){x, like}, 2, NULL);
}

static od_status infer_reshape_like(const od_infer *c) {
  int ux, ul;
  int64_t nx = known_size(&c->in[0].shape, &ux), nl = known_size(&c->in[1].shape, &ul);
  char a[OD_SHAPE_TEXT], b[OD_SHAPE_TEXT];
  if (!ux && !ul && nx != nl)
    return od_fail(OD_EINVAL, "shape %s has not as many elements as %s", od_shape_text(a, &c->in[0].shape),
                   od_shape_text(b, &c->in[1].shape));
  c->out[0] = (od_type){c->in[0].dtype, c->in[1].shape};
  return OD_OK;
}

static od_status reshape_like_tf(od_tf *t, const od_node *n) {
  const char *shape = od_tf_shape_of(t, "Shape", od_tf_in(t, 1), od_type_of(n->in[1]).dtype);
  od_tf_out(t, 0, od_tf_op(t, "Reshape", NULL, od_type_of(n->in[0]).dtype, OD_TF_INPUTS(od_tf_in(t, 0), shape)));
  od_tf_attr_type(t, "Tshape", OD_I32);
  return OD_OK;
}

static const od_sample reshape_like_samples[] = {
    {.name = "flat to map", .n_in = 2, .in = {OD_F32_IN(-1, 1, 70), OD_F32_IN(-1, 1, 2, 5, 7)}},
    {.name = "empty", .n_in = 2, .in = {OD_F32_IN(-1, 1, 0), OD_F32_IN(-1, 1, 2, 0, 7)}, .few = true},
};

const od_op od_op_reshape_like = {
    .name = "reshape_like", .help = "(x, like): x under the shape of like", .min_in = 2, .max_in = 2, .n_out = 1,
    .flags = OD_OP_VIEW, .alias = {1}, .infer = infer_reshape_like, .ref = od_ref_copy, .grad = reshape_back,
    .write_tf = reshape_like_tf, OD_SAMPLES(reshape_like_samples), .tolerance = 0,
};

/* ------------------------------------------------------------------------------------------------ expand_dims, squeeze */
static const od_param axes_params[] = {OD_PARAM(od_axes_params, axes, OD_P_INTS, "axes of size 1"), {0}};

od_value od_expand_dims(od_graph *g, od_value x, od_ints axes) {
  return od_graph_add(g, &od_op_expand_dims, &x, 1, &(od_axes_params){axes});
}
od_value od_squeeze(od_graph *g, od_value x, od_ints axes) {
  return od_graph_add(g, &od_op_squeeze, &x, 1, &(od_axes_params){axes});
}

static od_status infer_expand(const od_infer *c) {
  const od_axes_params *p = c->params;
  const od_shape *x = &c->in[0].shape;
  int rank = x->rank + p->axes.n;
  bool mark[OD_MAX_RANK] = {false};
  if (rank > OD_MAX_RANK || p->axes.n < 1) return od_fail(OD_EINVAL, "%d axes put into %d dimensions", p->axes.n, x->rank);
  OD_TRY(od_axes_mask(c, mark, p->axes, rank));
  od_shape s = {rank, {0}};
  for (int i = 0, k = 0; i < rank; i++) s.dim[i] = mark[i] ? 1 : x->dim[k++];
  c->out[0] = (od_type){c->in[0].dtype, s};
  return OD_OK;
}

static od_status infer_squeeze(const od_infer *c) {
  const od_axes_params *p = c->params;
  const od_shape *x = &c->in[0].shape;
  bool mark[OD_MAX_RANK] = {false};
  if (p->axes.n < 1) return od_fail(OD_EINVAL, "no axes are named");
  OD_TRY(od_axes_mask(c, mark, p->axes, x->rank));
  od_shape s = {0, {0}};
  for (int i = 0; i < x->rank; i++) {
    if (!mark[i]) s.dim[s.rank++] = x->dim[i];
    else if (x->dim[i] >= 0 && x->dim[i] != 1) return od_fail(OD_EINVAL, "axis %d has size %lld, not 1", i, (long long)x->dim[i]);
  }
  c->out[0] = (od_type){c->in[0].dtype, s};
  return OD_OK;
}

static od_status expand_back(od_grad *c) {
  c->din[0] = od_squeeze(c->graph, c->dout[0], ((const od_axes_params *)c->node->params)->axes);
  return OD_OK;
}

/* The axes are those of x, which is what expand_dims counts in too. */
static od_status squeeze_back(od_grad *c) {
  od_ints axes = ((const od_axes_params *)c->node->params)->axes;
  int64_t v[OD_MAX_RANK];
  for (int i = 0; i < axes.n; i++) v[i] = od_axis_at(axes.v[i], od_type_of(c->node->in[0]).shape.rank);
  c->din[0] = od_expand_dims(c->graph, c->dout[0], (od_ints){axes.n, v});
  return OD_OK;
}

/* One ExpandDims an axis, lowest first, so that each finds its place. */
static od_status expand_tf(od_tf *t, const od_node *n) {
  const od_axes_params *p = n->params;
  od_dtype type = od_type_of(n->in[0]).dtype;
  const char *x = od_tf_in(t, 0);
  int rank = od_type_of((od_value){(od_node *)(uintptr_t)n, 0}).shape.rank, left = p->axes.n;
  for (int i = 0; i < rank; i++)
    for (int k = 0; k < p->axes.n; k++) {
      if (od_axis_at(p->axes.v[k], rank) != i) continue;
      x = od_tf_op(t, "ExpandDims", --left ? "expand" : NULL, type, OD_TF_INPUTS(x, od_tf_const_i32(t, "dim", i)));
      od_tf_attr_type(t, "Tdim", OD_I32);
    }
  od_tf_out(t, 0, x);
  return OD_OK;
}

static od_status squeeze_tf(od_tf *t, const od_node *n) {
  const od_axes_params *p = n->params;
  int rank = od_type_of(n->in[0]).shape.rank;
  int64_t v[OD_MAX_RANK];
  for (int i = 0; i < p->axes.n; i++) v[i] = od_axis_at(p->axes.v[i], rank);
  OD_TRY(od_tf_same(t, n, "Squeeze"));
  od_tf_attr_ints(t, "squeeze_dims", v, p->axes.n);
  return OD_OK;
}

static const od_axes_params first = {OD_INTS(0)}, inner = {OD_INTS(-2, 1)};
static const od_sample expand_samples[] = {
    {.name = "first", .params = &first, .n_in = 1, .in = {OD_F32_IN(-1, 1, 5, 7)}},
    {.name = "two", .params = &inner, .n_in = 1, .in = {OD_F32_IN(-1, 1, 5, 7)}},
    {.name = "empty", .params = &first, .n_in = 1, .in = {OD_F32_IN(-1, 1, 0)}, .few = true},
};
static const od_sample squeeze_samples[] = {
    {.name = "first", .params = &first, .n_in = 1, .in = {OD_F32_IN(-1, 1, 1, 5, 7)}},
    {.name = "two", .params = &inner, .n_in = 1, .in = {OD_F32_IN(-1, 1, 5, 1, 1, 7)}},
    {.name = "empty", .params = &first, .n_in = 1, .in = {OD_F32_IN(-1, 1, 1, 0)}, .few = true},
};

#define AXES_OP(name_, help_, part)                                                                                   \
  const od_op od_op_##name_ = {                                                                                       \
      .name = #name_, .help = help_, .params = axes_params, .params_size = sizeof(od_axes_params), .min_in = 1,       \
      .max_in = 1, .n_out = 1, .flags = OD_OP_VIEW, .alias = {1}, .infer = infer_##part, .ref = od_ref_copy,          \
      .grad = part##_back, .write_tf = part##_tf, OD_SAMPLES(part##_samples), .tolerance = 0,                         \
  }
AXES_OP(expand_dims, "dimensions of size 1 put in", expand);
AXES_OP(squeeze, "dimensions of size 1 taken away", squeeze);

/* ------------------------------------------------------------------------------------------------------- stop_gradient */
od_value od_stop_gradient(od_graph *g, od_value x) { return od_graph_add(g, &od_op_stop_gradient, &x, 1, NULL); }

static od_status identity_tf(od_tf *t, const od_node *n) { return od_tf_same(t, n, "Identity"); }

static const od_sample stop_samples[] = {
    /* its gradient is not that of the function it computes: that is its purpose */
    {.name = "floats", .n_in = 1, .in = {OD_F32_IN(-1, 1, 5, 7)}, .no_grad = true},
    {.name = "integers", .n_in = 1, .in = {OD_I32_IN(1, 9, 5, 7)}},
};

const od_op od_op_stop_gradient = {
    .name = "stop_gradient", .help = "x, and nothing flows back", .min_in = 1, .max_in = 1, .n_out = 1, .flags = OD_OP_VIEW,
    .alias = {1}, .infer = od_infer_same, .ref = od_ref_copy, .grad = od_grad_nothing, .write_tf = identity_tf,
    OD_SAMPLES(stop_samples), .tolerance = 0,
};
