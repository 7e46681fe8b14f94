/* The table of fields as a page; see fields.h. */
#include <string.h>

#include "base/mem.h"
#include "model/fields.h"

static const char *const kinds[] = {
    [PROTOBUF_C_TYPE_INT32] = "int32",    [PROTOBUF_C_TYPE_SINT32] = "int32",   [PROTOBUF_C_TYPE_SFIXED32] = "int32",
    [PROTOBUF_C_TYPE_INT64] = "int64",    [PROTOBUF_C_TYPE_SINT64] = "int64",   [PROTOBUF_C_TYPE_SFIXED64] = "int64",
    [PROTOBUF_C_TYPE_UINT32] = "uint32",  [PROTOBUF_C_TYPE_FIXED32] = "uint32", [PROTOBUF_C_TYPE_UINT64] = "uint64",
    [PROTOBUF_C_TYPE_FIXED64] = "uint64", [PROTOBUF_C_TYPE_FLOAT] = "float",    [PROTOBUF_C_TYPE_DOUBLE] = "double",
    [PROTOBUF_C_TYPE_BOOL] = "bool",      [PROTOBUF_C_TYPE_STRING] = "string",  [PROTOBUF_C_TYPE_BYTES] = "bytes",
};

static od_status add_type(const ProtobufCMessageDescriptor ***list, size_t *n, size_t *cap,
                          const ProtobufCMessageDescriptor *type) {
  for (size_t i = 0; i < *n; i++)
    if ((*list)[i] == type) return OD_OK;
  OD_TRY(od_grow(list, cap, *n + 1, sizeof **list));
  (*list)[(*n)++] = type;
  for (unsigned k = 0; k < type->n_fields; k++)
    if (type->fields[k].type == PROTOBUF_C_TYPE_MESSAGE) OD_TRY(add_type(list, n, cap, type->fields[k].descriptor));
  return OD_OK;
}

od_status od_field_types(const ProtobufCMessageDescriptor ***out, size_t *n) {
  size_t cap = 0;
  *out = NULL;
  *n = 0;
  od_status st = add_type(out, n, &cap, &object_detection__protos__train_eval_pipeline_config__descriptor);
  if (st != OD_OK) od_free(*out);
  return st;
}

static void add_default(od_str *s, const ProtobufCFieldDescriptor *f) {
  const void *d = f->default_value;
  if (f->label == PROTOBUF_C_LABEL_REPEATED || f->type == PROTOBUF_C_TYPE_MESSAGE || !d) return;
  switch (f->type) {
  case PROTOBUF_C_TYPE_BOOL: od_str_add(s, *(const protobuf_c_boolean *)d ? "true" : "false"); break;
  case PROTOBUF_C_TYPE_FLOAT: od_str_addf(s, "%.7g", (double)*(const float *)d); break;
  case PROTOBUF_C_TYPE_UINT32: od_str_addf(s, "%u", *(const uint32_t *)d); break;
  case PROTOBUF_C_TYPE_INT32: od_str_addf(s, "%d", *(const int32_t *)d); break;
  case PROTOBUF_C_TYPE_STRING: od_str_add(s, (const char *)d); break;
  case PROTOBUF_C_TYPE_ENUM: {
    const ProtobufCEnumValue *e = protobuf_c_enum_descriptor_get_value(f->descriptor, *(const int *)d);
    od_str_add(s, e ? e->name : "");
    break;
  }
  default: OD_ASSERT(false); /* a type that the schema does not have */
  }
}

static void add_row(od_str *s, const ProtobufCMessageDescriptor *type, const ProtobufCFieldDescriptor *f) {
  const od_field_rule *rule = od_field_rule_of(type, f);
  OD_ASSERT(rule);
  const char *kind = f->type == PROTOBUF_C_TYPE_MESSAGE ? od_field_type_name(f->descriptor)
                     : f->type == PROTOBUF_C_TYPE_ENUM  ? ((const ProtobufCEnumDescriptor *)f->descriptor)->short_name
                                                        : kinds[f->type];
  od_str_addf(s, "| %s | %s%s | ", f->name, kind, f->label == PROTOBUF_C_LABEL_REPEATED ? ", repeated" : "");
  add_default(s, f);
  od_str_addf(s, " | %s | %s |\n", od_field_state_text(rule->state), rule->text);
}

/* The rule when one rule holds for all fields of the type. */
static const od_field_rule *one_for_all(const ProtobufCMessageDescriptor *type) {
  const od_field_rule *rule = type->n_fields ? od_field_rule_of(type, &type->fields[0]) : NULL;
  for (unsigned k = 1; k < type->n_fields; k++)
    if (od_field_rule_of(type, &type->fields[k]) != rule) return NULL;
  return rule && od_ends_with(rule->name, ".*") ? rule : NULL;
}

static void add_section(od_str *s, const ProtobufCMessageDescriptor *type) {
  const od_field_rule *all = one_for_all(type);
  if (type->n_fields == 0 || od_ends_with(type->name, "Entry")) return; /* entries of maps: key and value */
  od_str_addf(s, "\n## %s\n\n", od_field_type_name(type));
  if (all) {
    od_str_addf(s, "All %u fields: %s. %s.\n\n", type->n_fields, od_field_state_text(all->state), all->text);
    for (unsigned k = 0; k < type->n_fields; k++) od_str_addf(s, "%s%s", k ? ", " : "", type->fields[k].name);
    od_str_add(s, "\n");
    return;
  }
  od_str_add(s, "| field | type | default | here | |\n|---|---|---|---|---|\n");
  for (unsigned k = 0; k < type->n_fields; k++) add_row(s, type, &type->fields[k]);
}

od_status od_fields_document(od_str *out) {
  const ProtobufCMessageDescriptor **types;
  size_t n;
  OD_TRY(od_field_types(&types, &n));
  od_str_add(
      out,
      "# Fields of pipeline.config\n\n"
      "Made by `objdet config --fields`; do not edit. For each field:\n\n"
      "- **used**: it changes what is trained, evaluated or exported, as in the original;\n"
      "- **no effect**: it is read, and named once when a command starts;\n"
      "- **not supported yet**: a command that would need it stops and names file, line and column, unless the value "
      "is the\n"
      "  default or the section is not the command's (`detect` and `export_inference_graph` read the model only).\n");
  for (size_t i = 0; i < n; i++) add_section(out, types[i]);
  od_free(types);
  return od_str_check(out);
}
