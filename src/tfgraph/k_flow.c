/* Control flow, constants, checks and TensorArrays. Enter, Exit, NextIteration and Merge are walked by exec.c; of them only
 * what a plain step needs stands here. */
#include <stdio.h>
#include <string.h>

#include "tfgraph/kernel.h"

od_status tg_identity(tg_call *c) {
  for (int i = 0; i < c->n_out; i++) OD_TRY(tg_share_out(c, i, i, NULL));
  return OD_OK;
}

static od_status loop_cond_run(tg_call *c) {
  OD_TRY(tg_rank(c, 0, 0));
  return tg_identity(c);
}

static od_status const_run(tg_call *c) { return tg_constant(c->graph, (tg_node *)(uintptr_t)c->node, &c->out[0]); }

static od_status nothing_run(tg_call *c) {
  (void)c;
  return OD_OK;
}

static od_status switch_run(tg_call *c) {
  const od_tensor *p = tg_in(c, 1);
  OD_TRY(tg_rank(c, 1, 0));
  int taken = *(const uint8_t *)p->data != 0;
  c->out[1 - taken].dead = true;
  return tg_share_out(c, taken, 0, NULL);
}

/* A value for a message, as TensorFlow's Assert prints it: the first few elements. */
static void value_text(char *text, size_t size, const od_tensor *t, int64_t most) {
  int64_t n = od_tensor_size(t);
  size_t at = 0;
  for (int64_t i = 0; i < n && i < most && at + 1 < size; i++) {
    int wrote = 0;
    if (t->dtype == OD_STRING) {
      const od_bytes *b = (const od_bytes *)t->data + i;
      wrote = snprintf(text + at, size - at, "%s%.*s", i ? " " : "", (int)(b->size < 200 ? b->size : 200),
                       b->data ? b->data : "");
    } else if (t->dtype == OD_F32) {
      wrote = snprintf(text + at, size - at, "%s%g", i ? " " : "", (double)((const float *)t->data)[i]);
    } else if (t->dtype == OD_I32) {
      wrote = snprintf(text + at, size - at, "%s%d", i ? " " : "", ((const int32_t *)t->data)[i]);
    } else if (t->dtype == OD_I64) {
      wrote = snprintf(text + at, size - at, "%s%lld", i ? " " : "", (long long)((const int64_t *)t->data)[i]);
    } else {
      wrote = snprintf(text + at, size - at, "%s?", i ? " " : "");
    }
    if (wrote > 0) at += (size_t)wrote;
  }
  if (at == 0 && size) text[0] = 0;
}

static od_status assert_run(tg_call *c) {
  const od_tensor *p = tg_in(c, 0);
  OD_TRY(tg_rank(c, 0, 0));
  if (*(const uint8_t *)p->data) return OD_OK;
  char text[700] = "";
  size_t at = 0;
  int64_t most = tg_attr_int(c->node, "summarize", 3);
  for (int i = 1; i < c->n_in && at + 2 < sizeof text; i++) {
    if (i > 1) text[at++] = ' ';
    value_text(text + at, sizeof text - at, tg_in(c, i), most);
    at += strlen(text + at);
  }
  return tg_fail(c, "the assertion does not hold: %s", text);
}

/* -------------------------------------------------------------------------------------------------------- TensorArray */
struct tg_array {
  int refs;
  od_dtype dtype;
  bool dynamic, clear, identical; /* identical: the first element fixes the shape of all */
  od_shape element;               /* rank -1: unknown; dimensions of -1 */
  int64_t n;
  size_t cap;
  tg_value *v;
  bool *written;
  size_t written_cap;
};

enum { ARRAY_MAX = 1 << 24 };

tg_array *tg_array_share(tg_array *a) {
  a->refs++;
  return a;
}

void tg_array_drop(od_tfgraph *g, tg_array *a) {
  if (--a->refs > 0) return;
  for (int64_t i = 0; i < a->n; i++) tg_value_drop(g, &a->v[i]);
  od_free(a->v);
  od_free(a->written);
  od_free(a);
}

static od_status array_resize(tg_call *c, tg_array *a, int64_t n) {
  if (n < 0 || n > ARRAY_MAX || (size_t)n > c->graph->max_bytes / sizeof *a->v)
    return tg_fail(c, "a TensorArray of %lld elements", (long long)n);
  OD_TRY(tg_work(c, n - a->n, 1));
  OD_TRY(od_grow(&a->v, &a->cap, (size_t)n + 1, sizeof *a->v));
  OD_TRY(od_grow(&a->written, &a->written_cap, (size_t)n + 1, sizeof *a->written));
  for (; a->n < n; a->n++) {
    a->v[a->n] = (tg_value){0};
    a->written[a->n] = false;
  }
  return OD_OK;
}

static od_status flow_out(tg_call *c, int i) {
  OD_TRY(tg_new_out(c, i, OD_F32, &OD_SCALAR));
  *(float *)c->out[i].t.data = 0;
  return OD_OK;
}

static od_status array_new(tg_call *c) {
  int64_t n;
  OD_TRY(tg_int(c, 0, &n));
  tg_array *a;
  OD_TRY(od_new(&a, 1, sizeof *a));
  *a = (tg_array){.refs = 1,
                  .dynamic = tg_attr_bool(c->node, "dynamic_size", false),
                  .clear = tg_attr_bool(c->node, "clear_after_read", true),
                  .identical = tg_attr_bool(c->node, "identical_element_shapes", false),
                  .element = {.rank = -1}};
  c->out[0] = (tg_value){.array = a};
  if (!od_dtype_from_tf(&a->dtype, tg_attr_type(c->node, "dtype"))) return tg_fail(c, "elements of an unknown type");
  (void)tg_attr_shape(c->node, "element_shape", &a->element);
  OD_TRY(array_resize(c, a, n));
  return flow_out(c, 1);
}

static od_status array_at(tg_call *c, tg_array **out, int64_t *index, bool writing) {
  tg_array *a = c->in[0]->array;
  OD_TRY(tg_int(c, 1, index));
  if (writing && a->dynamic && *index >= a->n) OD_TRY(array_resize(c, a, *index + 1));
  if (*index < 0 || *index >= a->n)
    return tg_fail(c, "element %lld of a TensorArray of %lld", (long long)*index, (long long)a->n);
  *out = a;
  return OD_OK;
}

static od_status check_dtype(tg_call *c, const tg_array *a, od_dtype dtype) {
  if (a->dtype == dtype) return OD_OK;
  return tg_fail(c, "the TensorArray holds %s, the attribute says %s", od_dtype_name(a->dtype), od_dtype_name(dtype));
}

static od_status array_read(tg_call *c) {
  tg_array *a;
  int64_t i;
  OD_TRY(array_at(c, &a, &i, false));
  OD_TRY(check_dtype(c, a, tg_out_type(c, 0)));
  if (!a->written[i]) return tg_fail(c, "element %lld was not written, or was read before", (long long)i);
  c->out[0] = tg_value_share(&a->v[i]);
  if (a->clear) {
    tg_value_drop(c->graph, &a->v[i]);
    a->written[i] = false;
  }
  return OD_OK;
}

/* A shape that attributes demand (-1: any) and what is there: fills in what was not known. */
static od_status merge_shape(tg_call *c, od_shape *want, const od_shape *have) {
  char t1[OD_SHAPE_TEXT], t2[OD_SHAPE_TEXT];
  if (have->rank < 0) return OD_OK;
  bool fits = want->rank < 0 || want->rank == have->rank;
  for (int i = 0; fits && i < want->rank; i++)
    fits = want->dim[i] < 0 || have->dim[i] < 0 || want->dim[i] == have->dim[i];
  if (!fits)
    return tg_fail(c, "an element is %s, the TensorArray's are %s", od_shape_text(t1, have), od_shape_text(t2, want));
  if (want->rank < 0) *want = *have;
  for (int i = 0; i < want->rank; i++)
    if (want->dim[i] < 0) want->dim[i] = have->dim[i];
  return OD_OK;
}

static od_status put_element(tg_call *c, tg_array *a, int64_t i, tg_value v) {
  od_shape merged = a->element;
  od_status st = a->written[i] ? tg_fail(c, "element %lld is written twice", (long long)i)
                               : merge_shape(c, &merged, &v.t.shape);
  if (st != OD_OK) {
    tg_value_drop(c->graph, &v);
    return st;
  }
  if (a->identical) a->element = merged;
  a->v[i] = v;
  a->written[i] = true;
  return OD_OK;
}

static od_status array_write(tg_call *c) {
  tg_array *a;
  int64_t i;
  OD_TRY(array_at(c, &a, &i, true));
  OD_TRY(check_dtype(c, a, tg_in(c, 2)->dtype));
  OD_TRY(put_element(c, a, i, tg_value_share(c->in[2])));
  return flow_out(c, 0);
}

static od_status array_scatter(tg_call *c) {
  tg_array *a = c->in[0]->array;
  const od_tensor *indices = tg_in(c, 1), *x = tg_in(c, 2);
  OD_TRY(check_dtype(c, a, x->dtype));
  OD_TRY(tg_rank(c, 1, 1));
  int64_t n = indices->shape.dim[0];
  if (x->shape.rank < 1 || x->shape.dim[0] != n)
    return tg_fail(c, "the value's first dimension is not the number of indices");
  od_shape row = {.rank = x->shape.rank - 1};
  memcpy(row.dim, x->shape.dim + 1, sizeof *row.dim * (size_t)row.rank);
  int64_t size = od_shape_size(&row);
  OD_TRY(merge_shape(c, &a->element, &row)); /* as in TensorFlow, also of no rows */
  for (int64_t k = 0; k < n; k++) {
    int64_t i = ((const int32_t *)indices->data)[k];
    if (a->dynamic && i >= a->n) OD_TRY(array_resize(c, a, i + 1));
    if (i < 0 || i >= a->n) return tg_fail(c, "element %lld of a TensorArray of %lld", (long long)i, (long long)a->n);
    tg_value v;
    OD_TRY(tg_value_new(c->graph, &v, x->dtype, &row));
    od_status st =
        tg_copy_elements(x->dtype, v.t.data, (char *)x->data + (size_t)(k * size) * od_dtype_size(x->dtype), size);
    if (st != OD_OK) tg_value_drop(c->graph, &v);
    OD_TRY(st);
    OD_TRY(put_element(c, a, i, v));
  }
  return flow_out(c, 0);
}

static od_status array_gather(tg_call *c) {
  tg_array *a = c->in[0]->array;
  const od_tensor *indices = tg_in(c, 1);
  od_dtype dtype = tg_out_type(c, 0);
  OD_TRY(check_dtype(c, a, dtype));
  OD_TRY(tg_rank(c, 1, 1));
  int64_t n = indices->shape.dim[0];
  const int32_t *index = indices->data;
  od_shape element = {.rank = -1}, all;
  (void)tg_attr_shape(c->node, "element_shape", &element);
  OD_TRY(merge_shape(c, &element, &a->element));
  for (int64_t k = 0; k < n; k++) {
    if (index[k] < 0 || index[k] >= a->n)
      return tg_fail(c, "element %d of a TensorArray of %lld", index[k], (long long)a->n);
    if (!a->written[index[k]]) return tg_fail(c, "element %d was not written, or was read before", index[k]);
    const od_shape *s = &a->v[index[k]].t.shape;
    const od_shape *first = &a->v[index[0]].t.shape;
    char t1[OD_SHAPE_TEXT], t2[OD_SHAPE_TEXT];
    if (!od_shape_equal(s, first))
      return tg_fail(c, "the elements have different shapes: %s and %s", od_shape_text(t1, first),
                     od_shape_text(t2, s));
  }
  if (n > 0) OD_TRY(merge_shape(c, &element, &a->v[index[0]].t.shape));
  if (!od_shape_known(&element)) return tg_fail(c, "no element tells the shape of the stack");
  if (element.rank == OD_MAX_RANK) return tg_fail(c, "rank above %d", OD_MAX_RANK);
  all.rank = element.rank + 1;
  all.dim[0] = n;
  memcpy(all.dim + 1, element.dim, sizeof *all.dim * (size_t)element.rank);
  OD_TRY(tg_new_out(c, 0, dtype, &all));
  int64_t size = od_shape_size(&element);
  for (int64_t k = 0; k < n; k++) {
    char *to = (char *)c->out[0].t.data + (size_t)(k * size) * od_dtype_size(dtype);
    OD_TRY(tg_copy_elements(dtype, to, a->v[index[k]].t.data, size));
    if (!a->clear) continue;
    tg_value_drop(c->graph, &a->v[index[k]]);
    a->written[index[k]] = false;
  }
  return OD_OK;
}

static od_status array_size(tg_call *c) {
  OD_TRY(tg_new_out(c, 0, OD_I32, &OD_SCALAR));
  *(int32_t *)c->out[0].t.data = (int32_t)c->in[0]->array->n;
  return OD_OK;
}

const tg_kernel tg_kernels_flow[] = {
    {"Assert", "bool,T...->", "T summarize?", assert_run, 0},
    {"Const", "->dtype", "dtype value", const_run, 0},
    {"Enter", "T->T", "T frame_name is_constant? parallel_iterations?", tg_identity, 0},
    {"Exit", "T->T", "T", tg_identity, 0},
    {"Identity", "T->T", "T", tg_identity, 0},
    {"IdentityN", "T...->T...", "T", tg_identity, 0},
    {"LoopCond", "bool->bool", "", loop_cond_run, 0},
    {"Merge", "N*T->T,int32", "T N", tg_identity, 0},
    {"NextIteration", "T->T", "T", tg_identity, 0},
    {"NoOp", "->", "", nothing_run, 0},
    {"Placeholder", "->dtype", "dtype shape?", nothing_run, 0},
    {"PlaceholderWithDefault", "dtype->dtype", "dtype shape?", tg_identity, 0},
    {"PreventGradient", "T->T", "T message?", tg_identity, 0},
    {"Snapshot", "T->T", "T", tg_identity, 0},
    {"StopGradient", "T->T", "T", tg_identity, 0},
    {"Switch", "T,bool->T,T", "T", switch_run, 0},
    {"TensorArrayCloseV3", "resource->", "", nothing_run, 0},
    {"TensorArrayGatherV3", "resource,int32,float->dtype", "dtype element_shape?", array_gather, 0},
    {"TensorArrayReadV3", "resource,int32,float->dtype", "dtype", array_read, 0},
    {"TensorArrayScatterV3", "resource,int32,T,float->float", "T", array_scatter, 0},
    {"TensorArraySizeV3", "resource,float->int32", "", array_size, 0},
    {"TensorArrayV3", "int32->resource,float",
     "dtype element_shape? dynamic_size? clear_after_read? identical_element_shapes? tensor_array_name?", array_new, 0},
    {"TensorArrayWriteV3", "resource,int32,T,float->float", "T", array_write, 0},
    {0},
};
