/* The .meta file of a checkpoint: a MetaGraphDef with the variables and the operations that save and restore them, so that
 * `tf.compat.v1.train.import_meta_graph(path)` gives a saver whose restore(session, prefix) fills them.
 *
 * Reference variables (VariableV2), as the original made them; nothing of the model's computation, no devices, no paths. The
 * same list gives the same bytes. */
#ifndef OD_IO_METAGRAPH_H
#define OD_IO_METAGRAPH_H

#include "base/status.h"
#include "base/str.h"
#include "base/tensor.h"

typedef struct {
  const char *name; /* as in the checkpoint, without ":0" */
  od_dtype dtype;
  od_shape shape; /* known */
  bool trainable;
} od_meta_variable;

/* Appends a serialized MetaGraphDef. vars in the order of creation (that of the collections; save and restore are sorted by
 * name). OD_EINVAL naming a variable whose name TensorFlow would refuse, or that is there twice. The list is not changed. */
OD_MUST_CHECK od_status od_metagraph_put(od_str *out, const od_meta_variable *vars, size_t n);
/* The same into a file, atomically. */
OD_MUST_CHECK od_status od_metagraph_write(const char *path, const od_meta_variable *vars, size_t n);

#endif
