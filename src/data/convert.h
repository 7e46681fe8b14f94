/* What all converters share: making Examples on all cores, writing them in a fixed order, counting what is damaged. */
#ifndef OD_DATA_CONVERT_H
#define OD_DATA_CONVERT_H

#include "base/mem.h"
#include "base/report.h"
#include "base/str.h"
#include "data/label_map.h"
#include "io/example.h"
#include "io/path.h"
#include "io/record.h"

typedef struct {
  int64_t written, skipped; /* pictures */
  int64_t boxes;
} od_convert_result;

/* What one Example is made with; each thread has its own, the builder is empty. */
typedef struct {
  od_example_builder *builder;
  od_arena *arena; /* emptied for each example */
  int64_t boxes;   /* the example adds its boxes here */
} od_convert_room;

typedef struct {
  const char *what; /* "pictures of VOC2007": for the progress line */
  int64_t count;
  /* Fills room->builder for item i. OD_EDATA and OD_ENOENT mean this item alone is bad: it is named in a warning, skipped
   * and counted; everything else stops. Called from several threads. */
  od_status (*make)(void *ctx, int64_t i, od_convert_room *room);
  void *ctx;
  int threads; /* <= 0: all */
  const od_reporter *reporter;
} od_convert_job;

/* Adds the examples of a job to the record (shards by item number, skipped ones use up theirs). out is added to. After the
 * last job call od_convert_close. */
OD_MUST_CHECK od_status od_convert_run(od_convert_result *out, od_record_shards *shards, const od_convert_job *job);

/* Puts the files in place if st is OD_OK and not too much was bad (more than 5 % and more than 20 is an error), says the
 * sum through the reporter; else drops them. Frees shards; returns what the whole conversion should. */
OD_MUST_CHECK od_status od_convert_close(od_record_shards *shards, od_status st, const od_convert_result *result,
                                         const char *output, const od_reporter *reporter);

/* The text of a file, a name a line: first column of a CSV or first blank-separated word; empty lines and repetitions are
 * left out. Appends to out. */
OD_MUST_CHECK od_status od_convert_names(od_strings *out, const char *path);

/* Id of a class for a converter: OD_EINVAL with "did you mean" when the label map lacks it (the original stops, too). */
OD_MUST_CHECK od_status od_convert_class(int64_t *id, const od_label_map *labels, const char *name);

/* Lower-case hexadecimal SHA-256 of the bytes into text[65]. */
void od_convert_sha256(char *text, const void *bytes, size_t size);

/* Columns of boxes as the original's converters write them. */
typedef struct {
  float *xmin, *xmax, *ymin, *ymax;
  od_view *text, *view;
  int64_t *label, *difficult, *truncated;
  size_t count;
} od_box_columns;
OD_MUST_CHECK od_status od_box_columns_new(od_box_columns *out, size_t n, od_arena *arena);

/* Adds image/height, width, filename, source_id, key/sha256, encoded, format. */
void od_convert_add_picture(od_example_builder *b, int height, int width, const char *filename, const char *source_id,
                            const void *bytes, size_t size, const char *format);
/* Adds image/object/bbox/..., class/text and class/label. */
void od_convert_add_boxes(od_example_builder *b, const od_box_columns *c);

#endif
