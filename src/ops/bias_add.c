/* bias_add: y[..., c] = x[..., c] + b[c]; its gradient for b sums over everything but the last axis. */
#include <string.h>

#include "ops/common.h"
#include "ops/nn.h"
#include "ops/table.h"

od_value od_bias_add(od_graph *g, od_value x, od_value b) { return od_graph_add(g, &od_op_bias_add, (od_value[]){x, b}, 2, NULL); }

static od_status infer(const od_infer *c) {
  OD_TRY(od_infer_float(c));
  OD_TRY(od_want(c, 1, OD_F32, 1));
  int rank = c->in[0].shape.rank;
  if (rank < 1) return od_fail(OD_EINVAL, "a scalar has no channels to add a bias to");
  return od_merge_dim(c, &c->out[0].shape.dim[rank - 1], c->in[0].shape.dim[rank - 1], c->in[1].shape.dim[0]);
}

static od_status forward(const od_call *c) {
  const float *x = c->in[0].data, *b = c->in[1].data;
  float *y = c->out[0].data;
  int64_t n = od_tensor_size(&c->in[0]), k = od_last(&c->in[0]);
  for (int64_t i = 0; i < n; i++) y[i] = x[i] + b[i % k];
  return OD_OK;
}

static od_status gradient(od_grad *c) {
  c->din[0] = c->dout[0];
  if (c->need[1]) c->din[1] = od_graph_add(c->graph, &od_op_bias_add_grad, c->dout, 1, NULL);
  return OD_OK;
}

static od_status write(od_tf *t, const od_node *n) {
  OD_TRY(od_tf_same(t, n, "BiasAdd"));
  od_tf_attr_text(t, "data_format", "NHWC");
  return OD_OK;
}

static const od_sample samples[] = {
    {.name = "feature map", .n_in = 2, .in = {OD_F32_IN(-1, 1, 2, 5, 7, 19), OD_F32_IN(-1, 1, 19)}},
    {.name = "matrix", .n_in = 2, .in = {OD_F32_IN(-1, 1, 9, 33), OD_F32_IN(-1, 1, 33)}},
    {.name = "empty", .n_in = 2, .in = {OD_F32_IN(-1, 1, 0, 3, 3, 8), OD_F32_IN(-1, 1, 8)}, .few = true},
};

const od_op od_op_bias_add = {
    .name = "bias_add", .help = "x [..., C] + b [C]", .min_in = 2, .max_in = 2, .n_out = 1, .flags = OD_OP_BF16, .alias = {1},
    .infer = infer, .ref = forward, .grad = gradient, .write_tf = write, OD_SAMPLES(samples), .tolerance = 1e-6,
};

static od_status infer_grad(const od_infer *c) {
  OD_TRY(od_want(c, 0, OD_F32, -1));
  int rank = c->in[0].shape.rank;
  if (rank < 1) return od_fail(OD_EINVAL, "a scalar has no channels");
  c->out[0] = (od_type){OD_F32, {1, {c->in[0].shape.dim[rank - 1]}}};
  return OD_OK;
}

static size_t scratch(const od_infer *c) { return sizeof(double) * (size_t)c->out[0].shape.dim[0]; }

static od_status sums(const od_call *c) {
  const float *dy = c->in[0].data;
  double *acc = c->scratch;
  int64_t n = od_tensor_size(&c->in[0]), k = od_last(&c->in[0]);
  memset(acc, 0, sizeof *acc * (size_t)k);
  for (int64_t i = 0; i < n; i++) acc[i % k] += dy[i];
  for (int64_t i = 0; i < k; i++) ((float *)c->out[0].data)[i] = (float)acc[i];
  return OD_OK;
}

static const od_sample grad_samples[] = {
    {.name = "feature map", .n_in = 1, .in = {OD_F32_IN(-1, 1, 2, 5, 7, 19)}},
    {.name = "empty", .n_in = 1, .in = {OD_F32_IN(-1, 1, 0, 3, 3, 8)}, .few = true},
};

const od_op od_op_bias_add_grad = {
    .name = "bias_add_grad", .help = "sums over all but the last axis", .min_in = 1, .max_in = 1, .n_out = 1, .flags = OD_OP_BF16,
    .infer = infer_grad, .ref = sums, .scratch = scratch, .no_grad = OD_NO_SECOND, .no_tf = OD_NO_TF_TRAINING,
    OD_SAMPLES(grad_samples), .tolerance = 1e-5,
};
