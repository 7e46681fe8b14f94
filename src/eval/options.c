/* Options of the evaluator from eval_config; see options.h. */
#include "eval/options.h"

static const char *const of_legacy[] = {"pascal_voc_detection_metrics"};
static const char *const of_model_main[] = {"coco_detection_metrics"};

static od_status fill_super_categories(od_eval_options *o, const ObjectDetection__Protos__EvalConfig *c,
                                       od_arena *arena) {
  if (c->n_super_categories == 0) return OD_OK;
  od_eval_super_category *list = od_arena_alloc(arena, c->n_super_categories * sizeof *list);
  if (!list) return OD_ENOMEM;
  for (size_t i = 0; i < c->n_super_categories; i++)
    list[i] = (od_eval_super_category){c->super_categories[i]->key, c->super_categories[i]->value};
  o->super_categories = list;
  o->n_super_categories = c->n_super_categories;
  return OD_OK;
}

od_status od_eval_options_from_config(od_eval_options *o, const ObjectDetection__Protos__EvalConfig *config,
                                      bool legacy, od_arena *arena) {
  if (config->n_parameterized_metric > 0)
    return od_fail(OD_EUNSUPPORTED, "eval_config: parameterized_metric (coco_keypoint_metrics) is not supported yet");
  o->metrics = (const char *const *)config->metrics_set;
  o->n_metrics = config->n_metrics_set;
  if (o->n_metrics == 0) {
    o->metrics = legacy ? of_legacy : of_model_main;
    o->n_metrics = 1;
  }
  o->recall_lower_bound = (double)config->recall_lower_bound;
  o->recall_upper_bound = (double)config->recall_upper_bound;
  o->include_metrics_per_category = config->include_metrics_per_category;
  o->all_metrics_per_category = config->all_metrics_per_category;
  o->skip_predictions_for_unlabeled_class = config->skip_predictions_for_unlabeled_class;
  return fill_super_categories(o, config, arena);
}
