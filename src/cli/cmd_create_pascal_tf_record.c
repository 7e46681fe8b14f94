/* objdet create_pascal_tf_record: VOC trees, or folders of pictures and XML, to a TFRecord file. */
#include "cli/command.h"
#include "data/pascal.h"

static od_status run(const od_args *a, const od_reporter *r) {
  OD_TRY(od_arg_required(a, "data_dir"));
  OD_TRY(od_arg_required(a, "output_path"));
  od_pascal_options o = {.data_dir = od_arg_text(a, "data_dir"), .set = od_arg_text(a, "set"), .annotations_dir = od_arg_text(a, "annotations_dir"),
                         .year = od_arg_text(a, "year"), .output_path = od_arg_text(a, "output_path"),
                         .label_map_path = od_arg_text(a, "label_map_path"), .examples = od_arg_text(a, "examples"),
                         .ignore_difficult = od_arg_bool(a, "ignore_difficult_instances"), .num_shards = od_arg_int32(a, "num_shards"),
                         .threads = od_arg_int32(a, "threads"), .reporter = r};
  od_convert_result result = {0};
  return od_pascal_create(&result, &o);
}

static const od_flag flags[] = {
    {"data_dir", OD_FLAG_TEXT, NULL, "a VOCdevkit, or a folder that holds annotations/*.xml and images/"},
    {"set", OD_FLAG_TEXT, "train", "train, val, trainval or test (VOCdevkit)"},
    {"annotations_dir", OD_FLAG_TEXT, "Annotations", "folder of the XML files (VOCdevkit)"},
    {"year", OD_FLAG_TEXT, "VOC2007", "VOC2007, VOC2012 or merged (VOCdevkit)"},
    {"output_path", OD_FLAG_TEXT, NULL, "the record file to write"},
    {"label_map_path", OD_FLAG_TEXT, "data/pascal_label_map.pbtxt", "label map (.pbtxt)"},
    {"ignore_difficult_instances", OD_FLAG_BOOL, "false", "leave out boxes marked difficult"},
    {"examples", OD_FLAG_TEXT, NULL, "a file that names the pictures to take, one a line, or a CSV whose first column does"},
    {"num_shards", OD_FLAG_INT, "0", "write output_path-00000-of-0000N ...; 0: one file"},
    {"threads", OD_FLAG_INT, "0", "threads; 0: as many as processors"},
    {0},
};

const od_command od_cmd_create_pascal_tf_record = {"create_pascal_tf_record", "turns Pascal VOC trees or folders of pictures and XML into records", NULL, flags, run};
