/* Every shipped config, training and inference, fp32 and bf16: no convolution, pooling, product, batch norm, crop or NMS is left
 * to the reference functions, and a second step allocates nothing. Small pictures: only which kernel takes what counts. */
#include "od_test.h"

#include <dirent.h>

#include "train/rehearsal.h"

/* Ops that must have a kernel: what their names begin with or hold. */
static bool must_be_fast(const char *op) {
  static const char *const parts[] = {"conv2d", "pool", "matmul", "batch_norm", "crop_and_resize", "nms"};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (strstr(op, parts[i])) return true;
  return false;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Names of the shipped configs that begin so, sorted; freed by the caller. */
static size_t configs(char **names, size_t most, const char *prefix) {
  size_t n = 0;
  DIR *d = opendir("samples/configs");
  CHECK(d != NULL);
  for (struct dirent *e; (e = readdir(d)) != NULL && n < most;)
    if (strncmp(e->d_name, prefix, strlen(prefix)) == 0 && strstr(e->d_name, ".config"))
      names[n++] = od_strdup(e->d_name);
  closedir(d);
  qsort(names, n, sizeof *names, by_name);
  return n;
}

static void one(const od_pipeline *p, const char *name, bool inference, od_precision precision, int64_t size) {
  od_rehearsal h = {0};
  const od_rehearsal_spec spec = {.config = p->config,
                                  .inference = inference,
                                  .batch = 1,
                                  .height = size,
                                  .width = size,
                                  .engine = {.name = "cpu", .threads = 1, .precision = precision}};
  CHECK_OK(od_rehearsal_new(&h, &spec));
  CHECK_OK(od_rehearsal_step(&h, NULL));
  const uint64_t before = od_mem_count();
  CHECK_OK(od_rehearsal_step(&h, NULL));
  if (od_mem_count() != before)
    fail_msg("%s %s %s: the second step makes %llu allocations", name, inference ? "inference" : "training",
             precision == OD_FP32 ? "fp32" : "bf16", (unsigned long long)(od_mem_count() - before));
  size_t n, products = 0;
  const od_profile_step *s = od_program_profile_steps(h.program, &n);
  for (size_t i = 0; i < n; i++) {
    products += s[i].flops > 0;
    if (s[i].fallback && must_be_fast(s[i].op))
      fail_msg("%s %s %s: %s (%s) is left to the reference", name, inference ? "inference" : "training",
               precision == OD_FP32 ? "fp32" : "bf16", s[i].name, s[i].op);
  }
  CHECK(products > 10); /* the profile does count */
  od_rehearsal_free(&h);
}

static void all(const char *prefix, size_t at_least, int64_t size) {
  static const char *const few[] = {"model.faster_rcnn.first_stage_max_proposals=8",
                                    "model.faster_rcnn.second_stage_batch_size=4"};
  char *names[64], path[512];
  const size_t n = configs(names, 64, prefix);
  CHECK(n >= at_least);
  for (size_t i = 0; i < n; i++) {
    if (OD_UNDER_SANITIZER && i % 4 != 0) { /* memory is used in few ways */
      od_free(names[i]);
      continue;
    }
    od_pipeline p = {0};
    snprintf(path, sizeof path, "samples/configs/%s", names[i]);
    CHECK_OK(od_pipeline_load(&p, path, few, strncmp(prefix, "faster", 6) == 0 ? 2 : 0));
    for (int k = 0; k < 4; k++) one(&p, names[i], k & 1, k & 2 ? OD_MIXED_BF16 : OD_FP32, size);
    od_pipeline_free(&p);
    od_free(names[i]);
  }
}

static void ssd(void **state) {
  (void)state;
  all("ssd", 10, 96);
}

/* The deepest networks differ from these in the number of equal blocks alone. */
static void faster_rcnn(void **state) {
  (void)state;
  all("faster_rcnn_resnet50_pets", 1, 160);
  all("faster_rcnn_resnet101_atrous", 1, 160);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(ssd), cmocka_unit_test(faster_rcnn)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
