/* Memory: one counted, failable allocator, and arenas by lifetime.
 *
 * Everything in objdet is allocated here, so that a test can make the n-th allocation fail and a run can say what it
 * holds. Arenas serve things that die together (a graph, a step, a record); under AddressSanitizer every piece of an
 * arena is a block of its own, so that the sanitizer sees inside. */
#ifndef OD_BASE_MEM_H
#define OD_BASE_MEM_H

#include <stdint.h>

#include "base/status.h"

/* Alignment in bytes of every block: one cache line, and a full AVX-512 register. */
enum { OD_ALIGN = 64 };

/* Allocates size bytes, 64-byte aligned, contents undefined. NULL when memory is short, and then the status message says
 * how much was asked for. Size 0 gives a block that may be freed. Thread-safe. */
void *od_alloc(size_t size);

/* As od_alloc, zeroed, for count elements of size bytes; the product is checked for overflow. */
void *od_calloc(size_t count, size_t size);

/* Grows or shrinks a block of od_alloc (or NULL); contents up to the smaller size stay. On failure NULL and the old block
 * is still the caller's. */
void *od_realloc(void *block, size_t size);

/* Frees a block of the functions above; NULL is fine. */
void od_free(void *block);

/* Copies a text, or n bytes of it (a zero is added). NULL when memory is short. The caller frees with od_free. */
char *od_strdup(const char *text);
char *od_strndup(const char *text, size_t n);

/* For pointers: sets *out or returns OD_ENOMEM with a message; the usual way to allocate in functions with a status. */
OD_MUST_CHECK od_status od_new(void *out_pointer, size_t count, size_t size);

/* Ensures room for `need` elements in the growable array *items (capacity *cap), doubling. */
OD_MUST_CHECK od_status od_grow(void *items_pointer, size_t *cap, size_t need, size_t size);

/* Bytes held now, and the largest ever held, by od_alloc. */
size_t od_mem_used(void);
size_t od_mem_peak(void);
/* Number of allocations made so far (od_alloc, od_calloc, growing od_realloc). A test asserts that a step makes none. */
uint64_t od_mem_count(void);

/* Makes the n-th allocation from now fail once (1 = the next); 0 switches off. For tests; process-wide. */
void od_mem_fail_at(uint64_t n);

/* a*b into *out; false on overflow. */
bool od_mul_ok(size_t *out, size_t a, size_t b);

/* Built for AddressSanitizer? Arenas then give each piece a block of its own; tests whose later rounds run no code that the first did not
 * make fewer, since each costs many times what it costs elsewhere. */
#if defined(__SANITIZE_ADDRESS__)
#define OD_UNDER_SANITIZER true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define OD_UNDER_SANITIZER true
#endif
#endif
#ifndef OD_UNDER_SANITIZER
#define OD_UNDER_SANITIZER false
#endif

/* ------------------------------------------------------------------------------------------------------------ arena */
typedef struct od_arena od_arena;

/* Creates an arena; the caller frees it with od_arena_free, which frees all pieces. */
OD_MUST_CHECK od_status od_arena_new(od_arena **out);
void od_arena_free(od_arena *arena);
/* Forgets all pieces but keeps the memory for the next round (a step, a record). */
void od_arena_reset(od_arena *arena);
/* A piece of size bytes, zeroed, 64-byte aligned; NULL with a message when memory is short. Not thread-safe. */
void *od_arena_alloc(od_arena *arena, size_t size);
char *od_arena_strdup(od_arena *arena, const char *text);
char *od_arena_printf(od_arena *arena, const char *format, ...) OD_PRINTF(2, 3);

#endif
