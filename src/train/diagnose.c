/* Why a loss is not finite: which loss term, which layer first, which weights, which pictures; and the batch in a file. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "io/bundle.h"
#include "ops/math.h"
#include "train/session.h"

enum { PICTURES_SHOWN = 8, BOXES_SHOWN = 4, NAMES_SHOWN = 6, WATCHED_MAX = 4096 };

static bool finite_tensor(const od_tensor *t) {
  const float *x = t->data;
  for (int64_t i = 0, n = od_tensor_size(t); i < n; i++)
    if (!isfinite(x[i])) return false;
  return true;
}

/* Names the variables that are not finite behind a heading; how many. weights_only: trained ones, since batch norm's averages may
 * have got their numbers from the very step that failed. */
static int bad_variables(od_str *s, const od_session *session, const char *heading, bool weights_only) {
  int n = 0;
  for (size_t i = 0; i < od_graph_variables(session->graph); i++) {
    const od_variable *v = od_graph_variable(session->graph, i);
    if (v->dtype != OD_F32 || (weights_only && !v->trainable) || finite_tensor(od_state_at(session->state, v->index))) continue;
    if (n++ == 0) od_str_addf(s, "\n  %s:", heading);
    if (n <= NAMES_SHOWN) od_str_addf(s, " %s", v->name);
  }
  if (n > NAMES_SHOWN) od_str_addf(s, " and %d more", n - NAMES_SHOWN);
  return n;
}

/* The forward nodes worth watching: floats computed before the total loss. */
static int watch(const od_node **nodes, od_value *sums, od_session *s, int last_id) {
  int n = 0;
  for (int i = 0; i <= last_id && n < WATCHED_MAX; i++) {
    const od_node *node = od_graph_node(s->graph, (size_t)i);
    if ((node->op->flags & OD_OP_SOURCE) || node->out[0].dtype != OD_F32) continue;
    nodes[n] = node;
    od_value v = {(od_node *)(uintptr_t)node, 0};
    sums[n++] = od_reduce_sum(s->graph, v, OD_ALL_AXES, false); /* a NaN or an infinity anywhere shows in the sum */
  }
  return n;
}

/* For printing: a NaN has no sign. */
static double plain(float x) { return isnan(x) ? (double)fabsf(x) : (double)x; }

/* Runs the forward pass once more with a sum behind every node; the first sum that is not finite names the layer. */
static od_status first_bad_layer(od_str *out, od_session *s) {
  const od_node **nodes = NULL;
  od_value *sums = NULL, feeds[OD_SESSION_FEEDS];
  od_tensor *values = NULL, tensors[OD_SESSION_FEEDS];
  od_program *program = NULL;
  od_status st;
  OD_GO(st, od_new(&nodes, WATCHED_MAX, sizeof *nodes));
  OD_GO(st, od_new(&sums, WATCHED_MAX, sizeof *sums));
  OD_GO(st, od_new(&values, WATCHED_MAX, sizeof *values));
  int n = watch(nodes, sums, s, s->train.total_loss.node->id);
  OD_GO(st, od_graph_check(s->graph));
  od_session_feeds(feeds, tensors, s);
  od_program_spec spec = {.graph = s->graph, .state = s->state, .feeds = feeds, .n_feeds = OD_SESSION_FEEDS, .fetches = sums, .n_fetches = n};
  OD_GO(st, od_program_new(&program, s->engine, &spec));
  od_program_set_key(program, od_key_mix(od_key_mix(s->seed, s->step), (uint64_t)s->turn));
  OD_GO(st, od_program_run(program, tensors, values));
  for (int i = 0; i < n; i++) {
    if (isfinite(*(const float *)values[i].data)) continue;
    od_str_addf(out, "\n  first layer with such a value: %s (%s)", nodes[i]->name, nodes[i]->op->name);
    break;
  }
  for (int i = 0; i < s->model.losses.n; i++)
    for (int k = 0; k < n; k++)
      if (nodes[k] == s->model.losses.item[i].value.node)
        od_str_addf(out, "\n  %s = %g", s->model.losses.item[i].name, plain(*(const float *)values[k].data));
done:
  od_program_free(program);
  od_free(values);
  od_free(sums);
  od_free(nodes);
  return st;
}

/* The first box of picture i that can make a loss infinite: without area, not finite, or of such a weight; -1: none. */
static int odd_box(const od_batch *b, int i) {
  int64_t first = (int64_t)i * b->boxes.shape.dim[1];
  const float *boxes = (const float *)b->boxes.data + first * 4, *weights = (const float *)b->weights.data + first;
  for (int k = 0; k < ((const int32_t *)b->num_boxes.data)[i]; k++) {
    const float *x = boxes + 4 * k;
    if (!(x[2] > x[0]) || !(x[3] > x[1]) || !isfinite(x[0] + x[1] + x[2] + x[3]) || !isfinite(weights[k])) return k;
  }
  return -1;
}

static void one_picture(od_str *s, const od_batch *b, int i) {
  int64_t first = (int64_t)i * b->boxes.shape.dim[1];
  const float *boxes = (const float *)b->boxes.data + first * 4, *weights = (const float *)b->weights.data + first;
  int n = ((const int32_t *)b->num_boxes.data)[i], odd = odd_box(b, i);
  od_str_addf(s, "\n  picture %s, %d box%s", b->samples[i].origin, n, n == 1 ? "" : "es");
  for (int k = 0; k < n && k < BOXES_SHOWN; k++)
    od_str_addf(s, " [%.4g %.4g %.4g %.4g]", plain(boxes[4 * k]), plain(boxes[4 * k + 1]), plain(boxes[4 * k + 2]), plain(boxes[4 * k + 3]));
  if (n > BOXES_SHOWN) od_str_add(s, " ...");
  if (odd < 0) return;
  if (isfinite(weights[odd])) od_str_addf(s, "; box %d has no area or is not finite", odd);
  else od_str_addf(s, "; the weight of box %d is %g", odd, plain(weights[odd]));
}

/* The batch: pictures with a box that looks wrong first, then the others, as far as there is room. */
static void pictures(od_str *s, const od_batch *b) {
  int shown = 0;
  for (int round = 0; round < 2; round++)
    for (int i = 0; i < b->count; i++) {
      if ((odd_box(b, i) >= 0) != (round == 0)) continue;
      if (shown++ < PICTURES_SHOWN) one_picture(s, b, i);
    }
  if (shown > PICTURES_SHOWN) od_str_addf(s, "\n  and %d more pictures", shown - PICTURES_SHOWN);
}

static od_status write_batch(char *path, size_t size, const od_session *s, uint64_t step) {
  const od_batch *b = &s->batch;
  snprintf(path, size, "%s/nonfinite-%llu", s->o->train_dir, (unsigned long long)step);
  od_named_tensor list[] = {{"images", b->images},        {"true_image_shapes", b->true_shapes}, {"boxes", b->boxes},
                            {"class_targets", b->class_targets}, {"weights", b->weights},          {"num_boxes", b->num_boxes}};
  return od_bundle_write(path, list, sizeof list / sizeof *list);
}

/* Pictures, the batch's file, and the message as a whole. */
static od_status finish(od_str *text, const od_session *s, uint64_t step) {
  char path[4096];
  pictures(text, &s->batch);
  if (write_batch(path, sizeof path, s, step) == OD_OK) od_str_addf(text, "\n  the batch lies in %s.index and .data-00000-of-00001 (objdet inspect reads it)", path);
  else od_str_addf(text, "\n  the batch could not be written: %s", od_message());
  od_status st = od_fail(OD_ENUMERIC, "%s", od_str_text(text));
  od_str_free(text);
  return st;
}

od_status od_session_diagnose(od_session *s) {
  od_str text = OD_STR_INIT;
  od_str_addf(&text, "step %llu: the loss is not finite", (unsigned long long)s->step + 1);
  size_t head = text.len;
  if (first_bad_layer(&text, s) != OD_OK) {
    text.len = head;
    od_str_addf(&text, "\n  (looking for the layer failed: %s)", od_message());
  }
  bad_variables(&text, s, "weights that are not finite already (an earlier step was too large: lower the learning rate, or clip gradients)", true);
  return finish(&text, s, s->step + 1);
}

od_status od_session_check_state(od_session *s) {
  od_str text = OD_STR_INIT;
  od_str_addf(&text, "step %llu: its loss was %g, but it left numbers that are not finite; no checkpoint is written (learning rate %g: lower it, or clip gradients)",
              (unsigned long long)s->step, (double)s->values[s->total], (double)s->learning_rate);
  if (bad_variables(&text, s, "not finite", false)) return finish(&text, s, s->step);
  od_str_free(&text);
  return OD_OK;
}
