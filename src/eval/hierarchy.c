/* The label hierarchy of Open Images; see hierarchy.h. */
#include "eval/hierarchy.h"

#include <jansson.h>
#include <string.h>

#include "base/map.h"
#include "io/file.h"

enum { DEPTH_MAX = 32 };

typedef struct {
  const char **names;
  size_t n, cap;
} labels;

typedef struct {
  labels above, below;
} node;

struct od_hierarchy {
  od_map *nodes; /* label -> node */
  json_t *tree;  /* owns the names */
};

static od_status add(labels *list, const char *name) {
  for (size_t i = 0; i < list->n; i++)
    if (strcmp(list->names[i], name) == 0) return OD_OK;
  OD_TRY(od_grow(&list->names, &list->cap, list->n + 1, sizeof *list->names));
  list->names[list->n++] = name;
  return OD_OK;
}

static od_status node_of(node **out, od_hierarchy *h, const char *label) {
  *out = od_map_get(h->nodes, label);
  if (*out) return OD_OK;
  node *fresh;
  OD_TRY(od_new(&fresh, 1, sizeof *fresh));
  od_status st = od_map_set(h->nodes, label, fresh);
  if (st != OD_OK) {
    od_free(fresh);
    return st;
  }
  *out = fresh;
  return OD_OK;
}

/* path[0..depth-1]: the labels above, the nearest last. */
static od_status walk(od_hierarchy *h, json_t *tree, const char **path, int depth) {
  json_t *children = json_object_get(tree, "Subcategory");
  size_t n = json_array_size(children);
  for (size_t i = 0; i < n; i++) {
    json_t *child = json_array_get(children, i);
    const char *label = json_string_value(json_object_get(child, "LabelName"));
    if (!label)
      return od_fail(OD_EDATA, "label hierarchy: a Subcategory without LabelName below %s",
                     depth ? path[depth - 1] : "the root");
    if (depth == DEPTH_MAX) return od_fail(OD_EDATA, "label hierarchy: more than %d levels at %s", DEPTH_MAX, label);
    node *own, *other;
    OD_TRY(node_of(&own, h, label));
    for (int k = depth; k-- > 0;) {
      OD_TRY(add(&own->above, path[k]));
      OD_TRY(node_of(&other, h, path[k]));
      OD_TRY(add(&other->below, label));
    }
    path[depth] = label;
    OD_TRY(walk(h, child, path, depth + 1));
  }
  return OD_OK;
}

od_status od_hierarchy_parse(od_hierarchy **out, const char *text, size_t size) {
  *out = NULL;
  json_error_t error;
  json_t *tree = json_loadb(text, size, 0, &error);
  if (!tree) return od_fail(OD_EDATA, "label hierarchy:%d:%d: %s", error.line, error.column, error.text);
  if (!json_is_array(json_object_get(tree, "Subcategory"))) {
    json_decref(tree);
    return od_fail(OD_EDATA, "label hierarchy: an object with a list named Subcategory expected");
  }
  od_hierarchy *h = od_calloc(1, sizeof *h);
  if (!h) {
    json_decref(tree);
    return OD_ENOMEM;
  }
  h->tree = tree;
  const char *path[DEPTH_MAX];
  od_status st = od_map_new(&h->nodes);
  if (st == OD_OK) st = walk(h, tree, path, 0);
  if (st != OD_OK) {
    od_hierarchy_free(h);
    return st;
  }
  *out = h;
  return OD_OK;
}

od_status od_hierarchy_load(od_hierarchy **out, const char *path) {
  char *text;
  size_t size;
  OD_TRY(od_file_read_all(&text, &size, path, 64 << 20));
  od_status st = od_fail_context(od_hierarchy_parse(out, text, size), "%s", path);
  od_free(text);
  return st;
}

void od_hierarchy_free(od_hierarchy *h) {
  if (!h) return;
  for (size_t i = 0; h->nodes && i < od_map_size(h->nodes); i++) {
    node *n = od_map_value(h->nodes, i);
    od_free(n->above.names);
    od_free(n->below.names);
    od_free(n);
  }
  od_map_free(h->nodes);
  json_decref(h->tree);
  od_free(h);
}

size_t od_hierarchy_above(const od_hierarchy *h, const char *label, const char *const **out) {
  const node *n = od_map_get(h->nodes, label);
  *out = n ? n->above.names : NULL;
  return n ? n->above.n : 0;
}

size_t od_hierarchy_below(const od_hierarchy *h, const char *label, const char *const **out) {
  const node *n = od_map_get(h->nodes, label);
  *out = n ? n->below.names : NULL;
  return n ? n->below.n : 0;
}

/* ------------------------------------------------------------------------------------------------------------- expand */
typedef struct {
  const od_hierarchy *h;
  const od_eval_category *categories;
  size_t n;
} context;

/* Ids of the categories above one; *count of them written to ids (when not NULL). */
static size_t ids_above(const context *c, int id, int32_t *ids) {
  const char *const *names = NULL;
  size_t found = 0, n = 0;
  for (size_t k = 0; k < c->n; k++)
    if (c->categories[k].id == id) n = od_hierarchy_above(c->h, c->categories[k].name, &names);
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k < c->n; k++) {
      if (strcmp(c->categories[k].name, names[i]) != 0) continue;
      if (ids) ids[found] = c->categories[k].id;
      found++;
      break;
    }
  return found;
}

/* Elements of `size` bytes repeated as `from` says; NULL stays NULL. */
static od_status gather(const void **out, const void *in, size_t size, const size_t *from, size_t n, od_arena *arena) {
  if (!in) return OD_OK;
  char *copy = od_arena_alloc(arena, n * size);
  if (!copy) return OD_ENOMEM;
  for (size_t i = 0; i < n; i++) memcpy(copy + i * size, (const char *)in + from[i] * size, size);
  *out = copy;
  return OD_OK;
}

/* The list of ids with what stands above each behind it; from (may be NULL): which element each came from. */
static od_status expand_ids(const int32_t **out, size_t *count, size_t **from, const context *c, const int32_t *ids,
                            size_t n, od_arena *arena) {
  size_t total = n;
  for (size_t i = 0; i < n; i++) total += ids_above(c, ids[i], NULL);
  int32_t *list = od_arena_alloc(arena, total * sizeof *list);
  size_t *source = od_arena_alloc(arena, total * sizeof *source);
  if (!list || !source) return OD_ENOMEM;
  size_t at = 0;
  for (size_t i = 0; i < n; i++) {
    size_t more = ids_above(c, ids[i], list + at + 1);
    list[at] = ids[i];
    for (size_t k = 0; k <= more; k++) source[at + k] = i;
    at += more + 1;
  }
  *out = list;
  *count = total;
  if (from) *from = source;
  return OD_OK;
}

od_status od_hierarchy_expand(od_eval_groundtruth *out, const od_hierarchy *h, const od_eval_groundtruth *gt,
                              const od_eval_category *categories, size_t n_categories, od_arena *arena) {
  context c = {h, categories, n_categories};
  size_t *from = NULL;
  *out = (od_eval_groundtruth){0};
  OD_TRY(expand_ids(&out->classes, &out->n, &from, &c, gt->classes, gt->n, arena));
  OD_TRY(gather((const void **)&out->boxes, gt->boxes, 4 * sizeof(float), from, out->n, arena));
  OD_TRY(gather((const void **)&out->difficult, gt->difficult, 1, from, out->n, arena));
  OD_TRY(gather((const void **)&out->group_of, gt->group_of, 1, from, out->n, arena));
  OD_TRY(gather((const void **)&out->is_crowd, gt->is_crowd, 1, from, out->n, arena));
  OD_TRY(gather((const void **)&out->area, gt->area, sizeof(float), from, out->n, arena));
  if (gt->image_classes)
    OD_TRY(expand_ids(&out->image_classes, &out->n_image_classes, NULL, &c, gt->image_classes, gt->n_image_classes,
                      arena));
  return OD_OK;
}
