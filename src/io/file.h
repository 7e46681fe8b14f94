/* One file interface: streams over the local disk (gs:// is refused by name until the job service brings it).
 *
 * Every error names the path and what the system said. Interrupted and short writes are continued; a full disk is an error
 * at the write, the flush or the close, never silence. A file that other programs may read is written through
 * od_file_replace: it appears under its name whole or not at all. */
#ifndef OD_IO_FILE_H
#define OD_IO_FILE_H

#include <stdint.h>

#include "base/status.h"
#include "base/str.h"
#include "io/path.h"

typedef struct od_file od_file;

/* Bytes that belong to somebody else. */
typedef struct {
  const uint8_t *data;
  size_t size;
} od_view;

/* Opens for reading. OD_ENOENT when it is absent. */
OD_MUST_CHECK od_status od_file_open(od_file **out, const char *path);
/* Creates or empties a file and opens it for writing in place: for logs and event files, which are read while they grow. */
OD_MUST_CHECK od_status od_file_create(od_file **out, const char *path);
/* The same, at the end of what is there; fails when `must_be_new` and the file exists (OD_EINVAL). */
OD_MUST_CHECK od_status od_file_append(od_file **out, const char *path, bool must_be_new);
/* Opens a hidden temporary file beside path; od_file_close puts it in place (fsync, rename, fsync of the folder), od_file_drop
 * removes it. A path that is a device or a pipe is written directly. The folder must exist. */
OD_MUST_CHECK od_status od_file_replace(od_file **out, const char *path);

/* Reads up to n bytes at the stream's position; *got < n only at the end of the file. */
OD_MUST_CHECK od_status od_file_read(od_file *f, void *data, size_t n, size_t *got);
/* Reads exactly n bytes; OD_EDATA naming path and position when the file ends before. */
OD_MUST_CHECK od_status od_file_read_exact(od_file *f, void *data, size_t n);
/* Reads up to n bytes at an offset without moving the stream. Thread-safe. */
OD_MUST_CHECK od_status od_file_read_at(od_file *f, void *data, size_t n, uint64_t offset, size_t *got);
/* Writes all n bytes (through a buffer: see od_file_flush). */
OD_MUST_CHECK od_status od_file_write(od_file *f, const void *data, size_t n);
/* Hands what is buffered to the system, so that other processes see it. */
OD_MUST_CHECK od_status od_file_flush(od_file *f);
OD_MUST_CHECK od_status od_file_seek(od_file *f, uint64_t offset);
/* Cuts a file that is being written to its first `size` bytes and forgets what is buffered: takes back a write that failed
 * half way, so that what is written next does not stand behind rubbish. */
OD_MUST_CHECK od_status od_file_cut(od_file *f, uint64_t size);
/* Position of the stream in bytes from the beginning. */
uint64_t od_file_tell(const od_file *f);
OD_MUST_CHECK od_status od_file_size(uint64_t *out, od_file *f);
const char *od_file_path(const od_file *f);

/* Finishes the file: flushes, for od_file_replace puts it in place. Frees f in every case; after an error a replaced file is
 * as it was before. NULL is fine. */
OD_MUST_CHECK od_status od_file_close(od_file *f);
/* Gives up: what was not flushed is lost, a temporary file is removed. Frees f; NULL is fine. */
void od_file_drop(od_file *f);

/* Whole file into a fresh block (a zero is added behind it). OD_EDATA when it is larger than max bytes (0: no limit). The
 * caller frees *data with od_free. */
OD_MUST_CHECK od_status od_file_read_all(char **data, size_t *size, const char *path, uint64_t max);
/* Whole file from memory, atomically; makes the folder when it is missing. */
OD_MUST_CHECK od_status od_file_write_all(const char *path, const void *data, size_t size);
/* Copies a file, atomically at its destination. */
OD_MUST_CHECK od_status od_file_copy(const char *from, const char *to);

/* A read-only view of a whole file in memory (mmap); for big files. An empty file gives size 0. Freed by od_file_unmap. Files
 * that shrink while they are viewed end the process (SIGBUS): map only what nobody rewrites in place. */
OD_MUST_CHECK od_status od_file_map(od_view *out, const char *path);
void od_file_unmap(od_view *view);

/* Removes temporary files that processes of this host left in a folder when they were killed. Best effort, silent. */
void od_file_remove_stale(const char *folder);

/* Faults for tests, process-wide: the n-th system call of that kind from now (1 = the next) behaves so, once. n = 0: off. */
typedef enum {
  OD_FAULT_NONE,
  OD_FAULT_ENOSPC, /* a write fails: disk full */
  OD_FAULT_SHORT,  /* a write takes one byte less than given, or half of it */
  OD_FAULT_EINTR,  /* a write is interrupted before it began */
  OD_FAULT_FSYNC,  /* an fsync fails */
  OD_FAULT_RENAME, /* a rename fails */
  OD_FAULT_READ    /* a read fails: EIO */
} od_file_fault_kind;
void od_file_fault(od_file_fault_kind kind, uint64_t n);

#endif
