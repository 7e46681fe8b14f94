/* Protocol buffers through protobuf-c: memory from od_alloc, and questions about messages that are asked by descriptor.
 *
 * The schemas lie in io/proto (our own text, wire-compatible with the original's); protoc-c makes C structs and
 * descriptors of them. What is here works on any message through its descriptor: the text format, `check`, the table of
 * used fields and the path setter are built on it. */
#ifndef OD_IO_PROTOBUF_H
#define OD_IO_PROTOBUF_H

#include <protobuf-c/protobuf-c.h>

#include "base/status.h"

/* The allocator to hand to protobuf-c's unpack and free_unpacked, so that its blocks are counted and failable like ours
 * (what it unpacks must be freed through it). Borrowed, for ever. */
ProtobufCAllocator *od_proto_allocator(void);

/* A new message of this type with all defaults; NULL with a message of the thread when memory is short. Free it with
 * od_proto_free. */
void *od_proto_new(const ProtobufCMessageDescriptor *type);

/* Frees a message made by od_proto_new, od_proto_unpack, od_proto_clone or the text parser, with all it holds. */
void od_proto_free(void *message);

/* Reads the wire format. *out is the caller's. OD_EDATA when the bytes are not a message of this type. */
OD_MUST_CHECK od_status od_proto_unpack(void *out_message, const ProtobufCMessageDescriptor *type, const void *bytes,
                                        size_t size);

/* Writes the wire format: *out_bytes (od_free) of *out_size bytes. */
OD_MUST_CHECK od_status od_proto_pack(uint8_t **out_bytes, size_t *out_size, const void *message);

/* A deep copy, through the wire format. */
OD_MUST_CHECK od_status od_proto_clone(void *out_message, const void *message);

/* The last part of the type's name ("TrainConfig"). Borrowed. */
const char *od_proto_type_name(const ProtobufCMessageDescriptor *type);

/* The field of that name, or NULL. (protobuf-c's own search calls strcmp on a sorted table; this one takes a length.) */
const ProtobufCFieldDescriptor *od_proto_field(const ProtobufCMessageDescriptor *type, const char *name, size_t len);

/* Whether the field is set: present (proto2), chosen (oneof), not the zero value (proto3), or holds at least one element
 * (repeated). */
bool od_proto_has(const void *message, const ProtobufCFieldDescriptor *field);

/* Number of elements of a repeated field; 1 or 0 for others, as od_proto_has. */
size_t od_proto_count(const void *message, const ProtobufCFieldDescriptor *field);

/* Address of the value: of the i-th element when repeated, of the member itself otherwise (i = 0). Its type is that of
 * the generated struct: char * for strings, ProtobufCMessage * for messages, ProtobufCBinaryData, float, ... For a field
 * that is not set it is the default. Borrowed; i < od_proto_count for repeated fields. */
void *od_proto_at(const void *message, const ProtobufCFieldDescriptor *field, size_t i);

/* The field set among the members of the oneof that `field` belongs to, or NULL. */
const ProtobufCFieldDescriptor *od_proto_chosen(const void *message, const ProtobufCFieldDescriptor *field);

/* Unsets a field: frees what it holds and puts the default back. */
void od_proto_clear(void *message, const ProtobufCFieldDescriptor *field);

/* Appends an element (repeated), or makes the field set and returns its place (after clearing what was there; other
 * members of a oneof are cleared too). *out points to zeroed room for the value; for messages a new empty message is
 * already there. *cap is the caller's knowledge of the array's capacity (0: unknown, grows by one; start with 0 when
 * another field or message is meant). */
OD_MUST_CHECK od_status od_proto_add(void **out_value, void *message, const ProtobufCFieldDescriptor *field,
                                     size_t *cap);

/* Frees the last element of a repeated field that has one. */
void od_proto_drop_last(void *message, const ProtobufCFieldDescriptor *field);

/* Moves a field, set or not, with all its elements, from one message to another of the same type; what was there is
 * cleared, and in `from` the field is unset afterwards. */
void od_proto_move(void *to, void *from, const ProtobufCFieldDescriptor *field);

/* Bytes of one element of this type inside the struct. */
size_t od_proto_size(ProtobufCType type);

/* Whether the field is a map: a repeated entry message {key, value}. protobuf-c has no mark for it; the compiler's
 * naming rule (FieldNameEntry inside the message) tells. */
bool od_proto_is_map(const ProtobufCMessageDescriptor *type, const ProtobufCFieldDescriptor *field);

#endif
