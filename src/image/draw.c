/* Boxes, masks, labels. Coordinates follow the original: lines centred on the box's edges, the label's box as wide as the
 * text with a margin of 5 % of its height. (The original lets stacked labels overlap by four margins and puts labels below the picture; ours do not.) */
#include "image/draw.h"

#include <math.h>
#include <string.h>

#include "image/font.h"

/* Fills [left, right) x [top, bottom), cut to the picture. */
static void fill(od_image *im, int left, int top, int right, int bottom, od_colour c) {
  if (left < 0) left = 0;
  if (top < 0) top = 0;
  if (right > im->width) right = im->width;
  if (bottom > im->height) bottom = im->height;
  for (int y = top; y < bottom; y++) {
    uint8_t *o = im->data + ((size_t)y * (size_t)im->width + (size_t)(left < right ? left : 0)) * 3;
    for (int x = left; x < right; x++, o += 3) memcpy(o, &(uint8_t[3]){c.r, c.g, c.b}, 3);
  }
}

/* A normalised coordinate in pixels; far outside is as good as just outside and keeps int in range. */
static int pixel(float v, int n) {
  float p = v * (float)n;
  return (int)floorf(p < -1e5f ? -1e5f : p > 1e5f ? 1e5f : p);
}

typedef struct {
  int left, top, right, bottom;
} rect;

static rect rect_of(const od_image *im, const float *box) {
  return (rect){pixel(box[1], im->width), pixel(box[0], im->height), pixel(box[3], im->width),
                pixel(box[2], im->height)};
}

static void outline(od_image *im, rect r, int t, od_colour c) {
  int out = t / 2, in = t - out; /* half of the line outside, half inside */
  fill(im, r.left - out, r.top - out, r.right + in, r.top + in, c);
  fill(im, r.left - out, r.bottom - out, r.right + in, r.bottom + in, c);
  fill(im, r.left - out, r.top - out, r.left + in, r.bottom + in, c);
  fill(im, r.right - out, r.top - out, r.right + in, r.bottom + in, c);
}

static void blend_mask(od_image *im, const uint8_t *mask, od_colour colour) {
  const uint8_t ink[3] = {colour.r, colour.g, colour.b};
  size_t n = (size_t)im->height * (size_t)im->width;
  for (size_t i = 0; i < n; i++)
    if (mask[i])
      for (int c = 0; c < 3; c++)
        im->data[3 * i + (size_t)c] = (uint8_t)((6 * im->data[3 * i + (size_t)c] + 4 * ink[c] + 5) / 10);
}

static bool same_box(const od_drawing *a, const od_drawing *b) { return memcmp(a->box, b->box, sizeof a->box) == 0; }

static bool drawable(const od_drawing *d) {
  for (int k = 0; k < 4; k++)
    if (!isfinite(d->box[k])) return false;
  return true;
}

/* Labels of all items that share items[first]'s box, the first one on top. */
static void labels(od_image *im, const od_drawing *items, size_t n, size_t first, od_font *font, od_colour colour) {
  rect r = rect_of(im, items[first].box);
  int total = 0, w, h;
  for (size_t i = first; i < n; i++) {
    if (!same_box(&items[i], &items[first]) || !items[i].label) continue;
    od_font_measure(&w, &h, font, items[i].label);
    total += h + 2 * (int)ceilf(0.05f * (float)h);
  }
  int at = r.top > total ? r.top - total : r.bottom;
  if (at == r.bottom && r.bottom + total > im->height) at = r.top > 0 ? r.top : 0; /* no room outside: inside */
  for (size_t i = first; i < n; i++) {
    if (!same_box(&items[i], &items[first]) || !items[i].label) continue;
    od_font_measure(&w, &h, font, items[i].label);
    int margin = (int)ceilf(0.05f * (float)h);
    fill(im, r.left, at, r.left + w + 2 * margin, at + h + 2 * margin, colour);
    od_font_paint(im, font, items[i].label, r.left + margin, at + margin, (od_colour){0, 0, 0});
    at += h + 2 * margin;
  }
}

od_status od_draw(od_image *image, const od_drawing *items, size_t n, int thickness, od_font *font) {
  if (image->channels != 3)
    return od_fail(OD_EINVAL, "boxes are drawn on RGB pictures; this one has %d channels", image->channels);
  for (size_t i = 0; i < n; i++) {
    if (!drawable(&items[i])) continue;
    bool seen = false;
    for (size_t k = 0; k < i && !seen; k++) seen = same_box(&items[k], &items[i]);
    if (seen) continue;
    od_colour colour = items[i].colour;
    for (size_t k = i; k < n; k++) {
      if (!same_box(&items[k], &items[i])) continue;
      colour = items[k].colour;
      if (items[k].mask) blend_mask(image, items[k].mask, items[k].colour);
    }
    if (thickness > 0) outline(image, rect_of(image, items[i].box), thickness, colour);
    if (font) labels(image, items, n, i, font, colour);
  }
  return OD_OK;
}

void od_draw_dot(od_image *im, float y, float x, int radius, od_colour colour) {
  if (!isfinite(y) || !isfinite(x)) return;
  int cy = pixel(y, im->height), cx = pixel(x, im->width);
  for (int dy = -radius; dy <= radius; dy++) {
    int half = (int)sqrtf((float)(radius * radius - dy * dy));
    fill(im, cx - half, cy + dy, cx + half + 1, cy + dy + 1, colour);
  }
}

int od_font_pixels(const od_image *im) {
  int px = im->height / 25;
  return px < 11 ? 11 : px > 24 ? 24 : px;
}

od_status od_side_by_side(od_image *out, const od_image *left, const od_image *right) {
  OD_ASSERT(left->channels == right->channels);
  int height = left->height > right->height ? left->height : right->height, c = left->channels;
  OD_TRY(od_image_new(out, height, (int64_t)left->width + right->width, c));
  size_t stride = (size_t)out->width * (size_t)c, l = (size_t)left->width * (size_t)c,
         r = (size_t)right->width * (size_t)c;
  memset(out->data, 0, stride * (size_t)height);
  for (int y = 0; y < left->height; y++) memcpy(out->data + stride * (size_t)y, left->data + l * (size_t)y, l);
  for (int y = 0; y < right->height; y++) memcpy(out->data + stride * (size_t)y + l, right->data + r * (size_t)y, r);
  return OD_OK;
}
