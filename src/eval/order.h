/* The order of equal scores: private to src/eval. */
#ifndef OD_EVAL_ORDER_H
#define OD_EVAL_ORDER_H

#include <stdint.h>

#include "base/status.h"

/* Writes into order [n] the indices of scores [n], best first. by_age: equal scores in the order given. Otherwise as the
 * original's numpy leaves them, which is unstable: up to 64 scores the network of its AVX-512 argsort (what the original
 * does on current server processors, and what its component figures hold), beyond that the later of equals first.
 * Scores are numbers. */
OD_MUST_CHECK od_status od_eval_order(uint32_t *order, const float *scores, size_t n, bool by_age);

#endif
