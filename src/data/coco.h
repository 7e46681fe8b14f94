/* create_coco_tf_record: one part of a data set in COCO's JSON form to a record. */
#ifndef OD_DATA_COCO_H
#define OD_DATA_COCO_H

#include "data/convert.h"

typedef struct {
  const char *annotations_file;          /* instances_*.json, or image_info_*.json without annotations */
  const char *keypoint_annotations_file; /* person_keypoints_*.json, or NULL */
  const char *image_dir;
  const char *output_path; /* coco_train.record */
  int num_shards;          /* 0: the one file */
  bool include_masks;      /* PNGs of 0 and 1 */
  bool remove_non_person_annotations, remove_non_person_images;
  int threads;
  const od_reporter *reporter;
} od_coco_options;

/* Keys and values as the original's: class/text without class/label, source_id the image's id. Boxes without area or
 * reaching out of the picture are left out, and how many is said. Damaged pictures are named, skipped, counted. */
OD_MUST_CHECK od_status od_coco_create(od_convert_result *out, const od_coco_options *options);

#endif
