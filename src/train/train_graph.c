/* From losses to updates; see train_graph.h. Order as in the original's trainer (odapi 7.1, 7.3). */
#include "train/train_graph.h"

#include <string.h>

#include "ops/math.h"
#include "ops/optim.h"
#include "train/pattern.h"

const char *const od_train_update_groups[] = {"batch_norm", "optimizer", "moving_average", "step", NULL};

const char *od_shadow_name(od_arena *arena, const char *variable) {
  return od_arena_printf(arena, "%s/ExponentialMovingAverage", variable);
}

static od_value sum_of(od_graph *g, const od_value *v, int n) { return n == 1 ? v[0] : od_add_n(g, v, n); }

static od_status add_losses(od_train_graph *t, const od_model *m, const od_pb_train *c) {
  od_graph *g = m->graph;
  enum { TERMS_MAX = 4096 };
  od_value *terms = od_arena_alloc(od_graph_arena(g), sizeof *terms * TERMS_MAX);
  if (!terms) return OD_ENOMEM;
  int n = 0, n_losses;
  od_value v;
  if (m->losses.n == 0) return od_fail(OD_EINVAL, "the model has no losses to train");
  for (int i = 0; i < m->losses.n; i++) terms[n++] = m->losses.item[i].value;
  n_losses = n;
  while (c->add_regularization_loss && n < TERMS_MAX && od_collected(g, "regularization", (size_t)(n - n_losses), NULL, &v)) terms[n++] = v;
  OD_ASSERT(n < TERMS_MAX);
  t->has_regularization = n > n_losses;
  t->regularization = t->has_regularization ? sum_of(g, terms + n_losses, n - n_losses) : od_const_f32(g, 0);
  t->total_loss = sum_of(g, terms, n);
  return od_graph_check(g);
}

/* Variables to differentiate for. model_main leaves out what its config does not train; legacy drops gradients later. */
static od_status choose(const od_variable **chosen, int *n, const od_graph *g, const od_patterns *only, const od_patterns *frozen,
                        od_train_program program) {
  *n = 0;
  for (size_t i = 0; i < od_graph_variables(g); i++) {
    const od_variable *v = od_graph_variable(g, i);
    if (!v->trainable) continue;
    bool left_out = program == OD_PROGRAM_MODEL_MAIN &&
                    ((od_patterns_size(only) && !od_patterns_match(only, v->name)) || od_patterns_match(frozen, v->name));
    if (!left_out) chosen[(*n)++] = v;
  }
  return *n ? OD_OK : od_fail(OD_EINVAL, "train_config: freeze_variables and update_trainable_variables leave nothing to train");
}

/* Bias multiplier, freezing, clipping. */
static od_status process(od_train_graph *t, const od_model *m, const od_pb_train *c, const od_patterns *biases,
                         const od_patterns *frozen, od_train_program program) {
  od_graph *g = m->graph;
  float clip = c->gradient_clipping_by_norm;
  bool legacy = program == OD_PROGRAM_LEGACY;
  od_value *all = od_arena_alloc(od_graph_arena(g), sizeof *all * (size_t)(t->n_gradients + 1));
  if (!all) return OD_ENOMEM;
  int n = 0;
  for (int i = 0; i < t->n_gradients; i++) {
    od_gradient *d = &t->gradients[i];
    od_value v = d->raw;
    if (legacy && c->bias_grad_multiplier != 0 && od_patterns_match(biases, d->variable->name)) v = od_scale(g, v, c->bias_grad_multiplier, 0);
    if (legacy && od_patterns_match(frozen, d->variable->name)) continue;
    if (legacy && clip > 0) v = od_clip_by_norm(g, v, clip);
    d->processed = v;
    all[n++] = v;
  }
  if (n == 0) return od_fail(OD_EINVAL, "train_config: freeze_variables leaves nothing to train");
  if (legacy) return OD_OK;
  t->gradient_norm = od_global_norm(g, all, n);
  if (clip <= 0) return OD_OK;
  for (int i = 0; i < t->n_gradients; i++)
    if (od_has(t->gradients[i].processed))
      t->gradients[i].processed = od_clip_by_global_norm(g, t->gradients[i].processed, t->gradient_norm, clip);
  return OD_OK;
}

static od_value slot(od_graph *g, const od_variable *v, const char *suffix, float value) {
  const char *name = od_arena_printf(od_graph_arena(g), "%s/%s", v->name, suffix);
  if (!name) return od_graph_fail(g, OD_ENOMEM);
  return od_variable_slot(g, name, v->dtype, v->shape, (od_init){OD_INIT_CONSTANT, value, 0});
}

static od_value power(od_graph *g, const char *name, float beta) {
  return od_variable_slot(g, name, OD_F32, OD_SCALAR, (od_init){OD_INIT_CONSTANT, beta, 0});
}

/* Updates one variable and its slots; returns the new value of the variable. */
static od_value optimize(od_graph *g, const ObjectDetection__Protos__Optimizer *o, const od_gradient *d, od_value lr, const od_value *powers) {
  const od_variable *v = d->variable;
  od_value updated = OD_NONE, slots[2] = {OD_NONE, OD_NONE};
  switch (o->optimizer_case) {
    case OBJECT_DETECTION__PROTOS__OPTIMIZER__OPTIMIZER_MOMENTUM_OPTIMIZER:
      slots[0] = slot(g, v, "Momentum", 0);
      updated = od_momentum(g, v->value, slots[0], d->processed, lr, &(od_momentum_params){o->momentum_optimizer->momentum_optimizer_value, false});
      break;
    case OBJECT_DETECTION__PROTOS__OPTIMIZER__OPTIMIZER_RMS_PROP_OPTIMIZER: {
      const ObjectDetection__Protos__RMSPropOptimizer *r = o->rms_prop_optimizer;
      slots[0] = slot(g, v, "RMSProp", 1);
      slots[1] = slot(g, v, "RMSProp_1", 0);
      updated = od_rmsprop(g, v->value, slots[0], slots[1], d->processed, lr,
                           &(od_rmsprop_params){r->decay, r->momentum_optimizer_value, r->epsilon});
      break;
    }
    case OBJECT_DETECTION__PROTOS__OPTIMIZER__OPTIMIZER_ADAM_OPTIMIZER:
      slots[0] = slot(g, v, "Adam", 0);
      slots[1] = slot(g, v, "Adam_1", 0);
      updated = od_adam(g, v->value, slots[0], slots[1], d->processed, lr, powers[0], powers[1],
                        &(od_adam_params){0.9f, 0.999f, o->adam_optimizer->epsilon});
      break;
    default:
      return od_graph_fail(g, od_fail(OD_EINVAL, "train_config.optimizer: none is set; there are rms_prop_optimizer, "
                                                 "momentum_optimizer and adam_optimizer"));
  }
  od_update(g, "optimizer", v->value, updated);
  for (int i = 0; i < 2; i++)
    if (od_has(slots[i])) od_update(g, "optimizer", slots[i], od_out(updated, i + 1));
  return updated;
}

static void add_updates(od_train_graph *t, const od_model *m, const od_pb_train *c) {
  od_graph *g = m->graph;
  const ObjectDetection__Protos__Optimizer *o = OD_SET(c->optimizer, Optimizer);
  od_value powers[2] = {OD_NONE, OD_NONE};
  bool adam = o->optimizer_case == OBJECT_DETECTION__PROTOS__OPTIMIZER__OPTIMIZER_ADAM_OPTIMIZER;
  if (adam) {
    powers[0] = power(g, "beta1_power", 0.9f);
    powers[1] = power(g, "beta2_power", 0.999f);
  }
  for (int i = 0; i < t->n_gradients; i++) {
    od_gradient *d = &t->gradients[i];
    if (!od_has(d->processed)) continue;
    od_value updated = optimize(g, o, d, t->learning_rate, powers);
    if (!o->use_moving_average) continue;
    const char *name = od_shadow_name(od_graph_arena(g), d->variable->name);
    if (!name) {
      od_graph_fail(g, OD_ENOMEM);
      return;
    }
    od_value shadow = od_variable_slot(g, name, OD_F32, d->variable->shape, (od_init){OD_INIT_CONSTANT, 0, 0});
    od_update(g, "moving_average", shadow, od_moving_average(g, shadow, updated, (double)o->moving_average_decay));
  }
  if (adam) { /* after all variables have used them */
    od_update(g, "optimizer", powers[0], od_scale(g, powers[0], 0.9f, 0));
    od_update(g, "optimizer", powers[1], od_scale(g, powers[1], 0.999f, 0));
  }
  int64_t one = 1;
  t->global_step = od_variable_slot(g, "global_step", OD_I64, OD_SCALAR, (od_init){0});
  od_update(g, "step", t->global_step, od_add(g, t->global_step, od_const(g, OD_I64, OD_SCALAR, &one)));
}

static od_status differentiate(od_train_graph *t, const od_model *m, const od_patterns *only, const od_patterns *frozen,
                               od_train_program program) {
  od_graph *g = m->graph;
  size_t n_all = od_graph_variables(g);
  const od_variable **chosen = od_arena_alloc(od_graph_arena(g), sizeof *chosen * (n_all + 1));
  od_value *wrt = od_arena_alloc(od_graph_arena(g), sizeof *wrt * (n_all + 1));
  od_value *grads = od_arena_alloc(od_graph_arena(g), sizeof *grads * (n_all + 1));
  t->gradients = od_arena_alloc(od_graph_arena(g), sizeof *t->gradients * (n_all + 1));
  if (!chosen || !wrt || !grads || !t->gradients) return OD_ENOMEM;
  int n;
  OD_TRY(choose(chosen, &n, g, only, frozen, program));
  for (int i = 0; i < n; i++) wrt[i] = chosen[i]->value;
  OD_TRY(od_gradients(grads, g, t->total_loss, wrt, n));
  for (int i = 0; i < n; i++)
    if (od_has(grads[i])) t->gradients[t->n_gradients++] = (od_gradient){chosen[i], grads[i], OD_NONE};
  return OD_OK;
}

od_status od_train_graph_build(od_train_graph *out, const od_model *m, const od_pb_train *config, od_train_program program) {
  static char *const bias_pattern[] = {(char *)(uintptr_t) ".*/biases"};
  const od_pb_train *c = OD_SET(config, TrainConfig);
  od_graph *g = m->graph;
  od_patterns *frozen = NULL, *only = NULL, *biases = NULL;
  od_status st;
  *out = (od_train_graph){0};
  OD_GO(st, od_patterns_new(&frozen, "train_config.freeze_variables", c->freeze_variables, c->n_freeze_variables));
  OD_GO(st, od_patterns_new(&only, "train_config.update_trainable_variables", c->update_trainable_variables, c->n_update_trainable_variables));
  OD_GO(st, od_patterns_new(&biases, "biases", bias_pattern, 1));
  OD_GO(st, add_losses(out, m, c));
  OD_GO(st, differentiate(out, m, only, frozen, program));
  OD_GO(st, process(out, m, c, biases, frozen, program));
  out->learning_rate = od_input(g, "learning_rate", OD_F32, OD_SCALAR);
  add_updates(out, m, c);
  st = od_graph_check(g);
done:
  od_patterns_free(frozen);
  od_patterns_free(only);
  od_patterns_free(biases);
  return st;
}
