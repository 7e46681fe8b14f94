/* Runs a graph by the ops' own references, without an engine: sources give their data, everything else is inferred and
 * computed in order. For tests of this room. */
#ifndef OD_GRAPH_RUN_H
#define OD_GRAPH_RUN_H

#include "graph/graph.h"
#include "od_json.h"

enum { RUN_NODES = 256 };

/* Values of a run by node id; run_free gives the memory back. */
typedef struct {
  od_tensor *value[RUN_NODES];
  int n_out[RUN_NODES];
} graph_run;

static inline void run_node(graph_run *r, const od_node *n, const od_tensor *feed) {
  bool present[64] = {false};
  od_type in[64], out[8];
  od_tensor data[64];
  CHECK(n->n_in <= 64 && n->op->n_out <= 8 && n->id < RUN_NODES);
  r->n_out[n->id] = n->op->n_out;
  r->value[n->id] = test_calloc((size_t)n->op->n_out, sizeof(od_tensor));
  if (strcmp(n->op->name, "const") == 0) {
    CHECK_OK(od_tensor_copy(r->value[n->id], &((const od_const_params *)n->params)->value));
    return;
  }
  if (strcmp(n->op->name, "input") == 0) {
    CHECK(feed);
    CHECK_OK(od_tensor_copy(r->value[n->id], feed));
    return;
  }
  for (int i = 0; i < n->n_in; i++) {
    present[i] = od_has(n->in[i]);
    data[i] = present[i] ? r->value[n->in[i].node->id][n->in[i].out] : (od_tensor){OD_F32, {-1, {0}}, NULL};
    in[i] = (od_type){data[i].dtype, data[i].shape};
  }
  od_infer c = {n, n->params, n->n_in, n->op->n_out, in, present, out};
  CHECK_OK(n->op->infer(&c));
  for (int i = 0; i < n->op->n_out; i++) CHECK_OK(od_tensor_new(&r->value[n->id][i], out[i].dtype, &out[i].shape));
  void *scratch = n->op->scratch ? test_malloc(n->op->scratch(&c) + 1) : NULL;
  od_call call = {n->params, n->n_in, n->op->n_out, data, r->value[n->id], scratch, od_key_name(0, n->name)};
  CHECK_OK(n->op->ref(&call));
  test_free(scratch);
}

/* feeds: one tensor for each input node, in the order they were made. */
static inline void run_graph(graph_run *r, const od_graph *g, const od_tensor *feeds) {
  CHECK_OK(od_graph_check(g));
  memset(r, 0, sizeof *r);
  for (size_t i = 0; i < od_graph_size(g); i++) {
    const od_node *n = od_graph_node(g, i);
    run_node(r, n, feeds);
    if (feeds && strcmp(n->op->name, "input") == 0) feeds++;
  }
}

static inline const od_tensor *run_value(const graph_run *r, od_value v) { return &r->value[v.node->id][v.out]; }
static inline const float *run_floats(const graph_run *r, od_value v) { return run_value(r, v)->data; }

static inline void run_free(graph_run *r) {
  for (int i = 0; i < RUN_NODES; i++) {
    for (int k = 0; r->value[i] && k < r->n_out[i]; k++) od_tensor_free(&r->value[i][k]);
    test_free(r->value[i]);
  }
}

/* A constant of the numbers in (nested) JSON, under a shape that they fill. Integers when dtype is OD_I32. */
static inline od_value json_const(od_graph *g, json_t *value, od_dtype dtype, od_shape shape) {
  size_t n;
  float *v = json_floats(value, &n);
  CHECK((int64_t)n == od_shape_size(&shape));
  int32_t *whole = test_malloc((n + 1) * sizeof *whole);
  for (size_t i = 0; i < n; i++) whole[i] = (int32_t)v[i];
  od_value out = od_const(g, dtype, shape, dtype == OD_I32 ? (void *)whole : (void *)v);
  test_free(whole);
  test_free(v);
  return out;
}

/* The shape of nested arrays. */
static inline od_shape json_shape(json_t *value) {
  od_shape s = {0, {0}};
  for (; json_is_array(value); value = json_array_get(value, 0)) s.dim[s.rank++] = (int64_t)json_array_size(value);
  return s;
}

static inline od_value json_const_f32(od_graph *g, json_t *object, const char *key) {
  json_t *v = json_need(object, key);
  return json_const(g, v, OD_F32, json_shape(v));
}

static inline const char *json_text(json_t *object, const char *key) {
  const char *s = json_string_value(json_object_get(object, key));
  return s ? s : "";
}

static inline bool json_bool_or(json_t *object, const char *key, bool otherwise) {
  json_t *v = json_object_get(object, key);
  return v && !json_is_null(v) ? json_is_true(v) : otherwise;
}

#endif
