/* Label maps (.pbtxt, StringIntLabelMap): names of classes to ids and back (odapi 2.3). */
#ifndef OD_DATA_LABEL_MAP_H
#define OD_DATA_LABEL_MAP_H

#include <stdint.h>

#include "base/status.h"
#include "io/proto/label_map.pb-c.h"

typedef struct od_label_map od_label_map;

/* Loads a label map from text, or from the wire format when it is no text. OD_EINVAL naming file and item: a negative id,
 * id 0 for anything but `background`, an item without name. The caller frees with od_label_map_free. */
OD_MUST_CHECK od_status od_label_map_load(od_label_map **out, const char *path);
/* The same from a message, which is copied. */
OD_MUST_CHECK od_status od_label_map_from_proto(od_label_map **out,
                                                const ObjectDetection__Protos__StringIntLabelMap *proto);
void od_label_map_free(od_label_map *map);

/* Borrowed. */
const ObjectDetection__Protos__StringIntLabelMap *od_label_map_proto(const od_label_map *map);
int od_label_map_max_id(const od_label_map *map);

/* Id of a class text of n bytes as the record decoder looks it up: the larger of what `name` and `display_name` give; -1
 * when neither knows it. Of items with equal names the last one counts. */
int od_label_map_find(const od_label_map *map, const char *text, size_t n);
/* Id by `name` alone, as the converters look it up; -1 when absent. */
int od_label_map_id(const od_label_map *map, const char *name);
/* The name most similar to this one, or NULL: for "did you mean". Borrowed. */
const char *od_label_map_similar(const od_label_map *map, const char *name);
/* Name of the first item with this id: its display_name if wanted and given, else its name; NULL when there is none.
 * Borrowed. */
const char *od_label_map_name(const od_label_map *map, int id, bool display);

/* Sets in[k] for every id k that is this id, or an ancestor of it (descendants: a descendant) by the label map's own
 * lists; in has max_id + 1 entries. Ids beyond the map are left out. */
void od_label_map_related(bool *in, const od_label_map *map, int id, bool descendants);

typedef struct {
  int id;           /* 1 .. max_num_classes */
  const char *name; /* borrowed from the map */
} od_category;

/* Items with 0 < id <= max_num_classes in the order of the file, the first of those that share an id. The caller frees
 * *out with od_free. */
OD_MUST_CHECK od_status od_label_map_categories(od_category **out, int *count, const od_label_map *map,
                                                int max_num_classes, bool display);

#endif
