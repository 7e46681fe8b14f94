/* The op: a const table that says everything the house needs to know of one operation.
 *
 * One op is one file in ops/ and one line in ops/op_list.h. An op has typed parameters, shape inference that works with
 * unknown (-1) dimensions, a reference in plain C (slow, fixed order, the yardstick of every engine), a gradient that adds
 * nodes to the graph, and writers for file formats. Engines look their fast kernels up by the op's name; no enum of ops,
 * no switch over ops. What an op does not have is said with a reason in words: NULL without a reason fails the op test. */
#ifndef OD_GRAPH_OP_H
#define OD_GRAPH_OP_H

#include "base/rng.h"
#include "base/tensor.h"

typedef struct od_graph od_graph;
typedef struct od_node od_node;
typedef struct od_op od_op;
typedef struct od_tf od_tf; /* the TensorFlow GraphDef being written: graph/emit_tf.h */

/* One output of a node. A value without node is the result of a builder that failed (or "absent" where an input is
 * optional); it may be passed on, the first error waits in the graph. */
typedef struct {
  od_node *node;
  int out;
} od_value;
#define OD_NONE ((od_value){0})

/* Logical type of a value. Dimensions unknown before a plan is bound are -1. */
typedef struct {
  od_dtype dtype;
  od_shape shape;
} od_type;

/* ------------------------------------------------------------------------------------------------------- parameters */
typedef enum {
  OD_P_INT,    /* int64_t */
  OD_P_FLOAT,  /* float */
  OD_P_BOOL,   /* bool */
  OD_P_ENUM,   /* int, named by od_param.names (NULL-terminated) */
  OD_P_DTYPE,  /* od_dtype */
  OD_P_INTS,   /* od_ints */
  OD_P_FLOATS, /* od_floats */
  OD_P_TEXT,   /* const char * */
  OD_P_SHAPE,  /* od_shape */
  OD_P_TENSOR  /* od_tensor, data owned by the graph */
} od_param_type;

/* Lists in parameter structs; od_graph_add copies them into the graph. */
typedef struct {
  int n;
  const int64_t *v;
} od_ints;
typedef struct {
  int n;
  const float *v;
} od_floats;

/* A field of an op's parameter struct. min and max are inclusive and checked for INT, FLOAT and the elements of lists;
 * min == max means no range. */
typedef struct {
  const char *name;
  od_param_type type;
  size_t offset;
  const char *help;
  double min, max;
  const char *const *names;
} od_param;

/* --------------------------------------------------------------------------------------------------- what ops implement */
/* Shape inference: fills out[0..n_out). Inputs may hold -1; what cannot be known is -1 in the output. An absent optional
 * input has rank -1 and present[i] false. */
typedef struct {
  const od_node *node; /* for messages: name */
  const void *params;
  int n_in, n_out;
  const od_type *in;
  const bool *present;
  od_type *out;
} od_infer;

/* One run of the reference: dense row-major tensors, all shapes known. Absent inputs have data NULL. Outputs are
 * uninitialised memory. scratch holds op->scratch(...) bytes. key is the node's own: od_key_name(0, node name). */
typedef struct {
  const void *params;
  int n_in, n_out;
  const od_tensor *in;
  od_tensor *out;
  void *scratch;
  od_key key;
} od_call;

/* Gradient: given dout[i] (absent: nothing flows into output i), sets din[i] for each i with need[i]; leaving it absent
 * means "no gradient into this input". Adds nodes through the ordinary builders. */
typedef struct {
  od_graph *graph;
  const od_node *node;
  const od_value *dout;
  const bool *need;
  od_value *din;
} od_grad;

/* An example for the generic tests. Floats are drawn uniformly from [lo, hi] (seeded), integers from lo..hi inclusive. */
enum { OD_SAMPLE_IN = 8 };
typedef struct {
  od_dtype dtype;
  od_shape shape;
  double lo, hi;
  bool absent;
} od_sample_in;
typedef struct {
  const char *name;
  const void *params;
  int n_in;
  od_sample_in in[OD_SAMPLE_IN];
  bool no_grad; /* the op has a gradient but this sample sits on a kink (ties, clipping at equality) */
  bool few;     /* nearly all outputs zero is right here (empty input, nothing matched) */
} od_sample;

enum {
  OD_OP_VIEW = 1,   /* output 0 is input 0's memory under another shape (reshape) */
  OD_OP_BF16 = 2,   /* engines may keep this op's float inputs and outputs in bf16 when precision allows */
  OD_OP_RANDOM = 4, /* result depends on the node's name: never merged with a twin */
  OD_OP_SOURCE = 8  /* input, variable, const: no computation, engines provide the value */
};

struct od_op {
  const char *name; /* lower case with underscores, as in ops/op_list.h */
  const char *help; /* one line */
  const od_param *params; /* ended by an entry without name; NULL: none */
  size_t params_size;
  int min_in, max_in; /* max_in -1: any number */
  unsigned optional_in; /* bit i: input i may be absent */
  int n_out;
  unsigned flags;
  /* alias[o] = 1 + i: output o may be computed in place over input i (same type); 0: it may not. */
  unsigned char alias[4];
  od_status (*infer)(const od_infer *c);
  od_status (*ref)(const od_call *c);
  size_t (*scratch)(const od_infer *c); /* bytes for ref, types known; NULL: none */
  od_status (*grad)(od_grad *c);
  const char *no_grad; /* why there is no gradient */
  od_status (*write_tf)(od_tf *t, const od_node *node);
  const char *no_tf; /* why it is not written to TensorFlow graphs (training only, ...) */
  const od_sample *samples;
  int n_samples;
  double tolerance; /* relative to the result's root mean square, fp32 engines against ref; 0: the same bits (copies, max) */
};

/* The op of that name, or NULL. Implemented by ops/ over its list. */
const od_op *od_op_find(const char *name);
/* i-th op of the list, NULL behind the last. */
const od_op *od_op_at(size_t i);

#endif
