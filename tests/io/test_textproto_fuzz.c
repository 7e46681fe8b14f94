/* The text-format fuzz target on seeded mutations of real texts: what a fuzzer would try first, in every test run. */
#include "od_test.h"

#include "io/file.h"

#include "fuzz/fuzz_textproto.c"

static uint64_t seed = 20180701;

static uint64_t draw(uint64_t n) { /* splitmix64 */
  uint64_t z = (seed += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (z ^ (z >> 31)) % n;
}

static const char *const pieces[] = {"{",
                                     "}",
                                     "<",
                                     ">",
                                     "[",
                                     "]",
                                     ",",
                                     ";",
                                     ":",
                                     "\"",
                                     "'",
                                     "\\",
                                     "\\x",
                                     "\\u0",
                                     "#",
                                     "\n",
                                     "-",
                                     "inf",
                                     "nan",
                                     "0x",
                                     "1e999",
                                     "true",
                                     "model",
                                     "ssd",
                                     "key",
                                     "value",
                                     "99999999999999999999",
                                     "\xff",
                                     "\xe2\x80\x9c",
                                     "[0]",
                                     ".",
                                     "="};

/* Flips, cuts, doubles and inserts a few times. */
static size_t mutate(char *text, size_t len, size_t cap) {
  for (uint64_t k = draw(6) + 1; k > 0 && len > 4; k--) {
    size_t at = draw(len), n = draw(20) + 1;
    if (at + n > len) n = len - at;
    switch (draw(5)) {
    case 0: text[at] = (char)draw(256); break;
    case 1: /* cut out */
      memmove(text + at, text + at + n, len - at - n);
      len -= n;
      break;
    case 2: /* double */
      if (len + n > cap) break;
      memmove(text + at + n, text + at, len - at);
      len += n;
      break;
    case 3: len = draw(8) ? len : at; break;
    default: {
      const char *piece = pieces[draw(sizeof pieces / sizeof *pieces)];
      n = strlen(piece);
      if (len + n > cap) break;
      memmove(text + at + n, text + at, len - at);
      memcpy(text + at, piece, n);
      len += n;
    }
    }
  }
  return len;
}

static void mutations_of(const char *path, char kind, int times) {
  enum { MORE = 4096 };
  char *text;
  size_t size;
  CHECK_OK(od_file_read_all(&text, &size, path, 0));
  char *copy = od_alloc(size + 1 + MORE);
  CHECK(copy != NULL);
  for (int i = 0; i < times; i++) {
    copy[0] = kind;
    memcpy(copy + 1, text, size);
    size_t n = mutate(copy + 1, size, size + MORE);
    LLVMFuzzerTestOneInput((const uint8_t *)copy, n + 1);
  }
  od_free(copy);
  od_free(text);
}

static void configs(void **state) {
  (void)state;
  mutations_of("samples/configs/ssd_mobilenet_v1_0.75_depth_300x300_coco14_sync.config", 0, 1500);
  mutations_of("samples/configs/faster_rcnn_resnet101_pets.config", 0, 1500);
}

static void label_maps(void **state) {
  (void)state;
  mutations_of("data/pascal_label_map.pbtxt", 1, 1500);
}

static void small_texts(void **state) {
  (void)state;
  static const char *const start[] = {
      "\2node { name: 'a' op: 'Const' attr { key: 'v' value { tensor { dtype: DT_FLOAT float_val: [1, 2.5, -inf] } } } "
      "} versions { producer: 9 }",
      "\2node { name: 'a' attr { key: 'l' value { list { s: ['\\001', 'x'] i: -5 b: true type: 3 shape { dim { size: "
      "-1 } } } } } }",
      "\3train_config.optimizer.momentum_optimizer.learning_rate.constant_learning_rate.learning_rate=0.1",
      "\3train_config.freeze_variables[1]=[x, \"y\", z]",
      "\3eval_input_reader[0].tf_record_input_reader={ input_path: ['a', 'b'] }",
      "\3model.ssd={ num_classes: 4 loss { classification_weight: 2 } }",
  };
  char text[1024];
  for (size_t k = 0; k < sizeof start / sizeof *start; k++)
    for (int i = 0; i < 3000; i++) {
      size_t n = strlen(start[k]);
      memcpy(text, start[k], n);
      n = 1 + mutate(text + 1, n - 1, sizeof text - 1);
      LLVMFuzzerTestOneInput((const uint8_t *)text, n);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(configs), cmocka_unit_test(label_maps),
                                     cmocka_unit_test(small_texts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
