/* Event file of a training run; see summary.h. */
#include "train/summary.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/event.h"

struct od_summaries {
  od_event_writer *writer;
  od_str buffer;
};

od_status od_summaries_open(od_summaries **out, const od_session *s) {
  od_summaries *w;
  OD_TRY(od_new(&w, 1, sizeof *w));
  od_status st = od_event_writer_open(&w->writer, s->o->train_dir, NULL, 0);
  if (st == OD_OK) st = od_event_write_session(w->writer, (int64_t)s->step, 0, OD_SESSION_START, NULL);
  *out = w; /* after a failure too: the caller closes it */
  return st;
}

od_status od_summaries_graph(od_summaries *w, const od_str *graph_def) {
  return od_event_write_graph(w->writer, 0, 0, (od_view){(const uint8_t *)graph_def->data, graph_def->len});
}

od_status od_summaries_saved(od_summaries *w, const od_session *s, const char *prefix) {
  return od_event_write_session(w->writer, (int64_t)s->step, 0, OD_SESSION_CHECKPOINT, prefix);
}

/* Boxes that some anchor is matched to, a mean over the pictures. match: [B,A], rows from 0, negative: none. */
static od_status matched_boxes(double *out, const od_tensor *match, int64_t rows) {
  const int32_t *m = match->data;
  int64_t n = match->shape.dim[0], anchors = match->shape.dim[1], distinct = 0;
  bool *seen;
  OD_TRY(od_new(&seen, (size_t)rows + 1, sizeof *seen));
  for (int64_t i = 0; i < n; i++) {
    memset(seen, 0, (size_t)rows);
    for (int64_t k = 0; k < anchors; k++) {
      int32_t row = m[i * anchors + k];
      if (row < 0 || row >= rows || seen[row]) continue;
      seen[row] = true;
      distinct++;
    }
  }
  od_free(seen);
  *out = n ? (double)distinct / (double)n : 0;
  return OD_OK;
}

/* The tag of a scalar in the two programs; NULL: that program does not write it. */
static const char *tag_of(char *text, size_t size, const od_scalar *c, bool legacy) {
  switch (c->kind) {
    case OD_SCALAR_LOSS: snprintf(text, size, legacy ? "Losses/%s" : "%s", c->name); return text;
    case OD_SCALAR_REGULARIZATION: return legacy ? "Losses/regularization_loss" : "Loss/regularization_loss";
    case OD_SCALAR_TOTAL: return legacy ? "Losses/TotalLoss" : "Loss/total_loss";
    case OD_SCALAR_SUMMARY: return c->name;
    case OD_SCALAR_NORM: return legacy ? NULL : "global_norm/gradient_norm";
  }
  return NULL;
}

od_status od_summaries_scalars(od_summaries *w, const od_session *s, double steps_per_second) {
  bool legacy = s->o->program == OD_PROGRAM_LEGACY;
  char text[256];
  od_str_clear(&w->buffer);
  for (int i = 0; i < s->n_scalars; i++) {
    const char *tag = tag_of(text, sizeof text, &s->scalars[i], legacy);
    if (tag) od_summary_add_scalar(&w->buffer, tag, (double)s->values[i]);
    float clip = s->config->gradient_clipping_by_norm;
    if (s->scalars[i].kind == OD_SCALAR_NORM && clip > 0)
      od_summary_add_scalar(&w->buffer, "global_norm/clipped_gradient_norm", (double)fminf(s->values[i], clip));
  }
  if (s->match.data && s->match.shape.rank == 2) {
    double matched;
    OD_TRY(matched_boxes(&matched, &s->match, s->batch.boxes.shape.dim[1]));
    od_summary_add_scalar(&w->buffer, OD_TARGET_TAG "AvgNumGroundtruthBoxesMatchedPerImage", matched);
  }
  double total = (double)s->values[s->total];
  if (legacy) {
    double regularization = 0;
    for (int i = 0; i < s->n_scalars; i++)
      if (s->scalars[i].kind == OD_SCALAR_REGULARIZATION) regularization = (double)s->values[i];
    od_summary_add_scalar(&w->buffer, "Losses/clone_loss", total - regularization);
  } else {
    od_summary_add_scalar(&w->buffer, "loss", total);
  }
  od_summary_add_scalar(&w->buffer, legacy ? "LearningRate/LearningRate/learning_rate" : "learning_rate", (double)s->learning_rate);
  if (steps_per_second > 0) od_summary_add_scalar(&w->buffer, "global_step/sec", steps_per_second);
  return od_event_write_summary(w->writer, (int64_t)s->step, 0, &w->buffer);
}

od_status od_summaries_histograms(od_summaries *w, const od_session *s) {
  char tag[1024];
  if (s->o->program != OD_PROGRAM_LEGACY) return OD_OK;
  od_str_clear(&w->buffer);
  for (size_t i = 0; i < od_graph_variables(s->graph); i++) {
    const od_variable *v = od_graph_variable(s->graph, i);
    if (!v->model || v->dtype != OD_F32) continue;
    const od_tensor *t = od_state_at(s->state, v->index);
    snprintf(tag, sizeof tag, "ModelVars/%s", v->name);
    od_status st = od_summary_add_histogram(&w->buffer, tag, t->data, (size_t)od_tensor_size(t));
    if (st != OD_OK && st != OD_ENUMERIC) return st; /* what is not finite will stop the run by itself */
  }
  return od_event_write_summary(w->writer, (int64_t)s->step, 0, &w->buffer);
}

od_status od_summaries_close(od_summaries *w) {
  if (!w) return OD_OK;
  od_status st = w->writer ? od_event_write_session(w->writer, 0, 0, OD_SESSION_STOP, NULL) : OD_OK;
  od_status closing = od_event_writer_close(w->writer);
  if (st == OD_OK) st = closing;
  od_str_free(&w->buffer);
  od_free(w);
  return st;
}
