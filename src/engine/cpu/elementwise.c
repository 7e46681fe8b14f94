/* Elementwise ops with numpy's broadcasting. Dimensions are merged as far as all operands allow; then blocks of a row go through
 * a loop of float arrays (simd.h), with bfloat16 operands converted and spread ones filled in on the way, in the first cache. */
#include <math.h>
#include <string.h>

#include "engine/cpu/cpu.h"
#include "ops/math.h"

enum { BLOCK = 1024, OPERANDS = 3 };

/* Functions of libm: not vectors, but many threads. */
#define LIBM(X)                                                                                                       \
  X(exp, expf(x))                                                                                                     \
  X(log, logf(x))                                                                                                     \
  X(floor, floorf(x))                                                                                                 \
  X(pow, powf(x, p[0]))                                                                                               \
  X(elu, x < 0 ? expm1f(x) : x)                                                                                       \
  X(tanh, tanhf(x))
#define X(name, formula)                                                                                              \
  static void libm_##name(float *y, const float *a, const float *b, const float *c, int64_t n, const float *p) {      \
    (void)b, (void)c, (void)p;                                                                                        \
    for (int64_t i = 0; i < n; i++) {                                                                                 \
      const float x = a[i];                                                                                           \
      y[i] = formula;                                                                                                 \
    }                                                                                                                 \
  }
LIBM(X)
#undef X

static const struct {
  const char *name;
  size_t offset; /* in the table of loops; 0: from libm */
  od_simd_map libm;
} maps[] = {
#define X(name, n_in, formula) {#name, offsetof(od_cpu_simd, name), NULL},
    OD_SIMD_MAPS(X)
#undef X
#define X(name, formula) {#name, 0, libm_##name},
        LIBM(X)
#undef X
};

/* Spreading is copying with steps of 0. */
static const char *const names[] = {"broadcast_like", "reduce_sum_grad", "reduce_mean_grad",
#define X(name, n_in, formula) #name,
    OD_SIMD_MAPS(X)
#undef X
#define X(name, formula) #name,
        LIBM(X)
#undef X
            NULL};

static od_simd_map map_of(const od_cpu_simd *simd, const char *op) {
  for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
    if (strcmp(maps[i].name, op) == 0) return maps[i].libm ? maps[i].libm : *(const od_simd_map *)(const void *)((const char *)simd + maps[i].offset);
  return NULL;
}

typedef struct {
  od_simd_map map;
  float p[2];
  int n_in, rank; /* of the merged shape; the last dimension is the row */
  int64_t size, dim[OD_MAX_RANK], stride[OPERANDS][OD_MAX_RANK];
  bool bf16_in[OPERANDS], bf16_out;
  int chunks;
} self;

/* Strides of an operand that broadcasts to shape; 0 where it is spread. */
static void spread(int64_t *stride, const od_shape *from, const od_shape *to) {
  int64_t step = 1;
  for (int i = to->rank - 1, k = from->rank - 1; i >= 0; i--, k--) {
    int64_t d = k >= 0 ? from->dim[k] : 1;
    stride[i] = d == 1 ? 0 : step;
    step *= d;
  }
}

/* Merges neighbouring dimensions that all operands walk through without a jump. */
static void merge(self *s, const od_shape *shape, int64_t all[OPERANDS][OD_MAX_RANK]) {
  s->rank = 0;
  for (int i = 0; i < shape->rank; i++) {
    if (shape->dim[i] == 1) continue;
    bool joins = s->rank > 0;
    for (int k = 0; joins && k < s->n_in; k++) joins = s->stride[k][s->rank - 1] == all[k][i] * shape->dim[i];
    int at = joins ? s->rank - 1 : s->rank++;
    s->dim[at] = joins ? s->dim[at] * shape->dim[i] : shape->dim[i];
    for (int k = 0; k < s->n_in; k++) s->stride[k][at] = all[k][i];
  }
  if (s->rank == 0) { /* one element */
    s->rank = 1;
    s->dim[0] = 1;
    for (int k = 0; k < s->n_in; k++) s->stride[k][0] = 0;
  }
}

/* The shape of a reduced tensor with the summed dimensions kept as 1. */
static od_shape kept_shape(const od_reduce_params *p, const od_shape *x) {
  od_shape s = *x;
  for (int i = 0; i < s.rank && p->axes.n == 0; i++) s.dim[i] = 1;
  for (int i = 0; i < p->axes.n; i++) s.dim[p->axes.v[i] < 0 ? p->axes.v[i] + s.rank : p->axes.v[i]] = 1;
  return s;
}

static bool match_spread(od_cpu_draft *d) {
  const od_node *n = d->node;
  od_value y = {(od_node *)(uintptr_t)n, 0};
  const od_type *out = od_cpu_type(d, y), *in = od_cpu_in_type(d, 0);
  if (out->dtype != OD_F32 || in->dtype != OD_F32) return od_cpu_refuse(d, "not float32");
  self *s = od_cpu_alloc(d, sizeof *s);
  if (!s) return false;
  const bool like = od_cpu_is(n, "broadcast_like");
  const od_shape from = like ? in->shape : kept_shape(n->params, &out->shape);
  int64_t all[OPERANDS][OD_MAX_RANK];
  s->n_in = 1;
  s->size = od_shape_size(&out->shape);
  s->map = d->cpu->simd->copy;
  if (od_cpu_is(n, "reduce_mean_grad") && s->size > 0) {
    s->map = d->cpu->simd->scale;
    s->p[0] = (float)((double)od_shape_size(&from) / (double)s->size);
  }
  spread(all[0], &from, &out->shape);
  merge(s, &out->shape, all);
  s->bf16_in[0] = od_cpu_stored(d, n->in[0]) == OD_BF16;
  s->bf16_out = s->bf16_in[0] && od_cpu_wants_bf16(d);
  s->chunks = od_cpu_chunks(d->cpu, s->size, 16384);
  od_cpu_take_any(d, n->in[0]);
  od_cpu_give(d, y, s->bf16_out ? OD_BF16 : OD_F32, -1);
  d->note = s;
  return true;
}

static bool match(od_cpu_draft *d) {
  const od_node *n = d->node;
  if (od_cpu_is(n, "broadcast_like") || od_cpu_is(n, "reduce_sum_grad") || od_cpu_is(n, "reduce_mean_grad")) return match_spread(d);
  od_value y = {(od_node *)(uintptr_t)n, 0};
  const od_type *out = od_cpu_type(d, y);
  if (out->dtype != OD_F32 || n->n_in > OPERANDS) return od_cpu_refuse(d, "not float32");
  bool any_bf16 = false;
  for (int k = 0; k < n->n_in; k++) {
    if (!od_has(n->in[k]) || od_cpu_in_type(d, k)->dtype != OD_F32) return od_cpu_refuse(d, "not float32");
    any_bf16 = any_bf16 || od_cpu_stored(d, n->in[k]) == OD_BF16;
  }
  self *s = od_cpu_alloc(d, sizeof *s);
  if (!s) return false;
  int64_t all[OPERANDS][OD_MAX_RANK];
  s->map = map_of(d->cpu->simd, n->op->name);
  s->n_in = n->n_in;
  s->size = od_shape_size(&out->shape);
  s->bf16_out = any_bf16 && od_cpu_wants_bf16(d);
  int alias = -1;
  for (int k = 0; k < n->n_in; k++) {
    spread(all[k], &od_cpu_in_type(d, k)->shape, &out->shape);
    int at = od_cpu_take_any(d, n->in[k]);
    s->bf16_in[k] = od_cpu_stored(d, n->in[k]) == OD_BF16;
    if (alias < 0 && s->bf16_in[k] == s->bf16_out && od_cpu_size(d, n->in[k]) == s->size) alias = at;
  }
  merge(s, &out->shape, all);
  if (od_cpu_is(n, "scale")) {
    const od_scale_params *p = n->params;
    s->p[0] = p->factor;
    s->p[1] = p->offset;
  } else if (od_cpu_is(n, "pow")) {
    s->p[0] = ((const od_pow_params *)n->params)->exponent;
  }
  s->chunks = od_cpu_chunks(d->cpu, s->size, 16384);
  od_cpu_give(d, y, s->bf16_out ? OD_BF16 : OD_F32, alias);
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
} job;

/* Offsets of the operands at the begin of a row. */
static void row_offsets(const self *s, int64_t row, int64_t *at) {
  for (int k = 0; k < s->n_in; k++) at[k] = 0;
  for (int i = s->rank - 2; i >= 0; i--) {
    int64_t x = row % s->dim[i];
    row /= s->dim[i];
    for (int k = 0; k < s->n_in; k++) at[k] += x * s->stride[k][i];
  }
}

/* m elements of operand k as float: where they lie, or in the buffer. */
static const float *fetch(const job *j, int k, int64_t at, int64_t m, float *buffer) {
  const self *s = j->s;
  const void *data = j->c->in[k];
  if (s->stride[k][s->rank - 1] == 0) {
    float v = s->bf16_in[k] ? od_bf16_to_f32(((const uint16_t *)data)[at]) : ((const float *)data)[at];
    for (int64_t i = 0; i < m; i++) buffer[i] = v;
    return buffer;
  }
  if (!s->bf16_in[k]) return (const float *)data + at;
  j->c->cpu->simd->to_float(buffer, (const uint16_t *)data + at, m);
  return buffer;
}

static void part(const void *args, int chunk, int64_t begin, int64_t end) {
  (void)chunk;
  const job *j = args;
  const self *s = j->s;
  float buffer[OPERANDS + 1][BLOCK];
  const float *in[OPERANDS] = {NULL};
  int64_t length = s->dim[s->rank - 1], at[OPERANDS], row = -1;
  for (int64_t e = begin, m; e < end; e += m) {
    int64_t r = e / length, col = e % length;
    m = length - col < end - e ? length - col : end - e;
    if (m > BLOCK) m = BLOCK;
    if (r != row) row_offsets(s, row = r, at);
    for (int k = 0; k < s->n_in; k++) in[k] = fetch(j, k, at[k] + col * s->stride[k][s->rank - 1], m, buffer[k]);
    float *y = s->bf16_out ? buffer[OPERANDS] : (float *)j->c->out[0] + e;
    s->map(y, in[0], in[1], in[2], m, s->p);
    if (s->bf16_out) j->c->cpu->simd->to_bf16((uint16_t *)j->c->out[0] + e, y, m);
  }
}

static od_status run(void *self_, const od_cpu_call *c) {
  const self *s = self_;
  od_cpu_for(s->chunks, s->size, part, &(job){s, c});
  return OD_OK;
}

const od_cpu_kernel od_cpu_elementwise = {.name = "elementwise", .ops = names, .match = match, .create = create, .run = run};

/* ---------------------------------------------------------------------------------------------------------- conversion */
/* self: the number of elements; negative: to float32. */
typedef struct {
  const od_cpu_call *c;
  bool up;
} conversion;

static void convert_part(const void *args, int chunk, int64_t begin, int64_t end) {
  (void)chunk;
  const conversion *v = args;
  if (v->up) v->c->cpu->simd->to_float((float *)v->c->out[0] + begin, (const uint16_t *)v->c->in[0] + begin, end - begin);
  else v->c->cpu->simd->to_bf16((uint16_t *)v->c->out[0] + begin, (const float *)v->c->in[0] + begin, end - begin);
}

static od_status convert_run(void *self_, const od_cpu_call *c) {
  int64_t n = *(const int64_t *)self_, size = n < 0 ? -n : n;
  od_cpu_for(od_cpu_chunks(c->cpu, size, 32768), size, convert_part, &(conversion){c, n < 0});
  return OD_OK;
}

const od_cpu_kernel od_cpu_convert = {.name = "convert", .run = convert_run};
