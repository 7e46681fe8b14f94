/* The list of ops as data; see op_list.h. */
#include <string.h>

#include "graph/op.h"
#include "ops/op_list.h"

#define X(name) extern const od_op od_op_##name;
OD_OP_LIST(X)
#undef X

static const od_op *const ops[] = {
#define X(name) &od_op_##name,
    OD_OP_LIST(X)
#undef X
};

enum { N_OPS = sizeof ops / sizeof *ops };

const od_op *od_op_at(size_t i) { return i < N_OPS ? ops[i] : NULL; }

const od_op *od_op_find(const char *name) {
  for (size_t i = 0; i < N_OPS; i++)
    if (strcmp(ops[i]->name, name) == 0) return ops[i];
  return NULL;
}
