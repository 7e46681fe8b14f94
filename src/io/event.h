/* Event files, TensorBoard's input: records of Event messages that grow while a program runs.
 *
 * File name `events.out.tfevents.<seconds, 10 digits>.<host><suffix>`; the first record is the file version. Every write is
 * handed to the system at once, so that a reader beside the run sees it. */
#ifndef OD_IO_EVENT_H
#define OD_IO_EVENT_H

#include <stdint.h>

#include "base/status.h"
#include "base/str.h"
#include "io/file.h"
#include "io/wire.h"

/* ------------------------------------------------------------------------------------------------------ writing */
typedef struct od_event_writer od_event_writer;

/* Opens a new file in a folder, which is made when missing. suffix (NULL: "") comes behind the host's name; where the name is
 * taken already, "_1", "_2" ... follows. wall_time, in seconds since 1970, is that of the name and of the first record; 0: now. */
OD_MUST_CHECK od_status od_event_writer_open(od_event_writer **out, const char *folder, const char *suffix,
                                             double wall_time);
const char *od_event_writer_path(const od_event_writer *w);
OD_MUST_CHECK od_status od_event_writer_close(od_event_writer *w); /* frees it; NULL is fine */

/* Each writes one Event; wall_time 0: now. */
/* summary holds values, put there by od_summary_...; an empty one writes nothing. */
OD_MUST_CHECK od_status od_event_write_summary(od_event_writer *w, int64_t step, double wall_time,
                                               const od_str *summary);
/* A serialized GraphDef or MetaGraphDef, not copied. */
OD_MUST_CHECK od_status od_event_write_graph(od_event_writer *w, int64_t step, double wall_time, od_view graph_def);
OD_MUST_CHECK od_status od_event_write_meta_graph(od_event_writer *w, int64_t step, double wall_time,
                                                  od_view meta_graph_def);

typedef enum { OD_SESSION_START = 1, OD_SESSION_STOP = 2, OD_SESSION_CHECKPOINT = 3 } od_session_status;
/* START at a step tells TensorBoard to drop what an earlier run wrote for later steps. checkpoint: its path, or NULL. */
OD_MUST_CHECK od_status od_event_write_session(od_event_writer *w, int64_t step, double wall_time,
                                               od_session_status status, const char *checkpoint);

/* Append a value to a summary (a text that starts empty and is cleared between steps; sticky, see od_str). */
void od_summary_add_scalar(od_str *summary, const char *tag, double value);
/* A PNG. With only_encoded the sizes are left out, as the legacy evaluation does. channels: 1 grey, 3 RGB, 4 RGBA. */
void od_summary_add_image(od_str *summary, const char *tag, int height, int width, int channels, od_view png,
                          bool only_encoded);
/* A text, as a string tensor. */
void od_summary_add_text(od_str *summary, const char *tag, const char *text);
/* A histogram of n numbers in TensorFlow's buckets (1e-12 to 1e20 by tenths, both signs, zero between). OD_ENUMERIC naming tag and
 * index when one is not finite, as TensorFlow refuses it. */
OD_MUST_CHECK od_status od_summary_add_histogram(od_str *summary, const char *tag, const float *values, size_t n);

/* ------------------------------------------------------------------------------------------------------ reading */
typedef enum {
  OD_EVENT_OTHER,
  OD_EVENT_VERSION, /* payload: "brain.Event:2" */
  OD_EVENT_GRAPH,   /* payload: a GraphDef */
  OD_EVENT_SUMMARY, /* payload: a Summary */
  OD_EVENT_SESSION, /* payload: a SessionLog */
  OD_EVENT_META_GRAPH
} od_event_kind;

typedef struct {
  double wall_time;
  int64_t step;
  od_event_kind kind;
  od_view payload; /* borrowed */
} od_event;

/* Parses one record; OD_EDATA when it is no Event. */
OD_MUST_CHECK od_status od_event_parse(od_event *out, od_view record);

typedef enum { OD_VALUE_OTHER, OD_VALUE_SCALAR, OD_VALUE_IMAGE, OD_VALUE_HISTOGRAM, OD_VALUE_TENSOR } od_value_kind;

typedef struct {
  od_view tag;
  od_value_kind kind;
  double scalar;               /* of a scalar, also of one stored as a float tensor */
  int64_t height, width;       /* of an image; 0 where not said */
  od_view encoded;             /* of an image: PNG or JPEG */
  double min, max, count, sum; /* of a histogram */
  od_view plugin;              /* name of the plugin of a TF2 value, e.g. "scalars"; may be empty */
} od_summary_value;

/* Walks a Summary: start with od_wire_over(event.payload); false at the end, and at damage (then w->bad). */
bool od_summary_next(od_wire *w, od_summary_value *value);

#endif
