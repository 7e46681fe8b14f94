/* Decoders of this room, one a format; od_image_decode chooses. Not for other rooms. */
#ifndef OD_IMAGE_FORMATS_H
#define OD_IMAGE_FORMATS_H

#include "image/image.h"

OD_MUST_CHECK od_status od_jpeg_decode(od_image *out, const uint8_t *bytes, size_t size, int channels);
OD_MUST_CHECK od_status od_jpeg_size(int *height, int *width, int *channels, const uint8_t *bytes, size_t size);
OD_MUST_CHECK od_status od_png_decode(od_image *out, const uint8_t *bytes, size_t size, int channels);
OD_MUST_CHECK od_status od_png_size(int *height, int *width, int *channels, const uint8_t *bytes, size_t size);
OD_MUST_CHECK od_status od_bmp_decode(od_image *out, const uint8_t *bytes, size_t size, int channels);
OD_MUST_CHECK od_status od_bmp_size(int *height, int *width, int *channels, const uint8_t *bytes, size_t size);
OD_MUST_CHECK od_status od_gif_decode(od_image *out, const uint8_t *bytes, size_t size, int channels);
OD_MUST_CHECK od_status od_gif_size(int *height, int *width, int *channels, const uint8_t *bytes, size_t size);

#endif
