/* What training leaves of the detector as a TensorFlow graph: a picture for TensorBoard at its beginning, and the SavedModel that
 * model_main writes when it is done. */
#ifndef OD_CLI_SERVO_H
#define OD_CLI_SERVO_H

#include "base/report.h"
#include "base/str.h"
#include "model/pipeline.h"

/* The config's detector as it will be exported: writes <folder>/graph.pbtxt and appends the same GraphDef, serialized, to out. */
OD_MUST_CHECK od_status od_write_board_graph(od_str *out, const od_pipeline *p, const char *folder);

/* Writes <model_dir>/export/Servo/<seconds since 1970>/saved_model.pb (input: serialized tf.Examples) with the weights of a
 * checkpoint; their moving averages where eval_config asks for them. */
OD_MUST_CHECK od_status od_servo_export(const od_pipeline *p, const char *model_dir, const char *checkpoint, const od_reporter *r);

#endif
