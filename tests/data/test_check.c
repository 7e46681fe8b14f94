/* `check` on records: 40 generated defects, each found where it is; nothing found in clean sets. */
#include "data_test.h"

#include <math.h>

#include "data/record_check.h"
#include "image/encode.h"
#include "io/textproto.h"

/* ------------------------------------------------------------------------------------------------ a record to spoil */
typedef struct {
  od_example_builder *b;
  od_str picture; /* the encoded picture */
  int height, width;
  float side[4][2]; /* ymin xmin ymax xmax of two boxes */
  int64_t label[2], difficult[2];
  float weight[2];
  const char *text[2], *format, *sha;
  char source_id[32];
  size_t n[4]; /* values a side */
  size_t texts, labels, difficults, weights;
  bool leave_out_picture;
} plan;

typedef struct {
  const char *name;
  od_finding_kind kind;
  int box; /* -1: none */
  void (*spoil)(plan *p);
} defect;

static void encode(plan *p, int seed) {
  od_image im;
  CHECK_OK(od_image_new(&im, p->height, p->width, 3));
  for (int i = 0; i < p->height * p->width * 3; i++) im.data[i] = (uint8_t)(i * 31 / (7 + seed) + seed * 17);
  od_str_clear(&p->picture);
  CHECK_OK(od_jpeg_encode(&p->picture, &im, 90));
  od_image_free(&im);
}

static void build(plan *p) {
  static const char *const keys[4] = {"image/object/bbox/ymin", "image/object/bbox/xmin", "image/object/bbox/ymax",
                                      "image/object/bbox/xmax"};
  char sha[65];
  od_convert_sha256(sha, p->picture.data, p->picture.len);
  if (!p->leave_out_picture) od_example_add_bytes(p->b, "image/encoded", p->picture.data, p->picture.len);
  od_example_add_int64(p->b, "image/height", 30);
  od_example_add_int64(p->b, "image/width", 40);
  od_example_add_text(p->b, "image/source_id", p->source_id);
  od_example_add_text(p->b, "image/format", p->format);
  od_example_add_text(p->b, "image/key/sha256", p->sha ? p->sha : sha);
  for (int k = 0; k < 4; k++) od_example_add_floats(p->b, keys[k], p->side[k], p->n[k]);
  od_view v[2];
  for (int i = 0; i < 2; i++) v[i] = (od_view){(const uint8_t *)p->text[i], strlen(p->text[i])};
  od_example_add_bytes_list(p->b, "image/object/class/text", v, p->texts);
  od_example_add_int64s(p->b, "image/object/class/label", p->label, p->labels);
  od_example_add_int64s(p->b, "image/object/difficult", p->difficult, p->difficults);
  od_example_add_floats(p->b, "image/object/weight", p->weight, p->weights);
}

static plan good(int i) {
  plan p = {.height = 30,
            .width = 40,
            .label = {1, 2},
            .weight = {1, 1},
            .text = {"cat", "dog"},
            .format = "jpeg",
            .side = {{0.1f, 0.3f}, {0.2f, 0.1f}, {0.5f, 0.9f}, {0.6f, 1.0f}},
            .n = {2, 2, 2, 2},
            .texts = 2,
            .labels = 2,
            .difficults = 2,
            .weights = 2};
  snprintf(p.source_id, sizeof p.source_id, "%d.jpg", i);
  encode(&p, i);
  CHECK_OK(od_example_builder_new(&p.b));
  return p;
}

/* ---- the defects ---- */
#define SPOIL(name, code)                                                                                              \
  static void name(plan *p) { code; }
SPOIL(ymin_above_ymax, p->side[0][1] = 0.95f)
SPOIL(xmin_above_xmax, p->side[1][0] = 0.7f)
SPOIL(negative_ymin, p->side[0][0] = -0.01f)
SPOIL(negative_xmin, p->side[1][1] = -0.2f)
SPOIL(ymax_beyond_one, p->side[2][1] = 1.01f)
SPOIL(xmax_in_pixels, p->side[3][1] = 39)
SPOIL(nan_ymin, p->side[0][0] = NAN)
SPOIL(nan_xmax, p->side[3][1] = NAN)
SPOIL(infinite_ymax, p->side[2][0] = INFINITY)
SPOIL(no_height, p->side[2][0] = p->side[0][0])
SPOIL(no_width, p->side[3][1] = p->side[1][1])
SPOIL(less_than_a_pixel, p->side[2][1] = p->side[0][1] + 0.01f)
SPOIL(same_box_twice, for (int k = 0; k < 4; k++) p->side[k][1] = p->side[k][0]; p->label[1] = 1; p->text[1] = "cat")
SPOIL(unknown_text, p->text[1] = "dgo")
SPOIL(empty_text, p->text[0] = "")
SPOIL(other_case, p->text[0] = "Cat")
SPOIL(text_against_label, p->label[1] = 1)
SPOIL(label_zero, p->texts = 0; p->label[0] = 0)
SPOIL(label_negative, p->texts = 0; p->label[1] = -1)
SPOIL(label_too_large, p->texts = 0; p->label[1] = 9)
SPOIL(one_ymax_missing, p->n[2] = 1)
SPOIL(no_xmin_at_all, p->n[1] = 0)
SPOIL(one_label_missing, p->labels = 1)
SPOIL(one_text_missing, p->texts = 1)
SPOIL(no_classes, p->texts = p->labels = 0)
SPOIL(one_difficult_missing, p->difficults = 1)
SPOIL(one_weight_missing, p->weights = 1)
SPOIL(negative_weight, p->weight[1] = -1)
SPOIL(nan_weight, p->weight[0] = NAN)
SPOIL(no_boxes, memset(p->n, 0, sizeof p->n); p->texts = p->labels = p->difficults = p->weights = 0)
SPOIL(no_picture, p->leave_out_picture = true)
SPOIL(empty_picture, od_str_clear(&p->picture))
SPOIL(picture_ends_early, p->picture.len /= 2)
SPOIL(picture_is_html, od_str_clear(&p->picture); od_str_add(&p->picture, "<!DOCTYPE html><html>"))
SPOIL(other_size, p->height = 60; p->width = 80; encode(p, 3))
SPOIL(says_png, p->format = "png")
SPOIL(wrong_sha, p->sha = "0000000000000000000000000000000000000000000000000000000000000000")
SPOIL(the_same_picture, encode(p, 1))
SPOIL(the_same_source_id, strcpy(p->source_id, "1.jpg"))
SPOIL(labels_as_text, od_example_add_text(p->b, "image/object/class/label", "1"); p->labels = 99)

static void rotated(plan *p) {
  static const char exif[] = "\xff\xe1\x00\x22"
                             "Exif\0\0MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
  od_str s = OD_STR_INIT;
  od_str_add_bytes(&s, p->picture.data, 2);
  od_str_add_bytes(&s, exif, 36);
  od_str_add_bytes(&s, p->picture.data + 2, p->picture.len - 2);
  od_str_free(&p->picture);
  p->picture = s;
}

static void png_named_jpeg(plan *p) {
  od_image im;
  CHECK_OK(od_image_new(&im, 30, 40, 3));
  memset(im.data, 9, 30 * 40 * 3);
  od_str_clear(&p->picture);
  CHECK_OK(od_png_encode(&p->picture, &im));
  od_image_free(&im);
}

static const defect defects[] = {
#define D(name, kind, box)                                                                                             \
  { #name, kind, box, name }
    D(ymin_above_ymax, OD_FIND_BOX_ORDER, 1),
    D(xmin_above_xmax, OD_FIND_BOX_ORDER, 0),
    D(negative_ymin, OD_FIND_BOX_RANGE, 0),
    D(negative_xmin, OD_FIND_BOX_RANGE, 1),
    D(ymax_beyond_one, OD_FIND_BOX_RANGE, 1),
    D(xmax_in_pixels, OD_FIND_BOX_RANGE, 1),
    D(nan_ymin, OD_FIND_BOX_NAN, 0),
    D(nan_xmax, OD_FIND_BOX_NAN, 1),
    D(infinite_ymax, OD_FIND_BOX_NAN, 0),
    D(no_height, OD_FIND_BOX_AREA, 0),
    D(no_width, OD_FIND_BOX_AREA, 1),
    D(less_than_a_pixel, OD_FIND_BOX_AREA, 1),
    D(same_box_twice, OD_FIND_BOX_TWICE, 1),
    D(unknown_text, OD_FIND_CLASS, 1),
    D(empty_text, OD_FIND_CLASS, 0),
    D(other_case, OD_FIND_CLASS, 0),
    D(text_against_label, OD_FIND_CLASS_PAIR, 1),
    D(label_zero, OD_FIND_CLASS, 0),
    D(label_negative, OD_FIND_CLASS, 1),
    D(label_too_large, OD_FIND_CLASS, 1),
    D(one_ymax_missing, OD_FIND_LENGTHS, -1),
    D(no_xmin_at_all, OD_FIND_LENGTHS, -1),
    D(one_label_missing, OD_FIND_LENGTHS, -1),
    D(one_text_missing, OD_FIND_LENGTHS, -1),
    D(no_classes, OD_FIND_LENGTHS, -1),
    D(one_difficult_missing, OD_FIND_LENGTHS, -1),
    D(one_weight_missing, OD_FIND_LENGTHS, -1),
    D(negative_weight, OD_FIND_WEIGHT, 1),
    D(nan_weight, OD_FIND_WEIGHT, 0),
    D(no_boxes, OD_FIND_EMPTY, -1),
    D(no_picture, OD_FIND_PICTURE, -1),
    D(empty_picture, OD_FIND_PICTURE, -1),
    D(picture_ends_early, OD_FIND_PICTURE, -1),
    D(picture_is_html, OD_FIND_PICTURE, -1),
    D(other_size, OD_FIND_SIZE, -1),
    D(says_png, OD_FIND_FORMAT, -1),
    D(wrong_sha, OD_FIND_SHA256, -1),
    D(the_same_picture, OD_FIND_DUPLICATE, -1),
    D(the_same_source_id, OD_FIND_DUPLICATE, -1),
    D(labels_as_text, OD_FIND_KIND, -1),
    D(rotated, OD_FIND_ROTATION, -1),
    D(png_named_jpeg, OD_FIND_FORMAT, -1),
};

/* ------------------------------------------------------------------------------------------------------------ checks */
typedef struct {
  int count;
  od_finding_kind kind[32];
  uint64_t record[32];
  int box[32];
  char source[32][64];
  char text[8192];
} heard_findings;

static void on_finding(void *ctx, const od_finding *f) {
  heard_findings *h = ctx;
  if (h->count < 32) {
    h->kind[h->count] = f->kind;
    h->record[h->count] = f->record;
    h->box[h->count] = f->box;
    snprintf(h->source[h->count], 64, "%s", f->source_id);
  }
  h->count++;
  od_str s = OD_STR_INIT;
  od_finding_format(&s, f);
  size_t n = strlen(h->text);
  snprintf(h->text + n, sizeof h->text - n, "%s\n", od_str_text(&s));
  od_str_free(&s);
}

static od_label_map *cats_and_dogs(void) {
  static const char text[] = "item { id: 1 name: 'cat' } item { id: 2 name: 'dog' }";
  ObjectDetection__Protos__StringIntLabelMap *m;
  od_label_map *map;
  CHECK_OK(od_textproto_parse(&m, &object_detection__protos__string_int_label_map__descriptor, "map", text,
                              sizeof text - 1, NULL));
  CHECK_OK(od_label_map_from_proto(&map, m));
  od_proto_free(m);
  return map;
}

static heard_findings check_path(const char *path, const od_label_map *labels, bool fast) {
  heard_findings h = {0};
  od_record_check_options o = {
      .patterns = &path, .pattern_count = 1, .labels = labels, .fast = fast, .on_finding = on_finding, .ctx = &h};
  od_record_check_result r;
  CHECK_OK(od_record_check(&r, &o));
  CHECK(r.findings == (uint64_t)h.count);
  od_record_check_free(&r);
  return h;
}

static const char *write_set(const char *dir, const defect *d) {
  const char *path = path_of("%s/%s.record", dir, d ? d->name : "good");
  od_record_writer *w;
  CHECK_OK(od_record_writer_open(&w, path, NULL));
  for (int i = 0; i < 6; i++) {
    plan p = good(i);
    od_str bytes = OD_STR_INIT;
    if (d && i == 4) d->spoil(&p);
    bool keep_label = p.labels == 99;
    if (keep_label) p.labels = 0;
    build(&p);
    if (keep_label) od_example_add_text(p.b, "image/object/class/label", "1");
    CHECK_OK(od_example_builder_finish(p.b, &bytes));
    CHECK_OK(od_record_write(w, bytes.data, bytes.len));
    od_str_free(&bytes);
    od_str_free(&p.picture);
    od_example_builder_free(p.b);
  }
  CHECK_OK(od_record_writer_close(w));
  return path;
}

static void every_defect_is_found_where_it_is(void **state) {
  (void)state;
  const char *dir = od_test_dir();
  od_label_map *labels = cats_and_dogs();
  CHECK(sizeof defects / sizeof *defects >= 40);
  for (size_t i = 0; i < sizeof defects / sizeof *defects; i++) {
    const defect *d = &defects[i];
    const char *path = write_set(dir, d);
    heard_findings h = check_path(path, labels, false);
    bool found = false;
    for (int k = 0; k < h.count && k < 32; k++) {
      if (h.record[k] != 4)
        fail_msg("%s: a finding in record %llu: %s", d->name, (unsigned long long)h.record[k], h.text);
      found = found || (h.kind[k] == d->kind && h.box[k] == d->box);
    }
    if (!found) fail_msg("%s: not found; there is: %s", d->name, h.text);
    if (h.count > 2) fail_msg("%s: one defect gives %d findings: %s", d->name, h.count, h.text);
    CHECK(strstr(h.text, path) != NULL && strncmp(h.text + strlen(path), ": record 4", 10) == 0);
  }
  heard_findings h = check_path(write_set(dir, NULL), labels, false);
  if (h.count) fail_msg("findings in a clean set: %s", h.text);
  od_label_map_free(labels);
}

static void damaged_files_are_told_from_damaged_records(void **state) {
  (void)state;
  const char *dir = od_test_dir();
  od_label_map *labels = cats_and_dogs();
  const char *path = write_set(dir, NULL);
  char *data;
  size_t size;
  od_record_file *rf;
  CHECK_OK(od_record_file_open(&rf, path, NULL));
  size_t third = od_record_file_offset(rf, 3);
  od_record_file_free(rf);
  CHECK_OK(od_file_read_all(&data, &size, path, 0));
  data[third + 30] ^= 1; /* a payload byte */
  CHECK_OK(od_file_write_all(path, data, size));
  heard_findings h = check_path(path, labels, false);
  CHECK(h.count == 1 && h.kind[0] == OD_FIND_CRC && h.record[0] == 3);
  data[third + 2] ^= 1; /* a length */
  CHECK_OK(od_file_write_all(path, data, size));
  h = check_path(path, labels, false);
  CHECK(h.count == 1 && h.kind[0] == OD_FIND_FILE && h.record[0] == 3);
  data[third + 2] ^= 1;
  data[third + 30] ^= 1;
  CHECK_OK(od_file_write_all(path, data, size - 7)); /* the end is missing */
  h = check_path(path, labels, false);
  CHECK(h.count == 1 && h.kind[0] == OD_FIND_FILE && h.record[0] == 5);
  od_free(data);
  od_label_map_free(labels);
}

static void clean_sets_are_clean(void **state) {
  (void)state;
  NEED_SHARED(any, "data/raccoon_original/train.record");
  (void)any;
  static const char *const sets[][2] = {
      {"data/raccoon_original/test.record", "data/raccoon_original/label_map.pbtxt"},
      {"data/tf_models_testdata/research/object_detection/test_data/pets_examples.record",
       "data/tf_models_testdata/research/object_detection/data/pet_label_map.pbtxt"},
      {"data/tf_models_testdata/crosswalk_4_dataset/test/crosswalk.tfrecord",
       "data/tf_models_testdata/crosswalk_4_dataset/test/crosswalk_label_map.pbtxt"},
  };
  for (size_t i = 0; i < 3; i++) {
    od_label_map *labels;
    CHECK_OK(od_label_map_load(&labels, od_shared(sets[i][1])));
    for (int fast = 0; fast < 2; fast++) {
      heard_findings h = check_path(od_shared(sets[i][0]), labels, fast);
      if (h.count) fail_msg("%s: %s", sets[i][0], h.text);
    }
    od_label_map_free(labels);
  }
}

/* Raccoon's training part really holds four pictures twice. */
static void real_duplicates_are_found(void **state) {
  (void)state;
  NEED_SHARED(path, "data/raccoon_original/train.record");
  heard_findings h = check_path(path, NULL, false);
  CHECK(h.count == 4);
  for (int i = 0; i < 4; i++) CHECK(h.kind[i] == OD_FIND_DUPLICATE);
  CHECK(h.record[0] == 16 && strstr(h.text, "record 16 (raccoon-116.jpg): duplicate: the same picture as in"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_defect_is_found_where_it_is),
      cmocka_unit_test(damaged_files_are_told_from_damaged_records),
      cmocka_unit_test(clean_sets_are_clean),
      cmocka_unit_test(real_duplicates_are_found),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
