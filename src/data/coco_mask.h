/* COCO's segmentations as pixels: polygons, and run lengths plain or packed into text, as pycocotools rasterises them. */
#ifndef OD_DATA_COCO_MASK_H
#define OD_DATA_COCO_MASK_H

#include <stdint.h>

#include "base/status.h"

/* Sets the pixels of mask [height, width] (row-major, 0 or 1) that lie inside a polygon of n points (x y x y ...); pixels set
 * before stay set, so that parts of one object unite. OD_EDATA for fewer than three points or coordinates that are no
 * finite numbers of a picture's size. */
OD_MUST_CHECK od_status od_coco_polygon(uint8_t *mask, int height, int width, const double *xy, size_t n);
/* Fills mask from n run lengths in column order, the first one of zeroes. OD_EDATA when they do not sum to its size. */
OD_MUST_CHECK od_status od_coco_runs(uint8_t *mask, int height, int width, const uint32_t *runs, size_t n);
/* Unpacks run lengths from COCO's text form; *out is the caller's. OD_EDATA for damaged text. */
OD_MUST_CHECK od_status od_coco_unpack_runs(uint32_t **out, size_t *n, const char *text);

#endif
