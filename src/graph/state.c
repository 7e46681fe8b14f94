/* The state's tensors and their initial values; see state.h. */
#include "graph/state.h"

#include <stdatomic.h>
#include <string.h>

#include "base/parallel.h"

struct od_state {
  const od_graph *graph;
  od_tensor *tensors; /* by variable index */
  size_t n;
  atomic_uint_fast64_t version;
};

od_status od_state_new(od_state **out, const od_graph *g) {
  od_state *s;
  OD_TRY(od_new(&s, 1, sizeof *s));
  s->graph = g;
  s->n = od_graph_variables(g);
  atomic_init(&s->version, 1);
  od_status st = od_new(&s->tensors, s->n, sizeof *s->tensors);
  for (size_t i = 0; i < s->n && st == OD_OK; i++) {
    const od_variable *v = od_graph_variable(g, i);
    st = od_tensor_new(&s->tensors[i], v->dtype, &v->shape);
  }
  if (st != OD_OK) od_state_free(s);
  else *out = s;
  return st;
}

void od_state_free(od_state *s) {
  if (!s) return;
  for (size_t i = 0; s->tensors && i < s->n; i++) od_tensor_free(&s->tensors[i]);
  od_free(s->tensors);
  od_free(s);
}

/* Elements [begin, end) of a variable. */
static void draw(float *x, const od_init *init, od_key key, int64_t begin, int64_t end) {
  const bool normal = init->kind == OD_INIT_NORMAL, truncated = init->kind == OD_INIT_TRUNCATED_NORMAL;
  if (normal) od_rng_normals(x + begin, key, (uint64_t)begin, end - begin);
  if (truncated) od_rng_truncated_normals(x + begin, key, (uint64_t)begin, end - begin);
  for (int64_t k = begin; k < end; k++)
    x[k] = normal || truncated               ? init->a + init->b * x[k]
           : init->kind == OD_INIT_UNIFORM ? init->a + (init->b - init->a) * od_rng_f32(key, (uint64_t)k)
                                             : init->a;
}

/* Drawing is cut into blocks of a variable each: 60 million normals are two seconds of one processor. */
enum { BLOCK = 1 << 16 };
typedef struct {
  const od_state *s;
  od_key key;
} drawing;

static int64_t blocks_of(const od_tensor *t) { return (od_tensor_size(t) + BLOCK - 1) / BLOCK; }

static od_status draw_block(void *ctx, int64_t at) {
  const drawing *d = ctx;
  size_t i = 0;
  while (at >= blocks_of(&d->s->tensors[i])) at -= blocks_of(&d->s->tensors[i++]);
  const od_variable *v = od_graph_variable(d->s->graph, i);
  const od_key key = od_key_name(d->key, v->name);
  const int64_t n = od_tensor_size(&d->s->tensors[i]), begin = at * BLOCK, end = n - begin < BLOCK ? n : begin + BLOCK;
  if (v->dtype == OD_F32)
    draw(d->s->tensors[i].data, &v->init, key, begin, end);
  else if (at == 0)
    memset(d->s->tensors[i].data, 0, od_tensor_bytes(&d->s->tensors[i])); /* counters begin at 0 */
  return OD_OK;
}

void od_state_draw(od_state *s, uint64_t seed, int threads) {
  drawing d = {s, od_key_mix(0x696e6974u, seed)}; /* "init": apart from all other draws */
  int64_t n = 0;
  for (size_t i = 0; i < s->n; i++) n += blocks_of(&s->tensors[i]);
  if (od_parallel_for(n, threads, draw_block, &d) != OD_OK) /* no memory for threads */
    for (int64_t i = 0; i < n; i++) (void)draw_block(&d, i);
  od_state_touch(s);
}

void od_state_init(od_state *s, uint64_t seed) { od_state_draw(s, seed, 0); }

od_tensor *od_state_tensor(const od_state *s, const char *name) {
  const od_variable *v = od_graph_variable_named(s->graph, name);
  return v ? od_state_at(s, v->index) : NULL;
}

od_tensor *od_state_at(const od_state *s, int i) {
  OD_ASSERT(i >= 0 && (size_t)i < s->n);
  return &s->tensors[i];
}

const od_graph *od_state_graph(const od_state *s) { return s->graph; }
uint64_t od_state_version(const od_state *s) { return atomic_load(&s->version); }
void od_state_touch(od_state *s) { atomic_fetch_add(&s->version, 1); }
