/* KITTI's text labels: type truncated occluded alpha left top right bottom height width length x y z rotation. */
#include "data/kitti.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "image/decode.h"
#include "io/file.h"

enum { FIELDS = 15 };

typedef struct {
  const char *type; /* lower case, in the arena */
  double v[FIELDS]; /* by column; v[0] unused */
} object;

typedef struct {
  const od_kitti_options *o;
  const od_label_map *labels;
  od_strings used; /* classes */
  bool dontcare;
  char *image_dir;
  od_strings names; /* pictures of this part */
} source;

static bool is_used(const source *s, const char *type) {
  for (size_t i = 0; i < s->used.count; i++)
    if (strcmp(s->used.items[i], type) == 0) return true;
  return false;
}

static od_status parse_line(object *o, char *line, int number, od_arena *arena) {
  char *save = NULL;
  int n = 0;
  for (char *word = strtok_r(line, " \t\r", &save); word; word = strtok_r(NULL, " \t\r", &save), n++) {
    if (n == 0) {
      for (char *c = word; *c; c++) *c = (char)tolower((unsigned char)*c);
      o->type = od_arena_strdup(arena, word);
      if (!o->type) return OD_ENOMEM;
    } else if (n < FIELDS && !od_parse_f64(&o->v[n], word)) {
      return od_fail(OD_EDATA, "line %d, field %d is '%s', a number is expected", number, n + 1, word);
    }
  }
  if (n < FIELDS) return od_fail(OD_EDATA, "line %d has %d fields, %d are expected", number, n, FIELDS);
  return OD_OK;
}

static od_status parse(object **out, size_t *count, char *text, od_arena *arena) {
  size_t lines = 1;
  int number = 0;
  for (const char *c = text; *c; c++) lines += *c == '\n';
  *out = od_arena_alloc(arena, lines * sizeof **out);
  *count = 0;
  if (!*out) return OD_ENOMEM;
  for (char *line = text, *next; line; line = next) {
    next = strchr(line, '\n');
    if (next) *next++ = 0;
    number++;
    if (line[strspn(line, " \t\r")] == 0) continue;
    OD_TRY(parse_line(&(*out)[(*count)++], line, number, arena));
  }
  return OD_OK;
}

static bool touches(const object *a, const object *b) {
  double h = fmin(a->v[7], b->v[7]) - fmax(a->v[5], b->v[5]), w = fmin(a->v[6], b->v[6]) - fmax(a->v[4], b->v[4]);
  return h > 0 && w > 0;
}

/* Keeps wanted classes, and with dontcare only what touches no such region. */
static size_t filter(const source *s, object *objects, size_t n, od_arena *arena) {
  size_t kept = 0;
  for (size_t i = 0; i < n; i++)
    if (is_used(s, objects[i].type)) objects[kept++] = objects[i];
  bool *drop = od_arena_alloc(arena, kept + 1);
  if (!s->dontcare || !drop) return kept;
  for (size_t i = 0; i < kept; i++)
    for (size_t k = 0; k < kept && !drop[i]; k++)
      drop[i] = strcmp(objects[k].type, "dontcare") == 0 && touches(&objects[i], &objects[k]);
  n = 0;
  for (size_t i = 0; i < kept; i++)
    if (!drop[i]) objects[n++] = objects[i];
  return n;
}

static od_status add_objects(const source *s, const object *objects, size_t n, int h, int w, od_convert_room *room) {
  static const struct {
    const char *key;
    int field;
  } extra[] = {
      {"image/object/truncated", 1},     {"image/object/alpha", 3},           {"image/object/3d_bbox/height", 8},
      {"image/object/3d_bbox/width", 9}, {"image/object/3d_bbox/length", 10}, {"image/object/3d_bbox/x", 11},
      {"image/object/3d_bbox/y", 12},    {"image/object/3d_bbox/z", 13},      {"image/object/3d_bbox/rot_y", 14}};
  od_box_columns c;
  OD_TRY(od_box_columns_new(&c, n, room->arena));
  float *f = od_arena_alloc(room->arena, (n + 1) * sizeof *f);
  if (!f) return OD_ENOMEM;
  for (size_t i = 0; i < n; i++) {
    const object *o = &objects[i];
    c.xmin[i] = (float)(o->v[4] / w);
    c.ymin[i] = (float)(o->v[5] / h);
    c.xmax[i] = (float)(o->v[6] / w);
    c.ymax[i] = (float)(o->v[7] / h);
    c.text[i] = (od_view){(const uint8_t *)o->type, strlen(o->type)};
    OD_TRY(od_convert_class(&c.label[i], s->labels, o->type));
  }
  c.count = n;
  od_convert_add_boxes(room->builder, &c);
  od_example_add_int64s(room->builder, "image/object/difficult", c.difficult, n);
  for (size_t k = 0; k < sizeof extra / sizeof *extra; k++) {
    for (size_t i = 0; i < n; i++) f[i] = (float)objects[i].v[extra[k].field];
    od_example_add_floats(room->builder, extra[k].key, f, n);
  }
  room->boxes = (int64_t)n;
  return OD_OK;
}

static od_status make(void *ctx, int64_t i, od_convert_room *room) {
  const source *s = ctx;
  const char *name = s->names.items[i];
  char *image = od_arena_printf(room->arena, "%s/%s", s->image_dir, name), *data = NULL, *text = NULL;
  char *label = od_arena_printf(room->arena, "%s/training/label_2/%06ld.txt", s->o->data_dir, strtol(name, NULL, 10));
  size_t size, length, n;
  od_image pixels = {0};
  object *objects;
  od_status st = OD_OK;
  if (!image || !label) return OD_ENOMEM;
  OD_GO(st, od_file_read_all(&text, &length, label, (uint64_t)1 << 26));
  OD_GO(st, od_fail_context(parse(&objects, &n, text, room->arena), "%s", label));
  OD_GO(st, od_file_read_all(&data, &size, image, (uint64_t)1 << 30));
  OD_GO(st, od_fail_context(od_image_decode(&pixels, data, size, 3), "%s", image));
  n = filter(s, objects, n, room->arena);
  od_convert_add_picture(room->builder, pixels.height, pixels.width, image, image, data, size, "png");
  OD_GO(st, od_fail_context(add_objects(s, objects, n, pixels.height, pixels.width, room), "%s", label));
done:
  od_image_free(&pixels);
  od_free(data);
  od_free(text);
  return st;
}

static od_status write_part(od_convert_result *out, source *s, const od_strings *all, bool train) {
  int64_t limit = s->o->validation_set_size < 0 ? 500 : s->o->validation_set_size;
  od_str path = OD_STR_INIT;
  od_record_shards *shards;
  od_status st = OD_OK;
  od_strings_free(&s->names);
  for (size_t i = 0; i < all->count; i++)
    if (isdigit((unsigned char)all->items[i][0]) && (strtol(all->items[i], NULL, 10) >= limit) == train)
      OD_TRY(od_strings_add(&s->names, all->items[i]));
  od_str_addf(&path, "%s_%s.tfrecord", s->o->output_path, train ? "train" : "val");
  OD_GO(st, od_str_check(&path));
  if (s->names.count == 0) { /* a small set may have one part only */
    od_warn(s->o->reporter, "%s is not written: no picture has a number %s %lld", od_str_text(&path),
            train ? "of at least" : "below", (long long)limit);
    goto done;
  }
  OD_GO(st, od_record_shards_open(&shards, od_str_text(&path), 0, NULL));
  od_convert_job job = {train ? "training pictures" : "validation pictures",
                        (int64_t)s->names.count,
                        make,
                        s,
                        s->o->threads,
                        s->o->reporter};
  st = od_convert_run(out, shards, &job);
  st = od_convert_close(shards, st, out, od_str_text(&path), s->o->reporter);
done:
  od_str_free(&path);
  return st;
}

static od_status split_classes(source *s) {
  char *text = od_strdup(s->o->classes_to_use ? s->o->classes_to_use : "car,pedestrian,dontcare"), *save = NULL;
  od_status st = text ? OD_OK : OD_ENOMEM;
  for (char *word = text ? strtok_r(text, ",", &save) : NULL; word && st == OD_OK; word = strtok_r(NULL, ",", &save)) {
    s->dontcare = s->dontcare || strcmp(word, "dontcare") == 0;
    st = od_strings_add(&s->used, word);
  }
  od_free(text);
  return st;
}

od_status od_kitti_create(od_convert_result out[2], const od_kitti_options *o) {
  source s = {.o = o};
  od_strings all = {0};
  od_label_map *labels = NULL;
  od_status st = OD_OK;
  memset(out, 0, 2 * sizeof *out);
  if (!o->data_dir || !o->output_path) return od_fail(OD_EUSAGE, "data_dir and output_path are needed");
  OD_GO(st, split_classes(&s));
  OD_GO(st, od_label_map_load(&labels, o->label_map_path ? o->label_map_path : "data/kitti_label_map.pbtxt"));
  s.labels = labels;
  OD_GO(st, od_path_join(&s.image_dir, o->data_dir, "data_object_image_2/training/image_2"));
  OD_GO(st, od_path_list(&all, s.image_dir));
  OD_GO(st, write_part(&out[0], &s, &all, true));
  OD_GO(st, write_part(&out[1], &s, &all, false));
  if (out[0].written + out[1].written == 0) st = od_fail(OD_ENOENT, "%s holds no numbered pictures", s.image_dir);
done:
  od_free(s.image_dir);
  od_strings_free(&s.names);
  od_strings_free(&s.used);
  od_strings_free(&all);
  od_label_map_free(labels);
  return st;
}
