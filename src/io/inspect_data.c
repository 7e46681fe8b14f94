/* `inspect` of records, event files and checkpoints. */
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "io/bundle.h"
#include "io/event.h"
#include "io/example.h"
#include "io/inspect_report.h"
#include "io/record.h"

enum { MAX_KEY = 512 };

/* ------------------------------------------------------------------------------------------------------------ records */
/* What is known of one key over all records. */
typedef struct {
  int64_t records, values, least, most;
  int kinds; /* bit k: occurred as od_feature_kind k */
} feature_seen;

/* The entry of a name in a map, made when new; names are cut at MAX_KEY. */
static od_status entry_of(void **out, od_map *map, od_arena *arena, od_view name, size_t size) {
  char text[MAX_KEY];
  size_t n = name.size < sizeof text - 1 ? name.size : sizeof text - 1;
  memcpy(text, name.data, n);
  text[n] = 0;
  *out = od_map_get(map, text);
  if (*out) return OD_OK;
  *out = od_arena_alloc(arena, size);
  return *out ? od_map_set(map, text, *out) : OD_ENOMEM;
}

static od_status count_features(od_map *map, od_arena *arena, const od_example *ex) {
  for (size_t i = 0; i < ex->count; i++) {
    const od_feature *f = &ex->features[i];
    void *entry;
    OD_TRY(entry_of(&entry, map, arena, f->key, sizeof(feature_seen)));
    feature_seen *seen = entry;
    int64_t n = (int64_t)f->count;
    if (seen->records == 0 || n < seen->least) seen->least = n;
    if (n > seen->most) seen->most = n;
    seen->records++;
    seen->values += n;
    seen->kinds |= 1 << f->kind;
  }
  return OD_OK;
}

/* Indices of a map's keys in the order of their bytes. */
static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static od_status sorted_keys(const char ***out, const od_map *map) {
  size_t n = od_map_size(map);
  OD_TRY(od_new(out, n, sizeof **out));
  for (size_t i = 0; i < n; i++) (*out)[i] = od_map_key(map, i);
  if (n > 1) qsort(*out, n, sizeof **out, by_text);
  return OD_OK;
}

static od_status report_features(od_inspect_report *r, const od_map *map) {
  const char **keys;
  OD_TRY(sorted_keys(&keys, map));
  od_inspect_list(r, "features");
  for (size_t i = 0; i < od_map_size(map); i++) {
    const feature_seen *seen = od_map_get(map, keys[i]);
    od_str type = OD_STR_INIT;
    for (int k = 1; k < 4; k++)
      if (seen->kinds & 1 << k)
        od_str_addf(&type, "%s%s", type.len ? "|" : "", od_feature_kind_name((od_feature_kind)k));
    od_inspect_row(r);
    od_inspect_cstr(r, "key", keys[i]);
    od_inspect_cstr(r, "type", type.len ? od_str_text(&type) : "none");
    od_inspect_int(r, "records", seen->records);
    od_inspect_int(r, "values", seen->values);
    od_inspect_int(r, "least", seen->least);
    od_inspect_int(r, "most", seen->most);
    od_inspect_row_end(r);
    od_str_free(&type);
  }
  od_inspect_list_end(r);
  od_free(keys);
  return OD_OK;
}

static const char *packing(od_record_compression c) {
  return c == OD_RECORD_GZIP ? "gzip" : c == OD_RECORD_ZLIB ? "zlib" : "none";
}

od_status od_inspect_records(od_inspect_report *r, const char *path) {
  od_record_reader *reader = NULL;
  od_map *map = NULL;
  od_arena *arena = NULL;
  od_example ex = OD_EXAMPLE_INIT;
  od_view v;
  int64_t records = 0, bytes = 0, others = 0;
  od_status st;
  OD_GO(st, od_map_new(&map));
  OD_GO(st, od_arena_new(&arena));
  OD_GO(st, od_record_reader_open(&reader, path, NULL));
  while (!(st = od_record_read(reader, &v))) {
    records++;
    bytes += (int64_t)v.size;
    st = od_example_parse(&ex, v.data, v.size);
    if (st == OD_EDATA)
      others++; /* a record may hold anything */
    else if (!st)
      st = count_features(map, arena, &ex);
    if (st && st != OD_EDATA) goto done;
  }
  if (st != OD_END) goto done;
  od_inspect_cstr(r, "kind", "records");
  od_inspect_cstr(r, "compression", packing(od_record_reader_compression(reader)));
  od_inspect_int(r, "records", records);
  od_inspect_int(r, "bytes", bytes);
  if (others) od_inspect_int(r, "not_examples", others);
  st = report_features(r, map);
done:
  od_record_reader_free(reader);
  od_example_free(&ex);
  od_map_free(map);
  od_arena_free(arena);
  return st;
}

/* ------------------------------------------------------------------------------------------------------------ events */
typedef struct {
  int64_t count, first, last;
  od_value_kind kind;
  double value; /* the last scalar */
} tag_seen;

typedef struct {
  int64_t events, graphs, graph_bytes, sessions, first, last;
  double begun, ended;
} events_seen;

static od_status count_tags(od_map *map, od_arena *arena, const od_event *e) {
  od_wire w = od_wire_over(e->payload);
  od_summary_value v;
  while (od_summary_next(&w, &v)) {
    void *entry;
    OD_TRY(entry_of(&entry, map, arena, v.tag, sizeof(tag_seen)));
    tag_seen *seen = entry;
    if (seen->count++ == 0) seen->first = e->step;
    seen->last = e->step;
    seen->kind = v.kind;
    seen->value = v.scalar;
  }
  return w.bad ? od_fail(OD_EDATA, "the summary of step %lld is damaged", (long long)e->step) : OD_OK;
}

static od_status count_event(events_seen *all, od_map *map, od_arena *arena, od_view record) {
  od_event e;
  OD_TRY(od_event_parse(&e, record));
  if (all->events++ == 0) all->begun = e.wall_time;
  all->ended = e.wall_time;
  if (e.kind == OD_EVENT_GRAPH) all->graphs++, all->graph_bytes = (int64_t)e.payload.size;
  if (e.kind == OD_EVENT_SESSION) all->sessions++;
  if (e.kind != OD_EVENT_SUMMARY) return OD_OK;
  if (all->first < 0 || e.step < all->first) all->first = e.step;
  if (e.step > all->last) all->last = e.step;
  return count_tags(map, arena, &e);
}

static od_status report_tags(od_inspect_report *r, const od_map *map) {
  static const char *const kinds[] = {"other", "scalar", "image", "histogram", "tensor"};
  const char **keys;
  OD_TRY(sorted_keys(&keys, map));
  od_inspect_list(r, "tags");
  for (size_t i = 0; i < od_map_size(map); i++) {
    const tag_seen *seen = od_map_get(map, keys[i]);
    od_inspect_row(r);
    od_inspect_cstr(r, "tag", keys[i]);
    od_inspect_cstr(r, "type", kinds[seen->kind]);
    od_inspect_int(r, "count", seen->count);
    od_inspect_int(r, "first_step", seen->first);
    od_inspect_int(r, "last_step", seen->last);
    if (seen->kind == OD_VALUE_SCALAR) od_inspect_number(r, "last", seen->value);
    od_inspect_row_end(r);
  }
  od_inspect_list_end(r);
  od_free(keys);
  return OD_OK;
}

od_status od_inspect_events(od_inspect_report *r, const char *path) {
  od_record_reader *reader = NULL;
  od_map *map = NULL;
  od_arena *arena = NULL;
  od_view v;
  events_seen all = {.first = -1};
  od_status st;
  OD_GO(st, od_map_new(&map));
  OD_GO(st, od_arena_new(&arena));
  OD_GO(st, od_record_reader_open(&reader, path, NULL));
  while (!(st = od_record_read(reader, &v)))
    OD_GO(st, od_fail_context(count_event(&all, map, arena, v), "%s: record %llu", path,
                              (unsigned long long)od_record_reader_number(reader)));
  if (st != OD_END) goto done;
  od_inspect_cstr(r, "kind", "events");
  od_inspect_int(r, "events", all.events);
  od_inspect_number(r, "first_time", all.begun);
  od_inspect_number(r, "last_time", all.ended);
  od_inspect_int(r, "first_step", all.first < 0 ? 0 : all.first);
  od_inspect_int(r, "last_step", all.last);
  od_inspect_int(r, "graphs", all.graphs);
  if (all.graphs) od_inspect_int(r, "graph_bytes", all.graph_bytes);
  od_inspect_int(r, "session_logs", all.sessions);
  st = report_tags(r, map);
done:
  od_record_reader_free(reader);
  od_map_free(map);
  od_arena_free(arena);
  return st;
}

/* ------------------------------------------------------------------------------------------------------------ checkpoints */
od_status od_inspect_checkpoint(od_inspect_report *r, const char *path) {
  od_bundle *b;
  char type[16];
  int64_t parameters = 0;
  OD_TRY(od_bundle_open(&b, path));
  for (size_t i = 0; i < od_bundle_count(b); i++) parameters += od_shape_size(&od_bundle_entry_at(b, i)->shape);
  od_inspect_cstr(r, "kind", "checkpoint");
  od_inspect_cstr(r, "prefix", od_bundle_prefix(b));
  od_inspect_int(r, "version", od_bundle_is_v1(b) ? 1 : 2);
  od_inspect_int(r, "shards", od_bundle_shards(b));
  od_inspect_int(r, "elements", parameters);
  od_inspect_int(r, "tensor_count", (int64_t)od_bundle_count(b));
  od_inspect_list(r, "tensors");
  for (size_t i = 0; i < od_bundle_count(b); i++) {
    const od_bundle_entry *e = od_bundle_entry_at(b, i);
    od_inspect_row(r);
    od_inspect_cstr(r, "name", e->name);
    od_inspect_cstr(r, "dtype", od_inspect_type(type, e->tf_dtype));
    od_inspect_shape(r, "shape", &e->shape);
    if (e->slices) od_inspect_int(r, "slices", (int64_t)e->slices);
    od_inspect_row_end(r);
  }
  od_inspect_list_end(r);
  od_bundle_free(b);
  return OD_OK;
}
