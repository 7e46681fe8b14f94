/* depthwise_conv2d: y[n,i,j,c*m+q] = sum over a,b of x[n, i*s - pad + a*d, j*s - pad + b*d, c] * w[a,b,c,q], as TensorFlow's
 * DepthwiseConv2dNative; and its gradients (dy, w, x) -> dx and (x, dy, w) -> dw, where the third input lends its shape. */
#include <string.h>

#include "ops/convolution.h"
#include "ops/table.h"

od_value od_depthwise_conv2d(od_graph *g, od_value x, od_value w, const od_conv_params *p) {
  return od_graph_add(g, &od_op_depthwise_conv2d, (od_value[]){x, w}, 2, p);
}

static od_status infer(const od_infer *c) { return od_conv_infer(c, &c->in[0], &c->in[1], true, &c->out[0]); }

typedef struct {
  const od_conv_params *p;
  od_conv_geometry g;
  int64_t n, h, w, c, kh, kw, m;
} conv;

static conv view(const od_call *c, const od_tensor *x, const od_tensor *f) {
  const int64_t *xd = x->shape.dim, *fd = f->shape.dim;
  return (conv){c->params, od_conv_of(c->params, x, f), xd[0], xd[1], xd[2], xd[3], fd[0], fd[1], fd[3]};
}

/* Offset of x[n,r,s,0] that tap (a,b) of output (i,j) reads, -1 in the padding. */
static int64_t tap(const conv *k, int64_t n, int64_t i, int64_t j, int64_t a, int64_t b) {
  int64_t r = i * k->p->stride_h - k->g.pad_top + a * k->p->dilation_h;
  int64_t s = j * k->p->stride_w - k->g.pad_left + b * k->p->dilation_w;
  return r < 0 || r >= k->h || s < 0 || s >= k->w ? -1 : ((n * k->h + r) * k->w + s) * k->c;
}

/* Calls body for every (output pixel, tap inside the image): y0 and x0 are offsets of the pixels' first channels, f0 of the
 * tap's. */
#define EACH_TAP(k, body)                                                                                             \
  for (int64_t n = 0, y0 = 0; n < (k).n; n++)                                                                         \
    for (int64_t i = 0; i < (k).g.out_h; i++)                                                                         \
      for (int64_t j = 0; j < (k).g.out_w; j++, y0 += (k).c * (k).m)                                                  \
        for (int64_t a = 0, f0 = 0; a < (k).kh; a++)                                                                  \
          for (int64_t b = 0; b < (k).kw; b++, f0 += (k).c * (k).m) {                                                 \
            int64_t x0 = tap(&(k), n, i, j, a, b);                                                                    \
            if (x0 >= 0) body                                                                                         \
          }

static od_status store(const od_tensor *out, const double *acc) {
  float *to = out->data;
  for (int64_t i = 0, n = od_tensor_size(out); i < n; i++) to[i] = (float)acc[i];
  return OD_OK;
}

static od_status forward(const od_call *c) {
  conv k = view(c, &c->in[0], &c->in[1]);
  const float *x = c->in[0].data, *f = c->in[1].data;
  double *acc = c->scratch;
  memset(acc, 0, sizeof *acc * (size_t)od_tensor_size(&c->out[0]));
  EACH_TAP(k, {
    for (int64_t ch = 0; ch < k.c; ch++)
      for (int64_t q = 0; q < k.m; q++) acc[y0 + ch * k.m + q] += (double)x[x0 + ch] * f[f0 + ch * k.m + q];
  })
  return store(&c->out[0], acc);
}

static size_t scratch(const od_infer *c) { return sizeof(double) * (size_t)od_shape_size(&c->out[0].shape); }

static od_status gradient(od_grad *c) {
  od_value x = c->node->in[0], w = c->node->in[1], dy = c->dout[0];
  if (c->need[0])
    c->din[0] = od_graph_add(c->graph, &od_op_depthwise_conv2d_grad_input, (od_value[]){dy, w, x}, 3, c->node->params);
  if (c->need[1])
    c->din[1] = od_graph_add(c->graph, &od_op_depthwise_conv2d_grad_filter, (od_value[]){x, dy, w}, 3, c->node->params);
  return OD_OK;
}

/* One tap of a dilated filter: the image moved by (a, b) steps of dilation times w[a,b,:,0]. */
static const char *tap_tf(od_tf *t, const od_conv_params *p, const char *padded, const char *size, const char *w, int64_t a, int64_t b) {
  int64_t at[] = {0, a * p->dilation_h, b * p->dilation_w, 0}, of_w[] = {a, b, 0, 0};
  const char *begin = od_tf_ints(t, "begin", (od_ints){4, at}), *begin_w = od_tf_ints(t, "begin", (od_ints){4, of_w});
  const char *x = od_tf_op(t, "Slice", "pixels", OD_F32, OD_TF_INPUTS(padded, begin, size));
  od_tf_attr_type(t, "Index", OD_I32);
  const char *one = od_tf_const_i32s(t, "size", (const int32_t[]){1, 1, -1, 1}, 4);
  const char *f = od_tf_op(t, "Slice", "tap", OD_F32, OD_TF_INPUTS(w, begin_w, one));
  od_tf_attr_type(t, "Index", OD_I32);
  f = od_tf_op(t, "Reshape", "channels", OD_F32, OD_TF_INPUTS(f, od_tf_const_i32s(t, "shape", (const int32_t[]){-1}, 1)));
  od_tf_attr_type(t, "Tshape", OD_I32);
  return od_tf_op(t, "Mul", "mul", OD_F32, OD_TF_INPUTS(x, f));
}

/* TensorFlow's depthwise kernels ignore dilations, so a dilated one (stride 1, SAME, multiplier 1: what atrous nets have) is
 * written as the sum over its taps. */
static od_status write_dilated(od_tf *t, const od_node *n) {
  const od_conv_params *p = n->params;
  od_type filter = od_type_of(n->in[1]);
  const int64_t *w = filter.shape.dim;
  if (p->stride_h != 1 || p->stride_w != 1 || p->padding != OD_PAD_SAME || w[0] < 0 || w[1] < 0 || w[3] != 1)
    return od_fail(OD_EUNSUPPORTED, "%s: a dilated depthwise convolution is written to TensorFlow graphs with stride 1, padding SAME "
                   "and a known filter of multiplier 1 only", n->name);
  int64_t rows = (w[0] - 1) * p->dilation_h, columns = (w[1] - 1) * p->dilation_w;
  const int32_t amounts[8] = {0, 0, (int32_t)(rows / 2), (int32_t)(rows - rows / 2), (int32_t)(columns / 2), (int32_t)(columns - columns / 2), 0, 0};
  const char *x = od_tf_in(t, 0), *size = od_tf_shape_of(t, "Shape", x, OD_F32), *sum = NULL;
  const char *paddings = od_tf_const(t, "paddings", &(od_tensor){OD_I32, OD_SHAPE(4, 2), (void *)(uintptr_t)amounts});
  const char *padded = od_tf_op(t, "Pad", "Pad", OD_F32, OD_TF_INPUTS(x, paddings));
  od_tf_attr_type(t, "Tpaddings", OD_I32);
  for (int64_t a = 0; a < w[0]; a++)
    for (int64_t b = 0; b < w[1]; b++) {
      const char *part = tap_tf(t, p, padded, size, od_tf_in(t, 1), a, b);
      sum = sum ? od_tf_op(t, "Add", "add", OD_F32, OD_TF_INPUTS(sum, part)) : part;
    }
  od_tf_out(t, 0, od_tf_op(t, "Identity", NULL, OD_F32, OD_TF_INPUTS(sum)));
  return OD_OK;
}

static od_status write(od_tf *t, const od_node *n) {
  const od_conv_params *p = n->params;
  if (p->dilation_h != 1 || p->dilation_w != 1) return write_dilated(t, n);
  return od_conv_tf(t, n, "DepthwiseConv2dNative");
}

static const od_conv_params same1 = OD_CONV_SAMPLE(1, 1, OD_PAD_SAME), same2 = OD_CONV_SAMPLE(2, 1, OD_PAD_SAME),
                            dilated = OD_CONV_SAMPLE(1, 2, OD_PAD_SAME), valid2 = OD_CONV_SAMPLE(2, 1, OD_PAD_VALID),
                            fixed = {.stride_h = 2, .stride_w = 2, .dilation_h = 1, .dilation_w = 1, .padding = OD_PAD_EXPLICIT,
                                     .pad_top = 1, .pad_bottom = 1, .pad_left = 1, .pad_right = 1};

#define X(...) OD_F32_IN(-1, 1, __VA_ARGS__)
#define CASES(S)                                                                                                      \
  S("3x3", same1, X(2, 10, 10, 32), X(3, 3, 32, 1), X(2, 10, 10, 32))                                                 \
  S("3x3 stride 2", same2, X(2, 12, 12, 16), X(3, 3, 16, 1), X(2, 6, 6, 16))                                          \
  S("3x3 stride 2, odd sizes and channels", same2, X(2, 19, 11, 13), X(3, 3, 13, 1), X(2, 10, 6, 13))                 \
  S("3x3 on one pixel", same1, X(2, 1, 1, 24), X(3, 3, 24, 1), X(2, 1, 1, 24))                                        \
  S("multiplier 3", same1, X(1, 7, 6, 5), X(3, 3, 5, 3), X(1, 7, 6, 15))                                              \
  S("5x5, valid, stride 2", valid2, X(1, 11, 12, 8), X(5, 5, 8, 1), X(1, 4, 4, 8))                                    \
  S("explicit padding", fixed, X(1, 8, 9, 16), X(3, 3, 16, 1), X(1, 4, 5, 16))

#define DILATED(S) S("dilation 2", dilated, X(1, 9, 9, 16), X(3, 3, 16, 1), X(1, 9, 9, 16))
#define FORWARD(name_, p, x, w, y) {.name = name_, .params = &p, .n_in = 2, .in = {x, w}},
static const od_sample samples[] = {
    CASES(FORWARD)
    DILATED(FORWARD)
    {.name = "no image", .params = &same1, .n_in = 2, .in = {X(0, 5, 5, 8), X(3, 3, 8, 1)}, .few = true},
};

const od_op od_op_depthwise_conv2d = {
    .name = "depthwise_conv2d", .help = "convolution of every channel with filters of its own", .params = od_conv_param_table,
    .params_size = sizeof(od_conv_params), .min_in = 2, .max_in = 2, .n_out = 1, .flags = OD_OP_BF16,
    .infer = infer, .ref = forward, .scratch = scratch, .grad = gradient, .write_tf = write, OD_SAMPLES(samples),
    .tolerance = 1e-5,
};

/* -------------------------------------------------------------------------------------------------------- gradients */
static od_status infer_grad(const od_infer *c, int x, int w, int dy) {
  od_type y;
  OD_TRY(od_conv_infer(c, &c->in[x], &c->in[w], true, &y));
  OD_TRY(od_want(c, dy, OD_F32, 4));
  return od_merge_shape(c, &y.shape, &y.shape, &c->in[dy].shape);
}

static od_status infer_grad_input(const od_infer *c) {
  OD_TRY(infer_grad(c, 2, 1, 0));
  c->out[0] = c->in[2];
  OD_TRY(od_merge_dim(c, &c->out[0].shape.dim[0], c->in[2].shape.dim[0], c->in[0].shape.dim[0]));
  return od_merge_dim(c, &c->out[0].shape.dim[3], c->in[2].shape.dim[3], c->in[1].shape.dim[2]);
}

static od_status grad_input(const od_call *c) {
  conv k = view(c, &c->in[2], &c->in[1]);
  const float *dy = c->in[0].data, *f = c->in[1].data;
  double *acc = c->scratch;
  memset(acc, 0, sizeof *acc * (size_t)od_tensor_size(&c->out[0]));
  EACH_TAP(k, {
    for (int64_t ch = 0; ch < k.c; ch++)
      for (int64_t q = 0; q < k.m; q++) acc[x0 + ch] += (double)dy[y0 + ch * k.m + q] * f[f0 + ch * k.m + q];
  })
  return store(&c->out[0], acc);
}

static od_status infer_grad_filter(const od_infer *c) {
  OD_TRY(infer_grad(c, 0, 2, 1));
  c->out[0] = c->in[2];
  return od_merge_dim(c, &c->out[0].shape.dim[2], c->in[2].shape.dim[2], c->in[0].shape.dim[3]);
}

static od_status grad_filter(const od_call *c) {
  conv k = view(c, &c->in[0], &c->in[2]);
  const float *x = c->in[0].data, *dy = c->in[1].data;
  double *acc = c->scratch;
  memset(acc, 0, sizeof *acc * (size_t)od_tensor_size(&c->out[0]));
  EACH_TAP(k, {
    for (int64_t ch = 0; ch < k.c; ch++)
      for (int64_t q = 0; q < k.m; q++) acc[f0 + ch * k.m + q] += (double)x[x0 + ch] * dy[y0 + ch * k.m + q];
  })
  return store(&c->out[0], acc);
}

#define GRAD_INPUT(name_, p, x, w, y) {.name = name_, .params = &p, .n_in = 3, .in = {y, w, x}},
static const od_sample grad_input_samples[] = {
    CASES(GRAD_INPUT)
    DILATED(GRAD_INPUT)
    {.name = "no image", .params = &same1, .n_in = 3, .in = {X(0, 5, 5, 8), X(3, 3, 8, 1), X(0, 5, 5, 8)}, .few = true},
};

const od_op od_op_depthwise_conv2d_grad_input = {
    .name = "depthwise_conv2d_grad_input", .help = "gradient of depthwise_conv2d for its input: (dy, w, x's shape) -> dx",
    .params = od_conv_param_table, .params_size = sizeof(od_conv_params), .min_in = 3, .max_in = 3, .n_out = 1,
    .flags = OD_OP_BF16, .infer = infer_grad_input, .ref = grad_input, .scratch = scratch, .no_grad = OD_NO_SECOND,
    .no_tf = OD_NO_TF_TRAINING, OD_SAMPLES(grad_input_samples), .tolerance = 1e-5,
};

#define GRAD_FILTER(name_, p, x, w, y) {.name = name_, .params = &p, .n_in = 3, .in = {x, y, w}},
static const od_sample grad_filter_samples[] = {
    CASES(GRAD_FILTER)
    DILATED(GRAD_FILTER)
    {.name = "no image", .params = &same1, .n_in = 3, .in = {X(0, 5, 5, 8), X(0, 5, 5, 8), X(3, 3, 8, 1)}, .few = true},
};

const od_op od_op_depthwise_conv2d_grad_filter = {
    .name = "depthwise_conv2d_grad_filter", .help = "gradient of depthwise_conv2d for its filter: (x, dy, w's shape) -> dw",
    .params = od_conv_param_table, .params_size = sizeof(od_conv_params), .min_in = 3, .max_in = 3, .n_out = 1,
    .flags = OD_OP_BF16, .infer = infer_grad_filter, .ref = grad_filter, .scratch = scratch, .no_grad = OD_NO_SECOND,
    .no_tf = OD_NO_TF_TRAINING, OD_SAMPLES(grad_filter_samples), .tolerance = 1e-5,
};
