/* Paths, folders and patterns of path.h on the local disk. The matching of patterns walks level by level, so that only the
 * folders that can match are read. */
#include "io/path.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"

od_status od_strings_add(od_strings *list, const char *text) {
  OD_TRY(od_grow(&list->items, &list->cap, list->count + 1, sizeof *list->items));
  char *copy = od_strdup(text);
  if (!copy) return OD_ENOMEM;
  list->items[list->count++] = copy;
  return OD_OK;
}

static int by_bytes(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

void od_strings_sort(od_strings *list) {
  if (list->count > 1) qsort(list->items, list->count, sizeof *list->items, by_bytes);
}

void od_strings_free(od_strings *list) {
  for (size_t i = 0; i < list->count; i++) od_free(list->items[i]);
  od_free(list->items);
  *list = OD_STRINGS_INIT;
}

/* ------------------------------------------------------------------------------------------------------------ texts */
bool od_path_is_remote(const char *path) { return od_starts_with(path, "gs:/"); }

od_status od_path_check_local(const char *path) {
  if (!path || !*path) return od_fail(OD_EINVAL, "a file path is empty");
  if (od_path_is_remote(path))
    return od_fail(OD_EUNSUPPORTED,
                   "%s: Cloud Storage paths are not supported yet (they come with the job service); copy it to a local "
                   "disk and give that path",
                   path);
  return OD_OK;
}

od_status od_path_clean(char **out, const char *path) {
  *out = od_alloc(strlen(path) + 1);
  if (!*out) return OD_ENOMEM;
  char *to = *out;
  if (od_starts_with(path, "gs://")) {
    memcpy(to, path, 5);
    to += 5;
    path += 5;
    while (*path == '/') path++;
  }
  for (; *path; path++)
    if (!(*path == '/' && path[1] == '/')) *to++ = *path;
  *to = 0;
  return OD_OK;
}

od_status od_path_join(char **out, const char *folder, const char *name) {
  od_str s = OD_STR_INIT;
  if (*folder && *name != '/' && !od_path_is_remote(name)) {
    od_str_add(&s, folder);
    od_str_add(&s, "/");
  }
  od_str_add(&s, name);
  od_status st = od_str_check(&s);
  if (!st) st = od_path_clean(out, od_str_text(&s));
  od_str_free(&s);
  return st;
}

const char *od_path_base(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

od_status od_path_dir(char **out, const char *path) {
  const char *slash = strrchr(path, '/');
  while (slash && slash > path && slash[-1] == '/') slash--; /* "a//b" lies in "a" */
  *out = !slash ? od_strdup(".") : slash == path ? od_strdup("/") : od_strndup(path, (size_t)(slash - path));
  return *out ? OD_OK : OD_ENOMEM;
}

/* ------------------------------------------------------------------------------------------------------------ folders */
bool od_path_exists(const char *path) { return access(path, F_OK) == 0; }

bool od_path_is_dir(const char *path) {
  struct stat s;
  return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

bool od_path_is_file(const char *path) {
  struct stat s;
  return stat(path, &s) == 0 && S_ISREG(s.st_mode);
}

static od_status make_one(const char *path) {
  if (mkdir(path, 0777) == 0 || od_path_is_dir(path)) return OD_OK;
  if (errno == EEXIST) return od_fail(OD_EIO, "%s is a file, a folder of this name was expected", path);
  return od_fail(OD_EIO, "cannot make folder %s: %s", path, strerror(errno));
}

od_status od_path_make_dirs(const char *path) {
  OD_TRY(od_path_check_local(path));
  char *p;
  OD_TRY(od_path_clean(&p, path));
  od_status st = OD_OK;
  for (char *c = p + 1; *c && !st; c++) {
    if (*c != '/') continue;
    *c = 0;
    st = make_one(p);
    *c = '/';
  }
  if (!st) st = make_one(p);
  od_free(p);
  return st;
}

od_status od_path_make_parent(const char *path) {
  char *dir;
  OD_TRY(od_path_check_local(path));
  OD_TRY(od_path_dir(&dir, path));
  od_status st = od_path_make_dirs(dir);
  od_free(dir);
  return st;
}

od_status od_path_list(od_strings *out, const char *folder) {
  OD_TRY(od_path_check_local(folder));
  DIR *d = opendir(folder);
  if (!d) return od_fail(errno == ENOENT ? OD_ENOENT : OD_EIO, "cannot list folder %s: %s", folder, strerror(errno));
  od_status st = OD_OK;
  size_t first = out->count;
  while (!st) {
    errno = 0;
    struct dirent *e = readdir(d);
    if (!e && errno) st = od_fail(OD_EIO, "cannot list folder %s: %s", folder, strerror(errno));
    if (!e) break;
    if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) st = od_strings_add(out, e->d_name);
  }
  closedir(d);
  if (out->count - first > 1) qsort(out->items + first, out->count - first, sizeof *out->items, by_bytes);
  return st;
}

od_status od_path_remove(const char *path) {
  OD_TRY(od_path_check_local(path));
  if (unlink(path) == 0) return OD_OK;
  return od_fail(errno == ENOENT ? OD_ENOENT : OD_EIO, "cannot remove %s: %s", path, strerror(errno));
}

od_status od_path_rename(const char *from, const char *to) {
  OD_TRY(od_path_check_local(from));
  OD_TRY(od_path_check_local(to));
  if (rename(from, to) == 0) return OD_OK;
  return od_fail(errno == ENOENT ? OD_ENOENT : OD_EIO, "cannot rename %s to %s: %s", from, to, strerror(errno));
}

/* ------------------------------------------------------------------------------------------------------------ patterns */
bool od_path_is_pattern(const char *text) { return strpbrk(text, "*?[") != NULL; }

/* Adds what matches `rest` below `base` ("" or ending in a slash). */
static od_status walk(od_strings *out, const char *base, const char *rest) {
  const char *slash = strchr(rest, '/');
  size_t n = slash ? (size_t)(slash - rest) : strlen(rest);
  char *part = od_strndup(rest, n);
  if (!part) return OD_ENOMEM;
  od_strings names = OD_STRINGS_INIT;
  od_status st = OD_OK;
  if (!od_path_is_pattern(part)) {
    st = od_strings_add(&names, part);
  } else if (od_path_is_dir(*base ? base : ".")) {
    st = od_path_list(&names, *base ? base : ".");
  }
  for (size_t i = 0; i < names.count && !st; i++) {
    if (od_path_is_pattern(part) && fnmatch(part, names.items[i], FNM_PERIOD) != 0) continue;
    od_str path = OD_STR_INIT;
    od_str_addf(&path, "%s%s%s", base, names.items[i], slash ? "/" : "");
    st = od_str_check(&path);
    if (st) {
    } else if (slash) {
      if (od_path_is_dir(od_str_text(&path))) st = walk(out, od_str_text(&path), slash + 1);
    } else if (od_path_exists(od_str_text(&path)) && !od_path_is_dir(od_str_text(&path))) {
      st = od_strings_add(out, od_str_text(&path));
    }
    od_str_free(&path);
  }
  od_strings_free(&names);
  od_free(part);
  return st;
}

/* name@10 -> name-?????-of-00010, name@* -> name-?????-of-?????; anything else is copied. */
static od_status expand_shards(od_str *out, const char *pattern) {
  const char *at = strrchr(pattern, '@');
  int64_t shards;
  if (at && strcmp(at + 1, "*") == 0) {
    od_str_add_bytes(out, pattern, (size_t)(at - pattern));
    od_str_add(out, "-?????"
                    "-of-?????"); /* in two: no trigraph */
  } else if (at && at[1] >= '0' && at[1] <= '9' && od_parse_i64(&shards, at + 1) && shards > 0 && shards < 100000) {
    od_str_add_bytes(out, pattern, (size_t)(at - pattern));
    od_str_addf(out,
                "-?????"
                "-of-%05d",
                (int)shards);
  } else {
    od_str_add(out, pattern);
  }
  return od_str_check(out);
}

/* What a reader of the message may have meant: the number of files in the folder, or that it does not exist. */
static od_status nothing_matches(const char *pattern) {
  char *dir;
  OD_TRY(od_path_dir(&dir, pattern));
  od_status st;
  if (!od_path_is_pattern(dir) && !od_path_is_dir(dir)) {
    st = od_fail(OD_ENOENT, "%s: no such file (the folder %s does not exist)", pattern, dir);
  } else {
    od_strings names = OD_STRINGS_INIT;
    const char *near = NULL;
    if (!od_path_is_pattern(dir)) {
      st = od_path_list(&names, dir);
      if (!st) near = od_did_you_mean(od_path_base(pattern), (const char *const *)names.items, names.count);
    }
    st = od_fail(OD_ENOENT,
                 od_path_is_pattern(pattern) ? "%s: no file matches this pattern%s%s%s" : "%s: no such file%s%s%s",
                 pattern, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    od_strings_free(&names);
  }
  od_free(dir);
  return st;
}

static od_status glob_one(od_strings *out, const char *pattern) {
  OD_TRY(od_path_check_local(pattern));
  char *clean = NULL;
  od_str expanded = OD_STR_INIT;
  od_status st;
  size_t first = out->count;
  OD_GO(st, od_path_clean(&clean, pattern));
  /* A file that is really called so wins over the shorthand and over the pattern. */
  if (od_path_exists(clean) && !od_path_is_dir(clean)) {
    st = od_strings_add(out, clean);
    goto done;
  }
  OD_GO(st, expand_shards(&expanded, clean));
  const char *p = od_str_text(&expanded);
  OD_GO(st, walk(out, *p == '/' ? "/" : "", *p == '/' ? p + 1 : p));
  if (out->count == first) {
    st = od_path_is_dir(p) ? od_fail(OD_EINVAL, "%s is a folder, a file was expected", pattern) : nothing_matches(p);
    goto done;
  }
  if (out->count - first > 1) qsort(out->items + first, out->count - first, sizeof *out->items, by_bytes);
done:
  od_free(clean);
  od_str_free(&expanded);
  return st;
}

/* Drops what was listed before, keeping the first. */
static void drop_doubles(od_strings *list) {
  size_t kept = 0;
  for (size_t i = 0; i < list->count; i++) {
    size_t j = 0;
    while (j < kept && strcmp(list->items[j], list->items[i]) != 0) j++;
    if (j < kept)
      od_free(list->items[i]);
    else
      list->items[kept++] = list->items[i];
  }
  list->count = kept;
}

od_status od_path_glob(od_strings *out, const char *pattern) {
  if (!strchr(pattern, ',') || od_path_exists(pattern)) return glob_one(out, pattern);
  char *copy = od_strdup(pattern), *at = copy;
  if (!copy) return OD_ENOMEM;
  od_status st = OD_OK;
  for (char *comma; at && !st; at = comma) {
    comma = strchr(at, ',');
    if (comma) *comma++ = 0;
    st = glob_one(out, at);
  }
  od_free(copy);
  drop_doubles(out);
  return st;
}

od_status od_path_glob_all(od_strings *out, const char *const *patterns, size_t n) {
  for (size_t i = 0; i < n; i++) OD_TRY(od_path_glob(out, patterns[i]));
  drop_doubles(out);
  return OD_OK;
}
