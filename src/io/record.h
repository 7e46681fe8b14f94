/* TFRecord files: framed byte strings, each with a CRC-32C of its length and one of its bytes; plain, gzip or zlib.
 *
 * Frame: length u64, masked CRC of those 8 bytes u32, payload, masked CRC of the payload u32, all little-endian. Errors name
 * file, number of the record (from 0), its byte offset and what to do. */
#ifndef OD_IO_RECORD_H
#define OD_IO_RECORD_H

#include <stdint.h>

#include "base/status.h"
#include "base/str.h"
#include "io/file.h"

typedef enum {
  OD_RECORD_AUTO, /* reading: by content; writing: plain */
  OD_RECORD_PLAIN,
  OD_RECORD_GZIP,
  OD_RECORD_ZLIB
} od_record_compression;

/* Zero-initialised is the default everywhere; NULL stands for it. */
typedef struct {
  od_record_compression compression;
  uint64_t max_record; /* longest payload accepted, in bytes; 0: 1 GiB */
} od_record_options;

/* ------------------------------------------------------------------------------------------------------ one by one */
typedef struct od_record_reader od_record_reader;

OD_MUST_CHECK od_status od_record_reader_open(od_record_reader **out, const char *path,
                                              const od_record_options *options);
/* The next payload, valid until the next call; OD_END behind the last one. After an error only OD_EDATA of a payload (its
 * CRC, not its frame) lets reading go on: od_record_reader_can_skip tells. */
OD_MUST_CHECK od_status od_record_read(od_record_reader *r, od_view *payload);
/* The last error hurt one payload only: the next od_record_read gives the record behind it. */
bool od_record_reader_can_skip(const od_record_reader *r);
/* Number (from 0) and byte offset of the record last read or tried; the offset of a compressed file counts unpacked bytes. */
uint64_t od_record_reader_number(const od_record_reader *r);
uint64_t od_record_reader_offset(const od_record_reader *r);
/* How the file is packed: never OD_RECORD_AUTO. */
od_record_compression od_record_reader_compression(const od_record_reader *r);
void od_record_reader_free(od_record_reader *r);

/* The content of path begins like a record file (a right length CRC, plain or packed). Empty files are none. */
OD_MUST_CHECK od_status od_record_probe(bool *is_record, const char *path);

/* ------------------------------------------------------------------------------------------------------ at random */
typedef struct od_record_file od_record_file;

/* Opens a plain file and scans its frames (lengths and their CRCs, not the payloads), 8 bytes of memory a record. A packed
 * file gives OD_EUNSUPPORTED: read it one by one. */
OD_MUST_CHECK od_status od_record_file_open(od_record_file **out, const char *path, const od_record_options *options);
uint64_t od_record_file_count(const od_record_file *f);
const char *od_record_file_path(const od_record_file *f);
/* Offset of record i's frame in bytes, i < count. */
uint64_t od_record_file_offset(const od_record_file *f, uint64_t i);
/* Bytes of record i's payload. */
uint64_t od_record_file_payload_size(const od_record_file *f, uint64_t i);
/* Puts the payload of record i into buffer (its old contents are lost, its memory is used again), CRC checked. Thread-safe. */
OD_MUST_CHECK od_status od_record_file_read(od_record_file *f, uint64_t i, od_str *buffer);
void od_record_file_free(od_record_file *f);

/* ------------------------------------------------------------------------------------------------------ writing */
typedef struct od_record_writer od_record_writer;

/* The file appears whole at od_record_writer_close (od_file_replace). Makes the folder when it is missing. */
OD_MUST_CHECK od_status od_record_writer_open(od_record_writer **out, const char *path,
                                              const od_record_options *options);
OD_MUST_CHECK od_status od_record_write(od_record_writer *w, const void *payload, size_t size);
/* Finishes and frees, also after an error. NULL is fine. */
OD_MUST_CHECK od_status od_record_writer_close(od_record_writer *w);
/* Gives up: nothing appears. NULL is fine. */
void od_record_writer_drop(od_record_writer *w);

/* Frames a payload into s: for files that are written in place, as event files are. */
void od_record_frame(od_str *s, const void *payload, size_t size);

typedef struct od_record_shards od_record_shards;

/* Writes `base-00000-of-000nn` ... (n >= 1), or the one file `base` when n is 0. */
OD_MUST_CHECK od_status od_record_shards_open(od_record_shards **out, const char *base, int n,
                                              const od_record_options *options);
/* Writes to shard index mod n, as the original's converters do; a skipped example still uses up its index. */
OD_MUST_CHECK od_status od_record_shards_write(od_record_shards *s, uint64_t index, const void *payload, size_t size);
OD_MUST_CHECK od_status od_record_shards_close(od_record_shards *s);
void od_record_shards_drop(od_record_shards *s);

#endif
