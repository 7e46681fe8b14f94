/* COCO metrics of boxes or masks, equal to pycocotools' COCOeval on what coco_evaluation.py exports (odapi 9.4).
 *
 * Boxes become [x, y, w, h] with float32 differences and are double from there. By image and category: at most 100
 * detections by score (stable), each of 4 area ranges times 10 IoU thresholds matched greedily. The verdicts of a
 * detection are two words of 40 bits; the order over images is that of their sorted keys. */
#include "eval/accumulator.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/parallel.h"

enum { AREAS = 4, THRESHOLDS = 10, RECALLS = 101, MAX_DETECTIONS = 100, STATS = 12 };

/* all, small, medium, large: both ends belong to a range */
static const double area_range[AREAS][2] = {{0, 1e10}, {0, 1024}, {1024, 9216}, {9216, 1e10}};

static const struct {
  const char *name;
  int area, max_detections, threshold; /* threshold -1: mean over all */
  bool precision;
} stats[STATS] = {{"Precision/mAP", 0, 100, -1, true},
                  {"Precision/mAP@.50IOU", 0, 100, 0, true},
                  {"Precision/mAP@.75IOU", 0, 100, 5, true},
                  {"Precision/mAP (small)", 1, 100, -1, true},
                  {"Precision/mAP (medium)", 2, 100, -1, true},
                  {"Precision/mAP (large)", 3, 100, -1, true},
                  {"Recall/AR@1", 0, 1, -1, false},
                  {"Recall/AR@10", 0, 10, -1, false},
                  {"Recall/AR@100", 0, 100, -1, false},
                  {"Recall/AR@100 (small)", 1, 100, -1, false},
                  {"Recall/AR@100 (medium)", 2, 100, -1, false},
                  {"Recall/AR@100 (large)", 3, 100, -1, false}};

typedef struct {
  uint64_t matched, ignored; /* bit area * THRESHOLDS + threshold */
  float score;
  uint32_t image; /* ordinal; by finish replaced with the image's rank */
  uint8_t place;  /* among the image's detections of the category, 0..99 */
} verdict;

typedef struct {
  verdict *items;
  size_t n, cap;
  uint64_t n_gt[AREAS]; /* those that are not ignored */
  double value[STATS];  /* filled by finish; -1 without groundtruth */
  double precision50[RECALLS];
  float score50[RECALLS];
} category;

typedef struct {
  double x, y, w, h, area;
  bool crowd, ignore;
  uint32_t source;
  const od_mask *mask; /* NULL: boxes count */
} rectangle;

struct candidate {
  float score;
  int32_t category;
  uint32_t index;
};

typedef struct {
  od_accumulator base;
  od_eval_options o;
  const char *prefix;                    /* of the tags */
  category *categories;                  /* [o.n_categories] */
  struct candidate *candidates, *truths; /* by category; a truth's score is 0 */
  size_t cap_candidates, cap_truths;
  rectangle *gt, *sorted; /* of one category */
  size_t cap_gt, cap_sorted;
  double *iou; /* [detections, gt] */
  uint8_t *taken;
  size_t cap_iou, cap_taken;
  const uint32_t *rank; /* during finish */
} coco;

/* numpy's linspace(.5, .95, 10): multiples of a rounded step, the end exact. */
static double threshold_at(int t) { return t == THRESHOLDS - 1 ? 0.95 : t * ((0.95 - 0.5) / 9) + 0.5; }
/* numpy's linspace(0, 1, 101). */
static double recall_at(int k) { return k == RECALLS - 1 ? 1.0 : k * 0.01; }

/* By category, then best scores first, then in the order given (pycocotools sorts stably by -score). */
static int by_category_and_score(const void *pa, const void *pb) {
  const struct candidate *a = pa, *b = pb;
  if (a->category != b->category) return a->category < b->category ? -1 : 1;
  if (a->score != b->score) return a->score > b->score ? -1 : 1;
  return a->index < b->index ? -1 : a->index > b->index;
}

static rectangle rectangle_of(const float *box) {
  float h = box[2] - box[0], w = box[3] - box[1];
  return (rectangle){
      .x = (double)box[1], .y = (double)box[0], .w = (double)w, .h = (double)h, .area = (double)w * (double)h};
}

/* rleIou of pycocotools. */
static double mask_overlap(const rectangle *d, const rectangle *g) {
  uint64_t both = od_mask_intersection(d->mask, g->mask), whole = od_mask_area(d->mask);
  if (both == 0) return 0;
  if (!g->crowd) whole += od_mask_area(g->mask) - both;
  return (double)both / (double)whole;
}

/* bbIou of pycocotools: over the detection's area where the groundtruth is a crowd. */
static double overlap(const rectangle *d, const rectangle *g) {
  if (g->mask) return mask_overlap(d, g);
  double w = fmin(d->w + d->x, g->w + g->x) - fmax(d->x, g->x);
  if (w <= 0) return 0;
  double h = fmin(d->h + d->y, g->h + g->y) - fmax(d->y, g->y);
  if (h <= 0) return 0;
  double both = w * h;
  return both / (g->crowd ? d->w * d->h : d->w * d->h + g->w * g->h - both);
}

static bool outside(double area, int a) { return area < area_range[a][0] || area > area_range[a][1]; }

/* Matches one detection at one threshold: index into the sorted groundtruth or -1. Ignored groundtruth stands last. */
static int match_one(const coco *c, const double *iou, int n_gt, const uint8_t *taken, double threshold) {
  double best = fmin(threshold, 1 - 1e-10);
  int m = -1;
  for (int g = 0; g < n_gt; g++) {
    const rectangle *r = &c->sorted[g];
    if (taken[g] && !r->crowd) continue;
    if (m >= 0 && !c->sorted[m].ignore && r->ignore) break; /* a real match is not given up for an ignored one */
    if (iou[r->source] < best) continue;
    best = iou[r->source];
    m = g;
  }
  return m;
}

/* All thresholds of one area range: sets bits of the n verdicts. */
static void match_area(coco *c, int a, verdict *v, const rectangle *det, int n, int n_gt, category *cat) {
  int m = 0;
  for (int g = 0; g < n_gt; g++) c->gt[g].ignore = c->gt[g].crowd || outside(c->gt[g].area, a);
  for (int pass = 0; pass < 2; pass++)
    for (int g = 0; g < n_gt; g++)
      if (c->gt[g].ignore == (pass == 1)) c->sorted[m++] = c->gt[g];
  for (int g = 0; g < n_gt; g++) cat->n_gt[a] += !c->gt[g].ignore;
  for (int t = 0; t < THRESHOLDS; t++) {
    uint64_t bit = (uint64_t)1 << (a * THRESHOLDS + t);
    memset(c->taken, 0, (size_t)n_gt);
    for (int d = 0; d < n; d++) {
      int g = match_one(c, c->iou + (size_t)d * (size_t)n_gt, n_gt, c->taken, threshold_at(t));
      if (g < 0) {
        if (outside(det[d].area, a)) v[d].ignored |= bit;
        continue;
      }
      c->taken[g] = 1;
      v[d].matched |= bit;
      if (c->sorted[g].ignore) v[d].ignored |= bit;
    }
  }
}

/* One category of one image. */
static od_status match_category(coco *c, const od_eval_image *im, category *cat, const struct candidate *cand, int n,
                                const struct candidate *truth, int n_gt) {
  rectangle det[MAX_DETECTIONS];
  if (n > MAX_DETECTIONS) n = MAX_DETECTIONS;
  size_t cells = (size_t)n * (size_t)n_gt;
  OD_TRY(od_grow(&c->gt, &c->cap_gt, (size_t)n_gt, sizeof *c->gt));
  OD_TRY(od_grow(&c->sorted, &c->cap_sorted, (size_t)n_gt, sizeof *c->sorted));
  OD_TRY(od_grow(&c->taken, &c->cap_taken, (size_t)n_gt + 1, sizeof *c->taken));
  OD_TRY(od_grow(&c->iou, &c->cap_iou, cells + 1, sizeof *c->iou));
  OD_TRY(od_grow(&cat->items, &cat->cap, cat->n + (size_t)n, sizeof *cat->items));
  for (int g = 0; g < n_gt; g++) {
    const od_eval_groundtruth *gt = im->gt;
    const float *box = gt->boxes + 4 * truth[g].index;
    c->gt[g] = rectangle_of(box);
    c->gt[g].area = (double)((box[2] - box[0]) * (box[3] - box[1])); /* the exporter's product is float32 */
    if (gt->area && gt->area[truth[g].index] > 0) c->gt[g].area = (double)gt->area[truth[g].index];
    c->gt[g].crowd = gt->is_crowd && gt->is_crowd[truth[g].index];
    c->gt[g].source = (uint32_t)g;
    if (c->base.masks) c->gt[g].mask = &gt->masks[truth[g].index];
  }
  verdict *v = cat->items ? cat->items + cat->n : NULL; /* no detections: none is written */
  for (int d = 0; d < n; d++) {
    det[d] = rectangle_of(im->det->boxes + 4 * cand[d].index);
    if (c->base.masks) {
      det[d].mask = &im->det->masks[cand[d].index];
      det[d].area = (double)od_mask_area(det[d].mask);
    }
    v[d] = (verdict){.score = cand[d].score, .image = im->ordinal, .place = (uint8_t)d};
    for (int g = 0; g < n_gt; g++) c->iou[(size_t)d * (size_t)n_gt + (size_t)g] = overlap(&det[d], &c->gt[g]);
  }
  for (int a = 0; a < AREAS; a++) match_area(c, a, v, det, n, n_gt, cat);
  cat->n += (size_t)n;
  return OD_OK;
}

static int span(const struct candidate *list, size_t n, int32_t which) {
  size_t i = 0;
  while (i < n && list[i].category == which) i++;
  return (int)i;
}

static od_status coco_add(od_accumulator *base, const od_eval_image *im) {
  coco *c = (coco *)base;
  if (!im->has_groundtruth) return OD_OK;
  const od_eval_detections *det = im->det;
  const od_eval_groundtruth *gt = im->gt;
  OD_TRY(od_grow(&c->candidates, &c->cap_candidates, det->n, sizeof *c->candidates));
  OD_TRY(od_grow(&c->truths, &c->cap_truths, gt->n, sizeof *c->truths));
  size_t n = 0, m = 0;
  for (size_t i = 0; i < det->n; i++) {
    int k = od_eval_category_index(c->o.categories, c->o.n_categories, det->classes[i]);
    if (k < 0) continue; /* not in the label map */
    if (!c->base.masks && c->o.skip_predictions_for_unlabeled_class && gt->image_classes &&
        !od_eval_is_verified(gt, det->classes[i]))
      continue;
    if (isnan(det->scores[i])) return od_fail(OD_ENUMERIC, "detection %zu has no number as score", i);
    c->candidates[n++] = (struct candidate){det->scores[i], k, (uint32_t)i};
  }
  for (size_t i = 0; i < gt->n; i++) {
    int k = od_eval_category_index(c->o.categories, c->o.n_categories, gt->classes[i]);
    if (k >= 0) c->truths[m++] = (struct candidate){0, k, (uint32_t)i};
  }
  if (n) qsort(c->candidates, n, sizeof *c->candidates, by_category_and_score);
  if (m) qsort(c->truths, m, sizeof *c->truths, by_category_and_score);
  for (size_t i = 0, k = 0; i < n || k < m;) {
    int32_t which = i < n ? c->candidates[i].category : c->truths[k].category;
    if (k < m && c->truths[k].category < which) which = c->truths[k].category;
    const struct candidate *found = n ? c->candidates + i : NULL, *true_ones = m ? c->truths + k : NULL;
    int n_det = span(found, n - i, which), n_gt = span(true_ones, m - k, which);
    OD_TRY(match_category(c, im, &c->categories[which], found, n_det, true_ones, n_gt));
    i += (size_t)n_det;
    k += (size_t)n_gt;
  }
  return OD_OK;
}

/* ------------------------------------------------------------------------------------------------------------- finish */
static int by_score(const void *pa, const void *pb) {
  const verdict *a = pa, *b = pb;
  if (a->score != b->score) return a->score > b->score ? -1 : 1;
  if (a->image != b->image) return a->image < b->image ? -1 : 1;
  return a->place < b->place ? -1 : a->place > b->place;
}

/* Precision at the 101 recalls (their sum returned) and the recall reached, for one bit and a limit of detections.
 * points and scores may be NULL; pr and rc are scratch of cat->n. */
static double walk(const category *cat, int a, int t, int limit, double *recall_reached, double *points, float *scores,
                   double *pr, double *rc, size_t *at) {
  uint64_t bit = (uint64_t)1 << (a * THRESHOLDS + t);
  double tp = 0, fp = 0;
  size_t n = 0;
  for (size_t i = 0; i < cat->n; i++) {
    const verdict *v = &cat->items[i];
    if (v->place >= limit) continue;
    if (!(v->ignored & bit)) {
      if (v->matched & bit)
        tp++;
      else
        fp++;
    }
    rc[n] = tp / (double)cat->n_gt[a];
    pr[n] = tp / (fp + tp + 2.220446049250313e-16); /* numpy's spacing(1) */
    at[n++] = i;
  }
  *recall_reached = n ? rc[n - 1] : 0;
  for (size_t i = n; i-- > 1;)
    if (pr[i] > pr[i - 1]) pr[i - 1] = pr[i];
  double sum = 0;
  size_t i = 0;
  for (int k = 0; k < RECALLS; k++) {
    double want = recall_at(k);
    while (i < n && rc[i] < want) i++;
    double p = i < n ? pr[i] : 0;
    sum += p;
    if (points) {
      points[k] = p;
      scores[k] = i < n ? cat->items[at[i]].score : 0;
    }
  }
  return sum;
}

static od_status finish_category(void *ctx, int64_t index) {
  coco *c = ctx;
  category *cat = &c->categories[index];
  for (int s = 0; s < STATS; s++) cat->value[s] = -1;
  for (size_t i = 0; i < cat->n; i++) cat->items[i].image = c->rank[cat->items[i].image];
  if (cat->n) qsort(cat->items, cat->n, sizeof *cat->items, by_score);
  double *pr;
  OD_TRY(od_new(&pr, cat->n + 1, 2 * sizeof *pr + sizeof(size_t)));
  double *rc = pr + cat->n + 1;
  size_t *at = (size_t *)(void *)(rc + cat->n + 1);
  /* the pairs of area and limit that the twelve figures use */
  static const int pairs[6][2] = {{0, 100}, {1, 100}, {2, 100}, {3, 100}, {0, 1}, {0, 10}};
  for (int k = 0; k < 6; k++) {
    int a = pairs[k][0], limit = pairs[k][1];
    if (cat->n_gt[a] == 0) continue;
    double sum[THRESHOLDS], reached[THRESHOLDS], sum_p = 0, sum_r = 0;
    for (int t = 0; t < THRESHOLDS; t++) {
      bool keep = k == 0 && t == 0;
      sum[t] = walk(cat, a, t, limit, &reached[t], keep ? cat->precision50 : NULL, cat->score50, pr, rc, at);
      sum_p += sum[t];
      sum_r += reached[t];
    }
    for (int s = 0; s < STATS; s++) {
      if (stats[s].area != a || stats[s].max_detections != limit) continue;
      if (!stats[s].precision)
        cat->value[s] = sum_r / THRESHOLDS;
      else
        cat->value[s] = stats[s].threshold < 0 ? sum_p / (THRESHOLDS * RECALLS) : sum[stats[s].threshold] / RECALLS;
    }
  }
  od_free(pr);
  return OD_OK;
}

static od_status emit_categories(const coco *c, const od_eval_sink *sink) {
  for (size_t k = 0; k < c->o.n_categories; k++) {
    const char *name = c->o.categories[k].name;
    OD_TRY(od_eval_emit(sink, c->categories[k].value[0], "%s_PerformanceByCategory/mAP/%s", c->prefix, name));
    for (int s = 0; s < STATS && c->o.all_metrics_per_category; s++)
      OD_TRY(od_eval_emit(sink, c->categories[k].value[s], "%s_%s ByCategory/%s", c->prefix, stats[s].name, name));
  }
  return OD_OK;
}

/* Is name one of the members, which are separated by commas (blanks count, as in the original). */
static bool is_member(const char *members, const char *name) {
  size_t n = strlen(name);
  for (const char *at = members;; at++) {
    const char *end = strchr(at, ',');
    size_t length = end ? (size_t)(end - at) : strlen(at);
    if (length == n && strncmp(at, name, n) == 0) return true;
    if (!end) return false;
    at = end;
  }
}

/* The sum over the members that exist, divided by how many were named. */
static double super_mean(const coco *c, const char *members, int s) {
  double sum = 0;
  int named = 1;
  for (const char *at = members; *at; at++) named += *at == ',';
  for (size_t k = 0; k < c->o.n_categories; k++)
    if (is_member(members, c->o.categories[k].name)) sum += c->categories[k].value[s];
  return sum / named;
}

static od_status emit_super_categories(const coco *c, const od_eval_sink *sink) {
  for (size_t i = 0; i < c->o.n_super_categories; i++) {
    const od_eval_super_category *super = &c->o.super_categories[i];
    OD_TRY(od_eval_emit(sink, super_mean(c, super->members, 0), "%s_PerformanceBySuperCategory/%s", c->prefix,
                        super->name));
    for (int s = 0; s < STATS && c->o.all_metrics_per_category; s++)
      OD_TRY(od_eval_emit(sink, super_mean(c, super->members, s), "%s_%s BySuperCategory/%s", c->prefix, stats[s].name,
                          super->name));
  }
  return OD_OK;
}

static od_status coco_finish(od_accumulator *base, const od_eval_sink *sink) {
  coco *c = (coco *)base;
  c->rank = sink->rank;
  OD_TRY(od_parallel_for((int64_t)c->o.n_categories, sink->threads, finish_category, c));
  for (int s = 0; s < STATS; s++) {
    double sum = 0;
    int n = 0;
    for (size_t k = 0; k < c->o.n_categories; k++)
      if (c->categories[k].value[s] > -1) sum += c->categories[k].value[s], n++;
    OD_TRY(od_eval_emit(sink, n ? sum / n : -1, "%s_%s", c->prefix, stats[s].name));
  }
  if (c->o.include_metrics_per_category) {
    OD_TRY(emit_categories(c, sink));
    OD_TRY(emit_super_categories(c, sink));
  }
  double recall[RECALLS];
  for (int k = 0; k < RECALLS; k++) recall[k] = recall_at(k);
  for (size_t k = 0; k < c->o.n_categories; k++) {
    const category *cat = &c->categories[k];
    if (cat->n_gt[0] == 0) continue;
    od_eval_curve curve = {c->prefix, c->o.categories[k].name, c->o.categories[k].id, RECALLS,
                           recall,    cat->precision50,        cat->score50};
    OD_TRY(od_eval_emit_curve(sink, &curve));
  }
  return OD_OK;
}

static void coco_free(od_accumulator *base) {
  coco *c = (coco *)base;
  for (size_t k = 0; c->categories && k < c->o.n_categories; k++) od_free(c->categories[k].items);
  od_free(c->categories);
  od_free(c->candidates);
  od_free(c->truths);
  od_free(c->gt);
  od_free(c->sorted);
  od_free(c->iou);
  od_free(c->taken);
  od_free(c);
}

static const od_accumulator_kind kind = {coco_add, coco_finish, coco_free};

od_status od_coco_new(od_accumulator **out, const od_eval_options *o, bool masks) {
  coco *c = od_calloc(1, sizeof *c);
  if (!c) return OD_ENOMEM;
  c->base = (od_accumulator){&kind, masks, true};
  c->prefix = masks ? "DetectionMasks" : "DetectionBoxes";
  c->o = *o;
  c->categories = od_calloc(o->n_categories, sizeof *c->categories);
  if (!c->categories) {
    od_free(c);
    return OD_ENOMEM;
  }
  *out = &c->base;
  return OD_OK;
}
