/* The protobuf wire format, walked and written by hand.
 *
 * For messages on the hot path (an Example a picture), for those too big to unpack (a GraphDef of 250 MB) and for those whose
 * bytes must equal TensorFlow's. Walking allocates nothing, never reads outside its bytes and treats every length as
 * hostile. Format: https://protobuf.dev/programming-guides/encoding/ */
#ifndef OD_IO_WIRE_H
#define OD_IO_WIRE_H

#include <stdint.h>

#include "base/status.h"
#include "base/str.h"
#include "io/file.h"

enum { OD_WIRE_VARINT = 0, OD_WIRE_FIXED64 = 1, OD_WIRE_BYTES = 2, OD_WIRE_FIXED32 = 5 };

/* A place in a message. */
typedef struct {
  const uint8_t *at, *end;
  bool bad; /* the bytes were no message: they ended inside a field, or a tag is impossible */
} od_wire;

typedef struct {
  uint32_t number; /* of the field */
  int type;        /* OD_WIRE_... */
  uint64_t value;  /* of a varint or a fixed number, as its bits */
  od_view bytes;   /* of OD_WIRE_BYTES; borrowed */
} od_wire_field;

od_wire od_wire_over(od_view bytes);
/* The next field; false at the end of the message and at damage (then w->bad). Groups are skipped. */
bool od_wire_next(od_wire *w, od_wire_field *field);
/* One varint; false (and w->bad) when it does not end within the bytes or within ten bytes. */
bool od_wire_varint(uint64_t *out, od_wire *w);
/* Field is this number and has bytes. */
bool od_wire_is(const od_wire_field *field, uint32_t number, int type);
float od_wire_float(const od_wire_field *field);
double od_wire_double(const od_wire_field *field);
/* The bytes equal a text. */
bool od_view_is(od_view v, const char *text);

/* Writers append one field to s (sticky, see od_str). Zero values are written too: the caller knows what its message omits. */
void od_wire_put_varint(od_str *s, uint32_t number, uint64_t value);
void od_wire_put_fixed32(od_str *s, uint32_t number, uint32_t value);
void od_wire_put_float(od_str *s, uint32_t number, float value);
void od_wire_put_double(od_str *s, uint32_t number, double value);
void od_wire_put_bytes(od_str *s, uint32_t number, const void *data, size_t size);
void od_wire_put_text(od_str *s, uint32_t number, const char *text);
/* A message inside: begin, put its fields, end with what begin gave. */
size_t od_wire_begin(od_str *s, uint32_t number);
void od_wire_end(od_str *s, size_t begun);
/* A varint without a tag. */
void od_wire_raw_varint(od_str *s, uint64_t value);
size_t od_wire_varint_size(uint64_t value);

/* Little-endian numbers in files, whatever their alignment. */
uint32_t od_load_u32(const void *p);
uint64_t od_load_u64(const void *p);
void od_store_u32(void *p, uint32_t v);
void od_store_u64(void *p, uint64_t v);

#endif
