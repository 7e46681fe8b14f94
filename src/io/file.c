/* The streams of file.h on POSIX files: one buffer a stream, writes continued until done, replacement by rename. */
#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

enum { BUFFER_BYTES = 1 << 16 };

struct od_file {
  int fd;
  bool writing;
  char *path;
  char *temp;        /* written instead of path until closed; NULL when written in place */
  uint8_t *buffer;   /* BUFFER_BYTES */
  size_t at, filled; /* reading: unread bytes are [at, filled); writing: [0, filled) waits */
  uint64_t position; /* of the descriptor */
};

/* ------------------------------------------------------------------------------------------------ system calls, faults */
static atomic_int fault_kind;
static atomic_uint_fast64_t fault_left;

void od_file_fault(od_file_fault_kind kind, uint64_t n) {
  atomic_store(&fault_left, n);
  atomic_store(&fault_kind, n ? (int)kind : (int)OD_FAULT_NONE);
}

static bool fault_now(od_file_fault_kind kind) {
  if (atomic_load_explicit(&fault_kind, memory_order_relaxed) != (int)kind) return false;
  if (atomic_fetch_sub(&fault_left, 1) != 1) return false;
  atomic_store(&fault_kind, OD_FAULT_NONE);
  return true;
}

static ssize_t sys_write(int fd, const void *data, size_t n) {
  if (fault_now(OD_FAULT_ENOSPC)) {
    errno = ENOSPC;
    return -1;
  }
  if (fault_now(OD_FAULT_EINTR)) {
    errno = EINTR;
    return -1;
  }
  if (n > 1 && fault_now(OD_FAULT_SHORT)) n = n > 2 ? n / 2 : n - 1;
  return write(fd, data, n);
}

static int sys_fsync(int fd) {
  if (fault_now(OD_FAULT_FSYNC)) {
    errno = EIO;
    return -1;
  }
  return fsync(fd);
}

static int sys_rename(const char *from, const char *to) {
  if (fault_now(OD_FAULT_RENAME)) {
    errno = EIO;
    return -1;
  }
  return rename(from, to);
}

static ssize_t sys_pread(int fd, void *data, size_t n, uint64_t offset) {
  if (fault_now(OD_FAULT_READ)) {
    errno = EIO;
    return -1;
  }
  return pread(fd, data, n, (off_t)offset);
}

/* ------------------------------------------------------------------------------------------------------------ opening */
static od_status cannot(const char *what, const char *path) {
  int e = errno;
  const char *advice = e == ENOSPC   ? " (the disk is full: free some space and run again)"
                       : e == EDQUOT ? " (the disk quota is used up)"
                       : e == EMFILE ? " (too many open files: see ulimit -n)"
                                     : "";
  return od_fail(e == ENOENT   ? OD_ENOENT
                 : e == ENOMEM ? OD_ENOMEM
                               : OD_EIO,
                 "cannot %s %s: %s%s", what, path, strerror(e), advice);
}

static void free_file(od_file *f) {
  if (f->fd >= 0) close(f->fd);
  od_free(f->path);
  od_free(f->temp);
  od_free(f->buffer);
  od_free(f);
}

static od_status new_file(od_file **out, const char *path, bool writing) {
  *out = NULL;
  OD_TRY(od_path_check_local(path));
  od_file *f;
  OD_TRY(od_new(&f, 1, sizeof *f));
  f->fd = -1;
  f->writing = writing;
  od_status st = od_path_clean(&f->path, path);
  if (!st && !(f->buffer = od_alloc(BUFFER_BYTES))) st = OD_ENOMEM;
  if (st) {
    free_file(f);
    return st;
  }
  *out = f;
  return OD_OK;
}

static od_status open_as(od_file **out, const char *path, int flags, const char *what) {
  OD_TRY(new_file(out, path, (flags & O_ACCMODE) != O_RDONLY));
  od_file *f = *out;
  do f->fd = open(f->path, flags | O_CLOEXEC, 0666);
  while (f->fd < 0 && errno == EINTR);
  struct stat s;
  if (f->fd >= 0 && fstat(f->fd, &s) == 0 && S_ISDIR(s.st_mode)) {
    close(f->fd);
    f->fd = -1;
    errno = EISDIR;
  }
  if (f->fd >= 0) {
    if ((flags & O_APPEND) && s.st_size > 0) f->position = (uint64_t)s.st_size;
    return OD_OK;
  }
  od_status st = cannot(what, f->path);
  free_file(f);
  *out = NULL;
  return st;
}

od_status od_file_open(od_file **out, const char *path) { return open_as(out, path, O_RDONLY, "open"); }

od_status od_file_create(od_file **out, const char *path) {
  return open_as(out, path, O_WRONLY | O_CREAT | O_TRUNC, "create");
}

od_status od_file_append(od_file **out, const char *path, bool must_be_new) {
  return open_as(out, path, O_WRONLY | O_CREAT | O_APPEND | (must_be_new ? O_EXCL : 0), "create");
}

/* ".<name>.<host>-<pid>-<count>.tmp": hidden, so that no pattern finds it; host and process, so that what a killed process left
 * can be told from what is being written. */
static od_status temp_name(char **out, const char *path, unsigned n) {
  static const char *const format = "%s/.%s.%s-%ld-%u.tmp";
  char host[65] = "";
  (void)gethostname(host, sizeof host - 1);
  char *dir;
  OD_TRY(od_path_dir(&dir, path));
  od_str s = OD_STR_INIT;
  od_str_addf(&s, format, strcmp(dir, "/") == 0 ? "" : dir, od_path_base(path), host, (long)getpid(), n);
  od_free(dir);
  od_status st = od_str_check(&s);
  *out = od_str_take(&s);
  return st ? st : *out ? OD_OK : OD_ENOMEM;
}

/* A link stays a link: what it leads to is replaced. */
static od_status follow_link(od_file *f) {
  struct stat s;
  if (lstat(f->path, &s) != 0 || !S_ISLNK(s.st_mode)) return OD_OK;
  char *target = realpath(f->path, NULL);
  if (!target) return OD_OK; /* it leads nowhere: then it is replaced itself */
  od_free(f->path);
  f->path = od_strdup(target);
  free(target);
  return f->path ? OD_OK : OD_ENOMEM;
}

od_status od_file_replace(od_file **out, const char *path) {
  static atomic_uint count;
  struct stat s;
  OD_TRY(new_file(out, path, true));
  od_file *f = *out;
  od_status st = follow_link(f);
  if (st) {
  } else if (stat(f->path, &s) == 0 && !S_ISREG(s.st_mode)) {
    if (S_ISDIR(s.st_mode))
      errno = EISDIR;
    else
      f->fd = open(f->path, O_WRONLY | O_CLOEXEC);
  } else {
    st = temp_name(&f->temp, f->path, atomic_fetch_add(&count, 1));
    if (!st) f->fd = open(f->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  }
  if (!st && f->fd < 0) st = cannot("write", f->path);
  if (st) {
    free_file(f);
    *out = NULL;
  }
  return st;
}

/* ------------------------------------------------------------------------------------------------------------ reading */
od_status od_file_read_at(od_file *f, void *data, size_t n, uint64_t offset, size_t *got) {
  uint8_t *to = data;
  *got = 0;
  while (*got < n) {
    ssize_t r = sys_pread(f->fd, to + *got, n - *got, offset + *got);
    if (r < 0 && errno == EINTR) continue;
    if (r < 0) return cannot("read", f->path);
    if (r == 0) break;
    *got += (size_t)r;
  }
  return OD_OK;
}

od_status od_file_read(od_file *f, void *data, size_t n, size_t *got) {
  uint8_t *to = data;
  *got = 0;
  while (*got < n) {
    size_t have = f->filled - f->at, want = n - *got;
    if (have > 0) {
      size_t take = have < want ? have : want;
      memcpy(to + *got, f->buffer + f->at, take);
      f->at += take;
      *got += take;
      continue;
    }
    /* What is larger than the buffer goes past it. */
    bool direct = want >= BUFFER_BYTES;
    size_t r;
    OD_TRY(od_file_read_at(f, direct ? to + *got : f->buffer, direct ? want : BUFFER_BYTES, f->position, &r));
    f->position += r;
    if (direct) *got += r;
    f->at = 0;
    f->filled = direct ? 0 : r;
    if (r == 0) break;
  }
  return OD_OK;
}

od_status od_file_read_exact(od_file *f, void *data, size_t n) {
  size_t got;
  uint64_t at = od_file_tell(f);
  OD_TRY(od_file_read(f, data, n, &got));
  if (got == n) return OD_OK;
  return od_fail(OD_EDATA, "%s: ends at byte %llu, %zu more bytes were expected", f->path,
                 (unsigned long long)(at + got), n - got);
}

/* ------------------------------------------------------------------------------------------------------------ writing */
static od_status write_out(od_file *f, const uint8_t *data, size_t n) {
  while (n > 0) {
    ssize_t w = sys_write(f->fd, data, n);
    if (w < 0 && errno == EINTR) continue;
    if (w < 0) return cannot("write", f->path);
    data += w;
    n -= (size_t)w;
    f->position += (uint64_t)w;
  }
  return OD_OK;
}

od_status od_file_flush(od_file *f) {
  if (!f->writing || f->filled == 0) return OD_OK;
  size_t n = f->filled;
  f->filled = 0; /* after a failure the bytes are gone: the caller drops the file or says what was lost */
  return write_out(f, f->buffer, n);
}

od_status od_file_write(od_file *f, const void *data, size_t n) {
  OD_ASSERT(f->writing);
  if (f->filled + n > BUFFER_BYTES) OD_TRY(od_file_flush(f));
  if (n >= BUFFER_BYTES) return write_out(f, data, n);
  if (n > 0) memcpy(f->buffer + f->filled, data, n);
  f->filled += n;
  return OD_OK;
}

od_status od_file_seek(od_file *f, uint64_t offset) {
  OD_TRY(od_file_flush(f));
  if (f->writing && lseek(f->fd, (off_t)offset, SEEK_SET) < 0) return cannot("seek in", f->path);
  if (!f->writing && offset <= f->position && f->position - offset <= f->filled) { /* still in the buffer */
    f->at = f->filled - (size_t)(f->position - offset);
    return OD_OK;
  }
  f->at = f->filled = 0;
  f->position = offset;
  return OD_OK;
}

od_status od_file_cut(od_file *f, uint64_t size) {
  OD_ASSERT(f->writing);
  f->filled = 0;
  if (ftruncate(f->fd, (off_t)size) != 0 || lseek(f->fd, (off_t)size, SEEK_SET) < 0) return cannot("shorten", f->path);
  f->position = size;
  return OD_OK;
}

uint64_t od_file_tell(const od_file *f) {
  return f->writing ? f->position + f->filled : f->position - (f->filled - f->at);
}

od_status od_file_size(uint64_t *out, od_file *f) {
  struct stat s;
  if (fstat(f->fd, &s) != 0) return cannot("measure", f->path);
  *out = (uint64_t)s.st_size + (f->writing ? f->filled : 0);
  return OD_OK;
}

const char *od_file_path(const od_file *f) { return f->path; }

/* The rename is on the disk only when the folder is. */
static od_status sync_folder(const char *path) {
  char *dir;
  OD_TRY(od_path_dir(&dir, path));
  int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) {
    (void)fsync(fd); /* some file systems refuse to sync folders; the file itself is safe */
    close(fd);
  }
  od_free(dir);
  return OD_OK;
}

od_status od_file_close(od_file *f) {
  if (!f) return OD_OK;
  od_status st = od_file_flush(f);
  if (!st && f->temp && sys_fsync(f->fd) != 0) st = cannot("write to disk", f->path);
  if (f->fd >= 0 && close(f->fd) != 0 && errno != EINTR && !st && f->writing) st = cannot("close", f->path);
  f->fd = -1;
  if (f->temp) {
    if (!st && sys_rename(f->temp, f->path) != 0) st = cannot("put in place", f->path);
    if (st)
      (void)unlink(f->temp);
    else
      st = sync_folder(f->path);
  }
  free_file(f);
  return st;
}

void od_file_drop(od_file *f) {
  if (!f) return;
  if (f->temp) (void)unlink(f->temp);
  free_file(f);
}

/* ------------------------------------------------------------------------------------------------------------ whole files */
/* What is left of a stream whose size nobody knows (a pipe, a file of /proc). */
static od_status read_rest(od_str *s, od_file *f, uint64_t max) {
  char piece[4096];
  size_t got;
  do {
    OD_TRY(od_file_read(f, piece, sizeof piece, &got));
    od_str_add_bytes(s, piece, got);
    if (max && s->len > max) return od_fail(OD_EDATA, "%s has more than %llu bytes", f->path, (unsigned long long)max);
  } while (got > 0);
  return od_str_check(s);
}

od_status od_file_read_all(char **data, size_t *size, const char *path, uint64_t max) {
  *data = NULL;
  *size = 0;
  od_file *f;
  OD_TRY(od_file_open(&f, path));
  od_str rest = OD_STR_INIT;
  char *block = NULL;
  od_status st;
  uint64_t total = 0;
  size_t got = 0;
  OD_GO(st, od_file_size(&total, f));
  if (max && total > max) {
    st = od_fail(OD_EDATA, "%s has %llu bytes, at most %llu are read here", path, (unsigned long long)total,
                 (unsigned long long)max);
    goto done;
  }
  if (total == 0) {
    OD_GO(st, read_rest(&rest, f, max));
    got = rest.len;
    block = od_str_take(&rest);
  } else if ((block = od_alloc((size_t)total + 1))) {
    OD_GO(st, od_file_read(f, block, (size_t)total, &got));
    block[got] = 0;
  }
  if (!block) st = od_fail_context(OD_ENOMEM, "%s", path);
done:
  od_str_free(&rest);
  od_file_drop(f);
  if (st) {
    od_free(block);
    return st;
  }
  *data = block;
  *size = got;
  return OD_OK;
}

od_status od_file_write_all(const char *path, const void *data, size_t size) {
  od_file *f;
  OD_TRY(od_path_make_parent(path));
  OD_TRY(od_file_replace(&f, path));
  od_status st = od_file_write(f, data, size);
  if (!st) return od_file_close(f);
  od_file_drop(f);
  return st;
}

od_status od_file_copy(const char *from, const char *to) {
  od_file *in = NULL, *out = NULL;
  od_status st;
  uint8_t *piece = od_alloc(BUFFER_BYTES);
  if (!piece) return OD_ENOMEM;
  OD_GO(st, od_file_open(&in, from));
  OD_GO(st, od_path_make_parent(to));
  OD_GO(st, od_file_replace(&out, to));
  size_t got;
  do {
    OD_GO(st, od_file_read(in, piece, BUFFER_BYTES, &got));
    OD_GO(st, od_file_write(out, piece, got));
  } while (got > 0);
  st = od_file_close(out);
  out = NULL;
done:
  od_file_drop(in);
  od_file_drop(out);
  od_free(piece);
  return st;
}

od_status od_file_map(od_view *out, const char *path) {
  *out = (od_view){0};
  od_file *f;
  uint64_t size;
  OD_TRY(od_file_open(&f, path));
  od_status st = od_file_size(&size, f);
  if (!st && size > 0) {
    void *p = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, f->fd, 0);
    if (p == MAP_FAILED)
      st = cannot("map", f->path);
    else
      *out = (od_view){p, (size_t)size};
  }
  od_file_drop(f);
  return st;
}

void od_file_unmap(od_view *view) {
  if (view->data) (void)munmap((void *)(uintptr_t)view->data, view->size);
  *view = (od_view){0};
}

/* The process number in ".<name>.<host>-<pid>-<count>.tmp" of this host; 0 when name is not of that form. */
static long temp_owner(const char *name, const char *host) {
  if (name[0] != '.' || !od_ends_with(name, ".tmp")) return 0;
  char mark[80] = ".";
  strncat(mark, host, 70);
  strncat(mark, "-", 2);
  const char *at = NULL;
  for (const char *p = strstr(name, mark); p; p = strstr(p + 1, mark)) at = p + strlen(mark);
  if (!at || *at < '1' || *at > '9') return 0;
  long pid = 0;
  while (*at >= '0' && *at <= '9' && pid < 100000000) pid = pid * 10 + (*at++ - '0');
  return *at == '-' ? pid : 0;
}

void od_file_remove_stale(const char *folder) {
  char host[65] = "";
  (void)gethostname(host, sizeof host - 1);
  od_strings names = OD_STRINGS_INIT;
  if (od_path_is_dir(folder) && od_path_list(&names, folder) == OD_OK)
    for (size_t i = 0; i < names.count; i++) {
      long pid = temp_owner(names.items[i], host);
      char *path;
      if (pid <= 0 || kill((pid_t)pid, 0) == 0 || errno != ESRCH) continue;
      if (od_path_join(&path, folder, names.items[i]) != OD_OK) continue;
      (void)unlink(path);
      od_free(path);
    }
  od_strings_free(&names);
}
