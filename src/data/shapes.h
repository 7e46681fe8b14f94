/* Pictures of shapes, drawn: a data set that anybody can make again to the bit, for first steps and for tests.
 *
 * Six classes (disc, square, triangle, star, cross, ring), turned by any angle, plain, striped, dotted, checked or blotched, one
 * to six a picture, overlapping, on varied backgrounds. Colours and textures are drawn without looking at the class, so what
 * tells classes apart is form alone. Every picture is a pure function of (seed, number). */
#ifndef OD_DATA_SHAPES_H
#define OD_DATA_SHAPES_H

#include "base/report.h"
#include "image/image.h"

enum { OD_SHAPE_CLASSES = 6, OD_SHAPES_MAX = 6 /* a picture */ };

/* Name of class id 1..OD_SHAPE_CLASSES. */
const char *od_shape_name(int id);

typedef struct {
  int id;                     /* class, from 1 */
  int xmin, ymin, xmax, ymax; /* what is visible of it: edges in pixels, xmax and ymax one past the last */
  bool occluded;              /* another shape hides a part */
} od_shape_truth;

/* Draws picture `number` of a seed: RGB, 192 to 256 pixels a side. Each shape's box is 10 to 60 % of the picture's sides and at
 * least 60 % of its area is visible. Thread-safe. The caller frees out with od_image_free. */
OD_MUST_CHECK od_status od_shapes_draw(od_image *out, od_shape_truth truth[OD_SHAPES_MAX], int *count, uint64_t seed,
                                       uint64_t number);

typedef struct {
  const char *output_dir; /* made when missing; what is there is overwritten by name */
  int64_t count, held_out_count;
  uint64_t seed, held_out_seed;
  int threads; /* <= 0: all */
  const od_reporter *reporter;
} od_shapes_options;

/* Writes output_dir/images/<name>.jpg and annotations/<name>.xml (Pascal VOC), label_map.pbtxt, and the lists train.txt and
 * held_out.txt of names (train_00001 ..., held_out_00001 ...). OD_EINVAL: counts below 1, or the same seed twice. */
OD_MUST_CHECK od_status od_shapes_create(const od_shapes_options *options);

#endif
