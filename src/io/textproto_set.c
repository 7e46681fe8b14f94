/* Setting a field by its path ("train_config.batch_size", "eval_input_reader[0].shuffle"); see textproto.h. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "io/textproto_lex.h"

enum { STEP_MAX = 200 };

/* One step of a path: the name of a field, and an index where one stands. */
typedef struct {
  char name[STEP_MAX];
  bool has_index;
  size_t index;
} step;

/* Takes the next step off *path; the paths of errors are `full`. */
static od_status next_step(step *out, const char **path, const char *full) {
  const char *p = *path;
  size_t n = strcspn(p, ".[");
  *out = (step){.has_index = false};
  if (n == 0 || n >= STEP_MAX)
    return od_fail(OD_EINVAL, "--set %s: expected the name of a field at '%.40s' (as in train_config.batch_size)", full,
                   p);
  memcpy(out->name, p, n);
  p += n;
  if (*p == '[') {
    size_t digits = strspn(p + 1, "0123456789");
    if (digits == 0 || digits > 9 || p[1 + digits] != ']')
      return od_fail(OD_EINVAL, "--set %s: an index is a number in brackets, as in input_path[0]; here is '%.40s'",
                     full, p);
    for (size_t i = 0; i < digits; i++) out->index = 10 * out->index + (size_t)(p[1 + i] - '0');
    out->has_index = true;
    p += digits + 2;
  }
  if (*p == '.') {
    p++;
    if (!*p) return od_fail(OD_EINVAL, "--set %s: the path ends in a point", full);
  } else if (*p) {
    return od_fail(OD_EINVAL, "--set %s: expected a point before '%.40s'", full, p);
  }
  *path = p;
  return OD_OK;
}

static od_status find_field(const ProtobufCFieldDescriptor **out, const void *message, const step *s,
                            const char *full) {
  const ProtobufCMessageDescriptor *type = ((const ProtobufCMessage *)message)->descriptor;
  *out = od_proto_field(type, s->name, strlen(s->name));
  if (*out) return OD_OK;
  const char *near = od_textproto_near(type, s->name);
  if (near)
    return od_fail(OD_EINVAL, "--set %s: %s has no field '%s'; did you mean '%s'?", full, od_proto_type_name(type),
                   s->name, near);
  od_str names = OD_STR_INIT;
  for (unsigned i = 0; i < type->n_fields && i < 30; i++)
    od_str_addf(&names, "%s%s", i ? ", " : "", type->fields[i].name);
  od_status st = od_fail(OD_EINVAL, "--set %s: %s has no field '%s'; it has %s", full, od_proto_type_name(type),
                         s->name, names.len ? od_str_text(&names) : "none");
  od_str_free(&names);
  return st;
}

static od_status bad_index(const void *message, const ProtobufCFieldDescriptor *f, const step *s, const char *full) {
  return od_fail(OD_EINVAL,
                 "--set %s: %s has %zu elements, counted from 0; [%zu] is beyond the one that could be appended", full,
                 f->name, od_proto_count(message, f), s->index);
}

/* The message that a step leads to, made when it is missing. */
static od_status enter(void **message, const ProtobufCFieldDescriptor *f, const step *s, const char *full,
                       od_textpos *pos) {
  void *m = *message, *place;
  if (f->type != PROTOBUF_C_TYPE_MESSAGE)
    return od_fail(OD_EINVAL, "--set %s: %s is a single value and has no fields", full, f->name);
  bool list = f->label == PROTOBUF_C_LABEL_REPEATED;
  size_t n = od_proto_count(m, f), i = 0, cap = 0;
  if (!list && s->has_index)
    return od_fail(OD_EINVAL, "--set %s: %s is not a list, leave the index out", full, f->name);
  if (list) {
    i = s->index;
    if (!s->has_index && n > 1)
      return od_fail(OD_EINVAL, "--set %s: %s has %zu elements; say which: %s[0] to %s[%zu]", full, f->name, n, f->name,
                     f->name, n - 1);
    if (i > n) return bad_index(m, f, s, full);
  }
  if (i < n && (list || od_proto_has(m, f))) {
    place = od_proto_at(m, f, i);
  } else {
    const ProtobufCFieldDescriptor *now = od_proto_chosen(m, f); /* another member of the oneof gives way */
    if (!list && now) od_textpos_forget_field(pos, m, now);
    OD_TRY(od_proto_add(&place, m, f, &cap));
  }
  *message = *(void **)place;
  return OD_OK;
}

static void add_quoted(od_str *s, const char *text, size_t n) {
  od_str_add(s, "\"");
  for (size_t i = 0; i < n; i++) {
    if (text[i] == '"' || text[i] == '\\') od_str_add(s, "\\");
    if (text[i] == '\n')
      od_str_add(s, "\\n");
    else
      od_str_add_bytes(s, &text[i], 1);
  }
  od_str_add(s, "\"");
}

/* A list of texts of which some have no quotes: puts quotes round those. */
static void quote_list(od_str *s, const char *p) {
  od_str_add(s, "[");
  p++;
  for (;;) {
    p += strspn(p, " \t\n");
    if (!*p || *p == ']') break;
    if (*p == '"' || *p == '\'') {
      const char *q = p + 1;
      while (*q && *q != *p) q += (*q == '\\' && q[1]) ? 2 : 1;
      if (*q) q++;
      od_str_add_bytes(s, p, (size_t)(q - p));
      p = q;
    } else {
      size_t n = strcspn(p, ",]"), len = n;
      while (len && (p[len - 1] == ' ' || p[len - 1] == '\t')) len--;
      add_quoted(s, p, len);
      p += n;
    }
    p += strspn(p, " \t\n");
    if (*p == ',') {
      od_str_add(s, ", ");
      p++;
    }
  }
  od_str_add(s, p); /* the closing bracket, or what stands in its place */
}

/* The value as the parser wants it: texts may come without quotes. */
static void as_text(od_str *s, const ProtobufCFieldDescriptor *f, bool list, const char *value) {
  const char *p = value + strspn(value, " \t\n");
  bool text = f->type == PROTOBUF_C_TYPE_STRING || f->type == PROTOBUF_C_TYPE_BYTES;
  if (!text || *p == '"' || *p == '\'')
    od_str_add(s, value);
  else if (list && *p == '[')
    quote_list(s, p);
  else
    add_quoted(s, value, strlen(value));
}

/* Puts the single element of `from` at index i of `to`; `from` gets what was there. */
static od_status put_element(void *to, void *from, const ProtobufCFieldDescriptor *f, size_t i, od_textpos *pos) {
  char keep[sizeof(ProtobufCBinaryData)];
  size_t size = od_proto_size(f->type), cap = 0;
  void *place, *source = od_proto_at(from, f, 0);
  if (i == od_proto_count(to, f)) {
    OD_TRY(od_proto_add(&place, to, f, &cap));
  } else {
    place = od_proto_at(to, f, i);
    if (f->type == PROTOBUF_C_TYPE_MESSAGE) od_textpos_forget(pos, *(void **)place);
  }
  memcpy(keep, place, size);
  memcpy(place, source, size);
  memcpy(source, keep, size);
  return OD_OK;
}

/* Moves the value read into `fresh` to where the path leads. */
static od_status assign(void *message, void *fresh, const ProtobufCFieldDescriptor *f, const step *s, const char *full,
                        od_textpos *pos) {
  bool element = s->has_index;
  size_t n = od_proto_count(fresh, f);
  for (size_t i = 0; i < n; i++) od_textpos_drop(pos, fresh, f, i);
  if (element) {
    if (s->index > od_proto_count(message, f)) return bad_index(message, f, s, full);
    OD_TRY(put_element(message, fresh, f, s->index, pos));
  } else {
    const ProtobufCFieldDescriptor *now = od_proto_chosen(message, f);
    od_textpos_forget_field(pos, message, f->label == PROTOBUF_C_LABEL_REPEATED || !now ? f : now);
    od_proto_move(message, fresh, f);
  }
  if (!pos) return OD_OK;
  od_str name = OD_STR_INIT;
  od_str_addf(&name, "--set %s", full);
  od_status st = od_str_check(&name);
  for (size_t i = 0; i < n && st == OD_OK; i++)
    st = od_textpos_put(pos, message, f, element ? s->index : i, od_str_text(&name), 0, 0);
  od_str_free(&name);
  return st;
}

/* Reads the value into a new message of the type that holds the field. */
static od_status read_value(void **out, const ProtobufCMessageDescriptor *owner, const ProtobufCFieldDescriptor *f,
                            const step *s, const char *full, const char *value, od_textpos *pos) {
  bool list = f->label == PROTOBUF_C_LABEL_REPEATED;
  if (!list && s->has_index)
    return od_fail(OD_EINVAL, "--set %s: %s is not a list, leave the index out", full, f->name);
  od_status st = OD_OK;
  od_str text = OD_STR_INIT, name = OD_STR_INIT;
  void *fresh = od_proto_new(owner);
  if (!fresh) return OD_ENOMEM;
  as_text(&text, f, list && !s->has_index, value);
  od_str_addf(&name, "--set %s", full);
  OD_GO(st, od_str_check(&text));
  OD_GO(st, od_str_check(&name));
  OD_GO(st, od_textproto_value(fresh, f, od_str_text(&name), od_str_text(&text), pos));
  if (s->has_index && od_proto_count(fresh, f) != 1)
    OD_GO(st, od_fail(OD_EINVAL, "--set %s: one element is wanted, not a list of %zu", full, od_proto_count(fresh, f)));
  *out = fresh;
  fresh = NULL;
done:
  od_textpos_forget(pos, fresh);
  od_proto_free(fresh);
  od_str_free(&text);
  od_str_free(&name);
  return st;
}

od_status od_textproto_set(void *message, const char *path, const char *value, od_textpos *pos) {
  if (!*path) return od_fail(OD_EINVAL, "--set: a path is missing, as in --set train_config.batch_size=8");
  /* names and value first, so that a mistake there changes nothing */
  const ProtobufCMessageDescriptor *type = ((ProtobufCMessage *)message)->descriptor, *owner = NULL;
  const ProtobufCFieldDescriptor *f = NULL;
  const char *rest = path;
  step s = {.has_index = false};
  while (*rest) {
    if (f && !type) return od_fail(OD_EINVAL, "--set %s: %s is a single value and has no fields", path, f->name);
    OD_TRY(next_step(&s, &rest, path));
    ProtobufCMessage any = {.descriptor = type};
    OD_TRY(find_field(&f, &any, &s, path));
    owner = type;
    type = f->type == PROTOBUF_C_TYPE_MESSAGE ? f->descriptor : NULL;
  }
  void *m = message, *fresh = NULL;
  OD_TRY(read_value(&fresh, owner, f, &s, path, value, pos));
  od_status st = OD_OK;
  for (rest = path;;) {
    OD_GO(st, next_step(&s, &rest, path));
    OD_GO(st, find_field(&f, m, &s, path));
    if (!*rest) break;
    OD_GO(st, enter(&m, f, &s, path, pos));
  }
  OD_GO(st, assign(m, fresh, f, &s, path, pos));
done:
  od_textpos_forget(pos, fresh);
  od_proto_free(fresh);
  return st;
}
