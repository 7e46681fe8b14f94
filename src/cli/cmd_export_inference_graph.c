/* objdet export_inference_graph: the original's exporter, then a check: the file is read back by the interpreter and must give
 * what the trainer's own graph gives. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/rng.h"
#include "cli/command.h"
#include "cli/common.h"
#include "engine/program.h"
#include "export/export.h"
#include "io/file.h"
#include "io/path.h"
#include "model/fields.h"
#include "train/restore.h"

typedef struct {
  od_pipeline pipeline;
  od_graph *graph;
  od_state *state;
  od_model model;
  od_value images; /* raw pictures */
  od_export_output outputs[OD_EXPORT_OUTPUTS];
  int n_outputs;
  od_engine *engine;
  const od_args *args;
  const od_reporter *reporter;
  od_shape input_shape;
} session;

/* --------------------------------------------------------------------------------------------------------------- input */
enum { SIDE_MAX = 1 << 16 };

/* "1,-1,-1,3" or "1,None,None,3"; rank 0 when not given. */
static od_status read_input_shape(od_shape *out, const char *text) {
  *out = OD_SCALAR;
  if (!text || !*text) return OD_OK;
  const char *at = text;
  for (; out->rank < 4; out->rank++) {
    char *end;
    long v = strtol(at, &end, 10);
    if (end == at && strncasecmp(at, "none", 4) == 0) end += 4, v = -1;
    bool last = out->rank == 3;
    if (end == at || ((v < 1 || v > SIDE_MAX) && v != -1) || *end != (last ? 0 : ',')) break;
    out->dim[out->rank] = v;
    at = end + 1;
  }
  if (out->rank == 4 && out->dim[3] == 3) return OD_OK;
  return od_fail(OD_EUSAGE, "--input_shape wants four numbers as 1,300,300,3 (-1: unknown), not '%s'", text);
}

static od_status load(session *s, const od_args *a, const od_reporter *r) {
  const char *override = od_arg_text(a, "config_override");
  OD_TRY(od_load_pipeline(&s->pipeline, a));
  if (override && *override)
    OD_TRY(od_textproto_merge(s->pipeline.config, "--config_override", override, strlen(override), s->pipeline.pos));
  return od_fields_check(&s->pipeline, OD_FOR_EXPORT, r);
}

static od_status build(session *s, const od_args *a) {
  bool averages = OD_SET(s->pipeline.config->eval_config, EvalConfig)->use_moving_averages;
  OD_TRY(od_graph_new(&s->graph));
  s->images = od_input(s->graph, "image", OD_F32, OD_SHAPE(-1, -1, -1, 3));
  OD_TRY(od_model_build(&s->model, s->graph, s->pipeline.config->model,
                        &(od_model_spec){.images = s->images, .resize = true}));
  (void)od_variable_slot(s->graph, "global_step", OD_I64, OD_SCALAR, (od_init){0});
  OD_TRY(od_graph_check(s->graph));
  s->n_outputs = od_export_model_outputs(s->outputs, &s->model);
  OD_TRY(od_state_new(&s->state, s->graph));
  return od_restore_model(s->state, od_arg_text(a, "trained_checkpoint_prefix"), averages);
}

/* --------------------------------------------------------------------------------------------------------------- check */
/* Pictures of coarse blocks and noise: something for every layer to see. */
static od_status made_pictures(od_tensor *bytes, od_tensor *floats, int batch, int height, int width, uint64_t seed) {
  od_shape shape = OD_SHAPE(batch, height, width, 3);
  *floats = (od_tensor){0};
  OD_TRY(od_tensor_new(bytes, OD_U8, &shape));
  OD_TRY(od_tensor_new(floats, OD_F32, &shape));
  for (int64_t i = 0, n = od_tensor_size(bytes); i < n; i++) {
    int64_t y = i / 3 / width, x = i / 3 % width;
    uint64_t block = od_rng_u64(seed, (uint64_t)((y / 24) * 4096 + (x / 24) * 3 + i % 3)) >> 56,
             noise = od_rng_u64(seed + 1, (uint64_t)i) >> 56;
    uint8_t v = (uint8_t)((3 * block + noise) / 4);
    ((uint8_t *)bytes->data)[i] = v;
    ((float *)floats->data)[i] = v;
  }
  return OD_OK;
}

/* What the trainer's graph gives for the picture; detection_classes counted from 1 as in the file. regions: no data where it cuts none. */
static od_status expected(od_tensor *want, od_tensor *regions, session *s, od_program *program,
                          const od_tensor *picture) {
  od_tensor views[OD_EXPORT_OUTPUTS + 1];
  OD_TRY(od_program_run(program, picture, views));
  if (views[s->n_outputs].data) OD_TRY(od_tensor_copy(regions, &views[s->n_outputs]));
  for (int i = 0; i < s->n_outputs; i++) {
    OD_TRY(od_tensor_copy(&want[i], &views[i]));
    for (int64_t k = 0, n = od_tensor_size(&want[i]); s->outputs[i].add != 0 && k < n; k++)
      ((float *)want[i].data)[k] += s->outputs[i].add;
  }
  return OD_OK;
}

static od_status check_size(session *s, od_program *program, const char *path, int batch, int height, int width,
                            const od_reporter *r) {
  const char *names[OD_EXPORT_OUTPUTS];
  od_tensor want[OD_EXPORT_OUTPUTS] = {{0}}, regions = {0}, bytes = {0}, floats = {0};
  od_parity parity;
  od_status st;
  for (int i = 0; i < s->n_outputs; i++) names[i] = s->outputs[i].name;
  OD_GO(st, made_pictures(&bytes, &floats, batch, height, width, (uint64_t)height * 10007 + (uint64_t)width));
  OD_GO(st, expected(want, &regions, s, program, &floats));
  OD_GO(
      st,
      od_fail_context(
          od_export_check(&parity, path, &bytes, names, want, s->n_outputs, regions.data ? &regions : NULL),
          "the file that would be exported differs from the trained model on a picture of %dx%d; nothing was exported",
          height, width));
  od_info(r, "checked on a made picture of %dx%d: raw tensors within %.1e, boxes within %.1e, scores within %.1e",
          height, width, parity.raw, parity.box, parity.score);
done:
  for (int i = 0; i < s->n_outputs; i++) od_tensor_free(&want[i]);
  od_tensor_free(&regions);
  od_tensor_free(&bytes);
  od_tensor_free(&floats);
  return st;
}

static od_status check(void *ctx, const char *path) {
  session *s = ctx;
  const od_args *a = s->args;
  const od_shape *shape = &s->input_shape;
  const od_reporter *r = s->reporter;
  od_engine_options o;
  od_value fetches[OD_EXPORT_OUTPUTS + 1];
  OD_TRY(od_read_engine_flags(&o, a));
  o.precision = OD_FP32; /* the file computes in fp32 */
  for (int i = 0; i < s->n_outputs; i++) fetches[i] = s->outputs[i].value;
  fetches[s->n_outputs] = od_export_regions(s->graph);
  OD_TRY(od_engine_new(&s->engine, &o));
  od_program *program;
  od_program_spec spec = {.graph = s->graph,
                          .state = s->state,
                          .feeds = &s->images,
                          .n_feeds = 1,
                          .fetches = fetches,
                          .n_fetches = s->n_outputs + 1};
  OD_TRY(od_program_new(&program, s->engine, &spec));
  int batch = shape->rank == 4 && shape->dim[0] > 0 ? (int)shape->dim[0] : 1;
  int height = shape->rank == 4 && shape->dim[1] > 0 ? (int)shape->dim[1] : 0,
      width = shape->rank == 4 && shape->dim[2] > 0 ? (int)shape->dim[2] : 0;
  od_status st = check_size(s, program, path, batch, height ? height : 240, width ? width : 320, r);
  if (st == OD_OK) st = od_stop_check();
  if (st == OD_OK && !(height && width))
    st = check_size(s, program, path, batch, height ? height : 301, width ? width : 200, r);
  od_program_free(program);
  return st;
}

/* ---------------------------------------------------------------------------------------------------------------- run */
static od_status write_directory(session *s, const od_args *a) {
  od_str text = OD_STR_INIT;
  od_pb_pipeline *c = s->pipeline.config;
  od_export_spec spec = {.graph = s->graph,
                         .images = s->images,
                         .state = s->state,
                         .outputs = s->outputs,
                         .n_outputs = s->n_outputs,
                         .input_shape = s->input_shape,
                         .inference_graph = od_arg_bool(a, "write_inference_graph")};
  if (c->eval_config) { /* the weights written are the ones to use: nobody shall look for averages again */
    c->eval_config->has_use_moving_averages = true;
    c->eval_config->use_moving_averages = false;
  }
  od_status st = od_export_input_from_name(&spec.input, od_arg_text(a, "input_type"));
  if (st == OD_OK) st = od_textproto_print(&text, c);
  spec.pipeline_text = od_str_text(&text);
  if (st == OD_OK) st = od_export_write(od_arg_text(a, "output_directory"), &spec, check, s);
  od_str_free(&text);
  return st;
}

static od_status export(session *s, const od_args *a, const od_reporter *r) {
  OD_TRY(read_input_shape(&s->input_shape, od_arg_text(a, "input_shape")));
  OD_TRY(load(s, a, r));
  OD_TRY(build(s, a));
  OD_TRY(write_directory(s, a));
  od_info(r, "exported to %s", od_arg_text(a, "output_directory"));
  return OD_OK;
}

static od_status run(const od_args *a, const od_reporter *r) {
  session s = {.args = a, .reporter = r};
  OD_TRY(od_arg_required(a, "trained_checkpoint_prefix"));
  OD_TRY(od_arg_required(a, "output_directory"));
  od_status st = export(&s, a, r);
  od_engine_free(s.engine);
  od_state_free(s.state);
  od_graph_free(s.graph);
  od_pipeline_free(&s.pipeline);
  return st;
}

static const od_flag flags[] = {
    {"input_type", OD_FLAG_TEXT, "image_tensor", "image_tensor, encoded_image_string_tensor or tf_example"},
    {"input_shape", OD_FLAG_TEXT, "", "shape of image_tensor, e.g. 1,300,300,3; -1: unknown"},
    {"pipeline_config_path", OD_FLAG_TEXT, NULL, "the pipeline.config of the training"},
    {"trained_checkpoint_prefix", OD_FLAG_TEXT, NULL, "the checkpoint: prefix, .index, .data file or folder"},
    {"output_directory", OD_FLAG_TEXT, NULL, "takes the frozen graph, the SavedModel, the checkpoint and the config"},
    {"config_override", OD_FLAG_TEXT, "", "text of a TrainEvalPipelineConfig, merged over the file"},
    {"write_inference_graph", OD_FLAG_BOOL, "false", "write inference_graph.pbtxt too"},
    OD_COMMON_FLAGS,
    {0},
};

const od_command od_cmd_export_inference_graph = {
    "export_inference_graph", "exports a checkpoint as a frozen graph and a SavedModel", NULL, flags, run};
