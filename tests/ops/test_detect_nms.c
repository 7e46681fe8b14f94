/* Op nms against the original's figures (witness/components/nms.json), and around it: images of a batch do not touch each
 * other, extra columns travel with their boxes, indices point at the boxes they name. */
#include <math.h>

#include "graph_run.h"
#include "ops/detect.h"

static od_value unsqueezed(od_graph *g, json_t *v, int lead) {
  od_shape s = json_shape(v), out = {s.rank + lead, {0}};
  for (int i = 0; i < out.rank; i++) out.dim[i] = i < lead ? 1 : s.dim[i - lead];
  return json_const(g, v, OD_F32, out);
}

/* The first rows of got must be the case's, the rest zero unless the case says how it is padded. */
static void check_rows(json_t *out, const graph_run *r, od_value v, int64_t b, int64_t m) {
  json_t *scores = json_need(out, "scores");
  int64_t n = (int64_t)json_count(scores);
  json_near(json_need(out, "boxes"), run_floats(r, v) + b * m * 4, 1e-6, 1e-6, "boxes");
  json_near(scores, run_floats(r, od_out(v, 1)) + b * m, 1e-6, 1e-6, "scores");
  json_near(json_need(out, "classes"), run_floats(r, od_out(v, 2)) + b * m, 0, 0, "classes");
  for (int64_t i = n; i < m; i++) {
    CHECK(run_floats(r, od_out(v, 1))[b * m + i] == 0);
    for (int k = 0; k < 4; k++) CHECK(run_floats(r, v)[(b * m + i) * 4 + k] == 0);
  }
}

static void check_single(json_t *c, const char *op) {
  json_t *p = json_need(c, "params"), *in = json_need(c, "inputs"), *out = json_need(c, "outputs");
  od_nms_params q = {.score_threshold = (float)json_num(json_need(p, "score_thresh")),
                     .iou_threshold = (float)json_num(json_need(p, "iou_thresh")),
                     .max_per_class = (int64_t)json_num_or(p, "max_size_per_class", 0),
                     .max_total = (int64_t)json_num(json_need(p, "max_total_size")),
                     .change_coordinate_frame = json_bool_or(p, "change_coordinate_frame", false),
                     .class_agnostic = strcmp(op, "class_agnostic_nms") == 0,
                     .soft_nms_sigma = (float)json_num_or(p, "soft_nms_sigma", 0),
                     .static_shapes = json_bool_or(p, "pad_to_max_output_size", false)};
  od_graph *g;
  CHECK_OK(od_graph_new(&g));
  float none[4] = {-1e9f, -1e9f, 1e9f, 1e9f}; /* wider than any box: clips nothing, as no window does */
  json_t *w = json_object_get(p, "clip_window");
  od_value window = w ? json_const(g, w, OD_F32, OD_SHAPE(4)) : od_const(g, OD_F32, OD_SHAPE(4), none);
  od_value v = od_nms_op(g, unsqueezed(g, json_need(in, "boxes"), 1), unsqueezed(g, json_need(in, "scores"), 1), window,
                         OD_NONE, OD_NONE, &q);
  graph_run r;
  run_graph(&r, g, NULL);
  check_rows(out, &r, v, 0, q.max_total);
  json_near(json_need(out, "num"), run_floats(&r, od_out(v, 3)), 0, 0, "num");
  run_free(&r);
  od_graph_free(g);
}

static void check_batch(json_t *c) {
  json_t *in = json_need(c, "inputs"), *out = json_need(c, "outputs");
  od_nms_params q = {.score_threshold = 0.2f,
                     .iou_threshold = 0.5f,
                     .max_per_class = 3,
                     .max_total = 6,
                     .change_coordinate_frame = true};
  od_graph *g;
  CHECK_OK(od_graph_new(&g));
  od_value count = json_const(g, json_need(in, "num_valid"), OD_I32, OD_SHAPE(2)),
           boxes = json_const_f32(g, in, "boxes");
  od_value scores = json_const_f32(g, in, "scores"), window = json_const_f32(g, in, "windows");
  od_value v = od_nms_op(g, boxes, scores, window, count, scores, &q);
  graph_run r;
  run_graph(&r, g, NULL);
  check_rows(out, &r, v, 0, 12);
  json_near(json_need(out, "num"), run_floats(&r, od_out(v, 3)), 0, 0, "num");
  /* the scores given along as extra must hold each detection's own score in its class's column */
  const float *score = run_floats(&r, od_out(v, 1)), *cls = run_floats(&r, od_out(v, 2)),
              *num = run_floats(&r, od_out(v, 3));
  const float *at = run_floats(&r, od_out(v, 4)), *extra = run_floats(&r, od_out(v, 5)), *all = run_floats(&r, scores);
  CHECK(num[0] > 0 && num[1] > 0);
  for (int b = 0; b < 2; b++)
    for (int i = 0; i < 6; i++) {
      bool valid = i < (int)num[b];
      CHECK(extra[(b * 6 + i) * 3 + (int)cls[b * 6 + i]] == (valid ? score[b * 6 + i] : 0));
      CHECK(valid ? all[(b * 12 + (int)at[b * 6 + i]) * 3 + (int)cls[b * 6 + i]] == score[b * 6 + i]
                  : at[b * 6 + i] == 0);
    }
  run_free(&r);
  od_graph_free(g);
}

static void test_witness(void **state) {
  (void)state;
  NEED_SHARED(path, "witness/components/nms.json");
  json_t *root = json_file(path), *cases = json_need(root, "cases");
  size_t checked = 0;
  for (size_t i = 0; i < json_array_size(cases); i++) {
    json_t *c = json_array_get(cases, i);
    const char *op = json_text(c, "op");
    if (strcmp(op, "multiclass_nms") == 0 || strcmp(op, "class_agnostic_nms") == 0) check_single(c, op), checked++;
    if (strcmp(op, "batch_multiclass_nms") == 0) check_batch(c), checked++;
  }
  CHECK(checked == 15);
  json_decref(root);
}

/* Without a window the extent of all boxes clips: nothing. No boxes at all give no detections. */
static void test_edges(void **state) {
  (void)state;
  const float box[] = {-3, -2, 5, 7, 0, 0, 1, 1}, score[] = {0.5f, 0.9f};
  od_nms_params q = {.score_threshold = 0.1f, .iou_threshold = 0.5f, .max_per_class = 4, .max_total = 3};
  od_graph *g;
  CHECK_OK(od_graph_new(&g));
  od_value v = od_nms_op(g, od_const(g, OD_F32, OD_SHAPE(1, 2, 1, 4), box),
                         od_const(g, OD_F32, OD_SHAPE(1, 2, 1), score), OD_NONE, OD_NONE, OD_NONE, &q);
  od_value none = od_nms_op(g, od_const(g, OD_F32, OD_SHAPE(2, 0, 1, 4), box),
                            od_const(g, OD_F32, OD_SHAPE(2, 0, 1), score), OD_NONE, OD_NONE, OD_NONE, &q);
  CHECK(od_dim(v, 1) == 3 && od_dim(od_out(v, 5), 2) == 0);
  graph_run r;
  run_graph(&r, g, NULL);
  CHECK(run_floats(&r, od_out(v, 3))[0] == 2 && run_floats(&r, od_out(v, 4))[0] == 1 && run_floats(&r, v)[4] == -3 &&
        run_floats(&r, v)[7] == 7);
  CHECK(run_floats(&r, od_out(none, 3))[0] == 0 && run_floats(&r, od_out(none, 3))[1] == 0);
  run_free(&r);
  od_graph_free(g);
}

static void test_refusals(void **state) {
  (void)state;
  const float f[24] = {0};
  od_graph *g;
  CHECK_OK(od_graph_new(&g));
  od_nms_params q = {.iou_threshold = 0.5f, .max_per_class = 4, .max_total = 3};
  od_nms_op(g, od_const(g, OD_F32, OD_SHAPE(1, 2, 2, 4), f), od_const(g, OD_F32, OD_SHAPE(1, 2, 3), f), OD_NONE,
            OD_NONE, OD_NONE, &q);
  CHECK_FAILS(od_graph_check(g), OD_EINVAL, "2 boxes an anchor for 3 classes");
  od_graph_free(g);
  CHECK_OK(od_graph_new(&g));
  q.change_coordinate_frame = true;
  od_nms_op(g, od_const(g, OD_F32, OD_SHAPE(1, 2, 1, 4), f), od_const(g, OD_F32, OD_SHAPE(1, 2, 3), f), OD_NONE,
            OD_NONE, OD_NONE, &q);
  CHECK_FAILS(od_graph_check(g), OD_EINVAL, "needs a clip window");
  od_graph_free(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_witness),
      cmocka_unit_test(test_edges),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
