/* Pieces of TensorFlow graphs that the detection ops' writers share; beyond those of common.h. Inside ops/ only. */
#ifndef OD_OPS_DETECT_TF_H
#define OD_OPS_DETECT_TF_H

#include "ops/common.h"

/* Scalar: element k of a vector. */
const char *od_tf_element_of(od_tf *t, const char *suffix, const char *vector, int k, od_dtype type);
/* [..., 1]: place k of the last of `rank` dimensions. */
const char *od_tf_column(od_tf *t, const char *suffix, const char *tensor, int rank, int k, od_dtype type);
const char *od_tf_reshape(od_tf *t, const char *suffix, const char *tensor, const int64_t *dims, int rank,
                          od_dtype type);
#define OD_TF_RESHAPE(t, suffix, tensor, type, ...)                                                                    \
  od_tf_reshape(t, suffix, tensor, (int64_t[]){__VA_ARGS__}, (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), type)
/* To the shape in an int32 tensor. */
const char *od_tf_reshape_to(od_tf *t, const char *suffix, const char *tensor, const char *shape, od_dtype type);
const char *od_tf_concat(od_tf *t, const char *suffix, const char *const *parts, int n, int axis, od_dtype type);
const char *od_tf_stack_axis(od_tf *t, const char *suffix, const char *const *parts, int n, int axis, od_dtype type);
const char *od_tf_tile(od_tf *t, const char *suffix, const char *tensor, const char *multiples, od_dtype type);
const char *od_tf_slice(od_tf *t, const char *suffix, const char *tensor, const char *begin, const char *size,
                        od_dtype type);
const char *od_tf_gather_rows(od_tf *t, const char *suffix, const char *tensor, const char *indices, od_dtype type);
const char *od_tf_expand(od_tf *t, const char *suffix, const char *tensor, int axis, od_dtype type);
/* int32 vector 0, 1, ..., n - 1 of an int32 scalar n. */
const char *od_tf_range(od_tf *t, const char *suffix, const char *n);
/* Const vector of floats. */
const char *od_tf_const_f32s(od_tf *t, const char *suffix, const float *v, int n);
/* Two float inputs. */
const char *od_tf_two(od_tf *t, const char *op, const char *suffix, const char *a, const char *b);

#endif
