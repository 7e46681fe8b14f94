/* The GraphDef writer's own structs, shared by emit_tf.c (nodes), emit_tf_loop.c (control flow) and emit_tf_write.c (bytes). */
#ifndef OD_GRAPH_EMIT_TF_IMPL_H
#define OD_GRAPH_EMIT_TF_IMPL_H

#include "base/map.h"
#include "graph/emit_tf.h"

/* An attribute: name and the bytes of its AttrValue. A tensor's content may lie elsewhere: content follows `bytes` inside
 * the TensorProto inside the AttrValue, so that weights are never copied. */
typedef struct tf_attr {
  const char *name;
  const uint8_t *bytes;
  size_t size;
  bool is_tensor;      /* bytes are the head of a TensorProto, content its tensor_content */
  const void *content; /* borrowed or in the arena */
  size_t content_size;
  struct tf_attr *next; /* sorted by name */
} tf_attr;

typedef struct {
  const char *name, *op;
  const char **in;
  int n_in;
  tf_attr *attrs;
  od_tf_loop *frame; /* NULL: the root */
  const char **outs; /* names of outputs 1.. made so far, by index; for od_tf_output */
  size_t cap_outs;
  bool needed; /* while pruning */
} tf_node;

struct od_tf_loop {
  od_tf_loop *parent;
  const char *frame_name, *pivot; /* pivot: node that holds nodes without inputs inside the frame */
  const char *group;              /* names of the loop's nodes stand below it */
  int n;
  const char **var, **merge, **swtch, **result;
  const od_dtype *types;
  bool in_body, closed;
};

struct od_tf {
  od_arena *arena;
  tf_node **nodes;
  size_t n_nodes, cap_nodes;
  od_map *by_name;  /* node name -> tf_node */
  od_map *suffixes; /* name asked for -> how often */
  const char *prefix;
  const od_node *current;
  const char ***bound; /* by node id: names of outputs, NULL where none */
  size_t cap_bound;
  od_tf_loop *loop; /* innermost open one */
  od_status failed;
  char *failure;
};

/* A node under a name of its own; frame: where it stands, whatever its inputs. NULL after a failure. */
tf_node *od_tf_put(od_tf *t, const char *op, const char *name, const char *const *inputs, od_tf_loop *frame,
                   bool check);
/* The node a tensor name ("a", "a:1", "^a") speaks of, or NULL. */
tf_node *od_tf_find(const od_tf *t, const char *tensor);
const char *od_tf_unique(od_tf *t, const char *suffix);

#endif
