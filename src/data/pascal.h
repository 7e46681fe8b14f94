/* create_pascal_tf_record: a VOCdevkit tree, or a folder of pictures and VOC XML, to a record file. */
#ifndef OD_DATA_PASCAL_H
#define OD_DATA_PASCAL_H

#include "data/convert.h"

typedef struct {
  const char *data_dir;        /* VOCdevkit (holds VOC2007/...), or a folder with annotations/ and images/ */
  const char *set;             /* train, val, trainval, test; NULL: train. Trees only */
  const char *annotations_dir; /* NULL: Annotations. Trees only */
  const char *year;            /* VOC2007, VOC2012, merged; NULL: VOC2007. Trees only */
  const char *output_path;
  const char *label_map_path;
  const char *examples; /* NULL, or a file that names the pictures to take, in its order. Folders only */
  bool ignore_difficult;
  int num_shards; /* 0: the one file output_path */
  int threads;    /* <= 0: all */
  const od_reporter *reporter;
} od_pascal_options;

/* Writes the records with the keys and values of the original, in the order of the list (tree) or of the names (folder).
 * Every picture is decoded: damaged ones and bad XML are named, skipped, counted (od_convert_close). A class that the label
 * map lacks is OD_EINVAL, a tree that is not there OD_ENOENT with what was looked for. */
OD_MUST_CHECK od_status od_pascal_create(od_convert_result *out, const od_pascal_options *options);

#endif
