/* Metrics against the original's figures: its component file, pycocotools on 100 COCO images, a Pascal set, raccoons. */
#include "od_json.h"

#include "base/report.h"
#include "base/rng.h"
#include "eval/evaluator.h"

/* -------------------------------------------------------------------------------------------------- component figures */
typedef struct {
  size_t n, m;
  float *boxes, *det_boxes, *scores;
  int32_t classes[64], det_classes[64], verified[65];
  uint8_t difficult[64], crowd[64], group_of[64];
} sample;

static size_t flags(uint8_t *out, json_t *list) {
  for (size_t i = 0; i < json_array_size(list); i++) out[i] = json_num(json_array_get(list, i)) != 0;
  return json_array_size(list);
}

static size_t ints(int32_t *out, json_t *list) {
  for (size_t i = 0; i < json_array_size(list); i++) out[i] = (int32_t)json_num(json_array_get(list, i));
  return json_array_size(list);
}

static void sample_of(sample *s, json_t *im) {
  size_t k;
  s->boxes = json_floats(json_need(im, "boxes"), &k);
  s->det_boxes = json_floats(json_need(im, "det_boxes"), &k);
  s->scores = json_floats(json_need(im, "det_scores"), &k);
  s->n = ints(s->classes, json_need(im, "classes"));
  s->m = ints(s->det_classes, json_need(im, "det_classes"));
  CHECK(s->n < 64 && s->m < 64);
  flags(s->difficult, json_need(im, "difficult"));
  flags(s->crowd, json_need(im, "crowd"));
  flags(s->group_of, json_need(im, "group_of"));
}

static void sample_free(sample *s) {
  test_free(s->boxes);
  test_free(s->det_boxes);
  test_free(s->scores);
}

/* Feeds all images, or those with groundtruth; everything they hold goes in at once, each metric takes its own. */
static void feed_some(od_eval *ev, json_t *images, bool all) {
  for (size_t i = 0; i < json_array_size(images); i++) {
    json_t *im = json_array_get(images, i);
    if (!all && json_array_size(json_need(im, "classes")) == 0) continue;
    sample s;
    sample_of(&s, im);
    memcpy(s.verified, s.classes, s.n * sizeof s.classes[0]);
    s.verified[s.n] = 3;
    od_eval_groundtruth gt = {.n = s.n,
                              .boxes = s.boxes,
                              .classes = s.classes,
                              .difficult = s.difficult,
                              .group_of = s.group_of,
                              .is_crowd = s.crowd,
                              .image_classes = s.verified,
                              .n_image_classes = s.n + 1};
    od_eval_detections det = {.n = s.m, .boxes = s.det_boxes, .scores = s.scores, .classes = s.det_classes};
    CHECK_OK(od_eval_add_groundtruth(ev, json_string_value(json_need(im, "id")), &gt));
    CHECK_OK(od_eval_add_detections(ev, json_string_value(json_need(im, "id")), &det));
    sample_free(&s);
  }
}

static void feed(od_eval *ev, json_t *images) { feed_some(ev, images, true); }

static const od_eval_category four[] = {{1, "cat"}, {2, "dog"}, {3, "hen"}, {4, "unseen"}};

/* Every figure of a case, by tag. */
static void check_outputs(const od_eval *ev, json_t *outputs) {
  const char *tag;
  json_t *value;
  json_object_foreach(outputs, tag, value) {
    if (!od_eval_has(ev, tag)) fail_msg("no tag '%s'", tag);
    double want = json_num(value), got = od_eval_value(ev, tag);
    if (isnan(want) ? !isnan(got) : !(fabs(got - want) <= 1e-9))
      fail_msg("%s is %.10g, expected %.10g", tag, got, want);
  }
}

static void every_metric_equals_the_original(void **state) {
  (void)state;
  NEED_SHARED(path, "witness/components/metrics.json");
  json_t *root = json_file(path), *cases = json_need(root, "cases");
  json_t *images = json_need(json_need(json_array_get(cases, 0), "inputs"), "images");
  for (size_t i = 0; i < json_array_size(cases); i++) {
    json_t *c = json_array_get(cases, i);
    char name[96];
    const char *text = json_string_value(json_need(json_need(c, "params"), "metrics"));
    if (!text) text = "";
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, " "), text);
    const char *metrics[] = {name};
    od_eval_options o = od_eval_defaults();
    o.metrics = metrics;
    o.n_metrics = 1;
    o.categories = four;
    o.n_categories = 4;
    if (strstr(text, "iou 0.75")) o.iou_threshold = 0.75;
    if (strstr(text, "group_of_weight 1")) o.group_of_weight = 1;
    if (strstr(text, "0.1..0.6")) o.recall_lower_bound = 0.1, o.recall_upper_bound = 0.6;
    od_eval *ev;
    CHECK_OK(od_eval_new(&ev, &o));
    feed(ev, images);
    CHECK_OK(od_eval_finish(ev));
    check_outputs(ev, json_need(c, "outputs"));
    CHECK(od_eval_metric_count(ev) == json_object_size(json_need(c, "outputs")));
    od_eval_free(ev);
  }
  CHECK(json_array_size(cases) == 8);
  json_decref(root);
}

/* tests/witness/calibration.py; its sums are float32. */
static void calibration_equals_the_original(void **state) {
  (void)state;
  NEED_SHARED(path, "witness/components/metrics.json");
  json_t *root = json_file(path), *want = json_file("tests/golden/eval/calibration.json");
  od_eval_options o = od_eval_defaults();
  o.categories = four;
  o.n_categories = 4;
  o.calibration = true;
  od_eval *ev;
  CHECK_OK(od_eval_new(&ev, &o));
  feed_some(ev, json_need(json_need(json_array_get(json_need(root, "cases"), 0), "inputs"), "images"), false);
  CHECK_OK(od_eval_finish(ev));
  const char *tag = "CalibrationError/ExpectedCalibrationError";
  CHECK_NEAR(od_eval_value(ev, tag), json_num(json_need(want, tag)), 1e-6);
  od_eval_free(ev);
  json_decref(root);
  json_decref(want);
}

/* All metrics in one pass give what each gives alone. */
static void one_pass_feeds_all(void **state) {
  (void)state;
  NEED_SHARED(path, "witness/components/metrics.json");
  json_t *root = json_file(path), *cases = json_need(root, "cases");
  json_t *images = json_need(json_need(json_array_get(cases, 0), "inputs"), "images");
  const char *metrics[] = {"coco_detection_metrics", "pascal_voc_detection_metrics",
                           "weighted_pascal_voc_detection_metrics", "open_images_V2_detection_metrics",
                           "oid_challenge_object_detection_metrics"};
  od_eval_options o = od_eval_defaults();
  o.metrics = metrics;
  o.n_metrics = 5;
  o.categories = four;
  o.n_categories = 4;
  o.include_metrics_per_category = o.all_metrics_per_category = true;
  o.confusion = o.calibration = o.corloc = true;
  size_t used = od_mem_used();
  od_eval *ev;
  CHECK_OK(od_eval_new(&ev, &o));
  feed(ev, images);
  CHECK_OK(od_eval_finish(ev));
  const size_t which[] = {0, 2, 4, 6, 7};
  for (size_t i = 0; i < 5; i++) check_outputs(ev, json_need(json_array_get(cases, which[i]), "outputs"));
  /* by category: the mean over categories with groundtruth is the total */
  double sum = 0;
  for (int k = 0; k < 3; k++) {
    char tag[96];
    snprintf(tag, sizeof tag, "DetectionBoxes_PerformanceByCategory/mAP/%s", four[k].name);
    sum += od_eval_value(ev, tag);
    snprintf(tag, sizeof tag, "DetectionBoxes_Precision/mAP ByCategory/%s", four[k].name);
    CHECK(od_eval_has(ev, tag));
  }
  CHECK_NEAR(sum / 3, od_eval_value(ev, "DetectionBoxes_Precision/mAP"), 1e-12);
  CHECK_NEAR(od_eval_value(ev, "DetectionBoxes_PerformanceByCategory/mAP/unseen"), -1, 0);
  /* curves: three classes with groundtruth in each of five metrics; the AP follows from the curve */
  CHECK(od_eval_curve_count(ev) == 15);
  for (size_t i = 0; i < od_eval_curve_count(ev); i++) {
    const od_eval_curve *c = od_eval_curve_at(ev, i);
    double best = 0, area = 0;
    for (size_t k = c->n; k-- > 0;) {
      if (c->precision[k] > best) best = c->precision[k];
      area += (c->recall[k] - (k ? c->recall[k - 1] : 0)) * best;
      CHECK(k == 0 || c->recall[k] >= c->recall[k - 1]);
    }
    char tag[128];
    snprintf(tag, sizeof tag, "%s_PerformanceByCategory/AP@0.5IOU/%s", c->metric, c->name);
    if (strcmp(c->metric, "DetectionBoxes")) CHECK_NEAR(area, od_eval_value(ev, tag), 1e-12);
  }
  od_eval_free(ev);
  CHECK(od_mem_used() == used);
  json_decref(root);
}

/* -------------------------------------------------------------------------------------------------- the reference sets */
static void by_numbers(od_eval **out, const char *metric, const od_eval_category *cats, size_t n, double iou,
                       bool eleven) {
  const char *metrics[] = {metric};
  od_eval_options o = od_eval_defaults();
  o.metrics = metrics;
  o.n_metrics = 1;
  o.categories = cats;
  o.n_categories = n;
  o.iou_threshold = iou;
  o.eleven_point = eleven;
  o.ties_by_age = iou < 0.5; /* the Pascal set's tool sorts stably */
  CHECK_OK(od_eval_new(out, &o));
}

/* [x, y, w, h] to [ymin, xmin, ymax, xmax]. */
static void corners(float *out, json_t *box) {
  double b[4];
  for (size_t i = 0; i < 4; i++) b[i] = json_num(json_array_get(box, i));
  out[0] = (float)b[1];
  out[1] = (float)b[0];
  out[2] = (float)(b[1] + b[3]);
  out[3] = (float)(b[0] + b[2]);
}

enum { MOST = 400 };
typedef struct {
  size_t n, m;
  float boxes[MOST][4], area[MOST], det[MOST][4], scores[MOST];
  int32_t classes[MOST], det_classes[MOST];
  uint8_t crowd[MOST];
} coco_image;

static void coco_image_of(coco_image *im, int64_t id, json_t *annotations, json_t *detections) {
  im->n = im->m = 0;
  for (size_t i = 0; i < json_array_size(annotations); i++) {
    json_t *a = json_array_get(annotations, i);
    if (json_integer_value(json_need(a, "image_id")) != id) continue;
    corners(im->boxes[im->n], json_need(a, "bbox"));
    im->area[im->n] = (float)json_num(json_need(a, "area"));
    im->crowd[im->n] = json_num(json_need(a, "iscrowd")) != 0;
    im->classes[im->n++] = (int32_t)json_integer_value(json_need(a, "category_id"));
    CHECK(im->n < MOST);
  }
  for (size_t i = 0; i < json_array_size(detections); i++) {
    json_t *d = json_array_get(detections, i);
    if (json_integer_value(json_need(d, "image_id")) != id) continue;
    corners(im->det[im->m], json_need(d, "bbox"));
    im->scores[im->m] = (float)json_num(json_need(d, "score"));
    im->det_classes[im->m++] = (int32_t)json_integer_value(json_need(d, "category_id"));
    CHECK(im->m < MOST);
  }
}

static void coco_reference_to_six_digits(void **state) {
  (void)state;
  NEED_SHARED(path, "data/coco_eval_reference/gts/sampled_gts_bbox_area.json");
  json_t *gts = json_file(path);
  json_t *dets = json_file(od_shared("data/coco_eval_reference/cocoapi_results.json"));
  json_t *cats = json_need(gts, "categories"), *images = json_need(gts, "images");
  od_eval_category categories[100];
  size_t n = json_array_size(cats);
  CHECK(n <= 100);
  for (size_t i = 0; i < n; i++) {
    json_t *c = json_array_get(cats, i);
    categories[i] =
        (od_eval_category){(int)json_integer_value(json_need(c, "id")), json_string_value(json_need(c, "name"))};
  }
  od_eval *ev;
  by_numbers(&ev, "coco_detection_metrics", categories, n, 0.5, false);
  static coco_image im;
  for (size_t i = 0; i < json_array_size(images); i++) {
    int64_t id = json_integer_value(json_need(json_array_get(images, i), "id"));
    char key[32];
    snprintf(key, sizeof key, "%012lld", (long long)id); /* keys in the order of numbers, as pycocotools sorts them */
    coco_image_of(&im, id, json_need(gts, "annotations"), dets);
    od_eval_groundtruth gt = {
        .n = im.n, .boxes = im.boxes[0], .classes = im.classes, .is_crowd = im.crowd, .area = im.area};
    od_eval_detections det = {.n = im.m, .boxes = im.det[0], .scores = im.scores, .classes = im.det_classes};
    CHECK_OK(od_eval_add_groundtruth(ev, key, &gt));
    CHECK_OK(od_eval_add_detections(ev, key, &det));
  }
  CHECK_OK(od_eval_finish(ev));
  static const struct {
    const char *tag;
    double value;
  } want[] = {
      {"Precision/mAP", .503647},         {"Precision/mAP@.50IOU", .696973},   {"Precision/mAP@.75IOU", .571667},
      {"Precision/mAP (small)", .593252}, {"Precision/mAP (medium)", .557991}, {"Precision/mAP (large)", .489363},
      {"Recall/AR@1", .386813},           {"Recall/AR@10", .593680},           {"Recall/AR@100", .595353},
      {"Recall/AR@100 (small)", .654764}, {"Recall/AR@100 (medium)", .603130}, {"Recall/AR@100 (large)", .553744}};
  for (size_t i = 0; i < 12; i++) {
    char tag[96];
    snprintf(tag, sizeof tag, "DetectionBoxes_%s", want[i].tag);
    double got = od_eval_value(ev, tag);
    if (!(fabs(got - want[i].value) <= 6e-7)) fail_msg("%s is %.7f, expected %.6f", tag, got, want[i].value);
  }
  od_eval_free(ev);
  json_decref(gts);
  json_decref(dets);
}

static size_t voc_lines(const char *dir, int k, bool scored, float boxes[][4], float *scores) {
  char name[64];
  snprintf(name, sizeof name, "data/voc_eval_sample2/%s/%05d.txt", dir, k);
  const char *path = od_shared(name);
  if (!path) return 0;
  FILE *f = fopen(path, "r");
  CHECK(f);
  size_t n = 0;
  float s = 0, x, y, w, h;
  while (fscanf(f, scored ? "%*s %f" : "%*s", &s) == (scored ? 1 : 0) &&
         fscanf(f, "%f %f %f %f", &x, &y, &w, &h) == 4) {
    scores[n] = s;
    boxes[n][0] = y;
    boxes[n][1] = x;
    boxes[n][2] = y + h;
    boxes[n++][3] = x + w;
  }
  fclose(f);
  return n;
}

/* The set's own tool gives 24.57 % and 26.84 %. It takes x2 = x + w as the last pixel of a box, so we add that pixel. */
static void pascal_reference(void **state) {
  (void)state;
  NEED_SHARED(first, "data/voc_eval_sample2/detections/00001.txt");
  const od_eval_category person = {1, "person"};
  for (int eleven = 0; eleven < 2; eleven++) {
    od_eval *ev;
    by_numbers(&ev, "pascal_voc_detection_metrics", &person, 1, 0.3, eleven);
    for (int k = 1; k <= 7; k++) {
      float gt_boxes[16][4], det_boxes[16][4], scores[16], none[16];
      int32_t ones[16];
      for (int i = 0; i < 16; i++) ones[i] = 1;
      size_t n = voc_lines("groundtruths", k, false, gt_boxes, none),
             m = voc_lines("detections", k, true, det_boxes, scores);
      for (size_t i = 0; i < n; i++) gt_boxes[i][2]++, gt_boxes[i][3]++;
      for (size_t i = 0; i < m; i++) det_boxes[i][2]++, det_boxes[i][3]++;
      char key[16];
      snprintf(key, sizeof key, "%05d", k);
      od_eval_groundtruth gt = {.n = n, .boxes = gt_boxes[0], .classes = ones};
      od_eval_detections det = {.n = m, .boxes = det_boxes[0], .scores = scores, .classes = ones};
      CHECK_OK(od_eval_add_groundtruth(ev, key, &gt));
      CHECK_OK(od_eval_add_detections(ev, key, &det));
    }
    CHECK_OK(od_eval_finish(ev));
    CHECK_NEAR(od_eval_value(ev, "PascalBoxes_Precision/mAP@0.3IOU"), eleven ? 0.2684 : 0.24565, 6e-5);
    od_eval_free(ev);
  }
}

/* The original's detections on its 40 test pictures (the 20 best of 100) against the boxes of the CSV. */
static void raccoons_of_the_original(void **state) {
  (void)state;
  NEED_SHARED(path, "data/raccoon_original/detections.json");
  json_t *root = json_file(path);
  const od_eval_category raccoon = {1, "raccoon"};
  od_eval *ev;
  by_numbers(&ev, "coco_detection_metrics", &raccoon, 1, 0.5, false);
  const char *name;
  json_t *im;
  json_object_foreach(root, name, im) {
    NEED_SHARED(csv, "data/raccoon/data/test_labels.csv");
    FILE *f = fopen(csv, "r");
    CHECK(f);
    float gt_boxes[16][4], h = (float)json_num(json_need(im, "height")), w = (float)json_num(json_need(im, "width"));
    int32_t ones[128];
    for (int i = 0; i < 128; i++) ones[i] = 1;
    size_t n = 0, m;
    char line[256], file[64];
    while (fgets(line, sizeof line, f)) {
      float x0, y0, x1, y1;
      if (sscanf(line, "%63[^,],%*f,%*f,%*[^,],%f,%f,%f,%f", file, &x0, &y0, &x1, &y1) != 5 || strcmp(file, name))
        continue;
      /* through the record: normalised in double, stored as float32, scaled back */
      gt_boxes[n][0] = (float)((double)y0 / (double)h) * h;
      gt_boxes[n][1] = (float)((double)x0 / (double)w) * w;
      gt_boxes[n][2] = (float)((double)y1 / (double)h) * h;
      gt_boxes[n++][3] = (float)((double)x1 / (double)w) * w;
    }
    fclose(f);
    CHECK(n > 0);
    float *boxes = json_floats(json_need(im, "boxes"), &m), *scores = json_floats(json_need(im, "scores"), &m);
    for (size_t i = 0; i < 4 * m; i++) boxes[i] *= i & 1 ? w : h;
    od_eval_groundtruth gt = {.n = n, .boxes = gt_boxes[0], .classes = ones};
    od_eval_detections det = {.n = m, .boxes = boxes, .scores = scores, .classes = ones};
    CHECK_OK(od_eval_add_groundtruth(ev, name, &gt));
    CHECK_OK(od_eval_add_detections(ev, name, &det));
    test_free(boxes);
    test_free(scores);
  }
  CHECK(od_eval_image_count(ev) == 40);
  CHECK_OK(od_eval_finish(ev));
  /* exact where 20 detections suffice, near where the tail of 100 takes part */
  CHECK_NEAR(od_eval_value(ev, "DetectionBoxes_Recall/AR@1"), 0.320455, 6e-7);
  CHECK_NEAR(od_eval_value(ev, "DetectionBoxes_Recall/AR@10"), 0.384091, 6e-7);
  CHECK_NEAR(od_eval_value(ev, "DetectionBoxes_Precision/mAP@.50IOU"), 0.512950, 0.01);
  CHECK_NEAR(od_eval_value(ev, "DetectionBoxes_Precision/mAP"), 0.192488, 0.005);
  od_eval_free(ev);
  json_decref(root);
}

/* ------------------------------------------------------------------------------------------------------------ behaviour */
static int warnings;
static void hear(void *ctx, od_level level, const char *text) {
  (void)ctx;
  (void)text;
  warnings += level == OD_WARNING;
}

static void wrong_use_is_told(void **state) {
  (void)state;
  od_eval *ev;
  const char *metrics[] = {"coco_detection_metric"};
  od_eval_options o = od_eval_defaults();
  o.metrics = metrics;
  o.n_metrics = 1;
  o.categories = four;
  o.n_categories = 4;
  CHECK_FAILS(od_eval_new(&ev, &o), OD_EINVAL, "did you mean coco_detection_metrics?");
  metrics[0] = "coco_keypoint_metrics";
  CHECK_FAILS(od_eval_new(&ev, &o), OD_EUNSUPPORTED, "coco_keypoint_metrics is not supported yet");
  const od_eval_category zero = {0, "background"};
  metrics[0] = "coco_detection_metrics";
  o.categories = &zero;
  o.n_categories = 1;
  CHECK_FAILS(od_eval_new(&ev, &o), OD_EINVAL, "ids begin at 1");
  o.categories = four;
  o.n_categories = 4;
  od_reporter reporter = {.line = hear};
  o.reporter = &reporter;
  CHECK_OK(od_eval_new(&ev, &o));
  const float box[4] = {0, 0, 10, 10}, score[1] = {0.5f};
  const int32_t one[1] = {1};
  od_eval_groundtruth gt = {.n = 1, .boxes = box, .classes = one};
  od_eval_detections det = {.n = 1, .boxes = box, .scores = score, .classes = one};
  CHECK_FAILS(od_eval_add_detections(ev, "a", &det), OD_EINVAL, "image a: detections without groundtruth");
  CHECK_OK(od_eval_add_groundtruth(ev, "a", &gt));
  CHECK_OK(od_eval_add_detections(ev, "a", &det));
  warnings = 0;
  CHECK_OK(od_eval_add_groundtruth(ev, "a", &gt));
  CHECK_OK(od_eval_add_detections(ev, "a", &det));
  CHECK(warnings == 2);
  CHECK_OK(od_eval_add_groundtruth(ev, "never detected", &gt));
  CHECK_OK(od_eval_finish(ev));
  CHECK_NEAR(od_eval_value(ev, "DetectionBoxes_Recall/AR@100"), 0.5, 0);
  CHECK_FAILS(od_eval_add_groundtruth(ev, "b", &gt), OD_EINVAL, "after the evaluation was finished");
  CHECK(isnan(od_eval_value(ev, "no such tag")));
  od_eval_free(ev);
  od_eval_free(NULL);
}

static void confusion_and_calibration(void **state) {
  (void)state;
  od_eval_options o = od_eval_defaults();
  o.categories = four;
  o.n_categories = 2;
  o.confusion = o.calibration = true;
  od_eval *ev;
  CHECK_OK(od_eval_new(&ev, &o));
  /* a cat found, a dog taken for a cat, a dog missed, a difficult dog found, a ghost; a faint one is left out */
  const float boxes[] = {0, 0, 10, 10, 20, 20, 30, 30, 40, 40, 50, 50, 60, 60, 70, 70};
  const int32_t classes[] = {1, 2, 2, 2};
  const uint8_t difficult[] = {0, 0, 0, 1};
  const float det_boxes[] = {0, 0, 10, 9, 20, 20, 30, 30, 60, 60, 70, 70, 80, 80, 90, 90, 40, 40, 50, 50};
  const float scores[] = {0.9f, 0.8f, 0.7f, 0.6f, 0.25f};
  const int32_t det_classes[] = {1, 1, 2, 2, 2};
  od_eval_groundtruth gt = {.n = 4, .boxes = boxes, .classes = classes, .difficult = difficult};
  od_eval_detections det = {.n = 5, .boxes = det_boxes, .scores = scores, .classes = det_classes};
  CHECK_OK(od_eval_add_groundtruth(ev, "a", &gt));
  CHECK_OK(od_eval_add_detections(ev, "a", &det));
  CHECK_OK(od_eval_finish(ev));
  size_t k;
  const uint64_t *c = od_eval_confusion(ev, &k);
  const uint64_t want[9] = {1, 0, 0, 1, 0, 1, 0, 1, 0};
  CHECK(k == 3 && c);
  for (int i = 0; i < 9; i++) CHECK(c[i] == want[i]);
  /* bins: .9 right, .8 wrong, .7 right, .6 wrong, .25 right: (.1 + .8 + .3 + .6 + .75) / 5 */
  CHECK_NEAR(od_eval_value(ev, "CalibrationError/ExpectedCalibrationError"), 0.51, 1e-7);
  od_eval_free(ev);
}

/* Threads and the order of images change nothing, and memory stays flat per detection. */
static void random_set(od_eval *ev, uint64_t images, bool backwards) {
  enum { GT = 7, DET = 100 };
  for (uint64_t i = 0; i < images; i++) {
    uint64_t k = backwards ? images - 1 - i : i;
    od_key key = od_key_mix(5, k);
    float gt_boxes[GT][4], boxes[DET][4], scores[DET];
    int32_t classes[GT], det_classes[DET];
    for (int g = 0; g < GT; g++) {
      uint64_t c = (uint64_t)g * 8;
      gt_boxes[g][0] = 500 * od_rng_f32(key, c);
      gt_boxes[g][1] = 500 * od_rng_f32(key, c + 1);
      gt_boxes[g][2] = gt_boxes[g][0] + 5 + 200 * od_rng_f32(key, c + 2);
      gt_boxes[g][3] = gt_boxes[g][1] + 5 + 200 * od_rng_f32(key, c + 3);
      classes[g] = (int32_t)od_rng_below(key, c + 4, 80) + 1;
    }
    for (int d = 0; d < DET; d++) {
      uint64_t c = 1000 + (uint64_t)d * 8;
      int g = d % GT;
      for (uint64_t e = 0; e < 4; e++) boxes[d][e] = gt_boxes[g][e] + 20 * (od_rng_f32(key, c + e) - 0.5f);
      scores[d] = floorf(od_rng_f32(key, c + 4) * 1000) / 1000; /* with ties */
      det_classes[d] = od_rng_f32(key, c + 5) < 0.7f ? classes[g] : (int32_t)od_rng_below(key, c + 6, 80) + 1;
    }
    char name[32];
    snprintf(name, sizeof name, "%06d", (int)k);
    od_eval_groundtruth gt = {.n = GT, .boxes = gt_boxes[0], .classes = classes};
    od_eval_detections det = {.n = DET, .boxes = boxes[0], .scores = scores, .classes = det_classes};
    CHECK_OK(od_eval_add_groundtruth(ev, name, &gt));
    CHECK_OK(od_eval_add_detections(ev, name, &det));
  }
}

static void order_and_threads_change_nothing(void **state) {
  (void)state;
  od_eval_category cats[80];
  for (int k = 0; k < 80; k++) cats[k] = (od_eval_category){k + 1, "thing"};
  const char *metrics[] = {"coco_detection_metrics"};
  od_eval *ev[2];
  for (int i = 0; i < 2; i++) {
    od_eval_options o = od_eval_defaults();
    o.metrics = metrics;
    o.n_metrics = 1;
    o.categories = cats;
    o.n_categories = 80;
    o.threads = i ? 4 : 1;
    CHECK_OK(od_eval_new(&ev[i], &o));
    random_set(ev[i], 200, i == 1);
    CHECK_OK(od_eval_finish(ev[i]));
  }
  for (size_t i = 0; i < od_eval_metric_count(ev[0]); i++) {
    CHECK(od_eval_metrics(ev[0])[i].value == od_eval_metrics(ev[1])[i].value);
    CHECK(od_eval_metrics(ev[0])[i].value > 0.01);
  }
  od_eval_free(ev[0]);
  od_eval_free(ev[1]);
}

static void memory_failures_are_clean(void **state) {
  (void)state;
  size_t used = od_mem_used();
  bool failed = true;
  int rounds = 0;
  for (uint64_t n = 1; failed && n < 2000; n += 1 + n / 16, rounds++) {
    const char *metrics[] = {"coco_detection_metrics", "pascal_voc_detection_metrics",
                             "weighted_pascal_voc_detection_metrics"};
    od_eval_options o = od_eval_defaults();
    o.metrics = metrics;
    o.n_metrics = 3;
    o.categories = four;
    o.n_categories = 4;
    o.confusion = o.calibration = o.include_metrics_per_category = true;
    o.threads = 1;
    const float boxes[] = {0, 0, 10, 10, 20, 20, 30, 30}, scores[] = {0.9f, 0.8f};
    const int32_t classes[] = {1, 2};
    od_eval_groundtruth gt = {.n = 2, .boxes = boxes, .classes = classes};
    od_eval_detections det = {.n = 2, .boxes = boxes, .scores = scores, .classes = classes};
    od_mem_fail_at(n);
    od_eval *ev = NULL;
    od_status st = od_eval_new(&ev, &o);
    if (st == OD_OK) st = od_eval_add_groundtruth(ev, "a", &gt);
    if (st == OD_OK) st = od_eval_add_detections(ev, "a", &det);
    if (st == OD_OK) st = od_eval_finish(ev);
    failed = st != OD_OK;
    if (failed) CHECK(st == OD_ENOMEM);
    od_eval_free(ev);
    CHECK(od_mem_used() == used);
  }
  od_mem_fail_at(0);
  CHECK(!failed && rounds > 20);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_metric_equals_the_original),
                                     cmocka_unit_test(one_pass_feeds_all),
                                     cmocka_unit_test(calibration_equals_the_original),
                                     cmocka_unit_test(coco_reference_to_six_digits),
                                     cmocka_unit_test(pascal_reference),
                                     cmocka_unit_test(raccoons_of_the_original),
                                     cmocka_unit_test(wrong_use_is_told),
                                     cmocka_unit_test(confusion_and_calibration),
                                     cmocka_unit_test(order_and_threads_change_nothing),
                                     cmocka_unit_test(memory_failures_are_clean)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
