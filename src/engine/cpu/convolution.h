/* Shapes of convolution nodes for the library; shared by conv2d.c and conv2d_grad.c. */
#ifndef OD_ENGINE_CPU_CONVOLUTION_H
#define OD_ENGINE_CPU_CONVOLUTION_H

#include "engine/cpu/cpu.h"
#include "ops/nn.h"

/* The convolution with this input, filter and output (forward sense) of the node's parameters; false, with the draft's reason,
 * for what the library cannot be asked (nothing to compute, padding that is negative). */
bool od_cpu_conv_shape(od_conv_shape *out, od_cpu_draft *d, bool depthwise, const od_shape *x, const od_shape *w, const od_shape *y);
/* Will convolutions of this map come in ever new shapes? Not where the graph alone says how high and wide it is: regions cut out of the
 * features, a fixed size. */
bool od_cpu_conv_varies(const od_cpu_draft *d, od_value map);
double od_cpu_conv_flops(const od_conv_shape *s);

#endif
