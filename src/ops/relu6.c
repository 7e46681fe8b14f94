/* relu6(x) = min(max(x, 0), 6), and its gradient from the OUTPUT y: dx = dy where 0 < y < 6, else 0, as TensorFlow's
 * Relu6Grad has it (at the two kinks nothing flows). Howard et al., MobileNets, 2017. */
#include "graph/emit_tf.h"
#include "graph/graph.h"
#include "ops/nn.h"

extern const od_op od_op_relu6, od_op_relu6_grad;

od_value od_relu6(od_graph *g, od_value x) { return od_graph_add(g, &od_op_relu6, &x, 1, NULL); }

static od_status infer(const od_infer *c) {
  c->out[0] = c->in[0];
  return OD_OK;
}

static od_status relu6_ref(const od_call *c) {
  const float *x = c->in[0].data;
  float *y = c->out[0].data;
  /* written so that NaN goes through and is found by the trainer */
  for (int64_t i = 0, n = od_tensor_size(&c->in[0]); i < n; i++) y[i] = x[i] < 0 ? 0 : x[i] > 6 ? 6 : x[i];
  return OD_OK;
}

static od_status relu6_back(od_grad *c) {
  c->din[0] = od_graph_add(c->graph, &od_op_relu6_grad, (od_value[]){c->dout[0], {(od_node *)(uintptr_t)c->node, 0}}, 2, NULL);
  return OD_OK;
}

static od_status relu6_tf(od_tf *t, const od_node *n) {
  (void)n;
  return od_tf_simple(t, "Relu6");
}

static const od_sample relu6_samples[] = {
    {.name = "feature map", .n_in = 1, .in = {{OD_F32, {4, {2, 5, 7, 24}}, -4, 10, false}}},
    {.name = "empty", .n_in = 1, .in = {{OD_F32, {2, {0, 3}}, -1, 1, false}}, .few = true},
};

const od_op od_op_relu6 = {
    .name = "relu6", .help = "min(max(x, 0), 6)", .min_in = 1, .max_in = 1, .n_out = 1, .flags = OD_OP_BF16, .alias = {1},
    .infer = infer, .ref = relu6_ref, .grad = relu6_back, .write_tf = relu6_tf,
    .samples = relu6_samples, .n_samples = 2, .tolerance = 0,
};

static od_status grad_ref(const od_call *c) {
  const float *dy = c->in[0].data, *y = c->in[1].data;
  float *dx = c->out[0].data;
  for (int64_t i = 0, n = od_tensor_size(&c->in[0]); i < n; i++) dx[i] = y[i] > 0 && y[i] < 6 ? dy[i] : 0;
  return OD_OK;
}

static const od_sample grad_samples[] = {
    {.name = "feature map", .n_in = 2,
     .in = {{OD_F32, {3, {3, 5, 17}}, -1, 1, false}, {OD_F32, {3, {3, 5, 17}}, 0, 6, false}}},
};

const od_op od_op_relu6_grad = {
    .name = "relu6_grad", .help = "gradient of relu6 from its output: (dy, y) -> dx", .min_in = 2, .max_in = 2, .n_out = 1,
    .flags = OD_OP_BF16, .alias = {1}, .infer = infer, .ref = grad_ref,
    .no_grad = "second derivatives are not needed", .no_tf = "training only",
    .samples = grad_samples, .n_samples = 1, .tolerance = 0,
};
