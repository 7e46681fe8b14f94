/* The memory planner: pieces with lifetimes get offsets in one buffer.
 *
 * Greedy by size (Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference, 2020): the largest piece
 * first, each at the lowest offset that is free during its whole life. Near the optimum for chains of feature maps. */
#include <stdlib.h>
#include <string.h>

#include "engine/backend.h"

static int larger_first(const void *a, const void *b, void *ctx) {
  const od_piece *pieces = ctx;
  size_t i = *(const size_t *)a, j = *(const size_t *)b;
  if (pieces[i].size != pieces[j].size) return pieces[i].size > pieces[j].size ? -1 : 1;
  return i < j ? -1 : 1;
}

static size_t round_up(size_t n) { return (n + OD_ALIGN - 1) / OD_ALIGN * OD_ALIGN; }

typedef struct {
  size_t offset, end;
  int first, last;
} placed;

/* Lowest offset where `piece` fits among those placed already, in ascending order of offsets, that live at the same time. */
static size_t place(const od_piece *piece, const placed *list, size_t n) {
  const size_t need = round_up(piece->size);
  size_t at = 0;
  for (size_t k = 0; k < n && list[k].offset < at + need; k++)
    if (list[k].last >= piece->first && list[k].first <= piece->last && list[k].end > at) at = list[k].end;
  return at;
}

static void insert(placed *list, size_t n, placed p) {
  size_t low = 0, high = n;
  while (low < high) {
    const size_t mid = (low + high) / 2;
    if (list[mid].offset < p.offset) low = mid + 1;
    else high = mid;
  }
  memmove(list + low + 1, list + low, (n - low) * sizeof *list);
  list[low] = p;
}

od_status od_plan_memory(size_t *total, od_piece *pieces, size_t n) {
  size_t *order, m = 0;
  placed *list = NULL;
  od_status st;
  *total = 0;
  OD_TRY(od_new(&order, n + 1, sizeof *order));
  OD_GO(st, od_new(&list, n + 1, sizeof *list));
  for (size_t i = 0; i < n; i++) order[i] = i;
  qsort_r(order, n, sizeof *order, larger_first, pieces);
  for (size_t i = 0; i < n; i++) {
    od_piece *p = &pieces[order[i]];
    p->offset = place(p, list, m);
    const size_t end = p->offset + round_up(p->size);
    if (end > *total) *total = end;
    if (p->size) insert(list, m++, (placed){p->offset, end, p->first, p->last});
  }
done:
  od_free(order);
  od_free(list);
  return st;
}
