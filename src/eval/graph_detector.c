/* Detections from a TensorFlow graph; see graph_detector.h. */
#include "eval/graph_detector.h"

#include <string.h>

#include "base/str.h"
#include "image/encode.h"
#include "io/example.h"
#include "tfgraph/tfgraph.h"

enum { N_OUT = 4, CLASS_LIMIT = 1 << 24 /* beyond it floats skip whole numbers */ };
static const char *const keys[N_OUT] = {"detection_boxes", "detection_scores", "detection_classes", "num_detections"};

typedef enum { INPUT_IMAGE, INPUT_ENCODED, INPUT_EXAMPLE } input_kind;

struct od_graph_detector {
  od_tfgraph *graph;
  const char *input;
  input_kind kind;
  const char *fetch[N_OUT];
  od_tensor out[N_OUT]; /* of the last run */
  int32_t *classes;
  size_t classes_cap;
};

/* The tensor of a key: from the signature, else "<key>:0". */
static const char *output_tensor(const od_tfgraph *g, const char *key) {
  const od_tfgraph_port *p;
  for (size_t i = 0; (p = od_tfgraph_output(g, i)); i++)
    if (strcmp(p->key, key) == 0) return p->tensor;
  return od_tfgraph_has(g, key) ? key : NULL;
}

static od_status find_input(od_graph_detector *d) {
  const od_tfgraph_port *p;
  for (size_t i = 0; (p = od_tfgraph_input(d->graph, i)); i++) {
    d->input = p->tensor;
    if (p->dtype == OD_U8) {
      d->kind = INPUT_IMAGE;
      return OD_OK;
    }
    if (p->dtype == OD_STRING) {
      d->kind = od_starts_with(p->tensor, "tf_example") ? INPUT_EXAMPLE : INPUT_ENCODED;
      return OD_OK;
    }
  }
  return od_fail(OD_EDATA,
                 "%s has no input that takes a picture (image_tensor, encoded_image_string_tensor, tf_example)",
                 od_tfgraph_path(d->graph));
}

od_status od_graph_detector_new(od_graph_detector **out, const char *path) {
  od_graph_detector *d;
  od_status st;
  OD_TRY(od_new(&d, 1, sizeof *d));
  OD_GO(st, od_tfgraph_open(&d->graph, path));
  OD_GO(st, find_input(d));
  for (int i = 0; i < N_OUT; i++) {
    d->fetch[i] = output_tensor(d->graph, keys[i]);
    if (!d->fetch[i])
      OD_GO(st,
            od_fail(OD_EDATA, "%s has no output '%s': it is no detector's graph", od_tfgraph_path(d->graph), keys[i]));
  }
done:
  if (st != OD_OK)
    od_graph_detector_free(d);
  else
    *out = d;
  return st;
}

static void free_outputs(od_graph_detector *d) {
  for (int i = 0; i < N_OUT; i++) od_tensor_free(&d->out[i]);
}

void od_graph_detector_free(od_graph_detector *d) {
  if (!d) return;
  free_outputs(d);
  od_free(d->classes);
  od_tfgraph_free(d->graph);
  od_free(d);
}

/* A string input gets the picture as PNG, or as an Example that holds it. */
static od_status encode(od_str *bytes, const od_graph_detector *d, const od_image *picture) {
  OD_TRY(od_png_encode(bytes, picture));
  if (d->kind != INPUT_EXAMPLE) return OD_OK;
  od_example_builder *b;
  od_str whole = OD_STR_INIT;
  OD_TRY(od_example_builder_new(&b));
  od_example_add_bytes(b, "image/encoded", bytes->data, bytes->len);
  od_status st = od_example_builder_finish(b, &whole);
  od_example_builder_free(b);
  od_str_free(bytes);
  *bytes = whole;
  return st;
}

static od_status take(od_graph_detector *d, od_detections *found) {
  const od_shape *s = &d->out[1].shape;
  if (s->rank != 2 || s->dim[0] != 1 || d->out[0].shape.rank != 3 || d->out[0].dtype != OD_F32 ||
      d->out[1].dtype != OD_F32 || d->out[2].dtype != OD_F32 || d->out[3].dtype != OD_F32 ||
      d->out[0].shape.dim[1] != s->dim[1] || od_tensor_size(&d->out[2]) != s->dim[1] || od_tensor_size(&d->out[3]) != 1)
    return od_fail(OD_EDATA, "%s: its outputs have not the shapes of a detector's", od_tfgraph_path(d->graph));
  int64_t m = s->dim[1];
  float counted = ((const float *)d->out[3].data)[0];
  if (!(counted >= 0 && counted <= (float)m))
    return od_fail(OD_EDATA, "%s: num_detections is %g of %lld", od_tfgraph_path(d->graph), (double)counted,
                   (long long)m);
  OD_TRY(od_grow(&d->classes, &d->classes_cap, (size_t)m + 1, sizeof *d->classes));
  for (int64_t i = 0; i < m; i++) {
    float id = ((const float *)d->out[2].data)[i];
    if (!(id >= 0 && id < CLASS_LIMIT))
      return od_fail(OD_EDATA, "%s: a detection of class %g", od_tfgraph_path(d->graph), (double)id);
    d->classes[i] = (int32_t)id;
  }
  *found = (od_detections){(int)counted, d->out[0].data, d->out[1].data, d->classes};
  return OD_OK;
}

od_status od_graph_detector_look(od_graph_detector *d, const od_image *picture, od_detections *found) {
  od_str bytes = OD_STR_INIT;
  od_tfgraph_feed feed = {.tensor = d->input};
  OD_ASSERT(picture->channels == 3);
  od_bytes text;
  if (d->kind == INPUT_IMAGE) {
    feed.value = (od_tensor){OD_U8, OD_SHAPE(1, picture->height, picture->width, 3), picture->data};
  } else {
    od_status encoding = encode(&bytes, d, picture);
    if (encoding != OD_OK) {
      od_str_free(&bytes);
      return encoding;
    }
    text = (od_bytes){bytes.data, bytes.len};
    feed.value = (od_tensor){OD_STRING, OD_SHAPE(1), &text};
  }
  free_outputs(d);
  od_status st = od_tfgraph_run(d->graph, &feed, 1, d->fetch, N_OUT, d->out);
  od_str_free(&bytes);
  return st == OD_OK ? take(d, found) : st;
}
