/* What the augmentation steps share; for augment*.c alone. */
#ifndef OD_DATA_AUGMENT_STEPS_H
#define OD_DATA_AUGMENT_STEPS_H

#include "data/augment.h"

/* A step: the picture changes in place. message is the step's own message (RandomCropImage, ...). Draw i of a step is
 * od_rng_*(key, i). */
typedef od_status (*od_step_run)(od_picture *s, const void *message, od_key key);
/* Refuses parameters that cannot be meant; NULL: none can be wrong. */
typedef od_status (*od_step_check)(const void *message);

typedef struct {
  int number; /* field in PreprocessingStep */
  od_step_run run;
  od_step_check check;
} od_step;

/* Tables by file; each ends with number 0. */
extern const od_step od_steps_geometry[], od_steps_crop[], od_steps_pad[], od_steps_colour[], od_steps_truth[],
    od_steps_square[], od_steps_policy[];

/* ---- geometry shared by crops and pads ---- */
typedef struct {
  float ymin, xmin, ymax, xmax; /* normalised */
} od_window;

/* Boxes and keypoints from the picture's frame to the window's. */
void od_change_frame(od_truth *t, od_window w);
/* Clips boxes to 0..1 and makes keypoints outside NaN and invisible. */
void od_clip_truth(od_truth *t);
/* Intersection of box (ymin xmin ymax xmax) with the window over the box's area; NaN for a box without area. */
float od_covered_share(const float *box, od_window w);
/* Cuts picture and masks to height x width pixels at (y, x); where that reaches beyond the picture it is filled with
 * `fill` (one value a channel) and masks with 0. */
OD_MUST_CHECK od_status od_cut(od_picture *s, int y, int x, int height, int width, const float *fill);
/* Resizes picture (by method) and masks (nearest), aligned corners or not. */
OD_MUST_CHECK od_status od_resize_sample(od_picture *s, int height, int width, od_resize_method method,
                                         od_corners corners);

/* tf.image.adjust_brightness (delta of the range 0..1) and adjust_hue (turn of the whole circle) on 0..255. */
void od_adjust_brightness(od_fimage *image, float delta);
void od_adjust_hue(od_fimage *image, float turn);

/* Uniform float in [low, high). */
static inline float od_draw_range(od_key key, uint64_t i, float low, float high) {
  return od_rng_f32(key, i) * (high - low) + low;
}

/* ---- crops for other steps ---- */
typedef struct {
  float min_object_covered, min_aspect, max_aspect, min_area, max_area, overlap, random_coef;
  bool clip;
} od_crop_rule;

/* The rule in a message m of preprocessor.proto; all crops name these fields alike. */
#define OD_CROP_RULE(m)                                                                                                \
  ((od_crop_rule){(m)->min_object_covered, (m)->min_aspect_ratio, (m)->max_aspect_ratio, (m)->min_area, (m)->max_area, \
                  (m)->overlap_thresh, (m)->random_coef, (m)->clip_boxes})

/* random_crop_image: with probability random_coef nothing, else a crop by the rule. */
OD_MUST_CHECK od_status od_crop_random(od_picture *s, const od_crop_rule *rule, od_key key);
OD_MUST_CHECK od_status od_check_crop_rule(const od_crop_rule *rule, const char *name);
/* random_crop_to_aspect_ratio. */
OD_MUST_CHECK od_status od_crop_to_aspect(od_picture *s, float aspect, float overlap, bool clip, od_key key);
/* ssd_random_crop with this list, or with the original's seven rules when n is 0. */
OD_MUST_CHECK od_status od_crop_ssd(od_picture *s, const od_crop_rule *rules, size_t n, od_key key);

#endif
