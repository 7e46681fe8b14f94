/* Faster R-CNN: names and shapes of the original's checkpoint, what is refused, both engines over the small models of
 * tests/golden/two_stage, and the folded batch norm against the plain one. */
#include "od_test.h"

#include <math.h>

#include "base/rng.h"
#include "engine/program.h"
#include "io/bundle.h"
#include "model/layers.h"
#include "model/pipeline.h"
#include "ops/math.h"
#include "train/train_graph.h"

/* ---------------------------------------------------------------------------------------------------------- checkpoint */
typedef struct {
  od_graph *g;
  od_model m;
  od_train_graph t;
  od_model_spec spec;
} built;

static od_model_spec inputs(od_graph *g, int64_t k) {
  return (od_model_spec){.training = true,
                         .images = od_input(g, "images", OD_F32, OD_SHAPE(-1, -1, -1, 3)),
                         .true_shapes = od_input(g, "shapes", OD_I32, OD_SHAPE(-1, 3)),
                         .groundtruth = {od_input(g, "boxes", OD_F32, OD_SHAPE(-1, -1, 4)),
                                         od_input(g, "classes", OD_F32, OD_SHAPE(-1, -1, k)),
                                         od_input(g, "weights", OD_F32, OD_SHAPE(-1, -1)),
                                         od_input(g, "count", OD_I32, OD_SHAPE(-1))}};
}

static built build(const od_pb_pipeline *c) {
  built b = {0};
  CHECK_OK(od_graph_new(&b.g));
  b.spec = inputs(b.g, od_model_num_classes(c->model));
  CHECK_OK(od_model_build(&b.m, b.g, c->model, &b.spec));
  CHECK_OK(od_train_graph_build(&b.t, &b.m, c->train_config, OD_PROGRAM_LEGACY));
  return b;
}

/* A fine-tuned faster_rcnn_resnet101 of the original: what it holds is what ours has, name by name. */
static void names_and_shapes_are_the_originals(void **state) {
  (void)state;
  NEED_SHARED(index, "data/checkpoint_names/faster_rcnn_resnet101_finetune/model.ckpt-11.index");
  char path[4096];
  od_bundle *checkpoint;
  od_pipeline p;
  size_t missing = 0, slots = 0;
  CHECK_OK(od_bundle_open(&checkpoint, index));
  snprintf(path, sizeof path, "%.*sfaster_rcnn_resnet101_pets.config", (int)(strrchr(index, '/') - index + 1), index);
  CHECK_OK(od_pipeline_load(&p, path, NULL, 0));
  built b = build(p.config);
  CHECK(od_bundle_count(checkpoint) == 903);
  for (size_t i = 0; i < od_graph_variables(b.g); i++) {
    const od_variable *v = od_graph_variable(b.g, i);
    const od_bundle_entry *e = od_bundle_find(checkpoint, v->name);
    if (!e || !od_shape_equal(&e->shape, &v->shape) || e->dtype != v->dtype) print_message("ours alone: %s\n", v->name), missing++;
    slots += e && strstr(v->name, "/Momentum") != NULL;
  }
  for (size_t i = 0; i < od_bundle_count(checkpoint); i++)
    if (!od_graph_variable_named(b.g, od_bundle_entry_at(checkpoint, i)->name))
      print_message("theirs alone: %s\n", od_bundle_entry_at(checkpoint, i)->name), missing++;
  CHECK(missing == 0 && slots == 322);
  od_graph_free(b.g);
  od_pipeline_free(&p);
  od_bundle_free(checkpoint);
}

/* ------------------------------------------------------------------------------------------------------------- refusals */
static void refused(const char *setting, od_status code, const char *text) {
  od_pipeline p;
  od_graph *g;
  od_model m;
  CHECK_OK(od_pipeline_load(&p, "tests/golden/two_stage/two_sizes.config", NULL, 0));
  CHECK_OK(od_pipeline_set(&p, setting));
  CHECK_OK(od_graph_new(&g));
  od_model_spec spec = inputs(g, od_model_num_classes(p.config->model));
  CHECK_FAILS(od_model_build(&m, g, p.config->model, &spec), code, text);
  od_graph_free(g);
  od_pipeline_free(&p);
}

static void what_is_not_there_is_refused_by_name(void **state) {
  (void)state;
  refused("model.faster_rcnn.number_of_stages=3", OD_EUNSUPPORTED, "Mask R-CNN");
  refused("model.faster_rcnn.context_config={}", OD_EUNSUPPORTED, "Context R-CNN");
  refused("model.faster_rcnn.second_stage_box_predictor={rfcn_box_predictor {}}", OD_EUNSUPPORTED, "R-FCN");
  refused("model.faster_rcnn.feature_extractor.type=faster_rcnn_inception_v2", OD_EUNSUPPORTED, "faster_rcnn_inception_v2");
  refused("model.faster_rcnn.feature_extractor.first_stage_features_stride=32", OD_EINVAL, "8 or 16");
  refused("model.faster_rcnn.inplace_batchnorm_update=true", OD_EINVAL, "inplace_batchnorm_update");
  refused("model.faster_rcnn.use_static_shapes=true", OD_EUNSUPPORTED, "use_static_shapes");
  refused("model.faster_rcnn.use_combined_nms_in_first_stage=true", OD_EUNSUPPORTED, "use_combined_nms_in_first_stage");
  refused("model.faster_rcnn.second_stage_batch_size=25", OD_EINVAL, "first_stage_max_proposals 24");
  refused("model.faster_rcnn.initial_crop_size=0", OD_EINVAL, "initial_crop_size");
  refused("model.faster_rcnn.first_stage_anchor_generator={ssd_anchor_generator {}}", OD_EUNSUPPORTED, "grid_anchor_generator");
  refused("model.faster_rcnn.second_stage_classification_loss={bootstrapped_sigmoid {}}", OD_EINVAL, "bootstrapped_sigmoid");
  refused("model.faster_rcnn.second_stage_classification_loss={penalty_reduced_logistic_focal_loss {}}", OD_EINVAL, "penalty_reduced_logistic_focal_loss");
}

/* -------------------------------------------------------------------------------------------------------------- engines */
enum { BATCH = 2, SIDE = 48, BOXES = 3 };

static od_tensor made(od_dtype dtype, od_shape shape, double lo, double hi, uint64_t key) {
  od_tensor t;
  CHECK_OK(od_tensor_new(&t, dtype, &shape));
  for (int64_t i = 0, n = od_tensor_size(&t); i < n; i++) {
    double v = lo + (hi - lo) * od_rng_f64(key, (uint64_t)i);
    if (dtype == OD_F32) ((float *)t.data)[i] = (float)v;
    else ((int32_t *)t.data)[i] = (int32_t)v;
  }
  return t;
}

/* Two pictures of 48x48, of which the second is 48x32 and padded; the second has 2 boxes and one that does not count. */
static void make_feeds(od_tensor *f, int64_t k) {
  static const float boxes[BATCH * BOXES * 4] = {0.1f, 0.1f, 0.7f, 0.6f, 0.4f, 0.5f, 0.9f, 0.95f, 0.1f, 0.6f, 0.4f, 0.9f,
                                                 0.2f, 0.05f, 0.9f, 0.5f, 0.1f, 0.3f, 0.5f, 0.7f, 0, 0, 0, 0};
  f[0] = made(OD_F32, OD_SHAPE(BATCH, SIDE, SIDE, 3), 0, 255, 1);
  f[1] = made(OD_I32, OD_SHAPE(BATCH, 3), SIDE, SIDE, 1);
  ((int32_t *)f[1].data)[4] = SIDE - 16;
  f[2] = made(OD_F32, OD_SHAPE(BATCH, BOXES, 4), 0, 0, 1);
  memcpy(f[2].data, boxes, sizeof boxes);
  f[3] = made(OD_F32, OD_SHAPE(BATCH, BOXES, k), 0, 0, 1);
  for (int i = 0; i < BATCH * BOXES; i++) ((float *)f[3].data)[i * k + i % k] = 1;
  f[4] = made(OD_F32, OD_SHAPE(BATCH, BOXES), 1, 1, 1);
  f[5] = made(OD_I32, OD_SHAPE(BATCH), BOXES, BOXES, 1);
  ((int32_t *)f[5].data)[1] = BOXES - 1;
}

static double distance(const od_tensor *a, const od_tensor *b) {
  double far = 0, size = 0;
  CHECK(od_shape_equal(&a->shape, &b->shape) && a->dtype == OD_F32);
  for (int64_t i = 0, n = od_tensor_size(a); i < n; i++) {
    double x = (double)((const float *)a->data)[i], y = (double)((const float *)b->data)[i];
    far += (x - y) * (x - y);
    size += x * x;
  }
  return sqrt(far) / fmax(sqrt(size), 1e-6);
}

/* Losses and every gradient of one step on an engine, as copies. */
static int step_on(const char *engine, const built *b, od_tensor *out, od_state *s) {
  od_engine *e;
  od_program *p;
  od_tensor feeds[6];
  od_value feed_values[6] = {b->spec.images, b->spec.true_shapes, b->spec.groundtruth.boxes, b->spec.groundtruth.classes,
                             b->spec.groundtruth.weights, b->spec.groundtruth.count};
  od_value *fetches = NULL;
  od_tensor *got = NULL;
  int n = 0;
  CHECK_OK(od_new(&fetches, (size_t)b->t.n_gradients + OD_NAMED_MAX, sizeof *fetches));
  CHECK_OK(od_new(&got, (size_t)b->t.n_gradients + OD_NAMED_MAX, sizeof *got));
  for (int i = 0; i < b->m.losses.n; i++) fetches[n++] = b->m.losses.item[i].value;
  for (int i = 0; i < b->t.n_gradients; i++) fetches[n++] = b->t.gradients[i].raw;
  make_feeds(feeds, b->m.num_classes);
  CHECK_OK(od_engine_new(&e, &(od_engine_options){.name = engine, .threads = 2}));
  od_program_spec spec = {.graph = b->g, .state = s, .feeds = feed_values, .n_feeds = 6, .fetches = fetches, .n_fetches = n};
  CHECK_OK(od_program_new(&p, e, &spec));
  CHECK_OK(od_program_run(p, feeds, got));
  for (int i = 0; i < n; i++) CHECK_OK(od_tensor_copy(&out[i], &got[i]));
  od_program_free(p);
  od_engine_free(e);
  for (int i = 0; i < 6; i++) od_tensor_free(&feeds[i]);
  od_free(fetches);
  od_free(got);
  return n;
}

static void engines_agree_on(const char *config) {
  const char *const sets[] = {"model.faster_rcnn.feature_extractor.first_stage_features_stride=16",
                              "model.faster_rcnn.first_stage_max_proposals=2", "model.faster_rcnn.second_stage_batch_size=2",
                              "model.faster_rcnn.initial_crop_size=4"};
  od_pipeline p;
  od_state *s;
  od_tensor *a, *b;
  CHECK_OK(od_pipeline_load(&p, config, sets, 4));
  built m = build(p.config);
  CHECK_OK(od_state_new(&s, m.g));
  od_state_init(s, 3);
  size_t n_all = (size_t)m.t.n_gradients + OD_NAMED_MAX;
  CHECK_OK(od_new(&a, n_all, sizeof *a));
  CHECK_OK(od_new(&b, n_all, sizeof *b));
  int n = step_on("ref", &m, a, s);
  CHECK(step_on("cpu", &m, b, s) == n);
  for (int i = 0; i < n; i++) {
    const char *name = i < m.m.losses.n ? m.m.losses.item[i].name : m.t.gradients[i - m.m.losses.n].variable->name;
    double d = distance(&a[i], &b[i]);
    if (!(d <= (i < m.m.losses.n ? 1e-4 : 2e-3))) fail_msg("%s: %s differs by %g", config, name, d);
    od_tensor_free(&a[i]);
    od_tensor_free(&b[i]);
  }
  od_free(a);
  od_free(b);
  od_state_free(s);
  od_graph_free(m.g);
  od_pipeline_free(&p);
}

static void both_engines_give_the_same_step(void **state) {
  (void)state;
  engines_agree_on("tests/golden/two_stage/two_sizes.config");
  engines_agree_on("tests/golden/two_stage/stride8_miner.config");
}

/* ----------------------------------------------------------------------------------------------------------------- fold */
/* Two convolutions with frozen batch norm, relu between; losses and gradients of every variable. */
static int fold_step(bool fold, od_tensor *out, const char **names) {
  od_style s = {.activation = OD_ACT_RELU, .batch_norm = true, .bn_epsilon = 1e-5f, .bn_center = true, .bn_scale = true, .bn_fold = fold,
                .init = OD_WINIT_VARIANCE_SCALING, .factor = 2};
  od_graph *g;
  od_state *st;
  od_engine *e;
  od_program *p;
  od_value wrt[16], grads[16];
  od_tensor got[17];
  int n = 0;
  CHECK_OK(od_graph_new(&g));
  od_value x = od_input(g, "x", OD_F32, OD_SHAPE(-1, -1, -1, 5));
  od_value y = od_layer_conv(g, &s, "a", x, &(od_layer){.channels = 9, .kernel_h = 3, .kernel_w = 3, .stride = 2, .explicit_padding = true});
  y = od_layer_conv(g, &s, "b", y, &(od_layer){.channels = 7, .kernel_h = 1, .kernel_w = 1});
  od_value loss = od_l2_loss(g, y);
  for (size_t i = 0; i < od_graph_variables(g); i++)
    if (od_graph_variable(g, i)->trainable) {
      names[n] = strstr(od_graph_variable(g, i)->name, "gamma") ? "gamma" : strstr(od_graph_variable(g, i)->name, "beta") ? "beta" : "weights";
      wrt[n++] = od_graph_variable(g, i)->value;
    }
  CHECK(n == 6);
  CHECK_OK(od_gradients(grads, g, loss, wrt, n));
  grads[n] = loss;
  CHECK_OK(od_state_new(&st, g));
  od_state_init(st, 1);
  for (size_t i = 0; i < od_graph_variables(g); i++) { /* gammas, means and variances that are not 1 and 0 */
    const od_variable *v = od_graph_variable(g, i);
    od_tensor *t = od_state_at(st, v->index);
    for (int64_t k = 0; k < od_tensor_size(t) && v->shape.rank == 1; k++)
      ((float *)t->data)[k] = (float)(0.4 + od_rng_f64(od_hash_text(v->name), (uint64_t)k));
  }
  od_state_touch(st);
  od_tensor feed = made(OD_F32, OD_SHAPE(2, 11, 13, 5), -1, 1, 9);
  CHECK_OK(od_engine_new(&e, &(od_engine_options){.name = "cpu", .threads = 2}));
  od_program_spec spec = {.graph = g, .state = st, .feeds = &x, .n_feeds = 1, .fetches = grads, .n_fetches = n + 1};
  CHECK_OK(od_program_new(&p, e, &spec));
  CHECK_OK(od_program_run(p, &feed, got));
  for (int i = 0; i <= n; i++) CHECK_OK(od_tensor_copy(&out[i], &got[i]));
  od_program_free(p);
  od_engine_free(e);
  od_tensor_free(&feed);
  od_state_free(st);
  od_graph_free(g);
  return n + 1;
}

static void folded_batch_norm_equals_the_plain_one(void **state) {
  (void)state;
  od_tensor plain[17], folded[17];
  const char *names[17];
  int n = fold_step(false, plain, names);
  names[n - 1] = "loss";
  CHECK(fold_step(true, folded, names) == n);
  for (int i = 0; i < n; i++) {
    double d = distance(&plain[i], &folded[i]);
    if (!(d <= 2e-5)) fail_msg("%s (%d) differs by %g", i == n - 1 ? "loss" : names[i], i, d);
    od_tensor_free(&plain[i]);
    od_tensor_free(&folded[i]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_and_shapes_are_the_originals),
      cmocka_unit_test(what_is_not_there_is_refused_by_name),
      cmocka_unit_test(folded_batch_norm_equals_the_plain_one),
      cmocka_unit_test(both_engines_give_the_same_step),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
