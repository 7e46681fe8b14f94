/* Random numbers without streams: every draw is a pure function of a key and a counter.
 *
 * A key is made of what the draw belongs to - seed, epoch, record or step, name of the op - by od_key_mix and
 * od_key_name; number i of that key is od_rng_u64(key, i). No state, so threads and restarts change nothing.
 * Generator: splitmix64's output function (Steele, Lea, Flood 2014) over key + (i+1) * golden ratio. */
#ifndef OD_BASE_RNG_H
#define OD_BASE_RNG_H

#include <stdint.h>

typedef uint64_t od_key;

od_key od_key_mix(od_key key, uint64_t value);
od_key od_key_name(od_key key, const char *name);

uint64_t od_rng_u64(od_key key, uint64_t i);
/* Uniform in [0, 1), 24 bits: exact in float. */
float od_rng_f32(od_key key, uint64_t i);
/* Uniform in [0, 1), 53 bits. */
double od_rng_f64(od_key key, uint64_t i);
/* Uniform integer in [0, n), n > 0; unbiased enough (multiply-shift on 64 bits). */
uint64_t od_rng_below(od_key key, uint64_t i, uint64_t n);
/* Standard normal (Box-Muller over draws 2i and 2i+1). */
double od_rng_normal(od_key key, uint64_t i);
/* Normal, redrawn outside two standard deviations, as TensorFlow's truncated_normal. */
double od_rng_truncated_normal(od_key key, uint64_t i);
/* Fisher-Yates permutation of 0..n-1 into out. */
void od_rng_permutation(uint64_t *out, uint64_t n, od_key key);

#endif
