/* The table of fields: complete, nothing invented, docs/config-fields.md made of it; refusals with their lines. */
#include "od_test.h"

#include "io/file.h"
#include "model/fields.h"

static const ProtobufCMessageDescriptor **types;
static size_t n_types;

static const ProtobufCMessageDescriptor *type_named(const char *name, size_t len) {
  for (size_t i = 0; i < n_types; i++) {
    const char *t = od_field_type_name(types[i]);
    if (strlen(t) == len && strncmp(t, name, len) == 0) return types[i];
  }
  return NULL;
}

static void every_field_has_a_rule(void **state) {
  (void)state;
  size_t fields = 0;
  CHECK(n_types > 100);
  for (size_t i = 0; i < n_types; i++)
    for (unsigned k = 0; k < types[i]->n_fields; k++, fields++)
      if (!od_field_rule_of(types[i], &types[i]->fields[k]))
        fail_msg("%s.%s is not in the table (src/model/fields_list.c)", od_field_type_name(types[i]),
                 types[i]->fields[k].name);
  CHECK(fields > 600);
}

static void every_rule_has_a_field(void **state) {
  (void)state;
  size_t n;
  const od_field_rule *rules = od_field_rules(&n);
  for (size_t i = 0; i < n; i++) {
    const char *dot = strrchr(rules[i].name, '.');
    CHECK(dot != NULL);
    const ProtobufCMessageDescriptor *type = type_named(rules[i].name, (size_t)(dot - rules[i].name));
    bool all = strcmp(dot, ".*") == 0;
    if (!type) fail_msg("%s: the schema has no such message", rules[i].name);
    if (all && rules[i].state == OD_FIELD_USED) fail_msg("%s: used fields stand for themselves", rules[i].name);
    if (!all && !od_proto_field(type, dot + 1, strlen(dot + 1)))
      fail_msg("%s: the schema has no such field", rules[i].name);
    if (rules[i].state == OD_FIELD_IRRELEVANT && !*rules[i].text) fail_msg("%s: why has it no effect?", rules[i].name);
    CHECK(rules[i].by != 0);
    for (size_t k = 0; k < i; k++)
      if (strcmp(rules[k].name, rules[i].name) == 0) fail_msg("%s is listed twice", rules[i].name);
  }
}

static void the_page_is_fresh(void **state) {
  (void)state;
  od_str page = OD_STR_INIT;
  char *file;
  size_t size;
  CHECK_OK(od_fields_document(&page));
  CHECK_OK(od_file_read_all(&file, &size, "docs/config-fields.md", 0));
  if (size != page.len || memcmp(file, page.data, size) != 0)
    fail_msg("docs/config-fields.md is stale: build/objdet config --fields > docs/config-fields.md");
  od_free(file);
  od_str_free(&page);
}

/* -------------------------------------------------------------------------------------------------------- refusals */
typedef struct {
  int lines;
  char text[4096];
} heard;

static void hear(void *ctx, od_level level, const char *text) {
  heard *h = ctx;
  (void)level;
  h->lines++;
  snprintf(h->text, sizeof h->text, "%s", text);
}

static od_pipeline parse(const char *text, const char *set) {
  od_pipeline p = {0};
  CHECK_OK(od_textpos_new(&p.pos));
  CHECK_OK(od_textproto_parse(&p.config, &object_detection__protos__train_eval_pipeline_config__descriptor, "my.config",
                              text, strlen(text), p.pos));
  if (set) CHECK_OK(od_pipeline_set(&p, set));
  return p;
}

static void refused(unsigned purposes, const char *text, const char *set, const char *message) {
  od_pipeline p = parse(text, set);
  CHECK_FAILS(od_fields_check(&p, purposes, NULL), OD_EUNSUPPORTED, message);
  od_pipeline_free(&p);
}

static void taken(unsigned purposes, const char *text, const char *named) {
  heard h = {0};
  const od_reporter r = {.line = hear, .ctx = &h};
  od_pipeline p = parse(text, NULL);
  CHECK_OK(od_fields_check(&p, purposes, &r));
  CHECK(h.lines == (named ? 1 : 0));
  if (named && !strstr(h.text, named)) fail_msg("'%s' is not in: %s", named, h.text);
  od_pipeline_free(&p);
}

static void what_is_not_there_is_refused_with_its_place(void **state) {
  (void)state;
  refused(OD_FOR_ALL, "model {\n  center_net {}\n}", NULL, "my.config:2:3: model.center_net is not supported yet");
  refused(OD_FOR_TRAIN,
          "train_config {\n  data_augmentation_options { random_horizontal_flip {} }\n  data_augmentation_options { "
          "rgb_to_gray {} }\n}",
          NULL, "my.config:3:31: train_config.data_augmentation_options[1].rgb_to_gray is not supported yet");
  refused(OD_FOR_DETECT, "model { ssd { mask_head_config { mask_height: 3 } } }", NULL,
          "my.config:1:15: model.ssd.mask_head_config is not supported yet: masks");
  refused(OD_FOR_EVAL, "eval_config {\n\n eval_instance_masks: true }", NULL,
          "my.config:3:2: eval_config.eval_instance_masks");
  refused(OD_FOR_EVAL, "eval_config { parameterized_metric {} }", NULL, "eval_config.parameterized_metric[0]");
  refused(OD_FOR_TRAIN, "train_input_reader { num_additional_channels: 1 }", NULL, "num_additional_channels");
  refused(OD_FOR_MODEL_MAIN, "graph_rewriter { quantization { delay: 1 } }", NULL,
          "graph_rewriter is not supported yet: quantisation");
  refused(OD_FOR_TRAIN, "model { ssd { num_classes: 3 } }", "model.ssd.loss.expected_loss_weights=EXPECTED_SAMPLING",
          "--set: model.ssd.loss.expected_loss_weights");
}

static void defaults_and_sections_of_others_are_not_refused(void **state) {
  (void)state;
  taken(OD_FOR_TRAIN, "model { ssd { use_confidences_as_targets: false } }", NULL);
  taken(OD_FOR_TRAIN, "eval_config { eval_instance_masks: true }", NULL);
  taken(OD_FOR_EVAL, "train_config { data_augmentation_options { rgb_to_gray {} } }", NULL);
  taken(OD_FOR_DETECT | OD_FOR_EXPORT,
        "model { ssd { loss { random_example_sampler {} } } } eval_config { export_path: 'x' num_examples: 3 } "
        "train_input_reader { queue_capacity: 1 }",
        NULL);
}

static void fields_without_effect_are_named_once(void **state) {
  (void)state;
  taken(OD_FOR_TRAIN,
        "train_input_reader { shuffle_buffer_size: 7 num_readers: 1 } train_config { prefetch_queue_capacity: 5 "
        "batch_queue_capacity: 1 }",
        "train_config.batch_queue_capacity, train_input_reader.num_readers, train_input_reader.shuffle_buffer_size");
  /* used by one program and not by the other */
  taken(OD_FOR_TRAIN, "train_config { update_trainable_variables: 'x' }", "train_config.update_trainable_variables[0]");
  taken(OD_FOR_MODEL_MAIN, "train_config { update_trainable_variables: 'x' }", NULL);
  taken(OD_FOR_MODEL_MAIN, "eval_config { eval_interval_secs: 3 max_evals: 1 }",
        "eval_config.eval_interval_secs, eval_config.max_evals");
  taken(OD_FOR_EVAL, "eval_config { eval_interval_secs: 3 max_evals: 1 }", NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_field_has_a_rule),
      cmocka_unit_test(every_rule_has_a_field),
      cmocka_unit_test(the_page_is_fresh),
      cmocka_unit_test(what_is_not_there_is_refused_with_its_place),
      cmocka_unit_test(defaults_and_sections_of_others_are_not_refused),
      cmocka_unit_test(fields_without_effect_are_named_once),
  };
  if (od_field_types(&types, &n_types) != OD_OK) return 1;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  od_free(types);
  return failed;
}
