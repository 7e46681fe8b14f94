/* objdet draw_shapes: a data set to begin with, drawn instead of photographed. */
#include "cli/command.h"
#include "data/shapes.h"

static od_status run(const od_args *a, const od_reporter *r) {
  OD_TRY(od_arg_required(a, "output_dir"));
  od_shapes_options o = {.output_dir = od_arg_text(a, "output_dir"),
                         .count = od_arg_int(a, "count"),
                         .held_out_count = od_arg_int(a, "held_out_count"),
                         .seed = (uint64_t)od_arg_int(a, "seed"),
                         .held_out_seed = (uint64_t)od_arg_int(a, "held_out_seed"),
                         .threads = od_arg_int32(a, "threads"),
                         .reporter = r};
  OD_TRY(od_shapes_create(&o));
  od_info(r, "%lld pictures to train on and %lld held out, with annotations, in %s", (long long)o.count,
          (long long)o.held_out_count, o.output_dir);
  return OD_OK;
}

static const od_flag flags[] = {
    {"output_dir", OD_FLAG_TEXT, NULL, "folder for images/, annotations/, label_map.pbtxt, train.txt and held_out.txt"},
    {"count", OD_FLAG_INT, "600", "pictures to train on"},
    {"seed", OD_FLAG_INT, "1", "their seed"},
    {"held_out_count", OD_FLAG_INT, "150", "pictures to evaluate on"},
    {"held_out_seed", OD_FLAG_INT, "2", "their seed, another one"},
    {"threads", OD_FLAG_INT, "0", "threads; 0: as many as processors"},
    {0},
};

const od_command od_cmd_draw_shapes = {
    "draw_shapes", "draws a data set of shapes: pictures, Pascal VOC annotations, a label map", NULL, flags, run};
