/* The input pipeline: records to batches, on several threads, in an order that depends on the seed alone.
 *
 * Ticket t is place t % count of epoch t / count. Decode threads take tickets in order, work in any order, and deliver by
 * ticket into a bounded ring; the consumer takes them in order. A run that stopped at ticket t and starts again there sees
 * the same pictures, augmented the same way. */
#ifndef OD_DATA_PIPELINE_H
#define OD_DATA_PIPELINE_H

#include "base/report.h"
#include "base/tensor.h"
#include "data/augment.h"
#include "data/example_decoder.h"
#include "data/records.h"
#include "image/resizer.h"
#include "io/proto/pipeline.pb-c.h"

typedef enum { OD_BAD_STOP, OD_BAD_SKIP } od_on_bad;

typedef struct {
  const ObjectDetection__Protos__InputReader *reader; /* paths, label map, shuffle, num_epochs, masks, ...; borrowed
                                                          while od_input_open runs */
  const od_label_map *labels; /* borrowed for the input's life; NULL: loaded from reader->label_map_path, if given */
  ObjectDetection__Protos__PreprocessingStep *const *augmentation; /* NULL: none; copied */
  size_t augmentation_count;
  od_resizer resizer;
  int num_classes;            /* for class_targets; ids above it are an error */
  int batch_size;             /* >= 1 */
  bool partial_batch;         /* the last batch may be smaller (evaluation); else what is left over is dropped */
  int max_boxes;              /* rows of the box tensors; 0: the reader's max_number_of_boxes */
  bool clip_boxes;            /* model_main: boxes beyond max_boxes are cut off; else rows double until all fit */
  bool merge_multiple_boxes;  /* equal boxes of several classes become one row with several ones */
  bool use_multiclass_scores; /* class_targets are the record's scores */
  bool keep_original;         /* samples keep their decoded pixels (drawing, evaluation) */
  int shuffle;                /* -1: as the reader says, 0 no, 1 yes */
  int64_t epochs;             /* -1: as the reader says, 0: endless */
  uint64_t sample_1_of_n;     /* 0: as the reader says */
  uint64_t seed;
  uint64_t start; /* ticket to begin at: od_input_position of an earlier run */
  int threads;    /* <= 0: od_cpu_count() */
  int queue;      /* pictures decoded ahead; 0: 4 batches, at least 16 */
  od_on_bad on_bad;
  const od_reporter *reporter; /* skipped records are warned of; borrowed */
} od_input_options;

typedef struct od_input_queue od_input_queue;

/* Opens and starts the threads. Errors: of the reader (no path, PATH_TO_BE_CONFIGURED), the records, the label map, the
 * augmentation; options of the reader that are not there yet are refused by name. The caller frees with od_input_free,
 * which stops the threads. */
OD_MUST_CHECK od_status od_input_open(od_input_queue **out, const od_input_options *options);
void od_input_free(od_input_queue *in);

/* What a batch is made of. Tensors belong to the batch; N pictures, M rows of boxes, K classes. */
typedef struct {
  int count;               /* N */
  od_picture *samples;     /* [N] names, ground truth after augmentation in the frame of the (padded) network input */
  od_tensor images;        /* f32 [N, H, W, C] resized, 0..255, nothing subtracted; padding at the bottom and right */
  od_tensor true_shapes;   /* i32 [N, 3] height, width, channels without padding */
  od_tensor num_boxes;     /* i32 [N] */
  od_tensor boxes;         /* f32 [N, M, 4], normalised to H x W */
  od_tensor classes;       /* i32 [N, M] from 0, -1 in padding */
  od_tensor class_targets; /* f32 [N, M, K] one-hot (or several ones, or scores), 0 in padding */
  od_tensor weights;       /* f32 [N, M], 0 in padding */
  od_tensor masks;         /* f32 [N, M, H, W]; data NULL unless masks are loaded */
  od_tensor keypoints;     /* f32 [N, M, P, 2]; data NULL without keypoints */
  od_tensor visibilities;  /* f32 [N, M, P]; the same */
} od_batch;

/* Takes the next batch; *out is overwritten, its earlier memory freed or used again (start from zeroes). Pictures of different sizes
 * in one batch are padded with zeroes to the largest. OD_END: all epochs are done. A bad record is an error that names
 * file and record, or is skipped and counted. */
OD_MUST_CHECK od_status od_input_next(od_input_queue *in, od_batch *out);
void od_batch_free(od_batch *b);

/* Ticket of the first picture not yet delivered: save it, start there again. */
uint64_t od_input_position(const od_input_queue *in);
/* Pictures in one epoch. */
uint64_t od_input_count(const od_input_queue *in);
uint64_t od_input_skipped(const od_input_queue *in);
uint64_t od_input_fingerprint(const od_input_queue *in);
const od_label_map *od_input_labels(const od_input_queue *in);

typedef struct {
  int height, width; /* of the network input */
} od_input_shape;

/* Shapes of the batches that wait completely decoded behind the next one's beginning, at most max; how many. Plans for
 * them can be made ahead. Does not wait. */
int od_input_upcoming(od_input_queue *in, od_input_shape *out, int max);

/* One picture without threads and batches: ticket t, decoded, augmented, resized. For checks, previews and tests. The
 * caller frees *out with od_picture_free. */
OD_MUST_CHECK od_status od_input_sample(od_input_queue *in, od_picture *out, uint64_t ticket);

#endif
