/* The inner loops for AVX512. */
#include "engine/cpu/simd.h"

#include <stddef.h>

#if defined(__x86_64__)
#include <immintrin.h>

#pragma GCC diagnostic ignored "-Wpsabi" /* vectors are passed among inlined functions only */
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")
#pragma GCC optimize("no-math-errno")
#endif

#define OD_SIMD_TABLE od_cpu_simd_avx512
#define OD_SIMD_NAME  "AVX512"
#include "engine/cpu/simd_body.h"
#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
