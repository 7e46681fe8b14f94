/* objdet create_pascal_tf_record: a VOCdevkit tree, or a folder of pictures and VOC XML, to records. */
#include "cli/command.h"
#include "data/pascal.h"

static od_status run(const od_args *a, const od_reporter *r) {
  static const char *const needed[] = {"data_dir", "label_map_path", "output_path"};
  for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) OD_TRY(od_arg_required(a, needed[i]));
  int64_t shards = od_arg_int(a, "num_shards");
  if (shards < 0 || shards > 99999)
    return od_fail(OD_EUSAGE, "--num_shards is %lld, 0 to 99999 is wanted", (long long)shards);
  od_pascal_options o = {.data_dir = od_arg_text(a, "data_dir"),
                         .set = od_arg_text(a, "set"),
                         .annotations_dir = od_arg_text(a, "annotations_dir"),
                         .year = od_arg_text(a, "year"),
                         .output_path = od_arg_text(a, "output_path"),
                         .label_map_path = od_arg_text(a, "label_map_path"),
                         .examples = od_arg_text(a, "examples"),
                         .ignore_difficult = od_arg_bool(a, "ignore_difficult_instances"),
                         .num_shards = (int)shards,
                         .threads = (int)od_arg_int(a, "threads"),
                         .reporter = r};
  od_convert_result result;
  return od_pascal_create(&result, &o);
}

static const od_flag flags[] = {
    {"data_dir", OD_FLAG_TEXT, NULL, "a VOCdevkit tree, or a folder that holds images/ and annotations/*.xml"},
    {"output_path", OD_FLAG_TEXT, NULL, "the record file to write"},
    {"label_map_path", OD_FLAG_TEXT, "data/pascal_label_map.pbtxt", "the label map"},
    {"set", OD_FLAG_TEXT, "train", "train, val, trainval or test (VOCdevkit)"},
    {"year", OD_FLAG_TEXT, "VOC2007", "VOC2007, VOC2012 or merged (VOCdevkit)"},
    {"annotations_dir", OD_FLAG_TEXT, "Annotations", "folder of the XML files below the year (VOCdevkit)"},
    {"examples", OD_FLAG_TEXT, NULL,
     "a file that names the pictures to take, one a line; the first column of a CSV will do (folders)"},
    {"ignore_difficult_instances", OD_FLAG_BOOL, "false", "leaves out objects marked as difficult"},
    {"num_shards", OD_FLAG_INT, "0", "files to spread the records over; 0: one file of exactly that name"},
    {"threads", OD_FLAG_INT, "0", "threads; 0: as many as processors"},
    {0},
};

const od_command od_cmd_create_pascal_tf_record = {
    "create_pascal_tf_record", "turns annotated pictures (Pascal VOC) into records", NULL, flags, run};
