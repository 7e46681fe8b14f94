/* Writing checkpoints while training: model.ckpt-<step>.{data,index,meta}, our sidecar, and the `checkpoint` file last, so that a
 * run killed anywhere finds the one before. Old ones are deleted after that, as tf.train.Saver does. */
#ifndef OD_TRAIN_SAVER_H
#define OD_TRAIN_SAVER_H

#include "graph/state.h"

/* What a run needs beside its variables to go on exactly; `model.ckpt-N.objdet`, JSON. Bits are the same again where engine,
 * precision, threads, processor and version are. */
typedef struct {
  uint64_t seed;
  uint64_t position;    /* ticket of the next picture */
  uint64_t fingerprint; /* of the records: another value means other data */
  int threads;
  char precision[8];    /* "fp32" or "bf16" */
  char engine[16];
  char processor[96]; /* its model's name */
  char version[32];   /* of this program */
} od_sidecar;

/* OD_ENOENT when the checkpoint has none (the original's, or an older one). */
OD_MUST_CHECK od_status od_sidecar_read(od_sidecar *out, const char *prefix);

typedef struct od_saver od_saver;
/* keep: newest checkpoints to keep (<= 0: all). keep_every_n_hours: besides, one in so many hours stays for good (0: none). Reads
 * the folder's `checkpoint` file, so that a resumed run keeps counting: the hours, too, go on where an interrupted run was. The
 * folder is made; half-written files of killed runs are removed. */
OD_MUST_CHECK od_status od_saver_new(od_saver **out, const char *folder, int keep, double keep_every_n_hours);
void od_saver_free(od_saver *s);
/* Writes everything; *prefix (borrowed, until the next save) names it. */
OD_MUST_CHECK od_status od_saver_save(od_saver *s, const char **prefix, const od_state *state, uint64_t step, const od_sidecar *sidecar);

/* Writes <prefix>.{data,index,meta} of the variables for which keep(v) holds (NULL: all). */
OD_MUST_CHECK od_status od_checkpoint_write(const char *prefix, const od_state *state, bool (*keep)(const od_variable *v));

#endif
