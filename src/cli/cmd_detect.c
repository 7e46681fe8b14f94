/* objdet detect: looks at pictures with a checkpoint, a frozen graph or a SavedModel (ours or the original's); draws the boxes,
 * writes detections.jsonl. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/command.h"
#include "cli/common.h"
#include "eval/detector.h"
#include "eval/graph_detector.h"
#include "eval/pictures.h"
#include "image/decode.h"
#include "image/encode.h"
#include "io/file.h"
#include "io/path.h"
#include "model/fields.h"

typedef struct {
  const od_args *a;
  const od_reporter *r;
  od_pipeline pipeline;
  od_detector *detector;    /* a checkpoint, */
  od_graph_detector *graph; /* or a graph */
  od_label_map *labels;     /* may be NULL */
  const char *folder;
  od_map *names;  /* of the drawn pictures written so far */
  od_file *lines; /* detections.jsonl: appears whole at the end */
  double seconds;
  uint64_t looked, bad;
} session;

/* ------------------------------------------------------------------------------------------------------------ pictures */
static bool is_picture(const char *name) {
  static const char *const endings[] = {".jpg", ".jpeg", ".png", ".bmp", ".gif"};
  const char *dot = strrchr(name, '.');
  for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++)
    if (strcasecmp(dot, endings[i]) == 0) return true;
  return false;
}

static od_status list_folder(od_strings *out, const char *folder) {
  od_strings names = OD_STRINGS_INIT;
  size_t before = out->count;
  od_status st = od_path_list(&names, folder);
  for (size_t k = 0; k < names.count && st == OD_OK; k++) {
    char *path = NULL;
    if (!is_picture(names.items[k])) continue;
    st = od_path_join(&path, folder, names.items[k]);
    if (st == OD_OK) st = od_strings_add(out, path);
    od_free(path);
  }
  od_strings_free(&names);
  if (st != OD_OK || out->count > before) return st;
  return od_fail(OD_ENOENT, "%s holds no pictures (jpg, png, bmp, gif)", folder);
}

/* Trouble with one picture: it is named and counted, the others are looked at. */
static od_status forgive(session *s, od_status st) {
  if (st != OD_ENOENT && st != OD_EDATA && st != OD_EIO && st != OD_EUNSUPPORTED) return st;
  od_warn(s->r, "%s", od_message());
  s->bad++;
  return OD_OK;
}

/* Files, folders (their pictures, sorted) and patterns. */
static od_status list_pictures(od_strings *out, session *s, const char *const *words, size_t n) {
  for (size_t i = 0; i < n; i++)
    OD_TRY(forgive(s, od_path_is_dir(words[i]) ? list_folder(out, words[i]) : od_path_glob(out, words[i])));
  return out->count ? OD_OK : od_fail(OD_ENOENT, "there is no picture to look at");
}

/* Drawn pictures beside the ones that are looked at would replace them, or be looked at the next time. */
static od_status refuse_own_folder(const session *s, const od_strings *files) {
  char *own = realpath(s->folder, NULL), *last = NULL;
  od_status st = OD_OK;
  for (size_t i = 0; own && i < files->count && st == OD_OK; i++) {
    char *folder = NULL;
    st = od_path_dir(&folder, files->items[i]);
    if (st == OD_OK && (!last || strcmp(last, folder) != 0)) { /* files of one folder come together */
      char *real = realpath(folder, NULL);
      if (real && strcmp(real, own) == 0)
        st = od_fail(
            OD_EUSAGE,
            "--output_directory %s holds the pictures themselves (%s): drawn pictures want a folder of their own",
            s->folder, files->items[i]);
      free(real);
    }
    od_free(last);
    last = folder;
  }
  od_free(last);
  free(own);
  return st;
}

#define FILE_BYTES_MAX ((uint64_t)1 << 30)

static od_status load(od_image *out, const char *path) {
  char *bytes = NULL;
  size_t size;
  OD_TRY(od_file_read_all(&bytes, &size, path, FILE_BYTES_MAX));
  od_status st = od_fail_context(od_image_decode(out, bytes, size, 3), "%s", path);
  od_free(bytes);
  return st;
}

/* ------------------------------------------------------------------------------------------------------------- results */
/* JSON is Unicode, names of files are bytes: what is no UTF-8 becomes question marks. */
static json_t *file_name(const char *path) {
  json_t *j = json_string(path);
  if (j) return j;
  char *plain = od_strdup(path);
  for (char *c = plain; c && *c; c++)
    if ((unsigned char)*c >= 0x80) *c = '?';
  j = plain ? json_string(plain) : NULL;
  od_free(plain);
  return j;
}

static json_t *detections_json(const session *s, const char *path, const od_image *image, const od_detections *d,
                               double least) {
  json_t *list = json_array();
  for (int i = 0; i < d->n; i++) {
    const float *b = d->boxes + 4 * i;
    const char *name = s->labels ? od_label_map_name(s->labels, d->classes[i], true) : NULL;
    if (!((double)d->scores[i] >= least)) continue;
    json_t *o = json_pack("{s:i,s:f,s:[f,f,f,f]}", "class", d->classes[i], "score", (double)d->scores[i], "box",
                          (double)b[0], (double)b[1], (double)b[2], (double)b[3]);
    if (name) json_object_set_new(o, "name", json_string(name));
    json_array_append_new(list, o);
  }
  return json_pack("{s:o,s:i,s:i,s:o}", "image", file_name(path), "height", image->height, "width", image->width,
                   "detections", list);
}

static od_status note(session *s, const char *path, const od_image *image, const od_detections *d) {
  json_t *j = detections_json(s, path, image, d, od_arg_float(s->a, "min_score_json"));
  char *line = json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(9) | JSON_SORT_KEYS);
  json_decref(j);
  if (!line) return od_fail(OD_ENOMEM, "out of memory: detections of %s", path);
  od_status st = od_file_write(s->lines, line, strlen(line));
  if (st == OD_OK) st = od_file_write(s->lines, "\n", 1);
  if (st == OD_OK && od_arg_bool(s->a, "json") && printf("%s\n", line) < 0)
    st = od_fail(OD_EIO, "stdout cannot be written");
  free(line);
  return st;
}

/* "<name>.jpg" in the output folder; pictures of one name from several folders get _1, _2 ... */
static od_status target_of(char **out, session *s, const char *path) {
  const char *base = od_path_base(path), *dot = strrchr(base, '.');
  int length = dot && dot != base ? (int)(dot - base) : (int)strlen(base);
  od_str name = OD_STR_INIT;
  od_status st;
  for (int i = 0;; i++) {
    od_str_clear(&name);
    if (i)
      od_str_addf(&name, "%.*s_%d.jpg", length, base, i);
    else
      od_str_addf(&name, "%.*s.jpg", length, base);
    OD_GO(st, od_str_check(&name));
    if (!od_map_has(s->names, od_str_text(&name))) break;
  }
  OD_GO(st, od_map_set(s->names, od_str_text(&name), s));
  st = od_path_join(out, s->folder, od_str_text(&name));
done:
  od_str_free(&name);
  return st;
}

static od_status write_picture(session *s, const char *path, od_image *image, const od_detections *d) {
  od_str bytes = OD_STR_INIT;
  char *target = NULL;
  od_status st;
  OD_GO(st, od_draw_detections(image, d, s->labels, (float)od_arg_float(s->a, "min_score"),
                               od_arg_int32(s->a, "max_boxes"), s->r));
  OD_GO(st, od_jpeg_encode(&bytes, image, 92));
  OD_GO(st, target_of(&target, s, path));
  st = od_file_write_all(target, bytes.data, bytes.len);
done:
  od_free(target);
  od_str_free(&bytes);
  return st;
}

static od_status look_at(session *s, const char *path) {
  od_image image = {0};
  od_detections found;
  od_status st;
  st = load(&image, path);
  if (st != OD_OK) {
    od_image_free(&image);
    return forgive(s, st);
  }
  double start = od_now();
  OD_GO(st,
        s->detector ? od_detector_look(s->detector, &image, &found) : od_graph_detector_look(s->graph, &image, &found));
  s->seconds += od_now() - start;
  s->looked++;
  OD_GO(st, note(s, path, &image, &found));
  st = write_picture(s, path, &image, &found);
done:
  od_image_free(&image);
  return st;
}

/* --------------------------------------------------------------------------------------------------------------- setup */
static od_status open_labels(session *s) {
  const char *path = od_arg_text(s->a, "label_map_path");
  const od_pb_pipeline *c = s->pipeline.config;
  if (!path && c && c->n_eval_input_reader) path = c->eval_input_reader[0]->label_map_path;
  bool own = od_arg_given(s->a, "label_map_path");
  if (!path || !*path || (!own && !od_path_is_file(path))) { /* the config's path is of the training machine */
    od_warn(s->r, "no label map (--label_map_path): classes are shown by number");
    return OD_OK;
  }
  return od_label_map_load(&s->labels, path);
}

static od_status open_session(session *s) {
  const char *checkpoint = od_arg_text(s->a, "checkpoint"), *graph = od_arg_text(s->a, "graph"),
             *saved = od_arg_text(s->a, "saved_model");
  OD_TRY(od_arg_required(s->a, "output_directory"));
  if ((checkpoint != NULL) + (graph != NULL) + (saved != NULL) != 1)
    return od_fail(OD_EUSAGE,
                   "detect wants one of --checkpoint (with --pipeline_config_path), --graph and --saved_model");
  if (checkpoint) {
    OD_TRY(od_load_pipeline(&s->pipeline, s->a));
    OD_TRY(od_fields_check(&s->pipeline, OD_FOR_DETECT, s->r));
    od_detector_options o = {.model = s->pipeline.config->model,
                             .averages = OD_SET(s->pipeline.config->eval_config, EvalConfig)->use_moving_averages};
    OD_TRY(od_read_engine_flags(&o.engine, s->a));
    OD_TRY(od_detector_new(&s->detector, &o));
    OD_TRY(od_detector_restore(s->detector, checkpoint));
  } else {
    OD_TRY(od_graph_detector_new(&s->graph, graph ? graph : saved));
  }
  return open_labels(s);
}

/* The plan for the size of this picture is made while another is looked at. What is wrong with the file is said when its turn comes. */
static void expect(session *s, const char *path) {
  od_resizer_size size;
  char *bytes = NULL;
  size_t n;
  int h, w, channels;
  if (!s->detector || od_file_read_all(&bytes, &n, path, FILE_BYTES_MAX) != OD_OK) return;
  if (od_image_size(&h, &w, &channels, bytes, n) == OD_OK &&
      od_resizer_target(&size, od_detector_resizer(s->detector), h, w) == OD_OK)
    od_detector_expect(s->detector, NULL, size.out_height, size.out_width);
  od_free(bytes);
}

/* All pictures; a stop leaves behind what was done until then. */
static od_status look_at_each(session *s, const od_strings *files) {
  od_progress progress;
  od_status st = OD_OK;
  od_progress_start(&progress, s->r, "pictures", 0, files->count);
  for (size_t i = 0; i < files->count && st == OD_OK; i++) {
    st = od_stop_check();
    if (i + 1 < files->count) expect(s, files->items[i + 1]);
    if (st == OD_OK) st = look_at(s, files->items[i]);
    od_progress_step(&progress, i + 1);
  }
  od_progress_end(&progress);
  return st;
}

static od_status look_at_all(session *s, const od_strings *files) {
  char *path = NULL;
  OD_TRY(refuse_own_folder(s, files));
  OD_TRY(od_path_make_dirs(s->folder));
  OD_TRY(od_map_new(&s->names));
  OD_TRY(od_path_join(&path, s->folder, "detections.jsonl"));
  od_status st = od_file_replace(&s->lines, path);
  od_free(path);
  OD_TRY(st);
  st = look_at_each(s, files);
  if (st != OD_OK && st != OD_ESTOPPED) return st;
  od_file *lines = s->lines;
  s->lines = NULL;
  OD_TRY(od_file_close(lines));
  od_info(s->r, "%llu pictures, %.1f a second; drawn pictures and detections.jsonl in %s",
          (unsigned long long)s->looked, s->seconds > 0 ? (double)s->looked / s->seconds : 0, s->folder);
  if (st == OD_ESTOPPED)
    return od_fail(st, "stopped after %llu of %zu pictures", (unsigned long long)s->looked, files->count);
  if (s->bad)
    return od_fail(OD_EDATA, "%llu of what was named could not be looked at (see above)", (unsigned long long)s->bad);
  return OD_OK;
}

static od_status run(const od_args *a, const od_reporter *r) {
  session s = {.a = a, .r = r, .folder = od_arg_text(a, "output_directory")};
  const char *const *words;
  size_t n = od_arg_words(a, &words);
  od_strings files = OD_STRINGS_INIT;
  if (n == 0) return od_fail(OD_EUSAGE, "detect wants pictures, or folders of pictures");
  od_status st = open_session(&s);
  if (st == OD_OK) st = list_pictures(&files, &s, words, n);
  if (st == OD_OK) st = look_at_all(&s, &files);
  od_strings_free(&files);
  od_file_drop(s.lines);
  od_map_free(s.names);
  od_detector_free(s.detector);
  od_graph_detector_free(s.graph);
  od_label_map_free(s.labels);
  od_pipeline_free(&s.pipeline);
  return st;
}

static const od_flag flags[] = {
    {"checkpoint", OD_FLAG_TEXT, NULL, "a checkpoint: prefix, .index, .data file or folder"},
    {"pipeline_config_path", OD_FLAG_TEXT, NULL, "the checkpoint's pipeline.config"},
    {"graph", OD_FLAG_TEXT, NULL, "a frozen graph, or a folder that export_inference_graph wrote"},
    {"saved_model", OD_FLAG_TEXT, NULL, "a SavedModel folder"},
    {"label_map_path", OD_FLAG_TEXT, NULL, "label map for the names; default: the config's"},
    {"output_directory", OD_FLAG_TEXT, NULL, "takes the drawn pictures and detections.jsonl"},
    {"min_score", OD_FLAG_FLOAT, "0.5", "boxes above this score are drawn"},
    {"max_boxes", OD_FLAG_INT, "20", "at most so many are drawn"},
    {"min_score_json", OD_FLAG_FLOAT, "0", "detections from this score on are written to detections.jsonl"},
    {"json", OD_FLAG_BOOL, "false", "print the JSON lines to stdout too"},
    OD_COMMON_FLAGS,
    {0},
};

const od_command od_cmd_detect = {"detect", "looks at pictures with a checkpoint, a frozen graph or a SavedModel",
                                  "IMAGES...", flags, run};
