/* Greedy suppression of overlapping boxes, fast and equal to ops/box/nms.h bit by bit: sorted keys instead of a heap, and boxes
 * chosen so far in arrays by coordinate, of which a vector loop finds the few that may overlap too much; those are asked by the
 * reference's own function. */
#ifndef OD_ENGINE_CPU_SUPPRESS_H
#define OD_ENGINE_CPU_SUPPRESS_H

#include "engine/cpu/simd.h"

#include <stddef.h>

/* Bytes of scratch for n candidates. */
size_t od_cpu_suppress_scratch(int64_t n);
/* Candidates are the boxes [n, 4] with scores > score_threshold. selected: at most `most` indices, best score first, the lower
 * index first among equals. Returns how many. */
int64_t od_cpu_suppress(const od_cpu_simd *simd, int32_t *selected, const float *boxes, const float *scores, int64_t n, int64_t most,
                        float iou_threshold, float score_threshold, void *scratch);

#endif
