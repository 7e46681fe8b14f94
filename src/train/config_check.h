/* What is wrong with a config, before anything is trained: one list for `check` and for the runs that refuse early. */
#ifndef OD_TRAIN_CONFIG_CHECK_H
#define OD_TRAIN_CONFIG_CHECK_H

#include "base/report.h"
#include "data/label_map.h"
#include "model/fields.h"

typedef struct {
  const od_pipeline *pipeline;
  unsigned purposes; /* OD_FOR_...: which sections count */
  bool resuming;     /* fine_tune_checkpoint will not be read */
  bool whole;        /* builds the model, looks at schedule and augmentation too: what a run finds out by itself */
  const od_reporter *reporter; /* warnings: classes without a name */
  /* One thing that is wrong; text names field and line, code says what kind of trouble it is. */
  void (*found)(void *ctx, od_status code, const char *text);
  void *ctx;
} od_config_check_options;

/* Goes through the config: sections that are missing, fields that are not supported, paths that were never configured or lead
 * nowhere, both names of the pets' records at once, label maps that do not fit num_classes. What is wrong goes to `found`;
 * a status other than OD_OK is trouble of our own (memory). */
OD_MUST_CHECK od_status od_config_check(const od_config_check_options *o);

/* The first thing wrong as a failure; fields without effect are named in one line. For commands that train or evaluate, before
 * they touch anything; those that only use a model call od_fields_check. */
OD_MUST_CHECK od_status od_config_require(const od_pipeline *p, unsigned purposes, bool resuming, const od_reporter *r);

/* "pets.config:152: train_input_reader.label_map_path", or without the place where it is not known, into text. */
void od_config_place(char *text, size_t size, const od_pipeline *p, const void *message, const char *section,
                     const char *field, size_t index);

#endif
