/* Pictures in memory: allocation within a stated limit. */
#include "image/image.h"

#include <string.h>

#include "base/mem.h"

od_status od_image_new(od_image *out, int64_t height, int64_t width, int channels) {
  memset(out, 0, sizeof *out);
  if (height <= 0 || width <= 0)
    return od_fail(OD_EDATA, "the picture claims %lld x %lld pixels (width x height); both must be positive",
                   (long long)width, (long long)height);
  /* Divisions instead of products: header fields may be anything. */
  if (width > OD_IMAGE_MAX_BYTES || height > OD_IMAGE_MAX_BYTES / width / channels)
    return od_fail(OD_EDATA,
                   "the picture has %lld x %lld pixels (width x height), %.0f bytes decoded; the limit is %lld bytes: "
                   "scale it down or cut it into tiles before making records",
                   (long long)width, (long long)height, (double)width * (double)height * channels,
                   (long long)OD_IMAGE_MAX_BYTES);
  out->data = od_alloc((size_t)height * (size_t)width * (size_t)channels);
  if (!out->data) return OD_ENOMEM;
  out->height = (int)height;
  out->width = (int)width;
  out->channels = channels;
  return OD_OK;
}

void od_image_free(od_image *image) {
  od_free(image->data);
  memset(image, 0, sizeof *image);
}
