/* Checking a config; see config_check.h. */
#include "train/config_check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "data/augment.h"
#include "data/records.h"
#include "image/resizer.h"
#include "io/bundle.h"
#include "train/restore.h"
#include "train/schedule.h"
#include "train/trainer.h"

static const char not_configured[] = "PATH_TO_BE_CONFIGURED";

typedef struct {
  const od_config_check_options *o;
  const od_pb_pipeline *c;
  od_status st; /* OD_ENOMEM sticks */
} checker;

static void found(checker *x, od_status code, const char *format, ...) OD_PRINTF(3, 4);
static void found(checker *x, od_status code, const char *format, ...) {
  char text[OD_MESSAGE_MAX];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (code == OD_ENOMEM)
    x->st = code;
  else
    x->o->found(x->o->ctx, code, text);
}

/* Tells what a call complained of. */
static bool fine(checker *x, od_status st, const char *where) {
  char message[OD_MESSAGE_MAX];
  if (st == OD_OK) return true;
  snprintf(message, sizeof message, "%s", od_message());
  found(x, st, "%s%s%s", where, *where ? ": " : "", message);
  return false;
}

void od_config_place(char *text, size_t size, const od_pipeline *p, const void *message, const char *section,
                     const char *field, size_t index) {
  od_textplace at;
  const char *dot = *field ? "." : "";
  bool known = p->pos && (*field ? od_textpos_find_name(p->pos, message, field, index, &at)
                                 : od_textpos_block(p->pos, message, &at));
  if (known && at.line > 0)
    snprintf(text, size, "%s:%d: %s%s%s", at.name, at.line, section, dot, field);
  else
    snprintf(text, size, "%s%s%s", section, dot, field);
}

/* ------------------------------------------------------------------------------------------------------------- readers */
static void check_label_map(checker *x, const char *where, const char *path) {
  od_label_map *map;
  if (!fine(x, od_label_map_load(&map, path), where)) return;
  int k = x->c->model ? (int)od_model_num_classes(x->c->model) : 0, max = od_label_map_max_id(map), unnamed = 0;
  for (int id = 1; id <= k; id++) unnamed += od_label_map_name(map, id, false) == NULL;
  if (k > 0 && max > k)
    found(x, OD_EINVAL, "%s: %s has ids up to %d (%s), model num_classes is %d: they must agree", where, path, max,
          od_label_map_name(map, max, false), k);
  else if (unnamed)
    od_warn(x->o->reporter, "%s: %s names %d of the model's %d classes", where, path, k - unnamed, k);
  od_label_map_free(map);
}

static void check_reader(checker *x, const od_pb_reader *r, const char *section, bool names_wanted) {
  const ObjectDetection__Protos__TFRecordInputReader *records = r->tf_record_input_reader;
  char where[1024];
  bool open = true;
  od_config_place(where, sizeof where, x->o->pipeline, r, section, "label_map_path", 0);
  if (!r->label_map_path || !*r->label_map_path) {
    od_config_place(where, sizeof where, x->o->pipeline, r, section, "", 0);
    if (names_wanted)
      found(x, OD_EINVAL, "%s: label_map_path is not set: evaluation wants the names of classes", where);
  } else if (strstr(r->label_map_path, not_configured)) {
    found(x, OD_EINVAL, "%s still is '%s': replace PATH_TO_BE_CONFIGURED by the folder of the label map", where,
          r->label_map_path);
  } else {
    check_label_map(x, where, r->label_map_path);
  }
  od_config_place(where, sizeof where, x->o->pipeline, r, section, "", 0);
  if (!records || records->n_input_path == 0)
    found(x, OD_EINVAL, "%s: there is no tf_record_input_reader { input_path: ... }", where);
  for (size_t i = 0; records && i < records->n_input_path; i++) {
    if (!strstr(records->input_path[i], not_configured)) continue;
    od_config_place(where, sizeof where, x->o->pipeline, records, section, "input_path", i);
    found(x, OD_EINVAL, "%s still is '%s': replace PATH_TO_BE_CONFIGURED by the folder of the records", where,
          records->input_path[i]);
    open = false;
  }
  if (!records || !open) return;
  od_strings files = OD_STRINGS_INIT;
  od_config_place(where, sizeof where, x->o->pipeline, records, section, "", 0);
  (void)fine(x,
             od_records_find(&files, (const char *const *)records->input_path, records->n_input_path,
                             x->o->whole ? x->o->reporter : NULL),
             where);
  od_strings_free(&files);
}

/* -------------------------------------------------------------------------------------------------------------- fields */
static void note_field(void *ctx, const od_field_note *n) {
  if (n->state == OD_FIELD_UNSUPPORTED)
    found(ctx, OD_EUNSUPPORTED, "%s%s%s is not supported yet%s%s", n->place, *n->place ? ": " : "", n->path,
          *n->rule->text ? ": " : "", n->rule->text);
}

/* -------------------------------------------------------------------------------------------------------------- training */
static void check_checkpoint(checker *x, const od_pb_train *t) {
  char where[1024];
  const char *path = t->fine_tune_checkpoint;
  od_fine_tune_mode mode;
  od_bundle *b;
  if (x->o->resuming || !path || !*path) return;
  od_config_place(where, sizeof where, x->o->pipeline, t, "train_config", "fine_tune_checkpoint", 0);
  if (strstr(path, not_configured)) {
    found(x, OD_EINVAL,
          "%s still is '%s': put the path of a checkpoint there, or remove the field to train from scratch", where,
          path);
    return;
  }
  if (fine(x, od_bundle_open(&b, path), where)) od_bundle_free(b);
  (void)fine(x, od_fine_tune_mode_read(&mode, t), "");
}

/* The graphs that training and evaluation would build. */
static od_status build(const od_pb_pipeline *c, bool training, od_train_program program) {
  od_graph *g;
  od_model m;
  od_train_graph t;
  int64_t k = od_model_num_classes(c->model);
  OD_TRY(od_graph_new(&g));
  od_model_spec spec = {.training = training,
                        .images = od_input(g, "images", OD_F32, OD_SHAPE(-1, -1, -1, 3)),
                        .true_shapes = od_input(g, "shapes", OD_I32, OD_SHAPE(-1, 3))};
  spec.groundtruth = (od_groundtruth){
      od_input(g, "boxes", OD_F32, OD_SHAPE(-1, -1, 4)), od_input(g, "classes", OD_F32, OD_SHAPE(-1, -1, k)),
      od_input(g, "weights", OD_F32, OD_SHAPE(-1, -1)), od_input(g, "count", OD_I32, OD_SHAPE(-1))};
  od_status st = od_model_build(&m, g, c->model, &spec);
  if (st == OD_OK && training) st = od_train_graph_build(&t, &m, c->train_config, program);
  od_graph_free(g);
  return st;
}

static void check_training(checker *x, const od_pb_train *t) {
  const od_train_program program = x->o->purposes & OD_FOR_MODEL_MAIN ? OD_PROGRAM_MODEL_MAIN : OD_PROGRAM_LEGACY;
  od_step_size size;
  od_schedule schedule;
  od_augment *augment;
  (void)fine(x, od_step_size_read(&size, t, OD_PROGRAM_LEGACY), "");
  if (fine(x, od_schedule_from_optimizer(&schedule, t->optimizer, NULL), "train_config")) od_schedule_free(&schedule);
  if (fine(x, od_augment_new(&augment, t->data_augmentation_options, t->n_data_augmentation_options), "train_config"))
    od_augment_free(augment);
  if (x->c->model) (void)fine(x, build(x->c, true, program), "");
}

static void check_model(checker *x) {
  od_resizer resizer;
  if (fine(x, build(x->c, false, OD_PROGRAM_LEGACY), ""))
    (void)fine(x, od_resizer_from_config(&resizer, od_model_resizer(x->c->model)), "");
}

static bool has_unsupported(const od_pipeline *p, unsigned purposes);

od_status od_config_check(const od_config_check_options *o) {
  checker x = {.o = o, .c = o->pipeline->config, .st = OD_OK};
  const od_pb_pipeline *c = x.c;
  bool learns = o->purposes & (OD_FOR_TRAIN | OD_FOR_MODEL_MAIN),
       evaluates = o->purposes & (OD_FOR_EVAL | OD_FOR_MODEL_MAIN);
  if (!c->model) found(&x, OD_EINVAL, "the config has no model");
  if (learns && !c->train_config) found(&x, OD_EINVAL, "the config has no train_config");
  if (learns && !c->train_input_reader) found(&x, OD_EINVAL, "the config has no train_input_reader");
  if (evaluates && !c->n_eval_input_reader) found(&x, OD_EINVAL, "the config has no eval_input_reader");
  OD_TRY(od_fields_visit(o->pipeline, o->purposes, note_field, &x));
  if (learns && c->train_input_reader) check_reader(&x, c->train_input_reader, "train_input_reader", false);
  for (size_t i = 0; evaluates && i < c->n_eval_input_reader; i++)
    check_reader(&x, c->eval_input_reader[i], "eval_input_reader", true);
  if (learns && c->train_config) check_checkpoint(&x, c->train_config);
  if (!o->whole || has_unsupported(o->pipeline, o->purposes)) return x.st; /* the builders would only say it again */
  if (learns && c->train_config)
    check_training(&x, c->train_config);
  else if (c->model)
    check_model(&x);
  return x.st;
}

static void note_unsupported(void *ctx, const od_field_note *n) {
  if (n->state == OD_FIELD_UNSUPPORTED) *(bool *)ctx = true;
}

static bool has_unsupported(const od_pipeline *p, unsigned purposes) {
  bool any = false;
  return od_fields_visit(p, purposes, note_unsupported, &any) == OD_OK && any;
}

/* ------------------------------------------------------------------------------------------------------------ refusing */
typedef struct {
  od_status st;
  char text[OD_MESSAGE_MAX];
} first_found;

static void keep_first(void *ctx, od_status code, const char *text) {
  first_found *f = ctx;
  if (f->st != OD_OK) return;
  f->st = code;
  snprintf(f->text, sizeof f->text, "%s", text);
}

od_status od_config_require(const od_pipeline *p, unsigned purposes, bool resuming, const od_reporter *r) {
  first_found first = {.st = OD_OK};
  const od_config_check_options o = {
      .pipeline = p, .purposes = purposes, .resuming = resuming, .reporter = r, .found = keep_first, .ctx = &first};
  OD_TRY(od_config_check(&o));
  if (first.st != OD_OK) return od_fail(first.st, "%s", first.text);
  return od_fields_check(p, purposes, r);
}
