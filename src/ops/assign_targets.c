/* assign_targets: what each anchor is to learn, from a match (the original's TargetAssigner). An anchor with a match takes
 * its box's class targets, weight and code; one without the `unmatched` class targets, weight negative_class_weight and
 * zeros; an ignored one the same targets with weight 0. Constants of the losses: nothing flows back. */
#include <string.h>

#include "ops/common.h"
#include "ops/detect.h"
#include "ops/detect_shape.h"
#include "ops/table.h"

static const char *const kinds[] = {"faster_rcnn", "square", "mean_stddev", "keypoint", NULL};
static const od_param params[] = {
    OD_PARAM_ENUM(od_assign_params, coder.kind, "box coder", kinds),
    OD_PARAM(od_assign_params, coder.y, OD_P_FLOAT, "box coder: scale of y; mean_stddev: the deviation"),
    OD_PARAM(od_assign_params, coder.x, OD_P_FLOAT, "box coder: scale of x"),
    OD_PARAM(od_assign_params, coder.height, OD_P_FLOAT, "box coder: scale of the height; square: of the side"),
    OD_PARAM(od_assign_params, coder.width, OD_P_FLOAT, "box coder: scale of the width"),
    OD_PARAM_IN(od_assign_params, coder.keypoints, OD_P_INT, "keypoint coder: points a box", 0, 1000),
    OD_PARAM(od_assign_params, unmatched, OD_P_FLOATS, "class targets of anchors without a match"),
    OD_PARAM(od_assign_params, negative_class_weight, OD_P_FLOAT, "class weight of anchors without a match"),
    {0}};

enum { MATCH, ANCHORS, BOXES, CLASSES, WEIGHTS, KEYPOINTS };
enum { CLASS_TARGETS, CLASS_WEIGHTS, BOX_TARGETS, BOX_WEIGHTS };

od_value od_assign_targets_op(od_graph *g, od_value match, od_value anchors, od_value gt_boxes, od_value gt_classes,
                              od_value gt_weights, od_value gt_keypoints, const od_assign_params *p) {
  return od_graph_add(g, &od_op_assign_targets,
                      (od_value[]){match, anchors, gt_boxes, gt_classes, gt_weights, gt_keypoints}, 6, p);
}

static od_status infer(const od_infer *c) {
  const od_assign_params *p = c->params;
  od_letters d;
  od_letters_clear(&d);
  od_letters_set(&d, 'D', p->unmatched.n);
  od_letters_set(&d, 'C', od_coder_size(&p->coder));
  od_letters_set(&d, 'P', 2 * p->coder.keypoints);
  OD_TRY(od_letters_in(&d, c, MATCH, "match", OD_I32, "BA"));
  OD_TRY(od_letters_in2(&d, c, ANCHORS, "anchors", OD_F32, "A4", "BA4"));
  OD_TRY(od_letters_in(&d, c, BOXES, "groundtruth boxes", OD_F32, "BG4"));
  OD_TRY(od_letters_in(&d, c, CLASSES, "groundtruth classes", OD_F32, "BGD"));
  OD_TRY(od_letters_in(&d, c, WEIGHTS, "groundtruth weights", OD_F32, "BG"));
  if (p->coder.kind == OD_CODER_KEYPOINT) {
    if (!c->present[KEYPOINTS]) return od_fail(OD_EINVAL, "the keypoint box coder needs groundtruth keypoints");
    OD_TRY(od_letters_in(&d, c, KEYPOINTS, "groundtruth keypoints", OD_F32, "BGP"));
  }
  od_letters_out(&d, c, CLASS_TARGETS, OD_F32, "BAD");
  od_letters_out(&d, c, CLASS_WEIGHTS, OD_F32, "BAD");
  od_letters_out(&d, c, BOX_TARGETS, OD_F32, "BAC");
  od_letters_out(&d, c, BOX_WEIGHTS, OD_F32, "BA");
  return OD_OK;
}

/* Groundtruth and anchors of one image, and where its targets go. */
typedef struct {
  const float *anchors, *boxes, *classes, *weights, *points;
  float *class_targets, *class_weights, *box_targets, *box_weights;
  int64_t a, n_classes, n_points, code; /* anchors; numbers of an anchor's class targets, points, code */
} image;

static void assign(const image *m, const od_assign_params *p, const od_box_coder *coder, const int32_t *match) {
  for (int64_t i = 0; i < m->a; i++) {
    int32_t row = match[i];
    bool found = row >= 0;
    float weight = found ? m->weights[row] : 0, class_weight = row == OD_UNMATCHED ? p->negative_class_weight : weight;
    const float *target = found ? m->classes + row * m->n_classes : p->unmatched.v;
    m->box_weights[i] = weight;
    for (int64_t k = 0; k < m->n_classes; k++) {
      m->class_targets[i * m->n_classes + k] = target[k];
      m->class_weights[i * m->n_classes + k] = class_weight;
    }
    float *code = m->box_targets + i * m->code;
    if (found)
      od_box_encode(code, coder, m->boxes + 4 * row, m->points ? m->points + row * m->n_points : NULL,
                    m->anchors + 4 * i, 1);
    else
      memset(code, 0, (size_t)m->code * sizeof *code);
  }
}

static od_status ref(const od_call *c) {
  const od_assign_params *p = c->params;
  od_box_coder coder = od_coder_of(&p->coder);
  int64_t b = c->in[MATCH].shape.dim[0], a = c->in[MATCH].shape.dim[1], g = c->in[BOXES].shape.dim[1];
  int64_t d = p->unmatched.n, code = od_coder_size(&p->coder), points = 2 * p->coder.keypoints;
  const float *anchors = c->in[ANCHORS].data, *boxes = c->in[BOXES].data, *classes = c->in[CLASSES].data;
  const float *weights = c->in[WEIGHTS].data,
              *keypoints = p->coder.kind == OD_CODER_KEYPOINT ? c->in[KEYPOINTS].data : NULL;
  const int32_t *match = c->in[MATCH].data;
  bool own = c->in[ANCHORS].shape.rank == 3;
  for (int64_t i = 0; i < b; i++) {
    for (int64_t k = 0; k < a; k++)
      if (match[i * a + k] >= g)
        return od_fail(OD_EINVAL, "anchor %lld of image %lld is matched with box %d of %lld", (long long)k,
                       (long long)i, (int)match[i * a + k], (long long)g);
    image m = {anchors + (own ? i * a * 4 : 0),
               boxes + i * g * 4,
               classes + i * g * d,
               weights + i * g,
               keypoints ? keypoints + i * g * points : NULL,
               (float *)c->out[CLASS_TARGETS].data + i * a * d,
               (float *)c->out[CLASS_WEIGHTS].data + i * a * d,
               (float *)c->out[BOX_TARGETS].data + i * a * code,
               (float *)c->out[BOX_WEIGHTS].data + i * a,
               a,
               d,
               points,
               code};
    assign(&m, p, &coder, match + i * a);
  }
  return OD_OK;
}

#define UNIT(...) OD_F32_IN(0, 1, __VA_ARGS__)
#define CODER(k)                                                                                                       \
  { .kind = k, .y = 10, .x = 10, .height = 5, .width = 5 }
/* the deviation coder: random boxes have corners out of order, whose logarithms the others would take */
static const od_sample samples[] = {
    {.name = "background first",
     .n_in = 6,
     .params = &(const od_assign_params){CODER(OD_CODER_MEAN_STDDEV), {4, (const float[]){1, 0, 0, 0}}, 1},
     .in = {OD_I32_IN(-2, 4, 3, 20), UNIT(20, 4), UNIT(3, 5, 4), UNIT(3, 5, 4), UNIT(3, 5), OD_ABSENT_IN}},
    {.name = "own anchors, negative weight",
     .n_in = 6,
     .params = &(const od_assign_params){CODER(OD_CODER_MEAN_STDDEV), {2, (const float[]){0, 0}}, 0.25f},
     .in = {OD_I32_IN(-2, 1, 2, 9), UNIT(2, 9, 4), UNIT(2, 2, 4), UNIT(2, 2, 2), UNIT(2, 2), OD_ABSENT_IN}},
};

const od_op od_op_assign_targets = {
    .name = "assign_targets",
    .help = "class and box targets of anchors, and their weights",
    .params = params,
    .params_size = sizeof(od_assign_params),
    .min_in = 6,
    .max_in = 6,
    .optional_in = 1u << KEYPOINTS,
    .n_out = 4,
    .infer = infer,
    .ref = ref,
    .grad = od_grad_nothing,
    .no_tf = OD_NO_TF_TRAINING,
    OD_SAMPLES(samples),
    .tolerance = 1e-5,
};
