/* Fuzz target: checkpoints. The first byte chooses: the bytes as an .index or a V1 file as they are; or the input is cut into pairs
 * (length of key, length of value, key, value), sorted into a table with right CRCs, so that the fuzzer gets past them. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "fuzz/fuzz_memory_file.h"
#include "io/bundle.h"
#include "io/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct {
  od_view key, value;
} pair;

static int by_key(const void *a, const void *b) {
  return od_view_compare(((const pair *)a)->key, ((const pair *)b)->key);
}

/* Writes the pairs of data as a table; equal keys: the first counts. */
static bool write_table(const char *path, const uint8_t *data, size_t size, bool snappy) {
  enum { MAX_PAIRS = 64 };
  pair pairs[MAX_PAIRS];
  int n = 0;
  for (size_t at = 0; at + 2 <= size && n < MAX_PAIRS; n++) {
    size_t k = data[at], v = data[at + 1];
    at += 2;
    if (k > size - at) k = size - at;
    pairs[n].key = (od_view){data + at, k};
    at += k;
    if (v > size - at) v = size - at;
    pairs[n].value = (od_view){data + at, v};
    at += v;
  }
  qsort(pairs, (size_t)n, sizeof *pairs, by_key);
  od_file *f;
  od_table_writer *w;
  od_table_options o = {.block_bytes = 200, .restart_interval = 3, .snappy = snappy};
  if (od_file_create(&f, path) != OD_OK) return false;
  od_status st = od_table_writer_new(&w, f, &o);
  for (int i = 0; i < n && !st; i++)
    if (i == 0 || by_key(&pairs[i - 1], &pairs[i]) != 0) st = od_table_add(w, pairs[i].key, pairs[i].value);
  if (!st) st = od_table_finish(w);
  od_table_writer_free(w);
  od_status closed = od_file_close(f);
  return !st && !closed;
}

static void read_everything(const char *path) {
  od_bundle *b;
  if (od_bundle_open(&b, path) != OD_OK) return;
  for (size_t i = 0; i < od_bundle_count(b); i++) {
    const od_bundle_entry *e = od_bundle_entry_at(b, i);
    size_t bytes;
    if (!e->known || od_shape_bytes(&bytes, &e->shape, e->dtype) != OD_OK || bytes > 1 << 22) continue;
    (void)!od_bundle_verify(b, e->name);
  }
  od_bundle_free(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static char dir[64], index[96], part[96], v1[96], prefix[96];
  if (!*dir) {
    /* memory rather than disk, where there is such a folder */
    strcpy(dir, access("/dev/shm", W_OK) == 0 ? "/dev/shm/objdet-fuzz-XXXXXX" : "/tmp/objdet-fuzz-XXXXXX");
    if (!mkdtemp(dir)) abort();
    snprintf(prefix, sizeof prefix, "%s/m", dir);
    snprintf(index, sizeof index, "%s/m.index", dir);
    snprintf(part, sizeof part, "%s/m.data-00000-of-00001", dir);
    snprintf(v1, sizeof v1, "%s/v1", dir);
  }
  if (size < 1 || size > 1 << 16) return 0;
  int mode = data[0] & 7;
  data++, size--;
  od_file *f;
  for (int i = 0; i < 2; i++) { /* the data file: the input itself */
    const char *path = i == 0 ? part : mode & 1 ? v1 : index;
    if (i == 1 && (mode & 2)) break;
    if (od_file_create(&f, path) != OD_OK || od_file_write(f, data, size) != OD_OK || od_file_close(f) != OD_OK)
      abort();
  }
  if ((mode & 2) && !write_table(mode & 1 ? v1 : index, data, size, mode & 4)) abort();
  read_everything(mode & 1 ? v1 : prefix);
  (void)unlink(index); /* nothing stays behind but an empty folder */
  (void)unlink(part);
  (void)unlink(v1);
  (void)rmdir(dir);
  *dir = 0;
  return 0;
}
