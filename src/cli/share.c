/* Finding the program's data files; see share.h. */
#include "cli/share.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "io/path.h"

#ifndef OD_SHARE_DIR /* the Makefile says PREFIX/share/objdet */
#define OD_SHARE_DIR "/usr/local/share/objdet"
#endif

od_status od_program_path(char **out) {
  char path[4096];
  ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  if (n < 0) return od_fail(OD_EIO, "/proc/self/exe: %s", strerror(errno));
  path[n] = 0;
  *out = od_strdup(path);
  return *out ? OD_OK : OD_ENOMEM;
}

static bool holds_data(const char *folder) {
  char path[4096];
  int n = snprintf(path, sizeof path, "%s/data/pet_label_map.pbtxt", folder);
  if (n < 0 || (size_t)n >= sizeof path || !od_path_is_file(path)) return false;
  n = snprintf(path, sizeof path, "%s/samples/configs", folder);
  return n > 0 && (size_t)n < sizeof path && od_path_is_dir(path);
}

od_status od_share_folder(char **out) {
  const char *given = getenv("OBJDET_SHARE"), *found = NULL;
  char *program, *folder = NULL;
  char installed[4096] = "", source[4096] = "";
  if (given && *given) {
    if (!holds_data(given))
      return od_fail(OD_ENOENT, "OBJDET_SHARE is %s, which holds no data/ and samples/configs", given);
    *out = od_strdup(given);
    return *out ? OD_OK : OD_ENOMEM;
  }
  OD_TRY(od_program_path(&program));
  od_status st = od_path_dir(&folder, program);
  if (st == OD_OK) {
    bool fits = (size_t)snprintf(installed, sizeof installed, "%s/../share/objdet", folder) < sizeof installed;
    fits = fits && (size_t)snprintf(source, sizeof source, "%s/..", folder) < sizeof source;
    if (fits && holds_data(installed))
      found = installed;
    else if (fits && holds_data(source))
      found = source;
    else if (holds_data(OD_SHARE_DIR))
      found = OD_SHARE_DIR;
    else
      st = od_fail(OD_ENOENT,
                   "the label maps and sample configs are neither in %s nor in %s nor in %s; set OBJDET_SHARE to the "
                   "folder that holds data/ and samples/",
                   installed, source, OD_SHARE_DIR);
  }
  if (found && !(*out = od_strdup(found))) st = OD_ENOMEM;
  od_free(program);
  od_free(folder);
  return st;
}
