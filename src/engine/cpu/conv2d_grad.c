/* Gradients of conv2d and depthwise_conv2d by the library. Into the filter: computed in the library's layout, float32, and
 * brought into the checkpoint's order. */
#include <string.h>

#include "engine/cpu/convolution.h"

typedef struct {
  od_conv_shape shape;
  od_dtype type;
  od_value filter;
  const od_node *fold; /* batch norm that the filter gets folded in, or NULL */
  od_prim prim, reorder;
  od_md plain;
  od_cpu_weights *weights;
  dnnl_memory_t a, b, c, work, to, work2; /* the three operands in the order of args below */
  size_t at_work, at_packed, at_work2;
  size_t clear; /* bytes of scratch that must be zero */
} self;

static void destroy(void *self_) {
  self *s = self_;
  od_cpu_weights_free(s->weights);
  od_mem_free(s->a);
  od_mem_free(s->b);
  od_mem_free(s->c);
  od_mem_free(s->work);
  od_mem_free(s->to);
  od_mem_free(s->work2);
  od_prim_free(&s->prim);
  od_prim_free(&s->reorder);
  od_md_free(&s->plain);
  s->weights = NULL;
  s->a = s->b = s->c = s->work = s->to = s->work2 = NULL;
}

static bool is_depthwise(const od_node *n) { return n->op->name[0] == 'd'; }
static size_t up(size_t n) { return (n + OD_ALIGN - 1) / OD_ALIGN * OD_ALIGN; }

/* ---------------------------------------------------------------------------------------- (dy, w, x: its shape) -> dx */
static bool match_input(od_cpu_draft *d) {
  self *s = od_cpu_alloc(d, sizeof *s);
  if (!s) return false;
  const od_node *n = d->node;
  od_value dx = {(od_node *)(uintptr_t)n, 0};
  if (!od_cpu_conv_shape(&s->shape, d, is_depthwise(n), &od_cpu_type(d, dx)->shape, &od_cpu_in_type(d, 1)->shape, &od_cpu_in_type(d, 0)->shape))
    return false;
  s->type = od_cpu_wants_bf16(d) ? OD_BF16 : OD_F32;
  s->filter = n->in[1];
  if (od_cpu_is(s->filter.node, "fold_batch_norm") && s->filter.out == 0) { /* again rather than kept from the forward pass */
    s->fold = s->filter.node;
    s->filter = s->fold->in[0];
  }
  od_cpu_take(d, n->in[0], s->type);
  od_cpu_weights_take(d, s->filter, OD_NONE, s->fold);
  od_cpu_give(d, dx, s->type, -1);
  d->note = s;
  return true;
}

static od_status create_input(void **out, od_cpu_draft *d) {
  self *s = d->note;
  dnnl_engine_t e = d->cpu->engine;
  *out = s;
  const bool varies = od_cpu_conv_varies(d, d->node->in[0]);
  OD_TRY(od_prims_conv(&s->prim, &d->cpu->prims, OD_PASS_DATA, &s->shape, s->type, false, OD_ACT_NONE, false, varies));
  OD_TRY(od_dnnl_filter_md(&s->plain, &s->shape, OD_F32));
  d->scratch = up(od_prim_scratch(&s->prim));
  od_cpu_weights_spec spec = {s->filter, od_md_of(&s->plain), od_prim_md(&s->prim, dnnl_query_weights_md), is_depthwise(d->node) ? 1 : s->shape.o,
                              OD_NONE, s->fold};
  OD_TRY(od_cpu_weights_new(&s->weights, d, &spec));
  OD_TRY(od_mem_new(&s->a, od_prim_md(&s->prim, dnnl_query_diff_dst_md), e));
  OD_TRY(od_mem_new(&s->b, spec.packed, e));
  OD_TRY(od_mem_new(&s->c, od_prim_md(&s->prim, dnnl_query_diff_src_md), e));
  OD_TRY(od_mem_new(&s->work, od_prim_md(&s->prim, dnnl_query_scratchpad_md), e));
  d->flops = od_cpu_conv_flops(&s->shape);
  d->label = od_prim_impl(&s->prim);
  return OD_OK;
}

static od_status run_input(void *self_, const od_cpu_call *c) {
  self *s = self_;
  void *packed;
  float *bias;
  OD_TRY(od_cpu_weights_get(s->weights, c, &packed, &bias));
  od_mem_set(s->a, c->in[0]);
  od_mem_set(s->b, packed);
  od_mem_set(s->c, c->out[0]);
  od_mem_set(s->work, c->scratch);
  const dnnl_exec_arg_t args[] = {
      {DNNL_ARG_DIFF_DST, s->a}, {DNNL_ARG_WEIGHTS, s->b}, {DNNL_ARG_DIFF_SRC, s->c}, {DNNL_ARG_SCRATCHPAD, s->work}};
  return od_prim_run(&s->prim, c->cpu->stream, 4, args);
}

/* ---------------------------------------------------------------------------------------- (x, dy, w: its shape) -> dw */
static bool match_filter(od_cpu_draft *d) {
  self *s = od_cpu_alloc(d, sizeof *s);
  if (!s) return false;
  const od_node *n = d->node;
  od_value dw = {(od_node *)(uintptr_t)n, 0};
  if (!od_cpu_conv_shape(&s->shape, d, is_depthwise(n), &od_cpu_in_type(d, 0)->shape, &od_cpu_type(d, dw)->shape, &od_cpu_in_type(d, 1)->shape))
    return false;
  s->type = od_cpu_wants_bf16(d) ? OD_BF16 : OD_F32;
  od_cpu_take(d, n->in[0], s->type);
  od_cpu_take(d, n->in[1], s->type);
  od_cpu_give(d, dw, OD_F32, -1);
  d->note = s;
  return true;
}

static od_status create_filter(void **out, od_cpu_draft *d) {
  self *s = d->note;
  dnnl_engine_t e = d->cpu->engine;
  *out = s;
  const bool varies = od_cpu_conv_varies(d, d->node->in[0]);
  OD_TRY(od_prims_conv(&s->prim, &d->cpu->prims, OD_PASS_WEIGHTS, &s->shape, s->type, false, OD_ACT_NONE, false, varies));
  OD_TRY(od_dnnl_filter_md(&s->plain, &s->shape, OD_F32));
  od_mdp packed = od_prim_md(&s->prim, dnnl_query_diff_weights_md);
  d->scratch = up(od_prim_scratch(&s->prim));
  /* A filter larger than its picture (3x3 over 1x1, the last maps of a small SSD): oneDNN 2.6's bf16 kernel for AMX takes the
   * gradient of taps that see nothing but padding from scratch that it never wrote. Zeroes there give the right answer. */
  if (s->type == OD_BF16 && (s->shape.h < s->shape.kh || s->shape.w < s->shape.kw)) s->clear = od_prim_scratch(&s->prim);
  OD_TRY(od_mem_new(&s->a, od_prim_md(&s->prim, dnnl_query_src_md), e));
  OD_TRY(od_mem_new(&s->b, od_prim_md(&s->prim, dnnl_query_diff_dst_md), e));
  OD_TRY(od_mem_new(&s->c, packed, e));
  OD_TRY(od_mem_new(&s->work, od_prim_md(&s->prim, dnnl_query_scratchpad_md), e));
  if (!od_md_equal(packed, od_md_of(&s->plain))) {
    OD_TRY(od_prims_reorder(&s->reorder, &d->cpu->prims, packed, od_md_of(&s->plain)));
    OD_TRY(od_mem_new(&s->to, od_md_of(&s->plain), e));
    OD_TRY(od_mem_new(&s->work2, od_prim_md(&s->reorder, dnnl_query_scratchpad_md), e));
    s->at_packed = d->scratch;
    s->at_work2 = s->at_packed + up(od_md_bytes(packed));
    d->scratch = s->at_work2 + up(od_prim_scratch(&s->reorder));
  }
  d->flops = od_cpu_conv_flops(&s->shape);
  d->label = od_prim_impl(&s->prim);
  return OD_OK;
}

static od_status run_filter(void *self_, const od_cpu_call *c) {
  self *s = self_;
  od_mem_set(s->a, c->in[0]);
  od_mem_set(s->b, c->in[1]);
  od_mem_set(s->c, s->reorder.prim ? c->scratch + s->at_packed : c->out[0]);
  od_mem_set(s->work, c->scratch);
  if (s->clear) memset(c->scratch, 0, s->clear);
  const dnnl_exec_arg_t args[] = {
      {DNNL_ARG_SRC, s->a}, {DNNL_ARG_DIFF_DST, s->b}, {DNNL_ARG_DIFF_WEIGHTS, s->c}, {DNNL_ARG_SCRATCHPAD, s->work}};
  OD_TRY(od_prim_run(&s->prim, c->cpu->stream, 4, args));
  if (!s->reorder.prim) return OD_OK;
  od_mem_set(s->to, c->out[0]);
  od_mem_set(s->work2, c->scratch + s->at_work2);
  const dnnl_exec_arg_t back[] = {{DNNL_ARG_FROM, s->c}, {DNNL_ARG_TO, s->to}, {DNNL_ARG_SCRATCHPAD, s->work2}};
  return od_prim_run(&s->reorder, c->cpu->stream, 3, back);
}

const od_cpu_kernel od_cpu_conv2d_grad_input = {
    .name = "conv2d_grad_input", .ops = (const char *const[]){"conv2d_grad_input", "depthwise_conv2d_grad_input", NULL},
    .match = match_input, .create = create_input, .run = run_input, .destroy = destroy};
const od_cpu_kernel od_cpu_conv2d_grad_filter = {
    .name = "conv2d_grad_filter", .ops = (const char *const[]){"conv2d_grad_filter", "depthwise_conv2d_grad_filter", NULL},
    .match = match_filter, .create = create_filter, .run = run_filter, .destroy = destroy};
