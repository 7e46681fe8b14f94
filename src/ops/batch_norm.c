/* batch_norm, inference form: y = gamma * (x - mean) / sqrt(variance + epsilon) + beta with given statistics, a channel each
 * (Ioffe and Szegedy, Batch Normalization, 2015). Gradients flow into x, gamma and beta: Faster R-CNN trains gamma and beta
 * while its statistics stay frozen. With r = 1/sqrt(variance + epsilon):
 * dx = dy * gamma * r, dgamma = sum(dy * (x - mean)) * r, dbeta = sum(dy). */
#include "ops/batch_norm.h"

#include <math.h>
#include <string.h>

#include "ops/table.h"

const od_param od_batch_norm_param_table[] = {
    OD_PARAM_IN(od_batch_norm_params, epsilon, OD_P_FLOAT, "added to the variance", 0, 1), {0}};

od_value od_batch_norm(od_graph *g, od_value x, od_value gamma, od_value beta, od_value mean, od_value variance, float epsilon) {
  return od_graph_add(g, &od_op_batch_norm, (od_value[]){x, gamma, beta, mean, variance}, 5, &(od_batch_norm_params){epsilon});
}

od_status od_batch_norm_infer(const od_infer *c, int x, int first, int n) {
  OD_TRY(od_want(c, x, OD_F32, -1));
  od_type xt = c->in[x];
  if (xt.shape.rank < 2) return od_fail(OD_EINVAL, "batch norm needs at least two dimensions");
  int64_t *channels = &xt.shape.dim[xt.shape.rank - 1];
  for (int i = first; i < c->n_in; i++) {
    if (!c->present[i]) continue;
    OD_TRY(od_want(c, i, OD_F32, 1));
    OD_TRY(od_want_dim(c, i, 0, *channels));
    OD_TRY(od_merge_dim(c, channels, *channels, c->in[i].shape.dim[0]));
  }
  c->out[0] = xt;
  for (int i = 1; i <= n; i++) c->out[i] = (od_type){OD_F32, {1, {*channels}}};
  return OD_OK;
}

od_status od_batch_norm_grad_infer(const od_infer *c) {
  OD_TRY(od_batch_norm_infer(c, 1, 2, 2));
  OD_TRY(od_want(c, 0, OD_F32, c->in[1].shape.rank));
  return od_merge_shape(c, &c->out[0].shape, &c->out[0].shape, &c->in[0].shape);
}

static od_status infer(const od_infer *c) { return od_batch_norm_infer(c, 0, 1, 0); }

static od_status forward(const od_call *c) {
  const float *x = c->in[0].data, *gamma = c->in[1].data, *beta = c->in[2].data, *mean = c->in[3].data, *var = c->in[4].data;
  double epsilon = ((const od_batch_norm_params *)c->params)->epsilon;
  float *y = c->out[0].data;
  int64_t n = od_tensor_size(&c->in[0]), k = od_last(&c->in[0]);
  for (int64_t i = 0; i < n; i++) {
    int64_t ch = i % k;
    double r = (gamma ? gamma[ch] : 1.0) / sqrt(var[ch] + epsilon);
    y[i] = (float)(((double)x[i] - mean[ch]) * r + (beta ? beta[ch] : 0.0));
  }
  return OD_OK;
}

static od_status gradient(od_grad *c) {
  const od_value *in = c->node->in;
  od_value d = od_graph_add(c->graph, &od_op_batch_norm_grad, (od_value[]){c->dout[0], in[0], in[1], in[3], in[4]}, 5, c->node->params);
  for (int i = 0; i < 3; i++)
    if (c->need[i]) c->din[i] = od_out(d, i);
  return OD_OK;
}

/* gamma and beta must be there in TensorFlow's op: ones and zeros of the channels' number, which is known. */
static const char *filled(od_tf *t, const od_node *n, int i, const char *suffix, float v) {
  if (od_has(n->in[i])) return od_tf_in(t, i);
  int64_t channels = od_dim(n->in[3], 0);
  float *values = NULL;
  od_status st = channels < 0 ? od_fail(OD_EUNSUPPORTED, "%s: the number of channels is not known", n->name)
                              : od_new(&values, (size_t)channels, sizeof *values);
  if (st != OD_OK) {
    od_tf_fail(t, st);
    return "";
  }
  for (int64_t k = 0; k < channels; k++) values[k] = v;
  const char *name = od_tf_const(t, suffix, &(od_tensor){OD_F32, OD_SHAPE(channels), values});
  od_free(values);
  return name;
}

/* The first FusedBatchNorm, not V3: every TensorFlow since 0.12 reads it. */
static od_status write(od_tf *t, const od_node *n) {
  if (od_type_of(n->in[0]).shape.rank != 4)
    return od_fail(OD_EUNSUPPORTED, "%s: batch norm of %d dimensions is not written to TensorFlow graphs (FusedBatchNorm takes 4)",
                   n->name, od_type_of(n->in[0]).shape.rank);
  const char *gamma = filled(t, n, 1, "gamma", 1), *beta = filled(t, n, 2, "beta", 0);
  const char *y = od_tf_op(t, "FusedBatchNorm", NULL, OD_F32,
                           OD_TF_INPUTS(od_tf_in(t, 0), gamma, beta, od_tf_in(t, 3), od_tf_in(t, 4)));
  od_tf_attr_float(t, "epsilon", ((const od_batch_norm_params *)n->params)->epsilon);
  od_tf_attr_text(t, "data_format", "NHWC");
  od_tf_attr_bool(t, "is_training", false);
  od_tf_out(t, 0, y);
  return OD_OK;
}

static const od_batch_norm_params usual = {1e-3f}, tiny = {1e-5f};
#define C(lo, hi, n) OD_F32_IN(lo, hi, n)
static const od_sample samples[] = {
    {.name = "feature map", .params = &usual, .n_in = 5,
     .in = {OD_F32_IN(-2, 2, 2, 5, 7, 24), C(0.5, 1.5, 24), C(-1, 1, 24), C(-1, 1, 24), C(0.3, 2, 24)}},
    {.name = "odd channels", .params = &tiny, .n_in = 5,
     .in = {OD_F32_IN(-2, 2, 1, 3, 3, 19), C(0.5, 1.5, 19), C(-1, 1, 19), C(-1, 1, 19), C(0.3, 2, 19)}},
    {.name = "no gamma", .params = &usual, .n_in = 5,
     .in = {OD_F32_IN(-2, 2, 2, 4, 4, 16), OD_ABSENT_IN, C(-1, 1, 16), C(-1, 1, 16), C(0.3, 2, 16)}},
    {.name = "no beta", .params = &usual, .n_in = 5,
     .in = {OD_F32_IN(-2, 2, 2, 4, 4, 16), C(0.5, 1.5, 16), OD_ABSENT_IN, C(-1, 1, 16), C(0.3, 2, 16)}},
    {.name = "neither", .params = &usual, .n_in = 5,
     .in = {OD_F32_IN(-2, 2, 2, 3, 4, 8), OD_ABSENT_IN, OD_ABSENT_IN, C(-1, 1, 8), C(0.3, 2, 8)}},
    {.name = "empty", .params = &usual, .n_in = 5,
     .in = {OD_F32_IN(-2, 2, 0, 3, 4, 8), C(0.5, 1.5, 8), C(-1, 1, 8), C(-1, 1, 8), C(0.3, 2, 8)}, .few = true},
};

const od_op od_op_batch_norm = {
    .name = "batch_norm", .help = "normalisation with given statistics", .params = od_batch_norm_param_table,
    .params_size = sizeof(od_batch_norm_params), .min_in = 5, .max_in = 5, .optional_in = 1u << 1 | 1u << 2, .n_out = 1,
    .flags = OD_OP_BF16, .alias = {1}, .infer = infer, .ref = forward, .grad = gradient, .write_tf = write,
    OD_SAMPLES(samples), .tolerance = 1e-5,
};

/* ------------------------------------------------------------------------------------------------------------ gradient */
static size_t scratch(const od_infer *c) { return 2 * sizeof(double) * (size_t)c->out[1].shape.dim[0]; }

static od_status backward(const od_call *c) {
  const float *dy = c->in[0].data, *x = c->in[1].data, *gamma = c->in[2].data, *mean = c->in[3].data, *var = c->in[4].data;
  double epsilon = ((const od_batch_norm_params *)c->params)->epsilon;
  float *dx = c->out[0].data, *dgamma = c->out[1].data, *dbeta = c->out[2].data;
  int64_t n = od_tensor_size(&c->in[1]), k = od_last(&c->in[1]);
  double *sum_xhat = c->scratch, *sum = sum_xhat + k;
  memset(sum, 0, sizeof *sum * (size_t)k);
  memset(sum_xhat, 0, sizeof *sum_xhat * (size_t)k);
  for (int64_t i = 0; i < n; i++) {
    int64_t ch = i % k;
    double r = 1 / sqrt(var[ch] + epsilon), d = dy[i];
    sum[ch] += d;
    sum_xhat[ch] += d * ((double)x[i] - mean[ch]) * r;
    dx[i] = (float)(d * (gamma ? gamma[ch] : 1.0) * r);
  }
  for (int64_t ch = 0; ch < k; ch++) {
    dgamma[ch] = (float)sum_xhat[ch];
    dbeta[ch] = (float)sum[ch];
  }
  return OD_OK;
}

static const od_sample grad_samples[] = {
    {.name = "feature map", .params = &usual, .n_in = 5,
     .in = {OD_F32_IN(-1, 1, 2, 5, 7, 24), OD_F32_IN(-2, 2, 2, 5, 7, 24), C(0.5, 1.5, 24), C(-1, 1, 24), C(0.3, 2, 24)}},
    {.name = "no gamma, odd channels", .params = &tiny, .n_in = 5,
     .in = {OD_F32_IN(-1, 1, 1, 5, 3, 19), OD_F32_IN(-2, 2, 1, 5, 3, 19), OD_ABSENT_IN, C(-1, 1, 19), C(0.3, 2, 19)}},
};

const od_op od_op_batch_norm_grad = {
    .name = "batch_norm_grad", .help = "(dy, x, gamma?, mean, variance) -> dx, dgamma, dbeta", .params = od_batch_norm_param_table,
    .params_size = sizeof(od_batch_norm_params), .min_in = 5, .max_in = 5, .optional_in = 1u << 2, .n_out = 3,
    .flags = OD_OP_BF16, .alias = {1}, .infer = od_batch_norm_grad_infer, .ref = backward, .scratch = scratch, .no_grad = OD_NO_SECOND,
    .no_tf = OD_NO_TF_TRAINING, OD_SAMPLES(grad_samples), .tolerance = 1e-5,
};
