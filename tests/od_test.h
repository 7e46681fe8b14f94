/* What every test program uses: cmocka, checks that cannot be compiled out, and the way to the shared test data. */
#ifndef OD_TEST_H
#define OD_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/status.h"

#define CHECK(cond)                                                                                                   \
  do {                                                                                                                \
    if (!(cond)) fail_msg("%s:%d: %s does not hold", __FILE__, __LINE__, #cond);                                      \
  } while (0)

/* Succeeds, or shows the message. */
#define CHECK_OK(expr)                                                                                                \
  do {                                                                                                                \
    od_status check_st_ = (expr);                                                                                     \
    if (check_st_ != OD_OK) fail_msg("%s:%d: %s: %s\n%s", __FILE__, __LINE__, #expr, od_message(), od_trail());      \
  } while (0)

/* Fails with this code, and the message holds the text. */
#define CHECK_FAILS(expr, code, text)                                                                                 \
  do {                                                                                                                \
    od_status check_st_ = (expr);                                                                                     \
    if (check_st_ != (code)) fail_msg("%s:%d: %s gave %s: %s", __FILE__, __LINE__, #expr, od_status_text(check_st_), od_message()); \
    if (!strstr(od_message(), (text))) fail_msg("%s:%d: '%s' is not in: %s", __FILE__, __LINE__, (text), od_message()); \
  } while (0)

/* Written so that NaN fails. */
#define CHECK_NEAR(a, b, tol)                                                                                         \
  do {                                                                                                                \
    double check_a_ = (double)(a), check_b_ = (double)(b), check_d_ = check_a_ - check_b_;                            \
    if (!(check_d_ <= (tol) && -check_d_ <= (tol)))                                                                   \
      fail_msg("%s:%d: %s = %.9g, expected %.9g within %g", __FILE__, __LINE__, #a, check_a_, check_b_, (double)(tol)); \
  } while (0)

#define CHECK_TEXT(a, b)                                                                                              \
  do {                                                                                                                \
    const char *check_a_ = (a), *check_b_ = (b);                                                                      \
    if (strcmp(check_a_, check_b_) != 0) fail_msg("%s:%d: %s is '%s', expected '%s'", __FILE__, __LINE__, #a, check_a_, check_b_); \
  } while (0)

/* Path below the shared test data (../shared, or $OBJDET_SHARED), in a static buffer; NULL when it is not there. */
static inline const char *od_shared(const char *path) {
  static char text[4096];
  const char *root = getenv("OBJDET_SHARED");
  snprintf(text, sizeof text, "%s/%s", root ? root : "../shared", path);
  return access(text, R_OK) == 0 ? text : NULL;
}

/* Skips the test aloud when the shared file is absent. */
#define NEED_SHARED(var, path)                                                                                        \
  const char *var = od_shared(path);                                                                                  \
  if (!var) {                                                                                                         \
    print_message("SKIPPED: needs shared data %s\n", path);                                                           \
    skip();                                                                                                           \
  }

/* A fresh directory for this test program, removed by nobody but the caller; static buffer. */
static inline const char *od_test_dir(void) {
  static char dir[256];
  const char *tmp = getenv("TMPDIR");
  snprintf(dir, sizeof dir, "%s/objdet-test-XXXXXX", tmp ? tmp : "/tmp");
  return mkdtemp(dir);
}

#endif
