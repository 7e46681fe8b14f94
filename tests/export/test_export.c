/* Export of a small SSD: files, signature, and the written graph run by the interpreter against the engine. With
 * OBJDET_EXPORT_DIR set, the exports, the pictures and the engine's outputs stay there for tests/witness/check_export.py. */
#include "od_test.h"

#include "engine/program.h"
#include "export/export.h"
#include "export/graphdef.h"
#include "io/bundle.h"
#include "io/path.h"
#include "model/pipeline.h"
#include "ops/nn.h"

enum { BATCH = 2, HEIGHT = 97, WIDTH = 130 };

/* A trained-looking SSD: batch norm statistics and gammas drawn, class predictor scaled so that scores spread. */
typedef struct {
  od_pipeline pipeline;
  od_graph *graph;
  od_state *state;
  od_model model;
  od_value images;
  od_export_output outputs[OD_EXPORT_OUTPUTS];
  const char *names[OD_EXPORT_OUTPUTS];
  od_tensor want[OD_EXPORT_OUTPUTS], regions; /* regions: no data where the model cuts none */
  int n;
  od_tensor pictures;
  od_export_spec spec;
} fixture;

static void draw_pictures(od_tensor *t, int64_t batch, int64_t h, int64_t w, od_key key) {
  CHECK_OK(od_tensor_new(t, OD_U8, &OD_SHAPE(batch, h, w, 3)));
  uint8_t *p = t->data;
  for (int64_t i = 0, n = od_tensor_size(t); i < n; i++) { /* coarse blocks with noise on top */
    int64_t x = i / 3 % w, y = i / 3 / w % h, b = i / 3 / w / h;
    uint64_t coarse = od_rng_below(od_key_mix(key, 7), (uint64_t)(((b * 40 + y / 13) * 40 + x / 13) * 3 + i % 3), 200);
    p[i] = (uint8_t)(coarse + od_rng_below(key, (uint64_t)i, 56));
  }
}

static void draw_state(od_state *s, const od_graph *g) {
  for (size_t i = 0; i < od_graph_variables(g); i++) {
    const od_variable *v = od_graph_variable(g, i);
    od_tensor *t = od_state_at(s, v->index);
    od_key key = od_key_name(11, v->name);
    float *p = t->data;
    if (v->dtype != OD_F32) continue;
    bool gamma = od_ends_with(v->name, "gamma"), variance = od_ends_with(v->name, "moving_variance");
    bool weights = od_ends_with(v->name, "weights");
    int64_t fan = weights ? od_tensor_size(t) / v->shape.dim[v->shape.rank - 1] : 1;
    if (od_ends_with(v->name, "depthwise_weights")) fan = v->shape.dim[0] * v->shape.dim[1];
    float scale = weights ? 2.4f / (float)__builtin_sqrt((double)fan) : 0.2f, middle = gamma || variance ? 1.0f : 0.0f;
    /* residual nets: pictures are 0..255, and what a block adds is small beside what passes it */
    bool residual = strstr(v->name, "resnet_v1") != NULL;
    if (residual && weights && v->shape.dim[2] == 3) scale /= 64;
    if (residual && gamma && strstr(v->name, "/conv3/")) middle /= 8, scale /= 8;
    if (weights && strstr(v->name, "StageBoxPredictor/")) scale /= 4;
    for (int64_t k = 0, n = od_tensor_size(t); k < n; k++)
      p[k] = middle + scale * (2 * od_rng_f32(key, (uint64_t)k) - 1);
  }
  od_state_touch(s);
}

static const od_tensor *regions(const fixture *f) { return f->regions.data ? &f->regions : NULL; }

/* What the engine gives for the pictures; detection_classes shifted as the export does it. */
static void run_engine(fixture *f) {
  od_engine *engine;
  od_program *program;
  od_value fetches[OD_EXPORT_OUTPUTS + 1];
  od_tensor views[OD_EXPORT_OUTPUTS + 1], floats;
  for (int i = 0; i < f->n; i++) fetches[i] = f->outputs[i].value;
  fetches[f->n] = od_export_regions(f->graph);
  CHECK_OK(od_engine_new(&engine, &(od_engine_options){.name = "cpu", .threads = 1}));
  CHECK_OK(od_program_new(&program, engine,
                          &(od_program_spec){.graph = f->graph,
                                             .state = f->state,
                                             .feeds = &f->images,
                                             .n_feeds = 1,
                                             .fetches = fetches,
                                             .n_fetches = f->n + 1}));
  CHECK_OK(od_tensor_new(&floats, OD_F32, &f->pictures.shape));
  for (int64_t i = 0, n = od_tensor_size(&floats); i < n; i++)
    ((float *)floats.data)[i] = ((const uint8_t *)f->pictures.data)[i];
  CHECK_OK(od_program_run(program, &floats, views));
  for (int i = 0; i < f->n; i++) {
    CHECK_OK(od_tensor_copy(&f->want[i], &views[i]));
    for (int64_t k = 0; f->outputs[i].add != 0 && k < od_tensor_size(&f->want[i]); k++)
      ((float *)f->want[i].data)[k] += f->outputs[i].add;
  }
  if (views[f->n].data) CHECK_OK(od_tensor_copy(&f->regions, &views[f->n]));
  od_tensor_free(&floats);
  od_program_free(program);
  od_engine_free(engine);
}

/* Builds the model of a config, draws its variables, exports nothing yet. */
static void build(fixture *f, const char *config, const char *const *sets, size_t n_sets) {
  memset(f, 0, sizeof *f);
  CHECK_OK(od_pipeline_load(&f->pipeline, config, sets, n_sets));
  CHECK_OK(od_graph_new(&f->graph));
  f->images = od_input(f->graph, "images", OD_F32, OD_SHAPE(-1, -1, -1, 3));
  CHECK_OK(od_model_build(&f->model, f->graph, f->pipeline.config->model,
                          &(od_model_spec){.images = f->images, .resize = true}));
  CHECK_OK(od_state_new(&f->state, f->graph));
  draw_state(f->state, f->graph);
  f->n = od_export_model_outputs(f->outputs, &f->model);
  CHECK(f->n >= 7);
  for (int i = 0; i < f->n; i++) f->names[i] = f->outputs[i].name;
  f->spec = (od_export_spec){.graph = f->graph,
                             .images = f->images,
                             .state = f->state,
                             .outputs = f->outputs,
                             .n_outputs = f->n,
                             .pipeline_text = "# the config\n",
                             .global_step = 1234,
                             .inference_graph = true};
}

static void release(fixture *f) {
  for (int i = 0; i < f->n; i++) od_tensor_free(&f->want[i]);
  od_tensor_free(&f->regions);
  od_tensor_free(&f->pictures);
  od_state_free(f->state);
  od_graph_free(f->graph);
  od_pipeline_free(&f->pipeline);
}

static int setup(void **state) {
  static fixture f;
  static const char *const sets[] = {"model.ssd.num_classes=5", "model.ssd.image_resizer.fixed_shape_resizer.height=96",
                                     "model.ssd.image_resizer.fixed_shape_resizer.width=96",
                                     "model.ssd.feature_extractor.depth_multiplier=0.25"};
  build(&f, "samples/configs/ssd_mobilenet_v1_pets.config", sets, 4);
  draw_pictures(&f.pictures, BATCH, HEIGHT, WIDTH, 3);
  run_engine(&f);
  *state = &f;
  return 0;
}

static int teardown(void **state) {
  release(*state);
  return 0;
}

static const char *folder(void) {
  const char *kept = getenv("OBJDET_EXPORT_DIR");
  return kept ? kept : od_test_dir();
}

/* NumPy's file: so that the checks in Python read what the engine gave. */
static void save_npy(const char *dir, const char *name, const od_tensor *t) {
  char head[128], path[600], dims[64] = "";
  size_t at = 0;
  for (int i = 0; i < t->shape.rank; i++)
    at += (size_t)snprintf(dims + at, sizeof dims - at, "%lld,", (long long)t->shape.dim[i]);
  int n = snprintf(head, sizeof head, "%s{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", "",
                   t->dtype == OD_U8 ? "|u1" : "<f4", dims);
  od_str s = OD_STR_INIT;
  od_str_add_bytes(&s, "\x93NUMPY\x01\x00\x76\x00", 10);
  od_str_add_bytes(&s, head, (size_t)n);
  for (int i = n; i < 117; i++) od_str_add(&s, " ");
  od_str_add(&s, "\n");
  od_str_add_bytes(&s, t->data, od_tensor_bytes(t));
  snprintf(path, sizeof path, "%s/%s.npy", dir, name);
  CHECK_OK(od_file_write_all(path, s.data, s.len));
  od_str_free(&s);
}

static void all_inputs_give_the_engines_detections(void **state) {
  fixture *f = *state;
  const char *dir = folder();
  od_parity p;
  char path[600];
  for (int input = 0; od_export_input_name(input); input++) {
    f->spec.input = (od_export_input)input;
    snprintf(path, sizeof path, "%s/%s", dir, od_export_input_name(input));
    CHECK_OK(od_export_write(path, &f->spec, NULL, NULL));
    CHECK_OK(od_export_check(&p, path, &f->pictures, f->names, f->want, f->n, regions(f)));
    CHECK(p.detections > 20);
    CHECK(p.raw < 1e-4 && p.score < 1e-4 && p.box < 1e-4 && p.unmatched == 0);
    snprintf(path, sizeof path, "%s/%s/saved_model", dir, od_export_input_name(input));
    CHECK_OK(od_export_check(&p, path, &f->pictures, f->names, f->want, f->n, regions(f)));
  }
  f->spec.input = OD_EXPORT_IMAGE_TENSOR;
  for (int i = 0; i < f->n; i++) save_npy(dir, f->names[i], &f->want[i]);
  save_npy(dir, "pictures", &f->pictures);
}

/* Every shipped SSD: the written graph gives what the engine gives. */
static void all_shipped_configs(void **state) {
  (void)state;
  static const char *const names[] = {"ssd_mobilenet_v1_pets",
                                      "ssd_mobilenet_v1_coco",
                                      "ssd_mobilenet_v1_focal_loss_pets",
                                      "ssd_mobilenet_v1_300x300_coco14_sync",
                                      "ssd_mobilenet_v1_0.75_depth_300x300_coco14_sync",
                                      "ssd_mobilenet_v2_coco",
                                      "ssd_mobilenet_v2_oid_v4",
                                      "ssd_mobilenet_v2_fullyconv_coco",
                                      "ssdlite_mobilenet_v1_coco",
                                      "ssdlite_mobilenet_v2_coco"};
  static fixture f;
  char path[600];
  od_parity p;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    snprintf(path, sizeof path, "samples/configs/%s.config", names[i]);
    build(&f, path, NULL, 0);
    draw_pictures(&f.pictures, 1, 120, 90, 17 + i);
    run_engine(&f);
    snprintf(path, sizeof path, "%s/%s.pb", od_test_dir(), names[i]);
    CHECK_OK(od_export_frozen_graph(path, &f.spec));
    od_status st = od_export_check(&p, path, &f.pictures, f.names, f.want, f.n, regions(&f));
    if (st != OD_OK) fail_msg("%s: %s", names[i], od_message());
    CHECK(p.detections > 0);
    unlink(path);
    release(&f);
  }
}

/* A two-stage graph at five sizes. With OBJDET_EXPORT_DIR its exports stay in two_stage/, pictures and figures of size k in
 * two_stage/k/. */
static void two_stages_at_five_sizes(void **state) {
  (void)state;
  static const char *const sets[] = {"model.faster_rcnn.num_classes=5",
                                     "model.faster_rcnn.image_resizer.keep_aspect_ratio_resizer.min_dimension=96",
                                     "model.faster_rcnn.image_resizer.keep_aspect_ratio_resizer.max_dimension=128",
                                     "model.faster_rcnn.first_stage_max_proposals=24"};
  static const int sizes[5][2] = {{96, 128}, {120, 90}, {61, 200}, {240, 320}, {101, 99}};
  static fixture f;
  const bool keep = getenv("OBJDET_EXPORT_DIR") != NULL;
  char dir[300], path[600];
  od_parity p;
  build(&f, "samples/configs/faster_rcnn_resnet50_pets.config", sets, sizeof sets / sizeof *sets);
  snprintf(dir, sizeof dir, "%s/two_stage", folder());
  snprintf(path, sizeof path, "%s.pb", dir);
  if (!keep) CHECK_OK(od_export_frozen_graph(path, &f.spec));
  for (int input = 0; keep && input < 2; input++) {
    f.spec.input = (od_export_input)input;
    snprintf(path, sizeof path, "%s/%s", dir, od_export_input_name(input));
    CHECK_OK(od_export_write(path, &f.spec, NULL, NULL));
  }
  for (int k = 0; k < 5; k++) {
    draw_pictures(&f.pictures, 1, sizes[k][0], sizes[k][1], 40 + (od_key)k);
    run_engine(&f);
    CHECK_OK(od_export_check(&p, path, &f.pictures, f.names, f.want, f.n, regions(&f)));
    CHECK(p.detections > 5);
    CHECK(p.raw < 1e-4 && p.score < 1e-4 && p.box < 1e-4 && p.rows_off == 0 && p.unmatched == 0);
    char at[400];
    snprintf(at, sizeof at, "%s/%d", dir, k);
    if (keep) CHECK_OK(od_path_make_dirs(at));
    for (int i = 0; keep && i < f.n; i++) save_npy(at, f.names[i], &f.want[i]);
    if (keep) save_npy(at, "pictures", &f.pictures);
    if (keep) save_npy(at, "regions", &f.regions);
    od_tensor_free(&f.pictures);
    for (int i = 0; i < f.n; i++) od_tensor_free(&f.want[i]);
    od_tensor_free(&f.regions);
  }
  if (!keep) unlink(path);
  release(&f);
}

static void other_sizes_and_batches_run(void **state) {
  fixture *f = *state;
  char path[600];
  od_tfgraph *g;
  snprintf(path, sizeof path, "%s/any.pb", od_test_dir());
  CHECK_OK(od_export_frozen_graph(path, &f->spec));
  CHECK_OK(od_tfgraph_open(&g, path));
  for (int64_t size = 1; size < 400; size = size * 3 + 17) {
    od_tensor pictures, got;
    draw_pictures(&pictures, size % 3 + 1, size, 2 * size + 1, 9);
    CHECK_OK(od_tfgraph_run(g, &(od_tfgraph_feed){"image_tensor", pictures}, 1,
                            (const char *const[]){"detection_boxes:0"}, 1, &got));
    CHECK(got.shape.dim[0] == size % 3 + 1 && got.shape.dim[2] == 4);
    od_tensor_free(&got);
    od_tensor_free(&pictures);
  }
  od_tfgraph_free(g);
}

static void the_directory_holds_what_the_original_leaves(void **state) {
  fixture *f = *state;
  static const char *const files[] = {"frozen_inference_graph.pb", "saved_model/saved_model.pb",
                                      "model.ckpt.index",          "model.ckpt.data-00000-of-00001",
                                      "model.ckpt.meta",           "checkpoint",
                                      "pipeline.config",           "inference_graph.pbtxt"};
  char dir[300], path[600];
  snprintf(dir, sizeof dir, "%s/output_inference_graph.pb", od_test_dir());
  CHECK_OK(od_export_write(dir, &f->spec, NULL, NULL));
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    snprintf(path, sizeof path, "%s/%s", dir, files[i]);
    CHECK(od_path_is_file(path));
  }
  snprintf(path, sizeof path, "%s/saved_model/variables", dir);
  CHECK(od_path_is_dir(path));
  od_bundle *b;
  od_tensor step;
  CHECK_OK(od_bundle_open(&b, dir));
  CHECK_OK(od_bundle_read(&step, b, "global_step"));
  CHECK(*(const int64_t *)step.data == 1234);
  CHECK(od_bundle_count(b) == od_graph_variables(f->graph) + 1);
  od_tensor_free(&step);
  od_bundle_free(b);
}

/* Compares the file with figures that are one of them wrong. */
static od_status judge(void *ctx, const char *frozen_graph) {
  fixture *f = ctx;
  od_parity p;
  CHECK(od_path_is_file(frozen_graph));
  return od_export_check(&p, frozen_graph, &f->pictures, f->names, f->want, f->n, regions(f));
}

static size_t entries(const char *folder) {
  od_strings names = {0};
  CHECK_OK(od_path_list(&names, folder));
  size_t n = names.count;
  od_strings_free(&names);
  return n;
}

/* The check at export fails: no directory appears, or the one that is there stays as it was; once it passes, files are replaced. */
static void a_failed_check_leaves_nothing(void **state) {
  fixture *f = *state;
  char dir[300], out[400], graph[600], note[600];
  snprintf(dir, sizeof dir, "%s/failing", od_test_dir());
  snprintf(out, sizeof out, "%s/exported//", dir);
  snprintf(graph, sizeof graph, "%s/exported/frozen_inference_graph.pb", dir);
  snprintf(note, sizeof note, "%s/exported/note.txt", dir);
  CHECK_OK(od_path_make_dirs(dir));
  float *wrong = f->want[0].data, right = *wrong;
  *wrong = right + 1;
  CHECK_FAILS(od_export_write(out, &f->spec, judge, f), OD_EMISMATCH, "");
  CHECK(entries(dir) == 0);
  CHECK_OK(od_path_make_dirs(out));
  CHECK_OK(od_file_write_all(graph, "old", 3));
  CHECK_OK(od_file_write_all(note, "mine", 4));
  CHECK_FAILS(od_export_write(out, &f->spec, judge, f), OD_EMISMATCH, "");
  CHECK(entries(dir) == 1 && entries(out) == 2);
  char *text;
  size_t size;
  CHECK_OK(od_file_read_all(&text, &size, graph, 0));
  CHECK(size == 3);
  od_free(text);
  *wrong = right;
  CHECK_OK(od_export_write(out, &f->spec, judge, f));
  CHECK(entries(dir) == 1 && od_path_is_file(note));
  CHECK_OK(od_file_read_all(&text, &size, graph, 0));
  CHECK(size > 1000);
  od_free(text);
  CHECK_FAILS(od_export_write(note, &f->spec, judge, f), OD_EINVAL, "is a file");
}

static void signature_and_bytes(void **state) {
  fixture *f = *state;
  const char *dir = od_test_dir();
  char a[300], b[300];
  od_tfgraph *g;
  snprintf(a, sizeof a, "%s/a", dir);
  snprintf(b, sizeof b, "%s/b", dir);
  CHECK_OK(od_export_saved_model(a, &f->spec));
  CHECK_OK(od_export_saved_model(b, &f->spec));
  char *x, *y;
  size_t nx, ny;
  strcat(a, "/saved_model.pb");
  strcat(b, "/saved_model.pb");
  CHECK_OK(od_file_read_all(&x, &nx, a, 0));
  CHECK_OK(od_file_read_all(&y, &ny, b, 0));
  CHECK(nx == ny && memcmp(x, y, nx) == 0);
  od_free(x);
  od_free(y);
  CHECK_OK(od_tfgraph_open(&g, a));
  CHECK_TEXT(od_tfgraph_input(g, 0)->key, "inputs");
  CHECK_TEXT(od_tfgraph_input(g, 0)->tensor, "image_tensor:0");
  CHECK_TEXT(od_tfgraph_output(g, 0)->key, "detection_boxes");
  const od_shape *s = &od_tfgraph_output(g, 0)->shape;
  CHECK(s->rank == 3 && s->dim[0] == -1 && s->dim[1] == 100 && s->dim[2] == 4);
  od_tfgraph_free(g);
}

static void what_cannot_be_exported_is_named(void **state) {
  fixture *f = *state;
  od_export_spec spec = f->spec;
  od_tf *t;
  spec.input = OD_EXPORT_TF_EXAMPLE;
  spec.input_shape = OD_SHAPE(1, 10, 10, 3);
  CHECK_FAILS(od_export_graphdef(&t, &spec, true), OD_EUNSUPPORTED, "image_tensor");
  od_export_input input;
  CHECK_FAILS(od_export_input_from_name(&input, "image"), OD_EUSAGE, "tf_example");
  /* a training-only op */
  od_graph *g;
  od_state *s;
  CHECK_OK(od_graph_new(&g));
  od_value x = od_input(g, "x", OD_F32, OD_SHAPE(-1, -1, -1, 3));
  od_value y = od_graph_add(g, od_op_find("relu6_grad"), (od_value[]){x, x}, 2, NULL);
  CHECK_OK(od_state_new(&s, g));
  od_export_output out = {"y", y, 0};
  spec = (od_export_spec){.graph = g, .images = x, .state = s, .outputs = &out, .n_outputs = 1};
  CHECK_FAILS(od_export_graphdef(&t, &spec, true), OD_EUNSUPPORTED, "relu6_grad");
  od_state_free(s);
  od_graph_free(g);
}

/* Each kind of difference is seen. */
static void comparison_sees_differences(void **state) {
  fixture *f = *state;
  od_tensor got[OD_EXPORT_OUTPUTS];
  od_parity p;
  for (int k = 0; k < f->n; k++) {
    for (int i = 0; i < f->n; i++) CHECK_OK(od_tensor_copy(&got[i], &f->want[i]));
    CHECK_OK(od_export_compare(&p, f->names, got, f->want, f->n));
    CHECK(p.raw == 0 && p.box == 0 && p.score == 0);
    float *first = got[k].data, old = *first;
    *first = old + (strcmp(f->names[k], "detection_scores") == 0              ? 0.1f * old
                    : strcmp(f->names[k], "detection_multiclass_scores") == 0 ? 0.5f
                                                                              : 1.0f);
    CHECK_FAILS(od_export_compare(&p, f->names, got, f->want, f->n), OD_EMISMATCH, "");
    *first = (float)__builtin_nan("");
    CHECK_FAILS(od_export_compare(&p, f->names, got, f->want, f->n), OD_EMISMATCH, "");
    for (int i = 0; i < f->n; i++) od_tensor_free(&got[i]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_shipped_configs),           cmocka_unit_test(all_inputs_give_the_engines_detections),
      cmocka_unit_test(other_sizes_and_batches_run),   cmocka_unit_test(the_directory_holds_what_the_original_leaves),
      cmocka_unit_test(signature_and_bytes),           cmocka_unit_test(what_cannot_be_exported_is_named),
      cmocka_unit_test(two_stages_at_five_sizes),      cmocka_unit_test(comparison_sees_differences),
      cmocka_unit_test(a_failed_check_leaves_nothing),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
