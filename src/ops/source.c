/* The sources of a graph: input, const, variable. Engines provide their values; nothing is computed here. Their types are
 * given when they are made (graph/graph.c), so shape inference is never asked. */
#include "graph/graph.h"
#include "graph/op.h"

static od_status no_infer(const od_infer *c) { return od_fail(OD_EINVAL, "%s is a source of the graph", c->node->name); }
static od_status no_ref(const od_call *c) {
  (void)c;
  return od_fail(OD_EINVAL, "a source of the graph is not computed");
}

#define P(struct_, field, type_, help_) {#field, type_, offsetof(struct_, field), help_, 0, 0, NULL}

static const od_param input_params[] = {P(od_input_params, name, OD_P_TEXT, "name of the input"), {0}};
static const od_param const_params[] = {P(od_const_params, value, OD_P_TENSOR, "the constant"), {0}};
static const od_param variable_params[] = {P(od_variable_params, name, OD_P_TEXT, "name in checkpoints"), {0}};

#define SOURCE(name_, help_, params_, struct_)                                                                        \
  const od_op od_op_##name_;                                                                                          \
  const od_op od_op_##name_ = {.name = #name_, .help = help_, .params = params_, .params_size = sizeof(struct_),      \
                               .n_out = 1, .flags = OD_OP_SOURCE, .infer = no_infer, .ref = no_ref,                   \
                               .no_grad = "a source has no inputs", .no_tf = "written by the exporter itself"}

SOURCE(input, "a tensor that every run feeds", input_params, od_input_params);
SOURCE(const, "a constant tensor", const_params, od_const_params);
SOURCE(variable, "a tensor of the state", variable_params, od_variable_params);
