/* Python's random module, as far as the original's splits of data sets need it: Mersenne Twister MT19937 (Matsumoto and
 * Nishimura 1998), seeded with an integer, and list shuffling of Python 2 and 3. */
#ifndef OD_DATA_PYTHON_RANDOM_H
#define OD_DATA_PYTHON_RANDOM_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
  uint32_t state[624];
  int at;
} od_python_random;

/* random.seed(value) for a value below 2^32. */
void od_python_seed(od_python_random *r, uint32_t value);
/* 32 random bits. */
uint32_t od_python_bits(od_python_random *r);
/* random.random(): uniform in [0, 1), 53 bits. */
double od_python_uniform(od_python_random *r);
/* random.shuffle of n pointers; python 2 draws by random(), python 3 by rejection of random bits. */
void od_python_shuffle(od_python_random *r, void **items, size_t n, int python);

#endif
