/* Fuzz target: tf.Examples. What parses is asked for every key, built again, and must parse to the same counts. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "io/example.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void copy_feature(od_example_builder *b, od_example *ex, const char *key) {
  const od_feature *f = od_example_find(ex, key);
  const float *floats;
  const int64_t *numbers;
  const od_view *bytes;
  size_t n = 0;
  od_status st = OD_OK;
  if (f->kind == OD_FEATURE_FLOAT && !(st = od_example_get_floats(ex, key, &floats, &n)))
    od_example_add_floats(b, key, floats, n);
  if (f->kind == OD_FEATURE_INT64 && !(st = od_example_get_int64s(ex, key, &numbers, &n)))
    od_example_add_int64s(b, key, numbers, n);
  if (f->kind == OD_FEATURE_BYTES && !(st = od_example_get_bytes(ex, key, &bytes, &n)))
    od_example_add_bytes_list(b, key, bytes, n);
  if (st || n != (f->kind == OD_FEATURE_NONE ? 0 : f->count)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  od_example ex = OD_EXAMPLE_INIT, again = OD_EXAMPLE_INIT;
  od_example_builder *b;
  od_str s = OD_STR_INIT;
  if (size > 1 << 20 || od_example_builder_new(&b) != OD_OK) return 0;
  if (od_example_parse(&ex, data, size) == OD_OK) {
    size_t kept = 0;
    for (size_t i = 0; i < ex.count; i++) {
      od_view k = ex.features[i].key;
      if (ex.features[i].kind == OD_FEATURE_NONE || (k.size && memchr(k.data, 0, k.size))) continue;
      char *key = od_strndup((const char *)k.data, k.size);
      if (!key) abort();
      copy_feature(b, &ex, key);
      od_free(key);
      kept++;
    }
    if (od_example_builder_finish(b, &s) != OD_OK || od_example_parse(&again, s.data, s.len) != OD_OK ||
        again.count != kept)
      abort();
    for (size_t i = 0; i < kept; i++) {
      char *key = od_strndup((const char *)again.features[i].key.data, again.features[i].key.size);
      const od_feature *f = key ? od_example_find(&ex, key) : NULL;
      if (!f || f->count != again.features[i].count || f->kind != again.features[i].kind) abort();
      od_free(key);
    }
  }
  od_example_free(&ex);
  od_example_free(&again);
  od_example_builder_free(b);
  od_str_free(&s);
  return 0;
}
