/* objdet: finding objects in pictures with a trained detector, from C.
 *
 *     objdet_detector *d;
 *     objdet_picture p;
 *     if (objdet_open_graph(&d, "exported/", "label_map.pbtxt", NULL)) puts(objdet_message());
 *     objdet_load_picture(&p, "photo.jpg");
 *     objdet_detect(d, &p, &found);
 *
 * Functions that can fail return 0 when all went well; otherwise objdet_message() says in one line what is wrong and what was
 * expected. A detector is used by one thread at a time; several detectors may run side by side. Nothing is printed. Link with
 * `pkg-config --cflags --libs objdet`. */
#ifndef OBJDET_H
#define OBJDET_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of the library, "major.minor.patch". */
const char *objdet_version(void);

/* What went wrong in this thread's last call that failed. Valid until the next failure; never NULL. */
const char *objdet_message(void);

/* ---------------------------------------------------------------------------------------------------------- detectors */
typedef struct objdet_detector objdet_detector;

/* All zero (or a NULL pointer) means the defaults. */
typedef struct {
  int threads;           /* of a detector from a checkpoint; 0: as many as processors */
  const char *precision; /* of the same: "fp32", "bf16", "auto"; NULL: auto */
} objdet_options;

/* Opens an exported model: a frozen graph, a SavedModel, or the directory that an export left; ours or the original's.
 * label_map (.pbtxt) gives classes their names; NULL: they have none. The caller closes *out. */
int objdet_open_graph(objdet_detector **out, const char *path, const char *label_map, const objdet_options *options);

/* Opens a training checkpoint ("train/model.ckpt-4000", or a folder: its newest one) together with its pipeline.config. Only
 * the model section of the config is read. The caller closes *out. */
int objdet_open_checkpoint(objdet_detector **out, const char *pipeline_config, const char *checkpoint,
                           const char *label_map, const objdet_options *options);

/* Frees the detector and all that it handed out; NULL is fine. */
void objdet_close(objdet_detector *d);

/* ----------------------------------------------------------------------------------------------------------- pictures */
/* Rows from the top, red, green, blue, a byte each, without gaps. May point to memory of your own. */
typedef struct {
  uint8_t *rgb; /* [height, width, 3] */
  int height, width;
} objdet_picture;

/* Decodes a JPEG, PNG, BMP or GIF, as TensorFlow would. The caller frees with objdet_free_picture. */
int objdet_load_picture(objdet_picture *out, const char *path);
/* The same from memory. */
int objdet_decode_picture(objdet_picture *out, const void *bytes, size_t size);
/* Frees what the two functions above made; not for memory of your own. */
void objdet_free_picture(objdet_picture *p);

/* ---------------------------------------------------------------------------------------------------------- detection */
typedef struct {
  float ymin, xmin, ymax, xmax; /* 0..1 of the picture's height and width */
  float score;                  /* 0..1 */
  int class_id;                 /* as in the label map, from 1 */
  const char *class_name;       /* from the label map; "" when it has no such id */
} objdet_box;

typedef struct {
  size_t count;
  const objdet_box *boxes; /* best first */
} objdet_found;

/* Looks at one picture of any size. What is in *out belongs to the detector and holds until its next call. All detections that
 * the model gives come, those with hardly any score too: choose a threshold, 0.5 say. */
int objdet_detect(objdet_detector *d, const objdet_picture *picture, objdet_found *out);

#ifdef __cplusplus
}
#endif
#endif
