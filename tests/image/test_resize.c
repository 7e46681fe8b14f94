/* Resizing: bit for bit TensorFlow's (tests/witness/resize.py), and the config's resizers against the original's figures. */
#include "od_test.h"

#include <jansson.h>
#include <math.h>
#include <openssl/sha.h>

#include "image/resizer.h"

static void formula_image(uint8_t *u8, float *f32, size_t n) {
  for (size_t i = 0; i < n; i++) {
    u8[i] = (uint8_t)((uint32_t)(i * 2654435761u) >> 24);
    f32[i] = (float)u8[i] / 7.0f;
  }
}

static void every_method_equals_tensorflow(void **state) {
  (void)state;
  static const char *const methods[] = {"bilinear", "nearest", "bicubic", "area"}, *const modes[] = {"legacy", "align",
                                                                                                     "half"};
  FILE *f = fopen("tests/golden/image/resize.txt", "r");
  CHECK(f);
  char line[512], want[80], method[16], corners[16], dtype[8], got[65];
  int h, w, c, oh, ow, compared = 0, bad = 0;
  while (fgets(line, sizeof line, f)) {
    if (sscanf(line, "%79s %15s %15s %7s %d %d %d %d %d", want, method, corners, dtype, &h, &w, &c, &oh, &ow) != 9)
      continue;
    int m = 0, k = 0;
    while (strcmp(methods[m], method) != 0) m++;
    while (strcmp(modes[k], corners) != 0) k++;
    size_t n = (size_t)(h * w * c), on = (size_t)(oh * ow * c);
    uint8_t *u8 = od_alloc(n);
    float *f32 = od_alloc(n * 4), *out = od_alloc(on * 4);
    formula_image(u8, f32, n);
    bool bytes = strcmp(dtype, "u8") == 0;
    CHECK_OK(od_resize(out, oh, ow, (size_t)(ow * c), bytes ? (void *)u8 : (void *)f32, bytes ? OD_U8 : OD_F32, h, w, c,
                       (od_resize_method)m, (od_corners)k));
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256((unsigned char *)out, on * 4, digest);
    for (int i = 0; i < SHA256_DIGEST_LENGTH; i++) snprintf(got + 2 * i, 3, "%02x", digest[i]);
    compared++;
    if (strcmp(got, want) != 0) {
      print_message("%s %s %s %dx%dx%d to %dx%d: other bits than TensorFlow\n", method, corners, dtype, h, w, c, oh,
                    ow);
      bad++;
    }
    od_free(u8);
    od_free(f32);
    od_free(out);
  }
  fclose(f);
  CHECK(compared > 150 && bad == 0);
}

static void windows_leave_their_surroundings_alone(void **state) {
  (void)state;
  float in[2 * 2] = {1, 2, 3, 4}, out[4 * 5];
  for (int i = 0; i < 20; i++) out[i] = -7;
  CHECK_OK(od_resize(out, 3, 3, 5, in, OD_F32, 2, 2, 1, OD_RESIZE_BILINEAR, OD_CORNERS_ALIGN));
  CHECK(out[0] == 1 && out[1] == 1.5f && out[2] == 2 && out[12] == 4);
  for (int i = 0; i < 20; i++)
    if (i % 5 >= 3 || i >= 15) CHECK(out[i] == -7);
  CHECK_FAILS(od_resize(out, 0, 3, 5, in, OD_F32, 2, 2, 1, OD_RESIZE_AREA, OD_CORNERS_LEGACY), OD_EINVAL, "positive");
}

/* ---- the original's figures: shared/witness/components/resizers.json ---- */
static int find(const char *text, const char *key, int absent) {
  const char *at = strstr(text, key);
  return at ? (int)strtol(at + strlen(key) + 1, NULL, 10) : absent;
}

static od_resize_method method_of(const char *text) {
  return strstr(text, "NEAREST")   ? OD_RESIZE_NEAREST
         : strstr(text, "BICUBIC") ? OD_RESIZE_BICUBIC
         : strstr(text, ": AREA")  ? OD_RESIZE_AREA
                                   : OD_RESIZE_BILINEAR;
}

/* The messages are filled in by hand: the text parser has its own tests. */
static od_resizer resizer_of(const char *text) {
  ObjectDetection__Protos__ImageResizer m = OBJECT_DETECTION__PROTOS__IMAGE_RESIZER__INIT;
  ObjectDetection__Protos__FixedShapeResizer fixed = OBJECT_DETECTION__PROTOS__FIXED_SHAPE_RESIZER__INIT;
  ObjectDetection__Protos__KeepAspectRatioResizer keep = OBJECT_DETECTION__PROTOS__KEEP_ASPECT_RATIO_RESIZER__INIT;
  ObjectDetection__Protos__ConditionalShapeResizer cond = OBJECT_DETECTION__PROTOS__CONDITIONAL_SHAPE_RESIZER__INIT;
  ObjectDetection__Protos__PadToMultipleResizer multiple = OBJECT_DETECTION__PROTOS__PAD_TO_MULTIPLE_RESIZER__INIT;
  ObjectDetection__Protos__IdentityResizer identity = OBJECT_DETECTION__PROTOS__IDENTITY_RESIZER__INIT;
  float values[3] = {1, 2, 3};
  if (strstr(text, "fixed_shape")) {
    m.image_resizer_oneof_case = OBJECT_DETECTION__PROTOS__IMAGE_RESIZER__IMAGE_RESIZER_ONEOF_FIXED_SHAPE_RESIZER;
    m.fixed_shape_resizer = &fixed;
    fixed.height = find(text, "height:", 0);
    fixed.width = find(text, "width:", 0);
    fixed.resize_method = (ObjectDetection__Protos__ResizeType)method_of(text);
    fixed.convert_to_grayscale = strstr(text, "grayscale: true") != NULL;
  } else if (strstr(text, "keep_aspect")) {
    m.image_resizer_oneof_case = OBJECT_DETECTION__PROTOS__IMAGE_RESIZER__IMAGE_RESIZER_ONEOF_KEEP_ASPECT_RATIO_RESIZER;
    m.keep_aspect_ratio_resizer = &keep;
    keep.min_dimension = find(text, "min_dimension:", 0);
    keep.max_dimension = find(text, "max_dimension:", 0);
    keep.resize_method = (ObjectDetection__Protos__ResizeType)method_of(text);
    keep.pad_to_max_dimension = strstr(text, "pad_to_max_dimension: true") != NULL;
    if (strstr(text, "pad_value: 1")) {
      keep.n_per_channel_pad_value = 3;
      keep.per_channel_pad_value = values;
    }
  } else if (strstr(text, "conditional")) {
    m.image_resizer_oneof_case = OBJECT_DETECTION__PROTOS__IMAGE_RESIZER__IMAGE_RESIZER_ONEOF_CONDITIONAL_SHAPE_RESIZER;
    m.conditional_shape_resizer = &cond;
    cond.condition = strstr(text, "GREATER")
                         ? OBJECT_DETECTION__PROTOS__CONDITIONAL_SHAPE_RESIZER__RESIZE_CONDITION__GREATER
                         : OBJECT_DETECTION__PROTOS__CONDITIONAL_SHAPE_RESIZER__RESIZE_CONDITION__SMALLER;
    cond.size_threshold = find(text, "size_threshold:", 0);
  } else if (strstr(text, "multiple")) {
    m.image_resizer_oneof_case = OBJECT_DETECTION__PROTOS__IMAGE_RESIZER__IMAGE_RESIZER_ONEOF_PAD_TO_MULTIPLE_RESIZER;
    m.pad_to_multiple_resizer = &multiple;
    multiple.multiple = find(text, "multiple:", 0);
  } else {
    m.image_resizer_oneof_case = OBJECT_DETECTION__PROTOS__IMAGE_RESIZER__IMAGE_RESIZER_ONEOF_IDENTITY_RESIZER;
    m.identity_resizer = &identity;
  }
  od_resizer r;
  CHECK_OK(od_resizer_from_config(&r, &m));
  return r;
}

/* Numbers of a nested JSON array into out, in order; how many. */
static size_t flatten(float *out, size_t n, const json_t *a) {
  if (!json_is_array(a)) {
    if (out) out[n] = (float)json_number_value(a);
    return n + 1;
  }
  for (size_t i = 0; i < json_array_size(a); i++) n = flatten(out, n, json_array_get(a, i));
  return n;
}

static float *floats_of(const json_t *a) {
  float *p = od_alloc(flatten(NULL, 0, a) * sizeof *p + 1);
  flatten(p, 0, a);
  return p;
}

static int dim(const json_t *a, int axis) {
  while (axis-- > 0) a = json_array_get(a, 0);
  return (int)json_array_size(a);
}

static void resizers_equal_the_original(void **state) {
  (void)state;
  NEED_SHARED(path, "witness/components/resizers.json");
  json_t *root = json_load_file(path, 0, NULL);
  CHECK(root);
  size_t i;
  json_t *c;
  int compared = 0;
  json_array_foreach(json_object_get(root, "cases"), i, c) {
    if (strcmp(json_string_value(json_object_get(c, "op")), "image_resizer") != 0) continue;
    const char *text = json_string_value(json_object_get(json_object_get(c, "params"), "config"));
    od_resizer r = resizer_of(text);
    json_t *in = json_object_get(json_object_get(c, "inputs"), "image"), *out = json_object_get(c, "outputs");
    json_t *masks = json_object_get(json_object_get(c, "inputs"), "masks"), *want = json_object_get(out, "image");
    float *pixels = floats_of(in), *expected = floats_of(want);
    int h = dim(in, 0), w = dim(in, 1);
    od_fimage got;
    od_resizer_size size;
    CHECK_OK(od_resizer_apply(&got, &size, &r, pixels, OD_F32, h, w));
    CHECK(got.height == dim(want, 0) && got.width == dim(want, 1) && got.channels == dim(want, 2));
    json_t *shape = json_object_get(out, "shape");
    CHECK(size.height == json_integer_value(json_array_get(shape, 0)) ||
          size.height == (int)json_number_value(json_array_get(shape, 0)));
    CHECK(size.width == (int)json_number_value(json_array_get(shape, 1)));
    for (int k = 0; k < got.height * got.width * got.channels; k++) CHECK_NEAR(got.data[k], expected[k], 2e-4);
    if (masks) {
      float *m = floats_of(masks), *em = floats_of(json_object_get(out, "masks"));
      int n = dim(masks, 0);
      uint8_t *gm, *bytes = od_alloc((size_t)(n * h * w));
      for (int k = 0; k < n * h * w; k++) bytes[k] = m[k] > 0;
      CHECK_OK(od_resizer_apply_masks(&gm, &r, bytes, n, h, w));
      CHECK((size_t)(n * got.height * got.width) == flatten(NULL, 0, json_object_get(out, "masks")));
      for (int k = 0; k < n * got.height * got.width; k++) CHECK(gm[k] == em[k]);
      od_free(m);
      od_free(em);
      od_free(gm);
      od_free(bytes);
    }
    od_fimage_free(&got);
    od_free(pixels);
    od_free(expected);
    compared++;
  }
  json_decref(root);
  CHECK(compared >= 40);
}

static void target_sizes(void **state) {
  (void)state;
  od_resizer r = {.kind = OD_RESIZER_KEEP_ASPECT, .min_dimension = 600, .max_dimension = 1024};
  od_resizer_size s;
  CHECK_OK(od_resizer_target(&s, &r, 375, 500));
  CHECK(s.out_height == 600 && s.out_width == 800);
  CHECK_OK(od_resizer_target(&s, &r, 500, 375));
  CHECK(s.out_height == 800 && s.out_width == 600);
  CHECK_OK(od_resizer_target(&s, &r, 300, 900));
  CHECK(s.out_height == 341 && s.out_width == 1024);
  CHECK_FAILS(od_resizer_target(&s, &r, 1, 5000), OD_EDATA, "nothing of it");
  ObjectDetection__Protos__ImageResizer m = OBJECT_DETECTION__PROTOS__IMAGE_RESIZER__INIT;
  CHECK_FAILS(od_resizer_from_config(&r, &m), OD_EINVAL, "names no resizer");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_method_equals_tensorflow),
      cmocka_unit_test(windows_leave_their_surroundings_alone),
      cmocka_unit_test(resizers_equal_the_original),
      cmocka_unit_test(target_sizes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
