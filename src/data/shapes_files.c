/* Writing a set of drawn pictures as somebody's annotated photographs would lie: images/, annotations/, a label map, lists. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/parallel.h"
#include "base/str.h"
#include "data/shapes.h"
#include "image/encode.h"
#include "io/file.h"

typedef struct {
  const od_shapes_options *options;
  pthread_mutex_t lock; /* of the two below */
  od_progress progress;
  uint64_t done;
} job;

/* Number i of the whole set: the training part first. */
static void name_of(char *name, size_t size, const od_shapes_options *o, int64_t i) {
  bool held = i >= o->count;
  snprintf(name, size, "%s_%05lld", held ? "held_out" : "train", (long long)(held ? i - o->count : i) + 1);
}

static void print_xml(od_str *s, const char *name, const od_image *image, const od_shape_truth *truth, int n) {
  od_str_addf(s,
              "<annotation>\n  <folder>images</folder>\n  <filename>%s.jpg</filename>\n  <source><database>objdet "
              "shapes</database></source>\n",
              name);
  od_str_addf(s, "  <size><width>%d</width><height>%d</height><depth>3</depth></size>\n  <segmented>0</segmented>\n",
              image->width, image->height);
  for (int k = 0; k < n; k++) {
    const od_shape_truth *t = &truth[k];
    od_str_addf(s, "  <object>\n    <name>%s</name>\n    <pose>Unspecified</pose>\n    <truncated>0</truncated>\n",
                od_shape_name(t->id));
    od_str_addf(s, "    <occluded>%d</occluded>\n    <difficult>0</difficult>\n", t->occluded);
    od_str_addf(s, "    <bndbox><xmin>%d</xmin><ymin>%d</ymin><xmax>%d</xmax><ymax>%d</ymax></bndbox>\n  </object>\n",
                t->xmin, t->ymin, t->xmax, t->ymax);
  }
  od_str_add(s, "</annotation>\n");
}

static od_status save(const char *folder, const char *part, const char *name, const od_str *text) {
  od_str path = OD_STR_INIT;
  od_str_addf(&path, "%s/%s%s", folder, part, name);
  od_status st = od_str_check(&path);
  if (st == OD_OK) st = od_str_check(text);
  if (st == OD_OK) st = od_file_write_all(od_str_text(&path), od_str_text(text), text->len);
  od_str_free(&path);
  return st;
}

static od_status make(void *ctx, int64_t i) {
  job *j = ctx;
  const od_shapes_options *o = j->options;
  char name[64], file[80];
  od_image image;
  od_shape_truth truth[OD_SHAPES_MAX];
  int n;
  bool held = i >= o->count;
  od_str text = OD_STR_INIT;
  OD_TRY(od_stop_check());
  name_of(name, sizeof name, o, i);
  OD_TRY(od_shapes_draw(&image, truth, &n, held ? o->held_out_seed : o->seed, (uint64_t)(held ? i - o->count : i)));
  od_status st = od_jpeg_encode(&text, &image, 92);
  snprintf(file, sizeof file, "%s.jpg", name);
  if (st == OD_OK) st = save(o->output_dir, "images/", file, &text);
  od_str_clear(&text);
  print_xml(&text, name, &image, truth, n);
  snprintf(file, sizeof file, "%s.xml", name);
  if (st == OD_OK) st = save(o->output_dir, "annotations/", file, &text);
  od_str_free(&text);
  od_image_free(&image);
  pthread_mutex_lock(&j->lock);
  od_progress_step(&j->progress, ++j->done);
  pthread_mutex_unlock(&j->lock);
  return st;
}

static od_status save_lists(const od_shapes_options *o) {
  od_str train = OD_STR_INIT, held = OD_STR_INIT, map = OD_STR_INIT;
  char name[64];
  for (int64_t i = 0; i < o->count + o->held_out_count; i++) {
    name_of(name, sizeof name, o, i);
    od_str_addf(i < o->count ? &train : &held, "%s\n", name);
  }
  for (int id = 1; id <= OD_SHAPE_CLASSES; id++)
    od_str_addf(&map, "item {\n  id: %d\n  name: '%s'\n}\n", id, od_shape_name(id));
  od_status st = save(o->output_dir, "", "train.txt", &train);
  if (st == OD_OK) st = save(o->output_dir, "", "held_out.txt", &held);
  if (st == OD_OK) st = save(o->output_dir, "", "label_map.pbtxt", &map);
  od_str_free(&train);
  od_str_free(&held);
  od_str_free(&map);
  return st;
}

od_status od_shapes_create(const od_shapes_options *o) {
  int64_t total = o->count + o->held_out_count;
  job j = {.options = o, .lock = PTHREAD_MUTEX_INITIALIZER};
  if (o->count < 1 || o->held_out_count < 0 || total > 99999)
    return od_fail(OD_EINVAL, "%lld and %lld pictures: at least 1 to train on is wanted, and at most 99999 in all",
                   (long long)o->count, (long long)o->held_out_count);
  if (o->held_out_count && o->seed == o->held_out_seed)
    return od_fail(OD_EINVAL, "seed %llu for both parts: the held-out pictures would be the training pictures",
                   (unsigned long long)o->seed);
  od_progress_start(&j.progress, o->reporter, "drawing pictures", 0, (uint64_t)total);
  OD_TRY(od_parallel_for(total, o->threads, make, &j));
  od_progress_end(&j.progress);
  return save_lists(o);
}
