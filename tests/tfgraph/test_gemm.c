/* The interpreter's matrix product against sums in double: sizes round the blocks, transposed and unaligned operands. */
#include "od_test.h"

#include "base/rng.h"
#include "tfgraph/kernel.h"

static void one(int64_t m, int64_t k, int64_t n, bool ta, bool tb, size_t shift) {
  size_t na = (size_t)(m * k), nb = (size_t)(k * n);
  char *a = od_alloc(na * 4 + 4), *b = od_alloc(nb * 4 + 4);
  float *c = od_alloc((size_t)(m * n) * 4);
  CHECK(a && b && c);
  for (size_t i = 0; i < na; i++) memcpy(a + shift + 4 * i, &(float){2 * od_rng_f32(1, i) - 1}, 4);
  for (size_t i = 0; i < nb; i++) memcpy(b + shift + 4 * i, &(float){2 * od_rng_f32(2, i) - 1}, 4);
  CHECK_OK(tg_gemm(c, a + shift, b + shift, m, k, n, ta, tb));
  for (int64_t r = 0; r < m; r++)
    for (int64_t j = 0; j < n; j++) {
      double sum = 0;
      for (int64_t i = 0; i < k; i++) {
        float x, y;
        memcpy(&x, a + shift + 4 * (ta ? i * m + r : r * k + i), 4);
        memcpy(&y, b + shift + 4 * (tb ? j * k + i : i * n + j), 4);
        sum += (double)x * (double)y;
      }
      CHECK_NEAR(c[r * n + j], sum, 1e-5 * (1 + (double)k / 100));
    }
  od_free(a);
  od_free(b);
  od_free(c);
}

static void products(void **state) {
  (void)state;
  static const int64_t sizes[] = {1, 5, 6, 7, 16, 17, 49};
  for (size_t i = 0; i < 7; i++)
    for (size_t j = 0; j < 7; j++)
      for (int t = 0; t < 4; t++) one(sizes[i], sizes[(i + j) % 7], sizes[j], t & 1, t & 2, j % 4);
  one(61, 700, 33, false, false, 0); /* more than one block of k */
  one(3, 0, 4, false, false, 0);     /* no terms: zeros */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(products)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
