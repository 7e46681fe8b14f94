/* Building graphs: names, scopes, sticky failures, parameters, variables, updates, collections, text, the state. */
#include <math.h>

#include "graph/params.h"
#include "graph/state.h"
#include "toy_ops.h"

static od_graph *graph(void) {
  od_graph *g;
  CHECK_OK(od_graph_new(&g));
  return g;
}

static const od_init zero = {OD_INIT_CONSTANT, 0, 0};

static void names_are_unique_and_scoped(void **state) {
  (void)state;
  od_graph *g = graph();
  od_value a = toy_input(g, "x");
  CHECK_TEXT(a.node->name, "x");
  CHECK_TEXT(toy(g, "add", a, a).node->name, "add");
  CHECK_TEXT(toy(g, "add", a, a).node->name, "add_1");
  CHECK_TEXT(od_graph_add_named(g, "add_2", od_op_find("stop"), &a, 1, NULL).node->name, "add_2");
  CHECK_TEXT(toy(g, "add", a, a).node->name, "add_3"); /* the suffix was taken by a name of its own */
  od_scope_push(g, "one");
  od_scope_push(g, ""); /* an empty scope adds nothing */
  od_scope_push(g, "two");
  od_value b = toy(g, "add", a, a);
  CHECK_TEXT(b.node->name, "one/two/add");
  CHECK_TEXT(od_scope_name(g, "leaf"), "one/two/leaf");
  od_scope_pop(g);
  od_scope_pop(g);
  CHECK_TEXT(toy(g, "add", a, a).node->name, "one/add");
  od_scope_pop(g);
  CHECK_TEXT(od_scope_name(g, "leaf"), "leaf");
  CHECK(od_graph_find(g, "one/two/add") == b.node);
  CHECK(!od_graph_find(g, "two/add"));
  for (size_t i = 0; i < od_graph_size(g); i++) CHECK(od_graph_node(g, i)->id == (int)i);
  CHECK_OK(od_graph_check(g));
  od_graph_free(g);
}

static void the_first_failure_stays(void **state) {
  (void)state;
  od_graph *g = graph();
  od_value a = toy_input(g, "x");
  od_value bad = od_graph_add(g, od_op_find("refuse"), NULL, 0, NULL);
  CHECK(!od_has(bad) && !od_has(od_out(bad, 1)));
  CHECK(od_type_of(bad).shape.rank == -1 && od_dim(bad, 0) == -1);
  size_t n = od_graph_size(g);
  CHECK(!od_has(toy(g, "add", bad, bad)) && !od_has(toy(g, "add", a, a)) && !od_has(toy_input(g, "y")));
  CHECK(!od_has(od_variable_new(g, "v", OD_F32, OD_SCALAR, zero, true)));
  od_update(g, "g", a, a);
  od_collect(g, "list", "key", a);
  CHECK(od_graph_size(g) == n && !od_collected(g, "list", 0, NULL, NULL));
  (void)od_graph_fail(g, od_fail(OD_EIO, "a later one"));
  (void)od_fail(OD_EIO, "something else in this thread");
  CHECK_FAILS(od_graph_check(g), OD_EINVAL, "refuse (refuse): 0 inputs are not liked");
  od_graph_free(g);
  od_graph_free(NULL);
}

static void fails(const char *op, const od_value *in, int n_in, const char *text) {
  od_graph *g = graph();
  od_value x = toy_input(g, "x"), mine[4];
  for (int i = 0; i < n_in; i++) mine[i] = od_has(in[i]) ? x : OD_NONE;
  CHECK(!od_has(od_graph_add(g, od_op_find(op), mine, n_in, NULL)));
  CHECK_FAILS(od_graph_check(g), OD_EINVAL, text);
  od_graph_free(g);
}

static void inputs_are_counted(void **state) {
  (void)state;
  od_node dummy;
  od_value v = {&dummy, 0};
  fails("add", (od_value[]){v}, 1, "add: op add takes 2 to 2 inputs, not 1");
  fails("add", (od_value[]){v, OD_NONE}, 2, "add: input 1 of op add is missing");
  fails("many", NULL, 0, "many: op many takes 1 inputs or more, not 0");
  fails("many", (od_value[]){OD_NONE, v}, 2, "many: input 0 of op many is missing");
  od_graph *g = graph();
  od_value x = toy_input(g, "x");
  od_value y = od_graph_add(g, od_op_find("many"), (od_value[]){x, OD_NONE, x}, 3, NULL); /* input 1 may be absent */
  CHECK(od_has(y) && y.node->n_in == 3 && !od_has(y.node->in[1]));
  CHECK_OK(od_graph_check(g));
  od_graph_free(g);
}

static toy_params good_params(void) {
  static const int64_t ints[] = {-5, 0, 5};
  static const float floats[] = {0.5f, -1e9f};
  static const int32_t data[] = {7, 8};
  return (toy_params){.whole = 1,
                      .real = 1,
                      .truth = true,
                      .choice = 1,
                      .dtype = OD_I64,
                      .ints = {3, ints},
                      .floats = {2, floats},
                      .text = "words",
                      .shape = OD_SHAPE(2, -1),
                      .tensor = {OD_I32, OD_SHAPE(2), (void *)(uintptr_t)data}};
}

static void refused(toy_params p, const char *text) {
  od_graph *g = graph();
  CHECK(!od_has(od_graph_add(g, od_op_find("params"), NULL, 0, &p)));
  CHECK_FAILS(od_graph_check(g), OD_EINVAL, text);
  od_graph_free(g);
}

static void parameters_are_checked(void **state) {
  (void)state;
  toy_params p = good_params();
  p.whole = 0;
  refused(p, "params (params): parameter whole is 0, allowed are 1 to 9");
  p.whole = 10;
  refused(p, "parameter whole is 10");
  p = good_params(), p.real = NAN;
  refused(p, "parameter real is nan");
  p = good_params(), p.real = nextafterf(1, 2);
  refused(p, "parameter real");
  p = good_params(), p.choice = 2;
  refused(p, "parameter choice is 2, of 2 values");
  p = good_params(), p.choice = -1;
  refused(p, "parameter choice is -1");
  p = good_params(), p.dtype = (od_dtype)99;
  refused(p, "parameter dtype is 99");
  p = good_params(), p.ints = (od_ints){2, (int64_t[]){0, 6}};
  refused(p, "parameter ints is 6");
  p = good_params(), p.ints.n = -1;
  refused(p, "parameter ints: a list of -1");
}

static void parameters_are_copied(void **state) {
  (void)state;
  od_graph *g = graph();
  char text[] = "words";
  int64_t ints[] = {1, 2};
  float floats[] = {3};
  int32_t data[] = {7, 8};
  toy_params p = good_params();
  p.text = text, p.ints = (od_ints){2, ints}, p.floats = (od_floats){1, floats}, p.tensor.data = data;
  const toy_params *c = od_graph_add(g, od_op_find("params"), NULL, 0, &p).node->params;
  memset(text, 'x', sizeof text - 1), memset(ints, 0, sizeof ints), memset(floats, 0, sizeof floats),
      memset(data, 0, sizeof data);
  CHECK_TEXT(c->text, "words");
  CHECK(c->ints.n == 2 && c->ints.v[1] == 2 && c->floats.v[0] == 3.0f && ((int32_t *)c->tensor.data)[1] == 8);
  od_str s = OD_STR_INIT;
  od_params_text(&s, od_op_find("params"), c);
  CHECK_TEXT(od_str_text(&s), "whole=1 real=1 truth=true choice=green dtype=int64 ints=[1,2] floats=[3] text=\"words\" "
                              "shape=[2,?] tensor=int32[2]");
  od_str_free(&s);
  p = good_params(), p.ints.n = p.floats.n = 0, p.text = NULL;
  c = od_graph_add(g, od_op_find("params"), NULL, 0, &p).node->params;
  CHECK_TEXT(c->text, "");
  od_params_text(&s, od_op_find("params"), c);
  CHECK(strstr(od_str_text(&s), "ints=[] floats=[] text=\"\""));
  od_str_free(&s);
  od_graph_free(g);
}

static void variables_have_names_of_their_own(void **state) {
  (void)state;
  od_graph *g = graph();
  (void)toy_input(g, "layer/weights"); /* a node may carry the name already */
  od_scope_push(g, "layer");
  od_value w = od_variable_new(g, "weights", OD_F32, OD_SHAPE(2, 3), (od_init){OD_INIT_CONSTANT, 0.5f, 0}, true);
  od_value slot = od_variable_slot(g, "layer/weights/Momentum", OD_F32, OD_SHAPE(2, 3), zero);
  od_scope_pop(g);
  const od_variable *v = od_variable_of(g, w);
  CHECK(v && v == od_graph_variable_named(g, "layer/weights") && v == od_graph_variable(g, 0));
  CHECK(v->trainable && v->model && v->index == 0 && v->value.node == w.node);
  CHECK_TEXT(w.node->name, "layer/weights_1");
  CHECK_TEXT(slot.node->name, "layer/weights/Momentum"); /* outside the scopes */
  CHECK(!od_variable_of(g, slot)->model && !od_variable_of(g, slot)->trainable);
  CHECK(!od_variable_of(g, OD_NONE) && !od_graph_variable_named(g, "weights"));
  CHECK(od_graph_variables(g) == 2);
  CHECK(!od_has(od_variable_slot(g, "layer/weights", OD_F32, OD_SCALAR, zero)));
  CHECK_FAILS(od_graph_check(g), OD_EINVAL, "variable layer/weights is created twice");
  od_graph_free(g);
  g = graph();
  CHECK(!od_has(od_variable_new(g, "v", OD_F32, OD_SHAPE(3, -1), zero, true)));
  CHECK_FAILS(od_graph_check(g), OD_EINVAL, "variable v has no known shape: [3,?]");
  od_graph_free(g);
}

/* What od_update refuses, in a graph of its own. */
static void update_fails(int which, const char *text) {
  od_graph *g = graph();
  od_value x = toy_input(g, "x"), v = od_variable_new(g, "v", OD_F32, OD_SCALAR, zero, true);
  switch (which) {
  case 0: od_update(g, "g", x, x); break;
  case 1: od_update(g, "g", v, OD_NONE); break;
  case 2: od_update(g, "g", v, od_input(g, "y", OD_F32, OD_SHAPE(2))); break;
  case 3: od_update(g, "g", v, od_input(g, "y", OD_I32, OD_SCALAR)); break;
  default:
    od_update(g, "g", v, x);
    od_update(g, "h", v, x); /* another group: fine */
    CHECK_OK(od_graph_check(g));
    od_update(g, "g", v, x);
  }
  CHECK_FAILS(od_graph_check(g), OD_EINVAL, text);
  od_graph_free(g);
}

static void updates_are_checked(void **state) {
  (void)state;
  update_fails(0, "no variable");
  update_fails(1, "update of v: there is no new value");
  update_fails(2, "update of v: the new value is float32[2], the variable is float32[]");
  update_fails(3, "update of v: the new value is int32[], the variable is float32[]");
  update_fails(4, "v gets two updates of group g");
}

static void collections_keep_their_order(void **state) {
  (void)state;
  od_graph *g = graph();
  od_value a = toy_input(g, "a"), b = toy_input(g, "b"), v;
  const char *key;
  od_collect(g, "losses", "first", a);
  od_collect(g, "other", "x", b);
  od_collect(g, "losses", "absent", OD_NONE);
  od_collect(g, "losses", "second", b);
  CHECK(od_collected(g, "losses", 1, &key, &v) && v.node == b.node);
  CHECK_TEXT(key, "second");
  CHECK(od_collected(g, "other", 0, NULL, NULL) && !od_collected(g, "losses", 2, &key, &v) &&
        !od_collected(g, "none", 0, &key, &v));
  od_graph_free(g);
}

static void a_graph_prints(void **state) {
  (void)state;
  od_graph *g = graph();
  od_value x = od_input(g, "x", OD_F32, OD_SHAPE(-1, 3)), t = toy(g, "twice", x, OD_NONE);
  (void)toy(g, "add", od_out(t, 1), x);
  (void)od_graph_add(g, od_op_find("many"), (od_value[]){x, OD_NONE}, 2, NULL);
  (void)od_const_f32(g, 2);
  char *text;
  CHECK_OK(od_graph_print(&text, g));
  CHECK_TEXT(text, "x = input() {name=\"x\"} -> float32[?,3]\n"
                   "twice = twice(x) {} -> float32[?,3] float32[?,3]\n"
                   "add = add(twice:1, x) {} -> float32[?,3]\n"
                   "many = many(x, -) {} -> float32[?,3]\n"
                   "const = const() {value=float32[]} -> float32[]\n");
  od_free(text);
  CHECK(od_dim(x, -1) == 3 && od_dim(x, 0) == -1 && od_dim(x, 2) == -1 && od_dim(x, -3) == -1);
  od_graph_free(g);
}

static void the_state_is_drawn_by_name(void **state) {
  (void)state;
  od_graph *g = graph(), *h = graph();
  const od_init normal = {OD_INIT_TRUNCATED_NORMAL, 1, 0.5f};
  (void)od_variable_new(g, "a", OD_F32, OD_SHAPE(1000), normal, true);
  (void)od_variable_new(g, "b", OD_F32, OD_SHAPE(1000), normal, true);
  (void)od_variable_slot(g, "global_step", OD_I64, OD_SCALAR, (od_init){OD_INIT_CONSTANT, 3, 0});
  (void)od_variable_new(h, "b", OD_F32, OD_SHAPE(1000), normal, true);
  od_state *s, *t;
  CHECK_OK(od_state_new(&s, g));
  CHECK_OK(od_state_new(&t, h));
  uint64_t version = od_state_version(s);
  od_state_init(s, 5);
  od_state_init(t, 5);
  CHECK(od_state_version(s) != version && od_state_graph(s) == g);
  const float *a = od_state_tensor(s, "a")->data, *b = od_state_tensor(s, "b")->data,
              *b2 = od_state_tensor(t, "b")->data;
  CHECK(memcmp(b, b2, 1000 * sizeof *b) == 0 && memcmp(a, b, 1000 * sizeof *b) != 0);
  for (int i = 0; i < 1000; i++) CHECK(a[i] >= 0.0f && a[i] <= 2.0f); /* within two standard deviations */
  CHECK(*(int64_t *)od_state_tensor(s, "global_step")->data == 0);
  CHECK(!od_state_tensor(s, "c"));
  od_state_init(t, 6);
  CHECK(memcmp(b, b2, 1000 * sizeof *b) != 0);
  od_state_free(s);
  od_state_free(t);
  od_state_free(NULL);
  od_graph_free(g);
  od_graph_free(h);
}

/* Several blocks of a variable, drawn on one thread and on four. */
static void threads_change_no_drawn_bit(void **state) {
  (void)state;
  enum { MANY = 300001 };
  od_graph *g = graph();
  (void)od_variable_new(g, "few", OD_F32, OD_SHAPE(7), (od_init){OD_INIT_UNIFORM, -1, 1}, true);
  (void)od_variable_new(g, "none", OD_F32, OD_SHAPE(0), (od_init){OD_INIT_UNIFORM, -1, 1}, true);
  (void)od_variable_new(g, "many", OD_F32, OD_SHAPE(MANY), (od_init){OD_INIT_NORMAL, 0, 2}, true);
  (void)od_variable_new(g, "last", OD_F32, OD_SHAPE(65536), (od_init){OD_INIT_TRUNCATED_NORMAL, 0, 2}, true);
  od_state *s, *t;
  CHECK_OK(od_state_new(&s, g));
  CHECK_OK(od_state_new(&t, g));
  od_state_draw(s, 5, 1);
  od_state_draw(t, 5, 4);
  for (int i = 0; i < 4; i++)
    CHECK(memcmp(od_state_at(s, i)->data, od_state_at(t, i)->data, od_tensor_bytes(od_state_at(s, i))) == 0);
  const float *x = od_state_at(t, 2)->data;
  double sum = 0, squares = 0;
  for (int i = 0; i < MANY; i++) sum += (double)x[i], squares += (double)x[i] * (double)x[i];
  CHECK(fabs(sum / MANY) < 0.02 && fabs(squares / MANY - 4) < 0.05);
  od_state_free(s);
  od_state_free(t);
  od_graph_free(g);
}

/* A little of everything; whichever allocation fails, there is a status and nothing is lost. */
static od_status build_all(void) {
  od_graph *g = NULL;
  od_state *s = NULL;
  char *text = NULL;
  od_status st;
  OD_GO(st, od_graph_new(&g));
  od_scope_push(g, "scope");
  toy_params p = good_params();
  od_value x = toy_input(g, "x"), v = od_variable_new(g, "v", OD_F32, OD_SCALAR, zero, true);
  for (int i = 0; i < 40; i++) x = toy(g, "add", x, v);
  (void)od_graph_add(g, od_op_find("params"), NULL, 0, &p);
  od_update(g, "group", v, x);
  od_collect(g, "list", "key", x);
  (void)od_variable_slot(g, "slot", OD_F32, OD_SHAPE(3), zero);
  od_scope_pop(g);
  OD_GO(st, od_graph_check(g));
  OD_GO(st, od_graph_print(&text, g));
  st = od_state_new(&s, g);
done:
  od_free(text);
  od_state_free(s);
  od_graph_free(g);
  return st;
}

static void memory_may_run_out_anywhere(void **state) {
  (void)state;
  size_t before = od_mem_used();
  uint64_t start = od_mem_count();
  CHECK_OK(build_all());
  uint64_t n = od_mem_count() - start;
  CHECK(n > 20);
  for (uint64_t i = 1; i <= n; i++) {
    od_mem_fail_at(i);
    od_status st = build_all();
    od_mem_fail_at(0);
    if (st != OD_ENOMEM)
      fail_msg("allocation %llu of %llu: %s", (unsigned long long)i, (unsigned long long)n, od_status_text(st));
    CHECK(od_mem_used() == before);
  }
  CHECK_OK(build_all());
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_are_unique_and_scoped),
      cmocka_unit_test(the_first_failure_stays),
      cmocka_unit_test(inputs_are_counted),
      cmocka_unit_test(parameters_are_checked),
      cmocka_unit_test(parameters_are_copied),
      cmocka_unit_test(variables_have_names_of_their_own),
      cmocka_unit_test(updates_are_checked),
      cmocka_unit_test(collections_keep_their_order),
      cmocka_unit_test(a_graph_prints),
      cmocka_unit_test(the_state_is_drawn_by_name),
      cmocka_unit_test(threads_change_no_drawn_bit),
      cmocka_unit_test(memory_may_run_out_anywhere),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
