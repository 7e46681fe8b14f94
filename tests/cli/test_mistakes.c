/* Every mistake that users of the original were seen to make, in configs, label maps, records, checkpoints and on the command
 * line: one clear error, the right exit code, nothing half written; and `check` finds it before. */
#include "data/data_test.h"

#include <dirent.h>
#include <libgen.h>
#include <math.h>
#include <sys/wait.h>

#include "image/encode.h"
#include "io/record.h"

static char objdet[4096], home[4096]; /* the program; where the repository lies */
static const char *dir;               /* where all happens */

/* ------------------------------------------------------------------------------------------------------------- running */
static char out_text[65536], err_text[65536];

static void slurp_text(char *text, size_t size, const char *path) {
  FILE *f = fopen(path, "r");
  CHECK(f != NULL);
  text[fread(text, 1, size - 1, f)] = 0;
  fclose(f);
}

/* Runs a command line in which @ stands for the program; its exit code. */
static int run(const char *command) {
  char line[8192], *w = line;
  for (const char *c = command; *c; c++) {
    CHECK((size_t)(w - line) + sizeof objdet + 2 < sizeof line);
    if (*c == '@')
      w += sprintf(w, "%s", objdet);
    else
      *w++ = *c;
  }
  sprintf(w, "%s", strstr(command, ">") ? " 2>err" : " >out 2>err");
  if (strstr(command, ">")) write_text("out", "");
  int rc = system(line);
  slurp_text(out_text, sizeof out_text, "out");
  slurp_text(err_text, sizeof err_text, "err");
  return WIFEXITED(rc) ? WEXITSTATUS(rc) : 1000;
}

static int error_lines(void) {
  int n = 0;
  for (const char *at = err_text; (at = strstr(at, "objdet: ")); at++) n += at == err_text || at[-1] == '\n';
  return n;
}

/* The command ends with this code, one error line, and this text in what it says. */
static void fails_with(int code, const char *text, const char *command) {
  int rc = run(command);
  if (rc != code) fail_msg("%s\nexit %d, expected %d:\n%s%s", command, rc, code, out_text, err_text);
  if (error_lines() != 1) fail_msg("%s\n%d error lines:\n%s", command, error_lines(), err_text);
  if (!strstr(err_text, text)) fail_msg("%s\nno '%s' in:\n%s", command, text, err_text);
}

static void succeeds(const char *command) {
  int rc = run(command);
  if (rc != 0) fail_msg("%s\nexit %d:\n%s%s", command, rc, out_text, err_text);
}

/* check says so in one of its lines, and ends with 1. */
static void check_finds(const char *text, const char *command) {
  int rc = run(command);
  if (rc != 1) fail_msg("%s\nexit %d, expected 1:\n%s%s", command, rc, out_text, err_text);
  if (!strstr(out_text, text)) fail_msg("%s\nno '%s' in:\n%s", command, text, out_text);
}

static bool exists(const char *path) { return access(path, F_OK) == 0; }

/* No file of a folder is one that somebody left while writing. */
static void nothing_half_written(const char *folder) {
  DIR *d = opendir(folder);
  for (struct dirent *e; d && (e = readdir(d));)
    if (e->d_name[0] == '.' && strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
      fail_msg("%s/%s was left", folder, e->d_name);
  if (d) closedir(d);
}

static void edited(const char *to, const char *from, const char *old, const char *new) {
  char *text, *at;
  size_t size;
  od_str s = OD_STR_INIT;
  CHECK_OK(od_file_read_all(&text, &size, from, 0));
  at = *old ? strstr(text, old) : text;
  if (!at) fail_msg("'%s' is not in %s", old, from);
  od_str_add_bytes(&s, text, (size_t)(at - text));
  od_str_add(&s, new);
  od_str_add(&s, at + strlen(old));
  CHECK_OK(od_file_write_all(to, s.data, s.len));
  od_str_free(&s);
  od_free(text);
}

/* -------------------------------------------------------------------------------------------------------------- set-up */
#define LAYERS                                                                                                         \
  "conv_hyperparams { regularizer { l2_regularizer { weight: 0.00004 } } initializer { truncated_normal_initializer "  \
  "{ stddev: 0.03 } }\n"                                                                                               \
  "      activation: RELU_6 batch_norm { decay: 0.9 scale: true } }\n"

static const char config[] =
    "model {\n"
    "  ssd {\n"
    "    num_classes: 2\n"
    "    image_resizer {\n"
    "      fixed_shape_resizer { height: 96 width: 96 }\n"
    "    }\n"
    "    feature_extractor {\n"
    "      type: \"ssd_mobilenet_v1\" depth_multiplier: 0.25 min_depth: 8 override_base_feature_extractor_hyperparams: "
    "true\n"
    "      " LAYERS "    }\n"
    "    box_coder { faster_rcnn_box_coder {} }\n"
    "    matcher { argmax_matcher { force_match_for_each_row: true } }\n"
    "    similarity_calculator { iou_similarity {} }\n"
    "    box_predictor { convolutional_box_predictor { " LAYERS " use_dropout: false } }\n"
    "    anchor_generator { ssd_anchor_generator { aspect_ratios: [1, 2, 0.5] } }\n"
    "    post_processing { batch_non_max_suppression { score_threshold: 1e-8 } score_converter: SIGMOID }\n"
    "    loss { localization_loss { weighted_smooth_l1 {} } classification_loss { weighted_sigmoid {} } }\n"
    "  }\n"
    "}\n"
    "train_config {\n"
    "  batch_size: 2\n"
    "  num_steps: 1\n"
    "  data_augmentation_options {\n"
    "    random_horizontal_flip {}\n"
    "  }\n"
    "  optimizer {\n"
    "    momentum_optimizer { learning_rate { constant_learning_rate { learning_rate: 0.001 } } }\n"
    "    use_moving_average: false\n"
    "  }\n"
    "}\n"
    "train_input_reader {\n"
    "  label_map_path: \"map.pbtxt\"\n"
    "  tf_record_input_reader { input_path: \"good.record\" }\n"
    "}\n"
    "eval_config { num_visualizations: 0 }\n"
    "eval_input_reader {\n"
    "  label_map_path: \"map.pbtxt\"\n"
    "  tf_record_input_reader { input_path: \"good.record\" }\n"
    "}\n";

/* What a record is made of, to be spoilt. */
typedef struct {
  od_str picture;
  float side[4][2]; /* ymin xmin ymax xmax of two boxes */
  size_t n[4], labels;
  int64_t label[2];
  const char *text[2];
} plan;

static void encode(plan *p, int height, int width, bool png) {
  od_image im;
  CHECK_OK(od_image_new(&im, height, width, 3));
  for (int i = 0; i < height * width * 3; i++) im.data[i] = (uint8_t)(i * 31 / 9);
  od_str_clear(&p->picture);
  CHECK_OK(png ? od_png_encode(&p->picture, &im) : od_jpeg_encode(&p->picture, &im, 90));
  od_image_free(&im);
}

static void write_example(od_record_writer *w, int number, void (*spoil)(plan *)) {
  static const char *const keys[4] = {"image/object/bbox/ymin", "image/object/bbox/xmin", "image/object/bbox/ymax",
                                      "image/object/bbox/xmax"};
  plan p = {.side = {{0.1f, 0.3f}, {0.2f, 0.1f}, {0.7f, 0.9f}, {0.8f, 0.9f}},
            .n = {2, 2, 2, 2},
            .labels = 2,
            .label = {1, 2},
            .text = {"cat", "dog"}};
  od_example_builder *b;
  od_str bytes = OD_STR_INIT;
  char id[32];
  encode(&p, 60 + number, 80, false);
  if (spoil) spoil(&p);
  CHECK_OK(od_example_builder_new(&b));
  snprintf(id, sizeof id, "%d.jpg", number);
  od_example_add_text(b, "image/source_id", id);
  od_example_add_text(b, "image/filename", id);
  od_example_add_bytes(b, "image/encoded", p.picture.data, p.picture.len);
  for (int k = 0; k < 4; k++) od_example_add_floats(b, keys[k], p.side[k], p.n[k]);
  od_view v[2];
  for (int i = 0; i < 2; i++) v[i] = (od_view){(const unsigned char *)p.text[i], strlen(p.text[i])};
  od_example_add_bytes_list(b, "image/object/class/text", v, 2);
  od_example_add_int64s(b, "image/object/class/label", p.label, p.labels);
  CHECK_OK(od_example_builder_finish(b, &bytes));
  CHECK_OK(od_record_write(w, bytes.data, bytes.len));
  od_example_builder_free(b);
  od_str_free(&bytes);
  od_str_free(&p.picture);
}

/* Four records; the third is spoilt. */
static void write_records(const char *path, void (*spoil)(plan *)) {
  od_record_writer *w;
  CHECK_OK(od_record_writer_open(&w, path, NULL));
  for (int i = 0; i < 4; i++) write_example(w, i, i == 2 ? spoil : NULL);
  CHECK_OK(od_record_writer_close(w));
}

static int begin(void **state) {
  (void)state;
  dir = od_test_dir();
  CHECK(dir && chdir(dir) == 0);
  write_text("base.config", config);
  write_text("map.pbtxt", "item { id: 1 name: 'cat' } item { id: 2 name: 'dog' }");
  write_records("good.record", NULL);
  succeeds("@ check --pipeline_config_path=base.config");
  succeeds("@ train --pipeline_config_path=base.config --train_dir=run --threads=1");
  return 0;
}

static int end(void **state) {
  (void)state;
  char command[512];
  snprintf(command, sizeof command, "rm -rf '%s'", dir);
  return chdir("/") != 0 || system(command) != 0;
}

/* ------------------------------------------------------------------------------------------------------------- configs */
static const struct {
  const char *old, *new, *text; /* the edit, and what the error must say */
} config_mistakes[] = {
    {"\"map.pbtxt\"", "C:\\data\\map.pbtxt", "bad.config:35:19: label_map_path wants a text in quotes"},
    {"\"map.pbtxt\"", "\"C:\\data\\map.pbtxt\"", "bad.config:35:22: a backslash begins an escape"},
    {"\"map.pbtxt\"", "\xe2\x80\x9cmap.pbtxt\xe2\x80\x9d", "bad.config:35:19: a typographic quote"},
    {"    loss {", "    loss { {", "bad.config:20:12: expected the name of a field of Loss, here is '{'"},
    {"      fixed_shape_resizer { height: 96 width: 96 }\n    }\n",
     "      fixed_shape_resizer { height: 96 width: 96 }\n",
     "bad.config:6:5: ImageResizer has no field 'feature_extractor', but Ssd, which encloses it, has"},
    {"train_config {", "https://github.com/tensorflow/models\ntrain_config {",
     "bad.config:23:1: TrainEvalPipelineConfig has no field 'https'"},
    {"model {", "<!DOCTYPE html>\n<html>model {", "bad.config:1:1: expected the name of a field"},
    {"train_config {", "\"google\"\ntrain_config {",
     "bad.config:23:1: expected the name of a field, here is a text in quotes"},
    {"    random_horizontal_flip {}\n", "    random_horizontal_flip {}\n    random_vertical_flip {}\n",
     "bad.config:28:5: PreprocessingStep holds only one of these: 'random_horizontal_flip' at line 27 and "
     "'random_vertical_flip' here at line 28"},
    {"      fixed_shape_resizer {", "      keep_aspect_ratio_resizer {}\n      fixed_shape_resizer {",
     "bad.config:6:7: ImageResizer holds only one of these: 'keep_aspect_ratio_resizer' at line 5 and "
     "'fixed_shape_resizer' here at line 6"},
    {"learning_rate: 0.001", "lerning_rate: 0.001",
     "ConstantLearningRate has no field 'lerning_rate'; did you mean 'learning_rate'?"},
    {"weighted_sigmoid {}", "weighted_sigmoyd {}", "did you mean 'weighted_sigmoid'?"},
    {"score_converter: SIGMOID", "score_converter: SIGMOYD", "it is one of IDENTITY, SIGMOID, SOFTMAX"},
    {"num_classes: 2", "num_classes: two", "bad.config:3:18: num_classes wants a whole number"},
    {"num_classes: 2", "num_classes: 2 num_classes: 3",
     "num_classes of Ssd is set twice: at line 3 and here at line 3"},
    {"num_classes: 2", "num_classes: 0", "model.ssd.num_classes is 0"},
    {"num_classes: 2", "num_classes: 1",
     "bad.config:35: train_input_reader.label_map_path: map.pbtxt has ids up to 2 (dog), model num_classes is 1"},
    {"batch_size: 2", "batch_size: 3 sync_replicas: true replicas_to_aggregate: 2",
     "batch_size 3 cannot be divided by replicas_to_aggregate 2"},
    {"random_horizontal_flip {}", "rgb_to_gray {}",
     "bad.config:27:5: train_config.data_augmentation_options[0].rgb_to_gray is not supported yet"},
    {"    loss {", "    loss { expected_loss_weights: EXPECTED_SAMPLING",
     "bad.config:20:12: model.ssd.loss.expected_loss_weights is not supported yet"},
    {"momentum_optimizer {", "adagrad_optimizer {", "Optimizer has no field 'adagrad_optimizer'"},
    {"argmax_matcher {", "argmax_matcher { matched_threshold: 0.4 unmatched_threshold: 0.6 ",
     "matched_threshold 0.4 is below unmatched_threshold 0.6"},
    {"ssd_mobilenet_v1", "ssd_mobilenet_v11", "'ssd_mobilenet_v11' is not supported; there are: "},
    {"\"good.record\"", "\"PATH_TO_BE_CONFIGURED/good.record\"",
     "bad.config:36: train_input_reader.input_path still is"},
    {"\"good.record\"", "\"godo.record\"",
     "bad.config:36: train_input_reader: godo.record: no such file; did you mean good.record?"},
    {"\"map.pbtxt\"", "\"PATH_TO_BE_CONFIGURED/map.pbtxt\"",
     "bad.config:35: train_input_reader.label_map_path still is"},
    {"\"map.pbtxt\"", "\"mop.pbtxt\"", "bad.config:35: train_input_reader.label_map_path: cannot open mop.pbtxt"},
    {"\"map.pbtxt\"", "\"good.record\"", "bad.config:35: train_input_reader.label_map_path: good.record:1:1: "},
    {"batch_size: 2", "batch_size: 2 fine_tune_checkpoint: \"PATH_TO_BE_CONFIGURED/model.ckpt\" ",
     "bad.config:24: train_config.fine_tune_checkpoint still is"},
    {"batch_size: 2", "batch_size: 2 fine_tune_checkpoint: \"nowhere/model.ckpt\" ",
     "bad.config:24: train_config.fine_tune_checkpoint: nowhere/model.ckpt: no checkpoint"},
    {"batch_size: 2", "batch_size: 2 fine_tune_checkpoint: \"good.record\" ",
     "bad.config:24: train_config.fine_tune_checkpoint: good.record is no checkpoint"},
    {"batch_size: 2",
     "batch_size: 2 fine_tune_checkpoint_type: \"detections\" fine_tune_checkpoint: \"run/model.ckpt-1\" ",
     "there are classification and detection"},
    {"model {", "\xef\xbb\xbfmodel {", "bad.config:1:1: the file begins with a byte order mark (BOM)"},
};

static void mistakes_in_configs(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof config_mistakes / sizeof *config_mistakes; i++) {
    edited("bad.config", "base.config", config_mistakes[i].old, config_mistakes[i].new);

    fails_with(1, config_mistakes[i].text, "@ train --pipeline_config_path=bad.config --train_dir=none --threads=1");
    if (exists("none")) fail_msg("%s: the folder was made", config_mistakes[i].new);
    check_finds(config_mistakes[i].text, "@ check --pipeline_config_path=bad.config");
  }
}

static void files_that_are_no_configs(void **state) {
  (void)state;
  fails_with(1, "nowhere.config", "@ train --pipeline_config_path=nowhere.config --train_dir=none");
  fails_with(1, "run", "@ train --pipeline_config_path=run --train_dir=none");
  fails_with(1, "good.record", "@ train --pipeline_config_path=good.record --train_dir=none");
  write_text("empty.config", "");
  fails_with(1, "no model", "@ train --pipeline_config_path=empty.config --train_dir=none");
  CHECK(!exists("none"));
}

/* The shipped pets configs list both names of the records. */
static void both_names_of_the_pets(void **state) {
  (void)state;
  edited("pets.config", "base.config", "input_path: \"good.record\"",
         "input_path: \"pet_train.record\" input_path: \"pet_faces_train.record@10\"");
  copy_file("good.record", "pet_faces_train.record-00000-of-00010");
  succeeds("@ check --pipeline_config_path=pets.config");
  copy_file("good.record", "pet_train.record");
  fails_with(1, "two names of the same pictures", "@ train --pipeline_config_path=pets.config --train_dir=none");
  check_finds("two names of the same pictures", "@ check --pipeline_config_path=pets.config");
  CHECK(!exists("none"));
}

/* Paths of sections that a command does not read are not its business. */
static void paths_of_others_are_left_alone(void **state) {
  (void)state;
  edited("foreign.config", "base.config", "\"good.record\"", "\"PATH_TO_BE_CONFIGURED/x\"");
  edited("foreign.config", "foreign.config", "\"map.pbtxt\"", "\"PATH_TO_BE_CONFIGURED/map\"");
  succeeds("@ config --pipeline_config_path=foreign.config");
  succeeds("@ eval --run_once --pipeline_config_path=foreign.config --checkpoint_dir=run --eval_dir=eval-foreign "
           "--threads=1");
  edited("foreign.config", "foreign.config", "\"good.record\"", "\"PATH_TO_BE_CONFIGURED/x\"");
  edited("foreign.config", "foreign.config", "\"map.pbtxt\"", "\"PATH_TO_BE_CONFIGURED/map\"");
  succeeds("@ export_inference_graph --pipeline_config_path=foreign.config "
           "--trained_checkpoint_prefix=run/model.ckpt-1 --output_directory=exported --threads=1");
  fails_with(1, "eval_input_reader.label_map_path still is",
             "@ eval --run_once --pipeline_config_path=foreign.config --checkpoint_dir=run --eval_dir=none");
  CHECK(!exists("none"));
}

static const struct {
  const char *map, *text;
} map_mistakes[] = {
    {"item { id: 0 name: 'cat' } item { id: 1 name: 'dog' }", "id 0"},
    {"item { id: -1 name: 'cat' }", "-1"},
    {"item { id: 1 } item { id: 2 name: 'dog' }", "name"},
    {"item { id: 1 name: 'cat' item { id: 2 name: 'dog' }", ":1:"},
    {"item { id: 1 name: cat }", ":1:"},
    {"{ \"cat\": 1 }", ":1:"},
};

static void mistakes_in_label_maps(void **state) {
  (void)state;
  edited("bad.config", "base.config", "\"map.pbtxt\"", "\"bad.pbtxt\"");
  for (size_t i = 0; i < sizeof map_mistakes / sizeof *map_mistakes; i++) {
    write_text("bad.pbtxt", map_mistakes[i].map);
    fails_with(1, map_mistakes[i].text, "@ train --pipeline_config_path=bad.config --train_dir=none");
    check_finds("bad.pbtxt", "@ check --label_map_path=bad.pbtxt");
    CHECK(!exists("none"));
  }
  write_text("bad.pbtxt", "item { id: 1 name: 'cat' } item { id: 1 name: 'dog' } item { id: 2 name: 'cat' }");
  check_finds("'cat' and 'dog' have the same id 1", "@ check --label_map_path=bad.pbtxt");
  check_finds("'cat' has the ids 1 and 2", "@ check --label_map_path=bad.pbtxt");
}

/* -------------------------------------------------------------------------------------------------------------- records */
#define SPOIL(name, code)                                                                                              \
  static void name(plan *p) { code; }
SPOIL(lists_of_unequal_length, p->n[2] = 1)
SPOIL(labels_missing, p->labels = 1)
SPOIL(above_one, p->side[3][1] = 1.2f)
SPOIL(in_pixels, p->side[2][1] = 55; p->side[3][1] = 70)
SPOIL(upside_down, p->side[0][0] = 0.9f)
SPOIL(misspelt, p->text[1] = "dgo")
SPOIL(no_number, p->side[0][1] = NAN)
SPOIL(no_picture, od_str_clear(&p->picture); od_str_add(&p->picture, "<html>404</html>"))
SPOIL(ends_early, p->picture.len = p->picture.len * 2 / 3)
SPOIL(flipped_bytes,
      for (size_t i = 200; i < p->picture.len; i += 3) p->picture.data[i] = (char)(p->picture.data[i] ^ 0x5a))
SPOIL(png_named_jpg, encode(p, 60, 80, true))

/* A PNG of 30000 x 30000 pixels by its header, CRC and all, with next to nothing behind it. */
static void huge(plan *p) {
  static const unsigned char bytes[] = {0x89, 'P', 'N', 'G', 13,  10,   26,   10,   0,    0, 0,    13,
                                        'I',  'H', 'D', 'R', 0,   0,    0x75, 0x30, 0,    0, 0x75, 0x30,
                                        8,    2,   0,   0,   0,   0xe9, 0x45, 0x6f, 0xed, 0, 0,    0,
                                        0,    'I', 'D', 'A', 'T', 0x35, 0xaf, 0x06, 0x1e};
  od_str_clear(&p->picture);
  od_str_add_bytes(&p->picture, bytes, sizeof bytes);
}

static void from_file(plan *p, const char *name) {
  char path[8192], *bytes;
  size_t size;
  snprintf(path, sizeof path, "%s/tests/golden/image/odd/%s", home, name);
  CHECK_OK(od_file_read_all(&bytes, &size, path, 0));
  od_str_clear(&p->picture);
  od_str_add_bytes(&p->picture, bytes, size);
  od_free(bytes);
}
SPOIL(cmyk, from_file(p, "cmyk.jpg"))
SPOIL(sixteen_bits, from_file(p, "png16_2.png"))

static const struct {
  const char *name;
  void (*spoil)(plan *);
  const char *text;  /* train must say so; NULL: it trains */
  const char *found; /* check must say so; NULL: nothing to find */
} record_mistakes[] = {
    {"lists of unequal length", lists_of_unequal_length, "image/object/bbox/ymax has 1",
     "bad.record: record 2 (2.jpg): lengths: image/object/bbox/ymin has 2 values, image/object/bbox/ymax has 1"},
    {"a label missing", labels_missing, "image/object/class/label has 1 values",
     "bad.record: record 2 (2.jpg): lengths:"},
    {"a box beyond 1.1", above_one, "xmax is 1.2, more than 1.1",
     "bad.record: record 2 (2.jpg), box 1: box-range: xmax is 1.2"},
    {"a box in pixels", in_pixels, "are these pixels?", "bad.record: record 2 (2.jpg), box 1: box-range:"},
    {"a box upside down", upside_down, "larger than",
     "bad.record: record 2 (2.jpg), box 0: box-order: ymin 0.9 is larger than ymax 0.7"},
    {"a misspelt class", misspelt, NULL,
     "bad.record: record 2 (2.jpg), box 1: class: class/text 'dgo' is not in the label map; did you mean 'dog'?"},
    {"NaN", no_number, NULL, "bad.record: record 2 (2.jpg), box 1: box-nan:"},
    {"no picture", no_picture, "record 2 (2.jpg)", "bad.record: record 2 (2.jpg): picture:"},
    {"a picture that ends early", ends_early, "record 2 (2.jpg)", "bad.record: record 2 (2.jpg): picture:"},
    {"a picture with wrong bytes", flipped_bytes, "record 2 (2.jpg)", "bad.record: record 2 (2.jpg): picture:"},
    {"30000 x 30000 pixels", huge, "record 2 (2.jpg)", "bad.record: record 2 (2.jpg): picture:"},
    {"a PNG named .jpg", png_named_jpg, NULL, NULL},
    {"CMYK", cmyk, NULL, NULL},
    {"16 bits", sixteen_bits, NULL, NULL},
};

static void mistakes_in_records(void **state) {
  (void)state;
  edited("bad.config", "base.config", "\"good.record\"", "\"bad.record\"");
  edited("bad.config", "bad.config", "num_steps: 1", "num_steps: 3"); /* three steps of two: every record is met */
  for (size_t i = 0; i < sizeof record_mistakes / sizeof *record_mistakes; i++) {
    const char *text = record_mistakes[i].text;
    write_records("bad.record", record_mistakes[i].spoil);
    CHECK(system("rm -rf trained") == 0);
    if (text)
      fails_with(1, text, "@ train --pipeline_config_path=bad.config --train_dir=trained --threads=1");
    else
      succeeds("@ train --pipeline_config_path=bad.config --train_dir=trained --threads=1");
    if (text && !strstr(err_text, "bad.record: record 2"))
      fail_msg("%s: the record is not named: %s", record_mistakes[i].name, err_text);
    nothing_half_written("trained");
    CHECK(system("rm -rf trained") == 0);
    if (text)
      succeeds("@ train --pipeline_config_path=bad.config --train_dir=trained --threads=1 --on_bad_record=skip");
    if (record_mistakes[i].found)
      check_finds(record_mistakes[i].found, "@ check --record=bad.record --label_map_path=map.pbtxt");
    else
      succeeds("@ check --record=bad.record --label_map_path=map.pbtxt");
  }
}

static void damage_at(const char *from, const char *to, size_t cut, int flip) {
  char *bytes;
  size_t size;
  CHECK_OK(od_file_read_all(&bytes, &size, from, 0));
  CHECK(cut <= size);
  if (flip >= 0) bytes[flip] = (char)(bytes[flip] ^ 1);
  CHECK_OK(od_file_write_all(to, bytes, cut ? cut : size));
  od_free(bytes);
}

static void damaged_record_files(void **state) {
  (void)state;
  static const struct {
    size_t cut;
    int flip;
    const char *text;
  } damages[] = {{0, 100, "bad.record"}, {0, 2, "bad.record"}, {1000, -1, "bad.record"}, {5, -1, "bad.record"}};
  edited("bad.config", "base.config", "\"good.record\"", "\"bad.record\"");
  edited("bad.config", "bad.config", "num_steps: 1", "num_steps: 3");
  for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
    damage_at("good.record", "bad.record", damages[i].cut, damages[i].flip);
    CHECK(system("rm -rf trained") == 0);
    fails_with(1, damages[i].text, "@ train --pipeline_config_path=bad.config --train_dir=trained --threads=1");
    nothing_half_written("trained");
    check_finds("bad.record: record ", "@ check --record=bad.record");
  }
  write_text("bad.record", "");
  fails_with(1, "holds no record", "@ train --pipeline_config_path=bad.config --train_dir=none");
  CHECK(!exists("none"));
}

/* Copied by a program that takes records for text. */
static void records_damaged_by_line_ends(void **state) {
  (void)state;
  char path[8192], command[9000];
  const char *shared = getenv("OBJDET_SHARED");
  const char *file = "data/tfrecord_corrupted_crlf/models/research/object_detection/test_data/pets_examples.record";
  if (shared && shared[0] == '/')
    snprintf(path, sizeof path, "%s/%s", shared, file);
  else
    snprintf(path, sizeof path, "%s/%s/%s", home, shared ? shared : "../shared", file);
  if (!exists(path)) {
    print_message("SKIPPED: needs shared data %s\n", file);
    skip();
  }
  snprintf(command, sizeof command, "@ check --record='%s'", path);
  check_finds("record ", command);
  edited("bad.config", "base.config", "good.record", path);
  fails_with(1, "pets_examples.record", "@ train --pipeline_config_path=bad.config --train_dir=none");
  CHECK(!exists("none"));
}

/* ----------------------------------------------------------------------------------------------------------- checkpoints */
static void copy_checkpoint(const char *to) {
  char command[600];
  snprintf(command, sizeof command,
           "rm -rf %s && mkdir %s && cp run/model.ckpt-1.* %s/ && echo 'model_checkpoint_path: \"model.ckpt-1\"' "
           ">%s/checkpoint",
           to, to, to, to);
  CHECK(system(command) == 0);
}

static void evaluate_fails(const char *text) {
  fails_with(
      1, text,
      "@ eval --run_once --pipeline_config_path=base.config --checkpoint_dir=bad --eval_dir=evaluated --threads=1");
  CHECK(!exists("evaluated/metrics.json"));
  nothing_half_written("evaluated");
  check_finds(text, "@ check --pipeline_config_path=base.config --checkpoint=bad/model.ckpt-1");
  fails_with(1, text,
             "@ export_inference_graph --pipeline_config_path=base.config --trained_checkpoint_prefix=bad/model.ckpt-1 "
             "--output_directory=none");
  CHECK(!exists("none/frozen_inference_graph.pb"));
}

static void damaged_checkpoints(void **state) {
  (void)state;
  char *bytes;
  size_t size;
  copy_checkpoint("bad");
  CHECK_OK(od_file_read_all(&bytes, &size, "bad/model.ckpt-1.data-00000-of-00001", 0));
  od_free(bytes);
  damage_at("run/model.ckpt-1.data-00000-of-00001", "bad/model.ckpt-1.data-00000-of-00001", size / 2, -1);
  evaluate_fails("model.ckpt-1.data-00000-of-00001");
  damage_at("run/model.ckpt-1.data-00000-of-00001", "bad/model.ckpt-1.data-00000-of-00001", 0, 1000);
  evaluate_fails("model.ckpt-1.data-00000-of-00001");
  copy_checkpoint("bad");
  damage_at("run/model.ckpt-1.index", "bad/model.ckpt-1.index", 500, -1);
  evaluate_fails("model.ckpt-1.index");
  copy_checkpoint("bad");
  CHECK(unlink("bad/model.ckpt-1.data-00000-of-00001") == 0);
  evaluate_fails("model.ckpt-1.data-00000-of-00001");
  CHECK_OK(od_path_make_dirs("empty"));
  fails_with(1, "holds no checkpoint",
             "@ eval --run_once --pipeline_config_path=base.config --checkpoint_dir=empty --eval_dir=evaluated "
             "--set eval_config.max_evals=1");
}

static void checkpoints_of_other_models(void **state) {
  (void)state;
  edited("half.config", "base.config", "depth_multiplier: 0.25", "depth_multiplier: 0.5");
  edited("v2.config", "base.config", "ssd_mobilenet_v1", "ssd_mobilenet_v2");
  fails_with(1, "Conv2d_0/weights",
             "@ eval --run_once --pipeline_config_path=half.config --checkpoint_dir=run --eval_dir=evaluated");
  check_finds("Conv2d_0/weights is [3,3,3,8] there, the model wants [3,3,3,16]",
              "@ check --pipeline_config_path=half.config --checkpoint=run/model.ckpt-1");
  check_finds("the nearest name is ", "@ check --pipeline_config_path=v2.config --checkpoint=run/model.ckpt-1");
  edited("tuned.config", "half.config", "batch_size: 2",
         "batch_size: 2 fine_tune_checkpoint: \"run/model.ckpt-1\" fine_tune_checkpoint_type: \"classification\" ");
  fails_with(1, "do not fit", "@ train --pipeline_config_path=tuned.config --train_dir=none --threads=1");
  check_finds("the model wants ", "@ check --pipeline_config_path=tuned.config");
  fails_with(1, "moving averages",
             "@ eval --run_once --pipeline_config_path=base.config --checkpoint_dir=run --eval_dir=evaluated --set "
             "eval_config.use_moving_averages=true");
  check_finds("holds no moving averages", "@ check --pipeline_config_path=base.config --checkpoint=run/model.ckpt-1 "
                                          "--set eval_config.use_moving_averages=true");
  succeeds("@ check --pipeline_config_path=base.config --checkpoint=run/model.ckpt-1");
  CHECK(!exists("none/checkpoint"));
}

/* -------------------------------------------------------------------------------------------------------- command line */
static void wrong_usage(void **state) {
  (void)state;
  fails_with(2, "did you mean --train_dir?", "@ train --trian_dir=x --pipeline_config_path=base.config");
  fails_with(2, "did you mean train?", "@ trian --train_dir=x");
  fails_with(2, "--train_dir", "@ train --pipeline_config_path=base.config");
  fails_with(2, "--train_dir wants a value", "@ train --pipeline_config_path=base.config --train_dir");
  fails_with(2, "whole number", "@ train --pipeline_config_path=base.config --train_dir=none --threads=two");
  fails_with(2, "stop or skip", "@ train --pipeline_config_path=base.config --train_dir=none --on_bad_record=ignore");
  fails_with(2, "fp32, bf16 or auto", "@ train --pipeline_config_path=base.config --train_dir=none --precision=fp16");
  fails_with(2, "check wants", "@ check");
  fails_with(1, "num_stepps",
             "@ train --pipeline_config_path=base.config --train_dir=none --set train_config.num_stepps=3");
  CHECK(!exists("none/checkpoint"));
}

static void full_disk(void **state) {
  (void)state;
  if (exists("/dev/full"))
    fails_with(1, "stdout cannot be written", "@ config --pipeline_config_path=base.config >/dev/full");
  CHECK(system("rm -rf none voc && mkdir -p voc/annotations voc/images") == 0);
  plan p = {0};
  encode(&p, 300, 300, true);
  CHECK_OK(od_file_write_all("voc/images/a.png", p.picture.data, p.picture.len));
  od_str_free(&p.picture);
  write_text("voc/annotations/a.xml",
             "<annotation><filename>a.png</filename><size><width>300</width><height>300</height><depth>3</depth></"
             "size><object><name>cat</name>"
             "<bndbox><xmin>10</xmin><ymin>10</ymin><xmax>90</xmax><ymax>90</ymax></bndbox></object></annotation>");
  /* no file may grow beyond 1 kB: to us the same as a disk that is full */
  fails_with(1, "voc.record",
             "ulimit -f 2; @ create_pascal_tf_record --data_dir=voc --label_map_path=map.pbtxt "
             "--output_path=records/voc.record");
  CHECK(!exists("records/voc.record"));
  nothing_half_written("records");
  fails_with(1, "none",
             "ulimit -f 2; @ export_inference_graph --pipeline_config_path=base.config "
             "--trained_checkpoint_prefix=run/model.ckpt-1 --output_directory=none --threads=1");
  CHECK(!exists("none/frozen_inference_graph.pb") && !exists("none/saved_model/saved_model.pb"));
  nothing_half_written("none");
}

static void check_as_json(void **state) {
  (void)state;
  write_records("bad.record", upside_down);
  CHECK(run("@ check --json --record=bad.record --label_map_path=map.pbtxt") == 1);
  json_t *j = json_loads(out_text, 0, NULL), *list = json_object_get(j, "findings"), *f = json_array_get(list, 0);
  CHECK(json_array_size(list) == 1 && json_integer_value(json_object_get(j, "count")) == 1);
  CHECK_TEXT(json_string_value(json_object_get(f, "kind")), "box-order");
  CHECK_TEXT(json_string_value(json_object_get(f, "source_id")), "2.jpg");
  CHECK(json_integer_value(json_object_get(f, "record")) == 2 && json_integer_value(json_object_get(f, "box")) == 0);
  json_decref(j);
}

/* Boxes that no anchor meets are a finding where the matcher leaves them out, else worth knowing. */
static void boxes_no_anchor_meets(void **state) {
  (void)state;
  edited("thin.config", "base.config", "aspect_ratios: [1, 2, 0.5]",
         "aspect_ratios: [1] min_scale: 0.9 max_scale: 0.95 reduce_boxes_in_lowest_layer: false");
  succeeds("@ check --pipeline_config_path=thin.config");
  CHECK(strstr(err_text, "overlap no anchor by 0.5 or more (force_match_for_each_row") &&
        strstr(err_text, "good.record: record "));
  edited("thin.config", "thin.config", "force_match_for_each_row: true", "force_match_for_each_row: false");
  check_finds("so nothing is learnt from them; the worst: good.record: record ",
              "@ check --pipeline_config_path=thin.config");
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(mistakes_in_configs),
      cmocka_unit_test(files_that_are_no_configs),
      cmocka_unit_test(both_names_of_the_pets),
      cmocka_unit_test(paths_of_others_are_left_alone),
      cmocka_unit_test(mistakes_in_label_maps),
      cmocka_unit_test(mistakes_in_records),
      cmocka_unit_test(damaged_record_files),
      cmocka_unit_test(records_damaged_by_line_ends),
      cmocka_unit_test(damaged_checkpoints),
      cmocka_unit_test(checkpoints_of_other_models),
      cmocka_unit_test(wrong_usage),
      cmocka_unit_test(full_disk),
      cmocka_unit_test(check_as_json),
      cmocka_unit_test(boxes_no_anchor_meets),
  };
  char self[4096];
  (void)argc;
  if (!getcwd(home, sizeof home) || !realpath(argv[0], self)) return 1;
  snprintf(objdet, sizeof objdet, "%s/../../objdet", dirname(self)); /* BUILD/tests/cli/test_mistakes */
  return cmocka_run_group_tests(tests, begin, end);
}
