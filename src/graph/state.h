/* The state: what training changes. Plain fp32 tensors (int64 for the step), one copy, in the layout of the checkpoint. */
#ifndef OD_GRAPH_STATE_H
#define OD_GRAPH_STATE_H

#include "graph/graph.h"

typedef struct od_state od_state;

/* Allocates a tensor for every variable of the graph, zeroed; variables made afterwards have none. The graph must outlive the
 * state. */
OD_MUST_CHECK od_status od_state_new(od_state **out, const od_graph *g);
void od_state_free(od_state *s);
/* Draws every variable from its initializer: a pure function of (seed, name, element). What is not float32 becomes 0. */
void od_state_init(od_state *s, uint64_t seed);
/* The same on so many threads (<= 0: od_cpu_count()), whose number changes no bit. */
void od_state_draw(od_state *s, uint64_t seed, int threads);
/* The tensor of a variable (its view; data belongs to the state), NULL when there is none of that name. */
od_tensor *od_state_tensor(const od_state *s, const char *full_name);
od_tensor *od_state_at(const od_state *s, int variable_index);
const od_graph *od_state_graph(const od_state *s);
/* Counts changes: engines keep packed copies of weights and renew them when this number moved. Call touch after writing
 * into tensors from outside (a restore); running updates does it by itself. */
uint64_t od_state_version(const od_state *s);
void od_state_touch(od_state *s);

#endif
