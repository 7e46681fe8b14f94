/* Twenty steps of training against the original's: the same weights, pictures and optimizers, losses of every step. The figures
 * are in tests/golden/train, made by tests/witness/trajectory.py.
 *
 * A rounding error in such a small net doubles every step: weights shaken by 1e-7 move the loss by 1e-3 after twelve steps, and
 * TensorFlow's gradients are 1e-5 from exact ones (its own two back ends differ by more). So the limit doubles, too, from 1e-5 at
 * the first step: what is wrong in a gradient, an optimizer or a schedule shows within three. */
#include "cli/golden_formula.h"
#include "od_json.h"
#include "train/restore.h"
#include "train/session.h"


/* Weights by formula, slots as they begin, averages at the weights. */
static void set_state(od_session *s, bool trained) {
  od_state_init(s->state, 1);
  for (size_t i = 0; i < od_graph_variables(s->graph); i++) {
    const od_variable *v = od_graph_variable(s->graph, i);
    if (v->model) od_formula_weight(od_state_at(s->state, v->index), v->name, trained);
  }
  od_start_averages(s->state);
}

static double norm_of(const od_tensor *t) {
  double sum = 0;
  if (t->dtype == OD_I64) return (double)*(const int64_t *)t->data;
  const float *x = t->data;
  for (int64_t i = 0, n = od_tensor_size(t); i < n; i++) sum += (double)x[i] * (double)x[i];
  return sqrt(sum);
}

static double value_of(const od_session *s, od_scalar_kind kind, const char *name) {
  for (int i = 0; i < s->n_scalars; i++)
    if (s->scalars[i].kind == kind && (!name || strcmp(s->scalars[i].name, name) == 0)) return (double)s->values[i];
  fail_msg("no scalar %s", name ? name : "");
  return 0;
}

/* size: what the error is measured by, where want is less. */
static void near_part(const char *what, size_t step, double got, double want, double size, double limit, double *worst) {
  double error = fabs(got - want) / fmax(fmax(fabs(want), size), 1e-6);
  if (!(error <= limit)) fail_msg("step %zu: %s is %.9g, the original's %.9g: %.2g apart, limit %.2g", step, what, got, want, error, limit);
  if (error > *worst) *worst = error;
}

static void near_relative(const char *what, size_t step, double got, double want, double limit, double *worst) {
  near_part(what, step, got, want, 0, limit, worst);
}

/* Limit at a step: from where, growth a step, how far; floor: for arithmetic that rounds coarser. */
typedef struct {
  double first, growth, most;
} bound;
static double limit_at(size_t step, bound b, double floor) { return fmax(fmin(b.first * pow(b.growth, (double)step), b.most), floor); }

/* What is run, and how far its figures may be off. */
typedef struct {
  const char *config, *golden;
  int runs;
  bool trained; /* weights by the rules for trained batch norm */
  bound bound;
} net;
static const net ssd = {"tests/golden/train/tiny.config", "tests/golden/train/trajectory.json", 4, true, {1e-5, 2, 0.05}};
static const net two_stage = {"tests/golden/train/two_stage.config", "tests/golden/train/two_stage.json", 2, false, {1e-5, 2, 0.01}};

/* Runs one golden run; the worst relative difference of a total loss. */
static double follow(const net *what, json_t *run, const char *engine, od_precision precision, double floor) {
  const char *name = json_string_value(json_need(run, "name"));
  od_pipeline p;
  char setting[4096];
  snprintf(setting, sizeof setting, "train_config={ batch_size: %d gradient_clipping_by_norm: %g %s }", what->trained ? 4 : 2, what->trained ? 2.0 : 10.0,
           json_string_value(json_need(run, "optimizer")));
  const char *sets[] = {setting};
  CHECK_OK(od_pipeline_load(&p, what->config, sets, 1));
  bool legacy = strcmp(json_string_value(json_need(run, "program")), "legacy") == 0;
  od_train_options o = {.pipeline = &p, .train_dir = "/nonexistent", .program = legacy ? OD_PROGRAM_LEGACY : OD_PROGRAM_MODEL_MAIN, .seed = 1,
                        .engine = {.name = engine, .threads = 1, .precision = precision}};
  od_session s;
  CHECK_OK(od_session_build(&s, &o));
  set_state(&s, what->trained);
  CHECK_OK(od_session_start(&s));
  json_t *steps = json_need(run, "steps");
  const size_t n_steps = OD_UNDER_SANITIZER ? 3 : json_array_size(steps);
  bound limits = what->bound;
  if (s.size.turns > 1) limits.growth = 3; /* batch norm over two pictures, whose last maps are one pixel, shakes more */
  double worst = 0, ignored = 0;
  for (size_t i = 0; i < n_steps; i++) {
    json_t *want = json_array_get(steps, i);
    double limit = limit_at(i, limits, floor);
    CHECK_OK(od_session_step(&s));
    near_relative("learning rate", i, (double)s.learning_rate, json_num(json_need(want, "rate")), 1e-5, &ignored);
    const char *loss;
    json_t *figure;
    json_object_foreach(want, loss, figure) if (od_starts_with(loss, "Loss/"))
        near_part(loss, i, value_of(&s, OD_SCALAR_LOSS, loss), json_num(figure), what->trained ? 0 : json_num(json_need(want, "total")),
                  strstr(loss, "localization") ? 3 * limit : limit, &ignored);
    near_relative("regularization", i, value_of(&s, OD_SCALAR_REGULARIZATION, NULL), json_num(json_need(want, "regularization")), limit, &ignored);
    near_relative("total loss", i, (double)s.values[s.total], json_num(json_need(want, "total")), limit, &worst);
    if (!legacy) near_relative("gradient norm", i, value_of(&s, OD_SCALAR_NORM, NULL), json_num(json_need(want, "norm")), fmax(10 * limit, 2e-3), &ignored);
  }
  /* afterwards: the same variables, slots and averages, of the same length */
  CHECK(od_graph_variables(s.graph) == (size_t)json_num(json_need(run, "variables")));
  const char *key;
  json_t *value;
  json_object_foreach(json_need(run, "final"), key, value) {
    const od_tensor *t = od_state_tensor(s.state, key);
    if (!t) fail_msg("%s: there is no variable %s", name, key);
    /* slots hold the last gradients, which wander most */
    bool slot = strstr(key, "/RMSProp") || strstr(key, "/Momentum") || strstr(key, "/Adam");
    if (n_steps < json_array_size(steps)) continue;
    double limit = limit_at(json_array_size(steps), limits, floor);
    near_relative(key, json_array_size(steps), norm_of(t), json_num(value), slot ? 10 * limit : fmin(limit, 0.05), &ignored);
  }
  print_message("%s, %s, %s: worst total loss %.2g apart\n", name, engine, precision == OD_MIXED_BF16 ? "bf16" : "fp32", worst);
  od_session_close(&s);
  od_pipeline_free(&p);
  return worst;
}

static void all_runs(const net *what, const char *engine, od_precision precision, double floor) {
  json_t *golden = json_file(what->golden), *runs = json_need(golden, "runs");
  CHECK(json_array_size(runs) == (size_t)what->runs);
  for (size_t i = 0; i < json_array_size(runs); i++) follow(what, json_array_get(runs, i), engine, precision, floor);
  json_decref(golden);
}

static void fp32_follows(void **state) {
  (void)state;
  all_runs(&ssd, "cpu", OD_FP32, 0);
}

static void reference_follows(void **state) {
  (void)state;
  all_runs(&ssd, "ref", OD_FP32, 0);
}

/* bf16 keeps 8 bits: the run goes another way soon, but not far. */
static void bf16_stays_near(void **state) {
  (void)state;
  all_runs(&ssd, "cpu", OD_MIXED_BF16, 0.15);
}

/* Faster R-CNN: both stages, samples that take everything, momentum; each program's way of clipping. Errors of a loss are measured by the
 * total. The pictures are grained: on plain ones proposals tie, and rounding says which comes first. */
static void two_stages_follow(void **state) {
  (void)state;
  all_runs(&two_stage, "cpu", OD_FP32, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(fp32_follows), cmocka_unit_test(reference_follows), cmocka_unit_test(bf16_stays_near),
                                     cmocka_unit_test(two_stages_follow)};
  return cmocka_run_group_tests_name("trajectory", tests, NULL, NULL);
}
