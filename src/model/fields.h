/* What this program does with every field of pipeline.config: used, irrelevant, or not supported yet.
 *
 * Nothing that a config says is passed over in silence. A field is used, or it is named once as having no effect here (the
 * original's queue sizes, for instance), or it is an error with its line, unless it says what would be done anyway (its
 * default). The table is fields_list.c; docs/config-fields.md is made of it; a test sees every used field change something. */
#ifndef OD_MODEL_FIELDS_H
#define OD_MODEL_FIELDS_H

#include "base/report.h"
#include "base/str.h"
#include "model/pipeline.h"

typedef enum { OD_FIELD_USED, OD_FIELD_IRRELEVANT, OD_FIELD_UNSUPPORTED } od_field_state;
/* "used", "no effect", "not supported yet". */
const char *od_field_state_text(od_field_state state);

/* What a config is read for; bits that may be joined. Sections that no purpose at hand reads are not looked at. */
enum {
  OD_FOR_TRAIN = 1,      /* the legacy trainer */
  OD_FOR_EVAL = 2,       /* the legacy evaluator */
  OD_FOR_MODEL_MAIN = 4, /* both in one */
  OD_FOR_EXPORT = 8,
  OD_FOR_DETECT = 16,
  OD_FOR_ALL = 31
};

typedef struct {
  const char
      *name; /* "Ssd.num_classes": message type and field; "CenterNet.*": all fields of a message and of those inside it
                       (never for used ones) */
  od_field_state state;
  unsigned by;      /* purposes that read it; others pass over a section, and name a value as having no effect */
  const char *text; /* why, or what to know; "" when there is nothing to add */
} od_field_rule;

/* The table, in the schema's order. */
const od_field_rule *od_field_rules(size_t *n);

/* The rule for a field of a message type: its own, or that of the innermost "Message.*"; NULL when the table lacks it. */
const od_field_rule *od_field_rule_of(const ProtobufCMessageDescriptor *type, const ProtobufCFieldDescriptor *field);

/* "Ssd.MaskHead": a type's name without the package. Borrowed. */
const char *od_field_type_name(const ProtobufCMessageDescriptor *type);

/* A field that is set to something other than its default and that nobody uses. */
typedef struct {
  const char *path;  /* "train_config.data_augmentation_options[2].autoaugment_image" */
  const char *place; /* "pipeline.config:12:5", "--set", or "" */
  od_field_state state;
  const od_field_rule *rule;
} od_field_note;

/* Calls note for every such field that one of the purposes would read. What it is given is borrowed. OD_ENOMEM alone. */
OD_MUST_CHECK od_status od_fields_visit(const od_pipeline *p, unsigned purposes,
                                        void (*note)(void *ctx, const od_field_note *n), void *ctx);

/* Refuses the first field that is not supported (OD_EUNSUPPORTED with file, line, column and reason) and names those without
 * effect in one line. To be called once when a command starts. */
OD_MUST_CHECK od_status od_fields_check(const od_pipeline *p, unsigned purposes, const od_reporter *r);

/* Every message type that a pipeline.config can hold, in the order of first appearance; *n of them, od_free. */
OD_MUST_CHECK od_status od_field_types(const ProtobufCMessageDescriptor ***out, size_t *n);

/* Appends the whole table as Markdown: docs/config-fields.md. */
OD_MUST_CHECK od_status od_fields_document(od_str *out);

#endif
