/* The matrix product behind convolutions: plain C in blocks that fit the caches, B packed into strips of 16 columns, six rows
 * of A at a time. Every element of C is one sum in the order of k, whatever the number of threads. */
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "tfgraph/kernel.h"

enum { STRIP = 16, ROWS = 6, KC = 256, MC = 48 };

/* ROWS x STRIP block of C (in acc, row-major) += A strip [k][ROWS] x B strip [k][STRIP]. Three times: for any processor, and with
 * fused multiply-add for AVX2 and AVX-512; which one runs depends on the processor alone, so a machine repeats its bits. */
static void kernel_plain(float *acc, const float *a, const float *b, int64_t k) {
  for (int64_t i = 0; i < k; i++, a += ROWS, b += STRIP)
    for (int r = 0; r < ROWS; r++)
      for (int j = 0; j < STRIP; j++) acc[r * STRIP + j] += a[r] * b[j];
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static void kernel_avx2(float *acc, const float *a, const float *b, int64_t k) {
  __m256 s[ROWS][2];
  for (int r = 0; r < ROWS; r++) {
    s[r][0] = _mm256_loadu_ps(acc + r * STRIP);
    s[r][1] = _mm256_loadu_ps(acc + r * STRIP + 8);
  }
  for (int64_t i = 0; i < k; i++, a += ROWS, b += STRIP) {
    __m256 b0 = _mm256_loadu_ps(b), b1 = _mm256_loadu_ps(b + 8);
    for (int r = 0; r < ROWS; r++) {
      __m256 v = _mm256_broadcast_ss(a + r);
      s[r][0] = _mm256_fmadd_ps(v, b0, s[r][0]);
      s[r][1] = _mm256_fmadd_ps(v, b1, s[r][1]);
    }
  }
  for (int r = 0; r < ROWS; r++) {
    _mm256_storeu_ps(acc + r * STRIP, s[r][0]);
    _mm256_storeu_ps(acc + r * STRIP + 8, s[r][1]);
  }
}

__attribute__((target("avx512f"))) static void kernel_avx512(float *acc, const float *a, const float *b, int64_t k) {
  __m512 s[ROWS];
  for (int r = 0; r < ROWS; r++) s[r] = _mm512_loadu_ps(acc + r * STRIP);
  for (int64_t i = 0; i < k; i++, a += ROWS, b += STRIP) {
    __m512 b0 = _mm512_loadu_ps(b);
    for (int r = 0; r < ROWS; r++) s[r] = _mm512_fmadd_ps(_mm512_set1_ps(a[r]), b0, s[r]);
  }
  for (int r = 0; r < ROWS; r++) _mm512_storeu_ps(acc + r * STRIP, s[r]);
}
#endif

typedef void (*kernel_function)(float *, const float *, const float *, int64_t);

static kernel_function choose(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return kernel_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return kernel_avx2;
#endif
  return kernel_plain;
}

static float load(const void *p, int64_t i) {
  float v;
  memcpy(&v, (const char *)p + i * 4, sizeof v);
  return v;
}

/* B as strips: [strip][k][STRIP], zeros beyond n. */
static void pack_b(float *to, const void *b, int64_t k, int64_t n, bool tb) {
  int64_t strips = (n + STRIP - 1) / STRIP;
#pragma omp parallel for if (k * n > 1 << 20)
  for (int64_t s = 0; s < strips; s++) {
    float *o = to + s * k * STRIP;
    int64_t cols = n - s * STRIP < STRIP ? n - s * STRIP : STRIP;
    for (int64_t i = 0; i < k; i++, o += STRIP) {
      if (!tb && cols == STRIP) {
        memcpy(o, (const char *)b + (i * n + s * STRIP) * 4, STRIP * sizeof *o);
        continue;
      }
      for (int64_t j = 0; j < STRIP; j++)
        o[j] = j >= cols ? 0 : tb ? load(b, (s * STRIP + j) * k + i) : load(b, i * n + s * STRIP + j);
    }
  }
}

od_status tg_gemm_rows(float *c, int64_t m, int64_t k, int64_t n, const void *b, bool tb, tg_rows rows,
                       const void *ctx) {
  int64_t strips = (n + STRIP - 1) / STRIP;
  if (m <= 0 || n <= 0) return OD_OK;
  size_t size;
  if (!od_mul_ok(&size, (size_t)(strips * STRIP), (size_t)(k ? k : 1)))
    return od_fail(OD_EDATA, "a matrix product that is too large");
  float *packed;
  OD_TRY(od_new(&packed, size, sizeof *packed));
  pack_b(packed, b, k, n, tb);
  kernel_function kernel = choose();
  int64_t blocks = (m + MC - 1) / MC;
  int failed = 0;
#pragma omp parallel if (m * n * k > 1 << 24)
  {
    float *row = od_alloc((size_t)(k ? k : 1) * sizeof *row), *a = od_alloc((size_t)(k ? k : 1) * MC * sizeof *a);
    if (!row || !a) {
#pragma omp atomic write
      failed = 1;
    }
#pragma omp for schedule(dynamic)
    for (int64_t block = 0; block < blocks; block++) {
      if (!row || !a) continue;
      int64_t m0 = block * MC, count = m - m0 < MC ? m - m0 : MC, groups = (count + ROWS - 1) / ROWS;
      /* A as groups of rows: [group][k][ROWS], zeros beyond m */
      for (int64_t r = 0; r < groups * ROWS; r++) {
        float *o = a + r / ROWS * k * ROWS + r % ROWS;
        const float *from = NULL;
        if (r < count) from = rows(ctx, m0 + r, row);
        for (int64_t i = 0; i < k; i++) o[i * ROWS] = from ? from[i] : 0;
      }
      for (int64_t k0 = 0; k0 == 0 || k0 < k; k0 += KC) {
        int64_t kn = k - k0 < KC ? k - k0 : KC;
        for (int64_t s = 0; s < strips; s++) {
          int64_t cols = n - s * STRIP < STRIP ? n - s * STRIP : STRIP;
          for (int64_t g = 0; g < groups; g++) {
            float acc[ROWS * STRIP];
            int64_t live = count - g * ROWS < ROWS ? count - g * ROWS : ROWS;
            float *to = c + (m0 + g * ROWS) * n + s * STRIP;
            memset(acc, 0, sizeof acc);
            for (int64_t r = 0; k0 && r < live; r++) memcpy(acc + r * STRIP, to + r * n, (size_t)cols * sizeof *acc);
            kernel(acc, a + (g * k + k0) * ROWS, packed + (s * k + k0) * STRIP, kn);
            for (int64_t r = 0; r < live; r++) memcpy(to + r * n, acc + r * STRIP, (size_t)cols * sizeof *acc);
          }
        }
      }
    }
    od_free(row);
    od_free(a);
  }
  od_free(packed);
  return failed ? OD_ENOMEM : OD_OK;
}

typedef struct {
  const void *a;
  int64_t m, k;
  bool ta;
} plain;

static const float *plain_row(const void *ctx, int64_t r, float *room) {
  const plain *p = ctx;
  if (!p->ta)
    memcpy(room, (const char *)p->a + r * p->k * 4, (size_t)p->k * sizeof *room);
  else
    for (int64_t i = 0; i < p->k; i++) room[i] = load(p->a, i * p->m + r);
  return room;
}

od_status tg_gemm(float *c, const void *a, const void *b, int64_t m, int64_t k, int64_t n, bool ta, bool tb) {
  plain p = {a, m, k, ta};
  return tg_gemm_rows(c, m, k, n, b, tb, plain_row, &p);
}
