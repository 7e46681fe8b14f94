/* batch_norm_train: normalisation with the statistics of the batch itself, as TensorFlow's FusedBatchNorm with is_training:
 * mean and biased variance a channel, y = gamma * xhat + beta, xhat = (x - mean) * r, r = 1/sqrt(variance + epsilon).
 * Output 3 is what TensorFlow hands to the moving average: the variance times n / max(n - 1, 1).
 *
 * Gradient, the statistics being functions of x too (n elements a channel, means over them):
 * dx = gamma * r * (dy - mean(dy) - xhat * mean(dy * xhat)), dgamma = sum(dy * xhat), dbeta = sum(dy). */
#include <math.h>
#include <string.h>

#include "ops/batch_norm.h"
#include "ops/table.h"

od_value od_batch_norm_train(od_graph *g, od_value x, od_value gamma, od_value beta, float epsilon) {
  return od_graph_add(g, &od_op_batch_norm_train, (od_value[]){x, gamma, beta}, 3, &(od_batch_norm_params){epsilon});
}

static od_status infer(const od_infer *c) { return od_batch_norm_infer(c, 0, 1, 3); }
static size_t scratch(const od_infer *c) { return 2 * sizeof(double) * (size_t)c->out[1].shape.dim[0]; }

/* Mean and biased variance of k channels over n elements, two passes. */
static void statistics(double *mean, double *var, const float *x, int64_t n, int64_t k) {
  double count = n > 0 ? (double)(n / k) : 1;
  memset(mean, 0, sizeof *mean * (size_t)k);
  memset(var, 0, sizeof *var * (size_t)k);
  for (int64_t i = 0; i < n; i++) mean[i % k] += x[i];
  for (int64_t ch = 0; ch < k; ch++) mean[ch] /= count;
  for (int64_t i = 0; i < n; i++) {
    double d = x[i] - mean[i % k];
    var[i % k] += d * d;
  }
  for (int64_t ch = 0; ch < k; ch++) var[ch] /= count;
}

static od_status forward(const od_call *c) {
  const float *x = c->in[0].data, *gamma = c->in[1].data, *beta = c->in[2].data;
  double epsilon = ((const od_batch_norm_params *)c->params)->epsilon;
  float *y = c->out[0].data, *out_mean = c->out[1].data, *out_var = c->out[2].data, *moving = c->out[3].data;
  int64_t n = od_tensor_size(&c->in[0]), k = od_last(&c->in[0]);
  double *mean = c->scratch, *var = mean + k;
  statistics(mean, var, x, n, k);
  for (int64_t i = 0; i < n; i++) {
    int64_t ch = i % k;
    y[i] = (float)((x[i] - mean[ch]) / sqrt(var[ch] + epsilon) * (gamma ? gamma[ch] : 1.0) + (beta ? beta[ch] : 0.0));
  }
  double count = k > 0 ? (double)(n / k) : 0, bessel = count / (count > 1 ? count - 1 : 1);
  for (int64_t ch = 0; ch < k; ch++) {
    out_mean[ch] = (float)mean[ch];
    out_var[ch] = (float)var[ch];
    moving[ch] = (float)(var[ch] * bessel);
  }
  return OD_OK;
}

static od_status gradient(od_grad *c) {
  const od_value *in = c->node->in;
  if (!od_has(c->dout[0])) return OD_OK; /* the statistics as such are for moving averages: constants */
  od_value d = od_graph_add(c->graph, &od_op_batch_norm_train_grad,
                            (od_value[]){c->dout[0], in[0], in[1], od_self(c, 1), od_self(c, 2)}, 5, c->node->params);
  for (int i = 0; i < 3; i++)
    if (c->need[i]) c->din[i] = od_out(d, i);
  return OD_OK;
}

static const od_batch_norm_params usual = {1e-3f}, tiny = {1e-5f};
#define C(lo, hi, n) OD_F32_IN(lo, hi, n)
static const od_sample samples[] = {
    {.name = "feature map", .params = &usual, .n_in = 3, .in = {OD_F32_IN(-2, 3, 2, 5, 7, 24), C(0.5, 1.5, 24), C(-1, 1, 24)}},
    {.name = "odd channels", .params = &tiny, .n_in = 3, .in = {OD_F32_IN(-2, 1, 2, 9, 5, 19), C(0.5, 1.5, 19), C(-1, 1, 19)}},
    {.name = "no gamma", .params = &usual, .n_in = 3, .in = {OD_F32_IN(-2, 2, 2, 4, 4, 16), OD_ABSENT_IN, C(-1, 1, 16)}},
    {.name = "no beta", .params = &usual, .n_in = 3, .in = {OD_F32_IN(-2, 2, 2, 4, 4, 16), C(0.5, 1.5, 16), OD_ABSENT_IN}},
    {.name = "far from zero", .params = &usual, .n_in = 3, .in = {OD_F32_IN(99, 101, 4, 6, 6, 8), OD_ABSENT_IN, OD_ABSENT_IN}},
    {.name = "one pixel a channel", .params = &usual, .n_in = 3, .in = {OD_F32_IN(-2, 2, 1, 1, 1, 8), C(0.5, 1.5, 8), C(0.5, 1, 8)}},
};

const od_op od_op_batch_norm_train = {
    .name = "batch_norm_train", .help = "normalisation with the batch's statistics -> y, mean, variance, moving_variance",
    .params = od_batch_norm_param_table, .params_size = sizeof(od_batch_norm_params), .min_in = 3, .max_in = 3,
    .optional_in = 1u << 1 | 1u << 2, .n_out = 4, .flags = OD_OP_BF16, .infer = infer, .ref = forward, .scratch = scratch,
    .grad = gradient, .no_tf = OD_NO_TF_TRAINING, OD_SAMPLES(samples), .tolerance = 2e-5,
};

/* ------------------------------------------------------------------------------------------------------------ gradient */
static od_status backward(const od_call *c) {
  const float *dy = c->in[0].data, *x = c->in[1].data, *gamma = c->in[2].data, *mean = c->in[3].data, *var = c->in[4].data;
  double epsilon = ((const od_batch_norm_params *)c->params)->epsilon;
  float *dx = c->out[0].data, *dgamma = c->out[1].data, *dbeta = c->out[2].data;
  int64_t n = od_tensor_size(&c->in[1]), k = od_last(&c->in[1]);
  double *sum = c->scratch, *sum_xhat = sum + k, count = n > 0 ? (double)(n / k) : 1;
  memset(sum, 0, 2 * sizeof *sum * (size_t)k);
  for (int64_t i = 0; i < n; i++) {
    int64_t ch = i % k;
    sum[ch] += dy[i];
    sum_xhat[ch] += dy[i] * ((double)x[i] - mean[ch]) / sqrt(var[ch] + epsilon);
  }
  for (int64_t i = 0; i < n; i++) {
    int64_t ch = i % k;
    double r = 1 / sqrt(var[ch] + epsilon), xhat = ((double)x[i] - mean[ch]) * r;
    dx[i] = (float)((gamma ? gamma[ch] : 1.0) * r * (dy[i] - sum[ch] / count - xhat * sum_xhat[ch] / count));
  }
  for (int64_t ch = 0; ch < k; ch++) {
    dgamma[ch] = (float)sum_xhat[ch];
    dbeta[ch] = (float)sum[ch];
  }
  return OD_OK;
}

static const od_sample grad_samples[] = {
    {.name = "feature map", .params = &usual, .n_in = 5,
     .in = {OD_F32_IN(-1, 1, 2, 5, 7, 24), OD_F32_IN(-2, 2, 2, 5, 7, 24), C(0.5, 1.5, 24), C(-0.1, 0.1, 24), C(1, 1.6, 24)}},
    {.name = "no gamma, odd channels", .params = &tiny, .n_in = 5,
     .in = {OD_F32_IN(-1, 1, 1, 5, 3, 19), OD_F32_IN(-2, 2, 1, 5, 3, 19), OD_ABSENT_IN, C(-0.1, 0.1, 19), C(1, 1.6, 19)}},
};

const od_op od_op_batch_norm_train_grad = {
    .name = "batch_norm_train_grad", .help = "(dy, x, gamma?, mean, variance) -> dx, dgamma, dbeta",
    .params = od_batch_norm_param_table, .params_size = sizeof(od_batch_norm_params), .min_in = 5, .max_in = 5,
    .optional_in = 1u << 2, .n_out = 3, .flags = OD_OP_BF16, .infer = od_batch_norm_grad_infer, .ref = backward, .scratch = scratch,
    .no_grad = OD_NO_SECOND, .no_tf = OD_NO_TF_TRAINING, OD_SAMPLES(grad_samples), .tolerance = 1e-5,
};
