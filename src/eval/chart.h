/* Pictures of an evaluation: precision over recall, and the confusion matrix. */
#ifndef OD_EVAL_CHART_H
#define OD_EVAL_CHART_H

#include "eval/evaluator.h"
#include "image/draw.h"

/* Precision over recall of all classes of one metric (prefix of its tags: "PascalBoxes", "DetectionBoxes"), each in its
 * class's colour, 640x480. The legend names the 20 classes with the largest area, best first. font may be NULL (no text).
 * OD_EINVAL when the metric has no curve. The caller frees out with od_image_free. */
OD_MUST_CHECK od_status od_eval_chart_curves(od_image *out, const od_eval *ev, const char *metric, od_font *font);

/* The confusion matrix: rows = groundtruth, columns = detections, last = nothing; the darker, the larger the share of the
 * row; counts are written where cells are large enough. OD_EINVAL when it was not collected. */
OD_MUST_CHECK od_status od_eval_chart_confusion(od_image *out, const od_eval *ev, od_font *font);

#endif
