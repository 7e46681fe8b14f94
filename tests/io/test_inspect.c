/* `inspect` recognises every kind of file by its content and says the same as its readers; damage gives an error. */
#include "io_test.h"

#include <jansson.h>

#include "io/inspect.h"
#include "io/metagraph.h"
#include "io/record.h"
#include "io/wire.h"

/* The parsed JSON of a file; its kind must be this. */
static json_t *look(const char *path, const char *kind) {
  od_str s = OD_STR_INIT;
  json_error_t e;
  CHECK_OK(od_inspect(&s, path, true));
  json_t *j = json_loads(od_str_text(&s), 0, &e);
  if (!j) fail_msg("%s: %s at %d:%d of\n%.2000s", path, e.text, e.line, e.column, od_str_text(&s));
  CHECK_TEXT(json_string_value(json_object_get(j, "kind")), kind);
  od_str_free(&s);
  CHECK_OK(od_inspect(&s, path, false)); /* the text form: same kind, one line a row */
  char want[64];
  snprintf(want, sizeof want, "\nkind: %s\n", kind);
  CHECK(strstr(od_str_text(&s), want));
  od_str_free(&s);
  return j;
}

static long long number(const json_t *j, const char *key) {
  const json_t *v = json_object_get(j, key);
  CHECK(json_is_integer(v));
  return json_integer_value(v);
}

/* The row of a list whose first field is this. */
static const json_t *row(const json_t *j, const char *list, const char *key, const char *value) {
  size_t i;
  json_t *r;
  json_array_foreach(json_object_get(j, list), i, r) {
    if (strcmp(json_string_value(json_object_get(r, key)), value) == 0) return r;
  }
  fail_msg("no %s '%s' in %s", key, value, list);
  return NULL;
}

static void records_are_described(void **state) {
  (void)state;
  NEED_SHARED(path, "data/tf_models_testdata/research/object_detection/test_data/pets_examples.record");
  json_t *j = look(path, "records");
  CHECK(number(j, "records") == 10);
  const json_t *f = row(j, "features", "key", "image/object/bbox/xmin");
  CHECK_TEXT(json_string_value(json_object_get(f, "type")), "float");
  CHECK(number(f, "records") == 10 && number(f, "least") == 1);
  f = row(j, "features", "key", "image/encoded");
  CHECK_TEXT(json_string_value(json_object_get(f, "type")), "bytes");
  json_decref(j);
}

static void events_are_described(void **state) {
  (void)state;
  json_t *j = look("tests/golden/io/events.golden", "events");
  CHECK(number(j, "events") == 5 && number(j, "graphs") == 1 && number(j, "session_logs") == 2);
  const json_t *t = row(j, "tags", "tag", "Losses/TotalLoss");
  CHECK_TEXT(json_string_value(json_object_get(t, "type")), "scalar");
  CHECK(number(t, "first_step") == 101 && json_real_value(json_object_get(t, "last")) == 3.25);
  CHECK_TEXT(json_string_value(json_object_get(row(j, "tags", "tag", "image-0"), "type")), "image");
  json_decref(j);
}

static void expect_shape(const json_t *r, const char *text) {
  char *s = json_dumps(json_object_get(r, "shape"), JSON_ENCODE_ANY | JSON_COMPACT);
  CHECK_TEXT(s, text);
  free(s);
}

static void checkpoints_are_described(void **state) {
  (void)state;
  static const char *const forms[] = {"plain.ckpt", "plain.ckpt.index", "plain.ckpt.data-00000-of-00001"};
  for (int i = 0; i < 3; i++) {
    char path[100];
    snprintf(path, sizeof path, "tests/golden/io/%s", forms[i]);
    json_t *j = look(path, "checkpoint");
    CHECK(number(j, "tensor_count") == 54 && number(j, "version") == 2);
    expect_shape(row(j, "tensors", "name", "shape/deep"), "[2,1,3,1,2]");
    expect_shape(row(j, "tensors", "name", "global_step"), "[]");
    json_decref(j);
  }
  json_t *j = look("tests/golden/io/v1.ckpt", "checkpoint");
  CHECK(number(j, "version") == 1);
  json_decref(j);
  NEED_SHARED(folder, "data/raccoon_original/train");
  j = look(folder, "checkpoint");
  CHECK_TEXT(json_string_value(json_object_get(row(j, "tensors", "name", "global_step"), "dtype")), "int64");
  json_decref(j);
  NEED_SHARED(file, "data/raccoon_original/train/checkpoint");
  j = look(file, "checkpoint_state");
  CHECK(strstr(json_string_value(json_object_get(j, "latest")), "model.ckpt-1500"));
  json_decref(j);
}

static void graphs_are_described(void **state) {
  (void)state;
  NEED_SHARED(frozen, "data/mobilenet_v1_025_128/frozen_graph.pb");
  json_t *j = look(frozen, "graph");
  CHECK(number(j, "nodes") > 100 && json_array_size(json_object_get(j, "inputs")) == 1);
  CHECK(json_array_size(json_object_get(j, "outputs")) == 1);
  expect_shape(row(j, "constants", "name", "MobilenetV1/Conv2d_0/weights"), "[3,3,3,8]");
  json_decref(j);
  NEED_SHARED(export, "data/raccoon_original/export/frozen_inference_graph.pb");
  j = look(export, "graph");
  const json_t *in = row(j, "inputs", "name", "image_tensor");
  CHECK_TEXT(json_string_value(json_object_get(in, "dtype")), "uint8");
  expect_shape(in, "[-1,-1,-1,3]");
  (void)row(j, "outputs", "name", "detection_boxes");
  CHECK(number(row(j, "ops", "op", "NonMaxSuppressionV5"), "count") >= 1);
  json_decref(j);
  NEED_SHARED(saved, "data/raccoon_original/export/saved_model");
  j = look(saved, "saved_model");
  CHECK(number(j, "meta_graphs") == 1);
  (void)row(j, "tags", "tag", "serve");
  const json_t *boxes = row(j, "signatures", "key", "detection_boxes");
  CHECK_TEXT(json_string_value(json_object_get(boxes, "tensor")), "detection_boxes:0");
  CHECK_TEXT(json_string_value(json_object_get(boxes, "dtype")), "float32");
  json_decref(j);
  NEED_SHARED(meta, "data/raccoon_original/export/model.ckpt.meta");
  j = look(meta, "meta_graph");
  CHECK(number(j, "nodes") > 1000);
  json_decref(j);
}

static void our_metagraph_is_described(void **state) {
  (void)state;
  const od_meta_variable vars[] = {{"w", OD_F32, OD_SHAPE(3, 4), true}, {"global_step", OD_I64, OD_SCALAR, false}};
  CHECK_OK(od_metagraph_write(in_scratch("m.meta"), vars, 2));
  json_t *j = look(in_scratch("m.meta"), "meta_graph");
  expect_shape(row(j, "variables", "name", "w"), "[3,4]");
  CHECK(number(row(j, "collections", "collection", "trainable_variables"), "values") == 1);
  CHECK(json_array_size(json_object_get(j, "outputs")) == 3); /* w/read, global_step/read, the saver's fetch */
  json_decref(j);
}

static void texts_are_described(void **state) {
  (void)state;
  json_t *j = look("data/pet_label_map.pbtxt", "label_map");
  CHECK(number(j, "classes") == 37 && number(row(j, "items", "name", "chihuahua"), "id") == 11);
  json_decref(j);
  j = look("samples/configs/ssd_mobilenet_v1_pets.config", "pipeline_config");
  CHECK_TEXT(json_string_value(json_object_get(j, "model")), "ssd");
  CHECK(number(j, "batch_size") == 24 && json_array_size(json_object_get(j, "inputs")) == 2);
  json_decref(j);
}

static void keys_of_any_bytes_are_printed_safely(void **state) {
  (void)state;
  od_str s = OD_STR_INIT, rec = OD_STR_INIT;
  size_t features = od_wire_begin(&s, 1), pair = od_wire_begin(&s, 1);
  od_wire_put_bytes(&s, 1, "a\"\\\x1b[31m\xff\xc3\xa9\n", 12);
  od_wire_put_bytes(&s, 2, "", 0);
  od_wire_end(&s, pair);
  od_wire_end(&s, features);
  od_record_frame(&rec, s.data, s.len);
  CHECK_OK(od_file_write_all(in_scratch("odd"), rec.data, rec.len));
  json_t *j = look(in_scratch("odd"), "records");
  (void)row(j, "features", "key", "a\"\\\x1b[31m\xef\xbf\xbd\xc3\xa9\n");
  json_decref(j);
  od_str_free(&rec);
  od_str_clear(&s);
  CHECK_OK(od_inspect(&s, in_scratch("odd"), false));
  CHECK(!strchr(od_str_text(&s), 27));
  od_str_free(&s);
}

static void what_is_nothing_is_refused(void **state) {
  (void)state;
  static const struct {
    const char *content, *says;
  } cases[] = {
      {"\xff\xd8\xff\xe0 jpeg", "is a JPEG picture"},
      {"\x89PNG\r\n\x1a\n", "is a PNG picture"},
      {"hello world", "neither a label map"},
      {"", "is empty"},
      {"version https://git-lfs.github.com/spec/v1\nsize 5\n", "git lfs pull"},
      {"\x01\x02\x03\x04\x05", "is none of"},
      {"item { id: 1 nmae: 'x' }", "nmae"},
  };
  od_str s = OD_STR_INIT;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    CHECK_OK(od_file_write_all(in_scratch("odd"), cases[i].content, strlen(cases[i].content)));
    od_status st = od_inspect(&s, in_scratch("odd"), false);
    if (!st || !strstr(od_message(), cases[i].says)) fail_msg("case %zu: %s", i, od_message());
  }
  CHECK_FAILS(od_inspect(&s, in_scratch("absent"), false), OD_ENOENT, "nor a checkpoint");
  CHECK_FAILS(od_inspect(&s, "gs://a/b", false), OD_EUNSUPPORTED, "gs://");
  od_str_free(&s);
}

/* Cut graphs and flipped bits: an error or another description, never a crash (the sanitizers watch). */
static void damaged_graphs_do_no_harm(void **state) {
  (void)state;
  const od_meta_variable vars[] = {{"w", OD_F32, OD_SHAPE(3, 4), true}};
  od_str s = OD_STR_INIT;
  char *data;
  size_t n;
  CHECK_OK(od_metagraph_write(in_scratch("m.meta"), vars, 1));
  CHECK_OK(od_file_read_all(&data, &n, in_scratch("m.meta"), 0));
  for (size_t cut = 1; cut < n; cut += 3) {
    put_quickly(in_scratch("cut"), data, cut);
    od_str_clear(&s);
    (void)!od_inspect(&s, in_scratch("cut"), true);
  }
  for (size_t bit = 0; bit < n * 8; bit += 5) {
    data[bit / 8] = (char)(data[bit / 8] ^ (1 << bit % 8));
    put_quickly(in_scratch("cut"), data, n);
    od_str_clear(&s);
    (void)!od_inspect(&s, in_scratch("cut"), bit % 2);
    data[bit / 8] = (char)(data[bit / 8] ^ (1 << bit % 8));
  }
  od_free(data);
  od_str_free(&s);
}

static void memory_may_run_out_anywhere(void **state) {
  (void)state;
  static const char *const files[] = {"tests/golden/io/events.golden", "tests/golden/io/plain.ckpt",
                                      "tests/golden/io/sliced.ckpt",   "tests/golden/io/v1.ckpt",
                                      "data/kitti_label_map.pbtxt",    NULL};
  const od_meta_variable vars[] = {{"w", OD_F32, OD_SHAPE(3, 4), true}};
  CHECK_OK(od_metagraph_write(in_scratch("m.meta"), vars, 1));
  od_str s = OD_STR_INIT;
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    for (uint64_t at = 1;; at++) {
      od_mem_fail_at(at);
      od_status st = od_inspect(&s, files[i] ? files[i] : in_scratch("m.meta"), at % 2);
      od_mem_fail_at(0);
      od_str_free(&s);
      if (!st) break;
      if (st != OD_ENOMEM || at > 3000) fail_msg("%zu, allocation %d: %s", i, (int)at, od_message());
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(records_are_described),
      cmocka_unit_test(events_are_described),
      cmocka_unit_test(checkpoints_are_described),
      cmocka_unit_test(graphs_are_described),
      cmocka_unit_test(our_metagraph_is_described),
      cmocka_unit_test(texts_are_described),
      cmocka_unit_test(keys_of_any_bytes_are_printed_safely),
      cmocka_unit_test(what_is_nothing_is_refused),
      cmocka_unit_test(damaged_graphs_do_no_harm),
      cmocka_unit_test(memory_may_run_out_anywhere),
  };
  return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
