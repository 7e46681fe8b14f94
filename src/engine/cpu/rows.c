/* Reference functions on many threads: where an op treats rows (or images) independently of each other, each thread calls the
 * op's own reference on a contiguous part of them. The same bits as the reference, whatever the number of threads. */
#include <string.h>

#include "engine/cpu/cpu.h"
#include "ops/detect.h"

enum { INPUTS = 8, OUTPUTS = 8 };

/* What is cut: an input of this rank (0: any) has the rows in front; one of another rank is handed to every thread whole.
 * flat: all dimensions but the last `keep` are rows; else the first one alone is. */
typedef struct {
  const char *op;
  bool flat;
  int rank[INPUTS];
  int keep_in[INPUTS], keep_out; /* flat: trailing dimensions that belong to a row */
} rule;
static const rule rules[] = {
    {"match_anchors", false, {3, 3, 2, 1, 2, 2}, {0}, 0},
    {"assign_targets", false, {2, 3, 3, 3, 2, 3}, {0}, 0},
    {"nms", false, {4, 3, 2, 1, 3}, {0}, 0},
    {"decode_boxes", false, {0, 3}, {0}, 0},
    {"encode_boxes", false, {0, 3, 0}, {0}, 0},
    {"resize_image", false, {4}, {0}, 0},
    {"classification_loss", true, {0}, {1, 1, 1}, 1},
    {"classification_loss_grad", true, {0}, {1, 1, 1, 1}, 1},
    {"localization_loss", true, {0}, {1, 1, 0}, 0},
    {"localization_loss_grad", true, {0}, {0, 1, 1, 0}, 1},
    {"softmax", true, {0}, {1}, 1},
    {"log_softmax", true, {0}, {1}, 1},
    {"softmax_grad", true, {0}, {1, 1}, 1},
    {"log_softmax_grad", true, {0}, {1, 1}, 1},
};
static const char *const names[] = {"match_anchors", "assign_targets", "nms", "decode_boxes", "encode_boxes", "resize_image",
                                    "classification_loss", "classification_loss_grad", "localization_loss", "localization_loss_grad",
                                    "softmax", "log_softmax", "softmax_grad", "log_softmax_grad", NULL};

typedef struct {
  const od_node *node;
  int64_t rows;
  int chunks;
  size_t scratch; /* of one chunk */
  od_tensor in[INPUTS], out[OUTPUTS]; /* shapes of one row; dim[0] is set to the rows of a part */
  bool cut[INPUTS];
  size_t in_step[INPUTS], out_step[OUTPUTS]; /* bytes of a row */
} self;

/* rows of a shape whose last `keep` dimensions are a row. */
static int64_t rows_of(const od_shape *s, int keep) {
  int64_t n = 1;
  for (int i = 0; i < s->rank - keep; i++) n *= s->dim[i];
  return n;
}

/* The shape with `rows` in front of what makes a row. */
static void row_shape(od_shape *out, const od_shape *s, int keep) {
  *out = (od_shape){keep + 1, {1}};
  for (int i = 0; i < keep; i++) out->dim[1 + i] = s->dim[s->rank - keep + i];
}

static bool cut_in(self *s, const rule *r, int k, const od_type *t) {
  if (r->rank[k] < 0 || (r->rank[k] > 0 && t->shape.rank != r->rank[k])) return false;
  if (!r->flat && (t->shape.rank < 1 || t->shape.dim[0] != s->rows)) return false;
  row_shape(&s->in[k].shape, &t->shape, r->flat ? r->keep_in[k] : t->shape.rank - 1);
  s->in_step[k] = od_tensor_bytes(&s->in[k]);
  return true;
}

static bool match(od_cpu_draft *d) {
  const od_node *n = d->node;
  const rule *r = rules;
  while (!od_cpu_is(n, r->op)) r++;
  if (n->n_in > INPUTS || n->op->n_out > OUTPUTS) return od_cpu_refuse(d, "too many inputs");
  self *s = od_cpu_alloc(d, sizeof *s);
  if (!s) return false;
  const od_type *y = od_cpu_type(d, (od_value){(od_node *)(uintptr_t)n, 0});
  /* the softmax losses give one number a row: a dimension less than their inputs */
  int keep_out = r->keep_out;
  if (od_cpu_is(n, "classification_loss")) keep_out = y->shape.rank - od_cpu_in_type(d, 0)->shape.rank + 1;
  bool row_dy = od_cpu_is(n, "classification_loss_grad") && od_cpu_in_type(d, 0)->shape.rank < y->shape.rank;
  s->node = n;
  s->rows = r->flat ? rows_of(&y->shape, keep_out) : y->shape.rank > 0 ? y->shape.dim[0] : 0;
  if (s->rows == 0) return od_cpu_refuse(d, "nothing to compute");
  for (int k = 0; k < n->n_in; k++) {
    if (!od_has(n->in[k])) continue;
    const od_type *t = od_cpu_in_type(d, k);
    rule own = *r;
    if (row_dy && k == 0) own.keep_in[0] = 0;
    s->in[k] = (od_tensor){t->dtype, t->shape, NULL};
    s->cut[k] = cut_in(s, &own, k, t);
    if (r->flat && !s->cut[k]) return od_cpu_refuse(d, "an input does not go along");
  }
  /* without windows the whole batch's extent clips */
  if (od_cpu_is(n, "nms") && !od_has(n->in[2]) && s->rows > 1) return od_cpu_refuse(d, "no clip window");
  bool any = false;
  for (int k = 0; k < n->n_in; k++) any = any || s->cut[k];
  if (!any) return od_cpu_refuse(d, "no rows in front");
  if (od_cpu_is(n, "decode_boxes") || od_cpu_is(n, "encode_boxes")) {
    /* anchors without images in front meet every image; without images in front of the boxes either, rows are anchors */
    const int of_image = od_cpu_is(n, "decode_boxes") && ((const od_coder_params *)n->params)->per_class ? 3 : 2;
    if (od_cpu_in_type(d, 0)->shape.rank != of_image + 1) return od_cpu_refuse(d, "not one dimension of images");
  }
  for (int k = 0; k < n->n_in; k++) od_cpu_take(d, n->in[k], s->in[k].dtype);
  for (int k = 0; k < n->op->n_out; k++) {
    od_value v = {(od_node *)(uintptr_t)n, k};
    const od_type *t = od_cpu_type(d, v);
    s->out[k].dtype = t->dtype;
    row_shape(&s->out[k].shape, &t->shape, r->flat ? keep_out : t->shape.rank - 1);
    s->out_step[k] = od_tensor_bytes(&s->out[k]);
    od_cpu_give(d, v, t->dtype, -1);
  }
  d->note = s;
  return true;
}

static od_status create(void **out, od_cpu_draft *d) {
  self *s = d->note;
  const od_node *n = d->node;
  *out = s;
  s->chunks = od_cpu_chunks(d->cpu, s->rows, 1 + 4096 / (int64_t)(s->out_step[0] + s->in_step[0] + 1));
  if (n->op->scratch) {
    const int64_t most = (s->rows + s->chunks - 1) / s->chunks;
    od_type in[INPUTS], types[OUTPUTS];
    bool present[INPUTS];
    for (int k = 0; k < n->n_in; k++) {
      present[k] = od_has(n->in[k]);
      in[k] = (od_type){s->in[k].dtype, s->in[k].shape};
      if (s->cut[k]) in[k].shape.dim[0] = most;
    }
    for (int k = 0; k < n->op->n_out; k++) {
      types[k] = (od_type){s->out[k].dtype, s->out[k].shape};
      types[k].shape.dim[0] = most;
    }
    od_infer c = {n, n->params, n->n_in, n->op->n_out, in, present, types};
    s->scratch = (n->op->scratch(&c) + OD_ALIGN - 1) / OD_ALIGN * OD_ALIGN;
  }
  d->scratch = s->scratch * (size_t)s->chunks + sizeof(od_status) * (size_t)s->chunks + OD_MESSAGE_MAX;
  d->label = "ref, rows on threads";
  return OD_OK;
}

typedef struct {
  const self *s;
  const od_cpu_call *c;
  od_status *status;
  char *message; /* of the first part that failed */
} job;

static void part(const void *args, int chunk, int64_t begin, int64_t end) {
  const job *j = args;
  const self *s = j->s;
  od_tensor in[INPUTS], out[OUTPUTS];
  for (int k = 0; k < s->node->n_in; k++) {
    in[k] = s->in[k];
    in[k].data = j->c->in[k];
    if (!s->cut[k]) continue;
    in[k].shape.dim[0] = end - begin;
    in[k].data = (char *)j->c->in[k] + s->in_step[k] * (size_t)begin;
  }
  for (int k = 0; k < s->node->op->n_out; k++) {
    out[k] = s->out[k];
    out[k].shape.dim[0] = end - begin;
    out[k].data = (char *)j->c->out[k] + s->out_step[k] * (size_t)begin;
  }
  od_call call = {s->node->params, s->node->n_in, s->node->op->n_out, in, out, j->c->scratch + s->scratch * (size_t)chunk, j->c->key};
  j->status[chunk] = s->node->op->ref(&call);
  if (j->status[chunk] == OD_OK) return;
#pragma omp critical(od_cpu_rows_message)
  {
    strncpy(j->message, od_message(), OD_MESSAGE_MAX - 1);
    j->message[OD_MESSAGE_MAX - 1] = 0;
  }
}

static od_status run(void *self_, const od_cpu_call *c) {
  const self *s = self_;
  job j = {s, c, (od_status *)(void *)(c->scratch + s->scratch * (size_t)s->chunks), NULL};
  j.message = (char *)(j.status + s->chunks);
  od_cpu_for(s->chunks, s->rows, part, &j);
  for (int t = 0; t < s->chunks; t++)
    if (j.status[t] != OD_OK) return od_fail_take(j.status[t], j.message);
  return OD_OK;
}

const od_cpu_kernel od_cpu_rows = {.name = "rows", .ops = names, .match = match, .create = create, .run = run};
