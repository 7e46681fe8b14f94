/* Exporting a trained model: what `export_inference_graph` leaves in its output directory, and the check that reads it back.
 *
 *   frozen_inference_graph.pb          the graph, weights as constants
 *   saved_model/saved_model.pb         the same graph with the signature serving_default (tag serve); saved_model/variables/ empty
 *   model.ckpt.{index,data-...,meta}   the model's variables and global_step; `checkpoint` names them
 *   pipeline.config                    the text given
 *   inference_graph.pbtxt              on request: the graph with its variables, as text
 *
 * Names, types and shapes of inputs and outputs are the original's (exporter.py). Every file appears whole or not at all. */
#ifndef OD_EXPORT_EXPORT_H
#define OD_EXPORT_EXPORT_H

#include "base/report.h"
#include "base/str.h"
#include "graph/graph.h"
#include "graph/state.h"
#include "model/model.h"
#include "tfgraph/tfgraph.h"

typedef enum {
  OD_EXPORT_IMAGE_TENSOR,  /* placeholder image_tensor: uint8 [B,H,W,3] */
  OD_EXPORT_ENCODED_IMAGE, /* placeholder encoded_image_string_tensor: string [B], JPEG, PNG or GIF, one size a batch */
  OD_EXPORT_TF_EXAMPLE     /* placeholder tf_example: string [B], serialized Examples, image/encoded is read */
} od_export_input;

/* "image_tensor" and so on, also the name of the flag's value; NULL behind the last. */
const char *od_export_input_name(int input);
/* OD_EUSAGE with the list of names when there is no such one. */
OD_MUST_CHECK od_status od_export_input_from_name(od_export_input *out, const char *name);

typedef struct {
  const char *name; /* "detection_boxes"; becomes an Identity node of that name */
  od_value value;
  float add; /* added to the value: 1 for detection_classes, which the graph counts from 0 */
} od_export_output;

typedef struct {
  const od_graph *graph; /* for inference, the resizer inside */
  od_value images;       /* its input: float [B,H,W,3], raw pictures of one size */
  const od_state *state; /* the variables' values */
  const od_export_output *outputs;
  int n_outputs;
  od_export_input input;
  const char *input_key;     /* of the SavedModel's signature; NULL: "inputs" */
  od_shape input_shape;      /* of image_tensor; rank 0: [-1,-1,-1,3]. Only image_tensor takes another */
  const char *pipeline_text; /* pipeline.config; NULL: none is written */
  int64_t global_step;       /* into the checkpoint, unless the graph has a variable of that name */
  bool inference_graph;      /* write inference_graph.pbtxt */
} od_export_spec;

/* The outputs that the original exports of a model, in its order, as far as the model has them: detection_boxes, _scores,
 * _multiclass_scores, _features, _classes (from 1), num_detections, raw_detection_boxes, raw_detection_scores, _keypoints, _masks.
 * out holds OD_EXPORT_OUTPUTS; returns how many there are. */
enum { OD_EXPORT_OUTPUTS = 10 };
int od_export_model_outputs(od_export_output *out, const od_model *model);

/* Looks at what was written before anybody else can: gets the path of the frozen graph. */
typedef od_status (*od_export_judge)(void *ctx, const char *frozen_graph);
/* Writes the directory (made when missing; other files in it stay). The files are written beside it (<output_directory>.part-...)
 * and judged there (judge NULL: not at all); after a failure nothing is left and what was there before is untouched. A new
 * directory appears whole; in one that exists the files are replaced one by one, each by a rename. Errors name the node that
 * cannot be written. */
OD_MUST_CHECK od_status od_export_write(const char *output_directory, const od_export_spec *spec, od_export_judge judge,
                                        void *ctx);

/* The graph with its variables, without weights, serialized: for the graph page of TensorBoard. spec->state may be NULL. */
OD_MUST_CHECK od_status od_export_pack_graph(od_str *graph_def, const od_export_spec *spec);
/* The same as a text file (graph.pbtxt). */
OD_MUST_CHECK od_status od_export_text_graph(const char *path, const od_export_spec *spec);

/* One file alone. */
OD_MUST_CHECK od_status od_export_frozen_graph(const char *path, const od_export_spec *spec);
OD_MUST_CHECK od_status od_export_saved_model(const char *folder, const od_export_spec *spec);

/* ------------------------------------------------------------------------------------------------------------- parity */
/* How far two sets of outputs are from each other. Raw tensors: largest difference over the reference's root mean square, at
 * most 1e-3. Detections (detection_boxes, _scores, _classes, num_detections together): each reference detection has one of
 * the other set, of its class, whose score is within 1 % of the best score and whose box is within 1e-2 in each coordinate,
 * at any rank; those within 1 % of the lowest score listed may be missing. Other detection_* tensors are compared row by row
 * of the matched pairs. Two-stage graphs: 5 % of
 * the rows of a raw tensor and of the detections, at least 2, may be off, since proposals whose scores tie change places. */
typedef struct {
  double raw;        /* worst raw tensor */
  double score;      /* worst score difference of matched detections, over the best score */
  double box;        /* worst coordinate difference of matched detections */
  int64_t rows_off;  /* most rows of a raw tensor beyond the limit, regions only */
  int64_t unmatched; /* detections without partner */
  int64_t detections;
} od_parity;

/* Compares outputs of equal names: got[i] with want[i]. OD_EMISMATCH saying what differs and by how much; *out is filled as
 * far as it was found. NaN is a difference. */
OD_MUST_CHECK od_status od_export_compare(od_parity *out, const char *const *names, const od_tensor *got,
                                          const od_tensor *want, int n);

/* Where a model cuts regions out of its features: the boxes [R,4] of its crop_and_resize, normalised; absent when it cuts none. */
od_value od_export_regions(const od_graph *g);

/* Runs the graph file (or directory) with our interpreter on the pictures and compares with what the engine gave for them.
 * pictures: uint8 [B,H,W,3]. Graphs with string inputs get the pictures as PNG. want[i]: output of names[i]. regions: the engine's
 * value of od_export_regions, NULL where the model has none: first the graph's own are compared with these, row by row, then it
 * goes on with these. Each by itself would do no justice: a region whose edge is the picture's samples the last row of the features or,
 * carried a bit beyond by rounding, nothing at all, so that the last bit of a coordinate decides. */
OD_MUST_CHECK od_status od_export_check(od_parity *out, const char *graph_path, const od_tensor *pictures,
                                        const char *const *names, const od_tensor *want, int n,
                                        const od_tensor *regions);

#endif
