/* Detection ops against figures of the original that tests/witness/detect_ops.py made (tests/golden/ops/detect_ops.json): larger
 * batches for nms, generalised IoU with its gradient, anchors of images of unknown size, matching by thresholded IoU. */
#include <math.h>

#include "graph_run.h"
#include "ops/detect.h"
#include "ops/loss.h"

static void check_nms(json_t *p, json_t *in, json_t *out) {
  od_nms_params q = {.score_threshold = (float)json_num(json_need(p, "score_thresh")),
                     .iou_threshold = (float)json_num(json_need(p, "iou_thresh")),
                     .max_per_class = (int64_t)json_num(json_need(p, "max_size_per_class")),
                     .max_total = (int64_t)json_num(json_need(p, "max_total_size")),
                     .change_coordinate_frame = json_bool_or(p, "change_coordinate_frame", false),
                     .class_agnostic = json_bool_or(p, "use_class_agnostic_nms", false),
                     .soft_nms_sigma = (float)json_num_or(p, "soft_nms_sigma", 0)};
  od_graph *g;
  CHECK_OK(od_graph_new(&g));
  od_value scores = json_const_f32(g, in, "scores"), window = OD_NONE, count = OD_NONE;
  if (json_object_get(in, "windows")) window = json_const_f32(g, in, "windows");
  if (json_object_get(in, "num_valid")) count = json_const(g, json_need(in, "num_valid"), OD_I32, OD_SHAPE(2));
  od_value v = od_nms_op(g, json_const_f32(g, in, "boxes"), scores, window, count, scores, &q);
  graph_run r;
  run_graph(&r, g, NULL);
  json_near(json_need(out, "boxes"), run_floats(&r, v), 1e-6, 1e-6, "boxes");
  json_near(json_need(out, "scores"), run_floats(&r, od_out(v, 1)), 1e-6, 1e-6, "scores");
  json_near(json_need(out, "classes"), run_floats(&r, od_out(v, 2)), 0, 0, "classes");
  json_near(json_need(out, "num"), run_floats(&r, od_out(v, 3)), 0, 0, "num");
  json_near(json_need(out, "index"), run_floats(&r, od_out(v, 4)), 0, 0, "index");
  json_near(json_need(out, "extra"), run_floats(&r, od_out(v, 5)), 0, 0, "extra");
  CHECK(run_floats(&r, od_out(v, 3))[0] >= 5);
  run_free(&r);
  od_graph_free(g);
}

static void check_giou(json_t *in, json_t *out) {
  float ones[24];
  for (int i = 0; i < 24; i++) ones[i] = 1;
  od_localization_loss_params q = {.kind = OD_LOC_GIOU};
  od_graph *g;
  CHECK_OK(od_graph_new(&g));
  od_value x[] = {od_const(g, OD_F32, OD_SHAPE(2, 12), ones), json_const_f32(g, in, "prediction"),
                  json_const_f32(g, in, "target"), json_const_f32(g, in, "weights")};
  od_value loss = od_localization_loss(g, x[1], x[2], x[3], &q),
           d = od_graph_add(g, od_op_find("localization_loss_grad"), x, 4, &q);
  graph_run r;
  run_graph(&r, g, NULL);
  json_near(json_need(out, "loss"), run_floats(&r, loss), 1e-6, 1e-6, "loss");
  json_near(json_need(out, "gradient"), run_floats(&r, d), 1e-5, 1e-5, "gradient");
  run_free(&r);
  od_graph_free(g);
}

static void check_anchors(json_t *p, json_t *out) {
  float ratios[8];
  json_t *grid = json_array_get(json_need(p, "grids"), 0), *image = json_need(p, "image"),
         *list = json_need(p, "aspect_ratios");
  json_fill(ratios, list);
  od_graph *g;
  CHECK_OK(od_graph_new(&g));
  static const float zeros[64 * 96];
  od_value map = od_const(
      g, OD_F32,
      OD_SHAPE(1, json_integer_value(json_array_get(grid, 0)), json_integer_value(json_array_get(grid, 1)), 1), zeros);
  od_value im = od_const(
      g, OD_F32,
      OD_SHAPE(1, json_integer_value(json_array_get(image, 0)), json_integer_value(json_array_get(image, 1)), 1),
      zeros);
  int64_t level = (int64_t)json_num(json_need(p, "min_level"));
  od_multiscale_anchors_params q = {level, level, 4, {(int)json_array_size(list), ratios}, 2, true, false};
  od_value v = od_multiscale_anchors_op(g, &map, 1, im, &q);
  graph_run r;
  run_graph(&r, g, NULL);
  json_near(json_need(out, "anchors_0"), run_floats(&r, v), 1e-6, 1e-6, "anchors");
  run_free(&r);
  od_graph_free(g);
}

static void check_match(json_t *in, json_t *out) {
  od_match_params q = {.similarity = OD_SIMILARITY_THRESHOLDED_IOU,
                       .iou_threshold = 0.3f,
                       .matched_threshold = 0.8f,
                       .unmatched_threshold = 0.4f,
                       .negatives_lower_than_unmatched = true,
                       .force_match_for_each_row = true};
  const int32_t count[] = {6};
  od_graph *g;
  CHECK_OK(od_graph_new(&g));
  od_value boxes = json_const(g, json_need(in, "boxes"), OD_F32, OD_SHAPE(1, 6, 4)),
           labels = json_const(g, json_need(in, "labels"), OD_F32, OD_SHAPE(1, 6, 2));
  od_value weights = json_const(g, json_need(in, "weights"), OD_F32, OD_SHAPE(1, 6));
  od_value v = od_match_anchors(g, json_const_f32(g, in, "anchors"), boxes, weights,
                                od_const(g, OD_I32, OD_SHAPE(1), count), labels, OD_NONE, &q);
  graph_run r;
  run_graph(&r, g, NULL);
  size_t n;
  float *want = json_floats(json_need(out, "match"), &n);
  for (size_t i = 0; i < n; i++) CHECK(((int32_t *)run_value(&r, v)->data)[i] == (int32_t)want[i]);
  test_free(want);
  run_free(&r);
  od_graph_free(g);
}

static void test_golden(void **state) {
  (void)state;
  json_t *root = json_file("tests/golden/ops/detect_ops.json"), *cases = json_need(root, "cases");
  size_t nms = 0, other = 0;
  for (size_t i = 0; i < json_array_size(cases); i++) {
    json_t *c = json_array_get(cases, i), *p = json_need(c, "params"), *in = json_need(c, "inputs"),
           *out = json_need(c, "outputs");
    const char *op = json_text(c, "op");
    other++;
    if (strcmp(op, "batch_nms") == 0)
      check_nms(p, in, out), nms++, other--;
    else if (strcmp(op, "giou") == 0)
      check_giou(in, out);
    else if (strcmp(op, "multiscale_anchors_unknown_size") == 0)
      check_anchors(p, out);
    else if (strcmp(op, "thresholded_match") == 0)
      check_match(in, out);
    else
      fail_msg("unknown op %s", op);
  }
  CHECK(nms == 5 && other == 4);
  json_decref(root);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
