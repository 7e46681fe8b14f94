/* What SSD learns: targets of its anchors and the two losses, as the original's SSDMetaArch. Which anchors count is settled in
 * this order: the matcher ignores some, the example sampler takes a part of the rest, the miner keeps those with high losses. */
#include <stdio.h>

#include "model/parts.h"
#include "ops/math.h"
#include "ops/nn.h"

#define LOSS_KIND(x) OBJECT_DETECTION__PROTOS__CLASSIFICATION_LOSS__CLASSIFICATION_LOSS_##x
static int kind_of(const od_pb_loss *l) { return l->classification_loss ? (int)l->classification_loss->classification_loss_case : 0; }

/* Targets and weights of all anchors. */
typedef struct {
  od_value classes, class_weights; /* [B,A,D] */
  od_value codes, code_weights;    /* [B,A,C], [B,A] */
} anchor_targets;

/* Whatever begins behind the first column of the last of three dimensions. */
static od_value objects_of(od_graph *g, od_value classes) {
  return od_slice(g, classes, (od_ints){3, (int64_t[]){0, 0, 1}}, (od_ints){3, (int64_t[]){-1, -1, -1}});
}

/* With confidences 1 says that the class is there, -1 that it is not, 0 nothing: where nothing was said, implicit_example_weight
 * weighs. Anchors learn boxes only from a confidence above 0; the weights of groundtruth and match are not looked at. */
static void by_confidence(od_graph *g, anchor_targets *t, const od_pb_ssd *c) {
  float implicit = c->implicit_example_weight;
  od_value zero = od_const_f32(g, 0), given = c->add_background_class ? objects_of(g, t->classes) : t->classes;
  od_value positive = od_greater(g, given, zero), negative = od_less(g, given, zero);
  t->code_weights = od_reduce_max(g, positive, OD_AXES(2), false);
  od_value object = od_expand_dims(g, t->code_weights, OD_AXES(2));
  t->codes = od_mul(g, t->codes, object);
  t->classes = od_mul(g, given, od_scale(g, negative, -1, 1));
  t->class_weights = od_scale(g, od_add(g, positive, negative), 1 - implicit, implicit);
  if (!c->add_background_class) return;
  t->classes = od_concat(g, (od_value[]){od_scale(g, object, -1, 1), t->classes}, 2, 2);
  t->class_weights = od_concat(g, (od_value[]){od_scale(g, object, 1 - implicit, implicit), t->class_weights}, 2, 2);
}

static od_status assign(anchor_targets *t, od_model *m, const od_pb_ssd *c, const od_model_spec *spec, int64_t class_slots) {
  od_graph *g = m->graph;
  const od_groundtruth *gt = &spec->groundtruth;
  od_match_params match;
  od_assign_params how = {.negative_class_weight = c->negative_class_weight};
  OD_TRY(od_match_from_config(&match, c->matcher, c->similarity_calculator));
  OD_TRY(od_coder_from_config(&how.coder, c->box_coder));
  float *unmatched = od_arena_alloc(od_graph_arena(g), sizeof *unmatched * (size_t)class_slots);
  if (!unmatched) return OD_ENOMEM;
  unmatched[0] = c->encode_background_as_zeros ? 0 : 1;
  how.unmatched = (od_floats){(int)class_slots, unmatched};
  od_value classes = gt->classes;
  if (c->add_background_class) { /* a background column of zeros in front */
    od_value column = od_slice(g, classes, (od_ints){3, (int64_t[]){0, 0, 0}}, (od_ints){3, (int64_t[]){-1, -1, 1}});
    classes = od_concat(g, (od_value[]){od_zeros_like(g, column), classes}, 2, 2);
  }
  m->match = od_match_anchors(g, m->anchors, gt->boxes, gt->weights, gt->count, OD_NONE, OD_NONE, &match);
  od_value v = od_assign_targets_op(g, m->match, m->anchors, gt->boxes, classes, gt->weights, OD_NONE, &how);
  *t = (anchor_targets){od_out(v, 0), od_out(v, 1), od_out(v, 2), od_out(v, 3)};
  /* confidences are the class targets themselves: records hold no others (the original's reader makes them the same way) */
  if (c->use_confidences_as_targets && spec->training) by_confidence(g, t, c);
  return od_graph_check(g);
}

/* Takes all positives and a random part of the rest, so that positives have the wanted share. */
static od_status sample(anchor_targets *t, od_graph *g, const od_pb_ssd *c, const od_pb_loss *l) {
  if (!l->random_example_sampler) return OD_OK;
  float share = l->random_example_sampler->positive_sample_fraction;
  if (!(share > 0 && share <= 1))
    return od_fail(OD_EINVAL, "loss.random_example_sampler.positive_sample_fraction is %g, more than 0 and at most 1 is wanted", (double)share);
  od_value may = od_reduce_mean(g, t->class_weights, OD_AXES(2), false);
  od_value positive = od_reduce_sum(g, c->add_background_class ? objects_of(g, t->classes) : t->classes, OD_AXES(2), false);
  od_value taken = od_sample_balanced_op(g, may, positive, &(od_sample_params){.size = 0, .positive_fraction = share});
  t->code_weights = od_mul(g, taken, t->code_weights);
  t->class_weights = od_mul(g, od_expand_dims(g, taken, OD_AXES(2)), t->class_weights);
  return OD_OK;
}

/* 1 - 2 sum(p z) / max(sum(p) + sum(z), 1) a picture and class, the sums over anchors; p, z: probability (squared), target
 * (squared), both times the weight (Milletari et al., V-Net, 2016). */
static od_value dice(od_graph *g, const ObjectDetection__Protos__WeightedDiceClassificationLoss *l, od_value logits, const anchor_targets *t) {
  od_value p = l->is_prediction_probability ? logits : od_sigmoid(g, logits), z = t->classes;
  if (l->squared_normalization) {
    p = od_square(g, p);
    z = od_square(g, z);
  }
  p = od_mul(g, p, t->class_weights);
  z = od_mul(g, z, t->class_weights);
  od_value area = od_add(g, od_reduce_sum(g, z, OD_AXES(1), false), od_reduce_sum(g, p, OD_AXES(1), false));
  od_value both = od_scale(g, od_reduce_sum(g, od_mul(g, p, z), OD_AXES(1), false), 2, 0);
  return od_scale(g, od_div(g, both, od_maximum(g, area, od_const_f32(g, 1))), -1, 1);
}

/* One number an anchor [B,A]; dice: a class [B,D]. */
static od_status classify(od_value *out, od_graph *g, const od_pb_loss *l, od_value logits, const anchor_targets *t) {
  if (kind_of(l) == LOSS_KIND(WEIGHTED_DICE_CLASSIFICATION_LOSS)) {
    *out = dice(g, l->classification_loss->weighted_dice_classification_loss, logits, t);
    return OD_OK;
  }
  od_classification_loss_params p;
  OD_TRY(od_classification_from_config(&p, l->classification_loss));
  *out = od_classification_loss(g, logits, t->classes, t->class_weights, &p);
  if (od_type_of(*out).shape.rank == 3) *out = od_reduce_sum(g, *out, OD_AXES(2), false);
  return OD_OK;
}

/* Losses of the anchors that count: those the miner keeps, or all. loc, cls: [B,A]. */
static od_status mined(od_model *m, const od_pb_ssd *c, const od_pb_loss *l, od_value encodings, od_value *loc, od_value *cls) {
  if (!l->hard_example_miner) return OD_OK;
  od_graph *g = m->graph;
  if (kind_of(l) == LOSS_KIND(WEIGHTED_SIGMOID_FOCAL)) return od_fail(OD_EINVAL, "loss: hard_example_miner does not go with weighted_sigmoid_focal");
  if (kind_of(l) == LOSS_KIND(WEIGHTED_DICE_CLASSIFICATION_LOSS))
    return od_fail(OD_EINVAL, "loss: hard_example_miner does not go with weighted_dice_classification_loss, which is no loss of anchors");
  od_miner_params miner;
  od_coder_params coder;
  OD_TRY(od_miner_from_config(&miner, l->hard_example_miner, l->classification_weight, l->localization_weight));
  OD_TRY(od_coder_from_config(&coder, c->box_coder));
  od_value boxes = od_decode_boxes(g, encodings, m->anchors, &coder);
  od_value mask = od_hard_example_miner_op(g, *loc, *cls, boxes, m->match, &miner);
  if (miner.max_negatives_per_positive > 0) {
    od_named_add(g, &m->summaries, "Loss/HardExampleMiner/NumPositives", od_reduce_mean(g, od_out(mask, 1), OD_ALL_AXES, false));
    od_named_add(g, &m->summaries, "Loss/HardExampleMiner/NumNegatives", od_reduce_mean(g, od_out(mask, 2), OD_ALL_AXES, false));
  }
  *loc = od_mul(g, *loc, mask);
  *cls = od_mul(g, *cls, mask);
  return OD_OK;
}

/* weight / normalizer * sum, in the original's order. */
static od_value weighted(od_graph *g, float weight, od_value normalizer, od_value losses) {
  od_value factor = od_div(g, od_const_f32(g, weight), normalizer);
  return od_mul(g, factor, od_reduce_sum(g, losses, OD_ALL_AXES, false));
}

static void summarize_targets(od_model *m, const od_groundtruth *gt) {
  od_graph *g = m->graph;
  od_value match = od_cast(g, m->match, OD_F32), per_image[3];
  per_image[0] = od_greater_equal(g, match, od_const_f32(g, 0));
  per_image[1] = od_equal(g, match, od_const_f32(g, -1));
  per_image[2] = od_equal(g, match, od_const_f32(g, -2));
  static const char *const names[] = {"AvgNumPositiveAnchorsPerImage", "AvgNumNegativeAnchorsPerImage", "AvgNumIgnoredAnchorsPerImage"};
  char tag[96];
  for (int i = 0; i < 3; i++) {
    snprintf(tag, sizeof tag, OD_TARGET_TAG "%s", names[i]);
    od_value sums = od_reduce_sum(g, per_image[i], OD_AXES(1), false);
    od_named_add(g, &m->summaries, tag, od_reduce_mean(g, sums, OD_ALL_AXES, false));
  }
  od_named_add(g, &m->summaries, OD_TARGET_TAG "AvgNumGroundtruthBoxesPerImage",
               od_reduce_mean(g, od_cast(g, gt->count, OD_F32), OD_ALL_AXES, false));
}

od_status od_ssd_losses(od_model *m, const od_pb_ssd *c, const od_model_spec *spec, int64_t class_slots, od_value encodings, od_value logits) {
  od_graph *g = m->graph;
  const od_pb_loss *l = OD_SET(c->loss, Loss);
  od_localization_loss_params loc_params;
  anchor_targets t;
  od_value cls;
  if (l->expected_loss_weights != OBJECT_DETECTION__PROTOS__LOSS__EXPECTED_LOSS_WEIGHTS__NONE)
    return od_fail(OD_EUNSUPPORTED, "loss.expected_loss_weights is not supported: the original names functions for it that it does not hold");
  OD_TRY(od_localization_from_config(&loc_params, l->localization_loss));
  OD_TRY(assign(&t, m, c, spec, class_slots));
  OD_TRY(sample(&t, g, c, l));
  od_value loc = od_localization_loss(g, encodings, t.codes, t.code_weights, &loc_params);
  OD_TRY(classify(&cls, g, l, logits, &t));
  OD_TRY(mined(m, c, l, encodings, &loc, &cls));
  od_value normalizer = od_const_f32(g, 1);
  if (c->normalize_loss_by_num_matches)
    normalizer = od_maximum(g, od_reduce_sum(g, t.code_weights, OD_ALL_AXES, false), normalizer);
  od_value loc_normalizer = normalizer;
  if (c->normalize_loc_loss_by_codesize) loc_normalizer = od_scale(g, normalizer, (float)od_dim(encodings, -1), 0);
  od_named_add(g, &m->losses, "Loss/localization_loss", weighted(g, l->localization_weight, loc_normalizer, loc));
  od_named_add(g, &m->losses, "Loss/classification_loss", weighted(g, l->classification_weight, normalizer, cls));
  summarize_targets(m, &spec->groundtruth);
  return od_graph_check(g);
}
