/* objdet train: the original's train.py (legacy/train.py). */
#include <string.h>

#include "cli/command.h"
#include "cli/common.h"
#include "cli/servo.h"
#include "train/trainer.h"

static od_status run(const od_args *a, const od_reporter *r) {
  od_pipeline p;
  OD_TRY(od_arg_required(a, "train_dir"));
  OD_TRY(od_refuse_cluster(a));
  OD_TRY(od_load_pipeline(&p, a));
  od_train_options o = {.pipeline = &p, .train_dir = od_arg_text(a, "train_dir"), .program = OD_PROGRAM_LEGACY, .max_to_keep = 5, .board_graph = od_write_board_graph, .reporter = r};
  od_status st = od_read_train_flags(&o, a);
  if (st == OD_OK) st = od_train(&o);
  od_pipeline_free(&p);
  return st;
}

static const od_flag flags[] = {
    {"train_dir", OD_FLAG_TEXT, NULL, "folder for checkpoints and summaries; one that holds a checkpoint is resumed"},
    {"pipeline_config_path", OD_FLAG_TEXT, NULL, "the pipeline.config"},
    {"train_config_path", OD_FLAG_TEXT, NULL, "a TrainConfig file, instead of the pipeline's"},
    {"input_config_path", OD_FLAG_TEXT, NULL, "an InputReader file, instead of the pipeline's"},
    {"model_config_path", OD_FLAG_TEXT, NULL, "a DetectionModel file, instead of the pipeline's"},
    OD_CLUSTER_FLAGS,
    OD_TRAIN_FLAGS,
    OD_COMMON_FLAGS,
    {0},
};

const od_command od_cmd_train = {"train", "trains a detector (the original's legacy trainer)", NULL, flags, run};
