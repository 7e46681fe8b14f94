/* Builders and parameters of the detection ops: anchors, boxes, targets, mining, suppression, image sizes.
 *
 * Letters: B images, A anchors (or proposals), G groundtruth boxes after padding, K classes, D class targets (K, or K + 1 with
 * the background first), C numbers in a box code, M detections kept. Boxes are ymin xmin ymax xmax, float32. All arithmetic
 * is float32 in the order of the original, since ties and thresholds hang on it. Nothing here but crop_and_resize has a
 * gradient: what these ops choose is constant for the losses. Builders end in _op where ops/box has a plain function (or
 * type) of the short name. */
#ifndef OD_OPS_DETECT_H
#define OD_OPS_DETECT_H

#include "graph/graph.h"
#include "image/resize.h"
#include "ops/box/matcher.h"
#include "ops/box/sampler.h"

/* -------------------------------------------------------------------------------------------------------------- anchors */
/* One grid for each feature map; layer l has per_layer[l] (scale, aspect ratio) pairs, scales and aspect_ratios hold them
 * one layer after the other. Normalised coordinates: sizes are scales of the shorter side of the image.
 * strides, offsets: in pixels of the preprocessed image, y and x for each layer; empty: 1/H, 1/W and half of it. */
typedef struct {
  od_ints per_layer;
  od_floats scales, aspect_ratios;
  float base_height, base_width; /* 1, 1 */
  od_floats strides, offsets;
} od_ssd_anchors_params;
/* maps: n feature maps [B,H,W,*], of which only H and W count; image: the preprocessed batch, for its H and W.
 * -> [A,4] normalised, layer after layer, row by row, pairs innermost. */
od_value od_ssd_anchors_op(od_graph *g, const od_value *maps, int n, od_value image, const od_ssd_anchors_params *p);

/* The pairs of SSD as the config spells them (message SsdAnchorGenerator), into memory of the arena. scales: n_layers of
 * them or none, then spaced from min_scale to max_scale (in double, as the original). reduce: three pairs in layer 0.
 * interpolated: aspect ratio of the extra anchor between a scale and the next; 0: none. Leaves base, strides, offsets. */
typedef struct {
  int n_layers;
  float min_scale, max_scale;
  od_floats scales, aspect_ratios; /* the latter empty: 1, 2, 3, 1/2, 1/3 */
  bool reduce_boxes_in_lowest_layer;
  float interpolated_scale_aspect_ratio;
} od_ssd_anchor_spec;
OD_MUST_CHECK od_status od_ssd_anchor_pairs(od_ssd_anchors_params *out, od_arena *arena,
                                            const od_ssd_anchor_spec *spec);

/* Faster R-CNN: all scales with all ratios (scales innermost) at each cell of one map, in pixels. */
typedef struct {
  od_floats scales, aspect_ratios;
  float base_height, base_width;     /* 256, 256 */
  float height_stride, width_stride; /* 16, 16 */
  float height_offset, width_offset; /* 0, 0 */
} od_grid_anchors_params;
/* map: [B,H,W,*] -> [A,4] in pixels. */
od_value od_grid_anchors_op(od_graph *g, od_value map, const od_grid_anchors_params *p);

/* RetinaNet: level l (min_level for the first map) has stride 2^l and base size anchor_scale * 2^l; scales 2^(i/octave),
 * all with all ratios. The original shifts the grid by half a stride when it does not know the image's size while building
 * (size_known false: a resizer that keeps the aspect ratio) and else only along a side that 2^l divides. */
typedef struct {
  int64_t min_level, max_level;
  float anchor_scale;
  od_floats aspect_ratios;
  int64_t scales_per_octave;
  bool normalize; /* coordinates relative to the preprocessed image instead of its pixels */
  bool size_known;
} od_multiscale_anchors_params;
od_value od_multiscale_anchors_op(od_graph *g, const od_value *maps, int n, od_value image,
                                  const od_multiscale_anchors_params *p);

/* Grids spelled out: layer l has per_layer[l] (size in pixels, aspect ratio) pairs. */
typedef struct {
  od_ints per_layer;
  od_floats sizes, aspect_ratios;
  od_floats strides, offsets; /* y and x for each layer, pixels */
  bool normalize;
} od_flexible_anchors_params;
od_value od_flexible_anchors_op(od_graph *g, const od_value *maps, int n, od_value image,
                                const od_flexible_anchors_params *p);

/* ---------------------------------------------------------------------------------------------------------------- boxes */
/* The original's box coder. Scales of 1 where the config sets none.
 * FASTER_RCNN, KEYPOINT: y, x, height, width; SQUARE: y, x, length = height; MEAN_STDDEV: stddev = y. */
typedef struct {
  int kind; /* od_coder_kind */
  float y, x, height, width;
  int64_t keypoints; /* KEYPOINT only */
  bool per_class;    /* decode_boxes only: codes [..., K, C] for anchors [..., 4] */
} od_coder_params;
/* C: 4; 3 for SQUARE; 4 + 2 * keypoints. */
int64_t od_coder_size(const od_coder_params *p);
/* The same as the plain functions of ops/box want it. */
od_box_coder od_coder_of(const od_coder_params *p);

/* codes [...,A,C] with anchors [A,4] or [...,A,4] (per_class: codes [...,A,K,C] with anchors [...,A,4] or [A,4]) -> boxes,
 * last dimension 4. Output 1: keypoints, last dimension 2 * keypoints (y x y x...), of size 0 for the other coders. */
od_value od_decode_boxes(od_graph *g, od_value codes, od_value anchors, const od_coder_params *p);
/* boxes [...,A,4], anchors [A,4] or [...,A,4], keypoints absent or [...,A,2 * keypoints] -> codes [...,A,C]. */
od_value od_encode_boxes(od_graph *g, od_value boxes, od_value anchors, od_value keypoints, const od_coder_params *p);

/* boxes [...,4], window [4], or [B,4] with boxes [B,...,4]: each coordinate moved into the window. */
od_value od_clip_boxes(od_graph *g, od_value boxes, od_value window);
/* boxes [...,4], window as above -> [...] float: 1 where the box lies wholly inside, else 0. */
od_value od_boxes_inside(od_graph *g, od_value boxes, od_value window);
/* (box - window's corner) * (1 / window's size): the coordinates of a box relative to a window. */
od_value od_change_coordinate_frame(od_graph *g, od_value boxes, od_value window);
/* Multiplies by (or, inverse, divides as 1/size by) the height and width of image [B,H,W,*]. */
od_value od_boxes_to_absolute(od_graph *g, od_value boxes, od_value image);
od_value od_boxes_to_normalized(od_graph *g, od_value boxes, od_value image);
/* The part of each preprocessed picture that is not padding, [B,4]: 0, 0, height, width of true_shapes [B,3] int32 (height
 * width channels), divided by those of image [B,H,W,*] when normalized. */
od_value od_clip_window(od_graph *g, od_value true_shapes, od_value image, bool normalized);

/* a [N,4], b [M,4] -> [N,M] intersection over union. */
od_value od_iou_matrix(od_graph *g, od_value a, od_value b);

/* -------------------------------------------------------------------------------------------------------------- targets */
/* The original's ArgMaxMatcher or greedy bipartite matcher over a similarity. */
typedef struct {
  int similarity;      /* od_similarity: OD_SIMILARITY_IOU ... */
  float iou_threshold; /* of OD_SIMILARITY_THRESHOLDED_IOU */
  bool bipartite;      /* the rest is for the argmax matcher */
  bool ignore_thresholds;
  float matched_threshold, unmatched_threshold;
  bool negatives_lower_than_unmatched; /* true: below unmatched -1, between -2; false: the other way round */
  bool force_match_for_each_row;
} od_match_params;
/* anchors [A,4] or [B,A,4]; gt_boxes [B,G,4]; gt_weights [B,G] (0: attracts by threshold but is not forced); gt_count [B]
 * int32: boxes from there on are padding. gt_classes: absent, or [B,G,D] as in assign_targets, for THRESHOLDED_IOU (a box
 * scores 1 - its first class target). valid: absent, [A] or [B,A] float: anchors with 0 take no part and get -2.
 * -> int32 [B,A]: row of the groundtruth box, -1 unmatched (background), -2 ignored. */
od_value od_match_anchors(od_graph *g, od_value anchors, od_value gt_boxes, od_value gt_weights, od_value gt_count,
                          od_value gt_classes, od_value valid, const od_match_params *p);

typedef struct {
  od_coder_params coder;
  od_floats unmatched;         /* D values: class target of anchors without a match */
  float negative_class_weight; /* 1 */
} od_assign_params;
/* What the original's TargetAssigner.assign makes of a match. gt_classes [B,G,D] float; gt_keypoints absent or [B,G,2*P].
 * Outputs: 0 class targets [B,A,D], 1 class weights [B,A,D], 2 box targets [B,A,C], 3 box weights [B,A]. */
od_value od_assign_targets_op(od_graph *g, od_value match, od_value anchors, od_value gt_boxes, od_value gt_classes,
                              od_value gt_weights, od_value gt_keypoints, const od_assign_params *p);

typedef struct {
  int64_t num_hard_examples; /* <= 0: no limit */
  float iou_threshold;
  int loss_type; /* od_mine_loss: what ranks the anchors: OD_MINE_BOTH, _CLASSIFICATION, _LOCALIZATION */
  float classification_weight, localization_weight; /* of the sum, with OD_MINE_BOTH */
  float max_negatives_per_positive;                 /* <= 0: no limit */
  int64_t min_negatives_per_image;
} od_miner_params;
/* The original's HardExampleMiner. loc_losses, cls_losses [B,A]; boxes [B,A,4] decoded; match [B,A] int32 or absent.
 * Outputs: 0 mask [B,A] float, 1 where the anchor counts; 1, 2: chosen positives, negatives [B] float (as many as the
 * original reports: with max_negatives_per_positive; without it all chosen, by match). */
od_value od_hard_example_miner_op(od_graph *g, od_value loc_losses, od_value cls_losses, od_value boxes, od_value match,
                                  const od_miner_params *p);

/* Balanced sampling (BalancedPositiveNegativeSampler): indicator [B,A] float (0: may not be chosen), labels [B,A] float (not
 * 0: positive) -> [B,A] float 0/1. size <= 0: all positives and as many negatives as the fraction asks for. Random by the
 * node's key; where the sample takes everything, deterministic. */
typedef struct {
  int64_t size;
  float positive_fraction;
} od_sample_params;
od_value od_sample_balanced_op(od_graph *g, od_value indicator, od_value labels, const od_sample_params *p);

/* ---------------------------------------------------------------------------------------------------------- suppression */
/* The original's batch_multiclass_non_max_suppression. */
typedef struct {
  float score_threshold, iou_threshold;
  int64_t max_per_class;        /* at most this many of a class before the classes are merged */
  int64_t max_total;            /* M */
  bool change_coordinate_frame; /* boxes relative to the clip window */
  bool class_agnostic;          /* one suppression over the best class of each box */
  float soft_nms_sigma;         /* 0: hard suppression */
  bool static_shapes;           /* padding is not zero: the original's form for TPUs (zero in written graphs) */
} od_nms_params;
/* boxes [B,A,q,4], q 1 or K; scores [B,A,K]; window [4], [B,4] or absent (no clipping); num_valid [B] int32 or absent;
 * extra [B,A,E] or absent: gathered along (multiclass scores).
 * Outputs, sorted by score and padded with zeros: 0 boxes [B,M,4], 1 scores [B,M], 2 classes [B,M] float from 0, 3 number of
 * valid ones [B] float, 4 index of the box among A [B,M] float, 5 extra [B,M,E] (E 0 when absent). */
od_value od_nms_op(od_graph *g, od_value boxes, od_value scores, od_value window, od_value num_valid, od_value extra,
                   const od_nms_params *p);

/* ---------------------------------------------------------------------------------------------------------- image sizes */
typedef enum {
  OD_RESIZE_IDENTITY,
  OD_RESIZE_FIXED_SHAPE,
  OD_RESIZE_KEEP_ASPECT_RATIO,
  OD_RESIZE_PAD_TO_MULTIPLE,
  OD_RESIZE_SHRINK, /* conditional_shape_resizer, GREATER: the longer side to at most min_dimension */
  OD_RESIZE_ENLARGE /* conditional_shape_resizer, SMALLER: the shorter side to at least min_dimension */
} od_resize_kind;
/* The model's image resizer as an op, for exported graphs and for pictures fed as they are (image/resizer.h has the rules). */
typedef struct {
  int kind;              /* od_resize_kind */
  int method;            /* od_resize_method of image/resize.h: OD_RESIZE_BILINEAR, _NEAREST, _BICUBIC, _AREA */
  int64_t height, width; /* FIXED_SHAPE */
  int64_t min_dimension, max_dimension; /* KEEP_ASPECT_RATIO; SHRINK, ENLARGE: min_dimension is the threshold */
  bool pad_to_max_dimension;
  od_floats pad_value; /* one a channel; empty: 0 */
  int64_t multiple;    /* PAD_TO_MULTIPLE */
  bool convert_to_grayscale;
} od_resize_image_params;
/* images [B,H,W,C] float -> 0: [B,H',W',C] (C 3 becomes 1 when grayscale), 1: true shapes [B,3] int32 (height, width,
 * channels) before padding. */
od_value od_resize_image(od_graph *g, od_value images, const od_resize_image_params *p);

/* --------------------------------------------------------------------------------------------------------- second stage */
/* TensorFlow's CropAndResize: boxes [R,4] normalised, box_image [R] int32 -> [R,crop_height,crop_width,C] of
 * image [B,H,W,C]. Gradient into the image only. */
typedef struct {
  int64_t crop_height, crop_width;
  bool nearest; /* no gradient then */
  float extrapolation_value;
} od_crop_params;
od_value od_crop_and_resize(od_graph *g, od_value image, od_value boxes, od_value box_image, const od_crop_params *p);

/* The rows of x [B,A,...] whose mask [B,A] is not 0, in order, at most `rows` of them, zeros behind -> 0: [B,rows,...],
 * 1: how many [B] int32. For sampled proposals. */
typedef struct {
  int64_t rows;
} od_compact_params;
od_value od_compact_rows(od_graph *g, od_value mask, od_value x, int64_t rows);
/* [B,P] float of count [B] int32 and like [B,P,...] (whose values do not count): 1 in the first count[b] places, else 0. */
od_value od_valid_rows(od_graph *g, od_value count, od_value like);
/* int32 [B*P]: the image of each box of boxes [B,P,4] when they are laid one after the other, as crop_and_resize wants. */
od_value od_box_image(od_graph *g, od_value boxes);

#endif
