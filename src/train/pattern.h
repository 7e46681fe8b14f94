/* Regular expressions over variable names, as Python's re.match has them: anchored at the beginning only. PCRE2 does the work:
 * its syntax is Python's for all that occurs in configs. */
#ifndef OD_TRAIN_PATTERN_H
#define OD_TRAIN_PATTERN_H

#include "base/status.h"

typedef struct od_patterns od_patterns;

/* Compiles n patterns (empty ones are left out). field stands in errors: a pattern that is wrong is OD_EINVAL with its
 * number, the place and what is wrong. */
OD_MUST_CHECK od_status od_patterns_new(od_patterns **out, const char *field, char *const *patterns, size_t n);
void od_patterns_free(od_patterns *p);
size_t od_patterns_size(const od_patterns *p);
/* Does any of them match the beginning of the name? */
bool od_patterns_match(const od_patterns *p, const char *name);

#endif
