/* Pictures and boxes: resizing, crop and resize, non-maximum suppression, decoding. Where ties and rounding matter they are as in
 * TensorFlow's CPU kernels. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "image/decode.h"
#include "tfgraph/kernel.h"

/* ------------------------------------------------------------------------------------------------------------- resize */
typedef struct {
  int64_t low, high;
  float part;
} lerp;

/* Where output pixel i lies in the input, for the three conventions of TensorFlow. */
static void bilinear_at(lerp *l, int64_t i, int64_t in, float scale, bool half) {
  float at = half ? ((float)i + 0.5f) * scale - 0.5f : (float)i * scale;
  float base = floorf(at);
  l->low = (int64_t)base > 0 ? (int64_t)base : 0;
  l->high = (int64_t)ceilf(at) < in - 1 ? (int64_t)ceilf(at) : in - 1;
  if (l->low > in - 1) l->low = in - 1;
  if (l->high < 0) l->high = 0;
  l->part = at - base;
}

static float resize_scale(int64_t in, int64_t out, bool corners) {
  return corners && out > 1 ? (float)(in - 1) / (float)(out - 1) : (float)in / (float)out;
}

static float pixel(const od_tensor *t, int64_t i) {
  return t->dtype == OD_F32 ? ((const float *)t->data)[i] : (float)((const uint8_t *)t->data)[i];
}

static od_status resize_setup(tg_call *c, int64_t *h, int64_t *w, bool *corners, bool *half) {
  const od_tensor *x = tg_in(c, 0);
  int64_t size[2];
  int n;
  OD_TRY(tg_rank(c, 0, 4));
  OD_TRY(tg_vector(c, 1, size, 2, &n));
  if (n != 2 || size[0] < 1 || size[1] < 1) return tg_fail(c, "the new size must be two positive numbers");
  if (x->shape.dim[1] < 1 || x->shape.dim[2] < 1) return tg_fail(c, "an empty picture");
  *h = size[0];
  *w = size[1];
  *corners = tg_attr_bool(c->node, "align_corners", false);
  *half = tg_attr_bool(c->node, "half_pixel_centers", false);
  return *corners && *half ? tg_fail(c, "align_corners and half_pixel_centers exclude each other") : OD_OK;
}

static od_status resize_bilinear_run(tg_call *c) {
  const od_tensor *x = tg_in(c, 0);
  int64_t h, w;
  bool corners, half;
  OD_TRY(resize_setup(c, &h, &w, &corners, &half));
  if (x->dtype != OD_F32 && x->dtype != OD_U8) return tg_unsupported(c, x->dtype);
  int64_t batch = x->shape.dim[0], ih = x->shape.dim[1], iw = x->shape.dim[2], ch = x->shape.dim[3];
  OD_TRY(tg_new_out(c, 0, OD_F32, &OD_SHAPE(batch, h, w, ch)));
  float sy = resize_scale(ih, h, corners), sx = resize_scale(iw, w, corners);
  float *out = c->out[0].t.data;
#pragma omp parallel for if (batch * h * w * ch > 1 << 19)
  for (int64_t row = 0; row < batch * h; row++) {
    lerp y, xx;
    bilinear_at(&y, row % h, ih, sy, half);
    int64_t top = (row / h * ih + y.low) * iw * ch, bottom = (row / h * ih + y.high) * iw * ch;
    for (int64_t i = 0; i < w; i++) {
      bilinear_at(&xx, i, iw, sx, half);
      for (int64_t k = 0; k < ch; k++) {
        float tl = pixel(x, top + xx.low * ch + k), tr = pixel(x, top + xx.high * ch + k),
              bl = pixel(x, bottom + xx.low * ch + k), br = pixel(x, bottom + xx.high * ch + k);
        float t = tl + (tr - tl) * xx.part, b = bl + (br - bl) * xx.part;
        out[(row * w + i) * ch + k] = t + (b - t) * y.part;
      }
    }
  }
  return OD_OK;
}

static int64_t nearest_at(int64_t i, int64_t in, float scale, bool corners, bool half) {
  float at = half ? ((float)i + 0.5f) * scale : (float)i * scale;
  int64_t k = (int64_t)(corners ? roundf(at) : floorf(at));
  return k < 0 ? 0 : k > in - 1 ? in - 1 : k;
}

static od_status resize_nearest_run(tg_call *c) {
  const od_tensor *x = tg_in(c, 0);
  int64_t h, w;
  bool corners, half;
  OD_TRY(resize_setup(c, &h, &w, &corners, &half));
  int64_t batch = x->shape.dim[0], ih = x->shape.dim[1], iw = x->shape.dim[2], ch = x->shape.dim[3];
  OD_TRY(tg_new_out(c, 0, x->dtype, &OD_SHAPE(batch, h, w, ch)));
  float sy = resize_scale(ih, h, corners), sx = resize_scale(iw, w, corners);
  size_t size = od_dtype_size(x->dtype);
  for (int64_t row = 0; row < batch * h; row++)
    for (int64_t i = 0; i < w; i++) {
      int64_t from =
          ((row / h * ih + nearest_at(row % h, ih, sy, corners, half)) * iw + nearest_at(i, iw, sx, corners, half)) *
          ch;
      OD_TRY(tg_copy_elements(x->dtype, (char *)c->out[0].t.data + (size_t)((row * w + i) * ch) * size,
                              (const char *)x->data + (size_t)from * size, ch));
    }
  return OD_OK;
}

/* image [B,H,W,C], boxes [R,4] normalised, box_ind [R] -> [R, ch, cw, C]. */
static od_status crop_and_resize_run(tg_call *c) {
  const od_tensor *x = tg_in(c, 0), *boxes = tg_in(c, 1), *index = tg_in(c, 2);
  int64_t size[2];
  int n;
  if (x->dtype != OD_F32 && x->dtype != OD_U8) return tg_unsupported(c, x->dtype);
  OD_TRY(tg_rank(c, 0, 4));
  OD_TRY(tg_rank(c, 1, 2));
  OD_TRY(tg_rank(c, 2, 1));
  OD_TRY(tg_vector(c, 3, size, 2, &n));
  int64_t batch = x->shape.dim[0], ih = x->shape.dim[1], iw = x->shape.dim[2], ch = x->shape.dim[3],
          rois = boxes->shape.dim[0];
  if (n != 2 || size[0] < 1 || size[1] < 1 || boxes->shape.dim[1] != 4 || index->shape.dim[0] != rois || ih < 1 ||
      iw < 1)
    return tg_fail(c, "boxes, indices or crop size do not fit");
  bool near = tg_attr_is(c->node, "method", "nearest");
  if (!near && tg_attr_find(c->node, "method") && !tg_attr_is(c->node, "method", "bilinear"))
    return tg_fail(c, "method must be bilinear or nearest");
  float outside = tg_attr_float(c->node, "extrapolation_value", 0);
  int64_t h = size[0], w = size[1];
  for (int64_t r = 0; r < rois; r++)
    if (((const int32_t *)index->data)[r] < 0 || ((const int32_t *)index->data)[r] >= batch)
      return tg_fail(c, "a box of picture %d of %lld", ((const int32_t *)index->data)[r], (long long)batch);
  OD_TRY(tg_new_out(c, 0, OD_F32, &OD_SHAPE(rois, h, w, ch)));
  float *out = c->out[0].t.data;
#pragma omp parallel for if (rois * h * w * ch > 1 << 19)
  for (int64_t row = 0; row < rois * h; row++) {
    const float *b = (const float *)boxes->data + row / h * 4;
    int64_t base = (int64_t)((const int32_t *)index->data)[row / h] * ih * iw * ch;
    float scale_y = h > 1 ? (b[2] - b[0]) * (float)(ih - 1) / (float)(h - 1) : 0,
          scale_x = w > 1 ? (b[3] - b[1]) * (float)(iw - 1) / (float)(w - 1) : 0;
    float y = h > 1 ? b[0] * (float)(ih - 1) + (float)(row % h) * scale_y : 0.5f * (b[0] + b[2]) * (float)(ih - 1);
    bool row_out = !(y >= 0 && y <= (float)(ih - 1));
    for (int64_t i = 0; i < w; i++) {
      float xx = w > 1 ? b[1] * (float)(iw - 1) + (float)i * scale_x : 0.5f * (b[1] + b[3]) * (float)(iw - 1);
      float *o = out + (row * w + i) * ch;
      if (row_out || !(xx >= 0 && xx <= (float)(iw - 1))) {
        for (int64_t k = 0; k < ch; k++) o[k] = outside;
        continue;
      }
      if (near) {
        int64_t from = base + ((int64_t)roundf(y) * iw + (int64_t)roundf(xx)) * ch;
        for (int64_t k = 0; k < ch; k++) o[k] = pixel(x, from + k);
        continue;
      }
      int64_t top = base + (int64_t)floorf(y) * iw * ch, bottom = base + (int64_t)ceilf(y) * iw * ch,
              l = (int64_t)floorf(xx) * ch, rr = (int64_t)ceilf(xx) * ch;
      float py = y - floorf(y), px = xx - floorf(xx);
      for (int64_t k = 0; k < ch; k++) {
        float tl = pixel(x, top + l + k), tr = pixel(x, top + rr + k), bl = pixel(x, bottom + l + k),
              br = pixel(x, bottom + rr + k);
        float t = tl + (tr - tl) * px, bt = bl + (br - bl) * px;
        o[k] = t + (bt - t) * py;
      }
    }
  }
  return OD_OK;
}

/* ---------------------------------------------------------------------------------------------------------------- NMS */
static float overlap(const float *a, const float *b) {
  float ay0 = fminf(a[0], a[2]), ax0 = fminf(a[1], a[3]), ay1 = fmaxf(a[0], a[2]), ax1 = fmaxf(a[1], a[3]);
  float by0 = fminf(b[0], b[2]), bx0 = fminf(b[1], b[3]), by1 = fmaxf(b[0], b[2]), bx1 = fmaxf(b[1], b[3]);
  float area_a = (ay1 - ay0) * (ax1 - ax0), area_b = (by1 - by0) * (bx1 - bx0);
  if (area_a <= 0 || area_b <= 0) return 0;
  float h = fmaxf(fminf(ay1, by1) - fmaxf(ay0, by0), 0), w = fmaxf(fminf(ax1, bx1) - fmaxf(ax0, bx0), 0), both = h * w;
  return both / (area_a + area_b - both);
}

typedef struct {
  float score;
  int32_t box;
  int from; /* selected boxes before this one have been compared already (soft suppression) */
} candidate;

/* Whether a comes before b: larger score, of equals the smaller index. */
static bool before(const candidate *a, const candidate *b) {
  return a->score > b->score || (a->score == b->score && a->box < b->box);
}

static void sink_down(candidate *heap, int n, int i) {
  for (;;) {
    int k = 2 * i + 1;
    if (k >= n) return;
    if (k + 1 < n && before(&heap[k + 1], &heap[k])) k++;
    if (!before(&heap[k], &heap[i])) return;
    candidate t = heap[i];
    heap[i] = heap[k];
    heap[k] = t;
    i = k;
  }
}

typedef struct {
  int64_t max;
  float iou, score, sigma;
  const float *boxes, *scores;
  int64_t n;
} nms_input;

static int select_boxes(const nms_input *in, candidate *heap, int32_t *chosen, float *chosen_scores) {
  int n = 0, count = 0;
  float scale = in->sigma > 0 ? -0.5f / in->sigma : 0;
  for (int64_t i = 0; i < in->n; i++)
    if (in->scores[i] > in->score) heap[n++] = (candidate){in->scores[i], (int32_t)i, 0};
  for (int i = n / 2 - 1; i >= 0; i--) sink_down(heap, n, i);
  while (n && count < in->max) {
    candidate next = heap[0];
    float original = next.score;
    bool hard = false;
    for (int j = count - 1; j >= next.from; j--) {
      float s = overlap(in->boxes + 4 * (int64_t)next.box, in->boxes + 4 * (int64_t)chosen[j]);
      next.score *= s <= in->iou ? expf(scale * s * s) : 0;
      if (in->sigma <= 0 && s > in->iou) {
        hard = true;
        break;
      }
      if (next.score <= in->score) break;
    }
    next.from = count;
    if (!hard && next.score == original) {
      chosen[count] = next.box;
      chosen_scores[count++] = next.score;
    } else if (!hard && next.score > in->score) {
      heap[0] = next; /* weaker now: back into the queue */
      sink_down(heap, n, 0);
      continue;
    }
    heap[0] = heap[--n];
    sink_down(heap, n, 0);
  }
  return count;
}

/* V1: iou_threshold is an attribute. V2: an input. V3: score_threshold too. V4: may pad, and says how many. V5: soft, gives scores. */
static od_status nms_run(tg_call *c) {
  const od_tensor *boxes = tg_in(c, 0), *scores = tg_in(c, 1);
  int version = c->kernel->arg;
  nms_input in = {.score = -INFINITY, .iou = tg_attr_float(c->node, "iou_threshold", 0.5f)};
  OD_TRY(tg_int(c, 2, &in.max));
  if (version >= 2) OD_TRY(tg_float(c, 3, &in.iou));
  if (version >= 3) OD_TRY(tg_float(c, 4, &in.score));
  if (version >= 5) OD_TRY(tg_float(c, 5, &in.sigma));
  if (boxes->dtype != OD_F32) return tg_unsupported(c, boxes->dtype);
  OD_TRY(tg_rank(c, 0, 2));
  OD_TRY(tg_rank(c, 1, 1));
  in.n = scores->shape.dim[0];
  if (boxes->shape.dim[0] != in.n || boxes->shape.dim[1] != 4) return tg_fail(c, "boxes and scores do not fit");
  if (in.max < 0 || !(in.iou >= 0 && in.iou <= 1) || in.sigma < 0)
    return tg_fail(c, "impossible limits: %lld boxes, iou %g, sigma %g", (long long)in.max, (double)in.iou,
                   (double)in.sigma);
  in.boxes = boxes->data;
  in.scores = scores->data;
  bool pad = tg_attr_bool(c->node, "pad_to_max_output_size", false);
  int64_t room = in.max < in.n ? in.max : in.n;
  OD_TRY(tg_work(c, in.n, room));
  candidate *heap = NULL;
  int32_t *chosen = NULL;
  float *chosen_scores = NULL;
  od_status st;
  OD_GO(st, od_new(&heap, (size_t)in.n + 1, sizeof *heap));
  OD_GO(st, od_new(&chosen, (size_t)room + 1, sizeof *chosen));
  OD_GO(st, od_new(&chosen_scores, (size_t)room + 1, sizeof *chosen_scores));
  int count = select_boxes(&in, heap, chosen, chosen_scores);
  od_shape s = OD_SHAPE(pad ? in.max : count);
  OD_GO(st, tg_new_out(c, 0, OD_I32, &s));
  for (int64_t i = 0; i < s.dim[0]; i++) ((int32_t *)c->out[0].t.data)[i] = i < count ? chosen[i] : 0;
  if (version >= 4) {
    OD_GO(st, tg_new_out(c, version == 5 ? 2 : 1, OD_I32, &OD_SCALAR));
    *(int32_t *)c->out[version == 5 ? 2 : 1].t.data = count;
  }
  if (version >= 5) {
    OD_GO(st, tg_new_out(c, 1, OD_F32, &s));
    for (int64_t i = 0; i < s.dim[0]; i++) ((float *)c->out[1].t.data)[i] = i < count ? chosen_scores[i] : 0;
  }
done:
  od_free(heap);
  od_free(chosen);
  od_free(chosen_scores);
  return st;
}

/* ----------------------------------------------------------------------------------------------------------- decoding */
static od_status decode_run(tg_call *c) {
  const od_tensor *x = tg_in(c, 0);
  int64_t channels = tg_attr_int(c->node, "channels", 0);
  OD_TRY(tg_rank(c, 0, 0));
  if (tg_attr_int(c->node, "ratio", 1) != 1 || !tg_attr_bool(c->node, "fancy_upscaling", true) ||
      tg_attr_is(c->node, "dct_method", "INTEGER_ACCURATE"))
    return od_fail(OD_EUNSUPPORTED, "node %s (%s): only ratio 1, fancy_upscaling and the fast DCT are supported",
                   c->node->name, c->node->op);
  if (tg_out_type(c, 0) != OD_U8) return tg_unsupported(c, tg_out_type(c, 0));
  const od_bytes *b = x->data;
  od_image image = {0};
  int ch, h, w;
  od_status st = od_image_size(&h, &w, &ch, b->data, b->size);
  if (channels != 0) ch = (int)channels;
  if (st == OD_OK) st = tg_check_bytes(c->graph, &OD_SHAPE(h, w, ch), OD_U8);
  if (st == OD_OK && ch != 1 && ch != 3)
    return od_fail(OD_EUNSUPPORTED, "node %s (%s): pictures of %d channels are not supported", c->node->name,
                   c->node->op, ch);
  /* an animation would give a fourth dimension */
  if (st == OD_OK && c->kernel->arg && tg_attr_bool(c->node, "expand_animations", true) &&
      od_image_format_of(b->data, b->size) == OD_FORMAT_GIF)
    return od_fail(OD_EUNSUPPORTED, "node %s (%s): a GIF, with expand_animations", c->node->name, c->node->op);
  if (st == OD_OK) st = od_image_decode(&image, b->data, b->size, ch);
  OD_TRY(od_fail_context(st, "node %s (%s)", c->node->name, c->node->op));
  st = tg_new_out(c, 0, OD_U8, &OD_SHAPE(image.height, image.width, image.channels));
  if (st == OD_OK)
    memcpy(c->out[0].t.data, image.data, (size_t)image.height * (size_t)image.width * (size_t)image.channels);
  od_image_free(&image);
  return st;
}

static od_status substr_run(tg_call *c) {
  const od_tensor *x = tg_in(c, 0);
  int64_t at, len;
  if (tg_attr_find(c->node, "unit") && !tg_attr_is(c->node, "unit", "BYTE"))
    return tg_fail(c, "only unit BYTE is supported");
  int n_at, n_len;
  OD_TRY(tg_ints(c, 1, &at, 1, &n_at));
  OD_TRY(tg_ints(c, 2, &len, 1, &n_len));
  if (n_at != 1 || n_len != 1) return tg_fail(c, "one position and one length are supported");
  OD_TRY(tg_new_out(c, 0, OD_STRING, &x->shape));
  for (int64_t i = 0, n = od_tensor_size(x); i < n; i++) {
    const od_bytes *b = (const od_bytes *)x->data + i;
    int64_t size = (int64_t)b->size, from = at < 0 ? at + size : at;
    if (from < 0 || from > size)
      return tg_fail(c, "position %lld of a string of %lld bytes", (long long)at, (long long)size);
    int64_t count = len < 0 ? 0 : size - from < len ? size - from : len;
    OD_TRY(od_tensor_set_bytes(&c->out[0].t, i, b->data ? b->data + from : "", (size_t)count));
  }
  return OD_OK;
}

/* Bytes of equally long strings as numbers, little-endian. */
static od_status decode_raw_run(tg_call *c) {
  const od_tensor *x = tg_in(c, 0);
  od_dtype dtype = tg_out_type(c, 0);
  size_t size = od_dtype_size(dtype);
  int64_t n = od_tensor_size(x);
  const od_bytes *b = x->data;
  if (!tg_attr_bool(c->node, "little_endian", true) || dtype == OD_STRING || x->shape.rank == OD_MAX_RANK)
    return tg_unsupported(c, dtype);
  for (int64_t i = 0; i < n; i++)
    if (b[i].size != b[0].size || b[i].size % size)
      return tg_fail(c, "strings of different lengths, or no whole number of elements");
  od_shape s = x->shape;
  s.dim[s.rank++] = n ? (int64_t)(b[0].size / size) : 0;
  OD_TRY(tg_new_out(c, 0, dtype, &s));
  for (int64_t i = 0; i < n && b[0].size; i++)
    memcpy((char *)c->out[0].t.data + (size_t)i * b[0].size, b[i].data, b[0].size);
  return OD_OK;
}

od_status tg_parse_example_v2(tg_call *c);
od_status tg_parse_single_example(tg_call *c);
od_status tg_parse_example(tg_call *c);

const tg_kernel tg_kernels_image[] = {
    {"CropAndResize", "T,float,int32,int32->float", "T method? extrapolation_value?", crop_and_resize_run, 0},
    {"DecodeImage", "string->dtype", "channels? dtype=uint8 expand_animations?", decode_run, 1},
    {"DecodeJpeg", "string->uint8",
     "channels? ratio? fancy_upscaling? try_recover_truncated? acceptable_fraction? dct_method?", decode_run, 0},
    {"DecodePng", "string->dtype", "channels? dtype=uint8", decode_run, 0},
    {"DecodeRaw", "string->out_type", "out_type little_endian?", decode_raw_run, 0},
    {"NonMaxSuppression", "float,float,int32->int32", "iou_threshold?", nms_run, 1},
    {"NonMaxSuppressionV2", "T,T,int32,T_threshold->int32", "T=float T_threshold=float", nms_run, 2},
    {"NonMaxSuppressionV3", "T,T,int32,T_threshold,T_threshold->int32", "T=float T_threshold=float", nms_run, 3},
    {"NonMaxSuppressionV4", "T,T,int32,T_threshold,T_threshold->int32,int32",
     "T=float T_threshold=float pad_to_max_output_size?", nms_run, 4},
    {"NonMaxSuppressionV5", "T,T,int32,T,T,T->int32,T,int32", "T=float pad_to_max_output_size?", nms_run, 5},
    {"ParseExample",
     "string,string,Nsparse*string,Ndense*string,Tdense...->Nsparse*int64,sparse_types...,Nsparse*int64,Tdense...",
     "Nsparse Ndense sparse_types Tdense dense_shapes", tg_parse_example, 0},
    {"ParseExampleV2",
     "string,string,string,string,string,Tdense...->num_sparse*int64,sparse_types...,num_sparse*int64,Tdense...,ragged_"
     "value_types...,"
     "ragged_split_types...",
     "Tdense num_sparse sparse_types ragged_value_types ragged_split_types dense_shapes", tg_parse_example_v2, 0},
    {"ParseSingleExample", "string,Tdense...->num_sparse*int64,sparse_types...,num_sparse*int64,Tdense...",
     "num_sparse sparse_keys dense_keys sparse_types Tdense dense_shapes", tg_parse_single_example, 0},
    {"ResizeBilinear", "T,int32->float", "T align_corners? half_pixel_centers?", resize_bilinear_run, 0},
    {"ResizeNearestNeighbor", "T,int32->T", "T align_corners? half_pixel_centers?", resize_nearest_run, 0},
    {"Substr", "string,T,T->string", "T unit?", substr_run, 0},
    {0},
};
