/* Writing V2 checkpoints, see bundle.h: the bytes that TensorFlow's BundleWriter leaves for the same tensors. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "io/bundle.h"
#include "io/bundle_slice.h"
#include "io/crc32c.h"
#include "io/file.h"
#include "io/table.h"
#include "io/wire.h"

typedef struct {
  char *name; /* in the arena */
  od_dtype dtype;
  od_shape shape;
  uint64_t offset, size;
  uint32_t crc; /* masked */
} entry;

struct od_bundle_writer {
  char *prefix;
  od_file *data;
  uint64_t offset;
  od_arena *names;
  entry *entries;
  size_t count, cap;
};

od_status od_bundle_writer_new(od_bundle_writer **out, const char *prefix) {
  *out = NULL;
  od_bundle_writer *w;
  OD_TRY(od_new(&w, 1, sizeof *w));
  od_str path = OD_STR_INIT;
  od_status st;
  od_str_addf(&path, "%s.data-00000-of-00001", prefix);
  OD_GO(st, od_str_check(&path));
  OD_GO(st, od_path_clean(&w->prefix, prefix));
  OD_GO(st, od_arena_new(&w->names));
  OD_GO(st, od_path_make_parent(prefix));
  OD_GO(st, od_file_replace(&w->data, od_str_text(&path)));
  *out = w;
  w = NULL;
done:
  od_str_free(&path);
  od_bundle_writer_drop(w);
  return st;
}

void od_bundle_writer_drop(od_bundle_writer *w) {
  if (!w) return;
  od_file_drop(w->data);
  od_arena_free(w->names);
  od_free(w->entries);
  od_free(w->prefix);
  od_free(w);
}

static od_status write_strings(od_bundle_writer *w, entry *e, const od_tensor *t) {
  const od_bytes *items = t->data;
  int64_t n = od_tensor_size(t);
  od_str head = OD_STR_INIT;
  uint32_t crc = 0;
  uint8_t le[8];
  for (int64_t i = 0; i < n; i++) {
    od_wire_raw_varint(&head, items[i].size);
    od_store_u64(le, items[i].size);
    crc = od_crc32c_extend(crc, le, items[i].size <= UINT32_MAX ? 4 : 8);
  }
  od_store_u32(le, od_crc32c_mask(crc));
  od_str_add_bytes(&head, le, 4);
  crc = od_crc32c_extend(crc, le, 4);
  od_status st = od_str_check(&head);
  if (!st) st = od_file_write(w->data, head.data, head.len);
  e->size = head.len;
  od_str_free(&head);
  for (int64_t i = 0; i < n && !st; i++) {
    if (items[i].size) st = od_file_write(w->data, items[i].data, items[i].size);
    crc = od_crc32c_extend(crc, items[i].data, items[i].size);
    e->size += items[i].size;
  }
  e->crc = od_crc32c_mask(crc);
  return st;
}

od_status od_bundle_add(od_bundle_writer *w, const char *name, const od_tensor *t) {
  if (!*name) return od_fail(OD_EINVAL, "%s: a tensor without a name", w->prefix);
  OD_TRY(od_grow(&w->entries, &w->cap, w->count + 1, sizeof *w->entries));
  entry *e = &w->entries[w->count];
  *e = (entry){.name = od_arena_strdup(w->names, name), .dtype = t->dtype, .shape = t->shape, .offset = w->offset};
  if (!e->name) return OD_ENOMEM;
  if (t->dtype == OD_STRING) {
    OD_TRY(write_strings(w, e, t));
  } else {
    e->size = od_tensor_bytes(t);
    e->crc = od_crc32c_mask(od_crc32c(t->data, (size_t)e->size));
    OD_TRY(od_file_write(w->data, t->data, (size_t)e->size));
  }
  w->offset += e->size;
  w->count++;
  return OD_OK;
}

/* ------------------------------------------------------------------------------------------------------------ the index */
static int by_name(const void *a, const void *b) { return strcmp(((const entry *)a)->name, ((const entry *)b)->name); }

/* BundleEntryProto, zeros left out as proto3 does. */
static void put_entry(od_str *s, const entry *e) {
  od_wire_put_varint(s, 1, (uint64_t)od_dtype_tf(e->dtype));
  size_t shape = od_wire_begin(s, 2);
  od_shape_put(s, &e->shape);
  od_wire_end(s, shape);
  if (e->offset) od_wire_put_varint(s, 4, e->offset);
  if (e->size) od_wire_put_varint(s, 5, e->size);
  if (e->crc) od_wire_put_fixed32(s, 6, e->crc);
}

static od_status write_pairs(od_bundle_writer *w, od_table_writer *t) {
  static const uint8_t header[] = {0x08, 1, 0x1a, 2, 0x08, 1}; /* num_shards 1, version {producer 1} */
  od_str value = OD_STR_INIT;
  od_status st = od_table_add(t, (od_view){header, 0}, (od_view){header, sizeof header});
  if (w->count > 1) qsort(w->entries, w->count, sizeof *w->entries, by_name);
  for (size_t i = 0; i < w->count && !st; i++) {
    const entry *e = &w->entries[i];
    od_str_clear(&value);
    put_entry(&value, e);
    st = od_str_check(&value);
    if (!st)
      st = od_table_add(t, (od_view){(const uint8_t *)e->name, strlen(e->name)},
                        (od_view){(const uint8_t *)value.data, value.len});
  }
  od_str_free(&value);
  return st ? st : od_table_finish(t);
}

od_status od_bundle_writer_finish(od_bundle_writer *w) {
  od_str path = OD_STR_INIT;
  od_file *index = NULL;
  od_table_writer *t = NULL;
  od_status st;
  od_str_addf(&path, "%s.index", w->prefix);
  OD_GO(st, od_str_check(&path));
  OD_GO(st, od_file_replace(&index, od_str_text(&path)));
  OD_GO(st, od_table_writer_new(&t, index, NULL));
  OD_GO(st, write_pairs(w, t));
  /* The index last: whoever finds it finds its data. */
  od_file *data = w->data;
  w->data = NULL;
  OD_GO(st, od_file_close(data));
  data = index;
  index = NULL;
  st = od_file_close(data);
done:
  od_table_writer_free(t);
  od_file_drop(index);
  od_str_free(&path);
  od_bundle_writer_drop(w);
  return st;
}

static int named_by_name(const void *a, const void *b) {
  return strcmp(((const od_named_tensor *)a)->name, ((const od_named_tensor *)b)->name);
}

od_status od_bundle_write(const char *prefix, od_named_tensor *list, size_t n) {
  od_bundle_writer *w;
  OD_TRY(od_bundle_writer_new(&w, prefix));
  od_status st = OD_OK;
  if (n > 1) qsort(list, n, sizeof *list, named_by_name);
  for (size_t i = 0; i < n && !st; i++) st = od_bundle_add(w, list[i].name, &list[i].tensor);
  if (!st) return od_bundle_writer_finish(w);
  od_bundle_writer_drop(w);
  return st;
}
