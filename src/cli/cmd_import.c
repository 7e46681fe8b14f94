/* objdet import: the weights of a frozen graph as a checkpoint, to fine-tune from. */
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/command.h"
#include "io/bundle.h"
#include "io/metagraph.h"
#include "tfgraph/tfgraph.h"

typedef struct {
  od_named_tensor *tensors; /* owned tensors, names borrowed from the graph */
  od_meta_variable *meta;
  size_t n;
} weights;

/* A frozen variable is a constant that an Identity "<name>/read" hands on; resource variables: "<name>/Read/ReadVariableOp". */
static od_status mark_variables(od_map *variables, const od_tfgraph *g) {
  for (size_t i = 0; i < od_tfgraph_nodes(g); i++) {
    od_tfgraph_node n = od_tfgraph_node_at(g, i);
    if (strcmp(n.op, "Identity") != 0 || n.n_in < 1) continue;
    const char *from = od_tfgraph_node_input(g, i, 0);
    size_t len = strlen(from);
    bool reads = strncmp(n.name, from, len) == 0 && (strcmp(n.name + len, "/read") == 0 || od_ends_with(n.name, "/ReadVariableOp"));
    if (reads) OD_TRY(od_map_set(variables, from, variables));
  }
  return OD_OK;
}

static od_status collect(weights *w, const od_tfgraph *g, const od_map *variables) {
  OD_TRY(od_new(&w->tensors, od_tfgraph_nodes(g) + 1, sizeof *w->tensors));
  OD_TRY(od_new(&w->meta, od_tfgraph_nodes(g) + 1, sizeof *w->meta));
  for (size_t i = 0; i < od_tfgraph_nodes(g); i++) {
    od_tfgraph_node n = od_tfgraph_node_at(g, i);
    if (strcmp(n.op, "Const") != 0 || !od_map_has(variables, n.name)) continue;
    od_named_tensor *t = &w->tensors[w->n];
    t->name = n.name;
    OD_TRY(od_tfgraph_constant(&t->tensor, g, i));
    w->meta[w->n++] = (od_meta_variable){n.name, t->tensor.dtype, t->tensor.shape, true};
  }
  if (w->n == 0) return od_fail(OD_EDATA, "%s holds no frozen variables (constants read by '<name>/read')", od_tfgraph_path(g));
  return OD_OK;
}

static od_status write_all(const char *prefix, weights *w, const od_reporter *r) {
  od_str meta = OD_STR_INIT;
  od_str_addf(&meta, "%s.meta", prefix);
  OD_TRY(od_bundle_write(prefix, w->tensors, w->n));
  od_status st = od_str_check(&meta);
  if (st == OD_OK) st = od_metagraph_write(od_str_text(&meta), w->meta, w->n);
  od_str_free(&meta);
  if (st == OD_OK) od_info(r, "%zu variables written to %s", w->n, prefix);
  return st;
}

static od_status run(const od_args *a, const od_reporter *r) {
  od_tfgraph *g = NULL;
  od_map *variables = NULL;
  weights w = {0};
  od_status st;
  OD_TRY(od_arg_required(a, "graph"));
  OD_TRY(od_arg_required(a, "output"));
  OD_GO(st, od_tfgraph_open(&g, od_arg_text(a, "graph")));
  OD_GO(st, od_map_new(&variables));
  OD_GO(st, mark_variables(variables, g));
  OD_GO(st, collect(&w, g, variables));
  st = write_all(od_arg_text(a, "output"), &w, r);
done:
  for (size_t i = 0; i < w.n; i++) od_tensor_free(&w.tensors[i].tensor);
  od_free(w.tensors);
  od_free(w.meta);
  od_map_free(variables);
  od_tfgraph_free(g);
  return st;
}

static const od_flag flags[] = {
    {"graph", OD_FLAG_TEXT, NULL, "a frozen graph (.pb), a SavedModel, or a folder that holds one"},
    {"output", OD_FLAG_TEXT, NULL, "prefix of the checkpoint to write, e.g. weights/model.ckpt"},
    {0},
};

const od_command od_cmd_import = {"import", "writes the weights of a frozen graph as a checkpoint", NULL, flags, run};
