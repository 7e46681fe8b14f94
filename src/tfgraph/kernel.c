/* What kernels share: making outputs, reading small inputs, windows, the matrix product. */
#include "tfgraph/kernel.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

od_status tg_fail(const tg_call *c, const char *format, ...) {
  char text[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return od_fail(OD_EDATA, "node %s (%s): %s", c->node->name, c->node->op, text);
}

od_status tg_unsupported(const tg_call *c, od_dtype dtype) {
  return od_fail(OD_EUNSUPPORTED, "node %s (%s) computes with %s, which is not supported", c->node->name, c->node->op,
                 od_dtype_name(dtype));
}

od_status tg_new_out(tg_call *c, int i, od_dtype dtype, const od_shape *shape) {
  return od_fail_context(tg_value_new(c->graph, &c->out[i], dtype, shape), "node %s (%s)", c->node->name, c->node->op);
}

od_status tg_work(const tg_call *c, int64_t a, int64_t b) {
  return od_fail_context(tg_charge(c->graph, a > 0 ? a : 1, b > 0 ? b : 1), "node %s (%s)", c->node->name, c->node->op);
}

od_status tg_share_out(tg_call *c, int i, int k, const od_shape *shape) {
  int64_t cells;
  if (shape) OD_TRY(od_fail_context(tg_cells(&cells, shape), "node %s (%s)", c->node->name, c->node->op));
  c->out[i] = tg_value_share(c->in[k]);
  if (shape) c->out[i].t.shape = *shape;
  return OD_OK;
}

od_dtype tg_out_type(const tg_call *c, int i) {
  od_dtype dtype = OD_F32;
  (void)od_dtype_from_tf(&dtype, c->node->out_types[i]);
  return dtype;
}

od_status tg_ints(const tg_call *c, int k, int64_t *out, int max, int *n) {
  const od_tensor *t = tg_in(c, k);
  if (t->shape.rank > 1) return tg_fail(c, "input %d has rank %d, a list is needed", k, t->shape.rank);
  int64_t count = od_tensor_size(t);
  if (count > max) return tg_fail(c, "input %d has %lld values, at most %d are possible", k, (long long)count, max);
  *n = (int)count;
  for (int64_t i = 0; i < count; i++) {
    if (t->dtype == OD_I32)
      out[i] = ((const int32_t *)t->data)[i];
    else if (t->dtype == OD_I64)
      out[i] = ((const int64_t *)t->data)[i];
    else
      return tg_fail(c, "input %d is %s, integers are needed", k, od_dtype_name(t->dtype));
  }
  return OD_OK;
}

od_status tg_int(const tg_call *c, int k, int64_t *out) {
  int n;
  OD_TRY(tg_rank(c, k, 0));
  return tg_ints(c, k, out, 1, &n);
}

od_status tg_vector(const tg_call *c, int k, int64_t *out, int max, int *n) {
  OD_TRY(tg_rank(c, k, 1));
  return tg_ints(c, k, out, max, n);
}

od_status tg_float(const tg_call *c, int k, float *out) {
  const od_tensor *t = tg_in(c, k);
  OD_TRY(tg_rank(c, k, 0));
  if (t->dtype != OD_F32) return tg_fail(c, "input %d must be a float", k);
  *out = *(const float *)t->data;
  return OD_OK;
}

od_status tg_rank(const tg_call *c, int k, int rank) {
  char text[OD_SHAPE_TEXT];
  const od_shape *s = &tg_in(c, k)->shape;
  return s->rank == rank ? OD_OK : tg_fail(c, "input %d is %s, rank %d is needed", k, od_shape_text(text, s), rank);
}

od_status tg_axis(const tg_call *c, int64_t *axis, int rank) {
  if (*axis < -rank || *axis >= rank) return tg_fail(c, "axis %lld of a tensor of rank %d", (long long)*axis, rank);
  if (*axis < 0) *axis += rank;
  return OD_OK;
}

void tg_split_at(const od_shape *s, int axis, int64_t *outer, int64_t *n, int64_t *inner) {
  *outer = *inner = 1;
  for (int i = 0; i < axis; i++) *outer *= s->dim[i];
  *n = s->dim[axis];
  for (int i = axis + 1; i < s->rank; i++) *inner *= s->dim[i];
}

od_status tg_copy_elements(od_dtype dtype, void *to, const void *from, int64_t n) {
  if (n <= 0) return OD_OK;
  if (dtype != OD_STRING) {
    memcpy(to, from, (size_t)n * od_dtype_size(dtype));
    return OD_OK;
  }
  od_tensor t = {OD_STRING, OD_SHAPE(n), to};
  const od_bytes *b = from;
  for (int64_t i = 0; i < n; i++) OD_TRY(od_tensor_set_bytes(&t, i, b[i].data, b[i].size));
  return OD_OK;
}

enum { WINDOW_MAX = 1 << 14 };

od_status tg_window(const tg_call *c, int axis, int64_t in, int64_t filter, int64_t stride, int64_t dilation,
                    int64_t *out, int64_t *before) {
  if (filter < 1 || stride < 1 || dilation < 1) return tg_fail(c, "filter, strides and dilations must be positive");
  if (filter > WINDOW_MAX || stride > WINDOW_MAX || dilation > WINDOW_MAX || in > (int64_t)1 << 48)
    return tg_fail(c, "a window of %lld every %lld pixels with dilation %lld", (long long)filter, (long long)stride,
                   (long long)dilation);
  int64_t reach = (filter - 1) * dilation + 1;
  if (tg_attr_is(c->node, "padding", "SAME")) {
    *out = (in + stride - 1) / stride;
    int64_t pad = (*out - 1) * stride + reach - in;
    *before = pad > 0 ? pad / 2 : 0;
  } else if (tg_attr_is(c->node, "padding", "VALID")) {
    *out = in >= reach ? (in - reach) / stride + 1 : 0;
    *before = 0;
  } else if (tg_attr_is(c->node, "padding", "EXPLICIT")) {
    int64_t p[8];
    if (tg_attr_ints(c->node, "explicit_paddings", p, 8) != 8)
      return tg_fail(c, "explicit_paddings must hold 8 numbers");
    *before = p[2 + 2 * axis];
    if (p[2 + 2 * axis] < 0 || p[3 + 2 * axis] < 0 || p[2 + 2 * axis] > WINDOW_MAX || p[3 + 2 * axis] > WINDOW_MAX)
      return tg_fail(c, "a negative padding, or an impossible one");
    int64_t padded = in + p[2 + 2 * axis] + p[3 + 2 * axis];
    *out = padded >= reach ? (padded - reach) / stride + 1 : 0;
  } else {
    return tg_fail(c, "padding must be SAME, VALID or EXPLICIT");
  }
  return OD_OK;
}

void tg_strides(const od_shape *s, int64_t *out) {
  int64_t n = 1;
  for (int i = s->rank - 1; i >= 0; i--) {
    out[i] = n;
    n *= s->dim[i];
  }
}

od_status tg_copy_nd(od_dtype dtype, void *out, const int64_t *so, const void *in, const int64_t *si, int rank,
                     const int64_t *dim) {
  size_t size = od_dtype_size(dtype);
  int64_t at[OD_MAX_RANK] = {0}, o = 0, i = 0;
  for (int k = 0; k < rank; k++)
    if (dim[k] <= 0) return OD_OK;
  int last = rank - 1;
  int64_t n = rank ? dim[last] : 1;
  bool dense = rank == 0 || (so[last] == 1 && si[last] == 1);
  for (;;) {
    char *to = (char *)out + o * (int64_t)size;
    const char *from = (const char *)in + i * (int64_t)size;
    if (dense) {
      OD_TRY(tg_copy_elements(dtype, to, from, n));
    } else if (size == 4) {
      for (int64_t k = 0; k < n; k++) memcpy(to + k * so[last] * 4, from + k * si[last] * 4, 4);
    } else {
      for (int64_t k = 0; k < n; k++)
        OD_TRY(tg_copy_elements(dtype, to + k * so[last] * (int64_t)size, from + k * si[last] * (int64_t)size, 1));
    }
    int k = last - 1;
    for (; k >= 0; k--) {
      o += so[k];
      i += si[k];
      if (++at[k] < dim[k]) break;
      o -= so[k] * dim[k];
      i -= si[k] * dim[k];
      at[k] = 0;
    }
    if (k < 0) return OD_OK;
  }
}
