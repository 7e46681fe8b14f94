/* The last kernel of the list: the op's own reference function, one thread, float32. The profile counts it as a fallback. */
#include <string.h>

#include "engine/cpu/cpu.h"

typedef struct {
  const od_node *node;
  od_call call;
  int *operand; /* by input: place among the step's operands, or -1 */
} self;

static bool match(od_cpu_draft *d) {
  self *s = od_cpu_alloc(d, sizeof *s);
  if (!s) return false;
  const od_node *n = d->node;
  int n_out = n->op->n_out;
  s->node = n;
  s->operand = od_cpu_alloc(d, sizeof *s->operand * (size_t)(n->n_in + 1));
  od_tensor *in = od_cpu_alloc(d, sizeof *in * (size_t)(n->n_in + 1)), *out = od_cpu_alloc(d, sizeof *out * (size_t)n_out);
  if (!s->operand || !in || !out) return false;
  for (int k = 0; k < n->n_in; k++) {
    s->operand[k] = -1;
    if (!od_has(n->in[k])) continue;
    const od_type *t = od_cpu_in_type(d, k);
    in[k] = (od_tensor){t->dtype, t->shape, NULL};
    /* a value of which only the shape counts may be one that was merged away */
    if (!od_cpu_shape_only(n->op, k)) s->operand[k] = od_cpu_take(d, n->in[k], t->dtype);
  }
  for (int k = 0; k < n_out; k++) {
    od_value v = {(od_node *)(uintptr_t)n, k};
    const od_type *t = od_cpu_type(d, v);
    out[k] = (od_tensor){t->dtype, t->shape, NULL};
    int alias = k < 4 && n->op->alias[k] ? s->operand[n->op->alias[k] - 1] : -1;
    od_cpu_give(d, v, t->dtype, alias);
  }
  s->call = (od_call){n->params, n->n_in, n_out, in, out, NULL, 0};
  d->note = s;
  return true;
}

static od_status create(void **out, od_cpu_draft *d) {
  self *s = d->note;
  const od_node *n = d->node;
  if (n->op->scratch) {
    od_type *in = od_cpu_alloc(d, sizeof *in * (size_t)(n->n_in + 1));
    bool *present = od_cpu_alloc(d, (size_t)n->n_in + 1);
    if (!in || !present) return OD_ENOMEM;
    for (int k = 0; k < n->n_in; k++) {
      present[k] = od_has(n->in[k]);
      if (present[k]) in[k] = *od_cpu_in_type(d, k);
    }
    od_infer c = {n, n->params, n->n_in, n->op->n_out, in, present, (od_type *)(uintptr_t)d->plan->r.types[n->id]};
    d->scratch = n->op->scratch(&c);
  }
  *out = s;
  return OD_OK;
}

static od_status run(void *self_, const od_cpu_call *c) {
  self *s = self_;
  od_tensor *in = (od_tensor *)(uintptr_t)s->call.in;
  for (int k = 0; k < s->call.n_in; k++)
    if (s->operand[k] >= 0) in[k].data = c->in[s->operand[k]];
  for (int k = 0; k < s->call.n_out; k++) s->call.out[k].data = c->out[k];
  s->call.scratch = c->scratch;
  s->call.key = c->key;
  return s->node->op->ref(&s->call);
}

const od_cpu_kernel od_cpu_ref = {.name = "ref", .match = match, .create = create, .run = run};
