/* crop_and_resize and its gradient: places are computed as the reference does, channels go through vectors. Forward, boxes go to
 * threads; backward every thread takes all boxes in order and a part of the channels, so that sums have one order. */
#include <math.h>
#include <string.h>

#include "engine/cpu/cpu.h"
#include "ops/detect.h"

enum { CHANNELS = 16 }; /* smallest part of the channels worth a thread */

typedef struct {
  const od_crop_params *p;
  int64_t images, h, w, c, boxes;
  int chunks;
} self;

static self *prepare(od_cpu_draft *d, const od_shape *image, const od_shape *boxes) {
  self *s = od_cpu_alloc(d, sizeof *s);
  if (!s) return NULL;
  s->p = d->node->params;
  if (s->p->nearest) {
    od_cpu_refuse(d, "nearest pixels");
    return NULL;
  }
  s->images = image->dim[0];
  s->h = image->dim[1];
  s->w = image->dim[2];
  s->c = image->dim[3];
  s->boxes = boxes->dim[0];
  d->note = s;
  return s;
}

static bool match(od_cpu_draft *d) {
  const od_node *n = d->node;
  self *s = prepare(d, &od_cpu_in_type(d, 0)->shape, &od_cpu_in_type(d, 1)->shape);
  if (!s) return false;
  s->chunks = od_cpu_chunks(d->cpu, s->boxes, 1);
  od_cpu_take(d, n->in[0], OD_F32);
  od_cpu_take(d, n->in[1], OD_F32);
  od_cpu_take(d, n->in[2], OD_I32);
  od_cpu_give(d, (od_value){(od_node *)(uintptr_t)n, 0}, OD_F32, -1);
  return true;
}

static bool match_grad(od_cpu_draft *d) {
  const od_node *n = d->node;
  self *s = prepare(d, &od_cpu_in_type(d, 1)->shape, &od_cpu_in_type(d, 2)->shape);
  if (!s) return false;
  s->chunks = od_cpu_chunks(d->cpu, s->c, CHANNELS);
  od_cpu_take(d, n->in[0], OD_F32);
  od_cpu_take(d, n->in[2], OD_F32);
  od_cpu_take(d, n->in[3], OD_I32);
  od_cpu_give(d, (od_value){(od_node *)(uintptr_t)n, 0}, OD_F32, -1);
  return true;
}

static od_status create(void **out, od_cpu_draft *d) {
  *out = d->note;
  d->label = d->cpu->simd->name;
  return OD_OK;
}

/* A place between two lines (or columns); low < 0: outside of the image. */
typedef struct {
  int64_t low, high;
  float part;
} between;

/* Rounded product by product: whether a place is inside hangs on the last bit. */
static between place(float a, float b, int64_t i, int64_t n, int64_t size) {
  float at;
  if (n == 1) {
    at = 0.5f * (a + b) * (float)(size - 1);
  } else {
    const float step = (b - a) * (float)(size - 1) / (float)(n - 1);
    volatile float base = a * (float)(size - 1), offset = (float)i * step;
    at = base + offset;
  }
  if (!(at >= 0 && at <= (float)(size - 1))) return (between){-1, -1, 0};
  const float low = floorf(at);
  return (between){(int64_t)low, (int64_t)ceilf(at), at - low};
}

typedef struct {
  const self *s;
  const od_cpu_call *c;
} job;

static void part(const void *args, int chunk, int64_t begin, int64_t end) {
  (void)chunk;
  const job *j = args;
  const self *s = j->s;
  const od_crop_params *p = s->p;
  float *y = (float *)j->c->out[0] + begin * p->crop_height * p->crop_width * s->c;
  for (int64_t r = begin; r < end; r++) {
    const float *box = (const float *)j->c->in[1] + 4 * r, *image = (const float *)j->c->in[0] + ((const int32_t *)j->c->in[2])[r] * s->h * s->w * s->c;
    for (int64_t i = 0; i < p->crop_height; i++) {
      const between v = place(box[0], box[2], i, p->crop_height, s->h);
      for (int64_t k = 0; k < p->crop_width; k++, y += s->c) {
        const between u = place(box[1], box[3], k, p->crop_width, s->w);
        if (v.low < 0 || u.low < 0) {
          for (int64_t n = 0; n < s->c; n++) y[n] = p->extrapolation_value;
          continue;
        }
        const float *top = image + v.low * s->w * s->c, *bottom = image + v.high * s->w * s->c;
        const float *const corners[4] = {top + u.low * s->c, top + u.high * s->c, bottom + u.low * s->c, bottom + u.high * s->c};
        j->c->cpu->simd->bilinear(y, corners, u.part, v.part, s->c);
      }
    }
  }
}

static od_status check_images(const self *s, const int32_t *image) {
  for (int64_t r = 0; r < s->boxes; r++)
    if (image[r] < 0 || image[r] >= s->images)
      return od_fail(OD_EINVAL, "box %lld is of image %d, there are %lld", (long long)r, image[r], (long long)s->images);
  return OD_OK;
}

static od_status run(void *self_, const od_cpu_call *c) {
  const self *s = self_;
  OD_TRY(check_images(s, c->in[2]));
  od_cpu_for(s->chunks, s->boxes, part, &(job){s, c});
  return OD_OK;
}

/* Channels [begin, end) of all boxes. */
static void part_grad(const void *args, int chunk, int64_t begin, int64_t end) {
  (void)chunk;
  const job *j = args;
  const self *s = j->s;
  const od_crop_params *p = s->p;
  const od_cpu_simd *simd = j->c->cpu->simd;
  const int64_t m = end - begin;
  const float *dy = (const float *)j->c->in[0] + begin;
  float *dx = (float *)j->c->out[0] + begin;
  for (int64_t i = 0; i < s->images * s->h * s->w; i++) memset(dx + i * s->c, 0, sizeof *dx * (size_t)m);
  for (int64_t r = 0; r < s->boxes; r++) {
    const float *box = (const float *)j->c->in[1] + 4 * r;
    float *image = dx + ((const int32_t *)j->c->in[2])[r] * s->h * s->w * s->c;
    for (int64_t i = 0; i < p->crop_height; i++) {
      const between v = place(box[0], box[2], i, p->crop_height, s->h);
      for (int64_t k = 0; k < p->crop_width; k++, dy += s->c) {
        const between u = place(box[1], box[3], k, p->crop_width, s->w);
        if (v.low < 0 || u.low < 0) continue;
        float *top = image + v.low * s->w * s->c, *bottom = image + v.high * s->w * s->c;
        /* y - (-weight) * dy, corner by corner: two of them may be the same pixel */
        simd->axpy(top + u.low * s->c, top + u.low * s->c, dy, m, -(1 - u.part) * (1 - v.part));
        simd->axpy(top + u.high * s->c, top + u.high * s->c, dy, m, -u.part * (1 - v.part));
        simd->axpy(bottom + u.low * s->c, bottom + u.low * s->c, dy, m, -(1 - u.part) * v.part);
        simd->axpy(bottom + u.high * s->c, bottom + u.high * s->c, dy, m, -u.part * v.part);
      }
    }
  }
}

static od_status run_grad(void *self_, const od_cpu_call *c) {
  const self *s = self_;
  OD_TRY(check_images(s, c->in[2]));
  od_cpu_for(s->chunks, s->c, part_grad, &(job){s, c});
  return OD_OK;
}

const od_cpu_kernel od_cpu_crop = {.name = "crop", .ops = (const char *const[]){"crop_and_resize", NULL}, .match = match, .create = create,
                                   .run = run};
const od_cpu_kernel od_cpu_crop_grad = {.name = "crop_grad", .ops = (const char *const[]){"crop_and_resize_grad", NULL}, .match = match_grad,
                                        .create = create, .run = run_grad};
