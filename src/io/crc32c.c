/* CRC-32C of crc32c.h: the SSE 4.2 instruction where the processor has it (asked at run time), else eight tables
 * ("slicing by 8", Kounavis and Berry 2005). */
#include "io/crc32c.h"

#include <pthread.h>
#include <string.h>

static uint32_t tables[8][256];
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

static void make_tables(void) {
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t c = i;
    for (int k = 0; k < 8; k++) c = c & 1 ? (c >> 1) ^ 0x82f63b78u : c >> 1;
    tables[0][i] = c;
  }
  for (int t = 1; t < 8; t++)
    for (int i = 0; i < 256; i++) tables[t][i] = tables[0][tables[t - 1][i] & 255] ^ (tables[t - 1][i] >> 8);
}

uint32_t od_crc32c_table(uint32_t crc, const void *data, size_t n) {
  const uint8_t *p = data;
  pthread_once(&tables_once, make_tables);
  crc = ~crc;
  for (; n >= 8; n -= 8, p += 8) {
    uint32_t a = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
    crc = tables[7][a & 255] ^ tables[6][a >> 8 & 255] ^ tables[5][a >> 16 & 255] ^ tables[4][a >> 24] ^
          tables[3][p[4]] ^ tables[2][p[5]] ^ tables[1][p[6]] ^ tables[0][p[7]];
  }
  for (; n > 0; n--, p++) crc = tables[0][(crc ^ *p) & 255] ^ (crc >> 8);
  return ~crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t crc, const uint8_t *p, size_t n) {
  uint64_t c = ~crc;
  for (; n >= 8; n -= 8, p += 8) {
    uint64_t v;
    memcpy(&v, p, 8);
    c = __builtin_ia32_crc32di(c, v);
  }
  uint32_t r = (uint32_t)c;
  for (; n > 0; n--, p++) r = __builtin_ia32_crc32qi(r, *p);
  return ~r;
}
#endif

uint32_t od_crc32c_extend(uint32_t crc, const void *data, size_t n) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return by_instruction(crc, data, n);
#endif
  return od_crc32c_table(crc, data, n);
}

uint32_t od_crc32c(const void *data, size_t n) { return od_crc32c_extend(0, data, n); }

uint32_t od_crc32c_mask(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

uint32_t od_crc32c_unmask(uint32_t masked) {
  uint32_t r = masked - 0xa282ead8u;
  return (r >> 17) | (r << 15);
}
