/* create_pet_tf_record: Python's shuffles, and the original's records of a tree as Oxford ships it. */
#include "data_test.h"

#include <math.h>

#include "data/pets.h"
#include "data/python_random.h"
#include "image/encode.h"

static void shuffles_are_python_s(void **state) {
  (void)state;
  static const int py3[20] = {19, 5, 14, 4, 9, 13, 15, 18, 6, 12, 17, 10, 1, 11, 2, 16, 7, 8, 0, 3},
                   py2[20] = {15, 8, 6, 7, 9, 16, 13, 14, 17, 2, 18, 5, 1, 19, 10, 11, 3, 4, 0, 12};
  static const int long3[10] = {2828, 1735, 599, 351, 1797, 1067, 1708, 3455, 3584, 1009},
                   long2[10] = {2351, 1606, 853, 2906, 1229, 2790, 630, 1840, 1536, 3298};
  static char base[3680];
  static void *items[3680];
  od_python_random r;
  for (int python = 2; python <= 3; python++)
    for (size_t n = 20; n <= 3680; n += 3660) {
      for (size_t i = 0; i < n; i++) items[i] = base + i;
      od_python_seed(&r, 42);
      od_python_shuffle(&r, items, n, python);
      const int *want = n == 20 ? (python == 2 ? py2 : py3) : (python == 2 ? long2 : long3);
      for (int i = 0; i < (n == 20 ? 20 : 10); i++) CHECK((char *)items[i] - base == want[i]);
    }
}

/* A tree out of the shared record, as tests/witness/pets.py makes it; how many pets. */
static int make_tree(const char *dir, const char *record) {
  int n;
  od_str *records = read_records(record, &n), list = OD_STR_INIT;
  od_example ex = {0};
  for (int i = 0; i < n; i++) {
    const od_view *v;
    const float *f;
    const int64_t *h, *w;
    size_t count;
    CHECK_OK(od_example_parse(&ex, records[i].data, records[i].len));
    CHECK_OK(od_example_get_bytes(&ex, "image/filename", &v, &count));
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)v[0].size - 4, (const char *)v[0].data);
    od_str_addf(&list, "%s 1 1 1\n", name);
    CHECK_OK(od_example_get_bytes(&ex, "image/encoded", &v, &count));
    CHECK_OK(od_file_write_all(path_of("%s/images/%s.jpg", dir, name), v[0].data, v[0].size));
    CHECK_OK(od_example_get_int64s(&ex, "image/height", &h, &count));
    CHECK_OK(od_example_get_int64s(&ex, "image/width", &w, &count));
    static const char *const keys[4] = {"xmin", "ymin", "xmax", "ymax"};
    int box[4];
    for (int k = 0; k < 4; k++) {
      CHECK_OK(od_example_get_floats(&ex, path_of("image/object/bbox/%s", keys[k]), &f, &count));
      box[k] = (int)rint((double)f[0] * (double)(k % 2 ? h[0] : w[0]));
    }
    write_text(
        path_of("%s/annotations/xmls/%s.xml", dir, name),
        path_of(
            "<annotation><folder>OXIIIT</folder><filename>%s.jpg</filename><size><width>%d</width><height>%d</height>"
            "<depth>3</depth></size><object><name>cat</name><pose>Frontal</pose><truncated>1</truncated>"
            "<occluded>0</occluded><bndbox><xmin>%d</xmin><ymin>%d</ymin><xmax>%d</xmax><ymax>%d</ymax></bndbox>"
            "<difficult>0</difficult></object></annotation>\n",
            name, (int)w[0], (int)h[0], box[0], box[1], box[2], box[3]));
    od_image m;
    CHECK_OK(od_image_new(&m, h[0], w[0], 1));
    for (int y = 0; y < m.height; y++)
      for (int x = 0; x < m.width; x++) {
        bool in = x >= box[0] && x < box[2] && y >= box[1] && y < box[3];
        bool deep = x >= box[0] + 2 && x < box[2] - 2 && y >= box[1] + 2 && y < box[3] - 2;
        m.data[y * m.width + x] = deep ? 1 : in ? 3 : 2;
      }
    od_str png = OD_STR_INIT;
    CHECK_OK(od_png_encode(&png, &m));
    CHECK_OK(od_file_write_all(path_of("%s/annotations/trimaps/%s.png", dir, name), png.data, png.len));
    od_str_free(&png);
    od_image_free(&m);
  }
  write_text(path_of("%s/annotations/trainval.txt", dir), od_str_text(&list));
  od_str_free(&list);
  od_example_free(&ex);
  free_records(records, n);
  return n;
}

/* All records of the two parts in order: shards are read by turns. */
static void compare_mode(const char *dir, const char *mode, const char *const files[2], json_t *golden, int limit) {
  json_t *examples = json_object_get(golden, "examples"), *e;
  size_t i, at = 0;
  int n[2];
  od_str *records[2];
  for (int p = 0; p < 2; p++) records[p] = read_records(path_of("%s/%s", dir, files[p]), &n[p]);
  CHECK(n[0] == 7 && n[1] == 3);
  json_array_foreach(examples, i, e) {
    if (strcmp(json_string_value(json_object_get(e, "mode")), mode) != 0) continue;
    check_features(at < 7 ? &records[0][at] : &records[1][at - 7], json_object_get(e, "features"));
    at++;
  }
  CHECK(at == (size_t)limit);
  for (int p = 0; p < 2; p++) free_records(records[p], n[p]);
}

static void trees_give_the_original_s_records(void **state) {
  (void)state;
  NEED_SHARED(path, "data/tf_models_testdata/research/object_detection/test_data/pets_examples.record");
  char record[4096], map[4096], dir[256];
  snprintf(record, sizeof record, "%s", path);
  snprintf(map, sizeof map, "%s",
           od_shared("data/tf_models_testdata/research/object_detection/data/pet_label_map.pbtxt"));
  snprintf(dir, sizeof dir, "%s", od_test_dir());
  CHECK(make_tree(dir, record) == 10);
  json_t *golden = json_load_file("tests/golden/data/pets.json", 0, NULL);
  CHECK(golden);
  od_pets_options o = {.data_dir = dir, .output_dir = dir, .label_map_path = map};
  od_convert_result r[2];
  CHECK_OK(od_pets_create(r, &o));
  CHECK(r[0].written == 7 && r[1].written == 3 && r[0].boxes == 7);
  compare_mode(dir, "faces", (const char *[]){"pet_train.record", "pet_val.record"}, golden, 10);
  o.full_body = true;
  static const char *const full[2] = {"pets_fullbody_with_masks_train.record", "pets_fullbody_with_masks_val.record"};
  CHECK_OK(od_pets_create(r, &o));
  compare_mode(dir, "png", full, golden, 10);
  o.numerical_masks = true;
  CHECK_OK(od_pets_create(r, &o));
  compare_mode(dir, "numerical", full, golden, 2);
  /* Shards: example i in shard i mod 3; python 2's split is another one. */
  o.full_body = false;
  o.num_shards = 3;
  CHECK_OK(od_pets_create(r, &o));
  int n;
  od_str *records = read_records(path_of("%s/pet_faces_train.record-00001-of-00003", dir), &n);
  CHECK(n == 2);
  free_records(records, n);
  json_decref(golden);
}

static void damage_is_named_and_counted(void **state) {
  (void)state;
  NEED_SHARED(path, "data/tf_models_testdata/research/object_detection/test_data/pets_examples.record");
  char record[4096], map[4096], dir[256];
  snprintf(record, sizeof record, "%s", path);
  snprintf(map, sizeof map, "%s",
           od_shared("data/tf_models_testdata/research/object_detection/data/pet_label_map.pbtxt"));
  snprintf(dir, sizeof dir, "%s", od_test_dir());
  make_tree(dir, record);
  CHECK_OK(od_path_remove(path_of("%s/annotations/xmls/japanese_chin_107.xml", dir)));
  CHECK(truncate(path_of("%s/images/samoyed_161.jpg", dir), 5000) == 0);
  CHECK_OK(od_path_remove(path_of("%s/annotations/trimaps/samoyed_161.png", dir))); /* not needed for faces */
  heard h = {0, ""};
  od_reporter reporter = {.line = hear_line, .ctx = &h};
  od_pets_options o = {.data_dir = dir, .output_dir = dir, .label_map_path = map, .reporter = &reporter, .split = 3};
  od_convert_result r[2];
  CHECK_OK(od_pets_create(r, &o));
  CHECK(r[0].written == 5 && r[0].skipped == 2 && r[1].written == 3 && h.warnings == 2);
  CHECK(strstr(h.text, "japanese_chin_107.xml") && strstr(h.text, "samoyed_161.jpg: the JPEG ends early"));
  o.data_dir = "/nonexistent";
  CHECK_FAILS(od_pets_create(r, &o), OD_ENOENT, "data_dir is to hold images/");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shuffles_are_python_s),
      cmocka_unit_test(trees_give_the_original_s_records),
      cmocka_unit_test(damage_is_named_and_counted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
