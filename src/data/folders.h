/* create_yolo_tf_record and create_csv_tf_record: the two forms that data sets of one's own mostly have. */
#ifndef OD_DATA_FOLDERS_H
#define OD_DATA_FOLDERS_H

#include "data/convert.h"

typedef struct {
  const char *data_dir; /* yolo: holds images/ and labels/, or both kinds of file; csv: the folder of the pictures */
  const char *csv_path; /* csv: filename, class, xmin, ymin, xmax, ymax by the heading's names, a box a line */
  const char *output_path;
  const char *label_map_path;
  int num_shards, threads;
  const od_reporter *reporter;
} od_folder_options;

/* YOLO: one text a picture, "class cx cy w h" normalised, or "class x y x y ..." for polygons, whose box is taken. The class
 * number is a line of classes.txt (or obj.names, in data_dir) if there is one, else id - 1 of the label map. Without a text,
 * or with an empty one, a picture has no boxes. Order by name. */
OD_MUST_CHECK od_status od_yolo_create(od_convert_result *out, const od_folder_options *options);

/* CSV: order of first appearance. Columns width and height, where given, are what pixels are divided by; else the picture's
 * size. */
OD_MUST_CHECK od_status od_csv_create(od_convert_result *out, const od_folder_options *options);

#endif
