/* One sample of one op as test data: inputs drawn from the sample's ranges, the graph of that single node, and the op's
 * reference called directly with guard bytes round everything it may write. For test_ops.c. */
#ifndef OD_TESTS_OP_CASE_H
#define OD_TESTS_OP_CASE_H

#include <math.h>

#include "base/rng.h"
#include "engine/denormals.h"
#include "engine/program.h"
#include "graph/autodiff.h"
#include "graph/graph.h"
#include "od_test.h"
#include "ops/math.h"

enum { INPUTS = OD_SAMPLE_IN, OUTPUTS = 16, GUARD = 64 };

/* What went wrong, and the way out: a check that fails writes here and returns false. */
static char why[8192];
#define EXPECT(cond, ...)                                                                                             \
  do {                                                                                                                \
    if (!(cond)) {                                                                                                    \
      snprintf(why, sizeof why, __VA_ARGS__);                                                                         \
      return false;                                                                                                   \
    }                                                                                                                 \
  } while (0)
#define EXPECT_OK(expr, what)                                                                                         \
  do {                                                                                                                \
    if ((expr) != OD_OK) {                                                                                            \
      snprintf(why, sizeof why, "%s: %s\n%s", what, od_message(), od_trail());                                        \
      return false;                                                                                                   \
    }                                                                                                                 \
  } while (0)

typedef struct {
  const od_op *op;
  const od_sample *sample;
  od_tensor in[INPUTS]; /* data NULL where absent */
  od_type out[OUTPUTS]; /* concrete types */
} op_case;

static inline od_tensor guarded(const od_type *type, int fill) {
  od_tensor t = {type->dtype, type->shape, NULL};
  size_t bytes = od_tensor_bytes(&t);
  char *block = od_alloc(bytes + 2 * GUARD);
  if (!block) return t;
  memset(block, 0xC3, bytes + 2 * GUARD);
  memset(block + GUARD, fill, bytes);
  t.data = block + GUARD;
  return t;
}

static inline void free_guarded(od_tensor *t) {
  if (t->data) od_free((char *)t->data - GUARD);
  t->data = NULL;
}

static inline bool guards_stand(const od_tensor *t) {
  const unsigned char *p = t->data;
  size_t bytes = od_tensor_bytes(t);
  for (int i = 1; i <= GUARD; i++)
    if (p[-i] != 0xC3) return false;
  for (size_t i = 0; i < GUARD; i++)
    if (p[bytes + i] != 0xC3) return false;
  return true;
}

/* Fills a tensor from the sample's range; round: another draw for another round. */
static inline void draw(od_tensor *t, const od_sample_in *in, const char *name, int index, uint64_t round) {
  od_key key = od_key_mix(od_key_mix(od_key_name(0x6f7073u, name), (uint64_t)index), round);
  for (int64_t i = 0, n = od_tensor_size(t); i < n; i++) {
    double u = od_rng_f64(key, (uint64_t)i), v = in->lo + u * (in->hi - in->lo);
    double whole = in->lo + floor(u * (in->hi - in->lo + 1));
    switch (t->dtype) {
      case OD_F32: ((float *)t->data)[i] = (float)v; break;
      case OD_BF16: ((uint16_t *)t->data)[i] = od_f32_to_bf16((float)v); break;
      case OD_U8: ((uint8_t *)t->data)[i] = (uint8_t)whole; break;
      case OD_I32: ((int32_t *)t->data)[i] = (int32_t)whole; break;
      case OD_I64: ((int64_t *)t->data)[i] = (int64_t)whole; break;
      default: break;
    }
  }
}

static inline void case_free(op_case *c) {
  for (int i = 0; i < INPUTS; i++) free_guarded(&c->in[i]);
}

static inline bool case_make(op_case *c, const od_op *op, const od_sample *s) {
  *c = (op_case){.op = op, .sample = s};
  for (int i = 0; i < s->n_in; i++) {
    if (s->in[i].absent) continue;
    c->in[i] = guarded(&(od_type){s->in[i].dtype, s->in[i].shape}, 0);
    EXPECT(c->in[i].data, "no memory for input %d", i);
    draw(&c->in[i], &s->in[i], s->name, i, 0);
  }
  return true;
}

/* Adds the case's node: input i is an od_input named in<i>, of unknown dimensions where `unknown` says so; or, with
 * `variables`, every float input but the first is a variable of that name. values: the inputs. Returns output 0. */
static inline od_value case_node(od_graph *g, const op_case *c, bool unknown, bool variables, od_value *values) {
  static const char *const names[INPUTS] = {"in0", "in1", "in2", "in3", "in4", "in5", "in6", "in7"};
  for (int i = 0; i < c->sample->n_in; i++) {
    const od_sample_in *in = &c->sample->in[i];
    values[i] = OD_NONE;
    if (in->absent) continue;
    od_shape shape = in->shape;
    for (int d = 0; unknown && d < shape.rank; d++)
      if (shape.dim[d] != 1) shape.dim[d] = -1; /* a size that broadcasts is known to whoever builds the graph */
    if (variables && i > 0 && in->dtype == OD_F32)
      values[i] = od_variable_new(g, names[i], OD_F32, in->shape, (od_init){.kind = OD_INIT_CONSTANT}, true);
    else
      values[i] = od_input(g, names[i], in->dtype, shape);
  }
  return od_graph_add_named(g, "node", c->op, values, c->sample->n_in, c->sample->params);
}

/* Concrete output types, from a graph with known sizes; a graph with none must agree with it as far as it knows. */
static inline bool case_infer(op_case *c) {
  od_type loose[OUTPUTS];
  for (int unknown = 0; unknown < 2; unknown++) {
    od_graph *g;
    od_value in[INPUTS];
    EXPECT_OK(od_graph_new(&g), "graph");
    od_value v = case_node(g, c, unknown, false, in);
    od_status st = od_graph_check(g);
    for (int k = 0; k < c->op->n_out && st == OD_OK; k++) (unknown ? loose : c->out)[k] = od_type_of(od_out(v, k));
    od_graph_free(g);
    EXPECT(st == OD_OK, "shape inference %s: %s", unknown ? "with unknown dimensions" : "with known dimensions", od_message());
  }
  for (int k = 0; k < c->op->n_out; k++) {
    char a[OD_SHAPE_TEXT], b[OD_SHAPE_TEXT];
    EXPECT(od_shape_known(&c->out[k].shape), "output %d: shape %s is not known though every input's is", k,
           od_shape_text(a, &c->out[k].shape));
    bool fits = loose[k].dtype == c->out[k].dtype && loose[k].shape.rank == c->out[k].shape.rank;
    for (int d = 0; fits && d < loose[k].shape.rank; d++)
      fits = loose[k].shape.dim[d] < 0 || loose[k].shape.dim[d] == c->out[k].shape.dim[d];
    EXPECT(fits, "output %d: inference from unknown dimensions says %s %s, the shape is %s %s", k, od_dtype_name(loose[k].dtype),
           od_shape_text(a, &loose[k].shape), od_dtype_name(c->out[k].dtype), od_shape_text(b, &c->out[k].shape));
  }
  return true;
}

/* Calls the reference directly. out: tensors to be freed with free_guarded; fill: what memory holds beforehand. */
static inline bool case_reference(const op_case *c, od_tensor *out, int fill) {
  od_type types[INPUTS];
  bool present[INPUTS];
  od_tensor in[INPUTS];
  for (int i = 0; i < c->sample->n_in; i++) {
    present[i] = c->in[i].data != NULL;
    types[i] = present[i] ? (od_type){c->in[i].dtype, c->in[i].shape} : (od_type){OD_F32, {-1, {0}}};
    in[i] = c->in[i];
  }
  od_infer infer = {NULL, c->sample->params, c->sample->n_in, c->op->n_out, types, present, (od_type *)(uintptr_t)c->out};
  size_t bytes = c->op->scratch ? c->op->scratch(&infer) : 0;
  od_tensor scratch = guarded(&(od_type){OD_U8, OD_SHAPE((int64_t)bytes)}, fill);
  for (int k = 0; k < c->op->n_out; k++) out[k] = guarded(&c->out[k], fill);
  od_call call = {c->sample->params, c->sample->n_in, c->op->n_out, in, out, scratch.data, od_key_mix(od_key_name(0, "node"), 0)};
  const uint64_t before = od_denormals_flush(); /* as in an engine */
  od_status st = c->op->ref(&call);
  od_denormals_keep(before);
  bool scratch_stands = guards_stand(&scratch);
  free_guarded(&scratch);
  EXPECT(st == OD_OK, "reference: %s", od_message());
  EXPECT(scratch_stands, "the reference writes outside its scratch of %zu bytes", bytes);
  for (int k = 0; k < c->op->n_out; k++) EXPECT(guards_stand(&out[k]), "the reference writes outside output %d", k);
  for (int i = 0; i < c->sample->n_in; i++)
    EXPECT(!c->in[i].data || guards_stand(&c->in[i]), "the reference writes round input %d", i);
  return true;
}

/* Element as a number; NaN of any kind is NaN. */
static inline double number(const od_tensor *t, int64_t i) {
  switch (t->dtype) {
    case OD_F32: return (double)((const float *)t->data)[i];
    case OD_BF16: return (double)od_bf16_to_f32(((const uint16_t *)t->data)[i]);
    case OD_U8: return (double)((const uint8_t *)t->data)[i];
    case OD_I32: return (double)((const int32_t *)t->data)[i];
    case OD_I64: return (double)((const int64_t *)t->data)[i];
    default: return NAN;
  }
}

static inline double root_mean_square(const od_tensor *t) {
  double sum = 0;
  int64_t n = od_tensor_size(t);
  for (int64_t i = 0; i < n; i++) sum += number(t, i) * number(t, i);
  return n > 0 ? sqrt(sum / (double)n) : 0;
}

static inline bool same_bits(const od_tensor *a, const od_tensor *b) {
  return od_shape_equal(&a->shape, &b->shape) && a->dtype == b->dtype &&
         (od_tensor_bytes(a) == 0 || memcmp(a->data, b->data, od_tensor_bytes(a)) == 0);
}

/* Every element of `got` within tolerance times want's root mean square; tolerance 0: equal numbers. */
static inline bool compare(const od_tensor *got, const od_tensor *want, double tolerance, const char *what) {
  char a[OD_SHAPE_TEXT], b[OD_SHAPE_TEXT];
  EXPECT(got->data && got->dtype == want->dtype && od_shape_equal(&got->shape, &want->shape), "%s: %s %s instead of %s %s", what,
         od_dtype_name(got->dtype), od_shape_text(a, &got->shape), od_dtype_name(want->dtype), od_shape_text(b, &want->shape));
  double limit = tolerance * root_mean_square(want), worst = -1;
  int64_t at = 0;
  for (int64_t i = 0, n = od_tensor_size(want); i < n; i++) {
    double x = number(got, i), y = number(want, i), d = fabs(x - y);
    if (x == y || (isnan(x) && isnan(y))) continue;
    if (!(d <= worst)) worst = isnan(d) ? INFINITY : d, at = i;
  }
  EXPECT(worst <= limit, "%s: element %lld is %.9g, expected %.9g: off by %.3g, allowed %.3g", what, (long long)at,
         number(got, at), number(want, at), worst, limit);
  return true;
}

/* A program of fetches over the graph, run once on the engine; the fetched tensors are deep copies. */
static inline bool run_once(od_engine *e, const od_graph *g, od_state *state, const od_value *feeds, const od_tensor *fed, int n_feeds,
                     const od_value *fetches, int n_fetches, od_tensor *copies) {
  od_program *p;
  od_tensor got[OUTPUTS + INPUTS];
  od_program_spec spec = {.graph = g, .state = state, .feeds = feeds, .n_feeds = n_feeds, .fetches = fetches, .n_fetches = n_fetches};
  EXPECT_OK(od_program_new(&p, e, &spec), "program");
  od_status st = od_program_run(p, fed, got);
  for (int k = 0; k < n_fetches && st == OD_OK; k++)
    if (od_has(fetches[k])) st = od_tensor_copy(&copies[k], &got[k]);
  od_program_free(p);
  EXPECT(st == OD_OK, "run: %s\n%s", od_message(), od_trail());
  return true;
}

/* The present inputs as feeds. */
static inline int case_feeds(const op_case *c, const od_value *values, bool variables, od_value *feeds, od_tensor *fed) {
  int n = 0;
  for (int i = 0; i < c->sample->n_in; i++) {
    if (!c->in[i].data || (variables && i > 0 && c->in[i].dtype == OD_F32)) continue;
    feeds[n] = values[i];
    fed[n++] = c->in[i];
  }
  return n;
}

#endif
