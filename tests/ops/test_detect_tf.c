/* The detection ops written as TensorFlow graphs: each graph is written once, without any image or batch size, and run by
 * TensorFlow on feeds of several sizes; tests/witness/run_written.py compares with our references. Needs a Python with
 * TensorFlow: $OBJDET_WITNESS_PYTHON; skipped aloud without. What needs no TensorFlow - that the graph can be written, holds no
 * sizes, the same bytes twice - is checked always. */
#include <math.h>

#include "base/rng.h"
#include "graph/emit_tf.h"
#include "graph_run.h"
#include "ops/detect.h"

enum { FEEDS = 8, FETCHES = 12, RUNS = 4 };

/* A graph, what it is fed with and what is compared. sizes[run] says how its inputs are shaped. */
typedef struct {
  const char *name;
  od_graph *g;
  od_value in[FEEDS], out[FETCHES];
  int n_in, n_out, n_runs;
  od_shape shape[RUNS][FEEDS];
  double low[FEEDS], high[FEEDS];
} written;

static od_value input(written *w, const char *name, od_dtype dtype, od_shape logical, double low, double high) {
  w->low[w->n_in] = low;
  w->high[w->n_in] = high;
  return w->in[w->n_in++] = od_input(w->g, name, dtype, logical);
}

static void output(written *w, od_value v) { w->out[w->n_out++] = v; }

static void start(written *w, const char *name) {
  memset(w, 0, sizeof *w);
  w->name = name;
  CHECK_OK(od_graph_new(&w->g));
}

/* -------------------------------------------------------------------------------------------------------------- writing */
static od_tf *write_out(const written *w) {
  od_tf *t;
  CHECK_OK(od_tf_new(&t));
  for (int i = 0; i < w->n_in; i++) {
    od_type type = od_type_of(w->in[i]);
    od_tf_begin(t, w->in[i].node->name);
    const char *p = od_tf_add(t, "Placeholder", NULL, OD_TF_INPUTS(NULL));
    od_tf_attr_type(t, "dtype", type.dtype);
    od_tf_attr_shape(t, "shape", &type.shape);
    od_tf_bind(t, w->in[i], p);
  }
  for (size_t i = 0; i < od_graph_size(w->g); i++) {
    const od_node *n = od_graph_node(w->g, i);
    if (!(n->op->flags & OD_OP_SOURCE)) CHECK_OK(od_tf_node(t, n));
  }
  CHECK_OK(od_tf_check(t));
  return t;
}

static json_t *as_json(const od_tensor *x) {
  json_t *o = json_object(), *shape = json_array(), *data = json_array();
  for (int i = 0; i < x->shape.rank; i++) json_array_append_new(shape, json_integer(x->shape.dim[i]));
  for (int64_t i = 0; i < od_tensor_size(x); i++) {
    double v = x->dtype == OD_I32 ? (double)((int32_t *)x->data)[i] : (double)((float *)x->data)[i];
    json_array_append_new(data, json_real(v));
  }
  json_object_set_new(o, "dtype", json_string(od_dtype_name(x->dtype)));
  json_object_set_new(o, "shape", shape);
  json_object_set_new(o, "data", data);
  return o;
}

/* Puts corners in order: of all windows, and of three boxes in four - the rest stay as drawn, mostly without area when clipped. */
static void order_corners(od_tensor *x, const char *name) {
  bool windows = strcmp(name, "window") == 0 || strcmp(name, "own") == 0;
  if (!windows && strcmp(name, "boxes") != 0) return;
  float *b = x->data;
  for (int64_t i = 0; i < od_tensor_size(x) / 4; i++, b += 4)
    for (int k = 0; k < 2 && (windows || i % 4); k++) {
      float low = fminf(b[k], b[k + 2]), high = fmaxf(b[k], b[k + 2]);
      b[k] = windows ? low / 2 : low;
      b[k + 2] = windows ? (1 + high) / 2 : high;
    }
}

/* Feeds of a run, drawn by name, run and place; the references' results. */
static json_t *run_as_json(const written *w, const od_tf *t, int run) {
  od_tensor feed[FEEDS];
  json_t *feeds = json_object(), *fetches = json_object(), *o = json_object();
  for (int i = 0; i < w->n_in; i++) {
    CHECK_OK(od_tensor_new(&feed[i], od_type_of(w->in[i]).dtype, &w->shape[run][i]));
    od_key key = od_key_mix(od_key_name((od_key)(run + 1), w->in[i].node->name), 7);
    for (int64_t k = 0; k < od_tensor_size(&feed[i]); k++) {
      double v = w->low[i] + (w->high[i] - w->low[i]) * od_rng_f64(key, (uint64_t)k);
      if (feed[i].dtype == OD_I32)
        ((int32_t *)feed[i].data)[k] = (int32_t)floor(v);
      else
        ((float *)feed[i].data)[k] = (float)v;
    }
    if (feed[i].dtype == OD_F32) order_corners(&feed[i], w->in[i].node->name);
    json_object_set_new(feeds, od_tf_bound(t, w->in[i]), as_json(&feed[i]));
  }
  graph_run r;
  run_graph(&r, w->g, feed);
  for (int i = 0; i < w->n_out; i++)
    json_object_set_new(fetches, od_tf_bound(t, w->out[i]), as_json(run_value(&r, w->out[i])));
  run_free(&r);
  for (int i = 0; i < w->n_in; i++) od_tensor_free(&feed[i]);
  json_object_set_new(o, "feeds", feeds);
  json_object_set_new(o, "fetches", fetches);
  return o;
}

static void run_python(const char *python, const char *dir, const char *name) {
  char command[1024];
  snprintf(command, sizeof command,
           "'%s' tests/witness/run_written.py '%s/%s' 2>'%s/log' || { tail -n 20 '%s/log'; false; }", python, dir, name,
           dir, dir);
  int rc = system(command);
  if (rc != 0) fail_msg("%s: TensorFlow does not agree (%s/%s.pb)", name, dir, name);
}

static void save(const char *path, const void *data, size_t n) {
  FILE *f = fopen(path, "wb");
  CHECK(f && fwrite(data, 1, n, f) == n && fclose(f) == 0);
}

static void finish(written *w) {
  CHECK_OK(od_graph_check(w->g));
  od_tf *t = write_out(w), *again = write_out(w);
  od_str a = OD_STR_INIT, b = OD_STR_INIT;
  CHECK_OK(od_tf_pack(&a, t));
  CHECK_OK(od_tf_pack(&b, again));
  CHECK(a.len == b.len && memcmp(a.data, b.data, a.len) == 0);
  const char *python = getenv("OBJDET_WITNESS_PYTHON");
  if (python) {
    char path[600], dir[300];
    snprintf(dir, sizeof dir, "%s", od_test_dir());
    snprintf(path, sizeof path, "%s/%s.pb", dir, w->name);
    save(path, a.data, a.len);
    json_t *runs = json_array();
    for (int i = 0; i < w->n_runs; i++) json_array_append_new(runs, run_as_json(w, t, i));
    snprintf(path, sizeof path, "%s/%s.json", dir, w->name);
    CHECK(json_dump_file(runs, path, JSON_REAL_PRECISION(17)) == 0);
    json_decref(runs);
    run_python(python, dir, w->name);
    snprintf(path, sizeof path, "rm -r '%s'", dir);
    CHECK(system(path) == 0);
  } else {
    print_message("SKIPPED: %s in TensorFlow needs OBJDET_WITNESS_PYTHON\n", w->name);
  }
  od_str_free(&a), od_str_free(&b);
  od_tf_free(t), od_tf_free(again);
  od_graph_free(w->g);
}

/* ---------------------------------------------------------------------------------------------------------------- cases */
#define ANY_MAP OD_SHAPE(-1, -1, -1, 2)

static void test_ssd_anchors(void **state) {
  (void)state;
  written w;
  start(&w, "ssd_anchors");
  od_value maps[2] = {input(&w, "a", OD_F32, ANY_MAP, 0, 1), input(&w, "b", OD_F32, ANY_MAP, 0, 1)};
  od_value image = input(&w, "image", OD_F32, OD_SHAPE(-1, -1, -1, 3), 0, 1);
  od_ssd_anchors_params q = {.base_height = 1, .base_width = 0.75f};
  CHECK_OK(od_ssd_anchor_pairs(&q, od_graph_arena(w.g),
                               &(od_ssd_anchor_spec){.n_layers = 2,
                                                     .min_scale = 0.2f,
                                                     .max_scale = 0.95f,
                                                     .reduce_boxes_in_lowest_layer = true,
                                                     .interpolated_scale_aspect_ratio = 1}));
  output(&w, od_ssd_anchors_op(w.g, maps, 2, image, &q));
  const float strides[] = {16, 16, 32, 32}, offsets[] = {8, 8, 16, 16};
  q.strides = (od_floats){4, strides};
  q.offsets = (od_floats){4, offsets};
  output(&w, od_ssd_anchors_op(w.g, maps, 2, image, &q));
  const od_shape sizes[][3] = {{OD_SHAPE(2, 5, 4, 2), OD_SHAPE(2, 3, 2, 2), OD_SHAPE(2, 75, 61, 3)},
                               {OD_SHAPE(1, 19, 19, 2), OD_SHAPE(1, 10, 10, 2), OD_SHAPE(1, 300, 300, 3)}};
  memcpy(w.shape[0], sizes[0], sizeof sizes[0]);
  memcpy(w.shape[1], sizes[1], sizeof sizes[1]);
  w.n_runs = 2;
  finish(&w);
}

static void test_other_anchors(void **state) {
  (void)state;
  written w;
  start(&w, "other_anchors");
  od_value maps[2] = {input(&w, "a", OD_F32, ANY_MAP, 0, 1), input(&w, "b", OD_F32, ANY_MAP, 0, 1)};
  od_value image = input(&w, "image", OD_F32, OD_SHAPE(-1, -1, -1, 3), 0, 1);
  const float scales[] = {0.25f, 0.5f, 1}, ratios[] = {0.5f, 1, 2}, sizes[] = {32, 48, 64},
              strides[] = {16, 16, 32, 32}, offsets[] = {8, 8, 16, 16};
  const int64_t per_layer[] = {2, 1};
  od_grid_anchors_params grid = {{3, scales}, {3, ratios}, 256, 200, 16, 8, 0, 4};
  output(&w, od_grid_anchors_op(w.g, maps[0], &grid));
  od_multiscale_anchors_params multi = {3, 4, 4, {3, ratios}, 2, true, true};
  output(&w, od_multiscale_anchors_op(w.g, maps, 2, image, &multi));
  multi.normalize = multi.size_known = false;
  output(&w, od_multiscale_anchors_op(w.g, maps, 2, image, &multi));
  od_flexible_anchors_params flexible = {{2, per_layer}, {3, sizes}, {3, ratios}, {4, strides}, {4, offsets}, true};
  output(&w, od_flexible_anchors_op(w.g, maps, 2, image, &flexible));
  const od_shape shapes[][3] = {{OD_SHAPE(1, 8, 5, 2), OD_SHAPE(1, 4, 3, 2), OD_SHAPE(1, 64, 37, 3)},
                                {OD_SHAPE(3, 4, 4, 2), OD_SHAPE(3, 2, 2, 2), OD_SHAPE(3, 31, 32, 3)}};
  memcpy(w.shape[0], shapes[0], sizeof shapes[0]);
  memcpy(w.shape[1], shapes[1], sizeof shapes[1]);
  w.n_runs = 2;
  finish(&w);
}

static void test_boxes(void **state) {
  (void)state;
  written w;
  start(&w, "boxes");
  od_value codes = input(&w, "codes", OD_F32, OD_SHAPE(-1, -1, 4), -2, 2),
           anchors = input(&w, "anchors", OD_F32, OD_SHAPE(-1, 4), 0, 1);
  od_value window = input(&w, "window", OD_F32, OD_SHAPE(-1, 4), 0, 1),
           image = input(&w, "image", OD_F32, OD_SHAPE(-1, -1, -1, 3), 0, 1);
  od_value true_shapes = input(&w, "true_shapes", OD_I32, OD_SHAPE(-1, 3), 1, 30),
           own = input(&w, "own", OD_F32, OD_SHAPE(4), 0, 1);
  od_value points = input(&w, "points", OD_F32, OD_SHAPE(-1, -1, 8), -2, 2),
           classes = input(&w, "classes", OD_F32, OD_SHAPE(-1, -1, 3, 4), -2, 2);
  od_coder_params c = {.kind = OD_CODER_FASTER_RCNN, .y = 10, .x = 10, .height = 5, .width = 5};
  od_value boxes = od_decode_boxes(w.g, codes, anchors, &c);
  output(&w, boxes);
  output(&w, od_clip_boxes(w.g, boxes, window));
  output(&w, od_clip_boxes(w.g, boxes, own));
  output(&w, od_change_coordinate_frame(w.g, boxes, window));
  output(&w, od_boxes_to_absolute(w.g, boxes, image));
  output(&w, od_boxes_to_normalized(w.g, boxes, image));
  output(&w, od_clip_window(w.g, true_shapes, image, true));
  output(&w, od_clip_window(w.g, true_shapes, image, false));
  c.kind = OD_CODER_MEAN_STDDEV, c.y = 0.1f;
  output(&w, od_decode_boxes(w.g, codes, anchors, &c));
  c = (od_coder_params){.kind = OD_CODER_KEYPOINT, .y = 10, .x = 10, .height = 5, .width = 5, .keypoints = 2};
  od_value keypoints = od_decode_boxes(w.g, points, anchors, &c);
  output(&w, keypoints);
  output(&w, od_out(keypoints, 1));
  c = (od_coder_params){.kind = OD_CODER_FASTER_RCNN, .y = 10, .x = 10, .height = 5, .width = 5, .per_class = true};
  output(&w, od_decode_boxes(w.g, classes, anchors, &c));
  for (int i = 0; i < 2; i++) {
    int64_t b = i ? 1 : 3, a = i ? 17 : 6;
    const od_shape s[] = {OD_SHAPE(b, a, 4), OD_SHAPE(a, 4), OD_SHAPE(b, 4),    OD_SHAPE(b, 33 - i, 41, 3),
                          OD_SHAPE(b, 3),    OD_SHAPE(4),    OD_SHAPE(b, a, 8), OD_SHAPE(b, a, 3, 4)};
    memcpy(w.shape[i], s, sizeof s);
  }
  w.n_runs = 2;
  finish(&w);
}

/* SQUARE takes roots of areas: only anchors with corners in order, which random ones are not; decoded ones are. */
static void test_square_coder(void **state) {
  (void)state;
  written w;
  start(&w, "square_coder");
  od_value map = input(&w, "map", OD_F32, ANY_MAP, 0, 1),
           codes = input(&w, "codes", OD_F32, OD_SHAPE(-1, -1, 3), -2, 2);
  const float scales[] = {0.25f, 0.5f, 1}, ratios[] = {0.5f, 1, 2};
  od_grid_anchors_params grid = {{3, scales}, {3, ratios}, 25, 20, 16, 8, 0, 4};
  od_coder_params c = {.kind = OD_CODER_SQUARE, .y = 10, .x = 10, .height = 5, .width = 1};
  output(&w, od_decode_boxes(w.g, codes, od_grid_anchors_op(w.g, map, &grid), &c));
  w.shape[0][0] = OD_SHAPE(2, 3, 4, 2), w.shape[0][1] = OD_SHAPE(2, 108, 3);
  w.shape[1][0] = OD_SHAPE(1, 1, 2, 2), w.shape[1][1] = OD_SHAPE(1, 18, 3);
  w.n_runs = 2;
  finish(&w);
}

static void nms_case(const char *name, const od_nms_params *p, int64_t q, bool has_window, bool has_count,
                     int64_t extra) {
  enum { K = 3 };
  written w;
  start(&w, name);
  od_value boxes = input(&w, "boxes", OD_F32, OD_SHAPE(-1, -1, q, 4), -0.1, 1.1),
           scores = input(&w, "scores", OD_F32, OD_SHAPE(-1, -1, K), 0, 1);
  od_value window = OD_NONE, count = OD_NONE, along = OD_NONE;
  if (has_window) window = input(&w, "window", OD_F32, OD_SHAPE(-1, 4), 0, 1);
  if (has_count) count = input(&w, "count", OD_I32, OD_SHAPE(-1), 1, 30);
  if (extra) along = input(&w, "extra", OD_F32, OD_SHAPE(-1, -1, extra), 0, 1);
  od_value v = od_nms_op(w.g, boxes, scores, window, count, along, p);
  for (int i = 0; i < 6; i++) output(&w, od_out(v, i));
  const int64_t batch[RUNS] = {1, 3, 2, 1}, n[RUNS] = {40, 30, 200, 0};
  w.n_runs = has_count ? 3 : 4;
  for (int i = 0; i < w.n_runs; i++) {
    int k = 0;
    int64_t rows = has_count && n[i] < 30 ? 30 : n[i];
    w.shape[i][k++] = OD_SHAPE(batch[i], rows, q, 4);
    w.shape[i][k++] = OD_SHAPE(batch[i], rows, K);
    if (has_window) w.shape[i][k++] = OD_SHAPE(batch[i], 4);
    if (has_count) w.shape[i][k++] = OD_SHAPE(batch[i]);
    if (extra) w.shape[i][k++] = OD_SHAPE(batch[i], rows, extra);
  }
  finish(&w);
}

static void test_nms(void **state) {
  (void)state;
  nms_case("nms", &(od_nms_params){0.3f, 0.4f, 6, 10, false, false, 0, false}, 1, false, false, 0);
  nms_case("nms_window", &(od_nms_params){0.3f, 0.4f, 6, 10, true, false, 0, false}, 1, true, true, 4);
  nms_case("nms_per_class", &(od_nms_params){1e-8f, 0.6f, 100, 100, false, false, 0, false}, 3, true, false, 2);
  nms_case("nms_agnostic", &(od_nms_params){0.2f, 0.5f, 6, 12, true, true, 0, false}, 1, true, false, 2);
  nms_case("nms_agnostic_own", &(od_nms_params){0.2f, 0.5f, 6, 12, false, true, 0, false}, 3, false, true, 0);
  nms_case("nms_soft", &(od_nms_params){0.1f, 1, 6, 10, false, false, 0.5f, false}, 1, true, false, 0);
}

static void test_resizers(void **state) {
  (void)state;
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
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    written w;
    char name[32];
    snprintf(name, sizeof name, "resize_%zu", k);
    start(&w, name);
    od_value v = od_resize_image(w.g, input(&w, "images", OD_F32, OD_SHAPE(-1, -1, -1, 3), 0, 255), &cases[k]);
    output(&w, v);
    output(&w, od_out(v, 1));
    w.shape[0][0] = OD_SHAPE(2, 9, 14, 3), w.shape[1][0] = OD_SHAPE(1, 31, 11, 3),
    w.shape[2][0] = OD_SHAPE(3, 16, 16, 3);
    w.n_runs = 3;
    finish(&w);
  }
}

static void test_crops(void **state) {
  (void)state;
  written w;
  start(&w, "crops");
  od_value image = input(&w, "image", OD_F32, OD_SHAPE(-1, -1, -1, 2), -1, 1),
           boxes = input(&w, "boxes", OD_F32, OD_SHAPE(-1, 4), -0.1, 1.1);
  od_value of = input(&w, "of", OD_I32, OD_SHAPE(-1), 0, 1.99);
  output(&w, od_crop_and_resize(w.g, image, boxes, of, &(od_crop_params){4, 3, false, 0.5f}));
  output(&w, od_crop_and_resize(w.g, image, boxes, of, &(od_crop_params){1, 5, true, 0}));
  w.shape[0][0] = OD_SHAPE(2, 9, 14, 2), w.shape[0][1] = OD_SHAPE(5, 4), w.shape[0][2] = OD_SHAPE(5);
  w.shape[1][0] = OD_SHAPE(3, 5, 6, 2), w.shape[1][1] = OD_SHAPE(0, 4), w.shape[1][2] = OD_SHAPE(0);
  w.n_runs = 2;
  finish(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ssd_anchors),  cmocka_unit_test(test_other_anchors), cmocka_unit_test(test_boxes),
      cmocka_unit_test(test_square_coder), cmocka_unit_test(test_nms),           cmocka_unit_test(test_resizers),
      cmocka_unit_test(test_crops),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
