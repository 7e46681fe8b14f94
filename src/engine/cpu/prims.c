/* A table of primitives with counts of their users; see prims.h. */
#include "engine/cpu/prims.h"

#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

typedef enum { CONV = 1, POOL, MATMUL, REORDER } kind;

/* What makes two primitives one; compared byte by byte, so it is zeroed first. Reorders are told apart by their descriptions. */
typedef struct {
  int64_t kind, pass, type, type_out, bias, act, add, max, many_shapes;
  union {
    od_conv_shape conv;
    od_pool_shape pool;
    od_matmul_shape matmul;
    size_t bytes[2];
  } shape;
} key;

struct od_shared_prim {
  od_shared_prim *next;
  od_prims *home;
  key k;
  od_mdp from, to; /* REORDER: in pd */
  int users;
  od_prim prim; /* owned; not shared itself */
};

void od_prims_init(od_prims *p) {
  *p = (od_prims){0};
  pthread_mutex_init(&p->lock, NULL);
}

void od_prims_destroy(od_prims *p) {
  for (int i = 0; i < OD_PRIM_BUCKETS; i++) OD_ASSERT(!p->bucket[i]);
  pthread_mutex_destroy(&p->lock);
}

static size_t bucket_of(const key *k) {
  uint64_t words[sizeof *k / sizeof(uint64_t)], h = 0;
  _Static_assert(sizeof *k % sizeof(uint64_t) == 0, "whole words");
  memcpy(words, k, sizeof *k);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) h = od_rng_scramble(h ^ words[i]) + i;
  return h % OD_PRIM_BUCKETS;
}

static od_status make(od_prim *out, const od_prims *p, const key *k, od_mdp from, od_mdp to) {
  dnnl_engine_t e = p->engine;
  switch ((kind)k->kind) {
    case CONV: return od_dnnl_conv(out, e, (od_pass)k->pass, &k->shape.conv, (od_dtype)k->type, k->bias != 0, (od_act)k->act, k->add != 0,
                                   k->many_shapes != 0);
    case POOL: return od_dnnl_pool(out, e, (od_pass)k->pass, &k->shape.pool, k->max != 0, (od_dtype)k->type);
    case MATMUL: return od_dnnl_matmul(out, e, &k->shape.matmul, (od_dtype)k->type, (od_dtype)k->type_out);
    case REORDER: break;
  }
  return od_dnnl_reorder(out, e, from, to);
}

/* The lock is held. */
static od_status find_or_make(od_shared_prim **out, od_prims *p, const key *k, od_mdp from, od_mdp to) {
  od_shared_prim **list = &p->bucket[bucket_of(k)], *s;
  for (s = *list; s; s = s->next)
    if (memcmp(&s->k, k, sizeof *k) == 0 && (k->kind != REORDER || (od_md_equal(s->from, from) && od_md_equal(s->to, to)))) {
      *out = s;
      return OD_OK;
    }
  OD_TRY(od_new(&s, 1, sizeof *s));
  od_status st = make(&s->prim, p, k, from, to);
  if (st != OD_OK) {
    od_free(s);
    return st;
  }
  s->home = p;
  s->k = *k;
  if (k->kind == REORDER) {
    s->from = od_prim_md(&s->prim, dnnl_query_src_md);
    s->to = od_prim_md(&s->prim, dnnl_query_dst_md);
  }
  s->next = *list;
  *list = s;
  *out = s;
  return OD_OK;
}

static od_status share(od_prim *out, od_prims *p, const key *k, od_mdp from, od_mdp to) {
  od_shared_prim *s = NULL;
  *out = (od_prim){0};
  pthread_mutex_lock(&p->lock);
  od_status st = find_or_make(&s, p, k, from, to);
  if (st == OD_OK) {
    s->users++;
    *out = (od_prim){s->prim.pd, s->prim.prim, s};
  }
  pthread_mutex_unlock(&p->lock);
  return st;
}

void od_prims_release(od_shared_prim *s) {
  od_prims *p = s->home;
  pthread_mutex_lock(&p->lock);
  const bool last = --s->users == 0;
  if (last) {
    od_shared_prim **at = &p->bucket[bucket_of(&s->k)];
    while (*at != s) at = &(*at)->next;
    *at = s->next;
  }
  pthread_mutex_unlock(&p->lock);
  if (!last) return;
  od_prim_free(&s->prim);
  od_free(s);
}

od_status od_prims_conv(od_prim *out, od_prims *p, od_pass pass, const od_conv_shape *s, od_dtype type, bool bias, od_act act, bool add,
                        bool many_shapes) {
  key k;
  memset(&k, 0, sizeof k);
  k.kind = CONV, k.pass = pass, k.type = type, k.bias = bias, k.act = act, k.add = add, k.many_shapes = many_shapes, k.shape.conv = *s;
  return share(out, p, &k, NULL, NULL);
}

od_status od_prims_pool(od_prim *out, od_prims *p, od_pass pass, const od_pool_shape *s, bool max, od_dtype type) {
  key k;
  memset(&k, 0, sizeof k);
  k.kind = POOL, k.pass = pass, k.type = type, k.max = max, k.shape.pool = *s;
  return share(out, p, &k, NULL, NULL);
}

od_status od_prims_matmul(od_prim *out, od_prims *p, const od_matmul_shape *s, od_dtype type_in, od_dtype type_out) {
  key k;
  memset(&k, 0, sizeof k);
  k.kind = MATMUL, k.type = type_in, k.type_out = type_out, k.shape.matmul = *s;
  return share(out, p, &k, NULL, NULL);
}

od_status od_prims_reorder(od_prim *out, od_prims *p, od_mdp from, od_mdp to) {
  key k;
  memset(&k, 0, sizeof k);
  k.kind = REORDER, k.shape.bytes[0] = od_md_bytes(from), k.shape.bytes[1] = od_md_bytes(to);
  return share(out, p, &k, from, to);
}
