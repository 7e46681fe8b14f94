/* Inside the cpu engine: the plan, its values and steps, and what a kernel implements.
 *
 * A plan is a list of steps over a table of values. Values are dense and row-major (feature maps NHWC), float32 or, with
 * mixed precision, bfloat16 between the ops that allow it. While planning, every node is offered to the kernels of its op in
 * the order of the list (kernels.c): a kernel takes it, perhaps with the nodes that follow (bias, batch norm, activation), or
 * refuses with a reason; the op's reference function is the last and takes everything. Conversions between the two floats
 * become steps of their own. Then dead steps go, values get memory (in place where the op allows it) and the plan is ready:
 * running allocates nothing. */
#ifndef OD_ENGINE_CPU_CPU_H
#define OD_ENGINE_CPU_CPU_H

#include <pthread.h>

#include "engine/backend.h"
#include "engine/cpu/prims.h"
#include "engine/cpu/simd.h"

typedef struct od_cpu_pack od_cpu_pack;
typedef struct od_cpu_plan od_cpu_plan;
typedef struct od_cpu_kernel od_cpu_kernel;
typedef struct od_cpu_draft od_cpu_draft;

/* The engine. */
typedef struct {
  int threads;
  bool bf16; /* activations are kept in bfloat16 where ops allow it */
  bool many_shapes; /* as the options say */
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  const od_cpu_simd *simd; /* our inner loops for this processor */
  char *buffer;            /* activations and scratch of whatever plan runs; grows */
  size_t size;
  _Atomic size_t wanted; /* the most that a plan made so far needs: the buffer grows to that at once */
  pthread_mutex_t lock; /* guards packs */
  od_cpu_pack *packs;   /* packed weights shared by plans: weights.c */
  od_prims prims;       /* primitives shared by steps and plans */
} od_cpu;

/* ------------------------------------------------------------------------------------------------------ values, steps */
typedef enum { OD_HOME_PLAN, OD_HOME_FEED, OD_HOME_STATE, OD_HOME_CONST } od_cpu_home;

typedef struct {
  od_dtype dtype; /* as it lies in memory */
  od_shape shape;
  int root; /* the value whose memory this is: itself, or another for views and in-place results */
  od_cpu_home home; /* of a root */
  int source;       /* FEED: which one; STATE: index of the variable */
  const void *constant;
  size_t bytes, offset;
  int first, last; /* steps between which the root's memory is needed */
  void *data;      /* set at the start of each run */
} od_cpu_value;

typedef struct {
  const od_cpu_kernel *kernel;
  void *self;
  const od_node *node; /* the last of those it computes: names the step */
  int n_in, n_out;
  int *in, *out;        /* values, -1: absent */
  int *alias;           /* by output: operand it may overwrite, or -1 */
  void **data;          /* pointers of one run: inputs, then outputs */
  size_t scratch, scratch_at;
  od_key key;
  bool dead;
} od_cpu_step;

struct od_cpu_plan {
  od_plan_request r;
  od_cpu *cpu;
  od_arena *arena;
  od_cpu_value *values;
  size_t n_values, cap_values;
  int **at;    /* by node id, by output: value; -1 unknown yet */
  int *twin;   /* by value: the same in the other float type, or -1 */
  size_t cap_twin;
  int **uses;  /* by node id, by output: how many readers (nodes, fetches, updates) */
  const od_node ***reader; /* by node id, by output: a reading node */
  bool *done;  /* by node id: computed by a step already */
  od_cpu_step *steps;
  size_t n_steps, cap_steps;
  od_profile_step *profile;
  size_t n_profile;
  uint64_t runs;
  int *fetch, *update; /* values; update -1: in place, nothing to copy */
  int guard, guard_step; /* value that must be finite, and after which step it is there; -1: none */
  bool guarded;
  size_t total;
  char refused[256]; /* why the last node offered was refused by the kernels before it fell to the reference */
};

/* ------------------------------------------------------------------------------------------------------------- kernels */
/* One run of a step. in and out follow the operands and results in the order of od_cpu_take and od_cpu_give. */
typedef struct {
  od_cpu *cpu;
  od_cpu_plan *plan;
  void *const *in;
  void *const *out;
  char *scratch;
  od_key key;
} od_cpu_call;

struct od_cpu_kernel {
  const char *name;
  const char *const *ops; /* names of the ops it serves, NULL-terminated; NULL: all */
  /* Takes the node: operands, results and absorbed nodes are entered in the draft; or od_cpu_refuse. */
  bool (*match)(od_cpu_draft *d);
  /* Makes what running needs; *self may stay NULL. Sets scratch, flops and label of the draft. OD_EUNSUPPORTED counts as a
   * refusal. */
  od_status (*create)(void **self, od_cpu_draft *d);
  od_status (*run)(void *self, const od_cpu_call *c);
  void (*destroy)(void *self); /* NULL: nothing to free */
};

/* The ordered list; NULL behind the last. */
const od_cpu_kernel *od_cpu_kernel_at(size_t i);
extern const od_cpu_kernel od_cpu_convert; /* float32 <-> bfloat16, put in by the planner */
extern const od_cpu_kernel od_cpu_ref;

typedef struct {
  od_value value;
  od_dtype dtype; /* as this kernel wants it */
  int alias;      /* results: operand that may be overwritten, or -1 */
} od_cpu_operand;

/* A step being proposed. */
struct od_cpu_draft {
  od_cpu_plan *plan;
  od_cpu *cpu;
  const od_node *node; /* the one offered */
  od_cpu_operand *in, *out;
  int n_in, n_out;
  size_t cap_in, cap_out;
  const od_node *absorbed[8]; /* further nodes this step computes */
  int n_absorbed;
  size_t scratch; /* bytes */
  double flops;
  const char *label; /* for the profile; lives as long as the plan, or is static */
  void *note;        /* what match wants to hand to create (arena memory) */
  od_status status;  /* first failure to note something */
  char reason[192];
};

/* False, with the reason. */
bool od_cpu_refuse(od_cpu_draft *d, const char *format, ...) OD_PRINTF(2, 3);
/* Memory of the plan. NULL sets the draft's status. */
void *od_cpu_alloc(od_cpu_draft *d, size_t size);
/* Concrete types. */
const od_type *od_cpu_type(const od_cpu_draft *d, od_value v);
static inline const od_type *od_cpu_in_type(const od_cpu_draft *d, int i) { return od_cpu_type(d, d->node->in[i]); }
/* How a value (known to the plan already) lies in memory; its logical type when nothing was decided yet. */
od_dtype od_cpu_stored(const od_cpu_draft *d, od_value v);
/* Is the value there when this step runs? Sources are. */
bool od_cpu_ready(const od_cpu_draft *d, od_value v);
/* Should float activations of this node be bfloat16? */
bool od_cpu_wants_bf16(const od_cpu_draft *d);
/* The only reader of v, when it has exactly one, is not fetched, fed or an update, and can be merged into this step; else NULL. */
const od_node *od_cpu_next(const od_cpu_draft *d, od_value v);
/* This step computes that node too. */
void od_cpu_absorb(od_cpu_draft *d, const od_node *node);
/* Adds an operand, wanted in this type (a float32 value may be wanted in bfloat16, or the other way round). Gives its place. */
int od_cpu_take(od_cpu_draft *d, od_value v, od_dtype dtype);
/* As it lies; also absent ones. */
int od_cpu_take_any(od_cpu_draft *d, od_value v);
/* Adds a result, stored in this type; alias: operand it may overwrite, or -1. Gives its place. */
int od_cpu_give(od_cpu_draft *d, od_value v, od_dtype dtype, int alias);
/* Is this op's input of no interest but for its shape? */
bool od_cpu_shape_only(const od_op *op, int input);
static inline bool od_cpu_is(const od_node *n, const char *op) { return __builtin_strcmp(n->op->name, op) == 0; }
static inline int64_t od_cpu_size(const od_cpu_draft *d, od_value v) { return od_shape_size(&od_cpu_type(d, v)->shape); }

/* ------------------------------------------------------------------------------------------------------------- weights */
/* A filter as the library wants it: scaled by a folded batch norm, converted and reordered. Where it hangs on variables alone
 * which the plan does not change, the packed form is kept (shared by all plans) and renewed when the state's version moved;
 * else it is made in scratch memory right before use. */
typedef struct od_cpu_weights od_cpu_weights;
typedef struct {
  od_value filter;  /* float32, [rows, out] for folding: the last dimension(s) are the output channels */
  od_mdp plain;     /* the filter as it lies, float32 */
  od_mdp packed;    /* as wanted */
  int64_t out;      /* output channels */
  od_value bias;    /* absent: none (0 when something folds) */
  const od_node *fold; /* batch_norm or fold_batch_norm node (inputs 1 to 4 are alike) to fold in, or NULL */
} od_cpu_weights_spec;
/* Adds the operands it needs to the draft and scratch at its end. */
OD_MUST_CHECK od_status od_cpu_weights_new(od_cpu_weights **out, od_cpu_draft *d, const od_cpu_weights_spec *s);
/* For match: enters the operands (before new, which finds them). */
void od_cpu_weights_take(od_cpu_draft *d, od_value filter, od_value bias, const od_node *fold);
OD_MUST_CHECK od_status od_cpu_weights_get(od_cpu_weights *w, const od_cpu_call *c, void **packed, float **bias);
void od_cpu_weights_free(od_cpu_weights *w);

/* ------------------------------------------------------------------------------------------------------------- threads */
/* Work over [0, n) is cut into `chunks` contiguous parts, fixed by n and the number of threads alone, so that results do not
 * depend on who ran what. grain: smallest part worth a thread. */
int od_cpu_chunks(const od_cpu *cpu, int64_t n, int64_t grain);
typedef void (*od_cpu_range)(const void *args, int chunk, int64_t begin, int64_t end);
void od_cpu_for(int chunks, int64_t n, od_cpu_range f, const void *args);

/* -------------------------------------------------------------------------------------------------------- the planner */
/* guarded: pieces of memory have guard bytes behind them, checked after every step. */
OD_MUST_CHECK od_status od_cpu_plan_new(od_cpu_plan **out, od_cpu *cpu, const od_plan_request *r, bool guarded);
void od_cpu_plan_free(od_cpu_plan *p);
/* Lifetimes, in-place results, offsets (memory.c). */
OD_MUST_CHECK od_status od_cpu_plan_layout(od_cpu_plan *p);
/* Does one of the plan's updates write this variable? */
bool od_cpu_updated(const od_cpu_plan *p, int variable);
/* The variable behind a value, or NULL. */
const od_variable *od_cpu_variable(const od_cpu_plan *p, od_value v);

/* For tests, process-wide: plans made from now on are guarded. */
enum { OD_CPU_GUARD = 64 };
void od_cpu_guard_steps(bool on);

#endif
