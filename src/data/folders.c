/* YOLO and CSV folders to records. Both give boxes normalised to the picture; the rest is convert.h. */
#include "data/folders.h"

#include <math.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "image/decode.h"
#include "io/file.h"

/* A box on its way: class by name or number, sides in pixels or shares. */
typedef struct {
  char *name; /* in an arena; NULL: id counts */
  int64_t id;
  double side[4];       /* xmin ymin xmax ymax */
  double width, height; /* to divide by; 0: the picture's, 1: normalised already */
  int next;             /* csv: next box of the same picture, -1: none */
} box;

typedef struct {
  const od_folder_options *o;
  const od_label_map *labels;
  od_strings pictures;
  char *image_dir, *label_dir;
  od_strings classes; /* yolo: classes.txt */
  box *boxes;         /* csv */
  size_t count, cap;
  int *first; /* csv: first box of each picture */
  od_arena *arena;
} source;

static od_status add_box(const source *s, od_box_columns *c, const box *b, const od_image *im) {
  size_t n = c->count++;
  double w = b->width > 0 ? b->width : im->width, h = b->height > 0 ? b->height : im->height;
  const char *name = b->name;
  if (name) {
    OD_TRY(od_convert_class(&c->label[n], s->labels, name));
  } else {
    name = b->id > 0 && b->id <= INT32_MAX ? od_label_map_name(s->labels, (int)b->id, false) : NULL;
    if (!name)
      return od_fail(OD_EINVAL, "class number %lld means id %lld, which is not in the label map", (long long)b->id - 1,
                     (long long)b->id);
    c->label[n] = b->id;
  }
  c->xmin[n] = (float)(b->side[0] / w);
  c->ymin[n] = (float)(b->side[1] / h);
  c->xmax[n] = (float)(b->side[2] / w);
  c->ymax[n] = (float)(b->side[3] / h);
  c->text[n] = (od_view){(const uint8_t *)name, strlen(name)};
  return OD_OK;
}

static od_status add_picture(const source *s, const char *name, const box *boxes, const int *order, size_t n,
                             od_convert_room *room) {
  char *path = od_arena_printf(room->arena, "%s/%s", s->image_dir, name), *data;
  size_t size;
  od_image im;
  od_box_columns c;
  if (!path) return OD_ENOMEM;
  OD_TRY(od_file_read_all(&data, &size, path, (uint64_t)1 << 30));
  od_status st = od_image_decode(&im, data, size, 3);
  od_image_format format = od_image_format_of(data, size);
  if (st == OD_OK) st = od_box_columns_new(&c, n, room->arena);
  for (size_t i = 0; st == OD_OK && i < n; i++) st = add_box(s, &c, &boxes[order ? order[i] : (int)i], &im);
  if (st == OD_OK) {
    od_convert_add_picture(room->builder, im.height, im.width, name, name, data, size,
                           format == OD_FORMAT_PNG   ? "png"
                           : format == OD_FORMAT_BMP ? "bmp"
                           : format == OD_FORMAT_GIF ? "gif"
                                                     : "jpeg");
    od_convert_add_boxes(room->builder, &c);
    room->boxes = (int64_t)n;
  }
  od_image_free(&im);
  od_free(data);
  return od_fail_context(st, "%s", path);
}

static od_status convert(od_convert_result *out, source *s, od_status (*make)(void *, int64_t, od_convert_room *)) {
  od_record_shards *shards;
  if (s->pictures.count == 0) return od_fail(OD_ENOENT, "%s: there is no picture", s->image_dir);
  OD_TRY(od_record_shards_open(&shards, s->o->output_path, s->o->num_shards, NULL));
  od_convert_job job = {"pictures", (int64_t)s->pictures.count, make, s, s->o->threads, s->o->reporter};
  od_status st = od_convert_run(out, shards, &job);
  return od_convert_close(shards, st, out, s->o->output_path, s->o->reporter);
}

static void free_source(source *s, od_label_map *labels) {
  od_strings_free(&s->pictures);
  od_strings_free(&s->classes);
  od_free(s->image_dir);
  od_free(s->label_dir);
  od_free(s->boxes);
  od_free(s->first);
  od_arena_free(s->arena);
  od_label_map_free(labels);
}

static od_status check(const od_folder_options *o) {
  if (o->data_dir && o->output_path && o->label_map_path) return OD_OK;
  return od_fail(OD_EUSAGE, "data_dir, output_path and label_map_path are needed");
}

/* -------------------------------------------------------------------------------------------------------------- YOLO */
static od_status yolo_box(const source *s, box *b, char *line, int number) {
  char *save = NULL;
  double v[5] = {0}, low[2] = {INFINITY, INFINITY}, high[2] = {-INFINITY, -INFINITY}, d;
  int n = 0;
  for (char *word = strtok_r(line, " \t\r,", &save); word; word = strtok_r(NULL, " \t\r,", &save), n++) {
    if (!od_parse_f64(&d, word)) return od_fail(OD_EDATA, "line %d: '%s' is no number", number, word);
    if (n < 5) v[n] = d;
    if (n > 0) {
      low[(n - 1) % 2] = fmin(low[(n - 1) % 2], d);
      high[(n - 1) % 2] = fmax(high[(n - 1) % 2], d);
    }
  }
  if (n != 5 && (n < 7 || n % 2 == 0))
    return od_fail(OD_EDATA, "line %d has %d numbers; class cx cy w h, or class and a polygon's points, are expected",
                   number, n);
  if (v[0] < 0 || v[0] != floor(v[0]) || v[0] > 1e6) return od_fail(OD_EDATA, "line %d: class number %g", number, v[0]);
  *b = (box){NULL, (int64_t)v[0] + 1, {low[0], low[1], high[0], high[1]}, 1, 1, -1};
  if (n == 5) {
    const double side[4] = {v[1] - v[3] / 2, v[2] - v[4] / 2, v[1] + v[3] / 2, v[2] + v[4] / 2};
    memcpy(b->side, side, sizeof side);
  }
  if (s->classes.count == 0) return OD_OK;
  if ((size_t)v[0] >= s->classes.count)
    return od_fail(OD_EDATA, "line %d: class number %g, but the list of classes has %zu", number, v[0],
                   s->classes.count);
  b->name = s->classes.items[(size_t)v[0]];
  return OD_OK;
}

static od_status yolo_make(void *ctx, int64_t i, od_convert_room *room) {
  const source *s = ctx;
  const char *name = s->pictures.items[i];
  char *path = od_arena_printf(room->arena, "%s/%.*s.txt", s->label_dir, (int)(strrchr(name, '.') - name), name),
       *text = NULL;
  size_t size, n = 0, lines = 2;
  if (!path) return OD_ENOMEM;
  if (!od_path_is_file(path)) return add_picture(s, name, NULL, NULL, 0, room);
  OD_TRY(od_file_read_all(&text, &size, path, (uint64_t)1 << 26));
  for (size_t k = 0; k < size; k++) lines += text[k] == '\n';
  box *boxes = od_arena_alloc(room->arena, lines * sizeof *boxes);
  od_status st = boxes ? OD_OK : OD_ENOMEM;
  int number = 0;
  for (char *line = text, *next; line && st == OD_OK; line = next) {
    next = strchr(line, '\n');
    if (next) *next++ = 0;
    number++;
    if (line[strspn(line, " \t\r")]) st = yolo_box(s, &boxes[n++], line, number);
  }
  od_free(text);
  OD_TRY(od_fail_context(st, "%s", path));
  return od_fail_context(add_picture(s, name, boxes, NULL, n, room), "%s", path);
}

static bool is_picture(const char *name) {
  const char *dot = strrchr(name, '.');
  static const char *const endings[] = {".jpg", ".jpeg", ".png", ".bmp", ".JPG", ".JPEG", ".PNG", ".BMP"};
  for (size_t i = 0; dot && name[0] != '.' && i < sizeof endings / sizeof *endings; i++)
    if (strcmp(dot, endings[i]) == 0) return true;
  return false;
}

static od_status yolo_lists(source *s) {
  static const char *const lists[] = {"classes.txt", "obj.names", "labels/classes.txt"};
  od_strings all = {0};
  od_status st = OD_OK;
  OD_TRY(od_path_join(&s->image_dir, s->o->data_dir, "images"));
  OD_TRY(od_path_join(&s->label_dir, s->o->data_dir, "labels"));
  if (!od_path_is_dir(s->image_dir)) {
    od_free(s->image_dir);
    OD_TRY(od_path_clean(&s->image_dir, s->o->data_dir));
  }
  if (!od_path_is_dir(s->label_dir)) {
    od_free(s->label_dir);
    OD_TRY(od_path_clean(&s->label_dir, s->o->data_dir));
  }
  for (size_t i = 0; i < 3 && s->classes.count == 0; i++) {
    char *path;
    OD_TRY(od_path_join(&path, s->o->data_dir, lists[i]));
    if (od_path_is_file(path)) st = od_convert_names(&s->classes, path);
    od_free(path);
    OD_TRY(st);
  }
  st = od_path_list(&all, s->image_dir);
  for (size_t i = 0; i < all.count && st == OD_OK; i++)
    if (is_picture(all.items[i])) st = od_strings_add(&s->pictures, all.items[i]);
  od_strings_free(&all);
  return st;
}

od_status od_yolo_create(od_convert_result *out, const od_folder_options *o) {
  source s = {.o = o};
  od_label_map *labels = NULL;
  memset(out, 0, sizeof *out);
  OD_TRY(check(o));
  od_status st = od_label_map_load(&labels, o->label_map_path);
  s.labels = labels;
  if (st == OD_OK) st = yolo_lists(&s);
  if (st == OD_OK) st = convert(out, &s, yolo_make);
  free_source(&s, labels);
  return st;
}

/* --------------------------------------------------------------------------------------------------------------- CSV */
enum { FILENAME, CLASS, XMIN, YMIN, XMAX, YMAX, WIDTH, HEIGHT, COLUMNS };

static const char *const headings[COLUMNS][3] = {{"filename", "image", "file"}, {"class", "label", "name"},
                                                 {"xmin", "x_min", "x1"},       {"ymin", "y_min", "y1"},
                                                 {"xmax", "x_max", "x2"},       {"ymax", "y_max", "y2"},
                                                 {"width", "width", "width"},   {"height", "height", "height"}};

/* Cuts the next field of a CSV line in place; quotes may surround it, two of them inside stand for one. */
static char *next_field(char **line) {
  char *from = *line, *to, *start;
  if (!from) return NULL;
  if (*from != '"') {
    char *end = strchr(from, ',');
    *line = end ? end + 1 : NULL;
    if (end) *end = 0;
    from[strcspn(from, "\r")] = 0;
    return from;
  }
  start = to = ++from;
  while (*from && !(*from == '"' && from[1] != '"')) {
    if (*from == '"') from++;
    *to++ = *from++;
  }
  char *comma = strchr(from, ',');
  *line = comma ? comma + 1 : NULL;
  *to = 0;
  return start;
}

static od_status read_heading(int column_of[COLUMNS], char *line) {
  for (int k = 0; k < COLUMNS; k++) column_of[k] = -1;
  int i = 0;
  for (char *f; (f = next_field(&line)); i++)
    for (int k = 0; k < COLUMNS; k++)
      for (int j = 0; j < 3; j++)
        if (strcasecmp(f + strspn(f, " "), headings[k][j]) == 0) column_of[k] = i;
  for (int k = 0; k <= YMAX; k++)
    if (column_of[k] < 0)
      return od_fail(OD_EINVAL,
                     "line 1: the heading has no column '%s'; filename, class, xmin, ymin, xmax, ymax are needed",
                     headings[k][0]);
  return OD_OK;
}

static od_status add_line(source *s, od_map *index, int *last, char *line, const int column_of[COLUMNS], int number) {
  char *field[COLUMNS] = {NULL};
  int i = 0;
  for (char *f; (f = next_field(&line)); i++)
    for (int k = 0; k < COLUMNS; k++)
      if (column_of[k] == i) field[k] = f;
  box b = {.next = -1};
  for (int k = 0; k <= YMAX; k++)
    if (!field[k])
      return od_fail(OD_EINVAL, "line %d has %d fields, the column %s is missing", number, i, headings[k][0]);
  for (int k = XMIN; k < COLUMNS; k++) {
    double *to = k <= YMAX ? &b.side[k - XMIN] : k == WIDTH ? &b.width : &b.height;
    if (field[k] && !od_parse_f64(to, field[k]))
      return od_fail(OD_EINVAL, "line %d: %s is '%s', a number is expected", number, headings[k][0], field[k]);
  }
  b.name = od_arena_strdup(s->arena, field[CLASS]);
  if (!b.name) return OD_ENOMEM;
  OD_TRY(od_grow(&s->boxes, &s->cap, s->count + 1, sizeof *s->boxes));
  int at = (int)s->count++, picture = (int)(intptr_t)od_map_get(index, field[FILENAME]) - 1;
  s->boxes[at] = b;
  if (picture < 0) {
    picture = (int)s->pictures.count;
    OD_TRY(od_strings_add(&s->pictures, field[FILENAME]));
    OD_TRY(od_map_set(index, field[FILENAME], (void *)(intptr_t)(picture + 1)));
    s->first[picture] = at;
  } else {
    s->boxes[last[picture]].next = at;
  }
  last[picture] = at;
  return OD_OK;
}

static od_status read_csv(source *s) {
  char *text = NULL;
  size_t size, lines = 2;
  int column_of[COLUMNS], *last = NULL, number = 0;
  od_map *index = NULL;
  od_status st = OD_OK;
  OD_TRY(od_file_read_all(&text, &size, s->o->csv_path, (uint64_t)1 << 32));
  for (size_t i = 0; i < size; i++) lines += text[i] == '\n';
  OD_GO(st, od_map_new(&index));
  OD_GO(st, od_arena_new(&s->arena));
  OD_GO(st, od_new(&s->first, lines, sizeof *s->first));
  OD_GO(st, od_new(&last, lines, sizeof *last));
  char *line = text;
  if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) line += 3; /* the mark that spreadsheets put in front */
  for (char *next; line; line = next) {
    next = strchr(line, '\n');
    if (next) *next++ = 0;
    number++;
    if (line[strspn(line, " \t\r")] == 0) continue;
    OD_GO(st, number == 1 ? read_heading(column_of, line) : add_line(s, index, last, line, column_of, number));
  }
done:
  od_free(text);
  od_free(last);
  od_map_free(index);
  return od_fail_context(st, "%s", s->o->csv_path);
}

static od_status csv_make(void *ctx, int64_t i, od_convert_room *room) {
  const source *s = ctx;
  size_t n = 0;
  for (int b = s->first[i]; b >= 0; b = s->boxes[b].next) n++;
  int *order = od_arena_alloc(room->arena, (n + 1) * sizeof *order);
  if (!order) return OD_ENOMEM;
  n = 0;
  for (int b = s->first[i]; b >= 0; b = s->boxes[b].next) order[n++] = b;
  return add_picture(s, s->pictures.items[i], s->boxes, order, n, room);
}

od_status od_csv_create(od_convert_result *out, const od_folder_options *o) {
  source s = {.o = o};
  od_label_map *labels = NULL;
  memset(out, 0, sizeof *out);
  OD_TRY(check(o));
  if (!o->csv_path) return od_fail(OD_EUSAGE, "the CSV file is needed");
  od_status st = od_label_map_load(&labels, o->label_map_path);
  s.labels = labels;
  if (st == OD_OK) st = od_path_clean(&s.image_dir, o->data_dir);
  if (st == OD_OK) st = read_csv(&s);
  if (st == OD_OK) st = convert(out, &s, csv_make);
  free_source(&s, labels);
  return st;
}
