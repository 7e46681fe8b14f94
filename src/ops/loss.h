/* Builders and parameters of the losses. B images, A anchors, K class logits (background included where the model has it),
 * C numbers in a box code. Everything float32; inside an anchor sums are kept in double by the reference. Gradients flow into
 * predictions only: targets and weights are constants. */
#ifndef OD_OPS_LOSS_H
#define OD_OPS_LOSS_H

#include "graph/graph.h"

typedef enum { OD_LOC_L2, OD_LOC_SMOOTH_L1, OD_LOC_L1, OD_LOC_IOU, OD_LOC_GIOU } od_localization_kind;
typedef struct {
  int kind;    /* od_localization_kind */
  float delta; /* SMOOTH_L1: quadratic up to there; 1 */
} od_localization_loss_params;
/* prediction, target [...,C], weights [...] -> [...] ([B,A] of [B,A,C]). A target that is NaN counts as met (the original's
 * ignore_nan_targets). IOU and GIOU read the four numbers as a box. L2: 0.5 * sum((w * (p - t))^2). */
od_value od_localization_loss(od_graph *g, od_value prediction, od_value target, od_value weights,
                              const od_localization_loss_params *p);

typedef enum {
  OD_CLS_SIGMOID,
  OD_CLS_SIGMOID_FOCAL,
  OD_CLS_SOFTMAX,
  OD_CLS_SOFTMAX_AGAINST_LOGITS, /* targets are logits of another model */
  OD_CLS_BOOTSTRAPPED_SOFT,
  OD_CLS_BOOTSTRAPPED_HARD,
  OD_CLS_PENALTY_REDUCED /* of heat maps, where targets between 0 and 1 are near an object */
} od_classification_kind;
typedef struct {
  int kind;          /* od_classification_kind */
  float gamma;       /* SIGMOID_FOCAL: 2; PENALTY_REDUCED: exponent of 1 - target (the config's beta) */
  bool has_alpha;    /* SIGMOID_FOCAL: weigh positives by alpha, negatives by 1 - alpha */
  float alpha;       /* SIGMOID_FOCAL; BOOTSTRAPPED_*: share of the target; PENALTY_REDUCED: exponent of what is wrong */
  float logit_scale; /* SOFTMAX*: logits are divided by it; 1 */
} od_classification_loss_params;
/* logits, targets [...,K], weights [...,K] or [...,1] -> [...,K]; the two softmax kinds: weights [...,K] are averaged over
 * K, -> [...]. Sigmoid cross entropy in the form max(x,0) - x*z + log1p(exp(-|x|)). */
od_value od_classification_loss(od_graph *g, od_value logits, od_value targets, od_value weights,
                                const od_classification_loss_params *p);

#endif
