/* Status, memory, text, map, random numbers, tensors, parallel loops. */
#include "od_test.h"

#include <math.h>

#include "base/map.h"
#include "base/parallel.h"
#include "base/rng.h"
#include "base/str.h"
#include "base/tensor.h"

static od_status inner(int x) { return x > 3 ? od_fail(OD_EINVAL, "x is %d, at most 3 expected", x) : OD_OK; }
static od_status outer(int x) {
  OD_TRY(inner(x));
  return OD_OK;
}

static void status_keeps_one_message_and_a_trail(void **state) {
  (void)state;
  CHECK_OK(outer(3));
  CHECK_FAILS(outer(4), OD_EINVAL, "x is 4");
  CHECK(strstr(od_trail(), "outer") != NULL);
  CHECK(od_fail_context(OD_EINVAL, "file %s", "a.config") == OD_EINVAL);
  CHECK_TEXT(od_message(), "file a.config: x is 4, at most 3 expected");
  char longer[2 * OD_MESSAGE_MAX];
  memset(longer, 'a', sizeof longer - 1);
  longer[sizeof longer - 1] = 0;
  (void)od_fail(OD_EIO, "%s", longer);
  CHECK(strlen(od_message()) == OD_MESSAGE_MAX - 1);
  CHECK(od_ends_with(od_message(), "..."));
}

static void memory_is_counted_and_can_fail(void **state) {
  (void)state;
  size_t before = od_mem_used();
  char *p = od_alloc(100);
  CHECK(p && (uintptr_t)p % OD_ALIGN == 0 && od_mem_used() == before + 100);
  p = od_realloc(p, 200);
  CHECK(p && od_mem_used() == before + 200);
  od_mem_fail_at(2);
  char *q = od_alloc(1);
  CHECK(q);
  CHECK(od_alloc(1) == NULL);
  od_free(q);
  od_free(p);
  CHECK(od_mem_used() == before);
  CHECK(od_calloc(SIZE_MAX / 2, 4) == NULL);
}

static void arena_gives_aligned_zeroed_pieces(void **state) {
  (void)state;
  size_t before = od_mem_used();
  od_arena *a;
  CHECK_OK(od_arena_new(&a));
  for (int round = 0; round < 3; round++) {
    for (int i = 1; i < 300; i++) {
      char *p = od_arena_alloc(a, (size_t)i * 7);
      CHECK(p && p[0] == 0 && p[i * 7 - 1] == 0);
      memset(p, 1, (size_t)i * 7);
    }
    CHECK_TEXT(od_arena_printf(a, "%d-%s", 5, "x"), "5-x");
    od_arena_reset(a);
  }
  od_arena_free(a);
  CHECK(od_mem_used() == before);
}

static void text_questions(void **state) {
  (void)state;
  od_str s = OD_STR_INIT;
  for (int i = 0; i < 100; i++) od_str_addf(&s, "%d,", i);
  CHECK_OK(od_str_check(&s));
  CHECK(od_starts_with(od_str_text(&s), "0,1,2") && od_ends_with(od_str_text(&s), "98,99,"));
  od_str_free(&s);
  const char *names[] = {"learning_rate", "batch_size", "num_steps"};
  CHECK_TEXT(od_did_you_mean("lerning_rate", names, 3), "learning_rate");
  CHECK(od_did_you_mean("zzz", names, 3) == NULL);
  CHECK(od_edit_distance("abcd", "abdc") == 1 && od_edit_distance("", "xyz") == 3);
  int64_t i;
  CHECK(od_parse_i64(&i, "-12") && i == -12 && !od_parse_i64(&i, "1x") && !od_parse_i64(&i, "99999999999999999999"));
}

static void map_keeps_order(void **state) {
  (void)state;
  od_map *m;
  CHECK_OK(od_map_new(&m));
  char key[16];
  static int values[1000];
  for (int i = 0; i < 1000; i++) {
    snprintf(key, sizeof key, "k%d", i);
    CHECK_OK(od_map_set(m, key, &values[i]));
  }
  CHECK(od_map_size(m) == 1000 && od_map_get(m, "k517") == &values[517] && !od_map_has(m, "k1000"));
  CHECK_TEXT(od_map_key(m, 42), "k42");
  od_map_free(m);
}

/* Several at a time are the same bits as one by one; the odd beginnings and lengths meet every remainder. */
static void many_normals_are_the_same_bits(void **state) {
  (void)state;
  enum { N = 400003 };
  static float many[N + 1];
  for (int kind = 0; kind < 2; kind++)
    for (uint64_t seed = 0; seed < 3; seed++) {
      const od_key key = od_key_mix(seed, 17);
      const uint64_t first = seed * 1000003;
      const int64_t n = N - (int64_t)seed * 21;
      many[n] = 99;
      if (kind)
        od_rng_truncated_normals(many, key, first, n);
      else
        od_rng_normals(many, key, first, n);
      for (int64_t k = 0; k < n; k++) {
        const uint64_t i = first + (uint64_t)k;
        const float one = (float)(kind ? od_rng_truncated_normal(key, i) : od_rng_normal(key, i));
        if (memcmp(&one, &many[k], sizeof one) != 0) fail_msg("draw %llu: %.9g, not %.9g", (unsigned long long)i, (double)many[k], (double)one);
      }
      CHECK(many[n] == 99);
    }
}

static void random_numbers_are_pure_functions(void **state) {
  (void)state;
  od_key a = od_key_name(od_key_mix(1, 7), "dropout");
  CHECK(od_rng_u64(a, 5) == od_rng_u64(a, 5) && od_rng_u64(a, 5) != od_rng_u64(a, 6));
  double sum = 0, sum2 = 0;
  for (uint64_t i = 0; i < 20000; i++) {
    double x = od_rng_truncated_normal(a, i);
    sum += x;
    sum2 += x * x;
    CHECK(fabs(x) <= 2);
  }
  CHECK_NEAR(sum / 20000, 0, 0.02);
  CHECK_NEAR(sqrt(sum2 / 20000), 0.8796, 0.02); /* standard deviation of a normal cut at two sigmas */
  uint64_t p[100], seen[100] = {0};
  od_rng_permutation(p, 100, a);
  for (int i = 0; i < 100; i++) seen[p[i]]++;
  for (int i = 0; i < 100; i++) CHECK(seen[i] == 1);
}

static void tensors_and_shapes(void **state) {
  (void)state;
  od_shape s = OD_SHAPE(2, -1, 3);
  char text[OD_SHAPE_TEXT];
  CHECK_TEXT(od_shape_text(text, &s), "[2,?,3]");
  CHECK(!od_shape_known(&s));
  s.dim[1] = 4;
  CHECK(od_shape_size(&s) == 24);
  od_shape huge = OD_SHAPE(INT64_MAX / 2, 4, 4);
  size_t bytes;
  CHECK_FAILS(od_shape_bytes(&bytes, &huge, OD_F32), OD_EDATA, "impossible");
  CHECK(od_bf16_to_f32(od_f32_to_bf16(1.0f)) == 1.0f);
  CHECK(od_f32_to_bf16(1.00390625f) == 0x3f80);  /* half way: to even */
  CHECK(od_f32_to_bf16(1.01171875f) == 0x3f82);
  CHECK(isnan(od_bf16_to_f32(od_f32_to_bf16(NAN))));
}

static od_status fail_at_even(void *ctx, int64_t i) {
  (void)ctx;
  return i >= 10 && i % 2 == 0 ? od_fail(OD_EDATA, "item %d", (int)i) : OD_OK;
}

static void parallel_loops_report_the_first_failure(void **state) {
  (void)state;
  CHECK_OK(od_parallel_for(10, 4, fail_at_even, NULL));
  CHECK_FAILS(od_parallel_for(11, 4, fail_at_even, NULL), OD_EDATA, "item 10");
  CHECK_OK(od_parallel_for(0, 4, fail_at_even, NULL));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(many_normals_are_the_same_bits),
      cmocka_unit_test(status_keeps_one_message_and_a_trail), cmocka_unit_test(memory_is_counted_and_can_fail),
      cmocka_unit_test(arena_gives_aligned_zeroed_pieces),    cmocka_unit_test(text_questions),
      cmocka_unit_test(map_keeps_order),                      cmocka_unit_test(random_numbers_are_pure_functions),
      cmocka_unit_test(tensors_and_shapes),                   cmocka_unit_test(parallel_loops_report_the_first_failure),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
