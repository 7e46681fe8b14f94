/* A whole evaluation, records to files: a small model with random weights looks at drawn pictures; metrics.json, the event file,
 * the PNGs and the mean losses are checked, in the ways of both programs. And the best checkpoint. */
#include <jansson.h>
#include <math.h>

#include "data/pascal.h"
#include "data/shapes.h"
#include "eval/best.h"
#include "eval/job.h"
#include "image/decode.h"
#include "io/bundle.h"
#include "io/event.h"
#include "io/file.h"
#include "io/path.h"
#include "io/record.h"
#include "od_json.h"

enum { PICTURES = 5, STEP = 17 };
static char dir[512];

static const char *in_dir(const char *name) {
  static char text[8][1024];
  static int next;
  char *t = text[next++ % 8];
  snprintf(t, sizeof text[0], "%s/%s", dir, name);
  return t;
}

static od_pipeline load(const char *set) {
  char map[1100], records[1100], *path = NULL;
  od_pipeline p;
  snprintf(map, sizeof map, "eval_input_reader.label_map_path=%s", in_dir("label_map.pbtxt"));
  snprintf(records, sizeof records, "eval_input_reader.tf_record_input_reader.input_path=%s",
           in_dir("pictures.record"));
  const char *sets[] = {map,
                        records,
                        "model.ssd.feature_extractor.depth_multiplier=0.25",
                        "model.ssd.image_resizer.fixed_shape_resizer.height=96",
                        "model.ssd.image_resizer.fixed_shape_resizer.width=96",
                        "eval_config.num_visualizations=2",
                        set};
  CHECK_OK(od_pipeline_load(&p, "samples/quickstart.config", sets, set ? 7 : 6));
  od_free(path);
  return p;
}

/* A checkpoint of the model's variables, drawn from a seed. */
static void write_checkpoint(const char *prefix, int64_t step) {
  od_pipeline p = load(NULL);
  od_detector *d;
  CHECK_OK(od_detector_new(&d, &(od_detector_options){.model = p.config->model, .engine = {.threads = 1}}));
  const od_graph *g = od_detector_graph(d);
  od_state *s;
  CHECK_OK(od_state_new(&s, g));
  od_state_init(s, 3);
  *(int64_t *)od_state_tensor(s, "global_step")->data = step;
  od_named_tensor list[512];
  size_t n = od_graph_variables(g);
  CHECK(n < 512);
  for (size_t i = 0; i < n; i++) list[i] = (od_named_tensor){od_graph_variable(g, i)->name, *od_state_at(s, (int)i)};
  CHECK_OK(od_bundle_write(prefix, list, n));
  od_state_free(s);
  od_detector_free(d);
  od_pipeline_free(&p);
}

static int prepare(void **state) {
  (void)state;
  const char *made = od_test_dir();
  CHECK(made);
  snprintf(dir, sizeof dir, "%s", made);
  CHECK_OK(od_shapes_create(&(od_shapes_options){
      .output_dir = dir, .count = PICTURES, .held_out_count = 1, .seed = 1, .held_out_seed = 2, .threads = 1}));
  od_convert_result result = {0};
  CHECK_OK(od_pascal_create(&result, &(od_pascal_options){.data_dir = dir,
                                                          .set = "train",
                                                          .annotations_dir = "Annotations",
                                                          .year = "VOC2007",
                                                          .output_path = in_dir("pictures.record"),
                                                          .label_map_path = in_dir("label_map.pbtxt"),
                                                          .examples = in_dir("train.txt"),
                                                          .threads = 1}));
  write_checkpoint(in_dir("model.ckpt-17"), STEP);
  return 0;
}

static int clean(void **state) {
  (void)state;
  char command[600];
  snprintf(command, sizeof command, "rm -rf '%s'", dir);
  return system(command) == 0 ? 0 : -1;
}

static od_status new_job(od_eval_job **out, const od_pipeline *p, const char *eval_dir, od_eval_style style) {
  return od_eval_job_new(
      out, &(od_eval_job_options){.pipeline = p,
                                  .reader = p->config->n_eval_input_reader ? p->config->eval_input_reader[0] : NULL,
                                  .eval_dir = eval_dir,
                                  .style = style,
                                  .engine = {.threads = 1}});
}

static double metric(const od_eval_job *j, const char *tag) {
  size_t n;
  const od_metric *m = od_eval_job_metrics(j, &n);
  for (size_t i = 0; i < n; i++)
    if (strcmp(m[i].tag, tag) == 0) return m[i].value;
  fail_msg("there is no figure %s", tag);
  return NAN;
}

/* The file whose name begins so; NULL when there is none. */
static const char *file_beginning(const char *folder, const char *begin) {
  static char path[1500];
  od_strings names = OD_STRINGS_INIT;
  CHECK_OK(od_path_list(&names, folder));
  path[0] = 0;
  for (size_t i = 0; i < names.count; i++)
    if (od_starts_with(names.items[i], begin)) snprintf(path, sizeof path, "%s/%s", folder, names.items[i]);
  od_strings_free(&names);
  return path[0] ? path : NULL;
}

/* How many summary values carry a tag, over the whole event file; the scalar of the last one in *last. */
static int count_tag(const char *events, const char *tag, od_value_kind kind, int64_t step, double *last) {
  od_record_reader *r;
  od_view v;
  int n = 0;
  CHECK_OK(od_record_reader_open(&r, events, NULL));
  while (od_record_read(r, &v) == OD_OK) {
    od_event e;
    CHECK_OK(od_event_parse(&e, v));
    if (e.kind != OD_EVENT_SUMMARY) continue;
    od_wire w = od_wire_over(e.payload);
    od_summary_value value;
    while (od_summary_next(&w, &value)) {
      if (value.tag.size != strlen(tag) || memcmp(value.tag.data, tag, value.tag.size) != 0) continue;
      CHECK(value.kind == kind && e.step == step);
      if (last) *last = value.scalar;
      n++;
    }
    CHECK(!w.bad);
  }
  od_record_reader_free(r);
  return n;
}

static void is_picture(const char *path) {
  char *bytes;
  size_t size;
  od_image image = {0};
  CHECK_OK(od_file_read_all(&bytes, &size, path, 0));
  CHECK_OK(od_image_decode(&image, bytes, size, 3));
  CHECK(image.height > 20 && image.width > 20);
  od_image_free(&image);
  od_free(bytes);
}

/* metrics.json holds what the job says, NaN as null. */
static void check_json(const char *folder, const od_eval_job *j) {
  char path[1200];
  size_t n;
  const od_metric *m = od_eval_job_metrics(j, &n);
  snprintf(path, sizeof path, "%s/metrics.json", folder);
  json_t *root = json_file(path), *metrics = json_need(root, "metrics");
  CHECK(json_integer_value(json_need(root, "global_step")) == STEP && json_object_size(metrics) == n);
  for (size_t i = 0; i < n; i++) {
    json_t *v = json_need(metrics, m[i].tag);
    if (isnan(m[i].value))
      CHECK(!json_is_real(v));
    else
      CHECK_NEAR(json_number_value(v), m[i].value, 1e-9 + 1e-6 * fabs(m[i].value));
  }
  json_decref(root);
}

static void as_legacy(void **state) {
  (void)state;
  od_pipeline p = load(NULL);
  od_eval_job *j;
  int64_t step;
  double last;
  const char *folder = in_dir("eval");
  CHECK_OK(new_job(&j, &p, folder, OD_EVAL_LEGACY));
  CHECK_OK(od_eval_job_run(j, in_dir("model.ckpt-17"), &step));
  CHECK(step == STEP && od_eval_job_seconds_per_picture(j) > 0);
  double map = metric(j, "PascalBoxes_Precision/mAP@0.5IOU"), loss = metric(j, "Losses/Loss/classification_loss");
  CHECK(map >= 0 && map < 0.5 && loss > 0 && metric(j, "Losses/Loss/localization_loss") > 0);
  check_json(folder, j);
  const char *events = file_beginning(folder, "events.out.tfevents.");
  CHECK(events);
  CHECK(count_tag(events, "PascalBoxes_Precision/mAP@0.5IOU", OD_VALUE_SCALAR, STEP, &last) == 1);
  CHECK_NEAR(last, map, 1e-6);
  CHECK(count_tag(events, "Losses/Loss/classification_loss", OD_VALUE_SCALAR, STEP, &last) == 1);
  CHECK_NEAR(last, loss, 1e-4 * loss);
  CHECK(count_tag(events, "image-0", OD_VALUE_IMAGE, STEP, NULL) == 1 &&
        count_tag(events, "image-1", OD_VALUE_IMAGE, STEP, NULL) == 1 &&
        count_tag(events, "image-2", OD_VALUE_IMAGE, STEP, NULL) == 0); /* num_visualizations */
  is_picture(in_dir("eval/pictures/image-1.png"));
  CHECK(!od_path_exists(in_dir("eval/pictures/image-2.png")));
  is_picture(in_dir("eval/pictures/confusion.png"));
  /* once more with the same job: the same figures, appended to the same event file */
  CHECK_OK(od_eval_job_run(j, in_dir("model.ckpt-17"), NULL));
  CHECK(metric(j, "Losses/Loss/classification_loss") == loss && metric(j, "PascalBoxes_Precision/mAP@0.5IOU") == map);
  CHECK(count_tag(file_beginning(folder, "events.out.tfevents."), "image-0", OD_VALUE_IMAGE, STEP, NULL) == 2);
  od_eval_job_free(j);
  od_pipeline_free(&p);
}

static void as_model_main(void **state) {
  (void)state;
  od_pipeline p = load("eval_config.include_metrics_per_category=true");
  od_eval_job *j;
  const char *folder = in_dir("eval_model_main");
  CHECK_OK(new_job(&j, &p, folder, OD_EVAL_MODEL_MAIN));
  CHECK_OK(od_eval_job_run(j, in_dir("model.ckpt-17"), NULL));
  CHECK(metric(j, "Loss/classification_loss") > 0);
  check_json(folder, j);
  const char *events = file_beginning(folder, "events.out.tfevents.");
  CHECK(events && count_tag(events, "Detections_Left_Groundtruth_Right/0/0", OD_VALUE_IMAGE, STEP, NULL) == 1);
  CHECK(count_tag(events, "Loss/classification_loss", OD_VALUE_SCALAR, STEP, NULL) == 1);
  is_picture(in_dir("eval_model_main/pictures/image-0.png"));
  od_eval_job_free(j);
  od_pipeline_free(&p);
}

/* sample_1_of_n: one picture of five is looked at. */
static void every_nth_picture(void **state) {
  (void)state;
  od_pipeline p = load(NULL);
  od_eval_job *j;
  od_eval_job_options o = {.pipeline = &p,
                           .reader = p.config->eval_input_reader[0],
                           .eval_dir = in_dir("eval_nth"),
                           .sample_1_of_n = PICTURES,
                           .engine = {.threads = 1}};
  CHECK_OK(od_eval_job_new(&j, &o));
  CHECK_OK(od_eval_job_run(j, in_dir("model.ckpt-17"), NULL));
  is_picture(in_dir("eval_nth/pictures/image-0.png"));
  CHECK(!od_path_exists(in_dir("eval_nth/pictures/image-1.png"))); /* one picture of five */
  od_eval_job_free(j);
  od_pipeline_free(&p);
}

static void refused(const char *set, od_status code, const char *text) {
  od_pipeline p = load(set);
  od_eval_job *j = NULL;
  CHECK_FAILS(new_job(&j, &p, in_dir("refused"), OD_EVAL_LEGACY), code, text);
  CHECK(!j && !od_path_exists(in_dir("refused")));
  od_pipeline_free(&p);
}

static void refusals(void **state) {
  (void)state;
  refused("eval_config.metrics_set=coco_detection_metric", OD_EINVAL, "coco_detection_metric");
  refused("eval_config.eval_instance_masks=true", OD_EUNSUPPORTED, "eval_instance_masks");
  refused("eval_config.export_path=x", OD_EUNSUPPORTED, "export_path");
  refused("eval_input_reader.label_map_path=", OD_EINVAL, "label_map_path is not set");
  refused("eval_input_reader.label_map_path=nowhere.pbtxt", OD_ENOENT, "nowhere.pbtxt");
  refused("model.ssd.num_classes=0", OD_EINVAL, "num_classes is 0");
  od_pipeline p = load(NULL);
  od_eval_job *j = NULL;
  CHECK_FAILS(od_eval_job_new(&j, &(od_eval_job_options){.pipeline = &p, .eval_dir = in_dir("refused")}), OD_EINVAL,
              "no eval_input_reader");
  CHECK_OK(new_job(&j, &p, in_dir("failed"), OD_EVAL_LEGACY));
  CHECK_FAILS(od_eval_job_run(j, in_dir("model.ckpt-18"), NULL), OD_ENOENT, "model.ckpt-18");
  od_stop_request(15);
  CHECK_FAILS(od_eval_job_run(j, in_dir("model.ckpt-17"), NULL), OD_ESTOPPED, "");
  od_stop_request(0);
  CHECK(!od_path_exists(in_dir("failed/metrics.json")));
  CHECK_OK(od_eval_job_run(j, in_dir("model.ckpt-17"), NULL)); /* the job is as good as before */
  od_eval_job_free(j);
  od_eval_job_free(NULL);
  od_pipeline_free(&p);
}

/* ------------------------------------------------------------------------------------------------------ best checkpoint */
static bool note(const char *folder, const char *tag, double value, int64_t step, int patience) {
  bool stop = false;
  char prefix[1100];
  snprintf(prefix, sizeof prefix, "%s/model.ckpt-%lld", dir, (long long)step);
  od_metric m[] = {{"Loss/total", 9}, {tag, value}};
  CHECK_OK(od_best_note(&(od_best_options){.metric = tag, .folder = folder, .keep = true, .patience = patience}, prefix,
                        step, m, 2, &stop));
  return stop;
}

static json_int_t best_step(const char *folder) {
  char path[1100];
  snprintf(path, sizeof path, "%s/best.json", folder);
  json_t *j = json_file(path);
  json_int_t step = json_integer_value(json_need(j, "global_step"));
  json_decref(j);
  return step;
}

static void the_best_is_kept(void **state) {
  (void)state;
  char folder[600];
  snprintf(folder, sizeof folder, "%s/best", dir);
  write_checkpoint(in_dir("model.ckpt-20"), 20);
  write_checkpoint(in_dir("model.ckpt-30"), 30);
  CHECK(!note(folder, "mAP", NAN, 17, 2)); /* nothing to compare with: no best yet */
  CHECK(!od_path_exists(in_dir("best/model.ckpt-17.index")));
  CHECK(!note(folder, "mAP", 0.25, 17, 2));
  CHECK(od_path_exists(in_dir("best/model.ckpt-17.index")) && best_step(folder) == 17);
  CHECK(!note(folder, "mAP", 0.5, 20, 2) && best_step(folder) == 20);
  CHECK(od_path_exists(in_dir("best/model.ckpt-20.index")) && !od_path_exists(in_dir("best/model.ckpt-17.index")) &&
        !od_path_exists(in_dir("best/model.ckpt-17.data-00000-of-00001"))); /* one copy, not all of them */
  CHECK(!note(folder, "mAP", 0.5, 30, 2) && best_step(folder) == 20);       /* equal is not better */
  CHECK(note(folder, "mAP", NAN, 30, 2) && best_step(folder) == 20);
  CHECK(od_path_exists(in_dir("best/model.ckpt-20.index")) && !od_path_exists(in_dir("best/model.ckpt-30.index")));
}

/* Losses are better when smaller, also when the first one was no number. */
static void the_smallest_loss(void **state) {
  (void)state;
  char folder[600];
  snprintf(folder, sizeof folder, "%s/best_loss", dir);
  (void)note(folder, "Losses/x", NAN, 17, 0);
  (void)note(folder, "Losses/x", 3, 17, 0);
  CHECK(best_step(folder) == 17);
  (void)note(folder, "Losses/x", 2, 20, 0);
  CHECK(best_step(folder) == 20);
  (void)note(folder, "Losses/x", 4, 30, 0);
  CHECK(best_step(folder) == 20);
  bool stop;
  od_metric m = {"DetectionBoxes_Precision/mAP", 1};
  CHECK_FAILS(od_best_note(&(od_best_options){.metric = "DetectionBoxes_Precision/mAp", .folder = folder}, "x", 1, &m,
                           1, &stop),
              OD_EINVAL, "did you mean 'DetectionBoxes_Precision/mAP'");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(as_legacy), cmocka_unit_test(as_model_main),    cmocka_unit_test(every_nth_picture),
      cmocka_unit_test(refusals),  cmocka_unit_test(the_best_is_kept), cmocka_unit_test(the_smallest_loss),
  };
  return cmocka_run_group_tests(tests, prepare, clean);
}
