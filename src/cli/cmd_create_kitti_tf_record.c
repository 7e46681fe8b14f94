/* objdet create_kitti_tf_record: the KITTI object set to a training and a validation record. */
#include "cli/command.h"
#include "data/kitti.h"

static od_status run(const od_args *a, const od_reporter *r) {
  OD_TRY(od_arg_required(a, "data_dir"));
  OD_TRY(od_arg_required(a, "output_path"));
  od_kitti_options o = {.data_dir = od_arg_text(a, "data_dir"), .output_path = od_arg_text(a, "output_path"), .classes_to_use = od_arg_text(a, "classes_to_use"),
                        .label_map_path = od_arg_text(a, "label_map_path"), .validation_set_size = od_arg_int(a, "validation_set_size"),
                        .threads = od_arg_int32(a, "threads"), .reporter = r};
  od_convert_result results[2] = {{0}};
  return od_kitti_create(results, &o);
}

static const od_flag flags[] = {
    {"data_dir", OD_FLAG_TEXT, NULL, "folder that holds training/label_2/ and data_object_image_2/training/image_2/"},
    {"output_path", OD_FLAG_TEXT, NULL, "what stands in front of _train.tfrecord and _val.tfrecord"},
    {"classes_to_use", OD_FLAG_TEXT, "car,pedestrian,dontcare", "classes to keep, separated by commas"},
    {"label_map_path", OD_FLAG_TEXT, "data/kitti_label_map.pbtxt", "label map (.pbtxt)"},
    {"validation_set_size", OD_FLAG_INT, "500", "pictures with smaller numbers are for validation"},
    {"threads", OD_FLAG_INT, "0", "threads; 0: as many as processors"},
    {0},
};

const od_command od_cmd_create_kitti_tf_record = {"create_kitti_tf_record", "turns the KITTI object set into records", NULL, flags, run};
