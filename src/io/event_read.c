/* Reading event files, see event.h: one record at a time, nothing copied. */
#include <string.h>

#include "io/event.h"

od_status od_event_parse(od_event *out, od_view record) {
  static const od_event_kind kinds[10] = {[3] = OD_EVENT_VERSION,
                                          [4] = OD_EVENT_GRAPH,
                                          [5] = OD_EVENT_SUMMARY,
                                          [7] = OD_EVENT_SESSION,
                                          [9] = OD_EVENT_META_GRAPH};
  od_wire w = od_wire_over(record);
  od_wire_field f;
  bool timed = false;
  *out = (od_event){0};
  while (od_wire_next(&w, &f)) {
    if (od_wire_is(&f, 1, OD_WIRE_FIXED64)) out->wall_time = od_wire_double(&f), timed = true;
    if (od_wire_is(&f, 2, OD_WIRE_VARINT)) out->step = (int64_t)f.value;
    if (f.type == OD_WIRE_BYTES && f.number >= 3 && f.number < 10) {
      out->kind = kinds[f.number];
      out->payload = f.bytes;
    }
  }
  if (w.bad || !timed) return od_fail(OD_EDATA, "these %zu bytes are no Event", record.size);
  return OD_OK;
}

static void parse_image(od_summary_value *v, od_view bytes) {
  od_wire w = od_wire_over(bytes);
  od_wire_field f;
  while (od_wire_next(&w, &f)) {
    if (od_wire_is(&f, 1, OD_WIRE_VARINT)) v->height = (int64_t)f.value;
    if (od_wire_is(&f, 2, OD_WIRE_VARINT)) v->width = (int64_t)f.value;
    if (od_wire_is(&f, 4, OD_WIRE_BYTES)) v->encoded = f.bytes;
  }
}

static void parse_histogram(od_summary_value *v, od_view bytes) {
  od_wire w = od_wire_over(bytes);
  od_wire_field f;
  while (od_wire_next(&w, &f)) {
    if (f.type != OD_WIRE_FIXED64) continue;
    if (f.number == 1) v->min = od_wire_double(&f);
    if (f.number == 2) v->max = od_wire_double(&f);
    if (f.number == 3) v->count = od_wire_double(&f);
    if (f.number == 4) v->sum = od_wire_double(&f);
  }
}

/* TensorProto of a TF2 scalar: float_val (5), or its four bytes as tensor_content (4). */
static bool parse_scalar_tensor(double *out, od_view bytes) {
  od_wire w = od_wire_over(bytes);
  od_wire_field f;
  bool found = false;
  while (od_wire_next(&w, &f)) {
    bool raw = f.type == OD_WIRE_BYTES && (f.number == 4 || f.number == 5) && f.bytes.size == 4;
    if (raw) f.value = od_load_u32(f.bytes.data);
    if (!raw && !od_wire_is(&f, 5, OD_WIRE_FIXED32)) continue;
    *out = od_wire_float(&f);
    found = true;
  }
  return found;
}

/* SummaryMetadata: 1 plugin_data {1 plugin_name}. */
static void parse_metadata(od_summary_value *v, od_view bytes) {
  od_wire w = od_wire_over(bytes), p;
  od_wire_field f, g;
  while (od_wire_next(&w, &f)) {
    if (!od_wire_is(&f, 1, OD_WIRE_BYTES)) continue;
    p = od_wire_over(f.bytes);
    while (od_wire_next(&p, &g))
      if (od_wire_is(&g, 1, OD_WIRE_BYTES)) v->plugin = g.bytes;
  }
}

bool od_summary_next(od_wire *w, od_summary_value *value) {
  od_wire_field f, g;
  do {
    if (!od_wire_next(w, &f)) return false;
  } while (!od_wire_is(&f, 1, OD_WIRE_BYTES));
  *value = (od_summary_value){0};
  od_wire v = od_wire_over(f.bytes);
  while (od_wire_next(&v, &g)) {
    bool bytes = g.type == OD_WIRE_BYTES;
    if (bytes && g.number == 1) value->tag = g.bytes;
    if (bytes && g.number == 9) parse_metadata(value, g.bytes);
    if (od_wire_is(&g, 2, OD_WIRE_FIXED32)) value->kind = OD_VALUE_SCALAR, value->scalar = od_wire_float(&g);
    if (bytes && g.number == 4) value->kind = OD_VALUE_IMAGE, parse_image(value, g.bytes);
    if (bytes && g.number == 5) value->kind = OD_VALUE_HISTOGRAM, parse_histogram(value, g.bytes);
    if (bytes && g.number == 8)
      value->kind = parse_scalar_tensor(&value->scalar, g.bytes) ? OD_VALUE_SCALAR : OD_VALUE_TENSOR;
  }
  if (v.bad) w->bad = true;
  return !v.bad;
}
