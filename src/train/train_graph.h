/* From losses to updates: regularisation, gradients, freezing, clipping, the optimizer, moving averages, the step counter -
 * all as nodes of the model's graph. Batch-norm updates were added by the layers. */
#ifndef OD_TRAIN_TRAIN_GRAPH_H
#define OD_TRAIN_TRAIN_GRAPH_H

#include "graph/autodiff.h"
#include "model/model.h"

/* The two programs differ: legacy multiplies the gradients of biases and clips each gradient by its own norm; model_main
 * chooses variables by update_trainable_variables before it differentiates and clips by the global norm. */
typedef enum { OD_PROGRAM_LEGACY, OD_PROGRAM_MODEL_MAIN } od_train_program;

typedef struct {
  const od_variable *variable;
  od_value raw;       /* d total_loss / d variable */
  od_value processed; /* what the optimizer gets; absent when the variable is frozen */
} od_gradient;

typedef struct {
  od_value total_loss;     /* losses and regularisation */
  od_value regularization; /* sum of the terms; 0 when there are none */
  bool has_regularization;
  od_value learning_rate;  /* input: scalar, fed each step */
  od_value global_step;    /* variable, int64 */
  od_value gradient_norm;  /* model_main: global norm before clipping; legacy: absent */
  od_gradient *gradients;  /* in the order of the variables; graph memory */
  int n_gradients;         /* trainable variables that a gradient reaches */
} od_train_graph;

/* Groups of od_update that a training step runs, NULL-terminated: batch_norm, optimizer, moving_average, step. */
extern const char *const od_train_update_groups[];
enum { OD_N_TRAIN_UPDATE_GROUPS = 4 };

/* Adds everything a step needs. Failures name the config's field (optimizer kinds, bad regular expressions). */
OD_MUST_CHECK od_status od_train_graph_build(od_train_graph *out, const od_model *m, const od_pb_train *config, od_train_program program);

/* Name of a variable's moving average: "<name>/ExponentialMovingAverage", in memory of the arena. */
const char *od_shadow_name(od_arena *arena, const char *variable);

#endif
