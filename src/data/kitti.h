/* create_kitti_tf_record: the KITTI object set as its archives unpack, to a training and a validation record. */
#ifndef OD_DATA_KITTI_H
#define OD_DATA_KITTI_H

#include "data/convert.h"

typedef struct {
  const char *data_dir;        /* holds training/label_2/ and data_object_image_2/training/image_2/ */
  const char *output_path;     /* in front of _train.tfrecord and _val.tfrecord */
  const char *classes_to_use;  /* comma list; NULL: car,pedestrian,dontcare */
  const char *label_map_path;  /* NULL: data/kitti_label_map.pbtxt */
  int64_t validation_set_size; /* pictures numbered below it are for validation; negative: 500 */
  int threads;
  const od_reporter *reporter;
} od_kitti_options;

/* Keys and values as the original's. With dontcare among the classes, boxes that touch a DontCare region are left out, the
 * regions themselves too. out[0] counts training, out[1] validation. */
OD_MUST_CHECK od_status od_kitti_create(od_convert_result out[2], const od_kitti_options *options);

#endif
