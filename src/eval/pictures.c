/* Drawn pictures of an evaluation; see pictures.h and odapi 7.4. */
#include "eval/pictures.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "eval/chart.h"
#include "image/draw.h"
#include "image/encode.h"
#include "io/event.h"
#include "io/file.h"
#include "io/path.h"

enum { THICKNESS = 4, LABEL_MAX = 128 };

struct od_eval_pictures {
  const od_pb_eval *config;
  const od_label_map *labels;
  char *folder; /* of the PNGs */
  od_eval_style style;
  const od_reporter *reporter;
  uint32_t drawn;
};

od_status od_eval_pictures_new(od_eval_pictures **out, const od_pb_eval *config, const od_label_map *labels, const char *eval_dir,
                               od_eval_style style, const od_reporter *r) {
  od_eval_pictures *p;
  OD_TRY(od_new(&p, 1, sizeof *p));
  p->config = config;
  p->labels = labels;
  p->style = style;
  p->reporter = r;
  od_status st = od_path_join(&p->folder, eval_dir, "pictures");
  if (st != OD_OK) od_eval_pictures_free(p);
  else *out = p;
  return st;
}

void od_eval_pictures_free(od_eval_pictures *p) {
  if (!p) return;
  od_free(p->folder);
  od_free(p);
}

void od_eval_pictures_begin(od_eval_pictures *p) { p->drawn = 0; }

/* ------------------------------------------------------------------------------------------------------------- drawing */
typedef struct {
  bool no_scores, no_labels;
} label_style;

static void label_text(char *text, int id, float score, const od_label_map *labels, label_style style) {
  const char *name = labels ? od_label_map_name(labels, id, true) : NULL;
  char number[16];
  if (!labels) snprintf(number, sizeof number, "%d", id);
  if (!name) name = labels ? "N/A" : number;
  int percent = (int)lrintf(100 * score);
  if (style.no_labels && style.no_scores) text[0] = 0;
  else if (style.no_scores || score < 0) snprintf(text, LABEL_MAX, "%s", name);
  else if (style.no_labels) snprintf(text, LABEL_MAX, "%d%%", percent);
  else snprintf(text, LABEL_MAX, "%s: %d%%", name, percent);
}

static od_status draw(od_image *image, const od_detections *d, const od_label_map *labels, float min_score, int max_boxes, label_style style,
                      const od_colour *colour, const od_reporter *r) {
  od_drawing *items = NULL;
  char(*texts)[LABEL_MAX] = NULL;
  od_font *font = NULL;
  size_t n = 0;
  od_status st;
  OD_GO(st, od_new(&items, (size_t)d->n + 1, sizeof *items));
  OD_GO(st, od_new(&texts, (size_t)d->n + 1, sizeof *texts));
  for (int i = 0; i < d->n && (max_boxes <= 0 || (int)n < max_boxes); i++) {
    if (d->scores && !(d->scores[i] > min_score)) continue;
    label_text(texts[n], d->classes[i], d->scores ? d->scores[i] : -1, labels, style);
    items[n] = (od_drawing){.colour = colour ? *colour : od_colour_of_class(d->classes[i]), .label = texts[n][0] ? texts[n] : NULL};
    memcpy(items[n].box, d->boxes + 4 * i, sizeof items[n].box);
    n++;
  }
  OD_GO(st, od_font_open(&font, od_font_pixels(image), r));
  st = od_draw(image, items, n, THICKNESS, font);
done:
  od_font_free(font);
  od_free(items);
  od_free(texts);
  return st;
}

od_status od_draw_detections(od_image *image, const od_detections *d, const od_label_map *labels, float min_score, int max_boxes,
                             const od_reporter *r) {
  return draw(image, d, labels, min_score, max_boxes, (label_style){false, false}, NULL, r);
}

static od_status copy_image(od_image *out, const od_image *in) {
  OD_TRY(od_image_new(out, in->height, in->width, in->channels));
  memcpy(out->data, in->data, (size_t)in->height * (size_t)in->width * (size_t)in->channels);
  return OD_OK;
}

/* The groundtruth as something to draw, in the frame of the original picture. Caller frees boxes. */
static od_status truth_boxes(od_detections *out, const od_picture *s, int input_height, int input_width) {
  const od_truth *t = &s->truth;
  *out = (od_detections){.n = t->count, .classes = t->classes};
  OD_TRY(od_new(&out->boxes, (size_t)t->count * 4 + 4, sizeof *out->boxes));
  float y = (float)input_height / (float)s->true_height, x = (float)input_width / (float)s->true_width;
  for (int i = 0; i < 4 * t->count; i++) out->boxes[i] = t->boxes[i] * (i % 2 ? x : y);
  return OD_OK;
}

static od_status write_png(const char *folder, const char *name, const od_str *png) {
  char *path;
  OD_TRY(od_path_make_dirs(folder));
  OD_TRY(od_path_join(&path, folder, name));
  od_status st = od_file_write_all(path, png->data, png->len);
  od_free(path);
  return st;
}

/* Encodes and hands out: event file, eval_dir/pictures, visualization_export_dir. */
static od_status publish(od_eval_pictures *p, od_str *summary, const od_image *image, const od_picture *s) {
  char tag[96], name[320];
  od_str png = OD_STR_INIT;
  bool legacy = p->style == OD_EVAL_LEGACY;
  const char *export_dir = p->config->visualization_export_dir;
  od_status st = od_png_encode(&png, image);
  snprintf(tag, sizeof tag, legacy ? "image-%u" : "Detections_Left_Groundtruth_Right/%u/0", p->drawn);
  if (st == OD_OK) {
    od_summary_add_image(summary, tag, image->height, image->width, 3, (od_view){(const unsigned char *)png.data, png.len}, legacy);
    snprintf(name, sizeof name, "image-%u.png", p->drawn);
    st = write_png(p->folder, name, &png);
  }
  if (st == OD_OK && export_dir && *export_dir) {
    if (p->config->keep_image_id_for_visualization_export) snprintf(name, sizeof name, "export-image-%u-%.200s.png", p->drawn, s->source_id);
    else snprintf(name, sizeof name, "export-image-%u.png", p->drawn);
    for (char *c = name; *c; c++)
      if (*c == '/') *c = '_';
    st = write_png(export_dir, name, &png);
  }
  od_str_free(&png);
  return st;
}

static od_status publish_chart(od_eval_pictures *p, od_str *summary, const char *name, const od_image *image) {
  char tag[128], file[128];
  od_str png = OD_STR_INIT;
  od_status st = od_png_encode(&png, image);
  snprintf(tag, sizeof tag, "Charts/%s", name);
  snprintf(file, sizeof file, "%s.png", name);
  if (st == OD_OK) {
    od_summary_add_image(summary, tag, image->height, image->width, 3, (od_view){(const unsigned char *)png.data, png.len}, false);
    st = write_png(p->folder, file, &png);
  }
  od_str_free(&png);
  return st;
}

/* One chart for each family that has curves; they stand family by family. */
static od_status curve_charts(od_eval_pictures *p, od_str *summary, const od_eval *ev, od_font *font) {
  const char *last = "";
  for (size_t i = 0; i < od_eval_curve_count(ev); i++) {
    const char *family = od_eval_curve_at(ev, i)->metric;
    char name[96];
    od_image image = {0};
    if (strcmp(family, last) == 0) continue;
    last = family;
    snprintf(name, sizeof name, "pr_%s", family);
    OD_TRY(od_eval_chart_curves(&image, ev, family, font));
    od_status st = publish_chart(p, summary, name, &image);
    od_image_free(&image);
    OD_TRY(st);
  }
  return OD_OK;
}

od_status od_eval_pictures_charts(od_eval_pictures *p, od_str *summary, const od_eval *ev) {
  enum { CHART_TEXT = 12 };
  od_font *font;
  od_image image = {0};
  OD_TRY(od_font_open(&font, CHART_TEXT, p->reporter));
  od_status st = curve_charts(p, summary, ev, font);
  size_t k;
  if (st == OD_OK && od_eval_confusion(ev, &k)) {
    st = od_eval_chart_confusion(&image, ev, font);
    if (st == OD_OK) st = publish_chart(p, summary, "confusion", &image);
    od_image_free(&image);
  }
  od_font_free(font);
  return st;
}

od_status od_eval_pictures_add(od_eval_pictures *p, od_str *summary, const od_picture *s, const od_detections *d, int input_height, int input_width) {
  if (p->drawn >= p->config->num_visualizations || !s->pixels.data) return OD_OK;
  od_image left = {0}, right = {0}, both = {0};
  od_detections truth = {0};
  od_status st;
  const od_pb_eval *c = p->config;
  label_style style = {c->skip_scores, c->skip_labels};
  od_colour black = {0, 0, 0};
  const char *colour = c->groundtruth_box_visualization_color;
  if (colour && !od_colour_by_name(&black, colour)) OD_GO(st, od_fail(OD_EINVAL, "eval_config.groundtruth_box_visualization_color: there is no colour '%s'", colour));
  OD_GO(st, copy_image(&left, &s->pixels));
  OD_GO(st, truth_boxes(&truth, s, input_height, input_width));
  if (p->style == OD_EVAL_LEGACY && c->visualize_groundtruth_boxes)
    OD_GO(st, draw(&left, &truth, p->labels, 0, 0, (label_style){true, true}, &black, p->reporter));
  OD_GO(st, draw(&left, d, p->labels, c->min_score_threshold, c->max_num_boxes_to_visualize, style, NULL, p->reporter));
  if (p->style == OD_EVAL_LEGACY) {
    OD_GO(st, publish(p, summary, &left, s));
  } else {
    OD_GO(st, copy_image(&right, &s->pixels));
    OD_GO(st, draw(&right, &truth, p->labels, 0, 0, style, NULL, p->reporter));
    OD_GO(st, od_side_by_side(&both, &left, &right));
    OD_GO(st, publish(p, summary, &both, s));
  }
  p->drawn++;
done:
  od_free(truth.boxes);
  od_image_free(&left);
  od_image_free(&right);
  od_image_free(&both);
  return st;
}
