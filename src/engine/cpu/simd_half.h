/* Loops that write bfloat16, with the processor's own rounding instruction: rounding with integers costs more than the
 * arithmetic. Part of simd_body.h where OD_SIMD_BF16 is defined. */
static inline __m512 half_load(__mmask16 m, const uint16_t *p) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, p)), 16));
}
static inline void half_store(__mmask16 m, uint16_t *p, __m512 v) {
  const __m256bh h = _mm512_cvtneps_pbh(v);
  __m256i bits_of;
  __builtin_memcpy(&bits_of, &h, sizeof bits_of);
  _mm256_mask_storeu_epi16(p, m, bits_of);
}
static inline __mmask16 half_mask(int64_t left) { return (__mmask16)(left >= 16 ? 0xffffu : (1u << left) - 1); }

static void half_to_bf16(uint16_t *y, const float *x, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    const __mmask16 m = half_mask(n - i);
    half_store(m, y + i, _mm512_maskz_loadu_ps(m, x + i));
  }
}

static void half_bn_apply(const od_simd_rows *q, int64_t begin, int64_t end) {
  const int64_t c = q->c;
  const __m512 lo = _mm512_set1_ps(q->lo), hi = _mm512_set1_ps(q->hi);
  for (int64_t r = begin; r < end; r++) {
    const uint16_t *x = (const uint16_t *)q->x + r * c;
    uint16_t *y = (uint16_t *)q->y + r * c;
    for (int64_t j = 0; j < c; j += 16) {
      const __mmask16 m = half_mask(c - j);
      const __m512 v = _mm512_fmadd_ps(half_load(m, x + j), _mm512_maskz_loadu_ps(m, q->a + j), _mm512_maskz_loadu_ps(m, q->b + j));
      half_store(m, y + j, _mm512_min_ps(hi, _mm512_max_ps(lo, v))); /* in this order NaN passes */
    }
  }
}

static void half_bn_grad_apply(const od_simd_rows *q, int64_t begin, int64_t end) {
  const int64_t c = q->c;
  const __m512 lo = _mm512_set1_ps(q->lo), hi = _mm512_set1_ps(q->hi);
  for (int64_t r = begin; r < end; r++) {
    const uint16_t *x = (const uint16_t *)q->x + r * c, *dy = (const uint16_t *)q->dy + r * c;
    uint16_t *dx = (uint16_t *)q->y + r * c;
    for (int64_t j = 0; j < c; j += 16) {
      const __mmask16 m = half_mask(c - j);
      const __m512 a = _mm512_maskz_loadu_ps(m, q->a + j), v = half_load(m, x + j);
      const __m512 u = _mm512_fmadd_ps(v, a, _mm512_maskz_loadu_ps(m, q->b + j));
      const __mmask16 passes = _mm512_cmp_ps_mask(u, lo, _CMP_GT_OQ) & _mm512_cmp_ps_mask(u, hi, _CMP_LT_OQ);
      const __m512 d = half_load(m & passes, dy + j);
      const __m512 k = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(m, q->k1 + j), v, _mm512_maskz_loadu_ps(m, q->k0 + j));
      half_store(m, dx + j, _mm512_fmadd_ps(a, d, k));
    }
  }
}
