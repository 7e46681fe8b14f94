/* Growable text, and a few questions about text that many rooms ask. */
#ifndef OD_BASE_STR_H
#define OD_BASE_STR_H

#include <stdint.h>

#include "base/status.h"

/* A growable byte string, always zero-terminated once something was added. Start from OD_STR_INIT. Sticky: after memory
 * ran out further additions do nothing and od_str_check tells. */
typedef struct {
  char *data; /* NULL while empty; the string owns it */
  size_t len, cap;
  bool failed;
} od_str;
#define OD_STR_INIT ((od_str){0})

void od_str_add(od_str *s, const char *text);
void od_str_add_bytes(od_str *s, const void *bytes, size_t n);
void od_str_addf(od_str *s, const char *format, ...) OD_PRINTF(2, 3);
/* OD_ENOMEM when an addition failed. */
OD_MUST_CHECK od_status od_str_check(const od_str *s);
/* The text, "" when empty. Borrowed. */
const char *od_str_text(const od_str *s);
void od_str_clear(od_str *s); /* keeps the memory */
void od_str_free(od_str *s);
/* Hands the text over (caller frees with od_free); NULL when memory ran out. Empties s. */
char *od_str_take(od_str *s);

bool od_starts_with(const char *text, const char *prefix);
bool od_ends_with(const char *text, const char *suffix);

/* Edit distance (Levenshtein, swaps of neighbours count one), case-insensitive, cut off at 100 characters. */
int od_edit_distance(const char *a, const char *b);
/* The most similar of n candidates, or NULL when none is near enough to be worth asking "did you mean". */
const char *od_did_you_mean(const char *word, const char *const *candidates, size_t n);

/* FNV-1a, 64 bit. */
uint64_t od_hash_text(const char *text);
uint64_t od_hash_bytes(const void *bytes, size_t n);

/* Strict number parsing: the whole text must be the number; false otherwise (overflow too). */
bool od_parse_i64(int64_t *out, const char *text);
bool od_parse_f64(double *out, const char *text);

#endif
