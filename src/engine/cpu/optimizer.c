/* Optimizers and moving averages: one pass over the variable and its slots, in place where the plan allows it. Most variables are
 * tiny: a thread is asked for only where there is work for it. */
#include <math.h>

#include "engine/cpu/cpu.h"
#include "ops/optim.h"

enum { GRAIN = 32768 };

typedef enum { SGD, MOMENTUM, RMSPROP, ADAM, AVERAGE } kind;

typedef struct {
  kind kind;
  const void *params;
  int64_t n;
  int chunks, decay; /* operand of a decay that is a tensor, or -1 */
} self;

static bool match(od_cpu_draft *d) {
  static const char *const names[] = {"sgd", "momentum", "rmsprop", "adam", "moving_average"};
  static const int slots[] = {0, 1, 2, 2, 0};
  const od_node *n = d->node;
  self *s = od_cpu_alloc(d, sizeof *s);
  if (!s) return false;
  int k = 0;
  while (!od_cpu_is(n, names[k])) k++;
  s->kind = (kind)k;
  s->params = n->params;
  s->n = od_cpu_size(d, n->in[0]);
  s->chunks = od_cpu_chunks(d->cpu, s->n, GRAIN);
  s->decay = -1;
  for (int i = 0; i < n->n_in; i++) {
    int at = od_cpu_take(d, n->in[i], OD_F32);
    if (s->kind == AVERAGE && i == 2 && od_has(n->in[i])) s->decay = at;
  }
  for (int i = 0; i <= slots[k]; i++) od_cpu_give(d, (od_value){(od_node *)(uintptr_t)n, i}, OD_F32, i);
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
  const od_cpu_simd *simd = j->c->cpu->simd;
  const float *in[7] = {NULL};
  float *out[3] = {NULL};
  const int64_t n = end - begin;
  const int arrays = (int[]){2, 3, 4, 4, 2}[j->s->kind], results = (int[]){1, 2, 3, 3, 1}[j->s->kind];
  for (int k = 0; k < arrays; k++) in[k] = (const float *)j->c->in[k] + begin;
  for (int k = 0; k < results; k++) out[k] = (float *)j->c->out[k] + begin;
  const float lr = j->s->kind == AVERAGE ? 0 : *(const float *)j->c->in[arrays];
  switch (j->s->kind) {
    case SGD: simd->axpy(out[0], in[0], in[1], n, lr); break;
    case MOMENTUM: {
      const od_momentum_params *p = j->s->params;
      simd->momentum(out[0], out[1], in[0], in[1], in[2], n, lr, p->momentum, p->use_nesterov);
      break;
    }
    case RMSPROP: {
      const od_rmsprop_params *p = j->s->params;
      simd->rmsprop(out[0], out[1], out[2], in[0], in[1], in[2], in[3], n, lr, p->decay, p->momentum, p->epsilon);
      break;
    }
    case ADAM: {
      const od_adam_params *p = j->s->params;
      const float b1 = *(const float *)j->c->in[5], b2 = *(const float *)j->c->in[6];
      simd->adam(out[0], out[1], out[2], in[0], in[1], in[2], in[3], n, lr * sqrtf(1 - b2) / (1 - b1), p->beta1, p->beta2, p->epsilon);
      break;
    }
    case AVERAGE: {
      const float rate = j->s->decay >= 0 ? 1 - *(const float *)j->c->in[j->s->decay] : ((const od_moving_average_params *)j->s->params)->rate;
      simd->moving_average(out[0], in[0], in[1], n, rate);
      break;
    }
  }
}

static od_status run(void *self_, const od_cpu_call *c) {
  const self *s = self_;
  od_cpu_for(s->chunks, s->n, part, &(job){s, c});
  return OD_OK;
}

const od_cpu_kernel od_cpu_optimizer = {.name = "optimizer",
                                        .ops = (const char *const[]){"sgd", "momentum", "rmsprop", "adam", "moving_average", NULL},
                                        .match = match, .create = create, .run = run};
