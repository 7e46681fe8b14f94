/* What can be wrong with one record. Each part goes on after a finding where it can, so that one run shows everything. */
#include "data/record_examine.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "data/convert.h"
#include "image/decode.h"

typedef struct {
  od_examined *e;
  const od_record_check_options *o;
  od_status st;         /* OD_ENOMEM sticks */
  const float *side[4]; /* ymin xmin ymax xmax */
} exam;

void od_examined_reset(od_examined *e, uint64_t number) {
  od_str_clear(&e->payload);
  if (e->arena) od_arena_reset(e->arena);
  e->number = number;
  e->count = 0;
  e->source_id = NULL;
  e->digest[0] = 0;
  e->boxes = e->height = e->width = 0;
  e->classes = NULL;
}

void od_examined_free(od_examined *e) {
  od_str_free(&e->payload);
  od_example_free(&e->example);
  od_arena_free(e->arena);
  od_free(e->found);
}

static void find(exam *x, od_finding_kind kind, int box, const char *format, ...) OD_PRINTF(4, 5);
static void find(exam *x, od_finding_kind kind, int box, const char *format, ...) {
  char text[OD_MESSAGE_MAX];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  od_examined *e = x->e;
  if (x->st == OD_OK) x->st = od_grow(&e->found, &e->cap, e->count + 1, sizeof *e->found);
  char *copy = x->st == OD_OK ? od_arena_strdup(e->arena, text) : NULL;
  if (!copy) {
    x->st = OD_ENOMEM;
    return;
  }
  e->found[e->count++] = (od_found){kind, box, copy};
}

/* Getters that turn a wrong kind into a finding and an empty list. */
#define GETTER(name, type, get)                                                                                        \
  static size_t name(exam *x, const char *key, type **out) {                                                           \
    size_t n = 0;                                                                                                      \
    *out = NULL;                                                                                                       \
    od_status st = get(&x->e->example, key, out, &n);                                                                  \
    if (st == OD_EDATA) find(x, OD_FIND_KIND, -1, "%s", od_message());                                                 \
    if (st == OD_ENOMEM) x->st = st;                                                                                   \
    return st == OD_OK ? n : 0;                                                                                        \
  }
GETTER(floats, const float, od_example_get_floats)
GETTER(int64s, const int64_t, od_example_get_int64s)
GETTER(bytes, const od_view, od_example_get_bytes)

static bool view_is(const od_view *v, const char *text) {
  return v->size == strlen(text) && memcmp(v->data, text, v->size) == 0;
}

static void check_format(exam *x, od_image_format format) {
  const od_view *v;
  if (bytes(x, "image/format", &v) == 0) return;
  static const struct {
    const char *text;
    od_image_format format;
  } names[] = {{"jpeg", OD_FORMAT_JPEG}, {"jpg", OD_FORMAT_JPEG}, {"JPEG", OD_FORMAT_JPEG}, {"png", OD_FORMAT_PNG},
               {"PNG", OD_FORMAT_PNG},   {"gif", OD_FORMAT_GIF},  {"bmp", OD_FORMAT_BMP}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (view_is(v, names[i].text) && names[i].format != format)
      find(x, OD_FIND_FORMAT, -1, "image/format is '%s', but the bytes are %s; decoding goes by the bytes",
           names[i].text, od_image_format_name(format));
}

static void check_size(exam *x) {
  const int64_t *h, *w;
  size_t nh = int64s(x, "image/height", &h), nw = int64s(x, "image/width", &w);
  if (nh == 0 || nw == 0) return;
  if (h[0] != x->e->height || w[0] != x->e->width)
    find(x, OD_FIND_SIZE, -1,
         "image/width x image/height is %lld x %lld, the picture has %d x %d: are the boxes those of another size?",
         (long long)w[0], (long long)h[0], x->e->width, x->e->height);
}

static void check_picture(exam *x) {
  const od_view *v, *key;
  od_examined *e = x->e;
  if (bytes(x, "image/encoded", &v) == 0 || v[0].size == 0) {
    find(x, OD_FIND_PICTURE, -1, "image/encoded is missing or empty");
    return;
  }
  int channels;
  od_image pixels = {0};
  od_status st = x->o->fast ? od_image_size(&e->height, &e->width, &channels, v[0].data, v[0].size)
                            : od_image_decode(&pixels, v[0].data, v[0].size, 3);
  if (st == OD_ENOMEM) x->st = st;
  if (st != OD_OK) {
    e->height = e->width = 0;
    find(x, OD_FIND_PICTURE, -1, "%s", od_message());
    return;
  }
  if (!x->o->fast) {
    e->height = pixels.height;
    e->width = pixels.width;
    od_image_free(&pixels);
    od_convert_sha256(e->digest, v[0].data, v[0].size);
    if (bytes(x, "image/key/sha256", &key) > 0 && key[0].size > 0 && !view_is(key, e->digest))
      find(x, OD_FIND_SHA256, -1, "image/key/sha256 is '%.*s', the picture's is '%s'",
           (int)(key[0].size < 64 ? key[0].size : 64), (const char *)key[0].data, e->digest);
  }
  check_format(x, od_image_format_of(v[0].data, v[0].size));
  check_size(x);
  int turned = od_image_orientation(v[0].data, v[0].size);
  if (turned != 1)
    find(x, OD_FIND_ROTATION, -1,
         "EXIF orientation is %d, not 1: viewers turn the picture, training does not; turn the pixels and take the tag "
         "out",
         turned);
}

/* Number of boxes, or -1 when the sides' lists differ. */
static int read_sides(exam *x) {
  static const char *const keys[4] = {"image/object/bbox/ymin", "image/object/bbox/xmin", "image/object/bbox/ymax",
                                      "image/object/bbox/xmax"};
  size_t n[4];
  for (int k = 0; k < 4; k++) n[k] = floats(x, keys[k], &x->side[k]);
  for (int k = 1; k < 4; k++)
    if (n[k] != n[0]) {
      find(x, OD_FIND_LENGTHS, -1, "%s has %zu values, %s has %zu", keys[0], n[0], keys[k], n[k]);
      return -1;
    }
  return n[0] > 1000000 ? -1 : (int)n[0];
}

/* Of any kind: `truncated` is whole numbers in VOC's records and shares in KITTI's. */
static size_t count_of(exam *x, const char *key) {
  const od_feature *f = od_example_find(&x->e->example, key);
  return f ? f->count : 0;
}

static void check_lengths(exam *x, int boxes) {
  static const struct {
    const char *key;
    char kind;
  } lists[] = {{"image/object/difficult", 'i'}, {"image/object/truncated", '?'}, {"image/object/is_crowd", 'i'},
               {"image/object/group_of", 'i'},  {"image/object/weight", 'f'},    {"image/object/area", 'f'},
               {"image/object/view", 'b'}};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
    const float *f;
    const int64_t *l;
    const od_view *b;
    size_t n = lists[i].kind == 'f'   ? floats(x, lists[i].key, &f)
               : lists[i].kind == 'i' ? int64s(x, lists[i].key, &l)
               : lists[i].kind == 'b' ? bytes(x, lists[i].key, &b)
                                      : count_of(x, lists[i].key);
    if (n != 0 && n != (size_t)boxes)
      find(x, OD_FIND_LENGTHS, -1, "%s has %zu values, but there are %d boxes", lists[i].key, n, boxes);
    for (size_t k = 0; lists[i].kind == 'f' && k < n && strstr(lists[i].key, "weight"); k++)
      if (!(f[k] >= 0) || isinf(f[k])) find(x, OD_FIND_WEIGHT, (int)k, "weight %g", (double)f[k]);
  }
}

static void check_box(exam *x, int i) {
  static const char *const names[4] = {"ymin", "xmin", "ymax", "xmax"};
  float b[4];
  for (int k = 0; k < 4; k++) {
    b[k] = x->side[k][i];
    if (!isfinite(b[k])) {
      find(x, OD_FIND_BOX_NAN, i, "%s is %g", names[k], (double)b[k]);
      return;
    }
  }
  for (int k = 0; k < 2; k++)
    if (b[k] > b[k + 2]) {
      find(x, OD_FIND_BOX_ORDER, i, "%s %g is larger than %s %g", names[k], (double)b[k], names[k + 2],
           (double)b[k + 2]);
      return;
    }
  for (int k = 0; k < 4; k++) /* A millionth: what is left of divisions that should give 1. */
    if (b[k] < -1e-6f || b[k] > 1 + 1e-6f) {
      find(x, OD_FIND_BOX_RANGE, i, "%s is %g, 0 to 1 is expected%s", names[k], (double)b[k],
           b[k] > 2 ? "; are these pixels? They must be divided by the picture's size" : "");
      return;
    }
  float h = (b[2] - b[0]) * (float)x->e->height, w = (b[3] - b[1]) * (float)x->e->width;
  if (x->e->height > 0 && (h < 0.999f || w < 0.999f))
    find(x, OD_FIND_BOX_AREA, i, "%.3g x %.3g pixels (width x height)", (double)w, (double)h);
}

/* Same place and class as an earlier box. */
static void check_twice(exam *x, int i) {
  for (int k = 0; k < i; k++) {
    bool same = x->e->classes[k] == x->e->classes[i];
    for (int s = 0; s < 4 && same; s++) same = x->side[s][k] == x->side[s][i];
    if (same) {
      find(x, OD_FIND_BOX_TWICE, i, "the same as box %d", k);
      return;
    }
  }
}

static void check_class_text(exam *x, const od_view *v, int i) {
  const od_label_map *m = x->o->labels;
  int id = od_label_map_find(m, (const char *)v->data, v->size);
  x->e->classes[i] = id;
  if (id >= 0) return;
  char name[128];
  snprintf(name, sizeof name, "%.*s", (int)(v->size < 100 ? v->size : 100), (const char *)v->data);
  const char *similar = od_label_map_similar(m, name);
  find(x, OD_FIND_CLASS, i, "class/text '%s' is not in the label map%s%s%s", name, similar ? "; did you mean '" : "",
       similar ? similar : "", similar ? "'?" : "");
}

static void check_class_label(exam *x, int64_t label, int i, bool by_text) {
  const od_label_map *m = x->o->labels;
  if (by_text) { /* the text counts; a label that says otherwise is one of two truths */
    if (x->e->classes[i] >= 0 && label != x->e->classes[i])
      find(x, OD_FIND_CLASS_PAIR, i, "class/text means id %d of the label map, class/label is %lld", x->e->classes[i],
           (long long)label);
    return;
  }
  x->e->classes[i] = label >= 0 && label <= INT32_MAX ? (int)label : -1;
  if (label < 1)
    find(x, OD_FIND_CLASS, i, "class/label is %lld; ids begin at 1", (long long)label);
  else if (m && (label > INT32_MAX || !od_label_map_name(m, (int)label, false)))
    find(x, OD_FIND_CLASS, i, "class/label %lld is not in the label map (its largest id is %d)", (long long)label,
         od_label_map_max_id(m));
  else if (x->o->num_classes > 0 && label > x->o->num_classes)
    find(x, OD_FIND_CLASS, i, "class/label %lld is larger than num_classes %d", (long long)label, x->o->num_classes);
}

static void check_classes(exam *x, int boxes) {
  const od_view *text = NULL;
  const int64_t *label;
  size_t nt = bytes(x, "image/object/class/text", &text), nl = int64s(x, "image/object/class/label", &label);
  for (int i = 0; i < boxes; i++) x->e->classes[i] = -1;
  bool by_text = x->o->labels && nt > 0;
  if (nt != 0 && nt != (size_t)boxes)
    find(x, OD_FIND_LENGTHS, -1, "image/object/class/text has %zu values, but there are %d boxes", nt, boxes);
  else
    for (size_t i = 0; by_text && i < nt; i++) check_class_text(x, &text[i], (int)i);
  if (nl != 0 && nl != (size_t)boxes)
    find(x, OD_FIND_LENGTHS, -1, "image/object/class/label has %zu values, but there are %d boxes", nl, boxes);
  else
    for (size_t i = 0; i < nl; i++) check_class_label(x, label[i], (int)i, by_text);
  if (boxes > 0 && !by_text && nl == 0)
    find(x, OD_FIND_LENGTHS, -1, "%d boxes, but no image/object/class/label%s", boxes,
         x->o->labels ? " and no image/object/class/text" : "");
}

static void check_masks(exam *x, int boxes) {
  const od_feature *f = od_example_find(&x->e->example, "image/object/mask");
  if (!f || f->count == 0 || x->e->height == 0) return;
  if (f->kind == OD_FEATURE_BYTES) {
    const od_view *v;
    size_t n = bytes(x, "image/object/mask", &v);
    if (n != (size_t)boxes) {
      find(x, OD_FIND_LENGTHS, -1, "image/object/mask has %zu values, but there are %d boxes", n, boxes);
      return;
    }
    for (size_t i = 0; i < n; i++) {
      int h, w, c;
      od_image m = {0};
      od_status st =
          x->o->fast ? od_image_size(&h, &w, &c, v[i].data, v[i].size) : od_image_decode(&m, v[i].data, v[i].size, 1);
      if (st == OD_OK && !x->o->fast) {
        h = m.height;
        w = m.width;
      }
      od_image_free(&m);
      if (st != OD_OK)
        find(x, OD_FIND_MASK, (int)i, "%s", od_message());
      else if (h != x->e->height || w != x->e->width)
        find(x, OD_FIND_MASK, (int)i, "the mask has %d x %d pixels (width x height), the picture %d x %d", w, h,
             x->e->width, x->e->height);
    }
  } else if (f->kind == OD_FEATURE_FLOAT) {
    size_t want = (size_t)boxes * (size_t)x->e->height * (size_t)x->e->width;
    if (f->count != want)
      find(x, OD_FIND_MASK, -1, "image/object/mask has %zu values, %d boxes need %zu", f->count, boxes, want);
  } else {
    find(x, OD_FIND_KIND, -1, "image/object/mask holds %s values; byte strings or floats are expected",
         od_feature_kind_name(f->kind));
  }
}

static od_status prepare(exam *x) {
  od_view id;
  od_examined *e = x->e;
  if (!e->arena) OD_TRY(od_arena_new(&e->arena));
  od_status st = od_example_parse(&e->example, e->payload.data, e->payload.len);
  if (st == OD_EDATA) {
    find(x, OD_FIND_EXAMPLE, -1, "%s", od_message());
    return st;
  }
  OD_TRY(st);
  if (od_example_get_text(&e->example, "image/source_id", &id, "") == OD_OK)
    e->source_id = od_arena_printf(e->arena, "%.*s", (int)(id.size < 400 ? id.size : 400), (const char *)id.data);
  return OD_OK;
}

od_status od_examine(od_examined *e, const od_record_check_options *o) {
  exam x = {.e = e, .o = o, .st = OD_OK};
  od_status st = prepare(&x);
  if (st == OD_EDATA) return x.st;
  OD_TRY(st);
  check_picture(&x);
  int boxes = read_sides(&x);
  if (boxes == 0) find(&x, OD_FIND_EMPTY, -1, "the picture has no box");
  if (boxes > 0) {
    e->classes = od_arena_alloc(e->arena, (size_t)boxes * sizeof *e->classes);
    if (!e->classes) return OD_ENOMEM;
    e->boxes = boxes;
    check_classes(&x, boxes);
    for (int i = 0; i < boxes; i++) check_box(&x, i);
    for (int i = 0; i < boxes && boxes <= 2000; i++) check_twice(&x, i);
  }
  if (boxes >= 0) {
    check_lengths(&x, boxes);
    check_masks(&x, boxes);
  }
  return x.st;
}
