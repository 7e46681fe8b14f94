/* Non-maximum suppression; see nms.h. */
#include "ops/box/nms.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/box/nms_near.h"
#include "ops/box/similarity.h"
#include "ops/box/window.h"

/* std::min and std::max as the kernels use them (NaN: the first stays), inlined, which fminf is not. */
static inline float least(float a, float b) { return b < a ? b : a; }
static inline float most(float a, float b) { return a < b ? b : a; }

float od_nms_iou(const float *a, const float *b) {
  float ay0 = least(a[0], a[2]), ay1 = most(a[0], a[2]), ax0 = least(a[1], a[3]), ax1 = most(a[1], a[3]);
  float by0 = least(b[0], b[2]), by1 = most(b[0], b[2]), bx0 = least(b[1], b[3]), bx1 = most(b[1], b[3]);
  float area_a = (ay1 - ay0) * (ax1 - ax0), area_b = (by1 - by0) * (bx1 - bx0);
  if (area_a <= 0 || area_b <= 0) return 0;
  float h = most(least(ay1, by1) - most(ay0, by0), 0), w = most(least(ax1, bx1) - most(ax0, bx0), 0);
  float both = h * w;
  return both / (area_a + area_b - both);
}

/* ---------------------------------------------------------------------------------------------------- priority queue */
/* A heap, not a sort: of 20,000 anchors only the first hundreds are ever taken out. */
typedef struct {
  float score;
  int32_t index, begin; /* begin: selections before it are already in the score */
} entry;

static bool before(const entry *a, const entry *b) {
  return a->score > b->score || (a->score == b->score && a->index < b->index);
}

static void sift_down(entry *heap, int64_t n, int64_t at) {
  entry moving = heap[at];
  for (;;) {
    int64_t child = 2 * at + 1;
    if (child >= n) break;
    if (child + 1 < n && before(&heap[child + 1], &heap[child])) child++;
    if (!before(&heap[child], &moving)) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = moving;
}

typedef struct {
  const float *boxes;
  int64_t stride;
  float iou_threshold, score_threshold;
  float scale; /* -0.5 / sigma */
} rule;

/* Soft scores: weighs e against the selections it has not met. */
static void decay(entry *e, const rule *r, const int32_t *selected, int64_t count) {
  for (int64_t j = count; j-- > e->begin;) { /* the latest first, as TensorFlow */
    float iou = od_nms_iou(r->boxes + e->index * r->stride, r->boxes + selected[j] * r->stride);
    e->score *= expf(r->scale * iou * iou); /* the threshold does not count then (TensorFlow 2.15, measured) */
    if (e->score <= r->score_threshold) break;
  }
  e->begin = (int32_t)count;
}

size_t od_nms_work(int64_t n, int64_t max_output) {
  return od_work_bytes(n, sizeof(entry)) + od_near_work(max_output < n ? max_output : n);
}

od_status od_nms(int32_t *selected, float *selected_scores, int64_t *count, const float *boxes, int64_t box_stride,
                 const float *scores, int64_t score_stride, int64_t n, int64_t max_output, float iou_threshold,
                 float score_threshold, float soft_sigma, od_work work) {
  *count = 0;
  if (!(iou_threshold >= 0 && iou_threshold <= 1))
    return od_fail(OD_EINVAL, "NMS: IoU threshold %g, between 0 and 1 expected", (double)iou_threshold);
  if (!(soft_sigma >= 0)) return od_fail(OD_EINVAL, "NMS: soft_nms_sigma %g, at least 0 expected", (double)soft_sigma);
  if (n == 0 || max_output <= 0) return OD_OK;
  entry *heap = od_work_take(&work, n, sizeof *heap);
  rule r = {boxes, box_stride, iou_threshold, score_threshold, soft_sigma > 0 ? -0.5f / soft_sigma : 0};
  int64_t left = 0, taken = 0;
  for (int64_t i = 0; i < n; i++)
    if (scores[i * score_stride] > score_threshold) heap[left++] = (entry){scores[i * score_stride], (int32_t)i, 0};
  for (int64_t i = left / 2; i-- > 0;) sift_down(heap, left, i);
  od_near *near = NULL; /* hard: the selections by place */
  if (soft_sigma <= 0)
    near = od_near_new(boxes, box_stride, n, max_output < left ? max_output : left, iou_threshold, &work);
  while (left > 0 && taken < max_output) {
    entry *top = &heap[0];
    float score = top->score;
    bool stays = true;
    if (near) stays = !od_near_overlaps(near, boxes + top->index * box_stride);
    else decay(top, &r, selected, taken);
    if (top->score != score && top->score > score_threshold) {
      sift_down(heap, left, 0); /* decayed: back into the queue */
      continue;
    }
    if (stays && top->score == score) {
      selected[taken] = top->index;
      if (selected_scores) selected_scores[taken] = score;
      if (near) od_near_add(near, boxes + top->index * box_stride);
      taken++;
    }
    heap[0] = heap[--left];
    if (left > 0) sift_down(heap, left, 0);
  }
  *count = taken;
  return OD_OK;
}

/* ----------------------------------------------------------------------------------------------------------- one image */
typedef struct {
  float score, box[4];
  int32_t anchor, cls;
  int64_t order; /* place in the concatenation: top_k is stable */
} candidate;

static int by_score(const void *pa, const void *pb) {
  const candidate *a = pa, *b = pb;
  if (a->score != b->score) return a->score > b->score ? -1 : 1;
  return a->order < b->order ? -1 : a->order > b->order;
}

typedef struct {
  candidate *list;
  int64_t n;
  int32_t *selected;
  float *scores;
  od_work work; /* what is left for each suppression */
} pool;

/* One NMS, appended to the pool. limit: selections at most; with static shapes unused places repeat box 0 with score -1. */
static od_status suppress(pool *p, const od_nms_options *o, const float *boxes, int64_t box_stride, const float *scores,
                          int64_t score_stride, int64_t n, int64_t limit, const int32_t *cls_of, int32_t cls) {
  int64_t count;
  OD_TRY(od_nms(p->selected, p->scores, &count, boxes, box_stride, scores, score_stride, n, limit, o->iou_threshold,
                o->score_threshold, o->soft_sigma, p->work));
  int64_t rows = o->static_shapes ? limit : count;
  for (int64_t i = 0; i < rows && n > 0; i++) {
    int32_t a = i < count ? p->selected[i] : 0;
    candidate *c = &p->list[p->n];
    *c = (candidate){
        .score = i < count ? p->scores[i] : -1, .anchor = a, .cls = cls_of ? cls_of[a] : cls, .order = p->n};
    memcpy(c->box, boxes + a * box_stride, sizeof c->box);
    p->n++;
  }
  return OD_OK;
}

/* Best class of every box, its score and (class-specific boxes) its box. */
static od_status suppress_agnostic(pool *p, const od_nms_options *o, const float *boxes, int64_t q, const float *scores,
                                   int64_t n, int64_t classes, int64_t limit) {
  float *best = od_work_take(&p->work, n, sizeof *best), *own = od_work_take(&p->work, n, 4 * sizeof *own);
  int32_t *cls = od_work_take(&p->work, n, sizeof *cls);
  for (int64_t i = 0; i < n; i++) {
    const float *s = scores + i * classes;
    int32_t k = 0;
    for (int32_t c = 1; c < classes; c++)
      if (s[c] > s[k]) k = c;
    cls[i] = k;
    best[i] = s[k];
    memcpy(own + 4 * i, boxes + 4 * (i * q + (q > 1 ? k : 0)), 4 * sizeof(float));
  }
  return suppress(p, o, own, 4, best, 1, n, limit, cls, 0);
}

static int64_t limit_of(const od_nms_options *o, int64_t n) {
  int64_t limit = o->class_agnostic ? o->max_total : o->max_per_class;
  return !o->static_shapes && limit > n ? n : limit;
}

int64_t od_nms_capacity(const od_nms_options *o, int64_t n, int64_t classes) {
  int64_t all = limit_of(o, n) * (o->class_agnostic ? 1 : classes);
  return o->max_total > 0 && o->max_total < all ? o->max_total : all;
}

/* Candidates of all classes, or SIZE_MAX when that is no number. */
static size_t candidates(const od_nms_options *o, int64_t n, int64_t classes) {
  size_t room;
  return od_mul_ok(&room, (size_t)limit_of(o, n), (size_t)(o->class_agnostic ? 1 : classes)) ? room : SIZE_MAX;
}

size_t od_nms_image_work(const od_nms_options *o, int64_t n, int64_t classes) {
  const int64_t limit = limit_of(o, n);
  const size_t room = candidates(o, n, classes);
  if (limit < 0 || room > SIZE_MAX / 2 / sizeof(candidate)) return 0; /* refused when it runs */
  return od_work_bytes((int64_t)room + 1, sizeof(candidate)) + 2 * od_work_bytes(limit + 1, sizeof(float)) +
         (o->class_agnostic ? 2 * od_work_bytes(n, sizeof(float)) + od_work_bytes(n, 4 * sizeof(float)) : 0) +
         od_nms_work(n, limit);
}

/* Clips, marks what lost its area and sorts again; returns how many are valid. */
static int64_t clip(pool *p, const od_nms_options *o, const float *window) {
  int64_t kept = 0, valid = 0;
  for (int64_t i = 0; i < p->n; i++) {
    candidate c = p->list[i];
    od_box_clip(c.box, c.box, 1, window);
    float area = od_box_area(c.box);
    if (!o->static_shapes && !(area > 0)) continue;
    if (area == 0) c.score = -1;
    valid += c.score >= 0;
    c.order = kept;
    p->list[kept++] = c;
  }
  p->n = kept;
  if (kept) qsort(p->list, (size_t)kept, sizeof *p->list, by_score);
  return valid;
}

static void write_out(od_nms_result *out, const pool *p, const od_nms_options *o, const float *window) {
  for (int64_t i = 0; i < out->rows; i++) {
    const candidate *c = &p->list[i];
    if (window && o->change_frame)
      od_box_change_frame(out->boxes + 4 * i, c->box, 1, window);
    else
      memcpy(out->boxes + 4 * i, c->box, sizeof c->box);
    out->scores[i] = c->score;
    out->classes[i] = (float)c->cls;
    if (out->anchor) out->anchor[i] = c->anchor;
  }
}

static od_status check(const od_nms_options *o, int64_t q, int64_t classes, bool has_window) {
  if (q != 1 && q != classes)
    return od_fail(OD_EINVAL, "NMS: %lld boxes an anchor for %lld classes; 1 or one a class expected", (long long)q,
                   (long long)classes);
  if (o->change_frame && !has_window) return od_fail(OD_EINVAL, "NMS: change_coordinate_frame needs a clip window");
  if (o->static_shapes && o->soft_sigma != 0)
    return od_fail(OD_EUNSUPPORTED, "NMS: soft_nms_sigma is not supported together with use_static_shapes");
  if (o->class_agnostic && o->max_total <= 0)
    return od_fail(OD_EINVAL, "NMS: class-agnostic suppression needs max_total_detections");
  if (o->max_per_class < 0 || o->max_total < 0) return od_fail(OD_EINVAL, "NMS: a negative number of detections");
  return OD_OK;
}

od_status od_nms_image(od_nms_result *out, const od_nms_options *o, const float *boxes, int64_t q, const float *scores,
                       int64_t n, int64_t classes, const float *clip_window, od_work work) {
  out->num = out->rows = 0;
  OD_TRY(check(o, q, classes, clip_window != NULL));
  int64_t limit = limit_of(o, n);
  pool p = {0};
  if (candidates(o, n, classes) > SIZE_MAX / 2 / sizeof *p.list)
    return od_fail(OD_EINVAL, "NMS: too many detections asked for");
  p.list = od_work_take(&work, (int64_t)candidates(o, n, classes) + 1, sizeof *p.list);
  p.selected = od_work_take(&work, limit + 1, sizeof *p.selected);
  p.scores = od_work_take(&work, limit + 1, sizeof *p.scores);
  p.work = work;
  if (o->class_agnostic) OD_TRY(suppress_agnostic(&p, o, boxes, q, scores, n, classes, limit));
  for (int32_t k = 0; k < classes && !o->class_agnostic; k++)
    OD_TRY(suppress(&p, o, boxes + (q > 1 ? 4 * k : 0), 4 * q, scores + k, classes, n, limit, NULL, k));
  if (p.n) qsort(p.list, (size_t)p.n, sizeof *p.list, by_score);
  int64_t valid = 0;
  if (clip_window) {
    valid = clip(&p, o, clip_window);
  } else {
    for (int64_t i = 0; i < p.n; i++) valid += p.list[i].score > o->score_threshold;
  }
  out->rows = p.n;
  if (o->max_total > 0 && out->rows > o->max_total) out->rows = o->max_total;
  out->num = valid < out->rows ? valid : out->rows;
  if (!o->static_shapes) out->rows = out->num;
  write_out(out, &p, o, clip_window);
  return OD_OK;
}

/* --------------------------------------------------------------------------------------------------------------- batch */
static void extent(float *window, const float *boxes, int64_t n) {
  window[0] = window[1] = INFINITY;
  window[2] = window[3] = -INFINITY;
  for (int64_t i = 0; i < n; i++, boxes += 4)
    for (int k = 0; k < 2; k++) {
      window[k] = fminf(window[k], boxes[k]);
      window[k + 2] = fmaxf(window[k + 2], boxes[k + 2]);
    }
}

od_status od_nms_batch(float *out_boxes, float *out_scores, float *out_classes, int32_t *out_anchor, int32_t *out_num,
                       const od_nms_options *o, const float *boxes, int64_t q, const float *scores, int64_t b,
                       int64_t n, int64_t classes, const float *clip_windows, const int32_t *num_valid,
                       od_work work) {
  if (o->max_total <= 0) return od_fail(OD_EINVAL, "NMS: a batch needs max_total_detections above 0");
  OD_TRY(check(o, q, classes, clip_windows != NULL));
  float all[4];
  extent(all, boxes, b * n * q);
  size_t total = (size_t)o->max_total;
  memset(out_boxes, 0, (size_t)b * total * 4 * sizeof *out_boxes);
  memset(out_scores, 0, (size_t)b * total * sizeof *out_scores);
  memset(out_classes, 0, (size_t)b * total * sizeof *out_classes);
  if (out_anchor) memset(out_anchor, 0, (size_t)b * total * sizeof *out_anchor);
  for (int64_t i = 0; i < b; i++) {
    od_nms_result r = {out_boxes + i * 4 * o->max_total,
                       out_scores + i * o->max_total,
                       out_classes + i * o->max_total,
                       out_anchor ? out_anchor + i * o->max_total : NULL,
                       0,
                       0};
    int64_t used = num_valid ? num_valid[i] : n;
    if (used < 0 || used > n) return od_fail(OD_EINVAL, "NMS: %lld valid boxes of %lld", (long long)used, (long long)n);
    OD_TRY(od_nms_image(&r, o, boxes + i * n * q * 4, q, scores + i * n * classes, used, classes,
                        clip_windows ? clip_windows + 4 * i : all, work));
    out_num[i] = (int32_t)r.num;
  }
  return OD_OK;
}
