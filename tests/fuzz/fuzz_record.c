/* Fuzz target: TFRecord files. The first byte chooses: the bytes as they are (also packed ones), or their frames with lengths
 * made short and both CRCs repaired, so that the fuzzer gets past them. */
#include <string.h>

#include "base/mem.h"
#include "fuzz/fuzz_memory_file.h"
#include "io/crc32c.h"
#include "io/example.h"
#include "io/record.h"
#include "io/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_one_by_one(const char *path) {
  od_record_reader *r;
  od_view v;
  od_example ex = OD_EXAMPLE_INIT;
  od_record_options o = {.max_record = 1 << 20};
  if (od_record_reader_open(&r, path, &o) != OD_OK) return;
  for (int errors = 0; errors < 10;) {
    od_status st = od_record_read(r, &v);
    if (!st)
      st = od_example_parse(&ex, v.data, v.size);
    else if (!od_record_reader_can_skip(r))
      break;
    errors += st != OD_OK;
  }
  od_record_reader_free(r);
  od_example_free(&ex);
}

static void read_at_random(const char *path) {
  od_record_file *f;
  od_str s = OD_STR_INIT;
  od_record_options o = {.max_record = 1 << 20};
  if (od_record_file_open(&f, path, &o) != OD_OK) return;
  for (uint64_t i = od_record_file_count(f); i-- > 0;)
    if (od_record_file_read(f, i, &s) != OD_OK) break;
  od_record_file_free(f);
  od_str_free(&s);
}

/* Frames of at most 255 bytes, as far as they go. */
static void repair(uint8_t *b, size_t size) {
  for (size_t at = 0; at + 16 <= size;) {
    size_t n = b[at] < size - at - 16 ? b[at] : size - at - 16;
    od_store_u64(b + at, n);
    od_store_u32(b + at + 8, od_crc32c_mask(od_crc32c(b + at, 8)));
    od_store_u32(b + at + 12 + n, od_crc32c_mask(od_crc32c(b + at + 12, n)));
    at += 16 + n;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char path[64];
  if (size < 1 || size > 1 << 20) return 0;
  uint8_t *copy = od_alloc(size);
  if (!copy) return 0;
  memcpy(copy, data + 1, size - 1);
  if (data[0] & 1) repair(copy, size - 1);
  int fd = fuzz_file_open(path, copy, size - 1);
  read_one_by_one(path);
  read_at_random(path);
  fuzz_file_close(fd);
  od_free(copy);
  return 0;
}
