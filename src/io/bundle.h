/* TensorFlow checkpoints: reading V2 bundles (of any number of shards, sliced variables too) and V1 files, writing V2.
 *
 * A bundle is `<prefix>.index`, a table of names to places (io/table.h), and `<prefix>.data-0000i-of-0000n`, the bytes. Tensors
 * are read one at a time, when asked for, and their CRC-32C is checked. */
#ifndef OD_IO_BUNDLE_H
#define OD_IO_BUNDLE_H

#include <stdint.h>

#include "base/status.h"
#include "base/tensor.h"

typedef struct od_bundle od_bundle;

typedef struct {
  const char *name; /* as in the file, without ":0" */
  int tf_dtype;     /* number in TensorFlow's DataType */
  bool known;       /* dtype is one of ours; others can be listed, not read */
  od_dtype dtype;
  od_shape shape;
  uint64_t bytes; /* in the data files; 0 for V1, which does not say */
  size_t slices;  /* pieces of a partitioned variable; 0: stored whole */
} od_bundle_entry;

/* Opens a checkpoint. path is a prefix ("model.ckpt-1000"), its .index, .meta or any of its .data files, a folder (its
 * `checkpoint` file says which, see od_checkpoint_latest) or a V1 file. Errors: OD_ENOENT with what was looked for; OD_EDATA. */
OD_MUST_CHECK od_status od_bundle_open(od_bundle **out, const char *path);
void od_bundle_free(od_bundle *b);
/* The prefix, or the V1 file's path. */
const char *od_bundle_prefix(const od_bundle *b);
bool od_bundle_is_v1(const od_bundle *b);
int od_bundle_shards(const od_bundle *b);

/* Entries in the order of their names (bytes). */
size_t od_bundle_count(const od_bundle *b);
const od_bundle_entry *od_bundle_entry_at(const od_bundle *b, size_t i);
/* NULL when absent. */
const od_bundle_entry *od_bundle_find(const od_bundle *b, const char *name);

/* Reads a tensor; the caller frees it with od_tensor_free. OD_ENOENT when the name is absent (with the nearest name),
 * OD_EDATA naming tensor, file and offset at damage. Not thread-safe. */
OD_MUST_CHECK od_status od_bundle_read(od_tensor *out, od_bundle *b, const char *name);
/* The same into a tensor that is there: dtype and shape must be those of the file, else OD_EMISMATCH. Not for strings. */
OD_MUST_CHECK od_status od_bundle_read_into(od_tensor *t, od_bundle *b, const char *name);
/* Reads and throws away: checks the CRC of one tensor. */
OD_MUST_CHECK od_status od_bundle_verify(od_bundle *b, const char *name);

/* ------------------------------------------------------------------------------------------------------ writing */
typedef struct od_bundle_writer od_bundle_writer;

/* Starts `<prefix>.data-00000-of-00001` and `<prefix>.index`, which appear whole, data first, at od_bundle_writer_finish.
 * Makes the folder when it is missing. */
OD_MUST_CHECK od_status od_bundle_writer_new(od_bundle_writer **out, const char *prefix);
/* Appends a tensor; TensorFlow adds them in the order of their names. Names must differ and not be empty. */
OD_MUST_CHECK od_status od_bundle_add(od_bundle_writer *w, const char *name, const od_tensor *t);
/* Puts both files in place. Frees w in every case. */
OD_MUST_CHECK od_status od_bundle_writer_finish(od_bundle_writer *w);
/* Gives up: nothing appears. NULL is fine. */
void od_bundle_writer_drop(od_bundle_writer *w);

typedef struct {
  const char *name;
  od_tensor tensor; /* a view */
} od_named_tensor;

/* Writes tensors in the order of their names: the bytes that tf.train.Saver writes for them. The list is sorted in place. */
OD_MUST_CHECK od_status od_bundle_write(const char *prefix, od_named_tensor *list, size_t n);

#endif
