/* The four resize methods of TensorFlow 1.
 *
 * Bilinear: each input row that is needed is interpolated along x once, top + (bottom - top) * y joins two of them;
 * both differences in float, which is TensorFlow's order. Bicubic: weights from a table of 1024 steps, columns first.
 * Area: mean over the exact patch, weights of the border pixels partial. Rows are converted to float before use, so that
 * one kernel serves both types. */
#include "image/resize.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"

od_status od_fimage_new(od_fimage *out, int64_t height, int64_t width, int channels) {
  memset(out, 0, sizeof *out);
  od_shape s = OD_SHAPE(height, width, channels);
  size_t bytes;
  OD_TRY(od_shape_bytes(&bytes, &s, OD_F32));
  if (height <= 0 || width <= 0 || height > INT32_MAX || width > INT32_MAX || (int64_t)bytes / 4 > OD_IMAGE_MAX_BYTES)
    return od_fail(OD_EDATA, "a picture of %lld x %lld pixels (width x height) cannot be made", (long long)width,
                   (long long)height);
  out->data = od_alloc(bytes);
  if (!out->data) return OD_ENOMEM;
  out->height = (int)height;
  out->width = (int)width;
  out->channels = channels;
  return OD_OK;
}

static size_t size_of(const od_fimage *i) { return (size_t)i->height * (size_t)i->width * (size_t)i->channels; }

od_status od_fimage_from_u8(od_fimage *out, const od_image *image) {
  OD_TRY(od_fimage_new(out, image->height, image->width, image->channels));
  size_t n = size_of(out);
  for (size_t i = 0; i < n; i++) out->data[i] = image->data[i];
  return OD_OK;
}

od_status od_fimage_copy(od_fimage *out, const od_fimage *image) {
  OD_TRY(od_fimage_new(out, image->height, image->width, image->channels));
  memcpy(out->data, image->data, size_of(image) * sizeof *out->data);
  return OD_OK;
}

void od_fimage_free(od_fimage *image) {
  od_free(image->data);
  memset(image, 0, sizeof *image);
}

/* One resize: sizes and what belongs to them. */
typedef struct {
  float *out;
  int out_height, out_width;
  size_t out_stride;
  const void *in;
  od_dtype dtype;
  int height, width, channels;
  od_corners corners;
} job;

static float scale_of(int in, int out, od_corners corners) {
  return corners == OD_CORNERS_ALIGN && out > 1 ? (float)(in - 1) / (float)(out - 1) : (float)in / (float)out;
}

static float source_of(int i, float scale, od_corners corners) {
  return corners == OD_CORNERS_HALF_PIXEL ? ((float)i + 0.5f) * scale - 0.5f : (float)i * scale;
}

static int clamp(int i, int n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }

/* Row y of the input as floats, into line unless it is float already. */
static const float *input_row(const job *j, int y, float *line) {
  size_t n = (size_t)j->width * (size_t)j->channels, at = n * (size_t)y;
  if (j->dtype == OD_F32) return (const float *)j->in + at;
  const uint8_t *u = (const uint8_t *)j->in + at;
  for (size_t i = 0; i < n; i++) line[i] = u[i];
  return line;
}

/* ---------------------------------------------------------------------------------------------------------- bilinear */
typedef struct {
  int lower, upper;
  float lerp;
} weight;

static weight weight_at(int i, int in, float scale, od_corners corners) {
  float s = source_of(i, scale, corners), f = floorf(s);
  int upper = (int)ceilf(s);
  return (weight){f < 0 ? 0 : (int)f, upper < in - 1 ? upper : in - 1, s - f};
}

/* Interpolates one row along x; left, right and lerp are per output float. */
static void along_x(float *restrict out, const float *restrict in, const int *restrict left, const int *restrict right,
                    const float *restrict lerp, size_t n) {
  for (size_t i = 0; i < n; i++) {
    float l = in[left[i]];
    out[i] = l + (in[right[i]] - l) * lerp[i];
  }
}

static void join_rows(float *restrict out, const float *restrict top, const float *restrict bottom, float lerp,
                      size_t n) {
  for (size_t i = 0; i < n; i++) out[i] = top[i] + (bottom[i] - top[i]) * lerp;
}

static od_status bilinear(const job *j) {
  size_t n = (size_t)j->out_width * (size_t)j->channels, in_n = (size_t)j->width * (size_t)j->channels;
  float *buffer = NULL;
  int *index = NULL;
  od_status st = OD_OK;
  OD_GO(st, od_new(&buffer, 3 * n + in_n, sizeof *buffer));
  OD_GO(st, od_new(&index, 2 * n, sizeof *index));
  float *lerp = buffer, *rows[2] = {buffer + n, buffer + 2 * n}, *line = buffer + 3 * n;
  int *left = index, *right = index + n, holds[2] = {-1, -1};
  float sx = scale_of(j->width, j->out_width, j->corners), sy = scale_of(j->height, j->out_height, j->corners);
  for (int x = 0; x < j->out_width; x++) {
    weight w = weight_at(x, j->width, sx, j->corners);
    for (int c = 0; c < j->channels; c++) {
      int i = x * j->channels + c;
      left[i] = w.lower * j->channels + c;
      right[i] = w.upper * j->channels + c;
      lerp[i] = w.lerp;
    }
  }
  for (int y = 0; y < j->out_height; y++) {
    weight w = weight_at(y, j->height, sy, j->corners);
    /* Rows of the step before are used again: rows[0] is the upper one. */
    if (holds[0] != w.lower) {
      float *swap = rows[0];
      rows[0] = rows[1];
      rows[1] = swap;
      int h = holds[0];
      holds[0] = holds[1];
      holds[1] = h;
    }
    if (holds[0] != w.lower) along_x(rows[0], input_row(j, w.lower, line), left, right, lerp, n);
    holds[0] = w.lower;
    if (holds[1] != w.upper) along_x(rows[1], input_row(j, w.upper, line), left, right, lerp, n);
    holds[1] = w.upper;
    join_rows(j->out + j->out_stride * (size_t)y, rows[0], rows[1], w.lerp, n);
  }
done:
  od_free(buffer);
  od_free(index);
  return st;
}

/* ----------------------------------------------------------------------------------------------------------- nearest */
static int nearest_at(int i, int in, float scale, od_corners corners) {
  float s = corners == OD_CORNERS_HALF_PIXEL ? ((float)i + 0.5f) * scale : (float)i * scale;
  return clamp((int)(corners == OD_CORNERS_ALIGN ? roundf(s) : floorf(s)), in);
}

static od_status nearest(const job *j) {
  float sx = scale_of(j->width, j->out_width, j->corners), sy = scale_of(j->height, j->out_height, j->corners);
  size_t in_n = (size_t)j->width * (size_t)j->channels;
  float *line = NULL;
  OD_TRY(od_new(&line, in_n, sizeof *line));
  for (int y = 0; y < j->out_height; y++) {
    const float *in = input_row(j, nearest_at(y, j->height, sy, j->corners), line);
    float *out = j->out + j->out_stride * (size_t)y;
    for (int x = 0; x < j->out_width; x++) {
      const float *p = in + nearest_at(x, j->width, sx, j->corners) * j->channels;
      for (int c = 0; c < j->channels; c++) *out++ = p[c];
    }
  }
  od_free(line);
  return OD_OK;
}

void od_resize_nearest_u8(uint8_t *out, int out_height, int out_width, size_t out_stride, const uint8_t *in, int height,
                          int width, od_corners corners) {
  float sx = scale_of(width, out_width, corners), sy = scale_of(height, out_height, corners);
  for (int y = 0; y < out_height; y++) {
    const uint8_t *row = in + (size_t)nearest_at(y, height, sy, corners) * (size_t)width;
    for (int x = 0; x < out_width; x++)
      out[(size_t)y * out_stride + (size_t)x] = row[nearest_at(x, width, sx, corners)];
  }
}

/* ----------------------------------------------------------------------------------------------------------- bicubic */
enum { TABLE = 1024 };

typedef struct {
  int index[4];
  float weight[4];
} taps;

/* Cubic convolution kernel at distance x in [0, 1) and x + 1; a = -0.75, or -0.5 (Keys) with half-pixel centres. */
static void kernel(float *near, float *far, int step, double a) {
  float x = (float)(step * 1.0 / TABLE);
  *near = (float)(((a + 2) * x - (a + 3)) * x * x + 1);
  x = (float)(x + 1.0);
  *far = (float)(((a * x - 5 * a) * x + 8 * a) * x - 4 * a);
}

static taps taps_at(int i, int in, float scale, od_corners corners) {
  bool keys = corners == OD_CORNERS_HALF_PIXEL;
  float s = source_of(i, scale, corners), base = floorf(s);
  int at = (int)base, step = (int)lrintf((s - base) * TABLE);
  double a = keys ? -0.5 : -0.75;
  taps t;
  kernel(&t.weight[1], &t.weight[0], step, a);
  kernel(&t.weight[2], &t.weight[3], TABLE - step, a);
  float sum = 0;
  for (int k = 0; k < 4; k++) {
    t.index[k] = clamp(at - 1 + k, in);
    if (keys && t.index[k] != at - 1 + k) t.weight[k] = 0; /* Keys' variant ignores what lies outside */
    sum += t.weight[k];
  }
  if (keys && fabsf(sum) >= 1000.0f * FLT_MIN)
    for (int k = 0; k < 4; k++) t.weight[k] *= 1.0f / sum;
  return t;
}

static od_status bicubic(const job *j) {
  size_t in_n = (size_t)j->width * (size_t)j->channels;
  float *lines = NULL, *column = NULL;
  taps *tx = NULL;
  od_status st = OD_OK;
  OD_GO(st, od_new(&lines, 4 * in_n, sizeof *lines));
  OD_GO(st, od_new(&column, in_n, sizeof *column));
  OD_GO(st, od_new(&tx, (size_t)j->out_width, sizeof *tx));
  float sx = scale_of(j->width, j->out_width, j->corners), sy = scale_of(j->height, j->out_height, j->corners);
  for (int x = 0; x < j->out_width; x++) tx[x] = taps_at(x, j->width, sx, j->corners);
  for (int y = 0; y < j->out_height; y++) {
    taps t = taps_at(y, j->height, sy, j->corners);
    const float *row[4];
    for (int k = 0; k < 4; k++) row[k] = input_row(j, t.index[k], lines + in_n * (size_t)k);
    for (size_t i = 0; i < in_n; i++)
      column[i] = row[0][i] * t.weight[0] + row[1][i] * t.weight[1] + row[2][i] * t.weight[2] + row[3][i] * t.weight[3];
    float *out = j->out + j->out_stride * (size_t)y;
    for (int x = 0; x < j->out_width; x++) {
      const taps *w = &tx[x];
      for (int c = 0; c < j->channels; c++) {
        const float *p = column + c;
        *out++ = p[w->index[0] * j->channels] * w->weight[0] + p[w->index[1] * j->channels] * w->weight[1] +
                 p[w->index[2] * j->channels] * w->weight[2] + p[w->index[3] * j->channels] * w->weight[3];
      }
    }
  }
done:
  od_free(lines);
  od_free(column);
  od_free(tx);
  return st;
}

/* -------------------------------------------------------------------------------------------------------------- area */
/* Input pixels [start, end) that output pixel i covers; the share of pixel k is share_of. */
typedef struct {
  int start, end;
  float from, to, scale;
} span;

static span span_at(int i, float scale) {
  float from = (float)i * scale, to = (float)(i + 1) * scale;
  return (span){(int)floorf(from), (int)ceilf(to), from, to, scale};
}

static float share_of(const span *s, int k) {
  float low = (float)k, high = (float)(k + 1);
  if (low < s->from) return high > s->to ? s->scale : high - s->from;
  return high > s->to ? s->to - low : 1.0f;
}

static od_status area(const job *j) {
  float sx = scale_of(j->width, j->out_width, j->corners), sy = scale_of(j->height, j->out_height, j->corners);
  size_t in_n = (size_t)j->width * (size_t)j->channels, n = (size_t)j->out_width * (size_t)j->channels;
  float *line = NULL, scale = 1.0f / (sy * sx);
  OD_TRY(od_new(&line, in_n, sizeof *line));
  for (int y = 0; y < j->out_height; y++) {
    span v = span_at(y, sy);
    float *out = j->out + j->out_stride * (size_t)y;
    memset(out, 0, n * sizeof *out);
    for (int k = v.start; k < v.end; k++) {
      const float *in = input_row(j, clamp(k, j->height), line);
      float share = share_of(&v, k);
      for (int x = 0; x < j->out_width; x++) {
        span h = span_at(x, sx);
        for (int c = 0; c < j->channels; c++) {
          float sum = in[clamp(h.start, j->width) * j->channels + c] * share_of(&h, h.start);
          for (int i = h.start + 1; i < h.end; i++) {
            float p = in[clamp(i, j->width) * j->channels + c];
            sum += i + 1 < h.end ? p : p * share_of(&h, i);
          }
          out[x * j->channels + c] += sum * share;
        }
      }
    }
    for (size_t i = 0; i < n; i++) out[i] *= scale;
  }
  od_free(line);
  return OD_OK;
}

od_status od_resize(float *out, int out_height, int out_width, size_t out_stride, const void *in, od_dtype dtype,
                    int height, int width, int channels, od_resize_method method, od_corners corners) {
  if (out_height <= 0 || out_width <= 0 || height <= 0 || width <= 0)
    return od_fail(OD_EINVAL, "resizing %d x %d to %d x %d: sizes must be positive", width, height, out_width,
                   out_height);
  OD_ASSERT(dtype == OD_U8 || dtype == OD_F32);
  job j = {out, out_height, out_width, out_stride, in, dtype, height, width, channels, corners};
  switch (method) {
  case OD_RESIZE_BILINEAR: return bilinear(&j);
  case OD_RESIZE_NEAREST: return nearest(&j);
  case OD_RESIZE_BICUBIC: return bicubic(&j);
  case OD_RESIZE_AREA:
    if (corners == OD_CORNERS_HALF_PIXEL)
      return od_fail(OD_EUNSUPPORTED, "resizing by area has no half-pixel centres, in TensorFlow neither");
    return area(&j);
  default: return od_fail(OD_EINVAL, "resize method %d is not known", (int)method);
  }
}
