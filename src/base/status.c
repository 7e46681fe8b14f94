/* The thread-local message record behind status.h. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRAIL_MAX = 2048 };

static _Thread_local char message[OD_MESSAGE_MAX];
static _Thread_local char trail[TRAIL_MAX];
static _Thread_local size_t trail_len;

/* Marks a text that did not fit, so that a reader sees that something is missing. */
static void mark_cut(char *text, int wanted) {
  if (wanted >= OD_MESSAGE_MAX) memcpy(text + OD_MESSAGE_MAX - 4, "...", 4);
}

od_status od_fail(od_status_code code, const char *format, ...) {
  char text[OD_MESSAGE_MAX]; /* built apart: an argument may be od_message() itself */
  va_list ap;
  va_start(ap, format);
  int n = vsnprintf(text, sizeof text, format, ap);
  va_end(ap);
  mark_cut(text, n);
  memcpy(message, text, sizeof message);
  trail_len = 0;
  trail[0] = 0;
  return code;
}

od_status od_fail_context(od_status st, const char *format, ...) {
  if (st == OD_OK) return st;
  char text[OD_MESSAGE_MAX];
  va_list ap;
  va_start(ap, format);
  int n = vsnprintf(text, sizeof text, format, ap);
  va_end(ap);
  if (n < 0) return st;
  size_t have = strlen(text);
  int total = n + snprintf(text + have, sizeof text - have, ": %s", message);
  mark_cut(text, total);
  memcpy(message, text, sizeof message);
  return st;
}

const char *od_message(void) { return message; }

const char *od_trail(void) { return trail; }

od_status od_fail_take(od_status_code code, const char *text) { return od_fail(code, "%s", text); }

const char *od_status_text(od_status_code code) {
  switch (code) {
#define X(c, text)                                                                                                    \
  case c: return text;
    OD_STATUS_LIST(X)
#undef X
  }
  return "unknown status";
}

void od_trail_add(const char *file, int line, const char *function) {
  if (trail_len >= sizeof trail) return;
  int n = snprintf(trail + trail_len, sizeof trail - trail_len, "%s:%d %s\n", file, line, function);
  if (n > 0) trail_len += (size_t)n;
}

void od_assert_failed(const char *cond, const char *file, int line) {
  fprintf(stderr, "%s:%d: broken invariant: %s\n", file, line, cond);
  abort();
}
