/* Writing sorted string tables byte for byte as TensorFlow's TableBuilder does, see table.h. */
#include <snappy-c.h>
#include <string.h>

#include "base/mem.h"
#include "io/crc32c.h"
#include "io/table.h"
#include "io/wire.h"

#define TABLE_MAGIC 0xdb4775248b80fb57ull
enum { FOOTER_HANDLES = 40 };

typedef struct {
  od_str bytes, last;
  uint32_t *restarts;
  size_t restart_count, restart_cap;
  int since, interval;
} block;

struct od_table_writer {
  od_file *file;
  od_table_options options;
  block data, index;
  od_str last; /* the last key added */
  bool any;
  bool pending; /* a data block was written, its place not yet in the index: the separator needs the next key */
  uint64_t pending_offset, pending_size, offset;
};

od_status od_table_writer_new(od_table_writer **out, od_file *f, const od_table_options *options) {
  OD_TRY(od_new(out, 1, sizeof **out));
  od_table_writer *w = *out;
  w->file = f;
  if (options) w->options = *options;
  if (!w->options.block_bytes) w->options.block_bytes = 262144;
  if (!w->options.restart_interval) w->options.restart_interval = 16;
  w->data.interval = w->options.restart_interval;
  w->index.interval = 1; /* the index is searched, not read */
  return OD_OK;
}

static void free_block(block *b) {
  od_str_free(&b->bytes);
  od_str_free(&b->last);
  od_free(b->restarts);
}

void od_table_writer_free(od_table_writer *w) {
  if (!w) return;
  free_block(&w->data);
  free_block(&w->index);
  od_str_free(&w->last);
  od_free(w);
}

/* ------------------------------------------------------------------------------------------------------------ blocks */
static od_status add_restart(block *b, size_t at) {
  OD_TRY(od_grow(&b->restarts, &b->restart_cap, b->restart_count + 1, sizeof *b->restarts));
  b->restarts[b->restart_count++] = (uint32_t)at;
  return OD_OK;
}

static od_status block_add(block *b, od_view key, od_view value) {
  size_t shared = 0;
  if (b->restart_count == 0 || b->since >= b->interval) {
    OD_TRY(add_restart(b, b->bytes.len));
    b->since = 0;
  } else {
    while (shared < b->last.len && shared < key.size && (uint8_t)b->last.data[shared] == key.data[shared]) shared++;
  }
  od_wire_raw_varint(&b->bytes, shared);
  od_wire_raw_varint(&b->bytes, key.size - shared);
  od_wire_raw_varint(&b->bytes, value.size);
  od_str_add_bytes(&b->bytes, key.data + shared, key.size - shared);
  od_str_add_bytes(&b->bytes, value.data, value.size);
  od_str_clear(&b->last);
  od_str_add_bytes(&b->last, key.data, key.size);
  b->since++;
  OD_TRY(od_str_check(&b->last));
  return od_str_check(&b->bytes);
}

/* Bytes the block would have if it ended now. */
static size_t block_size(const block *b) { return b->bytes.len + (b->restart_count ? b->restart_count : 1) * 4 + 4; }

static od_status block_end(block *b) {
  uint8_t raw[4];
  if (b->restart_count == 0) OD_TRY(add_restart(b, 0));
  for (size_t i = 0; i < b->restart_count; i++) {
    od_store_u32(raw, b->restarts[i]);
    od_str_add_bytes(&b->bytes, raw, 4);
  }
  od_store_u32(raw, (uint32_t)b->restart_count);
  od_str_add_bytes(&b->bytes, raw, 4);
  return od_str_check(&b->bytes);
}

/* Writes block and trailer, tells its place and empties it. */
static od_status write_block(od_table_writer *w, block *b, uint64_t *offset, uint64_t *size) {
  OD_TRY(block_end(b));
  const char *bytes = b->bytes.data;
  size_t n = b->bytes.len;
  char *packed = NULL;
  uint8_t trailer[5] = {0};
  od_status st;
  if (w->options.snappy) {
    size_t m = snappy_max_compressed_length(n);
    packed = od_alloc(m);
    if (!packed) return OD_ENOMEM;
    if (snappy_compress(bytes, n, packed, &m) == SNAPPY_OK && m < n - n / 8) {
      bytes = packed;
      n = m;
      trailer[0] = 1;
    }
  }
  od_store_u32(trailer + 1, od_crc32c_mask(od_crc32c_extend(od_crc32c(bytes, n), trailer, 1)));
  OD_GO(st, od_file_write(w->file, bytes, n));
  OD_GO(st, od_file_write(w->file, trailer, sizeof trailer));
  *offset = w->offset;
  *size = n;
  w->offset += n + sizeof trailer;
  od_str_clear(&b->bytes);
  od_str_clear(&b->last);
  b->restart_count = 0;
  b->since = 0;
done:
  od_free(packed);
  return st;
}

/* ------------------------------------------------------------------------------------------------------------ keys */
/* Shortens the key in s to the shortest text that is not less than it and less than limit, as LevelDB does. */
static void shorten(od_str *s, od_view limit) {
  size_t n = s->len < limit.size ? s->len : limit.size, i = 0;
  while (i < n && (uint8_t)s->data[i] == limit.data[i]) i++;
  if (i >= n) return; /* one begins the other */
  unsigned c = (uint8_t)s->data[i];
  if (c < 0xff && c + 1 < limit.data[i]) {
    s->data[i] = (char)(c + 1);
    s->len = i + 1;
  }
}

/* The shortest text not less than the last key. */
static void shorten_last(od_str *s) {
  for (size_t i = 0; i < s->len; i++) {
    if ((uint8_t)s->data[i] == 0xff) continue;
    s->data[i] = (char)((uint8_t)s->data[i] + 1);
    s->len = i + 1;
    return;
  }
}

static od_status add_to_index(od_table_writer *w) {
  od_str place = OD_STR_INIT;
  od_wire_raw_varint(&place, w->pending_offset);
  od_wire_raw_varint(&place, w->pending_size);
  od_status st = od_str_check(&place);
  if (!st)
    st = block_add(&w->index, (od_view){(const uint8_t *)od_str_text(&w->last), w->last.len},
                   (od_view){(const uint8_t *)place.data, place.len});
  od_str_free(&place);
  w->pending = false;
  return st;
}

static od_status flush(od_table_writer *w) {
  if (w->data.restart_count == 0) return OD_OK;
  OD_TRY(write_block(w, &w->data, &w->pending_offset, &w->pending_size));
  w->pending = true;
  return OD_OK;
}

od_status od_table_add(od_table_writer *w, od_view key, od_view value) {
  if (w->any && od_view_compare(key, (od_view){(const uint8_t *)od_str_text(&w->last), w->last.len}) <= 0)
    return od_fail(OD_EINVAL, "%s: key '%.*s' comes after '%.*s': keys must ascend and differ", od_file_path(w->file),
                   (int)(key.size < 200 ? key.size : 200), (const char *)key.data,
                   (int)(w->last.len < 200 ? w->last.len : 200), od_str_text(&w->last));
  if (w->pending) {
    shorten(&w->last, key);
    OD_TRY(add_to_index(w));
  }
  od_str_clear(&w->last);
  od_str_add_bytes(&w->last, key.data, key.size);
  OD_TRY(od_str_check(&w->last));
  w->any = true;
  OD_TRY(block_add(&w->data, key, value));
  return block_size(&w->data) >= w->options.block_bytes ? flush(w) : OD_OK;
}

od_status od_table_finish(od_table_writer *w) {
  block none = {0};
  uint64_t meta_offset, meta_size, index_offset, index_size;
  OD_TRY(flush(w));
  od_status st = write_block(w, &none, &meta_offset, &meta_size);
  free_block(&none);
  OD_TRY(st);
  if (w->pending) {
    shorten_last(&w->last);
    OD_TRY(add_to_index(w));
  }
  OD_TRY(write_block(w, &w->index, &index_offset, &index_size));
  od_str footer = OD_STR_INIT;
  uint8_t magic[8];
  od_wire_raw_varint(&footer, meta_offset);
  od_wire_raw_varint(&footer, meta_size);
  od_wire_raw_varint(&footer, index_offset);
  od_wire_raw_varint(&footer, index_size);
  static const char zeros[FOOTER_HANDLES];
  if (footer.len < FOOTER_HANDLES) od_str_add_bytes(&footer, zeros, FOOTER_HANDLES - footer.len);
  od_store_u64(magic, TABLE_MAGIC);
  od_str_add_bytes(&footer, magic, sizeof magic);
  st = od_str_check(&footer);
  if (!st) st = od_file_write(w->file, footer.data, footer.len);
  od_str_free(&footer);
  return st;
}
