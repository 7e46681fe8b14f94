/* The list of ops: one line each, sorted. The const table od_op_<name> stands in ops/<name>.c (or a file of its family). */
#ifndef OD_OPS_OP_LIST_H
#define OD_OPS_OP_LIST_H

#define OD_OP_LIST(X)                                                                                                 \
  X(add)                                                                                                              \
  X(batch_norm)                                                                                                       \
  X(batch_norm_grad)                                                                                                  \
  X(batch_norm_train)                                                                                                 \
  X(batch_norm_train_grad)                                                                                            \
  X(bias_add)                                                                                                         \
  X(bias_add_grad)                                                                                                    \
  X(boxes_inside)                                                                                                     \
  X(boxes_to_absolute)                                                                                                \
  X(boxes_to_normalized)                                                                                              \
  X(change_coordinate_frame)                                                                                          \
  X(classification_loss)                                                                                              \
  X(classification_loss_grad)                                                                                         \
  X(clip_boxes)                                                                                                       \
  X(clip_window)                                                                                                      \
  X(const)                                                                                                            \
  X(conv2d)                                                                                                           \
  X(conv2d_grad_filter)                                                                                               \
  X(conv2d_grad_input)                                                                                                \
  X(decode_boxes)                                                                                                     \
  X(depthwise_conv2d)                                                                                                 \
  X(depthwise_conv2d_grad_filter)                                                                                     \
  X(depthwise_conv2d_grad_input)                                                                                      \
  X(elu)                                                                                                              \
  X(elu_grad)                                                                                                         \
  X(encode_boxes)                                                                                                     \
  X(flexible_anchors)                                                                                                 \
  X(grid_anchors)                                                                                                     \
  X(input)                                                                                                            \
  X(iou_matrix)                                                                                                       \
  X(localization_loss)                                                                                                \
  X(localization_loss_grad)                                                                                           \
  X(multiscale_anchors)                                                                                               \
  X(relu)                                                                                                             \
  X(relu6)                                                                                                            \
  X(relu6_grad)                                                                                                       \
  X(relu_grad)                                                                                                        \
  X(sigmoid)                                                                                                          \
  X(sigmoid_grad)                                                                                                     \
  X(ssd_anchors)                                                                                                      \
  X(tanh)                                                                                                             \
  X(tanh_grad)                                                                                                        \
  X(variable)

#endif
