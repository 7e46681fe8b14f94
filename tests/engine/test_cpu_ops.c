/* Every sample of every op: the cpu engine against the reference, fp32 (the op's tolerance), guard bytes behind every piece
 * of memory, a second run with the same bits and without an allocation, and 1, 2, 3 threads. */
#include <math.h>

#include "base/rng.h"
#include "engine/cpu/cpu.h"
#include "od_test.h"

static void fill(od_tensor *t, const od_sample_in *in, od_key key) {
  const int64_t n = od_tensor_size(t);
  for (int64_t i = 0; i < n; i++) {
    const double u = od_rng_f64(key, (uint64_t)i), f = in->lo + (in->hi - in->lo) * u;
    const int64_t k = (int64_t)in->lo + (int64_t)od_rng_below(key, (uint64_t)i, (uint64_t)(in->hi - in->lo) + 1);
    switch (t->dtype) {
      case OD_F32: ((float *)t->data)[i] = (float)f; break;
      case OD_I32: ((int32_t *)t->data)[i] = (int32_t)k; break;
      case OD_I64: ((int64_t *)t->data)[i] = k; break;
      case OD_U8: ((uint8_t *)t->data)[i] = (uint8_t)k; break;
      case OD_BF16: ((uint16_t *)t->data)[i] = od_f32_to_bf16((float)f); break;
      default: fail();
    }
  }
}

typedef struct {
  const char *engine;
  int threads;
  od_precision precision;
} how;

enum { OUT = 16 };

/* Runs the sample; copies of the outputs into out. Gives the number of fallbacks. */
static size_t run(od_tensor *out, const od_op *op, const od_sample *s, how h) {
  od_graph *g;
  od_engine *e;
  od_program *p;
  od_value in[OD_SAMPLE_IN], feeds[OD_SAMPLE_IN], fetch[OUT];
  od_tensor feed[OD_SAMPLE_IN], got[OUT];
  int n = 0;
  CHECK_OK(od_graph_new(&g));
  for (int i = 0; i < s->n_in; i++) {
    char name[16];
    snprintf(name, sizeof name, "in%d", i);
    in[i] = s->in[i].absent ? OD_NONE : od_input(g, name, s->in[i].dtype, s->in[i].shape);
    if (s->in[i].absent) continue;
    CHECK_OK(od_tensor_new(&feed[n], s->in[i].dtype, &s->in[i].shape));
    fill(&feed[n], &s->in[i], od_key_mix(7, (uint64_t)i));
    feeds[n++] = in[i];
  }
  od_value v = od_graph_add(g, op, in, s->n_in, s->params);
  CHECK_OK(od_graph_check(g));
  for (int k = 0; k < op->n_out; k++) fetch[k] = od_out(v, k);
  CHECK_OK(od_engine_new(&e, &(od_engine_options){.name = h.engine, .threads = h.threads, .precision = h.precision}));
  CHECK_OK(od_program_new(&p, e, &(od_program_spec){.graph = g, .feeds = feeds, .n_feeds = n, .fetches = fetch, .n_fetches = op->n_out}));
  CHECK_OK(od_program_run(p, feed, got));
  for (int k = 0; k < op->n_out; k++) CHECK_OK(od_tensor_copy(&out[k], &got[k]));
  uint64_t before = od_mem_count();
  CHECK_OK(od_program_run(p, feed, got));
  size_t fallbacks = od_program_fallbacks(p), n_steps;
  /* reference functions of detection ops may take memory for themselves */
  const od_profile_step *steps = od_program_profile_steps(p, &n_steps);
  bool by_ref = strcmp(h.engine, "ref") == 0;
  for (size_t i = 0; i < n_steps; i++) by_ref = by_ref || strncmp(steps[i].kernel, "ref", 3) == 0;
  if (!by_ref && od_mem_count() != before) fail_msg("%s, sample '%s': the second run allocates", op->name, s->name);
  for (int k = 0; k < op->n_out; k++) CHECK(memcmp(out[k].data, got[k].data, od_tensor_bytes(&got[k])) == 0);
  od_program_free(p);
  od_engine_free(e);
  od_graph_free(g);
  for (int i = 0; i < n; i++) od_tensor_free(&feed[i]);
  return fallbacks;
}

/* Largest difference over the root mean square of b; 0 for equal bits. NaN against NaN is equal. */
static double distance(const od_tensor *a, const od_tensor *b) {
  CHECK(a->dtype == b->dtype && od_shape_equal(&a->shape, &b->shape));
  if (memcmp(a->data, b->data, od_tensor_bytes(a)) == 0) return 0;
  if (a->dtype != OD_F32) return INFINITY;
  const float *x = a->data, *y = b->data;
  const int64_t n = od_tensor_size(a);
  double sum = 0, worst = 0;
  for (int64_t i = 0; i < n; i++) {
    if (isnan(x[i]) && isnan(y[i])) continue;
    if (x[i] == y[i]) continue;
    const double d = fabs((double)x[i] - (double)y[i]);
    if (!(d <= worst)) worst = d;
  }
  for (int64_t i = 0; i < n; i++) sum += isnan(y[i]) ? 0 : (double)y[i] * (double)y[i];
  return worst == 0 ? 0 : worst / sqrt(sum / (double)n);
}

static void free_all(od_tensor *t, int n) {
  for (int k = 0; k < n; k++) od_tensor_free(&t[k]);
}

static void every_sample(void **state) {
  (void)state;
  const od_op *op;
  int fallbacks = 0, samples = 0;
  for (size_t i = 0; (op = od_op_at(i)) != NULL; i++)
    for (int k = 0; k < op->n_samples; k++) {
      od_tensor ref[OUT], cpu[OUT];
      const od_sample *s = &op->samples[k];
      run(ref, op, s, (how){"ref", 1, OD_FP32});
      for (int threads = 1; threads <= 3; threads++) {
        fallbacks += run(cpu, op, s, (how){"cpu", threads, OD_FP32}) != 0;
        for (int o = 0; o < op->n_out; o++) {
          const double d = distance(&cpu[o], &ref[o]);
          if (!(d <= op->tolerance))
            fail_msg("%s, sample '%s', output %d, %d threads: off by %g of the root mean square, allowed %g", op->name, s->name, o,
                     threads, d, op->tolerance);
        }
        free_all(cpu, op->n_out);
      }
      free_all(ref, op->n_out);
      samples++;
    }
  print_message("%d samples, %d of %d runs by the reference function\n", samples, fallbacks, 3 * samples);
}

/* In bfloat16 an op's result is within a few roundings of its inputs and outputs. */
static void every_sample_in_bf16(void **state) {
  (void)state;
  const od_op *op;
  for (size_t i = 0; (op = od_op_at(i)) != NULL; i++) {
    if (!(op->flags & OD_OP_BF16) || strncmp(op->name, "max_pool_grad", 13) == 0) continue; /* ties differ after rounding */
    for (int k = 0; k < op->n_samples; k++) {
      od_tensor ref[OUT], cpu[OUT];
      const od_sample *s = &op->samples[k];
      if (s->in[0].lo > 10) continue; /* far from zero with a small spread: bfloat16 has no digits for that */
      run(ref, op, s, (how){"ref", 1, OD_FP32});
      run(cpu, op, s, (how){"cpu", 2, OD_MIXED_BF16});
      for (int o = 0; o < op->n_out; o++) {
        const double d = distance(&cpu[o], &ref[o]);
        if (!(d <= 0.05)) fail_msg("%s, sample '%s', output %d in bf16: off by %g of the root mean square", op->name, s->name, o, d);
      }
      free_all(cpu, op->n_out);
      free_all(ref, op->n_out);
    }
  }
}

/* A guarded engine's results are the same, so switching it on for all is no loss. */
static int guard_all(void **state) {
  (void)state;
  od_cpu_guard_steps(true);
  return 0;
}

/* The inner loops for every processor that this one can play, against the plain ones. */
static float *noise(float *x, int64_t n, od_key key, float lo, float hi) {
  for (int64_t i = 0; i < n; i++) x[i] = lo + (hi - lo) * od_rng_f32(key, (uint64_t)i);
  return x;
}

static void near_arrays(const char *what, const char *table, const float *a, const float *b, int64_t n, double tolerance) {
  for (int64_t i = 0; i < n; i++)
    if (!(fabs((double)a[i] - (double)b[i]) <= tolerance * (1 + fabs((double)b[i]))) && !(isnan(a[i]) && isnan(b[i])))
      fail_msg("%s of %s: element %d is %g, the plain loop gives %g", what, table, (int)i, (double)a[i], (double)b[i]);
}

static void every_table(void **state) {
  (void)state;
  enum { N = 5 * 7 * 41 };
  static float x[N], y[N], z[N], a[N], b[N], s[2][9 * 41];
  static uint16_t h[N], g[N], o[2][N];
  const od_cpu_simd *plain = od_cpu_simd_at(0), *t;
  const float p[2] = {1.5f, -0.25f};
  noise(x, N, 1, -3, 8), noise(y, N, 2, -1, 7), noise(z, N, 3, -1, 1);
  x[17] = NAN;
  plain->to_bf16(h, x, N);
  plain->to_bf16(g, y, N);
  for (int k = 1; (t = od_cpu_simd_at(k)) != NULL; k++) {
    const char *table = t->name;
#define X(name, n_in, formula)                                                                                        \
  plain->name(a, x, y, z, N, p);                                                                                      \
  t->name(b, x, y, z, N, p);                                                                                          \
  near_arrays(#name, table, b, a, N, 1e-6);
    OD_SIMD_MAPS(X)
#undef X
    t->to_bf16(o[0], x, N);
    CHECK(memcmp(o[0], h, sizeof h) == 0);
    t->to_float(b, h, N);
    plain->to_float(a, h, N);
    near_arrays("to_float", t->name, b, a, N, 0);
    CHECK_NEAR(t->sum(y, N), plain->sum(y, N), 1e-3);
    CHECK_NEAR(t->sum_squares(y, N), plain->sum_squares(y, N), 1e-2);
    CHECK_NEAR(t->sum_abs(y, N), plain->sum_abs(y, N), 1e-3);
    x[17] = 0.5f;
    for (int bf = 0; bf < 2; bf++) {
      od_simd_rows q = {.x = bf ? (void *)g : (void *)y, .dy = bf ? (void *)g : (void *)x, .c = 41, .lo = 0, .hi = 6, .shift = z, .a = x,
                        .b = z + 41, .k1 = z + 82, .k0 = x + 41};
      const od_simd_row_fn f[2][4] = {{plain->bn_sums[bf], plain->bn_grad_sums[bf], plain->bn_apply[bf], plain->bn_grad_apply[bf]},
                                      {t->bn_sums[bf], t->bn_grad_sums[bf], t->bn_apply[bf], t->bn_grad_apply[bf]}};
      for (int i = 0; i < 4; i++) {
        memset(s, 0, sizeof s);
        memset(o, 0, sizeof o);
        memset(a, 0, sizeof a);
        memset(b, 0, sizeof b);
        for (int w = 0; w < 2; w++) {
          q.s1 = s[w], q.s2 = s[w] + 41;
          q.y = bf ? (void *)o[w] : w ? (void *)b : (void *)a;
          f[w][i](&q, 1, 30);
        }
        near_arrays("batch norm sums", t->name, s[1], s[0], 82, 1e-4);
        if (bf) plain->to_float(a, o[0], N), plain->to_float(b, o[1], N);
        near_arrays("batch norm", t->name, b, a, N, bf ? 0.01 : 1e-5);
      }
      for (int stride = 1; stride <= 2; stride++) {
        od_simd_dw d = {.n = 1, .h = 5, .w = 7, .c = 41, .oh = stride == 1 ? 5 : 3, .ow = stride == 1 ? 7 : 4, .stride = stride, .pad_top = 1,
                        .pad_left = 1, .x = q.x, .dy = q.dy, .filter = z};
        memset(s, 0, sizeof s);
        for (int w = 0; w < 2; w++) {
          d.sums = s[w];
          d.dx = bf ? (void *)o[w] : w ? (void *)b : (void *)a;
          (w ? t : plain)->dw_weights[bf](&d, 0, d.oh);
          if (stride == 2) (w ? t : plain)->dw_data_stride2[bf](&d, 0, d.h);
        }
        near_arrays("depthwise filter gradient", t->name, s[1], s[0], 9 * 41, 1e-4);
        if (bf) plain->to_float(a, o[0], N), plain->to_float(b, o[1], N);
        if (stride == 2) near_arrays("depthwise input gradient", t->name, b, a, N, bf ? 0.01 : 1e-5);
      }
    }
    x[17] = NAN;
    print_message("%s agrees\n", t->name);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_sample), cmocka_unit_test(every_sample_in_bf16), cmocka_unit_test(every_table)};
  return cmocka_run_group_tests(tests, guard_all, NULL);
}
