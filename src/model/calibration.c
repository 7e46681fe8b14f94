/* Calibration of scores (Platt; Niculescu-Mizil and Caruana, Predicting Good Probabilities, 2005): a temperature divides the
 * logits, a curve given by its corners replaces scores. As the original's calibration_builder, plain ops so that every writer
 * knows them. A curve goes on level in front of its first and behind its last corner; from 1 behind the last corner on, the
 * original takes the first corner's value, and so do we. */
#include "model/parts.h"
#include "ops/math.h"

typedef const ObjectDetection__Protos__XYPairs pairs;

static od_status check(pairs *p) {
  if (!p || p->n_x_y_pair == 0) return od_fail(OD_EINVAL, "calibration_config: a curve without x_y_pair");
  for (size_t i = 1; i < p->n_x_y_pair; i++)
    if (!(p->x_y_pair[i]->x > p->x_y_pair[i - 1]->x))
      return od_fail(OD_EINVAL, "calibration_config: x_y_pair[%zu].x is %g after %g, x must rise", i, (double)p->x_y_pair[i]->x, (double)p->x_y_pair[i - 1]->x);
  return OD_OK;
}

/* The curve at x, in the original's order of operations: alpha = (x - x0) / (x1 - x0), y = (1 - alpha) y0 + alpha y1. */
static od_value curve(od_graph *g, pairs *p, od_value x) {
  size_t n = p->n_x_y_pair;
  od_value y = od_scale(g, x, 0, p->x_y_pair[0]->y);
  for (size_t i = 0; i < n; i++) {
    float x0 = p->x_y_pair[i]->x, y0 = p->x_y_pair[i]->y;
    float x1 = i + 1 < n ? p->x_y_pair[i + 1]->x : x0 + 1, y1 = i + 1 < n ? p->x_y_pair[i + 1]->y : y0;
    od_value alpha = od_div(g, od_sub(g, x, od_const_f32(g, x0)), od_const_f32(g, x1 - x0));
    od_value here = od_add(g, od_scale(g, od_scale(g, alpha, -1, 1), y0, 0), od_scale(g, alpha, y1, 0));
    y = od_select(g, od_greater_equal(g, x, od_const_f32(g, x0)), here, y);
  }
  float end = p->x_y_pair[n - 1]->x + 1;
  return od_select(g, od_greater_equal(g, x, od_const_f32(g, end)), od_scale(g, x, 0, p->x_y_pair[0]->y), y);
}

/* A curve a column of the last dimension; columns without one stay. */
static od_value by_class(od_graph *g, const ObjectDetection__Protos__ClassIdFunctionApproximations *f, od_value x) {
  int rank = od_type_of(x).shape.rank;
  int64_t k = od_dim(x, -1), begin[OD_MAX_RANK] = {0}, size[OD_MAX_RANK];
  for (size_t i = 0; i < f->n_class_id_xy_pairs_map; i++) {
    const ObjectDetection__Protos__ClassIdFunctionApproximations__ClassIdXyPairsMapEntry *e = f->class_id_xy_pairs_map[i];
    if (e->key < 0 || e->key >= k) continue; /* nor does the original say anything */
    od_status st = check(e->value);
    if (st != OD_OK) return od_graph_fail(g, st);
    od_value part[3];
    int n = 0;
    const int64_t from[3] = {0, e->key, e->key + 1}, count[3] = {e->key, 1, k - e->key - 1};
    for (int d = 0; d < rank; d++) size[d] = -1;
    for (int j = 0; j < 3; j++) {
      if (count[j] == 0) continue;
      begin[rank - 1] = from[j];
      size[rank - 1] = count[j];
      part[n] = od_slice(g, x, (od_ints){rank, begin}, (od_ints){rank, size});
      if (j == 1) part[n] = curve(g, e->value, part[n]);
      n++;
    }
    x = n > 1 ? od_concat(g, part, n, -1) : part[0];
  }
  return x;
}

#define CALIBRATOR(x) OBJECT_DETECTION__PROTOS__CALIBRATION_CONFIG__CALIBRATOR_##x
od_value od_calibrate(od_graph *g, const ObjectDetection__Protos__CalibrationConfig *c, bool before, od_value x) {
  if (!c) return x;
  switch (c->calibrator_case) {
    case CALIBRATOR(TEMPERATURE_SCALING_CALIBRATION): {
      float t = c->temperature_scaling_calibration->scaler;
      if (!before) return x;
      if (!(t > 0)) return od_graph_fail(g, od_fail(OD_EINVAL, "calibration_config: temperature_scaling_calibration.scaler is %g, more than 0 is wanted", (double)t));
      return od_div(g, x, od_const_f32(g, t));
    }
    case CALIBRATOR(FUNCTION_APPROXIMATION): {
      od_status st = check(c->function_approximation->x_y_pairs);
      if (st != OD_OK) return od_graph_fail(g, st);
      return before ? x : curve(g, c->function_approximation->x_y_pairs, x);
    }
    case CALIBRATOR(CLASS_ID_FUNCTION_APPROXIMATIONS): return before ? x : by_class(g, c->class_id_function_approximations, x);
    default:
      return od_graph_fail(g, od_fail(OD_EINVAL, "calibration_config: there are function_approximation, class_id_function_approximations and "
                                                 "temperature_scaling_calibration (the original refuses the sigmoids, too)"));
  }
}
