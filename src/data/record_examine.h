/* Examining one record; for record_check.c. */
#ifndef OD_DATA_RECORD_EXAMINE_H
#define OD_DATA_RECORD_EXAMINE_H

#include "base/mem.h"
#include "data/record_check.h"
#include "io/example.h"

typedef struct {
  od_finding_kind kind;
  int box;
  char *text; /* in the arena */
} od_found;

typedef struct {
  od_str payload;
  uint64_t number;
  od_example example;
  od_arena *arena; /* texts, classes */
  od_found *found;
  size_t count, cap;
  char *source_id; /* in the arena */
  char digest[65]; /* of the picture's bytes; "" when there is none or only headers are looked at */
  int boxes, *classes;
  int height, width;
} od_examined;

/* Empties e for record `number`; payload is then filled by the caller. */
void od_examined_reset(od_examined *e, uint64_t number);
/* Everything about one record. Bad data are findings; OD_ENOMEM alone is a failure. */
OD_MUST_CHECK od_status od_examine(od_examined *e, const od_record_check_options *o);
void od_examined_free(od_examined *e);

#endif
