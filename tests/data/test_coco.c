/* create_coco_tf_record against the original (tests/witness/coco.py): boxes, masks, keypoints; run lengths. */
#include "data_test.h"

#include "data/coco.h"
#include "data/coco_mask.h"

static const char folder[] = "tests/golden/data/coco";

static void compare(const char *mode, json_t *golden, const od_str *records, int n) {
  json_t *e;
  size_t i;
  int at = 0;
  json_array_foreach(json_object_get(golden, "examples"), i, e) {
    if (strcmp(json_string_value(json_object_get(e, "mode")), mode) != 0) continue;
    CHECK(at < n);
    check_features(&records[at++], json_object_get(e, "features"));
  }
  CHECK(at == n);
}

static void records_equal_the_original_s(void **state) {
  (void)state;
  char dir[256];
  snprintf(dir, sizeof dir, "%s", od_test_dir());
  json_t *golden = json_load_file("tests/golden/data/coco.json", 0, NULL);
  CHECK(golden);
  heard h = {0, ""};
  od_reporter reporter = {.line = hear_line, .ctx = &h};
  static const char *const modes[] = {"boxes", "masks", "keypoints"};
  for (int m = 0; m < 3; m++) {
    od_coco_options o = {.annotations_file = "tests/golden/data/coco/instances.json",
                         .keypoint_annotations_file = m == 2 ? "tests/golden/data/coco/keypoints.json" : NULL,
                         .image_dir = folder,
                         .output_path = path_of("%s/%s.record", dir, modes[m]),
                         .include_masks = m == 1,
                         .threads = 1 + m,
                         .reporter = &reporter};
    od_convert_result r;
    CHECK_OK(od_coco_create(&r, &o));
    CHECK(r.written == 4 && r.skipped == 0 && strstr(h.text, "2 boxes were left out"));
    int n;
    od_str *records = read_records(o.output_path, &n);
    compare(modes[m], golden, records, n);
    free_records(records, n);
  }
  json_decref(golden);
}

static void persons_alone_and_mistakes(void **state) {
  (void)state;
  char dir[256];
  snprintf(dir, sizeof dir, "%s", od_test_dir());
  size_t held = od_mem_used();
  od_coco_options o = {.annotations_file = "tests/golden/data/coco/instances.json",
                       .image_dir = folder,
                       .output_path = path_of("%s/p.record", dir),
                       .remove_non_person_images = true,
                       .remove_non_person_annotations = true};
  od_convert_result r;
  CHECK_OK(od_coco_create(&r, &o));
  CHECK(r.written == 3 && r.boxes == 6); /* two persons in each of three pictures */
  o.annotations_file = path_of("%s/x.json", dir);
  write_text(o.annotations_file, "{\"images\": [");
  CHECK_FAILS(od_coco_create(&r, &o), OD_EINVAL, "x.json:1:12: no JSON");
  write_text(o.annotations_file, "{\"images\": [{\"id\": 1, \"file_name\": \"none.jpg\"}]}");
  o.remove_non_person_images = false;
  CHECK_FAILS(od_coco_create(&r, &o), OD_EDATA, "none of 1 pictures");
  write_text(o.annotations_file,
             "{\"images\": [{\"id\": 3, \"file_name\": \"000000000003.jpg\", \"height\": 40, \"width\": 60}], "
             "\"annotations\": [{\"image_id\": 3, \"bbox\": [1, 1, 5, 5], \"category_id\": 4}]}");
  CHECK_FAILS(od_coco_create(&r, &o), OD_EINVAL, "category_id 4 is not in categories");
  CHECK(od_mem_used() == held);
}

static void damaged_masks_are_refused(void **state) {
  (void)state;
  uint8_t mask[12] = {0};
  uint32_t *runs;
  size_t n;
  CHECK_FAILS(od_coco_polygon(mask, 3, 4, (double[]){0, 0, 1, 1}, 2), OD_EDATA, "2 points");
  CHECK_FAILS(od_coco_polygon(mask, 3, 4, (double[]){0, 0, 1, __builtin_nan(""), 1, 1}, 3), OD_EDATA, "coordinate");
  CHECK_FAILS(od_coco_runs(mask, 3, 4, (uint32_t[]){5, 8}, 2), OD_EDATA, "beyond");
  CHECK_FAILS(od_coco_runs(mask, 3, 4, (uint32_t[]){5, 3}, 2), OD_EDATA, "cover 8 of 12");
  CHECK_FAILS(od_coco_unpack_runs(&runs, &n, "\x01"), OD_EDATA, "character 0");
  CHECK_FAILS(od_coco_unpack_runs(&runs, &n, "ooooooooooooooo"), OD_EDATA, "damaged");
  CHECK_OK(od_coco_runs(mask, 3, 4, (uint32_t[]){4, 3, 5}, 3));
  CHECK(mask[1 * 4 + 1] && mask[2 * 4 + 1] && mask[0 * 4 + 2] && !mask[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(records_equal_the_original_s),
      cmocka_unit_test(persons_alone_and_mistakes),
      cmocka_unit_test(damaged_masks_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
