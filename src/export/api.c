/* The public interface (include/objdet.h) over detectors of both kinds. */
#include <objdet.h>

#include <string.h>

#include "base/mem.h"
#include "base/version.h"
#include "data/label_map.h"
#include "eval/detector.h"
#include "eval/graph_detector.h"
#include "image/decode.h"
#include "io/file.h"
#include "model/fields.h"

struct objdet_detector {
  od_pipeline pipeline;        /* of a checkpoint */
  od_detector *trained;        /* a checkpoint, */
  od_graph_detector *exported; /* or a graph */
  od_label_map *labels;        /* may be NULL */
  objdet_box *boxes;           /* of the last picture */
  size_t boxes_cap;
};

const char *objdet_version(void) { return OD_VERSION; }
const char *objdet_message(void) { return od_message(); }

static od_status read_options(od_engine_options *out, const objdet_options *o) {
  *out = (od_engine_options){0};
  if (!o) return OD_OK;
  out->threads = o->threads;
  if (!o->precision || strcmp(o->precision, "auto") == 0 || strcmp(o->precision, "fp32") == 0) return OD_OK;
  if (strcmp(o->precision, "bf16") != 0)
    return od_fail(OD_EINVAL, "precision is fp32, bf16 or auto, not '%s'", o->precision);
  out->precision = OD_MIXED_BF16;
  return OD_OK;
}

static int finish(objdet_detector **out, objdet_detector *d, od_status st, const char *label_map) {
  if (st == OD_OK && label_map) st = od_label_map_load(&d->labels, label_map);
  if (st == OD_OK)
    *out = d;
  else
    objdet_close(d);
  return st != OD_OK;
}

int objdet_open_graph(objdet_detector **out, const char *path, const char *label_map, const objdet_options *options) {
  objdet_detector *d;
  od_engine_options engine; /* checked; the interpreter of graphs takes its threads from OpenMP */
  *out = NULL;
  if (read_options(&engine, options) != OD_OK || od_new(&d, 1, sizeof *d) != OD_OK) return 1;
  return finish(out, d, od_graph_detector_new(&d->exported, path), label_map);
}

static od_status open_trained(objdet_detector *d, const char *config, const char *checkpoint,
                              const objdet_options *options) {
  OD_TRY(od_pipeline_load(&d->pipeline, config, NULL, 0));
  OD_TRY(od_fields_check(&d->pipeline, OD_FOR_DETECT, NULL));
  od_detector_options o = {.model = d->pipeline.config->model,
                           .averages = OD_SET(d->pipeline.config->eval_config, EvalConfig)->use_moving_averages};
  OD_TRY(read_options(&o.engine, options));
  OD_TRY(od_detector_new(&d->trained, &o));
  return od_detector_restore(d->trained, checkpoint);
}

int objdet_open_checkpoint(objdet_detector **out, const char *pipeline_config, const char *checkpoint,
                           const char *label_map, const objdet_options *options) {
  objdet_detector *d;
  *out = NULL;
  if (od_new(&d, 1, sizeof *d) != OD_OK) return 1;
  return finish(out, d, open_trained(d, pipeline_config, checkpoint, options), label_map);
}

void objdet_close(objdet_detector *d) {
  if (!d) return;
  od_detector_free(d->trained);
  od_graph_detector_free(d->exported);
  od_label_map_free(d->labels);
  od_pipeline_free(&d->pipeline);
  od_free(d->boxes);
  od_free(d);
}

int objdet_decode_picture(objdet_picture *out, const void *bytes, size_t size) {
  od_image image;
  *out = (objdet_picture){0};
  if (od_image_decode(&image, bytes, size, 3) != OD_OK) return 1;
  *out = (objdet_picture){image.data, image.height, image.width};
  return 0;
}

int objdet_load_picture(objdet_picture *out, const char *path) {
  char *bytes;
  size_t size;
  *out = (objdet_picture){0};
  if (od_file_read_all(&bytes, &size, path, (uint64_t)1 << 30) != OD_OK) return 1;
  int bad = objdet_decode_picture(out, bytes, size);
  if (bad) (void)!od_fail_context(OD_EDATA, "%s", path);
  od_free(bytes);
  return bad;
}

void objdet_free_picture(objdet_picture *p) {
  od_free(p->rgb);
  *p = (objdet_picture){0};
}

static od_status look(objdet_detector *d, const objdet_picture *p, objdet_found *out) {
  const od_image image = {p->rgb, p->height, p->width, 3};
  od_detections found;
  if (!p->rgb || p->height < 1 || p->width < 1)
    return od_fail(OD_EINVAL, "the picture is empty (%d x %d)", p->width, p->height);
  OD_TRY(d->trained ? od_detector_look(d->trained, &image, &found)
                    : od_graph_detector_look(d->exported, &image, &found));
  OD_TRY(od_grow(&d->boxes, &d->boxes_cap, (size_t)found.n + 1, sizeof *d->boxes));
  for (int i = 0; i < found.n; i++) {
    const float *b = found.boxes + 4 * i;
    const char *name = d->labels ? od_label_map_name(d->labels, found.classes[i], true) : NULL;
    d->boxes[i] = (objdet_box){b[0], b[1], b[2], b[3], found.scores[i], found.classes[i], name ? name : ""};
  }
  *out = (objdet_found){(size_t)found.n, d->boxes};
  return OD_OK;
}

int objdet_detect(objdet_detector *d, const objdet_picture *picture, objdet_found *out) {
  *out = (objdet_found){0};
  return look(d, picture, out) != OD_OK;
}
