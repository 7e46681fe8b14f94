/* Keys, waiting images and the list of metrics; see evaluator.h. The metrics themselves are in pascal.c, coco.c,
 * confusion.c and calibration.c. */
#include "eval/accumulator.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"

const char *const od_eval_metric_names[] = {"pascal_voc_detection_metrics",
                                            "pascal_voc_metrics",
                                            "weighted_pascal_voc_detection_metrics",
                                            "weighted_pascal_voc_metrics",
                                            "precision_at_recall_detection_metrics",
                                            "oid_V2_detection_metrics",
                                            "open_images_V2_detection_metrics",
                                            "open_images_metrics",
                                            "oid_challenge_detection_metrics",
                                            "oid_challenge_object_detection_metrics",
                                            "coco_detection_metrics",
                                            "pascal_voc_instance_segmentation_metrics",
                                            "weighted_pascal_voc_instance_segmentation_metrics",
                                            "oid_challenge_segmentation_metrics",
                                            "coco_mask_metrics",
                                            NULL};

/* Metrics of the original that need keypoints or panoptic segments, or LVIS's own rules: refused by name. */
static const char *const not_written[] = {"coco_keypoint_metrics", "coco_panoptic_metrics", "lvis_mask_metrics", NULL};

typedef struct {
  uint32_t ordinal;
  bool has_groundtruth, has_detections;
  od_eval_groundtruth gt; /* points into block until the image is matched */
  void *block;
} image;

struct od_eval {
  od_eval_category *categories; /* names owned */
  size_t n_categories;
  od_accumulator **metrics;
  size_t n_metrics, cap_metrics;
  od_accumulator *confusion; /* one of metrics, or NULL */
  od_map *images;            /* key -> image */
  size_t n_groundtruth;
  od_metric *items;
  size_t n_items, cap_items;
  od_eval_curve *curves;
  size_t n_curves, cap_curves;
  const od_reporter *reporter;
  int threads;
  bool finished;
};

od_eval_options od_eval_defaults(void) {
  return (od_eval_options){.iou_threshold = 0.5,
                           .group_of_weight = -1,
                           .recall_lower_bound = 0,
                           .recall_upper_bound = 1,
                           .confusion_min_score = 0.5};
}

/* ------------------------------------------------------------------------------------------------------------ helpers */
int od_eval_category_index(const od_eval_category *categories, size_t n, int id) {
  /* label maps are nearly always 1, 2, 3, ... */
  if (id >= 1 && (size_t)id <= n && categories[id - 1].id == id) return id - 1;
  for (size_t i = 0; i < n; i++)
    if (categories[i].id == id) return (int)i;
  return -1;
}

bool od_eval_is_verified(const od_eval_groundtruth *gt, int id) {
  for (size_t i = 0; i < gt->n_image_classes; i++)
    if (gt->image_classes[i] == id) return true;
  return false;
}

const char *od_eval_python_float(char *text, double value) {
  for (int digits = 1; digits <= 17; digits++) {
    snprintf(text, 32, "%.*g", digits, value);
    if (strtod(text, NULL) == value) break;
  }
  if (isfinite(value) && !strpbrk(text, ".en")) strcpy(text + strlen(text), ".0");
  return text;
}

od_status od_eval_emit(const od_eval_sink *sink, double value, const char *tag, ...) {
  od_eval *ev = sink->ev;
  OD_TRY(od_grow(&ev->items, &ev->cap_items, ev->n_items + 1, sizeof *ev->items));
  od_str text = OD_STR_INIT;
  char part[1024];
  va_list args;
  va_start(args, tag);
  int n = vsnprintf(part, sizeof part, tag, args);
  va_end(args);
  if (n < 0 || (size_t)n >= sizeof part)
    return od_fail(OD_EINVAL, "a metric's tag of %d bytes, at most 1023 expected", n);
  od_str_add(&text, part);
  char *owned = od_str_take(&text);
  if (!owned) return od_fail(OD_ENOMEM, "no memory for the tag %s", part);
  ev->items[ev->n_items++] = (od_metric){owned, value};
  return OD_OK;
}

od_status od_eval_emit_curve(const od_eval_sink *sink, const od_eval_curve *curve) {
  od_eval *ev = sink->ev;
  OD_TRY(od_grow(&ev->curves, &ev->cap_curves, ev->n_curves + 1, sizeof *ev->curves));
  size_t n = curve->n;
  char *block;
  OD_TRY(od_new(&block, n ? n : 1, 2 * sizeof(double) + sizeof(float)));
  double *recall = (double *)(void *)block, *precision = recall + n;
  float *score = (float *)(void *)(precision + n);
  if (n) {
    memcpy(recall, curve->recall, n * sizeof *recall);
    memcpy(precision, curve->precision, n * sizeof *precision);
    memcpy(score, curve->score, n * sizeof *score);
  }
  od_eval_curve *c = &ev->curves[ev->n_curves++];
  *c = *curve;
  c->recall = recall;
  c->precision = precision;
  c->score = score;
  return OD_OK;
}

/* ------------------------------------------------------------------------------------------------------------ metrics */
static od_status add_pascal(od_eval *ev, const od_eval_options *o, const char *name) {
  bool masks = strstr(name, "segmentation") != NULL;
  od_pascal_options p = {.prefix = masks ? "PascalMasks" : "PascalBoxes",
                         .masks = masks,
                         .iou_threshold = o->iou_threshold,
                         .recall_upper = 1,
                         .use_difficult = true,
                         .eleven_point = o->eleven_point,
                         .ties_by_age = o->ties_by_age,
                         .corloc = o->corloc,
                         .categories = ev->categories,
                         .n_categories = ev->n_categories,
                         .reporter = o->reporter};
  if (strncmp(name, "weighted_", 9) == 0) {
    p.prefix = masks ? "WeightedPascalMasks" : "WeightedPascalBoxes";
    p.weighted = true;
  } else if (strncmp(name, "precision_at", 12) == 0) {
    p.prefix = "PrecisionAtRecallBoxes";
    p.recall_lower = o->recall_lower_bound;
    p.recall_upper = o->recall_upper_bound;
    p.skip_unlabeled = o->skip_predictions_for_unlabeled_class;
  } else if (strncmp(name, "pascal", 6) != 0) {
    bool challenge = strstr(name, "challenge") != NULL;
    p.prefix = masks       ? "OpenImagesInstanceSegmentationChallenge"
               : challenge ? "OpenImagesDetectionChallenge"
                           : "OpenImagesV2";
    p.use_difficult = false;
    p.use_group_of = true;
    p.verified_only = challenge;
    p.group_of_weight = o->group_of_weight >= 0 ? o->group_of_weight : challenge && !masks ? 1 : 0;
  }
  return od_pascal_new(&ev->metrics[ev->n_metrics], &p);
}

/* Position of name in a NULL-terminated list, -1 when absent. */
static int find(const char *const *list, const char *name) {
  for (int i = 0; list[i]; i++)
    if (strcmp(list[i], name) == 0) return i;
  return -1;
}

static od_status add_metric(od_eval *ev, const od_eval_options *o, const char *name) {
  OD_TRY(od_grow(&ev->metrics, &ev->cap_metrics, ev->n_metrics + 1, sizeof *ev->metrics));
  if (find(not_written, name) >= 0)
    return od_fail(OD_EUNSUPPORTED,
                   "metrics_set: %s is not supported yet; those of boxes and masks are: pascal_voc, oid, coco", name);
  if (find(od_eval_metric_names, name) < 0) {
    size_t n = 0;
    while (od_eval_metric_names[n]) n++;
    const char *guess = od_did_you_mean(name, od_eval_metric_names, n);
    return od_fail(OD_EINVAL, "metrics_set: there is no metric '%s'%s%s%s", name, guess ? "; did you mean " : "",
                   guess ? guess : "", guess ? "?" : "");
  }
  if (strncmp(name, "coco", 4) == 0)
    OD_TRY(od_coco_new(&ev->metrics[ev->n_metrics], o, strstr(name, "mask") != NULL));
  else
    OD_TRY(add_pascal(ev, o, name));
  ev->n_metrics++;
  return OD_OK;
}

static od_status add_extras(od_eval *ev, const od_eval_options *o) {
  OD_TRY(od_grow(&ev->metrics, &ev->cap_metrics, ev->n_metrics + 2, sizeof *ev->metrics));
  if (o->calibration) {
    OD_TRY(od_calibration_new(&ev->metrics[ev->n_metrics], o));
    ev->n_metrics++;
  }
  if (o->confusion) {
    OD_TRY(od_confusion_new(&ev->metrics[ev->n_metrics], o));
    ev->confusion = ev->metrics[ev->n_metrics++];
  }
  return OD_OK;
}

static od_status copy_categories(od_eval *ev, const od_eval_options *o) {
  if (o->n_categories == 0) return od_fail(OD_EINVAL, "evaluation needs at least one category; the label map has none");
  ev->categories = od_calloc(o->n_categories, sizeof *ev->categories);
  if (!ev->categories) return OD_ENOMEM;
  for (size_t i = 0; i < o->n_categories; i++) {
    if (o->categories[i].id < 1)
      return od_fail(OD_EINVAL, "category '%s' has id %d; ids begin at 1", o->categories[i].name, o->categories[i].id);
    ev->categories[i].id = o->categories[i].id;
    ev->categories[i].name = od_strdup(o->categories[i].name);
    if (!ev->categories[i].name) return OD_ENOMEM;
    ev->n_categories = i + 1;
  }
  return OD_OK;
}

static od_status build(od_eval *ev, const od_eval_options *o) {
  OD_TRY(od_map_new(&ev->images));
  OD_TRY(copy_categories(ev, o));
  od_eval_options own = *o;
  own.categories = ev->categories;
  for (size_t i = 0; i < o->n_metrics; i++) {
    bool again = false;
    for (size_t k = 0; k < i; k++) again |= strcmp(o->metrics[i], o->metrics[k]) == 0;
    if (!again) OD_TRY(add_metric(ev, &own, o->metrics[i]));
  }
  return add_extras(ev, &own);
}

od_status od_eval_new(od_eval **out, const od_eval_options *options) {
  *out = NULL;
  od_eval *ev = od_calloc(1, sizeof *ev);
  if (!ev) return OD_ENOMEM;
  ev->reporter = options->reporter;
  ev->threads = options->threads;
  od_status st = build(ev, options);
  if (st != OD_OK) {
    od_eval_free(ev);
    return st;
  }
  *out = ev;
  return OD_OK;
}

void od_eval_free(od_eval *ev) {
  if (!ev) return;
  for (size_t i = 0; i < ev->n_metrics; i++) ev->metrics[i]->kind->free(ev->metrics[i]);
  od_free(ev->metrics);
  for (size_t i = 0; i < ev->n_items; i++) od_free((void *)(uintptr_t)ev->items[i].tag);
  od_free(ev->items);
  for (size_t i = 0; i < ev->n_curves; i++) od_free((void *)(uintptr_t)ev->curves[i].recall);
  od_free(ev->curves);
  for (size_t i = 0; i < ev->n_categories; i++) od_free((void *)(uintptr_t)ev->categories[i].name);
  od_free(ev->categories);
  for (size_t i = 0; ev->images && i < od_map_size(ev->images); i++) {
    image *im = od_map_value(ev->images, i);
    if (!im) continue;
    od_free(im->block);
    od_free(im);
  }
  od_map_free(ev->images);
  od_free(ev);
}

/* ------------------------------------------------------------------------------------------------------------- images */
static od_status image_of(image **out, od_eval *ev, const char *key) {
  if (ev->finished) return od_fail(OD_EINVAL, "image %s comes after the evaluation was finished", key);
  *out = od_map_get(ev->images, key);
  if (*out) return OD_OK;
  if (od_map_size(ev->images) >= UINT32_MAX) return od_fail(OD_EUNSUPPORTED, "more than %u images", UINT32_MAX);
  image *im = od_calloc(1, sizeof *im);
  if (!im) return OD_ENOMEM;
  im->ordinal = (uint32_t)od_map_size(ev->images);
  od_status st = od_map_set(ev->images, key, im);
  if (st != OD_OK) {
    od_free(im);
    return st;
  }
  *out = im;
  return OD_OK;
}

static bool wants_masks(const od_eval *ev) {
  for (size_t i = 0; i < ev->n_metrics; i++)
    if (ev->metrics[i]->masks) return true;
  return false;
}

/* Masks as the metrics need them: there, whole, of one size. */
static od_status check_masks(const od_eval *ev, const char *key, const char *side, const od_mask *masks, size_t n) {
  if (n == 0 || !wants_masks(ev)) return OD_OK;
  if (!masks) return od_fail(OD_EINVAL, "image %s: %s without masks, which a mask metric needs", key, side);
  for (size_t i = 0; i < n; i++) {
    OD_TRY(od_fail_context(od_mask_check(&masks[i]), "image %s: %s %zu", key, side, i));
    if (masks[i].height != masks[0].height || masks[i].width != masks[0].width)
      return od_fail(OD_EMISMATCH, "image %s: %s %zu has a mask of %ux%u, the first of %ux%u", key, side, i,
                     masks[i].width, masks[i].height, masks[0].width, masks[0].height);
  }
  return OD_OK;
}

/* Copies the arrays of gt into one block, in the order of falling alignment. */
static od_status keep(image *im, const od_eval_groundtruth *gt, bool masks) {
  size_t n = gt->n, m = gt->n_image_classes, n4 = 4 * n, runs = 0;
  if (n > SIZE_MAX / 128 || m > SIZE_MAX / 64) return od_fail(OD_EINVAL, "%zu boxes and %zu image classes", n, m);
  const od_mask *wanted = masks ? gt->masks : NULL;
  for (size_t i = 0; wanted && i < n; i++) runs += wanted[i].n;
  size_t bytes = n * (sizeof(od_mask) + 4 * sizeof(float) + sizeof(int32_t) + sizeof(float) + 3);
  char *p = od_alloc(bytes + (m + runs) * sizeof(int32_t));
  if (!p) return OD_ENOMEM;
  im->block = p;
  im->gt = (od_eval_groundtruth){.n = n, .n_image_classes = m};
  if (wanted && n > 0) {
    od_mask *copy = memcpy(p, wanted, n * sizeof *copy);
    p += n * sizeof *copy;
    for (size_t i = 0; i < n; i++) {
      if (copy[i].n) copy[i].counts = memcpy(p, wanted[i].counts, copy[i].n * sizeof(uint32_t));
      p += copy[i].n * sizeof(uint32_t);
    }
    im->gt.masks = copy;
  }
#define KEEP(field, type, count)                                                                                       \
  if (gt->field && count > 0) {                                                                                        \
    im->gt.field = memcpy(p, gt->field, count * sizeof(type));                                                         \
    p += count * sizeof(type);                                                                                         \
  }
  KEEP(boxes, float, n4)
  KEEP(area, float, n)
  KEEP(classes, int32_t, n)
  KEEP(image_classes, int32_t, m)
  KEEP(difficult, uint8_t, n)
  KEEP(group_of, uint8_t, n)
  KEEP(is_crowd, uint8_t, n)
#undef KEEP
  return OD_OK;
}

od_status od_eval_add_groundtruth(od_eval *ev, const char *image_key, const od_eval_groundtruth *gt) {
  image *im;
  OD_TRY(image_of(&im, ev, image_key));
  if (im->has_groundtruth || im->has_detections) {
    od_warn(ev->reporter, "image %s: groundtruth was already there, the second one is ignored", image_key);
    return OD_OK;
  }
  if (gt->n && (!gt->boxes || !gt->classes))
    return od_fail(OD_EINVAL, "image %s: groundtruth without boxes or classes", image_key);
  OD_TRY(check_masks(ev, image_key, "groundtruth", gt->masks, gt->n));
  OD_TRY(keep(im, gt, wants_masks(ev)));
  im->has_groundtruth = true;
  ev->n_groundtruth++;
  return OD_OK;
}

static od_status match(od_eval *ev, image *im, const od_eval_detections *det) {
  od_eval_image both = {im->ordinal, im->has_groundtruth, &im->gt, det};
  for (size_t i = 0; i < ev->n_metrics; i++) OD_TRY(ev->metrics[i]->kind->add(ev->metrics[i], &both));
  od_free(im->block);
  im->block = NULL;
  im->gt = (od_eval_groundtruth){0};
  return OD_OK;
}

od_status od_eval_add_detections(od_eval *ev, const char *image_key, const od_eval_detections *det) {
  image *im;
  OD_TRY(image_of(&im, ev, image_key));
  if (im->has_detections) {
    od_warn(ev->reporter, "image %s: detections were already there, the second ones are ignored", image_key);
    return OD_OK;
  }
  if (det->n && (!det->boxes || !det->classes || !det->scores))
    return od_fail(OD_EINVAL, "image %s: detections without boxes, scores or classes", image_key);
  for (size_t i = 0; i < ev->n_metrics; i++)
    if (ev->metrics[i]->needs_groundtruth && !im->has_groundtruth)
      return od_fail(OD_EINVAL, "image %s: detections without groundtruth; COCO metrics need it first", image_key);
  OD_TRY(check_masks(ev, image_key, "detection", det->masks, det->n));
  if (wants_masks(ev) && det->n && im->gt.n &&
      (det->masks[0].height != im->gt.masks[0].height || det->masks[0].width != im->gt.masks[0].width))
    return od_fail(OD_EMISMATCH, "image %s: masks of detections are %ux%u, of groundtruth %ux%u", image_key,
                   det->masks[0].width, det->masks[0].height, im->gt.masks[0].width, im->gt.masks[0].height);
  im->has_detections = true;
  return match(ev, im, det);
}

/* ------------------------------------------------------------------------------------------------------------- finish */
typedef struct {
  const char *key;
  uint32_t ordinal;
} named;

static int by_key(const void *a, const void *b) { return strcmp(((const named *)a)->key, ((const named *)b)->key); }

/* pycocotools goes through the images sorted by id: for equal scores that is the order of detections. */
static od_status rank_images(uint32_t **out, const od_eval *ev) {
  size_t n = od_map_size(ev->images);
  named *list;
  uint32_t *rank;
  OD_TRY(od_new(&list, n ? n : 1, sizeof *list));
  od_status st = od_new(&rank, n ? n : 1, sizeof *rank);
  if (st != OD_OK) {
    od_free(list);
    return st;
  }
  for (size_t i = 0; i < n; i++) list[i] = (named){od_map_key(ev->images, i), (uint32_t)i};
  if (n) qsort(list, n, sizeof *list, by_key);
  for (size_t i = 0; i < n; i++) rank[list[i].ordinal] = (uint32_t)i;
  od_free(list);
  *out = rank;
  return OD_OK;
}

od_status od_eval_finish(od_eval *ev) {
  if (ev->finished) return od_fail(OD_EINVAL, "the evaluation is finished already");
  const od_eval_detections none = {0};
  for (size_t i = 0; i < od_map_size(ev->images); i++) {
    image *im = od_map_value(ev->images, i);
    if (im->has_groundtruth && !im->has_detections) OD_TRY(match(ev, im, &none));
  }
  ev->finished = true;
  uint32_t *rank = NULL;
  OD_TRY(rank_images(&rank, ev));
  od_eval_sink sink = {ev, rank, ev->threads};
  od_status st = OD_OK;
  for (size_t i = 0; i < ev->n_metrics; i++) OD_GO(st, ev->metrics[i]->kind->finish(ev->metrics[i], &sink));
done:
  od_free(rank);
  return st;
}

size_t od_eval_metric_count(const od_eval *ev) { return ev->n_items; }
const od_metric *od_eval_metrics(const od_eval *ev) { return ev->items; }
size_t od_eval_curve_count(const od_eval *ev) { return ev->n_curves; }
const od_eval_curve *od_eval_curve_at(const od_eval *ev, size_t i) { return i < ev->n_curves ? &ev->curves[i] : NULL; }
size_t od_eval_image_count(const od_eval *ev) { return ev->n_groundtruth; }

bool od_eval_has(const od_eval *ev, const char *tag) {
  for (size_t i = 0; i < ev->n_items; i++)
    if (strcmp(ev->items[i].tag, tag) == 0) return true;
  return false;
}

double od_eval_value(const od_eval *ev, const char *tag) {
  for (size_t i = 0; i < ev->n_items; i++)
    if (strcmp(ev->items[i].tag, tag) == 0) return ev->items[i].value;
  return NAN;
}

const uint64_t *od_eval_confusion(const od_eval *ev, size_t *k_plus_one) {
  return ev->confusion ? od_confusion_counts(ev->confusion, k_plus_one) : NULL;
}
