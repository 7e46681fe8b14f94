/* The parser of the text format; see textproto.h. Recursive descent over the descriptors, one block a level. */
#include "io/textproto.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "io/file.h"
#include "io/textproto_lex.h"

enum {
  DEPTH_MAX = 100,   /* blocks within blocks; configs need 12, protobuf's own limit is 100 */
  ONEOFS_MAX = 4,    /* oneofs in one message; the schemas have one at most */
  FILE_MAX = 1 << 30 /* bytes of a text file: a graph.pbtxt with weights has hundreds of megabytes */
};

/* A block being read. */
typedef struct block {
  struct block *up;
  ProtobufCMessage *message;
  const char *name; /* of its field; NULL outside */
  od_tok open;      /* the field's name in the text */
  int depth;
  const ProtobufCFieldDescriptor *chosen[ONEOFS_MAX]; /* members of oneofs set between these very braces */
  int n_chosen;
  const ProtobufCFieldDescriptor *last; /* the repeated field that grew last, and its capacity */
  size_t cap;
} block;

typedef struct {
  od_lex lex;
  od_textpos *set;   /* what this text has set: doubles are errors */
  od_textpos *user;  /* the caller's table, or NULL */
  char lacking[128]; /* the first block that by its indentation was never closed */
} parser;

/* --------------------------------------------------------------------------------------------------------- explaining */
const char *od_textproto_near(const ProtobufCMessageDescriptor *type, const char *word) {
  enum { MANY = 128 };
  const char *names[MANY];
  size_t n = 0;
  for (unsigned i = 0; i < type->n_fields && n < MANY; i++) names[n++] = type->fields[i].name;
  return od_did_you_mean(word, names, n);
}

/* Adds the paths of exactly `deep` steps from type to a field of that name, for "belongs inside". */
static void find_inside(const ProtobufCMessageDescriptor *type, const char *word, int deep, const char *path,
                        od_str *out) {
  for (unsigned i = 0; i < type->n_fields && out->len < 100; i++) {
    const ProtobufCFieldDescriptor *f = &type->fields[i];
    if (f->type != PROTOBUF_C_TYPE_MESSAGE) continue;
    char inner[256];
    snprintf(inner, sizeof inner, "%s%s%s", path, *path ? "." : "", f->name);
    if (deep > 1)
      find_inside(f->descriptor, word, deep - 1, inner, out);
    else if (od_proto_field(f->descriptor, word, strlen(word)))
      od_str_addf(out, "%s%s", out->len ? " or " : "", inner);
  }
}

static void tok_text(const od_tok *t, char *out, size_t size) {
  snprintf(out, size, "%.*s", t->len < 200 ? (int)t->len : 200, t->start);
}

static od_status unknown_field(const parser *p, const block *b, const od_tok *t) {
  char word[256], cause[256];
  tok_text(t, word, sizeof word);
  const char *type = od_proto_type_name(b->message->descriptor);
  for (const block *up = b->up; up; up = up->up) {
    if (!od_proto_field(up->message->descriptor, word, t->len)) continue;
    if (p->lacking[0])
      snprintf(cause, sizeof cause, "by the indentation the } of %s is missing", p->lacking);
    else
      snprintf(cause, sizeof cause, "a } is missing before it: '%s', opened at line %d, is still open", b->name,
               b->open.line);
    return od_lex_fail(&p->lex, t, cause, "%s has no field '%s', but %s, which encloses it, has", type, word,
                       od_proto_type_name(up->message->descriptor));
  }
  od_str inside = OD_STR_INIT;
  for (int deep = 1; deep <= 3 && !inside.len; deep++) find_inside(b->message->descriptor, word, deep, "", &inside);
  od_status st = OD_OK;
  if (inside.len)
    st = od_lex_fail(&p->lex, t, NULL, "%s has no field '%s': it belongs inside %s", type, word, od_str_text(&inside));
  od_str_free(&inside);
  if (st != OD_OK) return st;
  const char *near = od_textproto_near(b->message->descriptor, word);
  if (near) return od_lex_fail(&p->lex, t, NULL, "%s has no field '%s'; did you mean '%s'?", type, word, near);
  return od_lex_fail(&p->lex, t, NULL, "%s has no field '%s'", type, word);
}

/* At the end of the text inside a block: the place to show is where it was opened. */
static od_status never_closed(const parser *p, const block *b) {
  char cause[200];
  snprintf(cause, sizeof cause, "by the indentation the } of %s is missing", p->lacking);
  return od_lex_fail(&p->lex, &b->open, p->lacking[0] ? cause : NULL,
                     "the block '%s' opened here is never closed: the text ends at line %d without its }", b->name,
                     p->lex.tok.line);
}

/* A } that stands further left than the line that opened its block closes another block in the writer's mind. */
static void note_indentation(parser *p, const block *b) {
  const od_tok *t = &p->lex.tok;
  const char *q = t->line_start;
  while (*q == ' ' || *q == '\t') q++;
  if (q != t->start || p->lacking[0]) return;
  const char *o = b->open.line_start;
  while (*o == ' ' || *o == '\t') o++;
  if (q - t->line_start < o - b->open.line_start)
    snprintf(p->lacking, sizeof p->lacking, "'%s' (line %d)", b->name, b->open.line);
}

static od_status twice(const parser *p, const block *b, const ProtobufCFieldDescriptor *f, const od_tok *t, int line) {
  return od_lex_fail(&p->lex, t, NULL, "%s of %s is set twice: at line %d and here at line %d", f->name,
                     od_proto_type_name(b->message->descriptor), line, t->line);
}

static od_status two_of_oneof(const parser *p, const block *b, const ProtobufCFieldDescriptor *now,
                              const ProtobufCFieldDescriptor *f, const od_tok *t, int line) {
  char hint[256] = "";
  if (b->up) { /* a list of choices wants one block each */
    const ProtobufCFieldDescriptor *own = od_proto_field(b->up->message->descriptor, b->name, strlen(b->name));
    if (own && own->label == PROTOBUF_C_LABEL_REPEATED)
      snprintf(hint, sizeof hint, "; write a second %s { ... } for it", b->name);
  }
  return od_lex_fail(&p->lex, t, NULL, "%s holds only one of these: '%s' at line %d and '%s' here at line %d%s",
                     od_proto_type_name(b->message->descriptor), now->name, line, f->name, t->line, hint);
}

/* ------------------------------------------------------------------------------------------------------------ reading */
static od_status record(parser *p, const void *message, const ProtobufCFieldDescriptor *f, size_t i, const od_tok *t) {
  OD_TRY(od_textpos_put(p->set, message, f, i, p->lex.name, t->line, od_tok_column(t)));
  if (p->user) OD_TRY(od_textpos_put(p->user, message, f, i, p->lex.name, t->line, od_tok_column(t)));
  return OD_OK;
}

static void forget(parser *p, const void *message, const ProtobufCFieldDescriptor *f) {
  od_textpos_forget_field(p->set, message, f);
  od_textpos_forget_field(p->user, message, f);
}

/* Two members of one oneof, or the same scalar twice in this text. What an earlier text set gives way. */
static od_status check_free(parser *p, block *b, const ProtobufCFieldDescriptor *f, const od_tok *t) {
  if (f->label == PROTOBUF_C_LABEL_REPEATED) return OD_OK;
  od_textplace place;
  const ProtobufCFieldDescriptor *now = od_proto_chosen(b->message, f);
  if (now && now != f) {
    if (od_textpos_find(p->set, b->message, now, 0, &place)) return two_of_oneof(p, b, now, f, t, place.line);
    forget(p, b->message, now);
    od_proto_clear(b->message, now);
  }
  if (!od_textpos_find(p->set, b->message, f, 0, &place)) return OD_OK;
  if (f->type != PROTOBUF_C_TYPE_MESSAGE) return twice(p, b, f, t, place.line);
  for (int i = 0; i < b->n_chosen; i++)
    if (b->chosen[i] == f) return two_of_oneof(p, b, f, f, t, place.line);
  return OD_OK; /* a block given twice is merged */
}

static od_status add(block *b, const ProtobufCFieldDescriptor *f, void **out) {
  if (b->last != f) {
    b->last = f;
    b->cap = 0;
  }
  return od_proto_add(out, b->message, f, &b->cap);
}

static od_status read_scalar(parser *p, block *b, const ProtobufCFieldDescriptor *f, const od_tok *at) {
  union {
    ProtobufCBinaryData bytes;
    char *text;
    char room[16];
  } value;
  memset(&value, 0, sizeof value);
  OD_TRY(check_free(p, b, f, at));
  OD_TRY(od_lex_scalar(&p->lex, f, &value));
  void *to;
  od_status st = add(b, f, &to);
  if (st != OD_OK) {
    if (f->type == PROTOBUF_C_TYPE_STRING) od_free(value.text);
    if (f->type == PROTOBUF_C_TYPE_BYTES) od_free(value.bytes.data);
    return st;
  }
  memcpy(to, &value, od_proto_size(f->type));
  bool list = f->label == PROTOBUF_C_LABEL_REPEATED;
  if (list && !p->user) return OD_OK; /* elements cannot be doubles: nobody asks for their places */
  return record(p, b->message, f, list ? od_proto_count(b->message, f) - 1 : 0, at);
}

static od_status read_fields(parser *p, block *b, char close);

/* The same key again: from this text an error, from an earlier one a replacement. */
static od_status check_key(parser *p, block *b, const ProtobufCFieldDescriptor *f, const od_tok *at) {
  size_t n = od_proto_count(b->message, f);
  ProtobufCMessage **entries = od_proto_at(b->message, f, 0);
  const ProtobufCFieldDescriptor *key = &((const ProtobufCMessageDescriptor *)f->descriptor)->fields[0];
  const void *mine = od_proto_at(entries[n - 1], key, 0);
  for (size_t i = 0; i + 1 < n; i++) {
    const void *other = od_proto_at(entries[i], key, 0);
    bool equal = key->type == PROTOBUF_C_TYPE_STRING ? strcmp(*(char *const *)mine, *(char *const *)other) == 0
                                                     : memcmp(mine, other, od_proto_size(key->type)) == 0;
    if (!equal) continue;
    od_textplace place;
    if (od_textpos_block(p->set, entries[i], &place))
      return od_lex_fail(&p->lex, at, NULL, "the same key stands twice in the map %s: at line %d and here at line %d",
                         f->name, place.line, at->line);
    ProtobufCMessage *old = entries[i];
    entries[i] = entries[n - 1];
    entries[n - 1] = old;
    od_textpos_forget(p->user, old);
    od_proto_drop_last(b->message, f);
    return record(p, b->message, f, i, at);
  }
  return OD_OK;
}

static od_status read_block(parser *p, block *b, const ProtobufCFieldDescriptor *f, const od_tok *name,
                            const od_tok *at) {
  char close = od_lex_is(&p->lex, '<') ? '>' : '}';
  if (!od_lex_is(&p->lex, '{') && close == '}')
    return od_lex_fail(&p->lex, &p->lex.tok, NULL, "%s is a block: expected { after it, here is %s", f->name,
                       od_tok_show(&p->lex.tok));
  if (b->depth >= DEPTH_MAX)
    return od_lex_fail(&p->lex, name, NULL, "more than %d blocks within one another", DEPTH_MAX);
  OD_TRY(check_free(p, b, f, at));
  void *to;
  bool list = f->label == PROTOBUF_C_LABEL_REPEATED;
  bool fresh = list || !od_proto_has(b->message, f);
  if (fresh)
    OD_TRY(add(b, f, &to));
  else
    to = od_proto_at(b->message, f, 0);
  block inner = {.up = b, .message = *(ProtobufCMessage **)to, .name = f->name, .open = *name, .depth = b->depth + 1};
  OD_TRY(record(p, b->message, f, list ? od_proto_count(b->message, f) - 1 : 0, at));
  OD_TRY(record(p, inner.message, NULL, 0, at));
  if ((f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) && b->n_chosen < ONEOFS_MAX) b->chosen[b->n_chosen++] = f;
  OD_TRY(od_lex_next(&p->lex));
  OD_TRY(read_fields(p, &inner, close));
  if (od_proto_is_map(b->message->descriptor, f)) OD_TRY(check_key(p, b, f, at));
  return OD_OK;
}

static od_status read_value(parser *p, block *b, const ProtobufCFieldDescriptor *f, const od_tok *name,
                            const od_tok *at) {
  if (f->type == PROTOBUF_C_TYPE_MESSAGE) return read_block(p, b, f, name, at);
  const od_tok *t = &p->lex.tok;
  if (od_lex_is(&p->lex, '{') || od_lex_is(&p->lex, '<'))
    return od_lex_fail(&p->lex, t, NULL, "%s is a single value, not a block", f->name);
  if (od_lex_is(&p->lex, '[')) return od_lex_fail(&p->lex, t, NULL, "%s holds one value, not a list", f->name);
  if (t->kind == OD_TOK_END) return od_lex_fail(&p->lex, name, NULL, "the text ends before the value of %s", f->name);
  return read_scalar(p, b, f, at);
}

static od_status read_list(parser *p, block *b, const ProtobufCFieldDescriptor *f, const od_tok *name) {
  od_tok open = p->lex.tok;
  OD_TRY(od_lex_next(&p->lex));
  if (od_lex_is(&p->lex, ']')) return od_lex_next(&p->lex);
  for (;;) {
    od_tok at = p->lex.tok;
    if (at.kind == OD_TOK_END)
      return od_lex_fail(&p->lex, &open, NULL, "the list opened here is never closed: ] is missing");
    OD_TRY(read_value(p, b, f, name, &at));
    if (od_lex_is(&p->lex, ']')) return od_lex_next(&p->lex);
    if (!od_lex_is(&p->lex, ','))
      return od_lex_fail(&p->lex, &p->lex.tok, NULL, "the list %s (line %d) goes on with , or ends with ], here is %s",
                         f->name, open.line, od_tok_show(&p->lex.tok));
    OD_TRY(od_lex_next(&p->lex));
  }
}

static od_status read_colon(parser *p, const ProtobufCFieldDescriptor *f) {
  const od_tok *t = &p->lex.tok;
  if (od_lex_is(&p->lex, ':')) return od_lex_next(&p->lex);
  if (od_lex_is(&p->lex, '=')) return od_lex_fail(&p->lex, t, NULL, "write : instead of = after %s", f->name);
  if (f->type == PROTOBUF_C_TYPE_MESSAGE) return OD_OK;
  if (od_lex_is(&p->lex, '{') || od_lex_is(&p->lex, '<'))
    return od_lex_fail(&p->lex, t, NULL, "%s is a single value, not a block", f->name);
  return od_lex_fail(&p->lex, t, NULL, "expected : after %s, here is %s", f->name, od_tok_show(t));
}

static od_status end_field(parser *p) {
  if (od_lex_is(&p->lex, ',') || od_lex_is(&p->lex, ';')) return od_lex_next(&p->lex);
  return OD_OK;
}

/* Fields of 2017's and 2018's schema that later became others. Both are truth values: `when` makes the new field true or 1,
 * the other value is its default. */
static const struct {
  const char *type, *name, *now;
  int up; /* levels up to the block that has the new field */
  bool when;
} old_fields[] = {
    {"FasterRcnn", "first_stage_only", "number_of_stages", 0, true},
    {"SsdFeatureExtractor", "batch_norm_trainable", "freeze_batchnorm", 1, false},
};

/* Reads such a field; *known tells whether it was one. */
static od_status read_old_field(parser *p, block *b, bool *known) {
  od_tok name = p->lex.tok;
  const ProtobufCFieldDescriptor truth = {.name = "the old field", .type = PROTOBUF_C_TYPE_BOOL};
  *known = false;
  for (size_t i = 0; i < sizeof old_fields / sizeof *old_fields; i++) {
    if (strcmp(od_proto_type_name(b->message->descriptor), old_fields[i].type) != 0) continue;
    if (!od_tok_equals(&name, old_fields[i].name)) continue;
    block *owner = b;
    for (int k = 0; k < old_fields[i].up && owner; k++) owner = owner->up;
    if (!owner) return OD_OK; /* the inner message is read on its own: no place for the new field */
    const ProtobufCFieldDescriptor *f =
        od_proto_field(owner->message->descriptor, old_fields[i].now, strlen(old_fields[i].now));
    OD_ASSERT(f);
    protobuf_c_boolean value;
    void *to;
    OD_TRY(od_lex_next(&p->lex));
    OD_TRY(read_colon(p, &truth));
    OD_TRY(od_lex_scalar(&p->lex, &truth, &value));
    *known = true;
    if ((value != 0) != old_fields[i].when) return OD_OK;
    OD_TRY(check_free(p, owner, f, &name));
    OD_TRY(add(owner, f, &to));
    *(int32_t *)to = 1; /* a truth value or an int32: protobuf-c holds both in an int */
    return record(p, owner->message, f, 0, &name);
  }
  return OD_OK;
}

/* One field from its name on. */
static od_status read_field(parser *p, block *b) {
  od_tok name = p->lex.tok;
  if (od_lex_is(&p->lex, '['))
    return od_lex_fail(&p->lex, &name, NULL, "extensions ([name]) are not supported: %s has none here",
                       od_proto_type_name(b->message->descriptor));
  if (name.kind == OD_TOK_STRING)
    return od_lex_fail(&p->lex, &name, NULL, "expected the name of a field, here is a text in quotes");
  if (name.kind != OD_TOK_NAME)
    return od_lex_fail(&p->lex, &name, NULL, "expected the name of a field of %s, here is %s",
                       od_proto_type_name(b->message->descriptor), od_tok_show(&name));
  const ProtobufCFieldDescriptor *f = od_proto_field(b->message->descriptor, name.start, name.len);
  if (!f) {
    bool known;
    OD_TRY(read_old_field(p, b, &known));
    if (!known) return unknown_field(p, b, &name);
    return end_field(p);
  }
  OD_TRY(od_lex_next(&p->lex));
  OD_TRY(read_colon(p, f));
  if (f->label == PROTOBUF_C_LABEL_REPEATED && od_lex_is(&p->lex, '['))
    OD_TRY(read_list(p, b, f, &name));
  else
    OD_TRY(read_value(p, b, f, &name, &name));
  return end_field(p);
}

/* Fields up to the closing mark (0: the end of the text). */
static od_status read_fields(parser *p, block *b, char close) {
  for (;;) {
    const od_tok *t = &p->lex.tok;
    if (t->kind == OD_TOK_END) return close ? never_closed(p, b) : OD_OK;
    if (od_lex_is(&p->lex, '}') || od_lex_is(&p->lex, '>')) {
      if (!close) {
        char cause[64];
        snprintf(cause, sizeof cause, "a block above was closed once too often");
        return od_lex_fail(&p->lex, t, cause, "a %c without a block to close", *t->start);
      }
      if (*t->start != close)
        return od_lex_fail(&p->lex, t, NULL, "'%s' (line %d) is closed with %c, here is %c", b->name, b->open.line,
                           close, *t->start);
      note_indentation(p, b);
      return od_lex_next(&p->lex);
    }
    OD_TRY(read_field(p, b));
  }
}

/* ------------------------------------------------------------------------------------------------------------- public */
od_status od_textproto_merge(void *message, const char *name, const char *text, size_t len, od_textpos *pos) {
  parser p = {.user = pos};
  block b = {.message = message};
  od_status st = od_textpos_new(&p.set);
  if (st == OD_OK) st = od_lex_begin(&p.lex, name, text, len);
  if (st == OD_OK) st = read_fields(&p, &b, 0);
  od_textpos_free(p.set);
  return st;
}

od_status od_textproto_parse(void *out_message, const ProtobufCMessageDescriptor *type, const char *name,
                             const char *text, size_t len, od_textpos *pos) {
  void *m = NULL;
  memcpy(out_message, &m, sizeof m);
  if (!(m = od_proto_new(type))) return OD_ENOMEM;
  od_status st = od_textproto_merge(m, name, text, len, pos);
  if (st == OD_OK) {
    memcpy(out_message, &m, sizeof m);
  } else {
    od_textpos_forget(pos, m);
    od_proto_free(m);
  }
  return st;
}

od_status od_textproto_load(void *out_message, const ProtobufCMessageDescriptor *type, const char *path,
                            od_textpos *pos) {
  void *none = NULL;
  memcpy(out_message, &none, sizeof none);
  char *text = NULL;
  size_t size = 0;
  OD_TRY(od_file_read_all(&text, &size, path, FILE_MAX));
  od_status st = od_textproto_parse(out_message, type, path, text, size, pos);
  od_free(text);
  return st;
}

od_status od_textproto_value(void *message, const ProtobufCFieldDescriptor *field, const char *name, const char *text,
                             od_textpos *pos) {
  parser p = {.user = pos};
  block b = {.message = message};
  od_status st = od_textpos_new(&p.set);
  if (st == OD_OK) st = od_lex_begin(&p.lex, name, text, strlen(text));
  if (st == OD_OK && p.lex.tok.kind == OD_TOK_END) st = od_fail(OD_EINVAL, "%s: a value is missing", name);
  if (st == OD_OK) {
    od_tok at = p.lex.tok;
    bool list = field->label == PROTOBUF_C_LABEL_REPEATED && od_lex_is(&p.lex, '[');
    st = list ? read_list(&p, &b, field, &at) : read_value(&p, &b, field, &at, &at);
  }
  if (st == OD_OK && p.lex.tok.kind != OD_TOK_END)
    st = od_lex_fail(&p.lex, &p.lex.tok, NULL, "%s goes on after its value: %s", field->name, od_tok_show(&p.lex.tok));
  od_textpos_free(p.set);
  return st;
}
