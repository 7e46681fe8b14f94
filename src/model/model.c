/* From the config's choice of architecture to its builder; see model.h. */
#include "model/model.h"

#include "model/parts.h"

#define MODEL(x) OBJECT_DETECTION__PROTOS__DETECTION_MODEL__MODEL_##x

od_status od_model_build(od_model *out, od_graph *g, const od_pb_model *config, const od_model_spec *spec) {
  *out = (od_model){.graph = g, .config = config};
  switch (config ? config->model_case : MODEL(_NOT_SET)) {
    case MODEL(SSD): return od_ssd_build(out, config->ssd, spec);
    case MODEL(FASTER_RCNN): return od_faster_rcnn_build(out, config->faster_rcnn, spec);
    case MODEL(_NOT_SET): return od_fail(OD_EINVAL, "model: no architecture is set; there are ssd and faster_rcnn");
    default:
      return od_fail(OD_EUNSUPPORTED, "model.%s is not supported yet; there are ssd and faster_rcnn", od_model_kind(config));
  }
}

const char *od_model_kind(const od_pb_model *config) {
  switch (config ? config->model_case : MODEL(_NOT_SET)) {
    case MODEL(SSD): return "ssd";
    case MODEL(FASTER_RCNN): return "faster_rcnn";
    case MODEL(CENTER_NET): return "center_net";
    case MODEL(EXPERIMENTAL_MODEL): return "experimental_model";
    default: return NULL;
  }
}

float od_model_pad_value(const od_pb_model *config) {
  return config->model_case == MODEL(SSD) ? 127.5f : 0; /* SSD pads after normalising: 127.5 becomes 0 */
}

int64_t od_model_num_classes(const od_pb_model *config) {
  if (config->model_case == MODEL(SSD)) return config->ssd->num_classes;
  return config->model_case == MODEL(FASTER_RCNN) ? config->faster_rcnn->num_classes : 0;
}

const od_pb_resizer *od_model_resizer(const od_pb_model *config) {
  if (config->model_case == MODEL(SSD)) return config->ssd->image_resizer;
  return config->model_case == MODEL(FASTER_RCNN) ? config->faster_rcnn->image_resizer : NULL;
}

const char *const *od_model_extractor_scopes(const od_pb_model *config) {
  static const char *const ssd[] = {"FeatureExtractor", NULL};
  static const char *const two_stage[] = {"FirstStageFeatureExtractor", "SecondStageFeatureExtractor", NULL};
  return config->model_case == MODEL(FASTER_RCNN) ? two_stage : ssd;
}

#define RESIZER(x) OBJECT_DETECTION__PROTOS__IMAGE_RESIZER__IMAGE_RESIZER_ONEOF_##x
int64_t od_model_channels(const od_pb_model *config) {
  const od_pb_resizer *r = od_model_resizer(config);
  bool grey = false;
  switch (r ? r->image_resizer_oneof_case : RESIZER(_NOT_SET)) {
    case RESIZER(FIXED_SHAPE_RESIZER): grey = r->fixed_shape_resizer->convert_to_grayscale; break;
    case RESIZER(KEEP_ASPECT_RATIO_RESIZER): grey = r->keep_aspect_ratio_resizer->convert_to_grayscale; break;
    case RESIZER(CONDITIONAL_SHAPE_RESIZER): grey = r->conditional_shape_resizer->convert_to_grayscale; break;
    case RESIZER(PAD_TO_MULTIPLE_RESIZER): grey = r->pad_to_multiple_resizer->convert_to_grayscale; break;
    default: break;
  }
  return grey ? 1 : 3;
}
