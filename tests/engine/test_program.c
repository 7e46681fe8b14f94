/* Programs on both engines: what is fed, fetched and updated, the cache of plans beside threads that prepare, the guard, the
 * memory planner, and what is refused. */
#include <math.h>
#include <pthread.h>

#include "engine/backend.h"
#include "engine/program.h"
#include "od_test.h"
#include "ops/math.h"
#include "ops/nn.h"

static const char *const engines[] = {"ref", "cpu"};
static const od_init zero = {OD_INIT_CONSTANT, 0, 0};

typedef struct {
  od_engine *engine;
  od_graph *g;
  od_state *state;
} world;

static world open_world(const char *engine, int plan_cache) {
  world w = {0};
  CHECK_OK(od_engine_new(&w.engine, &(od_engine_options){.name = engine, .threads = 2, .plan_cache = plan_cache}));
  CHECK_OK(od_graph_new(&w.g));
  return w;
}

static void close_world(world *w) {
  od_engine_free(w->engine);
  od_state_free(w->state);
  od_graph_free(w->g);
}

static void make_state(world *w) {
  CHECK_OK(od_graph_check(w->g));
  CHECK_OK(od_state_new(&w->state, w->g));
  od_state_init(w->state, 1);
}

static od_tensor vector(const float *v, int64_t n) { return (od_tensor){OD_F32, OD_SHAPE(n), (void *)(uintptr_t)v}; }
static float at(const od_tensor *t, int i) { return ((const float *)t->data)[i]; }
static float *variable(const world *w, const char *name) { return od_state_tensor(w->state, name)->data; }

static od_status new_program(od_program **out, const world *w, const od_value *feeds, int n_feeds,
                             const od_value *fetches, int n_fetches) {
  static const char *const groups[] = {"g"};
  od_program_spec s = {.graph = w->g,
                       .state = w->state,
                       .feeds = feeds,
                       .n_feeds = n_feeds,
                       .fetches = fetches,
                       .n_fetches = n_fetches,
                       .update_groups = groups,
                       .n_update_groups = 1};
  return od_program_new(out, w->engine, &s);
}

/* ---------------------------------------------------------------------------------------------------- fed and fetched */
static void all_kinds_of_values(const char *engine) {
  world w = open_world(engine, 0);
  od_value x = od_input(w.g, "x", OD_F32, OD_SHAPE(-1)),
           v = od_variable_new(w.g, "v", OD_F32, OD_SHAPE(2), (od_init){OD_INIT_CONSTANT, 5, 0}, true);
  od_value c = od_const(w.g, OD_F32, OD_SHAPE(2), (float[]){7, 8}), y = od_add(w.g, x, v),
           flat = od_reshape(w.g, v, (od_ints){2, (int64_t[]){1, 2}});
  make_state(&w);
  od_program *p;
  const od_value fetches[] = {y, v, c, x, OD_NONE, y, flat};
  od_tensor got[7], fed = vector((float[]){1, 2}, 2);
  CHECK_OK(new_program(&p, &w, &x, 1, fetches, 7));
  for (int round = 0; round < 2; round++) {
    CHECK_OK(od_program_run(p, &fed, got));
    CHECK(at(&got[0], 1) == 7.0f && at(&got[1], 0) == 5.0f && at(&got[2], 1) == 8.0f && at(&got[3], 0) == 1.0f &&
          !got[4].data && at(&got[5], 1) == 7.0f);
    CHECK(got[6].shape.rank == 2 && at(&got[6], 1) == 5.0f);
  }
  od_program_free(p);
  close_world(&w);
}

/* The graph is cut where a value is fed: what stands before needs no feed. */
static void middle_values(const char *engine) {
  world w = open_world(engine, 0);
  od_value x = od_input(w.g, "x", OD_F32, OD_SHAPE(-1)), m = od_scale(w.g, x, 2, 0), y = od_add(w.g, m, m),
           z = od_mul(w.g, y, x);
  od_value norm =
      od_batch_norm_train(w.g, od_input(w.g, "map", OD_F32, OD_SHAPE(-1, -1, -1, 2)), OD_NONE, OD_NONE, 0.001f);
  od_value mean_twice = od_scale(w.g, od_out(norm, 1), 2, 0), map = od_reduce_max(w.g, norm, OD_ALL_AXES, false);
  od_program *p;
  od_tensor got[2], fed = vector((float[]){3, 4, 5}, 3), ones = vector((float[]){1, 1, 1}, 3);
  CHECK_OK(od_graph_check(w.g));
  CHECK_OK(new_program(&p, &w, &m, 1, &y, 1));
  CHECK_OK(od_program_run(p, &fed, got));
  CHECK(at(&got[0], 2) == 10.0f);
  od_program_free(p);
  CHECK_FAILS(new_program(&p, &w, &m, 1, &z, 1), OD_EINVAL, "input 'x' is needed and not fed");
  CHECK_OK(
      new_program(&p, &w, (od_value[]){x, m}, 2, (od_value[]){z, m}, 2)); /* fed although x is there: the feed counts */
  CHECK_OK(od_program_run(p, (od_tensor[]){fed, ones}, got));
  CHECK(at(&got[0], 1) == 8.0f && at(&got[1], 1) == 1.0f);
  od_program_free(p);
  /* one output of a node is fed, another computed */
  const float pixels[] = {1, 10, 3, 30};
  od_tensor picture = {OD_F32, OD_SHAPE(1, 1, 2, 2), (void *)(uintptr_t)pixels}, mean = vector((float[]){100, 200}, 2);
  CHECK_OK(new_program(&p, &w, (od_value[]){norm.node->in[0], od_out(norm, 1)}, 2, (od_value[]){mean_twice, map}, 2));
  CHECK_OK(od_program_run(p, (od_tensor[]){picture, mean}, got));
  CHECK(at(&got[0], 1) == 400.0f);
  CHECK_NEAR(at(&got[1], 0), 1, 0.01); /* normalised by its own mean: two values at -1 and 1 */
  od_program_free(p);
  close_world(&w);
}

/* Optional inputs that are absent: batch norm without gamma. */
static void absent_inputs(const char *engine) {
  world w = open_world(engine, 0);
  od_value x = od_input(w.g, "x", OD_F32, OD_SHAPE(1, 1, 1, 2)),
           one = od_const(w.g, OD_F32, OD_SHAPE(2), (float[]){1, 1});
  od_value mean = od_const(w.g, OD_F32, OD_SHAPE(2), (float[]){1, 2}),
           y = od_batch_norm(w.g, x, OD_NONE, one, mean, one, 0);
  od_program *p;
  od_tensor got, fed = {OD_F32, OD_SHAPE(1, 1, 1, 2), (float[]){3, 5}};
  CHECK_OK(od_graph_check(w.g));
  CHECK_OK(new_program(&p, &w, &x, 1, &y, 1));
  CHECK_OK(od_program_run(p, &fed, &got));
  CHECK_NEAR(at(&got, 0), 3, 1e-6);
  CHECK_NEAR(at(&got, 1), 4, 1e-6);
  od_program_free(p);
  close_world(&w);
}

/* Two programs of one engine use one buffer, one after the other. */
static void two_programs(const char *engine) {
  world w = open_world(engine, 0);
  od_value x = od_input(w.g, "x", OD_F32, OD_SHAPE(-1)), y = od_exp(w.g, od_scale(w.g, x, 2, 0)),
           z = od_sqrt(w.g, od_square(w.g, x));
  od_program *p, *q;
  od_tensor got;
  float big[500];
  CHECK_OK(od_graph_check(w.g));
  CHECK_OK(new_program(&p, &w, &x, 1, &y, 1));
  CHECK_OK(new_program(&q, &w, &x, 1, &z, 1));
  for (int i = 0; i < 500; i++) big[i] = (float)-i;
  for (int round = 0; round < 3; round++) {
    od_tensor small = vector((float[]){0}, 1), large = vector(big, 500 - round);
    CHECK_OK(od_program_run(p, &small, &got));
    CHECK(at(&got, 0) == 1.0f);
    CHECK_OK(od_program_run(q, &large, &got)); /* grows the buffer that p used */
    CHECK(at(&got, 400) == 400.0f);
  }
  od_program_free(p);
  od_program_free(q);
  close_world(&w);
}

/* ------------------------------------------------------------------------------------------------------------- updates */
static void updates_of_every_kind(const char *engine) {
  world w = open_world(engine, 0);
  od_value x = od_input(w.g, "x", OD_F32, OD_SHAPE(2)), v[6];
  static const char *const names[] = {"computed", "fed", "constant", "older", "oldest", "itself"};
  for (int i = 0; i < 6; i++)
    v[i] = od_variable_new(w.g, names[i], OD_F32, OD_SHAPE(2), (od_init){OD_INIT_CONSTANT, (float)i, 0}, true);
  od_update(w.g, "g", v[0], od_add(w.g, v[0], x));
  od_update(w.g, "g", v[1], x);
  od_update(w.g, "g", v[2], od_const(w.g, OD_F32, OD_SHAPE(2), (float[]){9, 9}));
  od_update(w.g, "g", v[3], v[0]); /* a shift register, entered in the order that overwrites, and through a view */
  od_update(w.g, "g", v[4],
            od_reshape(w.g, od_reshape(w.g, v[3], (od_ints){2, (int64_t[]){1, 2}}), (od_ints){1, (int64_t[]){2}}));
  od_update(w.g, "g", v[5], v[5]);
  od_update(w.g, "other", v[1], v[2]); /* not of this program's groups */
  make_state(&w);
  od_program *p;
  CHECK_OK(new_program(&p, &w, &x, 1, NULL, 0));
  float in[] = {10, 20};
  od_tensor fed = vector(in, 2);
  uint64_t version = od_state_version(w.state);
  CHECK_OK(od_program_run(p, &fed, NULL));
  CHECK(od_state_version(w.state) != version);
  CHECK(variable(&w, "computed")[1] == 20.0f && variable(&w, "fed")[1] == 20.0f && variable(&w, "constant")[1] == 9.0f);
  CHECK(variable(&w, "older")[1] == 0.0f && variable(&w, "oldest")[1] == 3.0f && variable(&w, "itself")[1] == 5.0f);
  CHECK_OK(od_program_run(p, &fed, NULL));
  CHECK(variable(&w, "computed")[1] == 40.0f && variable(&w, "older")[1] == 20.0f && variable(&w, "oldest")[1] == 0.0f);
  od_program_free(p);
  close_world(&w);
}

static void exchanged_values(const char *engine) {
  world w = open_world(engine, 0);
  od_value a = od_variable_new(w.g, "a", OD_F32, OD_SHAPE(2), zero, true),
           b = od_variable_new(w.g, "b", OD_F32, OD_SHAPE(2), zero, true);
  od_program *p = NULL;
  od_update(w.g, "g", a, b);
  od_update(w.g, "g", b, a);
  make_state(&w);
  CHECK_FAILS(new_program(&p, &w, NULL, 0, NULL, 0), OD_EUNSUPPORTED, "in a circle");
  CHECK(!p);
  close_world(&w);
}

/* Not finite: the run stops and nothing behind the guard is applied. */
static void the_guard(const char *engine) {
  world w = open_world(engine, 0);
  od_value x = od_input(w.g, "x", OD_F32, OD_SHAPE(-1)), v = od_variable_new(w.g, "v", OD_F32, OD_SCALAR, zero, true);
  od_value loss = od_reduce_sum(w.g, x, OD_ALL_AXES, false);
  od_update(w.g, "g", v, od_add(w.g, v, loss));
  make_state(&w);
  od_program *p;
  od_program_spec s = {.graph = w.g,
                       .state = w.state,
                       .feeds = &x,
                       .n_feeds = 1,
                       .fetches = &loss,
                       .n_fetches = 1,
                       .update_groups = (const char *const[]){"g"},
                       .n_update_groups = 1,
                       .guard = loss};
  od_tensor got, good = vector((float[]){1, 2}, 2),
                 bad[] = {vector((float[]){1, INFINITY}, 2), vector((float[]){NAN, 1}, 2)};
  CHECK_OK(od_program_new(&p, w.engine, &s));
  CHECK_OK(od_program_run(p, &good, &got));
  for (int i = 0; i < 2; i++) {
    CHECK_FAILS(od_program_run(p, &bad[i], &got), OD_ENUMERIC, i ? "reduce_sum is" : "reduce_sum is inf");
    CHECK(*variable(&w, "v") == 3.0f);
  }
  CHECK_OK(od_program_run(p, &good, &got));
  CHECK(*variable(&w, "v") == 6.0f && at(&got, 0) == 3.0f);
  od_program_free(p);
  close_world(&w);
}

/* ---------------------------------------------------------------------------------------------------------- plan cache */
static od_program *chain(world *w, od_value *x) {
  *x = od_input(w->g, "x", OD_F32, OD_SHAPE(-1));
  od_value y = *x;
  for (int i = 0; i < 6; i++) y = od_scale(w->g, od_sqrt(w->g, y), 2, 0);
  od_program *p;
  CHECK_OK(od_graph_check(w->g));
  CHECK_OK(new_program(&p, w, x, 1, &y, 1));
  return p;
}

/* sqrt(4) * 2 = 4: the chain keeps fours. Returns the allocations that the run made. */
static uint64_t run_fours(od_program *p, int64_t n) {
  static float fours[300];
  for (int i = 0; i < 300; i++) fours[i] = 4;
  od_tensor got, fed = vector(fours, n);
  uint64_t before = od_mem_count();
  CHECK_OK(od_program_run(p, &fed, &got));
  uint64_t made = od_mem_count() - before;
  CHECK(got.shape.rank == 1 && got.shape.dim[0] == n);
  for (int i = 0; i < n; i++) CHECK_NEAR(at(&got, i), 4, 1e-4);
  return made;
}

static void old_plans_go(const char *engine) {
  world w = open_world(engine, 2);
  od_value x;
  od_program *p = chain(&w, &x);
  CHECK(run_fours(p, 30) > 0);
  CHECK(run_fours(p, 20) > 0);
  CHECK(run_fours(p, 30) == 0 && run_fours(p, 20) == 0); /* both are kept; a shape seen before allocates nothing */
  CHECK(run_fours(p, 10) > 0);                           /* 30 goes: used longest ago */
  CHECK(run_fours(p, 20) == 0);
  size_t used = od_mem_used();
  for (int64_t n = 1; n < 30; n++) (void)run_fours(p, n); /* no growth with the number of shapes */
  CHECK(od_mem_used() < used + used / 2);
  od_program_free(p);
  close_world(&w);
}

static void what_ran_last_stays(const char *engine) {
  world w = open_world(engine, 1);
  od_value x;
  od_program *p = chain(&w, &x);
  od_tensor got, fed = vector((float[]){4, 4, 4}, 3);
  size_t n, bytes;
  od_program_profile(p, true);
  CHECK_OK(od_program_run(p, &fed, &got));
  for (int64_t i = 4; i < 20; i++) CHECK_OK(od_program_prepare(p, &OD_SHAPE(i)));
  CHECK_OK(od_program_memory(&bytes, p, &OD_SHAPE(100)));
  CHECK(bytes >= 400);
  CHECK_NEAR(at(&got, 2), 4, 1e-4); /* the fetch and the profile are those of the run */
  const od_profile_step *s = od_program_profile_steps(p, &n);
  CHECK(n > 0 && s[0].seconds > 0 && s[0].name && s[0].op && s[0].kernel);
  CHECK(od_program_fallbacks(p) == 0);
  od_program_profile(p, true); /* begins anew */
  CHECK_OK(od_program_run(p, &fed, &got));
  od_program_free(p);
  close_world(&w);
}

typedef struct {
  od_program *p;
  int seed, failed;
} preparer;

static void *prepare_many(void *ctx) {
  preparer *t = ctx;
  for (int i = 0; i < 60; i++) {
    od_shape s = OD_SHAPE(1 + (i * 7 + t->seed * 13) % 40);
    size_t bytes;
    if (od_program_prepare(t->p, &s) != OD_OK) t->failed++;
    if (i % 9 == 0 && od_program_memory(&bytes, t->p, &s) != OD_OK) t->failed++;
  }
  return NULL;
}

/* Threads prepare shapes, more than the cache holds, while another runs: no plan disappears under a run. */
static void prepared_beside_runs(const char *engine) {
  enum { THREADS = 3 };
  world w = open_world(engine, 2);
  od_value x;
  od_program *p = chain(&w, &x);
  pthread_t threads[THREADS];
  preparer work[THREADS];
  for (int i = 0; i < THREADS; i++) {
    work[i] = (preparer){p, i, 0};
    CHECK(pthread_create(&threads[i], NULL, prepare_many, &work[i]) == 0);
  }
  for (int i = 0; i < 120; i++) (void)run_fours(p, 1 + i * 11 % 40);
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    CHECK(work[i].failed == 0);
  }
  od_program_free(p);
  close_world(&w);
}

/* ------------------------------------------------------------------------------------------------------------- refused */
static void refusals(const char *engine) {
  world w = open_world(engine, 0);
  od_value x = od_input(w.g, "x", OD_F32, OD_SHAPE(-1, 3)),
           v = od_variable_new(w.g, "v", OD_F32, OD_SHAPE(3), zero, true), y = od_add(w.g, x, v);
  od_program *p = NULL;
  od_tensor got;
  CHECK_OK(od_graph_check(w.g));
  CHECK_FAILS(new_program(&p, &w, &x, 1, &y, 1), OD_EINVAL, "variable 'v' is needed and there is no state");
  make_state(&w);
  CHECK_FAILS(new_program(&p, &w, NULL, 0, &y, 1), OD_EINVAL, "input 'x' is needed and not fed");
  CHECK_FAILS(new_program(&p, &w, (od_value[]){x, OD_NONE}, 2, &y, 1), OD_EINVAL, "feed 1 of the program is absent");
  CHECK_FAILS(new_program(&p, &w, (od_value[]){x, v, x}, 3, &y, 1), OD_EINVAL, "x is fed twice");
  CHECK(!p);
  CHECK_OK(new_program(&p, &w, &x, 1, &y, 1));
  od_tensor fed = {OD_F32, OD_SHAPE(2, 4), (float[8]){0}};
  CHECK_FAILS(od_program_run(p, &fed, &got), OD_EMISMATCH, "x is fed with shape [2,4], it wants [?,3]");
  CHECK_FAILS(od_program_prepare(p, &OD_SHAPE(3)), OD_EMISMATCH, "x is fed with shape [3], it wants [?,3]");
  CHECK_FAILS(od_program_prepare(p, &OD_SHAPE(-1, 3)), OD_EMISMATCH, "x is fed with shape [?,3]");
  CHECK_FAILS(od_program_prepare(p, &OD_SHAPE(INT64_MAX / 4, 3)), OD_EDATA, "impossible tensor shape");
  fed.dtype = OD_I32;
  CHECK_FAILS(od_program_run(p, &fed, &got), OD_EMISMATCH, "x is fed with int32, it wants float32");
  for (int i = 0; i < 200; i++) (void)od_const_f32(w.g, 1); /* a graph that grows is none of the program's business */
  CHECK_OK(od_program_prepare(p, &OD_SHAPE(5, 3)));
  od_program_free(p);
  od_program_free(NULL);
  close_world(&w);
}

static void engines_that_are_not_there(void **state) {
  (void)state;
  od_engine *e = NULL;
  CHECK_FAILS(od_engine_new(&e, &(od_engine_options){.name = "gpu"}), OD_EUNSUPPORTED,
              "no engine named 'gpu'; there are cpu and ref");
  CHECK_FAILS(od_engine_new(&e, &(od_engine_options){.threads = 1 << 20}), OD_EINVAL, "1048576 compute threads");
  CHECK(!e);
  CHECK_OK(od_engine_new(&e, NULL));
  CHECK_TEXT(od_engine_get_options(e)->name, "cpu");
  CHECK(od_engine_get_options(e)->threads >= 1 && od_engine_get_options(e)->plan_cache == 16);
  od_engine_free(e);
  od_engine_free(NULL);
}

/* ------------------------------------------------------------------------------------------------------------- memory */
static od_status train_once(const char *engine) {
  od_engine *e = NULL;
  od_graph *g = NULL;
  od_state *s = NULL;
  od_program *p = NULL;
  od_status st;
  float in[] = {1, 2, 3};
  OD_GO(st, od_engine_new(&e, &(od_engine_options){.name = engine, .threads = 1}));
  OD_GO(st, od_graph_new(&g));
  od_value x = od_input(g, "x", OD_F32, OD_SHAPE(-1)), v = od_variable_new(g, "v", OD_F32, OD_SHAPE(3), zero, true);
  od_value y = od_mul(g, od_exp(g, x), od_add(g, v, x));
  od_update(g, "g", v, od_add(g, v, y));
  OD_GO(st, od_graph_check(g));
  OD_GO(st, od_state_new(&s, g));
  od_program_spec spec = {.graph = g,
                          .state = s,
                          .feeds = &x,
                          .n_feeds = 1,
                          .fetches = &y,
                          .n_fetches = 1,
                          .update_groups = (const char *const[]){"g"},
                          .n_update_groups = 1};
  OD_GO(st, od_program_new(&p, e, &spec));
  od_tensor got, fed = vector(in, 3);
  st = od_program_run(p, &fed, &got);
done:
  od_program_free(p);
  od_state_free(s);
  od_graph_free(g);
  od_engine_free(e);
  return st;
}

static void memory_may_run_out(const char *engine) {
  CHECK_OK(train_once(engine));
  size_t before = od_mem_used();
  uint64_t start = od_mem_count();
  CHECK_OK(train_once(engine));
  uint64_t n = od_mem_count() - start;
  for (uint64_t i = 1; i <= n; i++) {
    od_mem_fail_at(i);
    od_status st = train_once(engine);
    od_mem_fail_at(0);
    if (st != OD_ENOMEM)
      fail_msg("%s, allocation %llu of %llu: %s", engine, (unsigned long long)i, (unsigned long long)n,
               od_status_text(st));
    CHECK(od_mem_used() == before);
  }
}

/* Pieces that are alive together never overlap; the total is no larger than all pieces side by side, nor smaller than any moment
 * needs. */
static void pieces_do_not_overlap(void **state) {
  (void)state;
  enum { N = 60, ROUNDS = 200, STEPS = 40 };
  od_key key = od_key_name(0, "pieces");
  uint64_t draw = 0;
  for (int round = 0; round < ROUNDS; round++) {
    od_piece p[N];
    size_t total, sum = 0, live[STEPS] = {0};
    int n = round % (N + 1);
    for (int i = 0; i < n; i++) {
      int a = (int)(od_rng_u64(key, draw++) % STEPS), b = (int)(od_rng_u64(key, draw++) % STEPS);
      size_t size = od_rng_u64(key, draw++) % (i % 3 ? 300 : 100000);
      p[i] = (od_piece){i % 7 ? size : 0, a < b ? a : b, a < b ? b : a, 999};
      size_t rounded = (p[i].size + 63) / 64 * 64;
      sum += rounded;
      for (int t = p[i].first; t <= p[i].last; t++) live[t] += rounded;
    }
    CHECK_OK(od_plan_memory(&total, p, (size_t)n));
    CHECK(total <= sum);
    for (int t = 0; t < STEPS; t++) CHECK(live[t] <= total);
    for (int i = 0; i < n; i++) {
      CHECK(p[i].offset % 64 == 0 && p[i].offset + p[i].size <= total);
      for (int k = 0; k < i; k++) {
        bool together = p[i].first <= p[k].last && p[k].first <= p[i].last;
        bool apart = p[i].offset + p[i].size <= p[k].offset || p[k].offset + p[k].size <= p[i].offset;
        CHECK(!together || apart || !p[i].size || !p[k].size);
      }
    }
    od_piece again[N];
    size_t total_again;
    memcpy(again, p, sizeof *p * (size_t)n);
    CHECK_OK(od_plan_memory(&total_again, again, (size_t)n));
    CHECK(total == total_again && memcmp(again, p, sizeof *p * (size_t)n) == 0);
  }
}

#define ON_EACH_ENGINE(name)                                                                                           \
  static void test_##name(void **state) {                                                                              \
    (void)state;                                                                                                       \
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) name(engines[i]);                                    \
  }
ON_EACH_ENGINE(all_kinds_of_values)
ON_EACH_ENGINE(middle_values)
ON_EACH_ENGINE(absent_inputs)
ON_EACH_ENGINE(two_programs)
ON_EACH_ENGINE(updates_of_every_kind)
ON_EACH_ENGINE(exchanged_values)
ON_EACH_ENGINE(the_guard)
ON_EACH_ENGINE(old_plans_go)
ON_EACH_ENGINE(what_ran_last_stays)
ON_EACH_ENGINE(prepared_beside_runs)
ON_EACH_ENGINE(refusals)
ON_EACH_ENGINE(memory_may_run_out)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_all_kinds_of_values),
      cmocka_unit_test(test_middle_values),
      cmocka_unit_test(test_absent_inputs),
      cmocka_unit_test(test_two_programs),
      cmocka_unit_test(test_updates_of_every_kind),
      cmocka_unit_test(test_exchanged_values),
      cmocka_unit_test(test_the_guard),
      cmocka_unit_test(test_old_plans_go),
      cmocka_unit_test(test_what_ran_last_stays),
      cmocka_unit_test(test_prepared_beside_runs),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(engines_that_are_not_there),
      cmocka_unit_test(test_memory_may_run_out),
      cmocka_unit_test(pieces_do_not_overlap),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
