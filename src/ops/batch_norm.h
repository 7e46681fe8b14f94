/* What both forms of batch norm share. Not for other rooms. */
#ifndef OD_OPS_BATCH_NORM_H
#define OD_OPS_BATCH_NORM_H

#include "ops/common.h"
#include "ops/nn.h"

extern const od_param od_batch_norm_param_table[];
/* x is input `x`; the present inputs from `first` on are [C]. Sets the first output to x's type, the n others to [C]. */
OD_MUST_CHECK od_status od_batch_norm_infer(const od_infer *c, int x, int first, int n);
/* Of both gradients: inputs dy, x, gamma (may be absent), ...; outputs dx, dgamma, dbeta. */
OD_MUST_CHECK od_status od_batch_norm_grad_infer(const od_infer *c);

#endif
