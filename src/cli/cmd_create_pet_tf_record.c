/* objdet create_pet_tf_record: the Oxford-IIIT Pets as their archives unpack, to records. */
#include <string.h>

#include "cli/command.h"
#include "data/pets.h"

static od_status run(const od_args *a, const od_reporter *r) {
  const char *mask = od_arg_text(a, "mask_type"), *split = od_arg_text(a, "split");
  OD_TRY(od_arg_required(a, "data_dir"));
  OD_TRY(od_arg_required(a, "output_dir"));
  if (strcmp(mask, "png") != 0 && strcmp(mask, "numerical") != 0) return od_fail(OD_EUSAGE, "--mask_type is png or numerical, not '%s'", mask);
  if (strcmp(split, "py3") != 0 && strcmp(split, "py2") != 0) return od_fail(OD_EUSAGE, "--split is py3 or py2, not '%s'", split);
  od_pets_options o = {.data_dir = od_arg_text(a, "data_dir"), .output_dir = od_arg_text(a, "output_dir"), .label_map_path = od_arg_text(a, "label_map_path"),
                       .full_body = !od_arg_bool(a, "faces_only"), .numerical_masks = strcmp(mask, "numerical") == 0,
                       .num_shards = od_arg_int32(a, "num_shards"), .split = split[2] - '0', .threads = od_arg_int32(a, "threads"), .reporter = r};
  od_convert_result results[2] = {{0}};
  return od_pets_create(results, &o);
}

static const od_flag flags[] = {
    {"data_dir", OD_FLAG_TEXT, NULL, "folder that holds images/ and annotations/"},
    {"output_dir", OD_FLAG_TEXT, NULL, "takes pet_train.record and pet_val.record (with --num_shards the sharded names)"},
    {"label_map_path", OD_FLAG_TEXT, "data/pet_label_map.pbtxt", "label map (.pbtxt)"},
    {"faces_only", OD_FLAG_BOOL, "true", "boxes of the faces; --nofaces_only: whole pets and masks, from the trimaps"},
    {"mask_type", OD_FLAG_TEXT, "png", "png or numerical"},
    {"num_shards", OD_FLAG_INT, "0", "shards of each record; 0: one file each"},
    {"split", OD_FLAG_TEXT, "py3", "training and validation part as Python 3 (py3) or Python 2 (py2) shuffled the list"},
    {"threads", OD_FLAG_INT, "0", "threads; 0: as many as processors"},
    {0},
};

const od_command od_cmd_create_pet_tf_record = {"create_pet_tf_record", "turns the Oxford-IIIT Pets into records", NULL, flags, run};
