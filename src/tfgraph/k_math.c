/* Elementwise arithmetic with NumPy's broadcasting, comparisons, logic, casts and selection. */
#include <math.h>
#include <string.h>

#include "tfgraph/kernel.h"

enum { PARALLEL_FROM = 1 << 20 };

/* Shape of a op b; strides in elements (0 where an operand is repeated). Neighbouring dimensions that both operands walk
 * alike are joined, so that the inner loop is long. */
typedef struct {
  od_shape shape; /* of the result */
  int rank;       /* joined */
  int64_t dim[OD_MAX_RANK];
  int64_t sa[OD_MAX_RANK], sb[OD_MAX_RANK];
} walk;

static od_status broadcast(const tg_call *c, const od_shape *a, const od_shape *b, walk *w) {
  int rank = a->rank > b->rank ? a->rank : b->rank;
  int64_t da[OD_MAX_RANK], db[OD_MAX_RANK];
  w->shape.rank = rank;
  w->rank = 0;
  for (int i = 0; i < rank; i++) {
    int ia = i - (rank - a->rank), ib = i - (rank - b->rank);
    da[i] = ia < 0 ? 1 : a->dim[ia];
    db[i] = ib < 0 ? 1 : b->dim[ib];
    if (da[i] != db[i] && da[i] != 1 && db[i] != 1) {
      char ta[OD_SHAPE_TEXT], tb[OD_SHAPE_TEXT];
      return tg_fail(c, "shapes %s and %s do not fit", od_shape_text(ta, a), od_shape_text(tb, b));
    }
    w->shape.dim[i] = da[i] == 1 ? db[i] : da[i];
  }
  int64_t sa = 1, sb = 1, strides_a[OD_MAX_RANK], strides_b[OD_MAX_RANK];
  for (int i = rank - 1; i >= 0; i--) {
    strides_a[i] = da[i] == 1 ? 0 : sa;
    strides_b[i] = db[i] == 1 ? 0 : sb;
    sa *= da[i];
    sb *= db[i];
  }
  for (int i = 0; i < rank; i++) {
    int64_t n = w->shape.dim[i];
    if (n == 1) continue;
    int last = w->rank - 1;
    if (last >= 0 && w->sa[last] == strides_a[i] * n && w->sb[last] == strides_b[i] * n) {
      w->dim[last] *= n;
      w->sa[last] = strides_a[i];
      w->sb[last] = strides_b[i];
      continue;
    }
    w->dim[w->rank] = n;
    w->sa[w->rank] = strides_a[i];
    w->sb[w->rank++] = strides_b[i];
  }
  if (w->rank == 0) {
    w->dim[0] = 1;
    w->sa[0] = w->sb[0] = 0;
    w->rank = 1;
  }
  return OD_OK;
}

/* Where row r (an index over all joined dimensions but the last) begins in a and b. */
static void row_at(const walk *w, int64_t r, int64_t *a, int64_t *b) {
  *a = *b = 0;
  for (int i = w->rank - 2; i >= 0; i--) {
    int64_t k = r % w->dim[i];
    r /= w->dim[i];
    *a += k * w->sa[i];
    *b += k * w->sb[i];
  }
}

enum { ADD, SUB, MUL, DIV, MAX, MIN, POW, SQDIFF, FLOORDIV, FLOORMOD, TRUNCDIV, EQ, NE, LT, LE, GT, GE, AND, OR };

typedef void (*row_function)(void *out, const void *a, int64_t sa, const void *b, int64_t sb, int64_t n);

#define ROW(name, in_t, out_t, expr)                                                                                   \
  static void name(void *out, const void *pa, int64_t sa, const void *pb, int64_t sb, int64_t n) {                     \
    const in_t *a = pa, *b = pb;                                                                                       \
    out_t *o = out;                                                                                                    \
    if (sa == 1 && sb == 1)                                                                                            \
      for (int64_t i = 0; i < n; i++) {                                                                                \
        in_t x = a[i], y = b[i];                                                                                       \
        o[i] = (out_t)(expr);                                                                                          \
      }                                                                                                                \
    else if (sa == 1 && sb == 0)                                                                                       \
      for (int64_t i = 0; i < n; i++) {                                                                                \
        in_t x = a[i], y = b[0];                                                                                       \
        o[i] = (out_t)(expr);                                                                                          \
      }                                                                                                                \
    else                                                                                                               \
      for (int64_t i = 0; i < n; i++) {                                                                                \
        in_t x = a[i * sa], y = b[i * sb];                                                                             \
        o[i] = (out_t)(expr);                                                                                          \
      }                                                                                                                \
  }

/* Integers wrap as in TensorFlow: through the unsigned type. Division by zero is found before (check_divisor). */
static int32_t floordiv32(int32_t x, int32_t y) {
  if (y == -1) return (int32_t)(0u - (uint32_t)x);
  int32_t q = x / y;
  return q - ((x % y != 0) && ((x < 0) != (y < 0)));
}
static int64_t floordiv64(int64_t x, int64_t y) {
  if (y == -1) return (int64_t)(0u - (uint64_t)x);
  int64_t q = x / y;
  return q - ((x % y != 0) && ((x < 0) != (y < 0)));
}
static int32_t floormod32(int32_t x, int32_t y) {
  return y == -1 ? 0 : x % y + ((x % y != 0 && (x % y < 0) != (y < 0)) ? y : 0);
}
static int64_t floormod64(int64_t x, int64_t y) {
  return y == -1 ? 0 : x % y + ((x % y != 0 && (x % y < 0) != (y < 0)) ? y : 0);
}
static int64_t powi(int64_t x, int64_t y) {
  uint64_t r = 1, b = (uint64_t)x;
  for (; y > 0; y >>= 1, b *= b)
    if (y & 1) r *= b;
  return (int64_t)r;
}

#define FLOATS(t, s)                                                                                                   \
  ROW(add_##t, s, s, x + y)                                                                                            \
  ROW(sub_##t, s, s, x - y)                                                                                            \
  ROW(mul_##t, s, s, x *y)                                                                                             \
  ROW(div_##t, s, s, x / y)                                                                                            \
  ROW(max_##t, s, s, x < y ? y : x)                                                                                    \
  ROW(min_##t, s, s, y < x ? y : x)                                                                                    \
  ROW(sqdiff_##t, s, s, (x - y) * (x - y))                                                                             \
  ROW(floordiv_##t, s, s, floor((double)(x / y)))
#define COMPARES(t, s)                                                                                                 \
  ROW(eq_##t, s, uint8_t, x == y)                                                                                      \
  ROW(ne_##t, s, uint8_t, x != y)                                                                                      \
  ROW(lt_##t, s, uint8_t, x < y)                                                                                       \
  ROW(le_##t, s, uint8_t, x <= y)                                                                                      \
  ROW(gt_##t, s, uint8_t, x > y)                                                                                       \
  ROW(ge_##t, s, uint8_t, x >= y)
#define INTEGERS(t, s, u)                                                                                              \
  ROW(add_##t, s, s, (u)x + (u)y)                                                                                      \
  ROW(sub_##t, s, s, (u)x - (u)y)                                                                                      \
  ROW(mul_##t, s, s, (u)x *(u)y)                                                                                       \
  ROW(max_##t, s, s, x < y ? y : x)                                                                                    \
  ROW(min_##t, s, s, y < x ? y : x)                                                                                    \
  ROW(sqdiff_##t, s, s, ((u)x - (u)y) * ((u)x - (u)y))                                                                 \
  ROW(pow_##t, s, s, powi(x, y))                                                                                       \
  ROW(truncdiv_##t, s, s, y == -1 ? (s)(0u - (u)x) : x / y)

FLOATS(f32, float)
FLOATS(f64, double)
ROW(pow_f32, float, float, powf(x, y))
ROW(pow_f64, double, double, pow(x, y))
ROW(floormod_f32, float, float, x - y * floorf(x / y))
ROW(floormod_f64, double, double, x - y * floor(x / y))
INTEGERS(i32, int32_t, uint32_t)
INTEGERS(i64, int64_t, uint64_t)
ROW(floordiv_i32, int32_t, int32_t, floordiv32(x, y))
ROW(floordiv_i64, int64_t, int64_t, floordiv64(x, y))
ROW(floormod_i32, int32_t, int32_t, floormod32(x, y))
ROW(floormod_i64, int64_t, int64_t, floormod64(x, y))
COMPARES(f32, float)
COMPARES(f64, double)
COMPARES(i32, int32_t)
COMPARES(i64, int64_t)
COMPARES(u8, uint8_t)
ROW(add_u8, uint8_t, uint8_t, x + y)
ROW(sub_u8, uint8_t, uint8_t, x - y)
ROW(mul_u8, uint8_t, uint8_t, x *y)
ROW(max_u8, uint8_t, uint8_t, x < y ? y : x)
ROW(min_u8, uint8_t, uint8_t, y < x ? y : x)
ROW(and_u8, uint8_t, uint8_t, x &&y)
ROW(or_u8, uint8_t, uint8_t, x || y)

static bool same_text(const od_bytes *a, const od_bytes *b) {
  return a->size == b->size && (!a->size || !memcmp(a->data, b->data, a->size));
}
static void eq_text(void *out, const void *pa, int64_t sa, const void *pb, int64_t sb, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    ((uint8_t *)out)[i] = same_text((const od_bytes *)pa + i * sa, (const od_bytes *)pb + i * sb);
}
static void ne_text(void *out, const void *pa, int64_t sa, const void *pb, int64_t sb, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    ((uint8_t *)out)[i] = !same_text((const od_bytes *)pa + i * sa, (const od_bytes *)pb + i * sb);
}

#define SIX(o, t)                                                                                                      \
  { o, t, NULL }
static const struct {
  int op;
  od_dtype dtype;
  row_function row;
} rows[] = {
#define FLOAT_ROWS(D, t)                                                                                               \
  {ADD, D, add_##t}, {SUB, D, sub_##t}, {MUL, D, mul_##t}, {DIV, D, div_##t}, {MAX, D, max_##t}, {MIN, D, min_##t},    \
      {POW, D, pow_##t}, {SQDIFF, D, sqdiff_##t}, {FLOORDIV, D, floordiv_##t}, {                                       \
    FLOORMOD, D, floormod_##t                                                                                          \
  }
#define COMPARE_ROWS(D, t)                                                                                             \
  {EQ, D, eq_##t}, {NE, D, ne_##t}, {LT, D, lt_##t}, {LE, D, le_##t}, {GT, D, gt_##t}, { GE, D, ge_##t }
#define INT_ROWS(D, t)                                                                                                 \
  {ADD, D, add_##t}, {SUB, D, sub_##t}, {MUL, D, mul_##t}, {MAX, D, max_##t}, {MIN, D, min_##t}, {POW, D, pow_##t},    \
      {SQDIFF, D, sqdiff_##t}, {FLOORDIV, D, floordiv_##t}, {FLOORMOD, D, floormod_##t}, {                             \
    TRUNCDIV, D, truncdiv_##t                                                                                          \
  }
    FLOAT_ROWS(OD_F32, f32),   FLOAT_ROWS(OD_F64, f64),   INT_ROWS(OD_I32, i32),     INT_ROWS(OD_I64, i64),
    COMPARE_ROWS(OD_F32, f32), COMPARE_ROWS(OD_F64, f64), COMPARE_ROWS(OD_I32, i32), COMPARE_ROWS(OD_I64, i64),
    COMPARE_ROWS(OD_U8, u8),   {EQ, OD_BOOL, eq_u8},      {NE, OD_BOOL, ne_u8},      {EQ, OD_STRING, eq_text},
    {NE, OD_STRING, ne_text},  {ADD, OD_U8, add_u8},      {SUB, OD_U8, sub_u8},      {MUL, OD_U8, mul_u8},
    {MAX, OD_U8, max_u8},      {MIN, OD_U8, min_u8},      {AND, OD_BOOL, and_u8},    {OR, OD_BOOL, or_u8},
};
#undef SIX

static od_status check_divisor(const tg_call *c, int op, const od_tensor *b) {
  if (op == POW && (b->dtype == OD_I32 || b->dtype == OD_I64)) {
    for (int64_t i = 0, n = od_tensor_size(b); i < n; i++)
      if ((b->dtype == OD_I32 ? ((const int32_t *)b->data)[i] : ((const int64_t *)b->data)[i]) < 0)
        return tg_fail(c, "an integer to a negative power");
    return OD_OK;
  }
  if (op != FLOORDIV && op != FLOORMOD && op != TRUNCDIV) return OD_OK;
  for (int64_t i = 0, n = od_tensor_size(b); i < n; i++) {
    if (b->dtype == OD_I32 && ((const int32_t *)b->data)[i] == 0) return tg_fail(c, "integer division by zero");
    if (b->dtype == OD_I64 && ((const int64_t *)b->data)[i] == 0) return tg_fail(c, "integer division by zero");
  }
  return OD_OK;
}

static od_status binary_run(tg_call *c) {
  const od_tensor *a = tg_in(c, 0), *b = tg_in(c, 1);
  int op = c->kernel->arg;
  if (op == DIV && (a->dtype == OD_I32 || a->dtype == OD_I64)) op = TRUNCDIV;
  row_function row = NULL;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].op == op && rows[i].dtype == a->dtype) row = rows[i].row;
  if (!row) return tg_unsupported(c, a->dtype);
  OD_TRY(check_divisor(c, op, b));
  walk w;
  OD_TRY(broadcast(c, &a->shape, &b->shape, &w));
  OD_TRY(tg_new_out(c, 0, tg_out_type(c, 0), &w.shape));
  size_t in_size = od_dtype_size(a->dtype), out_size = od_dtype_size(c->out[0].t.dtype);
  int64_t n = w.dim[w.rank - 1], total = od_shape_size(&w.shape);
  if (!total) return OD_OK;
  char *out = c->out[0].t.data;
  const char *pa = a->data, *pb = b->data;
  int64_t sa = w.sa[w.rank - 1], sb = w.sb[w.rank - 1];
  /* one long row is cut into pieces, many rows are shared out */
  int64_t piece = total / n > 1 ? n : 1 << 14, per_row = (n + piece - 1) / piece, jobs = total / n * per_row;
#pragma omp parallel for if (total > PARALLEL_FROM)
  for (int64_t j = 0; j < jobs; j++) {
    int64_t r = j / per_row, from = j % per_row * piece, count = n - from < piece ? n - from : piece, ia, ib;
    row_at(&w, r, &ia, &ib);
    row(out + (size_t)(r * n + from) * out_size, pa + (size_t)(ia + from * sa) * in_size, sa,
        pb + (size_t)(ib + from * sb) * in_size, sb, count);
  }
  return OD_OK;
}

/* -------------------------------------------------------------------------------------------------------------- unary */
enum {
  NEG,
  ABS,
  SIGN,
  EXP,
  LOG,
  LOG1P,
  SQRT,
  RSQRT,
  SQUARE,
  RECIPROCAL,
  SIGMOID,
  TANH,
  RELU,
  RELU6,
  ELU,
  SOFTPLUS,
  FLOOR,
  CEIL,
  ROUND,
  SIN,
  COS,
  NOT,
  ZEROS,
  ONES,
  LEAKY
};

/* Half to even whatever the rounding mode. */
static double round_even(double x) {
  double r = floor(x + 0.5);
  return r - (x + 0.5 == r && fmod(r, 2) != 0);
}

#define FLOAT_UNARY(name, s, f)                                                                                        \
  static void name(int op, s *o, const s *a, int64_t n, float alpha) {                                                 \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      s x = a[i];                                                                                                      \
      switch (op) {                                                                                                    \
      case NEG: o[i] = -x; break;                                                                                      \
      case ABS: o[i] = f##abs_(x); break;                                                                              \
      case SIGN: o[i] = (s)((x > 0) - (x < 0)); break;                                                                 \
      case EXP: o[i] = f##exp_(x); break;                                                                              \
      case LOG: o[i] = f##log_(x); break;                                                                              \
      case LOG1P: o[i] = f##log1p_(x); break;                                                                          \
      case SQRT: o[i] = f##sqrt_(x); break;                                                                            \
      case RSQRT: o[i] = (s)1 / f##sqrt_(x); break;                                                                    \
      case SQUARE: o[i] = x * x; break;                                                                                \
      case RECIPROCAL: o[i] = (s)1 / x; break;                                                                         \
      case SIGMOID: o[i] = (s)1 / ((s)1 + f##exp_(-x)); break;                                                         \
      case TANH: o[i] = f##tanh_(x); break;                                                                            \
      case RELU: o[i] = x < 0 ? 0 : x; break;                                                                          \
      case RELU6: o[i] = x < 0 ? 0 : x > 6 ? 6 : x; break;                                                             \
      case ELU: o[i] = x < 0 ? f##exp_(x) - (s)1 : x; break;                                                           \
      case SOFTPLUS: o[i] = x > 30 ? x : f##log1p_(f##exp_(x)); break;                                                 \
      case FLOOR: o[i] = (s)floor((double)x); break;                                                                   \
      case CEIL: o[i] = (s)ceil((double)x); break;                                                                     \
      case ROUND: o[i] = (s)round_even((double)x); break;                                                              \
      case SIN: o[i] = (s)sin((double)x); break;                                                                       \
      case COS: o[i] = (s)cos((double)x); break;                                                                       \
      case LEAKY: o[i] = x > 0 ? x : x * (s)alpha; break;                                                              \
      default: o[i] = op == ONES; break;                                                                               \
      }                                                                                                                \
    }                                                                                                                  \
  }
#define fabs_(x)   fabsf(x)
#define fexp_(x)   expf(x)
#define flog_(x)   logf(x)
#define flog1p_(x) log1pf(x)
#define fsqrt_(x)  sqrtf(x)
#define ftanh_(x)  tanhf(x)
#define dabs_(x)   fabs(x)
#define dexp_(x)   exp(x)
#define dlog_(x)   log(x)
#define dlog1p_(x) log1p(x)
#define dsqrt_(x)  sqrt(x)
#define dtanh_(x)  tanh(x)
FLOAT_UNARY(unary_f32, float, f)
FLOAT_UNARY(unary_f64, double, d)

#define INT_UNARY(name, s, u)                                                                                          \
  static bool name(int op, s *o, const s *a, int64_t n) {                                                              \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      s x = a[i];                                                                                                      \
      switch (op) {                                                                                                    \
      case NEG: o[i] = (s)(0u - (u)x); break;                                                                          \
      case ABS: o[i] = x < 0 ? (s)(0u - (u)x) : x; break;                                                              \
      case SIGN: o[i] = (s)((x > 0) - (x < 0)); break;                                                                 \
      case SQUARE: o[i] = (s)((u)x * (u)x); break;                                                                     \
      case RELU: o[i] = x < 0 ? 0 : x; break;                                                                          \
      case FLOOR:                                                                                                      \
      case CEIL:                                                                                                       \
      case ROUND: o[i] = x; break;                                                                                     \
      default: return false;                                                                                           \
      }                                                                                                                \
    }                                                                                                                  \
    return true;                                                                                                       \
  }
INT_UNARY(unary_i32, int32_t, uint32_t)
INT_UNARY(unary_i64, int64_t, uint64_t)

static od_status fill_like(tg_call *c, int op, const od_tensor *x) {
  OD_TRY(tg_new_out(c, 0, x->dtype, &x->shape));
  int64_t n = od_tensor_size(x);
  if (x->dtype == OD_STRING) return op == ZEROS ? OD_OK : tg_unsupported(c, x->dtype);
  memset(c->out[0].t.data, 0, (size_t)n * od_dtype_size(x->dtype));
  for (int64_t i = 0; op == ONES && i < n; i++) {
    void *o = c->out[0].t.data;
    if (x->dtype == OD_F32)
      ((float *)o)[i] = 1;
    else if (x->dtype == OD_F64)
      ((double *)o)[i] = 1;
    else if (x->dtype == OD_I32)
      ((int32_t *)o)[i] = 1;
    else if (x->dtype == OD_I64)
      ((int64_t *)o)[i] = 1;
    else
      ((uint8_t *)o)[i * (int64_t)od_dtype_size(x->dtype)] = 1;
  }
  return OD_OK;
}

static od_status unary_run(tg_call *c) {
  const od_tensor *x = tg_in(c, 0);
  int op = c->kernel->arg;
  int64_t n = od_tensor_size(x);
  if (op == ZEROS || op == ONES) return fill_like(c, op, x);
  if (x->dtype == OD_BOOL ? op != NOT : op == NOT) return tg_unsupported(c, x->dtype);
  OD_TRY(tg_new_out(c, 0, x->dtype, &x->shape));
  void *o = c->out[0].t.data;
  float alpha = op == LEAKY ? tg_attr_float(c->node, "alpha", 0.2f) : 0;
  bool done = true;
  if (x->dtype == OD_F32) {
    enum { PIECE = 1 << 13 };
#pragma omp parallel for if (n > PARALLEL_FROM)
    for (int64_t i = 0; i < n; i += PIECE)
      unary_f32(op, (float *)o + i, (const float *)x->data + i, n - i < PIECE ? n - i : PIECE, alpha);
  } else if (x->dtype == OD_F64) {
    unary_f64(op, o, x->data, n, alpha);
  } else if (x->dtype == OD_I32) {
    done = unary_i32(op, o, x->data, n);
  } else if (x->dtype == OD_I64) {
    done = unary_i64(op, o, x->data, n);
  } else if (x->dtype == OD_BOOL) {
    for (int64_t i = 0; i < n; i++) ((uint8_t *)o)[i] = !((const uint8_t *)x->data)[i];
  } else {
    done = false;
  }
  return done ? OD_OK : tg_unsupported(c, x->dtype);
}

/* --------------------------------------------------------------------------------------------------------------- cast */
/* Conversion of a double that is out of range gives the least number, as processors do; NaN too. */
static int64_t to_i64(double v) {
  return v >= -9.2233720368547758e18 && v < 9.2233720368547758e18 ? (int64_t)v : INT64_MIN;
}
static int32_t to_i32(double v) { return v > -2147483649.0 && v < 2147483648.0 ? (int32_t)v : INT32_MIN; }

static double load(const od_tensor *t, int64_t i) {
  switch (t->dtype) {
  case OD_F32: return (double)((const float *)t->data)[i];
  case OD_F64: return ((const double *)t->data)[i];
  case OD_I32: return ((const int32_t *)t->data)[i];
  case OD_I64: return (double)((const int64_t *)t->data)[i];
  case OD_BF16: return (double)od_bf16_to_f32(((const uint16_t *)t->data)[i]);
  case OD_I8: return ((const int8_t *)t->data)[i];
  default: return ((const uint8_t *)t->data)[i];
  }
}

static od_status cast_run(tg_call *c) {
  const od_tensor *x = tg_in(c, 0);
  od_dtype to = tg_out_type(c, 0);
  if (x->dtype == to) return tg_share_out(c, 0, 0, NULL);
  if (x->dtype == OD_STRING || x->dtype == OD_F16) return tg_unsupported(c, x->dtype);
  if (to == OD_STRING || to == OD_F16) return tg_unsupported(c, to);
  OD_TRY(tg_new_out(c, 0, to, &x->shape));
  void *o = c->out[0].t.data;
  int64_t n = od_tensor_size(x);
  if (x->dtype == OD_U8 && to == OD_F32) { /* pictures */
    for (int64_t i = 0; i < n; i++) ((float *)o)[i] = ((const uint8_t *)x->data)[i];
    return OD_OK;
  }
  for (int64_t i = 0; i < n; i++) {
    bool wide = x->dtype == OD_I64;
    int64_t whole = wide ? ((const int64_t *)x->data)[i] : 0;
    double v = load(x, i);
    switch (to) {
    case OD_F32: ((float *)o)[i] = wide ? (float)whole : (float)v; break;
    case OD_F64: ((double *)o)[i] = v; break;
    case OD_I32: ((int32_t *)o)[i] = wide ? (int32_t)whole : to_i32(v); break;
    case OD_I64: ((int64_t *)o)[i] = to_i64(v); break;
    case OD_BOOL: ((uint8_t *)o)[i] = v != 0; break;
    case OD_BF16: ((uint16_t *)o)[i] = od_f32_to_bf16((float)v); break;
    default: ((uint8_t *)o)[i] = (uint8_t)(wide ? whole : to_i32(v)); break;
    }
  }
  return OD_OK;
}

/* ------------------------------------------------------------------------------------------------------------- select */
/* Select: the condition has the values' shape, is one bool, or one bool a row. SelectV2 broadcasts all three. */
static od_status select_run(tg_call *c) {
  const od_tensor *p = tg_in(c, 0), *a = tg_in(c, 1), *b = tg_in(c, 2);
  size_t size = od_dtype_size(a->dtype);
  walk ab, all;
  od_shape shape = a->shape;
  od_shape cond = p->shape;
  if (c->kernel->arg) {
    OD_TRY(broadcast(c, &a->shape, &b->shape, &ab));
    OD_TRY(broadcast(c, &ab.shape, &p->shape, &all));
    shape = all.shape;
  } else {
    if (!od_shape_equal(&a->shape, &b->shape)) return tg_fail(c, "the two values have different shapes");
    bool rows_ = p->shape.rank == 1 && a->shape.rank > 0 && p->shape.dim[0] == a->shape.dim[0];
    if (!od_shape_equal(&p->shape, &a->shape) && p->shape.rank != 0 && !rows_)
      return tg_fail(c, "the condition's shape does not fit");
    if (rows_) {
      cond.rank = a->shape.rank;
      for (int i = 1; i < cond.rank; i++) cond.dim[i] = 1;
    }
  }
  walk wa, wb, wp;
  OD_TRY(broadcast(c, &shape, &a->shape, &wa)); /* strides of the second operand are what is wanted */
  OD_TRY(broadcast(c, &shape, &b->shape, &wb));
  OD_TRY(broadcast(c, &shape, &cond, &wp));
  OD_TRY(tg_new_out(c, 0, a->dtype, &shape));
  char *o = c->out[0].t.data;
  const uint8_t *pred = p->data;
  for (int64_t i = 0, n = od_shape_size(&shape); i < n; i++) {
    int64_t unused, at[3];
    const walk *w[3] = {&wa, &wb, &wp};
    for (int k = 0; k < 3; k++) {
      int64_t inner = w[k]->dim[w[k]->rank - 1];
      row_at(w[k], i / inner, &unused, &at[k]);
      at[k] += i % inner * w[k]->sb[w[k]->rank - 1];
    }
    const char *from =
        pred[at[2]] ? (const char *)a->data + (size_t)at[0] * size : (const char *)b->data + (size_t)at[1] * size;
    OD_TRY(tg_copy_elements(a->dtype, o + (size_t)i * size, from, 1));
  }
  return OD_OK;
}

#define BINARY(name, op)                                                                                               \
  { name, "T,T->T", "T", binary_run, op }
#define COMPARE(name, op)                                                                                              \
  { name, "T,T->bool", "T", binary_run, op }
#define UNARY(name, op)                                                                                                \
  { name, "T->T", "T", unary_run, op }

const tg_kernel tg_kernels_math[] = {
    BINARY("Add", ADD),
    BINARY("AddV2", ADD),
    BINARY("Sub", SUB),
    BINARY("Mul", MUL),
    BINARY("RealDiv", DIV),
    BINARY("Div", DIV),
    BINARY("TruncateDiv", TRUNCDIV),
    BINARY("FloorDiv", FLOORDIV),
    BINARY("FloorMod", FLOORMOD),
    BINARY("Maximum", MAX),
    BINARY("Minimum", MIN),
    BINARY("Pow", POW),
    BINARY("SquaredDifference", SQDIFF),
    {"Equal", "T,T->bool", "T incompatible_shape_error?", binary_run, EQ},
    {"NotEqual", "T,T->bool", "T incompatible_shape_error?", binary_run, NE},
    COMPARE("Less", LT),
    COMPARE("LessEqual", LE),
    COMPARE("Greater", GT),
    COMPARE("GreaterEqual", GE),
    {"LogicalAnd", "bool,bool->bool", "", binary_run, AND},
    {"LogicalOr", "bool,bool->bool", "", binary_run, OR},
    {"LogicalNot", "bool->bool", "", unary_run, NOT},
    UNARY("Neg", NEG),
    UNARY("Abs", ABS),
    UNARY("Sign", SIGN),
    UNARY("Exp", EXP),
    UNARY("Log", LOG),
    UNARY("Log1p", LOG1P),
    UNARY("Sqrt", SQRT),
    UNARY("Rsqrt", RSQRT),
    UNARY("Square", SQUARE),
    UNARY("Reciprocal", RECIPROCAL),
    UNARY("Inv", RECIPROCAL),
    UNARY("Sigmoid", SIGMOID),
    UNARY("Tanh", TANH),
    UNARY("Relu", RELU),
    UNARY("Relu6", RELU6),
    UNARY("Elu", ELU),
    UNARY("Softplus", SOFTPLUS),
    UNARY("Floor", FLOOR),
    UNARY("Ceil", CEIL),
    UNARY("Round", ROUND),
    UNARY("Rint", ROUND),
    UNARY("Sin", SIN),
    UNARY("Cos", COS),
    UNARY("ZerosLike", ZEROS),
    UNARY("OnesLike", ONES),
    {"LeakyRelu", "T->T", "T=float alpha?", unary_run, LEAKY},
    {"Cast", "SrcT->DstT", "SrcT DstT Truncate?", cast_run, 0},
    {"Select", "bool,T,T->T", "T", select_run, 0},
    {"SelectV2", "bool,T,T->T", "T", select_run, 1},
    {0},
};
