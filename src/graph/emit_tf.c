/* The GraphDef under construction: nodes, attributes, constants; see emit_tf.h. Everything lives in one arena until the
 * writer is freed; the data of borrowed constants stays where it is. */
#include "graph/emit_tf.h"

#include <stdio.h>
#include <string.h>

#include "graph/emit_tf_impl.h"
#include "io/wire.h"

od_status od_tf_new(od_tf **out) {
  od_tf *t;
  od_status st;
  *out = NULL;
  OD_TRY(od_new(&t, 1, sizeof *t));
  t->prefix = "";
  OD_GO(st, od_arena_new(&t->arena));
  OD_GO(st, od_map_new(&t->by_name));
  OD_GO(st, od_map_new(&t->suffixes));
  *out = t;
done:
  if (st != OD_OK) od_tf_free(t);
  return st;
}

void od_tf_free(od_tf *t) {
  if (!t) return;
  for (size_t i = 0; i < t->n_nodes; i++) od_free(t->nodes[i]->outs);
  od_free(t->nodes);
  od_map_free(t->by_name);
  od_map_free(t->suffixes);
  od_free(t->bound);
  od_arena_free(t->arena);
  od_free(t->failure);
  od_free(t);
}

od_status od_tf_check(const od_tf *t) {
  return t->failed == OD_OK ? OD_OK : od_fail_take(t->failed, t->failure ? t->failure : "out of memory");
}

void od_tf_fail(od_tf *t, od_status st) {
  if (t->failed != OD_OK || st == OD_OK) return;
  t->failed = st;
  t->failure = od_strdup(od_message());
}

size_t od_tf_count(const od_tf *t) { return t->n_nodes; }

size_t od_tf_count_op(const od_tf *t, const char *op) {
  size_t n = 0;
  for (size_t i = 0; i < t->n_nodes; i++) n += strcmp(t->nodes[i]->op, op) == 0;
  return n;
}

/* -------------------------------------------------------------------------------------------------------------- names */
tf_node *od_tf_find(const od_tf *t, const char *tensor) {
  char name[1024];
  if (*tensor == '^') tensor++;
  const char *colon = strrchr(tensor, ':');
  size_t n = colon ? (size_t)(colon - tensor) : strlen(tensor);
  if (n >= sizeof name) return NULL;
  memcpy(name, tensor, n);
  name[n] = 0;
  return od_map_get(t->by_name, name);
}

/* TensorFlow's own rule: [A-Za-z0-9.][A-Za-z0-9_.\-/]* */
static bool name_ok(const char *s) {
  for (const char *p = s; *p; p++) {
    bool word = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') || *p == '.';
    if (!word && (p == s || !strchr("_-/\\", *p))) return false;
  }
  return *s != 0;
}

const char *od_tf_unique(od_tf *t, const char *suffix) {
  const char *name = t->prefix;
  if (suffix && *suffix)
    name = *t->prefix ? od_arena_printf(t->arena, "%s/%s", t->prefix, suffix) : od_arena_strdup(t->arena, suffix);
  if (!name) {
    od_tf_fail(t, OD_ENOMEM);
    return NULL;
  }
  if (!name_ok(name)) {
    od_tf_fail(t,
               od_fail(OD_EINVAL,
                       "'%s' cannot be the name of a TensorFlow node (letters, digits, . then also _ - / \\)", name));
    return NULL;
  }
  const char *asked = name;
  /* the numbers go on where the last twin ended; a name that somebody chose in that form is stepped over */
  for (size_t k = (size_t)(uintptr_t)od_map_get(t->suffixes, asked); od_map_has(t->by_name, name);) {
    k++;
    name = od_arena_printf(t->arena, "%s_%zu", asked, k);
    if (!name || od_map_set(t->suffixes, asked, (void *)(uintptr_t)k) != OD_OK) {
      od_tf_fail(t, OD_ENOMEM);
      return NULL;
    }
  }
  return name;
}

void od_tf_begin(od_tf *t, const char *name) {
  if (t->failed) return;
  t->prefix = od_arena_strdup(t->arena, name ? name : "");
  if (!t->prefix) {
    t->prefix = "";
    od_tf_fail(t, OD_ENOMEM);
  }
}

/* -------------------------------------------------------------------------------------------------------------- nodes */
/* Whether a node of frame f may read a tensor made in frame `made`: only its own. */
static void check_frames(od_tf *t, const tf_node *n) {
  for (int i = 0; i < n->n_in; i++) {
    const tf_node *from = od_tf_find(t, n->in[i]);
    if (!from) {
      od_tf_fail(
          t, od_fail(OD_EINVAL, "TensorFlow node %s (%s) reads '%s', which no node makes", n->name, n->op, n->in[i]));
      return;
    }
    if (from->frame == n->frame) continue;
    od_tf_fail(t,
               od_fail(OD_EINVAL, "TensorFlow node %s (%s) of %s reads '%s' of %s; pass it through od_tf_while_const",
                       n->name, n->op, n->frame ? n->frame->frame_name : "the root", n->in[i],
                       from->frame ? from->frame->frame_name : "the root"));
    return;
  }
}

tf_node *od_tf_put(od_tf *t, const char *op, const char *name, const char *const *inputs, od_tf_loop *frame,
                   bool check) {
  if (t->failed || !name) return NULL;
  int n = 0;
  while (inputs && inputs[n]) n++;
  bool pivot = check && n == 0 && frame && frame->pivot;
  tf_node *node = od_arena_alloc(t->arena, sizeof *node);
  const char **in = od_arena_alloc(t->arena, sizeof *in * (size_t)(n + 1));
  const char *kept = od_arena_strdup(t->arena, name);
  if (!node || !in || !kept) goto memory;
  for (int i = 0; i < n; i++) {
    if (!*inputs[i]) {
      od_tf_fail(t, od_fail(OD_EINVAL, "input %d of TensorFlow node %s (%s) is absent", i, name, op));
      return NULL;
    }
    if (!(in[i] = od_arena_strdup(t->arena, inputs[i]))) goto memory;
  }
  if (pivot) in[n++] = od_arena_printf(t->arena, "^%s", frame->pivot);
  *node = (tf_node){.name = kept, .op = od_arena_strdup(t->arena, op), .in = in, .n_in = n, .frame = frame};
  if (!node->op || (pivot && !in[n - 1])) goto memory;
  if (check) check_frames(t, node);
  if (t->failed) return NULL;
  od_status st = od_grow(&t->nodes, &t->cap_nodes, t->n_nodes + 1, sizeof *t->nodes);
  if (st == OD_OK) st = od_map_set(t->by_name, kept, node);
  if (st != OD_OK) goto memory;
  t->nodes[t->n_nodes++] = node;
  return node;
memory:
  od_tf_fail(t, OD_ENOMEM);
  return NULL;
}

const char *od_tf_add(od_tf *t, const char *op, const char *suffix, const char *const *inputs) {
  if (t->failed) return "";
  tf_node *n = od_tf_put(t, op, od_tf_unique(t, suffix), inputs, t->loop, true);
  return n ? n->name : "";
}

const char *od_tf_output(od_tf *t, const char *node, int i) {
  if (t->failed || i == 0) return node;
  tf_node *n = od_tf_find(t, node);
  if (!n) {
    od_tf_fail(t, od_fail(OD_EINVAL, "no TensorFlow node '%s' was made", node));
    return "";
  }
  size_t had = n->cap_outs;
  if ((size_t)i >= had && od_grow(&n->outs, &n->cap_outs, (size_t)i + 1, sizeof *n->outs) == OD_OK)
    memset(n->outs + had, 0, (n->cap_outs - had) * sizeof *n->outs);
  if ((size_t)i >= n->cap_outs) {
    od_tf_fail(t, OD_ENOMEM);
    return "";
  }
  if (!n->outs[i]) n->outs[i] = od_arena_printf(t->arena, "%s:%d", n->name, i);
  if (!n->outs[i]) od_tf_fail(t, OD_ENOMEM);
  return n->outs[i] ? n->outs[i] : "";
}

const char *od_tf_control(od_tf *t, const char *tensor) {
  if (t->failed) return "";
  const tf_node *n = od_tf_find(t, tensor);
  if (!n) od_tf_fail(t, od_fail(OD_EINVAL, "no TensorFlow node '%s' was made", tensor));
  const char *name = n ? od_arena_printf(t->arena, "^%s", n->name) : NULL;
  if (n && !name) od_tf_fail(t, OD_ENOMEM);
  return name ? name : "";
}

/* ----------------------------------------------------------------------------------------------- values of our graph */
const char *od_tf_bound(const od_tf *t, od_value v) {
  if (!v.node || (size_t)v.node->id >= t->cap_bound || !t->bound[v.node->id]) return NULL;
  return t->bound[v.node->id][v.out];
}

void od_tf_bind(od_tf *t, od_value v, const char *tensor) {
  if (t->failed || !v.node) return;
  size_t id = (size_t)v.node->id, had = t->cap_bound;
  if (id >= had) {
    if (od_grow(&t->bound, &t->cap_bound, id + 1, sizeof *t->bound) != OD_OK) {
      od_tf_fail(t, OD_ENOMEM);
      return;
    }
    memset(t->bound + had, 0, (t->cap_bound - had) * sizeof *t->bound);
  }
  if (!t->bound[id]) t->bound[id] = od_arena_alloc(t->arena, sizeof(char *) * (size_t)v.node->op->n_out);
  const char *copy = od_arena_strdup(t->arena, tensor);
  if (!t->bound[id] || !copy) {
    od_tf_fail(t, OD_ENOMEM);
    return;
  }
  t->bound[id][v.out] = copy;
}

const char *od_tf_in(od_tf *t, int i) {
  if (t->failed || !t->current || i >= t->current->n_in || !t->current->in[i].node) return "";
  od_value v = t->current->in[i];
  const char *name = od_tf_bound(t, v);
  if (!name)
    od_tf_fail(t, od_fail(OD_EINVAL, "%s reads output %d of %s (%s), which was not written", t->current->name, v.out,
                          v.node->name, v.node->op->name));
  return name ? name : "";
}

void od_tf_out(od_tf *t, int i, const char *tensor) {
  if (t->failed || !t->current) return;
  if (!od_tf_find(t, tensor)) {
    od_tf_fail(t, od_fail(OD_EINVAL, "%s names '%s' as its output, which no node makes", t->current->name, tensor));
    return;
  }
  od_tf_bind(t, (od_value){(od_node *)(uintptr_t)t->current, i}, tensor);
}

od_status od_tf_node(od_tf *t, const od_node *node) {
  OD_TRY(od_tf_check(t));
  if (!node->op->write_tf)
    return od_fail(OD_EUNSUPPORTED, "%s (%s) cannot be written as a TensorFlow graph: %s", node->name, node->op->name,
                   node->op->no_tf ? node->op->no_tf : "no writer");
  od_tf_begin(t, node->name);
  t->current = node;
  od_status st = node->op->write_tf(t, node);
  t->current = NULL;
  OD_TRY(od_fail_context(st, "%s (%s)", node->name, node->op->name));
  if (!t->failed && t->loop) od_tf_fail(t, od_fail(OD_EINVAL, "%s (%s) left a loop open", node->name, node->op->name));
  return od_tf_check(t);
}

od_status od_tf_simple(od_tf *t, const char *op) {
  OD_TRY(od_tf_check(t));
  const char *in[16] = {0};
  if (t->current->n_in > 15) return od_fail(OD_EINVAL, "%s has %d inputs", t->current->name, t->current->n_in);
  for (int i = 0; i < t->current->n_in; i++) in[i] = od_tf_in(t, i);
  const char *out = od_tf_add(t, op, NULL, in);
  od_tf_attr_type(t, "T", OD_F32);
  od_tf_out(t, 0, out);
  return od_tf_check(t);
}

/* --------------------------------------------------------------------------------------------------------- attributes */
enum { VALUE_LIST = 1, VALUE_S = 2, VALUE_I = 3, VALUE_F = 4, VALUE_B = 5, VALUE_TYPE = 6, VALUE_SHAPE = 7 };

/* Takes over the bytes collected in s as an attribute of the last node. */
static tf_attr *attr_take(od_tf *t, const char *name, od_str *s) {
  tf_attr *a = NULL;
  if (t->failed) goto done;
  if (!t->n_nodes) {
    od_tf_fail(t, od_fail(OD_EINVAL, "attribute %s before any node", name));
    goto done;
  }
  tf_node *n = t->nodes[t->n_nodes - 1];
  tf_attr **at = &n->attrs;
  while (*at && strcmp((*at)->name, name) < 0) at = &(*at)->next;
  if (*at && strcmp((*at)->name, name) == 0) {
    od_tf_fail(t, od_fail(OD_EINVAL, "attribute %s of TensorFlow node %s (%s) is set twice", name, n->name, n->op));
    goto done;
  }
  a = od_arena_alloc(t->arena, sizeof *a);
  uint8_t *bytes = od_arena_alloc(t->arena, s->len + 1);
  const char *kept = od_arena_strdup(t->arena, name);
  if (!a || !bytes || !kept || s->failed) {
    od_tf_fail(t, OD_ENOMEM);
    a = NULL;
    goto done;
  }
  if (s->len) memcpy(bytes, s->data, s->len);
  *a = (tf_attr){.name = kept, .bytes = bytes, .size = s->len, .next = *at};
  *at = a;
done:
  od_str_free(s);
  return a;
}

void od_tf_attr_datatype(od_tf *t, const char *name, int datatype) {
  od_str s = OD_STR_INIT;
  od_wire_put_varint(&s, VALUE_TYPE, (uint64_t)datatype);
  attr_take(t, name, &s);
}
void od_tf_attr_type(od_tf *t, const char *name, od_dtype v) { od_tf_attr_datatype(t, name, od_dtype_tf(v)); }

void od_tf_attr_int(od_tf *t, const char *name, int64_t v) {
  od_str s = OD_STR_INIT;
  od_wire_put_varint(&s, VALUE_I, (uint64_t)v);
  attr_take(t, name, &s);
}

void od_tf_attr_float(od_tf *t, const char *name, float v) {
  od_str s = OD_STR_INIT;
  od_wire_put_float(&s, VALUE_F, v);
  attr_take(t, name, &s);
}

void od_tf_attr_bool(od_tf *t, const char *name, bool v) {
  od_str s = OD_STR_INIT;
  od_wire_put_varint(&s, VALUE_B, v);
  attr_take(t, name, &s);
}

void od_tf_attr_text(od_tf *t, const char *name, const char *v) {
  od_str s = OD_STR_INIT;
  od_wire_put_text(&s, VALUE_S, v);
  attr_take(t, name, &s);
}

void od_tf_attr_ints(od_tf *t, const char *name, const int64_t *v, int n) {
  od_str s = OD_STR_INIT;
  size_t list = od_wire_begin(&s, VALUE_LIST);
  if (n > 0) {
    size_t packed = od_wire_begin(&s, 3);
    for (int i = 0; i < n; i++) od_wire_raw_varint(&s, (uint64_t)v[i]);
    od_wire_end(&s, packed);
  }
  od_wire_end(&s, list);
  attr_take(t, name, &s);
}

void od_tf_attr_types(od_tf *t, const char *name, const od_dtype *v, int n) {
  od_str s = OD_STR_INIT;
  size_t list = od_wire_begin(&s, VALUE_LIST);
  if (n > 0) {
    size_t packed = od_wire_begin(&s, 6);
    for (int i = 0; i < n; i++) od_wire_raw_varint(&s, (uint64_t)od_dtype_tf(v[i]));
    od_wire_end(&s, packed);
  }
  od_wire_end(&s, list);
  attr_take(t, name, &s);
}

/* TensorShapeProto: dim = 2 { size = 1 }, unknown_rank = 3 */
static void put_shape(od_str *s, uint32_t number, const od_shape *v) {
  size_t shape = od_wire_begin(s, number);
  for (int i = 0; i < v->rank; i++) {
    size_t dim = od_wire_begin(s, 2);
    if (v->dim[i] != 0) od_wire_put_varint(s, 1, (uint64_t)v->dim[i]);
    od_wire_end(s, dim);
  }
  if (v->rank < 0) od_wire_put_varint(s, 3, 1);
  od_wire_end(s, shape);
}

void od_tf_attr_shape(od_tf *t, const char *name, const od_shape *v) {
  od_str s = OD_STR_INIT;
  put_shape(&s, VALUE_SHAPE, v);
  attr_take(t, name, &s);
}

void od_tf_attr_shapes(od_tf *t, const char *name, const od_shape *v, int n) {
  od_str s = OD_STR_INIT;
  size_t list = od_wire_begin(&s, VALUE_LIST);
  for (int i = 0; i < n; i++) put_shape(&s, 7, &v[i]);
  od_wire_end(&s, list);
  attr_take(t, name, &s);
}

/* ---------------------------------------------------------------------------------------------------------- constants */
static const char *add_const(od_tf *t, const char *suffix, const od_tensor *v, bool borrowed) {
  if (t->failed) return "";
  const char *name = od_tf_add(t, "Const", suffix, NULL);
  if (t->failed) return "";
  od_tf_attr_type(t, "dtype", v->dtype);
  od_str s = OD_STR_INIT;
  od_wire_put_varint(&s, 1, (uint64_t)od_dtype_tf(v->dtype));
  put_shape(&s, 2, &v->shape);
  int64_t n = od_tensor_size(v);
  const void *content = v->data;
  size_t size = v->dtype == OD_STRING ? 0 : od_tensor_bytes(v);
  if (v->dtype == OD_STRING) {
    const od_bytes *b = v->data;
    for (int64_t i = 0; i < n; i++) od_wire_put_bytes(&s, 8, b[i].data, b[i].size);
  } else if (!borrowed && size) {
    void *copy = od_arena_alloc(t->arena, size);
    if (copy)
      content = memcpy(copy, v->data, size);
    else
      od_tf_fail(t, OD_ENOMEM);
  }
  tf_attr *a = attr_take(t, "value", &s);
  if (!a) return "";
  a->is_tensor = true;
  a->content = content;
  a->content_size = size;
  return name;
}

const char *od_tf_const(od_tf *t, const char *suffix, const od_tensor *value) {
  return add_const(t, suffix, value, false);
}
const char *od_tf_const_borrowed(od_tf *t, const char *suffix, const od_tensor *value) {
  return add_const(t, suffix, value, true);
}

const char *od_tf_const_i32(od_tf *t, const char *suffix, int32_t v) {
  return add_const(t, suffix, &(od_tensor){OD_I32, OD_SCALAR, &v}, false);
}

const char *od_tf_const_i32s(od_tf *t, const char *suffix, const int32_t *v, int n) {
  return add_const(t, suffix, &(od_tensor){OD_I32, OD_SHAPE(n), (void *)(uintptr_t)v}, false);
}

const char *od_tf_const_f32(od_tf *t, const char *suffix, float v) {
  return add_const(t, suffix, &(od_tensor){OD_F32, OD_SCALAR, &v}, false);
}
