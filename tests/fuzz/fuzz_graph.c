/* Fuzz target: `inspect` of anything: GraphDefs, MetaGraphDefs, SavedModels, events, and what only looks like one. */
#include <string.h>

#include "base/mem.h"
#include "fuzz/fuzz_memory_file.h"
#include "io/event.h"
#include "io/inspect.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char path[64];
  od_str s = OD_STR_INIT;
  od_event e;
  if (size > 1 << 20) return 0;
  int fd = fuzz_file_open(path, data, size);
  (void)!od_inspect(&s, path, size & 1);
  fuzz_file_close(fd);
  od_str_free(&s);
  if (od_event_parse(&e, (od_view){data, size}) == OD_OK) {
    od_wire w = od_wire_over(e.payload);
    od_summary_value v;
    while (od_summary_next(&w, &v)) {}
  }
  return 0;
}
