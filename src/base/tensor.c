/* Tensors; see tensor.h. */
#include "base/tensor.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

static const struct {
  const char *name;
  size_t size;
  int tf;
} dtypes[] = {
#define X(e, name, size, tf) {name, size, tf},
    OD_DTYPE_LIST(X)
#undef X
};

const char *od_dtype_name(od_dtype dtype) { return dtypes[dtype].name; }
size_t od_dtype_size(od_dtype dtype) { return dtypes[dtype].size; }
int od_dtype_tf(od_dtype dtype) { return dtypes[dtype].tf; }

bool od_dtype_from_tf(od_dtype *out, int tf) {
  for (int i = 0; i < OD_DTYPE_COUNT; i++) {
    if (dtypes[i].tf != tf) continue;
    *out = (od_dtype)i;
    return true;
  }
  return false;
}

bool od_shape_equal(const od_shape *a, const od_shape *b) {
  if (a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++)
    if (a->dim[i] != b->dim[i]) return false;
  return true;
}

bool od_shape_known(const od_shape *s) {
  if (s->rank < 0) return false;
  for (int i = 0; i < s->rank; i++)
    if (s->dim[i] < 0) return false;
  return true;
}

int64_t od_shape_size(const od_shape *s) {
  int64_t n = 1;
  for (int i = 0; i < s->rank; i++) n *= s->dim[i];
  return n;
}

const char *od_shape_text(char *text, const od_shape *s) {
  if (s->rank < 0) return strcpy(text, "[?...]");
  size_t at = 0;
  text[at++] = '[';
  for (int i = 0; i < s->rank && i < OD_MAX_RANK; i++) {
    if (i) text[at++] = ',';
    if (s->dim[i] < 0) text[at++] = '?';
    else at += (size_t)snprintf(text + at, OD_SHAPE_TEXT - at, "%lld", (long long)s->dim[i]);
  }
  text[at++] = ']';
  text[at] = 0;
  return text;
}

od_status od_shape_bytes(size_t *out, const od_shape *s, od_dtype dtype) {
  if (s->rank < 0 || s->rank > OD_MAX_RANK)
    return od_fail(OD_EDATA, "a tensor of rank %d; at most %d is supported", s->rank, OD_MAX_RANK);
  size_t bytes = od_dtype_size(dtype);
  for (int i = 0; i < s->rank; i++) {
    if (s->dim[i] < 0 || !od_mul_ok(&bytes, bytes, (size_t)s->dim[i]) || bytes > (size_t)INT64_MAX) {
      char text[OD_SHAPE_TEXT];
      return od_fail(OD_EDATA, "impossible tensor shape %s of %s", od_shape_text(text, s), od_dtype_name(dtype));
    }
  }
  *out = bytes;
  return OD_OK;
}

int64_t od_tensor_size(const od_tensor *t) { return od_shape_size(&t->shape); }
size_t od_tensor_bytes(const od_tensor *t) { return (size_t)od_tensor_size(t) * od_dtype_size(t->dtype); }

od_status od_tensor_new(od_tensor *out, od_dtype dtype, const od_shape *shape) {
  size_t bytes;
  *out = (od_tensor){dtype, *shape, NULL};
  OD_TRY(od_shape_bytes(&bytes, shape, dtype));
  return od_new(&out->data, bytes, 1);
}

void od_tensor_free(od_tensor *t) {
  if (!t || !t->data) return;
  if (t->dtype == OD_STRING) {
    od_bytes *b = t->data;
    for (int64_t i = 0, n = od_tensor_size(t); i < n; i++) od_free(b[i].data);
  }
  od_free(t->data);
  t->data = NULL;
}

od_status od_tensor_copy(od_tensor *out, const od_tensor *t) {
  OD_TRY(od_tensor_new(out, t->dtype, &t->shape));
  if (t->dtype != OD_STRING) {
    memcpy(out->data, t->data, od_tensor_bytes(t));
    return OD_OK;
  }
  const od_bytes *b = t->data;
  for (int64_t i = 0, n = od_tensor_size(t); i < n; i++) {
    od_status st = od_tensor_set_bytes(out, i, b[i].data, b[i].size);
    if (st == OD_OK) continue;
    od_tensor_free(out);
    return st;
  }
  return OD_OK;
}

od_status od_tensor_set_bytes(od_tensor *t, int64_t i, const void *bytes, size_t n) {
  char *copy = od_alloc(n ? n : 1);
  if (!copy) return OD_ENOMEM;
  if (n) memcpy(copy, bytes, n);
  od_bytes *b = (od_bytes *)t->data + i;
  od_free(b->data);
  *b = (od_bytes){copy, n};
  return OD_OK;
}

uint16_t od_f32_to_bf16(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16) | 0x40u); /* quiet NaN */
  return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

float od_bf16_to_f32(uint16_t x) {
  uint32_t u = (uint32_t)x << 16;
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}
