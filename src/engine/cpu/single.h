/* One convolution, pooling or product at a time on the library's kernels, for callers that have no plan: the interpreter of
 * TensorFlow graphs, which learns shapes node by node while it runs. What is worth keeping from call to call (primitives of the
 * shapes seen last, packed filters) is kept in an od_single_op that belongs to the caller, one for each place of its program.
 *
 * All float32, feature maps NHWC. Not thread-safe; the kernels use OpenMP's threads. Results are the same for the same number of
 * threads, and to rounding for another. */
#ifndef OD_ENGINE_CPU_SINGLE_H
#define OD_ENGINE_CPU_SINGLE_H

#include "engine/cpu/dnnl_compat.h"

typedef struct od_single od_single;
typedef struct od_single_op od_single_op;

/* The library's engine, stream and scratch memory. The caller frees it, after the ops that used it. */
OD_MUST_CHECK od_status od_single_new(od_single **out);
void od_single_free(od_single *s); /* NULL is fine */
void od_single_op_free(od_single_op *op); /* NULL is fine */

/* Gives a filter as od_dnnl_filter_md describes it, dense, 64-byte aligned or not, and a bias [o] (only asked for with `bias`); both
 * are read before the call that asked returns. */
typedef od_status (*od_single_weights)(void *ctx, const float **filter, const float **bias);

typedef struct {
  od_conv_shape shape; /* nothing in it may be zero */
  od_act act;
  bool bias, constant; /* constant: the weights are the same at every call with this op and asked for once a layout */
  od_single_weights weights;
  void *ctx;
} od_single_conv;

/* y = act(conv(x, filter) + bias). *op is NULL at the first call. OD_EUNSUPPORTED: no kernel for the shape. */
OD_MUST_CHECK od_status od_single_conv_run(float *y, od_single *s, od_single_op **op, const od_single_conv *c, const float *x);
/* Maximum, or mean over what lies inside the picture. */
OD_MUST_CHECK od_status od_single_pool_run(float *y, od_single *s, od_single_op **op, const od_pool_shape *shape, bool max, const float *x);
/* c [m,n] = a b, with the strides of the shape. */
OD_MUST_CHECK od_status od_single_matmul_run(float *c, od_single *s, od_single_op **op, const od_matmul_shape *shape, const float *a, const float *b);

#endif
