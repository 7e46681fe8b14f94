/* dropout: y = x / keep_prob where the element is kept, else 0 (Srivastava et al., Dropout, 2014; the scaled form of
 * tf.nn.dropout). Element i is kept when od_rng_f32(key, i) < keep_prob: a pure function of the node's key and i, so every
 * engine and any number of threads draw the same. The mask is an output of its own, one byte an element, which the gradient
 * reads: the gradient's node has another key. */
#include "ops/common.h"
#include "ops/nn.h"
#include "ops/table.h"

static const od_param params[] = {
    OD_PARAM_IN(od_dropout_params, keep_prob, OD_P_FLOAT, "share of elements that are kept", 1e-6, 1), {0}};

od_value od_dropout(od_graph *g, od_value x, float keep_prob) {
  return od_graph_add(g, &od_op_dropout, &x, 1, &(od_dropout_params){keep_prob});
}

static od_status infer(const od_infer *c) {
  OD_TRY(od_infer_float(c));
  c->out[1] = (od_type){OD_U8, c->in[0].shape};
  return OD_OK;
}

static od_status forward(const od_call *c) {
  float keep = ((const od_dropout_params *)c->params)->keep_prob;
  const float *x = c->in[0].data;
  float *y = c->out[0].data;
  uint8_t *mask = c->out[1].data;
  for (int64_t i = 0, n = od_tensor_size(&c->in[0]); i < n; i++) {
    mask[i] = od_rng_f32(c->key, (uint64_t)i) < keep;
    y[i] = mask[i] ? x[i] / keep : 0;
  }
  return OD_OK;
}

static od_status gradient(od_grad *c) {
  c->din[0] = od_graph_add(c->graph, &od_op_dropout_grad, (od_value[]){c->dout[0], od_self(c, 1)}, 2, c->node->params);
  return OD_OK;
}

static const od_dropout_params most = {0.8f}, all = {1}, few = {0.3f};
static const od_sample samples[] = {
    {.name = "feature map", .params = &most, .n_in = 1, .in = {OD_F32_IN(-1, 1, 2, 5, 7, 19)}},
    {.name = "a third is kept", .params = &few, .n_in = 1, .in = {OD_F32_IN(-1, 1, 50, 33)}},
    {.name = "all are kept", .params = &all, .n_in = 1, .in = {OD_F32_IN(-1, 1, 33)}},
    {.name = "empty", .params = &most, .n_in = 1, .in = {OD_F32_IN(-1, 1, 0)}, .few = true},
};

const od_op od_op_dropout = {
    .name = "dropout", .help = "elements set to 0 at random -> y, mask", .params = params, .params_size = sizeof(od_dropout_params),
    .min_in = 1, .max_in = 1, .n_out = 2, .flags = OD_OP_RANDOM, .alias = {1}, .infer = infer, .ref = forward, .grad = gradient,
    .no_tf = OD_NO_TF_TRAINING, OD_SAMPLES(samples), .tolerance = 1e-6,
};

static od_status infer_grad(const od_infer *c) {
  OD_TRY(od_want(c, 0, OD_F32, -1));
  OD_TRY(od_want(c, 1, OD_U8, -1));
  c->out[0].dtype = OD_F32;
  return od_merge_shape(c, &c->out[0].shape, &c->in[0].shape, &c->in[1].shape);
}

static od_status backward(const od_call *c) {
  float keep = ((const od_dropout_params *)c->params)->keep_prob;
  const float *dy = c->in[0].data;
  const uint8_t *mask = c->in[1].data;
  float *dx = c->out[0].data;
  for (int64_t i = 0, n = od_tensor_size(&c->in[0]); i < n; i++) dx[i] = mask[i] ? dy[i] / keep : 0;
  return OD_OK;
}

static const od_sample grad_samples[] = {
    {.name = "feature map", .params = &most, .n_in = 2,
     .in = {OD_F32_IN(-1, 1, 2, 5, 7, 19), {OD_U8, {4, {2, 5, 7, 19}}, 0, 1, false}}},
    {.name = "empty", .params = &most, .n_in = 2, .in = {OD_F32_IN(-1, 1, 0), {OD_U8, {1, {0}}, 0, 1, false}}, .few = true},
};

const od_op od_op_dropout_grad = {
    .name = "dropout_grad", .help = "(dy, mask) -> dx", .params = params, .params_size = sizeof(od_dropout_params), .min_in = 2,
    .max_in = 2, .n_out = 1, .alias = {1}, .infer = infer_grad, .ref = backward, .no_grad = OD_NO_SECOND,
    .no_tf = OD_NO_TF_TRAINING, OD_SAMPLES(grad_samples), .tolerance = 1e-6,
};
