/* Growable text and text questions; see str.h. */
#include "base/str.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static bool reserve(od_str *s, size_t more) {
  if (s->failed) return false;
  if (od_grow(&s->data, &s->cap, s->len + more + 1, 1) != OD_OK) s->failed = true;
  return !s->failed;
}

void od_str_add_bytes(od_str *s, const void *bytes, size_t n) {
  if (!reserve(s, n)) return;
  if (n) memcpy(s->data + s->len, bytes, n);
  s->len += n;
  s->data[s->len] = 0;
}

void od_str_add(od_str *s, const char *text) { od_str_add_bytes(s, text, strlen(text)); }

void od_str_addf(od_str *s, const char *format, ...) {
  va_list ap, again;
  va_start(ap, format);
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, format, ap);
  va_end(ap);
  if (n >= 0 && reserve(s, (size_t)n)) {
    vsnprintf(s->data + s->len, (size_t)n + 1, format, again);
    s->len += (size_t)n;
  }
  va_end(again);
}

od_status od_str_check(const od_str *s) {
  return s->failed ? od_fail(OD_ENOMEM, "out of memory: a text of %zu bytes cannot grow", s->len) : OD_OK;
}

const char *od_str_text(const od_str *s) { return s->data ? s->data : ""; }

void od_str_clear(od_str *s) {
  s->len = 0;
  if (s->data) s->data[0] = 0;
}

void od_str_free(od_str *s) {
  od_free(s->data);
  *s = OD_STR_INIT;
}

char *od_str_take(od_str *s) {
  if (!s->data) od_str_add(s, "");
  char *text = s->failed ? NULL : s->data;
  if (!text) od_free(s->data);
  *s = OD_STR_INIT;
  return text;
}

bool od_starts_with(const char *text, const char *prefix) { return strncmp(text, prefix, strlen(prefix)) == 0; }

bool od_ends_with(const char *text, const char *suffix) {
  size_t n = strlen(text), m = strlen(suffix);
  return n >= m && strcmp(text + n - m, suffix) == 0;
}

enum { WORD_MAX = 100 };

static int least(int a, int b) { return a < b ? a : b; }

int od_edit_distance(const char *a, const char *b) {
  int row[3][WORD_MAX + 1]; /* the last three rows of the usual table */
  int n = (int)strnlen(a, WORD_MAX), m = (int)strnlen(b, WORD_MAX);
  for (int j = 0; j <= m; j++) row[0][j] = j;
  for (int i = 1; i <= n; i++) {
    int *now = row[i % 3], *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
    now[0] = i;
    for (int j = 1; j <= m; j++) {
      int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);
      now[j] = least(least(last[j] + 1, now[j - 1] + 1), last[j - 1] + (x != y));
      bool swapped = i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) && tolower((unsigned char)a[i - 2]) == y;
      if (swapped) now[j] = least(now[j], before[j - 2] + 1);
    }
  }
  return row[n % 3][m];
}

const char *od_did_you_mean(const char *word, const char *const *candidates, size_t n) {
  const char *best = NULL;
  int best_distance = (int)strlen(word) / 3 + 2; /* a third of the letters wrong is still a guess worth making */
  for (size_t i = 0; i < n; i++) {
    int d = od_edit_distance(word, candidates[i]);
    if (d >= best_distance) continue;
    best = candidates[i];
    best_distance = d;
  }
  return best;
}

uint64_t od_hash_bytes(const void *bytes, size_t n) {
  const unsigned char *p = bytes;
  uint64_t h = 0xcbf29ce484222325u;
  for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 0x100000001b3u;
  return h;
}

uint64_t od_hash_text(const char *text) { return od_hash_bytes(text, strlen(text)); }

bool od_parse_i64(int64_t *out, const char *text) {
  char *end;
  errno = 0;
  long long v = strtoll(text, &end, 10);
  if (end == text || *end || errno) return false;
  *out = v;
  return true;
}

bool od_parse_f64(double *out, const char *text) {
  char *end;
  errno = 0;
  double v = strtod(text, &end);
  if (end == text || *end || (errno && (v > 1 || v < -1))) return false; /* underflow to 0 is no error */
  *out = v;
  return true;
}
