/* Matrix products by the library, transposed or not by strides. */
#include "engine/cpu/cpu.h"
#include "ops/math.h"

typedef struct {
  od_matmul_shape shape;
  od_dtype in, out;
  od_prim prim;
  dnnl_memory_t a, b, c, work;
} self;

static void destroy(void *self_) {
  self *s = self_;
  od_mem_free(s->a);
  od_mem_free(s->b);
  od_mem_free(s->c);
  od_mem_free(s->work);
  s->a = s->b = s->c = s->work = NULL;
  od_prim_free(&s->prim);
}

static bool match(od_cpu_draft *d) {
  const od_node *n = d->node;
  const od_matmul_params *p = n->params;
  const od_shape *a = &od_cpu_in_type(d, 0)->shape, *b = &od_cpu_in_type(d, 1)->shape;
  self *s = od_cpu_alloc(d, sizeof *s);
  if (!s) return false;
  s->shape = (od_matmul_shape){.m = a->dim[p->transpose_a], .k = a->dim[!p->transpose_a], .n = b->dim[!p->transpose_b],
                               .a_row = p->transpose_a ? 1 : a->dim[1], .a_col = p->transpose_a ? a->dim[1] : 1,
                               .b_row = p->transpose_b ? 1 : b->dim[1], .b_col = p->transpose_b ? b->dim[1] : 1};
  if (s->shape.m == 0 || s->shape.n == 0 || s->shape.k == 0) return od_cpu_refuse(d, "nothing to compute");
  s->in = od_cpu_wants_bf16(d) ? OD_BF16 : OD_F32;
  /* a product with a weight is an activation; one of two activations is a weight's gradient and stays float */
  const bool weight = od_cpu_variable(d->plan, n->in[0]) || od_cpu_variable(d->plan, n->in[1]);
  s->out = weight ? s->in : OD_F32;
  od_cpu_take(d, n->in[0], s->in);
  od_cpu_take(d, n->in[1], s->in);
  od_cpu_give(d, (od_value){(od_node *)(uintptr_t)n, 0}, s->out, -1);
  d->note = s;
  return true;
}

static od_status create(void **out, od_cpu_draft *d) {
  self *s = d->note;
  *out = s;
  OD_TRY(od_prims_matmul(&s->prim, &d->cpu->prims, &s->shape, s->in, s->out));
  OD_TRY(od_mem_new(&s->a, od_prim_md(&s->prim, dnnl_query_src_md), d->cpu->engine));
  OD_TRY(od_mem_new(&s->b, od_prim_md(&s->prim, dnnl_query_weights_md), d->cpu->engine));
  OD_TRY(od_mem_new(&s->c, od_prim_md(&s->prim, dnnl_query_dst_md), d->cpu->engine));
  OD_TRY(od_mem_new(&s->work, od_prim_md(&s->prim, dnnl_query_scratchpad_md), d->cpu->engine));
  d->scratch = od_prim_scratch(&s->prim);
  d->flops = 2.0 * (double)s->shape.m * (double)s->shape.n * (double)s->shape.k;
  d->label = od_prim_impl(&s->prim);
  return OD_OK;
}

static od_status run(void *self_, const od_cpu_call *c) {
  self *s = self_;
  od_mem_set(s->a, c->in[0]);
  od_mem_set(s->b, c->in[1]);
  od_mem_set(s->c, c->out[0]);
  od_mem_set(s->work, c->scratch);
  const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, s->a}, {DNNL_ARG_WEIGHTS, s->b}, {DNNL_ARG_DST, s->c}, {DNNL_ARG_SCRATCHPAD, s->work}};
  return od_prim_run(&s->prim, c->cpu->stream, 4, args);
}

const od_cpu_kernel od_cpu_matmul = {.name = "matmul", .ops = (const char *const[]){"matmul", NULL},
                                     .match = match, .create = create, .run = run, .destroy = destroy};
