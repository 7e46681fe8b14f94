/* Moving data: concat and its gradient, slice and its gradient, pad, transpose, ones and zeros. Each is a list of boxes copied from one tensor
 * into another, over ground filled before; boxes are cut by their first dimensions among threads. Values of two float types meet
 * here too: bfloat16 is widened on the way. */
#include <string.h>

#include "engine/cpu/cpu.h"
#include "ops/math.h"

/* A box: dimensions, steps in elements on both sides, begins in elements. */
typedef struct {
  int operand, rank;
  int64_t dim[OD_MAX_RANK], from[OD_MAX_RANK], to[OD_MAX_RANK];
  int64_t from_at, to_at, size;
  bool widen; /* bfloat16 to float32 */
} box;

typedef struct {
  box *boxes;
  int n;
  size_t element; /* bytes of an element of the result */
  bool fills;     /* the result is set to `value` first */
  float value;
  int64_t size;   /* of the result */
} self;

/* Row-major steps. */
static void steps_of(int64_t *step, const od_shape *s) {
  int64_t n = 1;
  for (int i = s->rank - 1; i >= 0; i--) {
    step[i] = n;
    n *= s->dim[i];
  }
}

/* Leaves out dimensions of size 1 and merges those that both sides walk through without a jump. */
static void simplify(box *b) {
  int n = 0;
  b->size = 1;
  for (int i = 0; i < b->rank; i++) {
    b->size *= b->dim[i];
    if (b->dim[i] == 1) continue;
    if (n > 0 && b->from[n - 1] == b->from[i] * b->dim[i] && b->to[n - 1] == b->to[i] * b->dim[i]) {
      b->dim[n - 1] *= b->dim[i];
      b->from[n - 1] = b->from[i];
      b->to[n - 1] = b->to[i];
      continue;
    }
    b->dim[n] = b->dim[i];
    b->from[n] = b->from[i];
    b->to[n++] = b->to[i];
  }
  if (n == 0) {
    n = 1;
    b->dim[0] = b->from[0] = b->to[0] = 1;
  }
  b->rank = n;
}

/* A box of this shape at these places of two tensors. */
static void set_box(box *b, const od_shape *shape, const od_shape *from, const int64_t *from_begin, const od_shape *to, const int64_t *to_begin) {
  steps_of(b->from, from);
  steps_of(b->to, to);
  b->rank = shape->rank;
  b->from_at = b->to_at = 0;
  for (int i = 0; i < shape->rank; i++) {
    b->dim[i] = shape->dim[i];
    b->from_at += from_begin[i] * b->from[i];
    b->to_at += to_begin[i] * b->to[i];
  }
  simplify(b);
}

static const int64_t origin[OD_MAX_RANK];

static int axis_of(const od_node *n, int rank) {
  int64_t a = ((const od_axis_params *)n->params)->axis;
  return (int)(a < 0 ? a + rank : a);
}

static void match_concat(od_cpu_draft *d, self *s, const od_type *y) {
  const od_node *n = d->node;
  const int axis = axis_of(n, y->shape.rank);
  int64_t begin[OD_MAX_RANK] = {0};
  for (int k = 0; k < n->n_in; k++) {
    const od_shape *x = &od_cpu_in_type(d, k)->shape;
    set_box(&s->boxes[s->n], x, x, origin, &y->shape, begin);
    s->boxes[s->n++].operand = k;
    begin[axis] += x->dim[axis];
  }
}

static void match_concat_grad(od_cpu_draft *d, self *s, const od_type *y) {
  const od_node *n = d->node;
  const od_shape *x = &od_cpu_in_type(d, 0)->shape;
  const int axis = axis_of(n, x->rank);
  int64_t begin[OD_MAX_RANK] = {0};
  for (int k = 1; k < n->n_in - 1; k++) begin[axis] += od_cpu_in_type(d, k)->shape.dim[axis]; /* the last one is ours */
  set_box(&s->boxes[s->n++], &y->shape, x, begin, &y->shape, origin);
}

static void match_pad(od_cpu_draft *d, self *s, const od_type *y) {
  const od_pad_params *p = d->node->params;
  const od_shape *x = &od_cpu_in_type(d, 0)->shape;
  int64_t from[OD_MAX_RANK] = {0}, to[OD_MAX_RANK] = {0};
  od_shape part = *x;
  for (int i = 0; i < x->rank; i++) {
    const int64_t before = p->amounts.v[2 * i], after = p->amounts.v[2 * i + 1];
    from[i] = before < 0 ? -before : 0;
    to[i] = before > 0 ? before : 0;
    part.dim[i] = x->dim[i] - from[i] - (after < 0 ? -after : 0);
    if (part.dim[i] < 0) part.dim[i] = 0;
  }
  set_box(&s->boxes[s->n++], &part, x, from, &y->shape, to);
  s->fills = true;
  s->value = p->value;
}

static void match_transpose(od_cpu_draft *d, self *s, const od_type *y) {
  const od_transpose_params *p = d->node->params;
  int64_t step[OD_MAX_RANK];
  box *b = &s->boxes[s->n++];
  steps_of(step, &od_cpu_in_type(d, 0)->shape);
  steps_of(b->to, &y->shape);
  b->rank = y->shape.rank;
  for (int i = 0; i < b->rank; i++) {
    b->dim[i] = y->shape.dim[i];
    b->from[i] = step[p->perm.v[i]];
  }
  simplify(b);
}

static bool match(od_cpu_draft *d) {
  const od_node *n = d->node;
  od_value v = {(od_node *)(uintptr_t)n, 0};
  const od_type *y = od_cpu_type(d, v), *x = od_cpu_in_type(d, 0);
  if (y->dtype == OD_STRING) return od_cpu_refuse(d, "strings");
  const bool ones = od_cpu_is(n, "ones_like"), zeros = od_cpu_is(n, "zeros_like");
  if (y->shape.rank == 0 && !ones && !zeros) return od_cpu_refuse(d, "a scalar");
  self *s = od_cpu_alloc(d, sizeof *s);
  if (!s) return false;
  s->boxes = od_cpu_alloc(d, sizeof *s->boxes * (size_t)n->n_in);
  if (!s->boxes) return false;
  s->element = od_dtype_size(y->dtype);
  s->size = od_shape_size(&y->shape);
  if (ones || zeros) {
    s->fills = true;
    s->value = ones;
  } else if (od_cpu_is(n, "concat")) {
    match_concat(d, s, y);
    for (int k = 0; k < n->n_in; k++) {
      s->boxes[k].widen = od_cpu_stored(d, n->in[k]) == OD_BF16 && y->dtype == OD_F32;
      od_cpu_take_any(d, n->in[k]);
    }
  } else {
    if (od_cpu_is(n, "concat_grad")) match_concat_grad(d, s, y);
    else if (od_cpu_is(n, "slice")) set_box(&s->boxes[s->n++], &y->shape, &x->shape, ((const od_slice_params *)n->params)->begin.v, &y->shape, origin);
    else if (od_cpu_is(n, "slice_grad")) set_box(&s->boxes[s->n++], &x->shape, &x->shape, origin, &y->shape, ((const od_slice_params *)n->params)->begin.v);
    else if (od_cpu_is(n, "pad")) match_pad(d, s, y);
    else match_transpose(d, s, y);
    if (od_cpu_is(n, "slice_grad")) s->fills = true;
    s->boxes[0].widen = od_cpu_stored(d, n->in[0]) == OD_BF16 && y->dtype == OD_F32;
    od_cpu_take_any(d, n->in[0]);
  }
  if (s->fills && s->value != 0 && y->dtype != OD_F32) return od_cpu_refuse(d, "filled with a number that is not float32");
  od_cpu_give(d, v, y->dtype, -1);
  d->note = s;
  return true;
}

static od_status create(void **out, od_cpu_draft *d) {
  *out = d->note;
  return OD_OK;
}

typedef struct {
  const self *s;
  const od_cpu_call *c;
  const box *b;
} job;

/* One run of m elements. */
static void line(const job *j, int64_t from, int64_t to, int64_t m) {
  const box *b = j->b;
  const size_t e = j->s->element;
  const int64_t f = b->from[b->rank - 1], t = b->to[b->rank - 1];
  char *y = (char *)j->c->out[0] + (size_t)to * e;
  if (b->widen) {
    const uint16_t *x = (const uint16_t *)j->c->in[b->operand] + from;
    if (f == 1 && t == 1) j->c->cpu->simd->to_float((float *)(void *)y, x, m);
    else
      for (int64_t i = 0; i < m; i++) ((float *)(void *)y)[i * t] = od_bf16_to_f32(x[i * f]);
    return;
  }
  const char *x = (const char *)j->c->in[b->operand] + (size_t)from * e;
  if (f == 1 && t == 1) memcpy(y, x, e * (size_t)m);
  else if (e == 4)
    for (int64_t i = 0; i < m; i++) ((uint32_t *)(void *)y)[i * t] = ((const uint32_t *)(const void *)x)[i * f];
  else
    for (int64_t i = 0; i < m; i++) memcpy(y + (size_t)(i * t) * e, x + (size_t)(i * f) * e, e);
}

/* Elements [begin, end) of the box in row-major order. */
static void copy_part(const void *args, int chunk, int64_t begin, int64_t end) {
  (void)chunk;
  const job *j = args;
  const box *b = j->b;
  const int64_t length = b->dim[b->rank - 1];
  for (int64_t e = begin, m; e < end; e += m) {
    int64_t row = e / length, col = e % length, from = b->from_at + col * b->from[b->rank - 1], to = b->to_at + col * b->to[b->rank - 1];
    m = length - col < end - e ? length - col : end - e;
    for (int i = b->rank - 2; i >= 0; i--) {
      const int64_t x = row % b->dim[i];
      row /= b->dim[i];
      from += x * b->from[i];
      to += x * b->to[i];
    }
    line(j, from, to, m);
  }
}

static void fill_part(const void *args, int chunk, int64_t begin, int64_t end) {
  (void)chunk;
  const job *j = args;
  if (j->s->value == 0) {
    memset((char *)j->c->out[0] + (size_t)begin * j->s->element, 0, (size_t)(end - begin) * j->s->element);
    return;
  }
  float *y = j->c->out[0];
  for (int64_t i = begin; i < end; i++) y[i] = j->s->value;
}

static od_status run(void *self_, const od_cpu_call *c) {
  const self *s = self_;
  job j = {s, c, NULL};
  if (s->fills) od_cpu_for(od_cpu_chunks(c->cpu, s->size, 65536), s->size, fill_part, &j);
  for (int k = 0; k < s->n; k++) {
    j.b = &s->boxes[k];
    if (j.b->size > 0) od_cpu_for(od_cpu_chunks(c->cpu, j.b->size, 32768), j.b->size, copy_part, &j);
  }
  return OD_OK;
}

const od_cpu_kernel od_cpu_copy = {.name = "copy",
                                   .ops = (const char *const[]){"concat", "concat_grad", "slice", "slice_grad", "pad", "transpose", "ones_like",
                                                              "zeros_like", NULL},
                                   .match = match, .create = create, .run = run};
