/* Primitives and packed filters by shape, for callers without a plan; see single.h. */
#include "engine/cpu/single.h"

#include <omp.h>
#include <string.h>

#include "base/mem.h"

/* Shapes kept by place: a detector sees a few at most; a stream of pictures that all differ makes new ones, 0.1 ms each. */
enum { ENTRIES = 4 };

struct od_single {
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  char *scratch;
  size_t size;
};

enum { CONV, MAX_POOL, MEAN_POOL, MATMUL };

/* What tells primitives of one place apart; all bytes are compared, so it is zeroed before it is filled. */
typedef struct {
  union {
    od_conv_shape conv;
    od_pool_shape pool;
    od_matmul_shape matmul;
  };
  int kind, act, threads, zero; /* the library cuts work by the number of threads when the primitive is made; zero: no padding */
} key;

typedef struct {
  key key;
  od_prim prim;
  dnnl_memory_t in[3], out, work; /* in: source, weights, bias */
} entry;

typedef struct {
  od_md md;
  void *data;
} packed;

struct od_single_op {
  entry entries[ENTRIES];
  int n, oldest;
  packed *packs; /* constant filters, a layout each */
  size_t n_packs, cap_packs;
  float *bias;
};

void od_single_free(od_single *s) {
  if (!s) return;
  if (s->stream) dnnl_stream_destroy(s->stream);
  if (s->engine) dnnl_engine_destroy(s->engine);
  od_free(s->scratch);
  od_free(s);
}

od_status od_single_new(od_single **out) {
  od_single *s;
  od_status st;
  *out = NULL;
  OD_TRY(od_new(&s, 1, sizeof *s));
  *s = (od_single){0};
  OD_GO(st, od_dnnl_status(dnnl_engine_create(&s->engine, dnnl_cpu, 0), "engine"));
  OD_GO(st, od_dnnl_status(dnnl_stream_create(&s->stream, s->engine, dnnl_stream_default_flags), "stream"));
done:
  if (st != OD_OK)
    od_single_free(s);
  else
    *out = s;
  return st;
}

static void free_entry(entry *e) {
  for (int i = 0; i < 3; i++) od_mem_free(e->in[i]);
  od_mem_free(e->out);
  od_mem_free(e->work);
  od_prim_free(&e->prim);
  memset(e, 0, sizeof *e);
}

void od_single_op_free(od_single_op *op) {
  if (!op) return;
  for (int i = 0; i < op->n; i++) free_entry(&op->entries[i]);
  for (size_t i = 0; i < op->n_packs; i++) {
    od_md_free(&op->packs[i].md);
    od_free(op->packs[i].data);
  }
  od_free(op->packs);
  od_free(op->bias);
  od_free(op);
}

static od_status scratch(od_single *s, size_t size) {
  if (size <= s->size) return OD_OK;
  od_free(s->scratch);
  s->size = 0;
  s->scratch = od_alloc(size);
  if (!s->scratch) return OD_ENOMEM;
  s->size = size;
  return OD_OK;
}

static od_status make(entry *e, const od_single *s, const key *k, bool bias) {
  od_status st;
  e->key = *k;
  if (k->kind == CONV)
    OD_GO(st, od_dnnl_conv(&e->prim, s->engine, OD_PASS_FORWARD, &k->conv, OD_F32, bias, (od_act)k->act, false, true));
  else if (k->kind == MATMUL)
    OD_GO(st, od_dnnl_matmul(&e->prim, s->engine, &k->matmul, OD_F32, OD_F32));
  else
    OD_GO(st, od_dnnl_pool(&e->prim, s->engine, OD_PASS_FORWARD, &k->pool, k->kind == MAX_POOL, OD_F32));
  OD_GO(st, od_mem_new(&e->in[0], od_prim_md(&e->prim, dnnl_query_src_md), s->engine));
  if (k->kind == CONV || k->kind == MATMUL)
    OD_GO(st, od_mem_new(&e->in[1], od_prim_md(&e->prim, dnnl_query_weights_md), s->engine));
  if (bias) OD_GO(st, od_mem_new(&e->in[2], dnnl_primitive_desc_query_md(e->prim.pd, dnnl_query_weights_md, 1), s->engine));
  OD_GO(st, od_mem_new(&e->out, od_prim_md(&e->prim, dnnl_query_dst_md), s->engine));
  OD_GO(st, od_mem_new(&e->work, od_prim_md(&e->prim, dnnl_query_scratchpad_md), s->engine));
done:
  if (st != OD_OK) free_entry(e);
  return st;
}

/* The primitive of this shape, made when it is new in this place. */
static od_status find(entry **out, od_single *s, od_single_op **op, key *k, bool bias) {
  if (!*op) {
    OD_TRY(od_new(op, 1, sizeof **op));
    memset(*op, 0, sizeof **op);
  }
  k->threads = omp_get_max_threads();
  od_single_op *o = *op;
  for (int i = 0; i < o->n; i++) {
    if (memcmp(&o->entries[i].key, k, sizeof *k) != 0) continue;
    *out = &o->entries[i];
    return OD_OK;
  }
  entry e = {.prim = {0}};
  OD_TRY(make(&e, s, k, bias));
  entry *to = o->n < ENTRIES ? &o->entries[o->n++] : &o->entries[o->oldest++ % ENTRIES];
  free_entry(to);
  *to = e;
  *out = to;
  return OD_OK;
}

static od_status execute(od_single *s, const entry *e, const void *const *in, float *y) {
  static const int names[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS};
  dnnl_exec_arg_t args[5];
  int n = 0;
  OD_TRY(scratch(s, od_prim_scratch(&e->prim)));
  for (int i = 0; i < 3; i++) {
    if (!e->in[i]) continue;
    od_mem_set(e->in[i], (void *)(uintptr_t)in[i]);
    args[n++] = (dnnl_exec_arg_t){names[i], e->in[i]};
  }
  od_mem_set(e->out, y);
  od_mem_set(e->work, s->scratch);
  args[n++] = (dnnl_exec_arg_t){DNNL_ARG_DST, e->out};
  args[n++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, e->work};
  return od_prim_run(&e->prim, s->stream, n, args);
}

/* The filter in the layout that the primitive wants. */
static od_status reorder(void *to, od_single *s, const entry *e, const float *filter) {
  od_md plain = {0};
  od_prim prim = {0};
  dnnl_memory_t from = NULL, dst = NULL, work = NULL;
  od_mdp wanted = od_prim_md(&e->prim, dnnl_query_weights_md);
  od_status st;
  OD_GO(st, od_dnnl_filter_md(&plain, &e->key.conv, OD_F32));
  OD_GO(st, od_dnnl_reorder(&prim, s->engine, od_md_of(&plain), wanted));
  OD_GO(st, od_mem_new(&from, od_md_of(&plain), s->engine));
  OD_GO(st, od_mem_new(&dst, wanted, s->engine));
  OD_GO(st, od_mem_new(&work, od_prim_md(&prim, dnnl_query_scratchpad_md), s->engine));
  OD_GO(st, scratch(s, od_prim_scratch(&prim)));
  od_mem_set(from, (void *)(uintptr_t)filter);
  od_mem_set(dst, to);
  od_mem_set(work, s->scratch);
  const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, dst}, {DNNL_ARG_SCRATCHPAD, work}};
  st = od_prim_run(&prim, s->stream, 3, args);
done:
  od_mem_free(from);
  od_mem_free(dst);
  od_mem_free(work);
  od_prim_free(&prim);
  od_md_free(&plain);
  return st;
}

static od_status keep_bias(od_single_op *o, const float *bias, int64_t n) {
  if (o->bias || !bias) return OD_OK;
  OD_TRY(od_new(&o->bias, (size_t)n, sizeof *o->bias));
  memcpy(o->bias, bias, (size_t)n * sizeof *o->bias);
  return OD_OK;
}

/* A constant filter in this layout, packed at the first use. */
static od_status pack(void **out, od_single *s, od_single_op *o, const entry *e, const od_single_conv *c) {
  od_mdp wanted = od_prim_md(&e->prim, dnnl_query_weights_md);
  const float *filter, *bias = NULL;
  for (size_t i = 0; i < o->n_packs; i++) {
    if (!od_md_equal(od_md_of(&o->packs[i].md), wanted)) continue;
    *out = o->packs[i].data;
    return OD_OK;
  }
  OD_TRY(c->weights(c->ctx, &filter, &bias));
  if (c->bias) OD_TRY(keep_bias(o, bias, c->shape.o));
  OD_TRY(od_grow(&o->packs, &o->cap_packs, o->n_packs + 1, sizeof *o->packs));
  packed p = {.data = od_alloc(od_md_bytes(wanted))};
  od_status st = p.data ? reorder(p.data, s, e, filter) : OD_ENOMEM;
  if (st == OD_OK) st = od_md_copy(&p.md, wanted);
  if (st != OD_OK) {
    od_free(p.data);
    return st;
  }
  o->packs[o->n_packs++] = p;
  *out = p.data;
  return OD_OK;
}

od_status od_single_conv_run(float *y, od_single *s, od_single_op **op, const od_single_conv *c, const float *x) {
  key k;
  memset(&k, 0, sizeof k);
  k.conv = c->shape;
  k.kind = CONV;
  k.act = (int)c->act;
  entry *e;
  void *filter = NULL;
  OD_TRY(find(&e, s, op, &k, c->bias));
  if (c->constant) {
    OD_TRY(pack(&filter, s, *op, e, c));
    return execute(s, e, (const void *const[]){x, filter, (*op)->bias}, y);
  }
  const float *plain, *bias = NULL;
  OD_TRY(c->weights(c->ctx, &plain, &bias));
  filter = od_alloc(od_md_bytes(od_prim_md(&e->prim, dnnl_query_weights_md)));
  od_status st = filter ? reorder(filter, s, e, plain) : OD_ENOMEM;
  if (st == OD_OK) st = execute(s, e, (const void *const[]){x, filter, bias}, y);
  od_free(filter);
  return st;
}

od_status od_single_pool_run(float *y, od_single *s, od_single_op **op, const od_pool_shape *shape, bool max, const float *x) {
  key k;
  memset(&k, 0, sizeof k);
  k.pool = *shape;
  k.kind = max ? MAX_POOL : MEAN_POOL;
  entry *e;
  OD_TRY(find(&e, s, op, &k, false));
  return execute(s, e, (const void *const[]){x, NULL, NULL}, y);
}

od_status od_single_matmul_run(float *c, od_single *s, od_single_op **op, const od_matmul_shape *shape, const float *a, const float *b) {
  key k;
  memset(&k, 0, sizeof k);
  k.matmul = *shape;
  k.kind = MATMUL;
  entry *e;
  OD_TRY(find(&e, s, op, &k, false));
  return execute(s, e, (const void *const[]){a, b, NULL}, c);
}
