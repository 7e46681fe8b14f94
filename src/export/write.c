/* The files of an export. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "export/graphdef.h"
#include "io/bundle.h"
#include "io/checkpoint_state.h"
#include "io/metagraph.h"
#include "io/path.h"
#include "io/proto/tf_graph.pb-c.h"
#include "io/textproto.h"
#include "io/wire.h"

static od_status write_graph(const char *path, const od_tf *t) {
  od_file *f;
  OD_TRY(od_file_replace(&f, path));
  od_status st = od_tf_write(t, f);
  if (st != OD_OK) {
    od_file_drop(f);
    return st;
  }
  return od_file_close(f);
}

od_status od_export_frozen_graph(const char *path, const od_export_spec *spec) {
  od_tf *t;
  OD_TRY(od_export_graphdef(&t, spec, true));
  od_status st = write_graph(path, t);
  od_tf_free(t);
  return st;
}

/* -------------------------------------------------------------------------------------------------------- SavedModel */
/* A map entry {key 1, TensorInfo 2}; TensorInfo: name 1, dtype 2, tensor_shape 3. */
static void put_port(od_str *s, uint32_t map, const char *key, const char *node, od_type type) {
  size_t entry = od_wire_begin(s, map);
  od_wire_put_text(s, 1, key);
  size_t info = od_wire_begin(s, 2), name = od_wire_begin(s, 1);
  od_str_addf(s, "%s:0", node);
  od_wire_end(s, name);
  od_wire_put_varint(s, 2, (uint64_t)od_dtype_tf(type.dtype));
  size_t shape = od_wire_begin(s, 3);
  for (int i = 0; i < type.shape.rank; i++) {
    size_t dim = od_wire_begin(s, 2);
    if (type.shape.dim[i]) od_wire_put_varint(s, 1, (uint64_t)type.shape.dim[i]);
    od_wire_end(s, dim);
  }
  if (type.shape.rank < 0) od_wire_put_varint(s, 3, 1);
  od_wire_end(s, shape);
  od_wire_end(s, info);
  od_wire_end(s, entry);
}

/* Indices of the outputs in the order of their names: maps are written sorted. */
static od_status sorted_outputs(int **out, const od_export_spec *spec) {
  OD_TRY(od_new(out, (size_t)spec->n_outputs + 1, sizeof **out));
  for (int i = 0; i < spec->n_outputs; i++) {
    int k = i;
    for (; k > 0 && strcmp(spec->outputs[(*out)[k - 1]].name, spec->outputs[i].name) > 0; k--)
      (*out)[k] = (*out)[k - 1];
    (*out)[k] = i;
  }
  return OD_OK;
}

/* signature_def entry: key, SignatureDef { inputs 1, outputs 2, method_name 3 }. */
static od_status put_signature(od_str *s, const od_export_spec *spec) {
  int *order;
  OD_TRY(sorted_outputs(&order, spec));
  size_t entry = od_wire_begin(s, 5);
  od_wire_put_text(s, 1, "serving_default");
  size_t signature = od_wire_begin(s, 2);
  put_port(s, 1, spec->input_key ? spec->input_key : "inputs", od_export_input_name((int)spec->input), od_export_input_type(spec));
  for (int i = 0; i < spec->n_outputs; i++) {
    const od_export_output *o = &spec->outputs[order[i]];
    put_port(s, 2, o->name, o->name, od_type_of(o->value));
  }
  od_wire_put_text(s, 3, "tensorflow/serving/predict");
  od_wire_end(s, signature);
  od_wire_end(s, entry);
  od_free(order);
  return od_str_check(s);
}

/* SavedModel { schema_version 1, meta_graphs 2 { meta_info 1 { tags 4 }, graph_def 2, signature_def 5 } }. The graph is written
 * from where its weights lie, so the sizes around it are computed first. */
static od_status write_saved_model(const char *path, const od_export_spec *spec, const od_tf *t) {
  od_str head = OD_STR_INIT, tail = OD_STR_INIT, info = OD_STR_INIT;
  od_file *f = NULL;
  size_t graph;
  od_status st;
  size_t meta_info = od_wire_begin(&info, 1);
  od_wire_put_text(&info, 4, "serve");
  od_wire_end(&info, meta_info);
  OD_GO(st, od_str_check(&info));
  OD_GO(st, put_signature(&tail, spec));
  OD_GO(st, od_tf_size(&graph, t));
  size_t meta = info.len + 1 + od_wire_varint_size(graph) + graph + tail.len;
  od_wire_put_varint(&head, 1, 1);
  od_wire_raw_varint(&head, 2 << 3 | OD_WIRE_BYTES);
  od_wire_raw_varint(&head, meta);
  od_str_add_bytes(&head, info.data, info.len);
  od_wire_raw_varint(&head, 2 << 3 | OD_WIRE_BYTES);
  od_wire_raw_varint(&head, graph);
  OD_GO(st, od_str_check(&head));
  OD_GO(st, od_file_replace(&f, path));
  OD_GO(st, od_file_write(f, head.data, head.len));
  OD_GO(st, od_tf_write(t, f));
  OD_GO(st, od_file_write(f, tail.data, tail.len));
  st = od_file_close(f);
  f = NULL;
done:
  od_file_drop(f);
  od_str_free(&head);
  od_str_free(&tail);
  od_str_free(&info);
  return st;
}

/* "<folder>/<name>" in a text that the caller frees. */
static od_status join(od_str *out, const char *folder, const char *name) {
  od_str_clear(out);
  od_str_addf(out, "%s/%s", folder, name);
  return od_str_check(out);
}

static od_status saved_model(const char *folder, const od_export_spec *spec, const od_tf *t) {
  od_str path = OD_STR_INIT;
  od_status st;
  OD_GO(st, join(&path, folder, "variables"));
  OD_GO(st, od_path_make_dirs(path.data));
  OD_GO(st, join(&path, folder, "saved_model.pb"));
  OD_GO(st, write_saved_model(path.data, spec, t));
done:
  od_str_free(&path);
  return st;
}

od_status od_export_saved_model(const char *folder, const od_export_spec *spec) {
  od_tf *t;
  OD_TRY(od_export_graphdef(&t, spec, true));
  od_status st = saved_model(folder, spec, t);
  od_tf_free(t);
  return st;
}

/* -------------------------------------------------------------------------------------------------------- checkpoint */
/* The model's variables, in creation order, and the step. No optimizer slots, no averages. */
static od_status write_checkpoint(const char *prefix, const od_export_spec *spec) {
  size_t n = 0, most = od_graph_variables(spec->graph) + 1;
  od_named_tensor *tensors = NULL;
  od_meta_variable *meta = NULL;
  od_str path = OD_STR_INIT;
  bool has_step = false;
  int64_t step = spec->global_step;
  od_status st;
  OD_GO(st, od_new(&tensors, most, sizeof *tensors));
  OD_GO(st, od_new(&meta, most, sizeof *meta));
  for (size_t i = 0; i < most - 1; i++) {
    const od_variable *v = od_graph_variable(spec->graph, i);
    bool is_step = strcmp(v->name, "global_step") == 0;
    if (!v->model && !is_step) continue;
    const od_tensor *value = od_state_tensor(spec->state, v->name);
    if (!value) OD_GO(st, od_fail(OD_EINVAL, "the state holds no variable %s", v->name));
    has_step |= is_step;
    tensors[n] = (od_named_tensor){v->name, *value};
    meta[n++] = (od_meta_variable){v->name, v->dtype, v->shape, v->trainable};
  }
  if (!has_step) {
    tensors[n] = (od_named_tensor){"global_step", {OD_I64, OD_SCALAR, &step}};
    meta[n++] = (od_meta_variable){"global_step", OD_I64, OD_SCALAR, false};
  }
  OD_GO(st, od_bundle_write(prefix, tensors, n));
  od_str_addf(&path, "%s.meta", prefix);
  OD_GO(st, od_str_check(&path));
  OD_GO(st, od_metagraph_write(path.data, meta, n));
done:
  od_free(tensors);
  od_free(meta);
  od_str_free(&path);
  return st;
}

static od_status write_state_file(const char *folder, const char *prefix) {
  char *name = (char *)(uintptr_t)prefix;
  od_checkpoint_state state = {.latest = name, .all = {.items = &name, .count = 1}};
  return od_checkpoint_state_write(folder, &state);
}

/* The graph with variables, as text: weights stay in the checkpoint, so it is small. */
od_status od_export_pack_graph(od_str *graph_def, const od_export_spec *spec) {
  od_tf *t = NULL;
  od_status st = od_export_graphdef(&t, spec, false);
  if (st == OD_OK) st = od_tf_pack(graph_def, t);
  od_tf_free(t);
  return st;
}

od_status od_export_text_graph(const char *path, const od_export_spec *spec) {
  od_str bytes = OD_STR_INIT;
  Tensorflow__GraphDef *graph = NULL;
  od_status st;
  OD_GO(st, od_export_pack_graph(&bytes, spec));
  OD_GO(st, od_proto_unpack(&graph, &tensorflow__graph_def__descriptor, bytes.data, bytes.len));
  OD_GO(st, od_textproto_save(path, graph));
done:
  od_proto_free(graph);
  od_str_free(&bytes);
  return st;
}

static od_status write_files(const char *folder, const od_export_spec *spec) {
  od_tf *t = NULL;
  od_str path = OD_STR_INIT;
  od_status st;
  OD_GO(st, od_export_graphdef(&t, spec, true));
  OD_GO(st, od_path_make_dirs(folder));
  OD_GO(st, join(&path, folder, "model.ckpt"));
  OD_GO(st, write_checkpoint(path.data, spec));
  OD_GO(st, write_state_file(folder, path.data));
  if (spec->pipeline_text) {
    OD_GO(st, join(&path, folder, "pipeline.config"));
    OD_GO(st, od_file_write_all(path.data, spec->pipeline_text, strlen(spec->pipeline_text)));
  }
  if (spec->inference_graph) {
    OD_GO(st, join(&path, folder, "inference_graph.pbtxt"));
    OD_GO(st, od_export_text_graph(path.data, spec));
  }
  OD_GO(st, join(&path, folder, "saved_model"));
  OD_GO(st, saved_model(path.data, spec, t));
  OD_GO(st, join(&path, folder, "frozen_inference_graph.pb"));
  OD_GO(st, write_graph(path.data, t));
done:
  od_tf_free(t);
  od_str_free(&path);
  return st;
}

/* ---------------------------------------------------------------------------------------------------------- publishing */
/* Removes a folder with everything in it; what cannot be removed stays. */
static void remove_tree(const char *folder) {
  od_strings names = {0};
  od_str path = OD_STR_INIT;
  if (od_path_list(&names, folder) == OD_OK)
    for (size_t i = 0; i < names.count; i++) {
      if (join(&path, folder, names.items[i]) != OD_OK) break;
      if (od_path_is_dir(path.data))
        remove_tree(path.data);
      else
        (void)!od_path_remove(path.data);
    }
  (void)!rmdir(folder);
  od_strings_free(&names);
  od_str_free(&path);
}

/* Moves the files of one folder into another, made when missing. */
static od_status move_into(const char *folder, const char *stage) {
  od_strings names = {0};
  od_str from = OD_STR_INIT, to = OD_STR_INIT;
  od_status st;
  OD_GO(st, od_path_make_dirs(folder));
  OD_GO(st, od_path_list(&names, stage));
  for (size_t i = 0; i < names.count; i++) {
    OD_GO(st, join(&from, stage, names.items[i]));
    OD_GO(st, join(&to, folder, names.items[i]));
    if (od_path_is_dir(from.data))
      OD_GO(st, move_into(to.data, from.data));
    else
      OD_GO(st, od_path_rename(from.data, to.data));
  }
done:
  od_strings_free(&names);
  od_str_free(&from);
  od_str_free(&to);
  return st;
}

od_status od_export_write(const char *output_directory, const od_export_spec *spec, od_export_judge judge, void *ctx) {
  od_str stage = OD_STR_INIT, graph = OD_STR_INIT;
  char *folder = NULL;
  od_status st;
  bool staged = false;
  OD_GO(st, od_path_clean(&folder, output_directory));
  for (size_t n = strlen(folder); n > 1 && folder[n - 1] == '/'; n--) folder[n - 1] = 0;
  OD_GO(st, od_path_check_local(folder));
  if (od_path_is_file(folder)) OD_GO(st, od_fail(OD_EINVAL, "%s is a file, a directory is needed", folder));
  od_str_addf(&stage, "%s.part-%ld", folder, (long)getpid());
  OD_GO(st, od_str_check(&stage));
  staged = true;
  OD_GO(st, write_files(stage.data, spec));
  OD_GO(st, join(&graph, stage.data, "frozen_inference_graph.pb"));
  if (judge) OD_GO(st, judge(ctx, graph.data));
  st = od_path_exists(folder) ? move_into(folder, stage.data) : od_path_rename(stage.data, folder);
done:
  if (staged && od_path_is_dir(stage.data)) remove_tree(stage.data);
  od_free(folder);
  od_str_free(&stage);
  od_str_free(&graph);
  return st;
}
