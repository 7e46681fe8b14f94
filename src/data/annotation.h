/* Pascal VOC annotations: one XML file a picture. */
#ifndef OD_DATA_ANNOTATION_H
#define OD_DATA_ANNOTATION_H

#include "base/mem.h"

typedef struct {
  const char *name, *pose;       /* "" and "Unspecified" when absent */
  int truncated, difficult;      /* 0 when absent */
  double xmin, ymin, xmax, ymax; /* pixels, as they stand there */
} od_voc_object;

/* All texts and the array live in the arena given. */
typedef struct {
  const char *folder, *filename; /* "" when absent */
  int width, height;             /* 0 when absent */
  od_voc_object *objects;
  int count;
} od_voc;

/* Parses an annotation. Whitespace round values is ignored; of an element given twice the last one counts (but object).
 * OD_EDATA: no XML, no <annotation>, an <object> without a box or a box side that is no number; with the line. */
OD_MUST_CHECK od_status od_voc_parse(od_voc *out, const void *bytes, size_t size, od_arena *arena);
/* The same from a file; the path stands in front of errors. */
OD_MUST_CHECK od_status od_voc_load(od_voc *out, const char *path, od_arena *arena);

/* Must be called once before threads parse annotations. */
void od_voc_init(void);

#endif
