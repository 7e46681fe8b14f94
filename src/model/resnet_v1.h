/* ResNet v1 with bottlenecks (He et al., Deep Residual Learning for Image Recognition, 2016) as slim builds it.
 *
 * slim differs from the paper and from later libraries where it strides: in the LAST unit of a block, with padding (k-1)/2 on
 * both sides whatever the picture's size, and only until the wanted output stride is reached; from there on the strides become
 * dilation of what follows. */
#ifndef OD_MODEL_RESNET_V1_H
#define OD_MODEL_RESNET_V1_H

#include "model/layers.h"

enum { OD_RESNET_BLOCKS = 4 };
typedef struct {
  const char *scope; /* slim's name: "resnet_v1_101" */
  int units[OD_RESNET_BLOCKS];
} od_resnet_v1;
extern const od_resnet_v1 od_resnet_v1_50, od_resnet_v1_101, od_resnet_v1_152;

/* slim's resnet_arg_scope. train_batch_norm: batch statistics, else moving ones (gamma and beta are trainable either way); in a
 * graph for training those are folded into the convolutions. */
od_style od_resnet_v1_style(bool training, bool train_batch_norm, float weight_decay);

/* x [B,H,W,C] -> blocks[i] the output of block i + 1. output_stride: 8 or 16. Variables below the present scope:
 * <scope>/conv1, <scope>/block<i>/unit_<u>/bottleneck_v1/{shortcut,conv1,conv2,conv3}. */
void od_resnet_v1_build(od_graph *g, const od_resnet_v1 *r, const od_style *s, od_value x, int output_stride,
                        od_value blocks[OD_RESNET_BLOCKS]);

/* Block 4 alone on crops of a feature map, without stride or dilation: <scope>/block4/... */
od_value od_resnet_v1_last_block(od_graph *g, const od_resnet_v1 *r, const od_style *s, od_value x);

#endif
