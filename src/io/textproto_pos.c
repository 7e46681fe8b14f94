/* The side table of places: a hash of (message, field, element) over a plain list; see textproto.h. */
#include <string.h>

#include "base/mem.h"
#include "io/textproto_lex.h"

typedef struct {
  const void *message;
  const ProtobufCFieldDescriptor *field; /* NULL: the block */
  size_t i;
  uint32_t name; /* index into names */
  int line, column;
  bool dead;
} entry;

struct od_textpos {
  entry *entries;
  size_t n, cap;
  uint32_t *slots; /* entry number + 1; 0 is free. A power of two, at most half full */
  size_t n_slots;
  char **names;
  size_t n_names, cap_names;
};

od_status od_textpos_new(od_textpos **out) { return od_new(out, 1, sizeof **out); }

void od_textpos_free(od_textpos *pos) {
  if (!pos) return;
  for (size_t i = 0; i < pos->n_names; i++) od_free(pos->names[i]);
  od_free(pos->names);
  od_free(pos->entries);
  od_free(pos->slots);
  od_free(pos);
}

static size_t slot_of(const od_textpos *pos, const void *message, const ProtobufCFieldDescriptor *field, size_t i) {
  uint64_t h =
      (uint64_t)(uintptr_t)message * 0x9e3779b97f4a7c15u ^ (uint64_t)(uintptr_t)field * 0xbf58476d1ce4e5b9u ^ i;
  h ^= h >> 31;
  h *= 0x94d049bb133111ebu;
  return (size_t)(h ^ (h >> 29)) & (pos->n_slots - 1);
}

static bool same(const entry *e, const void *message, const ProtobufCFieldDescriptor *field, size_t i) {
  return e->message == message && e->field == field && e->i == i;
}

/* The entry, dead ones too, or NULL. */
static entry *find(const od_textpos *pos, const void *message, const ProtobufCFieldDescriptor *field, size_t i) {
  if (!pos->n_slots) return NULL;
  for (size_t s = slot_of(pos, message, field, i); pos->slots[s]; s = (s + 1) & (pos->n_slots - 1)) {
    entry *e = &pos->entries[pos->slots[s] - 1];
    if (same(e, message, field, i)) return e;
  }
  return NULL;
}

static void insert(od_textpos *pos, size_t number) {
  const entry *e = &pos->entries[number];
  size_t s = slot_of(pos, e->message, e->field, e->i);
  while (pos->slots[s]) s = (s + 1) & (pos->n_slots - 1);
  pos->slots[s] = (uint32_t)number + 1;
}

static od_status grow_slots(od_textpos *pos) {
  size_t want = pos->n_slots ? 2 * pos->n_slots : 256;
  uint32_t *slots = od_calloc(want, sizeof *slots);
  if (!slots) return OD_ENOMEM;
  od_free(pos->slots);
  pos->slots = slots;
  pos->n_slots = want;
  for (size_t k = 0; k < pos->n; k++) insert(pos, k);
  return OD_OK;
}

static od_status name_number(od_textpos *pos, const char *name, uint32_t *out) {
  for (size_t i = pos->n_names; i-- > 0;)
    if (strcmp(pos->names[i], name) == 0) {
      *out = (uint32_t)i;
      return OD_OK;
    }
  OD_TRY(od_grow(&pos->names, &pos->cap_names, pos->n_names + 1, sizeof *pos->names));
  if (!(pos->names[pos->n_names] = od_strdup(name))) return OD_ENOMEM;
  *out = (uint32_t)pos->n_names++;
  return OD_OK;
}

od_status od_textpos_put(od_textpos *pos, const void *message, const ProtobufCFieldDescriptor *field, size_t i,
                         const char *name, int line, int column) {
  uint32_t number;
  OD_TRY(name_number(pos, name, &number));
  entry *e = find(pos, message, field, i);
  if (!e) {
    OD_TRY(od_grow(&pos->entries, &pos->cap, pos->n + 1, sizeof *pos->entries));
    if (2 * (pos->n + 1) > pos->n_slots) OD_TRY(grow_slots(pos));
    e = &pos->entries[pos->n];
    *e = (entry){.message = message, .field = field, .i = i};
    insert(pos, pos->n++);
  }
  e->name = number;
  e->line = line;
  e->column = column;
  e->dead = false;
  return OD_OK;
}

bool od_textpos_find(const od_textpos *pos, const void *message, const ProtobufCFieldDescriptor *field, size_t i,
                     od_textplace *out) {
  const entry *e = pos ? find(pos, message, field, i) : NULL;
  if (!e || e->dead) return false;
  *out = (od_textplace){pos->names[e->name], e->line, e->column};
  return true;
}

bool od_textpos_find_name(const od_textpos *pos, const void *message, const char *field, size_t i, od_textplace *out) {
  const ProtobufCFieldDescriptor *f =
      od_proto_field(((const ProtobufCMessage *)message)->descriptor, field, strlen(field));
  return f && od_textpos_find(pos, message, f, i, out);
}

bool od_textpos_block(const od_textpos *pos, const void *message, od_textplace *out) {
  return od_textpos_find(pos, message, NULL, 0, out);
}

void od_textpos_drop(od_textpos *pos, const void *message, const ProtobufCFieldDescriptor *field, size_t i) {
  entry *e = pos ? find(pos, message, field, i) : NULL;
  if (e) e->dead = true;
}

void od_textpos_forget_field(od_textpos *pos, const void *message, const ProtobufCFieldDescriptor *field) {
  if (!pos) return;
  size_t n = od_proto_count(message, field);
  for (size_t i = 0; i < n; i++) {
    od_textpos_drop(pos, message, field, i);
    if (field->type == PROTOBUF_C_TYPE_MESSAGE) od_textpos_forget(pos, *(void *const *)od_proto_at(message, field, i));
  }
  od_textpos_drop(pos, message, field, 0); /* a value that is the zero of proto3 counts as not set, but was */
}

void od_textpos_forget(od_textpos *pos, const void *message) {
  if (!pos || !message) return;
  const ProtobufCMessageDescriptor *type = ((const ProtobufCMessage *)message)->descriptor;
  od_textpos_drop(pos, message, NULL, 0);
  for (unsigned k = 0; k < type->n_fields; k++) od_textpos_forget_field(pos, message, &type->fields[k]);
}
