/* The label hierarchy of Open Images: a box of a class is one of its parents too. The challenge's evaluation expects
 * groundtruth expanded so (dataset_tools/oid_hierarchical_labels_expansion.py). */
#ifndef OD_EVAL_HIERARCHY_H
#define OD_EVAL_HIERARCHY_H

#include "base/mem.h"
#include "eval/evaluator.h"

typedef struct od_hierarchy od_hierarchy;

/* Reads the JSON tree ({"LabelName": ..., "Subcategory": [...]}; its root stands for everything and is no label). A label
 * may stand in several places. OD_EDATA when it is not such a tree. */
OD_MUST_CHECK od_status od_hierarchy_load(od_hierarchy **out, const char *path);
OD_MUST_CHECK od_status od_hierarchy_parse(od_hierarchy **out, const char *text, size_t size);
void od_hierarchy_free(od_hierarchy *h);

/* All labels above (or below) one, each once; borrowed. 0 for a label that is not in the tree. */
size_t od_hierarchy_above(const od_hierarchy *h, const char *label, const char *const **out);
size_t od_hierarchy_below(const od_hierarchy *h, const char *label, const char *const **out);

/* Groundtruth with a copy of each box for every label above its own that is a category, behind the box itself, and with
 * the labels above the verified image_classes. Categories are found by name. out points into arena. */
OD_MUST_CHECK od_status od_hierarchy_expand(od_eval_groundtruth *out, const od_hierarchy *h,
                                            const od_eval_groundtruth *gt, const od_eval_category *categories,
                                            size_t n_categories, od_arena *arena);

#endif
