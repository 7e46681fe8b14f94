/* Parsing and building tf.train.Example, see example.h.
 *
 * Example{1 features: Features{1 map entry{1 key, 2 Feature{1 bytes_list{1}, 2 float_list{1}, 3 int64_list{1}}}}} (TensorFlow's
 * example.proto and feature.proto). */
#include "io/example.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "io/wire.h"

enum { MAX_FEATURES = 4096, NAME_SHOWN = 80 };

const char *od_feature_kind_name(od_feature_kind kind) {
  static const char *const names[] = {"none", "bytes", "float", "int64"};
  return (unsigned)kind < 4 ? names[kind] : "unknown";
}

/* ------------------------------------------------------------------------------------------------------------ lists */
/* Walks the elements of a Feature's lists of one kind; each call gives one field of the list message, a packed run or one
 * element. */
typedef struct {
  od_wire feature, list;
  od_feature_kind kind;
} list_walk;

static list_walk walk_over(od_view lists, od_feature_kind kind) {
  return (list_walk){.feature = od_wire_over(lists), .kind = kind};
}

static bool walk_next(list_walk *w, od_wire_field *f) {
  for (;;) {
    while (od_wire_next(&w->list, f))
      if (f->number == 1) return true;
    if (w->list.bad || !od_wire_next(&w->feature, f)) return false;
    if (od_wire_is(f, (uint32_t)w->kind, OD_WIRE_BYTES)) w->list = od_wire_over(f->bytes);
  }
}

/* Number of elements in one field; false when it is damaged. A field of an unexpected wire type is unknown, thus nothing. */
static bool field_count(const od_wire_field *f, od_feature_kind kind, size_t *n) {
  *n = 0;
  if (kind == OD_FEATURE_BYTES) {
    *n = f->type == OD_WIRE_BYTES;
  } else if (kind == OD_FEATURE_FLOAT) {
    if (f->type == OD_WIRE_FIXED32) *n = 1;
    if (f->type == OD_WIRE_BYTES) *n = f->bytes.size / 4;
    return f->type != OD_WIRE_BYTES || f->bytes.size % 4 == 0;
  } else {
    if (f->type == OD_WIRE_VARINT) *n = 1;
    if (f->type != OD_WIRE_BYTES) return true;
    uint64_t v;
    od_wire w = od_wire_over(f->bytes);
    while (w.at < w.end && od_wire_varint(&v, &w)) (*n)++;
    return !w.bad;
  }
  return true;
}

/* ------------------------------------------------------------------------------------------------------------ parsing */
static int shown(od_view key) { return (int)(key.size < NAME_SHOWN ? key.size : NAME_SHOWN); }

/* Finds the kind that counts (a oneof: the last one set) and where its lists begin, and counts its elements. */
static od_status parse_feature(od_feature *f, od_view bytes) {
  od_wire w = od_wire_over(bytes);
  od_wire_field field;
  const uint8_t *begin = bytes.data;
  f->kind = OD_FEATURE_NONE;
  for (const uint8_t *at = w.at; od_wire_next(&w, &field); at = w.at) {
    if (field.type != OD_WIRE_BYTES || field.number > 3) continue;
    if (f->kind != (od_feature_kind)field.number) begin = at;
    f->kind = (od_feature_kind)field.number;
  }
  f->lists = (od_view){begin, bytes.size - (size_t)(begin - bytes.data)};
  f->count = 0;
  if (w.bad) return od_fail(OD_EDATA, "feature '%.*s' is damaged", shown(f->key), (const char *)f->key.data);
  if (f->kind == OD_FEATURE_NONE) return OD_OK;
  list_walk lists = walk_over(f->lists, f->kind);
  bool fine = true;
  while (fine && walk_next(&lists, &field)) {
    size_t n;
    fine = field_count(&field, f->kind, &n);
    f->count += n;
  }
  if (fine && !lists.list.bad && !lists.feature.bad) return OD_OK;
  return od_fail(OD_EDATA, "the %s list of feature '%.*s' is damaged", od_feature_kind_name(f->kind), shown(f->key),
                 (const char *)f->key.data);
}

static bool same_key(od_view a, od_view b) {
  return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static od_status parse_entry(od_example *ex, od_view bytes) {
  od_wire w = od_wire_over(bytes);
  od_wire_field field;
  od_feature f = {0};
  od_view value = {0};
  static const uint8_t none;
  f.key.data = &none;
  while (od_wire_next(&w, &field)) {
    if (od_wire_is(&field, 1, OD_WIRE_BYTES)) f.key = field.bytes;
    if (od_wire_is(&field, 2, OD_WIRE_BYTES)) value = field.bytes;
  }
  if (w.bad) return od_fail(OD_EDATA, "map entry %zu is damaged", ex->count);
  if (value.data) OD_TRY(parse_feature(&f, value));
  size_t i = 0;
  while (i < ex->count && !same_key(ex->features[i].key, f.key)) i++;
  if (i == ex->count) {
    if (i == MAX_FEATURES) return od_fail(OD_EDATA, "it has more than %d keys", (int)MAX_FEATURES);
    OD_TRY(od_grow(&ex->features, &ex->cap, i + 1, sizeof *ex->features));
    ex->count++;
  }
  ex->features[i] = f;
  return OD_OK;
}

static od_status parse_example(od_example *ex, od_view all) {
  od_wire w = od_wire_over(all);
  od_wire_field field, entry;
  while (od_wire_next(&w, &field)) {
    if (!od_wire_is(&field, 1, OD_WIRE_BYTES)) continue;
    od_wire map = od_wire_over(field.bytes);
    for (const uint8_t *at = map.at; od_wire_next(&map, &entry); at = map.at)
      if (od_wire_is(&entry, 1, OD_WIRE_BYTES))
        OD_TRY(od_fail_context(parse_entry(ex, entry.bytes), "tf.Example, byte %zu", (size_t)(at - all.data)));
    if (map.bad) return od_fail(OD_EDATA, "tf.Example: its map of features is damaged behind entry %zu", ex->count);
  }
  if (w.bad) return od_fail(OD_EDATA, "these %zu bytes are no tf.Example", all.size);
  return OD_OK;
}

od_status od_example_parse(od_example *ex, const void *data, size_t size) {
  if (!ex->arena) OD_TRY(od_arena_new(&ex->arena));
  od_arena_reset(ex->arena);
  ex->count = 0;
  od_status st = parse_example(ex, (od_view){data, size});
  if (st) ex->count = 0;
  return st;
}

void od_example_free(od_example *ex) {
  od_free(ex->features);
  od_arena_free(ex->arena);
  *ex = OD_EXAMPLE_INIT;
}

/* ------------------------------------------------------------------------------------------------------------ getters */
const od_feature *od_example_find(const od_example *ex, const char *key) {
  for (size_t i = 0; i < ex->count; i++)
    if (od_view_is(ex->features[i].key, key)) return &ex->features[i];
  return NULL;
}

/* Sets *f to the feature when it has elements of this kind, else to NULL. */
static od_status find_kind(const od_feature **f, const od_example *ex, const char *key, od_feature_kind kind) {
  const od_feature *found = od_example_find(ex, key);
  *f = found && found->kind != OD_FEATURE_NONE && found->count > 0 ? found : NULL;
  if (!*f || found->kind == kind) return OD_OK;
  return od_fail(OD_EDATA, "feature '%s' is a list of %s, %s was expected", key, od_feature_kind_name(found->kind),
                 od_feature_kind_name(kind));
}

od_status od_example_get_floats(od_example *ex, const char *key, const float **out, size_t *count) {
  const od_feature *f;
  od_wire_field field;
  *out = NULL;
  *count = 0;
  OD_TRY(find_kind(&f, ex, key, OD_FEATURE_FLOAT));
  if (!f) return OD_OK;
  float *to = od_arena_alloc(ex->arena, f->count * sizeof *to);
  if (!to) return OD_ENOMEM;
  size_t n = 0;
  list_walk w = walk_over(f->lists, f->kind);
  while (walk_next(&w, &field)) {
    if (field.type == OD_WIRE_FIXED32) to[n++] = od_wire_float(&field);
    if (field.type != OD_WIRE_BYTES) continue;
    for (size_t i = 0; i + 4 <= field.bytes.size; i += 4) {
      uint32_t bits = od_load_u32(field.bytes.data + i);
      memcpy(&to[n++], &bits, sizeof bits);
    }
  }
  *out = to;
  *count = n;
  return OD_OK;
}

od_status od_example_get_int64s(od_example *ex, const char *key, const int64_t **out, size_t *count) {
  const od_feature *f;
  od_wire_field field;
  *out = NULL;
  *count = 0;
  OD_TRY(find_kind(&f, ex, key, OD_FEATURE_INT64));
  if (!f) return OD_OK;
  int64_t *to = od_arena_alloc(ex->arena, f->count * sizeof *to);
  if (!to) return OD_ENOMEM;
  size_t n = 0;
  list_walk w = walk_over(f->lists, f->kind);
  while (walk_next(&w, &field)) {
    uint64_t v;
    if (field.type == OD_WIRE_VARINT) to[n++] = (int64_t)field.value;
    if (field.type != OD_WIRE_BYTES) continue;
    od_wire run = od_wire_over(field.bytes);
    while (run.at < run.end && od_wire_varint(&v, &run)) to[n++] = (int64_t)v;
  }
  *out = to;
  *count = n;
  return OD_OK;
}

od_status od_example_get_bytes(od_example *ex, const char *key, const od_view **out, size_t *count) {
  const od_feature *f;
  od_wire_field field;
  *out = NULL;
  *count = 0;
  OD_TRY(find_kind(&f, ex, key, OD_FEATURE_BYTES));
  if (!f) return OD_OK;
  od_view *to = od_arena_alloc(ex->arena, f->count * sizeof *to);
  if (!to) return OD_ENOMEM;
  size_t n = 0;
  list_walk w = walk_over(f->lists, f->kind);
  while (walk_next(&w, &field))
    if (field.type == OD_WIRE_BYTES) to[n++] = field.bytes;
  *out = to;
  *count = n;
  return OD_OK;
}

od_status od_example_get_int64(od_example *ex, const char *key, int64_t *out, int64_t otherwise) {
  const int64_t *v;
  size_t n;
  *out = otherwise;
  OD_TRY(od_example_get_int64s(ex, key, &v, &n));
  if (n > 0) *out = v[0];
  return OD_OK;
}

od_status od_example_get_text(od_example *ex, const char *key, od_view *out, const char *otherwise) {
  const od_view *v;
  size_t n;
  *out = (od_view){(const uint8_t *)otherwise, strlen(otherwise)};
  OD_TRY(od_example_get_bytes(ex, key, &v, &n));
  if (n > 0) *out = v[0];
  return OD_OK;
}

/* ------------------------------------------------------------------------------------------------------------ building */
typedef struct {
  const char *key;
  od_str value; /* the serialized Feature */
} entry;

struct od_example_builder {
  entry *entries; /* the first `count` in use; the others keep their memory */
  size_t count, cap, made;
  od_arena *keys;
  bool failed;
};

od_status od_example_builder_new(od_example_builder **out) {
  OD_TRY(od_new(out, 1, sizeof **out));
  od_status st = od_arena_new(&(*out)->keys);
  if (st) {
    od_free(*out);
    *out = NULL;
  }
  return st;
}

void od_example_builder_free(od_example_builder *b) {
  if (!b) return;
  for (size_t i = 0; i < b->made; i++) od_str_free(&b->entries[i].value);
  od_free(b->entries);
  od_arena_free(b->keys);
  od_free(b);
}

void od_example_builder_reset(od_example_builder *b) {
  b->count = 0;
  b->failed = false;
  od_arena_reset(b->keys);
}

/* The empty text that the key's Feature is written into; NULL after memory ran out. */
static od_str *slot(od_example_builder *b, const char *key) {
  size_t i = 0;
  while (i < b->count && strcmp(b->entries[i].key, key) != 0) i++;
  if (i == b->count) {
    char *copy = b->failed ? NULL : od_arena_strdup(b->keys, key);
    b->failed = !copy || od_grow(&b->entries, &b->cap, i + 1, sizeof *b->entries) != OD_OK;
    if (b->failed) return NULL;
    if (i == b->made) {
      b->entries[i].value = OD_STR_INIT;
      b->made++;
    }
    b->entries[i].key = copy;
    b->count++;
  }
  if (b->entries[i].value.failed) od_str_free(&b->entries[i].value); /* memory was short in an Example before */
  od_str_clear(&b->entries[i].value);
  return &b->entries[i].value;
}

void od_example_add_floats(od_example_builder *b, const char *key, const float *values, size_t n) {
  od_str *s = slot(b, key);
  if (!s) return;
  size_t list = od_wire_begin(s, OD_FEATURE_FLOAT);
  if (n > 0) {
    size_t packed = od_wire_begin(s, 1);
    for (size_t i = 0; i < n; i++) {
      uint32_t bits;
      uint8_t raw[4];
      memcpy(&bits, &values[i], sizeof bits);
      od_store_u32(raw, bits);
      od_str_add_bytes(s, raw, sizeof raw);
    }
    od_wire_end(s, packed);
  }
  od_wire_end(s, list);
}

void od_example_add_int64s(od_example_builder *b, const char *key, const int64_t *values, size_t n) {
  od_str *s = slot(b, key);
  if (!s) return;
  size_t list = od_wire_begin(s, OD_FEATURE_INT64);
  if (n > 0) {
    size_t packed = od_wire_begin(s, 1);
    for (size_t i = 0; i < n; i++) od_wire_raw_varint(s, (uint64_t)values[i]);
    od_wire_end(s, packed);
  }
  od_wire_end(s, list);
}

void od_example_add_int64(od_example_builder *b, const char *key, int64_t value) {
  od_example_add_int64s(b, key, &value, 1);
}

void od_example_add_bytes_list(od_example_builder *b, const char *key, const od_view *values, size_t n) {
  od_str *s = slot(b, key);
  if (!s) return;
  size_t list = od_wire_begin(s, OD_FEATURE_BYTES);
  for (size_t i = 0; i < n; i++) od_wire_put_bytes(s, 1, values[i].data, values[i].size);
  od_wire_end(s, list);
}

void od_example_add_bytes(od_example_builder *b, const char *key, const void *data, size_t size) {
  od_view v = {data, size};
  od_example_add_bytes_list(b, key, &v, 1);
}

void od_example_add_text(od_example_builder *b, const char *key, const char *text) {
  od_example_add_bytes(b, key, text, strlen(text));
}

static int by_key(const void *a, const void *b) { return strcmp(((const entry *)a)->key, ((const entry *)b)->key); }

od_status od_example_builder_finish(od_example_builder *b, od_str *out) {
  if (b->failed) return od_fail(OD_ENOMEM, "out of memory while building a tf.Example of %zu keys", b->count);
  if (b->count > 1) qsort(b->entries, b->count, sizeof *b->entries, by_key);
  size_t features = od_wire_begin(out, 1);
  for (size_t i = 0; i < b->count; i++) {
    OD_TRY(od_str_check(&b->entries[i].value));
    size_t pair = od_wire_begin(out, 1);
    od_wire_put_text(out, 1, b->entries[i].key);
    od_wire_put_bytes(out, 2, b->entries[i].value.data, b->entries[i].value.len);
    od_wire_end(out, pair);
  }
  od_wire_end(out, features);
  return od_str_check(out);
}
