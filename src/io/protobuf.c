/* Messages by descriptor; see protobuf.h. */
#include "io/protobuf.h"

#include <stdint.h>
#include <string.h>

#include "base/mem.h"

static void *take(void *data, size_t size) {
  (void)data;
  return od_alloc(size);
}

static void give(void *data, void *block) {
  (void)data;
  od_free(block);
}

ProtobufCAllocator *od_proto_allocator(void) {
  static ProtobufCAllocator allocator = {take, give, NULL};
  return &allocator;
}

void *od_proto_new(const ProtobufCMessageDescriptor *type) {
  ProtobufCMessage *m = od_alloc(type->sizeof_message);
  if (m) protobuf_c_message_init(type, m);
  return m;
}

void od_proto_free(void *message) {
  if (message) protobuf_c_message_free_unpacked(message, od_proto_allocator());
}

od_status od_proto_unpack(void *out_message, const ProtobufCMessageDescriptor *type, const void *bytes, size_t size) {
  void *m = protobuf_c_message_unpack(type, od_proto_allocator(), size, bytes);
  memcpy(out_message, &m, sizeof m);
  if (!m)
    return od_fail(OD_EDATA, "%zu bytes are not a %s message (damaged, cut off, or of another type)", size, type->name);
  return OD_OK;
}

od_status od_proto_pack(uint8_t **out_bytes, size_t *out_size, const void *message) {
  size_t size = protobuf_c_message_get_packed_size(message);
  *out_size = 0;
  *out_bytes = od_alloc(size);
  if (!*out_bytes) return OD_ENOMEM;
  *out_size = protobuf_c_message_pack(message, *out_bytes);
  OD_ASSERT(*out_size == size);
  return OD_OK;
}

od_status od_proto_clone(void *out_message, const void *message) {
  uint8_t *bytes;
  size_t size;
  OD_TRY(od_proto_pack(&bytes, &size, message));
  od_status st = od_proto_unpack(out_message, ((const ProtobufCMessage *)message)->descriptor, bytes, size);
  od_free(bytes);
  return st;
}

const char *od_proto_type_name(const ProtobufCMessageDescriptor *type) { return type->short_name; }

const ProtobufCFieldDescriptor *od_proto_field(const ProtobufCMessageDescriptor *type, const char *name, size_t len) {
  for (unsigned i = 0; i < type->n_fields; i++) {
    const char *have = type->fields[i].name;
    if (strncmp(have, name, len) == 0 && !have[len]) return &type->fields[i];
  }
  return NULL;
}

/* ------------------------------------------------------------------------------------------------------------- layout */
static void *member(const void *message, size_t offset) { return (char *)(uintptr_t)message + offset; }

static size_t *counter(const void *message, const ProtobufCFieldDescriptor *f) {
  return member(message, f->quantifier_offset);
}

static bool is_oneof(const ProtobufCFieldDescriptor *f) { return (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0; }

static uint32_t chosen_id(const void *message, const ProtobufCFieldDescriptor *f) {
  uint32_t id;
  memcpy(&id, member(message, f->quantifier_offset), sizeof id);
  return id;
}

size_t od_proto_size(ProtobufCType type) {
  switch (type) {
  case PROTOBUF_C_TYPE_INT64:
  case PROTOBUF_C_TYPE_SINT64:
  case PROTOBUF_C_TYPE_SFIXED64:
  case PROTOBUF_C_TYPE_UINT64:
  case PROTOBUF_C_TYPE_FIXED64:
  case PROTOBUF_C_TYPE_DOUBLE: return 8;
  case PROTOBUF_C_TYPE_BOOL: return sizeof(protobuf_c_boolean);
  case PROTOBUF_C_TYPE_STRING:
  case PROTOBUF_C_TYPE_MESSAGE: return sizeof(void *);
  case PROTOBUF_C_TYPE_BYTES: return sizeof(ProtobufCBinaryData);
  case PROTOBUF_C_TYPE_INT32:
  case PROTOBUF_C_TYPE_SINT32:
  case PROTOBUF_C_TYPE_SFIXED32:
  case PROTOBUF_C_TYPE_UINT32:
  case PROTOBUF_C_TYPE_FIXED32:
  case PROTOBUF_C_TYPE_FLOAT:
  case PROTOBUF_C_TYPE_ENUM: break;
  }
  return 4;
}

/* proto3 fields without presence: set means not zero. */
static bool not_zero(const void *value, const ProtobufCFieldDescriptor *f) {
  static const char zero[sizeof(ProtobufCBinaryData)];
  if (f->type == PROTOBUF_C_TYPE_BYTES) return ((const ProtobufCBinaryData *)value)->len > 0;
  return memcmp(value, zero, od_proto_size(f->type)) != 0;
}

bool od_proto_has(const void *message, const ProtobufCFieldDescriptor *f) {
  const void *value = member(message, f->offset);
  if (f->label == PROTOBUF_C_LABEL_REPEATED) return *counter(message, f) > 0;
  if (is_oneof(f)) return chosen_id(message, f) == f->id;
  if (f->type == PROTOBUF_C_TYPE_MESSAGE) return *(void *const *)value != NULL;
  if (f->type == PROTOBUF_C_TYPE_STRING) {
    const char *text = *(char *const *)value;
    if (!text || text == f->default_value) return false;
    return f->label != PROTOBUF_C_LABEL_NONE || *text;
  }
  if (f->label == PROTOBUF_C_LABEL_OPTIONAL)
    return *(const protobuf_c_boolean *)member(message, f->quantifier_offset) != 0;
  if (f->label == PROTOBUF_C_LABEL_REQUIRED) return true;
  return not_zero(value, f);
}

size_t od_proto_count(const void *message, const ProtobufCFieldDescriptor *f) {
  if (f->label == PROTOBUF_C_LABEL_REPEATED) return *counter(message, f);
  return od_proto_has(message, f) ? 1 : 0;
}

void *od_proto_at(const void *message, const ProtobufCFieldDescriptor *f, size_t i) {
  if (f->label != PROTOBUF_C_LABEL_REPEATED) return member(message, f->offset);
  OD_ASSERT(i < *counter(message, f));
  char *array = *(char **)member(message, f->offset);
  return array + i * od_proto_size(f->type);
}

const ProtobufCFieldDescriptor *od_proto_chosen(const void *message, const ProtobufCFieldDescriptor *f) {
  if (!is_oneof(f)) return od_proto_has(message, f) ? f : NULL;
  uint32_t id = chosen_id(message, f);
  const ProtobufCMessageDescriptor *type = ((const ProtobufCMessage *)message)->descriptor;
  for (unsigned i = 0; i < type->n_fields; i++)
    if (id && type->fields[i].id == id) return &type->fields[i];
  return NULL;
}

/* ------------------------------------------------------------------------------------------------------------- change */
static void free_value(const ProtobufCFieldDescriptor *f, void *value) {
  if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
    od_proto_free(*(void **)value);
  } else if (f->type == PROTOBUF_C_TYPE_STRING) {
    char *text = *(char **)value;
    if (text != f->default_value && text != protobuf_c_empty_string) od_free(text);
  } else if (f->type == PROTOBUF_C_TYPE_BYTES) {
    const ProtobufCBinaryData *d = value, *standard = f->default_value;
    if (!standard || d->data != standard->data) od_free(d->data);
  }
}

void od_proto_clear(void *message, const ProtobufCFieldDescriptor *f) {
  void *value = member(message, f->offset);
  size_t size = od_proto_size(f->type);
  if (f->label == PROTOBUF_C_LABEL_REPEATED) {
    for (size_t i = 0; i < *counter(message, f); i++) free_value(f, od_proto_at(message, f, i));
    od_free(*(void **)value);
    memset(value, 0, sizeof(void *));
    *counter(message, f) = 0;
    return;
  }
  if (is_oneof(f)) {
    const ProtobufCFieldDescriptor *now = od_proto_chosen(message, f);
    if (!now) return;
    free_value(now, value);
    memset(value, 0, od_proto_size(now->type));
    memset(member(message, f->quantifier_offset), 0, sizeof(uint32_t));
    return;
  }
  free_value(f, value);
  memset(value, 0, size);
  if (f->type == PROTOBUF_C_TYPE_STRING) { /* the default of a string is the text itself */
    if (f->default_value) memcpy(value, &f->default_value, sizeof(char *));
    return;
  }
  if (f->default_value && f->type != PROTOBUF_C_TYPE_MESSAGE) memcpy(value, f->default_value, size);
  if (f->label == PROTOBUF_C_LABEL_OPTIONAL && f->type != PROTOBUF_C_TYPE_MESSAGE)
    *(protobuf_c_boolean *)member(message, f->quantifier_offset) = 0;
}

/* Room for one more element. With a known capacity it doubles. */
static od_status append(void **out, void *message, const ProtobufCFieldDescriptor *f, size_t *cap) {
  size_t size = od_proto_size(f->type), n = *counter(message, f);
  void **array = member(message, f->offset);
  if (*cap <= n) {
    size_t want = *cap ? 2 * *cap : n + 1, bytes;
    if (!od_mul_ok(&bytes, want, size)) return od_fail(OD_ENOMEM, "out of memory: %zu elements of %s", want, f->name);
    void *grown = od_realloc(*array, bytes);
    if (!grown) return OD_ENOMEM;
    *array = grown;
    *cap = want;
  }
  *out = (char *)*array + n * size;
  memset(*out, 0, size);
  return OD_OK;
}

od_status od_proto_add(void **out_value, void *message, const ProtobufCFieldDescriptor *f, size_t *cap) {
  void *child = NULL;
  if (f->type == PROTOBUF_C_TYPE_MESSAGE && !(child = od_proto_new(f->descriptor))) return OD_ENOMEM;
  if (f->label == PROTOBUF_C_LABEL_REPEATED) {
    od_status st = append(out_value, message, f, cap);
    if (st != OD_OK) {
      od_proto_free(child);
      return st;
    }
    ++*counter(message, f);
  } else {
    od_proto_clear(message, f);
    *out_value = member(message, f->offset);
    memset(*out_value, 0, od_proto_size(f->type));
    if (is_oneof(f))
      memcpy(member(message, f->quantifier_offset), &f->id, sizeof f->id);
    else if (f->label == PROTOBUF_C_LABEL_OPTIONAL && f->type != PROTOBUF_C_TYPE_MESSAGE &&
             f->type != PROTOBUF_C_TYPE_STRING)
      *(protobuf_c_boolean *)member(message, f->quantifier_offset) = 1;
  }
  if (child) memcpy(*out_value, &child, sizeof child);
  return OD_OK;
}

void od_proto_drop_last(void *message, const ProtobufCFieldDescriptor *f) {
  size_t n = *counter(message, f);
  OD_ASSERT(f->label == PROTOBUF_C_LABEL_REPEATED && n > 0);
  free_value(f, od_proto_at(message, f, n - 1));
  *counter(message, f) = n - 1;
}

void od_proto_move(void *to, void *from, const ProtobufCFieldDescriptor *f) {
  od_proto_clear(to, f);
  if (!od_proto_has(from, f)) return;
  void *value = member(from, f->offset);
  if (f->label == PROTOBUF_C_LABEL_REPEATED) {
    memcpy(member(to, f->offset), value, sizeof(void *));
    *counter(to, f) = *counter(from, f);
    memset(value, 0, sizeof(void *));
    *counter(from, f) = 0;
    return;
  }
  memcpy(member(to, f->offset), value, od_proto_size(f->type));
  memset(value, 0, od_proto_size(f->type)); /* no longer owned: clearing must not free it */
  if (is_oneof(f))
    memcpy(member(to, f->quantifier_offset), &f->id, sizeof f->id);
  else if (f->label == PROTOBUF_C_LABEL_OPTIONAL && f->type != PROTOBUF_C_TYPE_MESSAGE &&
           f->type != PROTOBUF_C_TYPE_STRING)
    *(protobuf_c_boolean *)member(to, f->quantifier_offset) = 1;
  od_proto_clear(from, f);
}

bool od_proto_is_map(const ProtobufCMessageDescriptor *type, const ProtobufCFieldDescriptor *f) {
  if (f->label != PROTOBUF_C_LABEL_REPEATED || f->type != PROTOBUF_C_TYPE_MESSAGE) return false;
  const ProtobufCMessageDescriptor *entry = f->descriptor;
  if (entry->n_fields != 2 || strcmp(entry->fields[0].name, "key") != 0 || strcmp(entry->fields[1].name, "value") != 0)
    return false;
  size_t len = strlen(type->name);
  if (strncmp(entry->name, type->name, len) != 0 || entry->name[len] != '.') return false;
  const char *name = entry->name + len + 1; /* field_name becomes FieldNameEntry */
  bool upper = true;
  for (const char *p = f->name; *p; p++) {
    if (*p == '_') {
      upper = true;
      continue;
    }
    char want = (upper && *p >= 'a' && *p <= 'z') ? (char)(*p - 'a' + 'A') : *p;
    if (*name++ != want) return false;
    upper = false;
  }
  return strcmp(name, "Entry") == 0;
}
