/* MT19937 and the two shuffles. */
#include "data/python_random.h"

enum { N = 624, M = 397 };

static void init(od_python_random *r, uint32_t s) {
  r->state[0] = s;
  for (uint32_t i = 1; i < N; i++) r->state[i] = 1812433253u * (r->state[i - 1] ^ r->state[i - 1] >> 30) + i;
  r->at = N;
}

/* init_by_array of the reference code, with a key of one word, which is how Python seeds with a small integer. */
void od_python_seed(od_python_random *r, uint32_t value) {
  uint32_t *s = r->state, i = 1;
  init(r, 19650218u);
  for (int k = N; k > 0; k--) {
    s[i] = (s[i] ^ (s[i - 1] ^ s[i - 1] >> 30) * 1664525u) + value;
    if (++i >= N) {
      s[0] = s[N - 1];
      i = 1;
    }
  }
  for (int k = N - 1; k > 0; k--) {
    s[i] = (s[i] ^ (s[i - 1] ^ s[i - 1] >> 30) * 1566083941u) - i;
    if (++i >= N) {
      s[0] = s[N - 1];
      i = 1;
    }
  }
  s[0] = 0x80000000u;
}

static void refill(uint32_t *s) {
  for (int k = 0; k < N; k++) {
    uint32_t y = (s[k] & 0x80000000u) | (s[(k + 1) % N] & 0x7fffffffu);
    s[k] = s[(k + M) % N] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
  }
}

uint32_t od_python_bits(od_python_random *r) {
  if (r->at == N) {
    refill(r->state);
    r->at = 0;
  }
  uint32_t y = r->state[r->at++];
  y ^= y >> 11;
  y ^= y << 7 & 0x9d2c5680u;
  y ^= y << 15 & 0xefc60000u;
  return y ^ y >> 18;
}

double od_python_uniform(od_python_random *r) {
  uint32_t a = od_python_bits(r) >> 5, b = od_python_bits(r) >> 6;
  return ((double)a * 67108864.0 + (double)b) / 9007199254740992.0;
}

/* Python 3: the fewest bits that hold n, drawn until they are below it. */
static size_t below(od_python_random *r, size_t n) {
  int bits = 0;
  while (n >> bits) bits++;
  size_t v;
  do v = od_python_bits(r) >> (32 - bits);
  while (v >= n);
  return v;
}

void od_python_shuffle(od_python_random *r, void **items, size_t n, int python) {
  for (size_t i = n; i-- > 1;) {
    size_t j = python == 2 ? (size_t)(od_python_uniform(r) * (double)(i + 1)) : below(r, i + 1);
    void *swap = items[i];
    items[i] = items[j];
    items[j] = swap;
  }
}
