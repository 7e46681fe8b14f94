/* The interpreter's own structs. parse.c fills them from the file, plan.c orders the nodes of a run, exec.c walks them, the
 * k_*.c files compute. */
#ifndef OD_TFGRAPH_GRAPH_IMPL_H
#define OD_TFGRAPH_GRAPH_IMPL_H

#include "base/map.h"
#include "base/mem.h"
#include "engine/cpu/single.h"
#include "tfgraph/tfgraph.h"

enum { TG_STRING = 7, TG_RESOURCE = 20, TG_MAX_OUT = 4096, TG_MAX_IN = 100000 };

typedef struct tg_node tg_node;
typedef struct tg_kernel tg_kernel;
typedef struct tg_run tg_run;

/* Memory of a value, shared by those that look at it. */
typedef struct {
  int refs;
  void *data;
  size_t size;
  int64_t strings; /* elements when it holds od_bytes, to be freed each; else 0 */
} tg_buf;

/* A TensorArray. */
typedef struct tg_array tg_array;

/* What flows along an edge. */
typedef struct {
  od_tensor t;
  tg_buf *buf;     /* NULL: borrowed memory (a constant in the file, a feed) */
  tg_array *array; /* a resource: t is unused */
  tg_node *lazy;   /* a big constant whose bytes nobody has asked for yet: t has no data */
  bool dead;       /* Switch's other branch */
} tg_value;

typedef struct {
  tg_node *node;
  int out; /* -1: control edge */
} tg_edge;

typedef struct {
  const char *name; /* arena */
  od_view value;    /* bytes of the AttrValue, in the file */
} tg_attr;

struct tg_node {
  const char *name, *op;
  const char **in_names;
  tg_edge *in; /* data inputs first, as TensorFlow demands */
  int n_in, n_data;
  tg_attr *attrs;
  int n_attrs;
  int index;
  const tg_kernel *kernel; /* NULL until a run needs it */
  int n_out;
  int *in_types, *out_types; /* TensorFlow's numbers, from the op's signature; set with kernel */
  bool read;                 /* somebody reads an output */
  bool is_const;
  tg_value constant; /* cached value of a Const */
  bool constant_cached;

  /* of the current plan */
  int mark, frame; /* frame it stands in (Enter and Exit: the loop's) */
  bool source;     /* fed, or a Const of the root: not run as a step */
  bool fed;
  bool dead;     /* at its last run; for control edges */
  tg_node *filter; /* convolutions: the constant behind the weights, NULL: none */
  tg_node *bias, *norm; /* the nodes that follow and are computed with a convolution of a constant filter */
  od_act act;
  bool passes;      /* computed by the convolution before it: hands its input on */
  tg_node *reader;  /* one that reads output 0 */
  od_single_op *kept; /* what the engine keeps for this node */
  tg_value *out;    /* n_out values */
  int *uses;     /* consumers of each output that have not run yet in this iteration */
  int *total_uses;
};

/* A place in a running order: a node, or a loop that runs as a whole when its Enters' inputs are there. */
typedef struct {
  tg_node *node; /* NULL: frame */
  int frame;
} tg_step;

typedef struct {
  const char *name;
  int parent; /* -1: the root */
  tg_step *steps;
  size_t n_steps, cap_steps;
  tg_node **enters, **exits, **merges; /* merges: only those that NextIteration feeds */
  size_t n_enters, cap_enters, n_exits, cap_exits, n_merges, cap_merges;
  tg_edge *outside; /* all inputs of the Enters */
  size_t n_outside, cap_outside;
  tg_value *entered; /* values of the Enters, kept over the iterations */
  tg_value *carried; /* what merge i takes in the next round */
  tg_value *left;    /* values of the Exits */
  int mark;
  int64_t round;
} tg_frame;

/* What is to be run for one set of feeds and fetches. */
typedef struct {
  od_arena *arena;
  char *key; /* feeds and fetches, as text */
  tg_frame *frames;
  size_t n_frames, cap_frames;
  tg_node **nodes; /* in a topological order of the whole */
  size_t n_nodes, cap_nodes;
  tg_edge *fetches;
  int n_fetches;
} tg_plan;

struct od_tfgraph {
  od_arena *arena;
  char *path;
  od_view map; /* to unmap; data NULL when parsed from memory */
  tg_node *nodes;
  size_t n_nodes;
  od_map *by_name;
  od_tfgraph_port *inputs, *outputs;
  size_t n_inputs, n_outputs;
  tg_plan plan;
  bool planned;
  od_single *single; /* the engine's kernels; NULL until a node wants them */
  size_t max_bytes;  /* of one value */
  int64_t max_rounds;
  int64_t max_work, work; /* of a run; what this run has done */
  struct {
    void *data;
    size_t size;
  } pool[24]; /* blocks of values that went, to be used again */
  int n_pool;
};

/* parse.c */
/* "a", "a:1" or "^a" into node and output; NULL node when there is none of that name. */
tg_edge tg_find(const od_tfgraph *g, const char *tensor);

/* attr.c */
const od_view *tg_attr_find(const tg_node *n, const char *name);
bool tg_attr_bool(const tg_node *n, const char *name, bool otherwise);
int64_t tg_attr_int(const tg_node *n, const char *name, int64_t otherwise);
float tg_attr_float(const tg_node *n, const char *name, float otherwise);
/* DataType's number; 0 when absent. */
int tg_attr_type(const tg_node *n, const char *name);
/* Element i of a list of types; 0 behind the last. */
int tg_attr_type_at(const tg_node *n, const char *name, int i);
int tg_attr_types(const tg_node *n, const char *name); /* how many */
od_view tg_attr_text(const tg_node *n, const char *name);
bool tg_attr_is(const tg_node *n, const char *name, const char *text);
/* List of ints: up to max into out, returns how many there are (may be more than max). */
int tg_attr_ints(const tg_node *n, const char *name, int64_t *out, int max);
/* Shape; false when absent. */
bool tg_attr_shape(const tg_node *n, const char *name, od_shape *out);
/* i-th element of a list of shapes, of texts; false behind the last. */
bool tg_attr_shape_at(const tg_node *n, const char *name, int i, od_shape *out);
bool tg_attr_text_at(const tg_node *n, const char *name, int i, od_view *out);
OD_MUST_CHECK od_status tg_parse_shape(od_shape *out, od_view bytes);
/* A TensorProto. in_place: raw content that is aligned is not copied (then *buf stays NULL). */
OD_MUST_CHECK od_status tg_parse_tensor(tg_value *out, od_view bytes, bool in_place);
OD_MUST_CHECK od_status tg_parse_tensor_type(od_dtype *dtype, od_shape *shape, od_view bytes);

/* plan.c */
OD_MUST_CHECK od_status tg_make_plan(od_tfgraph *g, const od_tfgraph_feed *feeds, int n_feeds,
                                     const char *const *fetches, int n_fetches);
void tg_free_plan(od_tfgraph *g);
/* fuse.c: finds convolutions that take bias, batch norm and activation along. For plans. */
void tg_fuse(od_tfgraph *g);
/* sig.c: checks attributes, counts outputs, notes the types of a node about to be planned. */
OD_MUST_CHECK od_status tg_bind_kernel(od_tfgraph *g, tg_node *n);

/* value.c */
void tg_value_drop(od_tfgraph *g, tg_value *v);
tg_value tg_value_share(const tg_value *v);
OD_MUST_CHECK od_status tg_value_new(od_tfgraph *g, tg_value *out, od_dtype dtype, const od_shape *shape);
int tg_value_type(const tg_value *v); /* TensorFlow's number */
/* Product of the dimensions, an empty one counted as 1: the most steps a loop over the shape may take, also where nothing lies.
 * OD_EDATA when it is beyond 2^48: no arithmetic on sizes overflows below. */
OD_MUST_CHECK od_status tg_cells(int64_t *out, const od_shape *s);
/* Notes a * b elements of work. OD_EDATA beyond the limit. */
OD_MUST_CHECK od_status tg_charge(od_tfgraph *g, int64_t a, int64_t b);
/* The work of reading a value: its elements, and the bytes of its strings. */
OD_MUST_CHECK od_status tg_charge_value(od_tfgraph *g, const tg_value *v);
/* OD_EDATA for a value larger than the limit. */
OD_MUST_CHECK od_status tg_check_bytes(const od_tfgraph *g, const od_shape *shape, od_dtype dtype);
void tg_pool_free(od_tfgraph *g);
OD_MUST_CHECK od_status tg_constant(od_tfgraph *g, tg_node *n, tg_value *out);
/* The bytes of a lazy value; nothing to do for others. */
OD_MUST_CHECK od_status tg_materialize(od_tfgraph *g, tg_value *v);

#endif
