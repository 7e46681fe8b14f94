/* Walking a config by its descriptors with the table in hand; see fields.h. */
#include "model/fields.h"

#include <string.h>

#include "base/mem.h"

static const char package[] = "object_detection.protos.";

const char *od_field_state_text(od_field_state state) {
  static const char *const texts[] = {"used", "no effect", "not supported yet"};
  return texts[state];
}

const char *od_field_type_name(const ProtobufCMessageDescriptor *type) {
  return od_starts_with(type->name, package) ? type->name + sizeof package - 1 : type->name;
}

/* Does "CenterNet.*" cover the type "CenterNet.MaskEstimation"? Length of what fits, 0: no. */
static size_t covers(const char *rule, const char *type) {
  size_t n = strlen(rule);
  if (n < 3 || strcmp(rule + n - 2, ".*") != 0 || strncmp(rule, type, n - 2) != 0) return 0;
  return type[n - 2] == 0 || type[n - 2] == '.' ? n : 0;
}

const od_field_rule *od_field_rule_of(const ProtobufCMessageDescriptor *type, const ProtobufCFieldDescriptor *field) {
  size_t n, best = 0;
  const od_field_rule *rules = od_field_rules(&n), *found = NULL;
  const char *name = od_field_type_name(type);
  size_t len = strlen(name);
  for (size_t i = 0; i < n; i++) {
    const char *r = rules[i].name;
    if (strncmp(r, name, len) == 0 && r[len] == '.' && strcmp(r + len + 1, field->name) == 0) return &rules[i];
    size_t fit = covers(r, name);
    if (fit > best) {
      best = fit;
      found = &rules[i];
    }
  }
  return found;
}

/* ------------------------------------------------------------------------------------------------------------- visiting */
typedef struct {
  const od_textpos *pos;
  unsigned purposes;
  void (*note)(void *, const od_field_note *);
  void *ctx;
  od_str path, place;
} visit;

static bool is_default(const ProtobufCFieldDescriptor *f, const void *value) {
  static const union {
    char bytes[16];
    ProtobufCBinaryData data;
  } zero;
  if (f->label == PROTOBUF_C_LABEL_REPEATED) return false;
  if (f->type == PROTOBUF_C_TYPE_STRING) {
    const char *text = *(const char *const *)value, *standard = f->default_value;
    return strcmp(text ? text : "", standard ? standard : "") == 0;
  }
  if (f->type == PROTOBUF_C_TYPE_BYTES) return false;
  return memcmp(value, f->default_value ? f->default_value : zero.bytes, od_proto_size(f->type)) == 0;
}

static void tell(visit *v, const void *message, const ProtobufCFieldDescriptor *f, size_t i, const od_field_rule *rule,
                 od_field_state state) {
  od_textplace at;
  od_str_clear(&v->place);
  if (od_textpos_find(v->pos, message, f, i, &at)) {
    if (at.line)
      od_str_addf(&v->place, "%s:%d:%d", at.name, at.line, at.column);
    else
      od_str_add(&v->place, "--set");
  }
  od_field_note n = {od_str_text(&v->path), od_str_text(&v->place), state, rule};
  v->note(v->ctx, &n);
}

static void walk(visit *v, const ProtobufCMessage *message);

/* train, eval and model_main each have fields that the other two pass over: worth a word, unlike those of training while
 * evaluating. */
static bool of_another_program(const od_field_rule *rule, unsigned purposes) {
  bool one = rule->by == OD_FOR_TRAIN || rule->by == OD_FOR_EVAL || rule->by == OD_FOR_MODEL_MAIN;
  return one && !(rule->by & purposes);
}

static void look_at(visit *v, const ProtobufCMessage *message, const ProtobufCFieldDescriptor *f, size_t i) {
  const od_field_rule *rule = od_field_rule_of(message->descriptor, f);
  void *value = od_proto_at(message, f, i);
  bool block = f->type == PROTOBUF_C_TYPE_MESSAGE;
  size_t before = v->path.len;
  OD_ASSERT(rule); /* a test goes through the whole schema */
  if (!(rule->by & v->purposes) && block) return;
  od_str_addf(&v->path, "%s%s", before ? "." : "", f->name);
  if (f->label == PROTOBUF_C_LABEL_REPEATED) od_str_addf(&v->path, "[%zu]", i);
  if (rule->state == OD_FIELD_USED && block)
    walk(v, *(ProtobufCMessage **)value);
  else if (rule->state != OD_FIELD_USED && (block || !is_default(f, value)))
    tell(v, message, f, i, rule, rule->state);
  else if (rule->state == OD_FIELD_USED && of_another_program(rule, v->purposes) && !is_default(f, value))
    tell(v, message, f, i, rule, OD_FIELD_IRRELEVANT);
  if (!v->path.failed) {
    v->path.len = before;
    if (v->path.data) v->path.data[before] = 0;
  }
}

static void walk(visit *v, const ProtobufCMessage *message) {
  for (unsigned k = 0; k < message->descriptor->n_fields; k++) {
    const ProtobufCFieldDescriptor *f = &message->descriptor->fields[k];
    if (!od_proto_has(message, f)) continue;
    for (size_t i = 0, n = od_proto_count(message, f); i < n; i++) look_at(v, message, f, i);
  }
}

od_status od_fields_visit(const od_pipeline *p, unsigned purposes, void (*note)(void *ctx, const od_field_note *n),
                          void *ctx) {
  visit v = {.pos = p->pos, .purposes = purposes, .note = note, .ctx = ctx};
  walk(&v, &p->config->base);
  od_status st = od_str_check(&v.path);
  if (st == OD_OK) st = od_str_check(&v.place);
  od_str_free(&v.path);
  od_str_free(&v.place);
  return st;
}

/* ------------------------------------------------------------------------------------------------------------- checking */
typedef struct {
  od_status st;
  od_str idle; /* names of fields without effect */
} verdict;

static void judge(void *ctx, const od_field_note *n) {
  verdict *v = ctx;
  if (n->state == OD_FIELD_UNSUPPORTED && v->st == OD_OK)
    v->st = od_fail(OD_EUNSUPPORTED, "%s%s%s is not supported yet%s%s", n->place, *n->place ? ": " : "", n->path,
                    *n->rule->text ? ": " : "", n->rule->text);
  if (n->state == OD_FIELD_IRRELEVANT) od_str_addf(&v->idle, "%s%s", v->idle.len ? ", " : "", n->path);
}

od_status od_fields_check(const od_pipeline *p, unsigned purposes, const od_reporter *r) {
  verdict v = {.st = OD_OK};
  od_status st = od_fields_visit(p, purposes, judge, &v);
  if (st == OD_OK) st = v.st;
  if (st == OD_OK) st = od_str_check(&v.idle);
  if (st == OD_OK && v.idle.len)
    od_info(r, "without effect here (objdet config --fields says why): %s", od_str_text(&v.idle));
  od_str_free(&v.idle);
  return st;
}
