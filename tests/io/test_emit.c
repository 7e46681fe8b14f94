/* Writes one file of every kind into a folder (OBJDET_EMIT, else a scratch folder) and reads it back. tests/witness/check_io.py
 * runs it and asks TensorFlow and TensorBoard whether they can read what is there. */
#include "io_test.h"

#include "io/bundle.h"
#include "io/checkpoint_state.h"
#include "io/event.h"
#include "io/example.h"
#include "io/metagraph.h"
#include "io/record.h"

static char dir[300];

static const char *in_dir(const char *name) {
  static char path[400];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  return path;
}

static void choose_dir(void) {
  const char *given = getenv("OBJDET_EMIT");
  snprintf(dir, sizeof dir, "%s", given ? given : scratch);
}

/* Record i: ids i and -i, box i/8 twice, two names. */
static void put_example(od_example_builder *b, int i, od_str *out) {
  int64_t ids[2] = {i, -i};
  float box[2] = {(float)i / 8, (float)i / 8};
  char name[32];
  snprintf(name, sizeof name, "picture %d", i);
  od_view names[2] = {{(const uint8_t *)name, strlen(name)}, {(const uint8_t *)"\xff\0", 2}};
  od_example_builder_reset(b);
  od_example_add_int64s(b, "ids", ids, 2);
  od_example_add_floats(b, "box", box, 2);
  od_example_add_bytes_list(b, "names", names, 2);
  od_example_add_floats(b, "none", NULL, 0);
  od_str_clear(out);
  CHECK_OK(od_example_builder_finish(b, out));
}

static void records_are_written(void **state) {
  (void)state;
  static const char *const names[] = {"plain.record", "gzip.record", "zlib.record"};
  static const od_record_compression forms[] = {OD_RECORD_PLAIN, OD_RECORD_GZIP, OD_RECORD_ZLIB};
  od_example_builder *b;
  od_str s = OD_STR_INIT;
  choose_dir();
  CHECK_OK(od_example_builder_new(&b));
  for (int f = 0; f < 3; f++) {
    od_record_writer *w;
    CHECK_OK(od_record_writer_open(&w, in_dir(names[f]), &(od_record_options){.compression = forms[f]}));
    for (int i = 0; i < 100; i++) {
      put_example(b, i, &s);
      CHECK_OK(od_record_write(w, s.data, s.len));
    }
    CHECK_OK(od_record_writer_close(w));
    od_record_reader *r;
    od_view v;
    od_example ex = OD_EXAMPLE_INIT;
    CHECK_OK(od_record_reader_open(&r, in_dir(names[f]), NULL));
    for (int i = 0; i < 100; i++) {
      int64_t id;
      CHECK_OK(od_record_read(r, &v));
      CHECK_OK(od_example_parse(&ex, v.data, v.size));
      CHECK_OK(od_example_get_int64(&ex, "ids", &id, -1));
      CHECK(id == i);
    }
    CHECK(od_record_read(r, &v) == OD_END);
    od_record_reader_free(r);
    od_example_free(&ex);
  }
  od_example_builder_free(b);
  od_str_free(&s);
}

/* Enough long names that the index has several blocks. */
enum { VARIABLES = 3000 };

static void a_checkpoint_is_written(void **state) {
  (void)state;
  static od_meta_variable vars[VARIABLES];
  static od_named_tensor list[VARIABLES];
  static char names[VARIABLES][160];
  choose_dir();
  for (int i = 0; i < VARIABLES; i++) {
    od_dtype dtype = i == 0 ? OD_I64 : i == 1 ? OD_BF16 : i == 2 ? OD_BOOL : i == 3 ? OD_F64 : i == 4 ? OD_I32 : OD_F32;
    od_shape shape = i == 0 ? OD_SCALAR : OD_SHAPE(1 + i % 3, 2);
    if (i == 0)
      snprintf(names[i], sizeof names[i], "global_step");
    else
      snprintf(names[i], sizeof names[i], "v%04d/%.*s/weights", i * 7919 % 10007, 40 + i % 57,
               "FeatureExtractor_a_scope_with_a_very_long_name_that_goes_on_and_on_and_on_and_on_and_on_and_on_so");
    vars[i] = (od_meta_variable){names[i], dtype, shape, i % 2 == 1};
    list[i].name = names[i];
    CHECK_OK(od_tensor_new(&list[i].tensor, dtype, &shape));
    if (dtype == OD_F32)
      for (int k = 0; k < od_tensor_size(&list[i].tensor); k++) ((float *)list[i].tensor.data)[k] = (float)(i + k);
    if (i == 0) *(int64_t *)list[i].tensor.data = 4711;
  }
  CHECK_OK(od_bundle_write(in_dir("model.ckpt-4711"), list, VARIABLES));
  CHECK_OK(od_metagraph_write(in_dir("model.ckpt-4711.meta"), vars, VARIABLES));
  od_checkpoint_state s = {0};
  s.latest = od_strdup(in_dir("model.ckpt-4711"));
  CHECK_OK(od_strings_add(&s.all, s.latest));
  CHECK_OK(od_checkpoint_state_write(dir, &s));
  od_checkpoint_state_free(&s);
  od_bundle *b;
  CHECK_OK(od_bundle_open(&b, dir));
  CHECK(od_bundle_count(b) == VARIABLES);
  for (int i = 0; i < VARIABLES; i++) {
    od_tensor t;
    CHECK_OK(od_bundle_read(&t, b, list[i].name));
    CHECK(memcmp(t.data, list[i].tensor.data, od_tensor_bytes(&t)) == 0);
    od_tensor_free(&t);
    od_tensor_free(&list[i].tensor);
  }
  od_bundle_free(b);
}

/* A checkpoint of the original, read and written again: the same bytes; and a .meta of ours for it. */
static void a_checkpoint_of_the_original_is_copied(void **state) {
  (void)state;
  NEED_SHARED(shared, "data/raccoon_original/train");
  od_bundle *b;
  char from[600], to[600];
  choose_dir();
  CHECK_OK(od_bundle_open(&b, shared));
  size_t n = od_bundle_count(b);
  od_named_tensor *list;
  od_meta_variable *vars;
  CHECK_OK(od_new(&list, n, sizeof *list));
  CHECK_OK(od_new(&vars, n, sizeof *vars));
  for (size_t i = 0; i < n; i++) {
    const od_bundle_entry *e = od_bundle_entry_at(b, i);
    vars[i] = (od_meta_variable){e->name, e->dtype, e->shape, od_ends_with(e->name, "weights")};
    list[i].name = e->name;
    CHECK_OK(od_bundle_read(&list[i].tensor, b, e->name));
  }
  CHECK_OK(od_bundle_write(in_dir("copy.ckpt"), list, n));
  CHECK_OK(od_metagraph_write(in_dir("copy.ckpt.meta"), vars, n));
  for (size_t i = 0; i < n; i++) od_tensor_free(&list[i].tensor);
  static const char *const ends[] = {".index", ".data-00000-of-00001"};
  for (int i = 0; i < 2; i++) {
    snprintf(from, sizeof from, "%s%s", od_bundle_prefix(b), ends[i]);
    snprintf(to, sizeof to, "%s/copy.ckpt%s", dir, ends[i]);
    expect_same_file(from, to);
  }
  od_bundle_free(b);
  od_free(list);
  od_free(vars);
}

/* A real PNG of one pixel, so that TensorBoard can show it. */
static const uint8_t pixel[] = {0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48,
                                0x44, 0x52, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x08, 0x00, 0x00, 0x00,
                                0x00, 0x3a, 0x7e, 0x9b, 0x55, 0x00, 0x00, 0x00, 0x0a, 0x49, 0x44, 0x41, 0x54, 0x78,
                                0x9c, 0x63, 0x68, 0x00, 0x00, 0x00, 0x82, 0x00, 0x81, 0x77, 0xcd, 0x72, 0xb6, 0x00,
                                0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82};

static void events_are_written(void **state) {
  (void)state;
  od_event_writer *w;
  od_str s = OD_STR_INIT;
  float values[4] = {-1, 0, 0.5f, 100};
  choose_dir();
  CHECK_OK(od_event_writer_open(&w, in_dir("events"), NULL, 0));
  CHECK_OK(od_event_write_session(w, 5, 0, OD_SESSION_START, NULL));
  for (int step = 5; step < 8; step++) {
    od_str_clear(&s);
    od_summary_add_scalar(&s, "Losses/TotalLoss", step * 0.5);
    CHECK_OK(od_summary_add_histogram(&s, "ModelVars/w", values, 4));
    od_summary_add_image(&s, "picture", 1, 1, 1, (od_view){pixel, sizeof pixel}, false);
    od_summary_add_image(&s, "bare", 1, 1, 1, (od_view){pixel, sizeof pixel}, true);
    CHECK_OK(od_event_write_summary(w, step, 0, &s));
  }
  CHECK_OK(od_event_writer_close(w));
  od_str_free(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(records_are_written),
      cmocka_unit_test(a_checkpoint_is_written),
      cmocka_unit_test(a_checkpoint_of_the_original_is_copied),
      cmocka_unit_test(events_are_written),
  };
  return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
