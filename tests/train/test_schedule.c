/* Learning rates from config text, step by step, against the original's. */
#include "od_json.h"

#include "io/protobuf.h"
#include "io/textproto.h"
#include "train/schedule.h"

static char heard[512];
static void hear(void *ctx, od_level level, const char *text) {
  (void)ctx;
  (void)level;
  snprintf(heard, sizeof heard, "%s", text);
}
static const od_reporter reporter = {.line = hear};

static od_status schedule_of(od_schedule *s, const char *text) {
  ObjectDetection__Protos__LearningRate *config;
  heard[0] = 0;
  CHECK_OK(od_textproto_parse(&config, &object_detection__protos__learning_rate__descriptor, "test", text, strlen(text),
                              NULL));
  od_status st = od_schedule_from_config(s, config, &reporter);
  od_proto_free(config);
  return st;
}

static void rates_equal_the_original(void **state) {
  (void)state;
  NEED_SHARED(path, "witness/components/schedules.json");
  json_t *root = json_file(path), *cases = json_need(root, "cases");
  size_t compared = 0, refused = 0;
  for (size_t i = 0; i < json_array_size(cases); i++) {
    json_t *c = json_array_get(cases, i), *rates = json_need(json_need(c, "outputs"), "rates");
    const char *text = json_string_value(json_need(json_need(c, "params"), "config"));
    od_schedule s;
    CHECK_OK(schedule_of(&s, text));
    if (json_is_string(rates)) { /* the newer original refuses an entry at step 0, ours warns */
      CHECK_TEXT(json_string_value(rates), "error: First step cannot be zero.");
      CHECK(strstr(heard, "step 0") && od_schedule_rate(&s, 0) == 0.003f && od_schedule_rate(&s, 39) == 0.003f);
      CHECK(od_schedule_rate(&s, 40) == 0.0005f);
      refused++;
    }
    for (size_t k = 0; json_is_array(rates) && k < json_array_size(rates); k++, compared++) {
      int64_t step = json_integer_value(json_array_get(json_need(json_need(c, "inputs"), "steps"), k));
      float want = (float)json_num(json_array_get(rates, k)), got = od_schedule_rate(&s, step);
      /* the same bits, but for pow and cos, which TensorFlow has of its own: 2 units of the last place of the base rate */
      double tolerance = strstr(text, "cosine") || strstr(text, "staircase: false") ? 2.4e-7 * (double)s.base : 0;
      if (!(fabs((double)got - (double)want) <= tolerance))
        fail_msg("%s: step %lld: %.9g, expected %.9g", text, (long long)step, (double)got, (double)want);
    }
    od_schedule_free(&s);
  }
  CHECK(compared == 9 * 22 && refused == 1);
  json_decref(root);
}

static void refusals_are_the_original_s(void **state) {
  (void)state;
  od_schedule s;
  CHECK_FAILS(schedule_of(&s, ""), OD_EINVAL, "learning_rate is not set");
  CHECK_FAILS(schedule_of(&s, "manual_step_learning_rate { }"), OD_EINVAL, "Empty learning rate schedule.");
  CHECK_FAILS(schedule_of(&s, "manual_step_learning_rate { schedule { step: 9 } schedule { step: 9 } }"), OD_EINVAL,
              "must be strictly increasing: step 9 stands after step 9");
  CHECK_FAILS(schedule_of(&s, "cosine_decay_learning_rate { total_steps: 5 warmup_steps: 9 }"), OD_EINVAL,
              "total_steps must be larger or equal to warmup_steps: 5 and 9");
  CHECK_FAILS(schedule_of(&s, "cosine_decay_learning_rate { learning_rate_base: 0.1 warmup_learning_rate: 0.2 }"),
              OD_EINVAL, "learning_rate_base must be larger or equal to warmup_learning_rate: 0.1 and 0.2");
  CHECK_FAILS(schedule_of(&s, "exponential_decay_learning_rate { decay_steps: 0 }"), OD_EINVAL, "decay_steps 0");
  CHECK_OK(schedule_of(&s, "manual_step_learning_rate { schedule { step: 0 learning_rate: 0.5 } }"));
  CHECK(od_schedule_rate(&s, 0) == 0.5f && od_schedule_rate(&s, 1000000) == 0.5f);
  od_schedule_free(&s);
  ObjectDetection__Protos__Optimizer none;
  object_detection__protos__optimizer__init(&none);
  CHECK_FAILS(od_schedule_from_optimizer(&s, &none, NULL), OD_EINVAL, "no optimizer is set");
}

static void the_ends_of_a_cosine(void **state) {
  (void)state;
  od_schedule s;
  CHECK_OK(
      schedule_of(&s, "cosine_decay_learning_rate { learning_rate_base: 0.1 warmup_learning_rate: 0.05 warmup_steps: 4 "
                      "total_steps: 4 }"));
  CHECK(od_schedule_rate(&s, 0) == 0.05f && od_schedule_rate(&s, 4) == 0.1f && od_schedule_rate(&s, 5) == 0);
  od_schedule_free(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(rates_equal_the_original),
                                     cmocka_unit_test(refusals_are_the_original_s),
                                     cmocka_unit_test(the_ends_of_a_cosine)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
