/* What general and neural-network ops refuse while a graph is built or run, and that the message names the numbers. */
#include <math.h>

#include "graph/graph.h"
#include "od_test.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "ops/optim.h"

static od_graph *g;

static int setup(void **state) {
  (void)state;
  return od_graph_new(&g) != OD_OK;
}
static int teardown(void **state) {
  (void)state;
  od_graph_free(g);
  return 0;
}

/* A float input of this shape under a name of its own. */
static od_value f32(od_shape shape) {
  static int serial;
  char name[32];
  snprintf(name, sizeof name, "x%d", serial++);
  return od_input(g, name, OD_F32, shape);
}
static od_value i32(od_shape shape) {
  static int serial;
  char name[32];
  snprintf(name, sizeof name, "i%d", serial++);
  return od_input(g, name, OD_I32, shape);
}

#define REFUSES(text) CHECK_FAILS(od_graph_check(g), OD_EINVAL, text)

static void channels(void **state) {
  (void)state;
  od_conv2d(g, f32(OD_SHAPE(-1, -1, -1, 16)), f32(OD_SHAPE(3, 3, 24, 8)), &OD_CONV(1, OD_PAD_SAME));
  REFUSES("16 channels ([?,?,?,16]), the filter is for 24 ([3,3,24,8])");
}

static void conv_parameters(void **state) {
  (void)state;
  od_conv_params p = OD_CONV(1, OD_PAD_SAME);
  p.pad_top = 1;
  od_conv2d(g, f32(OD_SHAPE(1, 8, 8, 4)), f32(OD_SHAPE(3, 3, 4, 8)), &p);
  REFUSES("padding SAME");
}

static void conv_stride(void **state) {
  (void)state;
  od_conv2d(g, f32(OD_SHAPE(1, 8, 8, 4)), f32(OD_SHAPE(3, 3, 4, 8)), &(od_conv_params){.dilation_h = 1, .dilation_w = 1});
  REFUSES("stride_h is 0");
}

static void batch_norm_size(void **state) {
  (void)state;
  od_batch_norm_train(g, f32(OD_SHAPE(-1, -1, -1, 16)), f32(OD_SHAPE(8)), OD_NONE, 1e-3f);
  REFUSES("[8], dimension 0 must be 16");
}

static void broadcasting(void **state) {
  (void)state;
  od_add(g, f32(OD_SHAPE(2, 3)), f32(OD_SHAPE(4)));
  REFUSES("shapes [2,3] and [4] do not broadcast");
}

static void mixed_types(void **state) {
  (void)state;
  od_mul(g, f32(OD_SHAPE(3)), i32(OD_SHAPE(3)));
  REFUSES("input 1 is int32, it must be float32");
}

static void integer_division(void **state) {
  (void)state;
  od_div(g, i32(OD_SHAPE(3)), i32(OD_SHAPE(3)));
  REFUSES("it must be float32");
}

static void reshape_size(void **state) {
  (void)state;
  od_reshape(g, f32(OD_SHAPE(2, 15)), OD_AXES(4, -1));
  REFUSES("30 elements are not a multiple of 4");
}

static void reshape_all_given(void **state) {
  (void)state;
  od_reshape(g, f32(OD_SHAPE(2, 15)), OD_AXES(7, 5));
  REFUSES("30 elements, the new shape has 35");
}

static void concat_sizes(void **state) {
  (void)state;
  od_concat(g, (od_value[]){f32(OD_SHAPE(2, 3)), f32(OD_SHAPE(2, 4))}, 2, 0);
  REFUSES("input 1, beside axis 0");
}

static void axis_range(void **state) {
  (void)state;
  od_reduce_sum(g, f32(OD_SHAPE(2, 3)), OD_AXES(2), false);
  REFUSES("no axis 2 in 2 dimensions");
}

static void axis_twice(void **state) {
  (void)state;
  od_reduce_mean(g, f32(OD_SHAPE(2, 3)), OD_AXES(1, -1), false);
  REFUSES("axis 1 is named twice");
}

static void slice_range(void **state) {
  (void)state;
  od_slice(g, f32(OD_SHAPE(2, 3)), OD_AXES(0, 2), OD_AXES(2, 2));
  REFUSES("axis 1: 2 elements from 2 do not lie in [2,3]");
}

static void squeeze_size(void **state) {
  (void)state;
  od_squeeze(g, f32(OD_SHAPE(2, 3)), OD_AXES(1));
  REFUSES("axis 1 has size 3, not 1");
}

static void inner_dimension(void **state) {
  (void)state;
  od_matmul(g, f32(OD_SHAPE(2, 3)), f32(OD_SHAPE(4, 5)), false, false);
  REFUSES("dimensions 3 and 4 must be equal");
}

static void slot_shape(void **state) {
  (void)state;
  od_momentum(g, f32(OD_SHAPE(4)), f32(OD_SHAPE(5)), f32(OD_SHAPE(4)), f32(OD_SCALAR), &(od_momentum_params){0.9f, false});
  REFUSES("input 1: shapes [4] and [5] must be equal");
}

static void keep_probability(void **state) {
  (void)state;
  od_dropout(g, f32(OD_SHAPE(4)), 1.5f);
  REFUSES("keep_prob is 1.5");
}

/* The first failure stays, later builders pass it through. */
static void first_failure_stays(void **state) {
  (void)state;
  od_value v = od_add(g, f32(OD_SHAPE(2)), f32(OD_SHAPE(3)));
  CHECK(!od_has(v));
  CHECK(!od_has(od_relu(g, v)));
  od_squeeze(g, v, OD_AXES(7));
  REFUSES("[2] and [3]");
}

/* Calls the reference of a node on data, as an engine would. */
static od_status call(od_value v, od_tensor *in, int n_in, od_tensor *out) {
  return v.node->op->ref(&(od_call){v.node->params, n_in, 1, in, out, NULL, 0});
}

static void gather_range(void **state) {
  (void)state;
  float rows[6] = {0}, to[2];
  int32_t index = 3;
  od_value v = od_gather(g, f32(OD_SHAPE(3, 2)), i32(OD_SHAPE(1)));
  CHECK_OK(od_graph_check(g));
  od_tensor in[2] = {{OD_F32, OD_SHAPE(3, 2), rows}, {OD_I32, OD_SHAPE(1), &index}}, out = {OD_F32, OD_SHAPE(1, 2), to};
  CHECK_FAILS(call(v, in, 2, &out), OD_EDATA, "index 3 at place 0: there are 3 rows");
}

/* NaN must reach the trainer through every activation and through clipping. */
static void nan_passes(void **state) {
  (void)state;
  float x[2] = {NAN, 1}, y[2];
  od_value in = f32(OD_SHAPE(2)), all[] = {od_relu(g, in), od_relu6(g, in), od_elu(g, in), od_sigmoid(g, in), od_tanh(g, in),
                                           od_clip_by_norm(g, in, 1), od_maximum(g, in, in), od_minimum(g, in, in)};
  CHECK_OK(od_graph_check(g));
  od_tensor feed[2] = {{OD_F32, OD_SHAPE(2), x}, {OD_F32, OD_SHAPE(2), x}}, out = {OD_F32, OD_SHAPE(2), y};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    CHECK_OK(call(all[i], feed, all[i].node->n_in, &out));
    if (y[0] == y[0]) fail_msg("%s gives %g for NaN", all[i].node->op->name, (double)y[0]);
  }
}

/* Sizes with explicit geometry, which engines use too. */
static void geometry(void **state) {
  (void)state;
  od_conv_params same2 = OD_CONV(2, OD_PAD_SAME), valid2 = OD_CONV(2, OD_PAD_VALID);
  od_conv_geometry a = od_conv_resolve(&same2, 300, 7, 3, 3), b = od_conv_resolve(&valid2, 2, 9, 3, 3);
  CHECK(a.out_h == 150 && a.pad_top == 0 && a.pad_bottom == 1);
  CHECK(a.out_w == 4 && a.pad_left == 1 && a.pad_right == 1);
  CHECK(b.out_h == 0 && b.out_w == 4 && b.pad_left == 0 && b.pad_right == 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void) {
  const struct CMUnitTest tests[] = {
      T(channels), T(conv_parameters), T(conv_stride), T(batch_norm_size), T(broadcasting), T(mixed_types), T(integer_division),
      T(reshape_size), T(reshape_all_given), T(concat_sizes), T(axis_range), T(axis_twice), T(slice_range), T(squeeze_size),
      T(inner_dimension), T(slot_shape), T(keep_probability), T(first_failure_stays), T(gather_range), T(nan_passes), T(geometry),
  };
  return cmocka_run_group_tests_name("what ops refuse", tests, NULL, NULL);
}
