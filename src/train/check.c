/* Refusing early; see check.h. */
#include "train/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "io/file.h"
#include "train/config_check.h"

/* -------------------------------------------------------------------------------------------------------------- config */
od_status od_train_check(const od_train_options *o, bool resuming) {
  return od_config_require(o->pipeline, o->program == OD_PROGRAM_LEGACY ? OD_FOR_TRAIN : OD_FOR_MODEL_MAIN, resuming, o->reporter);
}

/* --------------------------------------------------------------------------------------------------------------- memory */
static size_t number_in(const char *path) {
  char *text;
  size_t size, n = 0;
  if (access(path, R_OK) != 0 || od_file_read_all(&text, &size, path, 4096) != OD_OK) return 0;
  n = (size_t)strtoull(text, NULL, 10); /* "max": 0 */
  od_free(text);
  return n;
}

size_t od_machine_memory(void) {
  static const char *const limits[] = {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
  size_t all = pages > 0 && page > 0 ? (size_t)pages * (size_t)page : 0;
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    size_t limit = number_in(limits[i]);
    if (limit > 0 && (all == 0 || limit < all)) all = limit;
  }
  return all;
}

static double gb(size_t bytes) { return (double)bytes / 1e9; }

od_status od_train_need_check(const od_train_need *n, size_t available) {
  char advice[256] = "take smaller pictures (image_resizer), --precision=bf16, or a smaller model";
  if (available == 0 || n->total <= available) return OD_OK;
  if (n->pictures > 1 && n->state < available) {
    double each = (double)(n->total - n->state) / n->pictures;
    int fits = (int)((double)(available - n->state) / each * 0.9); /* a little room for the rest of the machine */
    snprintf(advice, sizeof advice, "lower train_config.batch_size (%d pictures at a time would fit), take smaller pictures (image_resizer), or --precision=bf16",
             fits > 1 ? fits : 1);
  }
  return od_fail(OD_ENOMEM, "this run needs about %.1f GB (%.1f for a step over %d pictures of %dx%d, %.1f for weights and what the optimizer keeps, %.1f for pictures "
                            "read ahead), this machine has %.1f GB: %s",
                 gb(n->total), gb(n->step), n->pictures, n->height, n->width, gb(n->state), gb(n->input), gb(available), advice);
}
