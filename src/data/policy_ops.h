/* Pixel operations of AutoAugment on 8-bit RGB pictures; for augment_policy.c. All are pure functions of their arguments. */
#ifndef OD_DATA_POLICY_OPS_H
#define OD_DATA_POLICY_OPS_H

#include "base/rng.h"
#include "image/image.h"

/* Pixels [y0, y1] x [x0, x1] of a picture, both ends included: what operations on boxes work on. */
typedef struct {
  int y0, x0, y1, x1;
} od_region;

void od_policy_autocontrast(od_image *im);
void od_policy_equalize(od_image *im, od_region r);
void od_policy_posterize(od_image *im, int bits);
void od_policy_solarize(od_image *im, od_region r, int threshold);
void od_policy_solarize_add(od_image *im, int addition);
void od_policy_colour(od_image *im, float factor);
void od_policy_contrast(od_image *im, float factor);
void od_policy_brightness(od_image *im, float factor);
OD_MUST_CHECK od_status od_policy_sharpness(od_image *im, float factor);
/* A grey (128) square of up to 2 * size pixels a side round a drawn centre, cut to the region. */
void od_policy_cutout(od_image *im, od_region r, int size, od_key key);
void od_policy_flip(od_image *im, od_region r);

/* out(x, y) = in(m0*x + m1*y + m2, m3*x + m4*y + m5), nearest pixel; what comes from outside the region is grey (128). */
OD_MUST_CHECK od_status od_policy_transform(od_image *im, od_region r, const float m[6]);
/* The matrix of a turn by degrees about the middle of height x width pixels. */
void od_policy_rotation(float m[6], float degrees, int height, int width);

static inline od_region od_region_all(const od_image *im) { return (od_region){0, 0, im->height - 1, im->width - 1}; }

#endif
