/* Reading VOC annotations with libxml2: no network, no external entities, its own limits against entity bombs. */
#include "data/annotation.h"

#include <math.h>
#include <string.h>

#include <libxml/parser.h>
#include <libxml/tree.h>

#include "base/str.h"
#include "io/file.h"

void od_voc_init(void) { xmlInitParser(); }

static bool is(const xmlNode *n, const char *name) {
  return n->type == XML_ELEMENT_NODE && strcmp((const char *)n->name, name) == 0;
}

/* The last child element of this name, or NULL. */
static const xmlNode *child(const xmlNode *parent, const char *name) {
  const xmlNode *found = NULL;
  for (const xmlNode *n = parent ? parent->children : NULL; n; n = n->next)
    if (is(n, name)) found = n;
  return found;
}

/* Its text without surrounding whitespace, in the arena; `otherwise` when the element is absent or empty. */
static od_status text_of(const char **out, const xmlNode *node, const char *otherwise, od_arena *arena) {
  *out = otherwise;
  xmlChar *raw = node ? xmlNodeGetContent(node) : NULL;
  if (!raw) return OD_OK;
  const char *s = (const char *)raw;
  size_t from = strspn(s, " \t\r\n"), to = strlen(s);
  while (to > from && strchr(" \t\r\n", s[to - 1])) to--;
  char *copy = to > from ? od_arena_alloc(arena, to - from + 1) : NULL;
  bool failed = to > from && !copy;
  if (copy) {
    memcpy(copy, s + from, to - from);
    *out = copy;
  }
  xmlFree(raw);
  return failed ? OD_ENOMEM : OD_OK;
}

static od_status number_of(double *out, const xmlNode *parent, const char *name, bool needed, od_arena *arena) {
  const xmlNode *n = child(parent, name);
  const char *text;
  *out = 0;
  OD_TRY(text_of(&text, n, "", arena));
  if (od_parse_f64(out, text) && isfinite(*out)) return OD_OK;
  if (!needed) {
    *out = 0;
    return OD_OK;
  }
  return od_fail(OD_EDATA, "line %ld: <%s> %s%s%s", xmlGetLineNo((xmlNode *)(n ? n : parent)),
                 n ? name : (const char *)parent->name, n ? "is '" : "has no <", n ? text : name,
                 n ? "', a number is expected" : ">");
}

/* truncated and difficult are 0 or 1; some tools write fractions, and anything else means nothing. */
static int flag_of(double v) { return v > 0 && v < 1e6 ? (int)v : 0; }

static od_status read_object(od_voc_object *o, const xmlNode *node, od_arena *arena) {
  const xmlNode *box = child(node, "bndbox");
  double v;
  OD_TRY(text_of(&o->name, child(node, "name"), "", arena));
  OD_TRY(text_of(&o->pose, child(node, "pose"), "Unspecified", arena));
  OD_TRY(number_of(&v, node, "truncated", false, arena));
  o->truncated = flag_of(v);
  OD_TRY(number_of(&v, node, "difficult", false, arena));
  o->difficult = flag_of(v);
  if (!box) return od_fail(OD_EDATA, "line %ld: <object> '%s' has no <bndbox>", xmlGetLineNo((xmlNode *)node), o->name);
  OD_TRY(number_of(&o->xmin, box, "xmin", true, arena));
  OD_TRY(number_of(&o->ymin, box, "ymin", true, arena));
  OD_TRY(number_of(&o->xmax, box, "xmax", true, arena));
  OD_TRY(number_of(&o->ymax, box, "ymax", true, arena));
  return OD_OK;
}

static od_status read_all(od_voc *out, const xmlNode *root, od_arena *arena) {
  if (!root || !is(root, "annotation"))
    return od_fail(OD_EDATA, "the outermost element is <%s>, <annotation> is expected",
                   root ? (const char *)root->name : "");
  double v;
  OD_TRY(text_of(&out->folder, child(root, "folder"), "", arena));
  OD_TRY(text_of(&out->filename, child(root, "filename"), "", arena));
  const xmlNode *size = child(root, "size");
  if (size) {
    OD_TRY(number_of(&v, size, "width", false, arena));
    out->width = v > 0 && v < 1e9 ? (int)v : 0;
    OD_TRY(number_of(&v, size, "height", false, arena));
    out->height = v > 0 && v < 1e9 ? (int)v : 0;
  }
  size_t n = 0;
  for (const xmlNode *c = root->children; c; c = c->next) n += is(c, "object");
  out->objects = od_arena_alloc(arena, (n + 1) * sizeof *out->objects);
  if (!out->objects) return OD_ENOMEM;
  for (const xmlNode *c = root->children; c; c = c->next)
    if (is(c, "object")) OD_TRY(read_object(&out->objects[out->count++], c, arena));
  return OD_OK;
}

/* libxml2 would write some complaints to stderr whatever its options say; what matters comes back through xmlGetLastError. */
static void silent(void *ctx, xmlErrorPtr error) { (void)ctx, (void)error; }

od_status od_voc_parse(od_voc *out, const void *bytes, size_t size, od_arena *arena) {
  memset(out, 0, sizeof *out);
  if (size > INT32_MAX) return od_fail(OD_EDATA, "%zu bytes are no annotation", size);
  xmlSetStructuredErrorFunc(NULL, silent); /* of this thread */
  xmlDoc *doc = xmlReadMemory(bytes, (int)size, NULL, NULL, XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING);
  if (!doc) {
    const xmlError *e = xmlGetLastError();
    const char *said = e && e->message ? e->message : "it is empty\n";
    return od_fail(OD_EDATA, "line %d: no XML: %.*s", e ? e->line : 1, (int)strcspn(said, "\n"), said);
  }
  od_status st = read_all(out, xmlDocGetRootElement(doc), arena);
  xmlFreeDoc(doc);
  return st;
}

od_status od_voc_load(od_voc *out, const char *path, od_arena *arena) {
  char *data;
  size_t size;
  memset(out, 0, sizeof *out);
  OD_TRY(od_file_read_all(&data, &size, path, (uint64_t)1 << 28));
  od_status st = od_voc_parse(out, data, size, arena);
  od_free(data);
  return od_fail_context(st, "%s", path);
}
