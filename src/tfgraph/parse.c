/* Opening: the file is mapped, each NodeDef is walked once; names and inputs are kept, attributes stay as bytes in the map.
 * GraphDef: node 1, library 2. NodeDef: name 1, op 2, input 3, attr 5. SavedModel: schema 1, meta_graphs 2; MetaGraphDef: meta_info
 * 1 (tags 4), graph_def 2, signature_def 5. SignatureDef: inputs 1, outputs 2; TensorInfo: name 1, dtype 2, tensor_shape 3. */
#include <string.h>
#include <sys/stat.h>

#include "io/wire.h"
#include "tfgraph/graph_impl.h"

enum { NODES_MAX = 10000000 };

static od_status bad_graph(const od_wire *w, od_view whole) {
  (void)w;
  return od_fail(OD_EDATA, "the bytes (%zu) are no GraphDef, or the file was cut", whole.size);
}

static const char *keep_text(od_arena *arena, od_view v) {
  char *s = od_arena_alloc(arena, v.size + 1);
  if (s && v.size) memcpy(s, v.data, v.size);
  return s;
}

static bool text_ok(od_view v) { return v.size > 0 && v.size < 1024 && !memchr(v.data, 0, v.size); }

static od_status parse_attr(od_tfgraph *g, tg_attr *out, od_view bytes) {
  od_wire w = od_wire_over(bytes);
  od_wire_field f;
  od_view key = {NULL, 0};
  *out = (tg_attr){"", {NULL, 0}};
  while (od_wire_next(&w, &f)) {
    if (od_wire_is(&f, 1, OD_WIRE_BYTES)) key = f.bytes;
    if (od_wire_is(&f, 2, OD_WIRE_BYTES)) out->value = f.bytes;
  }
  if (w.bad || !text_ok(key)) return od_fail(OD_EDATA, "a damaged attribute");
  out->name = keep_text(g->arena, key);
  return out->name ? OD_OK : OD_ENOMEM;
}

static od_status parse_node(od_tfgraph *g, tg_node *n, od_view bytes) {
  od_wire w = od_wire_over(bytes);
  od_wire_field f;
  od_view name = {NULL, 0}, op = {NULL, 0};
  size_t n_in = 0, n_attrs = 0;
  while (od_wire_next(&w, &f)) {
    if (od_wire_is(&f, 1, OD_WIRE_BYTES)) name = f.bytes;
    if (od_wire_is(&f, 2, OD_WIRE_BYTES)) op = f.bytes;
    n_in += od_wire_is(&f, 3, OD_WIRE_BYTES);
    n_attrs += od_wire_is(&f, 5, OD_WIRE_BYTES);
  }
  if (w.bad) return od_fail(OD_EDATA, "damaged");
  if (!text_ok(name) || !text_ok(op) || n_in > TG_MAX_IN)
    return od_fail(OD_EDATA, "without a usable name, op or inputs");
  n->name = keep_text(g->arena, name);
  n->op = keep_text(g->arena, op);
  n->in_names = od_arena_alloc(g->arena, sizeof *n->in_names * (n_in + 1));
  n->in = od_arena_alloc(g->arena, sizeof *n->in * (n_in + 1));
  n->attrs = od_arena_alloc(g->arena, sizeof *n->attrs * (n_attrs + 1));
  if (!n->name || !n->op || !n->in_names || !n->in || !n->attrs) return OD_ENOMEM;
  n->is_const = strcmp(n->op, "Const") == 0;
  w = od_wire_over(bytes);
  while (od_wire_next(&w, &f)) {
    if (od_wire_is(&f, 3, OD_WIRE_BYTES)) {
      if (!text_ok(f.bytes)) return od_fail(OD_EDATA, "(%s): an impossible input name", n->name);
      if (!(n->in_names[n->n_in++] = keep_text(g->arena, f.bytes))) return OD_ENOMEM;
    } else if (od_wire_is(&f, 5, OD_WIRE_BYTES)) {
      tg_attr a;
      OD_TRY(od_fail_context(parse_attr(g, &a, f.bytes), "%s (%s)", n->name, n->op));
      int k = 0; /* a map: the last entry of a key counts */
      while (k < n->n_attrs && strcmp(n->attrs[k].name, a.name) != 0) k++;
      n->attrs[k] = a;
      if (k == n->n_attrs) n->n_attrs++;
    }
  }
  return OD_OK;
}

tg_edge tg_find(const od_tfgraph *g, const char *tensor) {
  char name[1100];
  int out = 0;
  if (*tensor == '^') {
    out = -1;
    tensor++;
  }
  size_t n = strlen(tensor);
  const char *colon = strrchr(tensor, ':');
  if (colon && out == 0) {
    int64_t v;
    if (!od_parse_i64(&v, colon + 1) || v < 0 || v >= TG_MAX_OUT) return (tg_edge){NULL, 0};
    out = (int)v;
    n = (size_t)(colon - tensor);
  }
  if (n >= sizeof name) return (tg_edge){NULL, 0};
  memcpy(name, tensor, n);
  name[n] = 0;
  return (tg_edge){od_map_get(g->by_name, name), out};
}

/* Names become edges: data edges first, control edges behind them. */
static od_status connect(od_tfgraph *g, tg_node *n) {
  for (int i = 0; i < n->n_in; i++) {
    n->in[i] = tg_find(g, n->in_names[i]);
    if (!n->in[i].node)
      return od_fail(OD_EDATA, "node %s (%s) reads '%s', which is not in the graph", n->name, n->op, n->in_names[i]);
    if (n->in[i].out >= 0) {
      if (n->n_data < i)
        return od_fail(OD_EDATA, "node %s (%s) has a data input behind a control input", n->name, n->op);
      n->n_data = i + 1;
      n->in[i].node->read = true;
    }
  }
  return OD_OK;
}

static od_status parse_graph(od_tfgraph *g, od_view bytes) {
  od_wire w = od_wire_over(bytes);
  od_wire_field f;
  size_t n = 0;
  while (od_wire_next(&w, &f)) n += od_wire_is(&f, 1, OD_WIRE_BYTES);
  if (w.bad) return bad_graph(&w, bytes);
  if (n == 0) return od_fail(OD_EDATA, "a graph without nodes");
  if (n > NODES_MAX) return od_fail(OD_EDATA, "a graph of %zu nodes", n);
  if (!(g->nodes = od_arena_alloc(g->arena, sizeof *g->nodes * n))) return OD_ENOMEM;
  w = od_wire_over(bytes);
  while (od_wire_next(&w, &f)) {
    if (!od_wire_is(&f, 1, OD_WIRE_BYTES)) continue;
    tg_node *node = &g->nodes[g->n_nodes];
    node->index = (int)g->n_nodes;
    OD_TRY(od_fail_context(parse_node(g, node, f.bytes), "node %zu", g->n_nodes));
    if (od_map_has(g->by_name, node->name)) return od_fail(OD_EDATA, "two nodes are called '%s'", node->name);
    OD_TRY(od_map_set(g->by_name, node->name, node));
    g->n_nodes++;
  }
  for (size_t i = 0; i < g->n_nodes; i++) OD_TRY(connect(g, &g->nodes[i]));
  return OD_OK;
}

/* -------------------------------------------------------------------------------------------------------------- ports */
static od_status add_port(od_tfgraph *g, od_tfgraph_port **list, size_t *n, const od_tfgraph_port *p) {
  od_tfgraph_port *more = od_arena_alloc(g->arena, sizeof *more * (*n + 1));
  if (!more) return OD_ENOMEM;
  if (*n) memcpy(more, *list, sizeof *more * *n);
  more[(*n)++] = *p;
  *list = more;
  return OD_OK;
}

/* Ports of a graph without a signature. */
static od_status guess_ports(od_tfgraph *g) {
  for (size_t i = 0; i < g->n_nodes; i++) {
    const tg_node *n = &g->nodes[i];
    od_tfgraph_port p = {n->name, od_arena_printf(g->arena, "%s:0", n->name), OD_F32, {.rank = -1}};
    if (!p.tensor) return OD_ENOMEM;
    bool placeholder = od_starts_with(n->op, "Placeholder");
    if (placeholder) {
      (void)od_dtype_from_tf(&p.dtype, tg_attr_type(n, "dtype"));
      (void)tg_attr_shape(n, "shape", &p.shape);
      OD_TRY(add_port(g, &g->inputs, &g->n_inputs, &p));
    } else if (!n->read && !n->is_const && strcmp(n->op, "NoOp") != 0 && strcmp(n->op, "Assert") != 0) {
      (void)od_dtype_from_tf(&p.dtype, tg_attr_type(n, "T"));
      OD_TRY(add_port(g, &g->outputs, &g->n_outputs, &p));
    }
  }
  return OD_OK;
}

static od_status parse_port(od_tfgraph *g, od_view entry, od_tfgraph_port **list, size_t *n) {
  od_wire w = od_wire_over(entry);
  od_wire_field f;
  od_view key = {NULL, 0}, info = {NULL, 0}, name = {NULL, 0};
  od_tfgraph_port p = {.shape = {.rank = -1}};
  while (od_wire_next(&w, &f)) {
    if (od_wire_is(&f, 1, OD_WIRE_BYTES)) key = f.bytes;
    if (od_wire_is(&f, 2, OD_WIRE_BYTES)) info = f.bytes;
  }
  od_wire in = od_wire_over(info);
  while (od_wire_next(&in, &f)) {
    if (od_wire_is(&f, 1, OD_WIRE_BYTES)) name = f.bytes;
    if (od_wire_is(&f, 2, OD_WIRE_VARINT) && f.value < 1000) (void)od_dtype_from_tf(&p.dtype, (int)f.value);
    if (od_wire_is(&f, 3, OD_WIRE_BYTES)) OD_TRY(tg_parse_shape(&p.shape, f.bytes));
  }
  if (w.bad || in.bad || !text_ok(key) || !text_ok(name)) return od_fail(OD_EDATA, "a damaged signature");
  p.key = keep_text(g->arena, key);
  p.tensor = keep_text(g->arena, name);
  if (!p.key || !p.tensor) return OD_ENOMEM;
  if (!tg_find(g, p.tensor).node)
    return od_fail(OD_EDATA, "the signature names '%s', which is not in the graph", p.tensor);
  return add_port(g, list, n, &p);
}

static od_status parse_signature(od_tfgraph *g, od_view bytes) {
  od_wire w = od_wire_over(bytes);
  od_wire_field f;
  while (od_wire_next(&w, &f)) {
    if (od_wire_is(&f, 1, OD_WIRE_BYTES)) OD_TRY(parse_port(g, f.bytes, &g->inputs, &g->n_inputs));
    if (od_wire_is(&f, 2, OD_WIRE_BYTES)) OD_TRY(parse_port(g, f.bytes, &g->outputs, &g->n_outputs));
  }
  return w.bad ? od_fail(OD_EDATA, "a damaged signature") : OD_OK;
}

static bool has_tag(od_view meta_info, const char *tag) {
  od_wire w = od_wire_over(meta_info);
  od_wire_field f;
  while (od_wire_next(&w, &f))
    if (od_wire_is(&f, 4, OD_WIRE_BYTES) && od_view_is(f.bytes, tag)) return true;
  return false;
}

static od_status parse_meta_graph(od_tfgraph *g, od_view bytes) {
  od_wire w = od_wire_over(bytes);
  od_wire_field f, e;
  od_view graph = {NULL, 0}, signature = {NULL, 0};
  int n_signatures = 0;
  bool serving = false;
  while (od_wire_next(&w, &f)) {
    if (od_wire_is(&f, 2, OD_WIRE_BYTES)) graph = f.bytes;
    if (!od_wire_is(&f, 5, OD_WIRE_BYTES)) continue;
    od_wire entry = od_wire_over(f.bytes);
    od_view key = {NULL, 0}, value = {NULL, 0};
    while (od_wire_next(&entry, &e)) {
      if (od_wire_is(&e, 1, OD_WIRE_BYTES)) key = e.bytes;
      if (od_wire_is(&e, 2, OD_WIRE_BYTES)) value = e.bytes;
    }
    if (entry.bad) return od_fail(OD_EDATA, "a damaged signature");
    bool is_default = od_view_is(key, "serving_default");
    if (is_default || !serving) signature = value;
    serving |= is_default;
    n_signatures++;
  }
  if (w.bad || !graph.data) return od_fail(OD_EDATA, "a damaged SavedModel, or one without a graph");
  OD_TRY(parse_graph(g, graph));
  return serving || n_signatures == 1 ? parse_signature(g, signature) : guess_ports(g);
}

static od_status parse_saved_model(od_tfgraph *g, od_view bytes) {
  od_wire w = od_wire_over(bytes);
  od_wire_field f, m;
  od_view chosen = {NULL, 0};
  bool serve = false;
  while (od_wire_next(&w, &f)) {
    if (!od_wire_is(&f, 2, OD_WIRE_BYTES)) continue;
    od_wire meta = od_wire_over(f.bytes);
    bool tagged = false;
    while (od_wire_next(&meta, &m))
      if (od_wire_is(&m, 1, OD_WIRE_BYTES)) tagged = has_tag(m.bytes, "serve");
    if (!chosen.data || (tagged && !serve)) chosen = f.bytes;
    serve |= tagged;
  }
  if (w.bad) return od_fail(OD_EDATA, "the bytes (%zu) are no SavedModel, or the file was cut", bytes.size);
  if (!chosen.data) return od_fail(OD_EDATA, "a SavedModel without a graph");
  return parse_meta_graph(g, chosen);
}

/* ------------------------------------------------------------------------------------------------------------ opening */
od_status od_tfgraph_parse(od_tfgraph **out, od_view bytes, const char *name) {
  od_tfgraph *g;
  od_status st;
  *out = NULL;
  OD_TRY(od_new(&g, 1, sizeof *g));
  od_tfgraph_limit(g, (size_t)1 << 34, 10000000, INT64_MAX);
  if (!(g->path = od_strdup(name))) OD_GO(st, OD_ENOMEM);
  OD_GO(st, od_arena_new(&g->arena));
  OD_GO(st, od_map_new(&g->by_name));
  /* a SavedModel begins with a number (its schema version) or with field 2, a GraphDef with field 1 of bytes */
  if (bytes.size && (bytes.data[0] == 0x08 || bytes.data[0] == 0x12))
    OD_GO(st, parse_saved_model(g, bytes));
  else if ((st = parse_graph(g, bytes)) == OD_OK)
    OD_GO(st, guess_ports(g));
done:
  if (st != OD_OK)
    od_tfgraph_free(g);
  else
    *out = g;
  return od_fail_context(st, "%s", name);
}

static bool is_folder(const char *path) {
  struct stat s;
  return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

od_status od_tfgraph_open(od_tfgraph **out, const char *path) {
  static const char *const files[] = {"", "/frozen_inference_graph.pb", "/saved_model.pb",
                                      "/saved_model/saved_model.pb"};
  *out = NULL;
  od_str file = OD_STR_INIT;
  od_view map = {NULL, 0};
  od_status st = OD_ENOENT;
  bool folder = is_folder(path);
  for (size_t i = folder; i < (folder ? 4 : 1) && st == OD_ENOENT; i++) {
    od_str_clear(&file);
    od_str_add(&file, path);
    od_str_add(&file, files[i]);
    OD_GO(st, od_str_check(&file));
    if (folder && is_folder(file.data)) continue;
    st = od_file_map(&map, file.data);
  }
  if (st == OD_ENOENT && folder)
    st = od_fail(OD_ENOENT, "%s holds neither frozen_inference_graph.pb nor saved_model.pb nor saved_model/", path);
  OD_GO(st, st);
  OD_GO(st, od_tfgraph_parse(out, map, file.data));
  (*out)->map = map;
done:
  if (st != OD_OK) od_file_unmap(&map);
  od_str_free(&file);
  return st;
}

void od_tfgraph_free(od_tfgraph *g) {
  if (!g) return;
  tg_free_plan(g);
  for (size_t i = 0; i < g->n_nodes; i++) {
    tg_value_drop(g, &g->nodes[i].constant);
    od_single_op_free(g->nodes[i].kept);
  }
  od_single_free(g->single);
  tg_pool_free(g);
  od_map_free(g->by_name);
  od_arena_free(g->arena);
  od_file_unmap(&g->map);
  od_free(g->path);
  od_free(g);
}

/* ---------------------------------------------------------------------------------------------------------- questions */
void od_tfgraph_limit(od_tfgraph *g, size_t value_bytes, int64_t rounds, int64_t work) {
  g->max_bytes = value_bytes;
  g->max_rounds = rounds;
  g->max_work = work;
}

const char *od_tfgraph_path(const od_tfgraph *g) { return g->path; }
const od_tfgraph_port *od_tfgraph_input(const od_tfgraph *g, size_t i) {
  return i < g->n_inputs ? &g->inputs[i] : NULL;
}
const od_tfgraph_port *od_tfgraph_output(const od_tfgraph *g, size_t i) {
  return i < g->n_outputs ? &g->outputs[i] : NULL;
}
size_t od_tfgraph_nodes(const od_tfgraph *g) { return g->n_nodes; }
od_tfgraph_node od_tfgraph_node_at(const od_tfgraph *g, size_t i) {
  return (od_tfgraph_node){g->nodes[i].name, g->nodes[i].op, g->nodes[i].n_in};
}
const char *od_tfgraph_node_input(const od_tfgraph *g, size_t i, int k) { return g->nodes[i].in_names[k]; }
bool od_tfgraph_has(const od_tfgraph *g, const char *tensor) { return tg_find(g, tensor).node != NULL; }

static od_status constant_bytes(od_view *out, const od_tfgraph *g, size_t i) {
  const tg_node *n = &g->nodes[i];
  const od_view *v = n->is_const ? tg_attr_find(n, "value") : NULL;
  if (!v) return od_fail(OD_EINVAL, "%s (%s) is no constant", n->name, n->op);
  od_wire w = od_wire_over(*v);
  od_wire_field f;
  *out = (od_view){NULL, 0};
  while (od_wire_next(&w, &f))
    if (od_wire_is(&f, 8, OD_WIRE_BYTES)) *out = f.bytes;
  return out->data ? OD_OK : od_fail(OD_EDATA, "%s (Const) has no value", n->name);
}

od_status od_tfgraph_constant(od_tensor *out, const od_tfgraph *g, size_t i) {
  od_view bytes;
  tg_value v;
  OD_TRY(constant_bytes(&bytes, g, i));
  OD_TRY(od_fail_context(tg_parse_tensor(&v, bytes, false), "%s (Const)", g->nodes[i].name));
  od_free(v.buf);
  *out = v.t;
  return OD_OK;
}

od_status od_tfgraph_constant_type(od_dtype *dtype, od_shape *shape, const od_tfgraph *g, size_t i) {
  od_view bytes;
  OD_TRY(constant_bytes(&bytes, g, i));
  return od_fail_context(tg_parse_tensor_type(dtype, shape, bytes), "%s (Const)", g->nodes[i].name);
}
