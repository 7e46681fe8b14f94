/* ResNet v1; see resnet_v1.h. */
#include "model/resnet_v1.h"

#include <stdio.h>

#include "ops/math.h"

const od_resnet_v1 od_resnet_v1_50 = {"resnet_v1_50", {3, 4, 6, 3}};
const od_resnet_v1 od_resnet_v1_101 = {"resnet_v1_101", {3, 4, 23, 3}};
const od_resnet_v1 od_resnet_v1_152 = {"resnet_v1_152", {3, 8, 36, 3}};

od_style od_resnet_v1_style(bool training, bool train_batch_norm, float weight_decay) {
  return (od_style){.activation = OD_ACT_RELU, .batch_norm = true, .bn_decay = 0.997f, .bn_epsilon = 1e-5f, .bn_center = true,
                    .bn_scale = true, .bn_training = training && train_batch_norm, .bn_fold = training,
                    .regularizer = weight_decay > 0 ? OD_REG_L2 : OD_REG_NONE, .weight_decay = weight_decay,
                    .init = OD_WINIT_VARIANCE_SCALING, .factor = 2};
}

/* What is left to stride, and the dilation that stands for strides not taken. */
typedef struct {
  int current, target; /* target 0: no limit */
  int rate;
} striding;

static od_value conv(od_graph *g, const od_style *s, const char *name, od_value x, int64_t channels, int64_t k, int64_t stride,
                     int64_t rate) {
  od_layer l = {.channels = channels, .kernel_h = k, .kernel_w = k, .stride = stride, .dilation = rate,
                .explicit_padding = stride > 1 && k > 1};
  return od_layer_conv(g, s, name, x, &l);
}

/* relu(shortcut + conv3(conv2(conv1(x)))). The shortcut is x itself, thinned out by the stride, or a 1x1 convolution where the
 * number of channels changes. */
static od_value bottleneck(od_graph *g, const od_style *s, od_value x, int64_t depth, int stride, int rate) {
  od_style linear = *s;
  linear.activation = OD_ACT_NONE;
  od_value shortcut = x;
  if (od_dim(x, -1) != 4 * depth)
    shortcut = conv(g, &linear, "shortcut", x, 4 * depth, 1, stride, 1);
  else if (stride > 1)
    shortcut = od_max_pool(g, x, &(od_pool_params){1, 1, stride, stride, OD_PAD_SAME});
  od_value y = conv(g, s, "conv1", x, depth, 1, 1, 1);
  y = conv(g, s, "conv2", y, depth, 3, stride, rate);
  y = conv(g, &linear, "conv3", y, 4 * depth, 1, 1, 1);
  return od_layer_activate(g, s->activation, od_add(g, shortcut, y));
}

/* last_stride: nominal stride of the block's last unit. */
static od_value block(od_graph *g, const od_style *s, int number, od_value x, int units, int last_stride, striding *at) {
  char name[32];
  int64_t depth = (int64_t)64 << (number - 1);
  snprintf(name, sizeof name, "block%d", number);
  od_scope_push(g, name);
  for (int i = 1; i <= units; i++) {
    int stride = i == units ? last_stride : 1;
    bool reached = at->current == at->target;
    snprintf(name, sizeof name, "unit_%d", i);
    od_scope_push(g, name);
    od_scope_push(g, "bottleneck_v1");
    x = bottleneck(g, s, x, depth, reached ? 1 : stride, reached ? at->rate : 1);
    od_scope_pop(g);
    od_scope_pop(g);
    if (reached) at->rate *= stride;
    else at->current *= stride;
  }
  od_scope_pop(g);
  return x;
}

void od_resnet_v1_build(od_graph *g, const od_resnet_v1 *r, const od_style *s, od_value x, int output_stride,
                        od_value blocks[OD_RESNET_BLOCKS]) {
  striding at = {1, output_stride / 4, 1}; /* conv1 and the pooling take 4 */
  od_scope_push(g, r->scope);
  x = conv(g, s, "conv1", x, 64, 7, 2, 1);
  x = od_max_pool(g, x, &(od_pool_params){3, 3, 2, 2, OD_PAD_SAME});
  for (int i = 0; i < OD_RESNET_BLOCKS; i++) blocks[i] = x = block(g, s, i + 1, x, r->units[i], i < 3 ? 2 : 1, &at);
  od_scope_pop(g);
}

od_value od_resnet_v1_last_block(od_graph *g, const od_resnet_v1 *r, const od_style *s, od_value x) {
  striding at = {1, 0, 1};
  od_scope_push(g, r->scope);
  x = block(g, s, OD_RESNET_BLOCKS, x, 3, 1, &at);
  od_scope_pop(g);
  return x;
}
