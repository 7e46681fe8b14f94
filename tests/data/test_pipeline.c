/* The input pipeline: order, threads, resuming, bad records, batches. */
#include "od_test.h"

#include <math.h>

#include "data/pipeline.h"
#include "image/encode.h"
#include "io/example.h"
#include "io/record.h"

static ObjectDetection__Protos__InputReader reader;
static ObjectDetection__Protos__TFRecordInputReader files;
static char *path;

/* A reader of one path. */
static od_input_options options_for(const char *record, int batch) {
  object_detection__protos__input_reader__init(&reader);
  object_detection__protos__tfrecord_input_reader__init(&files);
  od_free(path);
  path = od_strdup(record);
  files.n_input_path = 1;
  files.input_path = &path;
  reader.input_reader_case = OBJECT_DETECTION__PROTOS__INPUT_READER__INPUT_READER_TF_RECORD_INPUT_READER;
  reader.tf_record_input_reader = &files;
  od_input_options o = {
      .reader = &reader, .batch_size = batch, .shuffle = -1, .epochs = -1, .num_classes = 3, .seed = 7};
  o.resizer = (od_resizer){.kind = OD_RESIZER_FIXED, .height = 24, .width = 32};
  return o;
}

/* A record file of n small pictures; picture i is i pixels wider than 20, one box of class 1 + i % 3, source_id "i". */
static const char *write_records(const char *dir, const char *name, int n, od_record_compression compression) {
  static char out[512];
  snprintf(out, sizeof out, "%s/%s", dir, name);
  od_record_writer *w;
  od_record_options ro = {.compression = compression};
  od_example_builder *b;
  CHECK_OK(od_record_writer_open(&w, out, &ro));
  CHECK_OK(od_example_builder_new(&b));
  for (int i = 0; i < n; i++) {
    od_image im;
    od_str png = OD_STR_INIT, bytes = OD_STR_INIT;
    CHECK_OK(od_image_new(&im, 16, 20 + i, 3));
    for (int k = 0; k < 16 * (20 + i) * 3; k++) im.data[k] = (uint8_t)(k * 7 + i * 13);
    CHECK_OK(od_png_encode(&png, &im));
    od_image_free(&im);
    char id[16];
    snprintf(id, sizeof id, "%d", i);
    od_example_builder_reset(b);
    od_example_add_bytes(b, "image/encoded", png.data, png.len);
    od_example_add_text(b, "image/source_id", id);
    float low = 0.1f, high = 0.5f + 0.01f * (float)i;
    int64_t label = 1 + i % 3;
    od_example_add_floats(b, "image/object/bbox/ymin", &low, 1);
    od_example_add_floats(b, "image/object/bbox/xmin", &low, 1);
    od_example_add_floats(b, "image/object/bbox/ymax", &high, 1);
    od_example_add_floats(b, "image/object/bbox/xmax", &high, 1);
    od_example_add_int64s(b, "image/object/class/label", &label, 1);
    CHECK_OK(od_example_builder_finish(b, &bytes));
    CHECK_OK(od_record_write(w, bytes.data, bytes.len));
    od_str_free(&png);
    od_str_free(&bytes);
  }
  od_example_builder_free(b);
  CHECK_OK(od_record_writer_close(w));
  return out;
}

/* Source ids, and a digest of all pixels and boxes, of the next n batches. */
typedef struct {
  char ids[2048];
  uint64_t digest;
} seen;

static seen run(od_input_queue *in, int batches) {
  seen s = {"", 0};
  od_batch b = {0};
  for (int i = 0; i < batches; i++) {
    CHECK_OK(od_input_next(in, &b));
    for (int k = 0; k < b.count; k++) {
      size_t n = strlen(s.ids);
      snprintf(s.ids + n, sizeof s.ids - n, "%s ", b.samples[k].source_id);
    }
    s.digest = od_key_mix(s.digest, od_hash_bytes(b.images.data, od_tensor_bytes(&b.images)));
    s.digest = od_key_mix(s.digest, od_hash_bytes(b.boxes.data, od_tensor_bytes(&b.boxes)));
  }
  od_batch_free(&b);
  return s;
}

static ObjectDetection__Protos__PreprocessingStep *crop_and_flip[2];

static void make_steps(void) {
  static ObjectDetection__Protos__PreprocessingStep steps[2];
  static ObjectDetection__Protos__RandomHorizontalFlip flip;
  static ObjectDetection__Protos__SSDRandomCrop crop;
  for (int i = 0; i < 2; i++) {
    object_detection__protos__preprocessing_step__init(&steps[i]);
    crop_and_flip[i] = &steps[i];
  }
  object_detection__protos__random_horizontal_flip__init(&flip);
  object_detection__protos__ssdrandom_crop__init(&crop);
  steps[0].preprocessing_step_case =
      OBJECT_DETECTION__PROTOS__PREPROCESSING_STEP__PREPROCESSING_STEP_RANDOM_HORIZONTAL_FLIP;
  steps[0].random_horizontal_flip = &flip;
  steps[1].preprocessing_step_case = OBJECT_DETECTION__PROTOS__PREPROCESSING_STEP__PREPROCESSING_STEP_SSD_RANDOM_CROP;
  steps[1].ssd_random_crop = &crop;
}

static void order_is_the_seed_s_whatever_the_threads(void **state) {
  (void)state;
  const char *record = write_records(od_test_dir(), "a.record", 23, OD_RECORD_PLAIN);
  make_steps();
  seen first = {"", 0};
  for (int threads = 1; threads <= 5; threads += 2) {
    od_input_queue *in;
    od_input_options o = options_for(record, 4);
    o.augmentation = crop_and_flip;
    o.augmentation_count = 2;
    o.threads = threads;
    o.queue = threads * 7;
    CHECK_OK(od_input_open(&in, &o));
    CHECK(od_input_count(in) == 23);
    seen s = run(in, 20);
    if (threads == 1) first = s;
    CHECK_TEXT(s.ids, first.ids);
    CHECK(s.digest == first.digest);
    od_input_free(in);
  }
  /* Another seed: another order; and an epoch holds every picture once. */
  od_input_queue *in;
  od_input_options o = options_for(record, 23);
  o.seed = 8;
  CHECK_OK(od_input_open(&in, &o));
  for (int epoch = 0; epoch < 2; epoch++) {
    od_batch b = {0};
    bool found[23] = {0};
    CHECK_OK(od_input_next(in, &b));
    for (int i = 0; i < 23; i++) found[strtol(b.samples[i].source_id, NULL, 10)] = true;
    for (int i = 0; i < 23; i++) CHECK(found[i]);
    od_batch_free(&b);
  }
  od_input_free(in);
}

static void a_resumed_run_sees_the_same(void **state) {
  (void)state;
  const char *dir = od_test_dir();
  make_steps();
  for (int packed = 0; packed < 2; packed++) {
    const char *record =
        write_records(dir, packed ? "p.record.gz" : "p.record", 17, packed ? OD_RECORD_GZIP : OD_RECORD_PLAIN);
    od_input_options o = options_for(record, 3);
    o.augmentation = crop_and_flip;
    o.augmentation_count = 2;
    o.threads = 3;
    reader.shuffle_buffer_size = 5;
    od_input_queue *whole, *a, *b;
    CHECK_OK(od_input_open(&whole, &o));
    run(whole, 9);
    seen expected = run(whole, 8);
    CHECK_OK(od_input_open(&a, &o));
    run(a, 9);
    o.start = od_input_position(a);
    CHECK(o.start == 27);
    CHECK_OK(od_input_open(&b, &o));
    seen got = run(b, 8);
    CHECK_TEXT(got.ids, expected.ids);
    CHECK(got.digest == expected.digest);
    CHECK(od_input_fingerprint(a) == od_input_fingerprint(whole));
    od_input_free(whole);
    od_input_free(a);
    od_input_free(b);
  }
}

static void evaluation_goes_through_the_file_once(void **state) {
  (void)state;
  const char *dir = od_test_dir();
  for (int packed = 0; packed < 2; packed++) {
    const char *record =
        write_records(dir, packed ? "e.record.z" : "e.record", 11, packed ? OD_RECORD_ZLIB : OD_RECORD_PLAIN);
    od_input_options o = options_for(record, 2);
    o.shuffle = 0;
    o.epochs = 1;
    o.sample_1_of_n = 2;
    o.partial_batch = true;
    o.keep_original = true;
    od_input_queue *in;
    CHECK_OK(od_input_open(&in, &o));
    CHECK(od_input_count(in) == 6);
    seen s = run(in, 2);
    CHECK_TEXT(s.ids, "0 2 4 6 ");
    od_batch b = {0};
    CHECK_OK(od_input_next(in, &b));
    CHECK(b.count == 2 && b.samples[1].pixels.width == 30 && b.samples[1].original_width == 30);
    CHECK(od_input_next(in, &b) == OD_END);
    CHECK(od_input_next(in, &b) == OD_END);
    od_batch_free(&b);
    od_input_free(in);
  }
}

static void batches_hold_what_the_model_takes(void **state) {
  (void)state;
  const char *record = write_records(od_test_dir(), "b.record", 5, OD_RECORD_PLAIN);
  od_input_options o = options_for(record, 2);
  o.shuffle = 0;
  o.max_boxes = 4;
  od_input_queue *in;
  CHECK_OK(od_input_open(&in, &o));
  od_batch b = {0};
  CHECK_OK(od_input_next(in, &b));
  CHECK(od_shape_equal(&b.images.shape, &OD_SHAPE(2, 24, 32, 3)) && od_shape_equal(&b.boxes.shape, &OD_SHAPE(2, 4, 4)));
  CHECK(od_shape_equal(&b.class_targets.shape, &OD_SHAPE(2, 4, 3)) && b.masks.data == NULL);
  const float *boxes = b.boxes.data, *targets = b.class_targets.data, *weights = b.weights.data;
  CHECK_NEAR(boxes[0], 0.1, 1e-7);
  CHECK_NEAR(boxes[16 + 3], 0.51, 1e-6);
  CHECK(boxes[4] == 0 && weights[0] == 1 && weights[1] == 0 && weights[4] == 1);
  CHECK(targets[0] == 1 && targets[1] == 0 && targets[12] == 0 && targets[13] == 1);
  const int32_t *n = b.num_boxes.data, *classes = b.classes.data, *shapes = b.true_shapes.data;
  CHECK(n[0] == 1 && n[1] == 1 && classes[0] == 0 && classes[1] == -1 && classes[4] == 1);
  CHECK(shapes[0] == 24 && shapes[1] == 32 && shapes[2] == 3);
  od_input_free(in);
  /* Different sizes in one batch: padded to the largest, boxes follow. */
  o.resizer = (od_resizer){.kind = OD_RESIZER_IDENTITY};
  CHECK_OK(od_input_open(&in, &o));
  CHECK_OK(od_input_next(in, &b));
  CHECK(od_shape_equal(&b.images.shape, &OD_SHAPE(2, 16, 21, 3)));
  shapes = b.true_shapes.data;
  boxes = b.boxes.data;
  CHECK(shapes[1] == 20 && shapes[4] == 21);
  CHECK_NEAR(boxes[1], 0.1 * 20 / 21, 1e-6);
  CHECK_NEAR(boxes[17], 0.1, 1e-6);
  const float *pixels = b.images.data;
  CHECK(pixels[19 * 3 + 2] == (float)((59 * 7) & 255) && pixels[20 * 3] == 0 &&
        pixels[21 * 3] == (float)((60 * 7) & 255));
  od_batch_free(&b);
  od_input_free(in);
}

static int warnings;
static void count_warnings(void *ctx, od_level level, const char *text) {
  (void)ctx;
  warnings += level == OD_WARNING && strstr(text, "record 3") != NULL;
}

static void bad_records_stop_or_are_counted(void **state) {
  (void)state;
  const char *record = write_records(od_test_dir(), "c.record", 8, OD_RECORD_PLAIN);
  FILE *f = fopen(record, "r+b");
  od_record_file *rf;
  CHECK_OK(od_record_file_open(&rf, record, NULL));
  fseek(f, (long)od_record_file_offset(rf, 3) + 40, SEEK_SET);
  fputc('!', f);
  fclose(f);
  od_record_file_free(rf);
  od_input_options o = options_for(record, 8);
  o.shuffle = 0;
  od_input_queue *in;
  od_batch b = {0};
  CHECK_OK(od_input_open(&in, &o));
  CHECK_FAILS(od_input_next(in, &b), OD_EDATA, "record 3");
  od_input_free(in);
  od_reporter r = {.line = count_warnings};
  o.on_bad = OD_BAD_SKIP;
  o.reporter = &r;
  o.batch_size = 7;
  warnings = 0;
  CHECK_OK(od_input_open(&in, &o));
  seen s = run(in, 2);
  CHECK_TEXT(s.ids, "0 1 2 4 5 6 7 0 1 2 4 5 6 7 ");
  CHECK(od_input_skipped(in) == 2 && warnings == 2);
  od_input_free(in);
}

/* One record: three boxes, the first two nearly the same place with two classes, scores for each. */
static const char *write_scores(const char *dir) {
  static char out[512];
  snprintf(out, sizeof out, "%s/scores.record", dir);
  od_record_writer *w;
  od_example_builder *b;
  od_image im;
  od_str png = OD_STR_INIT, bytes = OD_STR_INIT;
  CHECK_OK(od_image_new(&im, 8, 8, 3));
  memset(im.data, 50, 192);
  CHECK_OK(od_png_encode(&png, &im));
  od_image_free(&im);
  CHECK_OK(od_record_writer_open(&w, out, NULL));
  CHECK_OK(od_example_builder_new(&b));
  od_example_add_bytes(b, "image/encoded", png.data, png.len);
  od_example_add_floats(b, "image/object/bbox/ymin", (float[]){0.1f, 0.100005f, 0.2f}, 3);
  od_example_add_floats(b, "image/object/bbox/xmin", (float[]){0.1f, 0.1f, 0.2f}, 3);
  od_example_add_floats(b, "image/object/bbox/ymax", (float[]){0.5f, 0.5f, 0.6f}, 3);
  od_example_add_floats(b, "image/object/bbox/xmax", (float[]){0.7f, 0.7f, 0.8f}, 3);
  od_example_add_int64s(b, "image/object/class/label", (int64_t[]){1, 3, 2}, 3);
  od_example_add_floats(b, "image/object/class/multiclass_scores", (float[]){0.1f, 0.2f, 0.7f, 0, 0.5f, 0.5f, 1, 0, 0},
                        9);
  CHECK_OK(od_example_builder_finish(b, &bytes));
  CHECK_OK(od_record_write(w, bytes.data, bytes.len));
  CHECK_OK(od_record_writer_close(w));
  od_example_builder_free(b);
  od_str_free(&png);
  od_str_free(&bytes);
  return out;
}

static void boxes_of_several_classes_and_scores(void **state) {
  (void)state;
  const char *record = write_scores(od_test_dir());
  od_input_options o = options_for(record, 1);
  od_input_queue *in;
  od_batch b = {0};
  o.merge_multiple_boxes = true;
  o.max_boxes = 2;
  CHECK_OK(od_input_open(&in, &o));
  CHECK_OK(od_input_next(in, &b));
  const float *t = b.class_targets.data;
  CHECK(((int32_t *)b.num_boxes.data)[0] == 2 && b.boxes.shape.dim[1] == 4); /* three boxes come: rows are doubled */
  CHECK(t[0] == 1 && t[1] == 0 && t[2] == 1 && t[4] == 1 && t[3] == 0);
  CHECK_NEAR(((float *)b.boxes.data)[4], 0.2, 1e-7);
  od_input_free(in);
  o.merge_multiple_boxes = false;
  o.use_multiclass_scores = true;
  reader.load_multiclass_scores = true;
  CHECK_OK(od_input_open(&in, &o));
  CHECK_OK(od_input_next(in, &b));
  t = b.class_targets.data;
  CHECK(((int32_t *)b.num_boxes.data)[0] == 3 && t[2] == 0.7f && t[3] == 0 && t[4] == 0.5f && t[6] == 1);
  od_input_free(in);
  o.num_classes = 4;
  CHECK_OK(od_input_open(&in, &o));
  CHECK_FAILS(od_input_next(in, &b), OD_EDATA, "3 scores a box");
  od_input_free(in);
  o.merge_multiple_boxes = true;
  CHECK_FAILS(od_input_open(&in, &o), OD_EINVAL, "merge_multiple_label_boxes");
  /* Cut off instead of doubled. */
  o = options_for(record, 1);
  o.max_boxes = 2;
  o.clip_boxes = true;
  CHECK_OK(od_input_open(&in, &o));
  CHECK_OK(od_input_next(in, &b));
  CHECK(((int32_t *)b.num_boxes.data)[0] == 2 && b.boxes.shape.dim[1] == 2);
  od_batch_free(&b);
  od_input_free(in);
}

static void mistakes_are_named(void **state) {
  (void)state;
  od_input_queue *in;
  od_input_options o = options_for("PATH_TO_BE_CONFIGURED/pet_train.record", 1);
  CHECK_FAILS(od_input_open(&in, &o), OD_EINVAL, "PATH_TO_BE_CONFIGURED");
  o = options_for("/nonexistent/x.record", 1);
  CHECK_FAILS(od_input_open(&in, &o), OD_ENOENT, "/nonexistent/x.record");
  const char *record = write_records(od_test_dir(), "d.record", 4, OD_RECORD_PLAIN);
  o = options_for(record, 1);
  reader.load_dense_pose = true;
  CHECK_FAILS(od_input_open(&in, &o), OD_EUNSUPPORTED, "load_dense_pose");
  o = options_for(record, 4);
  o.num_classes = 2;
  CHECK_OK(od_input_open(&in, &o));
  od_batch b = {0};
  CHECK_FAILS(od_input_next(in, &b), OD_EDATA, "num_classes 2");
  od_input_free(in);
}

static void shapes_ahead_are_the_shapes_that_come(void **state) {
  (void)state;
  const char *record = write_records(od_test_dir(), "s.record", 9, OD_RECORD_PLAIN);
  od_input_options o = options_for(record, 1);
  o.resizer = (od_resizer){.kind = OD_RESIZER_KEEP_ASPECT, .min_dimension = 20, .max_dimension = 40};
  od_input_queue *in;
  CHECK_OK(od_input_open(&in, &o));
  od_input_shape ahead[4];
  od_batch b = {0};
  int n = 0;
  for (int tries = 0; tries < 5000 && n < 4; tries++) {
    n = od_input_upcoming(in, ahead, 4);
    if (n < 4) usleep(1000);
  }
  CHECK(n == 4);
  for (int i = 0; i < 4; i++) {
    CHECK_OK(od_input_next(in, &b));
    CHECK(b.images.shape.dim[1] == ahead[i].height && b.images.shape.dim[2] == ahead[i].width);
  }
  od_batch_free(&b);
  od_input_free(in);
}

static void real_records_come_through(void **state) {
  (void)state;
  NEED_SHARED(record, "data/raccoon_original/train.record");
  od_input_options o = options_for(record, 8);
  o.resizer = (od_resizer){.kind = OD_RESIZER_FIXED, .height = 300, .width = 300};
  o.num_classes = 1;
  make_steps();
  o.augmentation = crop_and_flip;
  o.augmentation_count = 2;
  od_input_queue *in;
  size_t before = od_mem_used();
  CHECK_OK(od_input_open(&in, &o));
  CHECK(od_input_count(in) == 160);
  od_batch b = {0};
  for (int i = 0; i < 5; i++) {
    CHECK_OK(od_input_next(in, &b));
    const float *p = b.images.data, *boxes = b.boxes.data;
    for (int64_t k = 0; k < od_tensor_size(&b.images); k += 1001) CHECK(p[k] >= 0 && p[k] <= 255);
    for (int64_t k = 0; k < od_tensor_size(&b.boxes); k++) CHECK(boxes[k] >= 0 && boxes[k] <= 1);
  }
  od_batch_free(&b);
  od_input_free(in);
  CHECK(od_mem_used() == before);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(order_is_the_seed_s_whatever_the_threads),
      cmocka_unit_test(a_resumed_run_sees_the_same),
      cmocka_unit_test(evaluation_goes_through_the_file_once),
      cmocka_unit_test(batches_hold_what_the_model_takes),
      cmocka_unit_test(bad_records_stop_or_are_counted),
      cmocka_unit_test(boxes_of_several_classes_and_scores),
      cmocka_unit_test(mistakes_are_named),
      cmocka_unit_test(shapes_ahead_are_the_shapes_that_come),
      cmocka_unit_test(real_records_come_through),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
