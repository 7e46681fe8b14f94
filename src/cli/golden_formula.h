/* Weights, pictures and boxes by formula, for comparing figures with other implementations: anybody can compute the same bits
 * from names alone. Number i of the stream of a name: splitmix64 seeded with FNV-1a-64 of the name, top 24 bits. */
#ifndef OD_CLI_GOLDEN_FORMULA_H
#define OD_CLI_GOLDEN_FORMULA_H

#include "base/rng.h"
#include "base/tensor.h"

/* Fills the tensor (float32) of the variable of that name. trained: the rules for nets whose batch norm is trained. */
void od_formula_weight(od_tensor *t, const char *name, bool trained);
/* Raw picture `number`, [height,width,3], as floats 0..255. */
void od_formula_image(float *out, int number, int height, int width);
/* Three boxes [3,4] (ymin xmin ymax xmax in 0..1) and their classes from 0. */
void od_formula_groundtruth(float *boxes, int *classes, int number, int num_classes);
/* Two-stage models: boxes 1 and 2 give way to proposals [n,4] (normalised) of the inference run, rounded to 0.01: the first two
 * that lie inside, are not small and hardly overlap. */
void od_formula_groundtruth_seen(float *boxes, const float *proposals, int64_t n);

#endif
