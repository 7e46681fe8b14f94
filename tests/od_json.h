/* Reading golden files in tests: the first mistake in the file fails the test with its name. */
#ifndef OD_JSON_TEST_H
#define OD_JSON_TEST_H

#include <jansson.h>
#include <math.h>

#include "od_test.h"

static inline json_t *json_file(const char *path) {
  json_error_t error;
  json_t *root = json_load_file(path, 0, &error);
  if (!root) fail_msg("%s:%d: %s", path, error.line, error.text);
  return root;
}

static inline json_t *json_need(json_t *object, const char *key) {
  json_t *value = json_object_get(object, key);
  if (!value) fail_msg("no key '%s'", key);
  return value;
}

/* A number, also written as "nan", "inf", "-inf"; booleans are 0 and 1. */
static inline double json_num(json_t *value) {
  if (json_is_string(value)) return strtod(json_string_value(value), NULL);
  if (json_is_boolean(value)) return json_is_true(value);
  if (!json_is_number(value)) fail_msg("a JSON value is no number");
  return json_number_value(value);
}

static inline double json_num_or(json_t *object, const char *key, double otherwise) {
  json_t *value = json_object_get(object, key);
  return value && !json_is_null(value) ? json_num(value) : otherwise;
}

static inline size_t json_count(json_t *value) {
  if (!json_is_array(value)) return 1;
  size_t n = 0;
  for (size_t i = 0; i < json_array_size(value); i++) n += json_count(json_array_get(value, i));
  return n;
}

static inline float *json_fill(float *out, json_t *value) {
  if (!json_is_array(value)) {
    *out = (float)json_num(value);
    return out + 1;
  }
  for (size_t i = 0; i < json_array_size(value); i++) out = json_fill(out, json_array_get(value, i));
  return out;
}

/* All numbers of nested arrays, flattened; free with test_free of cmocka (the leak of one is a failure there). */
static inline float *json_floats(json_t *value, size_t *n) {
  *n = json_count(value);
  float *out = test_malloc((*n + 1) * sizeof *out);
  json_fill(out, value);
  return out;
}

/* Every number within abs_tol + rel_tol * |expected|; what names the array. */
static inline void json_near(json_t *expected, const float *got, double abs_tol, double rel_tol, const char *what) {
  size_t n;
  float *want = json_floats(expected, &n);
  for (size_t i = 0; i < n; i++) {
    double w = (double)want[i], g = (double)got[i];
    bool same = (isnan(w) && isnan(g)) || w == g || fabs(w - g) <= abs_tol + rel_tol * fabs(w);
    if (!same) fail_msg("%s[%zu] = %.9g, expected %.9g", what, i, g, w);
  }
  test_free(want);
}

#endif
