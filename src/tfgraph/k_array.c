/* Shapes and the moving of whole tensors: reshape, pack, concat, split, tile, transpose, pad. */
#include <string.h>

#include "tfgraph/kernel.h"

/* Integers as an output of type int32 or int64. */
static od_status put_ints(tg_call *c, int i, const int64_t *v, int64_t n, bool scalar) {
  od_dtype dtype = tg_out_type(c, i);
  if (dtype != OD_I32 && dtype != OD_I64) return tg_unsupported(c, dtype);
  od_shape s = scalar ? OD_SCALAR : OD_SHAPE(n);
  OD_TRY(tg_new_out(c, i, dtype, &s));
  for (int64_t k = 0; k < n; k++) {
    if (dtype == OD_I64)
      ((int64_t *)c->out[i].t.data)[k] = v[k];
    else if (v[k] > INT32_MAX)
      return tg_fail(c, "%lld does not fit into int32", (long long)v[k]);
    else
      ((int32_t *)c->out[i].t.data)[k] = (int32_t)v[k];
  }
  return OD_OK;
}

static od_status shape_run(tg_call *c) {
  for (int i = 0; i < c->n_out; i++) OD_TRY(put_ints(c, i, tg_in(c, i)->shape.dim, tg_in(c, i)->shape.rank, false));
  return OD_OK;
}

static od_status size_run(tg_call *c) {
  int64_t n = od_tensor_size(tg_in(c, 0));
  return put_ints(c, 0, &n, 1, true);
}

static od_status rank_run(tg_call *c) {
  int64_t n = tg_in(c, 0)->shape.rank;
  return put_ints(c, 0, &n, 1, true);
}

static od_status reshape_run(tg_call *c) {
  const od_tensor *x = tg_in(c, 0);
  od_shape s;
  int n, unknown = -1;
  OD_TRY(tg_ints(c, 1, s.dim, OD_MAX_RANK, &n));
  s.rank = n;
  int64_t have = od_tensor_size(x), known = 1;
  char text[OD_SHAPE_TEXT];
  for (int i = 0; i < n; i++) {
    size_t product;
    if (s.dim[i] == -1 && unknown < 0) {
      unknown = i;
      continue;
    }
    if (s.dim[i] < 0) return tg_fail(c, "an impossible new shape %s", od_shape_text(text, &s));
    if (!od_mul_ok(&product, (size_t)known, (size_t)s.dim[i]) || product > (size_t)INT64_MAX)
      return tg_fail(c, "a new shape that is too large");
    known = (int64_t)product;
  }
  if (unknown >= 0) {
    if (known == 0 || have % known)
      return tg_fail(c, "%lld values do not fit into %s", (long long)have, od_shape_text(text, &s));
    s.dim[unknown] = have / known;
    known = have;
  }
  if (known != have) return tg_fail(c, "%lld values do not fit into %s", (long long)have, od_shape_text(text, &s));
  return tg_share_out(c, 0, 0, &s);
}

static od_status squeeze_run(tg_call *c) {
  const od_shape *s = &tg_in(c, 0)->shape;
  int64_t axes[OD_MAX_RANK];
  bool drop[OD_MAX_RANK] = {false};
  int n = tg_attr_ints(c->node, "squeeze_dims", axes, OD_MAX_RANK);
  if (n > OD_MAX_RANK) return tg_fail(c, "%d axes", n);
  for (int i = 0; i < n; i++) {
    OD_TRY(tg_axis(c, &axes[i], s->rank));
    if (s->dim[axes[i]] != 1)
      return tg_fail(c, "dimension %lld is %lld, not 1", (long long)axes[i], (long long)s->dim[axes[i]]);
    drop[axes[i]] = true;
  }
  od_shape out = {0};
  for (int i = 0; i < s->rank; i++)
    if (!(n ? drop[i] : s->dim[i] == 1)) out.dim[out.rank++] = s->dim[i];
  return tg_share_out(c, 0, 0, &out);
}

static od_status expand_dims_run(tg_call *c) {
  const od_shape *s = &tg_in(c, 0)->shape;
  int64_t axis;
  int n;
  OD_TRY(tg_ints(c, 1, &axis, 1, &n)); /* TensorFlow takes a list of one, too */
  if (n != 1) return tg_fail(c, "no axis");
  OD_TRY(tg_axis(c, &axis, s->rank + 1));
  if (s->rank == OD_MAX_RANK) return tg_fail(c, "rank above %d", OD_MAX_RANK);
  od_shape out = {.rank = s->rank + 1};
  for (int i = 0; i < out.rank; i++) out.dim[i] = i == axis ? 1 : s->dim[i - (i > axis)];
  return tg_share_out(c, 0, 0, &out);
}

static od_status shape_from(const tg_call *c, int k, od_shape *s) {
  OD_TRY(tg_vector(c, k, s->dim, OD_MAX_RANK, &s->rank));
  for (int i = 0; i < s->rank; i++)
    if (s->dim[i] < 0) return tg_fail(c, "a negative dimension: %lld", (long long)s->dim[i]);
  return OD_OK;
}

static od_status fill_run(tg_call *c) {
  od_shape s;
  OD_TRY(shape_from(c, 0, &s));
  const od_tensor *v = tg_in(c, 1);
  OD_TRY(tg_rank(c, 1, 0));
  OD_TRY(tg_new_out(c, 0, v->dtype, &s));
  size_t size = od_dtype_size(v->dtype);
  for (int64_t i = 0, n = od_shape_size(&s); i < n; i++)
    OD_TRY(tg_copy_elements(v->dtype, (char *)c->out[0].t.data + (size_t)i * size, v->data, 1));
  return OD_OK;
}

static od_status range_run(tg_call *c) {
  enum { RANGE_MAX = 1 << 28 };
  od_dtype dtype = tg_out_type(c, 0);
  if (dtype == OD_F32) {
    float from, to, step;
    OD_TRY(tg_float(c, 0, &from));
    OD_TRY(tg_float(c, 1, &to));
    OD_TRY(tg_float(c, 2, &step));
    double count = ((double)to - (double)from) / (double)step;
    if (!(count < RANGE_MAX) || step == 0) return tg_fail(c, "an impossible range");
    int64_t n = count > 0 ? (int64_t)count + ((double)(int64_t)count < count) : 0;
    OD_TRY(tg_new_out(c, 0, dtype, &OD_SHAPE(n)));
    float v = from;
    for (int64_t i = 0; i < n; i++, v += step) ((float *)c->out[0].t.data)[i] = v;
    return OD_OK;
  }
  int64_t from, to, step;
  OD_TRY(tg_int(c, 0, &from));
  OD_TRY(tg_int(c, 1, &to));
  OD_TRY(tg_int(c, 2, &step));
  if (step == 0) return tg_fail(c, "a step of 0");
  if ((step > 0 && from > to) || (step < 0 && from < to))
    return tg_fail(c, "from %lld to %lld with step %lld", (long long)from, (long long)to, (long long)step);
  /* differences of int64 fit uint64 */
  uint64_t span = step > 0 ? (uint64_t)to - (uint64_t)from : (uint64_t)from - (uint64_t)to,
           width = step > 0 ? (uint64_t)step : 0 - (uint64_t)step, count = span / width + (span % width != 0);
  if (count >= RANGE_MAX) return tg_fail(c, "an impossible range");
  int64_t n = (int64_t)count;
  OD_TRY(tg_new_out(c, 0, dtype, &OD_SHAPE(n)));
  for (int64_t i = 0; i < n; i++) {
    if (dtype == OD_I32)
      ((int32_t *)c->out[0].t.data)[i] = (int32_t)(from + i * step); /* both within int32 */
    else if (dtype == OD_I64)
      ((int64_t *)c->out[0].t.data)[i] = (int64_t)((uint64_t)from + (uint64_t)i * (uint64_t)step);
    else
      return tg_unsupported(c, dtype);
  }
  return OD_OK;
}

/* Joins inputs first..first+n-1 along axis. pack: each gets a dimension of 1 there first. */
static od_status join(tg_call *c, int first, int n, int64_t axis, bool pack) {
  const od_tensor *x = tg_in(c, first);
  char ta[OD_SHAPE_TEXT], tb[OD_SHAPE_TEXT];
  od_shape s = x->shape;
  if (pack && s.rank == OD_MAX_RANK) return tg_fail(c, "rank above %d", OD_MAX_RANK);
  OD_TRY(tg_axis(c, &axis, s.rank + pack));
  int64_t total = 0;
  for (int k = 0; k < n; k++) {
    const od_shape *o = &tg_in(c, first + k)->shape;
    bool fits = o->rank == s.rank;
    for (int i = 0; fits && i < s.rank; i++) fits = (!pack && i == axis) || o->dim[i] == s.dim[i];
    if (!fits) return tg_fail(c, "shapes %s and %s do not fit", od_shape_text(ta, &s), od_shape_text(tb, o));
    total += pack ? 1 : o->dim[axis];
  }
  od_shape out = {.rank = s.rank + pack};
  for (int i = 0; i < out.rank; i++) out.dim[i] = i == axis ? total : s.dim[i - (pack && i > axis)];
  OD_TRY(tg_new_out(c, 0, x->dtype, &out));
  int64_t outer, all, inner, at = 0;
  tg_split_at(&out, (int)axis, &outer, &all, &inner);
  size_t size = od_dtype_size(x->dtype);
  for (int k = 0; k < n; k++) {
    const od_tensor *t = tg_in(c, first + k);
    int64_t part = (pack ? 1 : t->shape.dim[axis]) * inner;
    for (int64_t o = 0; o < outer; o++)
      OD_TRY(tg_copy_elements(x->dtype, (char *)c->out[0].t.data + (size_t)(o * all * inner + at) * size,
                              (const char *)t->data + (size_t)(o * part) * size, part));
    at += part;
  }
  return OD_OK;
}

static od_status pack_run(tg_call *c) {
  if (c->n_in < 1) return tg_fail(c, "nothing to pack");
  return join(c, 0, c->n_in, tg_attr_int(c->node, "axis", 0), true);
}

static od_status concat_run(tg_call *c) {
  int64_t axis;
  bool v2 = c->kernel->arg == 2;
  if (c->n_in < 2) return tg_fail(c, "nothing to join");
  OD_TRY(tg_int(c, v2 ? c->n_in - 1 : 0, &axis));
  return join(c, v2 ? 0 : 1, c->n_in - 1, axis, false);
}

/* Cuts x along axis into pieces of these sizes; unpack: of one, the dimension dropped. */
static od_status cut(tg_call *c, const od_tensor *x, int64_t axis, const int64_t *sizes, bool unpack) {
  int64_t outer, all, inner, at = 0;
  tg_split_at(&x->shape, (int)axis, &outer, &all, &inner);
  size_t size = od_dtype_size(x->dtype);
  for (int k = 0; k < c->n_out; k++) {
    od_shape s = x->shape;
    int64_t n = unpack ? 1 : sizes[k];
    s.dim[axis] = n;
    if (unpack) {
      for (int i = (int)axis; i + 1 < s.rank; i++) s.dim[i] = s.dim[i + 1];
      s.rank--;
    }
    OD_TRY(tg_new_out(c, k, x->dtype, &s));
    for (int64_t o = 0; o < outer; o++)
      OD_TRY(tg_copy_elements(x->dtype, (char *)c->out[k].t.data + (size_t)(o * n * inner) * size,
                              (const char *)x->data + (size_t)((o * all + at) * inner) * size, n * inner));
    at += n;
  }
  return OD_OK;
}

static od_status unpack_run(tg_call *c) {
  const od_tensor *x = tg_in(c, 0);
  int64_t axis = tg_attr_int(c->node, "axis", 0);
  OD_TRY(tg_axis(c, &axis, x->shape.rank));
  if (x->shape.dim[axis] != c->n_out)
    return tg_fail(c, "%lld parts, attribute num says %d", (long long)x->shape.dim[axis], c->n_out);
  return cut(c, x, axis, NULL, true);
}

static od_status split_run(tg_call *c) {
  bool v = c->kernel->arg == 1;
  const od_tensor *x = tg_in(c, v ? 0 : 1);
  int64_t axis, sizes[TG_MAX_OUT];
  OD_TRY(tg_int(c, v ? 2 : 0, &axis));
  OD_TRY(tg_axis(c, &axis, x->shape.rank));
  int64_t n = x->shape.dim[axis], sum = 0;
  if (!v) {
    if (c->n_out < 1 || n % c->n_out)
      return tg_fail(c, "%lld cannot be cut into %d equal parts", (long long)n, c->n_out);
    for (int i = 0; i < c->n_out; i++) sizes[i] = n / c->n_out;
    return cut(c, x, axis, sizes, false);
  }
  int count, rest = -1;
  OD_TRY(tg_vector(c, 1, sizes, TG_MAX_OUT, &count));
  if (count != c->n_out) return tg_fail(c, "%d sizes for %d parts", count, c->n_out);
  for (int i = 0; i < count; i++) {
    if (sizes[i] == -1 && rest < 0)
      rest = i;
    else if (sizes[i] < 0 || sizes[i] > n)
      return tg_fail(c, "a part of size %lld", (long long)sizes[i]);
    else
      sum += sizes[i];
  }
  if (rest >= 0) sum += sizes[rest] = n - sum;
  if (sum != n || (rest >= 0 && sizes[rest] < 0))
    return tg_fail(c, "the parts make %lld, the dimension is %lld", (long long)sum, (long long)n);
  return cut(c, x, axis, sizes, false);
}

static od_status tile_run(tg_call *c) {
  const od_tensor *x = tg_in(c, 0);
  int64_t times[OD_MAX_RANK], si[2 * OD_MAX_RANK], so[OD_MAX_RANK];
  int n;
  OD_TRY(tg_vector(c, 1, times, OD_MAX_RANK, &n));
  if (n != x->shape.rank) return tg_fail(c, "%d multiples for rank %d", n, x->shape.rank);
  od_shape s = x->shape;
  for (int i = 0; i < n; i++) {
    size_t d;
    if (times[i] < 0 || !od_mul_ok(&d, (size_t)s.dim[i], (size_t)times[i]) || d > (size_t)INT32_MAX)
      return tg_fail(c, "an impossible multiple");
    s.dim[i] = (int64_t)d;
  }
  OD_TRY(tg_new_out(c, 0, x->dtype, &s));
  tg_strides(&x->shape, si);
  tg_strides(&s, so);
  int64_t copies[OD_MAX_RANK] = {0};
  if (od_shape_size(&s) == 0) return OD_OK;
  for (;;) { /* one box a combination of copies */
    int64_t at = 0;
    for (int i = 0; i < n; i++) at += copies[i] * x->shape.dim[i] * so[i];
    OD_TRY(tg_copy_nd(x->dtype, (char *)c->out[0].t.data + (size_t)at * od_dtype_size(x->dtype), so, x->data, si, n,
                      x->shape.dim));
    int k = n - 1;
    while (k >= 0 && ++copies[k] == times[k]) copies[k--] = 0;
    if (k < 0) return OD_OK;
  }
}

static od_status broadcast_to_run(tg_call *c) {
  const od_tensor *x = tg_in(c, 0);
  od_shape s;
  int64_t si[OD_MAX_RANK], so[OD_MAX_RANK], own[OD_MAX_RANK];
  OD_TRY(shape_from(c, 1, &s));
  if (s.rank < x->shape.rank) return tg_fail(c, "to a smaller rank");
  tg_strides(&x->shape, own);
  for (int i = 0; i < s.rank; i++) {
    int k = i - (s.rank - x->shape.rank);
    int64_t d = k < 0 ? 1 : x->shape.dim[k];
    if (d != 1 && d != s.dim[i]) return tg_fail(c, "the shapes do not fit");
    si[i] = d == 1 ? 0 : own[k];
  }
  OD_TRY(tg_new_out(c, 0, x->dtype, &s));
  tg_strides(&s, so);
  return tg_copy_nd(x->dtype, c->out[0].t.data, so, x->data, si, s.rank, s.dim);
}

static od_status transpose_run(tg_call *c) {
  const od_tensor *x = tg_in(c, 0);
  int64_t perm[OD_MAX_RANK], own[OD_MAX_RANK], si[OD_MAX_RANK], so[OD_MAX_RANK];
  int n;
  unsigned seen = 0;
  OD_TRY(tg_vector(c, 1, perm, OD_MAX_RANK, &n));
  if (n != x->shape.rank) return tg_fail(c, "a permutation of %d for rank %d", n, x->shape.rank);
  od_shape s = {.rank = n};
  tg_strides(&x->shape, own);
  for (int i = 0; i < n; i++) {
    OD_TRY(tg_axis(c, &perm[i], n));
    seen |= 1u << perm[i];
    s.dim[i] = x->shape.dim[perm[i]];
    si[i] = own[perm[i]];
  }
  if (seen != (1u << n) - 1) return tg_fail(c, "no permutation");
  OD_TRY(tg_new_out(c, 0, x->dtype, &s));
  tg_strides(&s, so);
  return tg_copy_nd(x->dtype, c->out[0].t.data, so, x->data, si, n, s.dim);
}

/* Pad (zeros), PadV2 (a value), MirrorPad (REFLECT leaves the edge out, SYMMETRIC repeats it). */
static od_status pad_run(tg_call *c) {
  enum { ZERO, VALUE, MIRROR };
  const od_tensor *x = tg_in(c, 0), *p = tg_in(c, 1);
  int rank = x->shape.rank, mode = c->kernel->arg;
  int64_t before[OD_MAX_RANK], after, si[OD_MAX_RANK], so[OD_MAX_RANK], at = 0;
  if (p->shape.rank != 2 || p->shape.dim[0] != rank || p->shape.dim[1] != 2)
    return tg_fail(c, "paddings must be [%d,2]", rank);
  if (p->dtype != OD_I32 && p->dtype != OD_I64) return tg_unsupported(c, p->dtype);
  od_shape s = x->shape;
  for (int i = 0; i < rank; i++) {
    before[i] = p->dtype == OD_I32 ? ((const int32_t *)p->data)[2 * i] : ((const int64_t *)p->data)[2 * i];
    after = p->dtype == OD_I32 ? ((const int32_t *)p->data)[2 * i + 1] : ((const int64_t *)p->data)[2 * i + 1];
    if (before[i] < 0 || after < 0 || before[i] > INT32_MAX || after > INT32_MAX)
      return tg_fail(c, "a negative padding, or an impossible one");
    s.dim[i] += before[i] + after;
  }
  size_t size = od_dtype_size(x->dtype);
  OD_TRY(tg_new_out(c, 0, x->dtype, &s));
  int64_t n = od_shape_size(&s);
  char *out = c->out[0].t.data;
  tg_strides(&x->shape, si);
  tg_strides(&s, so);
  if (mode == MIRROR) {
    bool reflect = tg_attr_is(c->node, "mode", "REFLECT");
    if (!reflect && !tg_attr_is(c->node, "mode", "SYMMETRIC")) return tg_fail(c, "mode must be REFLECT or SYMMETRIC");
    for (int i = 0; i < rank; i++) {
      after = s.dim[i] - before[i] - x->shape.dim[i];
      if (before[i] > x->shape.dim[i] - reflect || after > x->shape.dim[i] - reflect)
        return tg_fail(c, "a padding larger than the mirror");
    }
    for (int64_t k = 0; k < n; k++) {
      int64_t from = 0;
      for (int i = 0; i < rank; i++) {
        int64_t v = k / so[i] % s.dim[i] - before[i], d = x->shape.dim[i];
        if (v < 0) v = reflect ? -v : -v - 1;
        if (v >= d) v = reflect ? 2 * d - 2 - v : 2 * d - 1 - v;
        from += v * si[i];
      }
      OD_TRY(tg_copy_elements(x->dtype, out + (size_t)k * size, (const char *)x->data + (size_t)from * size, 1));
    }
    return OD_OK;
  }
  if (x->dtype == OD_STRING) return tg_unsupported(c, x->dtype);
  memset(out, 0, (size_t)n * size);
  if (mode == VALUE) {
    OD_TRY(tg_rank(c, 2, 0));
    for (int64_t i = 0; i < n; i++) memcpy(out + (size_t)i * size, tg_in(c, 2)->data, size);
  }
  for (int i = 0; i < rank; i++) at += before[i] * so[i];
  return tg_copy_nd(x->dtype, out + (size_t)at * size, so, x->data, si, rank, x->shape.dim);
}

static od_status one_hot_run(tg_call *c) {
  const od_tensor *x = tg_in(c, 0), *on = tg_in(c, 2), *off = tg_in(c, 3);
  int64_t depth, axis = tg_attr_int(c->node, "axis", -1);
  OD_TRY(tg_int(c, 1, &depth));
  if (axis == -1) axis = x->shape.rank;
  if (depth < 0 || axis < 0 || axis > x->shape.rank || x->shape.rank == OD_MAX_RANK)
    return tg_fail(c, "an impossible depth or axis");
  OD_TRY(tg_rank(c, 2, 0));
  OD_TRY(tg_rank(c, 3, 0));
  od_shape s = {.rank = x->shape.rank + 1};
  for (int i = 0; i < s.rank; i++) s.dim[i] = i == axis ? depth : x->shape.dim[i - (i > axis)];
  OD_TRY(tg_new_out(c, 0, on->dtype, &s));
  int64_t outer, n, inner;
  tg_split_at(&s, (int)axis, &outer, &n, &inner);
  size_t size = od_dtype_size(on->dtype);
  if (on->dtype == OD_STRING) return tg_unsupported(c, OD_STRING);
  for (int64_t i = 0; i < outer * n * inner; i++) {
    int64_t row = i / (n * inner), k = i / inner % n, col = i % inner, at = row * inner + col, v;
    if (x->dtype == OD_I32)
      v = ((const int32_t *)x->data)[at];
    else if (x->dtype == OD_I64)
      v = ((const int64_t *)x->data)[at];
    else if (x->dtype == OD_U8)
      v = ((const uint8_t *)x->data)[at];
    else
      return tg_unsupported(c, x->dtype);
    memcpy((char *)c->out[0].t.data + (size_t)i * size, v == k ? on->data : off->data, size);
  }
  return OD_OK;
}

const tg_kernel tg_kernels_array[] = {
    {"BroadcastTo", "T,Tidx->T", "T Tidx=int32", broadcast_to_run, 0},
    {"Concat", "int32,N*T->T", "T N", concat_run, 1},
    {"ConcatV2", "N*T,Tidx->T", "T N Tidx=int32", concat_run, 2},
    {"ExpandDims", "T,Tdim->T", "T Tdim=int32", expand_dims_run, 0},
    {"Fill", "index_type,T->T", "T index_type=int32", fill_run, 0},
    {"MirrorPad", "T,Tpaddings->T", "T Tpaddings=int32 mode", pad_run, 2},
    {"OneHot", "TI,int32,T,T->T", "T TI=int64 axis?", one_hot_run, 0},
    {"Pack", "N*T->T", "T N axis?", pack_run, 0},
    {"Pad", "T,Tpaddings->T", "T Tpaddings=int32", pad_run, 0},
    {"PadV2", "T,Tpaddings,T->T", "T Tpaddings=int32", pad_run, 1},
    {"Range", "Tidx,Tidx,Tidx->Tidx", "Tidx=int32", range_run, 0},
    {"Rank", "T->int32", "T", rank_run, 0},
    {"Reshape", "T,Tshape->T", "T Tshape=int32", reshape_run, 0},
    {"Shape", "T->out_type", "T out_type=int32", shape_run, 0},
    {"ShapeN", "N*T->N*out_type", "T N out_type=int32", shape_run, 0},
    {"Size", "T->out_type", "T out_type=int32", size_run, 0},
    {"Split", "int32,T->num_split*T", "T num_split", split_run, 0},
    {"SplitV", "T,Tlen,int32->num_split*T", "T num_split Tlen=int64", split_run, 1},
    {"Squeeze", "T->T", "T squeeze_dims?", squeeze_run, 0},
    {"Tile", "T,Tmultiples->T", "T Tmultiples=int32", tile_run, 0},
    {"Transpose", "T,Tperm->T", "T Tperm=int32", transpose_run, 0},
    {"Unpack", "T->num*T", "T num axis?", unpack_run, 0},
    {0},
};
