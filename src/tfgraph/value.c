/* Values that flow along edges: counted memory with a small pool, so that a node's output reuses what an earlier node left. */
#include <string.h>

#include "io/wire.h"
#include "tfgraph/graph_impl.h"
#include "tfgraph/kernel.h"

enum { POOLED = 1 << 14 }; /* smaller blocks go back to the allocator at once */

static void *pool_take(od_tfgraph *g, size_t size, size_t *have) {
  int best = -1;
  for (int i = 0; i < g->n_pool; i++) {
    if (g->pool[i].size < size || g->pool[i].size / 2 > size) continue;
    if (best < 0 || g->pool[i].size < g->pool[best].size) best = i;
  }
  if (best < 0) return NULL;
  void *data = g->pool[best].data;
  *have = g->pool[best].size;
  g->pool[best] = g->pool[--g->n_pool];
  return data;
}

static void pool_give(od_tfgraph *g, void *data, size_t size) {
  int max = (int)(sizeof g->pool / sizeof *g->pool);
  if (size < POOLED) {
    od_free(data);
    return;
  }
  if (g->n_pool == max) {
    int least = 0;
    for (int i = 1; i < max; i++)
      if (g->pool[i].size < g->pool[least].size) least = i;
    od_free(g->pool[least].data);
    g->pool[least] = g->pool[--g->n_pool];
  }
  g->pool[g->n_pool].data = data;
  g->pool[g->n_pool++].size = size;
}

void tg_pool_free(od_tfgraph *g) {
  while (g->n_pool) od_free(g->pool[--g->n_pool].data);
}

void tg_value_drop(od_tfgraph *g, tg_value *v) {
  if (v->buf && --v->buf->refs == 0) {
    od_bytes *b = v->buf->data;
    for (int64_t i = 0; i < v->buf->strings; i++) od_free(b[i].data);
    if (v->buf->strings)
      od_free(b);
    else
      pool_give(g, v->buf->data, v->buf->size);
    od_free(v->buf);
  }
  if (v->array) tg_array_drop(g, v->array);
  *v = (tg_value){0};
}

tg_value tg_value_share(const tg_value *v) {
  if (v->buf) v->buf->refs++;
  if (v->array) tg_array_share(v->array);
  return *v;
}

od_status tg_cells(int64_t *out, const od_shape *s) {
  const int64_t most = (int64_t)1 << 48;
  *out = 1;
  for (int i = 0; i < s->rank; i++) {
    int64_t d = s->dim[i] ? s->dim[i] : 1;
    if (d < 0 || d > most / *out) {
      char text[OD_SHAPE_TEXT];
      return od_fail(OD_EDATA, "impossible tensor shape %s", od_shape_text(text, s));
    }
    *out *= d;
  }
  return OD_OK;
}

od_status tg_charge(od_tfgraph *g, int64_t a, int64_t b) {
  if (g->max_work == INT64_MAX) return OD_OK;
  int64_t left = g->max_work - g->work;
  if (b > 0 && a > left / b)
    return od_fail(OD_EDATA, "a run of more than %lld steps, which is the limit", (long long)g->max_work);
  g->work += a * b;
  return OD_OK;
}

od_status tg_charge_value(od_tfgraph *g, const tg_value *v) {
  int64_t cells;
  if (g->max_work == INT64_MAX || v->dead || v->array) return OD_OK;
  OD_TRY(tg_cells(&cells, &v->t.shape));
  OD_TRY(tg_charge(g, cells, 1));
  const od_bytes *b = v->t.data;
  for (int64_t i = 0, n = v->t.dtype == OD_STRING ? od_tensor_size(&v->t) : 0; i < n; i++)
    OD_TRY(tg_charge(g, (int64_t)b[i].size, 1));
  return OD_OK;
}

od_status tg_check_bytes(const od_tfgraph *g, const od_shape *shape, od_dtype dtype) {
  size_t bytes;
  char text[OD_SHAPE_TEXT];
  OD_TRY(od_shape_bytes(&bytes, shape, dtype));
  if (bytes <= g->max_bytes) return OD_OK;
  return od_fail(OD_EDATA, "a tensor %s of %s: %zu bytes, at most %zu are allowed", od_shape_text(text, shape),
                 od_dtype_name(dtype), bytes, g->max_bytes);
}

od_status tg_value_new(od_tfgraph *g, tg_value *out, od_dtype dtype, const od_shape *shape) {
  size_t bytes, have = 0;
  int64_t cells;
  *out = (tg_value){.t = {dtype, *shape, NULL}};
  OD_TRY(tg_check_bytes(g, shape, dtype));
  OD_TRY(tg_cells(&cells, shape));
  OD_TRY(tg_charge(g, cells, 1));
  bytes = (size_t)od_shape_size(shape) * od_dtype_size(dtype);
  tg_buf *buf;
  OD_TRY(od_new(&buf, 1, sizeof *buf));
  void *data = dtype != OD_STRING && bytes >= POOLED ? pool_take(g, bytes, &have) : NULL;
  if (!data) {
    data = dtype == OD_STRING ? od_calloc(bytes ? bytes : 1, 1) : od_alloc(bytes);
    have = bytes;
  }
  if (!data) {
    od_free(buf);
    return OD_ENOMEM;
  }
  *buf = (tg_buf){.refs = 1, .data = data, .size = have, .strings = dtype == OD_STRING ? od_shape_size(shape) : 0};
  out->t.data = data;
  out->buf = buf;
  return OD_OK;
}

int tg_value_type(const tg_value *v) { return v->array ? TG_RESOURCE : od_dtype_tf(v->t.dtype); }

static od_status tensor_bytes(od_view *out, const tg_node *n) {
  const od_view *v = tg_attr_find(n, "value");
  *out = (od_view){NULL, 0};
  if (v) {
    od_wire w = od_wire_over(*v);
    od_wire_field f;
    while (od_wire_next(&w, &f))
      if (od_wire_is(&f, 8, OD_WIRE_BYTES)) *out = f.bytes;
  }
  return out->data ? OD_OK : od_fail(OD_EDATA, "the node has no value");
}

static od_status make_constant(od_tfgraph *g, tg_node *n, tg_value *out) {
  enum { KEEP = 1 << 16 };
  od_view bytes;
  od_dtype dtype;
  od_shape shape;
  int64_t cells;
  OD_TRY(tensor_bytes(&bytes, n));
  /* before memory is asked for: a few bytes of file may stand for one value repeated */
  OD_TRY(tg_parse_tensor_type(&dtype, &shape, bytes));
  OD_TRY(tg_check_bytes(g, &shape, dtype));
  OD_TRY(tg_cells(&cells, &shape));
  if (tg_attr_type(n, "dtype") != od_dtype_tf(dtype))
    return od_fail(OD_EDATA, "its attribute dtype is not its value's %s", od_dtype_name(dtype));
  *out = (tg_value){.t = {dtype, shape, NULL}, .lazy = n};
  if (dtype == OD_STRING || (size_t)od_shape_size(&shape) * od_dtype_size(dtype) <= KEEP) {
    out->lazy = NULL;
    OD_TRY(tg_parse_tensor(out, bytes, true));
  }
  n->constant = tg_value_share(out);
  n->constant_cached = true;
  return OD_OK;
}

/* Small constants are kept. Of big ones only type and shape are: their bytes are used in the file where they are aligned, else
 * copied for the time of their use, so that weights lie twice in memory one layer at a time, never all of them. */
od_status tg_constant(od_tfgraph *g, tg_node *n, tg_value *out) {
  if (n->constant_cached) {
    *out = tg_value_share(&n->constant);
    return OD_OK;
  }
  return od_fail_context(make_constant(g, n, out), "node %s (Const)", n->name);
}

od_status tg_materialize(od_tfgraph *g, tg_value *v) {
  if (!v->lazy) return OD_OK;
  od_view bytes;
  tg_node *n = v->lazy;
  tg_value full;
  (void)g;
  od_status st = tensor_bytes(&bytes, n);
  if (st == OD_OK) st = tg_parse_tensor(&full, bytes, true);
  OD_TRY(od_fail_context(st, "node %s (Const)", n->name));
  *v = full;
  return OD_OK;
}
