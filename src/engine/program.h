/* Programs: a graph bound to an engine. One program = which values are fed, which are fetched, which updates run; for every
 * combination of feed shapes it holds a plan (layouts, kernels, memory), made at first use or ahead, in a bounded cache.
 *
 * Any value of the graph may be fed, also one in its middle: it cuts the graph there. So `gradients` is a program that
 * fetches losses, processed gradients and statistics, and `apply` is one that is fed with them and runs the updates; a
 * local run may use one program for both. */
#ifndef OD_ENGINE_PROGRAM_H
#define OD_ENGINE_PROGRAM_H

#include "graph/graph.h"
#include "graph/state.h"

typedef struct od_engine od_engine;
typedef struct od_program od_program;

typedef enum { OD_FP32, OD_MIXED_BF16 } od_precision;

typedef struct {
  const char *name;       /* "cpu" (oneDNN and our kernels) or "ref" (plain C); NULL: "cpu" */
  int threads;            /* compute threads, at most 4096; <= 0: as many as processors */
  od_precision precision; /* what activations are kept in; weights, statistics, losses, boxes stay fp32 */
  int plan_cache;         /* plans a program keeps; <= 0: 16 */
  bool many_shapes;       /* feeds of ever new shapes will come: where they reach, kernels that hoard memory for each are not taken */
} od_engine_options;

/* Opens an engine; the caller frees it after its programs. OD_EUNSUPPORTED when there is no engine of that name. */
OD_MUST_CHECK od_status od_engine_new(od_engine **out, const od_engine_options *options);
void od_engine_free(od_engine *e);
const od_engine_options *od_engine_get_options(const od_engine *e);

typedef struct {
  const od_graph *graph;
  od_state *state; /* variables are read here and updates written here; NULL when the fetches need no variable */
  const od_value *feeds;
  int n_feeds;
  const od_value *fetches;
  int n_fetches;
  const char *const *update_groups; /* groups of updates that every run applies, after everything was computed; one that copies
                                       another variable gets what that held before the run */
  int n_update_groups;
  od_value guard; /* a float scalar computed before the first optimizer node; a run in which it is not finite stops there with
                     OD_ENUMERIC and applies no update of nodes after it. Absent: no guard */
} od_program_spec;

/* Checks that every input needed is fed, that no value is fed twice, that updates do not hand values round in a circle. The graph
 * and the state must outlive the program; nodes added to the graph later do not concern it. */
OD_MUST_CHECK od_status od_program_new(od_program **out, od_engine *e, const od_program_spec *spec);
void od_program_free(od_program *p);

/* Runs. feeds[i]: dense row-major tensor of feed i's dtype, any shape that fits the logical type. fetches[i] becomes a view
 * (dense, row-major, fp32 where the logical type is) that stays valid until the next run of any program of this engine.
 * An absent fetch (OD_NONE in the spec) gives data NULL. A fetched variable is the state's own memory (after the updates), a
 * fetched feed the caller's. A run that fails leaves the state undefined unless the guard stopped it. One thread at a time per
 * engine; allocates nothing once a shape was seen. */
OD_MUST_CHECK od_status od_program_run(od_program *p, const od_tensor *feeds, od_tensor *fetches);

/* Makes the plan for these feed shapes unless it is there. May run in other threads beside od_program_run: ahead.h. */
OD_MUST_CHECK od_status od_program_prepare(od_program *p, const od_shape *feed_shapes);

/* Bytes that the plan of these shapes needs for activations and scratch (makes the plan). */
OD_MUST_CHECK od_status od_program_memory(size_t *bytes, od_program *p, const od_shape *feed_shapes);

/* ---------------------------------------------------------------------------------------------------------- profile */
/* One line of a profile: a step of the plan. */
typedef struct {
  const char *name;   /* node (the last one of a fused step) */
  const char *op;
  const char *kernel; /* "ref" = a fallback */
  double seconds;     /* mean of the runs since profiling was switched on */
  double flops;       /* arithmetic of convolutions and products, else 0 */
  bool fallback;
} od_profile_step;
/* Switches timing of steps on or off (off at first) and clears it. */
void od_program_profile(od_program *p, bool on);
/* Steps of the plan that ran last; *n of them, borrowed until the next run. */
const od_profile_step *od_program_profile_steps(const od_program *p, size_t *n);
/* Number of steps of the plan that ran last which the fast engine left to `ref`, and why, for the log. */
size_t od_program_fallbacks(const od_program *p);

/* Random numbers: every node's key is mixed with this number, to be set before each run (the trainer gives a mix of seed and
 * step). */
void od_program_set_key(od_program *p, od_key key);

#endif
