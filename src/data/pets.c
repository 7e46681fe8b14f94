/* The class of a pet is in its file name, not in the XML's <name> (which says cat or dog). */
#include "data/pets.h"

#include <ctype.h>
#include <string.h>

#include "base/mem.h"
#include "data/annotation.h"
#include "data/python_random.h"
#include "image/decode.h"
#include "image/encode.h"
#include "io/file.h"

typedef struct {
  const od_pets_options *o;
  const od_label_map *labels;
  char **names; /* of this part; borrowed */
} part;

/* "great_pyrenees_12.jpg" to "great_pyrenees": letters and underscores, then underscore, digits, .jpg. */
static od_status class_name(char **out, const char *file, od_arena *arena) {
  size_t n = 0;
  while (isalpha((unsigned char)file[n]) || file[n] == '_') n++;
  size_t digits = strspn(file + n, "0123456789");
  if (n < 2 || file[n - 1] != '_' || digits == 0 || strncasecmp(file + n + digits, ".jpg", 4) != 0)
    return od_fail(OD_EDATA, "<filename> is '%s'; a class, an underscore, a number and .jpg are expected", file);
  *out = od_arena_alloc(arena, n);
  if (!*out) return OD_ENOMEM;
  memcpy(*out, file, n - 1);
  return OD_OK;
}

/* The pet's pixels (trimap value 2 is background) as 0 and 1, and their bounding box in pixel indices. */
static od_status load_trimap(od_image *mask, int box[4], const part *p, const char *name, int height, int width) {
  od_str path = OD_STR_INIT;
  char *data = NULL;
  size_t size;
  od_status st = OD_OK;
  od_str_addf(&path, "%s/annotations/trimaps/%s.png", p->o->data_dir, name);
  OD_GO(st, od_str_check(&path));
  OD_GO(st, od_file_read_all(&data, &size, od_str_text(&path), (uint64_t)1 << 30));
  if (od_image_format_of(data, size) != OD_FORMAT_PNG) {
    st = od_fail(OD_EDATA, "%s: is no PNG", od_str_text(&path));
    goto done;
  }
  OD_GO(st, od_fail_context(od_image_decode(mask, data, size, 1), "%s", od_str_text(&path)));
  if (mask->height != height || mask->width != width) {
    st = od_fail(OD_EDATA, "%s: %d x %d pixels (width x height), the picture has %d x %d", od_str_text(&path),
                 mask->width, mask->height, width, height);
    goto done;
  }
  box[0] = box[1] = INT32_MAX;
  box[2] = box[3] = -1;
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++) {
      uint8_t *m = &mask->data[y * width + x];
      *m = *m != 2;
      if (!*m) continue;
      box[0] = y < box[0] ? y : box[0];
      box[1] = x < box[1] ? x : box[1];
      box[2] = y > box[2] ? y : box[2];
      box[3] = x > box[3] ? x : box[3];
    }
  if (box[2] < 0) st = od_fail(OD_EDATA, "%s: all of it is background", od_str_text(&path));
done:
  od_free(data);
  od_str_free(&path);
  return st;
}

static od_status add_masks(const part *p, const od_image *mask, size_t n, od_convert_room *room) {
  if (p->o->numerical_masks) {
    size_t plane = (size_t)mask->height * (size_t)mask->width;
    float *f = NULL;
    OD_TRY(od_new(&f, n * plane + 1, sizeof *f));
    for (size_t i = 0; i < n * plane; i++) f[i] = mask->data[i % plane];
    od_example_add_floats(room->builder, "image/object/mask", f, n * plane);
    od_free(f);
    return OD_OK;
  }
  od_str png = OD_STR_INIT;
  od_view *list = od_arena_alloc(room->arena, (n + 1) * sizeof *list);
  od_status st = list ? od_png_encode(&png, mask) : OD_ENOMEM;
  for (size_t i = 0; st == OD_OK && i < n; i++) list[i] = (od_view){(const uint8_t *)png.data, png.len};
  if (st == OD_OK) od_example_add_bytes_list(room->builder, "image/object/mask", list, n);
  od_str_free(&png);
  return st;
}

static od_status add_objects(const part *p, const od_voc *v, const char *name, const od_image *picture,
                             od_convert_room *room) {
  od_box_columns c;
  od_image mask = {0};
  int box[4] = {0};
  char *text = NULL;
  int64_t label;
  od_status st = OD_OK;
  OD_TRY(class_name(&text, v->filename, room->arena));
  OD_TRY(od_convert_class(&label, p->labels, text));
  OD_TRY(od_box_columns_new(&c, (size_t)v->count, room->arena));
  if (p->o->full_body) OD_GO(st, load_trimap(&mask, box, p, name, picture->height, picture->width));
  for (int i = 0; i < v->count; i++) {
    const od_voc_object *b = &v->objects[i];
    bool face = !p->o->full_body;
    c.xmin[i] = (float)((face ? b->xmin : box[1]) / v->width);
    c.ymin[i] = (float)((face ? b->ymin : box[0]) / v->height);
    c.xmax[i] = (float)((face ? b->xmax : box[3]) / v->width);
    c.ymax[i] = (float)((face ? b->ymax : box[2]) / v->height);
    c.text[i] = (od_view){(const uint8_t *)text, strlen(text)};
    c.view[i] = (od_view){(const uint8_t *)b->pose, strlen(b->pose)};
    c.label[i] = label;
    c.difficult[i] = b->difficult != 0;
    c.truncated[i] = b->truncated;
  }
  c.count = (size_t)v->count;
  od_convert_add_boxes(room->builder, &c);
  od_example_add_int64s(room->builder, "image/object/difficult", c.difficult, c.count);
  od_example_add_int64s(room->builder, "image/object/truncated", c.truncated, c.count);
  od_example_add_bytes_list(room->builder, "image/object/view", c.view, c.count);
  room->boxes = v->count;
  if (p->o->full_body) OD_GO(st, add_masks(p, &mask, c.count, room));
done:
  od_image_free(&mask);
  return st;
}

static od_status make(void *ctx, int64_t i, od_convert_room *room) {
  const part *p = ctx;
  const char *name = p->names[i];
  char *data = NULL, *xml = od_arena_printf(room->arena, "%s/annotations/xmls/%s.xml", p->o->data_dir, name), *image;
  size_t size;
  od_voc v;
  od_image pixels = {0};
  od_status st = OD_OK;
  if (!xml) return OD_ENOMEM;
  OD_TRY(od_voc_load(&v, xml, room->arena));
  if (v.width == 0 || v.height == 0) return od_fail(OD_EDATA, "%s: <size> is missing or zero", xml);
  image = od_arena_printf(room->arena, "%s/images/%s", p->o->data_dir, v.filename);
  if (!image) return OD_ENOMEM;
  OD_TRY(od_file_read_all(&data, &size, image, (uint64_t)1 << 30));
  if (od_image_format_of(data, size) != OD_FORMAT_JPEG) {
    st = od_fail(OD_EDATA, "%s: is no JPEG but %s", image, od_image_format_name(od_image_format_of(data, size)));
    goto done;
  }
  OD_GO(st, od_fail_context(od_image_decode(&pixels, data, size, 3), "%s", image));
  od_convert_add_picture(room->builder, v.height, v.width, v.filename, v.filename, data, size, "jpeg");
  OD_GO(st, od_fail_context(add_objects(p, &v, name, &pixels, room), "%s", xml));
done:
  od_image_free(&pixels);
  od_free(data);
  return st;
}

static od_status write_part(od_convert_result *out, part *p, size_t count, bool train) {
  const char *ending = train ? "train" : "val";
  od_str path = OD_STR_INIT;
  od_record_shards *shards;
  od_str_addf(&path, "%s/%s_%s.record", p->o->output_dir,
              p->o->full_body    ? "pets_fullbody_with_masks"
              : p->o->num_shards ? "pet_faces"
                                 : "pet",
              ending);
  od_status st = od_str_check(&path);
  if (st == OD_OK) st = od_record_shards_open(&shards, od_str_text(&path), p->o->num_shards, NULL);
  if (st == OD_OK) {
    od_convert_job job = {
        train ? "training pictures" : "validation pictures", (int64_t)count, make, p, p->o->threads, p->o->reporter};
    st = od_convert_run(out, shards, &job);
    st = od_convert_close(shards, st, out, od_str_text(&path), p->o->reporter);
  }
  od_str_free(&path);
  return st;
}

od_status od_pets_create(od_convert_result out[2], const od_pets_options *o) {
  od_strings names = {0};
  od_label_map *labels = NULL;
  char *list = NULL;
  od_python_random random;
  od_status st = OD_OK;
  memset(out, 0, 2 * sizeof *out);
  if (!o->data_dir || !o->output_dir) return od_fail(OD_EUSAGE, "data_dir and output_dir are needed");
  od_voc_init();
  OD_GO(st, od_path_join(&list, o->data_dir, "annotations/trainval.txt"));
  OD_GO(st, od_fail_context(od_convert_names(&names, list),
                            "data_dir is to hold images/ and annotations/ of the Oxford pets"));
  OD_GO(st, od_label_map_load(&labels, o->label_map_path ? o->label_map_path : "data/pet_label_map.pbtxt"));
  od_python_seed(&random, 42);
  od_python_shuffle(&random, (void **)names.items, names.count, o->split == 2 ? 2 : 3);
  size_t train = (size_t)(0.7 * (double)names.count);
  part p = {o, labels, names.items};
  OD_GO(st, write_part(&out[0], &p, train, true));
  p.names = names.items + train;
  OD_GO(st, write_part(&out[1], &p, names.count - train, false));
done:
  od_free(list);
  od_strings_free(&names);
  od_label_map_free(labels);
  return st;
}
