/* Size and padding rules of convolutions and pooling, as TensorFlow's GetWindowedOutputSize has them. */
#include "ops/convolution.h"

const char *const od_padding_names[] = {"SAME", "VALID", "EXPLICIT", NULL};

#define P(field, help) OD_PARAM_IN(od_conv_params, field, OD_P_INT, help, 1, 1 << 20)
#define PAD(field, help) OD_PARAM_IN(od_conv_params, field, OD_P_INT, help, 0, 1 << 20)
const od_param od_conv_param_table[] = {
    P(stride_h, "rows from one output to the next"), P(stride_w, "columns from one output to the next"),
    P(dilation_h, "rows from one filter tap to the next"), P(dilation_w, "columns from one filter tap to the next"),
    OD_PARAM_ENUM(od_conv_params, padding, "SAME, VALID or EXPLICIT", od_padding_names),
    PAD(pad_top, "rows of zeros above"), PAD(pad_bottom, "rows of zeros below"),
    PAD(pad_left, "columns of zeros left"), PAD(pad_right, "columns of zeros right"), {0}};

/* One side. reach: the dilated kernel's extent. */
static void resolve(int64_t *out, int64_t *before, int64_t *after, int padding, int64_t in, int64_t reach, int64_t stride) {
  if (padding == OD_PAD_SAME) {
    *out = (in + stride - 1) / stride;
    int64_t need = (*out - 1) * stride + reach - in;
    if (need < 0 || *out == 0) need = 0;
    *before = need / 2; /* the odd one comes after */
    *after = need - *before;
    return;
  }
  if (padding == OD_PAD_VALID) *before = *after = 0;
  int64_t room = in + *before + *after - reach;
  *out = room < 0 ? 0 : room / stride + 1;
}

od_conv_geometry od_conv_resolve(const od_conv_params *p, int64_t in_h, int64_t in_w, int64_t k_h, int64_t k_w) {
  od_conv_geometry g = {.pad_top = p->pad_top, .pad_bottom = p->pad_bottom, .pad_left = p->pad_left, .pad_right = p->pad_right};
  resolve(&g.out_h, &g.pad_top, &g.pad_bottom, p->padding, in_h, (k_h - 1) * p->dilation_h + 1, p->stride_h);
  resolve(&g.out_w, &g.pad_left, &g.pad_right, p->padding, in_w, (k_w - 1) * p->dilation_w + 1, p->stride_w);
  return g;
}

od_conv_geometry od_pool_resolve(const od_pool_params *p, int64_t in_h, int64_t in_w) {
  od_conv_params c = {.stride_h = p->stride_h, .stride_w = p->stride_w, .dilation_h = 1, .dilation_w = 1, .padding = p->padding};
  return od_conv_resolve(&c, in_h, in_w, p->window_h, p->window_w);
}

od_conv_geometry od_conv_of(const od_conv_params *p, const od_tensor *x, const od_tensor *w) {
  return od_conv_resolve(p, x->shape.dim[1], x->shape.dim[2], w->shape.dim[0], w->shape.dim[1]);
}

od_status od_conv_infer(const od_infer *c, const od_type *x, const od_type *w, bool depthwise, od_type *out) {
  const od_conv_params *p = c->params;
  char tx[OD_SHAPE_TEXT], tw[OD_SHAPE_TEXT];
  if (x->dtype != OD_F32 || w->dtype != OD_F32 || x->shape.rank != 4 || w->shape.rank != 4)
    return od_fail(OD_EINVAL, "input %s %s and filter %s %s must be float32 with 4 dimensions", od_dtype_name(x->dtype),
                   od_shape_text(tx, &x->shape), od_dtype_name(w->dtype), od_shape_text(tw, &w->shape));
  const int64_t *xd = x->shape.dim, *wd = w->shape.dim;
  if (xd[3] >= 0 && wd[2] >= 0 && xd[3] != wd[2])
    return od_fail(OD_EINVAL, "the input has %lld channels (%s), the filter is for %lld (%s)", (long long)xd[3],
                   od_shape_text(tx, &x->shape), (long long)wd[2], od_shape_text(tw, &w->shape));
  if (p->padding != OD_PAD_EXPLICIT && (p->pad_top || p->pad_bottom || p->pad_left || p->pad_right))
    return od_fail(OD_EINVAL, "amounts of padding are given with padding %s", od_padding_names[p->padding]);
  od_conv_geometry g = od_conv_resolve(p, xd[1] < 0 ? 0 : xd[1], xd[2] < 0 ? 0 : xd[2], wd[0] < 0 ? 1 : wd[0], wd[1] < 0 ? 1 : wd[1]);
  /* SAME does not depend on the filter's size */
  bool free_of_w = p->padding == OD_PAD_SAME;
  int64_t channels = xd[3] >= 0 ? xd[3] : wd[2];
  *out = (od_type){OD_F32, {4, {xd[0], xd[1] < 0 || (wd[0] < 0 && !free_of_w) ? -1 : g.out_h,
                                xd[2] < 0 || (wd[1] < 0 && !free_of_w) ? -1 : g.out_w,
                                !depthwise ? wd[3] : channels < 0 || wd[3] < 0 ? -1 : channels * wd[3]}}};
  return OD_OK;
}

static const char *pad_tf(od_tf *t, const od_conv_params *p, const char *x) {
  const int32_t amounts[8] = {0, 0, (int32_t)p->pad_top, (int32_t)p->pad_bottom, (int32_t)p->pad_left, (int32_t)p->pad_right, 0, 0};
  od_tensor v = {OD_I32, OD_SHAPE(4, 2), (void *)(uintptr_t)amounts};
  const char *name = od_tf_op(t, "Pad", "Pad", OD_F32, OD_TF_INPUTS(x, od_tf_const(t, "paddings", &v)));
  od_tf_attr_type(t, "Tpaddings", OD_I32);
  return name;
}

od_status od_conv_tf(od_tf *t, const od_node *n, const char *op) {
  const od_conv_params *p = n->params;
  const char *x = od_tf_in(t, 0);
  if (p->padding == OD_PAD_EXPLICIT) x = pad_tf(t, p, x);
  const char *y = od_tf_op(t, op, NULL, OD_F32, OD_TF_INPUTS(x, od_tf_in(t, 1)));
  od_tf_attr_ints(t, "strides", (const int64_t[]){1, p->stride_h, p->stride_w, 1}, 4);
  od_tf_attr_text(t, "padding", p->padding == OD_PAD_SAME ? "SAME" : "VALID");
  od_tf_attr_text(t, "data_format", "NHWC");
  /* the attribute is younger than the op: left out where it says nothing, so that old programs read the graph */
  if (p->dilation_h != 1 || p->dilation_w != 1)
    od_tf_attr_ints(t, "dilations", (const int64_t[]){1, p->dilation_h, p->dilation_w, 1}, 4);
  od_tf_out(t, 0, y);
  return OD_OK;
}
