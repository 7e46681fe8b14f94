/* Refusing early; see check.h. */
#include "train/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "data/record_check.h"
#include "data/records.h"
#include "io/file.h"
#include "train/config_check.h"

/* -------------------------------------------------------------------------------------------------------------- config */
/* ------------------------------------------------------------------------------------------------------------- records */
enum { RECORDS_LOOKED_AT = 512, WARNINGS_SHOWN = 5 };

typedef struct {
  const od_train_options *o;
  int shown, more;
  char stopper[OD_MESSAGE_MAX]; /* the first finding that no run gets past */
} look;

static bool stops_a_run(od_finding_kind k) {
  return k == OD_FIND_FILE || k == OD_FIND_CRC || k == OD_FIND_EXAMPLE || k == OD_FIND_KIND || k == OD_FIND_PICTURE || k == OD_FIND_LENGTHS ||
         k == OD_FIND_BOX_ORDER;
}

static void on_finding(void *ctx, const od_finding *f) {
  look *l = ctx;
  od_str line = OD_STR_INIT;
  od_finding_format(&line, f);
  if (stops_a_run(f->kind) && l->o->on_bad == OD_BAD_STOP && !l->stopper[0]) snprintf(l->stopper, sizeof l->stopper, "%s", od_str_text(&line));
  else if (f->kind == OD_FIND_EMPTY || f->kind == OD_FIND_DUPLICATE) (void)0; /* many do so on purpose */
  else if (l->shown++ < WARNINGS_SHOWN) od_warn(l->o->reporter, "%s", od_str_text(&line));
  else l->more++;
  od_str_free(&line);
}

/* Headers and boxes of the first records: what is wrong with all of them is wrong with these. */
static od_status look_at_records(const od_train_options *o) {
  const od_pb_reader *r = o->pipeline->config->train_input_reader;
  const ObjectDetection__Protos__TFRecordInputReader *records = r->tf_record_input_reader;
  od_strings files = OD_STRINGS_INIT;
  od_label_map *labels = NULL;
  od_record_check_result result = {0};
  look l = {.o = o};
  od_status st;
  OD_GO(st, od_records_find(&files, (const char *const *)records->input_path, records->n_input_path, NULL));
  if (r->label_map_path && *r->label_map_path) OD_GO(st, od_label_map_load(&labels, r->label_map_path));
  const od_record_check_options c = {.patterns = (const char *const *)files.items, .pattern_count = files.count, .labels = labels,
                                     .num_classes = (int)od_model_num_classes(o->pipeline->config->model), .fast = true,
                                     .limit = RECORDS_LOOKED_AT / files.count + 1, .on_finding = on_finding, .ctx = &l};
  OD_GO(st, od_record_check(&result, &c));
  if (l.more) od_warn(o->reporter, "and %d more such findings; objdet check shows all", l.more);
  if (l.stopper[0]) st = od_fail(OD_EDATA, "%s (--on_bad_record=skip goes on without such records; objdet check finds all of them)", l.stopper);
done:
  od_record_check_free(&result);
  od_label_map_free(labels);
  od_strings_free(&files);
  return st;
}

od_status od_train_check(const od_train_options *o, bool resuming) {
  OD_TRY(od_config_require(o->pipeline, o->program == OD_PROGRAM_LEGACY ? OD_FOR_TRAIN : OD_FOR_MODEL_MAIN, resuming, o->reporter));
  return look_at_records(o);
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
