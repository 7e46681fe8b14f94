/* Comparing what a written graph gives with what the engine gave; see export.h for the limits. Every comparison is written so
 * that NaN is a difference. */
#include <math.h>
#include <string.h>

#include "export/export.h"
#include "image/encode.h"
#include "io/example.h"

static const double RAW_LIMIT = 1e-3, SCORE_LIMIT = 0.01, BOX_LIMIT = 1e-2;

/* Proposals of equal score may change places, and what belongs to them with them: in two-stage graphs single rows may differ though
 * nothing is wrong. */
static int64_t regions_allowed(int64_t rows) { return rows / 20 > 2 ? rows / 20 : 2; }

static int find(const char *const *names, int n, const char *name) {
  for (int i = 0; i < n; i++)
    if (strcmp(names[i], name) == 0) return i;
  return -1;
}

static od_status same_type(const char *name, const od_tensor *got, const od_tensor *want) {
  char a[OD_SHAPE_TEXT], b[OD_SHAPE_TEXT];
  if (got->dtype != want->dtype)
    return od_fail(OD_EMISMATCH, "%s is %s, expected %s", name, od_dtype_name(got->dtype), od_dtype_name(want->dtype));
  if (!od_shape_equal(&got->shape, &want->shape))
    return od_fail(OD_EMISMATCH, "%s is %s, expected %s", name, od_shape_text(a, &got->shape),
                   od_shape_text(b, &want->shape));
  return want->dtype == OD_F32
             ? OD_OK
             : od_fail(OD_EUNSUPPORTED, "%s is %s; only floats are compared", name, od_dtype_name(want->dtype));
}

/* Raw tensors [B,P,...] of regions: rows beyond the limit are counted; true when there are few. */
static bool few_rows_off(od_parity *p, const od_tensor *got, const od_tensor *want, double rms) {
  if (want->shape.rank < 3) return false;
  const float *a = got->data, *b = want->data;
  int64_t rows = want->shape.dim[0] * want->shape.dim[1], row = rows ? od_tensor_size(want) / rows : 0, off = 0;
  for (int64_t i = 0; i < rows; i++) {
    bool near = true;
    for (int64_t k = i * row; k < (i + 1) * row; k++) {
      double ratio = fabs((double)a[k] - (double)b[k]) / rms;
      near = near && ratio <= RAW_LIMIT; /* NaN is not */
      if (ratio <= RAW_LIMIT && !(ratio <= p->raw)) p->raw = ratio;
    }
    off += !near;
  }
  if (off > p->rows_off) p->rows_off = off;
  return off <= regions_allowed(rows);
}

static od_status compare_raw(od_parity *p, const char *name, const od_tensor *got, const od_tensor *want,
                             bool regions) {
  const float *a = got->data, *b = want->data;
  int64_t n = od_tensor_size(want), worst = 0;
  double square = 0, most = 0;
  for (int64_t i = 0; i < n; i++) {
    if (!isfinite(b[i]))
      return od_fail(OD_ENUMERIC, "%s: the trained model itself gives %g (element %lld): its weights are not usable",
                     name, (double)b[i], (long long)i);
    double d = fabs((double)a[i] - (double)b[i]);
    square += (double)b[i] * (double)b[i];
    if (!(d <= most)) most = d, worst = i;
    if (!(d <= most)) break; /* NaN: nothing is worse */
  }
  double rms = n ? sqrt(square / (double)n) : 0;
  double ratio = rms > 0 ? most / rms : most;
  if (regions && isfinite(ratio) && rms > 0 && few_rows_off(p, got, want, rms)) return OD_OK;
  if (!(ratio <= p->raw)) p->raw = ratio;
  if (ratio <= RAW_LIMIT) return OD_OK;
  return od_fail(OD_EMISMATCH,
                 "%s: element %lld is %g, expected %g: %.2g of the root mean square %g, at most %g is allowed", name,
                 (long long)worst, (double)a[worst], (double)b[worst], ratio, rms, RAW_LIMIT);
}

/* What belongs to a detection, of one side. */
typedef struct {
  const float *boxes, *scores, *classes;
  int64_t n; /* of this picture */
} listing;

static double box_distance(const float *a, const float *b) {
  double most = 0;
  for (int i = 0; i < 4; i++) {
    double d = fabs((double)a[i] - (double)b[i]);
    if (isnan(d)) return d;
    if (d > most) most = d;
  }
  return most;
}

/* Pairs each detection of `from` with an unused one of `to`, the nearest box among those allowed. pair[i] = -1: none. */
static void match(int64_t *pair, bool *used, const listing *from, const listing *to, double best) {
  memset(used, 0, (size_t)to->n * sizeof *used);
  for (int64_t i = 0; i < from->n; i++) {
    double nearest = BOX_LIMIT;
    pair[i] = -1;
    for (int64_t k = 0; k < to->n; k++) {
      double d = box_distance(from->boxes + 4 * i, to->boxes + 4 * k);
      if (used[k] || from->classes[i] != to->classes[k] || !(d <= nearest)) continue;
      if (!(fabs((double)from->scores[i] - (double)to->scores[k]) <= SCORE_LIMIT * best)) continue;
      nearest = d;
      pair[i] = k;
    }
    if (pair[i] >= 0) used[pair[i]] = true;
  }
}

/* Rows of a tensor [B,M,...] that belong to matched detections. */
static od_status compare_rows(od_parity *p, const char *name, const od_tensor *got, const od_tensor *want,
                              int64_t picture, const int64_t *pair, int64_t n, bool regions) {
  int64_t m = want->shape.dim[1];
  if (m == 0) return OD_OK;
  int64_t row = od_tensor_size(want) / (want->shape.dim[0] * m);
  const float *a = (const float *)got->data + picture * m * row, *b = (const float *)want->data + picture * m * row;
  double square = 0;
  for (int64_t i = 0; i < n * row; i++) square += (double)b[i] * (double)b[i];
  double rms = square > 0 ? sqrt(square / (double)(n * row)) : 0;
  int64_t off = 0;
  for (int64_t i = 0; i < n; i++) {
    bool near = true;
    for (int64_t k = 0; pair[i] >= 0 && k < row && near; k++) {
      double d = fabs((double)a[pair[i] * row + k] - (double)b[i * row + k]), ratio = rms > 0 ? d / rms : d;
      near = ratio <= SCORE_LIMIT;
      if ((near || !regions) && !(ratio <= p->raw)) p->raw = ratio;
      if (!near && (!regions || ++off > regions_allowed(n)))
        return od_fail(OD_EMISMATCH, "%s: detection %lld of picture %lld is %g, expected %g", name, (long long)i,
                       (long long)picture, (double)a[pair[i] * row + k], (double)b[i * row + k]);
    }
  }
  return OD_OK;
}

static od_status missing(od_parity *p, const listing *from, const int64_t *pair, double best, int64_t picture,
                         bool regions, const char *what) {
  /* where a list is full, or a threshold cuts, the last ones may change places with those cut off */
  double lowest = from->n ? (double)from->scores[from->n - 1] : 0;
  for (int64_t i = 0; i < from->n; i++) {
    bool at_the_end =
        from->scores[i] > 0 && (double)from->scores[i] <= lowest + SCORE_LIMIT * best; /* padding is none */
    if (pair[i] >= 0 || at_the_end) continue;
    p->unmatched++;
    if (regions && p->unmatched <= regions_allowed(from->n)) continue;
    const float *b = from->boxes + 4 * i;
    return od_fail(OD_EMISMATCH,
                   "picture %lld: detection %lld %s (class %g, score %g, box %.4f %.4f %.4f %.4f) has no partner",
                   (long long)picture, (long long)i, what, (double)from->classes[i], (double)from->scores[i],
                   (double)b[0], (double)b[1], (double)b[2], (double)b[3]);
  }
  return OD_OK;
}

typedef struct {
  const char *const *names;
  const od_tensor *got, *want;
  int n, boxes, scores, classes, count;
  bool regions; /* the graph cuts out regions */
} sets;

static od_status list_of(listing *l, const sets *s, const od_tensor *t, int64_t picture) {
  int64_t m = s->want[s->scores].shape.dim[1];
  float count = ((const float *)t[s->count].data)[picture];
  if (!(count >= 0 && count <= (float)m))
    return od_fail(OD_EMISMATCH, "num_detections of picture %lld is %g of %lld", (long long)picture, (double)count,
                   (long long)m);
  *l = (listing){(const float *)t[s->boxes].data + picture * m * 4, (const float *)t[s->scores].data + picture * m,
                 (const float *)t[s->classes].data + picture * m, (int64_t)count};
  return OD_OK;
}

static od_status compare_picture(od_parity *p, const sets *s, int64_t picture, int64_t *pair, int64_t *back,
                                 bool *used) {
  listing got, want;
  OD_TRY(list_of(&want, s, s->want, picture));
  OD_TRY(list_of(&got, s, s->got, picture));
  double best = want.n ? (double)want.scores[0] : 0;
  p->detections += want.n;
  match(pair, used, &want, &got, best);
  match(back, used, &got, &want, best);
  for (int64_t i = 0; i < want.n; i++) {
    if (pair[i] < 0) continue;
    double score = fabs((double)want.scores[i] - (double)got.scores[pair[i]]) / (best > 0 ? best : 1);
    double box = box_distance(want.boxes + 4 * i, got.boxes + 4 * pair[i]);
    if (!(score <= p->score)) p->score = score;
    if (!(box <= p->box)) p->box = box;
  }
  OD_TRY(missing(p, &want, pair, best, picture, s->regions, "expected"));
  OD_TRY(missing(p, &got, back, best, picture, s->regions, "found"));
  for (int i = 0; i < s->n; i++) {
    bool own = i == s->boxes || i == s->scores || i == s->classes || i == s->count;
    if (!own && od_starts_with(s->names[i], "detection_") && s->want[i].shape.rank >= 2)
      OD_TRY(compare_rows(p, s->names[i], &s->got[i], &s->want[i], picture, pair, want.n, s->regions));
  }
  return OD_OK;
}

static od_status compare_detections(od_parity *p, const sets *s) {
  const od_shape *boxes = &s->want[s->boxes].shape, *scores = &s->want[s->scores].shape;
  if (boxes->rank != 3 || boxes->dim[2] != 4 || scores->rank != 2 || scores->dim[1] != boxes->dim[1] ||
      !od_shape_equal(scores, &s->want[s->classes].shape) || s->want[s->count].shape.rank != 1)
    return od_fail(OD_EMISMATCH, "the detections' shapes do not fit each other");
  int64_t *pair = NULL, *back = NULL;
  bool *used = NULL;
  od_status st;
  size_t m = (size_t)scores->dim[1] + 1;
  OD_GO(st, od_new(&pair, m, sizeof *pair));
  OD_GO(st, od_new(&back, m, sizeof *back));
  OD_GO(st, od_new(&used, m, sizeof *used));
  for (int64_t i = 0; i < scores->dim[0]; i++) OD_GO(st, compare_picture(p, s, i, pair, back, used));
done:
  od_free(pair);
  od_free(back);
  od_free(used);
  return st;
}

static od_status compare(od_parity *out, const char *const *names, const od_tensor *got, const od_tensor *want, int n,
                         bool regions) {
  *out = (od_parity){0};
  sets s = {names,
            got,
            want,
            n,
            find(names, n, "detection_boxes"),
            find(names, n, "detection_scores"),
            find(names, n, "detection_classes"),
            find(names, n, "num_detections"),
            regions};
  bool detections = s.boxes >= 0 && s.scores >= 0 && s.classes >= 0 && s.count >= 0;
  for (int i = 0; i < n; i++) OD_TRY(same_type(names[i], &got[i], &want[i]));
  for (int i = 0; i < n; i++) {
    bool listed = od_starts_with(names[i], "detection_") || i == s.count;
    if (!detections || !listed) OD_TRY(compare_raw(out, names[i], &got[i], &want[i], regions));
  }
  return detections ? compare_detections(out, &s) : OD_OK;
}

od_status od_export_compare(od_parity *out, const char *const *names, const od_tensor *got, const od_tensor *want,
                            int n) {
  return compare(out, names, got, want, n, false);
}

/* ----------------------------------------------------------------------------------------------------------- check */
od_value od_export_regions(const od_graph *g) {
  for (size_t i = 0; i < od_graph_size(g); i++) {
    const od_node *n = od_graph_node(g, i);
    if (strcmp(n->op->name, "crop_and_resize") == 0) return n->in[1];
  }
  return OD_NONE;
}

/* The tensor from which the graph takes the regions that it cuts; NULL when it cuts none. */
static const char *regions_of(const od_tfgraph *g) {
  for (size_t i = 0; i < od_tfgraph_nodes(g); i++)
    if (strcmp(od_tfgraph_node_at(g, i).op, "CropAndResize") == 0) return od_tfgraph_node_input(g, i, 1);
  return NULL;
}

/* The graph's own regions beside the engine's. */
static od_status compare_regions(od_parity *out, od_tfgraph *g, const od_tfgraph_feed *picture, const char *tensor,
                                 const od_tensor *want) {
  od_tensor got;
  OD_TRY(od_tfgraph_run(g, picture, 1, &tensor, 1, &got));
  od_status st = same_type(tensor, &got, want);
  od_tensor a = got, b = *want; /* as one picture's rows */
  if (st == OD_OK) {
    a.shape = b.shape = OD_SHAPE(1, want->shape.dim[0], want->shape.dim[1]);
    st = compare_raw(out, tensor, &a, &b, true);
  }
  od_tensor_free(&got);
  return st;
}

/* The pictures as the graph's string input wants them: PNG, or an Example with a PNG. */
static od_status as_strings(od_tensor *out, const od_tensor *pictures, bool example) {
  int64_t batch = pictures->shape.dim[0], size = od_tensor_size(pictures) / (batch ? batch : 1);
  od_str png = OD_STR_INIT, text = OD_STR_INIT;
  od_example_builder *b = NULL;
  od_status st;
  OD_GO(st, od_tensor_new(out, OD_STRING, &OD_SHAPE(batch)));
  OD_GO(st, od_example_builder_new(&b));
  for (int64_t i = 0; i < batch; i++) {
    od_image image = {(uint8_t *)pictures->data + i * size, (int)pictures->shape.dim[1], (int)pictures->shape.dim[2],
                      3};
    od_str_clear(&png);
    od_str_clear(&text);
    OD_GO(st, od_png_encode(&png, &image));
    if (example) {
      od_example_builder_reset(b);
      od_example_add_bytes(b, "image/encoded", png.data, png.len);
      od_example_add_text(b, "image/format", "png");
      OD_GO(st, od_example_builder_finish(b, &text));
    }
    const od_str *s = example ? &text : &png;
    OD_GO(st, od_tensor_set_bytes(out, i, s->data, s->len));
  }
done:
  od_example_builder_free(b);
  od_str_free(&png);
  od_str_free(&text);
  if (st != OD_OK) od_tensor_free(out);
  return st;
}

od_status od_export_check(od_parity *out, const char *graph_path, const od_tensor *pictures, const char *const *names,
                          const od_tensor *want, int n, const od_tensor *regions) {
  od_tfgraph *g = NULL;
  od_tensor strings = {0}, *got = NULL;
  od_status st;
  *out = (od_parity){0};
  if (pictures->dtype != OD_U8 || pictures->shape.rank != 4 || pictures->shape.dim[3] != 3)
    return od_fail(OD_EINVAL, "the pictures must be uint8 [B,H,W,3]");
  OD_TRY(od_tfgraph_open(&g, graph_path));
  const od_tfgraph_port *in = od_tfgraph_input(g, 0);
  const char *cut = regions_of(g);
  OD_GO(st, od_tfgraph_check(g));
  if (!in || od_tfgraph_input(g, 1)) OD_GO(st, od_fail(OD_EDATA, "%s: one input is expected", graph_path));
  if (!cut != !regions)
    OD_GO(st, od_fail(OD_EMISMATCH, "%s cuts regions out of its features%s", graph_path,
                      cut ? ", the model does not" : " in the model, not in the file"));
  OD_GO(st, od_new(&got, (size_t)n + 1, sizeof *got));
  memset(got, 0, ((size_t)n + 1) * sizeof *got);
  bool text = in->dtype == OD_STRING;
  if (text) OD_GO(st, as_strings(&strings, pictures, strcmp(in->tensor, "tf_example:0") == 0));
  od_tfgraph_feed feed[2] = {{in->tensor, text ? strings : *pictures}};
  if (regions) {
    OD_GO(st, od_fail_context(compare_regions(out, g, feed, cut, regions),
                              "%s does not propose what the model proposes", graph_path));
    feed[1] = (od_tfgraph_feed){cut, *regions};
  }
  OD_GO(st, od_tfgraph_run(g, feed, regions ? 2 : 1, names, n, got));
  OD_GO(st, od_fail_context(compare(out, names, got, want, n, cut != NULL), "%s does not give what the model gives",
                            graph_path));
done:
  for (int i = 0; got && i < n; i++) od_tensor_free(&got[i]);
  od_free(got);
  if (strings.data) od_tensor_free(&strings);
  od_tfgraph_free(g);
  return st;
}
