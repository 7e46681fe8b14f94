/* Parameter structs through their tables; see params.h. */
#include "graph/params.h"

#include <string.h>

static od_status check(const od_param *p, double v) {
  if (p->min == p->max || (v >= p->min && v <= p->max)) return OD_OK;
  return od_fail(OD_EINVAL, "parameter %s is %g, allowed are %g to %g", p->name, v, p->min, p->max);
}

static od_status copy_bytes(void *field, od_arena *arena, const void *data, size_t bytes) {
  void *copy = od_arena_alloc(arena, bytes ? bytes : 1);
  if (!copy) return OD_ENOMEM;
  if (bytes) memcpy(copy, data, bytes);
  memcpy(field, &copy, sizeof copy);
  return OD_OK;
}

static od_status check_count(const od_param *p, int n) {
  return n >= 0 ? OD_OK : od_fail(OD_EINVAL, "parameter %s: a list of %d", p->name, n);
}

/* Makes one field of the copied struct own its list and checks its range. */
static od_status own_field(od_arena *arena, const od_param *p, char *field) {
  switch (p->type) {
  case OD_P_INT: return check(p, (double)*(int64_t *)(void *)field);
  case OD_P_FLOAT: return check(p, *(float *)(void *)field);
  case OD_P_INTS: {
    od_ints *l = (od_ints *)(void *)field;
    OD_TRY(check_count(p, l->n));
    for (int i = 0; i < l->n; i++) OD_TRY(check(p, (double)l->v[i]));
    return copy_bytes(&l->v, arena, l->v, sizeof *l->v * (size_t)l->n);
  }
  case OD_P_FLOATS: {
    od_floats *l = (od_floats *)(void *)field;
    OD_TRY(check_count(p, l->n));
    for (int i = 0; i < l->n; i++) OD_TRY(check(p, l->v[i]));
    return copy_bytes(&l->v, arena, l->v, sizeof *l->v * (size_t)l->n);
  }
  case OD_P_TEXT: {
    const char **t = (const char **)(void *)field;
    return copy_bytes(t, arena, *t ? *t : "", *t ? strlen(*t) + 1 : 1);
  }
  case OD_P_TENSOR: {
    od_tensor *t = (od_tensor *)(void *)field;
    size_t bytes;
    OD_TRY(od_shape_bytes(&bytes, &t->shape, t->dtype));
    return copy_bytes(&t->data, arena, t->data, bytes);
  }
  case OD_P_ENUM: {
    int v = *(int *)(void *)field, n = 0;
    while (p->names && p->names[n]) n++;
    return v >= 0 && v < n ? OD_OK : od_fail(OD_EINVAL, "parameter %s is %d, of %d values", p->name, v, n);
  }
  case OD_P_DTYPE: {
    int v = (int)*(od_dtype *)(void *)field;
    return v >= 0 && v < OD_DTYPE_COUNT
               ? OD_OK
               : od_fail(OD_EINVAL, "parameter %s is %d, of %d types", p->name, v, OD_DTYPE_COUNT);
  }
  case OD_P_BOOL:
  case OD_P_SHAPE: return OD_OK;
  }
  return OD_OK;
}

od_status od_params_copy(const void **out, od_arena *arena, const od_op *op, const void *params) {
  char *copy = od_arena_alloc(arena, op->params_size ? op->params_size : 1);
  if (!copy) return OD_ENOMEM;
  if (params) memcpy(copy, params, op->params_size);
  for (const od_param *p = op->params; p && p->name; p++) OD_TRY(own_field(arena, p, copy + p->offset));
  *out = copy;
  return OD_OK;
}

void od_params_text(od_str *out, const od_op *op, const void *params) {
  char shape[OD_SHAPE_TEXT];
  const char *gap = "";
  for (const od_param *p = op->params; p && p->name; p++, gap = " ") {
    const void *field = (const char *)params + p->offset;
    od_str_addf(out, "%s%s=", gap, p->name);
    switch (p->type) {
    case OD_P_INT: od_str_addf(out, "%lld", (long long)*(const int64_t *)field); break;
    case OD_P_FLOAT: od_str_addf(out, "%.9g", (double)*(const float *)field); break;
    case OD_P_BOOL: od_str_add(out, *(const bool *)field ? "true" : "false"); break;
    case OD_P_ENUM: od_str_add(out, p->names[*(const int *)field]); break;
    case OD_P_DTYPE: od_str_add(out, od_dtype_name(*(const od_dtype *)field)); break;
    case OD_P_TEXT: od_str_addf(out, "\"%s\"", *(const char *const *)field); break;
    case OD_P_SHAPE: od_str_add(out, od_shape_text(shape, field)); break;
    case OD_P_TENSOR: {
      const od_tensor *t = field;
      od_str_addf(out, "%s%s", od_dtype_name(t->dtype), od_shape_text(shape, &t->shape));
      break;
    }
    case OD_P_INTS: {
      const od_ints *l = field;
      for (int i = 0; i < l->n; i++) od_str_addf(out, "%s%lld", i ? "," : "[", (long long)l->v[i]);
      od_str_add(out, l->n ? "]" : "[]");
      break;
    }
    case OD_P_FLOATS: {
      const od_floats *l = field;
      for (int i = 0; i < l->n; i++) od_str_addf(out, "%s%.9g", i ? "," : "[", (double)l->v[i]);
      od_str_add(out, l->n ? "]" : "[]");
      break;
    }
    }
  }
}
