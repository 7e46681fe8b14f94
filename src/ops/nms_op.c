/* nms: from boxes and scores of a batch to detections, the original's batch_multiclass_non_max_suppression
 * (ops/box/nms.h; odapi 5.4). The TensorFlow form stands in nms_tf.c. */
#include <string.h>

#include "ops/box/nms.h"
#include "ops/detect.h"
#include "ops/detect_shape.h"
#include "ops/nms_tf.h"
#include "ops/table.h"

static const od_param params[] = {
    OD_PARAM(od_nms_params, score_threshold, OD_P_FLOAT, "scores count above this"),
    OD_PARAM_IN(od_nms_params, iou_threshold, OD_P_FLOAT, "boxes that overlap a better one by more go", 0, 1),
    OD_PARAM_IN(od_nms_params, max_per_class, OD_P_INT, "detections of a class", 0, 1e6),
    OD_PARAM_IN(od_nms_params, max_total, OD_P_INT, "detections of an image, and rows of the result", 1, 1e6),
    OD_PARAM(od_nms_params, change_coordinate_frame, OD_P_BOOL, "boxes relative to the clip window"),
    OD_PARAM(od_nms_params, class_agnostic, OD_P_BOOL, "one suppression over the best class of each box"),
    OD_PARAM_IN(od_nms_params, soft_nms_sigma, OD_P_FLOAT, "0: hard suppression", 0, 1e6),
    OD_PARAM(od_nms_params, static_shapes, OD_P_BOOL, "the original's form for TPUs, whose padding is not zero"),
    {0}};

enum { BOXES, SCORES, WINDOW, COUNT, EXTRA };

od_value od_nms_op(od_graph *g, od_value boxes, od_value scores, od_value window, od_value num_valid, od_value extra,
                   const od_nms_params *p) {
  return od_graph_add(g, &od_op_nms, (od_value[]){boxes, scores, window, num_valid, extra}, 5, p);
}

static od_status infer(const od_infer *c) {
  const od_nms_params *p = c->params;
  od_letters d;
  od_letters_clear(&d);
  od_letters_set(&d, 'M', p->max_total);
  OD_TRY(od_letters_in(&d, c, SCORES, "scores", OD_F32, "BAK"));
  OD_TRY(od_letters_in(&d, c, BOXES, "boxes", OD_F32, "BAQ4"));
  OD_TRY(od_letters_in2(&d, c, WINDOW, "clip window", OD_F32, "4", "B4"));
  OD_TRY(od_letters_in(&d, c, COUNT, "valid boxes", OD_I32, "B"));
  OD_TRY(od_letters_in(&d, c, EXTRA, "extra", OD_F32, "BAE"));
  int64_t q = od_letters_get(&d, 'Q'), k = od_letters_get(&d, 'K');
  if (q >= 0 && k >= 0 && q != 1 && q != k)
    return od_fail(OD_EINVAL, "%lld boxes an anchor for %lld classes; 1 or one a class expected", (long long)q,
                   (long long)k);
  if (p->change_coordinate_frame && !c->present[WINDOW])
    return od_fail(OD_EINVAL, "change_coordinate_frame needs a clip window");
  if (p->static_shapes && p->soft_nms_sigma != 0)
    return od_fail(OD_EUNSUPPORTED,
                   "soft_nms_sigma does not go together with use_static_shapes, in the original neither");
  if (!c->present[EXTRA]) od_letters_set(&d, 'E', 0);
  static const char *const shapes[] = {"BM4", "BM", "BM", "B", "BM", "BME"};
  for (int o = 0; o < 6; o++) od_letters_out(&d, c, o, OD_F32, shapes[o]);
  return OD_OK;
}

static od_nms_options options_of(const od_nms_params *p) {
  return (od_nms_options){p->score_threshold, p->iou_threshold,  p->max_per_class,           p->max_total,
                          p->soft_nms_sigma,  p->class_agnostic, p->change_coordinate_frame, p->static_shapes};
}

/* Integers of the plain function: index [B,M], count [B]; windows [B,4]; and its own work. */
static size_t bytes_of(const od_nms_params *p, const od_shape *scores) {
  const od_nms_options o = options_of(p);
  return od_work_bytes(scores->dim[0], ((size_t)o.max_total + 5) * 4) + od_nms_image_work(&o, scores->dim[1], scores->dim[2]);
}
static size_t scratch(const od_infer *c) { return bytes_of(c->params, &c->in[SCORES].shape); }

/* One window for all images becomes one each. */
static const float *windows(float *room, const od_tensor *w, int64_t b) {
  if (!w->data || w->shape.rank == 2) return w->data;
  for (int64_t i = 0; i < b; i++) memcpy(room + 4 * i, w->data, 4 * sizeof *room);
  return room;
}

static od_status ref(const od_call *c) {
  const od_nms_params *p = c->params;
  const od_nms_options o = options_of(p);
  int64_t b = c->in[SCORES].shape.dim[0], a = c->in[SCORES].shape.dim[1], m = p->max_total, e = c->out[5].shape.dim[2];
  od_work work = {c->scratch, bytes_of(p, &c->in[SCORES].shape)};
  int32_t *index = od_work_take(&work, b, ((size_t)m + 5) * 4), *count = index + b * m;
  const float *window = windows((float *)(void *)(count + b), &c->in[WINDOW], b), *extra = c->in[EXTRA].data;
  float *num = c->out[3].data, *where = c->out[4].data, *along = c->out[5].data;
  OD_TRY(od_nms_batch(c->out[0].data, c->out[1].data, c->out[2].data, index, count, &o, c->in[BOXES].data,
                      c->in[BOXES].shape.dim[2], c->in[SCORES].data, b, a, c->in[SCORES].shape.dim[2], window,
                      c->in[COUNT].data, work));
  for (int64_t i = 0; i < b; i++) {
    num[i] = (float)count[i];
    for (int64_t k = 0; k < m; k++) {
      where[i * m + k] = (float)index[i * m + k];
      float *row = along + (i * m + k) * e;
      bool filled = k < count[i] || (p->static_shapes && a > 0);
      if (!e) continue;
      if (filled)
        memcpy(row, extra + (i * a + index[i * m + k]) * e, (size_t)e * sizeof *row);
      else
        memset(row, 0, (size_t)e * sizeof *row);
    }
  }
  return OD_OK;
}

#define UNIT(...) OD_F32_IN(0, 1, __VA_ARGS__)
static const od_sample samples[] = {
    /* random windows are rarely in order and leave little */
    {.name = "shared boxes, windows, frame",
     .n_in = 5,
     .few = true,
     .params = &(const od_nms_params){0.3f, 0.4f, 6, 10, true, false, 0, false},
     .in = {OD_F32_IN(-0.1, 1.1, 2, 40, 1, 4), UNIT(2, 40, 3), OD_F32_IN(0.05, 0.95, 2, 4), OD_I32_IN(30, 40, 2),
            UNIT(2, 40, 4)}},
    {.name = "shared boxes, some valid",
     .n_in = 5,
     .params = &(const od_nms_params){0.3f, 0.4f, 6, 10, false, false, 0, false},
     .in = {OD_F32_IN(-0.1, 1.1, 2, 40, 1, 4), UNIT(2, 40, 3), OD_ABSENT_IN, OD_I32_IN(30, 40, 2), UNIT(2, 40, 4)}},
    {.name = "boxes of each class",
     .n_in = 5,
     .params = &(const od_nms_params){0.3f, 0.4f, 6, 10, false, false, 0, false},
     .in = {OD_F32_IN(-0.1, 1.1, 2, 20, 3, 4), UNIT(2, 20, 3), OD_ABSENT_IN, OD_ABSENT_IN, OD_ABSENT_IN}},
    {.name = "class-agnostic",
     .n_in = 5,
     .params = &(const od_nms_params){0.3f, 0.4f, 6, 10, false, true, 0, false},
     .in = {OD_F32_IN(-0.1, 1.1, 2, 20, 1, 4), UNIT(2, 20, 3), OD_ABSENT_IN, OD_ABSENT_IN, UNIT(2, 20, 2)}},
    {.name = "soft",
     .n_in = 5,
     .params = &(const od_nms_params){0.1f, 1, 6, 10, false, false, 0.5f, false},
     .in = {OD_F32_IN(-0.1, 1.1, 2, 20, 1, 4), UNIT(2, 20, 2), OD_ABSENT_IN, OD_ABSENT_IN, OD_ABSENT_IN}},
};

const od_op od_op_nms = {
    .name = "nms",
    .help = "detections of a batch: boxes, scores, classes, count, box index, extra",
    .params = params,
    .params_size = sizeof(od_nms_params),
    .min_in = 5,
    .max_in = 5,
    .optional_in = 1u << WINDOW | 1u << COUNT | 1u << EXTRA,
    .n_out = 6,
    .infer = infer,
    .ref = ref,
    .scratch = scratch,
    .no_grad = "detections are not trained through",
    .write_tf = od_nms_write_tf,
    OD_SAMPLES(samples),
    .tolerance = 1e-6,
};
