/* Greedy suppression; see suppress.h. */
#include "engine/cpu/suppress.h"

#include <stdlib.h>
#include <string.h>

#include "ops/box/nms.h"

enum { GROUP = 64 }; /* chosen boxes asked at once */

static size_t up(size_t n) { return (n + 63) / 64 * 64; }

size_t od_cpu_suppress_scratch(int64_t n) {
  const size_t padded = up((size_t)n + GROUP);
  return sizeof(uint64_t) * padded + 5 * sizeof(float) * padded;
}

static int smaller_first(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

/* Ascending keys are descending scores, the lower index first among equals (+0 and -0 are equal). */
static uint64_t key_of(float score, int64_t index) {
  const float s = score + 0.0f;
  uint32_t u;
  memcpy(&u, &s, sizeof u);
  u = u & 0x80000000u ? ~u : u | 0x80000000u; /* ascending as numbers */
  return (uint64_t)~u << 32 | (uint64_t)index;
}

int64_t od_cpu_suppress(const od_cpu_simd *simd, int32_t *selected, const float *boxes, const float *scores, int64_t n, int64_t most,
                        float iou_threshold, float score_threshold, void *scratch) {
  const size_t padded = up((size_t)n + GROUP);
  uint64_t *keys = scratch;
  float *chosen[5]; /* ymin, xmin, ymax, xmax, area */
  for (int k = 0; k < 5; k++) chosen[k] = (float *)(void *)(keys + padded) + (size_t)k * padded;
  int64_t left = 0, done = 0;
  for (int64_t i = 0; i < n; i++)
    if (scores[i] > score_threshold) keys[left++] = key_of(scores[i], i);
  qsort(keys, (size_t)left, sizeof *keys, smaller_first);
  for (int64_t i = 0; i < left && done < most; i++) {
    const int32_t index = (int32_t)(keys[i] & 0xffffffffu);
    const float *b = boxes + 4 * (int64_t)index;
    float box[5] = {b[0] < b[2] ? b[0] : b[2], b[1] < b[3] ? b[1] : b[3], b[0] < b[2] ? b[2] : b[0], b[1] < b[3] ? b[3] : b[1], 0};
    box[4] = (box[2] - box[0]) * (box[3] - box[1]);
    bool suppressed = false;
    /* the latest first: neighbours in score overlap most */
    for (int64_t at = (done - 1) / GROUP * GROUP; done > 0 && at >= 0 && !suppressed; at -= GROUP) {
      const int64_t m = done - at < GROUP ? done - at : GROUP;
      const float *const part[5] = {chosen[0] + at, chosen[1] + at, chosen[2] + at, chosen[3] + at, chosen[4] + at};
      if (!simd->overlaps(part, box, m, iou_threshold)) continue;
      for (int64_t k = m; k-- > 0 && !suppressed;)
        suppressed = od_nms_iou(b, boxes + 4 * (int64_t)selected[at + k]) > iou_threshold;
    }
    if (suppressed) continue;
    for (int k = 0; k < 5; k++) chosen[k][done] = box[k];
    selected[done++] = index;
  }
  return done;
}
