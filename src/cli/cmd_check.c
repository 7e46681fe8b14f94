/* objdet check: everything that can be wrong with a config, its records, label maps and checkpoints, found before hours of
 * training are spent on it. Findings go to stdout, one a line (or as JSON); what is merely worth knowing goes to stderr. */
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/command.h"
#include "cli/common.h"
#include "data/record_check.h"
#include "eval/options.h"
#include "io/bundle.h"
#include "train/check.h"
#include "train/config_check.h"
#include "train/coverage.h"
#include "train/restore.h"

typedef struct {
  const od_args *a;
  const od_reporter *r;
  od_pipeline pipeline; /* config NULL: none was given */
  json_t *findings;     /* with --json */
  uint64_t count;
  od_status st;         /* trouble of our own, found where nothing can be returned */
} session;

/* ------------------------------------------------------------------------------------------------------------ findings */
static void add(session *s, const char *kind, const char *line, const od_finding *f) {
  s->count++;
  if (!s->findings) {
    if (printf("%s\n", line) < 0) s->st = od_fail(OD_EIO, "stdout cannot be written");
    return;
  }
  json_t *o = json_pack("{s:s,s:s}", "kind", kind, "text", line);
  if (o && f) {
    json_object_set_new(o, "file", json_string(f->file));
    json_object_set_new(o, "record", json_integer((json_int_t)f->record));
    json_object_set_new(o, "source_id", json_string(f->source_id));
    if (f->box >= 0) json_object_set_new(o, "box", json_integer(f->box));
  }
  if (!o || json_array_append_new(s->findings, o) != 0) s->st = od_fail(OD_EDATA, "a finding is no UTF-8: %s", line);
}

static void say(session *s, const char *kind, const char *format, ...) OD_PRINTF(3, 4);
static void say(session *s, const char *kind, const char *format, ...) {
  char line[OD_MESSAGE_MAX + 512];
  va_list args;
  va_start(args, format);
  vsnprintf(line, sizeof line, format, args);
  va_end(args);
  for (char *c = line; *c; c++) /* one finding, one line */
    if (*c == '\n') *c = ' ';
  add(s, kind, line, NULL);
}

/* Tells what a call complained of; false then. Memory and stop requests are no findings. */
static bool fine(session *s, const char *kind, od_status st) {
  if (st == OD_OK) return true;
  if (st == OD_ENOMEM || st == OD_ESTOPPED) s->st = st;
  else say(s, kind, "%s", od_message());
  return false;
}

static void on_config(void *ctx, od_status code, const char *text) {
  (void)code;
  say(ctx, "config", "%s", text);
}

static void on_record(void *ctx, const od_finding *f) {
  od_str line = OD_STR_INIT;
  od_finding_format(&line, f);
  for (size_t i = 0; i < line.len; i++)
    if (line.data[i] == '\n') line.data[i] = ' ';
  add(ctx, od_finding_name(f->kind), od_str_text(&line), f);
  od_str_free(&line);
}

/* ----------------------------------------------------------------------------------------------------------- label maps */
/* Two items that share an id or a name: only one of them can be meant. */
static void check_items(session *s, const char *path, const od_label_map *map) {
  const ObjectDetection__Protos__StringIntLabelMap *m = od_label_map_proto(map);
  for (size_t i = 0; i < m->n_item; i++)
    for (size_t k = 0; k < i; k++) {
      const char *a = m->item[k]->name ? m->item[k]->name : "", *b = m->item[i]->name ? m->item[i]->name : "";
      if (m->item[i]->id == m->item[k]->id) say(s, "label map", "%s: '%s' and '%s' have the same id %d", path, a, b, m->item[i]->id);
      else if (*a && strcmp(a, b) == 0) say(s, "label map", "%s: '%s' has the ids %d and %d", path, a, m->item[k]->id, m->item[i]->id);
    }
}

/* --------------------------------------------------------------------------------------------------------------- records */
static void tell_classes(session *s, const od_record_check_result *r, const od_label_map *labels) {
  od_str line = OD_STR_INIT;
  for (int id = 0; id < r->classes; id++) {
    const char *name = labels ? od_label_map_name(labels, id, true) : NULL;
    if (!r->boxes_of_class[id]) continue;
    od_str_addf(&line, "%s%s%s%d: %llu", line.len ? ", " : "", name ? name : "", name ? " " : "class ", id, (unsigned long long)r->boxes_of_class[id]);
  }
  if (line.len) od_info(s->r, "  boxes of %s", od_str_text(&line));
  od_str_free(&line);
}

static void tell_coverage(session *s, const char *what, const od_coverage *c) {
  if (c->boxes == 0) return;
  double share = 100.0 * (double)c->below / (double)c->boxes;
  od_str line = OD_STR_INIT;
  if (c->below)
    od_str_addf(&line, "%s: %llu of %llu boxes (%.1f %%) overlap no anchor by %.2g or more%s; the worst:", what, (unsigned long long)c->below,
                (unsigned long long)c->boxes, share, (double)c->threshold,
                c->forced ? " (force_match_for_each_row gives each its best one all the same)" : ", so nothing is learnt from them");
  for (int i = 0; i < c->examples; i++) {
    const od_uncovered *e = &c->example[i];
    od_str_addf(&line, "%s %s [%.3f %.3f %.3f %.3f] IoU %.2f", i ? ";" : "", e->origin, (double)e->box[0], (double)e->box[1], (double)e->box[2],
                (double)e->box[3], (double)e->best);
  }
  if (c->below && !c->forced) add(s, "anchors", od_str_text(&line), NULL);
  else if (c->below) od_info(s->r, "  %s", od_str_text(&line));
  else od_info(s->r, "  every box overlaps an anchor by %.2g or more", (double)c->threshold);
  od_str_free(&line);
}

/* One set of records. what: how it is called; labels may be NULL. */
static od_status check_records(session *s, const char *what, const char *const *patterns, size_t n, const od_label_map *labels) {
  const od_pb_model *model = s->pipeline.config ? s->pipeline.config->model : NULL;
  od_record_check_result result;
  od_strings files = OD_STRINGS_INIT;
  bool there = fine(s, "records", od_records_find(&files, patterns, n, NULL));
  od_status st = OD_OK;
  if (there) {
    const od_record_check_options o = {.patterns = (const char *const *)files.items, .pattern_count = files.count, .labels = labels,
                                       .num_classes = model ? (int)od_model_num_classes(model) : 0, .fast = od_arg_bool(s->a, "fast"),
                                       .threads = od_arg_int32(s->a, "threads"), .reporter = s->r, .on_finding = on_record, .ctx = s};
    st = od_record_check(&result, &o);
  }
  if (there && st == OD_OK) {
    od_info(s->r, "%s: %llu records in %llu files, %llu boxes, pictures from %dx%d to %dx%d (width x height), %llu findings", what,
            (unsigned long long)result.records, (unsigned long long)result.files, (unsigned long long)result.boxes, result.min_width, result.min_height,
            result.max_width, result.max_height, (unsigned long long)result.findings);
    tell_classes(s, &result, labels);
    od_record_check_free(&result);
    od_coverage coverage = {0};
    if (model && fine(s, "anchors", od_coverage_measure(&coverage, model, (const char *const *)files.items, files.count, labels, s->r)))
      tell_coverage(s, what, &coverage);
  }
  od_strings_free(&files);
  return st == OD_OK ? s->st : st;
}

/* A label map that the check of the config has already complained of is not opened again. */
static od_label_map *open_labels(session *s, const char *path, bool complain) {
  od_label_map *map = NULL;
  if (!path || !*path || strstr(path, "PATH_TO_BE_CONFIGURED")) return NULL;
  od_status st = od_label_map_load(&map, path);
  if (st == OD_OK) check_items(s, path, map);
  else if (complain) (void)fine(s, "label map", st);
  return map;
}

static od_status check_reader(session *s, const char *what, const od_pb_reader *r) {
  const ObjectDetection__Protos__TFRecordInputReader *records = r ? r->tf_record_input_reader : NULL;
  if (!records) return OD_OK;
  od_strings files = OD_STRINGS_INIT;
  bool there = od_records_find(&files, (const char *const *)records->input_path, records->n_input_path, NULL) == OD_OK; /* else: said of the config */
  od_strings_free(&files);
  const char *own = od_arg_text(s->a, "label_map_path");
  od_label_map *labels = own ? NULL : open_labels(s, r->label_map_path, false), *given = own ? open_labels(s, own, true) : NULL;
  od_status st = there ? check_records(s, what, (const char *const *)records->input_path, records->n_input_path, given ? given : labels) : OD_OK;
  od_label_map_free(labels);
  od_label_map_free(given);
  return st;
}

static od_status check_given_records(session *s, const char *const *patterns, size_t n) {
  const char *path = od_arg_text(s->a, "label_map_path");
  const od_pb_pipeline *c = s->pipeline.config;
  if (!path && c && c->train_input_reader) path = c->train_input_reader->label_map_path;
  od_label_map *labels = open_labels(s, path, true);
  od_status st = check_records(s, "records", patterns, n, labels);
  od_label_map_free(labels);
  return st;
}

/* ------------------------------------------------------------------------------------------------------------ checkpoints */
static void tell_row(session *s, const char *path, const od_match_row *row) {
  char want[OD_SHAPE_TEXT], have[OD_SHAPE_TEXT];
  od_shape_text(want, &row->variable->shape);
  if (row->have.rank < 0)
    say(s, "checkpoint", "%s: the model wants %s %s, it is not there%s%s", path, row->wanted, want, row->nearest ? "; the nearest name is " : "",
        row->nearest ? row->nearest : "");
  else
    say(s, "checkpoint", "%s: %s is %s there, the model wants %s", path, row->wanted, od_shape_text(have, &row->have), want);
}

/* whole: all of the model must be there, as for evaluation and export; else as fine-tuning takes it: something must fit. */
static od_status compare(session *s, const char *path, od_fine_tune_mode mode, bool whole) {
  od_graph *g = NULL;
  od_arena *arena = NULL;
  od_match_row *rows = NULL;
  od_model m;
  size_t n = 0, fitting = 0;
  od_status st;
  OD_GO(st, od_arena_new(&arena));
  OD_GO(st, od_graph_new(&g));
  od_model_spec spec = {.images = od_input(g, "images", OD_F32, OD_SHAPE(-1, -1, -1, 3)), .true_shapes = od_input(g, "shapes", OD_I32, OD_SHAPE(-1, 3))};
  if (od_model_build(&m, g, s->pipeline.config->model, &spec) != OD_OK) goto done; /* said of the config */
  if (!fine(s, "checkpoint", od_fine_tune_rows(&rows, &n, arena, &m, path, mode))) goto done;
  for (size_t i = 0; i < n; i++) fitting += rows[i].fits;
  for (size_t i = 0; i < n; i++) {
    if (rows[i].fits || (!whole && fitting > 0 && rows[i].have.rank < 0)) continue; /* what fine-tuning lacks starts anew */
    tell_row(s, path, &rows[i]);
  }
  od_info(s->r, "%s: %zu of %zu variables fit%s", path, fitting, n, whole || fitting == n ? "" : "; the others start anew");
done:
  od_free(rows);
  od_graph_free(g);
  od_arena_free(arena);
  return st == OD_OK ? s->st : st;
}

/* Every tensor's bytes against their checksums; false when the checkpoint cannot be opened (said then). */
static bool verify(session *s, const char *path) {
  od_bundle *b;
  if (!fine(s, "checkpoint", od_bundle_open(&b, path))) return false;
  for (size_t i = 0; i < od_bundle_count(b) && s->st == OD_OK && !od_arg_bool(s->a, "fast"); i++)
    (void)fine(s, "checkpoint", od_bundle_verify(b, od_bundle_entry_at(b, i)->name));
  od_bundle_free(b);
  return true;
}

/* Moving averages, where evaluation will ask for them. */
static od_status check_averages(session *s, const char *path) {
  od_bundle *b;
  size_t n = 0;
  if (!OD_SET(s->pipeline.config->eval_config, EvalConfig)->use_moving_averages || od_bundle_open(&b, path) != OD_OK) return OD_OK;
  for (size_t i = 0; i < od_bundle_count(b); i++) n += od_ends_with(od_bundle_entry_at(b, i)->name, "/ExponentialMovingAverage");
  if (n == 0) say(s, "checkpoint", "%s holds no moving averages; eval_config.use_moving_averages asks for them", path);
  od_bundle_free(b);
  return OD_OK;
}

static od_status check_checkpoints(session *s) {
  const char *path = od_arg_text(s->a, "checkpoint");
  const od_pb_pipeline *c = s->pipeline.config;
  od_bundle *b;
  bool whole = path && verify(s, path);
  if (!c || !c->model) return s->st; /* nothing to compare with */
  if (whole) {
    OD_TRY(compare(s, path, (od_fine_tune_mode){.whole = true}, true));
    OD_TRY(check_averages(s, path));
  }
  const od_pb_train *t = c->train_config;
  const char *tune = t && t->fine_tune_checkpoint ? t->fine_tune_checkpoint : "";
  od_fine_tune_mode mode;
  if (!*tune || strstr(tune, "PATH_TO_BE_CONFIGURED") || od_bundle_open(&b, tune) != OD_OK) return s->st; /* said of the config */
  od_bundle_free(b);
  if (od_fine_tune_mode_read(&mode, t) != OD_OK || !verify(s, tune)) return s->st;
  return compare(s, tune, mode, false);
}

/* ---------------------------------------------------------------------------------------------------------------- config */
static od_status check_metrics(session *s, const od_pb_eval *c) {
  static const od_eval_category one = {1, "class"};
  od_eval_options o = od_eval_defaults();
  od_arena *arena;
  od_eval *ev;
  OD_TRY(od_arena_new(&arena));
  if (fine(s, "config", od_eval_options_from_config(&o, c, true, arena))) {
    o.categories = &one;
    o.n_categories = 1;
    if (fine(s, "config", od_eval_new(&ev, &o))) od_eval_free(ev);
  }
  od_arena_free(arena);
  return s->st;
}

static od_status check_memory(session *s) {
  od_train_need need;
  const od_train_options o = {.pipeline = &s->pipeline, .program = OD_PROGRAM_LEGACY, .engine = {.threads = od_arg_int32(s->a, "threads")}};
  if (!fine(s, "memory", od_train_estimate(&need, &o))) return s->st;
  od_info(s->r, "training needs about %.2f GB (step %.2f, weights and optimizer %.2f, pictures %.2f)%s", (double)need.total / 1e9, (double)need.step / 1e9,
          (double)need.state / 1e9, (double)need.input / 1e9, need.height ? "" : " and what a step over the largest picture takes");
  if (od_train_need_check(&need, od_machine_memory()) != OD_OK) say(s, "memory", "%s", od_message());
  return OD_OK;
}

static od_status check_config(session *s) {
  const char *path = od_arg_text(s->a, "pipeline_config_path");
  const od_pb_pipeline *c;
  od_status st = od_load_pipeline(&s->pipeline, s->a);
  if (st == OD_EINVAL || st == OD_EDATA) { /* a finding like any other: the text is wrong */
    char text[OD_MESSAGE_MAX];
    snprintf(text, sizeof text, "%s", od_message());
    char *rest = strchr(text, '\n'); /* the line and its caret: not part of the one line */
    if (rest) *rest = 0;
    say(s, "config", "%s", text);
    if (rest) od_info(s->r, "%s", rest + 1);
    return OD_OK;
  }
  OD_TRY(st);
  c = s->pipeline.config;
  unsigned purposes = (c->train_config || c->train_input_reader ? (unsigned)OD_FOR_TRAIN : 0) | (c->n_eval_input_reader ? (unsigned)OD_FOR_EVAL : 0);
  const od_config_check_options o = {.pipeline = &s->pipeline, .purposes = purposes ? purposes : OD_FOR_DETECT, .whole = true, .reporter = s->r,
                                     .found = on_config, .ctx = s};
  uint64_t before = s->count;
  OD_TRY(od_config_check(&o));
  if (c->eval_config) OD_TRY(check_metrics(s, c->eval_config));
  od_info(s->r, "%s: %s, %llu findings", path, c->model && od_model_kind(c->model) ? od_model_kind(c->model) : "no model", (unsigned long long)(s->count - before));
  if (s->count == before && (purposes & OD_FOR_TRAIN)) OD_TRY(check_memory(s));
  return s->st;
}

static od_status check_all(session *s) {
  const char *const *patterns;
  size_t n = od_arg_list(s->a, "record", &patterns);
  const char *map = od_arg_text(s->a, "label_map_path");
  bool config = od_arg_given(s->a, "pipeline_config_path");
  if (!config && n == 0 && !map && !od_arg_given(s->a, "checkpoint"))
    return od_fail(OD_EUSAGE, "check wants --pipeline_config_path, --record, --label_map_path or --checkpoint");
  if (config) OD_TRY(check_config(s));
  const od_pb_pipeline *c = s->pipeline.config;
  if (n) {
    OD_TRY(check_given_records(s, patterns, n));
  } else if (c) {
    OD_TRY(check_reader(s, "train_input_reader", c->train_input_reader));
    for (size_t i = 0; i < c->n_eval_input_reader; i++) OD_TRY(check_reader(s, "eval_input_reader", c->eval_input_reader[i]));
  } else if (map) {
    od_label_map_free(open_labels(s, map, true));
  }
  OD_TRY(check_checkpoints(s));
  return s->st;
}

static od_status print_json(const session *s) {
  json_t *o = json_pack("{s:I,s:O}", "count", (json_int_t)s->count, "findings", s->findings);
  char *text = o ? json_dumps(o, JSON_INDENT(1)) : NULL;
  od_status st = text && printf("%s\n", text) >= 0 ? OD_OK : od_fail(OD_EIO, "stdout cannot be written");
  free(text);
  json_decref(o);
  return st;
}

static od_status run(const od_args *a, const od_reporter *r) {
  session s = {.a = a, .r = r, .st = OD_OK};
  if (od_arg_bool(a, "json") && !(s.findings = json_array())) return od_fail(OD_ENOMEM, "out of memory");
  od_status st = check_all(&s);
  if (st == OD_OK && s.findings) st = print_json(&s);
  if (st == OD_OK && fflush(stdout) != 0) st = od_fail(OD_EIO, "stdout cannot be written");
  if (st == OD_OK && s.count) st = od_fail(OD_EDATA, "%llu finding%s", (unsigned long long)s.count, s.count > 1 ? "s" : "");
  else if (st == OD_OK) od_info(r, "nothing found");
  json_decref(s.findings);
  od_pipeline_free(&s.pipeline);
  return st;
}

static const od_flag flags[] = {
    {"pipeline_config_path", OD_FLAG_TEXT, NULL, "a pipeline.config: it, its records, label maps and checkpoint are checked"},
    {"record", OD_FLAG_LIST, NULL, "records to check instead of the config's: a file, a pattern; may be given several times"},
    {"label_map_path", OD_FLAG_TEXT, NULL, "label map of the records instead of the config's"},
    {"checkpoint", OD_FLAG_TEXT, NULL, "a checkpoint of this very model: is all of it there?"},
    {"fast", OD_FLAG_BOOL, "false", "do not decode pictures, read their headers only"},
    {"json", OD_FLAG_BOOL, "false", "one JSON object instead of lines"},
    {"set", OD_FLAG_LIST, NULL, "path.in.config=value on top of the config; may be given several times"},
    {"threads", OD_FLAG_INT, "0", "threads; 0: as many as processors"},
    {0},
};

const od_command od_cmd_check = {"check", "looks for mistakes in a config, records, label maps and checkpoints", NULL, flags, run};
