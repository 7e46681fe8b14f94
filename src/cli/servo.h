/* The SavedModel that model_main leaves when training is done. */
#ifndef OD_CLI_SERVO_H
#define OD_CLI_SERVO_H

#include "base/report.h"
#include "model/pipeline.h"

/* Writes <model_dir>/export/Servo/<seconds since 1970>/saved_model.pb (input: serialized tf.Examples) with the weights of a
 * checkpoint; their moving averages where eval_config asks for them. */
OD_MUST_CHECK od_status od_servo_export(const od_pipeline *p, const char *model_dir, const char *checkpoint, const od_reporter *r);

#endif
