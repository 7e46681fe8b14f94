/* The cpu engine: oneDNN for convolutions, pooling and products, our own kernels for the rest; see cpu.h. */
#include <omp.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "base/report.h"
#include "engine/cpu/cpu.h"
#include "engine/denormals.h"

static bool guards; /* see od_cpu_guard_steps */
void od_cpu_guard_steps(bool on) { guards = on; }

static bool has_bf16(void) {
  const int isa = (int)dnnl_get_effective_cpu_isa();
  return (isa & (int)dnnl_cpu_isa_avx512_core_bf16) == (int)dnnl_cpu_isa_avx512_core_bf16;
}

static void close_cpu(void *ctx) {
  od_cpu *c = ctx;
  od_prims_destroy(&c->prims);
  if (c->stream) dnnl_stream_destroy(c->stream);
  if (c->engine) dnnl_engine_destroy(c->engine);
  pthread_mutex_destroy(&c->lock);
  od_free(c->buffer);
  od_free(c);
}

static od_status open_cpu(void **ctx, od_engine_options *options) {
  od_cpu *c;
  OD_TRY(od_new(&c, 1, sizeof *c));
  pthread_mutex_init(&c->lock, NULL);
  od_prims_init(&c->prims);
  c->threads = options->threads;
  c->bf16 = options->precision == OD_MIXED_BF16 && has_bf16();
  if (!c->bf16) options->precision = OD_FP32; /* the processor has no bfloat16: who asks sees it in the options */
  c->simd = od_cpu_simd_best();
  od_status st;
  OD_GO(st, od_dnnl_status(dnnl_engine_create(&c->engine, dnnl_cpu, 0), "engine"));
  c->prims.engine = c->engine;
  c->many_shapes = options->many_shapes;
  OD_GO(st, od_dnnl_status(dnnl_stream_create(&c->stream, c->engine, dnnl_stream_default_flags), "stream"));
done:
  if (st != OD_OK) close_cpu(c);
  else *ctx = c;
  return st;
}

/* The library fixes its partition of work when a primitive is made, from the number of threads of the thread that asks. */
static int enter(const od_cpu *c) {
  int before = omp_get_max_threads();
  if (before != c->threads) omp_set_num_threads(c->threads);
  return before;
}
static void leave(const od_cpu *c, int before) {
  if (before != c->threads) omp_set_num_threads(before);
}

static od_status plan(void **out, void *ctx, const od_plan_request *r) {
  od_cpu *c = ctx;
  int before = enter(c);
  od_cpu_plan *p = NULL;
  od_status st = od_cpu_plan_new(&p, c, r, guards);
  *out = p;
  size_t wanted = atomic_load(&c->wanted);
  while (st == OD_OK && p->total > wanted && !atomic_compare_exchange_weak(&c->wanted, &wanted, p->total)) {}
  leave(c, before);
  return st;
}

static void free_plan(void *ctx, void *p) {
  (void)ctx;
  od_cpu_plan_free(p);
}

/* Large buffers in huge pages: less time in page faults and address translation. A wish, not a need. */
static void ask_huge_pages(char *buffer, size_t size) {
  const uintptr_t huge = (uintptr_t)2 << 20;
  uintptr_t begin = ((uintptr_t)buffer + huge - 1) / huge * huge, end = ((uintptr_t)buffer + size) / huge * huge;
  if (end > begin) (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE);
}

/* Growing means touching all pages anew. So it grows to what the largest plan known needs, and a second time by a quarter at least;
 * pages that nobody touches are not there. */
static od_status grow_buffer(od_cpu *c, size_t size) {
  if (c->buffer && c->size >= size) return OD_OK; /* a plan without bytes gets a buffer too */
  const size_t wanted = atomic_load(&c->wanted), quarter = c->buffer ? c->size + c->size / 4 : 0;
  size_t more = quarter > wanted ? quarter : wanted;
  if (more < size) more = size;
  od_free(c->buffer);
  c->size = 0;
  c->buffer = od_alloc(more);
  if (!c->buffer && more > size) c->buffer = od_alloc(more = size); /* what was only for later is no reason to fail */
  if (!c->buffer) return OD_ENOMEM;
  c->size = more;
  ask_huge_pages(c->buffer, c->size);
  return OD_OK;
}

static void bind_values(od_cpu_plan *p, const od_tensor *feeds) {
  for (size_t i = 0; i < p->n_values; i++) {
    od_cpu_value *v = &p->values[i];
    if (v->root != (int)i) continue;
    switch (v->home) {
      case OD_HOME_PLAN: v->data = p->cpu->buffer + v->offset; break;
      case OD_HOME_FEED: v->data = feeds[v->source].data; break;
      case OD_HOME_STATE: v->data = od_state_at(p->r.state, v->source)->data; break;
      case OD_HOME_CONST: v->data = (void *)(uintptr_t)v->constant; break;
    }
  }
  for (size_t i = 0; i < p->n_values; i++) p->values[i].data = p->values[p->values[i].root].data;
}

/* ------------------------------------------------------------------------------------------------------ guards (tests) */
static void set_guard(char *at) { memset(at, 0xa5, OD_CPU_GUARD); }
static bool guard_holds(const char *at) {
  for (int i = 0; i < OD_CPU_GUARD; i++)
    if ((unsigned char)at[i] != 0xa5) return false;
  return true;
}

/* Behind each result in the buffer and behind the scratch of a step; set before it runs, or checked after. */
static bool each_guard(od_cpu_plan *p, const od_cpu_step *s, bool check) {
  bool ok = true;
  for (int k = 0; k < s->n_out; k++) {
    const od_cpu_value *v = &p->values[p->values[s->out[k]].root];
    if (v->home != OD_HOME_PLAN) continue;
    char *at = (char *)v->data + v->bytes;
    if (check) ok = ok && guard_holds(at);
    else set_guard(at);
  }
  char *at = p->cpu->buffer + s->scratch_at + s->scratch;
  if (s->scratch && check) ok = ok && guard_holds(at);
  else if (s->scratch) set_guard(at);
  return ok;
}

static od_status run_step(od_cpu_plan *p, od_cpu_step *s, od_key key) {
  for (int k = 0; k < s->n_in; k++) s->data[k] = s->in[k] >= 0 ? p->values[s->in[k]].data : NULL;
  for (int k = 0; k < s->n_out; k++) s->data[s->n_in + k] = p->values[s->out[k]].data;
  od_cpu_call call = {p->cpu, p, s->data, s->data + s->n_in, p->cpu->buffer + s->scratch_at, od_key_mix(s->key, key)};
  if (p->guarded) (void)each_guard(p, s, false);
  OD_TRY(od_fail_context(s->kernel->run(s->self, &call), "%s (%s)", s->node->name, s->node->op->name));
  if (p->guarded && !each_guard(p, s, true))
    return od_fail(OD_EINVAL, "%s (%s): kernel %s wrote behind its memory", s->node->name, s->node->op->name, s->kernel->name);
  return OD_OK;
}

static od_status run_steps(od_cpu_plan *p, od_key key, bool profile) {
  if (profile) p->runs++;
  double t = profile ? od_now() : 0;
  for (size_t i = 0; i < p->n_steps; i++) {
    OD_TRY(run_step(p, &p->steps[i], key));
    if (p->guard_step == (int)i) OD_TRY(od_check_guard(p->r.guard.node, p->values[p->guard].data));
    if (!profile) continue;
    double now = od_now();
    p->profile[i].seconds += (now - t - p->profile[i].seconds) / (double)p->runs;
    t = now;
  }
  return OD_OK;
}

static od_status run(void *ctx, void *plan_, const od_tensor *feeds, od_tensor *fetches, od_key key, bool profile) {
  od_cpu *c = ctx;
  od_cpu_plan *p = plan_;
  OD_TRY(grow_buffer(c, p->total));
  bind_values(p, feeds);
  int before = enter(c);
  od_denormals_tell_workers(c->threads);
  od_status st = run_steps(p, key, profile);
  leave(c, before);
  if (st != OD_OK) return st;
  for (int k = 0; k < p->r.n_fetches; k++) {
    const od_cpu_value *v = p->fetch[k] >= 0 ? &p->values[p->fetch[k]] : NULL;
    fetches[k] = v ? (od_tensor){v->dtype, v->shape, v->data} : (od_tensor){0};
  }
  for (size_t k = 0; k < p->r.n_updates; k++) {
    if (p->update[k] < 0) continue; /* was computed in place */
    od_tensor *to = od_state_at(p->r.state, p->r.updates[k]->var->index);
    const void *from = p->values[p->update[k]].data;
    if (from != to->data) memcpy(to->data, from, od_tensor_bytes(to));
  }
  return OD_OK;
}

static size_t memory_of(const void *p) { return ((const od_cpu_plan *)p)->total; }
static od_plan_profile profile_of(const void *p) {
  return (od_plan_profile){((const od_cpu_plan *)p)->profile, ((const od_cpu_plan *)p)->n_profile};
}
static void clear_profile(void *plan_) {
  od_cpu_plan *p = plan_;
  p->runs = 0;
  for (size_t i = 0; i < p->n_profile; i++) p->profile[i].seconds = 0;
}

const od_backend od_backend_cpu = {
    .name = "cpu", .open = open_cpu, .close = close_cpu, .plan = plan, .free_plan = free_plan, .memory = memory_of,
    .run = run, .profile = profile_of, .clear_profile = clear_profile,
};
