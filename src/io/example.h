/* tf.train.Example: a map from a key to a list of byte strings, floats or 64-bit integers; parsed in place and built.
 *
 * The parser follows protobuf: packed and unpacked numbers, fields in any order and number, the last entry of a key wins,
 * unknown fields are passed over. It copies numbers only when they are asked for and byte strings never. */
#ifndef OD_IO_EXAMPLE_H
#define OD_IO_EXAMPLE_H

#include <stdint.h>

#include "base/status.h"
#include "base/str.h"
#include "io/file.h"

/* Numbers of Feature's oneof in TensorFlow's feature.proto. */
typedef enum { OD_FEATURE_NONE = 0, OD_FEATURE_BYTES = 1, OD_FEATURE_FLOAT = 2, OD_FEATURE_INT64 = 3 } od_feature_kind;
/* "bytes", "float", "int64", or "none". */
const char *od_feature_kind_name(od_feature_kind kind);

typedef struct {
  od_view key; /* borrowed, not zero-terminated */
  od_feature_kind kind;
  size_t count;  /* of elements */
  od_view lists; /* the fields of Feature that count; for example.c */
} od_feature;

/* A parsed Example. Start from OD_EXAMPLE_INIT, parse any number of times, free once. Not thread-safe. */
typedef struct {
  od_feature *features; /* each key once */
  size_t count, cap;
  struct od_arena *arena; /* holds what the getters gave, until the next parse */
} od_example;
#define OD_EXAMPLE_INIT ((od_example){0})

/* Parses a serialized Example. Borrows the bytes: they must stay until the next parse or free. OD_EDATA when they are no
 * Example; the message says what is wrong and at which byte. At most 4096 keys. */
OD_MUST_CHECK od_status od_example_parse(od_example *ex, const void *data, size_t size);
void od_example_free(od_example *ex);

/* The feature of a key, NULL when it is absent. Borrowed until the next parse. */
const od_feature *od_example_find(const od_example *ex, const char *key);

/* Elements of a key. Absent, or without a kind: *count 0 and OD_OK. Of another kind: OD_EDATA naming the key and both kinds.
 * What *out points to lives until the next parse or free. */
OD_MUST_CHECK od_status od_example_get_floats(od_example *ex, const char *key, const float **out, size_t *count);
OD_MUST_CHECK od_status od_example_get_int64s(od_example *ex, const char *key, const int64_t **out, size_t *count);
OD_MUST_CHECK od_status od_example_get_bytes(od_example *ex, const char *key, const od_view **out, size_t *count);
/* The first element, or the default where there is none. */
OD_MUST_CHECK od_status od_example_get_int64(od_example *ex, const char *key, int64_t *out, int64_t otherwise);
OD_MUST_CHECK od_status od_example_get_text(od_example *ex, const char *key, od_view *out, const char *otherwise);

/* ------------------------------------------------------------------------------------------------------ building */
typedef struct od_example_builder od_example_builder;

OD_MUST_CHECK od_status od_example_builder_new(od_example_builder **out);
void od_example_builder_free(od_example_builder *b);
/* Forgets all keys, for the next Example. */
void od_example_builder_reset(od_example_builder *b);
/* Each sets a key, replacing what it had; values are copied. An empty list keeps its kind, as in the original. Sticky: the first
 * error shows at od_example_builder_finish. */
void od_example_add_floats(od_example_builder *b, const char *key, const float *values, size_t n);
void od_example_add_int64s(od_example_builder *b, const char *key, const int64_t *values, size_t n);
void od_example_add_int64(od_example_builder *b, const char *key, int64_t value);
void od_example_add_bytes_list(od_example_builder *b, const char *key, const od_view *values, size_t n);
void od_example_add_bytes(od_example_builder *b, const char *key, const void *data, size_t size);
void od_example_add_text(od_example_builder *b, const char *key, const char *text);
/* Appends the serialized Example to out, keys sorted by bytes (TensorFlow writes them in the order of a hash table; a map has
 * no order). The builder keeps its keys. */
OD_MUST_CHECK od_status od_example_builder_finish(od_example_builder *b, od_str *out);

#endif
