/* The text format: reading, printing, places. Setting by path and errors have programs of their own. */
#include "od_test.h"

#include <glob.h>
#include <math.h>

#include "base/str.h"
#include "io/file.h"
#include "io/proto/label_map.pb-c.h"
#include "io/proto/pipeline.pb-c.h"
#include "io/proto/tf_checkpoint.pb-c.h"
#include "io/proto/tf_example.pb-c.h"
#include "io/proto/tf_graph.pb-c.h"
#include "io/textproto.h"

typedef ObjectDetection__Protos__TrainEvalPipelineConfig pipeline;
#define PIPELINE (&object_detection__protos__train_eval_pipeline_config__descriptor)

static void *parse(const ProtobufCMessageDescriptor *type, const char *text) {
  void *m;
  CHECK_OK(od_textproto_parse(&m, type, "test", text, strlen(text), NULL));
  CHECK(m != NULL);
  return m;
}

static char *printed(const void *m) {
  od_str s = OD_STR_INIT;
  CHECK_OK(od_textproto_print(&s, m));
  return od_str_take(&s);
}

/* The text reads as a message that prints as `want`. */
static void same_text(const ProtobufCMessageDescriptor *type, const char *text, const char *want) {
  void *m = parse(type, text);
  char *got = printed(m);
  CHECK_TEXT(got, want);
  od_free(got);
  od_proto_free(m);
}

static void grammar(void **state) {
  (void)state;
  const char *want = "train_config {\n  batch_size: 24\n  freeze_variables: \"a\"\n  freeze_variables: \"b\"\n}\n";
  same_text(PIPELINE, want, want);
  same_text(PIPELINE, "train_config: { batch_size: 24, freeze_variables: 'a'; freeze_variables: \"b\" }", want);
  same_text(PIPELINE, "train_config < batch_size:24 freeze_variables:['a',\"b\"] >", want);
  same_text(PIPELINE,
            "# c\ntrain_config:<batch_size # x\n:\n0x18 freeze_variables: [\"a\"] freeze_variables: 'b' "
            "freeze_variables: []>;",
            want);
  same_text(PIPELINE, "train_config { batch_size: 030 freeze_variables: [ 'a' , 'b' ] }", want);
  same_text(PIPELINE, "train_config { batch_size: 24 } train_config { freeze_variables: 'a' 'b' }",
            "train_config {\n  batch_size: 24\n  freeze_variables: \"ab\"\n}\n");
  same_text(PIPELINE, "eval_input_reader [{ name: 'x' }, < name: 'y' >]",
            "eval_input_reader {\n  name: \"x\"\n}\neval_input_reader {\n  name: \"y\"\n}\n");
  same_text(PIPELINE, "", "");
  same_text(PIPELINE, " \t\r\n# nothing", "");
  same_text(PIPELINE, "model { ssd { similarity_calculator { iou_similarity {} } } }",
            "model {\n  ssd {\n    similarity_calculator {\n      iou_similarity {\n      }\n    }\n  }\n}\n");
  same_text(PIPELINE, "eval_config{super_categories{key:'b' value:'2'}super_categories:{value:\"1\",key:\"a\"}}",
            "eval_config {\n  super_categories {\n    key: \"a\"\n    value: \"1\"\n  }\n  super_categories {\n    "
            "key: \"b\"\n    "
            "value: \"2\"\n  }\n}\n");
}

static void presence(void **state) {
  (void)state;
  pipeline *p = parse(PIPELINE, "train_config { batch_size: 32 fine_tune_checkpoint: '' sync_replicas: f }");
  CHECK(p->train_config->has_batch_size && p->train_config->batch_size == 32);
  CHECK(p->train_config->has_sync_replicas && !p->train_config->sync_replicas);
  CHECK(!p->train_config->has_num_steps && p->train_config->num_steps == 0);
  CHECK(p->train_config->add_regularization_loss); /* its default */
  CHECK(!p->model && !p->eval_config && p->n_eval_input_reader == 0);
  const ProtobufCFieldDescriptor *f = od_proto_field(p->train_config->base.descriptor, "fine_tune_checkpoint", 20);
  CHECK(f && od_proto_has(p->train_config, f)); /* "" was written: set, unlike the default "" */
  f = od_proto_field(p->train_config->base.descriptor, "fine_tune_checkpoint_type", 25);
  CHECK(f && !od_proto_has(p->train_config, f));
  od_proto_free(p);
}

static void truth(void **state) {
  (void)state;
  static const char *const yes[] = {"true", "True", "t", "1"}, *const no[] = {"false", "False", "f", "0"};
  for (int i = 0; i < 4; i++) {
    char text[100];
    snprintf(text, sizeof text, "train_config { sync_replicas: %s }", yes[i]);
    same_text(PIPELINE, text, "train_config {\n  sync_replicas: true\n}\n");
    snprintf(text, sizeof text, "train_config { sync_replicas: %s }", no[i]);
    same_text(PIPELINE, text, "train_config {\n  sync_replicas: false\n}\n");
  }
}

static float one_float(const char *text) {
  char all[200];
  snprintf(all, sizeof all, "train_config { gradient_clipping_by_norm: %s }", text);
  pipeline *p = parse(PIPELINE, all);
  float v = p->train_config->gradient_clipping_by_norm;
  od_proto_free(p);
  return v;
}

static void floats(void **state) {
  (void)state;
  CHECK(one_float(".0003") == 0.0003f && one_float("1.") == 1.0f && one_float("1e-5f") == 1e-5f &&
        one_float("10f") == 10.0f);
  CHECK(one_float("-2.5E+3") == -2500.0f && one_float("- 3") == -3.0f && one_float("+4") == 4.0f &&
        one_float("7") == 7.0f);
  CHECK(one_float("inf") == INFINITY && one_float("-inf") == -INFINITY && one_float("Infinity") == INFINITY);
  CHECK(isnan(one_float("nan")) && isnan(one_float("NaN")));
  CHECK(one_float("3.4028234663852886e38") == 3.4028234663852886e38f && one_float("1e-45") == 1.401298464e-45f);
  CHECK(one_float("0.1000000014901161193847656250") == 0.1f);
}

/* As Python's str(ToShortestFloat(v)) and str(v). */
static void shortest(void **state) {
  (void)state;
  static const struct {
    float v;
    const char *text;
  } f[] = {{0.1f, "0.1"},
           {1e-8f, "1e-08"},
           {4e-5f, "4e-05"},
           {0.0001f, "0.0001"},
           {1.0f, "1.0"},
           {24.0f, "24.0"},
           {0.9997f, "0.9997"},
           {1e16f, "1e+16"},
           {123456789.0f, "123456790.0"},
           {3.4028234663852886e38f, "3.4028235e+38"},
           {1.401298464e-45f, "1.4013e-45"},
           {16777216.0f, "16777216.0"},
           {0.33333334f, "0.33333334"},
           {-0.0f, "-0.0"},
           {0.012345678f, "0.012345678"},
           {1e15f, "1000000000000000.0"},
           {INFINITY, "inf"},
           {-INFINITY, "-inf"},
           {NAN, "nan"}};
  for (size_t i = 0; i < sizeof f / sizeof *f; i++) {
    char want[100];
    ObjectDetection__Protos__L2Regularizer m = OBJECT_DETECTION__PROTOS__L2_REGULARIZER__INIT;
    m.has_weight = 1;
    m.weight = f[i].v;
    char *got = printed(&m);
    snprintf(want, sizeof want, "weight: %s\n", f[i].text);
    CHECK_TEXT(got, want);
    od_free(got);
  }
  Tensorflow__CheckpointState c = TENSORFLOW__CHECKPOINT_STATE__INIT;
  static const struct {
    double v;
    const char *text;
  } d[] = {{1582222222.1234567, "1582222222.1234567"},
           {0.1, "0.1"},
           {1e22, "1e+22"},
           {5e-324, "5e-324"},
           {123456.0, "123456.0"}};
  for (size_t i = 0; i < sizeof d / sizeof *d; i++) {
    char want[100];
    c.last_preserved_timestamp = d[i].v;
    char *got = printed(&c);
    snprintf(want, sizeof want, "last_preserved_timestamp: %s\n", d[i].text);
    CHECK_TEXT(got, want);
    od_free(got);
  }
}

static void integers(void **state) {
  (void)state;
  same_text(&tensorflow__int64_list__descriptor,
            "value: [-9223372036854775808, 9223372036854775807, 0xff, -0x10, 017, 0]",
            "value: -9223372036854775808\nvalue: 9223372036854775807\nvalue: 255\nvalue: -16\nvalue: 15\nvalue: 0\n");
  same_text(&object_detection__protos__train_config__descriptor,
            "batch_size: 4294967295 replicas_to_aggregate: -2147483648",
            "batch_size: 4294967295\nreplicas_to_aggregate: -2147483648\n");
}

static void enums(void **state) {
  (void)state;
  same_text(&object_detection__protos__hyperparams__descriptor, "activation: RELU_6 op: 2",
            "op: FC\nactivation: RELU_6\n");
  same_text(&tensorflow__attr_value__descriptor, "type: DT_FLOAT", "type: DT_FLOAT\n");
  same_text(&tensorflow__tensor_proto__descriptor, "dtype: 77", "dtype: 77\n"); /* proto3 keeps what it does not know */
}

static void strings(void **state) {
  (void)state;
  void *m = parse(&tensorflow__bytes_list__descriptor,
                  "value: '\\n\\r\\t\\a\\b\\f\\v\\\\\\'\\\"\\?' value: \"\\0\\1\\377\\x41\\xf\\101\" value: "
                  "'\\u00e9\\U0001F600' value: \"it's\" 'x\"'");
  Tensorflow__BytesList *b = m;
  CHECK(b->n_value == 4);
  CHECK(b->value[0].len == 11 && memcmp(b->value[0].data, "\n\r\t\a\b\f\v\\'\"?", 11) == 0);
  CHECK(b->value[1].len == 6 && memcmp(b->value[1].data, "\0\1\377A\017A", 6) == 0);
  CHECK(b->value[2].len == 6 && memcmp(b->value[2].data, "\xc3\xa9\xf0\x9f\x98\x80", 6) == 0);
  CHECK(b->value[3].len == 6 && memcmp(b->value[3].data, "it'sx\"", 6) == 0);
  char *text = printed(m);
  CHECK_TEXT(text, "value: \"\\n\\r\\t\\007\\010\\014\\013\\\\\\'\\\"?\"\nvalue: \"\\000\\001\\377A\\017A\"\n"
                   "value: \"\\303\\251\\360\\237\\230\\200\"\nvalue: \"it\\'sx\\\"\"\n");
  void *again = parse(&tensorflow__bytes_list__descriptor, text);
  char *text2 = printed(again);
  CHECK_TEXT(text2, text);
  od_free(text);
  od_free(text2);
  od_proto_free(again);
  od_proto_free(m);
  same_text(&object_detection__protos__string_int_label_map_item__descriptor, "name: 'caf\xc3\xa9'",
            "name: \"caf\\303\\251\"\n");
}

static void places(void **state) {
  (void)state;
  const char *text = "# one\nmodel { ssd {\n    num_classes: 3 } }\ntrain_config {\n\tfreeze_variables: ['a',\n 'b'] "
                     "/*"; /* cut below */
  size_t len = strlen(text) - 3;
  char closed[200];
  snprintf(closed, sizeof closed, "%.*s } eval_input_reader {} eval_input_reader { shuffle: true }", (int)len, text);
  od_textpos *pos;
  pipeline *p;
  od_textplace at;
  CHECK_OK(od_textpos_new(&pos));
  CHECK_OK(od_textproto_parse(&p, PIPELINE, "dir/x.config", closed, strlen(closed), pos));
  CHECK(od_textpos_find_name(pos, p, "model", 0, &at) && at.line == 2 && at.column == 1);
  CHECK_TEXT(at.name, "dir/x.config");
  CHECK(od_textpos_find_name(pos, p->model->ssd, "num_classes", 0, &at) && at.line == 3 && at.column == 5);
  CHECK(od_textpos_find_name(pos, p->train_config, "freeze_variables", 0, &at) && at.line == 5 && at.column == 21);
  CHECK(od_textpos_find_name(pos, p->train_config, "freeze_variables", 1, &at) && at.line == 6 && at.column == 2);
  CHECK(!od_textpos_find_name(pos, p->train_config, "freeze_variables", 2, &at));
  CHECK(!od_textpos_find_name(pos, p->train_config, "batch_size", 0, &at));
  CHECK(!od_textpos_find_name(pos, p, "no_such_field", 0, &at));
  CHECK(od_textpos_find_name(pos, p, "eval_input_reader", 1, &at) && at.line == 6 && at.column == 30);
  CHECK(od_textpos_block(pos, p->eval_input_reader[1], &at) && at.line == 6);
  CHECK(!od_textpos_block(pos, p, &at));
  od_proto_free(p);
  od_textpos_free(pos);
}

static void merging(void **state) {
  (void)state;
  pipeline *p =
      parse(PIPELINE,
            "train_config { batch_size: 24 num_steps: 5 optimizer { adam_optimizer {} } freeze_variables: 'a' }"
            "eval_config { super_categories { key: 'k' value: 'old' } super_categories { key: 'l' value: 'stays' } }");
  const char *over = "train_config { batch_size: 8 optimizer { momentum_optimizer { momentum_optimizer_value: 0.5 } } "
                     "freeze_variables: 'b' }"
                     "eval_config { super_categories { key: 'k' value: 'new' } }";
  CHECK_OK(od_textproto_merge(p, "override", over, strlen(over), NULL));
  char *text = printed(p);
  CHECK_TEXT(
      text,
      "train_config {\n  batch_size: 8\n  optimizer {\n    momentum_optimizer {\n      momentum_optimizer_value: 0.5\n"
      "    }\n  }\n  num_steps: 5\n  freeze_variables: \"a\"\n  freeze_variables: \"b\"\n}\neval_config {\n"
      "  super_categories {\n    key: \"k\"\n    value: \"new\"\n  }\n  super_categories {\n    key: \"l\"\n"
      "    value: \"stays\"\n  }\n}\n");
  od_free(text);
  od_proto_free(p);
}

static void long_lists(void **state) {
  (void)state;
  od_str s = OD_STR_INIT;
  for (int i = 0; i < 5000; i++) od_str_addf(&s, "node { name: 'n%d' input: ['a', 'b', 'c'] }\n", i);
  Tensorflow__GraphDef *g = parse(&tensorflow__graph_def__descriptor, od_str_text(&s));
  CHECK(g->n_node == 5000 && g->node[4999]->n_input == 3);
  CHECK_TEXT(g->node[4999]->name, "n4999");
  od_proto_free(g);
  od_str_clear(&s);
  od_str_add(&s, "value: [0");
  for (int i = 1; i < 200000; i++) od_str_addf(&s, ",%d", i);
  od_str_add(&s, "]");
  Tensorflow__Int64List *l = parse(&tensorflow__int64_list__descriptor, od_str_text(&s));
  CHECK(l->n_value == 200000 && l->value[199999] == 199999);
  od_proto_free(l);
  od_str_free(&s);
}

/* Every sample config and label map: read, print, read again, print again; the wire format says the same. */
static void round_trip(const char *pattern, const ProtobufCMessageDescriptor *type, size_t at_least) {
  glob_t g;
  CHECK(glob(pattern, 0, NULL, &g) == 0 && g.gl_pathc >= at_least);
  for (size_t i = 0; i < g.gl_pathc; i++) {
    void *a, *b;
    CHECK_OK(od_textproto_load(&a, type, g.gl_pathv[i], NULL));
    char *first = printed(a);
    CHECK_OK(od_textproto_parse(&b, type, "printed", first, strlen(first), NULL));
    char *second = printed(b);
    CHECK_TEXT(second, first);
    CHECK(strlen(first) > 20);
    uint8_t *wa, *wb;
    size_t na, nb;
    CHECK_OK(od_proto_pack(&wa, &na, a));
    CHECK_OK(od_proto_pack(&wb, &nb, b));
    CHECK(na == nb && memcmp(wa, wb, na) == 0);
    void *c;
    CHECK_OK(od_proto_clone(&c, a));
    char *third = printed(c);
    CHECK_TEXT(third, first);
    od_free(wa), od_free(wb), od_free(first), od_free(second), od_free(third);
    od_proto_free(a), od_proto_free(b), od_proto_free(c);
  }
  globfree(&g);
}

static void sample_configs(void **state) {
  (void)state;
  round_trip("samples/configs/*.config", PIPELINE, 20);
}

static void label_maps(void **state) {
  (void)state;
  round_trip("data/*.pbtxt", &object_detection__protos__string_int_label_map__descriptor, 8);
}

/* Names of 2017's schema. */
static void old_fields(void **state) {
  (void)state;
  same_text(PIPELINE, "model { faster_rcnn { first_stage_only: true num_classes: 3 } }",
            "model {\n  faster_rcnn {\n    number_of_stages: 1\n    num_classes: 3\n  }\n}\n");
  same_text(PIPELINE, "model { faster_rcnn { first_stage_only: false; } }", "model {\n  faster_rcnn {\n  }\n}\n");
  same_text(
      PIPELINE, "model { ssd { feature_extractor { batch_norm_trainable: false, min_depth: 8 } } }",
      "model {\n  ssd {\n    feature_extractor {\n      min_depth: 8\n    }\n    freeze_batchnorm: true\n  }\n}\n");
  same_text(PIPELINE, "model { ssd { feature_extractor { batch_norm_trainable: true } } }",
            "model {\n  ssd {\n    feature_extractor {\n    }\n  }\n}\n");
  const char *both = "model { faster_rcnn { number_of_stages: 2\n first_stage_only: true } }";
  void *m;
  CHECK_FAILS(od_textproto_parse(&m, PIPELINE, "test", both, strlen(both), NULL), OD_EINVAL,
              "number_of_stages of FasterRcnn is set twice: at line 1 and here at line 2");
}

/* Configs and label maps of other people: official checkpoints, a fine-tune, test data. */
static void shared_files(void **state) {
  (void)state;
  NEED_SHARED(root, "data");
  static const char *const patterns[] = {"%s/*/*.config", "%s/*/*/*.config", "%s/*/*/*/*/*.config", "%s/*/*.pbtxt",
                                         "%s/*/*/*/*/*label_map*.pbtxt"};
  size_t files = 0;
  for (size_t k = 0; k < sizeof patterns / sizeof *patterns; k++) {
    char pattern[4200];
    glob_t g;
    snprintf(pattern, sizeof pattern, "%s%s", root, patterns[k] + 2);
    if (glob(pattern, 0, NULL, &g) != 0) continue;
    files += g.gl_pathc;
    globfree(&g);
    round_trip(pattern, k < 3 ? PIPELINE : &object_detection__protos__string_int_label_map__descriptor, 1);
  }
  CHECK(files >= 20);
}

/* Nothing leaks and nothing breaks when any single allocation fails. */
static void out_of_memory(void **state) {
  (void)state;
  const char *text =
      "train_config { batch_size: 24 freeze_variables: ['a', 'b'] optimizer { adam_optimizer { epsilon: 1 } } }"
      "eval_config { super_categories { key: 'k' value: 'v' } } eval_input_reader { name: 'x' }";
  size_t before = od_mem_used();
  bool done = false;
  for (uint64_t n = 1; n < 500 && !done; n++) {
    od_textpos *pos = NULL;
    pipeline *p = NULL;
    od_mem_fail_at(n);
    od_status st = od_textpos_new(&pos);
    if (st == OD_OK) st = od_textproto_parse(&p, PIPELINE, "test", text, strlen(text), pos);
    char *out = NULL;
    od_str s = OD_STR_INIT;
    if (st == OD_OK) st = od_textproto_print(&s, p);
    if (st == OD_OK) st = od_textproto_set(p, "train_config.freeze_variables[1]", "c", pos);
    od_mem_fail_at(0);
    CHECK(st == OD_OK || st == OD_ENOMEM);
    done = st == OD_OK;
    od_str_free(&s);
    od_free(out);
    od_proto_free(p);
    od_textpos_free(pos);
    CHECK(od_mem_used() == before);
  }
  CHECK(done);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(grammar),      cmocka_unit_test(presence),      cmocka_unit_test(truth),
      cmocka_unit_test(floats),       cmocka_unit_test(shortest),      cmocka_unit_test(integers),
      cmocka_unit_test(enums),        cmocka_unit_test(strings),       cmocka_unit_test(places),
      cmocka_unit_test(merging),      cmocka_unit_test(long_lists),    cmocka_unit_test(sample_configs),
      cmocka_unit_test(label_maps),   cmocka_unit_test(out_of_memory), cmocka_unit_test(old_fields),
      cmocka_unit_test(shared_files),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
