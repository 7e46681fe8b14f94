/* Shared flags; see common.h. */
#include "cli/common.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "io/path.h"

od_status od_refuse_cluster(const od_args *a) {
  if (od_arg_has(a, "num_clones") && od_arg_int(a, "num_clones") != 1)
    return od_fail(OD_EUNSUPPORTED, "--num_clones=%lld: one clone is supported; it uses all processors of this machine", (long long)od_arg_int(a, "num_clones"));
  const char *text = getenv("TF_CONFIG");
  if (!text || !*text) return OD_OK;
  json_error_t error;
  json_t *j = json_loads(text, 0, &error);
  if (!j) return od_fail(OD_EINVAL, "TF_CONFIG is no JSON: %s", error.text);
  const json_t *cluster = json_object_get(j, "cluster");
  bool several = json_array_size(json_object_get(cluster, "worker")) > 0 || json_array_size(json_object_get(cluster, "ps")) > 0;
  json_decref(j);
  return several ? od_fail(OD_EUNSUPPORTED, "TF_CONFIG describes a cluster of workers or parameter servers: training on several machines is not supported yet") : OD_OK;
}

/* Appends "<field> { <file> }" to the text of a pipeline. */
static od_status merge_part(od_pipeline *p, const char *field, const char *path) {
  od_str text = OD_STR_INIT;
  void *part = NULL;
  const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field_by_name(p->config->base.descriptor, field);
  OD_ASSERT(f);
  od_status st = od_textproto_load(&part, f->descriptor, path, NULL);
  if (st == OD_OK) {
    od_str_addf(&text, "%s {\n", field);
    st = od_textproto_print(&text, part);
    od_str_add(&text, "}\n");
  }
  if (st == OD_OK) st = od_str_check(&text);
  if (st == OD_OK) st = od_textproto_merge(p->config, path, od_str_text(&text), text.len, p->pos);
  if (part) od_proto_free(part);
  od_str_free(&text);
  return st;
}

/* The three files of the original's older way; the command's own flags say whether they are for training or evaluation. */
static od_status load_parts(od_pipeline *out, const od_args *a) {
  static const char *const train[][2] = {{"model_config_path", "model"}, {"train_config_path", "train_config"}, {"input_config_path", "train_input_reader"}};
  static const char *const eval[][2] = {{"model_config_path", "model"}, {"eval_config_path", "eval_config"}, {"input_config_path", "eval_input_reader"}};
  const char *const(*parts)[2] = od_arg_has(a, "eval_config_path") ? eval : train;
  const char *const *sets;
  size_t n_sets = od_arg_list(a, "set", &sets);
  *out = (od_pipeline){0};
  od_status st = od_textpos_new(&out->pos);
  if (st == OD_OK) st = od_textproto_parse(&out->config, &object_detection__protos__train_eval_pipeline_config__descriptor, "(empty)", "", 0, out->pos);
  for (size_t i = 0; i < 3 && st == OD_OK; i++) {
    st = od_arg_required(a, parts[i][0]);
    if (st == OD_OK) st = merge_part(out, parts[i][1], od_arg_text(a, parts[i][0]));
  }
  for (size_t i = 0; i < n_sets && st == OD_OK; i++) st = od_pipeline_set(out, sets[i]);
  if (st != OD_OK) od_pipeline_free(out);
  return st;
}

od_status od_load_pipeline(od_pipeline *out, const od_args *a) {
  const char *const *sets;
  size_t n = od_arg_list(a, "set", &sets);
  if (!od_arg_given(a, "pipeline_config_path") && od_arg_has(a, "model_config_path") && od_arg_given(a, "model_config_path")) return load_parts(out, a);
  OD_TRY(od_arg_required(a, "pipeline_config_path"));
  return od_pipeline_load(out, od_arg_text(a, "pipeline_config_path"), sets, n);
}

od_status od_save_config(const od_pipeline *p, const char *folder) {
  char *path;
  OD_TRY(od_path_make_dirs(folder));
  OD_TRY(od_path_join(&path, folder, "pipeline.config"));
  od_status st = od_textproto_save(path, p->config);
  od_free(path);
  return st;
}

od_status od_read_on_bad(od_on_bad *out, const od_args *a) {
  const char *bad = od_arg_text(a, "on_bad_record");
  *out = strcmp(bad, "skip") == 0 ? OD_BAD_SKIP : OD_BAD_STOP;
  if (strcmp(bad, "skip") == 0 || strcmp(bad, "stop") == 0) return OD_OK;
  return od_fail(OD_EUSAGE, "--on_bad_record is stop or skip, not '%s'", bad);
}

od_status od_read_engine_flags(od_engine_options *out, const od_args *a) {
  const char *precision = od_arg_text(a, "precision");
  *out = (od_engine_options){.name = od_arg_text(a, "engine"), .threads = od_arg_int32(a, "threads")};
  if (strcmp(precision, "bf16") == 0) out->precision = OD_MIXED_BF16;
  else if (strcmp(precision, "fp32") != 0 && strcmp(precision, "auto") != 0)
    return od_fail(OD_EUSAGE, "--precision is fp32, bf16 or auto, not '%s'", precision);
  return OD_OK;
}

od_status od_read_train_flags(od_train_options *o, const od_args *a) {
  OD_TRY(od_read_engine_flags(&o->engine, a));
  OD_TRY(od_read_on_bad(&o->on_bad, a));
  if (!od_arg_given(a, "engine")) o->engine.name = NULL; /* a resumed run goes on as it began */
  o->precision_given = strcmp(od_arg_text(a, "precision"), "auto") != 0;
  o->seed = (uint64_t)od_arg_int(a, "seed");
  o->save_interval_secs = od_arg_float(a, "save_interval_secs");
  int64_t steps = od_arg_int(a, "save_interval_steps");
  if (steps < 0) return od_fail(OD_EUSAGE, "--save_interval_steps is %lld, 0 or more is wanted", (long long)steps);
  o->save_interval_steps = (uint64_t)steps;
  steps = od_arg_int(a, "save_summary_steps");
  if (steps < 1) return od_fail(OD_EUSAGE, "--save_summary_steps is %lld, 1 or more is wanted", (long long)steps);
  o->save_summary_steps = (uint64_t)steps;
  return OD_OK;
}
