/* The whole JSON is read once (jansson); images are then converted in the order of the file. Densepose is not there. */
#include "data/coco.h"

#include <pthread.h>
#include <string.h>

#include <jansson.h>

#include "base/map.h"
#include "base/mem.h"
#include "data/coco_mask.h"
#include "image/decode.h"
#include "image/encode.h"
#include "io/file.h"

enum { KEYPOINTS = 17 };
static const char *const keypoint_names[KEYPOINTS] = {
    "nose",           "left_eye",   "right_eye",   "left_ear",   "right_ear",   "left_shoulder",
    "right_shoulder", "left_elbow", "right_elbow", "left_wrist", "right_wrist", "left_hip",
    "right_hip",      "left_knee",  "right_knee",  "left_ankle", "right_ankle"};

/* Annotations of one image, as indices into the JSON list. */
typedef struct {
  int32_t *items;
  size_t count, cap;
} list;

typedef struct {
  const od_coco_options *o;
  json_t *root, *images, *annotations;
  json_t *keypoints;      /* root of the keypoint file */
  od_map *category_names; /* id as text to name */
  od_map *image_index;    /* id as text to list + 1 */
  od_map *keypoint_index; /* annotation id as text to annotation */
  list *lists;            /* by image */
  pthread_mutex_t lock;
  int64_t left_out; /* boxes */
} coco;

/* Ids are whole numbers or texts. */
static void id_text(char out[64], const json_t *id) {
  if (json_is_string(id))
    snprintf(out, 64, "%s", json_string_value(id));
  else
    snprintf(out, 64, "%lld",
             (long long)(json_is_integer(id) ? json_integer_value(id) : (json_int_t)json_number_value(id)));
}

static od_status load(json_t **out, const char *path) {
  char *data;
  size_t size;
  json_error_t e;
  OD_TRY(od_file_read_all(&data, &size, path, 0));
  *out = json_loadb(data, size, 0, &e);
  od_free(data);
  if (!*out) return od_fail(OD_EINVAL, "%s:%d:%d: no JSON: %s", path, e.line, e.column, e.text);
  if (!json_is_object(*out))
    return od_fail(OD_EINVAL, "%s: an object with images, annotations, categories is expected", path);
  return OD_OK;
}

static od_status index_categories(coco *c) {
  size_t i;
  json_t *v;
  char id[64];
  OD_TRY(od_map_new(&c->category_names));
  json_array_foreach(json_object_get(c->root, "categories"), i, v) {
    id_text(id, json_object_get(v, "id"));
    OD_TRY(od_map_set(c->category_names, id, (void *)(uintptr_t)json_string_value(json_object_get(v, "name"))));
  }
  return OD_OK;
}

static od_status index_annotations(coco *c) {
  size_t i, images = json_array_size(c->images);
  json_t *v;
  char id[64];
  OD_TRY(od_map_new(&c->image_index));
  OD_TRY(od_new(&c->lists, images + 1, sizeof *c->lists));
  json_array_foreach(c->images, i, v) {
    id_text(id, json_object_get(v, "id"));
    OD_TRY(od_map_set(c->image_index, id, &c->lists[i]));
  }
  json_array_foreach(c->annotations, i, v) {
    id_text(id, json_object_get(v, "image_id"));
    list *l = od_map_get(c->image_index, id);
    if (!l) continue; /* of a picture that is not listed */
    OD_TRY(od_grow(&l->items, &l->cap, l->count + 1, sizeof *l->items));
    l->items[l->count++] = (int32_t)i;
  }
  if (!c->keypoints) return OD_OK;
  OD_TRY(od_map_new(&c->keypoint_index));
  json_array_foreach(json_object_get(c->keypoints, "annotations"), i, v) {
    id_text(id, json_object_get(v, "id"));
    OD_TRY(od_map_set(c->keypoint_index, id, v));
  }
  return OD_OK;
}

/* ---------------------------------------------------------------------------------------------------------- one image */
static od_status polygons(uint8_t *mask, int h, int w, const json_t *seg, od_arena *arena) {
  size_t i;
  json_t *part;
  json_array_foreach(seg, i, part) {
    size_t n = json_array_size(part);
    double *xy = od_arena_alloc(arena, (n + 2) * sizeof *xy);
    if (!xy) return OD_ENOMEM;
    for (size_t k = 0; k < n; k++) xy[k] = json_number_value(json_array_get(part, k));
    OD_TRY(od_coco_polygon(mask, h, w, xy, n / 2));
  }
  return OD_OK;
}

static od_status run_lengths(uint8_t *mask, int h, int w, const json_t *seg) {
  const json_t *counts = json_object_get(seg, "counts"), *size = json_object_get(seg, "size");
  uint32_t *runs = NULL;
  size_t n = json_array_size(counts);
  if (json_integer_value(json_array_get(size, 0)) != h || json_integer_value(json_array_get(size, 1)) != w)
    return od_fail(OD_EDATA, "segmentation: size is not that of the picture, %d x %d (height x width)", h, w);
  if (json_is_string(counts)) {
    OD_TRY(od_coco_unpack_runs(&runs, &n, json_string_value(counts)));
  } else {
    OD_TRY(od_new(&runs, n + 1, sizeof *runs));
    for (size_t i = 0; i < n; i++) runs[i] = (uint32_t)json_number_value(json_array_get(counts, i));
  }
  od_status st = od_coco_runs(mask, h, w, runs, n);
  od_free(runs);
  return st;
}

static od_status encode_mask(od_view *out, int h, int w, const json_t *seg, od_arena *arena) {
  od_image m;
  od_str png = OD_STR_INIT;
  OD_TRY(od_image_new(&m, h, w, 1));
  memset(m.data, 0, (size_t)h * (size_t)w);
  od_status st = json_is_object(seg) ? run_lengths(m.data, h, w, seg) : polygons(m.data, h, w, seg, arena);
  if (st == OD_OK) st = od_png_encode(&png, &m);
  if (st == OD_OK) {
    uint8_t *copy = od_arena_alloc(arena, png.len);
    if (copy) memcpy(copy, png.data, png.len);
    *out = (od_view){copy, png.len};
    st = copy ? OD_OK : OD_ENOMEM;
  }
  od_str_free(&png);
  od_image_free(&m);
  return st;
}

typedef struct {
  od_box_columns c;
  int64_t *crowd, *num, *visibility;
  float *area, *x, *y;
  od_view *masks, *names;
} columns;

static od_status make_columns(columns *k, size_t n, bool points, od_arena *arena) {
  size_t p = points ? n * KEYPOINTS + 1 : 1;
  memset(k, 0, sizeof *k);
  OD_TRY(od_box_columns_new(&k->c, n, arena));
  k->crowd = od_arena_alloc(arena, (n + 1) * sizeof *k->crowd);
  k->num = od_arena_alloc(arena, (n + 1) * sizeof *k->num);
  k->area = od_arena_alloc(arena, (n + 1) * sizeof *k->area);
  k->masks = od_arena_alloc(arena, (n + 1) * sizeof *k->masks);
  k->x = od_arena_alloc(arena, p * sizeof *k->x);
  k->y = od_arena_alloc(arena, p * sizeof *k->y);
  k->visibility = od_arena_alloc(arena, p * sizeof *k->visibility);
  k->names = od_arena_alloc(arena, p * sizeof *k->names);
  return k->crowd && k->num && k->area && k->masks && k->x && k->y && k->visibility && k->names ? OD_OK : OD_ENOMEM;
}

/* An object without keypoints of its own gets zeroes that are not labelled. */
static void add_keypoints(const coco *c, columns *k, size_t n, const json_t *a, int h, int w) {
  char id[64];
  id_text(id, json_object_get(a, "id"));
  const json_t *with = od_map_get(c->keypoint_index, id), *v = json_object_get(with, "keypoints");
  k->num[n] = json_integer_value(json_object_get(with, "num_keypoints"));
  for (size_t i = 0; i < KEYPOINTS; i++) {
    size_t at = n * KEYPOINTS + i;
    k->x[at] = (float)(json_number_value(json_array_get(v, 3 * i)) / w);
    k->y[at] = (float)(json_number_value(json_array_get(v, 3 * i + 1)) / h);
    k->visibility[at] = (int64_t)json_number_value(json_array_get(v, 3 * i + 2));
    k->names[at] = (od_view){(const uint8_t *)keypoint_names[i], strlen(keypoint_names[i])};
  }
}

/* One annotation; *taken false when it is left out. */
static od_status add_annotation(const coco *c, columns *k, const json_t *a, int h, int w, od_arena *arena,
                                bool *taken) {
  const json_t *box = json_object_get(a, "bbox"), *area = json_object_get(a, "area");
  double b[4];
  char id[64];
  *taken = false;
  if (json_array_size(box) != 4)
    return od_fail(OD_EDATA, "annotation: bbox has %zu values, 4 are needed", json_array_size(box));
  for (size_t i = 0; i < 4; i++) b[i] = json_number_value(json_array_get(box, i));
  if (b[2] <= 0 || b[3] <= 0 || b[0] + b[2] > w || b[1] + b[3] > h) return OD_OK;
  id_text(id, json_object_get(a, "category_id"));
  const char *name = od_map_get(c->category_names, id);
  if (!name) return od_fail(OD_EINVAL, "%s: category_id %s is not in categories", c->o->annotations_file, id);
  if (c->o->remove_non_person_annotations && strcmp(name, "person") != 0) return OD_OK;
  size_t n = k->c.count;
  k->c.xmin[n] = (float)(b[0] / w);
  k->c.xmax[n] = (float)((b[0] + b[2]) / w);
  k->c.ymin[n] = (float)(b[1] / h);
  k->c.ymax[n] = (float)((b[1] + b[3]) / h);
  k->c.text[n] = (od_view){(const uint8_t *)name, strlen(name)};
  k->crowd[n] = json_integer_value(json_object_get(a, "iscrowd"));
  k->area[n] = (float)(json_is_number(area) ? json_number_value(area) : b[2] * b[3]);
  if (c->o->include_masks) OD_TRY(encode_mask(&k->masks[n], h, w, json_object_get(a, "segmentation"), arena));
  if (c->keypoints) add_keypoints(c, k, n, a, h, w);
  k->c.count++;
  *taken = true;
  return OD_OK;
}

static void add_columns(const coco *c, const columns *k, od_example_builder *b) {
  size_t n = k->c.count, p = n * KEYPOINTS;
  od_example_add_floats(b, "image/object/bbox/xmin", k->c.xmin, n);
  od_example_add_floats(b, "image/object/bbox/xmax", k->c.xmax, n);
  od_example_add_floats(b, "image/object/bbox/ymin", k->c.ymin, n);
  od_example_add_floats(b, "image/object/bbox/ymax", k->c.ymax, n);
  od_example_add_bytes_list(b, "image/object/class/text", k->c.text, n);
  od_example_add_int64s(b, "image/object/is_crowd", k->crowd, n);
  od_example_add_floats(b, "image/object/area", k->area, n);
  if (c->o->include_masks) od_example_add_bytes_list(b, "image/object/mask", k->masks, n);
  if (!c->keypoints) return;
  od_example_add_floats(b, "image/object/keypoint/x", k->x, p);
  od_example_add_floats(b, "image/object/keypoint/y", k->y, p);
  od_example_add_int64s(b, "image/object/keypoint/num", k->num, n);
  od_example_add_int64s(b, "image/object/keypoint/visibility", k->visibility, p);
  od_example_add_bytes_list(b, "image/object/keypoint/text", k->names, p);
}

static od_status add_objects(coco *c, int64_t i, int h, int w, od_convert_room *room) {
  const list *l = &c->lists[i];
  columns k;
  int64_t left_out = 0;
  OD_TRY(make_columns(&k, l->count, c->keypoints != NULL, room->arena));
  for (size_t n = 0; n < l->count; n++) {
    bool taken;
    OD_TRY(add_annotation(c, &k, json_array_get(c->annotations, (size_t)l->items[n]), h, w, room->arena, &taken));
    left_out += !taken;
  }
  add_columns(c, &k, room->builder);
  room->boxes = (int64_t)k.c.count;
  pthread_mutex_lock(&c->lock);
  c->left_out += left_out;
  pthread_mutex_unlock(&c->lock);
  return OD_OK;
}

static od_status make(void *ctx, int64_t i, od_convert_room *room) {
  coco *c = ctx;
  const json_t *image = json_array_get(c->images, (size_t)i);
  const char *name = json_string_value(json_object_get(image, "file_name"));
  int h = (int)json_integer_value(json_object_get(image, "height")),
      w = (int)json_integer_value(json_object_get(image, "width"));
  if (!name) return od_fail(OD_EDATA, "%s: image %lld has no file_name", c->o->annotations_file, (long long)i);
  char *path = od_arena_printf(room->arena, "%s/%s", c->o->image_dir, name), *data, id[64];
  size_t size;
  od_image pixels;
  if (!path) return OD_ENOMEM;
  OD_TRY(od_file_read_all(&data, &size, path, (uint64_t)1 << 30));
  od_status st = od_image_decode(&pixels, data, size, 3);
  if (st == OD_OK && (h <= 0 || w <= 0)) {
    h = pixels.height;
    w = pixels.width;
  }
  if (st == OD_OK && c->o->include_masks && (h != pixels.height || w != pixels.width))
    st = od_fail(OD_EDATA, "the JSON says %d x %d pixels (width x height), it has %d x %d: masks cannot fit", w, h,
                 pixels.width, pixels.height);
  od_image_free(&pixels);
  if (st == OD_OK) {
    bool png = od_image_format_of(data, size) == OD_FORMAT_PNG;
    id_text(id, json_object_get(image, "id"));
    od_convert_add_picture(room->builder, h, w, name, id, data, size, png ? "png" : "jpeg");
    st = add_objects(c, i, h, w, room);
  }
  od_free(data);
  return od_fail_context(st, "%s", path);
}

/* With remove_non_person_images: pictures of persons alone stay. Done on the JSON, so that shards count what is written. */
static od_status keep_persons(coco *c) {
  json_t *kept = json_array();
  size_t i;
  json_t *v;
  char id[64];
  if (!kept) return od_fail(OD_ENOMEM, "memory is short");
  json_array_foreach(c->images, i, v) {
    bool person = false;
    for (size_t n = 0; n < c->lists[i].count && !person; n++) {
      id_text(id, json_object_get(json_array_get(c->annotations, (size_t)c->lists[i].items[n]), "category_id"));
      const char *name = od_map_get(c->category_names, id);
      person = name && strcmp(name, "person") == 0;
    }
    if (!person) {
      od_free(c->lists[i].items);
      c->lists[i] = (list){0};
      continue;
    }
    c->lists[json_array_size(kept)] = c->lists[i];
    if (json_array_size(kept) != i) c->lists[i] = (list){0};
    json_array_append(kept, v);
  }
  json_object_set_new(c->root, "images", kept);
  c->images = kept;
  return OD_OK;
}

static od_status convert(coco *c, od_convert_result *out) {
  const od_coco_options *o = c->o;
  od_record_shards *shards;
  OD_TRY(load(&c->root, o->annotations_file));
  if (o->keypoint_annotations_file) OD_TRY(load(&c->keypoints, o->keypoint_annotations_file));
  c->images = json_object_get(c->root, "images");
  c->annotations = json_object_get(c->root, "annotations");
  if (!json_is_array(c->images)) return od_fail(OD_EINVAL, "%s: the list images is missing", o->annotations_file);
  OD_TRY(index_categories(c));
  OD_TRY(index_annotations(c));
  if (o->remove_non_person_images) OD_TRY(keep_persons(c));
  OD_TRY(od_record_shards_open(&shards, o->output_path, o->num_shards, NULL));
  od_convert_job job = {"pictures", (int64_t)json_array_size(c->images), make, c, o->threads, o->reporter};
  od_status st = od_convert_run(out, shards, &job);
  st = od_convert_close(shards, st, out, o->output_path, o->reporter);
  if (st == OD_OK && c->left_out)
    od_info(o->reporter, "%lld boxes were left out: no area, beyond the picture, or not wanted",
            (long long)c->left_out);
  return st;
}

od_status od_coco_create(od_convert_result *out, const od_coco_options *o) {
  coco c = {.o = o};
  memset(out, 0, sizeof *out);
  if (!o->annotations_file || !o->image_dir || !o->output_path)
    return od_fail(OD_EUSAGE, "the annotations file, the image folder and the output are needed");
  pthread_mutex_init(&c.lock, NULL);
  od_status st = convert(&c, out);
  pthread_mutex_destroy(&c.lock);
  for (size_t i = 0; c.lists && i < json_array_size(c.images); i++) od_free(c.lists[i].items);
  od_free(c.lists);
  od_map_free(c.category_names);
  od_map_free(c.image_index);
  od_map_free(c.keypoint_index);
  json_decref(c.root);
  json_decref(c.keypoints);
  return st;
}
