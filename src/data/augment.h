/* Data augmentation: the config's data_augmentation_options, in their order (odapi 2.5).
 *
 * Each step is a pure function of (key, picture, ground truth): the key is made of seed, epoch, record, the step's place in
 * the list and its name, so that order of threads and restarts change nothing. Semantics are the original's, draws are
 * ours: same distributions, other numbers. */
#ifndef OD_DATA_AUGMENT_H
#define OD_DATA_AUGMENT_H

#include "base/rng.h"
#include "data/sample.h"
#include "io/proto/preprocessor.pb-c.h"

typedef struct od_augment od_augment;

/* Takes over copies of the steps and checks them. OD_EINVAL: a step without kind or with parameters that cannot be meant;
 * OD_EUNSUPPORTED: a step that is not there, by name. Steps are never skipped. The caller frees with od_augment_free. */
OD_MUST_CHECK od_status od_augment_new(od_augment **out, ObjectDetection__Protos__PreprocessingStep *const *steps,
                                       size_t n);
void od_augment_free(od_augment *a);
size_t od_augment_count(const od_augment *a);
/* Name of step i as in the config. Borrowed. */
const char *od_augment_name(const od_augment *a, size_t i);

/* Does all steps on s->image (floats) and s->truth. Thread-safe. */
OD_MUST_CHECK od_status od_augment_apply(const od_augment *a, od_picture *s, od_key key);

#endif
