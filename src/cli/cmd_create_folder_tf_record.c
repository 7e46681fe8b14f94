/* objdet create_yolo_tf_record and create_csv_tf_record: the two forms that data sets of one's own mostly have. */
#include "cli/command.h"
#include "data/folders.h"

static od_folder_options read_flags(const od_args *a, const od_reporter *r) {
  return (od_folder_options){.data_dir = od_arg_text(a, "data_dir"), .output_path = od_arg_text(a, "output_path"),
                             .label_map_path = od_arg_text(a, "label_map_path"), .num_shards = od_arg_int32(a, "num_shards"),
                             .threads = od_arg_int32(a, "threads"), .reporter = r};
}

static od_status required(const od_args *a) {
  OD_TRY(od_arg_required(a, "data_dir"));
  OD_TRY(od_arg_required(a, "output_path"));
  return od_arg_required(a, "label_map_path");
}

static od_status run_yolo(const od_args *a, const od_reporter *r) {
  OD_TRY(required(a));
  od_folder_options o = read_flags(a, r);
  od_convert_result result = {0};
  return od_yolo_create(&result, &o);
}

static od_status run_csv(const od_args *a, const od_reporter *r) {
  OD_TRY(required(a));
  OD_TRY(od_arg_required(a, "csv_path"));
  od_folder_options o = read_flags(a, r);
  od_convert_result result = {0};
  o.csv_path = od_arg_text(a, "csv_path");
  return od_csv_create(&result, &o);
}

#define OUTPUT_FLAGS                                                                                                  \
  {"output_path", OD_FLAG_TEXT, NULL, "the record file to write"},                                                    \
      {"label_map_path", OD_FLAG_TEXT, NULL, "label map (.pbtxt)"},                                                   \
      {"num_shards", OD_FLAG_INT, "0", "write output_path-00000-of-0000N ...; 0: one file"}, {                        \
    "threads", OD_FLAG_INT, "0", "threads; 0: as many as processors"                                                  \
  }

static const od_flag yolo_flags[] = {
    {"data_dir", OD_FLAG_TEXT, NULL, "folder that holds images/ and labels/, or both kinds of file"}, OUTPUT_FLAGS, {0}};
static const od_flag csv_flags[] = {
    {"data_dir", OD_FLAG_TEXT, NULL, "folder of the pictures"},
    {"csv_path", OD_FLAG_TEXT, NULL, "CSV with a heading: filename, class, xmin, ymin, xmax, ymax [, width, height]; a box a line"},
    OUTPUT_FLAGS,
    {0},
};

const od_command od_cmd_create_yolo_tf_record = {"create_yolo_tf_record", "turns a YOLO folder into records", NULL, yolo_flags, run_yolo};
const od_command od_cmd_create_csv_tf_record = {"create_csv_tf_record", "turns pictures and a CSV of boxes into records", NULL, csv_flags, run_csv};
