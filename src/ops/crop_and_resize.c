/* crop_and_resize: TensorFlow's op of that name. Crop r of size h x w samples its box of image box_image[r] at
 *
 *   y(i) = y1 (H-1) + i (y2 - y1)(H-1)/(h-1),   for h = 1: (y1 + y2)(H-1)/2;   x likewise
 *
 * bilinearly (or at the nearest pixel); places outside the image give extrapolation_value. Boxes may be turned over. The
 * gradient goes into the image only: the original stops it before the boxes. */
#include <math.h>
#include <string.h>

#include "ops/detect.h"
#include "ops/detect_shape.h"
#include "ops/detect_tf.h"
#include "ops/table.h"

static const od_param params[] = {OD_PARAM_IN(od_crop_params, crop_height, OD_P_INT, "lines of a crop", 1, 1 << 16),
                                  OD_PARAM_IN(od_crop_params, crop_width, OD_P_INT, "columns of a crop", 1, 1 << 16),
                                  OD_PARAM(od_crop_params, nearest, OD_P_BOOL, "nearest pixel instead of bilinear"),
                                  OD_PARAM(od_crop_params, extrapolation_value, OD_P_FLOAT, "outside the image"),
                                  {0}};

od_value od_crop_and_resize(od_graph *g, od_value image, od_value boxes, od_value box_image, const od_crop_params *p) {
  return od_graph_add(g, &od_op_crop_and_resize, (od_value[]){image, boxes, box_image}, 3, p);
}

/* Image, boxes, box_image from input `first` on; binds B H W C R, and h w to the crop's size. */
static od_status letters(od_letters *d, const od_infer *c, int first) {
  const od_crop_params *p = c->params;
  od_letters_clear(d);
  od_letters_set(d, 'X', p->crop_height);
  od_letters_set(d, 'Y', p->crop_width);
  OD_TRY(od_letters_in(d, c, first, "image", OD_F32, "BHWC"));
  OD_TRY(od_letters_in(d, c, first + 1, "boxes", OD_F32, "R4"));
  return od_letters_in(d, c, first + 2, "image of each box", OD_I32, "R");
}

static od_status infer(const od_infer *c) {
  od_letters d;
  OD_TRY(letters(&d, c, 0));
  od_letters_out(&d, c, 0, OD_F32, "RXYC");
  return OD_OK;
}

/* Where crop place i of n lies along a side of `size` pixels between the box's edges a and b. */
static float place(float a, float b, int64_t i, int64_t n, int64_t size) {
  if (n == 1) return 0.5f * (a + b) * (float)(size - 1);
  float step = (b - a) * (float)(size - 1) / (float)(n - 1);
  return a * (float)(size - 1) + (float)i * step;
}

static bool outside(float at, int64_t size) { return !(at >= 0 && at <= (float)(size - 1)); }

/* A place between two lines (or columns) of the image: their numbers, and how far it is from the first. */
typedef struct {
  int64_t low, high;
  float part;
} between;

static between neighbours(float at) {
  float low = floorf(at);
  return (between){(int64_t)low, (int64_t)ceilf(at), at - low};
}

static od_status image_of(int64_t *out, const od_tensor *box_image, int64_t r, int64_t n) {
  int32_t b = ((const int32_t *)box_image->data)[r];
  if (b < 0 || b >= n)
    return od_fail(OD_EINVAL, "box %lld is of image %d, there are %lld", (long long)r, b, (long long)n);
  *out = b;
  return OD_OK;
}

/* One crop [h,w,C] of image [H,W,C]. */
static void crop(float *out, const float *image, const int64_t *dim, const float *box, const od_crop_params *p) {
  int64_t h = dim[1], w = dim[2], n = dim[3];
  for (int64_t i = 0; i < p->crop_height; i++) {
    float y = place(box[0], box[2], i, p->crop_height, h);
    for (int64_t j = 0; j < p->crop_width; j++, out += n) {
      float x = place(box[1], box[3], j, p->crop_width, w);
      if (outside(y, h) || outside(x, w)) {
        for (int64_t k = 0; k < n; k++) out[k] = p->extrapolation_value;
        continue;
      }
      if (p->nearest) {
        memcpy(out, image + ((int64_t)roundf(y) * w + (int64_t)roundf(x)) * n, (size_t)n * sizeof *out);
        continue;
      }
      between v = neighbours(y), u = neighbours(x);
      const float *top = image + v.low * w * n, *bottom = image + v.high * w * n;
      for (int64_t k = 0; k < n; k++) {
        float a = top[u.low * n + k], b = top[u.high * n + k], c = bottom[u.low * n + k], d = bottom[u.high * n + k];
        float above = a + (b - a) * u.part, below = c + (d - c) * u.part;
        out[k] = above + (below - above) * v.part;
      }
    }
  }
}

static od_status ref(const od_call *c) {
  const od_crop_params *p = c->params;
  const int64_t *dim = c->in[0].shape.dim;
  const float *image = c->in[0].data, *boxes = c->in[1].data;
  float *out = c->out[0].data;
  for (int64_t r = 0; r < c->in[1].shape.dim[0]; r++) {
    int64_t b = 0;
    OD_TRY(image_of(&b, &c->in[2], r, dim[0]));
    crop(out + r * p->crop_height * p->crop_width * dim[3], image + b * dim[1] * dim[2] * dim[3], dim, boxes + 4 * r,
         p);
  }
  return OD_OK;
}

static od_status back(od_grad *c) {
  const od_crop_params *p = c->node->params;
  if (p->nearest) return od_fail(OD_EUNSUPPORTED, "crops of nearest pixels are not trained through");
  const od_value *in = c->node->in;
  if (c->need[0])
    c->din[0] =
        od_graph_add(c->graph, &od_op_crop_and_resize_grad, (od_value[]){c->dout[0], in[0], in[1], in[2]}, 4, p);
  return OD_OK;
}

static od_status write_tf(od_tf *t, const od_node *n) {
  const od_crop_params *p = n->params;
  const char *size =
      od_tf_const_i32s(t, "crop_size", (const int32_t[]){(int32_t)p->crop_height, (int32_t)p->crop_width}, 2);
  const char *x =
      od_tf_op(t, "CropAndResize", NULL, OD_F32, OD_TF_INPUTS(od_tf_in(t, 0), od_tf_in(t, 1), od_tf_in(t, 2), size));
  od_tf_attr_text(t, "method", p->nearest ? "nearest" : "bilinear");
  od_tf_attr_float(t, "extrapolation_value", p->extrapolation_value);
  od_tf_out(t, 0, x);
  return OD_OK;
}

#define CROP(h, w, v) (&(const od_crop_params){h, w, false, v})
#define BOXES(n)      OD_F32_IN(-0.1, 1.1, n, 4)
static const od_sample samples[] = {
    {.name = "four by three",
     .params = CROP(4, 3, 0.5f),
     .n_in = 3,
     .in = {OD_F32_IN(-1, 1, 2, 6, 7, 3), BOXES(5), OD_I32_IN(0, 1, 5)}},
    {.name = "one place",
     .params = CROP(1, 1, 0),
     .n_in = 3,
     .in = {OD_F32_IN(-1, 1, 2, 6, 7, 3), OD_F32_IN(0, 1, 4, 4), OD_I32_IN(0, 1, 4)}},
    {.name = "no boxes",
     .params = CROP(2, 2, 0),
     .n_in = 3,
     .in = {OD_F32_IN(-1, 1, 2, 6, 7, 3), BOXES(0), OD_I32_IN(0, 1, 0)},
     .few = true},
};

const od_op od_op_crop_and_resize = {
    .name = "crop_and_resize",
    .help = "boxes of images, resampled to one size",
    .params = params,
    .params_size = sizeof(od_crop_params),
    .min_in = 3,
    .max_in = 3,
    .n_out = 1,
    .infer = infer,
    .ref = ref,
    .grad = back,
    .write_tf = write_tf,
    OD_SAMPLES(samples),
    .tolerance = 1e-5,
};

/* ------------------------------------------------------------------------------------------------------------- gradient */
static od_status grad_infer(const od_infer *c) {
  od_letters d;
  OD_TRY(letters(&d, c, 1));
  OD_TRY(od_letters_in(&d, c, 0, "gradient of the crops", OD_F32, "RXYC"));
  od_letters_out(&d, c, 0, OD_F32, "BHWC");
  return OD_OK;
}

static void crop_grad(float *image, const float *dy, const int64_t *dim, const float *box, const od_crop_params *p) {
  int64_t h = dim[1], w = dim[2], n = dim[3];
  for (int64_t i = 0; i < p->crop_height; i++) {
    float y = place(box[0], box[2], i, p->crop_height, h);
    for (int64_t j = 0; j < p->crop_width; j++, dy += n) {
      float x = place(box[1], box[3], j, p->crop_width, w);
      if (outside(y, h) || outside(x, w)) continue;
      between v = neighbours(y), u = neighbours(x);
      float *top = image + v.low * w * n, *bottom = image + v.high * w * n;
      for (int64_t k = 0; k < n; k++) {
        float above = (1 - v.part) * dy[k], below = v.part * dy[k];
        top[u.low * n + k] += (1 - u.part) * above;
        top[u.high * n + k] += u.part * above;
        bottom[u.low * n + k] += (1 - u.part) * below;
        bottom[u.high * n + k] += u.part * below;
      }
    }
  }
}

static od_status grad_ref(const od_call *c) {
  const od_crop_params *p = c->params;
  const int64_t *dim = c->in[1].shape.dim;
  const float *dy = c->in[0].data, *boxes = c->in[2].data;
  float *out = c->out[0].data;
  memset(out, 0, od_tensor_bytes(&c->out[0]));
  for (int64_t r = 0; r < c->in[2].shape.dim[0]; r++) {
    int64_t b = 0;
    OD_TRY(image_of(&b, &c->in[3], r, dim[0]));
    crop_grad(out + b * dim[1] * dim[2] * dim[3], dy + r * p->crop_height * p->crop_width * dim[3], dim, boxes + 4 * r,
              p);
  }
  return OD_OK;
}

static const od_sample grad_samples[] = {
    {.name = "four by three",
     .params = CROP(4, 3, 0.5f),
     .n_in = 4,
     .in = {OD_F32_IN(-1, 1, 5, 4, 3, 3), OD_F32_IN(-1, 1, 2, 6, 7, 3), BOXES(5), OD_I32_IN(0, 1, 5)}},
};

const od_op od_op_crop_and_resize_grad = {
    .name = "crop_and_resize_grad",
    .help = "gradient of crop_and_resize: (dy, image: only its shape counts, boxes, box_image) -> dimage",
    .params = params,
    .params_size = sizeof(od_crop_params),
    .min_in = 4,
    .max_in = 4,
    .n_out = 1,
    .infer = grad_infer,
    .ref = grad_ref,
    .no_grad = OD_NO_SECOND,
    .no_tf = OD_NO_TF_TRAINING,
    OD_SAMPLES(grad_samples),
    .tolerance = 1e-5,
};
