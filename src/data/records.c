/* Permutations over plain files; shards and a window over compressed ones. Both are functions of (seed, epoch) alone. */
#include "data/records.h"

#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "io/record.h"

typedef struct {
  od_str payload;
  od_record_place place;
  bool damaged; /* its CRC is wrong; it keeps its place in the order all the same */
} held;

/* Where the sequential reader stands. */
typedef struct {
  bool started;
  uint64_t epoch, given; /* tickets given in this epoch */
  uint64_t *shards;      /* order of files in this epoch */
  size_t shard;
  od_record_reader *reader;
  held *window;
  uint64_t filled;
} sequence;

struct od_records {
  od_strings paths;
  od_records_options options;
  od_record_file **files; /* NULL when sequential */
  uint64_t *first;        /* [files + 1] number of the first record of each file in the whole sequence */
  uint64_t count;
  bool sequential;
  pthread_mutex_t lock;
  struct {
    bool valid;
    uint64_t epoch;
    uint64_t *order;
  } epochs[2];
  sequence seq;
};

static uint64_t every(const od_records *r) { return r->options.sample_1_of_n > 1 ? r->options.sample_1_of_n : 1; }

static od_status is_packed(bool *out, const char *path) {
  od_record_reader *reader;
  OD_TRY(od_record_reader_open(&reader, path, NULL));
  *out = od_record_reader_compression(reader) != OD_RECORD_PLAIN;
  od_record_reader_free(reader);
  return OD_OK;
}

/* Records of a compressed file: only reading it tells. */
static od_status count_packed(uint64_t *out, const char *path) {
  od_record_reader *reader;
  od_view v;
  *out = 0;
  OD_TRY(od_record_reader_open(&reader, path, NULL));
  od_status st;
  while ((st = od_record_read(reader, &v)) == OD_OK || (st == OD_EDATA && od_record_reader_can_skip(reader))) (*out)++;
  od_record_reader_free(reader);
  return st == OD_END ? OD_OK : st;
}

static od_status open_files(od_records *r) {
  size_t n = r->paths.count;
  OD_TRY(od_new(&r->first, n + 1, sizeof *r->first));
  for (size_t i = 0; i < n && !r->sequential; i++) OD_TRY(is_packed(&r->sequential, r->paths.items[i]));
  if (!r->sequential) OD_TRY(od_new(&r->files, n, sizeof *r->files));
  for (size_t i = 0; i < n; i++) {
    uint64_t count;
    if (r->sequential) {
      OD_TRY(count_packed(&count, r->paths.items[i]));
    } else {
      OD_TRY(od_record_file_open(&r->files[i], r->paths.items[i], NULL));
      count = od_record_file_count(r->files[i]);
    }
    r->first[i + 1] = r->first[i] + count;
  }
  r->count = (r->first[n] + every(r) - 1) / every(r);
  if (r->count == 0)
    return od_fail(OD_EDATA, "%s%s no record: was the conversion finished?", r->paths.items[0],
                   n > 1 ? " and the other files hold" : " holds");
  return OD_OK;
}

/* The pages' two names of the same pets: whoever has both would train on some pictures twice. */
static od_status check_pets(const od_strings *paths) {
  static const char *const pairs[][2] = {{"pet_train.record", "pet_faces_train.record"},
                                         {"pet_val.record", "pet_faces_val.record"}};
  for (size_t p = 0; p < 2; p++) {
    const char *found[2] = {NULL, NULL};
    for (size_t i = 0; i < paths->count; i++)
      for (int k = 0; k < 2; k++)
        if (od_starts_with(od_path_base(paths->items[i]), pairs[p][k])) found[k] = paths->items[i];
    if (found[0] && found[1])
      return od_fail(OD_EINVAL,
                     "both %s and %s are there, two names of the same pictures: remove one of them, or one "
                     "input_path from the config",
                     found[0], found[1]);
  }
  return OD_OK;
}

/* Patterns that match nothing are warned of as long as another one matches: the original takes that, too. */
od_status od_records_find(od_strings *out, const char *const *patterns, size_t n, const od_reporter *reporter) {
  for (size_t i = 0; i < n; i++) {
    if (strstr(patterns[i], "PATH_TO_BE_CONFIGURED"))
      return od_fail(OD_EINVAL, "input_path still is '%s': replace PATH_TO_BE_CONFIGURED by the folder of the records",
                     patterns[i]);
    od_status st = od_path_glob(out, patterns[i]);
    if (st == OD_ENOENT && n > 1)
      od_warn(reporter, "%s", od_message());
    else
      OD_TRY(st);
  }
  if (out->count == 0)
    return od_fail(OD_ENOENT, "no file matches any input_path, the last one was '%s'", n ? patterns[n - 1] : "");
  od_strings_sort(out);
  return check_pets(out);
}

od_status od_records_open(od_records **out, const char *const *patterns, size_t n, const od_records_options *options) {
  od_records *r = NULL;
  od_status st = OD_OK;
  *out = NULL;
  OD_TRY(od_new(&r, 1, sizeof *r));
  pthread_mutex_init(&r->lock, NULL);
  r->options = *options;
  if (r->options.window == 0) r->options.window = 2048;
  OD_GO(st, od_records_find(&r->paths, patterns, n, options->reporter));
  OD_GO(st, open_files(r));
  *out = r;
done:
  if (st != OD_OK) od_records_free(r);
  return st;
}

static void close_sequence(sequence *q, uint64_t window) {
  od_record_reader_free(q->reader);
  od_free(q->shards);
  for (uint64_t i = 0; q->window && i < window; i++) od_str_free(&q->window[i].payload);
  od_free(q->window);
  memset(q, 0, sizeof *q);
}

void od_records_free(od_records *r) {
  if (!r) return;
  close_sequence(&r->seq, r->options.window);
  for (size_t i = 0; r->files && i < r->paths.count; i++) od_record_file_free(r->files[i]);
  od_free(r->files);
  od_free(r->first);
  od_free(r->epochs[0].order);
  od_free(r->epochs[1].order);
  od_strings_free(&r->paths);
  pthread_mutex_destroy(&r->lock);
  od_free(r);
}

uint64_t od_records_count(const od_records *r) { return r->count; }
bool od_records_sequential(const od_records *r) { return r->sequential; }
size_t od_records_files(const od_records *r) { return r->paths.count; }
const char *od_records_path(const od_records *r, size_t file) { return r->paths.items[file]; }

uint64_t od_records_fingerprint(const od_records *r) {
  od_key h = od_key_mix(0, every(r));
  for (size_t i = 0; i < r->paths.count; i++) {
    h = od_key_name(h, od_path_base(r->paths.items[i]));
    h = od_key_mix(h, r->first[i + 1]);
  }
  return h;
}

static od_key epoch_key(const od_records *r, uint64_t epoch) {
  return od_key_name(od_key_mix(od_key_mix(0, r->options.seed), epoch), "records");
}

/* Position in an epoch to position in the sequence, through the epoch's permutation. The lock is held. */
static od_status permuted(uint64_t *out, od_records *r, uint64_t epoch, uint64_t index) {
  int slot = (int)(epoch & 1);
  if (!r->epochs[slot].valid || r->epochs[slot].epoch != epoch) {
    if (!r->epochs[slot].order) OD_TRY(od_new(&r->epochs[slot].order, r->count, sizeof(uint64_t)));
    od_rng_permutation(r->epochs[slot].order, r->count, epoch_key(r, epoch));
    r->epochs[slot].epoch = epoch;
    r->epochs[slot].valid = true;
  }
  *out = r->epochs[slot].order[index];
  return OD_OK;
}

static void place_of(od_record_place *out, const od_records *r, uint64_t number) {
  size_t low = 0, high = r->paths.count;
  while (high - low > 1) {
    size_t mid = (low + high) / 2;
    if (r->first[mid] <= number)
      low = mid;
    else
      high = mid;
  }
  out->file = low;
  out->number = number - r->first[low];
}

od_status od_records_place(od_record_place *out, od_records *r, uint64_t ticket) {
  uint64_t index = ticket % r->count, epoch = ticket / r->count;
  OD_ASSERT(!r->sequential);
  if (r->options.shuffle) {
    pthread_mutex_lock(&r->lock);
    od_status st = permuted(&index, r, epoch, index);
    pthread_mutex_unlock(&r->lock);
    OD_TRY(st);
  }
  place_of(out, r, index * every(r));
  return OD_OK;
}

od_status od_records_read(od_records *r, const od_record_place *place, od_str *buffer) {
  return od_record_file_read(r->files[place->file], place->number, buffer);
}

/* -------------------------------------------------------------------------------------------------- compressed files */
static od_status start_epoch(od_records *r, uint64_t epoch) {
  sequence *q = &r->seq;
  if (!q->shards) OD_TRY(od_new(&q->shards, r->paths.count, sizeof *q->shards));
  if (!q->window) OD_TRY(od_new(&q->window, r->options.window, sizeof *q->window));
  for (size_t i = 0; i < r->paths.count; i++) q->shards[i] = i;
  if (r->options.shuffle) od_rng_permutation(q->shards, r->paths.count, od_key_name(epoch_key(r, epoch), "shards"));
  od_record_reader_free(q->reader);
  q->reader = NULL;
  q->started = true;
  q->epoch = epoch;
  q->given = q->filled = 0;
  q->shard = 0;
  return OD_OK;
}

/* The next record in reading order that sample_1_of_n takes; OD_END behind the last one of the epoch. */
static od_status read_on(od_records *r, held *out) {
  sequence *q = &r->seq;
  for (;;) {
    if (!q->reader) {
      if (q->shard == r->paths.count) return OD_END;
      OD_TRY(od_record_reader_open(&q->reader, r->paths.items[q->shards[q->shard]], NULL));
    }
    od_view v;
    od_status st = od_record_read(q->reader, &v);
    if (st == OD_END) {
      od_record_reader_free(q->reader);
      q->reader = NULL;
      q->shard++;
      continue;
    }
    bool skippable = st == OD_EDATA && od_record_reader_can_skip(q->reader);
    if (st != OD_OK && !skippable) return st;
    out->place.file = (size_t)q->shards[q->shard];
    out->place.number = od_record_reader_number(q->reader);
    uint64_t whole = r->first[out->place.file] + out->place.number;
    if (whole % every(r) != 0) continue;
    od_str_clear(&out->payload);
    out->damaged = skippable;
    if (skippable) return OD_OK;
    od_str_add_bytes(&out->payload, v.data, v.size);
    return od_str_check(&out->payload);
  }
}

/* Takes the next record of the epoch in shuffled order into *out. */
static od_status take(od_records *r, held *out) {
  sequence *q = &r->seq;
  uint64_t want = r->options.shuffle ? r->options.window : 1;
  while (q->filled < want) {
    od_status st = read_on(r, &q->window[q->filled]);
    if (st == OD_END) break;
    OD_TRY(st);
    q->filled++;
  }
  if (q->filled == 0) return OD_END;
  uint64_t pick =
      r->options.shuffle ? od_rng_below(od_key_name(epoch_key(r, q->epoch), "window"), q->given, q->filled) : 0;
  held swap = *out;
  *out = q->window[pick];
  q->window[pick] = q->window[q->filled - 1];
  q->window[q->filled - 1] = swap;
  q->filled--;
  q->given++;
  return OD_OK;
}

od_status od_records_next(od_records *r, uint64_t ticket, od_record_place *place, od_str *buffer) {
  sequence *q = &r->seq;
  uint64_t epoch = ticket / r->count, index = ticket % r->count;
  OD_ASSERT(r->sequential);
  if (!q->started || q->epoch != epoch || q->given > index) OD_TRY(start_epoch(r, epoch));
  held h = {*buffer, {0, 0}, false};
  od_status st = OD_OK;
  while (st == OD_OK && q->given <= index) st = take(r, &h);
  *buffer = h.payload;
  *place = h.place;
  if (st == OD_OK && h.damaged)
    return od_fail(OD_EDATA, "%s: record %llu: its bytes do not fit its CRC", r->paths.items[h.place.file],
                   (unsigned long long)h.place.number);
  return st == OD_END ? od_fail(OD_EDATA, "the compressed record files became shorter while they were read") : st;
}
