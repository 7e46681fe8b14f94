/* Average precision as Pascal VOC 2010+ and Open Images count it (odapi 9.1 to 9.3).
 *
 * A detection's candidate is the groundtruth of its class with the largest overlap, the first of equals; a second best is
 * never tried. Overlaps: differences and areas of boxes are float32, products and quotients double, as in the original's
 * numpy (its intersection starts from float64 zeros). Detections that remain are (score, label) pairs by class; label is
 * 1 or 0, or the weight of a group-of box. */
#include "eval/accumulator.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/parallel.h"
#include "eval/names.h"
#include "eval/order.h"

typedef struct {
  float score, label;
} verdict;

typedef struct {
  verdict *items;
  size_t n, cap;
  double n_gt;                   /* without difficult, group-of times their weight */
  uint64_t images, images_found; /* images with the class; of those whose best detection hits (CorLoc) */
  double ap;                     /* filled by finish */
  double *precision, *recall;    /* [n_points] within the recall bounds, filled by finish */
  float *score;
  size_t n_points;
  uint64_t last_image; /* whose detections of the class are done */
} class_state;

/* What one class of one image needs: reused. */
typedef struct {
  uint32_t *index, *order, *best; /* detections of the class as given, their order, and the two combined: best first */
  float *score;
  int *normal, *group; /* groundtruth of the class: [n] indices */
  uint8_t *taken;      /* [n] */
  float *group_score;  /* [n] */
  int n_group;
  uint8_t *state; /* [n] of the detections */
  float *groups;  /* scores of the groups that were hit */
  size_t cap_det, cap_gt, n_groups, cap_groups;
} scratch;

typedef struct {
  od_accumulator base;
  od_pascal_options o;
  int n_classes; /* the largest id, as in the original */
  class_state *classes;
  uint64_t image; /* images so far */
  scratch s;
} pascal;

static double overlap(const float *a, const float *b) {
  float h = fminf(a[2], b[2]) - fmaxf(a[0], b[0]), w = fminf(a[3], b[3]) - fmaxf(a[1], b[1]);
  return (h > 0 ? (double)h : 0) * (w > 0 ? (double)w : 0);
}
static float area(const float *a) { return (a[2] - a[0]) * (a[3] - a[1]); }
static double iou(const float *det, const float *gt) {
  double both = overlap(det, gt);
  return both / ((double)(area(det) + area(gt)) - both);
}
static double ioa(const float *gt, const float *det) { return overlap(gt, det) / (double)area(det); }

/* Overlaps of masks, float32 as np_mask_ops has them. */
static float mask_iou(const od_mask *det, const od_mask *gt) {
  float both = (float)od_mask_intersection(det, gt);
  return both / fmaxf((float)od_mask_area(det) + (float)od_mask_area(gt) - both, 1e-7f);
}
static float mask_ioa(const od_mask *gt, const od_mask *det) {
  return (float)od_mask_intersection(gt, det) / ((float)od_mask_area(det) + 1e-7f);
}

/* Overlap of detection d with groundtruth g, by masks or boxes; over the detection's area for groups. */
static double overlap_of(const od_eval_image *im, uint32_t d, int g, bool masks, bool group) {
  if (masks) {
    const od_mask *a = &im->det->masks[d], *b = &im->gt->masks[g];
    return (double)(group ? mask_ioa(b, a) : mask_iou(a, b));
  }
  const float *a = im->det->boxes + 4 * d, *b = im->gt->boxes + 4 * g;
  return group ? ioa(b, a) : iou(a, b);
}

/* Grows a set of arrays that must hold n elements each; contents are lost. */
static od_status renew(void **arrays[], const size_t *sizes, size_t count, size_t *cap, size_t n) {
  if (*cap >= n) return OD_OK;
  *cap = 0;
  for (size_t i = 0; i < count; i++) {
    od_free(*arrays[i]);
    *arrays[i] = NULL;
  }
  for (size_t i = 0; i < count; i++) OD_TRY(od_new(arrays[i], n, sizes[i]));
  *cap = n;
  return OD_OK;
}

static od_status make_room(scratch *s, size_t n_det, size_t n_gt) {
  void **det[] = {(void **)&s->index, (void **)&s->order, (void **)&s->best, (void **)&s->score, (void **)&s->state};
  const size_t det_size[] = {sizeof *s->index, sizeof *s->order, sizeof *s->best, sizeof *s->score, sizeof *s->state};
  void **gt[] = {(void **)&s->normal, (void **)&s->group, (void **)&s->taken, (void **)&s->group_score};
  const size_t gt_size[] = {sizeof *s->normal, sizeof *s->group, sizeof *s->taken, sizeof *s->group_score};
  OD_TRY(renew(det, det_size, 5, &s->cap_det, n_det));
  return renew(gt, gt_size, 4, &s->cap_gt, n_gt);
}

static od_status record(class_state *c, float score, double label) {
  OD_TRY(od_grow(&c->items, &c->cap, c->n + 1, sizeof *c->items));
  c->items[c->n++] = (verdict){score, (float)label};
  return OD_OK;
}

static bool flag(const uint8_t *flags, size_t i) { return flags && flags[i]; }

static bool has_mask(const pascal *p, const od_eval_groundtruth *gt, size_t g) {
  return p->o.masks && od_mask_area(&gt->masks[g]) > 0;
}

/* The first of the list with the largest overlap, -1 for an empty list. */
static int best_of(double *value, const od_eval_image *im, uint32_t d, const int *list, int n, bool masks, bool group) {
  int best = -1;
  for (int g = 0; g < n; g++) {
    double v = overlap_of(im, d, list[g], masks, group);
    if (best < 0 || v > *value) best = g, *value = v;
  }
  return best;
}

/* What has become of a detection; false and true positives are recorded, the others leave no trace. */
enum { MISS, HIT, DROPPED };

/* Matches the detections that are still a miss against the groundtruth of the class that has a mask, or has none (all of
 * it where boxes count). In a mask metric a hit on a box without mask drops the detection. */
static void match_stage(pascal *p, const od_eval_image *im, int cls, const uint32_t *best_first, size_t n, bool masks) {
  const od_eval_groundtruth *gt = im->gt;
  scratch *s = &p->s;
  int n_normal = 0;
  s->n_group = 0;
  for (size_t g = 0; g < gt->n; g++) {
    if (gt->classes[g] != cls + 1 || has_mask(p, gt, g) != masks) continue;
    if (p->o.use_group_of && flag(gt->group_of, g))
      s->group[s->n_group++] = (int)g;
    else
      s->normal[n_normal++] = (int)g;
  }
  memset(s->taken, 0, (size_t)n_normal);
  for (int g = 0; g < s->n_group; g++) s->group_score[g] = 0;
  for (size_t i = 0; i < n; i++) {
    double value = 0;
    if (s->state[i] != MISS) continue;
    int best = best_of(&value, im, best_first[i], s->normal, n_normal, masks, false);
    if (best >= 0 && value >= p->o.iou_threshold) {
      if (p->o.use_difficult && flag(gt->difficult, (size_t)s->normal[best]))
        s->state[i] = DROPPED;
      else if (!s->taken[best])
        s->state[i] = p->o.masks && !masks ? DROPPED : HIT;
      s->taken[best] = 1;
    }
    if (s->state[i] != MISS) continue;
    /* what is no true positive may lie in a group */
    best = best_of(&value, im, best_first[i], s->group, s->n_group, masks, true);
    if (best < 0 || !(value >= p->o.iou_threshold)) continue;
    s->group_score[best] = fmaxf(s->group_score[best], im->det->scores[best_first[i]]);
    s->state[i] = DROPPED;
  }
}

/* All detections of a group make one, with the best score. */
static od_status keep_groups(pascal *p) {
  for (int g = 0; g < p->s.n_group; g++)
    if (p->s.group_score[g] > 0 && p->o.group_of_weight > 0) {
      OD_TRY(od_grow(&p->s.groups, &p->s.cap_groups, p->s.n_groups + 1, sizeof *p->s.groups));
      p->s.groups[p->s.n_groups++] = p->s.group_score[g];
    }
  return OD_OK;
}

/* One class of one image: n detections, best first. */
static od_status match_class(pascal *p, const od_eval_image *im, int cls, const uint32_t *best_first, size_t n) {
  class_state *c = &p->classes[cls];
  memset(p->s.state, MISS, n);
  p->s.n_groups = 0;
  if (p->o.masks) {
    match_stage(p, im, cls, best_first, n, true);
    OD_TRY(keep_groups(p));
  }
  match_stage(p, im, cls, best_first, n, false);
  if (!p->o.masks) OD_TRY(keep_groups(p)); /* the original forgets groups without masks in a mask metric */
  for (size_t i = 0; i < n; i++)
    if (p->s.state[i] != DROPPED) OD_TRY(record(c, im->det->scores[best_first[i]], p->s.state[i] == HIT));
  for (size_t i = 0; i < p->s.n_groups; i++) OD_TRY(record(c, p->s.groups[i], p->o.group_of_weight));
  return OD_OK;
}

/* CorLoc: does the first of the best-scored detections of the class hit any of its groundtruth, whatever the flags. */
static bool located(const pascal *p, const od_eval_image *im, int cls, size_t n) {
  size_t top = 0;
  for (size_t i = 1; i < n; i++)
    if (p->s.score[i] > p->s.score[top]) top = i;
  for (size_t g = 0; g < im->gt->n; g++)
    if (im->gt->classes[g] == cls + 1 &&
        overlap_of(im, p->s.index[top], (int)g, p->o.masks, false) >= p->o.iou_threshold)
      return true;
  return false;
}

static void count_groundtruth(pascal *p, const od_eval_groundtruth *gt) {
  for (size_t g = 0; g < gt->n; g++) {
    int cls = gt->classes[g] - 1;
    if (cls < 0 || cls >= p->n_classes) continue;
    class_state *c = &p->classes[cls];
    bool hidden = p->o.masks && !has_mask(p, gt, g); /* counts as difficult */
    if (!hidden && !(p->o.use_difficult && flag(gt->difficult, g)))
      c->n_gt += p->o.use_group_of && flag(gt->group_of, g) ? p->o.group_of_weight : 1;
    bool first = true;
    for (size_t k = 0; k < g && first; k++) first = gt->classes[k] != gt->classes[g];
    c->images += first;
  }
}

/* Is this detection looked at: a real box of a class we know, verified where that is asked for. */
static bool admitted(const pascal *p, const od_eval_image *im, size_t i) {
  const float *b = im->det->boxes + 4 * i;
  int id = im->det->classes[i];
  if (id < 1 || id > p->n_classes || !(b[0] < b[2] && b[1] < b[3]) || !(im->det->scores[i] > -10.0f)) return false;
  if (p->o.skip_unlabeled && im->gt->image_classes && !od_eval_is_verified(im->gt, id)) return false;
  if (!p->o.verified_only) return true;
  if (od_eval_is_verified(im->gt, id)) return true;
  for (size_t g = 0; g < im->gt->n; g++)
    if (im->gt->classes[g] == id) return true;
  return false;
}

/* The detections of one class, from `first` on: all of them are done when the first is met. */
static od_status add_class(pascal *p, const od_eval_image *im, size_t first) {
  int cls = im->det->classes[first] - 1;
  size_t n = 0;
  for (size_t i = first; i < im->det->n; i++) {
    if (im->det->classes[i] != cls + 1 || !admitted(p, im, i)) continue;
    p->s.index[n] = (uint32_t)i;
    p->s.score[n++] = im->det->scores[i];
  }
  OD_TRY(od_eval_order(p->s.order, p->s.score, n, p->o.ties_by_age));
  for (size_t i = 0; i < n; i++) p->s.best[i] = p->s.index[p->s.order[i]];
  p->classes[cls].images_found += located(p, im, cls, n);
  /* the original's NMS with IoU 1.0 does nothing but cut at 10000 */
  return match_class(p, im, cls, p->s.best, n > 10000 ? 10000 : n);
}

static od_status pascal_add(od_accumulator *base, const od_eval_image *im) {
  pascal *p = (pascal *)base;
  count_groundtruth(p, im->gt);
  OD_TRY(make_room(&p->s, im->det->n, im->gt->n));
  p->image++;
  for (size_t i = 0; i < im->det->n; i++) {
    if (!admitted(p, im, i) || p->classes[im->det->classes[i] - 1].last_image == p->image) continue;
    p->classes[im->det->classes[i] - 1].last_image = p->image;
    OD_TRY(add_class(p, im, i));
  }
  return OD_OK;
}

/* ------------------------------------------------------------------------------------------------------------- finish */
/* Area under the precision envelope over recall changes, closed by (0, 0) and (1, 0). */
static double all_point_ap(const double *precision, const double *recall, size_t n) {
  double ap = 0, envelope = 0;
  for (size_t i = n; i-- > 0;) {
    envelope = fmax(envelope, precision[i]);
    ap += (recall[i] - (i ? recall[i - 1] : 0)) * envelope;
  }
  return ap;
}

/* VOC 2007: mean over recalls 0, 0.1 ... 1 of the best precision at that recall or beyond. */
static double eleven_point_ap(const double *precision, const double *recall, size_t n) {
  double sum = 0;
  for (int k = 0; k <= 10; k++) {
    double best = 0;
    for (size_t i = n; i-- > 0 && recall[i] >= k * 0.1;) best = fmax(best, precision[i]);
    sum += best;
  }
  return sum / 11;
}

/* Fills precision, recall and score of the verdicts within the recall bounds, and the AP. order: best first. */
static od_status curve_of(const pascal *p, const verdict *items, const uint32_t *order, size_t n, double n_gt,
                          class_state *out) {
  OD_TRY(od_new(&out->precision, n ? n : 1, sizeof *out->precision));
  OD_TRY(od_new(&out->recall, n ? n : 1, sizeof *out->recall));
  OD_TRY(od_new(&out->score, n ? n : 1, sizeof *out->score));
  double tp = 0, fp = 0;
  size_t kept = 0;
  for (size_t i = 0; i < n; i++) {
    const verdict *v = &items[order[i]];
    tp += (double)v->label;
    fp += v->label <= 0;
    double recall = tp / n_gt;
    if (!(recall >= p->o.recall_lower && recall <= p->o.recall_upper)) continue;
    out->precision[kept] = tp / (tp + fp);
    out->recall[kept] = recall;
    out->score[kept++] = v->score;
  }
  out->n_points = kept;
  out->ap = p->o.eleven_point ? eleven_point_ap(out->precision, out->recall, kept)
                              : all_point_ap(out->precision, out->recall, kept);
  return OD_OK;
}

/* The curve of the verdicts of classes from..to-1 together; classes without groundtruth do not take part. */
static od_status curve_of_classes(const pascal *p, int from, int to, class_state *out) {
  size_t n = 0;
  double n_gt = 0;
  out->ap = NAN;
  for (int k = from; k < to; k++)
    if (p->classes[k].n_gt > 0) n += p->classes[k].n, n_gt += p->classes[k].n_gt;
  if (n_gt == 0) return OD_OK;
  if (n > UINT32_MAX) return od_fail(OD_EUNSUPPORTED, "%zu detections of one class", n);
  verdict *items;
  float *scores = NULL;
  uint32_t *order = NULL;
  od_status st = OD_OK;
  OD_TRY(od_new(&items, n ? n : 1, sizeof *items));
  OD_GO(st, od_new(&scores, n ? n : 1, sizeof *scores));
  OD_GO(st, od_new(&order, n ? n : 1, sizeof *order));
  n = 0;
  for (int k = from; k < to; k++)
    for (size_t i = 0; p->classes[k].n_gt > 0 && i < p->classes[k].n; i++) items[n++] = p->classes[k].items[i];
  for (size_t i = 0; i < n; i++) scores[i] = items[i].score;
  OD_GO(st, od_eval_order(order, scores, n, p->o.ties_by_age));
  OD_GO(st, curve_of(p, items, order, n, n_gt, out));
done:
  od_free(items);
  od_free(scores);
  od_free(order);
  return st;
}

static od_status finish_class(void *ctx, int64_t i) {
  pascal *p = ctx;
  return curve_of_classes(p, (int)i, (int)i + 1, &p->classes[i]);
}

static void free_curve(class_state *c) {
  od_free(c->precision);
  od_free(c->recall);
  od_free(c->score);
  c->precision = c->recall = NULL;
  c->score = NULL;
}

/* One curve over the pooled verdicts of all classes that have groundtruth. */
static od_status weighted_ap(double *out, const pascal *p) {
  class_state pooled = {0};
  od_status st = curve_of_classes(p, 0, p->n_classes, &pooled);
  *out = pooled.ap;
  free_curve(&pooled);
  return st;
}

static double mean_ap(const pascal *p, bool corloc) {
  double sum = 0;
  int n = 0;
  for (int k = 0; k < p->n_classes; k++) {
    const class_state *c = &p->classes[k];
    double v = corloc ? (double)c->images_found / (double)c->images : c->ap;
    if (isnan(v)) continue;
    sum += v;
    n++;
  }
  return n ? sum / n : NAN;
}

static od_status emit_tags(const pascal *p, const od_eval_sink *sink, const char *iou_text, const class_state *c,
                           const char *name) {
  OD_TRY(od_eval_emit(sink, c->ap, "%s_PerformanceByCategory/AP@%sIOU/%s", p->o.prefix, iou_text, name));
  if (!p->o.corloc) return OD_OK;
  return od_eval_emit(sink, (double)c->images_found / (double)c->images, "%s_PerformanceByCategory/CorLoc@%sIOU/%s",
                      p->o.prefix, iou_text, name);
}

static od_status emit_class(const pascal *p, const od_eval_sink *sink, const char *iou_text, int k) {
  int index = od_eval_category_index(p->o.categories, p->o.n_categories, k + 1);
  if (index < 0) return OD_OK; /* a gap in the label map has no tag */
  const char *name = p->o.categories[index].name;
  const class_state *c = &p->classes[k];
  od_str plain = OD_STR_INIT;
  od_eval_add_nfkd(&plain, name);
  od_status st = od_str_check(&plain);
  if (st == OD_OK) st = emit_tags(p, sink, iou_text, c, od_str_text(&plain));
  od_str_free(&plain);
  OD_TRY(st);
  if (c->n_gt == 0) {
    od_warn(p->o.reporter, "%s: category %d '%s' has no groundtruth and does not count", p->o.prefix, k + 1, name);
    return OD_OK;
  }
  od_eval_curve curve = {p->o.prefix, name, k + 1, c->n_points, c->recall, c->precision, c->score};
  return od_eval_emit_curve(sink, &curve);
}

static od_status pascal_finish(od_accumulator *base, const od_eval_sink *sink) {
  pascal *p = (pascal *)base;
  OD_TRY(od_parallel_for(p->n_classes, sink->threads, finish_class, p));
  double map;
  if (p->o.weighted)
    OD_TRY(weighted_ap(&map, p));
  else
    map = mean_ap(p, false);
  char text[32];
  od_eval_python_float(text, p->o.iou_threshold);
  if (p->o.recall_lower > 0 || p->o.recall_upper < 1)
    OD_TRY(od_eval_emit(sink, map, "%s_Precision/mAP@%sIOU@[%.1f,%.1f]Recall", p->o.prefix, text, p->o.recall_lower,
                        p->o.recall_upper));
  else
    OD_TRY(od_eval_emit(sink, map, "%s_Precision/mAP@%sIOU", p->o.prefix, text));
  if (p->o.corloc) OD_TRY(od_eval_emit(sink, mean_ap(p, true), "%s_Precision/meanCorLoc@%sIOU", p->o.prefix, text));
  for (int k = 0; k < p->n_classes; k++) OD_TRY(emit_class(p, sink, text, k));
  return OD_OK;
}

static void pascal_free(od_accumulator *base) {
  pascal *p = (pascal *)base;
  for (int k = 0; p->classes && k < p->n_classes; k++) {
    od_free(p->classes[k].items);
    free_curve(&p->classes[k]);
  }
  od_free(p->classes);
  od_free(p->s.index);
  od_free(p->s.order);
  od_free(p->s.best);
  od_free(p->s.state);
  od_free(p->s.groups);
  od_free(p->s.score);
  od_free(p->s.normal);
  od_free(p->s.group);
  od_free(p->s.taken);
  od_free(p->s.group_score);
  od_free(p);
}

static const od_accumulator_kind kind = {pascal_add, pascal_finish, pascal_free};

od_status od_pascal_new(od_accumulator **out, const od_pascal_options *o) {
  if (!(o->iou_threshold >= 0 && o->iou_threshold <= 1))
    return od_fail(OD_EINVAL, "IoU threshold %g, between 0 and 1 expected", o->iou_threshold);
  if (!(o->recall_lower <= o->recall_upper))
    return od_fail(OD_EINVAL, "recall bounds %g and %g: the lower is above the upper", o->recall_lower,
                   o->recall_upper);
  pascal *p = od_calloc(1, sizeof *p);
  if (!p) return OD_ENOMEM;
  p->base = (od_accumulator){&kind, o->masks, false};
  p->o = *o;
  for (size_t i = 0; i < o->n_categories; i++)
    if (o->categories[i].id > p->n_classes) p->n_classes = o->categories[i].id;
  p->classes = od_calloc((size_t)p->n_classes, sizeof *p->classes);
  if (!p->classes) {
    od_free(p);
    return OD_ENOMEM;
  }
  *out = &p->base;
  return OD_OK;
}
