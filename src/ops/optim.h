/* Builders and parameters of the optimizers, clipping and averages: elementwise ops whose outputs may be computed in place
 * over variables and slots. Formulas are those of TensorFlow's training ops, so that trajectories agree. All float32. */
#ifndef OD_OPS_OPTIM_H
#define OD_OPS_OPTIM_H

#include "graph/graph.h"

/* var - lr * grad. lr is a scalar value in all of these. */
od_value od_sgd(od_graph *g, od_value var, od_value grad, od_value lr);

/* ApplyMomentum: acc' = acc * momentum + grad; var' = var - lr * acc', with Nesterov var - lr * (grad + momentum * acc').
 * Inputs var, acc, grad, lr; outputs var', acc'. */
typedef struct {
  float momentum;
  bool use_nesterov;
} od_momentum_params;
od_value od_momentum(od_graph *g, od_value var, od_value acc, od_value grad, od_value lr, const od_momentum_params *p);

/* ApplyRMSProp: ms' = ms + (grad^2 - ms) * (1 - decay); mom' = mom * momentum + lr * grad / sqrt(ms' + epsilon);
 * var' = var - mom'. Inputs var, ms, mom, grad, lr; outputs var', ms', mom'. */
typedef struct {
  float decay, momentum, epsilon;
} od_rmsprop_params;
od_value od_rmsprop(od_graph *g, od_value var, od_value ms, od_value mom, od_value grad, od_value lr, const od_rmsprop_params *p);

/* ApplyAdam: m' = m + (grad - m) * (1 - beta1); v' = v + (grad^2 - v) * (1 - beta2);
 * var' = var - lr * sqrt(1 - beta2_power) / (1 - beta1_power) * m' / (sqrt(v') + epsilon). The powers are scalar variables
 * beginning at beta1, beta2, to be multiplied by beta1, beta2 after every step (od_scale).
 * Inputs var, m, v, grad, lr, beta1_power, beta2_power; outputs var', m', v'. */
typedef struct {
  float beta1, beta2, epsilon;
} od_adam_params;
od_value od_adam(od_graph *g, od_value var, od_value m, od_value v, od_value grad, od_value lr, od_value beta1_power,
                 od_value beta2_power, const od_adam_params *p);

/* shadow - rate * (shadow - value), rate = 1 - decay. Inputs shadow, value, decay (optional scalar; then rate is 1 - decay in
 * float32 as TensorFlow has it for a decay that is a tensor). Without it the parameter rate counts: 1 - decay rounded once from
 * double, as TensorFlow has it for a decay that is a number. */
typedef struct {
  float rate;
} od_moving_average_params;
od_value od_moving_average(od_graph *g, od_value shadow, od_value value, double decay);
od_value od_moving_average_by(od_graph *g, od_value shadow, od_value value, od_value decay);

typedef struct {
  float clip;
} od_clip_params;
/* tf.clip_by_norm: x * clip / max(|x|, clip), |x| the Euclidean norm. */
od_value od_clip_by_norm(od_graph *g, od_value x, float clip);
/* tf.global_norm: sqrt(2 * sum of the l2 losses) -> scalar; any number of inputs. */
od_value od_global_norm(od_graph *g, const od_value *x, int n);
/* The piece of tf.clip_by_global_norm for one x: x * clip * min(1/norm, 1/clip); NaN everywhere when norm is not finite. */
od_value od_clip_by_global_norm(od_graph *g, od_value x, od_value norm, float clip);

#endif
