/* Checkpoints under faults: whatever system call fails, the checkpoint before stays, and `checkpoint` names it. And which old ones
 * are kept. */
#include "io/bundle.h"
#include "io/checkpoint_state.h"
#include "io/file.h"
#include "od_test.h"
#include "train/restore.h"
#include "train/saver.h"

typedef struct {
  od_graph *graph;
  od_state *state;
  const char *dir;
  od_sidecar sidecar;
} fixture;

static int set_up(void **state) {
  static fixture f;
  f = (fixture){.dir = od_test_dir(), .sidecar = {.seed = UINT64_MAX, .position = 1ull << 60, .fingerprint = 7, .threads = 3, .precision = "bf16",
                                                  .engine = "cpu", .processor = "a \"quoted\" one", .version = "9.9"}};
  CHECK(f.dir);
  CHECK_OK(od_graph_new(&f.graph));
  od_variable_new(f.graph, "a/weights", OD_F32, OD_SHAPE(3, 5), (od_init){OD_INIT_CONSTANT, 1, 0}, true);
  od_variable_slot(f.graph, "global_step", OD_I64, OD_SCALAR, (od_init){0});
  CHECK_OK(od_graph_check(f.graph));
  CHECK_OK(od_state_new(&f.state, f.graph));
  od_state_init(f.state, 1);
  *state = &f;
  return 0;
}

static int tear_down(void **state) {
  fixture *f = *state;
  char command[512];
  od_state_free(f->state);
  od_graph_free(f->graph);
  snprintf(command, sizeof command, "rm -rf '%s'", f->dir);
  return system(command);
}

/* The state as after `step` steps. */
static void set_step(fixture *f, uint64_t step) {
  *(int64_t *)od_state_tensor(f->state, "global_step")->data = (int64_t)step;
  ((float *)od_state_tensor(f->state, "a/weights")->data)[2] = (float)step * 0.5f;
}

static od_status save(fixture *f, od_saver *s, uint64_t step) {
  const char *prefix;
  set_step(f, step);
  return od_saver_save(s, &prefix, f->state, step, &f->sidecar);
}

static bool is_there(const fixture *f, uint64_t step) {
  char path[512];
  snprintf(path, sizeof path, "%s/model.ckpt-%llu", f->dir, (unsigned long long)step);
  return od_checkpoint_exists(path);
}

/* The newest checkpoint is that of this step, and whole. */
static void check_newest(fixture *f, uint64_t step) {
  char *prefix;
  od_sidecar c;
  CHECK_OK(od_checkpoint_latest(&prefix, f->dir));
  CHECK(od_checkpoint_step(prefix) == (int64_t)step);
  set_step(f, 999);
  CHECK_OK(od_restore_all(f->state, prefix));
  CHECK(*(int64_t *)od_state_tensor(f->state, "global_step")->data == (int64_t)step);
  CHECK_NEAR(((float *)od_state_tensor(f->state, "a/weights")->data)[2], 0.5 * (double)step, 0);
  CHECK_OK(od_sidecar_read(&c, prefix));
  CHECK(c.seed == UINT64_MAX && c.position == 1ull << 60 && c.fingerprint == 7 && c.threads == 3);
  CHECK_TEXT(c.precision, "bf16");
  CHECK_TEXT(c.processor, "a \"quoted\" one");
  od_free(prefix);
}

/* Makes the n-th call of a kind fail, for every n until a save needs no more of them; how many failed. */
static int fail_at_each(fixture *f, od_file_fault_kind kind) {
  od_saver *s;
  uint64_t step = 1;
  int failures = 0;
  CHECK_OK(od_saver_new(&s, f->dir, 3, 0));
  CHECK_OK(save(f, s, step));
  for (uint64_t n = 1; n < 200; n++) {
    od_file_fault(kind, n);
    od_status st = save(f, s, step + 1);
    od_file_fault(OD_FAULT_NONE, 0);
    if (st == OD_OK) break;
    failures++;
    CHECK(od_message()[0]);
    check_newest(f, step);
    od_saver_free(s); /* a run that failed is started again */
    CHECK_OK(od_saver_new(&s, f->dir, 3, 0));
    if (n % 2 == 0) {
      CHECK_OK(save(f, s, ++step));
      check_newest(f, step);
    }
  }
  check_newest(f, step + 1);
  od_saver_free(s);
  od_strings left = OD_STRINGS_INIT;
  CHECK_OK(od_path_list(&left, f->dir));
  for (size_t i = 0; i < left.count; i++)
    if (left.items[i][0] == '.') fail_msg("%s was left behind", left.items[i]);
  od_strings_free(&left);
  return failures;
}

static void full_disk(void **state) { CHECK(fail_at_each(*state, OD_FAULT_ENOSPC) >= 5); }
static void rename_fails(void **state) { CHECK(fail_at_each(*state, OD_FAULT_RENAME) >= 5); }
static void fsync_fails(void **state) { CHECK(fail_at_each(*state, OD_FAULT_FSYNC) >= 5); }

static void short_and_interrupted_writes(void **state) {
  fixture *f = *state;
  od_saver *s;
  CHECK_OK(od_saver_new(&s, f->dir, 3, 0));
  for (uint64_t n = 1; n < 12; n++) {
    od_file_fault(n % 2 ? OD_FAULT_SHORT : OD_FAULT_EINTR, n);
    CHECK_OK(save(f, s, n));
    od_file_fault(OD_FAULT_NONE, 0);
    check_newest(f, n);
  }
  od_saver_free(s);
}

static void keeps_the_newest(void **state) {
  fixture *f = *state;
  od_saver *s;
  CHECK_OK(od_saver_new(&s, f->dir, 2, 0));
  for (uint64_t n = 1; n <= 4; n++) CHECK_OK(save(f, s, n));
  CHECK(!is_there(f, 1) && !is_there(f, 2) && is_there(f, 3) && is_there(f, 4));
  od_saver_free(s);
  CHECK_OK(od_saver_new(&s, f->dir, 2, 0)); /* a resumed run counts those there */
  CHECK_OK(save(f, s, 5));
  CHECK(!is_there(f, 3) && is_there(f, 4) && is_there(f, 5));
  CHECK_OK(save(f, s, 5)); /* the same again is no second one */
  CHECK(is_there(f, 4) && is_there(f, 5));
  od_saver_free(s);
  CHECK_OK(od_saver_new(&s, f->dir, 0, 0)); /* all */
  for (uint64_t n = 6; n <= 12; n++) CHECK_OK(save(f, s, n));
  for (uint64_t n = 4; n <= 12; n++) CHECK(is_there(f, n));
  od_saver_free(s);
}

/* Times of the list are moved into the past, as if hours had gone by. */
static void age(const fixture *f, double preserved, const double *times) {
  od_checkpoint_state c;
  CHECK_OK(od_checkpoint_state_read(&c, f->dir));
  CHECK(c.time_count == c.all.count);
  c.last_preserved = preserved;
  memcpy(c.times, times, sizeof *times * c.time_count);
  CHECK_OK(od_checkpoint_state_write(f->dir, &c));
  od_checkpoint_state_free(&c);
}

static void keeps_one_in_so_many_hours(void **state) {
  fixture *f = *state;
  od_saver *s;
  CHECK_OK(od_saver_new(&s, f->dir, 2, 1.0));
  CHECK_OK(save(f, s, 1));
  CHECK_OK(save(f, s, 2));
  od_saver_free(s);
  age(f, 1000, (const double[]){1000 + 3601, 1000 + 3700});
  CHECK_OK(od_saver_new(&s, f->dir, 2, 1.0));
  CHECK_OK(save(f, s, 3)); /* 1 leaves the list; it was made more than an hour behind the last preserved one: it stays */
  CHECK(is_there(f, 1) && is_there(f, 2) && is_there(f, 3));
  CHECK_OK(save(f, s, 4)); /* 2 was made 99 seconds later */
  CHECK(is_there(f, 1) && !is_there(f, 2) && is_there(f, 3) && is_there(f, 4));
  od_saver_free(s);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {TEST(full_disk), TEST(rename_fails), TEST(fsync_fails), TEST(short_and_interrupted_writes), TEST(keeps_the_newest),
                                     TEST(keeps_one_in_so_many_hours)};
  return cmocka_run_group_tests_name("saver", tests, NULL, NULL);
}
