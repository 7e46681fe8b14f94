/* The state's tensors and their initial values; see state.h. */
#include "graph/state.h"

#include <stdatomic.h>
#include <string.h>

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

static float draw(const od_init *init, od_key key, uint64_t i) {
  switch (init->kind) {
    case OD_INIT_CONSTANT: return init->a;
    case OD_INIT_UNIFORM: return init->a + (init->b - init->a) * od_rng_f32(key, i);
    case OD_INIT_NORMAL: return init->a + init->b * (float)od_rng_normal(key, i);
    case OD_INIT_TRUNCATED_NORMAL: return init->a + init->b * (float)od_rng_truncated_normal(key, i);
  }
  return 0;
}

void od_state_init(od_state *s, uint64_t seed) {
  for (size_t i = 0; i < s->n; i++) {
    const od_variable *v = od_graph_variable(s->graph, i);
    od_key key = od_key_name(od_key_mix(0x696e6974u, seed), v->name); /* "init": apart from all other draws */
    int64_t n = od_tensor_size(&s->tensors[i]);
    if (v->dtype == OD_F32) {
      float *x = s->tensors[i].data;
      for (int64_t k = 0; k < n; k++) x[k] = draw(&v->init, key, (uint64_t)k);
    } else {
      memset(s->tensors[i].data, 0, od_tensor_bytes(&s->tensors[i])); /* counters begin at 0 */
    }
  }
  od_state_touch(s);
}

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
