/* Every field that the table calls used changes something: a graph, the input, options of evaluation, a drawn picture. The
 * settings are in field_settings.h; this file makes a fingerprint of a config and sees it change. */
#include "od_test.h"

#include <math.h>

#include "base/str.h"
#include "data/pipeline.h"
#include "eval/options.h"
#include "eval/pictures.h"
#include "field_settings.h"
#include "image/encode.h"
#include "io/example.h"
#include "io/file.h"
#include "io/path.h"
#include "io/record.h"
#include "model/fields.h"
#include "model/pipeline.h"
#include "train/restore.h"
#include "train/schedule.h"
#include "train/train_graph.h"
#include "train/trainer.h"

static const char *dir; /* of the records */

/* ------------------------------------------------------------------------------------------------------------- records */
enum { PICTURES = 8, KEYPOINTS = 2, CLASSES = 2 };

static void add_example(od_record_writer *w, int i, int shade) {
  od_example_builder *b;
  od_image im;
  od_str jpeg = OD_STR_INIT, bytes = OD_STR_INIT;
  int height = 40 + i % 3 * 4, width = 48 + i % 2 * 8;
  char id[32];
  CHECK_OK(od_image_new(&im, height, width, 3));
  for (int k = 0; k < height * width * 3; k++) im.data[k] = (uint8_t)((k * (5 + i) / 7 + k / 300 * 9 + shade) & 255);
  CHECK_OK(od_jpeg_encode(&jpeg, &im, 95));
  od_image_free(&im);
  /* the third box is the first one again, with the other class: merge_multiple_label_boxes */
  const float y0[3] = {0.1f, 0.3f, 0.1f}, x0[3] = {0.2f, 0.05f, 0.2f}, y1[3] = {0.6f, 0.95f, 0.6f},
              x1[3] = {0.7f, 0.5f, 0.7f};
  const int64_t label[3] = {1, 2, 2};
  const float scores[3 * CLASSES] = {1, 2, 0.5f, 3, 2, 2}, ky[6] = {0.2f, 0.3f, 0.4f, 0.5f, 0.2f, 0.4f},
                         kx[6] = {0.3f, 0.4f, 0.2f, 0.3f, 0.5f, 0.6f};
  size_t mask_size = 3 * (size_t)height * (size_t)width;
  float *mask;
  CHECK_OK(od_new(&mask, mask_size, sizeof *mask));
  for (size_t k = 0; k < mask_size; k++) mask[k] = k % 5 == 0;
  CHECK_OK(od_example_builder_new(&b));
  snprintf(id, sizeof id, "%d.jpg", i);
  od_example_add_text(b, "image/source_id", id);
  od_example_add_text(b, "image/format", "jpeg");
  od_example_add_int64(b, "image/height", height);
  od_example_add_int64(b, "image/width", width);
  od_example_add_bytes(b, "image/encoded", jpeg.data, jpeg.len);
  od_example_add_floats(b, "image/object/bbox/ymin", y0, 3);
  od_example_add_floats(b, "image/object/bbox/xmin", x0, 3);
  od_example_add_floats(b, "image/object/bbox/ymax", y1, 3);
  od_example_add_floats(b, "image/object/bbox/xmax", x1, 3);
  od_example_add_int64s(b, "image/object/class/label", label, 3);
  const od_view text[3] = {
      {(const unsigned char *)"cat", 3}, {(const unsigned char *)"dog", 3}, {(const unsigned char *)"dog", 3}};
  od_example_add_bytes_list(b, "image/object/class/text", text, 3);
  od_example_add_floats(b, "image/object/class/multiclass_scores", scores, 3 * CLASSES);
  od_example_add_floats(b, "image/object/keypoint/y", ky, 3 * KEYPOINTS);
  od_example_add_floats(b, "image/object/keypoint/x", kx, 3 * KEYPOINTS);
  od_example_add_floats(b, "image/object/mask", mask, mask_size);
  CHECK_OK(od_example_builder_finish(b, &bytes));
  CHECK_OK(od_record_write(w, bytes.data, bytes.len));
  od_example_builder_free(b);
  od_free(mask);
  od_str_free(&jpeg);
  od_str_free(&bytes);
}

static void write_text(const char *name, const char *text) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  CHECK_OK(od_file_write_all(path, text, strlen(text)));
}

static int make_data(void **state) {
  (void)state;
  static const char *const names[] = {"train.record", "other.record"};
  dir = od_test_dir();
  for (int f = 0; f < 2; f++) {
    char path[512];
    od_record_writer *w;
    snprintf(path, sizeof path, "%s/%s", dir, names[f]);
    CHECK_OK(od_record_writer_open(&w, path, NULL));
    for (int i = 0; i < PICTURES; i++) add_example(w, i, 40 * f);
    CHECK_OK(od_record_writer_close(w));
  }
  write_text("map.pbtxt", "item { id: 1 name: 'cat' } item { id: 2 name: 'dog' }");
  write_text("family.pbtxt", "item { id: 1 name: 'cat' ancestor_ids: 2 } item { id: 2 name: 'dog' descendant_ids: 1 }");
  write_text("other.pbtxt", "item { id: 2 name: 'cat' } item { id: 1 name: 'dog' }");
  return 0;
}

/* -------------------------------------------------------------------------------------------------------- base config */
#define LAYERS                                                                                                         \
  "conv_hyperparams { regularizer { l2_regularizer { weight: 0.001 } } initializer { truncated_normal_initializer { "  \
  "stddev: 0.03 } } "                                                                                                  \
  "activation: RELU_6 batch_norm { decay: 0.9 scale: true epsilon: 0.002 } } "

static const char base_config[] =
    "model { ssd { num_classes: 2 image_resizer { fixed_shape_resizer { height: 96 width: 96 } } "
    "feature_extractor { type: 'ssd_mobilenet_v1' depth_multiplier: 0.25 min_depth: 8 "
    "override_base_feature_extractor_hyperparams: true " LAYERS "} "
    "box_coder { faster_rcnn_box_coder {} } matcher { argmax_matcher { force_match_for_each_row: true } } "
    "similarity_calculator { iou_similarity {} } "
    "box_predictor { convolutional_box_predictor { " LAYERS "use_dropout: true dropout_keep_probability: 0.8 } } "
    "anchor_generator { ssd_anchor_generator { aspect_ratios: [1, 2, 0.5] } } "
    "post_processing { batch_non_max_suppression { score_threshold: 1e-8 } score_converter: SIGMOID } "
    "loss { localization_loss { weighted_smooth_l1 {} } classification_loss { weighted_sigmoid {} } "
    "hard_example_miner { num_hard_examples: 3000 iou_threshold: 0.99 loss_type: CLASSIFICATION "
    "max_negatives_per_positive: 3 min_negatives_per_image: 3 } } } } "
    "train_config { batch_size: 4 optimizer { momentum_optimizer { learning_rate { constant_learning_rate { "
    "learning_rate: 0.01 } } } } } "
    "train_input_reader { label_map_path: 'map.pbtxt' tf_record_input_reader { input_path: 'train.record' } } "
    "eval_config { num_visualizations: 3 }";

/* -------------------------------------------------------------------------------------------------------- fingerprint */
/* Texts and numbers that a config leads to; failures become a status. */
typedef struct {
  const od_pb_pipeline *config;
  od_str text;
} print;

static void add_hash(print *p, const char *what, const void *bytes, size_t n) {
  od_str_addf(&p->text, "%s %016llx\n", what, (unsigned long long)od_hash_bytes(bytes, n));
}

static void add_variables(print *p, const od_graph *g) {
  od_str s = OD_STR_INIT;
  for (size_t i = 0; i < od_graph_variables(g); i++) {
    const od_variable *v = od_graph_variable(g, i);
    od_str_addf(&s, "%s %d %g %g %d\n", v->name, (int)v->init.kind, (double)v->init.a, (double)v->init.b, v->trainable);
  }
  for (size_t i = 0; i < od_graph_updates(g); i++) {
    const od_update_entry *u = od_graph_update(g, i);
    od_str_addf(&s, "%s %s %s:%d\n", u->group, u->var->name, u->value.node->name, u->value.out);
  }
  for (size_t i = 0; i < od_graph_size(g); i++) { /* which print only their type */
    const od_node *n = od_graph_node(g, i);
    if (strcmp(n->op->name, "const") != 0) continue;
    const od_tensor *t = &((const od_const_params *)n->params)->value;
    od_str_add_bytes(&s, t->data, od_tensor_bytes(t));
  }
  CHECK_OK(od_str_check(&s));
  add_hash(p, "variables", s.data, s.len);
  od_str_free(&s);
}

typedef enum { TRAIN_LEGACY, TRAIN_MODEL_MAIN, EVALUATE, EXPORT } graph_kind;

static od_status add_graph(print *p, graph_kind kind) {
  static const char *const names[] = {"legacy", "model_main", "evaluate", "export"};
  const od_pb_model *model = p->config->model;
  int64_t k = od_model_num_classes(model);
  od_graph *g;
  od_model m;
  od_train_graph t;
  char *text = NULL;
  od_status st;
  OD_TRY(od_graph_new(&g));
  od_model_spec spec = {.training = kind <= TRAIN_MODEL_MAIN,
                        .resize = kind == EXPORT,
                        .images = od_input(g, "images", OD_F32, OD_SHAPE(-1, -1, -1, kind == EXPORT ? 3 : od_model_channels(model)))};
  if (kind != EXPORT) {
    spec.true_shapes = od_input(g, "shapes", OD_I32, OD_SHAPE(-1, 3));
    spec.groundtruth = (od_groundtruth){
        od_input(g, "boxes", OD_F32, OD_SHAPE(-1, -1, 4)), od_input(g, "classes", OD_F32, OD_SHAPE(-1, -1, k)),
        od_input(g, "weights", OD_F32, OD_SHAPE(-1, -1)), od_input(g, "count", OD_I32, OD_SHAPE(-1))};
  }
  OD_GO(st, od_model_build(&m, g, model, &spec));
  if (kind <= TRAIN_MODEL_MAIN)
    OD_GO(st, od_train_graph_build(&t, &m, p->config->train_config,
                                   kind == TRAIN_LEGACY ? OD_PROGRAM_LEGACY : OD_PROGRAM_MODEL_MAIN));
  OD_GO(st, od_graph_print(&text, g));
  add_hash(p, names[kind], text, strlen(text));
  add_variables(p, g);
done:
  od_free(text);
  od_graph_free(g);
  return st;
}

static od_status add_model(print *p) {
  od_resizer r;
  for (int kind = TRAIN_LEGACY; kind <= EXPORT; kind++) OD_TRY(add_graph(p, (graph_kind)kind));
  memset(&r, 0, sizeof r);
  OD_TRY(od_resizer_from_config(&r, od_model_resizer(p->config->model)));
  od_str_addf(&p->text, "resizer %d %d %d %d %d %d %d %d %g\n", (int)r.kind, r.height, r.width, r.min_dimension,
              r.max_dimension, r.multiple, (int)r.method, r.pad_to_max, (double)r.pad_value[0]);
  return OD_OK;
}

static od_status add_training(print *p) {
  const od_pb_train *c = p->config->train_config;
  od_schedule s;
  od_step_size size;
  od_fine_tune_mode mode;
  OD_TRY(od_schedule_from_optimizer(&s, c->optimizer, NULL));
  for (int64_t step = 0; step < 40; step++) od_str_addf(&p->text, "%.9g ", (double)od_schedule_rate(&s, step));
  od_schedule_free(&s);
  OD_TRY(od_step_size_read(&size, c, OD_PROGRAM_LEGACY));
  OD_TRY(od_fine_tune_mode_read(&mode, c));
  od_str_addf(&p->text, "turns %d x %d, from %d %d\n", size.turns, size.pictures, mode.classification, mode.whole);
  OD_TRY(add_graph(p, TRAIN_LEGACY));
  return add_graph(p, TRAIN_MODEL_MAIN);
}

static void add_tensor(print *p, const char *what, const od_tensor *t) {
  if (t->data) add_hash(p, what, t->data, od_tensor_bytes(t));
}

/* Three batches of the training input, so that a second epoch begins. */
static od_status add_input(print *p) {
  const od_pb_train *c = p->config->train_config;
  od_input_options in = {.reader = p->config->train_input_reader,
                         .augmentation = c->data_augmentation_options,
                         .augmentation_count = c->n_data_augmentation_options,
                         .num_classes = (int)od_model_num_classes(p->config->model),
                         .batch_size = (int)c->batch_size,
                         .clip_boxes = true,
                         .merge_multiple_boxes = c->merge_multiple_label_boxes,
                         .use_multiclass_scores = c->use_multiclass_scores,
                         .shuffle = -1,
                         .epochs = -1,
                         .seed = 7,
                         .threads = 2};
  od_input_queue *q;
  od_batch b = {0};
  OD_TRY(od_resizer_from_config(&in.resizer, od_model_resizer(p->config->model)));
  OD_TRY(od_input_open(&q, &in));
  od_status st = OD_OK;
  for (int i = 0; i < 3 && st == OD_OK; i++) {
    st = od_input_next(q, &b);
    if (st == OD_END) od_str_add(&p->text, "end\n");
    if (st != OD_OK) break;
    for (int k = 0; k < b.count; k++) {
      const od_truth *t = &b.samples[k].truth;
      od_str_addf(&p->text, "%s scores %d\n", b.samples[k].source_id, t->scores_per_box);
      if (t->scores) add_hash(p, "scores", t->scores, (size_t)t->count * (size_t)t->scores_per_box * sizeof(float));
    }
    add_tensor(p, "images", &b.images);
    add_tensor(p, "shapes", &b.true_shapes);
    add_tensor(p, "count", &b.num_boxes);
    add_tensor(p, "boxes", &b.boxes);
    add_tensor(p, "classes", &b.classes);
    add_tensor(p, "targets", &b.class_targets);
    add_tensor(p, "weights", &b.weights);
    add_tensor(p, "masks", &b.masks);
    add_tensor(p, "keypoints", &b.keypoints);
  }
  od_batch_free(&b);
  od_input_free(q);
  return st == OD_END ? OD_OK : st;
}

/* Files in a folder by name and content; the folder is emptied. */
static void add_folder(print *p, const char *folder) {
  od_strings names = OD_STRINGS_INIT;
  if (!od_path_is_dir(folder)) return;
  CHECK_OK(od_path_list(&names, folder));
  for (size_t i = 0; i < names.count; i++) {
    char *path, *bytes;
    size_t n;
    CHECK_OK(od_path_join(&path, folder, names.items[i]));
    CHECK_OK(od_file_read_all(&bytes, &n, path, 0));
    add_hash(p, path, bytes, n);
    CHECK_OK(od_path_remove(path));
    od_free(bytes);
    od_free(path);
  }
  od_strings_free(&names);
}

static od_status add_pictures(print *p, od_eval_style style) {
  od_eval_pictures *e;
  od_label_map *map;
  od_str summary = OD_STR_INIT;
  float boxes[8] = {0.1f, 0.1f, 0.5f, 0.5f, 0.3f, 0.4f, 0.9f, 0.9f}, scores[2] = {0.9f, 0.3f},
        truth[4] = {0.2f, 0.2f, 0.8f, 0.8f};
  int32_t classes[2] = {1, 2};
  od_detections found = {2, boxes, scores, classes};
  OD_TRY(od_label_map_load(&map, "map.pbtxt"));
  OD_TRY(od_eval_pictures_new(&e, p->config->eval_config, map, "eval", style, NULL));
  od_eval_pictures_begin(e);
  od_status st = OD_OK;
  for (int i = 0; i < 2 && st == OD_OK; i++) {
    char id[] = "x.jpg";
    od_picture s = {.truth = {.count = 1, .boxes = truth, .classes = classes},
                    .true_height = 96,
                    .true_width = 96,
                    .original_height = 150,
                    .original_width = 150,
                    .source_id = id};
    CHECK_OK(od_image_new(&s.pixels, 150, 150, 3));
    memset(s.pixels.data, 200, 150 * 150 * 3);
    st = od_eval_pictures_add(e, &summary, &s, &found, 96, 96);
    od_image_free(&s.pixels);
  }
  add_hash(p, "drawn", summary.data, summary.len);
  od_str_free(&summary);
  od_eval_pictures_free(e);
  od_label_map_free(map);
  add_folder(p, "pictures");
  return st;
}

static od_status add_evaluation(print *p) {
  od_arena *arena;
  OD_TRY(od_arena_new(&arena));
  for (int legacy = 0; legacy < 2; legacy++) {
    od_eval_options o = od_eval_defaults();
    OD_TRY(od_eval_options_from_config(&o, p->config->eval_config, legacy, arena));
    od_str_addf(&p->text, "recall %g %g, categories %d %d, skip %d:", o.recall_lower_bound, o.recall_upper_bound,
                o.include_metrics_per_category, o.all_metrics_per_category, o.skip_predictions_for_unlabeled_class);
    for (size_t i = 0; i < o.n_metrics; i++) od_str_addf(&p->text, " %s", o.metrics[i]);
    for (size_t i = 0; i < o.n_super_categories; i++)
      od_str_addf(&p->text, " %s=%s", o.super_categories[i].name, o.super_categories[i].members);
    od_str_add(&p->text, "\n");
  }
  od_arena_free(arena);
  OD_TRY(add_pictures(p, OD_EVAL_LEGACY));
  return add_pictures(p, OD_EVAL_MODEL_MAIN);
}

/* What the part of the config that `path` belongs to leads to. */
static od_status fingerprint(od_str *out, const od_pb_pipeline *config, const char *path) {
  print p = {.config = config};
  od_status st = OD_OK;
  bool resizer = strstr(path, "image_resizer") != NULL, pairs = strstr(path, "from_config") != NULL;
  bool input = resizer || pairs || od_starts_with(path, "train_input_reader") || strstr(path, "data_augmentation") ||
               strstr(path, "merge_multiple") || strstr(path, "use_multiclass") || strstr(path, "batch_size");
  if (od_starts_with(path, "model"))
    st = add_model(&p);
  else if (od_starts_with(path, "train_config") && !input)
    st = add_training(&p);
  else if (od_starts_with(path, "eval_config"))
    st = add_evaluation(&p);
  if (st == OD_OK && input) st = add_input(&p);
  if (st == OD_OK) st = od_str_check(&p.text);
  *out = p.text;
  return st;
}

/* ------------------------------------------------------------------------------------------------------------ settings */
typedef struct {
  const char *field[512]; /* "Type.field" that a setting went through */
  size_t n;
} seen_fields;

/* Notes the fields on the way of "a.b[0].c". */
static void note_path(seen_fields *seen, const char *path) {
  const ProtobufCMessageDescriptor *type = &object_detection__protos__train_eval_pipeline_config__descriptor;
  while (type && *path) {
    size_t len = strcspn(path, ".[=");
    const ProtobufCFieldDescriptor *f = od_proto_field(type, path, len);
    if (!f) fail_msg("no such field: %s", path);
    const od_field_rule *rule = od_field_rule_of(type, f);
    size_t i = 0;
    while (i < seen->n && strcmp(seen->field[i], rule->name) != 0) i++;
    if (i == seen->n) {
      CHECK(seen->n < 512);
      seen->field[seen->n++] = rule->name;
    }
    type = f->type == PROTOBUF_C_TYPE_MESSAGE ? f->descriptor : NULL;
    path += len;
    path += strcspn(path, ".=");
    if (*path == '=') return;
    if (*path) path++;
  }
}

/* Applies "a=1; b=2" or "a=1 & b=2"; the first path is left in `first`. */
static void apply(od_pipeline *p, char *text, const char *between, char *first, size_t size, seen_fields *seen) {
  for (char *at = text; at;) {
    char *next = strstr(at, between);
    if (next) {
      *next = 0;
      next += strlen(between);
    }
    if (first && at == text) snprintf(first, size, "%.*s", (int)strcspn(at, "="), at);
    if (seen) note_path(seen, at);
    od_status st = od_pipeline_set(p, at);
    if (st != OD_OK) fail_msg("%s: %s", at, od_message());
    at = next;
  }
}

static od_pipeline base_pipeline(void) {
  od_pipeline p = {0};
  CHECK_OK(od_textproto_parse(&p.config, &object_detection__protos__train_eval_pipeline_config__descriptor, "base",
                              base_config, sizeof base_config - 1, NULL));
  return p;
}

/* Counts a complaint instead of failing at once, so that one run shows all. */
static int complaints;
static void complain(const char *setting, const char *what) {
  print_message("%s: %s\n", setting, what);
  complaints++;
}

static void try_setting(const char *setting, seen_fields *seen) {
  char text[2048], first[256];
  snprintf(text, sizeof text, "%s", setting[0] == '!' ? setting + 2 : setting);
  char *bar = strstr(text, " | "), *change = bar ? bar + 3 : text;
  od_pipeline before = base_pipeline(), after = base_pipeline();
  if (bar) {
    char copy[2048];
    *bar = 0;
    snprintf(copy, sizeof copy, "%s", text);
    apply(&before, text, "; ", NULL, 0, NULL);
    apply(&after, copy, "; ", NULL, 0, NULL);
  }
  apply(&after, change, " & ", first, sizeof first, seen);
  od_str a = OD_STR_INIT, b = OD_STR_INIT;
  char what[1024];
  if (fingerprint(&a, before.config, first) != OD_OK) {
    snprintf(what, sizeof what, "the base is refused: %s", od_message());
    complain(setting, what);
  } else {
    od_status st = fingerprint(&b, after.config, first);
    snprintf(what, sizeof what, "refused: %s", od_message());
    if (st != OD_OK && setting[0] != '!') complain(setting, what);
    if (st == OD_OK && setting[0] == '!') complain(setting, "not refused");
    if (st == OD_OK && a.len == b.len && memcmp(a.data, b.data, a.len) == 0) complain(setting, "nothing changes");
  }
  od_str_free(&a);
  od_str_free(&b);
  od_pipeline_free(&before);
  od_pipeline_free(&after);
}

/* The test file that is said to show a field names it. */
static bool another_test_names(const char *field) {
  for (size_t i = 0; i < sizeof shown_elsewhere / sizeof *shown_elsewhere; i++) {
    char *text;
    size_t size;
    if (strcmp(shown_elsewhere[i].field, field) != 0) continue;
    CHECK_OK(od_file_read_all(&text, &size, shown_elsewhere[i].test, 0));
    bool named = strstr(text, strrchr(field, '.') + 1) != NULL;
    od_free(text);
    return named;
  }
  return false;
}

static void every_used_field_changes_something(void **state) {
  (void)state;
  static seen_fields seen;
  char home[4096];
  size_t n;
  CHECK(getcwd(home, sizeof home) != NULL);
  CHECK(chdir(dir) == 0); /* paths of the base config are relative to the data */
  for (size_t i = 0; i < sizeof field_settings / sizeof *field_settings; i++) try_setting(field_settings[i], &seen);
  CHECK(chdir(home) == 0);
  const od_field_rule *rules = od_field_rules(&n);
  for (size_t i = 0; i < n; i++) {
    bool shown = false;
    for (size_t k = 0; k < seen.n && !shown; k++) shown = seen.field[k] == rules[i].name;
    if (rules[i].state == OD_FIELD_USED && !shown && !another_test_names(rules[i].name))
      complain(rules[i].name, "is called used, and no test shows it");
    if (rules[i].state != OD_FIELD_USED && shown) complain(rules[i].name, "is shown to be used, but not called so");
  }
  if (complaints) fail_msg("%d complaints above", complaints);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_used_field_changes_something)};
  return cmocka_run_group_tests(tests, make_data, NULL);
}
