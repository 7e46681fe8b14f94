/* The image resizer of a config: which size a picture gets, and resizing it with its masks (odapi 2.6). */
#ifndef OD_IMAGE_RESIZER_H
#define OD_IMAGE_RESIZER_H

#include "image/resize.h"
#include "io/proto/preprocessor.pb-c.h"

typedef enum {
  OD_RESIZER_IDENTITY,
  OD_RESIZER_FIXED,
  OD_RESIZER_KEEP_ASPECT,
  OD_RESIZER_SHRINK,  /* conditional, GREATER: longest side at most `min_dimension` */
  OD_RESIZER_ENLARGE, /* conditional, SMALLER: shortest side at least `min_dimension` */
  OD_RESIZER_PAD_TO_MULTIPLE
} od_resizer_kind;

typedef struct {
  od_resizer_kind kind;
  int height, width;                /* fixed */
  int min_dimension, max_dimension; /* keep aspect; conditional: min_dimension is the threshold */
  int multiple;
  od_resize_method method;
  bool pad_to_max, grayscale;
  float pad_value[3];
} od_resizer;

/* Takes the rules from a config's message; OD_EINVAL for what cannot be meant (min > max, sizes not positive), with the
 * field's name. */
OD_MUST_CHECK od_status od_resizer_from_config(od_resizer *out, const ObjectDetection__Protos__ImageResizer *config);

typedef struct {
  int height, width;         /* true size: of the resized picture inside the result */
  int out_height, out_width; /* of the result, padding at the bottom and right included */
} od_resizer_size;

/* Size that a picture of height x width gets. In the original's float arithmetic, ties to even. */
OD_MUST_CHECK od_status od_resizer_target(od_resizer_size *out, const od_resizer *r, int height, int width);

/* Do results have many sizes, as those of photographs that keep their aspect do? */
bool od_resizer_varies(const od_resizer *r);

/* Resizes to a new float picture of out_height x out_width, 3 or (grayscale) 1 channels; *size may be NULL. in: dtype
 * OD_U8 or OD_F32, [height, width, 3]. The caller frees out. */
OD_MUST_CHECK od_status od_resizer_apply(od_fimage *out, od_resizer_size *size, const od_resizer *r, const void *in,
                                         od_dtype dtype, int height, int width);

/* Resizes n masks [n, height, width] of 0 and 1 to *out [n, out_height, out_width] by nearest neighbour, padding zero, as
 * the original does for this resizer. The caller frees *out with od_free. */
OD_MUST_CHECK od_status od_resizer_apply_masks(uint8_t **out, const od_resizer *r, const uint8_t *masks, int n,
                                               int height, int width);

#endif
