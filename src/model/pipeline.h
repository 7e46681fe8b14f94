/* A pipeline.config in memory, with `--set path.in.config=value` applied on top and the place of every field. */
#ifndef OD_MODEL_PIPELINE_H
#define OD_MODEL_PIPELINE_H

#include "io/textproto.h"
#include "model/config.h"

typedef struct {
  od_pb_pipeline *config; /* owned */
  od_textpos *pos;        /* owned */
} od_pipeline;

/* Reads the file and applies the settings in order. Paths named inside are not opened. */
OD_MUST_CHECK od_status od_pipeline_load(od_pipeline *out, const char *path, const char *const *sets, size_t n_sets);
/* Applies one "path.in.config=value". */
OD_MUST_CHECK od_status od_pipeline_set(od_pipeline *p, const char *setting);
void od_pipeline_free(od_pipeline *p);

#endif
