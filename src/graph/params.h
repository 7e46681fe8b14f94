/* Parameter structs of ops, handled through their tables: copying into a graph, range checks, text. */
#ifndef OD_GRAPH_PARAMS_H
#define OD_GRAPH_PARAMS_H

#include "base/str.h"
#include "graph/op.h"
#include "base/mem.h"

/* Copies params (NULL: all zero) of op into the arena, lists, texts and tensors included; checks ranges. */
OD_MUST_CHECK od_status od_params_copy(const void **out, od_arena *arena, const od_op *op, const void *params);

/* Appends "name=value name=value"; tensors as type and shape. */
void od_params_text(od_str *out, const od_op *op, const void *params);

#endif
