/* Helpers of the data room's tests: files, and comparing an Example with features in JSON. */
#ifndef DATA_TEST_H
#define DATA_TEST_H

#include "od_test.h"

#include <jansson.h>

#include "base/str.h"
#include "data/convert.h"
#include "io/example.h"
#include "image/decode.h"
#include "io/file.h"

/* printf into one of 64 static buffers. */
static inline const char *path_of(const char *format, ...) {
  static char text[64][1024];
  static int next;
  va_list args;
  va_start(args, format);
  char *t = text[next++ % 64];
  vsnprintf(t, sizeof text[0], format, args);
  va_end(args);
  return t;
}

static inline void copy_file(const char *from, const char *to) {
  CHECK_OK(od_path_make_parent(to));
  CHECK_OK(od_file_copy(from, to));
}

static inline void write_text(const char *path, const char *text) {
  CHECK_OK(od_file_write_all(path, text, strlen(text)));
}

/* All payloads of a record file; count in *n. */
static inline od_str *read_records(const char *path, int *n) {
  od_record_reader *r;
  od_view v;
  od_str *out = NULL;
  size_t cap = 0;
  *n = 0;
  CHECK_OK(od_record_reader_open(&r, path, NULL));
  od_status st;
  while ((st = od_record_read(r, &v)) == OD_OK) {
    CHECK_OK(od_grow(&out, &cap, (size_t)*n + 1, sizeof *out));
    out[*n] = OD_STR_INIT;
    od_str_add_bytes(&out[(*n)++], v.data, v.size);
  }
  CHECK(st == OD_END);
  od_record_reader_free(r);
  return out;
}

static inline void free_records(od_str *records, int n) {
  for (int i = 0; i < n; i++) od_str_free(&records[i]);
  od_free(records);
}

/* Every feature of `want` ({key: {kind: [values]}}, image/encoded as SHA-256) is in the Example, and no other. */
static inline void check_features(const od_str *record, json_t *want) {
  od_example ex = {0};
  CHECK_OK(od_example_parse(&ex, record->data, record->len));
  const char *key;
  json_t *kinds;
  CHECK(ex.count == json_object_size(want));
  json_object_foreach(want, key, kinds) {
    void *iter = json_object_iter(kinds);
    const char *kind = json_object_iter_key(iter);
    json_t *values = json_object_iter_value(iter);
    size_t n, count = json_array_size(values);
    if (strcmp(kind, "bytes_list") == 0) {
      const od_view *v;
      CHECK_OK(od_example_get_bytes(&ex, key, &v, &n));
      if (n != count) fail_msg("%s has %zu values, expected %zu", key, n, count);
      for (size_t i = 0; i < n; i++) {
        const char *expected = json_string_value(json_array_get(values, i));
        char sha[65];
        bool mask = strcmp(key, "image/object/mask") == 0, digest = mask || strcmp(key, "image/encoded") == 0;
        if (mask) { /* PNG writers differ; pixels do not */
          od_image m;
          CHECK_OK(od_image_decode(&m, v[i].data, v[i].size, 1));
          od_convert_sha256(sha, m.data, (size_t)m.height * (size_t)m.width);
          od_image_free(&m);
        } else {
          od_convert_sha256(sha, v[i].data, v[i].size);
        }
        if (digest ? strcmp(sha, expected) != 0
                   : v[i].size != strlen(expected) || memcmp(v[i].data, expected, v[i].size) != 0)
          fail_msg("%s[%zu] is '%.*s', expected '%s'", key, i, digest ? 64 : (int)v[i].size,
                   digest ? sha : (const char *)v[i].data, expected);
      }
    } else if (strcmp(kind, "float_sha256") == 0) {
      const float *v;
      char sha[65];
      CHECK_OK(od_example_get_floats(&ex, key, &v, &n));
      od_convert_sha256(sha, v, n * sizeof *v);
      CHECK_TEXT(sha, json_string_value(json_array_get(values, 0)));
    } else if (strcmp(kind, "float_list") == 0) {
      const float *v;
      CHECK_OK(od_example_get_floats(&ex, key, &v, &n));
      if (n != count) fail_msg("%s has %zu values, expected %zu", key, n, count);
      for (size_t i = 0; i < n; i++)
        if (!(v[i] == (float)json_number_value(json_array_get(values, i))))
          fail_msg("%s[%zu] is %.9g, expected %.9g", key, i, (double)v[i],
                   json_number_value(json_array_get(values, i)));
    } else {
      const int64_t *v;
      CHECK_OK(od_example_get_int64s(&ex, key, &v, &n));
      if (n != count) fail_msg("%s has %zu values, expected %zu", key, n, count);
      for (size_t i = 0; i < n; i++)
        if (v[i] != json_integer_value(json_array_get(values, i)))
          fail_msg("%s[%zu] is %lld, expected %lld", key, i, (long long)v[i],
                   (long long)json_integer_value(json_array_get(values, i)));
    }
  }
  od_example_free(&ex);
}

/* Collects warnings and lines. */
typedef struct {
  int warnings;
  char text[8192];
} heard;

static inline void hear_line(void *ctx, od_level level, const char *text) {
  heard *h = ctx;
  h->warnings += level == OD_WARNING;
  size_t n = strlen(h->text);
  snprintf(h->text + n, sizeof h->text - n, "%s\n", text);
}

#endif
