/* Detections from a TensorFlow graph (frozen or SavedModel, ours or the original's), by the interpreter: no model builder. */
#ifndef OD_EVAL_GRAPH_DETECTOR_H
#define OD_EVAL_GRAPH_DETECTOR_H

#include "eval/detector.h"

typedef struct od_graph_detector od_graph_detector;

/* path: a .pb, a SavedModel folder, or a folder that an exporter wrote. OD_EDATA when the graph has no detection_boxes,
 * detection_scores, detection_classes, num_detections or no input that takes a picture. */
OD_MUST_CHECK od_status od_graph_detector_new(od_graph_detector **out, const char *path);
void od_graph_detector_free(od_graph_detector *d);
/* found points into memory of the detector, valid until the next call. */
OD_MUST_CHECK od_status od_graph_detector_look(od_graph_detector *d, const od_image *picture, od_detections *found);

#endif
