/* clip_by_norm, global_norm, clip_by_global_norm: what the two training programs do to gradients, as TensorFlow's functions of
 * these names. Squares are summed in double, the rest is float32 in the functions' own order. */
#include <math.h>

#include "ops/common.h"
#include "ops/optim.h"
#include "ops/table.h"

#define NO_GRADIENT "clipping comes after differentiation"

static const od_param clip_params[] = {OD_PARAM_IN(od_clip_params, clip, OD_P_FLOAT, "largest norm", 0, 1e30), {0}};

static double sum_of_squares(const od_tensor *t) {
  const float *x = t->data;
  double sum = 0;
  for (int64_t i = 0, n = od_tensor_size(t); i < n; i++) sum += (double)x[i] * x[i];
  return sum;
}

od_value od_clip_by_norm(od_graph *g, od_value x, float clip) {
  return od_graph_add(g, &od_op_clip_by_norm, &x, 1, &(od_clip_params){clip});
}

static od_status clip_by_norm_ref(const od_call *c) {
  float clip = ((const od_clip_params *)c->params)->clip;
  const float *x = c->in[0].data;
  float *y = c->out[0].data;
  float squares = (float)sum_of_squares(&c->in[0]), norm = squares > 0 ? sqrtf(squares) : squares;
  /* written as tf.maximum: a norm that is no number spreads to every element and is found */
  float divisor = norm > clip || norm != norm ? norm : clip;
  for (int64_t i = 0, n = od_tensor_size(&c->in[0]); i < n; i++) y[i] = x[i] * clip / divisor;
  return OD_OK;
}

static const od_clip_params ten = {10}, tenth = {0.1f};
static const od_sample clip_samples[] = {
    {.name = "shorter than the limit", .params = &ten, .n_in = 1, .in = {OD_F32_IN(-1, 1, 5, 19)}},
    {.name = "longer", .params = &tenth, .n_in = 1, .in = {OD_F32_IN(-1, 1, 5, 19)}},
    {.name = "all zero", .params = &ten, .n_in = 1, .in = {OD_F32_IN(0, 0, 19)}, .few = true},
    {.name = "empty", .params = &ten, .n_in = 1, .in = {OD_F32_IN(0, 0, 0)}, .few = true},
};

const od_op od_op_clip_by_norm = {
    .name = "clip_by_norm", .help = "x shortened to a norm of at most clip", .params = clip_params, .params_size = sizeof(od_clip_params),
    .min_in = 1, .max_in = 1, .n_out = 1, .alias = {1}, .infer = od_infer_float, .ref = clip_by_norm_ref, .no_grad = NO_GRADIENT,
    .no_tf = OD_NO_TF_TRAINING, OD_SAMPLES(clip_samples), .tolerance = 2e-6,
};

/* --------------------------------------------------------------------------------------------------------- global_norm */
od_value od_global_norm(od_graph *g, const od_value *x, int n) { return od_graph_add(g, &od_op_global_norm, x, n, NULL); }

static od_status infer_norm(const od_infer *c) {
  OD_TRY(od_infer_float(c));
  c->out[0] = (od_type){OD_F32, OD_SCALAR};
  return OD_OK;
}

static od_status norm_ref(const od_call *c) {
  double sum = 0;
  for (int i = 0; i < c->n_in; i++) sum += sum_of_squares(&c->in[i]);
  *(float *)c->out[0].data = (float)sqrt(sum);
  return OD_OK;
}

static const od_sample norm_samples[] = {
    {.name = "three of different shapes", .n_in = 3, .in = {OD_F32_IN(-1, 1, 5, 19), OD_F32_IN(-1, 1, 33), OD_F32_SCALAR_IN(1, 2)}},
    {.name = "one", .n_in = 1, .in = {OD_F32_IN(-1, 1, 3, 3, 8, 16)}},
    {.name = "empty", .n_in = 1, .in = {OD_F32_IN(-1, 1, 0)}, .few = true},
};

const od_op od_op_global_norm = {
    .name = "global_norm", .help = "Euclidean norm of all inputs together", .min_in = 1, .max_in = -1, .n_out = 1,
    .infer = infer_norm, .ref = norm_ref, .no_grad = NO_GRADIENT, .no_tf = OD_NO_TF_TRAINING, OD_SAMPLES(norm_samples),
    .tolerance = 2e-6,
};

/* ------------------------------------------------------------------------------------------------- clip_by_global_norm */
od_value od_clip_by_global_norm(od_graph *g, od_value x, od_value norm, float clip) {
  return od_graph_add(g, &od_op_clip_by_global_norm, (od_value[]){x, norm}, 2, &(od_clip_params){clip});
}

static od_status infer_global(const od_infer *c) {
  OD_TRY(od_infer_float(c));
  return od_want(c, 1, OD_F32, 0);
}

static od_status global_ref(const od_call *c) {
  float clip = ((const od_clip_params *)c->params)->clip, norm = *(const float *)c->in[1].data;
  const float *x = c->in[0].data;
  float *y = c->out[0].data;
  float a = 1 / norm, b = 1 / clip, factor = clip * (a < b || a != a ? a : b) + (norm - norm); /* NaN unless the norm is finite */
  for (int64_t i = 0, n = od_tensor_size(&c->in[0]); i < n; i++) y[i] = x[i] * factor;
  return OD_OK;
}

static const od_sample global_samples[] = {
    {.name = "shorter than the limit", .params = &ten, .n_in = 2, .in = {OD_F32_IN(-1, 1, 5, 19), OD_F32_SCALAR_IN(5, 6)}},
    {.name = "longer", .params = &ten, .n_in = 2, .in = {OD_F32_IN(-1, 1, 5, 19), OD_F32_SCALAR_IN(50, 60)}},
    {.name = "empty", .params = &ten, .n_in = 2, .in = {OD_F32_IN(-1, 1, 0), OD_F32_SCALAR_IN(50, 60)}, .few = true},
};

const od_op od_op_clip_by_global_norm = {
    .name = "clip_by_global_norm", .help = "(x, norm of all gradients) -> x shortened", .params = clip_params,
    .params_size = sizeof(od_clip_params), .min_in = 2, .max_in = 2, .n_out = 1, .alias = {1}, .infer = infer_global,
    .ref = global_ref, .no_grad = NO_GRADIENT, .no_tf = OD_NO_TF_TRAINING, OD_SAMPLES(global_samples), .tolerance = 1e-6,
};
