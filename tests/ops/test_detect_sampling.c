/* sample_balanced: counts and shares as BalancedPositiveNegativeSampler, everything where everything fits, draws by key;
 * and the ops that lay sampled rows together. */
#include "graph_run.h"
#include "ops/detect.h"

enum { B = 2, A = 200 };

/* Image 0: every 10th positive, every 7th may not be chosen; image 1: no positives. */
static void fill(float *indicator, float *labels) {
  for (int i = 0; i < A; i++) {
    indicator[i] = i % 7 ? 1 : 0;
    labels[i] = i % 10 == 0 ? 3 : 0;
    indicator[A + i] = 1;
    labels[A + i] = 0;
  }
}

static void run_sample(float *out, const float *indicator, const float *labels, od_sample_params q, const char *scope) {
  od_graph *g;
  CHECK_OK(od_graph_new(&g));
  od_scope_push(g, scope);
  od_value v = od_sample_balanced_op(g, od_const(g, OD_F32, OD_SHAPE(B, A), indicator),
                                     od_const(g, OD_F32, OD_SHAPE(B, A), labels), &q);
  od_scope_pop(g);
  graph_run r;
  run_graph(&r, g, NULL);
  memcpy(out, run_floats(&r, v), B * A * sizeof *out);
  run_free(&r);
  od_graph_free(g);
}

static void count(int *positives, int *negatives, const float *mask, const float *indicator, const float *labels) {
  *positives = *negatives = 0;
  for (int i = 0; i < A; i++) {
    CHECK(mask[i] == 0 || (mask[i] == 1 && indicator[i] != 0));
    *positives += mask[i] != 0 && labels[i] != 0;
    *negatives += mask[i] != 0 && labels[i] == 0;
  }
}

static void test_shares(void **state) {
  (void)state;
  float indicator[B * A], labels[B * A], mask[B * A], other[B * A];
  int p, n;
  fill(indicator, labels);
  run_sample(mask, indicator, labels, (od_sample_params){32, 0.25f}, "a");
  count(&p, &n, mask, indicator, labels);
  CHECK(p == 8 && n == 24);
  count(&p, &n, mask + A, indicator + A, labels + A);
  CHECK(p == 0 && n == 32);
  run_sample(other, indicator, labels, (od_sample_params){32, 0.25f}, "a");
  CHECK(memcmp(mask, other, sizeof mask) == 0);
  run_sample(other, indicator, labels, (od_sample_params){32, 0.25f}, "b"); /* another node draws otherwise */
  CHECK(memcmp(mask, other, sizeof mask) != 0);
  run_sample(mask, indicator, labels, (od_sample_params){500, 1}, "a"); /* takes all there is */
  for (int i = 0; i < B * A; i++) CHECK(mask[i] == (indicator[i] != 0));
  run_sample(mask, indicator, labels, (od_sample_params){0, 0.5f}, "a"); /* no size: as many negatives as positives */
  count(&p, &n, mask, indicator, labels);
  CHECK(p == 17 && n == 17);
  count(&p, &n, mask + A, indicator + A, labels + A);
  CHECK(p == 0 && n == 0);
}

static void test_rows(void **state) {
  (void)state;
  const float mask[] = {0, 1, 0, 1, 1, 1, 0, 0, 0, 0}, x[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  od_graph *g;
  CHECK_OK(od_graph_new(&g));
  od_value m = od_const(g, OD_F32, OD_SHAPE(2, 5), mask);
  od_value three = od_compact_rows(g, m, od_const(g, OD_F32, OD_SHAPE(2, 5, 1), x), 3),
           two = od_compact_rows(g, m, od_const(g, OD_F32, OD_SHAPE(2, 5), x), 2);
  od_value valid = od_valid_rows(g, od_out(three, 1), three);
  const float boxes[24] = {0};
  od_value image = od_box_image(g, od_const(g, OD_F32, OD_SHAPE(2, 3, 4), boxes));
  graph_run r;
  run_graph(&r, g, NULL);
  const float want3[] = {1, 3, 4, 5, 0, 0}, want2[] = {1, 3, 5, 0}, want_valid[] = {1, 1, 1, 1, 0, 0};
  CHECK(memcmp(run_floats(&r, three), want3, sizeof want3) == 0);
  CHECK(memcmp(run_floats(&r, two), want2, sizeof want2) == 0);
  CHECK(memcmp(run_floats(&r, valid), want_valid, sizeof want_valid) == 0);
  const int32_t *n3 = run_value(&r, od_out(three, 1))->data, *n2 = run_value(&r, od_out(two, 1))->data,
                *of = run_value(&r, image)->data;
  CHECK(n3[0] == 3 && n3[1] == 1 && n2[0] == 2 && n2[1] == 1);
  CHECK(of[0] == 0 && of[2] == 0 && of[3] == 1 && of[5] == 1);
  run_free(&r);
  od_graph_free(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_shares), cmocka_unit_test(test_rows)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
