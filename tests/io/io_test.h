/* Helpers of the io tests: a scratch folder, paths in it, and whole files in memory. */
#ifndef OD_IO_TEST_H
#define OD_IO_TEST_H

#include "od_test.h"

#include "base/str.h"
#include "io/file.h"

static char scratch[256];

static inline int make_scratch(void **state) {
  (void)state;
  const char *dir = od_test_dir();
  if (!dir) return -1;
  snprintf(scratch, sizeof scratch, "%s", dir);
  return 0;
}

static inline void remove_below(const char *dir) {
  od_strings names = OD_STRINGS_INIT;
  CHECK_OK(od_path_list(&names, dir));
  for (size_t i = 0; i < names.count; i++) {
    char *path;
    CHECK_OK(od_path_join(&path, dir, names.items[i]));
    if (od_path_is_dir(path))
      remove_below(path);
    else
      (void)unlink(path);
    od_free(path);
  }
  od_strings_free(&names);
  (void)rmdir(dir);
}

/* Removes the folder; no test may leak memory. */
static inline int remove_scratch(void **state) {
  (void)state;
  remove_below(scratch);
  return od_mem_used() == 0 ? 0 : (fprintf(stderr, "%zu bytes leaked\n", od_mem_used()), -1);
}

/* Path of a file in the scratch folder; four live at a time. */
static inline const char *in_scratch(const char *name) {
  static char text[4][512];
  static int at;
  at = (at + 1) % 4;
  snprintf(text[at], sizeof text[at], "%s/%s", scratch, name);
  return text[at];
}

/* Writes a file without waiting for the disk, for tests that write thousands: a new one, since file systems hurry to the disk when
 * a file is emptied and filled again. */
static inline void put_quickly(const char *path, const void *data, size_t n) {
  od_file *f;
  (void)unlink(path);
  CHECK_OK(od_file_create(&f, path));
  CHECK_OK(od_file_write(f, data, n));
  CHECK_OK(od_file_close(f));
}

/* Two files hold the same bytes. */
static inline void expect_same_file(const char *a, const char *b) {
  char *da, *db;
  size_t na, nb;
  CHECK_OK(od_file_read_all(&da, &na, a, 0));
  CHECK_OK(od_file_read_all(&db, &nb, b, 0));
  CHECK(na == nb && memcmp(da, db, na) == 0);
  od_free(da);
  od_free(db);
}

/* Number of files in the scratch folder, hidden ones included. */
static inline size_t files_in_scratch(void) {
  od_strings names = OD_STRINGS_INIT;
  CHECK_OK(od_path_list(&names, scratch));
  size_t n = names.count;
  od_strings_free(&names);
  return n;
}

#endif
