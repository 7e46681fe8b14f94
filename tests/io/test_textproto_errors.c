/* Mistakes in configs: each gives one message with the place, the line, a caret and the likely cause. The mistakes are
 * those that users of the original asked about most. */
#include "od_test.h"

#include "base/str.h"
#include "io/proto/label_map.pb-c.h"
#include "io/proto/pipeline.pb-c.h"
#include "io/proto/tf_graph.pb-c.h"
#include "io/textproto.h"

#define PIPELINE (&object_detection__protos__train_eval_pipeline_config__descriptor)

/* Reading fails; every one of the texts (up to a NULL) stands in the message. */
static void fails(const ProtobufCMessageDescriptor *type, const char *text, size_t len, ...) {
  void *m = &m;
  size_t before = od_mem_used();
  od_textpos *pos;
  CHECK_OK(od_textpos_new(&pos));
  od_status st = od_textproto_parse(&m, type, "p.config", text, len, pos);
  od_textpos_free(pos);
  if (st != OD_EINVAL) fail_msg("%s: gave %s (%s)", text, od_status_text(st), od_message());
  CHECK(m == NULL);
  CHECK(od_mem_used() == before);
  va_list ap;
  va_start(ap, len);
  for (const char *want; (want = va_arg(ap, const char *));)
    if (!strstr(od_message(), want)) fail_msg("for: %s\n'%s' is not in:\n%s", text, want, od_message());
  va_end(ap);
}
#define FAILS(text, ...) fails(PIPELINE, text, strlen(text), __VA_ARGS__, NULL)

static void place_line_caret(void **state) {
  (void)state;
  FAILS("model {\n  ssd {\n    num_clases: 3\n  }\n}\n",
        "p.config:3:5: Ssd has no field 'num_clases'; did you mean 'num_classes'?", "\n      num_clases: 3\n      ^");
  FAILS("train_config {\n\tbatch_size: many\n}",
        "p.config:2:14: batch_size wants a whole number (0 to 4294967295), here is 'many'",
        "\n   batch_size: many\n               ^");
  FAILS("eval_config { \xc3\xa9: 1 }", "p.config:1:15: the character '\xc3\xa9' means nothing here");
  FAILS("train_config { fine_tune_checkpoint: '\xc3\xa9\xc3\xa9' batch_size: x }",
        "p.config:1:55:"); /* columns count characters */
  od_str s = OD_STR_INIT;  /* a very long line is cut round the place */
  od_str_add(&s, "train_config { fine_tune_checkpoint: '");
  for (int i = 0; i < 300; i++) od_str_add(&s, "0123456789");
  od_str_add(&s, "' batch_size: x }");
  FAILS(od_str_text(&s), "p.config:1:3053:", "...45678", "' batch_size: x }");
  CHECK(strlen(od_message()) < 500);
  od_str_free(&s);
}

static void unknown_names(void **state) {
  (void)state;
  FAILS("batch_size: 24", "has no field 'batch_size': it belongs inside train_config");
  FAILS("model { num_classes: 3 }", "DetectionModel has no field 'num_classes': it belongs inside faster_rcnn or ssd");
  FAILS("train_config { qqqqqqqqqqqqqq: 3 }", "TrainConfig has no field 'qqqqqqqqqqqqqq'\n");
  FAILS("train_config { optimizer { adam_optimiser {} } }", "did you mean 'adam_optimizer'?");
  FAILS("Model {}", "did you mean 'model'?");
  FAILS("model { ssd { feature_extractor { conv_hyperparams { activation: RELU6 } } } }",
        "activation has no value 'RELU6'; did you mean 'RELU_6'?; it is one of NONE, RELU, RELU_6, SWISH");
  FAILS("model { ssd { feature_extractor { conv_hyperparams { activation: 9 } } } }",
        "activation has no value with number 9; it is one of NONE");
  FAILS("train_config { [some.extension] { } }", "extensions ([name]) are not supported");
  FAILS("train_config { 5: 3 }", "expected the name of a field of TrainConfig, here is '5'");
}

static void twice(void **state) {
  (void)state;
  FAILS("train_config {\n  batch_size: 24\n  num_steps: 3\n  batch_size: 8\n}",
        "p.config:4:3:", "batch_size of TrainConfig is set twice: at line 2 and here at line 4");
  FAILS("train_config { batch_size: 24 }\ntrain_config { batch_size: 24 }", "set twice: at line 1 and here at line 2");
  FAILS("train_config {\n data_augmentation_options {\n  random_horizontal_flip {}\n  ssd_random_crop {}\n }\n}",
        "p.config:4:3:",
        "PreprocessingStep holds only one of these: 'random_horizontal_flip' at line 3 and 'ssd_random_crop' here at "
        "line 4",
        "write a second data_augmentation_options { ... } for it");
  FAILS("train_config { data_augmentation_options {\n random_rgb_to_gray {}\n random_rgb_to_gray {}\n} }",
        "'random_rgb_to_gray' at line 2 and 'random_rgb_to_gray' here at line 3");
  FAILS("model { ssd { image_resizer {\n fixed_shape_resizer {}\n keep_aspect_ratio_resizer {} } } }",
        "ImageResizer holds only one of these: 'fixed_shape_resizer' at line 2 and 'keep_aspect_ratio_resizer' here at "
        "line 3");
  FAILS("model { ssd {} }\nmodel { faster_rcnn {} }", "'ssd' at line 1 and 'faster_rcnn' here at line 2");
  FAILS("train_config { sync_replicas: false\n sync_replicas: false }", "set twice: at line 1 and here at line 2");
  FAILS("eval_config { super_categories { key: 'a' }\n super_categories { key: 'a' } }",
        "the same key stands twice in the map super_categories");
  fails(&tensorflow__node_def__descriptor, "name: ''\nname: ''", 17, "set twice: at line 1 and here at line 2", NULL);
  fails(&tensorflow__attr_value__descriptor, "i: 0\nf: 0", 9,
        "AttrValue holds only one of these: 'i' at line 1 and 'f' here at line 2", NULL);
}

static void braces(void **state) {
  (void)state;
  FAILS("model {\n  ssd {\n    num_classes: 3\n}\n",
        "p.config:1:1: the block 'model' opened here is never closed: the text ends at line 5",
        "likely cause: by the indentation the } of 'ssd' (line 2) is missing");
  FAILS("model {\n  ssd {\n    num_classes: 3\n}\ntrain_config {\n  batch_size: 3\n}\n",
        "p.config:5:1: DetectionModel has no field 'train_config'", "TrainEvalPipelineConfig, which encloses it, has",
        "by the indentation the } of 'ssd' (line 2) is missing");
  FAILS("model { ssd { box_coder { } num_classes: 3\ntrain_config { } }", "Ssd has no field 'train_config'",
        "'ssd', opened at line 1, is still open");
  FAILS("model { ssd { } } }", "p.config:1:19: a } without a block to close");
  FAILS("model { ssd < } }", "'ssd' (line 1) is closed with >, here is }");
  FAILS("train_config { freeze_variables: ['a', 'b' }",
        "the list freeze_variables (line 1) goes on with , or ends with ], here is '}'");
  FAILS("train_config { freeze_variables: ['a',", "p.config:1:34: the list opened here is never closed");
  FAILS("train_config", "train_config is a block: expected { after it, here is the end of the text");
  FAILS("train_config { batch_size:", "the text ends before the value of batch_size");
  FAILS("train_config { batch_size { 24 } }", "batch_size is a single value, not a block");
  FAILS("train_config { batch_size: [24] }", "batch_size holds one value, not a list");
  FAILS("train_config: 24", "train_config is a block: expected { after it, here is '24'");
}

static void punctuation(void **state) {
  (void)state;
  FAILS("train_config { batch_size = 24 }", "write : instead of = after batch_size");
  FAILS("train_config { batch_size 24 }", "expected : after batch_size, here is '24'");
  FAILS("train_config { fine_tune_checkpoint: \"x }", "a text without its closing \" on the same line",
        "p.config:1:38");
  FAILS("train_config { fine_tune_checkpoint: \"x\\\" }", "a backslash before the closing quote");
  FAILS("train_config { fine_tune_checkpoint: model.ckpt }",
        "fine_tune_checkpoint wants a text in quotes, here is 'model'", "likely cause: a text stands in quotes");
  FAILS("train_config { fine_tune_checkpoint: /data/model.ckpt }", "a text stands in quotes");
  FAILS("train_config { batch_size: \"24\" }", "a number stands without quotes");
  FAILS("// comment\ntrain_config {}", "p.config:1:1:", "a comment begins with #");
  FAILS("train_config { sync_replicas: TRUE }", "sync_replicas wants true or false, here is 'TRUE'");
  FAILS("{ \"model\": { } }", "this looks like JSON");
  FAILS("\"model\" { }", "expected the name of a field, here is a text in quotes");
}

static void pasted(void **state) {
  (void)state;
  FAILS("https://github.com/tensorflow/models\nmodel {}", "has no field 'https'", "an address was pasted here");
  FAILS("model {}\n<!DOCTYPE html>", "p.config:2:1");
  FAILS("\n<!DOCTYPE html>\n<html>", "this is a web page, not a config");
  FAILS("<html><body>", "this is a web page");
  FAILS("train_config {}\n<<<<<<< HEAD\neval_config {}", "p.config:2:1:", "a merge conflict");
  FAILS("train_config { fine_tune_checkpoint: \xe2\x80\x9cx\xe2\x80\x9d }", "p.config:1:38: a typographic quote",
        "word processor");
  FAILS("train_config\xc2\xa0{ }", "a no-break space", "web page");
  FAILS("\xef\xbb\xbfmodel {}", "p.config:1:1: the file begins with a byte order mark");
  FAILS("model {}\n\xef\xbb\xbf", "a byte order mark");
  fails(PIPELINE, "\xff\xfem\0o\0", 6, "UTF-16", NULL);
  fails(PIPELINE, "model {}\0", 9, "a control character (code 0)", "not a text file", NULL);
  FAILS("train_config { fine_tune_checkpoint: 'caf\xe9' }", "fine_tune_checkpoint is not valid UTF-8", "Latin-1");
  FAILS("train_config { batch_size: \xe2\x88\x92"
        "5 }",
        "a typographic minus");
}

static void windows_paths(void **state) {
  (void)state;
  FAILS("train_config { fine_tune_checkpoint: C:\\data\\model.ckpt }", "here is 'C'",
        "a Windows path: put it in quotes");
  FAILS("train_config { fine_tune_checkpoint: \"C:\\data\\model.ckpt\" }",
        "p.config:1:41: a backslash begins an escape", "Windows path: write /");
  FAILS("train_config { fine_tune_checkpoint: \"C:\\train\\new\" }", "Windows path");
  FAILS("train_config { fine_tune_checkpoint: \"data\\train\" }", "'\\t' stands for a control character",
        "Windows path");
  FAILS("train_input_reader { tf_record_input_reader { input_path: \"\"D:\\x\" } }",
        "TFRecordInputReader has no field 'D'", "Windows path");
  void *m; /* doubled backslashes and plain slashes are fine */
  const char *good =
      "train_config { fine_tune_checkpoint: \"C:\\\\data\\\\new\" } eval_config { export_path: 'C:/data/new' }";
  CHECK_OK(od_textproto_parse(&m, PIPELINE, "p", good, strlen(good), NULL));
  CHECK_TEXT(((ObjectDetection__Protos__TrainEvalPipelineConfig *)m)->train_config->fine_tune_checkpoint,
             "C:\\data\\new");
  od_proto_free(m);
}

static void ranges(void **state) {
  (void)state;
  FAILS("train_config { batch_size: -1 }", "batch_size is -1, which is not within 0 to 4294967295");
  FAILS("train_config { batch_size: 4294967296 }", "not within 0 to 4294967295");
  FAILS("train_config { replicas_to_aggregate: 2147483648 }", "not within -2147483648 to 2147483647");
  FAILS("train_config { replicas_to_aggregate: -2147483649 }", "not within");
  FAILS("train_config { batch_size: 99999999999999999999999999 }", "not within");
  FAILS("train_config { batch_size: 24.0 }", "batch_size is a whole number (0 to 4294967295), here is '24.0'");
  FAILS("train_config { batch_size: 0x }", "wants a whole number");
  FAILS("train_config { batch_size: 12abc }", "wants a whole number");
  FAILS("train_config { gradient_clipping_by_norm: 1e39 }", "larger than a float holds");
  FAILS("train_config { gradient_clipping_by_norm: 1,5 }", "expected the name of a field of TrainConfig, here is '5'");
  FAILS("train_config { gradient_clipping_by_norm: 1.2.3 }",
        "gradient_clipping_by_norm wants a number, here is '1.2.3'");
  FAILS("train_config { gradient_clipping_by_norm: 0x10 }", "is a decimal number");
  FAILS("train_config { gradient_clipping_by_norm: - }", "wants a number");
  FAILS("eval_input_reader { name: '\\0' }", "a zero byte");
  FAILS("train_config { fine_tune_checkpoint: '\\q' }", "a backslash begins an escape, and '\\q' is none");
  FAILS("train_config { fine_tune_checkpoint: '\\ud800' }", "a backslash begins an escape");
  FAILS("train_config { fine_tune_checkpoint: '\\400' }", "a backslash begins an escape");
}

static void depth(void **state) {
  (void)state;
  od_str s = OD_STR_INIT;
  for (int i = 0; i < 5000; i++) od_str_add(&s, "func { attr { key: 'k' value { ");
  fails(&tensorflow__attr_value__descriptor, od_str_text(&s), s.len, "more than 100 blocks", NULL);
  od_str_free(&s);
}

/* Cut at every byte, a real config is refused or (between two blocks) read; never worse. */
static void cut_anywhere(void **state) {
  (void)state;
  void *m;
  CHECK_OK(od_textproto_load(&m, PIPELINE, "samples/configs/ssd_mobilenet_v1_focal_loss_pets.config", NULL));
  od_str s = OD_STR_INIT;
  CHECK_OK(od_textproto_print(&s, m));
  od_proto_free(m);
  size_t before = od_mem_used(), good = 0;
  for (size_t n = 0; n < s.len; n++) {
    od_status st = od_textproto_parse(&m, PIPELINE, "cut", s.data, n, NULL);
    CHECK(st == OD_OK || st == OD_EINVAL);
    if (st == OD_OK) {
      od_proto_free(m);
      good++;
    } else {
      CHECK(strncmp(od_message(), "cut:", 4) == 0);
    }
    CHECK(od_mem_used() == before);
  }
  CHECK(good > 4 && good < 20); /* after each of five blocks, with and without the end of the line */
  od_str_free(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(place_line_caret), cmocka_unit_test(unknown_names), cmocka_unit_test(twice),
      cmocka_unit_test(braces),           cmocka_unit_test(punctuation),   cmocka_unit_test(pasted),
      cmocka_unit_test(windows_paths),    cmocka_unit_test(ranges),        cmocka_unit_test(depth),
      cmocka_unit_test(cut_anywhere),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
