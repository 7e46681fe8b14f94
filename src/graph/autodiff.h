/* Reverse-mode differentiation: gradients as nodes of the same graph. */
#ifndef OD_GRAPH_AUTODIFF_H
#define OD_GRAPH_AUTODIFF_H

#include "graph/graph.h"

/* Sets grads[i] to d(sum of y)/d(wrt[i]), same type as wrt[i]; absent when y does not depend on wrt[i]. y: a float value,
 * usually a scalar loss (OD_EINVAL for other types). wrt may hold absent values. An op on the way without a gradient fails with its reason, unless od_stop_gradient stands
 * before. Contributions to one value are summed in the order of the consuming nodes, latest first: fixed, so deterministic. */
OD_MUST_CHECK od_status od_gradients(od_value *grads, od_graph *g, od_value y, const od_value *wrt, int n);

#endif
