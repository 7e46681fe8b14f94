/* Placeholder table, filled below. */
#include "data/augment_steps.h"

const od_step od_steps_pad[] = {{0, NULL, NULL}};
