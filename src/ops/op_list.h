/* The list of ops: one line each, sorted. The const table od_op_<name> stands in ops/<name>.c (or a file of its family). */
#ifndef OD_OPS_OP_LIST_H
#define OD_OPS_OP_LIST_H

#define OD_OP_LIST(X)                                                                                                 \
  X(add)                                                                                                              \
  X(classification_loss)                                                                                              \
  X(classification_loss_grad)                                                                                         \
  X(const)                                                                                                            \
  X(conv2d)                                                                                                           \
  X(conv2d_grad_filter)                                                                                               \
  X(conv2d_grad_input)                                                                                                \
  X(depthwise_conv2d)                                                                                                 \
  X(depthwise_conv2d_grad_filter)                                                                                     \
  X(depthwise_conv2d_grad_input)                                                                                      \
  X(input)                                                                                                            \
  X(localization_loss)                                                                                                \
  X(localization_loss_grad)                                                                                           \
  X(relu6)                                                                                                            \
  X(relu6_grad)                                                                                                       \
  X(variable)

#endif
