/* Sorting scores with ties as the original; see order.h.
 *
 * numpy (1.25 and later, on processors with AVX-512) sorts up to 64 keys with a bitonic network over 8, 16, 32 or 64
 * places, padded with infinity: for each block size k a stage that compares mirrored places, then stages at distances k/4,
 * k/8 ... 1; a pair swaps only when it is strictly out of order. That fixes what becomes of equal keys. The original then
 * reads the result backwards. */
#include "eval/order.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"

enum { NETWORK_MAX = 64 };

typedef struct {
  float key;
  uint32_t index;
} item;

static void compare(item *a, item *b) {
  if (!(a->key > b->key)) return;
  item t = *a;
  *a = *b;
  *b = t;
}

static void network(item *list, size_t width) {
  for (size_t k = 2; k <= width; k *= 2) {
    for (size_t block = 0; block < width; block += k)
      for (size_t i = 0; i < k / 2; i++) compare(&list[block + i], &list[block + k - 1 - i]);
    for (size_t j = k / 4; j > 0; j /= 2)
      for (size_t i = 0; i < width; i++)
        if (!(i & j)) compare(&list[i], &list[i + j]);
  }
}

static int later_first(const void *pa, const void *pb) {
  const item *a = pa, *b = pb;
  if (a->key != b->key) return a->key > b->key ? -1 : 1;
  return a->index > b->index ? -1 : a->index < b->index;
}

static int earlier_first(const void *pa, const void *pb) {
  const item *a = pa, *b = pb;
  if (a->key != b->key) return a->key > b->key ? -1 : 1;
  return a->index < b->index ? -1 : a->index > b->index;
}

static void order_few(uint32_t *order, const float *scores, size_t n) {
  item list[NETWORK_MAX];
  size_t width = 8;
  while (width < n) width *= 2;
  for (size_t i = 0; i < width; i++) list[i] = (item){i < n ? scores[i] : INFINITY, (uint32_t)i};
  network(list, width);
  for (size_t i = 0; i < n; i++) order[i] = list[n - 1 - i].index;
}

od_status od_eval_order(uint32_t *order, const float *scores, size_t n, bool by_age) {
  if (n == 0) return OD_OK;
  if (!by_age && n <= NETWORK_MAX) {
    order_few(order, scores, n);
    return OD_OK;
  }
  item *list;
  OD_TRY(od_new(&list, n, sizeof *list));
  for (size_t i = 0; i < n; i++) list[i] = (item){scores[i], (uint32_t)i};
  qsort(list, n, sizeof *list, by_age ? earlier_first : later_first);
  for (size_t i = 0; i < n; i++) order[i] = list[i].index;
  od_free(list);
  return OD_OK;
}
