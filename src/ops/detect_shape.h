/* Shape inference of the detection ops by patterns: "BA4" is three dimensions, of which B and A are bound by the first input
 * that knows them and must agree afterwards, 4 is a constant, ? anything. Inside ops/ only. */
#ifndef OD_OPS_DETECT_SHAPE_H
#define OD_OPS_DETECT_SHAPE_H

#include "graph/op.h"

/* What the letters A to Z stand for so far; -1: not known. */
typedef struct {
  int64_t dim[26];
} od_letters;

void od_letters_clear(od_letters *d);
/* Checks dtype and dimensions of input i, called `what` in messages, and binds letters. OD_EINVAL when it does not fit. */
OD_MUST_CHECK od_status od_letters_in(od_letters *d, const od_infer *c, int i, const char *what, od_dtype dtype,
                                      const char *pattern);
/* As above with either of two patterns of different rank. */
OD_MUST_CHECK od_status od_letters_in2(od_letters *d, const od_infer *c, int i, const char *what, od_dtype dtype,
                                       const char *one, const char *other);
void od_letters_set(od_letters *d, char letter, int64_t v);
int64_t od_letters_get(const od_letters *d, char letter);
/* Sets the type of output o; letters not bound are -1. */
void od_letters_out(const od_letters *d, const od_infer *c, int o, od_dtype dtype, const char *pattern);

#endif
