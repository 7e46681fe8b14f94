/* exp, log, sqrt, rsqrt, square, abs, neg, sign, floor; pow and scale with constants. Computed in double, rounded once. */
#include <math.h>

#include "ops/common.h"
#include "ops/math.h"
#include "ops/table.h"

#define UNARY(name_, TfName, help_, expr, list_, tol)                                                                 \
  od_value od_##name_(od_graph *g, od_value x) { return od_graph_add(g, &od_op_##name_, &x, 1, NULL); }               \
  static od_status name_##_ref(const od_call *c) {                                                                    \
    const float *from = c->in[0].data;                                                                                \
    float *to = c->out[0].data;                                                                                       \
    for (int64_t i = 0, n = od_tensor_size(&c->in[0]); i < n; i++) {                                                  \
      double x = from[i];                                                                                             \
      to[i] = (float)(expr);                                                                                          \
    }                                                                                                                 \
    return OD_OK;                                                                                                     \
  }                                                                                                                   \
  static od_status name_##_tf(od_tf *t, const od_node *n) { return od_tf_same(t, n, TfName); }                        \
  const od_op od_op_##name_ = {                                                                                       \
      .name = #name_, .help = help_, .min_in = 1, .max_in = 1, .n_out = 1, .alias = {1}, .infer = od_infer_float,     \
      .ref = name_##_ref, .grad = name_##_back, .write_tf = name_##_tf, OD_SAMPLES(list_), .tolerance = tol,          \
  }

static od_status exp_back(od_grad *c) {
  c->din[0] = od_mul(c->graph, c->dout[0], od_self(c, 0));
  return OD_OK;
}
static od_status log_back(od_grad *c) {
  c->din[0] = od_div(c->graph, c->dout[0], c->node->in[0]);
  return OD_OK;
}
/* d / (2 y) */
static od_status sqrt_back(od_grad *c) {
  c->din[0] = od_scale(c->graph, od_div(c->graph, c->dout[0], od_self(c, 0)), 0.5f, 0);
  return OD_OK;
}
/* -d y^3 / 2 */
static od_status rsqrt_back(od_grad *c) {
  od_value y = od_self(c, 0);
  c->din[0] = od_scale(c->graph, od_mul(c->graph, od_mul(c->graph, c->dout[0], y), od_square(c->graph, y)), -0.5f, 0);
  return OD_OK;
}
static od_status square_back(od_grad *c) {
  c->din[0] = od_scale(c->graph, od_mul(c->graph, c->dout[0], c->node->in[0]), 2, 0);
  return OD_OK;
}
static od_status abs_back(od_grad *c) {
  c->din[0] = od_mul(c->graph, c->dout[0], od_sign(c->graph, c->node->in[0]));
  return OD_OK;
}
static od_status neg_back(od_grad *c) {
  c->din[0] = od_neg(c->graph, c->dout[0]);
  return OD_OK;
}
static od_status sign_back(od_grad *c) { return od_grad_nothing(c); }
static od_status floor_back(od_grad *c) { return od_grad_nothing(c); }

static const od_sample any[] = {
    {.name = "both signs", .n_in = 1, .in = {OD_F32_IN(-3, 3, 2, 5, 7, 19)}},
    {.name = "scalar", .n_in = 1, .in = {OD_F32_SCALAR_IN(1.1, 1.9)}},
    {.name = "empty", .n_in = 1, .in = {OD_F32_IN(-1, 1, 0, 3)}, .few = true},
};
static const od_sample positive[] = {
    {.name = "positive", .n_in = 1, .in = {OD_F32_IN(0.3, 5, 2, 5, 7, 19)}},
    {.name = "empty", .n_in = 1, .in = {OD_F32_IN(1, 2, 0, 3)}, .few = true},
};

UNARY(exp, "Exp", "e^x", exp(x), any, 1e-6);
UNARY(log, "Log", "natural logarithm", log(x), positive, 1e-6);
UNARY(sqrt, "Sqrt", "square root", sqrt(x), positive, 1e-6);
UNARY(rsqrt, "Rsqrt", "1 / sqrt(x)", 1 / sqrt(x), positive, 1e-6);
UNARY(square, "Square", "x^2", x *x, any, 0);
UNARY(abs, "Abs", "|x|", fabs(x), any, 0);
UNARY(neg, "Neg", "-x", -x, any, 0);
UNARY(sign, "Sign", "-1, 0 or 1", x > 0 ? 1 : x < 0 ? -1 : x, any, 0);
UNARY(floor, "Floor", "largest integer not above x", floor(x), any, 0);

/* ----------------------------------------------------------------------------------------------------------------- pow */
static const od_param pow_params[] = {OD_PARAM(od_pow_params, exponent, OD_P_FLOAT, "exponent"), {0}};

od_value od_pow(od_graph *g, od_value x, float exponent) {
  return od_graph_add(g, &od_op_pow, &x, 1, &(od_pow_params){exponent});
}

static od_status pow_ref(const od_call *c) {
  const float *from = c->in[0].data;
  float *to = c->out[0].data;
  double e = ((const od_pow_params *)c->params)->exponent;
  for (int64_t i = 0, n = od_tensor_size(&c->in[0]); i < n; i++) to[i] = (float)pow(from[i], e);
  return OD_OK;
}

static od_status pow_back(od_grad *c) {
  float e = ((const od_pow_params *)c->node->params)->exponent;
  c->din[0] = od_scale(c->graph, od_mul(c->graph, c->dout[0], od_pow(c->graph, c->node->in[0], e - 1)), e, 0);
  return OD_OK;
}

static od_status pow_tf(od_tf *t, const od_node *n) {
  const char *e = od_tf_const_f32(t, "exponent", ((const od_pow_params *)n->params)->exponent);
  od_tf_out(t, 0, od_tf_op(t, "Pow", NULL, OD_F32, OD_TF_INPUTS(od_tf_in(t, 0), e)));
  return OD_OK;
}

static const od_pow_params cube = {3}, half = {0.5f};
static const od_sample pow_samples[] = {
    {.name = "cube", .params = &cube, .n_in = 1, .in = {OD_F32_IN(-2, 2, 5, 19)}},
    {.name = "root", .params = &half, .n_in = 1, .in = {OD_F32_IN(0.3, 2, 5, 19)}},
    {.name = "empty", .params = &half, .n_in = 1, .in = {OD_F32_IN(0.3, 2, 0)}, .few = true},
};

const od_op od_op_pow = {
    .name = "pow", .help = "x to a constant power", .params = pow_params, .params_size = sizeof(od_pow_params), .min_in = 1,
    .max_in = 1, .n_out = 1, .alias = {1}, .infer = od_infer_float, .ref = pow_ref, .grad = pow_back, .write_tf = pow_tf,
    OD_SAMPLES(pow_samples), .tolerance = 1e-6,
};

/* --------------------------------------------------------------------------------------------------------------- scale */
static const od_param scale_params[] = {OD_PARAM(od_scale_params, factor, OD_P_FLOAT, "factor"),
                                        OD_PARAM(od_scale_params, offset, OD_P_FLOAT, "added afterwards"), {0}};

od_value od_scale(od_graph *g, od_value x, float factor, float offset) {
  return od_graph_add(g, &od_op_scale, &x, 1, &(od_scale_params){factor, offset});
}

/* In float, product and sum rounded each: what two nodes of TensorFlow give. */
static od_status scale_ref(const od_call *c) {
  const od_scale_params *p = c->params;
  const float *from = c->in[0].data;
  float *to = c->out[0].data;
  for (int64_t i = 0, n = od_tensor_size(&c->in[0]); i < n; i++) {
    float product = from[i] * p->factor;
    to[i] = p->offset != 0 ? product + p->offset : product;
  }
  return OD_OK;
}

static od_status scale_back(od_grad *c) {
  c->din[0] = od_scale(c->graph, c->dout[0], ((const od_scale_params *)c->node->params)->factor, 0);
  return OD_OK;
}

static od_status scale_tf(od_tf *t, const od_node *n) {
  const od_scale_params *p = n->params;
  const char *y = od_tf_in(t, 0);
  if (p->factor != 1 || p->offset == 0)
    y = od_tf_op(t, "Mul", p->offset == 0 ? NULL : "mul", OD_F32, OD_TF_INPUTS(y, od_tf_const_f32(t, "factor", p->factor)));
  if (p->offset != 0) y = od_tf_op(t, "Add", NULL, OD_F32, OD_TF_INPUTS(y, od_tf_const_f32(t, "offset", p->offset)));
  od_tf_out(t, 0, y);
  return OD_OK;
}

static const od_scale_params preprocess = {2.0f / 255, -1}, tenth = {0.1f, 0}, shift = {1, -3.5f};
static const od_sample scale_samples[] = {
    {.name = "pixels to -1..1", .params = &preprocess, .n_in = 1, .in = {OD_F32_IN(0, 255, 1, 9, 7, 3)}},
    {.name = "factor", .params = &tenth, .n_in = 1, .in = {OD_F32_IN(-1, 1, 5, 17)}},
    {.name = "offset", .params = &shift, .n_in = 1, .in = {OD_F32_SCALAR_IN(1, 2)}},
    {.name = "empty", .params = &tenth, .n_in = 1, .in = {OD_F32_IN(-1, 1, 0)}, .few = true},
};

const od_op od_op_scale = {
    .name = "scale", .help = "x * factor + offset", .params = scale_params, .params_size = sizeof(od_scale_params), .min_in = 1,
    .max_in = 1, .n_out = 1, .flags = OD_OP_BF16, .alias = {1}, .infer = od_infer_float, .ref = scale_ref, .grad = scale_back,
    .write_tf = scale_tf, OD_SAMPLES(scale_samples), .tolerance = 1e-6,
};
