/* Numbers below 1.2e-38 (denormals) as zeroes while kernels run. Processors compute with them a hundred times slower, and they do turn
 * up: the momentum of weights that get no gradient halves every seven steps until it is one. TensorFlow flushes them in its threads, too. */
#ifndef OD_ENGINE_DENORMALS_H
#define OD_ENGINE_DENORMALS_H

#include <stdint.h>

/* From here on this thread takes and makes zeroes for them. What it was before, for od_denormals_keep. On processors that are neither
 * x86 nor ARM nothing happens. */
uint64_t od_denormals_flush(void);
/* This thread is as it was before. */
void od_denormals_keep(uint64_t before);
/* The OpenMP threads that work for this one, which has flushed (`threads` with it), do so too, for good. */
void od_denormals_tell_workers(int threads);

#endif
