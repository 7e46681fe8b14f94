/* V1 checkpoints: one table whose key "" lists the tensors (SavedTensorSliceMeta) and whose other keys hold slices with their
 * values as numbers of a TensorProto. TensorFlow's own savers wrote them until 2017; the table's CRCs guard the values. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "io/bundle_file.h"
#include "io/wire.h"

/* SavedSliceMeta: 1 name, 2 shape, 3 type, 4 slice (repeated). */
static od_status add_tensor(od_bundle *b, od_view bytes) {
  od_wire w = od_wire_over(bytes);
  od_wire_field f;
  od_view name = {0};
  od_shape shape = {0};
  size_t slices = 0, n = 0;
  int type = 0;
  bool fine = true;
  while (od_wire_next(&w, &f)) {
    if (od_wire_is(&f, 1, OD_WIRE_BYTES)) name = f.bytes;
    if (od_wire_is(&f, 2, OD_WIRE_BYTES)) fine = fine && od_shape_parse(&shape, f.bytes);
    if (od_wire_is(&f, 3, OD_WIRE_VARINT)) type = f.value < 1000 ? (int)f.value : 1000;
    if (od_wire_is(&f, 4, OD_WIRE_BYTES)) slices++;
  }
  if (w.bad || !fine || !name.size || !slices || memchr(name.data, 0, name.size))
    return od_fail(OD_EDATA, "%s: the list of its tensors is damaged behind the %zuth", b->prefix, b->count);
  od_bundle_item *item;
  char *copy = od_arena_alloc(b->arena, name.size + 1);
  if (!copy) return OD_ENOMEM;
  memcpy(copy, name.data, name.size);
  OD_TRY(od_bundle_new_item(b, &item));
  item->seen.name = copy;
  item->seen.slices = slices;
  OD_TRY(od_bundle_set_type(b, item, type, &shape));
  item->slices = od_arena_alloc(b->arena, slices * sizeof *item->slices);
  if (!item->slices) return OD_ENOMEM;
  for (w = od_wire_over(bytes); od_wire_next(&w, &f);)
    if (od_wire_is(&f, 4, OD_WIRE_BYTES) && !od_slice_parse(&item->slices[n++], f.bytes))
      return od_fail(OD_EDATA, "%s: tensor '%s': slice %zu is damaged", b->prefix, copy, n - 1);
  return OD_OK;
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const od_bundle_item *)a)->seen.name, ((const od_bundle_item *)b)->seen.name);
}

od_status od_bundle_v1_open(od_bundle *b) {
  OD_TRY(od_file_map(&b->map, b->prefix));
  if (!od_table_probe(b->map))
    return od_fail(
        OD_EDATA, "%s is no checkpoint: there is no %s.index, and the file itself does not end as a V1 checkpoint does",
        b->prefix, b->prefix);
  od_view value;
  OD_TRY(od_table_open(&b->table, b->map, b->prefix));
  OD_TRY(od_table_get(b->table, (od_view){0}, &value));
  od_wire w = od_wire_over(value), meta;
  od_wire_field f, g;
  while (od_wire_next(&w, &f)) { /* SavedTensorSlices: 1 meta {1 tensor (repeated)}, 2 data */
    if (!od_wire_is(&f, 1, OD_WIRE_BYTES)) continue;
    meta = od_wire_over(f.bytes);
    while (od_wire_next(&meta, &g))
      if (od_wire_is(&g, 1, OD_WIRE_BYTES)) OD_TRY(add_tensor(b, g.bytes));
    if (meta.bad) w.bad = true;
  }
  if (w.bad || b->count == 0) return od_fail(OD_EDATA, "%s: the list of its tensors is damaged or empty", b->prefix);
  qsort(b->items, b->count, sizeof *b->items, by_name);
  /* One slice that is everything is how V1 says "whole". */
  return OD_OK;
}

/* ------------------------------------------------------------------------------------------------------------ values */
/* Field of TensorProto that holds the values of a type, and their wire type: 0 varint, 1 double, 5 float. */
static bool field_of(od_dtype dtype, uint32_t *number, int *type) {
  *type = OD_WIRE_VARINT;
  switch (dtype) {
  case OD_F32: *number = 5, *type = OD_WIRE_FIXED32; return true;
  case OD_F64: *number = 6, *type = OD_WIRE_FIXED64; return true;
  case OD_I32:
  case OD_U8:
  case OD_I8: *number = 7; return true;
  case OD_I64: *number = 10; return true;
  case OD_BOOL: *number = 11; return true;
  case OD_BF16:
  case OD_F16: *number = 13; return true;
  default: return false;
  }
}

/* All our types are little-endian in memory, so the low bytes of the value are the element. */
static void put_value(uint8_t *to, uint64_t v, size_t size) {
  for (size_t i = 0; i < size; i++) to[i] = (uint8_t)(v >> 8 * i);
}

/* Writes up to n elements; returns how many there were, n + 1 when there are more or the bytes are damaged. */
static size_t decode_values(uint8_t *to, size_t n, od_dtype dtype, od_view proto) {
  uint32_t number;
  int type;
  size_t size = od_dtype_size(dtype), count = 0;
  if (!field_of(dtype, &number, &type)) return n + 1;
  od_wire w = od_wire_over(proto);
  od_wire_field f;
  while (od_wire_next(&w, &f)) {
    if (f.number != number) continue;
    if (f.type == type) {
      if (count == n) return n + 1;
      put_value(to + count++ * size, f.value, size);
    } else if (f.type == OD_WIRE_BYTES) {
      od_wire run = od_wire_over(f.bytes);
      size_t step = type == OD_WIRE_FIXED32 ? 4 : 8;
      while (run.at < run.end) {
        uint64_t v = 0;
        if (type == OD_WIRE_VARINT) {
          if (!od_wire_varint(&v, &run)) return n + 1;
        } else {
          if ((size_t)(run.end - run.at) < step) return n + 1;
          v = step == 4 ? od_load_u32(run.at) : od_load_u64(run.at);
          run.at += step;
        }
        if (count == n) return n + 1;
        put_value(to + count++ * size, v, size);
      }
    }
  }
  return w.bad ? n + 1 : count;
}

/* Strings of a slice that is the whole tensor (field 8, repeated). */
static od_status take_strings(od_tensor *t, od_view proto, size_t *count) {
  od_wire w = od_wire_over(proto);
  od_wire_field f;
  *count = 0;
  while (od_wire_next(&w, &f)) {
    if (!od_wire_is(&f, 8, OD_WIRE_BYTES)) continue;
    if ((int64_t)*count < od_tensor_size(t))
      OD_TRY(od_tensor_set_bytes(t, (int64_t)*count, f.bytes.data, f.bytes.size));
    (*count)++;
  }
  return OD_OK;
}

/* The TensorProto of a slice's value: SavedTensorSlices{2 data: SavedSlice{1 name, 2 slice, 3 data}}. */
static bool find_proto(od_view *out, od_view value) {
  od_wire w = od_wire_over(value), d;
  od_wire_field f, g;
  bool found = false;
  while (od_wire_next(&w, &f)) {
    if (!od_wire_is(&f, 2, OD_WIRE_BYTES)) continue;
    d = od_wire_over(f.bytes);
    while (od_wire_next(&d, &g))
      if (od_wire_is(&g, 3, OD_WIRE_BYTES)) *out = g.bytes, found = true;
  }
  return found;
}

static od_status read_slice(od_bundle *b, const od_bundle_item *item, od_slice s, od_tensor *t) {
  od_str key = OD_STR_INIT;
  od_view value, proto;
  size_t bytes, count = 0;
  od_status st;
  uint8_t *raw = NULL;
  od_slice_key(&key, item->seen.name, &s);
  OD_GO(st, od_str_check(&key));
  st = od_table_get(b->table, (od_view){(const uint8_t *)key.data, key.len}, &value);
  if (st == OD_ENOENT) st = od_fail(OD_EDATA, "%s: tensor '%s': a slice of it is missing", b->prefix, item->seen.name);
  OD_GO(st, st);
  (void)od_slice_resolve(&s, &t->shape); /* fits: checked for all slices before */
  od_shape shape = od_slice_shape(&s);
  size_t n = (size_t)od_shape_size(&shape);
  OD_GO(st, od_shape_bytes(&bytes, &shape, t->dtype));
  bool found = find_proto(&proto, value), whole = item->seen.slices == 1;
  if (found && t->dtype == OD_STRING && whole) {
    OD_GO(st, take_strings(t, proto, &count));
  } else if (found && t->dtype != OD_STRING) {
    raw = od_calloc(bytes ? bytes : 1, 1);
    OD_GO(st, raw ? OD_OK : OD_ENOMEM);
    count = decode_values(raw, n, t->dtype, proto);
  }
  if (!found || count != n)
    st = od_fail(OD_EDATA, "%s: tensor '%s': a slice of %zu values is damaged or has another number of them", b->prefix,
                 item->seen.name, n);
  else if (raw && n > 0)
    od_slice_copy(t->data, &t->shape, raw, &s, od_dtype_size(t->dtype));
done:
  od_free(raw);
  od_str_free(&key);
  return st;
}

od_status od_bundle_v1_read(od_bundle *b, const od_bundle_item *item, od_tensor *t) {
  for (size_t i = 0; i < item->seen.slices; i++) OD_TRY(read_slice(b, item, item->slices[i], t));
  return OD_OK;
}
