/* A map from text to pointer, iterated in the order of insertion so that nothing depends on hash values. */
#ifndef OD_BASE_MAP_H
#define OD_BASE_MAP_H

#include "base/status.h"

typedef struct od_map od_map;

OD_MUST_CHECK od_status od_map_new(od_map **out);
void od_map_free(od_map *map); /* values are not touched */
/* Sets key (copied) to value, replacing what was there. */
OD_MUST_CHECK od_status od_map_set(od_map *map, const char *key, void *value);
/* The value, or NULL when the key is absent. */
void *od_map_get(const od_map *map, const char *key);
bool od_map_has(const od_map *map, const char *key);
size_t od_map_size(const od_map *map);
/* i-th pair in insertion order, i < od_map_size. */
const char *od_map_key(const od_map *map, size_t i);
void *od_map_value(const od_map *map, size_t i);

#endif
