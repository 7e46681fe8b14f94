/* What a training run refuses before it touches its folder: the fast part of `check`. */
#ifndef OD_TRAIN_CHECK_H
#define OD_TRAIN_CHECK_H

#include "train/trainer.h"

/* od_config_require for what this run reads, and a look at headers and boxes of the first records: what the run could not get past
 * is OD_EDATA, unless it skips bad records; the rest is warned of. resuming: fine_tune_checkpoint will not be read. */
OD_MUST_CHECK od_status od_train_check(const od_train_options *o, bool resuming);

/* What a run will need, in bytes. */
typedef struct {
  size_t step;     /* activations and scratch of one turn */
  size_t state;    /* variables, slots, averages; the engine's own copies of the weights; mean gradients */
  size_t input;    /* pictures decoded ahead and the batch itself */
  size_t total;
  int height, width; /* of the largest batch; 0: the resizer does not bound it, and step is not counted */
  int pictures;      /* a turn */
} od_train_need;

/* What a run with these options would need, without reading a record or touching its folder. */
OD_MUST_CHECK od_status od_train_estimate(od_train_need *out, const od_train_options *o);

/* Refuses (OD_ENOMEM) what needs more than `available` bytes, with the numbers, what to change, and a batch size that would fit. */
OD_MUST_CHECK od_status od_train_need_check(const od_train_need *need, size_t available);

/* Memory of this machine or, where that is less, what its control group may use. 0: unknown. */
size_t od_machine_memory(void);

#endif
