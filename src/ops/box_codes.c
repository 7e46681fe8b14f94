/* decode_boxes and encode_boxes: between boxes and their codes relative to anchors, for the four box coders
 * (ops/box/coder.h). Codes are what the losses compare, so neither passes a gradient on. */
#include "ops/detect.h"
#include "ops/detect_tf.h"
#include "ops/table.h"

static const char *const kinds[] = {"faster_rcnn", "square", "mean_stddev", "keypoint", NULL};
static const od_param params[] = {
    OD_PARAM_ENUM(od_coder_params, kind, "which coder", kinds),
    OD_PARAM(od_coder_params, y, OD_P_FLOAT, "scale of the centre's y; mean_stddev: the deviation"),
    OD_PARAM(od_coder_params, x, OD_P_FLOAT, "scale of the centre's x"),
    OD_PARAM(od_coder_params, height, OD_P_FLOAT, "scale of the height; square: of the side"),
    OD_PARAM(od_coder_params, width, OD_P_FLOAT, "scale of the width"),
    OD_PARAM_IN(od_coder_params, keypoints, OD_P_INT, "keypoint coder: points a box", 0, 1000),
    OD_PARAM(od_coder_params, per_class, OD_P_BOOL, "codes have an axis of classes before the last"),
    {0}};

od_value od_decode_boxes(od_graph *g, od_value codes, od_value anchors, const od_coder_params *p) {
  return od_graph_add(g, &od_op_decode_boxes, (od_value[]){codes, anchors}, 2, p);
}

od_value od_encode_boxes(od_graph *g, od_value boxes, od_value anchors, od_value keypoints, const od_coder_params *p) {
  return od_graph_add(g, &od_op_encode_boxes, (od_value[]){boxes, anchors, keypoints}, 3, p);
}

int64_t od_coder_size(const od_coder_params *p) {
  if (p->kind == OD_CODER_KEYPOINT) return 4 + 2 * p->keypoints;
  return p->kind == OD_CODER_SQUARE ? 3 : 4;
}

od_box_coder od_coder_of(const od_coder_params *p) {
  return (od_box_coder){(od_coder_kind)p->kind, {p->y, p->x, p->height, p->width}, p->y, (int)p->keypoints};
}

/* --------------------------------------------------------------------------------------------------------------- decode */
/* The anchors' leading dimensions are the codes' own, or only the one that counts anchors. */
static od_status fit_anchors(const od_infer *c, int lead) {
  const od_shape *a = &c->in[1].shape, *x = &c->in[0].shape;
  char one[OD_SHAPE_TEXT], two[OD_SHAPE_TEXT];
  bool fits =
      lead >= 1 && (a->rank == 2 || a->rank == lead + 1) && (a->dim[a->rank - 1] == 4 || a->dim[a->rank - 1] < 0);
  for (int k = 0; fits && k < a->rank - 1; k++) {
    int64_t p = a->dim[k], q = x->dim[lead - (a->rank - 1) + k];
    fits = p < 0 || q < 0 || p == q;
  }
  if (fits) return OD_OK;
  return od_fail(OD_EINVAL, "anchors %s do not fit %s", od_shape_text(one, a), od_shape_text(two, x));
}

static od_status decode_infer(const od_infer *c) {
  const od_coder_params *p = c->params;
  OD_TRY(od_want(c, 0, OD_F32, -1));
  OD_TRY(od_want(c, 1, OD_F32, -1));
  int rank = c->in[0].shape.rank;
  if (rank < 2 + p->per_class)
    return od_fail(OD_EINVAL, "codes of rank %d, expected at least %d", rank, 2 + p->per_class);
  OD_TRY(od_want_dim(c, 0, rank - 1, od_coder_size(p)));
  OD_TRY(fit_anchors(c, rank - 1 - p->per_class));
  c->out[0] = c->out[1] = c->in[0];
  c->out[0].shape.dim[rank - 1] = 4;
  c->out[1].shape.dim[rank - 1] = p->kind == OD_CODER_KEYPOINT ? 2 * p->keypoints : 0;
  return OD_OK;
}

static od_status decode_ref(const od_call *c) {
  const od_coder_params *p = c->params;
  od_box_coder coder = od_coder_of(p);
  const float *codes = c->in[0].data, *anchors = c->in[1].data;
  float *boxes = c->out[0].data, *points = p->kind == OD_CODER_KEYPOINT ? c->out[1].data : NULL;
  int64_t size = od_coder_size(p), n = od_tensor_size(&c->in[0]) / size, a = od_tensor_size(&c->in[1]) / 4;
  int64_t classes = p->per_class ? c->in[0].shape.dim[c->in[0].shape.rank - 2] : 1;
  if (n == 0) return OD_OK;
  if (classes == 1) {
    for (int64_t i = 0; i < n; i += a)
      od_box_decode(boxes + 4 * i, points ? points + 2 * p->keypoints * i : NULL, &coder, codes + size * i, anchors, a);
    return OD_OK;
  }
  for (int64_t i = 0; i < n; i++)
    od_box_decode(boxes + 4 * i, points ? points + 2 * p->keypoints * i : NULL, &coder, codes + size * i,
                  anchors + 4 * (i / classes % a), 1);
  return OD_OK;
}

/* Centre and size of the anchors' columns, in the order of operations of the original's box list. */
typedef struct {
  const char *center[2], *size[2];
} tf_centred;

static tf_centred centre_tf(od_tf *t, const char *anchors, int rank) {
  tf_centred a;
  const char *two = od_tf_const_f32(t, "two", 2);
  for (int k = 0; k < 2; k++) {
    const char *low = od_tf_column(t, "min", anchors, rank, k, OD_F32);
    a.size[k] = od_tf_two(t, "Sub", "size", od_tf_column(t, "max", anchors, rank, k + 2, OD_F32), low);
    a.center[k] = od_tf_two(t, "Add", "center", low, od_tf_two(t, "RealDiv", "half", a.size[k], two));
  }
  return a;
}

static const char *code_tf(od_tf *t, int rank, int k, float scale) {
  const char *x = od_tf_column(t, "code", od_tf_in(t, 0), rank, k, OD_F32);
  return scale == 1 ? x : od_tf_two(t, "RealDiv", "unscaled", x, od_tf_const_f32(t, "scale", scale));
}

static const char *decode_corners_tf(od_tf *t, const od_node *n, int rank, const tf_centred *a) {
  const od_coder_params *p = n->params;
  const float scale[4] = {p->y, p->x, p->height, p->width};
  const char *side[4], *two = od_tf_const_f32(t, "two", 2);
  bool square = p->kind == OD_CODER_SQUARE;
  const char *length = NULL, *own = NULL; /* of the square anchor, of the square box */
  if (square) {
    length = od_tf_op(t, "Sqrt", "length", OD_F32, OD_TF_INPUTS(od_tf_two(t, "Mul", "area", a->size[0], a->size[1])));
    own = od_tf_two(t, "Mul", "side", od_tf_op(t, "Exp", "grown", OD_F32, OD_TF_INPUTS(code_tf(t, rank, 2, scale[2]))),
                    length);
  }
  for (int k = 0; k < 2; k++) {
    const char *unit = square ? length : a->size[k], *size = own;
    const char *center =
        od_tf_two(t, "Add", "moved", od_tf_two(t, "Mul", "offset", code_tf(t, rank, k, scale[k]), unit), a->center[k]);
    if (!square)
      size = od_tf_two(t, "Mul", "sized",
                       od_tf_op(t, "Exp", "grown", OD_F32, OD_TF_INPUTS(code_tf(t, rank, 2 + k, scale[2 + k]))), unit);
    const char *half = od_tf_two(t, "RealDiv", "half", size, two);
    side[k] = od_tf_two(t, "Sub", "low", center, half);
    side[k + 2] = od_tf_two(t, "Add", "high", center, half);
  }
  return od_tf_concat(t, NULL, side, 4, rank - 1, OD_F32);
}

/* Anchors [.., A, 4] get an axis for the classes; all else broadcasts. */
static od_status decode_tf(od_tf *t, const od_node *n) {
  const od_coder_params *p = n->params;
  int rank = od_type_of(n->in[0]).shape.rank, arank = od_type_of(n->in[1]).shape.rank;
  const char *anchors = od_tf_in(t, 1);
  if (p->per_class) anchors = od_tf_expand(t, "anchors", anchors, arank++ - 1, OD_F32);
  if (p->kind == OD_CODER_MEAN_STDDEV) {
    const char *x = od_tf_two(t, "Mul", "scaled", od_tf_in(t, 0), od_tf_const_f32(t, "stddev", p->y));
    od_tf_out(t, 0, od_tf_two(t, "Add", NULL, x, anchors));
    return OD_OK;
  }
  tf_centred a = centre_tf(t, anchors, arank);
  od_tf_out(t, 0, decode_corners_tf(t, n, rank, &a));
  if (p->kind != OD_CODER_KEYPOINT) return OD_OK;
  enum { MOST = 1000 };
  const char *points[2 * MOST];
  for (int k = 0; k < 2 * (int)p->keypoints; k++) {
    const char *x = od_tf_two(t, "Mul", "offset", code_tf(t, rank, 4 + k, k & 1 ? p->x : p->y), a.size[k & 1]);
    points[k] = od_tf_two(t, "Add", "point", x, a.center[k & 1]);
  }
  od_tf_out(t, 1, od_tf_concat(t, "points", points, 2 * (int)p->keypoints, rank - 1, OD_F32));
  return OD_OK;
}

#define USUAL (&(const od_coder_params){.kind = OD_CODER_FASTER_RCNN, .y = 10, .x = 10, .height = 5, .width = 5})
#define PER_CLASS                                                                                                      \
  (&(const od_coder_params){.kind = OD_CODER_FASTER_RCNN, .y = 10, .x = 10, .height = 5, .width = 5, .per_class = true})
#define SQUARE (&(const od_coder_params){.kind = OD_CODER_SQUARE, .y = 10, .x = 10, .height = 5, .width = 1})
#define STDDEV (&(const od_coder_params){.kind = OD_CODER_MEAN_STDDEV, .y = 0.1f, .x = 1, .height = 1, .width = 1})
#define POINTS                                                                                                         \
  (&(const od_coder_params){.kind = OD_CODER_KEYPOINT, .y = 10, .x = 10, .height = 5, .width = 5, .keypoints = 2})
#define CODES(...)   OD_F32_IN(-1, 1, __VA_ARGS__)
#define ANCHORS(...) OD_F32_IN(0, 1, __VA_ARGS__)
static const od_sample decode_samples[] = {
    {.name = "anchors for a batch", .params = USUAL, .n_in = 2, .in = {CODES(3, 7, 4), ANCHORS(7, 4)}},
    {.name = "proposals", .params = USUAL, .n_in = 2, .in = {CODES(2, 5, 4), ANCHORS(2, 5, 4)}},
    {.name = "codes for each class", .params = PER_CLASS, .n_in = 2, .in = {CODES(5, 3, 4), ANCHORS(5, 4)}},
    {.name = "codes for each class, batch",
     .params = PER_CLASS,
     .n_in = 2,
     .in = {CODES(2, 5, 3, 4), ANCHORS(2, 5, 4)}},
    {.name = "mean and deviation", .params = STDDEV, .n_in = 2, .in = {CODES(3, 7, 4), ANCHORS(7, 4)}},
    {.name = "keypoints", .params = POINTS, .n_in = 2, .in = {CODES(3, 7, 8), ANCHORS(7, 4)}},
    {.name = "nothing", .params = USUAL, .n_in = 2, .in = {CODES(2, 0, 4), ANCHORS(0, 4)}, .few = true},
};

const od_op od_op_decode_boxes = {
    .name = "decode_boxes",
    .help = "boxes (and keypoints) of codes relative to anchors",
    .params = params,
    .params_size = sizeof(od_coder_params),
    .min_in = 2,
    .max_in = 2,
    .n_out = 2,
    .infer = decode_infer,
    .ref = decode_ref,
    .no_grad = "the losses work on codes",
    .write_tf = decode_tf,
    OD_SAMPLES(decode_samples),
    .tolerance = 1e-5,
};

/* --------------------------------------------------------------------------------------------------------------- encode */
static od_status encode_infer(const od_infer *c) {
  const od_coder_params *p = c->params;
  OD_TRY(od_want(c, 0, OD_F32, -1));
  OD_TRY(od_want(c, 1, OD_F32, -1));
  int rank = c->in[0].shape.rank;
  if (rank < 2) return od_fail(OD_EINVAL, "boxes of rank %d, expected at least 2", rank);
  OD_TRY(od_want_dim(c, 0, rank - 1, 4));
  OD_TRY(fit_anchors(c, rank - 1));
  if (p->kind == OD_CODER_KEYPOINT) {
    if (!c->present[2]) return od_fail(OD_EINVAL, "the keypoint box coder needs keypoints");
    OD_TRY(od_want(c, 2, OD_F32, rank));
    OD_TRY(od_want_dim(c, 2, rank - 1, 2 * p->keypoints));
    for (int k = 0; k < rank - 1; k++) OD_TRY(od_want_dim(c, 2, k, c->in[0].shape.dim[k]));
  }
  c->out[0] = c->in[0];
  c->out[0].shape.dim[rank - 1] = od_coder_size(p);
  return OD_OK;
}

static od_status encode_ref(const od_call *c) {
  const od_coder_params *p = c->params;
  od_box_coder coder = od_coder_of(p);
  const float *boxes = c->in[0].data, *anchors = c->in[1].data,
              *points = p->kind == OD_CODER_KEYPOINT ? c->in[2].data : NULL;
  float *codes = c->out[0].data;
  int64_t size = od_coder_size(p), n = od_tensor_size(&c->in[0]) / 4, a = od_tensor_size(&c->in[1]) / 4;
  for (int64_t i = 0; i < n; i += a)
    od_box_encode(codes + size * i, &coder, boxes + 4 * i, points ? points + 2 * p->keypoints * i : NULL, anchors, a);
  return OD_OK;
}

static const od_sample encode_samples[] = {
    {.name = "mean and deviation", .params = STDDEV, .n_in = 3, .in = {ANCHORS(3, 7, 4), ANCHORS(7, 4), OD_ABSENT_IN}},
    {.name = "nothing", .params = USUAL, .n_in = 3, .in = {ANCHORS(2, 0, 4), ANCHORS(0, 4), OD_ABSENT_IN}, .few = true},
};

const od_op od_op_encode_boxes = {
    .name = "encode_boxes",
    .help = "codes of boxes relative to anchors",
    .params = params,
    .params_size = sizeof(od_coder_params),
    .min_in = 3,
    .max_in = 3,
    .optional_in = 4,
    .n_out = 1,
    .infer = encode_infer,
    .ref = encode_ref,
    .no_grad = "targets are constants of the losses",
    .no_tf = OD_NO_TF_TRAINING,
    OD_SAMPLES(encode_samples),
    .tolerance = 1e-5,
};
