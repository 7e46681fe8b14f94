/* Made-up runs of a config's program; see rehearsal.h. */
#include "train/rehearsal.h"

#include <string.h>

#include "base/rng.h"
#include "image/resizer.h"

enum { BOXES = 8 }; /* a picture; not all of them are counted as real */

static od_status made(od_tensor *t, od_dtype dtype, od_shape shape, double lo, double hi, od_key key) {
  OD_TRY(od_tensor_new(t, dtype, &shape));
  for (int64_t i = 0, n = od_tensor_size(t); i < n; i++) {
    const double v = lo + (hi - lo) * od_rng_f64(key, (uint64_t)i);
    if (dtype == OD_F32)
      ((float *)t->data)[i] = (float)v;
    else
      ((int32_t *)t->data)[i] = (int32_t)v;
  }
  return OD_OK;
}

#define RESIZER(x) OBJECT_DETECTION__PROTOS__IMAGE_RESIZER__IMAGE_RESIZER_ONEOF_##x
/* A resizer that keeps the aspect is shown pictures of its shortest and longest sides: the most it has to do. */
static void default_size(od_rehearsal *r, const od_pb_model *model) {
  const od_pb_resizer *z = od_model_resizer(model);
  int64_t h = 300, w = 300;
  if (z && z->image_resizer_oneof_case == RESIZER(FIXED_SHAPE_RESIZER)) {
    h = z->fixed_shape_resizer->height;
    w = z->fixed_shape_resizer->width;
  } else if (z && z->image_resizer_oneof_case == RESIZER(KEEP_ASPECT_RATIO_RESIZER)) {
    h = z->keep_aspect_ratio_resizer->min_dimension;
    w = z->keep_aspect_ratio_resizer->max_dimension;
  }
  if (r->height <= 0) r->height = h;
  if (r->width <= 0) r->width = w;
}

static od_status add_input(od_rehearsal *r, od_value v, od_dtype dtype, od_shape shape, double lo, double hi) {
  const int i = r->n_feeds;
  OD_TRY(made(&r->feeds[i], dtype, shape, lo, hi, (od_key)i + 1));
  r->inputs[i] = v;
  r->shapes[i] = shape;
  r->n_feeds++;
  return OD_OK;
}

static od_status add_pictures(od_rehearsal *r, od_model_spec *spec, int64_t channels) {
  od_graph *g = r->graph;
  spec->images = od_input(g, "images", OD_F32, OD_SHAPE(-1, -1, -1, channels));
  spec->true_shapes = od_input(g, "true_shapes", OD_I32, OD_SHAPE(-1, 3));
  OD_TRY(add_input(r, spec->images, OD_F32, OD_SHAPE(r->batch, r->height, r->width, channels), 0, 255));
  OD_TRY(add_input(r, spec->true_shapes, OD_I32, OD_SHAPE(r->batch, 3), 0, 0));
  int32_t *shape = r->feeds[1].data;
  for (int64_t i = 0; i < r->batch; i++) {
    shape[3 * i] = (int32_t)r->height;
    shape[3 * i + 1] = (int32_t)r->width;
    shape[3 * i + 2] = (int32_t)channels;
  }
  return OD_OK;
}

static od_status add_truth(od_rehearsal *r, od_model_spec *spec, int64_t k) {
  od_graph *g = r->graph;
  od_groundtruth *t = &spec->groundtruth;
  t->boxes = od_input(g, "boxes", OD_F32, OD_SHAPE(-1, -1, 4));
  t->classes = od_input(g, "classes", OD_F32, OD_SHAPE(-1, -1, k));
  t->weights = od_input(g, "weights", OD_F32, OD_SHAPE(-1, -1));
  t->count = od_input(g, "count", OD_I32, OD_SHAPE(-1));
  OD_TRY(add_input(r, t->boxes, OD_F32, OD_SHAPE(r->batch, BOXES, 4), 0, 0.5));
  OD_TRY(add_input(r, t->classes, OD_F32, OD_SHAPE(r->batch, BOXES, k), 0, 0));
  OD_TRY(add_input(r, t->weights, OD_F32, OD_SHAPE(r->batch, BOXES), 1, 1));
  OD_TRY(add_input(r, t->count, OD_I32, OD_SHAPE(r->batch), 2, 6));
  float *box = r->feeds[2].data, *classes = r->feeds[3].data;
  for (int64_t i = 0; i < r->batch * BOXES; i++, box += 4) {
    for (int side = 0; side < 2; side++)
      box[2 + side] = box[side] + 0.1f + box[2 + side] * 0.8f; /* 10 to 50 % of a side */
    classes[i * k + i % k] = 1;
  }
  return OD_OK;
}

static od_status build(od_rehearsal *r, const od_rehearsal_spec *s) {
  const od_pb_pipeline *c = s->config;
  od_model_spec spec = {.training = !s->inference};
  OD_TRY(od_graph_new(&r->graph));
  OD_TRY(add_pictures(r, &spec, od_model_channels(c->model)));
  if (!s->inference) OD_TRY(add_truth(r, &spec, od_model_num_classes(c->model)));
  OD_TRY(od_model_build(&r->model, r->graph, c->model, &spec));
  if (s->inference) {
    for (int i = 0; i < r->model.detections.n; i++) r->outputs[r->n_fetches++] = r->model.detections.item[i].value;
    return od_graph_check(r->graph);
  }
  OD_TRY(od_train_graph_build(&r->train, &r->model, c->train_config, s->kind));
  OD_TRY(add_input(r, r->train.learning_rate, OD_F32, OD_SCALAR, 1e-4, 1e-4));
  r->outputs[r->n_fetches++] = r->train.total_loss;
  return od_graph_check(r->graph);
}

od_status od_rehearsal_new(od_rehearsal *out, const od_rehearsal_spec *s) {
  od_rehearsal r = {.batch = s->batch, .height = s->height, .width = s->width};
  od_engine_options engine = s->engine;
  od_resizer resizer;
  od_status st;
  if (!s->config->model) return od_fail(OD_EINVAL, "the config has no model");
  if (r.batch <= 0) r.batch = s->inference || !s->config->train_config ? 1 : s->config->train_config->batch_size;
  default_size(&r, s->config->model);
  OD_GO(st, build(&r, s));
  OD_GO(st, od_state_new(&r.state, r.graph));
  od_state_init(r.state, 1);
  OD_GO(st, od_resizer_from_config(&resizer, od_model_resizer(s->config->model)));
  engine.many_shapes = od_resizer_varies(&resizer); /* as in training */
  OD_GO(st, od_engine_new(&r.engine, &engine));
  st = od_program_new(&r.program, r.engine,
                      &(od_program_spec){.graph = r.graph,
                                         .state = r.state,
                                         .feeds = r.inputs,
                                         .n_feeds = r.n_feeds,
                                         .fetches = r.outputs,
                                         .n_fetches = r.n_fetches,
                                         .update_groups = od_train_update_groups,
                                         .n_update_groups = s->inference ? 0 : OD_N_TRAIN_UPDATE_GROUPS});
done:
  if (st != OD_OK)
    od_rehearsal_free(&r);
  else
    *out = r;
  return st;
}

void od_rehearsal_free(od_rehearsal *r) {
  od_program_free(r->program);
  od_engine_free(r->engine);
  od_state_free(r->state);
  od_graph_free(r->graph);
  for (int i = 0; i < r->n_feeds; i++) od_tensor_free(&r->feeds[i]);
  *r = (od_rehearsal){0};
}

od_status od_rehearsal_step(od_rehearsal *r, float *loss) {
  od_tensor got[OD_REHEARSAL_FETCHES];
  OD_TRY(od_program_run(r->program, r->feeds, got));
  if (loss) *loss = od_has(r->train.total_loss) ? *(const float *)got[0].data : 0;
  return OD_OK;
}
