/* Figures as text and JSON; see table.h. */
#include "eval/table.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "io/file.h"
#include "io/path.h"

/* --------------------------------------------------------------------------------------------------------------- table */
/* Characters of UTF-8, for alignment. */
static int width(const char *text) {
  int n = 0;
  for (; *text; text++) n += ((unsigned char)*text & 0xC0) != 0x80;
  return n;
}

/* The part of a tag before its first "_" or "/" (the whole tag when there is none), and what stands behind it. */
static size_t family(const char *tag, const char **rest) {
  const char *cut = strpbrk(tag, "_/");
  *rest = cut ? cut + 1 : tag;
  return cut ? (size_t)(cut - tag) : 0;
}

static bool same_family(const char *a, const char *b) {
  const char *rest;
  size_t n = family(a, &rest);
  return n == family(b, &rest) && strncmp(a, b, n) == 0;
}

static void row(od_str *out, const char *name, int column, double value) {
  int gap = column - width(name);
  od_str_addf(out, "  %s%*s", name, gap > 0 ? gap : 1, "");
  if (isnan(value) || value == -1)
    od_str_addf(out, "%8s\n", "-");
  else
    od_str_addf(out, "%8.4f\n", value);
}

static bool by_class(const char *rest) { return strstr(rest, "ByCategory") != NULL; }

/* Is this the first figure of its family. */
static bool opens_family(const od_metric *metrics, size_t i) {
  for (size_t k = 0; k < i; k++)
    if (same_family(metrics[i].tag, metrics[k].tag)) return false;
  return true;
}

/* The rows of one family from its first figure on: those of classes, or the others. */
static void rows_of(od_str *out, const od_metric *metrics, size_t first, size_t n, int column, bool classes) {
  const char *rest;
  for (size_t k = first; k < n; k++) {
    if (!same_family(metrics[first].tag, metrics[k].tag)) continue;
    (void)family(metrics[k].tag, &rest);
    if (by_class(rest) == classes) row(out, rest, column, metrics[k].value);
  }
}

od_status od_eval_table(od_str *out, const od_metric *metrics, size_t n) {
  int column = 0;
  const char *rest;
  for (size_t i = 0; i < n; i++) {
    (void)family(metrics[i].tag, &rest);
    if (width(rest) + 2 > column) column = width(rest) + 2;
  }
  for (size_t i = 0; i < n; i++) {
    if (!opens_family(metrics, i)) continue;
    size_t length = family(metrics[i].tag, &rest);
    if (length) od_str_addf(out, "%.*s\n", (int)length, metrics[i].tag);
    rows_of(out, metrics, i, n, column, false);
    rows_of(out, metrics, i, n, column, true);
  }
  return od_str_check(out);
}

od_status od_eval_confusion_table(od_str *out, const od_eval *ev) {
  size_t k;
  const uint64_t *counts = od_eval_confusion(ev, &k);
  if (!counts) return od_fail(OD_EINVAL, "the confusion matrix was not collected");
  od_str_addf(out, "%10s", "");
  for (size_t j = 0; j < k; j++) {
    if (j + 1 < k)
      od_str_addf(out, " %7zu", j + 1);
    else
      od_str_addf(out, " %7s", "missed");
  }
  for (size_t i = 0; i < k; i++) {
    if (i + 1 < k)
      od_str_addf(out, "\n%10zu", i + 1);
    else
      od_str_addf(out, "\n%10s", "nothing");
    for (size_t j = 0; j < k; j++) od_str_addf(out, " %7llu", (unsigned long long)counts[i * k + j]);
  }
  od_str_add(out, "\n");
  return od_str_check(out);
}

/* ---------------------------------------------------------------------------------------------------------------- json */
static int by_tag(const void *a, const void *b) {
  return strcmp((*(const od_metric *const *)a)->tag, (*(const od_metric *const *)b)->tag);
}

static od_status fill(json_t *object, const od_metric *metrics, size_t n) {
  const od_metric **sorted;
  OD_TRY(od_new(&sorted, n ? n : 1, sizeof *sorted));
  for (size_t i = 0; i < n; i++) sorted[i] = &metrics[i];
  if (n) qsort(sorted, n, sizeof *sorted, by_tag);
  od_status st = OD_OK;
  for (size_t i = 0; i < n && st == OD_OK; i++) {
    json_t *value = isfinite(sorted[i]->value) ? json_real(sorted[i]->value) : json_null();
    if (json_object_set_new(object, sorted[i]->tag, value) != 0)
      st = od_fail(OD_EDATA, "the tag '%s' cannot stand in JSON: not UTF-8, or memory is short", sorted[i]->tag);
  }
  od_free(sorted);
  return st;
}

static od_status build(json_t **out, int64_t step, const od_metric *metrics, size_t n) {
  json_t *root = json_object(), *figures = json_object();
  *out = root;
  if (!root || !figures || json_object_set_new(root, "global_step", json_integer(step)) != 0 ||
      json_object_set(root, "metrics", figures) != 0) {
    json_decref(figures);
    return od_fail(OD_ENOMEM, "no memory for the metrics of step %lld", (long long)step);
  }
  od_status st = fill(figures, metrics, n);
  json_decref(figures);
  return st;
}

static od_status dump(od_str *out, const json_t *root, size_t flags) {
  char *text = json_dumps(root, flags | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(17));
  if (!text) return od_fail(OD_ENOMEM, "no memory for the metrics as text");
  od_str_add(out, text);
  od_str_add(out, "\n");
  free(text);
  return od_str_check(out);
}

/* Copies the lines of an older metrics.jsonl that belong to other steps. */
static od_status keep_others(od_str *out, const char *path, const char *old, int64_t step) {
  int number = 0;
  for (const char *line = old, *end; *line; line = *end ? end + 1 : end) {
    end = strchr(line, '\n');
    if (!end) end = line + strlen(line);
    number++;
    if (end == line) continue;
    json_error_t error;
    json_t *root = json_loadb(line, (size_t)(end - line), 0, &error);
    json_t *its = json_object_get(root, "global_step");
    if (!json_is_integer(its)) {
      json_decref(root);
      return od_fail(OD_EDATA, "%s:%d: not a line of metrics (an object with global_step expected); move the file away",
                     path, number);
    }
    if (json_integer_value(its) != step) {
      od_str_add_bytes(out, line, (size_t)(end - line));
      od_str_add(out, "\n");
    }
    json_decref(root);
  }
  return od_str_check(out);
}

static od_status write_lines(const char *path, const json_t *root, int64_t step) {
  od_str text = OD_STR_INIT;
  char *old = NULL;
  size_t size = 0;
  od_status st = OD_OK;
  if (od_path_is_file(path)) {
    OD_GO(st, od_file_read_all(&old, &size, path, 0));
    OD_GO(st, keep_others(&text, path, old, step));
  }
  OD_GO(st, dump(&text, root, JSON_COMPACT));
  OD_GO(st, od_file_write_all(path, text.data, text.len));
done:
  od_free(old);
  od_str_free(&text);
  return st;
}

od_status od_eval_write_json(const char *eval_dir, int64_t global_step, const od_metric *metrics, size_t n) {
  json_t *root = NULL;
  char *path = NULL, *lines = NULL;
  od_str text = OD_STR_INIT;
  od_status st = OD_OK;
  OD_GO(st, od_path_join(&path, eval_dir, "metrics.json"));
  OD_GO(st, od_path_join(&lines, eval_dir, "metrics.jsonl"));
  OD_GO(st, build(&root, global_step, metrics, n));
  OD_GO(st, dump(&text, root, JSON_INDENT(2)));
  OD_GO(st, write_lines(lines, root, global_step));
  OD_GO(st, od_file_write_all(path, text.data, text.len));
done:
  json_decref(root);
  od_free(path);
  od_free(lines);
  od_str_free(&text);
  return st;
}
