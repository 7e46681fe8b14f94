/* --set path=value: what it sets, makes, replaces and refuses. */
#include "od_test.h"

#include "base/str.h"
#include "io/proto/pipeline.pb-c.h"
#include "io/textproto.h"

typedef ObjectDetection__Protos__TrainEvalPipelineConfig pipeline;
#define PIPELINE (&object_detection__protos__train_eval_pipeline_config__descriptor)

static pipeline *start(const char *text) {
  pipeline *p;
  CHECK_OK(od_textproto_parse(&p, PIPELINE, "p.config", text, strlen(text), NULL));
  return p;
}

static void prints(const void *m, const char *want) {
  od_str s = OD_STR_INIT;
  CHECK_OK(od_textproto_print(&s, m));
  CHECK_TEXT(od_str_text(&s), want);
  od_str_free(&s);
}

/* `text`, with path set to value, prints as want. */
static void sets(const char *text, const char *path, const char *value, const char *want) {
  size_t before = od_mem_used();
  pipeline *p = start(text);
  CHECK_OK(od_textproto_set(p, path, value, NULL));
  prints(p, want);
  od_proto_free(p);
  CHECK(od_mem_used() == before);
}

/* It is refused with these words, and nothing has changed. */
static void refuses(const char *text, const char *path, const char *value, const char *words) {
  size_t before = od_mem_used();
  pipeline *p = start(text);
  od_str s = OD_STR_INIT;
  CHECK_OK(od_textproto_print(&s, p));
  CHECK_FAILS(od_textproto_set(p, path, value, NULL), OD_EINVAL, words);
  prints(p, od_str_text(&s));
  od_str_free(&s);
  od_proto_free(p);
  CHECK(od_mem_used() == before);
}

static void scalars(void **state) {
  (void)state;
  sets("", "train_config.batch_size", "8", "train_config {\n  batch_size: 8\n}\n");
  sets("train_config { batch_size: 24 num_steps: 3 }", "train_config.batch_size", " 0x10 ",
       "train_config {\n  batch_size: 16\n  num_steps: 3\n}\n");
  sets("", "train_config.sync_replicas", "true", "train_config {\n  sync_replicas: true\n}\n");
  sets("", "train_config.fine_tune_checkpoint_version", "V2",
       "train_config {\n  fine_tune_checkpoint_version: V2\n}\n");
  sets("", "train_config.gradient_clipping_by_norm", ".5", "train_config {\n  gradient_clipping_by_norm: 0.5\n}\n");
}

static void texts(void **state) {
  (void)state;
  sets("train_config { fine_tune_checkpoint: 'old' }", "train_config.fine_tune_checkpoint", "/data/my model.ckpt",
       "train_config {\n  fine_tune_checkpoint: \"/data/my model.ckpt\"\n}\n");
  sets("", "train_config.fine_tune_checkpoint", "\"a\\\"b\"",
       "train_config {\n  fine_tune_checkpoint: \"a\\\"b\"\n}\n");
  sets("", "train_config.fine_tune_checkpoint", "C:\\data\\new",
       "train_config {\n  fine_tune_checkpoint: \"C:\\\\data\\\\new\"\n}\n");
  sets("train_config { fine_tune_checkpoint: 'old' }", "train_config.fine_tune_checkpoint", "",
       "train_config {\n  fine_tune_checkpoint: \"\"\n}\n");
}

static void lists(void **state) {
  (void)state;
  const char *two = "train_config { freeze_variables: 'a' freeze_variables: 'b' }";
  sets(two, "train_config.freeze_variables", "c", "train_config {\n  freeze_variables: \"c\"\n}\n");
  sets(two, "train_config.freeze_variables", "[c.*, \"d, e\" , f]",
       "train_config {\n  freeze_variables: \"c.*\"\n  freeze_variables: \"d, e\"\n  freeze_variables: \"f\"\n}\n");
  sets(two, "train_config.freeze_variables", "[]", "train_config {\n}\n");
  sets(two, "train_config.freeze_variables[1]", "c",
       "train_config {\n  freeze_variables: \"a\"\n  freeze_variables: \"c\"\n}\n");
  sets(two, "train_config.freeze_variables[2]", "c",
       "train_config {\n  freeze_variables: \"a\"\n  freeze_variables: \"b\"\n  freeze_variables: \"c\"\n}\n");
  sets("", "train_input_reader.tf_record_input_reader.input_path[0]", "/x.record",
       "train_input_reader {\n  tf_record_input_reader {\n    input_path: \"/x.record\"\n  }\n}\n");
  sets("", "train_input_reader.sample_from_datasets_weights", "[1, .5]",
       "train_input_reader {\n  sample_from_datasets_weights: 1.0\n  sample_from_datasets_weights: 0.5\n}\n");
  sets("train_input_reader { sample_from_datasets_weights: 3 }", "train_input_reader.sample_from_datasets_weights[0]",
       "2", "train_input_reader {\n  sample_from_datasets_weights: 2.0\n}\n");
}

static void messages(void **state) {
  (void)state;
  sets("model { ssd { loss { classification_weight: 3 hard_example_miner {} } } }", "model.ssd.loss",
       "{ localization_weight: 2 }", "model {\n  ssd {\n    loss {\n      localization_weight: 2.0\n    }\n  }\n}\n");
  sets("", "train_config.optimizer.momentum_optimizer.learning_rate.constant_learning_rate.learning_rate", "0.1",
       "train_config {\n  optimizer {\n    momentum_optimizer {\n      learning_rate {\n        constant_learning_rate "
       "{\n"
       "          learning_rate: 0.1\n        }\n      }\n    }\n  }\n}\n");
  sets("train_config { optimizer { rms_prop_optimizer { decay: 0.5 } use_moving_average: false } }",
       "train_config.optimizer.momentum_optimizer.momentum_optimizer_value", "0.25",
       "train_config {\n  optimizer {\n    momentum_optimizer {\n      momentum_optimizer_value: 0.25\n    }\n    "
       "use_moving_average: false\n  }\n}\n");
  sets("model { faster_rcnn { num_classes: 3 } }", "model.ssd", "<num_classes: 4>",
       "model {\n  ssd {\n    num_classes: 4\n  }\n}\n");
  sets("train_config { data_augmentation_options { ssd_random_crop {} } }", "train_config.data_augmentation_options[1]",
       "{ random_horizontal_flip {} }",
       "train_config {\n  data_augmentation_options {\n    ssd_random_crop {\n    }\n  }\n  data_augmentation_options "
       "{\n"
       "    random_horizontal_flip {\n    }\n  }\n}\n");
  sets("train_config { data_augmentation_options { ssd_random_crop {} } }", "train_config.data_augmentation_options[0]",
       "{ random_horizontal_flip {} }",
       "train_config {\n  data_augmentation_options {\n    random_horizontal_flip {\n    }\n  }\n}\n");
  sets("train_config { data_augmentation_options { ssd_random_crop {} } }", "train_config.data_augmentation_options",
       "[]", "train_config {\n}\n");
  sets("eval_input_reader { name: 'a' }", "eval_input_reader.shuffle", "false",
       "eval_input_reader {\n  shuffle: false\n  name: \"a\"\n}\n");
}

static void refusals(void **state) {
  (void)state;
  const char *text = "train_config { batch_size: 24 optimizer { adam_optimizer {} } } eval_input_reader { name: 'a' } "
                     "eval_input_reader { name: 'b' }";
  refuses(text, "train_config.batch_sizes", "8",
          "--set train_config.batch_sizes: TrainConfig has no field 'batch_sizes'; did you mean 'batch_size'?");
  refuses(text, "zzzzzzzzzz.batch_size", "8", "it has model, train_config, train_input_reader");
  refuses(text, "train_config.batch_size.x", "8", "batch_size is a single value and has no fields");
  refuses(text, "train_config.batch_size[0]", "8", "batch_size is not a list, leave the index out");
  refuses(text, "train_config.batch_size", "many",
          "--set train_config.batch_size:1:1: batch_size wants a whole number (0 to 4294967295), here is 'many'\n  "
          "many\n  ^");
  refuses(text, "train_config.batch_size", "8 9", "batch_size goes on after its value: '9'");
  refuses(text, "train_config.batch_size", "", "--set train_config.batch_size: a value is missing");
  refuses(text, "train_config.optimizer.rms_prop_optimizer.decay", "x", "decay wants a number");
  refuses(text, "train_config.optimizer", "x", "optimizer is a block: expected {");
  refuses(text, "train_config.optimizer", "{ adam_optimizer {}", "is never closed");
  refuses(text, "eval_input_reader.shuffle", "true",
          "eval_input_reader has 2 elements; say which: eval_input_reader[0] to eval_input_reader[1]");
  refuses(text, "eval_input_reader[3].shuffle", "true", "[3] is beyond the one that could be appended");
  refuses(text, "eval_input_reader[x].shuffle", "true", "an index is a number in brackets");
  refuses(text, "eval_input_reader[0]shuffle", "true", "expected a point before 'shuffle'");
  refuses(text, "train_config..batch_size", "8", "expected the name of a field at '.batch_size'");
  refuses(text, "train_config.", "8", "the path ends in a point");
  refuses(text, "", "8", "a path is missing");
  refuses(text, "train_config.data_augmentation_options[0]", "7", "data_augmentation_options is a block");
  refuses(text, "train_config.freeze_variables", "['a' 'b", "without its closing");
  refuses(text, "train_input_reader.sample_from_datasets_weights[0]", "[1, 2]",
          "one element is wanted, not a list of 2");
}

static void places(void **state) {
  (void)state;
  const char *text = "train_config {\n  batch_size: 24\n  freeze_variables: 'a'\n}\n";
  od_textpos *pos;
  pipeline *p;
  od_textplace at;
  CHECK_OK(od_textpos_new(&pos));
  CHECK_OK(od_textproto_parse(&p, PIPELINE, "p.config", text, strlen(text), pos));
  CHECK(od_textpos_find_name(pos, p->train_config, "batch_size", 0, &at) && at.line == 2);
  CHECK_OK(od_textproto_set(p, "train_config.batch_size", "8", pos));
  CHECK(od_textpos_find_name(pos, p->train_config, "batch_size", 0, &at) && at.line == 0);
  CHECK_TEXT(at.name, "--set train_config.batch_size");
  CHECK(od_textpos_find_name(pos, p->train_config, "freeze_variables", 0, &at) && at.line == 3);
  CHECK_OK(od_textproto_set(p, "train_config", "{ num_steps: 3 }", pos));
  CHECK(od_textpos_find_name(pos, p, "train_config", 0, &at) && at.line == 0);
  CHECK(od_textpos_find_name(pos, p->train_config, "num_steps", 0, &at) && at.line == 1);
  CHECK(!od_textpos_find_name(pos, p->train_config, "batch_size", 0, &at));
  od_proto_free(p);
  od_textpos_free(pos);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(scalars),  cmocka_unit_test(texts),    cmocka_unit_test(lists),
      cmocka_unit_test(messages), cmocka_unit_test(refusals), cmocka_unit_test(places),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
