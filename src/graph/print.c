/* The graph as text: one line a node. */
#include "base/str.h"
#include "graph/graph.h"
#include "graph/params.h"

static void add_value(od_str *s, od_value v) {
  if (!od_has(v))
    od_str_add(s, "-");
  else if (v.out)
    od_str_addf(s, "%s:%d", v.node->name, v.out);
  else
    od_str_add(s, v.node->name);
}

od_status od_graph_print(char **out, const od_graph *g) {
  od_str s = OD_STR_INIT;
  char shape[OD_SHAPE_TEXT];
  for (size_t i = 0; i < od_graph_size(g); i++) {
    const od_node *n = od_graph_node(g, i);
    od_str_addf(&s, "%s = %s(", n->name, n->op->name);
    for (int k = 0; k < n->n_in; k++) {
      if (k) od_str_add(&s, ", ");
      add_value(&s, n->in[k]);
    }
    od_str_add(&s, ") {");
    od_params_text(&s, n->op, n->params);
    od_str_add(&s, "} ->");
    for (int k = 0; k < n->op->n_out; k++)
      od_str_addf(&s, " %s%s", od_dtype_name(n->out[k].dtype), od_shape_text(shape, &n->out[k].shape));
    od_str_add(&s, "\n");
  }
  od_status st = od_str_check(&s);
  if (st == OD_OK)
    *out = od_str_take(&s);
  else
    od_str_free(&s);
  return st;
}
