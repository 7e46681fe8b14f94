/* A detector; see detector.h. */
#include "eval/detector.h"

#include <string.h>

#include "engine/ahead.h"
#include "io/bundle.h"
#include "model/parts.h"
#include "ops/math.h"
#include "train/restore.h"

enum { FEEDS_MAX = 6, N_DETECTION_FETCHES = 4 };
static const char *const detection_names[N_DETECTION_FETCHES] = {"detection_boxes", "detection_scores", "detection_classes", "num_detections"};

struct od_detector {
  od_detector_options options;
  od_resizer resizer;
  od_graph *graph;
  od_state *state;
  od_model model;
  od_engine *engine;
  od_program *program;
  od_ahead *ahead; /* NULL until something is expected */
  int n_feeds;
  int64_t step;
  int32_t *classes; /* [B*M] of the last run, ids from 1 */
  size_t classes_cap;
};

/* The sum of all terms, as one more loss. */
static od_status add_regularization(od_detector *d) {
  size_t n = 0;
  od_value *terms;
  while (od_collected(d->graph, "regularization", n, NULL, &(od_value){0})) n++;
  if (n == 0) return OD_OK;
  terms = od_arena_alloc(od_graph_arena(d->graph), n * sizeof *terms);
  if (!terms) return OD_ENOMEM;
  for (size_t i = 0; i < n; i++) (void)od_collected(d->graph, "regularization", i, NULL, &terms[i]);
  od_named_add(d->graph, &d->model.losses, "Loss/regularization_loss", n == 1 ? terms[0] : od_add_n(d->graph, terms, (int)n));
  return od_graph_check(d->graph);
}

static od_status build(od_detector *d) {
  od_graph *g = d->graph;
  int64_t k = od_model_num_classes(d->options.model);
  od_model_spec spec = {.images = od_input(g, "images", OD_F32, OD_SHAPE(-1, -1, -1, od_model_channels(d->options.model))),
                        .true_shapes = od_input(g, "true_image_shapes", OD_I32, OD_SHAPE(-1, 3))};
  od_value feeds[FEEDS_MAX] = {spec.images, spec.true_shapes}, fetches[N_DETECTION_FETCHES + OD_NAMED_MAX];
  d->n_feeds = 2;
  if (d->options.losses) {
    spec.groundtruth = (od_groundtruth){od_input(g, "groundtruth_boxes", OD_F32, OD_SHAPE(-1, -1, 4)),
                                        od_input(g, "groundtruth_classes", OD_F32, OD_SHAPE(-1, -1, k)),
                                        od_input(g, "groundtruth_weights", OD_F32, OD_SHAPE(-1, -1)),
                                        od_input(g, "groundtruth_count", OD_I32, OD_SHAPE(-1))};
    const od_value more[] = {spec.groundtruth.boxes, spec.groundtruth.classes, spec.groundtruth.weights, spec.groundtruth.count};
    memcpy(feeds + 2, more, sizeof more);
    d->n_feeds = FEEDS_MAX;
  }
  OD_TRY(od_model_build(&d->model, g, d->options.model, &spec));
  if (d->options.losses && d->options.regularization) OD_TRY(add_regularization(d));
  (void)od_variable_slot(g, "global_step", OD_I64, OD_SCALAR, (od_init){0});
  OD_TRY(od_graph_check(g));
  int n = 0;
  for (; n < N_DETECTION_FETCHES; n++) fetches[n] = od_named_get(&d->model.detections, detection_names[n]);
  for (int i = 0; i < d->model.losses.n; i++) fetches[n++] = d->model.losses.item[i].value;
  OD_TRY(od_state_new(&d->state, g));
  od_program_spec p = {.graph = g, .state = d->state, .feeds = feeds, .n_feeds = d->n_feeds, .fetches = fetches, .n_fetches = n};
  return od_program_new(&d->program, d->engine, &p);
}

od_status od_detector_new(od_detector **out, const od_detector_options *options) {
  od_detector *d;
  od_status st;
  OD_TRY(od_new(&d, 1, sizeof *d));
  d->options = *options;
  d->step = -1;
  if (!options->model) OD_GO(st, od_fail(OD_EINVAL, "the config has no model"));
  OD_GO(st, od_resizer_from_config(&d->resizer, od_model_resizer(options->model)));
  for (int i = 0; i < 3; i++)
    if (d->resizer.pad_value[i] == 0) d->resizer.pad_value[i] = od_model_pad_value(options->model);
  d->options.engine.many_shapes = od_resizer_varies(&d->resizer);
  OD_GO(st, od_engine_new(&d->engine, &d->options.engine));
  OD_GO(st, od_graph_new(&d->graph));
  st = build(d);
done:
  if (st != OD_OK) od_detector_free(d);
  else *out = d;
  return st;
}

void od_detector_free(od_detector *d) {
  if (!d) return;
  od_ahead_free(d->ahead);
  od_program_free(d->program);
  od_engine_free(d->engine);
  od_state_free(d->state);
  od_graph_free(d->graph);
  od_free(d->classes);
  od_free(d);
}

od_status od_detector_restore(od_detector *d, const char *checkpoint) {
  od_bundle *b;
  OD_TRY(od_bundle_open(&b, checkpoint));
  const od_bundle_entry *e = od_bundle_find(b, "global_step"); /* zoo checkpoints may lack it */
  bool has_step = e && e->known && e->dtype == OD_I64;
  od_bundle_free(b);
  OD_TRY(od_restore_model(d->state, checkpoint, d->options.averages));
  d->step = has_step ? *(const int64_t *)od_state_tensor(d->state, "global_step")->data : -1;
  return OD_OK;
}

int64_t od_detector_step(const od_detector *d) { return d->step; }
const od_resizer *od_detector_resizer(const od_detector *d) { return &d->resizer; }
od_program *od_detector_program(od_detector *d) { return d->program; }
const od_state *od_detector_state(const od_detector *d) { return d->state; }
const od_graph *od_detector_graph(const od_detector *d) { return d->graph; }
const od_named_list *od_detector_loss_names(const od_detector *d) { return &d->model.losses; }

od_status od_detector_run(od_detector *d, const od_detector_batch *b, od_detections *found, float *losses) {
  const od_tensor feeds[FEEDS_MAX] = {b->images, b->true_shapes, b->boxes, b->class_targets, b->weights, b->num_boxes};
  od_tensor t[N_DETECTION_FETCHES + OD_NAMED_MAX];
  OD_TRY(od_program_run(d->program, feeds, t));
  int64_t batch = t[1].shape.dim[0], m = t[1].shape.dim[1];
  OD_TRY(od_grow(&d->classes, &d->classes_cap, (size_t)(batch * m) + 1, sizeof *d->classes));
  const float *classes = t[2].data; /* proposals have none: all are objects */
  for (int64_t i = 0; i < batch * m; i++) d->classes[i] = classes ? (int32_t)classes[i] + 1 : 1;
  for (int64_t i = 0; i < batch; i++)
    found[i] = (od_detections){(int)((const float *)t[3].data)[i], (float *)t[0].data + i * m * 4, (float *)t[1].data + i * m, d->classes + i * m};
  for (int i = 0; losses && i < d->model.losses.n; i++) losses[i] = *(const float *)t[N_DETECTION_FETCHES + i].data;
  return OD_OK;
}

void od_detector_expect(od_detector *d, const od_detector_batch *like, int64_t height, int64_t width) {
  od_shape shapes[FEEDS_MAX] = {OD_SHAPE(1, height, width, od_model_channels(d->options.model)), OD_SHAPE(1, 3)};
  if (!d->ahead && od_ahead_new(&d->ahead, d->program, d->n_feeds) != OD_OK) return; /* the run makes its plan itself */
  if (like) {
    const od_tensor feeds[FEEDS_MAX] = {like->images, like->true_shapes, like->boxes, like->class_targets, like->weights, like->num_boxes};
    for (int k = 0; k < d->n_feeds; k++) shapes[k] = feeds[k].shape;
    shapes[0].dim[1] = height;
    shapes[0].dim[2] = width;
  }
  od_ahead_ask(d->ahead, shapes);
}

od_status od_detector_look(od_detector *d, const od_image *picture, od_detections *found) {
  od_fimage resized = {0};
  od_resizer_size size;
  OD_ASSERT(!d->options.losses && picture->channels == 3);
  OD_TRY(od_resizer_apply(&resized, &size, &d->resizer, picture->data, OD_U8, picture->height, picture->width));
  int32_t shape[3] = {size.height, size.width, 3};
  od_detector_batch b = {.images = {OD_F32, OD_SHAPE(1, resized.height, resized.width, resized.channels), resized.data},
                         .true_shapes = {OD_I32, OD_SHAPE(1, 3), shape}};
  od_status st = od_detector_run(d, &b, found, NULL);
  od_fimage_free(&resized);
  return st;
}
