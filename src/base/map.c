/* Open addressing over an array of pairs; see map.h. Keys are never removed, so no tombstones. */
#include "base/map.h"

#include <string.h>

#include "base/mem.h"
#include "base/str.h"

typedef struct {
  char *key;
  void *value;
  uint64_t hash;
} pair;

struct od_map {
  pair *pairs;
  size_t n, cap;
  size_t *slots; /* index into pairs + 1; 0 = free */
  size_t n_slots; /* a power of two, at least twice n */
};

od_status od_map_new(od_map **out) { return od_new(out, 1, sizeof **out); }

void od_map_free(od_map *map) {
  if (!map) return;
  for (size_t i = 0; i < map->n; i++) od_free(map->pairs[i].key);
  od_free(map->pairs);
  od_free(map->slots);
  od_free(map);
}

static size_t *slot_of(const od_map *map, const char *key, uint64_t hash) {
  size_t at = (size_t)hash & (map->n_slots - 1);
  while (map->slots[at]) {
    const pair *p = &map->pairs[map->slots[at] - 1];
    if (p->hash == hash && strcmp(p->key, key) == 0) break;
    at = (at + 1) & (map->n_slots - 1);
  }
  return &map->slots[at];
}

static od_status rehash(od_map *map) {
  size_t n = map->n_slots ? map->n_slots * 2 : 16;
  size_t *slots;
  OD_TRY(od_new(&slots, n, sizeof *slots));
  od_free(map->slots);
  map->slots = slots;
  map->n_slots = n;
  for (size_t i = 0; i < map->n; i++) *slot_of(map, map->pairs[i].key, map->pairs[i].hash) = i + 1;
  return OD_OK;
}

od_status od_map_set(od_map *map, const char *key, void *value) {
  if (2 * (map->n + 1) > map->n_slots) OD_TRY(rehash(map));
  uint64_t hash = od_hash_text(key);
  size_t *slot = slot_of(map, key, hash);
  if (*slot) {
    map->pairs[*slot - 1].value = value;
    return OD_OK;
  }
  OD_TRY(od_grow(&map->pairs, &map->cap, map->n + 1, sizeof *map->pairs));
  char *copy = od_strdup(key);
  if (!copy) return OD_ENOMEM;
  map->pairs[map->n++] = (pair){copy, value, hash};
  *slot = map->n;
  return OD_OK;
}

static const pair *find(const od_map *map, const char *key) {
  if (!map->n) return NULL;
  size_t at = *slot_of(map, key, od_hash_text(key));
  return at ? &map->pairs[at - 1] : NULL;
}

void *od_map_get(const od_map *map, const char *key) {
  const pair *p = find(map, key);
  return p ? p->value : NULL;
}

bool od_map_has(const od_map *map, const char *key) { return find(map, key) != NULL; }
size_t od_map_size(const od_map *map) { return map->n; }
const char *od_map_key(const od_map *map, size_t i) { return map->pairs[i].key; }
void *od_map_value(const od_map *map, size_t i) { return map->pairs[i].value; }
