/* The GraphDef as bytes. Everything but big constants goes through a small buffer; a constant's data is handed to the file
 * from where it lies, so that writing 250 MB of weights holds no second copy of them.
 * GraphDef: node = 1, versions = 4. NodeDef: name = 1, op = 2, input = 3, attr = 5 (map: key = 1, value = 2).
 * AttrValue.tensor = 8; TensorProto.tensor_content = 4. Constants are written as they lie in memory: little-endian. */
#include <string.h>

#include "graph/emit_tf_impl.h"
#include "io/wire.h"

/* Who wrote it: a version that TensorFlow from 1.8 on accepts (a consumer refuses only producers older than it can read, and
 * graphs that ask for a newer consumer; we ask for none). */
enum { PRODUCER = 27 };

/* Marks what a tensor needs. A list of work instead of recursion: graphs are deep. */
static od_status mark_needed(const od_tf *t, tf_node ***work, size_t *cap, size_t *n, const char *tensor) {
  tf_node *node = od_tf_find(t, tensor);
  if (!node) return od_fail(OD_EINVAL, "no TensorFlow node makes '%s'", tensor);
  if (node->needed) return OD_OK;
  node->needed = true;
  OD_TRY(od_grow(work, cap, *n + 1, sizeof **work));
  (*work)[(*n)++] = node;
  return OD_OK;
}

void od_tf_prune(od_tf *t, const char *const *keep, int n) {
  tf_node **work = NULL;
  size_t cap = 0, todo = 0, left = 0;
  od_status st = od_tf_check(t);
  for (size_t i = 0; i < t->n_nodes; i++) t->nodes[i]->needed = false;
  for (int i = 0; i < n && st == OD_OK; i++) st = mark_needed(t, &work, &cap, &todo, keep[i]);
  while (todo && st == OD_OK) {
    const tf_node *node = work[--todo];
    for (int i = 0; i < node->n_in && st == OD_OK; i++) st = mark_needed(t, &work, &cap, &todo, node->in[i]);
  }
  for (size_t i = 0; i < t->n_nodes && st == OD_OK; i++) {
    tf_node *node = t->nodes[i];
    /* a removed node keeps its name, so that no later one takes it and its readers are found to be removed, too */
    if (node->needed || strcmp(node->op, "Placeholder") == 0)
      t->nodes[left++] = node;
    else
      od_free(node->outs), node->outs = NULL, node->cap_outs = 0;
  }
  if (st == OD_OK) t->n_nodes = left;
  od_free(work);
  od_tf_fail(t, st);
}

static size_t bytes_field(size_t size) {
  return 1 + od_wire_varint_size(size) + size;
} /* numbers below 16: a tag of 1 byte */

static size_t tensor_size(const tf_attr *a) { return a->size + (a->content_size ? bytes_field(a->content_size) : 0); }
static size_t value_size(const tf_attr *a) { return a->is_tensor ? bytes_field(tensor_size(a)) : a->size; }
static size_t entry_size(const tf_attr *a) { return bytes_field(strlen(a->name)) + bytes_field(value_size(a)); }

static size_t node_size(const tf_node *n) {
  size_t size = bytes_field(strlen(n->name)) + bytes_field(strlen(n->op));
  for (int i = 0; i < n->n_in; i++) size += bytes_field(strlen(n->in[i]));
  for (const tf_attr *a = n->attrs; a; a = a->next) size += bytes_field(entry_size(a));
  return size;
}

static void put_head(od_str *s, uint32_t number, size_t size) {
  od_wire_raw_varint(s, number << 3 | OD_WIRE_BYTES);
  od_wire_raw_varint(s, size);
}

/* Where bytes go: a file, or a text that is kept. */
typedef struct {
  od_file *file;
  od_str *text; /* collects; emptied into the file when there is one */
} sink;

static od_status sink_drain(sink *k) {
  OD_TRY(od_str_check(k->text));
  if (!k->file || !k->text->len) return OD_OK;
  OD_TRY(od_file_write(k->file, k->text->data, k->text->len));
  od_str_clear(k->text);
  return OD_OK;
}

static od_status write_node(sink *k, const tf_node *n) {
  od_str *s = k->text;
  put_head(s, 1, node_size(n));
  od_wire_put_text(s, 1, n->name);
  od_wire_put_text(s, 2, n->op);
  for (int i = 0; i < n->n_in; i++) od_wire_put_text(s, 3, n->in[i]);
  for (const tf_attr *a = n->attrs; a; a = a->next) {
    put_head(s, 5, entry_size(a));
    od_wire_put_text(s, 1, a->name);
    put_head(s, 2, value_size(a));
    if (a->is_tensor) put_head(s, 8, tensor_size(a));
    od_str_add_bytes(s, a->bytes, a->size);
    if (!a->content_size) continue;
    put_head(s, 4, a->content_size);
    if (!k->file) {
      od_str_add_bytes(s, a->content, a->content_size);
      continue;
    }
    OD_TRY(sink_drain(k));
    OD_TRY(od_file_write(k->file, a->content, a->content_size));
  }
  return s->len > 1 << 16 ? sink_drain(k) : od_str_check(s);
}

static size_t versions_size(void) { return 1 + od_wire_varint_size(PRODUCER); }

od_status od_tf_size(size_t *size, const od_tf *t) {
  OD_TRY(od_tf_check(t));
  *size = bytes_field(versions_size());
  for (size_t i = 0; i < t->n_nodes; i++) *size += bytes_field(node_size(t->nodes[i]));
  return OD_OK;
}

static od_status write_all(sink *k, const od_tf *t) {
  OD_TRY(od_tf_check(t));
  for (size_t i = 0; i < t->n_nodes; i++) OD_TRY(write_node(k, t->nodes[i]));
  put_head(k->text, 4, versions_size());
  od_wire_put_varint(k->text, 1, PRODUCER);
  return sink_drain(k);
}

od_status od_tf_write(const od_tf *t, od_file *file) {
  od_str text = OD_STR_INIT;
  sink k = {file, &text};
  od_status st = write_all(&k, t);
  od_str_free(&text);
  return st;
}

od_status od_tf_pack(od_str *out, const od_tf *t) {
  sink k = {NULL, out};
  return write_all(&k, t);
}
