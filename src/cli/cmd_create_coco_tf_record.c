/* objdet create_coco_tf_record: COCO's JSON annotations to records of training, validation and test-dev pictures. */
#include "base/mem.h"
#include "cli/command.h"
#include "data/coco.h"
#include "io/path.h"

/* The three parts with the shard counts of the original. */
static const struct {
  const char *annotations, *images, *keypoints, *file;
  int shards;
} parts[] = {
    {"train_annotations_file", "train_image_dir", "train_keypoint_annotations_file", "coco_train.record", 100},
    {"val_annotations_file", "val_image_dir", "val_keypoint_annotations_file", "coco_val.record", 50},
    {"testdev_annotations_file", "test_image_dir", NULL, "coco_testdev.record", 50},
};

static od_status convert(const od_args *a, const od_reporter *r, size_t i) {
  char *path = NULL;
  int64_t shards = od_arg_int(a, "num_shards");
  OD_TRY(od_arg_required(a, parts[i].images));
  OD_TRY(od_path_join(&path, od_arg_text(a, "output_dir"), parts[i].file));
  const char *keypoints = parts[i].keypoints ? od_arg_text(a, parts[i].keypoints) : NULL;
  od_coco_options o = {.annotations_file = od_arg_text(a, parts[i].annotations), .keypoint_annotations_file = keypoints && *keypoints ? keypoints : NULL,
                       .image_dir = od_arg_text(a, parts[i].images), .output_path = path, .num_shards = shards >= 0 ? (int)shards : parts[i].shards,
                       .include_masks = od_arg_bool(a, "include_masks"), .remove_non_person_annotations = od_arg_bool(a, "remove_non_person_annotations"),
                       .remove_non_person_images = od_arg_bool(a, "remove_non_person_images"), .threads = od_arg_int32(a, "threads"), .reporter = r};
  od_convert_result result = {0};
  od_status st = od_coco_create(&result, &o);
  od_free(path);
  return st;
}

static od_status run(const od_args *a, const od_reporter *r) {
  int done = 0;
  OD_TRY(od_path_make_dirs(od_arg_text(a, "output_dir")));
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    if (!od_arg_given(a, parts[i].annotations)) continue;
    OD_TRY(convert(a, r, i));
    done++;
  }
  if (done) return OD_OK;
  return od_fail(OD_EUSAGE, "create_coco_tf_record wants at least one of --train_annotations_file, --val_annotations_file, --testdev_annotations_file");
}

static const od_flag flags[] = {
    {"include_masks", OD_FLAG_BOOL, "false", "instance masks as PNGs"},
    {"train_image_dir", OD_FLAG_TEXT, NULL, "training pictures"},
    {"val_image_dir", OD_FLAG_TEXT, NULL, "validation pictures"},
    {"test_image_dir", OD_FLAG_TEXT, NULL, "test-dev pictures"},
    {"train_annotations_file", OD_FLAG_TEXT, NULL, "instances_train*.json"},
    {"val_annotations_file", OD_FLAG_TEXT, NULL, "instances_val*.json"},
    {"testdev_annotations_file", OD_FLAG_TEXT, NULL, "image_info_test-dev*.json"},
    {"train_keypoint_annotations_file", OD_FLAG_TEXT, NULL, "person_keypoints_train*.json"},
    {"val_keypoint_annotations_file", OD_FLAG_TEXT, NULL, "person_keypoints_val*.json"},
    {"remove_non_person_annotations", OD_FLAG_BOOL, "false", "keep the boxes of persons only"},
    {"remove_non_person_images", OD_FLAG_BOOL, "false", "keep pictures with persons only"},
    {"output_dir", OD_FLAG_TEXT, "/tmp/", "takes coco_train.record-..., coco_val.record-..., coco_testdev.record-..."},
    {"num_shards", OD_FLAG_INT, "-1", "shards of each; 0: one file; -1: as the original (100, 50, 50)"},
    {"threads", OD_FLAG_INT, "0", "threads; 0: as many as processors"},
    {0},
};

const od_command od_cmd_create_coco_tf_record = {"create_coco_tf_record", "turns COCO's annotations into records", NULL, flags, run};
