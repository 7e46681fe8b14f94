/* create_pet_tf_record: the Oxford-IIIT Pets as their archives unpack (images/, annotations/) to records (odapi 2.1). */
#ifndef OD_DATA_PETS_H
#define OD_DATA_PETS_H

#include "data/convert.h"

typedef struct {
  const char *data_dir; /* holds pictures in images/, and annotations/{trainval.txt, xmls/, trimaps/} */
  const char *output_dir;
  const char *label_map_path; /* NULL: data/pet_label_map.pbtxt */
  bool full_body;             /* boxes and masks from the trimaps; else the faces' boxes */
  bool numerical_masks;       /* masks as floats; else as PNGs */
  int num_shards; /* 0: pet_train.record and pet_val.record, the walkthrough's names; else the sharded names */
  int split;      /* 2: as Python 2 shuffled; else as Python 3 does */
  int threads;
  const od_reporter *reporter;
} od_pets_options;

/* Writes the training part (70 %, seed 42) and the validation part; out[0] and out[1] count them. Examples without XML and
 * damaged ones are named, skipped, counted. Masks need annotations/trimaps; faces do not (the original opens them all the
 * same). */
OD_MUST_CHECK od_status od_pets_create(od_convert_result out[2], const od_pets_options *options);

#endif
