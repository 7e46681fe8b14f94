/* From our graph to a TensorFlow graph; inside the export room. */
#ifndef OD_EXPORT_GRAPHDEF_H
#define OD_EXPORT_GRAPHDEF_H

#include "export/export.h"
#include "graph/emit_tf.h"

/* Builds the GraphDef of an export; the caller frees it. frozen: variables are constants whose data lies in the state, which
 * must live as long; else VariableV2 nodes. */
OD_MUST_CHECK od_status od_export_graphdef(od_tf **out, const od_export_spec *spec, bool frozen);
/* Type and shape of the input placeholder. */
od_type od_export_input_type(const od_export_spec *spec);

#endif
