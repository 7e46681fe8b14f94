/* Recognising a file by its content, see inspect.h. */
#include "io/inspect.h"

#include <string.h>

#include "base/mem.h"
#include "io/checkpoint_state.h"
#include "io/event.h"
#include "io/inspect_report.h"
#include "io/proto/label_map.pb-c.h"
#include "io/proto/pipeline.pb-c.h"
#include "io/record.h"
#include "io/table.h"
#include "io/textproto.h"

enum { TEXT_LOOK = 65536 };

/* ------------------------------------------------------------------------------------------------------------ texts */
/* No zero and no other control character than white space in the first part. */
static bool is_text(od_view v) {
  size_t n = v.size < TEXT_LOOK ? v.size : TEXT_LOOK;
  for (size_t i = 0; i < n; i++)
    if (v.data[i] == 0 || (v.data[i] < 32 && !strchr("\t\n\r\f", v.data[i]))) return false;
  return n > 0;
}

static void label_map(od_inspect_report *r, const ObjectDetection__Protos__StringIntLabelMap *map) {
  od_inspect_cstr(r, "kind", "label_map");
  od_inspect_int(r, "classes", (int64_t)map->n_item);
  od_inspect_list(r, "items");
  for (size_t i = 0; i < map->n_item; i++) {
    const ObjectDetection__Protos__StringIntLabelMapItem *item = map->item[i];
    od_inspect_row(r);
    od_inspect_int(r, "id", item->id);
    od_inspect_cstr(r, "name", item->name ? item->name : "");
    if (item->display_name) od_inspect_cstr(r, "display_name", item->display_name);
    od_inspect_row_end(r);
  }
  od_inspect_list_end(r);
}

static const char *architecture(const ObjectDetection__Protos__TrainEvalPipelineConfig *c) {
  if (!c->model) return "none";
  const ProtobufCFieldDescriptor *f = od_proto_field(c->model->base.descriptor, "ssd", 3);
  const ProtobufCFieldDescriptor *chosen = f ? od_proto_chosen(c->model, f) : NULL;
  return chosen ? chosen->name : "none";
}

static void pipeline(od_inspect_report *r, const ObjectDetection__Protos__TrainEvalPipelineConfig *c) {
  od_inspect_cstr(r, "kind", "pipeline_config");
  od_inspect_cstr(r, "model", architecture(c));
  if (c->train_config) {
    od_inspect_int(r, "batch_size", c->train_config->batch_size);
    od_inspect_int(r, "num_steps", c->train_config->num_steps);
    if (c->train_config->fine_tune_checkpoint)
      od_inspect_cstr(r, "fine_tune_checkpoint", c->train_config->fine_tune_checkpoint);
  }
  od_inspect_list(r, "inputs");
  for (size_t i = 0; i < 1 + c->n_eval_input_reader; i++) {
    const ObjectDetection__Protos__InputReader *in = i ? c->eval_input_reader[i - 1] : c->train_input_reader;
    if (!in) continue;
    od_inspect_row(r);
    od_inspect_cstr(r, "reader", i ? "eval" : "train");
    if (in->label_map_path) od_inspect_cstr(r, "label_map_path", in->label_map_path);
    if (in->tf_record_input_reader && in->tf_record_input_reader->n_input_path > 0)
      od_inspect_cstr(r, "input_path", in->tf_record_input_reader->input_path[0]);
    od_inspect_row_end(r);
  }
  od_inspect_list_end(r);
}

static od_status checkpoint_file(od_inspect_report *r, const char *path) {
  od_checkpoint_state s;
  char *folder;
  OD_TRY(od_path_dir(&folder, path));
  od_status st = od_checkpoint_state_read(&s, folder);
  od_free(folder);
  OD_TRY(st);
  od_inspect_cstr(r, "kind", "checkpoint_state");
  od_inspect_cstr(r, "latest", s.latest ? s.latest : "");
  od_inspect_list(r, "all");
  for (size_t i = 0; i < s.all.count; i++) {
    od_inspect_row(r);
    od_inspect_cstr(r, "path", s.all.items[i]);
    if (s.time_count == s.all.count) od_inspect_number(r, "time", s.times[i]);
    od_inspect_row_end(r);
  }
  od_inspect_list_end(r);
  od_checkpoint_state_free(&s);
  return OD_OK;
}

static bool contains(od_view v, const char *text) { return v.size && memmem(v.data, v.size, text, strlen(text)); }

/* A label map has items, a config a model or a train_config; anything else is neither. */
static od_status text_file(od_inspect_report *r, const char *path, od_view v) {
  const char *text = (const char *)v.data;
  if (contains(v, "model_checkpoint_path")) return checkpoint_file(r, path);
  bool config = contains(v, "model") && (contains(v, "train_config") || contains(v, "_input_reader"));
  if (config) {
    ObjectDetection__Protos__TrainEvalPipelineConfig *c;
    OD_TRY(od_textproto_parse(&c, &object_detection__protos__train_eval_pipeline_config__descriptor, path, text, v.size,
                              NULL));
    pipeline(r, c);
    od_proto_free(c);
    return OD_OK;
  }
  if (!contains(v, "item"))
    return od_fail(OD_EDATA, "%s: a text that is neither a label map nor a pipeline config nor a `checkpoint` file",
                   path);
  ObjectDetection__Protos__StringIntLabelMap *map;
  OD_TRY(
      od_textproto_parse(&map, &object_detection__protos__string_int_label_map__descriptor, path, text, v.size, NULL));
  label_map(r, map);
  od_proto_free(map);
  return OD_OK;
}

/* ------------------------------------------------------------------------------------------------------------ files */
static od_status record_file(od_inspect_report *r, const char *path) {
  od_record_reader *reader;
  od_view first;
  od_event e;
  OD_TRY(od_record_reader_open(&reader, path, NULL));
  od_status st = od_record_read(reader, &first);
  bool events = !st && od_event_parse(&e, first) == OD_OK && e.kind == OD_EVENT_VERSION;
  od_record_reader_free(reader);
  OD_TRY(st);
  return events ? od_inspect_events(r, path) : od_inspect_records(r, path);
}

static od_status unknown(const char *path, od_view v) {
  if (v.size >= 3 && v.data[0] == 0xff && v.data[1] == 0xd8)
    return od_fail(OD_EDATA, "%s is a JPEG picture, a data or model file was expected", path);
  if (v.size >= 4 && memcmp(v.data, "\x89PNG", 4) == 0)
    return od_fail(OD_EDATA, "%s is a PNG picture, a data or model file was expected", path);
  if (v.size > 8 && v.size < 400 && contains(v, "git-lfs"))
    return od_fail(OD_EDATA, "%s is a Git LFS pointer, not the file itself: run `git lfs pull`", path);
  return od_fail(
      OD_EDATA,
      "%s (%zu bytes) is none of: TFRecord, event file, checkpoint, frozen graph, .meta, SavedModel, label map, "
      "pipeline config",
      path, v.size);
}

static bool ends_like_data(const char *path) {
  const char *data = strstr(od_path_base(path), ".data-");
  return data && strlen(data) == 20;
}

static od_status by_content(od_inspect_report *r, const char *path, od_view v) {
  bool records;
  if (v.size == 0) return od_fail(OD_EDATA, "%s is empty", path);
  if (od_table_probe(v) || ends_like_data(path)) return od_inspect_checkpoint(r, path);
  OD_TRY(od_record_probe(&records, path));
  if (records) return record_file(r, path);
  if (v.data[0] == 0xff || v.data[0] == 0x89) return unknown(path, v); /* pictures */
  if (is_text(v)) return contains(v, "git-lfs") ? unknown(path, v) : text_file(r, path, v);
  switch (od_graph_guess(v)) {
  case OD_GRAPH_DEF: return od_inspect_graph(r, path, v);
  case OD_GRAPH_META: return od_inspect_meta_graph(r, path, v);
  case OD_GRAPH_SAVED_MODEL: return od_inspect_saved_model(r, path, v);
  default: return unknown(path, v);
  }
}

static od_status whole_file(od_inspect_report *r, const char *path) {
  od_view v;
  OD_TRY(od_file_map(&v, path));
  od_status st = by_content(r, path, v);
  od_file_unmap(&v);
  return st;
}

static od_status folder(od_inspect_report *r, const char *path) {
  char *inside;
  OD_TRY(od_path_join(&inside, path, "saved_model.pb"));
  od_status st = od_path_is_file(inside) ? whole_file(r, inside) : od_inspect_checkpoint(r, path);
  od_free(inside);
  return st;
}

od_status od_inspect(od_str *out, const char *path, bool json) {
  od_inspect_report r = {.out = out, .json = json};
  OD_TRY(od_path_check_local(path));
  od_inspect_begin(&r);
  od_inspect_cstr(&r, "file", path);
  if (od_path_is_dir(path))
    OD_TRY(folder(&r, path));
  else if (od_path_exists(path))
    OD_TRY(whole_file(&r, path));
  else if (od_checkpoint_exists(path))
    OD_TRY(od_inspect_checkpoint(&r, path));
  else
    return od_fail(OD_ENOENT, "%s: no such file, nor a checkpoint of this name (%s.index)", path, path);
  od_inspect_end(&r);
  return od_str_check(out);
}
