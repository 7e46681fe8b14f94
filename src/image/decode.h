/* Decoding pictures by their content, byte for byte as TensorFlow decodes them with its defaults.
 *
 * JPEG (baseline, progressive, grey, CMYK, YCCK; fast integer DCT and smooth chroma upsampling), PNG (any depth and
 * colour type; 16 bits lose the low byte, alpha is dropped), BMP (8, 24, 32 bits uncompressed) and the first frame of a
 * GIF. The name of the file plays no part: a PNG called .jpg is a PNG. EXIF rotation is not applied, as in TensorFlow. */
#ifndef OD_IMAGE_DECODE_H
#define OD_IMAGE_DECODE_H

#include "image/image.h"

typedef enum { OD_FORMAT_UNKNOWN, OD_FORMAT_JPEG, OD_FORMAT_PNG, OD_FORMAT_BMP, OD_FORMAT_GIF } od_image_format;

/* What the first bytes say. */
od_image_format od_image_format_of(const void *bytes, size_t size);
/* "JPEG", "PNG", "BMP", "GIF" or "unknown". */
const char *od_image_format_name(od_image_format format);

/* Decodes to `channels` channels: 3 (RGB) or 1 (grey: as TensorFlow converts, of which masks make use).
 * OD_EDATA: not a picture, damaged, ends early, too large. Thread-safe. The caller frees with od_image_free. */
OD_MUST_CHECK od_status od_image_decode(od_image *out, const void *bytes, size_t size, int channels);

/* Reads height, width and the number of channels of the file from the header only. */
OD_MUST_CHECK od_status od_image_size(int *height, int *width, int *channels, const void *bytes, size_t size);

/* EXIF orientation of a JPEG, 1 to 8; 1 (upright) when there is none or it is damaged. TensorFlow and we ignore it when
 * decoding: it is for warnings. */
int od_image_orientation(const void *bytes, size_t size);

#endif
