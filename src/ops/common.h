/* What the files of this room share: parameter tables, shape rules, walking broadcast shapes, small pieces of TensorFlow
 * graphs. Not for other rooms. */
#ifndef OD_OPS_COMMON_H
#define OD_OPS_COMMON_H

#include "graph/emit_tf.h"
#include "graph/graph.h"

/* ------------------------------------------------------------------------------------------------------------- tables */
#define OD_PARAM(struct_, field, type_, help_) {#field, type_, offsetof(struct_, field), help_, 0, 0, NULL}
#define OD_PARAM_IN(struct_, field, type_, help_, lo, hi) {#field, type_, offsetof(struct_, field), help_, lo, hi, NULL}
#define OD_PARAM_ENUM(struct_, field, help_, names_) {#field, OD_P_ENUM, offsetof(struct_, field), help_, 0, 0, names_}
#define OD_SAMPLES(list) .samples = list, .n_samples = (int)(sizeof(list) / sizeof *(list))

/* Inputs of samples: F32(-1, 1, 2, 5, 7, 24) is a float tensor of shape [2,5,7,24], drawn from [-1, 1]. */
#define OD_F32_IN(lo_, hi_, ...) {OD_F32, {(int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), {__VA_ARGS__}}, lo_, hi_, false}
#define OD_I32_IN(lo_, hi_, ...) {OD_I32, {(int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), {__VA_ARGS__}}, lo_, hi_, false}
#define OD_F32_SCALAR_IN(lo_, hi_) {OD_F32, {0, {0}}, lo_, hi_, false}
#define OD_ABSENT_IN {OD_F32, {0, {0}}, 0, 0, true}
/* A list for static tables; the macro's list must be constants. */
#define OD_INTS(...) {(int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (const int64_t[]){__VA_ARGS__}}

/* ---------------------------------------------------------------------------------------------------------- inference */
od_status od_infer_same(const od_infer *c); /* output 0 is of input 0's type, whatever that is */
/* Input i must have this type and rank (rank < 0: any). */
OD_MUST_CHECK od_status od_want(const od_infer *c, int i, od_dtype dtype, int rank);
/* Every input must be float32; output 0 is of input 0's type. */
od_status od_infer_float(const od_infer *c);
/* All inputs float32 and of one shape, which is output 0's. */
od_status od_infer_float_alike(const od_infer *c);
/* Dimension d of input i must be v where both are known. */
OD_MUST_CHECK od_status od_want_dim(const od_infer *c, int i, int d, int64_t v);
/* The better known one of two dimensions that must be equal; OD_EINVAL when both are known and differ. */
OD_MUST_CHECK od_status od_merge_dim(const od_infer *c, int64_t *out, int64_t a, int64_t b);
/* Shapes that must be equal: what is known of either. */
OD_MUST_CHECK od_status od_merge_shape(const od_infer *c, od_shape *out, const od_shape *a, const od_shape *b);
/* Numpy's broadcasting of inputs 0..n-1 with the restriction of ops/math.h. */
OD_MUST_CHECK od_status od_infer_broadcast(const od_infer *c, od_shape *out, int n);
/* axis of a tensor of that rank, counted from 0. */
OD_MUST_CHECK od_status od_axis(const od_infer *c, int *out, int64_t axis, int rank);
/* Same with parameters that inference has already accepted. */
static inline int od_axis_at(int64_t axis, int rank) { return (int)(axis < 0 ? axis + rank : axis); }
/* marks[i] says whether dimension i is in the list; n 0: all are. */
OD_MUST_CHECK od_status od_axes_mask(const od_infer *c, bool *marks, od_ints axes, int rank);

/* ----------------------------------------------------------------------------------------------------------- gradients */
/* Nothing flows back: the result is constant nearly everywhere. */
od_status od_grad_nothing(od_grad *c);
/* Output i of the node whose gradient is asked for. */
static inline od_value od_self(const od_grad *c, int i) { return (od_value){(od_node *)(uintptr_t)c->node, i}; }
/* d summed to the shape of like, or d itself where the shapes are the same. */
od_value od_unbroadcast(od_graph *g, od_value d, od_value like);
#define OD_NO_SECOND "second derivatives are not needed"
#define OD_NO_TF_TRAINING "training only"

/* ----------------------------------------------------------------------------------------------------------- reference */
/* Walks the elements of `shape` in row-major order and with them the offsets in up to 3 tensors that broadcast to it. */
typedef struct {
  int rank;
  int64_t left, dim[OD_MAX_RANK], at[OD_MAX_RANK], stride[3][OD_MAX_RANK];
  int64_t off[3];
} od_walk;
void od_walk_start(od_walk *w, const od_shape *shape);
/* Tensor k (0..2) of this shape broadcasts along. */
void od_walk_with(od_walk *w, int k, const od_shape *shape);
/* Tensor k moves by these strides (elements). */
void od_walk_strides(od_walk *w, int k, const int64_t *stride);
/* To the next element; false behind the last. Loop: for (bool more = w.left > 0; more; more = od_walk_next(&w)). */
bool od_walk_next(od_walk *w);
#define OD_WALK(w) for (bool od_more_ = (w).left > 0; od_more_; od_more_ = od_walk_next(&(w)))
/* Row-major strides. */
void od_strides(int64_t *stride, const od_shape *s);
/* Product of dimensions [from, to). */
int64_t od_dims(const od_shape *s, int from, int to);
/* Copies input 0's bytes to output 0 (unless they are the same memory). */
od_status od_ref_copy(const od_call *c);
/* Last dimension. */
static inline int64_t od_last(const od_tensor *t) { return t->shape.dim[t->shape.rank - 1]; }

/* ---------------------------------------------------------------------------------------------------------- TensorFlow */
/* The whole node is one TensorFlow node with the same inputs and T the type of input 0. */
od_status od_tf_same(od_tf *t, const od_node *n, const char *op);
/* Adds a node of this operation with T = type, named after the current node. */
const char *od_tf_op(od_tf *t, const char *op, const char *suffix, od_dtype type, const char *const *inputs);
/* int32 vector: the shape of a tensor. */
const char *od_tf_shape_of(od_tf *t, const char *suffix, const char *tensor, od_dtype type);
/* int32 scalar: element i of an int32 vector. */
const char *od_tf_element(od_tf *t, const char *suffix, const char *vector, int i);
/* int32 vector of these int32 scalars. */
const char *od_tf_stack(od_tf *t, const char *suffix, const char *const *scalars, int n);
/* Const vector from a list. */
const char *od_tf_ints(od_tf *t, const char *suffix, od_ints v);
const char *od_tf_cast(od_tf *t, const char *suffix, const char *tensor, od_dtype from, od_dtype to);

#endif
