/* Writing MetaGraphDefs, see metagraph.h.
 *
 * What tf.train.Saver puts into a graph (write version 2): PlaceholderWithDefault for the file name, SaveV2 of all variables and
 * an Identity behind it that the saver fetches, RestoreV2 with one Assign a variable, and a NoOp that waits for them. Field
 * numbers: TensorFlow's meta_graph.proto, graph.proto, node_def.proto, attr_value.proto, tensor.proto, variable.proto,
 * saver.proto. Attributes are written in the order of their keys. */
#include "io/metagraph.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "io/bundle_slice.h"
#include "io/file.h"
#include "io/wire.h"

enum { PRODUCER = 134 }; /* graph version of TensorFlow 1.15: read by it and by everything since */

/* ------------------------------------------------------------------------------------------------------------ nodes */
static size_t begin_node(od_str *s, const char *name, const char *op) {
  size_t node = od_wire_begin(s, 1);
  od_wire_put_text(s, 1, name);
  od_wire_put_text(s, 2, op);
  return node;
}

static void input(od_str *s, const char *name) { od_wire_put_text(s, 3, name); }

typedef struct {
  size_t pair, value;
} attr;

static attr begin_attr(od_str *s, const char *key) {
  attr a = {.pair = od_wire_begin(s, 5)};
  od_wire_put_text(s, 1, key);
  a.value = od_wire_begin(s, 2);
  return a;
}

static void end_attr(od_str *s, attr a) {
  od_wire_end(s, a.value);
  od_wire_end(s, a.pair);
}

static void attr_type(od_str *s, const char *key, od_dtype dtype) {
  attr a = begin_attr(s, key);
  od_wire_put_varint(s, 6, (uint64_t)od_dtype_tf(dtype));
  end_attr(s, a);
}

static void attr_bool(od_str *s, const char *key, bool v) {
  attr a = begin_attr(s, key);
  od_wire_put_varint(s, 5, v);
  end_attr(s, a);
}

static void attr_text(od_str *s, const char *key, const char *v) {
  attr a = begin_attr(s, key);
  od_wire_put_text(s, 2, v);
  end_attr(s, a);
}

static void attr_shape(od_str *s, const char *key, const od_shape *shape) {
  attr a = begin_attr(s, key);
  size_t m = od_wire_begin(s, 7);
  od_shape_put(s, shape);
  od_wire_end(s, m);
  end_attr(s, a);
}

/* _class: the node lives where that one does. */
static void attr_class(od_str *s, const char *node) {
  attr a = begin_attr(s, "_class");
  size_t list = od_wire_begin(s, 1), text = od_wire_begin(s, 2);
  od_str_addf(s, "loc:@%s", node);
  od_wire_end(s, text);
  od_wire_end(s, list);
  end_attr(s, a);
}

static void attr_types(od_str *s, const char *key, const od_meta_variable *const *vars, size_t n) {
  attr a = begin_attr(s, key);
  size_t list = od_wire_begin(s, 1);
  if (n > 0) {
    size_t packed = od_wire_begin(s, 6);
    for (size_t i = 0; i < n; i++) od_wire_raw_varint(s, (uint64_t)od_dtype_tf(vars[i]->dtype));
    od_wire_end(s, packed);
  }
  od_wire_end(s, list);
  end_attr(s, a);
}

/* Begins the tensor of a Const's `value`; its values follow. */
static attr begin_tensor(od_str *s, size_t *tensor, od_dtype dtype, const od_shape *shape) {
  attr a = begin_attr(s, "value");
  *tensor = od_wire_begin(s, 8);
  od_wire_put_varint(s, 1, (uint64_t)od_dtype_tf(dtype));
  size_t m = od_wire_begin(s, 2);
  od_shape_put(s, shape);
  od_wire_end(s, m);
  return a;
}

/* A Const of n texts, text(i) of which is got from vars when given, else empty. */
static void put_names(od_str *s, const char *name, const od_meta_variable *const *vars, size_t n) {
  od_shape shape = OD_SHAPE((int64_t)n);
  size_t node = begin_node(s, name, "Const"), tensor;
  attr_type(s, "dtype", OD_STRING);
  attr a = begin_tensor(s, &tensor, OD_STRING, &shape);
  for (size_t i = 0; i < n; i++) od_wire_put_text(s, 8, vars ? vars[i]->name : "");
  od_wire_end(s, tensor);
  end_attr(s, a);
  od_wire_end(s, node);
}

/* One zero stands for all elements: that is how TensorFlow reads a TensorProto with too few values. */
static void put_zero(od_str *s, od_dtype dtype) {
  switch (dtype) {
  case OD_F32: od_wire_put_float(s, 5, 0); break;
  case OD_F64: od_wire_put_double(s, 6, 0); break;
  case OD_STRING: od_wire_put_text(s, 8, ""); break;
  case OD_I64: od_wire_put_varint(s, 10, 0); break;
  case OD_BOOL: od_wire_put_varint(s, 11, 0); break;
  case OD_BF16:
  case OD_F16: od_wire_put_varint(s, 13, 0); break;
  default: od_wire_put_varint(s, 7, 0); break;
  }
}

static void put_assign(od_str *s, const char *name, const od_meta_variable *v, const char *value) {
  size_t node = begin_node(s, name, "Assign");
  input(s, v->name);
  input(s, value);
  attr_type(s, "T", v->dtype);
  attr_class(s, v->name);
  attr_bool(s, "use_locking", true);
  attr_bool(s, "validate_shape", true);
  od_wire_end(s, node);
}

/* name plus an ending, in a buffer that is used again. */
static const char *with(od_str *buffer, const char *name, const char *end) {
  od_str_clear(buffer);
  od_str_addf(buffer, "%s%s", name, end);
  return od_str_text(buffer);
}

/* Initial value (zeros), the variable, its Assign and its read, as tf.get_variable makes them. */
static void put_variable(od_str *s, od_str *b, const od_meta_variable *v) {
  size_t tensor, node = begin_node(s, with(b, v->name, "/Initializer/zeros"), "Const");
  attr_class(s, v->name);
  attr_type(s, "dtype", v->dtype);
  attr a = begin_tensor(s, &tensor, v->dtype, &v->shape);
  put_zero(s, v->dtype);
  od_wire_end(s, tensor);
  end_attr(s, a);
  od_wire_end(s, node);

  node = begin_node(s, v->name, "VariableV2");
  attr_class(s, v->name);
  attr_text(s, "container", "");
  attr_type(s, "dtype", v->dtype);
  attr_shape(s, "shape", &v->shape);
  attr_text(s, "shared_name", "");
  od_wire_end(s, node);

  od_str initial = OD_STR_INIT;
  put_assign(s, with(b, v->name, "/Assign"), v, with(&initial, v->name, "/Initializer/zeros"));
  if (initial.failed) s->failed = true;
  od_str_free(&initial);

  node = begin_node(s, with(b, v->name, "/read"), "Identity");
  input(s, v->name);
  attr_type(s, "T", v->dtype);
  attr_class(s, v->name);
  od_wire_end(s, node);
}

/* ------------------------------------------------------------------------------------------------------------ the saver */
static void put_filename(od_str *s) {
  size_t tensor, node = begin_node(s, "save/filename/input", "Const");
  attr_type(s, "dtype", OD_STRING);
  attr a = begin_tensor(s, &tensor, OD_STRING, &OD_SCALAR);
  od_wire_put_text(s, 8, "model");
  od_wire_end(s, tensor);
  end_attr(s, a);
  od_wire_end(s, node);
  static const char *const names[] = {"save/filename/input", "save/filename", "save/Const"};
  for (int i = 1; i < 3; i++) {
    node = begin_node(s, names[i], "PlaceholderWithDefault");
    input(s, names[i - 1]);
    attr_type(s, "dtype", OD_STRING);
    attr_shape(s, "shape", &OD_SCALAR);
    od_wire_end(s, node);
  }
}

static void put_saver_nodes(od_str *s, od_str *b, const od_meta_variable *const *sorted, size_t n) {
  put_filename(s);
  put_names(s, "save/SaveV2/tensor_names", sorted, n);
  put_names(s, "save/SaveV2/shape_and_slices", NULL, n);
  size_t node = begin_node(s, "save/SaveV2", "SaveV2");
  input(s, "save/Const");
  input(s, "save/SaveV2/tensor_names");
  input(s, "save/SaveV2/shape_and_slices");
  for (size_t i = 0; i < n; i++) input(s, sorted[i]->name);
  attr_types(s, "dtypes", sorted, n);
  od_wire_end(s, node);

  node = begin_node(s, "save/control_dependency", "Identity");
  input(s, "save/Const");
  input(s, "^save/SaveV2");
  attr_type(s, "T", OD_STRING);
  attr_class(s, "save/Const");
  od_wire_end(s, node);

  put_names(s, "save/RestoreV2/tensor_names", sorted, n);
  put_names(s, "save/RestoreV2/shape_and_slices", NULL, n);
  node = begin_node(s, "save/RestoreV2", "RestoreV2");
  input(s, "save/Const");
  input(s, "save/RestoreV2/tensor_names");
  input(s, "save/RestoreV2/shape_and_slices");
  attr_types(s, "dtypes", sorted, n);
  od_wire_end(s, node);

  od_str value = OD_STR_INIT;
  for (size_t i = 0; i < n; i++) {
    od_str_clear(b);
    od_str_clear(&value);
    od_str_addf(b, i ? "save/Assign_%zu" : "save/Assign", i);
    od_str_addf(&value, i ? "save/RestoreV2:%zu" : "save/RestoreV2", i);
    put_assign(s, od_str_text(b), sorted[i], od_str_text(&value));
  }
  if (value.failed) s->failed = true;
  od_str_free(&value);
  node = begin_node(s, "save/restore_all", "NoOp");
  for (size_t i = 0; i < n; i++) {
    od_str_clear(b);
    od_str_addf(b, i ? "^save/Assign_%zu" : "^save/Assign", i);
    input(s, od_str_text(b));
  }
  od_wire_end(s, node);
}

static void put_saver_def(od_str *s) {
  size_t saver = od_wire_begin(s, 3);
  od_wire_put_text(s, 1, "save/Const:0");
  od_wire_put_text(s, 2, "save/control_dependency:0");
  od_wire_put_text(s, 3, "save/restore_all");
  od_wire_put_varint(s, 4, 5);    /* max_to_keep, the original's default */
  od_wire_put_float(s, 6, 10000); /* keep_checkpoint_every_n_hours: likewise */
  od_wire_put_varint(s, 7, 2);    /* V2 */
  od_wire_end(s, saver);
}

/* ------------------------------------------------------------------------------------------------------------ collections */
static bool is_global_step(const od_meta_variable *v) { return strcmp(v->name, "global_step") == 0; }

static void put_variable_def(od_str *s, od_str *b, const od_meta_variable *v) {
  size_t def = od_wire_begin(s, 1);
  od_wire_put_text(s, 1, with(b, v->name, ":0"));
  od_wire_put_text(s, 2, with(b, v->name, "/Assign"));
  od_wire_put_text(s, 3, with(b, v->name, "/read:0"));
  od_wire_put_text(s, 6, with(b, v->name, "/Initializer/zeros:0"));
  if (v->trainable) od_wire_put_varint(s, 7, 1);
  if (is_global_step(v)) od_wire_put_varint(s, 9, 3); /* ONLY_FIRST_REPLICA */
  od_wire_end(s, def);
}

static bool every(const od_meta_variable *v) { return v != NULL; }
static bool trainable(const od_meta_variable *v) { return v->trainable; }

static void put_collection(od_str *s, od_str *b, const char *key, const od_meta_variable *vars, size_t n,
                           bool (*takes)(const od_meta_variable *)) {
  bool any = false;
  for (size_t i = 0; i < n; i++) any = any || takes(&vars[i]);
  if (!any) return;
  size_t pair = od_wire_begin(s, 4);
  od_wire_put_text(s, 1, key);
  size_t collection = od_wire_begin(s, 2), list = od_wire_begin(s, 2);
  for (size_t i = 0; i < n; i++)
    if (takes(&vars[i])) put_variable_def(s, b, &vars[i]);
  od_wire_end(s, list);
  od_wire_end(s, collection);
  od_wire_end(s, pair);
}

/* ------------------------------------------------------------------------------------------------------------ the whole */
/* TensorFlow's rule for names of nodes: [A-Za-z0-9.][A-Za-z0-9_.\\/>-]*. */
static bool name_is_fine(const char *name) {
  if (!isalnum((unsigned char)*name) && *name != '.') return false;
  for (const char *p = name; *p; p++)
    if (!isalnum((unsigned char)*p) && !strchr("_.\\/>-", *p)) return false;
  return true;
}

static od_status check(const od_meta_variable *vars, size_t n) {
  od_map *seen;
  OD_TRY(od_map_new(&seen));
  od_status st = OD_OK;
  for (size_t i = 0; i < n && !st; i++) {
    const char *name = vars[i].name;
    if (!name_is_fine(name))
      st = od_fail(OD_EINVAL, "variable '%s': TensorFlow does not take this name for a node", name);
    else if (od_map_has(seen, name))
      st = od_fail(OD_EINVAL, "variable '%s' is there twice", name);
    else if (!od_shape_known(&vars[i].shape))
      st = od_fail(OD_EINVAL, "variable '%s' has an unknown dimension", name);
    else
      st = od_map_set(seen, name, (void *)(uintptr_t)&vars[i]);
  }
  od_map_free(seen);
  return st;
}

static int by_name(const void *a, const void *b) {
  return strcmp((*(const od_meta_variable *const *)a)->name, (*(const od_meta_variable *const *)b)->name);
}

od_status od_metagraph_put(od_str *out, const od_meta_variable *vars, size_t n) {
  const od_meta_variable **sorted;
  od_str b = OD_STR_INIT;
  OD_TRY(check(vars, n));
  OD_TRY(od_new(&sorted, n, sizeof *sorted));
  for (size_t i = 0; i < n; i++) sorted[i] = &vars[i];
  if (n > 1) qsort(sorted, n, sizeof *sorted, by_name);
  size_t graph = od_wire_begin(out, 2);
  for (size_t i = 0; i < n; i++) put_variable(out, &b, &vars[i]);
  put_saver_nodes(out, &b, sorted, n);
  size_t versions = od_wire_begin(out, 4);
  od_wire_put_varint(out, 1, PRODUCER);
  od_wire_end(out, versions);
  od_wire_end(out, graph);
  put_saver_def(out);
  put_collection(out, &b, "global_step", vars, n, is_global_step);
  put_collection(out, &b, "trainable_variables", vars, n, trainable);
  put_collection(out, &b, "variables", vars, n, every);
  od_status st = od_str_check(&b);
  od_str_free(&b);
  od_free(sorted);
  return st ? st : od_str_check(out);
}

od_status od_metagraph_write(const char *path, const od_meta_variable *vars, size_t n) {
  od_str s = OD_STR_INIT;
  od_status st = od_metagraph_put(&s, vars, n);
  if (!st) st = od_file_write_all(path, s.data, s.len);
  od_str_free(&s);
  return st;
}
