/* tf.Example inside a graph: ParseSingleExample and ParseExampleV2 with one serialized Example (what a map over a batch calls), and
 * ParseExample over a batch.
 * Sparse features come as [n,1] indices, [n] values and [1] shape; dense ones with their fixed shape, from the default where
 * the key is absent. */
#include <string.h>

#include "io/example.h"
#include "tfgraph/kernel.h"

od_status tg_parse_example_v2(tg_call *c);
od_status tg_parse_single_example(tg_call *c);
od_status tg_parse_example(tg_call *c);

static od_status values_into(tg_call *c, od_example *ex, const char *key, od_dtype dtype, int out,
                             const od_shape *shape, size_t *count) {
  const float *f = NULL;
  const int64_t *n = NULL;
  const od_view *b = NULL;
  if (dtype == OD_F32)
    OD_TRY(od_example_get_floats(ex, key, &f, count));
  else if (dtype == OD_I64)
    OD_TRY(od_example_get_int64s(ex, key, &n, count));
  else if (dtype == OD_STRING)
    OD_TRY(od_example_get_bytes(ex, key, &b, count));
  else
    return tg_unsupported(c, dtype);
  if (shape && (int64_t)*count != od_shape_size(shape))
    return OD_OK; /* the caller takes the default or says what is wrong */
  od_shape s = shape ? *shape : OD_SHAPE((int64_t)*count);
  OD_TRY(tg_new_out(c, out, dtype, &s));
  od_tensor *t = &c->out[out].t;
  if (f && *count) memcpy(t->data, f, *count * sizeof *f);
  if (n && *count) memcpy(t->data, n, *count * sizeof *n);
  for (size_t i = 0; b && i < *count; i++) OD_TRY(od_tensor_set_bytes(t, (int64_t)i, b[i].data, b[i].size));
  return OD_OK;
}

static od_status sparse_out(tg_call *c, od_example *ex, const char *key, int i, int n_sparse) {
  size_t count;
  OD_TRY(values_into(c, ex, key, tg_out_type(c, n_sparse + i), n_sparse + i, NULL, &count));
  OD_TRY(tg_new_out(c, i, OD_I64, &OD_SHAPE((int64_t)count, 1)));
  for (size_t k = 0; k < count; k++) ((int64_t *)c->out[i].t.data)[k] = (int64_t)k;
  OD_TRY(tg_new_out(c, 2 * n_sparse + i, OD_I64, &OD_SHAPE(1)));
  *(int64_t *)c->out[2 * n_sparse + i].t.data = (int64_t)count;
  return OD_OK;
}

static od_status dense_out(tg_call *c, od_example *ex, const char *key, int i, int out, int default_in) {
  od_shape shape;
  size_t count = 0;
  if (!tg_attr_shape_at(c->node, "dense_shapes", i, &shape) || !od_shape_known(&shape))
    return od_fail(OD_EUNSUPPORTED, "node %s (%s): dense feature '%s' has no fixed shape", c->node->name, c->node->op,
                   key);
  OD_TRY(values_into(c, ex, key, tg_out_type(c, out), out, &shape, &count));
  int64_t want = od_shape_size(&shape);
  if ((int64_t)count == want && c->out[out].buf) return OD_OK;
  const od_tensor *d = tg_in(c, default_in);
  if (count) return tg_fail(c, "key '%s' has %zu values, its shape takes %lld", key, count, (long long)want);
  if (od_tensor_size(d) == want) return tg_share_out(c, out, default_in, &shape);
  return tg_fail(c, "key '%s' is absent and has no default", key);
}

static od_status key_text(const tg_call *c, char *text, size_t size, const void *data, size_t n) {
  if (n + 1 > size || (n && memchr(data, 0, n))) return tg_fail(c, "an impossible key");
  if (n) memcpy(text, data, n);
  text[n] = 0;
  return OD_OK;
}

static od_status parse(tg_call *c, bool v2) {
  enum { KEY = 512 };
  char key[KEY];
  const od_tensor *serialized = tg_in(c, 0);
  int64_t n_sparse = tg_attr_int(c->node, "num_sparse", 0);
  int n_dense = tg_attr_types(c->node, "Tdense");
  od_example ex = OD_EXAMPLE_INIT;
  od_status st;
  if (serialized->shape.rank != 0)
    return od_fail(OD_EUNSUPPORTED, "node %s (%s): only one serialized Example at a time is supported", c->node->name,
                   c->node->op);
  if (v2 && (tg_attr_types(c->node, "ragged_value_types") || tg_attr_types(c->node, "ragged_split_types")))
    return od_fail(OD_EUNSUPPORTED, "node %s (%s): ragged features", c->node->name, c->node->op);
  if (tg_attr_types(c->node, "sparse_types") != n_sparse) return tg_fail(c, "num_sparse and sparse_types differ");
  if (v2 && (od_tensor_size(tg_in(c, 2)) != n_sparse || od_tensor_size(tg_in(c, 3)) != n_dense))
    return tg_fail(c, "keys and types differ in number");
  const od_bytes *text = serialized->data;
  OD_GO(st, od_example_parse(&ex, text->data, text->size));
  for (int i = 0; i < (int)n_sparse + n_dense; i++) {
    bool dense = i >= n_sparse;
    int k = dense ? i - (int)n_sparse : i;
    if (v2) {
      const od_bytes *b = (const od_bytes *)tg_in(c, dense ? 3 : 2)->data + k;
      OD_GO(st, key_text(c, key, sizeof key, b->data, b->size));
    } else {
      od_view v;
      if (!tg_attr_text_at(c->node, dense ? "dense_keys" : "sparse_keys", k, &v)) OD_GO(st, tg_fail(c, "too few keys"));
      OD_GO(st, key_text(c, key, sizeof key, v.data, v.size));
    }
    if (dense)
      OD_GO(st, dense_out(c, &ex, key, k, 3 * (int)n_sparse + k, (v2 ? 5 : 1) + k));
    else
      OD_GO(st, sparse_out(c, &ex, key, k, (int)n_sparse));
  }
done:
  od_example_free(&ex);
  return od_fail_context(st, "node %s (%s)", c->node->name, c->node->op);
}

/* ParseExample over a batch, dense features only: [B] + shape each. Inputs: serialized [B], names, a scalar key each, a default
 * each. */
od_status tg_parse_example(tg_call *c) {
  const od_tensor *serialized = tg_in(c, 0);
  int n = (int)tg_attr_int(c->node, "Ndense", 0);
  if (tg_attr_int(c->node, "Nsparse", 0) != 0)
    return od_fail(OD_EUNSUPPORTED, "node %s (%s): sparse features of a batch", c->node->name, c->node->op);
  if (tg_attr_types(c->node, "Tdense") != n) return tg_fail(c, "Ndense and Tdense differ");
  OD_TRY(tg_rank(c, 0, 1));
  int64_t batch = serialized->shape.dim[0];
  od_example ex = OD_EXAMPLE_INIT;
  od_status st = OD_OK;
  for (int64_t b = 0; b < batch; b++) {
    const od_bytes *text = (const od_bytes *)serialized->data + b;
    OD_GO(st, od_example_parse(&ex, text->data, text->size));
    for (int k = 0; k < n; k++) {
      char key[512];
      if (od_tensor_size(tg_in(c, 2 + k)) != 1) OD_GO(st, tg_fail(c, "a key must be a scalar"));
      const od_bytes *name = tg_in(c, 2 + k)->data;
      OD_GO(st, key_text(c, key, sizeof key, name->data, name->size));
      tg_value whole = c->out[k]; /* the batch so far; the feature of this Example takes its place for a moment */
      c->out[k] = (tg_value){0};
      st = dense_out(c, &ex, key, k, k, 2 + n + k);
      tg_value one = c->out[k];
      c->out[k] = whole;
      if (st == OD_OK && !whole.buf) {
        od_shape s = one.t.shape;
        if (s.rank == OD_MAX_RANK) st = tg_fail(c, "rank above %d", OD_MAX_RANK);
        memmove(s.dim + 1, s.dim, sizeof *s.dim * (OD_MAX_RANK - 1));
        s.dim[0] = batch;
        s.rank++;
        if (st == OD_OK) st = tg_new_out(c, k, one.t.dtype, &s);
      }
      if (st == OD_OK) {
        int64_t size = od_tensor_size(&one.t);
        st = tg_copy_elements(one.t.dtype, (char *)c->out[k].t.data + (size_t)(b * size) * od_dtype_size(one.t.dtype),
                              one.t.data, size);
      }
      tg_value_drop(c->graph, &one);
      OD_GO(st, st);
    }
  }
  for (int k = 0; k < n && batch == 0; k++) {
    od_shape s = OD_SCALAR;
    if (!tg_attr_shape_at(c->node, "dense_shapes", k, &s) || s.rank == OD_MAX_RANK)
      OD_GO(st, tg_fail(c, "too few shapes"));
    memmove(s.dim + 1, s.dim, sizeof *s.dim * (OD_MAX_RANK - 1));
    s.dim[0] = 0;
    s.rank++;
    OD_GO(st, tg_new_out(c, k, tg_out_type(c, k), &s));
  }
done:
  od_example_free(&ex);
  return od_fail_context(st, "node %s (%s)", c->node->name, c->node->op);
}

od_status tg_parse_example_v2(tg_call *c) { return parse(c, true); }
od_status tg_parse_single_example(tg_call *c) { return parse(c, false); }
