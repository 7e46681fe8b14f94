/* Fuzz target: Pascal VOC annotations. What parses has objects whose texts and numbers can be read. */
#include <stdlib.h>
#include <string.h>

#include "data/annotation.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static bool ready;
  od_arena *arena;
  od_voc voc;
  if (!ready) od_voc_init();
  ready = true;
  if (size > 1 << 18 || od_arena_new(&arena) != OD_OK) return 0;
  if (od_voc_parse(&voc, data, size, arena) == OD_OK) {
    if (voc.count < 0 || !voc.folder || !voc.filename) abort();
    for (int i = 0; i < voc.count; i++) {
      const od_voc_object *o = &voc.objects[i];
      if (strlen(o->name) > size || strlen(o->pose) > size + 16) abort();
      if (o->xmin != o->xmin || o->ymax != o->ymax) abort(); /* a side that is no number is refused */
    }
  } else if (!od_message()[0]) {
    abort();
  }
  od_arena_free(arena);
  return 0;
}
