/* Options from eval_config, super categories, the label hierarchy of Open Images, and the pictures of an evaluation. */
#include "od_json.h"

#include "eval/chart.h"
#include "eval/hierarchy.h"
#include "eval/options.h"
#include "image/encode.h"
#include "io/file.h"
#include "io/protobuf.h"
#include "io/textproto.h"

static od_status options_of(od_eval_options *o, const char *text, bool legacy, od_arena *arena,
                            ObjectDetection__Protos__EvalConfig **config) {
  CHECK_OK(
      od_textproto_parse(config, &object_detection__protos__eval_config__descriptor, "test", text, strlen(text), NULL));
  *o = od_eval_defaults();
  return od_eval_options_from_config(o, *config, legacy, arena);
}

static void the_config_chooses(void **state) {
  (void)state;
  ObjectDetection__Protos__EvalConfig *config;
  od_eval_options o;
  od_arena *arena;
  CHECK_OK(od_arena_new(&arena));
  CHECK_OK(options_of(&o, "", true, arena, &config));
  CHECK(o.n_metrics == 1 && o.recall_lower_bound == 0 && o.recall_upper_bound == 1 && !o.include_metrics_per_category);
  CHECK_TEXT(o.metrics[0], "pascal_voc_detection_metrics");
  od_proto_free(config);
  CHECK_OK(options_of(&o, "", false, arena, &config));
  CHECK_TEXT(o.metrics[0], "coco_detection_metrics");
  od_proto_free(config);
  CHECK_OK(options_of(
      &o,
      "metrics_set: 'oid_V2_detection_metrics' metrics_set: 'coco_detection_metrics' recall_lower_bound: 0.25 "
      "include_metrics_per_category: true super_categories { key: 'animals' value: 'cat,dog' }",
      false, arena, &config));
  CHECK(o.n_metrics == 2 && o.recall_lower_bound == 0.25 && o.include_metrics_per_category &&
        o.n_super_categories == 1);
  CHECK_TEXT(o.super_categories[0].members, "cat,dog");
  od_proto_free(config);
  CHECK_FAILS(
      options_of(&o, "parameterized_metric { coco_keypoint_metrics { class_label: 'person' } }", false, arena, &config),
      OD_EUNSUPPORTED, "parameterized_metric");
  od_proto_free(config);
  od_arena_free(arena);
}

static const od_eval_category cats[] = {{1, "cat"}, {2, "dog"}, {3, "animal"}, {4, "thing"}};
static const float boxes[] = {0, 0, 50, 50, 60, 60, 100, 100};
static const int32_t classes[] = {1, 2};

/* A cat found, a dog found late. */
static void evaluate(od_eval **out, od_eval_options *o) {
  const float scores[] = {0.9f, 0.6f, 0.8f}, found[] = {0, 0, 50, 50, 60, 60, 100, 100, 5, 60, 40, 90};
  const int32_t found_classes[] = {1, 2, 2};
  od_eval_groundtruth gt = {.n = 2, .boxes = boxes, .classes = classes};
  od_eval_detections det = {.n = 3, .boxes = found, .scores = scores, .classes = found_classes};
  o->categories = cats;
  o->n_categories = 4;
  CHECK_OK(od_eval_new(out, o));
  CHECK_OK(od_eval_add_groundtruth(*out, "a", &gt));
  CHECK_OK(od_eval_add_detections(*out, "a", &det));
  CHECK_OK(od_eval_finish(*out));
}

static void super_categories_are_means(void **state) {
  (void)state;
  const char *metrics[] = {"coco_detection_metrics"};
  const od_eval_super_category supers[] = {{"pets", "cat,dog"}, {"odd", "dog,animal,nobody"}};
  od_eval_options o = od_eval_defaults();
  od_eval *ev;
  o.metrics = metrics;
  o.n_metrics = 1;
  o.include_metrics_per_category = true;
  o.super_categories = supers;
  o.n_super_categories = 2;
  evaluate(&ev, &o);
  double cat = od_eval_value(ev, "DetectionBoxes_PerformanceByCategory/mAP/cat");
  double dog = od_eval_value(ev, "DetectionBoxes_PerformanceByCategory/mAP/dog");
  CHECK_NEAR(cat, 1, 1e-12);
  CHECK_NEAR(dog, 0.5, 1e-12);
  CHECK_NEAR(od_eval_value(ev, "DetectionBoxes_PerformanceBySuperCategory/pets"), 0.75, 1e-12);
  CHECK_NEAR(od_eval_value(ev, "DetectionBoxes_PerformanceBySuperCategory/odd"), (0.5 - 1) / 3, 1e-12);
  od_eval_free(ev);
}

static void labels_have_parents(void **state) {
  (void)state;
  const char *text =
      "{\"LabelName\": \"all\", \"Subcategory\": ["
      "{\"LabelName\": \"animal\", \"Subcategory\": [{\"LabelName\": \"cat\"}, {\"LabelName\": \"dog\"}]},"
      "{\"LabelName\": \"thing\", \"Subcategory\": [{\"LabelName\": \"dog\"}, {\"LabelName\": \"cup\"}]}]}";
  od_hierarchy *h;
  const char *const *names;
  CHECK_OK(od_hierarchy_parse(&h, text, strlen(text)));
  CHECK(od_hierarchy_above(h, "dog", &names) == 2);
  CHECK_TEXT(names[0], "animal");
  CHECK_TEXT(names[1], "thing");
  CHECK(od_hierarchy_above(h, "animal", &names) == 0 && od_hierarchy_below(h, "thing", &names) == 2);
  CHECK(od_hierarchy_above(h, "nobody", &names) == 0 && od_hierarchy_above(h, "all", &names) == 0);
  const uint8_t group_of[] = {0, 1};
  const int32_t verified[] = {2, 4};
  od_eval_groundtruth gt = {.n = 2,
                            .boxes = boxes,
                            .classes = classes,
                            .group_of = group_of,
                            .image_classes = verified,
                            .n_image_classes = 2};
  od_eval_groundtruth wide;
  od_arena *arena;
  CHECK_OK(od_arena_new(&arena));
  CHECK_OK(od_hierarchy_expand(&wide, h, &gt, cats, 4, arena));
  const int32_t want[] = {1, 3, 2, 3, 4};
  CHECK(wide.n == 5 && memcmp(wide.classes, want, sizeof want) == 0);
  CHECK(wide.boxes[4 * 1 + 2] == 50 && wide.boxes[4 * 4] == 60 && !wide.group_of[1] && wide.group_of[4] &&
        !wide.is_crowd);
  const int32_t want_verified[] = {2, 3, 4, 4};
  CHECK(wide.n_image_classes == 4 && memcmp(wide.image_classes, want_verified, sizeof want_verified) == 0);
  od_arena_free(arena);
  od_hierarchy_free(h);
  CHECK_FAILS(od_hierarchy_parse(&h, "{}", 2), OD_EDATA, "Subcategory expected");
  CHECK_FAILS(od_hierarchy_parse(&h, "{", 1), OD_EDATA, "label hierarchy:1:");
  const char *nameless = "{\"Subcategory\": [{}]}";
  CHECK_FAILS(od_hierarchy_parse(&h, nameless, strlen(nameless)), OD_EDATA, "without LabelName below the root");
}

static bool has_colour(const od_image *im, od_colour c, int x0, int x1) {
  for (int y = 0; y < im->height; y++)
    for (int x = x0; x < x1; x++) {
      const uint8_t *p = im->data + ((size_t)y * (size_t)im->width + (size_t)x) * 3;
      if (p[0] == c.r && p[1] == c.g && p[2] == c.b) return true;
    }
  return false;
}

/* OBJDET_KEEP=dir keeps the pictures for the eye. */
static void keep(const od_image *im, const char *name) {
  if (!getenv("OBJDET_KEEP")) return;
  char path[512];
  od_str png = OD_STR_INIT;
  snprintf(path, sizeof path, "%s/%s", getenv("OBJDET_KEEP"), name);
  CHECK_OK(od_png_encode(&png, im));
  CHECK_OK(od_file_write_all(path, png.data, png.len));
  od_str_free(&png);
}

static void pictures_show_the_figures(void **state) {
  (void)state;
  const char *metrics[] = {"pascal_voc_detection_metrics"};
  od_eval_options o = od_eval_defaults();
  od_eval *ev;
  o.metrics = metrics;
  o.n_metrics = 1;
  o.confusion = true;
  evaluate(&ev, &o);
  od_font *font;
  CHECK_OK(od_font_open(&font, 14, NULL));
  od_image im = {0};
  CHECK_OK(od_eval_chart_curves(&im, ev, "PascalBoxes", font));
  CHECK(im.width == 640 && im.height == 480);
  for (int id = 1; id <= 2; id++) CHECK(has_colour(&im, od_colour_of_class(id), 40, 440));
  CHECK(has_colour(&im, od_colour_of_class(2), 441, 640)); /* the legend */
  CHECK(!has_colour(&im, od_colour_of_class(4), 0, 640));
  keep(&im, "curves.png");
  od_image_free(&im);
  CHECK_FAILS(od_eval_chart_curves(&im, ev, "DetectionBoxes", font), OD_EINVAL,
              "no precision-recall curve of DetectionBoxes");
  CHECK_OK(od_eval_chart_confusion(&im, ev, font));
  /* the cat's cell is full, its neighbour empty */
  const uint8_t *full = im.data + ((size_t)38 * (size_t)im.width + 38) * 3, *empty = full + 48 * 3;
  CHECK(full[0] == 80 && full[1] == 140 && full[2] == 255 && empty[0] == 255);
  keep(&im, "confusion.png");
  od_image_free(&im);
  CHECK_OK(od_eval_chart_confusion(&im, ev, NULL)); /* without a font */
  od_image_free(&im);
  od_font_free(font);
  od_eval_free(ev);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_config_chooses), cmocka_unit_test(super_categories_are_means),
                                     cmocka_unit_test(labels_have_parents),
                                     cmocka_unit_test(pictures_show_the_figures)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
