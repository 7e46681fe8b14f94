/* Reverse-mode differentiation; see autodiff.h. */
#include "graph/autodiff.h"

#include <string.h>

#include "base/str.h"

/* Gradients collected so far for each output of each node that existed when we began. */
typedef struct {
  od_graph *graph;
  size_t n;          /* nodes at the start */
  od_value **grad;   /* by node id, by output; NULL: node not between y and wrt */
  bool *reaches_wrt; /* some wrt is an ancestor of (or is) this node */
} sweep;

static od_value add_op(od_graph *g, const char *name, od_value a, od_value b) {
  const od_op *op = od_op_find(name);
  OD_ASSERT(op);
  return od_graph_add(g, op, (od_value[]){a, b}, b.node ? 2 : 1, NULL);
}

static void mark_reaching(sweep *s, const od_value *wrt, int n) {
  for (int i = 0; i < n; i++)
    if (od_has(wrt[i])) s->reaches_wrt[wrt[i].node->id] = true;
  for (size_t i = 0; i < s->n; i++) {
    const od_node *node = od_graph_node(s->graph, i);
    for (int k = 0; k < node->n_in && !s->reaches_wrt[i]; k++)
      if (od_has(node->in[k])) s->reaches_wrt[i] = s->reaches_wrt[node->in[k].node->id];
  }
}

static od_status accumulate(sweep *s, od_value target, od_value d) {
  od_value **slots = &s->grad[target.node->id];
  if (!*slots) {
    *slots = od_arena_alloc(od_graph_arena(s->graph), sizeof **slots * (size_t)target.node->op->n_out);
    if (!*slots) return OD_ENOMEM;
  }
  od_value *at = &(*slots)[target.out];
  *at = od_has(*at) ? add_op(s->graph, "add", *at, d) : d;
  return od_graph_check(s->graph);
}

static bool differentiable(od_value v) {
  od_dtype t = od_type_of(v).dtype;
  return t == OD_F32 || t == OD_BF16;
}

static od_status visit(sweep *s, const od_node *node) {
  enum { MANY = 64 };
  bool few = node->n_in <= MANY;
  bool need_few[MANY];
  od_value din_few[MANY];
  bool *need = few ? need_few : od_arena_alloc(od_graph_arena(s->graph), sizeof *need * (size_t)node->n_in);
  od_value *din = few ? din_few : od_arena_alloc(od_graph_arena(s->graph), sizeof *din * (size_t)node->n_in);
  if (!need || !din) return OD_ENOMEM;
  bool any = false;
  for (int i = 0; i < node->n_in; i++) {
    din[i] = OD_NONE;
    need[i] = od_has(node->in[i]) && s->reaches_wrt[node->in[i].node->id] && differentiable(node->in[i]);
    any = any || need[i];
  }
  if (!any) return OD_OK;
  if (!node->op->grad)
    return od_fail(OD_EUNSUPPORTED, "%s: op %s has no gradient: %s", node->name, node->op->name,
                   node->op->no_grad ? node->op->no_grad : "none was written");
  od_grad c = {s->graph, node, s->grad[node->id], need, din};
  OD_TRY(od_fail_context(node->op->grad(&c), "gradient of %s (%s)", node->name, node->op->name));
  OD_TRY(od_graph_check(s->graph));
  for (int i = 0; i < node->n_in; i++)
    if (need[i] && od_has(din[i])) OD_TRY(accumulate(s, node->in[i], din[i]));
  return OD_OK;
}

od_status od_gradients(od_value *grads, od_graph *g, od_value y, const od_value *wrt, int n) {
  OD_TRY(od_graph_check(g));
  if (!od_has(y)) return od_fail(OD_EINVAL, "the gradient of nothing is asked for");
  if (!differentiable(y))
    return od_fail(OD_EINVAL, "%s is %s: only floats have a gradient", y.node->name,
                   od_dtype_name(od_type_of(y).dtype));
  sweep s = {.graph = g, .n = od_graph_size(g)};
  od_status st;
  OD_GO(st, od_new(&s.grad, s.n, sizeof *s.grad));
  OD_GO(st, od_new(&s.reaches_wrt, s.n, sizeof *s.reaches_wrt));
  mark_reaching(&s, wrt, n);
  od_scope_push(g, "gradients");
  if (s.reaches_wrt[y.node->id]) st = accumulate(&s, y, add_op(g, "ones_like", y, OD_NONE));
  for (size_t i = s.n; st == OD_OK && i-- > 0;)
    if (s.grad[i]) st = visit(&s, od_graph_node(g, i));
  od_scope_pop(g);
  if (st != OD_OK) goto done;
  for (int i = 0; i < n; i++) {
    od_value *slots = od_has(wrt[i]) ? s.grad[wrt[i].node->id] : NULL;
    grads[i] = slots ? slots[wrt[i].out] : OD_NONE;
  }
done:
  od_free(s.grad);
  od_free(s.reaches_wrt);
  return st;
}
