/* Encoding pictures to PNG and JPEG in memory. */
#ifndef OD_IMAGE_ENCODE_H
#define OD_IMAGE_ENCODE_H

#include "base/str.h"
#include "image/image.h"

/* Appends the picture (1 channel: grey, 3: RGB) to out as an 8-bit PNG: for event files, masks, drawings. OD_ENOMEM. */
OD_MUST_CHECK od_status od_png_encode(od_str *out, const od_image *image);
/* Appends it as a baseline JPEG, quality 1 to 100, chroma at half size. */
OD_MUST_CHECK od_status od_jpeg_encode(od_str *out, const od_image *image, int quality);

#endif
