/* The two forms of `inspect`, see inspect_report.h. */
#include "io/inspect_report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Length of the UTF-8 character at p, 0 when it is none. */
static size_t utf8_length(const uint8_t *p, size_t left) {
  size_t n = *p < 0x80                 ? 1
             : *p >= 0xc2 && *p < 0xe0 ? 2
             : *p >= 0xe0 && *p < 0xf0 ? 3
             : *p >= 0xf0 && *p < 0xf5 ? 4
                                       : 0;
  if (n > left) return 0;
  for (size_t i = 1; i < n; i++)
    if ((p[i] & 0xc0) != 0x80) return 0;
  if (n == 3 && ((*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] > 0x9f))) return 0; /* too long; a half of a pair */
  return n;
}

/* Bytes as a JSON string; in the text form control characters are escaped likewise, so that no file can play with a terminal. */
static void put_escaped(od_str *s, od_view v, bool json) {
  for (size_t i = 0, n; i < v.size; i += n ? n : 1) {
    const uint8_t *p = v.data + i;
    n = utf8_length(p, v.size - i);
    if (n == 0)
      od_str_add(s, "\xef\xbf\xbd"); /* the replacement character */
    else if (*p < 32 || *p == 127)
      od_str_addf(s, "\\u%04x", *p);
    else if (json && (*p == '"' || *p == '\\'))
      od_str_addf(s, "\\%c", *p);
    else
      od_str_add_bytes(s, p, n);
  }
}

/* What stands before a value. */
static void key(od_inspect_report *r, const char *name) {
  if (r->json) {
    od_str_add(r->out, r->comma ? ", " : "");
    od_str_addf(r->out, "\"%s\": ", name);
  } else if (r->depth == 0) {
    od_str_addf(r->out, "%s: ", name);
  } else {
    od_str_add(r->out, "  ");
    if (r->in_row) od_str_addf(r->out, "%s=", name); /* the first field of a row is its name */
  }
  r->comma = r->in_row = true;
}

static void end(od_inspect_report *r) {
  if (!r->json && r->depth == 0) od_str_add(r->out, "\n");
}

void od_inspect_begin(od_inspect_report *r) {
  if (r->json) od_str_add(r->out, "{");
  r->comma = false;
}

void od_inspect_end(od_inspect_report *r) {
  if (r->json) od_str_add(r->out, "}\n");
}

void od_inspect_text(od_inspect_report *r, const char *name, od_view value) {
  key(r, name);
  if (r->json) od_str_add(r->out, "\"");
  put_escaped(r->out, value, r->json);
  if (r->json) od_str_add(r->out, "\"");
  end(r);
}

void od_inspect_cstr(od_inspect_report *r, const char *name, const char *value) {
  od_inspect_text(r, name, (od_view){(const uint8_t *)value, strlen(value)});
}

void od_inspect_int(od_inspect_report *r, const char *name, int64_t value) {
  key(r, name);
  od_str_addf(r->out, "%lld", (long long)value);
  end(r);
}

void od_inspect_number(od_inspect_report *r, const char *name, double value) {
  key(r, name);
  if (r->json && !isfinite(value))
    od_str_add(r->out, "null");
  else
    od_str_addf(r->out, r->json ? "%.17g" : "%.9g", value);
  end(r);
}

void od_inspect_shape(od_inspect_report *r, const char *name, const od_shape *shape) {
  char text[OD_SHAPE_TEXT];
  key(r, name);
  if (!shape) {
    od_str_add(r->out, r->json ? "null" : "?");
  } else if (!r->json) {
    od_str_add(r->out, od_shape_text(text, shape));
  } else {
    od_str_add(r->out, "[");
    for (int i = 0; i < shape->rank; i++) od_str_addf(r->out, "%s%lld", i ? ", " : "", (long long)shape->dim[i]);
    od_str_add(r->out, "]");
  }
  end(r);
}

void od_inspect_list(od_inspect_report *r, const char *name) {
  if (r->json) key(r, name);
  if (r->json)
    od_str_add(r->out, "[");
  else
    od_str_addf(r->out, "%s:\n", name);
  r->depth++;
  r->comma = false;
}

void od_inspect_list_end(od_inspect_report *r) {
  if (r->json) od_str_add(r->out, "]");
  r->depth--;
  r->comma = true;
}

void od_inspect_row(od_inspect_report *r) {
  if (r->json) od_str_add(r->out, r->comma ? ",\n {" : "\n {");
  r->comma = r->in_row = false;
}

void od_inspect_row_end(od_inspect_report *r) {
  od_str_add(r->out, r->json ? "}" : "\n");
  r->comma = true;
}

const char *od_inspect_type(char text[16], int tf_dtype) {
  od_dtype d;
  if (od_dtype_from_tf(&d, tf_dtype)) return od_dtype_name(d);
  snprintf(text, 16, "type %d", tf_dtype % 100000);
  return text;
}
