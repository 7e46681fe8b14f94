/* Paths, folders and patterns. A doubled slash in a path is one slash; gs:// paths are named as such and refused. */
#ifndef OD_IO_PATH_H
#define OD_IO_PATH_H

#include <stdint.h>

#include "base/status.h"

/* A growable list of texts. Start from OD_STRINGS_INIT; it owns its items. */
typedef struct {
  char **items;
  size_t count, cap;
} od_strings;
#define OD_STRINGS_INIT ((od_strings){0})

/* Appends a copy of text. */
OD_MUST_CHECK od_status od_strings_add(od_strings *list, const char *text);
/* Byte order, whatever the locale says. */
void od_strings_sort(od_strings *list);
void od_strings_free(od_strings *list);

/* A copy of path with doubled slashes made one (the two of "gs://" stay) and "./" in front kept. The caller frees *out. */
OD_MUST_CHECK od_status od_path_clean(char **out, const char *path);
/* "<folder>/<name>"; name alone when it is absolute or folder is empty. The caller frees *out. */
OD_MUST_CHECK od_status od_path_join(char **out, const char *folder, const char *name);
/* The part after the last slash; borrowed from path. */
const char *od_path_base(const char *path);
/* The part before the last slash: "." when there is none, "/" for "/x". The caller frees *out. */
OD_MUST_CHECK od_status od_path_dir(char **out, const char *path);
/* Path names an object of Cloud Storage. */
bool od_path_is_remote(const char *path);
/* Refuses gs:// paths with OD_EUNSUPPORTED and an advice, an empty path with OD_EINVAL. */
OD_MUST_CHECK od_status od_path_check_local(const char *path);

bool od_path_exists(const char *path);
bool od_path_is_dir(const char *path);
bool od_path_is_file(const char *path); /* a regular file */

/* Makes a folder and its parents; fine when it is there. */
OD_MUST_CHECK od_status od_path_make_dirs(const char *path);
/* Makes the folder that a file of this name will stand in. */
OD_MUST_CHECK od_status od_path_make_parent(const char *path);
/* Names (not paths) in a folder, sorted, without "." and "..". Appends to out. */
OD_MUST_CHECK od_status od_path_list(od_strings *out, const char *folder);
/* Removes a file; OD_ENOENT when it is absent. */
OD_MUST_CHECK od_status od_path_remove(const char *path);
OD_MUST_CHECK od_status od_path_rename(const char *from, const char *to);

/* Appends the files that match a pattern, sorted by bytes. In a pattern, between slashes: `*` any text, `?` one
 * character, `[a-z]` a set; none of them matches a dot at the front of a name (temporary files are called so). A comma
 * separates patterns. `name@10` stands for `name-?????-of-00010`, `name@*` for any number of shards. A path without any of
 * these stands for itself. OD_ENOENT when a pattern matches nothing; the message says what lies nearby. */
OD_MUST_CHECK od_status od_path_glob(od_strings *out, const char *pattern);
/* The same over several patterns; a file is listed once. */
OD_MUST_CHECK od_status od_path_glob_all(od_strings *out, const char *const *patterns, size_t n);
/* text holds one of the characters that make it a pattern. */
bool od_path_is_pattern(const char *text);

#endif
