/* A detector: a config and a checkpoint, ready to look at pictures. Evaluation, `detect` and the public API share it. */
#ifndef OD_EVAL_DETECTOR_H
#define OD_EVAL_DETECTOR_H

#include "engine/program.h"
#include "image/image.h"
#include "image/resizer.h"
#include "model/model.h"
#include "model/pipeline.h"

typedef struct {
  const od_pb_model *model; /* borrowed for the detector's life */
  bool averages;            /* moving averages instead of the trained weights */
  bool losses;              /* groundtruth will be fed and losses wanted (evaluation) */
  bool regularization;      /* among them Loss/regularization_loss, where the model has such terms */
  od_engine_options engine;
} od_detector_options;

typedef struct od_detector od_detector;

/* Builds the inference graph; od_detector_restore gives it weights. The caller frees. */
OD_MUST_CHECK od_status od_detector_new(od_detector **out, const od_detector_options *options);
void od_detector_free(od_detector *d);
/* Weights of a checkpoint (any path form). May be called again with another one. */
OD_MUST_CHECK od_status od_detector_restore(od_detector *d, const char *checkpoint);
/* global_step of the checkpoint restored last, -1 when it holds none. */
int64_t od_detector_step(const od_detector *d);
const od_resizer *od_detector_resizer(const od_detector *d);
od_program *od_detector_program(od_detector *d);
const od_state *od_detector_state(const od_detector *d);
const od_graph *od_detector_graph(const od_detector *d);
/* Names of the losses in the order of od_detector_losses. */
const od_named_list *od_detector_loss_names(const od_detector *d);

/* What was found in one picture, best first. */
typedef struct {
  int n;
  float *boxes;     /* [n,4] ymin xmin ymax xmax, 0..1 of the picture (padding left out) */
  float *scores;    /* [n] */
  int32_t *classes; /* [n] ids of the label map, from 1 */
} od_detections;

/* A batch as the input pipeline makes it. gt tensors may be empty (data NULL) without losses. */
typedef struct {
  od_tensor images, true_shapes;
  od_tensor boxes, class_targets, weights, num_boxes;
} od_detector_batch;

/* Runs a batch of B pictures. found[b] points into memory of the detector, valid until the next run. losses: as many as there
 * are names, or NULL. */
OD_MUST_CHECK od_status od_detector_run(od_detector *d, const od_detector_batch *batch, od_detections *found, float *losses);

/* A batch like this one (NULL: a single picture without groundtruth) whose resized pictures have this size will come: its plan is
 * made in another thread. Never needed, only quicker. */
void od_detector_expect(od_detector *d, const od_detector_batch *like, int64_t height, int64_t width);

/* Looks at one RGB picture of any size. */
OD_MUST_CHECK od_status od_detector_look(od_detector *d, const od_image *picture, od_detections *found);

#endif
