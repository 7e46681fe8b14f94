/* Writing checkpoints; see saver.h. */
#include "train/saver.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "io/bundle.h"
#include "io/checkpoint_state.h"
#include "io/file.h"
#include "io/metagraph.h"

struct od_saver {
  char *folder;
  int keep;
  double hours;
  od_checkpoint_state state; /* its last_preserved + hours: from then on a checkpoint may be kept for good */
  char *last;
};

/* ------------------------------------------------------------------------------------------------------------- sidecar */
static char *sidecar_path(const char *prefix) {
  od_str s = OD_STR_INIT;
  od_str_addf(&s, "%s.objdet", prefix);
  return od_str_take(&s);
}

static od_status sidecar_write(const char *prefix, const od_sidecar *c) {
  json_t *j = json_pack("{s:i,s:i,s:s,s:s,s:s,s:s}", "version", 1, "threads", c->threads, "precision", c->precision, "engine", c->engine,
                        "processor", c->processor, "program", c->version);
  char number[32];
  const struct {
    const char *key;
    uint64_t value;
  } wide[] = {{"seed", c->seed}, {"position", c->position}, {"fingerprint", c->fingerprint}};
  for (int i = 0; j && i < 3; i++) { /* as text: JSON numbers lose bits of 64 */
    snprintf(number, sizeof number, "%llu", (unsigned long long)wide[i].value);
    json_object_set_new(j, wide[i].key, json_string(number));
  }
  char *text = j ? json_dumps(j, JSON_INDENT(1) | JSON_SORT_KEYS) : NULL, *path = sidecar_path(prefix);
  od_status st = text && path ? od_file_write_all(path, text, strlen(text)) : od_fail(OD_ENOMEM, "out of memory: sidecar of %s", prefix);
  od_free(path);
  free(text);
  json_decref(j);
  return st;
}

static uint64_t wide_number(const json_t *j, const char *key) {
  const char *text = json_string_value(json_object_get(j, key));
  return text ? strtoull(text, NULL, 10) : 0;
}

static void copy_text(char *out, size_t size, const json_t *j, const char *key) {
  const char *text = json_string_value(json_object_get(j, key));
  snprintf(out, size, "%s", text ? text : "");
}

od_status od_sidecar_read(od_sidecar *out, const char *prefix) {
  char *path = sidecar_path(prefix), *text = NULL;
  size_t size;
  if (!path) return OD_ENOMEM;
  od_status st = od_file_read_all(&text, &size, path, 1 << 20);
  json_error_t error;
  json_t *j = st == OD_OK ? json_loadb(text, size, 0, &error) : NULL;
  if (st == OD_OK && (!j || json_integer_value(json_object_get(j, "version")) != 1))
    st = od_fail(OD_EDATA, "%s: no sidecar of this version; delete it to resume without exactness", path);
  if (st == OD_OK) {
    *out = (od_sidecar){.seed = wide_number(j, "seed"), .position = wide_number(j, "position"), .fingerprint = wide_number(j, "fingerprint"),
                        .threads = (int)json_integer_value(json_object_get(j, "threads"))};
    copy_text(out->precision, sizeof out->precision, j, "precision");
    copy_text(out->engine, sizeof out->engine, j, "engine");
    copy_text(out->processor, sizeof out->processor, j, "processor");
    copy_text(out->version, sizeof out->version, j, "program");
  }
  json_decref(j);
  od_free(text);
  od_free(path);
  return st;
}

/* ---------------------------------------------------------------------------------------------------------- checkpoint */
od_status od_checkpoint_write(const char *prefix, const od_state *state, bool (*keep)(const od_variable *v)) {
  const od_graph *g = od_state_graph(state);
  size_t n_all = od_graph_variables(g), n = 0;
  od_named_tensor *tensors = NULL;
  od_meta_variable *meta = NULL;
  od_str path = OD_STR_INIT;
  od_status st;
  OD_GO(st, od_new(&tensors, n_all + 1, sizeof *tensors));
  OD_GO(st, od_new(&meta, n_all + 1, sizeof *meta));
  for (size_t i = 0; i < n_all; i++) {
    const od_variable *v = od_graph_variable(g, i);
    if (keep && !keep(v)) continue;
    tensors[n] = (od_named_tensor){v->name, *od_state_at(state, v->index)};
    meta[n++] = (od_meta_variable){v->name, v->dtype, v->shape, v->trainable};
  }
  OD_GO(st, od_bundle_write(prefix, tensors, n));
  od_str_addf(&path, "%s.meta", prefix);
  OD_GO(st, od_str_check(&path));
  st = od_metagraph_write(od_str_text(&path), meta, n);
done:
  od_str_free(&path);
  od_free(tensors);
  od_free(meta);
  return st;
}

/* --------------------------------------------------------------------------------------------------------------- saver */
od_status od_saver_new(od_saver **out, const char *folder, int keep, double keep_every_n_hours) {
  od_saver *s;
  od_status st;
  OD_TRY(od_new(&s, 1, sizeof *s));
  s->keep = keep;
  s->hours = keep_every_n_hours;
  s->folder = od_strdup(folder);
  if (!s->folder) OD_GO(st, OD_ENOMEM);
  OD_GO(st, od_path_make_dirs(folder));
  od_file_remove_stale(folder);
  st = od_checkpoint_state_read(&s->state, folder);
  if (st == OD_ENOENT) st = OD_OK;
  if (s->state.last_preserved <= 0) s->state.last_preserved = (double)time(NULL);
done:
  if (st != OD_OK) od_saver_free(s);
  else *out = s;
  return st;
}

void od_saver_free(od_saver *s) {
  if (!s) return;
  od_checkpoint_state_free(&s->state);
  od_free(s->folder);
  od_free(s->last);
  od_free(s);
}

/* Deletes the files of a checkpoint that is no longer listed; what is already gone does not matter. */
static void delete_checkpoint(const char *prefix) {
  static const char *const suffixes[] = {"", ".index", ".meta", ".objdet", ".data-00000-of-00001"};
  for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
    od_str path = OD_STR_INIT;
    od_str_addf(&path, "%s%s", prefix, suffixes[i]);
    if (od_str_text(&path)[0]) unlink(od_str_text(&path));
    od_str_free(&path);
  }
}

/* Takes the i-th entry off the list. */
static void unlist(od_checkpoint_state *c, size_t i) {
  od_free(c->all.items[i]);
  memmove(&c->all.items[i], &c->all.items[i + 1], sizeof *c->all.items * (c->all.count - i - 1));
  if (c->time_count == c->all.count) {
    memmove(&c->times[i], &c->times[i + 1], sizeof *c->times * (c->time_count - i - 1));
    c->time_count--;
  }
  c->all.count--;
}

static od_status list_newest(od_checkpoint_state *c, const char *prefix) {
  for (size_t i = 0; i < c->all.count; i++)
    if (strcmp(c->all.items[i], prefix) == 0) {
      unlist(c, i);
      break;
    }
  bool timed = c->time_count == c->all.count;
  double *times = od_realloc(c->times, sizeof *times * (c->all.count + 1));
  if (!times) return OD_ENOMEM;
  c->times = times;
  OD_TRY(od_strings_add(&c->all, prefix));
  if (timed) c->times[c->time_count++] = (double)time(NULL);
  od_free(c->latest);
  c->latest = od_strdup(prefix);
  return c->latest ? OD_OK : OD_ENOMEM;
}

od_status od_saver_save(od_saver *s, const char **prefix, const od_state *state, uint64_t step, const od_sidecar *sidecar) {
  od_str path = OD_STR_INIT;
  od_str_addf(&path, "%s/model.ckpt-%llu", s->folder, (unsigned long long)step);
  od_free(s->last);
  s->last = od_str_take(&path);
  if (!s->last) return OD_ENOMEM;
  OD_TRY(od_checkpoint_write(s->last, state, NULL));
  OD_TRY(sidecar_write(s->last, sidecar));
  OD_TRY(list_newest(&s->state, s->last));
  char *old[64];
  size_t n_old = 0;
  while (s->keep > 0 && s->state.all.count > (size_t)s->keep && n_old < 64) {
    double made = s->state.time_count == s->state.all.count ? s->state.times[0] : 0;
    bool preserved = s->hours > 0 && made > s->state.last_preserved + s->hours * 3600;
    if (preserved) s->state.last_preserved = made;
    char *copy = preserved ? NULL : od_strdup(s->state.all.items[0]);
    unlist(&s->state, 0);
    if (copy) old[n_old++] = copy;
  }
  od_status st = od_checkpoint_state_write(s->folder, &s->state);
  for (size_t i = 0; i < n_old; i++) { /* only after the list no longer names them */
    if (st == OD_OK) delete_checkpoint(old[i]);
    od_free(old[i]);
  }
  *prefix = s->last;
  return st;
}
