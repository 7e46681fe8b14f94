/* The heavy nodes: convolutions, products and pooling on the cpu engine's kernels, batch norm. NHWC, weights HWIO, float32. */
#include <math.h>
#include <string.h>

#include "tfgraph/kernel.h"

/* Strides or dilations of a node: [1, y, x, 1]. */
static od_status pair(const tg_call *c, const char *name, int64_t *y, int64_t *x) {
  int64_t v[4] = {1, 1, 1, 1};
  int n = tg_attr_ints(c->node, name, v, 4);
  if (n != 4 && !(n == 0 && strcmp(name, "dilations") == 0)) return tg_fail(c, "%s must hold 4 numbers", name);
  if (v[0] != 1 || v[3] != 1) return tg_fail(c, "%s over the batch or the channels", name);
  *y = v[1];
  *x = v[2];
  return OD_OK;
}

static od_status check_layout(const tg_call *c) {
  const od_view *v = tg_attr_find(c->node, "data_format");
  if (v && !tg_attr_is(c->node, "data_format", "NHWC"))
    return od_fail(OD_EUNSUPPORTED, "node %s (%s): only data_format NHWC is supported", c->node->name, c->node->op);
  if (tg_in(c, 0)->dtype != OD_F32) return tg_unsupported(c, tg_in(c, 0)->dtype);
  return OD_OK;
}

typedef struct {
  int64_t h, w, ch, oh, ow, kh, kw, sy, sx, dy, dx, top, left;
} window;

static od_status make_window(const tg_call *c, window *p, int64_t kh, int64_t kw) {
  const od_tensor *x = tg_in(c, 0);
  *p = (window){.h = x->shape.dim[1], .w = x->shape.dim[2], .ch = x->shape.dim[3], .kh = kh, .kw = kw, .dy = 1, .dx = 1};
  OD_TRY(pair(c, "strides", &p->sy, &p->sx));
  if (tg_attr_find(c->node, "dilations")) OD_TRY(pair(c, "dilations", &p->dy, &p->dx));
  OD_TRY(tg_window(c, 0, p->h, kh, p->sy, p->dy, &p->oh, &p->top));
  return tg_window(c, 1, p->w, kw, p->sx, p->dx, &p->ow, &p->left);
}

/* The engine's kernels, and the place where it keeps what belongs to this node. */
static od_status engine(const tg_call *c, od_single_op ***op) {
  *op = &((tg_node *)(uintptr_t)c->node)->kept;
  return c->graph->single ? OD_OK : od_single_new(&c->graph->single);
}

/* ------------------------------------------------------------------------------------------------------- convolution */
/* Filter and bias of a convolution, with what follows folded in. */
typedef struct {
  const tg_call *c;
  tg_value plain;
  float *filter, *bias;
  int64_t n; /* output channels */
} weights;

static od_status constant_of(const tg_call *c, const tg_node *n, int k, int64_t count, tg_value *out) {
  const tg_edge *e = &n->in[k];
  while (!e->node->is_const) e = &e->node->in[0]; /* fuse.c saw a constant there */
  OD_TRY(tg_constant(c->graph, e->node, out));
  od_status st = tg_materialize(c->graph, out);
  if (st == OD_OK && (out->t.dtype != OD_F32 || out->t.shape.rank != 1 || out->t.shape.dim[0] != count))
    st = od_fail(OD_EDATA, "node %s (%s): input %d does not fit %lld channels", n->name, n->op, k, (long long)count);
  if (st != OD_OK) tg_value_drop(c->graph, out);
  return st;
}

/* Channel o: filter * scale, bias = beta + (bias - mean) * scale with scale = gamma / sqrt(variance + epsilon). */
static od_status fold_norm(weights *w, const tg_node *norm, const float *plain) {
  tg_value v[4] = {0};
  const float *f[4];
  od_status st = OD_OK;
  int got = 0;
  for (; got < 4; got++) {
    OD_GO(st, constant_of(w->c, norm, got + 1, w->n, &v[got]));
    f[got] = v[got].t.data;
  }
  float epsilon = tg_attr_float(norm, "epsilon", 0.0001f);
  int64_t size = od_tensor_size(&w->plain.t);
  OD_GO(st, od_new(&w->filter, (size_t)size, sizeof *w->filter));
  float *scale;
  OD_GO(st, od_new(&scale, (size_t)w->n, sizeof *scale));
  for (int64_t o = 0; o < w->n; o++) {
    scale[o] = f[0][o] / sqrtf(f[3][o] + epsilon);
    w->bias[o] = f[1][o] + (w->bias[o] - f[2][o]) * scale[o];
  }
  for (int64_t i = 0; i < size; i += w->n)
    for (int64_t o = 0; o < w->n; o++) w->filter[i + o] = plain[i + o] * scale[o];
  od_free(scale);
done:
  while (got-- > 0) tg_value_drop(w->c->graph, &v[got]);
  return st;
}

static od_status get_weights(void *ctx, const float **filter, const float **bias) {
  weights *w = ctx;
  const tg_node *n = w->c->node;
  w->plain = tg_value_share(w->c->in[1]);
  OD_TRY(tg_materialize(w->c->graph, &w->plain));
  *filter = w->plain.t.data;
  *bias = NULL;
  if (!n->bias && !n->norm) return OD_OK;
  OD_TRY(od_new(&w->bias, (size_t)w->n, sizeof *w->bias));
  memset(w->bias, 0, (size_t)w->n * sizeof *w->bias);
  if (n->bias) {
    tg_value v;
    OD_TRY(constant_of(w->c, n->bias, 1, w->n, &v));
    memcpy(w->bias, v.t.data, (size_t)w->n * sizeof *w->bias);
    tg_value_drop(w->c->graph, &v);
  }
  if (n->norm) OD_TRY(fold_norm(w, n->norm, *filter));
  if (n->norm) *filter = w->filter;
  *bias = w->bias;
  return OD_OK;
}

static void free_weights(weights *w) {
  tg_value_drop(w->c->graph, &w->plain);
  od_free(w->filter);
  od_free(w->bias);
}

/* Conv2D with weights [kh, kw, ch, n]; DepthwiseConv2dNative with [kh, kw, ch, multiplier], output channel c*multiplier + m. */
od_status tg_convolution(tg_call *c) {
  const od_tensor *x = tg_in(c, 0), *w = tg_in(c, 1);
  bool depthwise = c->kernel->arg;
  window p;
  OD_TRY(check_layout(c));
  OD_TRY(tg_rank(c, 0, 4));
  OD_TRY(tg_rank(c, 1, 4));
  if (w->shape.dim[2] != x->shape.dim[3])
    return tg_fail(c, "the input has %lld channels, the weights are for %lld", (long long)x->shape.dim[3],
                   (long long)w->shape.dim[2]);
  OD_TRY(make_window(c, &p, w->shape.dim[0], w->shape.dim[1]));
  int64_t mult = w->shape.dim[3], n = depthwise ? p.ch * mult : mult, batch = x->shape.dim[0];
  const od_shape y = OD_SHAPE(batch, p.oh, p.ow, n);
  OD_TRY(tg_new_out(c, 0, OD_F32, &y));
  OD_TRY(tg_work(c, batch * p.oh * p.ow, p.kh * p.kw * (depthwise ? 1 : p.ch + 1) * (n + 1)));
  weights wt = {.c = c, .n = n};
  od_single_conv conv = {
      .shape = {.n = batch, .h = p.h, .w = p.w, .c = p.ch, .oh = p.oh, .ow = p.ow, .o = n, .kh = p.kh, .kw = p.kw,
                .groups = depthwise ? p.ch : 1, .stride_h = p.sy, .stride_w = p.sx, .dilation_h = p.dy, .dilation_w = p.dx,
                .pad_top = p.top, .pad_left = p.left,
                .pad_bottom = (p.oh - 1) * p.sy + (p.kh - 1) * p.dy + 1 - p.h - p.top,
                .pad_right = (p.ow - 1) * p.sx + (p.kw - 1) * p.dx + 1 - p.w - p.left},
      .act = c->node->act, .bias = c->node->bias || c->node->norm, .constant = c->node->filter != NULL,
      .weights = get_weights, .ctx = &wt};
  if (od_shape_size(&y) == 0) return OD_OK;
  if (p.ch == 0 || od_tensor_size(x) == 0) { /* sums of nothing */
    if (conv.bias) return tg_fail(c, "no input channels in front of a bias");
    memset(c->out[0].t.data, 0, (size_t)od_shape_size(&y) * sizeof(float));
    return OD_OK;
  }
  od_single_op **op;
  OD_TRY(engine(c, &op));
  od_status st = od_single_conv_run(c->out[0].t.data, c->graph->single, op, &conv, x->data);
  free_weights(&wt);
  return od_fail_context(st, "node %s (%s)", c->node->name, c->node->op);
}

/* ---------------------------------------------------------------------------------------------------------- products */
static od_status product(tg_call *c, float *out, const float *a, const float *b, int64_t m, int64_t k, int64_t n, bool ta,
                         bool tb) {
  od_single_op **op;
  if (m == 0 || n == 0) return OD_OK;
  if (k == 0) {
    memset(out, 0, (size_t)(m * n) * sizeof *out);
    return OD_OK;
  }
  OD_TRY(engine(c, &op));
  const od_matmul_shape s = {.m = m, .n = n, .k = k, .a_row = ta ? 1 : k, .a_col = ta ? m : 1, .b_row = tb ? 1 : n,
                             .b_col = tb ? k : 1};
  od_status st = od_single_matmul_run(out, c->graph->single, op, &s, a, b);
  return od_fail_context(st, "node %s (%s)", c->node->name, c->node->op);
}

static od_status matmul_run(tg_call *c) {
  const od_tensor *a = tg_in(c, 0), *b = tg_in(c, 1);
  bool ta = tg_attr_bool(c->node, "transpose_a", false), tb = tg_attr_bool(c->node, "transpose_b", false);
  if (a->dtype != OD_F32) return tg_unsupported(c, a->dtype);
  OD_TRY(tg_rank(c, 0, 2));
  OD_TRY(tg_rank(c, 1, 2));
  int64_t m = a->shape.dim[ta], k = a->shape.dim[!ta], n = b->shape.dim[!tb];
  if (b->shape.dim[tb] != k)
    return tg_fail(c, "%lld columns against %lld rows", (long long)k, (long long)b->shape.dim[tb]);
  OD_TRY(tg_new_out(c, 0, OD_F32, &OD_SHAPE(m, n)));
  OD_TRY(tg_work(c, m, k * n));
  return product(c, c->out[0].t.data, a->data, b->data, m, k, n, ta, tb);
}

/* Products of the last two dimensions; those before must be equal (BatchMatMul) or are broadcast (V2). */
static od_status batch_matmul_run(tg_call *c) {
  const od_tensor *a = tg_in(c, 0), *b = tg_in(c, 1);
  bool ta = tg_attr_bool(c->node, "adj_x", false), tb = tg_attr_bool(c->node, "adj_y", false);
  if (a->dtype != OD_F32) return tg_unsupported(c, a->dtype);
  int ra = a->shape.rank, rb = b->shape.rank, rank = ra > rb ? ra : rb;
  if (ra < 2 || rb < 2) return tg_fail(c, "matrices of rank %d and %d", ra, rb);
  int64_t m = a->shape.dim[ra - 2 + ta], k = a->shape.dim[ra - 1 - ta], n = b->shape.dim[rb - 1 - tb];
  if (b->shape.dim[rb - 2 + tb] != k)
    return tg_fail(c, "%lld columns against %lld rows", (long long)k, (long long)b->shape.dim[rb - 2 + tb]);
  od_shape s = {.rank = rank};
  int64_t count = 1;
  for (int i = 0; i < rank - 2; i++) {
    int64_t da = i < rank - ra ? 1 : a->shape.dim[i - (rank - ra)],
            db = i < rank - rb ? 1 : b->shape.dim[i - (rank - rb)];
    if (da != db && da != 1 && db != 1) return tg_fail(c, "batches that do not fit");
    s.dim[i] = da == 1 ? db : da;
    count *= s.dim[i];
  }
  s.dim[rank - 2] = m;
  s.dim[rank - 1] = n;
  OD_TRY(tg_new_out(c, 0, OD_F32, &s));
  OD_TRY(tg_work(c, count * m, k * n));
  for (int64_t i = 0; i < count; i++) {
    int64_t ia = 0, ib = 0, sa = 1, sb = 1, rest = i;
    for (int d = rank - 3; d >= 0; d--) {
      int64_t da = d < rank - ra ? 1 : a->shape.dim[d - (rank - ra)],
              db = d < rank - rb ? 1 : b->shape.dim[d - (rank - rb)];
      int64_t at = rest % s.dim[d];
      rest /= s.dim[d];
      ia += da == 1 ? 0 : at * sa;
      ib += db == 1 ? 0 : at * sb;
      sa *= da;
      sb *= db;
    }
    OD_TRY(product(c, (float *)c->out[0].t.data + i * m * n, (const float *)a->data + ia * m * k,
                   (const float *)b->data + ib * k * n, m, k, n, ta, tb));
  }
  return OD_OK;
}

static od_status bias_run(tg_call *c) {
  const od_tensor *x = tg_in(c, 0), *b = tg_in(c, 1);
  OD_TRY(check_layout(c));
  OD_TRY(tg_rank(c, 1, 1));
  int64_t n = b->shape.dim[0];
  if (x->shape.rank < 2 || x->shape.dim[x->shape.rank - 1] != n)
    return tg_fail(c, "%lld biases do not fit", (long long)n);
  OD_TRY(tg_new_out(c, 0, OD_F32, &x->shape));
  const float *in = x->data, *bias = b->data;
  float *o = c->out[0].t.data;
  int64_t rows = n ? od_tensor_size(x) / n : 0;
#pragma omp parallel for if (rows * n > 1 << 20)
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < n; i++) o[r * n + i] = in[r * n + i] + bias[i];
  return OD_OK;
}

/* Maximum, or mean over what lies inside the picture. */
static od_status pool_run(tg_call *c) {
  const od_tensor *x = tg_in(c, 0);
  window p;
  int64_t kh, kw, batch = x->shape.dim[0];
  OD_TRY(check_layout(c));
  OD_TRY(tg_rank(c, 0, 4));
  OD_TRY(pair(c, "ksize", &kh, &kw));
  OD_TRY(make_window(c, &p, kh, kw));
  OD_TRY(tg_new_out(c, 0, OD_F32, &OD_SHAPE(batch, p.oh, p.ow, p.ch)));
  OD_TRY(tg_work(c, batch * p.oh * p.ow, (kh < p.h ? kh : p.h) * (kw < p.w ? kw : p.w) * (p.ch + 1)));
  if (od_tensor_size(&c->out[0].t) == 0) return OD_OK;
  const od_pool_shape shape = {.n = batch, .h = p.h, .w = p.w, .c = p.ch, .oh = p.oh, .ow = p.ow, .kh = kh, .kw = kw,
                               .stride_h = p.sy, .stride_w = p.sx, .pad_top = p.top, .pad_left = p.left,
                               .pad_bottom = (p.oh - 1) * p.sy + kh - p.h - p.top,
                               .pad_right = (p.ow - 1) * p.sx + kw - p.w - p.left};
  od_single_op **op;
  OD_TRY(engine(c, &op));
  od_status st = od_single_pool_run(c->out[0].t.data, c->graph->single, op, &shape, !c->kernel->arg, x->data);
  return od_fail_context(st, "node %s (%s)", c->node->name, c->node->op);
}

/* y = (x - mean) * scale / sqrt(variance + epsilon) + offset. In training mode mean and variance are the batch's. */
static od_status batch_norm_run(tg_call *c) {
  const od_tensor *x = tg_in(c, 0);
  OD_TRY(check_layout(c));
  OD_TRY(tg_rank(c, 0, 4));
  int64_t n = x->shape.dim[3], rows = n ? od_tensor_size(x) / n : 0;
  bool training = tg_attr_bool(c->node, "is_training", true);
  float epsilon = tg_attr_float(c->node, "epsilon", 0.0001f);
  for (int i = 1; i < 5; i++) {
    OD_TRY(tg_rank(c, i, 1));
    if (tg_in(c, i)->shape.dim[0] != n && !(training && i > 2 && tg_in(c, i)->shape.dim[0] == 0))
      return tg_fail(c, "input %d has %lld values for %lld channels", i, (long long)tg_in(c, i)->shape.dim[0],
                     (long long)n);
  }
  OD_TRY(tg_new_out(c, 0, OD_F32, &x->shape));
  for (int i = 1; i < c->n_out; i++) OD_TRY(tg_new_out(c, i, OD_F32, i == 5 ? &OD_SHAPE(0) : &OD_SHAPE(n)));
  const float *in = x->data, *scale = tg_in(c, 1)->data, *offset = tg_in(c, 2)->data;
  float *mean = c->out[1].t.data, *variance = c->out[2].t.data, *o = c->out[0].t.data;
  float *factor = c->out[3].t.data, *second = c->out[4].t.data;
  float exponential = tg_attr_float(c->node, "exponential_avg_factor", 1.0f);
  for (int64_t i = 0; i < n; i++) {
    if (!training) {
      mean[i] = ((const float *)tg_in(c, 3)->data)[i];
      variance[i] = ((const float *)tg_in(c, 4)->data)[i];
    } else {
      double sum = 0, square = 0;
      for (int64_t r = 0; r < rows; r++) sum += (double)in[r * n + i];
      double m = rows ? sum / (double)rows : 0;
      for (int64_t r = 0; r < rows; r++) square += ((double)in[r * n + i] - m) * ((double)in[r * n + i] - m);
      mean[i] = (float)m;
      variance[i] = rows ? (float)(square / (double)rows) : 0;
    }
    second[i] = variance[i];
    factor[i] = scale[i] / sqrtf(variance[i] + epsilon);
  }
#pragma omp parallel for if (rows * n > 1 << 20)
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < n; i++) o[r * n + i] = (in[r * n + i] - mean[i]) * factor[i] + offset[i];
  for (int64_t i = 0; i < n; i++) {
    factor[i] = mean[i]; /* reserve_space_1: the mean, as TensorFlow leaves it */
    if (training && rows > 1) variance[i] *= (float)rows / (float)(rows - 1);
    if (training && exponential != 1.0f && tg_in(c, 3)->shape.dim[0] == n) {
      mean[i] = ((const float *)tg_in(c, 3)->data)[i] * (1 - exponential) + mean[i] * exponential;
      variance[i] = ((const float *)tg_in(c, 4)->data)[i] * (1 - exponential) + variance[i] * exponential;
    }
  }
  return OD_OK;
}

#define CONV_ATTRS "T strides padding data_format? dilations? explicit_paddings?"
#define NORM_ATTRS "epsilon? data_format? is_training? exponential_avg_factor?"

const tg_kernel tg_kernels_nn[] = {
    {"AvgPool", "T->T", "T ksize strides padding data_format?", pool_run, 1},
    {"BatchMatMul", "T,T->T", "T adj_x? adj_y?", batch_matmul_run, 0},
    {"BatchMatMulV2", "T,T->T", "T adj_x? adj_y? grad_x? grad_y?", batch_matmul_run, 0},
    {"BiasAdd", "T,T->T", "T data_format?", bias_run, 0},
    {"Conv2D", "T,T->T", CONV_ATTRS " use_cudnn_on_gpu?", tg_convolution, 0},
    {"DepthwiseConv2dNative", "T,T->T", CONV_ATTRS, tg_convolution, 1},
    {"FusedBatchNorm", "T,T,T,T,T->T,T,T,T,T", "T " NORM_ATTRS, batch_norm_run, 0},
    {"FusedBatchNormV2", "T,U,U,U,U->T,U,U,U,U", "T U " NORM_ATTRS, batch_norm_run, 0},
    {"FusedBatchNormV3", "T,U,U,U,U->T,U,U,U,U,U", "T U " NORM_ATTRS, batch_norm_run, 0},
    {"MatMul", "T,T->T", "T transpose_a? transpose_b? grad_a? grad_b?", matmul_run, 0},
    {"MaxPool", "T->T", "T=float ksize strides padding data_format? explicit_paddings?", pool_run, 0},
    {0},
};
