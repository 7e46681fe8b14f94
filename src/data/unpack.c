/* From records back to files; see unpack.h. */
#include "data/unpack.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "image/decode.h"
#include "image/encode.h"
#include "io/example.h"
#include "io/file.h"
#include "io/path.h"
#include "io/record.h"

enum { NAME_MAX_BYTES = 200, EDGE = 3 };

typedef struct {
  const od_unpack_options *o;
  od_map *names; /* taken ones */
  od_example example;
  od_str list;
  char *images, *xmls, *trimaps;
  int64_t written;
} unpacker;

typedef struct {
  char name[NAME_MAX_BYTES + 32], file[NAME_MAX_BYTES + 64]; /* without and with the ending */
  int height, width;
  size_t n;
  const float *ymin, *xmin, *ymax, *xmax;
} picture;

/* A name of letters that are safe in a path, without the ending, not yet taken. */
static od_status choose_name(picture *p, unpacker *u, od_view filename, od_image_format format) {
  char base[NAME_MAX_BYTES + 1];
  size_t n = filename.size < NAME_MAX_BYTES ? filename.size : NAME_MAX_BYTES;
  memcpy(base, filename.data, n);
  base[n] = 0;
  const char *slash = strrchr(base, '/');
  snprintf(p->name, sizeof p->name, "%s", slash ? slash + 1 : base);
  char *dot = strrchr(p->name, '.');
  if (dot) *dot = 0;
  if (!p->name[0] || p->name[0] == '.') snprintf(p->name, sizeof p->name, "record-%06lld", (long long)u->written);
  for (size_t len = strlen(p->name), k = 1; od_map_has(u->names, p->name); k++) snprintf(p->name + len, sizeof p->name - len, "-%zu", k);
  OD_TRY(od_map_set(u->names, p->name, u));
  const char *ending = format == OD_FORMAT_PNG ? "png" : format == OD_FORMAT_BMP ? "bmp" : format == OD_FORMAT_GIF ? "gif" : "jpg";
  snprintf(p->file, sizeof p->file, "%s.%s", p->name, ending);
  return OD_OK;
}

static od_status column(const float **out, size_t *n, od_example *ex, const char *key) {
  size_t count;
  OD_TRY(od_example_get_floats(ex, key, out, &count));
  if (count < *n) *n = count;
  return OD_OK;
}

static od_status read_boxes(picture *p, od_example *ex) {
  p->n = SIZE_MAX;
  OD_TRY(column(&p->ymin, &p->n, ex, "image/object/bbox/ymin"));
  OD_TRY(column(&p->xmin, &p->n, ex, "image/object/bbox/xmin"));
  OD_TRY(column(&p->ymax, &p->n, ex, "image/object/bbox/ymax"));
  return column(&p->xmax, &p->n, ex, "image/object/bbox/xmax");
}

static void add_escaped(od_str *s, const char *text, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (text[i] == '&') od_str_add(s, "&amp;");
    else if (text[i] == '<') od_str_add(s, "&lt;");
    else if (text[i] == '>') od_str_add(s, "&gt;");
    else od_str_add_bytes(s, text + i, 1);
  }
}

static void add_class(od_str *s, const unpacker *u, const od_view *texts, size_t n_texts, const int64_t *labels, size_t n_labels, size_t i) {
  if (i < n_texts && texts[i].size) {
    add_escaped(s, (const char *)texts[i].data, texts[i].size);
    return;
  }
  const char *name = u->o->labels && i < n_labels ? od_label_map_name(u->o->labels, (int)labels[i], false) : NULL;
  if (name) add_escaped(s, name, strlen(name));
  else od_str_addf(s, "class_%lld", i < n_labels ? (long long)labels[i] : 0LL);
}

static int pixel(float v, int size) { return (int)lrint((double)v * size); }

static od_status write_xml(unpacker *u, const picture *p) {
  const od_view *texts;
  const int64_t *labels, *difficult;
  size_t n_texts, n_labels, n_difficult;
  od_str s = OD_STR_INIT;
  char *path = NULL, name[sizeof p->name + 8];
  od_status st;
  OD_GO(st, od_example_get_bytes(&u->example, "image/object/class/text", &texts, &n_texts));
  OD_GO(st, od_example_get_int64s(&u->example, "image/object/class/label", &labels, &n_labels));
  OD_GO(st, od_example_get_int64s(&u->example, "image/object/difficult", &difficult, &n_difficult));
  od_str_add(&s, "<annotation>\n  <folder>images</folder>\n  <filename>");
  add_escaped(&s, p->file, strlen(p->file));
  od_str_addf(&s, "</filename>\n  <size><width>%d</width><height>%d</height><depth>3</depth></size>\n", p->width, p->height);
  for (size_t i = 0; i < p->n; i++) {
    od_str_add(&s, "  <object>\n    <name>");
    add_class(&s, u, texts, n_texts, labels, n_labels, i);
    od_str_addf(&s, "</name>\n    <pose>Unspecified</pose>\n    <truncated>0</truncated>\n    <difficult>%d</difficult>\n", i < n_difficult && difficult[i] ? 1 : 0);
    od_str_addf(&s, "    <bndbox><xmin>%d</xmin><ymin>%d</ymin><xmax>%d</xmax><ymax>%d</ymax></bndbox>\n  </object>\n", pixel(p->xmin[i], p->width),
                pixel(p->ymin[i], p->height), pixel(p->xmax[i], p->width), pixel(p->ymax[i], p->height));
  }
  od_str_add(&s, "</annotation>\n");
  OD_GO(st, od_str_check(&s));
  snprintf(name, sizeof name, "%s.xml", p->name);
  OD_GO(st, od_path_join(&path, u->xmls, name));
  st = od_file_write_all(path, s.data, s.len);
done:
  od_free(path);
  od_str_free(&s);
  return st;
}

/* 2 everywhere, 1 in the boxes, 3 along their edges. */
static od_status write_trimap(const unpacker *u, const picture *p) {
  od_image map;
  od_str png = OD_STR_INIT;
  char *path = NULL, name[sizeof p->name + 8];
  OD_TRY(od_image_new(&map, p->height, p->width, 1));
  memset(map.data, 2, (size_t)p->height * (size_t)p->width);
  for (size_t i = 0; i < p->n; i++) {
    int y0 = pixel(p->ymin[i], p->height), y1 = pixel(p->ymax[i], p->height), x0 = pixel(p->xmin[i], p->width), x1 = pixel(p->xmax[i], p->width);
    for (int y = y0 < 0 ? 0 : y0; y < y1 && y < p->height; y++)
      for (int x = x0 < 0 ? 0 : x0; x < x1 && x < p->width; x++) {
        bool edge = y - y0 < EDGE || y1 - 1 - y < EDGE || x - x0 < EDGE || x1 - 1 - x < EDGE;
        map.data[(size_t)y * (size_t)p->width + (size_t)x] = edge ? 3 : 1;
      }
  }
  snprintf(name, sizeof name, "%s.png", p->name);
  od_status st = od_png_encode(&png, &map);
  if (st == OD_OK) st = od_path_join(&path, u->trimaps, name);
  if (st == OD_OK) st = od_file_write_all(path, png.data, png.len);
  od_free(path);
  od_str_free(&png);
  od_image_free(&map);
  return st;
}

static od_status unpack_one(unpacker *u, const void *bytes, size_t size) {
  picture p = {.n = 0};
  od_view encoded, filename;
  int channels;
  char *path = NULL;
  OD_TRY(od_example_parse(&u->example, bytes, size));
  OD_TRY(od_example_get_text(&u->example, "image/encoded", &encoded, ""));
  OD_TRY(od_example_get_text(&u->example, "image/filename", &filename, ""));
  OD_TRY(od_image_size(&p.height, &p.width, &channels, encoded.data, encoded.size));
  OD_TRY(choose_name(&p, u, filename, od_image_format_of(encoded.data, encoded.size)));
  OD_TRY(read_boxes(&p, &u->example));
  OD_TRY(od_path_join(&path, u->images, p.file));
  od_status st = od_file_write_all(path, encoded.data, encoded.size);
  od_free(path);
  OD_TRY(st);
  OD_TRY(write_xml(u, &p));
  if (u->o->pets) OD_TRY(write_trimap(u, &p));
  od_str_addf(&u->list, "%s 1 1 1\n", p.name); /* Oxford's columns: class, species, breed; only the first word is read */
  u->written++;
  return OD_OK;
}

static od_status unpack_file(unpacker *u, const char *path) {
  od_record_reader *reader;
  OD_TRY(od_record_reader_open(&reader, path, NULL));
  od_status st = OD_OK;
  for (uint64_t i = 0; st == OD_OK; i++) {
    od_view record;
    st = od_record_read(reader, &record);
    if (st == OD_OK) st = od_fail_context(unpack_one(u, record.data, record.size), "%s: record %llu", path, (unsigned long long)i);
  }
  od_record_reader_free(reader);
  return st == OD_END ? OD_OK : st;
}

static od_status folders(unpacker *u) {
  char *annotations = NULL;
  od_status st;
  OD_GO(st, od_path_join(&u->images, u->o->output_dir, "images"));
  OD_GO(st, od_path_join(&annotations, u->o->output_dir, "annotations"));
  OD_GO(st, od_path_join(&u->xmls, u->o->output_dir, u->o->pets ? "annotations/xmls" : "annotations"));
  OD_GO(st, od_path_join(&u->trimaps, annotations, "trimaps"));
  OD_GO(st, od_path_make_dirs(u->images));
  OD_GO(st, od_path_make_dirs(u->xmls));
  if (u->o->pets) st = od_path_make_dirs(u->trimaps);
done:
  od_free(annotations);
  return st;
}

static od_status write_list(const unpacker *u) {
  char *path;
  OD_TRY(od_path_join(&path, u->o->output_dir, "annotations/trainval.txt"));
  od_status st = od_str_check(&u->list);
  if (st == OD_OK) st = od_file_write_all(path, od_str_text(&u->list), u->list.len);
  od_free(path);
  return st;
}

od_status od_unpack(int64_t *written, const od_unpack_options *options) {
  unpacker u = {.o = options};
  od_strings files = OD_STRINGS_INIT;
  od_progress progress;
  od_status st;
  OD_GO(st, od_map_new(&u.names));
  OD_GO(st, od_path_glob_all(&files, options->patterns, options->n_patterns));
  OD_GO(st, folders(&u));
  od_progress_start(&progress, options->reporter, "record files", 0, files.count);
  for (size_t i = 0; i < files.count; i++) {
    OD_GO(st, od_stop_check());
    OD_GO(st, unpack_file(&u, files.items[i]));
    od_progress_step(&progress, i + 1);
  }
  od_progress_end(&progress);
  st = options->pets ? write_list(&u) : OD_OK;
done:
  *written = u.written;
  od_example_free(&u.example);
  od_map_free(u.names);
  od_str_free(&u.list);
  od_strings_free(&files);
  od_free(u.images);
  od_free(u.xmls);
  od_free(u.trimaps);
  return st;
}
