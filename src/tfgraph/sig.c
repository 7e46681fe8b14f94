/* Binding a node to its kernel: the op must be known, its attributes must be those the op has, its inputs as many as its
 * signature says. TensorFlow refuses the same files for the same reasons. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tfgraph/kernel.h"

static const tg_kernel *const tables[] = {tg_kernels_array, tg_kernels_flow,   tg_kernels_image, tg_kernels_math,
                                          tg_kernels_nn,    tg_kernels_reduce, tg_kernels_slice};

const tg_kernel *tg_kernel_find(const char *op) {
  for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
    for (const tg_kernel *k = tables[t]; k->op; k++)
      if (strcmp(k->op, op) == 0) return k;
  return NULL;
}

bool od_tfgraph_knows(const char *op) { return tg_kernel_find(op) != NULL; }

/* The next word of a list divided by `by`; false at the end. */
static bool next_word(const char **at, char by, const char **word, size_t *n) {
  if (!**at) return false;
  const char *end = strchr(*at, by);
  *word = *at;
  *n = end ? (size_t)(end - *at) : strlen(*at);
  *at += *n + (end != NULL);
  return true;
}

/* The entry of attribute `name` in the kernel's list: 0 none, 1 required, 2 may be absent; a default type to *type. */
static int declared(const tg_kernel *k, const char *name, size_t len, int *type) {
  static const struct {
    const char *name;
    int type;
  } types[] = {{"int32", 3}, {"int64", 9}, {"float", 1}, {"uint8", 4}, {"string", 7}};
  const char *at = k->attrs, *w;
  size_t n;
  *type = 0;
  while (next_word(&at, ' ', &w, &n)) {
    size_t m = strcspn(w, "?= ");
    if (m > n) m = n;
    if (m != len || strncmp(w, name, m) != 0) continue;
    if (m == n) return 1;
    for (size_t i = 0; w[m] == '=' && i < sizeof types / sizeof *types; i++)
      if (strncmp(w + m + 1, types[i].name, n - m - 1) == 0) *type = types[i].type;
    return 2;
  }
  return 0;
}

static od_status check_attrs(const tg_node *n) {
  const tg_kernel *k = n->kernel;
  int type;
  for (int i = 0; i < n->n_attrs; i++) {
    const char *name = n->attrs[i].name;
    if (*name != '_' && !declared(k, name, strlen(name), &type))
      return od_fail(OD_EDATA, "node %s (%s) has an attribute '%s', which the op has not", n->name, n->op, name);
  }
  const char *at = k->attrs, *w;
  size_t len;
  while (next_word(&at, ' ', &w, &len)) {
    char name[64];
    size_t m = strcspn(w, "?= ");
    if (m < len) continue;
    snprintf(name, sizeof name, "%.*s", (int)len, w);
    if (!tg_attr_find(n, name)) return od_fail(OD_EDATA, "node %s (%s) lacks the attribute '%s'", n->name, n->op, name);
  }
  return OD_OK;
}

/* The type a signature's word means; 0 when the attribute holds none. */
static int type_of(const tg_node *n, const char *w, size_t len) {
  static const struct {
    const char *name;
    int type;
  } types[] = {
      {"int32", 3}, {"int64", 9}, {"float", 1}, {"uint8", 4}, {"string", 7}, {"bool", 10}, {"resource", TG_RESOURCE}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (strlen(types[i].name) == len && strncmp(types[i].name, w, len) == 0) return types[i].type;
  char name[64];
  snprintf(name, sizeof name, "%.*s", (int)len, w);
  int otherwise;
  declared(n->kernel, w, len, &otherwise);
  int type = tg_attr_type(n, name);
  return type || tg_attr_find(n, name) ? type : otherwise;
}

/* Expands one side of a signature into a list of types in the arena. */
static od_status expand(od_tfgraph *g, const tg_node *n, const char *sig, size_t sig_len, int **out, int *count) {
  char text[512], name[64];
  int types[TG_MAX_OUT];
  snprintf(text, sizeof text, "%.*s", (int)sig_len, sig);
  const char *at = text, *w;
  size_t len;
  int total = 0;
  while (next_word(&at, ',', &w, &len)) {
    const char *star = memchr(w, '*', len);
    bool list = len > 3 && strncmp(w + len - 3, "...", 3) == 0;
    int64_t times = 1;
    if (star) {
      snprintf(name, sizeof name, "%.*s", (int)(star - w), w);
      times = tg_attr_int(n, name, -1);
      len -= (size_t)(star + 1 - w);
      w = star + 1;
    } else if (list) {
      snprintf(name, sizeof name, "%.*s", (int)(len - 3), w);
      times = tg_attr_types(n, name);
    }
    if (times < 0 || times > TG_MAX_OUT - total)
      return od_fail(OD_EDATA, "node %s (%s): attribute %s says %lld tensors", n->name, n->op, name, (long long)times);
    for (int64_t i = 0; i < times; i++) {
      int type = list ? tg_attr_type_at(n, name, (int)i) : type_of(n, w, len);
      if (!type) return od_fail(OD_EDATA, "node %s (%s): attribute %.*s holds no type", n->name, n->op, (int)len, w);
      types[total++] = type;
    }
  }
  *out = od_arena_alloc(g->arena, sizeof(int) * (size_t)(total + 1));
  if (!*out) return OD_ENOMEM;
  memcpy(*out, types, sizeof(int) * (size_t)total);
  *count = total;
  return OD_OK;
}

od_status tg_bind_kernel(od_tfgraph *g, tg_node *n) {
  if (n->kernel) return OD_OK;
  const tg_kernel *k = tg_kernel_find(n->op);
  if (!k) return od_fail(OD_EUNSUPPORTED, "node %s is of op %s, which this interpreter does not know", n->name, n->op);
  n->kernel = k;
  const char *arrow = strstr(k->sig, "->");
  int n_in, n_out;
  od_status st = check_attrs(n);
  if (st == OD_OK) st = expand(g, n, k->sig, (size_t)(arrow - k->sig), &n->in_types, &n_in);
  if (st == OD_OK) st = expand(g, n, arrow + 2, strlen(arrow + 2), &n->out_types, &n_out);
  if (st == OD_OK && n_in != n->n_data)
    st = od_fail(OD_EDATA, "node %s (%s) has %d inputs, its op takes %d", n->name, n->op, n->n_data, n_in);
  if (st == OD_OK) {
    n->n_out = n_out;
    n->out = od_arena_alloc(g->arena, sizeof *n->out * (size_t)(n_out + 1));
    n->uses = od_arena_alloc(g->arena, sizeof *n->uses * (size_t)(n_out + 1));
    n->total_uses = od_arena_alloc(g->arena, sizeof *n->total_uses * (size_t)(n_out + 1));
    if (!n->out || !n->uses || !n->total_uses) st = OD_ENOMEM;
  }
  if (st != OD_OK) n->kernel = NULL;
  return st;
}
