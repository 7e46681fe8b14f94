/* Reading is sequential, so that damaged and compressed files can be gone through; records are examined in blocks on all
 * threads and their findings come out in order. Duplicates are found by a digest of the picture's bytes. */
#include "data/record_check.h"

#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "data/convert.h"
#include "data/record_examine.h"
#include "image/decode.h"

enum { BLOCK = 64 };

const char *od_finding_name(od_finding_kind kind) {
  static const char *const names[] = {
#define X(e, name, text) name,
      OD_FINDING_LIST(X)
#undef X
  };
  return (unsigned)kind < OD_FINDINGS ? names[kind] : "?";
}

void od_finding_format(od_str *out, const od_finding *f) {
  od_str_addf(out, "%s: record %llu", f->file, (unsigned long long)f->record);
  if (f->source_id[0]) od_str_addf(out, " (%s)", f->source_id);
  if (f->box >= 0) od_str_addf(out, ", box %d", f->box);
  od_str_addf(out, ": %s: %s", od_finding_name(f->kind), f->text);
}

typedef struct {
  const od_record_check_options *o;
  od_record_check_result *out;
  const char *path;
  od_examined items[BLOCK];
  int filled;
  od_map *pictures, *sources; /* digest or source_id to "file: record n" */
  od_arena *names;            /* those texts */
} checker;

static od_status examine_one(void *ctx, int64_t i) {
  checker *c = ctx;
  return od_examine(&c->items[i], c->o);
}

static void report(checker *c, const od_examined *e, od_finding_kind kind, int box, const char *text) {
  od_finding f = {kind, c->path, e->number, e->source_id ? e->source_id : "", box, text};
  c->out->findings++;
  c->out->by_kind[kind]++;
  if (c->o->on_finding) c->o->on_finding(c->o->ctx, &f);
}

/* Remembers a key; what stood there before, or NULL. */
static od_status seen_before(const char **before, checker *c, od_map *map, const char *key, const od_examined *e) {
  *before = od_map_get(map, key);
  if (*before) return OD_OK;
  char *place = od_arena_printf(c->names, "%s: record %llu", c->path, (unsigned long long)e->number);
  if (!place) return OD_ENOMEM;
  return od_map_set(map, key, place);
}

static od_status find_duplicates(checker *c, const od_examined *e) {
  const char *before;
  char text[600];
  if (e->digest[0]) {
    OD_TRY(seen_before(&before, c, c->pictures, e->digest, e));
    if (before) {
      snprintf(text, sizeof text, "the same picture as in %s", before);
      report(c, e, OD_FIND_DUPLICATE, -1, text);
      return OD_OK; /* its source_id is the same, too, as a rule: once is enough */
    }
  }
  if (e->source_id && e->source_id[0]) {
    OD_TRY(seen_before(&before, c, c->sources, e->source_id, e));
    if (before) {
      snprintf(text, sizeof text, "the same source_id as %s, on another picture: evaluation counts both as one",
               before);
      report(c, e, OD_FIND_DUPLICATE, -1, text);
    }
  }
  return OD_OK;
}

static od_status count_classes(od_record_check_result *out, const od_examined *e) {
  for (int i = 0; i < e->boxes; i++) {
    int id = e->classes[i];
    if (id < 0 || id > 100000) continue;
    if (id >= out->classes) {
      uint64_t *grown = od_realloc(out->boxes_of_class, (size_t)(id + 1) * sizeof *grown);
      if (!grown) return OD_ENOMEM;
      memset(grown + out->classes, 0, (size_t)(id + 1 - out->classes) * sizeof *grown);
      out->boxes_of_class = grown;
      out->classes = id + 1;
    }
    out->boxes_of_class[id]++;
  }
  return OD_OK;
}

static od_status finish_item(checker *c, od_examined *e) {
  od_record_check_result *out = c->out;
  out->records++;
  out->boxes += (uint64_t)e->boxes;
  for (size_t i = 0; i < e->count; i++) report(c, e, e->found[i].kind, e->found[i].box, e->found[i].text);
  OD_TRY(find_duplicates(c, e));
  OD_TRY(count_classes(out, e));
  if (e->height > 0) {
    if (out->min_height == 0 || e->height < out->min_height) out->min_height = e->height;
    if (out->min_width == 0 || e->width < out->min_width) out->min_width = e->width;
    if (e->height > out->max_height) out->max_height = e->height;
    if (e->width > out->max_width) out->max_width = e->width;
  }
  return OD_OK;
}

static od_status flush(checker *c) {
  OD_TRY(od_parallel_for(c->filled, c->o->threads, examine_one, c));
  for (int i = 0; i < c->filled; i++) OD_TRY(finish_item(c, &c->items[i]));
  c->filled = 0;
  return OD_OK;
}

/* A finding about a record that could not be read. */
static od_status report_unread(checker *c, uint64_t number, od_finding_kind kind) {
  char text[OD_MESSAGE_MAX];
  snprintf(text, sizeof text, "%s", od_message());
  OD_TRY(flush(c));
  od_examined e = {.number = number};
  report(c, &e, kind, -1, text);
  return OD_OK;
}

static od_status check_file(checker *c, od_progress *progress) {
  od_record_reader *reader;
  od_view v;
  od_status st = od_record_reader_open(&reader, c->path, NULL);
  if (st == OD_EDATA) return report_unread(c, 0, OD_FIND_FILE);
  OD_TRY(st);
  for (uint64_t n = 0; c->o->limit == 0 || n < c->o->limit; n++) {
    OD_GO(st, od_stop_check());
    st = od_record_read(reader, &v);
    if (st == OD_END) break;
    if (st == OD_OK) {
      od_examined *e = &c->items[c->filled];
      od_examined_reset(e, od_record_reader_number(reader));
      od_str_add_bytes(&e->payload, v.data, v.size);
      OD_GO(st, od_str_check(&e->payload));
      if (++c->filled == BLOCK) OD_GO(st, flush(c));
    } else {
      bool skip = st == OD_EDATA && od_record_reader_can_skip(reader);
      if (st != OD_EDATA) goto done;
      OD_GO(st, report_unread(c, od_record_reader_number(reader), skip ? OD_FIND_CRC : OD_FIND_FILE));
      if (skip) c->out->records++;
      if (!skip) break;
    }
    od_progress_step(progress, c->out->records);
  }
  st = flush(c);
done:
  od_record_reader_free(reader);
  return st;
}

static void free_checker(checker *c) {
  for (int i = 0; i < BLOCK; i++) od_examined_free(&c->items[i]);
  od_map_free(c->pictures);
  od_map_free(c->sources);
  od_arena_free(c->names);
  od_free(c);
}

/* Records of all files, for the progress line; 0 where only reading would tell (compressed or damaged files). */
static uint64_t count_all(const od_strings *paths, uint64_t limit) {
  uint64_t n = 0;
  for (size_t i = 0; i < paths->count; i++) {
    od_record_file *f;
    if (od_record_file_open(&f, paths->items[i], NULL) != OD_OK) return 0;
    uint64_t here = od_record_file_count(f);
    n += limit && here > limit ? limit : here;
    od_record_file_free(f);
  }
  return n;
}

od_status od_record_check(od_record_check_result *out, const od_record_check_options *o) {
  od_strings paths = {0};
  checker *c = NULL;
  od_progress progress;
  od_status st = OD_OK;
  memset(out, 0, sizeof *out);
  OD_TRY(od_new(&c, 1, sizeof *c));
  c->o = o;
  c->out = out;
  OD_GO(st, od_map_new(&c->pictures));
  OD_GO(st, od_map_new(&c->sources));
  OD_GO(st, od_arena_new(&c->names));
  OD_GO(st, od_path_glob_all(&paths, o->patterns, o->pattern_count));
  od_progress_start(&progress, o->reporter, "records", 0, o->reporter ? count_all(&paths, o->limit) : 0);
  for (size_t i = 0; i < paths.count; i++) {
    c->path = paths.items[i];
    out->files++;
    OD_GO(st, check_file(c, &progress));
  }
  od_progress_end(&progress);
done:
  free_checker(c);
  od_strings_free(&paths);
  if (st != OD_OK) od_record_check_free(out);
  return st;
}

void od_record_check_free(od_record_check_result *r) {
  od_free(r->boxes_of_class);
  memset(r, 0, sizeof *r);
}
