/* Random numbers without streams: every draw is a pure function of a key and a counter.
 *
 * A key is made of what the draw belongs to - seed, epoch, record or step, name of the op - by od_key_mix and
 * od_key_name; number i of that key is od_rng_u64(key, i). No state, so threads and restarts change nothing.
 * Generator: splitmix64's output function (Steele, Lea, Flood 2014) over key + (i+1) * golden ratio. */
#ifndef OD_BASE_RNG_H
#define OD_BASE_RNG_H

#include <stdbool.h>
#include <stdint.h>

typedef uint64_t od_key;

/* These stand here because weights are drawn by the ten million. */
static inline uint64_t od_rng_scramble(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}
static inline uint64_t od_rng_u64(od_key key, uint64_t i) { return od_rng_scramble(key + (i + 1) * 0x9E3779B97F4A7C15u); }
/* Scrambled twice, so that keys of neighbouring values share no arithmetic progression with the counter. */
static inline od_key od_key_mix(od_key key, uint64_t value) {
  return od_rng_scramble(od_rng_scramble(key ^ 0xD1B54A32D192ED03u) + value * 0x9E3779B97F4A7C15u);
}
od_key od_key_name(od_key key, const char *name);
/* Uniform in [0, 1), 24 bits: exact in float. */
static inline float od_rng_f32(od_key key, uint64_t i) { return (float)(od_rng_u64(key, i) >> 40) * 0x1p-24f; }
/* Uniform in [0, 1), 53 bits. */
static inline double od_rng_f64(od_key key, uint64_t i) { return (double)(od_rng_u64(key, i) >> 11) * 0x1p-53; }
/* Uniform integer in [0, n), n > 0; unbiased enough (multiply-shift on 64 bits). */
uint64_t od_rng_below(od_key key, uint64_t i, uint64_t n);
/* Standard normal (Box-Muller over draws 2i and 2i+1). */
double od_rng_normal(od_key key, uint64_t i);
/* Normal, redrawn outside two standard deviations, as TensorFlow's truncated_normal. */
double od_rng_truncated_normal(od_key key, uint64_t i);
/* out[k]: draw first + k of the two functions above, rounded to float; bit by bit the same, several at a time. */
void od_rng_normals(float *out, od_key key, uint64_t first, int64_t n);
void od_rng_truncated_normals(float *out, od_key key, uint64_t first, int64_t n);
/* Fisher-Yates permutation of 0..n-1 into out. */
void od_rng_permutation(uint64_t *out, uint64_t n, od_key key);

#endif
