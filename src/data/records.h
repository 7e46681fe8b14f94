/* The records of an input reader as one numbered sequence, over all files and shards. */
#ifndef OD_DATA_RECORDS_H
#define OD_DATA_RECORDS_H

#include "base/report.h"
#include "base/rng.h"
#include "base/str.h"
#include "io/path.h"

typedef struct od_records od_records;

typedef struct {
  bool shuffle;
  uint64_t seed;
  uint64_t sample_1_of_n;      /* 0 or 1: all; else every n-th position in file order */
  uint64_t window;             /* shuffle window of compressed files, in records; 0: 2048 */
  const od_reporter *reporter; /* for warnings while opening */
} od_records_options;

/* Appends the files that the patterns match, sorted by name. Of several patterns some may match nothing: they are warned of.
 * OD_EINVAL: a PATH_TO_BE_CONFIGURED, or both names of the pets' records are there; OD_ENOENT: nothing matches. */
OD_MUST_CHECK od_status od_records_find(od_strings *out, const char *const *patterns, size_t n, const od_reporter *reporter);

/* Opens all files that the patterns match, sorted by name. Plain files are indexed (frames only); if any is compressed the
 * records are read in sequence: shards in shuffled order, then a window. OD_ENOENT: nothing matches; OD_EDATA: a damaged
 * frame, or no record at all. The caller frees with od_records_free. */
OD_MUST_CHECK od_status od_records_open(od_records **out, const char *const *patterns, size_t n,
                                        const od_records_options *options);
void od_records_free(od_records *r);

/* Records in an epoch, after sample_1_of_n. */
uint64_t od_records_count(const od_records *r);
bool od_records_sequential(const od_records *r);
/* Changes when the files' names, number or record counts do. */
uint64_t od_records_fingerprint(const od_records *r);
size_t od_records_files(const od_records *r);
const char *od_records_path(const od_records *r, size_t file);

typedef struct {
  size_t file;
  uint64_t number; /* of the record in its file, from 0 */
} od_record_place;

/* Which record ticket t (epoch * count + index) means, for random access. Thread-safe for any t; an epoch's permutation is
 * made once and the last two are kept. OD_ENOMEM. */
OD_MUST_CHECK od_status od_records_place(od_record_place *out, od_records *r, uint64_t ticket);
/* Reads the payload at a place (random access). Thread-safe. Errors name file and record. */
OD_MUST_CHECK od_status od_records_read(od_records *r, const od_record_place *place, od_str *buffer);
/* Sequential access: the payload of this ticket. Tickets must be asked for in rising order, by one thread at a time; one
 * beyond the next skips (a resumed run reads its way forward). */
OD_MUST_CHECK od_status od_records_next(od_records *r, uint64_t ticket, od_record_place *place, od_str *buffer);

#endif
