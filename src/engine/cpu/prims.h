/* Primitives that steps and plans share: two convolutions of one shape are one primitive. A ResNet-101 has 340 convolutions and
 * gradients of some 75 shapes, and describing one anew costs the library as much as looking whether it has it, so a plan for a new
 * shape of pictures is made several times faster so. Same names and errors as in dnnl_compat.h; what comes out is freed with
 * od_prim_free, and destroyed when the last plan that uses it is gone. Thread-safe. */
#ifndef OD_ENGINE_CPU_PRIMS_H
#define OD_ENGINE_CPU_PRIMS_H

#include <pthread.h>

#include "engine/cpu/dnnl_compat.h"

enum { OD_PRIM_BUCKETS = 1024 };
typedef struct {
  pthread_mutex_t lock;
  dnnl_engine_t engine; /* borrowed */
  od_shared_prim *bucket[OD_PRIM_BUCKETS];
} od_prims;

void od_prims_init(od_prims *p);    /* the engine is set by the owner */
void od_prims_destroy(od_prims *p); /* all primitives must have been freed */

OD_MUST_CHECK od_status od_prims_conv(od_prim *out, od_prims *p, od_pass pass, const od_conv_shape *s, od_dtype type, bool bias, od_act act,
                                      bool add, bool many_shapes);
OD_MUST_CHECK od_status od_prims_pool(od_prim *out, od_prims *p, od_pass pass, const od_pool_shape *s, bool max, od_dtype type);
OD_MUST_CHECK od_status od_prims_matmul(od_prim *out, od_prims *p, const od_matmul_shape *s, od_dtype type_in, od_dtype type_out);
OD_MUST_CHECK od_status od_prims_reorder(od_prim *out, od_prims *p, od_mdp from, od_mdp to);

/* One user less; destroys when it was the last. For od_prim_free. */
void od_prims_release(od_shared_prim *shared);

#endif
