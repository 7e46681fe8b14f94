/* matmul: C = A B with either transposed. Gradients are products again: for C = A B, dA = dC B', dB = A' dC, and so on for the
 * transposed forms. */
#include <string.h>

#include "ops/common.h"
#include "ops/math.h"
#include "ops/table.h"

static const od_param params[] = {OD_PARAM(od_matmul_params, transpose_a, OD_P_BOOL, "a is [k,m]"),
                                  OD_PARAM(od_matmul_params, transpose_b, OD_P_BOOL, "b is [n,k]"), {0}};

od_value od_matmul(od_graph *g, od_value a, od_value b, bool transpose_a, bool transpose_b) {
  return od_graph_add(g, &od_op_matmul, (od_value[]){a, b}, 2, &(od_matmul_params){transpose_a, transpose_b});
}

static od_status infer(const od_infer *c) {
  const od_matmul_params *p = c->params;
  OD_TRY(od_want(c, 0, OD_F32, 2));
  OD_TRY(od_want(c, 1, OD_F32, 2));
  const int64_t *a = c->in[0].shape.dim, *b = c->in[1].shape.dim;
  int64_t k;
  OD_TRY(od_fail_context(od_merge_dim(c, &k, a[!p->transpose_a], b[p->transpose_b]), "inner dimension of the product"));
  c->out[0] = (od_type){OD_F32, {2, {a[p->transpose_a], b[!p->transpose_b]}}};
  return OD_OK;
}

static size_t scratch(const od_infer *c) { return sizeof(double) * (size_t)c->out[0].shape.dim[1]; }

static od_status forward(const od_call *c) {
  const od_matmul_params *p = c->params;
  const float *a = c->in[0].data, *b = c->in[1].data;
  float *y = c->out[0].data;
  int64_t m = c->out[0].shape.dim[0], n = c->out[0].shape.dim[1], k = c->in[0].shape.dim[!p->transpose_a];
  double *row = c->scratch;
  for (int64_t i = 0; i < m; i++) {
    memset(row, 0, sizeof *row * (size_t)n);
    for (int64_t l = 0; l < k; l++) {
      double v = p->transpose_a ? a[l * m + i] : a[i * k + l];
      for (int64_t j = 0; j < n; j++) row[j] += v * (p->transpose_b ? b[j * k + l] : b[l * n + j]);
    }
    for (int64_t j = 0; j < n; j++) *y++ = (float)row[j];
  }
  return OD_OK;
}

static od_status gradient(od_grad *c) {
  const od_matmul_params *p = c->node->params;
  od_value a = c->node->in[0], b = c->node->in[1], d = c->dout[0];
  bool ta = p->transpose_a, tb = p->transpose_b;
  if (c->need[0]) c->din[0] = ta ? od_matmul(c->graph, b, d, tb, true) : od_matmul(c->graph, d, b, false, !tb);
  if (c->need[1]) c->din[1] = tb ? od_matmul(c->graph, d, a, true, ta) : od_matmul(c->graph, a, d, !ta, false);
  return OD_OK;
}

static od_status write(od_tf *t, const od_node *n) {
  const od_matmul_params *p = n->params;
  OD_TRY(od_tf_same(t, n, "MatMul"));
  od_tf_attr_bool(t, "transpose_a", p->transpose_a);
  od_tf_attr_bool(t, "transpose_b", p->transpose_b);
  return OD_OK;
}

static const od_matmul_params nn = {false, false}, tn = {true, false}, nt = {false, true}, tt = {true, true};
static const od_sample samples[] = {
    {.name = "plain", .params = &nn, .n_in = 2, .in = {OD_F32_IN(-1, 1, 9, 33), OD_F32_IN(-1, 1, 33, 21)}},
    {.name = "a transposed", .params = &tn, .n_in = 2, .in = {OD_F32_IN(-1, 1, 33, 9), OD_F32_IN(-1, 1, 33, 21)}},
    {.name = "b transposed", .params = &nt, .n_in = 2, .in = {OD_F32_IN(-1, 1, 9, 33), OD_F32_IN(-1, 1, 21, 33)}},
    {.name = "both", .params = &tt, .n_in = 2, .in = {OD_F32_IN(-1, 1, 33, 9), OD_F32_IN(-1, 1, 21, 33)}},
    {.name = "one row", .params = &nn, .n_in = 2, .in = {OD_F32_IN(-1, 1, 1, 64), OD_F32_IN(-1, 1, 64, 38)}},
    {.name = "no rows", .params = &nn, .n_in = 2, .in = {OD_F32_IN(-1, 1, 0, 4), OD_F32_IN(-1, 1, 4, 3)}, .few = true},
    {.name = "no inner dimension", .params = &nn, .n_in = 2, .in = {OD_F32_IN(-1, 1, 2, 0), OD_F32_IN(-1, 1, 0, 3)}, .few = true},
};

const od_op od_op_matmul = {
    .name = "matmul", .help = "matrix product", .params = params, .params_size = sizeof(od_matmul_params), .min_in = 2,
    .max_in = 2, .n_out = 1, .flags = OD_OP_BF16, .infer = infer, .ref = forward, .scratch = scratch, .grad = gradient,
    .write_tf = write, OD_SAMPLES(samples), .tolerance = 1e-5,
};
