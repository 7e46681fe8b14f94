/* Ops that move boxes about: clip_boxes, boxes_inside, change_coordinate_frame, boxes_to_absolute, boxes_to_normalized,
 * clip_window, iou_matrix. Arithmetic of the original's box_list_ops (ops/box/window.h, similarity.h); what they make of
 * boxes serves selection and metrics, so no gradient flows through them. */
#include "ops/box/similarity.h"
#include "ops/box/window.h"
#include "ops/detect.h"
#include "ops/detect_shape.h"
#include "ops/detect_tf.h"
#include "ops/table.h"

#define NO_FLOW "boxes are moved for selection and metrics; losses work on codes"

static od_value add2(od_graph *g, const od_op *op, od_value a, od_value b) {
  return od_graph_add(g, op, (od_value[]){a, b}, 2, NULL);
}

od_value od_clip_boxes(od_graph *g, od_value boxes, od_value window) {
  return add2(g, &od_op_clip_boxes, boxes, window);
}
od_value od_boxes_inside(od_graph *g, od_value boxes, od_value window) {
  return add2(g, &od_op_boxes_inside, boxes, window);
}
od_value od_change_coordinate_frame(od_graph *g, od_value boxes, od_value window) {
  return add2(g, &od_op_change_coordinate_frame, boxes, window);
}
od_value od_boxes_to_absolute(od_graph *g, od_value boxes, od_value image) {
  return add2(g, &od_op_boxes_to_absolute, boxes, image);
}
od_value od_boxes_to_normalized(od_graph *g, od_value boxes, od_value image) {
  return add2(g, &od_op_boxes_to_normalized, boxes, image);
}
od_value od_iou_matrix(od_graph *g, od_value a, od_value b) { return add2(g, &od_op_iou_matrix, a, b); }

/* -------------------------------------------------------------------------------------------------- boxes and a window */
static od_status want_boxes(const od_infer *c) {
  OD_TRY(od_want(c, 0, OD_F32, -1));
  int rank = c->in[0].shape.rank;
  if (rank < 1) return od_fail(OD_EINVAL, "boxes of rank %d, expected [..., 4]", rank);
  return od_want_dim(c, 0, rank - 1, 4);
}

/* Window [4], or [B,4] with B the boxes' first dimension. */
static od_status infer_window(const od_infer *c) {
  OD_TRY(want_boxes(c));
  OD_TRY(od_want(c, 1, OD_F32, -1));
  const od_shape *b = &c->in[0].shape, *w = &c->in[1].shape;
  if (w->rank != 1 && (w->rank != 2 || b->rank < 2))
    return od_fail(OD_EINVAL, "window of rank %d for boxes of rank %d, expected [4] or [B,4]", w->rank, b->rank);
  OD_TRY(od_want_dim(c, 1, w->rank - 1, 4));
  if (w->rank == 2) OD_TRY(od_want_dim(c, 1, 0, b->dim[0]));
  c->out[0] = c->in[0];
  return OD_OK;
}

static od_status infer_inside(const od_infer *c) {
  OD_TRY(infer_window(c));
  c->out[0].shape.rank--;
  return OD_OK;
}

/* Calls f for each run of boxes under one window. */
typedef void (*run_fn)(float *out, const float *boxes, int64_t n, const float *window);

static od_status each_window(const od_call *c, run_fn f, int out_step) {
  const float *boxes = c->in[0].data, *window = c->in[1].data;
  float *out = c->out[0].data;
  int64_t runs = c->in[1].shape.rank == 2 ? c->in[1].shape.dim[0] : 1;
  int64_t n = runs ? od_tensor_size(&c->in[0]) / 4 / runs : 0;
  for (int64_t i = 0; i < runs; i++) f(out + i * n * out_step, boxes + i * n * 4, n, window + 4 * i);
  return OD_OK;
}

static void inside(float *out, const float *boxes, int64_t n, const float *window) {
  for (int64_t i = 0; i < n; i++) out[i] = od_box_inside(boxes + 4 * i, window) ? 1 : 0;
}

static od_status clip_ref(const od_call *c) { return each_window(c, od_box_clip, 4); }
static od_status frame_ref(const od_call *c) { return each_window(c, od_box_change_frame, 4); }
static od_status inside_ref(const od_call *c) { return each_window(c, inside, 1); }

/* The window's column k, shaped to broadcast over one coordinate [...,1] of the boxes: [], or [B,1,..,1]. */
static const char *window_column(od_tf *t, const od_node *n, const char *suffix, int k) {
  int rank = od_type_of(n->in[0]).shape.rank, wrank = od_type_of(n->in[1]).shape.rank;
  if (wrank == 1) return od_tf_element_of(t, suffix, od_tf_in(t, 1), k, OD_F32);
  int64_t dims[OD_MAX_RANK];
  for (int i = 0; i < rank; i++) dims[i] = i ? 1 : -1;
  return od_tf_reshape(t, suffix, od_tf_column(t, "column", od_tf_in(t, 1), 2, k, OD_F32), dims, rank, OD_F32);
}

static od_status clip_tf(od_tf *t, const od_node *n) {
  int rank = od_type_of(n->in[0]).shape.rank;
  const char *out[4];
  for (int k = 0; k < 4; k++) {
    const char *low = window_column(t, n, "low", k & 1), *high = window_column(t, n, "high", (k & 1) + 2);
    const char *x = od_tf_column(t, "coordinate", od_tf_in(t, 0), rank, k, OD_F32);
    out[k] = od_tf_op(t, "Maximum", "clipped", OD_F32,
                      OD_TF_INPUTS(od_tf_op(t, "Minimum", "below", OD_F32, OD_TF_INPUTS(x, high)), low));
  }
  od_tf_out(t, 0, od_tf_concat(t, NULL, out, 4, rank - 1, OD_F32));
  return OD_OK;
}

static od_status frame_tf(od_tf *t, const od_node *n) {
  int rank = od_type_of(n->in[0]).shape.rank;
  const char *out[4], *one = od_tf_const_f32(t, "one", 1), *low[2], *scale[2];
  for (int k = 0; k < 2; k++) {
    low[k] = window_column(t, n, "low", k);
    const char *size = od_tf_op(t, "Sub", "size", OD_F32, OD_TF_INPUTS(window_column(t, n, "high", k + 2), low[k]));
    scale[k] = od_tf_op(t, "RealDiv", "scale", OD_F32, OD_TF_INPUTS(one, size));
  }
  for (int k = 0; k < 4; k++) {
    const char *x = od_tf_column(t, "coordinate", od_tf_in(t, 0), rank, k, OD_F32);
    x = od_tf_op(t, "Sub", "moved", OD_F32, OD_TF_INPUTS(x, low[k & 1]));
    out[k] = od_tf_op(t, "Mul", "scaled", OD_F32, OD_TF_INPUTS(scale[k & 1], x));
  }
  od_tf_out(t, 0, od_tf_concat(t, NULL, out, 4, rank - 1, OD_F32));
  return OD_OK;
}

#define BOXES(...)  OD_F32_IN(-0.2, 1.2, __VA_ARGS__)
#define WINDOW(...) OD_F32_IN(0.1, 0.9, __VA_ARGS__)
static const od_sample window_samples[] = {
    {.name = "one window", .n_in = 2, .in = {BOXES(7, 4), WINDOW(4)}},
    {.name = "a window each", .n_in = 2, .in = {BOXES(3, 5, 4), WINDOW(3, 4)}},
    {.name = "no boxes", .n_in = 2, .in = {BOXES(3, 0, 4), WINDOW(3, 4)}, .few = true},
};
static const od_sample inside_samples[] = {
    {.name = "one window",
     .n_in = 2,
     .in = {OD_F32_IN(0.2, 0.8, 60, 4), {OD_F32, {1, {4}}, 0.3, 0.7, false}},
     .few = true},
};

const od_op od_op_clip_boxes = {
    .name = "clip_boxes",
    .help = "coordinates moved into a window",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .alias = {1},
    .infer = infer_window,
    .ref = clip_ref,
    .no_grad = NO_FLOW,
    .write_tf = clip_tf,
    OD_SAMPLES(window_samples),
};
const od_op od_op_change_coordinate_frame = {
    .name = "change_coordinate_frame",
    .help = "boxes relative to a window",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .alias = {1},
    .infer = infer_window,
    .ref = frame_ref,
    .no_grad = NO_FLOW,
    .write_tf = frame_tf,
    OD_SAMPLES(window_samples),
    .tolerance = 1e-6,
};
const od_op od_op_boxes_inside = {
    .name = "boxes_inside",
    .help = "1 for boxes wholly inside a window, else 0",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .infer = infer_inside,
    .ref = inside_ref,
    .grad = od_grad_nothing,
    .no_tf = OD_NO_TF_TRAINING,
    OD_SAMPLES(inside_samples),
};

/* ---------------------------------------------------------------------------------------------------- boxes and an image */
static od_status infer_image(const od_infer *c) {
  OD_TRY(want_boxes(c));
  OD_TRY(od_want(c, 1, c->in[1].dtype, 4));
  c->out[0] = c->in[0];
  return OD_OK;
}

static od_status absolute_ref(const od_call *c) {
  const od_shape *s = &c->in[1].shape;
  od_box_scale(c->out[0].data, c->in[0].data, od_tensor_size(&c->in[0]) / 4, (float)s->dim[1], (float)s->dim[2]);
  return OD_OK;
}

static od_status normalized_ref(const od_call *c) {
  const od_shape *s = &c->in[1].shape;
  od_box_scale(c->out[0].data, c->in[0].data, od_tensor_size(&c->in[0]) / 4, 1.0f / (float)s->dim[1],
               1.0f / (float)s->dim[2]);
  return OD_OK;
}

static od_status scale_tf(od_tf *t, const od_node *n, bool inverse) {
  int rank = od_type_of(n->in[0]).shape.rank;
  const char *shape = od_tf_shape_of(t, "size", od_tf_in(t, 1), od_type_of(n->in[1]).dtype), *scale[2], *out[4];
  for (int k = 0; k < 2; k++) {
    scale[k] = od_tf_cast(t, "pixels", od_tf_element(t, "side", shape, 1 + k), OD_I32, OD_F32);
    if (inverse)
      scale[k] = od_tf_op(t, "RealDiv", "scale", OD_F32, OD_TF_INPUTS(od_tf_const_f32(t, "one", 1), scale[k]));
  }
  for (int k = 0; k < 4; k++) {
    const char *x = od_tf_column(t, "coordinate", od_tf_in(t, 0), rank, k, OD_F32);
    out[k] = od_tf_op(t, "Mul", "scaled", OD_F32, OD_TF_INPUTS(scale[k & 1], x));
  }
  od_tf_out(t, 0, od_tf_concat(t, NULL, out, 4, rank - 1, OD_F32));
  return OD_OK;
}

static od_status absolute_tf(od_tf *t, const od_node *n) { return scale_tf(t, n, false); }
static od_status normalized_tf(od_tf *t, const od_node *n) { return scale_tf(t, n, true); }

static const od_sample image_samples[] = {
    {.name = "boxes of a batch", .n_in = 2, .in = {OD_F32_IN(0, 1, 2, 5, 4), OD_F32_IN(0, 1, 2, 37, 53, 3)}},
};

const od_op od_op_boxes_to_absolute = {
    .name = "boxes_to_absolute",
    .help = "normalised boxes into pixels of an image",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .alias = {1},
    .infer = infer_image,
    .ref = absolute_ref,
    .no_grad = NO_FLOW,
    .write_tf = absolute_tf,
    OD_SAMPLES(image_samples),
};
const od_op od_op_boxes_to_normalized = {
    .name = "boxes_to_normalized",
    .help = "boxes in pixels of an image into normalised ones",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .alias = {1},
    .infer = infer_image,
    .ref = normalized_ref,
    .no_grad = NO_FLOW,
    .write_tf = normalized_tf,
    OD_SAMPLES(image_samples),
};

/* ------------------------------------------------------------------------------------------------------------ clip_window */
typedef struct {
  bool normalized;
} clip_window_params;
static const od_param clip_window_table[] = {
    OD_PARAM(clip_window_params, normalized, OD_P_BOOL, "divide by the size of the batch"), {0}};

od_value od_clip_window(od_graph *g, od_value true_shapes, od_value image, bool normalized) {
  return od_graph_add(g, &od_op_clip_window, (od_value[]){true_shapes, image}, 2, &(clip_window_params){normalized});
}

static od_status clip_window_infer(const od_infer *c) {
  od_letters d;
  od_letters_clear(&d);
  OD_TRY(od_letters_in(&d, c, 0, "true shapes", OD_I32, "B3"));
  OD_TRY(od_letters_in(&d, c, 1, "image", c->in[1].dtype, "B???"));
  od_letters_out(&d, c, 0, OD_F32, "B4");
  return OD_OK;
}

static od_status clip_window_ref(const od_call *c) {
  const clip_window_params *p = c->params;
  const int32_t *shape = c->in[0].data;
  float *out = c->out[0].data;
  for (int64_t i = 0; i < c->in[0].shape.dim[0]; i++, shape += 3, out += 4) {
    out[0] = out[1] = 0;
    for (int k = 0; k < 2; k++)
      out[2 + k] = p->normalized ? (float)shape[k] / (float)c->in[1].shape.dim[1 + k] : (float)shape[k];
  }
  return OD_OK;
}

static od_status clip_window_tf(od_tf *t, const od_node *n) {
  const clip_window_params *p = n->params;
  const char *true_shape = od_tf_cast(t, "true", od_tf_in(t, 0), OD_I32, OD_F32), *out[4];
  const char *shape = p->normalized ? od_tf_shape_of(t, "size", od_tf_in(t, 1), od_type_of(n->in[1]).dtype) : NULL;
  for (int k = 0; k < 2; k++) {
    const char *x = od_tf_column(t, "side", true_shape, 2, k, OD_F32);
    out[k] = od_tf_op(t, "ZerosLike", "zero", OD_F32, OD_TF_INPUTS(x));
    if (p->normalized)
      x = od_tf_op(t, "RealDiv", "part", OD_F32,
                   OD_TF_INPUTS(x, od_tf_cast(t, "pixels", od_tf_element(t, "whole", shape, 1 + k), OD_I32, OD_F32)));
    out[2 + k] = x;
  }
  od_tf_out(t, 0, od_tf_concat(t, NULL, out, 4, 1, OD_F32));
  return OD_OK;
}

static const od_sample clip_window_samples[] = {
    {.name = "normalised",
     .params = &(const clip_window_params){true},
     .n_in = 2,
     .in = {OD_I32_IN(1, 30, 4, 3), OD_F32_IN(0, 1, 4, 31, 37, 3)}},
    {.name = "pixels",
     .params = &(const clip_window_params){false},
     .n_in = 2,
     .in = {OD_I32_IN(1, 30, 4, 3), OD_F32_IN(0, 1, 4, 31, 37, 3)}},
};

const od_op od_op_clip_window = {
    .name = "clip_window",
    .help = "the part of each preprocessed picture that is not padding",
    .params = clip_window_table,
    .params_size = sizeof(clip_window_params),
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .infer = clip_window_infer,
    .ref = clip_window_ref,
    .grad = od_grad_nothing,
    .write_tf = clip_window_tf,
    OD_SAMPLES(clip_window_samples),
};

/* ------------------------------------------------------------------------------------------------------------- iou_matrix */
static od_status iou_infer(const od_infer *c) {
  od_letters d;
  od_letters_clear(&d);
  OD_TRY(od_letters_in(&d, c, 0, "boxes", OD_F32, "N4"));
  OD_TRY(od_letters_in(&d, c, 1, "boxes", OD_F32, "M4"));
  od_letters_out(&d, c, 0, OD_F32, "NM");
  return OD_OK;
}

static od_status iou_ref(const od_call *c) {
  od_box_iou_matrix(c->out[0].data, c->in[0].data, c->in[0].shape.dim[0], c->in[1].data, c->in[1].shape.dim[0]);
  return OD_OK;
}

static const od_sample iou_samples[] = {
    {.name = "boxes", .n_in = 2, .in = {OD_F32_IN(0, 1, 60, 4), OD_F32_IN(0, 1, 50, 4)}, .few = true}};

const od_op od_op_iou_matrix = {
    .name = "iou_matrix",
    .help = "intersection over union of all pairs",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .infer = iou_infer,
    .ref = iou_ref,
    .no_grad = NO_FLOW,
    .no_tf = OD_NO_TF_TRAINING,
    OD_SAMPLES(iou_samples),
};
