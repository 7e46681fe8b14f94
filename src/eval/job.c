/* One evaluation; see job.h. */
#include "eval/job.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "eval/options.h"
#include "eval/pictures.h"
#include "eval/table.h"
#include "io/event.h"
#include "train/schedule.h"

struct od_eval_job {
  od_eval_job_options o;
  const od_pb_eval *config;
  od_label_map *labels;
  od_category *categories;
  int n_categories;
  od_detector *detector;
  od_eval_pictures *pictures;
  od_event_writer *events; /* opened with the first run, one file for all */
  od_arena *options;       /* of the evaluators: lives as long as they do */
  od_arena *tags;          /* names of the last run's figures */
  od_metric *metrics;
  size_t n_metrics;
  double seconds_per_picture;
  od_schedule schedule; /* model_main, when there is an optimizer: what the rate is at a step */
};

/* --------------------------------------------------------------------------------------------------------------- setup */
static od_status load_labels(od_eval_job *j) {
  const char *path = j->o.reader->label_map_path;
  if (!path || !*path) return od_fail(OD_EINVAL, "eval_input_reader.label_map_path is not set: evaluation wants names of classes");
  OD_TRY(od_label_map_load(&j->labels, path));
  return od_label_map_categories(&j->categories, &j->n_categories, j->labels, od_label_map_max_id(j->labels), true);
}

static od_status make_evaluator(od_eval **out, od_eval_job *j) {
  od_eval_options e = od_eval_defaults();
  od_eval_category *categories;
  od_status st;
  OD_TRY(od_new(&categories, (size_t)j->n_categories + 1, sizeof *categories));
  for (int i = 0; i < j->n_categories; i++) categories[i] = (od_eval_category){j->categories[i].id, j->categories[i].name};
  OD_GO(st, od_eval_options_from_config(&e, j->config, j->o.style == OD_EVAL_LEGACY, j->options));
  e.categories = categories;
  e.n_categories = (size_t)j->n_categories;
  e.confusion = true;
  e.confusion_min_score = (double)j->config->min_score_threshold; /* as drawn */
  e.reporter = j->o.reporter;
  st = od_eval_new(out, &e);
done:
  od_free(categories);
  return st;
}

static od_status refuse(const od_pb_eval *c) {
  if (c->eval_instance_masks) return od_fail(OD_EUNSUPPORTED, "eval_config.eval_instance_masks is not supported yet");
  if (c->ignore_groundtruth || (c->export_path && *c->export_path))
    return od_fail(OD_EUNSUPPORTED, "eval_config.export_path and ignore_groundtruth are not supported yet; `objdet detect --json` writes detections");
  return OD_OK;
}

od_status od_eval_job_new(od_eval_job **out, const od_eval_job_options *o) {
  od_eval_job *j;
  od_eval *probe = NULL;
  od_status st;
  OD_TRY(od_new(&j, 1, sizeof *j));
  j->o = *o;
  j->config = OD_SET(o->pipeline->config->eval_config, EvalConfig);
  if (!o->reader) OD_GO(st, od_fail(OD_EINVAL, "the config has no eval_input_reader"));
  OD_GO(st, refuse(j->config));
  OD_GO(st, od_arena_new(&j->options));
  OD_GO(st, load_labels(j));
  OD_GO(st, make_evaluator(&probe, j)); /* wrong metric names are told now, not after an hour of training */
  const od_pb_train *train = OD_SET(o->pipeline->config->train_config, TrainConfig);
  od_detector_options d = {.model = o->pipeline->config->model, .averages = j->config->use_moving_averages, .losses = true,
                           .regularization = o->style == OD_EVAL_MODEL_MAIN && train->add_regularization_loss, .engine = o->engine};
  if (o->style == OD_EVAL_MODEL_MAIN && train->optimizer) OD_GO(st, od_schedule_from_optimizer(&j->schedule, train->optimizer, NULL));
  OD_GO(st, od_detector_new(&j->detector, &d));
  OD_GO(st, od_eval_pictures_new(&j->pictures, j->config, j->labels, o->eval_dir, o->style, o->reporter));
  st = od_arena_new(&j->tags);
done:
  od_eval_free(probe);
  if (st != OD_OK) od_eval_job_free(j);
  else *out = j;
  return st;
}

void od_eval_job_free(od_eval_job *j) {
  if (!j) return;
  if (j->events) {
    od_status closing = od_event_writer_close(j->events); /* every write was flushed: nothing can be lost here */
    (void)closing;
  }
  od_eval_pictures_free(j->pictures);
  od_detector_free(j->detector);
  od_free(j->categories);
  od_label_map_free(j->labels);
  od_arena_free(j->options);
  od_arena_free(j->tags);
  od_schedule_free(&j->schedule);
  od_free(j->metrics);
  od_free(j);
}

/* ------------------------------------------------------------------------------------------------------------- one pass */
typedef struct {
  od_eval *evaluator;
  od_input_queue *input;
  od_batch batch;
  double losses[OD_NAMED_MAX]; /* sums over batches */
  uint64_t pictures, batches;
  od_str summary;
  float *absolute; /* boxes in pixels */
  size_t absolute_cap;
} pass;

static od_status open_input(pass *p, od_eval_job *j) {
  od_input_options in = {.reader = j->o.reader, .labels = j->labels, .resizer = *od_detector_resizer(j->detector),
                         .num_classes = (int)od_model_num_classes(j->o.pipeline->config->model),
                         .batch_size = j->config->batch_size ? (int)j->config->batch_size : 1, .partial_batch = true, .keep_original = true,
                         .shuffle = 0, .epochs = 1, .sample_1_of_n = j->o.sample_1_of_n, .on_bad = j->o.on_bad, .reporter = j->o.reporter};
  return od_input_open(&p->input, &in);
}

/* Boxes of the padded network input, or of the true picture, in pixels of the original. */
static const float *to_pixels(pass *p, const float *boxes, int n, double y, double x) {
  if (od_grow(&p->absolute, &p->absolute_cap, (size_t)n * 4 + 4, sizeof *p->absolute) != OD_OK) return NULL;
  for (int i = 0; i < n; i++) {
    p->absolute[4 * i] = (float)((double)boxes[4 * i] * y);
    p->absolute[4 * i + 1] = (float)((double)boxes[4 * i + 1] * x);
    p->absolute[4 * i + 2] = (float)((double)boxes[4 * i + 2] * y);
    p->absolute[4 * i + 3] = (float)((double)boxes[4 * i + 3] * x);
  }
  return p->absolute;
}

static od_status add_picture(pass *p, const od_picture *s, const od_detections *d, int input_height, int input_width) {
  const od_truth *t = &s->truth;
  char key[64];
  snprintf(key, sizeof key, "%s", s->source_id);
  if (!key[0]) snprintf(key, sizeof key, "ticket-%llu", (unsigned long long)s->ticket); /* the original draws a random number */
  const char *id = strlen(s->source_id) < sizeof key ? key : s->source_id;
  double frame_y = (double)input_height / s->true_height * s->original_height, frame_x = (double)input_width / s->true_width * s->original_width;
  od_eval_groundtruth gt = {.n = (size_t)t->count, .classes = t->classes, .difficult = t->difficult, .group_of = t->group_of, .is_crowd = t->crowd,
                            .area = t->area, .image_classes = s->image_classes, .n_image_classes = (size_t)s->image_class_count};
  gt.boxes = to_pixels(p, t->boxes, t->count, frame_y, frame_x);
  if (!gt.boxes) return OD_ENOMEM;
  OD_TRY(od_eval_add_groundtruth(p->evaluator, id, &gt));
  od_eval_detections found = {.n = (size_t)d->n, .scores = d->scores, .classes = d->classes};
  found.boxes = to_pixels(p, d->boxes, d->n, s->original_height, s->original_width);
  return found.boxes ? od_eval_add_detections(p->evaluator, id, &found) : OD_ENOMEM;
}

/* Has plans made for batches that wait with pictures of another size. */
static void look_ahead(pass *p, od_eval_job *j, const od_detector_batch *now) {
  enum { FEW = 4 };
  od_input_shape next[FEW];
  const int n = od_input_upcoming(p->input, next, FEW);
  for (int i = 0; i < n; i++)
    if (next[i].height != now->images.shape.dim[1] || next[i].width != now->images.shape.dim[2])
      od_detector_expect(j->detector, now, next[i].height, next[i].width);
}

static od_status evaluate_batch(pass *p, od_eval_job *j) {
  od_batch *b = &p->batch;
  od_detections *found;
  float losses[OD_NAMED_MAX];
  OD_TRY(od_new(&found, (size_t)b->count, sizeof *found));
  od_detector_batch in = {b->images, b->true_shapes, b->boxes, b->class_targets, b->weights, b->num_boxes};
  look_ahead(p, j, &in);
  od_status st = od_detector_run(j->detector, &in, found, losses);
  for (int i = 0; i < od_detector_loss_names(j->detector)->n && st == OD_OK; i++) p->losses[i] += (double)losses[i];
  for (int i = 0; i < b->count && st == OD_OK; i++) {
    st = add_picture(p, &b->samples[i], &found[i], (int)b->images.shape.dim[1], (int)b->images.shape.dim[2]);
    if (st == OD_OK)
      st = od_eval_pictures_add(j->pictures, &p->summary, &b->samples[i], &found[i], (int)b->images.shape.dim[1], (int)b->images.shape.dim[2]);
    p->pictures++;
  }
  p->batches++;
  od_free(found);
  return st;
}

static od_status walk(pass *p, od_eval_job *j) {
  od_progress progress;
  od_progress_start(&progress, j->o.reporter, "evaluating", 0, od_input_count(p->input));
  for (;;) {
    od_status st = od_stop_check();
    if (st == OD_OK) st = od_input_next(p->input, &p->batch);
    if (st == OD_END) break;
    OD_TRY(st);
    OD_TRY(evaluate_batch(p, j));
    od_progress_step(&progress, p->pictures);
  }
  od_progress_end(&progress);
  if (p->pictures == 0) return od_fail(OD_EDATA, "the evaluation records hold no usable picture");
  return od_eval_finish(p->evaluator);
}

/* What the original's estimator says besides: the sum of all losses under both its names, the learning rate of the step. */
static void add_estimator_figures(od_eval_job *j, const pass *p, int64_t step) {
  const od_named_list *names = od_detector_loss_names(j->detector);
  double total = 0;
  for (int i = 0; i < names->n; i++) total += p->losses[i] / (double)p->batches;
  j->metrics[j->n_metrics++] = (od_metric){"Loss/total_loss", total};
  if (OD_SET(j->o.pipeline->config->train_config, TrainConfig)->optimizer)
    j->metrics[j->n_metrics++] = (od_metric){"learning_rate", (double)od_schedule_rate(&j->schedule, step)};
  j->metrics[j->n_metrics++] = (od_metric){"loss", total};
}

/* Metrics and mean losses with their tags, kept until the next run. */
static od_status collect(od_eval_job *j, const pass *p, int64_t step) {
  const od_named_list *names = od_detector_loss_names(j->detector);
  size_t n = od_eval_metric_count(p->evaluator);
  od_arena_reset(j->tags);
  od_free(j->metrics);
  OD_TRY(od_new(&j->metrics, n + (size_t)names->n + 4, sizeof *j->metrics));
  j->n_metrics = 0;
  for (size_t i = 0; i < n; i++) {
    const od_metric *m = &od_eval_metrics(p->evaluator)[i];
    const char *tag = od_arena_strdup(j->tags, m->tag);
    if (!tag) return OD_ENOMEM;
    j->metrics[j->n_metrics++] = (od_metric){tag, m->value};
  }
  for (int i = 0; i < names->n; i++) {
    const char *tag = od_arena_printf(j->tags, j->o.style == OD_EVAL_LEGACY ? "Losses/%s" : "%s", names->item[i].name);
    if (!tag) return OD_ENOMEM;
    j->metrics[j->n_metrics++] = (od_metric){tag, p->losses[i] / (double)p->batches};
  }
  if (j->o.style == OD_EVAL_MODEL_MAIN) add_estimator_figures(j, p, step);
  return OD_OK;
}

static od_status publish(od_eval_job *j, pass *p, const char *checkpoint, int64_t step) {
  for (size_t i = 0; i < j->n_metrics; i++)
    if (!isnan(j->metrics[i].value)) od_summary_add_scalar(&p->summary, j->metrics[i].tag, j->metrics[i].value);
  if (j->o.style == OD_EVAL_MODEL_MAIN) od_summary_add_text(&p->summary, "checkpoint_path", checkpoint);
  OD_TRY(od_str_check(&p->summary));
  if (!j->events) OD_TRY(od_event_writer_open(&j->events, j->o.eval_dir, NULL, 0));
  OD_TRY(od_event_write_summary(j->events, step, 0, &p->summary));
  OD_TRY(od_eval_write_json(j->o.eval_dir, step, j->metrics, j->n_metrics));
  od_str table = OD_STR_INIT;
  od_status st = od_eval_table(&table, j->metrics, j->n_metrics);
  if (st == OD_OK) od_info(j->o.reporter, "step %lld, %llu pictures\n%s", (long long)step, (unsigned long long)p->pictures, od_str_text(&table));
  od_str_free(&table);
  return st;
}

od_status od_eval_job_run(od_eval_job *j, const char *checkpoint, int64_t *step) {
  pass *p;
  od_status st;
  double start = od_now();
  OD_TRY(od_new(&p, 1, sizeof *p));
  OD_GO(st, od_detector_restore(j->detector, checkpoint));
  int64_t at = od_detector_step(j->detector) < 0 ? 0 : od_detector_step(j->detector);
  if (step) *step = at;
  OD_GO(st, make_evaluator(&p->evaluator, j));
  OD_GO(st, open_input(p, j));
  od_eval_pictures_begin(j->pictures);
  OD_GO(st, walk(p, j));
  OD_GO(st, collect(j, p, at));
  OD_GO(st, od_eval_pictures_charts(j->pictures, &p->summary, p->evaluator));
  st = publish(j, p, checkpoint, at);
  if (p->pictures) j->seconds_per_picture = (od_now() - start) / (double)p->pictures;
done:
  od_input_free(p->input);
  od_batch_free(&p->batch);
  od_eval_free(p->evaluator);
  od_str_free(&p->summary);
  od_free(p->absolute);
  od_free(p);
  return st;
}

const od_metric *od_eval_job_metrics(const od_eval_job *j, size_t *n) {
  *n = j->n_metrics;
  return j->metrics;
}

double od_eval_job_seconds_per_picture(const od_eval_job *j) { return j->seconds_per_picture; }
