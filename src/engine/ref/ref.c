/* The reference engine: every node through its op's plain-C function, one thread, in graph order. Slow and complete: the
 * yardstick of the other engines, never removed. */
#include <string.h>

#include "base/report.h"
#include "engine/backend.h"

typedef struct {
  char *buffer; /* grows to what the largest plan needs */
  size_t size;
} context;

typedef struct {
  const od_node *node;
  od_tensor *in, *out; /* data set at each run */
  od_value *in_values;
  size_t *out_at; /* offsets in the buffer */
  size_t scratch_at;
  od_key key;
} step;

typedef struct {
  od_plan_request r;
  od_arena *arena;
  step *steps;
  od_profile_step *profile;
  uint64_t runs;
  size_t *first_piece; /* by node id: index of its first output among the pieces */
  od_tensor **values;  /* by node id: output views, rebuilt at each run */
  size_t total;
} plan;

static od_status open_ref(void **ctx, od_engine_options *options) {
  (void)options; /* one thread, fp32, whatever is asked: this is the yardstick */
  return od_new(ctx, 1, sizeof(context));
}

static void close_ref(void *ctx) {
  od_free(((context *)ctx)->buffer);
  od_free(ctx);
}

static void free_plan(void *ctx, void *plan_) {
  (void)ctx;
  plan *p = plan_;
  if (!p) return;
  od_arena *arena = p->arena;
  od_arena_free(arena); /* the plan itself lives in it */
}

/* Scratch bytes of a node with these concrete types. */
static size_t scratch_of(const plan *p, const od_node *n, od_arena *arena, bool *ok) {
  *ok = true;
  if (!n->op->scratch) return 0;
  od_type *in = od_arena_alloc(arena, sizeof *in * (size_t)(n->n_in + 1));
  bool *present = od_arena_alloc(arena, (size_t)n->n_in + 1);
  if (!in || !present) {
    *ok = false;
    return 0;
  }
  for (int k = 0; k < n->n_in; k++) {
    present[k] = od_has(n->in[k]);
    if (present[k]) in[k] = p->r.types[n->in[k].node->id][n->in[k].out];
  }
  od_infer c = {n, n->params, n->n_in, n->op->n_out, in, present, (od_type *)(uintptr_t)p->r.types[n->id]};
  return n->op->scratch(&c);
}

/* Outputs live from their node to their last reader; fetches and updates to the end. */
static od_status plan_buffers(plan *p) {
  size_t n_ids = p->r.n_ids, n = p->r.n_nodes, n_pieces = 0;
  p->first_piece = od_arena_alloc(p->arena, sizeof *p->first_piece * (n_ids + 1));
  for (size_t i = 0; i < n; i++) n_pieces += (size_t)p->r.nodes[i]->op->n_out + 1;
  od_piece *pieces = od_arena_alloc(p->arena, sizeof *pieces * (n_pieces + 1));
  bool *computed = od_arena_alloc(p->arena, n_ids + 1);
  if (!p->first_piece || !pieces || !computed) return OD_ENOMEM;
  size_t at = 0;
  for (size_t i = 0; i < n; i++) {
    const od_node *node = p->r.nodes[i];
    p->first_piece[node->id] = at;
    computed[node->id] = true;
    for (int k = 0; k < node->op->n_out; k++) {
      od_tensor t = {p->r.types[node->id][k].dtype, p->r.types[node->id][k].shape, NULL};
      pieces[at++] = (od_piece){od_tensor_bytes(&t), (int)i, (int)i, 0};
    }
    bool ok;
    pieces[at++] = (od_piece){scratch_of(p, node, p->arena, &ok), (int)i, (int)i, 0};
    if (!ok) return OD_ENOMEM;
    for (int k = 0; k < node->n_in; k++)
      if (od_has(node->in[k]) && computed[node->in[k].node->id])
        pieces[p->first_piece[node->in[k].node->id] + (size_t)node->in[k].out].last = (int)i;
  }
  for (int k = 0; k < p->r.n_fetches; k++)
    if (od_has(p->r.fetches[k]) && computed[p->r.fetches[k].node->id])
      pieces[p->first_piece[p->r.fetches[k].node->id] + (size_t)p->r.fetches[k].out].last = (int)n;
  for (size_t k = 0; k < p->r.n_updates; k++)
    if (computed[p->r.updates[k]->value.node->id])
      pieces[p->first_piece[p->r.updates[k]->value.node->id] + (size_t)p->r.updates[k]->value.out].last = (int)n;
  OD_TRY(od_plan_memory(&p->total, pieces, at));
  for (size_t i = 0; i < n; i++) {
    step *s = &p->steps[i];
    size_t first = p->first_piece[s->node->id];
    for (int k = 0; k < s->node->op->n_out; k++) s->out_at[k] = pieces[first + (size_t)k].offset;
    s->scratch_at = pieces[first + (size_t)s->node->op->n_out].offset;
  }
  return OD_OK;
}

static od_status make_steps(plan *p) {
  p->steps = od_arena_alloc(p->arena, sizeof *p->steps * (p->r.n_nodes + 1));
  p->profile = od_arena_alloc(p->arena, sizeof *p->profile * (p->r.n_nodes + 1));
  p->values = od_arena_alloc(p->arena, sizeof *p->values * (p->r.n_ids + 1));
  if (!p->steps || !p->profile || !p->values) return OD_ENOMEM;
  for (size_t i = 0; i < p->r.n_ids; i++) {
    const od_node *node = od_graph_node(p->r.graph, i);
    if (!p->r.types[i]) continue;
    p->values[i] = od_arena_alloc(p->arena, sizeof(od_tensor) * (size_t)node->op->n_out);
    if (!p->values[i]) return OD_ENOMEM;
    for (int k = 0; k < node->op->n_out; k++)
      p->values[i][k] = (od_tensor){p->r.types[i][k].dtype, p->r.types[i][k].shape, NULL};
  }
  for (size_t i = 0; i < p->r.n_nodes; i++) {
    const od_node *node = p->r.nodes[i];
    step *s = &p->steps[i];
    s->node = node;
    s->in = od_arena_alloc(p->arena, sizeof *s->in * (size_t)(node->n_in + 1));
    s->out = p->values[node->id];
    s->out_at = od_arena_alloc(p->arena, sizeof *s->out_at * (size_t)node->op->n_out);
    s->key = od_key_name(0, node->name);
    if (!s->in || !s->out_at) return OD_ENOMEM;
    p->profile[i] = (od_profile_step){node->name, node->op->name, "ref", 0, 0, false};
  }
  return OD_OK;
}

static od_status make_plan(void **out, void *ctx, const od_plan_request *r) {
  (void)ctx;
  od_arena *arena;
  OD_TRY(od_arena_new(&arena));
  plan *p = od_arena_alloc(arena, sizeof *p);
  od_status st = p ? OD_OK : OD_ENOMEM;
  if (p) {
    p->r = *r;
    p->arena = arena;
    st = make_steps(p);
    if (st == OD_OK) st = plan_buffers(p);
  }
  if (st != OD_OK)
    od_arena_free(arena);
  else
    *out = p;
  return st;
}

/* Points the sources and feeds at their data. */
static void bind_sources(plan *p, const od_tensor *feeds) {
  for (size_t i = 0; i < p->r.n_ids; i++) {
    const od_node *node = od_graph_node(p->r.graph, i);
    if (!p->values[i] || !(node->op->flags & OD_OP_SOURCE)) continue;
    if (strcmp(node->op->name, "const") == 0)
      p->values[i][0].data = ((const od_const_params *)node->params)->value.data;
    if (strcmp(node->op->name, "variable") == 0)
      p->values[i][0] = *od_state_tensor(p->r.state, ((const od_variable_params *)node->params)->name);
  }
  for (int k = 0; k < p->r.n_feeds; k++)
    if (p->values[p->r.feeds[k].node->id]) p->values[p->r.feeds[k].node->id][p->r.feeds[k].out] = feeds[k];
}

static bool is_fed(const plan *p, const od_node *node, int out) {
  for (int k = 0; k < p->r.n_feeds; k++)
    if (p->r.feeds[k].node == node && p->r.feeds[k].out == out) return true;
  return false;
}

static od_status run_step(plan *p, context *c, step *s, od_key key) {
  const od_node *node = s->node;
  enum { OUTPUTS_MAX = 16 };
  od_tensor out[OUTPUTS_MAX]; /* as computed; where an output is fed, the computed one is dropped */
  OD_ASSERT(node->op->n_out <= OUTPUTS_MAX);
  for (int k = 0; k < node->n_in; k++)
    s->in[k] = od_has(node->in[k]) ? p->values[node->in[k].node->id][node->in[k].out] : (od_tensor){0};
  for (int k = 0; k < node->op->n_out; k++) {
    out[k] = (od_tensor){p->r.types[node->id][k].dtype, p->r.types[node->id][k].shape, c->buffer + s->out_at[k]};
    if (!is_fed(p, node, k)) s->out[k] = out[k];
  }
  od_call call = {node->params,           node->n_in, node->op->n_out, s->in, out, c->buffer + s->scratch_at,
                  od_key_mix(s->key, key)};
  return od_fail_context(node->op->ref(&call), "%s (%s)", node->name, node->op->name);
}

static od_status run(void *ctx, void *plan_, const od_tensor *feeds, od_tensor *fetches, od_key key, bool profile) {
  context *c = ctx;
  plan *p = plan_;
  if (!c->buffer || c->size < p->total) { /* a plan without bytes gets a buffer too: pointers into nothing are no pointers */
    od_free(c->buffer);
    c->buffer = od_alloc(p->total);
    c->size = c->buffer ? p->total : 0;
    if (!c->buffer) return OD_ENOMEM;
  }
  bind_sources(p, feeds);
  if (profile) p->runs++;
  for (size_t i = 0; i < p->r.n_nodes; i++) {
    double t = profile ? od_now() : 0;
    OD_TRY(run_step(p, c, &p->steps[i], key));
    if (p->steps[i].node == p->r.guard.node)
      OD_TRY(od_check_guard(p->r.guard.node, p->steps[i].out[p->r.guard.out].data));
    if (profile) p->profile[i].seconds += (od_now() - t - p->profile[i].seconds) / (double)p->runs;
  }
  for (int k = 0; k < p->r.n_fetches; k++)
    fetches[k] = od_has(p->r.fetches[k]) ? p->values[p->r.fetches[k].node->id][p->r.fetches[k].out] : (od_tensor){0};
  for (size_t k = 0; k < p->r.n_updates; k++) {
    const od_value v = p->r.updates[k]->value;
    od_tensor *to = od_state_at(p->r.state, p->r.updates[k]->var->index);
    const void *from = p->values[v.node->id][v.out].data;
    if (from != to->data) memcpy(to->data, from, od_tensor_bytes(to));
  }
  return OD_OK;
}

static size_t memory_of(const void *p) { return ((const plan *)p)->total; }
static od_plan_profile profile_of(const void *p) {
  return (od_plan_profile){((const plan *)p)->profile, ((const plan *)p)->r.n_nodes};
}
static void clear_profile(void *plan_) {
  plan *p = plan_;
  p->runs = 0;
  for (size_t i = 0; i < p->r.n_nodes; i++) p->profile[i].seconds = 0;
}

const od_backend od_backend_ref = {
    .name = "ref",
    .open = open_ref,
    .close = close_ref,
    .plan = make_plan,
    .free_plan = free_plan,
    .memory = memory_of,
    .run = run,
    .profile = profile_of,
    .clear_profile = clear_profile,
};
