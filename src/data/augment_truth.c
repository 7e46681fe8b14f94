/* Steps on the ground truth: jitter, dropping and renaming labels, scores, pixel coordinates; and the doubled picture. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "data/augment_steps.h"

typedef ObjectDetection__Protos__RandomJitterBoxes jitter;
typedef ObjectDetection__Protos__DropLabelProbabilistically drop_label;
typedef ObjectDetection__Protos__RemapLabels remap;
typedef ObjectDetection__Protos__ConvertClassLogitsToSoftmax to_softmax;
typedef ObjectDetection__Protos__RandomSelfConcatImage self_concat;

#define MODE(name) OBJECT_DETECTION__PROTOS__RANDOM_JITTER_BOXES__JITTER_MODE__##name

static od_status jitter_check(const void *message) {
  const jitter *m = message;
  if (m->ratio >= 0) return OD_OK;
  return od_fail(OD_EINVAL, "ratio %g must not be negative", (double)m->ratio);
}

/* Sizes of a box about its centre times a factor, the same on both sides; not beyond the picture. */
static void jitter_symmetric(float *b, float fy, float fx, bool together) {
  float h = fmaxf(fabsf(b[2] - b[0]), 1e-6f), w = fmaxf(fabsf(b[3] - b[1]), 1e-6f);
  float cy = b[0] + (b[2] - b[0]) / 2, cx = b[1] + (b[3] - b[1]) / 2;
  float my = fabsf(fminf(2 * cy / h, 2 * (1 - cy) / h)), mx = fabsf(fminf(2 * cx / w, 2 * (1 - cx) / w));
  if (together) {
    fx = fy;
    my = mx = fminf(my, mx);
  }
  fy = fminf(fmaxf(fy, -my), my);
  fx = fminf(fmaxf(fx, -mx), mx);
  b[0] = cy - h * fy / 2;
  b[2] = cy + h * fy / 2;
  b[1] = cx - w * fx / 2;
  b[3] = cx + w * fx / 2;
}

static void jitter_sides(float *b, const float *f) {
  float h = fmaxf(fabsf(b[2] - b[0]), 1e-6f), w = fmaxf(fabsf(b[3] - b[1]), 1e-6f);
  float cy = b[0] + (b[2] - b[0]) / 2, cx = b[1] + (b[3] - b[1]) / 2;
  b[0] = cy - h * f[0] / 2;
  b[1] = cx - w * f[1] / 2;
  b[2] = cy + h * f[2] / 2;
  b[3] = cx + w * f[3] / 2;
}

static od_status jitter_run(od_picture *s, const void *message, od_key key) {
  const jitter *m = message;
  int mode = (int)m->jitter_mode;
  bool shrink = mode == MODE(SHRINK) || mode == MODE(SHRINK_SYMMETRIC) || mode == MODE(SHRINK_SYMMETRIC_XY);
  bool expand = mode == MODE(EXPAND) || mode == MODE(EXPAND_SYMMETRIC) || mode == MODE(EXPAND_SYMMETRIC_XY);
  bool together = mode == MODE(SHRINK_SYMMETRIC_XY) || mode == MODE(EXPAND_SYMMETRIC_XY);
  bool symmetric = together || mode == MODE(SHRINK_SYMMETRIC) || mode == MODE(EXPAND_SYMMETRIC);
  float low = expand ? 0 : -m->ratio, high = shrink ? 0 : m->ratio;
  for (int i = 0; i < s->truth.count; i++) {
    float *b = s->truth.boxes + 4 * i, f[4];
    for (uint64_t k = 0; k < 4; k++) f[k] = 1 + od_draw_range(key, 4 * (uint64_t)i + k, low, high);
    if (symmetric)
      jitter_symmetric(b, f[0], f[1], together);
    else
      jitter_sides(b, f);
    for (int k = 0; k < 4; k++) b[k] = fminf(fmaxf(b[k], 0.0f), 1.0f);
  }
  return OD_OK;
}

static od_status drop_run(od_picture *s, const void *message, od_key key) {
  const drop_label *m = message;
  bool *keep = NULL;
  OD_TRY(od_new(&keep, (size_t)s->truth.count + 1, sizeof *keep));
  for (int i = 0; i < s->truth.count; i++)
    keep[i] = s->truth.classes[i] != m->label || od_rng_f32(key, (uint64_t)i) > m->drop_probability;
  od_truth_keep(&s->truth, keep);
  od_free(keep);
  return OD_OK;
}

static od_status remap_run(od_picture *s, const void *message, od_key key) {
  const remap *m = message;
  (void)key;
  for (size_t k = 0; k < m->n_original_labels; k++)
    for (int i = 0; i < s->truth.count; i++)
      if (s->truth.classes[i] == m->original_labels[k]) s->truth.classes[i] = m->new_label;
  return OD_OK;
}

static od_status softmax_check(const void *message) {
  const to_softmax *m = message;
  if (m->temperature > 0) return OD_OK;
  return od_fail(OD_EINVAL, "temperature %g must be positive", (double)m->temperature);
}

static od_status softmax_run(od_picture *s, const void *message, od_key key) {
  const to_softmax *m = message;
  (void)key;
  if (!s->truth.scores && s->truth.count > 0)
    return od_fail(OD_EINVAL,
                   "the records bring no multiclass scores; does the input reader say load_multiclass_scores?");
  int n = s->truth.scores_per_box;
  for (int i = 0; i < s->truth.count; i++) {
    float *v = s->truth.scores + (size_t)i * (size_t)n, max = -INFINITY, sum = 0;
    for (int k = 0; k < n; k++) max = fmaxf(max, v[k] *= 1.0f / m->temperature);
    for (int k = 0; k < n; k++) sum += v[k] = expf(v[k] - max);
    for (int k = 0; k < n; k++) v[k] /= sum;
  }
  return OD_OK;
}

static od_status to_pixels_run(od_picture *s, const void *message, od_key key) {
  (void)message;
  (void)key;
  od_truth *t = &s->truth;
  float h = (float)s->image.height, w = (float)s->image.width;
  for (int i = 0; i < 4 * t->count; i++) t->boxes[i] *= i % 2 ? w : h;
  for (int i = 0; t->keypoints && i < 2 * t->count * t->keypoints_per_box; i++) t->keypoints[i] *= i % 2 ? w : h;
  return OD_OK;
}

/* The picture twice, one below or beside the other. */
static od_status concat(od_picture *s, bool vertical) {
  od_fimage out, *in = &s->image;
  od_truth *t = &s->truth;
  size_t row = (size_t)in->width * (size_t)in->channels;
  OD_TRY(od_fimage_new(&out, (int64_t)in->height * (vertical ? 2 : 1), (int64_t)in->width * (vertical ? 1 : 2),
                       in->channels));
  for (size_t y = 0; y < (size_t)in->height; y++)
    for (size_t k = 0; k < 2; k++)
      memcpy(out.data + (vertical ? (y + k * (size_t)in->height) * row : (2 * y + k) * row), in->data + y * row,
             row * sizeof(float));
  od_fimage_free(in);
  *in = out;
  int n = t->count;
  OD_TRY(od_truth_double(t));
  for (int i = 0; i < t->count; i++)
    for (int k = vertical ? 0 : 1; k < 4; k += 2) t->boxes[4 * i + k] = 0.5f * t->boxes[4 * i + k] + (i < n ? 0 : 0.5f);
  return OD_OK;
}

static od_status concat_run(od_picture *s, const void *message, od_key key) {
  const self_concat *m = message;
  if (s->truth.masks || s->truth.keypoints)
    return od_fail(OD_EUNSUPPORTED, "masks and keypoints are not carried along, in the original neither");
  if (od_rng_f32(key, 0) < m->concat_vertical_probability) OD_TRY(concat(s, true));
  if (od_rng_f32(key, 1) < m->concat_horizontal_probability) OD_TRY(concat(s, false));
  return OD_OK;
}

#define STEP(upper) OBJECT_DETECTION__PROTOS__PREPROCESSING_STEP__PREPROCESSING_STEP_##upper

const od_step od_steps_truth[] = {{STEP(RANDOM_JITTER_BOXES), jitter_run, jitter_check},
                                  {STEP(DROP_LABEL_PROBABILISTICALLY), drop_run, NULL},
                                  {STEP(REMAP_LABELS), remap_run, NULL},
                                  {STEP(CONVERT_CLASS_LOGITS_TO_SOFTMAX), softmax_run, softmax_check},
                                  {STEP(SCALE_BOXES_TO_PIXEL_COORDINATES), to_pixels_run, NULL},
                                  {STEP(RANDOM_SELF_CONCAT_IMAGE), concat_run, NULL},
                                  {0, NULL, NULL}};
