/* VOC to records. In a tree the picture is <folder of the XML>/JPEGImages/<filename of the XML> and must be a JPEG, as the
 * original wants it; in a folder it is images/<filename>, or what in images/ is called like the XML, and may be a PNG. */
#include "data/pascal.h"

#include <string.h>

#include "base/mem.h"
#include "data/annotation.h"
#include "image/decode.h"
#include "io/file.h"

typedef struct {
  const od_pascal_options *o;
  const od_label_map *labels;
  od_strings names; /* examples: names without ending */
  char *xml_dir;    /* where <name>.xml lies */
  char *image_dir;  /* folder mode; NULL in a tree */
} source;

static od_status find_image(char **out, const source *s, const od_voc *v, const char *name) {
  if (!s->image_dir) {
    od_str p = OD_STR_INIT;
    od_str_addf(&p, "%s/%s/JPEGImages/%s", s->o->data_dir, v->folder, v->filename);
    *out = od_str_take(&p);
    return *out ? OD_OK : OD_ENOMEM;
  }
  /* <filename> may hold a path of the machine where it was drawn. */
  OD_TRY(od_path_join(out, s->image_dir, od_path_base(v->filename)));
  static const char *const endings[] = {".jpg", ".jpeg", ".JPG", ".png", ".JPEG", ".PNG"};
  for (size_t i = 0; i < sizeof endings / sizeof *endings && !(v->filename[0] && od_path_is_file(*out)); i++) {
    od_str p = OD_STR_INIT;
    od_str_addf(&p, "%s/%s%s", s->image_dir, name, endings[i]);
    OD_TRY(od_str_check(&p));
    if (od_path_is_file(od_str_text(&p))) {
      od_free(*out);
      *out = od_str_take(&p);
      return OD_OK;
    }
    od_str_free(&p);
  }
  return OD_OK; /* what the XML says; opening it gives the error */
}

static od_status add_objects(const source *s, const od_voc *v, int width, int height, od_convert_room *room) {
  od_box_columns c;
  OD_TRY(od_box_columns_new(&c, (size_t)v->count, room->arena));
  for (int i = 0; i < v->count; i++) {
    const od_voc_object *b = &v->objects[i];
    if (s->o->ignore_difficult && b->difficult) continue;
    size_t n = c.count++;
    OD_TRY(od_convert_class(&c.label[n], s->labels, b->name));
    c.xmin[n] = (float)(b->xmin / width);
    c.ymin[n] = (float)(b->ymin / height);
    c.xmax[n] = (float)(b->xmax / width);
    c.ymax[n] = (float)(b->ymax / height);
    c.text[n] = (od_view){(const uint8_t *)b->name, strlen(b->name)};
    c.view[n] = (od_view){(const uint8_t *)b->pose, strlen(b->pose)};
    c.difficult[n] = b->difficult != 0;
    c.truncated[n] = b->truncated;
  }
  od_convert_add_boxes(room->builder, &c);
  od_example_add_int64s(room->builder, "image/object/difficult", c.difficult, c.count);
  od_example_add_int64s(room->builder, "image/object/truncated", c.truncated, c.count);
  od_example_add_bytes_list(room->builder, "image/object/view", c.view, c.count);
  room->boxes = (int64_t)c.count;
  return OD_OK;
}

static od_status add_picture(const source *s, const od_voc *v, const char *path, const char *name, const char *data,
                             size_t size, od_convert_room *room) {
  od_image pixels;
  od_image_format format = od_image_format_of(data, size);
  if (format != OD_FORMAT_JPEG && !(s->image_dir && format == OD_FORMAT_PNG))
    return od_fail(OD_EDATA, "is no JPEG%s but %s", s->image_dir ? " or PNG" : "", od_image_format_name(format));
  OD_TRY(od_image_decode(&pixels, data, size, 3));
  int height = v->height, width = v->width;
  if (height == 0 || width == 0) { /* some drawing tools leave the size out */
    od_warn(s->o->reporter, "%s.xml has no size; that of the picture is taken", name);
    height = pixels.height;
    width = pixels.width;
  }
  od_image_free(&pixels);
  const char *filename = v->filename[0] ? v->filename : od_path_base(path);
  od_convert_add_picture(room->builder, height, width, filename, filename, data, size,
                         format == OD_FORMAT_JPEG ? "jpeg" : "png");
  return add_objects(s, v, width, height, room);
}

static od_status make(void *ctx, int64_t i, od_convert_room *room) {
  const source *s = ctx;
  const char *name = s->names.items[i];
  char *image = NULL, *data = NULL;
  size_t size;
  od_voc v;
  od_status st = OD_OK;
  char *xml = od_arena_printf(room->arena, "%s/%s.xml", s->xml_dir, name);
  if (!xml) return OD_ENOMEM;
  OD_GO(st, od_voc_load(&v, xml, room->arena));
  OD_GO(st, find_image(&image, s, &v, name));
  OD_GO(st, od_file_read_all(&data, &size, image, (uint64_t)1 << 30));
  OD_GO(st, od_fail_context(add_picture(s, &v, image, name, data, size, room), "%s", image));
done:
  od_free(image);
  od_free(data);
  return st;
}

/* ------------------------------------------------------------------------------------------------------------- lists */
static od_status run(od_convert_result *out, od_record_shards *shards, source *s, const char *what) {
  if (s->names.count == 0) return od_fail(OD_ENOENT, "%s: there is no example", s->xml_dir);
  od_convert_job job = {what, (int64_t)s->names.count, make, s, s->o->threads, s->o->reporter};
  return od_convert_run(out, shards, &job);
}

static void free_source(source *s) {
  od_strings_free(&s->names);
  od_free(s->xml_dir);
  od_free(s->image_dir);
}

/* One year of a VOCdevkit tree. The original takes the list of the aeroplane class, which names all pictures; own sets in
 * VOC form often have the plain list only. */
static od_status convert_year(od_convert_result *out, od_record_shards *shards, const od_pascal_options *o,
                              const od_label_map *labels, const char *year) {
  source s = {.o = o, .labels = labels};
  od_str list = OD_STR_INIT, dir = OD_STR_INIT;
  od_status st = OD_OK;
  const char *set = o->set ? o->set : "train";
  od_str_addf(&list, "%s/%s/ImageSets/Main/aeroplane_%s.txt", o->data_dir, year, set);
  if (!od_path_is_file(od_str_text(&list))) {
    od_str plain = OD_STR_INIT;
    od_str_addf(&plain, "%s/%s/ImageSets/Main/%s.txt", o->data_dir, year, set);
    if (od_path_is_file(od_str_text(&plain))) {
      od_str_free(&list);
      list = plain;
    } else {
      od_str_free(&plain);
    }
  }
  od_str_addf(&dir, "%s/%s/%s", o->data_dir, year, o->annotations_dir ? o->annotations_dir : "Annotations");
  s.xml_dir = od_str_take(&dir);
  OD_GO(st, od_str_check(&list));
  if (!s.xml_dir) st = OD_ENOMEM;
  if (st == OD_OK) st = od_convert_names(&s.names, od_str_text(&list));
  if (st == OD_ENOENT)
    od_fail_context(
        st,
        "%s is neither a VOCdevkit tree (%s/ImageSets/Main, %s/Annotations, %s/JPEGImages) nor a folder with "
        "annotations/*.xml and images/",
        o->data_dir, year, year, year);
  if (st == OD_OK) st = run(out, shards, &s, year);
done:
  od_str_free(&list);
  free_source(&s);
  return st;
}

static void cut_ending(char *name) {
  char *dot = strrchr(name, '.');
  if (dot && dot != name && strlen(dot) <= 5) *dot = 0;
}

static od_status list_folder(source *s) {
  const od_pascal_options *o = s->o;
  if (o->examples) {
    OD_TRY(od_convert_names(&s->names, o->examples));
    if (s->names.count > 0 && strcmp(s->names.items[0], "filename") == 0) { /* the heading of a CSV */
      od_free(s->names.items[0]);
      memmove(s->names.items, s->names.items + 1, --s->names.count * sizeof *s->names.items);
    }
    for (size_t i = 0; i < s->names.count; i++) cut_ending(s->names.items[i]);
    return OD_OK;
  }
  od_strings all = {0};
  od_status st = od_path_list(&all, s->xml_dir);
  for (size_t i = 0; i < all.count && st == OD_OK; i++) {
    if (!od_ends_with(all.items[i], ".xml") || all.items[i][0] == '.') continue;
    all.items[i][strlen(all.items[i]) - 4] = 0;
    st = od_strings_add(&s->names, all.items[i]);
  }
  od_strings_free(&all);
  return st;
}

static od_status convert_folder(od_convert_result *out, od_record_shards *shards, const od_pascal_options *o,
                                const od_label_map *labels) {
  source s = {.o = o, .labels = labels};
  od_status st = OD_OK;
  OD_GO(st, od_path_join(&s.xml_dir, o->data_dir, "annotations"));
  OD_GO(st, od_path_join(&s.image_dir, o->data_dir, "images"));
  OD_GO(st, list_folder(&s));
  OD_GO(st, run(out, shards, &s, "pictures"));
done:
  free_source(&s);
  return st;
}

static bool is_folder(const char *data_dir) {
  char *a = NULL, *b = NULL;
  bool both = od_path_join(&a, data_dir, "annotations") == OD_OK && od_path_join(&b, data_dir, "images") == OD_OK &&
              od_path_is_dir(a) && od_path_is_dir(b);
  od_free(a);
  od_free(b);
  return both;
}

static od_status check(const od_pascal_options *o) {
  static const char *const sets[] = {"train", "val", "trainval", "test"}, *const years[] = {"VOC2007", "VOC2012",
                                                                                            "merged"};
  bool set = !o->set, year = !o->year;
  for (int i = 0; i < 4; i++) set = set || strcmp(o->set, sets[i]) == 0;
  for (int i = 0; i < 3; i++) year = year || strcmp(o->year, years[i]) == 0;
  if (!set) return od_fail(OD_EUSAGE, "set is '%s'; train, val, trainval or test is expected", o->set);
  if (!year) return od_fail(OD_EUSAGE, "year is '%s'; VOC2007, VOC2012 or merged is expected", o->year);
  if (!o->data_dir || !o->data_dir[0]) return od_fail(OD_EUSAGE, "data_dir is missing");
  if (!o->output_path || !o->output_path[0]) return od_fail(OD_EUSAGE, "output_path is missing");
  if (!od_path_is_dir(o->data_dir)) return od_fail(OD_ENOENT, "data_dir %s is no folder", o->data_dir);
  return OD_OK;
}

od_status od_pascal_create(od_convert_result *out, const od_pascal_options *o) {
  od_label_map *labels;
  od_record_shards *shards;
  memset(out, 0, sizeof *out);
  OD_TRY(check(o));
  OD_TRY(od_label_map_load(&labels, o->label_map_path ? o->label_map_path : "data/pascal_label_map.pbtxt"));
  od_voc_init();
  od_status st = od_record_shards_open(&shards, o->output_path, o->num_shards, NULL);
  if (st == OD_OK) {
    const char *year = o->year ? o->year : "VOC2007";
    bool merged = strcmp(year, "merged") == 0;
    if (is_folder(o->data_dir)) {
      st = convert_folder(out, shards, o, labels);
    } else {
      st = convert_year(out, shards, o, labels, merged ? "VOC2007" : year);
      if (st == OD_OK && merged) st = convert_year(out, shards, o, labels, "VOC2012");
    }
    st = od_convert_close(shards, st, out, o->output_path, o->reporter);
  }
  od_label_map_free(labels);
  return st;
}
