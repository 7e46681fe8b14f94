/* Label maps: loading, checking, looking up. */
#include "data/label_map.h"

#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "io/file.h"
#include "io/protobuf.h"
#include "io/textproto.h"

typedef ObjectDetection__Protos__StringIntLabelMap proto;
typedef ObjectDetection__Protos__StringIntLabelMapItem item;

struct od_label_map {
  proto *message;
  od_map *by_name, *by_display; /* values: id + 1 as a pointer, so that NULL means absent */
  int max_id;
};

static const ProtobufCMessageDescriptor *type(void) {
  return &object_detection__protos__string_int_label_map__descriptor;
}

static bool is_background(const item *it) {
  return (it->name && strcmp(it->name, "background") == 0) ||
         (it->display_name && strcmp(it->display_name, "background") == 0);
}

static od_status check_item(const item *it, size_t i) {
  const char *name = it->name ? it->name : it->display_name;
  if (!name) return od_fail(OD_EINVAL, "item %zu (id %d) has neither name nor display_name", i + 1, it->id);
  if (it->id < 0) return od_fail(OD_EINVAL, "item '%s' has id %d; ids begin at 1", name, it->id);
  if (it->id == 0 && !is_background(it))
    return od_fail(OD_EINVAL, "item '%s' has %s; ids begin at 1, id 0 is reserved for an item named 'background'", name,
                   it->has_id ? "id 0" : "no id");
  return OD_OK;
}

static void *boxed(int id) { return (void *)(intptr_t)(id + 1); }
static int unboxed(const void *p) { return (int)(intptr_t)p - 1; }

static od_status index_items(od_label_map *m) {
  OD_TRY(od_map_new(&m->by_name));
  OD_TRY(od_map_new(&m->by_display));
  for (size_t i = 0; i < m->message->n_item; i++) {
    const item *it = m->message->item[i];
    OD_TRY(check_item(it, i));
    if (it->id > m->max_id) m->max_id = it->id;
    if (it->name) OD_TRY(od_map_set(m->by_name, it->name, boxed(it->id)));
    if (it->display_name) OD_TRY(od_map_set(m->by_display, it->display_name, boxed(it->id)));
  }
  return OD_OK;
}

/* Takes over the message. */
static od_status make(od_label_map **out, proto *message) {
  od_label_map *m = NULL;
  od_status st = od_new(&m, 1, sizeof *m);
  if (st != OD_OK) {
    od_proto_free(message);
    return st;
  }
  m->message = message;
  st = index_items(m);
  if (st != OD_OK) {
    od_label_map_free(m);
    return st;
  }
  *out = m;
  return OD_OK;
}

/* Text first; what is no text may be the wire format, and if it is neither, what was wrong with the text is said. */
static od_status parse(proto **out, const char *path, const char *data, size_t size) {
  od_status st = od_textproto_parse(out, type(), path, data, size, NULL);
  if (st != OD_EINVAL || memchr(data, 0, size) == NULL) {
    if (st == OD_OK || size == 0 || data[0] != 0x0a) return st; /* 0x0a: field 1, length-delimited */
  }
  char said[OD_MESSAGE_MAX];
  memcpy(said, od_message(), sizeof said);
  if (od_proto_unpack(out, type(), data, size) == OD_OK) return OD_OK;
  return od_fail_take(st, said);
}

od_status od_label_map_load(od_label_map **out, const char *path) {
  char *data;
  size_t size;
  proto *message = NULL;
  *out = NULL;
  OD_TRY(od_file_read_all(&data, &size, path, (uint64_t)1 << 28));
  od_status st = parse(&message, path, data, size);
  od_free(data);
  OD_TRY(st);
  st = make(out, message);
  if (st == OD_OK && (*out)->message->n_item == 0) {
    od_label_map_free(*out);
    *out = NULL;
    return od_fail(OD_EINVAL, "%s: the label map has no items; item { id: 1 name: 'cat' } is what one looks like",
                   path);
  }
  return od_fail_context(st, "%s", path);
}

od_status od_label_map_from_proto(od_label_map **out, const proto *message) {
  proto *copy;
  *out = NULL;
  OD_TRY(od_proto_clone(&copy, message));
  return make(out, copy);
}

void od_label_map_free(od_label_map *m) {
  if (!m) return;
  od_proto_free(m->message);
  od_map_free(m->by_name);
  od_map_free(m->by_display);
  od_free(m);
}

const proto *od_label_map_proto(const od_label_map *m) { return m->message; }
int od_label_map_max_id(const od_label_map *m) { return m->max_id; }

int od_label_map_find(const od_label_map *m, const char *text, size_t n) {
  char small[256], *key = small;
  if (n == 0) return -1;
  if (n >= sizeof small) {
    key = od_strndup(text, n);
    if (!key) return -1;
  } else {
    memcpy(small, text, n);
    small[n] = 0;
  }
  int a = unboxed(od_map_get(m->by_name, key)), b = unboxed(od_map_get(m->by_display, key));
  if (key != small) od_free(key);
  return a > b ? a : b;
}

int od_label_map_id(const od_label_map *m, const char *name) { return unboxed(od_map_get(m->by_name, name)); }

const char *od_label_map_similar(const od_label_map *m, const char *name) {
  const char *best = NULL;
  int best_distance = 1 << 30;
  for (size_t i = 0; i < m->message->n_item; i++) {
    const char *candidate = m->message->item[i]->name;
    if (!candidate || !od_did_you_mean(name, &candidate, 1)) continue;
    int d = od_edit_distance(name, candidate);
    if (d < best_distance) {
      best = candidate;
      best_distance = d;
    }
  }
  return best;
}

static const char *name_of(const item *it, bool display) {
  if (display && it->display_name) return it->display_name;
  return it->name ? it->name : it->display_name;
}

const char *od_label_map_name(const od_label_map *m, int id, bool display) {
  for (size_t i = 0; i < m->message->n_item; i++)
    if (m->message->item[i]->id == id) return name_of(m->message->item[i], display);
  return NULL;
}

void od_label_map_related(bool *in, const od_label_map *m, int id, bool descendants) {
  if (id >= 1 && id <= m->max_id) in[id] = true;
  for (size_t i = 0; i < m->message->n_item; i++) {
    const item *it = m->message->item[i];
    if (it->id != id) continue;
    size_t n = descendants ? it->n_descendant_ids : it->n_ancestor_ids;
    const int32_t *related = descendants ? it->descendant_ids : it->ancestor_ids;
    for (size_t k = 0; k < n; k++)
      if (related[k] >= 1 && related[k] <= m->max_id) in[related[k]] = true;
  }
}

od_status od_label_map_categories(od_category **out, int *count, const od_label_map *m, int max, bool display) {
  *out = NULL;
  *count = 0;
  OD_TRY(od_new(out, m->message->n_item + 1, sizeof **out));
  for (size_t i = 0; i < m->message->n_item; i++) {
    const item *it = m->message->item[i];
    bool take = it->id > 0 && it->id <= max;
    for (int k = 0; k < *count && take; k++) take = (*out)[k].id != it->id;
    if (take) (*out)[(*count)++] = (od_category){it->id, name_of(it, display)};
  }
  return OD_OK;
}
