/* max_pool and avg_pool over windows of [N,H,W,C], and their gradients. Padding never counts: a maximum is of the pixels there
 * are, an average is divided by their number, as TensorFlow. The gradient of a maximum goes to the FIRST largest pixel of the
 * window in row-major order; windows that overlap add up. */
#include <math.h>
#include <string.h>

#include "ops/convolution.h"
#include "ops/table.h"

static const char *const paddings[] = {"SAME", "VALID", NULL};
#define P(field, help) OD_PARAM_IN(od_pool_params, field, OD_P_INT, help, 1, 1 << 20)
static const od_param params[] = {
    P(window_h, "rows of a window"), P(window_w, "columns of a window"), P(stride_h, "rows from window to window"),
    P(stride_w, "columns from window to window"), OD_PARAM_ENUM(od_pool_params, padding, "SAME or VALID", paddings), {0}};

od_value od_max_pool(od_graph *g, od_value x, const od_pool_params *p) { return od_graph_add(g, &od_op_max_pool, &x, 1, p); }
od_value od_avg_pool(od_graph *g, od_value x, const od_pool_params *p) { return od_graph_add(g, &od_op_avg_pool, &x, 1, p); }

static od_status pooled(const od_infer *c, int x, od_shape *out) {
  OD_TRY(od_want(c, x, OD_F32, 4));
  const int64_t *d = c->in[x].shape.dim;
  od_conv_geometry g = od_pool_resolve(c->params, d[1] < 0 ? 0 : d[1], d[2] < 0 ? 0 : d[2]);
  *out = (od_shape){4, {d[0], d[1] < 0 ? -1 : g.out_h, d[2] < 0 ? -1 : g.out_w, d[3]}};
  return OD_OK;
}

static od_status infer(const od_infer *c) {
  c->out[0].dtype = OD_F32;
  return pooled(c, 0, &c->out[0].shape);
}

typedef struct {
  const od_pool_params *p;
  od_conv_geometry g;
  int64_t n, h, w, c;
} pool;

static pool view(const od_call *c, const od_tensor *x) {
  const int64_t *d = x->shape.dim;
  return (pool){c->params, od_pool_resolve(c->params, d[1], d[2]), d[0], d[1], d[2], d[3]};
}

/* The rows and columns of window (i,j) that lie in the image. */
typedef struct {
  int64_t top, bottom, left, right;
} window;
static window window_at(const pool *k, int64_t i, int64_t j) {
  int64_t r = i * k->p->stride_h - k->g.pad_top, s = j * k->p->stride_w - k->g.pad_left;
  int64_t b = r + k->p->window_h, e = s + k->p->window_w;
  return (window){r < 0 ? 0 : r, b > k->h ? k->h : b, s < 0 ? 0 : s, e > k->w ? k->w : e};
}

/* Runs body for every output (n, i, j, ch) with its window w and index o. */
#define EACH_OUTPUT(k, body)                                                                                          \
  for (int64_t n = 0, o = 0; n < (k).n; n++)                                                                          \
    for (int64_t i = 0; i < (k).g.out_h; i++)                                                                         \
      for (int64_t j = 0; j < (k).g.out_w; j++) {                                                                     \
        window w = window_at(&(k), i, j);                                                                             \
        for (int64_t ch = 0; ch < (k).c; ch++, o++) body                                                              \
      }
#define EACH_PIXEL(w, body)                                                                                           \
  for (int64_t r = (w).top; r < (w).bottom; r++)                                                                      \
    for (int64_t s = (w).left; s < (w).right; s++) body
#define AT(k) (((n * (k).h + r) * (k).w + s) * (k).c + ch)

static od_status max_pool_ref(const od_call *c) {
  pool k = view(c, &c->in[0]);
  const float *x = c->in[0].data;
  float *y = c->out[0].data;
  EACH_OUTPUT(k, {
    float best = -INFINITY;
    EACH_PIXEL(w, {
      float v = x[AT(k)];
      if (v > best || v != v) best = v;
    })
    y[o] = best;
  })
  return OD_OK;
}

static od_status avg_pool_ref(const od_call *c) {
  pool k = view(c, &c->in[0]);
  const float *x = c->in[0].data;
  float *y = c->out[0].data;
  EACH_OUTPUT(k, {
    double sum = 0;
    EACH_PIXEL(w, sum += x[AT(k)];)
    y[o] = (float)(sum / (double)((w.bottom - w.top) * (w.right - w.left)));
  })
  return OD_OK;
}

static od_status max_pool_back(od_grad *c) {
  c->din[0] = od_graph_add(c->graph, &od_op_max_pool_grad, (od_value[]){c->dout[0], c->node->in[0], od_self(c, 0)}, 3, c->node->params);
  return OD_OK;
}
static od_status avg_pool_back(od_grad *c) {
  c->din[0] = od_graph_add(c->graph, &od_op_avg_pool_grad, (od_value[]){c->dout[0], c->node->in[0]}, 2, c->node->params);
  return OD_OK;
}

static od_status write(od_tf *t, const od_node *n, const char *op) {
  const od_pool_params *p = n->params;
  OD_TRY(od_tf_same(t, n, op));
  od_tf_attr_ints(t, "ksize", (const int64_t[]){1, p->window_h, p->window_w, 1}, 4);
  od_tf_attr_ints(t, "strides", (const int64_t[]){1, p->stride_h, p->stride_w, 1}, 4);
  od_tf_attr_text(t, "padding", p->padding == OD_PAD_SAME ? "SAME" : "VALID");
  od_tf_attr_text(t, "data_format", "NHWC");
  return OD_OK;
}
static od_status max_pool_tf(od_tf *t, const od_node *n) { return write(t, n, "MaxPool"); }
static od_status avg_pool_tf(od_tf *t, const od_node *n) { return write(t, n, "AvgPool"); }

static const od_pool_params p2 = {2, 2, 2, 2, OD_PAD_SAME}, p3 = {3, 3, 2, 2, OD_PAD_SAME}, v3 = {3, 3, 2, 2, OD_PAD_VALID},
                            s1 = {3, 3, 1, 1, OD_PAD_SAME}, one = {1, 1, 2, 2, OD_PAD_SAME}, whole = {5, 7, 1, 1, OD_PAD_VALID};
#define X(...) OD_F32_IN(-1, 1, __VA_ARGS__)
#define CASES(S)                                                                                                      \
  S("2x2", p2, X(2, 8, 6, 16), X(2, 4, 3, 16))                                                                        \
  S("2x2, odd sizes and channels", p2, X(2, 9, 5, 19), X(2, 5, 3, 19))                                                \
  S("3x3 stride 2", p3, X(1, 10, 11, 24), X(1, 5, 6, 24))                                                             \
  S("3x3 stride 2, valid", v3, X(1, 10, 11, 8), X(1, 4, 5, 8))                                                        \
  S("3x3 stride 1", s1, X(1, 5, 5, 16), X(1, 5, 5, 16))                                                               \
  S("1x1 stride 2", one, X(1, 7, 7, 16), X(1, 4, 4, 16))                                                              \
  S("whole map", whole, X(2, 5, 7, 17), X(2, 1, 1, 17))

#define FORWARD(name_, p, x, y) {.name = name_, .params = &p, .n_in = 1, .in = {x}},
static const od_sample samples[] = {
    CASES(FORWARD)
    {.name = "ties", .params = &p3, .n_in = 1, .in = {OD_F32_IN(2, 2, 1, 5, 5, 3)}, .no_grad = true},
    {.name = "empty", .params = &p2, .n_in = 1, .in = {X(0, 4, 4, 8)}, .few = true},
};
#define FORWARD_OP(name_, help_, tol)                                                                                 \
  const od_op od_op_##name_ = {                                                                                       \
      .name = #name_, .help = help_, .params = params, .params_size = sizeof(od_pool_params), .min_in = 1,            \
      .max_in = 1, .n_out = 1, .flags = OD_OP_BF16, .infer = infer, .ref = name_##_ref, .grad = name_##_back,         \
      .write_tf = name_##_tf, OD_SAMPLES(samples), .tolerance = tol,                                                  \
  }
FORWARD_OP(max_pool, "largest of each window", 0);
FORWARD_OP(avg_pool, "mean of each window", 1e-6);

/* ----------------------------------------------------------------------------------------------------------- gradients */
static od_status infer_grad(const od_infer *c) {
  od_shape y;
  OD_TRY(pooled(c, 1, &y));
  OD_TRY(od_want(c, 0, OD_F32, 4));
  OD_TRY(od_merge_shape(c, &y, &y, &c->in[0].shape));
  c->out[0] = c->in[1];
  if (c->n_in == 3) OD_TRY(od_merge_shape(c, &y, &y, &c->in[2].shape));
  return od_merge_dim(c, &c->out[0].shape.dim[3], c->in[1].shape.dim[3], c->in[0].shape.dim[3]);
}

static size_t scratch(const od_infer *c) { return sizeof(double) * (size_t)od_shape_size(&c->out[0].shape); }

static od_status store(const od_call *c) {
  for (int64_t i = 0, n = od_tensor_size(&c->out[0]); i < n; i++) ((float *)c->out[0].data)[i] = (float)((double *)c->scratch)[i];
  return OD_OK;
}

static od_status max_pool_grad_ref(const od_call *c) {
  pool k = view(c, &c->in[1]);
  const float *dy = c->in[0].data, *x = c->in[1].data;
  double *dx = c->scratch;
  memset(dx, 0, sizeof *dx * (size_t)od_tensor_size(&c->out[0]));
  EACH_OUTPUT(k, {
    int64_t best = -1;
    EACH_PIXEL(w, {
      if (best < 0 || x[AT(k)] > x[best]) best = AT(k);
    })
    if (best >= 0) dx[best] += dy[o];
  })
  return store(c);
}

static od_status avg_pool_grad_ref(const od_call *c) {
  pool k = view(c, &c->in[1]);
  const float *dy = c->in[0].data;
  double *dx = c->scratch;
  memset(dx, 0, sizeof *dx * (size_t)od_tensor_size(&c->out[0]));
  EACH_OUTPUT(k, {
    double part = dy[o] / (double)((w.bottom - w.top) * (w.right - w.left));
    EACH_PIXEL(w, dx[AT(k)] += part;)
  })
  return store(c);
}

/* (dy, x, y): max_pool_grad is only meaningful with y = max_pool(x); its ties case is one where that holds for random draws
 * of a single value, the rest is checked through max_pool's own gradient. */
static const od_sample max_grad_samples[] = {
    {.name = "ties", .params = &p3, .n_in = 3, .in = {X(1, 3, 3, 8), OD_F32_IN(2, 2, 1, 5, 5, 8), OD_F32_IN(2, 2, 1, 3, 3, 8)}},
    {.name = "ties, 2x2, odd sizes", .params = &p2, .n_in = 3,
     .in = {X(2, 5, 3, 19), OD_F32_IN(2, 2, 2, 9, 5, 19), OD_F32_IN(2, 2, 2, 5, 3, 19)}},
    {.name = "empty", .params = &p2, .n_in = 3, .in = {X(0, 2, 2, 8), X(0, 4, 4, 8), X(0, 2, 2, 8)}, .few = true},
};
#define BACKWARD(name_, p, x, y) {.name = name_, .params = &p, .n_in = 2, .in = {y, x}},
static const od_sample avg_grad_samples[] = {
    CASES(BACKWARD)
    {.name = "empty", .params = &p2, .n_in = 2, .in = {X(0, 2, 2, 8), X(0, 4, 4, 8)}, .few = true},
};

#define GRAD_OP(name_, n, list_, help_)                                                                               \
  const od_op od_op_##name_ = {                                                                                       \
      .name = #name_, .help = help_, .params = params, .params_size = sizeof(od_pool_params), .min_in = n,            \
      .max_in = n, .n_out = 1, .flags = OD_OP_BF16, .infer = infer_grad, .ref = name_##_ref, .scratch = scratch,      \
      .no_grad = OD_NO_SECOND, .no_tf = OD_NO_TF_TRAINING, OD_SAMPLES(list_), .tolerance = 1e-6,                      \
  }
GRAD_OP(max_pool_grad, 3, max_grad_samples, "(dy, x, y) -> dx, to the first maximum of each window");
GRAD_OP(avg_pool_grad, 2, avg_grad_samples, "(dy, x's shape) -> dx");
