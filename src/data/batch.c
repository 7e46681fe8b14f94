/* From samples to the tensors of a batch: padding of pictures and of rows, one-hot targets. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "data/augment_steps.h"
#include "data/pipeline_parts.h"

od_status od_check_input_options(const od_input_options *o) {
  const ObjectDetection__Protos__InputReader *r = o->reader;
  if (!r || !r->tf_record_input_reader || r->tf_record_input_reader->n_input_path == 0)
    return od_fail(OD_EINVAL, "the input reader has no tf_record_input_reader { input_path: ... }");
  if (o->merge_multiple_boxes && (o->use_multiclass_scores || r->load_instance_masks || r->num_keypoints > 0))
    return od_fail(OD_EINVAL,
                   "merge_multiple_label_boxes goes with boxes alone, not with multiclass scores, masks or keypoints");
  if (o->batch_size < 1) return od_fail(OD_EINVAL, "batch_size is %d, at least 1 is needed", o->batch_size);
  const struct {
    bool set;
    const char *name;
  } missing[] = {
      {r->input_type == OBJECT_DETECTION__PROTOS__INPUT_TYPE__TF_SEQUENCE_EXAMPLE, "input_type: TF_SEQUENCE_EXAMPLE"},
      {r->num_additional_channels > 0, "num_additional_channels"},
      {r->load_context_features, "load_context_features"},
      {r->load_context_image_ids, "load_context_image_ids"},
      {r->load_dense_pose, "load_dense_pose"},
      {r->load_track_id, "load_track_id"},
      {r->load_keypoint_depth_features, "load_keypoint_depth_features"},
      {r->use_keypoint_label_map, "use_keypoint_label_map"},
      {r->n_sample_from_datasets_weights > 0, "sample_from_datasets_weights"},
  };
  for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
    if (missing[i].set) return od_fail(OD_EUNSUPPORTED, "input reader: %s is not there yet", missing[i].name);
  return OD_OK;
}

od_status od_check_truth(const od_truth *t, const od_input_options *o) {
  static const char *const names[4] = {"ymin", "xmin", "ymax", "xmax"};
  int num_classes = o->num_classes;
  if (o->use_multiclass_scores && t->scores && t->scores_per_box != num_classes)
    return od_fail(OD_EDATA, "image/object/class/multiclass_scores has %d scores a box, the model num_classes %d",
                   t->scores_per_box, num_classes);
  for (int i = 0; i < t->count; i++) {
    if (num_classes > 0 && t->classes[i] > num_classes)
      return od_fail(OD_EDATA,
                     "box %d has class %d, but the model has num_classes %d: do label map and config belong together?",
                     i, t->classes[i], num_classes);
    for (int k = 0; k < 4; k++) /* where the original's assertion stands */
      if (t->boxes[4 * i + k] > 1.1f)
        return od_fail(OD_EDATA,
                       "box %d: %s is %g, more than 1.1: coordinates are parts of the picture's size, 0 to 1%s", i,
                       names[k], (double)t->boxes[4 * i + k], t->boxes[4 * i + k] > 2 ? "; are these pixels?" : "");
  }
  return OD_OK;
}

od_status od_drop_unusable(od_truth *t) {
  bool *keep = NULL;
  OD_TRY(od_new(&keep, (size_t)t->count + 1, sizeof *keep));
  for (int i = 0; i < t->count; i++) {
    const float *b = t->boxes + 4 * i;
    keep[i] = t->classes[i] >= 0 && !isnan(b[0]) && !isnan(b[1]) && !isnan(b[2]) && !isnan(b[3]);
  }
  od_truth_keep(t, keep);
  od_free(keep);
  return OD_OK;
}

od_status od_check_boxes(const od_truth *t) {
  for (int i = 0; i < t->count; i++) {
    const float *b = t->boxes + 4 * i;
    if (!(b[2] >= b[0] && b[3] >= b[1]))
      return od_fail(OD_EDATA, "box %d: ymin %g, xmin %g, ymax %g, xmax %g; a minimum is larger than its maximum", i,
                     (double)b[0], (double)b[1], (double)b[2], (double)b[3]);
  }
  return OD_OK;
}

void od_reframe(od_truth *t, int height, int width, int out_height, int out_width) {
  if (height == out_height && width == out_width) return;
  od_change_frame(t, (od_window){0, 0, (float)out_height / (float)height, (float)out_width / (float)width});
}

/* ---------------------------------------------------------------------------------------------------------- batches */
void od_batch_free(od_batch *b) {
  for (int i = 0; b->samples && i < b->count; i++) od_picture_free(&b->samples[i]);
  od_free(b->samples);
  od_tensor *const all[] = {&b->images,        &b->true_shapes, &b->num_boxes, &b->boxes,     &b->classes,
                            &b->class_targets, &b->weights,     &b->masks,     &b->keypoints, &b->visibilities};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) od_tensor_free(all[i]);
  memset(b, 0, sizeof *b);
}

void od_batch_clear(od_batch *b) {
  for (int i = 0; b->samples && i < b->count; i++) od_picture_free(&b->samples[i]);
  b->count = 0;
}

/* A zeroed tensor of this shape; the memory of the batch before serves again when it fits. Pictures are not zeroed then:
 * their padding is. */
static od_status renew(od_tensor *t, od_dtype dtype, od_shape shape, bool zero) {
  if (t->data && t->dtype == dtype && od_shape_equal(&t->shape, &shape)) {
    if (zero) memset(t->data, 0, od_tensor_bytes(t));
    return OD_OK;
  }
  od_tensor_free(t);
  return od_tensor_new(t, dtype, &shape);
}

/* One picture at the upper left of its place [h, w, c], the rest zero. */
static void place_image(float *out, const od_fimage *im, int h, int w) {
  size_t c = (size_t)im->channels, row = (size_t)im->width * c, out_row = (size_t)w * c;
  for (int y = 0; y < im->height; y++, out += out_row) {
    memcpy(out, im->data + (size_t)y * row, row * sizeof *out);
    memset(out + row, 0, (out_row - row) * sizeof *out);
  }
  memset(out, 0, (size_t)(h - im->height) * out_row * sizeof *out);
}

static od_status stack_images(od_batch *b) {
  int h = 0, w = 0, c = b->samples[0].image.channels;
  for (int i = 0; i < b->count; i++) {
    if (b->samples[i].image.height > h) h = b->samples[i].image.height;
    if (b->samples[i].image.width > w) w = b->samples[i].image.width;
  }
  OD_TRY(renew(&b->images, OD_F32, OD_SHAPE(b->count, h, w, c), false));
  OD_TRY(renew(&b->true_shapes, OD_I32, OD_SHAPE(b->count, 3), true));
  for (int i = 0; i < b->count; i++) {
    od_picture *s = &b->samples[i];
    place_image((float *)b->images.data + (size_t)i * (size_t)h * (size_t)w * (size_t)c, &s->image, h, w);
    int32_t *shape = (int32_t *)b->true_shapes.data + 3 * i;
    shape[0] = s->true_height;
    shape[1] = s->true_width;
    shape[2] = c;
    od_reframe(&s->truth, s->image.height, s->image.width, h, w);
    od_fimage_free(&s->image); /* it is in the tensor now */
  }
  return OD_OK;
}

/* Rows of the box tensors: max_boxes, doubled until all boxes fit unless they are to be cut off. */
static int rows_needed(const od_batch *b, const od_input_options *o) {
  int rows = o->max_boxes, most = 0;
  for (int i = 0; i < b->count; i++)
    if (b->samples[i].truth.count > most) most = b->samples[i].truth.count;
  while (!o->clip_boxes && rows < most) rows *= 2;
  return rows;
}

static void set_targets(float *out, const od_truth *t, int row, int classes, const od_input_options *o) {
  if (o->use_multiclass_scores && t->scores) {
    memcpy(out, t->scores + (size_t)row * (size_t)classes, (size_t)classes * sizeof *out);
  } else if (t->classes[row] >= 1 && t->classes[row] <= classes) {
    out[t->classes[row] - 1] = 1;
  }
}

/* Equal boxes as the original finds them: coordinates cut to 9999ths. */
static bool same_place(const float *a, const float *b) {
  for (int k = 0; k < 4; k++)
    if ((int64_t)(a[k] * 9999.0f) != (int64_t)(b[k] * 9999.0f)) return false;
  return true;
}

/* Row in which box i stands: its own, or that of an earlier equal one. */
static int merged_row(const od_truth *t, const int *row_of, int i) {
  for (int k = 0; k < i; k++)
    if (same_place(t->boxes + 4 * k, t->boxes + 4 * i)) return row_of[k];
  return -1;
}

static od_status fill_rows(od_batch *b, int i, int rows, const od_input_options *o) {
  const od_truth *t = &b->samples[i].truth;
  int k = o->num_classes > 0 ? o->num_classes : 1, used = 0;
  size_t at = (size_t)i * (size_t)rows;
  int *row_of = NULL;
  OD_TRY(od_new(&row_of, (size_t)t->count + 1, sizeof *row_of));
  for (int j = 0; j < t->count; j++) {
    int row = o->merge_multiple_boxes ? merged_row(t, row_of, j) : -1;
    bool merged = row >= 0;
    if (!merged) row = used < rows ? used++ : rows; /* rows: cut off */
    row_of[j] = row;
    if (row == rows) continue;
    size_t to = at + (size_t)row;
    set_targets((float *)b->class_targets.data + to * (size_t)k, t, j, k, o);
    if (merged) continue;
    memcpy((float *)b->boxes.data + 4 * to, t->boxes + 4 * j, 4 * sizeof(float));
    ((int32_t *)b->classes.data)[to] = t->classes[j] - 1;
    ((float *)b->weights.data)[to] = t->weights[j];
    if (b->masks.data) {
      size_t plane = (size_t)(b->images.shape.dim[1] * b->images.shape.dim[2]), w = (size_t)b->images.shape.dim[2];
      float *m = (float *)b->masks.data + to * plane;
      for (int y = 0; y < t->mask_height; y++)
        for (int x = 0; x < t->mask_width; x++)
          m[(size_t)y * w + (size_t)x] =
              t->masks[((size_t)j * (size_t)t->mask_height + (size_t)y) * (size_t)t->mask_width + (size_t)x];
    }
    for (int p = 0; b->keypoints.data && p < t->keypoints_per_box; p++) {
      size_t from = (size_t)j * (size_t)t->keypoints_per_box + (size_t)p,
             dst = to * (size_t)t->keypoints_per_box + (size_t)p;
      memcpy((float *)b->keypoints.data + 2 * dst, t->keypoints + 2 * from, 2 * sizeof(float));
      ((float *)b->visibilities.data)[dst] = t->visible[from];
    }
  }
  ((int32_t *)b->num_boxes.data)[i] = used;
  od_free(row_of);
  return OD_OK;
}

od_status od_batch_assemble(od_batch *b, const od_input_options *o) {
  OD_TRY(stack_images(b));
  int n = b->count, rows = rows_needed(b, o), k = o->num_classes > 0 ? o->num_classes : 1;
  const od_truth *first = &b->samples[0].truth;
  OD_TRY(renew(&b->num_boxes, OD_I32, OD_SHAPE(n), true));
  OD_TRY(renew(&b->boxes, OD_F32, OD_SHAPE(n, rows, 4), true));
  OD_TRY(renew(&b->classes, OD_I32, OD_SHAPE(n, rows), true));
  OD_TRY(renew(&b->class_targets, OD_F32, OD_SHAPE(n, rows, k), true));
  OD_TRY(renew(&b->weights, OD_F32, OD_SHAPE(n, rows), true));
  if (first->masks)
    OD_TRY(renew(&b->masks, OD_F32, OD_SHAPE(n, rows, b->images.shape.dim[1], b->images.shape.dim[2]), true));
  if (first->keypoints) {
    OD_TRY(renew(&b->keypoints, OD_F32, OD_SHAPE(n, rows, first->keypoints_per_box, 2), true));
    OD_TRY(renew(&b->visibilities, OD_F32, OD_SHAPE(n, rows, first->keypoints_per_box), true));
  }
  for (int64_t i = 0; i < (int64_t)n * rows; i++) ((int32_t *)b->classes.data)[i] = -1;
  for (int i = 0; i < n; i++) OD_TRY(fill_rows(b, i, rows, o));
  return OD_OK;
}
