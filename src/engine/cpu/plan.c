/* Planning: nodes become steps; see cpu.h. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/cpu/cpu.h"

/* ------------------------------------------------------------------------------------------------------------- values */
static od_status add_value(int *out, od_cpu_plan *p, od_dtype dtype, const od_shape *shape) {
  OD_TRY(od_grow(&p->values, &p->cap_values, p->n_values + 1, sizeof *p->values));
  OD_TRY(od_grow(&p->twin, &p->cap_twin, p->n_values + 1, sizeof *p->twin));
  int i = (int)p->n_values++;
  od_tensor t = {dtype, *shape, NULL};
  p->values[i] = (od_cpu_value){.dtype = dtype, .shape = *shape, .root = i, .home = OD_HOME_PLAN, .source = -1,
                                .bytes = od_tensor_bytes(&t), .first = -1, .last = -1};
  p->twin[i] = -1;
  *out = i;
  return OD_OK;
}

static int fed(const od_cpu_plan *p, od_value v) {
  for (int k = 0; k < p->r.n_feeds; k++)
    if (od_same(p->r.feeds[k], v)) return k;
  return -1;
}

const od_variable *od_cpu_variable(const od_cpu_plan *p, od_value v) {
  return od_has(v) && od_cpu_is(v.node, "variable") && fed(p, v) < 0 ? od_variable_of(p->r.graph, v) : NULL;
}

bool od_cpu_updated(const od_cpu_plan *p, int variable) {
  for (size_t k = 0; k < p->r.n_updates; k++)
    if (p->r.updates[k]->var->index == variable) return true;
  return false;
}

/* The value of a source, a feed or an output that was computed already. */
static od_status value_of(int *out, od_cpu_plan *p, od_value v) {
  int *slot = &p->at[v.node->id][v.out];
  if (*slot >= 0) {
    *out = *slot;
    return OD_OK;
  }
  const od_type *t = &p->r.types[v.node->id][v.out];
  int feed = fed(p, v);
  OD_ASSERT(feed >= 0 || (v.node->op->flags & OD_OP_SOURCE));
  OD_TRY(add_value(slot, p, t->dtype, &t->shape));
  od_cpu_value *x = &p->values[*slot];
  if (feed >= 0) {
    x->home = OD_HOME_FEED;
    x->source = feed;
  } else if (od_cpu_is(v.node, "const")) {
    x->home = OD_HOME_CONST;
    x->constant = ((const od_const_params *)v.node->params)->value.data;
  } else {
    x->home = OD_HOME_STATE;
    x->source = od_variable_of(p->r.graph, v)->index;
  }
  *out = *slot;
  return OD_OK;
}

/* -------------------------------------------------------------------------------------------------------------- draft */
bool od_cpu_refuse(od_cpu_draft *d, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  vsnprintf(d->reason, sizeof d->reason, format, ap);
  va_end(ap);
  return false;
}

void *od_cpu_alloc(od_cpu_draft *d, size_t size) {
  void *p = od_arena_alloc(d->plan->arena, size);
  if (!p && d->status == OD_OK) d->status = OD_ENOMEM;
  return p;
}

const od_type *od_cpu_type(const od_cpu_draft *d, od_value v) { return &d->plan->r.types[v.node->id][v.out]; }

od_dtype od_cpu_stored(const od_cpu_draft *d, od_value v) {
  int i = d->plan->at[v.node->id] ? d->plan->at[v.node->id][v.out] : -1;
  return i >= 0 ? d->plan->values[i].dtype : od_cpu_type(d, v)->dtype;
}

bool od_cpu_ready(const od_cpu_draft *d, od_value v) {
  return !od_has(v) || (v.node->op->flags & OD_OP_SOURCE) || fed(d->plan, v) >= 0 || d->plan->at[v.node->id][v.out] >= 0;
}

bool od_cpu_wants_bf16(const od_cpu_draft *d) { return d->cpu->bf16 && (d->node->op->flags & OD_OP_BF16); }

const od_node *od_cpu_next(const od_cpu_draft *d, od_value v) {
  const od_cpu_plan *p = d->plan;
  if (p->uses[v.node->id][v.out] != 1 || fed(p, v) >= 0) return NULL;
  const od_node *n = p->reader[v.node->id][v.out];
  return n && !p->done[n->id] && d->n_absorbed < (int)(sizeof d->absorbed / sizeof *d->absorbed) ? n : NULL;
}

void od_cpu_absorb(od_cpu_draft *d, const od_node *node) {
  OD_ASSERT(d->n_absorbed < (int)(sizeof d->absorbed / sizeof *d->absorbed));
  d->absorbed[d->n_absorbed++] = node;
}

static int push(od_cpu_draft *d, od_cpu_operand **list, int *n, size_t *cap, od_cpu_operand o) {
  od_status st = od_grow(list, cap, (size_t)*n + 1, sizeof **list);
  if (st != OD_OK) {
    if (d->status == OD_OK) d->status = st;
    return 0;
  }
  (*list)[*n] = o;
  return (*n)++;
}

int od_cpu_take(od_cpu_draft *d, od_value v, od_dtype dtype) {
  return push(d, &d->in, &d->n_in, &d->cap_in, (od_cpu_operand){v, dtype, -1});
}

int od_cpu_take_any(od_cpu_draft *d, od_value v) {
  return od_cpu_take(d, v, od_has(v) ? od_cpu_stored(d, v) : OD_F32);
}

int od_cpu_give(od_cpu_draft *d, od_value v, od_dtype dtype, int alias) {
  return push(d, &d->out, &d->n_out, &d->cap_out, (od_cpu_operand){v, dtype, alias});
}

/* Inputs of which ops read the shape alone (the headers of ops/ say so). */
bool od_cpu_shape_only(const od_op *op, int input) {
  static const struct {
    const char *op;
    int from, to; /* inputs [from, to] */
  } list[] = {{"conv2d_grad_input", 2, 2},  {"conv2d_grad_filter", 2, 2}, {"depthwise_conv2d_grad_input", 2, 2},
              {"depthwise_conv2d_grad_filter", 2, 2}, {"avg_pool_grad", 1, 1}, {"sum_like", 1, 1}, {"broadcast_like", 1, 1},
              {"reduce_sum_grad", 1, 1}, {"reduce_mean_grad", 1, 1}, {"reshape_like", 1, 1}, {"concat_grad", 1, 1 << 20},
              {"slice_grad", 1, 1}, {"gather_grad", 2, 2}, {"tile_grad", 1, 1}, {"ones_like", 0, 0}, {"zeros_like", 0, 0},
              {"crop_and_resize_grad", 1, 1}, {"ssd_anchors", 0, 1 << 20}, {"grid_anchors", 0, 1 << 20},
              {"multiscale_anchors", 0, 1 << 20}, {"flexible_anchors", 0, 1 << 20}, {"boxes_to_absolute", 1, 1},
              {"boxes_to_normalized", 1, 1}, {"clip_window", 1, 1}};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    if (strcmp(list[i].op, op->name) == 0) return input >= list[i].from && input <= list[i].to;
  return false;
}

/* ------------------------------------------------------------------------------------------------------------- commit */
static od_status new_step(od_cpu_step **out, od_cpu_plan *p, int n_in, int n_out) {
  OD_TRY(od_grow(&p->steps, &p->cap_steps, p->n_steps + 1, sizeof *p->steps));
  od_cpu_step *s = &p->steps[p->n_steps];
  *s = (od_cpu_step){.n_in = n_in, .n_out = n_out};
  s->in = od_arena_alloc(p->arena, sizeof *s->in * (size_t)(n_in + 1));
  s->out = od_arena_alloc(p->arena, sizeof *s->out * (size_t)(n_out + 1));
  s->alias = od_arena_alloc(p->arena, sizeof *s->alias * (size_t)(n_out + 1));
  s->data = od_arena_alloc(p->arena, sizeof *s->data * (size_t)(n_in + n_out + 1));
  if (!s->in || !s->out || !s->alias || !s->data) return OD_ENOMEM;
  *out = s;
  return OD_OK;
}

static od_status add_profile(od_cpu_plan *p, const od_node *node, const char *op, const char *kernel, double flops, bool fallback) {
  od_profile_step *grown = p->profile;
  size_t cap = p->n_profile; /* grown by doubling: a power of two means full */
  if ((cap & (cap - 1)) == 0) {
    grown = od_realloc(p->profile, sizeof *grown * (cap ? 2 * cap : 1));
    if (!grown) return OD_ENOMEM;
    p->profile = grown;
  }
  p->profile[p->n_profile++] = (od_profile_step){node->name, op, kernel, 0, flops, fallback};
  return OD_OK;
}

/* The value in the wanted float type: itself, its twin, or a new twin that a conversion step makes here. */
static od_status in_type(int *out, od_cpu_plan *p, int value, od_dtype dtype, const od_node *reader) {
  *out = value;
  if (p->values[value].dtype == dtype) return OD_OK;
  if (p->twin[value] >= 0) {
    *out = p->twin[value];
    return OD_OK;
  }
  bool floats = (dtype == OD_F32 || dtype == OD_BF16) && (p->values[value].dtype == OD_F32 || p->values[value].dtype == OD_BF16);
  OD_ASSERT(floats);
  od_shape shape = p->values[value].shape;
  int twin;
  OD_TRY(add_value(&twin, p, dtype, &shape));
  p->twin[value] = twin;
  od_cpu_step *s;
  OD_TRY(new_step(&s, p, 1, 1));
  int64_t *n = od_arena_alloc(p->arena, sizeof *n);
  if (!n) return OD_ENOMEM;
  *n = od_shape_size(&shape) * (dtype == OD_BF16 ? 1 : -1); /* the sign says which way */
  s->kernel = &od_cpu_convert;
  s->self = n;
  s->node = reader;
  s->in[0] = value;
  s->out[0] = twin;
  s->alias[0] = -1;
  OD_TRY(add_profile(p, reader, "convert", dtype == OD_BF16 ? "to bf16" : "to f32", 0, false));
  p->n_steps++;
  *out = twin;
  return OD_OK;
}

/* Enters the finished draft as a step. */
static od_status commit(od_cpu_plan *p, od_cpu_draft *d, const od_cpu_kernel *kernel, void *self) {
  int few[64], *in = few;
  if (d->n_in > 64) {
    in = od_arena_alloc(p->arena, sizeof *in * (size_t)d->n_in);
    if (!in) return OD_ENOMEM;
  }
  const od_node *last = d->n_absorbed ? d->absorbed[d->n_absorbed - 1] : d->node;
  for (int k = 0; k < d->n_in; k++) {
    in[k] = -1;
    if (!od_has(d->in[k].value)) continue;
    int v;
    OD_TRY(value_of(&v, p, d->in[k].value));
    OD_TRY(in_type(&in[k], p, v, d->in[k].dtype, d->node));
  }
  od_cpu_step *s;
  OD_TRY(new_step(&s, p, d->n_in, d->n_out));
  memcpy(s->in, in, sizeof *in * (size_t)d->n_in);
  s->kernel = kernel;
  s->node = last;
  s->scratch = d->scratch;
  s->key = od_key_name(0, d->node->name);
  for (int k = 0; k < d->n_out; k++) {
    od_value v = d->out[k].value;
    OD_TRY(add_value(&s->out[k], p, d->out[k].dtype, &p->r.types[v.node->id][v.out].shape));
    s->alias[k] = d->out[k].alias;
    if (fed(p, v) < 0) p->at[v.node->id][v.out] = s->out[k]; /* a fed output is computed for nothing and dropped */
  }
  p->done[d->node->id] = true;
  for (int k = 0; k < d->n_absorbed; k++) p->done[d->absorbed[k]->id] = true;
  char *label = NULL;
  if (kernel == &od_cpu_ref && p->refused[0]) {
    label = od_arena_printf(p->arena, "ref: %s", p->refused);
    if (!label) return OD_ENOMEM;
  }
  OD_TRY(add_profile(p, last, d->node->op->name, label ? label : d->label ? d->label : kernel->name, d->flops, kernel == &od_cpu_ref));
  s->self = self;
  p->n_steps++; /* from here on the plan frees self */
  return OD_OK;
}

static bool serves(const od_cpu_kernel *k, const char *op) {
  if (!k->ops) return true;
  for (const char *const *o = k->ops; *o; o++)
    if (strcmp(*o, op) == 0) return true;
  return false;
}

/* Offers the node to one kernel. taken false: refused. */
static od_status offer(bool *taken, od_cpu_plan *p, const od_node *node, const od_cpu_kernel *kernel) {
  od_cpu_draft d = {.plan = p, .cpu = p->cpu, .node = node};
  void *self = NULL;
  od_status st = OD_OK;
  *taken = false;
  if (!kernel->match(&d)) {
    if (d.status != OD_OK) st = d.status;
    else snprintf(p->refused, sizeof p->refused, "%s: %s", kernel->name, d.reason);
    goto done;
  }
  OD_GO(st, d.status);
  st = kernel->create(&self, &d);
  if (st == OD_OK) st = d.status;
  if (st == OD_EUNSUPPORTED) {
    snprintf(p->refused, sizeof p->refused, "%s: %.200s", kernel->name, od_message());
    if (self && kernel->destroy) kernel->destroy(self);
    self = NULL;
    st = OD_OK;
    goto done;
  }
  if (st == OD_OK) {
    st = commit(p, &d, kernel, self); /* on success the plan owns self */
    *taken = st == OD_OK;
  }
  if (st != OD_OK && self && kernel->destroy) kernel->destroy(self);
done:
  od_free(d.in);
  od_free(d.out);
  return st;
}

/* A view is another shape over the same memory. */
static od_status add_view(od_cpu_plan *p, const od_node *node) {
  int from, v;
  OD_TRY(value_of(&from, p, node->in[0]));
  OD_TRY(add_value(&v, p, p->values[from].dtype, &p->r.types[node->id][0].shape));
  p->values[v].root = p->values[from].root;
  p->at[node->id][0] = v;
  p->done[node->id] = true;
  return OD_OK;
}

/* ------------------------------------------------------------------------------------------------------------- making */
/* One more than the largest node id the request speaks of; the graph itself may have grown since the program was made. */
static size_t ids_of(const od_plan_request *r) {
  int most = -1;
  for (size_t i = 0; i < r->n_nodes; i++) {
    if (r->nodes[i]->id > most) most = r->nodes[i]->id;
    for (int k = 0; k < r->nodes[i]->n_in; k++)
      if (od_has(r->nodes[i]->in[k]) && r->nodes[i]->in[k].node->id > most) most = r->nodes[i]->in[k].node->id;
  }
  for (int k = 0; k < r->n_fetches; k++)
    if (od_has(r->fetches[k]) && r->fetches[k].node->id > most) most = r->fetches[k].node->id;
  for (size_t k = 0; k < r->n_updates; k++)
    if (r->updates[k]->value.node->id > most) most = r->updates[k]->value.node->id;
  if (od_has(r->guard) && r->guard.node->id > most) most = r->guard.node->id;
  return (size_t)(most + 1);
}

static od_status count_uses(od_cpu_plan *p) {
  size_t n_ids = ids_of(&p->r);
  p->at = od_arena_alloc(p->arena, sizeof *p->at * (n_ids + 1));
  p->uses = od_arena_alloc(p->arena, sizeof *p->uses * (n_ids + 1));
  p->reader = od_arena_alloc(p->arena, sizeof *p->reader * (n_ids + 1));
  p->done = od_arena_alloc(p->arena, sizeof *p->done * (n_ids + 1));
  if (!p->at || !p->uses || !p->reader || !p->done) return OD_ENOMEM;
  for (size_t i = 0; i < n_ids; i++) {
    if (!p->r.types[i]) continue;
    size_t n = (size_t)od_graph_node(p->r.graph, i)->op->n_out;
    p->at[i] = od_arena_alloc(p->arena, sizeof **p->at * n);
    p->uses[i] = od_arena_alloc(p->arena, sizeof **p->uses * n);
    p->reader[i] = od_arena_alloc(p->arena, sizeof **p->reader * n);
    if (!p->at[i] || !p->uses[i] || !p->reader[i]) return OD_ENOMEM;
    for (size_t k = 0; k < n; k++) p->at[i][k] = -1;
  }
  for (size_t i = 0; i < p->r.n_nodes; i++) {
    const od_node *node = p->r.nodes[i];
    for (int k = 0; k < node->n_in; k++) {
      od_value v = node->in[k];
      if (!od_has(v) || od_cpu_shape_only(node->op, k)) continue;
      p->uses[v.node->id][v.out]++;
      p->reader[v.node->id][v.out] = node;
    }
  }
  for (int k = 0; k < p->r.n_fetches; k++)
    if (od_has(p->r.fetches[k])) p->uses[p->r.fetches[k].node->id][p->r.fetches[k].out] += 2; /* never merged away */
  for (size_t k = 0; k < p->r.n_updates; k++) {
    od_value v = p->r.updates[k]->value;
    p->uses[v.node->id][v.out] += 2;
  }
  if (od_has(p->r.guard)) p->uses[p->r.guard.node->id][p->r.guard.out] += 2;
  return OD_OK;
}

static od_status make_steps(od_cpu_plan *p) {
  for (size_t i = 0; i < p->r.n_nodes; i++) {
    const od_node *node = p->r.nodes[i];
    if (p->done[node->id]) continue;
    if ((node->op->flags & OD_OP_VIEW) && fed(p, (od_value){(od_node *)(uintptr_t)node, 0}) < 0) {
      OD_TRY(add_view(p, node));
      continue;
    }
    bool taken = false;
    p->refused[0] = 0;
    for (size_t k = 0; !taken; k++) {
      const od_cpu_kernel *kernel = od_cpu_kernel_at(k);
      OD_ASSERT(kernel); /* the reference takes everything */
      if (serves(kernel, node->op->name)) OD_TRY(od_fail_context(offer(&taken, p, node, kernel), "%s (%s)", node->name, node->op->name));
    }
  }
  return OD_OK;
}

/* Fetches and updates are read in their logical type. */
static od_status make_ends(od_cpu_plan *p) {
  p->fetch = od_arena_alloc(p->arena, sizeof *p->fetch * (size_t)(p->r.n_fetches + 1));
  p->update = od_arena_alloc(p->arena, sizeof *p->update * (p->r.n_updates + 1));
  if (!p->fetch || !p->update) return OD_ENOMEM;
  for (int k = 0; k < p->r.n_fetches; k++) {
    od_value v = p->r.fetches[k];
    p->fetch[k] = -1;
    if (!od_has(v)) continue;
    OD_TRY(value_of(&p->fetch[k], p, v));
    OD_TRY(in_type(&p->fetch[k], p, p->fetch[k], p->r.types[v.node->id][v.out].dtype, v.node));
  }
  for (size_t k = 0; k < p->r.n_updates; k++) {
    od_value v = p->r.updates[k]->value;
    OD_TRY(value_of(&p->update[k], p, v));
    OD_TRY(in_type(&p->update[k], p, p->update[k], p->r.updates[k]->var->dtype, v.node));
  }
  p->guard = -1;
  if (od_has(p->r.guard)) {
    OD_TRY(value_of(&p->guard, p, p->r.guard));
    if (p->values[p->guard].dtype != OD_F32) return od_fail(OD_EINVAL, "%s, the guard of a program, is not float32", p->r.guard.node->name);
  }
  return OD_OK;
}

od_status od_cpu_plan_new(od_cpu_plan **out, od_cpu *cpu, const od_plan_request *r, bool guarded) {
  od_cpu_plan *p;
  OD_TRY(od_new(&p, 1, sizeof *p));
  p->r = *r;
  p->cpu = cpu;
  p->guarded = guarded;
  od_status st;
  OD_GO(st, od_arena_new(&p->arena));
  OD_GO(st, count_uses(p));
  OD_GO(st, make_steps(p));
  OD_GO(st, make_ends(p));
  OD_GO(st, od_cpu_plan_layout(p));
done:
  if (st != OD_OK) od_cpu_plan_free(p);
  else *out = p;
  return st;
}

void od_cpu_plan_free(od_cpu_plan *p) {
  if (!p) return;
  for (size_t i = 0; i < p->n_steps; i++)
    if (p->steps[i].self && p->steps[i].kernel->destroy) p->steps[i].kernel->destroy(p->steps[i].self);
  od_free(p->steps);
  od_free(p->values);
  od_free(p->twin);
  od_free(p->profile);
  od_arena_free(p->arena);
  od_free(p);
}
