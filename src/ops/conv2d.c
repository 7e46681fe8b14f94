/* conv2d: y[n,i,j,o] = sum over a,b,c of x[n, i*s - pad + a*d, j*s - pad + b*d, c] * w[a,b,c,o], zeros outside x; a correlation,
 * as TensorFlow's Conv2D. Its gradients: conv2d_grad_input (dy, w, x) and conv2d_grad_filter (x, dy, w); the third input of
 * each only lends its shape, which output sizes alone do not determine under strides. */
#include <string.h>

#include "ops/convolution.h"
#include "ops/table.h"

od_value od_conv2d(od_graph *g, od_value x, od_value w, const od_conv_params *p) {
  return od_graph_add(g, &od_op_conv2d, (od_value[]){x, w}, 2, p);
}

static od_status infer(const od_infer *c) { return od_conv_infer(c, &c->in[0], &c->in[1], false, &c->out[0]); }

/* A convolution's tensors and numbers, the same for the op and its gradients. */
typedef struct {
  const od_conv_params *p;
  od_conv_geometry g;
  int64_t n, h, w, ci, kh, kw, co;
  const float *x, *f, *y;
} conv;

static conv view(const od_call *c, const od_tensor *x, const od_tensor *f, const void *y) {
  const int64_t *xd = x->shape.dim, *fd = f->shape.dim;
  return (conv){c->params, od_conv_of(c->params, x, f), xd[0], xd[1], xd[2], xd[3], fd[0], fd[1], fd[3], x->data, f->data, y};
}

/* acc[0..co) = one output pixel. */
static void output_pixel(const conv *k, double *acc, int64_t n, int64_t i, int64_t j) {
  memset(acc, 0, sizeof *acc * (size_t)k->co);
  for (int64_t a = 0; a < k->kh; a++) {
    int64_t r = i * k->p->stride_h - k->g.pad_top + a * k->p->dilation_h;
    if (r < 0 || r >= k->h) continue;
    for (int64_t b = 0; b < k->kw; b++) {
      int64_t s = j * k->p->stride_w - k->g.pad_left + b * k->p->dilation_w;
      if (s < 0 || s >= k->w) continue;
      const float *x = k->x + ((n * k->h + r) * k->w + s) * k->ci, *f = k->f + (a * k->kw + b) * k->ci * k->co;
      for (int64_t c = 0; c < k->ci; c++)
        for (int64_t o = 0; o < k->co; o++) acc[o] += (double)x[c] * f[c * k->co + o];
    }
  }
}

static od_status forward(const od_call *c) {
  conv k = view(c, &c->in[0], &c->in[1], NULL);
  float *y = c->out[0].data;
  double *acc = c->scratch;
  for (int64_t n = 0; n < k.n; n++)
    for (int64_t i = 0; i < k.g.out_h; i++)
      for (int64_t j = 0; j < k.g.out_w; j++) {
        output_pixel(&k, acc, n, i, j);
        for (int64_t o = 0; o < k.co; o++) *y++ = (float)acc[o];
      }
  return OD_OK;
}

static size_t row_scratch(const od_infer *c) { return sizeof(double) * (size_t)c->out[0].shape.dim[3]; }

static od_status gradient(od_grad *c) {
  od_value x = c->node->in[0], w = c->node->in[1], dy = c->dout[0];
  if (c->need[0]) c->din[0] = od_graph_add(c->graph, &od_op_conv2d_grad_input, (od_value[]){dy, w, x}, 3, c->node->params);
  if (c->need[1]) c->din[1] = od_graph_add(c->graph, &od_op_conv2d_grad_filter, (od_value[]){x, dy, w}, 3, c->node->params);
  return OD_OK;
}

static od_status write(od_tf *t, const od_node *n) { return od_conv_tf(t, n, "Conv2D"); }

static const od_conv_params same1 = OD_CONV_SAMPLE(1, 1, OD_PAD_SAME), same2 = OD_CONV_SAMPLE(2, 1, OD_PAD_SAME),
                            dilated = OD_CONV_SAMPLE(1, 2, OD_PAD_SAME), valid = OD_CONV_SAMPLE(1, 1, OD_PAD_VALID),
                            valid2 = OD_CONV_SAMPLE(2, 1, OD_PAD_VALID),
                            fixed = {.stride_h = 2, .stride_w = 2, .dilation_h = 1, .dilation_w = 1, .padding = OD_PAD_EXPLICIT,
                                     .pad_top = 3, .pad_bottom = 3, .pad_left = 3, .pad_right = 3},
                            uneven = {.stride_h = 3, .stride_w = 2, .dilation_h = 2, .dilation_w = 1,
                                      .padding = OD_PAD_EXPLICIT, .pad_top = 0, .pad_bottom = 2, .pad_left = 1, .pad_right = 0};

#define X(...) OD_F32_IN(-1, 1, __VA_ARGS__)
/* name, parameters, shape of x, of w, of y: the three ops take their inputs from one list */
#define CASES(S)                                                                                                      \
  S("first layer, 3x3 stride 2", same2, X(2, 24, 24, 3), X(3, 3, 3, 16), X(2, 12, 12, 16))                            \
  S("1x1", same1, X(2, 7, 7, 32), X(1, 1, 32, 48), X(2, 7, 7, 48))                                                    \
  S("3x3, odd sizes and channels", same1, X(2, 9, 5, 19), X(3, 3, 19, 37), X(2, 9, 5, 37))                            \
  S("3x3 stride 2, odd sizes", same2, X(2, 19, 11, 17), X(3, 3, 17, 24), X(2, 10, 6, 24))                             \
  S("stride 2 down to one pixel", same2, X(2, 2, 2, 16), X(3, 3, 16, 32), X(2, 1, 1, 32))                             \
  S("3x3 on one pixel", same1, X(2, 1, 1, 16), X(3, 3, 16, 12), X(2, 1, 1, 12))                                       \
  S("dilation 2", dilated, X(1, 11, 13, 16), X(3, 3, 16, 20), X(1, 11, 13, 20))                                       \
  S("valid", valid, X(1, 8, 9, 5), X(5, 3, 5, 6), X(1, 4, 7, 6))                                                      \
  S("valid, stride 2", valid2, X(2, 9, 10, 16), X(3, 3, 16, 16), X(2, 4, 4, 16))                                      \
  S("7x7 stride 2, explicit padding", fixed, X(1, 20, 17, 3), X(7, 7, 3, 16), X(1, 10, 9, 16))                        \
  S("uneven padding, strides and dilation", uneven, X(1, 10, 9, 7), X(2, 3, 7, 9), X(1, 4, 4, 9))                     \
  S("box predictor", same1, X(2, 3, 3, 64), X(1, 1, 64, 273), X(2, 3, 3, 273))

#define FORWARD(name_, p, x, w, y) {.name = name_, .params = &p, .n_in = 2, .in = {x, w}},
static const od_sample samples[] = {
    CASES(FORWARD)
    {.name = "no image", .params = &same1, .n_in = 2, .in = {X(0, 5, 5, 8), X(3, 3, 8, 16)}, .few = true},
    {.name = "kernel larger than the image", .params = &valid, .n_in = 2, .in = {X(1, 2, 2, 8), X(3, 3, 8, 16)}, .few = true},
};

const od_op od_op_conv2d = {
    .name = "conv2d", .help = "convolution of [N,H,W,I] with [h,w,I,O]", .params = od_conv_param_table,
    .params_size = sizeof(od_conv_params), .min_in = 2, .max_in = 2, .n_out = 1, .flags = OD_OP_BF16,
    .infer = infer, .ref = forward, .scratch = row_scratch, .grad = gradient, .write_tf = write, OD_SAMPLES(samples),
    .tolerance = 1e-5,
};

/* --------------------------------------------------------------------------------------------------- gradient for x */
static od_status infer_grad_input(const od_infer *c) {
  od_type y;
  OD_TRY(od_conv_infer(c, &c->in[2], &c->in[1], false, &y));
  OD_TRY(od_want(c, 0, OD_F32, 4));
  OD_TRY(od_merge_shape(c, &y.shape, &y.shape, &c->in[0].shape));
  c->out[0] = c->in[2];
  return od_merge_dim(c, &c->out[0].shape.dim[0], c->in[2].shape.dim[0], c->in[0].shape.dim[0]);
}

/* acc[0..ci) = the gradient of one input pixel: all outputs that read it. */
static void input_pixel(const conv *k, double *acc, int64_t n, int64_t r, int64_t s) {
  memset(acc, 0, sizeof *acc * (size_t)k->ci);
  for (int64_t a = 0; a < k->kh; a++) {
    int64_t i = r + k->g.pad_top - a * k->p->dilation_h;
    if (i < 0 || i % k->p->stride_h || (i /= k->p->stride_h) >= k->g.out_h) continue;
    for (int64_t b = 0; b < k->kw; b++) {
      int64_t j = s + k->g.pad_left - b * k->p->dilation_w;
      if (j < 0 || j % k->p->stride_w || (j /= k->p->stride_w) >= k->g.out_w) continue;
      const float *dy = k->y + ((n * k->g.out_h + i) * k->g.out_w + j) * k->co, *f = k->f + (a * k->kw + b) * k->ci * k->co;
      for (int64_t c = 0; c < k->ci; c++) {
        double sum = 0;
        for (int64_t o = 0; o < k->co; o++) sum += (double)dy[o] * f[c * k->co + o];
        acc[c] += sum;
      }
    }
  }
}

static od_status grad_input(const od_call *c) {
  conv k = view(c, &c->in[2], &c->in[1], c->in[0].data);
  float *dx = c->out[0].data;
  double *acc = c->scratch;
  for (int64_t n = 0; n < k.n; n++)
    for (int64_t r = 0; r < k.h; r++)
      for (int64_t s = 0; s < k.w; s++) {
        input_pixel(&k, acc, n, r, s);
        for (int64_t i = 0; i < k.ci; i++) *dx++ = (float)acc[i];
      }
  return OD_OK;
}

#define GRAD_INPUT(name_, p, x, w, y) {.name = name_, .params = &p, .n_in = 3, .in = {y, w, x}},
static const od_sample grad_input_samples[] = {
    CASES(GRAD_INPUT)
    {.name = "no image", .params = &same1, .n_in = 3, .in = {X(0, 5, 5, 16), X(3, 3, 8, 16), X(0, 5, 5, 8)}, .few = true},
    {.name = "no output", .params = &valid, .n_in = 3, .in = {X(1, 0, 0, 16), X(3, 3, 8, 16), X(1, 2, 2, 8)}, .few = true},
};

const od_op od_op_conv2d_grad_input = {
    .name = "conv2d_grad_input", .help = "gradient of conv2d for its input: (dy, w, x's shape) -> dx",
    .params = od_conv_param_table, .params_size = sizeof(od_conv_params), .min_in = 3, .max_in = 3, .n_out = 1,
    .flags = OD_OP_BF16, .infer = infer_grad_input, .ref = grad_input, .scratch = row_scratch, .no_grad = OD_NO_SECOND,
    .no_tf = OD_NO_TF_TRAINING, OD_SAMPLES(grad_input_samples), .tolerance = 1e-5,
};

/* --------------------------------------------------------------------------------------------------- gradient for w */
static od_status infer_grad_filter(const od_infer *c) {
  od_type y;
  OD_TRY(od_conv_infer(c, &c->in[0], &c->in[2], false, &y));
  OD_TRY(od_want(c, 1, OD_F32, 4));
  OD_TRY(od_merge_shape(c, &y.shape, &y.shape, &c->in[1].shape));
  c->out[0] = c->in[2];
  OD_TRY(od_merge_dim(c, &c->out[0].shape.dim[2], c->in[2].shape.dim[2], c->in[0].shape.dim[3]));
  return od_merge_dim(c, &c->out[0].shape.dim[3], c->in[2].shape.dim[3], c->in[1].shape.dim[3]);
}

/* acc += what one output pixel gives to the whole filter. */
static void filter_pixel(const conv *k, double *acc, int64_t n, int64_t i, int64_t j) {
  const float *dy = k->y + ((n * k->g.out_h + i) * k->g.out_w + j) * k->co;
  for (int64_t a = 0; a < k->kh; a++) {
    int64_t r = i * k->p->stride_h - k->g.pad_top + a * k->p->dilation_h;
    if (r < 0 || r >= k->h) continue;
    for (int64_t b = 0; b < k->kw; b++) {
      int64_t s = j * k->p->stride_w - k->g.pad_left + b * k->p->dilation_w;
      if (s < 0 || s >= k->w) continue;
      const float *x = k->x + ((n * k->h + r) * k->w + s) * k->ci;
      double *to = acc + (a * k->kw + b) * k->ci * k->co;
      for (int64_t c = 0; c < k->ci; c++)
        for (int64_t o = 0; o < k->co; o++) to[c * k->co + o] += (double)x[c] * dy[o];
    }
  }
}

static od_status grad_filter(const od_call *c) {
  conv k = view(c, &c->in[0], &c->in[2], c->in[1].data);
  int64_t size = od_tensor_size(&c->out[0]);
  double *acc = c->scratch;
  memset(acc, 0, sizeof *acc * (size_t)size);
  for (int64_t n = 0; n < k.n; n++)
    for (int64_t i = 0; i < k.g.out_h; i++)
      for (int64_t j = 0; j < k.g.out_w; j++) filter_pixel(&k, acc, n, i, j);
  for (int64_t i = 0; i < size; i++) ((float *)c->out[0].data)[i] = (float)acc[i];
  return OD_OK;
}

static size_t filter_scratch(const od_infer *c) { return sizeof(double) * (size_t)od_shape_size(&c->out[0].shape); }

#define GRAD_FILTER(name_, p, x, w, y) {.name = name_, .params = &p, .n_in = 3, .in = {x, y, w}},
static const od_sample grad_filter_samples[] = {
    CASES(GRAD_FILTER)
    {.name = "no image", .params = &same1, .n_in = 3, .in = {X(0, 5, 5, 8), X(0, 5, 5, 16), X(3, 3, 8, 16)}, .few = true},
    {.name = "no output", .params = &valid, .n_in = 3, .in = {X(1, 2, 2, 8), X(1, 0, 0, 16), X(3, 3, 8, 16)}, .few = true},
};

const od_op od_op_conv2d_grad_filter = {
    .name = "conv2d_grad_filter", .help = "gradient of conv2d for its filter: (x, dy, w's shape) -> dw",
    .params = od_conv_param_table, .params_size = sizeof(od_conv_params), .min_in = 3, .max_in = 3, .n_out = 1,
    .flags = OD_OP_BF16, .infer = infer_grad_filter, .ref = grad_filter, .scratch = filter_scratch, .no_grad = OD_NO_SECOND,
    .no_tf = OD_NO_TF_TRAINING, OD_SAMPLES(grad_filter_samples), .tolerance = 1e-5,
};
