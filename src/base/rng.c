/* Counter-based random numbers; see rng.h. */
#include "base/rng.h"

#include <math.h>

#include "base/str.h"

od_key od_key_name(od_key key, const char *name) { return od_key_mix(key, od_hash_text(name)); }

uint64_t od_rng_below(od_key key, uint64_t i, uint64_t n) {
  return (uint64_t)(((unsigned __int128)od_rng_u64(key, i) * n) >> 64);
}

double od_rng_normal(od_key key, uint64_t i) {
  double u = 1.0 - od_rng_f64(key, 2 * i); /* (0, 1]: the logarithm is finite */
  return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * od_rng_f64(key, 2 * i + 1));
}

double od_rng_truncated_normal(od_key key, uint64_t i) {
  od_key own = od_key_mix(key, i); /* a sequence of tries for this number */
  for (uint64_t t = 0;; t++) {
    double x = od_rng_normal(own, t);
    if (x >= -2.0 && x <= 2.0) return x;
  }
}

void od_rng_permutation(uint64_t *out, uint64_t n, od_key key) {
  for (uint64_t i = 0; i < n; i++) out[i] = i;
  for (uint64_t i = n; i > 1; i--) {
    uint64_t j = od_rng_below(key, i, i), t = out[i - 1];
    out[i - 1] = out[j];
    out[j] = t;
  }
}
