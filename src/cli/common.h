/* What several commands share: their flags turned into options. */
#ifndef OD_CLI_COMMON_H
#define OD_CLI_COMMON_H

#include "cli/command.h"
#include "engine/program.h"
#include "model/pipeline.h"
#include "train/trainer.h"

/* Flags of the training commands. */
#define OD_TRAIN_FLAGS                                                                                                \
  {"save_interval_steps", OD_FLAG_INT, "0", "a checkpoint every so many steps; 0: by time only"},                     \
      {"save_interval_secs", OD_FLAG_FLOAT, "600", "a checkpoint every so many seconds"},                             \
      {"save_summary_steps", OD_FLAG_INT, "10", "losses into the event file every so many steps"}, {                  \
    "on_bad_record", OD_FLAG_TEXT, "stop", "a damaged record or picture: stop, or skip and count"                     \
  }

/* The legacy trainer's flags for clusters and several GPUs. */
#define OD_CLUSTER_FLAGS                                                                                              \
  {"master", OD_FLAG_TEXT, "", "as the original's; has no effect"}, {"task", OD_FLAG_INT, "0", "as the original's; has no effect"}, \
      {"num_clones", OD_FLAG_INT, "1", "clones on one machine: only 1"}, {"clone_on_cpu", OD_FLAG_BOOL, "false", "has no effect: this is the CPU"}, \
      {"worker_replicas", OD_FLAG_INT, "1", "as the original's; has no effect"}, {                                    \
    "ps_tasks", OD_FLAG_INT, "0", "as the original's; has no effect"                                                  \
  }

/* Refuses what would need several machines or clones: TF_CONFIG with a cluster, num_clones above 1. */
OD_MUST_CHECK od_status od_refuse_cluster(const od_args *a);

/* The pipeline of --pipeline_config_path with --set applied; or of the three separate files where the command has these flags.
 * The caller frees with od_pipeline_free. */
OD_MUST_CHECK od_status od_load_pipeline(od_pipeline *out, const od_args *a);

/* Writes the effective config to <folder>/pipeline.config. */
OD_MUST_CHECK od_status od_save_config(const od_pipeline *p, const char *folder);
/* --on_bad_record. */
OD_MUST_CHECK od_status od_read_on_bad(od_on_bad *out, const od_args *a);
/* --engine, --threads, --precision. */
OD_MUST_CHECK od_status od_read_engine_flags(od_engine_options *out, const od_args *a);
/* The above, --seed and OD_TRAIN_FLAGS into o. */
OD_MUST_CHECK od_status od_read_train_flags(od_train_options *o, const od_args *a);

#endif
