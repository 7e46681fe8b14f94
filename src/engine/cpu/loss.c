/* classification_loss and its gradient for the sigmoid kinds (plain, and focal with exponent 0, 1 or 2), which all shipped SSD
 * configs use, with vectors; the other kinds go row by row through the reference (rows.c). */
#include "engine/cpu/cpu.h"
#include "ops/loss.h"

typedef struct {
  od_simd_loss loss;
  int64_t rows, n; /* n logits a row */
  int chunks;
  bool grad;
} self;

static bool match(od_cpu_draft *d) {
  const od_node *n = d->node;
  const od_classification_loss_params *p = n->params;
  const bool grad = od_cpu_is(n, "classification_loss_grad");
  const od_shape *x = &od_cpu_in_type(d, grad)->shape, *w = &od_cpu_in_type(d, 2 + grad)->shape;
  const bool focal = p->kind == OD_CLS_SIGMOID_FOCAL;
  if (p->kind != OD_CLS_SIGMOID && !focal) return od_cpu_refuse(d, "not a sigmoid's loss");
  if (focal && p->gamma != 0 && p->gamma != 1 && p->gamma != 2) return od_cpu_refuse(d, "an exponent of %g", (double)p->gamma);
  if (od_shape_size(x) == 0) return od_cpu_refuse(d, "nothing to compute");
  self *s = od_cpu_alloc(d, sizeof *s);
  if (!s) return false;
  s->n = x->dim[x->rank - 1];
  s->rows = od_shape_size(x) / s->n;
  s->grad = grad;
  s->loss = (od_simd_loss){.focal = focal, .gamma = focal ? (int)p->gamma : 0, .alpha_one = focal && p->has_alpha ? p->alpha : 1,
                           .alpha_zero = focal && p->has_alpha ? 1 - p->alpha : 1, .weight_step = 1};
  if (w->dim[w->rank - 1] != s->n) {
    s->loss.weight_step = 0;
  } else { /* a weight each: rows do not matter */
    s->n *= s->rows;
    s->rows = 1;
  }
  s->chunks = od_cpu_chunks(d->cpu, s->rows * s->n, 8192);
  for (int k = 0; k < n->n_in; k++) od_cpu_take(d, n->in[k], OD_F32);
  od_cpu_give(d, (od_value){(od_node *)(uintptr_t)n, 0}, OD_F32, grad ? 0 : -1);
  d->note = s;
  return true;
}

static od_status create(void **out, od_cpu_draft *d) {
  *out = d->note;
  d->label = d->cpu->simd->name;
  return OD_OK;
}

typedef struct {
  const self *s;
  const od_cpu_call *c;
} job;

static void part(const void *args, int chunk, int64_t begin, int64_t end) {
  (void)chunk;
  const job *j = args;
  const self *s = j->s;
  const float *const *in = (const float *const *)(const void *)j->c->in;
  const int g = s->grad;
  for (int64_t e = begin, m; e < end; e += m) { /* up to the end of a row */
    m = s->n - e % s->n < end - e ? s->n - e % s->n : end - e;
    od_simd_loss l = s->loss;
    l.y = (float *)j->c->out[0] + e;
    l.dy = g ? in[0] + e : NULL;
    l.x = in[g] + e;
    l.z = in[g + 1] + e;
    l.w = in[g + 2] + (l.weight_step ? e : e / s->n);
    l.n = m;
    (g ? j->c->cpu->simd->sigmoid_loss_grad : j->c->cpu->simd->sigmoid_loss)(&l);
  }
}

static od_status run(void *self_, const od_cpu_call *c) {
  const self *s = self_;
  od_cpu_for(s->chunks, s->rows * s->n, part, &(job){s, c});
  return OD_OK;
}

const od_cpu_kernel od_cpu_sigmoid_loss = {.name = "sigmoid_loss",
                                           .ops = (const char *const[]){"classification_loss", "classification_loss_grad", NULL},
                                           .match = match, .create = create, .run = run};
