/* Shape rules, walks and TensorFlow pieces shared by the ops; see common.h. */
#include "ops/common.h"

#include <string.h>

#include "ops/math.h"

/* ---------------------------------------------------------------------------------------------------------- inference */
od_status od_infer_same(const od_infer *c) {
  c->out[0] = c->in[0];
  return OD_OK;
}

od_status od_want(const od_infer *c, int i, od_dtype dtype, int rank) {
  const od_type *t = &c->in[i];
  if (t->dtype != dtype)
    return od_fail(OD_EINVAL, "input %d is %s, it must be %s", i, od_dtype_name(t->dtype), od_dtype_name(dtype));
  if (rank >= 0 && t->shape.rank != rank) {
    char text[OD_SHAPE_TEXT];
    return od_fail(OD_EINVAL, "input %d has shape %s, it must have %d dimensions", i, od_shape_text(text, &t->shape), rank);
  }
  return OD_OK;
}

od_status od_infer_float(const od_infer *c) {
  for (int i = 0; i < c->n_in; i++)
    if (c->present[i]) OD_TRY(od_want(c, i, OD_F32, -1));
  c->out[0] = c->in[0];
  return OD_OK;
}

od_status od_infer_float_alike(const od_infer *c) {
  OD_TRY(od_infer_float(c));
  for (int i = 1; i < c->n_in; i++)
    if (c->present[i]) OD_TRY(od_merge_shape(c, &c->out[0].shape, &c->out[0].shape, &c->in[i].shape));
  return OD_OK;
}

od_status od_want_dim(const od_infer *c, int i, int d, int64_t v) {
  int64_t have = c->in[i].shape.dim[d];
  if (have < 0 || v < 0 || have == v) return OD_OK;
  char text[OD_SHAPE_TEXT];
  return od_fail(OD_EINVAL, "input %d has shape %s, dimension %d must be %lld", i, od_shape_text(text, &c->in[i].shape), d,
                 (long long)v);
}

od_status od_merge_dim(const od_infer *c, int64_t *out, int64_t a, int64_t b) {
  (void)c;
  if (a >= 0 && b >= 0 && a != b)
    return od_fail(OD_EINVAL, "dimensions %lld and %lld must be equal", (long long)a, (long long)b);
  *out = a >= 0 ? a : b;
  return OD_OK;
}

od_status od_merge_shape(const od_infer *c, od_shape *out, const od_shape *a, const od_shape *b) {
  char ta[OD_SHAPE_TEXT], tb[OD_SHAPE_TEXT];
  od_shape merged = *a;
  bool fits = a->rank == b->rank;
  for (int i = 0; fits && i < a->rank; i++) fits = od_merge_dim(c, &merged.dim[i], a->dim[i], b->dim[i]) == OD_OK;
  if (!fits) return od_fail(OD_EINVAL, "shapes %s and %s must be equal", od_shape_text(ta, a), od_shape_text(tb, b));
  *out = merged;
  return OD_OK;
}

/* Dimension d of a broadcast result of that rank in a shape: 1 where the shape has none. */
static int64_t dim_in(const od_shape *s, int d, int rank) {
  int k = d - (rank - s->rank);
  return k < 0 ? 1 : s->dim[k];
}

static od_status broadcast_dim(const od_infer *c, int64_t *out, int n, int d, int rank) {
  int64_t known = 1; /* the size that is neither 1 nor unknown, if there is one */
  int64_t unknown_as = -1; /* what a dimension unknown in the graph became in this run */
  bool unknown = false;
  for (int i = 0; i < n; i++) {
    int64_t v = dim_in(&c->in[i].shape, d, rank);
    od_shape logical = c->node && od_has(c->node->in[i]) ? od_type_of(c->node->in[i]).shape : c->in[i].shape;
    if (v >= 0 && logical.rank == c->in[i].shape.rank && dim_in(&logical, d, rank) < 0) {
      if (unknown_as >= 0 && unknown_as != v)
        return od_fail(OD_EINVAL, "dimension %d was unknown in two inputs and is now %lld and %lld: they must be equal", d,
                       (long long)unknown_as, (long long)v);
      unknown_as = v;
    }
    if (v < 0) unknown = true;
    else if (v != 1 && known != 1 && v != known)
      return od_fail(OD_EINVAL, "dimension %d is %lld and %lld: neither equal nor 1", d, (long long)known, (long long)v);
    else if (v != 1) known = v;
  }
  *out = known != 1 ? known : unknown ? -1 : 1;
  return OD_OK;
}

od_status od_infer_broadcast(const od_infer *c, od_shape *out, int n) {
  int rank = 0;
  for (int i = 0; i < n; i++)
    if (c->in[i].shape.rank > rank) rank = c->in[i].shape.rank;
  od_shape s = {rank, {0}};
  for (int d = 0; d < rank; d++) {
    od_status st = broadcast_dim(c, &s.dim[d], n, d, rank);
    if (st == OD_OK) continue;
    char a[OD_SHAPE_TEXT], b[OD_SHAPE_TEXT];
    return od_fail_context(st, "shapes %s and %s do not broadcast", od_shape_text(a, &c->in[0].shape),
                           od_shape_text(b, &c->in[n - 1].shape));
  }
  *out = s;
  return OD_OK;
}

od_status od_axis(const od_infer *c, int *out, int64_t axis, int rank) {
  (void)c;
  if (axis < -rank || axis >= rank) return od_fail(OD_EINVAL, "there is no axis %lld in %d dimensions", (long long)axis, rank);
  *out = od_axis_at(axis, rank);
  return OD_OK;
}

od_status od_axes_mask(const od_infer *c, bool *marks, od_ints axes, int rank) {
  for (int i = 0; i < rank; i++) marks[i] = axes.n == 0;
  for (int i = 0; i < axes.n; i++) {
    int a;
    OD_TRY(od_axis(c, &a, axes.v[i], rank));
    if (marks[a]) return od_fail(OD_EINVAL, "axis %d is named twice", a);
    marks[a] = true;
  }
  return OD_OK;
}

/* ----------------------------------------------------------------------------------------------------------- gradients */
od_status od_grad_nothing(od_grad *c) {
  (void)c; /* din stays absent */
  return OD_OK;
}

od_value od_unbroadcast(od_graph *g, od_value d, od_value like) {
  od_type a = od_type_of(d), b = od_type_of(like);
  return od_shape_equal(&a.shape, &b.shape) ? d : od_sum_like(g, d, like);
}

/* ----------------------------------------------------------------------------------------------------------- reference */
void od_strides(int64_t *stride, const od_shape *s) {
  int64_t step = 1;
  for (int i = s->rank - 1; i >= 0; i--) {
    stride[i] = step;
    step *= s->dim[i];
  }
}

int64_t od_dims(const od_shape *s, int from, int to) {
  int64_t n = 1;
  for (int i = from; i < to; i++) n *= s->dim[i];
  return n;
}

void od_walk_start(od_walk *w, const od_shape *shape) {
  memset(w, 0, sizeof *w);
  w->rank = shape->rank;
  memcpy(w->dim, shape->dim, sizeof w->dim);
  w->left = od_shape_size(shape);
}

void od_walk_with(od_walk *w, int k, const od_shape *s) {
  int64_t step = 1;
  for (int d = w->rank - 1; d >= 0; d--) {
    int i = d - (w->rank - s->rank);
    int64_t size = i < 0 ? 1 : s->dim[i];
    w->stride[k][d] = size == 1 ? 0 : step;
    step *= size;
  }
}

void od_walk_strides(od_walk *w, int k, const int64_t *stride) {
  memcpy(w->stride[k], stride, sizeof *stride * (size_t)w->rank);
}

bool od_walk_next(od_walk *w) {
  if (--w->left <= 0) return false;
  for (int d = w->rank - 1; d >= 0; d--) {
    for (int k = 0; k < 3; k++) w->off[k] += w->stride[k][d];
    if (++w->at[d] < w->dim[d]) return true;
    for (int k = 0; k < 3; k++) w->off[k] -= w->stride[k][d] * w->dim[d];
    w->at[d] = 0;
  }
  return true;
}

od_status od_ref_copy(const od_call *c) {
  size_t n = od_tensor_bytes(&c->in[0]);
  if (n && c->out[0].data != c->in[0].data) memcpy(c->out[0].data, c->in[0].data, n);
  return OD_OK;
}

/* ---------------------------------------------------------------------------------------------------------- TensorFlow */
const char *od_tf_op(od_tf *t, const char *op, const char *suffix, od_dtype type, const char *const *inputs) {
  const char *name = od_tf_add(t, op, suffix, inputs);
  od_tf_attr_type(t, "T", type);
  return name;
}

od_status od_tf_same(od_tf *t, const od_node *n, const char *op) {
  enum { MANY = 8 };
  const char *in[MANY + 1] = {NULL};
  OD_ASSERT(n->n_in <= MANY);
  for (int i = 0; i < n->n_in; i++) in[i] = od_tf_in(t, i);
  od_tf_out(t, 0, od_tf_op(t, op, NULL, od_type_of(n->in[0]).dtype, in));
  return OD_OK;
}

const char *od_tf_shape_of(od_tf *t, const char *suffix, const char *tensor, od_dtype type) {
  const char *name = od_tf_op(t, "Shape", suffix, type, OD_TF_INPUTS(tensor));
  od_tf_attr_type(t, "out_type", OD_I32);
  return name;
}

const char *od_tf_element(od_tf *t, const char *suffix, const char *vector, int i) {
  const char *begin = od_tf_const_i32s(t, "begin", (const int32_t[]){i}, 1);
  const char *end = od_tf_const_i32s(t, "end", (const int32_t[]){i + 1}, 1);
  const char *step = od_tf_const_i32s(t, "strides", (const int32_t[]){1}, 1);
  const char *name = od_tf_op(t, "StridedSlice", suffix, OD_I32, OD_TF_INPUTS(vector, begin, end, step));
  od_tf_attr_type(t, "Index", OD_I32);
  od_tf_attr_int(t, "begin_mask", 0);
  od_tf_attr_int(t, "end_mask", 0);
  od_tf_attr_int(t, "ellipsis_mask", 0);
  od_tf_attr_int(t, "new_axis_mask", 0);
  od_tf_attr_int(t, "shrink_axis_mask", 1);
  return name;
}

const char *od_tf_stack(od_tf *t, const char *suffix, const char *const *scalars, int n) {
  const char *in[OD_MAX_RANK + 1] = {NULL};
  OD_ASSERT(n <= OD_MAX_RANK);
  for (int i = 0; i < n; i++) in[i] = scalars[i];
  const char *name = od_tf_op(t, "Pack", suffix, OD_I32, in);
  od_tf_attr_int(t, "N", n);
  od_tf_attr_int(t, "axis", 0);
  return name;
}

const char *od_tf_ints(od_tf *t, const char *suffix, od_ints v) {
  int32_t list[2 * OD_MAX_RANK] = {0};
  OD_ASSERT(v.n <= 2 * OD_MAX_RANK);
  for (int i = 0; i < v.n; i++) list[i] = (int32_t)v.v[i];
  return od_tf_const_i32s(t, suffix, list, v.n);
}

const char *od_tf_cast(od_tf *t, const char *suffix, const char *tensor, od_dtype from, od_dtype to) {
  const char *name = od_tf_add(t, "Cast", suffix, OD_TF_INPUTS(tensor));
  od_tf_attr_type(t, "SrcT", from);
  od_tf_attr_type(t, "DstT", to);
  return name;
}
