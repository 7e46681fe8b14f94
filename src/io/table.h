/* Sorted string tables as LevelDB and TensorFlow write them: the .index of a checkpoint, and all of a V1 checkpoint.
 *
 * A file is blocks of sorted (key, value) pairs with shared prefixes, an index block of (last key, place) and a footer with a
 * magic number; each block is followed by its packing (none or snappy) and a masked CRC-32C. Format:
 * https://github.com/google/leveldb/blob/main/doc/table_format.md */
#ifndef OD_IO_TABLE_H
#define OD_IO_TABLE_H

#include <stdint.h>

#include "base/status.h"
#include "base/str.h"
#include "io/file.h"

typedef struct od_table od_table;

/* Opens a table over the bytes of a whole file, which must stay; name is for messages (copied). OD_EDATA when it is none. */
OD_MUST_CHECK od_status od_table_open(od_table **out, od_view file, const char *name);
void od_table_free(od_table *t);
/* The last bytes of a file are a table's footer. */
bool od_table_probe(od_view file);

/* Goes to the first key that is not less than key (an empty key: to the beginning). */
OD_MUST_CHECK od_status od_table_seek(od_table *t, od_view key);
/* The next pair, valid until the next call on t; OD_END behind the last. Keys are checked to ascend, blocks by their CRC. */
OD_MUST_CHECK od_status od_table_next(od_table *t, od_view *key, od_view *value);
/* The value of a key; OD_ENOENT when it is absent. Valid until the next call on t. */
OD_MUST_CHECK od_status od_table_get(od_table *t, od_view key, od_view *value);

typedef struct {
  size_t block_bytes;   /* a block ends when it is that long; 0: 262144, as TensorFlow */
  int restart_interval; /* pairs between whole keys; 0: 16, as TensorFlow */
  bool snappy;          /* pack blocks where it saves an eighth */
} od_table_options;

typedef struct od_table_writer od_table_writer;

/* Writes to f, which stays the caller's, from its position on. Same pairs and options give the same bytes as TensorFlow's
 * TableBuilder. */
OD_MUST_CHECK od_status od_table_writer_new(od_table_writer **out, od_file *f, const od_table_options *options);
/* Keys must come in ascending order of their bytes, each once: OD_EINVAL otherwise. */
OD_MUST_CHECK od_status od_table_add(od_table_writer *w, od_view key, od_view value);
/* Writes what is left, index and footer. */
OD_MUST_CHECK od_status od_table_finish(od_table_writer *w);
void od_table_writer_free(od_table_writer *w);

/* Order of bytes, the shorter first where one begins the other: <0, 0, >0. */
int od_view_compare(od_view a, od_view b);

#endif
