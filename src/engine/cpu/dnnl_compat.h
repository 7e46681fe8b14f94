/* oneDNN behind one face: what differs between 2.6 and 3.x stands in dnnl_compat.c and nowhere else.
 *
 * All activations are plain NHWC; filters are in the library's own layout ("any"), asked for with od_prim_md. A primitive
 * always takes its scratch memory from the caller (od_prim_scratch), so that running allocates nothing. */
#ifndef OD_ENGINE_CPU_DNNL_COMPAT_H
#define OD_ENGINE_CPU_DNNL_COMPAT_H

#include <oneapi/dnnl/dnnl.h>

#include "base/tensor.h"

/* A memory description: borrowed (od_mdp) or owned (od_md; free with od_md_free). */
#if DNNL_VERSION_MAJOR >= 3
typedef const_dnnl_memory_desc_t od_mdp;
#else
typedef const dnnl_memory_desc_t *od_mdp;
#endif
typedef struct {
  dnnl_memory_desc_t d;
  bool set;
} od_md;
od_mdp od_md_of(const od_md *m);
/* strides NULL: the library chooses ("any"). dtype OD_F32 or OD_BF16. */
OD_MUST_CHECK od_status od_md_new(od_md *out, int rank, const int64_t *dims, const int64_t *strides, od_dtype dtype);
/* A copy of what a primitive says. */
OD_MUST_CHECK od_status od_md_copy(od_md *out, od_mdp from);
void od_md_free(od_md *m);
bool od_md_equal(od_mdp a, od_mdp b);
size_t od_md_bytes(od_mdp m);

/* A primitive with its description; all zero: none. */
typedef struct od_shared_prim od_shared_prim;
typedef struct {
  dnnl_primitive_desc_t pd;
  dnnl_primitive_t prim;
  od_shared_prim *shared; /* whose it is when others use it too (prims.h); NULL: ours alone */
} od_prim;
void od_prim_free(od_prim *p);
od_mdp od_prim_md(const od_prim *p, dnnl_query_t what); /* dnnl_query_weights_md and so on */
size_t od_prim_scratch(const od_prim *p);               /* bytes */
const char *od_prim_impl(const od_prim *p);             /* the library's name of the kernel; borrowed */

/* Memory objects: descriptions with a pointer that is set before each run. */
OD_MUST_CHECK od_status od_mem_new(dnnl_memory_t *out, od_mdp md, dnnl_engine_t engine);
void od_mem_free(dnnl_memory_t m); /* NULL is fine */
void od_mem_set(dnnl_memory_t m, void *data);

/* Runs and waits. */
OD_MUST_CHECK od_status od_prim_run(const od_prim *p, dnnl_stream_t stream, int n, const dnnl_exec_arg_t *args);

typedef enum { OD_PASS_FORWARD, OD_PASS_DATA, OD_PASS_WEIGHTS } od_pass;
typedef enum { OD_ACT_NONE, OD_ACT_RELU, OD_ACT_RELU6 } od_act;

/* A convolution of x [n,h,w,c] with filter [kh,kw,c/groups,o] giving [n,oh,ow,o]. */
typedef struct {
  int64_t n, h, w, c, oh, ow, o, kh, kw, groups;
  int64_t stride_h, stride_w, dilation_h, dilation_w; /* 1: none */
  int64_t pad_top, pad_bottom, pad_left, pad_right;
} od_conv_shape;

/* type: of x and y; bias: float, forward only; act: after it, forward only. add: the result is added to what lies in the
 * destination before the activation. Weight gradients come out in float. many_shapes: none of the kernels that leave something in
 * memory for every new shape. OD_EUNSUPPORTED when the library has no kernel. */
OD_MUST_CHECK od_status od_dnnl_conv(od_prim *out, dnnl_engine_t engine, od_pass pass, const od_conv_shape *s, od_dtype type,
                                     bool bias, od_act act, bool add, bool many_shapes);
/* The filter of that convolution as the checkpoint keeps it: dense [kh,kw,in,out] for groups == 1, else [kh,kw,c,o/c]. */
OD_MUST_CHECK od_status od_dnnl_filter_md(od_md *out, const od_conv_shape *s, od_dtype type);

OD_MUST_CHECK od_status od_dnnl_reorder(od_prim *out, dnnl_engine_t engine, od_mdp from, od_mdp to);

typedef struct {
  int64_t n, h, w, c, oh, ow, kh, kw, stride_h, stride_w;
  int64_t pad_top, pad_bottom, pad_left, pad_right;
} od_pool_shape;
/* Maximum (forward without workspace) or mean over what is really there; pass FORWARD or, mean only, DATA. */
OD_MUST_CHECK od_status od_dnnl_pool(od_prim *out, dnnl_engine_t engine, od_pass pass, const od_pool_shape *s, bool max, od_dtype type);

/* c [m,n] = a [m,k] b [k,n], float or bf16 in, type_out out; strides in elements of rows and columns. bias: float [n].*/
typedef struct {
  int64_t m, n, k;
  int64_t a_row, a_col, b_row, b_col;
} od_matmul_shape;
OD_MUST_CHECK od_status od_dnnl_matmul(od_prim *out, dnnl_engine_t engine, const od_matmul_shape *s, od_dtype type_in, od_dtype type_out);

/* The status of a library call as ours, with what was tried. */
od_status od_dnnl_status(dnnl_status_t st, const char *what);

#endif
