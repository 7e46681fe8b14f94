/* Gradients as nodes: the chain rule, sums over several readers, several outputs, what stops them; computed with scalars. */
#include "graph/autodiff.h"
#include "toy_ops.h"

static od_graph *graph(void) {
  od_graph *g;
  CHECK_OK(od_graph_new(&g));
  return g;
}

/* The value of a toy node; inputs have the value that feed gives for the first letter of their name. */
static double value(od_value v, const double *feed) {
  const od_node *n = v.node;
  const char *op = n->op->name;
  if (strcmp(op, "input") == 0) return feed[n->name[0] - 'a'];
  if (strcmp(op, "ones_like") == 0) return 1;
  double a = value(n->in[0], feed);
  if (strcmp(op, "add") == 0) return a + value(n->in[1], feed);
  if (strcmp(op, "mul") == 0) return a * value(n->in[1], feed);
  if (strcmp(op, "twice") == 0) return v.out ? 2 * a : a;
  return a; /* stop, wall */
}

static const double feed[] = {3, 5, 7};

static void the_chain_rule(void **state) {
  (void)state;
  od_graph *g = graph();
  od_value a = toy_input(g, "a"), b = toy_input(g, "b"), c = toy_input(g, "c"), d[4];
  od_value y = toy(g, "mul", toy(g, "add", toy(g, "mul", a, b), a), a); /* (ab + a) a */
  CHECK_OK(od_gradients(d, g, y, (od_value[]){a, b, c, OD_NONE}, 4));
  CHECK_NEAR(value(d[0], feed), 2 * 3 * 5 + 2 * 3, 0);
  CHECK_NEAR(value(d[1], feed), 9, 0);
  CHECK(!od_has(d[2]) && !od_has(d[3]));
  CHECK(strncmp(d[0].node->name, "gradients/", 10) == 0);
  CHECK_TEXT(od_scope_name(g, "after"), "after"); /* the scope is left */
  CHECK_OK(od_gradients(d, g, y, &y, 1));
  CHECK_NEAR(value(d[0], feed), 1, 0);
  od_graph_free(g);
}

static void several_outputs(void **state) {
  (void)state;
  od_graph *g = graph();
  od_value a = toy_input(g, "a"), t = toy(g, "twice", a, OD_NONE), d;
  CHECK_OK(od_gradients(&d, g, toy(g, "mul", od_out(t, 0), od_out(t, 1)), &a, 1)); /* 2 a a */
  CHECK_NEAR(value(d, feed), 12, 0);
  CHECK_OK(od_gradients(&d, g, od_out(t, 1), &a, 1)); /* output 0 gets nothing */
  CHECK_NEAR(value(d, feed), 2, 0);
  od_value of_output;
  od_value out1 = od_out(t, 1);
  CHECK_OK(
      od_gradients(&of_output, g, toy(g, "mul", out1, out1), &out1, 1)); /* with respect to a value in the middle */
  CHECK_NEAR(value(of_output, feed), 12, 0);
  od_graph_free(g);
}

static void what_stops(void **state) {
  (void)state;
  od_graph *g = graph();
  od_value a = toy_input(g, "a"), b = toy_input(g, "b"), d;
  CHECK_OK(od_gradients(&d, g, toy(g, "add", toy(g, "stop", a, OD_NONE), b), &a, 1));
  CHECK(!od_has(d));
  od_value behind = toy(g, "mul", toy(g, "wall", b, OD_NONE), a);
  CHECK_OK(od_gradients(&d, g, behind, &a, 1)); /* the wall does not stand between y and a */
  CHECK_NEAR(value(d, feed), 5, 0);
  CHECK_FAILS(od_gradients(&d, g, behind, &b, 1), OD_EUNSUPPORTED, "wall: op wall has no gradient: it is a wall");
  CHECK_TEXT(od_scope_name(g, "after"), "after");
  CHECK_OK(od_graph_check(g));
  od_value whole = od_input(g, "whole", OD_I32, OD_SCALAR);
  CHECK_FAILS(od_gradients(&d, g, whole, &a, 1), OD_EINVAL, "whole is int32: only floats have a gradient");
  CHECK_FAILS(od_gradients(&d, g, OD_NONE, &a, 1), OD_EINVAL, "gradient of nothing");
  (void)od_graph_add(g, od_op_find("refuse"), NULL, 0, NULL);
  CHECK_FAILS(od_gradients(&d, g, b, &a, 1), OD_EINVAL, "not liked");
  od_graph_free(g);
}

static char *printed(void) {
  od_graph *g = graph();
  char *text;
  od_value x[3] = {toy_input(g, "a"), toy_input(g, "b"), toy_input(g, "c")}, y = x[0], d[3];
  for (int i = 0; i < 200; i++) y = toy(g, i % 3 ? "add" : "mul", y, x[i % 2 + 1]);
  CHECK_OK(od_gradients(d, g, y, x, 3));
  CHECK_OK(od_graph_print(&text, g));
  od_graph_free(g);
  return text;
}

static void the_same_graph_twice(void **state) {
  (void)state;
  char *one = printed(), *two = printed();
  CHECK_TEXT(one, two);
  od_free(one);
  od_free(two);
}

static od_status differentiate(void) {
  od_graph *g = NULL;
  od_value d, a, many[70];
  od_status st;
  OD_GO(st, od_graph_new(&g));
  a = toy_input(g, "a");
  od_value y = a;
  for (int i = 0; i < 30; i++) y = toy(g, "mul", y, toy(g, "add", a, y));
  for (int i = 0; i < 70; i++) many[i] = y;
  (void)od_graph_add(g, od_op_find("many"), many, 70, NULL);
  st = od_gradients(&d, g, y, &a, 1);
  if (st == OD_OK) st = od_graph_check(g);
done:
  od_graph_free(g);
  return st;
}

static void memory_may_run_out_anywhere(void **state) {
  (void)state;
  size_t before = od_mem_used();
  uint64_t start = od_mem_count();
  CHECK_OK(differentiate());
  uint64_t n = od_mem_count() - start;
  for (uint64_t i = 1; i <= n; i++) {
    od_mem_fail_at(i);
    od_status st = differentiate();
    od_mem_fail_at(0);
    CHECK(st == OD_ENOMEM);
    CHECK(od_mem_used() == before);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_chain_rule),
      cmocka_unit_test(several_outputs),
      cmocka_unit_test(what_stops),
      cmocka_unit_test(the_same_graph_twice),
      cmocka_unit_test(memory_may_run_out_anywhere),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
