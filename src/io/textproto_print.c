/* The printer of the text format. Byte for byte what Python's text_format.MessageToString prints (protobuf 3.20), which is
 * what the original writes pipeline.config and graph.pbtxt with. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "io/file.h"
#include "io/textproto.h"

static void indent(od_str *s, int level) {
  for (int i = 0; i < level; i++) od_str_add(s, "  ");
}

/* A double as Python's repr: the shortest digits that give it back; plain from 1e-4 to 1e16, else with an exponent. */
static void add_double(od_str *s, double v) {
  if (isnan(v) || isinf(v)) {
    od_str_add(s, isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
    return;
  }
  char e[40], digits[24];
  int precision = 0;
  do snprintf(e, sizeof e, "%.*e", precision, v);
  while (strtod(e, NULL) != v && ++precision < 17); /* d.ddde+XX */
  const char *p = e;
  if (*p == '-') {
    od_str_add(s, "-");
    p++;
  }
  int n = 0, exponent = (int)strtol(strchr(e, 'e') + 1, NULL, 10);
  for (; *p != 'e'; p++)
    if (*p != '.') digits[n++] = *p;
  while (n > 1 && digits[n - 1] == '0') n--;
  if (exponent < -4 || exponent >= 16) {
    od_str_addf(s, "%c%s%.*se%c%02d", digits[0], n > 1 ? "." : "", n - 1, digits + 1, exponent < 0 ? '-' : '+',
                abs(exponent));
  } else if (exponent < 0) {
    od_str_addf(s, "0.%.*s%.*s", -exponent - 1, "0000", n, digits);
  } else if (n <= exponent + 1) {
    od_str_addf(s, "%.*s%.*s.0", n, digits, exponent + 1 - n, "0000000000000000");
  } else {
    od_str_addf(s, "%.*s.%.*s", exponent + 1, digits, n - exponent - 1, digits + exponent + 1);
  }
}

/* A float: the fewest digits, six at least, that give the same float; then as a double of these digits. */
static void add_float(od_str *s, float v) {
  double shown = (double)v;
  if (!isnan(v) && !isinf(v)) {
    char text[40];
    for (int precision = 6; precision <= 9; precision++) {
      snprintf(text, sizeof text, "%.*g", precision, (double)v);
      shown = strtod(text, NULL);
      if ((float)shown == v) break;
    }
  }
  add_double(s, shown);
}

static void add_text(od_str *s, const unsigned char *p, size_t len) {
  od_str_add(s, "\"");
  for (size_t i = 0; i < len; i++) {
    unsigned char c = p[i];
    const char *plain = c == '\n'   ? "\\n"
                        : c == '\r' ? "\\r"
                        : c == '\t' ? "\\t"
                        : c == '"'  ? "\\\""
                        : c == '\'' ? "\\'"
                        : c == '\\' ? "\\\\"
                                    : NULL;
    if (plain)
      od_str_add(s, plain);
    else if (c < 32 || c >= 127)
      od_str_addf(s, "\\%03o", c);
    else
      od_str_add_bytes(s, &c, 1);
  }
  od_str_add(s, "\"");
}

static void add_int(od_str *s, ProtobufCType type, const void *value) {
  int32_t i32;
  int64_t i64;
  switch (type) {
  case PROTOBUF_C_TYPE_UINT32:
  case PROTOBUF_C_TYPE_FIXED32:
    memcpy(&i32, value, 4);
    od_str_addf(s, "%" PRIu32, (uint32_t)i32);
    return;
  case PROTOBUF_C_TYPE_UINT64:
  case PROTOBUF_C_TYPE_FIXED64:
    memcpy(&i64, value, 8);
    od_str_addf(s, "%" PRIu64, (uint64_t)i64);
    return;
  case PROTOBUF_C_TYPE_INT64:
  case PROTOBUF_C_TYPE_SINT64:
  case PROTOBUF_C_TYPE_SFIXED64:
    memcpy(&i64, value, 8);
    od_str_addf(s, "%" PRId64, i64);
    return;
  default: memcpy(&i32, value, 4); od_str_addf(s, "%" PRId32, i32);
  }
}

static void add_scalar(od_str *s, const ProtobufCFieldDescriptor *f, const void *value) {
  if (f->type == PROTOBUF_C_TYPE_FLOAT) {
    add_float(s, *(const float *)value);
  } else if (f->type == PROTOBUF_C_TYPE_DOUBLE) {
    add_double(s, *(const double *)value);
  } else if (f->type == PROTOBUF_C_TYPE_BOOL) {
    od_str_add(s, *(const protobuf_c_boolean *)value ? "true" : "false");
  } else if (f->type == PROTOBUF_C_TYPE_STRING) {
    const char *text = *(char *const *)value;
    if (!text) text = "";
    add_text(s, (const unsigned char *)text, strlen(text));
  } else if (f->type == PROTOBUF_C_TYPE_BYTES) {
    const ProtobufCBinaryData *d = value;
    add_text(s, d->data, d->len);
  } else if (f->type == PROTOBUF_C_TYPE_ENUM) {
    const ProtobufCEnumValue *known = protobuf_c_enum_descriptor_get_value(f->descriptor, *(const int *)value);
    if (known)
      od_str_add(s, known->name);
    else
      od_str_addf(s, "%d", *(const int *)value);
  } else {
    add_int(s, f->type, value);
  }
}

static void print(od_str *s, const ProtobufCMessage *m, int level);

static void print_element(od_str *s, const ProtobufCFieldDescriptor *f, const void *value, int level) {
  indent(s, level);
  od_str_add(s, f->name);
  if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
    od_str_add(s, " {\n");
    const ProtobufCMessage *inner = *(ProtobufCMessage *const *)value;
    if (inner) print(s, inner, level + 1);
    indent(s, level);
    od_str_add(s, "}\n");
    return;
  }
  od_str_add(s, ": ");
  add_scalar(s, f, value);
  od_str_add(s, "\n");
}

/* Order of map entries: by key; texts by bytes, numbers by value. */
static int by_key(const void *a, const void *b) {
  const ProtobufCMessage *ma = *(ProtobufCMessage *const *)a, *mb = *(ProtobufCMessage *const *)b;
  const ProtobufCFieldDescriptor *key = &ma->descriptor->fields[0];
  const void *ka = od_proto_at(ma, key, 0), *kb = od_proto_at(mb, key, 0);
  int64_t x = 0, y = 0;
  switch (key->type) {
  case PROTOBUF_C_TYPE_STRING: return strcmp(*(char *const *)ka, *(char *const *)kb);
  case PROTOBUF_C_TYPE_UINT32:
  case PROTOBUF_C_TYPE_FIXED32: x = *(const uint32_t *)ka, y = *(const uint32_t *)kb; break;
  case PROTOBUF_C_TYPE_UINT64:
  case PROTOBUF_C_TYPE_FIXED64: {
    uint64_t ua = *(const uint64_t *)ka, ub = *(const uint64_t *)kb;
    return ua < ub ? -1 : ua > ub;
  }
  case PROTOBUF_C_TYPE_INT64:
  case PROTOBUF_C_TYPE_SINT64:
  case PROTOBUF_C_TYPE_SFIXED64: x = *(const int64_t *)ka, y = *(const int64_t *)kb; break;
  default: x = *(const int32_t *)ka, y = *(const int32_t *)kb;
  }
  return x < y ? -1 : x > y;
}

static void print_map(od_str *s, const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f, int level) {
  size_t n = od_proto_count(m, f);
  const void **sorted = od_alloc((n ? n : 1) * sizeof *sorted);
  if (!sorted) {
    s->failed = true;
    return;
  }
  if (n) memcpy(sorted, od_proto_at(m, f, 0), n * sizeof *sorted);
  qsort(sorted, n, sizeof *sorted, by_key);
  for (size_t i = 0; i < n; i++) print_element(s, f, &sorted[i], level);
  od_free(sorted);
}

static void print(od_str *s, const ProtobufCMessage *m, int level) {
  const ProtobufCMessageDescriptor *type = m->descriptor;
  for (unsigned k = 0; k < type->n_fields; k++) {
    const ProtobufCFieldDescriptor *f = &type->fields[k];
    if (od_proto_is_map(type, f)) {
      print_map(s, m, f, level);
      continue;
    }
    size_t n = od_proto_count(m, f);
    for (size_t i = 0; i < n; i++) print_element(s, f, od_proto_at(m, f, i), level);
  }
}

od_status od_textproto_print(od_str *out, const void *message) {
  print(out, message, 0);
  return od_str_check(out);
}

od_status od_textproto_save(const char *path, const void *message) {
  od_str s = OD_STR_INIT;
  od_status st = od_textproto_print(&s, message);
  if (st == OD_OK) st = od_file_write_all(path, od_str_text(&s), s.len);
  od_str_free(&s);
  return st;
}
