/* conv2d and depthwise_conv2d by the library, together with what follows where nobody else reads it: bias, batch norm of the
 * inference form (folded into the filter), the addition of another map (a residual unit's shortcut), relu or relu6. */
#include "engine/cpu/convolution.h"

#include <string.h>

bool od_cpu_conv_shape(od_conv_shape *out, od_cpu_draft *d, bool depthwise, const od_shape *x, const od_shape *w, const od_shape *y) {
  const od_conv_params *p = d->node->params;
  const od_conv_geometry g = od_conv_resolve(p, x->dim[1], x->dim[2], w->dim[0], w->dim[1]);
  *out = (od_conv_shape){.n = x->dim[0], .h = x->dim[1], .w = x->dim[2], .c = x->dim[3], .oh = y->dim[1], .ow = y->dim[2],
                         .o = y->dim[3], .kh = w->dim[0], .kw = w->dim[1], .groups = depthwise ? x->dim[3] : 1,
                         .stride_h = p->stride_h, .stride_w = p->stride_w, .dilation_h = p->dilation_h, .dilation_w = p->dilation_w,
                         .pad_top = g.pad_top, .pad_left = g.pad_left};
  if (od_shape_size(x) == 0 || od_shape_size(w) == 0 || od_shape_size(y) == 0) return od_cpu_refuse(d, "nothing to compute");
  /* what the last window really reaches: beyond it padding may be less than zero, rows that nobody reads */
  out->pad_bottom = (out->oh - 1) * p->stride_h + (out->kh - 1) * p->dilation_h + 1 - out->h - g.pad_top;
  out->pad_right = (out->ow - 1) * p->stride_w + (out->kw - 1) * p->dilation_w + 1 - out->w - g.pad_left;
  if (g.pad_top < 0 || g.pad_left < 0) return od_cpu_refuse(d, "padding is negative");
  return true;
}

bool od_cpu_conv_varies(const od_cpu_draft *d, od_value map) {
  const od_shape logical = od_type_of(map).shape;
  return d->cpu->many_shapes && !(logical.rank == 4 && logical.dim[1] >= 0 && logical.dim[2] >= 0);
}

double od_cpu_conv_flops(const od_conv_shape *s) {
  return 2.0 * (double)(s->n * s->oh * s->ow) * (double)(s->o * (s->c / s->groups)) * (double)(s->kh * s->kw);
}

typedef struct {
  od_conv_shape shape;
  od_dtype type;
  od_act act;
  od_value filter, bias, other; /* other: the map that is added, absent: none */
  const od_node *fold;
  od_prim prim;
  od_md plain;
  od_cpu_weights *weights;
  dnnl_memory_t x, w, b, y, work;
  size_t at_work;
  int at_other; /* its place among the operands */
} self;

/* What this node adds to v: a map of the same shape that is there already; absent otherwise. */
static od_value added(od_cpu_draft *d, const od_node *n, od_value v) {
  const od_value other = n->in[od_same(n->in[0], v) ? 1 : 0];
  const bool fits = od_cpu_is(n, "add") && od_cpu_ready(d, other) && od_cpu_type(d, other)->dtype == OD_F32 &&
                    od_shape_equal(&od_cpu_type(d, other)->shape, &od_cpu_type(d, v)->shape);
  return fits ? other : OD_NONE;
}

/* Goes along the chain of sole readers; returns the value that the step gives in the end. */
static od_value follow(od_cpu_draft *d, self *s, od_value v, bool adds) {
  for (const od_node *n; (n = od_cpu_next(d, v)) != NULL;) {
    if (adds && !od_has(s->other) && od_has(s->other = added(d, n, v))) {
      /* taken */
    } else if (!od_same(n->in[0], v)) {
      break;
    } else if (od_has(s->other) && !od_cpu_is(n, "relu") && !od_cpu_is(n, "relu6")) {
      break;
    } else if (od_cpu_is(n, "bias_add") && od_cpu_is(s->filter.node, "fold_batch_norm") && s->filter.out == 0 && !s->fold &&
        n->in[1].node == s->filter.node && n->in[1].out == 1) {
      s->fold = s->filter.node; /* its inputs from 1 on are those of batch_norm */
      s->filter = s->fold->in[0];
    } else if (od_cpu_is(n, "bias_add") && !od_has(s->bias) && !s->fold && od_cpu_ready(d, n->in[1])) {
      s->bias = n->in[1];
    } else if (od_cpu_is(n, "batch_norm") && !s->fold) {
      bool ready = true;
      for (int k = 1; k < 5; k++) ready = ready && od_cpu_ready(d, n->in[k]);
      if (!ready) break;
      s->fold = n;
    } else if (od_cpu_is(n, "relu") || od_cpu_is(n, "relu6")) {
      s->act = od_cpu_is(n, "relu") ? OD_ACT_RELU : OD_ACT_RELU6;
    } else {
      break;
    }
    od_cpu_absorb(d, n);
    v = (od_value){(od_node *)(uintptr_t)n, 0};
    if (s->act != OD_ACT_NONE) break;
  }
  return v;
}

static bool match_chain(od_cpu_draft *d, bool adds) {
  self *s = od_cpu_alloc(d, sizeof *s);
  if (!s) return false;
  const od_node *n = d->node;
  od_value y = {(od_node *)(uintptr_t)n, 0};
  if (!od_cpu_conv_shape(&s->shape, d, od_cpu_is(n, "depthwise_conv2d"), &od_cpu_in_type(d, 0)->shape, &od_cpu_in_type(d, 1)->shape,
                         &od_cpu_type(d, y)->shape))
    return false;
  s->type = od_cpu_wants_bf16(d) ? OD_BF16 : OD_F32;
  s->filter = n->in[1];
  y = follow(d, s, y, adds);
  if (adds && !od_has(s->other)) return od_cpu_refuse(d, "nothing is added");
  od_cpu_take(d, n->in[0], s->type);
  s->at_other = adds ? od_cpu_take(d, s->other, s->type) : -1;
  od_cpu_weights_take(d, s->filter, s->bias, s->fold);
  /* over the other map, unless that is what is convolved */
  od_cpu_give(d, y, s->type, od_same(s->other, n->in[0]) ? -1 : s->at_other);
  d->note = s;
  return true;
}

static bool match(od_cpu_draft *d) { return match_chain(d, false); }
static bool match_adding(od_cpu_draft *d) { return match_chain(d, true); }

static void destroy(void *self_) {
  self *s = self_; /* the struct itself lies in the plan's arena */
  od_cpu_weights_free(s->weights);
  od_mem_free(s->x);
  od_mem_free(s->w);
  od_mem_free(s->b);
  od_mem_free(s->y);
  od_mem_free(s->work);
  od_prim_free(&s->prim);
  od_md_free(&s->plain);
  s->weights = NULL;
  s->x = s->w = s->b = s->y = s->work = NULL;
}

static od_status create(void **out, od_cpu_draft *d) {
  self *s = d->note;
  const bool bias = od_has(s->bias) || s->fold;
  dnnl_engine_t e = d->cpu->engine;
  *out = s;
  OD_TRY(od_prims_conv(&s->prim, &d->cpu->prims, OD_PASS_FORWARD, &s->shape, s->type, bias, s->act, od_has(s->other),
                       od_cpu_conv_varies(d, d->node->in[0])));
  OD_TRY(od_dnnl_filter_md(&s->plain, &s->shape, OD_F32));
  s->at_work = 0;
  d->scratch = (od_prim_scratch(&s->prim) + OD_ALIGN - 1) / OD_ALIGN * OD_ALIGN;
  od_cpu_weights_spec spec = {s->filter, od_md_of(&s->plain), od_prim_md(&s->prim, dnnl_query_weights_md), s->shape.o, s->bias, s->fold};
  OD_TRY(od_cpu_weights_new(&s->weights, d, &spec));
  OD_TRY(od_mem_new(&s->x, od_prim_md(&s->prim, dnnl_query_src_md), e));
  OD_TRY(od_mem_new(&s->w, spec.packed, e));
  OD_TRY(od_mem_new(&s->y, od_prim_md(&s->prim, dnnl_query_dst_md), e));
  OD_TRY(od_mem_new(&s->work, od_prim_md(&s->prim, dnnl_query_scratchpad_md), e));
  if (bias) OD_TRY(od_mem_new(&s->b, dnnl_primitive_desc_query_md(s->prim.pd, dnnl_query_weights_md, 1), e));
  d->flops = od_cpu_conv_flops(&s->shape);
  d->label = od_prim_impl(&s->prim);
  return OD_OK;
}

typedef struct {
  char *to;
  const char *from;
} copying;

static void copy_part(const void *args, int chunk, int64_t begin, int64_t end) {
  (void)chunk;
  const copying *c = args;
  memcpy(c->to + begin, c->from + begin, (size_t)(end - begin));
}

/* The library adds to what lies where the result goes: nothing to do where the planner gave the result the other map's memory. */
static void lay_out_other(const self *s, const od_cpu_call *c) {
  if (s->at_other < 0 || c->in[s->at_other] == c->out[0]) return;
  const int64_t size = s->shape.n * s->shape.oh * s->shape.ow * s->shape.o * (s->type == OD_BF16 ? 2 : 4);
  od_cpu_for(od_cpu_chunks(c->cpu, size, 1 << 16), size, copy_part, &(copying){c->out[0], c->in[s->at_other]});
}

static od_status run(void *self_, const od_cpu_call *c) {
  self *s = self_;
  void *packed;
  float *bias;
  OD_TRY(od_cpu_weights_get(s->weights, c, &packed, &bias));
  lay_out_other(s, c);
  od_mem_set(s->x, c->in[0]);
  od_mem_set(s->w, packed);
  od_mem_set(s->y, c->out[0]);
  od_mem_set(s->work, c->scratch + s->at_work);
  dnnl_exec_arg_t args[5] = {{DNNL_ARG_SRC, s->x}, {DNNL_ARG_WEIGHTS, s->w}, {DNNL_ARG_DST, s->y}, {DNNL_ARG_SCRATCHPAD, s->work}};
  int n = 4;
  if (s->b) {
    od_mem_set(s->b, bias);
    args[n++] = (dnnl_exec_arg_t){DNNL_ARG_BIAS, s->b};
  }
  return od_prim_run(&s->prim, c->cpu->stream, n, args);
}

const od_cpu_kernel od_cpu_conv2d = {.name = "conv2d", .ops = (const char *const[]){"conv2d", "depthwise_conv2d", NULL},
                                     .match = match, .create = create, .run = run, .destroy = destroy};

/* Offered first. Where the library cannot add, the one above takes the node. */
const od_cpu_kernel od_cpu_conv2d_adding = {.name = "conv2d", .ops = (const char *const[]){"conv2d", NULL},
                                            .match = match_adding, .create = create, .run = run, .destroy = destroy};
