/* The inner loops, in plain C that compilers turn into vectors. Included by each simd_*.c with its instruction set switched on
 * and OD_SIMD_TABLE, the table's name, defined; OD_SIMD_NAME its name in words. OD_SIMD_BF16: bfloat16 instructions are there. */
/* clang says aloud which loops stay scalar; those with libm calls may */
#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"
#endif
#define OTHERWISE __attribute__((unused)) /* not used where simd_half.h has it */
#define EACH(i, n) _Pragma("omp simd") for (int64_t i = 0; i < (n); i++)

typedef union {
  float f;
  uint32_t u;
} bits;

/* exp(-x) for x >= 0 (Cephes' polynomial, about 1e-7); below exp(-87) it stays there. NaN passes. */
static inline float exp_minus(float x) {
  x = x > 87.0f ? -87.0f : -x;
  const float t = x * 1.44269504f + 12582912.0f; /* the sum rounds to an integer, which stands in the low bits */
  const float k = t - 12582912.0f, r = (x - k * 0.693359375f) - k * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1;
  return p * ((bits){.u = (((bits){.f = t}).u << 23) + 0x3f800000u}).f;
}
/* log(1 + u) for u of 0 to 1: 2 artanh(u / (2 + u)). */
static inline float log1p_of(float u) {
  const float s = u / (2 + u), q = s * s;
  float p = 1.0f / 13;
  p = p * q + 1.0f / 11;
  p = p * q + 1.0f / 9;
  p = p * q + 1.0f / 7;
  p = p * q + 1.0f / 5;
  p = p * q + 1.0f / 3;
  return 2 * s * (p * q + 1);
}
static inline float sigmoid_of(float x) {
  const float e = exp_minus(__builtin_fabsf(x)), d = 1 / (1 + e);
  return x >= 0 ? d : e * d;
}

#define MAP_1 const float a = a_[i];
#define MAP_2                                                                                                         \
  MAP_1 const float b = b_[i];
#define MAP_3                                                                                                         \
  MAP_2 const float c = c_[i];
#define X(name, n_in, formula)                                                                                        \
  static void map_##name(float *y, const float *a_, const float *b_, const float *c_, int64_t n, const float *p) {    \
    (void)b_, (void)c_, (void)p;                                                                                      \
    EACH(i, n) {                                                                                                      \
      MAP_##n_in y[i] = formula;                                                                                      \
    }                                                                                                                 \
  }
OD_SIMD_MAPS(X)
#undef X

/* ----------------------------------------------------------------------------------------------------------- bfloat16 */
static inline float load_f(const float *p) { return *p; }
static inline void store_f(float *p, float v) { *p = v; }
static inline float load_b(const uint16_t *p) { return ((bits){.u = (uint32_t)*p << 16}).f; }
/* Round to nearest even; NaN stays NaN. */
static inline void store_b(uint16_t *p, float v) {
  uint32_t u = ((bits){.f = v}).u, rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  *p = (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? (u >> 16) | 0x40u : rounded);
}

static void to_float(float *y, const uint16_t *x, int64_t n) { EACH(i, n) y[i] = load_b(x + i); }
OTHERWISE static void to_bf16(uint16_t *y, const float *x, int64_t n) { EACH(i, n) store_b(y + i, x[i]); }

/* --------------------------------------------------------------------------------------------------------------- sums */
/* Sixteen running sums over stretches of 4096: short enough for float, and a fixed order. */
#define SUM(name, formula)                                                                                            \
  static double name(const float *x, int64_t n) {                                                                     \
    double total = 0;                                                                                                 \
    for (int64_t at = 0; at < n; at += 4096) {                                                                        \
      float part[16] = {0};                                                                                           \
      int64_t end = at + 4096 < n ? at + 4096 : n, i = at;                                                            \
      for (; i + 16 <= end; i += 16)                                                                                  \
        EACH(k, 16) {                                                                                                 \
          const float a = x[i + k];                                                                                   \
          part[k] += formula;                                                                                         \
        }                                                                                                             \
      for (; i < end; i++) {                                                                                          \
        const float a = x[i];                                                                                         \
        part[(i - at) & 15] += formula;                                                                                 \
      }                                                                                                               \
      for (int k = 0; k < 16; k++) total += (double)part[k];                                                          \
    }                                                                                                                 \
    return total;                                                                                                     \
  }
SUM(sum, a)
SUM(sum_squares, a *a)
SUM(sum_abs, __builtin_fabsf(a))

static void add_rows(float *s, const float *x, int64_t rows, int64_t c) {
  for (int64_t r = 0; r < rows; r++, x += c) EACH(j, c) s[j] += x[j];
}

/* --------------------------------------------------------------------------------------------------------- batch norm */
/* Four rows at a time: the sums are loaded and stored once for four additions. */
#define BN(T, suffix, L, S)                                                                                           \
  static void bn_sums_##suffix(const od_simd_rows *q, int64_t begin, int64_t end) {                                   \
    const int64_t c = q->c;                                                                                           \
    const float *shift = q->shift;                                                                                    \
    float *s1 = q->s1, *s2 = q->s2;                                                                                   \
    int64_t r = begin;                                                                                                \
    for (; r + 4 <= end; r += 4) {                                                                                    \
      const T *x = (const T *)q->x + r * c;                                                                           \
      EACH(j, c) {                                                                                                    \
        const float k = shift[j], u0 = L(x + j) - k, u1 = L(x + c + j) - k, u2 = L(x + 2 * c + j) - k,                \
                    u3 = L(x + 3 * c + j) - k;                                                                        \
        s1[j] += (u0 + u1) + (u2 + u3);                                                                               \
        s2[j] += (u0 * u0 + u1 * u1) + (u2 * u2 + u3 * u3);                                                           \
      }                                                                                                               \
    }                                                                                                                 \
    for (; r < end; r++) {                                                                                            \
      const T *x = (const T *)q->x + r * c;                                                                           \
      EACH(j, c) {                                                                                                    \
        const float u = L(x + j) - shift[j];                                                                          \
        s1[j] += u;                                                                                                   \
        s2[j] += u * u;                                                                                               \
      }                                                                                                               \
    }                                                                                                                 \
  }                                                                                                                   \
  OTHERWISE static void bn_apply_##suffix(const od_simd_rows *q, int64_t begin, int64_t end) {                        \
    const int64_t c = q->c;                                                                                           \
    const float *a = q->a, *b = q->b, lo = q->lo, hi = q->hi;                                                         \
    for (int64_t r = begin; r < end; r++) {                                                                           \
      const T *x = (const T *)q->x + r * c;                                                                           \
      T *y = (T *)q->y + r * c;                                                                                       \
      EACH(j, c) {                                                                                                    \
        const float v = L(x + j) * a[j] + b[j];                                                                       \
        S(y + j, v < lo ? lo : v > hi ? hi : v);                                                                      \
      }                                                                                                               \
    }                                                                                                                 \
  }                                                                                                                   \
  static void bn_grad_sums_##suffix(const od_simd_rows *q, int64_t begin, int64_t end) {                              \
    const int64_t c = q->c;                                                                                           \
    const float *a = q->a, *b = q->b, *shift = q->shift, lo = q->lo, hi = q->hi;                                      \
    float *s1 = q->s1, *s2 = q->s2;                                                                                   \
    int64_t r = begin;                                                                                                \
    for (; r + 2 <= end; r += 2) {                                                                                    \
      const T *x = (const T *)q->x + r * c, *dy = (const T *)q->dy + r * c;                                           \
      EACH(j, c) {                                                                                                    \
        const float x0 = L(x + j), x1 = L(x + c + j), u0 = x0 * a[j] + b[j], u1 = x1 * a[j] + b[j], k = shift[j];     \
        float d0 = L(dy + j), d1 = L(dy + c + j);                                                                     \
        d0 = ((u0 > lo) & (u0 < hi)) ? d0 : 0;                                                                          \
        d1 = ((u1 > lo) & (u1 < hi)) ? d1 : 0;                                                                          \
        s1[j] += d0 + d1;                                                                                             \
        s2[j] += d0 * (x0 - k) + d1 * (x1 - k);                                                                       \
      }                                                                                                               \
    }                                                                                                                 \
    for (; r < end; r++) {                                                                                            \
      const T *x = (const T *)q->x + r * c, *dy = (const T *)q->dy + r * c;                                           \
      EACH(j, c) {                                                                                                    \
        const float x0 = L(x + j), u0 = x0 * a[j] + b[j];                                                             \
        float d0 = L(dy + j);                                                                                         \
        d0 = ((u0 > lo) & (u0 < hi)) ? d0 : 0;                                                                          \
        s1[j] += d0;                                                                                                  \
        s2[j] += d0 * (x0 - shift[j]);                                                                                \
      }                                                                                                               \
    }                                                                                                                 \
  }                                                                                                                   \
  OTHERWISE static void bn_grad_apply_##suffix(const od_simd_rows *q, int64_t begin, int64_t end) {                   \
    const int64_t c = q->c;                                                                                           \
    const float *a = q->a, *b = q->b, *k1 = q->k1, *k0 = q->k0, lo = q->lo, hi = q->hi;                               \
    for (int64_t r = begin; r < end; r++) {                                                                           \
      const T *x = (const T *)q->x + r * c, *dy = (const T *)q->dy + r * c;                                           \
      T *dx = (T *)q->y + r * c;                                                                                      \
      EACH(j, c) {                                                                                                    \
        const float v = L(x + j), u = v * a[j] + b[j];                                                                \
        float d = L(dy + j);                                                                                          \
        d = ((u > lo) & (u < hi)) ? d : 0;                                                                              \
        S(dx + j, a[j] * d + (k1[j] * v + k0[j]));                                                                    \
      }                                                                                                               \
    }                                                                                                                 \
  }                                                                                                                   \
  static void row_sums_##suffix(const od_simd_rows *q, int64_t begin, int64_t end) {                                  \
    const int64_t c = q->c;                                                                                           \
    float *s1 = q->s1;                                                                                                \
    for (int64_t r = begin; r < end; r++) {                                                                           \
      const T *dy = (const T *)q->dy + r * c;                                                                         \
      EACH(j, c) s1[j] += L(dy + j);                                                                                  \
    }                                                                                                                 \
  }
BN(float, f, load_f, store_f)
BN(uint16_t, b, load_b, store_b)

static void max_grad(float *dx, float *rest, const float *x, const float *y, int64_t n) {
  EACH(i, n) {
    const float r = rest[i];
    dx[i] += x[i] == y[i] ? r : 0;
    rest[i] = x[i] == y[i] ? 0 : r;
  }
}

/* -------------------------------------------------------------------------------------------------------------- losses */
static void sigmoid_loss(const od_simd_loss *l) {
  const float *x = l->x, *z = l->z, *w = l->w, one = l->alpha_one, zero = l->alpha_zero;
  const int64_t step = l->weight_step;
  float *y = l->y;
  const bool first = l->focal && l->gamma >= 1, second = l->focal && l->gamma == 2;
  EACH(i, l->n) {
    const float a = x[i], t = z[i], e = exp_minus(__builtin_fabsf(a)), d = 1 / (1 + e), p = a >= 0 ? d : e * d;
    const float ce = (a > 0 ? a : 0) - a * t + log1p_of(e), miss = 1 - (t * p + (1 - t) * (1 - p));
    const float f = (first ? miss : 1) * (second ? miss : 1) * (t * one + (1 - t) * zero);
    y[i] = f * ce * w[i * step];
  }
}

static void sigmoid_loss_grad(const od_simd_loss *l) {
  const float *x = l->x, *z = l->z, *w = l->w, *dy = l->dy, one = l->alpha_one, zero = l->alpha_zero;
  const int64_t step = l->weight_step;
  float *y = l->y;
  if (!l->focal || l->gamma == 0) {
    EACH(i, l->n) {
      const float t = z[i];
      y[i] = dy[i] * w[i * step] * (t * one + (1 - t) * zero) * (sigmoid_of(x[i]) - t);
    }
    return;
  }
  const bool second = l->gamma == 2;
  EACH(i, l->n) {
    const float a = x[i], t = z[i], e = exp_minus(__builtin_fabsf(a)), d = 1 / (1 + e), p = a >= 0 ? d : e * d;
    const float ce = (a > 0 ? a : 0) - a * t + log1p_of(e), miss = 1 - (t * p + (1 - t) * (1 - p));
    const float slope = (2 * t - 1) * p * (1 - p); /* of p_t */
    const float g = second ? miss * miss * (p - t) - 2 * miss * slope * ce : miss * (p - t) - slope * ce;
    y[i] = dy[i] * w[i * step] * (t * one + (1 - t) * zero) * g;
  }
}

static void bilinear(float *y, const float *const *corners, float u, float v, int64_t n) {
  const float *a = corners[0], *b = corners[1], *c = corners[2], *d = corners[3];
  EACH(i, n) {
    const float above = a[i] + (b[i] - a[i]) * u, below = c[i] + (d[i] - c[i]) * u;
    y[i] = above + (below - above) * v;
  }
}

static bool overlaps(const float *const *boxes, const float *box, int64_t n, float threshold) {
  const float *y0 = boxes[0], *x0 = boxes[1], *y1 = boxes[2], *x1 = boxes[3], *area = boxes[4];
  const float by0 = box[0], bx0 = box[1], by1 = box[2], bx1 = box[3], barea = box[4];
  const float low = threshold * 0.99999f; /* far more than rounding */
  int32_t any = 0;
  _Pragma("omp simd reduction(| : any)") for (int64_t i = 0; i < n; i++) {
    const float t = y0[i] > by0 ? y0[i] : by0, l = x0[i] > bx0 ? x0[i] : bx0, b = y1[i] < by1 ? y1[i] : by1, r = x1[i] < bx1 ? x1[i] : bx1;
    const float h = b - t, w = r - l, both = h * w;
    any |= (h > 0) & (w > 0) & !(both < low * (area[i] + barea - both));
  }
  return any != 0;
}

/* --------------------------------------------------------------------------------------------------------- optimizers */
static void momentum(float *var, float *acc, const float *v, const float *a, const float *g, int64_t n, float lr, float m, bool nesterov) {
  if (nesterov) {
    EACH(i, n) {
      const float t = a[i] * m + g[i];
      acc[i] = t;
      var[i] = v[i] - (g[i] * lr + t * m * lr);
    }
  } else {
    EACH(i, n) {
      const float t = a[i] * m + g[i];
      acc[i] = t;
      var[i] = v[i] - lr * t;
    }
  }
}

static void rmsprop(float *var, float *ms, float *mom, const float *v, const float *s, const float *m, const float *g, int64_t n, float lr,
                    float decay, float momentum_, float epsilon) {
  EACH(i, n) {
    const float t = s[i] + (g[i] * g[i] - s[i]) * (1 - decay);
    const float u = m[i] * momentum_ + g[i] * lr / __builtin_sqrtf(t + epsilon);
    ms[i] = t;
    mom[i] = u;
    var[i] = v[i] - u;
  }
}

static void adam(float *var, float *m1, float *v1, const float *v, const float *m, const float *s, const float *g, int64_t n, float rate,
                 float beta1, float beta2, float epsilon) {
  EACH(i, n) {
    const float t = m[i] + (g[i] - m[i]) * (1 - beta1);
    const float u = s[i] + (g[i] * g[i] - s[i]) * (1 - beta2);
    m1[i] = t;
    v1[i] = u;
    var[i] = v[i] - rate * t / (__builtin_sqrtf(u) + epsilon);
  }
}

static void moving_average(float *y, const float *shadow, const float *value, int64_t n, float rate) {
  EACH(i, n) y[i] = shadow[i] - rate * (shadow[i] - value[i]);
}

static void axpy(float *y, const float *v, const float *g, int64_t n, float lr) { EACH(i, n) y[i] = v[i] - lr * g[i]; }

#include "engine/cpu/simd_depthwise.h"
#ifdef OD_SIMD_BF16
#include "engine/cpu/simd_half.h"
#define HALF(name, otherwise) half_##name
#else
#define HALF(name, otherwise) otherwise
#endif

extern const od_cpu_simd OD_SIMD_TABLE;
const od_cpu_simd OD_SIMD_TABLE = {
    .name = OD_SIMD_NAME,
#define X(name_, n_in, formula) .name_ = map_##name_,
    OD_SIMD_MAPS(X)
#undef X
    .to_float = to_float, .to_bf16 = HALF(to_bf16, to_bf16), .sum = sum, .sum_squares = sum_squares, .sum_abs = sum_abs, .add_rows = add_rows,
    .bn_sums = {bn_sums_f, bn_sums_b}, .bn_apply = {bn_apply_f, HALF(bn_apply, bn_apply_b)},
    .bn_grad_sums = {bn_grad_sums_f, bn_grad_sums_b}, .bn_grad_apply = {bn_grad_apply_f, HALF(bn_grad_apply, bn_grad_apply_b)},
    .row_sums = {row_sums_f, row_sums_b},
    .dw_weights = {dw_weights_f, dw_weights_b}, .dw_data_stride2 = {dw_data2_f, dw_data2_b},
    .max_grad = max_grad, .sigmoid_loss = sigmoid_loss, .sigmoid_loss_grad = sigmoid_loss_grad, .bilinear = bilinear, .overlaps = overlaps, .momentum = momentum, .rmsprop = rmsprop, .adam = adam, .moving_average = moving_average, .axpy = axpy,
};
