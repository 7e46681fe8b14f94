/* Gradients by differences: the directional derivative of L = sum of w*y along random directions against what the gradient
 * nodes say, on the reference engine, whose sums are kept in double. For test_ops.c.
 *
 * A direction touches a few elements of one input, so that a single wrong element shows. A step that crosses a kink (relu,
 * maximum) or drowns in rounding is tried again with two other step lengths; a wrong gradient fails with all three. */
#ifndef OD_TESTS_OP_GRAD_H
#define OD_TESTS_OP_GRAD_H

#include "op_case.h"

/* Values that pass no gradient by decision, though the function depends on them. bit i: input i (outputs: output i). */
typedef struct {
  const char *op;
  unsigned inputs, outputs;
  const char *reason;
} by_design;
static const by_design constants[] = {
    {"batch_norm", 1u << 3 | 1u << 4, 0, "moving statistics are constants"},
    {"fold_batch_norm", 1u << 3 | 1u << 4, 0, "moving statistics are constants"},
    {"batch_norm_train", 0, 1u << 1 | 1u << 2 | 1u << 3, "statistics as such go to moving averages"},
    {"assign_targets", ~0u, 0, "targets are constants for the losses"},
    {"classification_loss", 1u << 1 | 1u << 2, 0, "targets and weights are constants"},
    {"localization_loss", 1u << 1 | 1u << 2, 0, "targets and weights are constants"},
    {"crop_and_resize", 1u << 1, 0, "boxes are constants, as in the original"},
};

static unsigned constant_mask(const char *op, bool outputs) {
  for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
    if (strcmp(constants[i].op, op) == 0) return outputs ? constants[i].outputs : constants[i].inputs;
  return 0;
}

typedef struct {
  od_graph *graph;
  od_value in[INPUTS], y[OUTPUTS], w[OUTPUTS], dx[INPUTS];
  od_tensor weights[OUTPUTS]; /* data NULL: output not in the loss */
} grad_graph;

static void grad_free(grad_graph *q) {
  od_graph_free(q->graph);
  for (int k = 0; k < OUTPUTS; k++) od_tensor_free(&q->weights[k]);
}

/* The node, L = sum over float outputs of sum(w*y), and dL/d(float inputs). unknown: in a graph without sizes. */
static bool grad_build(grad_graph *q, const op_case *c, bool unknown) {
  static const char *const names[OUTPUTS] = {"w0", "w1", "w2",  "w3",  "w4",  "w5",  "w6",  "w7",
                                             "w8", "w9", "w10", "w11", "w12", "w13", "w14", "w15"};
  od_value loss = OD_NONE, wrt[INPUTS];
  memset(q, 0, sizeof *q);
  EXPECT_OK(od_graph_new(&q->graph), "graph");
  od_value v = case_node(q->graph, c, unknown, false, q->in);
  for (int k = 0; k < c->op->n_out; k++) {
    q->y[k] = od_out(v, k);
    if (c->out[k].dtype != OD_F32 || (constant_mask(c->op->name, true) >> k & 1u)) continue;
    EXPECT_OK(od_tensor_new(&q->weights[k], OD_F32, &c->out[k].shape), "weights");
    draw(&q->weights[k], &(od_sample_in){.lo = -1, .hi = 1}, names[k], k, 0);
    q->w[k] = od_input(q->graph, names[k], OD_F32, od_type_of(q->y[k]).shape);
    od_value part = od_reduce_sum(q->graph, od_mul(q->graph, q->y[k], q->w[k]), OD_ALL_AXES, false);
    loss = od_has(loss) ? od_add(q->graph, loss, part) : part;
  }
  for (int i = 0; i < c->sample->n_in; i++) wrt[i] = c->in[i].data && c->in[i].dtype == OD_F32 ? q->in[i] : OD_NONE;
  EXPECT_OK(od_graph_check(q->graph), "loss");
  if (od_has(loss)) EXPECT_OK(od_gradients(q->dx, q->graph, loss, wrt, c->sample->n_in), "gradients");
  return true;
}

/* Gradients on an engine, deep copies. */
static bool grad_run(const grad_graph *q, const op_case *c, od_engine *e, od_tensor *dx) {
  od_value feeds[INPUTS + OUTPUTS];
  od_tensor fed[INPUTS + OUTPUTS];
  int n = case_feeds(c, q->in, false, feeds, fed);
  for (int k = 0; k < c->op->n_out; k++)
    if (od_has(q->w[k])) feeds[n] = q->w[k], fed[n++] = q->weights[k];
  return run_once(e, q->graph, NULL, feeds, fed, n, q->dx, c->sample->n_in, dx);
}

/* L in double from the float outputs; *noise: what rounding of the outputs may add. */
static bool loss_at(od_program *p, const grad_graph *q, const op_case *c, const od_tensor *fed, double *loss, double *noise) {
  od_tensor y[OUTPUTS];
  *loss = *noise = 0;
  EXPECT_OK(od_program_run(p, fed, y), "forward");
  for (int k = 0; k < c->op->n_out; k++) {
    if (!q->weights[k].data) continue;
    for (int64_t i = 0, n = od_tensor_size(&y[k]); i < n; i++) {
      double part = number(&y[k], i) * number(&q->weights[k], i);
      *loss += part;
      *noise += part * part;
    }
  }
  *noise = 1.2e-7 * sqrt(*noise);
  return true;
}

enum { DIRECTIONS = 6, TOUCHED = 12 };

/* One direction of input `at`: derivative by differences against dx (NULL: must be zero). */
static bool direction(od_program *p, const grad_graph *q, const op_case *c, od_tensor *fed, od_tensor *x, const od_tensor *dx,
                      int input, int round) {
  static const double steps[] = {1e-2, 1e-3, 1e-4};
  const od_sample_in *in = &c->sample->in[input];
  double range = fmax(fabs(in->lo), fabs(in->hi)), tried[3][3] = {{0}};
  int64_t n = od_tensor_size(x), where[TOUCHED];
  float before[TOUCHED];
  int touched = n < TOUCHED ? (int)n : TOUCHED;
  od_key key = od_key_mix(od_key_name(0x64697265u, c->sample->name), (uint64_t)(input * 1000 + round));
  bool drowned = false;
  if (range > 2) range = 2; /* curvature does not stretch with the range */
  for (int k = 0; k < touched; k++) where[k] = n <= TOUCHED ? k : (int64_t)od_rng_below(key, (uint64_t)k, (uint64_t)n);
  for (int s = 0; s < 3; s++) {
    double h = steps[s] * (range > 0 ? range : 1), loss[2], noise, expected = 0, size = 0, moved[TOUCHED] = {0};
    for (int k = 0; k < touched; k++) before[k] = ((float *)x->data)[where[k]];
    for (int side = 0; side < 2; side++) {
      for (int k = 0; k < touched; k++) {
        double sign = (od_rng_u64(key, 100 + (uint64_t)k) & 1 ? 1 : -1) * (side ? -1 : 1);
        ((float *)x->data)[where[k]] = (float)(before[k] + sign * h);
      }
      /* an element named twice moves once; the difference is what float32 made of the step */
      for (int k = 0; k < touched; k++) moved[k] += (side ? -1 : 1) * (double)((float *)x->data)[where[k]];
      bool ok = loss_at(p, q, c, fed, &loss[side], &noise);
      for (int k = 0; k < touched; k++) ((float *)x->data)[where[k]] = before[k];
      if (!ok) return false;
    }
    for (int k = 0; k < touched; k++) {
      bool twin = false;
      for (int j = 0; j < k; j++) twin = twin || where[j] == where[k];
      double part = dx && !twin ? moved[k] * number(dx, where[k]) : 0;
      expected += part;
      size += part * part;
    }
    size = sqrt(size);
    double slack = 3 * noise;
    if (s == 0) drowned = slack > 0.05 * size; /* the derivative is smaller than what rounding makes of it */
    if (!drowned && slack > 0.3 * size) slack = 0.3 * size;
    double got = loss[0] - loss[1];
    tried[s][0] = got / (2 * h);
    tried[s][1] = expected / (2 * h);
    tried[s][2] = (2e-3 * size + slack) / (2 * h);
    if (fabs(got - expected) <= 2e-3 * size + slack) return true;
  }
  EXPECT(false, "gradient for input %d, direction %d: differences say %.6g %.6g %.6g, the gradient %.6g %.6g %.6g, allowed %.2g %.2g %.2g%s",
         input, round, tried[0][0], tried[1][0], tried[2][0], tried[0][1], tried[1][1], tried[2][1], tried[0][2], tried[1][2],
         tried[2][2], dx ? "" : " (no gradient node was made)");
}

static bool check_input(const grad_graph *q, op_case *c, od_program *p, od_tensor *fed, int input, const od_tensor *dx) {
  char a[OD_SHAPE_TEXT], b[OD_SHAPE_TEXT];
  EXPECT(!dx || od_shape_equal(&dx->shape, &c->in[input].shape), "gradient of input %d has shape %s, the input %s", input,
         od_shape_text(a, &dx->shape), od_shape_text(b, &c->in[input].shape));
  if (od_tensor_size(&c->in[input]) == 0) return true;
  for (int round = 0; round < DIRECTIONS; round++)
    if (!direction(p, q, c, fed, &c->in[input], dx, input, round)) return false;
  return true;
}

/* All inputs with the values they have now. */
static bool check_inputs(const grad_graph *q, op_case *c, od_program *p, od_tensor *fed, od_engine *ref) {
  od_tensor dx[INPUTS] = {{0}};
  bool ok = grad_run(q, c, ref, dx);
  for (int i = 0; i < c->sample->n_in && ok; i++) {
    bool constant = constant_mask(c->op->name, false) >> i & 1u;
    if (!c->in[i].data || c->in[i].dtype != OD_F32) continue;
    if (constant && od_has(q->dx[i])) {
      snprintf(why, sizeof why, "input %d has a gradient though it is said to be a constant", i);
      ok = false;
    } else if (!constant) {
      ok = check_input(q, c, p, fed, i, od_has(q->dx[i]) ? &dx[i] : NULL);
    }
  }
  for (int i = 0; i < INPUTS; i++) od_tensor_free(&dx[i]);
  return ok;
}

/* By differences, on the reference engine. Where a draw happens to lie on a kink, two more draws may show that it did. */
static bool check_gradient(op_case *c, od_engine *ref) {
  grad_graph q;
  od_value feeds[INPUTS];
  od_tensor fed[INPUTS];
  od_program *p = NULL;
  bool ok = grad_build(&q, c, false);
  int n = case_feeds(c, q.in, false, feeds, fed);
  od_program_spec spec = {.graph = q.graph, .feeds = feeds, .n_feeds = n, .fetches = q.y, .n_fetches = c->op->n_out};
  if (ok && od_program_new(&p, ref, &spec) != OD_OK) {
    snprintf(why, sizeof why, "forward program: %s", od_message());
    ok = false;
  }
  if (p) {
    ok = false;
    for (uint64_t round = 0; round < 3 && !ok; round++) {
      for (int i = 0; i < c->sample->n_in && round; i++)
        if (c->in[i].data) draw(&c->in[i], &c->sample->in[i], c->sample->name, i, 50 + round);
      ok = check_inputs(&q, c, p, fed, ref);
    }
    for (int i = 0; i < c->sample->n_in; i++)
      if (c->in[i].data) draw(&c->in[i], &c->sample->in[i], c->sample->name, i, 0);
  }
  od_program_free(p);
  grad_free(&q);
  return ok;
}

/* The gradients of an engine, in a graph that knows no sizes, against the reference's in one that does. */
static bool compare_gradient(const op_case *c, od_engine *ref, od_engine *other) {
  grad_graph q, loose;
  od_tensor want[INPUTS] = {{0}}, got[INPUTS] = {{0}};
  memset(&loose, 0, sizeof loose);
  bool ok = grad_build(&q, c, false) && grad_run(&q, c, ref, want) && grad_build(&loose, c, true) && grad_run(&loose, c, other, got);
  for (int i = 0; i < c->sample->n_in && ok; i++)
    if (od_has(q.dx[i])) ok = compare(&got[i], &want[i], fmax(1e-5, 4 * c->op->tolerance), "gradient on the engine");
  for (int i = 0; i < INPUTS; i++) od_tensor_free(&want[i]), od_tensor_free(&got[i]);
  grad_free(&q);
  grad_free(&loose);
  return ok;
}

#endif
