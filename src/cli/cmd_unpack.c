/* objdet unpack: from records back to pictures and Pascal VOC XML. */
#include "cli/command.h"
#include "data/unpack.h"

static od_status run(const od_args *a, const od_reporter *r) {
  const char *const *records;
  const char *labels = od_arg_text(a, "label_map_path");
  od_label_map *map = NULL;
  int64_t written = 0;
  size_t n = od_arg_list(a, "record", &records);
  if (n == 0) return od_fail(OD_EUSAGE, "unpack needs --record; objdet unpack -h explains it");
  OD_TRY(od_arg_required(a, "output_dir"));
  if (labels) OD_TRY(od_label_map_load(&map, labels));
  od_unpack_options o = {.patterns = records, .n_patterns = n, .output_dir = od_arg_text(a, "output_dir"), .labels = map,
                         .pets = od_arg_bool(a, "pets"), .reporter = r};
  od_status st = od_unpack(&written, &o);
  if (st == OD_OK) od_info(r, "%lld pictures with their boxes in %s", (long long)written, o.output_dir);
  od_label_map_free(map);
  return st;
}

static const od_flag flags[] = {
    {"record", OD_FLAG_LIST, NULL, "record files (patterns are fine); may be given several times"},
    {"output_dir", OD_FLAG_TEXT, NULL, "takes images/ and annotations/*.xml, as create_pascal_tf_record reads them"},
    {"label_map_path", OD_FLAG_TEXT, NULL, "names for records that hold class numbers only"},
    {"pets", OD_FLAG_BOOL, "false", "the layout of the Oxford-IIIT Pets, as create_pet_tf_record reads it; trimaps are drawn around the boxes"},
    {0},
};

const od_command od_cmd_unpack = {"unpack", "turns records back into pictures and Pascal VOC XML", NULL, flags, run};
