/* TFRecord files and tf.Examples: round trips, damage of every kind, and files that other programs made. */
#include "io_test.h"

#include "io/example.h"
#include "io/record.h"
#include "io/wire.h"

#define PETS "data/tf_models_testdata/research/object_detection/test_data/pets_examples.record"
#define CRLF "data/tfrecord_corrupted_crlf/models/research/object_detection/test_data/pets_examples.record"

/* Payload i of the tests: growing, with bytes of every value. */
static size_t payload(uint8_t *to, size_t i) {
  size_t n = i * 37 % 900;
  for (size_t k = 0; k < n; k++) to[k] = (uint8_t)(i * 31 + k * 7);
  return n;
}

static void write_records(const char *path, size_t n, od_record_compression c) {
  od_record_writer *w;
  uint8_t b[900];
  CHECK_OK(od_record_writer_open(&w, path, &(od_record_options){.compression = c}));
  for (size_t i = 0; i < n; i++) {
    size_t size = payload(b, i);
    CHECK_OK(od_record_write(w, b, size));
  }
  CHECK_OK(od_record_writer_close(w));
}

static void expect_records(const char *path, size_t n, od_record_compression c) {
  od_record_reader *r;
  od_view v;
  uint8_t b[900];
  CHECK_OK(od_record_reader_open(&r, path, NULL));
  CHECK(od_record_reader_compression(r) == c);
  for (size_t i = 0; i < n; i++) {
    CHECK_OK(od_record_read(r, &v));
    size_t size = payload(b, i);
    CHECK(v.size == size && (size == 0 || memcmp(v.data, b, size) == 0));
    CHECK(od_record_reader_number(r) == i);
  }
  CHECK(od_record_read(r, &v) == OD_END && od_record_read(r, &v) == OD_END);
  od_record_reader_free(r);
}

static void records_come_back(void **state) {
  (void)state;
  static const od_record_compression forms[] = {OD_RECORD_PLAIN, OD_RECORD_GZIP, OD_RECORD_ZLIB};
  for (size_t f = 0; f < 3; f++)
    for (size_t n = 0; n < 300; n = n * 2 + 1) {
      if (n == 0 && forms[f] == OD_RECORD_PLAIN) {
        write_records(in_scratch("r"), n, forms[f]);
        expect_records(in_scratch("r"), n, OD_RECORD_PLAIN);
        continue;
      }
      write_records(in_scratch("r"), n, forms[f]);
      expect_records(in_scratch("r"), n, forms[f]);
      bool is;
      CHECK_OK(od_record_probe(&is, in_scratch("r")));
      CHECK(is == (n > 0));
    }
  od_record_file *f;
  CHECK_FAILS(od_record_file_open(&f, in_scratch("r"), NULL), OD_EUNSUPPORTED, "compressed");
}

/* Made by TensorFlow: tests/witness/make_io_golden.py. */
static void packed_records_of_tensorflow_are_read(void **state) {
  (void)state;
  expect_records("tests/golden/io/gzip.record", 20, OD_RECORD_GZIP);
  expect_records("tests/golden/io/zlib.record", 20, OD_RECORD_ZLIB);
}

static void members_of_gzip_are_joined(void **state) {
  (void)state;
  char *data;
  size_t n;
  write_records(in_scratch("m"), 1, OD_RECORD_GZIP);
  CHECK_OK(od_file_read_all(&data, &n, in_scratch("m"), 0));
  od_str two = OD_STR_INIT;
  od_str_add_bytes(&two, data, n);
  od_str_add_bytes(&two, data, n);
  CHECK_OK(od_file_write_all(in_scratch("m"), two.data, two.len));
  od_record_reader *r;
  od_view v;
  CHECK_OK(od_record_reader_open(&r, in_scratch("m"), NULL));
  CHECK_OK(od_record_read(r, &v));
  CHECK_OK(od_record_read(r, &v));
  CHECK(od_record_read(r, &v) == OD_END);
  od_record_reader_free(r);
  od_free(data);
  od_str_free(&two);
}

static void records_are_read_at_random(void **state) {
  (void)state;
  od_record_file *f;
  od_str s = OD_STR_INIT;
  uint8_t b[900];
  write_records(in_scratch("x"), 200, OD_RECORD_PLAIN);
  CHECK_OK(od_record_file_open(&f, in_scratch("x"), NULL));
  CHECK(od_record_file_count(f) == 200);
  for (size_t k = 0; k < 400; k++) {
    size_t i = k * 77 % 200, n = payload(b, i);
    CHECK_OK(od_record_file_read(f, i, &s));
    CHECK(s.len == n && memcmp(s.data, b, n) == 0 && od_record_file_payload_size(f, i) == n);
  }
  od_record_file_free(f);
  CHECK_FAILS(od_record_file_open(&f, in_scratch("x"), &(od_record_options){.max_record = 500}), OD_EDATA,
              "at most 500");
  od_str_free(&s);
}

/* Every way to read a file; returns the worst that was said and how many records came. */
static od_status read_both(const char *path, size_t *count) {
  od_record_reader *r;
  od_view v;
  *count = 0;
  od_status st = od_record_reader_open(&r, path, NULL);
  if (st) return st;
  while (!(st = od_record_read(r, &v))) (*count)++;
  od_record_reader_free(r);
  od_record_file *f;
  od_str s = OD_STR_INIT;
  od_status other = od_record_file_open(&f, path, NULL);
  if (!other) {
    for (uint64_t i = 0; i < od_record_file_count(f) && !other; i++) other = od_record_file_read(f, i, &s);
    od_record_file_free(f);
  }
  od_str_free(&s);
  if (other != OD_EUNSUPPORTED) CHECK((other == OD_OK) == (st == OD_END));
  return st;
}

static void files_cut_at_every_byte_are_refused(void **state) {
  (void)state;
  for (int packed = 0; packed < 2; packed++) {
    char *data;
    size_t n, count;
    write_records(in_scratch("whole"), 4, packed ? OD_RECORD_GZIP : OD_RECORD_PLAIN);
    CHECK_OK(od_file_read_all(&data, &n, in_scratch("whole"), 0));
    size_t ends[6] = {0}, at = 0, whole = 0;
    for (size_t i = 0; i < 4 && !packed; i++) ends[i + 1] = at += 16 + i * 37;
    for (size_t cut = 0; cut < n; cut++) {
      put_quickly(in_scratch("cut"), data, cut);
      od_status st = read_both(in_scratch("cut"), &count);
      if (!packed && whole < 4 && cut == ends[whole + 1]) whole++;
      bool between = cut == 0 || (!packed && cut == ends[whole]);
      if (between)
        CHECK(st == OD_END && count == whole);
      else
        CHECK(st == OD_EDATA && strstr(od_message(), in_scratch("cut")));
    }
    od_free(data);
  }
}

static void flipped_bits_are_found(void **state) {
  (void)state;
  for (int packed = 0; packed < 2; packed++) {
    char *data;
    size_t n, count, harmless = 0;
    write_records(in_scratch("whole"), 3, packed ? OD_RECORD_ZLIB : OD_RECORD_PLAIN);
    CHECK_OK(od_file_read_all(&data, &n, in_scratch("whole"), 0));
    for (size_t bit = 0; bit < n * 8; bit++) {
      data[bit / 8] = (char)(data[bit / 8] ^ (1 << bit % 8));
      put_quickly(in_scratch("flip"), data, n);
      od_status st = read_both(in_scratch("flip"), &count);
      if (packed && st == OD_END && count == 3)
        harmless++;
      else
        CHECK(st == OD_EDATA);
      data[bit / 8] = (char)(data[bit / 8] ^ (1 << bit % 8));
    }
    CHECK(harmless < 16); /* deflate: filling bits of the last byte, a code length nobody uses */
    od_free(data);
  }
}

static void a_bad_payload_can_be_skipped(void **state) {
  (void)state;
  char *data;
  size_t n;
  write_records(in_scratch("s"), 5, OD_RECORD_PLAIN);
  CHECK_OK(od_file_read_all(&data, &n, in_scratch("s"), 0));
  data[16 + 12 + 3] ^= 1; /* in the payload of record 1 */
  CHECK_OK(od_file_write_all(in_scratch("s"), data, n));
  od_record_reader *r;
  od_view v;
  CHECK_OK(od_record_reader_open(&r, in_scratch("s"), NULL));
  CHECK_OK(od_record_read(r, &v));
  CHECK_FAILS(od_record_read(r, &v), OD_EDATA, "record 1 at byte 16: the CRC of the payload is wrong");
  CHECK(od_record_reader_can_skip(r));
  CHECK_OK(od_record_read(r, &v));
  CHECK(od_record_reader_number(r) == 2);
  CHECK_OK(od_record_read(r, &v));
  CHECK_OK(od_record_read(r, &v));
  CHECK(od_record_read(r, &v) == OD_END);
  od_record_reader_free(r);
  od_free(data);
}

static void shards_take_turns(void **state) {
  (void)state;
  od_record_shards *s;
  CHECK_OK(od_record_shards_open(&s, in_scratch("sh/t.record"), 3, NULL));
  for (uint64_t i = 0; i < 10; i++)
    if (i != 4) CHECK_OK(od_record_shards_write(s, i, &i, sizeof i));
  CHECK_OK(od_record_shards_close(s));
  od_record_file *f;
  od_str b = OD_STR_INIT;
  CHECK_OK(od_record_file_open(&f, in_scratch("sh/t.record-00001-of-00003"), NULL));
  CHECK(od_record_file_count(f) == 2); /* 1 and 7; 4 was skipped */
  CHECK_OK(od_record_file_read(f, 1, &b));
  CHECK(b.len == 8 && b.data[0] == 7);
  od_record_file_free(f);
  od_str_free(&b);
  CHECK_OK(od_record_shards_open(&s, in_scratch("sh/single"), 0, NULL));
  CHECK_OK(od_record_shards_close(s));
  CHECK(od_path_exists(in_scratch("sh/single")));
  CHECK_OK(od_record_shards_open(&s, in_scratch("gone"), 2, NULL));
  od_record_shards_drop(s);
  CHECK(!od_path_exists(in_scratch("gone-00000-of-00002")));
  CHECK_FAILS(od_record_shards_open(&s, in_scratch("n"), -1, NULL), OD_EINVAL, "-1 shards");
}

static void a_full_disk_leaves_nothing(void **state) {
  (void)state;
  size_t before = files_in_scratch();
  uint8_t b[900] = {0};
  for (int packed = 0; packed < 2; packed++)
    for (uint64_t at = 1; at < 4; at++) {
      od_record_writer *w;
      od_status st = OD_OK;
      CHECK_OK(od_record_writer_open(&w, in_scratch("full"),
                                     packed ? &(od_record_options){.compression = OD_RECORD_GZIP} : NULL));
      od_file_fault(OD_FAULT_ENOSPC, at);
      for (unsigned i = 0; i < 400 && !st; i++) {
        for (size_t k = 0; k < sizeof b; k++) b[k] = (uint8_t)((i + 1) * (k + 7) * 2654435761u >> 13);
        st = od_record_write(w, b, sizeof b);
      }
      if (st)
        od_record_writer_drop(w);
      else
        st = od_record_writer_close(w);
      od_file_fault(OD_FAULT_NONE, 0);
      CHECK(st == OD_EIO && strstr(od_message(), "disk is full"));
      CHECK(files_in_scratch() == before);
    }
}

static void memory_may_run_out_anywhere(void **state) {
  (void)state;
  write_records(in_scratch("mem"), 20, OD_RECORD_PLAIN);
  write_records(in_scratch("memz"), 20, OD_RECORD_GZIP);
  for (int z = 0; z < 2; z++)
    for (uint64_t at = 1;; at++) {
      size_t count = 0;
      CHECK(at < 200);
      od_mem_fail_at(at);
      od_record_reader *r;
      od_view v;
      od_status st = od_record_reader_open(&r, in_scratch(z ? "memz" : "mem"), NULL);
      if (!st) {
        while (!(st = od_record_read(r, &v))) count++;
        od_record_reader_free(r);
      }
      od_mem_fail_at(0);
      if (st == OD_END) break;
      CHECK(st == OD_ENOMEM);
    }
}

/* ------------------------------------------------------------------------------------------------------------ examples */
static void examples_come_back(void **state) {
  (void)state;
  od_example_builder *b;
  od_str s = OD_STR_INIT;
  float f[3] = {0.25f, -1.5f, 3e38f};
  int64_t n[4] = {0, -1, INT64_MAX, INT64_MIN};
  od_view list[2] = {{(const uint8_t *)"cat", 3}, {(const uint8_t *)"", 0}};
  CHECK_OK(od_example_builder_new(&b));
  for (int round = 0; round < 2; round++) {
    od_example_add_text(b, "zeta", "old");
    od_example_add_floats(b, "box", f, 3);
    od_example_add_int64s(b, "ids", n, 4);
    od_example_add_bytes_list(b, "names", list, 2);
    od_example_add_floats(b, "empty", NULL, 0);
    od_example_add_int64(b, "height", 480);
    od_example_add_text(b, "zeta", "new");
    od_str_clear(&s);
    CHECK_OK(od_example_builder_finish(b, &s));
    od_example_builder_reset(b);
  }
  od_example ex = OD_EXAMPLE_INIT;
  CHECK_OK(od_example_parse(&ex, s.data, s.len));
  CHECK(ex.count == 6);
  for (size_t i = 1; i < ex.count; i++) CHECK(ex.features[i - 1].key.data[0] <= ex.features[i].key.data[0]);
  const float *fv;
  const int64_t *nv;
  const od_view *bv;
  size_t count;
  CHECK_OK(od_example_get_floats(&ex, "box", &fv, &count));
  CHECK(count == 3 && memcmp(fv, f, sizeof f) == 0);
  CHECK_OK(od_example_get_int64s(&ex, "ids", &nv, &count));
  CHECK(count == 4 && memcmp(nv, n, sizeof n) == 0);
  CHECK_OK(od_example_get_bytes(&ex, "names", &bv, &count));
  CHECK(count == 2 && od_view_is(bv[0], "cat") && bv[1].size == 0);
  CHECK(od_example_find(&ex, "empty")->kind == OD_FEATURE_FLOAT && od_example_find(&ex, "empty")->count == 0);
  CHECK_OK(od_example_get_int64s(&ex, "empty", &nv, &count));
  CHECK(count == 0);
  int64_t h;
  od_view text;
  CHECK_OK(od_example_get_int64(&ex, "height", &h, 1));
  CHECK(h == 480);
  CHECK_OK(od_example_get_int64(&ex, "width", &h, 1));
  CHECK(h == 1);
  CHECK_OK(od_example_get_text(&ex, "zeta", &text, ""));
  CHECK(od_view_is(text, "new"));
  CHECK_FAILS(od_example_get_floats(&ex, "ids", &fv, &count), OD_EDATA, "'ids' is a list of int64, float was expected");
  /* Cut anywhere, it is refused or at least never read beyond its end. */
  for (size_t cut = 1; cut < s.len; cut++) {
    char *part = od_alloc(cut);
    memcpy(part, s.data, cut);
    CHECK(od_example_parse(&ex, part, cut) == OD_EDATA);
    od_free(part);
  }
  od_example_free(&ex);
  od_example_builder_free(b);
  od_str_free(&s);
}

/* Unpacked numbers, packed and unpacked mixed, a oneof set twice, a key twice, unknown fields, a group. */
static void unusual_examples_are_read(void **state) {
  (void)state;
  od_str s = OD_STR_INIT;
  size_t features = od_wire_begin(&s, 1);
  for (int twice = 0; twice < 2; twice++) {
    size_t pair = od_wire_begin(&s, 1);
    size_t feature = od_wire_begin(&s, 2); /* value before key */
    size_t list = od_wire_begin(&s, OD_FEATURE_FLOAT);
    od_wire_put_float(&s, 1, 9.0f);
    od_wire_end(&s, list);
    list = od_wire_begin(&s, OD_FEATURE_INT64); /* takes the place of the floats */
    od_wire_put_varint(&s, 1, 5);
    if (twice) {
      size_t packed = od_wire_begin(&s, 1);
      od_wire_raw_varint(&s, 6);
      od_wire_raw_varint(&s, 700);
      od_wire_end(&s, packed);
    }
    od_wire_put_varint(&s, 99, 1); /* unknown */
    od_wire_end(&s, list);
    list = od_wire_begin(&s, OD_FEATURE_INT64); /* merged with the list before */
    od_wire_put_varint(&s, 1, 8);
    od_wire_end(&s, list);
    od_wire_end(&s, feature);
    od_wire_put_text(&s, 1, "k");
    od_wire_end(&s, pair);
  }
  od_wire_end(&s, features);
  od_str_add_bytes(&s, "\x1b\x08\x01\x1c", 4); /* group 3 {1: 1} */
  od_example ex = OD_EXAMPLE_INIT;
  CHECK_OK(od_example_parse(&ex, s.data, s.len));
  CHECK(ex.count == 1);
  const int64_t *v;
  size_t n;
  CHECK_OK(od_example_get_int64s(&ex, "k", &v, &n));
  CHECK(n == 4 && v[0] == 5 && v[1] == 6 && v[2] == 700 && v[3] == 8);
  od_example_free(&ex);
  od_str_free(&s);
}

static void building_survives_short_memory(void **state) {
  (void)state;
  for (uint64_t at = 1;; at++) {
    od_example_builder *b = NULL;
    od_str s = OD_STR_INIT;
    od_example ex = OD_EXAMPLE_INIT;
    CHECK(at < 100);
    od_mem_fail_at(at);
    od_status st = od_example_builder_new(&b);
    if (!st) {
      for (int i = 0; i < 12; i++) od_example_add_int64(b, (char[]){(char)('a' + i), 0}, i);
      st = od_example_builder_finish(b, &s);
    }
    const int64_t *v;
    size_t n;
    if (!st) st = od_example_parse(&ex, s.data, s.len);
    if (!st) st = od_example_get_int64s(&ex, "l", &v, &n);
    od_mem_fail_at(0);
    if (!st) CHECK(n == 1 && v[0] == 11);
    od_example_free(&ex);
    od_example_builder_free(b);
    od_str_free(&s);
    if (!st) break;
    CHECK(st == OD_ENOMEM);
  }
}

/* ------------------------------------------------------------------------------------------------------------ real files */
static void the_pets_are_read(void **state) {
  (void)state;
  NEED_SHARED(path, PETS);
  od_record_reader *r;
  od_view v;
  od_example ex = OD_EXAMPLE_INIT;
  int n = 0, chihuahua = 0;
  CHECK_OK(od_record_reader_open(&r, path, NULL));
  while (od_record_read(r, &v) == OD_OK) {
    od_view name, jpeg;
    const float *xmin;
    const int64_t *label;
    size_t boxes, labels;
    int64_t height;
    CHECK_OK(od_example_parse(&ex, v.data, v.size));
    CHECK_OK(od_example_get_text(&ex, "image/filename", &name, ""));
    CHECK_OK(od_example_get_text(&ex, "image/encoded", &jpeg, ""));
    CHECK_OK(od_example_get_floats(&ex, "image/object/bbox/xmin", &xmin, &boxes));
    CHECK_OK(od_example_get_int64s(&ex, "image/object/class/label", &label, &labels));
    CHECK_OK(od_example_get_int64(&ex, "image/height", &height, 0));
    CHECK(boxes == labels && boxes >= 1 && xmin[0] >= 0 && xmin[0] <= 1 && height > 100);
    CHECK(jpeg.size > 1000 && jpeg.data[0] == 0xff && jpeg.data[1] == 0xd8);
    if (od_view_is(name, "chihuahua_153.jpg")) chihuahua += label[0] == 11;
    n++;
  }
  CHECK(od_record_read(r, &v) == OD_END);
  CHECK(n == 10 && chihuahua == 1);
  od_record_reader_free(r);
  od_example_free(&ex);
}

static void the_crosswalks_are_read(void **state) {
  (void)state;
  static const struct {
    const char *path;
    uint64_t count;
  } sets[] = {{"data/tf_models_testdata/crosswalk_4_dataset/train/crosswalk.tfrecord", 111},
              {"data/tf_models_testdata/crosswalk_4_dataset/valid/crosswalk.tfrecord", 10},
              {"data/tf_models_testdata/crosswalk_4_dataset/test/crosswalk.tfrecord", 10}};
  for (size_t i = 0; i < 3; i++) {
    NEED_SHARED(path, sets[i].path);
    od_record_file *f;
    od_str s = OD_STR_INIT;
    od_example ex = OD_EXAMPLE_INIT;
    CHECK_OK(od_record_file_open(&f, path, NULL));
    CHECK(od_record_file_count(f) == sets[i].count);
    for (uint64_t k = 0; k < sets[i].count; k++) {
      CHECK_OK(od_record_file_read(f, k, &s));
      CHECK_OK(od_example_parse(&ex, s.data, s.len));
      CHECK(od_example_find(&ex, "image/encoded"));
    }
    od_record_file_free(f);
    od_example_free(&ex);
    od_str_free(&s);
  }
}

static void line_end_damage_is_named(void **state) {
  (void)state;
  NEED_SHARED(path, CRLF);
  od_record_reader *r;
  od_view v;
  CHECK_OK(od_record_reader_open(&r, path, NULL));
  od_status st = od_record_read(r, &v);
  CHECK_FAILS(st, OD_EDATA, "record 0 at byte 0");
  CHECK(strstr(od_message(), "line-end conversion") && strstr(od_message(), path));
  od_record_reader_free(r);
  /* The other direction: a carriage return put before every line feed. */
  char *data;
  size_t n;
  NEED_SHARED(good, PETS);
  CHECK_OK(od_file_read_all(&data, &n, good, 0));
  od_str s = OD_STR_INIT;
  for (size_t i = 0; i < n; i++) {
    if (data[i] == '\n' && (i == 0 || data[i - 1] != '\r')) od_str_add(&s, "\r");
    od_str_add_bytes(&s, data + i, 1);
  }
  CHECK_OK(od_file_write_all(in_scratch("crlf"), s.data, s.len));
  CHECK_OK(od_record_reader_open(&r, in_scratch("crlf"), NULL));
  CHECK_FAILS(od_record_read(r, &v), OD_EDATA, "every line feed in it follows a carriage return");
  od_record_reader_free(r);
  od_str_free(&s);
  od_free(data);
}

static void other_files_are_no_records(void **state) {
  (void)state;
  bool is;
  CHECK_OK(od_file_write_all(in_scratch("text"), "hello, this is text\n", 20));
  CHECK_OK(od_record_probe(&is, in_scratch("text")));
  CHECK(!is);
  od_record_reader *r;
  od_view v;
  CHECK_OK(od_record_reader_open(&r, in_scratch("text"), NULL));
  CHECK_FAILS(od_record_read(r, &v), OD_EDATA, "were no TFRecord file");
  od_record_reader_free(r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(records_come_back),
      cmocka_unit_test(packed_records_of_tensorflow_are_read),
      cmocka_unit_test(members_of_gzip_are_joined),
      cmocka_unit_test(records_are_read_at_random),
      cmocka_unit_test(files_cut_at_every_byte_are_refused),
      cmocka_unit_test(flipped_bits_are_found),
      cmocka_unit_test(a_bad_payload_can_be_skipped),
      cmocka_unit_test(shards_take_turns),
      cmocka_unit_test(a_full_disk_leaves_nothing),
      cmocka_unit_test(memory_may_run_out_anywhere),
      cmocka_unit_test(examples_come_back),
      cmocka_unit_test(unusual_examples_are_read),
      cmocka_unit_test(building_survives_short_memory),
      cmocka_unit_test(the_pets_are_read),
      cmocka_unit_test(the_crosswalks_are_read),
      cmocka_unit_test(line_end_damage_is_named),
      cmocka_unit_test(other_files_are_no_records),
  };
  return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
