/* Memory for one computation, given by the caller: an op's scratch, which the engine has planned, so that a step allocates nothing.
 * A function says with od_<name>_work how many bytes it may take. It gets its od_work by value: what it takes is free again when it
 * returns, and functions it calls may take from the same memory behind that. */
#ifndef OD_OPS_BOX_WORK_H
#define OD_OPS_BOX_WORK_H

#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"

typedef struct {
  char *at; /* aligned to OD_ALIGN */
  size_t left;
} od_work;

/* Bytes of n elements as od_work_take books them. */
static inline size_t od_work_bytes(int64_t n, size_t size) {
  return ((size_t)n * size + OD_ALIGN - 1) / OD_ALIGN * OD_ALIGN;
}

/* Uninitialised; it is a bug when the work is too small. */
static inline void *od_work_take(od_work *w, int64_t n, size_t size) {
  const size_t bytes = od_work_bytes(n, size);
  OD_ASSERT(bytes <= w->left);
  void *p = w->at;
  w->at += bytes;
  w->left -= bytes;
  return p;
}

#endif
