/* Figures as a table and as JSON. */
#include "od_json.h"

#include "eval/names.h"
#include "eval/table.h"
#include "io/file.h"

static const od_metric some[] = {{"PascalBoxes_Precision/mAP@0.5IOU", 0.25},
                                 {"PascalBoxes_PerformanceByCategory/AP@0.5IOU/katze \xc3\xa4", 0.125},
                                 {"PascalBoxes_PerformanceByCategory/AP@0.5IOU/none", NAN},
                                 {"DetectionBoxes_Precision/mAP", 0.1},
                                 {"Losses/Loss/total_loss", 3.5}};

static void a_table(void **state) {
  (void)state;
  od_str text = OD_STR_INIT;
  CHECK_OK(od_eval_table(&text, some, 5));
  CHECK_TEXT(od_str_text(&text), "PascalBoxes\n"
                                 "  Precision/mAP@0.5IOU                       0.2500\n"
                                 "  PerformanceByCategory/AP@0.5IOU/katze \xc3\xa4    0.1250\n"
                                 "  PerformanceByCategory/AP@0.5IOU/none            -\n"
                                 "DetectionBoxes\n"
                                 "  Precision/mAP                              0.1000\n"
                                 "Losses\n"
                                 "  Loss/total_loss                            3.5000\n");
  od_str_free(&text);
}

static size_t lines_of(const char *path) {
  char *data;
  size_t size, n = 0;
  CHECK_OK(od_file_read_all(&data, &size, path, 0));
  for (size_t i = 0; i < size; i++) n += data[i] == '\n';
  od_free(data);
  return n;
}

static void json_is_replaced_by_step(void **state) {
  (void)state;
  char dir[300], path[320], lines[320];
  snprintf(dir, sizeof dir, "%s/eval", od_test_dir());
  snprintf(path, sizeof path, "%s/metrics.json", dir);
  snprintf(lines, sizeof lines, "%s/metrics.jsonl", dir);
  CHECK_OK(od_eval_write_json(dir, 100, some, 5));
  CHECK_OK(od_eval_write_json(dir, 200, some, 3));
  CHECK_OK(od_eval_write_json(dir, 100, some, 4));
  CHECK(lines_of(lines) == 2);
  json_t *root = json_file(path), *figures = json_need(root, "metrics");
  CHECK(json_integer_value(json_need(root, "global_step")) == 100 && json_object_size(figures) == 4);
  CHECK(json_is_null(json_need(figures, "PascalBoxes_PerformanceByCategory/AP@0.5IOU/none")));
  CHECK(json_num(json_need(figures, "DetectionBoxes_Precision/mAP")) == 0.1);
  CHECK_TEXT(json_object_iter_key(json_object_iter(figures)), "DetectionBoxes_Precision/mAP");
  json_decref(root);
  /* a file that is none of ours stays as it is */
  CHECK_OK(od_file_write_all(lines, "hello\n", 6));
  CHECK_FAILS(od_eval_write_json(dir, 300, some, 1), OD_EDATA, "metrics.jsonl:1: not a line of metrics");
  CHECK(lines_of(lines) == 1);
  CHECK_OK(od_path_remove(lines));
  CHECK_OK(od_path_remove(path));
}

static void confusion_as_text(void **state) {
  (void)state;
  const od_eval_category cats[] = {{1, "cat"}, {2, "dog"}};
  od_eval_options o = od_eval_defaults();
  o.categories = cats;
  o.n_categories = 2;
  od_str text = OD_STR_INIT;
  od_eval *ev;
  CHECK_OK(od_eval_new(&ev, &o));
  CHECK_FAILS(od_eval_confusion_table(&text, ev), OD_EINVAL, "was not collected");
  od_eval_free(ev);
  o.confusion = true;
  CHECK_OK(od_eval_new(&ev, &o));
  const float box[4] = {0, 0, 9, 9}, score[1] = {0.75f};
  const int32_t cat[1] = {1}, dog[1] = {2};
  od_eval_groundtruth gt = {.n = 1, .boxes = box, .classes = cat};
  od_eval_detections det = {.n = 1, .boxes = box, .scores = score, .classes = dog};
  CHECK_OK(od_eval_add_groundtruth(ev, "a", &gt));
  CHECK_OK(od_eval_add_detections(ev, "a", &det));
  CHECK_OK(od_eval_finish(ev));
  CHECK_OK(od_eval_confusion_table(&text, ev));
  CHECK_TEXT(od_str_text(&text), "                 1       2  missed\n"
                                 "         1       0       1       0\n"
                                 "         2       0       0       0\n"
                                 "   nothing       0       0       0\n");
  od_str_free(&text);
  od_eval_free(ev);
}

static void names_are_normalised(void **state) {
  (void)state;
  FILE *f = fopen("tests/golden/eval/nfkd.txt", "r");
  char line[256];
  int n = 0;
  CHECK(f);
  while (fgets(line, sizeof line, f)) {
    if (line[0] == '#') continue;
    line[strcspn(line, "\n")] = 0;
    char *want = strchr(line, '\t');
    CHECK(want);
    *want++ = 0;
    od_str got = OD_STR_INIT;
    od_eval_add_nfkd(&got, line);
    CHECK_TEXT(od_str_text(&got), want);
    od_str_free(&got);
    n++;
  }
  fclose(f);
  CHECK(n == 12);
  od_str broken = OD_STR_INIT;
  od_eval_add_nfkd(&broken, "a\xff\xc3");
  CHECK_TEXT(od_str_text(&broken), "a\xff\xc3");
  od_str_free(&broken);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_table), cmocka_unit_test(json_is_replaced_by_step),
                                     cmocka_unit_test(confusion_as_text), cmocka_unit_test(names_are_normalised)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
