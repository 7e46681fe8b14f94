/* match_anchors: which groundtruth box each anchor learns (ops/box/matcher.h: the original's ArgMaxMatcher and greedy
 * bipartite matcher). int32, so no gradient. */
#include "ops/common.h"
#include "ops/detect.h"
#include "ops/detect_shape.h"
#include "ops/table.h"

static const char *const similarities[] = {"iou", "ioa", "neg_sq_dist", "thresholded_iou", NULL};
_Static_assert(OD_SIMILARITY_IOU == 0 && OD_SIMILARITY_IOA == 1 && OD_SIMILARITY_NEG_SQ_DIST == 2 &&
                   OD_SIMILARITY_THRESHOLDED_IOU == 3,
               "names in the order of od_similarity");
static const od_param params[] = {
    OD_PARAM_ENUM(od_match_params, similarity, "how alike an anchor and a box are", similarities),
    OD_PARAM(od_match_params, iou_threshold, OD_P_FLOAT, "thresholded_iou: counts above"),
    OD_PARAM(od_match_params, bipartite, OD_P_BOOL, "greedy one-to-one matching; the rest does not count then"),
    OD_PARAM(od_match_params, ignore_thresholds, OD_P_BOOL, "every anchor takes its best box"),
    OD_PARAM(od_match_params, matched_threshold, OD_P_FLOAT, "positive from here on"),
    OD_PARAM(od_match_params, unmatched_threshold, OD_P_FLOAT, "background below"),
    OD_PARAM(od_match_params, negatives_lower_than_unmatched, OD_P_BOOL,
             "false: background between the two, ignored below"),
    OD_PARAM(od_match_params, force_match_for_each_row, OD_P_BOOL, "every box gets its best anchor"),
    {0}};

enum { ANCHORS, BOXES, WEIGHTS, COUNT, CLASSES, VALID };

od_value od_match_anchors(od_graph *g, od_value anchors, od_value gt_boxes, od_value gt_weights, od_value gt_count,
                          od_value gt_classes, od_value valid, const od_match_params *p) {
  return od_graph_add(g, &od_op_match_anchors, (od_value[]){anchors, gt_boxes, gt_weights, gt_count, gt_classes, valid},
                      6, p);
}

static od_status infer(const od_infer *c) {
  od_letters d;
  od_letters_clear(&d);
  OD_TRY(od_letters_in(&d, c, BOXES, "groundtruth boxes", OD_F32, "BG4"));
  OD_TRY(od_letters_in2(&d, c, ANCHORS, "anchors", OD_F32, "A4", "BA4"));
  OD_TRY(od_letters_in(&d, c, WEIGHTS, "groundtruth weights", OD_F32, "BG"));
  OD_TRY(od_letters_in(&d, c, COUNT, "groundtruth count", OD_I32, "B"));
  OD_TRY(od_letters_in(&d, c, CLASSES, "groundtruth classes", OD_F32, "BGD"));
  OD_TRY(od_letters_in2(&d, c, VALID, "valid anchors", OD_F32, "A", "BA"));
  od_letters_out(&d, c, 0, OD_I32, "BA");
  return OD_OK;
}

static od_assigner assigner_of(const od_match_params *p) {
  od_assigner a = {.similarity = (od_similarity)p->similarity, .similarity_threshold = p->iou_threshold};
  a.matcher = (od_matcher){p->bipartite,
                           p->ignore_thresholds,
                           p->matched_threshold,
                           p->unmatched_threshold,
                           !p->negatives_lower_than_unmatched,
                           p->force_match_for_each_row};
  return a;
}

/* What one image's match needs when some anchors take no part: those that do, close together. */
typedef struct {
  float *anchors;  /* [A,4] */
  int32_t *match;  /* [A] */
  uint8_t *forced; /* [G]: weight above 0 */
  od_work work;
} room;

static od_status match_image(int32_t *match, const od_assigner *how, const room *r, const float *anchors, int64_t a,
                             const float *valid, const float *boxes, const float *weights, int64_t n,
                             const float *classes, int64_t n_classes) {
  for (int64_t i = 0; i < n; i++) r->forced[i] = weights[i] > 0;
  if (!valid) return od_match_boxes(match, how, boxes, classes, n_classes, r->forced, n, anchors, a, r->work);
  int64_t m = 0;
  for (int64_t i = 0; i < a; i++) {
    if (valid[i] == 0) continue;
    for (int k = 0; k < 4; k++) r->anchors[4 * m + k] = anchors[4 * i + k];
    m++;
  }
  OD_TRY(od_match_boxes(r->match, how, boxes, classes, n_classes, r->forced, n, r->anchors, m, r->work));
  m = 0;
  for (int64_t i = 0; i < a; i++) match[i] = valid[i] == 0 ? OD_IGNORED : r->match[m++];
  return OD_OK;
}

static size_t bytes_of(const od_match_params *p, int64_t a, int64_t g) {
  const od_assigner how = assigner_of(p);
  return od_work_bytes(a, 4 * sizeof(float)) + od_work_bytes(a, sizeof(int32_t)) + od_work_bytes(g, 1) +
         od_match_work(&how.matcher, g, a);
}
static size_t scratch(const od_infer *c) {
  return bytes_of(c->params, c->out[0].shape.dim[1], c->in[BOXES].shape.dim[1]);
}

static od_status ref(const od_call *c) {
  od_assigner how = assigner_of(c->params);
  int64_t b = c->out[0].shape.dim[0], a = c->out[0].shape.dim[1], g = c->in[BOXES].shape.dim[1];
  int64_t d = c->in[CLASSES].data ? c->in[CLASSES].shape.dim[2] : 0;
  const float *anchors = c->in[ANCHORS].data, *boxes = c->in[BOXES].data, *weights = c->in[WEIGHTS].data;
  const float *classes = c->in[CLASSES].data, *valid = c->in[VALID].data;
  const int32_t *count = c->in[COUNT].data;
  bool own = c->in[ANCHORS].shape.rank == 3, own_valid = valid && c->in[VALID].shape.rank == 2;
  room r = {.work = {c->scratch, bytes_of(c->params, a, g)}};
  r.anchors = od_work_take(&r.work, a, 4 * sizeof(float));
  r.match = od_work_take(&r.work, a, sizeof *r.match);
  r.forced = od_work_take(&r.work, g, 1);
  for (int64_t i = 0; i < b; i++) {
    int64_t n = count[i];
    if (n < 0 || n > g)
      return od_fail(OD_EINVAL, "image %lld has %lld groundtruth boxes of %lld", (long long)i, (long long)n,
                     (long long)g);
    OD_TRY(match_image((int32_t *)c->out[0].data + i * a, &how, &r, anchors + (own ? i * a * 4 : 0), a,
                       valid ? valid + (own_valid ? i * a : 0) : NULL, boxes + i * g * 4, weights + i * g, n,
                       classes ? classes + i * g * d : NULL, d));
  }
  return OD_OK;
}

#define SSD_MATCH                                                                                                      \
  (&(const od_match_params){.matched_threshold = 0.5f,                                                                 \
                            .unmatched_threshold = 0.5f,                                                               \
                            .negatives_lower_than_unmatched = true,                                                    \
                            .force_match_for_each_row = true})
#define RPN_MATCH                                                                                                      \
  (&(const od_match_params){.matched_threshold = 0.5f,                                                                 \
                            .unmatched_threshold = 0.2f,                                                               \
                            .negatives_lower_than_unmatched = true,                                                    \
                            .force_match_for_each_row = true})
#define BIPARTITE (&(const od_match_params){.similarity = OD_SIMILARITY_NEG_SQ_DIST, .bipartite = true})
#define UNIT(...) OD_F32_IN(0, 1, __VA_ARGS__)
static const od_sample samples[] = {
    {.name = "SSD",
     .params = SSD_MATCH,
     .n_in = 6,
     .in = {UNIT(40, 4), UNIT(3, 5, 4), OD_F32_IN(0.5, 1, 3, 5), OD_I32_IN(0, 5, 3), OD_ABSENT_IN, OD_ABSENT_IN}},
    {.name = "own anchors, some without part",
     .params = RPN_MATCH,
     .n_in = 6,
     .in = {UNIT(2, 30, 4), UNIT(2, 4, 4), OD_F32_IN(0.5, 1, 2, 4), OD_I32_IN(2, 4, 2), UNIT(2, 4, 3),
            OD_F32_IN(-1, 1, 2, 30)}},
    {.name = "bipartite",
     .params = BIPARTITE,
     .n_in = 6,
     .in = {UNIT(30, 4), UNIT(2, 4, 4), OD_F32_IN(0.5, 1, 2, 4), OD_I32_IN(2, 4, 2), OD_ABSENT_IN, OD_ABSENT_IN}},
};

const od_op od_op_match_anchors = {
    .name = "match_anchors",
    .help = "the groundtruth box of each anchor: its row, -1 for none, -2 for ignored",
    .params = params,
    .params_size = sizeof(od_match_params),
    .min_in = 6,
    .max_in = 6,
    .optional_in = 1u << CLASSES | 1u << VALID,
    .n_out = 1,
    .infer = infer,
    .ref = ref,
    .scratch = scratch,
    .grad = od_grad_nothing,
    .no_tf = OD_NO_TF_TRAINING,
    OD_SAMPLES(samples),
};
