/* Writing event files, see event.h. Event: 1 wall_time, 2 step, 3 file_version, 4 graph_def, 5 summary, 7 session_log, 9
 * meta_graph_def; Summary.Value: 1 tag, 2 simple_value, 4 image, 5 histo (TensorFlow's event.proto and summary.proto). */
#include "io/event.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "io/crc32c.h"

struct od_event_writer {
  od_file *file;
};

static double now(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_REALTIME, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Writes an Event whose last field is `number` with these bytes; the payload, which may be a large graph, is not copied. */
static od_status write_event(od_event_writer *w, double wall_time, int64_t step, uint32_t number, od_view payload) {
  od_str s = OD_STR_INIT;
  uint8_t head[12], tail[4];
  od_status st;
  uint64_t begun = od_file_tell(w->file);
  od_wire_put_double(&s, 1, wall_time > 0 ? wall_time : now());
  if (step) od_wire_put_varint(&s, 2, (uint64_t)step);
  od_wire_raw_varint(&s, (uint64_t)number << 3 | OD_WIRE_BYTES);
  od_wire_raw_varint(&s, payload.size);
  OD_GO(st, od_str_check(&s));
  od_store_u64(head, s.len + payload.size);
  od_store_u32(head + 8, od_crc32c_mask(od_crc32c(head, 8)));
  od_store_u32(tail, od_crc32c_mask(od_crc32c_extend(od_crc32c(s.data, s.len), payload.data, payload.size)));
  OD_GO(st, od_file_write(w->file, head, sizeof head));
  OD_GO(st, od_file_write(w->file, s.data, s.len));
  OD_GO(st, od_file_write(w->file, payload.data, payload.size));
  OD_GO(st, od_file_write(w->file, tail, sizeof tail));
  st = od_file_flush(w->file);
done:
  od_str_free(&s);
  if (st) { /* half a record would make all that follows unreadable */
    char message[OD_MESSAGE_MAX];
    snprintf(message, sizeof message, "%s", od_message());
    if (od_file_cut(w->file, begun) != OD_OK)
      st = od_fail(st, "%s (and the file ends in half a record)", message);
    else
      (void)od_fail_take(st, message);
  }
  return st;
}

/* Creates the first file of the name that is free. */
static od_status create(od_file **out, const char *folder, const char *suffix, double wall_time) {
  enum { TRIES = 1000 };
  char host[65] = "localhost";
  (void)gethostname(host, sizeof host - 1);
  od_status st = OD_OK;
  for (int i = 0; i < TRIES; i++) {
    od_str name = OD_STR_INIT;
    char *path = NULL;
    od_str_addf(&name, "events.out.tfevents.%010lld.%s%s", (long long)wall_time, host, suffix ? suffix : "");
    if (i > 0) od_str_addf(&name, "_%d", i);
    st = od_str_check(&name);
    if (!st) st = od_path_join(&path, folder, od_str_text(&name));
    bool taken = !st && od_path_exists(path);
    if (!st && !taken) st = od_file_append(out, path, true);
    taken = taken || (st && path && od_path_exists(path)); /* another process was faster */
    od_free(path);
    od_str_free(&name);
    if (!taken) return st;
  }
  return st ? st : od_fail(OD_EIO, "%s: %d event files of this second exist already", folder, (int)TRIES);
}

od_status od_event_writer_open(od_event_writer **out, const char *folder, const char *suffix, double wall_time) {
  *out = NULL;
  od_event_writer *w;
  if (wall_time <= 0) wall_time = now();
  OD_TRY(od_path_make_dirs(folder));
  OD_TRY(od_new(&w, 1, sizeof *w));
  static const char version[] = "brain.Event:2";
  od_status st = create(&w->file, folder, suffix, wall_time);
  if (!st) st = write_event(w, wall_time, 0, 3, (od_view){(const uint8_t *)version, sizeof version - 1});
  if (st) {
    od_file_drop(w->file);
    od_free(w);
    return st;
  }
  *out = w;
  return OD_OK;
}

const char *od_event_writer_path(const od_event_writer *w) { return od_file_path(w->file); }

od_status od_event_writer_close(od_event_writer *w) {
  if (!w) return OD_OK;
  od_status st = od_file_close(w->file);
  od_free(w);
  return st;
}

od_status od_event_write_summary(od_event_writer *w, int64_t step, double wall_time, const od_str *summary) {
  OD_TRY(od_str_check(summary));
  if (summary->len == 0) return OD_OK;
  return write_event(w, wall_time, step, 5, (od_view){(const uint8_t *)summary->data, summary->len});
}

od_status od_event_write_graph(od_event_writer *w, int64_t step, double wall_time, od_view graph_def) {
  return write_event(w, wall_time, step, 4, graph_def);
}

od_status od_event_write_meta_graph(od_event_writer *w, int64_t step, double wall_time, od_view meta_graph_def) {
  return write_event(w, wall_time, step, 9, meta_graph_def);
}

od_status od_event_write_session(od_event_writer *w, int64_t step, double wall_time, od_session_status status,
                                 const char *checkpoint) {
  od_str s = OD_STR_INIT;
  od_wire_put_varint(&s, 1, (uint64_t)status);
  if (checkpoint) od_wire_put_text(&s, 2, checkpoint);
  od_status st = od_str_check(&s);
  if (!st) st = write_event(w, wall_time, step, 7, (od_view){(const uint8_t *)s.data, s.len});
  od_str_free(&s);
  return st;
}

/* ------------------------------------------------------------------------------------------------------------ values */
void od_summary_add_scalar(od_str *summary, const char *tag, double value) {
  size_t v = od_wire_begin(summary, 1);
  od_wire_put_text(summary, 1, tag);
  od_wire_put_float(summary, 2, (float)value);
  od_wire_end(summary, v);
}

void od_summary_add_image(od_str *summary, const char *tag, int height, int width, int channels, od_view png,
                          bool only_encoded) {
  size_t v = od_wire_begin(summary, 1);
  od_wire_put_text(summary, 1, tag);
  size_t image = od_wire_begin(summary, 4);
  if (!only_encoded) {
    od_wire_put_varint(summary, 1, (uint64_t)height);
    od_wire_put_varint(summary, 2, (uint64_t)width);
    od_wire_put_varint(summary, 3, (uint64_t)channels);
  }
  od_wire_put_bytes(summary, 4, png.data, png.size);
  od_wire_end(summary, image);
  od_wire_end(summary, v);
}

void od_summary_add_text(od_str *summary, const char *tag, const char *text) {
  enum { DT_STRING = 7 };
  size_t v = od_wire_begin(summary, 1);
  od_wire_put_text(summary, 1, tag);
  size_t tensor = od_wire_begin(summary, 8);
  od_wire_put_varint(summary, 1, DT_STRING);
  od_wire_end(summary, od_wire_begin(summary, 2)); /* a scalar's shape */
  od_wire_put_text(summary, 8, text);
  od_wire_end(summary, tensor);
  od_wire_end(summary, v);
}

/* TensorFlow's default limits (tsl/lib/histogram): 1e-12 * 1.1^k below 1e20 and the largest double, mirrored, and zero. Made by
 * repeated multiplication as there, so that they are the same doubles. */
enum { MAX_LIMITS = 1600 };
static double limits[MAX_LIMITS];
static int limit_count;
static pthread_once_t limits_once = PTHREAD_ONCE_INIT;

static void make_limits(void) {
  static double positive[MAX_LIMITS / 2];
  int n = 0;
  for (double v = 1e-12; v < 1e20; v *= 1.1) positive[n++] = v;
  positive[n++] = DBL_MAX;
  OD_ASSERT(2 * n + 1 <= MAX_LIMITS);
  for (int i = 0; i < n; i++) {
    limits[n - 1 - i] = -positive[i];
    limits[n + 1 + i] = positive[i];
  }
  limits[n] = 0;
  limit_count = 2 * n + 1;
}

/* The first limit above x. */
static int bucket_of(double x) {
  int low = 0, high = limit_count - 1;
  while (low < high) {
    int mid = (low + high) / 2;
    if (limits[mid] > x)
      high = mid;
    else
      low = mid + 1;
  }
  return low;
}

static void put_double(od_str *s, double x) {
  uint64_t bits;
  uint8_t b[8];
  memcpy(&bits, &x, sizeof bits);
  od_store_u64(b, bits);
  od_str_add_bytes(s, b, sizeof b);
}

typedef struct {
  double min, max, sum, squares;
  double buckets[MAX_LIMITS];
} histogram;

/* A run of empty buckets is written as one, with the limit of its last. */
static void put_histogram(od_str *s, const histogram *h, size_t n) {
  const double numbers[5] = {n ? h->min : DBL_MAX, n ? h->max : -DBL_MAX, (double)n, h->sum, h->squares};
  for (uint32_t i = 0; i < 5; i++)
    if (numbers[i] != 0) od_wire_put_double(s, i + 1, numbers[i]);
  for (uint32_t field = 6; field <= 7; field++) {
    size_t packed = od_wire_begin(s, field);
    for (int i = 0; i < limit_count; i++) {
      bool empty = h->buckets[i] <= 0;
      while (empty && i + 1 < limit_count && h->buckets[i + 1] <= 0) i++;
      put_double(s, field == 6 ? limits[i] : h->buckets[i]);
    }
    od_wire_end(s, packed);
  }
}

od_status od_summary_add_histogram(od_str *summary, const char *tag, const float *values, size_t n) {
  histogram *h;
  pthread_once(&limits_once, make_limits);
  OD_TRY(od_new(&h, 1, sizeof *h));
  h->min = DBL_MAX;
  h->max = -DBL_MAX;
  for (size_t i = 0; i < n; i++) {
    double x = values[i];
    if (!isfinite(x)) {
      od_free(h);
      return od_fail(OD_ENUMERIC, "histogram '%s': value %zu of %zu is %g", tag, i, n, x);
    }
    h->buckets[bucket_of(x)]++;
    if (x < h->min) h->min = x;
    if (x > h->max) h->max = x;
    h->sum += x;
    h->squares += x * x;
  }
  size_t v = od_wire_begin(summary, 1);
  od_wire_put_text(summary, 1, tag);
  size_t histo = od_wire_begin(summary, 5);
  put_histogram(summary, h, n);
  od_wire_end(summary, histo);
  od_wire_end(summary, v);
  od_free(h);
  return od_str_check(summary);
}
