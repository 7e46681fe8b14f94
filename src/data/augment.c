/* The list of steps of a config, found by their field number in the tables of augment_*.c. */
#include "data/augment.h"

#include <string.h>

#include "base/mem.h"
#include "data/augment_steps.h"
#include "io/protobuf.h"

typedef ObjectDetection__Protos__PreprocessingStep step_message;

typedef struct {
  step_message *message; /* our copy */
  const od_step *step;
  const void *parameters; /* inside message */
  const char *name;
} entry;

struct od_augment {
  entry *entries;
  size_t count;
};

static const od_step *find(int number) {
  const od_step *const tables[] = {od_steps_geometry, od_steps_crop,   od_steps_pad,   od_steps_colour,
                                   od_steps_truth,    od_steps_square, od_steps_policy};
  for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
    for (const od_step *s = tables[t]; s->number; s++)
      if (s->number == number) return s;
  return NULL;
}

static od_status make_entry(entry *e, const step_message *from, size_t i) {
  OD_TRY(od_proto_clone(&e->message, from));
  int number = (int)e->message->preprocessing_step_case;
  const ProtobufCMessageDescriptor *type = &object_detection__protos__preprocessing_step__descriptor;
  const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(type, (unsigned)number);
  if (number == 0 || !field) return od_fail(OD_EINVAL, "data_augmentation_options, number %zu, names no step", i + 1);
  e->name = field->name;
  e->parameters = *(void **)od_proto_at(e->message, field, 0);
  e->step = find(number);
  if (!e->step)
    return od_fail(OD_EUNSUPPORTED,
                   "data_augmentation_options: %s is not there yet; take it out of the config, it is not "
                   "skipped silently",
                   e->name);
  if (e->step->check) OD_TRY(od_fail_context(e->step->check(e->parameters), "data_augmentation_options: %s", e->name));
  return OD_OK;
}

od_status od_augment_new(od_augment **out, step_message *const *steps, size_t n) {
  od_augment *a = NULL;
  od_status st = OD_OK;
  *out = NULL;
  OD_TRY(od_new(&a, 1, sizeof *a));
  OD_GO(st, od_new(&a->entries, n ? n : 1, sizeof *a->entries));
  a->count = n;
  for (size_t i = 0; i < n; i++) OD_GO(st, make_entry(&a->entries[i], steps[i], i));
  *out = a;
done:
  if (st != OD_OK) od_augment_free(a);
  return st;
}

void od_augment_free(od_augment *a) {
  if (!a) return;
  for (size_t i = 0; i < a->count; i++) od_proto_free(a->entries[i].message);
  od_free(a->entries);
  od_free(a);
}

size_t od_augment_count(const od_augment *a) { return a->count; }
const char *od_augment_name(const od_augment *a, size_t i) { return a->entries[i].name; }

od_status od_augment_apply(const od_augment *a, od_picture *s, od_key key) {
  for (size_t i = 0; i < a->count; i++) {
    const entry *e = &a->entries[i];
    OD_TRY(od_fail_context(e->step->run(s, e->parameters, od_key_name(od_key_mix(key, i), e->name)), "%s", e->name));
  }
  return OD_OK;
}
