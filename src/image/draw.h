/* Drawing boxes with labels on pictures, as the original's visualisation does (odapi 7.4).
 *
 * Text is drawn with FreeType in DejaVu Sans (Debian: fonts-dejavu-core), or the file that OBJDET_FONT names. */
#ifndef OD_IMAGE_DRAW_H
#define OD_IMAGE_DRAW_H

#include "base/report.h"
#include "image/image.h"

typedef struct {
  uint8_t r, g, b;
} od_colour;

/* The list of named colours that classes take theirs from: colour of class id = number id mod 126. */
enum { OD_COLOURS = 126 };
od_colour od_colour_of_class(int64_t id);
const char *od_colour_name(int i); /* 0 <= i < OD_COLOURS */
/* By name, case-insensitive ("black", "DarkOrange"); false when unknown. */
bool od_colour_by_name(od_colour *out, const char *name);

typedef struct od_font od_font;
/* Opens the font at a height in pixels. Without a font file *out is NULL, a warning that names the package goes to r,
 * and boxes are drawn without text. The caller frees with od_font_free. */
OD_MUST_CHECK od_status od_font_open(od_font **out, int pixels, const od_reporter *r);
void od_font_free(od_font *font);
/* Height that suits a picture: a 25th of its height, 11 to 24 pixels. */
int od_font_pixels(const od_image *image);

typedef struct {
  float box[4]; /* ymin xmin ymax xmax, normalised to the picture */
  od_colour colour;
  const char *label;   /* UTF-8, NULL: none; borrowed */
  const uint8_t *mask; /* [height, width] of the picture, 0 or not; NULL: none; borrowed */
} od_drawing;

/* Draws masks (40 % colour), boxes `thickness` pixels wide and labels on an RGB picture in the order given. Boxes of equal
 * coordinates are drawn once, in the last one's colour, with their labels stacked. A label stands above its box where
 * there is room, else below, else inside. Parts outside the picture are cut off; NaN boxes are left out. font may be NULL. */
OD_MUST_CHECK od_status od_draw(od_image *image, const od_drawing *items, size_t n, int thickness, od_font *font);

/* A filled dot (keypoints), centre normalised. */
void od_draw_dot(od_image *image, float y, float x, int radius, od_colour colour);

/* One picture: left beside right (detections and ground truth), heights may differ. The caller frees out. */
OD_MUST_CHECK od_status od_side_by_side(od_image *out, const od_image *left, const od_image *right);

#endif
