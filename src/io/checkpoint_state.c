/* Reading and writing the `checkpoint` file, see checkpoint_state.h. It is text format of a message with four fields of texts
 * and numbers: a small reader of its own, since nothing here may stop a training run but a file that is truly broken. */
#include "io/checkpoint_state.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "io/file.h"

enum { MAX_FILE = 16 << 20 };

typedef struct {
  const char *at;
  int line;
} reader;

static void skip_space(reader *r) {
  for (;; r->at++) {
    if (*r->at == '#')
      while (*r->at && *r->at != '\n') r->at++;
    if (*r->at == '\n') r->line++;
    if (!*r->at || !(isspace((unsigned char)*r->at) || *r->at == ';' || *r->at == ',')) return;
  }
}

/* One escape behind its backslash. */
static char escape(reader *r) {
  char c = *r->at++;
  if (c >= '0' && c <= '7') {
    int v = c - '0';
    for (int i = 0; i < 2 && *r->at >= '0' && *r->at <= '7'; i++) v = v * 8 + (*r->at++ - '0');
    return (char)v;
  }
  if (c == 'x' && isxdigit((unsigned char)*r->at)) {
    char hex[3] = {*r->at++, 0, 0};
    if (isxdigit((unsigned char)*r->at)) hex[1] = *r->at++;
    return (char)strtol(hex, NULL, 16);
  }
  return c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
}

/* A quoted text, or several in a row. */
static bool read_text(od_str *out, reader *r) {
  bool any = false;
  for (skip_space(r); *r->at == '"' || *r->at == '\''; skip_space(r)) {
    char quote = *r->at++;
    while (*r->at && *r->at != quote && *r->at != '\n') {
      char c = *r->at++;
      if (c == '\\' && *r->at) c = escape(r);
      od_str_add_bytes(out, &c, 1);
    }
    if (*r->at != quote) return false;
    r->at++;
    any = true;
  }
  return any;
}

static od_status add_time(od_checkpoint_state *s, size_t *cap, double t) {
  OD_TRY(od_grow(&s->times, cap, s->time_count + 1, sizeof *s->times));
  s->times[s->time_count++] = t;
  return OD_OK;
}

static bool is_field(const char *name, size_t n, const char *field) {
  return strlen(field) == n && strncmp(name, field, n) == 0;
}

/* The prefix of a path written in `folder`'s file, see the header. */
static od_status resolve(char **out, const char *folder, const char *written) {
  OD_TRY(od_path_join(out, folder, written));
  if (*written != '/' || od_checkpoint_exists(*out)) return OD_OK;
  char *here;
  od_status st = od_path_join(&here, folder, od_path_base(written));
  if (!st && od_checkpoint_exists(here)) {
    od_free(*out);
    *out = here;
    return OD_OK;
  }
  if (!st)
    od_free(here);
  else
    od_free(*out);
  return st;
}

static od_status take_path(od_checkpoint_state *s, const char *folder, const char *text, bool latest) {
  char *path;
  OD_TRY(resolve(&path, folder, text));
  if (latest) {
    od_free(s->latest);
    s->latest = path;
    return OD_OK;
  }
  od_status st = od_strings_add(&s->all, path);
  od_free(path);
  return st;
}

static od_status parse(od_checkpoint_state *s, const char *folder, const char *file, const char *text) {
  reader r = {text, 1};
  size_t cap = 0;
  for (skip_space(&r); *r.at; skip_space(&r)) {
    const char *name = r.at;
    while (isalnum((unsigned char)*r.at) || *r.at == '_') r.at++;
    size_t n = (size_t)(r.at - name);
    skip_space(&r);
    if (n == 0 || *r.at != ':')
      return od_fail(OD_EDATA, "%s:%d: 'model_checkpoint_path: \"...\"' or the like was expected", file, r.line);
    r.at++;
    skip_space(&r);
    bool latest = is_field(name, n, "model_checkpoint_path");
    bool other = is_field(name, n, "all_model_checkpoint_paths");
    if (*r.at == '"' || *r.at == '\'') {
      od_str value = OD_STR_INIT;
      od_status st =
          read_text(&value, &r) ? od_str_check(&value) : od_fail(OD_EDATA, "%s:%d: a text does not end", file, r.line);
      if (!st && (latest || other)) st = take_path(s, folder, od_str_text(&value), latest);
      od_str_free(&value);
      OD_TRY(st);
      continue;
    }
    char *end;
    double v = strtod(r.at, &end);
    if (end == r.at || latest || other)
      return od_fail(OD_EDATA, "%s:%d: a %s was expected behind '%.*s:'", file, r.line,
                     latest || other ? "text in quotes" : "number", (int)n, name);
    r.at = end;
    if (is_field(name, n, "all_model_checkpoint_timestamps")) OD_TRY(add_time(s, &cap, v));
    if (is_field(name, n, "last_preserved_timestamp")) s->last_preserved = v;
  }
  return OD_OK;
}

od_status od_checkpoint_state_read(od_checkpoint_state *out, const char *folder) {
  *out = (od_checkpoint_state){0};
  char *path, *text = NULL;
  size_t n;
  OD_TRY(od_path_join(&path, folder, "checkpoint"));
  od_status st = od_file_read_all(&text, &n, path, MAX_FILE);
  if (!st) st = parse(out, folder, path, text);
  od_free(text);
  od_free(path);
  if (st) od_checkpoint_state_free(out);
  return st;
}

void od_checkpoint_state_free(od_checkpoint_state *s) {
  od_free(s->latest);
  od_strings_free(&s->all);
  od_free(s->times);
  *s = (od_checkpoint_state){0};
}

/* ------------------------------------------------------------------------------------------------------------ writing */
static void put_path(od_str *s, const char *field, const char *folder, const char *path) {
  size_t n = strlen(folder);
  while (n > 1 && folder[n - 1] == '/') n--;
  if (strncmp(path, folder, n) == 0 && path[n] == '/') path += n + 1;
  od_str_addf(s, "%s: \"", field);
  for (; *path; path++) {
    unsigned char c = (unsigned char)*path;
    if (c == '"' || c == '\\')
      od_str_addf(s, "\\%c", c);
    else if (c < 32)
      od_str_addf(s, "\\%03o", c);
    else
      od_str_add_bytes(s, path, 1);
  }
  od_str_add(s, "\"\n");
}

od_status od_checkpoint_state_write(const char *folder, const od_checkpoint_state *state) {
  od_str s = OD_STR_INIT;
  char *path = NULL;
  od_status st;
  if (state->latest) put_path(&s, "model_checkpoint_path", folder, state->latest);
  for (size_t i = 0; i < state->all.count; i++) put_path(&s, "all_model_checkpoint_paths", folder, state->all.items[i]);
  if (state->time_count == state->all.count)
    for (size_t i = 0; i < state->time_count; i++)
      od_str_addf(&s, "all_model_checkpoint_timestamps: %.17g\n", state->times[i]);
  if (state->last_preserved > 0) od_str_addf(&s, "last_preserved_timestamp: %.17g\n", state->last_preserved);
  OD_GO(st, od_str_check(&s));
  OD_GO(st, od_path_join(&path, folder, "checkpoint"));
  st = od_file_write_all(path, od_str_text(&s), s.len);
done:
  od_free(path);
  od_str_free(&s);
  return st;
}

/* ------------------------------------------------------------------------------------------------------------ searching */
bool od_checkpoint_exists(const char *prefix) {
  char index[4096];
  if ((size_t)snprintf(index, sizeof index, "%s.index", prefix) < sizeof index && od_path_is_file(index)) return true;
  return od_path_is_file(prefix);
}

int64_t od_checkpoint_step(const char *prefix) {
  const char *dash = strrchr(od_path_base(prefix), '-');
  int64_t step;
  return dash && isdigit((unsigned char)dash[1]) && od_parse_i64(&step, dash + 1) ? step : -1;
}

/* Of the .index files in a folder the one with the largest step; the first by name where there are no steps. */
static od_status search(char **prefix, const char *folder) {
  od_strings names = OD_STRINGS_INIT;
  const char *best = NULL;
  int64_t best_step = -2;
  OD_TRY(od_path_list(&names, folder));
  size_t unnumbered = 0;
  for (size_t i = 0; i < names.count; i++) {
    char *name = names.items[i];
    if (name[0] == '.' || !od_ends_with(name, ".index")) continue;
    name[strlen(name) - 6] = 0;
    int64_t step = od_checkpoint_step(name);
    unnumbered += step < 0;
    if (step > best_step) best_step = step, best = name;
  }
  od_status st;
  if (!best)
    st = od_fail(OD_ENOENT, "%s holds no checkpoint (neither a file 'checkpoint' nor a *.index)", folder);
  else if (best_step < 0 && unnumbered > 1)
    st = od_fail(OD_EINVAL, "%s holds %zu checkpoints and no file 'checkpoint' that says which: give one by its name",
                 folder, unnumbered);
  else
    st = od_path_join(prefix, folder, best);
  od_strings_free(&names);
  return st;
}

od_status od_checkpoint_latest(char **prefix, const char *folder) {
  od_checkpoint_state s;
  *prefix = NULL;
  od_status st = od_checkpoint_state_read(&s, folder);
  if (st == OD_ENOENT) return search(prefix, folder);
  OD_TRY(st);
  bool there = s.latest && od_checkpoint_exists(s.latest);
  if (there) {
    *prefix = s.latest;
    s.latest = NULL;
  }
  od_checkpoint_state_free(&s);
  return there ? OD_OK : search(prefix, folder);
}
