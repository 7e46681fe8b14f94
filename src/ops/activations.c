/* relu, elu, sigmoid, tanh, and their gradients from the output y, which training has in memory anyway: relu y > 0 ? dy : 0;
 * elu y >= 0 ? dy : dy * (y + 1); sigmoid dy * y * (1 - y); tanh dy * (1 - y^2). (relu6 has a file of its own.) NaN passes
 * through every one, so that the trainer finds it. */
#include <math.h>

#include "ops/common.h"
#include "ops/nn.h"
#include "ops/table.h"

/* An activation: forward of x and gradient of (d, y) as expressions in float or double. */
#define ACTIVATION(name_, TfName, help_, forward_, gradient_, tol)                                                     \
  od_value od_##name_(od_graph *g, od_value x) { return od_graph_add(g, &od_op_##name_, &x, 1, NULL); }               \
  static od_status name_##_ref(const od_call *c) {                                                                    \
    const float *from = c->in[0].data;                                                                                \
    float *to = c->out[0].data;                                                                                       \
    for (int64_t i = 0, n = od_tensor_size(&c->in[0]); i < n; i++) {                                                  \
      double x = from[i];                                                                                             \
      to[i] = (float)(forward_);                                                                                      \
    }                                                                                                                 \
    return OD_OK;                                                                                                     \
  }                                                                                                                   \
  static od_status name_##_back(od_grad *c) {                                                                         \
    c->din[0] = od_graph_add(c->graph, &od_op_##name_##_grad, (od_value[]){c->dout[0], od_self(c, 0)}, 2, NULL);      \
    return OD_OK;                                                                                                     \
  }                                                                                                                   \
  static od_status name_##_tf(od_tf *t, const od_node *n) { return od_tf_same(t, n, TfName); }                        \
  const od_op od_op_##name_ = {                                                                                       \
      .name = #name_, .help = help_, .min_in = 1, .max_in = 1, .n_out = 1, .flags = OD_OP_BF16, .alias = {1},         \
      .infer = od_infer_float, .ref = name_##_ref, .grad = name_##_back, .write_tf = name_##_tf, OD_SAMPLES(samples), \
      .tolerance = tol,                                                                                               \
  };                                                                                                                  \
  static od_status name_##_grad_ref(const od_call *c) {                                                               \
    const float *dy = c->in[0].data, *of = c->in[1].data;                                                             \
    float *to = c->out[0].data;                                                                                       \
    for (int64_t i = 0, n = od_tensor_size(&c->in[0]); i < n; i++) {                                                  \
      double d = dy[i], y = of[i];                                                                                    \
      to[i] = (float)(gradient_);                                                                                     \
    }                                                                                                                 \
    return OD_OK;                                                                                                     \
  }                                                                                                                   \
  const od_op od_op_##name_##_grad = {                                                                                \
      .name = #name_ "_grad", .help = "gradient of " #name_ " from its output: (dy, y) -> dx", .min_in = 2,           \
      .max_in = 2, .n_out = 1, .flags = OD_OP_BF16, .alias = {1}, .infer = od_infer_float_alike,                      \
      .ref = name_##_grad_ref, .no_grad = OD_NO_SECOND, .no_tf = OD_NO_TF_TRAINING, OD_SAMPLES(grad_samples),         \
      .tolerance = tol,                                                                                               \
  }

static const od_sample samples[] = {
    {.name = "feature map", .n_in = 1, .in = {OD_F32_IN(-4, 4, 2, 5, 7, 24)}},
    {.name = "far out", .n_in = 1, .in = {OD_F32_IN(-100, 100, 3, 37)}},
    {.name = "empty", .n_in = 1, .in = {OD_F32_IN(-1, 1, 0, 3)}, .few = true},
};
static const od_sample grad_samples[] = {
    {.name = "feature map", .n_in = 2, .in = {OD_F32_IN(-1, 1, 3, 5, 17), OD_F32_IN(-1, 1, 3, 5, 17)}},
    {.name = "empty", .n_in = 2, .in = {OD_F32_IN(-1, 1, 0, 3), OD_F32_IN(-1, 1, 0, 3)}, .few = true},
};

ACTIVATION(relu, "Relu", "max(x, 0)", x < 0 ? 0 : x, y > 0 ? d : 0, 0);
ACTIVATION(elu, "Elu", "x, or exp(x) - 1 where negative", x < 0 ? expm1(x) : x, y < 0 ? d * (y + 1) : d, 1e-6);
ACTIVATION(sigmoid, "Sigmoid", "1 / (1 + exp(-x))", 1 / (1 + exp(-x)), d * y * (1 - y), 1e-6);
ACTIVATION(tanh, "Tanh", "hyperbolic tangent", tanh(x), d * (1 - y * y), 1e-6);
