/* Plans made ahead in another thread: a step on them gives the same bits as a step that makes its own plan and allocates nothing; and a
 * full cache of plans holds no more memory however many shapes come by. A small Faster R-CNN in training, both precisions. */
#include "od_test.h"

#include "engine/ahead.h"
#include "train/rehearsal.h"

enum { SIDE = 192, N_SHAPES = 3 };
static const int sizes[N_SHAPES][2] = {{128, 160}, {160, 128}, {96, 192}};

static void open_small(od_rehearsal *h, od_pipeline *p, od_precision precision, int plans) {
  static const char *const few[] = {"model.faster_rcnn.first_stage_max_proposals=8",
                                    "model.faster_rcnn.second_stage_batch_size=4"};
  CHECK_OK(od_pipeline_load(p, "samples/configs/faster_rcnn_resnet50_pets.config", few, 2));
  const od_rehearsal_spec spec = {.config = p->config, .batch = 1, .height = SIDE, .width = SIDE,
                                  .engine = {.name = "cpu", .threads = 2, .precision = precision, .plan_cache = plans}};
  CHECK_OK(od_rehearsal_new(h, &spec));
}

static void set_size(od_rehearsal *h, int height, int width) {
  int32_t *true_shape = h->feeds[1].data;
  h->feeds[0].shape.dim[1] = true_shape[0] = height;
  h->feeds[0].shape.dim[2] = true_shape[1] = width;
}

static void ask(od_ahead *a, const od_rehearsal *h, int height, int width) {
  od_shape shapes[OD_REHEARSAL_FEEDS];
  memcpy(shapes, h->shapes, sizeof shapes);
  shapes[0].dim[1] = height;
  shapes[0].dim[2] = width;
  od_ahead_ask(a, shapes);
}

static void same_bits(od_precision precision) {
  od_pipeline p[2] = {{0}};
  od_rehearsal h[2] = {{0}};
  od_ahead *a;
  float loss[2][N_SHAPES];
  for (int k = 0; k < 2; k++) {
    open_small(&h[k], &p[k], precision, 0);
    set_size(&h[k], SIDE, SIDE);
    CHECK_OK(od_rehearsal_step(&h[k], NULL)); /* the buffer has its size */
  }
  CHECK_OK(od_ahead_new(&a, h[1].program, h[1].n_feeds));
  for (int i = 0; i < N_SHAPES; i++) ask(a, &h[1], sizes[i][0], sizes[i][1]);
  od_ahead_wait(a);
  for (int i = 0; i < N_SHAPES; i++)
    for (int k = 0; k < 2; k++) {
      set_size(&h[k], sizes[i][0], sizes[i][1]);
      const uint64_t before = od_mem_count();
      CHECK_OK(od_rehearsal_step(&h[k], &loss[k][i]));
      if (k) CHECK(od_mem_count() == before); /* the plan was there */
      else CHECK(od_mem_count() > before);
    }
  od_ahead_free(a);
  CHECK(memcmp(loss[0], loss[1], sizeof loss[0]) == 0);
  for (size_t v = 0; v < od_graph_variables(h[0].graph); v++)
    CHECK(memcmp(od_state_at(h[0].state, (int)v)->data, od_state_at(h[1].state, (int)v)->data, od_tensor_bytes(od_state_at(h[0].state, (int)v))) == 0);
  for (int k = 0; k < 2; k++) {
    od_rehearsal_free(&h[k]);
    od_pipeline_free(&p[k]);
  }
}

static void ahead_gives_the_same_bits_fp32(void **state) {
  (void)state;
  same_bits(OD_FP32);
}
static void ahead_gives_the_same_bits_bf16(void **state) {
  (void)state;
  same_bits(OD_MIXED_BF16);
}

/* Asked for beside runs, more shapes than the cache holds, also the one that runs. */
static void a_full_cache_grows_no_more(void **state) {
  (void)state;
  enum { PLANS = 3, ROUNDS = 14 };
  od_pipeline p = {0};
  od_rehearsal h = {0};
  od_ahead *a;
  size_t most[2] = {0, 0};
  open_small(&h, &p, OD_FP32, PLANS);
  set_size(&h, SIDE, SIDE);
  CHECK_OK(od_rehearsal_step(&h, NULL));
  CHECK_OK(od_ahead_new(&a, h.program, h.n_feeds));
  for (int i = 0; i < ROUNDS; i++) {
    const int height = 96 + i % 12 * 8, width = 184 - i * 3; /* no two alike */
    ask(a, &h, 96 + (i + 1) % 12 * 8, width - 3);
    ask(a, &h, height, width);
    set_size(&h, height, width);
    CHECK_OK(od_rehearsal_step(&h, NULL));
    od_ahead_wait(a);
    size_t *half = &most[i >= ROUNDS / 2];
    if (od_mem_used() > *half) *half = od_mem_used();
  }
  od_ahead_free(a);
  CHECK(most[1] <= most[0] + most[0] / 50);
  od_rehearsal_free(&h);
  od_pipeline_free(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(ahead_gives_the_same_bits_fp32), cmocka_unit_test(ahead_gives_the_same_bits_bf16),
                                     cmocka_unit_test(a_full_cache_grows_no_more)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
