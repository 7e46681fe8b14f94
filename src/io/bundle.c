/* Reading TensorFlow checkpoints, see bundle.h. The index is read whole at opening, into an arena; tensors come from the data
 * files one at a time. */
#include "io/bundle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "io/bundle_file.h"
#include "io/checkpoint_state.h"
#include "io/crc32c.h"
#include "io/wire.h"

enum { MAX_SHARDS = 100000 };
#define MAX_INDEX (1ull << 30)

/* ------------------------------------------------------------------------------------------------------------ entries */
od_status od_bundle_new_item(od_bundle *b, od_bundle_item **out) {
  OD_TRY(od_grow(&b->items, &b->cap, b->count + 1, sizeof *b->items));
  *out = &b->items[b->count++];
  **out = (od_bundle_item){0};
  return OD_OK;
}

od_status od_bundle_set_type(od_bundle *b, od_bundle_item *item, int tf_dtype, const od_shape *shape) {
  size_t bytes;
  od_bundle_entry *e = &item->seen;
  e->tf_dtype = tf_dtype;
  e->known = od_dtype_from_tf(&e->dtype, tf_dtype);
  e->shape = *shape;
  return od_fail_context(od_shape_bytes(&bytes, shape, e->known ? e->dtype : OD_U8), "%s: tensor '%s'", b->prefix,
                         e->name);
}

static od_status bad_entry(const od_bundle *b, od_view key) {
  return od_fail(OD_EDATA, "%s.index: the entry '%.*s' is damaged: fetch or save the checkpoint again", b->prefix,
                 (int)(key.size < 200 ? key.size : 200), (const char *)key.data);
}

/* BundleEntryProto: 1 dtype, 2 shape, 3 shard_id, 4 offset, 5 size, 6 crc32c, 7 slices. */
typedef struct {
  int tf_dtype;
  od_shape shape;
  od_bundle_place place;
  size_t slices;
} raw_entry;

static bool parse_entry(raw_entry *e, od_view value) {
  od_wire w = od_wire_over(value);
  od_wire_field f;
  *e = (raw_entry){0};
  while (od_wire_next(&w, &f)) {
    bool number = f.type == OD_WIRE_VARINT;
    if (number && f.number == 1) e->tf_dtype = f.value < 1000 ? (int)f.value : 1000;
    if (number && f.number == 3) e->place.shard = f.value < MAX_SHARDS ? (int)f.value : -1;
    if (number && f.number == 4) e->place.offset = f.value;
    if (number && f.number == 5) e->place.size = f.value;
    if (od_wire_is(&f, 6, OD_WIRE_FIXED32)) e->place.crc = (uint32_t)f.value;
    if (od_wire_is(&f, 2, OD_WIRE_BYTES) && !od_shape_parse(&e->shape, f.bytes)) return false;
    if (od_wire_is(&f, 7, OD_WIRE_BYTES)) e->slices++;
  }
  return !w.bad && e->place.shard >= 0 && e->place.offset <= INT64_MAX && e->place.size <= INT64_MAX;
}

static od_status parse_slices(od_bundle *b, od_bundle_item *item, od_view value) {
  od_wire w = od_wire_over(value);
  od_wire_field f;
  size_t n = 0;
  item->slices = od_arena_alloc(b->arena, item->seen.slices * sizeof *item->slices);
  if (!item->slices) return OD_ENOMEM;
  while (od_wire_next(&w, &f))
    if (od_wire_is(&f, 7, OD_WIRE_BYTES) && !od_slice_parse(&item->slices[n++], f.bytes))
      return od_fail(OD_EDATA, "%s.index: tensor '%s': slice %zu is damaged", b->prefix, item->seen.name, n - 1);
  return OD_OK;
}

static od_status copy_key(od_bundle *b, char **out, od_view key) {
  *out = od_arena_alloc(b->arena, key.size + 1);
  if (!*out) return OD_ENOMEM;
  memcpy(*out, key.data, key.size);
  return OD_OK;
}

/* The entry of a slice: its key begins with a zero byte, which no tensor's name does. */
static od_status add_part(od_bundle *b, od_view key, const raw_entry *e) {
  char *copy;
  OD_TRY(copy_key(b, &copy, key));
  OD_TRY(od_grow(&b->parts, &b->part_cap, b->part_count + 1, sizeof *b->parts));
  b->parts[b->part_count++] = (od_bundle_part){{(const uint8_t *)copy, key.size}, e->tf_dtype, e->shape, e->place};
  return OD_OK;
}

static od_status add_entry(od_bundle *b, od_view key, od_view value) {
  raw_entry e;
  od_bundle_item *item;
  char *name;
  if (!parse_entry(&e, value)) return bad_entry(b, key);
  if (e.place.shard >= b->shards)
    return od_fail(OD_EDATA, "%s.index: the entry '%.*s' lies in shard %d, there are %d", b->prefix, (int)key.size,
                   (const char *)key.data, e.place.shard, b->shards);
  if (key.data[0] == 0) return add_part(b, key, &e);
  if (memchr(key.data, 0, key.size)) return bad_entry(b, key);
  OD_TRY(copy_key(b, &name, key));
  OD_TRY(od_bundle_new_item(b, &item));
  item->seen.name = name;
  item->seen.slices = e.slices;
  item->seen.bytes = e.place.size;
  item->place = e.place;
  OD_TRY(od_bundle_set_type(b, item, e.tf_dtype, &e.shape));
  if (e.slices) OD_TRY(parse_slices(b, item, value));
  return OD_OK;
}

/* BundleHeaderProto: 1 num_shards, 2 endianness (0 little), 3 version {1 producer, 2 min_consumer}. */
static od_status parse_header(od_bundle *b, od_view value) {
  od_wire w = od_wire_over(value), v;
  od_wire_field f, g;
  uint64_t shards = 0, big = 0, min_consumer = 0;
  while (od_wire_next(&w, &f)) {
    if (od_wire_is(&f, 1, OD_WIRE_VARINT)) shards = f.value;
    if (od_wire_is(&f, 2, OD_WIRE_VARINT)) big = f.value;
    if (!od_wire_is(&f, 3, OD_WIRE_BYTES)) continue;
    v = od_wire_over(f.bytes);
    while (od_wire_next(&v, &g))
      if (od_wire_is(&g, 2, OD_WIRE_VARINT)) min_consumer = g.value;
    if (v.bad) w.bad = true;
  }
  if (w.bad || shards < 1 || shards > MAX_SHARDS)
    return od_fail(OD_EDATA, "%s.index: the header is damaged (%llu shards)", b->prefix, (unsigned long long)shards);
  if (big) return od_fail(OD_EUNSUPPORTED, "%s.index: written by a big-endian machine", b->prefix);
  if (min_consumer > 1)
    return od_fail(OD_EUNSUPPORTED, "%s.index: needs a reader of version %llu, this is 1", b->prefix,
                   (unsigned long long)min_consumer);
  b->shards = (int)shards;
  return OD_OK;
}

static od_status read_index(od_bundle *b, od_table *t) {
  od_view key, value;
  od_status st = od_table_next(t, &key, &value);
  if (st == OD_END || (!st && key.size > 0))
    return od_fail(OD_EDATA, "%s.index: it has no header: no checkpoint index", b->prefix);
  OD_TRY(st);
  OD_TRY(parse_header(b, value));
  while (!(st = od_table_next(t, &key, &value))) OD_TRY(add_entry(b, key, value));
  if (st != OD_END) return st;
  return od_new(&b->files, (size_t)b->shards, sizeof *b->files);
}

static od_status open_v2(od_bundle *b) {
  od_str path = OD_STR_INIT;
  char *data = NULL;
  size_t n;
  od_table *t = NULL;
  od_status st;
  od_str_addf(&path, "%s.index", b->prefix);
  OD_GO(st, od_str_check(&path));
  OD_GO(st, od_file_read_all(&data, &n, od_str_text(&path), MAX_INDEX));
  OD_GO(st, od_table_open(&t, (od_view){(const uint8_t *)data, n}, od_str_text(&path)));
  st = read_index(b, t);
done:
  od_table_free(t);
  od_free(data);
  od_str_free(&path);
  return st;
}

/* ------------------------------------------------------------------------------------------------------------ opening */
/* The prefix that a user's path means. */
static od_status find_prefix(char **prefix, const char *path) {
  *prefix = NULL;
  OD_TRY(od_path_check_local(path));
  if (od_path_is_dir(path)) return od_checkpoint_latest(prefix, path);
  OD_TRY(od_path_clean(prefix, path));
  char *p = *prefix, *data = strstr(p, ".data-");
  for (char *again = data; again; again = strstr(again + 1, ".data-")) data = again;
  size_t n = strlen(p);
  if (od_ends_with(p, ".index"))
    p[n - 6] = 0;
  else if (od_ends_with(p, ".meta"))
    p[n - 5] = 0;
  else if (data && strlen(data) == 20 && memcmp(data + 11, "-of-", 4) == 0)
    *data = 0;
  return OD_OK;
}

static bool has_suffix(const char *prefix, const char *suffix) {
  char path[4096]; /* no path of the system is longer; no allocation, so that short memory is never taken for absence */
  return (size_t)snprintf(path, sizeof path, "%s%s", prefix, suffix) < sizeof path && od_path_is_file(path);
}

od_status od_bundle_open(od_bundle **out, const char *path) {
  od_bundle *b;
  *out = NULL;
  OD_TRY(od_new(&b, 1, sizeof *b));
  od_status st;
  OD_GO(st, od_arena_new(&b->arena));
  OD_GO(st, find_prefix(&b->prefix, path));
  if (has_suffix(b->prefix, ".index")) {
    OD_GO(st, open_v2(b));
  } else if (od_path_is_file(b->prefix)) {
    b->v1 = true;
    b->shards = 1;
    OD_GO(st, od_bundle_v1_open(b));
  } else {
    st = od_fail(
        OD_ENOENT, "%s: no checkpoint of this name: neither %s.index nor a file %s%s", path, b->prefix, b->prefix,
        has_suffix(b->prefix, ".data-00000-of-00001") ? " (the .data file is there, its .index is missing)" : "");
    goto done;
  }
  *out = b;
  return OD_OK;
done:
  od_bundle_free(b);
  return st;
}

void od_bundle_free(od_bundle *b) {
  if (!b) return;
  od_table_free(b->table);
  od_file_unmap(&b->map);
  for (int i = 0; b->files && i < b->shards; i++) od_file_drop(b->files[i]);
  od_free(b->files);
  od_free(b->items);
  od_free(b->parts);
  od_free(b->prefix);
  od_arena_free(b->arena);
  od_free(b);
}

const char *od_bundle_prefix(const od_bundle *b) { return b->prefix; }
bool od_bundle_is_v1(const od_bundle *b) { return b->v1; }
int od_bundle_shards(const od_bundle *b) { return b->shards; }
size_t od_bundle_count(const od_bundle *b) { return b->count; }
const od_bundle_entry *od_bundle_entry_at(const od_bundle *b, size_t i) { return &b->items[i].seen; }

static int by_name(const void *name, const void *item) {
  return strcmp(name, ((const od_bundle_item *)item)->seen.name);
}

static const od_bundle_item *find(const od_bundle *b, const char *name) {
  return b->count ? bsearch(name, b->items, b->count, sizeof *b->items, by_name) : NULL;
}

const od_bundle_entry *od_bundle_find(const od_bundle *b, const char *name) {
  const od_bundle_item *item = find(b, name);
  return item ? &item->seen : NULL;
}

/* ------------------------------------------------------------------------------------------------------------ reading */
static od_status data_file(od_bundle *b, int shard) {
  if (b->files[shard]) return OD_OK;
  od_str path = OD_STR_INIT;
  od_str_addf(&path, "%s.data-%05d-of-%05d", b->prefix, shard, b->shards);
  od_status st = od_str_check(&path);
  if (!st) st = od_file_open(&b->files[shard], od_str_text(&path));
  od_str_free(&path);
  return st;
}

/* Reads the bytes of a place and checks their CRC; for strings the CRC is another and checked there. */
static od_status read_place(od_bundle *b, const od_bundle_place *p, void *to, const char *name, bool check) {
  size_t got;
  OD_TRY(od_fail_context(data_file(b, p->shard), "tensor '%s'", name));
  od_file *f = b->files[p->shard];
  OD_TRY(od_fail_context(od_file_read_at(f, to, (size_t)p->size, p->offset, &got), "tensor '%s'", name));
  if (got < p->size)
    return od_fail(OD_EDATA,
                   "%s: tensor '%s' should lie at bytes %llu to %llu, but the file ends at %llu: it was cut off",
                   od_file_path(f), name, (unsigned long long)p->offset, (unsigned long long)(p->offset + p->size),
                   (unsigned long long)(p->offset + got));
  if (check && od_crc32c_mask(od_crc32c(to, (size_t)p->size)) != p->crc)
    return od_fail(OD_EDATA,
                   "%s: tensor '%s' at byte %llu: its CRC is wrong: the file is damaged; fetch it or save it again",
                   od_file_path(f), name, (unsigned long long)p->offset);
  return OD_OK;
}

/* Strings: the lengths as varints, a masked CRC of the lengths (as u32 each, or u64 where longer), the bytes. The entry's CRC
 * goes over lengths, their CRC and the bytes. */
static od_status parse_strings(const od_bundle_item *item, od_tensor *t, od_view raw) {
  od_wire w = od_wire_over(raw), again = w;
  int64_t n = od_tensor_size(t);
  uint64_t total = 0, size;
  uint32_t crc = 0;
  uint8_t le[8];
  for (int64_t i = 0; i < n; i++) {
    if (!od_wire_varint(&size, &w) || size > raw.size || (total += size) > raw.size)
      return od_fail(OD_EDATA, "tensor '%s': the length of string %lld is impossible", item->seen.name, (long long)i);
    od_store_u64(le, size);
    crc = od_crc32c_extend(crc, le, size <= UINT32_MAX ? 4 : 8);
  }
  if ((uint64_t)(w.end - w.at) != total + 4)
    return od_fail(OD_EDATA, "tensor '%s': its strings have %llu bytes, %zu were stored", item->seen.name,
                   (unsigned long long)total, (size_t)(w.end - w.at));
  if (od_load_u32(w.at) != od_crc32c_mask(crc) ||
      od_crc32c_mask(od_crc32c_extend(crc, w.at, (size_t)(w.end - w.at))) != item->place.crc)
    return od_fail(OD_EDATA, "tensor '%s': its CRC is wrong: the file is damaged", item->seen.name);
  const uint8_t *at = w.at + 4;
  for (int64_t i = 0; i < n; i++) {
    (void)od_wire_varint(&size, &again);
    OD_TRY(od_tensor_set_bytes(t, i, at, (size_t)size));
    at += size;
  }
  return OD_OK;
}

static od_status read_strings(od_bundle *b, const od_bundle_item *item, od_tensor *t) {
  uint64_t size;
  OD_TRY(data_file(b, item->place.shard));
  OD_TRY(od_file_size(&size, b->files[item->place.shard]));
  if (item->place.size > size) /* before memory is booked for it */
    return od_fail(OD_EDATA, "%s: tensor '%s' has %llu bytes, more than the file",
                   od_file_path(b->files[item->place.shard]), item->seen.name, (unsigned long long)item->place.size);
  uint8_t *raw = od_alloc((size_t)item->place.size);
  if (!raw) return OD_ENOMEM;
  od_status st = read_place(b, &item->place, raw, item->seen.name, false);
  if (!st) st = parse_strings(item, t, (od_view){raw, (size_t)item->place.size});
  od_free(raw);
  return st;
}

static int by_key(const void *key, const void *part) {
  return od_view_compare(*(const od_view *)key, ((const od_bundle_part *)part)->key);
}

static od_status read_slice(od_bundle *b, const od_bundle_item *item, od_slice s, od_tensor *t) {
  od_str key = OD_STR_INIT;
  od_slice_key(&key, item->seen.name, &s);
  od_status st = od_str_check(&key);
  od_view k = {(const uint8_t *)key.data, key.len};
  const od_bundle_part *part =
      !st && b->part_count ? bsearch(&k, b->parts, b->part_count, sizeof *b->parts, by_key) : NULL;
  od_str_free(&key);
  OD_TRY(st);
  size_t bytes = 0;
  bool fits = od_slice_resolve(&s, &t->shape);
  od_shape shape = od_slice_shape(&s);
  if (fits) OD_TRY(od_shape_bytes(&bytes, &shape, t->dtype));
  if (!part || !fits || part->tf_dtype != item->seen.tf_dtype || part->place.size != bytes)
    return od_fail(OD_EDATA, "%s.index: tensor '%s': a slice of it is missing or does not fit", b->prefix,
                   item->seen.name);
  void *raw = od_alloc(bytes);
  if (!raw) return OD_ENOMEM;
  st = read_place(b, &part->place, raw, item->seen.name, true);
  if (!st && bytes > 0) od_slice_copy(t->data, &t->shape, raw, &s, od_dtype_size(t->dtype));
  od_free(raw);
  return st;
}

/* The slices together have as many elements as the whole: with none overlapping (TensorFlow's savers never do) it is full. */
static od_status check_cover(const od_bundle *b, const od_bundle_item *item) {
  int64_t have = 0;
  for (size_t i = 0; i < item->seen.slices; i++) {
    od_slice s = item->slices[i];
    if (!od_slice_resolve(&s, &item->seen.shape))
      return od_fail(OD_EDATA, "%s: tensor '%s': slice %zu lies outside of it", b->prefix, item->seen.name, i);
    od_shape shape = od_slice_shape(&s);
    have += od_shape_size(&shape);
    if (have >= od_shape_size(&item->seen.shape)) return OD_OK;
  }
  return od_fail(OD_EDATA, "%s: tensor '%s': its slices hold %lld of %lld elements", b->prefix, item->seen.name,
                 (long long)have, (long long)od_shape_size(&item->seen.shape));
}

/* Fills t, which has the item's dtype and shape. */
static od_status fill(od_bundle *b, const od_bundle_item *item, od_tensor *t) {
  if (item->seen.slices) OD_TRY(check_cover(b, item));
  if (b->v1) return od_bundle_v1_read(b, item, t);
  if (item->seen.slices && t->dtype == OD_STRING)
    return od_fail(OD_EUNSUPPORTED, "%s: tensor '%s': strings in slices", b->prefix, item->seen.name);
  for (size_t i = 0; i < item->seen.slices; i++) OD_TRY(read_slice(b, item, item->slices[i], t));
  if (item->seen.slices) return OD_OK;
  if (t->dtype == OD_STRING) return od_fail_context(read_strings(b, item, t), "%s", b->prefix);
  return read_place(b, &item->place, t->data, item->seen.name, true);
}

static od_status find_readable(const od_bundle_item **out, const od_bundle *b, const char *name) {
  const od_bundle_item *item = *out = find(b, name);
  if (!item) {
    const char **names = NULL, *near = NULL;
    if (od_new(&names, b->count, sizeof *names) == OD_OK) {
      for (size_t i = 0; i < b->count; i++) names[i] = b->items[i].seen.name;
      near = od_did_you_mean(name, names, b->count);
      od_free(names);
    }
    return od_fail(OD_ENOENT, "%s: no tensor '%s' among its %zu%s%s%s", b->prefix, name, b->count,
                   near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
  }
  const od_bundle_entry *e = &item->seen;
  if (!e->known)
    return od_fail(OD_EUNSUPPORTED, "%s: tensor '%s' has TensorFlow's type %d, which is not read", b->prefix, name,
                   e->tf_dtype);
  size_t bytes;
  char text[OD_SHAPE_TEXT];
  OD_TRY(od_shape_bytes(&bytes, &e->shape, e->dtype));
  if (b->v1 || e->slices || e->dtype == OD_STRING || bytes == item->place.size) return OD_OK;
  return od_fail(OD_EDATA, "%s: tensor '%s' is %s%s, thus %zu bytes, but %llu are stored", b->prefix, name,
                 od_dtype_name(e->dtype), od_shape_text(text, &e->shape), bytes, (unsigned long long)item->place.size);
}

/* A damaged index must not make us book memory that no file fills: the most bytes that this tensor can have in memory. */
static od_status most_bytes(uint64_t *out, od_bundle *b, const od_bundle_item *item) {
  enum { PACKED = 32 * 8 }; /* V1: snappy's best ratio, times a double stored in a varint's one byte */
  uint64_t size;
  *out = 0;
  if (b->v1) {
    *out = b->map.size * PACKED;
    return OD_OK;
  }
  for (int i = 0; i < b->shards; i++) {
    if (!item->seen.slices && i != item->place.shard) continue;
    OD_TRY(od_fail_context(data_file(b, i), "tensor '%s'", item->seen.name));
    OD_TRY(od_file_size(&size, b->files[i]));
    *out += size * (item->seen.dtype == OD_STRING ? sizeof(od_bytes) : 1);
  }
  return OD_OK;
}

static od_status check_room(od_bundle *b, const od_bundle_item *item) {
  uint64_t most;
  size_t bytes;
  OD_TRY(od_shape_bytes(&bytes, &item->seen.shape, item->seen.dtype));
  if (bytes == 0) return OD_OK;
  OD_TRY(most_bytes(&most, b, item));
  if (bytes <= most) return OD_OK;
  return od_fail(OD_EDATA,
                 "%s: tensor '%s' has %zu bytes, more than its file can hold (%llu): it was cut off or is damaged",
                 b->prefix, item->seen.name, bytes, (unsigned long long)most);
}

od_status od_bundle_read(od_tensor *out, od_bundle *b, const char *name) {
  const od_bundle_item *item;
  *out = (od_tensor){0};
  OD_TRY(find_readable(&item, b, name));
  OD_ASSERT(item);
  OD_TRY(check_room(b, item));
  OD_TRY(od_tensor_new(out, item->seen.dtype, &item->seen.shape));
  od_status st = fill(b, item, out);
  if (st) od_tensor_free(out);
  if (st) *out = (od_tensor){0};
  return st;
}

od_status od_bundle_read_into(od_tensor *t, od_bundle *b, const char *name) {
  const od_bundle_item *item;
  char have[OD_SHAPE_TEXT], want[OD_SHAPE_TEXT];
  OD_TRY(find_readable(&item, b, name));
  OD_ASSERT(item);
  if (t->dtype != item->seen.dtype || !od_shape_equal(&t->shape, &item->seen.shape) || t->dtype == OD_STRING)
    return od_fail(OD_EMISMATCH, "%s: tensor '%s' is %s%s, %s%s was expected", b->prefix, name,
                   od_dtype_name(item->seen.dtype), od_shape_text(have, &item->seen.shape), od_dtype_name(t->dtype),
                   od_shape_text(want, &t->shape));
  return fill(b, item, t);
}

od_status od_bundle_verify(od_bundle *b, const char *name) {
  od_tensor t;
  OD_TRY(od_bundle_read(&t, b, name));
  od_tensor_free(&t);
  return OD_OK;
}
