/* A picture in memory: rows from the top, channels interleaved (HWC), 8 bits a channel. */
#ifndef OD_IMAGE_IMAGE_H
#define OD_IMAGE_IMAGE_H

#include <stdint.h>

#include "base/status.h"

typedef struct {
  uint8_t *data; /* [height, width, channels], od_alloc */
  int height, width, channels;
} od_image;

/* Most bytes a decoded picture may have: TensorFlow's own limit. Anything larger is refused before memory is asked for. */
#define OD_IMAGE_MAX_BYTES ((int64_t)1 << 29)

/* Allocates height x width x channels bytes, undefined. OD_EDATA when a dimension is not positive or the whole is larger
 * than OD_IMAGE_MAX_BYTES (the message says what to do). The caller frees with od_image_free. */
OD_MUST_CHECK od_status od_image_new(od_image *out, int64_t height, int64_t width, int channels);
/* Frees the pixels and empties the struct; an empty one is fine. */
void od_image_free(od_image *image);

#endif
