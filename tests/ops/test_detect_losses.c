/* The losses, their gradients and the hard example miner against the original's figures (witness/components/losses.json),
 * and what the file does not hold: generalised IoU, NaN targets, derivatives by finite differences. */
#include <math.h>

#include "graph_run.h"
#include "ops/detect.h"
#include "ops/loss.h"

static bool is_classification(const char *op) {
  return strstr(op, "sigmoid") == op || strstr(op, "softmax") == op || strstr(op, "bootstrapped") == op;
}

static od_value dy_of_ones(od_graph *g, od_value loss) {
  float ones[64];
  for (int i = 0; i < 64; i++) ones[i] = 1;
  od_type t = od_type_of(loss);
  return od_const(g, OD_F32, t.shape, ones);
}

static void check_loss(const char *op, json_t *c) {
  json_t *in = json_need(c, "inputs"), *out = json_need(c, "outputs"), *p = json_need(c, "params");
  od_graph *g;
  CHECK_OK(od_graph_new(&g));
  od_value pred = json_const_f32(g, in, "prediction"), target = json_const_f32(g, in, "target"),
           w = json_const_f32(g, in, "weights");
  od_value loss, grad;
  if (is_classification(op)) {
    od_classification_loss_params q = {.logit_scale = (float)json_num_or(p, "logit_scale", 1),
                                       .gamma = (float)json_num_or(p, "gamma", 0),
                                       .alpha = (float)json_num_or(p, "alpha", 0),
                                       .has_alpha = json_num_or(p, "alpha", -1) >= 0};
    if (strcmp(op, "sigmoid") == 0)
      q.kind = OD_CLS_SIGMOID;
    else if (strcmp(op, "sigmoid_focal") == 0)
      q.kind = OD_CLS_SIGMOID_FOCAL;
    else if (strcmp(op, "softmax") == 0)
      q.kind = OD_CLS_SOFTMAX;
    else if (strcmp(op, "softmax_against_logits") == 0)
      q.kind = OD_CLS_SOFTMAX_AGAINST_LOGITS;
    else
      q.kind =
          strcmp(json_text(p, "bootstrap_type"), "soft") == 0 ? OD_CLS_BOOTSTRAPPED_SOFT : OD_CLS_BOOTSTRAPPED_HARD;
    loss = od_classification_loss(g, pred, target, w, &q);
    grad = od_graph_add(g, od_op_find("classification_loss_grad"), (od_value[]){dy_of_ones(g, loss), pred, target, w},
                        4, &q);
  } else {
    od_localization_loss_params q = {.delta = (float)json_num_or(p, "delta", 1)};
    q.kind = strcmp(op, "l2") == 0 ? OD_LOC_L2 : strcmp(op, "iou") == 0 ? OD_LOC_IOU : OD_LOC_SMOOTH_L1;
    loss = od_localization_loss(g, pred, target, w, &q);
    grad = od_graph_add(g, od_op_find("localization_loss_grad"), (od_value[]){dy_of_ones(g, loss), pred, target, w}, 4,
                        &q);
  }
  graph_run r;
  run_graph(&r, g, NULL);
  json_near(json_need(out, "loss"), run_floats(&r, loss), 1e-6, 2e-6, op);
  json_near(json_need(out, "gradient"), run_floats(&r, grad), 1e-6, 2e-6, op);
  run_free(&r);
  od_graph_free(g);
}

static void check_miner(json_t *c) {
  json_t *in = json_need(c, "inputs"), *out = json_need(c, "outputs"), *p = json_need(c, "params");
  od_graph *g;
  CHECK_OK(od_graph_new(&g));
  const char *kind = json_text(p, "loss_type");
  od_miner_params q = {.num_hard_examples = (int64_t)json_num_or(p, "num_hard_examples", 0),
                       .iou_threshold = (float)json_num_or(p, "iou_threshold", 0),
                       .loss_type = strcmp(kind, "cls") == 0   ? OD_MINE_CLASSIFICATION
                                    : strcmp(kind, "loc") == 0 ? OD_MINE_LOCALIZATION
                                                               : OD_MINE_BOTH,
                       .classification_weight = (float)json_num_or(p, "cls_loss_weight", 0),
                       .localization_weight = (float)json_num_or(p, "loc_loss_weight", 0),
                       .max_negatives_per_positive = (float)json_num_or(p, "max_negatives_per_positive", 0),
                       .min_negatives_per_image = (int64_t)json_num_or(p, "min_negatives_per_image", 0)};
  json_t *match = json_need(in, "match");
  od_value mask =
      od_hard_example_miner_op(g, json_const_f32(g, in, "location_losses"), json_const_f32(g, in, "class_losses"),
                               json_const_f32(g, in, "boxes"), json_const(g, match, OD_I32, json_shape(match)), &q);
  graph_run r;
  run_graph(&r, g, NULL);
  /* the gradient of the mined loss by the losses is the mask */
  json_near(json_need(out, "class_gradient"), run_floats(&r, mask), 0, 0, "mask");
  json_near(json_need(out, "location_gradient"), run_floats(&r, mask), 0, 0, "mask");
  if (json_object_get(out, "num_positives")) {
    json_near(json_need(out, "num_positives"), run_floats(&r, od_out(mask, 1)), 0, 0, "positives");
    json_near(json_need(out, "num_negatives"), run_floats(&r, od_out(mask, 2)), 0, 0, "negatives");
  }
  run_free(&r);
  od_graph_free(g);
}

static void test_witness(void **state) {
  (void)state;
  NEED_SHARED(path, "witness/components/losses.json");
  json_t *root = json_file(path), *cases = json_need(root, "cases");
  size_t losses = 0, mined = 0;
  for (size_t i = 0; i < json_array_size(cases); i++) {
    json_t *c = json_array_get(cases, i);
    const char *op = json_text(c, "op");
    if (strcmp(op, "hard_example_miner") == 0)
      check_miner(c), mined++;
    else
      check_loss(op, c), losses++;
  }
  CHECK(losses == 14 && mined == 5);
  json_decref(root);
}

/* Sum over the loss of boxes moved by step along direction. */
static double loss_at(const od_localization_loss_params *q, const float *p, const float *t, const float *dir,
                      double step, int n) {
  od_graph *g;
  CHECK_OK(od_graph_new(&g));
  float moved[64], w[16];
  for (int i = 0; i < 4 * n; i++) moved[i] = (float)((double)p[i] + step * (double)dir[i]);
  for (int i = 0; i < n; i++) w[i] = 1;
  od_value v = od_localization_loss(g, od_const(g, OD_F32, OD_SHAPE(n, 4), moved),
                                    od_const(g, OD_F32, OD_SHAPE(n, 4), t), od_const(g, OD_F32, OD_SHAPE(n), w), q);
  graph_run r;
  run_graph(&r, g, NULL);
  double sum = 0;
  for (int i = 0; i < n; i++) sum += (double)run_floats(&r, v)[i];
  run_free(&r);
  od_graph_free(g);
  return sum;
}

/* Boxes that meet, one inside the other, apart: away from ties. */
static const float some[] = {0.1f, 0.2f, 0.5f, 0.6f, 0.2f, 0.2f, 0.4f, 0.5f, 0.1f, 0.1f, 0.2f, 0.2f};
static const float other[] = {0.15f, 0.1f, 0.6f, 0.5f, 0.1f, 0.1f, 0.6f, 0.7f, 0.5f, 0.6f, 0.9f, 0.8f};

static void test_box_gradients(void **state) {
  (void)state;
  const float dir[] = {0.3f, -0.5f, 0.7f, 0.2f, -0.4f, 0.9f, 0.1f, -0.8f, 0.6f, 0.2f, -0.3f, 0.5f}, one[] = {1, 1, 1};
  for (int kind = OD_LOC_IOU; kind <= OD_LOC_GIOU; kind++) {
    od_localization_loss_params q = {.kind = kind};
    double h = 1e-3, slope = (loss_at(&q, some, other, dir, h, 3) - loss_at(&q, some, other, dir, -h, 3)) / (2 * h),
           got = 0;
    od_graph *g;
    CHECK_OK(od_graph_new(&g));
    od_value in[] = {od_const(g, OD_F32, OD_SHAPE(3), one), od_const(g, OD_F32, OD_SHAPE(3, 4), some),
                     od_const(g, OD_F32, OD_SHAPE(3, 4), other), od_const(g, OD_F32, OD_SHAPE(3), one)};
    od_value d = od_graph_add(g, od_op_find("localization_loss_grad"), in, 4, &q);
    graph_run r;
    run_graph(&r, g, NULL);
    for (int i = 0; i < 12; i++) got += (double)(run_floats(&r, d)[i] * dir[i]);
    CHECK_NEAR(got, slope, 1e-3 * fabs(slope));
    CHECK(fabs(slope) > 0.1);
    run_free(&r);
    od_graph_free(g);
  }
}

/* Two boxes in the corners of a square of 9 cells that share the middle one, by hand: iou 1/7, hull 9. */
static void test_giou_value(void **state) {
  (void)state;
  const float p[] = {0, 0, 2, 2}, t[] = {1, 1, 3, 3}, still[4] = {0};
  od_localization_loss_params q = {.kind = OD_LOC_GIOU};
  CHECK_NEAR(loss_at(&q, p, t, still, 0, 1), 1 - (1.0 / 7 - 2.0 / 9), 1e-6);
}

static void test_nan_target_counts_as_met(void **state) {
  (void)state;
  const float p[] = {1, 2, 3, 4}, t[] = {NAN, 2, NAN, 6}, w[] = {1};
  od_graph *g;
  CHECK_OK(od_graph_new(&g));
  od_localization_loss_params q = {.kind = OD_LOC_SMOOTH_L1, .delta = 1};
  od_value in[] = {od_const(g, OD_F32, OD_SHAPE(1), w), od_const(g, OD_F32, OD_SHAPE(1, 4), p),
                   od_const(g, OD_F32, OD_SHAPE(1, 4), t), od_const(g, OD_F32, OD_SHAPE(1), w)};
  od_value loss = od_localization_loss(g, in[1], in[2], in[3], &q),
           d = od_graph_add(g, od_op_find("localization_loss_grad"), in, 4, &q);
  graph_run r;
  run_graph(&r, g, NULL);
  CHECK_NEAR(run_floats(&r, loss)[0], 1.5, 0);
  CHECK_NEAR(run_floats(&r, d)[0], 0, 0);
  CHECK_NEAR(run_floats(&r, d)[3], -1, 0);
  run_free(&r);
  od_graph_free(g);
}

static void test_refusals(void **state) {
  (void)state;
  od_graph *g;
  CHECK_OK(od_graph_new(&g));
  od_value three = od_const(g, OD_F32, OD_SHAPE(1, 3), some), w = od_const(g, OD_F32, OD_SHAPE(1), some);
  od_localization_loss(g, three, three, w, &(od_localization_loss_params){.kind = OD_LOC_IOU});
  CHECK_FAILS(od_graph_check(g), OD_EINVAL, "boxes of 4 numbers");
  od_graph_free(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_witness),
      cmocka_unit_test(test_box_gradients),
      cmocka_unit_test(test_giou_value),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_nan_target_counts_as_met),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
