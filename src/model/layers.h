/* Layers as the original's slim code makes them: convolution, then batch norm or biases, then the activation; with its
 * variable names, initializers and regularizers. A style says how; model code says what. */
#ifndef OD_MODEL_LAYERS_H
#define OD_MODEL_LAYERS_H

#include "graph/graph.h"
#include "model/config.h"
#include "ops/nn.h"

typedef enum { OD_ACT_NONE, OD_ACT_RELU, OD_ACT_RELU6, OD_ACT_SWISH } od_activation;
typedef enum { OD_REG_NONE, OD_REG_L1, OD_REG_L2 } od_regularizer;
typedef enum { OD_WINIT_TRUNCATED_NORMAL, OD_WINIT_NORMAL, OD_WINIT_VARIANCE_SCALING } od_weight_init;

/* What the original keeps in an arg_scope. */
typedef struct {
  od_activation activation;
  bool batch_norm; /* else biases */
  float bn_decay, bn_epsilon;
  bool bn_center, bn_scale;
  bool bn_training; /* batch statistics, and moving averages updated */
  bool bn_fold;     /* not bn_training: worked into the convolution in front; gamma and beta are trained without a pass over the map */
  od_regularizer regularizer;
  float weight_decay;
  bool regularize_depthwise;
  od_weight_init init;
  float mean, stddev;    /* (truncated) normal */
  float factor;          /* variance scaling */
  int fan;               /* variance scaling: 0 inputs, 1 outputs, 2 mean of both */
  bool uniform;          /* variance scaling */
} od_style;

/* The style of a Hyperparams message. training: the model is built for training. Refuses what is not there (group norm...). */
OD_MUST_CHECK od_status od_style_from_config(od_style *out, const od_pb_hyperparams *h, bool training);

/* padding is OD_PAD_SAME, or explicit as the original's fixed_padding does it: (k-1) in all, the smaller half first. */
typedef struct {
  int64_t channels; /* output channels; depthwise: ignored */
  int64_t kernel_h, kernel_w;
  int64_t stride, dilation; /* 0 means 1 */
  bool explicit_padding;
  bool linear; /* no batch norm, biases, no activation: predictors */
  float bias_init;
} od_layer;

/* x [B,H,W,C] through a convolution named `name` in the present scope. Variables: <name>/weights, then <name>/biases or
 * <name>/BatchNorm/{gamma,beta,moving_mean,moving_variance}. */
od_value od_layer_conv(od_graph *g, const od_style *s, const char *name, od_value x, const od_layer *l);
/* The same for a depthwise convolution (one filter a channel): <name>/depthwise_weights. */
od_value od_layer_depthwise(od_graph *g, const od_style *s, const char *name, od_value x, const od_layer *l);
/* A fully connected layer: x [N,C] -> [N,units]. Variables: <name>/weights [C,units], then biases or BatchNorm as above. */
od_value od_layer_dense(od_graph *g, const od_style *s, const char *name, od_value x, int64_t units);
/* Batch norm alone, below the present scope as BatchNorm/..., no activation. */
od_value od_layer_batch_norm(od_graph *g, const od_style *s, od_value x);
od_value od_layer_activate(od_graph *g, od_activation a, od_value x);

#endif
