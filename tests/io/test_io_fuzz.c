/* The fuzz targets of this room on seeded mutations of real files: what a fuzzer would try first, in every test run. */
#include "io_test.h"

#define LLVMFuzzerTestOneInput fuzz_record
#include "fuzz/fuzz_record.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_example
#include "fuzz/fuzz_example.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_graph
#include "fuzz/fuzz_graph.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_bundle
#define read_everything        fuzz_bundle_read
#include "fuzz/fuzz_bundle.c"
#undef LLVMFuzzerTestOneInput

#include "io/metagraph.h"

static uint64_t seed = 42;

static uint64_t draw(uint64_t n) { /* splitmix64 */
  uint64_t z = (seed += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (z ^ (z >> 31)) % n;
}

/* Sets bytes to values that lengths and tags dislike, cuts, doubles. */
static size_t mutate(uint8_t *b, size_t n, size_t cap) {
  static const uint8_t nasty[] = {0, 1, 2, 0x0a, 0x12, 0x7f, 0x80, 0xff};
  for (uint64_t k = draw(5) + 1; k > 0 && n > 8; k--) {
    size_t at = draw(n), m = draw(30) + 1;
    if (at + m > n) m = n - at;
    switch (draw(5)) {
    case 0: b[at] = (uint8_t)draw(256); break;
    case 1: b[at] = nasty[draw(sizeof nasty)]; break;
    case 2: b[at] = (uint8_t)(b[at] + (draw(2) ? 1 : 255)); break;
    case 3:
      memmove(b + at, b + at + m, n - at - m);
      n -= m;
      break;
    default:
      if (n + m > cap) break;
      memmove(b + at + m, b + at, n - at);
      n += m;
    }
  }
  return n;
}

static void try_many(int (*target)(const uint8_t *, size_t), const void *start, size_t n, int modes, int times) {
  size_t cap = n + 400;
  uint8_t *b = od_alloc(cap + 1);
  CHECK(b != NULL);
  for (int i = 0; i < times; i++) {
    memcpy(b + 1, start, n);
    b[0] = (uint8_t)draw(8);
    size_t m = i < 8 ? n : mutate(b + 1, n, cap);
    if (i < 8) b[0] = (uint8_t)i;
    /* An exact copy, so that the sanitizer sees one byte too far. */
    uint8_t *exact = od_alloc(m + 1);
    CHECK(exact != NULL);
    memcpy(exact, modes ? b : b + 1, m + (modes ? 1 : 0));
    target(exact, m + (modes ? 1 : 0));
    od_free(exact);
  }
  od_free(b);
}

static void try_file(int (*target)(const uint8_t *, size_t), const char *path, size_t most, int modes, int times) {
  char *data;
  size_t n;
  CHECK_OK(od_file_read_all(&data, &n, path, 0));
  try_many(target, data, n < most ? n : most, modes, times);
  od_free(data);
}

static void records(void **state) {
  (void)state;
  try_file(fuzz_record, "tests/golden/io/events.golden", 4000, 1, 2000);
}

static void put_example(od_str *s) {
  od_example_builder *b;
  int64_t ids[5] = {1, -1, 300, INT64_MAX, 0};
  float box[4] = {0, 0.5f, 1, 2};
  CHECK_OK(od_example_builder_new(&b));
  od_example_add_int64s(b, "ids", ids, 5);
  od_example_add_floats(b, "box", box, 4);
  od_example_add_text(b, "name", "a picture");
  od_example_add_bytes_list(b, "none", NULL, 0);
  CHECK_OK(od_example_builder_finish(b, s));
  od_example_builder_free(b);
}

static void examples(void **state) {
  (void)state;
  od_str s = OD_STR_INIT;
  put_example(&s);
  try_many(fuzz_example, s.data, s.len, 0, 20000);
  od_str_free(&s);
}

static void graphs(void **state) {
  (void)state;
  const od_meta_variable vars[] = {{"w", OD_F32, OD_SHAPE(3, 4), true}, {"v", OD_STRING, OD_SHAPE(2), false}};
  od_str s = OD_STR_INIT;
  CHECK_OK(od_metagraph_put(&s, vars, 2));
  try_many(fuzz_graph, s.data, s.len, 0, 3000);
  od_wire w = od_wire_over((od_view){(const uint8_t *)s.data, s.len});
  od_wire_field f;
  CHECK(od_wire_next(&w, &f) && f.number == 2);
  try_many(fuzz_graph, f.bytes.data, f.bytes.size, 0, 3000); /* the GraphDef in it */
  od_str_free(&s);
}

/* The pairs of a real table in the form that fuzz_bundle cuts them. */
static void pairs_of(od_str *out, const char *path) {
  char *data;
  size_t n;
  od_table *t;
  od_view k, v;
  CHECK_OK(od_file_read_all(&data, &n, path, 0));
  CHECK_OK(od_table_open(&t, (od_view){(const uint8_t *)data, n}, path));
  while (od_table_next(t, &k, &v) == OD_OK) {
    if (k.size > 255 || v.size > 255) continue;
    uint8_t head[2] = {(uint8_t)k.size, (uint8_t)v.size};
    od_str_add_bytes(out, head, 2);
    od_str_add_bytes(out, k.data, k.size);
    od_str_add_bytes(out, v.data, v.size);
  }
  od_table_free(t);
  od_free(data);
}

static void bundles(void **state) {
  (void)state;
  static const char *const files[] = {"tests/golden/io/plain.ckpt.index", "tests/golden/io/sliced.ckpt.index",
                                      "tests/golden/io/v1.ckpt"};
  for (int i = 0; i < 3; i++) {
    od_str s = OD_STR_INIT;
    pairs_of(&s, files[i]);
    try_many(fuzz_bundle, s.data, s.len, 1, 1500);
    od_str_free(&s);
    try_file(fuzz_bundle, files[i], 20000, 1, 200);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(records),
      cmocka_unit_test(examples),
      cmocka_unit_test(graphs),
      cmocka_unit_test(bundles),
  };
  return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
