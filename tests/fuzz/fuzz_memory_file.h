/* A file in memory for fuzz targets whose readers take paths. */
#ifndef OD_FUZZ_MEMORY_FILE_H
#define OD_FUZZ_MEMORY_FILE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Makes the file of these bytes; its path is good until fuzz_file_close. */
static inline int fuzz_file_open(char path[64], const uint8_t *data, size_t size) {
  int fd = memfd_create("fuzz", 0);
  if (fd < 0 || (size > 0 && write(fd, data, size) != (ssize_t)size)) abort();
  snprintf(path, 64, "/proc/self/fd/%d", fd);
  return fd;
}

static inline void fuzz_file_close(int fd) { close(fd); }

#endif
