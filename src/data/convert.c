/* Blocks of items are made in parallel and written in order, so that memory stays bounded and files do not depend on
 * timing. */
#include "data/convert.h"

#include <string.h>

#include <openssl/sha.h>

#include "base/map.h"
#include "base/parallel.h"
#include "io/file.h"

enum { BLOCK = 128 };

typedef struct {
  od_str payload;
  od_status status;
  char *message;
  int64_t boxes;
} made;

typedef struct {
  const od_convert_job *job;
  int64_t first;
  made items[BLOCK];
} block;

/* One item into its place; what is wrong with it is kept, not returned, so that the rest of the block goes on. */
static od_status make_item(void *ctx, int64_t i) {
  block *b = ctx;
  made *m = &b->items[i];
  od_convert_room room = {0};
  od_status st = OD_OK;
  OD_GO(st, od_example_builder_new(&room.builder));
  OD_GO(st, od_arena_new(&room.arena));
  OD_GO(st, b->job->make(b->job->ctx, b->first + i, &room));
  OD_GO(st, od_example_builder_finish(room.builder, &m->payload));
done:
  m->status = st;
  m->boxes = room.boxes;
  m->message = st == OD_OK ? NULL : od_strdup(od_message());
  od_example_builder_free(room.builder);
  od_arena_free(room.arena);
  return OD_OK;
}

static void free_block(block *b) {
  for (int i = 0; i < BLOCK; i++) {
    od_str_free(&b->items[i].payload);
    od_free(b->items[i].message);
  }
  od_free(b);
}

static od_status write_block(od_convert_result *out, od_record_shards *shards, block *b, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    made *m = &b->items[i];
    if (m->status == OD_EDATA || m->status == OD_ENOENT) {
      out->skipped++;
      od_warn(b->job->reporter, "skipped: %s", m->message ? m->message : od_status_text(m->status));
    } else if (m->status != OD_OK) {
      return od_fail_take(m->status, m->message ? m->message : od_status_text(m->status));
    } else {
      OD_TRY(od_record_shards_write(shards, (uint64_t)(b->first + i), m->payload.data, m->payload.len));
      out->written++;
      out->boxes += m->boxes;
    }
    od_str_clear(&m->payload);
    od_free(m->message);
    m->message = NULL;
  }
  return OD_OK;
}

od_status od_convert_run(od_convert_result *out, od_record_shards *shards, const od_convert_job *job) {
  block *b = NULL;
  od_status st = OD_OK;
  od_progress progress;
  OD_TRY(od_new(&b, 1, sizeof *b));
  b->job = job;
  od_progress_start(&progress, job->reporter, job->what, 0, (uint64_t)job->count);
  for (b->first = 0; b->first < job->count; b->first += BLOCK) {
    int64_t n = job->count - b->first < BLOCK ? job->count - b->first : BLOCK;
    OD_GO(st, od_stop_check());
    OD_GO(st, od_parallel_for(n, job->threads, make_item, b));
    OD_GO(st, write_block(out, shards, b, n));
    od_progress_step(&progress, (uint64_t)(b->first + n));
  }
  od_progress_end(&progress);
done:
  free_block(b);
  return st;
}

od_status od_convert_close(od_record_shards *shards, od_status st, const od_convert_result *r, const char *output,
                           const od_reporter *reporter) {
  int64_t all = r->written + r->skipped;
  if (st == OD_OK && r->written == 0)
    st = od_fail(OD_EDATA, "none of %lld pictures could be used; nothing is written", (long long)all);
  else if (st == OD_OK && r->skipped > 20 && r->skipped * 20 > all)
    st = od_fail(
        OD_EDATA,
        "%lld of %lld pictures are bad (named above), more than 5 %%: nothing is written; mend or remove them, or "
        "look whether paths and names are right",
        (long long)r->skipped, (long long)all);
  if (st != OD_OK) {
    od_record_shards_drop(shards);
    return st;
  }
  OD_TRY(od_record_shards_close(shards));
  od_info(reporter, "%s: %lld pictures, %lld boxes%s", output, (long long)r->written, (long long)r->boxes,
          r->skipped ? "" : ", none skipped");
  if (r->skipped) od_info(reporter, "%lld pictures were skipped, named above", (long long)r->skipped);
  return OD_OK;
}

/* Names of the lines of a text, each once. */
static od_status add_lines(od_strings *out, od_map *seen, char *text) {
  for (char *line = text, *next; line && *line; line = next) {
    next = strchr(line, '\n');
    if (next) *next++ = 0;
    line += strspn(line, " \t\r\"");
    line[strcspn(line, "\", \t\r")] = 0;
    if (!*line || od_map_has(seen, line)) continue;
    OD_TRY(od_map_set(seen, line, out));
    OD_TRY(od_strings_add(out, line));
  }
  return OD_OK;
}

od_status od_convert_names(od_strings *out, const char *path) {
  char *data;
  size_t size;
  od_map *seen;
  OD_TRY(od_file_read_all(&data, &size, path, (uint64_t)1 << 30));
  od_status st = od_map_new(&seen);
  if (st == OD_OK) st = add_lines(out, seen, data);
  od_map_free(seen);
  od_free(data);
  return st;
}

od_status od_convert_class(int64_t *id, const od_label_map *labels, const char *name) {
  int found = od_label_map_id(labels, name);
  if (found < 0) {
    const char *similar = od_label_map_similar(labels, name);
    return od_fail(OD_EINVAL, "class '%s' is not in the label map%s%s%s", name, similar ? "; did you mean '" : "",
                   similar ? similar : "", similar ? "'?" : "");
  }
  *id = found;
  return OD_OK;
}

void od_convert_sha256(char *text, const void *bytes, size_t size) {
  static const char digits[] = "0123456789abcdef";
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(bytes, size, digest);
  for (int i = 0; i < SHA256_DIGEST_LENGTH; i++) {
    text[2 * i] = digits[digest[i] >> 4];
    text[2 * i + 1] = digits[digest[i] & 15];
  }
  text[2 * SHA256_DIGEST_LENGTH] = 0;
}

od_status od_box_columns_new(od_box_columns *c, size_t n, od_arena *arena) {
  memset(c, 0, sizeof *c);
  float *f = od_arena_alloc(arena, (n + 1) * 4 * sizeof *f);
  od_view *v = od_arena_alloc(arena, (n + 1) * 2 * sizeof *v);
  int64_t *l = od_arena_alloc(arena, (n + 1) * 3 * sizeof *l);
  if (!f || !v || !l) return OD_ENOMEM;
  *c = (od_box_columns){f, f + n, f + 2 * n, f + 3 * n, v, v + n, l, l + n, l + 2 * n, 0};
  return OD_OK;
}

void od_convert_add_picture(od_example_builder *b, int height, int width, const char *filename, const char *source_id,
                            const void *bytes, size_t size, const char *format) {
  char key[65];
  od_convert_sha256(key, bytes, size);
  od_example_add_int64(b, "image/height", height);
  od_example_add_int64(b, "image/width", width);
  od_example_add_text(b, "image/filename", filename);
  od_example_add_text(b, "image/source_id", source_id);
  od_example_add_text(b, "image/key/sha256", key);
  od_example_add_bytes(b, "image/encoded", bytes, size);
  od_example_add_text(b, "image/format", format);
}

void od_convert_add_boxes(od_example_builder *b, const od_box_columns *c) {
  od_example_add_floats(b, "image/object/bbox/xmin", c->xmin, c->count);
  od_example_add_floats(b, "image/object/bbox/xmax", c->xmax, c->count);
  od_example_add_floats(b, "image/object/bbox/ymin", c->ymin, c->count);
  od_example_add_floats(b, "image/object/bbox/ymax", c->ymax, c->count);
  od_example_add_bytes_list(b, "image/object/class/text", c->text, c->count);
  od_example_add_int64s(b, "image/object/class/label", c->label, c->count);
}
