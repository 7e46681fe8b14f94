/* Ops against TensorFlow's own kernels: the files of tests/golden/ops (made by tests/witness/make_op_golden.py) on every engine, and
 * the original's optimizer runs in the shared witness figures (whole trajectories, clipping, batch norm in training). */
#include <jansson.h>
#include <math.h>

#include "engine/program.h"
#include "graph/autodiff.h"
#include "od_test.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "ops/optim.h"

static const char *const engine_names[] = {"ref", "cpu"};
enum { VALUES = 16 };

/* ------------------------------------------------------------------------------------------------------------- reading */
static json_t *load(const char *path) {
  json_error_t e;
  json_t *root = json_load_file(path, 0, &e);
  if (!root) fail_msg("%s:%d: %s", path, e.line, e.text);
  return root;
}

static od_dtype dtype_named(const char *name) {
  for (int t = 0; t < OD_DTYPE_COUNT; t++)
    if (strcmp(od_dtype_name((od_dtype)t), name) == 0) return (od_dtype)t;
  fail_msg("type %s", name);
  return OD_F32;
}

/* {"dtype", "shape", "data"}; null: data NULL. The caller frees. */
static od_tensor read_tensor(const json_t *j) {
  od_tensor t = {OD_F32, OD_SCALAR, NULL};
  if (json_is_null(j)) return t;
  const json_t *shape = json_object_get(j, "shape"), *data = json_object_get(j, "data");
  od_shape s = {(int)json_array_size(shape), {0}};
  for (int i = 0; i < s.rank; i++) s.dim[i] = json_integer_value(json_array_get(shape, (size_t)i));
  CHECK_OK(od_tensor_new(&t, dtype_named(json_string_value(json_object_get(j, "dtype"))), &s));
  CHECK(od_tensor_size(&t) == (int64_t)json_array_size(data));
  for (size_t i = 0; i < json_array_size(data); i++) {
    double v = json_number_value(json_array_get(data, i));
    if (t.dtype == OD_F32) ((float *)t.data)[i] = (float)v;
    else if (t.dtype == OD_I32) ((int32_t *)t.data)[i] = (int32_t)v;
    else fail_msg("a tensor of %s", od_dtype_name(t.dtype));
  }
  return t;
}

/* Parameters by the op's own table. lists: memory for lists, which must outlive the result. */
static void read_params(char *out, const od_op *op, const json_t *j, int64_t lists[4][VALUES]) {
  int n_lists = 0;
  const char *key;
  json_t *unused;
  memset(out, 0, op->params_size);
  json_object_foreach((json_t *)(uintptr_t)j, key, unused) {
    bool known = false;
    for (const od_param *p = op->params; p && p->name; p++) known = known || strcmp(p->name, key) == 0;
    if (!known) fail_msg("op %s has no parameter %s", op->name, key);
  }
  for (const od_param *p = op->params; p && p->name; p++) {
    const json_t *v = json_object_get(j, p->name);
    void *field = out + p->offset;
    if (!v) fail_msg("op %s: parameter %s is not given", op->name, p->name);
    switch (p->type) {
      case OD_P_INT: *(int64_t *)field = json_integer_value(v); break;
      case OD_P_FLOAT: *(float *)field = (float)json_number_value(v); break;
      case OD_P_BOOL: *(bool *)field = json_is_true(v); break;
      case OD_P_DTYPE: *(od_dtype *)field = dtype_named(json_string_value(v)); break;
      case OD_P_ENUM: {
        int k = 0;
        while (p->names[k] && strcmp(p->names[k], json_string_value(v)) != 0) k++;
        CHECK(p->names[k]);
        *(int *)field = k;
        break;
      }
      case OD_P_INTS: {
        int64_t *list = lists[n_lists++];
        CHECK(n_lists <= 4 && json_array_size(v) <= VALUES);
        for (size_t i = 0; i < json_array_size(v); i++) list[i] = json_integer_value(json_array_get(v, i));
        *(od_ints *)field = (od_ints){(int)json_array_size(v), list};
        break;
      }
      default: fail_msg("op %s: parameter %s is of a type that this test does not read", op->name, p->name);
    }
  }
}

/* Largest difference over the root mean square of what is expected; NaN where the other is not counts as infinite. */
static double distance(const od_tensor *got, const od_tensor *want) {
  double sum = 0, worst = 0;
  int64_t n = od_tensor_size(want);
  for (int64_t i = 0; i < n; i++) {
    double a, b;
    if (want->dtype == OD_F32) a = (double)((float *)got->data)[i], b = (double)((float *)want->data)[i];
    else a = ((int32_t *)got->data)[i], b = ((int32_t *)want->data)[i];
    sum += b * b;
    if (a == b || (isnan(a) && isnan(b))) continue;
    double d = fabs(a - b);
    if (!(d <= worst)) worst = isnan(d) ? INFINITY : d;
  }
  return worst == 0 ? 0 : worst / sqrt(sum / (double)n);
}

/* -------------------------------------------------------------------------------------------------------------- running */
/* One node on one engine; want[k] are compared. */
static void run_case(const char *engine, const json_t *c) {
  const char *name = json_string_value(json_object_get(c, "name"));
  const od_op *op = od_op_find(json_string_value(json_object_get(c, "op")));
  const json_t *inputs = json_object_get(c, "inputs"), *outputs = json_object_get(c, "outputs");
  int n_in = (int)json_array_size(inputs), n_out = (int)json_array_size(outputs), n_feeds = 0;
  CHECK(op && n_in <= VALUES && n_out == op->n_out);
  char params[256] __attribute__((aligned(16)));
  int64_t lists[4][VALUES];
  CHECK(op->params_size <= sizeof params);
  read_params(params, op, json_object_get(c, "params"), lists);
  od_graph *g;
  od_engine *e;
  od_program *p;
  od_value in[VALUES], feeds[VALUES], fetch[VALUES];
  od_tensor fed[VALUES], got[VALUES];
  CHECK_OK(od_graph_new(&g));
  for (int i = 0; i < n_in; i++) {
    od_tensor t = read_tensor(json_array_get(inputs, (size_t)i));
    char text[16];
    snprintf(text, sizeof text, "in%d", i);
    in[i] = t.data ? od_input(g, text, t.dtype, t.shape) : OD_NONE;
    if (t.data) feeds[n_feeds] = in[i], fed[n_feeds++] = t;
  }
  od_value v = od_graph_add(g, op, in, n_in, params);
  for (int k = 0; k < n_out; k++) fetch[k] = od_out(v, k);
  CHECK_OK(od_engine_new(&e, &(od_engine_options){.name = engine, .threads = 2}));
  CHECK_OK(od_program_new(&p, e, &(od_program_spec){.graph = g, .feeds = feeds, .n_feeds = n_feeds, .fetches = fetch, .n_fetches = n_out}));
  CHECK_OK(od_program_run(p, fed, got));
  double tolerance = json_number_value(json_object_get(c, "tolerance"));
  if (strcmp(engine, "ref") != 0 && tolerance > 0) tolerance += op->tolerance;
  for (int k = 0; k < n_out; k++) {
    od_tensor want = read_tensor(json_array_get(outputs, (size_t)k));
    if (got[k].dtype != want.dtype || !od_shape_equal(&got[k].shape, &want.shape))
      fail_msg("%s '%s' on %s: output %d has another type or shape than TensorFlow's", op->name, name, engine, k);
    double d = distance(&got[k], &want);
    if (!(d <= tolerance)) fail_msg("%s '%s' on %s: output %d is off by %g, allowed %g", op->name, name, engine, k, d, tolerance);
    od_tensor_free(&want);
  }
  od_program_free(p);
  od_engine_free(e);
  od_graph_free(g);
  for (int i = 0; i < n_feeds; i++) od_tensor_free(&fed[i]);
}

static void run_group(void **state) {
  char path[256];
  snprintf(path, sizeof path, "tests/golden/ops/%s.json", (const char *)*state);
  json_t *root = load(path), *cases = json_object_get(root, "cases");
  CHECK(json_array_size(cases) > 0);
  for (size_t e = 0; e < sizeof engine_names / sizeof *engine_names; e++)
    for (size_t i = 0; i < json_array_size(cases); i++) run_case(engine_names[e], json_array_get(cases, i));
  json_decref(root);
}

/* -------------------------------------------------------------------------------------------- the original's optimizers */
/* Number behind "name:" in a config text, or the default. */
static double option(const char *config, const char *name, double otherwise) {
  const char *at = strstr(config, name);
  return at ? strtod(at + strlen(name), NULL) : otherwise;
}

typedef struct {
  od_graph *g;
  od_value var, lr;
} trainer;

static od_value slot(trainer *t, const char *name, od_shape shape, float first) {
  return od_variable_slot(t->g, name, OD_F32, shape, (od_init){.kind = OD_INIT_CONSTANT, .a = first});
}

static void add_momentum(trainer *t, const char *config, od_value grad, od_shape shape) {
  od_value acc = slot(t, "v/Momentum", shape, 0);
  od_momentum_params p = {(float)option(config, "momentum_optimizer_value:", .9), false};
  od_value v = od_momentum(t->g, t->var, acc, grad, t->lr, &p);
  od_update(t->g, "optimizer", t->var, v);
  od_update(t->g, "optimizer", acc, od_out(v, 1));
}

static void add_rmsprop(trainer *t, const char *config, od_value grad, od_shape shape) {
  od_value ms = slot(t, "v/RMSProp", shape, 1), mom = slot(t, "v/RMSProp_1", shape, 0);
  od_rmsprop_params p = {(float)option(config, " decay:", .9), (float)option(config, "momentum_optimizer_value:", .9),
                         (float)option(config, "epsilon:", 1)};
  od_value v = od_rmsprop(t->g, t->var, ms, mom, grad, t->lr, &p);
  od_update(t->g, "optimizer", t->var, v);
  od_update(t->g, "optimizer", ms, od_out(v, 1));
  od_update(t->g, "optimizer", mom, od_out(v, 2));
}

static void add_adam(trainer *t, const char *config, od_value grad, od_shape shape) {
  od_adam_params p = {0.9f, 0.999f, (float)option(config, "epsilon:", 1e-8)};
  od_value m = slot(t, "v/Adam", shape, 0), s = slot(t, "v/Adam_1", shape, 0);
  od_value b1 = slot(t, "beta1_power", OD_SCALAR, p.beta1), b2 = slot(t, "beta2_power", OD_SCALAR, p.beta2);
  od_value v = od_adam(t->g, t->var, m, s, grad, t->lr, b1, b2, &p);
  od_update(t->g, "optimizer", t->var, v);
  od_update(t->g, "optimizer", m, od_out(v, 1));
  od_update(t->g, "optimizer", s, od_out(v, 2));
  od_update(t->g, "optimizer", b1, od_scale(t->g, b1, p.beta1, 0));
  od_update(t->g, "optimizer", b2, od_scale(t->g, b2, p.beta2, 0));
}

/* Does the state equal the trace's variables of this step? */
static void check_state(const od_state *s, const json_t *variables, const char *config, const char *engine, size_t step) {
  const char *name;
  json_t *value;
  json_object_foreach((json_t *)(uintptr_t)variables, name, value) {
    if (strcmp(name, "global_step") == 0) continue;
    od_tensor *t = od_state_tensor(s, name);
    if (!t) fail_msg("no variable %s", name);
    for (int64_t i = 0; i < od_tensor_size(t); i++) {
      double want = json_number_value(json_is_array(value) ? json_array_get(value, (size_t)i) : value);
      double got = (double)((float *)t->data)[i];
      if (!(fabs(got - want) <= 2e-6 * (1 + fabs(want))))
        fail_msg("%s: %s[%d] is %.9g, the original has %.9g after step %zu with %s", engine, name, (int)i, got, want, step, config);
    }
  }
}

/* loss = sum(scale*v*v) + sum(sin(v)); its gradient is fed: 2*scale*v + cos(v). */
static void run_trajectory(const char *engine, const json_t *c) {
  const char *config = json_string_value(json_object_get(json_object_get(c, "params"), "config"));
  const json_t *scale = json_object_get(json_object_get(c, "inputs"), "scale"), *first = json_object_get(json_object_get(c, "inputs"), "v");
  const json_t *trace = json_object_get(json_object_get(c, "outputs"), "trace");
  int64_t n = (int64_t)json_array_size(first);
  od_shape shape = OD_SHAPE(n);
  trainer t;
  od_state *state;
  od_engine *e;
  od_program *p;
  CHECK(n > 0 && json_array_size(trace) > 1);
  CHECK_OK(od_graph_new(&t.g));
  t.var = od_variable_new(t.g, "v", OD_F32, shape, (od_init){.kind = OD_INIT_CONSTANT}, true);
  t.lr = od_input(t.g, "lr", OD_F32, OD_SCALAR);
  od_value grad = od_input(t.g, "grad", OD_F32, shape), feeds[] = {grad, t.lr};
  if (strstr(config, "rms_prop")) add_rmsprop(&t, config, grad, shape);
  else if (strstr(config, "adam")) add_adam(&t, config, grad, shape);
  else add_momentum(&t, config, grad, shape);
  bool averaged = strstr(config, "use_moving_average: true") != NULL;
  if (averaged) {
    od_value shadow = slot(&t, "v/ExponentialMovingAverage", shape, 0), next = od_graph_update(t.g, 0)->value;
    od_update(t.g, "optimizer", shadow, od_moving_average(t.g, shadow, next, (double)(float)option(config, "average_decay:", .9999)));
  }
  CHECK_OK(od_graph_check(t.g));
  CHECK_OK(od_state_new(&state, t.g));
  od_state_init(state, 1);
  float *v = od_state_tensor(state, "v")->data;
  for (int64_t i = 0; i < n; i++) v[i] = (float)json_number_value(json_array_get(first, (size_t)i));
  if (averaged) memcpy(od_state_tensor(state, "v/ExponentialMovingAverage")->data, v, sizeof *v * (size_t)n);
  CHECK_OK(od_engine_new(&e, &(od_engine_options){.name = engine, .threads = 2}));
  const char *groups[] = {"optimizer"};
  CHECK_OK(od_program_new(&p, e, &(od_program_spec){.graph = t.g, .state = state, .feeds = feeds, .n_feeds = 2, .update_groups = groups, .n_update_groups = 1}));
  check_state(state, json_object_get(json_array_get(trace, 0), "variables"), config, engine, 0);
  for (size_t step = 1; step < json_array_size(trace); step++) {
    float g[64], lr = step - 1 < 2 ? 0.1f : 0.05f; /* the schedule of all these configs */
    CHECK(n <= 64);
    for (int64_t i = 0; i < n; i++)
      g[i] = 2 * (float)json_number_value(json_array_get(scale, (size_t)i)) * v[i] + cosf(v[i]);
    od_tensor fed[] = {{OD_F32, shape, g}, {OD_F32, OD_SCALAR, &lr}};
    CHECK_OK(od_program_run(p, fed, NULL));
    check_state(state, json_object_get(json_array_get(trace, step), "variables"), config, engine, step);
  }
  od_program_free(p);
  od_engine_free(e);
  od_state_free(state);
  od_graph_free(t.g);
}

/* Nested lists as one flat array of floats; the number of values. */
static int flatten(float *out, int at, const json_t *j) {
  if (!json_is_array(j)) {
    CHECK(at < 512);
    out[at] = (float)json_number_value(j);
    return at + 1;
  }
  for (size_t i = 0; i < json_array_size(j); i++) at = flatten(out, at, json_array_get(j, i));
  return at;
}

static void run_clip(const char *engine, const json_t *c) {
  float x[512], want[512], clip = (float)json_number_value(json_object_get(json_object_get(c, "params"), "max_norm"));
  int n = flatten(x, 0, json_object_get(json_object_get(c, "inputs"), "gradient"));
  CHECK(n == flatten(want, 0, json_object_get(json_object_get(c, "outputs"), "clipped")));
  od_graph *g;
  od_engine *e;
  od_program *p;
  od_tensor in = {OD_F32, OD_SHAPE(n), x}, got;
  CHECK_OK(od_graph_new(&g));
  od_value feed = od_input(g, "x", OD_F32, in.shape), fetch = od_clip_by_norm(g, feed, clip);
  CHECK_OK(od_engine_new(&e, &(od_engine_options){.name = engine, .threads = 2}));
  CHECK_OK(od_program_new(&p, e, &(od_program_spec){.graph = g, .feeds = &feed, .n_feeds = 1, .fetches = &fetch, .n_fetches = 1}));
  CHECK_OK(od_program_run(p, &in, &got));
  for (int i = 0; i < n; i++) CHECK_NEAR(((float *)got.data)[i], want[i], 3e-7 * fmax(1, fabs((double)want[i])));
  od_program_free(p);
  od_engine_free(e);
  od_graph_free(g);
}

/* y, statistics and the gradients of sum(w*y*y) through our graph. */
static void run_batch_norm(const char *engine, const json_t *c) {
  static const char *const in_names[] = {"x", "w", "gamma", "beta"};
  static const char *const out_names[] = {"y", "batch_mean", "batch_variance_unbiased", "dx", "dgamma", "dbeta"};
  const json_t *inputs = json_object_get(c, "inputs"), *outputs = json_object_get(c, "outputs"), *x = json_object_get(inputs, "x");
  static float data[4][512], want[512];
  od_shape shape = {0, {0}};
  for (const json_t *j = x; json_is_array(j); j = json_array_get(j, 0)) shape.dim[shape.rank++] = (int64_t)json_array_size(j);
  od_shape channels = OD_SHAPE(shape.dim[shape.rank - 1]);
  od_graph *g;
  od_engine *e;
  od_program *p;
  od_value in[4], grads[3];
  od_tensor fed[4], got[6];
  CHECK_OK(od_graph_new(&g));
  for (int i = 0; i < 4; i++) {
    fed[i] = (od_tensor){OD_F32, i < 2 ? shape : channels, data[i]};
    CHECK(flatten(data[i], 0, json_object_get(inputs, in_names[i])) == od_tensor_size(&fed[i]));
    in[i] = od_input(g, in_names[i], OD_F32, fed[i].shape);
  }
  float epsilon = (float)json_number_value(json_object_get(json_object_get(c, "params"), "epsilon"));
  od_value y = od_batch_norm_train(g, in[0], in[2], in[3], epsilon);
  od_value loss = od_reduce_sum(g, od_mul(g, in[1], od_square(g, y)), OD_ALL_AXES, false);
  CHECK_OK(od_gradients(grads, g, loss, (od_value[]){in[0], in[2], in[3]}, 3));
  od_value fetch[] = {y, od_out(y, 1), od_out(y, 3), grads[0], grads[1], grads[2]};
  CHECK_OK(od_engine_new(&e, &(od_engine_options){.name = engine, .threads = 2}));
  CHECK_OK(od_program_new(&p, e, &(od_program_spec){.graph = g, .feeds = in, .n_feeds = 4, .fetches = fetch, .n_fetches = 6}));
  CHECK_OK(od_program_run(p, fed, got));
  for (int k = 0; k < 6; k++) {
    int n = flatten(want, 0, json_object_get(outputs, out_names[k]));
    CHECK(n == od_tensor_size(&got[k]));
    od_tensor w = {OD_F32, got[k].shape, want};
    double d = distance(&got[k], &w);
    if (!(d <= 1e-5)) fail_msg("%s: %s is off by %g", engine, out_names[k], d);
  }
  od_program_free(p);
  od_engine_free(e);
  od_graph_free(g);
}

static void witness(void **state) {
  (void)state;
  NEED_SHARED(path, "witness/components/optimizers.json");
  json_t *root = load(path), *cases = json_object_get(root, "cases");
  int trajectories = 0, clips = 0, norms = 0;
  for (size_t e = 0; e < sizeof engine_names / sizeof *engine_names; e++)
    for (size_t i = 0; i < json_array_size(cases); i++) {
      const json_t *c = json_array_get(cases, i);
      const char *op = json_string_value(json_object_get(c, "op"));
      if (strcmp(op, "optimizer_steps") == 0) run_trajectory(engine_names[e], c), trajectories++;
      else if (strcmp(op, "clip_gradient_norm") == 0) run_clip(engine_names[e], c), clips++;
      else if (strcmp(op, "batch_norm_train") == 0) run_batch_norm(engine_names[e], c), norms++;
      else fail_msg("unknown case %s", op);
    }
  CHECK(trajectories > 0 && clips > 0 && norms > 0);
  json_decref(root);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      {"convolution", run_group, NULL, NULL, "convolution"}, {"pooling", run_group, NULL, NULL, "pooling"},
      {"batch norm", run_group, NULL, NULL, "batch_norm"},   {"optimizers", run_group, NULL, NULL, "optimizers"},
      {"elementwise", run_group, NULL, NULL, "elementwise"}, cmocka_unit_test(witness),
  };
  return cmocka_run_group_tests_name("ops against TensorFlow", tests, NULL, NULL);
}
