/* A detection model as a piece of graph: from pictures to predictions, detections and losses.
 *
 * od_model_build reads a DetectionModel message, adds the nodes and hands out the values that others need, under the
 * original's names. One code for training, evaluation and export: only what is asked for differs. */
#ifndef OD_MODEL_MODEL_H
#define OD_MODEL_MODEL_H

#include "graph/graph.h"
#include "model/config.h"

typedef struct {
  const char *name; /* the original's key */
  od_value value;
} od_named;
enum { OD_NAMED_MAX = 64 };
typedef struct {
  od_named item[OD_NAMED_MAX];
  int n;
} od_named_list;
/* The value of that name, or absent. */
od_value od_named_get(const od_named_list *l, const char *name);

/* Groundtruth of a batch, padded to G boxes a picture; all OD_NONE when there is none. */
typedef struct {
  od_value boxes;   /* [B,G,4] normalised to the resized (padded) picture */
  od_value classes; /* [B,G,K] float, one-hot or k-hot, no background column */
  od_value weights; /* [B,G] */
  od_value count;   /* [B] int32: boxes that are real */
} od_groundtruth;

typedef struct {
  bool training;          /* batch statistics, dropout; no detections are made */
  od_value images;        /* [B,H,W,3] (grey: 1) float 0..255, resized (and padded); or raw pictures with resize */
  od_value true_shapes;   /* [B,3] int32: height, width, channels without padding; absent with resize */
  bool resize;            /* images are raw: the config's resizer becomes part of the graph (export) */
  od_groundtruth groundtruth; /* present: losses are built */
} od_model_spec;

/* How tags of target assignment begin in the original's event files. */
#define OD_TARGET_TAG "TargetAssignment/Loss/TargetAssignment/"

typedef struct {
  od_graph *graph;
  const od_pb_model *config;
  int64_t num_classes;
  od_value images;       /* after resizing */
  od_value true_shapes;
  od_value preprocessed; /* what the network sees */
  od_value anchors;      /* [A,4] (SSD: normalised) */
  od_value match;        /* [B,A] int32, with groundtruth */
  od_named_list predictions; /* predict() of the original */
  od_named_list detections;  /* postprocess(), not when training; classes from 0 */
  od_named_list losses;      /* "Loss/localization_loss", ...; with groundtruth */
  od_named_list summaries;   /* scalars for the event file */
  bool batch_norm_in_place;  /* inplace_batchnorm_update: moving statistics are updated in the forward pass */
} od_model;

/* Adds the model to the graph. On failure the message names the field or the type that is not supported. */
OD_MUST_CHECK od_status od_model_build(od_model *out, od_graph *g, const od_pb_model *config, const od_model_spec *spec);

/* What padding of a resized picture must hold (0..255 scale) so that the network sees what the original shows it. */
float od_model_pad_value(const od_pb_model *config);
/* Name of the meta architecture's message field: "ssd", "faster_rcnn"; NULL when none is set. */
const char *od_model_kind(const od_pb_model *config);
/* num_classes and image_resizer of whatever architecture it is (NULL when not set). */
int64_t od_model_num_classes(const od_pb_model *config);
const od_pb_resizer *od_model_resizer(const od_pb_model *config);
/* Channels of the resized pictures: 3, or 1 where the resizer makes them grey. */
int64_t od_model_channels(const od_pb_model *config);
/* Variables whose names begin so belong to the feature extractor ("FeatureExtractor" ...); NULL-terminated. */
const char *const *od_model_extractor_scopes(const od_pb_model *config);

#endif
