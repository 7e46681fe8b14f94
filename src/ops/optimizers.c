/* sgd, momentum, rmsprop, adam, moving_average: one step of an optimizer for one variable, elementwise, outputs in place over
 * the variable and its slots where the engine likes. Formulas and order of operations are those of TensorFlow's Apply kernels
 * (training_ops): float32, every operation rounded, so that trajectories agree to the last bits that threads leave alike. */
#include <math.h>

#include "ops/common.h"
#include "ops/optim.h"
#include "ops/table.h"

#define NO_GRADIENT "an update is not differentiated"
#define NO_TF "training only: exported graphs hold no optimizer"

/* The first `n` inputs are of one shape, which is every output's; the rest are scalars. */
static od_status infer_step(const od_infer *c, int n) {
  od_shape s = c->in[0].shape;
  for (int i = 0; i < c->n_in; i++) {
    if (!c->present[i]) continue;
    OD_TRY(od_want(c, i, OD_F32, i < n ? -1 : 0));
    if (i < n) OD_TRY(od_fail_context(od_merge_shape(c, &s, &s, &c->in[i].shape), "input %d", i));
  }
  for (int o = 0; o < c->n_out; o++) c->out[o] = (od_type){OD_F32, s};
  return OD_OK;
}
static od_status infer2(const od_infer *c) { return infer_step(c, 2); }
static od_status infer3(const od_infer *c) { return infer_step(c, 3); }
static od_status infer4(const od_infer *c) { return infer_step(c, 4); }

static float scalar(const od_call *c, int i) { return *(const float *)c->in[i].data; }
static int64_t count(const od_call *c) { return od_tensor_size(&c->in[0]); }

#define V(lo, hi) OD_F32_IN(lo, hi, 3, 3, 19, 5)
#define EMPTY OD_F32_IN(0, 1, 0, 4)

/* ----------------------------------------------------------------------------------------------------------------- sgd */
od_value od_sgd(od_graph *g, od_value var, od_value grad, od_value lr) {
  return od_graph_add(g, &od_op_sgd, (od_value[]){var, grad, lr}, 3, NULL);
}

static od_status sgd_ref(const od_call *c) {
  const float *var = c->in[0].data, *grad = c->in[1].data;
  float *to = c->out[0].data, lr = scalar(c, 2);
  for (int64_t i = 0, n = count(c); i < n; i++) to[i] = var[i] - lr * grad[i];
  return OD_OK;
}

static const od_sample sgd_samples[] = {
    {.name = "filter", .n_in = 3, .in = {V(-1, 1), V(-1, 1), OD_F32_SCALAR_IN(0.01, 0.1)}},
    {.name = "empty", .n_in = 3, .in = {EMPTY, EMPTY, OD_F32_SCALAR_IN(0.01, 0.1)}, .few = true},
};

const od_op od_op_sgd = {
    .name = "sgd", .help = "(var, grad, lr) -> var'", .min_in = 3, .max_in = 3, .n_out = 1, .alias = {1}, .infer = infer2,
    .ref = sgd_ref, .no_grad = NO_GRADIENT, .no_tf = NO_TF, OD_SAMPLES(sgd_samples), .tolerance = 1e-6,
};

/* ------------------------------------------------------------------------------------------------------------ momentum */
static const od_param momentum_params[] = {OD_PARAM(od_momentum_params, momentum, OD_P_FLOAT, "share of the last step that stays"),
                                           OD_PARAM(od_momentum_params, use_nesterov, OD_P_BOOL, "Nesterov's form"), {0}};

od_value od_momentum(od_graph *g, od_value var, od_value acc, od_value grad, od_value lr, const od_momentum_params *p) {
  return od_graph_add(g, &od_op_momentum, (od_value[]){var, acc, grad, lr}, 4, p);
}

static od_status momentum_ref(const od_call *c) {
  const od_momentum_params *p = c->params;
  const float *var = c->in[0].data, *acc = c->in[1].data, *grad = c->in[2].data;
  float *to_var = c->out[0].data, *to_acc = c->out[1].data, lr = scalar(c, 3);
  for (int64_t i = 0, n = count(c); i < n; i++) {
    float g = grad[i], a = acc[i] * p->momentum + g;
    to_var[i] = p->use_nesterov ? var[i] - (g * lr + a * p->momentum * lr) : var[i] - a * lr;
    to_acc[i] = a;
  }
  return OD_OK;
}

static const od_momentum_params usual_momentum = {0.9f, false}, nesterov = {0.9f, true};
static const od_sample momentum_samples[] = {
    {.name = "filter", .params = &usual_momentum, .n_in = 4, .in = {V(-1, 1), V(-1, 1), V(-1, 1), OD_F32_SCALAR_IN(0.01, 0.1)}},
    {.name = "Nesterov", .params = &nesterov, .n_in = 4, .in = {V(-1, 1), V(-1, 1), V(-1, 1), OD_F32_SCALAR_IN(0.01, 0.1)}},
    {.name = "empty", .params = &nesterov, .n_in = 4, .in = {EMPTY, EMPTY, EMPTY, OD_F32_SCALAR_IN(0.01, 0.1)}, .few = true},
};

const od_op od_op_momentum = {
    .name = "momentum", .help = "(var, acc, grad, lr) -> var', acc'", .params = momentum_params,
    .params_size = sizeof(od_momentum_params), .min_in = 4, .max_in = 4, .n_out = 2, .alias = {1, 2}, .infer = infer3,
    .ref = momentum_ref, .no_grad = NO_GRADIENT, .no_tf = NO_TF, OD_SAMPLES(momentum_samples), .tolerance = 1e-6,
};

/* ------------------------------------------------------------------------------------------------------------- rmsprop */
static const od_param rmsprop_params[] = {OD_PARAM(od_rmsprop_params, decay, OD_P_FLOAT, "share of the mean square that stays"),
                                          OD_PARAM(od_rmsprop_params, momentum, OD_P_FLOAT, "share of the last step that stays"),
                                          OD_PARAM(od_rmsprop_params, epsilon, OD_P_FLOAT, "added under the root"), {0}};

od_value od_rmsprop(od_graph *g, od_value var, od_value ms, od_value mom, od_value grad, od_value lr, const od_rmsprop_params *p) {
  return od_graph_add(g, &od_op_rmsprop, (od_value[]){var, ms, mom, grad, lr}, 5, p);
}

static od_status rmsprop_ref(const od_call *c) {
  const od_rmsprop_params *p = c->params;
  const float *var = c->in[0].data, *ms = c->in[1].data, *mom = c->in[2].data, *grad = c->in[3].data;
  float *to_var = c->out[0].data, *to_ms = c->out[1].data, *to_mom = c->out[2].data, lr = scalar(c, 4);
  for (int64_t i = 0, n = count(c); i < n; i++) {
    float g = grad[i], s = ms[i] + (g * g - ms[i]) * (1 - p->decay);
    float m = mom[i] * p->momentum + g * lr / sqrtf(s + p->epsilon);
    to_var[i] = var[i] - m;
    to_ms[i] = s;
    to_mom[i] = m;
  }
  return OD_OK;
}

static const od_rmsprop_params usual_rmsprop = {0.9f, 0.9f, 1.0f}, tiny_epsilon = {0.95f, 0, 1e-10f};
static const od_sample rmsprop_samples[] = {
    {.name = "filter", .params = &usual_rmsprop, .n_in = 5,
     .in = {V(-1, 1), V(0, 1), V(-1, 1), V(-1, 1), OD_F32_SCALAR_IN(0.001, 0.01)}},
    {.name = "no momentum, small epsilon", .params = &tiny_epsilon, .n_in = 5,
     .in = {V(-1, 1), V(0.1, 1), V(-1, 1), V(-1, 1), OD_F32_SCALAR_IN(0.001, 0.01)}},
    {.name = "empty", .params = &usual_rmsprop, .n_in = 5, .in = {EMPTY, EMPTY, EMPTY, EMPTY, OD_F32_SCALAR_IN(0.01, 0.1)}, .few = true},
};

const od_op od_op_rmsprop = {
    .name = "rmsprop", .help = "(var, ms, mom, grad, lr) -> var', ms', mom'", .params = rmsprop_params,
    .params_size = sizeof(od_rmsprop_params), .min_in = 5, .max_in = 5, .n_out = 3, .alias = {1, 2, 3}, .infer = infer4,
    .ref = rmsprop_ref, .no_grad = NO_GRADIENT, .no_tf = NO_TF, OD_SAMPLES(rmsprop_samples), .tolerance = 1e-6,
};

/* ---------------------------------------------------------------------------------------------------------------- adam */
static const od_param adam_params[] = {OD_PARAM(od_adam_params, beta1, OD_P_FLOAT, "share of the mean that stays"),
                                       OD_PARAM(od_adam_params, beta2, OD_P_FLOAT, "share of the mean square that stays"),
                                       OD_PARAM(od_adam_params, epsilon, OD_P_FLOAT, "added to the root"), {0}};

od_value od_adam(od_graph *g, od_value var, od_value m, od_value v, od_value grad, od_value lr, od_value beta1_power,
                 od_value beta2_power, const od_adam_params *p) {
  return od_graph_add(g, &od_op_adam, (od_value[]){var, m, v, grad, lr, beta1_power, beta2_power}, 7, p);
}

static od_status adam_ref(const od_call *c) {
  const od_adam_params *p = c->params;
  const float *var = c->in[0].data, *m = c->in[1].data, *v = c->in[2].data, *grad = c->in[3].data;
  float *to_var = c->out[0].data, *to_m = c->out[1].data, *to_v = c->out[2].data;
  float alpha = scalar(c, 4) * sqrtf(1 - scalar(c, 6)) / (1 - scalar(c, 5));
  for (int64_t i = 0, n = count(c); i < n; i++) {
    float g = grad[i], mi = m[i] + (g - m[i]) * (1 - p->beta1), vi = v[i] + (g * g - v[i]) * (1 - p->beta2);
    to_var[i] = var[i] - mi * alpha / (sqrtf(vi) + p->epsilon);
    to_m[i] = mi;
    to_v[i] = vi;
  }
  return OD_OK;
}

static const od_adam_params usual_adam = {0.9f, 0.999f, 1e-8f};
static const od_sample adam_samples[] = {
    {.name = "filter", .params = &usual_adam, .n_in = 7,
     .in = {V(-1, 1), V(-1, 1), V(0.1, 1), V(-1, 1), OD_F32_SCALAR_IN(0.001, 0.01), OD_F32_SCALAR_IN(0.5, 0.9), OD_F32_SCALAR_IN(0.9, 0.99)}},
    {.name = "empty", .params = &usual_adam, .n_in = 7,
     .in = {EMPTY, EMPTY, EMPTY, EMPTY, OD_F32_SCALAR_IN(0.01, 0.1), OD_F32_SCALAR_IN(0.5, 0.9), OD_F32_SCALAR_IN(0.9, 0.99)},
     .few = true},
};

const od_op od_op_adam = {
    .name = "adam", .help = "(var, m, v, grad, lr, beta1_power, beta2_power) -> var', m', v'", .params = adam_params,
    .params_size = sizeof(od_adam_params), .min_in = 7, .max_in = 7, .n_out = 3, .alias = {1, 2, 3}, .infer = infer4,
    .ref = adam_ref, .no_grad = NO_GRADIENT, .no_tf = NO_TF, OD_SAMPLES(adam_samples), .tolerance = 1e-6,
};

/* ------------------------------------------------------------------------------------------------------ moving_average */
static const od_param average_params[] = {
    OD_PARAM_IN(od_moving_average_params, rate, OD_P_FLOAT, "1 - decay; not used when decay is an input", 0, 1), {0}};

od_value od_moving_average(od_graph *g, od_value shadow, od_value value, double decay) {
  return od_graph_add(g, &od_op_moving_average, (od_value[]){shadow, value, OD_NONE}, 3, &(od_moving_average_params){(float)(1 - decay)});
}
od_value od_moving_average_by(od_graph *g, od_value shadow, od_value value, od_value decay) {
  return od_graph_add(g, &od_op_moving_average, (od_value[]){shadow, value, decay}, 3, &(od_moving_average_params){0});
}

static od_status average_ref(const od_call *c) {
  const float *shadow = c->in[0].data, *value = c->in[1].data;
  float *to = c->out[0].data;
  float rate = c->in[2].data ? 1 - scalar(c, 2) : ((const od_moving_average_params *)c->params)->rate;
  for (int64_t i = 0, n = count(c); i < n; i++) to[i] = shadow[i] - (shadow[i] - value[i]) * rate;
  return OD_OK;
}

static const od_moving_average_params slow = {3e-4f}, none = {0};
static const od_sample average_samples[] = {
    {.name = "constant decay", .params = &slow, .n_in = 3, .in = {V(-1, 1), V(-1, 1), OD_ABSENT_IN}},
    {.name = "decay as input", .params = &none, .n_in = 3, .in = {V(-1, 1), V(-1, 1), OD_F32_SCALAR_IN(0.1, 0.9)}},
    {.name = "empty", .params = &slow, .n_in = 3, .in = {EMPTY, EMPTY, OD_ABSENT_IN}, .few = true},
};

const od_op od_op_moving_average = {
    .name = "moving_average", .help = "(shadow, value, decay?) -> shadow'", .params = average_params,
    .params_size = sizeof(od_moving_average_params), .min_in = 3, .max_in = 3, .optional_in = 1u << 2, .n_out = 1, .alias = {1},
    .infer = infer2, .ref = average_ref, .no_grad = NO_GRADIENT, .no_tf = NO_TF, OD_SAMPLES(average_samples), .tolerance = 1e-6,
};
