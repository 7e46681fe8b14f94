/* Boxes in plain C against what the original gave: anchors, similarity, coders, matching, NMS, samplers. */
#include "od_json.h"

#include "ops/box/anchors.h"
#include "ops/box/coder.h"
#include "ops/box/matcher.h"
#include "ops/box/nms.h"
#include "ops/box/sampler.h"
#include "ops/box/similarity.h"
#include "ops/box/window.h"

/* Memory for what is computed here; its size is checked against the functions' own in the ops' tests. */
static _Alignas(OD_ALIGN) char memory[1 << 18];
#define WORK ((od_work){memory, sizeof memory})

typedef void (*case_fn)(const char *op, json_t *params, json_t *inputs, json_t *outputs);

/* Runs check over the cases of a golden file; returns how many there were. */
static size_t each_case(const char *path, case_fn check) {
  json_t *root = json_file(path), *cases = json_need(root, "cases");
  size_t n = json_array_size(cases);
  for (size_t i = 0; i < n; i++) {
    json_t *c = json_array_get(cases, i);
    check(json_string_value(json_need(c, "op")), json_need(c, "params"), json_need(c, "inputs"),
          json_need(c, "outputs"));
  }
  json_decref(root);
  return n;
}

/* ------------------------------------------------------------------------------------------------------------- anchors */
static int doubles(double *out, json_t *list) {
  int n = (int)json_array_size(list);
  for (int i = 0; i < n; i++) out[i] = json_num(json_array_get(list, (size_t)i));
  return n;
}

static void two(float out[2], json_t *list) {
  for (size_t i = 0; i < 2; i++) out[i] = (float)json_num(json_array_get(list, i));
}

static void pair_of(int64_t out[2], json_t *list) {
  for (size_t i = 0; i < 2; i++) out[i] = json_integer_value(json_array_get(list, i));
}

static void grid_case(od_anchor_grid *g, json_t *p) {
  double scales[16], ratios[16];
  float base[2], stride[2], offset[2];
  int ns = doubles(scales, json_need(p, "scales")), nr = doubles(ratios, json_need(p, "aspect_ratios"));
  two(base, json_need(p, "base_anchor_size"));
  two(stride, json_need(p, "anchor_stride"));
  two(offset, json_need(p, "anchor_offset"));
  CHECK_OK(od_anchors_grid(g, scales, ns, ratios, nr, base, stride, offset));
}

static void ssd_case(od_anchor_grid *g, json_t *p, int layer, const int64_t grid[2], const int64_t image[2]) {
  double ratios[16] = {1.0, 2.0, 3.0, 1.0 / 2, 1.0 / 3}, scales[16];
  float strides[8][2], offsets[8][2];
  json_t *list;
  od_ssd_anchors o = {.num_layers = (int)json_num(json_need(p, "num_layers")),
                      .min_scale = json_num_or(p, "min_scale", 0.2),
                      .max_scale = json_num_or(p, "max_scale", 0.95),
                      .ratios = ratios,
                      .n_ratios = 5,
                      .interpolated_scale_aspect_ratio = json_num_or(p, "interpolated_scale_aspect_ratio", 1.0),
                      .base = {1, 1},
                      .reduce_boxes_in_lowest_layer = json_num_or(p, "reduce_boxes_in_lowest_layer", 1) != 0};
  if ((list = json_object_get(p, "aspect_ratios"))) o.n_ratios = doubles(ratios, list);
  if ((list = json_object_get(p, "scales"))) { /* the file's list has the original's final 1.0 appended already */
    doubles(scales, list);
    o.scales = scales;
  }
  if ((list = json_object_get(p, "base_anchor_size"))) two(o.base, list);
  if ((list = json_object_get(p, "anchor_strides"))) {
    for (size_t i = 0; i < json_array_size(list); i++) two(strides[i], json_array_get(list, i));
    o.strides = strides;
  }
  if ((list = json_object_get(p, "anchor_offsets"))) {
    for (size_t i = 0; i < json_array_size(list); i++) two(offsets[i], json_array_get(list, i));
    o.offsets = offsets;
  }
  CHECK_OK(od_anchors_ssd(g, &o, layer, grid, image));
  CHECK(g->n == od_anchors_ssd_count(&o, layer));
}

static void multiscale_case(od_anchor_grid *g, json_t *p, int layer, const int64_t image[2]) {
  double ratios[16];
  int n = doubles(ratios, json_need(p, "aspect_ratios"));
  CHECK_OK(od_anchors_multiscale(
      g, (int)json_num(json_need(p, "min_level")) + layer, json_num(json_need(p, "anchor_scale")), ratios, n,
      (int)json_num(json_need(p, "scales_per_octave")), json_num_or(p, "normalize_coordinates", 1) != 0, false, image));
}

static void flexible_case(od_anchor_grid *g, json_t *p, size_t layer, const int64_t image[2]) {
  double sizes[16], ratios[16];
  float stride[2], offset[2];
  int n = doubles(sizes, json_array_get(json_need(p, "base_sizes"), layer));
  int m = doubles(ratios, json_array_get(json_need(p, "aspect_ratios"), layer));
  CHECK(n == m);
  two(stride, json_array_get(json_need(p, "anchor_strides"), layer));
  two(offset, json_array_get(json_need(p, "anchor_offsets"), layer));
  CHECK_OK(od_anchors_flexible(g, sizes, ratios, n, stride, offset,
                               json_num(json_need(p, "normalize_coordinates")) != 0, image));
}

static void check_anchors(const char *op, json_t *p, json_t *in, json_t *out) {
  (void)in;
  json_t *grids = json_need(p, "grids");
  int64_t image[2] = {1, 1}, grid[2];
  if (json_object_get(p, "image")) pair_of(image, json_need(p, "image"));
  CHECK(json_object_size(out) == json_array_size(grids));
  for (size_t layer = 0; layer < json_array_size(grids); layer++) {
    pair_of(grid, json_array_get(grids, layer));
    od_anchor_grid g;
    char key[32];
    snprintf(key, sizeof key, "anchors_%zu", layer);
    if (!strcmp(op, "grid_anchors"))
      grid_case(&g, p);
    else if (!strcmp(op, "ssd_anchors"))
      ssd_case(&g, p, (int)layer, grid, image);
    else if (!strcmp(op, "multiscale_anchors"))
      multiscale_case(&g, p, (int)layer, image);
    else if (!strcmp(op, "flexible_anchors"))
      flexible_case(&g, p, layer, image);
    else
      fail_msg("no such op: %s", op);
    json_t *want = json_need(out, key);
    CHECK(json_array_size(want) == (size_t)(grid[0] * grid[1] * g.n));
    float *boxes = test_malloc(json_count(want) * sizeof *boxes);
    od_anchor_grid_tile(boxes, &g, grid[0], grid[1]);
    json_near(want, boxes, 1e-7, 2e-7, key);
    test_free(boxes);
  }
}

static void anchors_equal_the_original(void **state) {
  (void)state;
  NEED_SHARED(path, "witness/components/anchors.json");
  CHECK(each_case(path, check_anchors) == 12);
}

/* ---------------------------------------------------------------------------------------------------------- similarity */
static void check_windows(json_t *in, json_t *out) {
  size_t n4, w;
  float *boxes = json_floats(json_need(in, "boxes"), &n4), *window = json_floats(json_need(in, "window"), &w), got[64];
  int64_t n = (int64_t)n4 / 4;
  CHECK(n == 8 && w == 4);
  od_box_clip(got, boxes, n, window);
  json_near(json_need(out, "clipped"), got, 0, 0, "clipped");
  od_box_change_frame(got, boxes, n, window);
  json_near(json_need(out, "new_frame"), got, 1e-7, 2e-7, "new_frame");
  od_box_scale(got, boxes, n, 480, 640);
  json_near(json_need(out, "scaled_480_640"), got, 0, 0, "scaled");
  int64_t inside = 0, touching = 0;
  float kept[8];
  for (int64_t i = 0; i < n; i++) {
    inside += od_box_inside(boxes + 4 * i, window);
    if (od_box_touches(boxes + 4 * i, window)) kept[touching++] = (float)i;
  }
  CHECK((size_t)inside == json_array_size(json_need(out, "inside")));
  CHECK((size_t)touching == json_array_size(json_need(out, "touching")));
  json_near(json_need(out, "touching"), kept, 0, 0, "touching");
  test_free(boxes);
  test_free(window);
}

static void check_similarity(const char *op, json_t *p, json_t *in, json_t *out) {
  if (!strcmp(op, "windows")) {
    check_windows(in, out);
    return;
  }
  size_t n, m;
  float *a = json_floats(json_need(in, "a"), &n), *b = json_floats(json_need(in, "b"), &m), got[64];
  int64_t rows = (int64_t)n / 4, columns = (int64_t)m / 4;
  double tolerance = 0; /* the same bits, but for the sums of the squared distance */
  if (!strcmp(op, "iou"))
    od_box_iou_matrix(got, a, rows, b, columns);
  else if (!strcmp(op, "ioa"))
    od_box_ioa_matrix(got, a, rows, b, columns);
  else if (!strcmp(op, "intersection_area"))
    od_box_intersection_matrix(got, a, rows, b, columns);
  else if (!strcmp(op, "neg_sq_dist")) {
    od_box_neg_sq_dist_matrix(got, a, rows, b, columns);
    tolerance = 5e-7;
  } else if (!strcmp(op, "thresholded_iou")) {
    size_t s;
    float *scores = json_floats(json_need(in, "scores"), &s);
    od_box_thresholded_iou_matrix(got, a, scores, rows, b, columns, (float)json_num(json_need(p, "iou_threshold")));
    test_free(scores);
  } else
    fail_msg("no such op: %s", op);
  json_near(json_need(out, !strcmp(op, "intersection_area") ? "areas" : "similarity"), got, tolerance, 0, op);
  test_free(a);
  test_free(b);
}

static void similarity_equals_the_original(void **state) {
  (void)state;
  NEED_SHARED(path, "witness/components/similarity.json");
  CHECK(each_case(path, check_similarity) == 6);
}

/* -------------------------------------------------------------------------------------------------------------- coders */
static od_box_coder coder_of(const char *op, json_t *p) {
  od_box_coder c = {OD_CODER_FASTER_RCNN, {1, 1, 1, 1}, 0, 0};
  if (!strncmp(op, "square", 6)) c.kind = OD_CODER_SQUARE;
  if (!strncmp(op, "mean", 4)) c.kind = OD_CODER_MEAN_STDDEV;
  if (!strncmp(op, "keypoint", 8)) c.kind = OD_CODER_KEYPOINT;
  c.stddev = (float)json_num_or(p, "stddev", 0);
  c.num_keypoints = (int)json_num_or(p, "num_keypoints", 0);
  json_t *scale = json_object_get(p, "scale_factors");
  for (size_t i = 0; scale && i < json_array_size(scale); i++) c.scale[i] = (float)json_num(json_array_get(scale, i));
  return c;
}

static void check_coder(const char *op, json_t *p, json_t *in, json_t *out) {
  od_box_coder c = coder_of(op, p);
  size_t n, k;
  float got[128], points[128];
  float *anchors = json_floats(json_need(in, "anchors"), &n), *keypoints = NULL;
  double pixels = strcmp(json_string_value(json_need(p, "coordinates")), "pixels") ? 1 : 600;
  if (strstr(op, "encode")) {
    float *boxes = json_floats(json_need(in, "boxes"), &k);
    if (c.kind == OD_CODER_KEYPOINT) keypoints = json_floats(json_need(in, "keypoints"), &k);
    od_box_encode(got, &c, boxes, keypoints, anchors, (int64_t)n / 4);
    CHECK(json_count(json_need(out, "codes")) == n / 4 * (size_t)od_box_code_size(&c));
    json_near(json_need(out, "codes"), got, 1e-6, 1e-6, op);
    test_free(boxes);
  } else {
    float *codes = json_floats(json_need(in, "codes"), &k);
    od_box_decode(got, c.kind == OD_CODER_KEYPOINT ? points : NULL, &c, codes, anchors, (int64_t)n / 4);
    json_near(json_need(out, "boxes"), got, 3e-7 * pixels, 1e-6, op);
    if (c.kind == OD_CODER_KEYPOINT) json_near(json_need(out, "keypoints"), points, 3e-7 * pixels, 1e-6, "keypoints");
    test_free(codes);
  }
  if (keypoints) test_free(keypoints);
  test_free(anchors);
}

static void coders_equal_the_original(void **state) {
  (void)state;
  NEED_SHARED(path, "witness/components/box_coders.json");
  CHECK(each_case(path, check_coder) == 25);
}

/* ------------------------------------------------------------------------------------------------------------ matching */
static void check_match(const char *op, json_t *p, json_t *in, json_t *out) {
  size_t n, v = 0;
  json_t *rows = json_need(in, "similarity"), *matched = json_object_get(p, "matched_threshold");
  float *sim = json_floats(rows, &n), *valid = NULL, got[16];
  int64_t r = (int64_t)json_array_size(rows), m = (int64_t)json_array_size(json_need(out, "match"));
  uint8_t flags[16];
  int32_t match[16];
  od_matcher rule = {.bipartite = !strcmp(op, "bipartite_match"),
                     .no_threshold = json_is_null(matched),
                     .matched = (float)json_num_or(p, "matched_threshold", 0),
                     .unmatched = (float)json_num_or(p, "unmatched_threshold", json_num_or(p, "matched_threshold", 0)),
                     .negatives_between = json_num_or(p, "negatives_lower_than_unmatched", 1) == 0,
                     .force_match = json_num_or(p, "force_match_for_each_row", 0) != 0};
  if (json_object_get(in, "valid_rows")) valid = json_floats(json_need(in, "valid_rows"), &v);
  for (size_t i = 0; i < v; i++) flags[i] = valid[i] != 0;
  CHECK_OK(od_match(match, &rule, sim, valid ? flags : NULL, r, m, WORK));
  for (int64_t i = 0; i < m; i++) got[i] = (float)match[i];
  json_near(json_need(out, "match"), got, 0, 0, op);
  test_free(sim);
  if (valid) test_free(valid);
}

static void check_assign(const char *op, json_t *p, json_t *in, json_t *out) {
  size_t m, n, k, w;
  float *anchors = json_floats(json_need(in, "anchors"), &m), *boxes = json_floats(json_need(in, "boxes"), &n);
  float *labels = json_floats(json_need(in, "labels"), &k), *weights = json_floats(json_need(in, "weights"), &w);
  const char *stage = json_string_value(json_object_get(p, "stage"));
  bool proposal = stage && !strcmp(stage, "proposal");
  bool named = !strcmp(op, "assign_targets_named");
  od_assigner a = {
      .similarity = OD_SIMILARITY_IOU,
      .matcher = {.matched = named ? (proposal ? 0.7f : 0.5f) : (float)json_num(json_need(p, "matched")),
                  .unmatched = named ? (proposal ? 0.3f : 0.5f) : (float)json_num(json_need(p, "unmatched")),
                  .force_match = named ? proposal : json_num(json_need(p, "force")) != 0},
      .coder = od_box_coder_default(),
      .negative_class_weight = (float)json_num_or(p, "negative_class_weight", 1)};
  /* without labels the original takes one class, 1 for objects and 0 for background */
  const float ones[3] = {1, 1, 1}, zero[1] = {0}, background[4] = {1, 0, 0, 0};
  float class_targets[40], class_weights[10], box_targets[40], box_weights[10], match_f[10];
  int32_t match[10];
  od_targets t = {class_targets, class_weights, box_targets, box_weights, match};
  CHECK(m == 40 && n == 12 && k == 12 && w == 3);
  CHECK_OK(od_assign_targets(&t, &a, anchors, 10, boxes, NULL, proposal ? ones : labels, weights, 3,
                             proposal ? zero : background, proposal ? 1 : 4));
  for (int i = 0; i < 10; i++) match_f[i] = (float)match[i];
  json_near(json_need(out, "match"), match_f, 0, 0, "match");
  json_near(json_need(out, "class_targets"), class_targets, 0, 0, "class_targets");
  json_near(json_need(out, "box_targets"), box_targets, 1e-6, 1e-6, "box_targets");
  json_near(json_need(out, "box_weights"), box_weights, 0, 0, "box_weights");
  /* the original repeats the weight for every class */
  json_t *want = json_need(out, "class_weights");
  size_t repeat = json_count(want) / 10;
  float wide[64];
  for (size_t i = 0; i < 10 * repeat; i++) wide[i] = class_weights[i / repeat];
  json_near(want, wide, 0, 0, "class_weights");
  test_free(anchors);
  test_free(boxes);
  test_free(labels);
  test_free(weights);
}

static void check_matching(const char *op, json_t *p, json_t *in, json_t *out) {
  (strncmp(op, "assign", 6) ? check_match : check_assign)(op, p, in, out);
}

static void matching_equals_the_original(void **state) {
  (void)state;
  NEED_SHARED(path, "witness/components/matching.json");
  CHECK(each_case(path, check_matching) == 18);
}

static void matcher_refuses_contradictions(void **state) {
  (void)state;
  int32_t match[1];
  const float sim[1] = {0.5f};
  od_matcher m = {.matched = 0.3f, .unmatched = 0.7f};
  CHECK_FAILS(od_match(match, &m, sim, NULL, 1, 1, WORK), OD_EINVAL, "unmatched_threshold 0.7 is above");
  m = (od_matcher){.matched = 0.5f, .unmatched = 0.5f, .negatives_between = true};
  CHECK_FAILS(od_match(match, &m, sim, NULL, 1, 1, WORK), OD_EINVAL, "both are 0.5");
}

/* ----------------------------------------------------------------------------------------------------------------- nms */
static void check_plain_nms(const char *op, json_t *p, json_t *in, json_t *out) {
  size_t n, s;
  float *boxes = json_floats(json_need(in, "boxes"), &n), *scores = json_floats(json_need(in, "scores"), &s);
  int32_t selected[16];
  float got[16], kept[16];
  int64_t count;
  CHECK_OK(od_nms(selected, kept, &count, boxes, 4, scores, 1, (int64_t)s,
                  (int64_t)json_num(json_need(p, "max_output_size")), (float)json_num(json_need(p, "iou_threshold")),
                  (float)json_num_or(p, "score_threshold", -INFINITY), (float)json_num_or(p, "soft_nms_sigma", 0),
                  WORK));
  CHECK((size_t)count == json_array_size(json_need(out, "selected")));
  for (int64_t i = 0; i < count; i++) got[i] = (float)selected[i];
  json_near(json_need(out, "selected"), got, 0, 0, op);
  if (!strcmp(op, "soft_nms")) json_near(json_need(out, "scores"), kept, 1e-7, 2e-7, "soft scores");
  test_free(boxes);
  test_free(scores);
}

static od_nms_options nms_options(const char *op, json_t *p) {
  return (od_nms_options){.score_threshold = (float)json_num(json_need(p, "score_thresh")),
                          .iou_threshold = (float)json_num(json_need(p, "iou_thresh")),
                          .max_per_class = (int64_t)json_num_or(p, "max_size_per_class", 0),
                          .max_total = (int64_t)json_num(json_need(p, "max_total_size")),
                          .soft_sigma = (float)json_num_or(p, "soft_nms_sigma", 0),
                          .class_agnostic = !strncmp(op, "class_agnostic", 14),
                          .change_frame = json_num_or(p, "change_coordinate_frame", 0) != 0,
                          .static_shapes = json_num_or(p, "pad_to_max_output_size", 0) != 0};
}

static void check_image_nms(const char *op, json_t *p, json_t *in, json_t *out) {
  od_nms_options o = nms_options(op, p);
  json_t *rows = json_need(in, "boxes"), *clip = json_object_get(p, "clip_window");
  size_t b, s, w = 0;
  float *boxes = json_floats(rows, &b), *scores = json_floats(json_need(in, "scores"), &s), *window = NULL;
  int64_t n = (int64_t)json_array_size(rows), q = (int64_t)b / 4 / n, classes = (int64_t)s / n;
  float out_boxes[256], out_scores[64], out_classes[64];
  int32_t anchor[64];
  if (clip) window = json_floats(clip, &w);
  od_nms_result r = {out_boxes, out_scores, out_classes, anchor, 0, 0};
  CHECK(od_nms_capacity(&o, n, classes) <= 64);
  CHECK_OK(od_nms_image(&r, &o, boxes, q, scores, n, classes, window, WORK));
  CHECK(r.num == (int64_t)json_num(json_need(out, "num")));
  CHECK((size_t)r.rows == json_array_size(json_need(out, "scores")));
  json_near(json_need(out, "boxes"), out_boxes, 1e-7, 2e-7, "boxes");
  json_near(json_need(out, "scores"), out_scores, 1e-7, 2e-7, "scores");
  json_near(json_need(out, "classes"), out_classes, 0, 0, "classes");
  for (int64_t i = 0; i < r.num; i++) CHECK(anchor[i] >= 0 && anchor[i] < n);
  test_free(boxes);
  test_free(scores);
  if (window) test_free(window);
}

static void check_batch_nms(json_t *p, json_t *in, json_t *out) {
  od_nms_options o = nms_options("batch", p);
  size_t b, s, w, v;
  float *boxes = json_floats(json_need(in, "boxes"), &b), *scores = json_floats(json_need(in, "scores"), &s);
  float *windows = json_floats(json_need(in, "windows"), &w), *valid = json_floats(json_need(in, "num_valid"), &v);
  int32_t num_valid[2] = {(int32_t)valid[0], (int32_t)valid[1]}, num[2];
  float out_boxes[48], out_scores[12], out_classes[12];
  CHECK(b == 96 && s == 72 && o.max_total == 6);
  CHECK_OK(od_nms_batch(out_boxes, out_scores, out_classes, NULL, num, &o, boxes, 1, scores, 2, 12, 3, windows,
                        num_valid, WORK));
  json_near(json_need(out, "boxes"), out_boxes, 1e-7, 2e-7, "boxes");
  json_near(json_need(out, "scores"), out_scores, 0, 0, "scores");
  json_near(json_need(out, "classes"), out_classes, 0, 0, "classes");
  const float counts[2] = {(float)num[0], (float)num[1]};
  json_near(json_need(out, "num"), counts, 0, 0, "num");
  test_free(boxes);
  test_free(scores);
  test_free(windows);
  test_free(valid);
}

static size_t converters;
static void check_nms(const char *op, json_t *p, json_t *in, json_t *out) {
  if (!strcmp(op, "nms") || !strcmp(op, "soft_nms"))
    check_plain_nms(op, p, in, out);
  else if (!strcmp(op, "batch_multiclass_nms"))
    check_batch_nms(p, in, out);
  else if (!strcmp(op, "score_converter"))
    converters++; /* ops of the graph, not of boxes */
  else
    check_image_nms(op, p, in, out);
}

static void nms_equals_the_original(void **state) {
  (void)state;
  NEED_SHARED(path, "witness/components/nms.json");
  converters = 0;
  CHECK(each_case(path, check_nms) == 25 && converters == 4);
}

static void nms_refuses_what_the_original_refuses(void **state) {
  (void)state;
  const float boxes[8] = {0, 0, 1, 1, 0, 0, 1, 1}, scores[2] = {0.5f, 0.4f};
  float ob[64], os[16], oc[16];
  od_nms_result r = {ob, os, oc, NULL, 0, 0};
  od_nms_options o = {.iou_threshold = 0.5f, .max_per_class = 4, .max_total = 4, .change_frame = true};
  CHECK_FAILS(od_nms_image(&r, &o, boxes, 1, scores, 2, 1, NULL, WORK), OD_EINVAL, "needs a clip window");
  o.change_frame = false;
  CHECK_FAILS(od_nms_image(&r, &o, boxes, 2, scores, 1, 1, NULL, WORK), OD_EINVAL, "2 boxes an anchor for 1 classes");
  o.iou_threshold = 1.5f;
  CHECK_FAILS(od_nms_image(&r, &o, boxes, 1, scores, 2, 1, NULL, WORK), OD_EINVAL, "IoU threshold 1.5");
  o = (od_nms_options){
      .iou_threshold = 0.5f, .max_per_class = 4, .max_total = 4, .soft_sigma = 0.5f, .static_shapes = true};
  CHECK_FAILS(od_nms_image(&r, &o, boxes, 1, scores, 2, 1, NULL, WORK), OD_EUNSUPPORTED, "soft_nms_sigma");
}

/* ------------------------------------------------------------------------------------------------------------ samplers */
static size_t miners;
static void check_miner(const char *op, json_t *p, json_t *in, json_t *out) {
  if (strcmp(op, "hard_example_miner")) return;
  miners++;
  const char *kind = json_string_value(json_need(p, "loss_type"));
  od_miner m = {.num_hard_examples = (int64_t)json_num_or(p, "num_hard_examples", 0),
                .iou_threshold = (float)json_num(json_need(p, "iou_threshold")),
                .loss = !strcmp(kind, "cls")   ? OD_MINE_CLASSIFICATION
                        : !strcmp(kind, "loc") ? OD_MINE_LOCALIZATION
                                               : OD_MINE_BOTH,
                .class_weight = (float)json_num(json_need(p, "cls_loss_weight")),
                .location_weight = (float)json_num(json_need(p, "loc_loss_weight")),
                .max_negatives_per_positive = (float)json_num_or(p, "max_negatives_per_positive", 0),
                .min_negatives = (int32_t)json_num(json_need(p, "min_negatives_per_image"))};
  size_t n;
  float *loc = json_floats(json_need(in, "location_losses"), &n), *cls = json_floats(json_need(in, "class_losses"), &n);
  float *boxes = json_floats(json_need(in, "boxes"), &n), *match_f = json_floats(json_need(in, "match"), &n);
  float grad[16] = {0}, pos[2], neg[2];
  double sum[2] = {0, 0};
  int32_t match[16], selected[8];
  CHECK(n == 16);
  for (int i = 0; i < 16; i++) match[i] = (int32_t)match_f[i];
  for (int im = 0; im < 2; im++) {
    int64_t count, p_count, n_count;
    CHECK_OK(od_mine_hard_examples(selected, &count, &p_count, &n_count, &m, loc + 8 * im, cls + 8 * im,
                                   boxes + 32 * im, match + 8 * im, 8, WORK));
    pos[im] = (float)p_count;
    neg[im] = (float)n_count;
    for (int64_t i = 0; i < count; i++) {
      grad[8 * im + selected[i]] = 1;
      sum[0] += (double)loc[8 * im + selected[i]];
      sum[1] += (double)cls[8 * im + selected[i]];
    }
  }
  json_near(json_need(out, "location_gradient"), grad, 0, 0, "which are mined");
  CHECK_NEAR(sum[0], json_num(json_need(out, "location_loss")), 1e-5);
  CHECK_NEAR(sum[1], json_num(json_need(out, "class_loss")), 1e-5);
  if (json_object_get(out, "num_positives")) {
    json_near(json_need(out, "num_positives"), pos, 0, 0, "positives");
    json_near(json_need(out, "num_negatives"), neg, 0, 0, "negatives");
  }
  test_free(loc);
  test_free(cls);
  test_free(boxes);
  test_free(match_f);
}

static void miner_equals_the_original(void **state) {
  (void)state;
  NEED_SHARED(path, "witness/components/losses.json");
  miners = 0;
  each_case(path, check_miner);
  CHECK(miners == 5);
}

static void sampler_balances(void **state) {
  (void)state;
  enum { N = 400 };
  uint8_t indicator[N], positive[N], chosen[N], again[N];
  int64_t total;
  for (int i = 0; i < N; i++) {
    indicator[i] = i % 4 != 0; /* 300 of them */
    positive[i] = i % 4 == 1;  /* 100 of those */
  }
  CHECK_OK(od_sample_balanced(chosen, &total, indicator, positive, N, 64, 0.25, 7, WORK));
  int pos = 0, all = 0, hits[N] = {0};
  for (int i = 0; i < N; i++) {
    if (!chosen[i]) continue;
    CHECK(indicator[i]);
    all++;
    pos += positive[i];
  }
  CHECK(all == 64 && pos == 16 && total == 64);
  CHECK_OK(od_sample_balanced(again, NULL, indicator, positive, N, 64, 0.25, 7, WORK));
  CHECK(memcmp(chosen, again, N) == 0);
  /* few positives: negatives fill the rest; too few of both: all */
  for (int i = 0; i < N; i++) positive[i] = i == 1 || i == 2;
  CHECK_OK(od_sample_balanced(chosen, &total, indicator, positive, N, 64, 0.5, 3, WORK));
  CHECK(total == 64 && chosen[1] && chosen[2]);
  CHECK_OK(od_sample_balanced(chosen, &total, indicator, positive, N, 1000, 0.5, 3, WORK));
  CHECK(total == 300);
  CHECK_OK(od_sample_balanced(chosen, &total, indicator, positive, N, -1, 0.25, 3, WORK));
  CHECK(total == 2 + 6);
  /* every candidate has the same chance: 2000 draws of 62 out of 298 hit each 416 times, standard deviation 18 */
  for (uint64_t k = 0; k < 2000; k++) {
    CHECK_OK(od_sample_balanced(chosen, NULL, indicator, positive, N, 64, 0.5, od_key_mix(99, k), WORK));
    for (int i = 0; i < N; i++) hits[i] += chosen[i];
  }
  for (int i = 3; i < N; i++)
    if (indicator[i]) CHECK(hits[i] > 416 - 6 * 18 && hits[i] < 416 + 6 * 18);
}

static void out_of_memory_is_an_error_and_leaks_nothing(void **state) {
  (void)state;
  const float boxes[12] = {0, 0, 1, 1, 0, 0.5f, 1, 2, 3, 3, 4, 4}, scores[6] = {0.9f, 0.8f, 0.1f, 0.6f, 0.5f, 0.4f};
  const float labels[6] = {0, 1, 0, 1, 0, 1}, background[2] = {1, 0};
  float ob[64], os[16], oc[16], ct[6], cw[3], bt[12], bw[3];
  size_t used = od_mem_used();
  bool failed = true;
  for (uint64_t n = 1; failed && n < 50; n++) {
    od_nms_result r = {ob, os, oc, NULL, 0, 0};
    od_nms_options o = {.iou_threshold = 0.5f, .max_per_class = 4, .max_total = 4};
    od_assigner a = {.matcher = {.matched = 0.5f, .unmatched = 0.5f, .force_match = true},
                     .coder = od_box_coder_default()};
    od_targets t = {ct, cw, bt, bw, NULL};
    od_mem_fail_at(n);
    od_status st = od_nms_image(&r, &o, boxes, 1, scores, 3, 2, NULL, WORK);
    if (st == OD_OK) st = od_assign_targets(&t, &a, boxes, 3, boxes, NULL, labels, NULL, 3, background, 2);
    failed = st != OD_OK;
    CHECK(!failed || st == OD_ENOMEM);
    CHECK(od_mem_used() == used);
  }
  od_mem_fail_at(0);
  CHECK(!failed);
}

/* A box that is not a number stays so: TensorFlow's Minimum and Maximum pass NaN on. */
static void clipping_keeps_what_is_no_number(void **state) {
  (void)state;
  const float box[4] = {-1, NAN, 2, NAN}, window[4] = {0, 0, 1, 1};
  float got[4];
  od_box_clip(got, box, 1, window);
  CHECK(got[0] == 0 && got[2] == 1 && isnan(got[1]) && isnan(got[3]));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(anchors_equal_the_original),
                                     cmocka_unit_test(similarity_equals_the_original),
                                     cmocka_unit_test(coders_equal_the_original),
                                     cmocka_unit_test(matching_equals_the_original),
                                     cmocka_unit_test(matcher_refuses_contradictions),
                                     cmocka_unit_test(nms_equals_the_original),
                                     cmocka_unit_test(nms_refuses_what_the_original_refuses),
                                     cmocka_unit_test(miner_equals_the_original),
                                     cmocka_unit_test(sampler_balances),
                                     cmocka_unit_test(out_of_memory_is_an_error_and_leaks_nothing),
                                     cmocka_unit_test(clipping_keeps_what_is_no_number)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
