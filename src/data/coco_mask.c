/* The polygon is drawn five times as large as a line of single pixels; where that line changes its column at the middle
 * of a picture's column, inside and outside change places below it. This is pycocotools' rule, edge cases included. */
#include "data/coco_mask.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

enum { SCALE = 5 };

/* One toggle: from row y of column x on, downwards and into the next columns, inside and outside swap. */
static void toggle(uint8_t *flips, int height, int width, int u, int u_before, int v, int v_before) {
  double x = (double)(u < u_before ? u : u - 1), y = (double)(v < v_before ? v : v_before);
  x = (x + 0.5) / SCALE - 0.5;
  if (floor(x) != x || x < 0 || x > width - 1) return;
  y = (y + 0.5) / SCALE - 0.5;
  y = ceil(y < 0 ? 0 : y > height ? height : y);
  size_t at = (size_t)x * (size_t)height + (size_t)y;
  if (at < (size_t)height * (size_t)width) flips[at] ^= 1;
}

typedef struct {
  uint8_t *flips;
  int height, width, u, v;
  bool started;
} pen;

static void move(pen *p, int u, int v) {
  if (p->started && u != p->u) toggle(p->flips, p->height, p->width, u, p->u, v, p->v);
  p->started = true;
  p->u = u;
  p->v = v;
}

/* All pixels of an edge, both ends included, in its direction. */
static void edge(pen *p, int xs, int ys, int xe, int ye) {
  int dx = xe > xs ? xe - xs : xs - xe, dy = ye > ys ? ye - ys : ys - ye;
  bool flat = dx >= dy, flip = flat ? xs > xe : ys > ye;
  if (flip) {
    int t = xs;
    xs = xe;
    xe = t;
    t = ys;
    ys = ye;
    ye = t;
  }
  /* A single point has no slope; nothing is divided by zero. */
  double slope = flat ? (dx ? (double)(ye - ys) / dx : 0) : (double)(xe - xs) / dy;
  int n = flat ? dx : dy;
  for (int d = 0; d <= n; d++) {
    int t = flip ? n - d : d;
    if (flat)
      move(p, t + xs, (int)(ys + slope * t + 0.5));
    else
      move(p, (int)(xs + slope * t + 0.5), t + ys);
  }
}

od_status od_coco_polygon(uint8_t *mask, int height, int width, const double *xy, size_t n) {
  if (n < 3) return od_fail(OD_EDATA, "a polygon of %zu points", n);
  for (size_t i = 0; i < 2 * n; i++)
    if (!(fabs(xy[i]) < 1e6)) return od_fail(OD_EDATA, "a polygon's coordinate is %g", xy[i]);
  size_t size = (size_t)height * (size_t)width;
  pen p = {NULL, height, width, 0, 0, false};
  OD_TRY(od_new(&p.flips, size + 1, 1));
  for (size_t i = 0; i < n; i++) {
    const double *a = xy + 2 * i, *b = xy + 2 * ((i + 1) % n);
    edge(&p, (int)(SCALE * a[0] + 0.5), (int)(SCALE * a[1] + 0.5), (int)(SCALE * b[0] + 0.5),
         (int)(SCALE * b[1] + 0.5));
  }
  uint8_t inside = 0;
  for (size_t i = 0; i < size; i++) {
    inside ^= p.flips[i];
    if (inside) mask[i % (size_t)height * (size_t)width + i / (size_t)height] = 1;
  }
  od_free(p.flips);
  return OD_OK;
}

od_status od_coco_runs(uint8_t *mask, int height, int width, const uint32_t *runs, size_t n) {
  size_t size = (size_t)height * (size_t)width, at = 0;
  for (size_t i = 0; i < n; i++) {
    if (runs[i] > size - at)
      return od_fail(OD_EDATA, "run lengths go beyond %d x %d pixels (width x height)", width, height);
    for (uint32_t k = 0; k < runs[i]; k++, at++)
      mask[at % (size_t)height * (size_t)width + at / (size_t)height] = i & 1;
  }
  if (at != size) return od_fail(OD_EDATA, "run lengths cover %zu of %zu pixels", at, size);
  return OD_OK;
}

/* Five bits a character from '0', bit 6 says that more follow; from the third on differences to the one before last. */
od_status od_coco_unpack_runs(uint32_t **out, size_t *n, const char *text) {
  size_t length = strlen(text), m = 0;
  uint32_t *runs = NULL;
  OD_TRY(od_new(&runs, length + 1, sizeof *runs));
  for (size_t p = 0; p < length;) {
    int64_t x = 0;
    int c, k = 0;
    do {
      c = text[p++] - '0';
      if (c < 0 || c > 63 || k > 6) {
        od_free(runs);
        return od_fail(OD_EDATA, "damaged run lengths at character %zu", p - 1);
      }
      x |= (int64_t)(c & 31) << 5 * k++;
      if (!(c & 32) && (c & 16)) x -= (int64_t)1 << 5 * k;
    } while (c & 32 && p < length);
    if (m > 2) x += runs[m - 2];
    if (x < 0 || x > UINT32_MAX) {
      od_free(runs);
      return od_fail(OD_EDATA, "damaged run lengths: a run of %lld pixels", (long long)x);
    }
    runs[m++] = (uint32_t)x;
  }
  *out = runs;
  *n = m;
  return OD_OK;
}
