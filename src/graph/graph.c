/* Building and walking graphs; see graph.h. */
#include "graph/graph.h"

#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "base/str.h"
#include "graph/params.h"

enum { SCOPES_MAX = 32 };

typedef struct {
  const char *list, *key;
  od_value value;
} collected;

struct od_graph {
  od_arena *arena;
  od_node **nodes;
  size_t n_nodes, cap_nodes;
  od_map *by_name;
  od_map *next_suffix; /* name -> how many carry it, as a pointer-sized number */
  const char *scopes[SCOPES_MAX];
  int n_scopes;
  od_variable **variables;
  size_t n_variables, cap_variables;
  od_map *variable_by_name;
  od_update_entry *updates;
  size_t n_updates, cap_updates;
  collected *collected;
  size_t n_collected, cap_collected;
  od_status failed;
  char *failure; /* message of the first failure */
};

od_status od_graph_new(od_graph **out) {
  od_graph *g;
  od_status st;
  OD_TRY(od_new(&g, 1, sizeof *g));
  OD_GO(st, od_arena_new(&g->arena));
  OD_GO(st, od_map_new(&g->by_name));
  OD_GO(st, od_map_new(&g->next_suffix));
  OD_GO(st, od_map_new(&g->variable_by_name));
done:
  if (st != OD_OK)
    od_graph_free(g);
  else
    *out = g;
  return st;
}

void od_graph_free(od_graph *g) {
  if (!g) return;
  od_arena_free(g->arena);
  od_map_free(g->by_name);
  od_map_free(g->next_suffix);
  od_map_free(g->variable_by_name);
  od_free(g->nodes);
  od_free(g->variables);
  od_free(g->updates);
  od_free(g->collected);
  od_free(g->failure);
  od_free(g);
}

od_status od_graph_check(const od_graph *g) {
  return g->failed == OD_OK ? OD_OK : od_fail_take(g->failed, g->failure ? g->failure : "out of memory");
}

od_value od_graph_fail(od_graph *g, od_status st) {
  if (g->failed == OD_OK && st != OD_OK) {
    g->failed = st;
    g->failure = od_strdup(od_message());
  }
  return OD_NONE;
}

/* -------------------------------------------------------------------------------------------------------------- names */
void od_scope_push(od_graph *g, const char *name) {
  OD_ASSERT(g->n_scopes < SCOPES_MAX);
  const char *copy = od_arena_strdup(g->arena, name);
  if (!copy) od_graph_fail(g, OD_ENOMEM);
  g->scopes[g->n_scopes++] = copy ? copy : "";
}

void od_scope_pop(od_graph *g) {
  OD_ASSERT(g->n_scopes > 0);
  g->n_scopes--;
}

const char *od_scope_name(od_graph *g, const char *name) {
  const char *full = name;
  for (int i = g->n_scopes - 1; i >= 0 && full; i--)
    if (g->scopes[i][0]) full = od_arena_printf(g->arena, "%s/%s", g->scopes[i], full);
  if (full == name) full = od_arena_strdup(g->arena, name);
  if (!full) od_graph_fail(g, OD_ENOMEM);
  return full ? full : "";
}

/* The name itself, or with the first free suffix _1, _2, ... */
static const char *unique_name(od_graph *g, const char *full) {
  if (!od_map_has(g->by_name, full)) return full;
  uintptr_t next = (uintptr_t)od_map_get(g->next_suffix, full);
  const char *name;
  do name = od_arena_printf(g->arena, "%s_%llu", full, (unsigned long long)++next);
  while (name && od_map_has(g->by_name, name));
  if (od_map_set(g->next_suffix, full, (void *)next) != OD_OK) return NULL;
  return name;
}

/* -------------------------------------------------------------------------------------------------------------- nodes */
static od_status check_inputs(const od_graph *g, const char *name, const od_op *op, const od_value *in, int n_in) {
  if (op->max_in < 0 && n_in < op->min_in)
    return od_fail(OD_EINVAL, "%s: op %s takes %d inputs or more, not %d", name, op->name, op->min_in, n_in);
  if (op->max_in >= 0 && (n_in < op->min_in || n_in > op->max_in))
    return od_fail(OD_EINVAL, "%s: op %s takes %d to %d inputs, not %d", name, op->name, op->min_in, op->max_in, n_in);
  for (int i = 0; i < n_in; i++) {
    if (!od_has(in[i]) && !(i < 32 && (op->optional_in >> i & 1u)))
      return od_fail(OD_EINVAL, "%s: input %d of op %s is missing", name, i, op->name);
    if (!od_has(in[i])) continue;
    OD_ASSERT((size_t)in[i].node->id < g->n_nodes &&
              g->nodes[in[i].node->id] == in[i].node); /* no value of another graph */
    OD_ASSERT(in[i].out >= 0 && in[i].out < in[i].node->op->n_out);
  }
  return OD_OK;
}

static od_status infer(od_graph *g, od_node *node, od_type *out) {
  const od_op *op = node->op;
  od_type *in = od_arena_alloc(g->arena, sizeof *in * (size_t)(node->n_in + 1));
  bool *present = od_arena_alloc(g->arena, sizeof *present * (size_t)(node->n_in + 1));
  if (!in || !present) return OD_ENOMEM;
  for (int i = 0; i < node->n_in; i++) {
    present[i] = od_has(node->in[i]);
    in[i] = od_type_of(node->in[i]);
  }
  od_infer c = {node, node->params, node->n_in, op->n_out, in, present, out};
  return op->infer(&c);
}

static od_status add(od_value *result, od_graph *g, const char *name, const od_op *op, const od_value *in, int n_in,
                     const void *params, const od_type *source_type) {
  const char *full = unique_name(g, od_scope_name(g, name));
  od_node *node = od_arena_alloc(g->arena, sizeof *node);
  od_value *inputs = od_arena_alloc(g->arena, sizeof *inputs * (size_t)(n_in + 1));
  od_type *out = od_arena_alloc(g->arena, sizeof *out * (size_t)op->n_out);
  if (!full || !node || !inputs || !out) return OD_ENOMEM;
  OD_TRY(check_inputs(g, full, op, in, n_in));
  if (n_in) memcpy(inputs, in, sizeof *in * (size_t)n_in);
  *node = (od_node){op, full, NULL, inputs, n_in, out, (int)g->n_nodes};
  OD_TRY(od_fail_context(od_params_copy(&node->params, g->arena, op, params), "%s (%s)", full, op->name));
  if (source_type)
    out[0] = *source_type;
  else
    OD_TRY(od_fail_context(infer(g, node, out), "%s (%s)", full, op->name));
  OD_TRY(od_grow(&g->nodes, &g->cap_nodes, g->n_nodes + 1, sizeof *g->nodes));
  OD_TRY(od_map_set(g->by_name, full, node));
  g->nodes[g->n_nodes++] = node;
  *result = (od_value){node, 0};
  return OD_OK;
}

od_value od_graph_add_named(od_graph *g, const char *name, const od_op *op, const od_value *in, int n_in,
                            const void *params) {
  if (g->failed != OD_OK) return OD_NONE;
  od_value v = OD_NONE;
  od_status st = add(&v, g, name, op, in, n_in, params, NULL);
  return st == OD_OK ? v : od_graph_fail(g, st);
}

od_value od_graph_add(od_graph *g, const od_op *op, const od_value *in, int n_in, const void *params) {
  return od_graph_add_named(g, op->name, op, in, n_in, params);
}

static od_value source(od_graph *g, const char *name, const char *op_name, const void *params, od_type type) {
  if (g->failed != OD_OK) return OD_NONE;
  od_value v = OD_NONE;
  const od_op *op = od_op_find(op_name);
  OD_ASSERT(op);
  od_status st = add(&v, g, name, op, NULL, 0, params, &type);
  return st == OD_OK ? v : od_graph_fail(g, st);
}

od_type od_type_of(od_value v) { return v.node ? v.node->out[v.out] : (od_type){OD_F32, {-1, {0}}}; }

int64_t od_dim(od_value v, int i) {
  od_type t = od_type_of(v);
  if (i < 0) i += t.shape.rank;
  return i < 0 || i >= t.shape.rank ? -1 : t.shape.dim[i];
}

size_t od_graph_size(const od_graph *g) { return g->n_nodes; }
od_node *od_graph_node(const od_graph *g, size_t i) { return g->nodes[i]; }
od_node *od_graph_find(const od_graph *g, const char *name) { return od_map_get(g->by_name, name); }
od_arena *od_graph_arena(od_graph *g) { return g->arena; }

/* ------------------------------------------------------------------------------------------------ inputs and constants */
od_value od_input(od_graph *g, const char *name, od_dtype dtype, od_shape shape) {
  return source(g, name, "input", &(od_input_params){name}, (od_type){dtype, shape});
}

od_value od_const(od_graph *g, od_dtype dtype, od_shape shape, const void *data) {
  od_const_params p = {{dtype, shape, (void *)(uintptr_t)data}}; /* copied, never written */
  return source(g, "const", "const", &p, (od_type){dtype, shape});
}

od_value od_const_f32(od_graph *g, float v) { return od_const(g, OD_F32, OD_SCALAR, &v); }
od_value od_const_i32(od_graph *g, int32_t v) { return od_const(g, OD_I32, OD_SCALAR, &v); }

/* ----------------------------------------------------------------------------------------------------------- variables */
static od_value variable(od_graph *g, const char *full, const char *node_name, od_variable desc) {
  if (g->failed != OD_OK) return OD_NONE;
  if (od_map_has(g->variable_by_name, full))
    return od_graph_fail(g, od_fail(OD_EINVAL, "variable %s is created twice", full));
  if (!od_shape_known(&desc.shape)) {
    char text[OD_SHAPE_TEXT];
    return od_graph_fail(
        g, od_fail(OD_EINVAL, "variable %s has no known shape: %s", full, od_shape_text(text, &desc.shape)));
  }
  od_variable *v = od_arena_alloc(g->arena, sizeof *v);
  if (!v) return od_graph_fail(g, OD_ENOMEM);
  *v = desc;
  v->name = full;
  v->index = (int)g->n_variables;
  v->value = source(g, node_name, "variable", &(od_variable_params){full}, (od_type){v->dtype, v->shape});
  if (!od_has(v->value)) return OD_NONE;
  od_status st = od_grow(&g->variables, &g->cap_variables, g->n_variables + 1, sizeof *g->variables);
  if (st == OD_OK) st = od_map_set(g->variable_by_name, full, v);
  if (st != OD_OK) return od_graph_fail(g, st);
  g->variables[g->n_variables++] = v;
  return v->value;
}

od_value od_variable_new(od_graph *g, const char *name, od_dtype dtype, od_shape shape, od_init init, bool trainable) {
  od_variable desc = {.dtype = dtype, .shape = shape, .init = init, .trainable = trainable, .model = true};
  return variable(g, od_scope_name(g, name), name, desc);
}

od_value od_variable_slot(od_graph *g, const char *full_name, od_dtype dtype, od_shape shape, od_init init) {
  const char *full = od_arena_strdup(g->arena, full_name);
  if (!full) return od_graph_fail(g, OD_ENOMEM);
  int scopes = g->n_scopes;
  g->n_scopes = 0;
  od_value v = variable(g, full, full, (od_variable){.dtype = dtype, .shape = shape, .init = init});
  g->n_scopes = scopes;
  return v;
}

size_t od_graph_variables(const od_graph *g) { return g->n_variables; }
const od_variable *od_graph_variable(const od_graph *g, size_t i) { return g->variables[i]; }
const od_variable *od_graph_variable_named(const od_graph *g, const char *name) {
  return od_map_get(g->variable_by_name, name);
}

const od_variable *od_variable_of(const od_graph *g, od_value v) {
  if (!v.node || strcmp(v.node->op->name, "variable") != 0) return NULL;
  return od_graph_variable_named(g, ((const od_variable_params *)v.node->params)->name);
}

/* ----------------------------------------------------------------------------------------------- updates, collections */
static od_status append_update(od_graph *g, const char *group, od_value var, od_value value) {
  const od_variable *v = od_variable_of(g, var);
  if (!v) return od_fail(OD_EINVAL, "an update of something that is no variable");
  od_type t = od_type_of(value);
  if (!od_has(value)) return od_fail(OD_EINVAL, "update of %s: there is no new value", v->name);
  if (t.dtype != v->dtype || !od_shape_equal(&t.shape, &v->shape)) {
    char a[OD_SHAPE_TEXT], b[OD_SHAPE_TEXT];
    return od_fail(OD_EINVAL, "update of %s: the new value is %s%s, the variable is %s%s", v->name,
                   od_dtype_name(t.dtype), od_shape_text(a, &t.shape), od_dtype_name(v->dtype),
                   od_shape_text(b, &v->shape));
  }
  for (size_t i = 0; i < g->n_updates; i++)
    if (g->updates[i].var == v && strcmp(g->updates[i].group, group) == 0)
      return od_fail(OD_EINVAL, "%s gets two updates of group %s", v->name, group);
  OD_TRY(od_grow(&g->updates, &g->cap_updates, g->n_updates + 1, sizeof *g->updates));
  const char *copy = od_arena_strdup(g->arena, group);
  if (!copy) return OD_ENOMEM;
  g->updates[g->n_updates++] = (od_update_entry){copy, v, value};
  return OD_OK;
}

void od_update(od_graph *g, const char *group, od_value var, od_value new_value) {
  if (g->failed != OD_OK) return;
  od_graph_fail(g, append_update(g, group, var, new_value));
}

size_t od_graph_updates(const od_graph *g) { return g->n_updates; }
const od_update_entry *od_graph_update(const od_graph *g, size_t i) { return &g->updates[i]; }

void od_collect(od_graph *g, const char *list, const char *key, od_value v) {
  if (g->failed != OD_OK || !od_has(v)) return;
  collected c = {od_arena_strdup(g->arena, list), od_arena_strdup(g->arena, key), v};
  od_status st = c.list && c.key ? od_grow(&g->collected, &g->cap_collected, g->n_collected + 1, sizeof c) : OD_ENOMEM;
  if (st != OD_OK)
    od_graph_fail(g, st);
  else
    g->collected[g->n_collected++] = c;
}

bool od_collected(const od_graph *g, const char *list, size_t i, const char **key, od_value *v) {
  for (size_t k = 0; k < g->n_collected; k++) {
    if (strcmp(g->collected[k].list, list) != 0 || i--) continue;
    if (key) *key = g->collected[k].key;
    if (v) *v = g->collected[k].value;
    return true;
  }
  return false;
}
