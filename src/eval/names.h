/* Names of classes in tags: private to src/eval. */
#ifndef OD_EVAL_NAMES_H
#define OD_EVAL_NAMES_H

#include <stdint.h>

#include "base/str.h"

/* Appends the name in Unicode's form NFKD, as the original's Pascal and Open Images tags have it: "café" becomes "cafe"
 * and a combining accent. Covers Latin, Greek, Cyrillic, kana, Hangul, Devanagari and compatibility forms; marks that
 * stand in the name already are not put into canonical order. What is no UTF-8 is kept as it is. */
void od_eval_add_nfkd(od_str *out, const char *name);

/* character, number of parts, parts; ascending. */
extern const uint16_t od_nfkd_table[];
extern const size_t od_nfkd_size;

#endif
