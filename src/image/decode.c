/* Which decoder a picture needs, and the EXIF orientation. The decoders themselves: jpeg.c, png.c, bmp.c, gif.c. */
#include "image/decode.h"

#include <string.h>

#include "base/mem.h"
#include "image/formats.h"

od_image_format od_image_format_of(const void *bytes, size_t size) {
  const uint8_t *b = bytes;
  if (size >= 3 && memcmp(b, "\xff\xd8\xff", 3) == 0) return OD_FORMAT_JPEG;
  if (size >= 4 && memcmp(b, "\x89PNG", 4) == 0) return OD_FORMAT_PNG;
  if (size >= 4 && memcmp(b, "GIF8", 4) == 0) return OD_FORMAT_GIF;
  if (size >= 2 && memcmp(b, "BM", 2) == 0) return OD_FORMAT_BMP;
  return OD_FORMAT_UNKNOWN;
}

const char *od_image_format_name(od_image_format format) {
  static const char *const names[] = {"unknown", "JPEG", "PNG", "BMP", "GIF"};
  return (unsigned)format < sizeof names / sizeof *names ? names[format] : names[0];
}

static od_status unknown(const uint8_t *b, size_t size) {
  if (size == 0) return od_fail(OD_EDATA, "the picture is empty (0 bytes)");
  char hex[3 * 8 + 1] = "";
  for (size_t i = 0; i < size && i < 8; i++) {
    static const char digits[] = "0123456789abcdef";
    memcpy(hex + 3 * i, (char[]){' ', digits[b[i] >> 4], digits[b[i] & 15], 0}, 4);
  }
  return od_fail(OD_EDATA, "not a picture: %zu bytes that begin with%s; JPEG, PNG, BMP or GIF is expected", size, hex);
}

od_status od_image_decode(od_image *out, const void *bytes, size_t size, int channels) {
  memset(out, 0, sizeof *out);
  OD_ASSERT(channels == 1 || channels == 3);
  switch (od_image_format_of(bytes, size)) {
  case OD_FORMAT_JPEG: return od_jpeg_decode(out, bytes, size, channels);
  case OD_FORMAT_PNG: return od_png_decode(out, bytes, size, channels);
  case OD_FORMAT_BMP: return od_bmp_decode(out, bytes, size, channels);
  case OD_FORMAT_GIF: return od_gif_decode(out, bytes, size, channels);
  default: return unknown(bytes, size);
  }
}

od_status od_image_size(int *height, int *width, int *channels, const void *bytes, size_t size) {
  switch (od_image_format_of(bytes, size)) {
  case OD_FORMAT_JPEG: return od_jpeg_size(height, width, channels, bytes, size);
  case OD_FORMAT_PNG: return od_png_size(height, width, channels, bytes, size);
  case OD_FORMAT_BMP: return od_bmp_size(height, width, channels, bytes, size);
  case OD_FORMAT_GIF: return od_gif_size(height, width, channels, bytes, size);
  default: return unknown(bytes, size);
  }
}

/* An integer of n bytes of a TIFF block in its byte order. */
static uint32_t tiff_int(const uint8_t *p, int n, bool little) {
  uint32_t v = 0;
  for (int i = 0; i < n; i++) v |= (uint32_t)p[i] << 8 * (little ? i : n - 1 - i);
  return v;
}

/* Orientation (tag 0x112) in the first directory of a TIFF block, 0 when absent. */
static int tiff_orientation(const uint8_t *t, size_t size) {
  if (size < 8) return 0;
  bool little = t[0] == 'I';
  if (!little && t[0] != 'M') return 0;
  size_t at = tiff_int(t + 4, 4, little);
  if (at > size - 2) return 0;
  size_t n = tiff_int(t + at, 2, little);
  for (at += 2; n > 0 && at + 12 <= size; n--, at += 12)
    if (tiff_int(t + at, 2, little) == 0x112) return (int)tiff_int(t + at + 8, 2, little);
  return 0;
}

int od_image_orientation(const void *bytes, size_t size) {
  const uint8_t *b = bytes;
  if (od_image_format_of(bytes, size) != OD_FORMAT_JPEG) return 1;
  /* Walks the marker segments up to the first scan. */
  for (size_t at = 2; at + 4 <= size && b[at] == 0xff;) {
    uint8_t marker = b[at + 1];
    if (marker == 0xff) { /* fill byte */
      at++;
      continue;
    }
    size_t n = (size_t)b[at + 2] << 8 | b[at + 3];
    if (marker == 0xda || n < 2 || at + 2 + n > size) break;
    if (marker == 0xe1 && n >= 8 && memcmp(b + at + 4, "Exif\0", 6) == 0) {
      int o = tiff_orientation(b + at + 10, n - 8);
      return o >= 1 && o <= 8 ? o : 1;
    }
    at += 2 + n;
  }
  return 1;
}
