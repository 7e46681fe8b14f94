/* Localization losses, one number an anchor, and their gradient into the predictions in one pass.
 *
 *   l2         0.5 * sum((w * e)^2)                                   e = prediction - target
 *   smooth_l1  w * sum(0.5 * q^2 + delta * (|e| - q))                 q = min(|e|, delta); Girshick, Fast R-CNN, 2015
 *   l1         w * sum(|e|)
 *   iou        w * (1 - intersection / union), 1 where they do not meet
 *   giou       w * (1 - giou); Rezatofighi et al., Generalized Intersection over Union, 2019
 *
 * As in the original, l2 multiplies the weight in before it squares, and a NaN target counts as met. At ties of minimum and
 * maximum the gradient goes to the prediction, as TensorFlow's does. */
#include <math.h>

#include "ops/common.h"
#include "ops/loss.h"
#include "ops/table.h"

od_value od_localization_loss(od_graph *g, od_value prediction, od_value target, od_value weights,
                              const od_localization_loss_params *p) {
  return od_graph_add(g, &od_op_localization_loss, (od_value[]){prediction, target, weights}, 3, p);
}

static const char *const kinds[] = {"l2", "smooth_l1", "l1", "iou", "giou", NULL};
static const od_param params[] = {
    OD_PARAM_ENUM(od_localization_loss_params, kind, "which loss", kinds),
    OD_PARAM_IN(od_localization_loss_params, delta, OD_P_FLOAT, "smooth_l1: quadratic up to here", 0, 1e30),
    {0}};

/* ---------------------------------------------------------------------------------------------------------- coordinates */
/* Difference, 0 where the target is NaN. */
static float error(float p, float t) { return isnan(t) ? 0 : p - t; }

static float code_loss(const od_localization_loss_params *o, const float *p, const float *t, float w, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) {
    float e = error(p[i], t[i]), a = fabsf(e);
    switch (o->kind) {
    case OD_LOC_L2: sum += 0.5f * ((e * w) * (e * w)); break;
    case OD_LOC_L1: sum += a * w; break;
    default: {
      float q = fminf(a, o->delta);
      sum += (0.5f * (q * q) + o->delta * (a - q)) * w;
    }
    }
  }
  return (float)sum;
}

static void code_grad(const od_localization_loss_params *o, float *dp, float dy, const float *p, const float *t,
                      float w, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    float e = error(p[i], t[i]);
    switch (o->kind) {
    case OD_LOC_L2: dp[i] = dy * (e * w) * w; break;
    case OD_LOC_L1: dp[i] = dy * w * (float)((e > 0) - (e < 0)); break;
    default: dp[i] = dy * w * (fabsf(e) <= o->delta ? e : copysignf(o->delta, e));
    }
  }
}

/* ---------------------------------------------------------------------------------------------------------------- boxes */
/* What both box losses are made of. The derivative of the intersection's height by the prediction's ymin is -1 where that is
 * the larger, by its ymax +1 where that is the smaller; likewise the width. */
typedef struct {
  float height, width; /* of the intersection */
  float both, area_p, all;
} overlap;

static overlap meet(const float *p, const float *t) {
  overlap o;
  o.height = fmaxf(0, fminf(p[2], t[2]) - fmaxf(p[0], t[0]));
  o.width = fmaxf(0, fminf(p[3], t[3]) - fmaxf(p[1], t[1]));
  o.both = o.height * o.width;
  o.area_p = (p[2] - p[0]) * (p[3] - p[1]);
  o.all = o.area_p + (t[2] - t[0]) * (t[3] - t[1]) - o.both;
  return o;
}

/* Derivatives of intersection and of the prediction's area by the four numbers of p. */
static void meet_grad(float d_both[4], float d_area[4], const overlap *o, const float *p, const float *t) {
  bool h = o->height > 0, w = o->width > 0;
  d_both[0] = h && p[0] >= t[0] ? -o->width : 0;
  d_both[2] = h && p[2] <= t[2] ? o->width : 0;
  d_both[1] = w && p[1] >= t[1] ? -o->height : 0;
  d_both[3] = w && p[3] <= t[3] ? o->height : 0;
  float height = p[2] - p[0], width = p[3] - p[1];
  d_area[0] = -width, d_area[2] = width, d_area[1] = -height, d_area[3] = height;
}

static float iou_loss(const float *p, const float *t, float w) {
  overlap o = meet(p, t);
  return w * (1.0f - (o.both == 0 ? 0 : o.both / o.all));
}

static void iou_grad(float *dp, float dy, const float *p, const float *t, float w) {
  overlap o = meet(p, t);
  float d_both[4], d_area[4];
  meet_grad(d_both, d_area, &o, p, t);
  for (int k = 0; k < 4; k++)
    dp[k] = o.both == 0 ? 0 : -dy * w * (d_both[k] / o.all - o.both / (o.all * o.all) * (d_area[k] - d_both[k]));
}

/* giou = iou - (hull - union) / hull; 0 where the hull has no area. */
static float giou_loss(const float *p, const float *t, float w) {
  overlap o = meet(p, t);
  float hull = (fmaxf(p[2], t[2]) - fminf(p[0], t[0])) * (fmaxf(p[3], t[3]) - fminf(p[1], t[1]));
  float iou = o.both == 0 ? 0 : o.both / o.all;
  return w * (1 - (hull > 0 ? iou - (hull - o.all) / hull : 0));
}

static void giou_grad(float *dp, float dy, const float *p, const float *t, float w) {
  overlap o = meet(p, t);
  float d_both[4], d_area[4];
  meet_grad(d_both, d_area, &o, p, t);
  float height = fmaxf(p[2], t[2]) - fminf(p[0], t[0]), width = fmaxf(p[3], t[3]) - fminf(p[1], t[1]),
        hull = height * width;
  float d_hull[4] = {p[0] <= t[0] ? -width : 0, p[1] <= t[1] ? -height : 0, p[2] >= t[2] ? width : 0,
                     p[3] >= t[3] ? height : 0};
  for (int k = 0; k < 4; k++) {
    float d_all = d_area[k] - d_both[k], d = 0;
    if (o.both != 0) d = d_both[k] / o.all - o.both / (o.all * o.all) * d_all;
    d += d_all / hull - o.all / (hull * hull) * d_hull[k]; /* of union / hull - 1 */
    dp[k] = hull > 0 ? -dy * w * d : 0;
  }
}

/* ------------------------------------------------------------------------------------------------------------------- op */
static od_status box_kind_fits(const od_localization_loss_params *o, const od_shape *s) {
  if (o->kind != OD_LOC_IOU && o->kind != OD_LOC_GIOU) return OD_OK;
  int64_t last = s->dim[s->rank - 1];
  return last < 0 || last == 4
             ? OD_OK
             : od_fail(OD_EINVAL, "the %s loss wants boxes of 4 numbers, not %lld", kinds[o->kind], (long long)last);
}

/* prediction and target of one shape, weights without its last dimension, starting at input `first`. */
static od_status check(const od_infer *c, int first) {
  const od_shape *p = &c->in[first].shape, *t = &c->in[first + 1].shape, *w = &c->in[first + 2].shape;
  bool fits = p->rank >= 1 && t->rank == p->rank && w->rank == p->rank - 1;
  for (int i = 0; i < 3; i++) fits = fits && c->in[first + i].dtype == OD_F32;
  for (int k = 0; fits && k < p->rank; k++) {
    fits = p->dim[k] < 0 || t->dim[k] < 0 || p->dim[k] == t->dim[k];
    if (k < w->rank) fits = fits && (p->dim[k] < 0 || w->dim[k] < 0 || p->dim[k] == w->dim[k]);
  }
  char a[OD_SHAPE_TEXT], b[OD_SHAPE_TEXT], d[OD_SHAPE_TEXT];
  if (!fits)
    return od_fail(OD_EINVAL, "prediction %s, target %s, weights %s: expected float32 [...,C], [...,C], [...]",
                   od_shape_text(a, p), od_shape_text(b, t), od_shape_text(d, w));
  return box_kind_fits(c->params, p);
}

static od_status infer(const od_infer *c) {
  OD_TRY(check(c, 0));
  c->out[0] = c->in[2];
  for (int k = 0; k < c->out[0].shape.rank; k++)
    if (c->out[0].shape.dim[k] < 0) c->out[0].shape.dim[k] = c->in[0].shape.dim[k];
  return OD_OK;
}

static od_status ref(const od_call *c) {
  const od_localization_loss_params *o = c->params;
  const float *p = c->in[0].data, *t = c->in[1].data, *w = c->in[2].data;
  float *y = c->out[0].data;
  int64_t n = od_last(&c->in[0]);
  for (int64_t i = 0, rows = od_tensor_size(&c->in[2]); i < rows; i++, p += n, t += n) {
    switch (o->kind) {
    case OD_LOC_IOU: y[i] = isnan(t[0]) ? 0 : iou_loss(p, t, w[i]); break;
    case OD_LOC_GIOU: y[i] = isnan(t[0]) ? 0 : giou_loss(p, t, w[i]); break;
    default: y[i] = code_loss(o, p, t, w[i], n);
    }
  }
  return OD_OK;
}

static od_status back(od_grad *c) {
  const od_value *in = c->node->in;
  if (c->need[0])
    c->din[0] = od_graph_add(c->graph, &od_op_localization_loss_grad, (od_value[]){c->dout[0], in[0], in[1], in[2]}, 4,
                             c->node->params);
  return OD_OK; /* targets and weights are constants */
}

#define IN(...)     OD_F32_IN(-2, 2, __VA_ARGS__)
#define BOX_IN(...) OD_F32_IN(0, 1, __VA_ARGS__)
#define WEIGHT(...) OD_F32_IN(0.25, 1, __VA_ARGS__)
#define KIND(k, d)  (&(const od_localization_loss_params){.kind = (k), .delta = (d)})

static const od_sample samples[] = {
    {.name = "smooth l1",
     .params = KIND(OD_LOC_SMOOTH_L1, 1),
     .n_in = 3,
     .in = {IN(2, 7, 4), IN(2, 7, 4), WEIGHT(2, 7)}},
    {.name = "smooth l1, small delta",
     .params = KIND(OD_LOC_SMOOTH_L1, 0.11f),
     .n_in = 3,
     .in = {IN(2, 7, 4), IN(2, 7, 4), WEIGHT(2, 7)}},
    {.name = "l2", .params = KIND(OD_LOC_L2, 1), .n_in = 3, .in = {IN(3, 5, 6), IN(3, 5, 6), WEIGHT(3, 5)}},
    {.name = "l1",
     .params = KIND(OD_LOC_L1, 1),
     .n_in = 3,
     .in = {IN(3, 5, 4), IN(3, 5, 4), WEIGHT(3, 5)},
     .no_grad = true},
    {.name = "iou",
     .params = KIND(OD_LOC_IOU, 1),
     .n_in = 3,
     .in = {BOX_IN(2, 9, 4), BOX_IN(2, 9, 4), WEIGHT(2, 9)},
     .no_grad = true},
    {.name = "giou",
     .params = KIND(OD_LOC_GIOU, 1),
     .n_in = 3,
     .in = {BOX_IN(2, 9, 4), BOX_IN(2, 9, 4), WEIGHT(2, 9)},
     .no_grad = true},
};

const od_op od_op_localization_loss = {
    .name = "localization_loss",
    .help = "how far box codes (or boxes) are off, one number an anchor",
    .params = params,
    .params_size = sizeof(od_localization_loss_params),
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
  const od_localization_loss_params *o = c->params;
  const float *dy = c->in[0].data, *p = c->in[1].data, *t = c->in[2].data, *w = c->in[3].data;
  float *dp = c->out[0].data;
  int64_t n = od_last(&c->in[1]);
  for (int64_t i = 0, rows = od_tensor_size(&c->in[0]); i < rows; i++, p += n, t += n, dp += n) {
    bool boxes = o->kind == OD_LOC_IOU || o->kind == OD_LOC_GIOU;
    if (!boxes)
      code_grad(o, dp, dy[i], p, t, w[i], n);
    else if (isnan(t[0]))
      dp[0] = dp[1] = dp[2] = dp[3] = 0;
    else if (o->kind == OD_LOC_IOU)
      iou_grad(dp, dy[i], p, t, w[i]);
    else
      giou_grad(dp, dy[i], p, t, w[i]);
  }
  return OD_OK;
}

static const od_sample grad_samples[] = {
    {.name = "smooth l1",
     .params = KIND(OD_LOC_SMOOTH_L1, 0.5f),
     .n_in = 4,
     .in = {IN(2, 7), IN(2, 7, 4), IN(2, 7, 4), WEIGHT(2, 7)}},
    {.name = "l2", .params = KIND(OD_LOC_L2, 1), .n_in = 4, .in = {IN(2, 7), IN(2, 7, 4), IN(2, 7, 4), WEIGHT(2, 7)}},
    {.name = "l1", .params = KIND(OD_LOC_L1, 1), .n_in = 4, .in = {IN(2, 7), IN(2, 7, 4), IN(2, 7, 4), WEIGHT(2, 7)}},
    /* random corners are rarely in order: most boxes do not meet */
    {.name = "iou",
     .params = KIND(OD_LOC_IOU, 1),
     .n_in = 4,
     .in = {IN(2, 200), BOX_IN(2, 200, 4), BOX_IN(2, 200, 4), WEIGHT(2, 200)},
     .few = true},
    {.name = "giou",
     .params = KIND(OD_LOC_GIOU, 1),
     .n_in = 4,
     .in = {IN(2, 7), BOX_IN(2, 7, 4), BOX_IN(2, 7, 4), WEIGHT(2, 7)}},
};

const od_op od_op_localization_loss_grad = {
    .name = "localization_loss_grad",
    .help = "gradient of localization_loss: (dy, prediction, target, weights) -> dprediction",
    .params = params,
    .params_size = sizeof(od_localization_loss_params),
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
