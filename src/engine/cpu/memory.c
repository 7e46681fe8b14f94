/* Memory of a plan: dead steps go, lifetimes are found, results go in place where they may, the rest gets offsets. */
#include <string.h>

#include "engine/cpu/cpu.h"

static int root_of(const od_cpu_plan *p, int v) {
  while (p->values[v].root != v) v = p->values[v].root;
  return v;
}

/* Steps that nobody reads (their reader wanted the shape alone, or merged the work into itself) are dropped. */
static od_status drop_dead(od_cpu_plan *p) {
  bool *needed;
  OD_TRY(od_new(&needed, p->n_values + 1, sizeof *needed));
  for (int k = 0; k < p->r.n_fetches; k++)
    if (p->fetch[k] >= 0) needed[root_of(p, p->fetch[k])] = true;
  for (size_t k = 0; k < p->r.n_updates; k++) needed[root_of(p, p->update[k])] = true;
  if (p->guard >= 0) needed[root_of(p, p->guard)] = true;
  for (size_t i = p->n_steps; i-- > 0;) {
    od_cpu_step *s = &p->steps[i];
    s->dead = true;
    for (int k = 0; k < s->n_out; k++) s->dead = s->dead && !needed[root_of(p, s->out[k])];
    if (s->dead) continue;
    for (int k = 0; k < s->n_in; k++)
      if (s->in[k] >= 0) needed[root_of(p, s->in[k])] = true;
  }
  size_t n = 0;
  for (size_t i = 0; i < p->n_steps; i++) {
    od_cpu_step *s = &p->steps[i];
    if (s->dead) {
      if (s->self && s->kernel->destroy) s->kernel->destroy(s->self);
      continue;
    }
    p->profile[n] = p->profile[i];
    p->steps[n++] = *s;
  }
  p->n_steps = p->n_profile = n;
  od_free(needed);
  return OD_OK;
}

static void find_lifetimes(od_cpu_plan *p) {
  for (size_t i = 0; i < p->n_steps; i++) {
    const od_cpu_step *s = &p->steps[i];
    for (int k = 0; k < s->n_in; k++)
      if (s->in[k] >= 0) p->values[root_of(p, s->in[k])].last = (int)i;
    for (int k = 0; k < s->n_out; k++) {
      od_cpu_value *v = &p->values[root_of(p, s->out[k])];
      v->first = (int)i;
      if (v->last < (int)i) v->last = (int)i;
    }
  }
  for (int k = 0; k < p->r.n_fetches; k++)
    if (p->fetch[k] >= 0) p->values[root_of(p, p->fetch[k])].last = (int)p->n_steps;
  for (size_t k = 0; k < p->r.n_updates; k++) p->values[root_of(p, p->update[k])].last = (int)p->n_steps;
}

/* The step and output that made a value; false for sources and views. */
static bool maker_of(const od_cpu_plan *p, int value, int *step, int *out) {
  if (p->values[value].home != OD_HOME_PLAN || p->values[value].root != value || p->values[value].first < 0) return false;
  *step = p->values[value].first;
  for (int k = 0; k < p->steps[*step].n_out; k++)
    if (p->steps[*step].out[k] == value) {
      *out = k;
      return true;
    }
  return false;
}

/* Is operand a the only one of the step that lies in that memory? The same value twice is fine: element meets element. */
static bool sole_operand(const od_cpu_plan *p, const od_cpu_step *s, int a) {
  for (int k = 0; k < s->n_in; k++)
    if (k != a && s->in[k] >= 0 && s->in[k] != s->in[a] && root_of(p, s->in[k]) == root_of(p, s->in[a])) return false;
  return true;
}

static bool same_layout(const od_cpu_plan *p, int a, int b) {
  return p->values[a].dtype == p->values[b].dtype && p->values[a].bytes == p->values[b].bytes;
}

/* An update computed over its own variable, which nobody reads later, is written into the state at once. */
static void updates_in_place(od_cpu_plan *p) {
  for (size_t k = 0; k < p->r.n_updates; k++) {
    int v = p->update[k], step, out;
    if (!maker_of(p, v, &step, &out)) continue;
    const od_cpu_step *s = &p->steps[step];
    if (s->alias[out] < 0) continue;
    int operand = s->in[s->alias[out]], root = operand < 0 ? -1 : root_of(p, operand);
    if (root < 0 || p->values[root].home != OD_HOME_STATE || p->values[root].source != p->r.updates[k]->var->index) continue;
    if (p->values[root].last > step || !same_layout(p, operand, v) || !sole_operand(p, s, s->alias[out])) continue;
    p->values[v].root = root;
    p->update[k] = -1;
  }
}

static void results_in_place(od_cpu_plan *p) {
  for (size_t i = 0; i < p->n_steps; i++) {
    const od_cpu_step *s = &p->steps[i];
    for (int o = 0; o < s->n_out; o++) {
      int v = s->out[o];
      if (s->alias[o] < 0 || p->values[v].root != v) continue;
      int operand = s->in[s->alias[o]], root = operand < 0 ? -1 : root_of(p, operand);
      if (root < 0 || p->values[root].home != OD_HOME_PLAN || p->values[root].last != (int)i) continue;
      if (!same_layout(p, operand, v) || p->values[root].bytes != p->values[v].bytes || !sole_operand(p, s, s->alias[o])) continue;
      p->values[root].last = p->values[v].last;
      p->values[v].root = root;
    }
  }
}

od_status od_cpu_plan_layout(od_cpu_plan *p) {
  OD_TRY(drop_dead(p));
  find_lifetimes(p);
  p->guard_step = p->guard >= 0 ? p->values[root_of(p, p->guard)].first : -1;
  updates_in_place(p);
  results_in_place(p);
  od_piece *pieces;
  size_t n = 0;
  const size_t guard = p->guarded ? OD_CPU_GUARD : 0;
  OD_TRY(od_new(&pieces, p->n_values + p->n_steps + 1, sizeof *pieces));
  for (size_t i = 0; i < p->n_values; i++) {
    od_cpu_value *v = &p->values[i];
    v->root = root_of(p, (int)i);
    if (v->root == (int)i && v->home == OD_HOME_PLAN && v->first >= 0) pieces[n++] = (od_piece){v->bytes + guard, v->first, v->last, 0};
  }
  for (size_t i = 0; i < p->n_steps; i++)
    if (p->steps[i].scratch) pieces[n++] = (od_piece){p->steps[i].scratch + guard, (int)i, (int)i, 0};
  od_status st = od_plan_memory(&p->total, pieces, n);
  n = 0;
  for (size_t i = 0; i < p->n_values; i++) {
    od_cpu_value *v = &p->values[i];
    if (v->root == (int)i && v->home == OD_HOME_PLAN && v->first >= 0) v->offset = pieces[n++].offset;
  }
  for (size_t i = 0; i < p->n_steps; i++)
    if (p->steps[i].scratch) p->steps[i].scratch_at = pieces[n++].offset;
  od_free(pieces);
  return st;
}
