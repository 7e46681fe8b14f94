/* objdet preview: what the training really sees. Augmented pictures with their boxes on a contact sheet. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/command.h"
#include "cli/common.h"
#include "eval/pictures.h"
#include "image/encode.h"
#include "io/file.h"

enum { GAP = 4 };

typedef struct {
  od_input_queue *input;
  od_image sheet;
  int columns, rows, cell; /* pixels of a cell's longer side */
  const od_reporter *r;
} session;

static od_status open_input(session *s, const od_args *a, const od_pipeline *p) {
  const od_pb_pipeline *c = p->config;
  const od_pb_train *t = OD_SET(c->train_config, TrainConfig);
  od_input_options in = {.reader = c->train_input_reader, .augmentation = t->data_augmentation_options, .augmentation_count = t->n_data_augmentation_options,
                         .num_classes = c->model ? (int)od_model_num_classes(c->model) : 0, .batch_size = 1, .partial_batch = true, .shuffle = -1, .epochs = -1,
                         .merge_multiple_boxes = t->merge_multiple_label_boxes, .use_multiclass_scores = t->use_multiclass_scores,
                         .seed = (uint64_t)od_arg_int(a, "seed"), .reporter = s->r};
  if (!c->train_input_reader || !c->model) return od_fail(OD_EINVAL, "preview wants a config with model and train_input_reader");
  OD_TRY(od_read_on_bad(&in.on_bad, a));
  OD_TRY(od_resizer_from_config(&in.resizer, od_model_resizer(c->model)));
  return od_input_open(&s->input, &in);
}

/* The network's input as a small picture with its boxes. */
static od_status small_picture(od_image *out, const session *s, const od_batch *b) {
  const float *x = b->images.data;
  int h = (int)b->images.shape.dim[1], w = (int)b->images.shape.dim[2], c = (int)b->images.shape.dim[3];
  double f = (double)s->cell / (h > w ? h : w);
  int sh = (int)(h * f) > 0 ? (int)(h * f) : 1, sw = (int)(w * f) > 0 ? (int)(w * f) : 1;
  OD_TRY(od_image_new(out, sh, sw, 3));
  for (int y = 0; y < sh; y++)
    for (int i = 0; i < sw; i++)
      for (int k = 0; k < 3; k++) {
        float v = x[((int64_t)(y * (int64_t)h / sh) * w + i * (int64_t)w / sw) * c + (c == 3 ? k : 0)];
        out->data[(y * sw + i) * 3 + k] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : lrintf(v));
      }
  const od_truth *t = &b->samples[0].truth;
  od_detections truth = {.n = t->count, .boxes = t->boxes, .classes = t->classes};
  return od_draw_detections(out, &truth, od_input_labels(s->input), 0, 0, s->r);
}

static od_status fill_cell(session *s, int i) {
  od_batch b = {0};
  od_image small = {0};
  od_status st;
  OD_GO(st, od_input_next(s->input, &b));
  OD_GO(st, small_picture(&small, s, &b));
  int top = i / s->columns * (s->cell + GAP), left = i % s->columns * (s->cell + GAP);
  for (int y = 0; y < small.height; y++)
    memcpy(s->sheet.data + ((size_t)(top + y) * (size_t)s->sheet.width + (size_t)left) * 3, small.data + (size_t)y * (size_t)small.width * 3, (size_t)small.width * 3);
done:
  od_image_free(&small);
  od_batch_free(&b);
  return st;
}

static od_status draw_sheet(session *s, const od_args *a, const od_pipeline *p) {
  od_str png = OD_STR_INIT;
  od_status st;
  OD_GO(st, open_input(s, a, p));
  OD_GO(st, od_image_new(&s->sheet, s->rows * (s->cell + GAP), s->columns * (s->cell + GAP), 3));
  memset(s->sheet.data, 255, (size_t)s->sheet.height * (size_t)s->sheet.width * 3);
  for (int i = 0; i < s->rows * s->columns; i++) {
    st = fill_cell(s, i);
    if (st == OD_END) break;
    if (st != OD_OK) goto done;
  }
  OD_GO(st, od_png_encode(&png, &s->sheet));
  OD_GO(st, od_file_write_all(od_arg_text(a, "output"), png.data, png.len));
  od_info(s->r, "%s: %d augmented pictures as the network gets them", od_arg_text(a, "output"), s->rows * s->columns);
done:
  od_str_free(&png);
  od_image_free(&s->sheet);
  od_input_free(s->input);
  return st;
}

static od_status run(const od_args *a, const od_reporter *r) {
  session s = {.columns = od_arg_int32(a, "columns"), .rows = od_arg_int32(a, "rows"), .cell = od_arg_int32(a, "cell"), .r = r};
  od_pipeline p;
  if (s.columns < 1 || s.rows < 1 || s.columns > 40 || s.rows > 40 || s.cell < 16 || s.cell > 1024)
    return od_fail(OD_EUSAGE, "preview: --rows and --columns are 1 to 40, --cell is 16 to 1024");
  OD_TRY(od_load_pipeline(&p, a));
  od_status st = draw_sheet(&s, a, &p);
  od_pipeline_free(&p);
  return st;
}

static const od_flag flags[] = {
    {"pipeline_config_path", OD_FLAG_TEXT, NULL, "the pipeline.config"},
    {"output", OD_FLAG_TEXT, "preview.png", "the contact sheet to write"},
    {"rows", OD_FLAG_INT, "4", "rows of pictures"},
    {"columns", OD_FLAG_INT, "6", "columns of pictures"},
    {"cell", OD_FLAG_INT, "240", "longer side of a picture on the sheet, pixels"},
    {"set", OD_FLAG_LIST, NULL, "path.in.config=value on top of the config; may be given several times"},
    {"seed", OD_FLAG_INT, "0", "seed of shuffling and augmentation, as of train"},
    {"on_bad_record", OD_FLAG_TEXT, "stop", "a damaged record or picture: stop, or skip and count"},
    {0},
};

const od_command od_cmd_preview = {"preview", "draws augmented training pictures on a contact sheet", NULL, flags, run};
