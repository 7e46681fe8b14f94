/* Status: how a function says that it could not do its job.
 *
 * Policy: a function that can fail returns od_status and must be checked. The function that detects the problem writes
 * ONE message with the values (what is, what was expected, where) through od_fail; callers pass the status on with
 * OD_TRY and do not rewrite the message, they may put a place in front of it with od_fail_context. The message lives in
 * a record of fixed size, one a thread: setting it never allocates. Bad input is a status; a broken invariant of our
 * own is OD_ASSERT. */
#ifndef OD_BASE_STATUS_H
#define OD_BASE_STATUS_H

#include <stdbool.h>
#include <stddef.h>

/* code, what kind of trouble it names */
#define OD_STATUS_LIST(X)                                                                                             \
  X(OD_OK, "ok")                                                                                                      \
  X(OD_EINVAL, "invalid argument or configuration")                                                                   \
  X(OD_EDATA, "damaged or unusable data")                                                                             \
  X(OD_EIO, "input/output error")                                                                                     \
  X(OD_ENOENT, "not found")                                                                                           \
  X(OD_ENOMEM, "out of memory")                                                                                       \
  X(OD_EUNSUPPORTED, "not supported")                                                                                 \
  X(OD_EMISMATCH, "does not fit what is there")                                                                       \
  X(OD_ENUMERIC, "not a finite number")                                                                               \
  X(OD_ESTOPPED, "stopped by request")                                                                                \
  X(OD_EUSAGE, "wrong usage")                                                                                         \
  X(OD_END, "end of data")

typedef enum {
#define X(code, text) code,
  OD_STATUS_LIST(X)
#undef X
} od_status_code;

#if defined(__GNUC__)
#define OD_MUST_CHECK __attribute__((warn_unused_result))
#define OD_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define OD_MUST_CHECK
#define OD_PRINTF(f, a)
#endif

/* The returned type. A plain enum so that `if (st)` and switch work; OD_MUST_CHECK goes in front of declarations. */
typedef od_status_code od_status;

/* Longest message kept, terminating zero included; longer ones are cut and end in "...". */
enum { OD_MESSAGE_MAX = 4096 };

/* Records the message of this thread and returns code. Ends no line with a newline. */
od_status od_fail(od_status_code code, const char *format, ...) OD_PRINTF(2, 3);

/* Puts "<context>: " in front of the message of this thread (a file name, a record number); returns st unchanged.
 * With st == OD_OK it does nothing. */
od_status od_fail_context(od_status st, const char *format, ...) OD_PRINTF(2, 3);

/* The message of the last failure in this thread; "" when there was none. Borrowed, valid until the next failure. */
const char *od_message(void);

/* Where the failure passed through, innermost first, as "file.c:123 function\n" lines; for --debug and bug reports. */
const char *od_trail(void);

/* Takes over a message that another thread recorded (a worker hands its failure to the one that waits for it). */
od_status od_fail_take(od_status_code code, const char *message);

/* The kind of trouble in words; never NULL. */
const char *od_status_text(od_status_code code);

/* Adds a frame to the trail. Use OD_TRY. */
void od_trail_add(const char *file, int line, const char *function);

/* Returns from the enclosing function when expr fails. */
#define OD_TRY(expr)                                                                                                  \
  do {                                                                                                                \
    od_status od_try_st_ = (expr);                                                                                    \
    if (od_try_st_ != OD_OK) {                                                                                        \
      od_trail_add(__FILE__, __LINE__, __func__);                                                                     \
      return od_try_st_;                                                                                              \
    }                                                                                                                 \
  } while (0)

/* Sets st and jumps to the label `done` when expr fails: the shape of functions that own something. */
#define OD_GO(st, expr)                                                                                               \
  do {                                                                                                                \
    (st) = (expr);                                                                                                    \
    if ((st) != OD_OK) {                                                                                              \
      od_trail_add(__FILE__, __LINE__, __func__);                                                                     \
      goto done;                                                                                                      \
    }                                                                                                                 \
  } while (0)

/* An invariant of our own code; prints file and line to stderr and aborts. Never for input. Stays in release builds. */
#define OD_ASSERT(cond) ((cond) ? (void)0 : od_assert_failed(#cond, __FILE__, __LINE__))
void od_assert_failed(const char *cond, const char *file, int line) __attribute__((noreturn));

#endif
