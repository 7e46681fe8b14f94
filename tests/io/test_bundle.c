/* Checkpoints: files that TensorFlow wrote (tests/golden/io, made by tests/witness/make_io_golden.py) are read to the bit and
 * written to the byte; damage of every kind is found. */
#include "io_test.h"

#include <math.h>

#include "io/bundle.h"
#include "io/bundle_slice.h"
#include "io/checkpoint_state.h"
#include "io/table.h"

#define GOLDEN "tests/golden/io/"

/* Value i of the formula in make_io_golden.py. */
static double ramp(od_dtype d, int64_t i) {
  if (d == OD_BOOL) return i % 3 == 0;
  if (d == OD_F32 || d == OD_F64 || d == OD_BF16 || d == OD_F16) return (double)(i % 100) * 0.25 - 1;
  return (double)(i % 100);
}

/* bits of a half float; the values of ramp are exact in it. */
static uint16_t half_bits(double x) {
  if (x == 0) return 0;
  int e;
  double m = frexp(fabs(x), &e);
  unsigned sign = x < 0 ? 0x8000u : 0u, frac = (unsigned)((m * 2 - 1) * 1024);
  return (uint16_t)(sign | (unsigned)(e + 14) << 10 | frac);
}

static void set_value(od_tensor *t, int64_t i, double v) {
  switch (t->dtype) {
  case OD_F32: ((float *)t->data)[i] = (float)v; break;
  case OD_F64: ((double *)t->data)[i] = v; break;
  case OD_BF16: ((uint16_t *)t->data)[i] = od_f32_to_bf16((float)v); break;
  case OD_F16: ((uint16_t *)t->data)[i] = half_bits(v); break;
  case OD_I32: ((int32_t *)t->data)[i] = (int32_t)v; break;
  case OD_I64: ((int64_t *)t->data)[i] = (int64_t)v; break;
  default: ((uint8_t *)t->data)[i] = (uint8_t)(int8_t)v; break;
  }
}

static od_tensor ramp_tensor(od_dtype dtype, od_shape shape, double add) {
  od_tensor t;
  CHECK_OK(od_tensor_new(&t, dtype, &shape));
  for (int64_t i = 0; i < od_tensor_size(&t); i++) set_value(&t, i, ramp(dtype, i) + add);
  return t;
}

static void expect_tensor(od_bundle *b, const char *name, od_tensor want) {
  od_tensor got;
  CHECK_OK(od_bundle_read(&got, b, name));
  CHECK(got.dtype == want.dtype && od_shape_equal(&got.shape, &want.shape));
  CHECK(memcmp(got.data, want.data, od_tensor_bytes(&want)) == 0);
  memset(got.data, 77, od_tensor_bytes(&got));
  CHECK_OK(od_bundle_read_into(&got, b, name));
  CHECK(memcmp(got.data, want.data, od_tensor_bytes(&want)) == 0);
  od_tensor_free(&got);
  od_tensor_free(&want);
}

enum { PLAIN_TENSORS = 54 };

/* The tensors of plain.ckpt, out of order. */
static void plain_tensors(od_named_tensor list[PLAIN_TENSORS], char names[PLAIN_TENSORS][64]) {
  static const od_dtype dtypes[] = {OD_F32, OD_BF16, OD_U8, OD_I32, OD_I64, OD_BOOL, OD_F64, OD_I8, OD_F16};
  int n = 0;
  for (int i = 39; i >= 0; i--, n++) {
    snprintf(names[n], 64, "FeatureExtractor/layer_%03d/weights", i);
    list[n].tensor = ramp_tensor(OD_F32, OD_SHAPE(2, i + 1), 0);
  }
  for (int i = 0; i < 9; i++, n++) {
    snprintf(names[n], 64, "dtypes/%s", od_dtype_name(dtypes[i]));
    list[n].tensor = ramp_tensor(dtypes[i], OD_SHAPE(3, 5), 0);
  }
  snprintf(names[n], 64, "empty");
  list[n++].tensor = ramp_tensor(OD_F32, OD_SHAPE(0, 3), 0);
  snprintf(names[n], 64, "shape/one");
  list[n++].tensor = ramp_tensor(OD_F32, OD_SHAPE(1), 0);
  snprintf(names[n], 64, "shape/deep");
  list[n++].tensor = ramp_tensor(OD_F32, OD_SHAPE(2, 1, 3, 1, 2), 0);
  snprintf(names[n], 64, "global_step");
  list[n].tensor = ramp_tensor(OD_I64, OD_SCALAR, 0);
  *(int64_t *)list[n++].tensor.data = 123456789012;
  snprintf(names[n], 64, "dtypes/string");
  od_tensor *s = &list[n++].tensor;
  char x[300];
  memset(x, 'x', sizeof x);
  CHECK_OK(od_tensor_new(s, OD_STRING, &OD_SHAPE(4)));
  CHECK_OK(od_tensor_set_bytes(s, 0, "", 0));
  CHECK_OK(od_tensor_set_bytes(s, 1, "raccoon", 7));
  CHECK_OK(od_tensor_set_bytes(s, 2, x, sizeof x));
  CHECK_OK(od_tensor_set_bytes(s, 3, "a\0b", 3));
  CHECK(n == PLAIN_TENSORS);
  for (int i = 0; i < n; i++) list[i].name = names[i];
}

static void what_tensorflow_writes_we_write_to_the_byte(void **state) {
  (void)state;
  od_named_tensor list[PLAIN_TENSORS];
  char names[PLAIN_TENSORS][64];
  plain_tensors(list, names);
  CHECK_OK(od_bundle_write(in_scratch("out/plain.ckpt"), list, PLAIN_TENSORS));
  expect_same_file(in_scratch("out/plain.ckpt.index"), GOLDEN "plain.ckpt.index");
  expect_same_file(in_scratch("out/plain.ckpt.data-00000-of-00001"), GOLDEN "plain.ckpt.data-00000-of-00001");
  for (int i = 0; i < PLAIN_TENSORS; i++) od_tensor_free(&list[i].tensor);
}

static void what_tensorflow_wrote_is_read(void **state) {
  (void)state;
  static const char *const forms[] = {"plain.ckpt", "plain.ckpt.index", "plain.ckpt.data-00000-of-00001",
                                      "plain.ckpt.meta"};
  od_named_tensor list[PLAIN_TENSORS];
  char names[PLAIN_TENSORS][64];
  plain_tensors(list, names);
  for (int f = 0; f < 4; f++) {
    od_bundle *b;
    char path[100];
    snprintf(path, sizeof path, GOLDEN "/%s", forms[f]);
    CHECK_OK(od_bundle_open(&b, path));
    CHECK(od_bundle_count(b) == PLAIN_TENSORS && !od_bundle_is_v1(b) && od_bundle_shards(b) == 1);
    CHECK_TEXT(od_bundle_prefix(b), GOLDEN "plain.ckpt");
    for (size_t i = 1; i < od_bundle_count(b); i++)
      CHECK(strcmp(od_bundle_entry_at(b, i - 1)->name, od_bundle_entry_at(b, i)->name) < 0);
    for (int i = 0; i < PLAIN_TENSORS; i++) {
      if (list[i].tensor.dtype == OD_STRING) {
        od_tensor t;
        CHECK_OK(od_bundle_read(&t, b, names[i]));
        const od_bytes *got = t.data, *want = list[i].tensor.data;
        for (int k = 0; k < 4; k++)
          CHECK(got[k].size == want[k].size && memcmp(got[k].data, want[k].data, got[k].size) == 0);
        od_tensor_free(&t);
      } else {
        od_tensor copy;
        CHECK_OK(od_tensor_copy(&copy, &list[i].tensor));
        expect_tensor(b, names[i], copy);
      }
    }
    od_tensor t;
    CHECK_FAILS(od_bundle_read(&t, b, "shape/ome"), OD_ENOENT, "did you mean 'shape/one'");
    t = ramp_tensor(OD_F32, OD_SHAPE(5, 3), 0);
    CHECK_FAILS(od_bundle_read_into(&t, b, "dtypes/float32"), OD_EMISMATCH, "float32[3,5], float32[5,3] was expected");
    od_tensor_free(&t);
    od_bundle_free(b);
  }
  for (int i = 0; i < PLAIN_TENSORS; i++) od_tensor_free(&list[i].tensor);
}

static void shards_and_slices_are_joined(void **state) {
  (void)state;
  od_bundle *b;
  char name[32];
  CHECK_OK(od_bundle_open(&b, GOLDEN "sharded.ckpt"));
  CHECK(od_bundle_count(b) == 6 && od_bundle_shards(b) == 3);
  for (int i = 0; i < 3; i++) {
    snprintf(name, sizeof name, "s%d/a", i);
    expect_tensor(b, name, ramp_tensor(OD_F32, OD_SHAPE(4), i));
    snprintf(name, sizeof name, "s%d/b", i);
    expect_tensor(b, name, ramp_tensor(OD_I32, OD_SHAPE(2, 2), 0));
  }
  od_bundle_free(b);
  CHECK_OK(od_bundle_open(&b, GOLDEN "sliced.ckpt.index"));
  CHECK(od_bundle_count(b) == 3);
  CHECK(od_bundle_find(b, "rows")->slices == 2);
  expect_tensor(b, "rows", ramp_tensor(OD_F32, OD_SHAPE(7, 6), 0));
  expect_tensor(b, "columns", ramp_tensor(OD_F32, OD_SHAPE(7, 6), 0));
  expect_tensor(b, "next", ramp_tensor(OD_F32, OD_SHAPE(7, 6), 0));
  od_bundle_free(b);
}

static void v1_files_are_read(void **state) {
  (void)state;
  od_bundle *b;
  CHECK_OK(od_bundle_open(&b, GOLDEN "v1.ckpt"));
  CHECK(od_bundle_is_v1(b) && od_bundle_count(b) == 8);
  expect_tensor(b, "v1/float", ramp_tensor(OD_F32, OD_SHAPE(3, 5), 0));
  expect_tensor(b, "v1/int64", ramp_tensor(OD_I64, OD_SHAPE(4), -2));
  expect_tensor(b, "v1/int32", ramp_tensor(OD_I32, OD_SHAPE(4), -2));
  expect_tensor(b, "v1/uint8", ramp_tensor(OD_U8, OD_SHAPE(4), 0));
  expect_tensor(b, "v1/double", ramp_tensor(OD_F64, OD_SHAPE(4), 0));
  expect_tensor(b, "v1/bool", ramp_tensor(OD_BOOL, OD_SHAPE(4), 0));
  expect_tensor(b, "v1/big", ramp_tensor(OD_F32, OD_SHAPE(100, 30), 0));
  expect_tensor(b, "v1/rows", ramp_tensor(OD_F32, OD_SHAPE(7, 6), 0));
  od_bundle_free(b);
}

static void keys_of_slices_sort_as_numbers(void **state) {
  (void)state;
  static const int64_t numbers[] = {INT64_MIN, -1000000, -8193, -8192, -65,  -64,     -1,       0,
                                    1,         63,       64,    8191,  8192, 1 << 20, INT64_MAX};
  od_str last = OD_STR_INIT, key = OD_STR_INIT;
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    od_slice s = {.rank = 1, .start = {numbers[i]}, .length = {-1}};
    od_str_clear(&key);
    od_slice_key(&key, "n", &s);
    if (i)
      CHECK(od_view_compare((od_view){(uint8_t *)last.data, last.len}, (od_view){(uint8_t *)key.data, key.len}) < 0);
    od_str_clear(&last);
    od_str_add_bytes(&last, key.data, key.len);
  }
  od_str_free(&last);
  od_str_free(&key);
}

/* Many pairs over several blocks, plain and packed. */
static void tables_come_back(void **state) {
  (void)state;
  for (int packed = 0; packed < 2; packed++) {
    od_file *f;
    od_table_writer *w;
    od_table_options o = {.block_bytes = 1000, .restart_interval = 5, .snappy = packed == 1};
    CHECK_OK(od_file_replace(&f, in_scratch("table")));
    CHECK_OK(od_table_writer_new(&w, f, &o));
    char key[40], value[100];
    for (int i = 0; i < 2000; i++) {
      snprintf(key, sizeof key, "scope/layer_%05d", i * 3);
      snprintf(value, sizeof value, "value of %d and %d and %d", i, i, i);
      CHECK_OK(od_table_add(w, (od_view){(uint8_t *)key, strlen(key)}, (od_view){(uint8_t *)value, strlen(value)}));
    }
    CHECK_FAILS(od_table_add(w, (od_view){(const uint8_t *)"a", 1}, (od_view){0}), OD_EINVAL, "must ascend");
    CHECK_OK(od_table_finish(w));
    od_table_writer_free(w);
    CHECK_OK(od_file_close(f));
    od_view map, k, v;
    od_table *t;
    CHECK_OK(od_file_map(&map, in_scratch("table")));
    CHECK(packed ? map.size < 60000 : map.size > 60000);
    CHECK_OK(od_table_open(&t, map, "table"));
    int n = 0;
    while (od_table_next(t, &k, &v) == OD_OK) n++;
    CHECK(n == 2000);
    for (int i = 0; i < 6000; i += 7) {
      snprintf(key, sizeof key, "scope/layer_%05d", i);
      od_status st = od_table_get(t, (od_view){(uint8_t *)key, strlen(key)}, &v);
      CHECK(st == (i % 3 ? OD_ENOENT : OD_OK));
    }
    CHECK_OK(od_table_seek(t, (od_view){(const uint8_t *)"scope/layer_00004", 17}));
    CHECK_OK(od_table_next(t, &k, &v));
    CHECK(k.size == 17 && memcmp(k.data, "scope/layer_00006", 17) == 0);
    CHECK_OK(od_table_seek(t, (od_view){(const uint8_t *)"z", 1}));
    CHECK(od_table_next(t, &k, &v) == OD_END);
    od_table_free(t);
    od_file_unmap(&map);
  }
}

/* ------------------------------------------------------------------------------------------------------------ damage */
static od_status read_everything(const char *prefix) {
  od_bundle *b;
  OD_TRY(od_bundle_open(&b, prefix));
  od_status st = OD_OK;
  for (size_t i = 0; i < od_bundle_count(b) && !st; i++) st = od_bundle_verify(b, od_bundle_entry_at(b, i)->name);
  if (!st && od_bundle_count(b) == 0) st = od_fail(OD_EDATA, "empty");
  od_bundle_free(b);
  return st;
}

static void copy_set(const char *name) {
  static const char *const ends[] = {".index", ".data-00000-of-00001"};
  for (int i = 0; i < 2; i++) {
    char from[100], to[300];
    snprintf(from, sizeof from, GOLDEN "%s%s", name, ends[i]);
    snprintf(to, sizeof to, "%s/set%s", scratch, ends[i]);
    CHECK_OK(od_file_copy(from, to));
  }
}

/* Flips bits and cuts: nothing goes unnoticed, nothing is read outside (the sanitizers watch). */
static void hurt(const char *file, const char *prefix, size_t step) {
  char *data;
  size_t n;
  CHECK_OK(od_file_read_all(&data, &n, file, 0));
  for (size_t cut = 0; cut < n; cut += step) {
    put_quickly(file, data, cut);
    od_status st = read_everything(prefix);
    CHECK(st == OD_EDATA && strlen(od_message()) > 10);
  }
  size_t unnoticed = 0;
  for (size_t bit = 0; bit < n * 8; bit += step) {
    data[bit / 8] = (char)(data[bit / 8] ^ (1 << bit % 8));
    put_quickly(file, data, n);
    od_status st = read_everything(prefix);
    if (st == OD_OK)
      unnoticed++;
    else
      CHECK(st == OD_EDATA || st == OD_ENOENT || st == OD_EUNSUPPORTED);
    data[bit / 8] = (char)(data[bit / 8] ^ (1 << bit % 8));
  }
  CHECK(unnoticed <= 60 * 8 / step + 1); /* the footer's filling and the empty meta block are not read */
  CHECK_OK(od_file_write_all(file, data, n));
  CHECK_OK(read_everything(prefix));
  od_free(data);
}

static void damage_is_found(void **state) {
  (void)state;
  copy_set("sliced.ckpt");
  char index[400], prefix[300], v1[300];
  snprintf(prefix, sizeof prefix, "%s/set", scratch);
  snprintf(index, sizeof index, "%s.index", prefix);
  hurt(index, prefix, 1);
  copy_set("plain.ckpt");
  hurt(index, prefix, 7);
  snprintf(v1, sizeof v1, "%s/v1", scratch);
  CHECK_OK(od_file_copy(GOLDEN "v1.ckpt", v1));
  hurt(v1, v1, 101);
}

static void damaged_data_names_the_tensor(void **state) {
  (void)state;
  copy_set("plain.ckpt");
  char path[400], prefix[300];
  snprintf(prefix, sizeof prefix, "%s/set", scratch);
  snprintf(path, sizeof path, "%s.data-00000-of-00001", prefix);
  char *data;
  size_t n;
  CHECK_OK(od_file_read_all(&data, &n, path, 0));
  for (size_t at = 0; at < n; at++) {
    data[at] ^= 16;
    put_quickly(path, data, n);
    od_status st = read_everything(prefix);
    CHECK_FAILS(st, OD_EDATA, "tensor '");
    data[at] ^= 16;
  }
  for (size_t cut = 0; cut < n; cut += 13) {
    put_quickly(path, data, cut);
    od_status st = read_everything(prefix);
    CHECK_FAILS(st, OD_EDATA, "tensor '");
  }
  od_free(data);
  CHECK_OK(od_path_remove(path));
  CHECK_FAILS(read_everything(prefix), OD_ENOENT, "data-00000-of-00001");
}

static void what_is_no_checkpoint_is_refused(void **state) {
  (void)state;
  od_bundle *b;
  CHECK_FAILS(od_bundle_open(&b, in_scratch("nothing")), OD_ENOENT, "neither");
  CHECK_OK(od_file_write_all(in_scratch("text"), "hello", 5));
  CHECK_FAILS(od_bundle_open(&b, in_scratch("text")), OD_EDATA, "is no checkpoint");
  CHECK_OK(od_file_write_all(in_scratch("x.index"), "hello", 5));
  CHECK_FAILS(od_bundle_open(&b, in_scratch("x")), OD_EDATA, "x.index");
  CHECK_FAILS(od_bundle_open(&b, "gs://b/model.ckpt"), OD_EUNSUPPORTED, "gs://");
  CHECK_OK(od_file_write_all(in_scratch("lost.data-00000-of-00001"), "hello", 5));
  CHECK_FAILS(od_bundle_open(&b, in_scratch("lost")), OD_ENOENT, ".index is missing");
}

static od_status write_small(const char *prefix, float value) {
  od_shape shape = OD_SHAPE(40, 1000);
  od_tensor t;
  OD_TRY(od_tensor_new(&t, OD_F32, &shape));
  for (int i = 0; i < 40000; i++) ((float *)t.data)[i] = value;
  od_named_tensor list[2] = {{"b", t}, {"a", t}};
  od_status st = od_bundle_write(prefix, list, 2);
  od_tensor_free(&t);
  return st;
}

static void a_failed_save_leaves_the_old_one(void **state) {
  (void)state;
  char prefix[300];
  snprintf(prefix, sizeof prefix, "%s/keep/m", scratch);
  CHECK_OK(write_small(prefix, 1));
  for (int kind = OD_FAULT_ENOSPC; kind <= OD_FAULT_RENAME; kind++)
    for (uint64_t at = 1; at < 10; at++) {
      od_file_fault((od_file_fault_kind)kind, at);
      od_status st = write_small(prefix, 1);
      od_file_fault(OD_FAULT_NONE, 0);
      if (kind == OD_FAULT_SHORT || kind == OD_FAULT_EINTR) CHECK_OK(st);
      CHECK_OK(read_everything(prefix));
      od_strings names = OD_STRINGS_INIT;
      CHECK_OK(od_path_list(&names, in_scratch("keep")));
      CHECK(names.count == 2);
      od_strings_free(&names);
    }
  for (uint64_t at = 1;; at++) { /* short memory */
    od_mem_fail_at(at);
    od_status st = write_small(prefix, 1);
    if (!st) st = read_everything(prefix);
    od_mem_fail_at(0);
    CHECK_OK(read_everything(prefix));
    if (!st) break;
    CHECK(st == OD_ENOMEM && at < 500);
  }
}

static void names_must_differ(void **state) {
  (void)state;
  od_tensor t = ramp_tensor(OD_F32, OD_SHAPE(2), 0);
  od_named_tensor list[2] = {{"a", t}, {"a", t}};
  CHECK_FAILS(od_bundle_write(in_scratch("twice"), list, 2), OD_EINVAL, "'a'");
  list[0].name = "";
  CHECK_FAILS(od_bundle_write(in_scratch("twice"), list, 2), OD_EINVAL, "without a name");
  CHECK(!od_path_exists(in_scratch("twice.index")) && !od_path_exists(in_scratch("twice.data-00000-of-00001")));
  od_tensor_free(&t);
}

/* ------------------------------------------------------------------------------------------------------------ folders */
static void folders_know_their_newest(void **state) {
  (void)state;
  char dir[280], path[400], *found;
  snprintf(dir, sizeof dir, "%s/train", scratch);
  CHECK_OK(od_path_make_dirs(dir));
  CHECK_FAILS(od_checkpoint_latest(&found, dir), OD_ENOENT, "holds no checkpoint");
  for (int i = 0; i < 3; i++) {
    snprintf(path, sizeof path, "%s/model.ckpt-%d", dir, i == 0 ? 9 : i * 100);
    CHECK_OK(write_small(path, 0));
  }
  CHECK_OK(od_checkpoint_latest(&found, dir));
  CHECK_TEXT(od_path_base(found), "model.ckpt-200"); /* by number, not by letters */
  od_free(found);
  od_checkpoint_state s = {0};
  snprintf(path, sizeof path, "%s/model.ckpt-100", dir);
  s.latest = path;
  CHECK_OK(od_strings_add(&s.all, path));
  CHECK_OK(od_strings_add(&s.all, "/else\"where\\/m-1"));
  double times[] = {1600000000.25, 1600000600.5};
  s.times = times;
  s.time_count = 2;
  s.last_preserved = 1.5;
  CHECK_OK(od_checkpoint_state_write(dir, &s));
  od_strings_free(&s.all);
  CHECK_OK(od_checkpoint_latest(&found, dir)); /* the file says which */
  CHECK_TEXT(od_path_base(found), "model.ckpt-100");
  od_free(found);
  CHECK_OK(od_checkpoint_state_read(&s, dir));
  CHECK(s.all.count == 2 && s.time_count == 2 && s.times[0] == times[0] && s.last_preserved == 1.5);
  CHECK_TEXT(s.all.items[1], "/else\"where\\/m-1");
  CHECK_TEXT(s.latest, path);
  od_checkpoint_state_free(&s);
  char file[300];
  snprintf(file, sizeof file, "%s/checkpoint", dir);
  static const char moved[] =
      "# moved\nmodel_checkpoint_path: '/gone/train/model.' \"ckpt-9\"\nall_model_checkpoint_paths:"
      "\"/gone/train/model.ckpt-9\"\n";
  CHECK_OK(od_file_write_all(file, moved, sizeof moved - 1));
  CHECK_OK(od_checkpoint_latest(&found, dir));
  CHECK_TEXT(od_path_base(found), "model.ckpt-9");
  od_free(found);
  od_bundle *b;
  CHECK_OK(od_bundle_open(&b, dir));
  CHECK_TEXT(od_path_base(od_bundle_prefix(b)), "model.ckpt-9");
  od_bundle_free(b);
  static const char broken[] = "model_checkpoint_path: 5\n";
  CHECK_OK(od_file_write_all(file, broken, sizeof broken - 1));
  CHECK_FAILS(od_checkpoint_latest(&found, dir), OD_EDATA, "checkpoint:1: a text in quotes");
  CHECK_OK(od_file_write_all(file, "\n\nwhat?", 7));
  CHECK_FAILS(od_checkpoint_state_read(&s, dir), OD_EDATA, "checkpoint:3:");
  CHECK(od_checkpoint_step("a-1/m") == -1 && od_checkpoint_step("m-12") == 12 && od_checkpoint_step("m-x") == -1);
}

/* ------------------------------------------------------------------------------------------------------------ real files */
static void real_checkpoints_are_read(void **state) {
  (void)state;
  static const struct {
    const char *path;
    size_t count;
    const char *name;
    od_dtype dtype;
  } sets[] = {
      {"data/checkpoint_names/faster_rcnn_resnet101_finetune/model.ckpt-11", 903, "Conv/weights/Momentum", OD_F32},
      {"data/checkpoint_names/ssd_mobilenet_v1_coco_2018_01_28/model.ckpt", 0, "global_step", OD_I64},
      {"data/checkpoint_names/ssdlite_mobilenet_v2_coco_2018_05_09/model.ckpt", 0, "global_step", OD_I64},
      {"data/checkpoint_names/mask_rcnn_inception_v2_coco_2018_01_28/model.ckpt", 0, "global_step", OD_I64},
      {"data/checkpoint_names/faster_rcnn_inception_v2_coco_2018_01_28/model.ckpt", 0, "global_step", OD_I64},
      {"data/checkpoint_names/faster_rcnn_inception_v2_finetune/model.ckpt-3013", 0, "global_step", OD_I64},
      {"data/checkpoint_names/faster_rcnn_inception_v2_export/model.ckpt", 0, "Conv/weights", OD_F32},
      {"data/pets_ssd_mobilenet_v1_075_quant/model_checkpoints/model.ckpt-2000", 0, "global_step", OD_I64}};
  for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
    char index[300];
    snprintf(index, sizeof index, "%s.index", sets[i].path);
    NEED_SHARED(path, index);
    od_bundle *b;
    CHECK_OK(od_bundle_open(&b, path));
    CHECK(od_bundle_count(b) > 100 && (!sets[i].count || od_bundle_count(b) == sets[i].count));
    const od_bundle_entry *e = od_bundle_find(b, sets[i].name);
    CHECK(e && e->dtype == sets[i].dtype);
    CHECK_FAILS(od_bundle_verify(b, sets[i].name), OD_ENOENT, ".data-0"); /* these sets come without data */
    od_bundle_free(b);
  }
}

static void every_crc_is_right(const char *path, size_t least) {
  od_bundle *b;
  CHECK_OK(od_bundle_open(&b, path));
  CHECK(od_bundle_count(b) >= least);
  for (size_t i = 0; i < od_bundle_count(b); i++) CHECK_OK(od_bundle_verify(b, od_bundle_entry_at(b, i)->name));
  od_bundle_free(b);
}

static void real_data_has_right_crcs(void **state) {
  (void)state;
  static const char *const roots[] = {"data/tf_v2_ckpt_reference", "data/raccoon_original"};
  od_strings todo = OD_STRINGS_INIT;
  size_t tensors = 0, sets = 0;
  for (int r = 0; r < 2; r++) {
    NEED_SHARED(path, roots[r]);
    CHECK_OK(od_strings_add(&todo, path));
  }
  for (size_t i = 0; i < todo.count; i++) {
    od_strings names = OD_STRINGS_INIT;
    CHECK_OK(od_path_list(&names, todo.items[i]));
    for (size_t k = 0; k < names.count; k++) {
      char *path;
      CHECK_OK(od_path_join(&path, todo.items[i], names.items[k]));
      if (od_path_is_dir(path)) CHECK_OK(od_strings_add(&todo, path));
      char *dot = strstr(path, ".data-00000");
      if (dot) {
        od_bundle *b;
        CHECK_OK(od_bundle_open(&b, path));
        tensors += od_bundle_count(b);
        sets++;
        od_bundle_free(b);
        every_crc_is_right(path, 1);
      }
      od_free(path);
    }
    od_strings_free(&names);
  }
  print_message("%zu tensors of %zu checkpoints\n", tensors, sets);
  CHECK(tensors >= 137);
  od_strings_free(&todo);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_tensorflow_writes_we_write_to_the_byte),
      cmocka_unit_test(what_tensorflow_wrote_is_read),
      cmocka_unit_test(shards_and_slices_are_joined),
      cmocka_unit_test(v1_files_are_read),
      cmocka_unit_test(keys_of_slices_sort_as_numbers),
      cmocka_unit_test(tables_come_back),
      cmocka_unit_test(damage_is_found),
      cmocka_unit_test(damaged_data_names_the_tensor),
      cmocka_unit_test(what_is_no_checkpoint_is_refused),
      cmocka_unit_test(a_failed_save_leaves_the_old_one),
      cmocka_unit_test(names_must_differ),
      cmocka_unit_test(folders_know_their_newest),
      cmocka_unit_test(real_checkpoints_are_read),
      cmocka_unit_test(real_data_has_right_crcs),
  };
  return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
