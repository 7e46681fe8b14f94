/* Tickets, threads and the ring. One lock guards all of it; decoding happens outside. */
#include "data/pipeline.h"

#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "base/parallel.h"
#include "data/pipeline_parts.h"
#include "io/file.h"

typedef enum { SLOT_FREE, SLOT_BUSY, SLOT_READY } slot_state;

typedef struct {
  slot_state state;
  od_status status;
  char *message; /* of a failure; od_alloc */
  od_picture sample;
} slot;

/* What one decode thread keeps between pictures. */
typedef struct {
  od_example example;
  od_str payload;
} workspace;

struct od_input_queue {
  od_input_options o;
  od_label_map *own_labels;
  od_records *records;
  od_augment *augment;
  od_decode_options decode;
  od_key key;
  uint64_t end; /* ticket behind the last one; UINT64_MAX: endless */

  pthread_mutex_t lock;
  pthread_cond_t room, ready;
  bool stop, locks_made;
  uint64_t next;  /* ticket the next thread takes */
  uint64_t taken; /* ticket the consumer waits for */
  uint64_t skipped, skipped_in_a_row;
  slot *ring;
  uint64_t ring_size;
  pthread_t *threads;
  int thread_count;
};

/* ------------------------------------------------------------------------------------------------------- one picture */
static od_status prepare_pixels(const od_input_queue *in, od_picture *s, od_key key) {
  od_truth *t = &s->truth;
  od_resizer_size size;
  od_fimage resized;
  int h = s->pixels.height, w = s->pixels.width;
  const void *pixels = s->pixels.data;
  od_dtype dtype = OD_U8;
  if (od_augment_count(in->augment) > 0) {
    OD_TRY(od_fimage_from_u8(&s->image, &s->pixels));
    OD_TRY(od_augment_apply(in->augment, s, key));
    if (s->image.channels != 3)
      return od_fail(OD_EUNSUPPORTED, "augmentation left %d channels; the network takes 3", s->image.channels);
    h = s->image.height;
    w = s->image.width;
    pixels = s->image.data;
    dtype = OD_F32;
  }
  OD_TRY(od_resizer_apply(&resized, &size, &in->o.resizer, pixels, dtype, h, w));
  od_fimage_free(&s->image);
  s->image = resized;
  s->true_height = size.height;
  s->true_width = size.width;
  if (t->masks) {
    uint8_t *masks;
    OD_TRY(od_resizer_apply_masks(&masks, &in->o.resizer, t->masks, t->count, t->mask_height, t->mask_width));
    od_free(t->masks);
    t->masks = masks;
    t->mask_height = size.out_height;
    t->mask_width = size.out_width;
  }
  od_reframe(t, size.height, size.width, size.out_height, size.out_width);
  if (!in->o.keep_original) od_image_free(&s->pixels);
  return OD_OK;
}

static od_status make_sample(const od_input_queue *in, od_picture *s, workspace *w, const od_record_place *place,
                             uint64_t ticket) {
  const char *path = od_records_path(in->records, place->file);
  od_str origin = OD_STR_INIT;
  od_status st = od_example_decode(s, &w->example, w->payload.data, w->payload.len, &in->decode);
  od_str_addf(&origin, "%s: record %llu", path, (unsigned long long)place->number);
  if (s->source_id && s->source_id[0]) od_str_addf(&origin, " (%s)", s->source_id);
  s->origin = od_str_take(&origin);
  s->ticket = ticket;
  if (!s->origin) return OD_ENOMEM;
  uint64_t epoch = ticket / od_records_count(in->records);
  od_key key = od_key_mix(od_key_mix(od_key_mix(od_key_mix(in->key, in->o.seed), epoch), place->file), place->number);
  if (st == OD_OK) st = od_check_truth(&s->truth, &in->o);
  if (st == OD_OK) st = od_drop_unusable(&s->truth);
  if (st == OD_OK) st = prepare_pixels(in, s, key);
  if (st == OD_OK) st = od_check_boxes(&s->truth);
  return od_fail_context(st, "%s", s->origin);
}

static od_status fetch(const od_input_queue *in, workspace *w, od_record_place *place, uint64_t ticket) {
  OD_TRY(od_records_place(place, in->records, ticket));
  return od_records_read(in->records, place, &w->payload);
}

od_status od_input_sample(od_input_queue *in, od_picture *out, uint64_t ticket) {
  workspace w = {0};
  od_record_place place;
  memset(out, 0, sizeof *out);
  if (od_records_sequential(in->records))
    return od_fail(OD_EUNSUPPORTED, "single pictures of compressed record files cannot be asked for");
  od_status st = fetch(in, &w, &place, ticket);
  if (st == OD_OK) st = make_sample(in, out, &w, &place, ticket);
  od_example_free(&w.example);
  od_str_free(&w.payload);
  return st;
}

/* ----------------------------------------------------------------------------------------------------------- threads */
/* Waits for a ticket to work on; false: stop. Sequential records are read here, under the lock, so that they come in
 * order. */
static bool take_ticket(od_input_queue *in, workspace *w, od_record_place *place, uint64_t *ticket, od_status *st) {
  pthread_mutex_lock(&in->lock);
  while (!in->stop && (in->next >= in->end || in->next >= in->taken + in->ring_size))
    pthread_cond_wait(&in->room, &in->lock);
  bool go = !in->stop;
  if (go) {
    *ticket = in->next++;
    in->ring[*ticket % in->ring_size].state = SLOT_BUSY;
    *st = od_records_sequential(in->records) ? od_records_next(in->records, *ticket, place, &w->payload) : OD_OK;
  }
  pthread_mutex_unlock(&in->lock);
  return go;
}

static void *work(void *arg) {
  od_input_queue *in = arg;
  workspace w = {0};
  od_record_place place;
  uint64_t ticket;
  od_status st;
  while (take_ticket(in, &w, &place, &ticket, &st)) {
    slot *s = &in->ring[ticket % in->ring_size];
    if (st == OD_OK && !od_records_sequential(in->records)) st = fetch(in, &w, &place, ticket);
    if (st == OD_OK) st = make_sample(in, &s->sample, &w, &place, ticket);
    s->message = st == OD_OK ? NULL : od_strdup(od_message());
    pthread_mutex_lock(&in->lock);
    s->status = st;
    s->state = SLOT_READY;
    pthread_cond_broadcast(&in->ready);
    pthread_mutex_unlock(&in->lock);
  }
  od_example_free(&w.example);
  od_str_free(&w.payload);
  return NULL;
}

static void clear_slot(slot *s) {
  od_picture_free(&s->sample);
  od_free(s->message);
  memset(s, 0, sizeof *s);
}

/* The next slot's content into *sample, in order. OD_END behind the last ticket. */
static od_status take_slot(od_input_queue *in, od_picture *sample) {
  od_status st = OD_OK;
  pthread_mutex_lock(&in->lock);
  if (in->taken >= in->end) {
    pthread_mutex_unlock(&in->lock);
    return OD_END;
  }
  slot *s = &in->ring[in->taken % in->ring_size];
  while (s->state != SLOT_READY) pthread_cond_wait(&in->ready, &in->lock);
  st = s->status;
  if (st == OD_OK) {
    *sample = s->sample;
    memset(&s->sample, 0, sizeof s->sample);
  } else {
    st = od_fail_take(st, s->message ? s->message : "out of memory");
  }
  clear_slot(s);
  in->taken++;
  pthread_cond_broadcast(&in->room);
  pthread_mutex_unlock(&in->lock);
  return st;
}

/* take_slot, past bad records if these are to be skipped. */
static od_status next_sample(od_input_queue *in, od_picture *sample) {
  for (;;) {
    od_status st = take_slot(in, sample);
    if (st == OD_OK) in->skipped_in_a_row = 0;
    if (st != OD_EDATA || in->o.on_bad != OD_BAD_SKIP) return st;
    in->skipped++;
    od_warn(in->o.reporter, "skipped (%llu so far): %s", (unsigned long long)in->skipped, od_message());
    if (++in->skipped_in_a_row >= od_records_count(in->records)) {
      od_fail_context(st, "all %llu records were bad, the last one", (unsigned long long)in->skipped_in_a_row);
      return st;
    }
  }
}

od_status od_input_next(od_input_queue *in, od_batch *out) {
  od_batch_clear(out);
  od_free(out->samples);
  out->samples = NULL;
  OD_TRY(od_new(&out->samples, (size_t)in->o.batch_size, sizeof *out->samples));
  od_status st = OD_OK;
  while (out->count < in->o.batch_size && (st = next_sample(in, &out->samples[out->count])) == OD_OK) out->count++;
  if (st == OD_END && out->count > 0 && in->o.partial_batch) st = OD_OK;
  if (st == OD_OK) st = od_batch_assemble(out, &in->o);
  if (st != OD_OK) od_batch_free(out);
  return st;
}

/* ---------------------------------------------------------------------------------------------------------- questions */
uint64_t od_input_position(const od_input_queue *in) { return in->taken; }
uint64_t od_input_count(const od_input_queue *in) { return od_records_count(in->records); }
uint64_t od_input_skipped(const od_input_queue *in) { return in->skipped; }
uint64_t od_input_fingerprint(const od_input_queue *in) { return od_records_fingerprint(in->records); }
const od_label_map *od_input_labels(const od_input_queue *in) { return in->decode.labels; }

int od_input_upcoming(od_input_queue *in, od_input_shape *out, int max) {
  int n = 0, batch = in->o.batch_size;
  pthread_mutex_lock(&in->lock);
  for (uint64_t t = in->taken; n < max && t + (uint64_t)batch <= in->taken + in->ring_size; t += (uint64_t)batch) {
    od_input_shape shape = {0, 0};
    int ready = 0;
    for (int i = 0; i < batch; i++) {
      const slot *s = &in->ring[(t + (uint64_t)i) % in->ring_size];
      if (s->state != SLOT_READY || s->status != OD_OK) break;
      if (s->sample.image.height > shape.height) shape.height = s->sample.image.height;
      if (s->sample.image.width > shape.width) shape.width = s->sample.image.width;
      ready++;
    }
    if (ready < batch) break;
    out[n++] = shape;
  }
  pthread_mutex_unlock(&in->lock);
  return n;
}

/* ----------------------------------------------------------------------------------------------------------- opening */
static od_status open_records(od_input_queue *in) {
  const ObjectDetection__Protos__InputReader *reader = in->o.reader;
  od_records_options ro = {
      .shuffle = in->o.shuffle < 0 ? reader->shuffle : in->o.shuffle > 0,
      .seed = in->o.seed,
      .sample_1_of_n = in->o.sample_1_of_n ? in->o.sample_1_of_n : reader->sample_1_of_n_examples,
      .window = reader->shuffle_buffer_size,
      .reporter = in->o.reporter,
  };
  OD_TRY(od_records_open(&in->records, (const char *const *)reader->tf_record_input_reader->input_path,
                         reader->tf_record_input_reader->n_input_path, &ro));
  uint64_t epochs = in->o.epochs < 0 ? reader->num_epochs : (uint64_t)in->o.epochs;
  in->end = epochs == 0 ? UINT64_MAX : epochs * od_records_count(in->records);
  return OD_OK;
}

static od_status open_labels(od_input_queue *in) {
  const ObjectDetection__Protos__InputReader *reader = in->o.reader;
  in->decode.labels = in->o.labels;
  if (in->o.labels || !reader->label_map_path || !reader->label_map_path[0]) return OD_OK;
  if (strstr(reader->label_map_path, "PATH_TO_BE_CONFIGURED"))
    return od_fail(OD_EINVAL, "label_map_path still is '%s': replace PATH_TO_BE_CONFIGURED by its folder",
                   reader->label_map_path);
  OD_TRY(od_label_map_load(&in->own_labels, reader->label_map_path));
  in->decode.labels = in->own_labels;
  return OD_OK;
}

static od_status start_threads(od_input_queue *in) {
  int n = in->o.threads > 0 ? in->o.threads : od_cpu_count();
  pthread_mutex_init(&in->lock, NULL);
  pthread_cond_init(&in->room, NULL);
  pthread_cond_init(&in->ready, NULL);
  in->locks_made = true;
  OD_TRY(od_new(&in->threads, (size_t)n, sizeof *in->threads));
  for (; in->thread_count < n; in->thread_count++)
    if (pthread_create(&in->threads[in->thread_count], NULL, work, in) != 0) {
      if (in->thread_count > 0) break; /* fewer do as well */
      return od_fail(OD_ENOMEM, "no thread for reading records could be started");
    }
  return OD_OK;
}

od_status od_input_open(od_input_queue **out, const od_input_options *options) {
  od_input_queue *in = NULL;
  od_status st = OD_OK;
  *out = NULL;
  OD_TRY(od_check_input_options(options));
  OD_TRY(od_new(&in, 1, sizeof *in));
  in->o = *options;
  const ObjectDetection__Protos__InputReader *reader = options->reader;
  if (in->o.max_boxes <= 0) in->o.max_boxes = reader->max_number_of_boxes > 0 ? reader->max_number_of_boxes : 100;
  in->key = od_key_name(0, "augmentation");
  in->decode.num_keypoints = (int)reader->num_keypoints;
  in->decode.multiclass_scores = reader->load_multiclass_scores;
  in->decode.expand_hierarchy = reader->expand_labels_hierarchy;
  if (reader->load_instance_masks)
    in->decode.masks = reader->mask_type == OBJECT_DETECTION__PROTOS__INSTANCE_MASK_TYPE__PNG_MASKS
                           ? OD_MASKS_PNG
                           : OD_MASKS_NUMERICAL;
  OD_GO(st, open_labels(in));
  OD_GO(st, open_records(in));
  OD_GO(st, od_augment_new(&in->augment, options->augmentation, options->augmentation_count));
  in->next = in->taken = options->start;
  in->ring_size = (uint64_t)(options->queue > 0 ? options->queue : 4 * options->batch_size);
  if (options->queue <= 0 && in->ring_size < 16) in->ring_size = 16;
  if (in->ring_size < (uint64_t)options->batch_size) in->ring_size = (uint64_t)options->batch_size;
  OD_GO(st, od_new(&in->ring, in->ring_size, sizeof *in->ring));
  OD_GO(st, start_threads(in));
  in->o.reader = NULL; /* borrowed until here only */
  in->o.augmentation = NULL;
  *out = in;
done:
  if (st != OD_OK) od_input_free(in);
  return st;
}

void od_input_free(od_input_queue *in) {
  if (!in) return;
  if (in->locks_made) {
    pthread_mutex_lock(&in->lock);
    in->stop = true;
    pthread_cond_broadcast(&in->room);
    pthread_mutex_unlock(&in->lock);
    for (int i = 0; i < in->thread_count; i++) pthread_join(in->threads[i], NULL);
    pthread_mutex_destroy(&in->lock);
    pthread_cond_destroy(&in->room);
    pthread_cond_destroy(&in->ready);
  }
  for (uint64_t i = 0; in->ring && i < in->ring_size; i++) clear_slot(&in->ring[i]);
  od_free(in->ring);
  od_free(in->threads);
  od_augment_free(in->augment);
  od_records_free(in->records);
  od_label_map_free(in->own_labels);
  od_free(in);
}
