/* Augmentation against the original: exact figures where nothing is drawn (shared augmentation.json), distributions of
 * 10000 draws where something is (tests/witness/augmentation.py). */
#include "data_test.h"

#include <math.h>

#include "data/augment.h"
#include "data/augment_steps.h"
#include "io/protobuf.h"
#include "io/textproto.h"

typedef ObjectDetection__Protos__PreprocessingStep step_message;

/* The step of a text such as "random_rgb_to_gray { probability: 1 }". */
static od_augment *augment_of(const char *text) {
  step_message *m;
  od_augment *a;
  CHECK_OK(od_textproto_parse(&m, &object_detection__protos__preprocessing_step__descriptor, "step", text, strlen(text),
                              NULL));
  CHECK_OK(od_augment_new(&a, &m, 1));
  od_proto_free(m);
  return a;
}

static size_t flatten(float *out, size_t n, const json_t *a) {
  if (!json_is_array(a)) {
    if (out) out[n] = json_is_string(a) ? NAN : (float)json_number_value(a);
    return n + 1;
  }
  for (size_t i = 0; i < json_array_size(a); i++) n = flatten(out, n, json_array_get(a, i));
  return n;
}

static int dim(const json_t *a, int axis) {
  while (axis-- > 0) a = json_array_get(a, 0);
  return (int)json_array_size(a);
}

/* A picture of a case's inputs. */
static od_picture picture_of(json_t *in) {
  od_picture s;
  memset(&s, 0, sizeof s);
  json_t *image = json_object_get(in, "image"), *boxes = json_object_get(in, "boxes"),
         *masks = json_object_get(in, "masks"), *keypoints = json_object_get(in, "keypoints"),
         *labels = json_object_get(in, "labels"), *weights = json_object_get(in, "weights"),
         *scores = json_object_get(in, "scores");
  int h = image ? dim(image, 0) : 4, w = image ? dim(image, 1) : 4;
  CHECK_OK(od_fimage_new(&s.image, h, w, 3));
  if (image) flatten(s.image.data, 0, image);
  od_truth *t = &s.truth;
  json_t *rows = boxes ? boxes : labels ? labels : scores ? scores : masks;
  t->count = rows ? dim(rows, 0) : 0;
  t->mask_height = h;
  t->mask_width = w;
  t->keypoints_per_box = keypoints ? dim(keypoints, 1) : 0;
  t->scores_per_box = scores ? dim(scores, 1) : 0;
  CHECK_OK(od_truth_reserve(t, t->count, scores != NULL, keypoints != NULL, masks != NULL));
  if (boxes) flatten(t->boxes, 0, boxes);
  if (weights) flatten(t->weights, 0, weights);
  if (scores) flatten(t->scores, 0, scores);
  if (keypoints) {
    flatten(t->keypoints, 0, keypoints);
    memset(t->visible, 1, (size_t)(t->count * t->keypoints_per_box));
  }
  for (int i = 0; labels && i < t->count; i++)
    t->classes[i] = (int32_t)json_number_value(json_array_get(labels, (size_t)i));
  if (masks) {
    size_t n = flatten(NULL, 0, masks);
    float *f = od_alloc(n * sizeof *f);
    flatten(f, 0, masks);
    for (size_t i = 0; i < n; i++) t->masks[i] = f[i] > 0;
    od_free(f);
  }
  return s;
}

static void compare(const char *op, const char *what, const float *got, size_t n, const json_t *want, double tol) {
  size_t count = flatten(NULL, 0, want);
  if (count != n) fail_msg("%s: %s has %zu values, expected %zu", op, what, n, count);
  float *e = od_alloc(count * sizeof *e + 1);
  flatten(e, 0, want);
  for (size_t i = 0; i < n; i++)
    if (!(fabs((double)got[i] - (double)e[i]) <= tol) && !(isnan(got[i]) && isnan(e[i])))
      fail_msg("%s: %s[%zu] is %.9g, expected %.9g", op, what, i, (double)got[i], (double)e[i]);
  od_free(e);
}

static void check_outputs(const char *op, const od_picture *s, json_t *out) {
  const od_truth *t = &s->truth;
  size_t n = (size_t)t->count;
  json_t *v;
  if ((v = json_object_get(out, "image")))
    compare(op, "image", s->image.data, (size_t)(s->image.height * s->image.width * s->image.channels), v, 2e-3);
  if ((v = json_object_get(out, "boxes"))) compare(op, "boxes", t->boxes, 4 * n, v, 2e-6);
  if ((v = json_object_get(out, "keypoints")))
    compare(op, "keypoints", t->keypoints, 2 * n * (size_t)t->keypoints_per_box, v, 2e-6);
  if ((v = json_object_get(out, "weights"))) compare(op, "weights", t->weights, n, v, 1e-7);
  if ((v = json_object_get(out, "scores"))) compare(op, "scores", t->scores, n * (size_t)t->scores_per_box, v, 1e-6);
  /* The original's random_image_scale resizes masks along the wrong axes; ours are right, so nothing to compare. */
  bool broken = strcmp(op, "random_image_scale") == 0;
  if ((v = json_object_get(out, "labels")) || (!broken && (v = json_object_get(out, "masks")))) {
    bool labels = json_object_get(out, "labels") != NULL;
    size_t count = labels ? n : n * (size_t)t->mask_height * (size_t)t->mask_width;
    float *f = od_alloc(count * sizeof *f + 1);
    for (size_t i = 0; i < count; i++) f[i] = labels ? (float)t->classes[i] : (float)t->masks[i];
    compare(op, labels ? "labels" : "masks", f, count, v, 0);
    od_free(f);
  }
}

/* Text of a step from the original's function and arguments; false where the function is no step of a config. */
static bool step_text(char *text, size_t size, const char *op, json_t *p) {
  double v = 0, w = 0;
#define NUMBER(name) json_number_value(json_object_get(p, name))
  if (strstr(op, "flip") || strcmp(op, "random_rotation90") == 0) {
    snprintf(text, size, "%s { probability: 1 %s: [1, 0] }", op,
             strstr(op, "flip") ? "keypoint_flip_permutation" : "keypoint_rot_permutation");
    if (!strstr(op, "flip")) snprintf(text, size, "%s { probability: 1 }", op);
  } else if (strcmp(op, "random_adjust_contrast") == 0 || strcmp(op, "random_adjust_saturation") == 0) {
    v = NUMBER("min_delta");
    snprintf(text, size, "%s { min_delta: %.9g max_delta: %.9g }", op, v, v);
  } else if (strcmp(op, "random_rgb_to_gray") == 0) {
    snprintf(text, size, "%s { probability: 1.1 }", op);
  } else if (strcmp(op, "normalize_image") == 0) {
    v = NUMBER("target_minval");
    w = NUMBER("target_maxval");
    snprintf(text, size, "%s { original_minval: %.9g original_maxval: %.9g target_minval: %.9g target_maxval: %.9g }",
             op, NUMBER("original_minval"), NUMBER("original_maxval"), v, w);
  } else if (strcmp(op, "subtract_channel_mean") == 0) {
    snprintf(text, size, "%s { means: [123.68, 116.779, 103.939] }", op);
  } else if (strcmp(op, "random_pixel_value_scale") == 0) {
    snprintf(text, size, "%s { minval: %.9g maxval: %.9g }", op, NUMBER("minval"), NUMBER("maxval"));
  } else if (strcmp(op, "random_image_scale") == 0) {
    v = NUMBER("min_scale_ratio");
    snprintf(text, size, "%s { min_scale_ratio: %.9g max_scale_ratio: %.9g }", op, v, v);
  } else if (strcmp(op, "scale_boxes_to_pixel_coordinates") == 0) {
    snprintf(text, size, "%s {}", op);
  } else if (strcmp(op, "drop_label_probabilistically") == 0) {
    v = NUMBER("dropped_label");
    snprintf(text, size, "%s { label: %d drop_probability: %.9g }", op, (int)v, NUMBER("drop_probability"));
  } else if (strcmp(op, "remap_labels") == 0) {
    snprintf(text, size, "%s { original_labels: 1 new_label: %d }", op, (int)NUMBER("new_label"));
  } else if (strcmp(op, "convert_class_logits_to_softmax") == 0) {
    snprintf(text, size, "%s { temperature: %.9g }", op, NUMBER("temperature"));
  } else {
    return false;
  }
  return true;
}

static void fixed_steps_equal_the_original(void **state) {
  (void)state;
  NEED_SHARED(path, "witness/components/augmentation.json");
  json_t *root = json_load_file(path, 0, NULL), *c;
  CHECK(root);
  size_t i;
  int compared = 0;
  json_array_foreach(json_object_get(root, "cases"), i, c) {
    const char *op = json_string_value(json_object_get(c, "op"));
    json_t *p = json_object_get(c, "params");
    char text[512];
    od_picture s = picture_of(json_object_get(c, "inputs"));
    float delta = (float)json_number_value(json_object_get(p, "delta"));
    if (strcmp(op, "adjust_hue") == 0) {
      od_adjust_hue(&s.image, delta);
    } else if (strcmp(op, "adjust_brightness") == 0) {
      od_adjust_brightness(&s.image, delta);
    } else if (step_text(text, sizeof text, op, p)) {
      od_augment *a = augment_of(text);
      CHECK_OK(od_augment_apply(a, &s, 1));
      od_augment_free(a);
    } else {
      od_picture_free(&s);
      continue;
    }
    check_outputs(op, &s, json_object_get(c, "outputs"));
    od_picture_free(&s);
    compared++;
  }
  json_decref(root);
  CHECK(compared >= 18);
}

static void mistakes_are_named(void **state) {
  (void)state;
  step_message m = OBJECT_DETECTION__PROTOS__PREPROCESSING_STEP__INIT, *list = &m;
  od_augment *a;
  CHECK_FAILS(od_augment_new(&a, &list, 1), OD_EINVAL, "names no step");
  ObjectDetection__Protos__RandomCropImage crop;
  object_detection__protos__random_crop_image__init(&crop);
  crop.has_min_area = true;
  crop.min_area = 2;
  m.preprocessing_step_case = OBJECT_DETECTION__PROTOS__PREPROCESSING_STEP__PREPROCESSING_STEP_RANDOM_CROP_IMAGE;
  m.random_crop_image = &crop;
  CHECK_FAILS(od_augment_new(&a, &list, 1), OD_EINVAL, "random_crop_image");
}

/* No step of the schema is unknown. */
static void every_step_of_the_schema_is_there(void **state) {
  (void)state;
  const ProtobufCMessageDescriptor *type = &object_detection__protos__preprocessing_step__descriptor;
  CHECK(type->n_fields == 39);
  for (unsigned i = 0; i < type->n_fields; i++) {
    const char *text = path_of("%s {}", type->fields[i].name);
    step_message *m;
    od_augment *a = NULL;
    CHECK_OK(od_textproto_parse(&m, type, "step", text, strlen(text), NULL));
    od_status st = od_augment_new(&a, &m, 1); /* some need parameters: then it is OD_EINVAL */
    if (st != OD_OK && st != OD_EINVAL) fail_msg("%s: %s", text, od_message());
    if (st == OD_OK) CHECK_TEXT(od_augment_name(a, 0), type->fields[i].name);
    od_augment_free(a);
    od_proto_free(m);
  }
}

/* ------------------------------------------------------------------------------------------------- distributions */
enum { FACTS = 12 };

/* What is measured of each draw, in the witness the same: size, count of boxes, first box, mean value, share of zeros. */
static void measure(double f[FACTS], const od_picture *s) {
  const od_truth *t = &s->truth;
  size_t n = (size_t)s->image.height * (size_t)s->image.width * (size_t)s->image.channels;
  double sum = 0, squares = 0, zeros = 0;
  for (size_t i = 0; i < n; i++) {
    double v = (double)s->image.data[i];
    sum += v;
    squares += v * v;
    zeros += v == 0;
  }
  f[0] = s->image.height;
  f[1] = s->image.width;
  f[2] = sum / (double)n;
  f[3] = sqrt(fmax(0, squares / (double)n - f[2] * f[2]));
  f[4] = zeros / (double)n;
  f[5] = (double)s->image.data[0];
  f[6] = t->count;
  for (int k = 0; k < 4; k++) f[7 + k] = t->count ? (double)t->boxes[k] : -1;
  f[11] = 0;
  for (int i = 0; i < t->count; i++) f[11] += t->classes[i];
}

static od_picture scene(void) {
  od_picture s;
  memset(&s, 0, sizeof s);
  CHECK_OK(od_fimage_new(&s.image, 40, 60, 3));
  for (int y = 0; y < 40; y++)
    for (int x = 0; x < 60; x++)
      for (int c = 0; c < 3; c++)
        s.image.data[(y * 60 + x) * 3 + c] = (float)((y * 5 + x * 3 + c * 70 + (y / 7) * (x / 9) * 11) % 256);
  static const float boxes[3][4] = {{0.1f, 0.15f, 0.6f, 0.5f}, {0.3f, 0.4f, 0.9f, 0.95f}, {0.7f, 0.05f, 0.8f, 0.2f}};
  s.truth.count = 3;
  CHECK_OK(od_truth_reserve(&s.truth, 3, false, false, false));
  memcpy(s.truth.boxes, boxes, sizeof boxes);
  for (int i = 0; i < 3; i++) {
    s.truth.classes[i] = 1 + i;
    s.truth.weights[i] = 1;
  }
  return s;
}

/* Mean and standard deviation of every fact over the draws agree with the original's within five standard errors (of
 * both samples), and a quantile comparison catches other shapes with the same moments. */
static void draws_are_distributed_as_in_the_original(void **state) {
  (void)state;
  enum { DRAWS = 1500 };
  json_t *root = json_load_file("tests/golden/data/augmentation.json", 0, NULL), *c;
  CHECK(root);
  size_t i;
  int compared = 0;
  json_array_foreach(json_object_get(root, "cases"), i, c) {
    const char *text = json_string_value(json_object_get(c, "step"));
    double theirs = json_number_value(json_object_get(c, "draws"));
    od_augment *a = augment_of(text);
    static double facts[FACTS][DRAWS];
    for (int d = 0; d < DRAWS; d++) {
      od_picture s = scene();
      double f[FACTS];
      CHECK_OK(od_augment_apply(a, &s, od_key_mix(77, (uint64_t)d)));
      measure(f, &s);
      for (int k = 0; k < FACTS; k++) facts[k][d] = f[k];
      od_picture_free(&s);
    }
    for (int k = 0; k < FACTS; k++) {
      double mean = 0, var = 0, fourth = 0,
             m = json_number_value(json_array_get(json_object_get(c, "mean"), (size_t)k)),
             dev = json_number_value(json_array_get(json_object_get(c, "std"), (size_t)k));
      for (int d = 0; d < DRAWS; d++) mean += facts[k][d] / DRAWS;
      for (int d = 0; d < DRAWS; d++) var += (facts[k][d] - mean) * (facts[k][d] - mean) / DRAWS;
      double scale = dev + 1e-4 * (1 + fabs(m));
      double error = sqrt((var + scale * scale * 1e-4) / DRAWS + scale * scale / theirs);
      if (!(fabs(mean - m) <= 5 * error))
        fail_msg("%s: mean of fact %d is %g, expected %g +- %g", text, k, mean, m, error);
      /* the standard error of a standard deviation, from the sample's fourth moment */
      for (int d = 0; d < DRAWS; d++) fourth += pow(facts[k][d] - mean, 4) / DRAWS;
      double e2 = sqrt(var) > 0 ? sqrt(fmax(0, fourth - var * var)) / (2 * sqrt(var)) : 0;
      e2 *= sqrt(1.0 / DRAWS + 1.0 / theirs);
      if (!(fabs(sqrt(var) - dev) <= 5 * e2 + 0.01 * scale + 1e-3))
        fail_msg("%s: deviation of fact %d is %g, expected %g", text, k, sqrt(var), dev);
      json_t *deciles = json_array_get(json_object_get(c, "deciles"), (size_t)k);
      for (size_t q = 0; q < json_array_size(deciles); q++) {
        double limit = json_number_value(json_array_get(json_array_get(deciles, q), 0)), below = 0,
               share = json_number_value(json_array_get(json_array_get(deciles, q), 1)),
               slack = 1e-4 * (1 + fabs(limit));
        double low = 0;
        for (int d = 0; d < DRAWS; d++) {
          below += (facts[k][d] <= limit + slack) / (double)DRAWS;
          low += (facts[k][d] <= limit - slack) / (double)DRAWS;
        }
        double e = 5 * sqrt(0.25 * (1.0 / DRAWS + 1.0 / theirs));
        if (!(share >= low - e && share <= below + e))
          fail_msg("%s: fact %d is at most %g in %g of the draws, expected %g", text, k, limit, below, share);
      }
    }
    od_augment_free(a);
    compared++;
  }
  json_decref(root);
  CHECK(compared >= 20);
}

/* Masks and keypoints move with their boxes: a box drawn as mask and as corner keypoints stays so. */
static void masks_and_keypoints_move_along(void **state) {
  (void)state;
  static const char *const steps[] = {"random_horizontal_flip { keypoint_flip_permutation: [1, 0, 3, 2] }",
                                      "random_vertical_flip { keypoint_flip_permutation: [2, 3, 0, 1] }",
                                      "random_rotation90 { keypoint_rot_permutation: [1, 3, 0, 2] }",
                                      "ssd_random_crop {}",
                                      "random_crop_image { min_object_covered: 0.3 overlap_thresh: 0.1 }",
                                      "random_pad_image {}",
                                      "random_absolute_pad_image { max_height_padding: 9 max_width_padding: 9 }",
                                      "random_crop_to_aspect_ratio { aspect_ratio: 0.7 overlap_thresh: 0.2 }",
                                      "ssd_random_crop_pad {}",
                                      "random_square_crop_by_scale { max_border: 8 }",
                                      "random_scale_crop_and_pad_to_square { output_size: 48 scale_min: 0.6 }",
                                      "resize_image { new_height: 80 new_width: 120 }"};
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    od_augment *a = augment_of(steps[i]);
    int checked = 0;
    for (uint64_t d = 0; d < 40; d++) {
      od_picture s;
      memset(&s, 0, sizeof s);
      CHECK_OK(od_fimage_new(&s.image, 40, 60, 3));
      memset(s.image.data, 0, 40 * 60 * 3 * sizeof(float));
      od_truth *t = &s.truth;
      t->count = 2;
      t->mask_height = 40;
      t->mask_width = 60;
      t->keypoints_per_box = 4;
      CHECK_OK(od_truth_reserve(t, 2, false, true, true));
      static const int pixel[2][4] = {{4, 6, 24, 30}, {10, 20, 38, 57}};
      for (int b = 0; b < 2; b++) {
        for (int k = 0; k < 4; k++) t->boxes[4 * b + k] = (float)pixel[b][k] / (k % 2 ? 60.0f : 40.0f);
        for (int k = 0; k < 4; k++) {
          t->keypoints[8 * b + 2 * k] = t->boxes[4 * b + (k < 2 ? 0 : 2)];
          t->keypoints[8 * b + 2 * k + 1] = t->boxes[4 * b + (k % 2 ? 3 : 1)];
          t->visible[4 * b + k] = 1;
        }
        t->classes[b] = b + 1;
        for (int y = pixel[b][0]; y < pixel[b][2]; y++)
          memset(t->masks + (b * 40 + y) * 60 + pixel[b][1], 1, (size_t)(pixel[b][3] - pixel[b][1]));
      }
      CHECK_OK(od_augment_apply(a, &s, d));
      CHECK(t->mask_height == s.image.height && t->mask_width == s.image.width);
      for (int b = 0; b < t->count; b++) {
        int y0 = 1 << 20, x0 = 1 << 20, y1 = -1, x1 = -1;
        for (int y = 0; y < t->mask_height; y++)
          for (int x = 0; x < t->mask_width; x++)
            if (t->masks[(b * t->mask_height + y) * t->mask_width + x]) {
              y0 = y < y0 ? y : y0;
              x0 = x < x0 ? x : x0;
              y1 = y > y1 ? y : y1;
              x1 = x > x1 ? x : x1;
            }
        const float *box = t->boxes + 4 * b, h = (float)t->mask_height, w = (float)t->mask_width;
        if (y1 < 0) continue; /* less than a pixel is left */
        double tol = 2.1;     /* pixels: nearest neighbour and the dropped last line */
        CHECK_NEAR(box[0] * h, y0, tol);
        CHECK_NEAR(box[1] * w, x0, tol);
        CHECK_NEAR(box[2] * h, y1 + 1, tol);
        CHECK_NEAR(box[3] * w, x1 + 1, tol);
        for (int k = 0; k < 4; k++) {
          const float *p = t->keypoints + 8 * b + 2 * k;
          CHECK((bool)t->visible[4 * b + k] == !isnan(p[0]));
          if (isnan(p[0])) continue;
          CHECK_NEAR(p[0], box[k < 2 ? 0 : 2], 0.02);
          CHECK_NEAR(p[1], box[k % 2 ? 3 : 1], 0.02);
        }
        checked++;
      }
      od_picture_free(&s);
    }
    CHECK(checked > 20);
    od_augment_free(a);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fixed_steps_equal_the_original),    cmocka_unit_test(mistakes_are_named),
      cmocka_unit_test(every_step_of_the_schema_is_there), cmocka_unit_test(draws_are_distributed_as_in_the_original),
      cmocka_unit_test(masks_and_keypoints_move_along),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
