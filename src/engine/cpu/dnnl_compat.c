/* What differs between oneDNN 2.6 and 3.x; see dnnl_compat.h. 3.x made memory descriptions opaque, dropped the operation
 * descriptors between a wish and a primitive description, and the scale of a fused activation. */
#include "engine/cpu/dnnl_compat.h"

#include <string.h>

#include "engine/cpu/prims.h"

#define NEW_API (DNNL_VERSION_MAJOR >= 3)

od_status od_dnnl_status(dnnl_status_t st, const char *what) {
  if (st == dnnl_success) return OD_OK;
  od_status code = st == dnnl_out_of_memory                                         ? OD_ENOMEM
                   : st == dnnl_unimplemented || st == dnnl_invalid_arguments       ? OD_EUNSUPPORTED
                                                                                    : OD_EINVAL;
  return od_fail(code, "oneDNN %d.%d, %s: %s", DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR, what,
                 st == dnnl_unimplemented        ? "not implemented"
                 : st == dnnl_invalid_arguments  ? "invalid arguments"
                 : st == dnnl_out_of_memory      ? "out of memory"
                                                 : "runtime error");
}

/* ------------------------------------------------------------------------------------------------------- descriptions */
static dnnl_data_type_t data_type(od_dtype t) { return t == OD_BF16 ? dnnl_bf16 : dnnl_f32; }

od_mdp od_md_of(const od_md *m) {
#if NEW_API
  return m->set ? m->d : NULL;
#else
  return m->set ? &m->d : NULL;
#endif
}

od_status od_md_new(od_md *out, int rank, const int64_t *dims, const int64_t *strides, od_dtype dtype) {
  dnnl_status_t st;
  dnnl_dims_t size = {0}, step = {0}; /* the library's arrays have a fixed length */
  for (int i = 0; i < rank; i++) {
    size[i] = dims[i];
    step[i] = strides ? strides[i] : 0;
  }
  *out = (od_md){0};
#if NEW_API
  st = strides ? dnnl_memory_desc_create_with_strides(&out->d, rank, size, data_type(dtype), step)
               : dnnl_memory_desc_create_with_tag(&out->d, rank, size, data_type(dtype), dnnl_format_tag_any);
#else
  st = strides ? dnnl_memory_desc_init_by_strides(&out->d, rank, size, data_type(dtype), step)
               : dnnl_memory_desc_init_by_tag(&out->d, rank, size, data_type(dtype), dnnl_format_tag_any);
#endif
  out->set = st == dnnl_success;
  return od_dnnl_status(st, "memory description");
}

od_status od_md_copy(od_md *out, od_mdp from) {
  *out = (od_md){0};
#if NEW_API
  dnnl_status_t st = dnnl_memory_desc_clone(&out->d, from);
  out->set = st == dnnl_success;
  return od_dnnl_status(st, "copy of a memory description");
#else
  out->d = *from;
  out->set = true;
  return OD_OK;
#endif
}

void od_md_free(od_md *m) {
#if NEW_API
  if (m->set) dnnl_memory_desc_destroy(m->d);
#endif
  m->set = false;
}

bool od_md_equal(od_mdp a, od_mdp b) { return dnnl_memory_desc_equal(a, b) != 0; }
size_t od_md_bytes(od_mdp m) { return m ? dnnl_memory_desc_get_size(m) : 0; }

/* --------------------------------------------------------------------------------------------------------- primitives */
void od_prim_free(od_prim *p) {
  if (p->shared) od_prims_release(p->shared);
  else {
    if (p->prim) dnnl_primitive_destroy(p->prim);
    if (p->pd) dnnl_primitive_desc_destroy(p->pd);
  }
  *p = (od_prim){0};
}

od_mdp od_prim_md(const od_prim *p, dnnl_query_t what) { return dnnl_primitive_desc_query_md(p->pd, what, 0); }
size_t od_prim_scratch(const od_prim *p) { return od_md_bytes(od_prim_md(p, dnnl_query_scratchpad_md)); }

const char *od_prim_impl(const od_prim *p) {
  const char *name = NULL;
  if (!p->pd || dnnl_primitive_desc_query(p->pd, dnnl_query_impl_info_str, 0, (void *)&name) != dnnl_success || !name) return "?";
  return name;
}

/* Takes over pd: creates the primitive, or frees the description. */
static od_status finish(od_prim *out, dnnl_status_t st, dnnl_primitive_desc_t pd, const char *what) {
  *out = (od_prim){0};
  if (st != dnnl_success) return od_dnnl_status(st, what);
  out->pd = pd;
  st = dnnl_primitive_create(&out->prim, pd);
  if (st != dnnl_success) {
    out->prim = NULL;
    od_prim_free(out);
  }
  return od_dnnl_status(st, what);
}

od_status od_mem_new(dnnl_memory_t *out, od_mdp md, dnnl_engine_t engine) {
  return od_dnnl_status(dnnl_memory_create(out, md, engine, DNNL_MEMORY_NONE), "memory object");
}

void od_mem_free(dnnl_memory_t m) {
  if (m) dnnl_memory_destroy(m);
}

void od_mem_set(dnnl_memory_t m, void *data) {
  void *old = NULL;
  if (dnnl_memory_get_data_handle(m, &old) == dnnl_success && old == data) return;
  OD_ASSERT(dnnl_memory_set_data_handle(m, data) == dnnl_success);
}

od_status od_prim_run(const od_prim *p, dnnl_stream_t stream, int n, const dnnl_exec_arg_t *args) {
  dnnl_status_t st = dnnl_primitive_execute(p->prim, stream, n, args);
  if (st == dnnl_success) st = dnnl_stream_wait(stream);
  return od_dnnl_status(st, "execution");
}

/* Scratch memory from the caller; add: sum with the destination, before an activation. */
static od_status attributes(dnnl_primitive_attr_t *out, bool add, od_act act) {
  dnnl_primitive_attr_t a = NULL;
  dnnl_post_ops_t ops = NULL;
  dnnl_status_t st = dnnl_primitive_attr_create(&a);
  if (st == dnnl_success) st = dnnl_primitive_attr_set_scratchpad_mode(a, dnnl_scratchpad_mode_user);
  if (st == dnnl_success && (add || act != OD_ACT_NONE)) {
    st = dnnl_post_ops_create(&ops);
    dnnl_alg_kind_t alg = act == OD_ACT_RELU6 ? dnnl_eltwise_clip : dnnl_eltwise_relu;
    float high = act == OD_ACT_RELU6 ? 6.0f : 0.0f;
#if NEW_API
    if (st == dnnl_success && add) st = dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef);
    if (st == dnnl_success && act != OD_ACT_NONE) st = dnnl_post_ops_append_eltwise(ops, alg, 0.0f, high);
#else
    if (st == dnnl_success && add) st = dnnl_post_ops_append_sum(ops, 1.0f);
    if (st == dnnl_success && act != OD_ACT_NONE) st = dnnl_post_ops_append_eltwise(ops, 1.0f, alg, 0.0f, high);
#endif
    if (st == dnnl_success) st = dnnl_primitive_attr_set_post_ops(a, ops);
    if (ops) dnnl_post_ops_destroy(ops);
  }
  if (st != dnnl_success && a) {
    dnnl_primitive_attr_destroy(a);
    a = NULL;
  }
  *out = a;
  return od_dnnl_status(st, "attributes");
}

/* -------------------------------------------------------------------------------------------------------- convolution */
/* Logical dimensions of the library are N C H W; ours lie as N H W C. */
static od_status image_md(od_md *out, int64_t n, int64_t h, int64_t w, int64_t c, od_dtype t) {
  return od_md_new(out, 4, (int64_t[]){n, c, h, w}, (int64_t[]){h * w * c, 1, w * c, c}, t);
}

static od_status filter_md(od_md *out, const od_conv_shape *s, od_dtype type, bool any) {
  int64_t i = s->c / s->groups, o = s->o / s->groups;
  if (s->groups == 1)
    return od_md_new(out, 4, (int64_t[]){s->o, s->c, s->kh, s->kw},
                     any ? NULL : (int64_t[]){1, s->o, s->kw * s->c * s->o, s->c * s->o}, type);
  /* channel multiplier o, one input channel a group */
  return od_md_new(out, 5, (int64_t[]){s->groups, o, i, s->kh, s->kw},
                   any ? NULL : (int64_t[]){o, 1, s->o, s->kw * s->o, s->o}, type);
}

od_status od_dnnl_filter_md(od_md *out, const od_conv_shape *s, od_dtype type) { return filter_md(out, s, type, false); }

/* Gradients get no hint of the forward convolution: the library takes nothing from it, and describing it costs as much again. */
static dnnl_status_t conv_desc(dnnl_primitive_desc_t *pd, dnnl_engine_t e, od_pass pass, const od_conv_shape *s, od_mdp x, od_mdp w,
                               od_mdp b, od_mdp y, const_dnnl_primitive_attr_t attr) {
  const dnnl_dims_t st = {s->stride_h, s->stride_w}, di = {s->dilation_h - 1, s->dilation_w - 1};
  const dnnl_dims_t pl = {s->pad_top, s->pad_left}, pr = {s->pad_bottom, s->pad_right};
  const dnnl_alg_kind_t direct = dnnl_convolution_direct;
#if NEW_API
  if (pass == OD_PASS_DATA)
    return dnnl_convolution_backward_data_primitive_desc_create(pd, e, direct, x, w, y, st, di, pl, pr, NULL, attr);
  if (pass == OD_PASS_WEIGHTS)
    return dnnl_convolution_backward_weights_primitive_desc_create(pd, e, direct, x, w, b, y, st, di, pl, pr, NULL, attr);
  return dnnl_convolution_forward_primitive_desc_create(pd, e, dnnl_forward_training, direct, x, w, b, y, st, di, pl, pr, attr);
#else
  dnnl_convolution_desc_t c;
  dnnl_status_t r;
  if (pass == OD_PASS_DATA)
    r = dnnl_dilated_convolution_backward_data_desc_init(&c, direct, x, w, y, st, di, pl, pr);
  else if (pass == OD_PASS_WEIGHTS)
    r = dnnl_dilated_convolution_backward_weights_desc_init(&c, direct, x, w, b, y, st, di, pl, pr);
  else
    r = dnnl_dilated_convolution_forward_desc_init(&c, dnnl_forward_training, direct, x, w, b, y, st, di, pl, pr);
  return r == dnnl_success ? dnnl_primitive_desc_create(pd, &c, attr, e, NULL) : r;
#endif
}

/* oneDNN 3.2 keeps what it generated for its "brg" convolutions in a set that nothing ever leaves: 0.3 MB for every new shape of
 * ResNet-50's pictures in float32, 2 MB in bfloat16, also when all primitives are gone. Its older kernels keep nothing. Goes to the
 * first kernel of the list that is not of that kind; false: there is none. */
static bool avoid_hoarders(dnnl_primitive_desc_t pd) {
#if NEW_API
  do {
    const char *name = NULL;
    if (dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, (void *)&name) != dnnl_success || !name) return false;
    if (strncmp(name, "ref", 3) == 0) return false; /* too slow */
    if (strncmp(name, "brg", 3) != 0) return true;
  } while (dnnl_primitive_desc_next_impl(pd) == dnnl_success);
  return false;
#else
  (void)pd;
  return true;
#endif
}

od_status od_dnnl_conv(od_prim *out, dnnl_engine_t engine, od_pass pass, const od_conv_shape *s, od_dtype type, bool bias, od_act act,
                       bool add, bool many_shapes) {
  od_md x = {0}, w = {0}, dw = {0}, b = {0}, y = {0};
  dnnl_primitive_attr_t attr = NULL;
  dnnl_primitive_desc_t pd = NULL;
  od_status st;
  *out = (od_prim){0};
  OD_GO(st, image_md(&x, s->n, s->h, s->w, s->c, type));
  OD_GO(st, image_md(&y, s->n, s->oh, s->ow, s->o, type));
  OD_GO(st, filter_md(&w, s, type, true));
  OD_GO(st, filter_md(&dw, s, OD_F32, true));
  if (bias) OD_GO(st, od_md_new(&b, 1, &s->o, (int64_t[]){1}, OD_F32));
  OD_GO(st, attributes(&attr, add, pass == OD_PASS_FORWARD ? act : OD_ACT_NONE));
  od_mdp filter = od_md_of(pass == OD_PASS_WEIGHTS ? &dw : &w);
  dnnl_status_t r = conv_desc(&pd, engine, pass, s, od_md_of(&x), filter, od_md_of(&b), od_md_of(&y), attr);
  if (r == dnnl_success && many_shapes && !avoid_hoarders(pd)) { /* back to the first */
    dnnl_primitive_desc_destroy(pd);
    pd = NULL;
    r = conv_desc(&pd, engine, pass, s, od_md_of(&x), filter, od_md_of(&b), od_md_of(&y), attr);
  }
  OD_GO(st, finish(out, r, pd, "convolution"));
done:
  if (attr) dnnl_primitive_attr_destroy(attr);
  od_md_free(&x);
  od_md_free(&w);
  od_md_free(&dw);
  od_md_free(&b);
  od_md_free(&y);
  return st;
}

od_status od_dnnl_reorder(od_prim *out, dnnl_engine_t engine, od_mdp from, od_mdp to) {
  dnnl_primitive_attr_t attr = NULL;
  dnnl_primitive_desc_t pd = NULL;
  *out = (od_prim){0};
  OD_TRY(attributes(&attr, false, OD_ACT_NONE));
  dnnl_status_t r = dnnl_reorder_primitive_desc_create(&pd, from, engine, to, engine, attr);
  od_status st = finish(out, r, pd, "reorder");
  dnnl_primitive_attr_destroy(attr);
  return st;
}

/* ------------------------------------------------------------------------------------------------------------ pooling */
static dnnl_status_t pool_desc(dnnl_primitive_desc_t *pd, dnnl_engine_t e, od_pass pass, const od_pool_shape *s, dnnl_alg_kind_t alg,
                               dnnl_prop_kind_t kind, od_mdp x, od_mdp y, const_dnnl_primitive_desc_t hint, const_dnnl_primitive_attr_t attr) {
  const dnnl_dims_t st = {s->stride_h, s->stride_w}, k = {s->kh, s->kw};
  const dnnl_dims_t pl = {s->pad_top, s->pad_left}, pr = {s->pad_bottom, s->pad_right};
#if NEW_API
  const dnnl_dims_t none = {0, 0};
  if (pass == OD_PASS_DATA) return dnnl_pooling_backward_primitive_desc_create(pd, e, alg, x, y, st, k, none, pl, pr, hint, attr);
  return dnnl_pooling_forward_primitive_desc_create(pd, e, kind, alg, x, y, st, k, none, pl, pr, attr);
#else
  dnnl_pooling_desc_t c;
  dnnl_status_t r = pass == OD_PASS_DATA ? dnnl_pooling_backward_desc_init(&c, alg, x, y, st, k, pl, pr)
                                         : dnnl_pooling_forward_desc_init(&c, kind, alg, x, y, st, k, pl, pr);
  return r == dnnl_success ? dnnl_primitive_desc_create(pd, &c, attr, e, hint) : r;
#endif
}

od_status od_dnnl_pool(od_prim *out, dnnl_engine_t engine, od_pass pass, const od_pool_shape *s, bool max, od_dtype type) {
  od_md x = {0}, y = {0};
  dnnl_primitive_attr_t attr = NULL;
  dnnl_primitive_desc_t hint = NULL, pd = NULL;
  const dnnl_alg_kind_t alg = max ? dnnl_pooling_max : dnnl_pooling_avg_exclude_padding;
  od_status st;
  *out = (od_prim){0};
  OD_GO(st, image_md(&x, s->n, s->h, s->w, s->c, type));
  OD_GO(st, image_md(&y, s->n, s->oh, s->ow, s->c, type));
  OD_GO(st, attributes(&attr, false, OD_ACT_NONE));
  if (pass == OD_PASS_DATA)
    OD_GO(st, od_dnnl_status(pool_desc(&hint, engine, OD_PASS_FORWARD, s, alg, dnnl_forward_training, od_md_of(&x), od_md_of(&y), NULL, attr),
                             "pooling"));
  dnnl_status_t r = pool_desc(&pd, engine, pass, s, alg, dnnl_forward_inference, od_md_of(&x), od_md_of(&y), hint, attr);
  OD_GO(st, finish(out, r, pd, "pooling"));
done:
  if (hint) dnnl_primitive_desc_destroy(hint);
  if (attr) dnnl_primitive_attr_destroy(attr);
  od_md_free(&x);
  od_md_free(&y);
  return st;
}

/* ----------------------------------------------------------------------------------------------------------- products */
od_status od_dnnl_matmul(od_prim *out, dnnl_engine_t engine, const od_matmul_shape *s, od_dtype type_in, od_dtype type_out) {
  od_md a = {0}, b = {0}, c = {0};
  dnnl_primitive_attr_t attr = NULL;
  dnnl_primitive_desc_t pd = NULL;
  od_status st;
  *out = (od_prim){0};
  OD_GO(st, od_md_new(&a, 2, (int64_t[]){s->m, s->k}, (int64_t[]){s->a_row, s->a_col}, type_in));
  OD_GO(st, od_md_new(&b, 2, (int64_t[]){s->k, s->n}, (int64_t[]){s->b_row, s->b_col}, type_in));
  OD_GO(st, od_md_new(&c, 2, (int64_t[]){s->m, s->n}, (int64_t[]){s->n, 1}, type_out));
  OD_GO(st, attributes(&attr, false, OD_ACT_NONE));
#if NEW_API
  dnnl_status_t r = dnnl_matmul_primitive_desc_create(&pd, engine, od_md_of(&a), od_md_of(&b), NULL, od_md_of(&c), attr);
#else
  dnnl_matmul_desc_t d;
  dnnl_status_t r = dnnl_matmul_desc_init(&d, od_md_of(&a), od_md_of(&b), NULL, od_md_of(&c));
  if (r == dnnl_success) r = dnnl_primitive_desc_create(&pd, &d, attr, engine, NULL);
#endif
  OD_GO(st, finish(out, r, pd, "matrix product"));
done:
  if (attr) dnnl_primitive_attr_destroy(attr);
  od_md_free(&a);
  od_md_free(&b);
  od_md_free(&c);
  return st;
}
