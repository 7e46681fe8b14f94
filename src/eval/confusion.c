/* The confusion matrix; its rules stand in evaluator.h (od_eval_confusion). */
#include "eval/accumulator.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"

typedef struct {
  float score;
  uint32_t index;
} candidate;

typedef struct {
  od_accumulator base;
  const od_eval_category *categories;
  size_t n_categories;
  double iou_threshold, min_score;
  uint64_t *counts; /* [k+1, k+1] */
  candidate *candidates;
  uint8_t *taken;
  size_t cap_candidates, cap_taken;
} confusion;

static int by_score(const void *pa, const void *pb) {
  const candidate *a = pa, *b = pb;
  if (a->score != b->score) return a->score > b->score ? -1 : 1;
  return a->index < b->index ? -1 : a->index > b->index;
}

static double overlap(const float *a, const float *b) {
  double h = (double)(fminf(a[2], b[2]) - fmaxf(a[0], b[0])), w = (double)(fminf(a[3], b[3]) - fmaxf(a[1], b[1]));
  if (!(h > 0 && w > 0)) return 0;
  double areas = (double)((a[2] - a[0]) * (a[3] - a[1])) + (double)((b[2] - b[0]) * (b[3] - b[1]));
  return h * w / (areas - h * w);
}

static bool swallows(const od_eval_groundtruth *gt, size_t g) {
  return (gt->difficult && gt->difficult[g]) || (gt->is_crowd && gt->is_crowd[g]) || (gt->group_of && gt->group_of[g]);
}

/* The free box with the largest overlap, of equals the one of the same class, else the first; -1 when none reaches. */
static int best_box(const confusion *c, const od_eval_image *im, const float *box, int32_t cls) {
  int best = -1;
  double value = 0;
  for (size_t g = 0; g < im->gt->n; g++) {
    if (c->taken[g]) continue;
    double v = overlap(box, im->gt->boxes + 4 * g);
    if (!(v >= c->iou_threshold)) continue;
    bool nicer = v == value && im->gt->classes[g] == cls && best >= 0 && im->gt->classes[best] != cls;
    if (best < 0 || v > value || nicer) best = (int)g, value = v;
  }
  return best;
}

static od_status confusion_add(od_accumulator *base, const od_eval_image *im) {
  confusion *c = (confusion *)base;
  size_t none = c->n_categories, row = c->n_categories + 1, n = 0;
  OD_TRY(od_grow(&c->candidates, &c->cap_candidates, im->det->n, sizeof *c->candidates));
  OD_TRY(od_grow(&c->taken, &c->cap_taken, im->gt->n, sizeof *c->taken));
  for (size_t g = 0; g < im->gt->n; g++)
    c->taken[g] = od_eval_category_index(c->categories, c->n_categories, im->gt->classes[g]) < 0;
  for (size_t i = 0; i < im->det->n; i++)
    if ((double)im->det->scores[i] >= c->min_score &&
        od_eval_category_index(c->categories, c->n_categories, im->det->classes[i]) >= 0)
      c->candidates[n++] = (candidate){im->det->scores[i], (uint32_t)i};
  if (n) qsort(c->candidates, n, sizeof *c->candidates, by_score);
  for (size_t i = 0; i < n; i++) {
    int32_t cls = im->det->classes[c->candidates[i].index];
    size_t column = (size_t)od_eval_category_index(c->categories, c->n_categories, cls);
    int g = best_box(c, im, im->det->boxes + 4 * c->candidates[i].index, cls);
    if (g < 0) {
      c->counts[none * row + column]++;
    } else if (!swallows(im->gt, (size_t)g)) {
      c->taken[g] = 1;
      c->counts[(size_t)od_eval_category_index(c->categories, c->n_categories, im->gt->classes[g]) * row + column]++;
    }
  }
  for (size_t g = 0; g < im->gt->n; g++)
    if (!c->taken[g] && !swallows(im->gt, g))
      c->counts[(size_t)od_eval_category_index(c->categories, c->n_categories, im->gt->classes[g]) * row + none]++;
  return OD_OK;
}

static od_status confusion_finish(od_accumulator *base, const od_eval_sink *sink) {
  (void)base;
  (void)sink;
  return OD_OK;
}

static void confusion_free(od_accumulator *base) {
  confusion *c = (confusion *)base;
  od_free(c->counts);
  od_free(c->candidates);
  od_free(c->taken);
  od_free(c);
}

const uint64_t *od_confusion_counts(const od_accumulator *a, size_t *k_plus_one) {
  const confusion *c = (const confusion *)a;
  *k_plus_one = c->n_categories + 1;
  return c->counts;
}

static const od_accumulator_kind kind = {confusion_add, confusion_finish, confusion_free};

od_status od_confusion_new(od_accumulator **out, const od_eval_options *o) {
  confusion *c = od_calloc(1, sizeof *c);
  if (!c) return OD_ENOMEM;
  *c = (confusion){.base = {&kind, false, false},
                   .categories = o->categories,
                   .n_categories = o->n_categories,
                   .iou_threshold = o->iou_threshold,
                   .min_score = o->confusion_min_score};
  c->counts = od_calloc((o->n_categories + 1) * (o->n_categories + 1), sizeof *c->counts);
  if (!c->counts) {
    od_free(c);
    return OD_ENOMEM;
  }
  *out = &c->base;
  return OD_OK;
}
