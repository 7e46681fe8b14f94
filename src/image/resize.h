/* Resizing as TensorFlow 1's tf.image.resize_images computes it, in the same order of float operations. */
#ifndef OD_IMAGE_RESIZE_H
#define OD_IMAGE_RESIZE_H

#include "base/tensor.h"
#include "image/image.h"

/* Numbers as in the config's ResizeType. */
typedef enum { OD_RESIZE_BILINEAR, OD_RESIZE_NEAREST, OD_RESIZE_BICUBIC, OD_RESIZE_AREA } od_resize_method;

/* How output coordinates map to input coordinates: x*in/out (TensorFlow 1's default), x*(in-1)/(out-1), or
 * (x+0.5)*in/out-0.5. */
typedef enum { OD_CORNERS_LEGACY, OD_CORNERS_ALIGN, OD_CORNERS_HALF_PIXEL } od_corners;

/* A picture of floats, HWC; pixel values 0..255 unless said otherwise. */
typedef struct {
  float *data; /* [height, width, channels], od_alloc */
  int height, width, channels;
} od_fimage;

/* As od_image_new, for floats; undefined contents. */
OD_MUST_CHECK od_status od_fimage_new(od_fimage *out, int64_t height, int64_t width, int channels);
/* The same picture as floats. */
OD_MUST_CHECK od_status od_fimage_from_u8(od_fimage *out, const od_image *image);
OD_MUST_CHECK od_status od_fimage_copy(od_fimage *out, const od_fimage *image);
void od_fimage_free(od_fimage *image);

/* Resizes in [height, width, channels] of dtype OD_U8 or OD_F32 to out [out_height, out_width, channels], floats; a line
 * of out begins out_stride floats after the one before (>= out_width * channels), so that out may be a window of a larger
 * picture. Nearest copies values; area knows no half-pixel centres (OD_EUNSUPPORTED). OD_ENOMEM, or OD_EINVAL for sizes
 * that are not positive. */
OD_MUST_CHECK od_status od_resize(float *out, int out_height, int out_width, size_t out_stride, const void *in,
                                  od_dtype dtype, int height, int width, int channels, od_resize_method method,
                                  od_corners corners);

/* Nearest neighbour of one plane of bytes: masks. A line of out begins out_stride bytes after the one before; sizes are
 * positive. */
void od_resize_nearest_u8(uint8_t *out, int out_height, int out_width, size_t out_stride, const uint8_t *in, int height,
                          int width, od_corners corners);

#endif
