/* Layers; see layers.h. */
#include "model/layers.h"

#include <math.h>

#include "base/str.h"
#include "ops/math.h"
#include "ops/optim.h"

/* --------------------------------------------------------------------------------------------------------------- style */
static od_status read_initializer(od_style *s, const ObjectDetection__Protos__Initializer *i) {
  /* None is TensorFlow's own default: Glorot, uniform. */
  s->init = OD_WINIT_VARIANCE_SCALING;
  s->factor = 1;
  s->fan = 2;
  s->uniform = true;
  if (!i) return OD_OK;
  switch (i->initializer_oneof_case) {
    case OBJECT_DETECTION__PROTOS__INITIALIZER__INITIALIZER_ONEOF__NOT_SET: return OD_OK;
    case OBJECT_DETECTION__PROTOS__INITIALIZER__INITIALIZER_ONEOF_TRUNCATED_NORMAL_INITIALIZER:
      s->init = OD_WINIT_TRUNCATED_NORMAL;
      s->mean = i->truncated_normal_initializer->mean;
      s->stddev = i->truncated_normal_initializer->stddev;
      return OD_OK;
    case OBJECT_DETECTION__PROTOS__INITIALIZER__INITIALIZER_ONEOF_RANDOM_NORMAL_INITIALIZER:
      s->init = OD_WINIT_NORMAL;
      s->mean = i->random_normal_initializer->mean;
      s->stddev = i->random_normal_initializer->stddev;
      return OD_OK;
    case OBJECT_DETECTION__PROTOS__INITIALIZER__INITIALIZER_ONEOF_VARIANCE_SCALING_INITIALIZER:
      s->init = OD_WINIT_VARIANCE_SCALING;
      s->factor = i->variance_scaling_initializer->factor;
      s->uniform = i->variance_scaling_initializer->uniform;
      s->fan = (int)i->variance_scaling_initializer->mode;
      return OD_OK;
    default:
      return od_fail(OD_EUNSUPPORTED, "initializer: this kind is not supported; there are truncated_normal_initializer, "
                                      "random_normal_initializer and variance_scaling_initializer");
  }
}

static od_status read_regularizer(od_style *s, const ObjectDetection__Protos__Regularizer *r) {
  s->regularizer = OD_REG_NONE;
  if (!r) return OD_OK;
  if (r->regularizer_oneof_case == OBJECT_DETECTION__PROTOS__REGULARIZER__REGULARIZER_ONEOF_L2_REGULARIZER) {
    s->regularizer = OD_REG_L2;
    s->weight_decay = r->l2_regularizer->weight;
  } else if (r->regularizer_oneof_case == OBJECT_DETECTION__PROTOS__REGULARIZER__REGULARIZER_ONEOF_L1_REGULARIZER) {
    s->regularizer = OD_REG_L1;
    s->weight_decay = r->l1_regularizer->weight;
  }
  if (s->weight_decay == 0) s->regularizer = OD_REG_NONE; /* as slim: a scale of 0 makes no term */
  return OD_OK;
}

od_status od_style_from_config(od_style *out, const od_pb_hyperparams *h, bool training) {
  od_style s = {0};
  h = OD_SET(h, Hyperparams);
  s.activation = (od_activation)h->activation;
  OD_TRY(read_regularizer(&s, h->regularizer));
  OD_TRY(read_initializer(&s, h->initializer));
  s.regularize_depthwise = true; /* the TF1 code regularises them like other weights, whatever regularize_depthwise says */
  if (h->force_use_bias) return od_fail(OD_EUNSUPPORTED, "hyperparams: force_use_bias works with Keras models only");
  if (h->normalizer_oneof_case == OBJECT_DETECTION__PROTOS__HYPERPARAMS__NORMALIZER_ONEOF_BATCH_NORM) {
    s.batch_norm = true;
    s.bn_decay = h->batch_norm->decay;
    s.bn_epsilon = h->batch_norm->epsilon;
    s.bn_center = h->batch_norm->center;
    s.bn_scale = h->batch_norm->scale;
    s.bn_training = training && h->batch_norm->train;
  } else if (h->normalizer_oneof_case != OBJECT_DETECTION__PROTOS__HYPERPARAMS__NORMALIZER_ONEOF__NOT_SET) {
    return od_fail(OD_EUNSUPPORTED, "hyperparams: group_norm and sync_batch_norm are not supported; batch_norm is");
  }
  *out = s;
  return OD_OK;
}

/* -------------------------------------------------------------------------------------------------------------- layers */
static od_init init_of(const od_style *s, const od_shape *shape) {
  if (s->init == OD_WINIT_TRUNCATED_NORMAL) return (od_init){OD_INIT_TRUNCATED_NORMAL, s->mean, s->stddev};
  if (s->init == OD_WINIT_NORMAL) return (od_init){OD_INIT_NORMAL, s->mean, s->stddev};
  /* slim's variance scaling: fans are products of the last two dimensions with the window */
  double window = 1;
  for (int i = 0; i < shape->rank - 2; i++) window *= (double)shape->dim[i];
  double fan_in = window * (double)shape->dim[shape->rank - 2], fan_out = window * (double)shape->dim[shape->rank - 1];
  double n = s->fan == 0 ? fan_in : s->fan == 1 ? fan_out : (fan_in + fan_out) / 2;
  if (s->uniform) {
    float limit = (float)sqrt(3.0 * (double)s->factor / n);
    return (od_init){OD_INIT_UNIFORM, -limit, limit};
  }
  return (od_init){OD_INIT_TRUNCATED_NORMAL, 0, (float)sqrt(1.3 * (double)s->factor / n)}; /* 1.3 makes up for the cut */
}

static void regularize(od_graph *g, const od_style *s, od_value w, bool depthwise) {
  const od_variable *v = od_variable_of(g, w);
  if (!v || s->regularizer == OD_REG_NONE || (depthwise && !s->regularize_depthwise)) return;
  od_value sum = s->regularizer == OD_REG_L2 ? od_l2_loss(g, w) : od_l1_loss(g, w);
  od_collect(g, "regularization", v->name, od_scale(g, sum, s->weight_decay, 0));
}

od_value od_layer_activate(od_graph *g, od_activation a, od_value x) {
  switch (a) {
    case OD_ACT_NONE: return x;
    case OD_ACT_RELU: return od_relu(g, x);
    case OD_ACT_RELU6: return od_relu6(g, x);
    case OD_ACT_SWISH: return od_mul(g, x, od_sigmoid(g, x));
  }
  return x;
}

static od_value bn_variable(od_graph *g, const char *name, int64_t c, float value, bool trainable) {
  return od_variable_new(g, name, OD_F32, OD_SHAPE(c), (od_init){OD_INIT_CONSTANT, value, 0}, trainable);
}

typedef struct {
  od_value gamma, beta, mean, variance; /* [c] */
} bn_state;

static bn_state bn_variables(od_graph *g, const od_style *s, int64_t c) {
  bn_state b;
  b.gamma = s->bn_scale ? bn_variable(g, "gamma", c, 1, true) : OD_NONE;
  b.beta = s->bn_center ? bn_variable(g, "beta", c, 0, true) : OD_NONE;
  b.mean = bn_variable(g, "moving_mean", c, 0, false);
  b.variance = bn_variable(g, "moving_variance", c, 1, false);
  return b;
}

od_value od_layer_batch_norm(od_graph *g, const od_style *s, od_value x) {
  od_scope_push(g, "BatchNorm");
  bn_state b = bn_variables(g, s, od_dim(x, -1));
  od_value y;
  if (s->bn_training) {
    y = od_batch_norm_train(g, x, b.gamma, b.beta, s->bn_epsilon);
    od_update(g, "batch_norm", b.mean, od_moving_average(g, b.mean, od_out(y, 1), s->bn_decay));
    od_update(g, "batch_norm", b.variance, od_moving_average(g, b.variance, od_out(y, 3), s->bn_decay));
  } else {
    y = od_batch_norm(g, x, b.gamma, b.beta, b.mean, b.variance, s->bn_epsilon);
  }
  od_scope_pop(g);
  return y;
}

/* The convolution with its frozen batch norm folded in. */
static od_value conv_folded(od_graph *g, const od_style *s, od_value x, od_value w, const od_conv_params *p) {
  od_scope_push(g, "BatchNorm");
  bn_state b = bn_variables(g, s, od_dim(w, -1));
  od_value folded = od_fold_batch_norm(g, w, b.gamma, b.beta, b.mean, b.variance, s->bn_epsilon);
  od_scope_pop(g);
  return od_bias_add(g, od_conv2d(g, x, folded, p), od_out(folded, 1));
}

static od_conv_params conv_params(const od_layer *l) {
  int64_t dilation = l->dilation ? l->dilation : 1, stride = l->stride ? l->stride : 1;
  od_conv_params p = {.stride_h = stride, .stride_w = stride, .dilation_h = dilation, .dilation_w = dilation, .padding = OD_PAD_SAME};
  if (l->explicit_padding) {
    int64_t total_h = (l->kernel_h - 1) * dilation, total_w = (l->kernel_w - 1) * dilation;
    p.padding = OD_PAD_EXPLICIT;
    p.pad_top = total_h / 2;
    p.pad_bottom = total_h - total_h / 2;
    p.pad_left = total_w / 2;
    p.pad_right = total_w - total_w / 2;
  }
  return p;
}

/* Normalisation and activation behind a convolution; scope is the layer's own. */
static od_value finish(od_graph *g, const od_style *s, od_value y, const od_layer *l) {
  if (s->batch_norm && !l->linear) {
    y = od_layer_batch_norm(g, s, y);
  } else {
    od_init init = {OD_INIT_CONSTANT, l->bias_init, 0};
    y = od_bias_add(g, y, od_variable_new(g, "biases", OD_F32, OD_SHAPE(od_dim(y, -1)), init, true));
  }
  return l->linear ? y : od_layer_activate(g, s->activation, y);
}

od_value od_layer_conv(od_graph *g, const od_style *s, const char *name, od_value x, const od_layer *l) {
  od_shape shape = OD_SHAPE(l->kernel_h, l->kernel_w, od_dim(x, -1), l->channels);
  od_conv_params p = conv_params(l);
  od_scope_push(g, name);
  od_value w = od_variable_new(g, "weights", OD_F32, shape, init_of(s, &shape), true);
  regularize(g, s, w, false);
  od_value y;
  if (s->batch_norm && s->bn_fold && !s->bn_training && !l->linear)
    y = od_layer_activate(g, s->activation, conv_folded(g, s, x, w, &p));
  else
    y = finish(g, s, od_conv2d(g, x, w, &p), l);
  od_scope_pop(g);
  return y;
}

od_value od_layer_depthwise(od_graph *g, const od_style *s, const char *name, od_value x, const od_layer *l) {
  od_shape shape = OD_SHAPE(l->kernel_h, l->kernel_w, od_dim(x, -1), 1);
  od_conv_params p = conv_params(l);
  od_scope_push(g, name);
  od_value w = od_variable_new(g, "depthwise_weights", OD_F32, shape, init_of(s, &shape), true);
  regularize(g, s, w, true);
  od_value y = finish(g, s, od_depthwise_conv2d(g, x, w, &p), l);
  od_scope_pop(g);
  return y;
}

od_value od_layer_dense(od_graph *g, const od_style *s, const char *name, od_value x, int64_t units) {
  od_shape shape = OD_SHAPE(od_dim(x, -1), units);
  od_scope_push(g, name);
  od_value w = od_variable_new(g, "weights", OD_F32, shape, init_of(s, &shape), true);
  regularize(g, s, w, false);
  od_value y = finish(g, s, od_matmul(g, x, w, false, false), &(od_layer){0});
  od_scope_pop(g);
  return y;
}
