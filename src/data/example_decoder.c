/* Reading the keys of the original's TfExampleDecoder. Box columns must have one length: the original lets unequal lists
 * through and fails later, in the middle of a graph, without a name. */
#include "data/example_decoder.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "image/decode.h"

typedef struct {
  od_picture *s;
  od_example *ex;
  const od_decode_options *o;
} decoder;

static od_status copy_text(char **out, od_example *ex, const char *key) {
  od_view v;
  OD_TRY(od_example_get_text(ex, key, &v, ""));
  *out = od_strndup((const char *)v.data, v.size);
  return *out ? OD_OK : OD_ENOMEM;
}

static od_status wrong_length(const char *key, size_t have, int want) {
  return od_fail(OD_EDATA, "%s has %zu values, but there are %d boxes", key, have, want);
}

/* A column of floats; absent: left as it is. */
static od_status float_column(const decoder *d, const char *key, float *out, int per_box, bool *present) {
  const float *v;
  size_t n;
  OD_TRY(od_example_get_floats(d->ex, key, &v, &n));
  if (present) *present = n > 0;
  if (n == 0) return OD_OK;
  int count = d->s->truth.count;
  if (n != (size_t)count * (size_t)per_box) return wrong_length(key, n, count);
  memcpy(out, v, n * sizeof *v);
  return OD_OK;
}

static od_status flag_column(const decoder *d, const char *key, uint8_t *out) {
  const int64_t *v;
  size_t n;
  OD_TRY(od_example_get_int64s(d->ex, key, &v, &n));
  if (n == 0) return OD_OK;
  if (n != (size_t)d->s->truth.count) return wrong_length(key, n, d->s->truth.count);
  for (size_t i = 0; i < n; i++) out[i] = v[i] != 0;
  return OD_OK;
}

/* Ids of a text list by the label map, or of a label list; *count -1 when neither is there. */
static od_status read_classes(const decoder *d, const char *text_key, const char *label_key, int32_t **out,
                              int *count) {
  const od_view *text = NULL;
  const int64_t *label = NULL;
  size_t n = 0;
  *count = -1;
  *out = NULL;
  if (d->o->labels) OD_TRY(od_example_get_bytes(d->ex, text_key, &text, &n));
  bool by_text = n > 0;
  if (!by_text) OD_TRY(od_example_get_int64s(d->ex, label_key, &label, &n));
  if (n == 0) return OD_OK;
  OD_TRY(od_new(out, n, sizeof **out));
  for (size_t i = 0; i < n; i++) {
    if (by_text)
      (*out)[i] = od_label_map_find(d->o->labels, (const char *)text[i].data, text[i].size);
    else
      (*out)[i] = label[i] < 0 || label[i] > INT32_MAX ? -1 : (int32_t)label[i];
  }
  *count = (int)n;
  return OD_OK;
}

static od_status read_boxes(const decoder *d, const float *side[4]) {
  static const char *const keys[4] = {"image/object/bbox/ymin", "image/object/bbox/xmin", "image/object/bbox/ymax",
                                      "image/object/bbox/xmax"};
  size_t n[4];
  for (int k = 0; k < 4; k++) OD_TRY(od_example_get_floats(d->ex, keys[k], &side[k], &n[k]));
  for (int k = 1; k < 4; k++)
    if (n[k] != n[0])
      return od_fail(OD_EDATA, "%s has %zu values, %s has %zu: the four lists of box sides must have one length",
                     keys[0], n[0], keys[k], n[k]);
  if (n[0] > 1000000) return od_fail(OD_EDATA, "%zu boxes in one picture; at most 1000000 are read", n[0]);
  d->s->truth.count = (int)n[0];
  return OD_OK;
}

static od_status read_keypoints(const decoder *d) {
  od_truth *t = &d->s->truth;
  const float *y, *x;
  const int64_t *visibility;
  size_t ny, nx, nv, n = (size_t)t->count * (size_t)t->keypoints_per_box;
  OD_TRY(od_example_get_floats(d->ex, "image/object/keypoint/y", &y, &ny));
  OD_TRY(od_example_get_floats(d->ex, "image/object/keypoint/x", &x, &nx));
  OD_TRY(od_example_get_int64s(d->ex, "image/object/keypoint/visibility", &visibility, &nv));
  if (nx != n || ny != n)
    return od_fail(OD_EDATA, "image/object/keypoint/x and y have %zu and %zu values; %d boxes of %d keypoints need %zu",
                   nx, ny, t->count, t->keypoints_per_box, n);
  for (size_t i = 0; i < n; i++) {
    /* Not labelled is not there; without (whole) visibilities what is finite counts as visible. */
    bool seen = nv == n ? visibility[i] == 1 || visibility[i] == 2 : !isnan(x[i]);
    t->visible[i] = seen;
    t->keypoints[2 * i] = seen ? y[i] : NAN;
    t->keypoints[2 * i + 1] = seen ? x[i] : NAN;
  }
  return OD_OK;
}

static od_status numerical_masks(const decoder *d) {
  od_truth *t = &d->s->truth;
  const float *v;
  size_t n, want = (size_t)t->count * (size_t)t->mask_height * (size_t)t->mask_width;
  int64_t h, w;
  OD_TRY(od_example_get_floats(d->ex, "image/object/mask", &v, &n));
  OD_TRY(od_example_get_int64(d->ex, "image/height", &h, 1));
  OD_TRY(od_example_get_int64(d->ex, "image/width", &w, 1));
  if (n != want || h != t->mask_height || w != t->mask_width)
    return od_fail(OD_EDATA,
                   "image/object/mask has %zu values, image/height x image/width is %lld x %lld, the picture %d x %d: "
                   "%d boxes need %zu values",
                   n, (long long)h, (long long)w, t->mask_height, t->mask_width, t->count, want);
  for (size_t i = 0; i < n; i++) t->masks[i] = v[i] > 0;
  return OD_OK;
}

static od_status png_masks(const decoder *d) {
  od_truth *t = &d->s->truth;
  const od_view *v;
  size_t n, plane = (size_t)t->mask_height * (size_t)t->mask_width;
  OD_TRY(od_example_get_bytes(d->ex, "image/object/mask", &v, &n));
  if (n != (size_t)t->count) return wrong_length("image/object/mask", n, t->count);
  for (size_t i = 0; i < n; i++) {
    od_image m;
    OD_TRY(od_fail_context(od_image_decode(&m, v[i].data, v[i].size, 1), "image/object/mask, number %zu", i));
    bool fits = m.height == t->mask_height && m.width == t->mask_width;
    for (size_t k = 0; k < plane && fits; k++) t->masks[i * plane + k] = m.data[k] > 0;
    int h = m.height, w = m.width;
    od_image_free(&m);
    if (!fits)
      return od_fail(OD_EDATA,
                     "image/object/mask, number %zu, has %d x %d pixels (width x height), the picture %d x %d", i, w, h,
                     t->mask_width, t->mask_height);
  }
  return OD_OK;
}

static od_status read_picture(const decoder *d) {
  const od_view *v;
  size_t n;
  od_picture *s = d->s;
  OD_TRY(od_example_get_bytes(d->ex, "image/encoded", &v, &n));
  if (n == 0 || v[0].size == 0)
    return od_fail(OD_EDATA, "image/encoded is missing or empty: the Example holds no picture");
  if (d->o->header_only) {
    int channels;
    OD_TRY(od_fail_context(od_image_size(&s->original_height, &s->original_width, &channels, v[0].data, v[0].size),
                           "image/encoded"));
    return OD_OK;
  }
  OD_TRY(od_fail_context(od_image_decode(&s->pixels, v[0].data, v[0].size, 3), "image/encoded"));
  s->original_height = s->pixels.height;
  s->original_width = s->pixels.width;
  return OD_OK;
}

static od_status read_truth(const decoder *d, const float *side[4]) {
  od_truth *t = &d->s->truth;
  const float *scores = NULL;
  size_t n = 0;
  if (d->o->multiclass_scores)
    OD_TRY(od_example_get_floats(d->ex, "image/object/class/multiclass_scores", &scores, &n));
  if (n > 0 && (t->count == 0 || n % (size_t)t->count != 0))
    return od_fail(OD_EDATA, "image/object/class/multiclass_scores has %zu values, no multiple of %d boxes", n,
                   t->count);
  t->scores_per_box = n > 0 ? (int)(n / (size_t)t->count) : 0;
  t->keypoints_per_box = d->o->num_keypoints;
  bool masks = d->o->masks != OD_MASKS_NONE && !d->o->header_only;
  t->mask_height = d->s->original_height;
  t->mask_width = d->s->original_width;
  OD_TRY(od_truth_reserve(t, t->count, n > 0, d->o->num_keypoints > 0, masks));
  for (int i = 0; i < t->count; i++) {
    for (int k = 0; k < 4; k++) t->boxes[4 * i + k] = side[k][i];
    t->weights[i] = 1;
    if (masks) t->mask_weights[i] = 1;
  }
  if (n > 0) memcpy(t->scores, scores, n * sizeof *scores);
  OD_TRY(float_column(d, "image/object/weight", t->weights, 1, NULL));
  OD_TRY(float_column(d, "image/object/area", t->area, 1, NULL));
  OD_TRY(flag_column(d, "image/object/difficult", t->difficult));
  OD_TRY(flag_column(d, "image/object/is_crowd", t->crowd));
  OD_TRY(flag_column(d, "image/object/group_of", t->group_of));
  if (d->o->num_keypoints > 0) OD_TRY(read_keypoints(d));
  if (masks && t->count > 0) {
    OD_TRY(float_column(d, "image/object/mask/weight", t->mask_weights, 1, NULL));
    OD_TRY(d->o->masks == OD_MASKS_PNG ? png_masks(d) : numerical_masks(d));
  }
  return OD_OK;
}

static od_status set_classes(const decoder *d) {
  od_truth *t = &d->s->truth;
  int32_t *ids;
  int n;
  OD_TRY(read_classes(d, "image/object/class/text", "image/object/class/label", &ids, &n));
  od_status st = OD_OK;
  if (n < 0 && t->count > 0)
    st = od_fail(OD_EDATA, "there are %d boxes but neither image/object/class/text nor image/object/class/label%s",
                 t->count, d->o->labels ? "" : " (without a label map only the latter counts)");
  else if (n >= 0 && n != t->count)
    st = wrong_length(d->o->labels ? "image/object/class/text (or class/label)" : "image/object/class/label", (size_t)n,
                      t->count);
  else if (n > 0)
    memcpy(t->classes, ids, (size_t)n * sizeof *ids);
  od_free(ids);
  OD_TRY(st);
  od_picture *s = d->s;
  OD_TRY(read_classes(d, "image/class/text", "image/class/label", &s->image_classes, &n));
  s->image_class_count = n < 0 ? 0 : n;
  const float *confidence;
  size_t nc;
  OD_TRY(od_example_get_floats(d->ex, "image/class/confidence", &confidence, &nc));
  if (nc > 0 && nc == (size_t)s->image_class_count) {
    OD_TRY(od_new(&s->image_confidences, nc, sizeof *confidence));
    memcpy(s->image_confidences, confidence, nc * sizeof *confidence);
  }
  return OD_OK;
}

/* Each box once for every ancestor of its class and its class itself, ids ascending. */
static od_status expand_boxes(const decoder *d) {
  od_truth *t = &d->s->truth;
  int ids = od_label_map_max_id(d->o->labels) + 1, n = 0, *rows = NULL;
  int32_t *classes = NULL;
  bool *in = NULL;
  od_status st = OD_OK;
  size_t room;
  if (!od_mul_ok(&room, (size_t)t->count + 1, (size_t)ids))
    return od_fail(OD_EDATA, "%d boxes are too many to expand", t->count);
  OD_GO(st, od_new(&rows, room, sizeof *rows));
  OD_GO(st, od_new(&classes, room, sizeof *classes));
  OD_GO(st, od_new(&in, (size_t)ids, sizeof *in));
  for (int i = 0; i < t->count; i++) {
    memset(in, 0, (size_t)ids * sizeof *in);
    od_label_map_related(in, d->o->labels, t->classes[i], false);
    for (int k = 0; k < ids; k++) {
      if (!in[k]) continue;
      rows[n] = i;
      classes[n++] = k;
    }
  }
  OD_GO(st, od_truth_gather(t, rows, n));
  memcpy(t->classes, classes, (size_t)n * sizeof *classes);
done:
  od_free(rows);
  od_free(classes);
  od_free(in);
  return st;
}

/* Labels of the whole picture: those of this confidence (1 present, 0 verified absent) become all that follow from them, in
 * ascending order behind the others. */
static od_status expand_picture(const decoder *d, float confidence, bool descendants) {
  od_picture *s = d->s;
  int ids = od_label_map_max_id(d->o->labels) + 1, n = 0;
  size_t room = (size_t)s->image_class_count + (size_t)ids;
  bool *in = NULL;
  int32_t *classes = NULL;
  float *confidences = NULL;
  od_status st = OD_OK;
  OD_GO(st, od_new(&in, (size_t)ids, sizeof *in));
  OD_GO(st, od_new(&classes, room, sizeof *classes));
  OD_GO(st, od_new(&confidences, room, sizeof *confidences));
  for (int i = 0; i < s->image_class_count; i++) {
    if (s->image_confidences[i] == confidence) {
      od_label_map_related(in, d->o->labels, s->image_classes[i], descendants);
    } else {
      confidences[n] = s->image_confidences[i];
      classes[n++] = s->image_classes[i];
    }
  }
  for (int k = 0; k < ids; k++) {
    if (!in[k]) continue;
    confidences[n] = confidence;
    classes[n++] = k;
  }
  od_free(s->image_classes);
  od_free(s->image_confidences);
  s->image_classes = classes;
  s->image_confidences = confidences;
  s->image_class_count = n;
  classes = NULL;
  confidences = NULL;
done:
  od_free(in);
  od_free(classes);
  od_free(confidences);
  return st;
}

static od_status expand(const decoder *d) {
  if (!d->o->labels) return od_fail(OD_EINVAL, "expand_labels_hierarchy needs a label map");
  if (d->s->truth.masks || d->s->truth.keypoints)
    return od_fail(OD_EUNSUPPORTED, "expand_labels_hierarchy goes with boxes alone, not with masks or keypoints");
  OD_TRY(expand_boxes(d));
  if (!d->s->image_confidences) return OD_OK;
  OD_TRY(expand_picture(d, 1, false));
  return expand_picture(d, 0, true);
}

od_status od_example_decode(od_picture *out, od_example *ex, const void *bytes, size_t size,
                            const od_decode_options *o) {
  memset(out, 0, sizeof *out);
  decoder d = {out, ex, o};
  const float *side[4];
  OD_TRY(od_example_parse(ex, bytes, size));
  OD_TRY(copy_text(&out->source_id, ex, "image/source_id"));
  OD_TRY(copy_text(&out->filename, ex, "image/filename"));
  OD_TRY(copy_text(&out->key, ex, "image/key/sha256"));
  OD_TRY(read_picture(&d));
  OD_TRY(read_boxes(&d, side));
  OD_TRY(read_truth(&d, side));
  OD_TRY(set_classes(&d));
  return o->expand_hierarchy ? expand(&d) : OD_OK;
}
