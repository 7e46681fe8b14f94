/* The memory planner: pieces with lifetimes get offsets in one buffer.
 *
 * Greedy by size (Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference, 2020): the largest piece
 * first, each at the lowest offset that is free during its whole life. Near the optimum for chains of feature maps. */
#include <stdlib.h>

#include "engine/backend.h"

static int larger_first(const void *a, const void *b, void *ctx) {
  const od_piece *pieces = ctx;
  size_t i = *(const size_t *)a, j = *(const size_t *)b;
  if (pieces[i].size != pieces[j].size) return pieces[i].size > pieces[j].size ? -1 : 1;
  return i < j ? -1 : 1;
}

static int lower_offset_first(const void *a, const void *b, void *ctx) {
  const od_piece *pieces = ctx;
  size_t i = *(const size_t *)a, j = *(const size_t *)b;
  if (pieces[i].offset != pieces[j].offset) return pieces[i].offset < pieces[j].offset ? -1 : 1;
  return i < j ? -1 : 1;
}

static size_t round_up(size_t n) { return (n + OD_ALIGN - 1) / OD_ALIGN * OD_ALIGN; }

/* Lowest offset where `piece` fits among the already placed ones that live at the same time. */
static size_t place(const od_piece *pieces, const od_piece *piece, const size_t *placed, size_t n, size_t *neighbours) {
  size_t m = 0, at = 0, need = round_up(piece->size);
  for (size_t k = 0; k < n; k++) {
    const od_piece *q = &pieces[placed[k]];
    if (q->last >= piece->first && q->first <= piece->last && q->size) neighbours[m++] = placed[k];
  }
  qsort_r(neighbours, m, sizeof *neighbours, lower_offset_first, (void *)(uintptr_t)pieces);
  for (size_t k = 0; k < m; k++) {
    const od_piece *q = &pieces[neighbours[k]];
    if (q->offset >= at + need) break;
    size_t end = q->offset + round_up(q->size);
    if (end > at) at = end;
  }
  return at;
}

od_status od_plan_memory(size_t *total, od_piece *pieces, size_t n) {
  size_t *order, *neighbours = NULL;
  od_status st;
  *total = 0;
  OD_TRY(od_new(&order, n + 1, sizeof *order));
  OD_GO(st, od_new(&neighbours, n + 1, sizeof *neighbours));
  for (size_t i = 0; i < n; i++) order[i] = i;
  qsort_r(order, n, sizeof *order, larger_first, pieces);
  for (size_t i = 0; i < n; i++) {
    od_piece *p = &pieces[order[i]];
    p->offset = place(pieces, p, order, i, neighbours);
    size_t end = p->offset + round_up(p->size);
    if (end > *total) *total = end;
  }
done:
  od_free(order);
  od_free(neighbours);
  return st;
}
