/* Masks as runs, and the mask metrics against the original's figures (tests/witness/mask_metrics.py). */
#include "od_json.h"

#include "base/rng.h"
#include "eval/evaluator.h"

static void runs_of_pictures(void **state) {
  (void)state;
  enum { H = 13, W = 9 };
  uint8_t a[H * W], b[H * W];
  for (uint64_t round = 0; round < 50; round++) {
    uint64_t area = 0, both = 0;
    float density = od_rng_f32(3, round);
    for (uint64_t i = 0; i < H * W; i++) {
      a[i] = od_rng_f32(od_key_mix(1, round), i) < density;
      b[i] = round == 7 ? 1 : od_rng_f32(od_key_mix(2, round), i) < 0.5f;
      area += a[i];
      both += a[i] && b[i];
    }
    od_mask ma, mb;
    CHECK_OK(od_mask_encode(&ma, a, H, W));
    CHECK_OK(od_mask_encode(&mb, b, H, W));
    CHECK_OK(od_mask_check(&ma));
    CHECK(od_mask_area(&ma) == area && od_mask_intersection(&ma, &mb) == both &&
          od_mask_intersection(&mb, &ma) == both);
    od_mask_free(&ma);
    od_mask_free(&mb);
  }
  const uint32_t wrong[] = {5, 5};
  const od_mask bad = {3, 3, 2, wrong};
  CHECK_FAILS(od_mask_check(&bad), OD_EDATA, "sum to 10, 3x3 pixels expected");
}

enum { MOST = 24, RUNS = 64 };
typedef struct {
  size_t n, m;
  float *boxes, *det_boxes, *scores;
  int32_t classes[MOST], det_classes[MOST];
  uint8_t difficult[MOST], crowd[MOST], group_of[MOST];
  uint32_t runs[2][MOST][RUNS];
  od_mask masks[2][MOST];
} sample;

static size_t numbers(json_t *list, int32_t *ints, uint8_t *bytes) {
  size_t n = json_array_size(list);
  CHECK(n <= MOST);
  for (size_t i = 0; i < n; i++) {
    double v = json_num(json_array_get(list, i));
    if (ints) ints[i] = (int32_t)v;
    if (bytes) bytes[i] = v != 0;
  }
  return n;
}

static void masks_of(sample *s, int side, json_t *list, uint32_t height, uint32_t width) {
  for (size_t i = 0; i < json_array_size(list); i++) {
    json_t *counts = json_array_get(list, i);
    uint32_t n = (uint32_t)json_array_size(counts);
    CHECK(n <= RUNS);
    for (uint32_t k = 0; k < n; k++) s->runs[side][i][k] = (uint32_t)json_integer_value(json_array_get(counts, k));
    s->masks[side][i] = (od_mask){height, width, n, s->runs[side][i]};
  }
}

static void feed(od_eval *ev, json_t *root, sample *s) {
  uint32_t h = (uint32_t)json_num(json_need(root, "height")), w = (uint32_t)json_num(json_need(root, "width"));
  json_t *images = json_need(root, "images");
  const int32_t verified[] = {1, 2};
  for (size_t i = 0; i < json_array_size(images); i++) {
    json_t *im = json_array_get(images, i);
    size_t k;
    s->boxes = json_floats(json_need(im, "boxes"), &k);
    s->det_boxes = json_floats(json_need(im, "det_boxes"), &k);
    s->scores = json_floats(json_need(im, "det_scores"), &k);
    s->n = numbers(json_need(im, "classes"), s->classes, NULL);
    s->m = numbers(json_need(im, "det_classes"), s->det_classes, NULL);
    numbers(json_need(im, "difficult"), NULL, s->difficult);
    numbers(json_need(im, "crowd"), NULL, s->crowd);
    numbers(json_need(im, "group_of"), NULL, s->group_of);
    masks_of(s, 0, json_need(im, "masks"), h, w);
    masks_of(s, 1, json_need(im, "det_masks"), h, w);
    od_eval_groundtruth gt = {.n = s->n,
                              .boxes = s->boxes,
                              .classes = s->classes,
                              .difficult = s->difficult,
                              .group_of = s->group_of,
                              .is_crowd = s->crowd,
                              .image_classes = verified,
                              .n_image_classes = 2,
                              .masks = s->masks[0]};
    od_eval_detections det = {
        .n = s->m, .boxes = s->det_boxes, .scores = s->scores, .classes = s->det_classes, .masks = s->masks[1]};
    const char *key = json_string_value(json_need(im, "id"));
    CHECK_OK(od_eval_add_groundtruth(ev, key, &gt));
    memset(s->runs[0], 0, sizeof s->runs[0]); /* groundtruth is copied */
    CHECK_OK(od_eval_add_detections(ev, key, &det));
    test_free(s->boxes);
    test_free(s->det_boxes);
    test_free(s->scores);
  }
}

static void mask_metrics_equal_the_original(void **state) {
  (void)state;
  const char *kept = getenv("OBJDET_MASK_GOLDEN"); /* figures of another seed */
  json_t *root = json_file(kept ? kept : "tests/golden/eval/masks.json"), *cases = json_need(root, "cases");
  const od_eval_category cats[] = {{1, "cat"}, {2, "dog"}, {3, "unseen"}};
  const char *metrics[8];
  od_eval_options o = od_eval_defaults();
  o.n_metrics = json_array_size(cases);
  CHECK(o.n_metrics == 4);
  for (size_t i = 0; i < o.n_metrics; i++)
    metrics[i] = json_string_value(json_need(json_array_get(cases, i), "metrics"));
  o.metrics = metrics;
  o.categories = cats;
  o.n_categories = 3;
  od_eval *ev;
  sample *s = test_calloc(1, sizeof *s);
  CHECK_OK(od_eval_new(&ev, &o));
  feed(ev, root, s);
  CHECK_OK(od_eval_finish(ev));
  for (size_t i = 0; i < o.n_metrics; i++) {
    const char *tag;
    json_t *value;
    json_object_foreach(json_need(json_array_get(cases, i), "outputs"), tag, value) {
      if (!od_eval_has(ev, tag)) fail_msg("no tag '%s'", tag);
      double want = json_num(value), got = od_eval_value(ev, tag);
      if (isnan(want) ? !isnan(got) : !(fabs(got - want) <= 1e-8))
        fail_msg("%s is %.10g, expected %.10g", tag, got, want);
    }
  }
  CHECK(od_eval_value(ev, "DetectionMasks_Precision/mAP") > 0.1);
  od_eval_free(ev);
  test_free(s);
  json_decref(root);
}

static void masks_must_be_there(void **state) {
  (void)state;
  const char *metrics[] = {"coco_mask_metrics"};
  const od_eval_category cat = {1, "cat"};
  od_eval_options o = od_eval_defaults();
  o.metrics = metrics;
  o.n_metrics = 1;
  o.categories = &cat;
  o.n_categories = 1;
  od_eval *ev;
  CHECK_OK(od_eval_new(&ev, &o));
  const float box[4] = {0, 0, 2, 2}, score[1] = {1};
  const int32_t one[1] = {1};
  const uint32_t runs[2] = {0, 4}, more[2] = {0, 6};
  const od_mask mask = {2, 2, 2, runs}, other = {2, 3, 2, more};
  od_eval_groundtruth gt = {.n = 1, .boxes = box, .classes = one};
  od_eval_detections det = {.n = 1, .boxes = box, .scores = score, .classes = one, .masks = &other};
  CHECK_FAILS(od_eval_add_groundtruth(ev, "a", &gt), OD_EINVAL, "image a: groundtruth without masks");
  gt.masks = &mask;
  CHECK_OK(od_eval_add_groundtruth(ev, "a", &gt));
  CHECK_FAILS(od_eval_add_detections(ev, "a", &det), OD_EMISMATCH, "masks of detections are 3x2, of groundtruth 2x2");
  det.masks = &mask;
  CHECK_OK(od_eval_add_detections(ev, "a", &det));
  CHECK_OK(od_eval_finish(ev));
  CHECK_NEAR(od_eval_value(ev, "DetectionMasks_Precision/mAP"), 1, 1e-12);
  od_eval_free(ev);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(runs_of_pictures),
                                     cmocka_unit_test(mask_metrics_equal_the_original),
                                     cmocka_unit_test(masks_must_be_there)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
