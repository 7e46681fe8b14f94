/* objdet-golden CONFIG [GOLDEN.json]: figures of a model with weights, pictures and boxes made by formula, as JSON on stdout.
 *
 * Somebody who has another implementation of the same config computes the same figures and compares. With GOLDEN.json the
 * groundtruth and the overrides of its training section are used; else both are made: a two-stage model then trains on
 * proposals of its own inference run. --sizes=HxW,HxW...: a batch of pictures of these shapes (the config's resizer must pad
 * them to one) instead of 480x640. --engine=ref|cpu, --threads=N, --proposals=N, --inference-only. --checkpoint=PREFIX
 * computes nothing: it writes the weights of the formula as a checkpoint, something to train from that needs no weight file. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/golden_formula.h"
#include "engine/program.h"
#include "image/resizer.h"
#include "io/bundle.h"
#include "model/pipeline.h"
#include "ops/detect.h"
#include "train/schedule.h"
#include "train/train_graph.h"

enum { H = 480, W = 640, BOXES = 3 };

typedef struct {
  od_pipeline pipeline;
  od_engine *engine;
  json_t *golden, *out;
  int batch;
  od_tensor images; /* [batch,H,W,3] raw; with sizes resized and padded */
  od_tensor true_shapes; /* [batch,3]; with sizes, else empty */
  const char *sizes; /* of the pictures; NULL: 480x640 */
  const char *checkpoint; /* prefix to write weights to; NULL: figures */
  int proposals;    /* two-stage training: so many in each stage */
  od_tensor seen;   /* [batch,P,4] normalised proposals of the inference run; two-stage */
} golden;

/* ------------------------------------------------------------------------------------------------------------- figures */
static json_t *number(double x) { return isfinite(x) ? json_real(x) : json_string(isnan(x) ? "nan" : x > 0 ? "inf" : "-inf"); }

static double element(const od_tensor *t, int64_t i) {
  if (t->dtype == OD_F32) return (double)((const float *)t->data)[i];
  if (t->dtype == OD_I32) return (double)((const int32_t *)t->data)[i];
  if (t->dtype == OD_I64) return (double)((const int64_t *)t->data)[i];
  return (double)((const uint8_t *)t->data)[i];
}

/* count values spread evenly over n. */
static json_t *values_at(const od_tensor *t, int count) {
  json_t *a = json_array();
  int64_t n = od_tensor_size(t);
  for (int k = 0; k < count && n > 0; k++) json_array_append_new(a, number(element(t, (2 * k + 1) * n / (2 * count))));
  return a;
}

static json_t *shape_json(const od_shape *s) {
  json_t *a = json_array();
  for (int i = 0; i < s->rank; i++) json_array_append_new(a, json_integer(s->dim[i]));
  return a;
}

static json_t *digest(const od_tensor *t) {
  json_t *d = json_object();
  int64_t n = od_tensor_size(t);
  double sum = 0, sum_abs = 0, squares = 0;
  json_object_set_new(d, "shape", shape_json(&t->shape));
  if (n == 0) return d;
  for (int64_t i = 0; i < n; i++) {
    sum += element(t, i);
    sum_abs += fabs(element(t, i));
  }
  for (int64_t i = 0; i < n; i++) {
    double e = element(t, i) - sum / (double)n;
    squares += e * e;
  }
  json_object_set_new(d, "mean", number(sum / (double)n));
  json_object_set_new(d, "mean_abs", number(sum_abs / (double)n));
  json_object_set_new(d, "std", number(sqrt(squares / (double)n)));
  json_object_set_new(d, "at", values_at(t, 16));
  return d;
}

static json_t *row(const od_tensor *t, int64_t first, int64_t n) {
  json_t *a = json_array();
  for (int64_t i = 0; i < n; i++) json_array_append_new(a, number(element(t, first + i)));
  return a;
}

static double norm_of(const od_tensor *t) {
  double sum = 0;
  for (int64_t i = 0, n = od_tensor_size(t); i < n; i++) sum += element(t, i) * element(t, i);
  return sqrt(sum);
}

/* ------------------------------------------------------------------------------------------------------------- running */
/* Feeds by value; at most a handful. */
typedef struct {
  od_value value[8];
  od_tensor tensor[8];
  int n;
} feed_list;

static void feed(feed_list *f, od_value v, od_tensor t) {
  f->value[f->n] = v;
  f->tensor[f->n++] = t;
}

/* Pictures as the model gets them: raw, or resized and padded beforehand. */
static void feed_pictures(feed_list *f, od_model_spec *spec, const golden *gl, od_graph *g) {
  bool resized = gl->true_shapes.data != NULL;
  spec->resize = !resized;
  spec->images = od_input(g, "image", OD_F32, OD_SHAPE(-1, -1, -1, resized ? od_model_channels(gl->pipeline.config->model) : 3));
  feed(f, spec->images, gl->images);
  if (!resized) return;
  spec->true_shapes = od_input(g, "true_shapes", OD_I32, OD_SHAPE(-1, 3));
  feed(f, spec->true_shapes, gl->true_shapes);
}

/* Runs once and gives deep copies of the fetches (caller frees each). */
static od_status run_once(od_tensor *fetched, golden *gl, od_graph *g, od_state *state, const feed_list *f, const od_value *fetches,
                          int n, const char *const *groups, int n_groups) {
  od_program *program = NULL;
  od_tensor *views = NULL;
  od_status st;
  od_program_spec spec = {.graph = g, .state = state, .feeds = f->value, .n_feeds = f->n, .fetches = fetches, .n_fetches = n,
                          .update_groups = groups, .n_update_groups = n_groups};
  OD_GO(st, od_program_new(&program, gl->engine, &spec));
  OD_GO(st, od_new(&views, (size_t)n + 1, sizeof *views));
  OD_GO(st, od_program_run(program, f->tensor, views));
  for (int i = 0; i < n; i++) {
    fetched[i] = (od_tensor){0};
    if (views[i].data) OD_GO(st, od_tensor_copy(&fetched[i], &views[i]));
  }
done:
  od_free(views);
  od_program_free(program);
  return st;
}

static void set_formula_weights(od_state *state, bool trained) {
  const od_graph *g = od_state_graph(state);
  od_state_init(state, 0);
  for (size_t i = 0; i < od_graph_variables(g); i++) {
    const od_variable *v = od_graph_variable(g, i);
    if (v->model) od_formula_weight(od_state_at(state, v->index), v->name, trained);
  }
  od_state_touch(state);
}

static void list_variables(json_t *out, const od_graph *g) {
  for (size_t i = 0; i < od_graph_variables(g); i++) {
    const od_variable *v = od_graph_variable(g, i);
    if (!v->model) continue;
    json_t *d = json_object();
    json_object_set_new(d, "shape", shape_json(&v->shape));
    json_object_set_new(d, "trainable", json_boolean(v->trainable));
    json_object_set_new(out, v->name, d);
  }
}

static json_t *parameters(const od_graph *g) {
  int64_t n = 0, values = 0, n_trainable = 0, trainable_values = 0;
  for (size_t i = 0; i < od_graph_variables(g); i++) {
    const od_variable *v = od_graph_variable(g, i);
    if (!v->model) continue;
    n++;
    values += od_shape_size(&v->shape);
    n_trainable += v->trainable;
    trainable_values += v->trainable ? od_shape_size(&v->shape) : 0;
  }
  return json_pack("{s:I,s:I,s:I,s:I}", "variables", n, "values", values, "trainable_variables", n_trainable, "trainable_values", trainable_values);
}

/* ----------------------------------------------------------------------------------------------------------- inference */
static json_t *detections_json(const od_named_list *l, const od_tensor *t) {
  json_t *out = json_object();
  for (int i = 0; i < l->n; i++) {
    const char *name = l->item[i].name;
    bool full = strcmp(name, "detection_boxes") == 0 || strcmp(name, "detection_scores") == 0 || strcmp(name, "detection_classes") == 0;
    if (strcmp(name, "num_detections") == 0) {
      json_object_set_new(out, name, row(&t[i], 0, od_tensor_size(&t[i])));
    } else if (full) {
      json_t *images = json_array();
      int64_t m = t[i].shape.dim[1], per = t[i].shape.rank == 3 ? t[i].shape.dim[2] : 1;
      for (int64_t b = 0; b < t[i].shape.dim[0]; b++) {
        json_t *rows = json_array();
        for (int64_t k = 0; k < m && k < 20; k++)
          json_array_append_new(rows, per > 1 ? row(&t[i], (b * m + k) * per, per) : number(element(&t[i], b * m + k)));
        json_array_append_new(images, rows);
      }
      json_object_set_new(out, name, images);
    } else {
      json_object_set_new(out, name, digest(&t[i]));
    }
  }
  return out;
}

static json_t *anchors_json(const od_tensor *a) {
  json_t *first = json_array(), *last = json_array();
  int64_t n = a->shape.dim[0];
  for (int64_t i = 0; i < 4 && i < n; i++) json_array_append_new(first, row(a, i * 4, 4));
  for (int64_t i = n < 4 ? 0 : n - 4; i < n; i++) json_array_append_new(last, row(a, i * 4, 4));
  return json_pack("{s:I,s:o,s:o,s:o}", "count", n, "first", first, "last", last, "digest", digest(a));
}

static json_t *final_anchors(const od_tensor *a, int batch) {
  od_tensor tiled;
  od_shape s = OD_SHAPE(batch, a->shape.dim[0], 4);
  if (od_tensor_new(&tiled, OD_F32, &s) != OD_OK) return json_null();
  for (int b = 0; b < batch; b++) memcpy((char *)tiled.data + (size_t)b * od_tensor_bytes(a), a->data, od_tensor_bytes(a));
  json_t *d = digest(&tiled);
  od_tensor_free(&tiled);
  return d;
}

static void write_inference(golden *gl, const od_model *m, od_tensor *t) {
  int n_pred = m->predictions.n;
  json_t *predictions = json_object(), *preprocess = json_object(), *shapes = json_array();
  for (int i = 0; i < n_pred; i++) json_object_set_new(predictions, m->predictions.item[i].name, digest(&t[i]));
  const od_tensor *anchors = &t[n_pred], *true_shapes = &t[n_pred + 1], *image = &t[n_pred + 2];
  if (strcmp(od_model_kind(m->config), "ssd") == 0) {
    json_object_set_new(predictions, "final_anchors", final_anchors(anchors, gl->batch));
  } else {
    int32_t shape[OD_MAX_RANK];
    for (int i = 0; i < image->shape.rank; i++) shape[i] = (int32_t)image->shape.dim[i];
    json_object_set_new(predictions, "image_shape", digest(&(od_tensor){OD_I32, OD_SHAPE(image->shape.rank), shape}));
  }
  for (int b = 0; b < gl->batch; b++) json_array_append_new(shapes, json_pack("[i,i,i]", (int)element(true_shapes, 3 * b), (int)element(true_shapes, 3 * b + 1), 3));
  json_t *image_digest = digest(image);
  json_object_set_new(image_digest, "first", row(image, 0, 8));
  json_object_set_new(preprocess, "true_image_shapes", shapes);
  json_object_set_new(preprocess, "image", image_digest);
  json_object_set_new(gl->out, "preprocess", preprocess);
  json_object_set_new(gl->out, "anchors", anchors_json(anchors));
  json_t *inference = json_object();
  json_object_set_new(inference, "predictions", predictions);
  json_object_set_new(inference, "detections", detections_json(&m->detections, t + n_pred + 3));
  json_object_set_new(gl->out, "inference", inference);
}

static od_status inference(golden *gl) {
  od_graph *g = NULL;
  od_state *state = NULL;
  od_model m = {0};
  od_status st;
  od_value fetches[2 * OD_NAMED_MAX + 3];
  od_tensor t[2 * OD_NAMED_MAX + 3] = {{0}};
  int n = 0;
  feed_list f = {.n = 0};
  OD_GO(st, od_graph_new(&g));
  od_model_spec spec = {.training = false};
  feed_pictures(&f, &spec, gl, g);
  OD_GO(st, od_model_build(&m, g, gl->pipeline.config->model, &spec));
  OD_GO(st, od_state_new(&state, g));
  set_formula_weights(state, false);
  for (int i = 0; i < m.predictions.n; i++) fetches[n++] = m.predictions.item[i].value;
  fetches[n++] = m.anchors;
  fetches[n++] = m.true_shapes;
  fetches[n++] = m.preprocessed;
  for (int i = 0; i < m.detections.n; i++) fetches[n++] = m.detections.item[i].value;
  OD_GO(st, run_once(t, gl, g, state, &f, fetches, n, NULL, 0));
  write_inference(gl, &m, t);
  for (int i = 0; i < m.predictions.n; i++)
    if (strcmp(m.predictions.item[i].name, "proposal_boxes_normalized") == 0) OD_GO(st, od_tensor_copy(&gl->seen, &t[i]));
  json_t *variables = json_object();
  list_variables(variables, g);
  json_object_set_new(gl->out, "variables", variables);
  json_object_set_new(gl->out, "parameters", parameters(g));
done:
  for (int i = 0; i < n; i++) od_tensor_free(&t[i]);
  od_state_free(state);
  od_graph_free(g);
  return st;
}

/* ------------------------------------------------------------------------------------------------------------ training */
/* What is changed in the config so that nothing random is left: samples take everything there is, nothing is dropped. */
static json_t *make_overrides(const golden *gl) {
  const od_pb_model *m = gl->pipeline.config->model;
  json_t *o = json_object();
  const od_pb_box_predictor *p;
  if (m->model_case == OBJECT_DETECTION__PROTOS__DETECTION_MODEL__MODEL_FASTER_RCNN) {
    const od_pb_faster_rcnn *c = m->faster_rcnn;
    json_object_set_new(o, "first_stage_minibatch_size", json_integer(1 << 20));
    json_object_set_new(o, "first_stage_max_proposals", json_integer(gl->proposals));
    json_object_set_new(o, "second_stage_batch_size", json_integer(gl->proposals));
    json_object_set_new(o, "second_stage_balance_fraction", json_real(1.0));
    if (c->use_static_balanced_label_sampler) json_object_set_new(o, "use_static_balanced_label_sampler", json_false());
    if (c->use_static_shapes) json_object_set_new(o, "use_static_shapes", json_false());
    p = c->second_stage_box_predictor;
    if (p && p->box_predictor_oneof_case == OBJECT_DETECTION__PROTOS__BOX_PREDICTOR__BOX_PREDICTOR_ONEOF_MASK_RCNN_BOX_PREDICTOR &&
        p->mask_rcnn_box_predictor->use_dropout)
      json_object_set_new(o, "use_dropout", json_false());
    return o;
  }
  p = m->model_case == OBJECT_DETECTION__PROTOS__DETECTION_MODEL__MODEL_SSD ? m->ssd->box_predictor : NULL;
  if (p && p->box_predictor_oneof_case == OBJECT_DETECTION__PROTOS__BOX_PREDICTOR__BOX_PREDICTOR_ONEOF_CONVOLUTIONAL_BOX_PREDICTOR &&
      p->convolutional_box_predictor->use_dropout)
    json_object_set_new(o, "use_dropout", json_false());
  return o;
}

static od_status apply_overrides(golden *gl, json_t *overrides) {
  const char *kind = od_model_kind(gl->pipeline.config->model), *key;
  bool two_stage = strcmp(kind, "faster_rcnn") == 0;
  json_t *value;
  json_object_foreach(overrides, key, value) {
    char setting[160], text[32];
    if (json_is_number(value)) snprintf(text, sizeof text, "%.9g", json_number_value(value));
    else snprintf(text, sizeof text, "%s", json_is_true(value) ? "true" : "false");
    const char *where = strcmp(key, "use_dropout") != 0 ? "" : two_stage ? "second_stage_box_predictor.mask_rcnn_box_predictor." : "box_predictor.convolutional_box_predictor.";
    snprintf(setting, sizeof setting, "model.%s.%s%s=%s", kind, where, key, text);
    OD_TRY(od_pipeline_set(&gl->pipeline, setting));
  }
  return OD_OK;
}

/* Groundtruth of the formula, or of the JSON where there is one. */
static od_status make_groundtruth(golden *gl, int64_t k, od_tensor *boxes, od_tensor *classes, od_tensor *weights, od_tensor *count) {
  od_shape sb = OD_SHAPE(gl->batch, BOXES, 4), sc = OD_SHAPE(gl->batch, BOXES, k), sw = OD_SHAPE(gl->batch, BOXES), sn = OD_SHAPE(gl->batch);
  OD_TRY(od_tensor_new(boxes, OD_F32, &sb));
  OD_TRY(od_tensor_new(classes, OD_F32, &sc));
  OD_TRY(od_tensor_new(weights, OD_F32, &sw));
  OD_TRY(od_tensor_new(count, OD_I32, &sn));
  json_t *given = json_object_get(json_object_get(gl->golden, "training"), "groundtruth");
  for (int b = 0; b < gl->batch; b++) {
    float *box = (float *)boxes->data + b * BOXES * 4;
    int label[BOXES];
    od_formula_groundtruth(box, label, b, (int)k);
    if (gl->seen.data) od_formula_groundtruth_seen(box, (const float *)gl->seen.data + b * gl->seen.shape.dim[1] * 4, gl->seen.shape.dim[1]);
    json_t *rows = json_array_get(json_object_get(given, "boxes"), (size_t)b);
    for (size_t i = 0; i < BOXES * 4 && rows; i++)
      box[i] = (float)json_number_value(json_array_get(json_array_get(rows, i / 4), i % 4));
    for (int i = 0; i < BOXES; i++) {
      ((float *)classes->data)[(b * BOXES + i) * k + label[i]] = 1;
      ((float *)weights->data)[b * BOXES + i] = 1;
    }
    ((int32_t *)count->data)[b] = BOXES;
  }
  return OD_OK;
}

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* Names whose change by one step is reported: 10 of the gradients', 4 of the moving statistics', spread over the sorted lists. */
static int pick_names(const char **picked, const char **names, int n, int count) {
  int k = 0, last = -1;
  qsort(names, (size_t)n, sizeof *names, by_name);
  for (int i = 0; i < count && n > 0; i++) {
    int at = (2 * i + 1) * n / (2 * count);
    if (at != last) picked[k++] = names[at];
    last = at;
  }
  return k;
}

static od_status write_step(json_t *section, golden *gl, od_graph *g, od_state *state, const feed_list *f, const od_train_graph *t, bool trained) {
  const char *names[4096], *picked[16];
  int n = 0, k;
  od_tensor before[16] = {{0}};
  od_status st = OD_OK;
  for (int i = 0; i < t->n_gradients; i++) names[n++] = t->gradients[i].variable->name;
  k = pick_names(picked, names, n, 10);
  n = 0;
  for (size_t i = 0; i < od_graph_variables(g) && trained; i++) {
    const char *name = od_graph_variable(g, i)->name, *slash = strrchr(name, '/');
    if (slash && od_graph_variable(g, i)->model && strncmp(slash, "/moving_", 8) == 0) names[n++] = name;
  }
  k += pick_names(picked + k, names, n, 4);
  json_t *step = json_object();
  json_object_set_new(section, "step", step);
  set_formula_weights(state, trained);
  for (int i = 0; i < k; i++) OD_GO(st, od_tensor_copy(&before[i], od_state_tensor(state, picked[i])));
  OD_GO(st, run_once(NULL, gl, g, state, f, NULL, 0, od_train_update_groups, OD_N_TRAIN_UPDATE_GROUPS));
  for (int i = 0; i < k; i++) {
    const od_tensor *after = od_state_tensor(state, picked[i]);
    for (int64_t e = 0; e < od_tensor_size(after); e++) ((float *)before[i].data)[e] = ((const float *)after->data)[e] - ((const float *)before[i].data)[e];
    json_object_set_new(step, picked[i], number(norm_of(&before[i])));
  }
done:
  for (int i = 0; i < k; i++) od_tensor_free(&before[i]);
  return st;
}

/* What the second stage got. */
static void write_proposals(json_t *section, const od_model *m, const od_tensor *t) {
  json_t *proposals = json_object();
  for (int i = 0; i < m->predictions.n; i++) {
    const char *name = m->predictions.item[i].name;
    if (strcmp(name, "num_proposals") == 0 || strcmp(name, "proposal_boxes") == 0) json_object_set_new(proposals, name, digest(&t[i]));
  }
  if (json_object_size(proposals)) json_object_set_new(section, "proposals", proposals);
  else json_decref(proposals);
}

static json_t *groundtruth_json(const od_tensor *boxes, const od_tensor *classes) {
  json_t *all_boxes = json_array(), *all_labels = json_array();
  int64_t k = classes->shape.dim[2];
  for (int64_t b = 0; b < boxes->shape.dim[0]; b++) {
    json_t *rows = json_array(), *labels = json_array();
    for (int64_t i = b * BOXES; i < (b + 1) * BOXES; i++) {
      json_array_append_new(rows, row(boxes, i * 4, 4));
      for (int64_t c = 0; c < k; c++)
        if (element(classes, i * k + c) != 0) json_array_append_new(labels, json_integer(c));
    }
    json_array_append_new(all_boxes, rows);
    json_array_append_new(all_labels, labels);
  }
  return json_pack("{s:o,s:o}", "boxes", all_boxes, "classes", all_labels);
}

static void write_training(json_t *section, const od_model *m, const od_train_graph *t, const od_tensor *v) {
  json_t *losses = json_object(), *gradients = json_object(), *none = json_array();
  for (int i = 0; i < m->losses.n; i++) json_object_set_new(losses, m->losses.item[i].name, number(element(&v[i], 0)));
  v += m->losses.n;
  json_object_set_new(section, "losses", losses);
  json_object_set_new(section, "regularization_loss", number(element(&v[0], 0)));
  json_object_set_new(section, "total_loss", number(element(&v[1], 0)));
  for (int i = 0; i < t->n_gradients; i++)
    json_object_set_new(gradients, t->gradients[i].variable->name, json_pack("{s:o,s:o}", "norm", number(norm_of(&v[2 + i])), "at", values_at(&v[2 + i], 4)));
  json_object_set_new(section, "gradients", gradients);
  for (size_t i = 0; i < od_graph_variables(m->graph); i++) {
    const od_variable *var = od_graph_variable(m->graph, i);
    if (var->trainable && !json_object_get(gradients, var->name)) json_array_append_new(none, json_string(var->name));
  }
  json_object_set_new(section, "no_gradient", none);
}

static od_status training(golden *gl) {
  od_graph *g = NULL;
  od_state *state = NULL;
  od_model m = {0};
  od_train_graph t = {0};
  od_tensor gt[4] = {{0}}, rate = {OD_F32, OD_SCALAR, NULL}, *v = NULL;
  od_value *fetches = NULL;
  float lr = 0;
  int n = 0;
  feed_list f = {.n = 0};
  od_schedule schedule = {0};
  od_status st;
  const od_pb_train *tc = OD_SET(gl->pipeline.config->train_config, TrainConfig);
  json_t *overrides = json_object_get(json_object_get(gl->golden, "training"), "overrides");
  overrides = overrides ? json_incref(overrides) : make_overrides(gl);
  OD_GO(st, apply_overrides(gl, overrides));
  OD_GO(st, od_graph_new(&g));
  int64_t k = od_model_num_classes(gl->pipeline.config->model);
  od_model_spec spec = {.training = true};
  feed_pictures(&f, &spec, gl, g);
  spec.groundtruth.boxes = od_input(g, "groundtruth_boxes", OD_F32, OD_SHAPE(-1, -1, 4));
  spec.groundtruth.classes = od_input(g, "groundtruth_classes", OD_F32, OD_SHAPE(-1, -1, k));
  spec.groundtruth.weights = od_input(g, "groundtruth_weights", OD_F32, OD_SHAPE(-1, -1));
  spec.groundtruth.count = od_input(g, "groundtruth_count", OD_I32, OD_SHAPE(-1));
  OD_GO(st, make_groundtruth(gl, k, &gt[0], &gt[1], &gt[2], &gt[3]));
  OD_GO(st, od_model_build(&m, g, gl->pipeline.config->model, &spec));
  OD_GO(st, od_train_graph_build(&t, &m, tc, OD_PROGRAM_LEGACY));
  OD_GO(st, od_schedule_from_optimizer(&schedule, tc->optimizer, NULL));
  lr = od_schedule_rate(&schedule, 0);
  rate.data = &lr;
  feed(&f, spec.groundtruth.boxes, gt[0]);
  feed(&f, spec.groundtruth.classes, gt[1]);
  feed(&f, spec.groundtruth.weights, gt[2]);
  feed(&f, spec.groundtruth.count, gt[3]);
  OD_GO(st, od_state_new(&state, g));
  bool ssd = gl->pipeline.config->model->model_case == OBJECT_DETECTION__PROTOS__DETECTION_MODEL__MODEL_SSD;
  bool trained = ssd && !gl->pipeline.config->model->ssd->freeze_batchnorm;
  set_formula_weights(state, trained);
  OD_GO(st, od_new(&fetches, (size_t)t.n_gradients + 2 * OD_NAMED_MAX, sizeof *fetches));
  OD_GO(st, od_new(&v, (size_t)t.n_gradients + 2 * OD_NAMED_MAX, sizeof *v));
  for (int i = 0; i < m.losses.n; i++) fetches[n++] = m.losses.item[i].value;
  fetches[n++] = t.regularization;
  fetches[n++] = t.total_loss;
  for (int i = 0; i < t.n_gradients; i++) fetches[n++] = t.gradients[i].raw;
  int first_prediction = n;
  for (int i = 0; i < m.predictions.n && !ssd; i++) fetches[n++] = m.predictions.item[i].value;
  OD_GO(st, run_once(v, gl, g, state, &f, fetches, n, NULL, 0));
  json_t *section = json_pack("{s:s,s:b,s:[o]}", "weights", trained ? "trained" : "plain", "batch_norm_in_place", m.batch_norm_in_place, "learning_rate", number(lr));
  json_object_set_new(gl->out, "training", section);
  json_object_set(section, "overrides", overrides);
  json_object_set_new(section, "groundtruth", groundtruth_json(&gt[0], &gt[1]));
  if (!ssd) write_proposals(section, &m, v + first_prediction);
  size_t bn = 0;
  for (size_t i = 0; i < od_graph_updates(g) && !m.batch_norm_in_place; i++) bn += strcmp(od_graph_update(g, i)->group, "batch_norm") == 0;
  json_object_set_new(section, "batch_norm_updates", json_integer((json_int_t)bn));
  write_training(section, &m, &t, v);
  feed(&f, t.learning_rate, rate);
  OD_GO(st, write_step(section, gl, g, state, &f, &t, trained));
done:
  for (int i = 0; i < n; i++) od_tensor_free(&v[i]);
  for (int i = 0; i < 4; i++) od_tensor_free(&gt[i]);
  json_decref(overrides);
  od_free(v);
  od_free(fetches);
  od_schedule_free(&schedule);
  od_state_free(state);
  od_graph_free(g);
  return st;
}

/* ---------------------------------------------------------------------------------------------------------- checkpoint */
static od_status write_checkpoint(golden *gl, const char *prefix) {
  od_graph *g = NULL;
  od_state *state = NULL;
  od_named_tensor *list = NULL;
  od_model m = {0};
  od_status st;
  size_t n = 0;
  OD_GO(st, od_graph_new(&g));
  od_value raw = od_input(g, "image", OD_F32, OD_SHAPE(-1, -1, -1, 3));
  OD_GO(st, od_model_build(&m, g, gl->pipeline.config->model, &(od_model_spec){.images = raw, .resize = true}));
  OD_GO(st, od_state_new(&state, g));
  set_formula_weights(state, false);
  OD_GO(st, od_new(&list, od_graph_variables(g) + 1, sizeof *list));
  for (size_t i = 0; i < od_graph_variables(g); i++) {
    const od_variable *v = od_graph_variable(g, i);
    if (v->model) list[n++] = (od_named_tensor){v->name, *od_state_at(state, v->index)};
  }
  st = od_bundle_write(prefix, list, n);
done:
  od_free(list);
  od_state_free(state);
  od_graph_free(g);
  return st;
}

/* ---------------------------------------------------------------------------------------------------------------- main */
static od_status raw_pictures(golden *gl) {
  od_shape s = OD_SHAPE(gl->batch, H, W, 3);
  OD_TRY(od_tensor_new(&gl->images, OD_F32, &s));
  for (int b = 0; b < gl->batch; b++) od_formula_image((float *)gl->images.data + b * H * W * 3, b, H, W);
  return OD_OK;
}

static od_status add_picture(golden *gl, const od_resizer *r, int number, int h, int w) {
  od_shape raw_shape = OD_SHAPE(h, w, 3);
  od_tensor raw;
  od_fimage resized = {0};
  od_resizer_size size;
  OD_TRY(od_tensor_new(&raw, OD_F32, &raw_shape));
  od_formula_image(raw.data, number, h, w);
  od_status st = od_resizer_apply(&resized, &size, r, raw.data, OD_F32, h, w);
  od_tensor_free(&raw);
  OD_TRY(st);
  od_shape all = OD_SHAPE(gl->batch, resized.height, resized.width, resized.channels), shapes = OD_SHAPE(gl->batch, 3);
  size_t one = (size_t)resized.height * (size_t)resized.width * (size_t)resized.channels;
  if (!gl->images.data) OD_GO(st, od_tensor_new(&gl->images, OD_F32, &all));
  if (!gl->true_shapes.data) OD_GO(st, od_tensor_new(&gl->true_shapes, OD_I32, &shapes));
  if (!od_shape_equal(&gl->images.shape, &all)) OD_GO(st, od_fail(OD_EINVAL, "--sizes: the resizer does not pad these pictures to one shape"));
  memcpy((float *)gl->images.data + one * (size_t)number, resized.data, one * sizeof(float));
  const int32_t shape[3] = {size.height, size.width, resized.channels};
  memcpy((int32_t *)gl->true_shapes.data + 3 * number, shape, sizeof shape);
done:
  od_fimage_free(&resized);
  return st;
}

/* sizes: "480x640,640x400". */
static od_status sized_pictures(golden *gl, const char *sizes) {
  od_resizer r;
  int h, w, length, n = 0;
  OD_TRY(od_resizer_from_config(&r, od_model_resizer(gl->pipeline.config->model)));
  for (int i = 0; i < 3; i++)
    if (r.pad_value[i] == 0) r.pad_value[i] = od_model_pad_value(gl->pipeline.config->model);
  gl->batch = 1;
  for (const char *c = sizes; *c; c++) gl->batch += *c == ',';
  for (; sscanf(sizes, "%dx%d%n", &h, &w, &length) == 2 && h > 0 && w > 0; n++) {
    OD_TRY(add_picture(gl, &r, n, h, w));
    sizes += length;
    if (*sizes == ',') sizes++;
  }
  return n == gl->batch && !*sizes ? OD_OK : od_fail(OD_EUSAGE, "--sizes wants HxW,HxW...");
}

static od_status work(golden *gl, const char *config, const char *golden_path, const od_engine_options *options, bool inference_only) {
  OD_TRY(od_pipeline_load(&gl->pipeline, config, NULL, 0));
  if (gl->checkpoint) return write_checkpoint(gl, gl->checkpoint);
  const char *kind = od_model_kind(gl->pipeline.config->model);
  gl->batch = kind && strcmp(kind, "ssd") == 0 ? 2 : 1;
  if (golden_path) {
    json_error_t error;
    gl->golden = json_load_file(golden_path, 0, &error);
    if (!gl->golden) return od_fail(OD_EDATA, "%s:%d: %s", golden_path, error.line, error.text);
  }
  OD_TRY(od_engine_new(&gl->engine, options));
  OD_TRY(gl->sizes ? sized_pictures(gl, gl->sizes) : raw_pictures(gl));
  gl->out = json_object();
  const char *slash = strrchr(config, '/');
  json_object_set_new(gl->out, "meta", json_pack("{s:i,s:s,s:s,s:i}", "format", 1, "config", slash ? slash + 1 : config, "model", kind ? kind : "", "batch", gl->batch));
  OD_TRY(inference(gl));
  if (!inference_only) OD_TRY(training(gl));
  json_dumpf(gl->out, stdout, JSON_INDENT(1) | JSON_SORT_KEYS | JSON_REAL_PRECISION(9));
  return fflush(stdout) == 0 ? OD_OK : od_fail(OD_EIO, "stdout cannot be written");
}

int main(int argc, char **argv) {
  const char *files[2] = {NULL, NULL};
  int n_files = 0;
  bool inference_only = false;
  od_engine_options options = {.name = NULL};
  golden gl = {.proposals = 64};
  for (int i = 1; i < argc; i++) {
    if (strncmp(argv[i], "--engine=", 9) == 0) options.name = argv[i] + 9;
    else if (strncmp(argv[i], "--threads=", 10) == 0) options.threads = (int)strtol(argv[i] + 10, NULL, 10);
    else if (strncmp(argv[i], "--proposals=", 12) == 0) gl.proposals = (int)strtol(argv[i] + 12, NULL, 10);
    else if (strncmp(argv[i], "--sizes=", 8) == 0) gl.sizes = argv[i] + 8;
    else if (strncmp(argv[i], "--checkpoint=", 13) == 0) gl.checkpoint = argv[i] + 13;
    else if (strcmp(argv[i], "--inference-only") == 0) inference_only = true;
    else if (argv[i][0] != '-' && n_files < 2) files[n_files++] = argv[i];
    else n_files = 3;
  }
  if (n_files < 1 || n_files > 2) {
    fprintf(stderr, "usage: objdet-golden CONFIG [GOLDEN.json] [--engine=cpu|ref] [--threads=N] [--proposals=N] [--inference-only] [--sizes=HxW,HxW] [--checkpoint=PREFIX]\n");
    return 2;
  }
  od_status st = work(&gl, files[0], files[1], &options, inference_only);
  if (st != OD_OK) fprintf(stderr, "objdet-golden: %s\n", od_message());
  od_tensor_free(&gl.images);
  od_tensor_free(&gl.true_shapes);
  od_tensor_free(&gl.seen);
  od_engine_free(gl.engine);
  od_pipeline_free(&gl.pipeline);
  json_decref(gl.golden);
  json_decref(gl.out);
  return st == OD_OK ? 0 : 1;
}
