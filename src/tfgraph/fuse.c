/* What a convolution of a constant filter computes along with itself: the bias, frozen batch norm and activation behind it, where
 * nobody else reads what lies between. Batch norm goes into filter and bias; that moves results by rounding only (w * g * r is
 * rounded once where (x - mean) * g * r + beta is rounded three times). The nodes that follow stay in the running order and hand
 * their input on. */
#include <string.h>

#include "tfgraph/kernel.h"

static bool is(const tg_node *n, const char *op) { return strcmp(n->op, op) == 0; }

/* The constant that an edge reads, perhaps through Identity (".../read"); NULL when there is none. */
static tg_node *constant_behind(const tg_edge *e) {
  while (is(e->node, "Identity") && !e->node->fed && e->node->n_in == 1) e = &e->node->in[0];
  tg_node *n = e->node;
  return n->is_const && !n->fed && n->n_in == 0 && e->out == 0 ? n : NULL;
}

static bool plain_layout(const tg_node *n) {
  return !tg_attr_find(n, "data_format") || tg_attr_is(n, "data_format", "NHWC");
}

/* Nobody reads another output than the first. */
static bool first_output_only(const tg_node *n) {
  for (int i = 1; i < n->n_out; i++)
    if (n->total_uses[i]) return false;
  return true;
}

/* The node that alone reads n's only output of interest, as its input 0, whenever n runs; else NULL. */
static tg_node *follower(const tg_node *n) {
  tg_node *r = n->reader;
  if (!first_output_only(n)) return NULL;
  if (!r || n->total_uses[0] != 1 || r->fed || r->frame != n->frame || r->n_in != r->n_data || r->in[0].node != n)
    return NULL;
  return plain_layout(r) ? r : NULL;
}

static bool constants_from(const tg_node *n, int first) {
  for (int i = first; i < n->n_data; i++)
    if (!constant_behind(&n->in[i])) return false;
  return true;
}

static void follow(tg_node *n) {
  for (tg_node *at = n, *next; (next = follower(at)) != NULL; at = next) {
    if (is(next, "BiasAdd") && !n->bias && !n->norm && constants_from(next, 1))
      n->bias = next;
    else if (strncmp(next->op, "FusedBatchNorm", 14) == 0 && !n->norm && !tg_attr_bool(next, "is_training", true) &&
             first_output_only(next) && constants_from(next, 1))
      n->norm = next;
    else if (is(next, "Relu") || is(next, "Relu6"))
      n->act = is(next, "Relu") ? OD_ACT_RELU : OD_ACT_RELU6;
    else
      return;
    next->passes = true;
    if (n->act != OD_ACT_NONE) return;
  }
}

void tg_fuse(od_tfgraph *g) {
  tg_plan *p = &g->plan;
  for (size_t i = 0; i < p->n_nodes; i++) {
    tg_node *n = p->nodes[i];
    n->reader = n->filter = n->bias = n->norm = NULL;
    n->act = OD_ACT_NONE;
    n->passes = false;
  }
  for (size_t i = 0; i < p->n_nodes; i++) {
    tg_node *n = p->nodes[i];
    for (int k = 0; k < n->n_data && !n->fed; k++)
      if (n->in[k].out == 0) n->in[k].node->reader = n;
  }
  for (size_t i = 0; i < p->n_nodes; i++) {
    tg_node *n = p->nodes[i];
    if (n->fed || n->kernel->run != tg_convolution) continue;
    n->filter = constant_behind(&n->in[1]);
    if (n->filter && plain_layout(n)) follow(n);
  }
}
