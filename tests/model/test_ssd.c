/* SSD models from configs: variables of the ten shipped configs as the original has them (golden files) and as the published
 * checkpoints hold them, every option that changes what is built, and a message for everything that is refused. */
#include "engine/program.h"
#include "io/bundle.h"
#include "model/model.h"
#include "model/pipeline.h"
#include "od_json.h"

static const char *const shipped[] = {"ssd_mobilenet_v1_pets",
                                      "ssd_mobilenet_v1_coco",
                                      "ssd_mobilenet_v1_focal_loss_pets",
                                      "ssd_mobilenet_v1_300x300_coco14_sync",
                                      "ssd_mobilenet_v1_0.75_depth_300x300_coco14_sync",
                                      "ssd_mobilenet_v2_coco",
                                      "ssd_mobilenet_v2_oid_v4",
                                      "ssd_mobilenet_v2_fullyconv_coco",
                                      "ssdlite_mobilenet_v1_coco",
                                      "ssdlite_mobilenet_v2_coco"};
enum { N_SHIPPED = sizeof shipped / sizeof *shipped };

typedef struct {
  od_pipeline pipeline;
  od_graph *g;
  od_model model;
  od_value images;
} built;

typedef enum { INFERENCE, TRAINING } purpose;

/* sets: "path=value" separated by spaces. */
static od_status load(built *b, const char *config, const char *sets) {
  char path[256], copy[512];
  const char *list[16];
  size_t n = 0;
  snprintf(path, sizeof path, "samples/configs/%s.config", config);
  snprintf(copy, sizeof copy, "%s", sets);
  for (char *at = strtok(copy, " "); at && n < 16; at = strtok(NULL, " ")) list[n++] = at;
  return od_pipeline_load(&b->pipeline, path, list, n);
}

static od_status make(built *b, purpose why) {
  OD_TRY(od_graph_new(&b->g));
  od_graph *g = b->g;
  int64_t k = od_model_num_classes(b->pipeline.config->model);
  b->images = od_input(g, "images", OD_F32, OD_SHAPE(-1, -1, -1, 3));
  od_model_spec spec = {.training = why == TRAINING,
                        .images = b->images,
                        .true_shapes = od_input(g, "true_shapes", OD_I32, OD_SHAPE(-1, 3))};
  spec.groundtruth = (od_groundtruth){
      od_input(g, "boxes", OD_F32, OD_SHAPE(-1, -1, 4)), od_input(g, "classes", OD_F32, OD_SHAPE(-1, -1, k)),
      od_input(g, "weights", OD_F32, OD_SHAPE(-1, -1)), od_input(g, "count", OD_I32, OD_SHAPE(-1))};
  OD_TRY(od_model_build(&b->model, g, b->pipeline.config->model, &spec));
  return od_graph_check(g);
}

static void drop(built *b) {
  od_graph_free(b->g);
  od_pipeline_free(&b->pipeline);
}

static built build(const char *config, const char *sets, purpose why) {
  built b = {0};
  CHECK_OK(load(&b, config, sets));
  CHECK_OK(make(&b, why));
  return b;
}

static const od_variable *variable(const built *b, const char *name) {
  const od_variable *v = od_graph_variable_named(b->g, name);
  if (!v) fail_msg("there is no variable %s", name);
  return v;
}

static void has_shape(const built *b, const char *name, od_shape shape) {
  const od_variable *v = variable(b, name);
  char have[OD_SHAPE_TEXT], want[OD_SHAPE_TEXT];
  if (!od_shape_equal(&v->shape, &shape))
    fail_msg("%s is %s, expected %s", name, od_shape_text(have, &v->shape), od_shape_text(want, &shape));
}

static bool has(const built *b, const char *name) { return od_graph_variable_named(b->g, name) != NULL; }

/* ------------------------------------------------------------------------------------------------- names of the original */
static void as_golden(const char *config, json_t *variables) {
  built b = build(config, "", TRAINING);
  const char *name;
  json_t *v;
  CHECK(json_object_size(variables) == od_graph_variables(b.g));
  json_object_foreach(variables, name, v) {
    od_shape shape = {0, {0}};
    json_t *dims = json_need(v, "shape");
    for (size_t i = 0; i < json_array_size(dims); i++)
      shape.dim[shape.rank++] = json_integer_value(json_array_get(dims, i));
    has_shape(&b, name, shape);
    if (variable(&b, name)->trainable != json_is_true(json_need(v, "trainable")))
      fail_msg("%s: %s is wrongly trainable or not", config, name);
    CHECK(variable(&b, name)->model);
  }
  drop(&b);
}

static void variables_of_the_shipped_configs(void **state) {
  (void)state;
  int compared = 0;
  for (int i = 0; i < N_SHIPPED; i++) {
    char path[256];
    snprintf(path, sizeof path, "tests/golden/configs/%s.json", shipped[i]);
    const char *file = path;
    if (access(path, R_OK) != 0) {
      snprintf(path, sizeof path, "witness/golden/%s.json", shipped[i]);
      file = od_shared(path);
      if (!file) {
        print_message("SKIPPED: %s needs shared data %s\n", shipped[i], path);
        continue;
      }
    }
    json_t *golden = json_file(file);
    as_golden(shipped[i], json_need(golden, "variables"));
    json_decref(golden);
    compared++;
  }
  CHECK(compared >= 7); /* those in the repository */
}

/* Every variable of the model stands in the published checkpoint, in the same shape. */
static void as_published(const char *config, const char *folder) {
  char path[256];
  snprintf(path, sizeof path, "data/checkpoint_names/%s/model.ckpt.index", folder);
  NEED_SHARED(index, path);
  built b = build(config, "", INFERENCE);
  od_bundle *bundle;
  CHECK_OK(od_bundle_open(&bundle, index));
  for (size_t i = 0; i < od_graph_variables(b.g); i++) {
    const od_variable *v = od_graph_variable(b.g, i);
    const od_bundle_entry *e = od_bundle_find(bundle, v->name);
    if (!e) fail_msg("%s is not in the published checkpoint", v->name);
    if (!od_shape_equal(&e->shape, &v->shape)) fail_msg("%s has another shape there", v->name);
  }
  od_bundle_free(bundle);
  drop(&b);
}

static void names_of_the_published_v1(void **state) {
  (void)state;
  as_published("ssd_mobilenet_v1_coco", "ssd_mobilenet_v1_coco_2018_01_28");
}

static void names_of_the_published_v2_lite(void **state) {
  (void)state;
  as_published("ssdlite_mobilenet_v2_coco", "ssdlite_mobilenet_v2_coco_2018_05_09");
}

/* ----------------------------------------------------------------------------------------------------------- variants */
#define BASE      "FeatureExtractor/MobilenetV1/"
#define V2        "FeatureExtractor/MobilenetV2/"
#define FE        "model.ssd.feature_extractor."
#define ANCHORS   "model.ssd.anchor_generator.ssd_anchor_generator."
#define POST      "model.ssd.post_processing."
#define PREDICTOR "model.ssd.box_predictor.convolutional_box_predictor."

static void depths(void **state) {
  (void)state;
  built b = build("ssd_mobilenet_v1_coco", FE "depth_multiplier=0.5", TRAINING);
  has_shape(&b, BASE "Conv2d_0/weights", OD_SHAPE(3, 3, 3, 16));
  has_shape(&b, BASE "Conv2d_13_pointwise/weights", OD_SHAPE(1, 1, 512, 512));
  has_shape(&b, BASE "Conv2d_13_pointwise_2_Conv2d_2_3x3_s2_256/weights", OD_SHAPE(3, 3, 128, 256));
  drop(&b);
  b = build("ssd_mobilenet_v1_coco", FE "depth_multiplier=0.25 " FE "min_depth=48", TRAINING);
  has_shape(&b, BASE "Conv2d_0/weights", OD_SHAPE(3, 3, 3, 48));
  has_shape(&b, BASE "Conv2d_3_pointwise/weights", OD_SHAPE(1, 1, 48, 48));
  has_shape(&b, BASE "Conv2d_13_pointwise_1_Conv2d_5_1x1_48/weights", OD_SHAPE(1, 1, 64, 48));
  drop(&b);
  b = build("ssd_mobilenet_v2_coco", FE "depth_multiplier=1.4", TRAINING); /* rounded to multiples of 8 */
  has_shape(&b, V2 "Conv/weights", OD_SHAPE(3, 3, 3, 48));
  has_shape(&b, V2 "expanded_conv/project/weights", OD_SHAPE(1, 1, 48, 24));
  has_shape(&b, V2 "Conv_1/weights", OD_SHAPE(1, 1, 448, 1792));
  CHECK(!has(&b, V2 "expanded_conv/expand/weights"));
  drop(&b);
}

static void numbers_of_maps(void **state) {
  (void)state;
  for (int n = 1; n <= 6; n++) {
    char sets[256];
    snprintf(sets, sizeof sets, FE "num_layers=%d " ANCHORS "num_layers=%d%s", n, n,
             n == 1 ? " " ANCHORS "scales=0.2" : "");
    built b = build("ssd_mobilenet_v1_coco", sets, TRAINING);
    char name[96];
    for (int i = 0; i < 6; i++) {
      snprintf(name, sizeof name, "BoxPredictor_%d/ClassPredictor/weights", i);
      CHECK(has(&b, name) == (n > 1 && i < n)); /* a single map has no scope of its own */
    }
    CHECK(has(&b, "ClassPredictor/weights") == (n == 1));
    CHECK(has(&b, BASE "Conv2d_13_pointwise_2_Conv2d_5_3x3_s2_128/weights") == (n == 6));
    drop(&b);
  }
}

/* Number of anchors for a picture of that size. Only shapes are computed. */
static int64_t anchors(const char *sets, int64_t height, int64_t width) {
  built b = build("ssd_mobilenet_v1_coco", sets, TRAINING);
  od_engine *e;
  od_state *s;
  od_program *p;
  CHECK_OK(od_engine_new(&e, &(od_engine_options){.threads = 1}));
  CHECK_OK(od_state_new(&s, b.g));
  CHECK_OK(od_program_new(
      &p, e,
      &(od_program_spec){
          .graph = b.g, .state = s, .feeds = &b.images, .n_feeds = 1, .fetches = &b.model.anchors, .n_fetches = 1}));
  od_tensor picture, got;
  CHECK_OK(od_tensor_new(&picture, OD_F32, &OD_SHAPE(1, height, width, 3)));
  CHECK_OK(od_program_run(p, &picture, &got));
  int64_t n = got.shape.dim[0];
  CHECK(got.shape.rank == 2 && got.shape.dim[1] == 4);
  od_tensor_free(&picture);
  od_program_free(p);
  od_state_free(s);
  od_engine_free(e);
  drop(&b);
  return n;
}

static void sizes_of_maps(void **state) {
  (void)state;
  CHECK(anchors("", 300, 300) == 1917);
  CHECK(anchors(FE "use_explicit_padding=true", 300, 300) == 1917);
  CHECK(anchors(FE "pad_to_multiple=32", 300, 300) == 3 * 20 * 20 + 6 * (10 * 10 + 5 * 5 + 3 * 3 + 2 * 2 + 1));
  CHECK(anchors("", 300, 600) > 2 * 1800);
}

static void depthwise_everywhere(void **state) {
  (void)state;
  built b = build("ssd_mobilenet_v1_coco",
                  FE "use_depthwise=true " PREDICTOR "use_depthwise=true " PREDICTOR "kernel_size=3", TRAINING);
  has_shape(&b, BASE "Conv2d_13_pointwise_2_Conv2d_2_3x3_s2_512_depthwise/depthwise_weights", OD_SHAPE(3, 3, 256, 1));
  has_shape(&b, BASE "Conv2d_13_pointwise_2_Conv2d_2_3x3_s2_512/weights", OD_SHAPE(1, 1, 256, 512));
  has_shape(&b, "BoxPredictor_1/BoxEncodingPredictor_depthwise/depthwise_weights", OD_SHAPE(3, 3, 1024, 1));
  CHECK(has(&b, "BoxPredictor_1/BoxEncodingPredictor_depthwise/BatchNorm/gamma"));
  has_shape(&b, "BoxPredictor_1/BoxEncodingPredictor/weights", OD_SHAPE(1, 1, 1024, 24));
  drop(&b);
}

static void predictor_options(void **state) {
  (void)state;
  built b = build("ssd_mobilenet_v1_coco",
                  PREDICTOR "num_layers_before_predictor=2 " PREDICTOR "min_depth=100 " PREDICTOR
                            "max_depth=300 " PREDICTOR "kernel_size=3",
                  TRAINING);
  has_shape(&b, "BoxPredictor_0/Conv2d_0_1x1_300/weights", OD_SHAPE(1, 1, 512, 300));
  has_shape(&b, "BoxPredictor_0/Conv2d_1_1x1_300/weights", OD_SHAPE(1, 1, 300, 300));
  has_shape(&b, "BoxPredictor_5/Conv2d_0_1x1_128/weights", OD_SHAPE(1, 1, 128, 128));
  has_shape(&b, "BoxPredictor_5/ClassPredictor/weights", OD_SHAPE(3, 3, 128, 546));
  drop(&b);
  b = build("ssd_mobilenet_v1_coco", PREDICTOR "class_prediction_bias_init=-4.6 model.ssd.add_background_class=false",
            TRAINING);
  has_shape(&b, "BoxPredictor_1/ClassPredictor/biases", OD_SHAPE(6 * 90));
  CHECK_NEAR(variable(&b, "BoxPredictor_1/ClassPredictor/biases")->init.a, -4.6, 1e-6);
  CHECK_NEAR(variable(&b, "BoxPredictor_1/BoxEncodingPredictor/biases")->init.a, 0, 0);
  drop(&b);
}

static size_t count_updates(const built *b) {
  size_t n = 0;
  for (size_t i = 0; i < od_graph_updates(b->g); i++) n += strcmp(od_graph_update(b->g, i)->group, "batch_norm") == 0;
  return n;
}

static size_t count_regularized(const built *b) {
  size_t n = 0;
  while (od_collected(b->g, "regularization", n, NULL, NULL)) n++;
  return n;
}

static void batch_norm_and_regularization(void **state) {
  (void)state;
  enum { BASE_NORMS = 27, EXTRA_NORMS = 8, HEADS = 12 };
  built b = build("ssd_mobilenet_v1_coco", "", TRAINING);
  CHECK(count_updates(&b) == 2 * (BASE_NORMS + EXTRA_NORMS));
  CHECK(count_regularized(&b) == BASE_NORMS + EXTRA_NORMS + HEADS);
  CHECK_NEAR(variable(&b, BASE "Conv2d_0/weights")->init.b, 0.09, 1e-6); /* slim's own */
  drop(&b);
  b = build("ssd_mobilenet_v1_coco", "model.ssd.freeze_batchnorm=true", TRAINING);
  CHECK(count_updates(&b) == 2 * EXTRA_NORMS); /* the base alone obeys, as in the original */
  CHECK(variable(&b, BASE "Conv2d_0/BatchNorm/gamma")->trainable);
  drop(&b);
  b = build("ssd_mobilenet_v1_coco",
            FE "override_base_feature_extractor_hyperparams=true " FE "conv_hyperparams.batch_norm.scale=false",
            TRAINING);
  CHECK_NEAR(variable(&b, BASE "Conv2d_0/weights")->init.b, 0.03, 1e-6); /* the config's */
  CHECK(!has(&b, BASE "Conv2d_0/BatchNorm/gamma") && has(&b, BASE "Conv2d_0/BatchNorm/beta"));
  CHECK(count_updates(&b) == 2 * (BASE_NORMS + EXTRA_NORMS));
  drop(&b);
  b = build("ssd_mobilenet_v1_coco", FE "conv_hyperparams.batch_norm.train=false", TRAINING);
  CHECK(count_updates(&b) == 2 * BASE_NORMS);
  drop(&b);
  b = build("ssd_mobilenet_v1_coco", FE "conv_hyperparams.regularizer.l2_regularizer.weight=0",
            TRAINING); /* 0 makes no term */
  CHECK(count_regularized(&b) == BASE_NORMS + HEADS);
  drop(&b);
  b = build("ssd_mobilenet_v1_coco", "", INFERENCE);
  CHECK(count_updates(&b) == 0);
  CHECK(od_has(od_named_get(&b.model.detections, "detection_boxes")) && b.model.losses.n == 2);
  CHECK(!od_has(od_named_get(&b.model.detections, "no_such_thing")));
  drop(&b);
}

/* No initializer in the config is TensorFlow's default: Glorot, uniform: +-sqrt(6 / (fan in + fan out)). */
static void default_initializer(void **state) {
  (void)state;
  built b = {0};
  CHECK_OK(load(&b, "ssd_mobilenet_v1_coco", ""));
  ObjectDetection__Protos__Hyperparams *h =
      b.pipeline.config->model->ssd->box_predictor->convolutional_box_predictor->conv_hyperparams;
  ObjectDetection__Protos__Initializer *own = h->initializer;
  h->initializer = NULL;
  CHECK_OK(make(&b, TRAINING));
  const od_variable *v = variable(&b, "BoxPredictor_0/BoxEncodingPredictor/weights"); /* [1,1,512,12] */
  CHECK(v->init.kind == OD_INIT_UNIFORM);
  CHECK_NEAR(v->init.b, 0.10700, 1e-4);
  CHECK_NEAR(v->init.a, -0.10700, 1e-4);
  h->initializer = own;
  drop(&b);
}

/* ------------------------------------------------------------------------------------------------------------ refusals */
static void refusals(void **state) {
  (void)state;
  static const struct {
    const char *sets;
    od_status code;
    const char *text;
  } list[] = {
      {"model.ssd.num_classes=0", OD_EINVAL, "model.ssd.num_classes is 0"},
      {"model.ssd.num_classes=2147483647", OD_EINVAL, "model.ssd.num_classes is 2147483647"},
      {FE "type=ssd_mobilenet_v9", OD_EUNSUPPORTED,
       "model.ssd.feature_extractor.type 'ssd_mobilenet_v9' is not supported; there are: ssd_mobilenet_v1, "
       "ssd_mobilenet_v2"},
      {FE "num_layers=0", OD_EINVAL, "feature_extractor.num_layers is 0"},
      {FE "num_layers=7", OD_EINVAL, "feature_extractor.num_layers is 7"},
      {FE "num_layers=4", OD_EINVAL, "num_layers is 6, the feature extractor makes 4 maps"},
      {FE "depth_multiplier=0", OD_EINVAL, "feature_extractor.depth_multiplier is 0"},
      {FE "depth_multiplier=1e30", OD_EINVAL, "feature_extractor.depth_multiplier is 1e+30"},
      {FE "depth_multiplier=nan", OD_EINVAL, "feature_extractor.depth_multiplier is nan"},
      {FE "min_depth=-1", OD_EINVAL, "feature_extractor.min_depth is -1"},
      {FE "min_depth=2000000000", OD_EINVAL, "feature_extractor.min_depth is 2000000000"},
      {FE "pad_to_multiple=0", OD_EINVAL, "feature_extractor.pad_to_multiple is 0"},
      {FE "replace_preprocessor_with_placeholder=true", OD_EINVAL, "replace_preprocessor_with_placeholder"},
      {FE "conv_hyperparams.force_use_bias=true", OD_EUNSUPPORTED, "force_use_bias"},
      {"model.ssd.explicit_background_class=true", OD_EINVAL, "exclude each other"},
      {PREDICTOR "kernel_size=0", OD_EINVAL, "convolutional_box_predictor.kernel_size is 0"},
      {PREDICTOR "use_depthwise=true", OD_EINVAL, "use_depthwise wants a kernel_size above 1"},
      {PREDICTOR "box_code_size=0", OD_EINVAL, "convolutional_box_predictor.box_code_size is 0"},
      {PREDICTOR "box_code_size=5", OD_EINVAL, "box_code_size is 5, the box_coder writes 4 numbers a box"},
      {PREDICTOR "num_layers_before_predictor=2000000000", OD_EINVAL, "num_layers_before_predictor is 2000000000"},
      {PREDICTOR "max_depth=-3", OD_EINVAL, "convolutional_box_predictor.max_depth is -3"},
      {PREDICTOR "use_dropout=true " PREDICTOR "dropout_keep_probability=1.5", OD_EINVAL, "1.5"},
      {"model.ssd.matcher.argmax_matcher.matched_threshold=0.3", OD_EINVAL,
       "matched_threshold 0.3 is below unmatched_threshold 0.5"},
      {"model.ssd.post_processing.batch_non_max_suppression.iou_threshold=1.5", OD_EINVAL, "iou_threshold 1.5"},
      {"model.ssd.post_processing.batch_non_max_suppression.max_detections_per_class=101", OD_EINVAL,
       "more than max_total_detections 100"},
      {"model.ssd.post_processing.batch_non_max_suppression.soft_nms_sigma=-1", OD_EINVAL, "soft_nms_sigma -1"},
      {"model.ssd.post_processing.batch_non_max_suppression.use_combined_nms=true", OD_EUNSUPPORTED,
       "use_combined_nms"},
      {"model.ssd.post_processing.logit_scale=0", OD_EINVAL, "logit_scale is 0"},
      {"model.ssd.loss.expected_loss_weights=EXPECTED_SAMPLING", OD_EUNSUPPORTED, "expected_loss_weights"},
      {"model.ssd.loss.random_example_sampler.positive_sample_fraction=0", OD_EINVAL, "positive_sample_fraction is 0"},
      {"model.ssd.loss.random_example_sampler.positive_sample_fraction=1.5", OD_EINVAL,
       "positive_sample_fraction is 1.5"},
      {"model.ssd.loss.classification_loss.weighted_dice_classification_loss.squared_normalization=true", OD_EINVAL,
       "hard_example_miner does not go with weighted_dice"},
      {"model.ssd.anchor_generator.flexible_grid_anchor_generator.normalize_coordinates=true", OD_EINVAL,
       "there are 0 of anchor_grid"},
      {POST "calibration_config.temperature_scaling_calibration.scaler=0", OD_EINVAL, "scaler is 0"},
      {POST "calibration_config.function_approximation={}", OD_EINVAL, "a curve without x_y_pair"},
      {POST "calibration_config.function_approximation.x_y_pairs.x_y_pair=[{x:1},{x:1}]", OD_EINVAL, "x must rise"},
      {POST "calibration_config.sigmoid_calibration={}", OD_EINVAL, "the original refuses the sigmoids"},
      {ANCHORS "num_layers=1 " FE "num_layers=1", OD_EINVAL,
       "num_layers is 1; with scales at least 1, else at least 2"},
      {ANCHORS "height_stride=16", OD_EINVAL, "must be as many"},
      {"model.ssd.loss.classification_loss.weighted_sigmoid_focal.gamma=2", OD_EINVAL,
       "hard_example_miner does not go with weighted_sigmoid_focal"},
  };
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
    built b = {0};
    od_status st = load(&b, "ssd_mobilenet_v1_coco", list[i].sets);
    if (st == OD_OK) st = make(&b, INFERENCE);
    if (st != list[i].code || !strstr(od_message(), list[i].text))
      fail_msg("%s: %s, %s; expected '%s'", list[i].sets, od_status_text(st), st ? od_message() : "", list[i].text);
    drop(&b);
  }
}

/* Messages that are missing altogether. */
static void missing_parts(void **state) {
  (void)state;
  built b = {0};
  CHECK_OK(load(&b, "ssd_mobilenet_v1_coco", ""));
  ObjectDetection__Protos__Ssd *ssd = b.pipeline.config->model->ssd;
#define WITHOUT(field, code, text)                                                                                     \
  do {                                                                                                                 \
    void *own_ = ssd->field;                                                                                           \
    ssd->field = NULL;                                                                                                 \
    CHECK_FAILS(make(&b, INFERENCE), code, text);                                                                      \
    ssd->field = own_;                                                                                                 \
    od_graph_free(b.g);                                                                                                \
    b.g = NULL;                                                                                                        \
  } while (0)
  WITHOUT(feature_extractor, OD_EINVAL, "model.ssd.feature_extractor is not set");
  WITHOUT(anchor_generator, OD_EINVAL, "anchor_generator: none is set");
  WITHOUT(box_predictor, OD_EUNSUPPORTED, "box_predictor: SSD is built with convolutional_box_predictor");
  WITHOUT(box_coder, OD_EINVAL, "box_coder: no coder is set");
  WITHOUT(matcher, OD_EINVAL, "matcher: none is set");
  WITHOUT(similarity_calculator, OD_EINVAL, "similarity_calculator: none is set");
  WITHOUT(loss->classification_loss, OD_EINVAL, "loss.classification_loss: none is set");
  WITHOUT(loss->localization_loss, OD_EINVAL, "loss.localization_loss: none is set");
  od_graph *g;
  CHECK_OK(od_graph_new(&g));
  CHECK_FAILS(od_model_build(&b.model, g, NULL, &(od_model_spec){0}), OD_EINVAL, "no architecture is set");
  od_graph_free(g);
  CHECK(od_model_kind(NULL) == NULL);
  CHECK_TEXT(od_model_kind(b.pipeline.config->model), "ssd");
  drop(&b);
}

static void memory_may_run_out(void **state) {
  (void)state;
  enum { STRIDE = 97 };
  built b = {0};
  size_t before = od_mem_used();
  CHECK_OK(load(&b, "ssd_mobilenet_v1_coco", ""));
  size_t loaded = od_mem_used();
  uint64_t start = od_mem_count();
  CHECK_OK(make(&b, TRAINING));
  uint64_t n = od_mem_count() - start;
  od_graph_free(b.g);
  b.g = NULL;
  for (uint64_t i = 1; i <= n; i += STRIDE) {
    od_mem_fail_at(i);
    od_status st = make(&b, TRAINING);
    od_mem_fail_at(0);
    od_graph_free(b.g);
    b.g = NULL;
    if (st != OD_ENOMEM)
      fail_msg("allocation %llu of %llu: %s", (unsigned long long)i, (unsigned long long)n, od_status_text(st));
    CHECK(od_mem_used() == loaded);
  }
  drop(&b);
  CHECK(od_mem_used() == before);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(variables_of_the_shipped_configs),
      cmocka_unit_test(names_of_the_published_v1),
      cmocka_unit_test(names_of_the_published_v2_lite),
      cmocka_unit_test(depths),
      cmocka_unit_test(numbers_of_maps),
      cmocka_unit_test(sizes_of_maps),
      cmocka_unit_test(depthwise_everywhere),
      cmocka_unit_test(predictor_options),
      cmocka_unit_test(batch_norm_and_regularization),
      cmocka_unit_test(default_initializer),
      cmocka_unit_test(refusals),
      cmocka_unit_test(missing_parts),
      cmocka_unit_test(memory_may_run_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
