/* softmax and log_softmax over the last axis, the largest taken off first; gradients from the output y:
 * softmax dx = y * (dy - sum(dy * y)), log_softmax dx = dy - exp(y) * sum(dy). */
#include <math.h>

#include "ops/common.h"
#include "ops/nn.h"
#include "ops/table.h"

od_value od_softmax(od_graph *g, od_value x) { return od_graph_add(g, &od_op_softmax, &x, 1, NULL); }
od_value od_log_softmax(od_graph *g, od_value x) { return od_graph_add(g, &od_op_log_softmax, &x, 1, NULL); }

static od_status infer(const od_infer *c) {
  OD_TRY(od_infer_float(c));
  return c->in[0].shape.rank >= 1 ? OD_OK : od_fail(OD_EINVAL, "a scalar has no classes");
}

static od_status forward(const od_call *c, bool logarithm) {
  const float *x = c->in[0].data;
  float *y = c->out[0].data;
  int64_t k = od_last(&c->in[0]), rows = k > 0 ? od_tensor_size(&c->in[0]) / k : 0;
  for (int64_t r = 0; r < rows; r++, x += k, y += k) {
    double top = x[0], sum = 0;
    for (int64_t i = 1; i < k; i++)
      if (x[i] > top) top = x[i];
    for (int64_t i = 0; i < k; i++) sum += exp(x[i] - top);
    for (int64_t i = 0; i < k; i++) y[i] = (float)(logarithm ? x[i] - top - log(sum) : exp(x[i] - top) / sum);
  }
  return OD_OK;
}
static od_status softmax_ref(const od_call *c) { return forward(c, false); }
static od_status log_softmax_ref(const od_call *c) { return forward(c, true); }

static od_status backward(const od_call *c, bool logarithm) {
  const float *dy = c->in[0].data, *y = c->in[1].data;
  float *dx = c->out[0].data;
  int64_t k = od_last(&c->in[0]), rows = k > 0 ? od_tensor_size(&c->in[0]) / k : 0;
  for (int64_t r = 0; r < rows; r++, dy += k, y += k, dx += k) {
    double sum = 0;
    for (int64_t i = 0; i < k; i++) sum += logarithm ? (double)dy[i] : (double)dy[i] * y[i];
    for (int64_t i = 0; i < k; i++) dx[i] = (float)(logarithm ? dy[i] - exp(y[i]) * sum : y[i] * (dy[i] - sum));
  }
  return OD_OK;
}
static od_status softmax_grad_ref(const od_call *c) { return backward(c, false); }
static od_status log_softmax_grad_ref(const od_call *c) { return backward(c, true); }

static od_status softmax_back(od_grad *c) {
  c->din[0] = od_graph_add(c->graph, &od_op_softmax_grad, (od_value[]){c->dout[0], od_self(c, 0)}, 2, NULL);
  return OD_OK;
}
static od_status log_softmax_back(od_grad *c) {
  c->din[0] = od_graph_add(c->graph, &od_op_log_softmax_grad, (od_value[]){c->dout[0], od_self(c, 0)}, 2, NULL);
  return OD_OK;
}
static od_status softmax_tf(od_tf *t, const od_node *n) { return od_tf_same(t, n, "Softmax"); }
static od_status log_softmax_tf(od_tf *t, const od_node *n) { return od_tf_same(t, n, "LogSoftmax"); }

static const od_sample samples[] = {
    {.name = "scores", .n_in = 1, .in = {OD_F32_IN(-3, 3, 2, 19, 7)}},
    {.name = "large logits", .n_in = 1, .in = {OD_F32_IN(-200, 200, 5, 21)}},
    {.name = "empty", .n_in = 1, .in = {OD_F32_IN(-3, 3, 0, 7)}, .few = true},
};
static const od_sample grad_samples[] = {
    {.name = "scores", .n_in = 2, .in = {OD_F32_IN(-1, 1, 2, 19, 7), OD_F32_IN(0, 0.3, 2, 19, 7)}},
    {.name = "empty", .n_in = 2, .in = {OD_F32_IN(-1, 1, 0, 7), OD_F32_IN(0, 1, 0, 7)}, .few = true},
};

#define SOFTMAX(name_, help_)                                                                                         \
  const od_op od_op_##name_ = {                                                                                       \
      .name = #name_, .help = help_, .min_in = 1, .max_in = 1, .n_out = 1, .infer = infer, .ref = name_##_ref,        \
      .grad = name_##_back, .write_tf = name_##_tf, OD_SAMPLES(samples), .tolerance = 2e-6,                           \
  };                                                                                                                  \
  const od_op od_op_##name_##_grad = {                                                                                \
      .name = #name_ "_grad", .help = "gradient of " #name_ " from its output: (dy, y) -> dx", .min_in = 2,           \
      .max_in = 2, .n_out = 1, .infer = od_infer_float_alike, .ref = name_##_grad_ref, .no_grad = OD_NO_SECOND,       \
      .no_tf = OD_NO_TF_TRAINING, OD_SAMPLES(grad_samples), .tolerance = 2e-6,                                        \
  }
SOFTMAX(softmax, "exp(x) / sum(exp(x)) over the last axis");
SOFTMAX(log_softmax, "logarithm of softmax");
