/* The record decoder against the original's (tests/witness/decoder.py), its errors, and label maps. */
#include "data_test.h"

#include <math.h>

#include "data/example_decoder.h"

static size_t numbers(float *out, const json_t *a) {
  for (size_t i = 0; out && i < json_array_size(a); i++) {
    const json_t *v = json_array_get(a, i);
    out[i] = json_is_string(v) ? NAN : (float)json_number_value(v);
  }
  return json_array_size(a);
}

/* A column equals the golden list; an absent or empty list stands for the default. */
static void check_floats(const char *name, const char *key, const json_t *c, const float *got, size_t n,
                         float otherwise) {
  const json_t *a = json_object_get(c, key);
  size_t count = a ? json_array_size(a) : 0;
  float *want = od_alloc((n + count + 1) * sizeof *want);
  for (size_t i = 0; i < n; i++) want[i] = otherwise;
  if (count && count != n) fail_msg("%s: %s has %zu values, expected %zu", name, key, n, count);
  if (count) numbers(want, a);
  for (size_t i = 0; i < n; i++)
    if (!(got[i] == want[i]) && !(isnan(got[i]) && isnan(want[i])))
      fail_msg("%s: %s[%zu] is %g, expected %g", name, key, i, (double)got[i], (double)want[i]);
  od_free(want);
}

static void check_bytes(const char *name, const char *key, const json_t *c, const uint8_t *got, size_t n) {
  float *f = od_alloc((n + 1) * sizeof *f);
  for (size_t i = 0; i < n; i++) f[i] = got[i];
  check_floats(name, key, c, f, n, 0);
  od_free(f);
}

static void check_ints(const char *name, const char *key, const json_t *c, const int32_t *got, size_t n) {
  float *f = od_alloc((n + 1) * sizeof *f);
  for (size_t i = 0; i < n; i++) f[i] = (float)got[i];
  check_floats(name, key, c, f, n, 0);
  od_free(f);
}

static od_decode_options options_of(const json_t *c, const od_label_map *labels) {
  const json_t *o = json_object_get(c, "options");
  const char *masks = json_string_value(json_object_get(o, "masks"));
  return (od_decode_options){.labels = json_object_get(o, "label_map") ? labels : NULL,
                             .num_keypoints = (int)json_integer_value(json_object_get(o, "keypoints")),
                             .expand_hierarchy = json_object_get(o, "hierarchy") != NULL,
                             .multiclass_scores = json_object_get(o, "scores") != NULL,
                             .masks = !masks            ? OD_MASKS_NONE
                                      : masks[0] == 'P' ? OD_MASKS_PNG
                                                        : OD_MASKS_NUMERICAL};
}

static void examples_decode_as_in_the_original(void **state) {
  (void)state;
  json_t *root = json_load_file("tests/golden/data/decoder.json", 0, NULL), *cases = json_object_get(root, "cases");
  od_label_map *labels;
  CHECK_OK(od_label_map_load(&labels, "tests/golden/data/decoder_map.pbtxt"));
  int n;
  od_str *records = read_records("tests/golden/data/decoder.record", &n);
  CHECK(n >= 12 && json_array_size(cases) == (size_t)n);
  od_example ex = {0};
  for (int i = 0; i < n; i++) {
    const json_t *c = json_array_get(cases, (size_t)i);
    const char *name = json_string_value(json_object_get(c, "name"));
    od_decode_options o = options_of(c, labels);
    od_picture s;
    CHECK_OK(od_example_decode(&s, &ex, records[i].data, records[i].len, &o));
    char sha[65];
    od_convert_sha256(sha, s.pixels.data, (size_t)s.pixels.height * (size_t)s.pixels.width * 3);
    CHECK_TEXT(sha, json_string_value(json_object_get(c, "image")));
    CHECK_TEXT(s.source_id, json_string_value(json_object_get(c, "source_id")));
    CHECK_TEXT(s.filename, json_string_value(json_object_get(c, "filename")));
    CHECK_TEXT(s.key, json_string_value(json_object_get(c, "key")));
    const od_truth *t = &s.truth;
    size_t boxes = (size_t)t->count, points = boxes * (size_t)t->keypoints_per_box;
    CHECK(boxes * 4 == json_array_size(json_object_get(c, "boxes")));
    check_floats(name, "boxes", c, t->boxes, 4 * boxes, 0);
    check_floats(name, "weights", c, t->weights, boxes, 1);
    check_floats(name, "area", c, t->area, boxes, 0);
    check_ints(name, "classes", c, t->classes, boxes);
    check_bytes(name, "difficult", c, t->difficult, boxes);
    check_bytes(name, "crowd", c, t->crowd, boxes);
    check_bytes(name, "group_of", c, t->group_of, boxes);
    check_ints(name, "image_classes", c, s.image_classes, (size_t)s.image_class_count);
    CHECK((t->scores != NULL) == (json_object_get(c, "scores") != NULL));
    CHECK((t->masks != NULL) == (json_object_get(c, "masks") != NULL));
    if (t->scores) check_floats(name, "scores", c, t->scores, boxes * (size_t)t->scores_per_box, 0);
    if (t->keypoints) check_floats(name, "keypoints", c, t->keypoints, 2 * points, 0);
    if (t->keypoints) check_bytes(name, "visible", c, t->visible, points);
    if (t->masks) check_bytes(name, "masks", c, t->masks, boxes * (size_t)(t->mask_height * t->mask_width));
    if (t->masks) check_floats(name, "mask_weights", c, t->mask_weights, boxes, 1);
    if (s.image_confidences)
      check_floats(name, "image_confidences", c, s.image_confidences, (size_t)s.image_class_count, 0);
    od_picture_free(&s);
  }
  od_example_free(&ex);
  free_records(records, n);
  od_label_map_free(labels);
  json_decref(root);
}

/* Every record cut at every byte, and every byte changed: a status, never a crash, never a leak. */
static void damaged_examples_never_crash(void **state) {
  (void)state;
  int n;
  od_str *records = read_records("tests/golden/data/decoder.record", &n);
  size_t held = od_mem_used();
  od_decode_options o = {.masks = OD_MASKS_PNG, .num_keypoints = 3, .multiclass_scores = true};
  for (int i = 0; i < n; i++)
    for (size_t k = 0; k < records[i].len; k += 3) {
      od_example ex = {0};
      od_picture s;
      uint8_t *cut = od_alloc(k);
      memcpy(cut, records[i].data, k);
      (void)!od_example_decode(&s, &ex, cut, k, &o);
      od_picture_free(&s);
      od_free(cut);
      char keep = records[i].data[k];
      records[i].data[k] = (char)(keep + 1 + (char)(k % 200));
      (void)!od_example_decode(&s, &ex, records[i].data, records[i].len, &o);
      od_picture_free(&s);
      records[i].data[k] = keep;
      od_example_free(&ex);
    }
  CHECK(od_mem_used() == held);
  free_records(records, n);
}

static od_status finish_and_decode(od_example_builder *b, od_str *bytes, od_picture *s, od_example *ex) {
  const od_decode_options o = {0};
  od_str_clear(bytes);
  CHECK_OK(od_example_builder_finish(b, bytes));
  return od_example_decode(s, ex, bytes->data, bytes->len, &o);
}

static void lists_must_agree(void **state) {
  (void)state;
  int n;
  od_str *records = read_records("tests/golden/data/decoder.record", &n), bytes = OD_STR_INIT;
  od_example_builder *b;
  od_example ex = {0}, from = {0};
  const od_view *v;
  size_t count;
  float two[2] = {0.1f, 0.2f};
  int64_t three[3] = {1, 2, 3};
  CHECK_OK(od_example_parse(&from, records[0].data, records[0].len));
  CHECK_OK(od_example_get_bytes(&from, "image/encoded", &v, &count));
  CHECK_OK(od_example_builder_new(&b));
  od_example_add_bytes(b, "image/encoded", v[0].data, v[0].size);
  static const char *const keys[] = {"image/object/bbox/ymin", "image/object/bbox/xmin", "image/object/bbox/ymax",
                                     "image/object/bbox/xmax"};
  for (int k = 0; k < 4; k++) od_example_add_floats(b, keys[k], two, 2);
  od_picture s;
  CHECK_FAILS(finish_and_decode(b, &bytes, &s, &ex), OD_EDATA, "neither image/object/class/text nor");
  od_picture_free(&s);
  od_example_add_int64s(b, "image/object/class/label", three, 3);
  CHECK_FAILS(finish_and_decode(b, &bytes, &s, &ex), OD_EDATA, "has 3 values, but there are 2 boxes");
  od_picture_free(&s);
  od_example_add_int64s(b, "image/object/class/label", three, 2);
  CHECK_OK(finish_and_decode(b, &bytes, &s, &ex));
  od_picture_free(&s);
  od_example_add_floats(b, "image/object/bbox/ymax", two, 1);
  CHECK_FAILS(finish_and_decode(b, &bytes, &s, &ex), OD_EDATA,
              "image/object/bbox/ymin has 2 values, image/object/bbox/ymax has 1");
  od_picture_free(&s);
  od_example_add_text(b, "image/object/bbox/ymax", "0.5");
  CHECK_FAILS(finish_and_decode(b, &bytes, &s, &ex), OD_EDATA, "image/object/bbox/ymax");
  od_picture_free(&s);
  od_example_builder_free(b);
  od_example_free(&ex);
  od_example_free(&from);
  od_str_free(&bytes);
  free_records(records, n);
}

/* ---------------------------------------------------------------------------------------------------------- label maps */
static void label_maps_are_checked_and_searched(void **state) {
  (void)state;
  od_label_map *m;
  CHECK_OK(od_label_map_load(&m, "tests/golden/data/decoder_map.pbtxt"));
  CHECK(od_label_map_max_id(m) == 5 && od_label_map_find(m, "cat", 3) == 5 && od_label_map_find(m, "dog", 3) == 2);
  CHECK(od_label_map_id(m, "cat") == 3 && od_label_map_id(m, "dog") == -1 && od_label_map_find(m, "", 0) == -1);
  CHECK_TEXT(od_label_map_name(m, 2, true), "dog");
  CHECK_TEXT(od_label_map_name(m, 2, false), "/m/dog");
  CHECK(od_label_map_name(m, 4, true) == NULL);
  od_category *c;
  int n;
  CHECK_OK(od_label_map_categories(&c, &n, m, 3, true));
  CHECK(n == 3 && c[0].id == 1 && strcmp(c[2].name, "Tabby") == 0);
  od_free(c);
  od_label_map_free(m);
  char dir[256];
  snprintf(dir, sizeof dir, "%s", od_test_dir());
  static const struct {
    const char *text, *said;
  } bad[] = {{"item { id: -1 name: 'a' }", "id -1"},
             {"item { id: 0 name: 'cat' }", "id 0 is reserved"},
             {"item { name: 'cat' }", "has no id"},
             {"item { id: 1 }", "neither name nor display_name"},
             {"", "has no items"},
             {"itme { id: 1 name: 'a' }", "item"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    write_text(path_of("%s/m.pbtxt", dir), bad[i].text);
    CHECK_FAILS(od_label_map_load(&m, path_of("%s/m.pbtxt", dir)), OD_EINVAL, bad[i].said);
    CHECK(strstr(od_message(), "m.pbtxt") != NULL);
  }
  write_text(path_of("%s/m.pbtxt", dir), "item { id: 0 name: 'background' } item { id: 1 name: 'a' }");
  CHECK_OK(od_label_map_load(&m, path_of("%s/m.pbtxt", dir)));
  od_label_map_free(m);
  /* The wire format: item { name: "a" id: 1 } */
  write_text(path_of("%s/m.pb", dir), "\x0a\x05\x0a\x01"
                                      "a\x10\x01");
  CHECK_OK(od_label_map_load(&m, path_of("%s/m.pb", dir)));
  CHECK(od_label_map_id(m, "a") == 1);
  od_label_map_free(m);
  CHECK_FAILS(od_label_map_load(&m, path_of("%s/none", dir)), OD_ENOENT, "none");
}

static void the_original_s_label_maps_load(void **state) {
  (void)state;
  NEED_SHARED(dir, "data/tf_models_testdata/research/object_detection/data/pet_label_map.pbtxt");
  od_label_map *m;
  CHECK_OK(od_label_map_load(&m, dir));
  CHECK(od_label_map_max_id(m) == 37 && od_label_map_id(m, "Abyssinian") == 1 &&
        od_label_map_id(m, "yorkshire_terrier") == 37);
  CHECK_TEXT(od_label_map_similar(m, "abysinian"), "Abyssinian");
  od_label_map_free(m);
  static const struct {
    const char *name;
    int max, items;
  } maps[] = {{"mscoco_label_map.pbtxt", 90, 80},
              {"pascal_label_map.pbtxt", 20, 20},
              {"kitti_label_map.pbtxt", 2, 2},
              {"oid_v4_label_map.pbtxt", 601, 601}};
  for (size_t i = 0; i < 4; i++) {
    const char *path = od_shared(path_of("data/tf_models_testdata/research/object_detection/data/%s", maps[i].name));
    if (!path) continue;
    od_category *c;
    int n;
    CHECK_OK(od_label_map_load(&m, path));
    CHECK_OK(od_label_map_categories(&c, &n, m, 1000, true));
    CHECK(od_label_map_max_id(m) == maps[i].max && n == maps[i].items);
    od_free(c);
    od_label_map_free(m);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(examples_decode_as_in_the_original),
      cmocka_unit_test(damaged_examples_never_crash),
      cmocka_unit_test(lists_must_agree),
      cmocka_unit_test(label_maps_are_checked_and_searched),
      cmocka_unit_test(the_original_s_label_maps_load),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
