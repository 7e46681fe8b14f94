/* Event files equal to TensorFlow's bytes (tests/golden/io/events.golden), and the .meta writer. What TensorFlow itself says to
 * both is asked by tests/witness/check_io.py. */
#include "io_test.h"

#include <float.h>
#include <math.h>

#include "io/event.h"
#include "io/metagraph.h"
#include "io/record.h"

#define GOLDEN "tests/golden/io/events.golden"

static od_view text_view(const char *text) { return (od_view){(const uint8_t *)text, strlen(text)}; }

/* The values of make_io_golden.py. */
static void golden_summary(od_str *s) {
  float ramp[500], zeros[5] = {0}, far[5] = {-3e38f, 3e38f, 1e-30f, -1e-30f, 5.0f};
  for (int i = 0; i < 500; i++) ramp[i] = (float)((i % 37 - 18) * 0.125 * pow(10.0, i % 11 - 5));
  od_summary_add_scalar(s, "Losses/TotalLoss", 3.25);
  CHECK_OK(od_summary_add_histogram(s, "ModelVars/conv/weights", ramp, 500));
  CHECK_OK(od_summary_add_histogram(s, "ModelVars/zeros", zeros, 5));
  CHECK_OK(od_summary_add_histogram(s, "ModelVars/none", NULL, 0));
  CHECK_OK(od_summary_add_histogram(s, "ModelVars/far", far, 5));
  od_summary_add_image(s, "image", 2, 3, 3, text_view("PNG!"), false);
  od_summary_add_image(s, "image-0", 9, 9, 9, text_view("PNG?"), true);
}

static void events_equal_tensorflows_bytes(void **state) {
  (void)state;
  od_event_writer *w;
  od_str s = OD_STR_INIT;
  char path[600];
  CHECK_OK(od_event_writer_open(&w, in_scratch("train"), NULL, 1600000000.5));
  snprintf(path, sizeof path, "%s", od_event_writer_path(w));
  CHECK(strstr(path, "train/events.out.tfevents.1600000000."));
  CHECK_OK(od_event_write_session(w, 100, 1600000001.0, OD_SESSION_START, NULL));
  CHECK_OK(od_event_write_graph(w, 0, 1600000002.0, text_view("GRAPH")));
  CHECK_OK(od_event_write_summary(w, 101, 1600000003.25, &s)); /* empty: nothing is written */
  golden_summary(&s);
  CHECK_OK(od_event_write_summary(w, 101, 1600000003.25, &s));
  CHECK_OK(od_event_write_session(w, 102, 1600000004.0, OD_SESSION_CHECKPOINT, "m-102"));
  char *ours, *theirs;
  size_t n, m;
  CHECK_OK(od_file_read_all(&ours, &n, path, 0)); /* before the end: every write is there at once */
  CHECK_OK(od_file_read_all(&theirs, &m, GOLDEN, 0));
  CHECK(n == m && memcmp(ours, theirs, n) == 0);
  CHECK_OK(od_event_writer_close(w));
  od_free(ours);
  od_free(theirs);
  od_str_free(&s);
}

static void events_are_read(void **state) {
  (void)state;
  od_record_reader *r;
  od_view record;
  od_event e;
  int values = 0;
  static const od_event_kind kinds[] = {OD_EVENT_VERSION, OD_EVENT_SESSION, OD_EVENT_GRAPH, OD_EVENT_SUMMARY,
                                        OD_EVENT_SESSION};
  CHECK_OK(od_record_reader_open(&r, GOLDEN, NULL));
  for (int i = 0; i < 5; i++) {
    CHECK_OK(od_record_read(r, &record));
    CHECK_OK(od_event_parse(&e, record));
    CHECK(e.kind == kinds[i] && e.wall_time >= 1600000000.5);
    if (e.kind == OD_EVENT_VERSION) CHECK(od_view_is(e.payload, "brain.Event:2"));
    if (e.kind != OD_EVENT_SUMMARY) continue;
    CHECK(e.step == 101);
    od_summary_value v;
    od_wire w = od_wire_over(e.payload);
    for (; od_summary_next(&w, &v); values++) {
      if (values == 0) CHECK(od_view_is(v.tag, "Losses/TotalLoss") && v.kind == OD_VALUE_SCALAR && v.scalar == 3.25);
      if (values == 1) CHECK(v.kind == OD_VALUE_HISTOGRAM && v.count == 500 && v.max > v.min);
      if (values == 3) CHECK(v.kind == OD_VALUE_HISTOGRAM && v.count == 0 && v.min == DBL_MAX);
      if (values == 5)
        CHECK(v.kind == OD_VALUE_IMAGE && v.height == 2 && v.width == 3 && od_view_is(v.encoded, "PNG!"));
      if (values == 6) CHECK(v.kind == OD_VALUE_IMAGE && v.height == 0 && od_view_is(v.tag, "image-0"));
    }
    CHECK(!w.bad);
  }
  CHECK(values == 7 && od_record_read(r, &record) == OD_END);
  od_record_reader_free(r);
  CHECK_FAILS(od_event_parse(&e, text_view("\x0a\x05hi")), OD_EDATA, "no Event");
}

static void names_of_event_files_do_not_clash(void **state) {
  (void)state;
  od_event_writer *a, *b, *c;
  CHECK_OK(od_event_writer_open(&a, in_scratch("clash"), ".v2", 1.0));
  CHECK_OK(od_event_writer_open(&b, in_scratch("clash"), ".v2", 1.0));
  CHECK_OK(od_event_writer_open(&c, in_scratch("clash"), NULL, 0));
  CHECK(strstr(od_event_writer_path(a), "tfevents.0000000001.") && od_ends_with(od_event_writer_path(a), ".v2"));
  CHECK(od_ends_with(od_event_writer_path(b), ".v2_1"));
  CHECK_OK(od_event_writer_close(a));
  CHECK_OK(od_event_writer_close(b));
  CHECK_OK(od_event_writer_close(c));
  CHECK_OK(od_file_write_all(in_scratch("f"), "x", 1));
  CHECK_FAILS(od_event_writer_open(&a, in_scratch("f"), NULL, 1.0), OD_EIO, "is a file");
}

static void histograms_refuse_what_is_no_number(void **state) {
  (void)state;
  od_str s = OD_STR_INIT;
  float v[3] = {1, 2, NAN};
  CHECK_FAILS(od_summary_add_histogram(&s, "w", v, 3), OD_ENUMERIC, "'w': value 2 of 3");
  v[2] = INFINITY;
  CHECK_FAILS(od_summary_add_histogram(&s, "w", v, 3), OD_ENUMERIC, "inf");
  CHECK(s.len == 0);
  od_str_free(&s);
}

static void a_full_disk_is_said_at_the_write(void **state) {
  (void)state;
  od_event_writer *w;
  od_str s = OD_STR_INIT;
  od_summary_add_scalar(&s, "a", 1);
  CHECK_OK(od_event_writer_open(&w, in_scratch("full"), NULL, 0));
  od_file_fault(OD_FAULT_ENOSPC, 1);
  CHECK_FAILS(od_event_write_summary(w, 1, 0, &s), OD_EIO, "tfevents");
  CHECK_OK(od_event_write_summary(w, 2, 0, &s));
  /* Half a graph is taken back: what follows stays readable. */
  enum { GRAPH = 200000 };
  uint8_t *graph = od_calloc(GRAPH, 1);
  CHECK(graph != NULL);
  for (uint64_t at = 1; at <= 3; at++) {
    od_file_fault(OD_FAULT_ENOSPC, at);
    CHECK_FAILS(od_event_write_graph(w, 0, 0, (od_view){graph, GRAPH}), OD_EIO, "disk is full");
    od_file_fault(OD_FAULT_NONE, 0);
    CHECK_OK(od_event_write_summary(w, 3, 0, &s));
  }
  od_free(graph);
  char path[600];
  snprintf(path, sizeof path, "%s", od_event_writer_path(w));
  CHECK_OK(od_event_writer_close(w));
  od_record_reader *r;
  od_view record;
  int events = 0;
  CHECK_OK(od_record_reader_open(&r, path, NULL));
  while (od_record_read(r, &record) == OD_OK) events++;
  CHECK(od_record_read(r, &record) == OD_END && events == 1 + 1 + 3);
  od_record_reader_free(r);
  od_str_free(&s);
}

/* ------------------------------------------------------------------------------------------------------------ metagraph */
static void metagraphs_are_deterministic_and_checked(void **state) {
  (void)state;
  const od_meta_variable vars[] = {{"conv/weights", OD_F32, OD_SHAPE(3, 3, 1, 2), true},
                                   {"conv/BatchNorm/moving_mean", OD_F32, OD_SHAPE(2), false},
                                   {"global_step", OD_I64, OD_SCALAR, false},
                                   {"conv/weights/RMSProp", OD_F32, OD_SHAPE(3, 3, 1, 2), false}};
  od_str a = OD_STR_INIT, b = OD_STR_INIT;
  CHECK_OK(od_metagraph_put(&a, vars, 4));
  CHECK_OK(od_metagraph_put(&b, vars, 4));
  CHECK(a.len == b.len && memcmp(a.data, b.data, a.len) == 0);
  od_wire w = od_wire_over((od_view){(const uint8_t *)a.data, a.len}), g;
  od_wire_field f, node;
  int collections = 0, nodes = 0;
  while (od_wire_next(&w, &f)) {
    if (f.number == 4) collections++;
    if (f.number != 2) continue;
    for (g = od_wire_over(f.bytes); od_wire_next(&g, &node);) nodes += node.number == 1;
  }
  CHECK(!w.bad && collections == 3 && nodes == 4 * 4 + 3 + 3 + 1 + 3 + 4 + 1);
  const od_meta_variable twice[] = {vars[0], vars[0]};
  CHECK_FAILS(od_metagraph_put(&b, twice, 2), OD_EINVAL, "'conv/weights' is there twice");
  const od_meta_variable odd[] = {{"a b", OD_F32, OD_SCALAR, true}};
  CHECK_FAILS(od_metagraph_put(&b, odd, 1), OD_EINVAL, "'a b'");
  od_str_free(&a);
  od_str_free(&b);
  for (uint64_t at = 1;; at++) {
    od_mem_fail_at(at);
    od_status st = od_metagraph_put(&a, vars, 4);
    od_mem_fail_at(0);
    od_str_free(&a);
    if (!st) break;
    CHECK(st == OD_ENOMEM && at < 200);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(events_equal_tensorflows_bytes),    cmocka_unit_test(events_are_read),
      cmocka_unit_test(names_of_event_files_do_not_clash), cmocka_unit_test(histograms_refuse_what_is_no_number),
      cmocka_unit_test(a_full_disk_is_said_at_the_write),  cmocka_unit_test(metagraphs_are_deterministic_and_checked),
  };
  return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
