/* Builders and parameters of the general ops: elementwise arithmetic, reductions, products, and moving data about.
 *
 * "Any type" below means float32, bfloat16, uint8, int32, int64; arithmetic takes float32, int32 and int64 unless said
 * otherwise. Axes may be negative: they count from the end. Broadcasting is numpy's, with one restriction that lets gradients
 * pass without a sum where shapes are the same: a dimension unknown (-1) on both sides must be equal at run time. */
#ifndef OD_OPS_MATH_H
#define OD_OPS_MATH_H

#include "graph/graph.h"

/* ------------------------------------------------------------------------------------ two inputs, numpy's broadcasting */
od_value od_add(od_graph *g, od_value a, od_value b);
od_value od_sub(od_graph *g, od_value a, od_value b);
od_value od_mul(od_graph *g, od_value a, od_value b);
od_value od_div(od_graph *g, od_value a, od_value b);     /* float32 */
od_value od_maximum(od_graph *g, od_value a, od_value b); /* gradient at ties to a, as TensorFlow */
od_value od_minimum(od_graph *g, od_value a, od_value b);
/* Comparisons: float32 1 or 0. Nothing flows back. */
od_value od_equal(od_graph *g, od_value a, od_value b);
od_value od_not_equal(od_graph *g, od_value a, od_value b);
od_value od_greater(od_graph *g, od_value a, od_value b);
od_value od_greater_equal(od_graph *g, od_value a, od_value b);
od_value od_less(od_graph *g, od_value a, od_value b);
od_value od_less_equal(od_graph *g, od_value a, od_value b);
/* cond (float32 or uint8) != 0 ? a : b, all three broadcast; a and b of one type, any. */
od_value od_select(od_graph *g, od_value cond, od_value a, od_value b);
/* maximum_grad, minimum_grad: (d, a, b) -> da, db in the shape of d. */

/* ------------------------------------------------------------------------------------------------- one input, float32 */
od_value od_exp(od_graph *g, od_value x);
od_value od_log(od_graph *g, od_value x);
od_value od_sqrt(od_graph *g, od_value x);
od_value od_rsqrt(od_graph *g, od_value x);
od_value od_square(od_graph *g, od_value x);
od_value od_abs(od_graph *g, od_value x);
od_value od_neg(od_graph *g, od_value x);
od_value od_sign(od_graph *g, od_value x);  /* -1, 0, 1; nothing flows back */
od_value od_floor(od_graph *g, od_value x); /* nothing flows back */
typedef struct {
  float exponent;
} od_pow_params;
od_value od_pow(od_graph *g, od_value x, float exponent); /* x^exponent */
typedef struct {
  float factor, offset;
} od_scale_params;
od_value od_scale(od_graph *g, od_value x, float factor, float offset); /* x * factor + offset */

/* ------------------------------------------------------------------------------------------------------- sums and such */
/* Any number of values of one shape. */
od_value od_add_n(od_graph *g, const od_value *x, int n);
/* Sums a down to the shape of like (what broadcasting of like to a had spread): (a, like). */
od_value od_sum_like(od_graph *g, od_value a, od_value like);
/* Spreads a to the shape of like by numpy's rules: (a, like). Any type. */
od_value od_broadcast_like(od_graph *g, od_value a, od_value like);

/* Of reduce_sum, reduce_mean, reduce_max, reduce_min (float32; sum, max and min int32 too) and their gradients. No axes:
 * all of them. */
typedef struct {
  od_ints axes;
  bool keep_dims;
} od_reduce_params;
#define OD_AXES(...) ((od_ints){(int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__}})
#define OD_ALL_AXES ((od_ints){0, NULL})
od_value od_reduce_sum(od_graph *g, od_value x, od_ints axes, bool keep_dims);
od_value od_reduce_mean(od_graph *g, od_value x, od_ints axes, bool keep_dims); /* of nothing: NaN, as TensorFlow */
od_value od_reduce_max(od_graph *g, od_value x, od_ints axes, bool keep_dims);
od_value od_reduce_min(od_graph *g, od_value x, od_ints axes, bool keep_dims);
/* reduce_sum_grad, reduce_mean_grad: (dy, x: only its shape counts) -> dx. reduce_max_grad, reduce_min_grad: (dy, x, y) -> dx,
 * shared evenly among ties, as TensorFlow. All with the forward op's params. */

typedef struct {
  int64_t axis;
} od_axis_params;
/* float32 -> int32, first of equals; the axis disappears. */
od_value od_argmax(od_graph *g, od_value x, int64_t axis);

od_value od_l2_loss(od_graph *g, od_value x); /* sum(x^2) / 2 -> scalar */
od_value od_l1_loss(od_graph *g, od_value x); /* sum(|x|) -> scalar */

typedef struct {
  bool transpose_a, transpose_b;
} od_matmul_params;
/* a [m,k] (or [k,m] transposed), b [k,n] (or [n,k] transposed) -> [m,n]. */
od_value od_matmul(od_graph *g, od_value a, od_value b, bool transpose_a, bool transpose_b);

/* -------------------------------------------------------------------------------------------- moving data (any type) */
/* dims: 0 copies that dimension of x (same index), -1 (once) is what remains, else the size. A view. */
typedef struct {
  od_ints dims;
} od_reshape_params;
od_value od_reshape(od_graph *g, od_value x, od_ints dims);
/* x under the shape of like (as many elements). A view of input 0. */
od_value od_reshape_like(od_graph *g, od_value x, od_value like);
/* Dimensions of size 1 put in at these places of the RESULT, or taken away. Views. */
typedef struct {
  od_ints axes;
} od_axes_params;
od_value od_expand_dims(od_graph *g, od_value x, od_ints axes);
od_value od_squeeze(od_graph *g, od_value x, od_ints axes);

typedef struct {
  od_ints perm;
} od_transpose_params;
od_value od_transpose(od_graph *g, od_value x, od_ints perm); /* result dimension i is x's dimension perm[i] */

/* Params od_axis_params. At least one input; n is not limited. */
od_value od_concat(od_graph *g, const od_value *x, int n, int64_t axis);
/* concat_grad: (d, x0, ..., xk: only shapes count; axis) -> the part of d that came from xk. */

/* begin: one a dimension; size: -1 is "to the end". */
typedef struct {
  od_ints begin, size;
} od_slice_params;
od_value od_slice(od_graph *g, od_value x, od_ints begin, od_ints size);
/* slice_grad: (dy, x: only its shape counts; begin, size) -> dy in zeros of x's shape. */

/* Pairs before, after for every dimension. Negative amounts cut away. */
typedef struct {
  od_ints amounts;
  float value;
} od_pad_params;
od_value od_pad(od_graph *g, od_value x, od_ints amounts, float value);

/* x [R, ...], indices int32 of any shape S -> S + [...]. An index outside 0..R-1 is an error of the run. */
od_value od_gather(od_graph *g, od_value x, od_value indices);
/* gather_grad: (dy, indices, x: only its shape counts) -> dx; float32, contributions summed in the order of the indices. */

typedef struct {
  od_ints multiples;
} od_tile_params;
od_value od_tile(od_graph *g, od_value x, od_ints multiples);
/* tile_grad: (dy, x: only its shape counts; multiples) -> dx. */

typedef struct {
  od_dtype dtype;
} od_cast_params;
/* Floats to integers truncate; bfloat16 rounds to nearest even. */
od_value od_cast(od_graph *g, od_value x, od_dtype dtype);

typedef struct {
  int64_t depth;
  float on, off;
} od_one_hot_params;
/* int32 S -> float32 S + [depth]; an index outside gives a row of off. */
od_value od_one_hot(od_graph *g, od_value indices, int64_t depth, float on, float off);

od_value od_stop_gradient(od_graph *g, od_value x); /* a view */
od_value od_ones_like(od_graph *g, od_value x);
od_value od_zeros_like(od_graph *g, od_value x);

#endif
