/* Refusing early; see check.h. */
#include "train/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "data/label_map.h"
#include "io/checkpoint_state.h"
#include "io/file.h"
#include "io/path.h"

/* ---------------------------------------------------------------------------------------------------------------- paths */
typedef struct {
  const od_pipeline *pipeline;
  const void *message;
  const char *section, *field;
  size_t index;
} place;

/* "pets.config:152: train_input_reader.label_map_path" or without the place where it is not known. */
static void name_place(char *text, size_t size, const place *p) {
  od_textplace at;
  if (p->pipeline->pos && od_textpos_find_name(p->pipeline->pos, p->message, p->field, p->index, &at) && at.line > 0)
    snprintf(text, size, "%s:%d: %s%s", at.name, at.line, p->section, p->field);
  else
    snprintf(text, size, "%s%s", p->section, p->field);
}

static od_status configured(const place *p, const char *path, const char *advice) {
  char where[1024];
  if (!path || !strstr(path, "PATH_TO_BE_CONFIGURED")) return OD_OK;
  name_place(where, sizeof where, p);
  return od_fail(OD_EINVAL, "%s still is '%s': %s", where, path, advice);
}

static od_status check_label_map(const od_train_options *o, const place *p, const char *path) {
  od_label_map *map;
  char where[1024];
  int k = (int)od_model_num_classes(o->pipeline->config->model);
  name_place(where, sizeof where, p);
  OD_TRY(od_fail_context(od_label_map_load(&map, path), "%s", where));
  int max = od_label_map_max_id(map), unnamed = 0;
  for (int id = 1; id <= k; id++) unnamed += od_label_map_name(map, id, false) == NULL;
  od_status st = OD_OK;
  if (max > k) {
    st = od_fail(OD_EINVAL, "%s: %s has ids up to %d (%s), model num_classes is %d: they must agree", where, path, max, od_label_map_name(map, max, false), k);
  } else if (unnamed) {
    od_warn(o->reporter, "%s: %s names %d of the model's %d classes", where, path, k - unnamed, k);
  }
  od_label_map_free(map);
  return st;
}

static od_status check_reader(const od_train_options *o, const od_pb_reader *r, const char *section) {
  const ObjectDetection__Protos__TFRecordInputReader *records = r->tf_record_input_reader;
  place label = {o->pipeline, r, section, "label_map_path", 0};
  OD_TRY(configured(&label, r->label_map_path, "replace PATH_TO_BE_CONFIGURED by the folder of the label map"));
  if (r->label_map_path && r->label_map_path[0]) OD_TRY(check_label_map(o, &label, r->label_map_path));
  for (size_t i = 0; records && i < records->n_input_path; i++) {
    place path = {o->pipeline, records, section, "tf_record_input_reader.input_path", i};
    path.field = "input_path";
    OD_TRY(configured(&path, records->input_path[i], "replace PATH_TO_BE_CONFIGURED by the folder of the records"));
  }
  return OD_OK;
}

od_status od_train_check(const od_train_options *o, bool resuming) {
  const od_pb_pipeline *c = o->pipeline->config;
  if (!c->model) return od_fail(OD_EINVAL, "the config has no model");
  if (!c->train_config) return od_fail(OD_EINVAL, "the config has no train_config");
  if (!c->train_input_reader) return od_fail(OD_EINVAL, "the config has no train_input_reader");
  OD_TRY(check_reader(o, c->train_input_reader, "train_input_reader."));
  const char *tune = c->train_config->fine_tune_checkpoint;
  if (resuming || !tune || !tune[0]) return OD_OK;
  place p = {o->pipeline, c->train_config, "train_config.", "fine_tune_checkpoint", 0};
  return configured(&p, tune, "put the path of a checkpoint there, or remove the field to train from scratch");
}

/* --------------------------------------------------------------------------------------------------------------- memory */
static size_t number_in(const char *path) {
  char *text;
  size_t size, n = 0;
  if (access(path, R_OK) != 0 || od_file_read_all(&text, &size, path, 4096) != OD_OK) return 0;
  n = (size_t)strtoull(text, NULL, 10); /* "max": 0 */
  od_free(text);
  return n;
}

size_t od_machine_memory(void) {
  static const char *const limits[] = {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
  size_t all = pages > 0 && page > 0 ? (size_t)pages * (size_t)page : 0;
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    size_t limit = number_in(limits[i]);
    if (limit > 0 && (all == 0 || limit < all)) all = limit;
  }
  return all;
}

static double gb(size_t bytes) { return (double)bytes / 1e9; }

od_status od_train_need_check(const od_train_need *n, size_t available) {
  char advice[256] = "take smaller pictures (image_resizer), --precision=bf16, or a smaller model";
  if (available == 0 || n->total <= available) return OD_OK;
  if (n->pictures > 1 && n->state < available) {
    double each = (double)(n->total - n->state) / n->pictures;
    int fits = (int)((double)(available - n->state) / each * 0.9); /* a little room for the rest of the machine */
    snprintf(advice, sizeof advice, "lower train_config.batch_size (%d pictures at a time would fit), take smaller pictures (image_resizer), or --precision=bf16",
             fits > 1 ? fits : 1);
  }
  return od_fail(OD_ENOMEM, "this run needs about %.1f GB (%.1f for a step over %d pictures of %dx%d, %.1f for weights and what the optimizer keeps, %.1f for pictures "
                            "read ahead), this machine has %.1f GB: %s",
                 gb(n->total), gb(n->step), n->pictures, n->height, n->width, gb(n->state), gb(n->input), gb(available), advice);
}
