/* Object masks as run lengths, column by column, beginning with zeros: COCO's RLE, uncompressed. */
#ifndef OD_EVAL_MASK_H
#define OD_EVAL_MASK_H

#include <stdint.h>

#include "base/status.h"

typedef struct {
  uint32_t height, width;
  uint32_t n;             /* runs; 0 for an empty mask too (then nothing is set) */
  const uint32_t *counts; /* [n] lengths of 0, 1, 0, 1 ... runs */
} od_mask;

/* Runs of a picture [height, width] row by row, anything but 0 is set. counts is a fresh block that the caller frees with
 * od_mask_free. */
OD_MUST_CHECK od_status od_mask_encode(od_mask *out, const uint8_t *pixels, uint32_t height, uint32_t width);
void od_mask_free(od_mask *m);

/* Pixels that are set. */
uint64_t od_mask_area(const od_mask *m);
/* Pixels that are set in both; the masks must have one size. */
uint64_t od_mask_intersection(const od_mask *a, const od_mask *b);
/* The runs fill the picture exactly. OD_EDATA otherwise. */
OD_MUST_CHECK od_status od_mask_check(const od_mask *m);

#endif
