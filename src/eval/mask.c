/* Run-length masks; see mask.h. */
#include "eval/mask.h"

#include "base/mem.h"

od_status od_mask_encode(od_mask *out, const uint8_t *pixels, uint32_t height, uint32_t width) {
  *out = (od_mask){.height = height, .width = width};
  uint32_t *counts = NULL, run = 0, n = 0;
  size_t cap = 0;
  bool set = false;
  if ((uint64_t)height * width > UINT32_MAX) return od_fail(OD_EINVAL, "a mask of %ux%u pixels", width, height);
  for (uint32_t x = 0; x < width; x++)
    for (uint32_t y = 0; y < height; y++, run++) {
      if ((pixels[(size_t)y * width + x] != 0) == set) continue;
      od_status st = od_grow(&counts, &cap, (size_t)n + 2, sizeof *counts);
      if (st != OD_OK) {
        od_free(counts);
        return st;
      }
      counts[n++] = run;
      run = 0;
      set = !set;
    }
  od_status st = od_grow(&counts, &cap, (size_t)n + 1, sizeof *counts);
  if (st != OD_OK) {
    od_free(counts);
    return st;
  }
  counts[n++] = run;
  out->n = n;
  out->counts = counts;
  return OD_OK;
}

void od_mask_free(od_mask *m) {
  od_free((void *)(uintptr_t)m->counts);
  *m = (od_mask){0};
}

uint64_t od_mask_area(const od_mask *m) {
  uint64_t area = 0;
  for (uint32_t i = 1; i < m->n; i += 2) area += m->counts[i];
  return area;
}

uint64_t od_mask_intersection(const od_mask *a, const od_mask *b) {
  uint64_t both = 0, at = 0, end_a = 0, end_b = 0;
  uint32_t i = 0, k = 0; /* runs that end at end_a, end_b */
  while (true) {
    while (end_a <= at && i < a->n) end_a += a->counts[i++];
    while (end_b <= at && k < b->n) end_b += b->counts[k++];
    if (end_a <= at || end_b <= at) return both;
    uint64_t end = end_a < end_b ? end_a : end_b;
    if (!(i & 1) && !(k & 1)) both += end - at; /* after an even number of runs we stand in a set one */
    at = end;
  }
}

od_status od_mask_check(const od_mask *m) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < m->n; i++) sum += m->counts[i];
  if (m->n == 0 || sum == (uint64_t)m->height * m->width) return OD_OK;
  return od_fail(OD_EDATA, "the runs of a mask sum to %llu, %ux%u pixels expected", (unsigned long long)sum, m->width,
                 m->height);
}
