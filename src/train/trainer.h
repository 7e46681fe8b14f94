/* The training loop: a config, a folder, and steps until told to stop.
 *
 * A folder that holds a checkpoint is resumed, exactly: position in the data, slots, averages, seed, precision and threads
 * come from the sidecar (model.ckpt-N.objdet). The loop knows neither evaluation nor clusters: the caller gives callbacks. */
#ifndef OD_TRAIN_TRAINER_H
#define OD_TRAIN_TRAINER_H

#include "base/str.h"
#include "data/pipeline.h"
#include "engine/program.h"
#include "model/pipeline.h"
#include "train/train_graph.h"

typedef struct {
  const od_pipeline *pipeline;
  const char *train_dir;
  od_train_program program;
  uint64_t num_steps; /* 0: train_config.num_steps, and 0 there: until stopped */
  uint64_t seed;            /* 0: of the run that is resumed; else 0 */
  od_engine_options engine; /* name NULL, threads 0: those of the run that is resumed; else the defaults */
  bool precision_given;     /* engine.precision was asked for; else a resumed run keeps its own */
  uint64_t save_interval_steps; /* 0: by time only */
  double save_interval_secs;
  uint64_t save_summary_steps; /* scalars into the event file every so many steps; 0: 10 */
  int max_to_keep;
  od_on_bad on_bad;
  const od_reporter *reporter;
  /* After a checkpoint was written (also the last one). *stop ends the run. NULL: none. */
  od_status (*after_save)(void *ctx, const char *prefix, uint64_t step, bool *stop);
  void *ctx;
  /* A serialized GraphDef for the event file of a run that begins, appended to out; it may write files of its own into train_dir.
   * A failure is told and does no harm. NULL: none. */
  od_status (*board_graph)(od_str *out, const od_pipeline *pipeline, const char *train_dir);
} od_train_options;

/* Trains until the last step, a stop request or an error. Config, label map and memory are looked at before the first step.
 * OD_ESTOPPED after a signal (a checkpoint was written); OD_ENUMERIC at the first loss that is not finite, or before a checkpoint
 * would hold such a number: the message names loss, layer, weights and pictures, the batch is left in
 * train_dir/nonfinite-<step>. Checkpoints written before stay as they are after any error. */
OD_MUST_CHECK od_status od_train(const od_train_options *o);

/* Pictures a step looks at: batch_size, for legacy divided by replicas_to_aggregate (sync_replicas), whose mean gradient is
 * applied after as many turns. */
typedef struct {
  int pictures; /* a turn */
  int turns;    /* a step */
} od_step_size;
OD_MUST_CHECK od_status od_step_size_read(od_step_size *out, const od_pb_train *c, od_train_program program);

#endif
