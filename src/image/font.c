/* Text by FreeType: finding the font, measuring and painting one line. */
#include "image/font.h"

#include <stdlib.h>
#include <string.h>

#include <ft2build.h>
#include FT_FREETYPE_H

#include "base/mem.h"
#include "image/draw.h"

struct od_font {
  FT_Library library;
  FT_Face face;
};

/* Where distributions put DejaVu Sans. */
static const char *const places[] = {"/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
                                     "/usr/share/fonts/dejavu/DejaVuSans.ttf",
                                     "/usr/share/fonts/dejavu-sans-fonts/DejaVuSans.ttf",
                                     "/usr/share/fonts/TTF/DejaVuSans.ttf", "/usr/local/share/fonts/DejaVuSans.ttf"};

static bool open_face(od_font *f) {
  const char *own = getenv("OBJDET_FONT");
  if (own) return FT_New_Face(f->library, own, 0, &f->face) == 0;
  for (size_t i = 0; i < sizeof places / sizeof *places; i++)
    if (FT_New_Face(f->library, places[i], 0, &f->face) == 0) return true;
  return false;
}

od_status od_font_open(od_font **out, int pixels, const od_reporter *r) {
  *out = NULL;
  od_font *f = NULL;
  OD_TRY(od_new(&f, 1, sizeof *f));
  if (FT_Init_FreeType(&f->library) != 0) {
    od_free(f);
    return od_fail(OD_ENOMEM, "FreeType could not be started: memory is short");
  }
  if (!open_face(f) || FT_Set_Pixel_Sizes(f->face, 0, (FT_UInt)pixels) != 0) {
    const char *own = getenv("OBJDET_FONT");
    od_warn(r, "labels are left out of pictures: %s%s (install fonts-dejavu-core, or let OBJDET_FONT name a font file)",
            own ? "no font could be read from " : "DejaVuSans.ttf is not in the usual places", own ? own : "");
    od_font_free(f);
    return OD_OK;
  }
  *out = f;
  return OD_OK;
}

void od_font_free(od_font *f) {
  if (!f) return;
  if (f->face) FT_Done_Face(f->face);
  FT_Done_FreeType(f->library);
  od_free(f);
}

/* Next code point of UTF-8; a byte that is none stands for itself (Latin 1), so that no name stops a drawing. */
static uint32_t next_char(const uint8_t **p) {
  const uint8_t *s = *p;
  int n = s[0] >= 0xf0 ? 3 : s[0] >= 0xe0 ? 2 : s[0] >= 0xc0 ? 1 : 0;
  uint32_t c = n == 0 ? s[0] : s[0] & (0x3fu >> n);
  for (int i = 1; i <= n; i++) {
    if ((s[i] & 0xc0) != 0x80) {
      (*p)++;
      return s[0];
    }
    c = c << 6 | (s[i] & 0x3f);
  }
  *p += n + 1;
  return c;
}

void od_font_measure(int *width, int *height, od_font *f, const char *text) {
  *width = 0;
  *height = (int)((f->face->size->metrics.ascender - f->face->size->metrics.descender + 63) >> 6);
  FT_Pos x = 0;
  for (const uint8_t *p = (const uint8_t *)text; *p;)
    if (FT_Load_Char(f->face, next_char(&p), FT_LOAD_DEFAULT) == 0) x += f->face->glyph->advance.x;
  *width = (int)((x + 63) >> 6);
}

static void paint_glyph(od_image *im, const FT_Bitmap *b, int left, int top, od_colour colour) {
  const uint8_t ink[3] = {colour.r, colour.g, colour.b};
  for (int y = 0; y < (int)b->rows; y++)
    for (int x = 0; x < (int)b->width; x++) {
      int py = top + y, px = left + x;
      if (py < 0 || px < 0 || py >= im->height || px >= im->width) continue;
      int a = b->buffer[y * b->pitch + x];
      uint8_t *o = im->data + ((size_t)py * (size_t)im->width + (size_t)px) * 3;
      for (int c = 0; c < 3; c++) o[c] = (uint8_t)((o[c] * (255 - a) + ink[c] * a + 127) / 255);
    }
}

void od_font_paint(od_image *im, od_font *f, const char *text, int left, int top, od_colour colour) {
  int base = top + (int)(f->face->size->metrics.ascender >> 6);
  FT_Pos x = 0;
  for (const uint8_t *p = (const uint8_t *)text; *p;) {
    if (FT_Load_Char(f->face, next_char(&p), FT_LOAD_RENDER) != 0) continue;
    const FT_GlyphSlot g = f->face->glyph;
    if (g->bitmap.pixel_mode == FT_PIXEL_MODE_GRAY)
      paint_glyph(im, &g->bitmap, left + (int)(x >> 6) + g->bitmap_left, base - g->bitmap_top, colour);
    x += g->advance.x;
  }
}
