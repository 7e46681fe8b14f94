/* Regular expressions over names; see pattern.h. */
#include "train/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/mem.h"

struct od_patterns {
  pcre2_code **code;
  size_t n;
};

static od_status compile(od_patterns *p, const char *field, size_t i, const char *pattern) {
  int error;
  PCRE2_SIZE at;
  pcre2_code *code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_ANCHORED, &error, &at, NULL);
  if (code) {
    p->code[p->n++] = code;
    return OD_OK;
  }
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(error, text, sizeof text);
  return od_fail(OD_EINVAL, "%s[%zu]: '%s' is no regular expression: %s at character %zu", field, i, pattern, (const char *)text, (size_t)at + 1);
}

od_status od_patterns_new(od_patterns **out, const char *field, char *const *patterns, size_t n) {
  od_patterns *p;
  OD_TRY(od_new(&p, 1, sizeof *p));
  od_status st = od_new(&p->code, n + 1, sizeof *p->code);
  for (size_t i = 0; i < n && st == OD_OK; i++)
    if (patterns[i][0]) st = compile(p, field, i, patterns[i]);
  if (st != OD_OK) od_patterns_free(p);
  else *out = p;
  return st;
}

void od_patterns_free(od_patterns *p) {
  if (!p) return;
  for (size_t i = 0; i < p->n; i++) pcre2_code_free(p->code[i]);
  od_free(p->code);
  od_free(p);
}

size_t od_patterns_size(const od_patterns *p) { return p->n; }

bool od_patterns_match(const od_patterns *p, const char *name) {
  bool found = false;
  for (size_t i = 0; i < p->n && !found; i++) {
    pcre2_match_data *m = pcre2_match_data_create_from_pattern(p->code[i], NULL);
    found = m && pcre2_match(p->code[i], (PCRE2_SPTR)name, PCRE2_ZERO_TERMINATED, 0, 0, m, NULL) >= 0;
    pcre2_match_data_free(m);
  }
  return found;
}
