/* Fuzz target: any bytes as a GraphDef or SavedModel, opened, checked, and run: its inputs are fed with small tensors of the type
 * and shape it asks for, its outputs fetched, under limits of memory, rounds and work. */
#include <string.h>

#include "base/mem.h"
#include "tfgraph/tfgraph.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PORTS = 4 };

static bool make_feed(od_tfgraph_feed *f, const od_tfgraph_port *p) {
  od_shape s = p->shape.rank < 0 ? OD_SHAPE(2) : p->shape;
  int64_t n = 1;
  for (int i = 0; i < s.rank; i++) {
    if (s.dim[i] < 0) s.dim[i] = 3;
    if (s.dim[i] > 64 || (n *= s.dim[i]) > 4096) return false;
  }
  f->tensor = p->tensor;
  if (od_tensor_new(&f->value, p->dtype, &s) != OD_OK) return false;
  uint8_t *b = f->value.data;
  for (size_t i = 0; p->dtype != OD_STRING && i < od_tensor_bytes(&f->value); i++)
    b[i] = (uint8_t)(p->dtype == OD_BOOL ? i & 1 : i % 4 ? 0 : i);
  return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  od_tfgraph *g;
  od_tfgraph_feed feeds[PORTS];
  const char *fetches[PORTS];
  od_tensor got[PORTS];
  int n_feeds = 0, n_fetches = 0;
  if (od_tfgraph_parse(&g, (od_view){data, size}, "fuzz") != OD_OK) return 0;
  (void)!od_tfgraph_check(g);
  od_tfgraph_limit(g, 1 << 16, 20, 1 << 21);
  for (size_t i = 0; i < PORTS && od_tfgraph_input(g, i); i++)
    n_feeds += make_feed(&feeds[n_feeds], od_tfgraph_input(g, i));
  for (size_t i = 0; i < PORTS && od_tfgraph_output(g, i); i++) fetches[n_fetches++] = od_tfgraph_output(g, i)->tensor;
  if (od_tfgraph_run(g, feeds, n_feeds, fetches, n_fetches, got) == OD_OK)
    for (int i = 0; i < n_fetches; i++) od_tensor_free(&got[i]);
  for (int i = 0; i < n_feeds; i++) od_tensor_free(&feeds[i].value);
  od_tfgraph_free(g);
  return 0;
}
