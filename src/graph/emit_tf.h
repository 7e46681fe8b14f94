/* Writing nodes of our graph as nodes of a TensorFlow GraphDef: what an op's write_tf calls.
 *
 * The exporter visits our nodes in order; write_tf of a node reads the TensorFlow tensors of its inputs (od_tf_in), adds
 * TensorFlow nodes (od_tf_add and attributes) below the node's own name and says which tensors are its outputs
 * (od_tf_out). No concrete N, H, W may be used: sizes come from Shape nodes. Sticky like the graph builders: the first
 * failure waits in the writer. Tensor names are "node" or "node:1"; returned names live as long as the writer. */
#ifndef OD_GRAPH_EMIT_TF_H
#define OD_GRAPH_EMIT_TF_H

#include "graph/graph.h"
#include "io/file.h"

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
void od_tf_attr_shapes(od_tf *t, const char *name, const od_shape *v, int n);

/* Const nodes. */
const char *od_tf_const(od_tf *t, const char *suffix, const od_tensor *value);
const char *od_tf_const_i32(od_tf *t, const char *suffix, int32_t v);                /* scalar */
const char *od_tf_const_i32s(od_tf *t, const char *suffix, const int32_t *v, int n); /* vector */
const char *od_tf_const_f32(od_tf *t, const char *suffix, float v);

/* The whole node is one TensorFlow node with the same inputs, attribute T = float, output 0. */
OD_MUST_CHECK od_status od_tf_simple(od_tf *t, const char *op);

/* ---------------------------------------------------------------------------------------------------- control flow, v1 */
/* "^node" of a tensor: as an input it orders without data. */
const char *od_tf_control(od_tf *t, const char *tensor);

/* A while loop of Enter, Merge, LoopCond, Switch, NextIteration and Exit, which TensorFlow 1.x and 2.x both run:
 *
 *   od_tf_loop *w = od_tf_while(t, "map", inits, types, n);       variables, as seen by the condition: od_tf_while_var(w, i)
 *   const char *lim = od_tf_while_const(t, w, limit, OD_I32);     tensors from outside enter so
 *   od_tf_while_cond(t, w, pred);                                 from here on od_tf_while_var(w, i) is the body's value
 *   od_tf_while_end(t, w, next);                                  next: n tensors; afterwards od_tf_while_result(w, i)
 *
 * Nodes added between begin and end belong to the loop's frame; one without inputs (Const) gets the control edge that
 * holds it there. A node whose inputs are of different frames is a failure of the writer, named at once. Loops nest. */
typedef struct od_tf_loop od_tf_loop;
od_tf_loop *od_tf_while(od_tf *t, const char *suffix, const char *const *inits, const od_dtype *types, int n);
const char *od_tf_while_const(od_tf *t, od_tf_loop *w, const char *tensor, od_dtype dtype);
/* As above for handles of TensorArrays (DT_RESOURCE). */
const char *od_tf_while_handle(od_tf *t, od_tf_loop *w, const char *handle);
const char *od_tf_while_var(const od_tf_loop *w, int i);
void od_tf_while_cond(od_tf *t, od_tf_loop *w, const char *pred);
void od_tf_while_end(od_tf *t, od_tf_loop *w, const char *const *next);
const char *od_tf_while_result(const od_tf_loop *w, int i);

/* TensorArrays (V3). A new one of `size` (int32 scalar tensor) elements gives its handle; its flow, a float scalar that
 * orders reads and writes, is od_tf_output(t, handle, 1) and is what a loop carries. */
const char *od_tf_array(od_tf *t, const char *suffix, od_dtype dtype, const char *size);
/* Fills the array with the rows of value; gives the new flow. */
const char *od_tf_array_scatter(od_tf *t, const char *suffix, od_dtype dtype, const char *handle, const char *value,
                                const char *flow);
const char *od_tf_array_read(od_tf *t, const char *suffix, od_dtype dtype, const char *handle, const char *index,
                             const char *flow);
const char *od_tf_array_write(od_tf *t, const char *suffix, od_dtype dtype, const char *handle, const char *index,
                              const char *value, const char *flow);
/* The first `size` elements stacked. element: shape of one, may hold -1, rank -1: unknown. */
const char *od_tf_array_gather(od_tf *t, const char *suffix, od_dtype dtype, const char *handle, const char *size,
                               const char *flow, const od_shape *element);

/* -------------------------------------------------------------------------------------------------- for the exporter */
OD_MUST_CHECK od_status od_tf_new(od_tf **out);
void od_tf_free(od_tf *t);
/* The first failure of any call above, or OD_OK. */
OD_MUST_CHECK od_status od_tf_check(const od_tf *t);
/* Records a failure; the message of the thread is kept. */
void od_tf_fail(od_tf *t, od_status st);

/* The node names that od_tf_add makes from now on stand below this one (what od_tf_node does with a node's own name). */
void od_tf_begin(od_tf *t, const char *name);
/* The value of our graph is this tensor (inputs, variables as constants). Over an earlier binding: replaces it. */
void od_tf_bind(od_tf *t, od_value v, const char *tensor);
/* The tensor a value was bound to by od_tf_bind or od_tf_out; NULL when it has none yet. */
const char *od_tf_bound(const od_tf *t, od_value v);
/* Writes one node of ours through its op's write_tf; its inputs must be bound. OD_EUNSUPPORTED with the op's reason when the
 * op cannot be written. */
OD_MUST_CHECK od_status od_tf_node(od_tf *t, const od_node *node);
/* A Const whose data is not copied: it must live until the graph was written. For weights. */
const char *od_tf_const_borrowed(od_tf *t, const char *suffix, const od_tensor *value);
/* Attribute of type DT_RESOURCE or another number of DataType that od_dtype does not know. */
void od_tf_attr_datatype(od_tf *t, const char *name, int datatype);

/* Removes every node that none of these tensors needs, through data or control edges; placeholders stay. An op may write nodes
 * for outputs that nobody reads. Outside of loops only. */
void od_tf_prune(od_tf *t, const char *const *keep, int n);

size_t od_tf_count(const od_tf *t); /* nodes so far */
/* Nodes whose op is this one so far; for reports and tests. */
size_t od_tf_count_op(const od_tf *t, const char *op);

/* The GraphDef. Bytes are deterministic (attributes sorted by name); constants are written from where they lie. size:
 * exactly what write emits, so that it can stand inside another message. */
OD_MUST_CHECK od_status od_tf_size(size_t *size, const od_tf *t);
OD_MUST_CHECK od_status od_tf_write(const od_tf *t, od_file *file);
/* The same bytes appended to out; for small graphs. */
OD_MUST_CHECK od_status od_tf_pack(od_str *out, const od_tf *t);

#endif
