/* What an engine implements. program.c prunes the graph, infers concrete types, keeps the cache of plans; a backend turns a
 * request into a plan and runs it. Inside the engine room only. */
#ifndef OD_ENGINE_BACKEND_H
#define OD_ENGINE_BACKEND_H

#include "engine/program.h"

/* A pruned, fully shaped piece of graph. Values are addressed by (node id, output). */
typedef struct {
  const od_graph *graph;
  od_state *state;
  size_t n_nodes;
  const od_node *const *nodes; /* in running order; sources (input, const, variable) and fed nodes are left out */
  const od_type *const *types; /* by node id: concrete output types; NULL for nodes that are not needed */
  const od_value *feeds;
  const od_type *feed_types;
  int n_feeds;
  const od_value *fetches; /* may hold absent ones */
  int n_fetches;
  const od_update_entry *const *updates;
  size_t n_updates;
  size_t n_ids;   /* node ids known to the request: the graph may have grown since */
  od_value guard; /* may be absent; as soon as it is computed it must be finite, else the run ends with OD_ENUMERIC */
} od_plan_request;

typedef struct {
  const od_profile_step *steps;
  size_t n;
} od_plan_profile;

typedef struct {
  const char *name;
  /* May change options to what it really does (precision, threads): od_engine_get_options tells. */
  od_status (*open)(void **ctx, od_engine_options *options);
  void (*close)(void *ctx);
  /* Makes a plan; the request's arrays belong to the caller and live as long as the plan. May run beside `run`. */
  od_status (*plan)(void **plan, void *ctx, const od_plan_request *r);
  void (*free_plan)(void *ctx, void *plan);
  size_t (*memory)(const void *plan); /* bytes of activations and scratch */
  /* Runs; feeds are dense tensors, fetches become dense views. profile: time the steps. key: random key of this run. */
  od_status (*run)(void *ctx, void *plan, const od_tensor *feeds, od_tensor *fetches, od_key key, bool profile);
  od_plan_profile (*profile)(const void *plan);
  void (*clear_profile)(void *plan); /* forgets the times measured so far */
} od_backend;

extern const od_backend od_backend_ref;
extern const od_backend od_backend_cpu;

/* ----------------------------------------------------------------------------------------------------- memory planner */
/* Gives offsets in one buffer to pieces with lifetimes [first, last] (step numbers, inclusive): pieces alive together do not
 * overlap. Greedy by size, largest first; deterministic. Sizes in bytes, offsets multiples of 64. Returns the total. */
typedef struct {
  size_t size;
  int first, last;
  size_t offset; /* out */
} od_piece;
OD_MUST_CHECK od_status od_plan_memory(size_t *total, od_piece *pieces, size_t n);

/* OD_ENUMERIC when a guard's tensor (float scalar) is not finite. */
OD_MUST_CHECK od_status od_check_guard(const od_node *node, const float *value);

/* Runs shape inference of one node on concrete input types (in program.c). */
OD_MUST_CHECK od_status od_infer_node(od_type *out, const od_node *node, const od_type *in, const bool *present);

#endif
