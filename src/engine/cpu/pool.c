/* Pooling by the library; the gradient of max pooling by our own loops, which need no bookkeeping from the forward pass: each dy
 * goes to the first element of its window that equals the maximum. */
#include <string.h>

#include "engine/cpu/cpu.h"
#include "ops/nn.h"

enum { CHANNELS = 64 };

typedef struct {
  od_pool_shape shape;
  od_dtype type;
  od_prim prim;
  dnnl_memory_t x, y, work;
  int chunks;
  int64_t blocks; /* of CHANNELS channels */
  bool bf16_dy, bf16_x;
} self;

static self *prepare(od_cpu_draft *d, const od_shape *x, const od_shape *y) {
  self *s = od_cpu_alloc(d, sizeof *s);
  if (!s) return NULL;
  const od_pool_params *p = d->node->params;
  const od_conv_geometry g = od_pool_resolve(p, x->dim[1], x->dim[2]);
  if (od_shape_size(x) == 0 || od_shape_size(y) == 0) {
    od_cpu_refuse(d, "nothing to compute");
    return NULL;
  }
  s->shape = (od_pool_shape){.n = x->dim[0], .h = x->dim[1], .w = x->dim[2], .c = x->dim[3], .oh = y->dim[1], .ow = y->dim[2],
                             .kh = p->window_h, .kw = p->window_w, .stride_h = p->stride_h, .stride_w = p->stride_w,
                             .pad_top = g.pad_top, .pad_left = g.pad_left};
  s->shape.pad_bottom = (s->shape.oh - 1) * p->stride_h + p->window_h - x->dim[1] - g.pad_top;
  s->shape.pad_right = (s->shape.ow - 1) * p->stride_w + p->window_w - x->dim[2] - g.pad_left;
  s->type = od_cpu_wants_bf16(d) ? OD_BF16 : OD_F32;
  d->note = s;
  return s;
}

static void destroy(void *self_) {
  self *s = self_;
  od_mem_free(s->x);
  od_mem_free(s->y);
  od_mem_free(s->work);
  s->x = s->y = s->work = NULL;
  od_prim_free(&s->prim);
}

static bool match(od_cpu_draft *d) {
  od_value y = {(od_node *)(uintptr_t)d->node, 0};
  self *s = prepare(d, &od_cpu_in_type(d, 0)->shape, &od_cpu_type(d, y)->shape);
  if (!s) return false;
  od_cpu_take(d, d->node->in[0], s->type);
  od_cpu_give(d, y, s->type, -1);
  return true;
}

static od_status create(void **out, od_cpu_draft *d) {
  self *s = d->note;
  *out = s;
  OD_TRY(od_prims_pool(&s->prim, &d->cpu->prims, OD_PASS_FORWARD, &s->shape, od_cpu_is(d->node, "max_pool"), s->type));
  OD_TRY(od_mem_new(&s->x, od_prim_md(&s->prim, dnnl_query_src_md), d->cpu->engine));
  OD_TRY(od_mem_new(&s->y, od_prim_md(&s->prim, dnnl_query_dst_md), d->cpu->engine));
  OD_TRY(od_mem_new(&s->work, od_prim_md(&s->prim, dnnl_query_scratchpad_md), d->cpu->engine));
  d->scratch = od_prim_scratch(&s->prim);
  d->label = od_prim_impl(&s->prim);
  return OD_OK;
}

static od_status run(void *self_, const od_cpu_call *c) {
  self *s = self_;
  od_mem_set(s->x, c->in[0]);
  od_mem_set(s->y, c->out[0]);
  od_mem_set(s->work, c->scratch);
  const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, s->x}, {DNNL_ARG_DST, s->y}, {DNNL_ARG_SCRATCHPAD, s->work}};
  return od_prim_run(&s->prim, c->cpu->stream, 3, args);
}

/* ------------------------------------------------------------------------------------------- (dy, x: its shape) -> dx */
static bool match_avg(od_cpu_draft *d) {
  od_value dx = {(od_node *)(uintptr_t)d->node, 0};
  self *s = prepare(d, &od_cpu_type(d, dx)->shape, &od_cpu_in_type(d, 0)->shape);
  if (!s) return false;
  od_cpu_take(d, d->node->in[0], s->type);
  od_cpu_give(d, dx, s->type, -1);
  return true;
}

static od_status create_avg(void **out, od_cpu_draft *d) {
  self *s = d->note;
  *out = s;
  OD_TRY(od_prims_pool(&s->prim, &d->cpu->prims, OD_PASS_DATA, &s->shape, false, s->type));
  OD_TRY(od_mem_new(&s->x, od_prim_md(&s->prim, dnnl_query_diff_src_md), d->cpu->engine));
  OD_TRY(od_mem_new(&s->y, od_prim_md(&s->prim, dnnl_query_diff_dst_md), d->cpu->engine));
  OD_TRY(od_mem_new(&s->work, od_prim_md(&s->prim, dnnl_query_scratchpad_md), d->cpu->engine));
  d->scratch = od_prim_scratch(&s->prim);
  d->label = od_prim_impl(&s->prim);
  return OD_OK;
}

static od_status run_avg(void *self_, const od_cpu_call *c) {
  self *s = self_;
  od_mem_set(s->y, c->in[0]);
  od_mem_set(s->x, c->out[0]);
  od_mem_set(s->work, c->scratch);
  const dnnl_exec_arg_t args[] = {{DNNL_ARG_DIFF_DST, s->y}, {DNNL_ARG_DIFF_SRC, s->x}, {DNNL_ARG_SCRATCHPAD, s->work}};
  return od_prim_run(&s->prim, c->cpu->stream, 3, args);
}

/* --------------------------------------------------------------------------------------------------- (dy, x, y) -> dx */
static bool match_max(od_cpu_draft *d) {
  const od_node *n = d->node;
  od_value dx = {(od_node *)(uintptr_t)n, 0};
  self *s = prepare(d, &od_cpu_in_type(d, 1)->shape, &od_cpu_in_type(d, 2)->shape);
  if (!s) return false;
  s->blocks = (s->shape.c + CHANNELS - 1) / CHANNELS;
  s->chunks = od_cpu_chunks(d->cpu, s->shape.n * s->blocks, 1);
  s->bf16_dy = od_cpu_stored(d, n->in[0]) == OD_BF16;
  s->bf16_x = s->type == OD_BF16;
  od_cpu_take_any(d, n->in[0]);
  od_cpu_take(d, n->in[1], s->type);
  od_cpu_take(d, n->in[2], s->type);
  od_cpu_give(d, dx, OD_F32, -1); /* windows may overlap: sums are kept in float */
  return true;
}

static od_status create_max(void **out, od_cpu_draft *d) {
  *out = d->note;
  d->label = d->cpu->simd->name;
  return OD_OK;
}

typedef struct {
  const self *s;
  const od_cpu_call *c;
} job;

static const float *load(const job *j, const void *data, bool bf16, int64_t at, int64_t m, float *buffer) {
  if (!bf16) return (const float *)data + at;
  j->c->cpu->simd->to_float(buffer, (const uint16_t *)data + at, m);
  return buffer;
}

/* One window, m channels: rest is what has not found its maximum yet. */
static void window(const job *j, int64_t image, int64_t oh, int64_t ow, int64_t c0, int64_t m) {
  const od_pool_shape *p = &j->s->shape;
  float rest[CHANNELS], by[CHANNELS], bx[CHANNELS], bd[CHANNELS];
  const int64_t at_y = ((image * p->oh + oh) * p->ow + ow) * p->c + c0;
  memcpy(rest, load(j, j->c->in[0], j->s->bf16_dy, at_y, m, bd), sizeof *rest * (size_t)m);
  const float *y = load(j, j->c->in[2], j->s->bf16_x, at_y, m, by);
  for (int64_t kh = 0; kh < p->kh; kh++) {
    const int64_t ih = oh * p->stride_h - p->pad_top + kh;
    if (ih < 0 || ih >= p->h) continue;
    for (int64_t kw = 0; kw < p->kw; kw++) {
      const int64_t iw = ow * p->stride_w - p->pad_left + kw;
      if (iw < 0 || iw >= p->w) continue;
      const int64_t at = ((image * p->h + ih) * p->w + iw) * p->c + c0;
      j->c->cpu->simd->max_grad((float *)j->c->out[0] + at, rest, load(j, j->c->in[1], j->s->bf16_x, at, m, bx), y, m);
    }
  }
}

static void part_max(const void *args, int chunk, int64_t begin, int64_t end) {
  (void)chunk;
  const job *j = args;
  const od_pool_shape *p = &j->s->shape;
  for (int64_t u = begin; u < end; u++) {
    const int64_t image = u / j->s->blocks, c0 = u % j->s->blocks * CHANNELS, m = p->c - c0 < CHANNELS ? p->c - c0 : CHANNELS;
    float *dx = (float *)j->c->out[0] + image * p->h * p->w * p->c + c0;
    for (int64_t i = 0; i < p->h * p->w; i++) memset(dx + i * p->c, 0, sizeof *dx * (size_t)m);
    for (int64_t oh = 0; oh < p->oh; oh++)
      for (int64_t ow = 0; ow < p->ow; ow++) window(j, image, oh, ow, c0, m);
  }
}

static od_status run_max(void *self_, const od_cpu_call *c) {
  const self *s = self_;
  od_cpu_for(s->chunks, s->shape.n * s->blocks, part_max, &(job){s, c});
  return OD_OK;
}

const od_cpu_kernel od_cpu_pool = {.name = "pool", .ops = (const char *const[]){"max_pool", "avg_pool", NULL},
                                   .match = match, .create = create, .run = run, .destroy = destroy};
const od_cpu_kernel od_cpu_avg_pool_grad = {.name = "avg_pool_grad", .ops = (const char *const[]){"avg_pool_grad", NULL},
                                            .match = match_avg, .create = create_avg, .run = run_avg, .destroy = destroy};
const od_cpu_kernel od_cpu_max_pool_grad = {.name = "max_pool_grad", .ops = (const char *const[]){"max_pool_grad", NULL},
                                            .match = match_max, .create = create_max, .run = run_max};
