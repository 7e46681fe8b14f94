/* Rows of proposals, padded to one number an image: compact_rows, valid_rows, box_image. */
#include <string.h>

#include "ops/detect.h"
#include "ops/detect_shape.h"
#include "ops/detect_tf.h"
#include "ops/table.h"

/* --------------------------------------------------------------------------------------------------------- compact_rows */
static const od_param compact_params[] = {OD_PARAM_IN(od_compact_params, rows, OD_P_INT, "rows of the result", 1, 1e6),
                                          {0}};

od_value od_compact_rows(od_graph *g, od_value mask, od_value x, int64_t rows) {
  return od_graph_add(g, &od_op_compact_rows, (od_value[]){mask, x}, 2, &(od_compact_params){rows});
}

static od_status compact_infer(const od_infer *c) {
  const od_compact_params *p = c->params;
  OD_TRY(od_want(c, 0, OD_F32, 2));
  OD_TRY(od_want(c, 1, OD_F32, -1));
  const od_shape *m = &c->in[0].shape, *x = &c->in[1].shape;
  if (x->rank < 2) return od_fail(OD_EINVAL, "rows of rank %d, expected [B,A,...]", x->rank);
  OD_TRY(od_want_dim(c, 1, 0, m->dim[0]));
  OD_TRY(od_want_dim(c, 1, 1, m->dim[1]));
  c->out[0] = c->in[1];
  c->out[0].shape.dim[1] = p->rows;
  c->out[1] = (od_type){OD_I32, {1, {m->dim[0]}}};
  return OD_OK;
}

static od_status compact_ref(const od_call *c) {
  const od_compact_params *p = c->params;
  int64_t b = c->in[0].shape.dim[0], a = c->in[0].shape.dim[1], d = od_dims(&c->in[1].shape, 2, c->in[1].shape.rank);
  const float *mask = c->in[0].data, *x = c->in[1].data;
  float *out = c->out[0].data;
  int32_t *count = c->out[1].data;
  for (int64_t i = 0; i < b; i++, mask += a, x += a * d, out += p->rows * d) {
    int64_t n = 0;
    for (int64_t k = 0; k < a && n < p->rows; k++)
      if (mask[k] != 0) memcpy(out + n++ * d, x + k * d, (size_t)d * sizeof *out);
    memset(out + n * d, 0, (size_t)((p->rows - n) * d) * sizeof *out);
    count[i] = (int32_t)n;
  }
  return OD_OK;
}

static const od_sample compact_samples[] = {
    {.name = "all fit",
     .params = &(const od_compact_params){12},
     .n_in = 2,
     .in = {OD_F32_IN(-1, 1, 2, 9), OD_F32_IN(-1, 1, 2, 9, 4)}},
    {.name = "some are cut",
     .params = &(const od_compact_params){4},
     .n_in = 2,
     .in = {OD_F32_IN(0.5, 1, 2, 9), OD_F32_IN(-1, 1, 2, 9)}},
};

const od_op od_op_compact_rows = {
    .name = "compact_rows",
    .help = "rows under a mask moved to the front, and how many there are",
    .params = compact_params,
    .params_size = sizeof(od_compact_params),
    .min_in = 2,
    .max_in = 2,
    .n_out = 2,
    .infer = compact_infer,
    .ref = compact_ref,
    .no_grad = "proposals are constants of the second stage",
    .no_tf = OD_NO_TF_TRAINING,
    OD_SAMPLES(compact_samples),
};

/* ----------------------------------------------------------------------------------------------------------- valid_rows */
od_value od_valid_rows(od_graph *g, od_value count, od_value like) {
  return od_graph_add(g, &od_op_valid_rows, (od_value[]){count, like}, 2, NULL);
}

static od_status valid_infer(const od_infer *c) {
  OD_TRY(od_want(c, 0, OD_I32, 1));
  const od_shape *x = &c->in[1].shape;
  if (x->rank < 2) return od_fail(OD_EINVAL, "rows of rank %d, expected [B,P,...]", x->rank);
  OD_TRY(od_want_dim(c, 0, 0, x->dim[0]));
  c->out[0] = (od_type){OD_F32, {2, {x->dim[0] >= 0 ? x->dim[0] : c->in[0].shape.dim[0], x->dim[1]}}};
  return OD_OK;
}

static od_status valid_ref(const od_call *c) {
  const int32_t *count = c->in[0].data;
  float *out = c->out[0].data;
  int64_t b = c->out[0].shape.dim[0], p = c->out[0].shape.dim[1];
  for (int64_t i = 0; i < b; i++)
    for (int64_t k = 0; k < p; k++) *out++ = k < count[i] ? 1 : 0;
  return OD_OK;
}

static od_status valid_tf(od_tf *t, const od_node *n) {
  const char *rows =
      od_tf_element(t, "rows", od_tf_shape_of(t, "shape", od_tf_in(t, 1), od_type_of(n->in[1]).dtype), 1);
  const char *place = od_tf_expand(t, "places", od_tf_range(t, "range", rows), 0, OD_I32);
  const char *limit = od_tf_expand(t, "limits", od_tf_in(t, 0), 1, OD_I32);
  const char *less = od_tf_op(t, "Less", "less", OD_I32, OD_TF_INPUTS(place, limit));
  od_tf_out(t, 0, od_tf_cast(t, NULL, less, OD_BOOL, OD_F32));
  return OD_OK;
}

static const od_sample valid_samples[] = {
    {.name = "boxes", .n_in = 2, .in = {OD_I32_IN(1, 5, 4), OD_F32_IN(0, 1, 4, 5, 4)}},
};

const od_op od_op_valid_rows = {
    .name = "valid_rows",
    .help = "1 in the places below a count, else 0",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .infer = valid_infer,
    .ref = valid_ref,
    .grad = od_grad_nothing,
    .write_tf = valid_tf,
    OD_SAMPLES(valid_samples),
};

/* ------------------------------------------------------------------------------------------------------------ box_image */
od_value od_box_image(od_graph *g, od_value boxes) { return od_graph_add(g, &od_op_box_image, &boxes, 1, NULL); }

static od_status image_infer(const od_infer *c) {
  od_letters d;
  od_letters_clear(&d);
  OD_TRY(od_letters_in(&d, c, 0, "boxes", OD_F32, "BP4"));
  int64_t b = od_letters_get(&d, 'B'), p = od_letters_get(&d, 'P');
  c->out[0] = (od_type){OD_I32, {1, {b < 0 || p < 0 ? -1 : b * p}}};
  return OD_OK;
}

static od_status image_ref(const od_call *c) {
  int32_t *out = c->out[0].data;
  for (int64_t i = 0; i < c->in[0].shape.dim[0]; i++)
    for (int64_t k = 0; k < c->in[0].shape.dim[1]; k++) *out++ = (int32_t)i;
  return OD_OK;
}

static od_status image_tf(od_tf *t, const od_node *n) {
  const char *shape = od_tf_shape_of(t, "shape", od_tf_in(t, 0), od_type_of(n->in[0]).dtype);
  const char *images =
      od_tf_expand(t, "images", od_tf_range(t, "range", od_tf_element(t, "batch", shape, 0)), 1, OD_I32);
  const char *times[2] = {od_tf_const_i32(t, "one", 1), od_tf_element(t, "boxes", shape, 1)};
  const char *tiled = od_tf_tile(t, "tiled", images, od_tf_stack(t, "times", times, 2), OD_I32);
  od_tf_out(t, 0, OD_TF_RESHAPE(t, NULL, tiled, OD_I32, -1));
  return OD_OK;
}

static const od_sample image_samples[] = {{.name = "boxes", .n_in = 1, .in = {OD_F32_IN(0, 1, 3, 5, 4)}}};

const od_op od_op_box_image = {
    .name = "box_image",
    .help = "the image of each box of a batch",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .infer = image_infer,
    .ref = image_ref,
    .grad = od_grad_nothing,
    .write_tf = image_tf,
    OD_SAMPLES(image_samples),
};
