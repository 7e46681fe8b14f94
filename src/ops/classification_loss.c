/* Classification losses and their gradient into the logits in one pass. x logit, z target, p = sigmoid(x), w weight.
 *
 *   sigmoid            w * ce,  ce = max(x,0) - x z + log1p(exp(-|x|))
 *   sigmoid_focal      w * (1 - p_t)^gamma * alpha_t * ce, p_t = z p + (1-z)(1-p); Lin et al., Focal Loss, 2017
 *   softmax            mean(w) * sum_k z_k (log sum exp(x/s) - x_k/s)
 *   softmax_against_logits   the same with z = softmax(z/s)
 *   penalty_reduced    -w * (z = 1 ? (1-q)^alpha log q : (1-z)^gamma q^alpha log(1-q)), q = p kept within 1e-4 and 1 - 1e-4;
 *                      Zhou et al., Objects as Points, 2019
 *   bootstrapped       ce with z' = alpha z + (1-alpha) p (soft) or (1-alpha) [p > 0.5] (hard); Reed et al., 2014
 *
 * The softmax's gradient is softmax - z as TensorFlow has it, which is the derivative only where z sums to 1. Soft
 * bootstrapping sends gradient through its own target too, as the original's graph does. */
#include <math.h>

#include "ops/common.h"
#include "ops/loss.h"
#include "ops/table.h"

od_value od_classification_loss(od_graph *g, od_value logits, od_value targets, od_value weights,
                                const od_classification_loss_params *p) {
  return od_graph_add(g, &od_op_classification_loss, (od_value[]){logits, targets, weights}, 3, p);
}

static const char *const kinds[] = {
    "sigmoid",           "sigmoid_focal",     "softmax",         "softmax_against_logits",
    "bootstrapped_soft", "bootstrapped_hard", "penalty_reduced", NULL};
static const od_param params[] = {
    OD_PARAM_ENUM(od_classification_loss_params, kind, "which loss", kinds),
    OD_PARAM_IN(od_classification_loss_params, gamma, OD_P_FLOAT,
                "focal: exponent of 1 - p_t; penalty_reduced: of 1 - target", 0, 1e6),
    OD_PARAM(od_classification_loss_params, has_alpha, OD_P_BOOL, "focal: weigh positives by alpha"),
    OD_PARAM(od_classification_loss_params, alpha, OD_P_FLOAT,
             "focal: weight of positives; bootstrapped: share of the target; penalty_reduced: exponent of the error"),
    OD_PARAM(od_classification_loss_params, logit_scale, OD_P_FLOAT, "softmax: logits are divided by this"),
    {0}};

static bool is_softmax(const od_classification_loss_params *o) {
  return o->kind == OD_CLS_SOFTMAX || o->kind == OD_CLS_SOFTMAX_AGAINST_LOGITS;
}

/* ------------------------------------------------------------------------------------------------------------- sigmoids */
static float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
static float cross_entropy(float x, float z) { return fmaxf(x, 0) - x * z + log1pf(expf(-fabsf(x))); }

/* The target after bootstrapping; z itself for the other kinds. */
static float target(const od_classification_loss_params *o, float x, float z) {
  if (o->kind == OD_CLS_BOOTSTRAPPED_SOFT) return o->alpha * z + (1.0f - o->alpha) * sigmoid(x);
  if (o->kind == OD_CLS_BOOTSTRAPPED_HARD) return o->alpha * z + (1.0f - o->alpha) * (sigmoid(x) > 0.5f ? 1 : 0);
  return z;
}

/* x^e for x of 0 to 1; powf is most of the focal loss's time, and e is nearly always 2. */
static float power(float x, float e) { return e == 2 ? x * x : e == 1 ? x : powf(x, e); }

static float focal_weight(const od_classification_loss_params *o, float z) {
  return o->has_alpha ? z * o->alpha + (1 - z) * (1 - o->alpha) : 1;
}

/* ------------------------------------------------------------------------------------------------------- penalty reduced */
static const float penalty_clip = 1e-4f;

static float penalty_loss(const od_classification_loss_params *o, float x, float z, float w) {
  float q = fminf(fmaxf(sigmoid(x), penalty_clip), 1 - penalty_clip);
  float loss = z == 1 ? power(1 - q, o->alpha) * logf(q) : power(1 - z, o->gamma) * power(q, o->alpha) * logf(1 - q);
  return -loss * w;
}

/* Nothing flows back through what is clipped. */
static float penalty_grad(const od_classification_loss_params *o, float dy, float x, float z, float w) {
  float p = sigmoid(x), a = o->alpha;
  if (p < penalty_clip || p > 1 - penalty_clip) return 0;
  float d = z == 1 ? power(1 - p, a) / p - a * power(1 - p, a - 1) * logf(p)
                   : power(1 - z, o->gamma) * (a * power(p, a - 1) * logf(1 - p) - power(p, a) / (1 - p));
  return -dy * w * d * p * (1 - p);
}

static float entry_loss(const od_classification_loss_params *o, float x, float z, float w) {
  if (o->kind == OD_CLS_PENALTY_REDUCED) return penalty_loss(o, x, z, w);
  float ce = cross_entropy(x, target(o, x, z));
  if (o->kind != OD_CLS_SIGMOID_FOCAL) return ce * w;
  float p = sigmoid(x), p_t = z * p + (1 - z) * (1 - p);
  float modulating = o->gamma != 0 ? power(1.0f - p_t, o->gamma) : 1;
  return modulating * focal_weight(o, z) * ce * w;
}

static float entry_grad(const od_classification_loss_params *o, float dy, float x, float z, float w) {
  if (o->kind == OD_CLS_PENALTY_REDUCED) return penalty_grad(o, dy, x, z, w);
  float p = sigmoid(x);
  if (o->kind == OD_CLS_SIGMOID_FOCAL) {
    float p_t = z * p + (1 - z) * (1 - p), d_ce = p - z;
    float d = d_ce;
    if (o->gamma != 0) {
      float d_p_t = (2 * z - 1) * p * (1 - p);
      d = power(1 - p_t, o->gamma) * d_ce - o->gamma * power(1 - p_t, o->gamma - 1) * d_p_t * cross_entropy(x, z);
    }
    return dy * w * focal_weight(o, z) * d;
  }
  float d = p - target(o, x, z);
  if (o->kind == OD_CLS_BOOTSTRAPPED_SOFT) d -= x * (1.0f - o->alpha) * p * (1 - p);
  return dy * w * d;
}

/* ------------------------------------------------------------------------------------------------------------- softmaxes */
/* Largest of x / s, and the sum of exp(x / s - largest). */
static double exp_sum(float *top, const float *x, float s, int64_t n) {
  *top = -INFINITY;
  for (int64_t i = 0; i < n; i++) *top = fmaxf(*top, x[i] / s);
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += expf(x[i] / s - *top);
  return sum;
}

/* weights [K] or [1]: their mean. */
static float mean(const float *w, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += w[i];
  return (float)(sum / (double)n);
}

static float row_loss(const od_classification_loss_params *o, const float *x, const float *z, float w, int64_t n) {
  float top, top_z = 0;
  bool logits = o->kind == OD_CLS_SOFTMAX_AGAINST_LOGITS;
  double log_sum = log(exp_sum(&top, x, o->logit_scale, n)), sum_z = logits ? exp_sum(&top_z, z, o->logit_scale, n) : 1,
         loss = 0;
  for (int64_t i = 0; i < n; i++) {
    double zi = logits ? exp((double)(z[i] / o->logit_scale - top_z)) / sum_z : (double)z[i];
    loss += zi * (log_sum - (double)(x[i] / o->logit_scale - top));
  }
  return (float)loss * w;
}

static void row_grad(const od_classification_loss_params *o, float *dx, float dy, const float *x, const float *z,
                     float w, int64_t n) {
  float top, top_z = 0;
  bool logits = o->kind == OD_CLS_SOFTMAX_AGAINST_LOGITS;
  double sum = exp_sum(&top, x, o->logit_scale, n), sum_z = logits ? exp_sum(&top_z, z, o->logit_scale, n) : 1;
  for (int64_t i = 0; i < n; i++) {
    double zi = logits ? exp((double)(z[i] / o->logit_scale - top_z)) / sum_z : (double)z[i];
    double p = exp((double)(x[i] / o->logit_scale - top)) / sum;
    dx[i] = (float)(p - zi) * dy * w / o->logit_scale;
  }
}

/* ------------------------------------------------------------------------------------------------------------------- op */
static od_status check(const od_infer *c, int first) {
  const od_shape *x = &c->in[first].shape, *z = &c->in[first + 1].shape, *w = &c->in[first + 2].shape;
  bool fits = x->rank >= 1 && z->rank == x->rank && w->rank == x->rank;
  for (int i = 0; i < 3; i++) fits = fits && c->in[first + i].dtype == OD_F32;
  for (int k = 0; fits && k < x->rank; k++) {
    bool one = k == x->rank - 1 && w->dim[k] == 1;
    fits = (x->dim[k] < 0 || z->dim[k] < 0 || x->dim[k] == z->dim[k]) &&
           (one || x->dim[k] < 0 || w->dim[k] < 0 || x->dim[k] == w->dim[k]);
  }
  if (fits) return OD_OK;
  char a[OD_SHAPE_TEXT], b[OD_SHAPE_TEXT], d[OD_SHAPE_TEXT];
  return od_fail(OD_EINVAL, "logits %s, targets %s, weights %s: expected float32 [...,K], [...,K], [...,K] or [...,1]",
                 od_shape_text(a, x), od_shape_text(b, z), od_shape_text(d, w));
}

static od_status infer(const od_infer *c) {
  OD_TRY(check(c, 0));
  c->out[0] = c->in[0];
  for (int k = 0; k < c->out[0].shape.rank; k++)
    if (c->out[0].shape.dim[k] < 0) c->out[0].shape.dim[k] = c->in[1].shape.dim[k];
  if (is_softmax(c->params)) c->out[0].shape.rank--;
  return OD_OK;
}

static od_status ref(const od_call *c) {
  const od_classification_loss_params *o = c->params;
  const float *x = c->in[0].data, *z = c->in[1].data, *w = c->in[2].data;
  float *y = c->out[0].data;
  int64_t n = od_last(&c->in[0]), nw = od_last(&c->in[2]), rows = n ? od_tensor_size(&c->in[0]) / n : 0;
  for (int64_t i = 0; i < rows; i++, x += n, z += n, w += nw) {
    if (is_softmax(o))
      y[i] = row_loss(o, x, z, mean(w, nw), n);
    else
      for (int64_t k = 0; k < n; k++) *y++ = entry_loss(o, x[k], z[k], w[nw == 1 ? 0 : k]);
  }
  return OD_OK;
}

static od_status back(od_grad *c) {
  const od_value *in = c->node->in;
  if (c->need[0])
    c->din[0] = od_graph_add(c->graph, &od_op_classification_loss_grad, (od_value[]){c->dout[0], in[0], in[1], in[2]},
                             4, c->node->params);
  return OD_OK; /* targets and weights are constants */
}

#define KIND(...) (&(const od_classification_loss_params){__VA_ARGS__})
#define THREE                                                                                                          \
  { OD_F32_IN(-3, 3, 2, 7, 5), OD_F32_IN(0, 1, 2, 7, 5), OD_F32_IN(0.25, 1, 2, 7, 5) }
#define FOUR                                                                                                           \
  { OD_F32_IN(-1, 1, 2, 7, 5), OD_F32_IN(-3, 3, 2, 7, 5), OD_F32_IN(0, 1, 2, 7, 5), OD_F32_IN(0.25, 1, 2, 7, 5) }
#define FOUR_ROWS                                                                                                      \
  { OD_F32_IN(-1, 1, 2, 7), OD_F32_IN(-3, 3, 2, 7, 5), OD_F32_IN(0, 1, 2, 7, 5), OD_F32_IN(0.25, 1, 2, 7, 5) }

static const od_sample samples[] = {
    {.name = "sigmoid", .params = KIND(.kind = OD_CLS_SIGMOID), .n_in = 3, .in = THREE},
    {.name = "sigmoid, one weight an anchor",
     .params = KIND(.kind = OD_CLS_SIGMOID),
     .n_in = 3,
     .in = {OD_F32_IN(-3, 3, 2, 7, 5), OD_F32_IN(0, 1, 2, 7, 5), OD_F32_IN(0.25, 1, 2, 7, 1)}},
    {.name = "focal",
     .params = KIND(.kind = OD_CLS_SIGMOID_FOCAL, .gamma = 2, .has_alpha = true, .alpha = 0.25f),
     .n_in = 3,
     .in = THREE},
    {.name = "focal, odd gamma, no alpha",
     .params = KIND(.kind = OD_CLS_SIGMOID_FOCAL, .gamma = 1.5f),
     .n_in = 3,
     .in = THREE},
    /* targets that do not sum to 1: what TensorFlow calls the gradient is not the derivative */
    {.name = "softmax",
     .params = KIND(.kind = OD_CLS_SOFTMAX, .logit_scale = 2),
     .n_in = 3,
     .in = THREE,
     .no_grad = true},
    {.name = "softmax against logits",
     .params = KIND(.kind = OD_CLS_SOFTMAX_AGAINST_LOGITS, .logit_scale = 0.5f),
     .n_in = 3,
     .in = THREE},
    {.name = "bootstrapped, soft",
     .params = KIND(.kind = OD_CLS_BOOTSTRAPPED_SOFT, .alpha = 0.6f),
     .n_in = 3,
     .in = THREE},
    {.name = "bootstrapped, hard",
     .params = KIND(.kind = OD_CLS_BOOTSTRAPPED_HARD, .alpha = 0.6f),
     .n_in = 3,
     .in = THREE,
     .no_grad = true},
    {.name = "penalty reduced",
     .params = KIND(.kind = OD_CLS_PENALTY_REDUCED, .alpha = 2, .gamma = 4),
     .n_in = 3,
     .in = THREE},
    {.name = "penalty reduced, all there, odd exponent",
     .params = KIND(.kind = OD_CLS_PENALTY_REDUCED, .alpha = 1.5f, .gamma = 4),
     .n_in = 3,
     .in = {OD_F32_IN(-3, 3, 2, 7, 5), OD_F32_IN(1, 1, 2, 7, 5), OD_F32_IN(0.25, 1, 2, 7, 5)}},
    {.name = "penalty reduced, clipped",
     .params = KIND(.kind = OD_CLS_PENALTY_REDUCED, .alpha = 2, .gamma = 4),
     .n_in = 3,
     .in = {OD_F32_IN(-30, 30, 2, 7, 5), OD_F32_IN(0, 0.5, 2, 7, 5), OD_F32_IN(0.25, 1, 2, 7, 5)}},
};

const od_op od_op_classification_loss = {
    .name = "classification_loss",
    .help = "how wrong class logits are, one number an entry (softmax: an anchor)",
    .params = params,
    .params_size = sizeof(od_classification_loss_params),
    .min_in = 3,
    .max_in = 3,
    .n_out = 1,
    .infer = infer,
    .ref = ref,
    .grad = back,
    .no_tf = OD_NO_TF_TRAINING,
    OD_SAMPLES(samples),
    .tolerance = 1e-6,
};

static od_status grad_infer(const od_infer *c) {
  OD_TRY(check(c, 1));
  c->out[0] = c->in[1];
  return OD_OK;
}

static od_status grad_ref(const od_call *c) {
  const od_classification_loss_params *o = c->params;
  const float *dy = c->in[0].data, *x = c->in[1].data, *z = c->in[2].data, *w = c->in[3].data;
  float *dx = c->out[0].data;
  int64_t n = od_last(&c->in[1]), nw = od_last(&c->in[3]), rows = n ? od_tensor_size(&c->in[1]) / n : 0;
  for (int64_t i = 0; i < rows; i++, x += n, z += n, w += nw, dx += n) {
    if (is_softmax(o))
      row_grad(o, dx, dy[i], x, z, mean(w, nw), n);
    else
      for (int64_t k = 0; k < n; k++) dx[k] = entry_grad(o, *dy++, x[k], z[k], w[nw == 1 ? 0 : k]);
  }
  return OD_OK;
}

static const od_sample grad_samples[] = {
    {.name = "sigmoid", .params = KIND(.kind = OD_CLS_SIGMOID), .n_in = 4, .in = FOUR},
    {.name = "focal",
     .params = KIND(.kind = OD_CLS_SIGMOID_FOCAL, .gamma = 2, .has_alpha = true, .alpha = 0.25f),
     .n_in = 4,
     .in = FOUR},
    {.name = "softmax", .params = KIND(.kind = OD_CLS_SOFTMAX, .logit_scale = 1), .n_in = 4, .in = FOUR_ROWS},
    {.name = "softmax against logits",
     .params = KIND(.kind = OD_CLS_SOFTMAX_AGAINST_LOGITS, .logit_scale = 1),
     .n_in = 4,
     .in = FOUR_ROWS},
    {.name = "penalty reduced",
     .params = KIND(.kind = OD_CLS_PENALTY_REDUCED, .alpha = 2, .gamma = 4),
     .n_in = 4,
     .in = FOUR},
    {.name = "bootstrapped, soft",
     .params = KIND(.kind = OD_CLS_BOOTSTRAPPED_SOFT, .alpha = 0.6f),
     .n_in = 4,
     .in = FOUR},
};

const od_op od_op_classification_loss_grad = {
    .name = "classification_loss_grad",
    .help = "gradient of classification_loss: (dy, logits, targets, weights) -> dlogits",
    .params = params,
    .params_size = sizeof(od_classification_loss_params),
    .min_in = 4,
    .max_in = 4,
    .n_out = 1,
    .infer = grad_infer,
    .ref = grad_ref,
    .no_grad = OD_NO_SECOND,
    .no_tf = OD_NO_TF_TRAINING,
    OD_SAMPLES(grad_samples),
    .tolerance = 1e-6,
};
