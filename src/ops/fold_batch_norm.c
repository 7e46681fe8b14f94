/* fold_batch_norm: a convolution's filter and bias with a frozen batch norm behind it worked in. With r = 1/sqrt(variance +
 * epsilon) and s = gamma * r, an output channel each:
 *   w' = w * s,  b' = beta - mean * s,  so that conv(x, w') + b' = batch_norm(conv(x, w)).
 * The statistics are frozen but gamma and beta are trained; what flows back through the small tensors is exact:
 *   dw = s * dw',  dbeta = db',  dgamma = r * (sum(w * dw') - mean * db'), the sum over all but the output channel.
 * So nothing of the size of a feature map is kept or computed for the normalisation. */
#include <math.h>
#include <string.h>

#include "ops/batch_norm.h"
#include "ops/table.h"

od_value od_fold_batch_norm(od_graph *g, od_value w, od_value gamma, od_value beta, od_value mean, od_value variance, float epsilon) {
  return od_graph_add(g, &od_op_fold_batch_norm, (od_value[]){w, gamma, beta, mean, variance}, 5, &(od_batch_norm_params){epsilon});
}

static od_status infer(const od_infer *c) { return od_batch_norm_infer(c, 0, 1, 1); }

static od_status forward(const od_call *c) {
  const float *w = c->in[0].data, *gamma = c->in[1].data, *beta = c->in[2].data, *mean = c->in[3].data, *var = c->in[4].data;
  double epsilon = ((const od_batch_norm_params *)c->params)->epsilon;
  float *folded = c->out[0].data, *bias = c->out[1].data;
  int64_t n = od_tensor_size(&c->in[0]), k = od_last(&c->in[0]);
  for (int64_t i = 0; i < n; i++) folded[i] = (float)((double)w[i] * (gamma ? gamma[i % k] : 1.0) / sqrt(var[i % k] + epsilon));
  for (int64_t i = 0; i < k; i++) bias[i] = (float)((beta ? beta[i] : 0.0) - mean[i] * (gamma ? gamma[i] : 1.0) / sqrt(var[i] + epsilon));
  return OD_OK;
}

static od_status gradient(od_grad *c) {
  const od_value *in = c->node->in;
  od_graph *g = c->graph;
  od_value dw = od_has(c->dout[0]) ? c->dout[0] : od_graph_add(g, &od_op_zeros_like, &(od_value){in[0].node, in[0].out}, 1, NULL);
  od_value db = od_has(c->dout[1]) ? c->dout[1] : od_graph_add(g, &od_op_zeros_like, &(od_value){in[3].node, in[3].out}, 1, NULL);
  od_value d = od_graph_add(g, &od_op_fold_batch_norm_grad, (od_value[]){dw, in[0], in[1], in[3], in[4], db}, 6, c->node->params);
  for (int i = 0; i < 2; i++)
    if (c->need[i]) c->din[i] = od_out(d, i);
  if (c->need[2]) c->din[2] = db;
  return OD_OK;
}

static const od_batch_norm_params usual = {1e-3f}, tiny = {1e-5f};
#define C(lo, hi, n) OD_F32_IN(lo, hi, n)
static const od_sample samples[] = {
    {.name = "3x3", .params = &usual, .n_in = 5,
     .in = {OD_F32_IN(-1, 1, 3, 3, 8, 24), C(0.5, 1.5, 24), C(-1, 1, 24), C(-1, 1, 24), C(0.3, 2, 24)}},
    {.name = "1x1, odd channels", .params = &tiny, .n_in = 5,
     .in = {OD_F32_IN(-1, 1, 1, 1, 13, 19), C(0.5, 1.5, 19), C(-1, 1, 19), C(-1, 1, 19), C(0.3, 2, 19)}},
    {.name = "no gamma", .params = &usual, .n_in = 5,
     .in = {OD_F32_IN(-1, 1, 3, 3, 4, 16), OD_ABSENT_IN, C(-1, 1, 16), C(-1, 1, 16), C(0.3, 2, 16)}},
    {.name = "no beta", .params = &usual, .n_in = 5,
     .in = {OD_F32_IN(-1, 1, 3, 3, 4, 16), C(0.5, 1.5, 16), OD_ABSENT_IN, C(-1, 1, 16), C(0.3, 2, 16)}},
};

const od_op od_op_fold_batch_norm = {
    .name = "fold_batch_norm", .help = "filter and bias of a convolution with a frozen batch norm worked in", .params = od_batch_norm_param_table,
    .params_size = sizeof(od_batch_norm_params), .min_in = 5, .max_in = 5, .optional_in = 1u << 1 | 1u << 2, .n_out = 2,
    .infer = infer, .ref = forward, .grad = gradient, .no_tf = OD_NO_TF_TRAINING, OD_SAMPLES(samples), .tolerance = 1e-5,
};

/* ------------------------------------------------------------------------------------------------------------ gradient */
enum { DW, W, GAMMA, MEAN, VARIANCE, DB };

static od_status infer_grad(const od_infer *c) {
  OD_TRY(od_batch_norm_infer(c, 1, 2, 1));
  OD_TRY(od_want(c, DW, OD_F32, c->in[W].shape.rank));
  return od_merge_shape(c, &c->out[0].shape, &c->out[0].shape, &c->in[DW].shape);
}

static size_t scratch(const od_infer *c) { return sizeof(double) * (size_t)c->out[1].shape.dim[0]; }

static od_status backward(const od_call *c) {
  const float *d = c->in[DW].data, *w = c->in[W].data, *gamma = c->in[GAMMA].data, *mean = c->in[MEAN].data, *var = c->in[VARIANCE].data;
  const float *db = c->in[DB].data;
  double epsilon = ((const od_batch_norm_params *)c->params)->epsilon, *sum = c->scratch;
  float *dw = c->out[0].data, *dgamma = c->out[1].data;
  int64_t n = od_tensor_size(&c->in[W]), k = od_last(&c->in[W]);
  memset(sum, 0, sizeof *sum * (size_t)k);
  for (int64_t i = 0; i < n; i++) {
    double r = 1 / sqrt(var[i % k] + epsilon);
    sum[i % k] += (double)w[i] * d[i];
    dw[i] = (float)(d[i] * (gamma ? gamma[i % k] : 1.0) * r);
  }
  for (int64_t i = 0; i < k; i++) dgamma[i] = (float)((sum[i] - (double)mean[i] * db[i]) / sqrt(var[i] + epsilon));
  return OD_OK;
}

static const od_sample grad_samples[] = {
    {.name = "3x3", .params = &usual, .n_in = 6,
     .in = {OD_F32_IN(-1, 1, 3, 3, 8, 24), OD_F32_IN(-1, 1, 3, 3, 8, 24), C(0.5, 1.5, 24), C(-1, 1, 24), C(0.3, 2, 24), C(-1, 1, 24)}},
    {.name = "no gamma, odd channels", .params = &tiny, .n_in = 6,
     .in = {OD_F32_IN(-1, 1, 1, 1, 13, 19), OD_F32_IN(-1, 1, 1, 1, 13, 19), OD_ABSENT_IN, C(-1, 1, 19), C(0.3, 2, 19), C(-1, 1, 19)}},
};

const od_op od_op_fold_batch_norm_grad = {
    .name = "fold_batch_norm_grad", .help = "(dw', w, gamma?, mean, variance, db') -> dw, dgamma", .params = od_batch_norm_param_table,
    .params_size = sizeof(od_batch_norm_params), .min_in = 6, .max_in = 6, .optional_in = 1u << GAMMA, .n_out = 2, .alias = {1},
    .infer = infer_grad, .ref = backward, .scratch = scratch, .no_grad = OD_NO_SECOND, .no_tf = OD_NO_TF_TRAINING,
    OD_SAMPLES(grad_samples), .tolerance = 1e-5,
};
