/* Every op that can be written to a TensorFlow graph, every sample: written without sizes, read back and run by our interpreter,
 * compared with the op's reference. With OBJDET_WITNESS_PYTHON (a Python that has TensorFlow) all of it is also run by
 * TensorFlow itself, in one graph.
 *
 * Dimensions are unknown (-1) while a node is written, but for size 1, which broadcasts. Where a writer needs the number of
 * channels, the last dimension is known; nothing may need more, unless the table below says why. */
#include <jansson.h>

#include "../engine/op_case.h"
#include "base/str.h"
#include "graph/emit_tf.h"
#include "tfgraph/tfgraph.h"

/* What is refused, or cannot be compared; sample NULL: all of them. */
static const struct {
  const char *op, *sample, *reason;
} exceptions[] = {
    {"pad", "cut", "negative padding is not written"},
};

static const char *exception(const char *op, const char *sample) {
  for (size_t i = 0; i < sizeof exceptions / sizeof *exceptions; i++)
    if (strcmp(exceptions[i].op, op) == 0 && (!exceptions[i].sample || strcmp(exceptions[i].sample, sample) == 0))
      return exceptions[i].reason;
  return NULL;
}

/* Writers that need more than the number of channels. */
static bool needs_all(const char *op) {
  /* nms: boxes a class or shared; depthwise_conv2d: a dilated filter is written tap by tap */
  return strcmp(op, "nms") == 0 || strcmp(op, "depthwise_conv2d") == 0;
}

/* How much a writer is told. */
typedef enum { NOTHING, CHANNELS, ALL } told;

typedef struct {
  od_tf *t;
  od_graph *graph;
  od_value in[INPUTS], out;
} written;

static void written_free(written *w) {
  od_tf_free(w->t);
  od_graph_free(w->graph);
}

static od_shape shape_told(const od_shape *s, told how) {
  od_shape l = *s;
  for (int d = 0; d < l.rank; d++)
    if (l.dim[d] != 1 && !(how == ALL || (how == CHANNELS && d == l.rank - 1))) l.dim[d] = -1;
  return l;
}

/* Writes the sample's node; names begin with `prefix`. w->t and w->graph are used where they are there, else made. */
static od_status write_sample(written *w, const op_case *c, told how, const char *prefix) {
  if (!w->t) OD_TRY(od_tf_new(&w->t));
  if (!w->graph) OD_TRY(od_graph_new(&w->graph));
  od_scope_push(w->graph, prefix);
  for (int i = 0; i < c->sample->n_in; i++) {
    char name[16];
    snprintf(name, sizeof name, "in%d", i);
    w->in[i] = OD_NONE;
    if (c->in[i].data) w->in[i] = od_input(w->graph, name, c->in[i].dtype, shape_told(&c->in[i].shape, how));
  }
  w->out = od_graph_add_named(w->graph, "node", c->op, w->in, c->sample->n_in, c->sample->params);
  od_scope_pop(w->graph);
  OD_TRY(od_graph_check(w->graph));
  for (int i = 0; i < c->sample->n_in; i++) {
    if (!od_has(w->in[i])) continue;
    od_type type = od_type_of(w->in[i]);
    od_tf_begin(w->t, w->in[i].node->name);
    const char *p = od_tf_add(w->t, "Placeholder", NULL, OD_TF_INPUTS(NULL));
    od_tf_attr_type(w->t, "dtype", type.dtype);
    od_tf_attr_shape(w->t, "shape", &type.shape);
    od_tf_bind(w->t, w->in[i], p);
  }
  OD_TRY(od_tf_node(w->t, w->out.node));
  return od_tf_check(w->t);
}

/* Runs what was written in our interpreter against `want`. */
static bool read_back(const written *w, const op_case *c, const od_tensor *want) {
  od_str bytes = OD_STR_INIT;
  od_tfgraph *g = NULL;
  od_tfgraph_feed feeds[INPUTS];
  const char *fetches[OUTPUTS];
  od_tensor got[OUTPUTS];
  int n = 0, n_out = 0, which[OUTPUTS];
  EXPECT_OK(od_tf_pack(&bytes, w->t), "pack");
  EXPECT_OK(od_tfgraph_parse(&g, (od_view){(const uint8_t *)bytes.data, bytes.len}, "written"), "parse");
  for (int i = 0; i < c->sample->n_in; i++)
    if (od_has(w->in[i])) feeds[n++] = (od_tfgraph_feed){od_tf_bound(w->t, w->in[i]), c->in[i]};
  for (int k = 0; k < c->op->n_out; k++)
    if (od_tf_bound(w->t, od_out(w->out, k))) fetches[n_out] = od_tf_bound(w->t, od_out(w->out, k)), which[n_out++] = k;
  EXPECT(n_out > 0, "no output was written");
  od_status st = od_tfgraph_run(g, feeds, n, fetches, n_out, got);
  EXPECT(st == OD_OK, "interpreter: %s", od_message());
  bool ok = true;
  for (int k = 0; k < n_out && ok; k++)
    ok = compare(&got[k], &want[which[k]], fmax(4 * c->op->tolerance, 2e-6), "read back");
  for (int k = 0; k < n_out; k++) od_tensor_free(&got[k]);
  od_tfgraph_free(g);
  od_str_free(&bytes);
  return ok;
}

/* Makes the case and finds how little its writer needs. */
static bool write_case(written *w, const op_case *c, told *how, const char *prefix) {
  for (*how = NOTHING;; (*how)++) {
    *w = (written){0};
    od_status st = write_sample(w, c, *how, prefix);
    if (st == OD_OK) return true;
    char message[1024];
    snprintf(message, sizeof message, "%s", od_message());
    written_free(w);
    EXPECT(needs_all(c->op->name) ? *how < ALL : st == OD_EUNSUPPORTED && *how < CHANNELS, "writing%s: %s",
           *how == CHANNELS ? " with known channels" : "", message);
  }
}

/* ------------------------------------------------------------------------------------------- our interpreter, op by op */
static void check_op(void **state) {
  const od_op *op = *state;
  for (int i = 0; i < op->n_samples; i++) {
    op_case c;
    od_tensor want[OUTPUTS] = {{0}};
    written w;
    told how;
    bool ok = case_make(&c, op, &op->samples[i]) && case_infer(&c) && case_reference(&c, want, 0);
    const char *excuse = exception(op->name, op->samples[i].name);
    if (ok && excuse) {
      w = (written){0};
      od_status st = write_sample(&w, &c, ALL, "x");
      if (st != OD_EUNSUPPORTED)
        fail_msg("'%s' is written (%s) though the test says: %s", op->samples[i].name, od_status_text(st), excuse);
      written_free(&w);
    } else if (ok) {
      ok = write_case(&w, &c, &how, "x") && read_back(&w, &c, want);
      if (ok) written_free(&w);
    }
    if (!ok) fail_msg("%s, sample '%s': %s", op->name, op->samples[i].name, why);
    for (int k = 0; k < OUTPUTS; k++) free_guarded(&want[k]);
    case_free(&c);
  }
}

/* ----------------------------------------------------------------------------------------------------- TensorFlow itself */
static json_t *as_json(const od_tensor *x) {
  json_t *o = json_object(), *shape = json_array(), *data = json_array();
  for (int i = 0; i < x->shape.rank; i++) json_array_append_new(shape, json_integer(x->shape.dim[i]));
  for (int64_t i = 0; i < od_tensor_size(x); i++) json_array_append_new(data, json_real(number(x, i)));
  json_object_set_new(o, "dtype", json_string(od_dtype_name(x->dtype)));
  json_object_set_new(o, "shape", shape);
  json_object_set_new(o, "data", data);
  return o;
}

/* The sample's node into the common writer, its feeds and expected results into the lists. False: it has no part. */
static bool add_case(written *all, const op_case *c, int serial, json_t *feeds, json_t *fetches) {
  char prefix[128];
  written w;
  od_tf *t = all->t;
  told how;
  od_tensor want[OUTPUTS] = {{0}};
  if (exception(c->op->name, c->sample->name)) return true;
  for (int i = 0; i < c->sample->n_in; i++)
    if (c->in[i].data && c->in[i].dtype == OD_BF16) return true; /* numpy has no bfloat16 */
  if (!case_reference(c, want, 0)) return false;
  for (int k = 0; k < c->op->n_out; k++)
    if (want[k].dtype == OD_BF16) return true;
  snprintf(prefix, sizeof prefix, "%s_%d", c->op->name, serial);
  if (!write_case(&w, c, &how, prefix)) return false;
  written_free(&w);
  EXPECT_OK(write_sample(all, c, how, prefix), "writing");
  for (int i = 0; i < c->sample->n_in; i++)
    if (od_has(all->in[i])) json_object_set_new(feeds, od_tf_bound(t, all->in[i]), as_json(&c->in[i]));
  for (int k = 0; k < c->op->n_out; k++)
    if (od_tf_bound(t, od_out(all->out, k)))
      json_object_set_new(fetches, od_tf_bound(t, od_out(all->out, k)), as_json(&want[k]));
  for (int k = 0; k < OUTPUTS; k++) free_guarded(&want[k]);
  return true;
}

static void save(const char *path, const od_str *bytes) {
  FILE *f = fopen(path, "wb");
  CHECK(f && fwrite(bytes->data, 1, bytes->len, f) == bytes->len && fclose(f) == 0);
}

static void in_tensorflow(void **state) {
  (void)state;
  const char *python = getenv("OBJDET_WITNESS_PYTHON");
  if (!python) {
    print_message("SKIPPED: written ops in TensorFlow need OBJDET_WITNESS_PYTHON\n");
    skip();
  }
  written all = {0};
  json_t *feeds = json_object(), *fetches = json_object(), *runs = json_array(), *run = json_object();
  CHECK_OK(od_tf_new(&all.t));
  CHECK_OK(od_graph_new(&all.graph));
  for (size_t i = 0; od_op_at(i); i++) {
    const od_op *op = od_op_at(i);
    for (int k = 0; op->write_tf && k < op->n_samples; k++) {
      op_case c;
      bool ok = case_make(&c, op, &op->samples[k]) && case_infer(&c) && add_case(&all, &c, k, feeds, fetches);
      if (!ok) fail_msg("%s, sample '%s': %s", op->name, op->samples[k].name, why);
      case_free(&c);
    }
  }
  json_object_set_new(run, "feeds", feeds);
  json_object_set_new(run, "fetches", fetches);
  json_object_set_new(run, "tolerance", json_real(1e-5));
  json_array_append_new(runs, run);
  char dir[300], path[400], command[1400];
  od_str bytes = OD_STR_INIT;
  snprintf(dir, sizeof dir, "%s", od_test_dir());
  CHECK_OK(od_tf_pack(&bytes, all.t));
  snprintf(path, sizeof path, "%s/ops.pb", dir);
  save(path, &bytes);
  snprintf(path, sizeof path, "%s/ops.json", dir);
  CHECK(json_dump_file(runs, path, JSON_REAL_PRECISION(17)) == 0);
  /* TensorFlow 2.15 with oneDNN gives empty convolutions a wrong shape: its plain kernels */
  snprintf(command, sizeof command,
           "TF_ENABLE_ONEDNN_OPTS=0 '%s' tests/witness/run_written.py '%s/ops' 2>'%s/log' || { tail -n 20 '%s/log'; "
           "false; }",
           python, dir, dir, dir);
  if (system(command) != 0) fail_msg("TensorFlow does not agree (%s/ops.pb)", dir);
  snprintf(command, sizeof command, "rm -r '%s'", dir);
  CHECK(system(command) == 0);
  json_decref(runs);
  od_str_free(&bytes);
  written_free(&all);
}

int main(int argc, char **argv) {
  struct CMUnitTest tests[512];
  size_t n = 0;
  const char *only = argc > 1 ? argv[1] : NULL; /* test_op_export OP: only this one, without TensorFlow */
  for (size_t i = 0; od_op_at(i); i++) {
    const od_op *op = od_op_at(i);
    if (!op->write_tf || (only && strcmp(only, op->name) != 0)) continue;
    tests[n++] = (struct CMUnitTest){op->name, check_op, NULL, NULL, (void *)(uintptr_t)op};
  }
  if (!only) tests[n++] = (struct CMUnitTest)cmocka_unit_test(in_tensorflow);
  return _cmocka_run_group_tests("written ops", tests, n, NULL, NULL);
}
