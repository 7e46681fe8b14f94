/* Scalar values of the text format: numbers with their ranges, truth values, enum names, strings with their escapes. */
#include "io/textproto_lex.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/str.h"

/* ------------------------------------------------------------------------------------------------------------ numbers */
enum { NUMBER_MAX = 400 }; /* letters of a number: a double printed in full has 325 */

/* The number token as text; a sign may stand apart from its number ("- 5"). */
static od_status number_text(od_lex *lex, od_tok *at, char *text) {
  *at = lex->tok;
  size_t n = 0;
  if (lex->tok.kind == OD_TOK_NUMBER && lex->tok.len == 1 && (*lex->tok.start == '-' || *lex->tok.start == '+')) {
    text[n++] = *lex->tok.start;
    OD_TRY(od_lex_next(lex));
  }
  const od_tok *t = &lex->tok;
  if ((t->kind != OD_TOK_NUMBER && t->kind != OD_TOK_NAME) || t->len + n >= NUMBER_MAX) {
    text[0] = 0;
    return OD_OK;
  }
  memcpy(text + n, t->start, t->len);
  text[n + t->len] = 0;
  return OD_OK;
}

static const char *range_text(ProtobufCType type) {
  switch (type) {
  case PROTOBUF_C_TYPE_UINT32:
  case PROTOBUF_C_TYPE_FIXED32: return "0 to 4294967295";
  case PROTOBUF_C_TYPE_UINT64:
  case PROTOBUF_C_TYPE_FIXED64: return "0 to 18446744073709551615";
  case PROTOBUF_C_TYPE_INT64:
  case PROTOBUF_C_TYPE_SINT64:
  case PROTOBUF_C_TYPE_SFIXED64: return "-9223372036854775808 to 9223372036854775807";
  default: return "-2147483648 to 2147483647";
  }
}

/* Decimal, 0x hexadecimal or 0 octal, with a sign. *wide: too large for 64 bits. False: not a whole number. */
static bool whole(const char *text, bool *negative, uint64_t *magnitude, bool *wide) {
  *negative = *text == '-';
  if (*text == '-' || *text == '+') text++;
  int base = 10;
  if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
    base = 16;
    text += 2;
  } else if (text[0] == '0' && text[1]) {
    base = 8;
    text++;
  }
  if (!*text) return false;
  static const char digits[] = "0123456789abcdef";
  *wide = false;
  uint64_t v = 0;
  for (; *text; text++) {
    char c = (*text >= 'A' && *text <= 'F') ? (char)(*text - 'A' + 'a') : *text;
    const char *d = strchr(digits, c);
    if (!d || d - digits >= base) return false;
    if (__builtin_mul_overflow(v, (uint64_t)base, &v) || __builtin_add_overflow(v, (uint64_t)(d - digits), &v))
      *wide = true;
  }
  *magnitude = v;
  return true;
}

static bool as_float(const char *text, double *out) {
  const char *p = text + (*text == '-' || *text == '+');
  if (!strcasecmp(p, "inf") || !strcasecmp(p, "infinity") || !strcasecmp(p, "inff")) {
    *out = *text == '-' ? -INFINITY : INFINITY;
    return true;
  }
  if (!strcasecmp(p, "nan") || !strcasecmp(p, "nanf")) {
    *out = NAN;
    return true;
  }
  char copy[NUMBER_MAX];
  size_t n = strlen(text);
  memcpy(copy, text, n + 1);
  if (n && (copy[n - 1] == 'f' || copy[n - 1] == 'F')) copy[n - 1] = 0;
  if (!copy[0] || strspn(copy, "0123456789.eE+-") != strlen(copy)) return false; /* strtod knows more than we want */
  char *end;
  *out = strtod(copy, &end);
  return !*end && end != copy;
}

static od_status read_int(od_lex *lex, const ProtobufCFieldDescriptor *f, void *value) {
  char text[NUMBER_MAX];
  od_tok at;
  OD_TRY(number_text(lex, &at, text));
  bool negative = false, wide = false;
  uint64_t m = 0;
  double d;
  if (!whole(text, &negative, &m, &wide)) {
    if (at.kind == OD_TOK_NUMBER && as_float(text, &d))
      return od_lex_fail(lex, &at, NULL, "%s is a whole number (%s), here is %s", f->name, range_text(f->type),
                         od_tok_show(&at));
    return od_lex_fail(lex, &at, at.kind == OD_TOK_STRING ? "a number stands without quotes" : NULL,
                       "%s wants a whole number (%s), here is %s", f->name, range_text(f->type), od_tok_show(&at));
  }
  bool is_signed = true, is64 = false;
  switch (f->type) {
  case PROTOBUF_C_TYPE_UINT32:
  case PROTOBUF_C_TYPE_FIXED32: is_signed = false; break;
  case PROTOBUF_C_TYPE_UINT64:
  case PROTOBUF_C_TYPE_FIXED64: is_signed = false, is64 = true; break;
  case PROTOBUF_C_TYPE_INT64:
  case PROTOBUF_C_TYPE_SINT64:
  case PROTOBUF_C_TYPE_SFIXED64: is64 = true; break;
  default: break;
  }
  uint64_t top = is64 ? UINT64_MAX : UINT32_MAX;
  if (is_signed)
    top = top / 2 + (negative ? 1 : 0);
  else if (negative)
    top = 0;
  if (wide || m > top)
    return od_lex_fail(lex, &at, NULL, "%s is %s, which is not within %s", f->name, text, range_text(f->type));
  uint64_t v = negative ? 0 - m : m;
  uint32_t low = (uint32_t)v;
  if (is64)
    memcpy(value, &v, sizeof v);
  else
    memcpy(value, &low, sizeof low);
  return od_lex_next(lex);
}

static od_status read_float(od_lex *lex, const ProtobufCFieldDescriptor *f, void *value) {
  char text[NUMBER_MAX];
  od_tok at;
  OD_TRY(number_text(lex, &at, text));
  double d;
  if (!as_float(text, &d)) {
    if (at.kind == OD_TOK_NUMBER && strpbrk(text, "xX"))
      return od_lex_fail(lex, &at, NULL, "%s is a decimal number, here is %s", f->name, od_tok_show(&at));
    return od_lex_fail(lex, &at, at.kind == OD_TOK_STRING ? "a number stands without quotes" : NULL,
                       "%s wants a number, here is %s", f->name, od_tok_show(&at));
  }
  if (f->type == PROTOBUF_C_TYPE_DOUBLE) {
    memcpy(value, &d, sizeof d);
  } else {
    float v = (float)d;
    if (isinf(v) && !isinf(d))
      return od_lex_fail(lex, &at, NULL, "%s is %s, larger than a float holds (3.4e38)", f->name, text);
    memcpy(value, &v, sizeof v);
  }
  return od_lex_next(lex);
}

static od_status read_bool(od_lex *lex, const ProtobufCFieldDescriptor *f, void *value) {
  const od_tok *t = &lex->tok;
  protobuf_c_boolean v;
  if (od_tok_equals(t, "true") || od_tok_equals(t, "True") || od_tok_equals(t, "t") || od_tok_equals(t, "1"))
    v = 1;
  else if (od_tok_equals(t, "false") || od_tok_equals(t, "False") || od_tok_equals(t, "f") || od_tok_equals(t, "0"))
    v = 0;
  else
    return od_lex_fail(lex, t, NULL, "%s wants true or false, here is %s", f->name, od_tok_show(t));
  memcpy(value, &v, sizeof v);
  return od_lex_next(lex);
}

/* -------------------------------------------------------------------------------------------------------------- enums */
static const char *enum_choices(const ProtobufCEnumDescriptor *e) {
  static _Thread_local char text[256];
  size_t n = 0;
  text[0] = 0;
  for (unsigned i = 0; i < e->n_values; i++) {
    int k = snprintf(text + n, sizeof text - n, "%s%s", i ? ", " : "", e->values[i].name);
    if (k < 0 || (size_t)k >= sizeof text - n) {
      memcpy(text + n, "", 1);
      break;
    }
    n += (size_t)k;
  }
  return text;
}

/* Equal but for case and underscores: RELU6 and RELU_6. */
static bool same_letters(const char *a, const char *b) {
  for (;; a++, b++) {
    a += strspn(a, "_");
    b += strspn(b, "_");
    if (strncasecmp(a, b, 1) != 0) return false;
    if (!*a) return true;
  }
}

static const char *near_value(const ProtobufCEnumDescriptor *e, const char *word) {
  enum { MANY = 64 };
  const char *names[MANY];
  size_t n = 0;
  for (unsigned i = 0; i < e->n_value_names && n < MANY; i++) {
    names[n++] = e->values_by_name[i].name;
    if (same_letters(word, names[n - 1])) return names[n - 1];
  }
  return od_did_you_mean(word, names, n);
}

static od_status read_enum(od_lex *lex, const ProtobufCFieldDescriptor *f, void *value) {
  const ProtobufCEnumDescriptor *e = f->descriptor;
  const od_tok *t = &lex->tok;
  char word[NUMBER_MAX];
  snprintf(word, sizeof word, "%.*s", t->len < 200 ? (int)t->len : 200, t->start);
  int v = 0;
  bool negative, wide;
  uint64_t m;
  if (t->kind == OD_TOK_NAME) {
    const ProtobufCEnumValue *known = protobuf_c_enum_descriptor_get_value_by_name(e, word);
    if (!known) {
      const char *near = near_value(e, word);
      return od_lex_fail(lex, t, NULL, "%s has no value %s%s%s%s; it is one of %s", f->name, od_tok_show(t),
                         near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "", enum_choices(e));
    }
    v = known->value;
  } else if (t->kind == OD_TOK_NUMBER && whole(word, &negative, &m, &wide) && !wide && m <= INT32_MAX) {
    v = negative ? -(int)m : (int)m;
    /* proto3 keeps numbers that it does not know */
    if (f->label != PROTOBUF_C_LABEL_NONE && !protobuf_c_enum_descriptor_get_value(e, v))
      return od_lex_fail(lex, t, NULL, "%s has no value with number %d; it is one of %s", f->name, v, enum_choices(e));
  } else {
    return od_lex_fail(lex, t, t->kind == OD_TOK_STRING ? "the name of a choice stands without quotes" : NULL,
                       "%s wants one of %s, here is %s", f->name, enum_choices(e), od_tok_show(t));
  }
  memcpy(value, &v, sizeof v);
  return od_lex_next(lex);
}

/* ------------------------------------------------------------------------------------------------------------ strings */
static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/* Up to max digits of the base; how many were there. */
static size_t digits(const char *p, const char *end, int base, size_t max, uint32_t *out) {
  size_t n = 0;
  *out = 0;
  while (n < max && p + n < end) {
    int d = hex_digit(p[n]);
    if (d < 0 || d >= base) break;
    *out = *out * (uint32_t)base + (uint32_t)d;
    n++;
  }
  return n;
}

static void add_utf8(od_str *s, uint32_t c) {
  char b[4];
  size_t n = 1;
  if (c < 0x80) {
    b[0] = (char)c;
  } else if (c < 0x800) {
    n = 2;
    b[0] = (char)(0xc0 | (c >> 6));
  } else if (c < 0x10000) {
    n = 3;
    b[0] = (char)(0xe0 | (c >> 12));
  } else {
    n = 4;
    b[0] = (char)(0xf0 | (c >> 18));
  }
  for (size_t i = 1; i < n; i++) b[i] = (char)(0x80 | ((c >> (6 * (n - 1 - i))) & 0x3f));
  od_str_add_bytes(s, b, n);
}

/* Names of fields that hold a path: there an escape like \t is a Windows path and not a tab. */
static bool holds_path(const ProtobufCFieldDescriptor *f) {
  return f && f->type == PROTOBUF_C_TYPE_STRING &&
         (od_ends_with(f->name, "path") || od_ends_with(f->name, "checkpoint") || od_ends_with(f->name, "dir"));
}

static const char windows_path[] = "a Windows path: write / or \\\\ for each backslash";

/* One escape at p (behind the backslash); returns how many bytes it took, 0 when there is no such escape. */
static size_t escape(od_str *s, const char *p, const char *end) {
  static const char plain[] = "n\nr\rt\ta\ab\bf\fv\v\\\\''\"\"??";
  uint32_t v;
  size_t n;
  char byte;
  for (const char *e = plain; *e; e += 2)
    if (*p == e[0]) {
      od_str_add_bytes(s, e + 1, 1);
      return 1;
    }
  if (*p >= '0' && *p <= '7') {
    n = digits(p, end, 8, 3, &v);
    if (v > 255) return 0;
    byte = (char)v;
    od_str_add_bytes(s, &byte, 1);
    return n;
  }
  if (*p == 'x' || *p == 'X') {
    n = digits(p + 1, end, 16, 2, &v);
    byte = (char)v;
    if (n) od_str_add_bytes(s, &byte, 1);
    return n ? n + 1 : 0;
  }
  if (*p == 'u' || *p == 'U') {
    size_t want = *p == 'u' ? 4 : 8;
    n = digits(p + 1, end, 16, want, &v);
    if (n != want || v > 0x10ffff || (v >= 0xd800 && v < 0xe000)) return 0;
    add_utf8(s, v);
    return n + 1;
  }
  return 0;
}

od_status od_lex_string(const od_lex *lex, const od_tok *tok, const ProtobufCFieldDescriptor *field, od_str *s) {
  const char *p = tok->start + 1, *end = tok->start + tok->len - 1;
  bool drive = end - p > 3 && ((p[0] | 32) >= 'a' && (p[0] | 32) <= 'z') && p[1] == ':' && p[2] == '\\' && p[3] != '\\';
  while (p < end) {
    if (*p != '\\') {
      const char *next = memchr(p, '\\', (size_t)(end - p));
      if (!next) next = end;
      od_str_add_bytes(s, p, (size_t)(next - p));
      p = next;
      continue;
    }
    od_tok at = *tok;
    at.start = p;
    at.len = 2;
    size_t before = s->len;
    size_t n = (drive && p[1] != '\\') ? 0 : escape(s, p + 1, end);
    if (!n) return od_lex_fail(lex, &at, windows_path, "a backslash begins an escape, and '\\%c' is none", p[1]);
    if (holds_path(field) && s->len > before && (unsigned char)s->data[before] < 32)
      return od_lex_fail(lex, &at, windows_path, "'\\%c' stands for a control character, and no path has one", p[1]);
    p += 1 + n;
  }
  return od_str_check(s);
}

static bool valid_utf8(const char *p, size_t len) {
  const unsigned char *u = (const unsigned char *)p, *end = u + len;
  while (u < end) {
    size_t n = *u < 0x80 ? 1 : *u < 0xc2 ? 0 : *u < 0xe0 ? 2 : *u < 0xf0 ? 3 : *u < 0xf5 ? 4 : 0;
    if (!n || n > (size_t)(end - u)) return false;
    for (size_t i = 1; i < n; i++)
      if ((u[i] & 0xc0) != 0x80) return false;
    if ((u[0] == 0xe0 && u[1] < 0xa0) || (u[0] == 0xed && u[1] > 0x9f) || (u[0] == 0xf0 && u[1] < 0x90) ||
        (u[0] == 0xf4 && u[1] > 0x8f))
      return false;
    u += n;
  }
  return true;
}

static od_status read_string(od_lex *lex, const ProtobufCFieldDescriptor *f, void *value) {
  od_tok first = lex->tok;
  if (first.kind != OD_TOK_STRING) {
    const char *cause = NULL;
    if (first.kind == OD_TOK_NAME || (first.kind == OD_TOK_MARK && strchr("/.", *first.start))) {
      const char *p = first.start;
      while (p < lex->end && *p != '\n' && *p != '\\') p++;
      cause = p < lex->end && *p == '\\' ? "a Windows path: put it in quotes and write / or \\\\ for each backslash"
                                         : "a text stands in quotes";
    }
    return od_lex_fail(lex, &first, cause, "%s wants a text in quotes, here is %s", f->name, od_tok_show(&first));
  }
  od_str s = OD_STR_INIT;
  od_status st = OD_OK;
  while (lex->tok.kind == OD_TOK_STRING) {
    OD_GO(st, od_lex_string(lex, &lex->tok, f, &s));
    OD_GO(st, od_lex_next(lex));
  }
  if (f->type == PROTOBUF_C_TYPE_STRING) {
    if (s.len && memchr(s.data, 0, s.len))
      OD_GO(st, od_lex_fail(lex, &first, NULL, "%s holds a zero byte, which a text cannot", f->name));
    if (!valid_utf8(od_str_text(&s), s.len))
      OD_GO(st, od_lex_fail(lex, &first, "saved in an old encoding (Latin-1, Windows-1252); save the file as UTF-8",
                            "%s is not valid UTF-8", f->name));
  }
  size_t len = s.len;
  char *text = od_str_take(&s);
  if (!text) return OD_ENOMEM;
  if (f->type == PROTOBUF_C_TYPE_BYTES) {
    ProtobufCBinaryData data = {len, (uint8_t *)text};
    memcpy(value, &data, sizeof data);
  } else {
    memcpy(value, &text, sizeof text);
  }
  return OD_OK;
done:
  od_str_free(&s);
  return st;
}

od_status od_lex_scalar(od_lex *lex, const ProtobufCFieldDescriptor *f, void *value) {
  OD_ASSERT(f->type != PROTOBUF_C_TYPE_MESSAGE);
  switch (f->type) {
  case PROTOBUF_C_TYPE_FLOAT:
  case PROTOBUF_C_TYPE_DOUBLE: return read_float(lex, f, value);
  case PROTOBUF_C_TYPE_BOOL: return read_bool(lex, f, value);
  case PROTOBUF_C_TYPE_ENUM: return read_enum(lex, f, value);
  case PROTOBUF_C_TYPE_STRING:
  case PROTOBUF_C_TYPE_BYTES: return read_string(lex, f, value);
  default: break;
  }
  return read_int(lex, f, value);
}
