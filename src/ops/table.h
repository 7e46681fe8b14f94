/* Declares the const table od_op_<name> of every op of the list. For files of this room. */
#ifndef OD_OPS_TABLE_H
#define OD_OPS_TABLE_H

#include "graph/op.h"
#include "ops/op_list.h"

#define X(name) extern const od_op od_op_##name;
OD_OP_LIST(X)
#undef X

#endif
