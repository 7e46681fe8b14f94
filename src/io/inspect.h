/* What is in a file: the library half of `objdet inspect`.
 *
 * Recognised by content, not by name: TFRecords of tf.Examples, event files, checkpoints (V2 and V1, by prefix, part or folder),
 * GraphDefs, MetaGraphDefs, SavedModels (folder or file), label maps, pipeline configs, the `checkpoint` file. Binary graphs are
 * walked where they lie, never unpacked. */
#ifndef OD_IO_INSPECT_H
#define OD_IO_INSPECT_H

#include "base/status.h"
#include "base/str.h"

/* Appends a description to out: names, types, shapes, counts. With json one object, whose "kind" says what the file is: "records",
 * "events", "checkpoint", "graph", "meta_graph", "saved_model", "label_map", "pipeline_config", "checkpoint_state"; the other
 * fields as the text form names them. OD_EDATA when the content is damaged or nothing of these; out is then unfinished. */
OD_MUST_CHECK od_status od_inspect(od_str *out, const char *path, bool json);

#endif
