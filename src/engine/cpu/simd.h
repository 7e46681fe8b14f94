/* Our own inner loops, compiled once for each kind of x86 processor (simd_*.c from simd_body.h and simd_depthwise.h) and chosen
 * when the engine opens. Nothing here starts threads or allocates; ranges come from the kernels. Results of one table depend on
 * the arguments alone, different tables may differ in the last bits. */
#ifndef OD_ENGINE_CPU_SIMD_H
#define OD_ENGINE_CPU_SIMD_H

#include <stdbool.h>
#include <stdint.h>

/* Elementwise functions over float arrays: y may be a, b or c itself. name, inputs, formula in a, b, c and parameters p[]. */
#define OD_SIMD_MAPS(X)                                                                                               \
  X(copy, 1, a)                                                                                                       \
  X(relu, 1, a < 0 ? 0 : a)                                                                                           \
  X(relu6, 1, a < 0 ? 0 : a > 6 ? 6 : a)                                                                              \
  X(neg, 1, -a)                                                                                                       \
  X(abs, 1, __builtin_fabsf(a))                                                                                       \
  X(square, 1, a * a)                                                                                                 \
  X(sqrt, 1, __builtin_sqrtf(a))                                                                                      \
  X(rsqrt, 1, 1 / __builtin_sqrtf(a))                                                                                 \
  X(sign, 1, a > 0 ? 1 : a < 0 ? -1 : a)                                                                              \
  X(scale, 1, a * p[0] + p[1])                                                                                        \
  X(sigmoid, 1, sigmoid_of(a))                                                                                        \
  X(add, 2, a + b)                                                                                                    \
  X(sub, 2, a - b)                                                                                                    \
  X(mul, 2, a * b)                                                                                                    \
  X(div, 2, a / b)                                                                                                    \
  X(maximum, 2, a >= b ? a : b)                                                                                       \
  X(minimum, 2, a <= b ? a : b)                                                                                       \
  X(equal, 2, a == b ? 1 : 0)                                                                                         \
  X(not_equal, 2, a != b ? 1 : 0)                                                                                     \
  X(greater, 2, a > b ? 1 : 0)                                                                                        \
  X(greater_equal, 2, a >= b ? 1 : 0)                                                                                 \
  X(less, 2, a < b ? 1 : 0)                                                                                           \
  X(less_equal, 2, a <= b ? 1 : 0)                                                                                    \
  X(relu_grad, 2, b > 0 ? a : 0)                                                                                      \
  X(relu6_grad, 2, ((b > 0) & (b < 6)) ? a : 0)                                                                         \
  X(elu_grad, 2, b < 0 ? a * (b + 1) : a)                                                                             \
  X(sigmoid_grad, 2, a * b * (1 - b))                                                                                 \
  X(tanh_grad, 2, a * (1 - b * b))                                                                                    \
  X(select, 3, a != 0 ? b : c)

typedef void (*od_simd_map)(float *y, const float *a, const float *b, const float *c, int64_t n, const float *p);

/* Rows of c channels of a feature map, float32 or bfloat16 (x, dy, dx and y alike). lo, hi: limits of the activation after the
 * batch norm (-inf, inf: none). */
typedef struct {
  const void *x, *dy;
  void *y;            /* forward: result; backward: dx */
  int64_t c;
  float lo, hi;
  const float *shift; /* sums: what is taken off x before squaring */
  const float *a, *b; /* y = a * x + b before the activation */
  const float *k1, *k0; /* dx = a * d + k1 * x + k0 */
  float *s1, *s2;     /* sums, added to */
} od_simd_rows;
typedef void (*od_simd_row_fn)(const od_simd_rows *r, int64_t begin, int64_t end);

/* Depthwise convolution with a 3x3 filter, all NHWC. */
typedef struct {
  int64_t n, h, w, c, oh, ow, stride, pad_top, pad_left;
  const void *x, *dy;  /* float32 or bfloat16 */
  void *dx;
  const float *filter; /* [3,3,c] */
  float *sums;         /* [3,3,c], added to */
} od_simd_dw;
/* Rows are (image, output row) for weights, (image, input row) for data. */
typedef void (*od_simd_dw_fn)(const od_simd_dw *d, int64_t begin, int64_t end);

/* Sigmoid cross entropy of n logits x with targets z and weights w (step 0: one for all), focal or not: ops/loss.h. */
typedef struct {
  float *y;        /* the loss, or the gradient into x */
  const float *dy; /* gradient only */
  const float *x, *z, *w;
  int64_t weight_step, n;
  bool focal;
  int gamma; /* 0, 1, 2 */
  float alpha_one, alpha_zero; /* factor of targets 1 and 0 */
} od_simd_loss;

typedef struct {
  const char *name;
#define X(name, n_in, formula) od_simd_map name;
  OD_SIMD_MAPS(X)
#undef X
  void (*to_float)(float *y, const uint16_t *x, int64_t n);
  void (*to_bf16)(uint16_t *y, const float *x, int64_t n);
  /* Sums in float over short stretches, carried on in double. */
  double (*sum)(const float *x, int64_t n);
  double (*sum_squares)(const float *x, int64_t n);
  double (*sum_abs)(const float *x, int64_t n);
  /* s[j] += sum over rows of x. */
  void (*add_rows)(float *s, const float *x, int64_t rows, int64_t c);
  /* [0] float32, [1] bfloat16 */
  od_simd_row_fn bn_sums[2];       /* s1 += x - shift, s2 += (x - shift)^2 */
  od_simd_row_fn bn_apply[2];      /* y = act(a * x + b) */
  od_simd_row_fn bn_grad_sums[2];  /* d = dy where the activation passes: s1 += d, s2 += d * (x - shift) */
  od_simd_row_fn bn_grad_apply[2]; /* dx = a * d + k1 * x + k0 */
  od_simd_row_fn row_sums[2];      /* s1 += dy */
  od_simd_dw_fn dw_weights[2];
  od_simd_dw_fn dw_data_stride2[2];
  /* dx += rest where x == y, and rest is used up there. */
  void (*max_grad)(float *dx, float *rest, const float *x, const float *y, int64_t n);
  void (*sigmoid_loss)(const od_simd_loss *l);
  void (*sigmoid_loss_grad)(const od_simd_loss *l);
  /* Bilinear mean of four corners (top left, top right, bottom left, bottom right), u to the right, v down. */
  void (*bilinear)(float *y, const float *const *corners, float u, float v, int64_t n);
  /* Does one of n boxes, given by coordinate (ymin, xmin, ymax, xmax, area), overlap `box` (the same five) with an IoU that may
   * be above the threshold? Errs on the side of yes. */
  bool (*overlaps)(const float *const *boxes, const float *box, int64_t n, float threshold);
  /* Optimizers, in place or not: y arrays may be the x arrays. p: see the formulas in ops/optim.h. */
  void (*momentum)(float *var, float *acc, const float *v, const float *a, const float *g, int64_t n, float lr, float momentum, bool nesterov);
  void (*rmsprop)(float *var, float *ms, float *mom, const float *v, const float *s, const float *m, const float *g, int64_t n, float lr,
                  float decay, float momentum, float epsilon);
  void (*adam)(float *var, float *m1, float *v1, const float *v, const float *m, const float *s, const float *g, int64_t n, float rate,
               float beta1, float beta2, float epsilon);
  void (*moving_average)(float *y, const float *shadow, const float *value, int64_t n, float rate);
  void (*axpy)(float *y, const float *v, const float *g, int64_t n, float lr); /* y = v - lr * g */
} od_cpu_simd;

/* The best table for this processor. */
const od_cpu_simd *od_cpu_simd_best(void);
/* All tables this processor can run, the plainest first; NULL behind the last. For tests. */
const od_cpu_simd *od_cpu_simd_at(int i);

#endif
