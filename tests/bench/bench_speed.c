/* bench_speed CONFIG [--inference] [--bf16] [--batch=N] [--height=N --width=N] [--rounds=N]: one row of `make bench`. Our step beside
 * the convolutions and products of the very same step run alone: the library may choose every layout ("any"), weights are packed, nothing is reordered. Both
 * in turn, in one process; medians. Shapes come from the graph. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/report.h"
#include "engine/backend.h"
#include "engine/cpu/dnnl_compat.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "train/rehearsal.h"

#define OK(expr)                                                                                                       \
  do {                                                                                                                 \
    if ((expr) != OD_OK) die(od_message());                                                                            \
  } while (0)
#define DNNL(expr)                                                                                                     \
  do {                                                                                                                 \
    if ((expr) != dnnl_success) die(#expr);                                                                            \
  } while (0)

static void die(const char *what) {
  fprintf(stderr, "bench_speed: %s\n", what);
  exit(1);
}

typedef struct {
  od_conv_shape shape;
  od_pass pass;
  int count; /* nodes of this shape */
  dnnl_primitive_desc_t pd;
  dnnl_primitive_t prim;
  dnnl_memory_t mem[4]; /* x, w, y, scratch */
  bool depthwise, product; /* product: a matrix product of `matmul` */
  od_matmul_shape matmul;
} kernel;

typedef struct {
  kernel *k;
  int n;
  double flops;
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  size_t need[4]; /* bytes of the largest memory of each kind */
  char *data[4];
} kernels;

/* ---------------------------------------------------------------------------------------------- convolutions of a graph */
static void add(kernels *all, const od_node *n, od_pass pass, const od_shape *x, const od_shape *w, const od_shape *y) {
  const od_conv_params *p = n->params;
  const od_conv_geometry g = od_conv_resolve(p, x->dim[1], x->dim[2], w->dim[0], w->dim[1]);
  const bool depthwise = strncmp(n->op->name, "depthwise", 9) == 0;
  kernel k = {.pass = pass, .count = 1, .depthwise = depthwise};
  k.shape = (od_conv_shape){.n = x->dim[0],
                            .h = x->dim[1],
                            .w = x->dim[2],
                            .c = x->dim[3],
                            .oh = y->dim[1],
                            .ow = y->dim[2],
                            .o = y->dim[3],
                            .kh = w->dim[0],
                            .kw = w->dim[1],
                            .groups = depthwise ? x->dim[3] : 1,
                            .stride_h = p->stride_h,
                            .stride_w = p->stride_w,
                            .dilation_h = p->dilation_h,
                            .dilation_w = p->dilation_w,
                            .pad_top = g.pad_top,
                            .pad_left = g.pad_left};
  const od_conv_shape *s = &k.shape;
  k.shape.pad_bottom = (s->oh - 1) * s->stride_h + (s->kh - 1) * s->dilation_h + 1 - s->h - g.pad_top;
  k.shape.pad_right = (s->ow - 1) * s->stride_w + (s->kw - 1) * s->dilation_w + 1 - s->w - g.pad_left;
  all->flops += 2.0 * (double)(s->n * s->oh * s->ow) * (double)(s->o * (s->c / s->groups)) * (double)(s->kh * s->kw);
  for (int i = 0; i < all->n; i++)
    if (!all->k[i].product && all->k[i].pass == pass && memcmp(&all->k[i].shape, &k.shape, sizeof k.shape) == 0) {
      all->k[i].count++;
      return;
    }
  all->k[all->n++] = k;
}

static void add_product(kernels *all, const od_node *n, const od_shape *a, const od_shape *b) {
  const od_matmul_params *p = n->params;
  kernel k = {.count = 1, .product = true};
  k.matmul = (od_matmul_shape){.m = a->dim[p->transpose_a],
                               .k = a->dim[!p->transpose_a],
                               .n = b->dim[!p->transpose_b],
                               .a_row = p->transpose_a ? 1 : a->dim[1],
                               .a_col = p->transpose_a ? a->dim[1] : 1,
                               .b_row = p->transpose_b ? 1 : b->dim[1],
                               .b_col = p->transpose_b ? b->dim[1] : 1};
  all->flops += 2.0 * (double)k.matmul.m * (double)k.matmul.n * (double)k.matmul.k;
  all->k[all->n++] = k;
}

/* Nodes that the program computes: what leads to its outputs and, in training, to the updates. */
static bool *needed_nodes(const od_rehearsal *r) {
  const size_t n = od_graph_size(r->graph);
  bool *needed = calloc(n + 1, sizeof *needed);
  if (!needed) die("memory");
  for (int i = 0; i < r->n_fetches; i++)
    if (od_has(r->outputs[i])) needed[r->outputs[i].node->id] = true;
  for (size_t i = 0; od_has(r->train.total_loss) && i < od_graph_updates(r->graph); i++)
    needed[od_graph_update(r->graph, i)->value.node->id] = true;
  for (size_t i = n; i-- > 0;) {
    const od_node *node = od_graph_node(r->graph, i);
    for (int k = 0; needed[i] && k < node->n_in; k++)
      if (od_has(node->in[k])) needed[node->in[k].node->id] = true;
  }
  return needed;
}

/* Types of every node for the shapes that the rehearsal feeds; then the convolutions among them. */
static void find(kernels *all, const od_rehearsal *r) {
  const size_t n = od_graph_size(r->graph);
  od_type **types = calloc(n + 1, sizeof *types);
  bool *needed = needed_nodes(r);
  all->k = calloc(n + 1, sizeof *all->k);
  if (!types || !all->k) die("memory");
  for (size_t i = 0; i < n; i++) {
    const od_node *node = od_graph_node(r->graph, i);
    types[i] = calloc((size_t)node->op->n_out, sizeof(od_type));
    if (!types[i]) die("memory");
    memcpy(types[i], node->out, sizeof(od_type) * (size_t)node->op->n_out);
    for (int k = 0; k < r->n_feeds; k++)
      if (r->inputs[k].node == node) types[i][0].shape = r->shapes[k];
    if (node->op->flags & OD_OP_SOURCE) continue;
    od_type *in = calloc((size_t)node->n_in + 1, sizeof *in);
    bool *present = calloc((size_t)node->n_in + 1, 1);
    if (!in || !present) die("memory");
    for (int k = 0; k < node->n_in; k++) {
      present[k] = od_has(node->in[k]);
      in[k] = present[k] ? types[node->in[k].node->id][node->in[k].out] : od_type_of(OD_NONE);
    }
    OK(od_infer_node(types[i], node, in, present));
    const char *op = needed[i] ? node->op->name : "";
    if (strncmp(op, "depthwise_", 10) == 0) op += 10;
    if (strcmp(op, "conv2d") == 0) add(all, node, OD_PASS_FORWARD, &in[0].shape, &in[1].shape, &types[i][0].shape);
    if (strcmp(op, "conv2d_grad_input") == 0)
      add(all, node, OD_PASS_DATA, &types[i][0].shape, &in[1].shape, &in[0].shape);
    if (strcmp(op, "conv2d_grad_filter") == 0)
      add(all, node, OD_PASS_WEIGHTS, &in[0].shape, &types[i][0].shape, &in[1].shape);
    if (strcmp(op, "matmul") == 0) add_product(all, node, &in[0].shape, &in[1].shape);
    free(in);
    free(present);
  }
  for (size_t i = 0; i < n; i++) free(types[i]);
  free(types);
  free(needed);
}

/* ------------------------------------------------------------------------------------------------------ primitives, runs */
static dnnl_primitive_desc_t describe(dnnl_engine_t e, const od_conv_shape *s, od_pass pass, dnnl_prop_kind_t prop,
                                      od_mdp x, od_mdp w, od_mdp y, const_dnnl_primitive_desc_t hint,
                                      const_dnnl_primitive_attr_t attr) {
  const dnnl_dims_t st = {s->stride_h, s->stride_w}, di = {s->dilation_h - 1, s->dilation_w - 1};
  const dnnl_dims_t pl = {s->pad_top, s->pad_left}, pr = {s->pad_bottom, s->pad_right};
  const dnnl_alg_kind_t direct = dnnl_convolution_direct;
  dnnl_primitive_desc_t pd = NULL;
#if DNNL_VERSION_MAJOR >= 3
  if (pass == OD_PASS_DATA)
    DNNL(dnnl_convolution_backward_data_primitive_desc_create(&pd, e, direct, x, w, y, st, di, pl, pr, hint, attr));
  else if (pass == OD_PASS_WEIGHTS)
    DNNL(dnnl_convolution_backward_weights_primitive_desc_create(&pd, e, direct, x, w, NULL, y, st, di, pl, pr, hint,
                                                                 attr));
  else
    DNNL(dnnl_convolution_forward_primitive_desc_create(&pd, e, prop, direct, x, w, NULL, y, st, di, pl, pr, attr));
#else
  dnnl_convolution_desc_t c;
  if (pass == OD_PASS_DATA)
    DNNL(dnnl_dilated_convolution_backward_data_desc_init(&c, direct, x, w, y, st, di, pl, pr));
  else if (pass == OD_PASS_WEIGHTS)
    DNNL(dnnl_dilated_convolution_backward_weights_desc_init(&c, direct, x, w, NULL, y, st, di, pl, pr));
  else
    DNNL(dnnl_dilated_convolution_forward_desc_init(&c, prop, direct, x, w, NULL, y, st, di, pl, pr));
  DNNL(dnnl_primitive_desc_create(&pd, &c, attr, e, hint));
#endif
  return pd;
}

static od_mdp query(const kernel *k, dnnl_query_t q) { return dnnl_primitive_desc_query_md(k->pd, q, 0); }

static void own_memory(kernels *all, kernel *k, const dnnl_query_t *what) {
  for (int i = 0; i < 4; i++) {
    OK(od_mem_new(&k->mem[i], query(k, what[i]), all->engine));
    const size_t bytes = od_md_bytes(query(k, what[i]));
    if (bytes > all->need[i]) all->need[i] = bytes;
  }
}

static void make_product(kernels *all, kernel *k, bool bf16) {
  static const dnnl_query_t what[4] = {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md, dnnl_query_scratchpad_md};
  od_prim prim;
  OK(od_dnnl_matmul(&prim, all->engine, &k->matmul, bf16 ? OD_BF16 : OD_F32, OD_F32));
  k->pd = prim.pd;
  k->prim = prim.prim;
  own_memory(all, k, what);
}

static void make(kernels *all, kernel *k, bool bf16, bool inference) {
  const od_conv_shape *s = &k->shape;
  const od_dtype type = bf16 ? OD_BF16 : OD_F32;
  od_md x, w, dw, y;
  OK(od_md_new(&x, 4, (int64_t[]){s->n, s->c, s->h, s->w}, NULL, type));
  OK(od_md_new(&y, 4, (int64_t[]){s->n, s->o, s->oh, s->ow}, NULL, type));
  const int64_t plain[] = {s->o, s->c, s->kh, s->kw}, grouped[] = {s->groups, s->o / s->groups, 1, s->kh, s->kw};
  OK(od_md_new(&w, k->depthwise ? 5 : 4, k->depthwise ? grouped : plain, NULL, type));
  OK(od_md_new(&dw, k->depthwise ? 5 : 4, k->depthwise ? grouped : plain, NULL, OD_F32));
  dnnl_primitive_attr_t attr;
  DNNL(dnnl_primitive_attr_create(&attr));
  DNNL(dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user));
  const dnnl_prop_kind_t prop = inference ? dnnl_forward_inference : dnnl_forward_training;
  dnnl_primitive_desc_t hint =
      describe(all->engine, s, OD_PASS_FORWARD, prop, od_md_of(&x), od_md_of(&w), od_md_of(&y), NULL, attr);
  k->pd = k->pass == OD_PASS_FORWARD
              ? hint
              : describe(all->engine, s, k->pass, prop, od_md_of(&x), od_md_of(k->pass == OD_PASS_WEIGHTS ? &dw : &w),
                         od_md_of(&y), hint, attr);
  if (hint != k->pd) dnnl_primitive_desc_destroy(hint);
  dnnl_primitive_attr_destroy(attr);
  DNNL(dnnl_primitive_create(&k->prim, k->pd));
  const dnnl_query_t what[4] = {k->pass == OD_PASS_DATA ? dnnl_query_diff_src_md : dnnl_query_src_md,
                                k->pass == OD_PASS_WEIGHTS ? dnnl_query_diff_weights_md : dnnl_query_weights_md,
                                k->pass == OD_PASS_FORWARD ? dnnl_query_dst_md : dnnl_query_diff_dst_md,
                                dnnl_query_scratchpad_md};
  own_memory(all, k, what);
  od_md_free(&x), od_md_free(&w), od_md_free(&dw), od_md_free(&y);
}

static void run_all(kernels *all, double *dense, double *depthwise) {
  *dense = *depthwise = 0;
  for (int m = 0; m < 3; m++) memset(all->data[m], 0x3c, all->need[m]); /* what goes round neither grows nor vanishes */
  for (int i = 0; i < all->n; i++) {
    kernel *k = &all->k[i];
    const dnnl_exec_arg_t args[] = {{k->pass == OD_PASS_DATA ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, k->mem[0]},
                                    {k->pass == OD_PASS_WEIGHTS ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, k->mem[1]},
                                    {k->pass == OD_PASS_FORWARD ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, k->mem[2]},
                                    {DNNL_ARG_SCRATCHPAD, k->mem[3]}};
    const double t = od_now();
    for (int c = 0; c < k->count; c++) {
      DNNL(dnnl_primitive_execute(k->prim, all->stream, 4, args));
      DNNL(dnnl_stream_wait(all->stream));
    }
    *(k->depthwise ? depthwise : dense) += od_now() - t;
    /* gradients went over the weights that the next kernel reads: small numbers again, so that nothing overflows */
    if (k->pass == OD_PASS_WEIGHTS) memset(all->data[1], 0x3c, all->need[1]);
  }
}

static void prepare(kernels *all, const od_rehearsal *r, bool bf16, bool inference) {
  DNNL(dnnl_engine_create(&all->engine, dnnl_cpu, 0));
  DNNL(dnnl_stream_create(&all->stream, all->engine, dnnl_stream_default_flags));
  find(all, r);
  for (int i = 0; i < all->n; i++) {
    if (all->k[i].product) make_product(all, &all->k[i], bf16);
    else make(all, &all->k[i], bf16, inference);
  }
  for (int m = 0; m < 4; m++) {
    all->data[m] = od_alloc(all->need[m] + 64);
    if (!all->data[m]) die("memory");
    memset(all->data[m], 0x3c, all->need[m] + 64); /* 0.0115 in either type */
  }
  for (int i = 0; i < all->n; i++)
    for (int m = 0; m < 4; m++) od_mem_set(all->k[i].mem[m], all->data[m]);
}

/* ---------------------------------------------------------------------------------------------------------------- a row */
static int by_value(const void *a, const void *b) {
  return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}
static double median(double *v, int n) {
  qsort(v, (size_t)n, sizeof *v, by_value);
  return v[n / 2];
}

static const char *flag(int argc, char **argv, const char *name) {
  const size_t n = strlen(name);
  for (int i = 2; i < argc; i++)
    if (strncmp(argv[i], name, n) == 0) return argv[i][n] == '=' ? argv[i] + n + 1 : "1";
  return NULL;
}

enum { ROUNDS_MAX = 1000 };

int main(int argc, char **argv) {
  const double began = od_now();
  if (argc < 2) die("which config?");
  const bool inference = flag(argc, argv, "--inference") != NULL, bf16 = flag(argc, argv, "--bf16") != NULL;
  const char *batch = flag(argc, argv, "--batch"), *text = flag(argc, argv, "--rounds");
  const char *height = flag(argc, argv, "--height"), *width = flag(argc, argv, "--width");
  const int rounds = text ? (int)strtol(text, NULL, 10) : 7;
  if (rounds < 1 || rounds > ROUNDS_MAX) die("--rounds is 1 to 1000");
  static double ours[ROUNDS_MAX], dense[ROUNDS_MAX], depthwise[ROUNDS_MAX], sums[ROUNDS_MAX], ratios[ROUNDS_MAX];
  od_pipeline pipeline;
  od_rehearsal r;
  kernels all = {0};
  OK(od_pipeline_load(&pipeline, argv[1], NULL, 0));
  const od_rehearsal_spec spec = {.config = pipeline.config,
                                  .inference = inference,
                                  .batch = batch ? strtol(batch, NULL, 10) : 0,
                                  .height = height ? strtol(height, NULL, 10) : 0,
                                  .width = width ? strtol(width, NULL, 10) : 0,
                                  .engine = {.name = "cpu", .precision = bf16 ? OD_MIXED_BF16 : OD_FP32}};
  OK(od_rehearsal_new(&r, &spec));
  if (bf16 && od_engine_get_options(r.engine)->precision != OD_MIXED_BF16) {
    printf("%-10s %-5s the processor has no bfloat16\n", inference ? "inference" : "train", "bf16");
    return 0;
  }
  OK(od_rehearsal_step(&r, NULL));
  const double first = od_now() - began;
  OK(od_rehearsal_step(&r, NULL));
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage); /* before the kernels' own buffers */
  prepare(&all, &r, bf16, inference);
  run_all(&all, &dense[0], &depthwise[0]);
  for (int i = 0; i < rounds; i++) {
    const double t = od_now();
    OK(od_rehearsal_step(&r, NULL));
    ours[i] = od_now() - t;
    run_all(&all, &dense[i], &depthwise[i]);
    sums[i] = dense[i] + depthwise[i];
    ratios[i] = ours[i] / sums[i];
  }
  od_program_profile(r.program, true);
  for (int i = 0; i < (rounds + 1) / 2; i++) OK(od_rehearsal_step(&r, NULL));
  size_t n;
  const od_profile_step *s = od_program_profile_steps(r.program, &n);
  double total = 0, norm = 0, conv = 0, flops = 0;
  for (size_t i = 0; i < n; i++) {
    total += s[i].seconds;
    if (s[i].flops > 0) conv += s[i].seconds;
    flops += s[i].flops;
    if (strstr(s[i].op, "batch_norm") || strstr(s[i].kernel, "batch_norm")) norm += s[i].seconds;
  }
  if (!(flops > 0.99 * all.flops && flops < 1.01 * all.flops)) die("the step and the kernels alone do not compute the same");
  const double ms = 1e3 * median(ours, rounds);
  printf("%-10s %-5s %4lld %9.1f %9.1f %9.1f %6.2f %7.1f %9.1f %6.1f %7.1f %7.0f %7.2f\n",
         inference ? "inference" : "train", bf16 ? "bf16" : "fp32", (long long)r.batch, ms, 1e3 * median(sums, rounds),
         1e3 * median(depthwise, rounds), median(ratios, rounds), 1e3 * conv, 1e3 * norm, 100 * norm / total,
         1e3 * (double)r.batch / ms, (double)usage.ru_maxrss / 1024, first);
  return 0;
}
