/* crop_and_resize and its gradient against TensorFlow's (witness/components/crops.json); resize_image against the picture
 * functions it stands on. */
#include <math.h>

#include "graph_run.h"
#include "image/resizer.h"
#include "ops/detect.h"

static void check_crop(json_t *c) {
  json_t *p = json_need(c, "params"), *in = json_need(c, "inputs"), *out = json_need(c, "outputs"),
         *size = json_need(p, "crop_size");
  od_crop_params q = {(int64_t)json_num(json_array_get(size, 0)), (int64_t)json_num(json_array_get(size, 1)),
                      strcmp(json_text(p, "method"), "nearest") == 0,
                      (float)json_num(json_need(p, "extrapolation_value"))};
  od_graph *g;
  CHECK_OK(od_graph_new(&g));
  json_t *which = json_need(in, "box_image");
  od_value image = json_const_f32(g, in, "image"), boxes = json_const_f32(g, in, "boxes"),
           of = json_const(g, which, OD_I32, json_shape(which));
  od_value v = od_crop_and_resize(g, image, boxes, of, &q), d = OD_NONE;
  json_t *want = json_object_get(out, "image_gradient_of_sum_of_squares");
  if (want) { /* of the sum of squares: twice the crops */
    size_t n;
    float *twice = json_floats(json_need(out, "crops"), &n);
    for (size_t i = 0; i < n; i++) twice[i] *= 2;
    od_value dy = od_const(g, OD_F32, od_type_of(v).shape, twice);
    test_free(twice);
    d = od_graph_add(g, od_op_find("crop_and_resize_grad"), (od_value[]){dy, image, boxes, of}, 4, &q);
  }
  graph_run r;
  run_graph(&r, g, NULL);
  json_near(json_need(out, "crops"), run_floats(&r, v), 1e-6, 1e-6, "crops");
  if (want) json_near(want, run_floats(&r, d), 2e-6, 2e-6, "gradient");
  run_free(&r);
  od_graph_free(g);
}

static void test_crops(void **state) {
  (void)state;
  NEED_SHARED(path, "witness/components/crops.json");
  json_t *root = json_file(path), *cases = json_need(root, "cases");
  size_t checked = 0;
  for (size_t i = 0; i < json_array_size(cases); i++)
    if (strcmp(json_text(json_array_get(cases, i), "op"), "crop_and_resize") == 0)
      check_crop(json_array_get(cases, i)), checked++;
  CHECK(checked == 6);
  json_decref(root);
}

static void test_box_of_no_image(void **state) {
  (void)state;
  const float image[4] = {0}, box[4] = {0, 0, 1, 1}, out[4] = {0};
  const int32_t of[1] = {1};
  od_crop_params q = {2, 2, false, 0};
  od_tensor in[3] = {{OD_F32, OD_SHAPE(1, 2, 2, 1), (void *)(uintptr_t)image},
                     {OD_F32, OD_SHAPE(1, 4), (void *)(uintptr_t)box},
                     {OD_I32, OD_SHAPE(1), (void *)(uintptr_t)of}};
  od_tensor result = {OD_F32, OD_SHAPE(1, 2, 2, 1), (void *)(uintptr_t)out};
  od_call call = {&q, 3, 1, in, &result, NULL, 0};
  CHECK_FAILS(od_op_find("crop_and_resize")->ref(&call), OD_EINVAL, "box 0 is of image 1");
}

/* Each picture of the batch comes out as od_resizer_apply makes it alone. */
static void test_resize_image(void **state) {
  (void)state;
  enum { B = 2, H = 9, W = 14 };
  static float pictures[B][H * W * 3];
  for (int b = 0; b < B; b++)
    for (int i = 0; i < H * W * 3; i++) pictures[b][i] = (float)((i * 37 + b * 11) % 256);
  const float pad[3] = {1, 2, 3};
  const od_resize_image_params cases[] = {
      {.kind = OD_RESIZE_FIXED_SHAPE, .height = 12, .width = 7},
      {.kind = OD_RESIZE_FIXED_SHAPE, .height = 5, .width = 20, .method = OD_RESIZE_BICUBIC},
      {.kind = OD_RESIZE_KEEP_ASPECT_RATIO,
       .min_dimension = 12,
       .max_dimension = 16,
       .pad_to_max_dimension = true,
       .pad_value = {3, pad}},
      {.kind = OD_RESIZE_KEEP_ASPECT_RATIO, .min_dimension = 6, .max_dimension = 16, .convert_to_grayscale = true},
      {.kind = OD_RESIZE_PAD_TO_MULTIPLE, .multiple = 8},
      {.kind = OD_RESIZE_IDENTITY},
      {.kind = OD_RESIZE_SHRINK, .min_dimension = 10},
      {.kind = OD_RESIZE_ENLARGE, .min_dimension = 20, .method = OD_RESIZE_NEAREST},
  };
  const od_resizer_kind kinds[] = {OD_RESIZER_IDENTITY,        OD_RESIZER_FIXED,  OD_RESIZER_KEEP_ASPECT,
                                   OD_RESIZER_PAD_TO_MULTIPLE, OD_RESIZER_SHRINK, OD_RESIZER_ENLARGE};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    const od_resize_image_params *q = &cases[k];
    od_resizer how = {.kind = kinds[q->kind],
                      .height = (int)q->height,
                      .width = (int)q->width,
                      .min_dimension = (int)q->min_dimension,
                      .max_dimension = (int)q->max_dimension,
                      .multiple = (int)q->multiple,
                      .method = (od_resize_method)q->method,
                      .pad_to_max = q->pad_to_max_dimension,
                      .grayscale = q->convert_to_grayscale};
    if (q->pad_value.n) memcpy(how.pad_value, pad, sizeof pad);
    od_graph *g;
    CHECK_OK(od_graph_new(&g));
    od_value v = od_resize_image(g, od_const(g, OD_F32, OD_SHAPE(B, H, W, 3), pictures), q);
    graph_run r;
    run_graph(&r, g, NULL);
    for (int b = 0; b < B; b++) {
      od_fimage want;
      od_resizer_size size;
      CHECK_OK(od_resizer_apply(&want, &size, &how, pictures[b], OD_F32, H, W));
      const od_tensor *got = run_value(&r, v);
      CHECK(got->shape.dim[1] == want.height && got->shape.dim[2] == want.width && got->shape.dim[3] == want.channels);
      int64_t n = (int64_t)want.height * want.width * want.channels;
      CHECK(memcmp((float *)got->data + b * n, want.data, (size_t)n * sizeof(float)) == 0);
      const int32_t *shape = (int32_t *)run_value(&r, od_out(v, 1))->data + 3 * b;
      CHECK(shape[0] == size.height && shape[1] == size.width && shape[2] == want.channels);
      od_fimage_free(&want);
    }
    run_free(&r);
    od_graph_free(g);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_crops),
      cmocka_unit_test(test_box_of_no_image),
      cmocka_unit_test(test_resize_image),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
