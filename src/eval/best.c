/* The best checkpoint; see best.h. */
#include "eval/best.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/str.h"
#include "io/checkpoint_state.h"
#include "io/file.h"
#include "io/path.h"

enum { SAFE_TO_STOP = 5 };

static const od_metric *find_metric(const od_best_options *o, const od_metric *metrics, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (o->metric ? strcmp(metrics[i].tag, o->metric) == 0 : strstr(metrics[i].tag, "mAP") != NULL) return &metrics[i];
  return NULL;
}

static od_status unknown_metric(const od_best_options *o, const od_metric *metrics, size_t n) {
  const char *tags[256] = {NULL};
  size_t k = 0;
  for (size_t i = 0; i < n && k < 256; i++) tags[k++] = metrics[i].tag;
  const char *near = o->metric ? od_did_you_mean(o->metric, tags, k) : NULL;
  if (near) return od_fail(OD_EINVAL, "the evaluation has no figure '%s'; did you mean '%s'?", o->metric, near);
  return od_fail(OD_EINVAL, "the evaluation has no figure '%s'; its first is '%s'", o->metric ? o->metric : "mAP",
                 n ? metrics[0].tag : "");
}

/* Files of a checkpoint, data first; an index without data would look like a checkpoint. */
static const char *const suffixes[] = {".data-00000-of-00001", ".index", ".meta", ".objdet"};
enum { N_SUFFIXES = sizeof suffixes / sizeof *suffixes };

static od_status copy_files(const char *from, const char *to) {
  od_str a = OD_STR_INIT, b = OD_STR_INIT;
  od_status st = OD_OK;
  for (int i = 0; i < N_SUFFIXES && st == OD_OK; i++) {
    od_str_clear(&a);
    od_str_clear(&b);
    od_str_addf(&a, "%s%s", from, suffixes[i]);
    od_str_addf(&b, "%s%s", to, suffixes[i]);
    st = od_str_check(&a);
    if (st == OD_OK) st = od_str_check(&b);
    if (st == OD_OK && od_path_exists(od_str_text(&a))) st = od_file_copy(od_str_text(&a), od_str_text(&b));
  }
  od_str_free(&a);
  od_str_free(&b);
  return st;
}

static od_status remove_files(const char *prefix) {
  od_str a = OD_STR_INIT;
  od_status st = OD_OK;
  for (int i = N_SUFFIXES; i-- > 0 && st == OD_OK;) {
    od_str_clear(&a);
    od_str_addf(&a, "%s%s", prefix, suffixes[i]);
    st = od_str_check(&a);
    if (st == OD_OK && od_path_exists(od_str_text(&a))) st = od_path_remove(od_str_text(&a));
  }
  od_str_free(&a);
  return st;
}

/* Copies the checkpoint into the folder, names it in the folder's `checkpoint` file and removes the best one before it. */
static od_status copy_checkpoint(const char *folder, const char *prefix) {
  char *target = NULL;
  od_checkpoint_state state = {0}, before = {0};
  od_status st = od_checkpoint_state_read(&before, folder);
  if (st == OD_ENOENT) st = OD_OK; /* the first */
  if (st != OD_OK) goto done;
  OD_GO(st, od_path_make_dirs(folder));
  OD_GO(st, od_path_join(&target, folder, od_path_base(prefix)));
  OD_GO(st, copy_files(prefix, target));
  OD_GO(st, od_strings_add(&state.all, target));
  state.latest = od_strdup(target);
  OD_GO(st, state.latest ? od_checkpoint_state_write(folder, &state) : OD_ENOMEM);
  if (before.latest && strcmp(od_path_base(before.latest), od_path_base(target)) != 0) st = remove_files(before.latest);
done:
  od_checkpoint_state_free(&before);
  od_checkpoint_state_free(&state);
  od_free(target);
  return st;
}

static json_t *load(const char *path) {
  char *text = NULL;
  size_t size;
  json_error_t error;
  if (od_file_read_all(&text, &size, path, 1 << 20) != OD_OK) return NULL;
  json_t *j = json_loadb(text, size, 0, &error);
  od_free(text);
  return j;
}

static od_status store(const char *path, const json_t *j) {
  char *text = json_dumps(j, JSON_INDENT(1) | JSON_SORT_KEYS);
  od_status st = text ? od_file_write_all(path, text, strlen(text)) : od_fail(OD_ENOMEM, "out of memory: %s", path);
  free(text);
  return st;
}

od_status od_best_note(const od_best_options *o, const char *checkpoint, int64_t step, const od_metric *metrics,
                       size_t n, bool *stop) {
  const od_metric *m = find_metric(o, metrics, n);
  char *path = NULL;
  if (!m) return unknown_metric(o, metrics, n);
  OD_TRY(od_path_make_dirs(o->folder));
  OD_TRY(od_path_join(&path, o->folder, "best.json"));
  json_t *old = load(path);
  const char *old_tag = json_string_value(json_object_get(old, "metric"));
  bool comparable = old && old_tag && strcmp(old_tag, m->tag) == 0 && json_is_number(json_object_get(old, "value"));
  double best = comparable ? json_number_value(json_object_get(old, "value")) : NAN;
  bool smaller = strcasestr(m->tag, "loss") != NULL;
  bool better = !isnan(m->value) && (!comparable || (smaller ? m->value < best : m->value > best));
  long long since = better ? 0 : (comparable ? json_integer_value(json_object_get(old, "evaluations_since")) + 1 : 1);
  json_t *now = json_object();
  json_object_set_new(now, "metric", json_string(m->tag));
  json_object_set_new(now, "value", better || !isnan(best) ? json_real(better ? m->value : best) : json_null());
  json_object_set_new(now, "global_step",
                      better || !comparable ? json_integer(step) : json_incref(json_object_get(old, "global_step")));
  json_object_set_new(now, "evaluations_since", json_integer(since));
  od_status st = better && o->keep ? copy_checkpoint(o->folder, checkpoint) : OD_OK;
  if (st == OD_OK) st = store(path, now);
  long long best_step = json_integer_value(json_object_get(now, "global_step"));
  if (st == OD_OK && better)
    od_info(o->reporter, "best so far: %s = %.4f at step %lld", m->tag, m->value, (long long)step);
  if (st == OD_OK && o->patience > 0 && since >= o->patience) {
    *stop = true;
    od_info(o->reporter, "%lld evaluations brought nothing better than %s = %.4f at step %lld: stopping", since, m->tag,
            best, best_step);
  } else if (st == OD_OK && o->patience <= 0 && since >= SAFE_TO_STOP) {
    od_info(o->reporter, "%lld evaluations brought nothing better than %s = %.4f at step %lld: safe to stop", since,
            m->tag, best, best_step);
  }
  json_decref(old);
  json_decref(now);
  od_free(path);
  return st;
}
