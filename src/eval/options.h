/* What eval_config says about metrics, as options of the evaluator. */
#ifndef OD_EVAL_OPTIONS_H
#define OD_EVAL_OPTIONS_H

#include "base/mem.h"
#include "eval/evaluator.h"
#include "io/proto/pipeline.pb-c.h"

/* Fills the fields of o that eval_config knows: metrics (the config's list, or the program's default when it is empty:
 * pascal_voc for legacy eval, coco for model_main), recall bounds, per-category switches, super categories. o points into
 * config and arena afterwards. Start from od_eval_defaults and set categories, threads and reporter yourself. OD_EUNSUPPORTED:
 * parameterized_metric (keypoints). */
OD_MUST_CHECK od_status od_eval_options_from_config(od_eval_options *o,
                                                    const ObjectDetection__Protos__EvalConfig *config, bool legacy,
                                                    od_arena *arena);

#endif
