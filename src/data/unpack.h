/* From records back to files: pictures, Pascal VOC XML and a list, as the converters read them. For looking at records with
 * other tools, correcting boxes, or moving to another format. */
#ifndef OD_DATA_UNPACK_H
#define OD_DATA_UNPACK_H

#include "base/report.h"
#include "data/label_map.h"

typedef struct {
  const char *const *patterns; /* record files */
  size_t n_patterns;
  const char *output_dir;     /* takes images/, annotations/xmls/, annotations/trainval.txt */
  const od_label_map *labels; /* names for records that hold class numbers only; may be NULL */
  bool trimaps;               /* annotations/trimaps/<name>.png as Oxford's pets have them: 1 in a box, 2 outside, 3 at its edge */
  const od_reporter *reporter;
} od_unpack_options;

/* Writes every record's picture as it is and its boxes as XML. Names come from image/filename; one that is there already, or is
 * empty, gets a number. *written: pictures. Existing files of these names are replaced. */
OD_MUST_CHECK od_status od_unpack(int64_t *written, const od_unpack_options *options);

#endif
