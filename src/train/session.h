/* What a training run holds: graph, state, engine, programs, input. Inside the train room. */
#ifndef OD_TRAIN_SESSION_H
#define OD_TRAIN_SESSION_H

#include "engine/ahead.h"
#include "train/check.h"
#include "train/schedule.h"
#include "train/trainer.h"

typedef enum { OD_SCALAR_LOSS, OD_SCALAR_REGULARIZATION, OD_SCALAR_TOTAL, OD_SCALAR_SUMMARY, OD_SCALAR_NORM } od_scalar_kind;
typedef struct {
  const char *name; /* the original's */
  od_scalar_kind kind;
  od_value value;
} od_scalar;

enum { OD_SESSION_FEEDS = 7, OD_SCALARS_MAX = 2 * OD_NAMED_MAX + 8 };

typedef struct {
  const od_train_options *o;
  const od_pb_train *config;
  od_step_size size;
  od_schedule schedule;
  od_graph *graph;
  od_state *state;
  od_model model;
  od_model_spec inputs;
  od_train_graph train;
  od_engine_options engine_options; /* of this run; a resumed run takes them from the sidecar */
  od_engine *engine;
  od_program *program; /* the whole step; with several turns: gradients and batch norm only */
  od_program *apply;   /* several turns: fed with the learning rate and mean gradients */
  od_input_queue *input;
  od_ahead *ahead;     /* makes plans for the pictures that wait in the input */
  uint64_t start;      /* ticket the input begins at */
  od_batch batch;      /* the last one */
  uint64_t step;       /* steps done */
  int turn;
  uint64_t seed;
  float learning_rate; /* of the last step */
  od_scalar scalars[OD_SCALARS_MAX];
  float values[OD_SCALARS_MAX]; /* of the last step, means over its turns */
  int n_scalars, total;         /* scalars[total] is the total loss */
  int n_applied;                /* gradients that the optimizer gets */
  od_train_need need;           /* memory */
  od_tensor match;              /* [B,A] int32 of the last turn, where the model has it: matches of anchors and boxes */
  od_tensor *fetched;
  od_tensor *means; /* several turns: learning rate, then gradients */
} od_session;

/* Graph and state of the config; the caller restores or initialises the state and sets step, start, seed and engine_options;
 * then od_session_start opens engine, programs and input, and refuses what this machine has no memory for. Close in every case. */
OD_MUST_CHECK od_status od_session_build(od_session *s, const od_train_options *o);
OD_MUST_CHECK od_status od_session_start(od_session *s);
void od_session_close(od_session *s);

/* One step: pictures, gradients, updates. OD_ENUMERIC: the loss is not finite and no weight was touched. */
OD_MUST_CHECK od_status od_session_step(od_session *s);

/* Values and tensors of the program's feeds for the present batch; either may be NULL. */
void od_session_feeds(od_value *values, od_tensor *tensors, od_session *s);

/* After OD_ENUMERIC: finds loss term, layer, weights and pictures, writes the batch to `<train_dir>/nonfinite-<step>` as a
 * checkpoint-like bundle, and leaves all that in the message. Always returns a failure. */
od_status od_session_diagnose(od_session *s);

/* Before a checkpoint is written: OD_ENUMERIC when a number of the state is not finite, so that no checkpoint ever holds such. The
 * message names the variables, the step's loss and its pictures; the batch is left as above. */
OD_MUST_CHECK od_status od_session_check_state(od_session *s);

#endif
