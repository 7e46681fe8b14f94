/* Op nms as a TensorFlow graph: a v1 while loop over the images of the batch, in its body one NonMaxSuppression a class
 * (V3; V5 for soft scores, which TensorFlow has from 1.15 on), then what the original does with the selections: join the
 * classes, sort by score, clip, drop what lost its area, cut, pad with zeros. Where the original pads each class with
 * scores of -1 and takes them out at the end, nothing is padded here; the detections are the same. The same form is written
 * for static_shapes, whose padding is zero then too. */
#include "ops/nms_tf.h"

#include "base/mem.h"
#include "ops/detect.h"

enum { BOXES, SCORES, WINDOW, COUNT, EXTRA, N_IN };

/* What travels together: boxes [n,4], scores [n], classes [n], indices [n] int32. */
typedef struct {
  const char *boxes, *scores, *classes, *index;
} found;

/* One image inside the loop. */
typedef struct {
  od_tf *t;
  const od_nms_params *p;
  const char *boxes;  /* [n,q,4] */
  const char *scores; /* [n,K] */
  int q;              /* boxes of an anchor: 1 or K */
  const char *n;      /* int32 scalar */
} image;

static const char *take(od_tf *t, const char *suffix, const char *rows, const char *index, od_dtype type) {
  return od_tf_gather_rows(t, suffix, rows, index, type);
}

/* The rows of all four. */
static found take_all(od_tf *t, const char *suffix, const found *f, const char *index) {
  return (found){take(t, suffix, f->boxes, index, OD_F32), take(t, suffix, f->scores, index, OD_F32),
                 take(t, suffix, f->classes, index, OD_F32), take(t, suffix, f->index, index, OD_I32)};
}

static const char *reduce(od_tf *t, const char *op, const char *suffix, const char *x, const int32_t *axes, int n,
                          od_dtype type) {
  const char *v = od_tf_op(t, op, suffix, type, OD_TF_INPUTS(x, od_tf_const_i32s(t, "axes", axes, n)));
  od_tf_attr_type(t, "Tidx", OD_I32);
  od_tf_attr_bool(t, "keep_dims", false);
  return v;
}

static const char *rows_of(od_tf *t, const char *x, od_dtype type) {
  return od_tf_element(t, "rows", od_tf_shape_of(t, "shape", x, type), 0);
}

/* The suppression itself: selected indices and their (perhaps softened) scores. Attributes keep their defaults (float): early
 * TensorFlow 1 does not know them. */
static void suppress(const image *m, const char *boxes, const char *scores, const char *most, const char **index,
                     const char **out) {
  od_tf *t = m->t;
  const char *iou = od_tf_const_f32(t, "iou_threshold", m->p->iou_threshold);
  const char *low = od_tf_const_f32(t, "score_threshold", m->p->score_threshold);
  if (m->p->soft_nms_sigma > 0) {
    const char *sigma = od_tf_const_f32(t, "sigma", m->p->soft_nms_sigma);
    *index = od_tf_add(t, "NonMaxSuppressionV5", "selected", OD_TF_INPUTS(boxes, scores, most, iou, low, sigma));
    *out = od_tf_output(t, *index, 1);
    return;
  }
  *index = od_tf_add(t, "NonMaxSuppressionV3", "selected", OD_TF_INPUTS(boxes, scores, most, iou, low));
  *out = take(t, "scores", scores, *index, OD_F32);
}

/* The boxes of class k [n,4]. */
static const char *boxes_of(const image *m, int k) {
  const int32_t begin[3] = {0, k, 0}, size[3] = {-1, 1, -1};
  const char *from = od_tf_const_i32s(m->t, "begin", begin, 3), *many = od_tf_const_i32s(m->t, "size", size, 3);
  return OD_TF_RESHAPE(m->t, "boxes", od_tf_slice(m->t, "class_boxes", m->boxes, from, many, OD_F32), OD_F32, -1, 4);
}

static od_status by_class(found *out, const image *m, int classes) {
  od_tf *t = m->t;
  const char **part;
  OD_TRY(od_new(&part, 4 * (size_t)classes, sizeof *part));
  const char *most = od_tf_op(t, "Minimum", "most", OD_I32,
                              OD_TF_INPUTS(od_tf_const_i32(t, "max_per_class", (int32_t)m->p->max_per_class), m->n));
  const char *shared = m->q == 1 ? boxes_of(m, 0) : NULL;
  for (int k = 0; k < classes; k++) {
    const char *boxes = shared ? shared : boxes_of(m, k), *index, *scores;
    const char *column =
        OD_TF_RESHAPE(t, "class_scores", od_tf_column(t, "column", m->scores, 2, k, OD_F32), OD_F32, -1);
    suppress(m, boxes, column, most, &index, &scores);
    part[k] = take(t, "boxes", boxes, index, OD_F32);
    part[classes + k] = scores;
    const char *zero = od_tf_op(t, "ZerosLike", "zeros", OD_F32, OD_TF_INPUTS(scores));
    part[2 * classes + k] = od_tf_two(t, "Add", "class", zero, od_tf_const_f32(t, "number", (float)k));
    part[3 * classes + k] = index;
  }
  *out = (found){od_tf_concat(t, "all_boxes", part, classes, 0, OD_F32),
                 od_tf_concat(t, "all_scores", part + classes, classes, 0, OD_F32),
                 od_tf_concat(t, "all_classes", part + 2 * classes, classes, 0, OD_F32),
                 od_tf_concat(t, "all_indices", part + 3 * classes, classes, 0, OD_I32)};
  od_free(part);
  return OD_OK;
}

/* One suppression over the best class of each box. */
static void agnostic(found *out, const image *m) {
  od_tf *t = m->t;
  const char *best = reduce(t, "Max", "best", m->scores, (const int32_t[]){1}, 1, OD_F32);
  const char *cls = od_tf_op(t, "ArgMax", "best_class", OD_F32, OD_TF_INPUTS(m->scores, od_tf_const_i32(t, "axis", 1)));
  od_tf_attr_type(t, "Tidx", OD_I32);
  od_tf_attr_type(t, "output_type", OD_I32);
  const char *boxes = m->q == 1 ? boxes_of(m, 0) : NULL;
  if (!boxes) { /* each box's own: rows (i, class of i) */
    const char *pairs[2] = {od_tf_range(t, "range", m->n), cls};
    boxes = od_tf_add(t, "GatherNd", "own_boxes",
                      OD_TF_INPUTS(m->boxes, od_tf_stack_axis(t, "pairs", pairs, 2, 1, OD_I32)));
    od_tf_attr_type(t, "Tparams", OD_F32);
    od_tf_attr_type(t, "Tindices", OD_I32);
  }
  const char *most = od_tf_op(t, "Minimum", "most", OD_I32,
                              OD_TF_INPUTS(od_tf_const_i32(t, "max_total", (int32_t)m->p->max_total), m->n));
  suppress(m, boxes, best, most, &out->index, &out->scores);
  out->boxes = take(t, "boxes", boxes, out->index, OD_F32);
  out->classes = od_tf_cast(t, "classes", take(t, "classes", cls, out->index, OD_I32), OD_I32, OD_F32);
}

/* Side k of the window (a vector [4]) and of boxes [n,4], as [n,1]. */
static const char *side(od_tf *t, const char *boxes, int k) { return od_tf_column(t, "side", boxes, 2, k, OD_F32); }

static const char *clip(od_tf *t, const char *boxes, const char *const edge[4]) {
  const char *out[4];
  for (int k = 0; k < 4; k++)
    out[k] = od_tf_two(t, "Maximum", "clipped", od_tf_two(t, "Minimum", "below", side(t, boxes, k), edge[(k & 1) + 2]),
                       edge[k & 1]);
  return od_tf_concat(t, "clipped_boxes", out, 4, 1, OD_F32);
}

/* int32 indices of the boxes with area. */
static const char *with_area(od_tf *t, const char *boxes) {
  const char *h = od_tf_two(t, "Sub", "height", side(t, boxes, 2), side(t, boxes, 0));
  const char *w = od_tf_two(t, "Sub", "width", side(t, boxes, 3), side(t, boxes, 1));
  const char *area = OD_TF_RESHAPE(t, "area", od_tf_two(t, "Mul", "areas", h, w), OD_F32, -1);
  const char *some = od_tf_two(t, "Greater", "has_area", area, od_tf_const_f32(t, "zero", 0));
  const char *where = od_tf_add(t, "Where", "where", OD_TF_INPUTS(some));
  od_tf_attr_type(t, "T", OD_BOOL);
  return od_tf_cast(t, "kept", OD_TF_RESHAPE(t, "places", where, OD_I64, -1), OD_I64, OD_I32);
}

static const char *change_frame(od_tf *t, const char *boxes, const char *const edge[4]) {
  const char *out[4], *one = od_tf_const_f32(t, "one", 1), *scale[2];
  for (int k = 0; k < 2; k++)
    scale[k] = od_tf_two(t, "RealDiv", "scale", one, od_tf_two(t, "Sub", "size", edge[k + 2], edge[k]));
  for (int k = 0; k < 4; k++)
    out[k] = od_tf_two(t, "Mul", "scaled", scale[k & 1], od_tf_two(t, "Sub", "moved", side(t, boxes, k), edge[k & 1]));
  return od_tf_concat(t, "framed", out, 4, 1, OD_F32);
}

/* The first `num` rows (columns: 0 for a vector), zeros behind them up to max_total. */
static const char *cut_and_pad(od_tf *t, const char *rows, bool matrix, const char *num, const char *rest,
                               od_dtype type) {
  const char *zero = od_tf_const_i32(t, "zero", 0), *all = od_tf_const_i32(t, "all", -1);
  const char *begin = od_tf_const_i32s(t, "begin", (const int32_t[]){0, 0}, matrix ? 2 : 1);
  const char *size = od_tf_stack_axis(t, "size", (const char *const[]){num, all}, matrix ? 2 : 1, 0, OD_I32);
  const char *cut = od_tf_slice(t, "cut", rows, begin, size, type);
  const char *amounts =
      od_tf_stack_axis(t, "amounts", (const char *const[]){zero, rest, zero, zero}, matrix ? 4 : 2, 0, OD_I32);
  amounts = OD_TF_RESHAPE(t, "paddings", amounts, OD_I32, matrix ? 2 : 1, 2);
  const char *padded = od_tf_op(t, "Pad", "padded", type, OD_TF_INPUTS(cut, amounts));
  od_tf_attr_type(t, "Tpaddings", OD_I32);
  return padded;
}

/* The selections of all classes into the rows of the result. */
static found finish(const image *m, found f, const char *const edge[4], const char **num_out) {
  od_tf *t = m->t;
  const char *order = od_tf_op(t, "TopKV2", "sorted", OD_F32, OD_TF_INPUTS(f.scores, rows_of(t, f.scores, OD_F32)));
  od_tf_attr_bool(t, "sorted", true);
  f = take_all(t, "sorted", &f, od_tf_output(t, order, 1));
  f.boxes = clip(t, f.boxes, edge);
  f = take_all(t, "kept", &f, with_area(t, f.boxes));
  if (m->p->change_coordinate_frame) f.boxes = change_frame(t, f.boxes, edge);
  const char *good = od_tf_two(t, "GreaterEqual", "valid", f.scores, od_tf_const_f32(t, "zero", 0));
  const char *num =
      reduce(t, "Sum", "num_valid", od_tf_cast(t, "valid", good, OD_BOOL, OD_I32), (const int32_t[]){0}, 1, OD_I32);
  const char *total = od_tf_const_i32(t, "max_total", (int32_t)m->p->max_total);
  num = od_tf_op(t, "Minimum", "num", OD_I32, OD_TF_INPUTS(num, total));
  const char *rest = od_tf_op(t, "Sub", "rest", OD_I32, OD_TF_INPUTS(total, num));
  *num_out = num;
  return (found){cut_and_pad(t, f.boxes, true, num, rest, OD_F32), cut_and_pad(t, f.scores, false, num, rest, OD_F32),
                 cut_and_pad(t, f.classes, false, num, rest, OD_F32),
                 cut_and_pad(t, f.index, false, num, rest, OD_I32)};
}

/* ----------------------------------------------------------------------------------------------------------------- loop */
/* The clip window of every image [B,4]: given for each, one for all, or the extent of all boxes. */
static const char *windows(od_tf *t, const od_node *n, const char *batch) {
  const char *w = od_tf_in(t, WINDOW);
  if (od_has(n->in[WINDOW]) && od_type_of(n->in[WINDOW]).shape.rank == 2) return w;
  if (!od_has(n->in[WINDOW])) {
    const char *end[4];
    for (int k = 0; k < 4; k++)
      end[k] = reduce(t, k < 2 ? "Min" : "Max", "extent", od_tf_column(t, "side", od_tf_in(t, BOXES), 4, k, OD_F32),
                      (const int32_t[]){0, 1, 2, 3}, 4, OD_F32);
    w = od_tf_stack_axis(t, "window", end, 4, 0, OD_F32);
  }
  const char *times =
      od_tf_stack_axis(t, "times", (const char *const[]){batch, od_tf_const_i32(t, "one", 1)}, 2, 0, OD_I32);
  return od_tf_tile(t, "windows", od_tf_expand(t, "window", w, 0, OD_F32), times, OD_F32);
}

/* The first n rows of x, whose rank is 2 or 3. */
static const char *first_rows(od_tf *t, const char *suffix, const char *x, int rank, const char *n) {
  const char *all = od_tf_const_i32(t, "all", -1),
             *size = od_tf_stack_axis(t, "size", (const char *const[]){n, all, all}, rank, 0, OD_I32);
  return od_tf_slice(t, suffix, x, od_tf_const_i32s(t, "begin", (const int32_t[]){0, 0, 0}, rank), size, OD_F32);
}

enum { OUT_BOXES, OUT_SCORES, OUT_CLASSES, OUT_NUM, OUT_INDEX, OUT_EXTRA, N_OUT };

/* What the loop takes in from outside. */
typedef struct {
  const char *in[N_IN];      /* inputs by row, NULL where absent; WINDOW always */
  const char *handle[N_OUT]; /* arrays of results */
} outside;

/* The body for image i; values[] become the results of this image. */
static od_status body(od_tf *t, const od_node *n, const outside *o, const char *i, const char *values[N_OUT]) {
  int classes = (int)od_dim(n->in[SCORES], 2);
  image m = {.t = t, .p = n->params, .q = (int)od_dim(n->in[BOXES], 2)};
  const char *row[N_IN] = {NULL}, *edge[4], *num;
  for (int k = 0; k < N_IN; k++)
    if (o->in[k]) row[k] = take(t, "image", o->in[k], i, k == COUNT ? OD_I32 : OD_F32);
  if (row[COUNT]) {
    row[BOXES] = first_rows(t, "valid_boxes", row[BOXES], 3, row[COUNT]);
    row[SCORES] = first_rows(t, "valid_scores", row[SCORES], 2, row[COUNT]);
  }
  m.boxes = row[BOXES];
  m.scores = row[SCORES];
  m.n = rows_of(t, row[SCORES], OD_F32);
  for (int k = 0; k < 4; k++) edge[k] = od_tf_element_of(t, "edge", row[WINDOW], k, OD_F32);
  found f;
  if (m.p->class_agnostic)
    agnostic(&f, &m);
  else
    OD_TRY(by_class(&f, &m, classes));
  f = finish(&m, f, edge, &num);
  values[OUT_BOXES] = f.boxes;
  values[OUT_SCORES] = f.scores;
  values[OUT_CLASSES] = f.classes;
  values[OUT_NUM] = od_tf_cast(t, "num_detections", num, OD_I32, OD_F32);
  values[OUT_INDEX] = od_tf_cast(t, "indices", f.index, OD_I32, OD_F32);
  if (!row[EXTRA]) return OD_OK;
  /* rows of padding have index 0: gathered, then made zero again */
  const char *total = od_tf_const_i32(t, "max_total", (int32_t)m.p->max_total);
  const char *rest = od_tf_op(t, "Sub", "rest", OD_I32, OD_TF_INPUTS(total, num));
  const char *real = od_tf_slice(t, "real", f.index, od_tf_const_i32s(t, "begin", (const int32_t[]){0}, 1),
                                 od_tf_stack_axis(t, "size", &num, 1, 0, OD_I32), OD_I32);
  values[OUT_EXTRA] = cut_and_pad(t, take(t, "extra", row[EXTRA], real, OD_F32), true, num, rest, OD_F32);
  return OD_OK;
}

od_status od_nms_write_tf(od_tf *t, const od_node *n) {
  const od_nms_params *p = n->params;
  int64_t m = p->max_total, e = od_has(n->in[EXTRA]) ? od_dim(n->in[EXTRA], 2) : 0;
  if (od_dim(n->in[SCORES], 2) < 1 || od_dim(n->in[BOXES], 2) < 1)
    return od_fail(OD_EINVAL, "the number of classes must be known to write NMS as a graph");
  const char *batch = od_tf_element(t, "batch", od_tf_shape_of(t, "shape", od_tf_in(t, SCORES), OD_F32), 0);
  const od_shape element[N_OUT] = {OD_SHAPE(m, 4), OD_SHAPE(m), OD_SHAPE(m), OD_SCALAR, OD_SHAPE(m), OD_SHAPE(m, e)};
  const char *inits[1 + N_OUT], *next[1 + N_OUT], *values[N_OUT], *handle[N_OUT];
  od_dtype types[1 + N_OUT] = {OD_I32};
  int n_out = e ? N_OUT : N_OUT - 1;
  outside o = {.in = {NULL}};
  const char *in[N_IN];
  for (int k = 0; k < N_IN; k++) in[k] = od_has(n->in[k]) ? od_tf_in(t, k) : NULL;
  in[WINDOW] = windows(t, n, batch);
  inits[0] = od_tf_const_i32(t, "first", 0);
  for (int k = 0; k < n_out; k++) {
    handle[k] = od_tf_array(t, "results", OD_F32, batch);
    inits[1 + k] = od_tf_output(t, handle[k], 1);
    types[1 + k] = OD_F32;
  }
  od_tf_loop *w = od_tf_while(t, "images", inits, types, 1 + n_out);
  const char *limit = od_tf_while_const(t, w, batch, OD_I32);
  for (int k = 0; k < N_IN; k++)
    if (in[k]) o.in[k] = od_tf_while_const(t, w, in[k], k == COUNT ? OD_I32 : OD_F32);
  for (int k = 0; k < n_out; k++) o.handle[k] = od_tf_while_handle(t, w, handle[k]);
  od_tf_while_cond(t, w, od_tf_op(t, "Less", "more", OD_I32, OD_TF_INPUTS(od_tf_while_var(w, 0), limit)));
  const char *i = od_tf_while_var(w, 0);
  OD_TRY(body(t, n, &o, i, values));
  next[0] = od_tf_op(t, "Add", "next", OD_I32, OD_TF_INPUTS(i, od_tf_const_i32(t, "one", 1)));
  for (int k = 0; k < n_out; k++)
    next[1 + k] = od_tf_array_write(t, "write", OD_F32, o.handle[k], i, values[k], od_tf_while_var(w, 1 + k));
  od_tf_while_end(t, w, next);
  for (int k = 0; k < n_out; k++)
    od_tf_out(t, k,
              od_tf_array_gather(t, "result", OD_F32, handle[k], batch, od_tf_while_result(w, 1 + k), &element[k]));
  if (!e) { /* an output of no columns, so that whoever reads it finds one */
    const char *shape = od_tf_stack_axis(
        t, "empty", (const char *const[]){batch, od_tf_const_i32(t, "rows", (int32_t)m), od_tf_const_i32(t, "none", 0)},
        3, 0, OD_I32);
    const char *fill = od_tf_op(t, "Fill", "no_extra", OD_F32, OD_TF_INPUTS(shape, od_tf_const_f32(t, "zero", 0)));
    od_tf_attr_type(t, "index_type", OD_I32);
    od_tf_out(t, OUT_EXTRA, fill);
  }
  return OD_OK;
}
