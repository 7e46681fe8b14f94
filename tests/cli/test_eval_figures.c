/* What model_main writes when it evaluates, against the original's: the same tags in the event file, the same figures behind them.
 * The figures are in tests/golden/eval/model_main.json, made by tests/witness/eval_tags.py. */
#include "cli/golden_formula.h"
#include "eval/job.h"
#include "io/bundle.h"
#include "io/event.h"
#include "io/file.h"
#include "io/path.h"
#include "io/record.h"
#include "od_json.h"

enum { STEP = 7 };
static const char *dir;

static od_pipeline load(json_t *golden) {
  char *text;
  size_t size;
  od_str all = OD_STR_INIT;
  od_pipeline p = {0};
  char path[600];
  CHECK_OK(od_file_read_all(&text, &size, "tests/golden/train/tiny.config", 0));
  od_str_add(&all, text);
  od_str_add(&all, json_string_value(json_need(golden, "eval")));
  snprintf(path, sizeof path, "%s/tiny.config", dir);
  CHECK_OK(od_file_write_all(path, od_str_text(&all), all.len));
  CHECK_OK(od_pipeline_load(&p, path, NULL, 0));
  od_free(text);
  od_str_free(&all);
  return p;
}

/* Weights by formula at the golden run's step. */
static void write_checkpoint(const char *prefix, const od_pipeline *p) {
  od_detector *d;
  od_state *s;
  od_named_tensor list[512];
  CHECK_OK(od_detector_new(&d, &(od_detector_options){.model = p->config->model, .engine = {.threads = 1}}));
  const od_graph *g = od_detector_graph(d);
  size_t n = od_graph_variables(g);
  CHECK(n < 512);
  CHECK_OK(od_state_new(&s, g));
  for (size_t i = 0; i < n; i++) {
    const od_variable *v = od_graph_variable(g, i);
    if (v->model) od_formula_weight(od_state_at(s, v->index), v->name, false);
    list[i] = (od_named_tensor){v->name, *od_state_at(s, v->index)};
  }
  *(int64_t *)od_state_tensor(s, "global_step")->data = STEP;
  CHECK_OK(od_bundle_write(prefix, list, n));
  od_state_free(s);
  od_detector_free(d);
}

/* A figure of the original: counts of matches hang on boxes near a threshold, losses on roundings. */
static void near(const char *tag, double got, double want) {
  double limit = strchr(tag, '/') && tag[0] == 'D' ? 1e-6 : 1e-5 * fabs(want);
  if (!(fabs(got - want) <= limit)) fail_msg("%s is %.9g, the original's %.9g", tag, got, want);
}

static void follow_events(json_t *golden, const char *path) {
  json_t *scalars = json_need(golden, "scalars"), *others = json_need(golden, "others");
  od_record_reader *r;
  od_view record;
  size_t n_scalars = 0, n_others = 0;
  char tag[256];
  CHECK_OK(od_record_reader_open(&r, path, NULL));
  while (od_record_read(r, &record) == OD_OK) {
    od_event e;
    od_summary_value v;
    CHECK_OK(od_event_parse(&e, record));
    if (e.kind != OD_EVENT_SUMMARY) continue;
    CHECK(e.step == STEP);
    od_wire w = od_wire_over(e.payload);
    while (od_summary_next(&w, &v)) {
      snprintf(tag, sizeof tag, "%.*s", (int)v.tag.size, (const char *)v.tag.data);
      if (v.kind == OD_VALUE_SCALAR) {
        json_t *want = json_object_get(scalars, tag);
        if (!want) fail_msg("the original writes no %s", tag);
        near(tag, v.scalar, json_num(want));
        n_scalars++;
        continue;
      }
      for (size_t i = 0; i < json_array_size(others); i++) {
        json_t *other = json_array_get(others, i);
        if (strcmp(json_string_value(json_array_get(other, 0)), tag) != 0) continue;
        CHECK(v.kind == (strcmp(json_string_value(json_array_get(other, 1)), "image") == 0 ? OD_VALUE_IMAGE : OD_VALUE_TENSOR));
        n_others++;
      }
    }
    CHECK(!w.bad);
  }
  od_record_reader_free(r);
  CHECK(n_scalars == json_object_size(scalars) && n_others == json_array_size(others)); /* all of them, each once */
}

static void as_the_original(void **state) {
  (void)state;
  json_t *golden = json_file("tests/golden/eval/model_main.json");
  od_eval_job *j;
  od_strings names = OD_STRINGS_INIT;
  char prefix[600], eval_dir[600], events[1500] = "";
  int64_t step;
  dir = od_test_dir();
  od_pipeline p = load(golden);
  snprintf(prefix, sizeof prefix, "%s/model.ckpt-%d", dir, STEP);
  snprintf(eval_dir, sizeof eval_dir, "%s/eval_0", dir);
  write_checkpoint(prefix, &p);
  CHECK_OK(od_eval_job_new(&j, &(od_eval_job_options){.pipeline = &p, .reader = p.config->eval_input_reader[0], .eval_dir = eval_dir,
                                                      .style = OD_EVAL_MODEL_MAIN, .engine = {.threads = 1}}));
  CHECK_OK(od_eval_job_run(j, prefix, &step));
  CHECK(step == STEP);
  size_t n;
  const od_metric *m = od_eval_job_metrics(j, &n);
  json_t *scalars = json_need(golden, "scalars");
  CHECK(n == json_object_size(scalars));
  for (size_t i = 0; i < n; i++) near(m[i].tag, m[i].value, json_num(json_need(scalars, m[i].tag)));
  CHECK_OK(od_path_list(&names, eval_dir));
  for (size_t i = 0; i < names.count; i++)
    if (od_starts_with(names.items[i], "events.out.tfevents.")) snprintf(events, sizeof events, "%s/%s", eval_dir, names.items[i]);
  follow_events(golden, events);
  od_strings_free(&names);
  od_eval_job_free(j);
  od_pipeline_free(&p);
  json_decref(golden);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(as_the_original)};
  return cmocka_run_group_tests_name("eval_figures", tests, NULL, NULL);
}
