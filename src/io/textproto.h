/* Protobuf text format (pipeline.config, *.pbtxt, the `checkpoint` file): parser, printer, and setting fields by path.
 *
 * Everything is driven by protobuf-c's descriptors, so any message can be read and written. The grammar is the full one:
 * { } and < >, "field: {" and "field {", [a, b] lists, adjacent strings joined, all escapes, comments (#), fields
 * separated by nothing, commas or semicolons, whole numbers decimal, hexadecimal and octal, floats as .5, 1., 1e-5f, inf,
 * nan, enum values by name or number, map entries, true/t/1 and false/f/0.
 *
 * Policy. What the original silently overwrites is an error here: a field set twice and two members of one oneof name
 * both lines. A block that stands there twice is merged, as the original does it. Errors are one message: file:line:column,
 * what is there and what was expected, the line with a caret, "did you mean", and the likely cause where one is seen
 * (pasted HTML or URL, smart quotes, backslashes, a brace that was never closed). Two fields that the original's schema of
 * 2017 spelled otherwise are read under their old names: FasterRcnn.first_stage_only (now number_of_stages: 1) and
 * SsdFeatureExtractor.batch_norm_trainable: false (now Ssd.freeze_batchnorm: true). */
#ifndef OD_IO_TEXTPROTO_H
#define OD_IO_TEXTPROTO_H

#include "base/str.h"
#include "io/protobuf.h"

/* ---------------------------------------------------------------------------------------------------------- positions */
/* Remembers where each field was set. */
typedef struct od_textpos od_textpos;

/* A place in a text: line and column count from 1, columns in characters. Line 0: not from a file (set by path). */
typedef struct {
  const char *name; /* of the file, or "--set path"; borrowed from the od_textpos */
  int line, column;
} od_textplace;

OD_MUST_CHECK od_status od_textpos_new(od_textpos **out);
void od_textpos_free(od_textpos *pos);

/* Where the i-th element (0 for fields that are not repeated) of this field of this message was set; false when it was
 * not set through pos. The message must still exist. */
bool od_textpos_find(const od_textpos *pos, const void *message, const ProtobufCFieldDescriptor *field, size_t i,
                     od_textplace *out);
/* The same by the field's name; false also when there is no such field. */
bool od_textpos_find_name(const od_textpos *pos, const void *message, const char *field, size_t i, od_textplace *out);
/* Where the block of this message begins; false for the outermost one and for messages not read through pos. */
bool od_textpos_block(const od_textpos *pos, const void *message, od_textplace *out);

/* ------------------------------------------------------------------------------------------------------------ parsing */
/* Reads a text of len bytes as a message of this type. *out_message (a pointer to a pointer of the generated type) is the
 * caller's, free it with od_proto_free; NULL after an error. name stands in front of errors (a file name). pos may be NULL.
 * OD_EINVAL with the message described above when the text is wrong. */
OD_MUST_CHECK od_status od_textproto_parse(void *out_message, const ProtobufCMessageDescriptor *type, const char *name,
                                           const char *text, size_t len, od_textpos *pos);

/* Reads a text on top of a message: values that the text sets replace those there, blocks are merged, elements of
 * repeated fields are appended, a member of a oneof replaces the other. After an error the message holds what was read
 * before it. */
OD_MUST_CHECK od_status od_textproto_merge(void *message, const char *name, const char *text, size_t len,
                                           od_textpos *pos);

/* od_textproto_parse of a whole file (at most 1 GiB). OD_ENOENT, OD_EIO as the file interface says. */
OD_MUST_CHECK od_status od_textproto_load(void *out_message, const ProtobufCMessageDescriptor *type, const char *path,
                                          od_textpos *pos);

/* ----------------------------------------------------------------------------------------------------------- printing */
/* Appends the message as text, as TensorFlow's tools print it (Python's MessageToString): set fields in the order of
 * their numbers, two spaces a level, one line a value, floats in their shortest form, strings escaped to ASCII, map
 * entries sorted by key. Unknown fields of the wire format are left out. */
OD_MUST_CHECK od_status od_textproto_print(od_str *out, const void *message);

/* Prints to a file, atomically. */
OD_MUST_CHECK od_status od_textproto_save(const char *path, const void *message);

/* ------------------------------------------------------------------------------------------------------------ setting */
/* Sets one field by its path, as `--set path=value` does:
 *   train_config.optimizer.momentum_optimizer.learning_rate.constant_learning_rate.learning_rate   0.1
 *   train_input_reader.tf_record_input_reader.input_path[0]   /data/train.record    (quotes are not needed)
 *   train_input_reader.tf_record_input_reader.input_path   [a.record, "b.record"]   (the whole list)
 *   model.ssd.loss   { ... }      (the whole message, in text form; it replaces what is there)
 * Messages on the way are made when missing; another member of a oneof gives way. An index may be one beyond the end
 * (appends). A repeated message without index means its only element (made when there is none). A wrong name or value
 * changes nothing. pos may be NULL; places of what is set have line 0. */
OD_MUST_CHECK od_status od_textproto_set(void *message, const char *path, const char *value, od_textpos *pos);

#endif
