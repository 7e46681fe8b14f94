/* The interpreter on small graphs made here with the GraphDef writer: loops, TensorArrays, branches, errors, damaged bytes. */
#include "od_test.h"

#include "base/rng.h"
#include "graph/emit_tf.h"
#include "io/wire.h"
#include "tfgraph/tfgraph.h"

static od_tfgraph *open_built(od_tf *t, od_str *bytes) {
  od_tfgraph *g;
  CHECK_OK(od_tf_check(t));
  CHECK_OK(od_tf_pack(bytes, t));
  size_t size;
  CHECK_OK(od_tf_size(&size, t));
  CHECK(size == bytes->len);
  od_tf_free(t);
  CHECK_OK(od_tfgraph_parse(&g, (od_view){(const uint8_t *)bytes->data, bytes->len}, "built"));
  return g;
}

static const char *node2(od_tf *t, const char *op, const char *name, const char *a, const char *b, od_dtype type) {
  const char *n = od_tf_add(t, op, name, OD_TF_INPUTS(a, b));
  od_tf_attr_type(t, "T", type);
  return n;
}

static const char *placeholder(od_tf *t, const char *name, od_dtype dtype, od_shape shape) {
  const char *n = od_tf_add(t, "Placeholder", name, NULL);
  od_tf_attr_type(t, "dtype", dtype);
  od_tf_attr_shape(t, "shape", &shape);
  return n;
}

/* table[i][j] = i * j + x, i < n, j < i: a loop in a loop, arrays, a constant carried through both. */
static void build_nested(od_tf *t) {
  const char *n = placeholder(t, "n", OD_I32, OD_SCALAR), *x = placeholder(t, "x", OD_I32, OD_SCALAR);
  const char *zero = od_tf_const_i32(t, "zero", 0);
  const char *sums = od_tf_array(t, "sums", OD_I32, n);
  const char *inits[] = {zero, od_tf_output(t, sums, 1)};
  od_tf_loop *outer = od_tf_while(t, "outer", inits, (od_dtype[]){OD_I32, OD_F32}, 2);
  const char *limit = od_tf_while_const(t, outer, n, OD_I32);
  od_tf_while_cond(t, outer, node2(t, "Less", "less", od_tf_while_var(outer, 0), limit, OD_I32));
  const char *i = od_tf_while_var(outer, 0);
  const char *start = od_tf_const_i32(t, "outer/start", 0), *none = od_tf_const_i32(t, "outer/none", 0);
  od_tf_loop *inner = od_tf_while(t, "inner", (const char *[]){start, none}, (od_dtype[]){OD_I32, OD_I32}, 2);
  const char *until = od_tf_while_const(t, inner, i, OD_I32), *deep = od_tf_while_const(t, inner, x, OD_I32);
  od_tf_while_cond(t, inner, node2(t, "Less", "less", od_tf_while_var(inner, 0), until, OD_I32));
  const char *j = od_tf_while_var(inner, 0);
  const char *term = node2(t, "Add", "term", node2(t, "Mul", "product", until, j, OD_I32), deep, OD_I32);
  const char *sum = node2(t, "Add", "sum", od_tf_while_var(inner, 1), term, OD_I32);
  const char *j1 = node2(t, "Add", "j1", j, od_tf_const_i32(t, "inner/one", 1), OD_I32);
  od_tf_while_end(t, inner, OD_TF_INPUTS(j1, sum));
  const char *handle = od_tf_while_handle(t, outer, sums);
  const char *flow =
      od_tf_array_write(t, "write", OD_I32, handle, i, od_tf_while_result(inner, 1), od_tf_while_var(outer, 1));
  const char *i1 = node2(t, "Add", "i1", i, od_tf_const_i32(t, "outer/one", 1), OD_I32);
  od_tf_while_end(t, outer, OD_TF_INPUTS(i1, flow));
  const char *all = od_tf_array_gather(t, "all", OD_I32, sums, n, od_tf_while_result(outer, 1), &OD_SCALAR);
  od_tf_add(t, "Identity", "result", OD_TF_INPUTS(all));
  od_tf_attr_type(t, "T", OD_I32);
}

static void run_nested(od_tfgraph *g, int32_t n) {
  int32_t x = 3;
  od_tensor got;
  od_tfgraph_feed feeds[] = {{"n", {OD_I32, OD_SCALAR, &n}}, {"x:0", {OD_I32, OD_SCALAR, &x}}};
  CHECK_OK(od_tfgraph_run(g, feeds, 2, (const char *const[]){"result:0"}, 1, &got));
  CHECK(got.dtype == OD_I32 && got.shape.rank == 1 && got.shape.dim[0] == n);
  for (int32_t i = 0; i < n; i++) CHECK(((int32_t *)got.data)[i] == i * (i * (i - 1) / 2) + i * x);
  od_tensor_free(&got);
}

static void loops_nest(void **state) {
  (void)state;
  od_tf *t;
  od_str bytes = OD_STR_INIT;
  CHECK_OK(od_tf_new(&t));
  build_nested(t);
  od_tfgraph *g = open_built(t, &bytes);
  CHECK_OK(od_tfgraph_check(g));
  for (int32_t n = 0; n < 7; n++) run_nested(g, n);
  od_tfgraph_limit(g, 1 << 20, 3, INT64_MAX);
  int32_t n = 10;
  od_tensor got;
  od_tfgraph_feed feeds[] = {{"n", {OD_I32, OD_SCALAR, &n}}, {"x", {OD_I32, OD_SCALAR, &n}}};
  CHECK_FAILS(od_tfgraph_run(g, feeds, 2, (const char *const[]){"result"}, 1, &got), OD_EDATA, "does not end");
  od_tfgraph_free(g);
  od_str_free(&bytes);
}

/* Nothing to store and four thousand million pixels to walk; many small products in a loop: both end at the limit of work. */
static void work_is_bounded(void **state) {
  (void)state;
  od_tf *t;
  od_str bytes = OD_STR_INIT;
  od_tensor got;
  CHECK_OK(od_tf_new(&t));
  const char *x = placeholder(t, "x", OD_F32, OD_SHAPE(1, 1, 1, -1));
  const char *size = od_tf_const_i32s(t, "size", (const int32_t[]){65536, 65536}, 2);
  od_tf_add(t, "ResizeBilinear", "result", OD_TF_INPUTS(x, size));
  od_tf_attr_type(t, "T", OD_F32);
  od_tfgraph *g = open_built(t, &bytes);
  od_tfgraph_limit(g, 1 << 16, 20, 1 << 20);
  float nothing = 0;
  od_tfgraph_feed feeds[] = {{"x", {OD_F32, OD_SHAPE(1, 1, 1, 0), &nothing}}};
  CHECK_FAILS(od_tfgraph_run(g, feeds, 1, (const char *const[]){"result"}, 1, &got), OD_EDATA, "which is the limit");
  od_tfgraph_free(g);
  od_str_free(&bytes);

  CHECK_OK(od_tf_new(&t));
  build_nested(t);
  g = open_built(t, &bytes);
  int32_t n = 40;
  od_tfgraph_feed ints[] = {{"n", {OD_I32, OD_SCALAR, &n}}, {"x", {OD_I32, OD_SCALAR, &n}}};
  od_tfgraph_limit(g, 1 << 16, 50, 1 << 20);
  CHECK_OK(od_tfgraph_run(g, ints, 2, (const char *const[]){"result"}, 1, &got));
  od_tensor_free(&got);
  /* each run begins anew */
  CHECK_OK(od_tfgraph_run(g, ints, 2, (const char *const[]){"result"}, 1, &got));
  od_tensor_free(&got);
  od_tfgraph_limit(g, 1 << 16, 50, 1 << 14);
  CHECK_FAILS(od_tfgraph_run(g, ints, 2, (const char *const[]){"result"}, 1, &got), OD_EDATA, "which is the limit");
  od_tfgraph_free(g);
  od_str_free(&bytes);
}

/* The same list of calls gives the same bytes. */
static void bytes_are_deterministic(void **state) {
  (void)state;
  od_str a = OD_STR_INIT, b = OD_STR_INIT;
  for (int i = 0; i < 2; i++) {
    od_tf *t;
    CHECK_OK(od_tf_new(&t));
    build_nested(t);
    CHECK_OK(od_tf_pack(i ? &b : &a, t));
    od_tf_free(t);
  }
  CHECK(a.len == b.len && memcmp(a.data, b.data, a.len) == 0);
  od_str_free(&a);
  od_str_free(&b);
}

/* if (x > 0) x + x else -x, with Switch and Merge; the Neg runs only where it is taken. */
static void branches(void **state) {
  (void)state;
  od_tf *t;
  od_str bytes = OD_STR_INIT;
  CHECK_OK(od_tf_new(&t));
  const char *x = placeholder(t, "x", OD_F32, OD_SCALAR);
  const char *pred = node2(t, "Greater", "pred", x, od_tf_const_f32(t, "zero", 0), OD_F32);
  const char *s = node2(t, "Switch", "switch", x, pred, OD_F32);
  const char *yes = node2(t, "Add", "yes", od_tf_output(t, s, 1), od_tf_output(t, s, 1), OD_F32);
  const char *no = od_tf_add(t, "Neg", "no", OD_TF_INPUTS(s));
  od_tf_attr_type(t, "T", OD_F32);
  const char *m = od_tf_add(t, "Merge", "merge", OD_TF_INPUTS(no, yes));
  od_tf_attr_type(t, "T", OD_F32);
  od_tf_attr_int(t, "N", 2);
  od_tf_out(t, 0, m);
  od_tfgraph *g = open_built(t, &bytes);
  for (int i = 0; i < 2; i++) {
    float v = i ? 4.0f : -3.0f;
    od_tensor got[2];
    CHECK_OK(od_tfgraph_run(g, &(od_tfgraph_feed){"x", {OD_F32, OD_SCALAR, &v}}, 1,
                            (const char *const[]){"merge", "merge:1"}, 2, got));
    CHECK(*(float *)got[0].data == (i ? 8.0f : 3.0f));
    CHECK(*(int32_t *)got[1].data == i);
    od_tensor_free(&got[0]);
    od_tensor_free(&got[1]);
    CHECK_FAILS(od_tfgraph_run(g, &(od_tfgraph_feed){"x", {OD_F32, OD_SCALAR, &v}}, 1,
                               (const char *const[]){i ? "no" : "yes"}, 1, got),
                OD_EDATA, "branch not taken");
  }
  od_tfgraph_free(g);
  od_str_free(&bytes);
}

static void any_tensor_may_be_fed(void **state) {
  (void)state;
  od_tf *t;
  od_str bytes = OD_STR_INIT;
  CHECK_OK(od_tf_new(&t));
  const char *x = placeholder(t, "x", OD_F32, OD_SHAPE(-1));
  const char *y = node2(t, "Mul", "y", x, x, OD_F32);
  node2(t, "Add", "z", y, y, OD_F32);
  od_tfgraph *g = open_built(t, &bytes);
  float v[2] = {1, 2};
  od_tensor got;
  od_tensor two = {OD_F32, OD_SHAPE(2), v};
  CHECK_OK(od_tfgraph_run(g, &(od_tfgraph_feed){"y", two}, 1, (const char *const[]){"z"}, 1, &got));
  CHECK(((float *)got.data)[1] == 4);
  od_tensor_free(&got);
  CHECK_OK(od_tfgraph_run(g, &(od_tfgraph_feed){"x", two}, 1, (const char *const[]){"z"}, 1, &got));
  CHECK(((float *)got.data)[1] == 8);
  od_tensor_free(&got);
  CHECK_FAILS(od_tfgraph_run(g, NULL, 0, (const char *const[]){"z"}, 1, &got), OD_EINVAL, "must be fed");
  CHECK_FAILS(od_tfgraph_run(g, &(od_tfgraph_feed){"w", two}, 1, (const char *const[]){"z"}, 1, &got), OD_ENOENT,
              "'w'");
  CHECK_FAILS(od_tfgraph_run(g, &(od_tfgraph_feed){"x", two}, 1, (const char *const[]){"q"}, 1, &got), OD_ENOENT,
              "'q'");
  two.shape = OD_SHAPE(1, 2);
  CHECK_FAILS(od_tfgraph_run(g, &(od_tfgraph_feed){"x", two}, 1, (const char *const[]){"z"}, 1, &got), OD_EINVAL,
              "[1,2]");
  int32_t n[2] = {1, 2};
  two = (od_tensor){OD_I32, OD_SHAPE(2), n};
  CHECK_FAILS(od_tfgraph_run(g, &(od_tfgraph_feed){"x", two}, 1, (const char *const[]){"z"}, 1, &got), OD_EINVAL,
              "int32");
  od_tfgraph_free(g);
  od_str_free(&bytes);
}

/* One wrong node; what the refusal says. */
static void refuse(const char *op, const char *attr, int64_t value, const char *text) {
  od_tf *t;
  od_str bytes = OD_STR_INIT;
  CHECK_OK(od_tf_new(&t));
  const char *x = placeholder(t, "x", OD_F32, OD_SHAPE(-1));
  od_tf_add(t, op, "wrong", OD_TF_INPUTS(x, x));
  if (strcmp(attr, "T") == 0)
    od_tf_attr_datatype(t, "T", (int)value);
  else
    od_tf_attr_int(t, attr, value);
  od_tfgraph *g = open_built(t, &bytes);
  float v = 1;
  od_tensor got;
  od_status st =
      od_tfgraph_run(g, &(od_tfgraph_feed){"x", {OD_F32, OD_SHAPE(1), &v}}, 1, (const char *const[]){"wrong"}, 1, &got);
  CHECK(st != OD_OK && strstr(od_message(), text) && strstr(od_message(), "wrong"));
  od_tfgraph_free(g);
  od_str_free(&bytes);
}

static void wrong_nodes_are_named(void **state) {
  (void)state;
  refuse("FancyNewOp", "T", 1, "FancyNewOp");
  refuse("Add", "T", 3, "int32");
  refuse("Add", "T", 77, "another type");
  refuse("Add", "axis", 1, "axis");
  refuse("Neg", "T", 1, "2 inputs");
  refuse("Pack", "N", 3, "lacks");
}

/* What TensorFlow refuses for its rank alone: a list of one axis is no axis; an element of another rank than the array's. */
static void ranks_are_checked(void **state) {
  (void)state;
  od_tf *t;
  od_str bytes = OD_STR_INIT;
  CHECK_OK(od_tf_new(&t));
  const char *x = placeholder(t, "x", OD_F32, OD_SHAPE(-1)), *one = od_tf_const_i32(t, "one", 1);
  const char *list = od_tf_const_i32s(t, "list", (const int32_t[]){0}, 1);
  od_tf_add(t, "GatherV2", "gather", OD_TF_INPUTS(x, one, list));
  od_tf_attr_type(t, "Tparams", OD_F32);
  od_tf_attr_type(t, "Tindices", OD_I32);
  od_tf_attr_type(t, "Taxis", OD_I32);
  od_tf_add(t, "ConcatV2", "concat", OD_TF_INPUTS(x, x, list));
  od_tf_attr_type(t, "T", OD_F32);
  od_tf_attr_type(t, "Tidx", OD_I32);
  od_tf_attr_int(t, "N", 2);
  od_tf_add(t, "Range", "range", OD_TF_INPUTS(one, one, list));
  od_tf_attr_type(t, "Tidx", OD_I32);
  const char *array = od_tf_add(t, "TensorArrayV3", "array", OD_TF_INPUTS(one));
  od_tf_attr_type(t, "dtype", OD_F32);
  od_tf_attr_shape(t, "element_shape", &OD_SHAPE(-1, 4));
  const char *first = od_tf_const_i32(t, "first", 0);
  od_tf_array_write(t, "write", OD_F32, array, first, x, od_tf_output(t, array, 1));
  const char *scatter = od_tf_array_scatter(t, "scatter", OD_F32, array, x, od_tf_output(t, array, 1));
  char rows[64];
  snprintf(rows, sizeof rows, "%s", scatter);
  od_tfgraph *g = open_built(t, &bytes);
  float v = 1;
  od_tensor got;
  od_tfgraph_feed feed = {"x", {OD_F32, OD_SHAPE(1), &v}};
  CHECK_FAILS(od_tfgraph_run(g, &feed, 1, (const char *const[]){"gather"}, 1, &got), OD_EDATA, "rank 0 is needed");
  CHECK_FAILS(od_tfgraph_run(g, &feed, 1, (const char *const[]){"concat"}, 1, &got), OD_EDATA, "rank 0 is needed");
  CHECK_FAILS(od_tfgraph_run(g, &feed, 1, (const char *const[]){"range"}, 1, &got), OD_EDATA, "rank 0 is needed");
  CHECK_FAILS(od_tfgraph_run(g, &feed, 1, (const char *const[]){"write"}, 1, &got), OD_EDATA,
              "an element is [1], the TensorArray's are [?,4]");
  CHECK_FAILS(od_tfgraph_run(g, &feed, 1, (const char *const[]){rows}, 1, &got), OD_EDATA,
              "an element is [], the TensorArray's are [?,4]");
  od_tfgraph_free(g);
  od_str_free(&bytes);
}

static void frames_are_checked_while_writing(void **state) {
  (void)state;
  od_tf *t;
  CHECK_OK(od_tf_new(&t));
  const char *zero = od_tf_const_i32(t, "zero", 0), *n = od_tf_const_i32(t, "n", 5);
  od_tf_loop *w = od_tf_while(t, "loop", (const char *[]){zero}, (od_dtype[]){OD_I32}, 1);
  node2(t, "Less", "less", od_tf_while_var(w, 0), n, OD_I32);
  CHECK_FAILS(od_tf_check(t), OD_EINVAL, "od_tf_while_const");
  od_tf_free(t);
  CHECK_OK(od_tf_new(&t));
  od_tf_add(t, "Neg", "a", OD_TF_INPUTS("nothing"));
  CHECK_FAILS(od_tf_check(t), OD_EINVAL, "nothing");
  od_tf_free(t);
}

/* Opening and running whatever the bytes say: no crash, and a message where it fails. */
static void try_bytes(const uint8_t *data, size_t size) {
  od_tfgraph *g;
  /* a copy of its own, so that a sanitizer sees reads behind the end */
  uint8_t *copy = od_alloc(size ? size : 1);
  CHECK(copy);
  memcpy(copy, data, size);
  if (od_tfgraph_parse(&g, (od_view){copy, size}, "cut") != OD_OK) {
    CHECK(*od_message());
  } else {
    int32_t n = 3;
    od_tensor got;
    od_tfgraph_feed feeds[] = {{"n", {OD_I32, OD_SCALAR, &n}}, {"x", {OD_I32, OD_SCALAR, &n}}};
    od_tfgraph_limit(g, 1 << 16, 50, 1 << 22);
    if (od_tfgraph_run(g, feeds, 2, (const char *const[]){"result"}, 1, &got) == OD_OK)
      od_tensor_free(&got);
    else
      CHECK(*od_message());
    if (od_tfgraph_check(g) != OD_OK) CHECK(*od_message());
    od_tfgraph_free(g);
  }
  od_free(copy);
}

/* The graph as a SavedModel with a signature. */
static void wrap(od_str *model, const od_str *graph) {
  od_wire_put_varint(model, 1, 1);
  size_t meta = od_wire_begin(model, 2);
  size_t info = od_wire_begin(model, 1);
  od_wire_put_text(model, 4, "serve");
  od_wire_end(model, info);
  od_wire_put_bytes(model, 2, graph->data, graph->len);
  size_t entry = od_wire_begin(model, 5);
  od_wire_put_text(model, 1, "serving_default");
  size_t signature = od_wire_begin(model, 2), port = od_wire_begin(model, 2);
  od_wire_put_text(model, 1, "out");
  size_t tensor = od_wire_begin(model, 2);
  od_wire_put_text(model, 1, "result:0");
  od_wire_put_varint(model, 2, 3);
  od_wire_end(model, tensor);
  od_wire_end(model, port);
  od_wire_end(model, signature);
  od_wire_end(model, entry);
  od_wire_end(model, meta);
  CHECK_OK(od_str_check(model));
}

static void damaged_files(void **state) {
  bool saved_model = *state != NULL;
  od_tf *t;
  od_str bytes = OD_STR_INIT;
  CHECK_OK(od_tf_new(&t));
  build_nested(t);
  CHECK_OK(od_tf_pack(&bytes, t));
  od_tf_free(t);
  if (saved_model) {
    od_str model = OD_STR_INIT;
    wrap(&model, &bytes);
    od_str_free(&bytes);
    bytes = model;
    od_tfgraph *g;
    CHECK_OK(od_tfgraph_parse(&g, (od_view){(const uint8_t *)bytes.data, bytes.len}, "model"));
    CHECK_TEXT(od_tfgraph_output(g, 0)->key, "out");
    run_nested(g, 4);
    od_tfgraph_free(g);
  }
  size_t used = od_mem_used();
  for (size_t cut = 0; cut < bytes.len; cut++) try_bytes((const uint8_t *)bytes.data, cut);
  for (uint64_t i = 0; i < 4000; i++) {
    size_t at = (size_t)od_rng_below(1, 2 * i, bytes.len);
    char old = bytes.data[at];
    bytes.data[at] = (char)od_rng_u64(1, 2 * i + 1);
    try_bytes((const uint8_t *)bytes.data, bytes.len);
    bytes.data[at] = old;
  }
  CHECK(od_mem_used() == used);
  od_str_free(&bytes);
}

/* The n-th allocation fails: a status, and nothing is left behind. */
static void memory_runs_short(void **state) {
  (void)state;
  od_tf *t;
  od_str bytes = OD_STR_INIT;
  CHECK_OK(od_tf_new(&t));
  build_nested(t);
  CHECK_OK(od_tf_pack(&bytes, t));
  od_tf_free(t);
  size_t used = od_mem_used();
  bool worked = false;
  for (uint64_t n = 1; !worked && n < 5000; n++) {
    od_tfgraph *g = NULL;
    int32_t three = 3;
    od_tensor got;
    od_tfgraph_feed feeds[] = {{"n", {OD_I32, OD_SCALAR, &three}}, {"x", {OD_I32, OD_SCALAR, &three}}};
    od_mem_fail_at(n);
    od_status st = od_tfgraph_parse(&g, (od_view){(const uint8_t *)bytes.data, bytes.len}, "short");
    if (st == OD_OK) st = od_tfgraph_run(g, feeds, 2, (const char *const[]){"result"}, 1, &got);
    od_mem_fail_at(0);
    worked = st == OD_OK;
    if (worked)
      od_tensor_free(&got);
    else
      CHECK(st == OD_ENOMEM);
    od_tfgraph_free(g);
    CHECK(od_mem_used() == used);
  }
  CHECK(worked);
  od_str_free(&bytes);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(loops_nest),
      cmocka_unit_test(work_is_bounded),
      cmocka_unit_test(bytes_are_deterministic),
      cmocka_unit_test(branches),
      cmocka_unit_test(any_tensor_may_be_fed),
      cmocka_unit_test(wrong_nodes_are_named),
      cmocka_unit_test(ranks_are_checked),
      cmocka_unit_test(frames_are_checked_while_writing),
      cmocka_unit_test(damaged_files),
      cmocka_unit_test_prestate(damaged_files, (void *)1),
      cmocka_unit_test(memory_runs_short),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
