/* Setting up and stepping a training run; see session.h. */
#include "train/session.h"

#include <string.h>

#include "ops/math.h"
#include "train/schedule.h"

od_status od_step_size_read(od_step_size *out, const od_pb_train *c, od_train_program program) {
  *out = (od_step_size){(int)c->batch_size, 1};
  if (c->batch_size < 1) return od_fail(OD_EINVAL, "train_config.batch_size is 0, at least 1 is wanted");
  if (program != OD_PROGRAM_LEGACY || !c->sync_replicas || c->replicas_to_aggregate <= 1) return OD_OK;
  if ((int)c->batch_size % c->replicas_to_aggregate != 0)
    return od_fail(OD_EINVAL, "train_config.batch_size %u cannot be divided by replicas_to_aggregate %d", c->batch_size,
                   c->replicas_to_aggregate);
  *out = (od_step_size){(int)c->batch_size / c->replicas_to_aggregate, c->replicas_to_aggregate};
  return OD_OK;
}

/* --------------------------------------------------------------------------------------------------------------- graph */
static od_status build_graph(od_session *s) {
  od_graph *g = s->graph;
  const od_pb_model *model = s->o->pipeline->config->model;
  int64_t k = od_model_num_classes(model);
  od_model_spec spec = {.training = true};
  spec.images = od_input(g, "images", OD_F32, OD_SHAPE(-1, -1, -1, od_model_channels(model)));
  spec.true_shapes = od_input(g, "true_image_shapes", OD_I32, OD_SHAPE(-1, 3));
  spec.groundtruth = (od_groundtruth){od_input(g, "groundtruth_boxes", OD_F32, OD_SHAPE(-1, -1, 4)),
                                      od_input(g, "groundtruth_classes", OD_F32, OD_SHAPE(-1, -1, k)),
                                      od_input(g, "groundtruth_weights", OD_F32, OD_SHAPE(-1, -1)),
                                      od_input(g, "groundtruth_count", OD_I32, OD_SHAPE(-1))};
  s->inputs = spec;
  OD_TRY(od_model_build(&s->model, g, model, &spec));
  OD_TRY(od_train_graph_build(&s->train, &s->model, s->config, s->o->program));
  return od_state_new(&s->state, g);
}

/* Scalars that every step reports: losses, regularisation, total, the model's summaries, the gradient norm. */
static void list_scalars(od_session *s) {
  for (int i = 0; i < s->model.losses.n; i++)
    s->scalars[s->n_scalars++] = (od_scalar){s->model.losses.item[i].name, OD_SCALAR_LOSS, s->model.losses.item[i].value};
  if (s->train.has_regularization) s->scalars[s->n_scalars++] = (od_scalar){"regularization_loss", OD_SCALAR_REGULARIZATION, s->train.regularization};
  s->total = s->n_scalars;
  s->scalars[s->n_scalars++] = (od_scalar){"total_loss", OD_SCALAR_TOTAL, s->train.total_loss};
  for (int i = 0; i < s->model.summaries.n; i++)
    s->scalars[s->n_scalars++] = (od_scalar){s->model.summaries.item[i].name, OD_SCALAR_SUMMARY, s->model.summaries.item[i].value};
  if (od_has(s->train.gradient_norm)) s->scalars[s->n_scalars++] = (od_scalar){"gradient_norm", OD_SCALAR_NORM, s->train.gradient_norm};
}

void od_session_feeds(od_value *values, od_tensor *tensors, od_session *s) {
  const od_model_spec *in = &s->inputs;
  const od_value v[OD_SESSION_FEEDS] = {in->images, in->true_shapes, in->groundtruth.boxes, in->groundtruth.classes,
                                        in->groundtruth.weights, in->groundtruth.count, s->train.learning_rate};
  if (values) memcpy(values, v, sizeof v);
  if (!tensors) return;
  const od_tensor t[OD_SESSION_FEEDS] = {s->batch.images, s->batch.true_shapes, s->batch.boxes, s->batch.class_targets,
                                         s->batch.weights, s->batch.num_boxes, {OD_F32, OD_SCALAR, &s->learning_rate}};
  memcpy(tensors, t, sizeof t);
}

/* One program for the whole step; or, when a step has several turns, one that gives gradients and one that applies means. */
static od_status make_programs(od_session *s) {
  od_value feeds[OD_SESSION_FEEDS], *fetches;
  bool turns = s->size.turns > 1;
  int n = 0;
  od_session_feeds(feeds, NULL, s);
  OD_TRY(od_new(&fetches, (size_t)(s->n_scalars + s->train.n_gradients + 1), sizeof *fetches));
  for (int i = 0; i < s->n_scalars; i++) fetches[n++] = s->scalars[i].value;
  for (int i = 0; turns && i < s->train.n_gradients; i++)
    if (od_has(s->train.gradients[i].processed)) fetches[n++] = s->train.gradients[i].processed;
  s->n_applied = n - s->n_scalars;
  fetches[n++] = s->model.match; /* may be absent */
  od_program_spec spec = {.graph = s->graph, .state = s->state, .feeds = feeds, .n_feeds = turns ? OD_SESSION_FEEDS - 1 : OD_SESSION_FEEDS,
                          .fetches = fetches, .n_fetches = n, .update_groups = od_train_update_groups,
                          .n_update_groups = turns ? 1 : OD_N_TRAIN_UPDATE_GROUPS, .guard = s->train.total_loss};
  od_status st = od_program_new(&s->program, s->engine, &spec);
  if (st == OD_OK) st = od_new(&s->fetched, (size_t)n, sizeof *s->fetched);
  if (st == OD_OK && turns) {
    od_value *apply_feeds = fetches + s->n_scalars - 1; /* the place in front of the gradients takes the learning rate */
    OD_ASSERT(s->n_scalars > 0);
    apply_feeds[0] = s->train.learning_rate;
    od_program_spec apply = {.graph = s->graph, .state = s->state, .feeds = apply_feeds, .n_feeds = s->n_applied + 1,
                             .update_groups = od_train_update_groups + 1, .n_update_groups = OD_N_TRAIN_UPDATE_GROUPS - 1};
    st = od_program_new(&s->apply, s->engine, &apply);
  }
  od_free(fetches);
  return st;
}

static od_status open_engine(od_session *s) {
  od_resizer r;
  OD_TRY(od_resizer_from_config(&r, od_model_resizer(s->o->pipeline->config->model)));
  s->engine_options.many_shapes = od_resizer_varies(&r);
  return od_engine_new(&s->engine, &s->engine_options);
}

static int pictures_ahead(const od_session *s) {
  enum { FEW = 64 }; /* batches above this are long work: two of them ahead are enough */
  int n = s->size.pictures;
  return n > FEW ? 2 * n : n < 4 ? 16 : 4 * n;
}

static od_status open_input(od_session *s) {
  const od_pb_pipeline *c = s->o->pipeline->config;
  od_input_options in = {.reader = c->train_input_reader, .augmentation = s->config->data_augmentation_options,
                         .augmentation_count = s->config->n_data_augmentation_options,
                         .num_classes = (int)od_model_num_classes(c->model), .batch_size = s->size.pictures, .queue = pictures_ahead(s),
                         .clip_boxes = s->o->program == OD_PROGRAM_MODEL_MAIN,
                         .merge_multiple_boxes = s->config->merge_multiple_label_boxes,
                         .use_multiclass_scores = s->config->use_multiclass_scores, .shuffle = -1, .epochs = -1, .seed = s->seed,
                         .start = s->start, .on_bad = s->o->on_bad, .reporter = s->o->reporter};
  OD_TRY(od_resizer_from_config(&in.resizer, od_model_resizer(c->model)));
  for (int i = 0; i < 3; i++)
    if (in.resizer.pad_value[i] == 0) in.resizer.pad_value[i] = od_model_pad_value(c->model);
  return od_fail_context(od_input_open(&s->input, &in), "train_input_reader");
}

/* -------------------------------------------------------------------------------------------------------------- memory */
/* The largest picture that the resizer gives; false: it sets no bound. */
static bool largest_picture(int *height, int *width, const od_resizer *r, int pictures) {
  switch (r->kind) {
    case OD_RESIZER_FIXED: *height = r->height, *width = r->width; return true;
    case OD_RESIZER_KEEP_ASPECT: /* a batch may hold upright and wide ones */
      *width = r->max_dimension;
      *height = r->pad_to_max || pictures > 1 ? r->max_dimension : r->min_dimension;
      return true;
    case OD_RESIZER_SHRINK: *height = *width = r->min_dimension; return true;
    default: return false;
  }
}

static size_t state_bytes(const od_session *s) {
  size_t all = 0, model = 0;
  for (size_t i = 0; i < od_graph_variables(s->graph); i++) {
    const od_variable *v = od_graph_variable(s->graph, i);
    size_t bytes = od_tensor_bytes(od_state_at(s->state, v->index));
    all += bytes;
    if (v->model) model += bytes;
  }
  /* the engine keeps weights packed for the forward and the backward pass; turns add up gradients */
  return all + 2 * model + (s->size.turns > 1 ? model : 0);
}

/* Makes the plan that the first step runs. */
static od_status measure_memory(od_session *s) {
  const od_pb_pipeline *c = s->o->pipeline->config;
  od_train_need *need = &s->need;
  od_resizer r;
  OD_TRY(od_resizer_from_config(&r, od_model_resizer(c->model)));
  int n = s->size.pictures, boxes = c->train_input_reader->max_number_of_boxes > 0 ? c->train_input_reader->max_number_of_boxes : 100;
  need->pictures = n;
  need->state = state_bytes(s);
  if (largest_picture(&need->height, &need->width, &r, n)) {
    int64_t k = od_model_num_classes(c->model);
    const od_shape shapes[OD_SESSION_FEEDS] = {OD_SHAPE(n, need->height, need->width, 3), OD_SHAPE(n, 3), OD_SHAPE(n, boxes, 4), OD_SHAPE(n, boxes, k),
                                               OD_SHAPE(n, boxes), OD_SHAPE(n), OD_SCALAR};
    OD_TRY(od_program_memory(&need->step, s->program, shapes));
    /* the ring, the batch's pictures and the batch itself, float32 */
    need->input = ((size_t)pictures_ahead(s) + 2 * (size_t)n) * (size_t)need->height * (size_t)need->width * 3 * sizeof(float);
  }
  need->total = need->step + need->state + need->input;
  return OD_OK;
}

static od_status count_memory(od_session *s) {
  const od_train_need *need = &s->need;
  OD_TRY(measure_memory(s));
  od_info(s->o->reporter, "memory: about %.2f GB (step %.2f, weights and optimizer %.2f, pictures %.2f)", (double)need->total / 1e9, (double)need->step / 1e9,
          (double)need->state / 1e9, (double)need->input / 1e9);
  return od_train_need_check(need, od_machine_memory());
}

od_status od_session_build(od_session *s, const od_train_options *o) {
  *s = (od_session){.o = o, .config = OD_SET(o->pipeline->config->train_config, TrainConfig), .seed = o->seed, .engine_options = o->engine};
  OD_TRY(od_step_size_read(&s->size, s->config, o->program));
  OD_TRY(od_schedule_from_optimizer(&s->schedule, s->config->optimizer, o->reporter));
  OD_TRY(od_graph_new(&s->graph));
  OD_TRY(build_graph(s));
  list_scalars(s);
  return od_graph_check(s->graph);
}

od_status od_session_start(od_session *s) {
  OD_TRY(open_engine(s));
  OD_TRY(make_programs(s));
  OD_TRY(count_memory(s));
  OD_TRY(open_input(s));
  OD_TRY(od_ahead_new(&s->ahead, s->program, s->size.turns > 1 ? OD_SESSION_FEEDS - 1 : OD_SESSION_FEEDS));
  if (s->size.turns == 1) return OD_OK;
  OD_TRY(od_new(&s->means, (size_t)s->n_applied + 1, sizeof *s->means));
  for (int i = 0, k = 0; i < s->train.n_gradients; i++) {
    if (!od_has(s->train.gradients[i].processed)) continue;
    OD_TRY(od_tensor_new(&s->means[1 + k++], OD_F32, &s->train.gradients[i].variable->shape));
  }
  return OD_OK;
}

od_status od_train_estimate(od_train_need *out, const od_train_options *o) {
  od_session *s;
  od_status st;
  OD_TRY(od_new(&s, 1, sizeof *s));
  OD_GO(st, od_session_build(s, o));
  OD_GO(st, open_engine(s));
  OD_GO(st, make_programs(s));
  OD_GO(st, measure_memory(s));
  *out = s->need;
done:
  od_session_close(s);
  od_free(s);
  return st;
}

void od_session_close(od_session *s) {
  od_input_free(s->input); /* first: its threads may still warn */
  od_ahead_free(s->ahead);
  od_batch_free(&s->batch);
  for (int i = 0; s->means && i < s->n_applied; i++) od_tensor_free(&s->means[1 + i]);
  od_free(s->means);
  od_free(s->fetched);
  od_program_free(s->apply);
  od_program_free(s->program);
  od_engine_free(s->engine);
  od_state_free(s->state);
  od_graph_free(s->graph);
  od_schedule_free(&s->schedule);
}

/* ---------------------------------------------------------------------------------------------------------------- step */
static void add_to(od_tensor *sum, const od_tensor *x, float factor) {
  float *a = sum->data;
  const float *b = x->data;
  for (int64_t i = 0, n = od_tensor_size(sum); i < n; i++) a[i] += factor * b[i];
}

/* Has plans made for the next batches whose pictures have another size than this one. All else is as in this batch; where it is
 * not (more boxes than ever before) the plan is made when it is needed. */
static void look_ahead(od_session *s, const od_tensor *feeds) {
  enum { FEW = 4 };
  od_input_shape next[FEW];
  od_shape shapes[OD_SESSION_FEEDS];
  const int n = od_input_upcoming(s->input, next, FEW);
  for (int k = 0; k < OD_SESSION_FEEDS; k++) shapes[k] = feeds[k].shape;
  for (int i = 0; i < n; i++) {
    shapes[0].dim[1] = next[i].height;
    shapes[0].dim[2] = next[i].width;
    if (!od_shape_equal(&shapes[0], &feeds[0].shape)) od_ahead_ask(s->ahead, shapes);
  }
}

static od_status one_turn(od_session *s) {
  od_tensor feeds[OD_SESSION_FEEDS];
  OD_TRY(od_input_next(s->input, &s->batch));
  od_session_feeds(NULL, feeds, s);
  look_ahead(s, feeds);
  od_program_set_key(s->program, od_key_mix(od_key_mix(s->seed, s->step), (uint64_t)s->turn));
  OD_TRY(od_program_run(s->program, feeds, s->fetched));
  for (int i = 0; i < s->n_scalars; i++) s->values[i] += *(const float *)s->fetched[i].data / (float)s->size.turns;
  for (int i = 0; s->apply && i < s->n_applied; i++) add_to(&s->means[1 + i], &s->fetched[s->n_scalars + i], 1.0f / (float)s->size.turns);
  s->match = s->fetched[s->n_scalars + s->n_applied];
  return OD_OK;
}

od_status od_session_step(od_session *s) {
  s->learning_rate = od_schedule_rate(&s->schedule, (int64_t)s->step);
  memset(s->values, 0, sizeof s->values);
  for (int i = 0; s->apply && i < s->n_applied; i++) memset(s->means[1 + i].data, 0, od_tensor_bytes(&s->means[1 + i]));
  for (s->turn = 0; s->turn < s->size.turns; s->turn++) OD_TRY(one_turn(s));
  if (s->apply) {
    s->means[0] = (od_tensor){OD_F32, OD_SCALAR, &s->learning_rate};
    OD_TRY(od_program_run(s->apply, s->means, NULL));
  }
  s->step++;
  return OD_OK;
}
