/* BMP, uncompressed: 24 and 32 bits (alpha dropped), 8 bits as TensorFlow reads them, the index taken as grey. */
#include <string.h>

#include "image/formats.h"

typedef struct {
  int64_t width, height; /* height positive */
  size_t pixels;         /* offset of the first line stored */
  int bytes;             /* a pixel */
  bool top_down;
} bmp;

static uint32_t u32(const uint8_t *p) {
  return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static od_status header(bmp *b, const uint8_t *p, size_t size) {
  if (size < 34) return od_fail(OD_EDATA, "the BMP ends early, after %zu bytes", size);
  int bits = p[28] | p[29] << 8;
  uint32_t compression = u32(p + 30);
  b->pixels = u32(p + 10);
  b->width = (int32_t)u32(p + 18);
  int64_t h = (int32_t)u32(p + 22);
  b->top_down = h < 0;
  b->height = h < 0 ? -h : h;
  b->bytes = bits / 8;
  if (bits != 8 && bits != 24 && bits != 32)
    return od_fail(OD_EDATA, "BMP with %d bits a pixel; 8, 24 and 32 are read: convert it to PNG", bits);
  if (compression != 0 && !(compression == 3 && bits == 32))
    return od_fail(OD_EDATA, "compressed BMP (method %u): convert it to PNG", compression);
  return OD_OK;
}

od_status od_bmp_decode(od_image *out, const uint8_t *p, size_t size, int channels) {
  bmp b;
  OD_TRY(header(&b, p, size));
  OD_TRY(od_image_new(out, b.height, b.width, channels));
  size_t stride = ((size_t)b.width * (size_t)b.bytes + 3) / 4 * 4; /* lines begin at multiples of four bytes */
  if (b.pixels > size || (size - b.pixels) / stride < (size_t)b.height) {
    od_image_free(out);
    return od_fail(OD_EDATA, "the BMP ends early: %zu bytes, %zu expected", size, b.pixels + stride * (size_t)b.height);
  }
  uint8_t *o = out->data;
  for (int64_t y = 0; y < b.height; y++) {
    const uint8_t *in = p + b.pixels + stride * (size_t)(b.top_down ? y : b.height - 1 - y);
    for (int64_t x = 0; x < b.width; x++, in += b.bytes) {
      uint8_t blue = in[0], green = b.bytes == 1 ? blue : in[1], red = b.bytes == 1 ? blue : in[2];
      if (channels == 3) {
        *o++ = red;
        *o++ = green;
        *o++ = blue;
      } else {
        *o++ = (uint8_t)(0.299f * red + 0.587f * green + 0.114f * blue);
      }
    }
  }
  return OD_OK;
}

od_status od_bmp_size(int *height, int *width, int *channels, const uint8_t *p, size_t size) {
  bmp b;
  OD_TRY(header(&b, p, size));
  *height = (int)b.height;
  *width = (int)b.width;
  *channels = b.bytes;
  return OD_OK;
}
