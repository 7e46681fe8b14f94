/* Loops of the v1 control flow, and TensorArrays; see emit_tf.h. The shape of a loop, for each variable:
 *
 *   init -> Enter -> Merge <- NextIteration <- next
 *                      |  \-> condition ... -> LoopCond
 *                    Switch (by LoopCond) -:0-> Exit -> result
 *                      \-:1-> Identity (the body's value)
 */
#include <string.h>

#include "graph/emit_tf_impl.h"

enum { DT_RESOURCE = 20, PARALLEL = 10 };

/* A node of the loop named "<group>/<part>" (made unique) that stands in `frame`. */
static tf_node *part(od_tf *t, od_tf_loop *w, const char *op, const char *name, const char *const *inputs,
                     od_tf_loop *frame) {
  if (t->failed) return NULL;
  const char *prefix = t->prefix;
  t->prefix = w->group;
  tf_node *n = od_tf_put(t, op, od_tf_unique(t, name), inputs, frame, false);
  t->prefix = prefix;
  return n;
}

static const char *enter(od_tf *t, od_tf_loop *w, const char *tensor, int datatype, bool constant) {
  const tf_node *from = od_tf_find(t, tensor);
  if (!t->failed && (!from || from->frame != w->parent))
    od_tf_fail(t, od_fail(OD_EINVAL, "'%s' cannot enter loop %s: %s", tensor, w->frame_name,
                          from ? "it does not stand right outside of it" : "no node makes it"));
  const tf_node *n = part(t, w, "Enter", "Enter", OD_TF_INPUTS(tensor), w);
  od_tf_attr_datatype(t, "T", datatype);
  od_tf_attr_text(t, "frame_name", w->frame_name);
  od_tf_attr_bool(t, "is_constant", constant);
  od_tf_attr_int(t, "parallel_iterations", PARALLEL);
  return n ? n->name : "";
}

od_tf_loop *od_tf_while(od_tf *t, const char *suffix, const char *const *inits, const od_dtype *types, int n) {
  static od_tf_loop failed_loop = {.var = NULL}; /* handed out after a failure: n is 0 and nobody writes into it */
  if (t->failed) return &failed_loop;
  od_tf_loop *w = od_arena_alloc(t->arena, sizeof *w);
  const char **lists = od_arena_alloc(t->arena, sizeof *lists * 4 * (size_t)n);
  od_dtype *kept = od_arena_alloc(t->arena, sizeof *kept * (size_t)n);
  if (!w || !lists || !kept || n < 1) {
    od_tf_fail(t, n < 1 ? od_fail(OD_EINVAL, "a loop without variables") : OD_ENOMEM);
    return &failed_loop;
  }
  memcpy(kept, types, sizeof *kept * (size_t)n);
  const char *name = od_tf_unique(t, suffix && *suffix ? suffix : "while");
  *w = (od_tf_loop){.parent = t->loop,
                    .n = n,
                    .types = kept,
                    .var = lists,
                    .merge = lists + n,
                    .swtch = lists + 2 * n,
                    .result = lists + 3 * n,
                    .group = name};
  w->frame_name = name ? od_arena_printf(t->arena, "%s/while_context", name) : NULL;
  if (!w->frame_name) {
    od_tf_fail(t, OD_ENOMEM);
    return &failed_loop;
  }
  for (int i = 0; i < n; i++) w->var[i] = enter(t, w, inits[i], od_dtype_tf(types[i]), false);
  for (int i = 0; i < n; i++) {
    /* the second input is the NextIteration, known at the end; until then it names the first */
    const tf_node *m = part(t, w, "Merge", "Merge", OD_TF_INPUTS(w->var[i], w->var[i]), w);
    od_tf_attr_int(t, "N", 2);
    od_tf_attr_type(t, "T", types[i]);
    w->merge[i] = w->var[i] = m ? m->name : "";
  }
  w->pivot = w->merge[0];
  t->loop = w;
  return w;
}

static const char *from_outside(od_tf *t, od_tf_loop *w, const char *tensor, int datatype) {
  if (t->failed) return "";
  const tf_node *from = od_tf_find(t, tensor);
  /* through the loops around this one, if it comes from further out */
  if (from && from->frame != w->parent && w->parent) tensor = from_outside(t, w->parent, tensor, datatype);
  return enter(t, w, tensor, datatype, true);
}

const char *od_tf_while_const(od_tf *t, od_tf_loop *w, const char *tensor, od_dtype dtype) {
  return from_outside(t, w, tensor, od_dtype_tf(dtype));
}

const char *od_tf_while_handle(od_tf *t, od_tf_loop *w, const char *handle) {
  return from_outside(t, w, handle, DT_RESOURCE);
}

const char *od_tf_while_var(const od_tf_loop *w, int i) { return i < w->n && w->var[i] ? w->var[i] : ""; }
const char *od_tf_while_result(const od_tf_loop *w, int i) { return i < w->n && w->result[i] ? w->result[i] : ""; }

void od_tf_while_cond(od_tf *t, od_tf_loop *w, const char *pred) {
  if (t->failed) return;
  if (t->loop != w || w->in_body) {
    od_tf_fail(t, od_fail(OD_EINVAL, "od_tf_while_cond out of order in loop %s", w->frame_name));
    return;
  }
  const tf_node *cond = part(t, w, "LoopCond", "LoopCond", OD_TF_INPUTS(pred), w);
  for (int i = 0; i < w->n && !t->failed; i++) {
    const tf_node *s = part(t, w, "Switch", "Switch", OD_TF_INPUTS(w->merge[i], cond->name), w);
    od_tf_attr_type(t, "T", w->types[i]);
    w->swtch[i] = s ? s->name : "";
  }
  for (int i = 0; i < w->n && !t->failed; i++) {
    const tf_node *body = part(t, w, "Identity", "Identity", OD_TF_INPUTS(od_tf_output(t, w->swtch[i], 1)), w);
    od_tf_attr_type(t, "T", w->types[i]);
    w->var[i] = body ? body->name : "";
  }
  w->pivot = w->var[0];
  w->in_body = true;
}

void od_tf_while_end(od_tf *t, od_tf_loop *w, const char *const *next) {
  if (t->failed) return;
  if (t->loop != w || !w->in_body) {
    od_tf_fail(t, od_fail(OD_EINVAL, "od_tf_while_end out of order in loop %s", w->frame_name));
    return;
  }
  for (int i = 0; i < w->n && !t->failed; i++) {
    const tf_node *from = od_tf_find(t, next[i]);
    if (!from || from->frame != w) {
      od_tf_fail(
          t, od_fail(OD_EINVAL, "next value %d of loop %s, '%s', is not made inside it", i, w->frame_name, next[i]));
      return;
    }
    const tf_node *n = part(t, w, "NextIteration", "NextIteration", OD_TF_INPUTS(next[i]), w);
    od_tf_attr_type(t, "T", w->types[i]);
    if (n) od_tf_find(t, w->merge[i])->in[1] = n->name;
  }
  t->loop = w->parent;
  for (int i = 0; i < w->n && !t->failed; i++) {
    const tf_node *e = part(t, w, "Exit", "Exit", OD_TF_INPUTS(w->swtch[i]), w->parent);
    od_tf_attr_type(t, "T", w->types[i]);
    w->result[i] = e ? e->name : "";
  }
  w->closed = true;
}

/* --------------------------------------------------------------------------------------------------------TensorArrays */
const char *od_tf_array(od_tf *t, const char *suffix, od_dtype dtype, const char *size) {
  const char *h = od_tf_add(t, "TensorArrayV3", suffix, OD_TF_INPUTS(size));
  od_tf_attr_type(t, "dtype", dtype);
  od_tf_attr_shape(t, "element_shape", &(od_shape){.rank = -1});
  od_tf_attr_bool(t, "clear_after_read", true);
  od_tf_attr_bool(t, "dynamic_size", false);
  return h;
}

const char *od_tf_array_scatter(od_tf *t, const char *suffix, od_dtype dtype, const char *handle, const char *value,
                                const char *flow) {
  /* every row: indices 0 .. rows-1, from the value's own shape */
  const char *shape = od_tf_add(t, "Shape", suffix, OD_TF_INPUTS(value));
  od_tf_attr_type(t, "T", dtype);
  od_tf_attr_type(t, "out_type", OD_I32);
  int32_t first[1] = {0}, second[1] = {1};
  const char *rows =
      od_tf_add(t, "StridedSlice", suffix,
                OD_TF_INPUTS(shape, od_tf_const_i32s(t, suffix, first, 1), od_tf_const_i32s(t, suffix, second, 1),
                             od_tf_const_i32s(t, suffix, second, 1)));
  od_tf_attr_type(t, "T", OD_I32);
  od_tf_attr_type(t, "Index", OD_I32);
  od_tf_attr_int(t, "shrink_axis_mask", 1);
  const char *range =
      od_tf_add(t, "Range", suffix, OD_TF_INPUTS(od_tf_const_i32(t, suffix, 0), rows, od_tf_const_i32(t, suffix, 1)));
  od_tf_attr_type(t, "Tidx", OD_I32);
  const char *out = od_tf_add(t, "TensorArrayScatterV3", suffix, OD_TF_INPUTS(handle, range, value, flow));
  od_tf_attr_type(t, "T", dtype);
  return out;
}

const char *od_tf_array_read(od_tf *t, const char *suffix, od_dtype dtype, const char *handle, const char *index,
                             const char *flow) {
  const char *v = od_tf_add(t, "TensorArrayReadV3", suffix, OD_TF_INPUTS(handle, index, flow));
  od_tf_attr_type(t, "dtype", dtype);
  return v;
}

const char *od_tf_array_write(od_tf *t, const char *suffix, od_dtype dtype, const char *handle, const char *index,
                              const char *value, const char *flow) {
  const char *f = od_tf_add(t, "TensorArrayWriteV3", suffix, OD_TF_INPUTS(handle, index, value, flow));
  od_tf_attr_type(t, "T", dtype);
  return f;
}

const char *od_tf_array_gather(od_tf *t, const char *suffix, od_dtype dtype, const char *handle, const char *size,
                               const char *flow, const od_shape *element) {
  const char *range =
      od_tf_add(t, "Range", suffix, OD_TF_INPUTS(od_tf_const_i32(t, suffix, 0), size, od_tf_const_i32(t, suffix, 1)));
  od_tf_attr_type(t, "Tidx", OD_I32);
  const char *v = od_tf_add(t, "TensorArrayGatherV3", suffix, OD_TF_INPUTS(handle, range, flow));
  od_tf_attr_type(t, "dtype", dtype);
  od_tf_attr_shape(t, "element_shape", element);
  return v;
}
