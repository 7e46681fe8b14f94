/* Which anchors count in a loss: hard_example_miner and sample_balanced (ops/box/sampler.h has the rules). Both give masks
 * that are constant nearly everywhere, so nothing flows back. */
#include <string.h>

#include "ops/common.h"
#include "ops/detect.h"
#include "ops/detect_shape.h"
#include "ops/table.h"

/* ---------------------------------------------------------------------------------------------------------- hard examples */
static const char *const losses[] = {"both", "classification", "localization", NULL};
_Static_assert(OD_MINE_BOTH == 0 && OD_MINE_CLASSIFICATION == 1 && OD_MINE_LOCALIZATION == 2,
               "names in the order of od_mine_loss");
static const od_param miner_params[] = {
    OD_PARAM(od_miner_params, num_hard_examples, OD_P_INT, "at most so many an image; 0 or less: no limit"),
    OD_PARAM_IN(od_miner_params, iou_threshold, OD_P_FLOAT, "boxes that overlap a chosen one by more are passed over",
                0, 1),
    OD_PARAM_ENUM(od_miner_params, loss_type, "which loss ranks", losses),
    OD_PARAM(od_miner_params, classification_weight, OD_P_FLOAT, "both: weight of the classification loss"),
    OD_PARAM(od_miner_params, localization_weight, OD_P_FLOAT, "both: weight of the localization loss"),
    OD_PARAM(od_miner_params, max_negatives_per_positive, OD_P_FLOAT, "0 or less: no limit"),
    OD_PARAM_IN(od_miner_params, min_negatives_per_image, OD_P_INT, "with the limit above: allowed in any case", 0,
                1e9),
    {0}};

od_value od_hard_example_miner_op(od_graph *g, od_value loc_losses, od_value cls_losses, od_value boxes, od_value match,
                                  const od_miner_params *p) {
  return od_graph_add(g, &od_op_hard_example_miner, (od_value[]){loc_losses, cls_losses, boxes, match}, 4, p);
}

static od_status miner_infer(const od_infer *c) {
  od_letters d;
  od_letters_clear(&d);
  OD_TRY(od_letters_in(&d, c, 0, "localization losses", OD_F32, "BA"));
  OD_TRY(od_letters_in(&d, c, 1, "classification losses", OD_F32, "BA"));
  OD_TRY(od_letters_in(&d, c, 2, "boxes", OD_F32, "BA4"));
  OD_TRY(od_letters_in(&d, c, 3, "match", OD_I32, "BA"));
  od_letters_out(&d, c, 0, OD_F32, "BA");
  od_letters_out(&d, c, 1, OD_F32, "B");
  od_letters_out(&d, c, 2, OD_F32, "B");
  return OD_OK;
}

static od_miner miner_of(const od_miner_params *p) {
  return (od_miner){p->num_hard_examples,
                    p->iou_threshold,
                    (od_mine_loss)p->loss_type,
                    p->classification_weight,
                    p->localization_weight,
                    p->max_negatives_per_positive,
                    (int32_t)p->min_negatives_per_image};
}

static size_t miner_bytes(const od_miner_params *p, int64_t a) {
  const od_miner how = miner_of(p);
  return od_work_bytes(a, sizeof(int32_t)) + od_mine_work(&how, a);
}
static size_t miner_scratch(const od_infer *c) { return miner_bytes(c->params, c->in[0].shape.dim[1]); }

static od_status miner_ref(const od_call *c) {
  const od_miner how = miner_of(c->params);
  int64_t b = c->in[0].shape.dim[0], a = c->in[0].shape.dim[1];
  const float *loc = c->in[0].data, *cls = c->in[1].data, *boxes = c->in[2].data;
  const int32_t *match = c->in[3].data;
  float *mask = c->out[0].data, *n_pos = c->out[1].data, *n_neg = c->out[2].data;
  od_work work = {c->scratch, miner_bytes(c->params, a)};
  int32_t *selected = od_work_take(&work, a, sizeof *selected);
  memset(mask, 0, (size_t)(b * a) * sizeof *mask);
  for (int64_t i = 0; i < b; i++, loc += a, cls += a, boxes += 4 * a, mask += a) {
    const int32_t *m = match ? match + i * a : NULL;
    int64_t n, positives = 0;
    OD_TRY(od_mine_hard_examples(selected, &n, NULL, NULL, &how, loc, cls, boxes, m, a, work));
    for (int64_t k = 0; k < n; k++) {
      mask[selected[k]] = 1;
      positives += m && m[selected[k]] >= 0;
    }
    n_pos[i] = (float)positives;
    n_neg[i] = (float)(n - positives);
  }
  return OD_OK;
}

#define LOSS(...)  OD_F32_IN(0, 3, __VA_ARGS__)
#define BOXES(...) OD_F32_IN(0, 1, __VA_ARGS__)
static const od_sample miner_samples[] = {
    {.name = "three negatives a positive",
     .n_in = 4,
     .params = &(const od_miner_params){3000, 0.99f, OD_MINE_CLASSIFICATION, 1, 1, 3, 0},
     .in = {LOSS(2, 60), LOSS(2, 60), BOXES(2, 60, 4), OD_I32_IN(-2, 1, 2, 60)}},
    {.name = "few, both losses",
     .n_in = 4,
     .params = &(const od_miner_params){8, 0.5f, OD_MINE_BOTH, 0.05f, 0.06f, 0, 0},
     .in = {LOSS(2, 60), LOSS(2, 60), BOXES(2, 60, 4), OD_ABSENT_IN}},
};

const od_op od_op_hard_example_miner = {
    .name = "hard_example_miner",
    .help = "mask of the anchors with the highest losses, and how many are positive, negative",
    .params = miner_params,
    .params_size = sizeof(od_miner_params),
    .min_in = 4,
    .max_in = 4,
    .optional_in = 1u << 3,
    .n_out = 3,
    .infer = miner_infer,
    .ref = miner_ref,
    .scratch = miner_scratch,
    .grad = od_grad_nothing,
    .no_tf = OD_NO_TF_TRAINING,
    OD_SAMPLES(miner_samples),
};

/* -------------------------------------------------------------------------------------------------------- balanced sample */
static const od_param sample_params[] = {
    OD_PARAM(od_sample_params, size, OD_P_INT,
             "anchors an image; 0 or less: all positives and their share of negatives"),
    OD_PARAM_IN(od_sample_params, positive_fraction, OD_P_FLOAT, "at most this share of positives", 0, 1),
    {0}};

od_value od_sample_balanced_op(od_graph *g, od_value indicator, od_value labels, const od_sample_params *p) {
  return od_graph_add(g, &od_op_sample_balanced, (od_value[]){indicator, labels}, 2, p);
}

static od_status sample_infer(const od_infer *c) {
  od_letters d;
  od_letters_clear(&d);
  OD_TRY(od_letters_in(&d, c, 0, "indicator", OD_F32, "BA"));
  OD_TRY(od_letters_in(&d, c, 1, "labels", OD_F32, "BA"));
  od_letters_out(&d, c, 0, OD_F32, "BA");
  return OD_OK;
}

static size_t sample_bytes(int64_t a) { return 3 * od_work_bytes(a, 1) + od_sample_work(a); }
static size_t sample_scratch(const od_infer *c) { return sample_bytes(c->in[0].shape.dim[1]); }

static od_status sample_ref(const od_call *c) {
  const od_sample_params *p = c->params;
  int64_t b = c->in[0].shape.dim[0], a = c->in[0].shape.dim[1];
  const float *indicator = c->in[0].data, *labels = c->in[1].data;
  float *out = c->out[0].data;
  od_work work = {c->scratch, sample_bytes(a)};
  uint8_t *chosen = od_work_take(&work, a, 1), *may = od_work_take(&work, a, 1), *positive = od_work_take(&work, a, 1);
  for (int64_t i = 0; i < b; i++, indicator += a, labels += a, out += a) {
    for (int64_t k = 0; k < a; k++) {
      may[k] = indicator[k] != 0;
      positive[k] = labels[k] != 0;
    }
    OD_TRY(od_sample_balanced(chosen, NULL, may, positive, a, p->size > 0 ? p->size : -1, (double)p->positive_fraction,
                              od_key_mix(c->key, (uint64_t)i), work));
    for (int64_t k = 0; k < a; k++) out[k] = chosen[k];
  }
  return OD_OK;
}

static const od_sample sample_samples[] = {
    {.name = "sixteen",
     .params = &(const od_sample_params){16, 0.25f},
     .n_in = 2,
     .in = {OD_F32_IN(0.5, 1, 2, 60), {OD_F32, {2, {2, 60}}, 0, 1, false}}},
    {.name = "all of one kind",
     .params = &(const od_sample_params){-1, 0.5f},
     .n_in = 2,
     .in = {OD_F32_IN(0.5, 1, 2, 9), OD_F32_IN(0.5, 1, 2, 9)}},
};

const od_op od_op_sample_balanced = {
    .name = "sample_balanced",
    .help = "mask of a random sample of anchors with a share of positives",
    .params = sample_params,
    .params_size = sizeof(od_sample_params),
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .flags = OD_OP_RANDOM,
    .infer = sample_infer,
    .ref = sample_ref,
    .scratch = sample_scratch,
    .grad = od_grad_nothing,
    .no_tf = OD_NO_TF_TRAINING,
    OD_SAMPLES(sample_samples),
};
