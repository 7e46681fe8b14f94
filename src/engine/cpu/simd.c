/* Which inner loops this processor can run; see simd.h. */
#include "engine/cpu/simd.h"

#include <stddef.h>

extern const od_cpu_simd od_cpu_simd_plain, od_cpu_simd_avx2, od_cpu_simd_avx512, od_cpu_simd_bf16;

const od_cpu_simd *od_cpu_simd_at(int i) {
  const od_cpu_simd *list[4] = {&od_cpu_simd_plain};
  int n = 1;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) list[n++] = &od_cpu_simd_avx2;
  if (n == 2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    list[n++] = &od_cpu_simd_avx512;
  if (n == 3 && __builtin_cpu_supports("avx512bf16")) list[n++] = &od_cpu_simd_bf16;
#endif
  return i >= 0 && i < n ? list[i] : NULL;
}

const od_cpu_simd *od_cpu_simd_best(void) {
  int n = 0;
  while (od_cpu_simd_at(n + 1)) n++;
  return od_cpu_simd_at(n);
}
