/* Threads for work that is cut by item: converters, decoding, checking. Kernels use OpenMP inside engine/ instead. */
#ifndef OD_BASE_PARALLEL_H
#define OD_BASE_PARALLEL_H

#include <stdint.h>

#include "base/status.h"

/* Processors this process may use (its affinity mask, not the machine's size); at least 1. */
int od_cpu_count(void);

/* Calls work(ctx, i) for i in [0, n) on up to `threads` threads (<= 0: od_cpu_count()), in no particular order. Returns
 * the failure with the lowest i; after a failure items not yet begun are left out. Which i runs where never changes a
 * result as long as work(i) depends on i alone. */
OD_MUST_CHECK od_status od_parallel_for(int64_t n, int threads, od_status (*work)(void *ctx, int64_t i), void *ctx);

#endif
