/* Parts of the input pipeline: what is done to one picture's ground truth, and making tensors of samples. */
#ifndef OD_DATA_PIPELINE_PARTS_H
#define OD_DATA_PIPELINE_PARTS_H

#include "data/pipeline.h"

/* Refuses what cannot be meant, and options of the reader that are not there yet, by name. */
OD_MUST_CHECK od_status od_check_input_options(const od_input_options *o);

/* Ids beyond num_classes (when positive) are an error that names box and id; so are scores for another number of classes. */
OD_MUST_CHECK od_status od_check_truth(const od_truth *t, const od_input_options *o);
/* Drops boxes with NaN coordinates and of unknown classes, as the original does before augmentation. */
OD_MUST_CHECK od_status od_drop_unusable(od_truth *t);
/* ymax >= ymin and xmax >= xmin, or an error that names the box. */
OD_MUST_CHECK od_status od_check_boxes(const od_truth *t);
/* Coordinates relative to height x width become relative to a frame that continues to out_height x out_width. */
void od_reframe(od_truth *t, int height, int width, int out_height, int out_width);

/* Frees the samples; the tensors' memory stays for the next batch. */
void od_batch_clear(od_batch *b);
/* Fills the tensors of a batch from its samples. */
OD_MUST_CHECK od_status od_batch_assemble(od_batch *b, const od_input_options *o);

#endif
