/* Gradients of depthwise 3x3 convolutions by our own loops, where they beat the library's: into the filter always, into the
 * input with stride 2 (oneDNN 3.2 takes a kernel for strided bfloat16 there that is twenty times slower). Rows go to threads in
 * fixed parts; each part sums by itself, the parts are added in order. */
#include <string.h>

#include "engine/cpu/convolution.h"

typedef struct {
  od_simd_dw dw;
  int64_t rows;
  int chunks, bf16;
} self;

/* Fills what both share. x: what the forward op read. */
static self *prepare(od_cpu_draft *d, const od_shape *x, const od_shape *w, const od_shape *y) {
  od_conv_shape s;
  self *me = od_cpu_alloc(d, sizeof *me);
  if (!me || !od_cpu_conv_shape(&s, d, true, x, w, y)) return NULL;
  if (s.kh != 3 || s.kw != 3 || s.dilation_h != 1 || s.dilation_w != 1 || s.o != s.c || s.stride_h != s.stride_w || s.stride_h > 2) {
    od_cpu_refuse(d, "not a 3x3 filter of stride 1 or 2 without dilation and multiplier");
    return NULL;
  }
  me->dw = (od_simd_dw){.n = s.n, .h = s.h, .w = s.w, .c = s.c, .oh = s.oh, .ow = s.ow, .stride = s.stride_h, .pad_top = s.pad_top,
                        .pad_left = s.pad_left};
  me->bf16 = od_cpu_wants_bf16(d);
  d->flops = od_cpu_conv_flops(&s);
  d->note = me;
  return me;
}

static od_status create(void **out, od_cpu_draft *d) {
  *out = d->note;
  d->label = d->cpu->simd->name;
  return OD_OK;
}

/* ------------------------------------------------------------------------------------------------------------- filter */
static bool match_filter(od_cpu_draft *d) {
  const od_node *n = d->node;
  od_value dw = {(od_node *)(uintptr_t)n, 0};
  self *s = prepare(d, &od_cpu_in_type(d, 0)->shape, &od_cpu_type(d, dw)->shape, &od_cpu_in_type(d, 1)->shape);
  if (!s) return false;
  s->rows = s->dw.n * s->dw.oh;
  s->chunks = od_cpu_chunks(d->cpu, s->rows, 1 + 16384 / (s->dw.ow * s->dw.c));
  d->scratch = sizeof(float) * (size_t)(9 * s->dw.c * s->chunks);
  od_cpu_take(d, n->in[0], s->bf16 ? OD_BF16 : OD_F32);
  od_cpu_take(d, n->in[1], s->bf16 ? OD_BF16 : OD_F32);
  od_cpu_give(d, dw, OD_F32, -1);
  return true;
}

typedef struct {
  const self *s;
  const od_cpu_call *c;
} job;

static void part_filter(const void *args, int chunk, int64_t begin, int64_t end) {
  const job *j = args;
  od_simd_dw dw = j->s->dw;
  dw.x = j->c->in[0];
  dw.dy = j->c->in[1];
  dw.sums = (float *)(void *)j->c->scratch + 9 * dw.c * chunk;
  memset(dw.sums, 0, sizeof(float) * (size_t)(9 * dw.c));
  j->c->cpu->simd->dw_weights[j->s->bf16](&dw, begin, end);
}

static od_status run_filter(void *self_, const od_cpu_call *c) {
  const self *s = self_;
  od_cpu_for(s->chunks, s->rows, part_filter, &(job){s, c});
  const float *parts = (const float *)(const void *)c->scratch;
  const int64_t n = 9 * s->dw.c;
  float *out = c->out[0];
  memcpy(out, parts, sizeof *out * (size_t)n);
  for (int k = 1; k < s->chunks; k++) c->cpu->simd->add(out, out, parts + k * n, NULL, n, NULL);
  return OD_OK;
}

/* -------------------------------------------------------------------------------------------------------------- input */
static bool match_input(od_cpu_draft *d) {
  const od_node *n = d->node;
  od_value dx = {(od_node *)(uintptr_t)n, 0};
  self *s = prepare(d, &od_cpu_type(d, dx)->shape, &od_cpu_in_type(d, 1)->shape, &od_cpu_in_type(d, 0)->shape);
  if (!s) return false;
  if (s->dw.stride != 2) return od_cpu_refuse(d, "stride 1: the library's is as good");
  s->rows = s->dw.n * s->dw.h;
  s->chunks = od_cpu_chunks(d->cpu, s->rows, 1 + 16384 / (s->dw.w * s->dw.c));
  od_cpu_take(d, n->in[0], s->bf16 ? OD_BF16 : OD_F32);
  od_cpu_take(d, n->in[1], OD_F32);
  od_cpu_give(d, dx, s->bf16 ? OD_BF16 : OD_F32, -1);
  return true;
}

static void part_input(const void *args, int chunk, int64_t begin, int64_t end) {
  (void)chunk;
  const job *j = args;
  od_simd_dw dw = j->s->dw;
  dw.dy = j->c->in[0];
  dw.filter = j->c->in[1];
  dw.dx = j->c->out[0];
  j->c->cpu->simd->dw_data_stride2[j->s->bf16](&dw, begin, end);
}

static od_status run_input(void *self_, const od_cpu_call *c) {
  const self *s = self_;
  od_cpu_for(s->chunks, s->rows, part_input, &(job){s, c});
  return OD_OK;
}

const od_cpu_kernel od_cpu_depthwise_grad_filter = {.name = "depthwise_grad_filter",
                                                    .ops = (const char *const[]){"depthwise_conv2d_grad_filter", NULL},
                                                    .match = match_filter, .create = create, .run = run_filter};
const od_cpu_kernel od_cpu_depthwise_grad_input = {.name = "depthwise_grad_input",
                                                   .ops = (const char *const[]){"depthwise_conv2d_grad_input", NULL},
                                                   .match = match_input, .create = create, .run = run_input};
