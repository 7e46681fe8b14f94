/* The interpreter on files that other programs wrote: the original's SSD export and a MobileNet of the TensorFlow team. */
#include "od_test.h"

#include <jansson.h>
#include <math.h>

#include "image/decode.h"
#include "io/file.h"
#include "tfgraph/tfgraph.h"

static const char *const fetches[] = {"detection_boxes:0", "detection_scores:0", "detection_classes:0",
                                      "num_detections:0"};

static void load_picture(od_tensor *out, const char *path) {
  char *data;
  size_t size;
  od_image image;
  CHECK_OK(od_file_read_all(&data, &size, path, 0));
  CHECK_OK(od_image_decode(&image, data, size, 3));
  od_free(data);
  CHECK_OK(od_tensor_new(out, OD_U8, &OD_SHAPE(1, image.height, image.width, 3)));
  memcpy(out->data, image.data, od_tensor_bytes(out));
  od_image_free(&image);
}

/* Every expected box is found, at any rank within 1 % of the best score, with its class. */
static void compare_detections(const json_t *want, const od_tensor *got) {
  const float *boxes = got[0].data, *scores = got[1].data, *classes = got[2].data;
  const json_t *want_boxes = json_object_get(want, "boxes"), *want_scores = json_object_get(want, "scores"),
               *want_classes = json_object_get(want, "classes");
  CHECK_NEAR(*(const float *)got[3].data, json_number_value(json_object_get(want, "num_detections")), 0);
  double best = json_number_value(json_array_get(want_scores, 0));
  for (size_t i = 0; i < json_array_size(want_boxes); i++) {
    const json_t *box = json_array_get(want_boxes, i);
    double score = json_number_value(json_array_get(want_scores, i));
    bool found = false;
    for (int64_t k = 0; k < got[1].shape.dim[1] && !found; k++) {
      found = fabs((double)scores[k] - score) <= 1e-4 + 1e-3 * best;
      found = found && (double)classes[k] == json_number_value(json_array_get(want_classes, i));
      for (size_t j = 0; found && j < 4; j++)
        found = fabs((double)boxes[4 * k + (int64_t)j] - json_number_value(json_array_get(box, j))) <= 1e-4;
    }
    if (!found) fail_msg("box %zu (score %g) is not among ours", i, score);
  }
}

static void run_pictures(od_tfgraph *g, size_t most) {
  json_error_t error;
  NEED_SHARED(expected, "data/raccoon_original/detections.json");
  json_t *all = json_load_file(expected, 0, &error);
  CHECK(all);
  const char *name;
  json_t *want;
  size_t seen = 0;
  json_object_foreach(all, name, want) {
    if (seen++ == most) break;
    char path[512];
    od_tensor picture, got[4];
    snprintf(path, sizeof path, "data/raccoon/images/%s", name);
    NEED_SHARED(file, path);
    load_picture(&picture, file);
    CHECK_OK(od_tfgraph_run(g, &(od_tfgraph_feed){"image_tensor", picture}, 1, fetches, 4, got));
    compare_detections(want, got);
    od_tensor_free(&picture);
    for (int i = 0; i < 4; i++) od_tensor_free(&got[i]);
  }
  CHECK(seen > 0);
  json_decref(all);
}

static void frozen_graph_of_the_original(void **state) {
  (void)state;
  od_tfgraph *g;
  NEED_SHARED(path, "data/raccoon_original/export/frozen_inference_graph.pb");
  CHECK_OK(od_tfgraph_open(&g, path));
  CHECK(od_tfgraph_nodes(g) == 2321);
  CHECK_TEXT(od_tfgraph_input(g, 0)->tensor, "image_tensor:0");
  run_pictures(g, 40);
  od_tfgraph_free(g);
}

static void saved_model_of_the_original(void **state) {
  (void)state;
  od_tfgraph *g;
  NEED_SHARED(path, "data/raccoon_original/export/saved_model");
  CHECK_OK(od_tfgraph_open(&g, path));
  const od_tfgraph_port *in = od_tfgraph_input(g, 0);
  CHECK_TEXT(in->key, "inputs");
  CHECK(in->dtype == OD_U8 && in->shape.rank == 4 && in->shape.dim[1] == -1 && in->shape.dim[3] == 3);
  CHECK(!od_tfgraph_input(g, 1) && od_tfgraph_output(g, 6) && !od_tfgraph_output(g, 7));
  run_pictures(g, 3);
  od_tfgraph_free(g);
}

/* Logits of all 1001 classes on a picture made by formula, against TensorFlow's (tests/witness/make_graph_golden.py). */
static void mobilenet_of_the_tensorflow_team(void **state) {
  (void)state;
  od_tfgraph *g;
  od_tensor image, got[2];
  json_error_t error;
  NEED_SHARED(path, "data/mobilenet_v1_025_128/frozen_graph.pb");
  json_t *golden = json_load_file("tests/golden/tfgraph/mobilenet.json", 0, &error);
  CHECK(golden);
  CHECK_OK(od_tfgraph_open(&g, path));
  CHECK_OK(od_tfgraph_check(g));
  CHECK_OK(od_tensor_new(&image, OD_F32, &OD_SHAPE(1, 128, 128, 3)));
  for (int64_t i = 0; i < od_tensor_size(&image); i++)
    ((float *)image.data)[i] = (float)((double)((uint64_t)i * 2654435761u % ((uint64_t)1 << 32)) / 2147483648.0 - 1);
  const char *const logits[] = {"MobilenetV1/Logits/SpatialSqueeze", "MobilenetV1/Predictions/Reshape_1"};
  CHECK_OK(od_tfgraph_run(g, &(od_tfgraph_feed){"input", image}, 1, logits, 2, got));
  CHECK(got[0].shape.dim[1] == 1001);
  int64_t best = 0;
  for (int64_t i = 0; i < 1001; i++) {
    CHECK_NEAR(((float *)got[0].data)[i],
               strtod(json_string_value(json_array_get(json_object_get(golden, "logits"), (size_t)i)), NULL), 1e-4);
    if (((float *)got[1].data)[i] > ((float *)got[1].data)[best]) best = i;
  }
  CHECK(best == json_integer_value(json_object_get(golden, "best")));
  od_tensor_free(&got[0]);
  od_tensor_free(&got[1]);
  od_tensor_free(&image);
  od_tfgraph_free(g);
  json_decref(golden);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(mobilenet_of_the_tensorflow_team),
      cmocka_unit_test(frozen_graph_of_the_original),
      cmocka_unit_test(saved_model_of_the_original),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
