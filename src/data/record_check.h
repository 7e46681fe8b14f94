/* The data half of `check`: every record of an input, everything that can be wrong with it, named by file, record,
 * source_id and box. */
#ifndef OD_DATA_RECORD_CHECK_H
#define OD_DATA_RECORD_CHECK_H

#include "base/report.h"
#include "base/str.h"
#include "data/label_map.h"

/* enumerator, name in output, what it means */
#define OD_FINDING_LIST(X)                                                                                             \
  X(OD_FIND_FILE, "file", "the file's structure is damaged; what follows cannot be read")                              \
  X(OD_FIND_CRC, "crc", "the record's bytes do not fit its checksum")                                                  \
  X(OD_FIND_EXAMPLE, "example", "the record is no tf.Example")                                                         \
  X(OD_FIND_KIND, "kind", "a key holds values of the wrong kind")                                                      \
  X(OD_FIND_PICTURE, "picture", "no picture, or one that cannot be decoded")                                           \
  X(OD_FIND_FORMAT, "format", "image/format says another format than the bytes")                                       \
  X(OD_FIND_SIZE, "size", "image/height and image/width are not those of the picture")                                 \
  X(OD_FIND_SHA256, "sha256", "image/key/sha256 is not that of the picture")                                           \
  X(OD_FIND_ROTATION, "rotation", "EXIF says that the picture is to be turned; nobody does")                           \
  X(OD_FIND_LENGTHS, "lengths", "lists that belong to the boxes differ in length")                                     \
  X(OD_FIND_BOX_NAN, "box-nan", "a coordinate is not a finite number")                                                 \
  X(OD_FIND_BOX_ORDER, "box-order", "a minimum is larger than its maximum")                                            \
  X(OD_FIND_BOX_RANGE, "box-range", "a coordinate lies outside 0..1")                                                  \
  X(OD_FIND_BOX_AREA, "box-area", "the box covers less than a pixel")                                                  \
  X(OD_FIND_BOX_TWICE, "box-twice", "the same box with the same class stands there twice")                             \
  X(OD_FIND_CLASS, "class", "a class that the label map does not know")                                                \
  X(OD_FIND_CLASS_PAIR, "class-pair", "class/text and class/label are different classes")                              \
  X(OD_FIND_WEIGHT, "weight", "a weight that is negative or not finite")                                               \
  X(OD_FIND_MASK, "mask", "a mask that does not fit its picture")                                                      \
  X(OD_FIND_EMPTY, "empty", "no box: fine as a negative example, else an oversight")                                   \
  X(OD_FIND_DUPLICATE, "duplicate", "the same picture, or source_id, as an earlier record")

typedef enum {
#define X(e, name, text) e,
  OD_FINDING_LIST(X)
#undef X
      OD_FINDINGS
} od_finding_kind;

const char *od_finding_name(od_finding_kind kind);

typedef struct {
  od_finding_kind kind;
  const char *file;
  uint64_t record;       /* from 0 */
  const char *source_id; /* "" when it has none */
  int box;               /* from 0; -1: not one box's */
  const char *text;      /* values and what to do */
} od_finding;

/* "file: record 12 (cat.jpg), box 3: box-order: ymin 0.7 is larger than ymax 0.2" appended to out. */
void od_finding_format(od_str *out, const od_finding *f);

typedef struct {
  const char *const *patterns;
  size_t pattern_count;
  const od_label_map *labels; /* NULL: ids must be at least 1, texts are not looked at */
  int num_classes;            /* 0: not checked */
  bool fast;                  /* no decoding of pixels, no checksums of pictures: headers only */
  uint64_t limit;             /* records a file at most; 0: all */
  int threads;                /* <= 0: all */
  const od_reporter *reporter;
  /* Called in order of file and record, from the calling thread; what it is given is borrowed. */
  void (*on_finding)(void *ctx, const od_finding *f);
  void *ctx;
} od_record_check_options;

typedef struct {
  uint64_t files, records, boxes, findings;
  uint64_t by_kind[OD_FINDINGS];
  int classes; /* entries of boxes_of_class: ids 0 .. classes - 1 */
  uint64_t *boxes_of_class;
  int min_height, min_width, max_height, max_width; /* of the pictures; 0 without any */
} od_record_check_result;

/* Checks all records. Bad data are findings, not failures: a status other than OD_OK means that checking itself could not
 * be done (no file, no memory, stopped). The caller frees the result with od_record_check_free. */
OD_MUST_CHECK od_status od_record_check(od_record_check_result *out, const od_record_check_options *options);
void od_record_check_free(od_record_check_result *r);

#endif
