/* hard_example_miner: images on threads, each with the fast suppression of suppress.c; the selection is the reference's. */
#include <math.h>
#include <string.h>

#include "engine/cpu/cpu.h"
#include "engine/cpu/suppress.h"
#include "ops/detect.h"

typedef struct {
  const od_miner_params *p;
  int64_t images, anchors;
  int chunks;
  bool match;
  size_t scratch; /* of a thread */
} self;

static bool match(od_cpu_draft *d) {
  const od_node *n = d->node;
  const od_shape *x = &od_cpu_in_type(d, 0)->shape;
  self *s = od_cpu_alloc(d, sizeof *s);
  if (!s) return false;
  s->p = n->params;
  s->images = x->dim[0];
  s->anchors = x->dim[1];
  s->match = od_has(n->in[3]);
  if (od_shape_size(x) == 0) return od_cpu_refuse(d, "nothing to mine");
  if (!(s->p->iou_threshold >= 0 && s->p->iou_threshold <= 1)) return od_cpu_refuse(d, "the threshold is not between 0 and 1");
  s->chunks = od_cpu_chunks(d->cpu, s->images, 1);
  for (int k = 0; k < 4; k++) od_cpu_take(d, n->in[k], k == 3 ? OD_I32 : OD_F32);
  for (int k = 0; k < n->op->n_out; k++) od_cpu_give(d, (od_value){(od_node *)(uintptr_t)n, k}, OD_F32, -1);
  s->scratch = (od_cpu_suppress_scratch(s->anchors) + 2 * sizeof(float) * (size_t)s->anchors + OD_ALIGN) / OD_ALIGN * OD_ALIGN;
  d->scratch = s->scratch * (size_t)s->chunks;
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

/* Keeps positives and the first negatives of the selection, as ops/box/sampler.c. */
static int64_t thin(const self *s, int32_t *selected, int64_t count, const int32_t *match) {
  int64_t pos = 0, neg = 0, kept = 0;
  for (int64_t i = 0; i < count; i++) pos += match[selected[i]] >= 0;
  int64_t most = (int32_t)(s->p->max_negatives_per_positive * (float)pos);
  if (most < s->p->min_negatives_per_image) most = s->p->min_negatives_per_image;
  for (int64_t i = 0; i < count; i++) {
    const int32_t how = match[selected[i]];
    neg += how == -1;
    if (how >= 0 || neg <= most) selected[kept++] = selected[i];
  }
  return kept;
}

/* The classification and localization losses together: rounded product by product, as the reference is compiled. */
static float both(const self *s, float location, float cls) {
  volatile float a = cls * s->p->classification_weight, b = location * s->p->localization_weight;
  return a + b;
}

static void part(const void *args, int chunk, int64_t begin, int64_t end) {
  const job *j = args;
  const self *s = j->s;
  const int64_t a = s->anchors;
  char *scratch = j->c->scratch + s->scratch * (size_t)chunk;
  float *loss = (float *)(void *)(scratch + od_cpu_suppress_scratch(a));
  int32_t *selected = (int32_t *)(void *)(loss + a);
  for (int64_t i = begin; i < end; i++) {
    const float *loc = (const float *)j->c->in[0] + i * a, *cls = (const float *)j->c->in[1] + i * a;
    const int32_t *m = s->match ? (const int32_t *)j->c->in[3] + i * a : NULL;
    float *mask = (float *)j->c->out[0] + i * a;
    for (int64_t k = 0; k < a; k++)
      loss[k] = s->p->loss_type == OD_MINE_LOCALIZATION ? loc[k] : s->p->loss_type == OD_MINE_CLASSIFICATION ? cls[k] : both(s, loc[k], cls[k]);
    int64_t n = od_cpu_suppress(j->c->cpu->simd, selected, (const float *)j->c->in[2] + 4 * i * a, loss, a,
                                s->p->num_hard_examples > 0 ? s->p->num_hard_examples : a, s->p->iou_threshold, -INFINITY, scratch);
    if (m && s->p->max_negatives_per_positive > 0) n = thin(s, selected, n, m);
    int64_t positives = 0;
    memset(mask, 0, sizeof *mask * (size_t)a);
    for (int64_t k = 0; k < n; k++) {
      mask[selected[k]] = 1;
      positives += m && m[selected[k]] >= 0;
    }
    ((float *)j->c->out[1])[i] = (float)positives;
    ((float *)j->c->out[2])[i] = (float)(n - positives);
  }
}

static od_status run(void *self_, const od_cpu_call *c) {
  const self *s = self_;
  od_cpu_for(s->chunks, s->images, part, &(job){s, c});
  return OD_OK;
}

const od_cpu_kernel od_cpu_miner = {.name = "miner", .ops = (const char *const[]){"hard_example_miner", NULL},
                                    .match = match, .create = create, .run = run};
