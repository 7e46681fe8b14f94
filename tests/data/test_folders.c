/* KITTI against the original (tests/witness/kitti.py); YOLO and CSV folders. */
#include "data_test.h"

#include "data/folders.h"
#include "data/kitti.h"
#include "data/record_check.h"
#include "image/encode.h"

static void kitti_records_equal_the_original_s(void **state) {
  (void)state;
  char dir[256];
  snprintf(dir, sizeof dir, "%s", od_test_dir());
  json_t *golden = json_load_file("tests/golden/data/kitti.json", 0, NULL), *e;
  CHECK(golden);
  static const char *const modes[] = {"default", "van"}, *const classes[] = {NULL, "van"};
  for (int m = 0; m < 2; m++) {
    od_kitti_options o = {.data_dir = "tests/golden/data/kitti",
                          .output_path = path_of("%s/%s", dir, modes[m]),
                          .classes_to_use = classes[m],
                          .label_map_path = "tests/golden/data/kitti/map.pbtxt",
                          .validation_set_size = 2};
    od_convert_result r[2];
    CHECK_OK(od_kitti_create(r, &o));
    CHECK(r[0].written == 2 && r[1].written == 2);
    int n[2], at = 0;
    od_str *train = read_records(path_of("%s_train.tfrecord", o.output_path), &n[0]),
           *val = read_records(path_of("%s_val.tfrecord", o.output_path), &n[1]);
    CHECK(n[0] == 2 && n[1] == 2);
    size_t i;
    json_array_foreach(json_object_get(golden, "examples"), i, e) {
      if (strcmp(json_string_value(json_object_get(e, "mode")), modes[m]) != 0) continue;
      check_features(at < 2 ? &val[at] : &train[at - 2], json_object_get(e, "features"));
      at++;
    }
    CHECK(at == 4);
    free_records(train, 2);
    free_records(val, 2);
  }
  json_decref(golden);
  od_kitti_options bad = {.data_dir = "/nonexistent",
                          .output_path = path_of("%s/x", dir),
                          .label_map_path = "tests/golden/data/kitti/map.pbtxt"};
  od_convert_result r[2];
  CHECK_FAILS(od_kitti_create(r, &bad), OD_ENOENT, "data_object_image_2/training/image_2");
}

static void write_picture(const char *path, int h, int w, bool png) {
  od_image im;
  od_str s = OD_STR_INIT;
  CHECK_OK(od_image_new(&im, h, w, 3));
  for (int i = 0; i < h * w * 3; i++) im.data[i] = (uint8_t)(i * h + i / w);
  CHECK_OK(png ? od_png_encode(&s, &im) : od_jpeg_encode(&s, &im, 80));
  CHECK_OK(od_file_write_all(path, s.data, s.len));
  od_image_free(&im);
  od_str_free(&s);
}

/* Source id, boxes and labels of a record in one text. */
static const char *describe(const od_str *record) {
  static char text[1024];
  od_example ex = {0};
  const float *b[4];
  const int64_t *label;
  const od_view *name;
  od_view id;
  size_t n;
  CHECK_OK(od_example_parse(&ex, record->data, record->len));
  CHECK_OK(od_example_get_text(&ex, "image/source_id", &id, ""));
  static const char *const keys[4] = {"xmin", "ymin", "xmax", "ymax"};
  for (int k = 0; k < 4; k++) CHECK_OK(od_example_get_floats(&ex, path_of("image/object/bbox/%s", keys[k]), &b[k], &n));
  CHECK_OK(od_example_get_int64s(&ex, "image/object/class/label", &label, &n));
  CHECK_OK(od_example_get_bytes(&ex, "image/object/class/text", &name, &n));
  int at = snprintf(text, sizeof text, "%.*s", (int)id.size, (const char *)id.data);
  for (size_t i = 0; i < n; i++)
    at += snprintf(text + at, sizeof text - (size_t)at, " %.*s=%d:%.3g,%.3g,%.3g,%.3g", (int)name[i].size,
                   (const char *)name[i].data, (int)label[i], (double)b[0][i], (double)b[1][i], (double)b[2][i],
                   (double)b[3][i]);
  od_example_free(&ex);
  return text;
}

static void count_findings(void *ctx, const od_finding *f) {
  *(int *)ctx += f->kind != OD_FIND_EMPTY;
  if (f->kind != OD_FIND_EMPTY) print_message("%s: %s\n", f->source_id, f->text);
}

static void check_clean(const char *path) {
  int findings = 0;
  od_record_check_options o = {.patterns = &path, .pattern_count = 1, .on_finding = count_findings, .ctx = &findings};
  od_record_check_result r;
  CHECK_OK(od_record_check(&r, &o));
  od_record_check_free(&r);
  CHECK(findings == 0);
}

static void yolo_folders(void **state) {
  (void)state;
  char dir[256];
  snprintf(dir, sizeof dir, "%s", od_test_dir());
  write_picture(path_of("%s/images/a.jpg", dir), 20, 40, false);
  write_picture(path_of("%s/images/b.png", dir), 30, 10, true);
  write_picture(path_of("%s/images/c.jpg", dir), 16, 16, false);
  write_text(path_of("%s/labels/a.txt", dir), "1 0.5 0.5 0.2 0.4\r\n0 0.25 0.25 0.5 0.5\n\n");
  write_text(path_of("%s/labels/b.txt", dir), "0 0.1 0.2 0.8 0.3 0.4 0.9\n");
  write_text(path_of("%s/map.pbtxt", dir), "item { id: 1 name: 'cat' } item { id: 2 name: 'dog' }");
  od_folder_options o = {
      .data_dir = dir, .output_path = path_of("%s/o.record", dir), .label_map_path = path_of("%s/map.pbtxt", dir)};
  od_convert_result r;
  CHECK_OK(od_yolo_create(&r, &o));
  CHECK(r.written == 3 && r.boxes == 3);
  int n;
  od_str *records = read_records(o.output_path, &n);
  CHECK_TEXT(describe(&records[0]), "a.jpg dog=2:0.4,0.3,0.6,0.7 cat=1:0,0,0.5,0.5");
  CHECK_TEXT(describe(&records[1]), "b.png cat=1:0.1,0.2,0.8,0.9");
  CHECK_TEXT(describe(&records[2]), "c.jpg");
  free_records(records, n);
  check_clean(o.output_path);
  /* With a list of classes numbers mean its lines. */
  write_text(path_of("%s/classes.txt", dir), "dog\ncat\n");
  CHECK_OK(od_yolo_create(&r, &o));
  records = read_records(o.output_path, &n);
  CHECK_TEXT(describe(&records[1]), "b.png dog=2:0.1,0.2,0.8,0.9");
  free_records(records, n);
  write_text(path_of("%s/labels/c.txt", dir), "7 0.5 0.5 0.2 0.4\n");
  CHECK_OK(od_yolo_create(&r, &o));
  CHECK(r.written == 2 && r.skipped == 1);
  CHECK_OK(od_path_remove(path_of("%s/classes.txt", dir)));
  CHECK_FAILS(od_yolo_create(&r, &o), OD_EINVAL, "class number 7 means id 8");
  write_text(path_of("%s/labels/c.txt", dir), "1 0.5 0.5 0.2\n");
  heard h = {0, ""};
  od_reporter reporter = {.line = hear_line, .ctx = &h};
  o.reporter = &reporter;
  CHECK_OK(od_yolo_create(&r, &o));
  CHECK(r.skipped == 1 && strstr(h.text, "c.txt: line 1 has 4 numbers"));
}

static void csv_folders(void **state) {
  (void)state;
  char dir[256];
  snprintf(dir, sizeof dir, "%s", od_test_dir());
  write_picture(path_of("%s/a.jpg", dir), 20, 40, false);
  write_picture(path_of("%s/b, two.jpg", dir), 30, 10, false);
  write_text(path_of("%s/map.pbtxt", dir), "item { id: 1 name: 'cat' } item { id: 2 name: 'big \"dog\"' }");
  write_text(path_of("%s/boxes.csv", dir), "\xef\xbb\xbf"
                                           "filename,width,height,class,xmin,ymin,xmax,ymax\r\n"
                                           "\"b, two.jpg\",10,30,\"big \"\"dog\"\"\",1,3,5,15\r\n"
                                           "a.jpg,40,20,cat,4,2,20,10\r\n"
                                           "\"b, two.jpg\",10,30,cat,0,0,10,30\r\n");
  od_folder_options o = {.data_dir = dir,
                         .csv_path = path_of("%s/boxes.csv", dir),
                         .output_path = path_of("%s/o.record", dir),
                         .label_map_path = path_of("%s/map.pbtxt", dir)};
  od_convert_result r;
  CHECK_OK(od_csv_create(&r, &o));
  CHECK(r.written == 2 && r.boxes == 3);
  int n;
  od_str *records = read_records(o.output_path, &n);
  CHECK_TEXT(describe(&records[0]), "b, two.jpg big \"dog\"=2:0.1,0.1,0.5,0.5 cat=1:0,0,1,1");
  CHECK_TEXT(describe(&records[1]), "a.jpg cat=1:0.1,0.1,0.5,0.5");
  free_records(records, n);
  check_clean(o.output_path);
  write_text(o.csv_path, "image,label,xmin,ymin,xmax\n");
  CHECK_FAILS(od_csv_create(&r, &o), OD_EINVAL, "no column 'ymax'");
  write_text(o.csv_path, "filename,class,xmin,ymin,xmax,ymax\na.jpg,cat,1,2,3\n");
  CHECK_FAILS(od_csv_create(&r, &o), OD_EINVAL, "boxes.csv: line 2 has 5 fields");
  write_text(o.csv_path, "filename,class,xmin,ymin,xmax,ymax\na.jpg,cat,1,2,x,9\n");
  CHECK_FAILS(od_csv_create(&r, &o), OD_EINVAL, "line 2: xmax is 'x'");
  write_text(o.csv_path, "filename,class,xmin,ymin,xmax,ymax\na.jpg,cta,1,2,3,9\n");
  CHECK_FAILS(od_csv_create(&r, &o), OD_EINVAL, "did you mean 'cat'");
}

/* The raccoons' own CSV gives the boxes of their XML. */
static void real_csv(void **state) {
  (void)state;
  NEED_SHARED(csv, "data/raccoon/data/test_labels.csv");
  char path[4096], images[4096], dir[256];
  snprintf(path, sizeof path, "%s", csv);
  snprintf(images, sizeof images, "%s", od_shared("data/raccoon/images"));
  snprintf(dir, sizeof dir, "%s", od_test_dir());
  write_text(path_of("%s/map.pbtxt", dir), "item { id: 1 name: 'raccoon' }");
  od_folder_options o = {.data_dir = images,
                         .csv_path = path,
                         .output_path = path_of("%s/o.record", dir),
                         .label_map_path = path_of("%s/map.pbtxt", dir)};
  od_convert_result r;
  CHECK_OK(od_csv_create(&r, &o));
  CHECK(r.written == 40 && r.skipped == 0 && r.boxes >= 40);
  check_clean(o.output_path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kitti_records_equal_the_original_s),
      cmocka_unit_test(yolo_folders),
      cmocka_unit_test(csv_folders),
      cmocka_unit_test(real_csv),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
