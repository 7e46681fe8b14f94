/* Tensors: dtype, shape, data. Dense, row-major, images NHWC, convolution weights HWIO (depthwise: H W C multiplier). */
#ifndef OD_BASE_TENSOR_H
#define OD_BASE_TENSOR_H

#include <stdint.h>

#include "base/status.h"

/* enumerator, name, bytes an element, number in TensorFlow's DataType. The first six are what graphs compute with; the
 * rest occurs in files only. */
#define OD_DTYPE_LIST(X)                                                                                              \
  X(OD_F32, "float32", 4, 1)                                                                                          \
  X(OD_BF16, "bfloat16", 2, 14)                                                                                       \
  X(OD_U8, "uint8", 1, 4)                                                                                             \
  X(OD_I32, "int32", 4, 3)                                                                                            \
  X(OD_I64, "int64", 8, 9)                                                                                            \
  X(OD_STRING, "string", sizeof(od_bytes), 7)                                                                         \
  X(OD_BOOL, "bool", 1, 10)                                                                                           \
  X(OD_F64, "float64", 8, 2)                                                                                          \
  X(OD_I8, "int8", 1, 6)                                                                                              \
  X(OD_F16, "float16", 2, 19)

typedef enum {
#define X(e, name, size, tf) e,
  OD_DTYPE_LIST(X)
#undef X
  OD_DTYPE_COUNT
} od_dtype;

/* An element of a string tensor. */
typedef struct {
  char *data;
  size_t size;
} od_bytes;

enum { OD_MAX_RANK = 8 };

/* Dimensions; -1 stands for "not known before the plan is bound" and occurs in graphs only. rank -1: not even the rank. */
typedef struct {
  int rank;
  int64_t dim[OD_MAX_RANK];
} od_shape;

/* OD_SHAPE(24, 300, 300, 3); a scalar is OD_SCALAR. */
#define OD_SHAPE(...)                                                                                                 \
  ((od_shape){(int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}})
#define OD_SCALAR ((od_shape){0, {0}})

/* Who owns data is said where a tensor is handed over: a struct is only a view. */
typedef struct {
  od_dtype dtype;
  od_shape shape;
  void *data;
} od_tensor;

const char *od_dtype_name(od_dtype dtype);
size_t od_dtype_size(od_dtype dtype);
int od_dtype_tf(od_dtype dtype);                      /* number in TensorFlow's DataType */
bool od_dtype_from_tf(od_dtype *out, int tf);         /* false: a type we do not know */

bool od_shape_equal(const od_shape *a, const od_shape *b);
/* All dimensions >= 0 and the element count fits. */
bool od_shape_known(const od_shape *s);
/* Number of elements; 1 for a scalar. The shape must be known. */
int64_t od_shape_size(const od_shape *s);
/* "[24,300,300,3]", "?" for -1, into text (returned). text holds at least OD_SHAPE_TEXT bytes. */
enum { OD_SHAPE_TEXT = 192 };
const char *od_shape_text(char *text, const od_shape *s);
/* Checked: rank and dimensions in range and the byte count fits in size_t; OD_EDATA otherwise. For sizes read from files. */
OD_MUST_CHECK od_status od_shape_bytes(size_t *out, const od_shape *s, od_dtype dtype);

int64_t od_tensor_size(const od_tensor *t);  /* elements */
size_t od_tensor_bytes(const od_tensor *t);
/* Allocates data, zeroed; the caller frees with od_tensor_free (which frees the strings of a string tensor too). */
OD_MUST_CHECK od_status od_tensor_new(od_tensor *out, od_dtype dtype, const od_shape *shape);
void od_tensor_free(od_tensor *t);
OD_MUST_CHECK od_status od_tensor_copy(od_tensor *out, const od_tensor *t); /* deep */
/* Sets element i of a string tensor to a copy of n bytes. */
OD_MUST_CHECK od_status od_tensor_set_bytes(od_tensor *t, int64_t i, const void *bytes, size_t n);

/* Round-to-nearest-even float to bfloat16 and back; NaN stays NaN. */
uint16_t od_f32_to_bf16(float x);
float od_bf16_to_f32(uint16_t x);

#endif
