/* Taking parts of tensors by position or by value: slices, gathers, where, top-k, space to batch. */
#include <stdlib.h>
#include <string.h>

#include "tfgraph/kernel.h"

static od_status slice_run(tg_call *c) {
  const od_tensor *x = tg_in(c, 0);
  int rank = x->shape.rank, nb, ns;
  int64_t begin[OD_MAX_RANK], size[OD_MAX_RANK], si[OD_MAX_RANK], so[OD_MAX_RANK], at = 0;
  OD_TRY(tg_vector(c, 1, begin, OD_MAX_RANK, &nb));
  OD_TRY(tg_vector(c, 2, size, OD_MAX_RANK, &ns));
  if (nb != rank || ns != rank) return tg_fail(c, "%d begins and %d sizes for rank %d", nb, ns, rank);
  od_shape s = {.rank = rank};
  tg_strides(&x->shape, si);
  for (int i = 0; i < rank; i++) {
    if (size[i] == -1 && begin[i] >= 0) size[i] = x->shape.dim[i] - begin[i];
    if (begin[i] < 0 || size[i] < 0 || begin[i] > x->shape.dim[i] || size[i] > x->shape.dim[i] - begin[i])
      return tg_fail(c, "from %lld, %lld long, of a dimension of %lld", (long long)begin[i], (long long)size[i],
                     (long long)x->shape.dim[i]);
    s.dim[i] = size[i];
    at += begin[i] * si[i];
  }
  if (od_shape_equal(&s, &x->shape)) return tg_share_out(c, 0, 0, NULL);
  OD_TRY(tg_new_out(c, 0, x->dtype, &s));
  tg_strides(&s, so);
  return tg_copy_nd(x->dtype, c->out[0].t.data, so, (const char *)x->data + (size_t)at * od_dtype_size(x->dtype), si,
                    rank, s.dim);
}

/* One dimension of a strided slice: where it begins and how many elements it has. */
static od_status strided_range(const tg_call *c, int64_t dim, int64_t *begin, int64_t end, int64_t *stride,
                               bool open_begin, bool open_end, int64_t *count) {
  if (*stride == 0) return tg_fail(c, "a step of 0");
  /* longer than the dimension is as good as any */
  if (*stride > dim) *stride = dim + 1;
  if (*stride < -dim) *stride = -dim - 1;
  int64_t step = *stride;
  int64_t low = step > 0 ? 0 : -1, high = step > 0 ? dim : dim - 1;
  int64_t b = *begin < 0 ? *begin + dim : *begin, e = end < 0 ? end + dim : end;
  b = open_begin ? (step > 0 ? 0 : dim - 1) : b < low ? low : b > high ? high : b;
  e = open_end ? (step > 0 ? dim : -1) : e < low ? low : e > high ? high : e;
  int64_t span = step > 0 ? e - b : b - e, width = step > 0 ? step : -step;
  *begin = b;
  *count = span > 0 ? (span + width - 1) / width : 0;
  return OD_OK;
}

static od_status strided_slice_run(tg_call *c) {
  const od_tensor *x = tg_in(c, 0);
  enum { SPEC = 32 };
  int64_t begin[SPEC], end[SPEC], step[SPEC], own[OD_MAX_RANK], si[OD_MAX_RANK], so[OD_MAX_RANK], at = 0;
  int n, ne, nt, rank = x->shape.rank, axis = 0;
  OD_TRY(tg_vector(c, 1, begin, SPEC, &n));
  OD_TRY(tg_vector(c, 2, end, SPEC, &ne));
  OD_TRY(tg_vector(c, 3, step, SPEC, &nt));
  if (ne != n || nt != n) return tg_fail(c, "begin, end and strides have different lengths");
  int64_t begin_mask = tg_attr_int(c->node, "begin_mask", 0), end_mask = tg_attr_int(c->node, "end_mask", 0),
          ellipsis = tg_attr_int(c->node, "ellipsis_mask", 0), new_axis = tg_attr_int(c->node, "new_axis_mask", 0),
          shrink = tg_attr_int(c->node, "shrink_axis_mask", 0);
  if (ellipsis & (ellipsis - 1)) return tg_fail(c, "more than one ellipsis");
  int taken = 0; /* dimensions that the entries beside the ellipsis take */
  bool has_ellipsis = false;
  for (int i = 0; i < n; i++) {
    bool e = ellipsis >> i & 1;
    has_ellipsis |= e;
    taken += !e && !(new_axis >> i & 1);
  }
  if (taken > rank) return tg_fail(c, "%d slices of a tensor of rank %d", taken, rank);
  od_shape s = {0};
  tg_strides(&x->shape, own);
  for (int i = 0; i <= n; i++) {
    bool rest = i == n; /* what is not named is taken whole, at the ellipsis or at the end */
    if (rest && has_ellipsis) break;
    if (rest || (ellipsis >> i & 1)) {
      for (int k = rank - taken; k > 0; k--, axis++) {
        if (s.rank == OD_MAX_RANK) return tg_fail(c, "rank above %d", OD_MAX_RANK);
        si[s.rank] = own[axis];
        s.dim[s.rank++] = x->shape.dim[axis];
      }
      continue;
    }
    if (new_axis >> i & 1) {
      if (s.rank == OD_MAX_RANK) return tg_fail(c, "rank above %d", OD_MAX_RANK);
      si[s.rank] = 0;
      s.dim[s.rank++] = 1;
      continue;
    }
    int64_t d = x->shape.dim[axis], count = 0;
    if (shrink >> i & 1) {
      int64_t b = begin[i] < 0 ? begin[i] + d : begin[i];
      if (begin_mask >> i & 1) b = 0;
      if (b < 0 || b >= d || step[i] <= 0)
        return tg_fail(c, "element %lld of a dimension of %lld", (long long)begin[i], (long long)d);
      at += b * own[axis++];
      continue;
    }
    OD_TRY(strided_range(c, d, &begin[i], end[i], &step[i], begin_mask >> i & 1, end_mask >> i & 1, &count));
    if (s.rank == OD_MAX_RANK) return tg_fail(c, "rank above %d", OD_MAX_RANK);
    if (count) at += begin[i] * own[axis];
    si[s.rank] = own[axis++] * step[i];
    s.dim[s.rank++] = count;
  }
  OD_TRY(tg_new_out(c, 0, x->dtype, &s));
  tg_strides(&s, so);
  if (od_shape_size(&s) == 0) return OD_OK;
  return tg_copy_nd(x->dtype, c->out[0].t.data, so, (const char *)x->data + at * (int64_t)od_dtype_size(x->dtype), si,
                    s.rank, s.dim);
}

static bool index_at(const od_tensor *t, int64_t i, int64_t *out) {
  if (t->dtype == OD_I32)
    *out = ((const int32_t *)t->data)[i];
  else if (t->dtype == OD_I64)
    *out = ((const int64_t *)t->data)[i];
  else
    return false;
  return true;
}

static od_status gather_run(tg_call *c) {
  const od_tensor *x = tg_in(c, 0), *index = tg_in(c, 1);
  int64_t axis = 0, batch = tg_attr_int(c->node, "batch_dims", 0);
  if (c->kernel->arg) OD_TRY(tg_int(c, 2, &axis));
  OD_TRY(tg_axis(c, &axis, x->shape.rank));
  if (batch < 0) batch += index->shape.rank;
  if (batch < 0 || batch > axis || batch > index->shape.rank) return tg_fail(c, "batch_dims %lld", (long long)batch);
  od_shape s = {0};
  if (x->shape.rank - 1 + index->shape.rank - batch > OD_MAX_RANK) return tg_fail(c, "rank above %d", OD_MAX_RANK);
  for (int i = 0; i < axis; i++) s.dim[s.rank++] = x->shape.dim[i];
  for (int i = (int)batch; i < index->shape.rank; i++) s.dim[s.rank++] = index->shape.dim[i];
  for (int i = (int)axis + 1; i < x->shape.rank; i++) s.dim[s.rank++] = x->shape.dim[i];
  int64_t outer, n, inner, batches = 1, per;
  for (int i = 0; i < batch; i++) {
    if (x->shape.dim[i] != index->shape.dim[i]) return tg_fail(c, "batch dimensions differ");
    batches *= x->shape.dim[i];
  }
  tg_split_at(&x->shape, (int)axis, &outer, &n, &inner);
  int64_t total = od_tensor_size(index);
  per = batches ? total / batches : 0;
  OD_TRY(tg_new_out(c, 0, x->dtype, &s));
  size_t size = od_dtype_size(x->dtype);
  char *to = c->out[0].t.data;
  for (int64_t o = 0; o < outer; o++) {
    int64_t b = outer ? o / (outer / (batches ? batches : 1)) : 0;
    for (int64_t k = 0; k < per; k++, to += (size_t)inner * size) {
      int64_t at;
      if (!index_at(index, b * per + k, &at)) return tg_unsupported(c, index->dtype);
      if (at < 0 || at >= n) return tg_fail(c, "index %lld of a dimension of %lld", (long long)at, (long long)n);
      OD_TRY(tg_copy_elements(x->dtype, to, (const char *)x->data + (size_t)((o * n + at) * inner) * size, inner));
    }
  }
  return OD_OK;
}

static od_status gather_nd_run(tg_call *c) {
  const od_tensor *x = tg_in(c, 0), *index = tg_in(c, 1);
  if (index->shape.rank < 1) return tg_fail(c, "indices must not be a scalar");
  int64_t depth = index->shape.dim[index->shape.rank - 1], inner = 1, own[OD_MAX_RANK];
  if (depth > x->shape.rank) return tg_fail(c, "%lld indices for rank %d", (long long)depth, x->shape.rank);
  od_shape s = {0};
  if (index->shape.rank - 1 + x->shape.rank - depth > OD_MAX_RANK) return tg_fail(c, "rank above %d", OD_MAX_RANK);
  for (int i = 0; i + 1 < index->shape.rank; i++) s.dim[s.rank++] = index->shape.dim[i];
  int64_t n = od_shape_size(&s);
  for (int i = (int)depth; i < x->shape.rank; i++) {
    s.dim[s.rank++] = x->shape.dim[i];
    inner *= x->shape.dim[i];
  }
  tg_strides(&x->shape, own);
  OD_TRY(tg_new_out(c, 0, x->dtype, &s));
  size_t size = od_dtype_size(x->dtype);
  for (int64_t k = 0; k < n; k++) {
    int64_t from = 0, v;
    for (int i = 0; i < depth; i++) {
      if (!index_at(index, k * depth + i, &v)) return tg_unsupported(c, index->dtype);
      if (v < 0 || v >= x->shape.dim[i])
        return tg_fail(c, "index %lld of a dimension of %lld", (long long)v, (long long)x->shape.dim[i]);
      from += v * own[i];
    }
    OD_TRY(tg_copy_elements(x->dtype, (char *)c->out[0].t.data + (size_t)(k * inner) * size,
                            (const char *)x->data + (size_t)from * size, inner));
  }
  return OD_OK;
}

static bool nonzero(const od_tensor *t, int64_t i) {
  switch (t->dtype) {
  case OD_F32: return ((const float *)t->data)[i] != 0;
  case OD_F64: return ((const double *)t->data)[i] != 0;
  case OD_I32: return ((const int32_t *)t->data)[i] != 0;
  case OD_I64: return ((const int64_t *)t->data)[i] != 0;
  default: return ((const uint8_t *)t->data)[i] != 0;
  }
}

static od_status where_run(tg_call *c) {
  const od_tensor *x = tg_in(c, 0);
  int64_t n = od_tensor_size(x), found = 0, own[OD_MAX_RANK];
  if (x->dtype == OD_STRING || x->dtype == OD_BF16 || x->dtype == OD_F16) return tg_unsupported(c, x->dtype);
  for (int64_t i = 0; i < n; i++) found += nonzero(x, i);
  OD_TRY(tg_new_out(c, 0, OD_I64, &OD_SHAPE(found, x->shape.rank)));
  tg_strides(&x->shape, own);
  int64_t *to = c->out[0].t.data;
  for (int64_t i = 0; i < n; i++)
    for (int k = 0; nonzero(x, i) && k < x->shape.rank; k++) *to++ = i / own[k] % x->shape.dim[k];
  return OD_OK;
}

/* ---------------------------------------------------------------------------------------------------------------- top k */
typedef struct {
  double v; /* exact for float and int32 */
  int64_t i;
} ranked;

/* Larger first, of equals the one that stood first; NaN last. */
static int by_rank(const void *pa, const void *pb) {
  const ranked *a = pa, *b = pb;
  if (a->v > b->v) return -1;
  if (a->v < b->v) return 1;
  bool na = a->v != a->v, nb = b->v != b->v;
  if (na != nb) return na ? 1 : -1;
  return a->i < b->i ? -1 : a->i > b->i;
}

static od_status top_k_run(tg_call *c) {
  const od_tensor *x = tg_in(c, 0);
  int64_t k;
  if (c->kernel->arg)
    OD_TRY(tg_int(c, 1, &k));
  else
    k = tg_attr_int(c->node, "k", -1);
  if (x->dtype != OD_F32 && x->dtype != OD_I32) return tg_unsupported(c, x->dtype);
  if (x->shape.rank < 1) return tg_fail(c, "of a scalar");
  int64_t n = x->shape.dim[x->shape.rank - 1];
  if (k < 0 || k > n) return tg_fail(c, "the first %lld of %lld", (long long)k, (long long)n);
  od_shape s = x->shape;
  s.dim[s.rank - 1] = k;
  OD_TRY(tg_new_out(c, 0, x->dtype, &s));
  OD_TRY(tg_new_out(c, 1, OD_I32, &s));
  ranked *r;
  OD_TRY(od_new(&r, (size_t)n + 1, sizeof *r));
  for (int64_t row = 0, rows = n ? od_tensor_size(x) / n : 0; row < rows; row++) {
    for (int64_t i = 0; i < n; i++)
      r[i] = (ranked){x->dtype == OD_F32 ? (double)((const float *)x->data)[row * n + i]
                                         : ((const int32_t *)x->data)[row * n + i],
                      i};
    qsort(r, (size_t)n, sizeof *r, by_rank);
    for (int64_t i = 0; i < k; i++) {
      memcpy((char *)c->out[0].t.data + (size_t)(row * k + i) * 4,
             (const char *)x->data + (size_t)(row * n + r[i].i) * 4, 4);
      ((int32_t *)c->out[1].t.data)[row * k + i] = (int32_t)r[i].i;
    }
  }
  od_free(r);
  return OD_OK;
}

static od_status reverse_run(tg_call *c) {
  const od_tensor *x = tg_in(c, 0);
  int64_t axes[OD_MAX_RANK], si[OD_MAX_RANK], so[OD_MAX_RANK], at = 0;
  int n;
  OD_TRY(tg_vector(c, 1, axes, OD_MAX_RANK, &n));
  OD_TRY(tg_new_out(c, 0, x->dtype, &x->shape));
  tg_strides(&x->shape, si);
  tg_strides(&x->shape, so);
  if (!od_tensor_size(x)) return OD_OK;
  for (int i = 0; i < n; i++) {
    OD_TRY(tg_axis(c, &axes[i], x->shape.rank));
    if (si[axes[i]] < 0) return tg_fail(c, "an axis twice");
    at += (x->shape.dim[axes[i]] - 1) * si[axes[i]];
    si[axes[i]] = -si[axes[i]];
  }
  return tg_copy_nd(x->dtype, c->out[0].t.data, so, (const char *)x->data + at * (int64_t)od_dtype_size(x->dtype), si,
                    x->shape.rank, x->shape.dim);
}

/* ------------------------------------------------------------------------------------------- space to batch and back */
static od_status block_inputs(const tg_call *c, int64_t *block, int64_t *edges, int *n) {
  const od_tensor *x = tg_in(c, 0), *p = tg_in(c, 2);
  OD_TRY(tg_vector(c, 1, block, OD_MAX_RANK, n));
  if (*n < 1 || *n + 1 > x->shape.rank || p->shape.rank != 2 || p->shape.dim[0] != *n || p->shape.dim[1] != 2)
    return tg_fail(c, "block shape and paddings do not fit the tensor");
  for (int i = 0; i < 2 * *n; i++) {
    if (!index_at(p, i, &edges[i])) return tg_unsupported(c, p->dtype);
    if (edges[i] < 0 || edges[i] > INT32_MAX) return tg_fail(c, "a negative edge");
  }
  for (int i = 0; i < *n; i++)
    if (block[i] < 1 || block[i] > 1 << 20) return tg_fail(c, "a block of %lld", (long long)block[i]);
  return OD_OK;
}

/* Both directions walk all elements of the large side: out[b * blocks + k, y, x] = padded in[b, y*block + k/.., x*block + k%..]. */
static od_status space_batch_run(tg_call *c) {
  const od_tensor *x = tg_in(c, 0);
  bool back = c->kernel->arg == 1;
  int64_t block[OD_MAX_RANK], edges[2 * OD_MAX_RANK], blocks = 1, si[OD_MAX_RANK], so[OD_MAX_RANK],
                                                      batch = x->shape.dim[0];
  int n;
  OD_TRY(block_inputs(c, block, edges, &n));
  if (x->dtype == OD_STRING) return tg_unsupported(c, OD_STRING);
  for (int i = 0; i < n; i++) {
    blocks *= block[i];
    if (blocks > 1 << 20) return tg_fail(c, "blocks of %lld", (long long)blocks);
  }
  od_shape s = x->shape;
  if (back && batch % blocks)
    return tg_fail(c, "a batch of %lld for blocks of %lld", (long long)batch, (long long)blocks);
  s.dim[0] = back ? batch / blocks : batch * blocks;
  for (int i = 0; i < n; i++) {
    int64_t d = x->shape.dim[i + 1];
    if (back)
      s.dim[i + 1] = d * block[i] - edges[2 * i] - edges[2 * i + 1];
    else if ((d + edges[2 * i] + edges[2 * i + 1]) % block[i])
      return tg_fail(c, "a padded size that is no multiple of the block");
    else
      s.dim[i + 1] = (d + edges[2 * i] + edges[2 * i + 1]) / block[i];
    if (s.dim[i + 1] < 0) return tg_fail(c, "crops larger than the tensor");
  }
  OD_TRY(tg_new_out(c, 0, x->dtype, &s));
  size_t size = od_dtype_size(x->dtype);
  memset(c->out[0].t.data, 0, (size_t)od_shape_size(&s) * size);
  const od_shape *small = back ? &s : &x->shape, *large = back ? &x->shape : &s; /* large batch, small pictures */
  tg_strides(small, si);
  tg_strides(large, so);
  int64_t inner = si[n], pixels = od_shape_size(small) / (inner ? inner : 1);
  for (int64_t k = 0; k < pixels && inner; k++) { /* pixel k of the picture with the small batch */
    int64_t at = k * inner, b = at / si[0], part = 0, to = 0;
    for (int i = 0; i < n; i++) {
      int64_t y = at / si[i + 1] % small->dim[i + 1] + edges[2 * i];
      part = part * block[i] + y % block[i];
      to += y / block[i] * so[i + 1];
    }
    to += (part * small->dim[0] + b) * so[0];
    char *o = c->out[0].t.data;
    const char *in = x->data;
    if (back)
      memcpy(o + (size_t)at * size, in + (size_t)to * size, (size_t)inner * size);
    else
      memcpy(o + (size_t)to * size, in + (size_t)at * size, (size_t)inner * size);
  }
  return OD_OK;
}

const tg_kernel tg_kernels_slice[] = {
    {"BatchToSpaceND", "T,Tblock_shape,Tcrops->T", "T Tblock_shape=int32 Tcrops=int32", space_batch_run, 1},
    {"Gather", "Tparams,Tindices->Tparams", "Tparams Tindices validate_indices?", gather_run, 0},
    {"GatherNd", "Tparams,Tindices->Tparams", "Tparams Tindices bad_indices_policy?", gather_nd_run, 0},
    {"GatherV2", "Tparams,Tindices,Taxis->Tparams", "Tparams Tindices Taxis batch_dims?", gather_run, 1},
    {"ReverseV2", "T,Tidx->T", "T Tidx=int32", reverse_run, 0},
    {"Slice", "T,Index,Index->T", "T Index", slice_run, 0},
    {"SpaceToBatchND", "T,Tblock_shape,Tpaddings->T", "T Tblock_shape=int32 Tpaddings=int32", space_batch_run, 0},
    {"StridedSlice", "T,Index,Index,Index->T",
     "T Index begin_mask? end_mask? ellipsis_mask? new_axis_mask? shrink_axis_mask?", strided_slice_run, 0},
    {"TopK", "T->T,int32", "T k sorted?", top_k_run, 0},
    {"TopKV2", "T,Tk->T,index_type", "T Tk=int32 index_type=int32 sorted?", top_k_run, 1},
    {"Where", "T->int64", "T=bool", where_run, 0},
    {0},
};
