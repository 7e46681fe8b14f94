/* What an op of the interpreter is: one line in a table with the op's signature, its attributes and a function. */
#ifndef OD_TFGRAPH_KERNEL_H
#define OD_TFGRAPH_KERNEL_H

#include "tfgraph/graph_impl.h"

/* One run of a node. Inputs are alive; the function makes out[i] with tg_new_out, or hands on a value with tg_share_out. */
typedef struct {
  od_tfgraph *graph;
  const tg_node *node;
  const tg_kernel *kernel;
  int n_in, n_out;
  tg_value **in;
  tg_value *out;
} tg_call;

typedef od_status (*tg_function)(tg_call *c);

/* sig: types of inputs -> outputs. An entry is an attribute that names a type ("T"), "N*T" (as many as attribute N says),
 * "T..." (a list attribute), or a type's name ("int32", "string", "resource").
 * attrs: attributes the op has, "?" behind those that may be absent; types used in sig are among them. */
struct tg_kernel {
  const char *op, *sig, *attrs;
  tg_function run;
  int arg; /* tells members of a family apart */
};

/* Tables, each ended by an entry without op. */
extern const tg_kernel tg_kernels_math[], tg_kernels_array[], tg_kernels_slice[], tg_kernels_nn[], tg_kernels_flow[],
    tg_kernels_image[], tg_kernels_reduce[];
const tg_kernel *tg_kernel_find(const char *op);

/* "node (op): " in front of a message. */
od_status tg_fail(const tg_call *c, const char *format, ...) OD_PRINTF(2, 3);

static inline const od_tensor *tg_in(const tg_call *c, int i) { return &c->in[i]->t; }
OD_MUST_CHECK od_status tg_new_out(tg_call *c, int i, od_dtype dtype, const od_shape *shape);
/* The kernel takes a * b steps (0 counts as 1) beyond one for each element of its inputs and outputs. */
OD_MUST_CHECK od_status tg_work(const tg_call *c, int64_t a, int64_t b);
/* Output i is input k's memory, under another shape of as many elements (NULL: its own). */
OD_MUST_CHECK od_status tg_share_out(tg_call *c, int i, int k, const od_shape *shape);
/* Input k as a list of integers (int32 or int64, rank 0 or 1), at most max of them. */
OD_MUST_CHECK od_status tg_ints(const tg_call *c, int k, int64_t *out, int max, int *n);
/* The same, of rank 1 only: TensorFlow is stricter with some ops than with others. */
OD_MUST_CHECK od_status tg_vector(const tg_call *c, int k, int64_t *out, int max, int *n);
/* Input k, which must be a scalar, as an integer, as a float. */
OD_MUST_CHECK od_status tg_int(const tg_call *c, int k, int64_t *out);
OD_MUST_CHECK od_status tg_float(const tg_call *c, int k, float *out);
/* Input k has this rank. */
OD_MUST_CHECK od_status tg_rank(const tg_call *c, int k, int rank);
/* An axis in -rank .. rank-1 becomes 0 .. rank-1. */
OD_MUST_CHECK od_status tg_axis(const tg_call *c, int64_t *axis, int rank);
/* dtype of output i, from the signature. */
od_dtype tg_out_type(const tg_call *c, int i);
/* Elements before axis, at it and behind it. */
void tg_split_at(const od_shape *s, int axis, int64_t *outer, int64_t *n, int64_t *inner);
OD_MUST_CHECK od_status tg_unsupported(const tg_call *c, od_dtype dtype);
/* Copies elements of `size` bytes; strings are duplicated. */
OD_MUST_CHECK od_status tg_copy_elements(od_dtype dtype, void *to, const void *from, int64_t n);
/* Copies a box of elements: element (i0, i1, ...) of dim goes from in + sum i*si to out + sum i*so (strides in elements). */
OD_MUST_CHECK od_status tg_copy_nd(od_dtype dtype, void *out, const int64_t *so, const void *in, const int64_t *si,
                                   int rank, const int64_t *dim);
/* Row-major strides of a shape, in elements. */
void tg_strides(const od_shape *s, int64_t *out);
/* SAME, VALID or EXPLICIT along one axis (0: rows, 1: columns): output size and padding before. */
OD_MUST_CHECK od_status tg_window(const tg_call *c, int axis, int64_t in, int64_t filter, int64_t stride,
                                  int64_t dilation, int64_t *out, int64_t *before);
/* Kernels that hand values on, or take their weights (input 1) as lazy values. */
od_status tg_identity(tg_call *c);
od_status tg_convolution(tg_call *c);

/* TensorArrays, k_flow.c */
void tg_array_drop(od_tfgraph *g, tg_array *a);
tg_array *tg_array_share(tg_array *a);

#endif
