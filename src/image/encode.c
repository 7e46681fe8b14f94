/* PNG through libpng, JPEG through libjpeg-turbo, both into a growing string. */
#include "image/encode.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>
#include <png.h>

#include "base/mem.h"

typedef struct {
  od_str *out;
  char text[256];
} png_sink;

static void png_failed(png_structp png, png_const_charp text) {
  png_sink *s = png_get_error_ptr(png);
  size_t n = strnlen(text, sizeof s->text - 1);
  memcpy(s->text, text, n);
  s->text[n] = 0;
  longjmp(png_jmpbuf(png), 1);
}

static void png_warned(png_structp png, png_const_charp text) {
  (void)png;
  (void)text;
}

static void png_put(png_structp png, png_bytep bytes, png_size_t n) {
  png_sink *s = png_get_io_ptr(png);
  od_str_add_bytes(s->out, bytes, n);
}

static void png_flush_nothing(png_structp png) { (void)png; }

static od_status write_png(png_structp png, png_infop info, const png_sink *s, const od_image *im) {
  if (setjmp(png_jmpbuf(png))) return od_fail(OD_EINVAL, "a PNG could not be written: %s", s->text);
  png_set_IHDR(png, info, (png_uint_32)im->width, (png_uint_32)im->height, 8,
               im->channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  size_t stride = (size_t)im->width * (size_t)im->channels;
  for (int y = 0; y < im->height; y++) png_write_row(png, im->data + stride * (size_t)y);
  png_write_end(png, info);
  return OD_OK;
}

od_status od_png_encode(od_str *out, const od_image *image) {
  OD_ASSERT(image->channels == 1 || image->channels == 3);
  png_sink s = {out, ""};
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &s, png_failed, png_warned);
  png_infop info = png ? png_create_info_struct(png) : NULL;
  od_status st;
  if (info) {
    png_set_write_fn(png, &s, png_put, png_flush_nothing);
    st = write_png(png, info, &s, image);
  } else {
    st = od_fail(OD_ENOMEM, "libpng could not be started: memory is short");
  }
  png_destroy_write_struct(&png, &info);
  return st == OD_OK ? od_str_check(out) : st;
}

/* ---------------------------------------------------------------------------------------------------------- JPEG */
enum { CHUNK = 1 << 15 };

typedef struct {
  struct jpeg_compress_struct c;
  struct jpeg_error_mgr error;
  struct jpeg_destination_mgr sink;
  jmp_buf jump;
  char text[JMSG_LENGTH_MAX];
  od_str *out;
  JOCTET chunk[CHUNK];
} jpeg_writer;

static jpeg_writer *writer_of(j_compress_ptr c) { return c->client_data; }

static void jpeg_failed(j_common_ptr c) {
  jpeg_writer *w = c->client_data;
  c->err->format_message(c, w->text);
  longjmp(w->jump, 1);
}

static void start_chunk(j_compress_ptr c) {
  jpeg_writer *w = writer_of(c);
  w->sink.next_output_byte = w->chunk;
  w->sink.free_in_buffer = CHUNK;
}

static boolean full_chunk(j_compress_ptr c) {
  od_str_add_bytes(writer_of(c)->out, writer_of(c)->chunk, CHUNK);
  start_chunk(c);
  return TRUE;
}

static void last_chunk(j_compress_ptr c) {
  jpeg_writer *w = writer_of(c);
  od_str_add_bytes(w->out, w->chunk, CHUNK - w->sink.free_in_buffer);
}

static od_status write_jpeg(jpeg_writer *w, const od_image *im, int quality) {
  struct jpeg_compress_struct *c = &w->c;
  if (setjmp(w->jump)) return od_fail(OD_EINVAL, "a JPEG could not be written: %s", w->text);
  jpeg_create_compress(c);
  c->dest = &w->sink;
  c->image_width = (JDIMENSION)im->width;
  c->image_height = (JDIMENSION)im->height;
  c->input_components = im->channels;
  c->in_color_space = im->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(c);
  jpeg_set_quality(c, quality, TRUE);
  jpeg_start_compress(c, TRUE);
  size_t stride = (size_t)im->width * (size_t)im->channels;
  while (c->next_scanline < c->image_height) {
    JSAMPROW row = im->data + stride * c->next_scanline;
    (void)jpeg_write_scanlines(c, &row, 1);
  }
  jpeg_finish_compress(c);
  return OD_OK;
}

od_status od_jpeg_encode(od_str *out, const od_image *image, int quality) {
  OD_ASSERT(image->channels == 1 || image->channels == 3);
  jpeg_writer *w = NULL;
  OD_TRY(od_new(&w, 1, sizeof *w));
  w->c.err = jpeg_std_error(&w->error);
  w->error.error_exit = jpeg_failed;
  w->c.client_data = w;
  w->sink.init_destination = start_chunk;
  w->sink.empty_output_buffer = full_chunk;
  w->sink.term_destination = last_chunk;
  w->out = out;
  od_status st = write_jpeg(w, image, quality);
  jpeg_destroy_compress(&w->c);
  od_free(w);
  return st == OD_OK ? od_str_check(out) : st;
}
