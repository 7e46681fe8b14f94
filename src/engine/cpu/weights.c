/* Packed filters: folding of batch norm, conversion, the library's layout, and who keeps the result; see cpu.h. */
#include <math.h>
#include <string.h>

#include "engine/cpu/cpu.h"
#include "ops/nn.h"

/* A packed filter that plans share. */
struct od_cpu_pack {
  od_cpu_pack *next;
  int users;
  const od_graph *graph; /* identity: these values of this graph, this state, in this layout */
  const od_state *state;
  od_value filter, bias;
  const od_node *fold;
  od_md md;
  uint64_t version; /* of the state when packed; 0: never */
  char *data;       /* packed filter, then the bias */
};

struct od_cpu_weights {
  od_cpu *cpu;
  od_prim reorder; /* none when the packed layout is the plain one */
  dnnl_memory_t from, to, work;
  int64_t rows, out;   /* the plain filter as a matrix */
  size_t packed_bytes;
  int filter, bias, gamma, beta, mean, variance; /* operands, -1: absent */
  float epsilon;
  bool folds;
  od_cpu_pack *kept; /* NULL: packed in scratch */
  size_t at_packed, at_plain, at_bias, at_work; /* offsets in scratch */
};

static int operand_of(const od_cpu_draft *d, od_value v) {
  for (int k = 0; od_has(v) && k < d->n_in; k++)
    if (od_same(d->in[k].value, v) && d->in[k].dtype == OD_F32) return k;
  return -1;
}

void od_cpu_weights_take(od_cpu_draft *d, od_value filter, od_value bias, const od_node *fold) {
  od_cpu_take(d, filter, OD_F32);
  if (od_has(bias)) od_cpu_take(d, bias, OD_F32);
  for (int k = 1; fold && k < 5; k++)
    if (od_has(fold->in[k])) od_cpu_take(d, fold->in[k], OD_F32);
}

/* Does the value stay as it is while this plan runs again and again, but for changes that the state's version tells? */
static bool lasting(const od_cpu_draft *d, od_value v) {
  if (!od_has(v) || od_cpu_is(v.node, "const")) return true;
  const od_variable *var = od_cpu_variable(d->plan, v);
  return var && !od_cpu_updated(d->plan, var->index);
}

static bool all_lasting(const od_cpu_draft *d, const od_cpu_weights_spec *s) {
  bool yes = lasting(d, s->filter) && lasting(d, s->bias);
  for (int k = 1; s->fold && k < 5; k++) yes = yes && lasting(d, s->fold->in[k]);
  return yes;
}

/* Finds or makes the shared pack; the lock is held. */
static od_status share(od_cpu_pack **out, od_cpu_draft *d, const od_cpu_weights_spec *s, size_t bytes) {
  for (od_cpu_pack *k = d->cpu->packs; k; k = k->next)
    if (k->graph == d->plan->r.graph && k->state == d->plan->r.state && od_same(k->filter, s->filter) &&
        od_same(k->bias, s->bias) && k->fold == s->fold && od_md_equal(od_md_of(&k->md), s->packed)) {
      k->users++;
      *out = k;
      return OD_OK;
    }
  od_cpu_pack *k;
  OD_TRY(od_new(&k, 1, sizeof *k));
  od_status st = od_md_copy(&k->md, s->packed);
  if (st == OD_OK) {
    k->data = od_alloc(bytes);
    if (!k->data) st = OD_ENOMEM;
  }
  if (st != OD_OK) {
    od_md_free(&k->md);
    od_free(k);
    return st;
  }
  k->users = 1;
  k->graph = d->plan->r.graph;
  k->state = d->plan->r.state;
  k->filter = s->filter;
  k->bias = s->bias;
  k->fold = s->fold;
  k->next = d->cpu->packs;
  d->cpu->packs = k;
  *out = k;
  return OD_OK;
}

static size_t room(size_t *total, size_t bytes) {
  size_t at = *total;
  *total += (bytes + OD_ALIGN - 1) / OD_ALIGN * OD_ALIGN;
  return at;
}

od_status od_cpu_weights_new(od_cpu_weights **out, od_cpu_draft *d, const od_cpu_weights_spec *s) {
  od_cpu_weights *w;
  od_status st;
  OD_TRY(od_new(&w, 1, sizeof *w));
  w->cpu = d->cpu;
  w->out = s->out;
  w->rows = od_cpu_size(d, s->filter) / s->out;
  w->packed_bytes = od_md_bytes(s->packed);
  w->filter = operand_of(d, s->filter);
  w->bias = operand_of(d, s->bias);
  w->folds = s->fold != NULL;
  w->gamma = w->beta = w->mean = w->variance = -1;
  if (s->fold) {
    w->gamma = operand_of(d, s->fold->in[1]);
    w->beta = operand_of(d, s->fold->in[2]);
    w->mean = operand_of(d, s->fold->in[3]);
    w->variance = operand_of(d, s->fold->in[4]);
    w->epsilon = ((const od_batch_norm_params *)s->fold->params)->epsilon;
  }
  size_t bias_at = (w->packed_bytes + OD_ALIGN - 1) / OD_ALIGN * OD_ALIGN;
  if (all_lasting(d, s)) {
    pthread_mutex_lock(&d->cpu->lock);
    st = share(&w->kept, d, s, bias_at + sizeof(float) * (size_t)s->out);
    pthread_mutex_unlock(&d->cpu->lock);
    if (st != OD_OK) goto done;
  } else {
    w->at_packed = room(&d->scratch, w->packed_bytes);
    w->at_bias = room(&d->scratch, sizeof(float) * (size_t)s->out);
  }
  if (w->folds) w->at_plain = room(&d->scratch, sizeof(float) * (size_t)(w->rows * w->out));
  if (!od_md_equal(s->plain, s->packed)) {
    OD_GO(st, od_prims_reorder(&w->reorder, &d->cpu->prims, s->plain, s->packed));
    OD_GO(st, od_mem_new(&w->from, s->plain, d->cpu->engine));
    OD_GO(st, od_mem_new(&w->to, s->packed, d->cpu->engine));
    OD_GO(st, od_mem_new(&w->work, od_prim_md(&w->reorder, dnnl_query_scratchpad_md), d->cpu->engine));
    w->at_work = room(&d->scratch, od_prim_scratch(&w->reorder));
  }
  st = OD_OK;
done:
  if (st != OD_OK) od_cpu_weights_free(w);
  else *out = w;
  return st;
}

static const float *opt(const od_cpu_call *c, int operand) { return operand >= 0 ? c->in[operand] : NULL; }

typedef struct {
  float *to;
  const float *from, *scale;
  int64_t out;
} scaling;

static void scale_rows(const void *args, int chunk, int64_t begin, int64_t end) {
  (void)chunk;
  const scaling *s = args;
  const float *restrict scale = s->scale;
  for (int64_t r = begin; r < end; r++) {
    float *restrict to = s->to + r * s->out;
    const float *restrict from = s->from + r * s->out;
    for (int64_t o = 0; o < s->out; o++) to[o] = from[o] * scale[o];
  }
}

/* w' = w * s, bias' = beta + (bias - mean) * s with s = gamma / sqrt(variance + epsilon). */
static void fold(const od_cpu_weights *w, const od_cpu_call *c, float *plain, float *bias) {
  const float *gamma = opt(c, w->gamma), *beta = opt(c, w->beta), *mean = c->in[w->mean], *variance = c->in[w->variance];
  const float *b = opt(c, w->bias), *from = c->in[w->filter];
  for (int64_t o = 0; o < w->out; o++) {
    double s = (gamma ? gamma[o] : 1.0) / sqrt((double)variance[o] + (double)w->epsilon);
    bias[o] = (float)s; /* for the loop below */
  }
  od_cpu_for(od_cpu_chunks(w->cpu, w->rows, 1 + 16384 / w->out), w->rows, scale_rows, &(scaling){plain, from, bias, w->out});
  for (int64_t o = 0; o < w->out; o++) {
    double s = (gamma ? gamma[o] : 1.0) / sqrt((double)variance[o] + (double)w->epsilon);
    bias[o] = (float)((beta ? beta[o] : 0.0) + ((b ? b[o] : 0.0) - (double)mean[o]) * s);
  }
}

static od_status pack(od_cpu_weights *w, const od_cpu_call *c, void *packed, float *bias) {
  const float *from = c->in[w->filter];
  if (w->folds) {
    fold(w, c, (float *)(void *)(c->scratch + w->at_plain), bias);
    from = (const float *)(const void *)(c->scratch + w->at_plain);
  } else if (w->bias >= 0) {
    memcpy(bias, c->in[w->bias], sizeof(float) * (size_t)w->out);
  }
  if (!w->reorder.prim) {
    memcpy(packed, from, w->packed_bytes);
    return OD_OK;
  }
  od_mem_set(w->from, (void *)(uintptr_t)from);
  od_mem_set(w->to, packed);
  od_mem_set(w->work, c->scratch + w->at_work);
  const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, w->from}, {DNNL_ARG_TO, w->to}, {DNNL_ARG_SCRATCHPAD, w->work}};
  return od_prim_run(&w->reorder, c->cpu->stream, 3, args);
}

od_status od_cpu_weights_get(od_cpu_weights *w, const od_cpu_call *c, void **packed, float **bias) {
  od_cpu_pack *k = w->kept;
  if (!k) {
    if (!w->folds && !w->reorder.prim) { /* used as it lies */
      *packed = c->in[w->filter];
      *bias = w->bias >= 0 ? c->in[w->bias] : NULL;
      return OD_OK;
    }
    *packed = c->scratch + w->at_packed;
    *bias = (float *)(void *)(c->scratch + w->at_bias);
    return pack(w, c, *packed, *bias);
  }
  *packed = k->data;
  *bias = (float *)(void *)(k->data + (w->packed_bytes + OD_ALIGN - 1) / OD_ALIGN * OD_ALIGN);
  uint64_t now = k->state ? od_state_version(k->state) : 1;
  if (k->version == now) return OD_OK;
  OD_TRY(pack(w, c, *packed, *bias));
  k->version = now;
  return OD_OK;
}

void od_cpu_weights_free(od_cpu_weights *w) {
  if (!w) return;
  if (w->kept) {
    pthread_mutex_lock(&w->cpu->lock);
    if (--w->kept->users == 0) {
      od_cpu_pack **at = &w->cpu->packs;
      while (*at != w->kept) at = &(*at)->next;
      *at = w->kept->next;
      od_md_free(&w->kept->md);
      od_free(w->kept->data);
      od_free(w->kept);
    }
    pthread_mutex_unlock(&w->cpu->lock);
  }
  od_prim_free(&w->reorder);
  od_mem_free(w->from);
  od_mem_free(w->to);
  od_mem_free(w->work);
  od_free(w);
}
