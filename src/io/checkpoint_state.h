/* The text file `checkpoint` of a training folder (CheckpointState): which checkpoint is the newest, which others are kept. */
#ifndef OD_IO_CHECKPOINT_STATE_H
#define OD_IO_CHECKPOINT_STATE_H

#include "base/status.h"
#include "io/path.h"

typedef struct {
  char *latest;   /* prefix of the newest checkpoint; NULL when the file names none */
  od_strings all; /* prefixes, oldest first; holds latest too */
  double *times;  /* seconds since 1970 of `all`, as far as the file says; time_count <= all.count */
  size_t time_count;
  double last_preserved; /* time of the last one kept for good; 0 when not said */
} od_checkpoint_state;

/* Reads <folder>/checkpoint. Relative paths in it are relative to the folder, and come back with it in front. A path that is
 * not there any more, while the folder holds a checkpoint of that name, means the folder was moved: the one in the folder is
 * taken. OD_ENOENT when there is no such file; OD_EDATA naming the line when it cannot be understood. The caller frees *out. */
OD_MUST_CHECK od_status od_checkpoint_state_read(od_checkpoint_state *out, const char *folder);
void od_checkpoint_state_free(od_checkpoint_state *s);

/* Writes <folder>/checkpoint atomically. Paths inside the folder are written relative to it, so that it can be moved. Times are
 * written where time_count equals all.count. */
OD_MUST_CHECK od_status od_checkpoint_state_write(const char *folder, const od_checkpoint_state *s);

/* A checkpoint (V2 or V1) of this prefix exists. */
bool od_checkpoint_exists(const char *prefix);
/* The N of "...-N"; -1 when the name does not end so. */
int64_t od_checkpoint_step(const char *prefix);
/* The newest checkpoint of a folder: what its `checkpoint` file says, else the one with the largest step number, else the only
 * one. OD_ENOENT when there is none. The caller frees *prefix. */
OD_MUST_CHECK od_status od_checkpoint_latest(char **prefix, const char *folder);

#endif
