/* Reading checkpoints into a state; see restore.h. Mapping rules: odapi 6.4. */
#include "train/restore.h"

#include <string.h>

#include "base/str.h"
#include "io/bundle.h"
#include "train/train_graph.h"

enum { ROWS_SHOWN = 12 }; /* a message stays readable */

/* The most similar name in the checkpoint: same last part preferred, by edit distance; NULL when nothing is near. */
static const char *nearest_name(const od_bundle *b, const char *wanted) {
  const char *best = NULL;
  int best_distance = 40;
  size_t len = strlen(wanted);
  for (size_t i = 0; i < od_bundle_count(b); i++) {
    const char *name = od_bundle_entry_at(b, i)->name;
    size_t n = strlen(name);
    if (n > len + 30 || len > n + 30) continue;
    int d = od_edit_distance(wanted, name);
    if (d < best_distance) best = name, best_distance = d;
  }
  return best;
}

static od_match_row make_row(const od_bundle *b, const od_variable *v, const char *wanted) {
  od_match_row row = {.variable = v, .wanted = wanted, .have = {-1, {0}}};
  const od_bundle_entry *e = od_bundle_find(b, wanted);
  if (e) {
    row.have = e->shape;
    row.fits = e->known && e->dtype == v->dtype && od_shape_equal(&e->shape, &v->shape);
  }
  return row;
}

/* One line a row: what is wanted, what is there. */
static void describe(od_str *s, const od_match_row *row) {
  char want[OD_SHAPE_TEXT], have[OD_SHAPE_TEXT];
  od_str_addf(s, "\n  %s %s: ", row->wanted, od_shape_text(want, &row->variable->shape));
  if (row->have.rank >= 0) od_str_addf(s, "the checkpoint has %s", od_shape_text(have, &row->have));
  else if (row->nearest) od_str_addf(s, "missing; nearest name %s", row->nearest);
  else od_str_add(s, "missing");
}

static od_status mismatch(const od_bundle *b, od_match_row *rows, size_t n, const char *what) {
  od_str s = OD_STR_INIT;
  size_t bad = 0;
  for (size_t i = 0; i < n; i++) {
    if (rows[i].fits) continue;
    if (bad < ROWS_SHOWN) {
      if (rows[i].have.rank < 0) rows[i].nearest = nearest_name(b, rows[i].wanted);
      describe(&s, &rows[i]);
    }
    bad++;
  }
  if (bad > ROWS_SHOWN) od_str_addf(&s, "\n  and %zu more", bad - ROWS_SHOWN);
  od_status st = od_fail(OD_EMISMATCH, "%s: %zu of %zu variables %s:%s", od_bundle_prefix(b), bad, n, what, od_str_text(&s));
  od_str_free(&s);
  return st;
}

static od_status read_rows(od_state *state, od_bundle *b, const od_match_row *rows, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (rows[i].fits) OD_TRY(od_bundle_read_into(od_state_at(state, rows[i].variable->index), b, rows[i].wanted));
  od_state_touch(state);
  return OD_OK;
}

/* Rows for the chosen variables under the names that `name_of` gives (NULL: not covered). */
typedef const char *(*name_of)(od_arena *arena, const od_variable *v, const void *ctx);

static od_status rows_for(od_match_row **rows, size_t *n, od_arena *arena, const od_graph *g, const od_bundle *b, name_of name, const void *ctx) {
  *n = 0;
  OD_TRY(od_new(rows, od_graph_variables(g) + 1, sizeof **rows));
  for (size_t i = 0; i < od_graph_variables(g); i++) {
    const od_variable *v = od_graph_variable(g, i);
    const char *wanted = name(arena, v, ctx);
    if (wanted) (*rows)[(*n)++] = make_row(b, v, wanted);
  }
  return OD_OK;
}

static const char *model_name(od_arena *arena, const od_variable *v, const void *averages) {
  bool step = strcmp(v->name, "global_step") == 0;
  if (!v->model && !step) return NULL;
  return averages && v->trainable ? od_shadow_name(arena, v->name) : v->name;
}

static od_status restore(od_state *state, const char *path, name_of name, const void *ctx, const char *what) {
  od_bundle *b = NULL;
  od_arena *arena = NULL;
  od_match_row *rows = NULL;
  size_t n = 0, fitting = 0;
  od_status st;
  OD_GO(st, od_arena_new(&arena));
  OD_GO(st, od_bundle_open(&b, path));
  OD_GO(st, rows_for(&rows, &n, arena, od_state_graph(state), b, name, ctx));
  if (n && name == model_name && rows[n - 1].have.rank < 0 && strcmp(rows[n - 1].wanted, "global_step") == 0) n--; /* exports may lack it */
  for (size_t i = 0; i < n; i++) fitting += rows[i].fits;
  if (fitting < n) OD_GO(st, mismatch(b, rows, n, what));
  st = read_rows(state, b, rows, n);
done:
  od_free(rows);
  od_bundle_free(b);
  od_arena_free(arena);
  return st;
}

static const char *every_name(od_arena *arena, const od_variable *v, const void *ctx) {
  (void)arena, (void)ctx;
  return v->name;
}

od_status od_restore_all(od_state *state, const char *path) {
  return restore(state, path, every_name, NULL, "do not fit (is this the checkpoint of this very config?)");
}

od_status od_restore_model(od_state *state, const char *path, bool averages) {
  return restore(state, path, model_name, averages ? state : NULL,
                 averages ? "do not fit (eval_config.use_moving_averages asks for moving averages)" : "do not fit");
}

/* ---------------------------------------------------------------------------------------------------------- fine-tuning */
od_status od_fine_tune_mode_read(od_fine_tune_mode *out, const od_pb_train *c) {
  const char *type = c->fine_tune_checkpoint_type;
  *out = (od_fine_tune_mode){.whole = c->load_all_detection_checkpoint_vars};
  if (!type || !*type) type = c->from_detection_checkpoint ? "detection" : "classification";
  out->classification = strcmp(type, "classification") == 0;
  if (out->classification || strcmp(type, "detection") == 0) return OD_OK;
  return od_fail(OD_EINVAL, "train_config.fine_tune_checkpoint_type is '%s'; there are classification and detection", type);
}

typedef struct {
  const od_model *model;
  od_fine_tune_mode mode;
} tuning;

static const char *tuned_name(od_arena *arena, const od_variable *v, const void *ctx) {
  const tuning *t = ctx;
  (void)arena;
  for (const char *const *scope = od_model_extractor_scopes(t->model->config); *scope; scope++) {
    size_t n = strlen(*scope);
    if (strncmp(v->name, *scope, n) != 0 || v->name[n] != '/') continue;
    if (t->mode.classification) return v->model ? v->name + n + 1 : NULL; /* slots mean nothing there */
    return v->name;
  }
  bool step = strcmp(v->name, "global_step") == 0;
  return t->mode.whole && !t->mode.classification && !step ? v->name : NULL;
}

od_status od_fine_tune_rows(od_match_row **rows, size_t *n, od_arena *arena, const od_model *m, const char *path, od_fine_tune_mode mode) {
  od_bundle *b;
  tuning t = {m, mode};
  OD_TRY(od_bundle_open(&b, path));
  od_status st = rows_for(rows, n, arena, m->graph, b, tuned_name, &t);
  for (size_t i = 0; st == OD_OK && i < *n; i++) {
    od_match_row *row = &(*rows)[i];
    const char *near = row->have.rank < 0 && row->variable->model ? nearest_name(b, row->wanted) : NULL;
    if (near) row->nearest = od_arena_strdup(arena, near);
  }
  od_bundle_free(b);
  return st;
}

static void report_rows(const od_reporter *r, const od_match_row *rows, size_t n, size_t fitting) {
  size_t shown = 0, left = 0;
  od_info(r, "fine-tuning: %zu variables restored", fitting);
  for (size_t i = 0; i < n; i++) {
    if (rows[i].fits || !rows[i].variable->model) continue;
    if (shown++ >= ROWS_SHOWN) {
      left++;
      continue;
    }
    od_str s = OD_STR_INIT;
    describe(&s, &rows[i]);
    od_warn(r, "%s; it starts anew", od_str_text(&s) + 3); /* behind the line break and the indent */
    od_str_free(&s);
  }
  if (left) od_warn(r, "and %zu more variables start anew", left);
}

od_status od_fine_tune(od_state *state, const od_model *m, const char *path, od_fine_tune_mode mode, const od_reporter *r) {
  od_bundle *b = NULL;
  od_match_row *rows = NULL;
  size_t n = 0, fitting = 0;
  tuning t = {m, mode};
  od_status st;
  OD_GO(st, od_bundle_open(&b, path));
  OD_GO(st, rows_for(&rows, &n, NULL, m->graph, b, tuned_name, &t));
  for (size_t i = 0; i < n; i++) fitting += rows[i].fits && rows[i].variable->model;
  if (fitting == 0) OD_GO(st, mismatch(b, rows, n, "do not fit: nothing in this checkpoint belongs to this model"));
  OD_GO(st, read_rows(state, b, rows, n));
  report_rows(r, rows, n, fitting);
done:
  od_free(rows);
  od_bundle_free(b);
  return st;
}

void od_start_averages(od_state *state) {
  const od_graph *g = od_state_graph(state);
  for (size_t i = 0; i < od_graph_variables(g); i++) {
    const od_variable *v = od_graph_variable(g, i);
    static const char suffix[] = "/ExponentialMovingAverage";
    if (v->model || !od_ends_with(v->name, suffix)) continue;
    char name[1024];
    size_t n = strlen(v->name) - (sizeof suffix - 1);
    if (n >= sizeof name) continue;
    memcpy(name, v->name, n);
    name[n] = 0;
    const od_tensor *from = od_state_tensor(state, name);
    if (from) memcpy(od_state_at(state, v->index)->data, from->data, od_tensor_bytes(from));
  }
  od_state_touch(state);
}
