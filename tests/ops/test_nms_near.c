/* Suppression by place must choose what comparing with all chooses: random boxes of many kinds, thresholds from 0 to 1. */
#include <math.h>

#include "base/rng.h"
#include "od_test.h"
#include "ops/box/nms.h"

enum { N = 700 };

/* Greedy suppression as the definition has it. */
static int64_t by_hand(int32_t *selected, const float *boxes, const float *scores, int64_t n, int64_t most,
                       float threshold) {
  int64_t done = 0;
  bool used[N] = {false};
  while (done < most) {
    int64_t best = -1;
    for (int64_t i = 0; i < n; i++)
      if (!used[i] && (best < 0 || scores[i] > scores[best])) best = i;
    if (best < 0) break;
    used[best] = true;
    bool stays = true;
    for (int64_t j = 0; j < done && stays; j++)
      stays = !(od_nms_iou(boxes + 4 * best, boxes + 4 * selected[j]) > threshold);
    if (stays) selected[done++] = (int32_t)best;
  }
  return done;
}

/* Kinds of boxes: 0 anywhere, 1 on a grid with a little noise (anchors), 2 in few places (many equal), 3 thin and without
 * area, 4 corners the wrong way round, 5 far from the origin, 6 with infinities and NaN among them, 7 tiny. */
static void draw(float *box, int kind, od_key key, uint64_t i) {
  float u[4];
  for (uint64_t k = 0; k < 4; k++) u[k] = od_rng_f32(key, 4 * i + k);
  float cy = u[0], cx = u[1], h = 0.02f + 0.4f * u[2], w = 0.02f + 0.4f * u[3];
  if (kind == 1) {
    cy = (float)(i % 19) / 19 + 0.002f * u[0], cx = (float)(i / 19 % 12) / 12 + 0.002f * u[1];
    h = 0.3f + 0.002f * u[2], w = 0.2f * (float)(1 + i % 3) + 0.002f * u[3];
  }
  if (kind == 2) cy = floorf(4 * u[0]) / 4, cx = floorf(4 * u[1]) / 4, h = 0.25f, w = 0.3f;
  if (kind == 3 && i % 3 == 0) h = i % 2 ? 0 : 1e-6f;
  if (kind == 5) cy += 3000, cx -= 5000;
  if (kind == 7) h *= 1e-18f, w *= 1e-18f, cy *= 1e-17f, cx *= 1e-17f;
  box[0] = cy - h / 2, box[1] = cx - w / 2, box[2] = cy + h / 2, box[3] = cx + w / 2;
  if (kind == 4 && i % 2) {
    float t = box[0];
    box[0] = box[2], box[2] = t;
  }
  if (kind == 6 && i % 50 == 7) box[i % 4] = i % 100 < 50 ? NAN : INFINITY;
}

static void test_same_choice(void **state) {
  (void)state;
  static float boxes[N * 4], scores[N];
  static int32_t got[N], want[N];
  const float thresholds[] = {0, 0.04f, 0.1f, 0.5f, 0.6f, 0.7f, 0.9f, 0.99f, 1};
  const od_work work = {od_alloc(od_nms_work(N, N)), od_nms_work(N, N)};
  int64_t suppressed = 0;
  CHECK(work.at != NULL);
  for (int kind = 0; kind < 8; kind++)
    for (size_t t = 0; t < sizeof thresholds / sizeof *thresholds; t++) {
      od_key key = od_key_mix((od_key)kind + 1, t);
      for (uint64_t i = 0; i < N; i++) {
        draw(boxes + 4 * i, kind, key, i);
        scores[i] = floorf(200 * od_rng_f32(key, 100000 + i)) / 200; /* with ties */
      }
      int64_t most = t % 2 ? N : 300, n, m = by_hand(want, boxes, scores, N, most, thresholds[t]);
      CHECK_OK(od_nms(got, NULL, &n, boxes, 4, scores, 1, N, most, thresholds[t], -INFINITY, 0, work));
      if (n != m || memcmp(got, want, (size_t)n * sizeof *got) != 0)
        fail_msg("kind %d, threshold %g: %lld chosen, %lld expected", kind, (double)thresholds[t], (long long)n,
                 (long long)m);
      suppressed += N - n;
    }
  CHECK(suppressed > 10000);
  od_free(work.at);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_choice)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
