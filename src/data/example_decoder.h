/* tf.Example to picture and ground truth (odapi 2.2). */
#ifndef OD_DATA_EXAMPLE_DECODER_H
#define OD_DATA_EXAMPLE_DECODER_H

#include "data/label_map.h"
#include "data/sample.h"
#include "io/example.h"

typedef enum { OD_MASKS_NONE, OD_MASKS_NUMERICAL, OD_MASKS_PNG } od_mask_kind;

typedef struct {
  const od_label_map
      *labels; /* NULL: class/label counts; else class/text by name, class/label where there is no text */
  od_mask_kind masks;
  int num_keypoints; /* 0: none are read */
  bool multiclass_scores;
  bool expand_hierarchy; /* each box again for every ancestor of its class in the label map */
  bool header_only;      /* size from the picture's header, no pixels: for counting and checking */
} od_decode_options;

/* Parses a serialized Example with ex (reused memory) and decodes it into *out: pixels (uint8 RGB), truth, names. image
 * (floats) stays empty. Missing keys take the original's defaults: weights 1, flags 0, area 0. A class text that the label
 * map does not know gives -1.
 *
 * OD_EDATA: no Example, no or a damaged picture, lists of unequal length, numbers of the wrong kind; the message names
 * the key and both lengths. The caller frees *out with od_picture_free, after an error too. */
OD_MUST_CHECK od_status od_example_decode(od_picture *out, od_example *ex, const void *bytes, size_t size,
                                          const od_decode_options *options);

#endif
