/* Feature extractors of SSD: a base network and the smaller maps made from its last one. */
#ifndef OD_MODEL_SSD_EXTRACTOR_H
#define OD_MODEL_SSD_EXTRACTOR_H

#include "model/layers.h"

enum { OD_MAPS_MAX = 16 };

/* What an extractor is given. */
typedef struct {
  const od_pb_ssd_extractor *config;
  od_style base;   /* of the base network: its own, or the config's with override_base_feature_extractor_hyperparams */
  od_style extra;  /* of everything else: the config's conv_hyperparams */
} od_extractor_args;

typedef struct {
  const char *type; /* feature_extractor.type */
  /* The base network's own style where the config does not override it. */
  void (*own_style)(od_style *s);
  /* x: normalised images -> maps[0..*n). Variables below the scope "FeatureExtractor" (pushed by the caller). */
  void (*build)(od_graph *g, const od_extractor_args *a, od_value x, od_value *maps, int *n);
} od_ssd_extractor_kind;

extern const od_ssd_extractor_kind od_ssd_mobilenet_v1, od_ssd_mobilenet_v2;

/* max(int(depth * depth_multiplier), min_depth): slim's depth function of MobileNet v1 and of the extra maps. */
int64_t od_scaled_depth(const od_pb_ssd_extractor *c, int64_t depth);

/* The original's multi_resolution_feature_maps with 1x1 convolutions inserted: the first n_from maps are given with the
 * name of the last one; the others have depths[i] channels. Names: <base>_1_Conv2d_<i>_1x1_<d>, <base>_2_Conv2d_<i>_3x3_s2_<d>. */
void od_extra_maps(od_graph *g, const od_extractor_args *a, const char *base, od_value *maps, int n_from, int n, const int64_t *depths);

#endif
