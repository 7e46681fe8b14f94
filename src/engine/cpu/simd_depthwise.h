/* Depthwise 3x3 gradients on NHWC; part of simd_body.h. Sixteen channels at a time in one vector type that the compiler maps to
 * what the processor has; channels left over go through the same code with part of a vector. */
enum { VL = 16 };
typedef float vec __attribute__((vector_size(64)));
typedef float vec_any __attribute__((vector_size(64), aligned(4)));
typedef uint32_t vec_u __attribute__((vector_size(64)));
typedef uint16_t half_any __attribute__((vector_size(32), aligned(2)));
#define INLINE static inline __attribute__((always_inline))

/* m of 16 channels; m is 16 but for the last part of a row. */
INLINE vec vload_f(const float *p, int64_t m) {
  if (m == VL) return *(const vec_any *)p;
  vec v = {0};
  for (int64_t k = 0; k < m; k++) v[k] = p[k];
  return v;
}
INLINE vec vload_b(const uint16_t *p, int64_t m) {
  if (m == VL) return (vec)(__builtin_convertvector(*(const half_any *)p, vec_u) << 16);
  vec_u v = {0};
  for (int64_t k = 0; k < m; k++) v[k] = (uint32_t)p[k] << 16;
  return (vec)v;
}
INLINE void vstore_f(float *p, const vec *v, int64_t m) {
  if (m == VL) {
    *(vec_any *)p = *v;
    return;
  }
  for (int64_t k = 0; k < m; k++) p[k] = (*v)[k];
}
INLINE void vstore_b(uint16_t *p, const vec *v, int64_t m) {
#ifdef OD_SIMD_BF16
  if (m == VL) {
    __m256bh h = _mm512_cvtneps_pbh((__m512)*v);
    __builtin_memcpy(p, &h, sizeof h);
    return;
  }
#endif
  for (int64_t k = 0; k < m; k++) store_b(p + k, (*v)[k]);
}

/* Nine sums in registers while a row of outputs goes by; named, because arrays of vectors end up in memory. Four outputs at a
 * time share what they read: with stride 1 they see six columns, with stride 2 nine. */
#define DW_EDGE(L, j)                                                                                                 \
  do {                                                                                                                \
    const int64_t iw = (j) * q->stride - q->pad_left, b = iw * c + c0;                                                \
    const vec d = L(g + (j) * c + c0, m);                                                                             \
    if (iw >= 0 && iw < q->w) {                                                                                       \
      if (r0) a0 += L(r0 + b, m) * d;                                                                                 \
      if (r1) a3 += L(r1 + b, m) * d;                                                                                 \
      if (r2) a6 += L(r2 + b, m) * d;                                                                                 \
    }                                                                                                                 \
    if (iw + 1 >= 0 && iw + 1 < q->w) {                                                                               \
      if (r0) a1 += L(r0 + b + c, m) * d;                                                                             \
      if (r1) a4 += L(r1 + b + c, m) * d;                                                                             \
      if (r2) a7 += L(r2 + b + c, m) * d;                                                                             \
    }                                                                                                                 \
    if (iw + 2 >= 0 && iw + 2 < q->w) {                                                                               \
      if (r0) a2 += L(r0 + b + 2 * c, m) * d;                                                                         \
      if (r1) a5 += L(r1 + b + 2 * c, m) * d;                                                                         \
      if (r2) a8 += L(r2 + b + 2 * c, m) * d;                                                                         \
    }                                                                                                                 \
  } while (0)
#define DW_ROW1(L, r, A, B, C)                                                                                        \
  do {                                                                                                                \
    vec v = L(r + b, m);                                                                                              \
    A += v * d0;                                                                                                      \
    v = L(r + b + c, m);                                                                                              \
    A += v * d1, B += v * d0;                                                                                         \
    v = L(r + b + 2 * c, m);                                                                                          \
    A += v * d2, B += v * d1, C += v * d0;                                                                            \
    v = L(r + b + 3 * c, m);                                                                                          \
    A += v * d3, B += v * d2, C += v * d1;                                                                            \
    v = L(r + b + 4 * c, m);                                                                                          \
    B += v * d3, C += v * d2;                                                                                         \
    v = L(r + b + 5 * c, m);                                                                                          \
    C += v * d3;                                                                                                      \
  } while (0)
#define DW_ROW2(L, r, A, B, C)                                                                                        \
  do {                                                                                                                \
    A += L(r + b, m) * d0, B += L(r + b + c, m) * d0;                                                                 \
    vec v = L(r + b + 2 * c, m);                                                                                      \
    C += v * d0, A += v * d1;                                                                                         \
    B += L(r + b + 3 * c, m) * d1;                                                                                    \
    v = L(r + b + 4 * c, m);                                                                                          \
    C += v * d1, A += v * d2;                                                                                         \
    B += L(r + b + 5 * c, m) * d2;                                                                                    \
    v = L(r + b + 6 * c, m);                                                                                          \
    C += v * d2, A += v * d3;                                                                                         \
    B += L(r + b + 7 * c, m) * d3, C += L(r + b + 8 * c, m) * d3;                                                     \
  } while (0)
/* inner: all three rows are there, so that blocks of four may be taken away from the left and right edge. */
#define DW_WEIGHTS_BLOCK(L, inner)                                                                                    \
  do {                                                                                                                \
    float *s = q->sums + c0;                                                                                          \
    vec a0 = vload_f(s, m), a1 = vload_f(s + c, m), a2 = vload_f(s + 2 * c, m), a3 = vload_f(s + 3 * c, m),           \
        a4 = vload_f(s + 4 * c, m), a5 = vload_f(s + 5 * c, m), a6 = vload_f(s + 6 * c, m), a7 = vload_f(s + 7 * c, m), \
        a8 = vload_f(s + 8 * c, m);                                                                                   \
    int64_t j = 0;                                                                                                    \
    if (inner) {                                                                                                      \
      for (; j < q->ow && j * q->stride < q->pad_left; j++) DW_EDGE(L, j);                                            \
      for (; j + 4 <= q->ow && (j + 3) * q->stride - q->pad_left + 2 < q->w; j += 4) {                                \
        const int64_t b = (j * q->stride - q->pad_left) * c + c0;                                                     \
        const vec d0 = L(g + j * c + c0, m), d1 = L(g + (j + 1) * c + c0, m), d2 = L(g + (j + 2) * c + c0, m),        \
                  d3 = L(g + (j + 3) * c + c0, m);                                                                    \
        if (q->stride == 1) {                                                                                         \
          DW_ROW1(L, r0, a0, a1, a2);                                                                                 \
          DW_ROW1(L, r1, a3, a4, a5);                                                                                 \
          DW_ROW1(L, r2, a6, a7, a8);                                                                                 \
        } else {                                                                                                      \
          DW_ROW2(L, r0, a0, a1, a2);                                                                                 \
          DW_ROW2(L, r1, a3, a4, a5);                                                                                 \
          DW_ROW2(L, r2, a6, a7, a8);                                                                                 \
        }                                                                                                             \
      }                                                                                                               \
    }                                                                                                                 \
    for (; j < q->ow; j++) DW_EDGE(L, j);                                                                             \
    vstore_f(s, &a0, m), vstore_f(s + c, &a1, m), vstore_f(s + 2 * c, &a2, m), vstore_f(s + 3 * c, &a3, m);           \
    vstore_f(s + 4 * c, &a4, m), vstore_f(s + 5 * c, &a5, m), vstore_f(s + 6 * c, &a6, m), vstore_f(s + 7 * c, &a7, m); \
    vstore_f(s + 8 * c, &a8, m);                                                                                      \
  } while (0)

/* Two columns of dx at once share what they read: with stride 2 an even position (from the filter's corner) is touched by the
 * filter's columns 0 and 2, an odd one by column 1. rows: the one or two rows of dy that touch this row of dx. */
#define DW(T, suffix, L, S)                                                                                           \
  static void dw_weights_##suffix(const od_simd_dw *q, int64_t begin, int64_t end) {                                  \
    const int64_t c = q->c;                                                                                           \
    for (int64_t r = begin; r < end; r++) {                                                                           \
      const int64_t image = r / q->oh, top = r % q->oh * q->stride - q->pad_top;                                      \
      const T *x = (const T *)q->x + (image * q->h + top) * q->w * c, *g = (const T *)q->dy + r * q->ow * c;          \
      const T *r0 = top >= 0 && top < q->h ? x : NULL;                                                                \
      const T *r1 = top + 1 >= 0 && top + 1 < q->h ? x + q->w * c : NULL;                                             \
      const T *r2 = top + 2 >= 0 && top + 2 < q->h ? x + 2 * q->w * c : NULL;                                         \
      int64_t c0 = 0;                                                                                                 \
      if (r0 && r1 && r2) {                                                                                           \
        for (; c0 + VL <= c; c0 += VL) {                                                                              \
          const int64_t m = VL;                                                                                       \
          DW_WEIGHTS_BLOCK(L, true);                                                                                     \
        }                                                                                                             \
      }                                                                                                               \
      for (; c0 < c; c0 += VL) {                                                                                      \
        const int64_t m = c - c0 < VL ? c - c0 : VL;                                                                  \
        DW_WEIGHTS_BLOCK(L, false);                                                                                       \
      }                                                                                                               \
    }                                                                                                                 \
  }                                                                                                                   \
  INLINE void dw_data2_part_##suffix(const od_simd_dw *q, T *o, const T *const *rows, const int *kr, const int nr, int64_t c0, \
                                     const int64_t m) {                                                               \
    const int64_t c = q->c;                                                                                           \
    for (int64_t j = 0; j < q->w; j++) {                                                                              \
      const int64_t t = j + q->pad_left, h = t >> 1;                                                                  \
      vec a = {0};                                                                                                    \
      for (int i = 0; i < nr; i++) {                                                                                  \
        const float *k = q->filter + (int64_t)kr[i] * 3 * c + c0;                                                     \
        const T *d = rows[i] + h * c + c0;                                                                            \
        if (t & 1) {                                                                                                  \
          if (h < q->ow) a += L(d, m) * vload_f(k + c, m);                                                            \
        } else {                                                                                                      \
          if (h < q->ow) a += L(d, m) * vload_f(k, m);                                                                \
          if (h >= 1 && h - 1 < q->ow) a += L(d - c, m) * vload_f(k + 2 * c, m);                                      \
        }                                                                                                             \
      }                                                                                                               \
      S(o + j * c + c0, &a, m);                                                                                       \
    }                                                                                                                 \
  }                                                                                                                   \
  static void dw_data2_##suffix(const od_simd_dw *q, int64_t begin, int64_t end) {                                    \
    const int64_t c = q->c;                                                                                           \
    for (int64_t r = begin; r < end; r++) {                                                                           \
      const int64_t image = r / q->h, ih = r % q->h;                                                                  \
      const T *rows[2] = {NULL, NULL};                                                                                \
      int kr[2] = {0, 0}, nr = 0;                                                                                     \
      for (int k = 0; k < 3; k++) {                                                                                   \
        const int64_t t = ih + q->pad_top - k;                                                                        \
        if (t < 0 || (t & 1) || t / 2 >= q->oh) continue;                                                             \
        kr[nr] = k;                                                                                                   \
        rows[nr++] = (const T *)q->dy + (image * q->oh + t / 2) * q->ow * c;                                          \
      }                                                                                                               \
      T *o = (T *)q->dx + r * q->w * c;                                                                               \
      int64_t c0 = 0;                                                                                                 \
      if (nr == 2)                                                                                                    \
        for (; c0 + VL <= c; c0 += VL) dw_data2_part_##suffix(q, o, rows, kr, 2, c0, VL);                             \
      else if (nr == 1)                                                                                               \
        for (; c0 + VL <= c; c0 += VL) dw_data2_part_##suffix(q, o, rows, kr, 1, c0, VL);                             \
      for (; c0 < c; c0 += VL) dw_data2_part_##suffix(q, o, rows, kr, nr, c0, c - c0 < VL ? c - c0 : VL);             \
    }                                                                                                                 \
  }
DW(float, f, vload_f, vstore_f)
DW(uint16_t, b, vload_b, vstore_b)
