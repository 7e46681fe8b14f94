/* The heavy nodes: convolutions, products, pooling, batch norm. NHWC, weights HWIO, float32. */
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
  const float *x;
  int64_t h, w, ch, oh, ow, kh, kw, sy, sx, dy, dx, top, left;
} window;

/* The patch under output pixel r: [kh, kw, ch]; a 1x1 without padding is the input itself. */
static const float *patch(const void *ctx, int64_t r, float *room) {
  const window *p = ctx;
  int64_t b = r / (p->oh * p->ow), oy = r / p->ow % p->oh, ox = r % p->ow;
  const float *x = p->x + b * p->h * p->w * p->ch;
  int64_t y0 = oy * p->sy - p->top, x0 = ox * p->sx - p->left;
  if (p->kh == 1 && p->kw == 1 && y0 >= 0 && x0 >= 0 && y0 < p->h && x0 < p->w) return x + (y0 * p->w + x0) * p->ch;
  float *o = room;
  for (int64_t ky = 0; ky < p->kh; ky++) {
    int64_t y = y0 + ky * p->dy;
    for (int64_t kx = 0; kx < p->kw; kx++, o += p->ch) {
      int64_t xx = x0 + kx * p->dx;
      if (y < 0 || y >= p->h || xx < 0 || xx >= p->w)
        memset(o, 0, (size_t)p->ch * sizeof *o);
      else
        memcpy(o, x + (y * p->w + xx) * p->ch, (size_t)p->ch * sizeof *o);
    }
  }
  return room;
}

static od_status make_window(const tg_call *c, window *p, int64_t kh, int64_t kw) {
  const od_tensor *x = tg_in(c, 0);
  *p = (window){.x = x->data,
                .h = x->shape.dim[1],
                .w = x->shape.dim[2],
                .ch = x->shape.dim[3],
                .kh = kh,
                .kw = kw,
                .dy = 1,
                .dx = 1};
  OD_TRY(pair(c, "strides", &p->sy, &p->sx));
  if (tg_attr_find(c->node, "dilations")) OD_TRY(pair(c, "dilations", &p->dy, &p->dx));
  OD_TRY(tg_window(c, 0, p->h, kh, p->sy, p->dy, &p->oh, &p->top));
  return tg_window(c, 1, p->w, kw, p->sx, p->dx, &p->ow, &p->left);
}

static od_status conv2d_run(tg_call *c) {
  const od_tensor *x = tg_in(c, 0), *w = tg_in(c, 1);
  window p;
  OD_TRY(check_layout(c));
  OD_TRY(tg_rank(c, 0, 4));
  OD_TRY(tg_rank(c, 1, 4));
  if (w->shape.dim[2] != x->shape.dim[3])
    return tg_fail(c, "the input has %lld channels, the weights are for %lld", (long long)x->shape.dim[3],
                   (long long)w->shape.dim[2]);
  OD_TRY(make_window(c, &p, w->shape.dim[0], w->shape.dim[1]));
  int64_t n = w->shape.dim[3], pixels = x->shape.dim[0] * p.oh * p.ow;
  OD_TRY(tg_new_out(c, 0, OD_F32, &OD_SHAPE(x->shape.dim[0], p.oh, p.ow, n)));
  OD_TRY(tg_work(c, pixels, p.kh * p.kw * (p.ch + 1) * (n + 1)));
  return tg_gemm_rows(c->out[0].t.data, pixels, p.kh * p.kw * p.ch, n, w->data, false, patch,
                      &p);
}

/* Weights [kh, kw, ch, multiplier]; output channel c*multiplier + m. */
static od_status depthwise_run(tg_call *c) {
  const od_tensor *x = tg_in(c, 0), *w = tg_in(c, 1);
  window p;
  OD_TRY(check_layout(c));
  OD_TRY(tg_rank(c, 0, 4));
  OD_TRY(tg_rank(c, 1, 4));
  if (w->shape.dim[2] != x->shape.dim[3])
    return tg_fail(c, "the input has %lld channels, the weights are for %lld", (long long)x->shape.dim[3],
                   (long long)w->shape.dim[2]);
  OD_TRY(make_window(c, &p, w->shape.dim[0], w->shape.dim[1]));
  int64_t mult = w->shape.dim[3], n = p.ch * mult, batch = x->shape.dim[0];
  OD_TRY(tg_new_out(c, 0, OD_F32, &OD_SHAPE(batch, p.oh, p.ow, n)));
  OD_TRY(tg_work(c, batch * p.oh * p.ow, p.kh * p.kw * (n + 1)));
  float *out = c->out[0].t.data;
  const float *weights = w->data;
#pragma omp parallel for if (batch * p.oh * p.ow * n > 1 << 19)
  for (int64_t row = 0; row < batch * p.oh; row++) {
    const float *in = p.x + row / p.oh * p.h * p.w * p.ch;
    for (int64_t ox = 0; ox < p.ow; ox++) {
      float *o = out + (row * p.ow + ox) * n;
      memset(o, 0, (size_t)n * sizeof *o);
      for (int64_t k = 0; k < p.kh * p.kw; k++) {
        int64_t y = row % p.oh * p.sy - p.top + k / p.kw * p.dy, xx = ox * p.sx - p.left + k % p.kw * p.dx;
        if (y < 0 || y >= p.h || xx < 0 || xx >= p.w) continue;
        const float *a = in + (y * p.w + xx) * p.ch, *b = weights + k * n;
        if (mult == 1)
          for (int64_t i = 0; i < n; i++) o[i] += a[i] * b[i];
        else
          for (int64_t i = 0; i < n; i++) o[i] += a[i / mult] * b[i];
      }
    }
  }
  return OD_OK;
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
  return tg_gemm(c->out[0].t.data, a->data, b->data, m, k, n, ta, tb);
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
    OD_TRY(tg_gemm((float *)c->out[0].t.data + i * m * n, (const float *)a->data + ia * m * k,
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
  bool mean = c->kernel->arg;
  OD_TRY(check_layout(c));
  OD_TRY(tg_rank(c, 0, 4));
  OD_TRY(pair(c, "ksize", &kh, &kw));
  OD_TRY(make_window(c, &p, kh, kw));
  OD_TRY(tg_new_out(c, 0, OD_F32, &OD_SHAPE(batch, p.oh, p.ow, p.ch)));
  OD_TRY(tg_work(c, batch * p.oh * p.ow, (kh < p.h ? kh : p.h) * (kw < p.w ? kw : p.w) * (p.ch + 1)));
  float *out = c->out[0].t.data;
#pragma omp parallel for if (batch * p.oh * p.ow * p.ch > 1 << 19)
  for (int64_t r = 0; r < batch * p.oh * p.ow; r++) {
    const float *in = p.x + r / (p.oh * p.ow) * p.h * p.w * p.ch;
    int64_t y0 = r / p.ow % p.oh * p.sy - p.top, x0 = r % p.ow * p.sx - p.left;
    int64_t y1 = y0 + kh < p.h ? y0 + kh : p.h, x1 = x0 + kw < p.w ? x0 + kw : p.w;
    y0 = y0 < 0 ? 0 : y0;
    x0 = x0 < 0 ? 0 : x0;
    float *o = out + r * p.ch;
    for (int64_t i = 0; i < p.ch; i++) o[i] = mean ? 0 : -INFINITY;
    for (int64_t y = y0; y < y1; y++)
      for (int64_t xx = x0; xx < x1; xx++) {
        const float *a = in + (y * p.w + xx) * p.ch;
        if (mean)
          for (int64_t i = 0; i < p.ch; i++) o[i] += a[i];
        else
          for (int64_t i = 0; i < p.ch; i++) o[i] = a[i] > o[i] ? a[i] : o[i];
      }
    int64_t count = (y1 - y0) * (x1 - x0);
    for (int64_t i = 0; mean && i < p.ch; i++) o[i] /= (float)count;
  }
  return OD_OK;
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
    {"Conv2D", "T,T->T", CONV_ATTRS " use_cudnn_on_gpu?", conv2d_run, 0},
    {"DepthwiseConv2dNative", "T,T->T", CONV_ATTRS, depthwise_run, 0},
    {"FusedBatchNorm", "T,T,T,T,T->T,T,T,T,T", "T " NORM_ATTRS, batch_norm_run, 0},
    {"FusedBatchNormV2", "T,U,U,U,U->T,U,U,U,U", "T U " NORM_ATTRS, batch_norm_run, 0},
    {"FusedBatchNormV3", "T,U,U,U,U->T,U,U,U,U,U", "T U " NORM_ATTRS, batch_norm_run, 0},
    {"MatMul", "T,T->T", "T transpose_a? transpose_b? grad_a? grad_b?", matmul_run, 0},
    {"MaxPool", "T->T", "T=float ksize strides padding data_format? explicit_paddings?", pool_run, 0},
    {0},
};
