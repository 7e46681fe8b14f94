/* The kernels in the order in which nodes are offered to them: the first that takes a node computes it. */
#include "engine/cpu/cpu.h"

#define KERNELS(X)                                                                                                    \
  X(conv2d_adding)                                                                                                    \
  X(conv2d)                                                                                                           \
  X(depthwise_grad_filter)                                                                                            \
  X(depthwise_grad_input)                                                                                             \
  X(conv2d_grad_input)                                                                                                \
  X(pointwise_grad_filter)                                                                                            \
  X(conv2d_grad_filter)                                                                                               \
  X(batch_norm)                                                                                                       \
  X(activation_batch_norm_grad)                                                                                       \
  X(batch_norm_grad)                                                                                                  \
  X(bias_grad)                                                                                                        \
  X(fold_batch_norm_grad)                                                                                             \
  X(pool)                                                                                                             \
  X(avg_pool_grad)                                                                                                    \
  X(max_pool_grad)                                                                                                    \
  X(matmul)                                                                                                           \
  X(elementwise)                                                                                                      \
  X(optimizer)                                                                                                        \
  X(reduce_sum)                                                                                                       \
  X(norm)                                                                                                             \
  X(copy)                                                                                                             \
  X(crop)                                                                                                             \
  X(crop_grad)                                                                                                        \
  X(miner)                                                                                                            \
  X(sigmoid_loss)                                                                                                     \
  X(rows)                                                                                                             \
  X(ref)

#define X(name) extern const od_cpu_kernel od_cpu_##name;
KERNELS(X)
#undef X

static const od_cpu_kernel *const kernels[] = {
#define X(name) &od_cpu_##name,
    KERNELS(X)
#undef X
};

const od_cpu_kernel *od_cpu_kernel_at(size_t i) { return i < sizeof kernels / sizeof *kernels ? kernels[i] : NULL; }
