/* The order of a run. Depth first from the fetches, the edge NextIteration -> Merge left out, gives all nodes needed in a
 * topological order and with it the frame of each. Then each frame gets its own order, in which a loop inside it is one step
 * that waits for all its Enters: frames run as a structured program, one iteration after the other, and no queue is needed. */
#include <string.h>

#include "tfgraph/kernel.h"

static bool is(const tg_node *n, const char *op) { return strcmp(n->op, op) == 0; }

void tg_free_plan(od_tfgraph *g) {
  tg_plan *p = &g->plan;
  for (size_t i = 0; i < p->n_frames; i++) {
    tg_frame *f = &p->frames[i];
    od_free(f->steps);
    od_free(f->enters);
    od_free(f->exits);
    od_free(f->merges);
    od_free(f->outside);
    od_free(f->entered);
    od_free(f->carried);
    od_free(f->left);
  }
  od_free(p->frames);
  od_free(p->nodes);
  od_free(p->fetches);
  od_free(p->key);
  *p = (tg_plan){0};
  g->planned = false;
}

/* ----------------------------------------------------------------------------------------------------- nodes needed */
typedef struct {
  tg_node *node;
  int frame; /* second walk: the loop, when node is NULL */
  size_t next;
} stack_item;

typedef struct {
  stack_item *v;
  size_t n, cap;
} stack;

static od_status push(stack *s, tg_node *node, int frame) {
  OD_TRY(od_grow(&s->v, &s->cap, s->n + 1, sizeof *s->v));
  s->v[s->n++] = (stack_item){node, frame, 0};
  return OD_OK;
}

static bool back_edge(const tg_node *n, const tg_edge *e) {
  return is(n, "Merge") && e->out >= 0 && is(e->node, "NextIteration");
}

/* A Const that nothing holds in a frame is fetched by its readers when they run. */
static bool floating(const tg_node *n) { return n->is_const && n->n_in == 0; }

/* Frame in which a node's outputs live. */
static int out_frame(const tg_plan *p, const tg_node *n) {
  return is(n, "Exit") && !n->fed ? p->frames[n->frame].parent : n->frame;
}

static od_status new_frame(tg_plan *p, const char *name, int parent, int *out) {
  for (size_t i = 1; i < p->n_frames; i++) {
    if (p->frames[i].parent != parent || strcmp(p->frames[i].name, name) != 0) continue;
    *out = (int)i;
    return OD_OK;
  }
  OD_TRY(od_grow(&p->frames, &p->cap_frames, p->n_frames + 1, sizeof *p->frames));
  p->frames[p->n_frames] = (tg_frame){.name = name, .parent = parent};
  *out = (int)p->n_frames++;
  return OD_OK;
}

static od_status assign_frame(od_tfgraph *g, tg_node *n) {
  tg_plan *p = &g->plan;
  int frame = -1;
  for (int i = 0; i < n->n_in; i++) {
    if (back_edge(n, &n->in[i])) continue;
    int f = out_frame(p, n->in[i].node);
    if (frame >= 0 && f != frame)
      return od_fail(OD_EDATA, "node %s (%s) has inputs of two loops: %s is of %s, others of %s", n->name, n->op,
                     n->in_names[i], p->frames[f].name, p->frames[frame].name);
    frame = f;
  }
  if (frame < 0) frame = 0;
  n->frame = frame;
  if (is(n, "Exit") && frame == 0) return od_fail(OD_EDATA, "node %s (Exit) stands in no loop", n->name);
  if (is(n, "NextIteration") && frame == 0)
    return od_fail(OD_EDATA, "node %s (NextIteration) stands in no loop", n->name);
  if (!is(n, "Enter")) return OD_OK;
  od_view name = tg_attr_text(n, "frame_name");
  char *text = od_arena_alloc(g->arena, name.size + 1);
  if (!text) return OD_ENOMEM;
  if (name.size) memcpy(text, name.data, name.size);
  return new_frame(p, text, frame, &n->frame);
}

static od_status take_node(od_tfgraph *g, tg_node *n) {
  tg_plan *p = &g->plan;
  n->source = n->fed || floating(n);
  n->frame = 0;
  if (!n->fed) {
    OD_TRY(tg_bind_kernel(g, n));
    OD_TRY(assign_frame(g, n));
    if (is(n, "Placeholder")) return od_fail(OD_EINVAL, "node %s (Placeholder) must be fed", n->name);
  }
  OD_TRY(od_grow(&p->nodes, &p->cap_nodes, p->n_nodes + 1, sizeof *p->nodes));
  p->nodes[p->n_nodes++] = n;
  return OD_OK;
}

static od_status visit(od_tfgraph *g, stack *s, stack *later, tg_node *root) {
  if (root->mark) return OD_OK;
  root->mark = 1;
  OD_TRY(push(s, root, 0));
  while (s->n) {
    stack_item *top = &s->v[s->n - 1];
    tg_node *n = top->node;
    if (n->fed || top->next == (size_t)n->n_in) {
      OD_TRY(take_node(g, n));
      n->mark = 2;
      s->n--;
      continue;
    }
    const tg_edge *e = &n->in[top->next++];
    if (back_edge(n, e)) {
      OD_TRY(push(later, e->node, 0));
    } else if (e->node->mark == 1) {
      return od_fail(OD_EDATA, "node %s (%s) depends on itself through %s", e->node->name, e->node->op, n->name);
    } else if (e->node->mark == 0) {
      e->node->mark = 1;
      OD_TRY(push(s, e->node, 0));
    }
  }
  return OD_OK;
}

static od_status needed(od_tfgraph *g, stack *s, stack *later) {
  for (int i = 0; i < g->plan.n_fetches; i++) {
    OD_TRY(visit(g, s, later, g->plan.fetches[i].node));
    while (later->n) {
      tg_node *n = later->v[--later->n].node;
      OD_TRY(visit(g, s, later, n));
    }
  }
  return OD_OK;
}

/* ------------------------------------------------------------------------------------------------------------- frames */
static od_status add_node(tg_node ***list, size_t *n, size_t *cap, tg_node *node) {
  OD_TRY(od_grow(list, cap, *n + 1, sizeof **list));
  (*list)[(*n)++] = node;
  return OD_OK;
}

/* Lists a frame's members; checks the edges that the first walk left out, and that outputs exist. */
static od_status sort_members(od_tfgraph *g) {
  tg_plan *p = &g->plan;
  for (size_t i = 0; i < p->n_nodes; i++) {
    tg_node *n = p->nodes[i];
    if (n->fed) continue;
    for (int k = 0; k < n->n_in; k++) {
      const tg_edge *e = &n->in[k];
      if (e->out >= e->node->n_out)
        return od_fail(OD_EDATA, "node %s (%s) reads %s, but %s has %d outputs", n->name, n->op, n->in_names[k],
                       e->node->op, e->node->n_out);
      if (back_edge(n, e) && e->node->frame != n->frame)
        return od_fail(OD_EDATA, "node %s (Merge) is fed by %s of another loop", n->name, e->node->name);
      if (e->out >= 0 && !back_edge(n, e)) e->node->total_uses[e->out]++;
    }
    tg_frame *f = &p->frames[n->frame];
    if (is(n, "Enter")) {
      OD_TRY(add_node(&f->enters, &f->n_enters, &f->cap_enters, n));
      for (int k = 0; k < n->n_in; k++) {
        OD_TRY(od_grow(&f->outside, &f->cap_outside, f->n_outside + 1, sizeof *f->outside));
        f->outside[f->n_outside++] = n->in[k];
      }
    } else if (is(n, "Exit")) {
      OD_TRY(add_node(&f->exits, &f->n_exits, &f->cap_exits, n));
    } else if (is(n, "Merge")) {
      bool loop = false;
      for (int k = 0; k < n->n_data; k++) loop |= back_edge(n, &n->in[k]);
      if (loop && n->frame == 0)
        return od_fail(OD_EDATA, "node %s (Merge) closes a loop outside of any frame", n->name);
      if (loop) OD_TRY(add_node(&f->merges, &f->n_merges, &f->cap_merges, n));
    }
  }
  for (size_t i = 0; i < p->n_frames; i++) {
    tg_frame *f = &p->frames[i];
    OD_TRY(od_new(&f->entered, f->n_enters + 1, sizeof *f->entered));
    OD_TRY(od_new(&f->carried, f->n_merges + 1, sizeof *f->carried));
    OD_TRY(od_new(&f->left, f->n_exits + 1, sizeof *f->left));
    memset(f->entered, 0, (f->n_enters + 1) * sizeof *f->entered);
    memset(f->carried, 0, (f->n_merges + 1) * sizeof *f->carried);
    memset(f->left, 0, (f->n_exits + 1) * sizeof *f->left);
  }
  return OD_OK;
}

static od_status add_step(tg_frame *f, tg_node *node, int frame) {
  OD_TRY(od_grow(&f->steps, &f->cap_steps, f->n_steps + 1, sizeof *f->steps));
  f->steps[f->n_steps++] = (tg_step){node, frame};
  return OD_OK;
}

/* The unit of frame f that must have run before an edge can be read: a node, a loop inside f (frame > 0), or none. */
static void unit_of(const tg_plan *p, const tg_edge *e, int f, tg_node **node, int *frame) {
  *node = NULL;
  *frame = -1;
  if (e->node->source) return;
  if (is(e->node, "Exit") && p->frames[e->node->frame].parent == f)
    *frame = e->node->frame;
  else if (!is(e->node, "Enter"))
    *node = e->node;
}

enum { DONE = 4, OPEN = 3 };

/* Orders the steps of frame f, starting from one of its nodes or loops. */
static od_status order(od_tfgraph *g, stack *s, int f, tg_node *node, int frame) {
  tg_plan *p = &g->plan;
  int *mark = node ? &node->mark : &p->frames[frame].mark;
  if (*mark >= OPEN) return OD_OK;
  *mark = OPEN;
  OD_TRY(push(s, node, frame));
  while (s->n) {
    stack_item *top = &s->v[s->n - 1];
    const tg_edge *in = top->node ? top->node->in : p->frames[top->frame].outside;
    size_t n_in = top->node ? (size_t)top->node->n_in : p->frames[top->frame].n_outside;
    if (top->next == n_in) {
      *(top->node ? &top->node->mark : &p->frames[top->frame].mark) = DONE;
      OD_TRY(add_step(&p->frames[f], top->node, top->frame));
      s->n--;
      continue;
    }
    const tg_edge *e = &in[top->next++];
    if (top->node && back_edge(top->node, e)) continue;
    unit_of(p, e, f, &node, &frame);
    if (!node && frame < 0) continue;
    mark = node ? &node->mark : &p->frames[frame].mark;
    if (*mark == OPEN)
      return od_fail(OD_EDATA, "loop %s needs a value of its own result",
                     frame >= 0 ? p->frames[frame].name : p->frames[f].name);
    if (*mark == DONE) continue;
    *mark = OPEN;
    OD_TRY(push(s, node, frame));
  }
  return OD_OK;
}

static od_status order_frames(od_tfgraph *g, stack *s) {
  tg_plan *p = &g->plan;
  for (size_t i = 0; i < p->n_nodes; i++) {
    tg_node *n = p->nodes[i];
    if (n->source) continue;
    if (is(n, "Enter"))
      OD_TRY(order(g, s, p->frames[n->frame].parent, NULL, n->frame));
    else
      OD_TRY(order(g, s, n->frame, n, -1));
  }
  return OD_OK;
}

/* --------------------------------------------------------------------------------------------------------------- plan */
static od_status plan_key(od_str *out, const od_tfgraph_feed *feeds, int n_feeds, const char *const *fetches,
                          int n_fetches) {
  for (int i = 0; i < n_feeds; i++) od_str_addf(out, "%s\n", feeds[i].tensor);
  od_str_add(out, "->\n");
  for (int i = 0; i < n_fetches; i++) od_str_addf(out, "%s\n", fetches[i]);
  return od_str_check(out);
}

static od_status mark_feeds(od_tfgraph *g, const od_tfgraph_feed *feeds, int n_feeds) {
  for (int i = 0; i < n_feeds; i++) {
    tg_edge e = tg_find(g, feeds[i].tensor);
    if (!e.node || e.out < 0) return od_fail(OD_ENOENT, "the graph has no tensor '%s' to feed", feeds[i].tensor);
    if (e.out > 0) return od_fail(OD_EUNSUPPORTED, "'%s': only output 0 of a node can be fed", feeds[i].tensor);
    if (e.node->fed) return od_fail(OD_EINVAL, "'%s' is fed twice", feeds[i].tensor);
    e.node->fed = true;
    e.node->n_out = 1;
    if (!e.node->out) {
      e.node->out = od_arena_alloc(g->arena, sizeof *e.node->out);
      e.node->uses = od_arena_alloc(g->arena, sizeof *e.node->uses);
      e.node->total_uses = od_arena_alloc(g->arena, sizeof *e.node->total_uses);
    }
    if (!e.node->out || !e.node->uses || !e.node->total_uses) return OD_ENOMEM;
  }
  return OD_OK;
}

static od_status find_fetches(od_tfgraph *g, const char *const *fetches, int n) {
  OD_TRY(od_new(&g->plan.fetches, (size_t)n + 1, sizeof *g->plan.fetches));
  for (int i = 0; i < n; i++) {
    tg_edge e = tg_find(g, fetches[i]);
    if (!e.node || e.out < 0) return od_fail(OD_ENOENT, "the graph has no tensor '%s'", fetches[i]);
    g->plan.fetches[g->plan.n_fetches++] = e;
  }
  return OD_OK;
}

static od_status check_fetches(od_tfgraph *g) {
  for (int i = 0; i < g->plan.n_fetches; i++) {
    const tg_edge *e = &g->plan.fetches[i];
    if (e->out >= e->node->n_out)
      return od_fail(OD_ENOENT, "%s (%s) has %d outputs, output %d is asked for", e->node->name, e->node->op,
                     e->node->n_out, e->out);
    if (out_frame(&g->plan, e->node) != 0)
      return od_fail(OD_EINVAL, "%s stands inside a loop and cannot be fetched", e->node->name);
    e->node->total_uses[e->out]++;
  }
  return OD_OK;
}

od_status tg_make_plan(od_tfgraph *g, const od_tfgraph_feed *feeds, int n_feeds, const char *const *fetches,
                       int n_fetches) {
  od_str key = OD_STR_INIT;
  stack s = {0}, later = {0};
  od_status st;
  OD_GO(st, plan_key(&key, feeds, n_feeds, fetches, n_fetches));
  if (g->planned && strcmp(g->plan.key, key.data) == 0) goto done;
  tg_free_plan(g);
  for (size_t i = 0; i < g->n_nodes; i++) {
    tg_node *n = &g->nodes[i];
    if (n->fed) n->kernel = NULL; /* its list of outputs was that of a feed */
    n->mark = 0;
    n->fed = n->source = n->dead = false;
    od_single_op_free(n->kept); /* what it folds may be another now */
    n->kept = NULL;
    for (int k = 0; n->total_uses && k < n->n_out; k++) n->total_uses[k] = 0;
  }
  int root;
  OD_GO(st, od_grow(&g->plan.frames, &g->plan.cap_frames, 1, sizeof *g->plan.frames));
  OD_GO(st, new_frame(&g->plan, "the root", -1, &root));
  OD_GO(st, mark_feeds(g, feeds, n_feeds));
  OD_GO(st, find_fetches(g, fetches, n_fetches));
  OD_GO(st, needed(g, &s, &later));
  OD_GO(st, check_fetches(g));
  OD_GO(st, sort_members(g));
  OD_GO(st, order_frames(g, &s));
  tg_fuse(g);
  g->plan.key = od_str_take(&key);
  if (!g->plan.key) OD_GO(st, OD_ENOMEM);
  g->planned = true;
done:
  if (st != OD_OK) tg_free_plan(g);
  od_str_free(&key);
  od_free(s.v);
  od_free(later.v);
  return st;
}

static od_status check_edges(const tg_node *n) {
  for (int k = 0; k < n->n_in; k++) {
    const tg_edge *e = &n->in[k];
    if (e->out >= e->node->n_out)
      return od_fail(OD_EDATA, "node %s (%s) reads %s, but %s has %d outputs", n->name, n->op, n->in_names[k], e->node->op, e->node->n_out);
    if (e->out >= 0 && e->node->out_types[e->out] != n->in_types[k])
      return od_fail(OD_EDATA, "node %s (%s) reads %s, which has another type (%d) than its attributes say (%d)", n->name, n->op,
                     n->in_names[k], e->node->out_types[e->out], n->in_types[k]);
  }
  return OD_OK;
}

od_status od_tfgraph_check(od_tfgraph *g) {
  tg_free_plan(g); /* feeds of an earlier run are forgotten */
  for (size_t i = 0; i < g->n_nodes; i++) {
    tg_node *n = &g->nodes[i];
    if (n->fed) n->kernel = NULL;
    n->fed = false;
    OD_TRY(od_fail_context(tg_bind_kernel(g, n), "%s", g->path));
    od_dtype dtype;
    od_shape shape;
    if (!n->is_const) continue;
    OD_TRY(od_fail_context(od_tfgraph_constant_type(&dtype, &shape, g, i), "%s", g->path));
    if (n->out_types[0] != od_dtype_tf(dtype))
      return od_fail(OD_EDATA, "%s: node %s (Const): its attribute dtype is not its value's %s", g->path, n->name, od_dtype_name(dtype));
  }
  for (size_t i = 0; i < g->n_nodes; i++) OD_TRY(od_fail_context(check_edges(&g->nodes[i]), "%s", g->path));
  return OD_OK;
}
