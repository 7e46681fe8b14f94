/* The graph: nodes of ops, built once, free of image sizes.
 *
 * The same graph is differentiated (graph/autodiff.h), bound to shapes and run by an engine (engine/program.h) and written
 * out (export/). Variables are nodes of op `variable`; what a training step changes is a list of updates (variable, new
 * value), so optimizers, moving averages and batch-norm statistics are ops like any other.
 * Builders are sticky: the first failure stays in the graph, everything after passes through, od_graph_check tells. */
#ifndef OD_GRAPH_GRAPH_H
#define OD_GRAPH_GRAPH_H

#include "base/mem.h"
#include "graph/op.h"

struct od_node {
  const od_op *op;
  const char *name; /* unique in the graph, scopes joined by '/' */
  const void *params;
  const od_value *in;
  int n_in;
  const od_type *out;
  int id; /* creation order, which is a topological order */
};

OD_MUST_CHECK od_status od_graph_new(od_graph **out);
void od_graph_free(od_graph *g);
/* The first failure of any builder, or OD_OK. */
OD_MUST_CHECK od_status od_graph_check(const od_graph *g);
/* Records a failure (the thread's message is kept); for builders in model code. Returns OD_NONE. */
od_value od_graph_fail(od_graph *g, od_status st);

/* Adds a node. params: a struct of op->params_size bytes, copied with its lists. in: n_in values, absent ones allowed where
 * the op says so. Returns output 0; the others are od_out(v, i). */
od_value od_graph_add(od_graph *g, const od_op *op, const od_value *in, int n_in, const void *params);
/* As above with a name of its own instead of the op's (made unique by _1, _2...). */
od_value od_graph_add_named(od_graph *g, const char *name, const od_op *op, const od_value *in, int n_in, const void *params);

static inline od_value od_out(od_value v, int i) { return v.node ? (od_value){v.node, i} : OD_NONE; }
static inline bool od_has(od_value v) { return v.node != NULL; }
static inline bool od_same(od_value a, od_value b) { return a.node == b.node && a.out == b.out; }
/* Logical type of a value; a failed value gives rank -1. */
od_type od_type_of(od_value v);
/* Dimension i, -1 when unknown (or the value failed); negative i counts from the end. */
int64_t od_dim(od_value v, int i);

/* Scopes: names of nodes and variables made until the pop get "<name>/" in front. */
void od_scope_push(od_graph *g, const char *name);
void od_scope_pop(od_graph *g);
/* "<scopes>/<name>" in graph memory; valid as long as the graph. */
const char *od_scope_name(od_graph *g, const char *name);

size_t od_graph_size(const od_graph *g);
od_node *od_graph_node(const od_graph *g, size_t i);
od_node *od_graph_find(const od_graph *g, const char *name);
od_arena *od_graph_arena(od_graph *g); /* memory that lives as long as the graph */

/* Text of the whole graph, one line a node: name, op, parameters, inputs, types. Caller frees with od_free. */
OD_MUST_CHECK od_status od_graph_print(char **out, const od_graph *g);

/* ------------------------------------------------------------------------------------------------ inputs and constants */
/* An input that every run feeds. Dimensions -1 are bound by the plan. */
od_value od_input(od_graph *g, const char *name, od_dtype dtype, od_shape shape);
/* A constant; data is copied. */
od_value od_const(od_graph *g, od_dtype dtype, od_shape shape, const void *data);
od_value od_const_f32(od_graph *g, float v); /* scalar */
od_value od_const_i32(od_graph *g, int32_t v);
typedef struct {
  const char *name;
} od_input_params;
typedef struct {
  od_tensor value;
} od_const_params;

/* ----------------------------------------------------------------------------------------------------------- variables */
typedef enum { OD_INIT_CONSTANT, OD_INIT_UNIFORM, OD_INIT_NORMAL, OD_INIT_TRUNCATED_NORMAL } od_init_kind;
typedef struct {
  od_init_kind kind;
  float a; /* constant: value; uniform: low; normal: mean */
  float b; /* uniform: high; normal: standard deviation */
} od_init;

/* A variable of the state. Descriptions live in the graph. */
typedef struct {
  const char *name; /* checkpoint name: the original's */
  od_dtype dtype;   /* fp32; int64 for global_step */
  od_shape shape;   /* known */
  od_init init;
  bool trainable;  /* member of the original's TRAINABLE_VARIABLES */
  bool model;      /* part of the model (false: optimizer slots, moving averages, step) */
  od_value value;  /* its node */
  int index;       /* creation order */
} od_variable;

/* Creates the variable under the current scopes and returns its value. A second one of the same name is a failure. */
od_value od_variable_new(od_graph *g, const char *name, od_dtype dtype, od_shape shape, od_init init, bool trainable);
/* As above under its full name, outside the scopes, not part of the model (slots, averages, global_step). */
od_value od_variable_slot(od_graph *g, const char *full_name, od_dtype dtype, od_shape shape, od_init init);
size_t od_graph_variables(const od_graph *g);
const od_variable *od_graph_variable(const od_graph *g, size_t i);
const od_variable *od_graph_variable_named(const od_graph *g, const char *full_name);
/* The variable a value is, or NULL when its node is none. */
const od_variable *od_variable_of(const od_graph *g, od_value v);
typedef struct {
  const char *name;
} od_variable_params;

/* Says that running the updates sets var (a variable's value) to new_value. group: "batch_norm", "optimizer",
 * "moving_average", "step": a program chooses groups. The value's type must be the variable's; a second update of one variable
 * in one group is a failure. */
void od_update(od_graph *g, const char *group, od_value var, od_value new_value);
typedef struct {
  const char *group;
  const od_variable *var;
  od_value value;
} od_update_entry;
size_t od_graph_updates(const od_graph *g);
const od_update_entry *od_graph_update(const od_graph *g, size_t i);

/* Named lists of values, in the order they were added; an absent value is not added. What builders leave for others: "losses" (key = the original's loss name), "regularization",
 * "summaries" (scalars for the event file). */
void od_collect(od_graph *g, const char *list, const char *key, od_value v);
/* i-th entry of a list; false behind the last. */
bool od_collected(const od_graph *g, const char *list, size_t i, const char **key, od_value *v);

#endif
