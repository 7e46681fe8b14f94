/* Reading checkpoints into a state: to resume, to evaluate or export, and to begin from another model's weights. */
#ifndef OD_TRAIN_RESTORE_H
#define OD_TRAIN_RESTORE_H

#include "base/report.h"
#include "graph/state.h"
#include "model/model.h"

/* Every variable of the state from the checkpoint (any path form of od_bundle_open). OD_EMISMATCH with a table of what is
 * wanted, what is there and the nearest name when something is missing or has another shape. */
OD_MUST_CHECK od_status od_restore_all(od_state *state, const char *path);

/* The model's variables only. averages: trained variables come from their moving averages
 * ("<name>/ExponentialMovingAverage"), which must be there. global_step is restored when the graph has it. */
OD_MUST_CHECK od_status od_restore_model(od_state *state, const char *path, bool averages);

/* What a checkpoint has in common with the variables of a model: for `check` and for fine-tuning. */
typedef struct {
  const od_variable *variable;
  const char *wanted;   /* name in the checkpoint */
  const char *nearest;  /* the most similar name there when `wanted` is missing; else NULL */
  od_shape have;        /* shape there; rank -1: missing */
  bool fits;
} od_match_row;

/* How fine_tune_checkpoint_type maps names: "detection": the same; "classification": without the extractor's scope. With
 * whole (load_all_detection_checkpoint_vars) heads too, else the feature extractor alone. */
typedef struct {
  bool classification, whole;
} od_fine_tune_mode;
/* Reads type and flags of a TrainConfig, the old from_detection_checkpoint included. OD_EINVAL for unknown types. */
OD_MUST_CHECK od_status od_fine_tune_mode_read(od_fine_tune_mode *out, const od_pb_train *config);

/* Fills rows (one for each variable that the mode covers; *n of them, caller frees with od_free; names live in the arena). */
OD_MUST_CHECK od_status od_fine_tune_rows(od_match_row **rows, size_t *n, od_arena *arena, const od_model *m, const char *path, od_fine_tune_mode mode);

/* Begins from another model: restores what fits, leaves the rest as initialised, and says so line by line. A checkpoint in which
 * nothing fits is OD_EMISMATCH with the table. */
OD_MUST_CHECK od_status od_fine_tune(od_state *state, const od_model *m, const char *path, od_fine_tune_mode mode, const od_reporter *r);

/* Moving averages that were not restored begin at their variables' values. */
void od_start_averages(od_state *state);

#endif
