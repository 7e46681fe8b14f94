/* The first frame of a GIF (87a, 89a): LZW of at most 12 bits, interlacing, transparency.
 *
 * As TensorFlow's decoder: the canvas is as large as the largest frame of the file; what the first frame does not
 * cover, and its transparent pixels, are black. (The original cannot train on GIFs: its decoder returns all frames, and
 * the graph behind it fails. Taking the first frame is ours.) */
#include <string.h>

#include "base/mem.h"
#include "image/formats.h"

typedef struct {
  const uint8_t *p;
  size_t size, at;
} bytes_in;

static bool take(bytes_in *b, const uint8_t **out, size_t n) {
  if (b->size - b->at < n) return false;
  *out = b->p + b->at;
  b->at += n;
  return true;
}

static bool skip_blocks(bytes_in *b) {
  const uint8_t *n, *body;
  do {
    if (!take(b, &n, 1) || !take(b, &body, *n)) return false;
  } while (*n);
  return true;
}

typedef struct {
  int left, top, width, height;
  bool interlaced;
  const uint8_t *colours; /* 3 bytes each */
  int colour_count;
  int transparent; /* -1: none */
  size_t data;     /* offset of the LZW code size */
} frame;

typedef struct {
  frame first;
  int height, width; /* of the canvas: the largest frame */
} gif;

static od_status ends_early(size_t size) { return od_fail(OD_EDATA, "the GIF ends early, after %zu bytes", size); }

/* One image descriptor; b stands behind its comma. */
static bool read_frame(frame *f, bytes_in *b, const uint8_t *global, int global_count) {
  const uint8_t *h, *local;
  if (!take(b, &h, 9)) return false;
  f->left = h[0] | h[1] << 8;
  f->top = h[2] | h[3] << 8;
  f->width = h[4] | h[5] << 8;
  f->height = h[6] | h[7] << 8;
  f->interlaced = h[8] & 0x40;
  f->colours = global;
  f->colour_count = global_count;
  if (h[8] & 0x80) {
    f->colour_count = 2 << (h[8] & 7);
    if (!take(b, &local, (size_t)f->colour_count * 3)) return false;
    f->colours = local;
  }
  f->data = b->at;
  return take(b, &h, 1) && skip_blocks(b);
}

/* Walks all blocks: finds the first frame and the largest size. */
static od_status scan(gif *g, const uint8_t *p, size_t size) {
  bytes_in b = {p, size, 0};
  const uint8_t *h, *global = NULL;
  int global_count = 0, transparent = -1, frames = 0;
  memset(g, 0, sizeof *g);
  if (!take(&b, &h, 13)) return ends_early(size);
  if (h[10] & 0x80) {
    global_count = 2 << (h[10] & 7);
    if (!take(&b, &global, (size_t)global_count * 3)) return ends_early(size);
  }
  for (;;) {
    const uint8_t *kind;
    if (frames > 0 && b.at == size) break; /* a lost trailer after a whole frame does no harm */
    if (!take(&b, &kind, 1)) return ends_early(size);
    if (*kind == 0x3b) break; /* trailer */
    if (*kind == 0x21) {      /* extension; a graphic control names the transparent colour of the next frame */
      const uint8_t *label;
      if (!take(&b, &label, 1)) return ends_early(size);
      if (*label == 0xf9 && b.size - b.at >= 5 && p[b.at] == 4 && (p[b.at + 1] & 1)) transparent = p[b.at + 4];
      if (!skip_blocks(&b)) return ends_early(size);
    } else if (*kind == 0x2c) {
      frame f = {0};
      if (!read_frame(&f, &b, global, global_count)) return ends_early(size);
      f.transparent = transparent;
      transparent = -1;
      if (frames++ == 0) g->first = f;
      if (f.width > g->width) g->width = f.width;
      if (f.height > g->height) g->height = f.height;
    } else {
      return od_fail(OD_EDATA, "damaged GIF: block kind 0x%02x at byte %zu", *kind, b.at - 1);
    }
  }
  if (!frames) return od_fail(OD_EDATA, "the GIF holds no picture");
  if (!g->first.colours) return od_fail(OD_EDATA, "damaged GIF: its first frame has no colour table");
  return OD_OK;
}

typedef struct {
  bytes_in in;
  size_t block_left;
  uint32_t bits;
  int have;
} codes;

/* The next code of n bits, or -1 at the end. */
static int next_code(codes *c, int n) {
  while (c->have < n) {
    const uint8_t *p;
    if (c->block_left == 0) {
      if (!take(&c->in, &p, 1) || *p == 0) return -1;
      c->block_left = *p;
    }
    if (!take(&c->in, &p, 1)) return -1;
    c->block_left--;
    c->bits |= (uint32_t)*p << c->have;
    c->have += 8;
  }
  int code = (int)(c->bits & ((1u << n) - 1));
  c->bits >>= n;
  c->have -= n;
  return code;
}

/* LZW into out[count]; how many pixels came is returned. Codes that no encoder writes stop it. */
static size_t unpack(uint8_t *out, size_t count, const uint8_t *p, size_t size, size_t at) {
  enum { MAX = 4096 };
  uint16_t prefix[MAX];
  uint8_t last[MAX], stack[MAX];
  int min = p[at];
  if (min < 1 || min > 8) return 0;
  codes c = {{p, size, at + 1}, 0, 0, 0};
  int clear = 1 << min, end = clear + 1, next = end + 1, bits = min + 1, old = -1;
  uint8_t first = 0;
  for (int i = 0; i < clear; i++) last[i] = (uint8_t)i;
  size_t n = 0;
  while (n < count) {
    int code = next_code(&c, bits);
    if (code < 0 || code == end) break;
    if (code == clear) {
      next = end + 1;
      bits = min + 1;
      old = -1;
      continue;
    }
    if (code > next || (code == next && old < 0) || (old < 0 && code >= clear)) break;
    int depth = 0, walk = code;
    if (code == next) { /* the code being defined: old string plus its own first pixel */
      stack[depth++] = first;
      walk = old;
    }
    while (walk >= clear) {
      stack[depth++] = last[walk];
      walk = prefix[walk];
    }
    first = last[walk];
    stack[depth++] = first;
    while (depth > 0 && n < count) out[n++] = stack[--depth];
    if (old >= 0 && next < MAX) {
      prefix[next] = (uint16_t)old;
      last[next++] = first;
      if (next == 1 << bits && bits < 12) bits++;
    }
    old = code;
  }
  return n;
}

/* Row of the frame in which stored row i stands when interlaced: every 8th from 0, every 8th from 4, 4th from 2, 2nd. */
static int interlaced_row(int i, int height) {
  static const int from[] = {0, 4, 2, 1}, step[] = {8, 8, 4, 2};
  for (int pass = 0; pass < 4; pass++) {
    int rows = height > from[pass] ? (height - from[pass] + step[pass] - 1) / step[pass] : 0;
    if (i < rows) return from[pass] + i * step[pass];
    i -= rows;
  }
  return height;
}

static od_status paint(od_image *out, const frame *f, const uint8_t *pixels) {
  size_t channels = (size_t)out->channels;
  for (int i = 0; i < f->height; i++) {
    int y = f->top + (f->interlaced ? interlaced_row(i, f->height) : i);
    if (y >= out->height) continue;
    for (int x = 0; x < f->width && f->left + x < out->width; x++) {
      int colour = pixels[(size_t)i * (size_t)f->width + (size_t)x];
      if (colour == f->transparent) continue;
      if (colour >= f->colour_count)
        return od_fail(OD_EDATA, "damaged GIF: colour %d of a table of %d", colour, f->colour_count);
      const uint8_t *rgb = f->colours + 3 * colour;
      uint8_t *o = out->data + ((size_t)y * (size_t)out->width + (size_t)(f->left + x)) * channels;
      if (channels == 3)
        memcpy(o, rgb, 3);
      else
        *o = (uint8_t)(0.299f * rgb[0] + 0.587f * rgb[1] + 0.114f * rgb[2]);
    }
  }
  return OD_OK;
}

od_status od_gif_decode(od_image *out, const uint8_t *p, size_t size, int channels) {
  gif g;
  uint8_t *pixels = NULL;
  od_status st = OD_OK;
  OD_TRY(scan(&g, p, size));
  OD_GO(st, od_image_new(out, g.height, g.width, channels));
  memset(out->data, 0, (size_t)g.height * (size_t)g.width * (size_t)channels);
  size_t count = (size_t)g.first.width * (size_t)g.first.height;
  OD_GO(st, od_new(&pixels, count, 1));
  size_t got = unpack(pixels, count, p, size, g.first.data);
  if (got != count) {
    st = od_fail(OD_EDATA, "damaged GIF: %zu of %zu pixels", got, count);
    goto done;
  }
  OD_GO(st, paint(out, &g.first, pixels));
done:
  od_free(pixels);
  if (st != OD_OK) od_image_free(out);
  return st;
}

od_status od_gif_size(int *height, int *width, int *channels, const uint8_t *p, size_t size) {
  gif g;
  OD_TRY(scan(&g, p, size));
  *height = g.height;
  *width = g.width;
  *channels = 3;
  return OD_OK;
}
