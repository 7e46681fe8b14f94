/* Builders and parameters of the neural-network ops. Feature maps are [N, H, W, C], filters [h, w, in, out], depthwise
 * filters [h, w, channels, multiplier]. Semantics, rounding of sizes and ties are TensorFlow's.
 *
 * Ops with "_grad" in their name are what od_gradients adds; models do not call them. Their inputs are stated here for the
 * engines. Every builder returns output 0; further outputs are od_out(v, i). */
#ifndef OD_OPS_NN_H
#define OD_OPS_NN_H

#include "graph/graph.h"

/* -------------------------------------------------------------------------------------------------------- convolution */
/* SAME: out = ceil(in / stride), the odd pixel of padding at the bottom and right. VALID: none. EXPLICIT: pad_*. */
typedef enum { OD_PAD_SAME, OD_PAD_VALID, OD_PAD_EXPLICIT } od_padding;

/* Of conv2d, depthwise_conv2d and their gradients. Strides and dilations are at least 1 (a dilation of 1 is none). */
typedef struct {
  int64_t stride_h, stride_w;
  int64_t dilation_h, dilation_w;
  int padding; /* od_padding */
  int64_t pad_top, pad_bottom, pad_left, pad_right; /* with OD_PAD_EXPLICIT only, else 0 */
} od_conv_params;
/* Stride s, no dilation, padding p (SAME or VALID). */
#define OD_CONV(s, p) ((od_conv_params){.stride_h = (s), .stride_w = (s), .dilation_h = 1, .dilation_w = 1, .padding = (p)})

/* Sizes of one run of a convolution or pooling, resolved: padding in pixels, output size. */
typedef struct {
  int64_t out_h, out_w;
  int64_t pad_top, pad_bottom, pad_left, pad_right;
} od_conv_geometry;
/* Resolves padding for input size in_h x in_w (known) and a kernel k_h x k_w (not dilated). The output size is 0 where the
 * kernel does not fit. */
od_conv_geometry od_conv_resolve(const od_conv_params *p, int64_t in_h, int64_t in_w, int64_t k_h, int64_t k_w);

/* x [N,H,W,I], w [h,w,I,O] -> [N,H',W',O]. */
od_value od_conv2d(od_graph *g, od_value x, od_value w, const od_conv_params *p);
/* conv2d_grad_input: (dy [N,H',W',O], w, x: only its shape counts) -> dx.
 * conv2d_grad_filter: (x, dy, w: only its shape counts) -> dw. Both with the params of the forward op. */

/* x [N,H,W,C], w [h,w,C,m] -> [N,H',W',C*m]; output channel c*m + j comes from input channel c. */
od_value od_depthwise_conv2d(od_graph *g, od_value x, od_value w, const od_conv_params *p);
/* depthwise_conv2d_grad_input: (dy, w, x) -> dx. depthwise_conv2d_grad_filter: (x, dy, w) -> dw. */

/* x [..., C] + b [C]. */
od_value od_bias_add(od_graph *g, od_value x, od_value b);
/* bias_add_grad: (dy [..., C]) -> [C], the sum over all but the last axis. */

/* -------------------------------------------------------------------------------------------------------- batch norm */
/* Of batch_norm, batch_norm_train and their gradients; x [..., C], everything else [C]. gamma OD_NONE is 1, beta OD_NONE is 0. */
typedef struct {
  float epsilon;
} od_batch_norm_params;

/* Inference form: gamma * (x - mean) / sqrt(variance + epsilon) + beta. Inputs in this order, 1 and 2 optional. mean and
 * variance get no gradient: they are moving statistics. */
od_value od_batch_norm(od_graph *g, od_value x, od_value gamma, od_value beta, od_value mean, od_value variance, float epsilon);
/* batch_norm_grad: (dy, x, gamma?, mean, variance) -> dx, dgamma, dbeta (the last two also when gamma is absent). */

/* A convolution's filter w [...,O] and a frozen batch norm behind it as one filter and one bias. Outputs: 0 w * gamma /
 * sqrt(variance + epsilon); 1 beta - mean * gamma / sqrt(variance + epsilon) [O]. Gradients flow into w, gamma and beta: exact,
 * and without a pass over the feature map. */
od_value od_fold_batch_norm(od_graph *g, od_value w, od_value gamma, od_value beta, od_value mean, od_value variance, float epsilon);
/* fold_batch_norm_grad: (dw', w, gamma?, mean, variance, db') -> dw, dgamma. dbeta is db'. */

/* Training form: statistics of the batch. Outputs: 0 y; 1 mean; 2 variance (biased, what y was made with); 3 moving_variance,
 * the variance times n/(n-1), n the elements a channel has: what TensorFlow hands to the moving average. Outputs 1 to 3 pass
 * no gradient on. */
od_value od_batch_norm_train(od_graph *g, od_value x, od_value gamma, od_value beta, float epsilon);
/* batch_norm_train_grad: (dy, x, gamma?, mean, variance) -> dx, dgamma, dbeta; the gradient through the statistics included. */

/* --------------------------------------------------------------------------------------------------------- activations */
od_value od_relu(od_graph *g, od_value x);    /* max(x, 0) */
od_value od_relu6(od_graph *g, od_value x);   /* min(max(x, 0), 6) */
od_value od_elu(od_graph *g, od_value x);     /* x > 0 ? x : exp(x) - 1 */
od_value od_sigmoid(od_graph *g, od_value x); /* 1 / (1 + exp(-x)) */
od_value od_tanh(od_graph *g, od_value x);
/* relu_grad, relu6_grad, elu_grad, sigmoid_grad, tanh_grad: (dy, y) -> dx, from the OUTPUT y. */

od_value od_softmax(od_graph *g, od_value x);     /* over the last axis */
od_value od_log_softmax(od_graph *g, od_value x); /* over the last axis */
/* softmax_grad, log_softmax_grad: (dy, y) -> dx. */

/* ------------------------------------------------------------------------------------------------------------- pooling */
typedef struct {
  int64_t window_h, window_w;
  int64_t stride_h, stride_w;
  int padding; /* od_padding: SAME or VALID */
} od_pool_params;
/* As od_conv_resolve. */
od_conv_geometry od_pool_resolve(const od_pool_params *p, int64_t in_h, int64_t in_w);

od_value od_max_pool(od_graph *g, od_value x, const od_pool_params *p);
/* max_pool_grad: (dy, x, y) -> dx: each dy goes to the first maximum of its window in row-major order. */
/* Padding does not count: the sum is divided by the pixels really there. */
od_value od_avg_pool(od_graph *g, od_value x, const od_pool_params *p);
/* avg_pool_grad: (dy, x: only its shape counts) -> dx. */

/* ------------------------------------------------------------------------------------------------------------- dropout */
/* Outputs: 0 y = x / keep_prob where kept, else 0; 1 mask [uint8], 1 where kept. Element i is kept when
 * od_rng_f32(key, i) < keep_prob, key the call's: the same in every engine. */
typedef struct {
  float keep_prob; /* (0, 1] */
} od_dropout_params;
od_value od_dropout(od_graph *g, od_value x, float keep_prob);
/* dropout_grad: (dy, mask) -> dx; params as dropout. */

#endif
