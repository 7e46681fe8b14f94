/* The inner loops for any processor. */
#include "engine/cpu/simd.h"

#include <stddef.h>

#pragma GCC diagnostic ignored "-Wpsabi" /* vectors are passed among inlined functions only */
#define OD_SIMD_TABLE od_cpu_simd_plain
#define OD_SIMD_NAME  "any processor"
#include "engine/cpu/simd_body.h"
