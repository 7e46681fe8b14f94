/* One way to say things for both forms of `inspect`: fields, lists of rows, rows of fields. As text a field is "key: value" and a
 * row one indented line; as JSON objects and arrays. Private to inspect*.c. */
#ifndef OD_IO_INSPECT_REPORT_H
#define OD_IO_INSPECT_REPORT_H

#include "base/str.h"
#include "base/tensor.h"
#include "io/file.h"
#include "io/wire.h"

typedef struct {
  od_str *out;
  bool json;
  int depth;   /* 0: top level, 1: a list, 2: a row in it */
  bool comma;  /* JSON: something stands before on this level */
  bool in_row; /* text: a field stands before in this row */
} od_inspect_report;

void od_inspect_begin(od_inspect_report *r);
void od_inspect_end(od_inspect_report *r);
void od_inspect_text(od_inspect_report *r, const char *key, od_view value);
void od_inspect_cstr(od_inspect_report *r, const char *key, const char *value);
void od_inspect_int(od_inspect_report *r, const char *key, int64_t value);
void od_inspect_number(od_inspect_report *r, const char *key, double value); /* JSON: null when not finite */
/* shape NULL: unknown rank */
void od_inspect_shape(od_inspect_report *r, const char *key, const od_shape *shape);
void od_inspect_list(od_inspect_report *r, const char *key);
void od_inspect_list_end(od_inspect_report *r);
void od_inspect_row(od_inspect_report *r);
void od_inspect_row_end(od_inspect_report *r);

/* "float32", or "type 20" for what we do not know. text holds 16 bytes. */
const char *od_inspect_type(char text[16], int tf_dtype);

/* The kinds of content; each appends its fields. bytes is the whole file. */
OD_MUST_CHECK od_status od_inspect_records(od_inspect_report *r, const char *path);
OD_MUST_CHECK od_status od_inspect_events(od_inspect_report *r, const char *path);
OD_MUST_CHECK od_status od_inspect_checkpoint(od_inspect_report *r, const char *path);
OD_MUST_CHECK od_status od_inspect_graph(od_inspect_report *r, const char *path, od_view bytes);
OD_MUST_CHECK od_status od_inspect_meta_graph(od_inspect_report *r, const char *path, od_view bytes);
OD_MUST_CHECK od_status od_inspect_saved_model(od_inspect_report *r, const char *path, od_view bytes);

/* What a binary protobuf looks like by its first fields. */
typedef enum { OD_GRAPH_NONE, OD_GRAPH_DEF, OD_GRAPH_META, OD_GRAPH_SAVED_MODEL } od_graph_kind;
od_graph_kind od_graph_guess(od_view bytes);

#endif
