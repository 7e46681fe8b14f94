/* Writing TFRecord files, one or in shards; see record.h. */
#include <string.h>
#include <zlib.h>

#include "base/mem.h"
#include "io/crc32c.h"
#include "io/record.h"
#include "io/wire.h"

enum { PIECE = 1 << 16, MAX_SHARDS = 1000 };

struct od_record_writer {
  od_file *file;
  bool packed;
  z_stream z;
  uint8_t *piece; /* packed output */
};

static void *z_alloc(void *ctx, uInt n, uInt size) {
  (void)ctx;
  return od_calloc(n, size);
}

static void z_free(void *ctx, void *p) {
  (void)ctx;
  od_free(p);
}

od_status od_record_writer_open(od_record_writer **out, const char *path, const od_record_options *options) {
  *out = NULL;
  od_record_writer *w;
  OD_TRY(od_new(&w, 1, sizeof *w));
  od_record_compression c = options ? options->compression : OD_RECORD_AUTO;
  od_status st;
  OD_GO(st, od_path_make_parent(path));
  OD_GO(st, od_file_replace(&w->file, path));
  if (c == OD_RECORD_GZIP || c == OD_RECORD_ZLIB) {
    w->z.zalloc = z_alloc;
    w->z.zfree = z_free;
    w->piece = od_alloc(PIECE);
    if (!w->piece || deflateInit2(&w->z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, c == OD_RECORD_GZIP ? 15 + 16 : 15, 8,
                                  Z_DEFAULT_STRATEGY) != Z_OK) {
      st = od_fail(OD_ENOMEM, "out of memory for packing %s", path);
      goto done;
    }
    w->packed = true;
  }
  *out = w;
  return OD_OK;
done:
  od_record_writer_drop(w);
  return st;
}

/* Packs n bytes, or ends the packed stream. */
static od_status pack(od_record_writer *w, const void *data, size_t n, int flush) {
  w->z.next_in = (uint8_t *)(uintptr_t)data;
  do {
    size_t step = n < (1u << 30) ? n : 1u << 30;
    w->z.avail_in = (uInt)step;
    n -= step;
    do {
      w->z.next_out = w->piece;
      w->z.avail_out = PIECE;
      int rc = deflate(&w->z, flush);
      OD_ASSERT(rc != Z_STREAM_ERROR);
      OD_TRY(od_file_write(w->file, w->piece, PIECE - w->z.avail_out));
    } while (w->z.avail_out == 0);
  } while (n > 0);
  return OD_OK;
}

static od_status put(od_record_writer *w, const void *data, size_t n) {
  return w->packed ? (n ? pack(w, data, n, Z_NO_FLUSH) : OD_OK) : od_file_write(w->file, data, n);
}

static void make_head(uint8_t head[12], size_t size) {
  od_store_u64(head, size);
  od_store_u32(head + 8, od_crc32c_mask(od_crc32c(head, 8)));
}

static void make_tail(uint8_t tail[4], const void *payload, size_t size) {
  od_store_u32(tail, od_crc32c_mask(od_crc32c(payload, size)));
}

od_status od_record_write(od_record_writer *w, const void *payload, size_t size) {
  uint8_t head[12], tail[4];
  make_head(head, size);
  make_tail(tail, payload, size);
  OD_TRY(put(w, head, sizeof head));
  OD_TRY(put(w, payload, size));
  return put(w, tail, sizeof tail);
}

void od_record_frame(od_str *s, const void *payload, size_t size) {
  uint8_t head[12], tail[4];
  make_head(head, size);
  make_tail(tail, payload, size);
  od_str_add_bytes(s, head, sizeof head);
  od_str_add_bytes(s, payload, size);
  od_str_add_bytes(s, tail, sizeof tail);
}

static void free_writer(od_record_writer *w) {
  if (w->packed) deflateEnd(&w->z);
  od_free(w->piece);
  od_free(w);
}

od_status od_record_writer_close(od_record_writer *w) {
  if (!w) return OD_OK;
  od_status st = w->packed ? pack(w, NULL, 0, Z_FINISH) : OD_OK;
  if (st)
    od_file_drop(w->file);
  else
    st = od_file_close(w->file);
  free_writer(w);
  return st;
}

void od_record_writer_drop(od_record_writer *w) {
  if (!w) return;
  od_file_drop(w->file);
  free_writer(w);
}

/* ------------------------------------------------------------------------------------------------------------ shards */
struct od_record_shards {
  int count;
  od_record_writer *writers[];
};

od_status od_record_shards_open(od_record_shards **out, const char *base, int n, const od_record_options *options) {
  *out = NULL;
  if (n < 0 || n > MAX_SHARDS)
    return od_fail(OD_EINVAL, "%s: %d shards asked for, 0 (one plain file) to %d are possible", base, n,
                   (int)MAX_SHARDS);
  int files = n > 0 ? n : 1;
  od_record_shards *s;
  OD_TRY(od_new(&s, 1, sizeof *s + (size_t)files * sizeof(od_record_writer *)));
  s->count = files;
  od_status st = OD_OK;
  for (int i = 0; i < files && !st; i++) {
    od_str path = OD_STR_INIT;
    od_str_add(&path, base);
    if (n > 0) od_str_addf(&path, "-%05d-of-%05d", i, n);
    st = od_str_check(&path);
    if (!st) st = od_record_writer_open(&s->writers[i], od_str_text(&path), options);
    od_str_free(&path);
  }
  if (st)
    od_record_shards_drop(s);
  else
    *out = s;
  return st;
}

od_status od_record_shards_write(od_record_shards *s, uint64_t index, const void *payload, size_t size) {
  return od_record_write(s->writers[index % (uint64_t)s->count], payload, size);
}

od_status od_record_shards_close(od_record_shards *s) {
  if (!s) return OD_OK;
  od_status st = OD_OK;
  for (int i = 0; i < s->count; i++) { /* after an error nothing more appears */
    if (st)
      od_record_writer_drop(s->writers[i]);
    else
      st = od_record_writer_close(s->writers[i]);
  }
  od_free(s);
  return st;
}

void od_record_shards_drop(od_record_shards *s) {
  if (!s) return;
  for (int i = 0; i < s->count; i++) od_record_writer_drop(s->writers[i]);
  od_free(s);
}
