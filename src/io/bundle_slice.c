/* Slices, see bundle_slice.h. The keys follow TensorFlow's OrderedCode (tensorflow/core/lib/strings/ordered_code), whose
 * encodings sort as the values do. */
#include "io/bundle_slice.h"

#include <string.h>

#include "io/wire.h"

bool od_shape_parse(od_shape *out, od_view bytes) {
  od_wire w = od_wire_over(bytes), d;
  od_wire_field f, size;
  *out = (od_shape){0};
  while (od_wire_next(&w, &f)) {
    if (od_wire_is(&f, 3, OD_WIRE_VARINT) && f.value) return false;
    if (!od_wire_is(&f, 2, OD_WIRE_BYTES)) continue;
    if (out->rank == OD_MAX_RANK) return false;
    d = od_wire_over(f.bytes);
    while (od_wire_next(&d, &size))
      if (od_wire_is(&size, 1, OD_WIRE_VARINT)) out->dim[out->rank] = (int64_t)size.value;
    if (d.bad) return false;
    out->rank++;
  }
  return !w.bad;
}

void od_shape_put(od_str *s, const od_shape *shape) {
  for (int i = 0; i < shape->rank; i++) {
    size_t dim = od_wire_begin(s, 2);
    if (shape->dim[i]) od_wire_put_varint(s, 1, (uint64_t)shape->dim[i]);
    od_wire_end(s, dim);
  }
}

bool od_slice_parse(od_slice *out, od_view bytes) {
  od_wire w = od_wire_over(bytes), e;
  od_wire_field f, n;
  *out = (od_slice){0};
  while (od_wire_next(&w, &f)) {
    if (!od_wire_is(&f, 1, OD_WIRE_BYTES)) continue;
    if (out->rank == OD_MAX_RANK) return false;
    out->length[out->rank] = -1;
    e = od_wire_over(f.bytes);
    while (od_wire_next(&e, &n)) {
      if (od_wire_is(&n, 1, OD_WIRE_VARINT)) out->start[out->rank] = (int64_t)n.value;
      if (od_wire_is(&n, 2, OD_WIRE_VARINT)) out->length[out->rank] = (int64_t)n.value;
    }
    if (e.bad) return false;
    out->rank++;
  }
  return !w.bad;
}

bool od_slice_resolve(od_slice *s, const od_shape *whole) {
  if (s->rank != whole->rank) return false;
  for (int i = 0; i < s->rank; i++) {
    if (s->length[i] == -1 && s->start[i] == 0) s->length[i] = whole->dim[i];
    if (s->start[i] < 0 || s->length[i] < 0 || s->start[i] > whole->dim[i] ||
        s->length[i] > whole->dim[i] - s->start[i])
      return false;
  }
  return true;
}

od_shape od_slice_shape(const od_slice *s) {
  od_shape shape = {.rank = s->rank};
  for (int i = 0; i < s->rank; i++) shape.dim[i] = s->length[i];
  return shape;
}

/* ------------------------------------------------------------------------------------------------------------ keys */
/* Its length in bytes, then the number without leading zeros, big-endian. */
static void put_unsigned(od_str *s, uint64_t v) {
  uint8_t b[9];
  int n = 0;
  for (uint64_t x = v; x; x >>= 8) n++;
  b[0] = (uint8_t)n;
  for (int i = 0; i < n; i++) b[1 + i] = (uint8_t)(v >> 8 * (n - 1 - i));
  od_str_add_bytes(s, b, (size_t)n + 1);
}

/* Zero and 255 are escaped, the end is 0 1. */
static void put_text(od_str *s, const char *text) {
  for (; *text; text++) {
    od_str_add_bytes(s, text, 1);
    if ((uint8_t)*text == 0xff) od_str_add_bytes(s, "\0", 1);
  }
  od_str_add_bytes(s, "\0\1", 2);
}

/* As many leading ones as there are bytes, then the number in two's complement; negative numbers all inverted. */
static void put_signed(od_str *s, int64_t v) {
  static const uint8_t head[11][2] = {{0, 0},    {0x80, 0}, {0xc0, 0}, {0xe0, 0},    {0xf0, 0},   {0xf8, 0},
                                      {0xfc, 0}, {0xfe, 0}, {0xff, 0}, {0xff, 0x80}, {0xff, 0xc0}};
  uint64_t x = v < 0 ? ~(uint64_t)v : (uint64_t)v;
  int bits = 0;
  while (bits < 64 && x >> bits) bits++;
  int n = bits / 7 + 1; /* six bits fit into one byte, seven more into each further one */
  uint8_t b[10];
  memset(b, v < 0 ? 0xff : 0, sizeof b);
  for (int i = 0; i < 8; i++) b[9 - i] = (uint8_t)((uint64_t)v >> 8 * i);
  uint8_t *begin = b + 10 - n;
  begin[0] ^= head[n][0];
  if (n > 1) begin[1] ^= head[n][1];
  od_str_add_bytes(s, begin, (size_t)n);
}

void od_slice_key(od_str *out, const char *name, const od_slice *s) {
  put_unsigned(out, 0);
  put_text(out, name);
  put_unsigned(out, (uint64_t)s->rank);
  for (int i = 0; i < s->rank; i++) {
    put_signed(out, s->start[i]);
    put_signed(out, s->length[i]);
  }
}

/* ------------------------------------------------------------------------------------------------------------ copying */
void od_slice_copy(void *whole, const od_shape *shape, const void *part, const od_slice *s, size_t size) {
  if (shape->rank == 0) {
    memcpy(whole, part, size);
    return;
  }
  int last = shape->rank - 1;
  size_t run = (size_t)s->length[last] * size;
  const uint8_t *from = part;
  int64_t at[OD_MAX_RANK] = {0};
  for (int i = 0; i < shape->rank; i++)
    if (s->length[i] == 0) return;
  for (int d = 0; d >= 0;) {
    size_t offset = 0;
    for (int i = 0; i < shape->rank; i++)
      offset = offset * (size_t)shape->dim[i] + (size_t)(s->start[i] + (i < last ? at[i] : 0));
    memcpy((uint8_t *)whole + offset * size, from, run);
    from += run;
    for (d = last - 1; d >= 0; d--) { /* the next row */
      if (++at[d] < s->length[d]) break;
      at[d] = 0;
    }
  }
}
