/* Pictures of an evaluation; see chart.h. */
#include "eval/chart.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "image/font.h"

enum { WIDTH = 640, HEIGHT = 480, LEFT = 48, TOP = 28, RIGHT = 200, BOTTOM = 36, LEGEND_MAX = 20 };

static const od_colour black = {0, 0, 0}, grey = {216, 216, 216};

static void dot(od_image *im, int x, int y, od_colour c) {
  if (x < 0 || y < 0 || x >= im->width || y >= im->height) return;
  uint8_t *p = im->data + ((size_t)y * (size_t)im->width + (size_t)x) * 3;
  p[0] = c.r;
  p[1] = c.g;
  p[2] = c.b;
}

/* A line two pixels wide, by steps of at most one pixel. */
static void line(od_image *im, double x0, double y0, double x1, double y1, od_colour c, int thick) {
  int steps = (int)ceil(fmax(fabs(x1 - x0), fabs(y1 - y0))) + 1;
  for (int i = 0; i <= steps; i++) {
    int x = (int)lround(x0 + (x1 - x0) * i / steps), y = (int)lround(y0 + (y1 - y0) * i / steps);
    for (int k = 0; k < thick * thick; k++) dot(im, x + k % thick, y + k / thick, c);
  }
}

static void fill(od_image *im, int x0, int y0, int w, int h, od_colour c) {
  for (int y = y0; y < y0 + h; y++)
    for (int x = x0; x < x0 + w; x++) dot(im, x, y, c);
}

/* Text centred on x where centred, else from x on. */
static void text(od_image *im, od_font *font, const char *what, int x, int y, bool centred) {
  if (!font) return;
  int w, h;
  od_font_measure(&w, &h, font, what);
  od_font_paint(im, font, what, centred ? x - w / 2 : x, y, black);
}

static od_status blank(od_image *out, int width, int height) {
  OD_TRY(od_image_new(out, height, width, 3));
  memset(out->data, 255, (size_t)width * (size_t)height * 3);
  return OD_OK;
}

/* ------------------------------------------------------------------------------------------------------------- curves */
static double at_x(double recall) { return LEFT + recall * (WIDTH - LEFT - RIGHT); }
static double at_y(double precision) { return HEIGHT - BOTTOM - precision * (HEIGHT - TOP - BOTTOM); }

static void axes(od_image *im, od_font *font) {
  char number[8];
  for (int k = 0; k <= 10; k++) {
    double v = k / 10.0;
    line(im, at_x(v), at_y(0), at_x(v), at_y(1), grey, 1);
    line(im, at_x(0), at_y(v), at_x(1), at_y(v), grey, 1);
    if (k % 2) continue;
    snprintf(number, sizeof number, "%.1f", v);
    text(im, font, number, (int)at_x(v), HEIGHT - BOTTOM + 4, true);
    text(im, font, number, LEFT - 26, (int)at_y(v) - 7, false);
  }
  line(im, at_x(0), at_y(0), at_x(1), at_y(0), black, 1);
  line(im, at_x(0), at_y(0), at_x(0), at_y(1), black, 1);
  text(im, font, "recall", (int)at_x(0.5), HEIGHT - 18, true);
  text(im, font, "precision", 4, TOP - 22, false);
}

static double area_of(const od_eval_curve *c) {
  double best = 0, area = 0;
  for (size_t k = c->n; k-- > 0;) {
    best = fmax(best, c->precision[k]);
    area += (c->recall[k] - (k ? c->recall[k - 1] : 0)) * best;
  }
  return area;
}

static void draw_curve(od_image *im, const od_eval_curve *c) {
  od_colour colour = od_colour_of_class(c->class_id);
  for (size_t k = 1; k < c->n; k++)
    line(im, at_x(c->recall[k - 1]), at_y(c->precision[k - 1]), at_x(c->recall[k]), at_y(c->precision[k]), colour, 2);
  if (c->n == 1) fill(im, (int)at_x(c->recall[0]) - 2, (int)at_y(c->precision[0]) - 2, 5, 5, colour);
}

typedef struct {
  const od_eval_curve *curve;
  double area;
} ranked;

static int by_area(const void *pa, const void *pb) {
  const ranked *a = pa, *b = pb;
  if (a->area != b->area) return a->area > b->area ? -1 : 1;
  return a->curve->class_id - b->curve->class_id;
}

static void legend(od_image *im, od_font *font, const ranked *list, size_t n) {
  char entry[64];
  for (size_t i = 0; i < n && i < LEGEND_MAX; i++) {
    int y = TOP + (int)i * 20;
    fill(im, WIDTH - RIGHT + 12, y + 2, 12, 12, od_colour_of_class(list[i].curve->class_id));
    snprintf(entry, sizeof entry, "%.3f %.40s", list[i].area, list[i].curve->name);
    text(im, font, entry, WIDTH - RIGHT + 30, y, false);
  }
}

od_status od_eval_chart_curves(od_image *out, const od_eval *ev, const char *metric, od_font *font) {
  ranked *list;
  size_t n = 0;
  OD_TRY(od_new(&list, od_eval_curve_count(ev) + 1, sizeof *list));
  for (size_t i = 0; i < od_eval_curve_count(ev); i++) {
    const od_eval_curve *c = od_eval_curve_at(ev, i);
    if (strcmp(c->metric, metric) == 0) list[n++] = (ranked){c, area_of(c)};
  }
  od_status st = n ? OD_OK : od_fail(OD_EINVAL, "there is no precision-recall curve of %s", metric);
  if (st == OD_OK) st = blank(out, WIDTH, HEIGHT);
  if (st == OD_OK) {
    qsort(list, n, sizeof *list, by_area);
    axes(out, font);
    for (size_t i = n; i-- > 0;) draw_curve(out, list[i].curve); /* the best on top */
    legend(out, font, list, n);
    text(out, font, metric, (int)at_x(0.5), TOP - 22, true);
  }
  od_free(list);
  return st;
}

/* ---------------------------------------------------------------------------------------------------------- confusion */
od_status od_eval_chart_confusion(od_image *out, const od_eval *ev, od_font *font) {
  size_t n;
  const uint64_t *counts = od_eval_confusion(ev, &n);
  if (!counts) return od_fail(OD_EINVAL, "the confusion matrix was not collected");
  int k = (int)n, cell = k > 200 ? 3 : k > 40 ? 12 : k > 12 ? 28 : 48, margin = 36;
  OD_TRY(blank(out, margin + k * cell + 8, margin + k * cell + 8));
  char number[24];
  for (int i = 0; i < k; i++) {
    uint64_t sum = 0;
    for (int j = 0; j < k; j++) sum += counts[i * k + j];
    for (int j = 0; j < k; j++) {
      double share = sum ? (double)counts[i * k + j] / (double)sum : 0;
      /* white to blue; light enough at the end to read black figures */
      od_colour c = {(uint8_t)lround(255 - 175 * share), (uint8_t)lround(255 - 115 * share), 255};
      fill(out, margin + j * cell, margin + i * cell, cell - 1, cell - 1, c);
      snprintf(number, sizeof number, "%llu", (unsigned long long)counts[i * k + j]);
      if (cell >= 28 && counts[i * k + j])
        text(out, font, number, margin + j * cell + cell / 2, margin + i * cell + cell / 2 - 7, true);
    }
    if (cell < 28) continue;
    if (i + 1 < k)
      snprintf(number, sizeof number, "%d", i + 1);
    else
      snprintf(number, sizeof number, "-");
    text(out, font, number, margin + i * cell + cell / 2, margin - 18, true);
    text(out, font, number, 6, margin + i * cell + cell / 2 - 7, false);
  }
  return OD_OK;
}
