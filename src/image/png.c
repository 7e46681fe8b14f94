/* PNG through libpng, transformed as TensorFlow asks: palettes and grey opened to 8-bit RGB, 16 bits cut to the high
 * byte, transparency dropped, not blended. The file must be whole, its end chunk included. */
#include <setjmp.h>
#include <string.h>

#include <png.h>

#include "base/mem.h"
#include "image/formats.h"

typedef struct {
  const uint8_t *at;
  size_t left, size;
  bool short_read;
  png_structp png;
  png_infop info;
  png_bytep *rows;
  char text[256];
} reader;

static void on_error(png_structp png, png_const_charp text) {
  reader *r = png_get_error_ptr(png);
  size_t n = strnlen(text, sizeof r->text - 1);
  memcpy(r->text, text, n);
  r->text[n] = 0;
  longjmp(png_jmpbuf(png), 1);
}

static void on_warning(png_structp png, png_const_charp text) {
  (void)png;
  (void)text;
}

static void read_bytes(png_structp png, png_bytep out, png_size_t n) {
  reader *r = png_get_io_ptr(png);
  if (n > r->left) {
    r->short_read = true;
    png_error(png, "end of data");
  }
  memcpy(out, r->at, n);
  r->at += n;
  r->left -= n;
}

static od_status broken(const reader *r) {
  if (r->short_read) return od_fail(OD_EDATA, "the PNG ends early, after %zu bytes", r->size);
  return od_fail(OD_EDATA, "damaged PNG: %s", r->text);
}

static od_status open_reader(reader *r, const uint8_t *bytes, size_t size) {
  memset(r, 0, sizeof *r);
  r->at = bytes;
  r->left = r->size = size;
  r->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, r, on_error, on_warning);
  r->info = r->png ? png_create_info_struct(r->png) : NULL;
  if (!r->info) return od_fail(OD_ENOMEM, "libpng could not be started: memory is short");
  png_set_read_fn(r->png, r, read_bytes);
  return OD_OK;
}

static void close_reader(reader *r) {
  png_destroy_read_struct(&r->png, &r->info, NULL);
  od_free(r->rows);
}

static void set_transforms(reader *r, int channels) {
  png_structp png = r->png;
  int type = png_get_color_type(png, r->info), depth = png_get_bit_depth(png, r->info);
  bool grey = !(type & PNG_COLOR_MASK_COLOR);
  if ((type & PNG_COLOR_MASK_ALPHA) || png_get_valid(png, r->info, PNG_INFO_tRNS)) png_set_strip_alpha(png);
  if (depth > 8) png_set_strip_16(png);
  png_set_packing(png);
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if (grey && depth < 8) png_set_expand_gray_1_2_4_to_8(png);
  if (channels == 3 && grey) png_set_gray_to_rgb(png);
  if (channels == 1 && !grey) png_set_rgb_to_gray(png, PNG_ERROR_ACTION_NONE, 0.299, 0.587);
  (void)png_set_interlace_handling(png);
  png_read_update_info(png, r->info);
}

static od_status decode(reader *r, od_image *out, int channels) {
  if (setjmp(png_jmpbuf(r->png))) return broken(r);
  png_read_info(r->png, r->info);
  OD_TRY(od_image_new(out, png_get_image_height(r->png, r->info), png_get_image_width(r->png, r->info), channels));
  set_transforms(r, channels);
  size_t stride = (size_t)out->width * (size_t)channels;
  if (png_get_rowbytes(r->png, r->info) != stride)
    return od_fail(OD_EDATA, "damaged PNG: %zu bytes a line, %zu expected", png_get_rowbytes(r->png, r->info), stride);
  OD_TRY(od_new(&r->rows, (size_t)out->height, sizeof *r->rows));
  for (int y = 0; y < out->height; y++) r->rows[y] = out->data + stride * (size_t)y;
  png_read_image(r->png, r->rows);
  png_read_end(r->png, NULL);
  return OD_OK;
}

od_status od_png_decode(od_image *out, const uint8_t *bytes, size_t size, int channels) {
  reader r;
  od_status st = open_reader(&r, bytes, size);
  if (st == OD_OK) st = decode(&r, out, channels);
  close_reader(&r);
  if (st != OD_OK) od_image_free(out);
  return st;
}

static od_status header(reader *r) {
  if (setjmp(png_jmpbuf(r->png))) return broken(r);
  png_read_info(r->png, r->info);
  return OD_OK;
}

od_status od_png_size(int *height, int *width, int *channels, const uint8_t *bytes, size_t size) {
  reader r;
  od_status st = open_reader(&r, bytes, size);
  if (st == OD_OK) st = header(&r);
  if (st == OD_OK) {
    *height = (int)png_get_image_height(r.png, r.info);
    *width = (int)png_get_image_width(r.png, r.info);
    *channels = png_get_channels(r.png, r.info);
    if (png_get_color_type(r.png, r.info) == PNG_COLOR_TYPE_PALETTE) *channels = 3;
  }
  close_reader(&r);
  return st;
}
