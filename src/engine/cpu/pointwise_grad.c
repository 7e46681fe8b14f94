/* Gradient of 1x1 convolutions into the filter in bfloat16 as what it is, a product: dw [I,O] = x' [I, NHW] dy [NHW, O]. On NHWC
 * the library's product beats its convolution there, by a factor of 1.3 with oneDNN 3.2 and of 2 to 4 with 2.6 (one thread,
 * shapes of SSD MobileNet); in float32 they are equal and the convolution stays. The result lies as the checkpoint wants it. */
#include "engine/cpu/convolution.h"

typedef struct {
  od_matmul_shape shape;
  od_prim prim;
  dnnl_memory_t x, dy, dw, work;
} self;

static bool match(od_cpu_draft *d) {
  const od_node *n = d->node;
  od_value dw = {(od_node *)(uintptr_t)n, 0};
  od_conv_shape s;
  if (!od_cpu_wants_bf16(d)) return od_cpu_refuse(d, "float32");
  if (!od_cpu_conv_shape(&s, d, false, &od_cpu_in_type(d, 0)->shape, &od_cpu_type(d, dw)->shape, &od_cpu_in_type(d, 1)->shape)) return false;
  if (s.kh != 1 || s.kw != 1 || s.stride_h != 1 || s.stride_w != 1 || s.oh != s.h || s.ow != s.w)
    return od_cpu_refuse(d, "not 1x1 of stride 1 without padding");
  self *me = od_cpu_alloc(d, sizeof *me);
  if (!me) return false;
  me->shape = (od_matmul_shape){.m = s.c, .n = s.o, .k = s.n * s.h * s.w, .a_row = 1, .a_col = s.c, .b_row = s.o, .b_col = 1};
  d->flops = od_cpu_conv_flops(&s);
  od_cpu_take(d, n->in[0], OD_BF16);
  od_cpu_take(d, n->in[1], OD_BF16);
  od_cpu_give(d, dw, OD_F32, -1);
  d->note = me;
  return true;
}

static void destroy(void *self_) {
  self *s = self_;
  od_mem_free(s->x);
  od_mem_free(s->dy);
  od_mem_free(s->dw);
  od_mem_free(s->work);
  s->x = s->dy = s->dw = s->work = NULL;
  od_prim_free(&s->prim);
}

static od_status create(void **out, od_cpu_draft *d) {
  self *s = d->note;
  *out = s;
  OD_TRY(od_prims_matmul(&s->prim, &d->cpu->prims, &s->shape, OD_BF16, OD_F32));
  OD_TRY(od_mem_new(&s->x, od_prim_md(&s->prim, dnnl_query_src_md), d->cpu->engine));
  OD_TRY(od_mem_new(&s->dy, od_prim_md(&s->prim, dnnl_query_weights_md), d->cpu->engine));
  OD_TRY(od_mem_new(&s->dw, od_prim_md(&s->prim, dnnl_query_dst_md), d->cpu->engine));
  OD_TRY(od_mem_new(&s->work, od_prim_md(&s->prim, dnnl_query_scratchpad_md), d->cpu->engine));
  d->scratch = od_prim_scratch(&s->prim);
  d->label = od_prim_impl(&s->prim);
  return OD_OK;
}

static od_status run(void *self_, const od_cpu_call *c) {
  self *s = self_;
  od_mem_set(s->x, c->in[0]);
  od_mem_set(s->dy, c->in[1]);
  od_mem_set(s->dw, c->out[0]);
  od_mem_set(s->work, c->scratch);
  const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, s->x}, {DNNL_ARG_WEIGHTS, s->dy}, {DNNL_ARG_DST, s->dw}, {DNNL_ARG_SCRATCHPAD, s->work}};
  return od_prim_run(&s->prim, c->cpu->stream, 4, args);
}

const od_cpu_kernel od_cpu_pointwise_grad_filter = {.name = "pointwise_grad_filter",
                                                    .ops = (const char *const[]){"conv2d_grad_filter", NULL},
                                                    .match = match, .create = create, .run = run, .destroy = destroy};
