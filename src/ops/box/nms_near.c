/* Selected boxes by place; see nms_near.h. */
#include "ops/box/nms_near.h"

#include <math.h>

#include "ops/box/nms.h"

/* Corners in order. */
typedef struct {
  float y0, x0, y1, x1, area;
} sorted_box;

struct od_near {
  float threshold, reach; /* reach: (1-t)/t with margin */
  bool by_place;          /* false: compare with all */
  float low, per_unit;    /* bucket of an edge y: (y - low) * per_unit */
  int32_t buckets;
  int32_t *head, *next; /* [buckets], [max_selected]: lists of selections, -1 ends */
  sorted_box *box;      /* [max_selected] */
  int64_t n;
};

/* Not fminf: a call each, and these boxes hold no NaN. */
static inline float least(float a, float b) { return a < b ? a : b; }
static inline float most(float a, float b) { return a > b ? a : b; }

static sorted_box sort_corners(const float *b) {
  sorted_box s = {least(b[0], b[2]), least(b[1], b[3]), most(b[0], b[2]), most(b[1], b[3]), 0};
  s.area = (s.y1 - s.y0) * (s.x1 - s.x0);
  return s;
}

/* od_nms_iou of boxes with corners in order. */
static inline float iou(const sorted_box *a, const sorted_box *b) {
  float h = most(least(a->y1, b->y1) - most(a->y0, b->y0), 0), w = most(least(a->x1, b->x1) - most(a->x0, b->x0), 0);
  float both = h * w;
  return both / (a->area + b->area - both);
}

/* The margin holds for finite boxes whose areas are far from under- and overflow; boxes without area overlap nothing. */
static bool plain(const float *b) {
  for (int k = 0; k < 4; k++)
    if (!(fabsf(b[k]) < 1e15f)) return false;
  sorted_box s = sort_corners(b);
  return s.area == 0 ? s.y1 == s.y0 || s.x1 == s.x0 : s.area > 1e-30f;
}

static int32_t bucket_of(const od_near *near, float y) {
  float at = (y - near->low) * near->per_unit;
  if (!(at > 0)) return 0;
  return at >= (float)(near->buckets - 1) ? near->buckets - 1 : (int32_t)at;
}

enum { BUCKETS = 1024, FEW = 128 }; /* below FEW, looking at all is as quick */

size_t od_near_work(int64_t max_selected) {
  return od_work_bytes(1, sizeof(od_near)) + od_work_bytes(BUCKETS, sizeof(int32_t)) +
         od_work_bytes(max_selected + 1, sizeof(int32_t)) + od_work_bytes(max_selected + 1, sizeof(sorted_box));
}

od_near *od_near_new(const float *boxes, int64_t stride, int64_t n, int64_t max_selected, float iou_threshold,
                     od_work *work) {
  od_near *near = od_work_take(work, 1, sizeof *near);
  *near = (od_near){0};
  near->threshold = iou_threshold;
  near->by_place = iou_threshold >= 0.05f && max_selected > FEW; /* with a lower threshold everything is near */
  near->reach = (1.0f / iou_threshold - 1.0f) * 1.00001f + 1e-5f;
  float low = INFINITY, high = -INFINITY;
  for (int64_t i = 0; i < n && near->by_place; i++) {
    const float *b = boxes + i * stride;
    near->by_place = plain(b);
    low = least(low, least(b[0], b[2]));
    high = most(high, least(b[0], b[2]));
  }
  near->buckets = near->by_place && high > low ? BUCKETS : 1;
  near->low = low;
  near->per_unit = near->buckets > 1 ? (float)near->buckets / (high - low) : 0;
  if (!isfinite(near->per_unit)) near->buckets = 1, near->per_unit = 0;
  near->head = od_work_take(work, near->buckets, sizeof *near->head);
  near->next = od_work_take(work, max_selected + 1, sizeof *near->next);
  near->box = od_work_take(work, max_selected + 1, sizeof *near->box);
  for (int32_t i = 0; i < near->buckets; i++) near->head[i] = -1;
  return near;
}

/* The corners as given: od_nms_iou puts them in order and knows what to do with infinities. */
static bool overlaps_any(const od_near *near, const float *box) {
  for (int64_t i = near->n; i-- > 0;) {
    const sorted_box *s = &near->box[i];
    if (od_nms_iou(box, (const float[]){s->y0, s->x0, s->y1, s->x1}) > near->threshold) return true;
  }
  return false;
}

bool od_near_overlaps(const od_near *near, const float *box) {
  if (!near->by_place) return overlaps_any(near, box);
  sorted_box c = sort_corners(box);
  if (c.area <= 0) return false;
  float dy = (c.y1 - c.y0) * near->reach, dx = (c.x1 - c.x0) * near->reach;
  int32_t last = bucket_of(near, c.y0 + dy);
  /* one bucket more on either side: the sums above and the bucket numbers round too */
  if (last < near->buckets - 1) last++;
  int32_t first = bucket_of(near, c.y0 - dy);
  if (first > 0) first--;
  for (int32_t k = first; k <= last; k++)
    for (int32_t i = near->head[k]; i >= 0; i = near->next[i]) {
      const sorted_box *s = &near->box[i];
      if (fabsf(s->x0 - c.x0) > dx) continue;
      if (s->area > 0 && iou(&c, s) > near->threshold) return true;
    }
  return false;
}

void od_near_add(od_near *near, const float *box) {
  sorted_box *s = &near->box[near->n];
  if (!near->by_place) { /* corners stay as they are */
    *s = (sorted_box){box[0], box[1], box[2], box[3], 0};
    near->n++;
    return;
  }
  *s = sort_corners(box);
  int32_t k = bucket_of(near, s->y0);
  near->next[near->n] = near->head[k];
  near->head[k] = (int32_t)near->n++;
}
