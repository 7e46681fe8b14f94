/* What bundle.c and bundle_v1.c share. Private to bundle*.c. */
#ifndef OD_IO_BUNDLE_FILE_H
#define OD_IO_BUNDLE_FILE_H

#include "base/mem.h"
#include "io/bundle.h"
#include "io/bundle_slice.h"
#include "io/file.h"
#include "io/table.h"

/* Where bytes lie in a V2 bundle. */
typedef struct {
  int shard;
  uint64_t offset, size;
  uint32_t crc; /* masked */
} od_bundle_place;

/* One entry: what callers see, and where it is. */
typedef struct {
  od_bundle_entry seen;
  od_bundle_place place;
  od_slice *slices; /* seen.slices of them; in the arena */
} od_bundle_item;

/* A slice's own entry of a V2 bundle. */
typedef struct {
  od_view key; /* in the arena */
  int tf_dtype;
  od_shape shape;
  od_bundle_place place;
} od_bundle_part;

struct od_bundle {
  char *prefix;
  bool v1;
  int shards;
  od_arena *arena; /* names, slices, keys */
  od_bundle_item *items;
  size_t count, cap;
  od_bundle_part *parts; /* in the order of their keys */
  size_t part_count, part_cap;
  od_file **files; /* V2: the data files, opened when first needed; `shards` of them */
  od_view map;     /* V1: the file */
  od_table *table; /* V1 */
};

/* The next item, zeroed. */
OD_MUST_CHECK od_status od_bundle_new_item(od_bundle *b, od_bundle_item **out);
/* Sets dtype, shape; checks that the shape is possible. */
OD_MUST_CHECK od_status od_bundle_set_type(od_bundle *b, od_bundle_item *item, int tf_dtype, const od_shape *shape);
/* V1: opens the file of b->prefix and lists it; reads one tensor into allocated memory. */
OD_MUST_CHECK od_status od_bundle_v1_open(od_bundle *b);
OD_MUST_CHECK od_status od_bundle_v1_read(od_bundle *b, const od_bundle_item *item, od_tensor *t);

#endif
