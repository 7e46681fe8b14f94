/* Many normal numbers at once; see rng.h. Vector loops guess the number with a relative error far below 2^-44; where a margin of 2^-40
 * either way rounds to the same float, that float is what the plain function gives too, whose error is a few 2^-53. The others, one
 * in some ten thousand, and what the truncated draw would try again are asked of the plain function. So vectors change no bit. */
#include <math.h>
#include <string.h>

#include "base/rng.h"

enum { GROUP = 64 };

/* log of u in (0, 1]: u = m 2^e with m in [sqrt(1/2), sqrt(2)), log m = 2 atanh((m-1)/(m+1)). */
static inline __attribute__((always_inline)) double log_of(double u) {
  int64_t bits;
  memcpy(&bits, &u, sizeof bits);
  const int64_t e = (bits - 0x3fe6a09e667f3bcd) >> 52;
  bits -= (int64_t)((uint64_t)e << 52);
  double m;
  memcpy(&m, &bits, sizeof m);
  const double s = (m - 1) / (m + 1), z = s * s;
  const double tail =
      1.0 / 3 +
      z * (1.0 / 5 +
           z * (1.0 / 7 +
                z * (1.0 / 9 +
                     z * (1.0 / 11 +
                          z * (1.0 / 13 +
                               z * (1.0 / 15 + z * (1.0 / 17 + z * (1.0 / 19 + z * (1.0 / 21 + z * (1.0 / 23))))))))));
  return (double)e * 0.6931471805599453 + 2 * s * (1 + z * tail);
}

/* cos of t in [0, 2 pi], the nearest multiple of pi/2 taken off in two parts, the first of which has so few bits that nothing rounds. */
static inline __attribute__((always_inline)) double cos_of(double t) {
  const double q = (t * 0.6366197723675814 + 0x1.8p52) - 0x1.8p52;
  const double r = (t - q * 0x1.921fb544p+0) - q * 0x1.0b4611a626331p-34, z = r * r;
  const double sine =
      r * (1 + z * (-1.0 / 6 +
                    z * (1.0 / 120 +
                         z * (-1.0 / 5040 +
                              z * (1.0 / 362880 + z * (-1.0 / 39916800 +
                                                       z * (1.0 / 6227020800 + z * (-1.0 / 1307674368000 +
                                                                                    z * (1.0 / 355687428096000)))))))));
  const double cosine =
      1 + z * (-1.0 / 2 +
               z * (1.0 / 24 +
                    z * (-1.0 / 720 +
                         z * (1.0 / 40320 + z * (-1.0 / 3628800 +
                                                 z * (1.0 / 479001600 + z * (-1.0 / 87178291200 +
                                                                             z * (1.0 / 20922789888000 +
                                                                                  z * (-1.0 / 6402373705728000)))))))));
  const double x = ((q == 1) | (q == 3)) ? sine : cosine;
  return ((q == 1) | (q == 2)) ? -x : x;
}

/* The first try of GROUP numbers. own_keys: each number has a key of its own (the truncated draw). */
static inline __attribute__((always_inline)) void guess(double *restrict g, od_key key, uint64_t first, bool own_keys) {
  for (int k = 0; k < GROUP; k++) {
    const uint64_t i = first + (uint64_t)k;
    const od_key own = own_keys ? od_key_mix(key, i) : key;
    const uint64_t at = own_keys ? 0 : 2 * i;
    const double u = 1.0 - od_rng_f64(own, at);
    g[k] = sqrt(-2.0 * log_of(u)) * cos_of(6.283185307179586 * od_rng_f64(own, at + 1));
  }
}

typedef void guess_fn(double *restrict g, od_key key, uint64_t first);
static void normal_plain(double *restrict g, od_key key, uint64_t first) { guess(g, key, first, false); }
static void truncated_plain(double *restrict g, od_key key, uint64_t first) { guess(g, key, first, true); }
#if defined(__x86_64__)
#if defined(__clang__)
#define WIDE __attribute__((target("avx512f,avx512dq,avx512vl")))
#else
#define WIDE __attribute__((target("avx512f,avx512dq,avx512vl,prefer-vector-width=512")))
#endif
WIDE static void normal_wide(double *restrict g, od_key key, uint64_t first) { guess(g, key, first, false); }
WIDE static void truncated_wide(double *restrict g, od_key key, uint64_t first) { guess(g, key, first, true); }
static bool wide(void) { return __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"); }
#else
#define normal_wide    normal_plain
#define truncated_wide truncated_plain
static bool wide(void) { return false; }
#endif

static const double below = 1 - 0x1p-40, above = 1 + 0x1p-40;

/* n draws: the guess where rounding it cannot go wrong and it is within `most`, else the exact draw. */
static void fill(float *out, od_key key, uint64_t first, int64_t n, guess_fn *near, double most, double (*exact)(od_key, uint64_t)) {
  double g[GROUP];
  for (int64_t at = 0; at < n; at += GROUP, first += GROUP) {
    near(g, key, first);
    for (int64_t k = 0; k < GROUP && at + k < n; k++) {
      const float low = (float)(g[k] * below), high = (float)(g[k] * above);
      const bool sure = low == high && g[k] != 0 && fabs(g[k]) * above <= most;
      out[at + k] = sure ? low : (float)exact(key, first + (uint64_t)k);
    }
  }
}

void od_rng_normals(float *out, od_key key, uint64_t first, int64_t n) {
  fill(out, key, first, n, wide() ? normal_wide : normal_plain, INFINITY, od_rng_normal);
}

void od_rng_truncated_normals(float *out, od_key key, uint64_t first, int64_t n) {
  fill(out, key, first, n, wide() ? truncated_wide : truncated_plain, 2, od_rng_truncated_normal);
}
