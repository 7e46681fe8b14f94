/* From records back to files: pictures, Pascal VOC XML and a list, as the converters read them. For looking at records with
 * other tools, correcting boxes, or moving to another format. */
#ifndef OD_DATA_UNPACK_H
#define OD_DATA_UNPACK_H

#include "base/report.h"
#include "data/label_map.h"

typedef struct {
  const char *const *patterns; /* record files */
  size_t n_patterns;
  const char *output_dir;     /* takes images/ and annotations/<name>.xml: what create_pascal_tf_record reads */
  const od_label_map *labels; /* names for records that hold class numbers only; may be NULL */
  bool pets;                  /* Oxford's layout, what create_pet_tf_record reads: annotations/xmls/<name>.xml, trainval.txt, and
                                 trimaps/<name>.png drawn around the boxes: 1 inside, 2 outside, 3 at the edge */
  const od_reporter *reporter;
} od_unpack_options;

/* Writes every record's picture as it is and its boxes as XML. Names come from image/filename; one that is there already, or is
 * empty, gets a number. *written: pictures. Existing files of these names are replaced. */
OD_MUST_CHECK od_status od_unpack(int64_t *written, const od_unpack_options *options);

#endif
