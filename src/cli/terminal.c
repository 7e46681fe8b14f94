/* Speaking to a terminal or a log: warnings and lines on stderr, progress on the last line of a terminal, or a plain line
 * every ten seconds where stderr is none. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool line_open;   /* a progress line without newline stands on the terminal */
static double last_line; /* of a log */
static uint64_t last_done; /* what that line said: the end is reported twice, by the last step and by the end */

static void end_line(void) {
  if (line_open) fputc('\n', stderr);
  line_open = false;
}

static void say(void *ctx, od_level level, const char *text) {
  (void)ctx;
  pthread_mutex_lock(&lock);
  end_line();
  fprintf(stderr, "%s%s\n", level == OD_WARNING ? "warning: " : "", text);
  pthread_mutex_unlock(&lock);
}

static void duration(char *text, size_t size, double seconds) {
  long s = (long)(seconds + 0.5);
  if (seconds < 0) snprintf(text, size, "?");
  else if (s < 60) snprintf(text, size, "%ld s", s);
  else if (s < 3600) snprintf(text, size, "%ld min %02ld s", s / 60, s % 60);
  else snprintf(text, size, "%ld h %02ld min", s / 3600, s / 60 % 60);
}

static void progress(void *ctx, const char *what, uint64_t done, uint64_t total, double per_second, double eta) {
  (void)ctx;
  char left[32], text[256];
  duration(left, sizeof left, eta);
  if (total) snprintf(text, sizeof text, "%s %llu/%llu (%.3g/s, %s left)", what, (unsigned long long)done, (unsigned long long)total, per_second, left);
  else snprintf(text, sizeof text, "%s %llu (%.3g/s)", what, (unsigned long long)done, per_second);
  pthread_mutex_lock(&lock);
  if (done != total) last_done = 0;
  if (isatty(STDERR_FILENO)) {
    fprintf(stderr, "\r\033[K%s", text);
    fflush(stderr);
    line_open = true;
  } else if ((od_now() - last_line >= 10 || done == total) && !(done == total && done == last_done)) {
    fprintf(stderr, "%s\n", text);
    last_line = od_now();
    last_done = done;
  }
  pthread_mutex_unlock(&lock);
}

const od_reporter *od_terminal_reporter(void) {
  static const od_reporter reporter = {say, progress, NULL};
  return &reporter;
}

void od_terminal_flush(void) {
  pthread_mutex_lock(&lock);
  end_line();
  pthread_mutex_unlock(&lock);
}
