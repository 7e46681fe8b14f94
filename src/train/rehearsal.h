/* A rehearsal: the program of a config, bound to an engine, with made-up pictures and boxes to run it on. What profile, the
 * benchmark and the tests of kernels run where only shapes and time count. */
#ifndef OD_TRAIN_REHEARSAL_H
#define OD_TRAIN_REHEARSAL_H

#include "engine/program.h"
#include "model/pipeline.h"
#include "train/train_graph.h"

typedef struct {
  const od_pb_pipeline *config;
  bool inference;        /* detections of fresh weights instead of a training step */
  od_train_program kind; /* of a training step */
  int64_t batch;         /* pictures; <= 0: the config's batch_size, 1 for inference */
  int64_t height, width; /* of the resized pictures; <= 0: what the config's resizer gives */
  od_engine_options engine;
} od_rehearsal_spec;

enum { OD_REHEARSAL_FEEDS = 7, OD_REHEARSAL_FETCHES = OD_NAMED_MAX };

typedef struct {
  od_graph *graph;
  od_state *state;
  od_engine *engine;
  od_program *program;
  od_model model;
  od_train_graph train;
  int64_t batch, height, width; /* as resolved */
  od_value inputs[OD_REHEARSAL_FEEDS], outputs[OD_REHEARSAL_FETCHES];
  od_tensor feeds[OD_REHEARSAL_FEEDS]; /* owned */
  od_shape shapes[OD_REHEARSAL_FEEDS]; /* of the feeds */
  int n_feeds, n_fetches;
} od_rehearsal;

/* Builds the graph, fresh weights of seed 1, engine and program; no plan yet. Pictures, boxes and weights are the same in every
 * call. The config must outlive it. Free with od_rehearsal_free, also what is all zero. */
OD_MUST_CHECK od_status od_rehearsal_new(od_rehearsal *out, const od_rehearsal_spec *spec);
void od_rehearsal_free(od_rehearsal *r);

/* One run. loss: of a training step, else 0; may be NULL. Training moves on: weights change with a learning rate of 1e-4. */
OD_MUST_CHECK od_status od_rehearsal_step(od_rehearsal *r, float *loss);

#endif
