/* The cpu engine on small networks: chains that are merged into one step against the reference, training steps with updates in
 * place, precision, threads, shapes, weights that change between runs, memory. */
#include <math.h>

#include "base/rng.h"
#include "engine/cpu/cpu.h"
#include "graph/autodiff.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "ops/optim.h"
#include "od_test.h"

static od_init normal(float s) { return (od_init){OD_INIT_NORMAL, 0, s}; }
static od_init constant(float v) { return (od_init){OD_INIT_CONSTANT, v, 0}; }

static od_value variable(od_graph *g, const char *name, od_shape shape, od_init init) {
  return od_variable_new(g, name, OD_F32, shape, init, true);
}

typedef enum { NONE, INFERENCE, TRAINING } norm_kind;

/* Batch norm of c channels under the present scope; training adds the updates of the moving statistics. */
static od_value norm(od_graph *g, od_value x, int64_t c, norm_kind kind) {
  od_value gamma = variable(g, "gamma", OD_SHAPE(c), constant(1.25f)), beta = variable(g, "beta", OD_SHAPE(c), normal(0.3f));
  od_value mean = od_variable_new(g, "moving_mean", OD_F32, OD_SHAPE(c), normal(0.2f), false);
  od_value variance = od_variable_new(g, "moving_variance", OD_F32, OD_SHAPE(c), (od_init){OD_INIT_UNIFORM, 0.5f, 2}, false);
  if (kind == INFERENCE) return od_batch_norm(g, x, gamma, beta, mean, variance, 1e-3f);
  od_value y = od_batch_norm_train(g, x, gamma, beta, 1e-3f);
  od_update(g, "batch_norm", mean, od_moving_average(g, mean, od_out(y, 1), 0.9));
  od_update(g, "batch_norm", variance, od_moving_average(g, variance, od_out(y, 3), 0.9));
  return y;
}

static od_value conv(od_graph *g, const char *scope, od_value x, int64_t k, int64_t c, int64_t o, int stride, norm_kind kind, bool six) {
  od_scope_push(g, scope);
  od_value w = variable(g, "weights", OD_SHAPE(k, k, c, o), normal(1.0f / sqrtf((float)(k * k * c))));
  od_value y = od_conv2d(g, x, w, &OD_CONV(stride, OD_PAD_SAME));
  y = kind == NONE ? od_bias_add(g, y, variable(g, "biases", OD_SHAPE(o), normal(0.1f))) : norm(g, y, o, kind);
  if (kind != NONE) y = six ? od_relu6(g, y) : od_relu(g, y);
  od_scope_pop(g);
  return y;
}

static od_value depthwise(od_graph *g, const char *scope, od_value x, int64_t c, int stride, norm_kind kind) {
  od_scope_push(g, scope);
  od_value w = variable(g, "depthwise_weights", OD_SHAPE(3, 3, c, 1), normal(0.4f));
  od_value y = od_relu6(g, norm(g, od_depthwise_conv2d(g, x, w, &OD_CONV(stride, OD_PAD_SAME)), c, kind));
  od_scope_pop(g);
  return y;
}

/* What is added to a map of c channels: little, so that training stays tame. */
static od_value correction(od_graph *g, const char *scope, od_value x, int64_t k, int64_t c) {
  od_scope_push(g, scope);
  od_value w = variable(g, "weights", OD_SHAPE(k, k, c, c), normal(0.2f / sqrtf((float)(k * k * c))));
  od_value y = od_bias_add(g, od_conv2d(g, x, w, &OD_CONV(1, OD_PAD_SAME)), variable(g, "biases", OD_SHAPE(c), normal(0.1f)));
  od_scope_pop(g);
  return y;
}

/* A little MobileNet with residual connections and a predictor; channels are no multiples of 16 where it hurts. Behind the first
 * addition come convolutions that add themselves: over the map that they are added to; beside it, since they also convolve it; beside it, since it is read again. */
static od_value network(od_graph *g, od_value x, norm_kind kind) {
  od_value y = conv(g, "conv0", x, 3, 3, 24, 2, kind, true);
  y = depthwise(g, "dw1", y, 24, 1, kind);
  y = conv(g, "pw1", y, 1, 24, 40, 1, kind, true);
  y = depthwise(g, "dw2", y, 40, 2, kind);
  od_value z = conv(g, "pw2", y, 1, 40, 40, 1, kind, false);
  y = od_relu(g, od_add(g, z, y));
  z = conv(g, "between", y, 1, 40, 40, 1, kind, false);
  y = od_relu(g, od_add(g, correction(g, "over", z, 3, 40), y));
  y = od_add(g, correction(g, "own", y, 1, 40), y);
  z = od_add(g, y, correction(g, "beside", y, 1, 40));
  y = od_relu(g, od_scale(g, od_add(g, z, y), 0.5f, 0));
  y = od_max_pool(g, y, &(od_pool_params){3, 3, 2, 2, OD_PAD_SAME});
  return conv(g, "box", y, 1, 40, 19, 1, NONE, false);
}

typedef struct {
  od_graph *g;
  od_value x, y, loss, lr;
  od_state *state;
  od_engine *e;
  od_program *p;
} net;

/* Inference: fetches y. Training: fetches the loss and y, one optimizer step a run. */
static void open_net(net *n, norm_kind kind, const char *engine, int threads, od_precision precision) {
  *n = (net){0};
  CHECK_OK(od_graph_new(&n->g));
  od_graph *g = n->g;
  n->x = od_input(g, "x", OD_F32, OD_SHAPE(-1, -1, -1, 3));
  n->y = network(g, n->x, kind);
  const char *const groups[] = {"batch_norm", "optimizer"};
  od_value feeds[2] = {n->x}, fetches[2] = {n->y};
  int n_feeds = 1, n_fetches = 1;
  if (kind == TRAINING) {
    n->lr = od_input(g, "lr", OD_F32, OD_SCALAR);
    od_value flat = od_reshape(g, n->y, (od_ints){2, (int64_t[]){-1, 19}});
    n->loss = od_reduce_mean(g, od_square(g, od_scale(g, flat, 1, -0.5f)), OD_ALL_AXES, false);
    od_value wrt[64], grads[64];
    int n_wrt = 0;
    for (size_t i = 0; i < od_graph_variables(g); i++)
      if (od_graph_variable(g, i)->trainable) wrt[n_wrt++] = od_graph_variable(g, i)->value;
    CHECK_OK(od_gradients(grads, g, n->loss, wrt, n_wrt));
    for (int i = 0; i < n_wrt; i++) {
      const od_variable *v = od_variable_of(g, wrt[i]);
      char name[128];
      snprintf(name, sizeof name, "%s/Momentum", v->name);
      od_value acc = od_variable_slot(g, name, OD_F32, v->shape, constant(0));
      CHECK(od_has(grads[i]));
      od_value step = od_momentum(g, wrt[i], acc, grads[i], n->lr, &(od_momentum_params){0.9f, false});
      od_update(g, "optimizer", wrt[i], step);
      od_update(g, "optimizer", acc, od_out(step, 1));
    }
    feeds[n_feeds++] = n->lr;
    fetches[0] = n->loss;
    fetches[n_fetches++] = n->y;
  }
  CHECK_OK(od_graph_check(g));
  CHECK_OK(od_state_new(&n->state, g));
  od_state_init(n->state, 3);
  CHECK_OK(od_engine_new(&n->e, &(od_engine_options){.name = engine, .threads = threads, .precision = precision, .plan_cache = 8}));
  CHECK_OK(od_program_new(&n->p, n->e, &(od_program_spec){.graph = g, .state = n->state, .feeds = feeds, .n_feeds = n_feeds,
                                                          .fetches = fetches, .n_fetches = n_fetches, .update_groups = groups,
                                                          .n_update_groups = kind == TRAINING ? 2 : 0,
                                                          .guard = kind == TRAINING ? n->loss : OD_NONE}));
}

static void close_net(net *n) {
  od_program_free(n->p);
  od_engine_free(n->e);
  od_state_free(n->state);
  od_graph_free(n->g);
}

static od_tensor picture(int64_t b, int64_t h, int64_t w, uint64_t key) {
  od_tensor t;
  CHECK_OK(od_tensor_new(&t, OD_F32, &OD_SHAPE(b, h, w, 3)));
  for (int64_t i = 0; i < od_tensor_size(&t); i++) ((float *)t.data)[i] = 2 * od_rng_f32(key, (uint64_t)i) - 1;
  return t;
}

/* Largest difference over b's root mean square. */
static double distance(const od_tensor *a, const od_tensor *b) {
  CHECK(od_shape_equal(&a->shape, &b->shape) && a->dtype == b->dtype && a->dtype == OD_F32);
  double worst = 0, sum = 0;
  const int64_t n = od_tensor_size(a);
  for (int64_t i = 0; i < n; i++) {
    const double x = ((const float *)a->data)[i], y = ((const float *)b->data)[i];
    if (!(fabs(x - y) <= worst)) worst = fabs(x - y);
    sum += y * y;
  }
  return worst / sqrt(sum / (double)n + 1e-30);
}

static float learning_rate = 0.05f;

static void run(net *n, const od_tensor *x, od_tensor *out) {
  od_tensor feeds[2] = {*x, {OD_F32, OD_SCALAR, &learning_rate}};
  CHECK_OK(od_program_run(n->p, feeds, out));
}

/* ----------------------------------------------------------------------------------------------------------- inference */
static void merged_chains(void **state) {
  (void)state;
  const struct {
    od_precision precision;
    double tolerance;
  } how[] = {{OD_FP32, 2e-5}, {OD_MIXED_BF16, 0.05}};
  od_tensor x = picture(2, 33, 47, 1), want, got;
  net ref;
  open_net(&ref, INFERENCE, "ref", 1, OD_FP32);
  run(&ref, &x, &want);
  for (size_t i = 0; i < 2; i++)
    for (int threads = 1; threads <= 3; threads++) {
      net cpu;
      open_net(&cpu, INFERENCE, "cpu", threads, how[i].precision);
      run(&cpu, &x, &got);
      CHECK(distance(&got, &want) <= how[i].tolerance);
      CHECK(od_program_fallbacks(cpu.p) == 0);
      size_t n, work = 0;
      const od_profile_step *s = od_program_profile_steps(cpu.p, &n);
      for (size_t k = 0; k < n; k++) work += strcmp(s[k].op, "convert") != 0;
      if (work != 16) fail_msg("%zu steps where 10 convolutions, 2 additions, 2 relus, a scale and a pooling were expected", work);
      close_net(&cpu);
    }
  close_net(&ref);
  od_tensor_free(&x);
}

/* Packed weights are kept between runs and renewed when the state changes, also from outside. */
static void weights_change(void **state) {
  (void)state;
  od_tensor x = picture(1, 16, 16, 1), want, got;
  net ref, cpu;
  open_net(&ref, INFERENCE, "ref", 1, OD_FP32);
  open_net(&cpu, INFERENCE, "cpu", 2, OD_FP32);
  for (int round = 0; round < 3; round++) {
    run(&ref, &x, &want);
    run(&cpu, &x, &got);
    CHECK(distance(&got, &want) <= 2e-5);
    const char *const changed[] = {"conv0/weights", "dw1/moving_variance", "box/biases"};
    net *both[2] = {&ref, &cpu};
    for (int k = 0; k < 2; k++) {
      od_tensor *t = od_state_tensor(both[k]->state, changed[round]);
      for (int64_t i = 0; i < od_tensor_size(t); i++) ((float *)t->data)[i] *= 1.5f;
      od_state_touch(both[k]->state);
    }
  }
  close_net(&ref);
  close_net(&cpu);
  od_tensor_free(&x);
}

static void many_shapes(void **state) {
  (void)state;
  net ref, cpu;
  open_net(&ref, INFERENCE, "ref", 1, OD_FP32);
  open_net(&cpu, INFERENCE, "cpu", 2, OD_FP32);
  for (int round = 0; round < 2; round++)
    for (int k = 0; k < 12; k++) { /* the cache holds 8 */
      od_tensor x = picture(1 + k % 3, 9 + 2 * k, 30 - k, (uint64_t)k), want, got;
      run(&ref, &x, &want);
      run(&cpu, &x, &got);
      CHECK(distance(&got, &want) <= 2e-5);
      od_tensor_free(&x);
    }
  close_net(&ref);
  close_net(&cpu);
}

/* ------------------------------------------------------------------------------------------------------------ training */
static double state_distance(const net *a, const net *b) {
  double worst = 0;
  for (size_t i = 0; i < od_graph_variables(a->g); i++) {
    const double d = distance(od_state_at(a->state, (int)i), od_state_at(b->state, (int)i));
    if (!(d <= worst)) worst = d;
  }
  return worst;
}

static void training_steps(void **state) {
  (void)state;
  od_tensor x = picture(3, 33, 31, 5), want[2], got[2];
  net ref;
  open_net(&ref, TRAINING, "ref", 1, OD_FP32);
  net cpu[3];
  for (int t = 0; t < 3; t++) open_net(&cpu[t], TRAINING, "cpu", t + 1, OD_FP32);
  for (int step = 0; step < 4; step++) {
    run(&ref, &x, want);
    for (int t = 0; t < 3; t++) {
      const uint64_t before = od_mem_count();
      run(&cpu[t], &x, got);
      CHECK(step == 0 || od_mem_count() == before);
      CHECK_NEAR(*(float *)got[0].data, *(float *)want[0].data, 2e-5 * (step + 1));
      CHECK(distance(&got[1], &want[1]) <= 1e-4 * (step + 1));
      const double d = state_distance(&cpu[t], &ref);
      if (!(d <= 1e-4 * (step + 1))) fail_msg("step %d, %d threads: a variable is off by %g", step, t + 1, d);
    }
  }
  CHECK(od_program_fallbacks(cpu[0].p) == 0);
  close_net(&ref);
  for (int t = 0; t < 3; t++) close_net(&cpu[t]);
  od_tensor_free(&x);
}

/* bfloat16: the loss goes the same way, and two runs give the same bits. */
static void training_in_bf16(void **state) {
  (void)state;
  od_tensor x = picture(4, 40, 40, 6), want[2], got[2], again[2];
  net ref, a, b;
  open_net(&ref, TRAINING, "cpu", 2, OD_FP32);
  open_net(&a, TRAINING, "cpu", 2, OD_MIXED_BF16);
  open_net(&b, TRAINING, "cpu", 2, OD_MIXED_BF16);
  for (int step = 0; step < 8; step++) {
    run(&ref, &x, want);
    run(&a, &x, got);
    run(&b, &x, again);
    CHECK(memcmp(got[0].data, again[0].data, 4) == 0);
    const double w = *(float *)want[0].data;
    CHECK_NEAR(*(float *)got[0].data, w, 0.05 * w + 0.005);
  }
  for (size_t i = 0; i < od_graph_variables(a.g); i++) {
    const od_tensor *s = od_state_at(a.state, (int)i), *t = od_state_at(b.state, (int)i);
    CHECK(memcmp(s->data, t->data, od_tensor_bytes(s)) == 0);
  }
  close_net(&ref);
  close_net(&a);
  close_net(&b);
  od_tensor_free(&x);
}

static void guard(void **state) {
  (void)state;
  net n;
  od_tensor x = picture(1, 16, 16, 1), out[2];
  open_net(&n, TRAINING, "cpu", 2, OD_FP32);
  ((float *)od_state_tensor(n.state, "box/biases")->data)[0] = NAN;
  od_state_touch(n.state);
  float before[3];
  memcpy(before, od_state_tensor(n.state, "pw1/weights")->data, sizeof before);
  od_tensor feeds[2] = {x, {OD_F32, OD_SCALAR, &learning_rate}};
  CHECK_FAILS(od_program_run(n.p, feeds, out), OD_ENUMERIC, "nan");
  CHECK(memcmp(before, od_state_tensor(n.state, "pw1/weights")->data, sizeof before) == 0);
  close_net(&n);
  od_tensor_free(&x);
}

/* ------------------------------------------------------------------------------------------------- updates and aliases */
/* An update is computed in place only where nobody reads the old value later. */
static void old_values_survive(void **state) {
  (void)state;
  for (int order = 0; order < 2; order++) {
    od_graph *g;
    CHECK_OK(od_graph_new(&g));
    od_value v = variable(g, "v", OD_SHAPE(40), constant(2)), x = od_input(g, "x", OD_F32, OD_SHAPE(40));
    od_value lr = od_const_f32(g, 0.5f), old = OD_NONE;
    if (order == 0) old = od_scale(g, v, 10, 0);
    od_value moved = od_sgd(g, v, x, lr);
    if (order == 1) old = od_scale(g, v, 10, 0);
    od_value sum = od_add(g, old, moved);
    od_update(g, "u", v, moved);
    od_state *s;
    od_engine *e;
    od_program *p;
    CHECK_OK(od_state_new(&s, g));
    od_state_init(s, 1);
    CHECK_OK(od_engine_new(&e, &(od_engine_options){.threads = 2}));
    const char *const groups[] = {"u"};
    CHECK_OK(od_program_new(&p, e, &(od_program_spec){.graph = g, .state = s, .feeds = &x, .n_feeds = 1, .fetches = &sum, .n_fetches = 1,
                                                      .update_groups = groups, .n_update_groups = 1}));
    float ones[40];
    for (int i = 0; i < 40; i++) ones[i] = 1;
    od_tensor feed = {OD_F32, OD_SHAPE(40), ones}, got;
    CHECK_OK(od_program_run(p, &feed, &got));
    CHECK_NEAR(((float *)got.data)[39], 21.5, 0);
    CHECK_NEAR(((float *)od_state_tensor(s, "v")->data)[39], 1.5, 0);
    CHECK_OK(od_program_run(p, &feed, &got));
    CHECK_NEAR(((float *)got.data)[0], 16, 0);
    CHECK_NEAR(ones[5], 1, 0); /* feeds are not written */
    od_program_free(p);
    od_engine_free(e);
    od_state_free(s);
    od_graph_free(g);
  }
}

/* Numbers that are too small for float32's normal range are 0 in all threads of a run, and stay what they are outside. */
static void denormals_are_zero(void **state) {
  (void)state;
  enum { N = 1 << 18 };
  static float tiny[N];
  volatile float small = 1e-20f;
  for (int i = 0; i < N; i++) tiny[i] = small;
  for (int threads = 1; threads <= 4; threads++) {
    od_graph *g;
    od_engine *e;
    od_program *p;
    CHECK_OK(od_graph_new(&g));
    od_value x = od_input(g, "x", OD_F32, OD_SHAPE(N)), y = od_mul(g, x, x); /* 1e-40 */
    CHECK_OK(od_engine_new(&e, &(od_engine_options){.name = threads == 4 ? "ref" : "cpu", .threads = threads}));
    CHECK_OK(od_program_new(&p, e, &(od_program_spec){.graph = g, .feeds = &x, .n_feeds = 1, .fetches = &y, .n_fetches = 1}));
    od_tensor feed = {OD_F32, OD_SHAPE(N), tiny}, got;
    CHECK_OK(od_program_run(p, &feed, &got));
    for (int i = 0; i < N; i++) CHECK(((const float *)got.data)[i] == 0);
    CHECK(small * small > 0);
    od_program_free(p);
    od_engine_free(e);
    od_graph_free(g);
  }
}

/* A value in the middle may be fed: it cuts the graph, also through a chain that would be merged. */
static void fed_in_the_middle(void **state) {
  (void)state;
  od_graph *g;
  od_engine *e;
  od_program *p;
  od_state *s;
  CHECK_OK(od_graph_new(&g));
  od_value x = od_input(g, "x", OD_F32, OD_SHAPE(1, 4, 4, 8)), w = variable(g, "w", OD_SHAPE(1, 1, 8, 8), constant(1));
  od_value y = od_conv2d(g, x, w, &OD_CONV(1, OD_PAD_SAME)), z = od_bias_add(g, y, variable(g, "b", OD_SHAPE(8), constant(3)));
  od_value r = od_relu(g, z), fetches[2] = {r, y}, feeds[1] = {z};
  CHECK_OK(od_state_new(&s, g));
  od_state_init(s, 1);
  CHECK_OK(od_engine_new(&e, &(od_engine_options){.threads = 1}));
  CHECK_OK(od_program_new(&p, e, &(od_program_spec){.graph = g, .state = s, .feeds = feeds, .n_feeds = 1, .fetches = &r, .n_fetches = 1}));
  float data[128];
  for (int i = 0; i < 128; i++) data[i] = (float)i - 64;
  od_tensor feed = {OD_F32, OD_SHAPE(1, 4, 4, 8), data}, got[2];
  CHECK_OK(od_program_run(p, &feed, got));
  for (int i = 0; i < 128; i++) CHECK_NEAR(((float *)got[0].data)[i], i < 64 ? 0 : i - 64, 0);
  od_program_free(p);
  /* a fetched value in the middle of a chain is there too */
  CHECK_OK(od_program_new(&p, e, &(od_program_spec){.graph = g, .state = s, .feeds = &x, .n_feeds = 1, .fetches = fetches, .n_fetches = 2}));
  CHECK_OK(od_program_run(p, &feed, got));
  double sum = 0;
  for (int i = 0; i < 8; i++) sum += (double)data[i];
  CHECK_NEAR(((float *)got[1].data)[0], sum, 1e-3);
  CHECK_NEAR(((float *)got[0].data)[127], 120 + 121 + 122 + 123 + 124 + 125 + 126 + 127 - 8 * 64 + 3, 1e-3);
  od_program_free(p);
  od_engine_free(e);
  od_state_free(s);
  od_graph_free(g);
}

/* Pieces alive together do not overlap, whatever the order. */
static void memory_planner(void **state) {
  (void)state;
  enum { N = 200 };
  for (uint64_t seed = 0; seed < 20; seed++) {
    od_piece pieces[N];
    size_t total;
    for (uint64_t i = 0; i < N; i++) {
      const int first = (int)od_rng_below(seed, 3 * i, 50);
      pieces[i] = (od_piece){od_rng_below(seed, 3 * i + 1, 5000), first, first + (int)od_rng_below(seed, 3 * i + 2, 12), 0};
    }
    CHECK_OK(od_plan_memory(&total, pieces, N));
    for (int i = 0; i < N; i++) {
      CHECK(pieces[i].offset % 64 == 0 && pieces[i].offset + pieces[i].size <= total);
      for (int k = 0; k < i; k++) {
        const od_piece *a = &pieces[i], *b = &pieces[k];
        if (a->first > b->last || b->first > a->last || !a->size || !b->size) continue;
        CHECK(a->offset + a->size <= b->offset || b->offset + b->size <= a->offset);
      }
    }
  }
}

static int guard_all(void **state) {
  (void)state;
  od_cpu_guard_steps(true);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(denormals_are_zero), cmocka_unit_test(merged_chains),    cmocka_unit_test(weights_change),    cmocka_unit_test(many_shapes),
      cmocka_unit_test(training_steps),   cmocka_unit_test(training_in_bf16),  cmocka_unit_test(guard),
      cmocka_unit_test(old_values_survive), cmocka_unit_test(fed_in_the_middle), cmocka_unit_test(memory_planner),
  };
  return cmocka_run_group_tests(tests, guard_all, NULL);
}
