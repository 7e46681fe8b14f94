/* Pieces of TensorFlow graphs for the detection ops; see detect_tf.h. */
#include "ops/detect_tf.h"

const char *od_tf_element_of(od_tf *t, const char *suffix, const char *vector, int k, od_dtype type) {
  const char *begin = od_tf_const_i32s(t, "begin", (const int32_t[]){k}, 1);
  const char *end = od_tf_const_i32s(t, "end", (const int32_t[]){k + 1}, 1);
  const char *step = od_tf_const_i32s(t, "strides", (const int32_t[]){1}, 1);
  const char *name = od_tf_op(t, "StridedSlice", suffix, type, OD_TF_INPUTS(vector, begin, end, step));
  static const char *const masks[] = {"begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask"};
  od_tf_attr_type(t, "Index", OD_I32);
  for (int i = 0; i < 4; i++) od_tf_attr_int(t, masks[i], 0);
  od_tf_attr_int(t, "shrink_axis_mask", 1);
  return name;
}

const char *od_tf_slice(od_tf *t, const char *suffix, const char *tensor, const char *begin, const char *size,
                        od_dtype type) {
  const char *name = od_tf_op(t, "Slice", suffix, type, OD_TF_INPUTS(tensor, begin, size));
  od_tf_attr_type(t, "Index", OD_I32);
  return name;
}

const char *od_tf_column(od_tf *t, const char *suffix, const char *tensor, int rank, int k, od_dtype type) {
  int32_t begin[OD_MAX_RANK] = {0}, size[OD_MAX_RANK];
  for (int i = 0; i < rank; i++) size[i] = -1;
  begin[rank - 1] = k;
  size[rank - 1] = 1;
  const char *from = od_tf_const_i32s(t, "begin", begin, rank);
  return od_tf_slice(t, suffix, tensor, from, od_tf_const_i32s(t, "size", size, rank), type);
}

const char *od_tf_reshape_to(od_tf *t, const char *suffix, const char *tensor, const char *shape, od_dtype type) {
  const char *name = od_tf_op(t, "Reshape", suffix, type, OD_TF_INPUTS(tensor, shape));
  od_tf_attr_type(t, "Tshape", OD_I32);
  return name;
}

const char *od_tf_reshape(od_tf *t, const char *suffix, const char *tensor, const int64_t *dims, int rank,
                          od_dtype type) {
  int32_t list[OD_MAX_RANK] = {0};
  for (int i = 0; i < rank; i++) list[i] = (int32_t)dims[i];
  return od_tf_reshape_to(t, suffix, tensor, od_tf_const_i32s(t, "shape", list, rank), type);
}

/* An op over a list: the inputs and, behind them, `last` unless it is NULL. */
static const char *list_op(od_tf *t, const char *op, const char *suffix, const char *const *parts, int n,
                           const char *last, od_dtype type) {
  enum { MANY = 1024 };
  const char *in[MANY + 2];
  OD_ASSERT(n <= MANY);
  for (int i = 0; i < n; i++) in[i] = parts[i];
  in[n] = last;
  in[n + 1] = NULL;
  const char *name = od_tf_op(t, op, suffix, type, in);
  od_tf_attr_int(t, "N", n);
  return name;
}

const char *od_tf_concat(od_tf *t, const char *suffix, const char *const *parts, int n, int axis, od_dtype type) {
  if (n == 1) return od_tf_op(t, "Identity", suffix, type, OD_TF_INPUTS(parts[0])); /* ConcatV2 wants two at least */
  const char *name = list_op(t, "ConcatV2", suffix, parts, n, od_tf_const_i32(t, "axis", axis), type);
  od_tf_attr_type(t, "Tidx", OD_I32);
  return name;
}

const char *od_tf_stack_axis(od_tf *t, const char *suffix, const char *const *parts, int n, int axis, od_dtype type) {
  const char *name = list_op(t, "Pack", suffix, parts, n, NULL, type);
  od_tf_attr_int(t, "axis", axis);
  return name;
}

const char *od_tf_tile(od_tf *t, const char *suffix, const char *tensor, const char *multiples, od_dtype type) {
  const char *name = od_tf_op(t, "Tile", suffix, type, OD_TF_INPUTS(tensor, multiples));
  od_tf_attr_type(t, "Tmultiples", OD_I32);
  return name;
}

const char *od_tf_gather_rows(od_tf *t, const char *suffix, const char *tensor, const char *indices, od_dtype type) {
  const char *name = od_tf_add(t, "GatherV2", suffix, OD_TF_INPUTS(tensor, indices, od_tf_const_i32(t, "axis", 0)));
  od_tf_attr_type(t, "Tparams", type);
  od_tf_attr_type(t, "Tindices", OD_I32);
  od_tf_attr_type(t, "Taxis", OD_I32);
  return name;
}

const char *od_tf_expand(od_tf *t, const char *suffix, const char *tensor, int axis, od_dtype type) {
  const char *name = od_tf_op(t, "ExpandDims", suffix, type, OD_TF_INPUTS(tensor, od_tf_const_i32(t, "axis", axis)));
  od_tf_attr_type(t, "Tdim", OD_I32);
  return name;
}

const char *od_tf_range(od_tf *t, const char *suffix, const char *n) {
  const char *start = od_tf_const_i32(t, "start", 0), *step = od_tf_const_i32(t, "delta", 1);
  const char *name = od_tf_add(t, "Range", suffix, OD_TF_INPUTS(start, n, step));
  od_tf_attr_type(t, "Tidx", OD_I32);
  return name;
}

const char *od_tf_const_f32s(od_tf *t, const char *suffix, const float *v, int n) {
  od_tensor value = {OD_F32, {1, {n}}, (void *)(uintptr_t)v}; /* copied, never written */
  return od_tf_const(t, suffix, &value);
}

const char *od_tf_two(od_tf *t, const char *op, const char *suffix, const char *a, const char *b) {
  return od_tf_op(t, op, suffix, OD_F32, OD_TF_INPUTS(a, b));
}
