/* Walking and writing protobuf's wire format, see wire.h. */
#include "io/wire.h"

#include <string.h>

#include "base/mem.h"

enum { GROUP_BEGIN = 3, GROUP_END = 4, MAX_GROUPS = 64 };

od_wire od_wire_over(od_view bytes) {
  return (od_wire){bytes.data, bytes.size ? bytes.data + bytes.size : bytes.data, false};
}

static bool damaged(od_wire *w) {
  w->bad = true;
  w->at = w->end;
  return false;
}

bool od_wire_varint(uint64_t *out, od_wire *w) {
  uint64_t v = 0;
  for (unsigned shift = 0; shift < 70; shift += 7) {
    if (w->at == w->end) return damaged(w);
    uint8_t b = *w->at++;
    v |= (uint64_t)(b & 127) << (shift < 63 ? shift : 63); /* what stands above bit 63 is cut off, as everywhere */
    if (!(b & 128)) {
      *out = v;
      return true;
    }
  }
  return damaged(w);
}

static bool take_bytes(od_wire *w, od_view *out, uint64_t n) {
  if (n > (uint64_t)(w->end - w->at)) return damaged(w);
  *out = (od_view){w->at, (size_t)n};
  w->at += n;
  return true;
}

/* One field of any type, groups' marks included. */
static bool next_raw(od_wire *w, od_wire_field *f) {
  uint64_t tag, n;
  od_view v;
  if (w->at == w->end || !od_wire_varint(&tag, w)) return false;
  *f = (od_wire_field){.number = (uint32_t)(tag >> 3), .type = (int)(tag & 7)};
  if (tag >> 32 || f->number == 0) return damaged(w);
  switch (f->type) {
  case OD_WIRE_VARINT: return od_wire_varint(&f->value, w);
  case OD_WIRE_BYTES: return od_wire_varint(&n, w) && take_bytes(w, &f->bytes, n);
  case OD_WIRE_FIXED64:
    if (!take_bytes(w, &v, 8)) return false;
    f->value = od_load_u64(v.data);
    return true;
  case OD_WIRE_FIXED32:
    if (!take_bytes(w, &v, 4)) return false;
    f->value = od_load_u32(v.data);
    return true;
  case GROUP_BEGIN:
  case GROUP_END: return true;
  default: return damaged(w);
  }
}

bool od_wire_next(od_wire *w, od_wire_field *field) {
  int depth = 0;
  while (next_raw(w, field)) {
    if (field->type == GROUP_BEGIN) {
      if (++depth > MAX_GROUPS) return damaged(w);
    } else if (field->type == GROUP_END) {
      if (--depth < 0) return damaged(w);
    } else if (depth == 0) {
      return true;
    }
  }
  if (depth != 0) return damaged(w);
  return false;
}

bool od_wire_is(const od_wire_field *f, uint32_t number, int type) { return f->number == number && f->type == type; }

float od_wire_float(const od_wire_field *f) {
  uint32_t bits = (uint32_t)f->value;
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

double od_wire_double(const od_wire_field *f) {
  double x;
  memcpy(&x, &f->value, sizeof x);
  return x;
}

bool od_view_is(od_view v, const char *text) {
  return v.size == strlen(text) && (v.size == 0 || memcmp(v.data, text, v.size) == 0);
}

/* ------------------------------------------------------------------------------------------------------------ writing */
static size_t varint_bytes(uint8_t *to, uint64_t v) {
  size_t n = 0;
  for (; v > 127; v >>= 7) to[n++] = (uint8_t)(v | 128);
  to[n++] = (uint8_t)v;
  return n;
}

size_t od_wire_varint_size(uint64_t v) {
  size_t n = 1;
  while (v > 127) v >>= 7, n++;
  return n;
}

void od_wire_raw_varint(od_str *s, uint64_t value) {
  uint8_t b[10];
  od_str_add_bytes(s, b, varint_bytes(b, value));
}

static void put_tag(od_str *s, uint32_t number, int type) {
  od_wire_raw_varint(s, (uint64_t)number << 3 | (unsigned)type);
}

void od_wire_put_varint(od_str *s, uint32_t number, uint64_t value) {
  put_tag(s, number, OD_WIRE_VARINT);
  od_wire_raw_varint(s, value);
}

void od_wire_put_fixed32(od_str *s, uint32_t number, uint32_t value) {
  uint8_t b[4];
  put_tag(s, number, OD_WIRE_FIXED32);
  od_store_u32(b, value);
  od_str_add_bytes(s, b, sizeof b);
}

void od_wire_put_float(od_str *s, uint32_t number, float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  od_wire_put_fixed32(s, number, bits);
}

void od_wire_put_double(od_str *s, uint32_t number, double value) {
  uint64_t bits;
  uint8_t b[8];
  memcpy(&bits, &value, sizeof bits);
  put_tag(s, number, OD_WIRE_FIXED64);
  od_store_u64(b, bits);
  od_str_add_bytes(s, b, sizeof b);
}

void od_wire_put_bytes(od_str *s, uint32_t number, const void *data, size_t size) {
  put_tag(s, number, OD_WIRE_BYTES);
  od_wire_raw_varint(s, size);
  od_str_add_bytes(s, data, size);
}

void od_wire_put_text(od_str *s, uint32_t number, const char *text) {
  od_wire_put_bytes(s, number, text, strlen(text));
}

size_t od_wire_begin(od_str *s, uint32_t number) {
  put_tag(s, number, OD_WIRE_BYTES);
  return s->len;
}

/* The length is known only now: the body moves up to let it in. */
void od_wire_end(od_str *s, size_t begun) {
  uint8_t b[10];
  if (s->failed) return;
  size_t size = s->len - begun, n = varint_bytes(b, size);
  od_str_add_bytes(s, b, n);
  if (s->failed) return;
  memmove(s->data + begun + n, s->data + begun, size);
  memcpy(s->data + begun, b, n);
}

/* ------------------------------------------------------------------------------------------------------------ numbers */
uint32_t od_load_u32(const void *p) {
  const uint8_t *b = p;
  return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

uint64_t od_load_u64(const void *p) {
  return (uint64_t)od_load_u32(p) | (uint64_t)od_load_u32((const uint8_t *)p + 4) << 32;
}

void od_store_u32(void *p, uint32_t v) {
  uint8_t *b = p;
  for (int i = 0; i < 4; i++) b[i] = (uint8_t)(v >> 8 * i);
}

void od_store_u64(void *p, uint64_t v) {
  od_store_u32(p, (uint32_t)v);
  od_store_u32((uint8_t *)p + 4, (uint32_t)(v >> 32));
}
