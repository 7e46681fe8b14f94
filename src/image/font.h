/* Lines of text for draw.c. */
#ifndef OD_IMAGE_FONT_H
#define OD_IMAGE_FONT_H

#include "image/draw.h"

/* Pixels that a line of UTF-8 takes. */
void od_font_measure(int *width, int *height, od_font *font, const char *text);
/* Paints it on an RGB picture, its upper left corner at (top, left); what lies outside is cut off. */
void od_font_paint(od_image *image, od_font *font, const char *text, int left, int top, od_colour colour);

#endif
