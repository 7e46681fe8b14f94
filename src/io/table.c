/* Reading sorted string tables, see table.h. Every offset, length and count comes from the file and is treated as hostile. */
#include "io/table.h"

#include <snappy-c.h>
#include <string.h>

#include "base/mem.h"
#include "io/crc32c.h"
#include "io/wire.h"

enum { FOOTER_BYTES = 48, TRAILER_BYTES = 5, MAX_KEY = 1 << 20, SNAPPY_RATIO = 32 };
#define TABLE_MAGIC 0xdb4775248b80fb57ull

/* A place in a block. The bytes belong to the file, or to `unpacked` of the table. */
typedef struct {
  od_view entries; /* without restarts */
  size_t at;
  od_str key; /* keys share beginnings: the current one, whole */
} cursor;

struct od_table {
  od_view file;
  char *name;
  cursor index, block;
  bool in_block, started;
  char *unpacked; /* of the current data block */
  char *unpacked_index;
  od_str last; /* the key before, to see that keys ascend */
};

int od_view_compare(od_view a, od_view b) {
  size_t n = a.size < b.size ? a.size : b.size;
  int c = n ? memcmp(a.data, b.data, n) : 0;
  return c ? c : (a.size > b.size) - (a.size < b.size);
}

bool od_table_probe(od_view file) {
  return file.size >= FOOTER_BYTES && od_load_u64(file.data + file.size - 8) == TABLE_MAGIC;
}

static od_status bad(const od_table *t, const char *what, uint64_t offset) {
  return od_fail(OD_EDATA, "%s: %s at byte %llu: the file is damaged or cut off; fetch or save it again", t->name, what,
                 (unsigned long long)offset);
}

/* ------------------------------------------------------------------------------------------------------------ blocks */
typedef struct {
  uint64_t offset, size;
} handle;

static bool read_handle(handle *h, od_wire *w) { return od_wire_varint(&h->offset, w) && od_wire_varint(&h->size, w); }

static od_status unpack(const od_table *t, od_view *block, char **memory, uint64_t offset) {
  size_t n = 0;
  if (snappy_uncompressed_length((const char *)block->data, block->size, &n) != SNAPPY_OK ||
      n / SNAPPY_RATIO > block->size) /* snappy never packs so well: a hostile length */
    return bad(t, "a snappy block has an impossible length", offset);
  od_free(*memory);
  *memory = od_alloc(n + 1);
  if (!*memory) return OD_ENOMEM;
  if (snappy_uncompress((const char *)block->data, block->size, *memory, &n) != SNAPPY_OK)
    return bad(t, "a snappy block cannot be unpacked", offset);
  *block = (od_view){(const uint8_t *)*memory, n};
  return OD_OK;
}

/* Reads the block at h into c, at its first pair. */
static od_status read_block(od_table *t, cursor *c, handle h, char **memory) {
  uint64_t room = t->file.size - FOOTER_BYTES;
  if (h.offset > room || h.size > room - h.offset || room - h.offset - h.size < TRAILER_BYTES)
    return bad(t, "a block lies outside of the file", h.offset);
  od_view b = {t->file.data + h.offset, (size_t)h.size};
  const uint8_t *trailer = b.data + b.size;
  if (od_crc32c_mask(od_crc32c(b.data, b.size + 1)) != od_load_u32(trailer + 1))
    return bad(t, "the CRC of a block is wrong", h.offset);
  if (*trailer == 1)
    OD_TRY(unpack(t, &b, memory, h.offset));
  else if (*trailer != 0)
    return bad(t, "a block is packed in an unknown way", h.offset);
  if (b.size < 4) return bad(t, "a block is too short", h.offset);
  uint64_t restarts = od_load_u32(b.data + b.size - 4);
  if (restarts > (b.size - 4) / 4) return bad(t, "a block has an impossible number of restarts", h.offset);
  c->entries = (od_view){b.data, b.size - 4 - (size_t)restarts * 4};
  c->at = 0;
  od_str_clear(&c->key);
  return OD_OK;
}

/* The next pair of a block into c->key and *value; *more is false at its end. */
static od_status next_pair(const od_table *t, cursor *c, od_view *value, bool *more) {
  *more = c->at < c->entries.size;
  if (!*more) return OD_OK;
  od_wire w = od_wire_over((od_view){c->entries.data + c->at, c->entries.size - c->at});
  uint64_t shared, fresh, size;
  if (!od_wire_varint(&shared, &w) || !od_wire_varint(&fresh, &w) || !od_wire_varint(&size, &w) ||
      shared > c->key.len || fresh > MAX_KEY || fresh > (uint64_t)(w.end - w.at) ||
      size > (uint64_t)(w.end - w.at) - fresh || shared + fresh > MAX_KEY)
    return bad(t, "a pair inside a block is impossible", c->at);
  c->key.len = (size_t)shared;
  od_str_add_bytes(&c->key, w.at, (size_t)fresh);
  OD_TRY(od_str_check(&c->key));
  *value = (od_view){w.at + fresh, (size_t)size};
  c->at = (size_t)(value->data + value->size - c->entries.data);
  return OD_OK;
}

static od_view key_of(const cursor *c) { return (od_view){(const uint8_t *)od_str_text(&c->key), c->key.len}; }

/* ------------------------------------------------------------------------------------------------------------ tables */
od_status od_table_open(od_table **out, od_view file, const char *name) {
  *out = NULL;
  od_table *t;
  handle meta, index;
  OD_TRY(od_new(&t, 1, sizeof *t));
  od_status st = OD_OK;
  t->file = file;
  t->name = od_strdup(name);
  if (!t->name) {
    st = OD_ENOMEM;
    goto done;
  }
  if (!od_table_probe(file)) {
    st =
        od_fail(OD_EDATA,
                "%s (%zu bytes) does not end as a table of a TensorFlow checkpoint does: it is no checkpoint index, or "
                "it was cut off",
                name, file.size);
    goto done;
  }
  od_wire w = od_wire_over((od_view){file.data + file.size - FOOTER_BYTES, 40});
  if (!read_handle(&meta, &w) || !read_handle(&index, &w)) {
    st = bad(t, "the footer is wrong", file.size - FOOTER_BYTES);
    goto done;
  }
  OD_GO(st, read_block(t, &t->index, index, &t->unpacked_index));
  *out = t;
  return OD_OK;
done:
  od_table_free(t);
  return st;
}

void od_table_free(od_table *t) {
  if (!t) return;
  od_free(t->name);
  od_free(t->unpacked);
  od_free(t->unpacked_index);
  od_str_free(&t->index.key);
  od_str_free(&t->block.key);
  od_str_free(&t->last);
  od_free(t);
}

/* Opens the next data block whose separator (not less than any of its keys) is not below `key`. */
static od_status next_block(od_table *t, od_view key, bool *more) {
  od_view value;
  do {
    OD_TRY(next_pair(t, &t->index, &value, more));
    if (!*more) return OD_OK;
  } while (od_view_compare(key_of(&t->index), key) < 0);
  handle h;
  od_wire w = od_wire_over(value);
  if (!read_handle(&h, &w)) return bad(t, "the index names no place", 0);
  OD_TRY(read_block(t, &t->block, h, &t->unpacked));
  t->in_block = true;
  return OD_OK;
}

static od_status step(od_table *t, od_view *key, od_view *value) {
  for (bool more;;) {
    if (t->in_block) {
      OD_TRY(next_pair(t, &t->block, value, &more));
      if (more) break;
      t->in_block = false;
    }
    OD_TRY(next_block(t, (od_view){0}, &more));
    if (!more) return OD_END;
  }
  *key = key_of(&t->block);
  od_view last = {(const uint8_t *)od_str_text(&t->last), t->last.len};
  if (t->started && od_view_compare(*key, last) <= 0) return bad(t, "keys are not in order in a block", t->block.at);
  t->started = true;
  od_str_clear(&t->last);
  od_str_add_bytes(&t->last, key->data, key->size);
  return od_str_check(&t->last);
}

static void rewind_table(od_table *t) {
  t->index.at = 0;
  od_str_clear(&t->index.key);
  t->in_block = t->started = false;
}

od_status od_table_seek(od_table *t, od_view key) {
  rewind_table(t);
  bool more;
  OD_TRY(next_block(t, key, &more));
  for (od_view value; more;) { /* stop before the first pair that is not less */
    size_t at = t->block.at;
    od_str before = OD_STR_INIT;
    od_str_add_bytes(&before, od_str_text(&t->block.key), t->block.key.len);
    od_status st = od_str_check(&before);
    if (!st) st = next_pair(t, &t->block, &value, &more);
    if (!st && more && od_view_compare(key_of(&t->block), key) >= 0) {
      t->block.at = at;
      od_str_clear(&t->block.key);
      od_str_add_bytes(&t->block.key, before.data, before.len);
      st = od_str_check(&t->block.key);
      more = false;
    }
    od_str_free(&before);
    OD_TRY(st);
  }
  return OD_OK;
}

od_status od_table_next(od_table *t, od_view *key, od_view *value) {
  *key = *value = (od_view){0};
  return step(t, key, value);
}

od_status od_table_get(od_table *t, od_view key, od_view *value) {
  od_view found;
  OD_TRY(od_table_seek(t, key));
  od_status st = od_table_next(t, &found, value);
  if (st == OD_END || (!st && od_view_compare(found, key) != 0)) {
    *value = (od_view){0};
    return od_fail(OD_ENOENT, "%s: a key of %zu bytes is absent", t->name, key.size);
  }
  return st;
}
