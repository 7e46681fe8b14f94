/* Programs: pruning, concrete shapes, the cache of plans; see program.h. */
#include "engine/program.h"

#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/parallel.h"
#include "engine/backend.h"
#include "engine/denormals.h"

enum { THREADS_MAX = 4096 };

struct od_engine {
  od_engine_options options;
  const od_backend *backend;
  void *ctx;
};

/* A plan with everything its request points to. */
typedef struct plan_entry {
  struct plan_entry *next; /* most recently used first */
  od_arena *arena;
  od_plan_request request;
  void *plan;
  int users;         /* threads that hold it now: it may not be evicted */
  uint64_t profiled; /* the profile that its times belong to */
} plan_entry;

struct od_program {
  od_engine *engine;
  od_arena *arena;
  const od_graph *graph;
  od_state *state;
  od_value *feeds, *fetches;
  int n_feeds, n_fetches;
  od_shape *shapes;      /* of the feeds of a run: room for all, so that running allocates nothing */
  size_t n_ids;          /* nodes of the graph when the program was made; it may grow */
  const od_node **nodes; /* needed ones that are computed, in order */
  size_t n_nodes;
  bool *needed; /* by node id: its value is used (sources and fed ones too) */
  const od_update_entry **updates;
  size_t n_updates;
  od_value guard;
  od_key key;
  bool profiling;
  uint64_t profile;     /* how many times profiling was switched on */
  pthread_mutex_t lock; /* guards the list of plans, their users and last */
  plan_entry *plans;
  int n_plans;
  atomic_uint_fast64_t evicted; /* how many plans had to go */
  plan_entry *last; /* ran last: for profile questions */
};

static const od_backend *const backends[] = {&od_backend_cpu, &od_backend_ref};

od_status od_engine_new(od_engine **out, const od_engine_options *options) {
  od_engine_options o = options ? *options : (od_engine_options){0};
  if (!o.name) o.name = "cpu";
  if (o.threads <= 0) o.threads = od_cpu_count();
  if (o.plan_cache <= 0) o.plan_cache = 16;
  if (o.threads > THREADS_MAX)
    return od_fail(OD_EINVAL, "%d compute threads; at most %d are supported", o.threads, THREADS_MAX);
  const od_backend *b = NULL;
  for (size_t i = 0; i < sizeof backends / sizeof *backends; i++)
    if (strcmp(backends[i]->name, o.name) == 0) b = backends[i];
  if (!b) return od_fail(OD_EUNSUPPORTED, "there is no engine named '%s'; there are cpu and ref", o.name);
  od_engine *e;
  OD_TRY(od_new(&e, 1, sizeof *e));
  e->options = o;
  e->options.name = b->name;
  e->backend = b;
  od_status st = b->open(&e->ctx, &e->options);
  if (st != OD_OK)
    od_free(e);
  else
    *out = e;
  return st;
}

void od_engine_free(od_engine *e) {
  if (!e) return;
  e->backend->close(e->ctx);
  od_free(e);
}

const od_engine_options *od_engine_get_options(const od_engine *e) { return &e->options; }

/* ------------------------------------------------------------------------------------------------------------ pruning */
/* Index of the feed that provides this value, or -1. */
static int feed_of(const od_program *p, od_value v) {
  for (int i = 0; i < p->n_feeds; i++)
    if (od_same(p->feeds[i], v)) return i;
  return -1;
}

static bool is_source(const od_node *n) { return (n->op->flags & OD_OP_SOURCE) != 0; }

/* Marks nodes whose computation is wanted, walking back from the last; fed values stop the walk. */
static void want(od_program *p, bool *computed, od_value v) {
  if (!od_has(v)) return;
  p->needed[v.node->id] = true;
  if (feed_of(p, v) < 0) computed[v.node->id] = true;
}

static od_status prune(od_program *p, const od_program_spec *spec) {
  size_t n = p->n_ids;
  bool *computed = od_arena_alloc(p->arena, n + 1);
  p->needed = od_arena_alloc(p->arena, n + 1);
  p->nodes = od_arena_alloc(p->arena, sizeof *p->nodes * (n + 1));
  p->updates = od_arena_alloc(p->arena, sizeof *p->updates * (od_graph_updates(p->graph) + 1));
  if (!computed || !p->needed || !p->nodes || !p->updates) return OD_ENOMEM;
  for (size_t i = 0; i < od_graph_updates(p->graph); i++) {
    const od_update_entry *u = od_graph_update(p->graph, i);
    bool chosen = false;
    for (int k = 0; k < spec->n_update_groups; k++) chosen = chosen || strcmp(spec->update_groups[k], u->group) == 0;
    if (!chosen) continue;
    p->updates[p->n_updates++] = u;
    want(p, computed, u->value);
  }
  for (int i = 0; i < p->n_fetches; i++) want(p, computed, p->fetches[i]);
  want(p, computed, p->guard);
  for (size_t i = n; i-- > 0;) {
    const od_node *node = od_graph_node(p->graph, i);
    if (!computed[i] || is_source(node)) continue;
    for (int k = 0; k < node->n_in; k++) want(p, computed, node->in[k]);
  }
  for (size_t i = 0; i < n; i++) {
    const od_node *node = od_graph_node(p->graph, i);
    if (!computed[i]) continue;
    if (!is_source(node)) {
      p->nodes[p->n_nodes++] = node;
    } else if (strcmp(node->op->name, "input") == 0) {
      return od_fail(OD_EINVAL, "input '%s' is needed and not fed", node->name);
    } else if (strcmp(node->op->name, "variable") == 0 && !p->state) {
      return od_fail(OD_EINVAL, "variable '%s' is needed and there is no state", node->name);
    }
  }
  if (p->n_updates && !p->state)
    return od_fail(OD_EINVAL, "the program updates %s and there is no state", p->updates[0]->var->name);
  return OD_OK;
}

static od_status check_feeds(const od_program *p) {
  for (int i = 0; i < p->n_feeds; i++) {
    if (!od_has(p->feeds[i])) return od_fail(OD_EINVAL, "feed %d of the program is absent", i);
    if (feed_of(p, p->feeds[i]) < i) return od_fail(OD_EINVAL, "%s is fed twice", p->feeds[i].node->name);
  }
  return OD_OK;
}

/* The variable whose memory a value is (itself, or a view of it), NULL for values that are computed or fed. */
static const od_variable *variable_behind(const od_program *p, od_value v) {
  while ((v.node->op->flags & OD_OP_VIEW) && v.out == 0 && feed_of(p, v) < 0) v = v.node->in[0];
  return feed_of(p, v) < 0 ? od_variable_of(p->graph, v) : NULL;
}

static bool read_by_others(const od_program *p, const od_variable *const *reads, size_t k) {
  for (size_t i = k; i < p->n_updates; i++)
    if (i != k && reads[i] == p->updates[k]->var && p->updates[i]->var != reads[i]) return true;
  return false;
}

/* New values are copied into the state one after the other at the end of a run. An update that copies another variable as it
 * was must come before that one changes. */
static od_status order_updates(od_program *p) {
  const od_variable **reads = od_arena_alloc(p->arena, sizeof *reads * (p->n_updates + 1));
  size_t some = 0;
  if (!reads) return OD_ENOMEM;
  for (size_t i = 0; i < p->n_updates; i++) some += (reads[i] = variable_behind(p, p->updates[i]->value)) != NULL;
  for (size_t k = 0; some && k < p->n_updates; k++) {
    size_t from = k;
    for (; from < p->n_updates; from++) { /* the first that nobody behind k wants to read */
      const od_update_entry *u = p->updates[from];
      const od_variable *r = reads[from];
      p->updates[from] = p->updates[k], reads[from] = reads[k];
      p->updates[k] = u, reads[k] = r;
      if (!read_by_others(p, reads, k)) break;
    }
    if (from == p->n_updates)
      return od_fail(OD_EUNSUPPORTED, "the updates of %s and others hand their values round in a circle",
                     p->updates[k]->var->name);
  }
  return OD_OK;
}

static od_status copy_values(od_value **out, od_arena *arena, const od_value *v, int n) {
  *out = od_arena_alloc(arena, sizeof *v * (size_t)(n + 1));
  if (!*out) return OD_ENOMEM;
  if (n) memcpy(*out, v, sizeof *v * (size_t)n);
  return OD_OK;
}

od_status od_program_new(od_program **out, od_engine *e, const od_program_spec *spec) {
  OD_TRY(od_graph_check(spec->graph));
  od_program *p;
  od_status st;
  OD_TRY(od_new(&p, 1, sizeof *p));
  p->engine = e;
  p->graph = spec->graph;
  p->state = spec->state;
  p->n_feeds = spec->n_feeds;
  p->n_fetches = spec->n_fetches;
  p->guard = spec->guard;
  p->n_ids = od_graph_size(spec->graph);
  OD_ASSERT(!spec->state || od_state_graph(spec->state) == spec->graph);
  pthread_mutex_init(&p->lock, NULL);
  OD_GO(st, od_arena_new(&p->arena));
  OD_GO(st, copy_values(&p->feeds, p->arena, spec->feeds, spec->n_feeds));
  OD_GO(st, copy_values(&p->fetches, p->arena, spec->fetches, spec->n_fetches));
  p->shapes = od_arena_alloc(p->arena, sizeof *p->shapes * (size_t)(p->n_feeds + 1));
  if (!p->shapes) OD_GO(st, OD_ENOMEM);
  OD_GO(st, check_feeds(p));
  OD_GO(st, prune(p, spec));
  st = order_updates(p);
done:
  if (st != OD_OK)
    od_program_free(p);
  else
    *out = p;
  return st;
}

static void free_entry(od_program *p, plan_entry *e) {
  if (!e) return;
  if (e->plan) p->engine->backend->free_plan(p->engine->ctx, e->plan);
  od_arena_free(e->arena);
  od_free(e);
}

void od_program_free(od_program *p) {
  if (!p) return;
  while (p->plans) {
    plan_entry *e = p->plans;
    p->plans = e->next;
    free_entry(p, e);
  }
  pthread_mutex_destroy(&p->lock);
  od_arena_free(p->arena);
  od_free(p);
}

/* ----------------------------------------------------------------------------------------------------- concrete types */
od_status od_infer_node(od_type *out, const od_node *node, const od_type *in, const bool *present) {
  od_infer c = {node, node->params, node->n_in, node->op->n_out, in, present, out};
  OD_TRY(od_fail_context(node->op->infer(&c), "%s (%s)", node->name, node->op->name));
  for (int i = 0; i < node->op->n_out; i++) {
    char text[OD_SHAPE_TEXT];
    size_t bytes;
    if (!od_shape_known(&out[i].shape))
      return od_fail(OD_EINVAL, "%s (%s): the shape of output %d stays unknown: %s", node->name, node->op->name, i,
                     od_shape_text(text, &out[i].shape));
    OD_TRY(od_fail_context(od_shape_bytes(&bytes, &out[i].shape, out[i].dtype), "%s (%s)", node->name, node->op->name));
  }
  return OD_OK;
}

od_status od_check_guard(const od_node *node, const float *value) {
  if (isfinite(*value)) return OD_OK;
  return od_fail(OD_ENUMERIC, "%s is %g", node->name, (double)*value);
}

/* Does the fed shape fit the logical type? */
static od_status check_feed(const od_value v, const od_shape *shape) {
  od_type t = od_type_of(v);
  bool fits = t.shape.rank < 0 || t.shape.rank == shape->rank;
  for (int i = 0; fits && i < t.shape.rank; i++) fits = t.shape.dim[i] < 0 || t.shape.dim[i] == shape->dim[i];
  char a[OD_SHAPE_TEXT], b[OD_SHAPE_TEXT];
  if (fits && od_shape_known(shape)) return OD_OK;
  return od_fail(OD_EMISMATCH, "%s is fed with shape %s, it wants %s", v.node->name, od_shape_text(a, shape),
                 od_shape_text(b, &t.shape));
}

/* Types of all needed values: sources first, then node by node; fed outputs take the shape they are fed with. */
static od_status infer_all(const od_program *p, plan_entry *e, const od_shape *shapes) {
  size_t n = p->n_ids;
  od_type **types = od_arena_alloc(e->arena, sizeof *types * (n + 1));
  od_type *feed_types = od_arena_alloc(e->arena, sizeof *feed_types * (size_t)(p->n_feeds + 1));
  if (!types || !feed_types) return OD_ENOMEM;
  for (size_t i = 0; i < n; i++) {
    const od_node *node = od_graph_node(p->graph, i);
    if (!p->needed[i]) continue;
    types[i] = od_arena_alloc(e->arena, sizeof(od_type) * (size_t)node->op->n_out);
    if (!types[i]) return OD_ENOMEM;
    memcpy(types[i], node->out, sizeof(od_type) * (size_t)node->op->n_out);
  }
  for (int i = 0; i < p->n_feeds; i++) {
    OD_TRY(check_feed(p->feeds[i], &shapes[i]));
    feed_types[i] = (od_type){od_type_of(p->feeds[i]).dtype, shapes[i]};
    if (types[p->feeds[i].node->id]) types[p->feeds[i].node->id][p->feeds[i].out] = feed_types[i];
  }
  for (size_t i = 0; i < p->n_nodes; i++) {
    const od_node *node = p->nodes[i];
    od_type *in = od_arena_alloc(e->arena, sizeof *in * (size_t)(node->n_in + 1));
    bool *present = od_arena_alloc(e->arena, (size_t)node->n_in + 1);
    if (!in || !present) return OD_ENOMEM;
    for (int k = 0; k < node->n_in; k++) {
      present[k] = od_has(node->in[k]);
      in[k] = present[k] ? types[node->in[k].node->id][node->in[k].out] : od_type_of(OD_NONE);
    }
    OD_TRY(od_infer_node(types[node->id], node, in, present));
    for (int k = 0; k < p->n_feeds; k++) /* an output that is fed keeps the shape of the feed */
      if (p->feeds[k].node == node) types[node->id][p->feeds[k].out] = feed_types[k];
  }
  e->request = (od_plan_request){p->graph,   p->state,     p->n_nodes, p->nodes,   (const od_type *const *)types,
                                 p->feeds,   feed_types,   p->n_feeds, p->fetches, p->n_fetches,
                                 p->updates, p->n_updates, n,          p->guard};
  return OD_OK;
}

/* ---------------------------------------------------------------------------------------------------------- plan cache */
/* The plan of these shapes moved to the front of the list, or NULL. The lock is held. */
static plan_entry *look_up(od_program *p, const od_shape *shapes) {
  for (plan_entry **at = &p->plans; *at; at = &(*at)->next) {
    plan_entry *e = *at;
    bool same = true;
    for (int i = 0; same && i < p->n_feeds; i++) same = od_shape_equal(&e->request.feed_types[i].shape, &shapes[i]);
    if (!same) continue;
    *at = e->next;
    e->next = p->plans;
    p->plans = e;
    return e;
  }
  return NULL;
}

static od_status make(plan_entry **out, od_program *p, const od_shape *shapes) {
  plan_entry *e;
  OD_TRY(od_new(&e, 1, sizeof *e));
  od_status st;
  OD_GO(st, od_arena_new(&e->arena));
  OD_GO(st, infer_all(p, e, shapes));
  OD_GO(st, p->engine->backend->plan(&e->plan, p->engine->ctx, &e->request));
done:
  if (st != OD_OK)
    free_entry(p, e);
  else
    *out = e;
  return st;
}

/* Takes the least recently used plan out of a full list. Never one that a thread holds, nor the one that ran last: its fetches
 * and its profile may still be read. */
static plan_entry *evict(od_program *p) {
  if (p->n_plans <= p->engine->options.plan_cache) return NULL;
  plan_entry **victim = NULL;
  for (plan_entry **at = &p->plans; *at; at = &(*at)->next)
    if (*at != p->last && (*at)->users == 0) victim = at;
  if (!victim) return NULL;
  plan_entry *e = *victim;
  *victim = e->next;
  p->n_plans--;
  return e;
}

/* Plans are thousands of small pieces; between those that stay, the allocator keeps what the others left. Now and then that goes back
 * to the system: a quarter of a millisecond a plan. */
static void tidy(uint64_t evicted) {
  enum { EVERY = 16 };
#ifdef __GLIBC__
  if (evicted % EVERY == 0) malloc_trim(0);
#else
  (void)evicted;
#endif
}

/* The plan of these shapes, from the cache or made now; held until `release`. */
static od_status acquire(plan_entry **out, od_program *p, const od_shape *shapes) {
  pthread_mutex_lock(&p->lock);
  plan_entry *e = look_up(p, shapes);
  if (e) e->users++;
  pthread_mutex_unlock(&p->lock);
  if (!e) {
    OD_TRY(make(&e, p, shapes)); /* outside the lock: the running thread does not wait for another shape's plan */
    pthread_mutex_lock(&p->lock);
    plan_entry *other = look_up(p, shapes), *old = NULL; /* made by another thread meanwhile */
    if (!other) {
      e->next = p->plans;
      p->plans = e;
      p->n_plans++;
    }
    (other ? other : e)->users++;
    if (!other) old = evict(p);
    pthread_mutex_unlock(&p->lock);
    free_entry(p, other ? e : old);
    if (old) tidy(atomic_fetch_add(&p->evicted, 1) + 1);
    if (other) e = other;
  }
  *out = e;
  return OD_OK;
}

static void release(od_program *p, plan_entry *e) {
  pthread_mutex_lock(&p->lock);
  e->users--;
  pthread_mutex_unlock(&p->lock);
}

static void set_last(od_program *p, plan_entry *e) {
  pthread_mutex_lock(&p->lock);
  p->last = e;
  pthread_mutex_unlock(&p->lock);
}

od_status od_program_run(od_program *p, const od_tensor *feeds, od_tensor *fetches) {
  plan_entry *e;
  for (int i = 0; i < p->n_feeds; i++) {
    od_dtype wanted = od_type_of(p->feeds[i]).dtype;
    if (feeds[i].dtype != wanted)
      return od_fail(OD_EMISMATCH, "%s is fed with %s, it wants %s", p->feeds[i].node->name,
                     od_dtype_name(feeds[i].dtype), od_dtype_name(wanted));
    p->shapes[i] = feeds[i].shape;
  }
  OD_TRY(acquire(&e, p, p->shapes));
  set_last(p, e);
  if (p->profiling && e->profiled != p->profile) {
    e->profiled = p->profile;
    p->engine->backend->clear_profile(e->plan);
  }
  const uint64_t before = od_denormals_flush();
  od_status st = p->engine->backend->run(p->engine->ctx, e->plan, feeds, fetches, p->key, p->profiling);
  od_denormals_keep(before);
  if (p->n_updates) od_state_touch(p->state); /* after a failure too: some may have been computed in place */
  release(p, e);
  return st;
}

od_status od_program_prepare(od_program *p, const od_shape *feed_shapes) {
  plan_entry *e;
  OD_TRY(acquire(&e, p, feed_shapes));
  release(p, e);
  return OD_OK;
}

od_status od_program_memory(size_t *bytes, od_program *p, const od_shape *feed_shapes) {
  plan_entry *e;
  OD_TRY(acquire(&e, p, feed_shapes));
  *bytes = p->engine->backend->memory(e->plan);
  release(p, e);
  return OD_OK;
}

void od_program_set_key(od_program *p, od_key key) { p->key = key; }
void od_program_profile(od_program *p, bool on) {
  p->profiling = on;
  if (on) p->profile++;
}

const od_profile_step *od_program_profile_steps(const od_program *p, size_t *n) {
  od_plan_profile profile = {NULL, 0};
  if (p->last) profile = p->engine->backend->profile(p->last->plan);
  *n = profile.n;
  return profile.steps;
}

size_t od_program_fallbacks(const od_program *p) {
  size_t n, fallbacks = 0;
  const od_profile_step *s = od_program_profile_steps(p, &n);
  for (size_t i = 0; i < n; i++) fallbacks += s[i].fallback;
  return fallbacks;
}
