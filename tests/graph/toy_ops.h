/* A handful of ops for the tests of the graph room, which stands above ops/: just enough to build, differentiate and compute
 * with scalars. od_op_find and od_op_at are defined here, in place of those of ops/. */
#ifndef OD_TOY_OPS_H
#define OD_TOY_OPS_H

#include "graph/graph.h"
#include "od_test.h"

/* A parameter of every kind. */
typedef struct {
  int64_t whole;
  float real;
  bool truth;
  int choice;
  od_dtype dtype;
  od_ints ints;
  od_floats floats;
  const char *text;
  od_shape shape;
  od_tensor tensor;
} toy_params;

static const char *const toy_choices[] = {"red", "green", NULL};
static const od_param toy_table[] = {
    {"whole", OD_P_INT, offsetof(toy_params, whole), "", 1, 9, NULL},
    {"real", OD_P_FLOAT, offsetof(toy_params, real), "", 0, 1, NULL},
    {"truth", OD_P_BOOL, offsetof(toy_params, truth), "", 0, 0, NULL},
    {"choice", OD_P_ENUM, offsetof(toy_params, choice), "", 0, 0, toy_choices},
    {"dtype", OD_P_DTYPE, offsetof(toy_params, dtype), "", 0, 0, NULL},
    {"ints", OD_P_INTS, offsetof(toy_params, ints), "", -5, 5, NULL},
    {"floats", OD_P_FLOATS, offsetof(toy_params, floats), "", 0, 0, NULL},
    {"text", OD_P_TEXT, offsetof(toy_params, text), "", 0, 0, NULL},
    {"shape", OD_P_SHAPE, offsetof(toy_params, shape), "", 0, 0, NULL},
    {"tensor", OD_P_TENSOR, offsetof(toy_params, tensor), "", 0, 0, NULL},
    {0},
};

static od_status toy_as_input(const od_infer *c) {
  for (int i = 0; i < c->n_out; i++) c->out[i] = c->n_in ? c->in[0] : (od_type){OD_F32, OD_SCALAR};
  return OD_OK;
}

static od_status toy_refuse(const od_infer *c) { return od_fail(OD_EINVAL, "%d inputs are not liked", c->n_in); }

static od_value toy(od_graph *g, const char *name, od_value a, od_value b);

static od_status add_grad(od_grad *c) {
  c->din[0] = c->din[1] = c->dout[0];
  return OD_OK;
}
static od_status mul_grad(od_grad *c) {
  if (c->need[0]) c->din[0] = toy(c->graph, "mul", c->dout[0], c->node->in[1]);
  if (c->need[1]) c->din[1] = toy(c->graph, "mul", c->dout[0], c->node->in[0]);
  return OD_OK;
}
/* two outputs: x and 2x */
static od_status twice_grad(od_grad *c) {
  od_value d = c->dout[0];
  if (od_has(c->dout[1])) {
    od_value two = toy(c->graph, "add", c->dout[1], c->dout[1]);
    d = od_has(d) ? toy(c->graph, "add", d, two) : two;
  }
  c->din[0] = d;
  return OD_OK;
}
static od_status stop_grad(od_grad *c) {
  (void)c;
  return OD_OK;
}

static const od_param name_table[] = {{"name", OD_P_TEXT, 0, "", 0, 0, NULL}, {0}};
static const od_param value_table[] = {{"value", OD_P_TENSOR, 0, "", 0, 0, NULL}, {0}};

static const od_op toy_ops[] = {
    {.name = "input", .params = name_table, .params_size = sizeof(od_input_params), .n_out = 1, .flags = OD_OP_SOURCE},
    {.name = "variable",
     .params = name_table,
     .params_size = sizeof(od_variable_params),
     .n_out = 1,
     .flags = OD_OP_SOURCE},
    {.name = "const", .params = value_table, .params_size = sizeof(od_const_params), .n_out = 1, .flags = OD_OP_SOURCE},
    {.name = "add", .min_in = 2, .max_in = 2, .n_out = 1, .infer = toy_as_input, .grad = add_grad},
    {.name = "mul", .min_in = 2, .max_in = 2, .n_out = 1, .infer = toy_as_input, .grad = mul_grad},
    {.name = "ones_like", .min_in = 1, .max_in = 1, .n_out = 1, .infer = toy_as_input, .no_grad = "constant"},
    {.name = "twice", .min_in = 1, .max_in = 1, .n_out = 2, .infer = toy_as_input, .grad = twice_grad},
    {.name = "stop", .min_in = 1, .max_in = 1, .n_out = 1, .infer = toy_as_input, .grad = stop_grad},
    {.name = "wall", .min_in = 1, .max_in = 1, .n_out = 1, .infer = toy_as_input, .no_grad = "it is a wall"},
    {.name = "many", .min_in = 1, .max_in = -1, .optional_in = 2, .n_out = 1, .infer = toy_as_input, .no_grad = "none"},
    {.name = "refuse", .min_in = 0, .max_in = 2, .n_out = 1, .infer = toy_refuse},
    {.name = "params", .params = toy_table, .params_size = sizeof(toy_params), .n_out = 1, .infer = toy_as_input},
};
enum { N_TOYS = sizeof toy_ops / sizeof *toy_ops };

const od_op *od_op_at(size_t i) { return i < N_TOYS ? &toy_ops[i] : NULL; }
const od_op *od_op_find(const char *name) {
  for (size_t i = 0; i < N_TOYS; i++)
    if (strcmp(toy_ops[i].name, name) == 0) return &toy_ops[i];
  return NULL;
}

static od_value toy(od_graph *g, const char *name, od_value a, od_value b) {
  return od_graph_add(g, od_op_find(name), (od_value[]){a, b}, od_has(b) ? 2 : 1, NULL);
}

static inline od_value toy_input(od_graph *g, const char *name) { return od_input(g, name, OD_F32, OD_SCALAR); }

#endif
