/* Reporting, progress, stop requests; see report.h. */
#include "base/report.h"

#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static void say(const od_reporter *r, od_level level, const char *format, va_list ap) {
  if (!r || !r->line) return;
  char text[OD_MESSAGE_MAX];
  vsnprintf(text, sizeof text, format, ap);
  r->line(r->ctx, level, text);
}

void od_info(const od_reporter *r, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  say(r, OD_INFO, format, ap);
  va_end(ap);
}

void od_warn(const od_reporter *r, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  say(r, OD_WARNING, format, ap);
  va_end(ap);
}

double od_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void od_progress_start(od_progress *p, const od_reporter *r, const char *what, uint64_t done, uint64_t total) {
  *p = (od_progress){.reporter = r, .what = what, .total = total, .done = done, .first = done, .started = od_now()};
}

static void show(od_progress *p, double now) {
  double seconds = now - p->started, rate = 0, eta = -1;
  if (seconds > 0) rate = (double)(p->done - p->first) / seconds;
  if (rate > 0 && p->total >= p->done) eta = (double)(p->total - p->done) / rate;
  if (p->reporter && p->reporter->progress)
    p->reporter->progress(p->reporter->ctx, p->what, p->done, p->total, rate, p->total ? eta : -1);
  p->last = now;
}

void od_progress_step(od_progress *p, uint64_t done) {
  p->done = done;
  double now = od_now();
  if (now - p->last >= 0.1) show(p, now);
}

void od_progress_end(od_progress *p) { show(p, od_now()); }

static atomic_int stop_signal;

static void on_signal(int number) {
  if (atomic_exchange(&stop_signal, number)) _exit(128 + number);
}

void od_stop_install(void) {
  struct sigaction action = {.sa_handler = on_signal};
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
}

int od_stop_signal(void) { return atomic_load(&stop_signal); }
void od_stop_request(int number) { atomic_store(&stop_signal, number); }

od_status od_stop_check(void) {
  int number = od_stop_signal();
  return number ? od_fail(OD_ESTOPPED, "stopped by signal %d", number) : OD_OK;
}
