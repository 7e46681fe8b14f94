/* Drawn pictures of an evaluation: into the event file and as PNG files. */
#ifndef OD_EVAL_PICTURES_H
#define OD_EVAL_PICTURES_H

#include "data/label_map.h"
#include "data/sample.h"
#include "eval/detector.h"
#include "eval/job.h"

typedef struct od_eval_pictures od_eval_pictures;

/* eval_dir/pictures/ takes the PNGs, besides eval_config.visualization_export_dir when set. */
OD_MUST_CHECK od_status od_eval_pictures_new(od_eval_pictures **out, const od_pb_eval *config, const od_label_map *labels, const char *eval_dir,
                                             od_eval_style style, const od_reporter *r);
void od_eval_pictures_free(od_eval_pictures *p);
/* A pass begins: counting starts again. */
void od_eval_pictures_begin(od_eval_pictures *p);
/* Draws the picture when it is among the first num_visualizations: legacy image-<i>, model_main detections and groundtruth side by
 * side. input_height, input_width: of the network input, in whose frame the groundtruth is. */
OD_MUST_CHECK od_status od_eval_pictures_add(od_eval_pictures *p, od_str *summary, const od_picture *s, const od_detections *d, int input_height,
                                             int input_width);

/* Charts of a finished evaluation: precision over recall of each family of metrics (pr_<family>), the confusion matrix; into the
 * event file under Charts/... and as PNG. */
OD_MUST_CHECK od_status od_eval_pictures_charts(od_eval_pictures *p, od_str *summary, const od_eval *ev);

/* Draws detections with score above min_score (at most max_boxes) on a picture, labels "<name>: NN%". labels may be NULL: then ids. */
OD_MUST_CHECK od_status od_draw_detections(od_image *image, const od_detections *d, const od_label_map *labels, float min_score, int max_boxes,
                                           const od_reporter *r);

#endif
