/* What convolution and depthwise convolution share: parameter table, size rules, TensorFlow form. Not for other rooms. */
#ifndef OD_OPS_CONVOLUTION_H
#define OD_OPS_CONVOLUTION_H

#include "ops/common.h"
#include "ops/nn.h"

extern const od_param od_conv_param_table[];
extern const char *const od_padding_names[];

/* Output type of the forward op: x [N,H,W,I], w [h,w,I,O], or depthwise w [h,w,I,m] with O = I*m. */
OD_MUST_CHECK od_status od_conv_infer(const od_infer *c, const od_type *x, const od_type *w, bool depthwise, od_type *out);
/* Geometry of a run: shapes of x and w known. */
od_conv_geometry od_conv_of(const od_conv_params *p, const od_tensor *x, const od_tensor *w);
/* Writes the forward node; explicit padding becomes a Pad node and VALID. */
od_status od_conv_tf(od_tf *t, const od_node *n, const char *op);

/* Parameters of samples. */
#define OD_CONV_SAMPLE(s, d, p) {.stride_h = (s), .stride_w = (s), .dilation_h = (d), .dilation_w = (d), .padding = (p)}

#endif
