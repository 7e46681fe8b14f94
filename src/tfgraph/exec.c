/* Running a plan. A frame's steps run in their fixed order, once an iteration; a value is dropped when its last reader of the
 * iteration has run. Dead values (the branch a Switch did not take) make their readers dead; a Merge passes the living one
 * on. A loop is a step of the frame around it: it goes round until no NextIteration gives a living value. */
#include <stdio.h>
#include <string.h>

#include "base/report.h"
#include "engine/denormals.h"
#include "tfgraph/kernel.h"

static bool is(const tg_node *n, const char *op) { return strcmp(n->op, op) == 0; }

/* Reads an edge: a constant is made, anything else is shared. */
static od_status read_edge(od_tfgraph *g, const tg_edge *e, tg_value *out) {
  tg_node *n = e->node;
  if (n->source && !n->fed) return tg_constant(g, n, out);
  *out = tg_value_share(&n->out[e->out]);
  return OD_OK;
}

/* The reader has run: its inputs may go. */
static void release_edge(od_tfgraph *g, const tg_edge *e) {
  tg_node *n = e->node;
  if (e->out < 0 || (n->source && !n->fed)) return;
  if (--n->uses[e->out] <= 0) tg_value_drop(g, &n->out[e->out]);
}

/* Outputs are there: counts their readers; what nobody reads goes at once. */
static void publish(od_tfgraph *g, tg_node *n) {
  for (int i = 0; i < n->n_out; i++) {
    n->uses[i] = n->total_uses[i];
    if (!n->uses[i]) tg_value_drop(g, &n->out[i]);
  }
}

static bool dead_edge(const tg_edge *e) {
  if (e->out < 0) return e->node->dead;
  return !(e->node->source && !e->node->fed) && e->node->out[e->out].dead;
}

static void set_dead(od_tfgraph *g, tg_node *n) {
  for (int i = 0; i < n->n_out; i++) {
    tg_value_drop(g, &n->out[i]);
    n->out[i].dead = true;
  }
  n->dead = true;
}

static od_status check_types(const tg_node *n, tg_value *const *v, int count, const int *types, const char *what) {
  for (int i = 0; i < count; i++) {
    int have = tg_value_type(v[i]);
    if (v[i]->dead || have == types[i]) continue;
    od_dtype a, b;
    const char *have_name = od_dtype_from_tf(&a, have) ? od_dtype_name(a) : "a resource";
    const char *want_name = od_dtype_from_tf(&b, types[i]) ? od_dtype_name(b) : "another type";
    return od_fail(OD_EDATA, "node %s (%s): %s %d is %s, its attributes say %s", n->name, n->op, what, i, have_name,
                   want_name);
  }
  return OD_OK;
}

/* Big constants stay lazy on their way to where they are used. */
static bool takes_lazy(const tg_node *n, int i) {
  return n->kernel->run == tg_identity || (n->kernel->run == tg_convolution && i == 1);
}

static od_status run_kernel(od_tfgraph *g, tg_node *n) {
  tg_value few[8], *values = few;
  tg_value *few_in[8], **in = few_in;
  od_status st = OD_OK;
  int made = 0;
  size_t count = (size_t)n->n_data + 1;
  if (n->n_data > 8) {
    OD_TRY(od_new(&values, count, sizeof *values));
    st = od_new(&in, count, sizeof *in);
    if (st != OD_OK) in = NULL;
  }
  tg_call c = {g, n, n->kernel, n->n_data, n->n_out, in, n->out};
  for (; st == OD_OK && made < n->n_data; made++) {
    in[made] = &values[made];
    st = read_edge(g, &n->in[made], &values[made]);
    if (st != OD_OK) break;
    if (!takes_lazy(n, made)) st = tg_materialize(g, &values[made]);
    if (st == OD_OK) st = tg_charge_value(g, &values[made]);
  }
  if (st == OD_OK) st = check_types(n, in, n->n_data, n->in_types, "input");
  /* before it runs, the inputs' own references go where this is the last reader, so that a kernel sees who owns alone */
  if (st == OD_OK)
    for (int i = 0; i < n->n_in; i++) release_edge(g, &n->in[i]);
  if (st == OD_OK) st = n->passes ? tg_share_out(&c, 0, 0, NULL) : n->kernel->run(&c);
  if (st == OD_OK) {
    tg_value *outs[TG_MAX_OUT];
    for (int i = 0; i < n->n_out; i++) outs[i] = &n->out[i];
    st = check_types(n, outs, n->n_out, n->out_types, "output");
    for (int i = 0; i < n->n_out && st == OD_OK; i++)
      if (n->out_types[i] == TG_STRING) st = tg_charge_value(g, &n->out[i]);
  }
  for (int i = 0; i < made; i++) tg_value_drop(g, &values[i]);
  if (values != few) od_free(values);
  if (in != few_in) od_free(in);
  n->dead = false;
  return st;
}

/* The one living input; in a loop's later rounds what NextIteration gave. */
static od_status run_merge(od_tfgraph *g, tg_node *n) {
  tg_frame *f = &g->plan.frames[n->frame];
  tg_value v = {.dead = true};
  int from = 0;
  size_t loop = 0;
  while (loop < f->n_merges && f->merges[loop] != n) loop++;
  if (loop < f->n_merges && f->round > 0) {
    v = f->carried[loop];
    f->carried[loop] = (tg_value){.dead = true};
    for (int i = 0; i < n->n_data; i++)
      if (is(n->in[i].node, "NextIteration")) from = i;
    for (int i = 0; i < n->n_in; i++)
      if (!(n->in[i].out >= 0 && is(n->in[i].node, "NextIteration"))) release_edge(g, &n->in[i]);
  } else {
    for (int i = 0; i < n->n_data; i++) {
      if (n->in[i].out >= 0 && is(n->in[i].node, "NextIteration")) continue;
      if (v.dead && !dead_edge(&n->in[i])) {
        OD_TRY(read_edge(g, &n->in[i], &v));
        from = i;
      }
      release_edge(g, &n->in[i]);
    }
  }
  if (v.dead) {
    set_dead(g, n);
    return OD_OK;
  }
  n->dead = false;
  n->out[0] = v;
  if (tg_value_type(&v) != n->out_types[0])
    return od_fail(OD_EDATA, "node %s (Merge): a value of another type than its attribute T", n->name);
  OD_TRY(tg_value_new(g, &n->out[1], OD_I32, &OD_SCALAR));
  *(int32_t *)n->out[1].t.data = from;
  return OD_OK;
}

static od_status run_node(od_tfgraph *g, tg_node *n) {
  for (int i = 0; i < n->n_out; i++) tg_value_drop(g, &n->out[i]);
  OD_TRY(tg_charge(g, n->n_in + n->n_out + 1, 1));
  if (is(n, "Merge")) {
    OD_TRY(run_merge(g, n));
    publish(g, n);
    return OD_OK;
  }
  bool dead = false;
  for (int i = 0; i < n->n_in; i++) dead |= dead_edge(&n->in[i]);
  if (dead) {
    for (int i = 0; i < n->n_in; i++) release_edge(g, &n->in[i]);
    set_dead(g, n);
  } else {
    OD_TRY(run_kernel(g, n));
  }
  if (!is(n, "Exit") && !is(n, "NextIteration")) publish(g, n); /* those two are read at the end of the round */
  return OD_OK;
}

static od_status run_frame(od_tfgraph *g, int index);

static od_status run_steps(od_tfgraph *g, tg_frame *f) {
  for (size_t i = 0; i < f->n_steps; i++) {
    if (f->steps[i].node)
      OD_TRY(run_node(g, f->steps[i].node));
    else
      OD_TRY(run_frame(g, f->steps[i].frame));
  }
  return OD_OK;
}

/* The Enters' outputs for this round. */
static void begin_round(od_tfgraph *g, tg_frame *f) {
  for (size_t i = 0; i < f->n_enters; i++) {
    tg_node *n = f->enters[i];
    tg_value_drop(g, &n->out[0]);
    if (f->round == 0 || tg_attr_bool(n, "is_constant", false))
      n->out[0] = tg_value_share(&f->entered[i]);
    else
      n->out[0].dead = true;
    n->dead = n->out[0].dead;
    publish(g, n);
  }
}

/* Takes the Exits' values and what NextIteration gives; whether there is another round. */
static od_status end_round(od_tfgraph *g, tg_frame *f, bool *more) {
  size_t living = 0;
  for (size_t i = 0; i < f->n_exits; i++) {
    tg_value *v = &f->exits[i]->out[0];
    if (v->dead) continue;
    tg_value_drop(g, &f->left[i]);
    f->left[i] = *v;
    *v = (tg_value){0};
  }
  for (size_t i = 0; i < f->n_merges; i++) {
    tg_node *m = f->merges[i];
    for (int k = 0; k < m->n_data; k++) {
      if (!is(m->in[k].node, "NextIteration")) continue;
      tg_value_drop(g, &f->carried[i]);
      f->carried[i] = tg_value_share(&m->in[k].node->out[0]);
      living += !f->carried[i].dead;
    }
  }
  if (living != 0 && living != f->n_merges)
    return od_fail(OD_EDATA, "loop %s: %zu of its %zu variables go on and the others do not", f->name, living,
                   f->n_merges);
  *more = living > 0;
  return OD_OK;
}

static od_status run_rounds(od_tfgraph *g, tg_frame *f) {
  bool more = true;
  for (f->round = 0; more; f->round++) {
    if (f->round == g->max_rounds)
      return od_fail(OD_EDATA, "loop %s does not end (%lld rounds)", f->name, (long long)f->round);
    if ((f->round & 1023) == 1023) OD_TRY(od_stop_check());
    begin_round(g, f);
    OD_TRY(run_steps(g, f));
    OD_TRY(end_round(g, f, &more));
  }
  return OD_OK;
}

static od_status run_frame(od_tfgraph *g, int index) {
  tg_frame *f = &g->plan.frames[index];
  bool dead = false;
  for (size_t i = 0; i < f->n_enters; i++) {
    tg_node *n = f->enters[i];
    for (int k = 0; k < n->n_in; k++) dead |= dead_edge(&n->in[k]);
    tg_value_drop(g, &f->entered[i]);
    OD_TRY(read_edge(g, &n->in[0], &f->entered[i]));
    tg_value *v = &f->entered[i];
    OD_TRY(check_types(n, &v, 1, n->in_types, "input"));
  }
  for (size_t i = 0; i < f->n_outside; i++) release_edge(g, &f->outside[i]);
  for (size_t i = 0; i < f->n_exits; i++) {
    tg_value_drop(g, &f->left[i]);
    f->left[i].dead = true;
  }
  if (!dead) OD_TRY(run_rounds(g, f));
  for (size_t i = 0; i < f->n_enters; i++) tg_value_drop(g, &f->entered[i]);
  for (size_t i = 0; i < f->n_merges; i++) tg_value_drop(g, &f->carried[i]);
  for (size_t i = 0; i < f->n_exits; i++) {
    tg_node *n = f->exits[i];
    tg_value_drop(g, &n->out[0]);
    n->out[0] = f->left[i];
    f->left[i] = (tg_value){0};
    n->dead = n->out[0].dead;
    publish(g, n);
  }
  return OD_OK;
}

static void drop_all(od_tfgraph *g) {
  for (size_t i = 0; i < g->plan.n_nodes; i++) {
    tg_node *n = g->plan.nodes[i];
    for (int k = 0; n->out && k < n->n_out; k++) tg_value_drop(g, &n->out[k]);
  }
  for (size_t i = 0; i < g->plan.n_frames; i++) {
    tg_frame *f = &g->plan.frames[i];
    for (size_t k = 0; f->entered && k < f->n_enters; k++) tg_value_drop(g, &f->entered[k]);
    for (size_t k = 0; f->carried && k < f->n_merges; k++) tg_value_drop(g, &f->carried[k]);
    for (size_t k = 0; f->left && k < f->n_exits; k++) tg_value_drop(g, &f->left[k]);
  }
}

static od_status feed(od_tfgraph *g, const od_tfgraph_feed *f) {
  tg_node *n = tg_find(g, f->tensor).node;
  if (!od_shape_known(&f->value.shape))
    return od_fail(OD_EINVAL, "'%s' is fed with a tensor of unknown shape", f->tensor);
  int64_t cells;
  OD_TRY(tg_cells(&cells, &f->value.shape));
  if (!is(n, "Placeholder")) goto give;
  od_shape want;
  int type = tg_attr_type(n, "dtype");
  od_dtype dtype;
  if (type != od_dtype_tf(f->value.dtype))
    return od_fail(OD_EINVAL, "'%s' is fed with %s, the placeholder takes %s", f->tensor, od_dtype_name(f->value.dtype),
                   od_dtype_from_tf(&dtype, type) ? od_dtype_name(dtype) : "another type");
  if (tg_attr_shape(n, "shape", &want) && want.rank >= 0) {
    bool fits = want.rank == f->value.shape.rank;
    for (int i = 0; fits && i < want.rank; i++) fits = want.dim[i] < 0 || want.dim[i] == f->value.shape.dim[i];
    char a[OD_SHAPE_TEXT], b[OD_SHAPE_TEXT];
    /* files of old TensorFlow say rank 0 for "unknown" */
    if (!fits && want.rank > 0)
      return od_fail(OD_EINVAL, "'%s' is fed with a tensor %s, the placeholder takes %s", f->tensor,
                     od_shape_text(a, &f->value.shape), od_shape_text(b, &want));
  }
give:
  n->out[0] = (tg_value){.t = f->value};
  n->dead = false;
  publish(g, n);
  return OD_OK;
}

static od_status give_fetch(od_tfgraph *g, const tg_edge *e, od_tensor *out) {
  tg_value v;
  OD_TRY(read_edge(g, e, &v));
  od_status st = tg_materialize(g, &v);
  if (st != OD_OK)
    ;
  else if (v.dead)
    st = od_fail(OD_EDATA, "%s (%s) was not computed: it is of a branch not taken", e->node->name, e->node->op);
  else if (v.array)
    st = od_fail(OD_EINVAL, "%s (%s) is a resource and cannot be fetched", e->node->name, e->node->op);
  else
    st = od_tensor_copy(out, &v.t);
  tg_value_drop(g, &v);
  release_edge(g, e);
  return st;
}

od_status od_tfgraph_run(od_tfgraph *g, const od_tfgraph_feed *feeds, int n_feeds, const char *const *fetches,
                         int n_fetches, od_tensor *fetched) {
  od_status st;
  int given = 0;
  for (int i = 0; i < n_fetches; i++) fetched[i] = (od_tensor){0};
  OD_TRY(od_fail_context(tg_make_plan(g, feeds, n_feeds, fetches, n_fetches), "%s", g->path));
  const uint64_t before = od_denormals_flush();
  g->work = 0;
  for (int i = 0; i < n_feeds; i++) OD_GO(st, feed(g, &feeds[i]));
  OD_GO(st, run_steps(g, &g->plan.frames[0]));
  for (; given < n_fetches; given++) OD_GO(st, give_fetch(g, &g->plan.fetches[given], &fetched[given]));
done:
  od_denormals_keep(before);
  drop_all(g);
  if (st != OD_OK)
    for (int i = 0; i < given; i++) od_tensor_free(&fetched[i]);
  return od_fail_context(st, "%s", g->path);
}
