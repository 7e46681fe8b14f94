/* Writing nodes of our graph as nodes of a TensorFlow GraphDef: what an op's write_tf calls.
 *
 * The exporter visits our nodes in order; write_tf of a node reads the TensorFlow tensors of its inputs (od_tf_in), adds
 * TensorFlow nodes (od_tf_add and attributes) below the node's own name and says which tensors are its outputs
 * (od_tf_out). No concrete N, H, W may be used: sizes come from Shape nodes. Sticky like the graph builders: the first
 * failure waits in the writer. Tensor names are "node" or "node:1"; returned names live as long as the writer. */
#ifndef OD_GRAPH_EMIT_TF_H
#define OD_GRAPH_EMIT_TF_H

#include "graph/graph.h"

/* The TensorFlow tensor of the current node's i-th input; "" for an absent one. */
const char *od_tf_in(od_tf *t, int i);
/* Output i of the current node is this tensor. */
void od_tf_out(od_tf *t, int i, const char *tensor);

/* Adds a node "<current node>/<suffix>" ("" or NULL: the current node's own name), made unique. inputs: NULL-terminated.
 * Returns the name of its output 0. Attributes set afterwards belong to this node. */
const char *od_tf_add(od_tf *t, const char *op, const char *suffix, const char *const *inputs);
#define OD_TF_INPUTS(...) ((const char *const[]){__VA_ARGS__, NULL})
/* "<tensor>:i" for further outputs of a node. */
const char *od_tf_output(od_tf *t, const char *node, int i);

void od_tf_attr_type(od_tf *t, const char *name, od_dtype v);
void od_tf_attr_int(od_tf *t, const char *name, int64_t v);
void od_tf_attr_float(od_tf *t, const char *name, float v);
void od_tf_attr_bool(od_tf *t, const char *name, bool v);
void od_tf_attr_text(od_tf *t, const char *name, const char *v);
void od_tf_attr_ints(od_tf *t, const char *name, const int64_t *v, int n);
void od_tf_attr_types(od_tf *t, const char *name, const od_dtype *v, int n);
void od_tf_attr_shape(od_tf *t, const char *name, const od_shape *v);

/* Const nodes. */
const char *od_tf_const(od_tf *t, const char *suffix, const od_tensor *value);
const char *od_tf_const_i32(od_tf *t, const char *suffix, int32_t v);              /* scalar */
const char *od_tf_const_i32s(od_tf *t, const char *suffix, const int32_t *v, int n); /* vector */
const char *od_tf_const_f32(od_tf *t, const char *suffix, float v);

/* The whole node is one TensorFlow node with the same inputs, attribute T = float, output 0. */
OD_MUST_CHECK od_status od_tf_simple(od_tf *t, const char *op);

#endif
