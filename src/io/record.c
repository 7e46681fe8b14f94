/* Reading TFRecord files, see record.h. The packed forms go through zlib; which one a file has is told by its first bytes,
 * but only where these are no right plain frame: a plain length can look like gzip's mark. */
#include "io/record.h"

#include <string.h>
#include <zlib.h>

#include "base/mem.h"
#include "io/crc32c.h"
#include "io/wire.h"

enum { FRAME_HEAD = 12, FRAME_TAIL = 4, PIECE = 1 << 16 };
#define DEFAULT_MAX (1ull << 30)

struct od_record_reader {
  od_file *file;
  od_record_compression compression;
  uint64_t max, size;     /* size: of the file */
  uint64_t at;            /* unpacked bytes read */
  uint64_t number, start; /* of the record last tried */
  bool begun, dead, ended, can_skip;
  uint8_t *payload;
  size_t cap;
  z_stream z;
  bool z_open, z_end;
  uint8_t *piece; /* packed input */
};

static uint64_t max_of(const od_record_options *o) { return o && o->max_record ? o->max_record : DEFAULT_MAX; }

/* ------------------------------------------------------------------------------------------------------------ advice */
/* Line-end conversion (git's autocrlf, FTP's text mode) is the usual way to ruin a record file. Compressed pictures hold
 * about one CR LF in 65536 bytes: none where several are due, or one at every LF, gives it away. */
static const char *advice(od_file *f) {
  enum { LOOK = 64 << 20 };
  static const char *const plain = "make the file or fetch it again";
  uint8_t *b = od_alloc(PIECE);
  if (!b) return plain;
  double lf = 0, cr = 0, pairs = 0, bytes = 0;
  uint8_t last = 0;
  for (uint64_t at = 0; at < LOOK; at += PIECE) {
    size_t got;
    if (od_file_read_at(f, b, PIECE, at, &got) != OD_OK || got == 0) break;
    for (size_t i = 0; i < got; i++) {
      if (b[i] == '\n') lf++, pairs += last == '\r';
      if (b[i] == '\r') cr++;
      last = b[i];
    }
    bytes += (double)got;
  }
  od_free(b);
  if (lf >= 16 && pairs == lf)
    return "every line feed in it follows a carriage return: a line-end conversion (git autocrlf, FTP text mode) has "
           "damaged it; fetch it again as binary";
  if (pairs == 0 && bytes > 0 && lf * cr / bytes >= 6)
    return "it holds no carriage return before a line feed: a line-end conversion (git autocrlf, FTP text mode) has "
           "removed "
           "them; fetch it again as binary";
  return plain;
}

static od_status bad(od_file *f, uint64_t number, uint64_t offset, const char *what, od_record_compression c) {
  od_status st = od_fail(OD_EDATA, "%s", c == OD_RECORD_PLAIN ? advice(f) : "make the file or fetch it again");
  return od_fail_context(st, "%s: record %llu at byte %llu%s: %s", od_file_path(f), (unsigned long long)number,
                         (unsigned long long)offset, c == OD_RECORD_PLAIN ? "" : " (unpacked)", what);
}

/* ------------------------------------------------------------------------------------------------------------ the stream */
static od_status inflate_more(od_record_reader *r, uint8_t *to, size_t n, size_t *got) {
  z_stream *z = &r->z;
  z->next_out = to;
  z->avail_out = (uInt)(n < PIECE * 256u ? n : PIECE * 256u);
  uInt asked = z->avail_out;
  while (z->avail_out == asked) {
    if (z->avail_in == 0) {
      size_t have;
      OD_TRY(od_file_read(r->file, r->piece, PIECE, &have));
      z->next_in = r->piece;
      z->avail_in = (uInt)have;
    }
    if (r->z_end) {
      if (z->avail_in == 0) break;
      if (inflateReset(z) != Z_OK) return od_fail(OD_EDATA, "%s: zlib refuses to go on", od_file_path(r->file));
      r->z_end = false; /* files of several members, as `cat a.gz b.gz` makes */
    }
    int rc = inflate(z, Z_NO_FLUSH);
    if (rc == Z_STREAM_END)
      r->z_end = true;
    else if (rc != Z_OK && !(rc == Z_BUF_ERROR && z->avail_in == 0))
      return od_fail(rc == Z_MEM_ERROR ? OD_ENOMEM : OD_EDATA,
                     "%s: the packed data is damaged at packed byte %llu (%s): make the file or fetch it again",
                     od_file_path(r->file), (unsigned long long)(od_file_tell(r->file) - z->avail_in),
                     z->msg ? z->msg : "zlib");
    else if (z->avail_in == 0 && z->avail_out == asked && od_file_tell(r->file) >= r->size)
      return od_fail(OD_EDATA, "%s: the packed data ends early, at byte %llu: make the file or fetch it again",
                     od_file_path(r->file), (unsigned long long)r->size);
  }
  *got = asked - z->avail_out;
  return OD_OK;
}

/* Reads up to n unpacked bytes; fewer only at the end. */
static od_status pull(od_record_reader *r, void *data, size_t n, size_t *got) {
  uint8_t *to = data;
  *got = 0;
  if (r->compression == OD_RECORD_PLAIN) {
    OD_TRY(od_file_read(r->file, data, n, got));
  } else {
    for (size_t more = 1; *got < n && more > 0; *got += more) OD_TRY(inflate_more(r, to + *got, n - *got, &more));
  }
  r->at += *got;
  return OD_OK;
}

static void *z_alloc(void *ctx, uInt n, uInt size) {
  (void)ctx;
  return od_calloc(n, size);
}

static void z_free(void *ctx, void *p) {
  (void)ctx;
  od_free(p);
}

static od_status begin_inflate(od_record_reader *r) {
  r->piece = od_alloc(PIECE);
  if (!r->piece) return OD_ENOMEM;
  r->z.zalloc = z_alloc;
  r->z.zfree = z_free;
  if (inflateInit2(&r->z, 15 + 32) != Z_OK)
    return od_fail(OD_ENOMEM, "out of memory for unpacking %s", od_file_path(r->file));
  r->z_open = true;
  return OD_OK;
}

static bool head_is_right(const uint8_t head[FRAME_HEAD]) {
  return od_crc32c_mask(od_crc32c(head, 8)) == od_load_u32(head + 8);
}

/* What the first bytes say; plain when nothing speaks for another form. */
static od_record_compression guess(const uint8_t *head, size_t n) {
  if (n == FRAME_HEAD && head_is_right(head)) return OD_RECORD_PLAIN;
  if (n >= 3 && head[0] == 0x1f && head[1] == 0x8b && head[2] == 8) return OD_RECORD_GZIP;
  if (n >= 2 && (head[0] & 15) == 8 && (head[0] >> 4) <= 7 && (head[0] * 256 + head[1]) % 31 == 0 && !(head[1] & 32))
    return OD_RECORD_ZLIB;
  return OD_RECORD_PLAIN;
}

od_status od_record_reader_open(od_record_reader **out, const char *path, const od_record_options *options) {
  *out = NULL;
  od_record_reader *r;
  OD_TRY(od_new(&r, 1, sizeof *r));
  od_status st;
  uint8_t head[FRAME_HEAD];
  size_t got;
  r->max = max_of(options);
  OD_GO(st, od_file_open(&r->file, path));
  OD_GO(st, od_file_size(&r->size, r->file));
  r->compression = options ? options->compression : OD_RECORD_AUTO;
  if (r->compression == OD_RECORD_AUTO) {
    OD_GO(st, od_file_read_at(r->file, head, sizeof head, 0, &got));
    r->compression = guess(head, got);
  }
  if (r->compression != OD_RECORD_PLAIN) OD_GO(st, begin_inflate(r));
  *out = r;
  return OD_OK;
done:
  od_record_reader_free(r);
  return st;
}

void od_record_reader_free(od_record_reader *r) {
  if (!r) return;
  if (r->z_open) inflateEnd(&r->z);
  od_file_drop(r->file);
  od_free(r->payload);
  od_free(r->piece);
  od_free(r);
}

/* ------------------------------------------------------------------------------------------------------------ one by one */
/* Says what a broken frame looks like; the frame's end is unknown, so nothing behind it can be read. */
static od_status bad_frame(od_record_reader *r, const char *what) {
  r->dead = true;
  return bad(r->file, r->number, r->start, what, r->compression);
}

/* Grows step by step in packed files, whose real size is unknown: a hostile length must not book a gigabyte. */
static od_status pull_payload(od_record_reader *r, size_t size, size_t *got) {
  *got = 0;
  while (*got < size) {
    size_t step = size - *got, more;
    if (r->compression != OD_RECORD_PLAIN && step > (16u << 20)) step = 16u << 20;
    OD_TRY(od_grow(&r->payload, &r->cap, *got + step, 1));
    OD_TRY(pull(r, r->payload + *got, step, &more));
    *got += more;
    if (more < step) break;
  }
  return OD_OK;
}

static od_status read_record(od_record_reader *r, od_view *payload) {
  uint8_t head[FRAME_HEAD], tail[FRAME_TAIL];
  size_t got;
  if (r->begun) r->number++;
  r->start = r->at;
  r->begun = true;
  OD_TRY(pull(r, head, sizeof head, &got));
  if (got == 0) {
    r->number -= r->start ? 1 : 0; /* still at the last record, for those who ask */
    return OD_END;
  }
  if (got < sizeof head) return bad_frame(r, "the file ends inside the record's head; it was cut off");
  if (!head_is_right(head))
    return bad_frame(r, r->number == 0 && r->start == 0
                            ? "the CRC of the length is wrong at the very start, as if this were no TFRecord file"
                            : "the CRC of the length is wrong");
  uint64_t size = od_load_u64(head);
  if (size > r->max) {
    r->dead = true;
    return od_fail(OD_EDATA, "%s: record %llu at byte %llu: its length is %llu bytes, at most %llu are accepted",
                   od_file_path(r->file), (unsigned long long)r->number, (unsigned long long)r->start,
                   (unsigned long long)size, (unsigned long long)r->max);
  }
  if (r->compression == OD_RECORD_PLAIN && size > r->size - r->at)
    return bad_frame(r, "the file ends inside the record's payload; it was cut off");
  OD_TRY(pull_payload(r, (size_t)size, &got));
  if (got < size) return bad_frame(r, "the file ends inside the record's payload; it was cut off");
  OD_TRY(pull(r, tail, sizeof tail, &got));
  if (got < sizeof tail) return bad_frame(r, "the file ends inside the CRC of the payload; it was cut off");
  if (od_crc32c_mask(od_crc32c(r->payload, (size_t)size)) != od_load_u32(tail)) {
    r->can_skip = true;
    return bad(r->file, r->number, r->start, "the CRC of the payload is wrong", r->compression);
  }
  *payload = (od_view){r->payload, (size_t)size};
  return OD_OK;
}

od_status od_record_read(od_record_reader *r, od_view *payload) {
  *payload = (od_view){0};
  if (r->ended) return OD_END;
  if (r->dead)
    return od_fail(OD_EDATA, "%s: cannot be read on after its damage at record %llu", od_file_path(r->file),
                   (unsigned long long)r->number);
  r->can_skip = false;
  od_status st = read_record(r, payload);
  r->ended = st == OD_END;
  if (st && !r->can_skip) r->dead = true;
  return st;
}

bool od_record_reader_can_skip(const od_record_reader *r) { return r->can_skip; }
uint64_t od_record_reader_number(const od_record_reader *r) { return r->number; }
uint64_t od_record_reader_offset(const od_record_reader *r) { return r->start; }
od_record_compression od_record_reader_compression(const od_record_reader *r) { return r->compression; }

od_status od_record_probe(bool *is_record, const char *path) {
  od_record_reader *r;
  uint8_t head[FRAME_HEAD];
  size_t got = 0;
  *is_record = false;
  OD_TRY(od_record_reader_open(&r, path, NULL));
  od_status st = pull(r, head, sizeof head, &got);
  od_record_reader_free(r);
  if (st == OD_EDATA) return OD_OK; /* packed, but not whole: no record file to us */
  *is_record = got == sizeof head && head_is_right(head);
  return st;
}

/* ------------------------------------------------------------------------------------------------------------ at random */
struct od_record_file {
  od_file *file;
  uint64_t *offsets; /* count + 1: the last is the end */
  size_t cap;
  uint64_t count, max;
};

static od_status scan(od_record_file *f) {
  uint64_t size, at = 0;
  uint8_t head[FRAME_HEAD];
  size_t got;
  OD_TRY(od_file_size(&size, f->file));
  for (;; f->count++) {
    OD_TRY(od_grow(&f->offsets, &f->cap, (size_t)f->count + 1, sizeof *f->offsets));
    f->offsets[f->count] = at;
    if (at == size) return OD_OK;
    OD_TRY(od_file_seek(f->file, at));
    OD_TRY(od_file_read(f->file, head, sizeof head, &got));
    if (got < sizeof head)
      return bad(f->file, f->count, at, "the file ends inside the record's head; it was cut off", OD_RECORD_PLAIN);
    if (!head_is_right(head))
      return bad(f->file, f->count, at,
                 at == 0 ? "the CRC of the length is wrong at the very start, as if this were no TFRecord file"
                         : "the CRC of the length is wrong",
                 OD_RECORD_PLAIN);
    uint64_t n = od_load_u64(head), rest = size - at - FRAME_HEAD;
    if (n > f->max)
      return od_fail(OD_EDATA, "%s: record %llu at byte %llu: its length is %llu bytes, at most %llu are accepted",
                     od_file_path(f->file), (unsigned long long)f->count, (unsigned long long)at, (unsigned long long)n,
                     (unsigned long long)f->max);
    if (rest < FRAME_TAIL || n > rest - FRAME_TAIL)
      return bad(f->file, f->count, at, "the file ends inside the record; it was cut off", OD_RECORD_PLAIN);
    at += FRAME_HEAD + n + FRAME_TAIL;
  }
}

od_status od_record_file_open(od_record_file **out, const char *path, const od_record_options *options) {
  *out = NULL;
  od_record_file *f;
  uint8_t head[FRAME_HEAD];
  size_t got;
  OD_TRY(od_new(&f, 1, sizeof *f));
  f->max = max_of(options);
  od_record_compression c = options ? options->compression : OD_RECORD_AUTO;
  od_status st;
  OD_GO(st, od_file_open(&f->file, path));
  if (c == OD_RECORD_AUTO) {
    OD_GO(st, od_file_read_at(f->file, head, sizeof head, 0, &got));
    c = guess(head, got);
  }
  if (c != OD_RECORD_PLAIN) {
    st = od_fail(OD_EUNSUPPORTED, "%s is compressed: its records can only be read one after the other", path);
    goto done;
  }
  OD_GO(st, scan(f));
  *out = f;
  return OD_OK;
done:
  od_record_file_free(f);
  return st;
}

uint64_t od_record_file_count(const od_record_file *f) { return f->count; }
const char *od_record_file_path(const od_record_file *f) { return od_file_path(f->file); }
uint64_t od_record_file_offset(const od_record_file *f, uint64_t i) { return f->offsets[i]; }
uint64_t od_record_file_payload_size(const od_record_file *f, uint64_t i) {
  return f->offsets[i + 1] - f->offsets[i] - FRAME_HEAD - FRAME_TAIL;
}

od_status od_record_file_read(od_record_file *f, uint64_t i, od_str *buffer) {
  OD_ASSERT(i < f->count);
  size_t size = (size_t)od_record_file_payload_size(f, i), got;
  od_str_clear(buffer);
  if (buffer->failed) *buffer = OD_STR_INIT;
  OD_TRY(od_grow(&buffer->data, &buffer->cap, size + FRAME_TAIL + 1, 1));
  OD_TRY(od_file_read_at(f->file, buffer->data, size + FRAME_TAIL, f->offsets[i] + FRAME_HEAD, &got));
  if (got < size + FRAME_TAIL)
    return bad(f->file, i, f->offsets[i], "the file has become shorter since it was opened", OD_RECORD_PLAIN);
  if (od_crc32c_mask(od_crc32c(buffer->data, size)) != od_load_u32(buffer->data + size))
    return bad(f->file, i, f->offsets[i], "the CRC of the payload is wrong", OD_RECORD_PLAIN);
  buffer->len = size;
  buffer->data[size] = 0;
  return OD_OK;
}

void od_record_file_free(od_record_file *f) {
  if (!f) return;
  od_file_drop(f->file);
  od_free(f->offsets);
  od_free(f);
}
