/* Slices of partitioned variables: their text of numbers, their keys in a table, and copying them into the whole. Private to
 * bundle*.c. */
#ifndef OD_IO_BUNDLE_SLICE_H
#define OD_IO_BUNDLE_SLICE_H

#include "base/str.h"
#include "base/tensor.h"
#include "io/file.h"

/* A box of a tensor; length -1: all of that dimension. */
typedef struct {
  int rank;
  int64_t start[OD_MAX_RANK], length[OD_MAX_RANK];
} od_slice;

/* Parses a TensorSliceProto; false when it is damaged or of too many dimensions. */
bool od_slice_parse(od_slice *out, od_view bytes);
/* Parses a TensorShapeProto; false likewise, or when the rank is unknown. Sizes are not checked. */
bool od_shape_parse(od_shape *out, od_view bytes);
/* Appends a shape as TensorShapeProto writes its fields. */
void od_shape_put(od_str *s, const od_shape *shape);
/* Puts lengths in place of -1 and checks that the slice lies in the shape. */
bool od_slice_resolve(od_slice *s, const od_shape *whole);
od_shape od_slice_shape(const od_slice *s);
/* Appends the key under which a slice is stored: OrderedCode of 0, name, rank, then start and length of each dimension (with
 * the -1 of whole dimensions). */
void od_slice_key(od_str *out, const char *name, const od_slice *s);
/* Copies a dense slice into the dense whole; elements of `size` bytes. */
void od_slice_copy(void *whole, const od_shape *shape, const void *part, const od_slice *s, size_t size);

#endif
