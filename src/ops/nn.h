/* Builders and parameters of the neural-network ops. Feature maps are [N, H, W, C], filters [h, w, in, out]. */
#ifndef OD_OPS_NN_H
#define OD_OPS_NN_H

#include "graph/graph.h"

/* min(max(x, 0), 6), any shape. */
od_value od_relu6(od_graph *g, od_value x);

#endif
