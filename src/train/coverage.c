/* Anchors are asked of the model's own graph, once for each size of the network's input; boxes are read without decoding
 * pictures. See coverage.h. */
#include "train/coverage.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "data/example_decoder.h"
#include "data/records.h"
#include "engine/program.h"
#include "image/resizer.h"
#include "ops/box/similarity.h"

typedef struct {
  od_graph *graph;
  od_state *state;
  od_engine *engine;
  od_program *program;
  od_resizer resizer;
  od_map *by_size; /* "HxW" to od_tensor of anchors [A,4] */
  od_coverage *out;
  od_example example;
  od_str payload;
} meter;

/* False: the config's matcher has no threshold to fall short of. */
static bool read_threshold(od_coverage *out, const od_pb_model *m) {
  if (m->model_case != OBJECT_DETECTION__PROTOS__DETECTION_MODEL__MODEL_SSD || !m->ssd->matcher) return false;
  if (m->ssd->matcher->matcher_oneof_case != OBJECT_DETECTION__PROTOS__MATCHER__MATCHER_ONEOF_ARGMAX_MATCHER)
    return false;
  const ObjectDetection__Protos__RegionSimilarityCalculator *s = m->ssd->similarity_calculator;
  if (!s || s->region_similarity_case !=
                OBJECT_DETECTION__PROTOS__REGION_SIMILARITY_CALCULATOR__REGION_SIMILARITY_IOU_SIMILARITY)
    return false;
  const ObjectDetection__Protos__ArgMaxMatcher *a = m->ssd->matcher->argmax_matcher;
  out->threshold = a->matched_threshold;
  out->forced = a->force_match_for_each_row;
  return !a->ignore_thresholds;
}

static od_status build(meter *t, const od_pb_model *config) {
  od_model model;
  const od_engine_options engine = {0};
  OD_TRY(od_graph_new(&t->graph));
  od_model_spec spec = {.images = od_input(t->graph, "images", OD_F32, OD_SHAPE(-1, -1, -1, 3)),
                        .true_shapes = od_input(t->graph, "shapes", OD_I32, OD_SHAPE(-1, 3))};
  OD_TRY(od_model_build(&model, t->graph, config, &spec));
  OD_TRY(od_state_new(&t->state, t->graph)); /* of zeroes: anchors depend on sizes alone */
  OD_TRY(od_engine_new(&t->engine, &engine));
  const od_value feeds[2] = {spec.images, spec.true_shapes};
  od_program_spec p = {
      .graph = t->graph, .state = t->state, .feeds = feeds, .n_feeds = 2, .fetches = &model.anchors, .n_fetches = 1};
  OD_TRY(od_program_new(&t->program, t->engine, &p));
  return od_map_new(&t->by_size);
}

static od_status anchors_for(const od_tensor **out, meter *t, int height, int width) {
  char key[48];
  snprintf(key, sizeof key, "%dx%d", height, width);
  *out = od_map_get(t->by_size, key);
  if (*out) return OD_OK;
  od_tensor images = {0}, fetched, *copy = NULL;
  od_shape shape = OD_SHAPE(1, height, width, 3);
  int32_t true_shape[3] = {height, width, 3};
  od_status st;
  OD_GO(st, od_tensor_new(&images, OD_F32, &shape));
  memset(images.data, 0, od_tensor_bytes(&images));
  const od_tensor feeds[2] = {images, {OD_I32, OD_SHAPE(1, 3), true_shape}};
  OD_GO(st, od_program_run(t->program, feeds, &fetched));
  OD_GO(st, od_new(&copy, 1, sizeof *copy));
  OD_GO(st, od_tensor_copy(copy, &fetched));
  OD_GO(st, od_map_set(t->by_size, key, copy));
  *out = copy;
  copy = NULL;
done:
  if (copy) od_tensor_free(copy);
  od_free(copy);
  od_tensor_free(&images);
  return st;
}

static void keep_example(od_coverage *c, const char *origin, const char *source, int box, const float *b, float best) {
  int at = c->examples < OD_COVERAGE_EXAMPLES ? c->examples++ : OD_COVERAGE_EXAMPLES - 1;
  if (at == OD_COVERAGE_EXAMPLES - 1 && c->example[at].origin[0] && !(best < c->example[at].best)) return;
  while (at > 0 && best < c->example[at - 1].best) {
    c->example[at] = c->example[at - 1];
    at--;
  }
  od_uncovered *e = &c->example[at];
  snprintf(e->origin, sizeof e->origin, "%s%s%s%s, box %d", origin, *source ? " (" : "", source, *source ? ")" : "",
           box);
  memcpy(e->box, b, sizeof e->box);
  e->best = best;
}

/* One picture's boxes; those without area or class are for the other checks. */
static od_status measure_picture(meter *t, const od_picture *s, const char *origin) {
  od_resizer_size size;
  const od_tensor *anchors;
  OD_TRY(od_resizer_target(&size, &t->resizer, s->original_height, s->original_width));
  OD_TRY(anchors_for(&anchors, t, size.out_height, size.out_width));
  float y = (float)size.height / (float)size.out_height, x = (float)size.width / (float)size.out_width;
  for (int i = 0; i < s->truth.count; i++) {
    const float *b = s->truth.boxes + 4 * i;
    float framed[4] = {b[0] * y, b[1] * x, b[2] * y, b[3] * x}, best = 0;
    if (s->truth.classes[i] < 0 || !(b[2] > b[0] && b[3] > b[1])) continue;
    for (int64_t k = 0; k < anchors->shape.dim[0]; k++) {
      float iou = od_box_iou(framed, (const float *)anchors->data + 4 * k);
      if (iou > best) best = iou;
    }
    t->out->boxes++;
    t->out->histogram[best >= 1 ? 9 : (int)(best * 10)]++;
    if (best >= t->out->threshold) continue;
    t->out->below++;
    keep_example(t->out, origin, s->source_id ? s->source_id : "", i, b, best);
  }
  return OD_OK;
}

static od_status measure_record(meter *t, od_records *records, uint64_t ticket, const od_decode_options *decode) {
  od_record_place place;
  od_picture s = {0};
  char origin[400];
  od_status st = od_records_sequential(records) ? od_records_next(records, ticket, &place, &t->payload)
                                                : od_records_place(&place, records, ticket);
  if (st == OD_OK && !od_records_sequential(records)) st = od_records_read(records, &place, &t->payload);
  if (st == OD_OK) st = od_example_decode(&s, &t->example, t->payload.data, t->payload.len, decode);
  if (st == OD_OK) {
    snprintf(origin, sizeof origin, "%s: record %llu", od_records_path(records, place.file),
             (unsigned long long)place.number);
    st = measure_picture(t, &s, origin);
  } else if (st == OD_EDATA) {
    st = OD_OK; /* named by the check of records */
  }
  od_picture_free(&s);
  return st;
}

static void free_meter(meter *t) {
  for (size_t i = 0; t->by_size && i < od_map_size(t->by_size); i++) {
    od_tensor *anchors = od_map_value(t->by_size, i);
    od_tensor_free(anchors);
    od_free(anchors);
  }
  od_map_free(t->by_size);
  od_program_free(t->program);
  od_engine_free(t->engine);
  od_state_free(t->state);
  od_graph_free(t->graph);
  od_example_free(&t->example);
  od_str_free(&t->payload);
}

od_status od_coverage_measure(od_coverage *out, const od_pb_model *model, const char *const *patterns, size_t n,
                              const od_label_map *labels, const od_reporter *r) {
  meter t = {.out = out};
  od_records *records = NULL;
  od_progress progress;
  const od_decode_options decode = {.labels = labels, .header_only = true};
  const od_records_options options = {0};
  od_status st;
  *out = (od_coverage){0};
  if (!read_threshold(out, model)) return OD_OK;
  OD_GO(st, od_resizer_from_config(&t.resizer, od_model_resizer(model)));
  OD_GO(st, build(&t, model));
  OD_GO(st, od_records_open(&records, patterns, n, &options));
  od_progress_start(&progress, r, "boxes against anchors, records", 0, od_records_count(records));
  for (uint64_t i = 0; i < od_records_count(records); i++) {
    OD_GO(st, od_stop_check());
    OD_GO(st, measure_record(&t, records, i, &decode));
    od_progress_step(&progress, i + 1);
  }
  od_progress_end(&progress);
done:
  od_records_free(records);
  free_meter(&t);
  return st;
}
