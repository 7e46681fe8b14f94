/* How long work speaks: lines and progress go to a reporter that the caller passes in; the library never prints.
 *
 * A NULL reporter is silent. cli/ makes one for a terminal (a progress line with ETA) or for a log (plain lines). */
#ifndef OD_BASE_REPORT_H
#define OD_BASE_REPORT_H

#include <stdint.h>

#include "base/status.h"

typedef enum { OD_INFO, OD_WARNING } od_level;

typedef struct od_reporter {
  void (*line)(void *ctx, od_level level, const char *text); /* text without newline; may be called from any thread */
  /* Done so many of total (0: unknown) units; eta in seconds, negative while unknown. Rate-limited by od_progress_step. */
  void (*progress)(void *ctx, const char *what, uint64_t done, uint64_t total, double per_second, double eta);
  void *ctx;
} od_reporter;

void od_info(const od_reporter *r, const char *format, ...) OD_PRINTF(2, 3);
void od_warn(const od_reporter *r, const char *format, ...) OD_PRINTF(2, 3);

typedef struct {
  const od_reporter *reporter;
  const char *what; /* borrowed */
  uint64_t total, done, first;
  double started, last; /* seconds of the monotonic clock */
} od_progress;

/* Starts a count; done > 0 when work resumes there (the rate counts only new units). */
void od_progress_start(od_progress *p, const od_reporter *r, const char *what, uint64_t done, uint64_t total);
/* Sets the count; reports at most ten times a second. */
void od_progress_step(od_progress *p, uint64_t done);
/* Reports the end. */
void od_progress_end(od_progress *p);

/* Seconds of the monotonic clock. */
double od_now(void);

/* ------------------------------------------------------------------------------------------------- stop on request */
/* Ctrl-C and SIGTERM: after od_stop_install the first signal only sets a flag that long loops ask for at safe places;
 * the second one ends the process at once. */
void od_stop_install(void);
/* The signal that asked to stop, or 0. */
int od_stop_signal(void);
/* Asks to stop as a signal would (tests, embedding programs); 0 takes it back. */
void od_stop_request(int signal_number);
/* OD_ESTOPPED with a message when a stop was asked for. */
OD_MUST_CHECK od_status od_stop_check(void);

#endif
