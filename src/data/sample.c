/* Rows of ground truth: reserving, keeping, doubling. All columns go through one list, so that none is forgotten. */
#include "data/sample.h"

#include <string.h>

#include "base/mem.h"

typedef struct {
  void **data;
  size_t row; /* bytes a box */
} column;

enum { COLUMNS = 11 };

static void list_columns(column out[COLUMNS], od_truth *t) {
  size_t keypoints = (size_t)t->keypoints_per_box;
  const column c[COLUMNS] = {{(void **)&t->boxes, 4 * sizeof(float)},
                             {(void **)&t->classes, sizeof(int32_t)},
                             {(void **)&t->weights, sizeof(float)},
                             {(void **)&t->area, sizeof(float)},
                             {(void **)&t->difficult, 1},
                             {(void **)&t->crowd, 1},
                             {(void **)&t->group_of, 1},
                             {(void **)&t->scores, (size_t)t->scores_per_box * sizeof(float)},
                             {(void **)&t->keypoints, keypoints * 2 * sizeof(float)},
                             {(void **)&t->visible, keypoints},
                             {(void **)&t->mask_weights, sizeof(float)}};
  memcpy(out, c, sizeof c);
}

/* Masks are listed apart: their rows are large and change size with the picture. */
static size_t mask_row(const od_truth *t) { return (size_t)t->mask_height * (size_t)t->mask_width; }

od_status od_truth_reserve(od_truth *t, int rows, bool scores, bool keypoints, bool masks) {
  column c[COLUMNS];
  list_columns(c, t);
  size_t n = (size_t)(rows > 0 ? rows : 1);
  t->cap = (int)n;
  for (int i = 0; i < COLUMNS; i++) {
    void **data = c[i].data;
    bool wanted = data == (void **)&t->scores         ? scores
                  : data == (void **)&t->keypoints    ? keypoints
                  : data == (void **)&t->visible      ? keypoints
                  : data == (void **)&t->mask_weights ? masks
                                                      : true;
    if (wanted) OD_TRY(od_new(data, n, c[i].row ? c[i].row : 1));
  }
  if (masks) OD_TRY(od_new(&t->masks, n, mask_row(t) ? mask_row(t) : 1));
  return OD_OK;
}

void od_truth_free(od_truth *t) {
  column c[COLUMNS];
  list_columns(c, t);
  for (int i = 0; i < COLUMNS; i++) od_free(*c[i].data);
  od_free(t->masks);
  memset(t, 0, sizeof *t);
}

static void keep_rows(void *data, size_t row, const bool *keep, int count) {
  uint8_t *d = data;
  size_t to = 0;
  if (!d) return;
  for (int i = 0; i < count; i++) {
    if (!keep[i]) continue;
    if (to != (size_t)i) memcpy(d + to * row, d + (size_t)i * row, row);
    to++;
  }
}

void od_truth_keep(od_truth *t, const bool *keep) {
  column c[COLUMNS];
  list_columns(c, t);
  for (int i = 0; i < COLUMNS; i++) keep_rows(*c[i].data, c[i].row, keep, t->count);
  keep_rows(t->masks, mask_row(t), keep, t->count);
  int n = 0;
  for (int i = 0; i < t->count; i++) n += keep[i];
  t->count = n;
}

static od_status gather_rows(void **data, size_t row, const int *rows, int n) {
  uint8_t *out = NULL;
  if (!*data) return OD_OK;
  OD_TRY(od_new(&out, (size_t)n + 1, row ? row : 1));
  for (int i = 0; i < n; i++) memcpy(out + (size_t)i * row, (uint8_t *)*data + (size_t)rows[i] * row, row);
  od_free(*data);
  *data = out;
  return OD_OK;
}

od_status od_truth_gather(od_truth *t, const int *rows, int n) {
  column c[COLUMNS];
  list_columns(c, t);
  for (int i = 0; i < COLUMNS; i++) OD_TRY(gather_rows(c[i].data, c[i].row, rows, n));
  void *masks = t->masks;
  OD_TRY(gather_rows(&masks, mask_row(t), rows, n));
  t->masks = masks;
  t->count = n;
  t->cap = n + 1;
  return OD_OK;
}

static od_status double_rows(void **data, size_t row, int count) {
  if (!*data || count == 0) return OD_OK;
  size_t bytes;
  if (!od_mul_ok(&bytes, 2 * (size_t)count, row)) return od_fail(OD_ENOMEM, "too many boxes to double: %d", count);
  uint8_t *grown = od_realloc(*data, bytes ? bytes : 1);
  if (!grown) return OD_ENOMEM;
  memcpy(grown + (size_t)count * row, grown, (size_t)count * row);
  *data = grown;
  return OD_OK;
}

od_status od_truth_double(od_truth *t) {
  column c[COLUMNS];
  list_columns(c, t);
  for (int i = 0; i < COLUMNS; i++) OD_TRY(double_rows(c[i].data, c[i].row, t->count));
  void *masks = t->masks;
  od_status st = double_rows(&masks, mask_row(t), t->count);
  t->masks = masks;
  OD_TRY(st);
  t->count *= 2;
  if (t->cap < t->count) t->cap = t->count;
  return OD_OK;
}

void od_picture_free(od_picture *s) {
  od_image_free(&s->pixels);
  od_fimage_free(&s->image);
  od_truth_free(&s->truth);
  od_free(s->source_id);
  od_free(s->filename);
  od_free(s->key);
  od_free(s->origin);
  od_free(s->image_classes);
  od_free(s->image_confidences);
  memset(s, 0, sizeof *s);
}
