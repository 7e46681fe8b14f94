/* The interpreter's heavy nodes on the engine's kernels: products against sums in double; a convolution with bias, batch norm and
 * activation folded in against the same nodes one by one, for several sizes, constant and fed filters. */
#include "od_test.h"

#include "base/rng.h"
#include "graph/emit_tf.h"
#include "tfgraph/tfgraph.h"

static od_tfgraph *open_built(od_tf *t, od_str *bytes) {
  od_tfgraph *g;
  CHECK_OK(od_tf_check(t));
  CHECK_OK(od_tf_pack(bytes, t));
  od_tf_free(t);
  CHECK_OK(od_tfgraph_parse(&g, (od_view){(const uint8_t *)bytes->data, bytes->len}, "built"));
  return g;
}

static const char *placeholder(od_tf *t, const char *name, od_shape shape) {
  const char *n = od_tf_add(t, "Placeholder", name, NULL);
  od_tf_attr_type(t, "dtype", OD_F32);
  od_tf_attr_shape(t, "shape", &shape);
  return n;
}

static od_tensor draw(uint64_t key, od_shape shape, float low, float high) {
  od_tensor t;
  CHECK_OK(od_tensor_new(&t, OD_F32, &shape));
  for (int64_t i = 0, n = od_tensor_size(&t); i < n; i++)
    ((float *)t.data)[i] = low + (high - low) * od_rng_f32(key, (uint64_t)i);
  return t;
}

static const char *constant(od_tf *t, const char *name, uint64_t key, od_shape shape, float low, float high) {
  od_tensor v = draw(key, shape, low, high);
  const char *n = od_tf_const(t, name, &v);
  od_tensor_free(&v);
  return n;
}

static void product(int64_t m, int64_t k, int64_t n, bool ta, bool tb) {
  od_tf *t;
  od_str bytes = OD_STR_INIT;
  CHECK_OK(od_tf_new(&t));
  const char *a = placeholder(t, "a", OD_SHAPE(-1, -1)), *b = placeholder(t, "b", OD_SHAPE(-1, -1));
  od_tf_add(t, "MatMul", "c", OD_TF_INPUTS(a, b));
  od_tf_attr_type(t, "T", OD_F32);
  od_tf_attr_bool(t, "transpose_a", ta);
  od_tf_attr_bool(t, "transpose_b", tb);
  od_tfgraph *g = open_built(t, &bytes);
  od_tensor x = draw(1, ta ? OD_SHAPE(k, m) : OD_SHAPE(m, k), -1, 1), y = draw(2, tb ? OD_SHAPE(n, k) : OD_SHAPE(k, n), -1, 1);
  od_tensor c;
  const od_tfgraph_feed feeds[] = {{"a", x}, {"b", y}};
  CHECK_OK(od_tfgraph_run(g, feeds, 2, (const char *const[]){"c"}, 1, &c));
  for (int64_t r = 0; r < m; r++)
    for (int64_t j = 0; j < n; j++) {
      double sum = 0;
      for (int64_t i = 0; i < k; i++)
        sum += (double)((float *)x.data)[ta ? i * m + r : r * k + i] * (double)((float *)y.data)[tb ? j * k + i : i * n + j];
      CHECK_NEAR(((float *)c.data)[r * n + j], sum, 1e-5 * (1 + (double)k / 100));
    }
  od_tensor_free(&x);
  od_tensor_free(&y);
  od_tensor_free(&c);
  od_tfgraph_free(g);
  od_str_free(&bytes);
}

static void products(void **state) {
  (void)state;
  static const int64_t sizes[] = {1, 5, 16, 17};
  for (size_t i = 0; i < 4; i++)
    for (size_t j = 0; j < 4; j++)
      for (int k = 0; k < 4; k++) product(sizes[i], sizes[(i + j) % 4], sizes[j], k & 1, k & 2);
  product(61, 700, 33, false, true);
  product(3, 0, 4, false, false); /* no terms: zeros */
}

/* y = act(norm(conv(x) + bias)); every node is named, so that fetching one keeps it from being folded. */
static od_tfgraph *build_layer(od_str *bytes, bool depthwise) {
  enum { IN = 6, OUT = 300 }; /* the full filter has 151200 bytes: more than is kept of a constant */
  od_tf *t;
  CHECK_OK(od_tf_new(&t));
  const int64_t n = depthwise ? IN * 2 : OUT;
  const char *x = placeholder(t, "x", OD_SHAPE(-1, -1, -1, IN));
  const char *w = constant(t, "w", 3, depthwise ? OD_SHAPE(3, 3, IN, 2) : OD_SHAPE(7, 3, IN, OUT), -1, 1);
  const char *read = od_tf_add(t, "Identity", "w/read", OD_TF_INPUTS(w));
  od_tf_attr_type(t, "T", OD_F32);
  const char *y = od_tf_add(t, depthwise ? "DepthwiseConv2dNative" : "Conv2D", "conv", OD_TF_INPUTS(x, read));
  od_tf_attr_type(t, "T", OD_F32);
  od_tf_attr_ints(t, "strides", (const int64_t[]){1, 2, 2, 1}, 4);
  od_tf_attr_text(t, "padding", "SAME");
  y = od_tf_add(t, "BiasAdd", "biased", OD_TF_INPUTS(y, constant(t, "bias", 4, OD_SHAPE(n), -1, 1)));
  od_tf_attr_type(t, "T", OD_F32);
  y = od_tf_add(t, "FusedBatchNorm", "normed",
                OD_TF_INPUTS(y, constant(t, "gamma", 5, OD_SHAPE(n), 0.5f, 1.5f), constant(t, "beta", 6, OD_SHAPE(n), -1, 1),
                             constant(t, "mean", 7, OD_SHAPE(n), -1, 1), constant(t, "variance", 8, OD_SHAPE(n), 0.5f, 2)));
  od_tf_attr_type(t, "T", OD_F32);
  od_tf_attr_bool(t, "is_training", false);
  od_tf_add(t, "Relu6", "y", OD_TF_INPUTS(y));
  od_tf_attr_type(t, "T", OD_F32);
  return open_built(t, bytes);
}

static void folding_changes_rounding_only(void **state) {
  bool depthwise = *state != NULL;
  od_str bytes = OD_STR_INIT;
  od_tfgraph *g = build_layer(&bytes, depthwise);
  static const char *const alone[] = {"y"}, *const all[] = {"y", "conv", "biased", "normed"};
  od_tensor filter = draw(3, depthwise ? OD_SHAPE(3, 3, 6, 2) : OD_SHAPE(7, 3, 6, 300), -1, 1);
  /* six sizes, more than are kept; the first comes back */
  for (int64_t i = 0; i < 7; i++) {
    od_tensor x = draw((uint64_t)(20 + i % 6), OD_SHAPE(1 + i % 2, 9 + i % 6, 12 - i % 6, 6), -1, 1), folded, got[4], fed;
    const od_tfgraph_feed feeds[] = {{"x", x}, {"w/read", filter}};
    CHECK_OK(od_tfgraph_run(g, feeds, 1, alone, 1, &folded));
    CHECK_OK(od_tfgraph_run(g, feeds, 1, all, 4, got));
    CHECK_OK(od_tfgraph_run(g, feeds, 2, alone, 1, &fed)); /* no constant any more */
    CHECK(od_shape_equal(&folded.shape, &got[0].shape) && od_shape_equal(&fed.shape, &got[0].shape));
    int64_t between = 0, n = od_tensor_size(&folded);
    for (int64_t k = 0; k < n; k++) {
      float want = ((float *)got[0].data)[k];
      between += want > 0 && want < 6;
      CHECK_NEAR(((float *)folded.data)[k], want, 2e-5);
      CHECK_NEAR(((float *)fed.data)[k], want, 2e-5);
    }
    CHECK(between > n / 10);
    od_tensor_free(&x);
    od_tensor_free(&folded);
    od_tensor_free(&fed);
    for (int k = 0; k < 4; k++) od_tensor_free(&got[k]);
  }
  od_tensor_free(&filter);
  od_tfgraph_free(g);
  od_str_free(&bytes);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(products), cmocka_unit_test(folding_changes_rounding_only),
                                     cmocka_unit_test_prestate(folding_changes_rounding_only, (void *)1)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
