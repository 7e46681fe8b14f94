/* A picture with its ground truth on the way from a record to a batch. */
#ifndef OD_DATA_SAMPLE_H
#define OD_DATA_SAMPLE_H

#include "image/resize.h"

/* Ground truth of one picture: columns with one row a box. Optional columns are NULL when the record, or what was asked
 * of the decoder, does not bring them. */
typedef struct {
  int count, cap;                        /* boxes; rows that memory is there for */
  float *boxes;                          /* [count, 4] ymin xmin ymax xmax, normalised */
  int32_t *classes;                      /* [count] ids of the label map, from 1; -1: not in the map */
  float *weights;                        /* [count] */
  float *area;                           /* [count] pixels, 0 where not given */
  uint8_t *difficult, *crowd, *group_of; /* [count] 0 or 1 */
  int scores_per_box;                    /* columns of scores */
  float *scores;                         /* [count, scores_per_box] multiclass scores; optional */
  int keypoints_per_box;
  float *keypoints; /* [count, keypoints_per_box, 2] y x, normalised, NaN: not there; optional */
  uint8_t *visible; /* [count, keypoints_per_box]; with keypoints */
  int mask_height, mask_width;
  uint8_t *masks;      /* [count, mask_height, mask_width] 0 or 1, size of the picture; optional */
  float *mask_weights; /* [count]; with masks */
} od_truth;

/* Which optional columns there are is set (scores_per_box, keypoints_per_box, mask_height x mask_width when has_masks)
 * before; allocates room for `rows` boxes, zeroed. */
OD_MUST_CHECK od_status od_truth_reserve(od_truth *t, int rows, bool has_scores, bool has_keypoints, bool has_masks);
void od_truth_free(od_truth *t);
/* Keeps only the rows i with keep[i]; order stays. */
void od_truth_keep(od_truth *t, const bool *keep);
/* Rows become copies of rows[0..n-1] (indices below count, in any order, repeated or not). */
OD_MUST_CHECK od_status od_truth_gather(od_truth *t, const int *rows, int n);
/* Appends a copy of all of t's own rows: count doubles. */
OD_MUST_CHECK od_status od_truth_double(od_truth *t);

typedef struct {
  od_image pixels; /* as decoded, RGB; emptied once the floats took over, unless the original is kept */
  od_fimage image; /* 0..255 before resizing; what the network gets after it */
  od_truth truth;
  int original_height, original_width; /* as decoded */
  int true_height, true_width;         /* of the resized picture without padding */
  char *source_id, *filename, *key;    /* od_alloc; "" when absent */
  char *origin;                        /* "file.record: record 12", for messages */
  uint64_t ticket;                     /* place in the stream: epoch * records + index */
  /* Labels of the whole picture (Open Images): ids and confidences (1 present, 0 verified absent). */
  int image_class_count;
  int32_t *image_classes;
  float *image_confidences; /* NULL when the record has none */
} od_picture;

void od_picture_free(od_picture *s);

#endif
