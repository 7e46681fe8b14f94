/* The training loop from inside: records whose boxes give no finite loss, memory, callbacks, stops. On the pictures of
 * tests/golden/train, with changed records where a test needs such. */
#include <math.h>
#include <signal.h>

#include "io/example.h"
#include "io/file.h"
#include "io/path.h"
#include "io/record.h"
#include "od_test.h"
#include "train/session.h"

static const char golden[] = "tests/golden/train";

typedef struct {
  char dir[256], record[512];
  od_pipeline pipeline;
} fixture;

static int set_up(void **state) {
  static fixture f;
  memset(&f, 0, sizeof f);
  snprintf(f.dir, sizeof f.dir, "%s", od_test_dir());
  snprintf(f.record, sizeof f.record, "%s/pictures.record", f.dir);
  *state = &f;
  return 0;
}

static int tear_down(void **state) {
  fixture *f = *state;
  char command[512];
  od_pipeline_free(&f->pipeline);
  snprintf(command, sizeof command, "rm -rf '%s'", f->dir);
  return system(command);
}

static void load(fixture *f, const char *const *sets, size_t n) {
  char path[512];
  snprintf(path, sizeof path, "%s/tiny.config", golden);
  CHECK_OK(od_pipeline_load(&f->pipeline, path, sets, n));
}

static od_train_options options(fixture *f, uint64_t steps) {
  return (od_train_options){.pipeline = &f->pipeline, .train_dir = f->dir, .num_steps = steps, .seed = 3, .engine = {.threads = 1}, .max_to_keep = 5};
}

/* ---------------------------------------------------------------------------------------------------------- odd boxes */
/* Copies the golden records; xmax, or the weight, of the first box of record `number` becomes value. */
static void change_record(const fixture *f, uint64_t number, bool weight, float value) {
  char path[512];
  od_record_reader *r;
  od_record_writer *w;
  od_record_options o = {0};
  snprintf(path, sizeof path, "%s/pictures.record", golden);
  CHECK_OK(od_record_reader_open(&r, path, &o));
  CHECK_OK(od_record_writer_open(&w, f->record, &o));
  od_view payload;
  od_status st;
  for (uint64_t i = 0; (st = od_record_read(r, &payload)) == OD_OK; i++) {
    od_example ex = OD_EXAMPLE_INIT;
    od_example_builder *b;
    od_str out = OD_STR_INIT;
    const od_view *encoded;
    size_t n;
    CHECK_OK(od_example_parse(&ex, payload.data, payload.size));
    CHECK_OK(od_example_builder_new(&b));
    CHECK_OK(od_example_get_bytes(&ex, "image/encoded", &encoded, &n));
    od_example_add_bytes(b, "image/encoded", encoded[0].data, encoded[0].size);
    od_example_add_text(b, "image/source_id", i == number ? "the odd one" : "another");
    static const char *const keys[] = {"ymin", "xmin", "ymax", "xmax"};
    for (int k = 0; k < 4; k++) {
      char key[64];
      const float *v;
      float changed[8];
      snprintf(key, sizeof key, "image/object/bbox/%s", keys[k]);
      CHECK_OK(od_example_get_floats(&ex, key, &v, &n));
      CHECK(n >= 1 && n <= 8);
      memcpy(changed, v, n * sizeof *v);
      if (k == 3 && i == number && !weight) changed[0] = value;
      od_example_add_floats(b, key, changed, n);
      for (size_t w1 = 0; w1 < n; w1++) changed[w1] = w1 == 0 && i == number ? value : 1;
      if (weight) od_example_add_floats(b, "image/object/weight", changed, n);
    }
    const int64_t *labels;
    CHECK_OK(od_example_get_int64s(&ex, "image/object/class/label", &labels, &n));
    od_example_add_int64s(b, "image/object/class/label", labels, n);
    CHECK_OK(od_example_builder_finish(b, &out));
    CHECK_OK(od_record_write(w, out.data, out.len));
    od_str_free(&out);
    od_example_builder_free(b);
    od_example_free(&ex);
  }
  CHECK(st == OD_END);
  od_record_reader_free(r);
  CHECK_OK(od_record_writer_close(w));
}

static void use_changed(fixture *f, uint64_t number, bool weight, float value) {
  char setting[600];
  change_record(f, number, weight, value);
  snprintf(setting, sizeof setting, "train_input_reader.tf_record_input_reader.input_path=%s", f->record);
  load(f, (const char *const[]){setting}, 1);
}

/* An infinite weight passes the decoder as in the original; the loss that it makes does not pass. */
static void infinite_weight_is_named(void **state) {
  fixture *f = *state;
  use_changed(f, 5, true, INFINITY); /* in the second step's batch */
  od_train_options o = options(f, 4);
  CHECK_FAILS(od_train(&o), OD_ENUMERIC, "step 2: the loss is not finite");
  static const char *const wanted[] = {"Loss/localization_loss = ", "first layer with such a value: ", "record 5 (the odd one)", "the weight of box 0 is inf",
                                       "nonfinite-2"};
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
    if (!strstr(od_message(), wanted[i])) fail_msg("'%s' is not in: %s", wanted[i], od_message());
  CHECK(!strstr(od_message(), "weights that are not finite")); /* the step touched none */
  char path[512];
  snprintf(path, sizeof path, "%s/nonfinite-2.index", f->dir);
  CHECK(od_path_is_file(path));
}

/* A box with NaN is left out as in the original. */
static void nan_box_is_left_out(void **state) {
  fixture *f = *state;
  use_changed(f, 5, false, NAN);
  od_train_options o = options(f, 2);
  CHECK_OK(od_train(&o));
}

/* An infinite coordinate: as any beyond the picture. */
static void infinite_box_is_refused(void **state) {
  fixture *f = *state;
  use_changed(f, 5, false, INFINITY);
  od_train_options o = options(f, 4);
  CHECK_FAILS(od_train(&o), OD_EDATA, "record 5 (the odd one)");
}

/* xmax below xmin: an error that names the record, or a record skipped. */
static void turned_box_is_named(void **state) {
  fixture *f = *state;
  use_changed(f, 5, false, -0.5f);
  od_train_options o = options(f, 2);
  CHECK_FAILS(od_train(&o), OD_EDATA, "record 5 (the odd one)");
  o.on_bad = OD_BAD_SKIP;
  CHECK_OK(od_train(&o));
}

/* ------------------------------------------------------------------------------------------------------------- the loop */
typedef struct {
  uint64_t steps[16];
  int n, stop_after;
} saves;

static od_status note_save(void *ctx, const char *prefix, uint64_t step, bool *stop) {
  saves *s = ctx;
  CHECK(s->n < 16 && strstr(prefix, "model.ckpt-"));
  s->steps[s->n++] = step;
  *stop = s->n >= s->stop_after;
  return OD_OK;
}

static void saves_and_stops(void **state) {
  fixture *f = *state;
  saves s = {.stop_after = 3};
  load(f, NULL, 0);
  od_train_options o = options(f, 9);
  o.save_interval_steps = 2;
  o.after_save = note_save;
  o.ctx = &s;
  CHECK_OK(od_train(&o)); /* 0, 2, 4: the callback ends the run there */
  CHECK(s.n == 3 && s.steps[0] == 0 && s.steps[1] == 2 && s.steps[2] == 4);
  s = (saves){.stop_after = 16};
  CHECK_OK(od_train(&o)); /* 6, 8 and the last step */
  CHECK(s.n == 3 && s.steps[0] == 6 && s.steps[1] == 8 && s.steps[2] == 9);
  s.n = 0;
  CHECK_OK(od_train(&o)); /* nothing is left to do */
  CHECK(s.n == 0);
}

/* A signal while training: what was just saved is not saved again, and the next run goes on there. */
static od_status stop_at_two(void *ctx, const char *prefix, uint64_t step, bool *stop) {
  if (step == 2) od_stop_request(SIGTERM);
  return note_save(ctx, prefix, step, stop);
}

static void a_stop_request_ends_it(void **state) {
  fixture *f = *state;
  saves s = {.stop_after = 16};
  load(f, NULL, 0);
  od_train_options o = options(f, 4);
  o.save_interval_steps = 2;
  o.after_save = stop_at_two;
  o.ctx = &s;
  od_status st = od_train(&o);
  od_stop_request(0);
  CHECK(st == OD_ESTOPPED && s.n == 2 && s.steps[1] == 2);
  o.after_save = note_save;
  CHECK_OK(od_train(&o));
  CHECK(s.n == 3 && s.steps[2] == 4);
}

/* The first epoch's end is the end where the config says so: 12 pictures are three steps. */
static void ends_with_the_input(void **state) {
  fixture *f = *state;
  saves s = {.stop_after = 16};
  load(f, (const char *const[]){"train_input_reader.num_epochs=1"}, 1);
  od_train_options o = options(f, 9);
  o.after_save = note_save;
  o.ctx = &s;
  CHECK_OK(od_train(&o));
  CHECK(s.n == 2 && s.steps[1] == 3);
}

/* ---------------------------------------------------------------------------------------------------------------- memory */
static void memory_is_counted_and_kept(void **state) {
  fixture *f = *state;
  load(f, NULL, 0);
  od_train_options o = options(f, 0);
  od_session s;
  CHECK_OK(od_session_build(&s, &o));
  od_state_init(s.state, 1);
  CHECK_OK(od_session_start(&s));
  for (int i = 0; i < 3; i++) CHECK_OK(od_session_step(&s));
  size_t used = od_mem_used();
  CHECK(s.need.total > 0 && s.need.height == 96 && s.need.pictures == 4);
  CHECK(od_mem_used() < 2 * s.need.total + (8u << 20)); /* what was foretold is of the right size */
  for (int i = 0; i < 20; i++) CHECK_OK(od_session_step(&s));
  CHECK(od_mem_used() < used + (2u << 20)); /* pictures come and go; nothing else grows */
  CHECK(od_session_check_state(&s) == OD_OK);
  od_session_close(&s);
}

static void too_much_memory_is_refused(void **state) {
  (void)state;
  od_train_need n = {.step = 9000000000u, .state = 500000000u, .input = 500000000u, .total = 10000000000u, .height = 300, .width = 300, .pictures = 100};
  CHECK_OK(od_train_need_check(&n, 10000000000u));
  CHECK_OK(od_train_need_check(&n, 0)); /* unknown */
  CHECK_FAILS(od_train_need_check(&n, 5250000000u), OD_ENOMEM, "needs about 10.0 GB");
  CHECK(strstr(od_message(), "45 pictures at a time would fit") && strstr(od_message(), "100 pictures of 300x300"));
  CHECK_FAILS(od_train_need_check(&n, 400000000u), OD_ENOMEM, "smaller model");
  CHECK(od_machine_memory() > (64u << 20));
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {TEST(infinite_weight_is_named), TEST(infinite_box_is_refused), TEST(nan_box_is_left_out), TEST(turned_box_is_named), TEST(saves_and_stops),
                                     TEST(a_stop_request_ends_it), TEST(ends_with_the_input), TEST(memory_is_counted_and_kept), TEST(too_much_memory_is_refused)};
  return cmocka_run_group_tests_name("trainer", tests, NULL, NULL);
}
