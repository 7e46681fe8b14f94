/* Graphs of a training run; see servo.h. The original's exporter is called Servo, so its folder is, too. */
#include "cli/servo.h"

#include <time.h>

#include "base/str.h"
#include "export/export.h"
#include "io/path.h"
#include "train/restore.h"

typedef struct {
  od_graph *graph;
  od_state *state;
  od_model model;
  od_value images;
} inference;

static od_status build(inference *s, const od_pipeline *p) {
  OD_TRY(od_graph_new(&s->graph));
  s->images = od_input(s->graph, "image", OD_F32, OD_SHAPE(-1, -1, -1, 3));
  OD_TRY(od_model_build(&s->model, s->graph, p->config->model, &(od_model_spec){.images = s->images, .resize = true}));
  return od_graph_check(s->graph);
}

od_status od_write_board_graph(od_str *out, const od_pipeline *p, const char *folder) {
  inference s = {0};
  char *path = NULL;
  od_export_output outputs[OD_EXPORT_OUTPUTS];
  od_status st;
  OD_GO(st, build(&s, p));
  od_export_spec spec = {.graph = s.graph, .images = s.images, .outputs = outputs, .n_outputs = od_export_model_outputs(outputs, &s.model),
                         .input = OD_EXPORT_IMAGE_TENSOR};
  OD_GO(st, od_export_pack_graph(out, &spec));
  OD_GO(st, od_path_join(&path, folder, "graph.pbtxt"));
  st = od_export_text_graph(path, &spec);
done:
  od_free(path);
  od_graph_free(s.graph);
  return st;
}

/* model_dir/export/Servo/<now>; a second later where that is taken. */
static od_status choose_folder(od_str *out, const char *model_dir) {
  for (long long t = (long long)time(NULL);; t++) {
    od_str_clear(out);
    od_str_addf(out, "%s/export/Servo/%lld", model_dir, t);
    OD_TRY(od_str_check(out));
    if (!od_path_exists(od_str_text(out))) return OD_OK;
  }
}

od_status od_servo_export(const od_pipeline *p, const char *model_dir, const char *checkpoint, const od_reporter *r) {
  inference s = {0};
  od_str folder = OD_STR_INIT;
  od_export_output outputs[OD_EXPORT_OUTPUTS];
  od_status st;
  OD_GO(st, build(&s, p));
  OD_GO(st, od_state_new(&s.state, s.graph));
  OD_GO(st, od_restore_model(s.state, checkpoint, OD_SET(p->config->eval_config, EvalConfig)->use_moving_averages));
  OD_GO(st, choose_folder(&folder, model_dir));
  od_export_spec spec = {.graph = s.graph, .images = s.images, .state = s.state, .outputs = outputs, .n_outputs = od_export_model_outputs(outputs, &s.model),
                         .input = OD_EXPORT_TF_EXAMPLE, .input_key = "serialized_example"};
  OD_GO(st, od_export_saved_model(od_str_text(&folder), &spec));
  od_info(r, "exported %s/saved_model.pb", od_str_text(&folder));
done:
  od_state_free(s.state);
  od_graph_free(s.graph);
  od_str_free(&folder);
  return od_fail_context(st, "exporting %s", checkpoint);
}
