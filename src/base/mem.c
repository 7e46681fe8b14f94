/* The allocator of mem.h: aligned blocks with a small header that holds the size, counted with atomics. */
#include "base/mem.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  size_t size;
  void *base;                                           /* what the system gave */
  char pad[OD_ALIGN - sizeof(size_t) - sizeof(void *)]; /* keeps what follows aligned */
} header;

static atomic_size_t used, peak;
static atomic_uint_fast64_t count, fail_at;

static bool may_allocate(void) {
  atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);
  uint_fast64_t left = atomic_load_explicit(&fail_at, memory_order_relaxed);
  if (left == 0) return true;
  return atomic_fetch_sub(&fail_at, 1) != 1;
}

static void add_used(size_t size) {
  size_t now = atomic_fetch_add_explicit(&used, size, memory_order_relaxed) + size;
  size_t old = atomic_load_explicit(&peak, memory_order_relaxed);
  while (now > old && !atomic_compare_exchange_weak(&peak, &old, now)) {}
}

static void *ready(void *base, size_t size) {
  if (!base) {
    (void)od_fail(OD_ENOMEM, "out of memory: %zu bytes asked for, %zu bytes in use", size, od_mem_used());
    return NULL;
  }
  header *h = (header *)(((uintptr_t)base + OD_ALIGN - 1) / OD_ALIGN * OD_ALIGN);
  h->size = size;
  h->base = base;
  add_used(size);
  return h + 1;
}

void *od_alloc(size_t size) {
  size_t rounded;
  const bool may = may_allocate() && !__builtin_add_overflow(size, sizeof(header) + OD_ALIGN - 1, &rounded);
  return ready(may ? aligned_alloc(OD_ALIGN, rounded / OD_ALIGN * OD_ALIGN) : NULL, size);
}

void *od_calloc(size_t n, size_t size) {
  size_t bytes, rounded;
  if (!od_mul_ok(&bytes, n, size)) {
    (void)od_fail(OD_ENOMEM, "out of memory: %zu elements of %zu bytes asked for", n, size);
    return NULL;
  }
  /* calloc knows which memory comes from the system as zeroes: large blocks are not written twice */
  const bool may = may_allocate() && !__builtin_add_overflow(bytes, sizeof(header) + OD_ALIGN - 1, &rounded);
  return ready(may ? calloc(1, rounded) : NULL, bytes);
}

void *od_realloc(void *block, size_t size) {
  if (!block) return od_alloc(size);
  void *p = od_alloc(size);
  if (!p) return NULL;
  size_t old = ((header *)block - 1)->size;
  memcpy(p, block, old < size ? old : size);
  od_free(block);
  return p;
}

void od_free(void *block) {
  if (!block) return;
  header *h = (header *)block - 1;
  atomic_fetch_sub_explicit(&used, h->size, memory_order_relaxed);
  free(h->base);
}

char *od_strndup(const char *text, size_t n) {
  char *p = od_alloc(n + 1);
  if (!p) return NULL;
  memcpy(p, text, n);
  p[n] = 0;
  return p;
}

char *od_strdup(const char *text) { return od_strndup(text, strlen(text)); }

od_status od_new(void *out_pointer, size_t n, size_t size) {
  void *p = od_calloc(n, size);
  memcpy(out_pointer, &p, sizeof p);
  return p ? OD_OK : OD_ENOMEM;
}

od_status od_grow(void *items_pointer, size_t *cap, size_t need, size_t size) {
  if (need <= *cap) return OD_OK;
  size_t want = *cap ? *cap : 8, bytes;
  while (want < need) want *= 2;
  if (!od_mul_ok(&bytes, want, size)) return od_fail(OD_ENOMEM, "out of memory: %zu elements of %zu bytes", want, size);
  void *p;
  memcpy(&p, items_pointer, sizeof p);
  p = od_realloc(p, bytes);
  if (!p) return OD_ENOMEM;
  memcpy(items_pointer, &p, sizeof p);
  *cap = want;
  return OD_OK;
}

size_t od_mem_used(void) { return atomic_load_explicit(&used, memory_order_relaxed); }
size_t od_mem_peak(void) { return atomic_load_explicit(&peak, memory_order_relaxed); }
uint64_t od_mem_count(void) { return atomic_load_explicit(&count, memory_order_relaxed); }
void od_mem_fail_at(uint64_t n) { atomic_store(&fail_at, n); }
bool od_mul_ok(size_t *out, size_t a, size_t b) { return !__builtin_mul_overflow(a, b, out); }

/* ------------------------------------------------------------------------------------------------------------ arena */
enum { BLOCK_BYTES = 1 << 16 };

typedef struct block {
  struct block *next;
  size_t size, taken;
  char pad[OD_ALIGN - sizeof(void *) - 2 * sizeof(size_t)];
} block;

struct od_arena {
  block *head;  /* in use, newest first */
  block *spare; /* kept by a reset */
};

od_status od_arena_new(od_arena **out) { return od_new(out, 1, sizeof **out); }

static void free_list(block *b) {
  while (b) {
    block *next = b->next;
    od_free(b);
    b = next;
  }
}

void od_arena_free(od_arena *arena) {
  if (!arena) return;
  free_list(arena->head);
  free_list(arena->spare);
  od_free(arena);
}

void od_arena_reset(od_arena *arena) {
  if (OD_UNDER_SANITIZER) {
    free_list(arena->head);
    arena->head = NULL;
    return;
  }
  while (arena->head) {
    block *b = arena->head;
    arena->head = b->next;
    b->next = arena->spare;
    b->taken = 0;
    arena->spare = b;
  }
}

/* A block with room for size bytes: a spare one that is large enough, or a new one. */
static block *block_for(od_arena *arena, size_t size) {
  for (block **at = &arena->spare; *at; at = &(*at)->next) {
    if ((*at)->size < size) continue;
    block *b = *at;
    *at = b->next;
    return b;
  }
  size_t bytes = size > BLOCK_BYTES || OD_UNDER_SANITIZER ? size : BLOCK_BYTES;
  block *b = od_alloc(sizeof(block) + bytes);
  if (!b) return NULL;
  b->size = bytes;
  b->taken = 0;
  return b;
}

void *od_arena_alloc(od_arena *arena, size_t size) {
  size_t rounded;
  if (__builtin_add_overflow(size, OD_ALIGN - 1, &rounded)) {
    (void)od_fail(OD_ENOMEM, "out of memory: %zu bytes asked for", size);
    return NULL;
  }
  rounded = OD_UNDER_SANITIZER ? size : rounded / OD_ALIGN * OD_ALIGN;
  block *b = arena->head;
  if (OD_UNDER_SANITIZER || !b || b->size - b->taken < rounded) {
    b = block_for(arena, rounded);
    if (!b) return NULL;
    b->next = arena->head;
    arena->head = b;
  }
  char *p = (char *)(b + 1) + b->taken;
  b->taken += rounded;
  memset(p, 0, size);
  return p;
}

char *od_arena_strdup(od_arena *arena, const char *text) {
  size_t n = strlen(text) + 1;
  char *p = od_arena_alloc(arena, n);
  if (p) memcpy(p, text, n);
  return p;
}

char *od_arena_printf(od_arena *arena, const char *format, ...) {
  va_list ap, again;
  va_start(ap, format);
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, format, ap);
  va_end(ap);
  char *p = n < 0 ? NULL : od_arena_alloc(arena, (size_t)n + 1);
  if (p) vsnprintf(p, (size_t)n + 1, format, again);
  va_end(again);
  return p;
}
