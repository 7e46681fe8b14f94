/* Attributes and TensorProtos, read from the mapped bytes when they are asked for. AttrValue: list = 1, s = 2, i = 3, f = 4,
 * b = 5, type = 6, shape = 7, tensor = 8. The value of a field given twice is the last one, as in protobuf. */
#include <string.h>

#include "io/wire.h"
#include "tfgraph/graph_impl.h"

const od_view *tg_attr_find(const tg_node *n, const char *name) {
  for (int i = 0; i < n->n_attrs; i++)
    if (strcmp(n->attrs[i].name, name) == 0) return &n->attrs[i].value;
  return NULL;
}

static bool find_field(od_wire_field *out, const tg_node *n, const char *name, uint32_t number, int type) {
  const od_view *v = tg_attr_find(n, name);
  if (!v) return false;
  od_wire w = od_wire_over(*v);
  od_wire_field f;
  bool found = false;
  while (od_wire_next(&w, &f))
    if (od_wire_is(&f, number, type)) *out = f, found = true;
  return found && !w.bad;
}

bool tg_attr_bool(const tg_node *n, const char *name, bool otherwise) {
  od_wire_field f;
  if (find_field(&f, n, name, 5, OD_WIRE_VARINT)) return f.value != 0;
  return otherwise;
}

int64_t tg_attr_int(const tg_node *n, const char *name, int64_t otherwise) {
  od_wire_field f;
  return find_field(&f, n, name, 3, OD_WIRE_VARINT) ? (int64_t)f.value : otherwise;
}

float tg_attr_float(const tg_node *n, const char *name, float otherwise) {
  od_wire_field f;
  return find_field(&f, n, name, 4, OD_WIRE_FIXED32) ? od_wire_float(&f) : otherwise;
}

int tg_attr_type(const tg_node *n, const char *name) {
  od_wire_field f;
  return find_field(&f, n, name, 6, OD_WIRE_VARINT) && f.value < 1000 ? (int)f.value : 0;
}

od_view tg_attr_text(const tg_node *n, const char *name) {
  od_wire_field f;
  return find_field(&f, n, name, 2, OD_WIRE_BYTES) ? f.bytes : (od_view){NULL, 0};
}

bool tg_attr_is(const tg_node *n, const char *name, const char *text) {
  return od_view_is(tg_attr_text(n, name), text);
}

/* Walks a list of varints, packed or not; element `want` goes to *out. Returns how many there are. */
static int list_varints(const tg_node *n, const char *name, uint32_t number, int64_t *out, int max) {
  od_wire_field list, f;
  int count = 0;
  if (!find_field(&list, n, name, 1, OD_WIRE_BYTES)) return 0;
  od_wire w = od_wire_over(list.bytes);
  while (od_wire_next(&w, &f)) {
    if (f.number != number) continue;
    if (f.type == OD_WIRE_VARINT) {
      if (count < max) out[count] = (int64_t)f.value;
      count++;
    } else if (f.type == OD_WIRE_BYTES) {
      od_wire packed = od_wire_over(f.bytes);
      uint64_t v;
      while (packed.at != packed.end && od_wire_varint(&v, &packed)) {
        if (count < max) out[count] = (int64_t)v;
        count++;
      }
    }
  }
  return count;
}

int tg_attr_ints(const tg_node *n, const char *name, int64_t *out, int max) {
  return list_varints(n, name, 3, out, max);
}
int tg_attr_types(const tg_node *n, const char *name) { return list_varints(n, name, 6, NULL, 0); }

int tg_attr_type_at(const tg_node *n, const char *name, int i) {
  int64_t v[TG_MAX_OUT];
  int count = list_varints(n, name, 6, v, TG_MAX_OUT);
  return i < count && i < TG_MAX_OUT && v[i] >= 0 && v[i] < 1000 ? (int)v[i] : 0;
}

od_status tg_parse_shape(od_shape *out, od_view bytes) {
  od_wire w = od_wire_over(bytes);
  od_wire_field f;
  od_shape s = {0};
  bool unknown = false;
  while (od_wire_next(&w, &f)) {
    if (od_wire_is(&f, 3, OD_WIRE_VARINT)) unknown = f.value != 0;
    if (!od_wire_is(&f, 2, OD_WIRE_BYTES)) continue;
    od_wire dim = od_wire_over(f.bytes);
    od_wire_field d;
    int64_t size = 0;
    while (od_wire_next(&dim, &d))
      if (od_wire_is(&d, 1, OD_WIRE_VARINT)) size = (int64_t)d.value;
    if (dim.bad || s.rank == OD_MAX_RANK || size < -1)
      return od_fail(OD_EDATA, "a damaged shape, or of rank above %d", OD_MAX_RANK);
    s.dim[s.rank++] = size;
  }
  if (w.bad) return od_fail(OD_EDATA, "a damaged shape");
  if (unknown) s.rank = -1;
  *out = s;
  return OD_OK;
}

bool tg_attr_shape(const tg_node *n, const char *name, od_shape *out) {
  od_wire_field f;
  return find_field(&f, n, name, 7, OD_WIRE_BYTES) && tg_parse_shape(out, f.bytes) == OD_OK;
}

static bool list_bytes(const tg_node *n, const char *name, uint32_t number, int i, od_view *out) {
  od_wire_field list, f;
  if (!find_field(&list, n, name, 1, OD_WIRE_BYTES)) return false;
  od_wire w = od_wire_over(list.bytes);
  while (od_wire_next(&w, &f)) {
    if (!od_wire_is(&f, number, OD_WIRE_BYTES) || i-- > 0) continue;
    *out = f.bytes;
    return true;
  }
  return false;
}

bool tg_attr_shape_at(const tg_node *n, const char *name, int i, od_shape *out) {
  od_view v;
  return list_bytes(n, name, 7, i, &v) && tg_parse_shape(out, v) == OD_OK;
}

bool tg_attr_text_at(const tg_node *n, const char *name, int i, od_view *out) { return list_bytes(n, name, 2, i, out); }

/* -------------------------------------------------------------------------------------------------------- TensorProto */
/* Fields: dtype 1, tensor_shape 2, tensor_content 4, float_val 5, double_val 6, int_val 7, string_val 8, int64_val 10, bool_val 11,
 * half_val 13. */
typedef struct {
  od_dtype dtype;
  od_shape shape;
  od_view content;
  bool has_content;
} tensor_head;

static od_status parse_head(tensor_head *h, od_view bytes) {
  od_wire w = od_wire_over(bytes);
  od_wire_field f;
  uint64_t type = 0;
  *h = (tensor_head){.shape = OD_SCALAR};
  while (od_wire_next(&w, &f)) {
    if (od_wire_is(&f, 1, OD_WIRE_VARINT)) type = f.value;
    if (od_wire_is(&f, 2, OD_WIRE_BYTES)) OD_TRY(tg_parse_shape(&h->shape, f.bytes));
    if (od_wire_is(&f, 4, OD_WIRE_BYTES)) h->content = f.bytes, h->has_content = f.bytes.size > 0;
  }
  if (w.bad) return od_fail(OD_EDATA, "a damaged tensor");
  if (type > 1000 || !od_dtype_from_tf(&h->dtype, (int)type))
    return od_fail(OD_EUNSUPPORTED, "a tensor of TensorFlow's data type %llu, which is not supported",
                   (unsigned long long)type);
  if (!od_shape_known(&h->shape)) return od_fail(OD_EDATA, "a constant of unknown shape");
  size_t need;
  return od_shape_bytes(&need, &h->shape, h->dtype);
}

od_status tg_parse_tensor_type(od_dtype *dtype, od_shape *shape, od_view bytes) {
  tensor_head h;
  OD_TRY(parse_head(&h, bytes));
  *dtype = h.dtype;
  *shape = h.shape;
  return OD_OK;
}

/* One number of a typed list into element i. */
static void put_number(od_tensor *t, int64_t i, const od_wire_field *f, uint64_t bits) {
  float x;
  uint32_t low = (uint32_t)bits;
  switch (t->dtype) {
  case OD_F32: memcpy(&x, &low, sizeof x), ((float *)t->data)[i] = x; break;
  case OD_F64: memcpy((double *)t->data + i, &bits, sizeof bits); break;
  case OD_I32: ((int32_t *)t->data)[i] = (int32_t)(int64_t)bits; break;
  case OD_I64: ((int64_t *)t->data)[i] = (int64_t)bits; break;
  case OD_U8:
  case OD_I8: ((uint8_t *)t->data)[i] = (uint8_t)bits; break;
  case OD_BOOL: ((uint8_t *)t->data)[i] = bits != 0; break;
  case OD_F16:
  case OD_BF16: ((uint16_t *)t->data)[i] = (uint16_t)bits; break;
  default: (void)f; break;
  }
}

/* Typed lists: fewer values than elements repeat the last one, none at all means zeros. */
static od_status parse_list(od_tensor *t, od_view bytes) {
  static const struct {
    od_dtype dtype;
    uint32_t field;
    int wire;
  } fields[] = {{OD_F32, 5, OD_WIRE_FIXED32},  {OD_F64, 6, OD_WIRE_FIXED64}, {OD_I32, 7, OD_WIRE_VARINT},
                {OD_U8, 7, OD_WIRE_VARINT},    {OD_I8, 7, OD_WIRE_VARINT},   {OD_I64, 10, OD_WIRE_VARINT},
                {OD_BOOL, 11, OD_WIRE_VARINT}, {OD_F16, 13, OD_WIRE_VARINT}, {OD_BF16, 13, OD_WIRE_VARINT},
                {OD_STRING, 8, OD_WIRE_BYTES}};
  int64_t n = od_tensor_size(t), got = 0;
  size_t k = 0;
  while (fields[k].dtype != t->dtype) k++;
  od_wire w = od_wire_over(bytes);
  od_wire_field f;
  while (od_wire_next(&w, &f)) {
    if (f.number != fields[k].field) continue;
    if (t->dtype == OD_STRING) {
      if (f.type != OD_WIRE_BYTES) continue;
      if (got < n) OD_TRY(od_tensor_set_bytes(t, got, f.bytes.data, f.bytes.size));
      got++;
    } else if (f.type == fields[k].wire) {
      if (got < n) put_number(t, got, &f, f.value);
      got++;
    } else if (f.type == OD_WIRE_BYTES) {
      od_wire packed = od_wire_over(f.bytes);
      while (packed.at != packed.end) {
        uint64_t v;
        size_t step = fields[k].wire == OD_WIRE_FIXED32 ? 4 : 8;
        if (fields[k].wire == OD_WIRE_VARINT) {
          if (!od_wire_varint(&v, &packed)) break;
        } else {
          if ((size_t)(packed.end - packed.at) < step) {
            packed.bad = true;
            break;
          }
          v = step == 4 ? od_load_u32(packed.at) : od_load_u64(packed.at);
          packed.at += step;
        }
        if (got < n) put_number(t, got, &f, v);
        got++;
      }
      if (packed.bad) return od_fail(OD_EDATA, "a damaged list of numbers in a tensor");
    }
  }
  if (got > n) return od_fail(OD_EDATA, "a tensor of %lld elements with %lld values", (long long)n, (long long)got);
  if (got == 0) return OD_OK;
  size_t size = od_dtype_size(t->dtype);
  for (int64_t i = got; i < n; i++) {
    if (t->dtype == OD_STRING) {
      const od_bytes *last = (const od_bytes *)t->data + got - 1;
      OD_TRY(od_tensor_set_bytes(t, i, last->data, last->size));
    } else {
      memcpy((char *)t->data + (size_t)i * size, (char *)t->data + (size_t)(got - 1) * size, size);
    }
  }
  return OD_OK;
}

od_status tg_parse_tensor(tg_value *out, od_view bytes, bool in_place) {
  tensor_head h;
  OD_TRY(parse_head(&h, bytes));
  *out = (tg_value){.t = {h.dtype, h.shape, NULL}};
  size_t need;
  OD_TRY(od_shape_bytes(&need, &h.shape, h.dtype));
  if (h.has_content) {
    if (h.dtype == OD_STRING || h.content.size != need) {
      char text[OD_SHAPE_TEXT];
      return od_fail(OD_EDATA, "a tensor %s of %s needs %zu bytes, its content has %zu", od_shape_text(text, &h.shape),
                     od_dtype_name(h.dtype), need, h.content.size);
    }
    if (in_place && (uintptr_t)h.content.data % od_dtype_size(h.dtype) == 0) {
      out->t.data = (void *)(uintptr_t)h.content.data;
      return OD_OK;
    }
  } else if (need > (size_t)1 << 33) {
    /* a few bytes of file must not ask for any amount of memory */
    return od_fail(OD_EDATA, "a constant of %zu bytes made of one repeated value", need);
  }
  tg_buf *buf;
  OD_TRY(od_new(&buf, 1, sizeof *buf));
  od_status st = od_tensor_new(&out->t, h.dtype, &h.shape);
  if (st == OD_OK && h.has_content)
    memcpy(out->t.data, h.content.data, need);
  else if (st == OD_OK)
    st = parse_list(&out->t, bytes);
  if (st != OD_OK) {
    od_tensor_free(&out->t);
    od_free(buf);
    return st;
  }
  *buf = (tg_buf){
      .refs = 1, .data = out->t.data, .size = need, .strings = h.dtype == OD_STRING ? od_shape_size(&h.shape) : 0};
  out->buf = buf;
  return OD_OK;
}
