/* Every sample of every op on every engine: shapes, values against the reference, gradients by differences, guard bytes, the
 * same bits twice, results that are mostly zero ("mistrusted": they prove nothing), memory that runs out at each allocation.
 * An op whose table lacks something without saying why fails.
 *
 * test_ops [--op=NAME] [--sample=NAME] [--engine=ref|cpu] [--list] runs a part; a failure prints its own command. */
#include "op_case.h"
#include "op_grad.h"

static const char *program_name, *only_op, *only_sample, *only_engine;
static const char *const engine_names[] = {"ref", "cpu"}; /* reference first; a new engine is one more name */
enum { N_ENGINES = sizeof engine_names / sizeof *engine_names };
static od_engine *engines[N_ENGINES]; /* NULL: that engine is not there */

static bool is_source(const od_op *op) { return (op->flags & OD_OP_SOURCE) != 0; }

/* --------------------------------------------------------------------------------------------------------- the table */
static bool check_table(const od_op *op) {
  EXPECT(op->name && od_op_find(op->name) == op, "the op is not found by its name");
  EXPECT(op->help && op->help[0], "no help line");
  EXPECT(op->infer && op->ref, "no shape inference or no reference");
  EXPECT((op->grad != NULL) != (op->no_grad != NULL), "needs a gradient or the reason why there is none (one of them)");
  EXPECT((op->write_tf != NULL) != (op->no_tf != NULL), "needs a TensorFlow writer or the reason why there is none (one of them)");
  EXPECT(is_source(op) || op->n_samples > 0, "no samples");
  EXPECT(op->n_out >= 1 && op->n_out <= OUTPUTS, "%d outputs", op->n_out);
  EXPECT(op->max_in < 0 || op->min_in <= op->max_in, "%d to %d inputs", op->min_in, op->max_in);
  EXPECT(op->tolerance >= 0, "tolerance %g", op->tolerance);
  EXPECT((op->params == NULL) == (op->params_size == 0), "parameters without a size, or a size without parameters");
  for (const od_param *p = op->params; p && p->name; p++) {
    EXPECT(p->offset < op->params_size, "parameter %s lies outside the struct", p->name);
    EXPECT(p->help && p->help[0], "parameter %s has no help", p->name);
    EXPECT((p->type == OD_P_ENUM) == (p->names != NULL), "parameter %s: names are for enums, and enums need them", p->name);
  }
  for (int k = 0; k < 4; k++) EXPECT(op->alias[k] == 0 || (k < op->n_out && (op->max_in < 0 || op->alias[k] <= op->max_in)), "alias of output %d", k);
  for (int i = 0; i < op->n_samples; i++) {
    const od_sample *s = &op->samples[i];
    EXPECT(s->name && s->name[0], "sample %d has no name", i);
    EXPECT(s->n_in >= op->min_in && s->n_in <= INPUTS && (op->max_in < 0 || s->n_in <= op->max_in), "sample '%s': %d inputs", s->name, s->n_in);
    for (int k = 0; k < i; k++) EXPECT(strcmp(op->samples[k].name, s->name) != 0, "two samples are named '%s'", s->name);
  }
  return true;
}

/* ------------------------------------------------------------------------------------------------------------- values */
/* Outputs that are (nearly) all the same as zero prove nothing. */
static bool trusted(const op_case *c, const od_tensor *out) {
  int64_t all = 0, not_zero = 0;
  for (int k = 0; k < c->op->n_out; k++)
    for (int64_t i = 0, n = od_tensor_size(&out[k]); i < n; i++, all++) {
      double v = number(&out[k], i);
      EXPECT(isfinite(v), "the reference gives %g in output %d", v, k);
      not_zero += v != 0;
    }
  if (c->sample->few) return true;
  EXPECT(all > 0 && (double)not_zero > 0.05 * (double)all, "mistrusted: %lld of %lld results are zero (set .few if that is right)",
         (long long)(all - not_zero), (long long)all);
  return true;
}

/* The direct calls: same bits whatever memory held before. */
static bool check_reference(const op_case *c, od_tensor *want) {
  od_tensor again[OUTPUTS] = {{0}};
  bool ok = case_reference(c, want, 0xA5) && case_reference(c, again, 0x5A);
  for (int k = 0; k < c->op->n_out && ok; k++)
    if (!same_bits(&want[k], &again[k])) {
      snprintf(why, sizeof why, "the reference leaves output %d partly unwritten or differs from call to call", k);
      ok = false;
    }
  for (int k = 0; k < OUTPUTS; k++) free_guarded(&again[k]);
  return ok && trusted(c, want);
}

/* The engine's results, all of them at once, twice; inputs must stay as they are. */
static bool check_engine(const op_case *c, od_engine *e, const od_tensor *want, bool unknown) {
  od_graph *g;
  od_value in[INPUTS], fetch[OUTPUTS], feeds[INPUTS];
  od_tensor fed[INPUTS], a[OUTPUTS] = {{0}}, b[OUTPUTS] = {{0}}, kept[INPUTS] = {{0}};
  EXPECT_OK(od_graph_new(&g), "graph");
  od_value v = case_node(g, c, unknown, false, in);
  for (int k = 0; k < c->op->n_out; k++) fetch[k] = od_out(v, k);
  int n = case_feeds(c, in, false, feeds, fed);
  bool ok = true;
  for (int i = 0; i < n && ok; i++) ok = od_tensor_copy(&kept[i], &fed[i]) == OD_OK;
  ok = ok && run_once(e, g, NULL, feeds, fed, n, fetch, c->op->n_out, a) && run_once(e, g, NULL, feeds, fed, n, fetch, c->op->n_out, b);
  bool exact = strcmp(od_engine_get_options(e)->name, "ref") == 0;
  for (int k = 0; k < c->op->n_out && ok; k++) {
    char what[64];
    snprintf(what, sizeof what, "output %d%s", k, unknown ? " (sizes unknown in the graph)" : "");
    ok = compare(&a[k], &want[k], exact ? 0 : c->op->tolerance, what);
    if (ok && !same_bits(&a[k], &b[k])) {
      snprintf(why, sizeof why, "output %d differs between two runs", k);
      ok = false;
    }
  }
  for (int i = 0; i < n && ok; i++)
    if (!same_bits(&kept[i], &fed[i]) || !guards_stand(&fed[i])) {
      snprintf(why, sizeof why, "feed %d was written to, or memory beside it", i);
      ok = false;
    }
  for (int k = 0; k < OUTPUTS; k++) od_tensor_free(&a[k]), od_tensor_free(&b[k]);
  for (int i = 0; i < INPUTS; i++) od_tensor_free(&kept[i]);
  od_graph_free(g);
  return ok;
}

/* Weights in the state instead of feeds; then other weights: packed copies that an engine keeps must follow. */
static bool check_variables(op_case *c, od_engine *e) {
  od_graph *g;
  od_state *state = NULL;
  od_program *p = NULL;
  od_value in[INPUTS], fetch[OUTPUTS], feeds[INPUTS];
  od_tensor fed[INPUTS], got[OUTPUTS], want[OUTPUTS] = {{0}};
  bool any = false, ok = true, exact = strcmp(od_engine_get_options(e)->name, "ref") == 0;
  for (int i = 1; i < c->sample->n_in; i++) any = any || (c->in[i].data && c->in[i].dtype == OD_F32);
  if (!any) return true;
  EXPECT_OK(od_graph_new(&g), "graph");
  od_value v = case_node(g, c, false, true, in);
  for (int k = 0; k < c->op->n_out; k++) fetch[k] = od_out(v, k);
  int n = case_feeds(c, in, true, feeds, fed);
  EXPECT_OK(od_state_new(&state, g), "state");
  od_program_spec spec = {.graph = g, .state = state, .feeds = feeds, .n_feeds = n, .fetches = fetch, .n_fetches = c->op->n_out};
  EXPECT_OK(od_program_new(&p, e, &spec), "program");
  for (uint64_t round = 0; round < 2 && ok; round++) {
    for (int i = 1; i < c->sample->n_in; i++) {
      const od_variable *var = od_variable_of(g, in[i]);
      if (!var) continue;
      draw(&c->in[i], &c->sample->in[i], c->sample->name, i, round);
      if (od_tensor_bytes(&c->in[i])) memcpy(od_state_at(state, var->index)->data, c->in[i].data, od_tensor_bytes(&c->in[i]));
    }
    od_state_touch(state);
    ok = case_reference(c, want, 0);
    if (ok && od_program_run(p, fed, got) != OD_OK) {
      snprintf(why, sizeof why, "with weights in the state: %s", od_message());
      ok = false;
    }
    for (int k = 0; k < c->op->n_out && ok; k++)
      ok = compare(&got[k], &want[k], exact ? 0 : c->op->tolerance, round ? "after the state changed" : "with weights in the state");
    for (int k = 0; k < OUTPUTS; k++) free_guarded(&want[k]);
  }
  od_program_free(p);
  od_state_free(state);
  od_graph_free(g);
  return ok;
}

/* ------------------------------------------------------------------------------------------------------ out of memory */
/* Everything from opening the engine to the gradient's values. */
static od_status whole_life(const op_case *c, const char *engine) {
  od_engine *e = NULL;
  od_graph *g = NULL;
  od_program *p = NULL;
  od_value in[INPUTS], fetch[OUTPUTS + INPUTS] = {OD_NONE}, feeds[INPUTS];
  od_tensor fed[INPUTS], got[OUTPUTS + INPUTS];
  od_status st;
  int n_fetch = c->op->n_out;
  OD_GO(st, od_engine_new(&e, &(od_engine_options){.name = engine, .threads = 2}));
  OD_GO(st, od_graph_new(&g));
  od_value v = case_node(g, c, true, false, in);
  for (int k = 0; k < c->op->n_out; k++) fetch[k] = od_out(v, k);
  OD_GO(st, od_graph_check(g));
  if (c->op->grad && c->out[0].dtype == OD_F32) {
    for (int i = 0; i < c->sample->n_in; i++)
      if (od_has(in[i]) && c->in[i].dtype != OD_F32) in[i] = OD_NONE;
    OD_GO(st, od_gradients(fetch + n_fetch, g, v, in, c->sample->n_in));
    n_fetch += c->sample->n_in;
  }
  od_value all[INPUTS];
  for (int i = 0; i < c->sample->n_in; i++) {
    char name[16];
    snprintf(name, sizeof name, "in%d", i);
    od_node *node = od_graph_find(g, name);
    all[i] = node ? (od_value){node, 0} : OD_NONE;
  }
  int n = case_feeds(c, all, false, feeds, fed);
  od_program_spec spec = {.graph = g, .feeds = feeds, .n_feeds = n, .fetches = fetch, .n_fetches = n_fetch};
  OD_GO(st, od_program_new(&p, e, &spec));
  OD_GO(st, od_program_run(p, fed, got));
done:
  od_program_free(p);
  od_graph_free(g);
  od_engine_free(e);
  return st;
}

static bool check_memory(const op_case *c, const char *engine) {
  enum { MOST = 5000 };
  size_t before = od_mem_used();
  EXPECT(whole_life(c, engine) == OD_OK, "whole life: %s", od_message());
  EXPECT(od_mem_used() == before, "%zd bytes leak", (ssize_t)(od_mem_used() - before));
  uint64_t first = od_mem_count();
  EXPECT(whole_life(c, engine) == OD_OK, "whole life: %s", od_message());
  uint64_t total = od_mem_count() - first;
  EXPECT(total < MOST, "%llu allocations", (unsigned long long)total);
  for (uint64_t n = 1; n <= total; n++) {
    od_mem_fail_at(n);
    od_status st = whole_life(c, engine);
    od_mem_fail_at(0);
    EXPECT(st == OD_ENOMEM, "allocation %llu of %llu fails and the status is '%s': %s", (unsigned long long)n,
           (unsigned long long)total, od_status_text(st), od_message());
    EXPECT(od_mem_used() == before, "allocation %llu of %llu fails and %zd bytes leak", (unsigned long long)n,
           (unsigned long long)total, (ssize_t)(od_mem_used() - before));
  }
  return true;
}

/* -------------------------------------------------------------------------------------------------------------- tests */
typedef struct {
  const od_op *op;
  int engine;
  char name[96];
} job;

static bool check_sample(const od_op *op, const od_sample *s, int engine) {
  op_case c;
  od_tensor want[OUTPUTS] = {{0}};
  od_engine *e = engines[engine];
  bool ok = case_make(&c, op, s) && case_infer(&c) && check_reference(&c, want);
  ok = ok && check_engine(&c, e, want, false) && check_engine(&c, e, want, true);
  if (ok && op->grad && !s->no_grad && engine == 0) ok = check_gradient(&c, e);
  if (ok && op->grad) ok = compare_gradient(&c, engines[0], e);
  ok = ok && check_variables(&c, e);
  for (int k = 0; k < OUTPUTS; k++) free_guarded(&want[k]);
  case_free(&c);
  return ok;
}

/* The sample with the fewest elements that still has some: memory faults are the same for all sizes. */
static const od_sample *smallest(const od_op *op) {
  const od_sample *best = NULL;
  int64_t least = INT64_MAX;
  for (int i = 0; i < op->n_samples; i++) {
    int64_t n = 0;
    for (int k = 0; k < op->samples[i].n_in; k++) n += od_shape_size(&op->samples[i].in[k].shape);
    if (!op->samples[i].few && n < least) least = n, best = &op->samples[i];
  }
  return best;
}

static void fail_with_command(const job *j, const char *sample) {
  fail_msg("%s\n    repeat with: %s --op=%s%s%s%s --engine=%s", why, program_name, j->op->name, sample ? " --sample='" : "",
           sample ? sample : "", sample ? "'" : "", engine_names[j->engine]);
}

static void run_job(void **state) {
  const job *j = *state;
  if (!check_table(j->op)) fail_with_command(j, NULL);
  if (is_source(j->op)) return;
  int done = 0;
  for (int i = 0; i < j->op->n_samples; i++) {
    const od_sample *s = &j->op->samples[i];
    if (only_sample && strcmp(only_sample, s->name) != 0) continue;
    if (!check_sample(j->op, s, j->engine)) fail_with_command(j, s->name);
    done++;
  }
  CHECK(done > 0);
  const od_sample *s = smallest(j->op);
  op_case c;
  if (only_sample || !s) return;
  if (!case_make(&c, j->op, s) || !case_infer(&c) || !check_memory(&c, engine_names[j->engine])) fail_with_command(j, s->name);
  case_free(&c);
}

static const char *option(const char *arg, const char *name) {
  size_t n = strlen(name);
  return strncmp(arg, name, n) == 0 ? arg + n : NULL;
}

static void parse(int argc, char **argv) {
  program_name = argv[0];
  for (int i = 1; i < argc; i++) {
    const char *v;
    if ((v = option(argv[i], "--op="))) only_op = v;
    else if ((v = option(argv[i], "--sample="))) only_sample = v;
    else if ((v = option(argv[i], "--engine="))) only_engine = v;
    else if (strcmp(argv[i], "--list") == 0) {
      for (size_t k = 0; od_op_at(k); k++)
        for (int s = 0; s < od_op_at(k)->n_samples; s++) printf("%s: %s\n", od_op_at(k)->name, od_op_at(k)->samples[s].name);
      exit(0);
    } else {
      fprintf(stderr, "usage: %s [--op=NAME] [--sample=NAME] [--engine=ref|cpu] [--list]\n", argv[0]);
      exit(2);
    }
  }
}

int main(int argc, char **argv) {
  parse(argc, argv);
  size_t n_ops = 0, n = 0;
  while (od_op_at(n_ops)) n_ops++;
  job *jobs = calloc(N_ENGINES * n_ops + 1, sizeof *jobs);
  struct CMUnitTest *tests = calloc(N_ENGINES * n_ops + 1, sizeof *tests);
  for (int e = 0; e < N_ENGINES; e++) {
    od_status st = od_engine_new(&engines[e], &(od_engine_options){.name = engine_names[e], .threads = 2});
    if (st != OD_OK) {
      engines[e] = NULL;
      printf("SKIPPED: engine %s: %s\n", engine_names[e], od_message());
    }
    for (size_t i = 0; i < n_ops && engines[e]; i++) {
      if ((only_op && strcmp(only_op, od_op_at(i)->name) != 0) || (only_engine && strcmp(only_engine, engine_names[e]) != 0)) continue;
      jobs[n] = (job){.op = od_op_at(i), .engine = e};
      snprintf(jobs[n].name, sizeof jobs[n].name, "%s on %s", od_op_at(i)->name, engine_names[e]);
      tests[n] = (struct CMUnitTest){.name = jobs[n].name, .test_func = run_job, .initial_state = &jobs[n]};
      n++;
    }
  }
  if (n == 0) {
    fprintf(stderr, "%s: nothing to test: no op '%s' or no engine '%s'\n", program_name, only_op ? only_op : "(any)", only_engine ? only_engine : "(any)");
    return 2;
  }
  int failed = _cmocka_run_group_tests("ops", tests, n, NULL, NULL);
  for (int e = 0; e < N_ENGINES; e++) od_engine_free(engines[e]);
  free(jobs);
  free(tests);
  return failed ? 1 : 0;
}
