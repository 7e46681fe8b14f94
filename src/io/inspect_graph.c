/* `inspect` of GraphDefs, MetaGraphDefs and SavedModels: the bytes are walked where they lie.
 *
 * GraphDef: 1 node, 2 library {1 function}, 4 versions {1 producer}. NodeDef: 1 name, 2 op, 3 input, 5 attr (map). AttrValue: 6 type,
 * 7 shape, 8 tensor. TensorProto: 1 dtype, 2 tensor_shape. MetaGraphDef: 1 meta_info_def {4 tags}, 2 graph_def, 3 saver_def, 4
 * collection_def, 5 signature_def. SavedModel: 1 schema version, 2 meta_graphs. */
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "io/bundle_slice.h"
#include "io/inspect_report.h"

enum { MAX_NAME = 1024, GUESS_FIELDS = 8 };

/* ------------------------------------------------------------------------------------------------------------ guessing */
static bool is_name(od_view v) {
  for (size_t i = 0; i < v.size; i++)
    if (v.data[i] < 33 || v.data[i] > 126) return false;
  return v.size > 0 && v.size < MAX_NAME;
}

/* A name, an operation of letters, digits and few others, and nothing that a NodeDef does not have. */
static bool is_node(od_view v) {
  od_wire w = od_wire_over(v);
  od_wire_field f;
  bool name = false, op = false;
  while (od_wire_next(&w, &f)) {
    if (f.type != OD_WIRE_BYTES || f.number > 8) return false;
    if (f.number == 1) name = is_name(f.bytes);
    if (f.number == 2) op = is_name(f.bytes);
  }
  return !w.bad && name && op;
}

static bool is_graph(od_view v) {
  od_wire w = od_wire_over(v);
  od_wire_field f;
  for (int i = 0; i < GUESS_FIELDS && od_wire_next(&w, &f); i++) {
    if (f.number > 5 || (f.number == 1 && (f.type != OD_WIRE_BYTES || !is_node(f.bytes)))) return false;
    if (f.number == 1) return true;
  }
  return false;
}

static bool is_meta(od_view v) {
  od_wire w = od_wire_over(v);
  od_wire_field f;
  for (int i = 0; i < GUESS_FIELDS && od_wire_next(&w, &f); i++) {
    if (f.number > 7 || f.type != OD_WIRE_BYTES) return false;
    if (f.number == 2) return f.bytes.size == 0 || is_graph(f.bytes);
  }
  return false;
}

od_graph_kind od_graph_guess(od_view bytes) {
  od_wire w = od_wire_over(bytes);
  od_wire_field f;
  if (is_graph(bytes)) return OD_GRAPH_DEF;
  if (is_meta(bytes)) return OD_GRAPH_META;
  for (int i = 0; i < GUESS_FIELDS && od_wire_next(&w, &f); i++)
    if (od_wire_is(&f, 2, OD_WIRE_BYTES))
      return is_meta(f.bytes) ? OD_GRAPH_SAVED_MODEL : OD_GRAPH_NONE;
    else if (!od_wire_is(&f, 1, OD_WIRE_VARINT))
      return OD_GRAPH_NONE;
  return OD_GRAPH_NONE;
}

/* ------------------------------------------------------------------------------------------------------------ a graph */
typedef struct {
  od_view name, op;
  int tf_dtype;
  bool has_shape;
  od_shape shape;
  bool used; /* another node takes it as input */
} node_seen;

typedef struct {
  node_seen *nodes;
  size_t count, cap, functions;
  int64_t producer;
  od_map *by_name; /* to index + 1, as a pointer's number */
  od_map *ops;     /* to counts, likewise */
} graph_seen;

static const char *cut(char text[MAX_NAME], od_view v) {
  size_t n = v.size < MAX_NAME - 1 ? v.size : MAX_NAME - 1;
  if (n) memcpy(text, v.data, n);
  text[n] = 0;
  return text;
}

static bool take_shape(node_seen *n, od_view bytes) { return n->has_shape = od_shape_parse(&n->shape, bytes); }

/* dtype and shape from the attributes that placeholders, variables and constants have. */
static void take_attr(node_seen *n, od_view pair) {
  od_wire w = od_wire_over(pair);
  od_wire_field f, g;
  od_view key = {0}, value = {0};
  while (od_wire_next(&w, &f)) {
    if (od_wire_is(&f, 1, OD_WIRE_BYTES)) key = f.bytes;
    if (od_wire_is(&f, 2, OD_WIRE_BYTES)) value = f.bytes;
  }
  bool dtype = od_view_is(key, "dtype"), shape = od_view_is(key, "shape"), tensor = od_view_is(key, "value");
  if (!dtype && !shape && !tensor) return;
  for (w = od_wire_over(value); od_wire_next(&w, &f);) {
    if (dtype && od_wire_is(&f, 6, OD_WIRE_VARINT)) n->tf_dtype = f.value < 1000 ? (int)f.value : 0;
    if (shape && od_wire_is(&f, 7, OD_WIRE_BYTES)) (void)take_shape(n, f.bytes);
    if (!tensor || !od_wire_is(&f, 8, OD_WIRE_BYTES)) continue;
    n->has_shape = true; /* a scalar's shape may be left out */
    for (od_wire t = od_wire_over(f.bytes); od_wire_next(&t, &g);)
      if (od_wire_is(&g, 2, OD_WIRE_BYTES)) (void)take_shape(n, g.bytes);
  }
}

static od_status add_node(graph_seen *g, od_view bytes) {
  od_wire w = od_wire_over(bytes);
  od_wire_field f;
  node_seen n = {0};
  char text[MAX_NAME];
  while (od_wire_next(&w, &f)) {
    if (f.type != OD_WIRE_BYTES) continue;
    if (f.number == 1) n.name = f.bytes;
    if (f.number == 2) n.op = f.bytes;
    if (f.number == 5) take_attr(&n, f.bytes);
  }
  if (w.bad || !n.name.size || !n.op.size) return od_fail(OD_EDATA, "node %zu is damaged", g->count);
  OD_TRY(od_grow(&g->nodes, &g->cap, g->count + 1, sizeof *g->nodes));
  g->nodes[g->count++] = n;
  OD_TRY(od_map_set(g->by_name, cut(text, n.name), (void *)g->count));
  (void)cut(text, n.op);
  return od_map_set(g->ops, text, (void *)((uintptr_t)od_map_get(g->ops, text) + 1));
}

/* Inputs read "name", "name:3" or "^name". */
static void mark_inputs(graph_seen *g, od_view node) {
  od_wire w = od_wire_over(node);
  od_wire_field f;
  char text[MAX_NAME];
  while (od_wire_next(&w, &f)) {
    if (!od_wire_is(&f, 3, OD_WIRE_BYTES)) continue;
    char *name = (char *)(uintptr_t)cut(text, f.bytes), *colon = strrchr(name, ':');
    if (colon) *colon = 0;
    uintptr_t i = (uintptr_t)od_map_get(g->by_name, name + (*name == '^'));
    if (i) g->nodes[i - 1].used = true;
  }
}

static void take_versions(graph_seen *g, od_view bytes) {
  od_wire w = od_wire_over(bytes);
  od_wire_field f;
  while (od_wire_next(&w, &f))
    if (od_wire_is(&f, 1, OD_WIRE_VARINT)) g->producer = (int64_t)f.value;
}

static void take_library(graph_seen *g, od_view bytes) {
  od_wire w = od_wire_over(bytes);
  od_wire_field f;
  while (od_wire_next(&w, &f)) g->functions += od_wire_is(&f, 1, OD_WIRE_BYTES);
}

static od_status read_graph(graph_seen *g, od_view bytes) {
  od_wire w = od_wire_over(bytes);
  od_wire_field f;
  while (od_wire_next(&w, &f)) {
    if (od_wire_is(&f, 1, OD_WIRE_BYTES)) OD_TRY(add_node(g, f.bytes));
    if (od_wire_is(&f, 2, OD_WIRE_BYTES)) take_library(g, f.bytes);
    if (od_wire_is(&f, 4, OD_WIRE_BYTES)) take_versions(g, f.bytes);
  }
  if (w.bad) return od_fail(OD_EDATA, "the graph is damaged or cut off behind node %zu", g->count);
  for (w = od_wire_over(bytes); od_wire_next(&w, &f);)
    if (od_wire_is(&f, 1, OD_WIRE_BYTES)) mark_inputs(g, f.bytes);
  return OD_OK;
}

/* ------------------------------------------------------------------------------------------------------------ reporting */
static bool is_input(const node_seen *n) {
  return od_view_is(n->op, "Placeholder") || od_view_is(n->op, "PlaceholderWithDefault") ||
         od_view_is(n->op, "PlaceholderV2");
}

static bool is_variable(const node_seen *n) {
  return od_view_is(n->op, "VariableV2") || od_view_is(n->op, "Variable") || od_view_is(n->op, "VarHandleOp");
}

static bool is_constant(const node_seen *n) { return od_view_is(n->op, "Const"); }

/* What computes something that nobody in the graph takes. */
static bool is_output(const node_seen *n) {
  static const char *const silent[] = {"Const", "NoOp", "Assert", "Assign", "AssignVariableOp", "SaveV2"};
  for (size_t i = 0; i < sizeof silent / sizeof *silent; i++)
    if (od_view_is(n->op, silent[i])) return false;
  return !n->used && !is_input(n) && !is_variable(n);
}

static void report_nodes(od_inspect_report *r, const char *title, const graph_seen *g,
                         bool (*takes)(const node_seen *)) {
  char type[16];
  od_inspect_list(r, title);
  for (size_t i = 0; i < g->count; i++) {
    const node_seen *n = &g->nodes[i];
    if (!takes(n)) continue;
    od_inspect_row(r);
    od_inspect_text(r, "name", n->name);
    if (takes == is_output) od_inspect_text(r, "op", n->op);
    if (n->tf_dtype) od_inspect_cstr(r, "dtype", od_inspect_type(type, n->tf_dtype));
    if (takes != is_output) od_inspect_shape(r, "shape", n->has_shape ? &n->shape : NULL);
    od_inspect_row_end(r);
  }
  od_inspect_list_end(r);
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static od_status report_ops(od_inspect_report *r, const graph_seen *g) {
  const char **names;
  size_t n = od_map_size(g->ops);
  OD_TRY(od_new(&names, n, sizeof *names));
  for (size_t i = 0; i < n; i++) names[i] = od_map_key(g->ops, i);
  if (n > 1) qsort(names, n, sizeof *names, by_text);
  od_inspect_list(r, "ops");
  for (size_t i = 0; i < n; i++) {
    od_inspect_row(r);
    od_inspect_cstr(r, "op", names[i]);
    od_inspect_int(r, "count", (int64_t)(uintptr_t)od_map_get(g->ops, names[i]));
    od_inspect_row_end(r);
  }
  od_inspect_list_end(r);
  od_free(names);
  return OD_OK;
}

static od_status report_graph(od_inspect_report *r, const char *path, od_view bytes) {
  graph_seen g = {0};
  od_status st;
  OD_GO(st, od_map_new(&g.by_name));
  OD_GO(st, od_map_new(&g.ops));
  OD_GO(st, od_fail_context(read_graph(&g, bytes), "%s", path));
  od_inspect_int(r, "nodes", (int64_t)g.count);
  od_inspect_int(r, "functions", (int64_t)g.functions);
  od_inspect_int(r, "producer", g.producer);
  od_inspect_int(r, "bytes", (int64_t)bytes.size);
  report_nodes(r, "inputs", &g, is_input);
  report_nodes(r, "outputs", &g, is_output);
  report_nodes(r, "variables", &g, is_variable);
  report_nodes(r, "constants", &g, is_constant);
  st = report_ops(r, &g);
done:
  od_map_free(g.by_name);
  od_map_free(g.ops);
  od_free(g.nodes);
  return st;
}

od_status od_inspect_graph(od_inspect_report *r, const char *path, od_view bytes) {
  od_inspect_cstr(r, "kind", "graph");
  return report_graph(r, path, bytes);
}

/* ------------------------------------------------------------------------------------------------------------ signatures */
/* TensorInfo: 1 name, 2 dtype, 3 tensor_shape. side: "input" or "output". */
static void report_tensor(od_inspect_report *r, od_view signature, const char *side, od_view pair) {
  od_wire w = od_wire_over(pair), t;
  od_wire_field f, g;
  od_view key = {0}, name = {0};
  char type[16];
  int tf_dtype = 0;
  od_shape shape;
  bool known = false;
  while (od_wire_next(&w, &f)) {
    if (od_wire_is(&f, 1, OD_WIRE_BYTES)) key = f.bytes;
    if (!od_wire_is(&f, 2, OD_WIRE_BYTES)) continue;
    for (t = od_wire_over(f.bytes); od_wire_next(&t, &g);) {
      if (od_wire_is(&g, 1, OD_WIRE_BYTES)) name = g.bytes;
      if (od_wire_is(&g, 2, OD_WIRE_VARINT)) tf_dtype = g.value < 1000 ? (int)g.value : 0;
      if (od_wire_is(&g, 3, OD_WIRE_BYTES)) known = od_shape_parse(&shape, g.bytes);
    }
  }
  od_inspect_row(r);
  od_inspect_text(r, "key", key);
  od_inspect_text(r, "signature", signature);
  od_inspect_cstr(r, "side", side);
  od_inspect_text(r, "tensor", name);
  od_inspect_cstr(r, "dtype", od_inspect_type(type, tf_dtype));
  od_inspect_shape(r, "shape", known ? &shape : NULL);
  od_inspect_row_end(r);
}

static void report_signature(od_inspect_report *r, od_view pair) {
  od_wire w = od_wire_over(pair);
  od_wire_field f, g;
  od_view key = {0}, def = {0};
  while (od_wire_next(&w, &f)) {
    if (od_wire_is(&f, 1, OD_WIRE_BYTES)) key = f.bytes;
    if (od_wire_is(&f, 2, OD_WIRE_BYTES)) def = f.bytes;
  }
  for (w = od_wire_over(def); od_wire_next(&w, &g);) {
    if (od_wire_is(&g, 1, OD_WIRE_BYTES)) report_tensor(r, key, "input", g.bytes);
    if (od_wire_is(&g, 2, OD_WIRE_BYTES)) report_tensor(r, key, "output", g.bytes);
  }
}

static void report_tags(od_inspect_report *r, od_view info) {
  od_wire w = od_wire_over(info);
  od_wire_field f;
  while (od_wire_next(&w, &f)) {
    if (!od_wire_is(&f, 4, OD_WIRE_BYTES)) continue;
    od_inspect_row(r);
    od_inspect_text(r, "tag", f.bytes);
    od_inspect_row_end(r);
  }
}

/* Number of VariableDefs in a collection: CollectionDef{2 bytes_list{1}}. */
static void report_collection(od_inspect_report *r, od_view pair) {
  od_wire w = od_wire_over(pair), c, l;
  od_wire_field f, g, h;
  od_view key = {0};
  int64_t values = 0;
  while (od_wire_next(&w, &f)) {
    if (od_wire_is(&f, 1, OD_WIRE_BYTES)) key = f.bytes;
    if (!od_wire_is(&f, 2, OD_WIRE_BYTES)) continue;
    for (c = od_wire_over(f.bytes); od_wire_next(&c, &g);)
      if (g.type == OD_WIRE_BYTES && (g.number == 1 || g.number == 2))
        for (l = od_wire_over(g.bytes); od_wire_next(&l, &h);) values += od_wire_is(&h, 1, OD_WIRE_BYTES);
  }
  od_inspect_row(r);
  od_inspect_text(r, "collection", key);
  od_inspect_int(r, "values", values);
  od_inspect_row_end(r);
}

/* Walks one field of a MetaGraphDef through a list of rows. */
static void report_rows(od_inspect_report *r, const char *title, od_view meta, uint32_t number,
                        void (*row)(od_inspect_report *, od_view)) {
  od_wire w = od_wire_over(meta);
  od_wire_field f;
  od_inspect_list(r, title);
  while (od_wire_next(&w, &f))
    if (od_wire_is(&f, number, OD_WIRE_BYTES)) row(r, f.bytes);
  od_inspect_list_end(r);
}

static od_status report_meta(od_inspect_report *r, const char *path, od_view meta) {
  od_wire w = od_wire_over(meta);
  od_wire_field f;
  od_view graph = {0};
  while (od_wire_next(&w, &f))
    if (od_wire_is(&f, 2, OD_WIRE_BYTES)) graph = f.bytes;
  if (w.bad) return od_fail(OD_EDATA, "%s: the MetaGraphDef is damaged or cut off", path);
  report_rows(r, "tags", meta, 1, report_tags);
  report_rows(r, "signatures", meta, 5, report_signature);
  report_rows(r, "collections", meta, 4, report_collection);
  return report_graph(r, path, graph);
}

od_status od_inspect_meta_graph(od_inspect_report *r, const char *path, od_view bytes) {
  od_inspect_cstr(r, "kind", "meta_graph");
  return report_meta(r, path, bytes);
}

od_status od_inspect_saved_model(od_inspect_report *r, const char *path, od_view bytes) {
  od_wire w = od_wire_over(bytes);
  od_wire_field f;
  od_view meta = {0};
  int64_t schema = 0, metas = 0;
  while (od_wire_next(&w, &f)) {
    if (od_wire_is(&f, 1, OD_WIRE_VARINT)) schema = (int64_t)f.value;
    if (!od_wire_is(&f, 2, OD_WIRE_BYTES)) continue;
    if (metas++ == 0) meta = f.bytes; /* the first is described; others are counted */
  }
  if (w.bad) return od_fail(OD_EDATA, "%s: the SavedModel is damaged or cut off", path);
  od_inspect_cstr(r, "kind", "saved_model");
  od_inspect_int(r, "schema_version", schema);
  od_inspect_int(r, "meta_graphs", metas);
  return report_meta(r, path, meta);
}
