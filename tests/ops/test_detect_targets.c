/* Anchors, box coders, windows, matching and target assignment against the original's figures (witness/components/anchors,
 * box_coders, similarity, matching). */
#include <math.h>

#include "graph_run.h"
#include "ops/detect.h"

static od_floats floats_of(json_t *v, float *room) {
  if (!v || json_is_null(v)) return (od_floats){0, NULL};
  json_fill(room, v);
  return (od_floats){(int)json_count(v), room};
}

/* Zeros [1,h,w,1], of which only the size counts. */
static od_value map_of(od_graph *g, json_t *size) {
  int64_t h = (int64_t)json_num(json_array_get(size, 0)), w = (int64_t)json_num(json_array_get(size, 1));
  float *zeros = test_calloc((size_t)(h * w) + 1, sizeof *zeros);
  od_value v = od_const(g, OD_F32, OD_SHAPE(1, h, w, 1), zeros);
  test_free(zeros);
  return v;
}

static od_value ssd_anchors(od_graph *g, json_t *p, const od_value *maps, int n, od_value image) {
  float scales[8], ratios[8], strides[16], offsets[16];
  od_ssd_anchor_spec spec = {.n_layers = (int)json_num(json_need(p, "num_layers")),
                             .min_scale = (float)json_num_or(p, "min_scale", 0.2),
                             .max_scale = (float)json_num_or(p, "max_scale", 0.95),
                             .scales = floats_of(json_object_get(p, "scales"), scales),
                             .aspect_ratios = floats_of(json_object_get(p, "aspect_ratios"), ratios),
                             .reduce_boxes_in_lowest_layer = json_bool_or(p, "reduce_boxes_in_lowest_layer", true),
                             .interpolated_scale_aspect_ratio =
                                 (float)json_num_or(p, "interpolated_scale_aspect_ratio", 1)};
  if (spec.scales.n > spec.n_layers) spec.scales.n = spec.n_layers; /* the original's list got its last 1 appended */
  od_ssd_anchors_params q = {.base_height = 1,
                             .base_width = 1,
                             .strides = floats_of(json_object_get(p, "anchor_strides"), strides),
                             .offsets = floats_of(json_object_get(p, "anchor_offsets"), offsets)};
  CHECK_OK(od_ssd_anchor_pairs(&q, od_graph_arena(g), &spec));
  float base[2];
  if (floats_of(json_object_get(p, "base_anchor_size"), base).n) q.base_height = base[0], q.base_width = base[1];
  return od_ssd_anchors_op(g, maps, n, image, &q);
}

static od_value grid_anchors(od_graph *g, json_t *p, const od_value *maps) {
  float scales[8], ratios[8], base[2], stride[2], offset[2];
  json_fill(base, json_need(p, "base_anchor_size"));
  json_fill(stride, json_need(p, "anchor_stride"));
  json_fill(offset, json_need(p, "anchor_offset"));
  od_grid_anchors_params q = {floats_of(json_need(p, "scales"), scales),
                              floats_of(json_need(p, "aspect_ratios"), ratios),
                              base[0],
                              base[1],
                              stride[0],
                              stride[1],
                              offset[0],
                              offset[1]};
  return od_grid_anchors_op(g, maps[0], &q);
}

static od_value multiscale_anchors(od_graph *g, json_t *p, const od_value *maps, int n, od_value image) {
  float ratios[8];
  od_multiscale_anchors_params q = {(int64_t)json_num(json_need(p, "min_level")),
                                    (int64_t)json_num(json_need(p, "max_level")),
                                    (float)json_num(json_need(p, "anchor_scale")),
                                    floats_of(json_need(p, "aspect_ratios"), ratios),
                                    (int64_t)json_num(json_need(p, "scales_per_octave")),
                                    json_bool_or(p, "normalize_coordinates", true),
                                    true};
  return od_multiscale_anchors_op(g, maps, n, image, &q);
}

static od_value flexible_anchors(od_graph *g, json_t *p, const od_value *maps, int n, od_value image) {
  float sizes[8], ratios[8], strides[8], offsets[8];
  int64_t count[8];
  for (int i = 0; i < n; i++)
    count[i] = (int64_t)json_array_size(json_array_get(json_need(p, "base_sizes"), (size_t)i));
  od_flexible_anchors_params q = {{n, count},
                                  floats_of(json_need(p, "base_sizes"), sizes),
                                  floats_of(json_need(p, "aspect_ratios"), ratios),
                                  floats_of(json_need(p, "anchor_strides"), strides),
                                  floats_of(json_need(p, "anchor_offsets"), offsets),
                                  json_bool_or(p, "normalize_coordinates", true)};
  return od_flexible_anchors_op(g, maps, n, image, &q);
}

static void test_anchors(void **state) {
  (void)state;
  NEED_SHARED(path, "witness/components/anchors.json");
  json_t *root = json_file(path), *cases = json_need(root, "cases");
  size_t checked = 0;
  for (size_t i = 0; i < json_array_size(cases); i++) {
    json_t *c = json_array_get(cases, i), *p = json_need(c, "params"), *grids = json_need(p, "grids");
    const char *op = json_text(c, "op");
    od_graph *g;
    CHECK_OK(od_graph_new(&g));
    od_value maps[8], image = OD_NONE, v = OD_NONE;
    int n = (int)json_array_size(grids);
    for (int k = 0; k < n; k++) maps[k] = map_of(g, json_array_get(grids, (size_t)k));
    if (json_object_get(p, "image")) image = map_of(g, json_object_get(p, "image"));
    if (strcmp(op, "ssd_anchors") == 0)
      v = ssd_anchors(g, p, maps, n, image);
    else if (strcmp(op, "grid_anchors") == 0)
      v = grid_anchors(g, p, maps);
    else if (strcmp(op, "multiscale_anchors") == 0)
      v = multiscale_anchors(g, p, maps, n, image);
    else if (strcmp(op, "flexible_anchors") == 0)
      v = flexible_anchors(g, p, maps, n, image);
    else
      fail_msg("unknown op %s", op);
    graph_run r;
    run_graph(&r, g, NULL);
    const float *got = run_floats(&r, v);
    int64_t total = 0;
    for (int k = 0; k < n; k++) {
      char key[32];
      snprintf(key, sizeof key, "anchors_%d", k);
      json_t *want = json_need(json_need(c, "outputs"), key);
      json_near(want, got + 4 * total, 1e-6, 1e-6, op);
      total += (int64_t)json_array_size(want);
    }
    CHECK(run_value(&r, v)->shape.dim[0] == total && od_dim(v, 0) == total);
    checked++;
    run_free(&r);
    od_graph_free(g);
  }
  CHECK(checked == 12);
  json_decref(root);
}

/* Anchors of maps whose size the graph does not know: [?,4], and the same numbers as with it. */
static void test_anchors_of_any_size(void **state) {
  (void)state;
  od_graph *g;
  CHECK_OK(od_graph_new(&g));
  od_value map = od_input(g, "map", OD_F32, OD_SHAPE(-1, -1, -1, 8));
  const float one[] = {1};
  od_grid_anchors_params q = {{1, one}, {1, one}, 16, 16, 16, 16, 0, 0};
  od_value v = od_grid_anchors_op(g, map, &q);
  CHECK(od_dim(v, 0) == -1 && od_dim(v, 1) == 4);
  float zeros[48] = {0};
  od_tensor feed = {OD_F32, OD_SHAPE(1, 3, 2, 8), zeros};
  graph_run r;
  run_graph(&r, g, &feed);
  const od_tensor *a = run_value(&r, v);
  CHECK(a->shape.dim[0] == 6);
  CHECK_NEAR(((float *)a->data)[4 * 5], 2 * 16 - 8, 0);
  CHECK_NEAR(((float *)a->data)[4 * 5 + 3], 16 + 8, 0);
  run_free(&r);
  od_graph_free(g);
}

static void check_coder(json_t *c, const char *op) {
  json_t *p = json_need(c, "params"), *in = json_need(c, "inputs"), *out = json_need(c, "outputs");
  float s[4] = {1, 1, 1, 1};
  json_t *scales = json_object_get(p, "scale_factors");
  if (scales && !json_is_null(scales)) json_fill(s, scales);
  od_coder_params q = {.kind = OD_CODER_FASTER_RCNN,
                       .y = s[0],
                       .x = s[1],
                       .height = s[2],
                       .width = s[3],
                       .keypoints = (int64_t)json_num_or(p, "num_keypoints", 0)};
  if (strstr(op, "square")) q.kind = OD_CODER_SQUARE;
  if (strstr(op, "keypoint")) q.kind = OD_CODER_KEYPOINT;
  if (strstr(op, "mean_stddev")) q.kind = OD_CODER_MEAN_STDDEV, q.y = (float)json_num(json_need(p, "stddev"));
  od_graph *g;
  CHECK_OK(od_graph_new(&g));
  graph_run r;
  od_value anchors = json_const_f32(g, in, "anchors"), v;
  if (strstr(op, "encode")) {
    od_value points = OD_NONE;
    int64_t n = (int64_t)json_array_size(json_need(in, "boxes"));
    if (q.kind == OD_CODER_KEYPOINT)
      points = json_const(g, json_need(in, "keypoints"), OD_F32, OD_SHAPE(n, 2 * q.keypoints));
    v = od_encode_boxes(g, json_const_f32(g, in, "boxes"), anchors, points, &q);
    run_graph(&r, g, NULL);
    json_near(json_need(out, "codes"), run_floats(&r, v), 2e-5, 5e-6, op);
  } else {
    v = od_decode_boxes(g, json_const_f32(g, in, "codes"), anchors, &q);
    run_graph(&r, g, NULL);
    json_near(json_need(out, "boxes"), run_floats(&r, v), 1e-6, 2e-6, op);
    if (q.kind == OD_CODER_KEYPOINT)
      json_near(json_need(out, "keypoints"), run_floats(&r, od_out(v, 1)), 1e-6, 2e-6, op);
  }
  run_free(&r);
  od_graph_free(g);
}

static void test_coders(void **state) {
  (void)state;
  NEED_SHARED(path, "witness/components/box_coders.json");
  json_t *root = json_file(path), *cases = json_need(root, "cases");
  for (size_t i = 0; i < json_array_size(cases); i++)
    check_coder(json_array_get(cases, i), json_text(json_array_get(cases, i), "op"));
  CHECK(json_array_size(cases) == 25);
  json_decref(root);
}

/* Codes of several classes, or of several images, are decoded like one after the other. */
static void test_decode_broadcasts(void **state) {
  (void)state;
  enum { R = 3, K = 2 };
  float codes[R * K * 4], anchors[R * 4] = {0.1f, 0.1f, 0.4f, 0.5f, 0.3f, 0.2f, 0.9f, 0.6f, 0, 0, 1, 1};
  for (int i = 0; i < R * K * 4; i++) codes[i] = (float)((i * 7) % 11) / 11 - 0.5f;
  od_coder_params q = {.kind = OD_CODER_FASTER_RCNN, .y = 10, .x = 10, .height = 5, .width = 5}, each = q;
  each.per_class = true;
  od_graph *g;
  CHECK_OK(od_graph_new(&g));
  od_value a = od_const(g, OD_F32, OD_SHAPE(R, 4), anchors);
  od_value classes = od_decode_boxes(g, od_const(g, OD_F32, OD_SHAPE(R, K, 4), codes), a, &each);
  od_value images = od_decode_boxes(g, od_const(g, OD_F32, OD_SHAPE(K, R, 4), codes), a, &q);
  od_value single[R * K];
  for (int i = 0; i < R * K; i++) /* code i with the anchor of class layout, then of image layout */
    single[i] = od_decode_boxes(g, od_const(g, OD_F32, OD_SHAPE(1, 4), codes + 4 * i),
                                od_const(g, OD_F32, OD_SHAPE(1, 4), anchors + 4 * (i / K)), &q);
  od_value single2[R * K];
  for (int i = 0; i < R * K; i++)
    single2[i] = od_decode_boxes(g, od_const(g, OD_F32, OD_SHAPE(1, 4), codes + 4 * i),
                                 od_const(g, OD_F32, OD_SHAPE(1, 4), anchors + 4 * (i % R)), &q);
  graph_run r;
  run_graph(&r, g, NULL);
  for (int i = 0; i < R * K; i++)
    for (int k = 0; k < 4; k++) {
      CHECK(run_floats(&r, classes)[4 * i + k] == run_floats(&r, single[i])[k]);
      CHECK(run_floats(&r, images)[4 * i + k] == run_floats(&r, single2[i])[k]);
    }
  run_free(&r);
  od_graph_free(g);
}

static void test_windows(void **state) {
  (void)state;
  NEED_SHARED(path, "witness/components/similarity.json");
  json_t *root = json_file(path), *cases = json_need(root, "cases");
  bool found = false;
  for (size_t i = 0; i < json_array_size(cases); i++) {
    json_t *c = json_array_get(cases, i), *in = json_need(c, "inputs"), *out = json_need(c, "outputs");
    const char *op = json_text(c, "op");
    od_graph *g;
    CHECK_OK(od_graph_new(&g));
    graph_run r;
    if (strcmp(op, "iou") == 0) {
      od_value m = od_iou_matrix(g, json_const_f32(g, in, "a"), json_const_f32(g, in, "b"));
      run_graph(&r, g, NULL);
      json_near(json_need(out, "similarity"), run_floats(&r, m), 0, 1e-6, op);
      run_free(&r);
    }
    if (strcmp(op, "windows") == 0) {
      found = true;
      od_value boxes = json_const_f32(g, in, "boxes"), window = json_const_f32(g, in, "window");
      float *zeros = test_calloc(480 * 640, sizeof *zeros);
      od_value image = od_const(g, OD_F32, OD_SHAPE(1, 480, 640, 1), zeros);
      test_free(zeros);
      od_value clipped = od_clip_boxes(g, boxes, window), frame = od_change_coordinate_frame(g, boxes, window);
      od_value big = od_boxes_to_absolute(g, boxes, image), back = od_boxes_to_normalized(g, big, image),
               in_it = od_boxes_inside(g, boxes, window);
      run_graph(&r, g, NULL);
      json_near(json_need(out, "clipped"), run_floats(&r, clipped), 0, 0, "clipped");
      json_near(json_need(out, "new_frame"), run_floats(&r, frame), 1e-6, 1e-6, "new_frame");
      json_near(json_need(out, "scaled_480_640"), run_floats(&r, big), 0, 1e-6, "scaled");
      json_near(json_need(in, "boxes"), run_floats(&r, back), 1e-6, 1e-6, "back");
      int inside = 0;
      for (int k = 0; k < 8; k++) inside += run_floats(&r, in_it)[k] != 0;
      CHECK(inside == (int)json_array_size(json_need(out, "inside")));
      run_free(&r);
    }
    od_graph_free(g);
  }
  CHECK(found);
  json_decref(root);
}

static void test_clip_window(void **state) {
  (void)state;
  const int32_t shapes[] = {30, 40, 3, 60, 20, 3};
  float *zeros = test_calloc(2 * 60 * 40, sizeof *zeros);
  od_graph *g;
  CHECK_OK(od_graph_new(&g));
  od_value s = od_const(g, OD_I32, OD_SHAPE(2, 3), shapes), image = od_const(g, OD_F32, OD_SHAPE(2, 60, 40, 1), zeros);
  test_free(zeros);
  od_value part = od_clip_window(g, s, image, true), pixels = od_clip_window(g, s, image, false);
  graph_run r;
  run_graph(&r, g, NULL);
  const float want[] = {0, 0, 0.5f, 1, 0, 0, 1, 0.5f}, want_pixels[] = {0, 0, 30, 40, 0, 0, 60, 20};
  for (int i = 0; i < 8; i++) CHECK(run_floats(&r, part)[i] == want[i] && run_floats(&r, pixels)[i] == want_pixels[i]);
  run_free(&r);
  od_graph_free(g);
}

/* Groundtruth of a case as a batch of two: the case's own, padded by a row that must not count, and nothing at all. */
typedef struct {
  od_value boxes, classes, weights, count;
} groundtruth;

static groundtruth pad(od_graph *g, json_t *in, int64_t d) {
  size_t n;
  float *boxes = json_floats(json_need(in, "boxes"), &n);
  int64_t rows = (int64_t)n / 4, all = rows + 1;
  float *labels = json_floats(json_need(in, "labels"), &n), *weights = json_floats(json_need(in, "weights"), &n);
  float *b = test_calloc((size_t)(2 * all * 4), sizeof *b), *l = test_calloc((size_t)(2 * all * d), sizeof *l);
  float *w = test_calloc((size_t)(2 * all), sizeof *w);
  memcpy(b, boxes, (size_t)rows * 4 * sizeof *b);
  for (int64_t i = 0; i < rows; i++) {
    w[i] = weights[i];
    for (int64_t k = 0; k < d; k++) l[i * d + k] = d == 1 ? 1 : labels[i * 4 + k];
  }
  const float whole[4] = {0, 0, 1, 1}; /* the padding: would match if it counted */
  memcpy(b + rows * 4, whole, sizeof whole);
  w[rows] = 1;
  const int32_t count[2] = {(int32_t)rows, 0};
  groundtruth t = {od_const(g, OD_F32, OD_SHAPE(2, all, 4), b), od_const(g, OD_F32, OD_SHAPE(2, all, d), l),
                   od_const(g, OD_F32, OD_SHAPE(2, all), w), od_const(g, OD_I32, OD_SHAPE(2), count)};
  test_free(boxes), test_free(labels), test_free(weights), test_free(b), test_free(l), test_free(w);
  return t;
}

static void check_assignment(json_t *c, const char *op) {
  json_t *p = json_need(c, "params"), *in = json_need(c, "inputs"), *out = json_need(c, "outputs");
  bool named = strcmp(op, "assign_targets_named") == 0, proposal = strcmp(json_text(p, "stage"), "proposal") == 0;
  od_match_params m = {.matched_threshold = (float)json_num_or(p, "matched", proposal ? 0.7 : 0.5),
                       .unmatched_threshold = (float)json_num_or(p, "unmatched", proposal ? 0.3 : 0.5),
                       .force_match_for_each_row = named ? proposal : json_bool_or(p, "force", false),
                       .negatives_lower_than_unmatched = true};
  const float background[] = {1, 0, 0, 0}, nothing[] = {0};
  od_assign_params a = {.coder = {.kind = OD_CODER_FASTER_RCNN, .y = 10, .x = 10, .height = 5, .width = 5},
                        .unmatched = proposal ? (od_floats){1, nothing} : (od_floats){4, background},
                        .negative_class_weight = (float)json_num_or(p, "negative_class_weight", 1)};
  od_graph *g;
  CHECK_OK(od_graph_new(&g));
  od_value anchors = json_const_f32(g, in, "anchors");
  groundtruth t = pad(g, in, a.unmatched.n);
  od_value match = od_match_anchors(g, anchors, t.boxes, t.weights, t.count, OD_NONE, OD_NONE, &m);
  od_value v = od_assign_targets_op(g, match, anchors, t.boxes, t.classes, t.weights, OD_NONE, &a);
  graph_run r;
  run_graph(&r, g, NULL);
  const int32_t *got = run_value(&r, match)->data;
  size_t n;
  float *want = json_floats(json_need(out, "match"), &n);
  for (size_t i = 0; i < n; i++) CHECK(got[i] == (int32_t)want[i] && got[n + i] == -1);
  test_free(want);
  json_near(json_need(out, "class_targets"), run_floats(&r, v), 0, 0, "class targets");
  json_near(json_need(out, "class_weights"), run_floats(&r, od_out(v, 1)), 0, 1e-7, "class weights");
  json_near(json_need(out, "box_targets"), run_floats(&r, od_out(v, 2)), 2e-5, 5e-6, "box targets");
  json_near(json_need(out, "box_weights"), run_floats(&r, od_out(v, 3)), 0, 1e-7, "box weights");
  run_free(&r);
  od_graph_free(g);
}

static void test_assignment(void **state) {
  (void)state;
  NEED_SHARED(path, "witness/components/matching.json");
  json_t *root = json_file(path), *cases = json_need(root, "cases");
  size_t checked = 0;
  for (size_t i = 0; i < json_array_size(cases); i++) {
    const char *op = json_text(json_array_get(cases, i), "op");
    if (strncmp(op, "assign_targets", 14) == 0) check_assignment(json_array_get(cases, i), op), checked++;
  }
  CHECK(checked == 4);
  json_decref(root);
}

/* An anchor that takes no part cannot be forced; the next best one is. */
static void test_valid_anchors(void **state) {
  (void)state;
  const float anchors[] = {0, 0, 1, 1, 0, 0, 0.5f, 1, 0.5f, 0, 1, 1}, box[] = {0, 0, 1, 0.9f}, w[] = {1},
              valid[] = {0, 1, 1};
  const int32_t count[] = {1};
  od_match_params m = {.matched_threshold = 0.8f,
                       .unmatched_threshold = 0.5f,
                       .force_match_for_each_row = true,
                       .negatives_lower_than_unmatched = true};
  od_graph *g;
  CHECK_OK(od_graph_new(&g));
  od_value in[] = {od_const(g, OD_F32, OD_SHAPE(3, 4), anchors), od_const(g, OD_F32, OD_SHAPE(1, 1, 4), box),
                   od_const(g, OD_F32, OD_SHAPE(1, 1), w), od_const(g, OD_I32, OD_SHAPE(1), count),
                   od_const(g, OD_F32, OD_SHAPE(3), valid)};
  od_value all = od_match_anchors(g, in[0], in[1], in[2], in[3], OD_NONE, OD_NONE, &m);
  od_value part = od_match_anchors(g, in[0], in[1], in[2], in[3], OD_NONE, in[4], &m);
  graph_run r;
  run_graph(&r, g, NULL);
  const int32_t *a = run_value(&r, all)->data, *b = run_value(&r, part)->data;
  CHECK(a[0] == 0 && a[1] == -1 && a[2] == -1);
  CHECK(b[0] == -2 && b[1] == 0 && b[2] == -1);
  run_free(&r);
  od_graph_free(g);
}

static void test_refusals(void **state) {
  (void)state;
  od_graph *g;
  CHECK_OK(od_graph_new(&g));
  const float f[64] = {0};
  od_value a = od_const(g, OD_F32, OD_SHAPE(3, 4), f), b = od_const(g, OD_F32, OD_SHAPE(2, 2, 4), f),
           w = od_const(g, OD_F32, OD_SHAPE(2, 3), f);
  od_value n = od_const(g, OD_I32, OD_SHAPE(2), f);
  od_match_anchors(g, a, b, w, n, OD_NONE, OD_NONE, &(od_match_params){.matched_threshold = 1});
  CHECK_FAILS(od_graph_check(g), OD_EINVAL, "groundtruth weights");
  od_graph_free(g);
  od_ssd_anchors_params out;
  CHECK_FAILS(od_ssd_anchor_pairs(&out, NULL, &(od_ssd_anchor_spec){.n_layers = 1}), OD_EINVAL, "num_layers is 1");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_anchors),    cmocka_unit_test(test_anchors_of_any_size),
      cmocka_unit_test(test_coders),     cmocka_unit_test(test_decode_broadcasts),
      cmocka_unit_test(test_windows),    cmocka_unit_test(test_clip_window),
      cmocka_unit_test(test_assignment), cmocka_unit_test(test_valid_anchors),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
