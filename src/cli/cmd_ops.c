/* objdet ops: the reference of all ops, written from their tables: docs/ops.md. For those who work on this program, so it is not
 * listed with the other commands. What an op becomes in a TensorFlow graph is found by writing its samples. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/command.h"
#include "graph/emit_tf.h"
#include "io/path.h"
#include "io/proto/tf_graph.pb-c.h"
#include "io/protobuf.h"

/* ---------------------------------------------------------------------------------------------------------- TensorFlow */
/* How much of the inputs' sizes a writer is told: as little as it needs. */
typedef enum { NOTHING, CHANNELS, ALL, N_TOLD } told;

static od_value sample_input(od_graph *g, od_tf *t, const od_sample_in *in, int i, told how) {
  char name[16];
  od_shape shape = in->shape;
  if (in->absent) return OD_NONE;
  for (int d = 0; d < shape.rank; d++)
    if (shape.dim[d] != 1 && !(how == ALL || (how == CHANNELS && d == shape.rank - 1))) shape.dim[d] = -1;
  snprintf(name, sizeof name, "in%d", i);
  od_value v = od_input(g, name, in->dtype, shape);
  if (!od_has(v)) return v;
  od_tf_begin(t, name);
  const char *p = od_tf_add(t, "Placeholder", NULL, OD_TF_INPUTS(NULL));
  od_tf_attr_type(t, "dtype", in->dtype);
  od_tf_attr_shape(t, "shape", &shape);
  od_tf_bind(t, v, p);
  return v;
}

static od_status write_node(od_str *bytes, od_graph *g, od_tf *t, const od_op *op, const od_sample *s, told how) {
  od_value in[OD_SAMPLE_IN] = {OD_NONE};
  for (int i = 0; i < s->n_in; i++) in[i] = sample_input(g, t, &s->in[i], i, how);
  od_value v = od_graph_add_named(g, "node", op, in, s->n_in, s->params);
  OD_TRY(od_graph_check(g));
  OD_TRY(od_tf_node(t, v.node));
  OD_TRY(od_tf_check(t));
  return od_tf_pack(bytes, t);
}

/* Adds the kinds of nodes that this sample is written as; says whether it could be written. */
static bool add_kinds(od_strings *kinds, const od_op *op, const od_sample *s, told how) {
  od_graph *g = NULL;
  od_tf *t = NULL;
  od_str bytes = OD_STR_INIT;
  Tensorflow__GraphDef *def = NULL;
  od_status st;
  OD_GO(st, od_graph_new(&g));
  OD_GO(st, od_tf_new(&t));
  OD_GO(st, write_node(&bytes, g, t, op, s, how));
  OD_GO(st, od_proto_unpack(&def, &tensorflow__graph_def__descriptor, bytes.data, bytes.len));
  for (size_t i = 0; i < def->n_node && st == OD_OK; i++) {
    bool known = strcmp(def->node[i]->op, "Placeholder") == 0;
    for (size_t k = 0; k < kinds->count; k++) known = known || strcmp(kinds->items[k], def->node[i]->op) == 0;
    if (!known) st = od_strings_add(kinds, def->node[i]->op);
  }
done:
  od_proto_free(def);
  od_str_free(&bytes);
  od_tf_free(t);
  od_graph_free(g);
  return st == OD_OK;
}

static void tensorflow(od_str *out, const od_op *op) {
  od_strings kinds = OD_STRINGS_INIT;
  od_str_add(out, "- TensorFlow: ");
  if (!op->write_tf) {
    od_str_addf(out, "not written: %s\n", op->no_tf ? op->no_tf : "");
    return;
  }
  for (int i = 0; i < op->n_samples; i++)
    for (int how = NOTHING; how < N_TOLD && !add_kinds(&kinds, op, &op->samples[i], (told)how); how++) {}
  od_strings_sort(&kinds);
  for (size_t i = 0; i < kinds.count; i++) od_str_addf(out, "%s%s", i ? ", " : "", kinds.items[i]);
  od_str_add(out, kinds.count ? "\n" : "its inputs, handed on\n");
  od_strings_free(&kinds);
}

/* ---------------------------------------------------------------------------------------------------------- parameters */
static void kind_of(od_str *out, const od_param *p) {
  static const char *const kinds[] = {
      [OD_P_INT] = "integer", [OD_P_FLOAT] = "float",   [OD_P_BOOL] = "bool",     [OD_P_ENUM] = "one of",
      [OD_P_DTYPE] = "dtype", [OD_P_INTS] = "integers", [OD_P_FLOATS] = "floats", [OD_P_TEXT] = "text",
      [OD_P_SHAPE] = "shape", [OD_P_TENSOR] = "tensor"};
  od_str_add(out, kinds[p->type]);
  for (int i = 0; p->names && p->names[i]; i++) od_str_addf(out, "%s %s", i ? "," : "", p->names[i]);
  if (p->min != p->max) od_str_addf(out, ", %g to %g", p->min, p->max);
}

static void parameters(od_str *out, const od_op *op) {
  if (!op->params || !op->params->name) return;
  od_str_add(out, "\n| parameter | type | |\n| --- | --- | --- |\n");
  for (const od_param *p = op->params; p->name; p++) {
    od_str_addf(out, "| `%s` | ", p->name);
    kind_of(out, p);
    od_str_addf(out, " | %s |\n", p->help ? p->help : "");
  }
}

/* --------------------------------------------------------------------------------------------------------------- an op */
static void inputs(od_str *out, const od_op *op) {
  if (op->max_in < 0)
    od_str_addf(out, "- inputs: %d or more", op->min_in);
  else if (op->min_in == op->max_in)
    od_str_addf(out, "- inputs: %d", op->max_in);
  else
    od_str_addf(out, "- inputs: %d to %d", op->min_in, op->max_in);
  const char *gap = "; may be absent: ";
  for (int i = 0; i < 32; i++)
    if (op->optional_in >> i & 1) od_str_addf(out, "%s%d", gap, i), gap = ", ";
  od_str_addf(out, "; outputs: %d", op->n_out);
  for (int i = 0; i < 4; i++)
    if (op->alias[i]) od_str_addf(out, "; output %d may lie over input %d", i, op->alias[i] - 1);
  od_str_add(out, "\n");
}

static void flags_of(od_str *out, const od_op *op) {
  static const char *const words[] = {"a view: the input's memory under another shape",
                                      "may keep its floats in bfloat16", "depends on the node's name (random)",
                                      "a source: nothing is computed"};
  const char *gap = "- ";
  for (int i = 0; i < 4; i++)
    if (op->flags >> i & 1) od_str_addf(out, "%s%s", gap, words[i]), gap = "; ";
  if (op->flags & 15) od_str_add(out, "\n");
}

static void describe(od_str *out, const od_op *op) {
  od_str_addf(out, "\n## %s\n\n%s\n\n", op->name, op->help);
  inputs(out, op);
  flags_of(out, op);
  if (op->grad)
    od_str_add(out, "- gradient: yes\n");
  else
    od_str_addf(out, "- gradient: none: %s\n", op->no_grad ? op->no_grad : "");
  tensorflow(out, op);
  if (op->tolerance > 0)
    od_str_addf(out, "- engines may differ from the reference by %g of the root mean square\n", op->tolerance);
  else
    od_str_add(out, "- engines must give the reference's bits\n");
  parameters(out, op);
}

static od_status run(const od_args *a, const od_reporter *r) {
  od_str out = OD_STR_INIT;
  size_t n = 0;
  (void)a, (void)r;
  while (od_op_at(n)) n++;
  od_str_addf(&out,
              "# The ops\n\nMade by `objdet ops` from the tables in `src/ops`; a test compares. [add an "
              "op](howto_op.md) says how one is "
              "made. There are %zu.\n\n",
              n);
  for (size_t i = 0; i < n; i++) od_str_addf(&out, "%s[%s](#%s)", i ? ", " : "", od_op_at(i)->name, od_op_at(i)->name);
  od_str_add(&out, "\n");
  for (size_t i = 0; i < n; i++) describe(&out, od_op_at(i));
  od_status st = od_str_check(&out);
  if (st == OD_OK && (fputs(od_str_text(&out), stdout) < 0 || fflush(stdout) != 0))
    st = od_fail(OD_EIO, "stdout cannot be written");
  od_str_free(&out);
  return st;
}

static const od_flag flags[] = {{0}};

const od_command od_cmd_ops = {"ops", NULL, NULL, flags, run};
